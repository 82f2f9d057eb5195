/* tiles.c - tile lists: how many tiles a block visits, which tile is number t, and to which segment
 * it belongs.
 * In:  a list of segments (ranges up or down, rows of an index tensor). Out: uniform values. A loop
 * over a list is one loop over all segments, where the tile and its segment follow from its number; of
 * one segment, it is that one's.
 * Lists depend on the kernel's scalars only: with warps they are evaluated once, at the top, because
 * copies ask for the first tile before the loop and for the next one inside. */
#include "internal.h"

/* The tile number [t] of a segment; of an index list, element t of its row. */
AuVal lower_tile_of_segment(AuLower *l, const AuSegment *seg, AuVal t)
{
    AuKernel *k = l->k;
    if (seg->s->how == TILE_RANGE) return kernel_op2(k, AU_K_ADD, seg->base, t);
    if (seg->s->how == TILE_DOWN) /* b - 1, b - 2, ..: a is the upper end */
        return kernel_op2(k, AU_K_SUB,
                          kernel_op2(k, AU_K_SUB, kernel_op2(k, AU_K_ADD, seg->base, seg->count),
                                     kernel_i32(k, 1)),
                          t);
    const AuTileExpr *list = seg->s->a;
    const AuVal none = {0}, last = kernel_op2(k, AU_K_MAX,
                                              kernel_op2(k, AU_K_SUB, seg->count, kernel_i32(k, 1)),
                                              kernel_i32(k, 0));
    const AuVal safe = kernel_op2(k, AU_K_MAX, kernel_op2(k, AU_K_MIN, t, last), kernel_i32(k, 0));
    const AuPoint p = {
        .at = {{.axis = list->memory->type.axes[list->memory->type.count - 1].name, .index = safe}},
        .count = 1};
    return kernel_load(k, lower_memory(l, list->memory)->mem,
                       lower_address(l, list, &p, OUTSIDE_CLAMPED, NULL, false), 1, none, none);
}

static AuSegment segment_of(AuLower *l, const AuTileSegment *s)
{
    AuSegment seg = {.s = s};
    const AuVal b = lower_integer(l, s->b);
    if (s->how == TILE_INDEX_LIST) {
        seg.count = b;
        return seg;
    }
    const AuVal a = lower_integer(l, s->a);
    const AuVal low = s->how == TILE_DOWN ? b : a, high = s->how == TILE_DOWN ? a : b;
    seg.base = low;
    seg.count =
        kernel_op2(l->k, AU_K_MAX, kernel_op2(l->k, AU_K_SUB, high, low), kernel_i32(l->k, 0));
    return seg;
}

static AuTiles *tiles_of_list(AuLower *l, const AuTileList *list)
{
    for (uint32_t n = l->r.tiles_count; n-- > 0;)
        if (l->r.tiles[n].list == list) return &l->r.tiles[n];
    return NULL;
}

AuTiles *lower_tiles(AuLower *l, const AuTileList *list)
{
    AuTiles *there = tiles_of_list(l, list);
    if (there) return there;
    if (list->segments.count > LOWER_SEGMENTS || !list->segments.count ||
        l->r.tiles_count == sizeof l->r.tiles / sizeof *l->r.tiles) {
        lower_refuse(l, "this loop over tiles");
        return NULL;
    }
    AuTiles tiles = {.list = list, .total = kernel_i32(l->k, 0)};
    for (uint32_t i = 0; i < list->segments.count; i++) {
        const AuTileSegment *s = &list->segments.at[i];
        const uint32_t n = tiles.count++;
        tiles.at[n] = segment_of(l, s);
        tiles.start[n] = tiles.total;
        tiles.total = kernel_op2(l->k, AU_K_ADD, tiles.total, tiles.at[n].count);
    }
    l->r.tiles[l->r.tiles_count] = tiles;
    return &l->r.tiles[l->r.tiles_count++];
}

AuVal lower_tile_at(AuLower *l, const AuTiles *tiles, AuVal t, AuVal *in_first)
{
    AuKernel *k = l->k;
    const char *first = tiles->at[0].s->name;
    AuVal tile = lower_tile_of_segment(l, &tiles->at[0], t), same = kernel_i1(k, true);
    for (uint32_t n = 1; n < tiles->count; n++) {
        const AuVal here = kernel_op2(k, AU_K_LE, tiles->start[n], t);
        tile = kernel_op3(
            k, AU_K_SELECT, here,
            lower_tile_of_segment(l, &tiles->at[n], kernel_op2(k, AU_K_SUB, t, tiles->start[n])),
            tile);
        const AuVal is_first = kernel_i1(k, tiles->at[n].s->name == first);
        same = kernel_op2(k, AU_K_LOR, kernel_op2(k, AU_K_LAND, here, is_first),
                          kernel_op2(k, AU_K_LAND, kernel_op1(k, AU_K_LNOT, here), same));
    }
    if (in_first) *in_first = same;
    return tile;
}

/* 0 if there is none: what is copied for it is not used. */
AuVal lower_first_tile(AuLower *l, const AuTileList *list)
{
    AuKernel *k = l->k;
    const AuTiles *tiles = lower_tiles(l, list);
    const AuVal zero = kernel_i32(k, 0);
    if (!tiles) return zero;
    return kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_LT, zero, tiles->total),
                      lower_tile_at(l, tiles, zero, NULL), zero);
}

/* The tile of turn [t] or, from there on, the last one. */
static AuVal tile_or_last(AuLower *l, const AuTiles *tiles, AuVal t)
{
    AuKernel *k = l->k;
    const AuVal last = kernel_op2(k, AU_K_SUB, tiles->total, kernel_i32(k, 1));
    return lower_tile_at(l, tiles, kernel_op2(k, AU_K_MIN, t, last), NULL);
}

/* The last tile stays its own successor. */
AuVal lower_next_tile(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    for (uint32_t n = 0; n < l->r.tiles_count; n++) {
        const AuTiles *tiles = &l->r.tiles[n];
        if (tiles->var != var) continue;
        return tiles->next.i
                   ? tiles->next
                   : tile_or_last(l, tiles, kernel_op2(k, AU_K_ADD, tiles->turn, kernel_i32(k, 1)));
    }
    lower_refuse(l, "next(%s) outside of its loop", var->name);
    return kernel_i32(k, 0);
}

/* ---- numbers ahead of their turns: each is found once, and of a list read from memory before anybody waits for it */

static AuVal number_at(AuLower *l, const AuTiles *tiles, int32_t n)
{
    const AuVal none = {0};
    return kernel_load(l->k, tiles->numbers, kernel_i32(l->k, n), 1, none, none);
}

static void set_number(AuLower *l, const AuTiles *tiles, int32_t n, AuVal value)
{
    kernel_store(l->k, tiles->numbers, kernel_i32(l->k, n), value, (AuVal){0});
}

void lower_follow_from(AuLower *l, AuTiles *tiles, AuVal first)
{
    tiles->numbers = (AuMem){0};
    tiles->next = (AuVal){0};
    if (!l->r.unit->looks_ahead || !lower_count(l, tiles->var)->followed) return;
    tiles->numbers = lower_array(l, "tiles", AU_I32, 2);
    for (int32_t n = 0; n < 2; n++)
        set_number(l, tiles, n,
                   tile_or_last(l, tiles, kernel_op2(l->k, AU_K_ADD, first, kernel_i32(l->k, n))));
}

AuVal lower_follow(AuLower *l, AuTiles *tiles)
{
    AuKernel *k = l->k;
    if (!tiles->numbers.i) return (AuVal){0};
    const AuVal now = number_at(l, tiles, 0);
    tiles->next = number_at(l, tiles, 1);
    set_number(l, tiles, 0, tiles->next);
    set_number(l, tiles, 1,
               tile_or_last(l, tiles, kernel_op2(k, AU_K_ADD, tiles->turn, kernel_i32(k, 2))));
    return now;
}
