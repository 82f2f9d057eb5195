/* boxes.c - copies that a unit of its own makes: boxes of tensors into stages of pipelines, and out of shared memory.
 *
 *     async copy k[b, h, n * 64 +: 64, :] -> x.K      tma_load @K[stage], @k[0, n * 64, h, b], @key_full[stage] if one lane
 *     t = async copy x.O -> o[..] clip; wait t        tma_store, bulk_commit; bulk_wait
 *
 * One lane issues them. A map has the tensor's axes, the last first: scalar indices are boxes of one, spans begin at a coordinate,
 * and what lies outside of the tensor is 0 on the way in and left out on the way out. So is what lies behind the end of a span "from 0 to e",
 * which begins at a row that there is: such maps have a dimension that is cut. The box lies in shared memory row after row;
 * rows longer than the swizzle are several boxes side by side. Sizes of a map are the tensor's extents; strides are those with which
 * the tensor comes, which the launch knows. */
#include "internal.h"

enum { MOST = 256 }; /* elements of a box along an axis */

typedef struct Box {
    const AuTileStmt *s;
    const AuTileExpr *shared, *global;
    bool load;
    AuMap map;
    AuVal at[AU_MAP_RANK]; /* coordinates */
    AuVal end;             /* of the dimension that is cut */
    int32_t elements;
} Box;

/* "from 0 to e": nothing is before the first row in any case. */
static bool ends_early(const AuTileExpr *index)
{
    const AuTileExpr *low = tile_is_limited(index) ? index->args.at[2] : NULL;
    return low && low->op == TILE_X_INT && low->integer == 0;
}

/* Boxes end where the tensor does, or a map's cut says; a copy with other limits, or with a condition, is one of lanes. */
static bool has_other_limits(const AuTileExpr *e)
{
    uint32_t cuts = 0, others = 0;
    for (uint32_t n = 0; e->has_index && n < e->args.count; n++) {
        const AuTileExpr *index = e->args.at[n];
        if (!index || !tile_is_limited(index)) continue;
        if (ends_early(index) && n + 1 < e->args.count && e->args.count < AU_MAP_RANK)
            cuts++;
        else
            others++;
    }
    return others || cuts > 1;
}

bool lower_is_bulk(const AuTileStmt *s)
{
    if (s->kind != TILE_S_MOVE || !s->move.is_async) return false;
    if (s->move.dest->memory->pipe) return !s->move.when && !has_other_limits(s->move.source);
    return s->move.dest->memory->space == TILE_GLOBAL;
}

static bool moves_boxes_of(const AuTileStmts *body, const AuTileMemory *m)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) found |= moves_boxes_of(parts.bodies[i], m);
        found |= lower_is_bulk(s) && (s->move.source->memory == m || s->move.dest->memory == m);
    }
    return found;
}

bool lower_has_map(const AuLower *l, const AuTileMemory *m)
{
    bool found = false;
    if (m->packed.kind) return false;
    for (uint32_t n = 0; n < l->tile->roles.count && !found; n++)
        found = moves_boxes_of(&l->tile->roles.at[n]->body, m);
    return found;
}

/* Rows of the dimension end where the copy says (kernel_coordinates). */
static void cut(AuLower *l, Box *x, uint32_t n, uint32_t d)
{
    AuKernel *k = l->k;
    x->end =
        kernel_op2(k, AU_K_MAX, lower_as(l, lower_end(l, x->global, n), AU_I32), kernel_i32(k, 0));
    const AuVal rows = lower_as(l, lower_memory(l, x->global->memory)->extents[n], AU_I32);
    x->at[d] = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_SUB, rows, x->end), x->at[d]);
    x->map.cut = d;
}

/* One dimension of the tensor; [d] counts from the last. */
static bool set_dimension(AuLower *l, Box *x, uint32_t n, uint32_t d)
{
    const AuTileExpr *index = x->global->has_index ? x->global->args.at[n] : NULL;
    const AuTileAxis *axis = &x->global->memory->type.axes[n];
    const char *name = lower_view_axis(x->global, n);
    int32_t size = 1;
    x->at[d] = kernel_i32(l->k, 0);
    if (name) {
        size = tile_axis(x->global->type, name)->size;
        if (index && index->op == TILE_X_SPAN) x->at[d] = lower_integer(l, index->args.at[0]);
        if (tile_is_limited(index)) cut(l, x, n, d);
    } else if (index->type && index->type->count) {
        lower_refuse(l, "a copy of rows that a vector of indices chooses");
        return false;
    } else
        x->at[d] = lower_integer(l, index);
    x->map.box[d] = (uint32_t)size;
    x->map.size[d] = lower_launch_expr(l, axis->extent);
    return !l->failed;
}

/* Does the view lie in its memory as one piece, its axes in the order of the other view's? */
static bool is_whole_piece(const Box *x)
{
    const AuTileExpr *e = x->shared;
    const AuTileType *type = &e->memory->type, *other = x->global->type;
    bool spans = false;
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileExpr *index = e->has_index ? e->args.at[n] : NULL;
        const bool all = !index || index->op == TILE_X_ALL;
        if (spans && !all) return false;
        spans |= all || index->op == TILE_X_SPAN;
    }
    bool same = e->type->count == other->count;
    for (uint32_t n = 0; n < other->count && same; n++)
        same = e->type->axes[n].name == other->axes[n].name;
    return same;
}

static bool set_box(AuLower *l, Box *x)
{
    const AuTileMemory *m = x->global->memory;
    const AuLowerMemory *place = lower_memory(l, x->shared->memory);
    const uint32_t rank = m->type.count;
    const AuTileExpr *last = x->global->has_index ? x->global->args.at[rank - 1] : NULL;
    if (rank > AU_MAP_RANK) lower_refuse(l, "%s, which has more axes than a map", m->name);
    if (x->s->move.when) lower_refuse(l, "a copy of boxes under a condition");
    if (has_other_limits(x->global))
        lower_refuse(l, "a copy of boxes with limits of its own at both ends");
    if (l->failed || !is_whole_piece(x) || (last && lower_view_axis(x->global, rank - 1) == NULL)) {
        lower_refuse(l, "a copy whose two sides do not lie alike");
        return false;
    }
    x->map = (AuMap){.name = lower_plain_name(l, m->name),
                     .mem = lower_memory(l, m)->mem,
                     .rank = rank,
                     .swizzle = l->k->mems[place->mem.i].swizzle,
                     .span = x->s->span};
    for (uint32_t n = 0; n < rank; n++)
        if (!set_dimension(l, x, n, rank - 1 - n)) return false;
    if (place->part && x->shared->type->count > 2)
        lower_refuse(l, "a copy of parts of more than two axes");
    if (place->part) x->map.box[0] = (uint32_t)place->part;
    for (uint32_t n = 0; n < rank; n++)
        if (x->map.box[n] > MOST)
            lower_refuse(l, "a box of more than %d along axis %s", MOST,
                         m->type.axes[rank - 1 - n].name);
    x->elements = (int32_t)tile_elements(x->shared->type);
    return !l->failed;
}

static bool same_map(const AuMap *a, const AuMap *b)
{
    bool same =
        a->mem.i == b->mem.i && a->swizzle == b->swizzle && a->rank == b->rank && a->cut == b->cut;
    for (uint32_t d = 0; d < a->rank && same; d++) same = a->box[d] == b->box[d];
    return same;
}

static uint32_t map_of(AuLower *l, const AuMap *map)
{
    for (uint32_t n = 0; n < l->k->map_count; n++)
        if (same_map(&l->k->maps[n], map)) return n;
    return kernel_map(l->k, *map);
}

/* The part of the box whose first column is [column]. */
static void move_part(AuLower *l, const Box *x, uint32_t map, int32_t column)
{
    AuKernel *k = l->k;
    const AuTileType *view = x->shared->type;
    const AuVal lane = lower_one_lane(l);
    AuPoint p = {.count = view->count};
    for (uint32_t n = 0; n < view->count; n++)
        p.at[n] = (AuCoord){.axis = view->axes[n].name,
                            .index = kernel_i32(k, n + 1 == view->count ? column : 0)};
    AuCopyEnds ends = {.shared = lower_memory(l, x->shared->memory)->mem,
                       .global = x->map.mem,
                       .shared_at = lower_address(l, x->shared, &p, OUTSIDE_TRUSTED, NULL, false)};
    for (uint32_t d = 0; d < x->map.rank; d++) ends.at[d] = x->at[d];
    ends.at[0] = kernel_op2(k, AU_K_ADD, ends.at[0], kernel_i32(k, column));
    if (x->map.cut) ends.at[x->map.rank] = x->end;
    if (x->load)
        kernel_box_load(k, map, &ends, lower_filled(l, x->shared->memory->pipe),
                        lower_stage_of(l, x->shared->var), lane);
    else
        kernel_box_store(k, x->s->move.op == TILE_REDUCE_ADD ? AU_K_TMA_REDUCE_ADD : AU_K_TMA_STORE,
                         map, &ends, lane);
}

/* ---- packed tiles: rows of bytes */

/* Does the view consist of whole pieces? */
static bool is_of_pieces(const AuTileExpr *e)
{
    const AuTileMemory *m = e->memory;
    const uint32_t last = m->type.count - 1;
    bool whole = m->packed.kind && e->type->count == 2;
    for (uint32_t n = 0; n < 2 && whole; n++) {
        const int32_t piece = m->piece->axes[n].size;
        const AuTileExpr *index = e->has_index ? e->args.at[last - 1 + n] : NULL;
        whole = lower_view_axis(e, last - 1 + n) && e->type->axes[n].size % piece == 0 &&
                lower_starts_at(index, piece) && !(index && tile_is_limited(index));
    }
    return whole;
}

/* Are they alike on both sides, on their way out of shared memory? */
static bool do_pieces_leave(const AuTileStmt *s)
{
    const AuTileMemory *a = s->move.source->memory, *b = s->move.dest->memory;
    return a->space == TILE_SHARED && b->space == TILE_GLOBAL && is_of_pieces(s->move.source) &&
           is_of_pieces(s->move.dest) && a->packed.atom == b->packed.atom &&
           a->packed.use == b->packed.use && a->type.elem == b->type.elem && !s->move.when;
}

/* A row of pieces after the other; all at once where they lie so on both sides. */
static void move_pieces(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileExpr *from = s->move.source, *to = s->move.dest;
    if (!do_pieces_leave(s)) {
        lower_refuse(l, "a bulk copy of packed tiles that is none of the same whole pieces out of "
                        "shared memory");
        return;
    }
    const AuPacked *a = lower_memory(l, from->memory)->packed,
                   *b = lower_memory(l, to->memory)->packed;
    const AuTileAxis *axes = from->type->axes, *piece = a->piece->axes;
    const int32_t across = axes[1].size / piece[1].size, rows = axes[0].size / piece[0].size,
                  bytes = tile_elem(from->memory->type.elem)->bytes;
    const bool once = across == a->across && across == b->across;
    const AuCopyEnds first = {.shared = lower_memory(l, from->memory)->mem,
                              .global = lower_memory(l, to->memory)->mem,
                              .shared_at = lower_packed_start(l, from),
                              .at = {lower_packed_start(l, to)}};
    for (int32_t row = 0; row < (once ? 1 : rows); row++) {
        AuCopyEnds ends = first;
        ends.shared_at =
            kernel_op2(k, AU_K_ADD, first.shared_at, kernel_i32(k, row * a->across * a->size));
        ends.at[0] =
            kernel_op2(k, AU_K_ADD, first.at[0], kernel_i64(k, (int64_t)row * b->across * b->size));
        kernel_bulk_store(k, s->move.op == TILE_REDUCE_ADD ? AU_K_BULK_REDUCE_ADD : AU_K_BULK_STORE,
                          &ends, kernel_i32(k, (once ? rows : 1) * across * a->size * bytes),
                          lower_one_lane(l));
    }
    kernel_bulk_commit(k);
}

void lower_bulk(AuLower *l, const AuTileStmt *s)
{
    if (s->move.source->memory->packed.kind || s->move.dest->memory->packed.kind) {
        move_pieces(l, s);
        return;
    }
    Box x = {.s = s, .load = s->move.dest->memory->space != TILE_GLOBAL};
    x.shared = x.load ? s->move.dest : s->move.source;
    x.global = x.load ? s->move.source : s->move.dest;
    if (x.shared->memory->space != TILE_SHARED || x.global->memory->space != TILE_GLOBAL) {
        lower_refuse(l, "a bulk copy between other than global and shared memory");
        return;
    }
    if (!set_box(l, &x)) return;
    const AuTileType *view = x.shared->type;
    const int32_t columns = view->axes[view->count - 1].size, step = (int32_t)x.map.box[0];
    const uint32_t map = map_of(l, &x.map);
    for (int32_t column = 0; column < columns; column += step) move_part(l, &x, map, column);
    if (!x.load) {
        kernel_bulk_commit(l->k);
        return;
    }
    AuHeld *held = lower_held(l, x.shared->var);
    if (held->depth != l->k->depth)
        lower_refuse(l, "a copy into a stage that was acquired outside of this branch");
    held->bytes += x.elements * tile_elem(x.shared->memory->type.elem)->bytes;
}
