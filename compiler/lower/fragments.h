/* fragments.h - fragments: which element is in which register of which lane, the lane's array, and loops over it. No other file of the
 * lowering reads the digits of a layout.
 *
 * Digits carry nothing, so an index along an axis is a sum: what the lane and the warp say, and what the number of the lane's register along
 * that axis says. A lane has the registers of all axes together, in an array of one element each; the order there is lower_register_number
 * where all are written out, else lower_register with loops over it.
 *
 * fragments.c          places: registers, lanes, warps; the array's order; what an instruction takes of an operand
 * fragment_loops.c     loops over the registers of a lane, and the array's order where there are loops
 * What moves and computes fragments (registers.c, move.c, matrix.c, fuse.c, ..) asks here. */
#ifndef AU_LOWER_FRAGMENTS_H
#define AU_LOWER_FRAGMENTS_H

#include "kernel.h"
#include "tile.h"

typedef struct AuLower AuLower;

/* Where along an axis an element is: its index, and for fragments the register that holds it. */
typedef struct AuCoord {
    const char *axis;
    AuVal index;    /* i32 */
    AuVal reg;      /* i32, uniform; none: not of a fragment. Of an axis in groups: the group; */
    int32_t within; /* and which register of the group. Of an axis in steps: which of the step */
} AuCoord;
typedef struct AuPoint {
    AuCoord at[6];
    uint32_t count;
} AuPoint;

/* ---- an axis: digits, the fastest first */

typedef struct AuAxisDigit {
    AuTileUnit unit;
    int32_t size;
    int32_t weight; /* of a step: indices */
    int32_t apart;  /* and lanes, warps or registers of the lane along this axis */
} AuAxisDigit;
typedef struct AuAxisDigits {
    AuAxisDigit at[TILE_MAX_DIGITS];
    uint32_t count;
} AuAxisDigits;
AuAxisDigits lower_digits(const AuTilePlaces *places);

/* Neighbours along the axis that a lane holds side by side; 1: the next one is another lane's. */
int32_t lower_neighbours(const AuTilePlaces *places);
/* Does no lane or warp say anything about the index? */
bool lower_in_registers_only(const AuTilePlaces *places);
/* Has each lane all of the axis? */
bool lower_is_of_lane(const AuTileAxis *axis);
/* The lane's register along the axis that is [index] further on than its first one; as many as there are: none. */
int32_t lower_register_on(const AuTilePlaces *places, int32_t index);
/* Do a lane's registers along the axis lie as in one piece after the other? */
bool lower_repeats(const AuTilePlaces *places, const AuTilePlaces *piece);

/* ---- a fragment */

uint32_t lower_registers(const AuTileType *type); /* of a lane */
/* Written out: the number of a register in the fragment's array, by register of each axis. Neighbours in a register of 32 bits come first,
 * then the two rows of a lane, then the rest along the axis of the neighbours; where one axis lies in registers alone and the other begins
 * in the lanes, first along the former; else along the last axis: so the elements that an instruction takes lie side by side, be it as C or,
 * blocks of it, as A. */
uint32_t lower_register_number(const AuTileType *type, const int32_t *regs);
/* From one register of a lane to the next one, the last axis fastest, [wide] at once along axis [fast]; false: that was the last. */
bool lower_next_register(const AuTileType *type, int32_t *regs, uint32_t fast, int32_t wide);
/* Are registers 2 n and 2 n + 1 of the array neighbours along an axis? */
bool lower_has_neighbours(const AuTileType *type);
bool lower_same_registers(const AuTileType *a, const AuTileType *b);
/* Bits of lanes and warps in which those differ that have parts of what is reduced to [result]. */
void lower_sharers(const AuTileType *of, const AuTileType *result, uint32_t *lanes,
                   uint32_t *warps);

/* Where the lane's register number [reg] of the axis is. */
AuCoord lower_coord(AuLower *l, const AuTileAxis *axis, int32_t reg);
/* The same for any unit: an axis held in groups has numbers of its own. */
AuCoord lower_coord_in_groups(AuLower *l, const AuTileAxis *axis, int32_t reg);
/* What the lane and the warp say about the index along an axis. */
AuVal lower_lane_part(AuLower *l, const AuTilePlaces *places);
AuVal lower_warp_part(
    AuLower *l, const AuTilePlaces *places); /* of the index that a lane says, what its warp does */
/* The lane, added to *lane, and the register along the axis, that have element [index]. */
AuVal lower_find(AuLower *l, const AuTilePlaces *places, AuVal index, AuVal *lane);
/* Whether this lane is the one of those that hold copies of a value of this type; none: all differ. */
AuVal lower_holds(AuLower *l, const AuTileType *type);

/* ---- what an instruction takes of an operand, of a lane: so many registers along the free and the contracted axis, [packed] of these side by
 * side in 32 bits */
typedef struct AuPiece {
    int32_t free, k, packed;
} AuPiece;
int32_t lower_piece_elements(const AuPiece *piece);
/* Of that use of the atom, [turned]: of its other form. False: it has none that lanes hold. */
bool lower_piece(AuLower *l, const AuTileAtom *atom, AuTileUse use, bool turned, AuPiece *out);
/* The registers, along both axes, of element [i] of instruction (tile, part): neighbours along k in 32 bits, then rows, then along k. */
void lower_in_piece(const AuPiece *piece, int32_t tile, int32_t part, int32_t i, int32_t *free,
                    int32_t *k);

/* ---- arrays of a lane */

AuMem lower_array(AuLower *l, const char *name, AuScalar scalar, uint32_t count);
/* The variable's array, made at its first use. */
AuMem lower_var_array(AuLower *l, const AuTileVar *var);
/* The number of the register that holds the point's element of a fragment of this type. */
AuVal lower_register(AuLower *l, const AuTileType *type, const AuPoint *p);
/* The same where the elements of two registers along [pair_axis] share one. */
AuVal lower_pair_register(AuLower *l, const AuTileType *type, const AuPoint *p,
                          const char *pair_axis);
/* Two bf16 as an i32, the first in the low half. */
AuVal lower_pair(AuLower *l, AuVal low, AuVal high);

/* ---- loops over the registers of a lane */

typedef struct AuSpace1 {
    const AuTileAxis *axis;
    int32_t regs;
    bool looped;  /* a loop over registers, or over groups of them; else unrolled */
    bool grouped; /* registers of an axis along the lanes, in groups of a product's columns */
    int32_t step; /* registers side by side in the loop's body */
} AuSpace1;
typedef struct AuSpaces {
    AuSpace1 at[6];
    uint32_t count;
} AuSpaces;
AuSpaces lower_spaces(AuLower *l, const AuTileType *type);
/* May what runs over [a] and over [b] stand in one loop? */
bool lower_same_loops(const AuSpaces *a, const AuSpaces *b);
/* Loops go by two along the axis: both elements of a pair in one turn, the even one first. */
void lower_by_pairs(AuSpaces *spaces, const char *pair_axis);
/* Calls [body] for each register of the space, loops opened around. */
typedef void (*AuPointFn)(AuLower *l, const AuPoint *p, void *user);
void lower_each(AuLower *l, const AuSpaces *spaces, AuPointFn body, void *user);
/* Axes along the lanes of which a lane holds many indices are held in groups: the array's order is
 * [group][other axes][in the group], so that what a product reads of a group lies side by side. */
bool lower_is_grouped(const AuLower *l, const AuTileAxis *axis);

#endif
