/* The expansions of mathematical functions against the C library in double: every argument of a
 * sweep through all bit patterns of floats, and the values where functions have edges. Set
 * AULE_TEST_STRIDE for a finer sweep (prime; 1009 takes seconds). */
#include "kernel_test.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 256 };

static bool nothing_is_native(AuKOp op)
{
    (void)op;
    return false;
}

static bool has_functions(const AuKernel *k)
{
    for (uint32_t i = k->body; i; i = k->instrs[i].next)
        if (kernel_op_info(k->instrs[i].op)->flags & AU_KF_MATH) return true;
    return false;
}

/* [coarse]: as in kernels whose products are of 16-bit operands. */
static AuKernel *kernel_of(Bench *b, AuKOp op, bool coarse)
{
    AuKernel *k = kernel_new(b->arena, "math", LANES, 1);
    const bool two = kernel_op_info(op)->count == 2;
    const AuMem x = kernel_tensor(k, "x", AU_F32, true, false, 0, 0),
                y = kernel_tensor(k, "y", AU_F32, true, false, 0, 1);
    const AuMem out = kernel_tensor(k, "out", AU_F32, false, true, 0, 2);
    const AuVal base = kernel_op2(k, AU_K_MUL, kernel_block(k, 0), kernel_i32(k, LANES));
    const AuVal i = kernel_op2(k, AU_K_ADD, base, kernel_lane(k)), none = {0};
    const AuVal a = kernel_load(k, x, i, 1, none, none),
                c = two ? kernel_load(k, y, i, 1, none, none) : none;
    kernel_store(k, out, i, two ? kernel_op2(k, op, a, c) : kernel_op1(k, op, a), none);
    if (coarse) kernel_coarsen_math(k);
    kernel_legalize_math(k, nothing_is_native);
    assert_true(kernel_verify(k, b->diags) && !has_functions(k));
    return k;
}

static double reference(AuKOp op, double x, double y)
{
    switch ((int)op) {
    case AU_K_RSQRT: return 1 / sqrt(x);
    case AU_K_EXP: return exp(x);
    case AU_K_EXP2: return exp2(x);
    case AU_K_EXPM1: return expm1(x);
    case AU_K_LOG: return log(x);
    case AU_K_LOG2: return log2(x);
    case AU_K_LOG1P: return log1p(x);
    case AU_K_POW: return pow(x, y);
    case AU_K_TANH: return tanh(x);
    case AU_K_SIGMOID: return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case AU_K_SOFTPLUS: return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
    case AU_K_ERF: return erf(x);
    case AU_K_SIN: return sin(x);
    case AU_K_COS: return cos(x);
    }
    return NAN;
}

/* In units of the last place of the rounded result; huge where one is NaN or infinite and the other
 * is not. */
static double ulps(float got, double wanted, double tiny)
{
    if (isnan(wanted) || isnan(got)) return isnan(wanted) && isnan(got) ? 0 : 1e9;
    if (isinf(got) && (float)wanted == got) return 0;
    if (isinf(got) || isinf((float)wanted))
        return fabs(wanted) > 3.4028234e38 && fabsf(got) > 3.402822e38f ? 1 : 1e9;
    if (fabs(wanted) < tiny && got == 0) return 0;
    int exponent;
    frexp(wanted == 0 ? 0x1p-126 : wanted, &exponent);
    if (exponent < -125) exponent = -125;
    return fabs((double)got - wanted) / ldexp(1, exponent - 24);
}

static void run_kernel(Bench *b, AuKernel *k, float *x, float *y, float *out, uint32_t count)
{
    AuKBuffer buffers[3] = {{x, count, true}, {y, count, true}, {out, count, false}};
    const uint64_t slots[3] = {0};
    const AuKRun r = {
        .slots = slots, .buffers = buffers, .grid = {count / LANES, 1, 1}, .lockstep = true};
    const char *why;
    if (!kernel_run(k, &r, b->arena, &why)) fail_msg("%s", why);
}

static void run(Bench *b, AuKOp op, float *x, float *y, float *out, uint32_t count)
{
    run_kernel(b, kernel_of(b, op, false), x, y, out, count);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct Bound {
    AuKOp op;
    double ulps, tiny, largest;
} Bound;

static const Bound bounds[] = {
    {AU_K_EXP, 2, 0x1p-125, INFINITY},
    {AU_K_EXP2, 2, 0x1p-126, INFINITY},
    {AU_K_LOG, 2, 0, INFINITY},
    {AU_K_LOG2, 2, 0, INFINITY},
    {AU_K_RSQRT, 4, 0, INFINITY},
    {AU_K_EXPM1, 4, 0, INFINITY},
    {AU_K_LOG1P, 4, 0x1p-126, INFINITY},
    {AU_K_TANH, 4, 0x1p-126, INFINITY},
    {AU_K_SIGMOID, 4, 0x1p-126, INFINITY},
    {AU_K_SOFTPLUS, 4, 0x1p-125, INFINITY},
    {AU_K_ERF, 4, 0x1p-126, INFINITY},
    {AU_K_SIN, 4, 0x1p-126, 1e5},
    {AU_K_COS, 4, 0x1p-126, 1e5},
};

static uint32_t stride(void)
{
    const char *given = getenv("AULE_TEST_STRIDE");
    return given ? (uint32_t)strtoul(given, NULL, 10) : 100003;
}

static void sweeps_stay_within_bounds(void **state)
{
    (void)state;
    const uint32_t step = stride(),
                   count = (uint32_t)((0x100000000 / step + LANES - 1) / LANES * LANES);
    for (size_t n = 0; n < sizeof bounds / sizeof *bounds; n++) {
        const Bound *bound = &bounds[n];
        Bench b = bench_new();
        float *x = AU_NEW_ARRAY(b.arena, float, count), *out = AU_NEW_ARRAY(b.arena, float, count);
        double worst = 0;
        float where = 0;
        for (uint32_t i = 0; i < count; i++) x[i] = float_of(i * step + (uint32_t)n);
        run(&b, bound->op, x, x, out, count);
        for (uint32_t i = 0; i < count; i++) {
            if (fabs((double)x[i]) > bound->largest) { /* finite, where x is; no more is promised */
                assert_true(isfinite(out[i]) || !isfinite(x[i]));
                continue;
            }
            const double error = ulps(out[i], reference(bound->op, (double)x[i], 0), bound->tiny);
            if (error > worst) worst = error, where = x[i];
        }
        if (getenv("AULE_TEST_STRIDE"))
            print_message("%s: %.3f ulp at %.9g\n", kernel_op_info(bound->op)->text, worst,
                          (double)where);
        if (worst > bound->ulps)
            fail_msg("%s: %.3f ulp at %.9g", kernel_op_info(bound->op)->text, worst, (double)where);
        bench_free(&b);
    }
}

/* In kernels of 16-bit operands, where NaN, infinities and zeros are as elsewhere. */
static void coarse_functions_stay_within_bounds(void **state)
{
    (void)state;
    static const struct {
        AuKOp op;
        double grows; /* of the power of two, whose argument is rounded */
    } cases[] = {{AU_K_TANH, 0}, {AU_K_SIGMOID, 2}};
    static const float edges[] = {NAN, INFINITY, -INFINITY, 0.35f, -0.35f, 0x1.666664p-2f, 1e-30f};
    const uint32_t step = stride(),
                   count = (uint32_t)((0x100000000 / step + LANES - 1) / LANES * LANES);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Bench b = bench_new();
        float *x = AU_NEW_ARRAY(b.arena, float, count), *out = AU_NEW_ARRAY(b.arena, float, count);
        for (uint32_t i = 0; i < count; i++) x[i] = float_of(i * step + (uint32_t)n);
        memcpy(x, edges, sizeof edges);
        run_kernel(&b, kernel_of(&b, cases[n].op, true), x, x, out, count);
        for (uint32_t i = 0; i < count; i++)
            if (ulps(out[i], reference(cases[n].op, (double)x[i], 0), 0x1p-125) >
                8 + (isfinite(x[i]) ? cases[n].grows * fabs((double)x[i]) : 0))
                fail_msg("%s(%.9g) is %.9g", kernel_op_info(cases[n].op)->text, (double)x[i],
                         (double)out[i]);
        bench_free(&b);
    }
}

/* x / by by a product, but where the reciprocal is no normal number: 1e-40 and 2e38 stay divisions. */
static void divisions_by_constants_are_products(void **state)
{
    (void)state;
    static const struct {
        float by;
        bool stays;
    } cases[] = {{50, false}, {-3, false}, {8, false}, {1e-40f, true}, {2e38f, true}, {0, true}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Bench b = bench_new();
        float x[LANES], out[LANES];
        for (int l = 0; l < LANES; l++) x[l] = ldexpf(1 + (float)l / 200, l % 40 - 20);
        AuKernel *k = kernel_new(b.arena, "quotient", LANES, 1);
        const AuMem from = kernel_tensor(k, "x", AU_F32, true, false, 0, 0),
                    y = kernel_tensor(k, "y", AU_F32, true, false, 0, 1),
                    to = kernel_tensor(k, "out", AU_F32, false, true, 0, 2);
        const AuVal none = {0}, i = kernel_lane(k), v = kernel_load(k, from, i, 1, none, none);
        (void)y;
        kernel_store(k, to, i, kernel_op2(k, AU_K_DIV, v, kernel_f32(k, cases[n].by)), none);
        kernel_coarsen_math(k);
        assert_true(kernel_verify(k, b.diags));
        bool divides = false;
        for (uint32_t at = k->body; at; at = k->instrs[at].next)
            divides |= k->instrs[at].op == AU_K_DIV;
        assert_int_equal(divides, cases[n].stays);
        run_kernel(&b, k, x, x, out, LANES);
        for (int l = 0; l < LANES; l++)
            if (ulps(out[l], (double)x[l] / (double)cases[n].by, 0) > 2)
                fail_msg("%g / %g is %g", (double)x[l], (double)cases[n].by, (double)out[l]);
        bench_free(&b);
    }
}

static float value_of(AuKOp op, float a, float c)
{
    Bench b = bench_new();
    float x[LANES], y[LANES], out[LANES];
    for (int l = 0; l < LANES; l++) x[l] = a, y[l] = c;
    run(&b, op, x, y, out, LANES);
    bench_free(&b);
    return out[7];
}

static void edges_are_exact(void **state)
{
    (void)state;
    static const struct {
        AuKOp op;
        float x, y;
    } edges[] = {
        {AU_K_EXP, 0, 1},
        {AU_K_EXP, -0.0f, 1},
        {AU_K_EXP, -INFINITY, 0},
        {AU_K_EXP, INFINITY, INFINITY},
        {AU_K_EXP, 88.8f, INFINITY},
        {AU_K_EXP, -200, 0},
        {AU_K_EXP2, 0, 1},
        {AU_K_EXP2, -126, 0x1p-126f},
        {AU_K_EXP2, 127, 0x1p127f},
        {AU_K_EXP2, 128, INFINITY},
        {AU_K_EXP2, -INFINITY, 0},
        {AU_K_EXP2, INFINITY, INFINITY},
        {AU_K_EXPM1, 0, 0},
        {AU_K_EXPM1, -0.0f, -0.0f},
        {AU_K_EXPM1, -INFINITY, -1},
        {AU_K_EXPM1, INFINITY, INFINITY},
        {AU_K_LOG, 1, 0},
        {AU_K_LOG, 0, -INFINITY},
        {AU_K_LOG, -0.0f, -INFINITY},
        {AU_K_LOG, INFINITY, INFINITY},
        {AU_K_LOG2, 0x1p-149f, -149},
        {AU_K_LOG2, 0x1p-126f, -126},
        {AU_K_LOG2, 0x1p127f, 127},
        {AU_K_LOG2, 1, 0},
        {AU_K_LOG2, 0, -INFINITY},
        {AU_K_LOG1P, 0, 0},
        {AU_K_LOG1P, -0.0f, -0.0f},
        {AU_K_LOG1P, -1, -INFINITY},
        {AU_K_LOG1P, INFINITY, INFINITY},
        {AU_K_TANH, INFINITY, 1},
        {AU_K_TANH, -INFINITY, -1},
        {AU_K_TANH, -0.0f, -0.0f},
        {AU_K_SIGMOID, 0, 0.5f},
        {AU_K_SIGMOID, INFINITY, 1},
        {AU_K_SIGMOID, -INFINITY, 0},
        {AU_K_SOFTPLUS, INFINITY, INFINITY},
        {AU_K_SOFTPLUS, -INFINITY, 0},
        {AU_K_ERF, INFINITY, 1},
        {AU_K_ERF, -INFINITY, -1},
        {AU_K_ERF, -0.0f, -0.0f},
        {AU_K_SIN, -0.0f, -0.0f},
        {AU_K_SIN, 0, 0},
        {AU_K_COS, 0, 1},
        {AU_K_RSQRT, 0, INFINITY},
        {AU_K_RSQRT, INFINITY, 0},
        {AU_K_RSQRT, 4, 0.5f},
    };
    for (size_t n = 0; n < sizeof edges / sizeof *edges; n++) {
        const float got = value_of(edges[n].op, edges[n].x, 0);
        if (memcmp(&got, &edges[n].y, sizeof got) != 0)
            fail_msg("%s(%g) is %g, not %g", kernel_op_info(edges[n].op)->text, (double)edges[n].x,
                     (double)got, (double)edges[n].y);
    }
    for (size_t n = 0; n < sizeof bounds / sizeof *bounds; n++)
        assert_true(isnan(value_of(bounds[n].op, NAN, 0)));
    for (int e = -126; e < 128; e++) assert_true(value_of(AU_K_EXP2, (float)e, 0) == ldexpf(1, e));
    for (int e = -149; e < 128; e++) assert_true(value_of(AU_K_LOG2, ldexpf(1, e), 0) == (float)e);
    assert_true(isnan(value_of(AU_K_LOG, -1, 0)) && isnan(value_of(AU_K_LOG2, -INFINITY, 0)) &&
                isnan(value_of(AU_K_LOG1P, -2, 0)));
    assert_true(isnan(value_of(AU_K_SIN, INFINITY, 0)) && isnan(value_of(AU_K_RSQRT, -1, 0)));
}

/* Pairs that make finite powers, and all pairs of edges. */
static void powers_stay_within_bounds(void **state)
{
    (void)state;
    static const float special[] = {0,        -0.0f,  1,     -1,       2,         -2,    0.5f,
                                    -0.5f,    3,      -3,    1.5f,     -2.5f,     1e10f, -1e10f,
                                    16777218, 1e-40f, 3e38f, INFINITY, -INFINITY, NAN};
    enum { SPECIAL = sizeof special / sizeof *special, COUNT = 1 << 18 };
    Bench b = bench_new();
    float *x = AU_NEW_ARRAY(b.arena, float, COUNT), *y = AU_NEW_ARRAY(b.arena, float, COUNT),
          *out = AU_NEW_ARRAY(b.arena, float, COUNT);
    uint32_t random = 7;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i < SPECIAL * SPECIAL) {
            x[i] = special[i % SPECIAL], y[i] = special[i / SPECIAL];
            continue;
        }
        random = random * 1664525 + 1013904223;
        x[i] = i % 3 ? float_of((random >> 8) + 0x3f000000 + (i % 2 ? 0 : 0x800000))
                     : float_of(random & 0x7fffffff);
        random = random * 1664525 + 1013904223;
        const double size =
            128 * ((double)random * 0x1p-31 - 1) / (fabs(log2((double)x[i])) + 1e-3);
        y[i] = (float)size;
        if (i % 7 == 0) y[i] = rintf(y[i]), x[i] = -x[i];
    }
    run(&b, AU_K_POW, x, y, out, COUNT);
    double worst = 0;
    uint32_t where = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const double error = ulps(out[i], pow((double)x[i], (double)y[i]), 0x1p-125);
        if (error > worst) worst = error, where = i;
    }
    if (worst > 4)
        fail_msg("pow: %.3f ulp at %.9g, %.9g: %.9g", worst, (double)x[where], (double)y[where],
                 (double)out[where]);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps_stay_within_bounds),
        cmocka_unit_test(coarse_functions_stay_within_bounds),
        cmocka_unit_test(divisions_by_constants_are_products),
        cmocka_unit_test(edges_are_exact),
        cmocka_unit_test(powers_stay_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
