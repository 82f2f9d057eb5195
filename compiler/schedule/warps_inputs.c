/* warps_inputs.c - what dkdv (warps_backward.c) computes beside dQ, dK and dV: gradients of inputs that pairs read, and of
 * further products.
 *
 * A read without the query among its indices is summed over the queries of a head in registers, one without the key over the
 * warp's keys of a tile; then, and where it has both, sums in memory take it. A further product whose gradient is that of the
 * score, as in `score + dot(..)`, is as if its channels came after those of q and k: dS is there already. */
#include "key_layout.h"
#include "lanes_back.h"

static const AuInputGrads *values(const Lanes *x) { return &x->p->grads->pairs; }

static bool is_read_by(const Lanes *x, uint32_t n, uint8_t axis)
{
    return back_read_axes(x, &values(x)->at[n]) & axis;
}

static AuTileHandle numbered(Lanes *x, const char *name, uint32_t n)
{
    return tile_numbered(x->t, name, n);
}

/* ---- inputs of pairs */

int32_t warps_kept_values(const Lanes *x)
{
    int32_t count = 0;
    for (uint32_t n = 0; n < values(x)->count; n++)
        count += is_read_by(x, n, AU_AX_Q) && is_read_by(x, n, AU_AX_KV);
    return count;
}

void warps_declare_totals(Lanes *x)
{
    for (uint32_t n = 0; n < values(x)->count; n++)
        if (!is_read_by(x, n, AU_AX_Q))
            tile_frag(x->t, numbered(x, "total", n), "f32[kv:%d] like score = 0.0", x->rows);
    if (warps_totals_bytes(x))
        tile_frag(x->t, "lane_total", "f32[kv:%d] @ keys_over_lanes", x->rows);
}

/* Whose elements lie nobody knows where can be stored, and not added to memory (by_place.c): totals go by way of shared memory to lanes, which add. */
int32_t warps_totals_bytes(const Lanes *x)
{
    bool found = false;
    for (uint32_t n = 0; n < values(x)->count; n++) found |= !is_read_by(x, n, AU_AX_Q);
    return found && x->atom->by_place ? x->block * (int32_t)sizeof(float) : 0;
}

void warps_totals_memory(Lanes *x)
{
    if (warps_totals_bytes(x)) tile_shared(x->t, "totals", "f32[kv:%d]", x->block);
}

void warps_totals_layout(Lanes *x)
{
    const int32_t lanes = x->p->caps->lanes;
    if (warps_totals_bytes(x))
        tile_layout(x->t, "keys_over_lanes",
                    tile_text(x->t, "lane:%d@1 reg", x->rows < lanes ? x->rows : lanes), NULL);
}

static AuTileHandle total_of_lanes(Lanes *x, uint32_t n)
{
    const char *own = tile_text(x->t, "totals[%s +: %d]", warps_own_keys(x), x->rows);
    if (!warps_totals_bytes(x)) return numbered(x, "total", n);
    tile_store(x->t, "total%u -> %s", n, own);
    tile_load(x->t, "lane_total", "%s", own);
    return TILE_NAME("lane_total");
}

void warps_guard_values(Lanes *x, AuTileHandle unmasked)
{
    for (uint32_t n = 0; n < values(x)->count; n++)
        lanes_mask(x, numbered(x, "value", n), unmasked);
}

void warps_add_values(Lanes *x)
{
    AuTileBuild *t = x->t;
    back_name_pair(x);
    for (uint32_t n = 0; n < values(x)->count; n++) {
        const AuInputGrad *g = &values(x)->at[n];
        const AuTileHandle value = numbered(x, "value", n);
        const char *inside = tile_text(t, "i < %s", lanes_query_end(x));
        if (!is_read_by(x, n, AU_AX_Q)) {
            tile_set(t, numbered(x, "total", n), "total%u + reduce_sum(value%u, q)", n, n);
        } else if (!is_read_by(x, n, AU_AX_KV)) {
            tile_set(t, numbered(x, "further", n), "reduce_sum(value%u, kv)", n);
            back_scatter(x, g, numbered(x, "further", n), "i", false, inside);
        } else {
            back_scatter(x, g, value, "ij", false,
                         tile_text(t, "%s && j < %s", inside, lanes_key_end(x)));
        }
    }
}

void warps_add_totals(Lanes *x)
{
    for (uint32_t n = 0; n < values(x)->count; n++) {
        if (is_read_by(x, n, AU_AX_Q)) continue;
        back_scatter(x, &values(x)->at[n], total_of_lanes(x, n), "j", false,
                     tile_text(x->t, "j < %s", lanes_key_end(x)));
        tile_set(x->t, numbered(x, "total", n), "fill(total%u, 0.0)", n);
    }
}

/* ---- further products */

static int32_t width(const Lanes *x, uint32_t n)
{
    return warps_padded(x->atom, lanes_dot_width(x->p, n));
}

void warps_dot_memories(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *axis = tile_text(x->t, "p%u", n);
        warps_tile(x, numbered(x, "K", n), "kv", x->block, axis, width(x, n), 1);
        warps_tile(x, numbered(x, "Q", n), "q", x->shape->query_tile, axis, width(x, n),
                   x->shape->stages);
    }
}

void warps_declare_dots(Lanes *x, const char *pair)
{
    const AuGrads *g = x->p->grads;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        tile_frag(x->t, numbered(x, "dot", n), "%s", pair);
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t dot = back_dot(x, n);
        const WarpsPieces p = warps_dq_pieces(x, width(x, dot));
        if (back_wants(x, lanes_dot_tensor(x->p, dot, true)))
            tile_frag(x->t, numbered(x, "dkey", n), "f32[kv:%d, p%u:%d] @ %s.C = 0.0", x->rows, dot,
                      width(x, dot) / x->shape->column_parts, x->atom->name);
        if (back_wants(x, lanes_dot_tensor(x->p, dot, false)))
            tile_frag(x->t, numbered(x, "dquery", n), "f32[q:%d, p%u:%d] @ %s.C", p.rows, dot,
                      p.channels, x->atom->name);
    }
}

void warps_issue_dot_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    const WarpsShare share = warps_share(x, "nb", x->block, "", "");
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const LanesRows view =
            lanes_dot_rows(x, n, LANES_KEYS, warps_columns(x, lanes_dot_width(x->p, n)));
        const char *span = lanes_view_span(x, LANES_KEYS, view, share.rows, LANES_TO_RANGE);
        warps_issue(x, numbered(x, "tk", n), lanes_at(x, view, span),
                    tile_part(t, "K%u[%s, :]", n, share.to));
        if (warps_are_async(x)) tile_wait(t, numbered(x, "tk", n));
    }
}

void warps_issue_dot_queries(Lanes *x, const char *rows, LanesLimit limit, const char *to)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const LanesRows view =
            lanes_dot_rows(x, n, LANES_QUERIES, warps_columns(x, lanes_dot_width(x->p, n)));
        warps_issue(x, numbered(x, "tq", n),
                    lanes_at(x, view, lanes_view_span(x, LANES_QUERIES, view, rows, limit)),
                    tile_part(t, "Q%u[%s, :]", n, to));
    }
}

void warps_dot_products(Lanes *x, const char *keys, const char *queries)
{
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        tile_product(x->t, numbered(x, "dot", n), x->atom, TILE_START,
                     tile_text(x->t, "K%u%s", n, keys), tile_text(x->t, "Q%u%s", n, queries));
}

/* Columns of a part of the accumulators. */
static const char *part(Lanes *x, uint32_t dot)
{
    const int32_t parts = x->shape->column_parts, columns = width(x, dot) / parts;
    return parts > 1 ? tile_text(x->t, "self %% %d * %d +: %d", parts, columns, columns)
                     : tile_text(x->t, "0 +: %d", columns);
}

void warps_dot_key_gradients(Lanes *x, const char *ds_operand, const char *queries)
{
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++) {
        const uint32_t dot = back_dot(x, n);
        if (back_wants(x, lanes_dot_tensor(x->p, dot, true)))
            tile_product(x->t, numbered(x, "dkey", n), x->atom, TILE_ADD, ds_operand,
                         tile_text(x->t, "Q%u[%s, %s]", dot, queries, part(x, dot)));
    }
}

void warps_add_dot_keys(Lanes *x, const char *rows)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++) {
        const uint32_t dot = back_dot(x, n), tensor = lanes_dot_tensor(x->p, dot, true);
        if (!back_wants(x, tensor)) continue;
        const LanesRows view =
            lanes_dot_rows_of(x, back_sum(x, tensor), dot, LANES_KEYS, part(x, dot));
        tile_atomic_add(
            t, "dkey%u -> %v clip", n,
            lanes_at(x, view, lanes_view_span(x, LANES_KEYS, view, rows, LANES_TO_SEQUENCE)));
        tile_set(t, numbered(x, "dkey", n), "fill(dkey%u, 0.0)", n);
    }
}

void warps_dot_query_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++) {
        const uint32_t dot = back_dot(x, n), tensor = lanes_dot_tensor(x->p, dot, false);
        const WarpsPieces p = warps_dq_pieces(x, width(x, dot));
        const int32_t m = x->shape->query_tile;
        for (int32_t turn = 0; turn < warps_dq_turns(x, &p) && back_wants(x, tensor); turn++) {
            const char *row, *channel;
            const bool some_idle = warps_begin_piece(x, &p, turn, &row, &channel);
            const char *channels = tile_text(t, "%s +: %d", channel, p.channels);
            tile_product(t, numbered(x, "dquery", n), x->atom, TILE_START,
                         tile_text(t, "dS[:, %s +: %d]", row, p.rows),
                         tile_text(t, "K%u[:, %s]", dot, channels));
            const LanesRows view =
                lanes_dot_rows_of(x, back_sum(x, tensor), dot, LANES_QUERIES, channels);
            const char *rows = tile_text(t, "m * %d + %s +: %d", m, row, p.rows);
            tile_atomic_add(
                t, "dquery%u -> %v clip", n,
                lanes_at(x, view,
                         lanes_view_span(x, LANES_QUERIES, view, rows, LANES_TO_SEQUENCE)));
            if (some_idle) tile_end(t);
        }
    }
}
