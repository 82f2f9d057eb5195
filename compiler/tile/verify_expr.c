/* verify_expr.c - types of expressions: element type, axes with extents, and where each axis lives.
 * One rule of layouts for all operations on numbers: on a common axis the places must be equal, and different axes must use
 * different bits of the lane, else the operands come from different layouts. */
#include "verify.h"

#include <string.h>

const char *tile_type_text(Verify *v, const AuTileType *type)
{
    AuText text = {.arena = v->arena};
    au_text_add(&text, "%s", tile_elem(type->elem)->name);
    for (uint32_t i = 0; i < type->count; i++)
        au_text_add(&text, "%s%s:%d", i ? ", " : "[", type->axes[i].name, type->axes[i].size);
    if (type->count) au_text_add(&text, "]");
    return au_text_str(&text);
}

AuTileType *new_type(Verify *v, AuTileElem elem, uint32_t axes)
{
    AuTileType *type = AU_NEW(v->arena, AuTileType);
    type->elem = elem;
    type->count = axes;
    type->axes = AU_NEW_ARRAY(v->arena, AuTileAxis, axes);
    return type;
}

static const AuTileType *scalar_type(Verify *v, AuTileElem elem) { return new_type(v, elem, 0); }

/* The same axes and places with another element type. */
const AuTileType *retyped(Verify *v, const AuTileType *type, AuTileElem elem)
{
    AuTileType *copy = AU_NEW(v->arena, AuTileType);
    *copy = *type;
    copy->elem = elem;
    return copy;
}

bool is_float(const AuTileType *type) { return tile_elem(type->elem)->is_float; }

/* ---- the elementwise rule */

static bool merge_opaque(Verify *v, AuSpan span, const AuTileType *const *types, uint32_t count,
                         const AuTileType *home)
{
    for (uint32_t i = 0; i < count; i++) {
        const AuTileType *t = types[i];
        const bool same =
            t->opaque == home->opaque && t->use == home->use && t->count == home->count;
        if (t->count == 0 || same) continue;
        verify_error(
            v, AU_E0704, span,
            "an opaque fragment can only meet scalars and fragments of the same opaque layout; "
            "go through shared memory to see its elements");
        return false;
    }
    return true;
}

static bool merge_axis(Verify *v, AuSpan span, AuTileType *out, const AuTileAxis *axis)
{
    for (uint32_t i = 0; i < out->count; i++) {
        AuTileAxis *same = &out->axes[i];
        if (same->name != axis->name) continue;
        if (same->size != axis->size) {
            verify_error(v, AU_E0703, span, "axis %s is %d in one operand and %d in another",
                         axis->name, same->size, axis->size);
            return false;
        }
        if (!same->places) same->places = axis->places;
        if (axis->places && !tile_same_places(same->places, axis->places)) {
            verify_error(v, AU_E0704, span,
                         "axis %s lives in other lanes in one operand than in another", axis->name);
            return false;
        }
        return true;
    }
    out->axes[out->count++] = *axis;
    return true;
}

static bool lanes_are_distinct(Verify *v, AuSpan span, const AuTileType *type)
{
    int32_t used = 0;
    for (uint32_t i = 0; i < type->count; i++) {
        const AuTilePlaces *p = type->axes[i].places;
        int32_t bits = 0;
        for (int32_t n = 0; p && n < p->extent; n++) bits |= p->place[n];
        if (used & bits) {
            verify_error(v, AU_E0704, span, "the axes come from different layouts and share lanes");
            return false;
        }
        used |= bits;
    }
    return true;
}

/* Tiles are what one executor holds: a limit far above any, that keeps mistakes from eating the machine. */
enum { MOST_ALONG_AXIS = 1 << 20, MOST_ELEMENTS = 1 << 24 };

bool is_too_large(Verify *v, AuSpan span, const AuTileType *type)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < type->count && elements <= MOST_ELEMENTS; i++)
        elements *= type->axes[i].size;
    if (elements <= MOST_ELEMENTS && type->count <= TILE_MAX_AXES) return false;
    verify_error(v, AU_E0709, span, "a tile has at most %d elements along %d axes", MOST_ELEMENTS,
                 TILE_MAX_AXES);
    return true;
}

/* The operand whose type is the result's: the others are scalars or of that very type. NULL: there is none. */
static const AuTileType *only_type(const AuTileType *const *types, uint32_t count, AuTileElem elem)
{
    const AuTileType *only = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (types[i]->opaque) return NULL;
        if (only && types[i]->count && only->count && types[i] != only) return NULL;
        if (!only || types[i]->count) only = types[i];
    }
    return only && only->elem == elem ? only : NULL;
}

/* Axes in the order of the operand with most of them, then of the others. */
static const AuTileType *merge(Verify *v, AuSpan span, const AuTileType *const *types,
                               uint32_t count, AuTileElem elem)
{
    uint32_t axes = 0, most = 0;
    const AuTileType *only = only_type(types, count, elem);
    if (only) return only;
    for (uint32_t i = 0; i < count; i++) {
        axes += types[i]->count;
        if (types[i]->opaque) {
            if (!merge_opaque(v, span, types, count, types[i])) return NULL;
            return retyped(v, types[i], elem);
        }
        if (types[i]->count > most) most = types[i]->count;
    }
    AuTileType *out = new_type(v, elem, axes);
    out->count = 0;
    for (uint32_t wanted = most; wanted > 0; wanted--)
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t n = 0; types[i]->count == wanted && n < wanted; n++)
                if (!merge_axis(v, span, out, &types[i]->axes[n])) return NULL;
    return !is_too_large(v, span, out) && lanes_are_distinct(v, span, out) ? out : NULL;
}

static const AuTileType *type_of_operation(Verify *v, AuTileExpr *e)
{
    const AuTileType *types[3] = {0};
    const AuTileResult result = tile_op(e->op)->result;
    bool floats = false;
    for (uint32_t i = 0; i < e->args.count; i++) {
        types[i] = type_of(v, e->args.at[i]);
        if (!types[i]) return NULL;
        floats |= is_float(types[i]) && !(result == TILE_RESULT_WHERE && i == 0);
    }
    if (result == TILE_RESULT_I32 && floats)
        return verify_error(v, AU_E0703, e->span, "%s takes integers", tile_op(e->op)->text);
    const bool f32 = result == TILE_RESULT_F32 || floats;
    const AuTileElem elem = result == TILE_RESULT_BOOL ? TILE_BOOL : f32 ? TILE_F32 : TILE_I32;
    return merge(v, e->span, types, e->args.count, elem);
}

/* ---- names */

AuTileVar *find_var_of_role(const Verify *v, const char *name)
{
    for (uint32_t i = v->visible.count; i-- > 0;)
        if (v->visible.at[i]->name == name) return v->visible.at[i];
    return NULL;
}

AuTileVar *find_var(const Verify *v, const char *name)
{
    AuTileVar *var = v->role ? find_var_of_role(v, name) : NULL;
    for (uint32_t i = 0; !var && i < v->kernel->vars.count; i++)
        if (v->kernel->vars.at[i]->name == name) var = v->kernel->vars.at[i];
    return var;
}

AuTileMemory *find_memory(const Verify *v, const char *name)
{
    for (uint32_t i = 0; i < v->privates.count; i++)
        if (v->privates.at[i]->name == name) return v->privates.at[i];
    for (uint32_t i = 0; i < v->kernel->args.count; i++)
        if (v->kernel->args.at[i]->name == name && v->kernel->args.at[i]->mode != TILE_PARAM)
            return v->kernel->args.at[i];
    for (uint32_t i = 0; i < v->kernel->shared.count; i++)
        if (v->kernel->shared.at[i]->name == name) return v->kernel->shared.at[i];
    return NULL;
}

static const AuTileType *type_of_name(Verify *v, AuTileExpr *e)
{
    e->var = find_var(v, e->name);
    if (e->var && e->var->kind != TILE_VALUE)
        return verify_error(v, AU_E0703, e->span, "%s is a %s, not a value", e->name,
                            e->var->kind == TILE_STAGE ? "stage" : "token");
    if (e->var) return e->var->type;
    if (find_memory(v, e->name)) {
        e->op = TILE_X_REF;
        return type_of(v, e);
    }
    return verify_error(v, AU_E0702, e->span, "unknown name %s", e->name);
}

/* ---- rows with rules of their own */

static const AuTileType *type_of_reduction(Verify *v, AuTileExpr *e)
{
    const AuTileType *x = type_of(v, e->args.at[0]);
    if (!x) return NULL;
    if (x->opaque)
        return verify_error(v, AU_E0704, e->span,
                            "%s of an opaque fragment; go through shared memory",
                            tile_op(e->op)->text);
    for (uint32_t i = 0; i < e->names.count; i++)
        if (!tile_axis(x, e->names.at[i]))
            return verify_error(v, AU_E0703, e->span, "%s: %s has no axis %s", tile_op(e->op)->text,
                                tile_type_text(v, x), e->names.at[i]);
    if (e->op == TILE_X_CUMSUM && e->names.count != 1)
        return verify_error(v, AU_E0703, e->span, "cumsum runs over one axis");
    if (e->op == TILE_X_CUMSUM) return retyped(v, x, TILE_F32);
    AuTileType *out = new_type(v, TILE_F32, x->count);
    out->count = 0;
    for (uint32_t n = 0; n < x->count; n++) {
        bool dropped = false;
        for (uint32_t i = 0; i < e->names.count; i++) dropped |= e->names.at[i] == x->axes[n].name;
        if (!dropped) out->axes[out->count++] = x->axes[n];
    }
    return out;
}

static const AuTileType *type_of_vote(Verify *v, AuTileExpr *e)
{
    const AuTileType *x = type_of(v, e->args.at[0]);
    if (x && (x->elem != TILE_BOOL || x->opaque || tile_is_virtual(x)))
        return verify_error(v, AU_E0703, e->span, "anywhere asks a fragment of truth values");
    return x ? scalar_type(v, TILE_BOOL) : NULL;
}

static const AuTileType *type_of_iota(Verify *v, AuTileExpr *e)
{
    AuTileType *type = new_type(v, TILE_I32, 1);
    type->axes[0].name = e->name;
    return constant(v, e->args.at[0], "an extent", &type->axes[0].size) ? type : NULL;
}

static const AuTileType *type_of_fill(Verify *v, AuTileExpr *e)
{
    const AuTileType *like = type_of(v, e->args.at[0]);
    if (!like || !expect_scalar(v, e->args.at[1], "what a fragment is filled with")) return NULL;
    return retyped(v, like, TILE_F32);
}

static const AuTileType *type_of_cast(Verify *v, AuTileExpr *e, AuTileElem elem)
{
    const AuTileType *x = type_of(v, e->args.at[0]);
    return x ? retyped(v, x, elem) : NULL;
}

static const AuTileType *type_of_list_question(Verify *v, AuTileExpr *e)
{
    for (uint32_t i = 0; e->op != TILE_X_NEXT && i < v->kernel->lists.count; i++)
        if (v->kernel->lists.at[i]->name == e->name) e->list = v->kernel->lists.at[i];
    if (e->op == TILE_X_NEXT) e->var = find_var(v, e->name);
    const bool found = e->list || (e->var && e->var->list);
    if (!found)
        return verify_error(v, AU_E0702, e->span, "%s is no %s", e->name,
                            e->op == TILE_X_NEXT ? "variable of a loop over a tile list"
                                                 : "tile list");
    return scalar_type(v, TILE_I32);
}

static const AuTileType *own_rule(Verify *v, AuTileExpr *e)
{
    switch ((int)e->op) {
    case TILE_X_INT:
        if (e->integer != (int32_t)e->integer)
            return verify_error(v, AU_E0703, e->span, "%lld does not fit i32",
                                (long long)e->integer);
        return scalar_type(v, TILE_I32);
    case TILE_X_FLOAT: return scalar_type(v, TILE_F32);
    case TILE_X_BOOL: return scalar_type(v, TILE_BOOL);
    case TILE_X_NAME: return type_of_name(v, e);
    case TILE_X_TO_F32: return type_of_cast(v, e, TILE_F32);
    case TILE_X_TO_F16: return type_of_cast(v, e, TILE_F16);
    case TILE_X_TO_BF16: return type_of_cast(v, e, TILE_BF16);
    case TILE_X_TO_I32: return type_of_cast(v, e, TILE_I32);
    case TILE_X_TO_BOOL: return type_of_cast(v, e, TILE_BOOL);
    case TILE_X_FILL: return type_of_fill(v, e);
    case TILE_X_ANYWHERE: return type_of_vote(v, e);
    case TILE_X_REDUCE_MAX:
    case TILE_X_REDUCE_MAXNAN:
    case TILE_X_REDUCE_TOP:
    case TILE_X_REDUCE_SUM:
    case TILE_X_CUMSUM: return type_of_reduction(v, e);
    case TILE_X_IOTA: return type_of_iota(v, e);
    case TILE_X_REF: return type_of_gather(v, e);
    case TILE_X_FIRST:
    case TILE_X_COUNT:
    case TILE_X_NEXT: return type_of_list_question(v, e);
    }
    return verify_error(v, AU_E0703, e->span, "%s is no value here", tile_op(e->op)->text);
}

const AuTileType *type_of(Verify *v, AuTileExpr *e)
{
    const bool own = tile_op(e->op)->result == TILE_RESULT_OWN;
    const AuTileType *type = own ? own_rule(v, e) : type_of_operation(v, e);
    return e->type = type;
}

/* ---- what must be scalar or constant */

bool expect_scalar(Verify *v, AuTileExpr *e, const char *what)
{
    const AuTileType *type = type_of(v, e);
    if (type && type->count)
        verify_error(v, AU_E0703, e->span, "%s is a scalar, found %s", what,
                     tile_type_text(v, type));
    return type && !type->count;
}

bool constant(Verify *v, const AuTileExpr *e, const char *what, int32_t *value)
{
    if (e->op == TILE_X_INT && e->integer > MOST_ALONG_AXIS)
        return verify_error(v, AU_E0709, e->span, "%s is at most %d, found %lld", what,
                            MOST_ALONG_AXIS, (long long)e->integer);
    if (e->op != TILE_X_INT || e->integer < 1) {
        AuText text = {.arena = v->arena};
        tile_print_expr(e, &text);
        return verify_error(v, AU_E0703, e->span,
                            "%s must be positive and known when compiling: %s", what,
                            au_text_str(&text));
    }
    *value = (int32_t)e->integer;
    return true;
}

bool same_axes(const AuTileType *a, const AuTileType *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const AuTileAxis *axis = tile_axis(b, a->axes[i].name);
        if (!axis || axis->size != a->axes[i].size) return false;
    }
    return true;
}
