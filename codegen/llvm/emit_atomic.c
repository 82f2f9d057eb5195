/* emit_atomic.c - atomic operations: lane by lane, each under its mask; additions to one address are summed first. */
#include "emit.h"

static LLVMValueRef update(AuEmit *e, LLVMAtomicRMWBinOp op, LLVMValueRef at, LLVMValueRef v,
                           LLVMAtomicOrdering order)
{
    return LLVMBuildAtomicRMW(e->builder, op, at, v, order, false);
}

static LLVMAtomicRMWBinOp addition(AuScalar scalar)
{
    return scalar == AU_F32 ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
}

/* All lanes add to one address. */
static void add_together(AuEmit *e, const AuInstr *in, AuVal value, AuVal mask)
{
    const AuScalar scalar = (AuScalar)kernel_at(e->k, value)->type.scalar;
    LLVMValueRef v = emit_wide(e, value), zero = LLVMConstNull(LLVMTypeOf(v));
    LLVMBasicBlockRef after = NULL;
    if (mask.i) {
        v = LLVMBuildSelect(e->builder, emit_wide(e, mask), v, zero, "");
        after = emit_when(e, emit_any(e, emit_wide(e, mask)));
    }
    LLVMValueRef sum;
    if (scalar == AU_F32) {
        LLVMValueRef arguments[2] = {LLVMConstReal(e->element[AU_F32], -0.0), v};
        sum = emit_call(e, "llvm.vector.reduce.fadd", LLVMTypeOf(v), NULL, arguments, 2);
    } else
        sum = emit_call(e, "llvm.vector.reduce.add", LLVMTypeOf(v), NULL, &v, 1);
    LLVMValueRef at = emit_address(e, in->mem, kernel_operand(e->k, in, 0));
    update(e, addition(scalar), at, sum, LLVMAtomicOrderingMonotonic);
    if (after) emit_when_end(e, after);
}

void emit_atomic_add(AuEmit *e, AuVal id)
{
    const AuInstr *in = kernel_at(e->k, id);
    const AuVal index = kernel_operand(e->k, in, 0), value = kernel_operand(e->k, in, 1);
    const AuVal mask = in->count > 2 ? kernel_operand(e->k, in, 2) : (AuVal){0};
    if (kernel_at(e->k, value)->type.width > 1) {
        emit_fault(e, in, "an atomic operation on vectors");
        return;
    }
    if (emit_kind(e, index) == AU_UNIFORM) {
        const uint32_t trail = e->trail_count; /* forms made under the branch end with it */
        add_together(e, in, value, mask);
        emit_forget(e, trail);
        return;
    }
    LLVMValueRef at = emit_pointers(e, in->mem, index, 1), v = emit_wide(e, value);
    LLVMValueRef taken = mask.i ? emit_wide(e, mask) : NULL;
    const AuScalar scalar = (AuScalar)kernel_at(e->k, value)->type.scalar;
    for (uint32_t l = 0; l < e->k->lanes; l++) {
        LLVMBasicBlockRef after = taken ? emit_when(e, emit_at(e, taken, l)) : NULL;
        update(e, addition(scalar), emit_at(e, at, l), emit_at(e, v, l),
               LLVMAtomicOrderingMonotonic);
        if (after) emit_when_end(e, after);
    }
}

/* Lanes without the mask get 0. */
void emit_atomic_inc(AuEmit *e, AuVal id)
{
    const AuInstr *in = kernel_at(e->k, id);
    const AuVal index = kernel_operand(e->k, in, 0);
    LLVMValueRef one = emit_int(e, AU_I32, 1, 1), zero = emit_int(e, AU_I32, 0, 1);
    LLVMValueRef at = emit_pointers(e, in->mem, index, 1);
    LLVMValueRef taken = in->count > 1 ? emit_wide(e, kernel_operand(e->k, in, 1)) : NULL;
    LLVMValueRef all = LLVMGetPoison(emit_type(e, AU_I32, e->k->lanes));
    for (uint32_t l = 0; l < e->k->lanes; l++) {
        LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
        LLVMBasicBlockRef after = taken ? emit_when(e, emit_at(e, taken, l)) : NULL;
        LLVMValueRef old = update(e, LLVMAtomicRMWBinOpAdd, emit_at(e, at, l), one,
                                  LLVMAtomicOrderingAcquireRelease);
        if (after) {
            LLVMBasicBlockRef then = LLVMGetInsertBlock(e->builder);
            emit_when_end(e, after);
            LLVMValueRef phi = LLVMBuildPhi(e->builder, e->element[AU_I32], "");
            LLVMAddIncoming(phi, (LLVMValueRef[]){old, zero}, (LLVMBasicBlockRef[]){then, before},
                            2);
            old = phi;
        }
        all = emit_put(e, all, old, l);
    }
    emit_set(e, id, all, true);
}
