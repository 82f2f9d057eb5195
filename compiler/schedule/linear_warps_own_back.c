/* linear_warps_own_back.c - gradients with feedback `own`: what the kernel `chunks` (linear_warps_channels.c) does beside what it does without
 * feedback. Rows x read the state before their token, rows b write what x has read, P; y is what P gets (linear_warps_carry.c).
 *
 * Readers q and x meet writers k and b, so that there are four matrices of gradients of pairs, and of a level rows N beside M: x kept since the
 * second half's start, or b kept until then. A token is reader or writer of a level, so that two sums are all that rows get:
 *
 *     R_k = dO (w V)'    R_b = dO P'    Z_k = y (w V)'    Z_b = y P'
 *     readers   dM = R_k M + R_b N          dN = Z_k M + Z_b N           dq += dM, dx += dN, times what was kept
 *     writers   dM = R_k' M + Z_k' N        dN = R_b' M + Z_b' N         dk += dM, db += dN
 *     ends      dq += e^G (S dO')    dx += e^G (S y')    dk += w e^(G[end] - G) (T V')    db += e^(G[end] - G) (T P')
 *     values    dV = w (.. + A(x, k)' y)
 *
 * p = M dM + N dN, of which decays get their sums. As forward q kept over its own token stands where x stands, so that both have one exponential: what
 * q gets is that row's until all sums are made, and then its own token's decay gets it, too. */
#include "linear_warps_channels.h"

enum { UNIT = CHANNELS_UNIT };

/* In the order of who makes them. */
static const ChannelsPairs kinds[] = {
    {"R", "Near", "Own", false, true},
    {"Rb", "NearRb", "OwnB", false, false},
    {"Zk", "NearZk", NULL, true, true},
    {"Zb", "NearZb", NULL, true, false},
};

int32_t channels_kinds(const LinearBack *b)
{
    return b->is_own ? (int32_t)(sizeof kinds / sizeof *kinds) : 1;
}

const ChannelsPairs *channels_kind(int32_t kind) { return &kinds[kind]; }

/* ---- memories and copies */

void channels_own_memories(LinearBack *b)
{
    Linear *l = &b->w.l;
    const int32_t c = l->chunk;
    if (!b->is_own) return;
    warps_tile(&l->x, TILE_NAME("Uh"), "e", b->w.e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Yh"), "e", b->w.e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Px"), "q", c, "kv", c, 1);
    for (int32_t n = 1; n < channels_kinds(b); n++) {
        warps_tile(&l->x, TILE_NAME(kinds[n].memory), "q", c, "kv", c, 1);
        warps_tile(&l->x, TILE_NAME(kinds[n].near), "q", CHANNELS_NEAR * c, "kv", UNIT, 1);
    }
    tile_shared(l->x.t, "OwnB", "f32[q:%d]", c);
}

void channels_own_arguments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    if (!b->is_own) return;
    lw_pairs_argument(w, lw_kept(LINEAR_KEPT_READERS), TILE_IN);
    lw_kept_argument(w, "updates", TILE_IN, true);
    lw_kept_argument(w, "solutions", TILE_IN, true);
}

void channels_own_issue(LinearBack *b)
{
    LinearWarps *w = &b->w;
    if (!b->is_own) return;
    lw_issue_kept(w, "tpx", "reader_pairs", "Px", w->l.chunk);
    lw_issue_kept(w, "tu", "updates", "Uh", w->e);
    lw_issue_kept(w, "ty", "solutions", "Yh", w->e);
}

void channels_own_wait(LinearBack *b)
{
    static const char *const tokens[] = {"tpx", "tu", "ty"};
    for (uint32_t n = 0; b->is_own && n < sizeof tokens / sizeof *tokens; n++)
        warps_wait(&b->w.l.x, tokens[n]);
}

/* ---- fragments of a group of tokens */

static const char *const axes[] = {"kv", "q"};

void channels_own_declare(LinearBack *b, int32_t g)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    if (!b->is_own) return;
    for (uint32_t n = 0; n < 2; n++) {
        tile_frag(t, channels_on_axis(b, "reader", axes[n], g), "%s[d:%d, %s:%d] @ %s.C",
                  l->x.operand, UNIT, axes[n], UNIT, atom);
        tile_frag(t, channels_on_axis(b, "writer", axes[n], g), "%s[d:%d, %s:%d] @ %s.C",
                  l->x.operand, UNIT, axes[n], UNIT, atom);
    }
    tile_frag(t, channels_numbered(b, "others", g), "%s[d:%d, kv:%d] @ %s.A", l->x.operand, UNIT,
              UNIT, atom);
    tile_frag(t, channels_numbered(b, "dx", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
    tile_frag(t, channels_numbered(b, "db", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
}

/* Rows that read and write for feedback; `asked`, what of a query stands where x does. */
void channels_own_load(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    for (uint32_t n = 0; n < 2; n++) {
        const char *axis = axes[n], *query = channels_on_axis(b, "query", axis, g),
                   *asked = channels_on_axis(b, "asked", axis, g);
        tile_load(t, channels_on_axis(b, "reader", axis, g), "X[%s, %s] as [%s, d]",
                  channels_tokens(b, g), s->channels, axis);
        tile_load(t, channels_on_axis(b, "writer", axis, g), "B[%s, %s] as [%s, d]",
                  channels_tokens(b, g), s->channels, axis);
        if (b->w.l.n->before)
            tile_set(t, asked, "f32(%s)", query);
        else
            tile_set(t, asked, "f32(%s) * exp2(%s - %s)", query,
                     channels_on_axis(b, "sum", axis, g), channels_on_axis(b, "before", axis, g));
    }
}

/* ---- the strip */

/* S y' and T P', of part [columns] of the values. */
void channels_own_ends(LinearBack *b, int32_t g, AuTileProduct how, const char *columns)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *rows = channels_tokens(b, g);
    tile_product(t, channels_numbered(b, "dx", g), b->w.l.x.atom, how, "state_part",
                 tile_text(t, "Yh[%s, %s] as [e, q]", columns, rows));
    tile_product(t, channels_numbered(b, "db", g), b->w.l.x.atom, how, "dstate_part",
                 tile_text(t, "Uh[%s, %s] as [e, q]", columns, rows));
}

/* The same kept, by what `dq` or `dk` is times; onto `p` what decays get. */
void channels_own_through_ends(LinearBack *b, int32_t g, bool of_writers, const char *kept)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dx = channels_numbered(b, of_writers ? "db" : "dx", g);
    tile_set(t, dx, "%s * %s", dx, kept);
    if (b->has_rates)
        tile_set(t, "p", "p + f32(%s) * %s",
                 channels_on_axis(b, of_writers ? "writer" : "reader", "q", g), dx);
}

/* Rows M and N of a level, whose token has kept `kept_r` or `kept_w`. */
void channels_own_rows(LinearBack *b, const char *axis, int32_t g, const char *is_read)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *kept = *axis == 'q' ? "kept_r" : "kept_w";
    tile_set(t, *axis == 'q' ? "mixed_r" : "mixed_w", "where(%s, %s, f32(%s)) * %s", is_read,
             channels_on_axis(b, "asked", axis, g), channels_on_axis(b, "key", axis, g), kept);
    tile_set(t, *axis == 'q' ? "other_r" : "other_w", "where(%s, f32(%s), f32(%s)) * %s", is_read,
             channels_on_axis(b, "reader", axis, g), channels_on_axis(b, "writer", axis, g), kept);
}

void channels_own_operands(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, channels_numbered(b, "rows", g), "%s(mixed_w)", b->w.l.x.operand);
    tile_set(t, channels_numbered(b, "others", g), "%s(other_w)", b->w.l.x.operand);
}

/* `kept`, and the rows M and N, of a near level: halves of `near_half` tokens. */
static void near_rows(LinearBack *b, const ChannelsStrip *s, const char *axis, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *border = *axis == 'q' ? "border_r" : "border_w",
               *kept = *axis == 'q' ? "kept_r" : "kept_w",
               *is_read = tile_text(t, "(iota(%s:%d) & near_half) != 0", axis, UNIT);
    tile_load(t, border, "G[((%d + iota(%s:%d) | near_half) & ~(near_half - 1)) - 1, %s]", g * UNIT,
              axis, UNIT, s->channels);
    tile_set(t, kept, "exp2(where(%s, %s - %s, %s - %s))", is_read,
             channels_on_axis(b, "before", axis, g), border, border,
             channels_on_axis(b, "sum", axis, g));
    channels_own_rows(b, axis, g, is_read);
}

/* dM and dN of 16 tokens' own pairs. */
static void near_products(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = b->w.l.x.atom;
    const char *rows = channels_numbered(b, "rows", g), *others = channels_numbered(b, "others", g),
               *first = tile_text(t, "[near * %d + %d +: %d, :]", b->w.l.chunk, g * UNIT, UNIT);
    for (uint32_t n = 0; n < 2; n++) {
        const char *as = n ? " as [kv, q]" : "";
        tile_product(t, "dm", atom, n ? TILE_ADD : TILE_START, rows,
                     tile_text(t, "Near%s%s", first, as));
        tile_product(t, "dm", atom, TILE_ADD, others,
                     tile_text(t, "Near%s%s%s", n ? "Zk" : "Rb", first, as));
        tile_product(t, "dn", atom, n ? TILE_ADD : TILE_START, rows,
                     tile_text(t, "Near%s%s%s", n ? "Rb" : "Zk", first, as));
        tile_product(t, "dn", atom, TILE_ADD, others, tile_text(t, "NearZb%s%s", first, as));
    }
}

/* [of_reader] or [of_writer] of a token gets [what]. */
static void near_gradients(LinearBack *b, int32_t g, const char *what, const char *of_reader,
                           const char *of_writer)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *reader = channels_numbered(b, of_reader, g),
               *writer = channels_numbered(b, of_writer, g),
               *is_read = tile_text(t, "(iota(q:%d) & near_half) != 0", UNIT);
    tile_set(t, "of_level", "kept_r * %s", what);
    tile_set(t, reader, "%s + where(%s, of_level, 0.0)", reader, is_read);
    tile_set(t, writer, "%s + where(%s, 0.0, of_level)", writer, is_read);
}

/* A loop, so that registers have one level's numbers at a time, and one whose turns no compiler knows: written out, additions of a level would
 * move to where its sums are stored, with what they add in registers until then. */
void channels_own_near(LinearBack *b, const ChannelsStrip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "near_half", "1");
    tile_for_range(t, "near", "0", tile_text(t, "%d * min(length, 1)", CHANNELS_NEAR));
    near_rows(b, s, "kv", g);
    channels_own_operands(b, g);
    near_products(b, g);
    near_rows(b, s, "q", g);
    near_gradients(b, g, "dm", "dq", "dk");
    near_gradients(b, g, "dn", "dx", "db");
    if (b->has_rates) {
        tile_set(t, "p", "mixed_r * dm + other_r * dn");
        channels_add_rates(b, g, tile_text(t, "Spans[near * %d +: %d, :]", UNIT, UNIT));
    }
    tile_set(t, "near_half", "2 * near_half");
    tile_end(t);
}

/* Of pairs of group [g] with group [from] of the other half: readers if that is the first one. */
void channels_own_far(LinearBack *b, int32_t g, int32_t from, bool is_first, bool reads)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = b->w.l.x.atom;
    const char *rows = channels_numbered(b, "rows", from),
               *others = channels_numbered(b, "others", from),
               *place =
                   reads ? tile_text(t, "[%s, %s]", channels_tokens(b, g), channels_tokens(b, from))
                         : tile_text(t, "[%s, %s] as [kv, q]", channels_tokens(b, from),
                                     channels_tokens(b, g));
    tile_product(t, "dm", atom, TILE_ADD, others, tile_text(t, "%s%s", reads ? "Rb" : "Zk", place));
    tile_product(t, "dn", atom, is_first ? TILE_START : TILE_ADD, rows,
                 tile_text(t, "%s%s", reads ? "Zk" : "Rb", place));
    tile_product(t, "dn", atom, TILE_ADD, others, tile_text(t, "Zb%s", place));
}

/* What x or b gets of a level of whole groups. */
void channels_own_level(LinearBack *b, int32_t g, int32_t h)
{
    const char *dx = channels_numbered(b, g * UNIT & h ? "dx" : "db", g);
    tile_set(b->w.l.x.t, dx, "%s + kept_r * dn", dx);
}

/* Pairs of tokens with themselves, in which decays have no part: what keys and b get. */
void channels_own_writers(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dk = channels_numbered(b, "dk", g), *db = channels_numbered(b, "db", g),
               *query = channels_on_axis(b, "query", "q", g);
    if (b->w.l.n->before) return;
    tile_load(t, "own_of_token", "Own[%s]", channels_tokens(b, g));
    tile_load(t, "own_of_writer", "OwnB[%s]", channels_tokens(b, g));
    tile_set(t, dk, "%s + own_of_token * f32(%s)", dk, query);
    tile_set(t, db, "%s + own_of_writer * f32(%s)", db, query);
}

/* And, after all other pairs, queries that read behind their token; of those its decay. */
void channels_own_queries(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = channels_numbered(b, "dq", g);
    if (b->w.l.n->before) return;
    if (b->has_rates) {
        tile_set(t, "p", "%s * %s", channels_on_axis(b, "asked", "q", g), dq);
        channels_add_rates(b, g, "Same[:, :]");
    }
    tile_set(t, dq, "%s * exp2(%s - %s) + own_of_token * f32(%s) + own_of_writer * f32(%s)", dq,
             channels_on_axis(b, "sum", "q", g), channels_on_axis(b, "before", "q", g),
             channels_on_axis(b, "key", "q", g), channels_on_axis(b, "writer", "q", g));
}
