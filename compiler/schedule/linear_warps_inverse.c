/* linear_warps_inverse.c - feedback `key`: the kernel `inverse`, which makes of each chunk
 *
 *     M = (1 - a)^-1      a_ij = -erase_i (K K')_ij kept between, where j < i
 *
 * two numbers an element, into the workspace (with decays a channel it is a part of the forward, and stays in shared memory). No state is
 * needed for it, so chunks do not wait for each other: a block goes over some of a sequence's, one in so many. Blocks of 16 rows on the
 * diagonal are inverted in f32, a row after the other, a column a lane, each by the warp that has made its rows of a; then each warp solves
 * for 16 columns of M, block after block, without waiting for others. a and the inverted blocks are two numbers an element where they meet
 * as operands. */
#include "linear_warps.h"

enum {
    PARTS = 16,   /* blocks of a sequence and head at least; */
    BLOCKS = 512, /* where heads are few, as many as processors take at once, four each */
    AT_ONCE = 4   /* rows of a block on the diagonal: 16 bytes of f32 */
};
static const char *const halves[] = {"h", "l"};

void lw_inverses_argument(LinearWarps *w, AuTileMode mode)
{
    lw_chunk_argument(w, "inverses", mode, w->l.x.operand,
                      tile_text(w->l.x.t, "m:2, q:%d, kv:%d", w->l.chunk, w->l.chunk));
}

const char *lw_parts(LinearWarps *w, int32_t least, int32_t blocks)
{
    Linear *l = &w->l;
    return tile_text(l->x.t, "max(min(%d / max(%s * %s, 1), cdiv(%s, %d)), %d)", blocks,
                     lin_sequences(l), l->heads, l->tokens, l->chunk, least);
}

void lw_begin_parts(LinearWarps *w, const char *parts)
{
    AuTileBuild *t = w->l.x.t;
    tile_set(t, "parts", "%s", parts);
    tile_for_range(t, "round", "0",
                   tile_text(t, "cdiv(cdiv(length, %d) - part, parts)", w->l.chunk));
    tile_set(t, "chunk", "round * parts + part");
    tile_set(t, "first", "start + chunk * %d", w->l.chunk);
}

static void head(LinearWarps *w)
{
    Linear *l = &w->l;
    lin_begin_kernel(l, "inverse");
    lw_inverses_argument(w, TILE_INOUT);
    lw_numbers_argument(w, TILE_IN);
    lw_rows_arguments(w);
    tile_grid(l->x.t, "part: %s, h: %s, n: %s", lw_parts(w, PARTS, BLOCKS), l->heads,
              lin_sequences(l));
}

/* Columns of Near: of a row of a those of its block on the diagonal, or all, where that block is made among others. */
static int32_t near_columns(const LinearWarps *w)
{
    return lw_by_channel(w) ? LINEAR_ROWS : w->l.chunk;
}

/* a, and where its blocks on the diagonal were, those inverted; these blocks before that, f32. */
void lw_inverse_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    tile_shared(l->x.t, "Near", "f32[q:%d, kv:%d]", l->chunk, near_columns(w));
    warps_tile(&l->x, TILE_NAME("Ah"), "q", l->chunk, "kv", l->chunk, 1);
    warps_tile(&l->x, TILE_NAME("Al"), "q", l->chunk, "kv", l->chunk, 1);
}

void lw_inverse_declare(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const char *atom = w->l.x.atom->name;
    const int32_t rows = LINEAR_ROWS;
    if (!lw_is_own(w))
        tile_frag(t, "erase", "f32[q:%d] like %s", rows, lw_by_channel(w) ? "pairs" : "score");
    for (int32_t n = 0; n < rows / AT_ONCE; n++) {
        tile_frag(t, tile_text(t, "block_%d", n), "f32[m:%d, l:%d] @ a_column_a_lane = 0.0",
                  AT_ONCE, rows);
        tile_frag(t, tile_text(t, "known_%d", n), "f32[m:%d] like block_0", AT_ONCE);
    }
    tile_frag(t, "made_row", "f32[l:%d] like block_0", rows);
    tile_frag(t, "unit", "f32[q:%d, e:%d] @ %s.C", rows, rows, atom);
    tile_frag(t, "inverted", "f32[q:%d, e:%d] @ %s.C", rows, rows, atom);
}

static void memories(LinearWarps *w)
{
    lw_memories(w);
    lw_key_memories(w);
    lw_inverse_memories(w);
    tile_barrier(w->l.x.t, "all", 0, w->l.x.shape->executors);
}

static void fragments(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, l->chunk, l->x.atom->name);
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_frag(t, "since", "f32[q:%d] like score", LINEAR_ROWS);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", l->chunk);
    }
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    lw_inverse_declare(w);
    lw_declare(w);
}

/* Of the warp's rows of a, [columns]; those of their block on the diagonal among them, if [near]. */
void lw_key_keep_pairs(LinearWarps *w, const char *pairs, const char *columns, bool near)
{
    AuTileBuild *t = w->l.x.t;
    lw_store_halves(w, pairs, "A", tile_text(t, "[%s +: %d, %s]", lw_row(w), LINEAR_ROWS, columns));
    if (near) tile_store(t, "%s -> Near[%s +: %d, :]", pairs, lw_row(w), LINEAR_ROWS);
}

static void pairs_of_rows(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = LINEAR_ROWS;
    const char *row = lw_row(w), *kept = "";
    tile_product(t, "score", l->x.atom, TILE_START,
                 tile_text(t, "K[%s +: %d, :] as [q, d]", row, rows), "K[:, :]");
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_load(t, "since", "G[%d + %s +: %d] as [q]", w->has_since, row, rows);
        tile_load(t, "at_writer", "G[%d +: %d]", w->has_since, l->chunk);
        kept = " * exp(where(j < i, since - at_writer, -inf))";
    } else if (l->n->decay == AU_DECAY_CONSTANT)
        kept = " * exp(f32(i - j) * rate)";
    tile_set(t, "score", "where(j < i, -erase * score%s, 0.0)", kept);
    lw_key_keep_pairs(w, "score", ":", true);
}

/* A row of the inverse of the warp's block on the diagonal, of those before, which are known, others 0. Written out for each row: what is
 * read is known beforehand, so that a row waits for the sums of the one before alone. */
static void invert_row(LinearWarps *w, int32_t row)
{
    AuTileBuild *t = w->l.x.t;
    const char *first = lw_row(w), *column = near_columns(w) == LINEAR_ROWS ? "0" : first;
    const int32_t last = row / AT_ONCE;
    AuText sum = {.arena = w->l.x.arena};
    au_text_add(&sum, "where(iota(l:%d) == %d, 1.0, 0.0)", LINEAR_ROWS, row);
    for (int32_t n = 0; row && n <= last; n++) {
        tile_load(t, tile_text(t, "known_%d", n), "Near[%s + %d, %s + %d +: %d] as [m]", first, row,
                  column, n * AT_ONCE, AT_ONCE);
        au_text_add(&sum, " + reduce_sum(known_%d * block_%d, m)", n, n);
    }
    tile_set(t, "made_row", "%s", au_text_str(&sum));
    tile_set(t, tile_text(t, "block_%d", last), "where(iota(m:%d) == %d, made_row, block_%d)",
             AT_ONCE, row % AT_ONCE, last);
}

/* The warp's rows of a, and the inverse of their block on the diagonal, a column a lane. */
static void pairs_of_keys(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t rows = LINEAR_ROWS;
    const char *first = lw_row(w);
    if (!lw_is_own(w)) tile_load(t, "erase", "E[%s +: %d] as [q]", first, rows);
    lw_by_channel(w) ? lw_vector_key_pairs(w) : pairs_of_rows(w);
    for (int32_t n = 0; n < rows / AT_ONCE; n++)
        tile_set(t, tile_text(t, "block_%d", n), "fill(block_%d, 0.0)", n);
    for (int32_t row = 0; row < rows; row++) invert_row(w, row);
    for (int32_t n = 0; n < rows / AT_ONCE; n++)
        lw_store_halves(w, tile_text(t, "block_%d", n), "A",
                        tile_text(t, "[%s + %d +: %d, %s +: %d] as [m, l]", first, n * AT_ONCE,
                                  AT_ONCE, first, rows));
}

/* acc += a M, of rows and columns of both. */
static void add_product(LinearWarps *w, const char *acc, AuTileProduct how, const char *of_a,
                        const char *rows, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < LINEAR_HALVES_MET; n++)
        tile_product(
            t, acc, w->l.x.atom, n ? TILE_ADD : how, tile_text(t, "A%s%s", lw_half(n, false), of_a),
            tile_text(t, "%s as [kv, e]", lw_inverse_view(w, lw_half(n, true), rows, columns)));
}

/* Both halves of a block of M. */
static void store_block(LinearWarps *w, const char *value, const char *rows, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    const char *type = w->l.x.operand, *high = tile_text(t, "%s(%s)", type, value);
    const char *const parts[] = {high, tile_text(t, "%s(%s - f32(%s))", type, value, high)};
    for (uint32_t n = 0; n < 2; n++)
        tile_store(t, "%s -> %s as [q, e]", parts[n], lw_inverse_view(w, halves[n], rows, columns));
}

static void keep_inverse(LinearWarps *w, const char *rows, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    const char *type = w->l.x.operand, *high = tile_text(t, "%s(inverted)", type);
    const char *const parts[] = {high, tile_text(t, "%s(inverted - f32(%s))", type, high)};
    for (uint32_t n = 0; n < 2; n++)
        tile_store(t, "%s -> inverses[b, h, place_of_inverse, %u, %s, %s] as [q, e]", parts[n], n,
                   rows, columns);
}

/* The warp's columns of M: those of the unit matrix are what stands at the right. */
static void solve(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t size = LINEAR_ROWS;
    const char *rows = tile_text(t, "n_block * %d +: %d", size, size),
               *columns = tile_text(t, "%s +: %d", lw_row(w), size);
    tile_for_range(t, "n_block", "0", tile_text(t, "%d", l->chunk / size));
    tile_set(t, "unit", "where(n_block * %d + iota(q:%d) == %s + iota(e:%d), 1.0, 0.0)", size, size,
             lw_row(w), size);
    tile_for_range(t, "before", "0", "n_block");
    add_product(w, "unit", TILE_ADD, tile_text(t, "[%s, before * %d +: %d]", rows, size, size),
                tile_text(t, "before * %d +: %d", size, size), columns);
    tile_end(t);
    store_block(w, "unit", rows, columns);
    add_product(w, "inverted", TILE_START, tile_text(t, "[%s, %s] as [q, kv]", rows, rows), rows,
                columns);
    store_block(w, "inverted", rows, columns);
    if (w->makes_inverse || w->makes_pairs) keep_inverse(w, rows, columns);
    tile_end(t);
}

/* What stands between is for warps that have rows. */
static void begin_rows(LinearWarps *w)
{
    if (w->row_groups < w->l.x.shape->executors) tile_if(w->l.x.t, "self < %d", w->row_groups);
}

static void end_rows(LinearWarps *w)
{
    if (w->row_groups < w->l.x.shape->executors) tile_end(w->l.x.t);
}

/* Pairs of queries are made meanwhile, by warps without such rows, or before. */
void lw_inverse_make(LinearWarps *w)
{
    if (lw_in_turn(w)) {
        lw_begin_sharers(w);
        lw_vector_weights(w);
        tile_end(w->l.x.t);
        tile_sync(w->l.x.t, "all");
        lw_vector_make_keys(w);
        tile_sync(w->l.x.t, "all");
    }
    begin_rows(w);
    pairs_of_keys(w);
    end_rows(w);
    if (lw_is_own(w))
        lw_own_pairs(w);
    else if (lw_shares_pairs(w) && !lw_in_turn(w)) {
        lw_begin_sharers(w);
        lw_vector_weights(w);
        tile_end(w->l.x.t);
    }
    tile_sync(w->l.x.t, "all");
    begin_rows(w);
    solve(w);
    end_rows(w);
    tile_sync(w->l.x.t, "all");
}

static void chunk(LinearWarps *w)
{
    lw_place_of_states(w, "place_of_inverse", "chunk");
    lw_issue(w, "chunk", "");
    lw_make_rows(w);
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    tile_sync(w->l.x.t, "all");
    lw_inverse_make(w);
}

static void kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    head(w);
    memories(w);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_find_sequence(l);
    lin_name_heads(l);
    tile_set(t, "i", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    fragments(w);
    lw_begin_parts(w, lw_parts(w, PARTS, BLOCKS));
    chunk(w);
    tile_end(t);
    tile_end(t);
    tile_end(t);
}

AuShape linear_warps_inverse_shape(const AuProblem *p, const AuShape *whole)
{
    AuShape s = {.executors = whole->key_tile / LINEAR_ROWS,
                 .key_tile = whole->key_tile,
                 .query_tile = whole->key_tile,
                 .column_parts = 1,
                 .stages = 1};
    linear_warps_complete(p, &s);
    return s;
}

/* Decays a channel: who makes the factors that pairs are made of inverts, too, chunk by chunk: the forward, or the kernel of pairs. */
bool lw_inverts(const LinearWarps *w)
{
    return lw_by_channel(w) && lw_is_fed(w) && !w->has_decayed;
}

void lw_inverse_kernel(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                       bool makes_rows)
{
    const AuShape shape = linear_warps_inverse_shape(p, &out->shape);
    LinearWarps w = lw_begin(arena, t, p, out, &shape);
    w.makes_inverse = true;
    w.makes_rows = makes_rows;
    kernel(&w);
    lanes_region(&w.l.x, "inverses");
    lw_rows_regions(&w);
}
