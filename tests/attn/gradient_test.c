/* gradient_test.c - derived gradients against central differences of the oracle, in f64, for every
 * online function of the library, every example script, and scripts made to be hard. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "front.h"
#include "gradient.h"

typedef struct Check {
    Bench *b;
    Case *c;
    double *dout, *dfinals[8], *grads[16];
    size_t outs; /* elements of o */
} Check;

static const double *const *constant(double *const *rows) { return (const double *const *)rows; }

/* What is differentiated: sum dO O + sum dR R. */
static double loss(Check *k)
{
    double sum = 0;
    case_run(k->b, k->c);
    for (size_t n = 0; n < k->outs; n++) sum += k->dout[n] * k->c->o[n];
    for (uint32_t f = 0; f < k->c->a->online->final_count; f++)
        for (size_t n = 0; n < k->c->rows && k->dfinals[f]; n++)
            if (k->dfinals[f][n] != 0) sum += k->dfinals[f][n] * k->c->finals[f][n];
    return sum;
}

/* By four values, so that the error is of fourth order. */
static double difference(Check *k, double *x)
{
    const double at = *x, step = 1e-3;
    double f[4];
    for (int n = 0; n < 4; n++) {
        *x = at + step * (n < 2 ? n - 2 : n - 1);
        f[n] = loss(k);
    }
    *x = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
}

static void check_tensor(Check *k, uint32_t t, const char *name)
{
    double size = 0;
    const size_t count = k->c->counts[t];
    const size_t stride = count > 60 ? count / 53 : 1; /* some elements of large tensors */
    for (size_t n = 0; n < count; n++) size = fmax(size, fabs(k->grads[t][n]));
    for (size_t n = 0; n < count; n += stride) {
        const double expected = difference(k, &k->c->tensors[t][n]);
        if (!(fabs(k->grads[t][n] - expected) <= 1e-8 * (size + fabs(expected)) + 1e-10))
            fail_msg("%s: d%s[%zu] is %.12g, expected %.12g", name, k->c->a->tensors[t].name, n,
                     k->grads[t][n], expected);
    }
}

static Check *check_new(Bench *b, Case *c, uint64_t seed)
{
    Check *k = AU_NEW(b->arena, Check);
    Random r = {seed};
    k->b = b;
    k->c = c;
    k->outs = c->rows * (size_t)attn_scalar(c->a, c->a->tensors[2].axes[3], c->sizes, NULL);
    k->dout = AU_NEW_ARRAY(b->arena, double, k->outs);
    for (size_t n = 0; n < k->outs; n++) k->dout[n] = random_between(&r, -1, 1);
    for (uint32_t i = 0; i < c->a->tensor_count; i++)
        k->grads[i] = AU_NEW_ARRAY(b->arena, double, c->counts[i]);
    c->call.weights = NULL;
    return k;
}

/* Gradients given for finals, where rows have keys: -inf has no difference. */
static void give_finals(Check *k, uint32_t count, uint64_t seed)
{
    Random r = {seed};
    case_run(k->b, k->c);
    for (uint32_t f = 0; f < count; f++) {
        k->dfinals[f] = AU_NEW_ARRAY(k->b->arena, double, k->c->rows);
        for (size_t n = 0; n < k->c->rows; n++)
            if (isfinite(k->c->finals[f][n])) k->dfinals[f][n] = random_between(&r, -1, 1);
    }
}

static AuGrads *derive(Bench *b, AuAttn *a, const char *name)
{
    attn_simplify(a);
    AuGrads *g = attn_gradients(a, b->arena, b->diags);
    if (!g) fail_msg("%s: %s", name, bench_errors(b));
    if (!attn_verify(a, b->diags)) fail_msg("%s: %s", name, bench_errors(b));
    return g;
}

static void run_check(Check *k, const AuGrads *g, const char *name)
{
    const char *why = "";
    if (!attn_interpret_gradients(k->c->a, g, &k->c->call, k->dout, constant(k->dfinals), k->grads,
                                  k->b->arena, &why))
        fail_msg("%s: %s", name, why);
    for (uint32_t i = 0; i < k->c->a->tensor_count; i++) {
        const AuTensor *t = &k->c->a->tensors[i];
        if (i == 2 && k->c->a->v_in_k) continue;
        if (i < 3 || t->grad) check_tensor(k, i, name);
    }
}

static AuAttn *compile(Bench *b, const char *name, const char *text)
{
    uint32_t count;
    const uint32_t source = au_source_add(b->diags, name, text, strlen(text));
    AuScript *script = front_parse(b->arena, b->names, b->diags, source);
    AuAttn **all = front_check(b->arena, b->names, b->diags, script, &count);
    if (count != 1) fail_msg("%s: %s", name, bench_errors(b));
    return all[0];
}

static const char sizes[] = "B=2 H=2 Hk=1 Hv=2 S=4 T=5 D=4 E=3 P=2 G=1 N=7 R=3";

static void check_script(const char *name, const char *text, const char *shape)
{
    Bench b = bench_new();
    AuAttn *a = compile(&b, name, text);
    if (!a->linear) {
        const uint32_t finals = a->online->final_count;
        const AuGrads *g = derive(&b, a, name);
        Case *c = case_new(&b, a, shape, 7);
        for (uint32_t i = 3; i < a->tensor_count; i++) /* integers: some small ones */
            for (size_t n = 0; n < c->counts[i] && a->tensors[i].dtype >= AU_DT_I32; n++)
                c->tensors[i][n] = (double)(n % 2);
        Check *k = check_new(&b, c, 11);
        run_check(k, g, name);
        give_finals(k, finals, 5);
        run_check(k, g, name);
    }
    bench_free(&b);
}

/* ---- scripts */

static const char *const examples[] = {
    "documents_bias_sink", "dropout", "gated_qknorm",    "gemma_local", "mha",
    "mla_train",           "relu",    "retention_decay", "sigmoid",     "softmax_spelled_out",
};

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        Bench b = bench_new();
        const char *text =
            bench_file(&b, au_format(b.arena, "../../front/examples/%s.attn", examples[i]));
        check_script(examples[i], text, "B=2 H=2 Hk=1 S=5 T=5 D=4 E=4 P=2");
        bench_free(&b);
    }
}

#define HEAD   "attention x { q: f32[B, H, S, D]; k: f32[B, Hk, T, D]; v: f32[B, Hv, T, E];\n"
#define CAUSAL "mask(b, h, q_idx, kv_idx) = kv_idx <= q_pos;\n"

static const struct {
    const char *name, *text;
} scripts[] = {
    {"softmax", HEAD CAUSAL "online softmax; }"},
};

static void test_scripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        check_script(scripts[i].name, scripts[i].text, sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_scripts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
