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

enum {
    LANES = 128, /* of a group */
    GROUPS = 2,
    EXCHANGES = 2,
};

/* ---- shapes */

static int32_t part_width(const AuProblem *p, const AuShape *s) { return p->d / s->query_parts; }

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Of a lane, of 64 keys and 64 queries: the group of values has dV, weights as operand, and scores or a part of dQ; the group of
 * keys dK, scores and dP', and gradients of inputs one at a time. */
static int32_t fragment_registers(const AuProblem *p, const AuShape *s)
{
    enum { SUM = 2 };
    const int32_t rows = GROUP_ROWS, m = s->query_tile, inputs = (int32_t)p->grads->pairs.count,
                  pair = rows * m / LANES;
    const int32_t values =
                      rows * p->e / LANES + pair / 2 + most(pair, m * part_width(p, s) / LANES),
                  keys = rows * p->d / LANES + (2 + (inputs > 0)) * pair + SUM * inputs;
    return most(values, keys) + group_back_distance_registers(p, m);
}

/* Little stays free at width 256, so that it counts where statistics begin. */
static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    AuSchedule scratch = {.shape = *s};
    const Lanes x = warps_back_begin(p->attn->arena, NULL, p, &scratch);
    return group_back_operand_bytes(p, s, GROUP_ROWS) +
           WARPS_ALIGNMENT * (int32_t)back_row_count(&x, true) +
           (int32_t)sizeof(float) * s->query_tile * part_width(p, s);
}

void group_back_wide_complete(const AuProblem *p, AuShape *s)
{
    s->executors = s->column_parts = GROUPS;
    s->query_tile = s->rows = GROUP_ROWS;
    group_set_registers(p, s);
    s->split_segments = true;
    s->swizzle_span = 0;
}

const char *schedule_group_back_wide_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t unit = group_atom(p) ? group_atom(p)->k : 1;
    const char *why = group_back_refusal_of_problem(arena, p);
    if (why) return why;
    if (s->query_parts < 1 || p->d % (unit * s->query_parts))
        return au_format(arena, "%d channels are not %d parts in steps of %d", p->d, s->query_parts,
                         unit);
    if (s->exchange_stages < 1 || s->exchange_stages > EXCHANGES)
        return "more than two tiles of dS";
    why = group_refusal_of_registers(arena, p, s, fragment_registers(p, s));
    if (why) return why;
    const int32_t shared = shared_bytes(p, s);
    if (shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory, where a block has %d", shared,
                         p->caps->shared_bytes);
    return NULL;
}

/* Two stages, since one loses what this gains (measured, docs/dev/hopper.md); of dS' two tiles where they fit; as few parts of dQ, each
 * sent before the next, as take no more registers than the rest of a tile. Narrow heads were not measured. */
bool schedule_group_back_wide_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                    const char **why)
{
    enum { NARROW = 128, MOST_PARTS = 4, STAGES = 2 };
    int32_t fewest = 0;
    if (p->d <= NARROW && p->e <= NARROW) {
        if (!*why) *why = "widths to 128 that 'group_backward' does not take";
        return false;
    }
    for (int32_t exchange = EXCHANGES; exchange > 0 && !fewest; exchange--)
        for (int32_t parts = 1; parts <= MOST_PARTS; parts *= 2) {
            AuShape s = {.query_tile = GROUP_ROWS,
                         .stages = STAGES,
                         .exchange_stages = exchange,
                         .query_parts = parts};
            const int32_t registers = fragment_registers(p, &s);
            group_back_give_registers(registers, &s);
            group_back_wide_complete(p, &s);
            *why = schedule_group_back_wide_refusal(arena, p, &s);
            if (*why || (fewest && registers >= fewest)) continue;
            fewest = registers;
            *out = s;
        }
    return fewest > 0;
}

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

/* Statistics of rows, from [from] on; adjoints lie beside output gradients. */
static void load_rows(Lanes *x, const char **rows, uint32_t from, uint32_t to)
{
    const uint32_t finals = back_row_count(x, false);
    for (uint32_t n = from; n < to; n++) {
        rows[n] = back_row_variable(x, n);
        tile_load(x->t, rows[n], "%s.row%u like score", n < finals ? "y" : "z", n);
    }
}

enum { MOST_ROWS = 64 };

/* ---- the group of values */

/* The weights of a pair are known before its gradient is: what is made of dP' and of adjoints here, nobody asks for. */
static void weights(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows[MOST_ROWS];
    const uint32_t finals = back_row_count(x, false);
    load_rows(x, rows, 0, finals);
    for (uint32_t n = finals; n < back_row_count(x, true); n++) rows[n] = "0.0";
    tile_wait(t, "score");
    tile_set(t, "dp", "fill(score, 0.0)");
    warps_pair_gradients(x, rows);
    tile_release(t, "y");
}

static void query_gradient(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t width = part_width(x->p, x->shape), m = x->shape->query_tile;
    tile_wait_stage(t, "all", "exchange");
    for (int32_t n = 0; n < x->shape->query_parts; n++) {
        const char *sent = tile_text(t, "sent%d", n);
        tile_product(t, "dq", x->atom, TILE_START, TILE_NAME("all.dS"),
                     tile_text(t, "x.K[:, %d +: %d]", n * width, width));
        if (n > 0) tile_wait(t, tile_text(t, "sent%d", n - 1));
        tile_wait(t, "dq");
        tile_store(t, "dq -> dQ");
        tile_async_reduce_add(t, sent, "dQ -> dq_sum[b, h, m * %d +: %d, %d +: %d] clip", m, m,
                              n * width, width);
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
    tile_wait(t, tile_text(t, "sent%d", x->shape->query_parts - 1));
}

static void group_of_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    declare_pairs(x);
    tile_frag(t, "dv_acc", "f32[kv:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, atom);
    tile_frag(t, "dq", "f32[q:%d, d:%d] @ %s.C", GROUP_ROWS, part_width(x->p, x->shape), atom);
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
    const char *rows[MOST_ROWS];
    const uint32_t finals = back_row_count(x, false), all = back_row_count(x, true);
    start_scores(x);
    tile_wait_stage(t, "z", "grad");
    tile_product(t, "dp", x->atom, TILE_START, TILE_NAME("x.V"), "z.dO");
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    load_rows(x, rows, 0, finals);
    tile_wait(t, "score");
    load_rows(x, rows, finals, all);
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
    tile_role(t, "mma", GROUPS, TILE_ON_WARPGROUP, x->shape->consumer_registers);
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
    tile_list(x->t, "again");
    tile_segment(x->t, "partial", TILE_RANGE, "m_low", "f_low");
    tile_segment(x->t, "full", TILE_RANGE, "f_low", "f_high");
    tile_segment(x->t, "partial", TILE_RANGE, "f_high", "m_high");
}

static void kernel_of_keys(Lanes *x)
{
    const int32_t width = part_width(x->p, x->shape);
    warps_back_head(x);
    list_again(x);
    group_back_operands(x, width);
    tile_shared(x->t, "dQ", "f32[q:%d, d:%d] swizzle %d", x->shape->query_tile, width,
                group_back_swizzle(width * (int32_t)sizeof(float)));
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
