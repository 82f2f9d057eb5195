/* group_backward.c - dK, dV and dQ by groups of four warps whose products go on beside them (wgmma): a block owns keys, 64 of each group,
 * and walks over tiles of queries of all heads that share them.
 *
 *     role load on warp        K and V once; Q and dO of each tile of queries, with what is known of its rows, into rings of stages
 *     role mma[W] on group     S' = K Q', dP' = V dO', functions of pairs, dV += P' dO, dK += dS' Q, a part of dQ = dS K
 *     role send on warp        adds each tile of dQ to sums in memory, by boxes
 *
 * S' and dP' have keys as rows: P' and dS' are operand A of dV and dK from the registers where they are made. Only dS' goes through shared
 * memory, for dQ, of which each group makes some rows or columns from the dS' of all.
 *
 *     S' starts; dP' starts        wait for queries, for output gradients
 *     wait S'; P'; wait dP'; dS'   the weights are made under dP'
 *     dS' is stored; dV starts; wait for dS' of all groups
 *     dQ starts; dK starts         wait dV; wait dQ
 *     dQ is stored                 under dK; the warp `send` goes on
 *
 * One hook makes both of a pair, after the wait for dP'; the pass `waits` moves that wait behind what asks for scores alone.
 *
 * Rows beyond the mask's range must be zeros (lanes_limits): as in group_forward.c such tiles are copied by the lanes of the warp.
 *
 * Kernels before and after: as those of warps_backward.c; the sums of dQ lie as rows. */
#include "group.h"
#include "lanes_back.h"
#include "shapes.h"

/* ---- memories */

static const char *own_keys(Lanes *x, const char *tile)
{
    return tile_text(x->t, "%s[self * %d +: %d, :]", tile, x->rows, x->rows);
}

/* Statistics from [from] on, as tiles: ", row1: f32[q:64]". */
static const char *row_tiles(Lanes *x, uint32_t from, uint32_t to)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = from; n < to; n++)
        au_text_add(&text, ", row%u: f32[q:%d]", n, x->shape->query_tile);
    return to > from ? au_text_str(&text) : "";
}

static uint32_t final_rows(const Lanes *x) { return back_row_count(x, false); }
static uint32_t all_rows(const Lanes *x) { return back_row_count(x, true); }

void group_back_operands(Lanes *x, int32_t part)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    const int32_t d = x->p->d, e = x->p->e, m = s->query_tile,
                  bytes = tile_elem(x->p->operand)->bytes;
    tile_pipeline(t, "keys", 1, "load", "mma",
                  "K: %s[kv:%d, d:%d] swizzle %d, V: %s[kv:%d, e:%d] swizzle %d", x->operand,
                  x->block, d, group_back_swizzle(part * bytes), x->operand, x->block, e,
                  group_swizzle(x->p, e));
    tile_pipeline(t, "query", s->stages, "load", "mma", "Q: %s[q:%d, d:%d] swizzle %d%s",
                  x->operand, m, d, group_swizzle(x->p, d), row_tiles(x, 0, final_rows(x)));
    tile_pipeline(t, "grad", s->stages, "load", "mma", "dO: %s[q:%d, e:%d] swizzle %d%s",
                  x->operand, m, e, group_swizzle(x->p, e),
                  row_tiles(x, final_rows(x), all_rows(x)));
    tile_pipeline(t, "exchange", s->exchange_stages, "mma", "mma", "dS: %s[kv:%d, q:%d] swizzle %d",
                  x->operand, x->block, m, group_swizzle(x->p, m));
}

static void memories(Lanes *x)
{
    const int32_t m = x->shape->query_tile, d = x->p->d, part = d / group_back_columns(x->shape);
    group_back_operands(x, part);
    tile_pipeline(x->t, "result", x->shape->result_stages, "mma", "send",
                  "dQ: f32[q:%d, d:%d] swizzle %d", m, d,
                  group_back_swizzle(part * (int32_t)sizeof(float)));
}

/* A loop over the heads of the block and their tiles of queries. */
void group_back_open_walk(Lanes *x)
{
    warps_open_heads(x);
    tile_for_tiles(x->t, "m", "queries", NULL);
}

void group_back_end_walk(Lanes *x)
{
    tile_end(x->t);
    warps_end_heads(x);
}

/* ---- the warp that brings tiles */

/* [limits]: of the mask's range, "" where none are to be seen to. */
static void issue_keys(Lanes *x, const char *limits)
{
    AuTileBuild *t = x->t;
    const char *rows = tile_text(t, "nb * %d +: %d%s", x->block, x->block, limits);
    tile_acquire(t, "x", "keys");
    group_issue(x, lanes_at(x, lanes_operand_rows(x, 1, ":"), rows), TILE_NAME("x.K"));
    group_issue(x, lanes_at(x, lanes_operand_rows(x, 2, ":"), rows), TILE_NAME("x.V"));
    tile_commit(t, "x");
}

static void issue_rows(Lanes *x, const char *stage, uint32_t from, uint32_t to)
{
    const int32_t m = x->shape->query_tile;
    for (uint32_t n = from; n < to; n++)
        group_issue(x, tile_part(x->t, "%s[b, h, m * %d +: %d]", back_row_name(x, n), m, m),
                    tile_part(x->t, "%s.row%u", stage, n));
}

static void issue_queries(Lanes *x, const char *limits)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile;
    const char *rows = tile_text(t, "m * %d +: %d%s", m, m, limits);
    tile_acquire(t, "y", "query");
    group_issue(x, lanes_at(x, lanes_operand_rows(x, 0, ":"), rows), TILE_NAME("y.Q"));
    issue_rows(x, "y", 0, final_rows(x));
    tile_commit(t, "y");
    tile_acquire(t, "z", "grad");
    group_issue(x, tile_part(t, "%s[b, h, %s, :]", back_output_gradient(x), rows),
                TILE_NAME("z.dO"));
    issue_rows(x, "z", final_rows(x), all_rows(x));
    tile_commit(t, "z");
}

void group_back_load(Lanes *x)
{
    const GroupTile keys = {"nb", x->block, "k", lanes_axis(x, 1, 2)},
                    queries = {"m", x->shape->query_tile, "q", lanes_axis(x, 0, 2)};
    tile_role(x->t, "load", 0, TILE_ON_WARP, x->shape->producer_registers);
    group_issue_within(x, &keys, issue_keys);
    group_back_open_walk(x);
    group_issue_of_list(x, &queries, issue_queries);
    group_back_end_walk(x);
    tile_end(x->t);
}

/* ---- the warp that adds dQ to its sums */

static void send_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile;
    tile_role(t, "send", 0, TILE_ON_WARP, x->shape->producer_registers);
    group_back_open_walk(x);
    tile_wait_stage(t, "r", "result");
    tile_async_reduce_add(t, "sent", "r.dQ -> dq_sum[b, h, m * %d +: %d, :] clip", m, m);
    tile_wait(t, "sent");
    tile_release(t, "r");
    group_back_end_walk(x);
    tile_end(t);
}

/* ---- groups that multiply */

/* The group's part of dQ begins at that row and column. */
static const char *part_row(Lanes *x)
{
    return tile_text(x->t, "self / %d * %d +: %d", group_back_columns(x->shape), GROUP_ROWS,
                     GROUP_ROWS);
}

static const char *part_column(Lanes *x)
{
    const int32_t columns = group_back_columns(x->shape), width = x->p->d / columns;
    return tile_text(x->t, "self %% %d * %d +: %d", columns, width, width);
}

static void fragments(Lanes *x)
{
    warps_back_fragments(x,
                         (WarpsBackTiles){.queries = x->shape->query_tile,
                                          .d = x->p->d,
                                          .e = x->p->e,
                                          .dq_rows = GROUP_ROWS,
                                          .dq_channels = x->p->d / group_back_columns(x->shape)});
}

/* P' and dS', and both as operands. */
static void pairs(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows[64];
    for (uint32_t n = 0; n < all_rows(x); n++) {
        if (n == final_rows(x)) tile_wait(t, "score");
        rows[n] = back_row_variable(x, n);
        tile_load(t, rows[n], "%s.row%u like score", n < final_rows(x) ? "y" : "z", n);
    }
    if (all_rows(x) == final_rows(x)) tile_wait(t, "score");
    tile_wait(t, "dp");
    warps_pair_gradients(x, rows);
}

static void query_gradient(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_wait_stage(t, "all", "exchange");
    tile_product(t, "dq", x->atom, TILE_START, tile_text(t, "all.dS[:, %s]", part_row(x)),
                 tile_text(t, "x.K[:, %s]", part_column(x)));
}

static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_wait_stage(t, "y", "query");
    tile_product(t, "score", x->atom, TILE_START, own_keys(x, "x.K"), "y.Q");
    tile_wait_stage(t, "z", "grad");
    tile_product(t, "dp", x->atom, TILE_START, own_keys(x, "x.V"), "z.dO");
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    pairs(x);
    tile_acquire(t, "own", "exchange");
    tile_store(t, "ds_operand -> %s", own_keys(x, "own.dS"));
    tile_commit(t, "own");
    tile_product(t, "dv_acc", x->atom, TILE_ADD, "weight", "z.dO");
    query_gradient(x);
    tile_product(t, "dk_acc", x->atom, TILE_ADD, "ds_operand", "y.Q");
    tile_wait(t, "dv_acc");
    tile_release(t, "z");
    tile_wait(t, "dq");
    tile_release(t, "all");
    tile_acquire(t, "r", "result");
    tile_store(t, "dq -> r.dQ[%s, %s]", part_row(x), part_column(x));
    tile_commit(t, "r");
    warps_add_values(x);
    tile_wait(t, "dk_acc");
    tile_release(t, "y");
}

static void group_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_role(t, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    fragments(x);
    tile_wait_stage(t, "x", "keys");
    group_back_open_walk(x);
    step(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    tile_release(t, "x");
    warps_end_weights(x);
    for (uint32_t n = 1; n < 3; n++) warps_store_gradient(x, n, ":", (AuTileHandle){NULL});
    tile_end(t);
}

static void kernel_of_keys(Lanes *x)
{
    warps_back_head(x);
    memories(x);
    group_back_load(x);
    send_role(x);
    group_role(x);
    tile_end(x->t);
}

AuSchedule *schedule_group_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "group_backward", shape,
                                   schedule_group_back_refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_back_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.atom = group_atom(p);
    x.via_shared = false;
    x.sums_by_boxes = true;
    warps_layouts(&x);
    back_before(&x);
    back_adjoints(&x);
    kernel_of_keys(&x);
    back_after(&x);
    return lanes_built(&x, diags);
}
