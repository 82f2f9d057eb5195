/* group_back_wide.c - backward of wide heads by groups of warps (wgmma): two groups share 64 keys, of which one sums dV, the other dK.
 *
 * Sums of dK and dV of 64 keys at width 256 take 256 registers of a lane, which one group has not (group_backward.c). Here each group
 * has those of one of them, and makes the scores for itself:
 *
 *     role load on warp        as in group_backward.c
 *     role mma[2] on group     values: S' = K Q', P', dV += P' dO; and dQ = dS K, some channels at a time
 *                              keys:   S' = K Q', dP' = V dO', dS', dK += dS' Q
 *
 * Six products instead of five, three of each group; but P' and dS' stay operands in registers, and dS' alone goes through shared
 * memory. The groups meet there and nowhere else: while one makes weights and their gradients, the other multiplies.
 *
 * The tiles of dS' are an exchange of the role with itself, so the group of values hands one over too, at once, in which it has written
 * nothing; the group of keys takes it back at the end of its tile.
 *
 * dQ goes away by bulk reductions that the group of values issues itself: what is not a part's own time is under dV's product. */
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

static void query_gradient(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t width = group_back_wide_part(x->p, x->shape), buffers = x->shape->result_stages;
    tile_wait_stage(t, "all", "exchange");
    for (int32_t n = 0; n < x->shape->query_parts; n++) {
        const char *sent = tile_text(t, "sent%d", n);
        tile_product(t, "dq", x->atom, TILE_START, TILE_NAME("all.dS"),
                     tile_text(t, "x.K[:, %d +: %d]", n * width, width));
        if (n >= buffers) tile_wait(t, tile_text(t, "sent%d", n - buffers));
        tile_wait(t, "dq");
        tile_store(t, "dq -> dQ%d", n % buffers);
        tile_async_reduce_add(t, sent, "dQ%d -> dq_sum[%s, %d +: %d]", n % buffers,
                              group_back_sums(x), n * width, width);
    }
    tile_release(t, "all");
}

static void step_of_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_acquire(t, "own", "exchange");
    tile_commit(t, "own");
    start_scores(x);
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    weights(x);
    query_gradient(x);
    tile_wait_stage(t, "z", "grad");
    tile_product(t, "dv_acc", x->atom, TILE_ADD, TILE_NAME("weight"), "z.dO");
    tile_wait(t, "dv_acc");
    tile_release(t, "z");
    const int32_t parts = x->shape->query_parts, buffers = x->shape->result_stages;
    for (int32_t n = parts > buffers ? parts - buffers : 0; n < parts; n++)
        tile_wait(t, tile_text(t, "sent%d", n));
}

static void group_of_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    declare_pairs(x);
    tile_frag(t, "dv_acc", "f32[kv:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, atom);
    tile_frag(t, "dq", "f32[q:%d, d:%d] @ %s.C", GROUP_ROWS, group_back_wide_part(x->p, x->shape),
              atom);
    group_back_open_walk(x);
    step_of_values(x);
    group_back_end_walk(x);
    warps_end_weights(x);
    warps_store_gradient(x, 2, ":", (AuTileHandle){NULL});
}

/* ---- the group of keys */

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
    tile_acquire(t, "own", "exchange");
    tile_store(t, "ds_operand -> own.dS");
    tile_commit(t, "own");
    tile_product(t, "dk_acc", x->atom, TILE_ADD, TILE_NAME("ds_operand"), "y.Q");
    warps_add_values(x);
    tile_wait(t, "dk_acc");
    tile_release(t, "y");
    tile_wait_stage(t, "all", "exchange");
    tile_release(t, "all");
}

static void group_of_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    declare_pairs(x);
    tile_frag(t, "dp", "f32[kv:%d, q:%d] @ %s.C", x->rows, x->shape->query_tile, x->atom->name);
    tile_frag(t, "dk_acc", "f32[kv:%d, d:%d] @ %s.C = 0.0", x->rows, x->p->d, x->atom->name);
    warps_declare_totals(x);
    warps_open_heads(x);
    tile_for_tiles(t, "m", "again", NULL);
    step_of_keys(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    warps_store_gradient(x, 1, ":", (AuTileHandle){NULL});
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
    group_back_tiles(x, width);
    for (int32_t n = 0; n < x->shape->result_stages; n++)
        tile_shared(x->t, tile_text(x->t, "dQ%d", n), "f32[q:%d, d:%d] packed %s.C",
                    x->shape->query_tile, width, back_sum_atom(x)->name);
    group_back_load(x);
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
