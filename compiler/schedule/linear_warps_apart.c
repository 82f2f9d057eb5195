/* linear_warps_apart.c - gradients with feedback `key`, apart: the kernel `chunks`, which makes of the state S before a chunk, the gradient T
 * of that behind it, U and y, all kept by the kernels that are chains, what the rows of the chunk get (linear_warps_key_back.c). Chunks do
 * not wait for each other, so each has a block. Were there a loop over some of them, all addresses of tensors whose channels do not lie side
 * by side, of a branch that other calls do not take, would be made before it, and spilled.
 *
 *     pairs     R = dO U' kept       Z = e (y U') kept                                             some warps, 16 rows each      barrier
 *     rows      dQ = (dO S') since + R K
 *               dK = e (y S') since + Z K + Z' K + (U T') until + R' Q        whole <S, T>         a warp 16 rows, some channels
 *
 * S and T come in as many rounds, some channels each, as leave room for a second block, which has work while this one waits. Then all take
 * rows through their slots, some each, with channels along the lanes, and put sums for decays and strengths together. */
#include "linear_warps.h"

enum { ROWS_AT_ONCE = 4 };

/* What rows have through the chunk's ends: queries from its start, keys as readers, keys until its end. */
enum { OF_QUERIES, OF_READERS, OF_WRITERS, BORDERS };
static const char *const borders[BORDERS] = {"of_queries", "of_readers", "of_writers"};

static bool by_token(const LinearBack *b) { return lin_decays_by_token(&b->w.l); }

static void arguments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    lw_states_argument(w, TILE_IN);
    lw_kept_argument(w, "dstates", TILE_IN, false);
    lw_kept_argument(w, "updates", TILE_IN, true);
    lw_kept_argument(w, "solutions", TILE_IN, true);
    lw_numbers_argument(w, TILE_IN);
    lw_rows_arguments(w);
    lw_given_argument(w, TILE_IN);
}

/* Channels of keys in a round, and those of a product, which are a warp's. */
static int32_t of_round(const LinearBack *b) { return b->w.d / b->rounds; }

static int32_t strip(const LinearBack *b)
{
    return of_round(b) % (2 * LINEAR_ROWS * b->key_parts) ? LINEAR_ROWS : 2 * LINEAR_ROWS;
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    const int32_t c = l->chunk;
    lw_memories(w);
    lw_given_memory(w);
    warps_tile(&l->x, TILE_NAME("S"), "d", of_round(b), "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("T"), "d", of_round(b), "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("Uh"), "e", w->e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Yh"), "e", w->e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("R"), "q", c, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Z"), "q", c, "kv", c, 1);
    tile_shared(l->x.t, "Made", "f32[p:2, kv:%d, d:%d]", c, w->d + LINEAR_ROW_GAP);
    lw_gates_memories(b);
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

/* Rows, of those that a warp has brought, whose gradients go through their slots at once. */
int32_t lw_slot_rows(const LinearWarps *w)
{
    return w->share < ROWS_AT_ONCE ? w->share : ROWS_AT_ONCE;
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = LINEAR_ROWS, c = l->chunk;
    const char *atom = l->x.atom->name;
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", rows, c, atom);
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C", rows, c, atom);
    tile_frag(t, "dx", "f32[kv:%d, d:%d] @ %s.C", rows, strip(b), atom);
    tile_frag(t, "at_end", "f32[kv:%d, d:%d] @ %s.C", rows, strip(b), atom);
    tile_frag(t, "own", "%s[kv:%d, d:%d] like dx", l->x.operand, rows, strip(b));
    for (uint32_t n = 0; n < BORDERS; n++)
        tile_frag(t, borders[n], "f32[kv:%d] like dx = 0.0", rows);
    tile_frag(t, "row_dx", "f32[d:%d, kv:%d] @ across_d", w->d, lw_slot_rows(w));
    lw_written_declare(b);
    tile_frag(t, "erase", "f32[q:%d] like score", rows);
    tile_frag(t, "erase_of_row", "f32[kv:%d] like dx", rows);
    if (b->has_rate) tile_frag(t, "through", "f32[d:%d, m:%d] @ %s.C", rows, rows, atom);
    if (by_token(b)) {
        tile_frag(t, "since", "f32[q:%d] like score", rows);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", c);
        tile_frag(t, "of_dx", "f32[kv:%d] like dx", rows);
    }
    if (lin_decays(l)) tile_frag(t, "kept", "f32[q:%d, kv:%d] like score", rows, c);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    lw_declare(w);
}

/* What pairs are made by: what is between is for those warps of each group of rows. */
enum { PAIRS_OF_QUERIES, PAIRS_OF_KEYS };

static void begin_maker(LinearBack *b, int of)
{
    tile_if(b->w.l.x.t, "self / %d == %d", b->w.row_groups, of);
}

/* ---- copies */

/* Of S and T; behind the last round none, as no rows. */
static void issue_round(LinearBack *b, const char *round)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t share = of_round(b) / w->l.x.shape->executors;
    static const char *const kept[][3] = {{"ts", "states", "S"}, {"tt", "dstates", "T"}};
    for (uint32_t n = 0; n < 2; n++)
        warps_issue(&w->l.x, TILE_NAME(kept[n][0]),
                    tile_part(t, "%s[b, h, place, (%s) * %d + self * %d +: %d from 0 to %d, :]",
                              kept[n][1], round, of_round(b), share, share, w->d),
                    tile_part(t, "%s[self * %d +: %d, :]", kept[n][2], share, share));
}

static void bring(LinearBack *b)
{
    LinearWarps *w = &b->w;
    static const char *const tokens[] = {"td", "tu", "ty"};
    lw_issue(w, "chunk", "");
    lw_issue_given(w, "chunk", "");
    lw_issue_kept(w, "tu", "updates", "Uh", w->e);
    lw_issue_kept(w, "ty", "solutions", "Yh", w->e);
    issue_round(b, "0");
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    for (uint32_t n = 0; n < sizeof tokens / sizeof *tokens; n++) warps_wait(&w->l.x, tokens[n]);
}

/* ---- what passes the chunk: the diagonal of S T', 16 channels of keys and a part of the columns a warp */

static void passed(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t warps = w->l.x.shape->executors, units = of_round(b) / LINEAR_ROWS;
    int32_t parts = units < warps ? warps / units : 1;
    while (w->e % (parts * LINEAR_ROWS)) parts--;
    const int32_t at_once = units < warps ? units : warps, columns = w->e / parts;
    const char *rows =
        tile_text(t, "(turn * %d + self %% %d) * %d +: %d, self / %d * %d +: %d", at_once, at_once,
                  LINEAR_ROWS, LINEAR_ROWS, at_once, columns, columns);
    if (!b->has_rate) return;
    if (parts * at_once < warps) tile_if(t, "self < %d", parts * at_once);
    tile_for_range(t, "turn", "0", tile_text(t, "%d", (units + at_once - 1) / at_once));
    if (units % at_once) tile_if(t, "turn * %d + self < %d", at_once, units);
    tile_product(t, "through", w->l.x.atom, TILE_START, tile_text(t, "S[%s]", rows),
                 tile_text(t, "T[%s] as [m, e]", rows));
    tile_set(t, "passed",
             "passed + reduce_sum(where(iota(d:%d) == iota(m:%d), through, 0.0), d, m)",
             LINEAR_ROWS, LINEAR_ROWS);
    if (units % at_once) tile_end(t);
    tile_end(t);
    if (parts * at_once < warps) tile_end(t);
}

/* ---- rows through their slots, some of those that the warp has brought, along the lanes: "self * 4 + turn * 4 +: 4" */

const char *lw_begin_rows(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t rows = lw_slot_rows(w);
    const char *first = tile_text(t, "self * %d + turn * %d", w->share, rows);
    b->rows = rows, b->first_row = first;
    b->part.rows = tile_text(t, "first + %s +: %d", first, rows);
    tile_for_range(t, "turn", "0", tile_text(t, "%d", w->share / rows));
    tile_set(t, "t", "first + %s + iota(kv:%d)", first, rows);
    return tile_text(t, "%s +: %d", first, rows);
}

void lw_load_columns(LinearBack *b, AuSlot slot, const char *raw, const char *to)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[slot];
    if (s->held.i)
        tile_load(
            t, raw, "%s pad 0",
            lin_view(l, s->held, "kv", "e", lin_columns(l, s->held, "0", b->w.e), b->part.rows));
    if (s->name)
        tile_set(t, to, "%s(f32(%s), b, h, t, c)", s->name, raw);
    else
        tile_set(t, to, "f32(%s)", raw);
}

/* The rows of values as they are written, in `value`. */
static void load_values(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_V];
    tile_frag(t, "raw_value", "%s[e:%d, kv:%d] @ along_e%s",
              s->held.i ? lin_elem(l, s->held) : "f32", w->e, b->rows, s->held.i ? "" : " = 0.0");
    lw_load_columns(b, AU_SLOT_V, "raw_value", "value");
    tile_set(t, "value", "where(t < end, value, 0.0)");
}

void lw_written_declare(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_frag(t, "solution", "%s[e:%d, kv:%d] @ along_e", w->l.x.operand, w->e, lw_slot_rows(w));
    tile_frag(t, "strength_of_value", "f32[kv:%d] like solution", lw_slot_rows(w));
}

void lw_written_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *rows = lw_begin_rows(b);
    tile_set(t, "c", "iota(e:%d)", w->e);
    tile_load(t, "solution", "Yh[:, %s]", rows);
    tile_set(t, "dvalue", "f32(solution)");
    if (lin_has(l, AU_SLOT_WRITE)) {
        if (lin_has_gradient(l, AU_SLOT_WRITE)) {
            load_values(b);
            tile_set(t, "of_strength", "reduce_sum(value * dvalue, e)");
            tile_store(t, "of_strength -> Strengths[0, %s]", rows);
        }
        tile_load(t, "strength_of_value", "W[%s]", rows);
        tile_set(t, "dvalue", "dvalue * strength_of_value");
    }
    lw_gradient(b, AU_SLOT_V, "dvalue", "solution");
    if (lin_has(l, AU_SLOT_SKIP) && !lin_needs_output(l)) {
        tile_frag(t, "given", "%s[e:%d, kv:%d] @ along_e", l->x.operand, w->e, b->rows);
        tile_load(t, "given", "D[%s, :] as [kv, e]", rows);
        tile_set(t, "dvalue", "f32(given)");
        lw_gradient(b, AU_SLOT_SKIP, "dvalue", "solution");
    }
    tile_end(t);
}

static void rows_and_numbers(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *rows = lw_begin_rows(b);
    tile_set(t, "c_d", "iota(d:%d)", w->d);
    for (uint32_t of_keys = 0; of_keys < 2; of_keys++) {
        tile_load(t, "row_dx", "Made[%u, %s, 0 +: %d] as [kv, d]", of_keys, rows, w->d);
        lw_gradient(b, of_keys ? AU_SLOT_K : AU_SLOT_Q, "row_dx", "row_dx");
    }
    lw_gates_back(b);
    tile_end(t);
}

/* ---- 16 rows of queries, and of keys as readers and as writers, some channels a warp */

typedef struct Strip {
    const char *rows, *own, *columns; /* of the chunk; of S and T, and of all channels */
} Strip;

/* Through the state at one end, [of], which [given], rows of it as an operand, belong to; border: what the rows, [own], have by that. */
static void through_end(LinearBack *b, const Strip *s, const char *dx, const char *given,
                        const char *of, const char *own, int border)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_product(t, dx, w->l.x.atom, TILE_START, given, tile_text(t, "%s[%s, :]", of, s->own));
    const char *kept = lw_kept_of_rows(b, border == OF_WRITERS, "of_dx");
    if (*kept) tile_set(t, dx, "%s%s", dx, kept);
    if (border != OF_READERS && !b->has_rate) return;
    tile_load(t, "own", "%s[%s, %s] as [kv, d]", own, s->rows, s->columns);
    tile_set(t, borders[border], "%s + reduce_sum(f32(own) * %s, d)", borders[border], dx);
}

static void add_pairs(LinearBack *b, const Strip *s, const char *dx, const char *pairs,
                      const char *rows)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_product(t, dx, b->w.l.x.atom, TILE_ADD, pairs,
                 tile_text(t, "%s[:, %s] as [q, d]", rows, s->columns));
}

static void strip_of_rows(LinearBack *b, const Strip *s)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *row = s->rows, *made = tile_text(t, "%s, %s", row, s->columns);
    through_end(b, s, "dx", tile_text(t, "D[%s, :] as [kv, e]", row), "S", "Q", OF_QUERIES);
    add_pairs(b, s, "dx", tile_text(t, "R[%s, :] as [kv, q]", row), "K");
    tile_store(t, "dx -> Made[0, %s]", made);
    through_end(b, s, "dx", tile_text(t, "Yh[:, %s]", row), "S", "K", OF_READERS);
    tile_set(t, "dx", "dx * -erase_of_row");
    add_pairs(b, s, "dx", tile_text(t, "Z[%s, :] as [kv, q]", row), "K");
    add_pairs(b, s, "dx", tile_text(t, "Z[:, %s] as [q, kv]", row), "K");
    through_end(b, s, "at_end", tile_text(t, "Uh[:, %s]", row), "T", "K", OF_WRITERS);
    add_pairs(b, s, "at_end", tile_text(t, "R[:, %s]", row), "Q");
    tile_store(t, "dx + at_end -> Made[1, %s]", made);
}

static void round_of_channels(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t width = strip(b), strips = of_round(b) / width, warps = b->key_parts;
    const char *unit = tile_text(t, "(unit * %d + self / %d)", warps, w->row_groups);
    const Strip s = {tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS),
                     tile_text(t, "%s * %d +: %d", unit, width, width),
                     b->rounds == 1 ? tile_text(t, "%s * %d +: %d", unit, width, width)
                                    : tile_text(t, "round * %d + %s * %d +: %d", of_round(b), unit,
                                                width, width)};
    tile_for_range(t, "unit", "0", tile_text(t, "%d", (strips + warps - 1) / warps));
    if (strips % warps) tile_if(t, "%s < %d", unit, strips);
    strip_of_rows(b, &s);
    if (strips % warps) tile_end(t);
    tile_end(t);
}

/* Sums over all channels of the warp's. */
static void store_borders(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *row = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS),
               *part = tile_text(t, "self / %d", w->row_groups);
    tile_store(t, "of_readers -> Erases[1 + %s, %s]", part, row);
    if (!b->has_rate) return;
    tile_store(t, "of_queries -> Starts[%s, %s]", part, row);
    tile_store(t, "of_readers * -erase_of_row -> Starts[%d + %s, %s]", b->key_parts, part, row);
    tile_store(t, "of_writers -> Ends[%s, %s]", part, row);
    tile_set(t, "passed", "passed%s", lin_decays(&w->l) ? " * whole" : "");
    tile_store(t, "passed -> Passed[self]");
}

static void rounds(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    if (b->has_rate) tile_set(t, "passed", "0.0");
    tile_load(t, "erase_of_row", "E[%s +: %d]", lw_row(&b->w), LINEAR_ROWS);
    if (b->rounds > 1) tile_for_range(t, "round", "0", tile_text(t, "%d", b->rounds));
    warps_wait(&b->w.l.x, "ts");
    warps_wait(&b->w.l.x, "tt");
    tile_sync(t, "all");
    round_of_channels(b);
    passed(b);
    if (b->rounds > 1) {
        tile_sync(t, "all");
        issue_round(b, "round + 1");
        tile_end(t);
        warps_wait(&b->w.l.x, "ts");
        warps_wait(&b->w.l.x, "tt");
    }
    store_borders(b);
}

static void chunk(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lw_place_of_states(w, "place", "chunk");
    tile_set(t, "row", "%s + iota(kv:%d)", lw_row(w), LINEAR_ROWS);
    if (l->n->decay == AU_DECAY_CONSTANT) {
        lin_count(l);
        tile_set(t, "whole", "exp(f32(count) * rate)");
    }
    bring(b);
    tile_sync(t, "all");
    if (by_token(b)) {
        tile_load(t, "total", "G[%d]", l->chunk - 1);
        tile_set(t, "whole", "exp(total)");
    }
    lw_written_back(b);
    begin_maker(b, PAIRS_OF_QUERIES);
    lw_pairs_of_queries(b, true);
    tile_else(t);
    begin_maker(b, PAIRS_OF_KEYS);
    lw_key_back_pairs(b);
    for (uint32_t n = 0; n < 2; n++) tile_end(t);
    rounds(b);
    tile_sync(t, "all");
    rows_and_numbers(b);
}

void lw_apart_kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_back_arguments(l, "chunks", false);
    arguments(b);
    lw_chunks_grid(w);
    tile_resident(t, LINEAR_APART_BLOCKS);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    fragments(b);
    b->part = (LinearPart){NULL, tile_text(t, "0 +: %d", w->d), tile_text(t, "0 +: %d", w->e)};
    l->of_warps = &b->part;
    lw_begin_chunk(w);
    chunk(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}
