/* gpu_math.c - functions of values that a GPU computes by instructions of its own (GpuDevice.approximate).
 *
 * NVIDIA's power of two, ex2.approx, is within 2 ulp and exact at integers; AMD's v_exp_f32 within 1. What they would lose to the rounding of its argument is put back:
 * exp(x) = 2^t (1 + r ln 2) with t = x log2 e rounded and r what was rounded away. Reciprocals (rcp.approx, v_rcp_f32) are within 1 ulp; a step of Newton's
 * puts back the rest. sigmoid and tanh are made of the two, tanh near 0 of a polynomial, since 1 - 2 / (1 + e^2x) cancels there.
 * No function has a branch or a division.
 *
 * Kernels whose products are of 16-bit operands do without r and without the step: the weights of a softmax are at most 1, so that
 * the error, |x| 2^-24 of the weight, is below 2^-25 of the largest, far below the rounding of the weights to 8 or 11 bits. They
 * divide by a reciprocal, within 2 ulp: by more than 2^126 the result is 0. Reciprocals are values of their own, so that one of
 * a parameter leaves the loop. rsqrt.approx is within 2 ulp. */
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

static LLVMValueRef approximate(AuEmit *e, GpuApproximation which, LLVMValueRef x)
{
    const GpuFunction *f = &gpu_device(e)->approximate[which];
    return each(e, f->intrinsic, f->typed ? e->element[AU_F32] : NULL, x, NULL);
}

static LLVMValueRef power_of_two(AuEmit *e, LLVMValueRef x) { return approximate(e, GPU_EXP2, x); }

/* e^(times x), times a power of two with a sign. */
static LLVMValueRef exponential(AuEmit *e, LLVMValueRef x, double times)
{
    LLVMBuilderRef b = e->builder;
    const double log2_e = 0x1.71547652b82fep+0 * times, high = (double)(float)log2_e;
    LLVMValueRef factor = number(e, high, x), t = LLVMBuildFMul(b, x, factor, "");
    if (e->gpu->coarse) return power_of_two(e, t);
    LLVMValueRef r = call(e, "llvm.fma", x, factor, LLVMBuildFNeg(b, t, ""));
    r = call(e, "llvm.fma", x, number(e, log2_e - high, x), r);
    r = call(e, "llvm.minnum", r, number(e, 1, x), NULL); /* where t is infinite, r is NaN */
    LLVMValueRef rest = call(e, "llvm.fma", r, number(e, 0x1.62e42fefa39efp-1, x), number(e, 1, x));
    return LLVMBuildFMul(b, power_of_two(e, t), rest, "");
}

static LLVMValueRef reciprocal(AuEmit *e, LLVMValueRef x)
{
    if (LLVMIsAConstantFP(x)) {
        LLVMBool loses = false;
        return number(e, 1 / LLVMConstRealGetDouble(x, &loses), x);
    }
    return approximate(e, GPU_RECIPROCAL, x);
}

/* 1 / (1 + e^(times x)). */
static LLVMValueRef logistic(AuEmit *e, LLVMValueRef x, double times)
{
    LLVMValueRef one = number(e, 1, x);
    LLVMValueRef d = LLVMBuildFAdd(e->builder, exponential(e, x, times), one, "");
    LLVMValueRef y = reciprocal(e, d);
    if (e->gpu->coarse) return y;
    LLVMValueRef rest = call(e, "llvm.fma", LLVMBuildFNeg(e->builder, d, ""), y, one);
    rest = call(e, "llvm.minnum", rest, one, NULL); /* where d is infinite, rest is NaN, y is 0 */
    return call(e, "llvm.fma", rest, y, y);
}

/* 1 - 2 / (1 + e^2x), which loses what tanh is below 1; near 0: x + x^3 P(x^2), remainder (tanh x - x) / x^3. */
static LLVMValueRef hyperbolic(AuEmit *e, LLVMValueRef x)
{
    static const double near[] = {0.0162725709, -0.0525860302, 0.133194044, -0.333328903},
                        nearer[] = {-0.0488885008, 0.13296023, -0.333325446};
    const bool coarse = e->gpu->coarse;
    const double *c = coarse ? nearer : near, end = coarse ? 0.35 : 0.55;
    LLVMValueRef square = LLVMBuildFMul(e->builder, x, x, ""), sum = number(e, c[0], x);
    for (uint32_t n = 1; n < (coarse ? 3 : 4); n++)
        sum = call(e, "llvm.fma", sum, square, number(e, c[n], x));
    LLVMValueRef small = call(e, "llvm.fma", LLVMBuildFMul(e->builder, sum, square, ""), x, x);
    LLVMValueRef large = call(e, "llvm.fma", logistic(e, x, 2), number(e, -2, x), number(e, 1, x));
    LLVMValueRef size = emit_call(e, "llvm.fabs", LLVMTypeOf(x), NULL, &x, 1);
    LLVMValueRef is_small = LLVMBuildFCmp(e->builder, LLVMRealOLT, size, number(e, end, x), "");
    return LLVMBuildSelect(e->builder, is_small, small, large, "");
}

static LLVMValueRef quotient(AuEmit *e, LLVMValueRef x, LLVMValueRef y)
{
    return e->gpu->coarse ? LLVMBuildFMul(e->builder, x, reciprocal(e, y), "") : NULL;
}

bool gpu_native_math(AuKOp op)
{
    return op == AU_K_EXP || op == AU_K_EXP2 || op == AU_K_RSQRT || op == AU_K_SIGMOID ||
           op == AU_K_TANH;
}

LLVMValueRef gpu_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands)
{
    LLVMValueRef x = operands[0], y = operands[1];
    if (in->op == AU_K_LATE && in->type.width == 1) return gpu_device(e)->pin(e, x);
    if (of != AU_F32) return NULL;
    switch ((int)in->op) {
    case AU_K_EXP: return exponential(e, x, 1);
    case AU_K_EXP2: return power_of_two(e, x);
    case AU_K_SIGMOID: return logistic(e, x, -1);
    case AU_K_TANH: return hyperbolic(e, x);
    case AU_K_RSQRT: return approximate(e, GPU_RSQRT, x);
    case AU_K_DIV: return quotient(e, x, y);
    case AU_K_MIN: return call(e, "llvm.minnum", x, y, NULL);
    case AU_K_MAX: return call(e, "llvm.maxnum", x, y, NULL);
    case AU_K_MAXNAN:
        return call(e, "llvm.maximum", x, y, NULL); /* NVIDIA: from sm_80 on an instruction */
    }
    return NULL;
}

/* Are there products of 16-bit operands? */
bool gpu_multiplies_halves(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        if (in->op == AU_K_WGMMA) return true;
        if (in->op != AU_K_MMA) continue;
        if (kernel_matrix((AuMatrix)in->imm).types[AU_MATRIX_A].scalar != AU_F32) return true;
    }
    return false;
}

bool gpu_is_coarse(const AuKernel *k) { return k->is_coarse || gpu_multiplies_halves(k); }

bool gpu_any_multiplies_halves(AuKernel *const *kernels, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        if (gpu_multiplies_halves(kernels[n])) return true;
    return false;
}
