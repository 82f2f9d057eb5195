/* linear_chunks.c - recurrences whose decay is a number a token at most, without feedback or with that of the key, forward, by
 * products over chunks of tokens. Value columns lie along the lanes:
 *
 *     A = Q K'   [q, kv], times what is kept between writer and reader, 0 where the reader does not see the writer
 *     O = (Q S) kept since the chunk's start + A V        S = S kept over the chunk + K' (V kept until its end)
 *
 * Q, K and A are in memory, whose numbers products broadcast; S, V and O are fragments. With feedback V is what keys write
 * (linear_feedback.c). */
#include "linear.h"

static const AuSlot in_memory[] = {AU_SLOT_Q,         AU_SLOT_K,     AU_SLOT_V,
                                   AU_SLOT_LOG_DECAY, AU_SLOT_WRITE, AU_SLOT_ERASE};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

static bool is_scalar_decay(const Linear *l) { return l->n->decay == AU_DECAY_SCALAR; }

static bool takes(const Linear *l, AuSlot slot)
{
    return lin_has(l, slot) && !(slot == AU_SLOT_LOG_DECAY && !is_scalar_decay(l));
}

static void memories(Linear *l)
{
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (takes(l, r.slot)) lin_rows_memory(l, &r);
    }
    lin_memory(l, "A", tile_text(l->x.t, "f32[q:%d, kv:%d]", l->chunk, l->chunk));
    lin_kept_memory(l);
    lin_fed_memory(l);
    lin_output_memory(l);
}

static void fragments(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, W = l->columns;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", D, W, atom);
    lin_load_state(l);
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C", C, W, atom);
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "key", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "value", "f32[kv:%d, e:%d] @ %s.B", C, W, atom);
    lin_sums_declare(l);
    if (lin_has(l, AU_SLOT_WRITE)) tile_frag(t, "strength", "f32[kv:%d] like value", C);
    lin_kept_declare(l, "value");
    lin_fed_declare(l);
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (takes(l, r.slot)) lin_rows_declare(l, &r);
    }
    lin_output_declare(l);
}

/* score becomes A. */
static void weigh(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_kept(l, true);
    tile_set(t, "score", "where(%s, score%s, 0.0)", l->n->before ? "j < i_q" : "j <= i_q",
             l->n->decay == AU_DECAY_NONE ? "" : " * kept");
    lin_meet(l);
    tile_store(t, "score -> A");
    lin_fed_keys(l);
    lin_meet(l);
}

static void load_rows(Linear *l)
{
    AuTileBuild *t = l->x.t;
    for (uint32_t n = 0; n < IN_MEMORY; n++) {
        const LinearRows r = lin_rows(l, in_memory[n]);
        if (takes(l, r.slot)) lin_rows_load(l, &r);
    }
    lin_meet(l);
    tile_load(t, "key", "K");
    if (!lin_is_fed(l)) tile_load(t, "value", "V[:, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (l->has_norm) tile_set(t, "one", "fill(one, 1.0)");
    if (!lin_has(l, AU_SLOT_WRITE) || lin_is_fed(l)) return;
    tile_load(t, "strength", "W");
    tile_set(t, "value", "value * strength");
    if (l->has_norm) tile_set(t, "one", "one * strength");
}

static void products(Linear *l, const char *acc, const char *state, const char *value)
{
    AuTileBuild *t = l->x.t;
    const bool decays = l->n->decay != AU_DECAY_NONE;
    tile_product(t, acc, l->x.atom, TILE_START, "Q", state);
    if (decays) tile_set(t, acc, "%s * since_rows", acc);
    tile_product(t, acc, l->x.atom, TILE_ADD, "A", value);
    if (decays) {
        tile_set(t, value, "%s * until_rows", value);
        tile_set(t, state, "%s * whole", state);
    }
    tile_product(t, state, l->x.atom, TILE_ADD, "K", value);
}

static void forward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_head(l);
    if (!l->x.on_cpu) memories(l);
    lin_role(l);
    if (l->x.on_cpu) memories(l);
    fragments(l);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    tile_set(t, "i_q", "iota(q:%d)", l->chunk);
    lin_chunks(l);
    lin_meet(l);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_count(l);
    load_rows(l);
    tile_product(t, "score", l->x.atom, TILE_START, "Q", "key");
    weigh(l);
    if (lin_is_fed(l)) lin_fed(l, "value");
    if (l->has_norm) {
        products(l, "sum", "sum_state", "one");
        tile_store(t, "sum -> Sums");
    }
    products(l, "acc", "state", "value");
    lin_store_output(l);
    tile_end(t);
    lin_store_state(l);
    lin_sums_store(l);
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_linear_chunks(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_chunks", forward_kernel);
}

const char *schedule_linear_chunks_refusal(const AuProblem *p)
{
    const AuNormal *n = p->hooks->normal;
    if (n->feedback == AU_FEEDBACK_OWN) return "feedback of its own vectors";
    if (n->feedback == AU_FEEDBACK_KEY && n->before) return "feedback and a read before the token";
    if (n->feedback == AU_FEEDBACK_KEY && !p->caps->has_private)
        return "feedback where lanes do not exchange numbers";
    if (n->decay == AU_DECAY_VECTOR) return "a decay a channel";
    if (schedule_linear_tokens_parts(p) > 1) return "executors that share out tokens' channels";
    return p->hooks->slots[AU_SLOT_BONUS].value.i ? "a bonus" : NULL;
}

/* Numbers of a lane that fragments() declares, at least. */
static int32_t words(const AuProblem *p, const AuShape *s)
{
    const int32_t vectors = s->query_registers, tokens = s->key_tile;
    return vectors * (p->d + 2 * tokens) +
           tokens / p->caps->lanes * (p->d + 2 * tokens + lin_numbers(p));
}

/* On processors short chunks: pairs of tokens cost what states save. */
bool schedule_linear_chunks_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                  const char **why)
{
    const AuTileCaps *caps = p->caps;
    const int32_t shortest = caps->lanes > 16 ? caps->lanes : 16;
    (void)arena;
    *why = schedule_linear_chunks_refusal(p);
    if (*why) return false;
    *out = (AuShape){.executors = 1, .product_rows = 6};
    out->key_tile = caps->has_private ? shortest : lin_tokens(p, 32, lin_numbers(p), true);
    *why = "no memory for a chunk of as many tokens as there are lanes";
    if (out->key_tile % caps->lanes) return false;
    lin_wide_strip(p, out);
    *why = "fragments that are too large";
    return words(p, out) <= tile_most_words(caps);
}
