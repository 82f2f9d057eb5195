/* warps_backward.c - dK, dV and dQ on the matrix units of a warp: a block owns keys and walks over tiles of queries.
 *
 * Scores are recomputed transposed, S' = K Q' and dP' = V dO', with the keys of a warp as rows: the weights P' and dS' are then
 * operand A of dV += P' dO and dK += dS' Q as they lie. Only dS goes through shared memory, for dQ = dS K, of which each warp makes
 * a piece, added to f32 sums in memory (workspace, zeroed before). Statistics of rows (finals, their adjoints) lie beside the
 * queries in shared memory, a number a column.
 *
 * Wide heads: the accumulators of dK and dV do not fit the registers of one warp. Then several warps share their keys: each
 * computes a part of the columns of S', all put P' and dS' into shared memory, and each accumulates a part of the channels.
 *
 * Where a warp has its keys for itself, dQ is made a tile late, from the other of two buffers of dS: then one barrier orders all, and
 * the sums of dQ go out under the products of the next tile.
 *
 * Queries and output gradients come by asynchronous copies, a tile ahead with two stages, under the product dQ with one. Heads of a
 * group are a loop around it all, so that dK and dV are sums in registers; where they have values or masks of their own, each has
 * its blocks, which add to sums in memory. Where values are channels of the keys, dO is put where those channels are, with zeros
 * beside it, and one accumulator takes both products.
 *
 * Where operands come straight from tensors (shape: far) there are no tiles, no copies and no barriers: Q and dO are operand B of both their
 * products, which the unit loads in either order. dQ has a kernel of its own then (warps_queries.c), since dS would have to be turned. */
#include "lanes_back.h"

/* ---- one tile of queries */

/* Nothing is copied and nobody waits: the next tile is asked for while this one is computed on. */
static void step_of_far_operands(Lanes *x)
{
    if (x->p->caps->loads & TILE_LOADS_BLOCK) warps_ask_for_queries(x, "next(m)");
    warps_walk_pairs(x);
}

static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool ahead = warps_are_async(x), two = x->shape->stages > 1;
    const bool passing = warps_back_passes(x), early = passing && warps_passes_ahead(x->p);
    if (passing && !early) warps_load_queries(x, "m");
    if (ahead)
        tile_wait(t, warps_query_tokens(x));
    else if (passing)
        warps_store_queries(x);
    else
        warps_issue_queries(x, "m", "");
    tile_sync(t, "all"); /* the tile is here, and nobody reads the one before or dS any more */
    if (warps_dq_is_late(x)) warps_query_gradients(x);
    if (early) warps_load_queries(x, "next(m)");
    if (!warps_is_split(x)) warps_issue_next(x);
    warps_walk_pairs(x);
    if (warps_dq_is_late(x)) {
        tile_set(t, "at", "1 - at");
        tile_set(t, "late_m", "m");
        tile_set(t, "late_h", "h");
        return;
    }
    tile_sync(t, "all"); /* all of dS (and P) is here */
    if (warps_is_split(x)) warps_key_gradients(x, ":");
    if (warps_is_split(x) && !two) tile_sync(t, "all");
    if (ahead && !two) warps_issue_queries(x, "next(m)", "");
    if (x->with_dq) warps_query_gradients(x);
    if (!ahead) tile_sync(t, "all");
    if (two) tile_set(t, "at", "1 - at");
}

/* ---- the kernel */

static void fragments(Lanes *x)
{
    const WarpsPieces piece = warps_dq_pieces(x, warps_keys_width(x));
    warps_back_fragments(x, (WarpsBackTiles){.queries = warps_pair_columns(x),
                                             .d = warps_part_of(x, warps_keys_width(x)),
                                             .e = warps_part_of(x, warps_values_width(x)),
                                             .dq_rows = x->shape->far ? 0 : piece.rows,
                                             .dq_channels = piece.channels});
}

static void walk_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool ahead = warps_are_async(x);
    if (x->shape->stages > 1) tile_set(t, "at", "0");
    if (warps_dq_is_late(x)) warps_begin_late(x);
    warps_open_heads(x);
    warps_issue_dot_keys(x);
    if (ahead) warps_issue_queries(x, "first(queries)", warps_stage(x, false));
    if (warps_back_passes(x) && warps_passes_ahead(x->p)) warps_load_queries(x, "first(queries)");
    if (x->shape->far) tile_if(t, "q_low < q_high"); /* no surface is empty */
    tile_for_tiles(t, "m", "queries", NULL);
    (x->shape->far ? step_of_far_operands : step)(x);
    tile_end(t);
    if (x->shape->far) {
        tile_end(t);
    } else {
        warps_wait(x, warps_query_tokens(x));
        tile_sync(t,
                  "all"); /* before copies for the next head, and before K and V hold gradients */
    }
    warps_begin_once(x);
    warps_add_totals(x);
    warps_end_once(x);
    warps_add_dot_keys(x, tile_text(t, "nb * %d + %s +: %d", x->block, warps_own_keys(x), x->rows));
    warps_end_heads(x);
    if (warps_dq_is_late(x)) warps_end_late(x);
}

/* As the tensor's own elements they go through the tiles of keys and values, which nobody reads any more. */
static void store_gradient(Lanes *x, uint32_t n, const char *tile, int32_t padded)
{
    const char *columns =
        tile_text(x->t, "%s +: %d", warps_part_from(x, padded), warps_part_of(x, padded));
    const AuTileHandle past = {NULL};
    warps_store_gradient(x, n, columns,
                         warps_keys_are_direct(x) ? past
                                                  : tile_part(x->t, "%s[%s +: %d, %s]", tile,
                                                              warps_own_keys(x), x->rows, columns));
}

static void dkdv(Lanes *x)
{
    AuTileBuild *t = x->t;
    warps_back_head(x);
    warps_back_memories(x);
    fragments(x);
    if (!x->shape->far) warps_issue_keys(x);
    const bool some = warps_begin_keys(x);
    if (x->shape->keys_in_registers) warps_hold_keys(x);
    if (warps_turned_keys_are_held(x)) warps_hold_turned_keys(x);
    warps_clear_other_channels(x);
    walk_queries(x);
    if (some) tile_end(t);
    warps_end_weights(x);
    store_gradient(x, 1, "K", warps_keys_width(x));
    if (x->own_v) store_gradient(x, 2, "V", warps_values_width(x));
    if (warps_is_split(x))
        tile_sync(t, "all"); /* before copies of other keys, in a persistent kernel */
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_warps_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "warps_backward", shape,
                                   schedule_warps_back_refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_back_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    warps_back_layouts(&x);
    warps_totals_layout(&x);
    if (warps_back_passes(&x)) warps_pass_tiles(&x);
    if (warps_is_paced(&x)) tile_set_option(x.t, "paced", warps_paced(&x));
    AuShape of_queries;
    Lanes y = x; /* kernels whose blocks own queries */
    const bool own_queries =
        (p->grads->pass_count || !x.with_dq) &&
        (shape->far ? warps_far_queries_shape : warps_queries_shape)(p, &of_queries);
    x.item_rows[LANES_QUERIES] = shape->query_tile;
    if (own_queries) y = warps_back_of_queries(&x, &of_queries);
    back_work_kernels(&x);
    back_before(&x);
    if (own_queries) {
        if (p->hooks->needs_lists) lanes_list_kernels(&y);
        warps_row_pass(&y);
    }
    if (p->hooks->needs_lists) lanes_query_lists(&x, shape->query_tile, x.block);
    back_adjoints(&x);
    dkdv(&x);
    if (!x.with_dq) warps_dq(&y);
    back_after(&x);
    x.too_many |= y.too_many;
    return lanes_built(&x, diags);
}
