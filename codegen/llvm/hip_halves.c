/* hip_halves.c - f32 becomes halves of a register by v_fma_mixlo_f16 and v_fma_mixhi_f16, where no instruction rounds two numbers at once (all
 * machines but gfx950).
 *
 * LLVM converts each number (v_cvt_f16_f32) and packs two of them, three instructions. It knows that the rounding of a product is an
 * instruction, of either half: so a number that goes into a vector is multiplied by 1, of which LLVM is not told that it is 1. Numbers are
 * what they were, but -0, which becomes 0. */
#include "hip.h"

typedef struct Halves {
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMTypeRef f32, f16;
    LLVMValueRef one; /* of the block at hand; NULL: none yet */
} Halves;

static LLVMTypeRef element_of(LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

/* Is it rounded to a part of a vector, by an instruction of its own? */
static bool is_part(const Halves *h, LLVMValueRef v)
{
    if (LLVMGetInstructionOpcode(v) != LLVMFPTrunc || element_of(v) != h->f16 ||
        element_of(LLVMGetOperand(v, 0)) != h->f32)
        return false;
    if (LLVMTypeOf(v) != h->f16) return LLVMGetVectorSize(LLVMTypeOf(v)) % 2 == 0;
    LLVMUseRef use = LLVMGetFirstUse(v);
    return use && !LLVMGetNextUse(use) && LLVMIsAInsertElementInst(LLVMGetUser(use)) &&
           LLVMGetOperand(LLVMGetUser(use), 1) == v;
}

/* A product that nobody else takes is rounded as it is. */
static bool is_product(LLVMValueRef v)
{
    LLVMUseRef use = LLVMGetFirstUse(v);
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMFMul && !LLVMGetNextUse(use);
}

/* 1, as what an empty text of assembly makes of it. */
static LLVMValueRef one_of(Halves *h)
{
    if (h->one) return h->one;
    LLVMTypeRef type = LLVMFunctionType(h->f32, &h->f32, 1, false);
    LLVMValueRef same =
        LLVMGetInlineAsm(type, "", 0, "=s,0", 4, false, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef number = LLVMConstReal(h->f32, 1);
    h->one = LLVMBuildCall2(h->builder, type, same, &number, 1, "");
    return h->one;
}

static LLVMValueRef half_of(Halves *h, LLVMValueRef v)
{
    if (!is_product(v)) v = LLVMBuildFMul(h->builder, v, one_of(h), "");
    return LLVMBuildFPTrunc(h->builder, v, h->f16, "");
}

static void round_parts(Halves *h, LLVMValueRef v)
{
    LLVMValueRef of = LLVMGetOperand(v, 0), made;
    LLVMPositionBuilderBefore(h->builder, v);
    if (LLVMTypeOf(v) == h->f16) {
        if (is_product(of)) return;
        made = half_of(h, of);
    } else {
        made = LLVMGetPoison(LLVMTypeOf(v));
        for (unsigned n = 0; n < LLVMGetVectorSize(LLVMTypeOf(v)); n++) {
            LLVMValueRef at = LLVMConstInt(LLVMInt32TypeInContext(h->context), n, false);
            LLVMValueRef half = half_of(h, LLVMBuildExtractElement(h->builder, of, at, ""));
            made = LLVMBuildInsertElement(h->builder, made, half, at, "");
        }
    }
    LLVMReplaceAllUsesWith(v, made);
    LLVMInstructionEraseFromParent(v);
}

void hip_halves(LLVMModuleRef module)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    Halves h = {.context = context,
                .builder = LLVMCreateBuilderInContext(context),
                .f32 = LLVMFloatTypeInContext(context),
                .f16 = LLVMHalfTypeInContext(context)};
    LLVMValueRef f = LLVMGetFirstFunction(module);
    for (; f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block)) {
            h.one = NULL;
            LLVMValueRef v, next;
            for (v = LLVMGetFirstInstruction(block); v; v = next) {
                next = LLVMGetNextInstruction(v);
                if (is_part(&h, v)) round_parts(&h, v);
            }
        }
    }
    LLVMDisposeBuilder(h.builder);
}
