/* verify_vars.c - variables of a role, and the layouts of fragments. */
#include "verify.h"

/* ---- variables */

static bool same_type(const AuTileType *a, const AuTileType *b)
{
    bool same =
        a->elem == b->elem && a->count == b->count && a->opaque == b->opaque && a->use == b->use;
    for (uint32_t n = 0; n < a->count && same; n++) {
        const AuTileAxis *x = &a->axes[n], *y = &b->axes[n];
        same = x->name == y->name && x->size == y->size && !x->places == !y->places &&
               (!x->places || tile_same_places(x->places, y->places));
    }
    return same;
}

/* Loops over the segments of a list have the same variables, as they have the same names. */
static AuTileVar *var_of_segment(const Verify *v, const char *name, AuTileVarKind kind,
                                 const AuTileType *type)
{
    for (uint32_t n = 0; v->loop && kind == TILE_VALUE && n < v->role->vars.count; n++) {
        AuTileVar *var = v->role->vars.at[n];
        if (var->name == name && var->kind == kind && var->origin == TILE_FROM_BODY && var->loop &&
            var->loop != v->loop && var->loop->loop.list == v->loop->loop.list &&
            same_type(var->type, type))
            return var;
    }
    return NULL;
}

AuTileVar *declare(Verify *v, const char *name, AuTileVarKind kind, const AuTileType *type)
{
    if (find_var(v, name) || find_memory(v, name)) {
        verify_error(v, AU_E0702, v->stmt->span, "%s is the name of something else already", name);
        return NULL;
    }
    AuTileVar *var = var_of_segment(v, name, kind, type);
    if (var) {
        var->loop = v->loop;
        AU_PUSH(v->arena, v->visible.at, v->visible.count, v->visible.capacity, var);
        return var;
    }
    var = AU_NEW(v->arena, AuTileVar);
    *var = (AuTileVar){
        .name = name, .kind = kind, .type = type, .slot = v->role->vars.count, .loop = v->loop};
    for (uint32_t i = 0; type && i < type->count; i++)
        var->is_fragment |= type->axes[i].places != NULL;
    if (type && type->opaque) var->is_fragment = true;
    AU_PUSH(v->arena, v->role->vars.at, v->role->vars.count, v->role->vars.capacity, var);
    AU_PUSH(v->arena, v->visible.at, v->visible.count, v->visible.capacity, var);
    v->pipe_of = au_grow(v->arena, v->pipe_of, var->slot, &v->pipe_capacity, sizeof *v->pipe_of);
    v->pipe_of[var->slot] = NULL;
    return var;
}

/* May a value of this type go into the variable? It may lack axes, which are then repeated. */
bool fits(Verify *v, const AuTileVar *var, const AuTileType *value)
{
    const AuTileType *type = var->type;
    if (value->elem != type->elem)
        return verify_error(v, AU_E0703, v->stmt->span, "%s is %s, the value is %s", var->name,
                            tile_type_text(v, type), tile_type_text(v, value));
    if ((value->opaque || type->opaque) && value->count &&
        (value->opaque != type->opaque || value->use != type->use))
        return verify_error(v, AU_E0704, v->stmt->span, "%s and the value have different layouts",
                            var->name);
    for (uint32_t i = 0; i < value->count; i++) {
        const AuTileAxis *from = &value->axes[i], *to = tile_axis(type, from->name);
        if (!to || to->size != from->size)
            return verify_error(v, AU_E0703, v->stmt->span, "%s is %s, the value is %s", var->name,
                                tile_type_text(v, type), tile_type_text(v, value));
        if (from->places && !to->places)
            return verify_error(
                v, AU_E0704, v->stmt->span,
                "axis %s of %s has no home and that of the value has: declare %s a fragment",
                from->name, var->name, var->name);
        if (from->places && !tile_same_places(from->places, to->places))
            return verify_error(v, AU_E0704, v->stmt->span,
                                "axis %s of %s lives in other lanes than in the value; convert it",
                                from->name, var->name);
    }
    return true;
}

/* The variable of that name, made if it is new; the value must fit it. */
AuTileVar *set_value(Verify *v, const char *name, const AuTileType *type)
{
    AuTileVar *var = find_var(v, name);
    if (!var) return declare(v, name, TILE_VALUE, type);
    if (var->kind != TILE_VALUE || var->origin != TILE_FROM_BODY) {
        verify_error(v, AU_E0703, v->stmt->span, "%s cannot be assigned", name);
        return NULL;
    }
    return fits(v, var, type) ? var : NULL;
}

AuTileVar *set_handle(Verify *v, const char *name, AuTileVarKind kind)
{
    AuTileVar *var = find_var(v, name);
    if (!var) return declare(v, name, kind, NULL);
    if (var->kind == kind) return var;
    verify_error(v, AU_E0703, v->stmt->span, "%s is no %s", name,
                 kind == TILE_STAGE ? "stage" : "token");
    return NULL;
}

/* ---- layouts */

static bool like_places(Verify *v, const AuTileLayoutRef *layout, AuTileType *type)
{
    const AuTileVar *var = find_var(v, layout->name);
    if (!var || var->kind != TILE_VALUE)
        return verify_error(v, AU_E0703, layout->span, "%s is no fragment", layout->name);
    if (var->type->opaque && (var->type->count != type->count))
        return verify_error(v, AU_E0704, layout->span,
                            "%s is opaque: only a whole fragment can have its layout",
                            layout->name);
    for (uint32_t i = 0; i < type->count; i++) {
        const AuTileAxis *axis = tile_axis(var->type, type->axes[i].name);
        if (!axis || axis->size != type->axes[i].size)
            return verify_error(v, AU_E0704, layout->span, "%s has no axis %s of %d", layout->name,
                                type->axes[i].name, type->axes[i].size);
        type->axes[i].places = axis->places;
    }
    type->opaque = var->type->opaque;
    type->use = var->type->use;
    return true;
}

static bool atom_places(Verify *v, const AuTileLayoutRef *layout, AuTileType *type)
{
    const AuTileAtom *atom = layout->atom;
    if (type->count != 2)
        return verify_error(v, AU_E0704, layout->span, "%s.%s is a layout of two axes", atom->name,
                            tile_use_names[layout->use]);
    if (!tile_has_atom(v->module->caps, atom))
        return verify_error(v, AU_E0708, layout->span, "%s has no %s", v->module->caps->name,
                            atom->name);
    for (int axis = 0; axis < 2; axis++) {
        const int32_t unit = tile_atom_extent(atom, layout->use, axis),
                      size = type->axes[axis].size;
        if (size % unit)
            return verify_error(v, AU_E0704, layout->span,
                                "axis %s of %d is no multiple of %d (%s.%s)", type->axes[axis].name,
                                size, unit, atom->name, tile_use_names[layout->use]);
        type->axes[axis].places = tile_atom_places(v->arena, atom, layout->use, axis, size);
    }
    if (atom->opaque) {
        type->opaque = atom;
        type->use = layout->use;
        type->axes[0].places = type->axes[1].places = NULL;
    } else if (atom->memory >> layout->use & 1) {
        return verify_error(v, AU_E0704, layout->span, "operand %s of %s lives in memory",
                            tile_use_names[layout->use], atom->name);
    }
    return true;
}

static bool named_places(Verify *v, const AuTileLayoutRef *layout, AuTileType *type)
{
    const AuTileLayout *named = NULL;
    for (uint32_t i = 0; i < v->module->layouts.count; i++)
        if (v->module->layouts.at[i]->name == layout->name) named = v->module->layouts.at[i];
    if (!named) return verify_error(v, AU_E0702, layout->span, "unknown layout %s", layout->name);
    if (type->count > 2 || type->count == 0)
        return verify_error(v, AU_E0704, layout->span, "%s is a layout of one or two axes",
                            layout->name);
    for (uint32_t i = 0; i < type->count; i++) {
        AuTileAxis *axis = &type->axes[i];
        axis->places = tile_places(v->arena, i ? &named->cols : &named->rows, axis->size);
        if (!axis->places)
            return verify_error(v, AU_E0704, layout->span,
                                "the digits of %s do not divide axis %s of %d", layout->name,
                                axis->name, axis->size);
    }
    return true;
}

bool place(Verify *v, const AuTileLayoutRef *layout, AuTileType *type)
{
    switch (layout->kind) {
    case TILE_NO_LAYOUT: return true;
    case TILE_LIKE: return like_places(v, layout, type);
    case TILE_OF_ATOM: return atom_places(v, layout, type);
    case TILE_NAMED: return named_places(v, layout, type);
    }
    return false;
}

/* A type with sizes from a declared one. */
AuTileType *sized(Verify *v, const AuTileType *declared)
{
    AuTileType *type = new_type(v, declared->elem, declared->count);
    for (uint32_t i = 0; i < declared->count; i++) {
        type->axes[i] = declared->axes[i];
        if (!constant(v, declared->axes[i].extent, "an extent", &type->axes[i].size)) return NULL;
    }
    return type;
}
