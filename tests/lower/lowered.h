/* lowered.h - runs the kernels of a tiled module twice on the same random inputs, on the interpreter
 * of the tiled IR and, lowered, on that of the kernel IR, and compares the outputs. */
#ifndef TEST_LOWERED_H
#define TEST_LOWERED_H

#include "kernel_run.h"
#include "run.h"
#include "support.h"

typedef struct Size {
    const char *name;
    int32_t value;
} Size;

typedef struct Lowered {
    const char *file, *text; /* an example by name, or a text */
    const char *hooks[4];    /* names of hook files among the examples, or texts with a `fn` */
    const Size *sizes;       /* extents of tensors that are no constants */
    const AuTileOverride *consts;
    uint32_t const_count;
    bool split;           /* a loop for each segment */
    uint32_t processors;  /* kernels with pipelines have blocks that stay, at most so many; 0: no */
    int32_t swizzle_span; /* bytes that stay together in swizzled rows; 0: 16 */
    bool of_core;         /* lanes are elements of a core's vectors */
    bool odd;             /* strides of tensors that are not those of a contiguous one */
    double tolerance;     /* of outputs, relative to the largest; 0: one rounding to bf16 */
    int32_t integers;     /* elements of i32 are below it; 0: 3 */
    uint64_t seed;        /* of the schedule of the kernel's executors */
} Lowered;

/* The lowered kernels of the module, verified; fails the test where there are none. */
AuTileModule *lowered_module(Session *s, const Lowered *t);
AuKernel *lowered_try(Session *s, const Lowered *t, AuTileModule *m, uint32_t which); /* or NULL */
AuKernel *lowered_kernel(Session *s, const Lowered *t, AuTileModule *m, uint32_t which);
void lowered_check(Session *s, const Lowered *t);
/* Called for each kernel before it runs, with what it is given. */
typedef void (*LoweredVisit)(const AuKernel *k, const AuKRun *run, void *user);
void lowered_visit(Session *s, const Lowered *t, LoweredVisit visit, void *user);

/* A program and its inputs, to be run with kernels that were changed. */
typedef struct LoweredBench LoweredBench;
LoweredBench *lowered_bench(Session *s, const Lowered *t);
AuKernel *lowered_bench_kernel(const LoweredBench *b, uint32_t which);
/* [instead]: of the kernel with its name; NULL: none is changed. NULL: the two interpreters agree, else what was found. */
const char *lowered_run(const LoweredBench *b, AuArena *scratch, const AuKernel *instead,
                        uint64_t seed);

#endif
