/* linear_chunks_backward.c - gradients of recurrences whose decay is a number a token at most, without feedback or with that of
 * the key (linear_feedback_back.c; V is then what keys write), by products over chunks of tokens. A block goes over the sequence twice: forwards, where it keeps the state before each chunk in
 * the workspace; then backwards over chunks, with the gradient T of the state behind the chunk in its memory. Tokens
 * lie along the lanes, so that sums over channels need no exchange, and gradients of rows come out as hooks take them.
 *
 *     A = Q K' kept, dA = dO (w V)', dP = dA kept      kept: between writer and reader, 0 where the reader does not see the writer
 *     dV' = (T' K') until + dO' A      dK' = (T (w V)') until + Q' dP      dQ' = (S dO') since + K' dP'
 *     T <- T whole + Q' (dO since)
 *     dg of token t: pairs A dA whose writer is before t and whose reader sees it behind, writers before t to the chunk's end,
 *     readers behind t from its start, and what passes, whole <S, T>: sums up from nothing, none is taken from another one. */
#include "linear.h"

static const AuSlot in_memory[] = {AU_SLOT_Q,     AU_SLOT_K,     AU_SLOT_V,
                                   AU_SLOT_WRITE, AU_SLOT_ERASE, AU_SLOT_LOG_DECAY};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

/* With feedback strengths are part of what is written. */
static bool is_weighed(const Linear *l) { return lin_has(l, AU_SLOT_WRITE) && !lin_is_fed(l); }

/* What there is of a slot in memory; false: nothing. Of a decay of the head its gradients alone. */
static bool rows_of(const Linear *l, uint32_t n, LinearRows *r)
{
    *r = lin_rows(l, in_memory[n]);
    r->tokens = "kv";
    return lin_has(l, r->slot);
}

static bool is_brought(const Linear *l, const LinearRows *r)
{
    return r->slot != AU_SLOT_LOG_DECAY || lin_decays_by_token(l);
}

static void memories(Linear *l)
{
    LinearRows r;
    const int32_t C = l->chunk;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_memory(l, &r);
    lin_memory(l, "A", tile_text(l->x.t, "f32[q:%d, kv:%d]", C, C));
    lin_memory(l, "Dstate", tile_text(l->x.t, "f32[d:%d, e:%d]", l->x.p->d, l->x.p->e));
    if (lin_decays(l)) lin_memory(l, "Ends", tile_text(l->x.t, "f32[kv:%d]", C));
    lin_kept_memory(l);
    lin_fed_back_memory(l);
    lin_out_back_memory(l);
}

/* ---- fragments */

static void norm_fragments(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t C = l->chunk, lanes = l->x.p->caps->lanes;
    const char *atom = l->x.atom->name;
    tile_frag(t, "sum_state", "f32[d:%d] like state", l->x.p->d);
    tile_frag(t, "dsum_state", "f32[d:%d] like state", l->x.p->d);
    tile_frag(t, "zeros", "f32[d:%d, n:%d] @ %s.B = 0.0", l->x.p->d, lanes, atom);
    tile_frag(t, "of_sums", "f32[d:%d, n:%d] @ %s.B", l->x.p->d, lanes, atom);
    tile_frag(t, "one", "f32[kv:%d, n:%d] @ %s.B = 0.0", C, lanes, atom);
    tile_frag(t, "sum", "f32[q:%d, n:%d] @ %s.C", C, lanes, atom);
    tile_frag(t, "dsum_rows", "f32[q:%d] like score", C);
    tile_frag(t, "dsum_lanes", "f32[kv:%d] @ along_lanes", C);
}

static void fragments(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, E = l->x.p->e, W = l->columns;
    LinearRows r;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    tile_frag(t, "change_of_state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    tile_frag(t, "written", "f32[kv:%d, e:%d] @ %s.B", C, W, atom);
    tile_frag(t, "rows", "f32[q:%d, e:%d] @ %s.B", C, W, atom);
    tile_frag(t, "key", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "query", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "value", "f32[e:%d, kv:%d] @ %s.B", E, C, atom);
    tile_frag(t, "dout", "f32[e:%d, kv:%d] @ %s.B", E, C, atom);
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "turned", "f32[q:%d, kv:%d] @ %s.B", C, C, atom);
    tile_frag(t, "dx_Q", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_K", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_V", "f32[e:%d, kv:%d] @ %s.C", E, C, atom);
    if (lin_needs_output(l)) tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C", C, W, atom);
    if (is_weighed(l)) {
        tile_frag(t, "strength", "f32[kv:%d] @ along_lanes", C);
        tile_frag(t, "strength_rows", "f32[kv:%d] like written", C);
        tile_frag(t, "dx_W", "f32[kv:%d] @ along_lanes", C);
    }
    if (lin_decays(l)) {
        tile_frag(t, "dx_G", "f32[kv:%d] @ along_lanes", C);
        tile_frag(t, "run", "f32[kv:%d] @ along_lanes = 0.0", C);
        tile_frag(t, "pair", "f32[kv:%d] @ along_lanes", C);
    }
    lin_kept_declare(l, "written");
    lin_fed_back_declare(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r) && is_brought(l, &r)) lin_rows_declare(l, &r);
    if (l->has_norm) norm_fragments(l);
    lin_out_back_declare(l);
}

/* " * since", or nothing where nothing decays. */
static const char *by(const Linear *l, const char *text) { return lin_decays(l) ? text : ""; }

static const char *weighed(const Linear *l, const char *text) { return is_weighed(l) ? text : ""; }

/* ---- forwards */

static void load_rows(Linear *l, bool all)
{
    AuTileBuild *t = l->x.t;
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r) && is_brought(l, &r) && (all || r.slot != AU_SLOT_Q))
            lin_rows_load(l, &r);
    lin_meet(l);
    if (!is_weighed(l)) return;
    tile_load(t, "strength", "W");
    tile_load(t, "strength_rows", "W");
}

static void load_written(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "written", "%s[:, vb * %d +: %d]%s", lin_is_fed(l) ? "Written" : "V", l->columns,
              l->columns, lin_padded(l));
    if (is_weighed(l)) tile_set(t, "written", "written * strength_rows");
}

static const char *strips(Linear *l)
{
    return tile_text(l->x.t, "%d", (l->x.p->e + l->columns - 1) / l->columns);
}

static void states_of_chunks(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_for_range(t, "vb", "0", strips(l));
    tile_load(t, "state", "state_in[n, h, :, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_load(t, "sum_state", "sum_in[n, h, :]");
    lin_chunks(l);
    lin_back_chunk(l);
    tile_store(t, "state -> states[b, h, at, :, vb * %d +: %d]%s", l->columns, l->columns,
               lin_clipped(l));
    load_rows(l, false);
    lin_kept(l, lin_is_fed(l));
    lin_is_fed(l) ? lin_fed_back_forwards(l) : load_written(l);
    if (lin_decays(l)) {
        tile_set(t, "written", "written * until_rows");
        tile_set(t, "state", "state * whole");
    }
    tile_product(t, "state", l->x.atom, TILE_ADD, "K", "written");
    if (l->has_norm) {
        tile_store(t, "sum_state -> sum_states[b, h, at, :]");
        tile_load(t, "key", "K");
        tile_set(t, "sum_state",
                 "sum_state%s + reduce_sum(where(first + j < end, key%s%s, 0.0), kv)",
                 by(l, " * whole"), by(l, " * until"), weighed(l, " * strength"));
    }
    tile_end(t);
    tile_end(t);
}

/* What q reads, where something behind it asks for that. */
static void output(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (!lin_needs_output(l)) return;
    lin_meet(l);
    tile_store(t, "score -> A");
    lin_meet(l);
    tile_for_range(t, "vb", "0", strips(l));
    tile_load(t, "state", "states[b, h, at, :, vb * %d +: %d]%s", l->columns, l->columns,
              lin_padded(l));
    load_written(l);
    tile_product(t, "acc", l->x.atom, TILE_START, "Q as [q, d]", "state");
    if (lin_decays(l)) tile_set(t, "acc", "acc * since_rows");
    tile_product(t, "acc", l->x.atom, TILE_ADD, "A", "written");
    tile_store(t, "acc -> O[:, vb * %d +: %d] as [q, e]%s", l->columns, l->columns, lin_clipped(l));
    tile_end(t);
    if (!l->has_norm) return;
    tile_set(t, "of_sums", "zeros + sum_state");
    tile_set(t, "one", "fill(one, 1.0)");
    if (is_weighed(l)) tile_set(t, "one", "one * strength_rows");
    tile_product(t, "sum", l->x.atom, TILE_START, "Q as [q, d]", "of_sums");
    if (lin_decays(l)) tile_set(t, "sum", "sum * since_rows");
    tile_product(t, "sum", l->x.atom, TILE_ADD, "A", "one");
    tile_store(t, "sum -> Sums as [q, n]");
}

/* ---- backwards */

static void scores(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, "score", l->x.atom, TILE_START, "Q as [q, d]", "key");
    tile_set(t, "score", "where(%s, score%s, 0.0)", l->n->before ? "j < i_q" : "j <= i_q",
             by(l, " * kept"));
}

/* Of what was written: v, its strength, and what of them reaches the chunk's end, for the decays. */
static void values_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, "dx_V", l->x.atom, TILE_START, "Dstate", "key");
    if (lin_decays(l)) tile_set(t, "dx_V", "dx_V * until");
    if (l->has_norm) tile_set(t, "dweight", "reduce_sum(key * dsum_state, d)%s", by(l, " * until"));
    if (lin_decays(l)) {
        tile_set(t, "reaches", "reduce_sum(dx_V * value, e)%s", l->has_norm ? " + dweight" : "");
        tile_store(t, "reaches%s -> Ends", weighed(l, " * strength"));
    }
    tile_product(t, "dx_V", l->x.atom, TILE_ADD, "D as [q, e]", "score");
    if (lin_is_fed(l)) lin_fed_back_solve(l);
    if (l->has_norm) tile_set(t, "dweight", "dweight + reduce_sum(score * dsum_rows, q)");
    if (!is_weighed(l)) return;
    tile_set(t, "dx_W", "reduce_sum(dx_V * value, e)%s", l->has_norm ? " + dweight" : "");
    tile_set(t, "dx_V", "dx_V * strength");
}

/* Of keys and queries through the states at both ends; run: what readers have from the start. */
static void borders_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *ends = tile_text(t, "%s%s", by(l, " * until"), weighed(l, " * strength"));
    tile_product(t, "dx_K", l->x.atom, TILE_START, "Dstate", "value");
    if (*ends) tile_set(t, "dx_K", "dx_K%s", ends);
    if (l->has_norm) tile_set(t, "dx_K", "dx_K + dsum_state%s", ends);
    tile_product(t, "dx_Q", l->x.atom, TILE_START, "states[b, h, at, :, :] as [d, e]", "dout");
    if (lin_decays(l)) tile_set(t, "dx_Q", "dx_Q * since");
    if (l->has_norm) tile_set(t, "dx_Q", "dx_Q + sum_state * dsum_lanes%s", by(l, " * since"));
    if (lin_decays(l)) tile_set(t, "run", "reduce_sum(query * dx_Q, d)");
    if (lin_is_fed(l)) lin_fed_back_borders(l);
}

/* Through A; it becomes the products of its elements and their gradients, which `pairs_of_decays` takes. */
static void pairs_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, "dscore", l->x.atom, TILE_START, "D as [q, e]", "value");
    if (l->has_norm || is_weighed(l))
        tile_set(t, "dscore", "%sdscore%s%s", l->has_norm && is_weighed(l) ? "(" : "",
                 l->has_norm ? " + dsum_rows" : "",
                 is_weighed(l) ? l->has_norm ? ") * strength" : " * strength" : "");
    if (lin_decays(l)) tile_set(t, "score", "score * dscore");
    tile_set(t, "dscore", "where(%s, dscore%s, 0.0)", l->n->before ? "j < i_q" : "j <= i_q",
             by(l, " * kept"));
    lin_meet(l);
    tile_store(t, "dscore -> A");
    lin_meet(l);
    tile_load(t, "turned", "A as [kv, q]");
    tile_product(t, "dx_K", l->x.atom, TILE_ADD, "Q as [q, d]", "dscore");
    tile_product(t, "dx_Q", l->x.atom, TILE_ADD, "K as [q, d]", "turned");
    if (lin_is_fed(l)) lin_fed_back_pairs(l);
}

/* The gradient of the state before the chunk; `passed`: of what passes, for the decays. */
static void state_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t W = l->columns;
    if (lin_decays(l)) tile_set(t, "passed", "0.0");
    tile_for_range(t, "vb", "0", strips(l));
    tile_load(t, "change_of_state", "Dstate[:, vb * %d +: %d]%s", W, W, lin_padded(l));
    tile_load(t, "rows", "D[:, vb * %d +: %d] as [q, e]%s", W, W, lin_padded(l));
    if (lin_decays(l)) {
        tile_load(t, "state", "states[b, h, at, :, vb * %d +: %d]%s", W, W, lin_padded(l));
        tile_set(t, "change_of_state", "change_of_state * whole");
        tile_set(t, "passed", "passed + reduce_sum(state * change_of_state, d, e)");
        tile_set(t, "rows", "rows * since_rows");
    }
    tile_product(t, "change_of_state", l->x.atom, TILE_ADD, "Q as [q, d]", "rows");
    if (lin_is_fed(l)) lin_fed_back_state(l);
    tile_store(t, "change_of_state -> Dstate[:, vb * %d +: %d]%s", W, W, lin_clipped(l));
    tile_end(t);
    if (!l->has_norm) return;
    if (lin_decays(l)) {
        tile_set(t, "dsum_state", "dsum_state * whole");
        tile_set(t, "passed", "passed + reduce_sum(sum_state * dsum_state, d)");
    }
    tile_set(t, "dsum_state", "dsum_state + reduce_sum(query * dsum_lanes%s, kv)",
             by(l, " * since"));
}

/* Token after token: `run` has of each reader what writers before the token gave, `passed` what passes all readers. */
static void decays_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (!lin_decays(l)) return;
    lin_meet(l);
    tile_store(t, "score -> A");
    lin_meet(l);
    tile_for_range(t, "token", "0", tile_text(t, "%d", l->chunk));
    tile_set(t, "dg", "reduce_sum(where(%s, run, 0.0), kv) + passed",
             l->n->before ? "token < j" : "token <= j");
    tile_store(t, "dg -> G[token]");
    tile_load(t, "pair", "A[:, token] as [kv]");
    tile_load(t, "ended", "Ends[token]");
    tile_set(t, "run", "run + pair");
    tile_set(t, "passed", "passed + ended");
    tile_end(t);
    lin_meet(l);
    tile_load(t, "dx_G", "G");
}

static void chunk_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    LinearRows r;
    lin_back_chunk_again(l);
    lin_places(l);
    load_rows(l, true);
    lin_kept(l, true);
    tile_load(t, "key", "K");
    if (lin_is_fed(l)) lin_fed_back_written(l);
    tile_load(t, "value", lin_is_fed(l) ? "Written" : "V");
    if (lin_decays(l) || l->has_norm) tile_load(t, "query", "Q");
    if (l->has_norm) tile_load(t, "sum_state", "sum_states[b, h, at, :]");
    scores(l);
    output(l);
    lin_out_back(l);
    tile_load(t, "dout", "D");
    if (l->has_norm) {
        tile_load(t, "dsum_rows", "Dsums as [q]");
        tile_load(t, "dsum_lanes", "Dsums");
    }
    values_back(l);
    borders_back(l);
    pairs_back(l);
    state_back(l);
    decays_back(l);
    if (lin_is_fed(l)) lin_fed_back_rows(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_back_from(l, &r);
}

static void regions(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *batch = lanes_axis(&l->x, 0, 0),
               *chunks = tile_text(t, "cdiv(%s, %d) + %s", l->tokens, l->chunk, lin_sequences(l));
    tile_arg(t, "states", TILE_INOUT, "f32[b:%s, h:%s, n:%s, d:%d, e:%d]", batch, l->heads, chunks,
             l->x.p->d, l->x.p->e);
    if (l->has_norm)
        tile_arg(t, "sum_states", TILE_INOUT, "f32[b:%s, h:%s, n:%s, d:%d]", batch, l->heads,
                 chunks, l->x.p->d);
}

static void copy_state(Linear *l, const char *from, const char *to)
{
    AuTileBuild *t = l->x.t;
    tile_for_range(t, "vb", "0", strips(l));
    tile_load(t, "change_of_state", "%s, vb * %d +: %d] pad 0", from, l->columns, l->columns);
    tile_store(t, "change_of_state -> %s, vb * %d +: %d] clip", to, l->columns, l->columns);
    tile_end(t);
}

static void backward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    l->rows_along = false;
    lin_back_head(l, "reverse");
    regions(l);
    if (!l->x.on_cpu) memories(l);
    tile_role(t, "core", 0, lanes_executor(&l->x), 0);
    if (l->x.on_cpu) memories(l);
    const uint32_t loops = lin_back_loops(l);
    lin_find_sequence(l);
    fragments(l);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    tile_set(t, "i_q", "iota(q:%d)", l->chunk);
    states_of_chunks(l);
    copy_state(l, "dstate_out[n, h, :", "Dstate[:");
    if (l->has_norm) tile_load(t, "dsum_state", "dsum_out[n, h, :]");
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(l);
    tile_end(t);
    lin_meet(l);
    copy_state(l, "Dstate[:", "dstate_in[n, h, :");
    if (l->has_norm) tile_store(t, "dsum_state -> dsum_in[n, h, :]");
    for (uint32_t n = 0; n < loops + 2; n++) tile_end(t);
    lanes_region(&l->x, "states");
    if (l->has_norm) lanes_region(&l->x, "sum_states");
    lin_sum_kernels(l);
}

AuSchedule *schedule_linear_chunks_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                            const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_chunks_backward", backward_kernel);
}

/* Numbers of fragments that a lane has. */
static int32_t words(const AuProblem *p, int32_t tokens, int32_t columns)
{
    const int32_t of_a_token = 3 * p->d + p->e + 2 * lin_numbers(p) + 4 * tokens;
    const int32_t fed = p->hooks->normal->feedback != AU_FEEDBACK_NONE;
    return (of_a_token + fed * (5 * p->d + p->e + 4 * tokens)) * (tokens / p->caps->lanes) +
           (2 * p->d + (3 + 2 * fed) * tokens) * columns;
}

const char *schedule_linear_chunks_backward_refusal(const AuProblem *p, const AuShape *s)
{
    const char *why = schedule_linear_chunks_refusal(p);
    if (why) return why;
    if (p->hooks->normal->feedback != AU_FEEDBACK_NONE && p->hooks->slots[AU_SLOT_NORM].value.i)
        return "feedback and a norm";
    if (!p->caps->has_private) return "machines whose executors have no memory of their own";
    if (s->key_tile % p->caps->lanes) return "a chunk of as many tokens as there are lanes";
    return words(p, s->key_tile, s->query_registers) > p->caps->private_words
               ? "fragments that are too large"
               : NULL;
}

bool schedule_linear_chunks_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                           const char **why)
{
    const int32_t lanes = p->caps->lanes, vectors = (p->e + lanes - 1) / lanes;
    const int32_t most = p->hooks->normal->feedback == AU_FEEDBACK_NONE ? 32 : 16; /* exactness */
    (void)arena;
    *out = (AuShape){.executors = 1, .key_tile = lanes > most ? lanes : most};
    out->query_registers = vectors < 4 ? vectors : 4;
    while (out->key_tile > lanes &&
           words(p, out->key_tile, out->query_registers) > p->caps->private_words)
        out->key_tile /= 2;
    while (out->query_registers > 1 &&
           words(p, out->key_tile, out->query_registers) > p->caps->private_words)
        out->query_registers /= 2;
    out->product_columns = 2;
    out->product_rows = p->caps->registers > 16 ? 12 : 5;
    *why = schedule_linear_chunks_backward_refusal(p, out);
    return !*why;
}
