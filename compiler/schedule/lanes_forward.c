/* lanes_forward.c - forward, scores transposed: a lane holds whole query rows, keys pass as
 * broadcast numbers.
 *
 * S' = K Q' and O' = V' P': the accumulators have a key (or a channel of the values) a row in
 * registers and the queries along the lanes. So K and V are read row by row as they lie, nothing is
 * transposed, the weights are the second product's operand where they are, and row statistics are
 * vectors along the lanes that no exchange ever touches. A CPU core is one executor whose lanes are
 * the elements of its vectors, with K and V tiles on its stack (in its caches); on a GPU the
 * executors of a block share them in shared memory.
 *
 * Kernels: `k_rows`, `v_rows` (only if the script changes keys or values), `classes`, `compact`
 * (only for masks that depend on data: lanes_lists.c), `forward`. */
#include "rows.h"
#include "shapes.h"

#include <string.h>

static bool has_value_tile(const Lanes *x) { return x->own_v || x->values_beside; }

/* ---- further products of score_mod: dot(x[.., q_idx], y[.., kv_idx]) */

static void dot_memories(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *type = tile_text(x->t, "%s[kv:%d, p%u:%d]", x->held, x->shape->key_tile, n,
                                     lanes_dot_width(x->p, n));
        lanes_memory(x, tile_numbered(x->t, "K", n), type);
    }
}

static void dot_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *elem = lanes_elem(x, lanes_dot_tensor(x->p, n, false));
        const char *span = tile_text(t, "%s +: %d", lanes_first_row(x), x->rows);
        tile_frag(t, tile_numbered(t, "raw", n), "%s[p%u:%d, q:%d] @ %s.B", elem, n,
                  lanes_dot_width(x->p, n), x->rows, x->atom->name);
        tile_load(t, tile_numbered(t, "raw", n), "%v pad 0",
                  lanes_at(x, lanes_dot_rows(x, n, LANES_QUERIES, ":"), span));
        tile_set(t, tile_numbered(t, "query", n), "%s(raw%u)", x->held, n);
        tile_frag(t, tile_numbered(t, "dot", n), "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile,
                  x->rows, x->atom->name);
    }
}

/* ---- the kernel's parts, in the order of its text */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *k = tile_text(t, "%s[kv:%d, d:%d]", x->held, x->shape->key_tile, x->p->d);
    const char *v = tile_text(t, x->values_in_rows ? "%s[e:%d, kv:%d]" : "%s[kv:%d, e:%d]", x->held,
                              x->values_in_rows ? x->p->e : x->shape->key_tile,
                              x->values_in_rows ? x->shape->key_tile : x->p->e);
    lanes_memory(x, TILE_NAME("K"), k);
    if (has_value_tile(x)) lanes_memory(x, TILE_NAME("V"), v);
    dot_memories(x);
}

/* The executor's query rows, as operand B of the first product. */
static void load_query(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuHooks *h = x->p->hooks;
    const bool as_is = !h->has_q_mod && strcmp(x->held, x->operand) == 0;
    const char *loaded = as_is ? "query" : "raw";
    tile_frag(t, loaded, "%s[d:%d, q:%d] @ %s.B", x->operand, x->p->d, x->rows, x->atom->name);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    tile_load(t, loaded, "q[b, h, %s +: %d, :] pad 0", lanes_first_row(x), x->rows);
    if (as_is) return;
    if (!h->has_q_mod) {
        tile_set(t, "query", "%s(raw)", x->held);
        return;
    }
    tile_set(t, "c", "iota(d:%d)", x->p->d);
    tile_set(t, "query", "%s(q_mod(f32(raw), b, h, i, 0, c))", x->held);
}

static LanesRows value_rows(Lanes *x)
{
    return x->values_in_rows ? (LanesRows){"v_changed[b, hv, :, ", "]"}
                             : lanes_operand_rows(x, 2, ":");
}

/* One tile of keys. */
static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    AuAttn *a = x->p->attn;
    const AuHooks *h = x->p->hooks;
    lanes_copy_tile(x, LANES_KEYS, lanes_operand_rows(x, 1, ":"), TILE_NAME("K"));
    if (has_value_tile(x)) lanes_copy_tile(x, LANES_KEYS, value_rows(x), TILE_NAME("V"));
    for (uint32_t n = 0; n < h->dot_count; n++)
        lanes_copy_tile(x, LANES_KEYS, lanes_dot_rows(x, n, LANES_KEYS, ":"),
                        tile_numbered(t, "K", n));
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
    tile_product(t, "score", x->atom, TILE_START, "K", "query");
    for (uint32_t n = 0; n < h->dot_count; n++)
        tile_product(t, tile_numbered(t, "dot", n), x->atom, TILE_START, tile_text(t, "K%u", n),
                     tile_text(t, "query%u", n));
    lanes_scores(x);
    const char *values =
        has_value_tile(x) ? "V" : tile_text(t, "K[:, %d +: %d] as [kv, e]", a->v_first, x->p->e);
    tile_product(t, "acc", x->atom, TILE_ADD, values, lanes_weights(x));
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
}

static void forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_RANGE);
    lanes_core(x, memories);
    tile_frag(t, "score", "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile, x->rows, x->atom->name);
    tile_frag(t, "acc", "f32[e:%d, q:%d] @ %s.C = 0.0", x->p->e, x->rows, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    load_query(x);
    dot_queries(x);
    if (x->p->hooks->state_count)
        tile_set(t, lanes_states(x) + 2, "online_init(row_like, b, h, i)");
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    lanes_results(x);
    tile_store(t, "%s(out) -> o[b, h, %s +: %d, :] clip", x->operand, lanes_first_row(x), x->rows);
    lanes_store_finals(x);
    tile_end(t);
    tile_end(t);
}

/* Widths that are no multiples of what the atom contracts at once (a matrix unit, or pairs), and values that are
 * parts of keys at matrix units, go by multiply-adds of f32, and so do what does not fit the matrix units of warps
 * and few queries, for which values are not worth transposing. */
static const AuTileAtom *best_atom(const AuProblem *p, AuTileExecutor on)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, on);
    if (!atom || atom->k == 1) return atom;
    bool fits = p->d % atom->k == 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        fits = fits && lanes_dot_width(p, n) % atom->k == 0;
    if (atom->k > 2)
        fits = fits && on == TILE_ON_THREAD && p->queries != AU_FEW_QUERIES &&
               p->e % atom->m == 0 && !p->attn->v_in_k;
    return fits ? atom : tile_best_atom(p->caps, TILE_F32, on);
}

AuSchedule *schedule_lanes_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    AuSchedule *out = AU_NEW(arena, AuSchedule);
    out->shape = *shape;
    out->name = shape_text(arena, "lanes_forward", shape);
    Lanes x = {.t = schedule_begin(arena, diags, p, out),
               .p = p,
               .shape = shape,
               .out = out,
               .arena = arena};
    x.on_cpu = p->caps->has_private;
    x.longest_first = !x.on_cpu && p->attn->mask.i != 0;
    x.own_v = !p->attn->v_in_k || schedule_values_apart(p);
    x.rows = p->caps->lanes * shape->query_registers;
    x.block = x.rows * shape->executors;
    x.operand = tile_elem(p->operand)->name;
    x.atom = best_atom(p, lanes_executor(&x));
    x.held = x.atom && x.atom->k > 1 ? x.operand : "f32";
    x.values_in_rows = x.atom && x.atom->k > 2;
    x.values_beside = x.atom && x.atom->k == 2 && !x.own_v;
    if (!x.atom) {
        au_error(diags, AU_E0811, p->attn->span, "%s has no multiply-add of %s for this schedule",
                 p->caps->name, x.operand);
        return NULL;
    }
    if (p->hooks->needs_lists)
        tile_layout(x.t, "along_lanes", tile_text(x.t, "lane:%d@1", p->caps->lanes), NULL);
    lanes_rows_kernel(&x, 1);
    lanes_rows_kernel(&x, 2);
    if (p->hooks->needs_lists) lanes_list_kernels(&x);
    forward_kernel(&x);
    return lanes_built(&x, diags);
}

/* f32 numbers that the tiles hold for each key. */
static int32_t memory_of_a_key(const AuProblem *p)
{
    int32_t numbers = p->d + (p->attn->v_in_k && !schedule_values_apart(p) ? 0 : p->e);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) numbers += lanes_dot_width(p, n);
    return numbers;
}

/* Does a matrix unit of the core multiply? */
static bool has_matrix(const AuProblem *p)
{
    const AuTileAtom *atom = p->caps->has_private ? best_atom(p, TILE_ON_THREAD) : NULL;
    return atom && atom->k > 2;
}

/* Of a CPU: what the queries fill at least half. */
static int32_t block_rows(const AuProblem *p)
{
    switch (p->queries) {
    case AU_FEW_QUERIES: return 16;
    case AU_SOME_QUERIES: return 64;
    case AU_ANY_QUERIES:
    case AU_QUERIES: break;
    }
    return p->attn->mask.i || has_matrix(p) ? 128 : 256;
}

/* A CPU: 128 query rows a block share the cost of bringing K and V (256 where no mask makes border
 * tiles); blocks of products fill the vector registers (measured: docs/performance.md); fewer rows
 * where the fragments of wide heads would leave the L2. Tiles of 128 keys for matrix units, where the sums
 * that a product loads and stores cost more than it does. A GPU: a row a lane, tiles of
 * keys as large as shared memory allows. */
AuShape schedule_lanes_shape(const AuProblem *p)
{
    enum { MOST_NUMBERS = 512 }; /* so that tiles of wide heads leave room on a thread's stack */
    const AuTileCaps *caps = p->caps;
    AuShape s = {.executors = 1,
                 .key_tile = 64,
                 .product_rows = 6,
                 .product_columns = caps->has_private ? caps->registers / 8 : 4};
    if (!caps->has_private) {
        const int32_t row_bytes = 4 * memory_of_a_key(p);
        s.query_registers = 1;
        s.executors = 4;
        s.key_tile = 32;
        s.product_rows = 16;
        while (s.key_tile > 2 && s.key_tile * row_bytes > caps->shared_bytes) s.key_tile /= 2;
        return s;
    }
    if (has_matrix(p) && memory_of_a_key(p) <= MOST_NUMBERS) s.key_tile = 128;
    /* Queries (twice where they are converted), output, scores and those of further products, a few
     * row statistics. */
    const int32_t queries =
        memory_of_a_key(p) - (p->attn->v_in_k && !schedule_values_apart(p) ? 0 : p->e);
    const int32_t of_a_row = queries + (p->operand == TILE_F32 ? 0 : (queries + 1) / 2) + p->e +
                             s.key_tile * (1 + (int32_t)p->hooks->dot_count) + 32;
    s.query_registers = block_rows(p) / caps->lanes;
    while (s.query_registers > 1 && s.query_registers * of_a_row > caps->private_words)
        s.query_registers /= 2;
    if (s.product_columns > s.query_registers) s.product_columns = s.query_registers;
    if (p->queries == AU_FEW_QUERIES)
        s.key_tile = 32; /* keys, values and weights in the first cache */
    if (s.product_columns == 1) s.product_rows = 16; /* as many sums in flight */
    return s;
}

static int32_t rows_for(const AuProblem *p, AuQueries queries)
{
    AuProblem one = *p;
    one.queries = queries;
    return schedule_lanes_shape(&one).query_registers * p->caps->lanes;
}

/* Blocks between the smallest and the usual ones gain less than a third where those are 128 rows. */
int32_t schedule_lanes_limit(const AuProblem *p, AuQueries queries)
{
    const int32_t any = rows_for(p, AU_ANY_QUERIES), few = rows_for(p, AU_FEW_QUERIES);
    const bool some = 4 * rows_for(p, AU_SOME_QUERIES) <= any;
    if (!p->caps->has_private) return 0;
    switch (queries) {
    case AU_SOME_QUERIES: return some ? any / 2 : 0;
    case AU_FEW_QUERIES: return few >= any ? 0 : some ? 2 * few : any / 2;
    case AU_ANY_QUERIES:
    case AU_QUERIES: break;
    }
    return 0;
}
