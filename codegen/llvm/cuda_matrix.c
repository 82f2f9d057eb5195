/* cuda_matrix.c - mma.sync, ldmatrix and stmatrix. A fragment is a vector of the kernel IR; the instructions take its 32-bit parts. */
#include "cuda.h"

enum { MOST_PARTS = 4 };

/* Of a vector of 16-bit floats: elements 2 n and 2 n + 1. */
static LLVMValueRef pair(AuEmit *e, LLVMValueRef v, uint32_t n)
{
    return emit_count(v) == 2 ? v : emit_pick(e, v, 2 * n, 1, 2);
}

/* How the instruction wants the parts of an operand: pairs of f16 as such, everything else as bits. */
static uint32_t parts_of(AuEmit *e, AuKType type, LLVMValueRef v, LLVMValueRef *parts)
{
    const uint32_t count = type.width * kernel_scalar_bytes(type.scalar) / 4;
    for (uint32_t n = 0; n < count; n++) {
        if (type.scalar == AU_F32) {
            LLVMValueRef one = emit_at(e, v, n);
            parts[n] = emit_call(e, "llvm.nvvm.f2tf32.rna", NULL, NULL, &one, 1);
            continue;
        }
        parts[n] = pair(e, v, n);
        if (type.scalar == AU_BF16)
            parts[n] = LLVMBuildBitCast(e->builder, parts[n], e->element[AU_I32], "");
    }
    return count;
}

// clang-format off
static const char *const products[AU_MATRICES] = {
    [AU_MATRIX_M16N8K16_F16]   = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
    [AU_MATRIX_M16N8K16_BF16]  = "llvm.nvvm.mma.m16n8k16.row.col.bf16",
    [AU_MATRIX_M8N16K16_F16]   = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
    [AU_MATRIX_M8N16K16_BF16]  = "llvm.nvvm.mma.m16n8k16.row.col.bf16",
    [AU_MATRIX_M16N8K8_F16]    = "llvm.nvvm.mma.m16n8k8.row.col.f32.f32",
    [AU_MATRIX_M8N8K4_ROW_COL] = "llvm.nvvm.mma.m8n8k4.row.col.f32.f32",
    [AU_MATRIX_M8N8K4_ROW_ROW] = "llvm.nvvm.mma.m8n8k4.row.row.f32.f32",
    [AU_MATRIX_M8N8K4_COL_COL] = "llvm.nvvm.mma.m8n8k4.col.col.f32.f32",
    [AU_MATRIX_M8N8K4_COL_ROW] = "llvm.nvvm.mma.m8n8k4.col.row.f32.f32",
    [AU_MATRIX_M16N8K8_TF32]   = "llvm.nvvm.mma.m16n8k8.row.col.tf32",
};
// clang-format on

void cuda_mma(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuMatrixOp op = kernel_matrix((AuMatrix)in->imm);
    const uint32_t least = op.atom->k == 4 ? 70 : in->imm == AU_MATRIX_M16N8K8_F16 ? 75 : 80;
    LLVMValueRef arguments[3 * MOST_PARTS], c = emit_base(e, kernel_operand(e->k, in, 0));
    if (cuda_host(e)->capability < least) {
        emit_fault(e, in, au_format(e->arena, "%s needs sm_%u", op.text, least));
        return;
    }
    const bool exchanged = in->imm == AU_MATRIX_M8N16K16_F16 || in->imm == AU_MATRIX_M8N16K16_BF16;
    const int first = exchanged ? AU_MATRIX_B : AU_MATRIX_A,
              second = AU_MATRIX_A + AU_MATRIX_B - first;
    uint32_t count = parts_of(
        e, op.types[first], emit_base(e, kernel_operand(e->k, in, 1 + (uint32_t)first)), arguments);
    count +=
        parts_of(e, op.types[second], emit_base(e, kernel_operand(e->k, in, 1 + (uint32_t)second)),
                 arguments + count);
    for (uint32_t n = 0; n < op.types[AU_MATRIX_C].width; n++)
        arguments[count++] = emit_at(e, c, n);
    LLVMValueRef sums = emit_call(e, products[in->imm], NULL, NULL, arguments, count);
    LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(c));
    for (uint32_t n = 0; n < op.types[AU_MATRIX_C].width; n++)
        all = emit_put(e, all, LLVMBuildExtractValue(e->builder, sums, n, ""), n);
    emit_set(e, v, all, false);
}

/* Names by what is moved: 1, 2 or 4 matrices, from 8 on transposed. */
enum { MOVES = 13 };
// clang-format off
static const char *const fetches[MOVES] = {
    [1] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16", [9] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.trans.b16",
    [2] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16", [10] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16",
    [4] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16", [12] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"};
static const char *const stores[MOVES] = {
    [1] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16", [9] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.trans.b16",
    [2] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.b16", [10] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.trans.b16",
    [4] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16", [12] = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.trans.b16"};
// clang-format on

void cuda_load_matrix(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const uint32_t count = (uint32_t)in->imm & 7, part = in->type.width / count;
    const AuScalar scalar = (AuScalar)in->type.scalar;
    LLVMValueRef all = LLVMGetPoison(emit_type(e, scalar, in->type.width));
    if (cuda_host(e)->capability < 75) {
        emit_fault(e, in, "ldmatrix needs sm_75");
        return;
    }
    LLVMValueRef at = gpu_address(e, in->mem, kernel_operand(e->k, in, 0));
    LLVMValueRef rows = emit_call(e, fetches[in->imm], LLVMTypeOf(at), NULL, &at, 1);
    for (uint32_t n = 0; n < count; n++) {
        LLVMValueRef one = count > 1 ? LLVMBuildExtractValue(e->builder, rows, n, "") : rows;
        one = LLVMBuildBitCast(e->builder, one, emit_type(e, scalar, part), "");
        if (in->type.width == 1) {
            all = one;
            break;
        }
        for (uint32_t x = 0; x < part; x++)
            all = emit_put(e, all, part > 1 ? emit_at(e, one, x) : one, n * part + x);
    }
    emit_set(e, v, all, false);
}

void cuda_store_matrix(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const uint32_t count = (uint32_t)in->imm & 7;
    LLVMValueRef held = emit_base(e, kernel_operand(e->k, in, 1)),
                 arguments[1 + MOST_PARTS] = {gpu_address(e, in->mem, kernel_operand(e->k, in, 0))};
    if (cuda_host(e)->capability < 90) {
        emit_fault(e, in, "stmatrix needs sm_90");
        return;
    }
    for (uint32_t n = 0; n < count; n++)
        arguments[1 + n] = LLVMBuildBitCast(e->builder, pair(e, held, n), e->element[AU_I32], "");
    emit_call(e, stores[in->imm], LLVMTypeOf(arguments[0]), NULL, arguments, 1 + count);
}
