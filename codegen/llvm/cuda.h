/* cuda.h - the parts of the generator for NVIDIA GPUs to each other; what all GPUs share is gpu.h. Masked accesses are predicated
 * instructions. */
#ifndef AU_LLVM_CUDA_H
#define AU_LLVM_CUDA_H

#include "gpu.h"

typedef struct CudaHost {
    AuHost host;
    uint32_t capability; /* 80 for sm_80 */
} CudaHost;

typedef struct CudaKernel {
    GpuKernel gpu;
    bool coarse; /* results are about to become 16-bit floats: functions of a few ulp will do */
} CudaKernel;

static inline const CudaHost *cuda_host(const AuEmit *e) { return (const CudaHost *)e->host; }
static inline const CudaKernel *cuda_kernel(const AuEmit *e) { return (const CudaKernel *)e->gpu; }

/* cuda_emit.c */
extern const GpuDevice cuda_device;
uint32_t cuda_dynamic_shared(const AuKernel *k);

/* cuda_masked.c: [bytes] in all, [element] of one element; [other] and [v] as in memory */
LLVMValueRef cuda_masked_load(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef other,
                              uint32_t bytes, uint32_t element);
void cuda_masked_store(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v,
                       uint32_t bytes, uint32_t element);
void cuda_reduce(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v);
void cuda_masked_copy(AuEmit *e, const GpuPlace *to, const GpuPlace *from, LLVMValueRef mask,
                      LLVMValueRef valid, uint32_t bytes);

/* cuda_memory.c */
void cuda_atomic_add(AuEmit *e, AuVal v);
void cuda_copy(AuEmit *e, AuVal v);

/* cuda_matrix.c */
void cuda_mma(AuEmit *e, AuVal v);
void cuda_load_matrix(AuEmit *e, AuVal v);

/* cuda_math.c */
LLVMValueRef cuda_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands);
bool cuda_native_math(AuKOp op);

#endif
