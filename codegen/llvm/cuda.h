/* cuda.h - the parts of the generator for NVIDIA GPUs to each other; what all GPUs share is gpu.h. Masked accesses are predicated
 * instructions. */
#ifndef AU_LLVM_CUDA_H
#define AU_LLVM_CUDA_H

#include "gpu.h"

typedef struct CudaHost {
    AuHost host;
    uint32_t capability; /* 80 for sm_80 */
    bool groups;         /* products of groups of warps, registers that change hands: sm_90a */
} CudaHost;

typedef struct CudaChain CudaChain;
typedef struct CudaKernel {
    GpuKernel gpu;
    CudaChain *chain; /* products of a group that are not written yet (cuda_group.c) */
} CudaKernel;

static inline const CudaHost *cuda_host(const AuEmit *e) { return (const CudaHost *)e->host; }
static inline const CudaKernel *cuda_kernel(const AuEmit *e) { return (const CudaKernel *)e->gpu; }

/* cuda_emit.c */
extern const GpuDevice cuda_device;
uint32_t cuda_dynamic_shared(const AuKernel *k);

/* cuda_text.c: one piece of text. Results are numbered before operands, so they are named first. */
typedef struct CudaText {
    AuEmit *e;
    AuText text, how;
    LLVMTypeRef *results, *types;
    LLVMValueRef *values;
    uint32_t result_count, result_capacity, count, capacity, value_count, value_capacity;
} CudaText;
typedef enum CudaEffect {
    CUDA_NONE,    /* a function of its operands */
    CUDA_EFFECT,  /* accesses memory */
    CUDA_TOGETHER /* ... by all lanes: control flow around it stays as it is */
} CudaEffect;
CudaText cuda_text(AuEmit *e);
uint32_t cuda_result(CudaText *t, const char *constraint, LLVMTypeRef type);
uint32_t cuda_take(CudaText *t, const char *constraint, LLVMValueRef v); /* gives its number */
void cuda_list(AuText *text, uint32_t first, uint32_t count);
void cuda_when(CudaText *t, LLVMValueRef mask);
LLVMValueRef cuda_build(CudaText *t, CudaEffect effect);
LLVMValueRef cuda_result_at(const CudaText *t, LLVMValueRef call, uint32_t n);
/* A place in shared memory that no swizzle has moved, for units that know about swizzles. */
typedef struct CudaShared {
    LLVMValueRef base; /* i32 */
    int64_t offset;
} CudaShared;
CudaShared cuda_shared(AuEmit *e, AuMem mem, AuVal index);
void cuda_at(CudaText *t, CudaShared at);

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
void cuda_store_matrix(AuEmit *e, AuVal v);

/* cuda_barriers.c: lanes and executors that wait for each other, and fences; false: not one of them */
bool cuda_barriers(AuEmit *e, AuVal v);

/* cuda_bulk.c: copies by a unit of their own; likewise */
bool cuda_bulk(AuEmit *e, AuVal v);

/* cuda_group.c: products of groups; likewise */
bool cuda_group(AuEmit *e, AuVal v);
/* What was held back is written, because something follows that is none of the chain's. */
void cuda_group_flush(AuEmit *e);

/* cuda_codes.c: NULL: another operation. */
LLVMValueRef cuda_codes(AuEmit *e, const AuInstr *in, LLVMValueRef x);

#endif
