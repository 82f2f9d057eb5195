/* lanes_queries.c - dQ' by multiply-adds, as the forward kernel: a block owns queries, a lane holds whole rows, keys
 * pass as broadcast numbers.
 *
 *     S' = K Q'   dP' = V dO'   dQ' += K' dS'       queries along the lanes, keys in registers
 *
 * The same walk without the last product makes the sums over a row that some adjoints need (row_pass). Gradients of
 * inputs that are read by query are added here. */
#include "key_layout.h"
#include "lanes_back.h"

/* Rows of the executor as operand B; f32. */
static void load_rows(Lanes *x, AuTileHandle name, const char *elem, const char *axis,
                      int32_t width, LanesRows view)
{
    tile_frag(x->t, lanes_own_raw(x, name.text, elem), "%s%s", elem,
              lanes_own_type(x, axis, width));
    lanes_load_own(x, name.text, elem, view);
}

static void head(Lanes *x, const char *name)
{
    x->own = LANES_QUERIES;
    back_begin_kernel(x, name);
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
    back_row_grid(x, LANES_QUERIES, x->block, axes, sums, NULL);
    lanes_core(x, lanes_passing_memories);
    const uint32_t loops = back_loops(x, axes, 3, sums);
    tile_set(t, "hk", "h / (%s / %s)", heads, lanes_axis(x, 1, 1));
    if (x->own_v) tile_set(t, "hv", "h / (%s / %s)", heads, lanes_axis(x, 2, 1));
    return loops + 2;
}

static void walk(Lanes *x, const LanesWalk *w)
{
    tile_set(x->t, "k_low, k_high, k_full_low, k_full_high", "%s",
             lanes_range_of_rows(x, x->block));
    lanes_walk(x, w);
}

static void declare_pair(Lanes *x, AuTileHandle name)
{
    tile_frag(x->t, name, "%s", lanes_pair_type(x));
}

/* Rows, statistics, scores of pairs. */
static void begin_rows(Lanes *x, bool adjoints)
{
    AuTileBuild *t = x->t;
    load_rows(x, TILE_NAME("query"), x->operand, "d", x->p->d, lanes_operand_rows(x, 0, ":"));
    load_rows(x, TILE_NAME("dO"), x->operand, "e", x->p->e,
              lanes_rows(x, back_output_gradient(x), "h", ":"));
    declare_pair(x, TILE_NAME("score")), declare_pair(x, TILE_NAME("dp"));
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        load_rows(x, lanes_term_name(x, "query", n),
                  lanes_elem(x, lanes_dot_tensor(x->p, n - 1, false)), term.axis, term.width,
                  lanes_term_rows(x, n, LANES_QUERIES, ":"));
        declare_pair(x, TILE_NAME(term.score));
    }
    back_load_statistics(x, adjoints);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
}

/* The products that pairs are made of. */
static void begin_pairs(Lanes *x) { lanes_pair_products(x, true); }

/* At indices with the key each pair is added, else the sum over the keys. */
static bool is_of_pairs(const Lanes *x, uint32_t n)
{
    return lanes_has_value(x, n) && !lanes_is_summed(x, n);
}

static void results(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, NULL));
    if (masked) lanes_mask_pairs(x, false, true);
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (lanes_is_summed(x, n))
            tile_set(t, tile_numbered(t, "total", n), "total%u + rowsum(value%u)", n, n);
}

static void add_pairs(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const AuInputGrad *g = &x->p->grads->pairs.at[n];
    const AuTileHandle value = tile_numbered(t, "value", n), sum = tile_numbered(t, "total", n);
    const char *inside = tile_text(t, "i < %s && j < %s", lanes_query_end(x), lanes_key_end(x));
    if (!back_is_alone(x, g)) {
        back_scatter(x, g, value, "ij", false, inside);
        return;
    }
    const char *view = back_scatter_view(x, g, "ij", false);
    tile_load(t, sum, "%s like score pad 0 when %s", view, inside);
    tile_store(t, "%v + %v -> %s when %s", sum, value, view, inside);
}

static void add_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    tile_product(t, "dq_acc", x->atom, TILE_ADD, lanes_passing_piece(x, "K"), "ds");
    lanes_dot_gradients(x);
    back_name_pair(x);
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (is_of_pairs(x, n)) add_pairs(x, n);
}

static void accumulators(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    declare_pair(x, TILE_NAME("p")), declare_pair(x, TILE_NAME("ds"));
    for (uint32_t n = 0; n < g->dot_count; n++) declare_pair(x, tile_numbered(t, "ddot", n));
    for (uint32_t n = 0; n < g->pairs.count; n++) declare_pair(x, tile_numbered(t, "value", n));
    tile_frag(t, "dq_acc", "f32[d:%d, q:%d] @ %s.C = 0.0", x->p->d, x->rows, x->atom->name);
    for (uint32_t n = 0; n < g->dot_count; n++) lanes_declare_dot_gradient(x, n);
    for (uint32_t n = 0; n < g->pairs.count; n++) lanes_declare_total(x, n);
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
    walk(x, &(LanesWalk){.bring = lanes_copy_passing,
                         .begin = begin_pairs,
                         .pairs = results,
                         .rest = add_gradients});
    if (sum)
        tile_store(t, "dq_acc -> dq_sum[%s, :] clip", lanes_query_place(x));
    else
        tile_store(t, "%s(dq_acc) -> dq[%s, :] clip", x->operand, lanes_query_place(x));
    lanes_scatter(x, false);
    for (uint32_t n = 0; n < blocks; n++) tile_end(t);
}

static void add_parts(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->grads->pass_count;
    lanes_row_parts(x);
    const AuTileHandle unmasked = TILE_NAME("unmasked");
    if (masked) tile_set(t, unmasked, "%s", lanes_unmasked(x));
    for (uint32_t n = 0; n < count; n++) {
        if (masked) lanes_mask(x, tile_numbered(t, "part", n), unmasked);
        tile_set(t, tile_numbered(t, "pass", n), "pass%u + rowsum(part%u)", n, n);
    }
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
    walk(x, &(LanesWalk){.bring = lanes_copy_passing, .begin = begin_pairs, .pairs = add_parts});
    for (uint32_t n = 0; n < count; n++)
        tile_store(t, "pass%u -> pass_%u[%s] clip", n, n, lanes_query_place(x));
    for (uint32_t n = 0; n < blocks; n++) tile_end(t);
}
