/* verify_view.c - views of memory: which memory, what its indices are, and the axes that they leave. */
#include "verify.h"

#include <string.h>

static AuTileMemory *memory_of(Verify *v, AuTileExpr *e)
{
    if (!e->field) {
        e->memory = find_memory(v, e->name);
        if (!e->memory) verify_error(v, AU_E0703, e->span, "%s is no memory", e->name);
        return e->memory;
    }
    e->var = find_var(v, e->name);
    if (!e->var || e->var->kind != TILE_STAGE) {
        verify_error(v, AU_E0703, e->span, "%s is no stage", e->name);
        return NULL;
    }
    const AuTilePipe *pipe = v->pipe_of[e->var->slot];
    for (uint32_t i = 0; i < pipe->tiles.count; i++)
        if (pipe->tiles.at[i]->name == e->field) return e->memory = pipe->tiles.at[i];
    verify_error(v, AU_E0703, e->span, "pipeline %s has no tile %s", pipe->name, e->field);
    return NULL;
}

/* A view without brackets is all of the memory. */
static void add_all(Verify *v, AuTileExpr *e, uint32_t dimensions)
{
    for (uint32_t i = 0; i < dimensions; i++) {
        AuTileExpr *all = AU_NEW(v->arena, AuTileExpr);
        *all = (AuTileExpr){.op = TILE_X_ALL, .span = e->span};
        AU_PUSH(v->arena, e->args.at, e->args.count, e->args.capacity, all);
    }
    e->has_index = dimensions > 0;
}

typedef TILE_LIST(AuTileAxis) Axes;

/* Adds an axis that one dimension of the view brings. */
static bool add_view_axis(Verify *v, const AuTileExpr *e, Axes *out, AuTileAxis axis)
{
    for (uint32_t i = 0; i < out->count; i++) {
        AuTileAxis *same = &out->at[i];
        if (same->name != axis.name) continue;
        if (same->size != axis.size)
            verify_error(v, AU_E0703, e->span, "axis %s is %d in one index and %d in another",
                         axis.name, same->size, axis.size);
        if (!same->places) same->places = axis.places;
        return same->size == axis.size;
    }
    AU_PUSH(v->arena, out->at, out->count, out->capacity, axis);
    return true;
}

static bool type_of_index(Verify *v, AuTileExpr *index, const AuTileAxis *dimension, Axes *out)
{
    AuTileAxis axis = {.name = dimension->name, .size = dimension->size};
    if (index->op == TILE_X_ALL) {
        if (!axis.size)
            return verify_error(v, AU_E0703, index->span,
                                "the size of %s is not known when compiling: give a span",
                                axis.name);
        return add_view_axis(v, index, out, axis);
    }
    for (uint32_t n = 2; index->op == TILE_X_SPAN && n < index->args.count; n++)
        if (!expect_scalar(v, index->args.at[n], "a limit of a span")) return false;
    if (index->op == TILE_X_SPAN)
        return expect_scalar(v, index->args.at[0], "the begin of a span") &&
               constant(v, index->args.at[1], "the size of a span", &axis.size) &&
               add_view_axis(v, index, out, axis);
    const AuTileType *type = type_of(v, index);
    if (!type) return false;
    if (is_float(type) || type->opaque)
        return verify_error(v, AU_E0703, index->span, "an index is i32, found %s%s",
                            tile_type_text(v, type), type->opaque ? " (opaque)" : "");
    for (uint32_t i = 0; i < type->count; i++)
        if (!add_view_axis(v, index, out, type->axes[i])) return false;
    return true;
}

static bool rename_axes(Verify *v, const AuTileExpr *e, AuTileType *type)
{
    if (!e->names.count) return true;
    if (e->names.count != type->count)
        return verify_error(v, AU_E0703, e->span, "%u names for %u axes", e->names.count,
                            type->count);
    for (uint32_t i = 0; i < type->count; i++) type->axes[i].name = e->names.at[i];
    return true;
}

static AuTileElem as_read(AuTileElem elem)
{
    if (tile_elem(elem)->is_code) return TILE_F32;
    return tile_elem(elem)->memory_only ? TILE_I32 : elem;
}

const AuTileType *type_of_view(Verify *v, AuTileExpr *e)
{
    if (e->op != TILE_X_REF && e->op != TILE_X_NAME)
        return verify_error(v, AU_E0703, e->span, "expected a view of memory");
    e->op = TILE_X_REF;
    const AuTileMemory *m = memory_of(v, e);
    if (!m) return NULL;
    if (!e->has_index) add_all(v, e, m->type.count);
    if (e->args.count != m->type.count)
        return verify_error(v, AU_E0703, e->span, "%s has %u dimensions, found %u indices", e->name,
                            m->type.count, e->args.count);
    Axes axes = {0};
    for (uint32_t i = 0; i < e->args.count; i++)
        if (!type_of_index(v, e->args.at[i], &m->type.axes[i], &axes)) return NULL;
    AuTileType *type = new_type(v, as_read(m->type.elem), axes.count);
    if (axes.count) memcpy(type->axes, axes.at, sizeof *axes.at * axes.count);
    if (!rename_axes(v, e, type) || is_too_large(v, e->span, type)) return NULL;
    return e->type = type;
}

/* Elements read inside an expression: of read-only tensors; a position outside yields 0. */
const AuTileType *type_of_gather(Verify *v, AuTileExpr *e)
{
    const AuTileType *view = type_of_view(v, e);
    if (!view) return NULL;
    if (e->memory->mode != TILE_IN)
        return verify_error(v, AU_E0703, e->span, "%s is written by this kernel: load it", e->name);
    return is_float(view) ? retyped(v, view, TILE_F32) : view;
}

const AuTileType *type_of_operand(Verify *v, AuTileExpr *e)
{
    const AuTileVar *var = e->op == TILE_X_NAME ? find_var(v, e->name) : NULL;
    const bool is_view = e->op == TILE_X_REF || (e->op == TILE_X_NAME && !var);
    return is_view ? type_of_view(v, e) : type_of(v, e);
}
