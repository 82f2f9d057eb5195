/* cuda_math.c - functions of values that the GPU computes by instructions of its own.
 *
 * ex2.approx is within 2 ulp and exact at integers; what it would lose to the rounding of its argument is put back:
 * exp(x) = 2^t (1 + r ln 2) with t = x log2 e rounded and r what was rounded away. Kernels whose products are of 16-bit operands
 * do without r: the weights of a softmax are at most 1, so that the error, |x| 2^-24 of the weight, is below 2^-25 of the largest,
 * far below the rounding of the weights to 8 or 11 bits; and they divide within 2 ulp. rsqrt.approx is within 2 ulp. */
#include "cuda.h"

/* To each element of a vector, or to a scalar. [of]: for intrinsics of several types, which. */
static LLVMValueRef each(AuEmit *e, const char *intrinsic, LLVMTypeRef of, LLVMValueRef a,
                         LLVMValueRef b)
{
    const uint32_t count = emit_count(a), arguments = b ? 2 : 1;
    if (!emit_is_vector(a))
        return emit_call(e, intrinsic, of, NULL, (LLVMValueRef[]){a, b}, arguments);
    LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(a));
    for (uint32_t n = 0; n < count; n++) {
        LLVMValueRef one[2] = {emit_at(e, a, n), b ? emit_at(e, b, n) : NULL};
        all = emit_put(e, all, emit_call(e, intrinsic, of, NULL, one, arguments), n);
    }
    return all;
}

static LLVMValueRef number(AuEmit *e, double value, LLVMValueRef like)
{
    LLVMValueRef one = LLVMConstReal(e->element[AU_F32], value);
    if (!emit_is_vector(like)) return one;
    for (uint32_t n = 0; n < emit_count(like); n++) e->list[n] = one;
    return LLVMConstVector(e->list, emit_count(like));
}

static LLVMValueRef call(AuEmit *e, const char *intrinsic, LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef c)
{
    return emit_call(e, intrinsic, LLVMTypeOf(a), NULL, (LLVMValueRef[]){a, b, c}, c ? 3 : 2);
}

static LLVMValueRef power_of_two(AuEmit *e, LLVMValueRef x)
{
    return each(e, "llvm.nvvm.ex2.approx.ftz", e->element[AU_F32], x, NULL);
}

static LLVMValueRef exponential(AuEmit *e, LLVMValueRef x)
{
    LLVMBuilderRef b = e->builder;
    const double log2_e = 0x1.71547652b82fep+0, high = (double)(float)log2_e;
    LLVMValueRef factor = number(e, high, x), t = LLVMBuildFMul(b, x, factor, "");
    if (e->cuda->coarse) return power_of_two(e, t);
    LLVMValueRef r = call(e, "llvm.fma", x, factor, LLVMBuildFNeg(b, t, ""));
    r = call(e, "llvm.fma", x, number(e, log2_e - high, x), r);
    r = call(e, "llvm.minnum", r, number(e, 1, x), NULL); /* where t is infinite, r is NaN */
    LLVMValueRef rest = call(e, "llvm.fma", r, number(e, 0x1.62e42fefa39efp-1, x), number(e, 1, x));
    return LLVMBuildFMul(b, power_of_two(e, t), rest, "");
}

bool cuda_native_math(AuKOp op) { return op == AU_K_EXP || op == AU_K_EXP2 || op == AU_K_RSQRT; }

LLVMValueRef cuda_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands)
{
    LLVMValueRef x = operands[0], y = operands[1];
    if (of != AU_F32) return NULL;
    switch ((int)in->op) {
    case AU_K_EXP: return exponential(e, x);
    case AU_K_EXP2: return power_of_two(e, x);
    case AU_K_RSQRT: return each(e, "llvm.nvvm.rsqrt.approx.f", NULL, x, NULL);
    case AU_K_DIV: return e->cuda->coarse ? each(e, "llvm.nvvm.div.full", NULL, x, y) : NULL;
    case AU_K_MIN: return call(e, "llvm.minnum", x, y, NULL);
    case AU_K_MAX: return call(e, "llvm.maxnum", x, y, NULL);
    }
    return NULL;
}
