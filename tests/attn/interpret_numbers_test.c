/* interpret_numbers_test.c - numbers of the oracle: integers, dropout's, rounding, what is computed in lower precision. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "meaning.h"
#include "random.h"
#include "round.h"

static double operation(AuOp op, AuType type, double x, double y)
{
    return attn_eval_op(op, type, x, y, 0);
}

static void test_integers(void **state)
{
    (void)state;
    const AuType i = AU_T_I32, f = AU_T_F32;
    assert_true(operation(AU_OP_IDIV, i, -1, 4) == -1 && operation(AU_OP_IDIV, i, 7, -2) == -4 &&
                operation(AU_OP_IDIV, i, -8, 4) == -2);
    assert_true(operation(AU_OP_MOD, i, -1, 4) == 3 && operation(AU_OP_MOD, i, 7, -2) == -1 &&
                operation(AU_OP_MOD, i, -8, 4) == 0);
    assert_true(operation(AU_OP_MOD, f, -0.5, 2) == 1.5);
    assert_true(operation(AU_OP_ADD, i, INT32_MAX, 1) == INT32_MIN &&
                operation(AU_OP_MUL, i, 65536, 65537) == 65536);
    assert_true(operation(AU_OP_MUL, i, INT32_MAX, INT32_MAX) == 1 &&
                operation(AU_OP_NEG, i, INT32_MIN, 0) == INT32_MIN);
    assert_true(operation(AU_OP_SHL, i, 1, 31) == INT32_MIN &&
                operation(AU_OP_SHR, i, -5, 1) == -3 && operation(AU_OP_SHL, i, 3, 33) == 6);
    assert_true(operation(AU_OP_BAND, i, -1, 12) == 12 && operation(AU_OP_BNOT, i, 0, 0) == -1 &&
                operation(AU_OP_BXOR, i, -1, 1) == -2);
    assert_true(operation(AU_OP_TO_I32, i, -2.9, 0) == -2 &&
                operation(AU_OP_TO_I32, i, 1e20, 0) == INT32_MAX);
    assert_true(operation(AU_OP_TO_I32, i, (double)NAN, 0) == 0);
    assert_true(operation(AU_OP_MAX, f, (double)NAN, 1) == 1 &&
                operation(AU_OP_MIN, f, 1, (double)NAN) == 1);
    expect_near(operation(AU_OP_LOGADDEXP, f, 1000, 1000), 1000 + log(2), 1e-15);
    assert_true(operation(AU_OP_LOGADDEXP, f, -INFINITY, -INFINITY) == -INFINITY);
    expect_near(operation(AU_OP_SOFTPLUS, f, 800, 0), 800, 1e-15);
}

/* The vectors that the authors of Philox publish, and the convention of a pair. */
static void test_dropout_numbers(void **state)
{
    (void)state;
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0xa4093822, 0x299f31d0, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        attn_philox(vectors[i], vectors[i] + 2, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
    assert_true(attn_dropout_uniform(vectors[2], 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344) ==
                0xd16cfe / 16777216.0);
}

/* A share of about the rate is dropped, differently with each seed, and the rest is scaled up. */
static void test_dropout(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c =
        case_softmax(&b, "param rate: f32 = 0.3\ninput seed: i64[]",
                     "weight_mod = dropout($p, rate, seed_word(0, seed[]), seed_word(1, seed[]))",
                     "B=1 H=2 Hk=1 S=40 T=50 D=2 E=2");
    Case *plain = case_softmax(&b, "", "", "B=1 H=2 Hk=1 S=40 T=50 D=2 E=2");
    case_run(&b, plain);
    size_t dropped[2] = {0}, differ = 0;
    double *first = AU_NEW_ARRAY(b.arena, double, 4000);
    for (int s = 0; s < 2; s++) {
        case_tensor(c, "seed")[0] = 4294967296.0 * s;
        c->call.key_tile = s ? 7 : 0;
        case_run(&b, c);
        for (size_t i = 0; i < 4000; i++) {
            dropped[s] += c->weights[i] == 0;
            if (c->weights[i] != 0) expect_near(c->weights[i], plain->weights[i] / 0.7, 1e-12);
            if (s)
                differ += (first[i] == 0) != (c->weights[i] == 0);
            else
                first[i] = c->weights[i];
        }
        assert_true(dropped[s] > 1100 && dropped[s] < 1300);
    }
    assert_true(differ > 1000);
    bench_free(&b);
}

static void test_round(void **state)
{
    (void)state;
    assert_true(attn_round(1 + 0x1p-8, AU_DT_BF16) == 1 &&
                attn_round(1 + 0x3p-8, AU_DT_BF16) == 1 + 0x4p-8);
    assert_true(attn_round(1 + 0x1.8p-8, AU_DT_BF16) == 1 + 0x1p-7 &&
                attn_round(-3.39e38, AU_DT_BF16) == -0x1.fep127);
    assert_true(attn_round(0x1p-133, AU_DT_BF16) == 0x1p-133 &&
                attn_round(0x1p-134, AU_DT_BF16) == 0);
    assert_true(attn_round(65519, AU_DT_F16) == 65504 && attn_round(65520, AU_DT_F16) == INFINITY);
    assert_true(attn_round(0x1p-25, AU_DT_F16) == 0 && attn_round(0x1.8p-25, AU_DT_F16) == 0x1p-24);
    assert_true(attn_round(1 + 0x1p-11, AU_DT_F16) == 1 &&
                attn_round(0.1, AU_DT_F32) == (double)0.1f);
    assert_true(attn_round(-INFINITY, AU_DT_F16) == -INFINITY &&
                attn_round((double)NAN, AU_DT_F16) != 0);
}

/* As the definition says it: a multiple of the step below the number, to nearest even; signs stay, of 0 as well. */
static void test_round_as_defined(void **state)
{
    (void)state;
    static const struct {
        int bits, least;
    } forms[] = {{11, -24}, {8, -133}, {24, -149}, {50, -2000}, {1, -1100}};
    uint64_t random = 7;
    for (uint32_t n = 0; n < 200000; n++) {
        const double part = (au_uniform(&random) - 0.5) * (n % 4 ? 1 : 0x1p-30);
        const double x = ldexp(part, (int)(n % 2000) - 1000); /* numbers that are not normal, too */
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            int e;
            frexp(x, &e);
            const int step =
                e - forms[f].bits > forms[f].least ? e - forms[f].bits : forms[f].least;
            const double want = ldexp(nearbyint(ldexp(x, -step)), step);
            const double got = au_round_bits(x, forms[f].bits, forms[f].least);
            assert_true(got == want && !signbit(got) == !signbit(want));
        }
    }
}

/* The plain formula in lower precision: every output a number of the type, close to the f64 one,
 * and not the same. */
static void test_lower_precision(void **state)
{
    (void)state;
    const AuDtype types[] = {AU_DT_F32, AU_DT_F16, AU_DT_BF16};
    const double errors[] = {1e-6, 2e-3, 1.6e-2};
    for (int n = 0; n < 3; n++) {
        Bench b = bench_new();
        Case *c =
            case_new(&b, bench_read_file(&b, "mha.air"), "B=1 H=2 Hk=1 S=19 T=23 D=16 E=8", 6);
        for (int t = 0; t < 3; t++)
            for (size_t i = 0; i < c->counts[t]; i++)
                c->tensors[t][i] = attn_round(c->tensors[t][i], types[n]);
        double exact[2 * 19 * 8], worst = 0;
        case_run(&b, c);
        memcpy(exact, c->o, sizeof exact);
        c->call.round_to = types[n];
        case_run(&b, c);
        for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
            assert_true(c->o[i] == attn_round(c->o[i], types[n]));
            worst = fmax(worst, fabs(c->o[i] - exact[i]));
        }
        assert_true(worst > errors[n] / 100 && worst < errors[n]);
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),         cmocka_unit_test(test_dropout_numbers),
        cmocka_unit_test(test_dropout),          cmocka_unit_test(test_round),
        cmocka_unit_test(test_round_as_defined), cmocka_unit_test(test_lower_precision)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
