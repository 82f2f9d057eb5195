/* run.h - the interpreter of the tiled IR. It runs every kernel of a verified module over its grid under one random schedule:
 * blocks in random order, the executors of a block interleaved statement by statement, asynchronous operations ending at random
 * moments between their issue and their wait. Numbers are f32; operands are rounded to f16 and bf16 where the program says so.
 *
 * It reports, with line and executor, what is wrong under any schedule: races (every memory keeps its accesses with vector clocks),
 * reads of what was not written, positions outside, deadlocks, barriers reached twice in a phase, outputs not completely written. */
#ifndef AU_TILE_RUN_H
#define AU_TILE_RUN_H

#include "tile.h"

enum { TILE_MAX_RANK = TILE_MAX_AXES };

/* A tensor of the launch, dense, row by row. Elements are f32 or, for i32, i64, u8 and bool, int32_t. */
typedef struct AuTileTensor {
    const char *name;
    uint32_t rank;
    int64_t shape[TILE_MAX_RANK];
    float *f32;
    int32_t *i32;
    bool fresh;     /* holds nothing yet: outputs, workspace */
    bool workspace; /* need not be completely written */
} AuTileTensor;

typedef struct AuTileScalar {
    const char *name;
    double value;
} AuTileScalar;

typedef struct AuTileLaunch {
    AuTileTensor *tensors; /* of all kernels of the module, by name */
    uint32_t tensor_count;
    const AuTileScalar *params;
    uint32_t param_count;
    uint64_t seed;
    uint32_t
        items; /* blocks of the grid that one launched block works through (persistent kernels); 0: 1 */
} AuTileLaunch;

/* Float tensors are rounded to their element types first. False after an error. */
bool tile_run(AuDiags *diags, const AuTileModule *module, const AuTileLaunch *launch);

#endif
