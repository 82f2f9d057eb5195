/* linear_warps_channels_levels.c - gradients of decays a channel: what a level of pairs gives to a group of 16 tokens, of 16 channels of keys
 * (linear_warps_channels_strip.c). */
#include "linear_warps_channels.h"

enum { UNIT = CHANNELS_UNIT, COLUMNS = 8 /* of an instruction */ };

/* `border_w` or `border_r`: the sums where the halves of the level meet, those of each token's own block. Blocks that are as long as an
 * instruction's columns, or longer, have each a number a channel. */
static void load_border(LinearBack *b, const ChannelsStrip *s, const char *axis, int32_t g,
                        int32_t h)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *to = *axis == 'q' ? "border_r" : "border_w",
               *far = *axis == 'q' ? "far_r" : "far_w", *near = *axis == 'q' ? "near_r" : "near_w";
    if (2 * h < COLUMNS)
        tile_load(t, to, "G[((%d + iota(%s:%d)) / %d | 1) * %d - 1, %s]", g * UNIT, axis, UNIT, h,
                  h, s->channels);
    else
        tile_load(t, far, "G[%d, %s]", (g * UNIT / h | 1) * h - 1, s->channels);
    if (2 * h != COLUMNS) return;
    tile_load(t, near, "G[%d, %s]", g * UNIT + COLUMNS + h - 1, s->channels);
    tile_set(t, to, "where(iota(%s:%d) < %d, %s, %s)", axis, UNIT, COLUMNS, far, near);
}

/* `kept` and `mixed` on the axis: what a row of the level has of its query or key, and the row. Sums never grow, so that what a query that
 * reads after its token has kept since the border, and a key until then, are of one form. */
static void make_rows(LinearBack *b, const ChannelsStrip *s, const char *axis, int32_t g, int32_t h)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *sum = channels_on_axis(b, "sum", axis, g),
               *kept = *axis == 'q' ? "kept_r" : "kept_w",
               *mixed = *axis == 'q' ? "mixed_r" : "mixed_w",
               *border = 2 * h <= COLUMNS ? *axis == 'q' ? "border_r" : "border_w"
                         : *axis == 'q'   ? "far_r"
                                          : "far_w";
    const char *is_read = h >= UNIT ? g * UNIT & h ? "true" : "false"
                                    : tile_text(t, "(iota(%s:%d) & %d) != 0", axis, UNIT, h);
    load_border(b, s, axis, g, h);
    if (channels_is_before(b))
        tile_set(t, kept, "exp2(where(%s, %s - %s, %s - %s))", is_read, channels_reads(b, axis, g),
                 border, border, sum);
    else
        tile_set(t, kept, "exp2(-abs(%s - %s))", sum, border);
    if (b->is_own) {
        channels_own_rows(b, axis, g, is_read);
        return;
    }
    tile_set(t, mixed, "where(%s, %s, %s) * %s", is_read, channels_row(b, "query", axis, g),
             channels_row(b, "key", axis, g), kept);
}

/* With keys as readers: dN of a group, and what its writers get. */
static void near_keys(LinearBack *b, int32_t g, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = b->w.l.x.atom;
    const char *keys = channels_numbered(b, "keys", g),
               *near = tile_text(t, "NearZ[%d +: %d, :]", level * b->w.l.chunk + g * UNIT, UNIT);
    tile_product(t, "dm", atom, TILE_ADD, keys, tile_text(t, "%s as [kv, q]", near));
    tile_product(t, "dn", atom, TILE_START, keys, near);
}

/* dM of a group: of 16 tokens' own pairs, or of those of the other half. */
static void products_of_level(LinearBack *b, int32_t g, int32_t h, int32_t level)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (h < UNIT) {
        const char *near = tile_text(t, "Near[%d +: %d, :]", level * w->l.chunk + g * UNIT, UNIT);
        tile_product(t, "dm", w->l.x.atom, TILE_START, channels_numbered(b, "rows", g), near);
        tile_product(t, "dm", w->l.x.atom, TILE_ADD, channels_numbered(b, "rows", g),
                     tile_text(t, "%s as [kv, q]", near));
        if (b->is_fed) near_keys(b, g, level);
        return;
    }
    const int32_t many = h / UNIT, half = g / many, other = half ^ 1;
    for (int32_t n = 0; n < many; n++) {
        const int32_t from = other * many + n;
        tile_product(
            t, "dm", w->l.x.atom, n ? TILE_ADD : TILE_START, channels_numbered(b, "rows", from),
            half & 1 ? tile_text(t, "R[%s, %s]", channels_tokens(b, g), channels_tokens(b, from))
                     : tile_text(t, "R[%s, %s] as [kv, q]", channels_tokens(b, from),
                                 channels_tokens(b, g)));
        if (b->is_own) channels_own_far(b, g, from, n == 0, half & 1);
        if (!b->is_fed) continue;
        if (half & 1)
            tile_product(
                t, "dn", w->l.x.atom, n ? TILE_ADD : TILE_START, channels_numbered(b, "rows", from),
                tile_text(t, "Z[%s, %s]", channels_tokens(b, g), channels_tokens(b, from)));
        else
            tile_product(t, "dm", w->l.x.atom, TILE_ADD, channels_numbered(b, "keys", from),
                         tile_text(t, "Z[%s, %s] as [kv, q]", channels_tokens(b, from),
                                   channels_tokens(b, g)));
    }
}

/* Are there keys that read among the group's tokens? */
static bool has_readers(const LinearBack *b, int32_t g, int32_t h)
{
    return b->is_fed && (h < UNIT || (g * UNIT & h));
}

static void rates_of_level(LinearBack *b, int32_t g, int32_t h, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t many = h / UNIT;
    if (!b->has_rates) return;
    tile_set(t, "p", "mixed_r * dm%s", b->is_own ? " + other_r * dn" : "");
    if (has_readers(b, g, h))
        tile_set(t, "p", "p + f32(%s) * of_key", channels_on_axis(b, "key", "q", g));
    channels_split_rates(b);
    if (h < UNIT) {
        channels_add_to_rates(b, g, tile_text(t, "Spans[%d +: %d, :]", level * UNIT, UNIT));
        return;
    }
    const bool is_reader = (g / many & 1) != 0;
    for (int32_t to = g / many * many; to < (g / many + 1) * many; to++)
        if (is_reader ? to <= g : to >= g)
            channels_add_to_rates(b, to, channels_ones_between(b, is_reader, g, to));
}

/* What a level of halves of [h] tokens gives to a group. */
void channels_level_back(LinearBack *b, const ChannelsStrip *s, int32_t g, int32_t h, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = channels_numbered(b, "dq", g), *dk = channels_numbered(b, "dk", g);
    products_of_level(b, g, h, level);
    make_rows(b, s, "q", g, h);
    if (h < UNIT) {
        const char *is_read = tile_text(t, "(iota(q:%d) & %d) != 0", UNIT, h);
        tile_set(t, "of_level", "kept_r * dm");
        tile_set(t, dq, "%s + where(%s, of_level, 0.0)", dq, is_read);
        tile_set(t, dk, "%s + where(%s, 0.0, of_level)", dk, is_read);
    } else {
        const char *dx = g * UNIT & h ? dq : dk;
        tile_set(t, dx, "%s + kept_r * dm", dx);
    }
    if (has_readers(b, g, h)) {
        tile_set(t, "of_key", "kept_r * dn");
        tile_set(t, dk, "%s + of_key", dk);
    }
    if (b->is_own) channels_own_level(b, g, h);
    rates_of_level(b, g, h, level);
}

void channels_make_operand(LinearBack *b, const ChannelsStrip *s, int32_t g, int32_t h)
{
    make_rows(b, s, "kv", g, h);
    if (b->is_own) {
        channels_own_operands(b, g);
        return;
    }
    tile_set(b->w.l.x.t, channels_numbered(b, "rows", g), "%s(mixed_w)", b->w.l.x.operand);
    if (has_readers(b, g, h))
        tile_set(b->w.l.x.t, channels_numbered(b, "keys", g), "%s(f32(%s) * kept_w)",
                 b->w.l.x.operand, channels_on_axis(b, "key", "kv", g));
}
