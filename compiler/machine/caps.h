/* caps.h - what the machines have: the rows of caps.def. A schedule, a pass or the verifier asks here and never for a target's
 * name. */
#ifndef AU_MACHINE_CAPS_H
#define AU_MACHINE_CAPS_H

#include "atoms.h"

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
    bool ldmatrix;      /* operands of matrix units come from shared memory by rows of 16 bytes */
    bool max_with_nan;  /* a maximum that is NaN where an operand is costs no more than another */
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
