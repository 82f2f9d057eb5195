/* value.c - operations of ops.def and on vectors of a lane, element by element. */
#include "emit.h"

SpvId spirv_exactly(SpvModule *m, uint32_t op, SpvId a, SpvId b)
{
    const SpvId id = spirv_make2(m, op, spirv_scalar(m, AU_F32), a, b);
    spirv_exact(m, id);
    return id;
}

/* ---- conversions */

static SpvId is_not_zero(SpvModule *m, AuScalar of, SpvId a)
{
    const uint32_t op = of == AU_F32 ? SPV_FUnordNotEqual : SPV_INotEqual;
    return spirv_make2(m, op, spirv_scalar(m, AU_I1), a, spirv_bits(m, of, 0));
}

static SpvId to_f32(SpvModule *m, AuScalar of, SpvId a)
{
    const SpvId type = spirv_scalar(m, AU_F32);
    switch (of) {
    case AU_I1: return spirv_choose(m, type, a, spirv_f32(m, 1), spirv_f32(m, 0));
    case AU_F16: return spirv_help(m, SPV_FROM_F16, &a);
    case AU_BF16:
        a = spirv_make2(m, SPV_ShiftLeftLogical, spirv_scalar(m, AU_I32), a, spirv_u32(m, 16));
        return spirv_make1(m, SPV_Bitcast, type, a);
    case AU_U8: return spirv_make1(m, SPV_ConvertUToF, type, a);
    case AU_I32:
    case AU_I64: return spirv_make1(m, SPV_ConvertSToF, type, a);
    case AU_VOID:
    case AU_F32:
    case AU_SCALARS: break;
    }
    return a;
}

static SpvId to_integer(SpvModule *m, AuScalar of, AuScalar to, SpvId a)
{
    const SpvId type = spirv_scalar(m, to);
    if (of == AU_I1) return spirv_choose(m, type, a, spirv_bits(m, to, 1), spirv_bits(m, to, 0));
    if (of == AU_F32) return spirv_help(m, to == AU_I32 ? SPV_TO_I32 : SPV_TO_I64, &a);
    if (of == AU_U8) return to == AU_I32 ? a : spirv_make1(m, SPV_UConvert, type, a);
    return spirv_make1(m, to == AU_I64 ? SPV_SConvert : SPV_UConvert, type, a);
}

SpvId spirv_convert(SpvModule *m, AuScalar of, AuScalar to, SpvId a)
{
    if (of == to) return a;
    switch (to) {
    case AU_I1: return is_not_zero(m, of, a);
    case AU_I32:
    case AU_I64: return to_integer(m, of, to, a);
    case AU_F32: return to_f32(m, of, a);
    case AU_F16: return spirv_help(m, SPV_TO_F16, &a);
    case AU_BF16: return spirv_help(m, SPV_TO_BF16, &a);
    case AU_U8:
        return spirv_make2(m, SPV_BitwiseAnd, spirv_scalar(m, AU_I32), a, spirv_u32(m, 255));
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return a;
}

/* ---- arithmetic */

/* Instructions that are one of SPIR-V's, for i1, integers, f32; 0: not that simple. */
static const struct Plain {
    uint16_t truth, integer, real;
} plain[AU_K_COUNT] = {
    [AU_K_ADD] = {0, SPV_IAdd, SPV_FAdd},
    [AU_K_SUB] = {0, SPV_ISub, SPV_FSub},
    [AU_K_MUL] = {0, SPV_IMul, SPV_FMul},
    [AU_K_DIV] = {0, 0, SPV_FDiv},
    [AU_K_NEG] = {0, SPV_SNegate, SPV_FNegate},
    [AU_K_AND] = {0, SPV_BitwiseAnd, 0},
    [AU_K_OR] = {0, SPV_BitwiseOr, 0},
    [AU_K_XOR] = {0, SPV_BitwiseXor, 0},
    [AU_K_SHL] = {0, SPV_ShiftLeftLogical, 0},
    [AU_K_SHR] = {0, SPV_ShiftRightArithmetic, 0},
    [AU_K_USHR] = {0, SPV_ShiftRightLogical, 0},
    [AU_K_LT] = {0, SPV_SLessThan, SPV_FOrdLessThan},
    [AU_K_LE] = {0, SPV_SLessThanEqual, SPV_FOrdLessThanEqual},
    [AU_K_EQ] = {SPV_LogicalEqual, SPV_IEqual, SPV_FOrdEqual},
    [AU_K_NE] = {SPV_LogicalNotEqual, SPV_INotEqual, SPV_FUnordNotEqual},
    [AU_K_LAND] = {SPV_LogicalAnd, 0, 0},
    [AU_K_LOR] = {SPV_LogicalOr, 0, 0},
    [AU_K_LNOT] = {SPV_LogicalNot, 0, 0},
};

static bool is_rounded(AuKOp op)
{
    return op == AU_K_ADD || op == AU_K_SUB || op == AU_K_MUL || op == AU_K_DIV;
}

/* The second where one is NaN, as the interpreter does. */
SpvId spirv_extreme(SpvModule *m, AuKOp op, AuScalar of, SpvId a, SpvId b)
{
    const bool least = op == AU_K_MIN, real = of == AU_F32;
    const uint32_t test = least ? (real ? SPV_FOrdLessThan : SPV_SLessThan)
                                : (real ? SPV_FOrdGreaterThan : SPV_SGreaterThan);
    if (real && m->flavour->functions[op] && !m->compares)
        return spirv_function(m, op, spirv_scalar(m, of), SPV_WORDS(a, b));
    SpvId first = spirv_make2(m, test, spirv_scalar(m, AU_I1), a, b);
    if (op == AU_K_MAXNAN) {
        const SpvId is_nan = spirv_make2(m, SPV_FUnordNotEqual, spirv_scalar(m, AU_I1), a, a);
        first = spirv_make2(m, SPV_LogicalOr, spirv_scalar(m, AU_I1), is_nan, first);
    }
    return spirv_choose(m, spirv_scalar(m, of), first, a, b);
}

static SpvId magnitude(SpvModule *m, AuScalar of, SpvId a)
{
    const SpvId type = spirv_scalar(m, of);
    if (of == AU_F32) return spirv_function(m, AU_K_ABS, type, &a, 1);
    const SpvId below =
        spirv_make2(m, SPV_SLessThan, spirv_scalar(m, AU_I1), a, spirv_bits(m, of, 0));
    return spirv_choose(m, type, below, spirv_make1(m, SPV_SNegate, type, a), a);
}

/* 0 - a, but for the zeros, whose difference has no sign. */
static SpvId negated(SpvModule *m, SpvId a)
{
    const SpvId type = spirv_scalar(m, AU_F32), minus = spirv_make1(m, SPV_FNegate, type, a);
    if (!m->flavour->negates_by_difference) return minus;
    const SpvId zero = spirv_f32(m, 0);
    const SpvId is_zero = spirv_make2(m, SPV_FOrdEqual, spirv_scalar(m, AU_I1), a, zero);
    return spirv_choose(m, type, is_zero, minus, spirv_exactly(m, SPV_FSub, zero, a));
}

static SpvId high_product(SpvModule *m, AuScalar of, SpvId a, SpvId b)
{
    const SpvId type = spirv_scalar(m, of);
    if (m->flavour->functions[AU_K_MULHI])
        return spirv_function(m, AU_K_MULHI, type, SPV_WORDS(a, b));
    const SpvId both = spirv_type(m, SPV_TypeStruct, SPV_WORDS(type, type));
    const SpvId product = spirv_make2(m, SPV_UMulExtended, both, a, b);
    return spirv_make(m, SPV_CompositeExtract, type, SPV_WORDS(product, 1));
}

static SpvId fused(SpvEmit *e, AuVal v, const SpvId *operands)
{
    SpvModule *m = e->m;
    if (v.i >= e->math && !e->flavour->fma_rounds_once)
        return spirv_help(m, SPV_FMA_ONCE, operands);
    const SpvId id = spirv_function(m, AU_K_FMA, spirv_scalar(m, AU_F32), operands, 3);
    spirv_exact(m, id);
    return id;
}

/* Floor division and remainder by a power of two are a shift and a mask; 0: not such a case. */
static SpvId by_power_of_two(SpvEmit *e, const AuInstr *in, SpvId a)
{
    SpvModule *m = e->m;
    const AuInstr *by = kernel_at(e->k, kernel_operand(e->k, in, 1));
    const AuScalar of = (AuScalar)in->type.scalar;
    if (by->op != AU_K_CONST || by->imm <= 0 || by->imm & (by->imm - 1)) return 0;
    if (in->op == AU_K_IMOD)
        return spirv_make2(m, SPV_BitwiseAnd, spirv_scalar(m, of), a,
                           spirv_bits(m, of, (uint64_t)by->imm - 1));
    const uint64_t places = (uint64_t)__builtin_ctzll((uint64_t)by->imm);
    return spirv_make2(m, SPV_ShiftRightArithmetic, spirv_scalar(m, of), a,
                       spirv_bits(m, of, places));
}

static SpvId quotient(SpvEmit *e, const AuInstr *in, const SpvId *x)
{
    const bool wide = in->type.scalar == AU_I64, rest = in->op == AU_K_IMOD;
    const SpvId simple = by_power_of_two(e, in, x[0]);
    if (simple) return simple;
    return spirv_help(e->m,
                      rest ? (wide ? SPV_FLOOR_MOD_LONG : SPV_FLOOR_MOD)
                           : (wide ? SPV_FLOOR_DIV_LONG : SPV_FLOOR_DIV),
                      x);
}

static SpvId plainly(SpvEmit *e, const AuInstr *in, AuScalar of, SpvId *x)
{
    SpvModule *m = e->m;
    const struct Plain *row = &plain[in->op];
    const uint32_t op = of == AU_F32 ? row->real : of == AU_I1 ? row->truth : row->integer;
    const SpvId type = spirv_scalar(m, (AuScalar)in->type.scalar);
    if (!op) return 0;
    if (in->op == AU_K_SHL || in->op == AU_K_SHR || in->op == AU_K_USHR) /* modulo the width */
        x[1] =
            spirv_make2(m, SPV_BitwiseAnd, type, x[1], spirv_bits(m, of, of == AU_I64 ? 63 : 31));
    const SpvId id = spirv_make(m, op, type, x, in->count);
    if (of == AU_F32 && is_rounded((AuKOp)in->op)) spirv_exact(m, id);
    return id;
}

/* One element of an operation of ops.def; 0: there is no such operation. [of]: the operands' type. */
static SpvId compute(SpvEmit *e, AuVal v, AuScalar of, SpvId *x)
{
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    const AuScalar to = (AuScalar)in->type.scalar;
    switch ((int)in->op) {
    case AU_K_FMA: return fused(e, v, x);
    case AU_K_IDIV:
    case AU_K_IMOD: return quotient(e, in, x);
    case AU_K_MULHI: return high_product(m, of, x[0], x[1]);
    case AU_K_LATE: return x[0];
    case AU_K_ABS: return magnitude(m, of, x[0]);
    case AU_K_MIN:
    case AU_K_MAX:
    case AU_K_MAXNAN: return spirv_extreme(m, (AuKOp)in->op, of, x[0], x[1]);
    case AU_K_SELECT: return spirv_choose(m, spirv_scalar(m, to), x[0], x[1], x[2]);
    case AU_K_CVT: return spirv_convert(m, of, to, x[0]);
    case AU_K_BITCAST:
        return of == to ? x[0] : spirv_make1(m, SPV_Bitcast, spirv_scalar(m, to), x[0]);
    case AU_K_NEG: return of == AU_F32 ? negated(m, x[0]) : plainly(e, in, of, x);
    }
    if (m->flavour->functions[in->op])
        return spirv_function(m, in->op, spirv_scalar(m, to), x, in->count);
    return plainly(e, in, of, x);
}

/* ---- vectors */

static void dot2(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuScalar of = (AuScalar)kernel_at(e->k, kernel_operand(e->k, in, 1))->type.scalar;
    const AuVal whole = {1}; /* products of 16-bit operands are exact however fma rounds */
    SpvId sum = spirv_operand(e, in, 0, 0);
    for (uint32_t n = 0; n < 2; n++) {
        const SpvId x[] = {spirv_convert(e->m, of, AU_F32, spirv_operand(e, in, 1, n)),
                           spirv_convert(e->m, of, AU_F32, spirv_operand(e, in, 2, n)), sum};
        sum = fused(e, whole, x);
    }
    spirv_set(e, v, 0, sum);
}

void spirv_operation(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const uint32_t width = in->type.width, flags = kernel_op_info((AuKOp)in->op)->flags;
    if (flags & (AU_KF_AGENTS | AU_KF_OPAQUE | AU_KF_LANES | AU_KF_MEM) || !in->count) {
        spirv_lacks(e, in);
        return;
    }
    if (spirv_keeps_half(e, v)) return;
    if (in->op == AU_K_DOT2) {
        dot2(e, v);
        return;
    }
    const AuInstr *last = kernel_at(e->k, kernel_operand(e->k, in, in->count - 1u));
    for (uint32_t n = 0; n < width; n++) {
        SpvId x[3] = {0}, id;
        if (in->op == AU_K_VEC)
            id = spirv_operand(e, in, n, 0);
        else if (in->op == AU_K_ELEMENT || in->op == AU_K_SLICE)
            id = spirv_operand(e, in, 0, (uint32_t)in->imm + n);
        else {
            for (uint32_t o = 0; o < in->count && o < 3; o++) x[o] = spirv_operand(e, in, o, n);
            id = compute(e, v, (AuScalar)last->type.scalar, x);
        }
        if (!id) {
            spirv_lacks(e, in);
            return;
        }
        spirv_set(e, v, n, id);
    }
    if (width == 1 && in->text) spirv_name(e->m, spirv_value(e, v, 0), in->text);
}
