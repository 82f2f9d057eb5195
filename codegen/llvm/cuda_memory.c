/* cuda_memory.c - loads, stores, atomics and asynchronous copies of a thread. */
#include "cuda.h"

#include <string.h>

typedef struct Access {
    const AuInstr *in;
    AuMem mem;
    AuScalar scalar;
    AuVal index;
    LLVMValueRef mask; /* NULL: none */
    uint32_t width, bytes, align;
} Access;

static Access access_of(AuEmit *e, AuVal v, uint32_t width, uint32_t mask)
{
    const AuInstr *in = kernel_at(e->k, v);
    Access a = {.in = in, .mem = in->mem, .scalar = e->k->mems[in->mem.i].scalar, .width = width};
    a.index = kernel_operand(e->k, in, 0);
    if (in->count > mask) a.mask = emit_base(e, kernel_operand(e->k, in, mask));
    a.bytes = width * kernel_scalar_bytes(a.scalar);
    a.align = cuda_alignment(e, a.mem, a.index, 16); /* more than it needs: LLVM joins neighbours */
    return a;
}

/* ---- loads and stores */

/* Tensors that are only read come through the read-only path. */
static LLVMValueRef load(AuEmit *e, const Access *a)
{
    const AuMemory *m = &e->k->mems[a->mem.i];
    LLVMValueRef at = cuda_address(e, a->mem, a->index);
    LLVMValueRef v = LLVMBuildLoad2(e->builder, emit_stored(e, a->scalar, a->width), at, "");
    LLVMSetAlignment(v, a->align);
    if (m->space == AU_GLOBAL && !m->writes)
        LLVMSetMetadata(v, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                        LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return emit_mark(e, v, a->mem);
}

void cuda_load(AuEmit *e, AuVal id)
{
    const AuInstr *in = kernel_at(e->k, id);
    const Access a = access_of(e, id, in->type.width, 1);
    if (cuda_always(a.mask)) {
        emit_set(e, id, emit_fetched(e, a.scalar, load(e, &a)), false);
        return;
    }
    LLVMValueRef other = LLVMConstNull(emit_stored(e, a.scalar, a.width));
    if (in->count > 2)
        other = emit_storable(e, a.scalar, emit_base(e, kernel_operand(e->k, in, 2)));
    const CudaPlace place = cuda_place(e, a.mem, a.index, a.bytes);
    LLVMValueRef v = cuda_masked_load(e, &place, a.mask, other, a.bytes, a.bytes / a.width);
    emit_set(e, id, emit_fetched(e, a.scalar, v), false);
}

void cuda_store(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const Access a = access_of(e, id, kernel_at(e->k, value)->type.width, 2);
    LLVMValueRef v = emit_storable(e, a.scalar, emit_base(e, value));
    if (!cuda_always(a.mask)) {
        const CudaPlace place = cuda_place(e, a.mem, a.index, a.bytes);
        cuda_masked_store(e, &place, a.mask, v, a.bytes, a.bytes / a.width);
        return;
    }
    LLVMValueRef store = LLVMBuildStore(e->builder, v, cuda_address(e, a.mem, a.index));
    LLVMSetAlignment(store, a.align);
    emit_mark(e, store, a.mem);
}

/* ---- atomics */

static unsigned device_scope(const AuEmit *e)
{
    return LLVMGetSyncScopeID(e->context, "device", 6);
}

/* Vectors at once where the hardware can, else one by one. */
void cuda_atomic_add(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const Access a = access_of(e, id, kernel_at(e->k, value)->type.width, 2);
    LLVMValueRef v = emit_base(e, value), mask = cuda_always(a.mask) ? NULL : a.mask;
    CudaPlace place = cuda_place(e, a.mem, a.index, a.bytes);
    if (a.width == 1 || e->host->capability >= 90) {
        cuda_reduce(e, &place, mask, v);
        return;
    }
    for (uint32_t n = 0; n < a.width; n++, place.offset += 4)
        cuda_reduce(e, &place, mask, emit_at(e, v, n));
}

/* PTX of LLVM 22 leaves the ordering of an atomic operation out, so it is written as fences around it: of all lanes, since what
 * any of them reads behind it must be what other blocks left. */
static void fence(AuEmit *e)
{
    LLVMBuildFenceSyncScope(e->builder, LLVMAtomicOrderingAcquireRelease, device_scope(e), "");
}

/* Lanes without the mask get 0. */
void cuda_atomic_inc(AuEmit *e, AuVal id)
{
    const Access a = access_of(e, id, 1, 1);
    fence(e);
    LLVMBasicBlockRef blocks[2] = {NULL, LLVMGetInsertBlock(e->builder)};
    LLVMBasicBlockRef after = cuda_always(a.mask) ? NULL : emit_when(e, a.mask);
    LLVMValueRef values[2] = {NULL, cuda_i32(e, 0)}, v;
    values[0] = v = LLVMBuildAtomicRMWSyncScope(e->builder, LLVMAtomicRMWBinOpAdd,
                                                cuda_address(e, a.mem, a.index), cuda_i32(e, 1),
                                                LLVMAtomicOrderingMonotonic, device_scope(e));
    if (after) {
        blocks[0] = LLVMGetInsertBlock(e->builder);
        emit_when_end(e, after);
        v = LLVMBuildPhi(e->builder, e->element[AU_I32], "");
        LLVMAddIncoming(v, values, blocks, 2);
    }
    fence(e);
    emit_set(e, id, v, false);
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
    if (!cuda_always(mask)) {
        const CudaPlace target = cuda_place(e, in->mem, to, bytes);
        const CudaPlace source = cuda_place(e, in->also[0], from, bytes);
        cuda_masked_copy(e, &target, &source, mask, valid, bytes);
        return;
    }
    LLVMValueRef arguments[3] = {cuda_address(e, in->mem, to), cuda_address(e, in->also[0], from),
                                 valid};
    if (LLVMIsAConstantInt(valid) && LLVMConstIntGetSExtValue(valid) == in->imm)
        copy_whole(e, in, arguments);
    else
        copy_part(e, in, arguments);
}

void cuda_copy(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    LLVMValueRef groups = cuda_i32(e, (uint32_t)in->imm);
    if (e->host->capability < 80)
        emit_fault(e, in, "asynchronous copies need sm_80");
    else if (in->op == AU_K_COPY_ASYNC)
        copy(e, in);
    else if (in->op == AU_K_COPY_COMMIT)
        emit_call(e, "llvm.nvvm.cp.async.commit.group", NULL, NULL, NULL, 0);
    else
        emit_call(e, "llvm.nvvm.cp.async.wait.group", NULL, NULL, &groups, 1);
}
