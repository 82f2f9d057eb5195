/* verify.h - the parts of the verifier to each other. */
#ifndef AU_KERNEL_VERIFY_H
#define AU_KERNEL_VERIFY_H

#include "internal.h"

typedef struct AuVerifier {
    const AuKernel *k;
    AuDiags *diags;
    uint8_t *
        state; /* of an instruction: 0 not met, 1 visible, 2 out of sight, 3 visible and of an element */
    AuLanes lanes, block;
    AuLanes group;
    bool differs; /* inside control flow that differs between the executors of a block */
    bool differs_in_group;
    bool begun;                /* something has been done in this region */
    uint32_t depth;            /* of regions */
    uint32_t each;             /* the `matrix_each` that this is in; 0: none */
    bool grid_next, grid_wait; /* were met */
    bool *objects;             /* memories that hold mbarriers */
    bool good;
} AuVerifier;

/* Sets of scalars, bits by AuScalar. */
enum {
    I1 = 1 << AU_I1,
    I32 = 1 << AU_I32,
    I64 = 1 << AU_I64,
    F32 = 1 << AU_F32,
    INT = I32 | I64,
    NUMBER = INT | F32,
    HALF = 1 << AU_F16 | 1 << AU_BF16,
    ANY_SCALAR = NUMBER | I1 | HALF | 1 << AU_U8
};

/* Reports instruction [i] in its text form. */
void verify_wrong(AuVerifier *v, AuCode code, uint32_t i, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *verify_type_text(const AuVerifier *v, AuKType t);
AuKType verify_type_at(const AuVerifier *v, const AuInstr *in, uint32_t n); /* of operand n */
/* Operand n has one of the scalars in the set and the width. */
bool verify_wants(AuVerifier *v, uint32_t i, uint32_t n, uint32_t scalars, uint32_t width,
                  const char *what);
void verify_range(AuVerifier *v, uint32_t i, int64_t low, int64_t high); /* of imm */

/* verify_matrix.c */
void verify_matmul(AuVerifier *v, uint32_t i);
void verify_slice(AuVerifier *v, uint32_t i);
void verify_mma(AuVerifier *v, uint32_t i);
void verify_rows_of_matrix(AuVerifier *v, uint32_t i);
void verify_block(AuVerifier *v, uint32_t i);
void verify_copy(AuVerifier *v, uint32_t i);

/* verify_opaque.c */
const char *verify_matrices(const AuKernel *k, const AuMemory *m); /* what is wrong, or NULL */
void verify_opaque(AuVerifier *v, uint32_t i);                     /* operations with that flag */
void verify_place(AuVerifier *v, uint32_t i); /* ... or in a function of an element */

/* verify_group.c */
void verify_wgmma(AuVerifier *v, uint32_t i);
void verify_wgmma_wait(AuVerifier *v, uint32_t i);
/* ... and what products of a group share with those into tensor memory */
int64_t verify_constant(const AuVerifier *v, const AuInstr *in, uint32_t n); /* i32; else -1 */
/* In all lanes, or of operations of a group in all of its executors. */
void verify_uniform(AuVerifier *v, uint32_t i, uint32_t n, const char *what);
/* An operand in swizzled shared memory. [extent]: across the contracted axis. */
void verify_shared_operand(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem, const AuGroupOp *op,
                           bool turned, int64_t extent, int64_t stride);

/* verify_tensor.c */
const char *verify_tensor_memory(const AuKernel *k, const AuMemory *m); /* what is wrong, or NULL */
void verify_tensor(AuVerifier *v, uint32_t i);

/* verify_async.c */
void verify_find_objects(AuVerifier *v);
void verify_map(AuVerifier *v, const AuMap *map);
void verify_agent(AuVerifier *v, uint32_t i); /* operations with the flag AGENTS */

/* verify_grids.c */
void verify_grids(AuVerifier *v, uint32_t i); /* every instruction, in order */

#endif
