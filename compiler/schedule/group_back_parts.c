/* group_back_parts.c - what both kernels of gradients of groups of warps have (group_backward.c, group_back_wide.c): tiles, the walk over heads and
 * tiles of queries, statistics of rows, and the kernels around theirs. */
#include "group.h"
#include "key_layout.h"
#include "lanes_back.h"

static void exchange(Lanes *x, const char *exchanged)
{
    const int32_t m = x->shape->query_tile;
    const bool turned = x->shape->exchange_turned;
    tile_pipeline(x->t, "exchange", x->shape->exchange_stages, exchanged, exchanged,
                  turned ? "dS: %s[q:%d, kv:%d] swizzle %d" : "dS: %s[kv:%d, q:%d] swizzle %d",
                  x->operand, turned ? m : x->block, turned ? x->block : m,
                  group_swizzle(x->p, turned ? x->block : m));
}

void group_back_query_pipelines(Lanes *x, const char *groups, int32_t width)
{
    exchange(x, groups);
    tile_pipeline(x->t, "result", x->shape->result_stages, groups, "send",
                  "dQ: f32[q:%d, d:%d] packed %s.C", x->shape->query_tile, width,
                  back_sum_atom(x)->name);
}

const char *group_back_sums(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    return back_sum_place(x, "h", tile_text(x->t, "m * %d +: %d", m, m));
}

void group_back_open_walk(Lanes *x)
{
    warps_open_heads(x);
    tile_for_tiles(x->t, "m", "queries", NULL);
}

void group_back_end_walk(Lanes *x)
{
    tile_end(x->t);
    warps_end_heads(x);
}

void group_back_load_rows(Lanes *x, const char **rows, uint32_t from, uint32_t to)
{
    const uint32_t finals = back_row_count(x, false);
    for (uint32_t n = from; n < to; n++) {
        rows[n] = back_row_variable(x, n);
        tile_load(x->t, rows[n], "%s.row%u like score%s", n < finals ? "y" : "z", n,
                  back_row_is_paired(x, n) ? " paired" : "");
    }
}

/* Sums that are a gradient leave as O does forward, by boxes, from the tile that nobody reads any more. */
void group_back_store(Lanes *x, uint32_t n, const char *tile)
{
    AuTileBuild *t = x->t;
    if (!x->shape->result_boxes || x->heads_apart || back_has_rows(x, n)) {
        warps_store_gradient(x, n, ":", (AuTileHandle){NULL});
        return;
    }
    const bool none =
        lanes_is_packed(x, LANES_KEYS); /* have some groups no row? padded ones are 0 */
    const char *row = tile_text(t, "nb * %d + %s", x->block, warps_own_keys(x)),
               *rows = tile_text(t, "%s +: %d", row, x->rows);
    if (none) rows = group_span(x, LANES_KEYS, rows, "");
    tile_store(t, "%s(%s) -> %s", x->operand, n == 1 ? "dk_acc" : "dv_acc", tile);
    if (none) tile_if(t, "nb >= 0 && %s < kv_length", row);
    tile_async_copy(t, "sent", "%s -> %s[%s, %s, %s, :] as [kv, %s] clip", tile,
                    back_gradient(x, n), lanes_row_b(x, LANES_KEYS), n == 1 ? "hk" : "hv", rows,
                    n == 1 ? "d" : "e");
    tile_wait(t, "sent");
    if (none) tile_end(t);
}

AuSchedule *group_back_built(AuArena *arena, AuDiags *diags, const AuProblem *p, AuSchedule *out,
                             void (*kernel)(Lanes *x))
{
    Lanes x = group_begin(warps_back_begin(arena, schedule_begin(arena, diags, p, out), p, out));
    x.sums_by_units = true;
    x.with_dq = out->shape.with_dq;
    x.item_rows[LANES_QUERIES] = out->shape.query_tile;
    tile_layout(x.t, "rows_along_lanes", tile_text(x.t, "lane:%d@1 reg", p->caps->lanes), NULL);
    AuShape of_queries;
    Lanes y = x; /* the kernel whose blocks own queries */
    if (!x.with_dq) {
        (void)group_queries_shape(arena, p, &of_queries);
        y = warps_back_of_queries(&x, &of_queries);
    }
    back_work_kernels(&x);
    back_before(&x);
    if (p->hooks->needs_lists && !x.with_dq) lanes_list_kernels(&y);
    if (p->hooks->needs_lists) lanes_query_lists(&x, out->shape.query_tile, x.block);
    back_adjoints(&x);
    kernel(&x);
    if (!x.with_dq) group_dq(&y);
    back_after(&x);
    x.too_many |= y.too_many;
    return lanes_built(&x, diags);
}
