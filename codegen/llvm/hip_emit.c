/* hip_emit.c - what AMD GPUs have in their own way (GpuDevice).
 *
 * amdgpu_kernel NAME(ptr addrspace(4) byref([n x i64]) slots): the slots are the kernarg segment, and nothing stands behind them. What a
 * launch usually hides there (sizes of the grid, tables for printing, a heap) kernels do not use; the grid's size, which some ask for, is
 * in the packet that the launch was made of. */
#include "hip.h"

#include <string.h>

enum { AMDGPU_KERNEL = 91, KERNARG = 4 };

/* ---- the function */

static void add_slots(AuEmit *e)
{
    LLVMTypeRef type = LLVMArrayType2(e->i64, e->k->arg_count);
    const unsigned byref = LLVMGetEnumAttributeKindForName("byref", 5);
    const unsigned aligned = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMSetValueName2(LLVMGetParam(e->function, 0), "slots", 5);
    LLVMAddAttributeAtIndex(e->function, 1, LLVMCreateTypeAttribute(e->context, byref, type));
    LLVMAddAttributeAtIndex(e->function, 1, LLVMCreateEnumAttribute(e->context, aligned, 8));
    emit_attribute(e, 1, "noalias", NULL);
    emit_attribute(e, 1, "readonly", NULL);
}

static bool has_op(const AuKernel *k, AuKOp op)
{
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == op) return true;
    return false;
}

/* Words of a lane that pass as vectors: what products take and give. */
static uint32_t words_of_products(AuEmit *e)
{
    enum { FEWEST = 4 };
    const AuKernel *k = e->k;
    bool *counted = AU_NEW_ARRAY(e->arena, bool, k->mem_count + 1);
    uint32_t words = 0;
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        if (in->op != AU_K_LOAD && in->op != AU_K_STORE) continue;
        const AuMemory *m = &k->mems[in->mem.i];
        const AuKType type =
            in->op == AU_K_LOAD ? in->type : kernel_at(k, kernel_operand(k, in, 1))->type;
        if (m->space != AU_LANE || counted[in->mem.i] || type.width < FEWEST) continue;
        counted[in->mem.i] = true;
        words += m->count * kernel_scalar_bytes(m->scalar) / 4;
    }
    return words;
}

/* Products whose sums are accumulation registers cost a move for each number that other instructions make or take. Where all that
 * products take and give has room among the first half of a lane's registers, with what else there is, LLVM is told to keep sums there;
 * elsewhere it would spill to the second half, which is moves again, of more. */
static void choose_registers(AuEmit *e)
{
    enum { ROOM = 240 };
    if (hip_host(e)->one_file && words_of_products(e) <= ROOM)
        emit_attribute(e, (unsigned)LLVMAttributeFunctionIndex, "amdgpu-agpr-alloc", "0");
}

static void add_attributes(AuEmit *e)
{
    static const char *const unused[] = {
        "amdgpu-no-implicitarg-ptr", "amdgpu-no-hostcall-ptr",       "amdgpu-no-queue-ptr",
        "amdgpu-no-dispatch-id",     "amdgpu-no-multigrid-sync-arg", "amdgpu-no-heap-ptr",
        "amdgpu-no-default-queue",   "amdgpu-no-completion-action",  "amdgpu-no-lds-kernel-id",
        "amdgpu-no-workitem-id-y",   "amdgpu-no-workitem-id-z"};
    const unsigned function = (unsigned)LLVMAttributeFunctionIndex;
    const uint32_t threads = e->k->warps * gpu_device(e)->lanes;
    emit_attribute(e, function, "nounwind", NULL);
    emit_attribute(e, function, "convergent", NULL);
    emit_attribute(e, function, "no-builtins", "");
    emit_attribute(e, function, "target-cpu", e->host->cpu);
    emit_attribute(e, function, "target-features", e->host->features);
    emit_attribute(e, function, "uniform-work-group-size", "true");
    emit_attribute(e, function, "amdgpu-flat-work-group-size",
                   au_format(e->arena, "%u,%u", threads, threads));
    for (uint32_t n = 0; n < sizeof unused / sizeof *unused; n++)
        emit_attribute(e, function, unused[n], "");
    if (e->k->paced) emit_attribute(e, function, HIP_PACED, au_format(e->arena, "%u", e->k->paced));
    if (!has_op(e->k, AU_K_BLOCKS)) emit_attribute(e, function, "amdgpu-no-dispatch-ptr", "");
}

/* Of multiply-adds: a tile in pieces (pair_rows in caps.def). */
static bool keeps_long(const AuKernel *k) { return !gpu_multiplies_halves(k); }

static GpuKernel *open(AuEmit *e)
{
    HipKernel *k = AU_NEW(e->arena, HipKernel);
    const unsigned slots = e->k->arg_count > 0;
    LLVMTypeRef type = LLVMPointerTypeInContext(e->context, KERNARG);
    LLVMTypeRef signature = LLVMFunctionType(e->element[AU_VOID], &type, slots, false);
    k->gpu.coarse = gpu_is_coarse(e->k);
    if (!k->gpu.coarse && hip_host(e)->mfma) e->longest = GPU_PIECE;
    e->function = LLVMAddFunction(e->module, e->k->name, signature);
    LLVMSetFunctionCallConv(e->function, AMDGPU_KERNEL);
    LLVMSetVisibility(e->function, LLVMProtectedVisibility);
    if (slots) add_slots(e);
    add_attributes(e);
    choose_registers(e);
    LLVMPositionBuilderAtEnd(e->builder, emit_block(e, "entry"));
    return &k->gpu;
}

/* ---- threads */

static LLVMValueRef thread(AuEmit *e)
{
    return emit_call(e, "llvm.amdgcn.workitem.id.x", NULL, NULL, NULL, 0);
}

static LLVMValueRef block(AuEmit *e, int64_t dimension)
{
    switch (dimension) {
    case 0: return emit_call(e, "llvm.amdgcn.workgroup.id.x", NULL, NULL, NULL, 0);
    case 1: return emit_call(e, "llvm.amdgcn.workgroup.id.y", NULL, NULL, NULL, 0);
    default: return emit_call(e, "llvm.amdgcn.workgroup.id.z", NULL, NULL, NULL, 0);
    }
}

/* hsa_kernel_dispatch_packet_t has the grid's size in threads, i32 each from byte 12 on. */
static LLVMValueRef blocks(AuEmit *e, int64_t dimension)
{
    enum { GRID_SIZE = 12 };
    LLVMValueRef packet = emit_call(e, "llvm.amdgcn.dispatch.ptr", NULL, NULL, NULL, 0);
    LLVMValueRef at = gpu_i32(e, GRID_SIZE + 4 * (uint32_t)dimension);
    at = emit_step(e, e->element[AU_U8], packet, at);
    LLVMValueRef size = LLVMBuildLoad2(e->builder, e->element[AU_I32], at, "");
    LLVMSetAlignment(size, 4);
    if (dimension) return size;
    const uint32_t threads = e->k->warps * gpu_device(e)->lanes;
    return LLVMBuildUDiv(e->builder, size, gpu_i32(e, threads), "");
}

static LLVMValueRef any(AuEmit *e, LLVMValueRef mask)
{
    LLVMTypeRef type = LLVMIntTypeInContext(e->context, gpu_device(e)->lanes); /* a bit a lane */
    LLVMValueRef all = emit_call(e, "llvm.amdgcn.ballot", type, NULL, &mask, 1);
    return LLVMBuildICmp(e->builder, LLVMIntNE, all, LLVMConstNull(type), "");
}

/* ---- order */

static void fence(AuEmit *e, LLVMAtomicOrdering order, const char *scope, bool of_lds)
{
    LLVMValueRef fence = LLVMBuildFenceSyncScope(
        e->builder, order, LLVMGetSyncScopeID(e->context, scope, strlen(scope)), "");
    if (!of_lds) return;
    LLVMMetadataRef words[2] = {LLVMMDStringInContext2(e->context, "amdgpu-synchronize-as", 21),
                                LLVMMDStringInContext2(e->context, "local", 5)};
    LLVMSetMetadata(fence, LLVMGetMDKindIDInContext(e->context, "mmra", 4),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, words, 2)));
}

/* A fence of all memory waits for every load and store in flight, so those of kernels that share no tensor between lanes are of the
 * LDS alone. */
static void barrier(AuEmit *e, bool of_executor)
{
    const char *scope = of_executor ? "wavefront" : "workgroup";
    const bool of_lds = !kernel_shares_tensors(e->k);
    fence(e, LLVMAtomicOrderingRelease, scope, of_lds);
    if (of_executor)
        emit_call(e, "llvm.amdgcn.wave.barrier", NULL, NULL, NULL, 0);
    else
        emit_call(e, "llvm.amdgcn.s.barrier", NULL, NULL, NULL, 0);
    fence(e, LLVMAtomicOrderingAcquire, scope, of_lds);
}

/* ---- what LLVM is to forget */

static void forget_loads(AuEmit *e)
{
    LLVMTypeRef type = LLVMFunctionType(e->element[AU_VOID], NULL, 0, false);
    LLVMValueRef nothing =
        LLVMGetInlineAsm(type, "", 0, "~{memory}", 9, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(e->builder, type, nothing, NULL, 0, "");
}

static LLVMValueRef pin(AuEmit *e, LLVMValueRef v)
{
    LLVMTypeRef of = LLVMTypeOf(v), type = LLVMFunctionType(of, &of, 1, false);
    LLVMValueRef pin =
        LLVMGetInlineAsm(type, "", 0, "=v,0", 4, false, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->builder, type, pin, &v, 1, "");
}

/* ---- hints */

static void hint(AuEmit *e, int64_t what)
{
    LLVMValueRef nothing = gpu_i32(e, 0), how = LLVMConstInt(LLVMInt16TypeInContext(e->context),
                                                             what == KERNEL_HINT_FIRST, false);
    if (what == KERNEL_HINT_BORDER)
        emit_call(e, "llvm.amdgcn.sched.barrier", NULL, NULL, &nothing, 1);
    else
        emit_call(e, "llvm.amdgcn.s.setprio", NULL, NULL, &how, 1);
}

/* ---- instructions */

static bool instruction(AuEmit *e, AuVal v)
{
    switch ((int)kernel_at(e->k, v)->op) {
    case AU_K_ATOMIC_ADD: hip_atomic_add(e, v); return true;
    case AU_K_MMA: hip_mma(e, v); return true;
    case AU_K_DOT2: return hip_dot2(e, v);
    case AU_K_LOAD_MATRIX: hip_load_matrix(e, v); return true;
    case AU_K_HINT: hint(e, kernel_at(e->k, v)->imm); return true;
    case AU_K_COPY_ASYNC:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: hip_copy(e, v); return true;
    }
    return false;
}

static void end(AuEmit *e) { (void)e; }

// clang-format off
#define WAVES(of_lanes, waves) {                                                                   \
    .device = {.open = gpu_open, .instruction = gpu_instruction, .end = end, .before_loop = hip_arrive, .op = gpu_op, .keeps_long = keeps_long},        \
    .lanes = (of_lanes),                                                                           \
    .threads = 1024,                                                                               \
    .global = 1,                                                                                   \
    .shared = 3,                                                                                   \
    .static_bytes = 160 << 10, /* all that any has: LLVM checks the machine's own */               \
    .all_blocks = "agent",                                                                         \
    .refusal = "a block has up to " waves " executors of " #of_lanes " lanes",                     \
    .approximate = {[GPU_EXP2] = {"llvm.amdgcn.exp2", true},                                       \
                    [GPU_RECIPROCAL] = {"llvm.amdgcn.rcp", true},                                  \
                    [GPU_RSQRT] = {"llvm.amdgcn.rsq", true}},                                      \
    .open = open, .thread = thread, .block = block, .blocks = blocks,                              \
    .exchange = hip_exchange, .both = hip_both, .any = any, .barrier = barrier,                    \
    .forget_loads = forget_loads, .pin = pin,                                                      \
    .masked_load = hip_masked_load, .masked_store = hip_masked_store,                              \
    .instruction = instruction}
// clang-format on
const GpuDevice hip_wave64 = WAVES(64, "16"), hip_wave32 = WAVES(32, "32");
