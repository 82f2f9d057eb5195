/* group_back_wide.c - backward of wide heads by groups of warps (wgmma): two groups share 64 keys, of which one sums dV, the other dK.
 *
 * Sums of dK and dV of 64 keys at width 256 take 256 registers of a lane, which one group has not (group_backward.c). Here each group
 * has those of one of them, and makes the scores for itself:
 *
 *     role load on warp        as in group_backward.c
 *     role mma[2] on group     values: S' = K Q', P', dV += P' dO; and dQ = dS K of the tile before, some channels at a time
 *                              keys:   S' = K Q', dP' = V dO', dS', dK += dS' Q
 *     role send on warp        adds the parts of dQ to sums in memory
 *
 * Six products instead of five, three of each group; but P' and dS' stay operands in registers, and dS' alone goes through shared
 * memory. The groups meet there and nowhere else, and dQ is a tile late, so that neither waits for the other's tile: what the group of
 * values multiplies first has lain there since it made the weights of the tile before. Before the first tile it is 0, and what is made of
 * that nobody adds.
 *
 * With `with_dq` 0 dQ has a kernel of its own (group_queries.c), and the groups do not meet at all. */
#include "group.h"
#include "lanes_back.h"
#include "shapes.h"

/* ---- what both groups do of a tile */

static void start_scores(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_wait_stage(t, "y", "query");
    tile_product(t, "score", x->atom, TILE_START, TILE_NAME("x.K"), "y.Q");
}

static void declare_pairs(Lanes *x)
{
    tile_frag(x->t, "score", "f32[kv:%d, q:%d] @ %s.C", x->rows, x->shape->query_tile,
              x->atom->name);
}

/* ---- the group of values */

/* The weights of a pair are known before its gradient is: what is made of dP' and of adjoints here, nobody asks for. */
static void weights(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows[BACK_MOST_ROWS];
    const uint32_t finals = back_row_count(x, false);
    group_back_load_rows(x, rows, 0, finals);
    for (uint32_t n = finals; n < back_row_count(x, true); n++) rows[n] = "0.0";
    tile_wait(t, "score");
    tile_set(t, "dp", "fill(score, 0.0)");
    warps_pair_gradients(x, rows);
    tile_release(t, "y");
}

/* Part [n] of dQ starts, of the tile before. */
static void start_part(Lanes *x, int32_t n)
{
    const int32_t width = group_back_wide_part(x->p, x->shape);
    tile_product(x->t, "dq", x->atom, TILE_START, TILE_NAME("all.dS"),
                 tile_text(x->t, "x.K[:, %d +: %d]", n * width, width));
}

static void hand_over_part(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_acquire(t, "r", "result");
    tile_store(t, "dq -> r.dQ");
    tile_commit(t, "r");
}

static void start_query_gradient(Lanes *x)
{
    tile_wait_stage(x->t, "all", "exchange");
    start_part(x, 0);
}

static void end_query_gradient(Lanes *x)
{
    for (int32_t n = 1; n <= x->shape->query_parts; n++) {
        hand_over_part(x);
        if (n == x->shape->query_parts) break;
        start_part(x, n);
        tile_wait(x->t, "dq");
    }
    tile_release(x->t, "all");
}

static void step_of_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    start_scores(x);
    if (x->with_dq) start_query_gradient(x);
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    weights(x);
    tile_wait_stage(t, "z", "grad");
    if (x->with_dq) tile_wait(t, "dq");
    tile_product(t, "dv_acc", x->atom, TILE_ADD, TILE_NAME("weight"), "z.dO");
    if (x->with_dq) end_query_gradient(x);
    tile_wait(t, "dv_acc");
    tile_release(t, "z");
}

static void last_query_gradient(Lanes *x)
{
    start_query_gradient(x);
    tile_wait(x->t, "dq");
    end_query_gradient(x);
}

static void group_of_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    declare_pairs(x);
    tile_frag(t, "dv_acc", "f32[kv:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, atom);
    if (x->with_dq)
        tile_frag(t, "dq", "f32[q:%d, d:%d] @ %s.C", GROUP_ROWS,
                  group_back_wide_part(x->p, x->shape), atom);
    group_back_open_walk(x);
    step_of_values(x);
    group_back_end_walk(x);
    if (x->with_dq) last_query_gradient(x);
    warps_end_weights(x);
    if (x->shape->result_boxes) tile_sync(t, "done");
    group_back_store(x, 2, "x.V");
}

/* ---- the group of keys */

static void hand_over_pairs(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_acquire(t, "own", "exchange");
    tile_store(t, "ds_operand -> own.dS");
    tile_commit(t, "own");
}

/* The tile before the first, of which the group of values makes a dQ that nobody adds. */
static void first_exchange(Lanes *x)
{
    tile_set(x->t, "score", "0.0");
    tile_set(x->t, "ds_operand", "%s(score)", x->operand);
    hand_over_pairs(x);
}

static void step_of_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows[BACK_MOST_ROWS];
    const uint32_t finals = back_row_count(x, false), all = back_row_count(x, true);
    start_scores(x);
    tile_wait_stage(t, "z", "grad");
    tile_product(t, "dp", x->atom, TILE_START, TILE_NAME("x.V"), "z.dO");
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    group_back_load_rows(x, rows, 0, finals);
    tile_wait(t, "score");
    group_back_load_rows(x, rows, finals, all);
    tile_wait(t, "dp");
    warps_pair_gradients(x, rows);
    tile_release(t, "z");
    if (x->with_dq) hand_over_pairs(x);
    tile_product(t, "dk_acc", x->atom, TILE_ADD, TILE_NAME("ds_operand"), "y.Q");
    warps_add_values(x);
    tile_wait(t, "dk_acc");
    tile_release(t, "y");
}

static void group_of_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    declare_pairs(x);
    tile_frag(t, "dp", "f32[kv:%d, q:%d] @ %s.C", x->rows, x->shape->query_tile, x->atom->name);
    tile_frag(t, "dk_acc", "f32[kv:%d, d:%d] @ %s.C = 0.0", x->rows, x->p->d, x->atom->name);
    warps_declare_totals(x);
    if (x->with_dq) first_exchange(x);
    warps_open_heads(x);
    tile_for_tiles(t, "m", "again", NULL);
    step_of_keys(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    if (x->shape->result_boxes) tile_sync(t, "done");
    group_back_store(x, 1, "x.K");
}

/* ---- the warp that adds dQ to its sums */

static void send_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t width = group_back_wide_part(x->p, x->shape), parts = x->shape->query_parts;
    tile_role(t, "send", 0, TILE_ON_WARP, x->shape->producer_registers);
    for (int32_t n = 0; n < parts; n++) { /* those of the tile before the first */
        tile_wait_stage(t, "r", "result");
        tile_release(t, "r");
    }
    group_back_open_walk(x);
    for (int32_t n = 0; n < parts; n++) {
        tile_wait_stage(t, "r", "result");
        tile_async_reduce_add(t, "sent", "r.dQ -> dq_sum[%s, %d +: %d]", group_back_sums(x),
                              n * width, width);
        tile_wait(t, "sent");
        tile_release(t, "r");
    }
    group_back_end_walk(x);
    tile_end(t);
}

/* ---- the kernel */

static void group_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_role(t, "mma", GROUP_BACK_WIDE, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    tile_set(t, "j", "nb * %d + iota(kv:%d)", x->block, x->rows);
    tile_wait_stage(t, "x", "keys");
    tile_if(t, "self == 0");
    group_of_values(x);
    tile_else(t);
    group_of_keys(x);
    tile_end(t);
    tile_release(t, "x");
    tile_end(t);
}

/* The tiles of queries once more: loops over the segments of one list have the same variables, and those of the groups are not. */
static void list_again(Lanes *x)
{
    if (x->p->hooks->needs_lists) {
        lanes_list_segments(x, "again", "back_", x->heads_apart ? "h" : "hk", "nb");
        return;
    }
    tile_list(x->t, "again");
    tile_segment(x->t, "partial", TILE_RANGE, "m_low", "f_low");
    tile_segment(x->t, "full", TILE_RANGE, "f_low", "f_high");
    tile_segment(x->t, "partial", TILE_RANGE, "f_high", "m_high");
}

static void kernel_of_keys(Lanes *x)
{
    const int32_t width = group_back_wide_part(x->p, x->shape);
    warps_back_head(x);
    list_again(x);
    group_back_pipelines(x, width);
    if (x->with_dq) group_back_query_pipelines(x, "one mma", width);
    if (x->shape->result_boxes) tile_barrier(x->t, "done", 0, GROUP_BACK_WIDE);
    group_back_load(x);
    if (x->with_dq) send_role(x);
    group_role(x);
    tile_end(x->t);
}

AuSchedule *schedule_group_back_wide(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                     const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "group_back_wide", shape,
                                   schedule_group_back_wide_refusal(arena, p, shape));
    if (!out) return NULL;
    return group_back_built(arena, diags, p, out, kernel_of_keys);
}
