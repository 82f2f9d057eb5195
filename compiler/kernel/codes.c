/* codes.c - expands conversions of numbers of 8 bits into arithmetic, without branches, in vectors as well as in scalars.
 *
 * Every code is right, NaN and denormals among them. Targets may flush denormals of f32, so none is ever made: where a code's exponent
 * is 0, its mantissa is put behind a one and the one is subtracted. */
#include "internal.h"

#include <math.h>

typedef struct Codes {
    AuKernel *k;
    uint8_t width;
} Codes;

/* E4M3 and E5M2: bits of the mantissa; bias of f32 less that of the code; the codes from which on there are no numbers. */
typedef struct Small {
    int32_t mantissa, bias, infinite, nan;
    double smallest, largest; /* normal numbers */
} Small;

static Small small_of(AuKOp op)
{
    const Small e4m3 = {3, 120, 0x7f, 0x7f, 0x1p-6, 448},
                e5m2 = {2, 112, 0x7c, 0x7d, 0x1p-14, 57344};
    return op == AU_K_FROM_E4M3 || op == AU_K_TO_E4M3 ? e4m3 : e5m2;
}

static AuVal number(const Codes *m, double value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_F32, m->width}, .number = (float)value};
    return kernel_append(m->k, in, NULL, 0);
}

static AuVal whole(const Codes *m, int32_t value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_I32, m->width}, .imm = value};
    return kernel_append(m->k, in, NULL, 0);
}

static AuVal two(const Codes *m, AuKOp op, AuVal a, AuVal b) { return kernel_op2(m->k, op, a, b); }
static AuVal with(const Codes *m, AuKOp op, AuVal a, int32_t b)
{
    return two(m, op, a, whole(m, b));
}
static AuVal bits(const Codes *m, AuVal a) { return kernel_bitcast(m->k, a, AU_I32); }
static AuVal real(const Codes *m, AuVal a) { return kernel_bitcast(m->k, a, AU_F32); }

static AuVal choose(const Codes *m, AuVal c, AuVal a, AuVal b)
{
    return kernel_op3(m->k, AU_K_SELECT, c, a, b);
}

/* 2^23 + 128 + value, whose low bits are the code with its sign turned. */
static AuVal from_i8(const Codes *m, AuVal code)
{
    const AuVal turned = with(m, AU_K_XOR, kernel_cvt(m->k, code, AU_I32), 0x4b000080);
    return two(m, AU_K_SUB, real(m, turned), number(m, 8388608.0 + 128));
}

/* The same of 4 bits. */
static AuVal from_half(const Codes *m, AuVal byte, bool upper)
{
    AuVal code = kernel_cvt(m->k, byte, AU_I32);
    code = upper ? with(m, AU_K_USHR, code, 4) : with(m, AU_K_AND, code, 15);
    return two(m, AU_K_SUB, real(m, with(m, AU_K_XOR, code, 0x4b000008)), number(m, 8388608.0 + 8));
}

static AuVal from_small(const Codes *m, const Small *s, AuVal code)
{
    const AuVal word = kernel_cvt(m->k, code, AU_I32), size = with(m, AU_K_AND, word, 0x7f),
                sign = with(m, AU_K_SHL, with(m, AU_K_AND, word, 0x80), 24),
                moved = with(m, AU_K_SHL, size, 23 - s->mantissa);
    const AuVal normal = with(m, AU_K_ADD, moved, s->bias << 23);
    /* an exponent of 0: one behind the smallest normal number's, less that number */
    const AuVal smallest = number(m, s->smallest);
    const AuVal denormal =
        bits(m, two(m, AU_K_SUB, real(m, two(m, AU_K_OR, moved, bits(m, smallest))), smallest));
    const AuVal none = with(m, AU_K_OR, moved, 0x7f800000); /* infinity, or NaN by the mantissa */
    AuVal value = choose(m, with(m, AU_K_LT, size, 1 << s->mantissa), denormal, normal);
    value = choose(m, two(m, AU_K_LT, size, whole(m, s->infinite)), value, none);
    return real(m, two(m, AU_K_OR, value, sign));
}

/* The low bits of 1.5 * 2^23 + 128 + a, less 128. An integer's operation is the last one: of a sum whose low byte alone is stored ptxas 13.0
 * makes a conversion of its value, which is 255 for all. */
static AuVal to_i8(const Codes *m, AuVal a)
{
    const AuVal low = number(m, -128), high = number(m, 127);
    AuVal v = choose(m, two(m, AU_K_EQ, a, a), a, number(m, 0));
    v = choose(m, two(m, AU_K_LT, low, v), v, low);
    v = choose(m, two(m, AU_K_LT, v, high), v, high);
    const AuVal sum = bits(m, two(m, AU_K_ADD, v, number(m, 12582912.0 + 128)));
    return kernel_cvt(m->k, with(m, AU_K_AND, with(m, AU_K_SUB, sum, 128), 0xff), AU_U8);
}

static AuVal to_small(const Codes *m, const Small *s, AuVal a)
{
    const int32_t drop = 23 - s->mantissa;
    const AuVal is_number = two(m, AU_K_EQ, a, a), size = kernel_op1(m->k, AU_K_ABS, a),
                largest = number(m, s->largest),
                held = choose(m, two(m, AU_K_LT, size, largest), size, largest),
                word = bits(m, held);
    const AuVal odd = with(m, AU_K_AND, with(m, AU_K_USHR, word, drop), 1);
    const AuVal rounded = two(m, AU_K_ADD, with(m, AU_K_ADD, word, (1 << (drop - 1)) - 1), odd);
    const AuVal normal =
        with(m, AU_K_SUB, with(m, AU_K_USHR, rounded, drop), s->bias << s->mantissa);
    /* a number whose last place is the smallest code: the sum's low bits are the rounded code */
    const AuVal grid = number(m, s->smallest * exp2(23 - s->mantissa));
    const AuVal denormal = two(m, AU_K_SUB, bits(m, two(m, AU_K_ADD, held, grid)), bits(m, grid));
    AuVal code = choose(m, two(m, AU_K_LT, held, number(m, s->smallest)), denormal, normal);
    const AuVal sign = with(m, AU_K_AND, with(m, AU_K_USHR, bits(m, a), 24), 0x80);
    code = choose(m, is_number, two(m, AU_K_OR, code, sign), whole(m, 0x7f));
    return kernel_cvt(m->k, code, AU_U8);
}

static AuTileElem elem_of(AuKOp op)
{
    if (op == AU_K_FROM_I8 || op == AU_K_TO_I8 || op == AU_K_FROM_I4 || op == AU_K_FROM_I4_HIGH)
        return TILE_I8;
    return op == AU_K_FROM_E4M3 || op == AU_K_TO_E4M3 ? TILE_E4M3 : TILE_E5M2;
}

static AuVal expand(const Codes *m, AuKOp op, AuVal a)
{
    const Small s = small_of(op);
    switch ((int)op) {
    case AU_K_FROM_I8: return from_i8(m, a);
    case AU_K_FROM_I4: return from_half(m, a, false);
    case AU_K_FROM_I4_HIGH: return from_half(m, a, true);
    case AU_K_FROM_E4M3:
    case AU_K_FROM_E5M2: return from_small(m, &s, a);
    case AU_K_TO_I8: return to_i8(m, a);
    case AU_K_TO_E4M3:
    case AU_K_TO_E5M2: return to_small(m, &s, a);
    }
    return (AuVal){0};
}

typedef struct Native {
    uint32_t from, to; /* sets of types */
} Native;

static AuVal visit(AuKernel *k, AuVal v, void *user)
{
    const AuInstr in = *kernel_at(k, v);
    const Native *native = user;
    const uint32_t known = kernel_op_info(in.op)->rule == AU_R_DECODE ? native->from : native->to;
    if (!(kernel_op_info(in.op)->flags & AU_KF_CODE) || known >> elem_of(in.op) & 1 ||
        k->instr_count > KERNEL_MOST)
        return v;
    const Codes m = {k, kernel_at(k, kernel_operand(k, &in, 0))->type.width};
    const uint32_t before = k->instr_count;
    const AuVal value = expand(&m, in.op, kernel_operand(k, &in, 0));
    for (uint32_t i = before; i < k->instr_count; i++) k->instrs[i].span = in.span;
    if (value.i >= before) k->instrs[value.i].text = in.text;
    return value;
}

void kernel_legalize_codes(AuKernel *k, uint32_t from, uint32_t to)
{
    Native native = {from, to};
    kernel_rewrite(k, visit, &native);
}

static bool has_codes(const AuKernel *k, uint32_t first)
{
    for (uint32_t i = first; i; i = k->instrs[i].next) {
        const AuInstr *in = &k->instrs[i];
        if (kernel_op_info(in->op)->flags & AU_KF_CODE || has_codes(k, in->body) ||
            has_codes(k, in->other))
            return true;
    }
    return false;
}

bool kernel_has_codes(const AuKernel *k) { return has_codes(k, k->body); }
