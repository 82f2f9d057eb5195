/* std_test.c - the standard library: every online function keeps the laws, combines, and does what
 * its formula says. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "front.h"
#include "std.h"

/* The weight of key j in a row of scores, by the formula in the script's head comment. */
typedef double (*Weight)(const double *s, int count, int j);

static double sum_of(const double *s, int count, double (*f)(double))
{
    double sum = 0;
    for (int j = 0; j < count; j++) sum += f(s[j]);
    return sum;
}

static double softmax(const double *s, int count, int j)
{
    return exp(s[j]) / sum_of(s, count, exp);
}
static double softmax_sink(const double *s, int count, int j)
{
    return exp(s[j]) / (exp(0.75) + sum_of(s, count, exp));
}
static double softmax_one(const double *s, int count, int j)
{
    return exp(s[j]) / (1 + sum_of(s, count, exp));
}
static double identity(const double *s, int count, int j) { return count ? s[j] : 0; }
static double itself(double x) { return x; }
static double normalised(const double *s, int count, int j)
{
    return s[j] / sum_of(s, count, itself);
}
static double retention(const double *s, int count, int j)
{
    return s[j] / fmax(sum_of(s, count, fabs), 1);
}

static const struct {
    const char *use;
    Weight weight;
    bool positive; /* made for positive scores */
} functions[] = {
    {"softmax", softmax, false},          {"softmax_sink(0.75)", softmax_sink, false},
    {"softmax_one", softmax_one, false},  {"identity", identity, false},
    {"normalised", normalised, true},     {"retention", retention, false},
    {"retention_true", retention, false},
};

static AuAttn *compile(Bench *b, const char *use, bool positive)
{
    const char *text =
        au_format(b->arena,
                  "attention x { q: f32[B, H, S, D]; k: f32[B, H, T, D]; v: f32[B, H, T, E];\n"
                  "score_mod(s) = %s; mask(b, h, q_idx, kv_idx) = kv_idx <= q_pos; online %s; }\n",
                  positive ? "s * s" : "3.0 * s", use);
    uint32_t count;
    const uint32_t source = au_source_add(b->diags, "test.attn", text, strlen(text));
    AuScript *script = front_parse(b->arena, b->names, b->diags, source);
    AuAttn **all = front_check(b->arena, b->names, b->diags, script, &count);
    if (count != 1) fail_msg("%s", bench_errors(b));
    return all[0];
}

static void check_row(const Case *c, size_t row, Weight weight, bool positive)
{
    enum { T = 7, D = 4, E = 3 };
    const int count = (int)(row % 5) + T - 5 + 1; /* S = 5 */
    double s[T];
    for (int j = 0; j < count; j++) {
        double dot = 0;
        for (int d = 0; d < D; d++)
            dot += c->tensors[0][row * D + (size_t)d] *
                   c->tensors[1][(row / 5 * T + (size_t)j) * D + (size_t)d];
        s[j] = positive ? dot * dot : 3 * dot;
    }
    for (int j = 0; j < T; j++)
        expect_near(c->weights[row * T + (size_t)j], j < count ? weight(s, count, j) : 0, 1e-12);
}

static void test_functions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        Bench b = bench_new();
        AuAttn *a = compile(&b, functions[i].use, functions[i].positive);
        const char *why = "";
        for (int derived = 0; derived < 2; derived++) {
            if (derived && !attn_derive_combine(a)) fail_msg("%s: no combine", functions[i].use);
            if (!attn_check_online(a, b.arena, &why)) fail_msg("%s: %s", functions[i].use, why);
        }
        attn_simplify(a);
        Case *c = case_new(&b, a, "B=1 H=2 S=5 T=7 D=4 E=3", 1);
        for (int64_t tile = 0; tile < 4; tile++) {
            c->call.key_tile = tile;
            case_run(&b, c);
            for (size_t row = 0; row < c->rows; row++)
                check_row(c, row, functions[i].weight, functions[i].positive);
        }
        bench_free(&b);
    }
}

/* Each function of the library is tested above. */
static void test_complete(void **state)
{
    (void)state;
    const char *at = au_std_source();
    size_t count = 0;
    while ((at = strstr(at, "\nonline "))) {
        at += strlen("\nonline ");
        const size_t length = strcspn(at, " (");
        bool tested = false;
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            tested |= strcspn(functions[i].use, "(") == length &&
                      strncmp(functions[i].use, at, length) == 0;
        if (!tested) fail_msg("%.*s is not tested", (int)length, at);
        count++;
    }
    assert_int_equal(count, sizeof functions / sizeof *functions);
}

/* The finals of rows without a key: what the epilogue makes of the start values. */
static void test_finals_of_empty_rows(void **state)
{
    (void)state;
    const struct {
        const char *use;
        double final;
    } finals[] = {{"softmax", -INFINITY},
                  {"softmax_sink(0.75)", 0.75},
                  {"softmax_one", 0},
                  {"normalised", 0},
                  {"retention", 1}};
    for (size_t i = 0; i < sizeof finals / sizeof *finals; i++) {
        Bench b = bench_new();
        Case *c = case_new(&b, compile(&b, finals[i].use, false), "B=1 H=1 S=5 T=3 D=2 E=2", 1);
        case_run(&b, c);
        expect_near(c->finals[0][0], finals[i].final, 1e-15);
        assert_true(c->o[0] == 0 && c->o[3] == 0 && isfinite(c->finals[0][2]));
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions),
                                       cmocka_unit_test(test_complete),
                                       cmocka_unit_test(test_finals_of_empty_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
