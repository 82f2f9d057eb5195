/* cuda_memory.c - loads, stores, atomics and asynchronous copies of a thread. */
#include "cuda.h"

#include <string.h>

typedef struct Access {
    const AuInstr *in;
    AuMem mem;
    AuScalar scalar;
    AuVal index;
    LLVMValueRef mask; /* NULL: none */
    uint32_t width, align;
} Access;

static Access access_of(AuEmit *e, AuVal v, uint32_t width, uint32_t mask)
{
    const AuInstr *in = kernel_at(e->k, v);
    Access a = {.in = in, .mem = in->mem, .scalar = e->k->mems[in->mem.i].scalar, .width = width};
    a.index = kernel_operand(e->k, in, 0);
    if (in->count > mask) a.mask = emit_base(e, kernel_operand(e->k, in, mask));
    a.align = cuda_alignment(e, a.mem, a.index, width * kernel_scalar_bytes(a.scalar));
    return a;
}

static LLVMBasicBlockRef begin(AuEmit *e, LLVMValueRef mask)
{
    return cuda_always(mask) ? NULL : emit_when(e, mask);
}
static void end(AuEmit *e, LLVMBasicBlockRef after)
{
    if (after) emit_when_end(e, after);
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
    LLVMTypeRef type = emit_stored(e, a.scalar, a.width);
    if (cuda_always(a.mask)) {
        emit_set(e, id, emit_fetched(e, a.scalar, load(e, &a)), false);
        return;
    }
    LLVMValueRef values[2] = {NULL, LLVMConstNull(type)};
    if (in->count > 2)
        values[1] = emit_storable(e, a.scalar, emit_base(e, kernel_operand(e->k, in, 2)));
    LLVMBasicBlockRef blocks[2] = {NULL, LLVMGetInsertBlock(e->builder)};
    LLVMBasicBlockRef after = emit_when(e, a.mask);
    values[0] = load(e, &a);
    blocks[0] = LLVMGetInsertBlock(e->builder);
    emit_when_end(e, after);
    LLVMValueRef v = LLVMBuildPhi(e->builder, type, "");
    LLVMAddIncoming(v, values, blocks, 2);
    emit_set(e, id, emit_fetched(e, a.scalar, v), false);
}

void cuda_store(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const Access a = access_of(e, id, kernel_at(e->k, value)->type.width, 2);
    LLVMValueRef v = emit_storable(e, a.scalar, emit_base(e, value));
    LLVMBasicBlockRef after = begin(e, a.mask);
    LLVMValueRef store = LLVMBuildStore(e->builder, v, cuda_address(e, a.mem, a.index));
    LLVMSetAlignment(store, a.align);
    emit_mark(e, store, a.mem);
    end(e, after);
}

/* ---- atomics */

static unsigned device_scope(const AuEmit *e)
{
    return LLVMGetSyncScopeID(e->context, "device", 6);
}

/* Two or four sums in one instruction, which LLVM does not have. */
static void add_vector(AuEmit *e, LLVMValueRef at, LLVMValueRef v, uint32_t width)
{
    static const char *const text[2] = {
        "red.relaxed.gpu.global.add.v2.f32 [$0], {$1, $2};",
        "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};"};
    static const char *const constraints[2] = {"l,f,f,~{memory}", "l,f,f,f,f,~{memory}"};
    LLVMTypeRef types[5] = {LLVMTypeOf(at)};
    LLVMValueRef arguments[5] = {at};
    for (uint32_t n = 0; n < width; n++) {
        types[n + 1] = e->element[AU_F32];
        arguments[n + 1] = emit_at(e, v, n);
    }
    LLVMTypeRef type = LLVMFunctionType(e->element[AU_VOID], types, width + 1, false);
    const char *code = text[width == 4], *how = constraints[width == 4];
    LLVMValueRef call = LLVMGetInlineAsm(type, code, strlen(code), how, strlen(how), true, false,
                                         LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(e->builder, type, call, arguments, width + 1, "");
}

void cuda_atomic_add(AuEmit *e, AuVal id)
{
    const AuVal value = kernel_operand(e->k, kernel_at(e->k, id), 1);
    const Access a = access_of(e, id, kernel_at(e->k, value)->type.width, 2);
    const LLVMAtomicRMWBinOp op =
        a.scalar == AU_F32 ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    LLVMValueRef v = emit_base(e, value);
    LLVMBasicBlockRef after = begin(e, a.mask);
    LLVMValueRef at = cuda_address(e, a.mem, a.index);
    if (a.width > 1 && e->host->capability >= 90)
        add_vector(e, at, v, a.width);
    else
        for (uint32_t n = 0; n < a.width; n++) {
            LLVMValueRef one = a.width > 1 ? emit_at(e, v, n) : v;
            LLVMValueRef place = emit_step(e, LLVMTypeOf(one), at, cuda_i32(e, n));
            LLVMBuildAtomicRMWSyncScope(e->builder, op, place, one, LLVMAtomicOrderingMonotonic,
                                        device_scope(e));
        }
    end(e, after);
}

/* Lanes without the mask get 0. */
void cuda_atomic_inc(AuEmit *e, AuVal id)
{
    const Access a = access_of(e, id, 1, 1);
    LLVMBasicBlockRef blocks[2] = {NULL, LLVMGetInsertBlock(e->builder)};
    LLVMBasicBlockRef after = begin(e, a.mask);
    LLVMValueRef values[2] = {NULL, cuda_i32(e, 0)};
    values[0] = LLVMBuildAtomicRMWSyncScope(e->builder, LLVMAtomicRMWBinOpAdd,
                                            cuda_address(e, a.mem, a.index), cuda_i32(e, 1),
                                            LLVMAtomicOrderingAcquireRelease, device_scope(e));
    if (!after) {
        emit_set(e, id, values[0], false);
        return;
    }
    blocks[0] = LLVMGetInsertBlock(e->builder);
    emit_when_end(e, after);
    LLVMValueRef v = LLVMBuildPhi(e->builder, e->element[AU_I32], "");
    LLVMAddIncoming(v, values, blocks, 2);
    emit_set(e, id, v, false);
}

/* ---- asynchronous copies */

static void copy(AuEmit *e, const AuInstr *in)
{
    const AuVal from = kernel_operand(e->k, in, 1);
    LLVMValueRef arguments[3] = {NULL, NULL, emit_base(e, kernel_operand(e->k, in, 2))};
    LLVMValueRef mask = in->count > 3 ? emit_base(e, kernel_operand(e->k, in, 3)) : NULL;
    const bool whole =
        LLVMIsAConstantInt(arguments[2]) && LLVMConstIntGetSExtValue(arguments[2]) == in->imm;
    LLVMBasicBlockRef after = begin(e, mask);
    arguments[0] = cuda_address(e, in->mem, kernel_operand(e->k, in, 0));
    arguments[1] = cuda_address(e, in->also[0], from);
    const uint32_t count = whole ? 2 : 3;
    if (in->imm == 16 && whole)
        emit_call(e, "llvm.nvvm.cp.async.cg.shared.global.16", NULL, NULL, arguments, count);
    else if (in->imm == 16)
        emit_call(e, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, NULL, arguments, count);
    else if (in->imm == 8 && whole)
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.8", NULL, NULL, arguments, count);
    else if (in->imm == 8)
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.8.s", NULL, NULL, arguments, count);
    else if (whole)
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.4", NULL, NULL, arguments, count);
    else
        emit_call(e, "llvm.nvvm.cp.async.ca.shared.global.4.s", NULL, NULL, arguments, count);
    end(e, after);
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
