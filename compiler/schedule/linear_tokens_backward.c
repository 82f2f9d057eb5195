/* linear_tokens_backward.c - gradients of recurrences of every class, token after token from the last to the first. A block goes over
 * the sequence twice: forwards, where it keeps the state before each chunk in the workspace; then backwards over chunks, in
 * each of which it makes the states of its tokens again, keeps them (`within`), and gives gradients of the slots' rows
 * where the rows were. No decay is ever inverted: decays of 0 are as good as others.
 *
 *     dq = S_t do       D += q do'                           D the gradient of S_t, after which q reads
 *     none   dwv = D' k         dk = D wv
 *     key    dwv = D' k         derase = -dwv . r            dr = -erase dwv, r = (keep S)' k
 *            dk = D err + (keep S) dr                        D += k dr'
 *     own    dwv = D' k         dk = D wv                    dwrites = D p    dp = D' writes    dreads = S dp
 *     dg = (D . keep S) e       D = keep D (+ reads dp') */
#include "linear.h"

static const AuSlot in_memory[] = {AU_SLOT_Q,      AU_SLOT_K,     AU_SLOT_V,
                                   AU_SLOT_WRITE,  AU_SLOT_ERASE, AU_SLOT_READS,
                                   AU_SLOT_WRITES, AU_SLOT_BONUS, AU_SLOT_LOG_DECAY};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

/* What there is of a slot in memory; false: nothing. Of a decay of the head its gradients alone. */
static bool rows_of(const Linear *l, uint32_t n, LinearRows *r)
{
    *r = lin_rows(l, in_memory[n]);
    r->tokens = "kv";
    r->as_factor = r->slot == AU_SLOT_LOG_DECAY;
    return lin_has(l, r->slot);
}

static bool is_brought(const Linear *l, const LinearRows *r)
{
    return !(r->slot == AU_SLOT_LOG_DECAY && l->n->decay == AU_DECAY_CONSTANT);
}

static void memories(Linear *l)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_memory(l, &r);
    lin_out_back_memory(l);
    if (l->has_norm) lin_memory(l, "Z", tile_text(l->x.t, "f32[kv:%d, d:%d]", l->chunk, l->x.p->d));
}

/* Chunks of packed sequences begin anywhere: those of sequence n are kept from number start / C + n on. */
static void regions(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *batch = lanes_axis(&l->x, 0, 0),
               *chunks = tile_text(t, "cdiv(%s, %d) + %s", l->tokens, l->chunk, lin_sequences(l));
    tile_arg(t, "states", TILE_INOUT, "f32[b:%s, h:%s, n:%s, d:%d, e:%d]", batch, l->heads, chunks,
             l->x.p->d, l->x.p->e);
    tile_arg(t, "within", TILE_INOUT, "f32[b:%s, h:%s, n:%d, d:%d, e:%d]", lin_sequences(l),
             l->heads, l->chunk, l->x.p->d, l->columns);
    if (l->has_norm)
        tile_arg(t, "sum_states", TILE_INOUT, "f32[b:%s, h:%s, n:%s, d:%d]", batch, l->heads,
                 chunks, l->x.p->d);
}

/* To make again what comes behind the read. */
static void output_fragments(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_out_back_declare(l);
    if (lin_needs_output(l)) {
        tile_frag(t, "acc", "f32[kv:%d, e:%d] @ %s.C = 0.0", l->chunk, l->columns, l->x.atom->name);
        tile_frag(t, "out_row", "f32[e:%d] like state = 0.0", l->columns);
        tile_store(t, "acc -> O"); /* rows behind the last token are numbers */
    }
    if (!l->has_norm) return;
    tile_frag(t, "ones", "f32[kv:%d, n:%d] @ %s.C = 1.0", l->chunk, l->x.p->caps->lanes,
              l->x.atom->name);
    tile_frag(t, "sum_lanes", "f32[n:%d] @ along_lanes = 0.0", l->x.p->caps->lanes);
    tile_frag(t, "sum_state", "f32[d:%d] like state", l->x.p->d);
    tile_frag(t, "dsum_state", "f32[d:%d] like state", l->x.p->d);
    tile_store(t, "ones -> Sums");
}

/* Of rows that are not brought, only gradients: 0 of those behind the last token. */
static void none_of_rows(Linear *l, const LinearRows *r)
{
    AuTileBuild *t = l->x.t;
    tile_frag(t, "none", "f32[%s:%d] @ along_lanes = 0.0", r->tokens, l->spread);
    tile_store(t, "none -> %s[0 +: %d] clip", r->memory, l->spread);
}

static void fragments(Linear *l)
{
    static const struct {
        AuSlot slot;
        const char *name;
    } rows[] = {{AU_SLOT_Q, "query"},
                {AU_SLOT_K, "key"},
                {AU_SLOT_READS, "reads"},
                {AU_SLOT_WRITES, "writes"},
                {AU_SLOT_BONUS, "bonus"}};
    AuTileBuild *t = l->x.t;
    LinearRows r;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", l->x.p->d, l->columns, l->x.atom->name);
    tile_frag(t, "dstate", "f32[d:%d, e:%d] @ %s.C", l->x.p->d, l->columns, l->x.atom->name);
    tile_frag(t, "value", "f32[e:%d] like state", l->columns);
    tile_frag(t, "dout", "f32[e:%d] like state", l->columns);
    tile_frag(t, "fed", "f32[e:%d] like state = 0.0", l->columns);
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (lin_has(l, rows[n].slot)) tile_frag(t, rows[n].name, "f32[d:%d] like state", l->x.p->d);
    if (l->n->decay == AU_DECAY_VECTOR) tile_frag(t, "kept", "f32[d:%d] like state", l->x.p->d);
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        if (!rows_of(l, n, &r)) continue;
        if (is_brought(l, &r)) lin_rows_declare(l, &r);
        lin_rows_back_declare(l, &r);
        if (!is_brought(l, &r) && lin_has_gradient(l, r.slot)) none_of_rows(l, &r);
    }
    output_fragments(l);
    if (l->n->decay != AU_DECAY_CONSTANT) return;
    lin_rate(l);
    lin_factor(l);
}

/* ---- forwards */

static void load_token(Linear *l, const char *token)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "key", "K[%s, :]", token);
    tile_load(t, "value", "V[%s, vb * %d +: %d] pad 0", token, l->columns, l->columns);
    if (lin_has(l, AU_SLOT_WRITE)) tile_load(t, "strength", "W[%s]", token);
    if (lin_has(l, AU_SLOT_ERASE)) tile_load(t, "erase", "E[%s]", token);
    if (lin_has(l, AU_SLOT_READS)) tile_load(t, "reads", "X[%s, :]", token);
    if (lin_has(l, AU_SLOT_WRITES)) tile_load(t, "writes", "B[%s, :]", token);
    if (l->n->decay == AU_DECAY_VECTOR) tile_load(t, "kept", "G[%s, :]", token);
    if (l->n->decay == AU_DECAY_SCALAR) tile_load(t, "kept", "G[%s]", token);
}

static void load_query(Linear *l, const char *token)
{
    tile_load(l->x.t, "query", "Q[%s, :]", token);
    if (lin_has(l, AU_SLOT_BONUS)) tile_load(l->x.t, "bonus", "Bonus[%s, :]", token);
}

static const char *passed(const Linear *l) { return lin_decays(l) ? "state * kept" : "state"; }

static const char *written(const Linear *l)
{
    return lin_has(l, AU_SLOT_WRITE) ? "strength * value" : "value";
}

/* What feedback writes, `fed`, and of `key` what it read. */
static void feed(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (l->n->feedback == AU_FEEDBACK_OWN) tile_set(t, "fed", "reduce_sum(reads * state, d)");
    if (l->n->feedback != AU_FEEDBACK_KEY) return;
    tile_set(t, "recalled", "reduce_sum(key * (%s), d)", passed(l));
    tile_set(t, "fed", "%s - erase * recalled", written(l));
}

/* The state behind the token. */
static const char *next_state(Linear *l)
{
    switch (l->n->feedback) {
    case AU_FEEDBACK_NONE: break;
    case AU_FEEDBACK_KEY: return tile_text(l->x.t, "%s + key * fed", passed(l));
    case AU_FEEDBACK_OWN:
        return tile_text(l->x.t, "%s + key * (%s) + writes * fed", passed(l), written(l));
    }
    return tile_text(l->x.t, "%s + key * (%s)", passed(l), written(l));
}

static const char *next_sum(const Linear *l)
{
    const bool weighed = lin_has(l, AU_SLOT_WRITE);
    return lin_decays(l)
               ? (weighed ? "sum_state * kept + key * strength" : "sum_state * kept + key")
               : (weighed ? "sum_state + key * strength" : "sum_state + key");
}

static void write_state(Linear *l)
{
    feed(l);
    tile_set(l->x.t, "state", "%s", next_state(l));
    if (l->has_norm) tile_set(l->x.t, "sum_state", "%s", next_sum(l));
}

/* The row before norm, for what comes behind it. */
static void read_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const bool bonus = lin_has(l, AU_SLOT_BONUS);
    if (!lin_needs_output(l)) return;
    if (bonus) tile_set(t, "beside", "reduce_sum(query * bonus * key, d)");
    tile_set(t, "out_row", "reduce_sum(query * state, d)%s", bonus ? " + beside * value" : "");
    tile_store(t, "out_row -> O[token, :]");
    if (!l->has_norm) return;
    tile_set(t, "sum_row", "reduce_sum(query * sum_state, d)%s", bonus ? " + beside" : "");
    tile_store(t, "fill(sum_lanes, sum_row) -> Sums[token, :]");
}

static void load_rows(Linear *l, bool all)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r) && is_brought(l, &r) &&
            (all || (r.slot != AU_SLOT_Q && r.slot != AU_SLOT_BONUS)))
            lin_rows_load(l, &r);
}

static void states_of_chunks(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "state", "state_in[n, h, :, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_load(t, "sum_state", "sum_in[n, h, :]");
    lin_chunks(l);
    lin_back_chunk(l);
    tile_store(t, "state -> states[b, h, at, :, vb * %d +: %d] clip", l->columns, l->columns);
    if (l->has_norm) tile_store(t, "sum_state -> sum_states[b, h, at, :]");
    load_rows(l, false);
    lin_meet(l);
    tile_for_range(t, "token", "0", "count");
    load_token(l, "token");
    write_state(l);
    tile_end(t);
    tile_end(t);
}

/* States before each token of the chunk, and the output, where something behind it asks for it. */
static void states_of_tokens(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "state", "states[b, h, at, :, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_load(t, "sum_state", "sum_states[b, h, at, :]");
    tile_for_range(t, "token", "0", "count");
    load_token(l, "token");
    load_query(l, "token");
    tile_store(t, "state -> within[n, h, token, :, :]");
    if (l->has_norm) tile_store(t, "sum_state -> Z[token, :]");
    if (l->n->before) read_state(l);
    write_state(l);
    if (!l->n->before) read_state(l);
    tile_end(t);
}

/* ---- backwards */

static void query_back(Linear *l, const char *state, const char *sum)
{
    AuTileBuild *t = l->x.t;
    const bool bonus = lin_has(l, AU_SLOT_BONUS);
    tile_set(t, "dquery", "reduce_sum((%s) * dout, e)", state);
    if (l->has_norm) tile_set(t, "dquery", "dquery + (%s) * dsum_row", sum);
    if (bonus) {
        tile_set(t, "beside", "reduce_sum(query * bonus * key, d)");
        tile_set(t, "dbeside", "reduce_sum(dout * value, e)%s", l->has_norm ? " + dsum_row" : "");
        tile_set(t, "dquery", "dquery + dbeside * bonus * key");
    }
    tile_store(t, "dquery -> Q[token, :]");
}

/* The state's gradient through what q reads. */
static void through_query(Linear *l)
{
    tile_set(l->x.t, "dstate", "dstate + query * dout");
    if (l->has_norm) tile_set(l->x.t, "dsum_state", "dsum_state + query * dsum_row");
}

static void write_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *w = written(l);
    tile_set(t, "dwritten", "reduce_sum(dstate * key, d)");
    switch (l->n->feedback) {
    case AU_FEEDBACK_NONE: tile_set(t, "dkey", "reduce_sum(dstate * (%s), e)", w); break;
    case AU_FEEDBACK_KEY:
        tile_set(t, "drecalled", "-(erase * dwritten)");
        tile_set(t, "derase", "-reduce_sum(dwritten * recalled, e)");
        tile_store(t, "derase -> E[token]");
        tile_set(t, "dkey", "reduce_sum(dstate * fed + (%s) * drecalled, e)", passed(l));
        tile_set(t, "dstate", "dstate + key * drecalled");
        break;
    case AU_FEEDBACK_OWN:
        tile_set(t, "dkey", "reduce_sum(dstate * (%s), e)", w);
        tile_set(t, "dwrites", "reduce_sum(dstate * fed, e)");
        tile_set(t, "dfed", "reduce_sum(dstate * writes, d)");
        tile_set(t, "dreads", "reduce_sum(state * dfed, e)");
        tile_store(t, "dwrites -> B[token, :]");
        tile_store(t, "dreads -> X[token, :]");
        break;
    }
}

/* Of what was written, v and its strength, and of the key. */
static void row_gradients(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const bool weighed = lin_has(l, AU_SLOT_WRITE), bonus = lin_has(l, AU_SLOT_BONUS);
    if (weighed) {
        tile_set(t, "dstrength", "reduce_sum(dwritten * value, e)");
        if (l->has_norm) tile_set(t, "dstrength", "dstrength + reduce_sum(dsum_state * key, d)");
        tile_store(t, "dstrength -> W[token]");
    }
    if (l->has_norm) tile_set(t, "dkey", "dkey + dsum_state%s", weighed ? " * strength" : "");
    if (bonus) {
        tile_set(t, "dkey", "dkey + dbeside * query * bonus");
        tile_store(t, "dbeside * query * key -> Bonus[token, :]");
    }
    tile_store(t, "dkey -> K[token, :]");
    tile_store(t, "%s%s -> V[token, vb * %d +: %d] clip",
               weighed ? "strength * dwritten" : "dwritten", bonus ? " + beside * dout" : "",
               l->columns, l->columns);
}

static void decay_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const bool own = l->n->feedback == AU_FEEDBACK_OWN;
    if (l->n->decay == AU_DECAY_VECTOR) {
        tile_set(t, "dg", "reduce_sum(dstate * state, e) * kept");
        if (l->has_norm) tile_set(t, "dg", "dg + dsum_state * sum_state * kept");
        tile_store(t, "dg -> G[token, :]");
    } else if (lin_decays(l)) {
        tile_set(t, "dg", "reduce_sum(dstate * state * kept, d, e)");
        if (l->has_norm) tile_set(t, "dg", "dg + reduce_sum(dsum_state * sum_state * kept, d)");
        tile_store(t, "dg -> G[token]");
    }
    if (lin_decays(l) || own)
        tile_set(t, "dstate", "dstate%s%s", lin_decays(l) ? " * kept" : "",
                 own ? " + reads * dfed" : "");
    if (l->has_norm && lin_decays(l)) tile_set(t, "dsum_state", "dsum_state * kept");
}

static void token_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "token", "count - 1 - turn");
    load_token(l, "token");
    load_query(l, "token");
    tile_load(t, "state", "within[n, h, token, :, :]");
    tile_load(t, "dout", "D[token, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) {
        tile_load(t, "sum_state", "Z[token, :]");
        tile_load(t, "dsum_row", "Dsums[token]");
    }
    lin_meet(l); /* gradients of the rows go where the rows are */
    feed(l);
    query_back(l, l->n->before ? "state" : next_state(l), l->n->before ? "sum_state" : next_sum(l));
    if (!l->n->before) through_query(l);
    write_back(l);
    row_gradients(l);
    decay_back(l);
    if (l->n->before) through_query(l);
}

static void chunk_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    LinearRows r;
    lin_back_chunk_again(l);
    lin_places(l);
    load_rows(l, true);
    lin_meet(l);
    states_of_tokens(l);
    lin_meet(l);
    lin_out_back(l);
    tile_for_range(t, "turn", "0", "count");
    token_back(l);
    tile_end(t);
    lin_meet(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_back(l, &r);
}

static void backward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    l->in_strips = l->columns < l->x.p->e;
    lin_back_head(l, "reverse");
    regions(l);
    if (!l->x.on_cpu) memories(l);
    tile_role(t, "core", 0, lanes_executor(&l->x), 0);
    if (l->x.on_cpu) memories(l);
    const uint32_t loops = lin_back_loops(l);
    lin_find_sequence(l);
    fragments(l);
    tile_for_range(t, "vb", "0", tile_text(t, "%d", (l->x.p->e + l->columns - 1) / l->columns));
    states_of_chunks(l);
    tile_load(t, "dstate", "dstate_out[n, h, :, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_load(t, "dsum_state", "dsum_out[n, h, :]");
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(l);
    tile_end(t);
    tile_store(t, "dstate -> dstate_in[n, h, :, vb * %d +: %d] clip", l->columns, l->columns);
    if (l->has_norm) tile_store(t, "dsum_state -> dsum_in[n, h, :]");
    for (uint32_t n = 0; n < loops + 3; n++) tile_end(t);
    lanes_region(&l->x, "states");
    lanes_region(&l->x, "within");
    if (l->has_norm) lanes_region(&l->x, "sum_states");
    lin_sum_kernels(l);
}

AuSchedule *schedule_linear_tokens_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                            const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_tokens_backward", backward_kernel);
}

/* Rows of a token beside what lanes exchange, where they do that by memory. */
static int32_t tokens_of_chunk(const AuProblem *p)
{
    const AuTileCaps *caps = p->caps;
    const int32_t norm = p->hooks->slots[AU_SLOT_NORM].value.i ? p->d : 0,
                  numbers = lin_numbers(p) + 2 * p->e + norm + 4 * caps->lanes;
    int32_t tokens = lin_tokens(p, 16, numbers, false);
    while (tokens > 1 && !caps->has_private &&
           4 * (tokens * numbers + tile_exchange_words(caps)) + 64 > caps->shared_bytes)
        tokens /= 2;
    return tokens;
}

/* What the kernel declares beside states and rows depends on hooks: near the limit it is made, to be looked at. */
static bool is_too_wide(AuArena *arena, const AuProblem *p, const AuShape *shape)
{
    return !schedule_linear_tokens_backward(arena, au_diags_new(arena), p, shape);
}

/* Two states of all columns where a lane may declare them beside the rows, else of a strip. */
bool schedule_linear_tokens_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                           const char **why)
{
    const AuTileCaps *caps = p->caps;
    const int32_t numbers = lin_numbers(p), all = (p->e + caps->lanes - 1) / caps->lanes;
    *out = (AuShape){.executors = 1, .key_tile = tokens_of_chunk(p)};
    const int32_t spread = out->key_tile < caps->lanes ? caps->lanes : out->key_tile;
    const int32_t rows = 3 * numbers * (spread / caps->lanes);
    const bool takes_all = lin_takes_all_columns(p);
    int32_t vectors = all;
    while (vectors > 1 && !takes_all && 2 * p->d * vectors + rows > caps->private_words)
        vectors = (vectors + 1) / 2;
    out->query_registers = vectors;
    if (2 * p->d * vectors + rows <= tile_most_words(caps)) return true;
    *why = takes_all
               ? "a norm or an out_mod, which take all columns of values, beside so wide a state"
               : au_format(
                     arena,
                     "rows of %d channels of keys, which take more than the %d numbers of a lane",
                     p->d, tile_most_words(caps));
    return !takes_all && !is_too_wide(arena, p, out);
}
