/* layout.h - where the elements of a tile live: digits, and the places that they say.
 *
 * A layout gives an axis of a tile a list of digits, least significant first. `lane:8@4`: this digit counts to 8 and each step is
 * 4 lanes on; `warp:4` a warp on; `reg:2` stays in the lane, in another register. What an axis has left over is `reg`. Which
 * register holds an element is nobody's business but the lowering's; what counts is the place (lane and warp) of every index.
 * Lanes that no axis of a tile uses hold copies. */
#ifndef AU_MACHINE_LAYOUT_H
#define AU_MACHINE_LAYOUT_H

#include "arena.h"

enum { TILE_WARP = 1 << 16, TILE_MAX_DIGITS = 6 }; /* the weight of one warp in a place */

typedef enum AuTileUnit { TILE_UNIT_REG, TILE_UNIT_LANE, TILE_UNIT_WARP } AuTileUnit;

/* index digit: (index / weight) % size, which moves the place by `stride` units a step */
typedef struct AuTileDigit {
    AuTileUnit unit;
    int32_t size; /* 0: the rest, registers */
    int32_t stride;
} AuTileDigit;

typedef struct AuTileDigits {
    AuTileDigit at[TILE_MAX_DIGITS];
    uint32_t count;
} AuTileDigits;

/* Where the indices of one axis of a certain extent live. Made by tile_places; never changed. */
typedef struct AuTilePlaces {
    AuTileDigits
        digits; /* cut to the extent: the sizes multiply to it, a last `reg` takes the rest */
    int32_t extent;
    int32_t lanes;        /* different places */
    const int32_t *place; /* of each index: lane + TILE_WARP * warp */
    int32_t
        by_place; /* of an instruction that is so: its extent along the axis, + where the axis goes along rows, - columns; else 0 */
} AuTilePlaces;

/* Reads "lane:8@4 reg:2"; false if it is none. */
bool tile_digits(const char *text, AuTileDigits *out);
/* The places of [0, extent). NULL if the digits do not divide the extent. */
const AuTilePlaces *tile_places(AuArena *arena, const AuTileDigits *digits, int32_t extent);
/* The digits cut to the extent, as those of places are; false if they do not divide it. */
bool tile_cut_digits(const AuTileDigits *digits, int32_t extent, AuTileDigits *out);
int32_t tile_place_of(const AuTileDigits *cut, int32_t index);
bool tile_same_places(const AuTilePlaces *a, const AuTilePlaces *b);

/* For the lowering. Digits carry nothing, so index = (what the lane and warp say) + (what the register says). */
int32_t
tile_axis_registers(const AuTilePlaces *places); /* indices of the axis that one lane holds */
int32_t tile_axis_offset(const AuTilePlaces *places, int32_t reg); /* of register number `reg` */
int32_t tile_axis_base(const AuTilePlaces *places, int32_t lane, int32_t warp);

/* A load that lanes turn (AuTileCaps.turned): [n] neighbours along the free axis are named by a lane, which gets [n] neighbours along the
 * contracted one; places of what it names, from those of what it gets. NULL: the instruction does not bring it so. */
const AuTilePlaces *tile_named_places(AuArena *arena, const AuTilePlaces *got, bool free,
                                      int32_t n);

int32_t tile_axis_register(const AuTilePlaces *places, int32_t index); /* that holds the index */
/* Do all lanes get what lanes without and with one bit of their number hold? That bit; else 0. Whose register an index is in follows from where it was. */
int32_t tile_spread_bit(const AuTilePlaces *from, const AuTilePlaces *to);

typedef enum AuTileCost { TILE_COST_NONE, TILE_COST_SHUFFLE, TILE_COST_SHARED } AuTileCost;
/* What a change of layout costs: nothing, an exchange inside a warp, or a way through shared memory. */
AuTileCost tile_conversion_cost(const AuTilePlaces *const *from, const AuTilePlaces *const *to,
                                uint32_t axes);

#endif
