/* linear_warps_own.c - feedback `own` by `linear_warps`: rows x read the state before their token, rows b write what they have read:
 *
 *     P = M R      R = (x kept since the chunk's start) S + A(x, k) V      M = (1 - A(x, b))^-1
 *     O += A(q, b) P                                                       S += (b kept until its end)' P
 *
 * Readers q and x meet writers k and b in four matrices of pairs, all by halves (linear_warps_vector.c): tiles M have q or k, tiles N x or
 * b, a token being reader or writer of a level, never both. So all decays are as if of channels. M^-1 and P, which lies in U, are those of
 * linear_warps_inverse.c and linear_warps_key.c, two numbers an element; A(x, k) is one, as pairs of queries are.
 *
 * Gradients have chains of products alone: then the kernel `pairs_of_chunks` makes all this, and keeps it for them, A(x, k) and A(q, k) without
 * strengths (linear_warps_pairs.c).
 *
 * q sees its own token and x does not: q kept over its own token stands where x stands, one exponential serves both. */
#include "linear_warps.h"

static const LinearPairs others[] = {
    {"M", "M", "P", "Own", true},
    {"M", "N", "Pb", "OwnB", false},
    {"N", "M", "Px", NULL, true},
};
enum { OTHERS = sizeof others / sizeof *others };

void lw_own_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    tile_shared(l->x.t, "OwnB", "f32[q:%d]", l->chunk);
    for (uint32_t n = 1; n < OTHERS; n++)
        warps_tile(&l->x, TILE_NAME(others[n].memory), "q", l->chunk, "kv", l->chunk, 1);
}

/* Executors that have the same rows share out the pairs; the first of them makes those that it inverts. */
static int32_t maker_of(const LinearWarps *w, uint32_t pairs)
{
    const uint32_t copies = (uint32_t)(w->l.x.shape->executors / w->row_groups);
    return (int32_t)(copies > OTHERS ? pairs + 1 : copies > 1);
}

static void each_pairs(LinearWarps *w, void (*what)(LinearWarps *w, const LinearPairs *pairs))
{
    AuTileBuild *t = w->l.x.t;
    const bool shared = w->l.x.shape->executors > w->row_groups;
    /* the state before a segment needs no queries */
    for (uint32_t n = lw_has_output(w) ? 0 : OTHERS - 1; n < OTHERS; n++) {
        const bool begins = n == 0 || !lw_has_output(w) || maker_of(w, n) != maker_of(w, n - 1),
                   ends = n + 1 == OTHERS || maker_of(w, n) != maker_of(w, n + 1);
        if (shared && begins) tile_if(t, "self / %d == %d", w->row_groups, maker_of(w, n));
        what(w, &others[n]);
        if (shared && ends) tile_end(t);
    }
}

/* Where no row sees anything it stays so. */
static void clear(LinearWarps *w, const LinearPairs *pairs)
{
    tile_store(w->l.x.t, "%s(no_pairs) -> %s[%s, :]", w->l.x.operand, pairs->memory,
               lw_pair_rows(w));
}

void lw_own_declare(LinearWarps *w)
{
    Linear *l = &w->l;
    const int32_t rows = lw_vector_rows(w);
    tile_frag(l->x.t, "row_x", "%s[d:%d, kv:%d] @ across_d", l->x.operand, w->d, rows);
    tile_frag(l->x.t, "row_b", "%s[d:%d, kv:%d] @ across_d", l->x.operand, w->d, rows);
    if (lin_has(l, AU_SLOT_WRITE) && !w->makes_pairs)
        tile_frag(l->x.t, "row_strength", "f32[kv:%d] like row_sum", rows);
    each_pairs(w, clear);
}

static void load_rows(LinearWarps *w, const char *rows)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false);
    if (lw_has_output(w)) tile_load(t, "row_q", "Q[%s%s, :] as [kv, d]", stage, rows);
    tile_load(t, "row_k", "K[%s%s, :]", stage, rows);
    tile_load(t, "row_x", "X[%s%s, :]", stage, rows);
    tile_load(t, "row_b", "B[%s%s, :]", stage, rows);
    tile_load(t, "row_sum", "G[%s, :]", rows);
    lw_vector_load_before(w);
}

static void make_level(LinearWarps *w, const char *rows, int32_t level, int32_t h)
{
    AuTileBuild *t = w->l.x.t;
    const char *type = w->l.x.operand, *reads = tile_text(t, "(place & %d) != 0", h);
    tile_load(t, "row_border", "G[(place / %d | 1) * %d - 1, :]", h, h);
    tile_set(t, "kept_row", "exp2(where(%s, row_before - row_border, row_border - row_sum))",
             reads);
    const char *in_m = lw_has_output(w) ? tile_text(t, "where(%s, query, f32(row_k))", reads)
                                        : "f32(row_k)"; /* of which writers count */
    tile_store(t, "%s(%s * kept_row) -> M[%d, %s, :]", type, in_m, level, rows);
    tile_store(t, "%s(where(%s, f32(row_x), f32(row_b)) * kept_row) -> N[%d, %s, :]", type, reads,
               level, rows);
}

/* Where rows are kept: in place, or in the workspace for chains. */
static const char *place(LinearWarps *w, const char *memory, const char *tensor, const char *rows)
{
    AuTileBuild *t = w->l.x.t;
    return w->makes_pairs ? tile_text(t, "%s[b, h, place_of_pairs, %s, :]", tensor, rows)
                          : tile_text(t, "%s[%s%s, :]", memory, warps_stage(&w->l.x, false), rows);
}

/* What meets the state: readers since the chunk's start, writers until its end. */
static void keep_rows(LinearWarps *w, const char *rows)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *type = l->x.operand;
    tile_set(t, "kept_row", "exp2(row_before)");
    if (lw_has_output(w))
        tile_store(t, "%s(query * kept_row) -> %s as [kv, d]", type,
                   place(w, "Q", "queries", rows));
    tile_store(t, "%s(f32(row_x) * kept_row) -> %s", type, place(w, "X", "readers", rows));
    tile_load(t, "row_total", "G[%d, :]", l->chunk - 1);
    tile_set(t, "kept_row", "exp2(row_total - row_sum)");
    tile_store(t, "%s(f32(row_b) * kept_row) -> %s", type, place(w, "B", "writers", rows));
    if (lin_has(l, AU_SLOT_WRITE)) {
        tile_load(t, "row_strength", "W[%s]", rows);
        tile_set(t, "kept_row", "kept_row * row_strength");
    }
    tile_store(t, "%s(f32(row_k) * kept_row) -> %s", type, place(w, "K", "keys", rows));
}

/* Kept over their token where they read behind it, and what they have of it itself. */
static void make_queries(LinearWarps *w, const char *rows)
{
    AuTileBuild *t = w->l.x.t;
    if (w->l.n->before) {
        tile_set(t, "query", "f32(row_q)");
        return;
    }
    lw_vector_own_pairs(w, rows, "row_q", "row_k", "Own");
    lw_vector_own_pairs(w, rows, "row_q", "row_b", "OwnB");
    tile_set(t, "query", "f32(row_q) * exp2(row_sum - row_before)");
}

void lw_own_make(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = lw_vector_rows(w);
    const char *mine = tile_text(t, "self * %d + part_M * %d +: %d", w->share, rows, rows);
    tile_for_range(t, "part_M", "0", tile_text(t, "%d", w->share / rows));
    tile_set(t, "place", "self * %d + part_M * %d + iota(kv:%d)", w->share, rows, rows);
    load_rows(w, mine);
    if (lw_has_output(w)) make_queries(w, mine);
    for (int32_t h = l->chunk / 2, level = 0; h; h /= 2, level++) make_level(w, mine, level, h);
    keep_rows(w, mine);
    tile_end(t);
}

void lw_own_pairs(LinearWarps *w) { each_pairs(w, lw_vector_pairs); }

static void keep(LinearWarps *w, const LinearPairs *pairs)
{
    AuTileBuild *t = w->l.x.t;
    tile_load(t, "made_pairs", "%s[%s, :]", pairs->memory, lw_pair_rows(w));
    tile_store(t, "made_pairs -> %s[b, h, place_of_pairs, %s, :]",
               lw_kept((int)(pairs - others))->tensor, lw_pair_rows(w));
}

void lw_own_keep_pairs(LinearWarps *w)
{
    tile_frag(w->l.x.t, "made_pairs", "%s[kv:%d, q:%d] @ across_kv", w->l.x.operand, w->l.chunk,
              LINEAR_ROWS);
    each_pairs(w, keep);
}

const char *lw_fed_readers(const LinearWarps *w)
{
    return lw_is_own(w) ? "X" : w->has_decayed ? "Ks" : "K";
}

const char *lw_fed_writers(const LinearWarps *w) { return lw_is_own(w) ? "B" : "K"; }

/* What A(x, k) meets: it has no strengths where it is kept for gradients, too. */
static const char *values(LinearWarps *w, const char *columns)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *view = tile_text(t, "V[%s:, %s]", warps_stage(&l->x, false), columns);
    if (!w->has_decayed || !lin_has(l, AU_SLOT_WRITE)) return view;
    tile_load(t, "values", "%s as [kv, e]", view);
    tile_load(t, "of_values", "W[:]");
    tile_set(t, "values", "%s(f32(values) * of_values)", l->x.operand);
    return "values";
}

void lw_own_right(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false), *columns = lw_solved_columns(w);
    tile_product(t, "right", l->x.atom, TILE_START, tile_text(t, "S[:, %s]", columns),
                 tile_text(t, "X[%s:, :] as [q, d]", stage));
    lw_begin_values(w);
    tile_product(t, "right", l->x.atom, TILE_ADD, values(w, columns),
                 w->has_decayed ? tile_text(t, "Px[%s:, :]", stage) : "Px[:, :]");
    lw_end_values(w);
}

void lw_own_read(LinearWarps *w, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    lw_add_halves(w, "acc", tile_text(t, "Pb[%s, :]", lw_pair_rows(w)), "U",
                  tile_text(t, "[%s, :]", columns));
}

void lw_own_write(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_load(t, "key", "B[%s:, %s +: %d]", warps_stage(&w->l.x, false), lw_state_row(w),
              w->channels);
    lw_add_halves(w, "state", "key", "U",
                  tile_text(t, "[%s +: %d, :]", lw_state_column(w), w->columns));
}
