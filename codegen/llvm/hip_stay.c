/* hip_stay.c - products of RDNA stay in their blocks.
 *
 * A product takes operands of lanes that are off, too, so it must not come behind a branch that lanes take apart: what LLVM reloads or copies
 * there for it, it does for lanes that are on. LLVM 22 moves results to where they are used (MachineSink), and some forms of WMMA, those that
 * add to other registers than their result's, are not marked as convergent (mended for LLVM 23: pull request 178314 of llvm-project). Seen: sums
 * that are used in masked stores alone; the emulator said that the halves of the wave held different operands, or results were wrong
 * (retention_recurrent, lightning, kimi_delta, f16, gfx1100). So what takes sums and is no product gets them from a text of assembly that is empty and
 * convergent. */
#include <string.h>

#include "hip.h"

bool hip_is_product(LLVMValueRef v)
{
    static const char name[] = "llvm.amdgcn.wmma.";
    size_t length;
    if (!LLVMIsACallInst(v)) return false;
    LLVMValueRef called = LLVMGetCalledValue(v);
    if (!LLVMIsAFunction(called)) return false;
    const char *text = LLVMGetValueName2(called, &length);
    return length >= sizeof name && memcmp(text, name, sizeof name - 1) == 0;
}

/* The next sum of a chain, which stays where the last of it does. */
static bool is_next(LLVMValueRef user, LLVMValueRef v)
{
    return hip_is_product(user) && LLVMGetInstructionParent(user) == LLVMGetInstructionParent(v);
}

LLVMValueRef hip_same(LLVMBuilderRef builder, LLVMValueRef v, bool effects)
{
    LLVMTypeRef of = LLVMTypeOf(v), type = LLVMFunctionType(of, &of, 1, false);
    LLVMValueRef text =
        LLVMGetInlineAsm(type, "", 0, "=v,0", 4, effects, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(builder, type, text, &v, 1, "");
}

static LLVMValueRef staying(LLVMContextRef context, LLVMBuilderRef builder, LLVMValueRef v)
{
    static const char convergent[] = "convergent";
    const unsigned kind = LLVMGetEnumAttributeKindForName(convergent, sizeof convergent - 1);
    LLVMPositionBuilderBefore(builder, LLVMGetNextInstruction(v));
    LLVMValueRef made = hip_same(builder, v, false);
    LLVMAddCallSiteAttribute(made, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(context, kind, 0));
    return made;
}

static void hold(LLVMContextRef context, LLVMBuilderRef builder, LLVMValueRef v)
{
    LLVMValueRef held = NULL;
    LLVMUseRef next;
    for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = next) {
        LLVMValueRef user = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        if (user == held || is_next(user, v)) continue;
        if (!held) held = staying(context, builder, v);
        for (int n = 0; n < LLVMGetNumOperands(user); n++)
            if (LLVMGetOperand(user, (unsigned)n) == v) LLVMSetOperand(user, (unsigned)n, held);
        next = LLVMGetFirstUse(v); /* the list is another now */
    }
}

void hip_stay(LLVMModuleRef module)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    LLVMValueRef f = LLVMGetFirstFunction(module);
    for (; f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block)) {
            LLVMValueRef v = LLVMGetFirstInstruction(block);
            if (LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(block)) < 2) continue;
            for (; v; v = LLVMGetNextInstruction(v))
                if (hip_is_product(v)) hold(context, builder, v);
        }
    }
    LLVMDisposeBuilder(builder);
}
