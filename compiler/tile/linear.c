/* linear.c - sums of rows that lanes may keep in parts.
 *
 *     x = where(any, x * f + reduce_sum(p, kv), x)
 *
 * Where a loop only scales x and adds to it, with factors that all lanes of a row share, the sum of the lanes' parts obeys the
 * same formula: each lane adds up its own elements, and the lanes exchange once, after the loop. */
#include "tile.h"

typedef enum Linear {
    FREE,    /* does not depend on x or the sums */
    LINEAR,  /* scales with them */
    NEITHER, /* depends otherwise */
} Linear;

typedef struct Search {
    const AuTileVar *x;
    uint32_t bits; /* of the lane, over which the sums go; 0: none found yet */
    bool good;
} Search;

static uint32_t bits_of(const AuTilePlaces *places, AuTileUnit unit)
{
    uint32_t bits = 0;
    for (uint32_t n = 0; n < places->digits.count; n++) {
        const AuTileDigit *d = &places->digits.at[n];
        if (d->unit != unit) continue;
        for (int32_t step = 1; step < d->size; step *= 2) bits |= (uint32_t)(step * d->stride);
    }
    return bits;
}

uint32_t tile_lane_bits(const AuTilePlaces *places) { return bits_of(places, TILE_UNIT_LANE); }
uint32_t tile_warp_bits(const AuTilePlaces *places) { return bits_of(places, TILE_UNIT_WARP); }

/* Of matrices whose elements lie nobody knows where each column has a part: bit 1 stands for these. */
uint32_t tile_summed_lanes(const AuTileExpr *sum)
{
    uint32_t bits = 0;
    const AuTileType *of = sum->args.at[0]->type;
    for (uint32_t n = 0; n < of->count; n++) {
        const AuTilePlaces *places = of->axes[n].places;
        if (places && !tile_axis(sum->type, of->axes[n].name))
            bits |= places->by_place < 0 ? 1 : tile_lane_bits(places);
    }
    return bits;
}

/* Does the sum go over several warps too? */
static bool spans_warps(const AuTileExpr *sum)
{
    const AuTileType *of = sum->args.at[0]->type;
    for (uint32_t n = 0; n < of->count; n++)
        if (of->axes[n].places && !tile_axis(sum->type, of->axes[n].name) &&
            tile_warp_bits(of->axes[n].places))
            return true;
    return false;
}

static bool is_zero(const AuTileExpr *e) { return e->op == TILE_X_FLOAT && e->number == 0; }

bool tile_is_sum(const AuTileExpr *e)
{
    return e->op == TILE_X_REDUCE_SUM || e->op == TILE_X_ROWSUM;
}

static Linear linearity(Search *s, const AuTileExpr *e)
{
    if (e->op == TILE_X_NAME && e->var == s->x) return LINEAR;
    if (tile_is_sum(e)) {
        const uint32_t bits = tile_summed_lanes(e);
        s->good &= !tile_count_reads(e, s->x) && (!s->bits || s->bits == bits) && !spans_warps(e);
        if (bits) s->bits = bits;
        return bits ? LINEAR : FREE;
    }
    Linear of[3] = {FREE, FREE, FREE};
    bool free = true;
    for (uint32_t n = 0; n < e->args.count; n++) {
        const Linear arg = e->args.at[n] ? linearity(s, e->args.at[n]) : FREE;
        if (n < 3) of[n] = arg;
        free &= arg == FREE;
    }
    if (free) return FREE;
    const bool both = of[0] == LINEAR && of[1] == LINEAR;
    switch ((int)e->op) {
    case TILE_X_ADD:
    case TILE_X_SUB: return both ? LINEAR : NEITHER;
    case TILE_X_MUL:
        return (of[0] == LINEAR && of[1] == FREE) || (of[0] == FREE && of[1] == LINEAR) ? LINEAR
                                                                                        : NEITHER;
    case TILE_X_DIV: return of[0] == LINEAR && of[1] == FREE ? LINEAR : NEITHER;
    case TILE_X_NEG: return of[0];
    case TILE_X_WHERE:
        return of[0] == FREE && (of[1] == LINEAR || is_zero(e->args.at[1])) &&
                       (of[2] == LINEAR || is_zero(e->args.at[2]))
                   ? LINEAR
                   : NEITHER;
    default: return NEITHER;
    }
}

bool tile_is_linear(const AuTileExpr *e, const AuTileVar *x, uint32_t *bits)
{
    Search search = {.x = x, .good = true};
    const bool linear = linearity(&search, e) == LINEAR;
    *bits = search.bits;
    return linear && search.good && search.bits;
}
