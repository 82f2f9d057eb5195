/* linear_step_lanes.c - steps on machines whose lanes shuffle, at the speed of memory. A block has a state, or a strip of its columns,
 * and its warps share out the rows. Within a warp rows lie over groups of lanes, [parts] of them, columns over the lanes of a group, 16 bytes
 * each: one group where rows are wide enough. Each warp makes the token's slots of all key channels, along its lanes, and takes its own from
 * memory; sums over channels are exchanges between groups, and of the warps by way of memory.
 *
 *     feedback `key`     err = w v - erase (k' D S)      S = D S + k err'
 *     feedback `own`     p = reads' S                    S = D S + k (w v)' + writes p'
 *     o = q' S, before or behind that */
#include "linear.h"

enum {
    COLUMNS = 4,    /* of a lane: 16 bytes */
    MOST_HELD = 64, /* numbers of a state a lane, where rows can be shared out so far */
    MOST_WARPS = 16,
    RESIDENT = 16, /* warps a processor: more of them hide more than what is spilled costs */
    WIDEST = 512
};

/* Slots in the order in which a token's are made. */
typedef struct Token {
    AuSlot slot;
    const char *name;
} Token;

static const Token of_token[] = {
    {AU_SLOT_Q, "query"},       {AU_SLOT_K, "key"},       {AU_SLOT_V, "value"},
    {AU_SLOT_WRITE, "write"},   {AU_SLOT_ERASE, "erase"}, {AU_SLOT_READS, "reads"},
    {AU_SLOT_WRITES, "writes"}, {AU_SLOT_BONUS, "bonus"}, {AU_SLOT_LOG_DECAY, "log_decay"},
    {AU_SLOT_SKIP, "skip"},
};
enum { TOKENS = sizeof of_token / sizeof *of_token };

/* Is it made for each token? */
static bool is_made(const Linear *l, AuSlot slot)
{
    return lin_has(l, slot) && !(slot == AU_SLOT_LOG_DECAY && l->n->decay == AU_DECAY_CONSTANT);
}

/* Made of channels of keys, which then lie along all lanes. */
static bool is_of_keys(const Linear *l, const Token *token)
{
    return l->slots[token->slot].channel == AU_AX_K;
}

/* Has it a number for each of them, which lie as the state's rows when they meet it? The others are one number, as a sum of keys is. */
static bool has_rows(const AuProblem *p, const Token *token)
{
    if (token->slot == AU_SLOT_WRITE || token->slot == AU_SLOT_ERASE) return false;
    if (token->slot == AU_SLOT_LOG_DECAY && !lin_problem_by_channel(p)) return false;
    return p->hooks->slots[token->slot].channel == AU_AX_K;
}

static bool is_decay(const Token *token) { return token->slot == AU_SLOT_LOG_DECAY; }

/* What the state meets: of log decays their factors. */
static const char *met(const Token *token) { return is_decay(token) ? "kept" : token->name; }

static const char *layout_of(const Linear *l, const Token *token)
{
    if (is_of_keys(l, token)) return "@ a_row";
    return token->slot == AU_SLOT_SKIP && l->parts > 1 ? "like out_parts" : "like state";
}

/* The columns of values that the slot's value has: of the skip those that the warp finishes. */
static int32_t columns_of(const Linear *l, const Token *token)
{
    return token->slot == AU_SLOT_SKIP ? l->columns / l->parts : l->columns;
}

static const char *first_column(Linear *l, const Token *token)
{
    const char *first = tile_text(l->x.t, "vb * %d", l->columns);
    return token->slot == AU_SLOT_SKIP && l->parts > 1
               ? tile_text(l->x.t, "%s + self * %d", first, l->columns / l->parts)
               : first;
}

static const char *of_own(Linear *l, const char *memory, const char *channels)
{
    return tile_text(l->x.t, "%s[%s%s]", memory, l->parts > 1 ? "self, " : "", channels);
}

/* A row of each warp's own, so that no warp waits for another's. */
static void memory(Linear *l, const Token *token)
{
    if (!has_rows(l->x.p, token)) return;
    const char *type = l->parts > 1 ? tile_text(l->x.t, "f32[w:%d, d:%d]", l->parts, l->x.p->d)
                                    : tile_text(l->x.t, "f32[d:%d]", l->x.p->d);
    lin_memory(l, tile_text(l->x.t, "row_of_%s", token->name), type);
}

static void declare(Linear *l, const Token *token)
{
    const AuHookSlot *s = &l->slots[token->slot];
    AuTileBuild *t = l->x.t;
    if (!s->channel) return;
    tile_frag(t, tile_text(t, "raw_%s", token->name), "%s[%s:%d] %s%s",
              s->held.i ? lin_elem(l, s->held) : "f32", s->channel == AU_AX_V ? "e" : "d",
              s->channel == AU_AX_V ? columns_of(l, token) : l->x.p->d, layout_of(l, token),
              s->held.i ? "" : " = 0.0");
    if (has_rows(l->x.p, token))
        tile_frag(t, met(token), "f32[d:%d] like state", l->x.p->d / l->parts);
}

/* A tensor's numbers of the token: its channels, those of values in this strip. */
static const char *view(Linear *l, const Token *token)
{
    const AuHookSlot *s = &l->slots[token->slot];
    const char *columns = s->channel == AU_AX_V ? lin_columns(l, s->held, first_column(l, token),
                                                              columns_of(l, token))
                                                : lin_columns(l, s->held, NULL, 0);
    return lin_token_view(l, s->held, s->channel == AU_AX_V ? "e" : "d", columns);
}

/* The slot's value of token t. */
static void make(Linear *l, const Token *token)
{
    const AuHookSlot *s = &l->slots[token->slot];
    AuTileBuild *t = l->x.t;
    const char *raw = tile_text(t, "raw_%s", token->name);
    const char *made = has_rows(l->x.p, token) ? tile_text(t, "made_%s", token->name) : token->name;
    if (!s->held.i && !s->channel) tile_set(t, raw, "0.0");
    const char *channel =
        !s->channel ? "0"
        : is_of_keys(l, token)
            ? tile_text(t, "iota(d:%d)", l->x.p->d)
            : tile_text(t, "%s + iota(e:%d)", first_column(l, token), columns_of(l, token));
    if (s->name)
        tile_set(t, made, "%s(f32(%s), b, h, t, %s)", s->name, raw, channel);
    else
        tile_set(t, made, "f32(%s)", raw);
    if (is_decay(token)) {
        tile_set(t, made, "%s", lin_floored(l, made));
        if (!has_rows(l->x.p, token)) tile_set(t, "kept", "exp(%s)", made);
    }
    if (has_rows(l->x.p, token))
        tile_store(t, is_decay(token) ? "exp(%s) -> %s" : "%s -> %s", made,
                   of_own(l, tile_text(t, "row_of_%s", token->name), ":"));
}

/* What tensors have of token t. */
static void bring_token(Linear *l)
{
    for (uint32_t n = 0; n < TOKENS; n++) {
        const Token *token = &of_token[n];
        const AuHookSlot *s = &l->slots[token->slot];
        if (is_made(l, token->slot) && s->held.i)
            tile_load(l->x.t, tile_text(l->x.t, "raw_%s", token->name), "%s%s", view(l, token),
                      s->channel == AU_AX_V ? lin_padded(l) : "");
    }
}

/* All slots of token t. */
static void make_token(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (l->parts == 1) tile_sync(t, "self"); /* the rows of the token before were read */
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot)) make(l, &of_token[n]);
    tile_sync(t, "self");
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot) && has_rows(l->x.p, &of_token[n]))
            tile_load(t, met(&of_token[n]), "%s",
                      of_own(l, tile_text(t, "row_of_%s", of_token[n].name), lin_own_channels(l)));
}

/* ---- sums over channels, of which each warp has a part */

static void sum_memories(Linear *l)
{
    if (l->parts == 1) return;
    const char *type = tile_text(l->x.t, "f32[p:%d, e:%d]", l->parts, l->columns);
    if (l->n->feedback != AU_FEEDBACK_NONE) lin_memory(l, "Fed", type);
    lin_memory(l, "Outs", tile_text(l->x.t, "f32[u:2, p:%d, e:%d]", l->parts, l->columns));
}

static void sum_fragments(Linear *l)
{
    if (l->parts == 1) return;
    if (l->n->feedback != AU_FEEDBACK_NONE)
        tile_frag(l->x.t, "fed_parts", "f32[p:%d, e:%d] @ parts_of_strip", l->parts, l->columns);
    tile_frag(l->x.t, "out_parts", "f32[p:%d, e:%d] @ parts_of_own", l->parts,
              l->columns / l->parts);
}

static void sum_fed(Linear *l, const char *of)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, l->parts > 1 ? "own_fed" : "fed", "reduce_sum(%s * state, d)", of);
    if (l->parts == 1) return;
    tile_store(t, "own_fed -> Fed[self, :]");
    tile_sync(t, "all");
    tile_load(t, "fed_parts", "Fed");
    tile_set(t, "fed", "reduce_sum(fed_parts, p)");
}

static void read_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "own_out", "reduce_sum(query * state, d)");
    if (lin_has(l, AU_SLOT_BONUS))
        tile_set(t, "own_out", "own_out + reduce_sum(query * bonus * key, d) * value");
    if (l->parts > 1) tile_store(t, "own_out -> Outs[t %% 2, self, :]");
}

/* Two rows of parts, in turns, so that no warp is still reading what the next token's overwrites. */
static void store_output(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t own = l->columns / l->parts;
    const char *skip = lin_has(l, AU_SLOT_SKIP) ? " + skip" : "";
    if (l->parts > 1) {
        tile_sync(t, "all");
        tile_load(t, "out_parts", "Outs[t %% 2, :, self * %d +: %d]", own, own);
    }
    tile_set(t, "out_row", "%s%s", l->parts > 1 ? "reduce_sum(out_parts, p)" : "own_out", skip);
    tile_store(t, "%s(out_row) -> o[b, h, t, vb * %d%s +: %d]%s", l->x.operand, l->columns,
               l->parts > 1 ? tile_text(t, " + self * %d", own) : "", own, lin_clipped(l));
}

static void write_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *written = lin_has(l, AU_SLOT_WRITE) ? "write * value" : "value";
    if (l->n->feedback == AU_FEEDBACK_OWN) sum_fed(l, "reads");
    if (l->n->decay != AU_DECAY_NONE) tile_set(t, "state", "state * kept");
    switch (l->n->feedback) {
    case AU_FEEDBACK_NONE: tile_set(t, "state", "state + key * (%s)", written); break;
    case AU_FEEDBACK_KEY:
        sum_fed(l, "key");
        tile_set(t, "err", "%s - erase * fed", written);
        tile_set(t, "state", "state + key * err");
        break;
    case AU_FEEDBACK_OWN: tile_set(t, "state", "state + key * (%s) + writes * fed", written); break;
    }
}

/* "reg:4 lane:32@1": [width] numbers over so many lanes as divide them, side by side. */
static const char *spread(const Linear *l, int32_t width)
{
    int32_t lanes = l->x.p->caps->lanes;
    while (width % lanes) lanes /= 2;
    return tile_text(l->x.t, "reg:%d lane:%d@1", width / lanes, lanes);
}

static void layouts(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const AuShape *s = l->x.shape;
    const int32_t lanes = l->x.p->caps->lanes / s->column_parts;
    const char *columns = tile_text(t, "reg:%d lane:%d@1", s->query_registers, lanes);
    tile_layout(t, "strip",
                tile_text(t, "reg:%d lane:%d@%d", l->x.p->d / l->parts / s->column_parts,
                          s->column_parts, lanes),
                columns);
    tile_layout(t, "a_row", spread(l, l->x.p->d), NULL);
    if (l->parts == 1) return;
    tile_layout(t, "parts_of_strip", "reg", columns);
    tile_layout(t, "parts_of_own", "reg", spread(l, l->columns / l->parts));
}

static void kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    l->is_step = true;
    l->parts = l->x.shape->executors;
    l->columns = l->x.shape->query_registers * (l->x.p->caps->lanes / l->x.shape->column_parts);
    layouts(l);
    lin_head(l);
    tile_resident(t, RESIDENT / l->parts);
    tile_set_option(t, "together", 1);
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot)) memory(l, &of_token[n]);
    sum_memories(l);
    lin_role(l);
    lin_name_heads(l);
    tile_frag(t, "state", "f32[d:%d, e:%d] @ strip", l->x.p->d / l->parts, l->columns);
    sum_fragments(l);
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot)) declare(l, &of_token[n]);
    lin_load_state(l);
    if (l->n->decay == AU_DECAY_CONSTANT) {
        lin_rate(l);
        lin_factor(l);
    }
    tile_for_range(t, "t", "0", l->tokens);
    bring_token(l);
    make_token(l);
    if (l->n->before) read_state(l);
    write_state(l);
    if (!l->n->before) read_state(l);
    store_output(l);
    tile_end(t);
    lin_store_state(l);
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_linear_step_lanes(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                       const AuShape *shape)
{
    return lin_schedule(arena, diags, p, shape, "linear_step_lanes", kernel);
}

/* NULL, or what stands against it. */
static const char *refusal(const AuProblem *p)
{
    const AuHookSlot *s = p->hooks->slots;
    if (p->caps->has_private) return "a processor";
    if (tile_exchange_words(p->caps)) return "lanes that do not shuffle";
    if (s[AU_SLOT_NORM].value.i || p->hooks->has_out_mod)
        return "a norm or an out_mod, which take all columns of values";
    for (uint32_t n = 0; n < TOKENS; n++)
        if (s[of_token[n].slot].channel == AU_AX_V && s[of_token[n].slot].has_sums)
            return "a slot that sums over columns of values";
    return NULL;
}

/* Of a block: rows of slots, a copy a warp, and parts of sums, those of outputs twice. */
static int32_t shared_of(const AuProblem *p, const AuShape *s)
{
    const int32_t columns = p->caps->lanes / s->column_parts * s->query_registers;
    int32_t rows = 0, sums = 2 + (p->hooks->normal->feedback != AU_FEEDBACK_NONE);
    for (uint32_t n = 0; n < TOKENS; n++) rows += has_rows(p, &of_token[n]);
    return 4 * s->executors * (rows * p->d + (s->executors > 1 ? sums * columns : 0));
}

const char *schedule_linear_step_lanes_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(p);
    if (why) return why;
    const int32_t lanes = p->caps->lanes, parts = s->column_parts, warps = s->executors;
    if (parts > lanes || lanes % parts || p->d % (parts * warps))
        return au_format(arena, "%d parts of %d channels on %d lanes of %d warps", parts, p->d,
                         lanes, warps);
    if (shared_of(p, s) > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", shared_of(p, s),
                         p->caps->shared_bytes);
    const int32_t columns = lanes / parts * s->query_registers;
    if (columns % warps)
        return au_format(arena, "%d columns of values that %d warps finish", columns, warps);
    if (p->d / (parts * warps) * s->query_registers > WIDEST)
        return au_format(arena, "%d numbers of a state a lane",
                         p->d / (parts * warps) * s->query_registers);
    return NULL;
}

/* A warp has whole rows, if they are wide enough: memory moves them at its best, and no sum over channels has to cross lanes. Then warps
 * until a lane has few numbers. */
bool schedule_linear_step_lanes_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                      const char **why)
{
    const int32_t lanes = p->caps->lanes, needed = (p->e + COLUMNS - 1) / COLUMNS;
    int32_t parts = 1, warps = 1;
    while (parts < lanes && p->d % (2 * parts) == 0 && lanes / parts >= 2 * needed) parts *= 2;
    while (warps < MOST_WARPS && p->d % (parts * 2 * warps) == 0 &&
           p->d / (parts * warps) * COLUMNS > MOST_HELD)
        warps *= 2;
    *out = (AuShape){.executors = warps, .column_parts = parts, .query_registers = COLUMNS};
    while (shared_of(p, out) > p->caps->shared_bytes && out->executors > 1) {
        out->executors = warps /= 2;
        if (parts < lanes && p->d % (2 * parts * warps) == 0) out->column_parts = parts *= 2;
    }
    while (out->query_registers > 1 && p->d / (parts * warps) * out->query_registers > MOST_HELD)
        out->query_registers /= 2;
    *why = schedule_linear_step_lanes_fit(arena, p, out);
    return *why == NULL;
}
