/* warps_gradients.c - what the kernels have in common that own keys and multiply on matrix units, be it those of a warp (warps_backward.c)
 * or of a group of warps (group_backward.c): their head, fragments, the loop over heads, gradients of pairs, and how dK and dV leave.
 * S' and dP' have keys as rows in both, so that P' and dS' are operand A as they lie. */
#include "key_layout.h"
#include "lanes_back.h"

/* Heads whose queries, output gradients and sums of dQ the cache holds: all blocks of a head read those and add to these. Adding to memory that it does not
 * hold is 2.6 times as slow (H100, docs/dev/hopper.md). */
static const char *section(Lanes *x)
{
    const int32_t row =
        x->p->d * (int32_t)sizeof(float) + (x->p->d + x->p->e) * tile_elem(x->p->operand)->bytes;
    const char *shared = x->heads_apart ? "1"
                                        : tile_text(x->t, "max(%s / max(%s, 1), 1)",
                                                    lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
    return tile_text(x->t, "%d / max(%s, 1) / %s", x->p->caps->cached / row, lanes_axis(x, 0, 2),
                     shared);
}

/* Of packed keys, blocks of the list of work: those of the first keys of a sequence, which work longest, come first in it. */
static void grid_of_keys(Lanes *x, const char *head, const char *heads)
{
    AuTileBuild *t = x->t;
    if (!lanes_is_packed(x, LANES_KEYS)) {
        const char *blocks = tile_text(t, "cdiv(%s, %d)", lanes_axis(x, 1, 2), x->block),
                   *batch = lanes_axis(x, 1, 0);
        if (x->shape->grid_sections)
            lanes_grid_by_sections(x, "nb", blocks, head, heads, batch, section(x));
        else
            lanes_grid_by_work(x, "nb", blocks, head, heads, batch);
        lanes_let_key_length(x);
        return;
    }
    const char *items = lanes_work_blocks(x, LANES_KEYS);
    lanes_work_argument(x, LANES_KEYS);
    if (x->longest_first)
        tile_grid(t, "%s: %s, item: %s", head, heads, items);
    else
        tile_grid(t, "item: %s, %s: %s", items, head, heads);
    lanes_let_work(x, LANES_KEYS);
    tile_let(t, "nb", "turn");
}

void warps_back_head(Lanes *x)
{
    AuTileBuild *t = x->t;
    back_begin_kernel(x, "dkdv");
    back_statistics(x);
    if (x->p->hooks->needs_lists) lanes_query_list_arguments(x, x->shape->query_tile, x->block);
    if (x->with_dq) back_argument(x, "dq_sum", TILE_INOUT);
    const AuTileMode mode = x->heads_apart ? TILE_INOUT : TILE_OUT;
    back_argument(x, back_gradient(x, 1), mode);
    if (x->own_v) back_argument(x, back_gradient(x, 2), mode);
    for (uint32_t n = 0; n < x->p->attn->tensor_count; n++)
        if (back_sums_keys(x, n) || back_sums_queries(x, n)) back_sum_argument(x, n, TILE_INOUT);
    const char *heads = lanes_axis(x, 0, 1), *of_keys = lanes_axis(x, 1, 1);
    grid_of_keys(x, x->heads_apart ? "h" : "hk", x->heads_apart ? heads : of_keys);
    if (x->heads_apart) {
        tile_let(t, "hk", "h / (%s / %s)", heads, of_keys);
        tile_let(t, "hv", "h / (%s / %s)", heads, lanes_axis(x, x->own_v ? 2 : 1, 1));
    } else {
        tile_let(t, "G", "%s / %s", heads, of_keys);
        tile_let(t, "hv", "hk");
    }
    back_query_tiles(x);
}

void warps_back_fragments(Lanes *x, WarpsBackTiles tiles)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    const char *pair = tile_text(t, "f32[kv:%d, q:%d] @ %s.C", x->rows, tiles.queries, atom);
    tile_frag(t, "score", "%s", pair);
    tile_frag(t, "dp", "%s", pair);
    tile_frag(t, "dk_acc", "f32[kv:%d, d:%d] @ %s.C = 0.0", x->rows, tiles.d, atom);
    if (x->own_v) tile_frag(t, "dv_acc", "f32[kv:%d, e:%d] @ %s.C = 0.0", x->rows, tiles.e, atom);
    if (tiles.dq_rows)
        tile_frag(t, "dq", "f32[q:%d, d:%d] @ %s.C", tiles.dq_rows, tiles.dq_channels, atom);
    warps_declare_dots(x, pair);
    warps_declare_totals(x);
    tile_set(t, "j", "nb * %d + %s + iota(kv:%d)", x->block, warps_own_keys(x), x->rows);
}

/* ---- heads that share the block's keys, if it has them all */

void warps_open_heads(Lanes *x)
{
    if (x->heads_apart) return;
    tile_for_range(x->t, "g", "0", "G");
    tile_set(x->t, "h", "hk * G + g");
}

void warps_end_heads(Lanes *x)
{
    if (!x->heads_apart) tile_end(x->t);
}

/* ---- pairs */

static bool has_factor(const Lanes *x)
{
    const bool small = x->p->grads->weights_are_parts || warps_weights_get_lost(x->p);
    return x->p->operand == TILE_F16 && small && x->own_v;
}

static void round_pairs(Lanes *x)
{
    if (has_factor(x))
        tile_set(x->t, "weight", "%s(p * %s)", x->held, LANES_WEIGHT_FACTOR);
    else
        tile_set(x->t, "weight", "%s(p)", x->held);
    tile_set(x->t, "ds_operand", "%s(ds)", x->held);
}

void warps_pair_gradients(Lanes *x, const char *const *rows)
{
    AuTileBuild *t = x->t;
    const AuTileHandle unmasked = {lanes_unmasked(x)};
    tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, rows));
    tile_on_segment(t, "partial");
    lanes_mask(x, TILE_NAME("p"), unmasked);
    lanes_mask(x, TILE_NAME("ds"), unmasked);
    warps_guard_values(x, unmasked);
    tile_end(t);
    round_pairs(x);
}

void warps_end_weights(Lanes *x)
{
    if (has_factor(x)) tile_set(x->t, "dv_acc", "dv_acc * %s", LANES_WEIGHT_SHARE);
}

/* ---- results */

const char *warps_gradient_place(Lanes *x, uint32_t n, const char *columns)
{
    AuTileBuild *t = x->t;
    const char *rows = tile_text(t, "nb * %d + %s +: %d", x->block, warps_own_keys(x), x->rows);
    return tile_text(t, "%s[%s, %s] as [kv, %s] clip", back_gradient(x, n),
                     lanes_place(x, LANES_KEYS, n == 1 ? "hk" : "hv", rows), columns,
                     n == 1 ? "d" : "e");
}

void warps_store_gradient(Lanes *x, uint32_t n, const char *columns, AuTileHandle through)
{
    AuTileBuild *t = x->t;
    const char *acc = n == 1 ? "dk_acc" : "dv_acc", *gradient = warps_gradient_place(x, n, columns);
    if (x->heads_apart) {
        tile_atomic_add(t, "%s -> %s", acc, gradient);
    } else if (back_has_rows(x, n)) {
        tile_store(t, "%s -> %s", acc, gradient);
    } else if (!through.text) {
        tile_store(t, "%s(%s) -> %s", x->operand, acc, gradient);
    } else {
        tile_store(t, "%s(%s) -> %v", x->operand, acc, through);
        tile_copy(t, "%v -> %s", through, gradient);
    }
}
