/* group_parts.c - what the kernels of groups of warps have in common: copies into tiles in stages, and groups that
 * start their products in turn. */
#include "group.h"
#include "key_layout.h"
#include "warps_decode.h"

enum {
    TOGETHER = 4, /* rows of queries that are brought in a turn, */
    OF_HEADS = 8  /* in a box */
};

Lanes group_begin(Lanes of_warps)
{
    Lanes x = of_warps;
    x.sum_atom = x.atom;
    x.atom = group_atom(x.p);
    x.via_shared = false;
    warps_layouts(&x);
    return x;
}

void group_begin_rows(Lanes *x)
{
    lanes_begin_listed(x);
    if (schedule_packs_rows(x->p)) warps_begin_part(x);
}

void group_end_rows(Lanes *x)
{
    if (schedule_packs_rows(x->p)) warps_end_part(x);
    lanes_end_listed(x);
}

const char *group_own_rows(Lanes *x, const char *tile)
{
    return tile_text(x->t, "%s[self * %d +: %d, :]", tile, x->rows, x->rows);
}

void group_issue(Lanes *x, AuTileHandle from, AuTileHandle to)
{
    tile_async_copy(x->t, NULL, "%v -> %v pad 0", from, to);
}

/* Where sequences have rows in a layout a tile may reach into the next one's, or beyond its own. */
static const char *end_of_sequence(const Lanes *x, LanesSide side)
{
    const AuAttn *a = x->p->attn;
    if (lanes_is_packed(x, side)) return side == LANES_KEYS ? "kv_end" : "q_end";
    if (side == LANES_KEYS) return a->keys.layout ? "kv_length" : NULL;
    return a->queries.layout ? "q_length" : NULL;
}

const char *group_span(Lanes *x, LanesSide side, const char *rows, const char *limits)
{
    const char *end = end_of_sequence(x, side);
    if (!*limits && end) limits = tile_text(x->t, " from 0 to %s", end);
    return tile_text(x->t, "%s%s%s", lanes_row_start(x, side), rows, limits);
}

void group_let_first(Lanes *x)
{
    const char *end = end_of_sequence(x, LANES_QUERIES);
    if (!end) return;
    const char *row = tile_text(x->t, "mb * %d", x->block);
    if (lanes_is_packed(x, LANES_QUERIES))
        row = tile_text(x->t, "clamp(q_start + %s, 0, max(q_end, 1) - 1)", row);
    tile_let(x->t, "first", "%s", row);
    tile_let(x->t, "first_end", "max(%s, first + 1)", end);
}

const char *group_first_span(Lanes *x)
{
    if (!end_of_sequence(x, LANES_QUERIES))
        return tile_text(x->t, "mb * %d +: %d", x->block, x->block);
    return tile_text(x->t, "first +: %d from 0 to first_end", x->block);
}

void group_store_rows(Lanes *x, const char *rows, const char *tile, const char *to)
{
    AuTileBuild *t = x->t;
    const bool none = x->p->attn->queries.layout; /* have some groups no row? */
    const char *place =
        group_span(x, LANES_QUERIES, tile_text(t, "%s +: %d", lanes_first_row(x), x->rows), "");
    tile_store(t, "%s(%s) -> %s", x->operand, rows, tile);
    if (none) tile_if(t, "mb >= 0 && %s < q_length", lanes_first_row(x));
    tile_async_copy(t, "sent", "%s -> %s[%s, h, %s, :] clip", tile, to,
                    lanes_row_b(x, LANES_QUERIES), place);
    tile_wait(t, "sent");
    if (none) tile_end(t);
}

/* A box for each so many heads of a query. Rows behind the last query are that one's once more. */
static void bring_heads(Lanes *x, const char *channels, int32_t count)
{
    AuTileBuild *t = x->t;
    tile_acquire(t, "x", "queries");
    for (int32_t n = 0; n < x->block; n += count) {
        const char *row = n ? tile_text(t, "(%s + %d)", warps_first_row(x), n) : warps_first_row(x);
        const LanesRows heads = lanes_rows(
            x, lanes_changed_name(x, 0),
            tile_text(t, "%s * group + %s %% group +: %d", lanes_group_name(x), row, count),
            channels);
        const char *query =
            tile_text(t, "%smin(%s%s / group, max(%s, 1) - 1)", lanes_row_start(x, LANES_QUERIES),
                      warps_first_query(x), row, lanes_query_end(x));
        tile_async_copy(t, NULL, "%v as [q, d] -> x.Q[%d +: %d, :] pad 0",
                        lanes_at(x, heads, query), n, count);
    }
    tile_commit(t, "x");
}

/* One box, where the block's rows are of one query; some, where a group of heads is so many times as many; else rows by lanes. */
void group_bring_packed(Lanes *x, const char *channels)
{
    AuTileBuild *t = x->t;
    const int32_t rows = TOGETHER;
    if (warps_is_whole(x))
        tile_if(t, "group %% %d == 0", x->block);
    else
        tile_if(t, "group %% %d == 0 || %s == 1", x->block, lanes_most_queries(x));
    bring_heads(x, channels, x->block);
    tile_else(t);
    tile_if(t, "group %% %d == 0", OF_HEADS);
    bring_heads(x, channels, OF_HEADS);
    tile_else(t);
    tile_acquire(t, "x", "queries");
    tile_for_range(t, "some", "0", tile_text(t, "%d", x->block / rows));
    tile_set(t, "brought", "%s + some * %d + iota(q:%d)", warps_first_row(x), rows, rows);
    const LanesRows view =
        lanes_rows(x, lanes_changed_name(x, 0),
                   tile_text(x->t, "%s * group + brought %% group", lanes_group_name(x)), channels);
    tile_async_copy(t, NULL, "%v -> x.Q[some * %d +: %d, :] pad 0 when %sbrought / group < %s",
                    lanes_at(x, view,
                             tile_text(t, "%s%sbrought / group", lanes_row_start(x, LANES_QUERIES),
                                       warps_first_query(x))),
                    rows, rows, warps_first_query(x), lanes_query_end(x));
    tile_end(t);
    tile_commit(t, "x");
    tile_end(t);
    tile_end(t);
}

static LanesSide side_of(const GroupTile *tile)
{
    return *tile->of == 'k' ? LANES_KEYS : LANES_QUERIES;
}

/* Has a tile something before the mask's range? Of rows of keys only windows have. */
static bool may_begin_late(const Lanes *x, const GroupTile *tile)
{
    return x->p->attn->mask.i && (side_of(tile) == LANES_QUERIES || x->p->hooks->range_begins);
}

/* Are both ends of the mask's range copied by lanes? */
static bool ends_by_lanes(const Lanes *x, const GroupTile *tile)
{
    return tile->all && x->p->attn->mask.i && !end_of_sequence(x, side_of(tile));
}

static const char *end_limit(Lanes *x, const GroupTile *tile)
{
    return x->p->attn->mask.i && !ends_by_lanes(x, tile) ? lanes_end_limit(x, tile->of) : "";
}

/* When lanes must copy the tile; "": never. */
static const char *when_by_lanes(Lanes *x, const GroupTile *tile)
{
    const LanesSide side = side_of(tile);
    const char *row = tile_text(x->t, "%s * %d", tile->number, tile->rows);
    AuText when = {.arena = x->arena};
    if (ends_by_lanes(x, tile))
        return tile_text(x->t, "%s < %s_low || (%s + %d > %s_high && %s_high < %s)", row, tile->of,
                         row, tile->rows, tile->of, tile->of, tile->all);
    if (may_begin_late(x, tile)) au_text_add(&when, " || %s < %s_low", row, tile->of);
    if (tile->may_be_unseen && x->p->attn->mask.i)
        au_text_add(&when, " || %s >= %s_high", row, tile->of);
    if (tile->may_be_unseen && end_of_sequence(x, side))
        au_text_add(&when, " || %s < 0 || %s >= %s", tile->number, row,
                    side == LANES_KEYS ? lanes_key_end(x) : lanes_query_end(x));
    return when.length ? au_text_str(&when) + 4 : "";
}

/* Those that begin with the first row of all would be a box's. */
const char *group_limits(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    const LanesSide side = side_of(tile);
    if (!by_lanes) return end_limit(x, tile);
    if (x->p->attn->mask.i || lanes_is_packed(x, side)) return lanes_limits(x, tile->of);
    return tile_text(x->t, " from %s * %d to %s", tile->number, tile->rows,
                     end_of_sequence(x, side));
}

void group_issue_within(Lanes *x, const GroupTile *tile, GroupIssue *issue)
{
    const char *when = when_by_lanes(x, tile);
    if (*when) {
        tile_if(x->t, "%s", when);
        issue(x, tile, true);
        tile_else(x->t);
    }
    issue(x, tile, false);
    if (*when) tile_end(x->t);
}

void group_issue_of_list(Lanes *x, const GroupTile *tile, GroupIssue *issue)
{
    const bool late = may_begin_late(x, tile);
    if (late) {
        tile_on_segment(x->t, "partial");
        group_issue_within(x, tile, issue);
        tile_else(x->t);
    }
    issue(x, tile, false);
    if (late) tile_end(x->t);
}

/* ---- turns */

/* Who may start the products of a tile: one group after the other. */
void group_take_turn(Lanes *x)
{
    if (x->shape->turns) tile_sync(x->t, "turn[self]");
}

void group_pass_turn(Lanes *x)
{
    if (x->shape->turns) tile_arrive(x->t, "turn[(self + 1) %% %d]", x->shape->executors);
}

/* Group 0 begins, and takes back the turn that is left over. */
void group_first_turn(Lanes *x)
{
    if (!x->shape->turns) return;
    tile_if(x->t, "self == %d", x->shape->executors - 1);
    tile_arrive(x->t, "turn[0]");
    tile_end(x->t);
}

void group_last_turn(Lanes *x)
{
    if (!x->shape->turns) return;
    tile_if(x->t, "self == 0");
    tile_sync(x->t, "turn[0]");
    tile_end(x->t);
}
