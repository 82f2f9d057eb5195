/* linear_channels_backward.c - gradients of recurrences whose decay is a number a channel, without feedback, in chunks on processors.
 * States are products over chunks as in linear_chunks_backward.c; what decays between two tokens of a chunk differs by channel, so
 * pairs of tokens are taken one by one, channels along the lanes, from the reader back to the first writer:
 *
 *     kept <- kept f[s]     A[t,s] = q[t] . (kept k[s])     dq[t] += dA[t,s] kept k[s]     dk[s] += dA[t,s] kept q[t]
 *
 * All factors are products of decays, none is a quotient, so none is above 1. With T the gradient of the state behind the chunk:
 *
 *     dA = dO (w V)'     dV' = w ((T' (K until)') + dO' A)     dK' += (T (w V)') until     dQ' += (S dO') since
 *     T <- T whole + (Q since)' dO
 *     dg of token t: pairs whose writer is before t and whose reader sees it behind; readers behind t from the chunk's start; writers
 *     before t to its end; what passes, whole (S . T): sums up from nothing, none is taken from another one. */
#include "linear_channels.h"

static const AuSlot in_memory[] = {AU_SLOT_Q, AU_SLOT_K, AU_SLOT_V, AU_SLOT_WRITE,
                                   AU_SLOT_LOG_DECAY};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

static bool is_weighed(const Linear *l) { return lin_has(l, AU_SLOT_WRITE); }

static bool rows_of(const Linear *l, uint32_t n, LinearRows *r)
{
    *r = lin_rows(l, in_memory[n]);
    r->tokens = "kv";
    return lin_has(l, r->slot);
}

/* Of a chunk, [kv, d]: products of decays since its start and until its end, Q times the former; gradients of pairs, what a reader
 * and each writer have of one another, and what readers and writers have of the states at both ends. */
static const char *const of_channels[] = {"Since",  "Until",  "Read",  "Dq",   "Dk",
                                          "Dgates", "Parted", "Begun", "Ended"};

static void memories(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t C = l->chunk, D = l->x.p->d;
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_memory(l, &r);
    for (uint32_t n = 0; n < sizeof of_channels / sizeof *of_channels; n++)
        lin_memory(l, of_channels[n], tile_text(t, "f32[kv:%d, d:%d]", C, D));
    lin_channels_memory(l);
    lin_memory(l, "Passed", tile_text(t, "f32[d:%d]", D));
    lin_memory(l, "A", tile_text(t, "f32[q:%d, kv:%d]", C, C));
    lin_memory(l, "Da", tile_text(t, "f32[q:%d, kv:%d]", C, C));
    lin_memory(l, "Dstate", tile_text(t, "f32[d:%d, e:%d]", D, l->x.p->e));
    lin_out_back_memory(l);
}

static void fragments(Linear *l)
{
    static const char *const rows[] = {"reader", "since", "kept", "dreader", "run"};
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, E = l->x.p->e, W = l->columns;
    LinearRows r;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    tile_frag(t, "change_of_state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    tile_frag(t, "whole", "f32[d:%d] like state", D);
    tile_frag(t, "passed", "f32[d:%d] like state = 0.0", D);
    tile_frag(t, "written", "f32[kv:%d, e:%d] @ %s.B", C, W, atom);
    tile_frag(t, "rows", "f32[q:%d, e:%d] @ %s.B", C, W, atom);
    tile_frag(t, "key", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "query", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "value", "f32[e:%d, kv:%d] @ %s.B", E, C, atom);
    tile_frag(t, "dout", "f32[e:%d, kv:%d] @ %s.B", E, C, atom);
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.B", C, C, atom);
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C = 0.0", C, C, atom);
    tile_frag(t, "nothing", "f32[d:%d, kv:%d] @ %s.C = 0.0", D, C, atom);
    tile_frag(t, "part", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_Q", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_K", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_G", "f32[d:%d, kv:%d] @ %s.C", D, C, atom);
    tile_frag(t, "dx_V", "f32[e:%d, kv:%d] @ %s.C", E, C, atom);
    lin_channels_declare(l);
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++)
        tile_frag(t, rows[n], "f32[d:%d] @ along_lanes = 0.0", D);
    if (is_weighed(l)) {
        tile_frag(t, "strength", "f32[kv:%d] @ along_lanes", C);
        tile_frag(t, "strength_rows", "f32[kv:%d] like written", C);
        tile_frag(t, "dx_W", "f32[kv:%d] @ along_lanes", C);
    }
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_declare(l, &r);
    lin_out_back_declare(l);
    /* Where a reader does not see a writer it stays 0. */
    tile_store(t, "dscore -> A");
}

/* ---- what both directions begin with */

static void load_rows(Linear *l, bool all)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r) && (all || r.slot != AU_SLOT_Q)) lin_rows_load(l, &r);
    if (!is_weighed(l)) return;
    tile_load(l->x.t, "strength", "W");
    tile_load(l->x.t, "strength_rows", "W");
}

/* Queries by what they have left of the chunk's start. */
static void since_start(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "since", "fill(since, 1.0)");
    lin_channels_up(l);
    tile_load(t, "factor", "Factors[token, :]");
    if (!l->n->before) tile_set(t, "since", "since * factor");
    tile_load(t, "row", "Q[token, :]");
    tile_store(t, "row * since -> Read[token, :]");
    tile_store(t, "since -> Since[token, :]");
    if (l->n->before) tile_set(t, "since", "since * factor");
    tile_end(t);
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
    lin_chunks(l);
    lin_back_chunk(l);
    tile_store(t, "state -> states[b, h, at, :, vb * %d +: %d]%s", l->columns, l->columns,
               lin_clipped(l));
    load_rows(l, false);
    lin_channels_until(l, true);
    tile_load(t, "whole", "Whole");
    tile_load(t, "written", "V[:, vb * %d +: %d]%s", l->columns, l->columns, lin_padded(l));
    if (is_weighed(l)) tile_set(t, "written", "written * strength_rows");
    tile_set(t, "state", "state * whole");
    tile_product(t, "state", l->x.atom, TILE_ADD, "Left", "written");
    tile_end(t);
    tile_end(t);
}

/* ---- backwards */

/* A reader and a writer: A, and what they have of one another. Parted: their part of the gradients of all decays between them. */
static void pair(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "row", "K[writer, :]");
    tile_set(t, "row", "row * kept");
    tile_set(t, "weight", "reduce_sum(reader * row, d)");
    tile_store(t, "weight -> A[token, writer]");
    tile_load(t, "dweight", "Da[token, writer]");
    tile_set(t, "dreader", "dreader + dweight * row");
    tile_store(t, "dweight * reader * row -> Parted[writer, :]");
    tile_load(t, "row", "Dk[writer, :]");
    tile_store(t, "row + dweight * reader * kept -> Dk[writer, :]");
    tile_load(t, "factor", "Factors[writer, :]");
    tile_set(t, "kept", "kept * factor");
}

static void pairs_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t before = l->n->before;
    tile_product(t, "dscore", l->x.atom, TILE_START, "D as [q, e]", "value");
    if (is_weighed(l)) tile_set(t, "dscore", "dscore * strength");
    tile_store(t, "dscore -> Da");
    tile_store(t, "nothing -> Dk");
    tile_store(t, "nothing -> Dgates");
    lin_channels_up(l);
    tile_load(t, "reader", "Q[token, :]");
    tile_set(t, "kept", "fill(kept, 1.0)");
    tile_set(t, "dreader", "fill(dreader, 0.0)");
    tile_for_range(t, "further", "0", tile_text(t, "token + %d", 1 - before));
    tile_set(t, "writer", "token - %d - further", before);
    pair(l);
    tile_end(t);
    tile_store(t, "dreader -> Dq[token, :]");
    tile_set(t, "run", "fill(run, 0.0)");
    tile_for_range(t, "earlier", "0", tile_text(t, "token - %d", before));
    tile_load(t, "row", "Parted[earlier, :]");
    tile_set(t, "run", "run + row");
    tile_load(t, "row", "Dgates[earlier + 1, :]");
    tile_store(t, "row + run -> Dgates[earlier + 1, :]");
    tile_end(t);
    tile_end(t);
}

static void values_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "key", "Left");
    tile_product(t, "dx_V", l->x.atom, TILE_START, "Dstate", "key");
    tile_load(t, "score", "A");
    tile_product(t, "dx_V", l->x.atom, TILE_ADD, "D as [q, e]", "score");
    if (!is_weighed(l)) return;
    tile_set(t, "dx_W", "reduce_sum(dx_V * value, e)");
    tile_set(t, "dx_V", "dx_V * strength");
}

/* Of keys and queries through the states at both ends. */
static void borders_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, "dx_K", l->x.atom, TILE_START, "Dstate", "value");
    tile_load(t, "part", "Until");
    tile_set(t, "dx_K", "dx_K * part%s", is_weighed(l) ? " * strength" : "");
    tile_load(t, "key", "K");
    tile_store(t, "dx_K * key -> Ended");
    tile_load(t, "part", "Dk");
    tile_set(t, "dx_K", "dx_K + part");
    tile_product(t, "dx_Q", l->x.atom, TILE_START, "states[b, h, at, :, :] as [d, e]", "dout");
    tile_load(t, "part", "Since");
    tile_set(t, "dx_Q", "dx_Q * part");
    tile_load(t, "query", "Q");
    tile_store(t, "dx_Q * query -> Begun");
    tile_load(t, "part", "Dq");
    tile_set(t, "dx_Q", "dx_Q + part");
}

static void state_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t W = l->columns;
    tile_set(t, "passed", "fill(passed, 0.0)");
    tile_for_range(t, "vb", "0", strips(l));
    tile_load(t, "change_of_state", "Dstate[:, vb * %d +: %d]%s", W, W, lin_padded(l));
    tile_load(t, "rows", "D[:, vb * %d +: %d] as [q, e]%s", W, W, lin_padded(l));
    tile_load(t, "state", "states[b, h, at, :, vb * %d +: %d]%s", W, W, lin_padded(l));
    tile_set(t, "change_of_state", "change_of_state * whole");
    tile_set(t, "passed", "passed + reduce_sum(state * change_of_state, e)");
    tile_product(t, "change_of_state", l->x.atom, TILE_ADD, "Read as [q, d]", "rows");
    tile_store(t, "change_of_state -> Dstate[:, vb * %d +: %d]%s", W, W, lin_clipped(l));
    tile_end(t);
    tile_store(t, "passed -> Passed");
}

/* To those of pairs comes what readers behind have from the start, what writers before have at the end, and what passes. */
static void decays_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "run", "fill(run, 0.0)");
    lin_channels_down(l);
    tile_load(t, "factor", "Dgates[place, :]");
    tile_load(t, "row", "Begun[place, :]");
    if (!l->n->before) tile_set(t, "run", "run + row");
    tile_store(t, "factor + run -> Dgates[place, :]");
    if (l->n->before) tile_set(t, "run", "run + row");
    tile_end(t);
    tile_load(t, "run", "Passed");
    lin_channels_up(l);
    tile_load(t, "factor", "Dgates[token, :]");
    tile_store(t, "factor + run -> G[token, :]");
    tile_load(t, "row", "Ended[token, :]");
    tile_set(t, "run", "run + row");
    tile_end(t);
    tile_load(t, "dx_G", "G");
}

static void chunk_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    LinearRows r;
    lin_back_chunk_again(l);
    lin_places(l);
    load_rows(l, true);
    lin_channels_until(l, true);
    tile_load(t, "whole", "Whole");
    since_start(l);
    tile_load(t, "value", "V");
    lin_out_back(l);
    tile_load(t, "dout", "D");
    pairs_back(l);
    values_back(l);
    borders_back(l);
    state_back(l);
    decays_back(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_back_from(l, &r);
}

/* ---- the kernel */

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
    lin_back_head(l, "reverse");
    tile_arg(t, "states", TILE_INOUT, "f32[b:%s, h:%s, n:cdiv(%s, %d) + %s, d:%d, e:%d]",
             lanes_axis(&l->x, 0, 0), l->heads, l->tokens, l->chunk, lin_sequences(l), l->x.p->d,
             l->x.p->e);
    tile_role(t, "core", 0, lanes_executor(&l->x), 0);
    memories(l);
    const uint32_t loops = lin_back_loops(l);
    lin_find_sequence(l);
    fragments(l);
    states_of_chunks(l);
    copy_state(l, "dstate_out[n, h, :", "Dstate[:");
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(l);
    tile_end(t);
    copy_state(l, "Dstate[:", "dstate_in[n, h, :");
    for (uint32_t n = 0; n < loops + 2; n++) tile_end(t);
    lanes_region(&l->x, "states");
    lin_sum_kernels(l);
}

AuSchedule *schedule_linear_channels_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                              const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_channels_backward", backward_kernel);
}

/* ---- shapes */

/* Numbers of fragments that a lane has. */
static int32_t words(const AuProblem *p, const AuShape *s)
{
    const int32_t tokens = s->key_tile, vectors = tokens / p->caps->lanes;
    return vectors * (7 * p->d + 3 * p->e + 2 * tokens + lin_numbers(p)) +
           (2 * p->d + 2 * tokens) * s->query_registers + 8 * p->d / p->caps->lanes;
}

static const char *refusal(const AuProblem *p, const AuShape *s)
{
    const AuHookSlot *slots = p->hooks->slots;
    const char *why = lin_channels_refusal(p, s);
    if (why) return why;
    if (slots[AU_SLOT_NORM].value.i || p->hooks->has_out_mod)
        return "a decay a channel beside a norm or an out_mod";
    if (slots[AU_SLOT_BONUS].value.i) return "a bonus";
    return words(p, s) > p->caps->private_words ? "fragments that are too large" : NULL;
}

const char *schedule_linear_channels_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    return refusal(p, s);
}

/* Pairs of tokens cost what states save, so chunks are short. */
bool schedule_linear_channels_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                             const char **why)
{
    enum { STRIP = 4 };
    const int32_t lanes = p->caps->lanes, vectors = (p->e + lanes - 1) / lanes;
    (void)arena;
    *out = (AuShape){.executors = 1, .key_tile = lin_channels_tokens(p)};
    out->query_registers = vectors < STRIP ? vectors : STRIP;
    while (out->query_registers > 1 && words(p, out) > p->caps->private_words)
        out->query_registers /= 2;
    out->product_columns = out->query_registers < 2 ? 1 : 2;
    out->product_rows = p->caps->registers > 16 ? 12 : 5;
    *why = refusal(p, out);
    return !*why;
}
