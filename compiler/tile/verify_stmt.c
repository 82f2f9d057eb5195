/* verify_stmt.c - types of statements: what they declare and set, products, copies, and what the target has for them. A role is
 * walked once: a variable keeps its type, so loops need no second look. */
#include "verify.h"

/* ---- variables */

static AuTileVar *declare(Verify *v, const char *name, AuTileVarKind kind, const AuTileType *type)
{
    if (find_var(v, name) || find_memory(v, name)) {
        verify_error(v, AU_E0702, v->stmt->span, "%s is the name of something else already", name);
        return NULL;
    }
    AuTileVar *var = AU_NEW(v->arena, AuTileVar);
    *var = (AuTileVar){.name = name, .kind = kind, .type = type, .slot = v->role->vars.count};
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
static bool fits(Verify *v, const AuTileVar *var, const AuTileType *value)
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
static AuTileVar *set_value(Verify *v, const char *name, const AuTileType *type)
{
    AuTileVar *var = find_var(v, name);
    if (!var) return declare(v, name, TILE_VALUE, type);
    if (var->kind != TILE_VALUE || var->origin != TILE_FROM_BODY) {
        verify_error(v, AU_E0703, v->stmt->span, "%s cannot be assigned", name);
        return NULL;
    }
    return fits(v, var, type) ? var : NULL;
}

static AuTileVar *set_handle(Verify *v, const char *name, AuTileVarKind kind)
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

static bool place(Verify *v, const AuTileLayoutRef *layout, AuTileType *type)
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
static AuTileType *sized(Verify *v, const AuTileType *declared)
{
    AuTileType *type = new_type(v, declared->elem, declared->count);
    for (uint32_t i = 0; i < declared->count; i++) {
        type->axes[i] = declared->axes[i];
        if (!constant(v, declared->axes[i].extent, "an extent", &type->axes[i].size)) return NULL;
    }
    return type;
}

/* ---- declarations and assignments */

static bool do_frag(Verify *v, AuTileStmt *s)
{
    AuTileType *type = sized(v, &s->frag.type);
    if (!type || is_too_large(v, s->span, type)) return false;
    if (tile_elem(type->elem)->memory_only)
        return verify_error(v, AU_E0703, s->span, "no fragment has elements of %s",
                            tile_elem(type->elem)->name);
    if (!place(v, &s->frag.layout, type)) return false;
    s->frag.type = *type;
    s->var = declare(v, s->frag.name, TILE_VALUE, type);
    if (!s->var) return false;
    v->role->fragment_registers += tile_registers(type, v->module->caps->lanes);
    if (!s->frag.init) return true;
    const AuTileType *init = type_of(v, s->frag.init);
    return init && fits(v, s->var, init);
}

static bool do_private(Verify *v, AuTileStmt *s)
{
    AuTileMemory *m = s->memory;
    if (!v->module->caps->has_private)
        return verify_error(v, AU_E0708, s->span, "%s has no private memory",
                            v->module->caps->name);
    if (find_var(v, m->name) || find_memory(v, m->name))
        return verify_error(v, AU_E0702, s->span, "%s is the name of something else already",
                            m->name);
    const AuTileType *type = sized(v, &m->type);
    if (!type || is_too_large(v, s->span, type)) return false;
    m->type = *type;
    m->stages = 1;
    AU_PUSH(v->arena, v->privates.at, v->privates.count, v->privates.capacity, m);
    return true;
}

static bool do_assign(Verify *v, AuTileStmt *s)
{
    const AuTileType *type = type_of(v, s->assign.value);
    if (!type) return false;
    s->var = set_value(v, s->assign.names.at[0], type);
    return s->var != NULL;
}

static bool do_convert(Verify *v, AuTileStmt *s)
{
    const AuTileType *from = type_of(v, s->convert.source);
    if (!from) return false;
    if (from->opaque)
        return verify_error(v, AU_E0704, s->span,
                            "an opaque fragment cannot be converted; go through shared memory");
    AuTileType *type = new_type(v, from->elem, from->count);
    for (uint32_t i = 0; i < from->count; i++) type->axes[i] = from->axes[i];
    if (!place(v, &s->convert.layout, type)) return false;
    s->var = set_value(v, s->convert.name, type);
    return s->var != NULL;
}

/* ---- memory */

/* The guard `when`: scalars, or axes of the view. */
static bool check_guard(Verify *v, AuTileExpr *when, const AuTileType *view)
{
    if (!when) return true;
    const AuTileType *type = type_of(v, when);
    if (!type) return false;
    for (uint32_t i = 0; i < type->count; i++) {
        const AuTileAxis *axis = tile_axis(view, type->axes[i].name);
        if (!axis || axis->size != type->axes[i].size)
            return verify_error(v, AU_E0703, when->span, "the guard is %s, the view is %s",
                                tile_type_text(v, type), tile_type_text(v, view));
    }
    return true;
}

static bool check_pad(Verify *v, AuTileExpr *pad)
{
    return !pad || expect_scalar(v, pad, "the padding");
}

/* A warp reaches only its own quarter of the rows of tensor memory, a lane a row. */
static bool by_row(Verify *v, const AuTileMemory *m, const AuTileType *view, const AuTileType *tile)
{
    if (m->space != TILE_TENSOR) return true;
    AuTileDigits digits;
    const AuTileAxis *row = view->count ? tile_axis(tile, view->axes[0].name) : NULL;
    if (v->role->on == TILE_ON_WARPGROUP && row && row->places &&
        tile_digits("lane:32@1 warp:4", &digits) &&
        tile_same_places(row->places, tile_places(v->arena, &digits, row->size)))
        return true;
    return verify_error(
        v, AU_E0704, v->stmt->span,
        "tensor memory is reached by a warpgroup, a lane a row: axis %s is laid out otherwise",
        view->count ? view->axes[0].name : "");
}

static bool do_load(Verify *v, AuTileStmt *s)
{
    const AuTileType *view = type_of_view(v, s->load.source);
    if (!view || !check_guard(v, s->load.when, view) || !check_pad(v, s->load.pad)) return false;
    AuTileType *type = new_type(v, view->elem, view->count + (s->load.across != NULL));
    for (uint32_t i = 0; i < view->count; i++)
        type->axes[i] = (AuTileAxis){.name = view->axes[i].name, .size = view->axes[i].size};
    if (s->load.across) {
        AuTileAxis *axis = &type->axes[view->count];
        axis->name = s->load.across;
        if (!constant(v, s->load.across_extent, "an extent", &axis->size)) return false;
    }
    if (is_too_large(v, s->span, type)) return false;
    const AuTileVar *old = find_var(v, s->load.name);
    AuTileLayoutRef layout = s->load.layout;
    if (layout.kind == TILE_NO_LAYOUT && old && old->kind == TILE_VALUE)
        layout = (AuTileLayoutRef){.kind = TILE_LIKE, .name = s->load.name, .span = s->span};
    else if (layout.kind == TILE_NO_LAYOUT && type->count)
        return verify_error(v, AU_E0704, s->span,
                            "a load needs a layout (@ or like), or a declared fragment");
    if (!place(v, &layout, type) || !by_row(v, s->load.source->memory, view, type)) return false;
    s->var = set_value(v, s->load.name, type);
    return s->var != NULL;
}

static bool same_axes(const AuTileType *a, const AuTileType *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const AuTileAxis *axis = tile_axis(b, a->axes[i].name);
        if (!axis || axis->size != a->axes[i].size) return false;
    }
    return true;
}

static bool needs_async(Verify *v, const char *what, AuTileAsync op)
{
    if (v->module->caps->is_async & op) return true;
    return verify_error(v, AU_E0708, v->stmt->span, "%s cannot be async on %s", what,
                        v->module->caps->name);
}

static bool check_async_move(Verify *v, AuTileStmt *s)
{
    const bool copies = s->move.op == TILE_COPY;
    if (!copies && s->move.op != TILE_REDUCE_ADD)
        return verify_error(v, AU_E0708, s->span, "%s is never async", tile_move_names[s->move.op]);
    if (!needs_async(v, tile_move_names[s->move.op],
                     copies ? TILE_ASYNC_COPY : TILE_ASYNC_REDUCE_ADD))
        return false;
    if (s->move.source->type->elem != s->move.dest->type->elem)
        return verify_error(v, AU_E0703, s->span, "an async copy does not convert: %s -> %s",
                            tile_elem(s->move.source->type->elem)->name,
                            tile_elem(s->move.dest->type->elem)->name);
    const AuTileExpr *pad = s->move.pad;
    if (pad && !((pad->op == TILE_X_INT && pad->integer == 0) ||
                 (pad->op == TILE_X_FLOAT && pad->number == 0)))
        return verify_error(v, AU_E0708, pad->span, "an async copy can only pad with 0");
    if (copies && s->move.dest->memory->pipe) {
        if (s->move.token)
            return verify_error(v, AU_E0706, s->span,
                                "a copy into a stage reports to the pipeline, not to a token");
        return true;
    }
    if (!s->move.token)
        return verify_error(v, AU_E0705, s->span,
                            "an async copy needs a token, or a stage as its destination");
    s->var = set_handle(v, s->move.token, TILE_TOKEN);
    return s->var != NULL;
}

static bool do_move(Verify *v, AuTileStmt *s)
{
    const AuTileType *dest = type_of_view(v, s->move.dest);
    if (!dest) return false;
    const AuTileMemory *m = s->move.dest->memory;
    if (m->mode == TILE_IN) return verify_error(v, AU_E0703, s->span, "%s is read only", m->name);
    const bool reads = s->move.op == TILE_COPY || s->move.op == TILE_REDUCE_ADD;
    const AuTileType *source = reads ? type_of_view(v, s->move.source) : type_of(v, s->move.source);
    if (!source) return false;
    if (source->elem != dest->elem && s->move.op != TILE_COPY)
        return verify_error(v, AU_E0703, s->span, "%s value, %s memory",
                            tile_elem(source->elem)->name, tile_elem(m->type.elem)->name);
    if (!reads && !by_row(v, m, dest, source)) return false;
    if (!same_axes(source, dest) && (source->count || reads))
        return verify_error(v, AU_E0703, s->span, "%s -> %s", tile_type_text(v, source),
                            tile_type_text(v, dest));
    if (!check_guard(v, s->move.when, dest) || !check_pad(v, s->move.pad)) return false;
    if (s->move.pad && !reads)
        return verify_error(v, AU_E0703, s->span, "only a load or copy pads");
    return !s->move.is_async || check_async_move(v, s);
}

/* ---- products */

/* Element type and home of one operand; `free` is its axis that is not contracted. */
static bool check_operand(Verify *v, const AuTileStmt *s, const AuTileExpr *e,
                          const AuTileType *type, AuTileUse use, const AuTileAxis *free)
{
    const AuTileAtom *atom = s->product.atom;
    const char *name = tile_use_names[use];
    if (!(atom->elems >> type->elem & 1))
        return verify_error(v, AU_E0703, e->span,
                            "operand %s of %s must be rounded to an operand type, it is %s", name,
                            atom->name, tile_elem(type->elem)->name);
    if (e->op == TILE_X_REF) {
        const AuTileSpace space = e->memory->space;
        if (space == TILE_GLOBAL && !(atom->native >> use & 1 && atom->on & 1u << TILE_ON_THREAD))
            return verify_error(v, AU_E0703, e->span,
                                "operand %s of %s cannot come from global memory", name,
                                atom->name);
        if (space == TILE_TENSOR && !(atom->tensor && use == TILE_A))
            return verify_error(v, AU_E0704, e->span, "operand %s of %s cannot be in tensor memory",
                                name, atom->name);
        return true;
    }
    if (atom->memory >> use & 1)
        return verify_error(v, AU_E0704, e->span, "operand %s of %s must be in memory", name,
                            atom->name);
    if (type->opaque != (atom->opaque ? atom : NULL) || (type->opaque && type->use != use))
        return verify_error(v, AU_E0704, e->span, "operand %s is not in layout %s.%s", name,
                            atom->name, name);
    const AuTilePlaces *want = tile_atom_places(v->arena, atom, use, use == TILE_B, free->size);
    if (!atom->opaque && (!free->places || !tile_same_places(free->places, want)))
        return verify_error(v, AU_E0704, e->span,
                            "axis %s of operand %s is not where %s.%s wants it; convert it",
                            free->name, name, atom->name, name);
    return true;
}

static const AuTileAxis *common_axis(const AuTileType *a, const AuTileType *b, uint32_t *count)
{
    const AuTileAxis *common = NULL;
    *count = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (tile_axis(b, a->axes[i].name)) {
            common = &a->axes[i];
            ++*count;
        }
    return common;
}

static const AuTileAxis *other_axis(const AuTileType *type, const char *name)
{
    return type->axes[0].name == name ? &type->axes[1] : &type->axes[0];
}

static const AuTilePlaces *places_in_registers(const AuTileExpr *e, const AuTileType *type,
                                               const char *axis)
{
    return e->op == TILE_X_REF ? NULL : tile_axis(type, axis)->places;
}

static bool check_contraction(Verify *v, AuTileStmt *s, const AuTileType *a, const AuTileType *b,
                              const AuTileAxis *k)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTilePlaces *ka = places_in_registers(s->product.a, a, k->name);
    const AuTilePlaces *kb = places_in_registers(s->product.b, b, k->name);
    if (atom->opaque || tile_contraction_matches(atom, ka, kb, k->size)) return true;
    return verify_error(v, AU_E0704, s->span,
                        "axis %s of operand %s is not where %s wants it; convert it", k->name,
                        ka && kb ? "A and B"
                        : ka     ? "A"
                                 : "B",
                        atom->name);
}

/* Both operands and the type of the result, [m, n] of f32. */
static bool check_product(Verify *v, AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTileType *a = type_of_operand(v, s->product.a),
                     *b = a ? type_of_operand(v, s->product.b) : NULL;
    if (!b) return false;
    uint32_t common;
    const AuTileAxis *k = common_axis(a, b, &common);
    if (a->count != 2 || b->count != 2 || common != 1)
        return verify_error(v, AU_E0703, s->span,
                            "operands must have two axes each and one in common: %s, %s",
                            tile_type_text(v, a), tile_type_text(v, b));
    const AuTileAxis *m = other_axis(a, k->name), *n = other_axis(b, k->name);
    if (tile_axis(b, k->name)->size != k->size)
        return verify_error(v, AU_E0703, s->span, "axis %s is %d in A and %d in B", k->name,
                            k->size, tile_axis(b, k->name)->size);
    if (m->size % atom->m || n->size % atom->n || k->size % atom->k)
        return verify_error(v, AU_E0703, s->span,
                            "%d x %d x %d is no multiple of %d x %d x %d (%s)", m->size, n->size,
                            k->size, atom->m, atom->n, atom->k, atom->name);
    if (!check_operand(v, s, s->product.a, a, TILE_A, m) ||
        !check_operand(v, s, s->product.b, b, TILE_B, n))
        return false;
    if (a->elem != b->elem && !(atom->elems >> TILE_F32 & 1))
        return verify_error(v, AU_E0703, s->span, "operands of %s are of one type, found %s and %s",
                            atom->name, tile_elem(a->elem)->name, tile_elem(b->elem)->name);
    AuTileType *c = new_type(v, TILE_F32, 2);
    c->axes[0] = (AuTileAxis){.name = m->name, .size = m->size};
    c->axes[1] = (AuTileAxis){.name = n->name, .size = n->size};
    for (int axis = 0; axis < 2 && !atom->opaque; axis++)
        c->axes[axis].places = tile_atom_places(v->arena, atom, TILE_C, axis, c->axes[axis].size);
    if (atom->opaque) c->opaque = atom, c->use = TILE_C;
    s->product.contracted = k->name;
    s->product.result = c;
    return check_contraction(v, s, a, b, k);
}

static bool into_memory(Verify *v, AuTileStmt *s)
{
    const AuTileType *dest = type_of_view(v, s->product.dest), *c = s->product.result;
    if (!dest) return false;
    const AuTileMemory *m = s->product.dest->memory;
    if (s->product.when && !expect_scalar(v, s->product.when, "the condition to add")) return false;
    if (m->space != TILE_TENSOR || m->type.elem != TILE_F32 || !same_axes(dest, c))
        return verify_error(v, AU_E0703, s->span, "%s into %s memory %s", tile_type_text(v, c),
                            tile_space_names[m->space], tile_type_text(v, dest));
    s->var = set_handle(v, s->product.name, TILE_TOKEN);
    return s->var != NULL;
}

static bool do_product(Verify *v, AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const char *target = v->module->caps->name;
    if (!check_product(v, s)) return false;
    if (!tile_has_atom(v->module->caps, atom))
        return verify_error(v, AU_E0708, s->span, "%s has no %s", target, atom->name);
    if (!(atom->on >> v->role->on & 1))
        return verify_error(v, AU_E0708, s->span, "%s is executed by a %s, role %s is a %s",
                            atom->name,
                            tile_executor_name(atom->on >> TILE_ON_WARPGROUP & 1 ? TILE_ON_WARPGROUP
                                               : atom->on >> TILE_ON_WARP & 1    ? TILE_ON_WARP
                                                                                 : TILE_ON_THREAD),
                            v->role->name, tile_executor_name(v->role->on));
    if (s->product.is_async != atom->is_async)
        return verify_error(v, AU_E0708, s->span, "%s is %s", atom->name,
                            atom->is_async ? "async" : "not async");
    if ((s->product.dest != NULL) != atom->tensor)
        return verify_error(v, AU_E0703, s->span, "%s %s destination in tensor memory", atom->name,
                            atom->tensor ? "needs a" : "has no");
    if (s->product.dest) return into_memory(v, s);
    if (s->product.add && !find_var(v, s->product.name))
        return verify_error(v, AU_E0702, s->span, "unknown name %s", s->product.name);
    s->var = set_value(v, s->product.name, s->product.result);
    return s->var != NULL;
}

/* ---- waits, stages, barriers */

static bool do_wait(Verify *v, AuTileStmt *s)
{
    s->wait.vars = AU_NEW_ARRAY(v->arena, AuTileVar *, s->wait.names.count);
    for (uint32_t i = 0; i < s->wait.names.count; i++) {
        s->wait.vars[i] = find_var_of_role(v, s->wait.names.at[i]);
        if (!s->wait.vars[i] || s->wait.vars[i]->kind == TILE_STAGE)
            return verify_error(v, AU_E0705, s->span, "%s is not in flight", s->wait.names.at[i]);
    }
    return true;
}

static bool do_stage(Verify *v, AuTileStmt *s, bool produces)
{
    AuTilePipe *pipe = NULL;
    for (uint32_t i = 0; i < v->kernel->pipes.count; i++)
        if (v->kernel->pipes.at[i]->name == s->stage.pipe_name) pipe = v->kernel->pipes.at[i];
    if (!pipe) return verify_error(v, AU_E0702, s->span, "no pipeline %s", s->stage.pipe_name);
    const AuTileRole *side = produces ? pipe->producer : pipe->consumer;
    if (side != v->role)
        return verify_error(v, AU_E0706, s->span, "role %s is no %s of %s", v->role->name,
                            produces ? "producer" : "consumer", pipe->name);
    /* `each` on the other side: this role chooses among its rings. */
    const bool chooses = pipe->each == (produces ? TILE_EACH_CONSUMER : TILE_EACH_PRODUCER);
    if (chooses != (s->stage.index != NULL))
        return verify_error(v, AU_E0706, s->span, "%s %s index here", pipe->name,
                            chooses ? "needs an" : "takes no");
    if (s->stage.index && !expect_scalar(v, s->stage.index, "the number of a ring")) return false;
    s->stage.pipe = pipe;
    s->var = set_handle(v, s->stage.name, TILE_STAGE);
    if (s->var) v->pipe_of[s->var->slot] = pipe;
    return s->var != NULL;
}

static bool do_close(Verify *v, AuTileStmt *s)
{
    s->close.vars = AU_NEW_ARRAY(v->arena, AuTileVar *, s->close.names.count);
    for (uint32_t i = 0; i < s->close.names.count; i++) {
        s->close.vars[i] = find_var_of_role(v, s->close.names.at[i]);
        if (!s->close.vars[i] || s->close.vars[i]->kind != TILE_STAGE)
            return verify_error(v, AU_E0706, s->span, "%s is no stage", s->close.names.at[i]);
    }
    if (!s->close.after) return true;
    if (!v->module->caps->tensor_bytes)
        return verify_error(v, AU_E0708, s->span, "%s cannot signal when a product ends",
                            v->module->caps->name);
    s->close.after_var = find_var_of_role(v, s->close.after);
    if (!s->close.after_var || s->close.after_var->kind != TILE_TOKEN)
        return verify_error(v, AU_E0705, s->span, "%s is not in flight", s->close.after);
    return true;
}

static bool do_barrier(Verify *v, AuTileStmt *s)
{
    for (uint32_t i = 0; i < v->kernel->barriers.count; i++)
        if (v->kernel->barriers.at[i]->name == s->barrier.name)
            s->barrier.barrier = v->kernel->barriers.at[i];
    const AuTileBarrier *b = s->barrier.barrier;
    if (!b) return verify_error(v, AU_E0702, s->span, "no barrier %s", s->barrier.name);
    if ((b->many != NULL) != (s->barrier.index != NULL))
        return verify_error(v, AU_E0703, s->span, "%s %s index", b->name,
                            b->many ? "needs an" : "takes no");
    return !s->barrier.index || expect_scalar(v, s->barrier.index, "the number of a barrier");
}

/* ---- blocks */

static bool walk(Verify *v, AuTileStmts *body);

/* A block whose variables end with it, unless `lasting`. */
static bool walk_block(Verify *v, AuTileStmts *body, bool lasting)
{
    const uint32_t vars = v->visible.count, privates = v->privates.count;
    const bool ok = walk(v, body);
    if (!lasting) v->visible.count = vars;
    v->privates.count = privates;
    return ok;
}

static bool do_for(Verify *v, AuTileStmt *s)
{
    if (s->loop.low && !expect_scalar(v, s->loop.low, "the begin of a loop")) return false;
    if (s->loop.high && !expect_scalar(v, s->loop.high, "the end of a loop")) return false;
    for (uint32_t i = 0; s->loop.list_name && i < v->kernel->lists.count; i++)
        if (v->kernel->lists.at[i]->name == s->loop.list_name)
            s->loop.list = v->kernel->lists.at[i];
    if (s->loop.list_name && !s->loop.list)
        return verify_error(v, AU_E0702, s->span, "no tile list %s", s->loop.list_name);
    s->var = declare(v, s->loop.var_name, TILE_VALUE, new_type(v, TILE_I32, 0));
    if (!s->var) return false;
    s->var->origin = TILE_FROM_LOOP;
    s->var->list = s->loop.list;
    const AuTileExpr *low = s->loop.low, *high = s->loop.high;
    const bool runs = low && high && low->op == TILE_X_INT && high->op == TILE_X_INT &&
                      low->integer < high->integer;
    if (s->loop.list)
        AU_PUSH(v->arena, v->loops.at, v->loops.count, v->loops.capacity, s->loop.list);
    const uint32_t at = v->visible.count - 1;
    const bool ok = walk_block(v, &s->loop.body, runs);
    v->loops.count -= s->loop.list != NULL;
    for (uint32_t i = at; i + 1 < v->visible.count; i++) v->visible.at[i] = v->visible.at[i + 1];
    v->visible.count--;
    return ok;
}

static bool do_on(Verify *v, AuTileStmt *s)
{
    bool found = false;
    for (uint32_t i = 0; i < v->loops.count; i++)
        for (uint32_t g = 0; g < v->loops.at[i]->segments.count; g++)
            found |= v->loops.at[i]->segments.at[g].name == s->on.segment;
    if (!found)
        return verify_error(v, AU_E0702, s->span, "no loop has a segment %s", s->on.segment);
    return walk_block(v, &s->on.body, false);
}

static bool do_if(Verify *v, AuTileStmt *s)
{
    return expect_scalar(v, s->branch.test, "a condition") &&
           walk_block(v, &s->branch.then, false) && walk_block(v, &s->branch.other, false);
}

static bool do_stmt(Verify *v, AuTileStmt *s)
{
    switch (s->kind) {
    case TILE_S_FRAG: return do_frag(v, s);
    case TILE_S_PRIVATE: return do_private(v, s);
    case TILE_S_ASSIGN: return do_assign(v, s);
    case TILE_S_CONVERT: return do_convert(v, s);
    case TILE_S_LOAD: return do_load(v, s);
    case TILE_S_MOVE: return do_move(v, s);
    case TILE_S_PRODUCT: return do_product(v, s);
    case TILE_S_WAIT: return do_wait(v, s);
    case TILE_S_ACQUIRE: return do_stage(v, s, true);
    case TILE_S_WAIT_STAGE: return do_stage(v, s, false);
    case TILE_S_COMMIT:
    case TILE_S_RELEASE: return do_close(v, s);
    case TILE_S_SYNC:
    case TILE_S_ARRIVE: return do_barrier(v, s);
    case TILE_S_FOR: return do_for(v, s);
    case TILE_S_IF: return do_if(v, s);
    case TILE_S_ON: return do_on(v, s);
    case TILE_S_RETURN: return verify_error(v, AU_E0703, s->span, "return outside of a hook");
    }
    return false;
}

static bool walk(Verify *v, AuTileStmts *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        v->stmt = body->at[i];
        if (!do_stmt(v, body->at[i])) return false;
    }
    return true;
}

bool verify_role(Verify *v, AuTileRole *role)
{
    v->role = role;
    v->visible.count = v->privates.count = v->loops.count = 0;
    role->vars.count = 0;
    role->fragment_registers = 0;
    const AuTileStmt nowhere = {.span = role->span};
    v->stmt = &nowhere;
    AuTileVar *self =
        declare(v, au_name(v->module->names, "self"), TILE_VALUE, new_type(v, TILE_I32, 0));
    if (!self) return false;
    self->origin = TILE_FROM_SELF;
    return walk(v, &role->body);
}
