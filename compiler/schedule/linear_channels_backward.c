/* linear_channels_backward.c - gradients of recurrences whose decay is a number a channel, without feedback, in chunks on processors.
 * States are products over chunks as in linear_chunks_backward.c; what decays between two tokens of a chunk differs by channel, so
 * pairs of tokens are taken one by one, channels along the lanes, from the reader back to the first writer:
 *
 *     kept <- kept f[s]     A[t,s] = q[t] . (kept k[s])     dq[t] += dA[t,s] kept k[s]     dk[s] += dA[t,s] kept q[t]
 *
 * All factors are products of decays, none is a quotient, so none is above 1. States and their gradients lie as [e, d], so that what
 * is a number a channel is along the lanes everywhere but in gradients of values. With T the gradient of the state behind the chunk:
 *
 *     dA = dO (w V)'     dV' = w ((T (K until)') + dO' A)     dK += w (V T) until     dQ += (dO S) since
 *     T <- T whole + dO' (Q since)
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
    lin_memory(l, "State", tile_text(t, "f32[e:%d, d:%d]", l->x.p->e, D));
    lin_out_back_memory(l);
}

static void fragments(Linear *l)
{
    static const char *const rows[] = {"reader", "kept", "dreader", "run", "nothing"};
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, E = l->x.p->e, W = l->columns;
    LinearRows r;
    tile_frag(t, "state", "f32[e:%d, d:%d] @ %s.C", E, W, atom);
    tile_frag(t, "change_of_state", "f32[e:%d, d:%d] @ %s.C", E, W, atom);
    tile_frag(t, "whole", "f32[d:%d] like state", W);
    tile_frag(t, "passed", "f32[d:%d] like state = 0.0", W);
    tile_frag(t, "left", "f32[kv:%d, d:%d] @ %s.B", C, W, atom);
    tile_frag(t, "read", "f32[q:%d, d:%d] @ %s.B", C, W, atom);
    tile_frag(t, "border", "f32[kv:%d, d:%d] @ %s.C", C, W, atom);
    tile_frag(t, "key", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "value", "f32[e:%d, kv:%d] @ %s.B", E, C, atom);
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.B", C, C, atom);
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C = 0.0", C, C, atom);
    tile_frag(t, "dvalue", "f32[e:%d, kv:%d] @ %s.C", E, C, atom);
    lin_channels_declare(l);
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++)
        tile_frag(t, rows[n], "f32[d:%d] @ along_lanes = 0.0", D);
    if (is_weighed(l)) tile_frag(t, "strength", "f32[kv:%d] @ along_lanes", C);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_declare(l, &r), lin_rows_back_declare(l, &r);
    lin_out_back_declare(l);
    /* Where a reader does not see a writer it stays 0. */
    tile_store(t, "dscore -> A");
}

/* ---- states and their gradients, a strip of channels after the other */

static void strips(Linear *l)
{
    const int32_t D = l->x.p->d, W = l->columns;
    tile_for_range(l->x.t, "vb", "0", tile_text(l->x.t, "%d", (D + W - 1) / W));
}

static const char *strip(Linear *l)
{
    return tile_text(l->x.t, "vb * %d +: %d", l->columns, l->columns);
}

static const char *padded(const Linear *l) { return l->x.p->d % l->columns ? " pad 0" : ""; }
static const char *clipped(const Linear *l) { return l->x.p->d % l->columns ? " clip" : ""; }

/* From the tensor of a call, [d, e], and to it. */
static void state_from(Linear *l, const char *tensor)
{
    strips(l);
    tile_load(l->x.t, "state", "%s[n, h, %s, :] pad 0", tensor, strip(l));
    tile_store(l->x.t, "state -> State[:, %s]%s", strip(l), clipped(l));
    tile_end(l->x.t);
}

static void state_to(Linear *l, const char *tensor)
{
    strips(l);
    tile_load(l->x.t, "state", "State[:, %s]%s", strip(l), padded(l));
    tile_store(l->x.t, "state -> %s[n, h, %s, :] clip", tensor, strip(l));
    tile_end(l->x.t);
}

static void load_rows(Linear *l, bool all)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r) && (all || r.slot != AU_SLOT_Q)) lin_rows_load(l, &r);
}

static void states_of_chunks(Linear *l)
{
    AuTileBuild *t = l->x.t;
    state_from(l, "state_in");
    lin_chunks(l);
    lin_back_chunk(l);
    load_rows(l, false);
    lin_channels_until(l, false, is_weighed(l));
    strips(l);
    tile_load(t, "state", "State[:, %s]%s", strip(l), padded(l));
    tile_store(t, "state -> states[b, h, at, :, %s]%s", strip(l), clipped(l));
    tile_load(t, "left", "Left[:, %s]%s", strip(l), padded(l));
    tile_load(t, "whole", "Whole[%s]%s", strip(l), padded(l));
    tile_set(t, "state", "state * whole");
    tile_product(t, "state", l->x.atom, TILE_ADD, "V", "left");
    tile_store(t, "state -> State[:, %s]%s", strip(l), clipped(l));
    tile_end(t);
    tile_end(t);
}

/* What values, and output gradients, have of the states at both ends; and the gradient of the state at the chunk's start. */
static void states_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    strips(l);
    tile_load(t, "change_of_state", "State[:, %s]%s", strip(l), padded(l));
    tile_product(t, "border", l->x.atom, TILE_START, "V", "change_of_state");
    tile_store(t, "border -> Ended[:, %s]%s", strip(l), clipped(l));
    tile_load(t, "state", "states[b, h, at, :, %s]%s", strip(l), padded(l));
    tile_product(t, "border", l->x.atom, TILE_START, "D", "state");
    tile_store(t, "border -> Begun[:, %s]%s", strip(l), clipped(l));
    tile_load(t, "whole", "Whole[%s]%s", strip(l), padded(l));
    tile_set(t, "change_of_state", "change_of_state * whole");
    tile_set(t, "passed", "reduce_sum(state * change_of_state, e)");
    tile_store(t, "passed -> Passed[%s]%s", strip(l), clipped(l));
    tile_load(t, "read", "Read[:, %s] as [q, d]%s", strip(l), padded(l));
    tile_product(t, "change_of_state", l->x.atom, TILE_ADD, "D as [q, e]", "read");
    tile_store(t, "change_of_state -> State[:, %s]%s", strip(l), clipped(l));
    tile_end(t);
}

/* ---- pairs of tokens */

/* A reader and a writer: A, and what they have of one another. Parted: their part of the gradients of all decays between them. */
static void pair(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "line", "K[writer, :]");
    tile_set(t, "line", "line * kept");
    tile_set(t, "weight", "reduce_sum(reader * line, d)");
    tile_store(t, "weight -> A[token, writer]");
    tile_load(t, "dweight", "Da[token, writer]");
    tile_set(t, "dreader", "dreader + dweight * line");
    tile_store(t, "dweight * reader * line -> Parted[writer, :]");
    tile_load(t, "line", "Dk[writer, :]");
    tile_store(t, "line + dweight * reader * kept -> Dk[writer, :]");
    tile_load(t, "factor", "Factors[writer, :]");
    tile_set(t, "kept", "kept * factor");
}

/* Of the reader's pairs: a decay has those whose writer is before it. */
static void parted(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "run", "fill(run, 0.0)");
    tile_for_range(t, "earlier", "0", tile_text(t, "token - %d", l->n->before));
    tile_load(t, "line", "Parted[earlier, :]");
    tile_set(t, "run", "run + line");
    tile_load(t, "line", "Dgates[earlier + 1, :]");
    tile_store(t, "line + run -> Dgates[earlier + 1, :]");
    tile_end(t);
}

/* What is left of a reader behind its first writer is what reads the state at the chunk's start. */
static void pairs_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t before = l->n->before;
    tile_load(t, "value", "V");
    tile_product(t, "dscore", l->x.atom, TILE_START, "D as [q, e]", "value");
    if (is_weighed(l)) {
        tile_load(t, "strength", "W");
        tile_set(t, "dscore", "dscore * strength");
    }
    tile_store(t, "dscore -> Da");
    lin_channels_up(l);
    tile_store(t, "nothing -> Dk[token, :]");
    tile_store(t, "nothing -> Dgates[token, :]");
    tile_end(t);
    lin_channels_up(l);
    tile_load(t, "reader", "Q[token, :]");
    tile_set(t, "kept", "fill(kept, 1.0)");
    tile_set(t, "dreader", "fill(dreader, 0.0)");
    tile_for_range(t, "further", "0", tile_text(t, "token + %d", 1 - before));
    tile_set(t, "writer", "token - %d - further", before);
    pair(l);
    tile_end(t);
    tile_store(t, "dreader -> Dq[token, :]");
    tile_store(t, "kept -> Since[token, :]");
    tile_store(t, "reader * kept -> Read[token, :]");
    parted(l);
    tile_end(t);
}

/* ---- gradients of rows, each where the row was */

/* A token a lane, as values lie in no other product. */
static void values_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "key", "Left");
    tile_product(t, "dvalue", l->x.atom, TILE_START, "State", "key");
    tile_load(t, "score", "A");
    tile_product(t, "dvalue", l->x.atom, TILE_ADD, "D as [q, e]", "score");
}

static void store_values(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_store(t, "dvalue%s -> V", is_weighed(l) ? " * strength" : "");
    if (is_weighed(l)) tile_store(t, "reduce_sum(dvalue * value, e) -> W");
}

/* Of queries; and of decays what readers behind them have from the chunk's start. */
static void readers_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "run", "fill(run, 0.0)");
    lin_channels_down(l);
    tile_load(t, "line", "Begun[place, :]");
    tile_load(t, "kept", "Since[place, :]");
    tile_set(t, "line", "line * kept");
    tile_load(t, "dreader", "Dq[place, :]");
    tile_load(t, "reader", "Q[place, :]");
    tile_store(t, "dreader + line -> Q[place, :]");
    tile_load(t, "factor", "Dgates[place, :]");
    if (!l->n->before) tile_set(t, "run", "run + line * reader");
    tile_store(t, "factor + run -> Dgates[place, :]");
    if (l->n->before) tile_set(t, "run", "run + line * reader");
    tile_end(t);
}

/* Of keys; and of decays what passes the chunk, and what writers before them have at its end. */
static void writers_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "run", "Passed");
    lin_channels_up(l);
    tile_load(t, "line", "Ended[token, :]");
    tile_load(t, "kept", "Until[token, :]");
    if (is_weighed(l)) tile_load(t, "weight", "W[token]");
    tile_set(t, "line", "line * kept%s", is_weighed(l) ? " * weight" : "");
    tile_load(t, "dreader", "Dk[token, :]");
    tile_load(t, "reader", "K[token, :]");
    tile_store(t, "dreader + line -> K[token, :]");
    tile_load(t, "factor", "Dgates[token, :]");
    tile_store(t, "factor + run -> G[token, :]");
    tile_set(t, "run", "run + line * reader");
    tile_end(t);
}

static void chunk_back(Linear *l)
{
    LinearRows r;
    lin_back_chunk_again(l);
    lin_places(l);
    load_rows(l, true);
    lin_channels_until(l, true, false);
    lin_out_back(l);
    pairs_back(l);
    values_back(l);
    states_back(l);
    readers_back(l);
    writers_back(l);
    store_values(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_back(l, &r);
}

/* ---- the kernel */

static void backward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_back_head(l, "reverse");
    tile_arg(t, "states", TILE_INOUT, "f32[b:%s, h:%s, n:cdiv(%s, %d) + %s, e:%d, d:%d]",
             lanes_axis(&l->x, 0, 0), l->heads, l->tokens, l->chunk, lin_sequences(l), l->x.p->e,
             l->x.p->d);
    tile_role(t, "core", 0, lanes_executor(&l->x), 0);
    memories(l);
    const uint32_t loops = lin_back_loops(l);
    lin_find_sequence(l);
    fragments(l);
    states_of_chunks(l);
    state_from(l, "dstate_out");
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(l);
    tile_end(t);
    state_to(l, "dstate_in");
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
    return s->query_registers * (2 * p->e + 3 * tokens + 2) +
           vectors * (p->d + 2 * p->e + 2 * tokens + 2 * lin_numbers(p)) +
           8 * p->d / p->caps->lanes;
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
    const int32_t vectors = p->d / p->caps->lanes;
    (void)arena;
    *out = (AuShape){.executors = 1, .key_tile = lin_channels_tokens(p)};
    out->query_registers = vectors < STRIP ? vectors : STRIP;
    while (out->query_registers > 1 && words(p, out) > p->caps->private_words)
        out->query_registers /= 2;
    out->product_columns = out->query_registers < 2 ? 1 : 2;
    out->product_rows = p->caps->registers > 16 ? 8 : 4;
    *why = refusal(p, out);
    return !*why;
}
