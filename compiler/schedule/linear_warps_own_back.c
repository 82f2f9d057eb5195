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

/* dM and dN of 16 tokens' own pairs, [level] of them. */
void channels_own_near(LinearBack *b, int32_t g, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = b->w.l.x.atom;
    const char *rows = channels_numbered(b, "rows", g), *others = channels_numbered(b, "others", g),
               *first = tile_text(t, "[%d +: %d, :]", level * b->w.l.chunk + g * UNIT, UNIT);
    tile_product(t, "dm", atom, TILE_ADD, others, tile_text(t, "NearRb%s", first));
    tile_product(t, "dm", atom, TILE_ADD, others, tile_text(t, "NearZk%s as [kv, q]", first));
    tile_product(t, "dn", atom, TILE_START, rows, tile_text(t, "NearZk%s", first));
    tile_product(t, "dn", atom, TILE_ADD, rows, tile_text(t, "NearRb%s as [kv, q]", first));
    tile_product(t, "dn", atom, TILE_ADD, others, tile_text(t, "NearZb%s", first));
    tile_product(t, "dn", atom, TILE_ADD, others, tile_text(t, "NearZb%s as [kv, q]", first));
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

/* What x and b get of a level. */
void channels_own_level(LinearBack *b, int32_t g, int32_t h)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dx = channels_numbered(b, "dx", g), *db = channels_numbered(b, "db", g);
    if (h >= UNIT) {
        const char *one = g * UNIT & h ? dx : db;
        tile_set(t, one, "%s + kept_r * dn", one);
        return;
    }
    tile_set(t, "of_other", "kept_r * dn");
    tile_set(t, dx, "%s + where((iota(q:%d) & %d) != 0, of_other, 0.0)", dx, UNIT, h);
    tile_set(t, db, "%s + where((iota(q:%d) & %d) != 0, 0.0, of_other)", db, UNIT, h);
}

/* Queries that read behind their token: its decay, and the token's own pairs, which have no part in it. */
void channels_own_token(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = channels_numbered(b, "dq", g), *dk = channels_numbered(b, "dk", g),
               *db = channels_numbered(b, "db", g), *query = channels_on_axis(b, "query", "q", g);
    if (b->w.l.n->before) return;
    if (b->has_rates) {
        tile_set(t, "p", "%s * %s", channels_on_axis(b, "asked", "q", g), dq);
        channels_add_rates(b, g, "Same[:, :]");
    }
    tile_load(t, "own_of_token", "Own[%s]", channels_tokens(b, g));
    tile_load(t, "own_of_writer", "OwnB[%s]", channels_tokens(b, g));
    tile_set(t, dq, "%s * exp2(%s - %s) + own_of_token * f32(%s) + own_of_writer * f32(%s)", dq,
             channels_on_axis(b, "sum", "q", g), channels_on_axis(b, "before", "q", g),
             channels_on_axis(b, "key", "q", g), channels_on_axis(b, "writer", "q", g));
    tile_set(t, dk, "%s + own_of_token * f32(%s)", dk, query);
    tile_set(t, db, "%s + own_of_writer * f32(%s)", db, query);
}
