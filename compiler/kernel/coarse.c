/* coarse.c - functions of kernels whose products are of 16-bit operands, for targets that compute powers of two themselves.
 *
 * What these functions make is about to be rounded to 8 or 11 bits, so that a few ulp of f32 do. A division by a constant is a product
 * with its reciprocal, two roundings; tanh and sigmoid are a power of two and one division, as in codegen/llvm/gpu_math.c. The same
 * bounds hold as for the target's own division and power of two, near 0 too, where 1 - 2 / (1 + e^2x) would cancel. */
#include "internal.h"

#include <math.h>

typedef struct Coarse {
    AuKernel *k;
    uint8_t width;
} Coarse;

static AuVal number(const Coarse *c, double value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_F32, c->width}, .number = (float)value};
    return kernel_append(c->k, in, NULL, 0);
}

static AuVal product(const Coarse *c, AuVal a, double by)
{
    return kernel_op2(c->k, AU_K_MUL, a, number(c, by));
}

static AuVal fused(const Coarse *c, AuVal a, AuVal b, AuVal to)
{
    return kernel_op3(c->k, AU_K_FMA, a, b, to);
}

/* 1 / (1 + e^(times x)). */
static AuVal logistic(const Coarse *c, AuVal x, double times)
{
    const AuVal one = number(c, 1);
    const AuVal e = kernel_op1(c->k, AU_K_EXP2, product(c, x, times * 0x1.71547652b82fep+0));
    return kernel_op2(c->k, AU_K_DIV, one, kernel_op2(c->k, AU_K_ADD, one, e));
}

/* |x| < 0.35: x + x^3 P(x^2), remainder (tanh x - x) / x^3. NaN takes the other side, which keeps it. */
static AuVal hyperbolic(const Coarse *c, AuVal x)
{
    const AuVal square = kernel_op2(c->k, AU_K_MUL, x, x);
    AuVal sum = fused(c, number(c, -0.0488885008), square, number(c, 0.13296023));
    sum = fused(c, sum, square, number(c, -0.333325446));
    const AuVal small = fused(c, kernel_op2(c->k, AU_K_MUL, sum, square), x, x);
    const AuVal large = fused(c, logistic(c, x, 2), number(c, -2), number(c, 1));
    const AuVal size = kernel_op1(c->k, AU_K_ABS, x);
    return kernel_op3(c->k, AU_K_SELECT, kernel_op2(c->k, AU_K_LT, size, number(c, 0.35)), small,
                      large);
}

/* By a constant whose reciprocal is a normal number, as it is itself. */
static AuVal quotient(const Coarse *c, AuVal x, AuVal by)
{
    const AuInstr *in = kernel_at(c->k, by);
    if (in->op != AU_K_CONST || !isnormal(in->number)) return (AuVal){0};
    const float reciprocal = 1 / (float)in->number;
    return isnormal(reciprocal) ? product(c, x, reciprocal) : (AuVal){0};
}

static AuVal visit(AuKernel *k, AuVal v, void *user)
{
    const AuInstr in = *kernel_at(k, v);
    const Coarse c = {k, in.type.width};
    (void)user;
    if (in.type.scalar != AU_F32 || k->instr_count > KERNEL_MOST) return v;
    const uint32_t before = k->instr_count;
    AuVal value = {0};
    switch ((int)in.op) {
    case AU_K_DIV:
        value = quotient(&c, kernel_operand(k, &in, 0), kernel_operand(k, &in, 1));
        break;
    case AU_K_SIGMOID: value = logistic(&c, kernel_operand(k, &in, 0), -1); break;
    case AU_K_TANH: value = hyperbolic(&c, kernel_operand(k, &in, 0)); break;
    }
    if (!value.i) return v;
    for (uint32_t i = before; i < k->instr_count; i++) k->instrs[i].span = in.span;
    k->instrs[value.i].text = in.text;
    return value;
}

/* All matrices that lie nobody knows how have operands of 16 bits (atoms.def). */
bool kernel_multiplies_halves(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_MATRIX_MUL) return true;
    return false;
}

void kernel_coarsen_math(AuKernel *k) { kernel_rewrite(k, visit, NULL); }
