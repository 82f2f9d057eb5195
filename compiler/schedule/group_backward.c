/* group_backward.c - dK, dV and dQ by groups of four warps whose products go on beside them (wgmma): a block owns keys, 64 of each group,
 * and walks over tiles of queries of all heads that share them.
 *
 *     role load on warp        K and V once; Q and dO of each tile of queries, with what is known of its rows, into rings of stages
 *     role mma[W] on group     S' = K Q', dP' = V dO', functions of pairs, dV += P' dO, dK += dS' Q, a part of dQ = dS K
 *     role send on warp        adds each tile of dQ to sums in memory
 *
 * S' and dP' have keys as rows: P' and dS' are operand A of dV and dK from the registers where they are made. Only dS' goes through shared
 * memory, for dQ, of which each group makes some rows or columns from the dS' of all.
 *
 *     dP' starts                   wait for output gradients; S' is there since the tile before, or starts in front of it
 *     P'; wait dP'; dS'            the weights are made under dP'
 *     dS' is stored; dV starts     before or behind the fence of dS'; wait for dS' of all groups
 *     dQ starts; dK starts         wait dV; wait dQ
 *     dQ is stored                 under dK; the warp `send` goes on, with two tiles of dQ once dS' of the next tile is fenced
 *     S' of the next tile starts   once dK has ended; behind the last tile comes one that nobody uses
 *
 * One hook makes both of a pair, after the wait for dP'; the pass `waits` moves that wait behind what asks for scores alone.
 *
 * With `with_dq` 0 dQ has a kernel of its own (group_queries.c): no tile of dS', no sums, no warp that sends them.
 *
 * Rows beyond the mask's range must be zeros (lanes_limits): as in group_forward.c such tiles are copied by the lanes of the warp.
 *
 * Kernels before and after: as those of warps_backward.c; the sums of dQ lie in the pieces that single warps hold. */
#include "group.h"
#include "lanes_back.h"
#include "shapes.h"

/* ---- memories */

static void memories(Lanes *x)
{
    const int32_t d = x->p->d;
    group_back_pipelines(x, x->with_dq ? d / group_back_columns(x->shape) : d);
    if (x->with_dq) group_back_query_pipelines(x, "mma", d);
    if (x->shape->result_boxes) tile_barrier(x->t, "done", 0, x->shape->executors);
}

/* ---- the warp that adds dQ to its sums */

/* With two tiles of dQ who sends one is told late, by the fence that dS' of the next tile needs anyway: what was stored long before costs it
 * nothing, while right behind the stores it is waited for. */
static bool is_late(const Lanes *x) { return x->with_dq && x->shape->result_stages > 1; }

static void send_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_role(t, "send", 0, TILE_ON_WARP, x->shape->producer_registers);
    if (is_late(x)) { /* the first one carries nothing */
        tile_wait_stage(t, "r", "result");
        tile_release(t, "r");
    }
    group_back_open_walk(x);
    tile_wait_stage(t, "r", "result");
    tile_async_reduce_add(t, "sent", "r.dQ -> dq_sum[%s, :]", group_back_sums(x));
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
                                          .dq_rows = x->with_dq ? GROUP_ROWS : 0,
                                          .dq_channels = x->p->d / group_back_columns(x->shape)});
}

/* P' and dS', and both as operands. */
static void pairs(Lanes *x)
{
    const uint32_t finals = back_row_count(x, false), all = back_row_count(x, true);
    const char *rows[BACK_MOST_ROWS];
    group_back_load_rows(x, rows, 0, finals);
    if (!x->shape->scores_ahead) tile_wait(x->t, "score");
    group_back_load_rows(x, rows, finals, all);
    tile_wait(x->t, "dp");
    warps_pair_gradients(x, rows);
}

/* The pairs of the group's keys, and those of the queries whose part of dQ it makes. */
static const char *own_pairs(Lanes *x)
{
    if (!x->shape->exchange_turned) return group_own_rows(x, "own.dS");
    return tile_text(x->t, "own.dS[:, self * %d +: %d]", x->rows, x->rows);
}

static const char *pairs_of_part(Lanes *x)
{
    return tile_text(x->t, x->shape->exchange_turned ? "all.dS[%s, :]" : "all.dS[:, %s]",
                     part_row(x));
}

static void query_gradient(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_wait_stage(t, "all", "exchange");
    tile_product(t, "dq", x->atom, TILE_START, pairs_of_part(x),
                 tile_text(t, "x.K[:, %s]", part_column(x)));
}

/* Channels of the group's own values. */
static const char *own_values(Lanes *x, int32_t first, int32_t count)
{
    return tile_text(x->t, "x.V[self * %d +: %d, %d +: %d]", x->rows, x->rows, first, count);
}

/* dP' = V dO'. Values that lie in registers all the time are not read from shared memory by each tile's product, which is what limits it. */
static void start_value_product(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t held = x->shape->value_channels, rest = x->p->e - held;
    if (!held) {
        tile_product(t, "dp", x->atom, TILE_START, group_own_rows(x, "x.V"), "z.dO");
        return;
    }
    tile_product(t, "dp", x->atom, TILE_START, "value", tile_text(t, "z.dO[:, 0 +: %d]", held));
    if (!rest) return;
    tile_product(t, "dp", x->atom, TILE_ADD, own_values(x, held, rest),
                 tile_text(t, "z.dO[:, %d +: %d]", held, rest));
}

static void start_scores(Lanes *x)
{
    tile_wait_stage(x->t, "y", "query");
    tile_product(x->t, "score", x->atom, TILE_START, group_own_rows(x, "x.K"), "y.Q");
}

/* Scores of the tile that comes next, or of none behind the last. */
static void scores_ahead(Lanes *x)
{
    if (!x->shape->scores_ahead) return;
    start_scores(x);
    tile_wait(x->t, "score");
}

static void start_values(Lanes *x)
{
    tile_product(x->t, "dv_acc", x->atom, TILE_ADD, "weight", "z.dO");
}

static void start_keys(Lanes *x)
{
    tile_product(x->t, "dk_acc", x->atom, TILE_ADD, "ds_operand", "y.Q");
}

static void end_values(Lanes *x)
{
    tile_wait(x->t, "dv_acc");
    tile_release(x->t, "z");
}

/* dV and dK, and between them dQ from the dS' of all groups. */
static void sums_with_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool early = x->shape->values_early;
    tile_acquire(t, "own", "exchange");
    tile_store(t, "ds_operand -> %s", own_pairs(x));
    if (early) start_values(x);
    tile_commit(t, is_late(x) ? "own, r" : "own");
    if (!early) start_values(x);
    query_gradient(x);
    start_keys(x);
    end_values(x);
    tile_wait(t, "dq");
    tile_release(t, "all");
    tile_acquire(t, "r", "result");
    tile_store(t, "dq -> r.dQ[%s, %s]", part_row(x), part_column(x));
    if (!is_late(x)) tile_commit(t, "r");
}

static void sums_alone(Lanes *x)
{
    start_values(x);
    start_keys(x);
    end_values(x);
}

static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!x->shape->scores_ahead) start_scores(x);
    tile_wait_stage(t, "z", "grad");
    start_value_product(x);
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    pairs(x);
    const bool late = group_back_sums_late(x->p, x->shape);
    if (!late) warps_add_values(x);
    if (x->with_dq)
        sums_with_queries(x);
    else
        sums_alone(x);
    if (late) warps_add_values(x);
    tile_wait(t, "dk_acc");
    tile_release(t, "y");
    scores_ahead(x);
}

static void group_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_role(t, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    fragments(x);
    tile_wait_stage(t, "x", "keys");
    if (x->shape->value_channels)
        tile_load(t, "value", "%s @ %s.A", own_values(x, 0, x->shape->value_channels),
                  x->atom->name);
    if (is_late(x))
        tile_acquire(t, "r", "result"); /* carries nothing: step() hands over the one before */
    scores_ahead(x);
    group_back_open_walk(x);
    step(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    if (x->shape->scores_ahead) tile_release(t, "y");
    if (is_late(x)) tile_commit(t, "r");
    warps_end_weights(x);
    group_back_store(x, 2, group_own_rows(x, "x.V"));
    if (x->shape->result_boxes)
        tile_sync(t, "done"); /* others read the group's keys for their part of dQ */
    group_back_store(x, 1, group_own_rows(x, "x.K"));
    tile_release(t, "x");
    tile_end(t);
}

static void kernel_of_keys(Lanes *x)
{
    warps_back_head(x);
    memories(x);
    group_back_load(x);
    if (x->with_dq) send_role(x);
    group_role(x);
    tile_end(x->t);
}

AuSchedule *schedule_group_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "group_backward", shape,
                                   schedule_group_back_refusal(arena, p, shape));
    if (!out) return NULL;
    return group_back_built(arena, diags, p, out, kernel_of_keys);
}
