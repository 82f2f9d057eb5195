/* linear_warps_backward.c - gradients of what `linear_warps` takes without feedback, on the matrix units of a warp, by products over chunks.
 * The kernel `states` makes the state before each chunk again, in operands' type; `reverse` goes over chunks from the last to the first, with
 * the gradient T of the state behind the chunk as the sums of its own product.
 *
 *     A = Q K' kept       dA = dO (w V)' kept       kept: between writer and reader, 0 where the reader does not see the writer
 *     dQ = (dO S') since + dA K       dK = (V T') until w + dA' Q       dV = w ((K T) until + A' dO)       T <- T whole + (Q since)' dO
 *
 * A and dA are made once, by parts, and pass through shared memory, rounded: rows of queries and of keys both read them. What follows from
 * them for rows, dQ, dK and dV, is in linear_warps_rows_back.c. */
#include "linear_warps.h"

static bool decays(const LinearBack *b) { return lin_decays(&b->w.l); }
static bool by_token(const LinearBack *b) { return lin_decays_by_token(&b->w.l); }
static bool is_weighed(const LinearBack *b) { return lin_has(&b->w.l, AU_SLOT_WRITE); }
/* Strengths of writes belong to pairs and keys, but where they are in what is written. */
static bool weighs_pairs(const LinearBack *b) { return is_weighed(b) && !b->is_fed; }

/* ---- memories and fragments */

static void memories(LinearBack *b)
{
    Linear *l = &b->w.l;
    lw_memories(&b->w);
    lw_given_memory(&b->w);
    warps_tile(&l->x, TILE_NAME("S"), "d", b->w.d, "e", b->w.e, 1);
    warps_tile(&l->x, TILE_NAME("T"), "d", b->w.d, "e", b->w.e, 1);
    warps_tile(&l->x, TILE_NAME("P"), "q", l->chunk, "kv", l->chunk, 1);
    warps_tile(&l->x, TILE_NAME("R"), "q", l->chunk, "kv", l->chunk, 1);
    if (b->is_fed) {
        lw_key_memories(&b->w);
        lw_key_back_memories(b);
    }
    lw_sums_memories(b);
    if (b->is_staged) tile_shared(l->x.t, "Staged", "f32[p:2, kv:%d, d:%d]", l->chunk, b->w.d);
    lw_gates_memories(b);
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "dstate", "f32[d:%d, e:%d] @ %s.C = 0.0", w->channels, w->columns, atom);
    tile_frag(t, "column", "%s[d:%d, q:%d] @ %s.A", l->x.operand, w->channels, l->chunk, atom);
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, b->pair_columns, atom);
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, b->pair_columns, atom);
    tile_frag(t, "dx", "f32[kv:%d, d:%d] @ %s.C", LINEAR_ROWS, b->key_columns, atom);
    tile_frag(t, "dvalue", "f32[kv:%d, e:%d] @ %s.C", LINEAR_ROWS, b->value_columns, atom);
    if (by_token(b)) {
        tile_frag(t, "since", "f32[q:%d] like score", LINEAR_ROWS);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", b->pair_columns);
        tile_frag(t, "since_start", "f32[q:%d] like column", l->chunk);
        tile_frag(t, "of_dx", "f32[kv:%d] like dx", LINEAR_ROWS);
        tile_frag(t, "of_value", "f32[kv:%d] like dvalue", LINEAR_ROWS);
    }
    if (decays(b))
        tile_frag(t, "kept", "f32[q:%d, kv:%d] like score", LINEAR_ROWS, b->pair_columns);
    if (is_weighed(b)) {
        tile_frag(t, "strength_of_pair", "f32[kv:%d] like score", b->pair_columns);
        tile_frag(t, "strength_of_row", "f32[kv:%d] like dx", LINEAR_ROWS);
        tile_frag(t, "strength_of_value", "f32[kv:%d] like dvalue", LINEAR_ROWS);
    }
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    if (b->is_fed) {
        lw_key_declare(w);
        lw_key_back_declare(b);
    }
    lw_sums_declare(b);
    lw_declare(w);
}

/* ---- copies */

static void issue(LinearBack *b, const char *chunk, const char *stage)
{
    lw_issue(&b->w, chunk, stage);
    lw_issue_given(&b->w, chunk, stage);
    lw_sums_issue(b, chunk);
}

/* Nothing before the first chunk. */
static void issue_state(LinearBack *b, const char *chunk)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t share = w->d / w->l.x.shape->executors;
    tile_set(t, "chunk_of_state", "%s", chunk);
    lw_place_of_states(w, "place", "max(chunk_of_state, 0)");
    lw_sums_issue_state(b);
    warps_issue(&w->l.x, TILE_NAME("ts"),
                tile_part(t,
                          "states[b, h, place, self * %d +: %d from 0 to where(chunk_of_state < "
                          "0, 0, %d), :]",
                          share, share, w->d),
                tile_part(t, "S[self * %d +: %d, :]", share, share));
}

/* ---- a chunk */

static const char *pair_column(LinearBack *b)
{
    return lw_begins(&b->w, tile_text(b->w.l.x.t, "self / %d", b->w.row_groups), b->pair_parts,
                     b->pair_columns);
}

void lw_pairs_of_queries(LinearBack *b, bool apart)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool before = l->n->before, some = b->pair_parts < b->parts && !apart;
    const char *sees = before ? "j < i" : "j <= i", *stage = warps_stage(&l->x, false);
    const char *columns = tile_text(t, "%s +: %d", pair_column(b), b->pair_columns),
               *own = tile_text(t, "[%s +: %d, %s]", lw_row(w), LINEAR_ROWS, columns);
    if (some) tile_if(t, "self < %d", w->row_groups * b->pair_parts);
    tile_set(t, "i", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "j", "%s + iota(kv:%d)", pair_column(b), b->pair_columns);
    tile_product(t, "score", l->x.atom, TILE_START, tile_text(t, "Q[%s, :]", lw_own_rows(b)),
                 tile_text(t, "K[%s%s, :]", stage, columns));
    const char *given = tile_text(t, "D[%s, :]", lw_own_rows(b));
    tile_product(t, "dscore", l->x.atom, TILE_START, given,
                 b->is_fed ? tile_text(t, "Uh[:, %s]", columns)
                           : tile_text(t, "V[%s%s, :]", stage, columns));
    lw_sums_of_pairs(b);
    if (by_token(b)) {
        tile_load(t, "since", "G[%s +: %d] as [q]", lw_row(w), LINEAR_ROWS);
        tile_load(t, "at_writer", "G[%d + %s]", w->has_since, columns);
        tile_set(t, "kept", "exp(where(%s, since - at_writer, -inf))", sees);
    } else if (decays(b))
        tile_set(t, "kept", "exp(f32(i%s - j) * rate)", before ? " - 1" : "");
    if (weighs_pairs(b)) {
        tile_load(t, "strength_of_pair", "W[%s]", columns);
        tile_set(t, "dscore", "dscore * strength_of_pair");
    }
    tile_set(t, "score", "where(%s, score%s, 0.0)", sees, decays(b) ? " * kept" : "");
    lw_sums_of_kept(b, columns);
    lw_gates_of_pairs(b);
    tile_set(t, "dscore", "where(%s, dscore%s, 0.0)", sees, decays(b) ? " * kept" : "");
    if (!apart) tile_store(t, "%s(score) -> P%s", l->x.operand, own);
    tile_store(t, "%s(dscore) -> R%s", l->x.operand, own);
    if (some) tile_end(t);
}

static void state_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *view =
        tile_text(t, "Q[%s:, %s +: %d]", warps_stage(&l->x, false), lw_state_row(w), w->channels);
    lw_begin_state(w);
    lw_gates_of_state(b);
    if (decays(b)) {
        tile_set(t, "dstate", "dstate * whole");
        tile_load(t, "column", "%s", view);
        if (by_token(b)) tile_load(t, "since_start", "G[0 +: %d] as [q]", l->chunk);
        const char *since =
            tile_text(t, "exp(%s)",
                      by_token(b)    ? "since_start"
                      : l->n->before ? tile_text(t, "f32(iota(q:%d)) * rate", l->chunk)
                                     : tile_text(t, "f32(iota(q:%d) + 1) * rate", l->chunk));
        lw_sums_of_state(b, since);
        tile_set(t, "column", "%s(f32(column) * %s)", l->x.operand, since);
        view = "column";
    } else if (l->has_norm) {
        tile_load(t, "column", "%s", view);
        lw_sums_of_state(b, "");
    }
    tile_product(t, "dstate", l->x.atom, TILE_ADD, view,
                 tile_text(t, "D[%s:, %s +: %d]", warps_stage(&l->x, false), lw_state_column(w),
                           w->columns));
    if (b->is_fed) lw_key_back_state(b);
    lw_end_state(w);
}

static void chunk_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool ahead = warps_are_async(&l->x), two = l->x.shape->stages > 1;
    tile_set(t, "chunk", "cdiv(length, %d) - 1 - back", l->chunk);
    tile_set(t, "first", "start + chunk * %d", l->chunk);
    tile_set(t, "row", "%s + iota(kv:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "t", "first + row");
    tile_set(t, "c", "%s + iota(e:%d)", lw_value_column(b), b->value_columns);
    if (l->n->decay == AU_DECAY_CONSTANT) {
        lin_count(l);
        tile_set(t, "whole", "exp(f32(count) * rate)");
    }
    if (!ahead) issue(b, "chunk", ""), issue_state(b, "chunk");
    lw_wait(w);
    warps_wait(&l->x, "td");
    if (b->is_fed) warps_wait(&l->x, "ts");
    lw_change(w);
    lw_numbers(w);
    lw_share_gradient(w);
    lw_sums_share(b);
    tile_sync(t, "all");
    if (two) issue(b, "chunk - 1", warps_stage(&l->x, true));
    if (by_token(b)) {
        tile_load(t, "total", "G[%d]", w->has_since + l->chunk - 1);
        tile_set(t, "whole", "exp(total)");
    }
    if (b->is_fed) {
        tile_set(t, "i", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
        tile_set(t, "j", "iota(kv:%d)", l->chunk);
        lw_key_solve(w);
        tile_sync(t, "all");
    }
    lw_pairs_of_queries(b, false);
    if (!b->is_fed) warps_wait(&l->x, "ts");
    tile_sync(t, "all");
    if (b->is_fed) {
        lw_begin_solvers(w);
        lw_key_back_right(b);
        lw_key_back_solve(b);
        lw_end_solvers(w);
        tile_sync(t, "all");
        lw_key_back_pairs(b);
        tile_sync(t, "all");
    }
    tile_if(t, "self < %d", l->x.shape->executors / 2);
    lw_rows_back(b, false);
    tile_else(t);
    lw_rows_back(b, true);
    tile_end(t);
    lw_values_back(b);
    state_back(b);
    tile_sync(t, "all");
    lw_staged_rows(b);
    lw_gates_back(b);
    if (ahead && !two) issue(b, "chunk - 1", "");
    if (ahead) issue_state(b, "chunk - 1");
    if (two) tile_set(t, "at", "1 - at");
}

static void reverse_kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_back_head(l, "reverse");
    lw_states_argument(w, TILE_IN);
    lw_numbers_argument(w, TILE_IN);
    if (b->is_fed) lw_inverses_argument(w, TILE_IN);
    lw_given_argument(w, TILE_IN);
    lw_sums_arguments(b);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    const uint32_t loops = lin_back_loops(l);
    lin_find_sequence(l);
    lin_name_heads(l);
    tile_set(t, "vb", "0");
    fragments(b);
    lw_move_gradient(w, true);
    lw_sums_move(b, true);
    b->part = (LinearPart){tile_text(t, "first + %s +: %d", lw_row(w), LINEAR_ROWS),
                           tile_text(t, "%s +: %d", lw_key_column(b), b->key_columns),
                           tile_text(t, "%s +: %d", lw_value_column(b), b->value_columns)};
    l->of_warps = &b->part;
    tile_set(t, "last", "cdiv(length, %d) - 1", l->chunk);
    if (l->x.shape->stages > 1) tile_set(t, "at", "0");
    if (warps_are_async(&l->x)) issue(b, "last", warps_stage(&l->x, false)), issue_state(b, "last");
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(b);
    tile_end(t);
    lw_wait(w);
    warps_wait(&l->x, "td");
    warps_wait(&l->x, "ts");
    lw_move_gradient(w, false);
    lw_sums_move(b, false);
    for (uint32_t n = 0; n < loops + 2; n++) tile_end(t);
    l->names_heads = false;
}

static LinearBack begin(LinearWarps w)
{
    LinearBack b = {.w = w};
    const AuShape *s = w.l.x.shape;
    b.parts = s->executors / w.row_groups;
    b.key_parts = linear_warps_key_parts(s);
    b.key_strips = linear_warps_key_strips(w.l.x.p, s);
    b.key_columns = w.d / (b.key_parts * b.key_strips);
    b.value_columns = w.e / b.parts;
    b.pair_parts = b.parts < w.row_groups ? b.parts : w.row_groups;
    while (w.row_groups % b.pair_parts) b.pair_parts--;
    b.is_fed = lin_is_fed(&w.l);
    b.erase_sums = 1 + b.parts;
    b.w.rounds_written = true;
    if (b.is_fed) b.pair_parts = 1;
    b.pair_columns = w.l.chunk / b.pair_parts;
    b.is_staged = linear_warps_is_staged(w.l.x.p, s);
    b.has_rates = lw_by_channel(&w) && lin_has_gradient(&w.l, AU_SLOT_LOG_DECAY);
    b.has_rate = w.l.n->decay != AU_DECAY_NONE && !lw_by_channel(&w) &&
                 lin_has_gradient(&w.l, AU_SLOT_LOG_DECAY);
    return b;
}

/* Columns of values along lanes, one each: of rows whose tokens lie side by side. */
static void lay_along(LinearWarps *w, int32_t columns)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t warp = w->l.x.p->caps->lanes, power = columns & -columns,
                  lanes = power < warp ? power : warp;
    tile_layout(t, "along_e", tile_text(t, "lane:%d@1 reg", lanes),
                lanes < warp ? tile_text(t, "lane:%d@%d reg", warp / lanes, lanes) : "reg");
}

/* What chains keep for chunks, the last two with feedback. */
static const char *const kept[] = {"states", "dstates", "updates", "solutions"};
enum { KEPT = sizeof kept / sizeof *kept, KEPT_UNFED = 2 };

/* Chains of S and of T, then chunks. */
static AuSchedule *kernels_apart(AuArena *arena, AuDiags *diags, AuTileBuild *t, const AuProblem *p,
                                 AuSchedule *out, const AuShape *whole)
{
    const AuShape chain = linear_warps_chain_shape(p, &out->shape),
                  apart = linear_warps_apart_shape(p, &out->shape);
    LinearWarps chains = lw_begin(arena, t, p, out, &chain);
    chains.keeps_states = chains.keeps_written = true;
    chains.kept_columns = whole->query_tile;
    lw_layouts(&chains);
    warps_across(&chains.l.x, "across_r", chains.l.chunk);
    lay_along(&chains, whole->query_tile);
    lw_numbers_kernel(&chains);
    lw_inverse_kernel(arena, t, p, out, true);
    chains.has_rows = true;
    lw_forward_kernel(&chains);
    lw_make_given(arena, t, p, out, &chains);
    lw_carry_kernel(&chains);
    LinearBack b = begin(lw_begin(arena, t, p, out, &apart));
    b.parts = b.key_strips = b.pair_parts = 1;
    b.key_parts = apart.executors / b.w.row_groups;
    b.erase_sums = 1 + b.key_parts;
    b.rounds = linear_warps_apart_rounds(p, &out->shape);
    b.key_columns = b.w.d, b.value_columns = b.w.e, b.pair_columns = b.w.l.chunk;
    b.w.has_rows = true;
    b.is_apart = b.w.without_values = b.w.without_inverse = true;
    b.is_staged = false;
    b.w.l.asks_heads = true;
    b.w.holders = apart.executors;
    b.w.kept_columns = whole->query_tile;
    lw_apart_kernel(&b);
    for (uint32_t n = 0; n < KEPT; n++) lanes_region(&b.w.l.x, kept[n]);
    lin_sum_kernels(&b.w.l);
    return lanes_built(&b.w.l.x, diags);
}

/* Decays a channel, and with feedback `own` all as if they were that: pairs, chains of S and of T, then chunks; with feedback U and y, too. */
static AuSchedule *kernels_of_channels(AuArena *arena, AuDiags *diags, AuTileBuild *t,
                                       const AuProblem *p, AuSchedule *out, const AuShape *whole)
{
    const AuShape chain = linear_warps_chain_shape(p, &out->shape),
                  apart = linear_warps_apart_shape(p, &out->shape);
    LinearWarps chains = lw_begin(arena, t, p, out, &chain);
    chains.keeps_states = true;
    chains.keeps_written = lw_is_fed(&chains);
    chains.kept_columns = whole->query_tile;
    lw_layouts(&chains);
    if (lin_is_fed(&chains.l)) lay_along(&chains, whole->query_tile);
    lw_numbers_kernel(&chains);
    lw_make_pairs(arena, t, p, out, &chain, true);
    chains.has_decayed = true;
    lw_forward_kernel(&chains);
    lw_make_given(arena, t, p, out, &chains);
    lw_carry_kernel(&chains);
    LinearBack b = begin(lw_begin(arena, t, p, out, &apart));
    b.key_columns = b.w.d;
    if (b.is_fed) {
        b.parts = 1;
        b.value_columns = b.w.e;
        b.w.without_values = b.w.without_inverse = true;
        b.erase_sums = (b.w.l.chunk + b.w.d) / LINEAR_ROWS; /* of groups of writers, of strips */
    }
    b.is_own = lw_is_own(&b.w);
    while (b.is_own && b.w.e % (b.parts * LINEAR_ROWS)) b.parts--;
    if (b.is_own) b.value_columns = b.w.e / b.parts;
    b.is_apart = true;
    b.is_staged = false;
    b.w.l.asks_heads = true;
    b.w.kept_columns = whole->query_tile;
    b.blocks = linear_warps_channels_blocks(p, &out->shape);
    lw_channels_kernel(&b);
    for (uint32_t n = 0; n < (lw_is_fed(&b.w) ? KEPT : KEPT_UNFED); n++)
        lanes_region(&b.w.l.x, kept[n]);
    lin_sum_kernels(&b.w.l);
    return lanes_built(&b.w.l.x, diags);
}

/* The shape's columns and parts are those of the kernel of states. */
AuSchedule *schedule_linear_warps_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                           const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "linear_warps_backward", shape, NULL);
    AuTileBuild *t = schedule_begin(arena, diags, p, out);
    tile_set_option(t, "late_strides", 1);
    AuShape whole = *shape;
    whole.query_tile = linear_warps_value_columns(p, shape);
    whole.column_parts = linear_warps_state_parts(p, shape);
    if (linear_warps_by_channel(p)) return kernels_of_channels(arena, diags, t, p, out, &whole);
    if (linear_warps_is_apart(p, shape)) return kernels_apart(arena, diags, t, p, out, &whole);
    LinearWarps states = lw_begin(arena, t, p, out, &out->shape);
    states.keeps_states = true;
    states.kept_columns = whole.query_tile;
    lw_layouts(&states);
    lw_numbers_kernel(&states);
    if (lin_is_fed(&states.l)) lw_inverse_kernel(arena, t, p, out, false);
    if (lin_is_fed(&states.l) && lin_needs_output(&states.l)) {
        states.keeps_written = true;
        lanes_region(&states.l.x, "updates");
    }
    lw_forward_kernel(&states);
    lw_make_given(arena, t, p, out, &states);
    LinearBack b = begin(lw_begin(arena, t, p, out, &whole));
    b.w.kept_columns = whole.query_tile;
    b.w.l.asks_heads = lin_needs_output(&b.w.l); /* as `outputs` does */
    reverse_kernel(&b);
    lanes_region(&b.w.l.x, "states");
    lin_sum_kernels(&b.w.l);
    return lanes_built(&b.w.l.x, diags);
}
