/* linear_channels.c - recurrences whose decay is a number a channel, without feedback, forward, in chunks on processors. States are
 * products over chunks as in linear_chunks.c; what is kept between two tokens of a chunk differs by channel, so a reader goes back
 * over the writers one by one, channels along the lanes:
 *
 *     A[t,s] = r . k[s]      r <- r f[s]      from r = q[t] at the last writer that t sees, down to the chunk's first
 *     O = R S + A (w V)      S = S whole + (K until)' (w V)      R: what has become of all r
 *
 * All factors are products of decays, none is a quotient, so none is above 1 where no decay is. */
#include "linear.h"
#include "linear_channels.h"

static const AuSlot in_memory[] = {AU_SLOT_Q,     AU_SLOT_K,     AU_SLOT_V,
                                   AU_SLOT_WRITE, AU_SLOT_BONUS, AU_SLOT_LOG_DECAY};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

static void memories(Linear *l)
{
    AuTileBuild *t = l->x.t;
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (lin_has(l, r.slot)) lin_rows_memory(l, &r);
    }
    lin_channels_memory(l);
    lin_memory(l, "Read", tile_text(t, "f32[q:%d, d:%d]", l->chunk, l->x.p->d));
    lin_memory(l, "A", tile_text(t, "f32[q:%d, kv:%d]", l->chunk, l->chunk));
    lin_output_memory(l);
}

static void fragments(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, W = l->columns;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    lin_load_state(l);
    tile_frag(t, "whole", "f32[d:%d] like state", D);
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C", C, W, atom);
    tile_frag(t, "value", "f32[kv:%d, e:%d] @ %s.B", C, W, atom);
    tile_frag(t, "unseen", "f32[q:%d, kv:%d] @ %s.C = 0.0", C, C, atom);
    lin_channels_declare(l);
    tile_frag(t, "reader", "f32[d:%d] @ along_lanes", D);
    if (lin_has(l, AU_SLOT_BONUS)) tile_frag(t, "bonus", "f32[d:%d] @ along_lanes", D);
    if (lin_has(l, AU_SLOT_WRITE)) tile_frag(t, "strength", "f32[kv:%d] like value", C);
    lin_sums_declare(l);
    if (l->has_norm) tile_frag(t, "sum_whole", "f32[d:%d] like sum_state", D);
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (lin_has(l, r.slot)) lin_rows_declare(l, &r);
    }
    lin_output_declare(l);
    tile_store(t, "unseen -> A"); /* where a reader does not see a writer it stays 0 */
}

static void load_rows(Linear *l)
{
    AuTileBuild *t = l->x.t;
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (lin_has(l, r.slot)) lin_rows_load(l, &r);
    }
    tile_load(t, "value", "V[:, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_set(t, "one", "fill(one, 1.0)");
    if (!lin_has(l, AU_SLOT_WRITE)) return;
    tile_load(t, "strength", "W");
    tile_set(t, "value", "value * strength");
    if (l->has_norm) tile_set(t, "one", "one * strength");
}

/* A reader and the writers that it sees, from the last one back; what is left of it at the chunk's start reads the state. */
static void pairs(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t before = l->n->before;
    lin_channels_up(l);
    tile_load(t, "reader", "Q[token, :]");
    if (lin_has(l, AU_SLOT_BONUS)) { /* the token itself, of which the state knows nothing yet */
        tile_load(t, "line", "K[token, :]");
        tile_load(t, "bonus", "Bonus[token, :]");
        tile_set(t, "weight", "reduce_sum(reader * bonus * line, d)");
        tile_store(t, "weight -> A[token, token]");
    }
    tile_for_range(t, "further", "0", tile_text(t, "token + %d", 1 - before));
    tile_set(t, "writer", "token - %d - further", before);
    tile_load(t, "line", "K[writer, :]");
    tile_set(t, "weight", "reduce_sum(reader * line, d)");
    tile_store(t, "weight -> A[token, writer]");
    tile_load(t, "factor", "Factors[writer, :]");
    tile_set(t, "reader", "reader * factor");
    tile_end(t);
    tile_store(t, "reader -> Read[token, :]");
    tile_end(t);
}

static void products(Linear *l, const char *acc, const char *state, const char *value,
                     const char *whole)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, acc, l->x.atom, TILE_START, "Read", state);
    tile_product(t, acc, l->x.atom, TILE_ADD, "A", value);
    tile_load(t, whole, "Whole");
    tile_set(t, state, "%s * %s", state, whole);
    tile_product(t, state, l->x.atom, TILE_ADD, "Left", value);
}

static void forward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_head(l);
    lin_role(l);
    memories(l);
    fragments(l);
    lin_chunks(l);
    load_rows(l);
    lin_channels_until(l, false, false);
    pairs(l);
    if (l->has_norm) {
        products(l, "sum", "sum_state", "one", "sum_whole");
        tile_store(t, "sum -> Sums");
    }
    products(l, "acc", "state", "value", "whole");
    lin_store_output(l);
    tile_end(t);
    lin_store_state(l);
    lin_sums_store(l);
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_linear_channels(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                     const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_channels", forward_kernel);
}

const char *schedule_linear_channels_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = lin_channels_refusal(p, s);
    (void)arena;
    return why ? why : schedule_linear_fit(p, s);
}

/* Numbers of a lane that fragments() declares, at least. */
static int32_t words(const AuProblem *p, const AuShape *s)
{
    const int32_t tokens = s->key_tile, vectors = tokens / p->caps->lanes;
    return s->query_registers * (p->d + 2 * tokens) + vectors * (p->d + tokens + lin_numbers(p)) +
           7 * p->d / p->caps->lanes;
}

/* Pairs of tokens cost what states save, so chunks are short. */
bool schedule_linear_channels_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                    const char **why)
{
    (void)arena;
    *out = (AuShape){.executors = 1, .product_rows = 6, .key_tile = lin_channels_tokens(p)};
    *why = lin_channels_refusal(p, out);
    if (*why) return false;
    lin_wide_strip(p, out);
    *why = "fragments that are too large";
    return words(p, out) <= tile_most_words(p->caps);
}
