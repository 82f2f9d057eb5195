/* linear_tokens.c - recurrences of every class, forward, token after token as they are defined: the state in fragments, key
 * channels in registers and value columns along the lanes. Slots are applied to a chunk of rows at a time.
 *
 *     feedback `key`     err = w v - erase (k' D S)      S = D S + k err'
 *     feedback `own`     p = reads' S                    S = D S + k (w v)' + writes p'
 *     o = q' S, before or behind that
 *
 * On GPUs the executors of a block share out the key channels, where no token waits for a sum over all of them (no feedback): each
 * has a part of the state and of each output, whose parts pass through memory, and brings and finishes some of the chunk's tokens. */
#include "linear.h"

static const AuSlot in_memory[] = {AU_SLOT_Q,      AU_SLOT_K,     AU_SLOT_V,
                                   AU_SLOT_WRITE,  AU_SLOT_ERASE, AU_SLOT_READS,
                                   AU_SLOT_WRITES, AU_SLOT_BONUS, AU_SLOT_LOG_DECAY};
enum { IN_MEMORY = sizeof in_memory / sizeof *in_memory };

/* What the schedule keeps of a slot in memory; false: nothing. */
static bool rows_of(Linear *l, uint32_t n, LinearRows *r)
{
    *r = lin_rows(l, in_memory[n]);
    r->as_factor = r->slot == AU_SLOT_LOG_DECAY;
    if (l->parts > 1 && r->slot == AU_SLOT_V && l->slots[r->slot].is_plain) {
        r->first = tile_text(l->x.t, "vb * %d", l->columns);
        r->width = l->columns;
    }
    return lin_has(l, r->slot) &&
           !(r->slot == AU_SLOT_LOG_DECAY && l->n->decay == AU_DECAY_CONSTANT);
}

static void memories(Linear *l)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_memory(l, &r);
    if (l->parts > 1)
        lin_memory(l, "O",
                   tile_text(l->x.t, "f32[p:%d, q:%d, e:%d]", l->parts, l->chunk, l->columns));
    else
        lin_memory(l, "O", tile_text(l->x.t, "f32[q:%d, e:%d]", l->chunk, l->columns));
    lin_output_memory(l);
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
    const char *atom = l->x.atom->name;
    const int32_t channels = l->x.p->d / l->parts;
    LinearRows r;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", channels, l->columns, atom);
    lin_load_state(l);
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", l->rows, l->columns, atom);
    if (l->parts > 1) tile_frag(t, "others", "f32[q:%d, e:%d] like acc", l->rows, l->columns);
    tile_frag(t, "value", "f32[e:%d] like state", l->columns);
    tile_frag(t, "out_row", "f32[e:%d] like state = 0.0", l->columns);
    tile_frag(t, "fed", "f32[e:%d] like state = 0.0", l->columns);
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (lin_has(l, rows[n].slot)) tile_frag(t, rows[n].name, "f32[d:%d] like state", channels);
    if (l->n->decay == AU_DECAY_VECTOR) tile_frag(t, "kept", "f32[d:%d] like state", channels);
    if (l->has_norm) {
        tile_frag(t, "sum_state", "f32[d:%d] like state", l->x.p->d);
        tile_load(t, "sum_state", "%s[n, h, :] pad 0%s", l->is_step ? "pool_sum" : "sum_in",
                  lin_if_kept(l));
        tile_frag(t, "ones", "f32[q:%d, n:%d] @ %s.C = 1.0", l->chunk, l->x.p->caps->lanes, atom);
        tile_frag(t, "sum_lanes", "f32[n:%d] @ along_lanes = 0.0", l->x.p->caps->lanes);
    }
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_declare(l, &r);
    lin_output_declare(l);
    if (l->n->decay != AU_DECAY_CONSTANT) return;
    lin_rate(l);
    lin_factor(l);
}

/* Of the token, from memory. */
static void load_token(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *own = lin_own_channels(l);
    tile_load(t, "query", "Q[t, %s]", own);
    tile_load(t, "key", "K[t, %s]", own);
    if (l->parts > 1 && l->slots[AU_SLOT_V].is_plain)
        tile_load(t, "value", "V[t, :]");
    else
        tile_load(t, "value", "V[t, vb * %d +: %d] pad 0", l->columns, l->columns);
    if (lin_has(l, AU_SLOT_WRITE)) tile_load(t, "strength", "W[t]");
    if (lin_has(l, AU_SLOT_ERASE)) tile_load(t, "erase", "E[t]");
    if (lin_has(l, AU_SLOT_READS)) tile_load(t, "reads", "X[t, %s]", own);
    if (lin_has(l, AU_SLOT_WRITES)) tile_load(t, "writes", "B[t, %s]", own);
    if (lin_has(l, AU_SLOT_BONUS)) tile_load(t, "bonus", "Bonus[t, %s]", own);
    if (l->n->decay == AU_DECAY_VECTOR) tile_load(t, "kept", "G[t, %s]", own);
    if (l->n->decay == AU_DECAY_SCALAR) tile_load(t, "kept", "G[t]");
}

static void read_state(Linear *l)
{
    tile_set(l->x.t, "out_row", "reduce_sum(query * state, d)");
    if (lin_has(l, AU_SLOT_BONUS))
        tile_set(l->x.t, "out_row", "out_row + reduce_sum(query * bonus * key, d) * value");
    if (l->has_norm) {
        tile_set(l->x.t, "sum_row", "reduce_sum(query * sum_state, d)");
        if (lin_has(l, AU_SLOT_BONUS))
            tile_set(l->x.t, "sum_row", "sum_row + reduce_sum(query * bonus * key, d)");
        tile_store(l->x.t, "fill(sum_lanes, sum_row) -> Sums[t, :]");
    }
    tile_store(l->x.t, "out_row -> O[%st, :]", l->parts > 1 ? "self, " : "");
}

static void write_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *decayed = l->n->decay == AU_DECAY_NONE ? "state" : "state * kept";
    const char *w = lin_has(l, AU_SLOT_WRITE) ? "strength * value" : "value";
    switch (l->n->feedback) {
    case AU_FEEDBACK_NONE: tile_set(t, "state", "%s + key * (%s)", decayed, w); break;
    case AU_FEEDBACK_KEY:
        tile_set(t, "fed", "reduce_sum(key * (%s), d)", decayed);
        tile_set(t, "fed", "%s - erase * fed", w);
        tile_set(t, "state", "%s + key * fed", decayed);
        break;
    case AU_FEEDBACK_OWN:
        tile_set(t, "fed", "reduce_sum(reads * state, d)");
        tile_set(t, "state", "%s + key * (%s) + writes * fed", decayed, w);
        break;
    }
    if (l->has_norm)
        tile_set(t, "sum_state", "sum_state%s + key%s",
                 l->n->decay == AU_DECAY_NONE ? "" : " * kept",
                 lin_has(l, AU_SLOT_WRITE) ? " * strength" : "");
}

static bool sums_channels(const AuHookSlot *slots)
{
    bool sums = false;
    for (uint32_t n = 0; n < IN_MEMORY; n++) sums |= slots[in_memory[n]].has_sums;
    return sums;
}

/* Lanes that are threads read a row side by side, where no slot sums over its channels; other rows a token a lane, each somewhere else. */
static bool reads_along(const Linear *l)
{
    return !l->x.on_cpu && !l->is_step && !sums_channels(l->slots);
}

/* Rows behind the last token, which nobody keeps, are numbers. */
static void clear_outputs(Linear *l)
{
    for (int32_t p = 0; p < l->parts; p++)
        tile_store(l->x.t, "acc -> O[%d, %s +: %d, :]", p, lin_own_place(l), l->rows);
}

static void load_outputs(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (l->parts == 1) {
        tile_load(t, "acc", "O");
        return;
    }
    lin_meet(l);
    tile_load(t, "acc", "O[0, %s +: %d, :]", lin_own_place(l), l->rows);
    for (int32_t p = 1; p < l->parts; p++) {
        tile_load(t, "others", "O[%d, %s +: %d, :]", p, lin_own_place(l), l->rows);
        tile_set(t, "acc", "acc + others");
    }
}

/* All that is on its way at once. */
static void load_shared(Linear *l)
{
    LinearRows r;
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_bring(l, &r);
    for (uint32_t n = 0; n < IN_MEMORY; n++)
        if (rows_of(l, n, &r)) lin_rows_make(l, &r);
}

/* As many as the shape has, where it is one of [schedule_linear_tokens_fit]. */
static void share_out(Linear *l)
{
    l->parts = l->x.shape->executors;
    l->rows = l->chunk / l->parts;
    l->spread = l->rows < l->x.p->caps->lanes ? l->x.p->caps->lanes : l->rows;
    tile_set_option(l->x.t, "fused", 1);
}

static void forward_kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    LinearRows r;
    if (l->x.shape->executors > 1) share_out(l);
    if (reads_along(l)) lin_read_along(l);
    lin_head(l);
    if (!l->x.on_cpu) memories(l);
    lin_role(l);
    if (l->x.on_cpu) memories(l);
    fragments(l);
    if (l->parts == 1)
        tile_store(t, "acc -> O"); /* rows behind the last token, which nobody keeps, are numbers */
    else
        clear_outputs(l);
    if (l->has_norm) tile_store(t, "ones -> Sums");
    lin_chunks(l);
    lin_meet(l);
    lin_count(l);
    if (l->parts > 1)
        load_shared(l);
    else
        for (uint32_t n = 0; n < IN_MEMORY; n++)
            if (rows_of(l, n, &r)) lin_rows_load(l, &r);
    lin_meet(l);
    tile_for_range(t, "t", "0", "count");
    load_token(l);
    if (l->n->before) read_state(l);
    write_state(l);
    if (!l->n->before) read_state(l);
    tile_end(t);
    load_outputs(l);
    lin_store_output(l);
    tile_end(t);
    lin_store_state(l);
    if (l->has_norm)
        tile_store(t, "sum_state -> %s[n, h, :] clip%s", l->is_step ? "pool_sum" : "sum_out",
                   lin_if_kept(l));
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_linear_tokens(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_tokens", forward_kernel);
}

/* Why executors cannot share out key channels; NULL: so many can. */
static const char *sharing_refusal(const AuProblem *p, int32_t parts)
{
    const AuHookSlot *slots = p->hooks->slots;
    if (parts == 1) return NULL;
    if (p->caps->has_private) return "several executors of a processor's block";
    if (p->hooks->normal->feedback != AU_FEEDBACK_NONE)
        return "feedback, which sums over all key channels";
    if (lin_takes_all_columns(p)) return "a norm or an out_mod, of one executor";
    if (sums_channels(slots)) return "slots that sum over channels, of one executor";
    return p->d % parts ? "key channels that are not a multiple of the executors" : NULL;
}

/* At least 16 channels each: a token's value, decay and output cost as much as 8 do. */
int32_t schedule_linear_tokens_parts(const AuProblem *p)
{
    enum { MOST = 4, LEAST = 16 };
    int32_t parts = MOST;
    while (parts > 1 && (sharing_refusal(p, parts) || p->d / parts < LEAST)) parts /= 2;
    return parts;
}

const char *schedule_linear_tokens_sharing(const AuProblem *p, const AuShape *s)
{
    if (s->key_tile % s->executors) return "a chunk that is no multiple of the executors";
    return sharing_refusal(p, s->executors);
}

/* Numbers of a lane that fragments() declares, at least, with keys of [d] channels and strips of so many vectors. */
static int32_t words(const AuProblem *p, const AuShape *s, int32_t d)
{
    static const AuSlot of_token[] = {AU_SLOT_Q, AU_SLOT_K, AU_SLOT_READS, AU_SLOT_WRITES,
                                      AU_SLOT_BONUS};
    const AuHookSlot *slots = p->hooks->slots;
    const int32_t lanes = p->caps->lanes, rows = s->key_tile < lanes ? lanes : s->key_tile;
    int32_t sum = s->query_registers * (d + s->key_tile + 3); /* states, outputs, rows of columns */
    for (uint32_t n = 0; n < sizeof of_token / sizeof *of_token; n++) {
        const AuHookSlot *slot = &slots[of_token[n]];
        if (!slot->value.i && of_token[n] != AU_SLOT_Q && of_token[n] != AU_SLOT_K) continue;
        sum += d + (slot->is_plain ? 0 : d * (rows / lanes));
    }
    if (p->hooks->normal->decay == AU_DECAY_VECTOR) sum += d + d * (rows / lanes);
    return sum;
}

static const char *too_wide(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t most = tile_most_words(p->caps);
    int32_t fits = p->d / 16 * 16;
    while (fits > 16 && words(p, s, fits) > most) fits -= 16;
    return au_format(arena,
                     "a state of %d by %d takes %d numbers of a lane, which has %d; keys of %d "
                     "channels do, with these values",
                     p->d, p->e, words(p, s, p->d), most, fits);
}

/* Strips of columns are as wide as states leave room for. */
static bool shape_of(AuArena *arena, const AuProblem *p, int32_t parts, AuShape *out,
                     const char **why)
{
    const AuTileCaps *caps = p->caps;
    const bool takes_all = lin_takes_all_columns(p);
    int32_t vectors = lin_strip(p, (p->e + caps->lanes - 1) / caps->lanes, 4);
    int32_t numbers = lin_numbers(p) + parts * vectors * caps->lanes;
    if (parts > 1 && p->hooks->slots[AU_SLOT_V].is_plain && p->e > vectors * caps->lanes)
        numbers -= p->e - vectors * caps->lanes;
    *out = (AuShape){.executors = parts,
                     .key_tile = lin_tokens(p, 16, numbers, false),
                     .query_registers = vectors};
    while (vectors > 1 && !takes_all && words(p, out, p->d / parts) > caps->private_words)
        out->query_registers = vectors = (vectors + 1) / 2;
    if (words(p, out, p->d / parts) <= tile_most_words(caps)) return out->key_tile % parts == 0;
    *why = too_wide(arena, p, out);
    return false;
}

bool schedule_linear_tokens_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                  const char **why)
{
    const int32_t parts = schedule_linear_tokens_parts(p);
    return (parts > 1 && shape_of(arena, p, parts, out, why)) || shape_of(arena, p, 1, out, why);
}

/* ---- the operation `step`: the same with states of a pool */

static void step_kernel(Linear *l)
{
    l->is_step = true;
    forward_kernel(l);
}

AuSchedule *schedule_linear_step(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_step", step_kernel);
}

bool schedule_linear_step_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    return shape_of(arena, p, 1, out, why);
}
