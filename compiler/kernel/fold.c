/* fold.c - types of results, and what an operation with known operands comes to.
 * Exact: a fold gives the very bits that the operation would give, signs of zero and infinities
 * included (NaN is NaN). Used where instructions are made (build.c) and again when their operands
 * have changed (simplify.c). */
#include "internal.h"

#include <string.h>

bool kernel_same_type(AuKType a, AuKType b) { return a.scalar == b.scalar && a.width == b.width; }

static bool is_const(const AuKernel *k, AuVal v) { return kernel_at(k, v)->op == AU_K_CONST; }

uint64_t kernel_const_bits(const AuInstr *in)
{
    uint32_t bits;
    switch ((AuScalar)in->type.scalar) {
    case AU_F32: memcpy(&bits, &in->number, sizeof bits); return bits;
    case AU_F16: return kernel_to_f16(in->number);
    case AU_BF16: return kernel_to_bf16(in->number);
    case AU_I1: return in->imm & 1;
    case AU_U8: return (uint8_t)in->imm;
    case AU_I32: return (uint32_t)in->imm;
    case AU_I64: return (uint64_t)in->imm;
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return 0;
}

AuInstr kernel_const_of(AuKType type, uint64_t bits)
{
    AuInstr in = {.op = AU_K_CONST, .type = type};
    const uint32_t low = (uint32_t)bits;
    float value;
    switch ((AuScalar)type.scalar) {
    case AU_F32:
        memcpy(&value, &low, sizeof value);
        in.number = value;
        break;
    case AU_F16: in.number = kernel_from_f16((uint16_t)bits); break;
    case AU_BF16: in.number = kernel_from_bf16((uint16_t)bits); break;
    case AU_I1: in.imm = bits & 1; break;
    case AU_U8: in.imm = (uint8_t)bits; break;
    case AU_I32: in.imm = (int32_t)low; break;
    case AU_I64: in.imm = (int64_t)bits; break;
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return in;
}

/* ---- types */

static AuKType type_by_rule(AuKRule rule, AuKType said, const AuKType *of)
{
    switch (rule) {
    case AU_R_SAME:
    case AU_R_FLOAT:
    case AU_R_INT:
    case AU_R_LOGIC: return of[0];
    case AU_R_CMP: return (AuKType){AU_I1, of[0].width};
    case AU_R_SELECT: return of[1];
    case AU_R_DECODE: return (AuKType){AU_F32, of[0].width};
    case AU_R_ENCODE: return (AuKType){AU_U8, of[0].width};
    case AU_R_CVT:
    case AU_R_CORE: return said;
    }
    return said;
}

AuKType kernel_type_of(const AuKernel *k, const AuInstr *in, const AuVal *operands)
{
    AuKType of[3] = {{0}};
    const AuKOpInfo *info = kernel_op_info(in->op);
    for (uint32_t n = 0; n < 3 && n < info->count; n++) of[n] = kernel_at(k, operands[n])->type;
    if (info->rule != AU_R_CORE) return type_by_rule(info->rule, in->type, of);
    switch ((int)in->op) {
    case AU_K_ARG:
        if ((uint64_t)in->imm >= k->arg_count) return in->type;
        switch (k->args[in->imm].kind) {
        case AU_ARG_I32: return (AuKType){AU_I32, 1};
        case AU_ARG_I64: return (AuKType){AU_I64, 1};
        case AU_ARG_F32: return (AuKType){AU_F32, 1};
        case AU_ARG_POINTER: return in->type;
        }
        return in->type;
    case AU_K_BLOCK:
    case AU_K_BLOCKS:
    case AU_K_WARP:
    case AU_K_LANE:
    case AU_K_FOR:
    case AU_K_MATRIX_ROW:
    case AU_K_MATRIX_COLUMN:
    case AU_K_ATOMIC_INC: return (AuKType){AU_I32, 1};
    case AU_K_MATRIX_GET: return (AuKType){AU_F32, 1};
    case AU_K_MATRIX_ANY:
    case AU_K_ELECT: return (AuKType){AU_I1, 1};
    case AU_K_ELEMENT: return (AuKType){of[0].scalar, 1};
    case AU_K_BOTH: return (AuKType){of[0].scalar, (uint8_t)(2 * of[0].width)};
    case AU_K_DOT2:
    case AU_K_MMA:
    case AU_K_SHUFFLE_XOR:
    case AU_K_SHUFFLE:
    case AU_K_ANY: return of[0];
    }
    return in->type;
}

/* ---- folds */

static AuFold to_value(AuVal v) { return (AuFold){.value = v}; }
static AuFold to_const(AuKType type, uint64_t bits)
{
    return (AuFold){.instr = kernel_const_of(type, bits)};
}
static AuFold nothing(void) { return (AuFold){.value = {0}}; }

static AuFold to_op(AuKOp op, AuKType type, AuVal a, AuVal b)
{
    return (AuFold){
        .instr = {.op = (uint8_t)op, .type = type}, .operands = {a, b}, .count = b.i ? 2 : 1};
}

static bool equals(const AuKernel *k, AuVal v, uint64_t bits)
{
    return is_const(k, v) && kernel_const_bits(kernel_at(k, v)) == bits;
}

static bool is_number(const AuKernel *k, AuVal v, double number)
{
    const AuInstr *in = kernel_at(k, v);
    return in->op == AU_K_CONST && (double)in->number == number &&
           !__builtin_signbit(in->number) == !__builtin_signbit(number);
}

/* x * 1, x / 1, x + -0, x - 0: the identities that hold for every float. */
static AuFold fold_float(const AuKernel *k, const AuInstr *in, AuVal a, AuVal b)
{
    switch ((int)in->op) {
    case AU_K_MUL:
        if (is_number(k, b, 1)) return to_value(a);
        if (is_number(k, a, 1)) return to_value(b);
        return nothing();
    case AU_K_DIV: return is_number(k, b, 1) ? to_value(a) : nothing();
    case AU_K_ADD:
        if (is_number(k, b, -0.0)) return to_value(a);
        if (is_number(k, a, -0.0)) return to_value(b);
        return nothing();
    case AU_K_SUB: return is_number(k, b, 0) ? to_value(a) : nothing();
    case AU_K_MIN:
    case AU_K_MAX: return a.i == b.i ? to_value(a) : nothing();
    }
    return nothing();
}

static AuFold fold_int(const AuKernel *k, const AuInstr *in, AuVal a, AuVal b)
{
    const AuKType t = in->type;
    const uint64_t ones = t.scalar == AU_I32 ? UINT32_MAX : UINT64_MAX;
    switch ((int)in->op) {
    case AU_K_ADD:
    case AU_K_OR:
    case AU_K_XOR:
        if (equals(k, b, 0)) return to_value(a);
        if (equals(k, a, 0)) return to_value(b);
        if (a.i == b.i && in->op == AU_K_XOR) return to_const(t, 0);
        return a.i == b.i && in->op == AU_K_OR ? to_value(a) : nothing();
    case AU_K_SUB:
        if (a.i == b.i) return to_const(t, 0);
        return equals(k, b, 0)   ? to_value(a)
               : equals(k, a, 0) ? to_op(AU_K_NEG, t, b, (AuVal){0})
                                 : nothing();
    case AU_K_SHL:
    case AU_K_SHR:
    case AU_K_USHR:
        return equals(k, b, 0) ? to_value(a) : equals(k, a, 0) ? to_value(a) : nothing();
    case AU_K_MUL:
    case AU_K_AND:
        if (equals(k, b, 0)) return to_value(b);
        if (equals(k, a, 0)) return to_value(a);
        if (in->op == AU_K_AND)
            return equals(k, b, ones) || a.i == b.i ? to_value(a)
                   : equals(k, a, ones)             ? to_value(b)
                                                    : nothing();
        return equals(k, b, 1) ? to_value(a) : equals(k, a, 1) ? to_value(b) : nothing();
    case AU_K_IDIV: return equals(k, b, 1) ? to_value(a) : nothing();
    case AU_K_IMOD: return equals(k, b, 1) ? to_const(t, 0) : nothing();
    case AU_K_MIN:
    case AU_K_MAX: return a.i == b.i ? to_value(a) : nothing();
    }
    return nothing();
}

static AuFold fold_logic(const AuKernel *k, const AuInstr *in, AuVal a, AuVal b)
{
    const uint64_t keeps = in->op == AU_K_LAND; /* the value that changes nothing */
    if (in->op == AU_K_LNOT) {
        const AuInstr *inner = kernel_at(k, a);
        return inner->op == AU_K_LNOT ? to_value(kernel_operand(k, inner, 0)) : nothing();
    }
    if (a.i == b.i) return to_value(a);
    if (is_const(k, a)) return to_value(equals(k, a, keeps) ? b : a);
    if (is_const(k, b)) return to_value(equals(k, b, keeps) ? a : b);
    return nothing();
}

static AuFold fold_select(const AuKernel *k, AuVal c, AuVal a, AuVal b)
{
    if (a.i == b.i) return to_value(a);
    return is_const(k, c) ? to_value(kernel_at(k, c)->imm & 1 ? a : b) : nothing();
}

static AuFold fold_core(const AuKernel *k, const AuInstr *in, const AuVal *operands)
{
    if (in->op == AU_K_ELEMENT) {
        const AuInstr *vector = kernel_at(k, operands[0]);
        if (vector->op == AU_K_VEC && (uint64_t)in->imm < vector->count)
            return to_value(kernel_operand(k, vector, (uint32_t)in->imm));
        if (vector->op == AU_K_CONST) return to_const(in->type, kernel_const_bits(vector));
        if (vector->type.width == 1 && in->imm == 0) return to_value(operands[0]);
    }
    if (in->op == AU_K_VEC && in->type.width == 1) return to_value(operands[0]);
    if (in->op == AU_K_SLICE && kernel_same_type(in->type, kernel_at(k, operands[0])->type))
        return to_value(operands[0]);
    if ((in->op == AU_K_SHUFFLE_XOR || in->op == AU_K_SHUFFLE || in->op == AU_K_ANY) &&
        is_const(k, operands[0]))
        return to_value(operands[0]);
    return nothing();
}

/* Operands must have the number and types that the rule asks for: a wrong program is left for the
 * verifier to see. */
static bool is_well_typed(const AuKernel *k, const AuInstr *in, const AuVal *operands)
{
    const AuKOpInfo *info = kernel_op_info(in->op);
    const AuKType first = kernel_at(k, operands[0])->type;
    const uint32_t from = info->rule == AU_R_SELECT ? 1 : 0;
    if (from && first.scalar != AU_I1) return false;
    for (uint32_t n = 0; n < info->count; n++) {
        if (!operands[n].i || kernel_at(k, operands[n])->type.scalar == AU_VOID) return false;
        if (n > from &&
            !kernel_same_type(kernel_at(k, operands[n])->type, kernel_at(k, operands[from])->type))
            return false;
    }
    return first.width == in->type.width;
}

AuFold kernel_fold(const AuKernel *k, const AuInstr *in, const AuVal *operands)
{
    const AuKOpInfo *info = kernel_op_info(in->op);
    if (info->rule == AU_R_CORE) return fold_core(k, in, operands);
    if (!is_well_typed(k, in, operands)) return nothing();
    const AuVal a = operands[0], b = info->count > 1 ? operands[1] : a,
                c = info->count > 2 ? operands[2] : a;
    if (is_const(k, a) && is_const(k, b) && is_const(k, c)) {
        const AuScalar of = kernel_at(k, info->rule == AU_R_SELECT ? b : a)->type.scalar;
        return to_const(in->type, kernel_evaluate(in->op, of, in->type.scalar,
                                                  kernel_const_bits(kernel_at(k, a)),
                                                  kernel_const_bits(kernel_at(k, b)),
                                                  kernel_const_bits(kernel_at(k, c))));
    }
    if (in->op == AU_K_SELECT) return fold_select(k, a, b, c);
    if (in->op == AU_K_CVT || in->op == AU_K_BITCAST)
        return kernel_same_type(kernel_at(k, a)->type, in->type) ? to_value(a) : nothing();
    if (info->flags & AU_KF_CODE) return nothing();
    switch ((AuScalar)kernel_at(k, a)->type.scalar) {
    case AU_F32: return fold_float(k, in, a, b);
    case AU_I32:
    case AU_I64: return fold_int(k, in, a, b);
    case AU_I1: return info->rule == AU_R_LOGIC ? fold_logic(k, in, a, b) : nothing();
    case AU_VOID:
    case AU_F16:
    case AU_BF16:
    case AU_U8:
    case AU_SCALARS: break;
    }
    return nothing();
}
