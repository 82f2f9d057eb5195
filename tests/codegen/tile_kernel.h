/* tile_kernel.h - S[kv, q] = sum over d of K[kv, d] Q[d, q], as the lowering of attention to hosts makes it: [rows] of K by
 * broadcast times [vectors] of Q, their sums in registers. What decides whether host code is fast. */
#ifndef AU_TEST_TILE_KERNEL_H
#define AU_TEST_TILE_KERNEL_H

#include "kernel.h"

enum { TILE = 64 }; /* rows of K, and of Q */

typedef struct TileShape {
    uint32_t lanes, rows, vectors, unroll, depth;
    bool dot; /* bf16 pairs by DOT2: Q[d / 2, q, 2] */
} TileShape;

/* Arguments: K, Q, S, and how often to do it all. Computes the first TILE / rows * rows rows of S. */
AuKernel *tile_kernel(AuArena *arena, const TileShape *shape);

#endif
