/* hip_memory.c - accesses under a mask, which are branches: LLVM makes EXEC masks of them. Sums in memory. */
#include "hip.h"

#include <string.h>

static LLVMValueRef address(AuEmit *e, const GpuPlace *at)
{
    LLVMTypeRef type = at->space == AU_GLOBAL ? e->i64 : e->element[AU_I32];
    if (!at->offset) return at->base;
    return emit_step(e, e->element[AU_U8], at->base,
                     LLVMConstInt(type, (unsigned long long)at->offset, true));
}

static void say(AuEmit *e, LLVMValueRef of, const char *what)
{
    LLVMSetMetadata(of, LLVMGetMDKindIDInContext(e->context, what, (unsigned)strlen(what)),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
}

LLVMValueRef hip_masked_load(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef other,
                             uint32_t bytes, uint32_t element)
{
    (void)bytes, (void)element;
    LLVMValueRef values[2] = {NULL, other}, from = address(e, at);
    LLVMBasicBlockRef blocks[2] = {NULL, LLVMGetInsertBlock(e->builder)};
    LLVMBasicBlockRef after = emit_when(e, mask);
    values[0] = LLVMBuildLoad2(e->builder, LLVMTypeOf(other), from, "");
    LLVMSetAlignment(values[0], at->align);
    if (at->constant) say(e, values[0], "invariant.load");
    blocks[0] = LLVMGetInsertBlock(e->builder);
    emit_when_end(e, after);
    LLVMValueRef v = LLVMBuildPhi(e->builder, LLVMTypeOf(other), "");
    LLVMAddIncoming(v, values, blocks, 2);
    return v;
}

void hip_masked_store(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v,
                      uint32_t bytes, uint32_t element)
{
    (void)bytes, (void)element;
    LLVMValueRef to = address(e, at);
    /* A number that was loaded has arrived in front of the branch, whichever way is taken: hip_arrive.c. */
    if (at->space == AU_SHARED && LLVMTypeOf(v) == e->element[AU_F32])
        v = hip_same(e->builder, v, false);
    LLVMBasicBlockRef after = emit_when(e, mask);
    LLVMSetAlignment(LLVMBuildStore(e->builder, v, to), at->align);
    emit_when_end(e, after);
}

/* The hardware's additions of f32 want memory of the device that no other device writes meanwhile, which results are, and take
 * denormals for zero on some machines. Elsewhere LLVM makes a loop. */
static void add(AuEmit *e, LLVMValueRef to, LLVMValueRef v, AuSpace space)
{
    const bool is_float = LLVMTypeOf(v) == e->element[AU_F32];
    const char *scope = space == AU_GLOBAL ? gpu_device(e)->all_blocks : "workgroup";
    LLVMValueRef sum = LLVMBuildAtomicRMWSyncScope(
        e->builder, is_float ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd, to, v,
        LLVMAtomicOrderingMonotonic, LLVMGetSyncScopeID(e->context, scope, strlen(scope)));
    if (!is_float) return;
    say(e, sum, "amdgpu.no.fine.grained.memory");
    say(e, sum, "amdgpu.no.remote.memory");
    say(e, sum, "amdgpu.ignore.denormal.mode");
}

void hip_atomic_add(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const GpuAccess a = gpu_access(e, id, kernel_at(e->k, value)->type.width, 2);
    const AuSpace space = (AuSpace)e->k->mems[a.mem.i].space;
    LLVMValueRef v = emit_base(e, value), to = gpu_address(e, a.mem, a.index);
    LLVMBasicBlockRef after = gpu_always(a.mask) ? NULL : emit_when(e, a.mask);
    for (uint32_t n = 0; n < a.width; n++) {
        LLVMValueRef at = n ? emit_step(e, emit_stored(e, a.scalar, 1), to, gpu_i32(e, n)) : to;
        add(e, at, a.width > 1 ? emit_at(e, v, n) : v, space);
    }
    if (after) emit_when_end(e, after);
}
