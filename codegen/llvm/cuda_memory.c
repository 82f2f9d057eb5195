/* cuda_memory.c - sums in memory and asynchronous copies of a thread. */
#include "cuda.h"

/* Vectors at once where the hardware can, else one by one. */
void cuda_atomic_add(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const GpuAccess a = gpu_access(e, id, kernel_at(e->k, value)->type.width, 2);
    LLVMValueRef v = emit_base(e, value), mask = gpu_always(a.mask) ? NULL : a.mask;
    GpuPlace place = gpu_place(e, a.mem, a.index, a.bytes);
    if (a.width == 1 || cuda_host(e)->capability >= 90) {
        cuda_reduce(e, &place, mask, v);
        return;
    }
    for (uint32_t n = 0; n < a.width; n++, place.offset += 4)
        cuda_reduce(e, &place, mask, emit_at(e, v, n));
}

/* ---- asynchronous copies */

static void copy_whole(AuEmit *e, const AuInstr *in, LLVMValueRef *arguments)
{
    if (in->imm == 16)
        emit_call(e, "llvm.nvvm.cp.async.cg.shared.global.16", NULL, NULL, arguments, 2);
    else if (in->imm == 8)
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.8", NULL, NULL, arguments, 2);
    else
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.4", NULL, NULL, arguments, 2);
}

static void copy_part(AuEmit *e, const AuInstr *in, LLVMValueRef *arguments)
{
    if (in->imm == 16)
        emit_call(e, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, NULL, arguments, 3);
    else if (in->imm == 8)
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.8.s", NULL, NULL, arguments, 3);
    else
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.4.s", NULL, NULL, arguments, 3);
}

static void copy(AuEmit *e, const AuInstr *in)
{
    const AuVal from = kernel_operand(e->k, in, 1), to = kernel_operand(e->k, in, 0);
    const uint32_t bytes = (uint32_t)in->imm;
    LLVMValueRef valid = emit_base(e, kernel_operand(e->k, in, 2));
    LLVMValueRef mask = in->count > 3 ? emit_base(e, kernel_operand(e->k, in, 3)) : NULL;
    if (!gpu_always(mask)) {
        const GpuPlace target = gpu_place(e, in->mem, to, bytes);
        const GpuPlace source = gpu_place(e, in->also[0], from, bytes);
        cuda_masked_copy(e, &target, &source, mask, valid, bytes);
        return;
    }
    LLVMValueRef arguments[3] = {gpu_address(e, in->mem, to), gpu_address(e, in->also[0], from),
                                 valid};
    if (LLVMIsAConstantInt(valid) && LLVMConstIntGetSExtValue(valid) == in->imm)
        copy_whole(e, in, arguments);
    else
        copy_part(e, in, arguments);
}

void cuda_copy(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    LLVMValueRef groups = gpu_i32(e, (uint32_t)in->imm);
    if (cuda_host(e)->capability < 80)
        emit_fault(e, in, "asynchronous copies need sm_80");
    else if (in->op == AU_K_COPY_ASYNC && kernel_is_direct(in->imm))
        emit_fault(e, in, "direct copies are AMD's");
    else if (in->op == AU_K_COPY_ASYNC)
        copy(e, in);
    else if (in->op == AU_K_COPY_COMMIT)
        emit_call(e, "llvm.nvvm.cp.async.commit.group", NULL, NULL, NULL, 0);
    else
        emit_call(e, "llvm.nvvm.cp.async.wait.group", NULL, NULL, &groups, 1);
}
