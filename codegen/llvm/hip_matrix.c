/* hip_matrix.c - products of a wave: MFMA (CDNA) and WMMA (RDNA); of two pairs a lane.
 *
 * Rows of atoms.def give AMD's instructions turned, D' = B' A': what is operand A there is the instruction's B and the other way
 * round, and the sums have rows and columns exchanged. Operands and sums are vectors of a lane as they are. */
#include "hip.h"

typedef enum Form {
    AS_IS,   /* operands are vectors of their type */
    AS_BITS, /* of i16 */
    WMMA,    /* named with the types of sums and operands */
    WMMA_BITS
} Form;

typedef struct Product {
    const char *intrinsic;
    Form form;
} Product;

// clang-format off
static const Product products[AU_MATRICES] = {
    [AU_MATRIX_MFMA_32X32X8_F16]   = {"llvm.amdgcn.mfma.f32.32x32x8f16", AS_IS},
    [AU_MATRIX_MFMA_32X32X8_BF16]  = {"llvm.amdgcn.mfma.f32.32x32x8bf16.1k", AS_BITS},
    [AU_MATRIX_MFMA_16X16X16_F16]  = {"llvm.amdgcn.mfma.f32.16x16x16f16", AS_IS},
    [AU_MATRIX_MFMA_16X16X16_BF16] = {"llvm.amdgcn.mfma.f32.16x16x16bf16.1k", AS_BITS},
    [AU_MATRIX_MFMA_32X32X4_BF16]  = {"llvm.amdgcn.mfma.f32.32x32x4bf16", AS_BITS},
    [AU_MATRIX_MFMA_16X16X8_BF16]  = {"llvm.amdgcn.mfma.f32.16x16x8bf16", AS_BITS},
    [AU_MATRIX_MFMA_32X32X16_F16]  = {"llvm.amdgcn.mfma.f32.32x32x16.f16", AS_IS},
    [AU_MATRIX_MFMA_32X32X16_BF16] = {"llvm.amdgcn.mfma.f32.32x32x16.bf16", AS_IS},
    [AU_MATRIX_WMMA11_F16]         = {"llvm.amdgcn.wmma.f32.16x16x16.f16", WMMA},
    [AU_MATRIX_WMMA11_BF16]        = {"llvm.amdgcn.wmma.f32.16x16x16.bf16", WMMA_BITS},
    [AU_MATRIX_WMMA12_F16]         = {"llvm.amdgcn.wmma.f32.16x16x16.f16", WMMA},
    [AU_MATRIX_WMMA12_BF16]        = {"llvm.amdgcn.wmma.f32.16x16x16.bf16", WMMA_BITS},
};
// clang-format on

/* LLVM ends the process at an instruction that the machine lacks, so none is written. */
static bool has(const HipHost *host, AuMatrix which)
{
    switch ((int)which) {
    case AU_MATRIX_MFMA_32X32X8_F16:
    case AU_MATRIX_MFMA_16X16X16_F16: return host->mfma;
    case AU_MATRIX_MFMA_32X32X8_BF16:
    case AU_MATRIX_MFMA_16X16X16_BF16: return host->mfma && !host->half_rate_bf16;
    case AU_MATRIX_MFMA_32X32X4_BF16:
    case AU_MATRIX_MFMA_16X16X8_BF16: return host->half_rate_bf16;
    case AU_MATRIX_MFMA_32X32X16_F16:
    case AU_MATRIX_MFMA_32X32X16_BF16: return host->mfma_wide;
    case AU_MATRIX_WMMA11_F16:
    case AU_MATRIX_WMMA11_BF16: return host->wmma11;
    case AU_MATRIX_WMMA12_F16:
    case AU_MATRIX_WMMA12_BF16: return host->wmma12;
    }
    return false;
}

static LLVMValueRef operand(AuEmit *e, const AuInstr *in, uint32_t n, Form form)
{
    LLVMValueRef v = emit_base(e, kernel_operand(e->k, in, n));
    if (form != AS_BITS && form != WMMA_BITS) return v;
    LLVMTypeRef bits = LLVMVectorType(LLVMInt16TypeInContext(e->context), emit_count(v));
    return LLVMBuildBitCast(e->builder, v, bits, "");
}

bool hip_dot2(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuVal sum = kernel_operand(e->k, in, 0), a = kernel_operand(e->k, in, 1),
                b = kernel_operand(e->k, in, 2);
    if (!hip_host(e)->dots || kernel_at(e->k, a)->type.scalar != AU_F16) return false;
    LLVMValueRef arguments[4] = {
        emit_base(e, a), emit_base(e, b), emit_base(e, sum),
        LLVMConstInt(LLVMInt1TypeInContext(e->context), false, false)}; /* no clamp */
    emit_set(e, v, emit_call(e, "llvm.amdgcn.fdot2", NULL, NULL, arguments, 4), false);
    return true;
}

void hip_mma(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const Product *p = &products[in->imm];
    if (!p->intrinsic || !has(hip_host(e), (AuMatrix)in->imm)) {
        emit_fault(e, in,
                   au_format(e->arena, "%s has no %s", e->host->cpu,
                             kernel_matrix((AuMatrix)in->imm).text));
        return;
    }
    LLVMValueRef c = emit_base(e, kernel_operand(e->k, in, 0)), none = gpu_i32(e, 0), sums;
    LLVMValueRef arguments[6] = {
        operand(e, in, 2, p->form), operand(e, in, 1, p->form), c, none, none, none};
    if (p->form == WMMA || p->form == WMMA_BITS)
        sums = emit_call(e, p->intrinsic, LLVMTypeOf(c), LLVMTypeOf(arguments[0]), arguments, 3);
    else
        sums = emit_call(e, p->intrinsic, NULL, NULL, arguments, 6);
    emit_set(e, v, sums, false);
}

/* Pieces of 4 of shared memory, which 16 lanes turn. */
void hip_load_matrix(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (!hip_host(e)->turns || kernel_turned(in->imm) != 4) {
        emit_fault(e, in, au_format(e->arena, "%s has no such loads of matrices", e->host->cpu));
        return;
    }
    LLVMValueRef at = gpu_address(e, in->mem, kernel_operand(e->k, in, 0));
    LLVMTypeRef bits = LLVMVectorType(LLVMInt16TypeInContext(e->context), 4);
    LLVMValueRef all = emit_call(e, "llvm.amdgcn.ds.read.tr16.b64", bits, NULL, &at, 1);
    emit_mark(e, all, in->mem); /* else it waits for copies to other memories */
    all = LLVMBuildBitCast(e->builder, all, emit_type(e, (AuScalar)in->type.scalar, 4), "");
    emit_set(e, v, all, false);
}
