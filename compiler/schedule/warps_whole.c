/* warps_whole.c - blocks of all heads that share keys, for any number of queries of values that no warp holds (warps_wide.c, group_wide.c).
 *
 * A block has as many rows as one of those queries and a head would have, and all of their keys, but they are rows of all heads of a group, and of
 * fewer queries: of `group` blocks each has a part, by the number of its head. So grids and lists of work are the usual ones (lanes_forward_head),
 * keys come to a block once for all heads, and no part of a row is left for another kernel to join. */
#include "key_layout.h"
#include "warps_decode.h"

bool warps_is_whole(const Lanes *x) { return !schedule_packs_rows(x->p); }

const char *warps_whole_refusal(const AuProblem *p)
{
    if (p->hooks->has_out_mod)
        return "a function of all channels of the output, which several warps have";
    if (schedule_has_value_heads(p->attn)) return "values of other heads than the keys'";
    return lanes_mask_by_head(&(Lanes){.p = p}) ? "a mask that depends on the head" : NULL;
}

const char *warps_first_row(Lanes *x)
{
    return tile_text(x->t, "%s * %d", warps_is_whole(x) ? "share" : "mb", x->block);
}

const char *warps_first_query(Lanes *x)
{
    return warps_is_whole(x) ? tile_text(x->t, "mb * %d + ", x->block) : "";
}

const char *warps_whole_condition(Lanes *x)
{
    return tile_text(x->t, "mb >= 0 && mb * %d + share * %d / group < %s", x->block, x->block,
                     lanes_query_end(x));
}

/* Keys of all rows of the block of queries; from the last tile down, as pages of tiles of warps come (warps_pages.c). */
static void key_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_let(t, "k_low, k_high, k_full_low, k_full_high",
             "key_range(b, 0, max(mb, 0) * %d, min(max(mb, 0) * %d + %d, %s))", x->block, x->block,
             x->block, lanes_query_end(x));
    tile_let(t, "n_low, full_tile, rest_tile, n_high",
             "key_tiles(k_low, k_high, k_full_low, k_full_high, %s, %d)", lanes_key_end(x),
             x->shape->key_tile);
    tile_list(t, "keys");
    tile_segment(t, "partial", TILE_DOWN, "n_high", "rest_tile");
    tile_segment(t, "full", TILE_DOWN, "rest_tile", "full_tile");
    tile_segment(t, "partial", TILE_DOWN, "full_tile", "n_low");
}

void warps_whole_kernel(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x))
{
    AuTileBuild *t = x->t;
    lanes_forward_head_of(x, "head");
    tile_let(t, "group", "%s / %s", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
    tile_let(t, "hk", "head / group");
    tile_let(t, "share", "head %% group");
    if (x->own_v) tile_let(t, "hv", "hk");
    key_tiles(x);
    memories(x);
    roles(x);
    tile_end(t);
}

static const char *row_place(Lanes *x)
{
    return lanes_row_place(x, LANES_QUERIES, "all_h", "all_i");
}

static const char *row_is_there(Lanes *x)
{
    return tile_text(x->t, "all_i < %s", lanes_query_end(x));
}

void warps_name_all_rows(Lanes *x) { warps_name_rows_as(x, "all_", warps_first_row(x), x->block); }

void warps_end_whole(Lanes *x, const char *sums, const char *columns)
{
    lanes_end_of(x, sums, "all_h", "all_i", lanes_states_called(x, "end"));
    tile_store(x->t, "%s(out) -> o[%s, %s] as [q, e] when %s", x->operand, row_place(x), columns,
               row_is_there(x));
}

void warps_store_whole_finals(Lanes *x)
{
    tile_if(x->t, "self == 0");
    lanes_store_finals_when(x, row_place(x), row_is_there(x));
    tile_end(x->t);
}
