/* lanes_keys.c - dK' and dV' by multiply-adds: a block owns keys, a lane holds whole keys, queries pass as
 * broadcast numbers.
 *
 *     S = Q K'   dP = dO V'   dV' += dO' P   dK' += Q' dS       keys along the lanes, queries in registers
 *
 * Queries and output gradients are read as they lie, from a tile in memory; P and dS are operands where they
 * were born. The heads of a group are a loop around the queries, so that dK' and dV' are sums in registers.
 * With dQ (CPU) see lanes_parts.c. */
#include "key_layout.h"
#include "lanes_back.h"

static void memories(Lanes *x)
{
    lanes_passing_memories(x);
    if (x->by_channel) lanes_across_memories(x);
    if (x->with_dq) lanes_query_memories(x);
}

/* ---- results of pairs: p, ds, ddots, values */

/* Statistics of rows are uniform numbers here: read where they are used. Sums of what pairs give belong to the same
 * run of assignments, so that nothing but the sums is stored. */
static void pairs(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    const char *rows[BACK_MOST_ROWS];
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        rows[n] = tile_text(t, "%s[%s]", back_row_name(x, n),
                            lanes_row_place(x, LANES_QUERIES, "h", "i"));
    tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, rows));
    if (masked) lanes_mask_pairs(x, !x->by_channel, !x->by_channel);
    for (uint32_t n = 0; n < x->p->grads->pairs.count && x->makes_dk; n++)
        if (lanes_is_summed(x, n))
            tile_set(t, tile_numbered(t, "total", n), "total%u + reduce_sum(value%u, q)", n, n);
    if (x->by_channel) lanes_across_pairs(x, masked);
}

/* ---- one tile of queries */

static void bring_tile(Lanes *x)
{
    lanes_copy_passing(x);
    if (x->by_channel) lanes_across_copies(x);
}

static void begin_pairs(Lanes *x) { lanes_pair_products(x, x->makes_dk); }

static void add_pairs(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool across = x->by_channel;
    if (x->makes_dv)
        tile_product(t, "dv_acc", x->atom, TILE_ADD,
                     across ? "dO_across" : lanes_passing_piece(x, "dO"), across ? "weight" : "p");
    if (x->makes_dk) {
        tile_product(t, "dk_acc", x->atom, TILE_ADD,
                     across ? "Q_across" : lanes_passing_piece(x, "Q"),
                     across ? "ds_operand" : "ds");
        lanes_dot_gradients(x);
    }
    if (x->with_dq) lanes_query_gradients(x);
}

/* ---- the kernel */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    const int32_t own = lanes_own_count(x);
    const char *atom = x->atom->name, *pair = lanes_pair_type(x);
    lanes_declare_own(x, TILE_NAME("key"), x->operand, "d", x->p->d);
    tile_frag(t, "score", "%s", pair);
    if (x->makes_dk) {
        lanes_declare_own(x, TILE_NAME("value"), x->operand, "e", x->p->e);
        tile_frag(t, "dp", "%s", pair);
    } else
        tile_frag(t, "dp", "%s = 0.0", pair); /* asked for by what is not used here */
    if (x->by_channel)
        lanes_across_declare(x, pair);
    else {
        tile_frag(t, "p", "%s", pair);
        tile_frag(t, "ds", "%s", pair);
    }
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        lanes_declare_own(x, lanes_term_name(x, "key", n),
                          lanes_elem(x, lanes_dot_tensor(x->p, n - 1, true)), term.axis,
                          term.width);
        tile_frag(t, term.score, "%s", pair);
    }
    if (x->makes_dk) tile_frag(t, "dk_acc", "f32[d:%d, kv:%d] @ %s.C = 0.0", x->p->d, own, atom);
    if (x->makes_dv) tile_frag(t, "dv_acc", "f32[e:%d, kv:%d] @ %s.C = 0.0", x->p->e, own, atom);
    if (x->with_dq) lanes_declare_query_gradients(x);
    for (uint32_t n = 0; n < g->dot_count; n++) {
        tile_frag(t, tile_numbered(t, "ddot", n), "%s", pair);
        if (x->makes_dk) lanes_declare_dot_gradient(x, n);
    }
    for (uint32_t n = 0; n < g->pairs.count; n++) {
        tile_frag(t, tile_numbered(t, "value", n), "%s", pair);
        if (x->makes_dk) lanes_declare_total(x, n);
    }
}

/* What is known only with the query head: keys of further products, values of other heads than the keys'. */
static void load_of_head(Lanes *x, bool values)
{
    AuTileBuild *t = x->t;
    if (values) {
        tile_set(t, "hv", "h / (%s / %s)", lanes_axis(x, 0, 1), lanes_axis(x, 2, 1));
        lanes_load_own(x, "value", x->operand, lanes_operand_rows(x, 2, ":"));
    }
    for (uint32_t n = 1; n < lanes_term_count(x); n++)
        lanes_load_own(x, lanes_term_name(x, "key", n).text,
                       lanes_elem(x, lanes_dot_tensor(x->p, n - 1, true)),
                       lanes_term_rows(x, n, LANES_KEYS, ":"));
}

static void grid_of(Lanes *x, uint32_t of, BackAxis axes[3])
{
    const char *blocks = tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 1, 2), lanes_block_keys(x));
    axes[0] = x->with_dq ? lanes_parts_axis(x) : (BackAxis){"nb", blocks, AU_AX_KV};
    axes[1] = (BackAxis){of == 1 ? "hk" : "hv", lanes_axis(x, of, 1), AU_AX_H};
    axes[2] = (BackAxis){"b", lanes_axis(x, 1, 0), AU_AX_B};
}

static void head(Lanes *x, uint32_t of)
{
    AuTileBuild *t = x->t;
    const bool dk = x->makes_dk, dv = x->makes_dv;
    static const char *const names[] = {"dv", "dk", "dkdv"};
    back_begin_kernel(x, names[dk + (dk && dv)]);
    back_statistics(x);
    if (x->p->hooks->needs_lists)
        lanes_query_list_arguments(x, x->shape->query_tile, lanes_block_keys(x));
    if (dk) lanes_gradient_argument(x, 1);
    if (dv) lanes_gradient_argument(x, 2);
    for (uint32_t n = 0; n < x->p->attn->tensor_count && dk; n++)
        if (back_sums_keys(x, n)) back_sum_argument(x, n, TILE_INOUT);
    if (x->by_channel) lanes_across_arguments(x, TILE_IN);
    if (x->with_dq) tile_arg(t, lanes_parts_name(0), TILE_INOUT, "%s", lanes_parts_type(x, 0));
    BackAxis axes[3];
    grid_of(x, of, axes);
    const BackSums sums = dk ? BACK_SUMS_KEYS : BACK_SUMS_NOTHING;
    if (x->with_dq) { /* by parts, whose sequences are an axis */
        back_grid(x, axes, 3, sums);
        lanes_let_key_length(x);
    } else
        back_row_grid(x, LANES_KEYS, lanes_block_keys(x), axes, sums, NULL);
    lanes_core(x, memories);
}

/* Keys, and values where all query heads of the block have the same. */
static void load_block(Lanes *x, uint32_t of)
{
    AuTileBuild *t = x->t;
    const bool together = back_heads_agree(x);
    const LanesRows keys = lanes_operand_rows(x, 1, ":");
    tile_set(t, "j", "%s + iota(kv:%d)", lanes_own_first(x), lanes_own_count(x));
    if (x->with_dq && !lanes_mask_by_head(x))
        lanes_load_key_rows(x);
    else if (of == 1 && !x->with_dq)
        lanes_load_own(x, "key", x->operand, keys);
    if (of == 1 && together && x->own_v) tile_set(t, "hv", "hk");
    if (of == 1 && together) lanes_load_own(x, "value", x->operand, lanes_operand_rows(x, 2, ":"));
}

static void walk_heads(Lanes *x, uint32_t of)
{
    AuTileBuild *t = x->t;
    const int32_t keys = lanes_block_keys(x);
    lanes_begin_heads(x, of);
    if (of == 2) {
        tile_set(t, "hk", "h / (%s / %s)", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
        lanes_load_own(x, "key", x->operand, lanes_operand_rows(x, 1, ":"));
    }
    if (x->with_dq && lanes_mask_by_head(x)) lanes_load_key_rows(x);
    load_of_head(x, of == 1 && !back_heads_agree(x));
    tile_set(t, "q_low, q_high, q_full_low, q_full_high",
             "query_range(b, h, nb * %d, min(nb * %d + %d, %s))", keys, keys, keys,
             lanes_key_end(x));
    /* Keys past the end would add to dQ; of padded ones, to gradients that are stored. */
    const bool padded = x->p->attn->keys.layout == AU_LAYOUT_PADDED;
    const char *whole = x->with_dq || padded
                            ? tile_text(t, " && nb * %d + %d <= %s", keys, keys, lanes_key_end(x))
                            : NULL;
    lanes_walk(x, &(LanesWalk){whole, bring_tile, begin_pairs, pairs, add_pairs});
    if (x->makes_dk) lanes_scatter(x, true);
    tile_end(t);
}

void lanes_dkdv(Lanes *x, bool dk, bool dv)
{
    AuTileBuild *t = x->t;
    const uint32_t of = dk ? 1 : 2; /* whose heads blocks have */
    x->own = LANES_KEYS, x->makes_dk = dk, x->makes_dv = dv;
    head(x, of);
    fragments(x);
    BackAxis axes[3];
    grid_of(x, of, axes);
    const uint32_t loops = back_loops(x, axes, 3, dk ? BACK_SUMS_KEYS : BACK_SUMS_NOTHING);
    if (dk && loops) tile_set(t, "dk_acc", "fill(dk_acc, 0.0)");
    if (dv && loops) tile_set(t, "dv_acc", "fill(dv_acc, 0.0)");
    if (x->with_dq) lanes_begin_parts(x);
    load_block(x, of);
    walk_heads(x, of);
    if (dk) lanes_store_gradient(x, 1, "hk");
    if (dv) lanes_store_gradient(x, 2, of == 1 ? "hk" : "hv");
    for (uint32_t n = 0; n < loops + x->with_dq + 2; n++) tile_end(t);
}
