/* hip_copy.c - copies from global memory to LDS that no register sees (global_load_lds_dwordx4), and waits for them.
 *
 * The instruction takes one place in LDS for all lanes, in M0: lane l writes 16 l bytes behind it, and lanes that are off write nothing. The kernel
 * IR's verifier has seen that lanes write so. Copies count as loads do (vmcnt), in their order; fences of the LDS alone do not wait
 * for them, so COPY_WAIT says it.
 *
 * LLVM waits for all copies in flight before it reads LDS, unless alias scopes tell what is read from what is written. */
#include "hip.h"

#include <string.h>

/* What LLVM's scheduler may move past a fence of its own: what neither reads nor writes memory. */
enum { BYTES = 16, ONLY_ARITHMETIC = 1 };
enum { BEYOND = 1 << 12 }; /* what an instruction's offset cannot say */

/* The scopes of both memories: what overlaps neither has both among its others. */
static void mark(AuEmit *e, LLVMValueRef call, AuMem to, AuMem from)
{
    LLVMValueRef both[2] = {e->places[to.i].scope, e->places[from.i].scope};
    if (!both[0] || !both[1]) return;
    LLVMMetadataRef scopes[2];
    for (uint32_t n = 0; n < 2; n++) {
        LLVMValueRef one;
        LLVMGetMDNodeOperands(both[n], &one);
        scopes[n] = LLVMValueAsMetadata(one);
    }
    LLVMSetMetadata(call, LLVMGetMDKindIDInContext(e->context, "alias.scope", 11),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, scopes, 2)));
}

static void copy(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef mask = in->count > 3 ? emit_base(e, kernel_operand(e->k, in, 3)) : NULL;
    LLVMValueRef none = gpu_i32(e, 0);
    const GpuPlace place = gpu_place(e, in->mem, kernel_operand(e->k, in, 0), BYTES);
    const uint32_t both = (uint32_t)place.offset % BEYOND;
    LLVMValueRef from = gpu_address(e, in->also[0], kernel_operand(e->k, in, 1)),
                 to = emit_step(e, e->element[AU_U8], place.base,
                                gpu_i32(e, (uint32_t)place.offset - both));
    from = emit_step(e, e->element[AU_U8], from, LLVMConstInt(e->i64, -(uint64_t)both, true));
    LLVMBasicBlockRef after = gpu_always(mask) ? NULL : emit_when(e, mask);
    LLVMValueRef arguments[5] = {from, to, gpu_i32(e, BYTES), gpu_i32(e, both), none};
    LLVMValueRef call = emit_call(e, "llvm.amdgcn.global.load.lds", NULL, NULL, arguments, 5);
    mark(e, call, in->mem, in->also[0]);
    if (after) emit_when_end(e, after);
}

/* All copies: who waits for fewer waits for these, too. Of gfx9's s_waitcnt: bits 0 to 3 and 14, 15 count vector memory. */
static void wait(AuEmit *e)
{
    enum { NOTHING_ELSE = 0x0f70 };
    LLVMValueRef what = LLVMConstInt(LLVMInt32TypeInContext(e->context), NOTHING_ELSE, false);
    emit_call(e, "llvm.amdgcn.s.waitcnt", NULL, NULL, &what, 1);
}

void hip_copy(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    LLVMValueRef what = gpu_i32(e, ONLY_ARITHMETIC);
    if (!hip_host(e)->copies_direct)
        emit_fault(e, in, au_format(e->arena, "%s has no direct copies to LDS", e->host->cpu));
    else if (in->op == AU_K_COPY_ASYNC && in->imm != KERNEL_DIRECT + BYTES)
        emit_fault(e, in, "copies to LDS are direct ones of 16 bytes a lane");
    else if (in->op == AU_K_COPY_ASYNC)
        copy(e, in);
    else if (in->op == AU_K_COPY_WAIT)
        wait(e);
    else
        emit_call(e, "llvm.amdgcn.sched.barrier", NULL, NULL, &what, 1);
}
