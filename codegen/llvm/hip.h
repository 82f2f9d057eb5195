/* hip.h - the parts of the generator for AMD GPUs to each other; what all GPUs share is gpu.h. */
#ifndef AU_LLVM_HIP_H
#define AU_LLVM_HIP_H

#include "gpu.h"

/* hip_emit.c */
extern const GpuDevice hip_wave64, hip_wave32;

/* What a machine has beside what all have. */
typedef struct HipHost {
    AuHost host;
    bool rows_cross;                                      /* v_permlanex16: RDNA */
    bool mfma, half_rate_bf16, mfma_wide, wmma11, wmma12; /* products, by generation */
    bool
        one_file; /* products take and give vector registers, too: accumulation registers are more of these (CDNA 2 on) */
    bool mixes; /* f16 of one f32 alone: v_fma_mixlo_f16 and v_fma_mixhi_f16 save what packs two */
    bool dots;  /* v_dot2_f32_f16, where it keeps denormals and no matrix unit is the faster one */
    bool turns; /* ds_read_b64_tr_b16 */
    bool copies_direct; /* global_load_lds_dwordx4 */
    bool halves_swap;   /* v_permlane32_swap, v_permlane16_swap */
    bool generic;       /* an ISA of several machines */
} HipHost;

static inline const HipHost *hip_host(const AuEmit *e) { return (const HipHost *)e->host; }

typedef struct HipKernel {
    GpuKernel gpu;
    LLVMBasicBlockRef
        asked; /* the block of LLVM's that has `upper`, whether the lane is in an upper row of 16 */
    LLVMValueRef upper;
} HipKernel;

/* hip_shuffle.c: of all lanes of a wave */
bool hip_both(AuEmit *e, LLVMValueRef word, uint32_t bit, LLVMValueRef out[2]);
LLVMValueRef hip_exchange(AuEmit *e, bool by_xor, LLVMValueRef bits, LLVMValueRef lane);

/* hip_arrive.c: in front of a loop: operands that it holds have arrived */
void hip_arrive(AuEmit *e, const AuInstr *loop);

/* hip_memory.c */
LLVMValueRef hip_masked_load(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef other,
                             uint32_t bytes, uint32_t element);
void hip_masked_store(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v,
                      uint32_t bytes, uint32_t element);
void hip_atomic_add(AuEmit *e, AuVal v);
/* hip_matrix.c: products; of two pairs, false: the machine has none of this type, and nothing was emitted */
bool hip_dot2(AuEmit *e, AuVal v);
/* hip_copy.c: copies to LDS that no register sees */
void hip_copy(AuEmit *e, AuVal v);

/* hip_pairs.c: operations of f32 in twos, for machines with one file of registers; the module has been optimised. [chains]: rows
 * of sums, too, which LLVM leaves where the block of a loop that has them is not its last. */
void hip_pairs(AuArena *arena, LLVMModuleRef module, bool chains);

/* hip_halves.c: f32 to halves of registers, for machines that round one number an instruction; the module has been optimised. */
void hip_halves(LLVMModuleRef module);

/* hip_bf16.c: f32 to bf16 on machines that do not round; the module has been optimised. */
void hip_bf16(LLVMModuleRef module);

/* hip_stay.c: products of RDNA do not go behind branches; the module has been optimised. */
void hip_stay(LLVMModuleRef module);
bool hip_is_product(LLVMValueRef v); /* a product of RDNA */
/* The same by an empty text of assembly, where the builder is; [effects]: nothing with effects passes it. */
LLVMValueRef hip_same(LLVMBuilderRef builder, LLVMValueRef v, bool effects);

/* hip_pace.c: operands of products are not read further ahead than a kernel says, in this attribute of its function; the module has been optimised. */
#define HIP_PACED "aule-paced"
void hip_pace(LLVMModuleRef module);

/* hip_matrix.c */
void hip_mma(AuEmit *e, AuVal v);
void hip_load_matrix(AuEmit *e, AuVal v);

#endif
