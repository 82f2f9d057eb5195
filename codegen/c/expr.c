/* expr.c - expressions: operations as patterns of the dialect, parentheses where C or its readers need them.
 * Integers are `int` and `long`. What computes with bits (high products, unsigned shifts, constants that only wrapping makes
 * sense of, and all that follows from these) is held in the unsigned types, where C lets arithmetic wrap around. */
#include "internal.h"

#include <string.h>

/* Operators between two operands. An operand that binds looser than [least] gets parentheses, but the left one may be of the
 * same operator. [least] is stricter than C asks for where readers (and clang's -Wparentheses) would stumble. */
static const struct Operator {
    const char *text;
    uint8_t binding, least;
} operators[] = {
    {"*", C_PRODUCT, C_UNARY}, {"/", C_PRODUCT, C_UNARY}, {"%", C_PRODUCT, C_UNARY},
    {"+", C_SUM, C_PRODUCT},   {"-", C_SUM, C_PRODUCT},   {"<<", C_SHIFT, C_UNARY},
    {">>", C_SHIFT, C_UNARY},  {"<=", C_RELATION, C_SUM}, {"<", C_RELATION, C_SUM},
    {"==", C_EQUALITY, C_SUM}, {"!=", C_EQUALITY, C_SUM}, {"&&", C_AND, C_EQUALITY},
    {"&", C_BIT_AND, C_UNARY}, {"^", C_BIT_XOR, C_UNARY}, {"||", C_OR, C_EQUALITY},
    {"|", C_BIT_OR, C_UNARY},
};

bool cprint_is_eight(const AuCPrinter *p, AuKType type)
{
    return p->dialect->eight && type.width == 8 && kernel_scalar_bytes(type.scalar) == 2;
}

bool cprint_has_type(const AuCPrinter *p, AuKType type)
{
    return !p->dialect->widest || type.width <= p->dialect->widest || cprint_is_eight(p, type);
}

const char *cprint_type(const AuCPrinter *p, AuKType type, bool is_unsigned)
{
    const AuCDialect *d = p->dialect;
    if (cprint_is_eight(p, type)) return d->eight;
    if (type.width == 1) return (is_unsigned ? d->unsigneds : d->scalars)[type.scalar];
    const AuScalar scalar = type.scalar == AU_I1 && !d->has_bools ? AU_I32 : (AuScalar)type.scalar;
    return au_format(p->arena, "%s%u", (is_unsigned ? d->unsigneds : d->scalars)[scalar],
                     type.width);
}

const char *cprint_within(AuCPrinter *p, AuCExpr e, AuCBinding least)
{
    return e.binding >= least ? e.text : au_format(p->arena, "(%s)", e.text);
}

/* ---- patterns */

static const struct Operator *operator_at(const char *text)
{
    for (size_t n = 0; n < sizeof operators / sizeof *operators; n++)
        if (strncmp(operators[n].text, text, strlen(operators[n].text)) == 0) return &operators[n];
    return NULL;
}

/* How tightly the whole of a pattern binds, and with [operand] not NULL how tightly an operand of it must. */
static AuCBinding binding_of(const char *pattern, uint32_t which, AuCExpr operand, uint8_t *least)
{
    uint8_t unused;
    if (!least) least = &unused;
    *least = C_TERNARY;
    if (pattern[0] == '%' && pattern[2] == ' ') {
        if (pattern[3] == '?') {
            *least = which == 2 ? C_TERNARY : C_OR;
            return C_TERNARY;
        }
        const struct Operator *op = operator_at(pattern + 3);
        const bool leans = which == 0 && operand.binding == op->binding;
        *least = leans ? op->binding : op->least;
        return op->binding;
    }
    if (*pattern == '-' || *pattern == '!' || *pattern == '(') {
        /* Two signs in a row would be a decrement. */
        const bool twice = *pattern == '-' && operand.text && *operand.text == '-';
        *least = twice ? C_PRIMARY : C_UNARY;
        return C_UNARY;
    }
    return strstr(pattern, ") ? ") ? C_TERNARY : C_PRIMARY;
}

AuCExpr cprint_expand(AuCPrinter *p, const char *pattern, AuKType type, const AuCExpr *operands)
{
    AuText text = {.arena = p->arena};
    const AuCExpr none = {0};
    for (const char *c = pattern; *c; c++) {
        if (*c != '%' || c[1] == ' ') {
            au_text_bytes(&text, c, 1);
            continue;
        }
        c++;
        if (*c == 't') {
            au_text_add(&text, "%s", cprint_type(p, type, false));
        } else if (*c == 'i') {
            au_text_add(&text, "%lld", (long long)p->expanded->imm);
        } else if (*c == 'n' || *c == 'w') {
            if (type.width > 1) au_text_add(&text, *c == 'w' ? "_%u" : "%u", type.width);
        } else {
            const uint32_t which = (uint32_t)(*c - '0');
            uint8_t least;
            binding_of(pattern, which, operands[which], &least);
            au_text_add(&text, "%s", cprint_within(p, operands[which], least));
        }
    }
    return (AuCExpr){.text = au_text_str(&text),
                     .binding = (uint8_t)binding_of(pattern, 0, none, NULL)};
}

/* ---- constants */

static const char *integer_text(AuCPrinter *p, AuScalar scalar, int64_t value, bool is_unsigned)
{
    const char *suffix = scalar == AU_I64 ? "L" : "";
    const uint64_t bits = scalar == AU_I64 ? (uint64_t)value : (uint32_t)value;
    if (is_unsigned)
        return au_format(p->arena, bits > 9999 ? "0x%llxu%s" : "%lluu%s", (unsigned long long)bits,
                         suffix);
    /* The negation of what does not fit: C has no literal for the least integer. */
    if (value == INT64_MIN) return "LONG_MIN";
    if (scalar == AU_I32 && value == INT32_MIN) return "INT_MIN";
    return au_format(p->arena, "%lld%s", (long long)value, suffix);
}

static const char *float_text(AuCPrinter *p, double number)
{
    const float value = (float)number;
    if (value != value) return "NAN";
    if (value - value != 0) return value > 0 ? "INFINITY" : "-INFINITY";
    AuText text = {.arena = p->arena};
    au_text_float(&text, value);
    au_text_add(&text, "f");
    return au_text_str(&text);
}

AuCExpr cprint_constant(AuCPrinter *p, const AuInstr *in, bool is_unsigned)
{
    AuCExpr e = {0};
    if (cprint_is_eight(p, in->type)) {
        const float value = in->number;
        const uint32_t bits =
            in->type.scalar == AU_F16 ? kernel_to_f16(value) : kernel_to_bf16(value);
        e.text = au_format(p->arena, "%s(0x%xu)", p->dialect->eight, bits * 0x10001u);
        e.binding = C_PRIMARY;
        return e;
    }
    switch ((AuScalar)in->type.scalar) {
    case AU_I1:
        if (in->type.width > 1 && !p->dialect->has_bools)
            e.text = in->imm & 1 ? "-1" : "0";
        else
            e.text = in->imm & 1 ? "true" : "false";
        break;
    case AU_I32:
    case AU_I64:
    case AU_U8:
        e.text = integer_text(p, in->type.scalar, in->imm, is_unsigned);
        e.is_unsigned = is_unsigned;
        break;
    case AU_F32: e.text = float_text(p, in->number); break;
    case AU_F16:
    case AU_BF16: {
        const float value = in->number;
        const bool half = in->type.scalar == AU_F16;
        if (half && p->dialect->half) {
            e.text = au_format(p->arena, p->dialect->half, float_text(p, in->number));
            break;
        }
        e.text = au_format(p->arena, "0x%04x", half ? kernel_to_f16(value) : kernel_to_bf16(value));
        e.wide = e.unrounded = float_text(p, in->number);
        e.wide_binding = C_UNARY;
        break;
    }
    case AU_VOID:
    case AU_SCALARS: break;
    }
    e.binding = *e.text == '-' ? C_UNARY : C_PRIMARY;
    if (in->type.width == 1) return e;
    const char *type = cprint_type(p, in->type, is_unsigned);
    e.text = au_format(p->arena, p->dialect->vector, type, e.text);
    e.binding = *e.text == '(' ? C_UNARY : C_PRIMARY;
    e.wide = e.unrounded = NULL;
    return e;
}

/* ---- operands */

AuCExpr cprint_take(AuCPrinter *p, const AuInstr *in, uint32_t n)
{
    AuCValue *v = &p->values[kernel_operand(p->k, in, n).i];
    if (v->pending) {
        v->pending = false;
        p->reading |= v->reads;
    }
    return v->expr;
}

static bool is_integer(AuKType type) { return type.scalar == AU_I32 || type.scalar == AU_I64; }

AuCExpr cprint_as(AuCPrinter *p, AuCExpr e, AuKType type, bool is_unsigned)
{
    if (e.is_unsigned == is_unsigned || !is_integer(type)) return e;
    return (AuCExpr){.text = au_format(p->arena, p->dialect->reinterpret,
                                       cprint_type(p, type, is_unsigned), e.text),
                     .binding = C_PRIMARY,
                     .is_unsigned = is_unsigned};
}

static AuCExpr take_as(AuCPrinter *p, const AuInstr *in, uint32_t n, bool is_unsigned)
{
    const AuInstr *operand = kernel_at(p->k, kernel_operand(p->k, in, n));
    if (operand->op == AU_K_CONST && is_integer(operand->type))
        return cprint_constant(p, operand, is_unsigned);
    return cprint_as(p, cprint_take(p, in, n), operand->type, is_unsigned);
}

static bool is_large(const AuInstr *in)
{
    const int64_t limit = in->type.scalar == AU_I32 ? 1 << 24 : (int64_t)1 << 40;
    return in->op == AU_K_CONST && (in->imm >= limit || in->imm <= -limit);
}

/* Whether an operation is done in the unsigned type (head of this file): by its kind, an operand, or a constant that no index has. */
static bool computes_bits(const AuCPrinter *p, const AuInstr *in)
{
    const bool arithmetic = in->op == AU_K_ADD || in->op == AU_K_SUB || in->op == AU_K_MUL;
    if (!is_integer(in->type)) return false;
    if (in->op == AU_K_MULHI || in->op == AU_K_USHR) return true;
    if (!arithmetic && in->op != AU_K_NEG && in->op != AU_K_AND && in->op != AU_K_OR &&
        in->op != AU_K_XOR && in->op != AU_K_SHL && in->op != AU_K_SELECT)
        return false;
    for (uint32_t n = 0; n < in->count; n++) {
        const AuVal operand = kernel_operand(p->k, in, n);
        if (p->values[operand.i].expr.is_unsigned) return true;
        if (arithmetic && is_large(kernel_at(p->k, operand))) return true;
    }
    return false;
}

/* ---- operations */

AuCExpr cprint_lacks(AuCPrinter *p, const AuInstr *in)
{
    const char *kernel = p->k->name, *dialect = p->dialect->name;
    const char *operation = kernel_op_info(in->op)->text;
    au_error(p->diags, AU_E0620, in->span, "kernel %s uses '%s', which %s does not have", kernel,
             operation, dialect);
    p->good = false;
    return (AuCExpr){.text = "0", .binding = C_PRIMARY};
}

/* A list of the operands, each as it is, as a float, or before its rounding. NULL if one has no such text. */
static const char *elements(AuCPrinter *p, const AuInstr *in, const AuCExpr *of, char which)
{
    AuText text = {.arena = p->arena};
    for (uint32_t n = 0; n < in->count; n++) {
        const char *one = which == 'w' ? of[n].wide : which == 'u' ? of[n].unrounded : of[n].text;
        if (!one) return NULL;
        au_text_add(&text, n ? ", %s" : "%s", one);
    }
    return au_text_str(&text);
}

/* A pair of 16 bits is an element of what stands for eight. */
static AuCExpr eight_of(AuCPrinter *p, const AuInstr *in)
{
    const AuKType two = {in->type.scalar, 2};
    AuText text = {.arena = p->arena};
    for (uint32_t n = 0; n < in->count; n += 2) {
        const char *a = cprint_take(p, in, n).text, *b = cprint_take(p, in, n + 1).text;
        const char *pair = au_format(p->arena, p->dialect->vector, cprint_type(p, two, false),
                                     au_format(p->arena, "%s, %s", a, b));
        au_text_add(&text, n ? ", " : "");
        au_text_add(&text, p->dialect->reinterpret, "uint", pair);
    }
    return (AuCExpr){
        .text = au_format(p->arena, p->dialect->vector, p->dialect->eight, au_text_str(&text)),
        .binding = C_PRIMARY};
}

static AuCExpr element_of_eight(AuCPrinter *p, const AuInstr *in)
{
    const AuKType two = {in->type.scalar, 2};
    const char *format = p->dialect->element;
    const uint32_t which = (uint32_t)in->imm;
    const AuCExpr all = cprint_take(p, in, 0);
    const char *pair =
        au_format(p->arena, p->dialect->reinterpret, cprint_type(p, two, false),
                  au_format(p->arena, format, cprint_within(p, all, C_PRIMARY), which / 2));
    return (AuCExpr){.text = au_format(p->arena, format, pair, which % 2), .binding = C_PRIMARY};
}

static AuCExpr vector_of(AuCPrinter *p, const AuInstr *in)
{
    if (cprint_is_eight(p, in->type)) return eight_of(p, in);
    const AuKType type = in->type, floats = {AU_F32, type.width};
    const char *make = p->dialect->vector;
    AuCExpr of[16];
    if (type.width == 1) return cprint_take(p, in, 0);
    for (uint32_t n = 0; n < in->count; n++) {
        of[n] = take_as(p, in, n, false);
        if (type.scalar == AU_I1 && !p->dialect->has_bools)
            of[n].text = au_format(p->arena, "-%s", cprint_within(p, of[n], C_UNARY));
    }
    AuCExpr e = {
        .text = au_format(p->arena, make, cprint_type(p, type, false), elements(p, in, of, 0))};
    e.binding = e.wide_binding = *e.text == '(' ? C_UNARY : C_PRIMARY;
    const char *wide = elements(p, in, of, 'w'), *unrounded = elements(p, in, of, 'u');
    if (wide) e.wide = au_format(p->arena, make, cprint_type(p, floats, false), wide);
    if (unrounded)
        e.unrounded = au_format(p->arena, make, cprint_type(p, floats, false), unrounded);
    return e;
}

static AuCExpr element_of(AuCPrinter *p, const AuInstr *in)
{
    if (cprint_is_eight(p, kernel_at(p->k, kernel_operand(p->k, in, 0))->type))
        return element_of_eight(p, in);
    const AuCExpr vector = cprint_take(p, in, 0);
    const char *format = p->dialect->element;
    const uint32_t which = (uint32_t)in->imm;
    if (kernel_at(p->k, kernel_operand(p->k, in, 0))->type.width == 1) return vector;
    AuCExpr e = {
        .is_unsigned = vector.is_unsigned, .binding = C_PRIMARY, .wide_binding = C_PRIMARY};
    e.text = au_format(p->arena, format, cprint_within(p, vector, C_PRIMARY), which);
    if (vector.wide) {
        const AuCExpr wide = {.text = vector.wide, .binding = vector.wide_binding};
        e.wide = au_format(p->arena, format, cprint_within(p, wide, C_PRIMARY), which);
    }
    if (in->type.scalar != AU_I1 || p->dialect->has_bools) return e;
    e.text = au_format(p->arena, "%s != 0", e.text);
    e.binding = C_EQUALITY;
    return e;
}

static AuCExpr conversion(AuCPrinter *p, const AuInstr *in)
{
    const AuKType of = kernel_at(p->k, kernel_operand(p->k, in, 0))->type;
    const AuCExpr a = take_as(p, in, 0, false);
    const bool narrow = in->type.scalar == AU_F16 || in->type.scalar == AU_BF16;
    if (of.scalar == in->type.scalar) return a;
    if (cprint_is_eight(p, of) || cprint_is_eight(p, in->type)) return cprint_lacks(p, in);
    if (in->type.scalar == AU_F32 && a.wide)
        return (AuCExpr){.text = a.wide, .binding = a.wide_binding};
    const char *pattern = p->dialect->pattern(p, in->op, of, in->type);
    if (!pattern) return cprint_lacks(p, in);
    AuCExpr e = cprint_expand(p, pattern, in->type, &a);
    if (narrow) e.unrounded = a.text;
    return e;
}

/* Floor division and remainder by a power of two are a shift and a mask. NULL pattern: not such a case. */
static AuCExpr by_power_of_two(AuCPrinter *p, const AuInstr *in)
{
    const AuInstr *divisor = kernel_at(p->k, kernel_operand(p->k, in, 1));
    if (divisor->op != AU_K_CONST || divisor->imm <= 0 || divisor->imm & (divisor->imm - 1))
        return (AuCExpr){0};
    AuInstr right = *divisor;
    const bool mod = in->op == AU_K_IMOD;
    right.imm = mod ? divisor->imm - 1 : __builtin_ctzll((uint64_t)divisor->imm);
    const AuCExpr operands[] = {take_as(p, in, 0, false), cprint_constant(p, &right, false)};
    return cprint_expand(p, mod ? "%0 & %1" : "%0 >> %1", in->type, operands);
}

/* a - b + -c as a - (b + c): of the former within max(.., 0) Intel's OpenCL compiler for processors makes other numbers, of the latter it does not. */
static AuCExpr difference(AuCPrinter *p, const AuInstr *in)
{
    const AuVal first = kernel_operand(p->k, in, 0);
    const AuInstr *sub = kernel_at(p->k, first), *c = kernel_at(p->k, kernel_operand(p->k, in, 1));
    if (in->op != AU_K_ADD || !is_integer(in->type) || in->type.width != 1 || sub->op != AU_K_SUB ||
        c->op != AU_K_CONST || c->imm >= 0 || is_large(c) || !p->values[first.i].pending)
        return (AuCExpr){0};
    AuInstr positive = *c;
    positive.imm = -c->imm;
    const AuCExpr a = take_as(p, sub, 0, false), b = take_as(p, sub, 1, false);
    const AuCExpr parts[] = {b, cprint_constant(p, &positive, false)};
    cprint_take(p, in, 0);
    const AuCExpr sum = cprint_expand(p, "%0 + %1", in->type, parts);
    const AuCExpr both[] = {a, sum};
    return cprint_expand(p, "%0 - %1", in->type, both);
}

AuCExpr cprint_operation(AuCPrinter *p, const AuInstr *in)
{
    AuCExpr e = {0};
    if (kernel_op_info(in->op)->flags & (AU_KF_AGENTS | AU_KF_OPAQUE) || !in->count)
        return cprint_lacks(p, in);
    if (in->op == AU_K_VEC) return vector_of(p, in);
    if (in->op == AU_K_ELEMENT) return element_of(p, in);
    if (in->op == AU_K_CVT) return conversion(p, in);
    if (in->op == AU_K_IDIV || in->op == AU_K_IMOD) e = by_power_of_two(p, in);
    if (in->op == AU_K_ADD) e = difference(p, in);
    if (e.text) return e;

    const AuKType of = kernel_at(p->k, kernel_operand(p->k, in, in->count - 1u))->type;
    if (cprint_is_eight(p, in->type) || cprint_is_eight(p, of)) return cprint_lacks(p, in);
    p->expanded = in;
    const char *pattern = p->dialect->pattern(p, in->op, of, in->type);
    if (!pattern) return cprint_lacks(p, in);
    const bool bits = computes_bits(p, in);
    AuCExpr operands[3] = {{0}};
    for (uint32_t n = 0; n < in->count && n < 3; n++)
        operands[n] = in->op == AU_K_BITCAST ? cprint_take(p, in, n) : take_as(p, in, n, bits);
    if (in->op == AU_K_BITCAST && of.scalar == in->type.scalar) return operands[0];
    e = cprint_expand(p, pattern, in->type, operands);
    e.is_unsigned = bits;
    return e;
}
