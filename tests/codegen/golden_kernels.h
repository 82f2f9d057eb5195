/* golden_kernels.h - the kernels of tests/golden/opencl-c, with what they are run on; devices run them beside the kernel IR's
 * interpreter. */
#ifndef AU_TEST_CODEGEN_GOLDEN_KERNELS_H
#define AU_TEST_CODEGEN_GOLDEN_KERNELS_H

#include "data.h"

typedef struct GoldenKernel {
    const char *name;
    uint32_t blocks;
    float within;       /* absolute: a sum of weights that are 3 units off each; 0: exact */
    uint64_t counts[8]; /* elements of pointers, bits of scalars, in the order of the arguments */
    bool whole;         /* floats without fraction: their sums are exact in any order */
} GoldenKernel;

extern const GoldenKernel golden_kernels[];
extern const size_t golden_kernel_count;

/* The kernel of that name in the folder; what the interpreter makes of it. */
AuKernel *golden_kernel(Bench *b, const char *folder, const GoldenKernel *g);
AuKRun golden_run(Bench *b, AuKernel *k, const GoldenKernel *g);
/* The same run with memory of its own, as it was before. */
AuKRun golden_run_again(Bench *b, const AuKernel *k, const GoldenKernel *g, const AuKRun *run);
/* Fails the test where the device's numbers are not the interpreter's. */
void golden_compare(const AuKernel *k, const GoldenKernel *g, const AuKRun *want,
                    const AuKRun *have, const char *device);

#endif
