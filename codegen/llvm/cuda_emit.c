/* cuda_emit.c - what NVIDIA GPUs have in their own way (GpuDevice).
 *
 * .entry NAME(.param .align 8 .b8 slots[8 * n], .param .align 64 .b8 maps[128 * m]) .reqntid THREADS. The slots are one parameter, an
 * array that the launch copies, so every kernel is launched alike; kernels with tensor maps have them in a second one. */
#include "cuda.h"

#include <string.h>

enum { WARP = 32, ALL_LANES = -1, PTX_KERNEL = 71 };

/* ---- the function */

/* An array that the launch copies. */
static void add_parameter(AuEmit *e, unsigned at, const char *name, LLVMTypeRef type,
                          uint64_t align)
{
    const unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    const unsigned aligned = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMSetValueName2(LLVMGetParam(e->function, at), name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, at + 1, LLVMCreateTypeAttribute(e->context, byval, type));
    LLVMAddAttributeAtIndex(e->function, at + 1,
                            LLVMCreateEnumAttribute(e->context, aligned, align));
    emit_attribute(e, at + 1, "noalias", NULL);
    emit_attribute(e, at + 1, "readonly", NULL);
}

static bool hands_registers_over(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_REGISTERS) return true;
    return false;
}

static void open_function(AuEmit *e)
{
    enum { MAP_BYTES = 128, MAP_ALIGN = 64 };
    const AuKernel *k = e->k;
    const unsigned function = (unsigned)LLVMAttributeFunctionIndex, slots = k->arg_count > 0;
    const unsigned maps = k->map_count > 0;
    LLVMTypeRef types[2] = {e->ptr, e->ptr};
    LLVMTypeRef signature = LLVMFunctionType(e->element[AU_VOID], types, slots + maps, false);
    e->function = LLVMAddFunction(e->module, k->name, signature);
    LLVMSetFunctionCallConv(e->function, PTX_KERNEL);
    if (slots) add_parameter(e, 0, "slots", LLVMArrayType2(e->i64, k->arg_count), 8);
    if (maps) {
        LLVMTypeRef all = LLVMArrayType2(e->element[AU_U8], (uint64_t)MAP_BYTES * k->map_count);
        add_parameter(e, slots, "maps", all, MAP_ALIGN);
        emit_attribute(e, slots + 1, "nvvm.grid_constant", "");
    }
    emit_attribute(e, function, "nounwind", NULL);
    emit_attribute(e, function, "convergent", NULL);
    emit_attribute(e, function, "no-builtins", "");
    emit_attribute(e, function, "target-cpu", e->host->cpu);
    emit_attribute(e, function, "target-features", e->host->features);
    emit_attribute(e, function, "nvvm.reqntid", au_format(e->arena, "%u", k->warps * WARP));
    /* Assemblers share the register file out among one block's lanes; without that setmaxnreg is left out. */
    if (hands_registers_over(k) || k->resident)
        emit_attribute(e, function, "nvvm.minctasm",
                       au_format(e->arena, "%u", k->resident ? k->resident : 1));
    LLVMPositionBuilderAtEnd(e->builder, emit_block(e, "entry"));
}

static GpuKernel *open(AuEmit *e)
{
    CudaKernel *k = AU_NEW(e->arena, CudaKernel);
    k->gpu.coarse = gpu_is_coarse(e->k);
    if (!k->gpu.coarse) e->longest = GPU_PIECE;
    open_function(e);
    return &k->gpu;
}

/* ---- threads */

static LLVMValueRef thread(AuEmit *e)
{
    return emit_call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, NULL, NULL, 0);
}

/* One of the three registers "llvm.nvvm.read.ptx.sreg.[stem].x" and so on. */
static LLVMValueRef position(AuEmit *e, const char *stem, int64_t dimension)
{
    const char *name = au_format(e->arena, "llvm.nvvm.read.ptx.sreg.%s.%c", stem, "xyz"[dimension]);
    return emit_call(e, name, NULL, NULL, NULL, 0);
}

static LLVMValueRef block(AuEmit *e, int64_t dimension) { return position(e, "ctaid", dimension); }
static LLVMValueRef blocks(AuEmit *e, int64_t dimension)
{
    return position(e, "nctaid", dimension);
}

/* A shuffle that all take part in. */
static LLVMValueRef exchange(AuEmit *e, bool by_xor, LLVMValueRef bits, LLVMValueRef lane)
{
    LLVMValueRef arguments[4] = {gpu_i32(e, (uint32_t)ALL_LANES), bits, lane, gpu_i32(e, WARP - 1)};
    return by_xor ? emit_call(e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, NULL, arguments, 4)
                  : emit_call(e, "llvm.nvvm.shfl.sync.idx.i32", NULL, NULL, arguments, 4);
}

static LLVMValueRef any(AuEmit *e, LLVMValueRef mask)
{
    LLVMValueRef arguments[2] = {gpu_i32(e, (uint32_t)ALL_LANES), mask};
    return emit_call(e, "llvm.nvvm.vote.any.sync", NULL, NULL, arguments, 2);
}

static void barrier(AuEmit *e, bool of_executor)
{
    LLVMValueRef lanes = gpu_i32(e, (uint32_t)ALL_LANES), number = gpu_i32(e, 0);
    if (of_executor)
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
    LLVMValueRef lanes = gpu_i32(e, (uint32_t)ALL_LANES);
    if (!e->gpu->coarse) {
        emit_call(e, "llvm.nvvm.bar.warp.sync", NULL, NULL, &lanes, 1);
        return;
    }
    LLVMValueRef nothing =
        LLVMGetInlineAsm(type, "", 0, "~{memory}", 9, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(e->builder, type, nothing, NULL, 0, "");
}

static LLVMValueRef pin(AuEmit *e, LLVMValueRef v)
{
    LLVMTypeRef of = LLVMTypeOf(v), type = LLVMFunctionType(of, &of, 1, false);
    const bool wide = of == e->element[AU_I64];
    LLVMValueRef pin =
        LLVMGetInlineAsm(type, wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;", 15,
                         wide ? "=l,l" : "=r,r", 4, true, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->builder, type, pin, &v, 1, "");
}

/* ---- instructions */

static bool instruction(AuEmit *e, AuVal v)
{
    switch ((int)kernel_at(e->k, v)->op) {
    case AU_K_ATOMIC_ADD: cuda_atomic_add(e, v); return true;
    case AU_K_COPY_ASYNC:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: cuda_copy(e, v); return true;
    case AU_K_MMA: cuda_mma(e, v); return true;
    case AU_K_LOAD_MATRIX: cuda_load_matrix(e, v); return true;
    case AU_K_STORE_MATRIX: cuda_store_matrix(e, v); return true;
    }
    return cuda_barriers(e, v) || cuda_bulk(e, v) || cuda_group(e, v);
}

/* May it stand between the products of a chain? */
static bool is_beside_products(const AuEmit *e, const AuInstr *in)
{
    const uint32_t flags = kernel_op_info((AuKOp)in->op)->flags;
    if (in->op == AU_K_WGMMA || in->op == AU_K_WGMMA_COMMIT) return true;
    if (in->op == AU_K_LOAD) return e->k->mems[in->mem.i].space == AU_LANE;
    return !(flags & (AU_KF_MEM | AU_KF_REGION | AU_KF_ORDER | AU_KF_LANES | AU_KF_TEXT));
}

static bool any_instruction(AuEmit *e, AuVal v)
{
    if (cuda_kernel(e)->chain && !is_beside_products(e, kernel_at(e->k, v))) cuda_group_flush(e);
    return gpu_instruction(e, v);
}

/* What f32 is rounded to in bf16, as f32: beside a zero in a pair its bits are where they belong. ptxas makes of a pair an instruction
 * at full rate, of a single conversion one at a quarter of it. NULL: no such value. */
static LLVMValueRef rounded_to_bf16(AuEmit *e, LLVMValueRef v)
{
    if (cuda_host(e)->capability < 80 || !LLVMIsAFPTruncInst(v)) return NULL;
    LLVMValueRef pair[] = {LLVMGetOperand(v, 0), LLVMConstNull(e->element[AU_F32])};
    if (LLVMTypeOf(pair[0]) != e->element[AU_F32]) return NULL;
    LLVMValueRef bits = emit_call(e, "llvm.nvvm.ff2bf16x2.rn", NULL, NULL, pair, 2);
    return LLVMBuildBitCast(e->builder, bits, e->element[AU_F32], "");
}

static LLVMValueRef op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands)
{
    if (of == AU_BF16 && in->op == AU_K_CVT && in->type.scalar == AU_F32)
        return rounded_to_bf16(e, operands[0]);
    LLVMValueRef code = cuda_codes(e, in, operands[0]);
    if (code) return code;
    return gpu_op(e, in, of, operands);
}

const GpuDevice cuda_device = {
    .device = {.open = gpu_open, .instruction = any_instruction, .end = cuda_group_flush, .op = op},
    .lanes = WARP,
    .threads = 1024,
    .global = 1,
    .shared = 3,
    .static_bytes = 48 << 10,
    .all_blocks = "device",
    .refusal = "a block has up to 32 executors of 32 lanes",
    .approximate = {[GPU_EXP2] = {"llvm.nvvm.ex2.approx.ftz", true},
                    [GPU_RECIPROCAL] = {"llvm.nvvm.rcp.approx.ftz.f", false},
                    [GPU_RSQRT] = {"llvm.nvvm.rsqrt.approx.f", false}},
    .open = open,
    .thread = thread,
    .block = block,
    .blocks = blocks,
    .exchange = exchange,
    .any = any,
    .barrier = barrier,
    .forget_loads = forget_loads,
    .pin = pin,
    .masked_load = cuda_masked_load,
    .masked_store = cuda_masked_store,
    .instruction = instruction,
};

uint32_t cuda_dynamic_shared(const AuKernel *k) { return gpu_dynamic_shared(&cuda_device, k); }
