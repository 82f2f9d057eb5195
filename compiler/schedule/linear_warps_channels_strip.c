/* linear_warps_channels_strip.c - gradients of decays a channel: what 16 channels of keys get, and their decays, of all tokens of a chunk.
 *
 * Pairs are split by halves as forward (linear_warps_vector.c): of a level, rows M have queries kept since the second half's start or keys kept
 * until then. R are the gradients of pairs, dO (w V)':
 *
 *     rows of a level get      dM = (R + R') M, each pair of the level once        dq or dk += dM times what was kept
 *     through the chunk's ends dq += e^G (S dO')        dk += w e^(G[end] - G) (T V')
 *
 * With feedback `key` U stands for w V, and keys are readers, too: rows N of a level have keys in both halves. Of the pairs Z = e y U', where dN
 * are what keys get as readers:
 *
 *     dM = (R + R') M + Z' N of writers     dN = Z M of readers        dk += e e^G (S y')
 *
 * The log decay of token t gets what spans it. With p = M dM + N dN, which each pair makes once, it is, of a level, the sum of p over readers u >= t of
 * its half (u > t where a read comes before the write) or over writers s < t of its half; of the ends the same over the chunk; and
 * e^G[end] <S, T>. These sums are products of p, two numbers an element, with tiles of ones, so that none is the difference of two sums.
 *
 * All of it lies with 16 channels along the rows of products, a warp's, and tokens along their columns, in groups of 16: M is an operand where
 * it is made. The axis of tokens is `kv` of an operand and of gradients of decays, `q` of dM and what comes of it; values on both axes are the
 * same, loaded and made once. */
#include "linear_warps_channels.h"

enum { UNIT = CHANNELS_UNIT };

const AuTileAtom *linear_warps_sums_atom(const AuProblem *p)
{
    AuProblem sums = *p;
    sums.operand = TILE_BF16;
    return warps_atom(&sums);
}

int32_t channels_groups(const LinearBack *b) { return b->w.l.chunk / UNIT; }
bool channels_is_weighed(const LinearBack *b)
{
    return lin_has(&b->w.l, AU_SLOT_WRITE) && !b->is_fed;
}
bool channels_is_before(const LinearBack *b) { return b->w.l.n->before || b->is_own; }
bool channels_has_bonus(const LinearBack *b) { return lin_has(&b->w.l, AU_SLOT_BONUS); }

const char *channels_numbered(LinearBack *b, const char *name, int32_t group)
{
    return tile_text(b->w.l.x.t, "%s_%d", name, group);
}

/* Of a group of tokens, on one of the two axes. */
const char *channels_on_axis(LinearBack *b, const char *name, const char *axis, int32_t group)
{
    return tile_text(b->w.l.x.t, "%s_%s_%d", name, *axis == 'q' ? "r" : "w", group);
}

const char *channels_tokens(LinearBack *b, int32_t group)
{
    return tile_text(b->w.l.x.t, "%d +: %d", group * UNIT, UNIT);
}

/* Value columns of an operand at once: whole parts of all. */
static int32_t part_of_values(const LinearWarps *w)
{
    int32_t part = w->e < CHANNELS_PART ? w->e : CHANNELS_PART;
    while (w->e % part) part -= UNIT;
    return part;
}

/* ---- fragments */

static void fragments_of_group(LinearBack *b, int32_t g)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    static const char *const axes[] = {"kv", "q"};
    const char *atom = l->x.atom->name;
    for (uint32_t n = 0; n < 2; n++) {
        const char *axis = axes[n];
        tile_frag(t, channels_on_axis(b, "query", axis, g), "%s[d:%d, %s:%d] @ %s.C", l->x.operand,
                  UNIT, axis, UNIT, atom);
        tile_frag(t, channels_on_axis(b, "key", axis, g), "%s[d:%d, %s:%d] @ %s.C", l->x.operand,
                  UNIT, axis, UNIT, atom);
        tile_frag(t, channels_on_axis(b, "sum", axis, g), "f32[d:%d, %s:%d] @ %s.C", UNIT, axis,
                  UNIT, atom);
        if (channels_is_before(b))
            tile_frag(t, channels_on_axis(b, "before", axis, g), "f32[d:%d, %s:%d] @ %s.C", UNIT,
                      axis, UNIT, atom);
    }
    tile_frag(t, channels_numbered(b, "rows", g), "%s[d:%d, kv:%d] @ %s.A", l->x.operand, UNIT,
              UNIT, atom);
    tile_frag(t, channels_numbered(b, "dq", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
    tile_frag(t, channels_numbered(b, "dk", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
    if (b->is_fed) {
        tile_frag(t, channels_numbered(b, "keys", g), "%s[d:%d, kv:%d] @ %s.A", l->x.operand, UNIT,
                  UNIT, atom);
        tile_frag(t, channels_numbered(b, "dread", g), "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    }
    if (b->has_rates)
        tile_frag(t, channels_numbered(b, "dg", g), "f32[d:%d, kv:%d] @ %s.C = 0.0", UNIT, UNIT,
                  atom);
    channels_own_declare(b, g);
    if (channels_has_bonus(b))
        tile_frag(t, channels_numbered(b, "dbonus", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT,
                  atom);
}

void channels_strip_declare(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t part = part_of_values(w);
    tile_frag(t, "dm", "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    if (b->is_fed || b->is_own) tile_frag(t, "dn", "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    if (b->is_fed) tile_frag(t, "erase_of_token", "f32[q:%d] like dm", UNIT);
    if (b->is_own) tile_frag(t, "own_of_writer", "f32[q:%d] like dm", UNIT);
    if (channels_is_weighed(b)) tile_frag(t, "strength_of_key", "f32[q:%d] like dm", UNIT);
    tile_frag(t, "state_part", "%s[d:%d, e:%d] @ %s.A", l->x.operand, UNIT, part, atom);
    tile_frag(t, "dstate_part", "%s[d:%d, e:%d] @ %s.A", l->x.operand, UNIT, part, atom);
    for (int32_t g = 0; g < channels_groups(b); g++) fragments_of_group(b, g);
    tile_frag(t, "border_w", "f32[d:%d, kv:%d] @ %s.C", UNIT, UNIT, atom);
    tile_frag(t, "border_r", "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    tile_frag(t, "total_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "total_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "far_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "far_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "near_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "near_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "own_of_token", "f32[q:%d] like border_r", UNIT);
    if (channels_has_bonus(b)) {
        const AuExpr held = l->slots[AU_SLOT_BONUS].held;
        tile_frag(t, "given_bonus", "%s[d:%d, q:%d] @ %s.C%s", held.i ? lin_elem(l, held) : "f32",
                  UNIT, UNIT, atom, held.i ? "" : " = 0.0");
    }
}

/* ---- the strip */

static void load_group(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    static const char *const axes[] = {"kv", "q"};
    for (uint32_t n = 0; n < 2; n++) {
        const char *axis = axes[n], *before = channels_on_axis(b, "before", axis, g);
        tile_load(t, channels_on_axis(b, "query", axis, g), "Q[%s, %s] as [%s, d]",
                  channels_tokens(b, g), s->channels, axis);
        tile_load(t, channels_on_axis(b, "key", axis, g), "K[%s, %s] as [%s, d]",
                  channels_tokens(b, g), s->channels, axis);
        tile_load(t, channels_on_axis(b, "sum", axis, g), "G[%s, %s] as [%s, d]",
                  channels_tokens(b, g), s->channels, axis);
        if (!channels_is_before(b)) continue;
        tile_load(t, before, "G[max(%d + iota(%s:%d), 0), %s]", g * UNIT - 1, axis, UNIT,
                  s->channels);
        if (!g) tile_set(t, before, "where(iota(%s:%d) > 0, %s, 0.0)", axis, UNIT, before);
    }
    if (b->is_own) channels_own_load(b, s, g);
}

/* What a query of the group has of the sums. */
const char *channels_reads(LinearBack *b, const char *axis, int32_t g)
{
    return channels_on_axis(b, channels_is_before(b) ? "before" : "sum", axis, g);
}

const char *channels_row(LinearBack *b, const char *name, const char *axis, int32_t g)
{
    return tile_text(b->w.l.x.t, "f32(%s)", channels_on_axis(b, name, axis, g));
}

/* Of queries as f32; with feedback `own` what is asked of the state where x reads it (linear_warps_own_back.c). */
static const char *asked(LinearBack *b, const char *axis, int32_t g)
{
    return b->is_own ? channels_on_axis(b, "asked", axis, g) : channels_row(b, "query", axis, g);
}

/* As one number of bf16 they are what exceeds the rule of numerics first. */
void channels_split_rates(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "p_high", "bf16(p)");
    tile_set(t, "p_low", "bf16(p - f32(p_high))");
}

/* [dg] of group [to] gets what the group's `p` makes by the tile [view] of ones. */
void channels_add_to_rates(LinearBack *b, int32_t to, const char *view)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = linear_warps_sums_atom(b->w.l.x.p);
    const char *of = tile_text(t, "%s as [q, kv]", view);
    tile_product(t, channels_numbered(b, "dg", to), atom, TILE_ADD, "p_high", of);
    tile_product(t, channels_numbered(b, "dg", to), atom, TILE_ADD, "p_low", of);
}

void channels_add_rates(LinearBack *b, int32_t to, const char *view)
{
    channels_split_rates(b);
    channels_add_to_rates(b, to, view);
}

const char *channels_ones_between(LinearBack *b, bool behind, int32_t from, int32_t to)
{
    return tile_text(b->w.l.x.t, "%s[%s, %s]", behind ? "Behind" : "Before",
                     channels_tokens(b, from), channels_tokens(b, to));
}

/* Keys as readers, from the chunk's start; strengths of erasing get the sum over the strip's channels. */
static void readers_back(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dx = channels_numbered(b, "dread", g);
    tile_set(t, dx, "%s * exp2(%s)", dx, channels_on_axis(b, "sum", "q", g));
    tile_set(t, "of_reader", "reduce_sum(f32(%s) * %s, d)", channels_on_axis(b, "key", "q", g), dx);
    tile_store(t, "of_reader -> Erases[%d + %s, %s] as [q]", channels_groups(b), s->unit,
               channels_tokens(b, g));
    tile_load(t, "erase_of_token", "E[%s] as [q]", channels_tokens(b, g));
    tile_set(t, dx, "%s * -erase_of_token", dx);
}

/* Through the state at one end: readers from the chunk's start, writers until its end. */
static void through_ends(LinearBack *b, int32_t g, bool of_keys)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *sum = of_keys ? tile_text(t, "total_r - %s", channels_on_axis(b, "sum", "q", g))
                              : channels_reads(b, "q", g),
               *dx = channels_numbered(b, of_keys ? "dk" : "dq", g), *strength = "";
    if (of_keys && channels_is_weighed(b)) {
        tile_load(t, "strength_of_key", "W[%s] as [q]", channels_tokens(b, g));
        strength = " * strength_of_key";
    }
    tile_set(t, dx, "%s * exp2(%s)%s", dx, sum, strength);
    if (b->has_rates)
        tile_set(t, "p", "%s * %s", of_keys ? channels_row(b, "key", "q", g) : asked(b, "q", g),
                 dx);
    if (b->is_own) channels_own_through_ends(b, g, of_keys, tile_text(t, "exp2(%s)", sum));
    if (!b->has_rates) return;
    if (b->is_fed && !of_keys)
        tile_set(t, "p", "p + f32(%s) * %s", channels_on_axis(b, "key", "q", g),
                 channels_numbered(b, "dread", g));
    channels_split_rates(b);
    for (int32_t to = 0; to < channels_groups(b); to++)
        if (of_keys ? to >= g : to <= g)
            channels_add_to_rates(b, to, channels_ones_between(b, !of_keys, g, to));
}

/* S dO' and T V' of groups from [g_first] on, part of the value columns after part, and <S, T> of each channel. */
static void ends(LinearBack *b, const ChannelsStrip *s, int32_t g_first, int32_t g_end)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t part = part_of_values(w);
    for (int32_t first = 0; first < w->e; first += part) {
        const char *columns = tile_text(t, "%d +: %d", first, part);
        tile_load(t, "state_part", "states[b, h, place, %s, %s]", s->channels, columns);
        tile_load(t, "dstate_part", b->is_fed ? "dstates[b, h, place, %s, %s]" : "T[%s, %s]",
                  s->channels, columns);
        for (int32_t g = g_first; g < g_end; g++) {
            tile_product(t, channels_numbered(b, "dq", g), w->l.x.atom,
                         first ? TILE_ADD : TILE_START, "state_part",
                         tile_text(t, "D[%s, %s]", channels_tokens(b, g), columns));
            tile_product(t, channels_numbered(b, "dk", g), w->l.x.atom,
                         first ? TILE_ADD : TILE_START, "dstate_part",
                         b->is_fed
                             ? tile_text(t, "Uh[%s, %s] as [e, q]", columns, channels_tokens(b, g))
                             : tile_text(t, "V[%s, %s] as [q, e]", channels_tokens(b, g), columns));
            if (b->is_own) channels_own_ends(b, g, first ? TILE_ADD : TILE_START, columns);
            if (b->is_fed)
                tile_product(t, channels_numbered(b, "dread", g), w->l.x.atom,
                             first ? TILE_ADD : TILE_START, "state_part",
                             tile_text(t, "Yh[%s, %s] as [e, q]", columns, channels_tokens(b, g)));
        }
        if (!b->has_rates || g_first) continue;
        tile_set(t, first ? "passed_part" : "passed",
                 "reduce_sum(f32(state_part) * f32(dstate_part), e)");
        if (first) tile_set(t, "passed", "passed + passed_part");
    }
}

/* Pairs of tokens of different groups. Level n is of halves of 2^n tokens. */
static void far_levels(LinearBack *b, const ChannelsStrip *s)
{
    for (int32_t n = linear_warps_levels(b->w.l.chunk) - 1; n >= CHANNELS_NEAR; n--) {
        for (int32_t g = 0; g < channels_groups(b); g++) channels_make_operand(b, s, g, 1 << n);
        for (int32_t g = 0; g < channels_groups(b); g++) channels_level_back(b, s, g, 1 << n, n);
    }
}

/* What a bonus gives the group's pairs of tokens with themselves, in `own_row`, and what it gets of them. */
static void bonus_back(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *slot = &l->slots[AU_SLOT_BONUS];
    const char *place = tile_text(t, "first + %d + iota(q:%d)", g * UNIT, UNIT),
               *channel = tile_text(t, "%s + iota(d:%d)", s->first, UNIT);
    if (slot->held.i)
        tile_load(t, "given_bonus", "%s pad 0",
                  lin_view(l, slot->held, "q", "d", lin_columns(l, slot->held, s->first, UNIT),
                           tile_text(t, "first + %d +: %d", g * UNIT, UNIT)));
    if (slot->name)
        tile_set(t, "bonus", "%s(f32(given_bonus), b, h, %s, %s)", slot->name, place, channel);
    else
        tile_set(t, "bonus", "f32(given_bonus)");
    tile_set(t, "own_row", "where(%s < end && %s < %d, bonus * own_of_token, 0.0)", place, channel,
             l->x.p->d);
    tile_set(t, channels_numbered(b, "dbonus", g), "own_of_token * f32(%s) * f32(%s)",
             channels_on_axis(b, "query", "q", g), channels_on_axis(b, "key", "q", g));
}

/* A token's query with its own key. */
static void own_back(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = channels_numbered(b, "dq", g), *dk = channels_numbered(b, "dk", g),
               *own = "own_of_token";
    if (b->is_own || (channels_is_before(b) && !channels_has_bonus(b))) return;
    tile_load(t, "own_of_token", "Own[%s]", channels_tokens(b, g));
    if (channels_has_bonus(b)) bonus_back(b, s, g), own = "own_row";
    tile_set(t, dq, "%s + %s * f32(%s)", dq, own, channels_on_axis(b, "key", "q", g));
    tile_set(t, dk, "%s + %s * f32(%s)", dk, own, channels_on_axis(b, "query", "q", g));
}

/* Until the chunk's end, as values take them. */
static void keep_keys(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    tile_store(b->w.l.x.t, "%s(f32(%s) * exp2(total_w - %s)) -> K[%s, %s]", b->w.l.x.operand,
               channels_on_axis(b, "key", "kv", g), channels_on_axis(b, "sum", "kv", g),
               channels_tokens(b, g), s->channels);
}

static void near_levels(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    for (int32_t n = 0; n < CHANNELS_NEAR; n++) {
        channels_make_operand(b, s, g, 1 << n);
        channels_level_back(b, s, g, 1 << n, n);
    }
}

/* A group's own pairs, after all else that it gets; and out with what it has got. */
static void group_back(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    load_group(b, s, g); /* again: registers have one group's at a time */
    own_back(b, s, g);
    near_levels(b, s, g);
    if (!b->is_fed) keep_keys(b, s, g);
    tile_store(t, "%s -> Made[0, %s, %s] as [q, d]", channels_numbered(b, "dq", g),
               channels_tokens(b, g), s->channels);
}

static void store_rates(LinearBack *b, const ChannelsStrip *s)
{
    for (int32_t g = 0; b->has_rates && g < channels_groups(b); g++)
        tile_store(b->w.l.x.t, "%s + exp2(total_w) * passed -> G[%s, %s]",
                   channels_numbered(b, "dg", g), channels_tokens(b, g), s->channels);
}

/* With feedback `own` a group has all that it gets before the next one begins: registers have no room for what two get at a time. */
static void group_in_turn(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    ends(b, s, g, g + 1);
    load_group(b, s, g);
    through_ends(b, g, false);
    through_ends(b, g, true);
    for (int32_t n = linear_warps_levels(b->w.l.chunk) - 1; n >= CHANNELS_NEAR; n--) {
        const int32_t many = (1 << n) / UNIT, other = (g / many ^ 1) * many;
        for (int32_t from = other; from < other + many; from++) {
            load_group(b, s, from);
            channels_make_operand(b, s, from, 1 << n);
        }
        channels_level_back(b, s, g, 1 << n, n);
    }
    channels_own_writers(b, g);
    channels_own_near(b, s, g);
    channels_own_queries(b, g);
    tile_store(t, "%s -> Made[0, %s, %s] as [q, d]", channels_numbered(b, "dq", g),
               channels_tokens(b, g), s->channels);
}

/* Keys as values take them last: other groups meet them as they are. */
static void groups_in_turn(LinearBack *b, const ChannelsStrip *s)
{
    const int32_t groups = channels_groups(b);
    for (int32_t g = 0; g < groups; g++) group_in_turn(b, s, g);
    for (int32_t g = 0; g < groups; g++) {
        load_group(b, s, g);
        keep_keys(b, s, g);
    }
    store_rates(b, s);
}

void channels_strip_back(LinearBack *b, const ChannelsStrip *s)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t groups = channels_groups(b);
    tile_load(t, "total_w", "G[%d, %s]", w->l.chunk - 1, s->channels);
    tile_load(t, "total_r", "G[%d, %s]", w->l.chunk - 1, s->channels);
    for (int32_t g = 0; b->has_rates && g < groups; g++)
        tile_set(t, channels_numbered(b, "dg", g), "fill(%s, 0.0)", channels_numbered(b, "dg", g));
    if (b->is_own) {
        groups_in_turn(b, s);
        return;
    }
    ends(b, s, 0, groups);
    for (int32_t g = 0; g < groups; g++) {
        load_group(b, s, g);
        if (b->is_fed) readers_back(b, s, g);
        through_ends(b, g, false);
        through_ends(b, g, true);
        if (b->is_fed)
            tile_set(t, channels_numbered(b, "dk", g), "%s + %s", channels_numbered(b, "dk", g),
                     channels_numbered(b, "dread", g));
    }
    far_levels(b, s);
    for (int32_t g = 0; g < groups; g++) group_back(b, s, g);
    store_rates(b, s);
}
