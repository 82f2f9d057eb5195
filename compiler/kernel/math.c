/* math.c - expands functions that a target lacks into arithmetic, without branches, in vectors as
 * well as in scalars.
 *
 * Method: argument reduction and polynomials in Horner form by FMA. The coefficients are minimax
 * fits of the remainders named in the comments (Lawson's reweighted least squares over Chebyshev
 * points against values of 120 bits, weighted by the error of the final result; each coefficient in
 * turn rounded to f32, lowest power first, and the rest fitted again). Bounds that the tests hold:
 * 2 ulp for exp, exp2, log, log2, 4 ulp for the others. NaN comes out where NaN goes in:
 * comparisons are written so that NaN takes the side that keeps it. The results of exp and pow
 * below 2^-125, and of the others below 2^-126, may be 0. Integers are read out of the mantissa:
 * t = x + 1.5 * 2^23 holds rint(x) in its low bits. */
#include "internal.h"

typedef struct Math {
    AuKernel *k;
    uint8_t width;
} Math;

#define MAGIC      12582912.0 /* 1.5 * 2^23 */
#define LOG2_E     0x1.715476p+0
#define LOG2_E_LOW 0x1.4ae0c0p-26
#define LN_2       0x1.62e430p-1
#define LN_2_LOW   -0x1.05c610p-29

/* ---- words */

static AuVal number(const Math *m, double value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_F32, m->width}, .number = (float)value};
    return kernel_append(m->k, in, NULL, 0);
}

static AuVal whole(const Math *m, int32_t value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_I32, m->width}, .imm = value};
    return kernel_append(m->k, in, NULL, 0);
}

static AuVal add(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_ADD, a, b); }
static AuVal sub(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_SUB, a, b); }
static AuVal mul(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_MUL, a, b); }
static AuVal quotient(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_DIV, a, b); }
static AuVal fused(const Math *m, AuVal a, AuVal b, AuVal c)
{
    return kernel_op3(m->k, AU_K_FMA, a, b, c);
}
static AuVal negative(const Math *m, AuVal a) { return kernel_op1(m->k, AU_K_NEG, a); }
static AuVal magnitude(const Math *m, AuVal a) { return kernel_op1(m->k, AU_K_ABS, a); }
static AuVal less(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_LT, a, b); }
static AuVal equal(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_EQ, a, b); }
static AuVal both(const Math *m, AuVal a, AuVal b) { return kernel_op2(m->k, AU_K_LAND, a, b); }
static AuVal choose(const Math *m, AuVal c, AuVal a, AuVal b)
{
    return kernel_op3(m->k, AU_K_SELECT, c, a, b);
}
static AuVal integer(const Math *m, AuKOp op, AuVal a, AuVal b)
{
    return kernel_op2(m->k, op, a, b);
}
static AuVal bits(const Math *m, AuVal a) { return kernel_bitcast(m->k, a, AU_I32); }
static AuVal from_bits(const Math *m, AuVal a) { return kernel_bitcast(m->k, a, AU_F32); }

/* Between two bounds; NaN stays. On x86 a single maxps and minps each. */
static AuVal at_least(const Math *m, AuVal x, double low)
{
    return choose(m, less(m, x, number(m, low)), number(m, low), x);
}
static AuVal at_most(const Math *m, AuVal x, double high)
{
    return choose(m, less(m, number(m, high), x), number(m, high), x);
}
static AuVal clamped(const Math *m, AuVal x, double low, double high)
{
    return at_most(m, at_least(m, x, low), high);
}

/* Coefficients from the highest power down. */
static AuVal polynomial(const Math *m, AuVal x, const double *c, uint32_t count)
{
    AuVal sum = number(m, c[0]);
    for (uint32_t n = 1; n < count; n++) sum = fused(m, sum, x, number(m, c[n]));
    return sum;
}
#define POLYNOMIAL(m, x, ...)                                                                      \
    polynomial(m, x, (const double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double))

/* The sign of x on a value that is not negative. */
static AuVal with_sign_of(const Math *m, AuVal x, AuVal value)
{
    const AuVal sign = integer(m, AU_K_AND, bits(m, x), whole(m, INT32_MIN));
    return from_bits(m, integer(m, AU_K_OR, bits(m, value), sign));
}

/* 2^(n - bias'): t holds n + field in its low nine bits. */
static AuVal power_in(const Math *m, AuVal t)
{
    return from_bits(m, integer(m, AU_K_SHL, bits(m, t), whole(m, 23)));
}

/* ---- exponentials */

/* x = n ln 2 + r, |r| <= ln 2 / 2. Gives r, and 2^(n - 1), which is 0 from n = -126 down. x must be
 * in -87.4..89.4. */
static AuVal reduce_exp(const Math *m, AuVal x, AuVal *half_scale)
{
    const AuVal magic = number(m, MAGIC + 126);
    const AuVal t = fused(m, x, number(m, LOG2_E), magic);
    const AuVal n = sub(m, t, magic);
    *half_scale = power_in(m, t);
    return fused(m, n, number(m, -LN_2_LOW), fused(m, n, number(m, -LN_2), x));
}

/* Twice e^r (remainder (e^r - 1) / r, in ulps of e^r) times half of 2^n: so neither end of the
 * range needs a test, since the product overflows and vanishes by itself. 13 instructions of a CPU;
 * every e^0 is exactly 1 and e^-inf exactly 0. */
static AuVal exp_within(const Math *m, AuVal x)
{
    AuVal scale;
    const AuVal r = reduce_exp(m, x, &scale);
    const AuVal twice = POLYNOMIAL(m, r, 2 * 0.00826265756, 2 * 0.0418985561, 2 * 0.166681737,
                                   2 * 0.499991447, 2 * 0.999999464, 2);
    return mul(m, twice, scale);
}

static AuVal expand_exp(const Math *m, AuVal x) { return exp_within(m, clamped(m, x, -87.4, 89)); }

/* n = floor(x), 2^x = 2^n 2^r with r in 0..1 (remainder (2^r - 1) / r): powers of two are exact
 * down to 2^-126. */
static AuVal expand_exp2(const Math *m, AuVal x)
{
    x = clamped(m, x, -127, 128);
    const AuVal n = kernel_op1(m->k, AU_K_FLOOR, x), r = sub(m, x, n);
    const AuVal p = POLYNOMIAL(m, r, 0.000215659718, 0.00124822895, 0.00967377517, 0.0554861836,
                               0.240229085, 0.693147063, 1);
    return mul(m, p, power_in(m, add(m, n, number(m, MAGIC + 127))));
}

/* e^x - 1 = 2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2), remainder (e^r - 1 - r) / r^2. x: -87..89. */
static AuVal expm1_within(const Math *m, AuVal x)
{
    AuVal scale;
    const AuVal r = reduce_exp(m, x, &scale);
    const AuVal tail =
        POLYNOMIAL(m, r, 0.00138706574, 0.00836626161, 0.0416674353, 0.166665465, 0.49999997);
    const AuVal small = fused(m, mul(m, r, r), tail, r);
    const AuVal half = fused(m, scale, small, sub(m, scale, number(m, 0.5)));
    return add(m, half, half);
}

static AuVal zero_stays(const Math *m, AuVal x, AuVal value)
{
    return choose(m, equal(m, x, number(m, 0)), x, value);
}

static AuVal expand_expm1(const Math *m, AuVal x)
{
    return zero_stays(m, x, expm1_within(m, clamped(m, x, -18, 89)));
}

/* (e^2x - 1) / (e^2x + 1). */
static AuVal expand_tanh(const Math *m, AuVal x)
{
    const AuVal a = at_most(m, magnitude(m, x), 10);
    const AuVal e = expm1_within(m, add(m, a, a));
    return with_sign_of(m, x, quotient(m, e, add(m, e, number(m, 2))));
}

static AuVal expand_sigmoid(const Math *m, AuVal x)
{
    const AuVal one = number(m, 1);
    return quotient(m, one, add(m, one, expand_exp(m, negative(m, x))));
}

/* ---- logarithms */

/* x = 2^e (1 + f) with 1 + f in sqrt(1/2)..sqrt(2), for normal positive x. */
static AuVal split(const Math *m, AuVal x, AuVal *e)
{
    const AuVal i = bits(m, x);
    *e = integer(m, AU_K_SHR, integer(m, AU_K_SUB, i, whole(m, 0x3f3504f3)), whole(m, 23));
    const AuVal mantissa =
        from_bits(m, integer(m, AU_K_SUB, i, integer(m, AU_K_SHL, *e, whole(m, 23))));
    return sub(m, mantissa, number(m, 1));
}

/* The same for denormals too; e as f32. */
static AuVal split_any(const Math *m, AuVal x, AuVal *e)
{
    AuVal exponent;
    const AuVal tiny = less(m, x, number(m, 0x1p-126));
    const AuVal f = split(m, choose(m, tiny, mul(m, x, number(m, 0x1p23)), x), &exponent);
    *e = add(m, kernel_cvt(m->k, exponent, AU_F32), choose(m, tiny, number(m, -23), number(m, 0)));
    return f;
}

/* What the logarithm is where x is not positive and finite. */
static AuVal log_edges(const Math *m, AuVal x, AuVal value)
{
    const AuVal inside = choose(m, less(m, x, number(m, __builtin_inf())), value, x);
    const AuVal outside = choose(m, equal(m, x, number(m, 0)), number(m, -__builtin_inf()),
                                 number(m, __builtin_nan("")));
    return choose(m, less(m, number(m, 0), x), inside, outside);
}

/* e ln 2 + log(1 + f); remainder (log(1 + f) - f) / f^2. ln 2 to 15 bits, so that its product with
 * e is exact. */
static AuVal log_of(const Math *m, AuVal e, AuVal f)
{
    const AuVal tail = POLYNOMIAL(m, f, 0.0873879194, -0.143077239, 0.149163559, -0.165703133,
                                  0.199622393, -0.250017762, 0.333339453, -0.499999911);
    const AuVal low = fused(m, mul(m, f, f), tail, mul(m, e, number(m, -2.9088971132296138e-05)));
    return fused(m, e, number(m, 0.69317626953125), add(m, f, low));
}

static AuVal expand_log(const Math *m, AuVal x)
{
    AuVal e;
    const AuVal f = split_any(m, x, &e);
    return log_edges(m, x, log_of(m, e, f));
}

/* e + f log2(e) + ..., remainder (log2(1 + f) - f log2(e)) / f^2: powers of two are exact. */
static AuVal expand_log2(const Math *m, AuVal x)
{
    AuVal e;
    const AuVal f = split_any(m, x, &e);
    const AuVal tail = POLYNOMIAL(m, f, 0.126070917, -0.206426844, 0.215203598, -0.239057913,
                                  0.287993431, -0.360699415, 0.480907202, -0.721347392);
    const AuVal low = fused(m, f, number(m, LOG2_E_LOW), mul(m, mul(m, f, f), tail));
    return log_edges(m, x, add(m, e, fused(m, f, number(m, LOG2_E), low)));
}

/* log(u) with u = 1 + x rounded; what the rounding lost is put back into f. */
static AuVal log1p_within(const Math *m, AuVal x, AuVal u)
{
    AuVal e;
    const AuVal lost = sub(m, x, sub(m, u, number(m, 1)));
    const AuVal f = split(m, u, &e);
    const AuVal low = integer(m, AU_K_SHL, integer(m, AU_K_MIN, e, whole(m, 126)), whole(m, 23));
    const AuVal scale = from_bits(m, integer(m, AU_K_SUB, whole(m, 0x3f800000), low));
    return log_of(m, kernel_cvt(m->k, e, AU_F32), fused(m, lost, scale, f));
}

static AuVal expand_log1p(const Math *m, AuVal x)
{
    const AuVal u = add(m, x, number(m, 1));
    return zero_stays(m, x, log_edges(m, u, log1p_within(m, x, u)));
}

/* max(x, 0) + log(1 + e^-|x|). */
static AuVal expand_softplus(const Math *m, AuVal x)
{
    const AuVal e = expand_exp(m, negative(m, magnitude(m, x)));
    const AuVal positive = choose(m, less(m, number(m, 0), x), x, number(m, 0));
    return add(m, positive, log1p_within(m, e, add(m, e, number(m, 1))));
}

/* ---- powers */

static AuVal expand_rsqrt(const Math *m, AuVal x)
{
    return quotient(m, number(m, 1), kernel_op1(m->k, AU_K_SQRT, x));
}

/* log2 of a positive normal or denormal x as a sum of two floats, to about 2^-32: log(1 + f) = 2
 * artanh(s), s = f / (2 + f); remainder (2 artanh(s) - 2 s) / s^3. */
static AuVal log2_twice(const Math *m, AuVal x, AuVal *low)
{
    AuVal e;
    const AuVal one = number(m, 1), f = split_any(m, x, &e), mantissa = add(m, f, one);
    const AuVal d = add(m, mantissa, one), d_low = sub(m, mantissa, sub(m, d, one));
    const AuVal s = quotient(m, f, d), back = negative(m, s);
    const AuVal s_low = quotient(m, fused(m, back, d_low, fused(m, back, d, f)), d);
    const AuVal s2 = mul(m, s, s);
    const AuVal tail = POLYNOMIAL(m, s2, 0.242792219, 0.284987867, 0.400009722, 0.666666627);
    const AuVal a = add(m, s, s), twice = add(m, s_low, s_low);
    const AuVal a_low = fused(m, mul(m, s, s2), tail, fused(m, twice, s2, twice));
    const AuVal scale = number(m, LOG2_E), h = mul(m, a, scale);
    const AuVal exact = fused(m, a, scale, negative(m, h));
    const AuVal l = fused(m, a_low, scale, fused(m, a, number(m, LOG2_E_LOW), exact));
    const AuVal rough = add(m, e, h), rest = add(m, sub(m, h, sub(m, rough, e)), l);
    const AuVal high = add(m, rough, rest);
    *low = sub(m, rest, sub(m, high, rough));
    return high;
}

/* 2^(high + low), remainder (2^r - 1) / r on -1/2..1/2. */
static AuVal exp2_twice(const Math *m, AuVal high, AuVal low)
{
    const AuVal magic = number(m, MAGIC + 126);
    const AuVal y = clamped(m, high, -126, 129), t = add(m, y, magic);
    const AuVal r = add(m, sub(m, y, sub(m, t, magic)), clamped(m, low, -0.25, 0.25));
    const AuVal twice = POLYNOMIAL(m, r, 2 * 0.000153267814, 2 * 0.00133910251, 2 * 0.00961850584,
                                   2 * 0.0555035956, 2 * 0.240226477, 2 * 0.693147182, 2);
    return mul(m, twice, power_in(m, t));
}

/* C's pow: of |a|, then the sign for odd b, then the edges. */
static AuVal expand_pow(const Math *m, AuVal a, AuVal b)
{
    AuVal low;
    const AuVal zero = number(m, 0), one = number(m, 1), inf = number(m, __builtin_inf()),
                nan = number(m, __builtin_nan(""));
    const AuVal x = magnitude(m, a), high = log2_twice(m, x, &low),
                finite = clamped(m, b, -0x1p100, 0x1p100);
    const AuVal y = mul(m, finite, high);
    const AuVal y_low = fused(m, finite, low, fused(m, finite, high, negative(m, y)));
    const AuVal inside = exp2_twice(m, y, y_low);
    /* 0 and infinity */
    const AuVal is_zero = equal(m, x, zero), falls = less(m, b, zero);
    const AuVal edge = choose(m, equal(m, is_zero, falls), inf, zero);
    const AuVal size =
        choose(m, kernel_op2(m->k, AU_K_LOR, is_zero, equal(m, x, inf)), edge, inside);
    /* negative a */
    const AuVal half = mul(m, b, number(m, 0.5));
    const AuVal is_whole = equal(m, kernel_op1(m->k, AU_K_FLOOR, b), b);
    const AuVal is_odd =
        both(m, is_whole, kernel_op2(m->k, AU_K_NE, kernel_op1(m->k, AU_K_FLOOR, half), half));
    const AuVal value = choose(m, is_odd, with_sign_of(m, a, size), size);
    const AuVal refused =
        both(m, both(m, less(m, a, zero), less(m, number(m, -__builtin_inf()), a)),
             kernel_op1(m->k, AU_K_LNOT, is_whole));
    const AuVal known = both(m, equal(m, a, a), equal(m, b, b));
    const AuVal real = choose(m, both(m, known, kernel_op1(m->k, AU_K_LNOT, refused)), value, nan);
    return choose(m, kernel_op2(m->k, AU_K_LOR, equal(m, b, zero), equal(m, a, one)), one, real);
}

/* ---- others */

/* |x| < 0.92: x + x Q(x^2). Else 1 - e^(x G(x)), where x G(x) = log(1 - erf(x)). */
static AuVal expand_erf(const Math *m, AuVal x)
{
    const AuVal a = at_most(m, magnitude(m, x), 4), x2 = mul(m, x, x);
    const AuVal q = POLYNOMIAL(m, x2, -0.00059595838, 0.00498735253, -0.0267629661, 0.11281731,
                               -0.376124889, 0.128379151);
    const AuVal g = POLYNOMIAL(m, a, -1.12319112e-05, 0.000322812703, -0.00364250597, 0.0237621833,
                               -0.106237039, -0.635151207, -1.12864852);
    const AuVal large = sub(m, number(m, 1), exp_within(m, mul(m, a, g)));
    return choose(m, less(m, a, number(m, 0.92)), fused(m, x, q, x), with_sign_of(m, x, large));
}

/* Quadrants: x = n pi/2 + r by Cody and Waite with pi/2 in three parts, exact enough to 1e5.
 * Beyond, r is held so that the result is finite. sin: remainder (sin r - r) / r^3; cos: (cos r - 1
 * + r^2/2) / r^4. [ahead] quadrants are added: 1 makes a cosine. */
static AuVal expand_circle(const Math *m, AuVal x, int32_t ahead)
{
    const AuVal magic = number(m, MAGIC);
    const AuVal t = fused(m, x, number(m, 0x1.45f306p-1), magic), n = sub(m, t, magic);
    AuVal r = fused(m, n, number(m, -0x1.921fb6p+0), x);
    r = fused(m, n, number(m, 0x1.777a5cp-25), r);
    r = fused(m, n, number(m, 0x1.ee59dap-50), r);
    r = clamped(m, r, -0.8, 0.8);
    const AuVal r2 = mul(m, r, r), quadrant = integer(m, AU_K_ADD, bits(m, t), whole(m, ahead));
    const AuVal s = POLYNOMIAL(m, r2, -0.000195078828, 0.00833210628, -0.166666538);
    const AuVal c = POLYNOMIAL(m, r2, 2.44300863e-05, -0.00138872978, 0.0416666456);
    const AuVal sine = fused(m, mul(m, r, r2), s, r);
    const AuVal cosine = fused(m, mul(m, r2, r2), c, fused(m, r2, number(m, -0.5), number(m, 1)));
    const AuVal odd =
        kernel_op2(m->k, AU_K_NE, integer(m, AU_K_AND, quadrant, whole(m, 1)), whole(m, 0));
    const AuVal sign =
        integer(m, AU_K_SHL, integer(m, AU_K_AND, quadrant, whole(m, 2)), whole(m, 30));
    return from_bits(m, integer(m, AU_K_XOR, bits(m, choose(m, odd, cosine, sine)), sign));
}

static AuVal expand(const Math *m, AuKOp op, AuVal a, AuVal b)
{
    switch ((int)op) {
    case AU_K_RSQRT: return expand_rsqrt(m, a);
    case AU_K_EXP: return expand_exp(m, a);
    case AU_K_EXP2: return expand_exp2(m, a);
    case AU_K_EXPM1: return expand_expm1(m, a);
    case AU_K_LOG: return expand_log(m, a);
    case AU_K_LOG2: return expand_log2(m, a);
    case AU_K_LOG1P: return expand_log1p(m, a);
    case AU_K_POW: return expand_pow(m, a, b);
    case AU_K_TANH: return expand_tanh(m, a);
    case AU_K_SIGMOID: return expand_sigmoid(m, a);
    case AU_K_SOFTPLUS: return expand_softplus(m, a);
    case AU_K_ERF: return expand_erf(m, a);
    case AU_K_SIN: return zero_stays(m, a, expand_circle(m, a, 0));
    case AU_K_COS: return expand_circle(m, a, 1);
    }
    return (AuVal){0};
}

typedef struct Legalize {
    bool (*native)(AuKOp op);
} Legalize;

static AuVal visit(AuKernel *k, AuVal v, void *user)
{
    const AuInstr in = *kernel_at(k, v);
    const Legalize *l = user;
    if (!(kernel_op_info(in.op)->flags & AU_KF_MATH) || l->native(in.op) ||
        k->instr_count > KERNEL_MOST)
        return v;
    const Math m = {k, in.type.width};
    const AuVal a = kernel_operand(k, &in, 0), b = in.count > 1 ? kernel_operand(k, &in, 1) : a;
    const uint32_t before = k->instr_count;
    const AuVal value = expand(&m, in.op, a, b);
    if (!value.i) return v;
    for (uint32_t i = before; i < k->instr_count; i++) k->instrs[i].span = in.span;
    if (value.i >= before) k->instrs[value.i].text = in.text;
    return value;
}

void kernel_legalize_math(AuKernel *k, bool (*native)(AuKOp op))
{
    Legalize l = {native};
    kernel_rewrite(k, visit, &l);
}
