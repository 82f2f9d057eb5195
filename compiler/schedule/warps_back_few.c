/* warps_back_few.c - backward for a few queries on the matrix units of warps (mma.sync), at the speed of memory.
 *
 * Where all rows of the query heads that share a head of keys are one tile, nothing of a key's gradients is a sum over tiles: dK and dV of a key
 * are made once and leave. So a block keeps Q, dO and the rows' statistics in shared memory, and the sums of dQ in registers, and its keys pass
 * by: a part of those of one head, each warp with keys of its own, so that nobody waits for another in the loop:
 *
 *     wait K, V of the warp's 16 keys; copies of its next ones begin
 *     S' = K Q'   dP' = V dO'   P', dS'    keys as rows: operand A of dV = P' dO and dK = dS' Q as they lie
 *     dQ += dS K                           dS across, through memory of the warp
 *     dV, dK through the places of V, K    rounded, and away in vectors of 16 bytes
 *
 * dK and dV are made some channels at a time, so that what is alive beside dQ is little. In the end the warps add their dQ one after the other in
 * shared memory, and the block adds it to the sums in memory: once for some hundred keys, where warps_backward adds it for each tile.
 *
 * Row r of the tile is query r / G of the G query heads' number r % G (warps_decode.c). A mask's range says which keys are read; of others
 * the gradients are zeros, which come of zeros. Kernels before and after: as those of warps_backward.c. */
#include "key_layout.h"
#include "lanes_back.h"
#include "warps_decode.h"

enum {
    CUT =
        32, /* channels of dK and dV that are made at once, at most: of 64 dropout and decays spill at width 128 */
    SUM_CUT = 64,          /* of dQ that warps join at once */
    MOST_OPERATIONS = 512, /* of the script, as for forward kernels of few queries */
    FRAGMENT_SHARE = 48,   /* 64ths of a lane's registers, for fragments */
    ROUNDS = 8, /* of blocks on all processors, so that the last one is short beside the rest */
};

/* The part of so many channels that is made at once. */
static int32_t cut_of(const Lanes *x, int32_t padded, int32_t most)
{
    int32_t cut = padded < most ? padded : most;
    while (padded % cut) cut -= x->atom->k;
    return cut;
}

static const char *rows_in_stage(Lanes *x)
{
    return tile_text(x->t, "%s%s +: %d", warps_stage(x, false), warps_own_keys(x), x->rows);
}

/* ---- grid, memories */

/* Parts of a head's keys: some for each processor, but none so short that what a block begins and ends with counts. */
static const char *parts(Lanes *x)
{
    const int32_t blocks = ROUNDS * WARPS_PROCESSORS * x->resident;
    return tile_text(x->t, "min(max(%d / max(%s * %s, 1), 1), max(cdiv(%s, %d), 1))", blocks,
                     lanes_axis(x, 1, 0), lanes_axis(x, 1, 1), lanes_axis(x, 1, 2),
                     x->shape->part_keys);
}

static void head(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *end = lanes_key_end(x);
    back_begin_kernel(x, "dkdv");
    back_statistics(x);
    back_argument(x, "dq_sum", TILE_INOUT);
    for (uint32_t n = 1; n < 3; n++) back_argument(x, back_gradient(x, n), TILE_OUT);
    tile_grid(t, "span: %s, hk: %s, b: %s", parts(x), lanes_axis(x, 1, 1), lanes_axis(x, 1, 0));
    tile_let(t, "group", "%s / %s", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
    tile_let(t, "hv", "hk");
    tile_let(t, "n_low", "0");
    tile_let(t, "n_high", "cdiv(%s, %d)", end, x->block);
    warps_let_share(x, parts(x));
    if (x->p->attn->mask.i)
        tile_let(t, "k_low, k_end, k_full_low, k_full_high", "%s", lanes_range_of_all(x, "hk"));
    tile_let(t, "k_high", "min(%s, last_tile * %d)", x->p->attn->mask.i ? "k_end" : end, x->block);
    if (x->p->attn->mask.i)
        tile_let(t, "q_low, q_end, q_full_low, q_full_high",
                 "query_range(b, hk, first_tile * %d, k_high)", x->block);
    tile_let(t, "q_high", x->p->attn->mask.i ? "min(q_end, %s)" : "%s", lanes_query_end(x));
    tile_list(t, "keys"); /* rows that are none make each tile partial */
    tile_segment(t, "partial", TILE_RANGE, "first_tile", "last_tile");
}

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile, d = warps_keys_width(x), e = warps_values_width(x);
    warps_tile(x, TILE_NAME("K"), "kv", x->block, "d", d, x->shape->stages);
    warps_tile(x, TILE_NAME("V"), "kv", x->block, "e", e, x->shape->stages);
    warps_tile(x, TILE_NAME("Q"), "q", m, "d", d, 1);
    warps_tile(x, TILE_NAME("dO"), "q", m, "e", e, 1);
    warps_tile(x, TILE_NAME("dS"), "kv", x->block, "q", m, 1);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_shared(t, tile_numbered(t, "row", n), "f32[q:%d]", m);
    tile_shared(t, "SUMS", "f32[q:%d, d:%d]", m, d);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
}

/* ---- rows of queries, once */

/* Rows that see none of the block's keys are zeros: 0 times what they are may be NaN. */
static void issue_row(Lanes *x, const char *token, AuTileHandle view, const char *to)
{
    tile_async_copy(x->t, token, "%v -> %s pad 0 when %sown_i < q_high", view, to,
                    x->p->attn->mask.i ? "own_i >= q_low && " : "");
}

/* The warp's share of the rows. */
static void issue_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t share = x->shape->query_tile / x->shape->executors;
    const char *own = tile_text(t, "self * %d", share), *to = tile_text(t, "[%s +: %d", own, share);
    warps_name_rows_as(x, "own_", own, share);
    const LanesRows q = lanes_rows(x, lanes_changed_name(x, 0), "own_h", warps_columns(x, x->p->d)),
                    given =
                        lanes_rows(x, back_output_gradient(x), "own_h", warps_columns(x, x->p->e));
    issue_row(x, "tq", lanes_at(x, q, "own_i"), tile_text(t, "Q%s, :]", to));
    issue_row(x, "to", lanes_at(x, given, "own_i"), tile_text(t, "dO%s, :]", to));
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        issue_row(x, tile_text(t, "t%u", n),
                  tile_part(t, "%s[b, own_h, own_i]", back_row_name(x, n)),
                  tile_text(t, "row%u%s]", n, to));
}

/* ---- keys that pass */

/* The warp's keys and values of tile [n], which there may be none of. */
static void issue_keys(Lanes *x, const char *n, const char *stage)
{
    AuTileBuild *t = x->t;
    const char *limits = tile_text(t, " from %s to k_high", x->p->attn->mask.i ? "k_low" : "0");
    const WarpsShare share = warps_share(x, n, x->block, stage, limits);
    warps_issue(x, TILE_NAME("tk"),
                lanes_at(x, lanes_operand_rows(x, 1, warps_columns(x, x->p->d)), share.rows),
                tile_part(t, "K[%s, :]", share.to));
    warps_issue(x, TILE_NAME("tv"),
                lanes_at(x, lanes_operand_rows(x, 2, warps_columns(x, x->p->e)), share.rows),
                tile_part(t, "V[%s, :]", share.to));
}

static void pairs(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *own = rows_in_stage(x);
    tile_product(t, "score", x->atom, TILE_START, tile_text(t, "K[%s, :]", own), "Q");
    tile_product(t, "dp", x->atom, TILE_START, tile_text(t, "V[%s, :]", own), "dO");
    tile_set(t, "j", "nb * %d + %s + iota(kv:%d)", x->block, warps_own_keys(x), x->rows);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_load(t, back_row_variable(x, n), "row%u like score", n);
    warps_pair_gradients(x, NULL);
    tile_store(t, "ds_operand -> dS[%s +: %d, :]", warps_own_keys(x), x->rows);
}

/* dK (1) or dV (2) of the warp's keys, part after part of their channels; as the tensor's own elements through the place of K or V. */
static void key_gradient(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const char *acc = n == 1 ? "dk_acc" : "dv_acc", *rows = rows_in_stage(x);
    const int32_t width = n == 1 ? warps_keys_width(x) : warps_values_width(x),
                  cut = cut_of(x, width, CUT);
    for (int32_t c = 0; c < width; c += cut) {
        const char *columns = tile_text(t, "%d +: %d", c, cut);
        tile_product(t, acc, x->atom, TILE_START, n == 1 ? "ds_operand" : "weight",
                     tile_text(t, "%s[:, %s]", n == 1 ? "Q" : "dO", columns));
        if (n == 2) warps_end_weights(x);
        if (back_has_rows(x, n))
            tile_store(t, "%s -> %s", acc, warps_gradient_place(x, n, columns));
        else
            tile_store(t, "%s(%s) -> %s[%s, %s]", x->operand, acc, n == 1 ? "K" : "V", rows,
                       columns);
    }
    if (!back_has_rows(x, n))
        tile_copy(t, "%s[%s, :] -> %s", n == 1 ? "K" : "V", rows,
                  warps_gradient_place(x, n, tile_text(t, "0 +: %d", width)));
}

static const char *dq_name(Lanes *x, int32_t part) { return tile_text(x->t, "dq%d", part); }

static void query_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t cut = cut_of(x, warps_keys_width(x), SUM_CUT);
    for (int32_t part = 0; part * cut < warps_keys_width(x); part++)
        tile_product(t, dq_name(x, part), x->atom, TILE_ADD,
                     tile_text(t, "dS[%s +: %d, :]", warps_own_keys(x), x->rows),
                     tile_text(t, "K[%s, %d +: %d]", rows_in_stage(x), part * cut, cut));
}

static void walk_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool two = x->shape->stages > 1;
    tile_for_tiles(t, "nb", "keys", NULL);
    warps_wait(x, "tk, tv");
    if (two) issue_keys(x, "(nb + 1)", warps_stage(x, true));
    pairs(x);
    key_gradient(x, 2);
    query_gradients(x);
    key_gradient(x, 1);
    if (two)
        tile_set(t, "at", "1 - at");
    else
        issue_keys(x, "(nb + 1)", "");
    tile_end(t);
    warps_wait(x, "tk, tv");
}

/* ---- dQ */

/* The warps' sums, one warp after the other, in SUMS. */
static void join_warps(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t cut = cut_of(x, warps_keys_width(x), SUM_CUT);
    for (int32_t warp = 0; warp < x->shape->executors; warp++) {
        tile_if(t, "self == %d", warp);
        for (int32_t part = 0; part * cut < warps_keys_width(x); part++) {
            const char *dq = dq_name(x, part);
            if (warp) tile_load(t, "before", "SUMS[:, %d +: %d] like %s", part * cut, cut, dq);
            tile_store(t, "%s%s -> SUMS[:, %d +: %d]", dq, warp ? " + before" : "", part * cut,
                       cut);
        }
        tile_end(t);
        tile_sync(t, "all");
    }
}

static void add_query_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    const WarpsPieces p = warps_dq_pieces(x, warps_keys_width(x));
    join_warps(x);
    for (int32_t turn = 0; turn < warps_dq_turns(x, &p); turn++) {
        const char *row, *channel;
        const bool some_idle = warps_begin_piece(x, &p, turn, &row, &channel);
        const char *to = tile_text(t, "to%d_", turn);
        warps_name_rows_as(x, to, row, p.rows);
        tile_load(t, "piece", "SUMS[%s +: %d, %s +: %d] @ %s.C", row, p.rows, channel, p.channels,
                  x->atom->name);
        tile_atomic_add(t, "piece -> dq_sum[b, %sh, %si, %s +: %d] clip when %si < %s", to, to,
                        channel, p.channels, to, lanes_query_end(x));
        if (some_idle) tile_end(t);
    }
    tile_sync(t, "all"); /* before another block's rows, in a persistent kernel */
}

/* ---- the kernel */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    const int32_t m = x->shape->query_tile, d = warps_keys_width(x), cut = cut_of(x, d, SUM_CUT);
    tile_frag(t, "score", "f32[kv:%d, q:%d] @ %s.C", x->rows, m, atom);
    tile_frag(t, "dp", "f32[kv:%d, q:%d] @ %s.C", x->rows, m, atom);
    tile_frag(t, "dk_acc", "f32[kv:%d, d:%d] @ %s.C", x->rows, cut_of(x, d, CUT), atom);
    tile_frag(t, "dv_acc", "f32[kv:%d, e:%d] @ %s.C", x->rows,
              cut_of(x, warps_values_width(x), CUT), atom);
    for (int32_t part = 0; part * cut < d; part++)
        tile_frag(t, dq_name(x, part), "f32[q:%d, d:%d] @ %s.C = 0.0", m, cut, atom);
}

static void dkdv(Lanes *x)
{
    AuTileBuild *t = x->t;
    head(x);
    memories(x);
    fragments(x);
    if (x->shape->stages > 1) tile_set(t, "at", "0");
    issue_keys(x, "first_tile", warps_stage(x, false)); /* which no kernel before has made */
    issue_queries(x);
    warps_name_rows_as(x, "", "0", x->shape->query_tile);
    warps_wait(x, warps_query_tokens(x));
    tile_sync(t, "all");
    walk_keys(x);
    add_query_gradients(x);
    tile_end(t);
    tile_end(t);
}

/* ---- shapes */

static int32_t shared_of(const Lanes *x)
{
    const AuProblem *p = x->p;
    const AuShape *s = x->shape;
    const int32_t span = warps_back_swizzle_span(p), d = warps_keys_width(x);
    const int32_t row =
        warps_row_bytes(p, span, d) + warps_row_bytes(p, span, warps_values_width(x));
    return WARPS_ALIGNMENT + (s->stages * x->block + s->query_tile) * row +
           x->block * warps_row_bytes(p, span, s->query_tile) +
           4 * s->query_tile * (d + (int32_t)back_row_count(x, true));
}

static Lanes begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    Lanes x = warps_back_begin(arena, t, p, out);
    x.sums_in_rows = true;
    x.resident = warps_resident(p, shared_of(&x), out->shape.executors);
    if (x.resident < 1) x.resident = 1;
    return x;
}

static const char *refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const AuAttn *a = p->attn;
    const AuGrads *g = p->grads;
    if (p->queries != AU_DECODE_QUERIES) return "many queries";
    if (a->node_count > MOST_OPERATIONS)
        return "functions so large that kernels of them once more take too much memory to make";
    if (!warps_copy_ahead(p)) return "machines without asynchronous copies of lanes";
    const char *why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    if (tile_elem(p->operand)->bytes != 2) return "operands of 32 bits";
    if (a->v_in_k) return "values that are channels of the keys";
    if (a->tensors[1].axes[1].i != a->tensors[2].axes[1].i)
        return "values of other heads than the keys'";
    if (warps_heads_apart(p)) return "a mask that depends on the head";
    if (attn_has_layout(a)) return "rows in a layout";
    if (p->hooks->dot_count) return "further products";
    if (p->deterministic) return "sums in one order";
    if (g->pass_count) return "sums over keys that need a pass of their own";
    return g->pairs.count ? "gradients of inputs that pairs read" : NULL;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    AuSchedule scratch = {.shape = *s};
    const char *why = refusal_of_problem(arena, p);
    if (why) return why;
    const Lanes x = begin(arena, NULL, p, &scratch);
    const int32_t lanes = p->caps->lanes, m = s->query_tile, d = warps_keys_width(&x);
    const int32_t bytes = shared_of(&x),
                  registers = (m * d + 2 * x.rows * m + x.rows * CUT) / lanes;
    const int32_t there = tile_share(p->caps, FRAGMENT_SHARE);
    if (m % x.atom->m || m % s->executors)
        return au_format(arena, "%d queries are no rows of %s for %d warps", m, x.atom->name,
                         s->executors);
    if (bytes > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", bytes, p->caps->shared_bytes);
    if (registers > there)
        return au_format(arena, "fragments take %d registers of a lane, %d are for them", registers,
                         there);
    return NULL;
}

const char *schedule_warps_back_few_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal_of_problem(arena, p);
    if (why) return why;
    s->rows = warps_atom(p)->m;
    s->key_tile = s->rows * s->executors;
    s->column_parts = s->query_parts = 1;
    s->swizzle_span = warps_back_swizzle_span(p);
    return refusal(arena, p, s);
}

/* The first that fits: many rows, since their tile is all that there may be. */
bool schedule_warps_back_few_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                   const char **why)
{
    enum { PART_KEYS = 512 };
    static const int32_t queries[] = {32, 16}, stages[] = {2, 1}, warps[] = {4, 2};
    for (uint32_t n = 0; n < 8; n++) {
        AuShape s = {.query_tile = queries[n / 4],
                     .executors = warps[n % 2],
                     .stages = stages[n / 2 % 2],
                     .part_keys = PART_KEYS};
        *why = schedule_warps_back_few_fit(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

int32_t schedule_warps_back_few_limit(AuArena *arena, const AuProblem *p, const char **why)
{
    AuShape shape;
    AuProblem few = *p;
    few.queries = AU_DECODE_QUERIES;
    if (schedule_warps_back_few_shape(arena, &few, &shape, why)) return shape.query_tile;
    if (!warps_copy_ahead(p) || !warps_atom(p)) *why = NULL;
    return 0;
}

AuSchedule *schedule_warps_back_few(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "warps_back_few", shape, refusal(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = true;
    Lanes x = begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    x.item_rows[LANES_QUERIES] = shape->query_tile;
    back_before(&x);
    back_adjoints(&x);
    dkdv(&x);
    back_after(&x);
    return lanes_built(&x, diags);
}
