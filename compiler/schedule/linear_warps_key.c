/* linear_warps_key.c - feedback `key` by `linear_warps`: what is written is U instead of the values,
 *
 *     U = R + a U      R = w V - erase (K S) kept since the chunk's start      a_ij = -erase_i (K K')_ij kept between, where j < i
 *
 * by forward substitution in blocks of 16 rows. Blocks on the diagonal are inverted in f32, a row after the other, each by the warp that
 * has made its rows of a; then each warp solves for some columns, block after block, without waiting for others. Where something meets
 * operands it is two numbers, hi + lo: one is not enough where keys are alike and strengths near 2. */
#include "linear_warps.h"

/* What others of the block read: a, inverted blocks, U. */
void lw_key_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    static const char *const halves[] = {"h", "l"};
    tile_shared(t, "A", "f32[q:%d, kv:%d]", l->chunk, l->chunk);
    tile_shared(t, "X", "f32[q:%d, l:%d]", l->chunk, LINEAR_ROWS);
    tile_shared(t, "E", "f32[kv:%d]", l->chunk);
    for (uint32_t n = 0; n < 2; n++) {
        warps_tile(&l->x, TILE_NAME(tile_text(t, "A%s", halves[n])), "q", l->chunk, "kv", l->chunk,
                   1);
        warps_tile(&l->x, TILE_NAME(tile_text(t, "X%s", halves[n])), "q", l->chunk, "l",
                   LINEAR_ROWS, 1);
        warps_tile(&l->x, TILE_NAME(tile_text(t, "U%s", halves[n])), "kv", l->chunk, "e", w->e, 1);
    }
}

void lw_key_declare(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "erase", "f32[q:%d] like %s", LINEAR_ROWS, lw_by_channel(w) ? "pairs" : "score");
    tile_frag(t, "block", "f32[m:%d, l:%d] @ %s.C = 0.0", LINEAR_ROWS, LINEAR_ROWS, atom);
    tile_frag(t, "known", "f32[m:%d] like block", LINEAR_ROWS);
    tile_frag(t, "right", "f32[q:%d, e:%d] @ %s.C", LINEAR_ROWS, w->solved, atom);
    tile_frag(t, "solved", "f32[q:%d, e:%d] @ %s.C", LINEAR_ROWS, w->solved, atom);
    tile_frag(t, "written", "%s[q:%d, e:%d] like right", l->x.operand, LINEAR_ROWS, w->solved);
    tile_frag(t, "of_row", "f32[q:%d] like right", LINEAR_ROWS);
}

/* Both halves of a fragment of f32, to memories NAMEh and NAMEl. */
static void store_halves(LinearWarps *w, const char *value, const char *memory, const char *view)
{
    AuTileBuild *t = w->l.x.t;
    const char *type = w->l.x.operand;
    tile_store(t, "%s(%s) -> %sh%s", type, value, memory, view);
    tile_store(t, "%s(%s - f32(%s(%s))) -> %sl%s", type, value, type, value, memory, view);
}

/* acc += a b of numbers that are two each. */
static void add_product(LinearWarps *w, const char *acc, AuTileProduct how, const char *a,
                        const char *a_view, const char *b_view)
{
    static const char *const parts[3][2] = {{"h", "h"}, {"h", "l"}, {"l", "h"}};
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < 3; n++)
        tile_product(t, acc, w->l.x.atom, n ? TILE_ADD : how,
                     tile_text(t, "%s%s%s", a, parts[n][0], a_view),
                     tile_text(t, "U%s%s", parts[n][1], b_view));
}

/* Of the warp's rows of a, [columns]. */
void lw_key_keep_pairs(LinearWarps *w, const char *pairs, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    const char *at = tile_text(t, "[%s +: %d, %s]", lw_row(w), LINEAR_ROWS, columns);
    tile_store(t, "%s -> A%s", pairs, at);
    store_halves(w, pairs, "A", at);
}

static void pairs_of_rows(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = LINEAR_ROWS;
    const char *row = lw_row(w), *stage = warps_stage(&l->x, false), *kept = "";
    tile_product(t, "score", l->x.atom, TILE_START,
                 tile_text(t, "K[%s%s +: %d, :] as [q, d]", stage, row, rows),
                 tile_text(t, "K[%s:, :]", stage));
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_load(t, "since", "G[%d + %s +: %d] as [q]", w->has_since, row, rows);
        tile_load(t, "at_writer", "G[%d +: %d]", w->has_since, l->chunk);
        kept = " * exp(where(j < i, since - at_writer, -inf))";
    } else if (l->n->decay == AU_DECAY_CONSTANT)
        kept = " * exp(f32(i - j) * rate)";
    tile_set(t, "score", "where(j < i, -erase * score%s, 0.0)", kept);
    lw_key_keep_pairs(w, "score", ":");
}

/* The warp's rows of a, and the inverse of their block on the diagonal. */
void lw_key_pairs(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = LINEAR_ROWS;
    const char *row = lw_row(w);
    const bool some = w->row_groups < l->x.shape->executors;
    if (some) tile_if(t, "self < %d", w->row_groups);
    tile_load(t, "erase", "E[%s +: %d] as [q]", row, rows);
    lw_by_channel(w) ? lw_vector_key_pairs(w) : pairs_of_rows(w);
    tile_set(t, "block", "fill(block, 0.0)");
    tile_store(t, "block -> X[%s +: %d, :] as [m, l]", row, rows);
    tile_for_range(t, "at_row", "0", tile_text(t, "%d", rows));
    tile_load(t, "block", "X[%s +: %d, :] as [m, l]", row, rows);
    tile_load(t, "known", "A[%s + at_row, %s +: %d] as [m]", row, row, rows);
    tile_set(t, "made_row",
             "reduce_sum(where(iota(m:%d) < at_row, known * block, 0.0), m) + "
             "where(iota(l:%d) == at_row, 1.0, 0.0)",
             rows, rows);
    tile_store(t, "made_row -> X[%s + at_row, :]", row);
    tile_end(t);
    tile_load(t, "block", "X[%s +: %d, :] as [m, l]", row, rows);
    store_halves(w, "block", "X", tile_text(t, "[%s +: %d, :] as [m, l]", row, rows));
    if (some) tile_end(t);
}

/* What stands at the right: of the rows of block `n`, for the warp's columns. */
static void right_side(LinearWarps *w, const char *rows, const char *columns)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false), *strength = "", *kept = "";
    tile_product(t, "right", l->x.atom, TILE_START,
                 lw_by_channel(w) ? tile_text(t, "Ks[%s, :] as [q, d]", rows)
                                  : tile_text(t, "K[%s%s, :] as [q, d]", stage, rows),
                 tile_text(t, "S[:, %s]", columns));
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_load(t, "of_row", "G[%d + %s] as [q]", w->has_since, rows);
        tile_set(t, "right", "right * exp(of_row)");
    } else if (l->n->decay == AU_DECAY_CONSTANT)
        kept = tile_text(t, " * exp(f32(n_block * %d + iota(q:%d) + 1) * rate)", LINEAR_ROWS,
                         LINEAR_ROWS);
    tile_load(t, "of_row", "E[%s] as [q]", rows);
    tile_set(t, "right", "right * of_row%s", kept);
    tile_load(t, "written", "V[%s%s, %s] as [q, e]", stage, rows, columns);
    if (lin_has(l, AU_SLOT_WRITE)) {
        tile_load(t, "of_row", "W[%s] as [q]", rows);
        strength = " * of_row";
    }
    tile_set(t, "right", "f32(written)%s - right", strength);
}

void lw_key_solve(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t size = LINEAR_ROWS, solvers = w->e / w->solved;
    const char *rows = tile_text(t, "n_block * %d +: %d", size, size),
               *columns = solvers == 1 ? tile_text(t, "0 +: %d", w->solved)
                                       : tile_text(t, "self * %d +: %d", w->solved, w->solved),
               *own = tile_text(t, "[%s, %s] as [q, e]", rows, columns);
    const bool some = solvers < l->x.shape->executors;
    if (some) tile_if(t, "self < %d", solvers);
    tile_for_range(t, "n_block", "0", tile_text(t, "%d", l->chunk / size));
    right_side(w, rows, columns);
    tile_for_range(t, "before", "0", "n_block");
    add_product(w, "right", TILE_ADD, "A",
                tile_text(t, "[%s, before * %d +: %d]", rows, size, size),
                tile_text(t, "[before * %d +: %d, %s]", size, size, columns));
    tile_end(t);
    store_halves(w, "right", "U", own);
    add_product(w, "solved", TILE_START, "X", tile_text(t, "[%s, :] as [q, kv]", rows),
                tile_text(t, "[%s, %s]", rows, columns));
    store_halves(w, "solved", "U", own);
    tile_end(t);
    if (some) tile_end(t);
}
