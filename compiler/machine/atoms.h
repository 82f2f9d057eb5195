/* atoms.h - matrix instructions ("atoms") with the layouts of their operands, element types and executors: the rows of atoms.def. */
#ifndef AU_MACHINE_ATOMS_H
#define AU_MACHINE_ATOMS_H

#include "layout.h"

/* ---- elements */

// clang-format off
typedef enum AuTileElem {
#define ELEM(NAME, text, bytes, flags) TILE_##NAME,
#include "atoms.def"
} AuTileElem;
enum { TILE_ELEM_COUNT = TILE_I8 + 1 };
// clang-format on

typedef struct AuTileElemInfo {
    const char *name;
    uint8_t bytes;
    bool is_float;
    bool memory_only; /* read as i32, or f32 if it is a float; no fragment has it */
    bool is_code;     /* of a stored number (codes.h): kernels see bytes, which they convert */
} AuTileElemInfo;
const AuTileElemInfo *tile_elem(AuTileElem elem);

/* ---- executors */

// clang-format off
typedef enum AuTileExecutor {
#define EXECUTOR(NAME, text, warps) TILE_ON_##NAME,
#include "atoms.def"
} AuTileExecutor;
enum { TILE_EXECUTOR_COUNT = TILE_ON_BLOCK + 1 };
// clang-format on
const char *tile_executor_name(AuTileExecutor executor);

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
    bool
        by_place; /* where elements lie is the device's secret, but functions of an element get its row and column: digits are names alone */
    bool
        joins; /* by_place: and its rows are reduced, and sums become operands without memory (else: tile_place_bytes) */
    bool
        multiples; /* by_place: a matrix may have multiples of m, n and k, so that a fragment is one */
    bool
        of_block; /* then: held by all threads of a block, on machines whose warps are blocks (caps.def) */
    bool tensor;    /* C, and A if not in shared memory, live in tensor memory */
    bool turns;     /* memory may be read by parts of rows or of columns: tile_turned_places */
    bool rounds;    /* operands of f32 to tf32: 10 bits of mantissa, ties away from zero */
    bool exchanges; /* sums become operand A by one exchange between lanes: tile_spread_bit */
    const char *note;
} AuTileAtom;

const AuTileAtom *tile_atom(const char *name); /* NULL if there is none */
const AuTileAtom *tile_atom_at(uint32_t n);    /* NULL after the last */
/* Are they one instruction? Some machines have it for fewer types of operands than others, and so an atom of their own. */
bool tile_same_instruction(const AuTileAtom *a, const AuTileAtom *b);
int32_t tile_atom_extent(const AuTileAtom *atom, AuTileUse use, int axis); /* rows: 0, columns: 1 */
/* Of shared memory an executor has to reduce rows, and to make operands of 16 bits of sums, where the instruction does neither. */
int32_t tile_place_bytes(const AuTileAtom *atom);
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
/* May an operand with these places along its free axis be added to sums with those? One permutation of the axis common to both. */
bool tile_free_matches(const AuTileAtom *atom, AuTileUse use, const AuTilePlaces *operand,
                       const AuTilePlaces *sums, int32_t extent);

#endif
