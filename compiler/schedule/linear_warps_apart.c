/* linear_warps_apart.c - gradients with feedback `key`, apart: the kernel `chunks`, which makes of the state S before a chunk, the gradient T
 * of that behind it, U and y, all kept by the kernels that are chains, what the rows of the chunk get (linear_warps_key_back.c). Chunks do
 * not wait for each other, so each has a block. Were there a loop over some of them, all addresses of tensors whose channels do not lie side
 * by side, of a branch that other calls do not take, would be made before it, and spilled.
 *
 *     queries                     readers                 writers             the rest, of 16 rows each
 *     R = dO U' kept                                      Z = e (y U') kept                                 barrier
 *     (dO S') since + R K         e (y S') since          (U T') until        whole <S, T>                  barrier
 *                                 + Z K + Z' K            + R' Q
 *
 * Then all take rows through their slots, some each, with channels along the lanes, and put sums for decays and strengths together. */
#include "linear_warps.h"

enum {
    HALVINGS = 24, /* of as many sequences as there may be */
    STRIP = 32,
    ROWS_AT_ONCE = 4,
    APART = 8, /* numbers between rows in memory: those of a fragment lie in banks of their own */
};

static bool by_token(const LinearBack *b) { return lin_decays_by_token(&b->w.l); }

static void arguments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    lw_states_argument(w, TILE_IN);
    lw_kept_argument(w, "dstates", TILE_IN, false);
    lw_kept_argument(w, "updates", TILE_IN, true);
    lw_kept_argument(w, "solutions", TILE_IN, true);
    lw_numbers_argument(w, TILE_IN);
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    const int32_t c = l->chunk;
    lw_memories(w);
    warps_tile(&l->x, TILE_NAME("D"), "q", c, "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("S"), "d", w->d, "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("T"), "d", w->d, "e", w->e, 1);
    warps_tile(&l->x, TILE_NAME("Uh"), "e", w->e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Yh"), "e", w->e, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("R"), "q", c, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Z"), "q", c, "kv", c, 1);
    tile_shared(l->x.t, "Made", "f32[p:3, kv:%d, d:%d]", c, w->d + APART);
    lw_gates_memories(b);
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

/* Channels of keys that a product has at once: so code and registers do not grow with them. */
static int32_t strip(const LinearWarps *w) { return w->d % STRIP ? LINEAR_ROWS : STRIP; }

/* Rows, of those that a warp has brought, whose gradients go through their slots at once. */
static int32_t rows_at_once(const LinearWarps *w)
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
    tile_frag(t, "dx", "f32[kv:%d, d:%d] @ %s.C", rows, strip(w), atom);
    tile_frag(t, "own", "%s[kv:%d, d:%d] like dx", l->x.operand, rows, strip(w));
    tile_frag(t, "border", "f32[kv:%d] like dx = 0.0", rows);
    tile_frag(t, "row_dx", "f32[d:%d, kv:%d] @ across_d", w->d, rows_at_once(w));
    tile_frag(t, "row_end", "f32[d:%d, kv:%d] @ across_d", w->d, rows_at_once(w));
    tile_frag(t, "solution", "%s[e:%d, kv:%d] @ across_e", l->x.operand, w->e, rows_at_once(w));
    tile_frag(t, "strength_of_value", "f32[kv:%d] like solution", rows_at_once(w));
    tile_frag(t, "erase", "f32[q:%d] like score", rows);
    tile_frag(t, "erase_of_row", "f32[kv:%d] like dx", rows);
    if (b->has_rate) {
        tile_frag(t, "old", "%s[d:%d, e:%d] @ %s.C", l->x.operand, rows, w->e, atom);
        tile_frag(t, "behind", "%s[d:%d, e:%d] @ %s.C", l->x.operand, rows, w->e, atom);
    }
    if (by_token(b)) {
        tile_frag(t, "since", "f32[q:%d] like score", rows);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", c);
        tile_frag(t, "of_dx", "f32[kv:%d] like dx", rows);
    }
    if (lin_decays(l)) tile_frag(t, "kept", "f32[q:%d, kv:%d] like score", rows, c);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    lw_declare(w);
}

/* Of a warp's rows: what is between is for warps of that role, else for those behind. */
typedef enum Role { QUERIES, READERS, WRITERS } Role;

static void begin_role(LinearBack *b, Role role)
{
    tile_if(b->w.l.x.t, "self / %d == %d", b->w.row_groups, (int)role);
}

/* ---- copies */

static void issue_kept(LinearBack *b, const char *token, const char *tensor, const char *tile,
                       int32_t rows)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t share = rows / b->w.l.x.shape->executors;
    warps_issue(&b->w.l.x, TILE_NAME(token),
                tile_part(t, "%s[b, h, place, self * %d +: %d, :]", tensor, share, share),
                tile_part(t, "%s[self * %d +: %d, :]", tile, share, share));
}

static void bring(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    static const char *const tokens[] = {"td", "tu", "ty"};
    lw_issue(w, "chunk", "");
    warps_issue(&w->l.x, TILE_NAME("td"),
                tile_part(t,
                          "do[b, h, start + chunk * %d + self * %d +: %d from start to end, 0 +: "
                          "%d]",
                          w->l.chunk, w->share, w->share, w->e),
                tile_part(t, "D[self * %d +: %d, :]", w->share, w->share));
    issue_kept(b, "tu", "updates", "Uh", w->e);
    issue_kept(b, "ty", "solutions", "Yh", w->e);
    issue_kept(b, "ts", "states", "S", w->d);
    issue_kept(b, "tt", "dstates", "T", w->d);
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    for (uint32_t n = 0; n < sizeof tokens / sizeof *tokens; n++) warps_wait(&w->l.x, tokens[n]);
}

/* ---- of the warps of values */

/* What passes the chunk: a share of the channels. */
static void passed(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t units = w->d / LINEAR_ROWS, turns = (units + w->row_groups - 1) / w->row_groups;
    const char *own = tile_text(t, "self %% %d", w->row_groups),
               *unit = tile_text(t, "(turn * %d + %s)", w->row_groups, own);
    if (!b->has_rate) return;
    tile_set(t, "passed", "0.0");
    tile_for_range(t, "turn", "0", tile_text(t, "%d", turns));
    if (units % w->row_groups) tile_if(t, "%s < %d", unit, units);
    tile_load(t, "old", "S[%s * %d +: %d, :]", unit, LINEAR_ROWS, LINEAR_ROWS);
    tile_load(t, "behind", "T[%s * %d +: %d, :]", unit, LINEAR_ROWS, LINEAR_ROWS);
    tile_set(t, "passed", "passed + reduce_sum(f32(old) * f32(behind), d, e)");
    if (units % w->row_groups) tile_end(t);
    tile_end(t);
    tile_set(t, "passed", "passed%s", lin_decays(&w->l) ? " * whole" : "");
    tile_store(t, "passed -> Passed[%s]", own);
}

/* ---- rows through their slots, some of those that the warp has brought, along the lanes: "self * 4 + turn * 4 +: 4" */

static const char *begin_rows(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t rows = rows_at_once(w);
    const char *first = tile_text(t, "self * %d + turn * %d", w->share, rows);
    b->rows = rows, b->first_row = first;
    b->part.rows = tile_text(t, "first + %s +: %d", first, rows);
    tile_for_range(t, "turn", "0", tile_text(t, "%d", w->share / rows));
    tile_set(t, "t", "first + %s + iota(kv:%d)", first, rows);
    return tile_text(t, "%s +: %d", first, rows);
}

/* The rows of values as they are written, in `value`. */
static void load_values(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_V];
    tile_frag(t, "raw_value", "%s[e:%d, kv:%d] @ across_e%s",
              s->held.i ? lin_elem(l, s->held) : "f32", w->e, b->rows, s->held.i ? "" : " = 0.0");
    if (s->held.i)
        tile_load(
            t, "raw_value", "%s pad 0",
            lin_view(l, s->held, "kv", "e", lin_columns(l, s->held, "0", w->e), b->part.rows));
    if (s->name)
        tile_set(t, "value", "%s(f32(raw_value), b, h, t, c)", s->name);
    else
        tile_set(t, "value", "f32(raw_value)");
    tile_set(t, "value", "where(t < end, value, 0.0)");
}

static void values(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *rows = begin_rows(b);
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
    if (lin_has(l, AU_SLOT_SKIP)) {
        tile_frag(t, "given", "%s[e:%d, kv:%d] @ across_e", l->x.operand, w->e, b->rows);
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
    const char *rows = begin_rows(b);
    tile_set(t, "c_d", "iota(d:%d)", w->d);
    for (uint32_t of_keys = 0; of_keys < 2; of_keys++) {
        tile_load(t, "row_dx", "Made[%u, %s, 0 +: %d] as [kv, d]", of_keys, rows, w->d);
        if (of_keys) {
            tile_load(t, "row_end", "Made[2, %s, 0 +: %d] as [kv, d]", rows, w->d);
            tile_set(t, "row_dx", "row_dx + row_end");
        }
        lw_gradient(b, of_keys ? AU_SLOT_K : AU_SLOT_Q, "row_dx", "row_dx");
    }
    lw_gates_back(b);
    tile_end(t);
}

/* ---- 16 rows of queries, and of keys as readers and as writers, strip after strip of channels */

/* Through the state at one end, [of], which [given], rows of it as an operand, belong to; border: what the rows, [own], have by that. */
static const char *begin_strips(LinearBack *b, const char *given, const char *of, bool until,
                                const char *own)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = tile_text(t, "strip * %d +: %d", strip(w), strip(w));
    tile_set(t, "border", "fill(border, 0.0)");
    tile_for_range(t, "strip", "0", tile_text(t, "%d", w->d / strip(w)));
    tile_product(t, "dx", l->x.atom, TILE_START, given, tile_text(t, "%s[%s, :]", of, columns));
    const char *kept = lw_kept_of_rows(b, until, "of_dx");
    if (*kept) tile_set(t, "dx", "dx%s", kept);
    tile_load(t, "own", "%s[%s, %s] as [kv, d]", own, lw_own_rows(b), columns);
    tile_set(t, "border", "border + reduce_sum(f32(own) * dx, d)");
    return columns;
}

static void end_strips(LinearBack *b, int32_t made, const char *columns)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_store(t, "dx -> Made[%d, %s +: %d, %s]", made, lw_row(&b->w), LINEAR_ROWS, columns);
    tile_end(t);
}

static void add_pairs(LinearBack *b, const char *pairs, const char *rows, const char *columns)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_product(t, "dx", w->l.x.atom, TILE_ADD, pairs,
                 tile_text(t, "%s[:, %s] as [q, d]", rows, columns));
}

static void store_border(LinearBack *b, const char *value, const char *to)
{
    if (b->has_rate)
        tile_store(b->w.l.x.t, "%s -> %s, %s +: %d]", value, to, lw_row(&b->w), LINEAR_ROWS);
}

static void queries(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *row = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS),
               *columns =
                   begin_strips(b, tile_text(t, "D[%s, :] as [kv, e]", row), "S", false, "Q");
    add_pairs(b, tile_text(t, "R[%s, :] as [kv, q]", row), "K", columns);
    end_strips(b, 0, columns);
    store_border(b, "border", "Starts[0");
}

static void readers(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *row = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS);
    tile_load(t, "erase_of_row", "E[%s]", row);
    const char *columns = begin_strips(b, tile_text(t, "Yh[:, %s]", row), "S", false, "K");
    tile_set(t, "dx", "dx * -erase_of_row");
    add_pairs(b, tile_text(t, "Z[%s, :] as [kv, q]", row), "K", columns);
    add_pairs(b, tile_text(t, "Z[:, %s] as [q, kv]", row), "K", columns);
    end_strips(b, 1, columns);
    tile_store(t, "border -> Erases[1, %s]", row);
    store_border(b, "border * -erase_of_row", "Starts[1");
}

static void writers(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *row = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS),
               *columns = begin_strips(b, tile_text(t, "Uh[:, %s]", row), "T", true, "K");
    tile_product(t, "dx", w->l.x.atom, TILE_ADD, tile_text(t, "R[:, %s]", row),
                 tile_text(t, "Q[:, %s]", columns));
    end_strips(b, 2, columns);
    store_border(b, "border", "Ends[0");
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
    values(b);
    begin_role(b, QUERIES);
    lw_pairs_of_queries(b, true);
    tile_else(t);
    begin_role(b, WRITERS);
    lw_key_back_pairs(b);
    for (uint32_t n = 0; n < 2; n++) tile_end(t);
    warps_wait(&l->x, "ts");
    warps_wait(&l->x, "tt");
    tile_sync(t, "all");
    begin_role(b, QUERIES);
    queries(b);
    tile_else(t);
    begin_role(b, READERS);
    readers(b);
    tile_else(t);
    begin_role(b, WRITERS);
    writers(b);
    tile_else(t);
    passed(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
    tile_sync(t, "all");
    rows_and_numbers(b);
}

/* The grid's place among all chunks: the sequence's number, n, and the chunk's in it. Packed sequences begin where lw_place_of_states says,
 * so that n is the last one that begins there or before. */
static void find_chunk(LinearBack *b)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const char *each = tile_text(t, "cdiv(%s, %d)", l->tokens, l->chunk);
    tile_set(t, "n", "where($cu_seqlens_count > 0, 0, item / max(%s, 1))", each);
    tile_set(t, "above", "$cu_seqlens_count - 1");
    tile_for_range(t, "turn", "0", tile_text(t, "where($cu_seqlens_count > 2, %d, 0)", HALVINGS));
    tile_set(t, "middle", "(n + above) / 2");
    tile_load(t, "begins", "cu_seqlens[middle] pad 0");
    tile_set(t, "is_before", "clamp(begins, 0, %s) / %d + middle <= item && middle < above",
             l->tokens, l->chunk);
    tile_set(t, "above", "where(is_before, above, middle)");
    tile_set(t, "n", "where(is_before, middle, n)");
    tile_end(t);
    lin_find_sequence(l);
    tile_set(t, "chunk", "where($cu_seqlens_count > 0, item - start / %d - n, item %% max(%s, 1))",
             l->chunk, each);
    tile_set(t, "first", "start + chunk * %d", l->chunk);
}

void lw_apart_kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_back_arguments(l, "chunks", false);
    arguments(b);
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_grid(t, "item: %s * cdiv(%s, %d) + %s - %s, h: %s", batch, l->tokens, l->chunk,
              lin_sequences(l), batch, l->heads);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    find_chunk(b);
    fragments(b);
    b->part = (LinearPart){NULL, tile_text(t, "0 +: %d", w->d), tile_text(t, "0 +: %d", w->e)};
    l->of_warps = &b->part;
    tile_if(t, "chunk >= 0 && chunk < cdiv(length, %d)", l->chunk);
    chunk(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}
