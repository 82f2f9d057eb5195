/* caps.h - what the tiled IR knows of machines: executors, element types, layouts, matrix instructions ("atoms"), targets.
 * Tables only (caps.def); a schedule or the verifier asks here and never for a target's name.
 *
 * A layout gives an axis of a tile a list of digits, least significant first. `lane:8@4`: this digit counts to 8 and each step is
 * 4 lanes on; `warp:4` a warp on; `reg:2` stays in the lane, in another register. What an axis has left over is `reg`. Which
 * register holds an element is nobody's business but the lowering's; what counts is the place (lane and warp) of every index.
 * Lanes that no axis of a tile uses hold copies. */
#ifndef AU_TILE_CAPS_H
#define AU_TILE_CAPS_H

#include "arena.h"

/* ---- elements */

// clang-format off
typedef enum AuTileElem {
#define ELEM(NAME, text, bytes, flags) TILE_##NAME,
#include "caps.def"
} AuTileElem;
enum { TILE_ELEM_COUNT = TILE_U8 + 1 };
// clang-format on

typedef struct AuTileElemInfo {
    const char *name;
    uint8_t bytes;
    bool is_float;
    bool memory_only; /* read as i32; no fragment has it */
} AuTileElemInfo;
const AuTileElemInfo *tile_elem(AuTileElem elem);

/* ---- executors */

// clang-format off
typedef enum AuTileExecutor {
#define EXECUTOR(NAME, text, warps) TILE_ON_##NAME,
#include "caps.def"
} AuTileExecutor;
enum { TILE_EXECUTOR_COUNT = TILE_ON_BLOCK + 1 };
// clang-format on
const char *tile_executor_name(AuTileExecutor executor);

/* ---- layouts */

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
} AuTilePlaces;

/* Reads "lane:8@4 reg:2"; false if it is none. */
bool tile_digits(const char *text, AuTileDigits *out);
/* The places of [0, extent). NULL if the digits do not divide the extent. */
const AuTilePlaces *tile_places(AuArena *arena, const AuTileDigits *digits, int32_t extent);
bool tile_same_places(const AuTilePlaces *a, const AuTilePlaces *b);

/* For the lowering. Digits carry nothing, so index = (what the lane and warp say) + (what the register says). */
int32_t
tile_axis_registers(const AuTilePlaces *places); /* indices of the axis that one lane holds */
int32_t tile_axis_offset(const AuTilePlaces *places, int32_t reg); /* of register number `reg` */
int32_t tile_axis_base(const AuTilePlaces *places, int32_t lane, int32_t warp);

/* ---- atoms: C[m, n] += A[m, k] B[k, n]. Larger tiles repeat the instruction; repeats are registers. */

typedef enum AuTileUse { TILE_A, TILE_B, TILE_C } AuTileUse;
extern const char *const tile_use_names[3];

typedef struct AuTileAtom {
    const char *name;
    int32_t lanes, m, n, k;
    const char *rows[3], *cols[3]; /* digits of A, B, C */
    uint32_t on;                   /* set of executors: 1 << TILE_ON_WARP ... */
    uint32_t memory;               /* operands that must be in memory: 1 << TILE_A ... */
    uint32_t native; /* operands that the instruction itself reads from memory, any space */
    uint32_t elems;  /* set of operand element types: 1 << TILE_BF16 ... */
    bool is_async, opaque;
    bool tensor; /* C, and A if not in shared memory, live in tensor memory */
    bool turns;  /* memory may be read by parts of rows or of columns: tile_turned_places */
    bool rounds; /* operands of f32 to tf32: 10 bits of mantissa, ties away from zero */
    const char *note;
} AuTileAtom;

const AuTileAtom *tile_atom(const char *name); /* NULL if there is none */
const AuTileAtom *tile_atom_at(uint32_t n);    /* NULL after the last */
int32_t tile_atom_extent(const AuTileAtom *atom, AuTileUse use, int axis); /* rows: 0, columns: 1 */
/* Places of that axis of a tile used as A, B or C. NULL if the extent does not fit. */
const AuTilePlaces *tile_atom_places(AuArena *arena, const AuTileAtom *atom, AuTileUse use,
                                     int axis, int32_t extent);

/* The same of the form of A or B in which the first digits of rows and columns are exchanged. */
const AuTilePlaces *tile_turned_places(AuArena *arena, const AuTileAtom *atom, AuTileUse use,
                                       int axis, int32_t extent);

/* May operands with these places along the contracted axis be multiplied? NULL: the operand is in memory.
 * The instruction pairs places of A with places of B. One permutation of the axis common to both changes nothing. Memory that the
 * instruction reads itself has its own order; what the lowering reads for it comes in the order of the other operand, if both have
 * the same lanes along the axis. */
bool tile_contraction_matches(const AuTileAtom *atom, const AuTilePlaces *a, const AuTilePlaces *b,
                              int32_t extent);

typedef enum AuTileCost { TILE_COST_NONE, TILE_COST_SHUFFLE, TILE_COST_SHARED } AuTileCost;
/* What a change of layout costs: nothing, an exchange inside a warp, or a way through shared memory. */
AuTileCost tile_conversion_cost(const AuTilePlaces *const *from, const AuTilePlaces *const *to,
                                uint32_t axes);

/* ---- targets */

typedef enum AuTileAsync {
    TILE_ASYNC_COPY = 1,
    TILE_ASYNC_REDUCE_ADD = 2,
    TILE_ASYNC_PRODUCT = 4,
} AuTileAsync;

typedef struct AuTileCaps {
    const char *name;
    int32_t lanes;      /* of a warp; on a CPU, of a vector */
    uint32_t executors; /* set of 1 << TILE_ON_... */
    const char *atoms;  /* names, in order of preference, between spaces */
    uint32_t is_async;  /* set of AuTileAsync */
    bool pipelines;     /* rings of stages between roles */
    bool has_private;   /* memory of one executor (a CPU's stack) */
    int32_t sum_words;  /* neighbouring f32 that one sum in memory takes */
    int32_t shared_bytes, tensor_bytes, threads;
    int32_t registers; /* of 32 bits a lane that fragments may declare */
    const char *source;
} AuTileCaps;

const AuTileCaps *tile_caps(const char *name); /* NULL if there is none */
const AuTileCaps *tile_caps_at(uint32_t n);    /* NULL after the last */
bool tile_has_atom(const AuTileCaps *caps, const AuTileAtom *atom);
/* The first atom of the target that multiplies operands of this type on this executor; NULL if none does. */
const AuTileAtom *tile_best_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on);
/* The same among those that round operands of f32 to tf32. */
const AuTileAtom *tile_rounding_atom(const AuTileCaps *caps, AuTileExecutor on);

#endif
