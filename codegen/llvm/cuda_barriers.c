/* cuda_barriers.c - executors that go different ways: who acts, how they wait for each other, what other units see of them, and
 * registers that change hands.
 *
 * The phase of an object in memory is a number in the kernel IR and a parity here: a wait is for the present phase or the one
 * before, so its last bit says which. Named barriers and `barrier #0`, which is number 0, count alike. */
#include "cuda.h"

enum { ALL_LANES = -1, REGISTERS = 65536, MOST_REGISTERS = 255, REGISTER_STEP = 8 };

static LLVMValueRef operand(AuEmit *e, const AuInstr *in, uint32_t n)
{
    return emit_base(e, kernel_operand(e->k, in, n));
}

static LLVMValueRef mask_of(AuEmit *e, const AuInstr *in, uint32_t n)
{
    return in->count > n ? operand(e, in, n) : NULL;
}

static void elect(AuEmit *e, AuVal v)
{
    LLVMValueRef lanes = gpu_i32(e, (uint32_t)ALL_LANES);
    LLVMValueRef both = emit_call(e, "llvm.nvvm.elect.sync", NULL, NULL, &lanes, 1);
    emit_set(e, v, LLVMBuildExtractValue(e->builder, both, 1, ""), false);
}

/* ---- named barriers */

static void meet(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef arguments[2] = {operand(e, in, 0), gpu_i32(e, (uint32_t)in->imm)};
    if (in->op == AU_K_SYNC)
        emit_call(e, "llvm.nvvm.barrier.cta.sync.aligned.count", NULL, NULL, arguments, 2);
    else
        emit_call(e, "llvm.nvvm.barrier.cta.arrive.aligned.count", NULL, NULL, arguments, 2);
}

/* ---- objects in memory */

static CudaShared object(AuEmit *e, const AuInstr *in)
{
    return cuda_shared(e, in->mem, kernel_operand(e->k, in, 0));
}

static void begin(AuEmit *e, const AuInstr *in)
{
    CudaText t = cuda_text(e);
    cuda_when(&t, mask_of(e, in, 2));
    au_text_add(&t.text, "mbarrier.init.shared::cta.b64 ");
    cuda_at(&t, object(e, in));
    au_text_add(&t.text, ", $%u;", cuda_take(&t, "r", operand(e, in, 1)));
    cuda_build(&t, CUDA_EFFECT);
}

static void come(AuEmit *e, const AuInstr *in)
{
    const bool expects = in->op == AU_K_MBAR_EXPECT;
    CudaText t = cuda_text(e);
    cuda_when(&t, mask_of(e, in, expects ? 2 : 1));
    au_text_add(&t.text, "mbarrier.arrive%s.shared::cta.b64 _, ", expects ? ".expect_tx" : "");
    cuda_at(&t, object(e, in));
    if (expects) au_text_add(&t.text, ", $%u", cuda_take(&t, "r", operand(e, in, 1)));
    au_text_add(&t.text, ";");
    cuda_build(&t, CUDA_EFFECT);
}

/* The label is the text's own, since braces are a scope. */
static void wait(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef parity = LLVMBuildAnd(e->builder, operand(e, in, 1), gpu_i32(e, 1), "");
    CudaText t = cuda_text(e);
    au_text_add(&t.text, "{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, ");
    cuda_at(&t, object(e, in));
    au_text_add(&t.text, ", $%u;\n@!p bra W;\n}", cuda_take(&t, "r", parity));
    cuda_build(&t, CUDA_TOGETHER);
}

/* ---- fences */

/* Are there tensors that lanes write and units read or write? */
static bool shares_tensors(const AuKernel *k)
{
    bool *by_lanes = AU_NEW_ARRAY(k->arena, bool, k->mem_count), shared = false;
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        if (in->op == AU_K_STORE || in->op == AU_K_ATOMIC_ADD || in->op == AU_K_ATOMIC_INC)
            by_lanes[in->mem.i] = k->mems[in->mem.i].space == AU_GLOBAL;
    }
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        const bool load = in->op == AU_K_TMA_LOAD || in->op == AU_K_BULK_LOAD;
        const bool store = in->op == AU_K_TMA_STORE || in->op == AU_K_TMA_REDUCE_ADD ||
                           in->op == AU_K_BULK_STORE || in->op == AU_K_BULK_REDUCE_ADD;
        if (load || store) shared |= by_lanes[(load ? in->also[0] : in->mem).i];
    }
    return shared;
}

static void fence(AuEmit *e, const char *text)
{
    CudaText t = cuda_text(e);
    au_text_add(&t.text, "%s", text);
    cuda_build(&t, CUDA_TOGETHER);
}

/* ---- registers */

/* What a lane has when the kernel begins: the file is shared out among the lanes of the block, of which a processor has one. */
static uint32_t registers_at_entry(const AuEmit *e)
{
    const uint32_t lanes = e->k->warps * e->k->lanes;
    const uint32_t share = REGISTERS / lanes / REGISTER_STEP * REGISTER_STEP;
    return share < MOST_REGISTERS ? share : MOST_REGISTERS;
}

static void hand_over(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef count = gpu_i32(e, (uint32_t)in->imm);
    if (in->imm > registers_at_entry(e))
        emit_call(e, "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32", NULL, NULL, &count, 1);
    else
        emit_call(e, "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", NULL, NULL, &count, 1);
}

/* ptxas puts a wait before whatever does not depend on it, so whether it is this wait or that one depends on the number that is to be there first. */
static void wait_for_grids(AuEmit *e, const AuInstr *in)
{
    if (!in->count) {
        emit_call(e, "llvm.nvvm.griddepcontrol.wait", NULL, NULL, NULL, 0);
        return;
    }
    CudaText t = cuda_text(e);
    const uint32_t number = cuda_take(&t, "r", operand(e, in, 0));
    au_text_add(
        &t.text,
        "{\n\t.reg .pred this;\n\tsetp.eq.s32 this, $%u, 0;\n\t@this griddepcontrol.wait;\n\t"
        "@!this griddepcontrol.wait;\n\t}",
        number);
    cuda_build(&t, CUDA_EFFECT);
}

static bool is_barrier(AuKOp op)
{
    return op == AU_K_ELECT || op == AU_K_SYNC || op == AU_K_ARRIVE || op == AU_K_MBAR_INIT ||
           op == AU_K_MBAR_ARRIVE || op == AU_K_MBAR_EXPECT || op == AU_K_MBAR_WAIT ||
           op == AU_K_FENCE_INIT || op == AU_K_FENCE_PROXY || op == AU_K_REGISTERS ||
           op == AU_K_GRID_NEXT || op == AU_K_GRID_WAIT;
}

bool cuda_barriers(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (!is_barrier((AuKOp)in->op)) return false;
    if (in->op == AU_K_REGISTERS && !cuda_host(e)->groups) {
        emit_fault(e, in, "registers that change hands need sm_90a");
        return true;
    }
    if (cuda_host(e)->capability < 90 && in->op != AU_K_SYNC && in->op != AU_K_ARRIVE) {
        emit_fault(e, in, "needs sm_90");
        return true;
    }
    switch ((int)in->op) {
    case AU_K_ELECT: elect(e, v); break;
    case AU_K_SYNC:
    case AU_K_ARRIVE: meet(e, in); break;
    case AU_K_MBAR_INIT: begin(e, in); break;
    case AU_K_MBAR_ARRIVE:
    case AU_K_MBAR_EXPECT: come(e, in); break;
    case AU_K_MBAR_WAIT: wait(e, in); break;
    case AU_K_FENCE_INIT: fence(e, "fence.mbarrier_init.release.cluster;"); break;
    case AU_K_FENCE_PROXY:
        fence(e, shares_tensors(e->k) ? "fence.proxy.async;" : "fence.proxy.async.shared::cta;");
        break;
    case AU_K_REGISTERS: hand_over(e, in); break;
    case AU_K_GRID_NEXT:
        emit_call(e, "llvm.nvvm.griddepcontrol.launch.dependents", NULL, NULL, NULL, 0);
        break;
    case AU_K_GRID_WAIT: wait_for_grids(e, in); break;
    }
    return true;
}
