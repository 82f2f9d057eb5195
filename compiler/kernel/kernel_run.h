/* kernel_run.h - the interpreter of the kernel IR: every lane of every block; finds what a device would do silently. */
#ifndef AU_KERNEL_RUN_H
#define AU_KERNEL_RUN_H

#include "kernel.h"

typedef struct AuKBuffer {
    void *data;       /* of the memory's element type */
    uint64_t count;   /* elements; an index outside is an error */
    bool initialised; /* false: reading before writing is an error */
} AuKBuffer;
typedef struct AuKMap { /* what the launch expressions of a map come to */
    int64_t size[AU_MAP_RANK], stride[AU_MAP_RANK];
} AuKMap;
typedef struct AuKRun {
    const uint64_t *slots; /* one per argument; those of pointers are ignored */
    AuKBuffer *buffers;    /* one per argument; those of scalars are ignored */
    const AuKMap *maps;    /* one per map */
    uint32_t grid[3];
    uint64_t seed;     /* of the schedule of the executors between barriers */
    bool lockstep;     /* lanes are elements of vectors: an instruction ends in all lanes before the
                      next begins */
    bool bounds_alone; /* in buffers neither races are looked for nor what was not written */
    bool check_all_written; /* buffers with initialised false must be completely written at the end
                             */
} AuKRun;
/* false: *why tells the kind (race, uninitialised, bounds, divergence, unwritten), the instruction,
 * lane, executor and block. */
bool kernel_run(const AuKernel *k, const AuKRun *run, AuArena *scratch, const char **why);

#endif
