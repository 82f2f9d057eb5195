/* group_wide.c - forward for few queries whose values are wider than a warp holds (latent attention: keys of 576 channels, of which 512 are
 * the value), by groups of four warps whose products go on beside them (wgmma), fed by a warp that brings tiles by boxes of tensors.
 *
 * As in warps_wide.c a block has a part of the keys of one head, and 64 rows of all query heads that share it. Sums of 512 channels take
 * the registers of two groups. These make the weights in turn (group_wide_pairs.c), where two tiles of 64 keys fit; else a third one does, for both:
 *
 *     role load on warp          keys of each tile into a ring of stages
 *     role load_queries on warp  queries, once
 *     role scores on group       S = Q K', online function; weights, and by what sums are multiplied, into a ring
 *     role mma[G] on group       O[its channels] = O factor + P V
 *
 * Who multiplies scores and who multiplies values have each tile of keys, one after the other, and neither waits for the other but for
 * weights: while these of a tile are made the unit adds the values of the tile before. A tile has few keys, since its stages must hold
 * those of both and what is on its way, beside the queries; some channels of the queries stay in registers, which leaves room for more.
 *
 * Blocks are those of few queries, whose parts of the keys are joined by a kernel behind (warps_wide.c); or, of any number, of 64 rows of all heads
 * that share keys and all of their keys: those of a block of 64 queries and a head, but of others of them, so that grids and lists of work are
 * the usual ones. Then groups end their rows themselves, from states that the group of scores leaves; as do those that make weights in turn where a
 * sequence has one part.
 *
 * Kernels: as those of warps_wide.c; of any number of queries as those of warps_forward.c. */
#include "group_wide.h"
#include "key_layout.h"
#include "warps_decode.h"

/* ---- memories */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    const AuProblem *p = x->p;
    const int32_t shared = group_wide_shared(p, s), keys = s->key_tile;
    const char *operand = x->operand;
    tile_pipeline(t, "queries", 1, "load_queries", s->paired ? "even, odd" : "scores",
                  "Q: %s[q:%d, d:%d] swizzle %d", operand, x->block, shared,
                  group_swizzle(p, shared));
    group_wide_key_memories(x);
    if (s->paired) {
        group_wide_pair_memories(x);
        return;
    }
    tile_pipeline(t, "weights", s->exchange_stages, "scores", "mma",
                  "P: %s[q:%d, kv:%d] swizzle %d, factor: f32[q:%d]", operand, x->block, keys,
                  group_swizzle(p, keys), x->block);
    AuText states = {.arena = x->arena};
    for (uint32_t n = 0; n < p->hooks->state_count; n++)
        au_text_add(&states, "%sstate%u: f32[q:%d]", n ? ", " : "", n, x->block);
    if (warps_is_whole(x) && p->hooks->state_count)
        tile_pipeline(t, "ends", 1, "scores", "mma", "%s", au_text_str(&states));
}

static void open_role(Lanes *x, const char *name, int32_t many, AuTileExecutor on,
                      int32_t registers)
{
    tile_role(x->t, name, many, on, registers);
    warps_begin_part(x);
}

static void end_role(Lanes *x)
{
    warps_end_part(x);
    tile_end(x->t);
}

static void load_queries_role(Lanes *x)
{
    const int32_t held = x->shape->query_channels, from = x->shape->key_pieces ? 0 : held;
    open_role(x, "load_queries", 0, TILE_ON_WARP, x->shape->producer_registers);
    group_bring_packed(
        x, held ? tile_text(x->t, "%d +: %d", from, group_wide_shared(x->p, x->shape)) : ":");
    end_role(x);
}

/* ---- the group that makes weights */

void group_wide_hold_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t held = x->shape->query_channels;
    if (!held) return;
    const LanesRows rows =
        lanes_rows(x, lanes_changed_name(x, 0), "h",
                   tile_text(t, "%d +: %d", x->shape->key_pieces ? x->p->d - held : 0, held));
    tile_load(t, "query", "%v @ %s.A pad 0 when i < %s",
              lanes_at(x, rows, tile_text(t, "%si", lanes_row_start(x, LANES_QUERIES))),
              x->atom->name, lanes_query_end(x));
}

void group_wide_start_scores(Lanes *x, const char *to, const char *stage)
{
    AuTileBuild *t = x->t;
    const int32_t held = x->shape->query_channels, shared = group_wide_shared(x->p, x->shape);
    const AuTileHandle into = tile_part(t, "%s", to);
    if (held)
        tile_product(t, into, x->atom, TILE_START, TILE_NAME("query"),
                     tile_text(t, "%s.K[:, 0 +: %d]", stage, held));
    tile_product(t, into, x->atom, held ? TILE_ADD : TILE_START, TILE_NAME("x.Q"),
                 tile_text(t, "%s.K[:, %d +: %d]", stage, held, shared));
}

/* Into fragment [to], of the next tile. */
static void start_scores(Lanes *x, const char *to)
{
    tile_wait_stage(x->t, "y", "key");
    group_wide_start_scores(x, to, "y");
}

static void hand_over_weights(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_online(x);
    tile_acquire(t, "w", "weights");
    tile_store(t, "%s(p) -> w.P", x->operand);
    if (x->p->hooks->has_scale) tile_store(t, "scale -> w.factor");
    tile_commit(t, "w");
}

static void tiles_alone(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_for_tiles(t, "n", "keys", NULL);
    start_scores(x, "score");
    tile_wait(t, "score");
    tile_release(t, "y");
    lanes_scores(x);
    hand_over_weights(x);
    tile_end(t);
}

void group_wide_scores_of(Lanes *x, const char *tile)
{
    AuTileBuild *t = x->t;
    lanes_scores_of(x, tile, LANES_MASK_NOWHERE);
    tile_if(t, "%s < full_tile || %s >= rest_tile", tile, tile);
    lanes_mask_scores(x);
    tile_end(t);
}

/* Weights of tile `at`, whose scores are there. */
static void weights_of_before(Lanes *x)
{
    group_wide_scores_of(x, "at");
    hand_over_weights(x);
}

static void take_scores(Lanes *x, const char *tile)
{
    AuTileBuild *t = x->t;
    tile_wait(t, "next");
    tile_release(t, "y");
    tile_set(t, "score", "next");
    tile_set(t, "at", "%s", tile);
}

/* While weights are made the unit makes the scores of the next tile. */
static void tiles_ahead(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_if(t, "count(keys) > 0");
    start_scores(x, "next");
    take_scores(x, "first(keys)");
    tile_for_tiles(t, "n", "keys", "1");
    start_scores(x, "next");
    weights_of_before(x);
    take_scores(x, "n");
    tile_end(t);
    weights_of_before(x);
    tile_end(t);
}

static void leave_states(Lanes *x)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->hooks->state_count;
    if (warps_is_whole(x) && count) tile_acquire(t, "u", "ends");
    for (uint32_t n = 0; n < count; n++)
        if (warps_is_whole(x))
            tile_store(t, "state%u -> u.state%u", n, n);
        else
            tile_store(t, "state%u -> part_state%u[%s, mb * %d +: %d] clip", n, n,
                       warps_part_place(x), x->block, x->block);
    if (warps_is_whole(x) && count) tile_commit(t, "u");
}

static void scores_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    open_role(x, "scores", 0, TILE_ON_WARPGROUP, group_wide_registers(x->p, s));
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, s->key_tile, x->atom->name));
    if (s->scores_ahead)
        tile_frag(t, "next", "f32[q:%d, kv:%d] @ %s.C", x->rows, s->key_tile, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_name_rows(x, warps_first_row(x));
    lanes_begin_states(x);
    group_wide_hold_queries(x);
    tile_wait_stage(t, "x", "queries");
    if (s->scores_ahead)
        tiles_ahead(x);
    else
        tiles_alone(x);
    tile_release(t, "x");
    leave_states(x);
    end_role(x);
}

/* ---- the groups that sum values */

AuTileHandle group_wide_sum(Lanes *x, int32_t n) { return tile_numbered(x->t, "acc", (uint32_t)n); }

const char *group_wide_sums(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        au_text_add(&text, "%sacc%d", n ? ", " : "", n);
    return au_text_str(&text);
}

void group_wide_scale_sums(Lanes *x, const char *factor)
{
    AuTileBuild *t = x->t;
    tile_set(t, "grown", "%s != 1.0", factor);
    tile_if(t, "anywhere(grown)");
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        tile_set(t, group_wide_sum(x, n), "acc%d * %s", n, factor);
    tile_end(t);
}

static void add_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t first = x->own_v ? 0 : x->p->attn->v_first,
                  own = group_wide_columns(x->p, x->shape),
                  part = own / group_wide_fragments(x->p, x->shape);
    tile_wait_stage(t, "y", "key");
    tile_wait_stage(t, "w", "weights");
    if (x->p->hooks->has_scale) {
        tile_load(t, "factor", "w.factor as [q] like sum_like");
        group_wide_scale_sums(x, "factor");
    }
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        tile_product(t, group_wide_sum(x, n), x->atom, TILE_ADD, TILE_NAME("w.P"),
                     tile_text(t, "%s[:, %d + self * %d +: %d] as [kv, e]",
                               x->own_v ? "y.V" : "y.K", first + n * part, own, part));
    tile_wait(t, group_wide_sums(x));
    tile_release(t, "w, y");
}

/* Fragments are so many channels each. */
static void store_sums(Lanes *x, int32_t part)
{
    AuTileBuild *t = x->t;
    const int32_t own = group_wide_columns(x->p, x->shape);
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        tile_store(t, "acc%d -> part_acc[%s, mb * %d +: %d, %d + self * %d +: %d] clip", n,
                   warps_part_place(x), x->block, x->block, n * part, own, part);
}

/* The output and finals, of rows that the sequence has. */
static void end_rows(Lanes *x, int32_t part)
{
    AuTileBuild *t = x->t;
    const int32_t own = group_wide_columns(x->p, x->shape);
    const uint32_t count = x->p->hooks->state_count;
    warps_name_all_rows(x);
    if (count) tile_wait_stage(t, "u", "ends");
    for (uint32_t n = 0; n < count; n++)
        tile_load(t, tile_numbered(t, "end", n), "u.state%u as [q] like sum_like", n);
    if (count) tile_release(t, "u");
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        warps_end_whole(x, tile_text(t, "acc%d", n),
                        tile_text(t, "%d + self * %d +: %d", n * part, own, part));
    warps_store_whole_finals(x);
}

static void sums_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t own = group_wide_columns(x->p, x->shape),
                  part = own / group_wide_fragments(x->p, x->shape);
    open_role(x, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        tile_frag(t, group_wide_sum(x, n), "f32[q:%d, e:%d] @ %s.C = 0.0", x->block, part,
                  x->atom->name);
    tile_frag(t, "sum_like", "f32[q:%d] like acc0 = 0.0", x->block);
    tile_for_tiles(t, "n", "keys", NULL);
    add_values(x);
    tile_end(t);
    if (warps_is_whole(x))
        end_rows(x, part);
    else
        store_sums(x, part);
    end_role(x);
}

static void roles(Lanes *x)
{
    group_wide_load_role(x);
    load_queries_role(x);
    if (x->shape->paired) {
        group_wide_pair_roles(x);
        return;
    }
    scores_role(x);
    sums_role(x);
}

static void kernels(Lanes *x) { warps_wide_kernels(x, memories, roles); }

AuSchedule *schedule_group_wide(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "group_wide", shape, group_wide_refusal(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = schedule_packs_rows(p);
    Lanes x = group_begin(warps_begin(arena, schedule_begin(arena, diags, p, out), p, out));
    x.block = x.rows = GROUP_ROWS;
    x.key_parts = 1;
    x.resident = 1;
    x.ends_rows = shape->paired && schedule_packs_rows(p) && warps_may_end_rows(p);
    return lanes_forward_built(&x, diags, kernels);
}
