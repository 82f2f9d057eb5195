/* group_wide.c - forward for few queries whose values are wider than a warp holds (latent attention: keys of 576 channels, of which 512 are
 * the value), by groups of four warps whose products go on beside them (wgmma), fed by a warp that brings tiles by boxes of tensors.
 *
 * As in warps_wide.c a block has a part of the keys of one head, and 64 rows of all query heads that share it. Sums of 512 channels take
 * the registers of two groups, so a third one makes the weights, for both:
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
 * (FlashMLA's two groups each have the scores of every second tile and half of the output, and exchange weights.)
 *
 * Kernels: as those of warps_wide.c. */
#include "group.h"
#include "key_layout.h"
#include "warps_decode.h"

enum {
    LANES = 128,         /* of a group */
    BESIDE = 24,         /* registers of a lane that no fragment may have */
    PRODUCER = 48,       /* of a lane of the warp that brings tiles, as the whole group has them */
    CONSUMER = 160,      /* of a lane of a group that sums: 128 are sums of 256 channels */
    SPAN_CHANNELS = 64,  /* that lie together in shared memory */
    MOST_SCORES = 240,   /* what is left is for the group of scores, at most so many */
    MOST_CHANNELS = 256, /* of a product, and of a group's sums */
    MOST_SUMS = 128,     /* columns of a fragment of sums */
    TOGETHER = 4,        /* rows of queries that are brought in a turn */
    BARRIERS = 512,      /* bytes of shared memory beside tiles */
};

/* Registers of a lane of the group of scores: what the others leave. */
static int32_t score_registers(const AuProblem *p, const AuShape *s)
{
    const int32_t all = group_registers_of(p, s->executors + 2) * (s->executors + 2),
                  left = all - s->producer_registers - s->executors * s->consumer_registers;
    return left < MOST_SCORES ? left : MOST_SCORES;
}

/* Channels of the output of a group; of the queries in shared memory. */
static int32_t columns(const AuProblem *p, const AuShape *s) { return p->e / s->executors; }

static int32_t shared_channels(const AuProblem *p, const AuShape *s)
{
    return p->d - s->query_channels;
}

/* Fragments of a group's sums, of so many channels each: an assembler that has the registers of all groups of a block alike in mind refuses a
 * product of more, and none may begin between channels that lie together. 0: there are no such. */
static int32_t fragments(const AuProblem *p, const AuShape *s)
{
    const int32_t own = columns(p, s);
    for (int32_t n = (own + MOST_SUMS - 1) / MOST_SUMS; n <= own / SPAN_CHANNELS; n++)
        if (own % (n * SPAN_CHANNELS) == 0) return n;
    return 0;
}

/* ---- memories */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    const AuProblem *p = x->p;
    const int32_t shared = shared_channels(p, s), keys = s->key_tile;
    const char *operand = x->operand;
    tile_pipeline(t, "queries", 1, "load_queries", "scores", "Q: %s[q:%d, d:%d] swizzle %d",
                  operand, x->block, shared, group_swizzle(p, shared));
    const char *tiles =
        tile_text(t, "K: %s[kv:%d, d:%d] swizzle %d", operand, keys, p->d, group_swizzle(p, p->d));
    if (x->own_v)
        tiles = tile_text(t, "%s, V: %s[kv:%d, e:%d] swizzle %d", tiles, operand, keys, p->e,
                          group_swizzle(p, p->e));
    tile_pipeline(t, "key", s->stages, "load", "scores, mma", "%s", tiles);
    tile_pipeline(t, "weights", s->exchange_stages, "scores", "mma",
                  "P: %s[q:%d, kv:%d] swizzle %d, factor: f32[q:%d]", operand, x->block, keys,
                  group_swizzle(p, keys), x->block);
}

/* ---- the warp that brings tiles */

/* Rows of k (1) or v (2). */
static void bring_operand(Lanes *x, const GroupTile *tile, uint32_t operand, bool by_lanes)
{
    AuTileBuild *t = x->t;
    const bool v = operand == 2, whole = !v && x->own_v;
    const LanesRows view = lanes_operand_rows(x, operand, ":");
    const char *to = v ? "y.V" : "y.K",
               *rows = tile_text(t, "%s * %d +: %d", tile->number, tile->rows, tile->rows);
    if (view.head)
        group_pages_issue(x, tile, view, to, v ? "e" : "d", by_lanes && !whole);
    else
        group_issue(
            x,
            lanes_at(x, view,
                     group_span(x, LANES_KEYS, rows, whole ? "" : group_limits(x, tile, by_lanes))),
            tile_part(t, "%s", to));
}

static void bring_tile(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    tile_acquire(x->t, "y", "key");
    bring_operand(x, tile, 1, by_lanes);
    if (x->own_v) bring_operand(x, tile, 2, by_lanes);
    tile_commit(x->t, "y");
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

/* Row r is query r / G of head r % G of the group: a box, where those of a block are of one query. */
static void load_queries_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t from = x->shape->query_channels, rows = TOGETHER;
    const char *channels =
        from ? tile_text(t, "%d +: %d", from, shared_channels(x->p, x->shape)) : ":";
    open_role(x, "load_queries", 0, TILE_ON_WARP, x->shape->producer_registers);
    tile_if(t, "group %% %d == 0 || %s == 1", x->block, lanes_most_queries(x));
    tile_acquire(t, "x", "queries");
    const LanesRows heads = lanes_rows(
        x, lanes_changed_name(x, 0),
        tile_text(t, "hk * group + mb * %d %% group +: %d", x->block, x->block), channels);
    tile_async_copy(
        t, NULL, "%v as [q, d] -> x.Q pad 0",
        lanes_at(x, heads,
                 tile_text(t, "%smb * %d / group", lanes_row_start(x, LANES_QUERIES), x->block)));
    tile_commit(t, "x");
    tile_else(t);
    tile_acquire(t, "x", "queries");
    tile_for_range(t, "some", "0", tile_text(t, "%d", x->block / rows));
    tile_set(t, "brought", "mb * %d + some * %d + iota(q:%d)", x->block, rows, rows);
    const LanesRows view =
        lanes_rows(x, lanes_changed_name(x, 0), "hk * group + brought % group", channels);
    tile_async_copy(
        t, NULL, "%v -> x.Q[some * %d +: %d, :] pad 0 when brought / group < %s",
        lanes_at(x, view, tile_text(t, "%sbrought / group", lanes_row_start(x, LANES_QUERIES))),
        rows, rows, lanes_query_end(x));
    tile_end(t);
    tile_commit(t, "x");
    tile_end(t);
    end_role(x);
}

static void load_role(Lanes *x)
{
    const GroupTile keys = {"n", x->shape->key_tile, "k", NULL, false};
    const bool paged = lanes_has_pages(x);
    open_role(x, "load", 0, TILE_ON_WARP, x->shape->producer_registers);
    if (paged) group_pages_begin(x);
    tile_for_tiles(x->t, "n", "keys", NULL);
    if (paged) group_pages_find(x, &keys);
    group_issue_of_list(x, &keys, bring_tile);
    tile_end(x->t);
    end_role(x);
}

/* ---- the group that makes weights */

static void hold_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t held = x->shape->query_channels;
    if (!held) return;
    const LanesRows rows =
        lanes_rows(x, lanes_changed_name(x, 0), "h", tile_text(t, "0 +: %d", held));
    tile_load(t, "query", "%v @ %s.A pad 0 when i < %s",
              lanes_at(x, rows, tile_text(t, "%si", lanes_row_start(x, LANES_QUERIES))),
              x->atom->name, lanes_query_end(x));
}

/* Into fragment [to]. */
static void start_scores(Lanes *x, const char *to)
{
    AuTileBuild *t = x->t;
    const int32_t held = x->shape->query_channels, shared = shared_channels(x->p, x->shape);
    tile_wait_stage(t, "y", "key");
    if (held)
        tile_product(t, to, x->atom, TILE_START, TILE_NAME("query"),
                     tile_text(t, "y.K[:, 0 +: %d]", held));
    tile_product(t, to, x->atom, held ? TILE_ADD : TILE_START, TILE_NAME("x.Q"),
                 tile_text(t, "y.K[:, %d +: %d]", held, shared));
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

/* Weights of tile `at`, whose scores are there. */
static void weights_of_before(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_scores_of(x, "at", LANES_MASK_NOWHERE);
    tile_if(t, "at < full_tile || at >= rest_tile");
    lanes_mask_scores(x);
    tile_end(t);
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

static void scores_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    open_role(x, "scores", 0, TILE_ON_WARPGROUP, score_registers(x->p, s));
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, s->key_tile, x->atom->name));
    if (s->scores_ahead)
        tile_frag(t, "next", "f32[q:%d, kv:%d] @ %s.C", x->rows, s->key_tile, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_name_rows(x, tile_text(t, "mb * %d", x->block));
    lanes_begin_states(x);
    hold_queries(x);
    tile_wait_stage(t, "x", "queries");
    if (s->scores_ahead)
        tiles_ahead(x);
    else
        tiles_alone(x);
    tile_release(t, "x");
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> part_state%u[%s, mb * %d +: %d] clip", n, n, warps_part_place(x),
                   x->block, x->block);
    end_role(x);
}

/* ---- the groups that sum values */

static AuTileHandle sums(Lanes *x, int32_t n) { return tile_numbered(x->t, "acc", (uint32_t)n); }

static const char *all_sums(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (int32_t n = 0; n < fragments(x->p, x->shape); n++)
        au_text_add(&text, "%sacc%d", n ? ", " : "", n);
    return au_text_str(&text);
}

static void add_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t first = x->own_v ? 0 : x->p->attn->v_first, own = columns(x->p, x->shape),
                  part = own / fragments(x->p, x->shape);
    tile_wait_stage(t, "y", "key");
    tile_wait_stage(t, "w", "weights");
    if (x->p->hooks->has_scale) {
        tile_load(t, "factor", "w.factor as [q] like sum_like");
        tile_set(t, "grown", "factor != 1.0"); /* few tiles have a larger maximum */
        tile_if(t, "anywhere(grown)");
        for (int32_t n = 0; n < fragments(x->p, x->shape); n++)
            tile_set(t, sums(x, n), "acc%d * factor", n);
        tile_end(t);
    }
    for (int32_t n = 0; n < fragments(x->p, x->shape); n++)
        tile_product(t, sums(x, n), x->atom, TILE_ADD, TILE_NAME("w.P"),
                     tile_text(t, "%s[:, %d + self * %d +: %d] as [kv, e]",
                               x->own_v ? "y.V" : "y.K", first + n * part, own, part));
    tile_wait(t, all_sums(x));
    tile_release(t, "w, y");
}

static void sums_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t own = columns(x->p, x->shape), part = own / fragments(x->p, x->shape);
    open_role(x, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    for (int32_t n = 0; n < fragments(x->p, x->shape); n++)
        tile_frag(t, sums(x, n), "f32[q:%d, e:%d] @ %s.C = 0.0", x->block, part, x->atom->name);
    tile_frag(t, "sum_like", "f32[q:%d] like acc0 = 0.0", x->block);
    tile_for_tiles(t, "n", "keys", NULL);
    add_values(x);
    tile_end(t);
    for (int32_t n = 0; n < fragments(x->p, x->shape); n++)
        tile_store(t, "acc%d -> part_acc[%s, mb * %d +: %d, %d + self * %d +: %d] clip", n,
                   warps_part_place(x), x->block, x->block, n * part, own, part);
    end_role(x);
}

static void roles(Lanes *x)
{
    load_role(x);
    load_queries_role(x);
    scores_role(x);
    sums_role(x);
}

static void kernels(Lanes *x) { warps_parts_kernels(x, memories, roles); }

/* ---- shapes */

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes, float_bytes = (int32_t)sizeof(float),
                  key = p->d + (p->attn->v_in_k ? 0 : p->e);
    return BARRIERS + WARPS_ALIGNMENT + GROUP_ROWS * shared_channels(p, s) * bytes +
           s->stages * s->key_tile * key * bytes +
           s->exchange_stages * GROUP_ROWS * (s->key_tile * bytes + float_bytes);
}

/* Of a lane of the group of scores: scores and weights, of both types, and queries. */
static int32_t fragment_registers(const AuShape *s)
{
    return GROUP_ROWS * s->key_tile * (s->scores_ahead ? 5 : 3) / 2 / LANES +
           GROUP_ROWS * s->query_channels / 2 / LANES;
}

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    const char *why = warps_wide_refusal(arena, p);
    if (why) return why;
    if (p->queries != AU_SOME_QUERIES) return "so few rows that a group's would be empty";
    if (!group_atom(p) || !p->caps->pipelines || !(p->caps->copies & TILE_COPIES_TENSOR))
        return "no matrix unit of groups of warps";
    const int32_t unit = group_atom(p)->k;
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    return NULL;
}

static const char *refusal_of_shape(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t unit = group_atom(p)->k, own = p->e / s->executors;
    if (p->e % s->executors || own > MOST_CHANNELS || !fragments(p, s) ||
        (p->attn->v_in_k && p->attn->v_first % SPAN_CHANNELS))
        return au_format(arena,
                         "%d channels are not those of %d groups, %d at most, in steps of %d", p->e,
                         s->executors, MOST_CHANNELS, SPAN_CHANNELS);
    if (s->key_tile % unit || s->key_tile > MOST_CHANNELS)
        return au_format(arena, "%d keys a tile are no multiple of %d", s->key_tile, unit);
    if (s->query_channels % SPAN_CHANNELS || s->query_channels >= p->d)
        return au_format(arena, "%d channels of %d in registers", s->query_channels, p->d);
    if (s->producer_registers % 8 || s->consumer_registers % 8)
        return "registers that are no multiples of 8";
    if (GROUP_ROWS * own / LANES + BESIDE > s->consumer_registers)
        return au_format(arena, "sums of %d registers, where a consumer has %d",
                         GROUP_ROWS * own / LANES, s->consumer_registers);
    if (fragment_registers(s) + BESIDE > score_registers(p, s))
        return au_format(arena, "scores and queries of %d registers, where their group has %d",
                         fragment_registers(s), score_registers(p, s));
    return group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

static void complete(const AuProblem *p, AuShape *s)
{
    s->rows = GROUP_ROWS;
    s->matrix_stores = p->caps->matrix_stores;
    s->swizzle_span = 0;
}

const char *schedule_group_wide_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(arena, p);
    complete(p, s);
    return why ? why : refusal_of_shape(arena, p, s);
}

/* The first that fits: long tiles, of which those of 64 keys keep the unit of scores busy best (docs/dev/hopper.md); then stages. */
bool schedule_group_wide_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    enum { MOST_STAGES = 5, KINDS = (MOST_STAGES - 1) * 2 };
    static const int32_t keys[] = {64, 32, 16};
    *why = refusal(arena, p);
    if (*why) return false;
    for (int32_t n = 0; n < 3 * KINDS; n++) {
        AuShape s = {.executors = (p->e + MOST_CHANNELS - 1) / MOST_CHANNELS,
                     .key_tile = keys[n / KINDS],
                     .stages = MOST_STAGES - n % KINDS / 2,
                     .exchange_stages = 2 - n % 2,
                     .producer_registers = PRODUCER,
                     .consumer_registers = CONSUMER,
                     .part_start = warps_part_start(p)};
        complete(p, &s);
        *why = refusal_of_shape(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

AuSchedule *schedule_group_wide(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "group_wide", shape, refusal_of_shape(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = true;
    Lanes x = group_begin(warps_begin(arena, schedule_begin(arena, diags, p, out), p, out));
    x.block = x.rows = GROUP_ROWS;
    x.key_parts = 1;
    x.resident = 1;
    return lanes_forward_built(&x, diags, kernels);
}
