/* gpu_memory.c - loads and stores of a thread, and the counter that blocks share. */
#include "gpu.h"

#include <string.h>

GpuAccess gpu_access(AuEmit *e, AuVal v, uint32_t width, uint32_t mask)
{
    const AuInstr *in = kernel_at(e->k, v);
    GpuAccess a = {
        .in = in, .mem = in->mem, .scalar = e->k->mems[in->mem.i].scalar, .width = width};
    a.index = kernel_operand(e->k, in, 0);
    if (in->count > mask) a.mask = emit_base(e, kernel_operand(e->k, in, mask));
    a.bytes = width * kernel_scalar_bytes(a.scalar);
    a.align = gpu_alignment(e, a.mem, a.index, 16); /* more than it needs: LLVM joins neighbours */
    return a;
}

/* ---- loads and stores */

/* Tensors that are only read come through the read-only path, which is for what nobody writes while the kernel runs. */
static LLVMValueRef load(AuEmit *e, const GpuAccess *a)
{
    const AuMemory *m = &e->k->mems[a->mem.i];
    LLVMValueRef at = gpu_address(e, a->mem, a->index);
    LLVMValueRef v = LLVMBuildLoad2(e->builder, emit_stored(e, a->scalar, a->width), at, "");
    LLVMSetAlignment(v, a->align);
    if (m->space == AU_GLOBAL && !m->writes && !m->earlier)
        LLVMSetMetadata(v, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                        LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return emit_mark(e, v, a->mem);
}

void gpu_load(AuEmit *e, AuVal id)
{
    const AuInstr *in = kernel_at(e->k, id);
    const GpuAccess a = gpu_access(e, id, in->type.width, 1);
    if (gpu_always(a.mask)) {
        emit_set(e, id, emit_fetched(e, a.scalar, load(e, &a)), false);
        return;
    }
    LLVMValueRef other = LLVMConstNull(emit_stored(e, a.scalar, a.width));
    if (in->count > 2)
        other = emit_storable(e, a.scalar, emit_base(e, kernel_operand(e->k, in, 2)));
    const GpuPlace place = gpu_place(e, a.mem, a.index, a.bytes);
    LLVMValueRef v =
        gpu_device(e)->masked_load(e, &place, a.mask, other, a.bytes, a.bytes / a.width);
    emit_set(e, id, emit_fetched(e, a.scalar, v), false);
}

void gpu_store(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const GpuAccess a = gpu_access(e, id, kernel_at(e->k, value)->type.width, 2);
    LLVMValueRef v = emit_storable(e, a.scalar, emit_base(e, value));
    if (!gpu_always(a.mask)) {
        const GpuPlace place = gpu_place(e, a.mem, a.index, a.bytes);
        gpu_device(e)->masked_store(e, &place, a.mask, v, a.bytes, a.bytes / a.width);
        return;
    }
    LLVMValueRef store = LLVMBuildStore(e->builder, v, gpu_address(e, a.mem, a.index));
    LLVMSetAlignment(store, a.align);
    emit_mark(e, store, a.mem);
}

/* ---- atomics */

static unsigned all_blocks(const AuEmit *e)
{
    const char *name = gpu_device(e)->all_blocks;
    return LLVMGetSyncScopeID(e->context, name, strlen(name));
}

/* PTX of LLVM 22 leaves the ordering of an atomic operation out, so it is written as fences around it: of all lanes, since what
 * any of them reads behind it must be what other blocks left. */
static void fence(AuEmit *e)
{
    LLVMBuildFenceSyncScope(e->builder, LLVMAtomicOrderingAcquireRelease, all_blocks(e), "");
}

/* Lanes without the mask get 0. */
void gpu_atomic_inc(AuEmit *e, AuVal id)
{
    const GpuAccess a = gpu_access(e, id, 1, 1);
    fence(e);
    LLVMBasicBlockRef blocks[2] = {NULL, LLVMGetInsertBlock(e->builder)};
    LLVMBasicBlockRef after = gpu_always(a.mask) ? NULL : emit_when(e, a.mask);
    LLVMValueRef values[2] = {NULL, gpu_i32(e, 0)}, v;
    values[0] = v = LLVMBuildAtomicRMWSyncScope(e->builder, LLVMAtomicRMWBinOpAdd,
                                                gpu_address(e, a.mem, a.index), gpu_i32(e, 1),
                                                LLVMAtomicOrderingMonotonic, all_blocks(e));
    if (after) {
        blocks[0] = LLVMGetInsertBlock(e->builder);
        emit_when_end(e, after);
        v = LLVMBuildPhi(e->builder, e->element[AU_I32], "");
        LLVMAddIncoming(v, values, blocks, 2);
    }
    fence(e);
    emit_set(e, id, v, false);
}
