/* linear_warps_vector.c - decays a channel by `linear_warps`. Pairs of tokens are split by halves: a block of 2 h tokens has pairs of a writer
 * in its first half and a reader in its second one, which are one product of keys kept until the second half's start and queries kept since
 * then, both exponents at most 0. h = C / 2, C / 4, .. 1 has each pair of different tokens once. A token is reader or writer of each h,
 * never both, so that a tile a level has them all:
 *
 *     M_h[t] = q_t e^(L[t + 1] - L[start of the second half])   or   k_t e^(L[start of the second half] - L[t + 1])
 *
 * With feedback `key` keys are readers, too: tiles N_h have keys in both halves.
 *
 * L are running sums of the log decay in the chunk, in units of log 2. The pair of a token with itself is a sum in f32. Q and K become what
 * products with the state take: queries kept since the chunk's start, keys until its end. */
#include "linear_warps.h"

enum { ROWS_AT_ONCE = 4 };

bool lw_is_own(const LinearWarps *w) { return w->l.n->feedback == AU_FEEDBACK_OWN; }

bool lw_is_fed(const LinearWarps *w) { return w->l.n->feedback != AU_FEEDBACK_NONE; }

static bool is_fed_back(const LinearWarps *w) { return lin_is_fed(&w->l); }

/* Strengths of writers are in what is written where it is fed back, and belong to gradients of values where pairs are made for them. */
static bool weighs_pairs(const LinearWarps *w)
{
    return lin_has(&w->l, AU_SLOT_WRITE) && !is_fed_back(w) && !w->without_strengths;
}

AuDecayClass lw_decay(const LinearWarps *w)
{
    return lw_is_own(w) ? AU_DECAY_VECTOR : w->l.n->decay;
}

bool lw_by_channel(const LinearWarps *w) { return lw_decay(w) == AU_DECAY_VECTOR; }

int32_t linear_warps_levels(int32_t tokens)
{
    int32_t levels = 0;
    while (tokens > 1) tokens /= 2, levels++;
    return levels;
}

void lw_vector_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (w->has_decayed) return;
    tile_shared(t, "G", "f32[kv:%d, d:%d]", l->chunk, w->d);
    if (!lw_has_output(w) && !lw_is_own(w)) return;
    tile_shared(t, "Own", "f32[q:%d]", l->chunk);
    warps_tile(&l->x, TILE_NAME("M"), "kv", l->chunk, "d", w->d, linear_warps_levels(l->chunk));
    if (!lw_is_fed(w) || lw_in_turn(w)) return;
    warps_tile(&l->x, TILE_NAME("N"), "kv", l->chunk, "d", w->d, linear_warps_levels(l->chunk));
    if (lw_is_own(w))
        lw_own_memories(w);
    else
        warps_tile(&l->x, TILE_NAME("Ks"), "kv", l->chunk, "d", w->d, 1);
}

/* What a query has of the sums. */
static const char *reads(const LinearWarps *w) { return w->l.n->before ? "row_before" : "row_sum"; }

int32_t lw_vector_rows(const LinearWarps *w)
{
    const int32_t most = lw_is_own(w) ? linear_warps_rows_of_own(w->d) : ROWS_AT_ONCE;
    return w->share < most ? w->share : most;
}

void lw_vector_layouts(LinearWarps *w)
{
    const int32_t half = LINEAR_ROWS, others = w->l.x.p->caps->lanes / half;
    tile_layout(w->l.x.t, "down_tokens", tile_text(w->l.x.t, "lane:%d@1", half),
                tile_text(w->l.x.t, "reg:%d lane:%d@%d", w->l.chunk / others, others, half));
}

/* The pairs of a half of [h] tokens with the half before. */
static const char *far_pairs(LinearWarps *w, int32_t h)
{
    return tile_text(w->l.x.t, "pairs_%d", h);
}

/* Log decays, and rows of the chunk while they are made what products take. */
void lw_vector_declare_rows(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_LOG_DECAY];
    const int32_t rows = lw_vector_rows(w), units = LINEAR_ROWS;
    tile_frag(t, "raw_G", "%s[d:%d, kv:%d] @ down_tokens%s",
              s->held.i ? lin_elem(l, s->held) : "f32", units, l->chunk, s->held.i ? "" : " = 0.0");
    tile_frag(t, "row_q", "%s[d:%d, kv:%d] @ across_d", l->x.operand, w->d, rows);
    tile_frag(t, "row_k", "%s[d:%d, kv:%d] @ across_d", l->x.operand, w->d, rows);
    tile_frag(t, "row_sum", "f32[d:%d, kv:%d] @ across_d", w->d, rows);
    tile_frag(t, "row_border", "f32[d:%d, kv:%d] @ across_d", w->d, rows);
    tile_frag(t, "row_total", "f32[d:%d] like row_sum", w->d);
    if (w->makes_pairs) tile_frag(t, "row_strength", "f32[kv:%d] like row_sum", rows);
    if (l->n->before || lw_is_own(w))
        tile_frag(t, "row_before", "f32[d:%d, kv:%d] @ across_d", w->d, rows);
    if (lin_has(l, AU_SLOT_BONUS)) {
        const AuExpr held = l->slots[AU_SLOT_BONUS].held;
        tile_frag(t, "raw_bonus", "%s[d:%d, kv:%d] @ across_d%s",
                  held.i ? lin_elem(l, held) : "f32", w->d, rows, held.i ? "" : " = 0.0");
    }
}

void lw_vector_declare_pairs(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t units = LINEAR_ROWS;
    tile_frag(t, "pairs", "f32[q:%d, kv:%d] @ %s.C = 0.0", units, units, l->x.atom->name);
    tile_frag(t, "level", "f32[q:%d, kv:%d] @ %s.C", units, units, l->x.atom->name);
    tile_frag(t, "own", "f32[q:%d] like pairs", units);
    if (l->has_norm) tile_frag(t, "sum_near", "f32[q:%d] like pairs = 0.0", units);
    for (int32_t h = units; h < l->chunk; h *= 2)
        tile_frag(t, far_pairs(w, h), "f32[q:%d, kv:%d] @ %s.C = 0.0", units, h, l->x.atom->name);
    if (weighs_pairs(w)) {
        tile_frag(t, "of_pairs", "f32[kv:%d] like pairs", units);
        for (int32_t h = units; h < l->chunk; h *= 2)
            tile_frag(t, tile_text(t, "of_%s", far_pairs(w, h)), "f32[kv:%d] like %s", h,
                      far_pairs(w, h));
    }
    tile_frag(t, "no_pairs", "f32[q:%d, kv:%d] @ %s.C = 0.0", units, l->chunk, l->x.atom->name);
    if (lw_is_own(w)) {
        lw_own_declare(w);
        return;
    }
    if (lw_shares_pairs(w)) lw_begin_sharers(w);
    tile_store(t, "%s(no_pairs) -> P[%s, :]", l->x.operand, lw_pair_rows(w));
    if (lw_shares_pairs(w)) tile_end(t);
}

void lw_vector_declare(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    if (!w->has_decayed) lw_vector_declare_rows(w);
    tile_frag(t, "whole", "f32[d:%d] like state", w->channels);
    if (w->l.has_norm) tile_frag(t, "whole_of_key", "f32[d:%d] like key", w->channels);
    if ((lw_has_output(w) || lw_is_own(w)) && !w->has_decayed) lw_vector_declare_pairs(w);
}

/* Where the forward inverts, others than those that invert: a norm's sums of pairs would stay with them. Where nothing else is made.
 * Those of feedback `own`, of which there are more, before M, which takes their factors' place. */
bool lw_shares_pairs(const LinearWarps *w)
{
    return w->makes_pairs || lw_is_own(w) ||
           (lw_inverts(w) && !w->l.has_norm && w->l.x.shape->executors >= 2 * w->row_groups);
}

void lw_begin_sharers(LinearWarps *w) { tile_if(w->l.x.t, "self / %d == 1", w->row_groups); }

const char *lw_pair_rows(LinearWarps *w)
{
    return tile_text(w->l.x.t, "%s +: %d",
                     lw_shares_pairs(w) ? lw_row(w) : tile_text(w->l.x.t, "self * %d", LINEAR_ROWS),
                     LINEAR_ROWS);
}

/* The running sums of some channels, for all tokens. */
static void sum_channels(LinearWarps *w, const char *channels)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_LOG_DECAY];
    const char *first = tile_text(t, "%s * %d", channels, LINEAR_ROWS),
               *span = tile_text(t, "%s +: %d", first, LINEAR_ROWS),
               *channel = tile_text(t, "%s + iota(d:%d)", first, LINEAR_ROWS);
    if (s->held.i)
        tile_load(t, "raw_G", "%s pad 0",
                  lin_view(l, s->held, "kv", "d", span, tile_text(t, "first +: %d", l->chunk)));
    if (l->n->decay == AU_DECAY_CONSTANT)
        tile_set(t, "log_decay", "fill(raw_G, rate)");
    else if (s->name)
        tile_set(t, "log_decay", "%s(f32(raw_G), b, h, first + iota(kv:%d), %s)", s->name, l->chunk,
                 channel);
    else
        tile_set(t, "log_decay", "f32(raw_G)"); /* without a decay 0 */
    if (l->n->decay == AU_DECAY_VECTOR || l->n->decay == AU_DECAY_SCALAR)
        tile_set(t, "log_decay", "%s", lin_floored(l, "log_decay"));
    tile_set(t, "log_decay",
             "where(first + iota(kv:%d) < end%s, log_decay * 1.4426950408889634, 0.0)", l->chunk,
             w->d > l->x.p->d ? tile_text(t, " && %s < %d", channel, l->x.p->d) : "");
    tile_set(t, "sums_of_g", "cumsum(log_decay, kv)");
    tile_store(t, "sums_of_g -> G[:, %s]", span);
}

void lw_vector_sums(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t warps = w->l.x.shape->executors, units = w->d / LINEAR_ROWS,
                  turns = (units + warps - 1) / warps;
    const char *mine = turns > 1 ? tile_text(t, "(turn * %d + self)", warps) : "self";
    const bool some = units % warps != 0;
    if (turns > 1) tile_for_range(t, "turn", "0", tile_text(t, "%d", turns));
    if (some) tile_if(t, "%s < %d", mine, units);
    sum_channels(w, mine);
    if (some) tile_end(t);
    if (turns > 1) tile_end(t);
}

/* The query's own key, or what a bonus says. */
void lw_vector_own_pairs(LinearWarps *w, const char *rows, const char *reader, const char *writer,
                         const char *memory)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_BONUS];
    const char *bonus = "";
    if (lin_has(l, AU_SLOT_BONUS)) {
        if (s->held.i)
            tile_load(t, "raw_bonus", "%s pad 0",
                      lin_view(l, s->held, "kv", "d",
                               lin_columns(l, s->held, NULL, w->d == l->x.p->d ? 0 : w->d),
                               tile_text(t, "first + %s", rows)));
        if (s->name)
            tile_set(t, "bonus", "%s(f32(raw_bonus), b, h, first + place, iota(d:%d))", s->name,
                     w->d);
        else
            tile_set(t, "bonus", "f32(raw_bonus)");
        if (w->d > l->x.p->d)
            tile_set(t, "bonus", "where(iota(d:%d) < %d, bonus, 0.0)", w->d, l->x.p->d);
        tile_set(t, "bonus", "where(first + place < end, bonus, 0.0)");
        bonus = " * bonus";
    }
    tile_set(t, "own_pair", "reduce_sum(f32(%s) * f32(%s)%s, d)", reader, writer, bonus);
    tile_store(t, "own_pair -> %s[%s] as [kv]", memory, rows);
}

/* Rows of a level: those of M, and of N. */
static void make_level(LinearWarps *w, const char *rows, int32_t level, int32_t h)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_load(t, "row_border", "G[(place / %d | 1) * %d - 1, :]", h, h);
    tile_set(t, "kept_row", "exp2(where((place & %d) != 0, %s - row_border, row_border - row_sum))",
             h, reads(w));
    tile_set(t, "mixed", "where((place & %d) != 0, f32(row_q), f32(row_k)) * kept_row", h);
    tile_store(t, "%s(mixed) -> M[%d, %s, :]", l->x.operand, level, rows);
    if (!is_fed_back(w) || lw_in_turn(w)) return;
    if (l->n->before)
        tile_set(t, "kept_row",
                 "exp2(where((place & %d) != 0, row_sum - row_border, row_border - row_sum))", h);
    tile_store(t, "%s(f32(row_k) * kept_row) -> N[%d, %s, :]", l->x.operand, level, rows);
}

bool lw_in_turn(const LinearWarps *w) { return w->makes_pairs && is_fed_back(w); }

/* Rows of N, where those of M were. */
void lw_vector_make_keys(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t rows = lw_vector_rows(w);
    const char *mine = tile_text(t, "self * %d + part_N * %d +: %d", w->share, rows, rows);
    tile_for_range(t, "part_N", "0", tile_text(t, "%d", w->share / rows));
    tile_set(t, "place", "self * %d + part_N * %d + iota(kv:%d)", w->share, rows, rows);
    tile_load(t, "row_k", "K[%s, :]", mine);
    tile_load(t, "row_sum", "G[%s, :]", mine);
    for (int32_t h = w->l.chunk / 2, level = 0; h; h /= 2, level++) {
        tile_load(t, "row_border", "G[(place / %d | 1) * %d - 1, :]", h, h);
        tile_store(t, "%s(f32(row_k) * exp2(-abs(row_sum - row_border))) -> M[%d, %s, :]",
                   w->l.x.operand, level, mine);
    }
    tile_end(t);
}

/* What the state takes of the keys. */
static void keep_keys(LinearWarps *w, const char *rows)
{
    tile_store(w->l.x.t, "%s(f32(row_k) * exp2(row_total - row_sum)) -> K[%s%s, :]", w->l.x.operand,
               warps_stage(&w->l.x, false), rows);
}

/* What queries have of it. */
static void keep_queries(LinearWarps *w, const char *rows)
{
    tile_store(w->l.x.t, "%s(f32(row_q) * exp2(%s)) -> Q[%s%s, :] as [kv, d]", w->l.x.operand,
               reads(w), warps_stage(&w->l.x, false), rows);
}

void lw_vector_load_before(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_load(t, "row_before", "G[max(place - 1, 0), :]");
    tile_set(t, "row_before", "where(place > 0, row_before, 0.0)");
}

/* Where there is no output. */
static void make_keys(LinearWarps *w, const char *rows)
{
    AuTileBuild *t = w->l.x.t;
    tile_load(t, "row_k", "K[%s%s, :]", warps_stage(&w->l.x, false), rows);
    tile_load(t, "row_sum", "G[%s, :]", rows);
    tile_load(t, "row_total", "G[%d, :]", w->l.chunk - 1);
    keep_keys(w, rows);
    tile_end(t);
}

/* What chains take, in the workspace: keys with the strengths of what is written, rounded once; with feedback keys as readers, too. */
static void make_decayed(LinearWarps *w, const char *rows)
{
    AuTileBuild *t = w->l.x.t;
    const char *strength = "";
    if (is_fed_back(w))
        tile_store(t, "%s(f32(row_k) * exp2(row_sum)) -> readers[b, h, place_of_pairs, %s, :]",
                   w->l.x.operand, rows);
    else if (lin_has(&w->l, AU_SLOT_WRITE)) {
        tile_load(t, "row_strength", "W[%s]", rows);
        strength = " * row_strength";
    }
    tile_store(t, "%s(f32(row_q) * exp2(%s)) -> queries[b, h, place_of_pairs, %s, :] as [kv, d]",
               w->l.x.operand, reads(w), rows);
    tile_store(t,
               "%s(f32(row_k) * exp2(row_total - row_sum)%s) -> keys[b, h, place_of_pairs, %s, :]",
               w->l.x.operand, strength, rows);
}

/* Of the executor's rows of the chunk. */
void lw_vector_make(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (lw_is_own(w)) {
        lw_own_make(w);
        return;
    }
    const int32_t rows = lw_vector_rows(w);
    const char *stage = warps_stage(&l->x, false),
               *mine = tile_text(t, "self * %d + part_M * %d +: %d", w->share, rows, rows);
    tile_for_range(t, "part_M", "0", tile_text(t, "%d", w->share / rows));
    if (!lw_has_output(w)) {
        make_keys(w, mine);
        return;
    }
    tile_set(t, "place", "self * %d + part_M * %d + iota(kv:%d)", w->share, rows, rows);
    tile_load(t, "row_q", "Q[%s%s, :] as [kv, d]", stage, mine);
    tile_load(t, "row_k", "K[%s%s, :]", stage, mine);
    tile_load(t, "row_sum", "G[%s, :]", mine);
    if (l->n->before) lw_vector_load_before(w);
    if (!l->n->before || lin_has(l, AU_SLOT_BONUS))
        lw_vector_own_pairs(w, mine, "row_q", "row_k", "Own");
    for (int32_t h = l->chunk / 2, level = 0; h; h /= 2, level++) make_level(w, mine, level, h);
    tile_load(t, "row_total", "G[%d, :]", l->chunk - 1);
    if (w->makes_pairs)
        make_decayed(w, mine);
    else {
        keep_queries(w, mine);
        if (is_fed_back(w))
            tile_store(t, "%s(f32(row_k) * exp2(row_sum)) -> Ks[%s, :]", l->x.operand, mine);
        keep_keys(w, mine);
    }
    tile_end(t);
}

/* ---- pairs of the executor's rows: of queries with keys into its rows of P, or of keys with keys to where feedback takes them */

static void keep_pairs(LinearWarps *w, const LinearPairs *of, const char *pairs,
                       const char *columns, bool near)
{
    AuTileBuild *t = w->l.x.t;
    if (!of->memory) {
        if (w->keeps_key_pairs)
            tile_store(t, "%s(%s) -> key_pairs[b, h, place_of_pairs, %s +: %d, %s]", w->l.x.operand,
                       pairs, lw_row(w), LINEAR_ROWS, columns);
        if (is_fed_back(w)) tile_set(t, pairs, "-erase * %s", pairs);
        lw_key_keep_pairs(w, pairs, columns, near);
        return;
    }
    if (w->l.has_norm) tile_set(t, "sum_near", "sum_near + reduce_sum(%s, kv)", pairs);
    tile_store(t, "%s(%s) -> %s[%s, %s]", w->l.x.operand, pairs, of->memory, lw_pair_rows(w),
               columns);
}

static void add_strengths(LinearWarps *w, const char *pairs, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    if (!weighs_pairs(w)) return;
    tile_load(t, tile_text(t, "of_%s", pairs), "W[%s]", columns);
    tile_set(t, pairs, "%s * of_%s", pairs, pairs);
}

/* Of tokens of the executor's own 16. */
static void near_pairs(LinearWarps *w, const LinearPairs *of)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool bonus = lin_has(l, AU_SLOT_BONUS) && of->own, own = !l->n->before && of->own;
    const char *rows = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS),
               *same = "where(iota(q:16) == iota(kv:16), own, pairs)";
    int32_t level = linear_warps_levels(l->chunk) - 1;
    tile_set(t, "pairs", "fill(pairs, 0.0)");
    for (int32_t h = 1; h < LINEAR_ROWS; h *= 2, level--) {
        tile_product(t, "level", l->x.atom, TILE_START,
                     tile_text(t, "%s[%d, %s, :] as [q, d]", of->readers, level, rows),
                     tile_text(t, "%s[%d, %s, :]", of->writers, level, rows));
        tile_set(t, "pairs",
                 "where((iota(q:16) & %d) != 0 && iota(q:16) / %d == iota(kv:16) / %d + 1, "
                 "level, pairs)",
                 h, h, h);
    }
    if (own || bonus) tile_load(t, "own", "%s[%s]", of->own, rows);
    if (own) tile_set(t, "pairs", "%s", same);
    if (of->of_keys) add_strengths(w, "pairs", rows);
    if (bonus) tile_set(t, "pairs", "%s", same);
    keep_pairs(w, of, "pairs", rows, true);
}

/* Of the halves that begin with the executor's rows or before them, and the halves before those. */
void lw_vector_pairs(LinearWarps *w, const LinearPairs *of)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *group = w->row_groups == 1 ? "0" : tile_text(t, "(self %% %d)", w->row_groups);
    near_pairs(w, of);
    for (int32_t h = l->chunk / 2, level = 0; h >= LINEAR_ROWS; h /= 2, level++) {
        const char *pairs = far_pairs(w, h), *columns = tile_text(t, "(%s / %d - 1) * %d +: %d",
                                                                  group, h / LINEAR_ROWS, h, h);
        tile_if(t, "(%s & %d) != 0", group, h / LINEAR_ROWS);
        tile_product(t, pairs, l->x.atom, TILE_START,
                     tile_text(t, "%s[%d, %s +: %d, :] as [q, d]", of->readers, level, lw_row(w),
                               LINEAR_ROWS),
                     tile_text(t, "%s[%d, %s, :]", of->writers, level, columns));
        if (of->of_keys) add_strengths(w, pairs, columns);
        keep_pairs(w, of, pairs, columns, false);
        tile_end(t);
    }
}

void lw_vector_weights(LinearWarps *w)
{
    if (w->l.has_norm) tile_set(w->l.x.t, "sum_near", "fill(sum_near, 0.0)");
    lw_vector_pairs(w, &(LinearPairs){"M", "M", "P", "Own", true});
}

void lw_vector_key_pairs(LinearWarps *w)
{
    const char *tile = lw_in_turn(w) ? "M" : "N";
    lw_vector_pairs(w, &(LinearPairs){tile, tile, NULL, NULL, false});
}
