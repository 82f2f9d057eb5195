/* helpers.c - functions of the module that kernels call: what SPIR-V has no instruction for, or none that every device rounds alike. */
#include "emit.h"

/* ---- words */

typedef struct Help {
    SpvModule *m;
    SpvId a, b, c; /* parameters */
    SpvId i, f, t; /* types: 32 bits, float, bool */
} Help;

static SpvId op(const Help *h, uint32_t op_code, SpvId a, SpvId b)
{
    return spirv_make2(h->m, op_code, h->i, a, b);
}
static SpvId test(const Help *h, uint32_t op_code, SpvId a, SpvId b)
{
    return spirv_make2(h->m, op_code, h->t, a, b);
}
static SpvId u(const Help *h, uint32_t value) { return spirv_u32(h->m, value); }
static SpvId f(const Help *h, float value) { return spirv_f32(h->m, value); }
static SpvId choose(const Help *h, SpvId condition, SpvId a, SpvId b)
{
    return spirv_choose(h->m, h->i, condition, a, b);
}
static SpvId bits(const Help *h, SpvId a) { return spirv_make1(h->m, SPV_Bitcast, h->i, a); }
static SpvId real(const Help *h, SpvId a) { return spirv_make1(h->m, SPV_Bitcast, h->f, a); }
static SpvId x(const Help *h, uint32_t op_code, SpvId a, SpvId b)
{
    return spirv_exactly(h->m, op_code, a, b);
}

/* ---- integers */

/* Divisors 0 and -1 stop some devices: they are kept from the divider. */
static SpvId floor_quotient(const Help *h, AuScalar of)
{
    SpvModule *m = h->m;
    const SpvId type = spirv_scalar(m, of), none = spirv_bits(m, of, 0);
    const SpvId minus = spirv_bits(m, of, of == AU_I32 ? UINT32_MAX : UINT64_MAX);
    const SpvId is_none = test(h, SPV_IEqual, h->b, none);
    const SpvId special = test(h, SPV_LogicalOr, is_none, test(h, SPV_IEqual, h->b, minus));
    const SpvId by = spirv_choose(m, type, special, spirv_bits(m, of, 1), h->b);
    const SpvId q = spirv_make2(m, SPV_SDiv, type, h->a, by);
    const SpvId back = spirv_make2(m, SPV_IMul, type, q, by);
    const SpvId uneven = test(h, SPV_INotEqual, back, h->a);
    const SpvId signs = spirv_make2(m, SPV_BitwiseXor, type, h->a, by);
    const SpvId below = test(h, SPV_LogicalAnd, uneven, test(h, SPV_SLessThan, signs, none));
    const SpvId less = spirv_choose(m, type, below, minus, none);
    const SpvId down = spirv_make2(m, SPV_IAdd, type, q, less);
    return spirv_choose(m, type, special, spirv_make2(m, SPV_IMul, type, h->a, h->b), down);
}

static SpvId floor_rest(const Help *h, AuScalar of)
{
    const SpvId type = spirv_scalar(h->m, of);
    const SpvId q = floor_quotient(h, of);
    return spirv_make2(h->m, SPV_ISub, type, h->a, spirv_make2(h->m, SPV_IMul, type, q, h->b));
}

/* Toward zero; what does not fit becomes the nearest integer that does, NaN 0. */
static SpvId saturated(const Help *h, AuScalar to)
{
    SpvModule *m = h->m;
    const SpvId type = spirv_scalar(m, to), none = spirv_bits(m, to, 0);
    const uint64_t most = to == AU_I32 ? INT32_MAX : INT64_MAX;
    const SpvId size = spirv_function(m, AU_K_ABS, h->f, &h->a, 1);
    const SpvId fits = test(h, SPV_FOrdLessThan, size, f(h, to == AU_I32 ? 0x1p31f : 0x1p63f));
    const SpvId within = spirv_choose(m, h->f, fits, h->a, f(h, 0));
    const SpvId whole = spirv_make1(m, SPV_ConvertFToS, type, within);
    const SpvId low = spirv_choose(m, type, test(h, SPV_FOrdLessThan, h->a, f(h, 0)),
                                   spirv_bits(m, to, most + 1), none);
    const SpvId end = spirv_choose(m, type, test(h, SPV_FOrdGreaterThan, h->a, f(h, 0)),
                                   spirv_bits(m, to, most), low);
    return spirv_choose(m, type, fits, whole, end);
}

/* ---- floats of 16 bits; by integers, since devices may round otherwise and flush what is small */

static SpvId from_f16(const Help *h)
{
    const SpvId rest = op(h, SPV_BitwiseAnd, h->a, u(h, 0x7fff));
    const SpvId sign =
        op(h, SPV_ShiftLeftLogical, op(h, SPV_BitwiseAnd, h->a, u(h, 0x8000)), u(h, 16));
    const SpvId count = spirv_make1(h->m, SPV_ConvertUToF, h->f, rest);
    const SpvId small = bits(h, x(h, SPV_FMul, count, f(h, 0x1p-24f)));
    const SpvId up = op(h, SPV_ShiftLeftLogical, rest, u(h, 13));
    const SpvId usual = op(h, SPV_IAdd, up, u(h, 0x38000000));
    const SpvId endless = op(h, SPV_BitwiseOr, up, u(h, 0x7f800000));
    const SpvId large = choose(h, test(h, SPV_ULessThan, rest, u(h, 0x7c00)), usual, endless);
    const SpvId all = choose(h, test(h, SPV_ULessThan, rest, u(h, 0x400)), small, large);
    return real(h, op(h, SPV_BitwiseOr, sign, all));
}

/* To nearest even; below 2^-14 by adding 1/2, whose last bit is worth 2^-24. */
static SpvId to_f16(const Help *h)
{
    if (h->m->flavour->has_halves) {
        SpvModule *m = h->m;
        const SpvId half = spirv_make1(m, SPV_FConvert, spirv_half(m), h->a),
                    small = spirv_make1(m, SPV_Bitcast, spirv_int(m, 16), half);
        spirv_put(m, &m->sections[SPV_DECORATIONS], SPV_Decorate,
                  SPV_WORDS(half, SPV_IS_FPRoundingMode, 0 /* RTE */));
        spirv_capability(m, SPV_CAP_Int16);
        return spirv_make1(m, SPV_UConvert, spirv_scalar(m, AU_I32), small);
    }
    const SpvId all = bits(h, h->a), rest = op(h, SPV_BitwiseAnd, all, u(h, 0x7fffffff));
    const SpvId sign =
        op(h, SPV_BitwiseAnd, op(h, SPV_ShiftRightLogical, all, u(h, 16)), u(h, 0x8000));
    const SpvId half = u(h, 0x3f000000);
    const SpvId small = op(h, SPV_ISub, bits(h, x(h, SPV_FAdd, real(h, rest), f(h, 0.5f))), half);
    const SpvId last = op(h, SPV_BitwiseAnd, op(h, SPV_ShiftRightLogical, rest, u(h, 13)), u(h, 1));
    const SpvId moved = op(h, SPV_IAdd, rest, u(h, 0xfffu - 0x38000000u));
    const SpvId usual = op(h, SPV_ShiftRightLogical, op(h, SPV_IAdd, moved, last), u(h, 13));
    const SpvId is_small = test(h, SPV_ULessThan, rest, u(h, 0x38800000));
    const SpvId is_large = test(h, SPV_UGreaterThanEqual, rest, u(h, 0x477ff000));
    const SpvId is_nan = test(h, SPV_UGreaterThan, rest, u(h, 0x7f800000));
    const SpvId finite = choose(h, is_small, small, usual);
    const SpvId any = choose(h, is_nan, u(h, 0x7e00), choose(h, is_large, u(h, 0x7c00), finite));
    return op(h, SPV_BitwiseOr, sign, any);
}

/* To nearest even; a NaN stays one. */
static SpvId to_bf16(const Help *h)
{
    const SpvId all = bits(h, h->a), rest = op(h, SPV_BitwiseAnd, all, u(h, 0x7fffffff));
    const SpvId last = op(h, SPV_BitwiseAnd, op(h, SPV_ShiftRightLogical, all, u(h, 16)), u(h, 1));
    const SpvId rounded = op(h, SPV_IAdd, op(h, SPV_IAdd, all, u(h, 0x7fff)), last);
    const SpvId is_nan = test(h, SPV_UGreaterThan, rest, u(h, 0x7f800000));
    const SpvId quiet = op(h, SPV_BitwiseOr, all, u(h, 0x400000));
    return op(h, SPV_ShiftRightLogical, choose(h, is_nan, quiet, rounded), u(h, 16));
}

/* ---- a b + c, rounded once */

/* The rounding error of a + b = sum. */
static SpvId lost(const Help *h, SpvId a, SpvId b, SpvId sum)
{
    const SpvId of_b = x(h, SPV_FSub, sum, a);
    const SpvId left = x(h, SPV_FSub, a, x(h, SPV_FSub, sum, of_b));
    return x(h, SPV_FAdd, left, x(h, SPV_FSub, b, of_b));
}

/* The upper half of the bits (Veltkamp). */
static SpvId upper(const Help *h, SpvId a)
{
    const SpvId large = x(h, SPV_FMul, a, f(h, 4097));
    return x(h, SPV_FSub, large, x(h, SPV_FSub, large, a));
}

/* By the exact product in two numbers (Dekker), and the exact sum of its larger part and c; where something overflows
 * on the way, the plain sum. Within 1/2 and some 2^-20 ulp. */
static SpvId apart(const Help *h)
{
    const SpvId a = upper(h, h->a), b = upper(h, h->b);
    const SpvId a_low = x(h, SPV_FSub, h->a, a), b_low = x(h, SPV_FSub, h->b, b);
    const SpvId product = x(h, SPV_FMul, h->a, h->b);
    SpvId rest = x(h, SPV_FSub, x(h, SPV_FMul, a, b), product);
    rest = x(h, SPV_FAdd, rest, x(h, SPV_FMul, a, b_low));
    rest = x(h, SPV_FAdd, rest, x(h, SPV_FMul, a_low, b));
    rest = x(h, SPV_FAdd, rest, x(h, SPV_FMul, a_low, b_low));
    const SpvId sum = x(h, SPV_FAdd, product, h->c);
    const SpvId both = x(h, SPV_FAdd, lost(h, product, h->c, sum), rest);
    const SpvId all = x(h, SPV_FAdd, sum, both);
    return spirv_choose(h->m, h->f, test(h, SPV_FUnordNotEqual, all, all), sum, all);
}

static SpvId fma_once(const Help *h)
{
    SpvModule *m = h->m;
    const SpvId one = spirv_id(m), other = spirv_id(m), end = spirv_id(m);
    if (!m->fused) {
        m->fused = spirv_id(m);
        spirv_put(m, &m->sections[SPV_GLOBALS], SPV_SpecConstantFalse, SPV_WORDS(h->t, m->fused));
        spirv_put(m, &m->sections[SPV_DECORATIONS], SPV_Decorate,
                  SPV_WORDS(m->fused, SPV_IS_SpecId, SPV_FUSED));
        spirv_name(m, m->fused, "fma_rounds_once");
    }
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(end, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(m->fused, one, other));
    spirv_label(m, one);
    const SpvId fused = spirv_function(m, AU_K_FMA, h->f, SPV_WORDS(h->a, h->b, h->c));
    spirv_exact(m, fused);
    spirv_branch(m, end);
    spirv_label(m, other);
    const SpvId exact = apart(h);
    spirv_branch(m, end);
    spirv_label(m, end);
    return spirv_make(m, SPV_Phi, h->f, SPV_WORDS(fused, one, exact, other));
}

/* ---- the functions */

static const struct Row {
    const char *name;
    AuScalar result, parameter;
    uint8_t count;
} rows[SPV_HELPER_COUNT] = {
    [SPV_FLOOR_DIV] = {"floor_div", AU_I32, AU_I32, 2},
    [SPV_FLOOR_MOD] = {"floor_mod", AU_I32, AU_I32, 2},
    [SPV_FLOOR_DIV_LONG] = {"floor_div_long", AU_I64, AU_I64, 2},
    [SPV_FLOOR_MOD_LONG] = {"floor_mod_long", AU_I64, AU_I64, 2},
    [SPV_TO_I32] = {"float_to_int", AU_I32, AU_F32, 1},
    [SPV_TO_I64] = {"float_to_long", AU_I64, AU_F32, 1},
    [SPV_FROM_F16] = {"half_to_float", AU_F32, AU_I32, 1},
    [SPV_TO_F16] = {"float_to_half", AU_I32, AU_F32, 1},
    [SPV_TO_BF16] = {"float_to_bf16", AU_I32, AU_F32, 1},
    [SPV_FMA_ONCE] = {"fma_once", AU_F32, AU_F32, 3},
    [SPV_SUM] = {"sum", AU_F32, AU_F32, 2},
    [SPV_MAX] = {"larger", AU_F32, AU_F32, 2},
    [SPV_MAXNAN] = {"larger_or_nan", AU_F32, AU_F32, 2},
};

static SpvId body(const Help *h, SpvHelper which)
{
    switch (which) {
    case SPV_FLOOR_DIV: return floor_quotient(h, AU_I32);
    case SPV_FLOOR_MOD: return floor_rest(h, AU_I32);
    case SPV_FLOOR_DIV_LONG: return floor_quotient(h, AU_I64);
    case SPV_FLOOR_MOD_LONG: return floor_rest(h, AU_I64);
    case SPV_TO_I32: return saturated(h, AU_I32);
    case SPV_TO_I64: return saturated(h, AU_I64);
    case SPV_FROM_F16: return from_f16(h);
    case SPV_TO_F16: return to_f16(h);
    case SPV_TO_BF16: return to_bf16(h);
    case SPV_FMA_ONCE: return fma_once(h);
    case SPV_SUM: return spirv_exactly(h->m, SPV_FAdd, h->a, h->b);
    case SPV_MAX: return spirv_extreme(h->m, AU_K_MAX, AU_F32, h->a, h->b);
    case SPV_MAXNAN: return spirv_extreme(h->m, AU_K_MAXNAN, AU_F32, h->a, h->b);
    case SPV_HELPER_COUNT: break;
    }
    return 0;
}

static void define(SpvModule *m, SpvHelper which)
{
    const struct Row *row = &rows[which];
    SpvFunction mine = {.label = 0}, *outside = m->f;
    SpvId types[4] = {spirv_scalar(m, row->result)}, parameters[3] = {0};
    for (uint32_t n = 0; n < row->count; n++) types[1 + n] = spirv_scalar(m, row->parameter);
    const SpvId signature = spirv_type(m, SPV_TypeFunction, types, 1u + row->count);
    m->helpers[which] = spirv_id(m);
    spirv_name(m, m->helpers[which], row->name);
    m->f = &mine;
    spirv_do(m, SPV_Function, SPV_WORDS(types[0], m->helpers[which], 0, signature));
    for (uint32_t n = 0; n < row->count; n++)
        parameters[n] = spirv_make(m, SPV_FunctionParameter, types[1], NULL, 0);
    spirv_label(m, spirv_id(m));
    const Help h = {.m = m,
                    .a = parameters[0],
                    .b = parameters[1],
                    .c = parameters[2],
                    .i = spirv_scalar(m, AU_I32),
                    .f = spirv_scalar(m, AU_F32),
                    .t = spirv_scalar(m, AU_I1)};
    const SpvId result = body(&h, which);
    spirv_do(m, SPV_ReturnValue, &result, 1);
    spirv_do(m, SPV_FunctionEnd, NULL, 0);
    m->f = outside;
    spirv_append(m, SPV_FUNCTIONS, &mine.body);
}

SpvId spirv_helper(SpvModule *m, SpvHelper which)
{
    if (!m->helpers[which]) define(m, which);
    return m->helpers[which];
}

SpvId spirv_help(SpvModule *m, SpvHelper which, const SpvId *operands)
{
    const struct Row *row = &rows[which];
    uint32_t words[4];
    words[0] = spirv_helper(m, which);
    for (uint32_t n = 0; n < row->count; n++) words[1 + n] = operands[n];
    return spirv_make(m, SPV_FunctionCall, spirv_scalar(m, row->result), words, 1u + row->count);
}
