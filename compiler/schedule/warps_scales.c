/* warps_scales.c - scales of tokens, in kernels whose warps have keys of their own (warps_operands.c, warps_codes.c).
 *
 * A lane of a warp's scores has several keys, and four and more lanes have the same ones: where each reads scales when it needs them, 16 loads a tile
 * and as many searches of a table wait for memory. So a lane reads that of one key, a tile ahead, at the page and slot that it knows already
 * (warps_pages.c), and lanes ask each other when scores and weights are there. */
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

static int32_t share_of(const Lanes *x) { return x->shape->key_tile / x->shape->executors; }

static bool comes_ahead(const Lanes *x, uint32_t operand)
{
    const AuStorage *s = &x->p->attn->storage[operand - 1];
    return warps_has_codes(x->p, operand) && s->by_token && !attn_scales_parts(s) &&
           (x->codes_are_operands || !attn_stores_halves(s)) && x->shape->keys_apart &&
           x->p->caps->lanes % share_of(x) == 0 &&
           x->p->queries != AU_PAGED_QUERIES; /* whose tiles' pages are not known ahead */
}

static const char *key_of(Lanes *x, const char *tile)
{
    return tile_text(x->t, "(%s * %d + self * %d + iota(kv:%d))", tile, x->shape->key_tile,
                     share_of(x), share_of(x));
}

static void load(Lanes *x, uint32_t operand)
{
    const LanesPlace at = {.head = operand == 1 ? "hk" : lanes_value_head(x), .rows = "scaled_key"};
    const char *scale = lanes_has_pages(x)
                            ? lanes_scale_in_page(x, operand, at.head, "page0", "slot0")
                            : lanes_scale_at(x, operand, at);
    if (operand == 2) scale = tile_text(x->t, "%s * %d.0", scale, lanes_weight_range(x));
    tile_set(x->t, lanes_scale_ahead(operand).text, "where(%s, %s, 0.0)",
             lanes_key_inside(x, "scaled_key"), scale);
}

void warps_scales_load(Lanes *x, const char *tile)
{
    if (!x->scales_ahead[0] && !x->scales_ahead[1]) return;
    tile_set(x->t, "scaled_key", "%s", key_of(x, tile));
    for (uint32_t operand = 1; operand <= 2; operand++)
        if (x->scales_ahead[operand - 1]) load(x, operand);
}

void warps_scales_begin(Lanes *x)
{
    for (uint32_t operand = 1; operand <= 2; operand++) {
        x->scales_ahead[operand - 1] = comes_ahead(x, operand);
        if (x->scales_ahead[operand - 1])
            tile_frag(x->t, lanes_scale_ahead(operand).text, "f32[kv:%d] @ along_lanes = 0.0",
                      share_of(x));
    }
}
