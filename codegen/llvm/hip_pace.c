/* hip_pace.c - how far LLVM reads operands of products ahead.
 *
 * LLVM's scheduler moves reads of shared memory in front of all products of a block as long as a lane has registers for what they bring, counted one
 * by one. Operands and sums are 4 to 8 registers in a row, which do not fill gaps, so a kernel that keeps much from tile to tile spills then, though
 * each product needs little. Kernels that say so (AuKernel.paced) are cut for it: behind so many products nothing passes the place in either
 * direction. Their sums go through a text of assembly that is empty and has effects, since otherwise they, who touch no memory, could come later than what stands
 * behind them. */
#include <stdlib.h>

#include "hip.h"

enum { MOST = 64 }; /* products of a piece */

typedef struct Piece {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMValueRef products[MOST];
    uint32_t count;
} Piece; /* what was met since the last border */

static bool is_in(const Piece *p, LLVMValueRef v)
{
    for (uint32_t n = 0; n < p->count; n++)
        if (p->products[n] == v) return true;
    return false;
}

/* Does nobody but the next products of the piece take the sums? */
static bool goes_on(const Piece *p, LLVMValueRef v)
{
    for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use))
        if (!is_in(p, LLVMGetUser(use))) return false;
    return true;
}

static void keep(Piece *p, LLVMValueRef v)
{
    LLVMValueRef kept = hip_same(p->builder, LLVMGetUndef(LLVMTypeOf(v)), true);
    LLVMReplaceAllUsesWith(v, kept);
    LLVMSetOperand(kept, 0, v);
}

static void end_piece(Piece *p, LLVMValueRef last)
{
    static const char name[] = "llvm.amdgcn.sched.barrier";
    const unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef barrier = LLVMGetIntrinsicDeclaration(p->module, id, NULL, 0),
                 nothing = LLVMConstInt(LLVMInt32TypeInContext(p->context), 0, false);
    LLVMPositionBuilderBefore(p->builder, LLVMGetNextInstruction(last));
    for (uint32_t n = 0; n < p->count; n++)
        if (!goes_on(p, p->products[n])) keep(p, p->products[n]);
    LLVMBuildCall2(p->builder, LLVMGlobalGetValueType(barrier), barrier, &nothing, 1, "");
    p->count = 0;
}

static void pace(Piece *p, LLVMBasicBlockRef block, uint32_t paced)
{
    LLVMValueRef next;
    p->count = 0;
    for (LLVMValueRef v = LLVMGetFirstInstruction(block); v; v = next) {
        next = LLVMGetNextInstruction(v);
        if (!hip_is_product(v)) continue;
        p->products[p->count++] = v;
        if (p->count == paced) end_piece(p, v);
    }
}

void hip_pace(LLVMModuleRef module)
{
    Piece p = {.context = LLVMGetModuleContext(module), .module = module};
    p.builder = LLVMCreateBuilderInContext(p.context);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        LLVMAttributeRef said = LLVMGetStringAttributeAtIndex(
            f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, HIP_PACED, sizeof HIP_PACED - 1);
        unsigned length;
        const int paced = said ? atoi(LLVMGetStringAttributeValue(said, &length)) : 0;
        if (paced < 1 || paced > MOST) continue;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            pace(&p, b, (uint32_t)paced);
    }
    LLVMDisposeBuilder(p.builder);
}
