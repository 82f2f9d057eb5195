/* cuda_emit.c - a kernel as a function of a thread: its frame, and what a device does otherwise than a host (AuDevice).
 *
 * .entry NAME(.param .align 8 .b8 slots[8 * n]) .reqntid THREADS. The slots are one parameter, an array that the launch copies,
 * so every kernel is launched alike. Threads are lanes in the order of their executors. Control flow is uniform in an executor,
 * so exchanges find all 32 lanes. */
#include "cuda.h"

#include <string.h>

enum { WARP = 32, MOST_THREADS = 1024, ALL_LANES = -1, PTX_KERNEL = 71 };

/* ---- the function */

static void type_attribute(AuEmit *e, const char *name, LLVMTypeRef type)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, 1, LLVMCreateTypeAttribute(e->context, kind, type));
}

static void open_function(AuEmit *e)
{
    const AuKernel *k = e->k;
    const unsigned function = (unsigned)LLVMAttributeFunctionIndex, one = k->arg_count > 0;
    LLVMTypeRef signature = LLVMFunctionType(e->element[AU_VOID], &e->ptr, one, false);
    e->function = LLVMAddFunction(e->module, k->name, signature);
    LLVMSetFunctionCallConv(e->function, PTX_KERNEL);
    if (one) {
        LLVMSetValueName2(LLVMGetParam(e->function, 0), "slots", 5);
        type_attribute(e, "byval", LLVMArrayType2(e->i64, k->arg_count));
        const unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
        LLVMAddAttributeAtIndex(e->function, 1, LLVMCreateEnumAttribute(e->context, align, 8));
        emit_attribute(e, 1, "noalias", NULL);
        emit_attribute(e, 1, "readonly", NULL);
    }
    emit_attribute(e, function, "nounwind", NULL);
    emit_attribute(e, function, "convergent", NULL);
    emit_attribute(e, function, "no-builtins", "");
    emit_attribute(e, function, "target-cpu", e->host->cpu);
    emit_attribute(e, function, "target-features", e->host->features);
    emit_attribute(e, function, "nvvm.reqntid", au_format(e->arena, "%u", k->warps * WARP));
    LLVMPositionBuilderAtEnd(e->builder, emit_block(e, "entry"));
}

/* Values between lanes: a shuffle that all take part in. */
static LLVMValueRef exchange(AuEmit *e, bool by_xor, LLVMValueRef v, LLVMValueRef lane)
{
    LLVMTypeRef f32 = e->element[AU_F32], i32 = e->element[AU_I32];
    const bool is_float = LLVMTypeOf(v) == f32;
    if (is_float) v = LLVMBuildBitCast(e->builder, v, i32, "");
    LLVMValueRef arguments[4] = {cuda_i32(e, (uint32_t)ALL_LANES), v, lane, cuda_i32(e, WARP - 1)};
    v = by_xor ? emit_call(e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, NULL, arguments, 4)
               : emit_call(e, "llvm.nvvm.shfl.sync.idx.i32", NULL, NULL, arguments, 4);
    return is_float ? LLVMBuildBitCast(e->builder, v, f32, "") : v;
}

static bool names_executor(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->mem_count; n++)
        if (k->mems[n].space == AU_EXEC) return true;
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_WARP) return true;
    return false;
}

/* That an executor's number is the same in its lanes is said by a shuffle: ptxas then branches without a mask. */
static void find_thread(AuEmit *e)
{
    LLVMBuilderRef b = e->builder;
    LLVMValueRef thread = emit_call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, NULL, NULL, 0);
    if (e->k->warps == 1) {
        e->cuda->lane = thread;
        e->cuda->warp = cuda_i32(e, 0);
        return;
    }
    e->cuda->lane = LLVMBuildAnd(b, thread, cuda_i32(e, WARP - 1), "lane");
    e->cuda->warp = LLVMBuildLShr(b, thread, cuda_i32(e, 5), "warp");
    if (names_executor(e->k)) e->cuda->warp = exchange(e, false, e->cuda->warp, cuda_i32(e, 0));
}

static bool multiplies_halves(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_MMA && k->instrs[n].imm != AU_MATRIX_M16N8K8_TF32) return true;
    return false;
}

static bool open(AuEmit *e)
{
    const AuKernel *k = e->k;
    if (k->lanes != WARP || k->warps * WARP > MOST_THREADS) {
        emit_fault(e, NULL, "a block has up to 32 executors of 32 lanes");
        return false;
    }
    e->cuda = AU_NEW(e->arena, AuCuda);
    e->cuda->coarse = multiplies_halves(k);
    open_function(e);
    find_thread(e);
    cuda_places(e);
    return true;
}

/* ---- instructions */

static LLVMValueRef block(AuEmit *e, int64_t dimension)
{
    if (dimension == 0) return emit_call(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, NULL, NULL, 0);
    if (dimension == 1) return emit_call(e, "llvm.nvvm.read.ptx.sreg.ctaid.y", NULL, NULL, NULL, 0);
    return emit_call(e, "llvm.nvvm.read.ptx.sreg.ctaid.z", NULL, NULL, NULL, 0);
}

static LLVMValueRef shuffle(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef v = emit_base(e, kernel_operand(e->k, in, 0));
    if (in->op == AU_K_SHUFFLE_XOR) return exchange(e, true, v, cuda_i32(e, (uint32_t)in->imm));
    LLVMValueRef lane = emit_base(e, kernel_operand(e->k, in, 1));
    return exchange(e, false, v, LLVMBuildAnd(e->builder, lane, cuda_i32(e, WARP - 1), ""));
}

static LLVMValueRef any(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef arguments[2] = {cuda_i32(e, (uint32_t)ALL_LANES),
                                 emit_base(e, kernel_operand(e->k, in, 0))};
    return emit_call(e, "llvm.nvvm.vote.any.sync", NULL, NULL, arguments, 2);
}

/* A block of one executor needs no more than its own barrier. */
static void barrier(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef lanes = cuda_i32(e, (uint32_t)ALL_LANES), number = cuda_i32(e, 0);
    if (in->imm || e->k->warps == 1)
        emit_call(e, "llvm.nvvm.bar.warp.sync", NULL, NULL, &lanes, 1);
    else
        emit_call(e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, NULL, &number, 1);
}

/* Between phases nothing that has been loaded is kept: a tile read again by the next product would stay in registers that nobody
 * has. LLVM is told by a clobber that costs nothing. ptxas looks farther with plain loads than with those of matrices; what it
 * heeds is a barrier of the executor, which costs next to nothing. */
static void forget_loads(AuEmit *e)
{
    LLVMTypeRef type = LLVMFunctionType(e->element[AU_VOID], NULL, 0, false);
    LLVMValueRef lanes = cuda_i32(e, (uint32_t)ALL_LANES);
    if (!e->cuda->coarse) {
        emit_call(e, "llvm.nvvm.bar.warp.sync", NULL, NULL, &lanes, 1);
        return;
    }
    LLVMValueRef nothing =
        LLVMGetInlineAsm(type, "", 0, "~{memory}", 9, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(e->builder, type, nothing, NULL, 0, "");
}

static bool in_registers(const AuEmit *e, const AuInstr *in)
{
    return e->k->mems[in->mem.i].space == AU_LANE;
}

static bool instruction(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    switch ((int)in->op) {
    case AU_K_ADD: return cuda_sum(e, v);
    case AU_K_BLOCK: emit_set(e, v, block(e, in->imm), false); return true;
    case AU_K_WARP: emit_set(e, v, e->cuda->warp, false); return true;
    case AU_K_LANE: emit_set(e, v, e->cuda->lane, false); return true;
    case AU_K_LOAD:
        if (in_registers(e, in)) return false;
        cuda_load(e, v);
        return true;
    case AU_K_STORE:
        if (in_registers(e, in)) return false;
        cuda_store(e, v);
        return true;
    case AU_K_ATOMIC_ADD: cuda_atomic_add(e, v); return true;
    case AU_K_ATOMIC_INC: cuda_atomic_inc(e, v); return true;
    case AU_K_COPY_ASYNC:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: cuda_copy(e, v); return true;
    case AU_K_MMA: cuda_mma(e, v); return true;
    case AU_K_LOAD_MATRIX: cuda_load_matrix(e, v); return true;
    case AU_K_SHUFFLE:
    case AU_K_SHUFFLE_XOR: emit_set(e, v, shuffle(e, in), false); return true;
    case AU_K_ANY: emit_set(e, v, any(e, in), false); return true;
    case AU_K_BARRIER: barrier(e, in); return true;
    case AU_K_NOTE: forget_loads(e); return false; /* and a name for what follows */
    case AU_K_MATMUL: emit_fault(e, in, "an operation of CPUs"); return true;
    }
    return false;
}

const AuDevice cuda_device = {.open = open, .instruction = instruction, .op = cuda_op};
