/* hip_bf16.c - f32 to bf16 by as few integer operations as keep a NaN, where no instruction rounds (all machines but gfx950).
 *
 * Nearest even is x + 0x7fff + bit 16 of x, of which the upper half is taken: v_bfe_u32 and v_add3_u32. A NaN may run over there, so LLVM asks
 * (v_cmp_u) and chooses (v_cndmask) the same NaN with a bit more (v_or): five instructions. Any NaN does, so the third of these goes. Where a number
 * is not negative (weights are powers of two) its bits are ordered as numbers are, and the least of them and a NaN whose lower half is 0
 * is itself or that NaN: three instructions. What machines compute is never a signalling NaN, which would be infinite then. */
#include "hip.h"

#include <string.h>

typedef struct Brief {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef f32, bf16, i32, i16;
} Brief;

enum { QUIET = 0x7fc00000, UPPER = 16, JUST_BELOW_HALF = 0x7fff, DEEPEST = 8 };

static LLVMValueRef number(const Brief *x, unsigned long long n)
{
    return LLVMConstInt(x->i32, n, false);
}

static LLVMTypeRef element_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static bool is_rounded(const Brief *x, LLVMValueRef v)
{
    return LLVMGetInstructionOpcode(v) == LLVMFPTrunc && element_of(LLVMTypeOf(v)) == x->bf16 &&
           element_of(LLVMTypeOf(LLVMGetOperand(v, 0))) == x->f32;
}

/* By the hardware's function. */
static bool is_power(LLVMValueRef v)
{
    static const char name[] = "llvm.amdgcn.exp2.";
    size_t length;
    if (!LLVMIsACallInst(v) || !LLVMIsAFunction(LLVMGetCalledValue(v))) return false;
    const char *text = LLVMGetValueName2(LLVMGetCalledValue(v), &length);
    return length >= sizeof name - 1 && memcmp(text, name, sizeof name - 1) == 0;
}

/* Powers of two, products of them, choices between them: not negative, no -0, or NaN. Not looked for further than [depth] operations on: values that
 * are used twice, each in the next one, are as many ways as there are numbers. */
static bool is_positive(LLVMValueRef v, unsigned depth)
{
    const bool product = LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == LLVMFMul;
    if (product || LLVMIsASelectInst(v))
        return depth && is_positive(LLVMGetOperand(v, product ? 0 : 1), depth - 1) &&
               is_positive(LLVMGetOperand(v, product ? 1 : 2), depth - 1);
    if (LLVMIsAConstantFP(v)) {
        LLVMBool loses;
        const double d = LLVMConstRealGetDouble(v, &loses);
        return d >= 0 && !__builtin_signbit(d);
    }
    return is_power(v);
}

static LLVMValueRef least(const Brief *x, LLVMValueRef a, LLVMValueRef b)
{
    static const char name[] = "llvm.umin";
    const unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMTypeRef type = x->i32;
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(x->module, id, &type, 1);
    return LLVMBuildCall2(x->builder, LLVMGlobalGetValueType(f), f, (LLVMValueRef[]){a, b}, 2, "");
}

static LLVMValueRef rounded(const Brief *x, LLVMValueRef v)
{
    LLVMBuilderRef b = x->builder;
    const bool positive = is_positive(v, DEEPEST);
    LLVMValueRef bits = LLVMBuildBitCast(b, v, x->i32, "");
    if (positive) bits = least(x, bits, number(x, QUIET));
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, number(x, UPPER), ""), number(x, 1),
                                    ""),
                 up = LLVMBuildAdd(b, bits, number(x, JUST_BELOW_HALF), "");
    up = LLVMBuildAdd(b, up, odd, "");
    if (!positive)
        up = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, v, v, ""), number(x, QUIET), up, "");
    up = LLVMBuildTrunc(b, LLVMBuildLShr(b, up, number(x, UPPER), ""), x->i16, "");
    return LLVMBuildBitCast(b, up, x->bf16, "");
}

static void round_number(const Brief *x, LLVMValueRef v)
{
    LLVMValueRef of = LLVMGetOperand(v, 0), made;
    LLVMPositionBuilderBefore(x->builder, v);
    if (LLVMTypeOf(v) == x->bf16) {
        made = rounded(x, of);
    } else {
        made = LLVMGetPoison(LLVMTypeOf(v));
        for (unsigned n = 0; n < LLVMGetVectorSize(LLVMTypeOf(v)); n++) {
            LLVMValueRef one = LLVMBuildExtractElement(x->builder, of, number(x, n), "");
            made = LLVMBuildInsertElement(x->builder, made, rounded(x, one), number(x, n), "");
        }
    }
    LLVMReplaceAllUsesWith(v, made);
    LLVMInstructionEraseFromParent(v);
}

void hip_bf16(LLVMModuleRef module)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    const Brief x = {.context = context,
                     .module = module,
                     .builder = LLVMCreateBuilderInContext(context),
                     .f32 = LLVMFloatTypeInContext(context),
                     .bf16 = LLVMBFloatTypeInContext(context),
                     .i32 = LLVMInt32TypeInContext(context),
                     .i16 = LLVMInt16TypeInContext(context)};
    LLVMValueRef f = LLVMGetFirstFunction(module);
    for (; f; f = LLVMGetNextFunction(f)) {
        LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f);
        for (; block; block = LLVMGetNextBasicBlock(block)) {
            LLVMValueRef v, next;
            for (v = LLVMGetFirstInstruction(block); v; v = next) {
                next = LLVMGetNextInstruction(v);
                if (is_rounded(&x, v)) round_number(&x, v);
            }
        }
    }
    LLVMDisposeBuilder(x.builder);
}
