/* emit_ops.c - the operations of ops.def as LLVM instructions, on operands of one shape: all scalars or all vectors.
 *
 * No fast-math flags: what the IR says is what runs, fused only where it says FMA. MIN and MAX are a < b ? a : b and
 * a > b ? a : b, as the interpreter has them, which is what vminps and vmaxps compute: b where one of the two is a NaN.
 * Division of integers rounds down. A vector divides in f64, which is exact for i32 (a quotient that is no integer is at least
 * 2^-31 of its size away from one) and needs no division unit per lane; a divisor of zero gives quotient 0, never a trap,
 * because lanes that are masked out divide too. */
#include "emit.h"

static LLVMTypeRef shaped(const AuEmit *e, AuScalar scalar, LLVMValueRef like)
{
    return emit_type(e, scalar, emit_count(like));
}

static LLVMValueRef call1(AuEmit *e, const char *name, LLVMValueRef a)
{
    return emit_call(e, name, LLVMTypeOf(a), NULL, &a, 1);
}

/* ---- 16-bit floats */

LLVMValueRef emit_to_f32(AuEmit *e, AuScalar from, LLVMValueRef v)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef f32 = shaped(e, AU_F32, v);
    if (e->device) return LLVMBuildFPExt(b, v, f32, "");
    if (from == AU_BF16) {
        LLVMValueRef bits = LLVMBuildZExt(b, v, shaped(e, AU_I32, v), "");
        bits = LLVMBuildShl(b, bits, emit_int(e, AU_I32, 16, emit_count(v)), "");
        return LLVMBuildBitCast(b, bits, f32, "");
    }
    LLVMTypeRef half = LLVMHalfTypeInContext(e->context);
    if (emit_is_vector(v)) half = LLVMVectorType(half, emit_count(v));
    return LLVMBuildFPExt(b, LLVMBuildBitCast(b, v, half, ""), f32, "");
}

/* To nearest even in integers; a NaN keeps its high bits and becomes quiet. */
static LLVMValueRef round_to_bf16(AuEmit *e, LLVMValueRef v)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t n = emit_count(v);
    LLVMValueRef bits = LLVMBuildBitCast(b, v, shaped(e, AU_I32, v), "");
    LLVMValueRef high = LLVMBuildLShr(b, bits, emit_int(e, AU_I32, 16, n), "");
    LLVMValueRef odd = LLVMBuildAnd(b, high, emit_int(e, AU_I32, 1, n), "");
    LLVMValueRef up = LLVMBuildAdd(b, odd, emit_int(e, AU_I32, 0x7fff, n), "");
    LLVMValueRef near =
        LLVMBuildLShr(b, LLVMBuildAdd(b, bits, up, ""), emit_int(e, AU_I32, 16, n), "");
    LLVMValueRef quiet = LLVMBuildOr(b, high, emit_int(e, AU_I32, 0x40, n), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, v, v, "");
    return LLVMBuildTrunc(b, LLVMBuildSelect(b, nan, quiet, near, ""), shaped(e, AU_BF16, v), "");
}

/* vcvtneps2bf16 differs from the integers above in one thing: it takes denormals, below 2^-126, for zero. */
static const char *native_bf16(const AuEmit *e, uint32_t count)
{
    if (!e->host->dot_bf16) return NULL;
    return count == 16  ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
           : count == 8 ? "llvm.x86.avx512bf16.cvtneps2bf16.256"
                        : NULL;
}

LLVMValueRef emit_from_f32(AuEmit *e, AuScalar to, LLVMValueRef v)
{
    LLVMBuilderRef b = e->builder;
    if (e->device) return LLVMBuildFPTrunc(b, v, shaped(e, to, v), "");
    if (to == AU_BF16) {
        const char *native = native_bf16(e, emit_count(v));
        if (!native) return round_to_bf16(e, v);
        return LLVMBuildBitCast(b, emit_call(e, native, NULL, NULL, &v, 1), shaped(e, to, v), "");
    }
    LLVMTypeRef half = LLVMHalfTypeInContext(e->context);
    if (emit_is_vector(v)) half = LLVMVectorType(half, emit_count(v));
    return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, v, half, ""), shaped(e, to, v), "");
}

/* ---- conversions */

static bool is_int(AuScalar s) { return s == AU_I32 || s == AU_I64 || s == AU_U8; }

static LLVMValueRef convert(AuEmit *e, AuScalar from, AuScalar to, LLVMValueRef v)
{
    LLVMBuilderRef b = e->builder;
    if (from == to) return v;
    if (from == AU_F16 || from == AU_BF16) return convert(e, AU_F32, to, emit_to_f32(e, from, v));
    if (to == AU_F16 || to == AU_BF16) return emit_from_f32(e, to, convert(e, from, AU_F32, v));
    LLVMTypeRef type = shaped(e, to, v);
    if (from == AU_F32) {
        if (to == AU_I1) return LLVMBuildFCmp(b, LLVMRealUNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
        /* what does not fit is any value, but a value */
        return LLVMBuildFreeze(b, LLVMBuildFPToSI(b, v, type, ""), "");
    }
    if (to == AU_I1) return LLVMBuildICmp(b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    if (from == AU_I1 || from == AU_U8)
        return is_int(to) ? LLVMBuildZExt(b, v, type, "") : LLVMBuildUIToFP(b, v, type, "");
    if (!is_int(to)) return LLVMBuildSIToFP(b, v, type, "");
    return kernel_scalar_bytes(to) > kernel_scalar_bytes(from) ? LLVMBuildSExt(b, v, type, "")
                                                               : LLVMBuildTrunc(b, v, type, "");
}

/* ---- integers */

/* Floor of a / b from the quotient toward zero. */
static LLVMValueRef down(AuEmit *e, AuScalar of, LLVMValueRef q, LLVMValueRef a, LLVMValueRef d)
{
    LLVMBuilderRef b = e->builder;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
    LLVMValueRef rest = LLVMBuildSub(b, a, LLVMBuildMul(b, q, d, ""), "");
    LLVMValueRef inexact = LLVMBuildICmp(b, LLVMIntNE, rest, zero, "");
    LLVMValueRef differ = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, rest, d, ""), zero, "");
    LLVMValueRef one = emit_int(e, of, 1, emit_count(a));
    return LLVMBuildSelect(b, LLVMBuildAnd(b, inexact, differ, ""), LLVMBuildSub(b, q, one, ""), q,
                           "");
}

/* Whether [d] is one constant in all lanes. */
static bool constant_of(LLVMValueRef d, int64_t *value)
{
    if (LLVMIsConstant(d) && emit_is_vector(d)) {
        LLVMValueRef first = LLVMGetAggregateElement(d, 0);
        for (unsigned n = 1; first && n < emit_count(d); n++)
            if (LLVMGetAggregateElement(d, n) != first) return false;
        d = first;
    }
    if (!d || !LLVMIsAConstantInt(d)) return false;
    *value = LLVMConstIntGetSExtValue(d);
    return true;
}

/* The divisors 0 and -1 trap or overflow in hardware: they divide as 1 and are put right after. */
static LLVMValueRef divide_any(AuEmit *e, AuScalar of, LLVMValueRef a, LLVMValueRef d)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t count = emit_count(a);
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a)), one = emit_int(e, of, 1, count);
    LLVMValueRef is_zero = LLVMBuildICmp(b, LLVMIntEQ, d, zero, "");
    LLVMValueRef is_minus = LLVMBuildICmp(b, LLVMIntEQ, d, emit_int(e, of, -1, count), "");
    LLVMValueRef safe = LLVMBuildSelect(b, LLVMBuildOr(b, is_zero, is_minus, ""), one, d, "");
    LLVMValueRef q;
    if (count > 1 && of == AU_I32) {
        LLVMTypeRef f64 = LLVMVectorType(LLVMDoubleTypeInContext(e->context), count);
        LLVMValueRef x = LLVMBuildSIToFP(b, a, f64, ""), y = LLVMBuildSIToFP(b, safe, f64, "");
        q = call1(e, "llvm.floor", LLVMBuildFDiv(b, x, y, ""));
        q = LLVMBuildFPToSI(b, q, LLVMTypeOf(a), "");
    } else
        q = down(e, of, LLVMBuildSDiv(b, a, safe, ""), a, safe);
    q = LLVMBuildSelect(b, is_minus, LLVMBuildNeg(b, a, ""), q, "");
    return LLVMBuildSelect(b, is_zero, zero, q, "");
}

/* Quotient or remainder, rounding down. LLVM makes products of constant divisors; powers of two need no rounding. */
static LLVMValueRef divide(AuEmit *e, AuKOp op, AuScalar of, LLVMValueRef a, LLVMValueRef d)
{
    LLVMBuilderRef b = e->builder;
    int64_t by = 0;
    const bool fixed = constant_of(d, &by) && by != 0 && by != -1;
    if (fixed && by > 0 && !(by & (by - 1))) {
        LLVMValueRef mask = emit_int(e, of, by - 1, emit_count(a));
        LLVMValueRef shift = emit_int(e, of, __builtin_ctzll((uint64_t)by), emit_count(a));
        return op == AU_K_IDIV ? LLVMBuildAShr(b, a, shift, "") : LLVMBuildAnd(b, a, mask, "");
    }
    LLVMValueRef q =
        fixed ? down(e, of, LLVMBuildSDiv(b, a, d, ""), a, d) : divide_any(e, of, a, d);
    return op == AU_K_IDIV ? q : LLVMBuildSub(b, a, LLVMBuildMul(b, q, d, ""), "");
}

static LLVMValueRef multiply_high(AuEmit *e, AuScalar of, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = e->builder;
    const unsigned bits = of == AU_I32 ? 32 : 64;
    LLVMTypeRef twice = LLVMIntTypeInContext(e->context, 2 * bits), type = LLVMTypeOf(x);
    LLVMValueRef by = LLVMConstInt(twice, bits, false);
    if (emit_is_vector(x)) {
        const uint32_t n = emit_count(x);
        for (uint32_t i = 0; i < n; i++) e->list[i] = by;
        by = LLVMConstVector(e->list, n);
        twice = LLVMVectorType(twice, n);
    }
    LLVMValueRef product =
        LLVMBuildMul(b, LLVMBuildZExt(b, x, twice, ""), LLVMBuildZExt(b, y, twice, ""), "");
    return LLVMBuildTrunc(b, LLVMBuildLShr(b, product, by, ""), type, "");
}

static LLVMValueRef shift(AuEmit *e, LLVMOpcode opcode, AuScalar of, LLVMValueRef a,
                          LLVMValueRef count)
{
    LLVMValueRef last = emit_int(e, of, of == AU_I64 ? 63 : 31, emit_count(a));
    return LLVMBuildBinOp(e->builder, opcode, a, LLVMBuildAnd(e->builder, count, last, ""), "");
}

/* ---- either */

static LLVMValueRef arithmetic(AuEmit *e, AuScalar of, LLVMOpcode on_int, LLVMOpcode on_float,
                               LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildBinOp(e->builder, of == AU_F32 ? on_float : on_int, a, b, "");
}

static LLVMValueRef compare(AuEmit *e, AuScalar of, LLVMIntPredicate on_int,
                            LLVMRealPredicate on_float, LLVMValueRef a, LLVMValueRef b)
{
    if (of == AU_F32) return LLVMBuildFCmp(e->builder, on_float, a, b, "");
    if (of == AU_I1 && on_int == LLVMIntSLT) on_int = LLVMIntULT;
    if (of == AU_I1 && on_int == LLVMIntSLE) on_int = LLVMIntULE;
    return LLVMBuildICmp(e->builder, on_int, a, b, "");
}

static LLVMValueRef extreme(AuEmit *e, AuKOp op, AuScalar of, LLVMValueRef a, LLVMValueRef b)
{
    const bool least = op == AU_K_MIN;
    if (of == AU_F32) {
        LLVMValueRef first = LLVMBuildFCmp(e->builder, least ? LLVMRealOLT : LLVMRealOGT, a, b, "");
        return LLVMBuildSelect(e->builder, first, a, b, "");
    }
    LLVMValueRef both[2] = {a, b};
    return emit_call(e, least ? "llvm.smin" : "llvm.smax", LLVMTypeOf(a), NULL, both, 2);
}

static LLVMValueRef magnitude(AuEmit *e, AuScalar of, LLVMValueRef a)
{
    if (of == AU_F32) return call1(e, "llvm.fabs", a);
    LLVMValueRef both[2] = {a, LLVMConstInt(e->element[AU_I1], 0, false)};
    return emit_call(e, "llvm.abs", LLVMTypeOf(a), NULL, both, 2);
}

/* NULL: a MATH operation, which kernel_legalize_math should have expanded. */
LLVMValueRef emit_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands)
{
    LLVMBuilderRef b = e->builder;
    LLVMValueRef x = operands[0], y = operands[1], z = operands[2];
    const AuScalar to = (AuScalar)in->type.scalar;
    const AuKOp op = (AuKOp)in->op;
    switch (op) {
    case AU_K_ADD: return arithmetic(e, of, LLVMAdd, LLVMFAdd, x, y);
    case AU_K_SUB: return arithmetic(e, of, LLVMSub, LLVMFSub, x, y);
    case AU_K_MUL: return arithmetic(e, of, LLVMMul, LLVMFMul, x, y);
    case AU_K_DIV: return LLVMBuildFDiv(b, x, y, "");
    case AU_K_FMA:
        return emit_call(e, "llvm.fma", LLVMTypeOf(x), NULL, (LLVMValueRef[]){x, y, z}, 3);
    case AU_K_IDIV:
    case AU_K_IMOD: return divide(e, op, of, x, y);
    case AU_K_MULHI: return multiply_high(e, of, x, y);
    case AU_K_NEG: return of == AU_F32 ? LLVMBuildFNeg(b, x, "") : LLVMBuildNeg(b, x, "");
    case AU_K_ABS: return magnitude(e, of, x);
    case AU_K_MIN:
    case AU_K_MAX: return extreme(e, op, of, x, y);
    case AU_K_MAXNAN: /* x is NaN, or above y: not below, nor equal */
        return LLVMBuildSelect(b,
                               LLVMBuildOr(b, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""),
                                           LLVMBuildFCmp(b, LLVMRealOGT, x, y, ""), ""),
                               x, y, "");
    case AU_K_AND:
    case AU_K_LAND: return LLVMBuildAnd(b, x, y, "");
    case AU_K_OR:
    case AU_K_LOR: return LLVMBuildOr(b, x, y, "");
    case AU_K_XOR: return LLVMBuildXor(b, x, y, "");
    case AU_K_LNOT: return LLVMBuildNot(b, x, "");
    case AU_K_SHL: return shift(e, LLVMShl, of, x, y);
    case AU_K_SHR: return shift(e, LLVMAShr, of, x, y);
    case AU_K_USHR: return shift(e, LLVMLShr, of, x, y);
    case AU_K_LATE: return x;
    case AU_K_LT: return compare(e, of, LLVMIntSLT, LLVMRealOLT, x, y);
    case AU_K_LE: return compare(e, of, LLVMIntSLE, LLVMRealOLE, x, y);
    case AU_K_EQ: return compare(e, of, LLVMIntEQ, LLVMRealOEQ, x, y);
    case AU_K_NE: return compare(e, of, LLVMIntNE, LLVMRealUNE, x, y);
    case AU_K_SELECT: return LLVMBuildSelect(b, x, y, z, "");
    case AU_K_CVT: return convert(e, of, to, x);
    case AU_K_BITCAST:
        return LLVMBuildBitCast(
            b, x,
            emit_type(e, to, emit_count(x) * kernel_scalar_bytes(of) / kernel_scalar_bytes(to)),
            "");
    case AU_K_FLOOR: return call1(e, "llvm.floor", x);
    case AU_K_CEIL: return call1(e, "llvm.ceil", x);
    case AU_K_RINT: return call1(e, "llvm.rint", x);
    case AU_K_SQRT: return call1(e, "llvm.sqrt", x);
#define OF_PLAIN(NAME)
#define OF_MATH(NAME)                       case AU_K_##NAME:
#define SCALAR(NAME, text, count, how, ...) OF_##how(NAME)
#include "scalars.def"
#define CORE(NAME, text, least, most, flags, what) case AU_K_##NAME:
#include "core.def"
#undef CORE
    case AU_K_FROM_E4M3: /* a device's own, or expanded by kernel_legalize_codes */
    case AU_K_FROM_E5M2:
    case AU_K_FROM_I8:
    case AU_K_FROM_I4:
    case AU_K_FROM_I4_HIGH:
    case AU_K_TO_E4M3:
    case AU_K_TO_E5M2:
    case AU_K_TO_I8:
    case AU_K_NONE:
    case AU_K_COUNT: break;
    }
    return NULL;
}
