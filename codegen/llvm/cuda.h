/* cuda.h - the parts of the generator for NVIDIA GPUs to each other.
 *
 * A lane is a thread, so a value is one LLVM value. Memories of the block are parts of one array in
 * shared memory. Masked accesses are predicated instructions. */
#ifndef AU_LLVM_CUDA_H
#define AU_LLVM_CUDA_H

#include "emit.h"

/* Address spaces of NVPTX. */
enum { CUDA_GLOBAL = 1, CUDA_SHARED = 3 };

typedef struct AuCuda {
    LLVMValueRef lane, warp;
    AuLanes lanes; /* which values differ between lanes; made when first asked for */
    bool coarse;   /* results are about to become 16-bit floats: functions of a few ulp will do */
} AuCuda;

static inline LLVMValueRef cuda_i32(AuEmit *e, uint32_t value)
{
    return LLVMConstInt(e->element[AU_I32], value, false);
}
/* Whether [mask] is no mask or true. */
static inline bool cuda_always(LLVMValueRef mask)
{
    return !mask || (LLVMIsAConstantInt(mask) && LLVMConstIntGetZExtValue(mask));
}

/* cuda_emit.c */
extern const AuDevice cuda_device;

/* cuda_place.c */
void cuda_places(AuEmit *e);
uint32_t cuda_dynamic_shared(const AuKernel *k);
LLVMValueRef cuda_address(AuEmit *e, AuMem mem, AuVal index);
/* An address as a pointer and a constant, for instructions that are written as text. */
typedef struct CudaPlace {
    LLVMValueRef base;
    int64_t offset;
    const char *space; /* ".shared" */
    bool constant;     /* a tensor that is only read */
    uint32_t align;    /* bytes, of the access */
} CudaPlace;
bool cuda_sum(AuEmit *e, AuVal v); /* an addition of i32; false: nothing to gain, nothing emitted */
CudaPlace cuda_place(AuEmit *e, AuMem mem, AuVal index, uint32_t bytes);
/* To what power of two of bytes an access of [bytes] at [index] is certainly aligned, up to 16. */
uint32_t cuda_alignment(const AuEmit *e, AuMem mem, AuVal index, uint32_t bytes);

/* cuda_masked.c: [bytes] in all, [element] of one element; [other] and [v] as in memory */
LLVMValueRef cuda_masked_load(AuEmit *e, const CudaPlace *at, LLVMValueRef mask, LLVMValueRef other,
                              uint32_t bytes, uint32_t element);
void cuda_masked_store(AuEmit *e, const CudaPlace *at, LLVMValueRef mask, LLVMValueRef v,
                       uint32_t bytes, uint32_t element);
void cuda_reduce(AuEmit *e, const CudaPlace *at, LLVMValueRef mask, LLVMValueRef v);
void cuda_masked_copy(AuEmit *e, const CudaPlace *to, const CudaPlace *from, LLVMValueRef mask,
                      LLVMValueRef valid, uint32_t bytes);

/* cuda_memory.c */
void cuda_load(AuEmit *e, AuVal v);
void cuda_store(AuEmit *e, AuVal v);
void cuda_atomic_add(AuEmit *e, AuVal v);
void cuda_atomic_inc(AuEmit *e, AuVal v);
void cuda_copy(AuEmit *e, AuVal v);

/* cuda_matrix.c */
void cuda_mma(AuEmit *e, AuVal v);
void cuda_load_matrix(AuEmit *e, AuVal v);

/* cuda_math.c */
LLVMValueRef cuda_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands);
bool cuda_native_math(AuKOp op);

#endif
