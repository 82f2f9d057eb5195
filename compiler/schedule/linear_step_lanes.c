/* linear_step_lanes.c - steps on machines whose lanes shuffle, at the speed of memory: a warp has a strip of columns of one state, and
 * warps of a block have strips side by side. Rows lie over groups of lanes, [parts] of them, columns over the lanes of a group, 16 bytes
 * each, so that a lane reads its part of q and k itself, slots are applied to registers, and sums over the channels are a few exchanges.
 * Nothing passes through memory of the block.
 *
 *     feedback `key`     err = w v - erase (k' D S)      S = D S + k err'
 *     feedback `own`     p = reads' S                    S = D S + k (w v)' + writes p'
 *     o = q' S, before or behind that */
#include "linear.h"

enum {
    COLUMNS = 4,
    MOST_HELD = 64,
    WIDEST = 512,
    /* With feedback a token is a chain of sums, and more warps hide more than spills cost: */
    BESIDE = 2,   /* strips of a block, */
    RESIDENT = 16 /* and warps a processor */
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

/* A tensor's numbers of the token: its channels, those of values in this strip. */
static const char *view(Linear *l, const AuHookSlot *s)
{
    const char *columns =
        s->channel == AU_AX_V
            ? lin_columns(l, s->held, tile_text(l->x.t, "%s * %d", l->strip, l->columns),
                          l->columns)
            : lin_columns(l, s->held, NULL, 0);
    return lin_token_view(l, s->held, s->channel == AU_AX_V ? "e" : "d", columns);
}

static void declare(Linear *l, const Token *token)
{
    const AuHookSlot *s = &l->slots[token->slot];
    AuTileBuild *t = l->x.t;
    if (!s->channel) return;
    tile_frag(t, tile_text(t, "raw_%s", token->name), "%s[%s:%d] like state%s",
              s->held.i ? lin_elem(l, s->held) : "f32", s->channel == AU_AX_V ? "e" : "d",
              s->channel == AU_AX_V ? l->columns : l->x.p->d, s->held.i ? "" : " = 0.0");
}

/* The slot's value of token t. */
static void make(Linear *l, const Token *token)
{
    const AuHookSlot *s = &l->slots[token->slot];
    AuTileBuild *t = l->x.t;
    const char *raw = tile_text(t, "raw_%s", token->name);
    if (s->held.i)
        tile_load(t, raw, "%s pad 0", view(l, s));
    else if (!s->channel)
        tile_set(t, raw, "0.0");
    const char *channel = !s->channel             ? "0"
                          : s->channel == AU_AX_K ? tile_text(t, "iota(d:%d)", l->x.p->d)
                                                  : tile_text(t, "%s * %d + iota(e:%d)", l->strip,
                                                              l->columns, l->columns);
    if (s->name)
        tile_set(t, token->name, "%s(f32(%s), b, h, t, %s)", s->name, raw, channel);
    else
        tile_set(t, token->name, "f32(%s)", raw);
    if (token->slot == AU_SLOT_LOG_DECAY) {
        tile_set(t, token->name, "%s", lin_floored(l, token->name));
        tile_set(t, "kept", "exp(%s)", token->name);
    }
}

static void read_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "out_row", "reduce_sum(query * state, d)");
    if (lin_has(l, AU_SLOT_BONUS))
        tile_set(t, "out_row", "out_row + reduce_sum(query * bonus * key, d) * value");
    if (lin_has(l, AU_SLOT_SKIP)) tile_set(t, "out_row", "out_row + skip");
    tile_store(t, "%s(out_row) -> o[b, h, t, %s * %d +: %d] clip", l->x.operand, l->strip,
               l->columns, l->columns);
}

static void write_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *written = lin_has(l, AU_SLOT_WRITE) ? "write * value" : "value";
    if (l->n->feedback == AU_FEEDBACK_OWN) tile_set(t, "fed", "reduce_sum(reads * state, d)");
    if (l->n->decay != AU_DECAY_NONE) tile_set(t, "state", "state * kept");
    switch (l->n->feedback) {
    case AU_FEEDBACK_NONE: tile_set(t, "state", "state + key * (%s)", written); break;
    case AU_FEEDBACK_KEY:
        tile_set(t, "fed", "reduce_sum(key * state, d)");
        tile_set(t, "fed", "%s - erase * fed", written);
        tile_set(t, "state", "state + key * fed");
        break;
    case AU_FEEDBACK_OWN: tile_set(t, "state", "state + key * (%s) + writes * fed", written); break;
    }
}

static void kernel(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t parts = l->x.shape->column_parts, lanes = l->x.p->caps->lanes / parts;
    l->is_step = true;
    l->columns = l->x.shape->query_registers * lanes;
    l->side_by_side = l->x.shape->executors;
    if (l->side_by_side > 1) l->strip = tile_text(t, "(vb * %d + self)", l->side_by_side);
    tile_layout(t, "strip", tile_text(t, "reg:%d lane:%d@%d", l->x.p->d / parts, parts, lanes),
                tile_text(t, "reg:%d lane:%d@1", l->x.shape->query_registers, lanes));
    lin_head(l);
    if (l->n->feedback != AU_FEEDBACK_NONE) tile_resident(t, RESIDENT / l->x.shape->executors);
    lin_role(l);
    tile_frag(t, "state", "f32[d:%d, e:%d] @ strip", l->x.p->d, l->columns);
    lin_load_state(l);
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot)) declare(l, &of_token[n]);
    if (l->n->decay == AU_DECAY_CONSTANT) {
        lin_rate(l);
        lin_factor(l);
    }
    tile_for_range(t, "t", "0", l->tokens);
    for (uint32_t n = 0; n < TOKENS; n++)
        if (is_made(l, of_token[n].slot)) make(l, &of_token[n]);
    if (l->n->before) read_state(l);
    write_state(l);
    if (!l->n->before) read_state(l);
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

const char *schedule_linear_step_lanes_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(p);
    if (why) return why;
    const int32_t lanes = p->caps->lanes, parts = s->column_parts;
    if (parts > lanes || lanes % parts || p->d % parts)
        return au_format(arena, "%d parts of %d channels on %d lanes", parts, p->d, lanes);
    if (p->d / parts * s->query_registers > WIDEST)
        return au_format(arena, "%d numbers of a state a lane", p->d / parts * s->query_registers);
    return NULL;
}

/* As few parts as leave a lane's numbers of the state in registers, beside those of a token. */
bool schedule_linear_step_lanes_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                      const char **why)
{
    int32_t parts = 1;
    while (parts < p->caps->lanes && p->d % (2 * parts) == 0 &&
           (p->d / parts * COLUMNS > MOST_HELD || p->caps->lanes / parts * COLUMNS >= 2 * p->e))
        parts *= 2;
    *out = (AuShape){.executors = 1, .column_parts = parts, .query_registers = COLUMNS};
    while (out->query_registers > 1 && p->d / parts * out->query_registers > MOST_HELD)
        out->query_registers /= 2;
    if (p->hooks->normal->feedback != AU_FEEDBACK_NONE) out->executors = BESIDE;
    *why = schedule_linear_step_lanes_fit(arena, p, out);
    return *why == NULL;
}
