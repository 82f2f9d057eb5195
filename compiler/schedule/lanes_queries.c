/* lanes_queries.c - dQ' by multiply-adds, as the forward kernel: a block owns queries, a lane holds whole rows, keys
 * pass as broadcast numbers.
 *
 *     S' = K Q'   dP' = V dO'   dQ' += K' dS'       queries along the lanes, keys in registers
 *
 * The same walk without the last product makes the sums over a row that some adjoints need (row_pass). Gradients of
 * inputs that are read by query are added here. */
#include "lanes_back.h"
#include "rows.h"

#include <string.h>

static void memory(Lanes *x, const char *name, const char *axis, int32_t width)
{
    lanes_memory(x, TILE_NAME(name),
                 tile_text(x->t, "f32[kv:%d, %s:%d]", x->shape->key_tile, axis, width));
}

static void memories(Lanes *x)
{
    memory(x, "K", "d", x->p->d);
    if (x->own_v) memory(x, "V", "e", x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        memory(x, tile_text(x->t, "K%u", n), tile_text(x->t, "p%u", n), lanes_dot_width(x->p, n));
}

/* Rows of the executor as operand B; f32. */
static void load_rows(Lanes *x, const char *name, const char *elem, const char *axis, int32_t width,
                      LanesRows view)
{
    const bool as_is = strcmp(elem, "f32") == 0;
    const char *loaded = as_is ? name : tile_text(x->t, "%s_raw", name);
    const char *rows = tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows);
    tile_frag(x->t, loaded, "%s[%s:%d, q:%d] @ %s.B", elem, axis, width, x->rows, x->atom->name);
    tile_load(x->t, loaded, "%v pad 0", lanes_at(x, view, rows));
    if (!as_is) tile_set(x->t, name, "f32(%s)", loaded);
}

static void head(Lanes *x, const char *name)
{
    AuTileBuild *t = x->t;
    tile_kernel(t, name);
    lanes_arguments(x);
    back_changed(x);
    if (x->p->hooks->needs_lists) lanes_list_arguments(x);
    back_statistics(x);
}

static void grid_of(Lanes *x, BackAxis axes[3])
{
    axes[0] =
        (BackAxis){"mb", tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), x->block), AU_AX_Q};
    axes[1] = (BackAxis){"h", lanes_axis(x, 0, 1), AU_AX_H};
    axes[2] = (BackAxis){"b", lanes_axis(x, 0, 0), AU_AX_B};
}

/* Gives the blocks to be ended. */
static uint32_t open(Lanes *x, BackSums sums)
{
    AuTileBuild *t = x->t;
    const char *heads = lanes_axis(x, 0, 1);
    BackAxis axes[3];
    grid_of(x, axes);
    back_grid(x, axes, 3, sums);
    lanes_core(x, memories);
    const uint32_t loops = back_loops(x, axes, 3, sums);
    tile_set(t, "hk", "h / (%s / %s)", heads, lanes_axis(x, 1, 1));
    if (x->own_v) tile_set(t, "hv", "h / (%s / %s)", heads, lanes_axis(x, 2, 1));
    return loops + 2;
}

/* A walk over the tiles of keys: of each, what is made of its pairs (some of which take no part), then the rest. */
typedef struct Walk {
    void (*pairs)(Lanes *x, bool masked);
    void (*rest)(Lanes *x);
} Walk;

static void begin_tile(Lanes *x);

static void walk_range(Lanes *x, const Walk *w)
{
    AuTileBuild *t = x->t;
    const int32_t n = x->shape->key_tile;
    const char *last = lanes_axis(x, 1, 2);
    tile_set(t, "n_low, f_low, f_high, n_high",
             "key_tiles(k_low, k_high, k_full_low, k_full_high, %s, %d)", last, n);
    tile_for_range(t, "n", "n_low", "n_high");
    begin_tile(x);
    tile_if(t, "n >= f_low && n < f_high");
    w->pairs(x, false);
    tile_else(t);
    w->pairs(x, true);
    tile_end(t);
    w->rest(x);
    tile_end(t);
}

static void walk_lists(Lanes *x, const Walk *w)
{
    static const char *const lists[] = {"partial", "full"};
    AuTileBuild *t = x->t;
    const char *h = lanes_list_by_head(x) ? "h" : "0";
    for (uint32_t n = 0; n < 2; n++) {
        tile_set(t, tile_text(t, "%s_many", lists[n]), "%s_count[b, %s, mb]", lists[n], h);
        tile_for_range(t, "item", "0", tile_text(t, "%s_many", lists[n]));
        tile_set(t, "n", "%s_index[b, %s, mb, item]", lists[n], h);
        begin_tile(x);
        w->pairs(x, n == 0);
        w->rest(x);
        tile_end(t);
    }
}

static void walk(Lanes *x, const Walk *w)
{
    tile_set(x->t, "k_low, k_high, k_full_low, k_full_high", "%s",
             lanes_range_of_rows(x, x->block));
    if (x->p->hooks->needs_lists)
        walk_lists(x, w);
    else
        walk_range(x, w);
}

/* Rows, statistics, scores of pairs. */
static void begin_rows(Lanes *x, bool adjoints)
{
    AuTileBuild *t = x->t;
    const char *pair =
        tile_text(t, "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile, x->rows, x->atom->name);
    load_rows(x, "query", x->operand, "d", x->p->d, lanes_operand_rows(x, 0, ":"));
    load_rows(x, "dO", x->operand, "e", x->p->e, lanes_rows(x, back_output_gradient(x), "h", ":"));
    tile_frag(t, "score", "%s", pair);
    tile_frag(t, "dp", "%s", pair);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        load_rows(x, tile_text(t, "query%u", n), lanes_elem(x, lanes_dot_tensor(x->p, n, false)),
                  tile_text(t, "p%u", n), lanes_dot_width(x->p, n),
                  lanes_dot_rows(x, n, LANES_QUERIES, ":"));
        tile_frag(t, tile_numbered(t, "dot", n), "%s", pair);
    }
    for (uint32_t n = 0; n < back_row_count(x, adjoints); n++)
        tile_load(t, back_row_variable(x, n), "%s[b, h, %s +: %d] like score pad 0",
                  back_row_name(x, n), lanes_first_row(x), x->rows);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
}

/* Copies of a tile of keys, and the products that pairs are made of. */
static void begin_tile(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_copy_tile(x, LANES_KEYS, lanes_operand_rows(x, 1, ":"), TILE_NAME("K"));
    if (x->own_v) lanes_copy_tile(x, LANES_KEYS, lanes_operand_rows(x, 2, ":"), TILE_NAME("V"));
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        lanes_copy_tile(x, LANES_KEYS, lanes_dot_rows(x, n, LANES_KEYS, ":"),
                        tile_numbered(t, "K", n));
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
    tile_product(t, "score", x->atom, TILE_START, "K", "query");
    tile_product(t, "dp", x->atom, TILE_START,
                 x->own_v ? "V"
                          : tile_text(t, "K[:, %d +: %d] as [kv, e]", x->p->attn->v_first, x->p->e),
                 "dO");
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        tile_product(t, tile_numbered(t, "dot", n), x->atom, TILE_START, tile_text(t, "K%u", n),
                     tile_text(t, "query%u", n));
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
}

static void declare_pair(Lanes *x, AuTileHandle name)
{
    tile_frag(x->t, name, "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile, x->rows, x->atom->name);
}

/* At indices with the key each pair is added, else the sum over the keys. */
static bool by_key(const Lanes *x, uint32_t n)
{
    return back_read_axes(x, &x->p->grads->pairs.at[n]) & AU_AX_KV;
}
static bool by_query(const Lanes *x, uint32_t n)
{
    return back_read_axes(x, &x->p->grads->pairs.at[n]) & AU_AX_Q;
}

static void results(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    const char *rows[64];
    for (uint32_t n = 0; n < back_row_count(x, true); n++) rows[n] = back_row_variable(x, n);
    tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, rows));
    if (masked) {
        const AuTileHandle unmasked = tile_set(t, "unmasked", "%s", lanes_unmasked(x));
        lanes_mask(x, TILE_NAME("ds"), unmasked);
        for (uint32_t n = 0; n < g->dot_count; n++)
            lanes_mask(x, tile_numbered(t, "ddot", n), unmasked);
        for (uint32_t n = 0; n < g->pairs.count; n++)
            if (by_query(x, n)) lanes_mask(x, tile_numbered(t, "value", n), unmasked);
    }
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (by_query(x, n) && !by_key(x, n))
            tile_set(t, tile_numbered(t, "total", n), "total%u + rowsum(value%u)", n, n);
}

static void add_pairs(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const AuInputGrad *g = &x->p->grads->pairs.at[n];
    const AuTileHandle value = tile_numbered(t, "value", n), sum = tile_numbered(t, "total", n);
    const char *inside = tile_text(t, "i < %s && j < %s", lanes_axis(x, 0, 2), lanes_axis(x, 1, 2));
    if (!back_is_alone(x, g)) {
        back_scatter(x, g, value, "ij", false, inside);
        return;
    }
    const char *view = back_scatter_view(x, g, "ij", false);
    tile_load(t, sum, "%s like score pad 0 when %s", view, inside);
    tile_store(t, "%v + %v -> %s when %s", sum, value, view, inside);
}

static void add_tile(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    tile_product(t, "dq_acc", x->atom, TILE_ADD, "K", "ds");
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t dot = back_dot(x, n);
        if (back_wants(x, lanes_dot_tensor(x->p, dot, false)))
            tile_product(t, tile_numbered(t, "dquery", n), x->atom, TILE_ADD,
                         tile_text(t, "K%u", dot), tile_text(t, "ddot%u", n));
    }
    back_name_pair(x);
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (by_query(x, n) && by_key(x, n)) add_pairs(x, n);
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
}

static void accumulators(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    declare_pair(x, TILE_NAME("p")), declare_pair(x, TILE_NAME("ds"));
    for (uint32_t n = 0; n < g->dot_count; n++) declare_pair(x, tile_numbered(t, "ddot", n));
    for (uint32_t n = 0; n < g->pairs.count; n++) declare_pair(x, tile_numbered(t, "value", n));
    tile_frag(t, "dq_acc", "f32[d:%d, q:%d] @ %s.C = 0.0", x->p->d, x->rows, x->atom->name);
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t dot = back_dot(x, n);
        if (back_wants(x, lanes_dot_tensor(x->p, dot, false)))
            tile_frag(t, tile_numbered(t, "dquery", n), "f32[p%u:%d, q:%d] @ %s.C = 0.0", dot,
                      lanes_dot_width(x->p, dot), x->rows, x->atom->name);
    }
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (by_query(x, n) && !by_key(x, n))
            tile_frag(t, tile_numbered(t, "total", n), "f32[q:%d] like score = 0.0", x->rows);
}

/* What was summed over the keys, where it was read. */
static void scatter(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t dot = back_dot(x, n), tensor = lanes_dot_tensor(x->p, dot, false);
        if (!back_wants(x, tensor)) continue;
        const LanesRows view = lanes_dot_rows_of(x, back_sum(x, tensor), dot, LANES_QUERIES, ":");
        tile_atomic_add(t, "dquery%u -> %v clip", n,
                        lanes_at(x, view, tile_text(t, "%s +: %d", lanes_first_row(x), x->rows)));
    }
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (by_query(x, n) && !by_key(x, n))
            back_scatter(x, &g->pairs.at[n], tile_numbered(t, "total", n), "i", false,
                         tile_text(t, "i < %s", lanes_axis(x, 0, 2)));
}

void lanes_dq(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool sum = back_has_rows(x, 0);
    head(x, "dq");
    back_argument(x, back_gradient(x, 0), TILE_OUT);
    for (uint32_t n = 0; n < x->p->attn->tensor_count; n++)
        if (back_sums_queries(x, n)) back_sum_argument(x, n, TILE_INOUT);
    const uint32_t blocks = open(x, BACK_SUMS_QUERIES);
    begin_rows(x, true);
    accumulators(x);
    walk(x, &(Walk){results, add_tile});
    const char *rows = tile_text(t, "%s +: %d", lanes_first_row(x), x->rows);
    if (sum)
        tile_store(t, "dq_acc -> dq_sum[b, h, %s, :] clip", rows);
    else
        tile_store(t, "%s(dq_acc) -> dq[b, h, %s, :] clip", x->operand, rows);
    scatter(x);
    for (uint32_t n = 0; n < blocks; n++) tile_end(t);
}

static void add_parts(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->grads->pass_count;
    const char *rows[64];
    AuText names = {.arena = x->arena};
    for (uint32_t n = 0; n < count; n++) au_text_add(&names, "%spart%u", n ? ", " : "", n);
    for (uint32_t n = 0; n < back_row_count(x, false); n++) rows[n] = back_row_variable(x, n);
    tile_set(t, au_text_str(&names), "%s", lanes_pair_hook(x, "backward_pass", false, rows));
    const AuTileHandle unmasked = TILE_NAME("unmasked");
    if (masked) tile_set(t, unmasked, "%s", lanes_unmasked(x));
    for (uint32_t n = 0; n < count; n++) {
        if (masked) lanes_mask(x, tile_numbered(t, "part", n), unmasked);
        tile_set(t, tile_numbered(t, "pass", n), "pass%u + rowsum(part%u)", n, n);
    }
}

static void end_tile(Lanes *x)
{
    if (lanes_shares_tiles(x)) tile_sync(x->t, "all");
}

void lanes_row_pass(Lanes *x)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->grads->pass_count;
    if (!count) return;
    head(x, "row_pass");
    for (uint32_t n = 0; n < count; n++) back_argument(x, tile_text(t, "pass_%u", n), TILE_OUT);
    const uint32_t blocks = open(x, BACK_SUMS_NOTHING);
    begin_rows(x, false);
    for (uint32_t n = 0; n < count; n++) {
        declare_pair(x, tile_numbered(t, "part", n));
        tile_frag(t, tile_numbered(t, "pass", n), "f32[q:%d] like score = 0.0", x->rows);
    }
    walk(x, &(Walk){add_parts, end_tile});
    for (uint32_t n = 0; n < count; n++)
        tile_store(t, "pass%u -> pass_%u[b, h, %s +: %d] clip", n, n, lanes_first_row(x), x->rows);
    for (uint32_t n = 0; n < blocks; n++) tile_end(t);
}
