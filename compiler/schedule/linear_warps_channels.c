/* linear_warps_channels.c - gradients of decays a channel, without feedback: the kernel `chunks`, which makes of the state S before a chunk, the
 * gradient T of that behind it and the pairs A, all kept by kernels before it, what the rows of the chunk get. Chunks do not wait for each
 * other: a block each.
 *
 * Pairs are split by halves as forward (linear_warps_vector.c): of a level, rows M have queries kept since the second half's start or keys kept
 * until then. R are the gradients of pairs, dO (w V)':
 *
 *     rows of a level get      dM = (R + R') M, each pair of the level once        dq or dk += dM times what was kept
 *     through the chunk's ends dq += e^G (S dO')        dk += w e^(G[end] - G) (T V')
 *     values                   dV = w ((K until) T + A' dO)
 *
 * and the log decay of token t what spans it. With p = M dM, which each pair makes once, it is, of a level, the sum of p over readers u >= t of
 * its half (u > t where a read comes before the write) or over writers s < t of its half; of the ends the same over the chunk; and
 * e^G[end] <S, T>. These sums are products of p, rounded as operands are, with tiles of ones, so that none is the difference of two sums.
 *
 * All of it lies with 16 channels along the rows of products, a warp's, and tokens along their columns, in groups of 16: M is an operand where
 * it is made. The axis of tokens is `kv` of an operand and of gradients of decays, `q` of dM and what comes of it; values on both axes are the
 * same, loaded and made once. */
#include "linear_warps.h"

enum {
    NEAR_LEVELS = 4,
    UNIT = LINEAR_ROWS,
    COLUMNS = 8, /* of an instruction */
    PART = 64    /* value columns of an operand at once */
};

static int32_t groups_of(const LinearBack *b) { return b->w.l.chunk / UNIT; }
static bool is_weighed(const LinearBack *b) { return lin_has(&b->w.l, AU_SLOT_WRITE); }
static bool is_before(const LinearBack *b) { return b->w.l.n->before; }

/* Strips of channels, one after another where they are more than warps. Gradients of keys then lie in memory beside those of queries; else
 * they wait in registers until those have gone through their slots. */
static int32_t strips_of(const LinearBack *b) { return b->w.d / UNIT; }
static bool keeps_both(const LinearBack *b) { return strips_of(b) > b->w.l.x.shape->executors; }

const AuTileAtom *linear_warps_sums_atom(const AuProblem *p)
{
    AuProblem sums = *p;
    sums.operand = TILE_BF16;
    return warps_atom(&sums);
}

/* ---- memories and fragments */

static void ones(LinearBack *b, const char *name, int32_t rows, int32_t columns)
{
    tile_shared(b->w.l.x.t, name, "bf16[u:%d, t:%d] swizzle 32", rows, columns);
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    const int32_t c = l->chunk;
    lw_memories(w);
    warps_tile(&l->x, TILE_NAME("D"), "q", c, "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("T"), "d", w->d, "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("P"), "q", c, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("R"), "q", c, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Near"), "q", NEAR_LEVELS * c, "kv", UNIT, 1);
    tile_shared(l->x.t, "Own", "f32[q:%d]", c);
    tile_shared(l->x.t, "G", "f32[kv:%d, d:%d]", c, w->d + LINEAR_ROW_GAP);
    tile_shared(l->x.t, "Made", "f32[p:%d, kv:%d, d:%d]", 1 + keeps_both(b), c,
                w->d + LINEAR_ROW_GAP);
    if (b->has_rates) {
        ones(b, "Spans", NEAR_LEVELS * UNIT, UNIT);
        ones(b, "Behind", c, c);
        ones(b, "Before", c, c);
    }
    lw_gates_memories(b);
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

static const char *numbered(LinearBack *b, const char *name, int32_t group)
{
    return tile_text(b->w.l.x.t, "%s_%d", name, group);
}

/* Of a group of tokens, on one of the two axes. */
static const char *on_axis(LinearBack *b, const char *name, const char *axis, int32_t group)
{
    return tile_text(b->w.l.x.t, "%s_%s_%d", name, *axis == 'q' ? "r" : "w", group);
}

static void fragments_of_group(LinearBack *b, int32_t g)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    static const char *const axes[] = {"kv", "q"};
    const char *atom = l->x.atom->name;
    for (uint32_t n = 0; n < 2; n++) {
        const char *axis = axes[n];
        tile_frag(t, on_axis(b, "query", axis, g), "%s[d:%d, %s:%d] @ %s.C", l->x.operand, UNIT,
                  axis, UNIT, atom);
        tile_frag(t, on_axis(b, "key", axis, g), "%s[d:%d, %s:%d] @ %s.C", l->x.operand, UNIT, axis,
                  UNIT, atom);
        tile_frag(t, on_axis(b, "sum", axis, g), "f32[d:%d, %s:%d] @ %s.C", UNIT, axis, UNIT, atom);
        if (is_before(b))
            tile_frag(t, on_axis(b, "before", axis, g), "f32[d:%d, %s:%d] @ %s.C", UNIT, axis, UNIT,
                      atom);
    }
    tile_frag(t, numbered(b, "rows", g), "%s[d:%d, kv:%d] @ %s.A", l->x.operand, UNIT, UNIT, atom);
    tile_frag(t, numbered(b, "dq", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
    tile_frag(t, numbered(b, "dk", g), "f32[d:%d, q:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
    if (b->has_rates)
        tile_frag(t, numbered(b, "dg", g), "f32[d:%d, kv:%d] @ %s.C = 0.0", UNIT, UNIT, atom);
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t part = w->e < PART ? w->e : PART;
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C", UNIT, UNIT, atom);
    tile_frag(t, "dm", "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    if (is_weighed(b)) {
        tile_frag(t, "strength_of_pair", "f32[kv:%d] like dscore", UNIT);
        tile_frag(t, "strength_of_key", "f32[q:%d] like dm", UNIT);
    }
    tile_frag(t, "state_part", "%s[d:%d, e:%d] @ %s.A", l->x.operand, UNIT, part, atom);
    tile_frag(t, "dstate_part", "%s[d:%d, e:%d] @ %s.A", l->x.operand, UNIT, part, atom);
    for (int32_t g = 0; g < groups_of(b); g++) fragments_of_group(b, g);
    tile_frag(t, "border_w", "f32[d:%d, kv:%d] @ %s.C", UNIT, UNIT, atom);
    tile_frag(t, "border_r", "f32[d:%d, q:%d] @ %s.C", UNIT, UNIT, atom);
    tile_frag(t, "total_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "total_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "far_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "far_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "near_w", "f32[d:%d] like border_w", UNIT);
    tile_frag(t, "near_r", "f32[d:%d] like border_r", UNIT);
    tile_frag(t, "own_of_token", "f32[q:%d] like border_r", UNIT);
    tile_frag(t, "dvalue", "f32[kv:%d, e:%d] @ %s.C", UNIT, b->value_columns, atom);
    if (is_weighed(b)) tile_frag(t, "strength_of_value", "f32[kv:%d] like dvalue", UNIT);
    tile_frag(t, "row_dx", "f32[d:%d, kv:%d] @ across_d", w->d, lw_slot_rows(w));
    lw_vector_declare_rows(w);
    lw_declare(w);
}

/* ---- tiles of ones: [u, t], does what token u makes count for the log decay of token t? */

static void store_ones(LinearBack *b, const char *condition, const char *to, int32_t rows,
                       int32_t columns)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "u", "iota(u:%d)", rows);
    tile_set(t, "of_t", "iota(t:%d)", columns);
    tile_frag(t, "one", "f32[u:%d, t:%d] @ %s.C = 1.0", rows, columns, b->w.l.x.atom->name);
    tile_store(t, "bf16(where(%s, one, 0.0)) -> %s", condition, to);
}

/* By a warp each, as far as there are warps. */
static void make_ones(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t c = b->w.l.chunk, warps = b->w.l.x.shape->executors;
    const char *behind = is_before(b) ? "u > of_t" : "u >= of_t";
    if (!b->has_rates) return;
    for (int32_t n = 0; n < NEAR_LEVELS; n++) {
        tile_if(t, "self == %d", n % warps);
        store_ones(b,
                   tile_text(t, "u / %d == of_t / %d && where((of_t & %d) != 0, %s, u < of_t)",
                             1 << n, 1 << n, 1 << n, behind),
                   tile_text(t, "Spans[%d +: %d, :]", n * UNIT, UNIT), UNIT, UNIT);
        tile_end(t);
    }
    for (int32_t n = 0; n < 2; n++) {
        tile_if(t, "self == %d", (NEAR_LEVELS + n) % warps);
        store_ones(b, n ? "u < of_t" : behind, n ? "Before" : "Behind", c, c);
        tile_end(t);
    }
}

/* ---- copies */

static void issue_kept(LinearBack *b, const char *token, const char *tensor, const char *tile,
                       int32_t rows)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t share = rows / b->w.l.x.shape->executors;
    warps_issue(&b->w.l.x, TILE_NAME(token),
                tile_part(t, "%s[b, h, place_of_chunk, self * %d +: %d, :]", tensor, share, share),
                tile_part(t, "%s[self * %d +: %d, :]", tile, share, share));
}

static void bring(LinearBack *b)
{
    LinearWarps *w = &b->w;
    lw_issue(w, "chunk", "");
    lw_issue_given(w, "chunk", "");
    issue_kept(b, "tt", "dstates", "T", w->d);
    issue_kept(b, "tp", "kept_pairs", "P", w->l.chunk);
    make_ones(b);
    lw_vector_sums(w);
    lw_wait(w);
    warps_wait(&w->l.x, "td");
    lw_change(w);
    lw_numbers(w);
    warps_wait(&w->l.x, "tt");
    warps_wait(&w->l.x, "tp");
}

/* ---- gradients of pairs, R: 16 readers and 16 writers a warp */

static void near_pairs(LinearBack *b, const char *rows)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "i", "iota(q:%d)", UNIT);
    tile_set(t, "j", "iota(kv:%d)", UNIT);
    for (int32_t n = 0; n < NEAR_LEVELS; n++)
        tile_store(t,
                   "%s(where((i & %d) != 0 && i / %d == j / %d + 1, dscore, 0.0)) -> Near[%d + %s "
                   "+: %d, :]",
                   b->w.l.x.operand, 1 << n, 1 << n, 1 << n, n * b->w.l.chunk, rows, UNIT);
    tile_set(t, "of_own", "reduce_sum(where(i == j, dscore, 0.0), kv)");
    tile_store(t, "of_own -> Own[%s +: %d]", rows, UNIT);
}

static void pairs(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t groups = groups_of(b), warps = w->l.x.shape->executors, all = groups * groups;
    const char *unit = all > warps ? tile_text(t, "(turn_R * %d + self)", warps) : "self",
               *rows = tile_text(t, "%s / %d * %d", unit, groups, UNIT),
               *columns = tile_text(t, "%s %% %d * %d", unit, groups, UNIT);
    if (all > warps)
        tile_for_range(t, "turn_R", "0", tile_text(t, "%d", (all + warps - 1) / warps));
    tile_if(t, "%s < %d && %s %% %d <= %s / %d", unit, all, unit, groups, unit, groups);
    tile_product(t, "dscore", w->l.x.atom, TILE_START, tile_text(t, "D[%s +: %d, :]", rows, UNIT),
                 tile_text(t, "V[%s +: %d, :]", columns, UNIT));
    if (is_weighed(b)) {
        tile_load(t, "strength_of_pair", "W[%s +: %d]", columns, UNIT);
        tile_set(t, "dscore", "dscore * strength_of_pair");
    }
    tile_store(t, "%s(dscore) -> R[%s +: %d, %s +: %d]", w->l.x.operand, rows, UNIT, columns, UNIT);
    tile_if(t, "%s %% %d == %s / %d", unit, groups, unit, groups);
    near_pairs(b, rows);
    tile_end(t);
    tile_end(t);
    if (all > warps) tile_end(t);
}

/* ---- a strip of 16 channels, all tokens */

typedef struct Strip {
    const char *channels; /* "self * 16 +: 16" */
} Strip;

static const char *tokens(LinearBack *b, int32_t group)
{
    return tile_text(b->w.l.x.t, "%d +: %d", group * UNIT, UNIT);
}

static void load_group(LinearBack *b, const Strip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    static const char *const axes[] = {"kv", "q"};
    for (uint32_t n = 0; n < 2; n++) {
        const char *axis = axes[n], *before = on_axis(b, "before", axis, g);
        tile_load(t, on_axis(b, "query", axis, g), "Q[%s, %s] as [%s, d]", tokens(b, g),
                  s->channels, axis);
        tile_load(t, on_axis(b, "key", axis, g), "K[%s, %s] as [%s, d]", tokens(b, g), s->channels,
                  axis);
        tile_load(t, on_axis(b, "sum", axis, g), "G[%s, %s] as [%s, d]", tokens(b, g), s->channels,
                  axis);
        if (!is_before(b)) continue;
        tile_load(t, before, "G[max(%d + iota(%s:%d), 0), %s]", g * UNIT - 1, axis, UNIT,
                  s->channels);
        if (!g) tile_set(t, before, "where(iota(%s:%d) > 0, %s, 0.0)", axis, UNIT, before);
    }
}

/* What a query of the group has of the sums. */
static const char *reads(LinearBack *b, const char *axis, int32_t g)
{
    return on_axis(b, is_before(b) ? "before" : "sum", axis, g);
}

/* As exact as operands are: f16 has three bits more than the sums' bf16. */
static bool rounds_rates(const LinearBack *b) { return b->w.l.x.p->operand == TILE_BF16; }

static void split_rates(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "p_high", "bf16(p)");
    if (!rounds_rates(b)) tile_set(t, "p_low", "bf16(p - f32(p_high))");
}

/* [dg] of group [to] gets what the group's `p` makes by the tile [view] of ones. */
static void add_to_rates(LinearBack *b, int32_t to, const char *view)
{
    AuTileBuild *t = b->w.l.x.t;
    const AuTileAtom *atom = linear_warps_sums_atom(b->w.l.x.p);
    const char *of = tile_text(t, "%s as [q, kv]", view);
    tile_product(t, numbered(b, "dg", to), atom, TILE_ADD, "p_high", of);
    if (!rounds_rates(b)) tile_product(t, numbered(b, "dg", to), atom, TILE_ADD, "p_low", of);
}

static const char *ones_between(LinearBack *b, bool behind, int32_t from, int32_t to)
{
    return tile_text(b->w.l.x.t, "%s[%s, %s]", behind ? "Behind" : "Before", tokens(b, from),
                     tokens(b, to));
}

/* Through the state at one end: readers from the chunk's start, writers until its end. */
static void through_ends(LinearBack *b, int32_t g, bool of_keys)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *sum = of_keys ? tile_text(t, "total_r - %s", on_axis(b, "sum", "q", g))
                              : reads(b, "q", g),
               *dx = numbered(b, of_keys ? "dk" : "dq", g), *strength = "";
    if (of_keys && is_weighed(b)) {
        tile_load(t, "strength_of_key", "W[%s] as [q]", tokens(b, g));
        strength = " * strength_of_key";
    }
    tile_set(t, dx, "%s * exp2(%s)%s", dx, sum, strength);
    if (!b->has_rates) return;
    tile_set(t, "p", "f32(%s) * %s", on_axis(b, of_keys ? "key" : "query", "q", g), dx);
    split_rates(b);
    for (int32_t to = 0; to < groups_of(b); to++)
        if (of_keys ? to >= g : to <= g) add_to_rates(b, to, ones_between(b, !of_keys, g, to));
}

/* S dO' and T V', part of the value columns after part, and <S, T> of each channel. */
static void ends(LinearBack *b, const Strip *s)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t part = w->e < PART ? w->e : PART;
    for (int32_t first = 0; first < w->e; first += part) {
        const char *columns = tile_text(t, "%d +: %d", first, part);
        tile_load(t, "state_part", "states[b, h, place_of_chunk, %s, %s]", s->channels, columns);
        tile_load(t, "dstate_part", "T[%s, %s]", s->channels, columns);
        for (int32_t g = 0; g < groups_of(b); g++) {
            tile_product(t, numbered(b, "dq", g), w->l.x.atom, first ? TILE_ADD : TILE_START,
                         "state_part", tile_text(t, "D[%s, %s]", tokens(b, g), columns));
            tile_product(t, numbered(b, "dk", g), w->l.x.atom, first ? TILE_ADD : TILE_START,
                         "dstate_part", tile_text(t, "V[%s, %s] as [q, e]", tokens(b, g), columns));
        }
        if (!b->has_rates) continue;
        tile_set(t, first ? "passed_part" : "passed",
                 "reduce_sum(f32(state_part) * f32(dstate_part), e)");
        if (first) tile_set(t, "passed", "passed + passed_part");
    }
}

/* `border_w` or `border_r`: the sums where the halves of the level meet, those of each token's own block. Blocks that are as long as an
 * instruction's columns, or longer, have each a number a channel. */
static void load_border(LinearBack *b, const Strip *s, const char *axis, int32_t g, int32_t h)
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
static void make_rows(LinearBack *b, const Strip *s, const char *axis, int32_t g, int32_t h)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *sum = on_axis(b, "sum", axis, g), *query = on_axis(b, "query", axis, g),
               *key = on_axis(b, "key", axis, g), *kept = *axis == 'q' ? "kept_r" : "kept_w",
               *mixed = *axis == 'q' ? "mixed_r" : "mixed_w",
               *border = 2 * h <= COLUMNS ? *axis == 'q' ? "border_r" : "border_w"
                         : *axis == 'q'   ? "far_r"
                                          : "far_w";
    const char *is_read = h >= UNIT ? g * UNIT & h ? "true" : "false"
                                    : tile_text(t, "(iota(%s:%d) & %d) != 0", axis, UNIT, h);
    load_border(b, s, axis, g, h);
    if (is_before(b))
        tile_set(t, kept, "exp2(where(%s, %s - %s, %s - %s))", is_read, reads(b, axis, g), border,
                 border, sum);
    else
        tile_set(t, kept, "exp2(-abs(%s - %s))", sum, border);
    tile_set(t, mixed, "where(%s, f32(%s), f32(%s)) * %s", is_read, query, key, kept);
}

/* dM of a group: of 16 tokens' own pairs, or of those of the other half. */
static void products_of_level(LinearBack *b, int32_t g, int32_t h, int32_t level)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (h < UNIT) {
        const char *near = tile_text(t, "Near[%d +: %d, :]", level * w->l.chunk + g * UNIT, UNIT);
        tile_product(t, "dm", w->l.x.atom, TILE_START, numbered(b, "rows", g), near);
        tile_product(t, "dm", w->l.x.atom, TILE_ADD, numbered(b, "rows", g),
                     tile_text(t, "%s as [kv, q]", near));
        return;
    }
    const int32_t many = h / UNIT, half = g / many, other = half ^ 1;
    for (int32_t n = 0; n < many; n++) {
        const int32_t from = other * many + n;
        tile_product(t, "dm", w->l.x.atom, n ? TILE_ADD : TILE_START, numbered(b, "rows", from),
                     half & 1
                         ? tile_text(t, "R[%s, %s]", tokens(b, g), tokens(b, from))
                         : tile_text(t, "R[%s, %s] as [kv, q]", tokens(b, from), tokens(b, g)));
    }
}

static void rates_of_level(LinearBack *b, int32_t g, int32_t h, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t many = h / UNIT;
    if (!b->has_rates) return;
    tile_set(t, "p", "mixed_r * dm");
    split_rates(b);
    if (h < UNIT) {
        add_to_rates(b, g, tile_text(t, "Spans[%d +: %d, :]", level * UNIT, UNIT));
        return;
    }
    const bool is_reader = (g / many & 1) != 0;
    for (int32_t to = g / many * many; to < (g / many + 1) * many; to++)
        if (is_reader ? to <= g : to >= g) add_to_rates(b, to, ones_between(b, is_reader, g, to));
}

/* What a level of halves of [h] tokens gives to a group. */
static void level_back(LinearBack *b, const Strip *s, int32_t g, int32_t h, int32_t level)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = numbered(b, "dq", g), *dk = numbered(b, "dk", g);
    products_of_level(b, g, h, level);
    make_rows(b, s, "q", g, h);
    if (h < UNIT) {
        const char *is_read = tile_text(t, "(iota(q:%d) & %d) != 0", UNIT, h);
        tile_set(t, "given", "kept_r * dm");
        tile_set(t, dq, "%s + where(%s, given, 0.0)", dq, is_read);
        tile_set(t, dk, "%s + where(%s, 0.0, given)", dk, is_read);
    } else {
        const char *dx = g * UNIT & h ? dq : dk;
        tile_set(t, dx, "%s + kept_r * dm", dx);
    }
    rates_of_level(b, g, h, level);
}

static void make_operand(LinearBack *b, const Strip *s, int32_t g, int32_t h)
{
    make_rows(b, s, "kv", g, h);
    tile_set(b->w.l.x.t, numbered(b, "rows", g), "%s(mixed_w)", b->w.l.x.operand);
}

/* Pairs of tokens of different groups. Level n is of halves of 2^n tokens. */
static void far_levels(LinearBack *b, const Strip *s)
{
    for (int32_t n = linear_warps_levels(b->w.l.chunk) - 1; n >= NEAR_LEVELS; n--) {
        for (int32_t g = 0; g < groups_of(b); g++) make_operand(b, s, g, 1 << n);
        for (int32_t g = 0; g < groups_of(b); g++) level_back(b, s, g, 1 << n, n);
    }
}

/* A token's query with its own key. */
static void own_back(LinearBack *b, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *dq = numbered(b, "dq", g), *dk = numbered(b, "dk", g);
    if (is_before(b)) return;
    tile_load(t, "own_of_token", "Own[%s]", tokens(b, g));
    tile_set(t, dq, "%s + own_of_token * f32(%s)", dq, on_axis(b, "key", "q", g));
    tile_set(t, dk, "%s + own_of_token * f32(%s)", dk, on_axis(b, "query", "q", g));
}

/* A group's own pairs, after all else that it gets; and out with what it has got. */
static void group_back(LinearBack *b, const Strip *s, int32_t g)
{
    AuTileBuild *t = b->w.l.x.t;
    load_group(b, s, g); /* again: registers have one group's at a time */
    own_back(b, g);
    for (int32_t n = 0; n < NEAR_LEVELS; n++) {
        make_operand(b, s, g, 1 << n);
        level_back(b, s, g, 1 << n, n);
    }
    tile_store(t, "%s(f32(%s) * exp2(total_w - %s)) -> K[%s, %s]", b->w.l.x.operand,
               on_axis(b, "key", "kv", g), on_axis(b, "sum", "kv", g), tokens(b, g), s->channels);
    tile_store(t, "%s -> Made[0, %s, %s] as [q, d]", numbered(b, "dq", g), tokens(b, g),
               s->channels);
}

static void strip_back(LinearBack *b, const Strip *s)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t groups = groups_of(b);
    tile_load(t, "total_w", "G[%d, %s]", w->l.chunk - 1, s->channels);
    tile_load(t, "total_r", "G[%d, %s]", w->l.chunk - 1, s->channels);
    for (int32_t g = 0; b->has_rates && g < groups; g++)
        tile_set(t, numbered(b, "dg", g), "fill(%s, 0.0)", numbered(b, "dg", g));
    ends(b, s);
    for (int32_t g = 0; g < groups; g++) {
        load_group(b, s, g);
        through_ends(b, g, false);
        through_ends(b, g, true);
    }
    far_levels(b, s);
    for (int32_t g = 0; g < groups; g++) group_back(b, s, g);
    for (int32_t g = 0; b->has_rates && g < groups; g++)
        tile_store(t, "%s + exp2(total_w) * passed -> G[%s, %s]", numbered(b, "dg", g),
                   tokens(b, g), s->channels);
}

/* ---- a chunk */

/* What stands until lw_end_strip is for a strip of the warp's. */
static Strip begin_strip(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t strips = strips_of(b), warps = b->w.l.x.shape->executors;
    const char *unit = "self";
    if (strips > warps) {
        tile_for_range(t, "turn_S", "0", tile_text(t, "%d", (strips + warps - 1) / warps));
        unit = tile_text(t, "(turn_S * %d + self)", warps);
    }
    if (strips % warps) tile_if(t, "%s < %d", unit, strips);
    return (Strip){tile_text(t, "%s * %d +: %d", unit, UNIT, UNIT)};
}

static void end_strip(LinearBack *b)
{
    const int32_t strips = strips_of(b), warps = b->w.l.x.shape->executors;
    if (strips % warps) tile_end(b->w.l.x.t);
    if (strips > warps) tile_end(b->w.l.x.t);
}

static void store_keys(LinearBack *b, const Strip *s, int32_t to)
{
    AuTileBuild *t = b->w.l.x.t;
    for (int32_t g = 0; g < groups_of(b); g++)
        tile_store(t, "%s -> Made[%d, %s, %s] as [q, d]", numbered(b, "dk", g), to, tokens(b, g),
                   s->channels);
}

static void strips(LinearBack *b)
{
    const Strip s = begin_strip(b);
    strip_back(b, &s);
    if (keeps_both(b)) store_keys(b, &s, 1);
    end_strip(b);
}

static void rows_of_slot(LinearBack *b, AuSlot slot, const char *rows, const char *memory)
{
    tile_load(b->w.l.x.t, "row_dx", "%s%s, 0 +: %d]", memory, rows, b->w.d);
    lw_gradient(b, slot, "row_dx", "row_dx");
}

static void queries_back(LinearBack *b)
{
    const char *rows = lw_begin_rows(b);
    tile_set(b->w.l.x.t, "c_d", "iota(d:%d)", b->w.d);
    rows_of_slot(b, AU_SLOT_Q, rows, "Made[0, ");
    tile_end(b->w.l.x.t);
}

static void keys_back(LinearBack *b)
{
    const char *rows = lw_begin_rows(b);
    rows_of_slot(b, AU_SLOT_K, rows, keeps_both(b) ? "Made[1, " : "Made[0, ");
    if (b->has_rates) rows_of_slot(b, AU_SLOT_LOG_DECAY, rows, "G[");
    lw_gates_back(b);
    tile_end(b->w.l.x.t);
}

/* Of values, 16 rows and some columns a warp. */
static void values_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    b->rows = 0;
    b->part.rows = tile_text(t, "first + %s +: %d", lw_row(w), UNIT);
    tile_if(t, "self < %d", w->l.x.shape->executors); /* whose tokens are its own */
    tile_set(t, "t", "first + %s + iota(kv:%d)", lw_row(w), UNIT);
    tile_set(t, "c", "%s + iota(e:%d)", lw_value_column(b), b->value_columns);
    lw_values_back(b);
    tile_end(t);
}

static void chunk(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    lw_place_of_states(&b->w, "place_of_chunk", "chunk");
    bring(b);
    tile_sync(t, "all");
    pairs(b);
    tile_sync(t, "all");
    strips(b);
    tile_sync(t, "all");
    values_back(b);
    queries_back(b);
    if (!keeps_both(b)) {
        tile_sync(t, "all");
        const Strip s = begin_strip(b);
        store_keys(b, &s, 0);
        end_strip(b);
    }
    tile_sync(t, "all");
    keys_back(b);
}

void lw_channels_kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_back_arguments(l, "chunks", false);
    lw_states_argument(w, TILE_IN);
    lw_kept_argument(w, "dstates", TILE_IN, false);
    lw_pairs_argument(w, TILE_IN);
    lw_numbers_argument(w, TILE_IN);
    lw_chunks_grid(w);
    if (b->blocks > 1) tile_resident(t, b->blocks);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    tile_set(t, "vb", "0");
    fragments(b);
    b->part = (LinearPart){NULL, tile_text(t, "0 +: %d", w->d),
                           tile_text(t, "%s +: %d", lw_value_column(b), b->value_columns)};
    l->of_warps = &b->part;
    lw_begin_chunk(w);
    chunk(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}
