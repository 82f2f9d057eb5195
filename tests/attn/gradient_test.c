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
    const char *why = "";
    AuArena *scratch = au_arena_new(NULL);
    if (!attn_interpret(k->c->a, &k->c->call, scratch, &why)) fail_msg("%s", why);
    au_arena_free(scratch);
    for (size_t n = 0; n < k->outs; n++) sum += k->dout[n] * k->c->o[n];
    for (uint32_t f = 0; f < k->c->a->online->final_count; f++)
        for (size_t n = 0; n < k->c->rows && k->dfinals[f]; n++)
            if (k->dfinals[f][n] != 0) sum += k->dfinals[f][n] * k->c->finals[f][n];
    return sum;
}

/* By four values, so that the error is of fourth order. */
static double difference(Check *k, double *x, double step)
{
    const double at = *x;
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
    const size_t stride = count > 24 ? count / 19 : 1; /* some elements of large tensors */
    for (size_t n = 0; n < count; n++) size = fmax(size, fabs(k->grads[t][n]));
    for (size_t n = 0; n < count; n += stride) {
        const double found = k->grads[t][n];
        double step = 1e-2, expected;
        do { /* smaller ones where there is a kink or a pole near by */
            step *= 0.1;
            expected = difference(k, &k->c->tensors[t][n], step);
        } while (step > 1e-5 && !(fabs(found - expected) <= 1e-8 * (size + fabs(expected))));
        if (!(fabs(found - expected) <= 1e-8 * (size + fabs(expected)) + 1e-10))
            fail_msg("%s: d%s[%zu] is %.12g, expected %.12g", name, k->c->a->tensors[t].name, n,
                     found, expected);
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

/* Whether the final takes a gradient from outside. */
static bool is_open(const AuAttn *a, AuExpr adjoint)
{
    for (uint32_t i = 1; i <= adjoint.i; i++)
        if (a->nodes[i].op == AU_OP_DFINAL) {
            bool *mark = AU_NEW_ARRAY(a->arena, bool, adjoint.i + 1);
            attn_mark(a, adjoint, mark);
            if (mark[i]) return true;
        }
    return false;
}

/* Gradients given for finals, where rows have keys: -inf has no difference. */
static void give_finals(Check *k, const AuGrads *g, uint32_t count, uint64_t seed)
{
    Random r = {seed};
    case_run(k->b, k->c);
    for (uint32_t f = 0; f < count; f++) {
        if (!is_open(k->c->a, g->adjoint[f])) continue;
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
    if (strncmp(name, "no ", 3) == 0) a->online->forward = (AuExpr){0}; /* as if it lacked it */
    if (!a->linear) {
        const uint32_t finals = a->online->final_count;
        const AuGrads *g = derive(&b, a, name);
        Case *c = case_new(&b, a, shape, 7);
        for (uint32_t i = 3; i < a->tensor_count; i++) /* integers: some small ones */
            for (size_t n = 0; n < c->counts[i] && a->tensors[i].dtype >= AU_DT_I32; n++)
                c->tensors[i][n] = (double)(n % 2);
        Check *k = check_new(&b, c, 11);
        run_check(k, g, name);
        give_finals(k, g, finals, 5);
        run_check(k, g, name);
    }
    bench_free(&b);
}

/* ---- scripts */

static const char *const examples[] = {
    "documents_bias_sink", "dropout", "mla_decode",          "gated_qknorm",
    "gemma_local",         "mha",     "mla_train",           "relu",
    "retention_decay",     "sigmoid", "softmax_spelled_out",
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
    /* online functions of the library */
    {"softmax", HEAD CAUSAL "online softmax; }"},
    {"softmax_sink", HEAD "input sink: f32[H] grad;" CAUSAL "online softmax_sink(sink[h]); }"},
    {"softmax_sink by a row", HEAD "input sink: f32[B, S] grad; input gain: f32[] grad;" CAUSAL
                                   "online softmax_sink(sink[b, q_idx] * gain); }"},
    {"softmax_one", HEAD CAUSAL "online softmax_one; }"},
    {"identity", HEAD "online identity; }"},
    {"normalised", HEAD "score_mod(s) = s * s + 0.1; online normalised; }"},
    {"retention_true", HEAD "score_mod(s) = s * 0.7; online retention_true; }"},
    /* sharing: AttentionEngine's wrong cases among them */
    {"half squared", HEAD "score_mod(s) { let x = s * 0.5; return x * x; } online identity; }"},
    {"relu squared", HEAD "score_mod(s) { let x = relu(s); return x * x; } online identity; }"},
    {"a tanh a", HEAD "score_mod(s) { let x = 0.3 * s; return x * tanh(x); } online identity; }"},
    {"silu by tanh", HEAD "score_mod(s) { let x = s * 0.5; return x * (1.0 + tanh(x)); } online "
                          "identity; }"},
    {"softsign", HEAD "score_mod(s) { let x = s * 2.0; return x / (1.0 + abs(x)); } online "
                      "identity; }"},
    {"differences", HEAD "score_mod(s) { let x = s - 0.25; return x - x * x / (2.0 - x); } online "
                         "softmax; }"},
    {"chains", HEAD "score_mod(s) { let x = s * s; let y = x * x + x; return y * x - y; } online "
                    "softmax; }"},
    {"functions of one", HEAD
     "score_mod(s) = exp(-s * s) + log(2.0 + s * s) + sqrt(1.0 + s * s) + rsqrt(3.0 + s) "
     "+ erf(s) + sin(s) * cos(s) + softplus(s) + log1p(s * s) + expm1(s) + exp2(s) + log2(3.0 + "
     "s); online softmax; }"},
    {"functions of two",
     HEAD "score_mod(s) = pow(2.0 + s, 1.5) + pow(1.5, s) + logaddexp(s, 2.0 * s) + min(s, 0.3) + "
          "max(s, -s * 2.0) + clamp(s, -0.4, 0.2) + gelu(s) + silu(s) + elu(s) + (s + 4.0) % 1.5; "
          "online softmax; }"},
    {"softcap", HEAD CAUSAL "score_mod(s) = 5.0 * tanh(s / 5.0); online softmax; }"},
    /* inputs */
    {"one input twice", HEAD "input w: f32[H] grad;"
                             "score_mod(s, b, h) = s * w[h] + w[h] * w[h]; online softmax; }"},
    {"bias of all axes", HEAD "input bias: f32[B, H, S, T] grad;"
                              "score_mod(s, b, h, i, j) = s + bias[b, h, i, j]; online softmax; }"},
    {"bias of keys", HEAD "input bias: f32[B, T] grad;" CAUSAL
                          "score_mod(s, b, h, i, j) = s * bias[b, j]; online softmax; }"},
    {"table", HEAD "input table: f32[N] grad;" CAUSAL
                   "score_mod(s, b, h, i, j) = s + table[clamp(q_pos - j, 0, 3)]; online "
                   "softmax; }"},
    {"table by data",
     HEAD "input kind: i32[B, S]; input table: f32[H, 2] grad;"
          "score_mod(s, b, h, i, j) = s * table[h, kind[b, i]]; online softmax; }"},
    {"slopes", HEAD "input slope: f32[H] grad;" CAUSAL
                    "score_mod(s, b, h, i, j) = s - slope[h] * abs(q_pos - j); online softmax; }"},
    {"scalar", HEAD "input tau: f32[] grad; score_mod(s) = s / (2.0 + tau); online softmax; }"},
    {"gain of key heads", HEAD "input g: f32[Hk] grad;"
                               "score_mod(s) = s * g[kv_h]; online softmax; }"},
    /* what is not chosen */
    {"protected logarithm",
     HEAD "score_mod(s) = where(s > 0.1, log(s - 0.1), s); online softmax; }"},
    {"protected root",
     HEAD "score_mod(s) { let x = where(s > 0.0, s, 0.0); return where(x > 0.0, sqrt(x), -1.0); } "
          "online softmax; }"},
    {"protected read", HEAD "input table: f32[3] grad; score_mod(s, b, h, i, j) = where(j < 3, "
                            "table[j] * s, s); online softmax; }"},
    {"two guards", HEAD "input w: f32[] grad; score_mod(s) { let x = s * w; return where(s > 0.0, "
                        "x * x, 0.0) + where(s < 0.3, exp(x), 0.0); } online softmax; }"},
    {"protected sum of channels", HEAD
     "q_mod(x) { let u = sum(x); return where(u > 0.2 && x > -0.3, x * sqrt(u), x) + where(u > "
     "5.0, x * log(u - 5.0), 0.0); } online softmax; }"},
    {"masked by the score", HEAD "score_mod(s) = where(s > -0.5, s, -inf); online softmax; }"},
    /* weights */
    {"weights scaled", HEAD "input w: f32[H, T] grad;" CAUSAL
                            "weight_mod(p, b, h, i, j) = p * w[h, j]; online softmax; }"},
    {"dropout and a gain", HEAD "param seed: i64; input w: f32[H] grad;"
                                "weight_mod(p, b, h) = dropout(p * w[h], 0.3, seed); online "
                                "softmax_one; }"},
    {"weights squared", HEAD "weight_mod(p) = p * p; online identity; }"},
    {"dropout, not normalised", HEAD "param seed: i64; score_mod(s) = sigmoid(s);"
                                     "weight_mod(p) = dropout(p, 0.5, seed); online retention_true;"
                                     "}"},
    /* rows */
    {"rope", HEAD "q_mod(x, b, h, i, c) = rope(x, q_pos); k_mod(x, b, kh, j, c) = rope(x, j, 50.0);"
                  "online softmax; }"},
    {"part of a rope, interleaved",
     HEAD "q_mod(x, b, h, i, c) = rope_interleaved(x * 2.0, i, 100.0, 2, 2); online softmax; }"},
    {"norms", HEAD "q_mod(x) = rmsnorm(x); k_mod(x) = l2norm(x * x + 0.1);"
                   "v_mod(x) = x - mean(x) + sum(x * x * x); online softmax; }"},
    {"gains of rows", HEAD
     "input qg: f32[D] grad; input kg: f32[Hk, D] grad; input s: f32[H] grad; input e: f32[] grad;"
     "input vb: f32[B, T, E] grad; q_mod(x, b, h, i, c) = x * rsqrt(sum(x * x) + s[h] * s[h] + "
     "1.0) "
     "* qg[c]; k_mod(x, b, kh, j, c) = rope(rmsnorm(x) * kg[kh, c] + e, j); v_mod(x, b, kh, j, c) "
     "= x "
     "* vb[b, j, c] + vb[b, j, 0]; online softmax; }"},
    {"a constant row", HEAD "input e: f32[H] grad; q_mod(x, b, h, i, c) = sum(x) * e[h];"
                            "online softmax; }"},
    {"gated output", HEAD "input gate: f32[B, H, S, E] grad; input w: f32[E] grad;"
                          "out_mod(o, b, h, i, c) = rmsnorm(o) * sigmoid(gate[b, h, i, c]) + w[c] "
                          "* o * o;" CAUSAL "online softmax; }"},
    /* products */
    {"products", HEAD "input x: f32[B, H, S, P] grad; input y: f32[B, 1, T, P] grad;"
                      "score_mod(s, b, h, i, j) = s + dot(x[b, h, i], y[b, 0, j]) * dot(x[b, h, i],"
                      " y[b, 0, j]) + dot(q[b, h, i], k[b, kv_h, j]); online softmax; }"},
    {"products with a gather",
     HEAD "input x: f32[N, P] grad; input y: f32[T, P]; input id: i32[S];"
          "score_mod(s, b, h, i, j) = s * dot(x[id[i]], y[j]); online softmax; }"},
    {"product of keys by queries of q", HEAD
     "input y: f32[T, D] grad; score_mod(s, b, h, i, j) = s + dot(q[b, h, i], y[j]); q_mod(x) = "
     "l2norm(x); online softmax; }"},
    /* online functions of one's own */
    {"no forward", "online mine { rowscale m = -inf; rowscale r = 0.0; final lse; online_fwd(s) { "
                   "let n = max(m, rowmax(s)); let c = exp(m - n); let p = exp(s - n); r = r * c + "
                   "rowsum(p); m = n; return p, c; } online_fwd_epilogue(o) { lse = m + log(r); "
                   "return o / r; } forward(s) = s; }" HEAD "online mine; }"},
    {"no finals",
     "online mine { rowscale m = -inf; rowscale r = 0.0; online_fwd(s) { let n = "
     "max(m, rowmax(s)); let c = exp(m - n); let p = exp(s - n); r = r * c + "
     "rowsum(p); m = n; return p, c; } online_fwd_epilogue(o) = o / r; forward(s) = s; }" HEAD
     "online mine; }"},
    {"finals that are states", "online mine { rowscale m = -inf; rowscale r = 0.0; final r; "
                               "final m; online_fwd(s) { let n = max(m, rowmax(s)); let c = exp(m "
                               "- n); let p = exp(s - n); r = r * c + rowsum(p); m = n; return p, "
                               "c; } online_fwd_epilogue(o) = o / r; forward(s) = exp(s - m) / r; "
                               "}" HEAD "online mine; }"},
    {"base two", "online mine { rowscale m = -inf; rowscale r = 0.0; final lse; online_fwd(s) { "
                 "let n = max(m, rowmax(s)); let c = exp2((m - n) * 0.5); let p = exp2((s - n) * "
                 "0.5); r = r * c + rowsum(p); m = n; return p, c; } online_fwd_epilogue(o) { lse "
                 "= m * 0.5 + log2(r); return o / r; } forward(s) = exp2(s * 0.5 - lse); }" HEAD
                 "online mine; }"},
    {"an extra pass", "online mine { rowscale r = 0.0; rowscale t = 0.0; final r; final t; "
                      "online_fwd(s) { r = r + rowsum(abs(s)); t = t + rowsum(abs(s)); return s, "
                      "1.0; } online_fwd_epilogue(o) = o / (1.0 + r); forward(s) = where(s > 0.0, "
                      "s / (1.0 + r), s / (1.0 + t)); }" HEAD CAUSAL
                      "param seed: i64; weight_mod(p) = dropout(p, 0.3, seed); online mine; }"},
    {"entropy beside", "online mine { rowscale m = -inf; rowscale r = 0.0; rowscale e = 0.0; final "
                       "lse; final entropy; online_fwd(s) { let n = max(m, rowmax(s)); let c = "
                       "exp(m - n); let p = exp(s - n); r = r * c + rowsum(p); e = e * c + "
                       "rowsum(p * s); m = n; return p, c; } online_fwd_epilogue(o) { lse = m + "
                       "log(r); entropy = m + log(r) - e / r; return o / r; } forward(s) = exp(s - "
                       "lse); }" HEAD CAUSAL "online mine; }"},
    {"sums with a parameter",
     "online mine(w, z) { rowscale r = 0.0; final r; online_fwd(s) { r = "
     "r + rowsum(s * s * w); return s * s, 1.0; } online_fwd_epilogue(o) "
     "= o / (r + z * z + 1.0); forward(s) = s * s / (r + z * z + 1.0); }" HEAD
     "input w: f32[H] grad; input z: f32[S] grad; online mine(w[h] * w[h], z[q_idx]); }"},
    {"a divisor that is 0 without pairs",
     "online mine(z) { rowscale r = 0.0; final f; online_fwd(s) { r = r + rowsum(s * s); return s "
     "* "
     "s, 1.0; } online_fwd_epilogue(o) { f = r * z; return o / r; } forward(s) = s * s * z / f; "
     "}" HEAD "input z: f32[H] grad; mask(b, h, i, j) = i > 1; online mine(2.0 + z[h]); }"},
    {"values in keys",
     "attention x { q: f32[B, H, S, D]; k: f32[B, Hk, T, D]; v = k[.., 1:3];"
     "input g: f32[Hk, D] grad; input u: f32[T] grad; k_mod(x, b, kh, j, c) = "
     "l2norm(x) * g[kh, c]; v_mod(x, b, kh, j, c) = x * x * u[j];" CAUSAL "online softmax; }"},
    {"two norms",
     "online mine { rowscale a = 0.0; rowscale c = 0.0; final a; final c; "
     "online_fwd(s) { a = a + rowsum(s * s); c = c + rowsum(abs(s)); return s, 1.0; } "
     "online_fwd_epilogue(o) = o / (sqrt(a) + c); forward(s) = s / (sqrt(a) + c); }" HEAD
     "online mine; }"},
};

static void test_scripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        check_script(scripts[i].name, scripts[i].text, sizes);
}

/* ---- stop_grad: the same as a function in which what is stopped is an input */

static const struct {
    const char *name, *stopped, *frozen;
} stops[] = {
    {"in forward", HEAD CAUSAL "score_mod(s) = s * 3.0; online retention; }",
     HEAD CAUSAL "input r: f32[B, H, S]; score_mod(s, b, h, i) = s * 3.0 / r[b, h, i]; online "
                 "identity; }"},
    {"in online_fwd",
     "online mine { rowscale r = 0.0; final r; online_fwd(s) { r = r + rowsum(stop_grad(s * s)); "
     "return s, 1.0; } online_fwd_epilogue(o) = o / (1.0 + r); forward(s) = s / (1.0 + r); }" HEAD
         CAUSAL "online mine; }",
     HEAD CAUSAL "input r: f32[B, H, S]; score_mod(s, b, h, i) = s / (1.0 + r[b, h, i]); online "
                 "identity; }"},
    {"in the maximum, too",
     "online mine { rowscale m = -inf; rowscale r = 0.0; final lse; online_fwd(s) { let n = max(m, "
     "rowmax(stop_grad(s))); let c = exp(m - n); let p = exp(s - n); r = r * c + "
     "rowsum(stop_grad(p)); m = n; return p, c; } online_fwd_epilogue(o) { lse = m + log(r); "
     "return o / r; } forward(s) = exp(s - lse); }" HEAD CAUSAL "online mine; }",
     HEAD CAUSAL "input r: f32[B, H, S]; score_mod(s, b, h, i) = exp(s - r[b, h, i]); online "
                 "identity; }"},
    {"in score_mod", HEAD "score_mod(s) = s * stop_grad(1.0 + s * 0.0); online softmax; }",
     HEAD "input r: f32[B, H, S]; score_mod(s, b, h, i) = s; online softmax; }"},
};

static void test_stop_grad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        Bench b = bench_new();
        const char *why = "";
        Check *k[2];
        for (int n = 0; n < 2; n++) {
            const char *text = n ? stops[i].frozen : stops[i].stopped;
            AuAttn *a = compile(&b, stops[i].name, text);
            const AuGrads *g = derive(&b, a, stops[i].name);
            k[n] = check_new(&b, case_new(&b, a, sizes, 7), 3);
            if (n && a->tensor_count > 3)
                memcpy(k[1]->c->tensors[3], k[0]->c->finals[0], k[0]->c->rows * sizeof(double));
            case_run(&b, k[n]->c); /* for the finals */
            if (!attn_interpret_gradients(a, g, &k[n]->c->call, k[n]->dout, NULL, k[n]->grads,
                                          b.arena, &why))
                fail_msg("%s: %s", stops[i].name, why);
        }
        for (uint32_t t = 0; t < 3; t++)
            for (size_t n = 0; n < k[0]->c->counts[t]; n++)
                expect_near(k[0]->grads[t][n], k[1]->grads[t][n], 1e-12);
        bench_free(&b);
    }
}

/* ---- what is derived */

static const struct {
    const char *name, *text;
    const char *finals;  /* in the end, those that were added included */
    const char *adjoint; /* of the first */
    uint32_t passes;
} derived[] = {
    {"softmax", HEAD "online softmax; }", "lse", "dfinal.lse - $delta", 0},
    {"softmax_one", HEAD "online softmax_one; }", "lse", "dfinal.lse - $delta", 0},
    {"softmax_sink", HEAD "input s: f32[H] grad; online softmax_sink(s[h]); }", "lse",
     "dfinal.lse - $delta", 0},
    {"identity", HEAD "online identity; }", "", "", 0},
    {"normalised", HEAD "online normalised; }", "r", "dfinal.r + $delta * (-1.0 / final.r)", 0},
    {"retention", HEAD "online retention; }", "r sum", "dfinal.r", 0},
    {"retention_true", HEAD "online retention_true; }", "r sum",
     "dfinal.r + $delta * (-1.0 / final.r)", 0},
};

static void test_derived(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
        Bench b = bench_new();
        AuAttn *a = compile(&b, derived[i].name, derived[i].text);
        const AuGrads *g = derive(&b, a, derived[i].name);
        AuText finals = {.arena = b.arena}, adjoint = {.arena = b.arena};
        for (uint32_t n = 0; n < a->online->final_count; n++)
            au_text_add(&finals, "%s%s", n ? " " : "", a->online->finals[n].name);
        if (a->online->final_count) attn_print_expr(a, g->adjoint[0], &adjoint);
        assert_string_equal(au_text_str(&finals), derived[i].finals);
        assert_string_equal(au_text_str(&adjoint), derived[i].adjoint);
        assert_int_equal(g->pass_count, derived[i].passes);
        bench_free(&b);
    }
}

/* The weight of softmax and the factor of its gradient are one node: kernels pay one exp. */
static void test_one_exp(void **state)
{
    (void)state;
    static const char *const uses[] = {"softmax", "softmax_one", "softmax_sink(0.5)"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        Bench b = bench_new();
        AuAttn *a = compile(
            &b, uses[i], au_format(b.arena, HEAD "score_mod(s) = s * 0.5; online %s; }", uses[i]));
        const AuGrads *g = derive(&b, a, uses[i]);
        bool *mark = AU_NEW_ARRAY(b.arena, bool, a->node_count);
        uint32_t exps = 0;
        attn_mark(a, g->dscore, mark);
        attn_mark(a, g->weight, mark);
        for (uint32_t n = 1; n < a->node_count; n++) exps += mark[n] && a->nodes[n].op == AU_OP_EXP;
        assert_int_equal(exps, 1);
        assert_true(mark[g->weight.i]);
        bench_free(&b);
    }
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const names[] = {"documents_bias_sink", "gated_qknorm", "gemma_local",
                                        "mla_train", "retention_decay"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Bench b = bench_new();
        const char *path = au_format(b.arena, "../../front/examples/%s.attn", names[i]);
        AuAttn *a = compile(&b, names[i], bench_file(&b, path));
        AuText text = {.arena = b.arena};
        gradient_print(a, derive(&b, a, names[i]), &text);
        bench_expect(&b, au_format(b.arena, "../gradients/%s.txt", names[i]), au_text_str(&text));
        bench_free(&b);
    }
}

/* The plain formula in a type: as far from f64 as the type, and not further. */
static void test_rounded(void **state)
{
    (void)state;
    static const struct {
        AuDtype dtype;
        double least, most;
    } types[] = {{AU_DT_F32, 1e-9, 2e-6}, {AU_DT_F16, 1e-5, 1e-2}, {AU_DT_BF16, 1e-4, 6e-2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Bench b = bench_new();
        const char *path = "../../front/examples/gated_qknorm.attn", *why = "";
        AuAttn *a = compile(&b, path, bench_file(&b, path));
        const AuGrads *g = derive(&b, a, path);
        Case *c = case_new(&b, a, "B=1 H=2 Hk=1 S=9 T=9 D=8", 7);
        for (uint32_t t = 0; t < a->tensor_count; t++)
            for (size_t n = 0; n < c->counts[t]; n++) /* exact in every type */
                c->tensors[t][n] = nearbyint(c->tensors[t][n] * 64) / 64;
        Check *k = check_new(&b, c, 11);
        for (size_t n = 0; n < k->outs; n++) k->dout[n] = nearbyint(k->dout[n] * 64) / 64;
        double *exact[8];
        for (uint32_t t = 0; t < a->tensor_count; t++) {
            exact[t] = k->grads[t];
            k->grads[t] = AU_NEW_ARRAY(b.arena, double, c->counts[t]);
        }
        assert_true(attn_interpret_gradients(a, g, &c->call, k->dout, NULL, exact, b.arena, &why));
        c->call.round_to = types[i].dtype;
        assert_true(
            attn_interpret_gradients(a, g, &c->call, k->dout, NULL, k->grads, b.arena, &why));
        for (uint32_t t = 0; t < a->tensor_count; t++) {
            double error = 0, size = 0;
            for (size_t n = 0; n < c->counts[t]; n++) {
                error = fmax(error, fabs(exact[t][n] - k->grads[t][n]));
                size = fmax(size, fabs(exact[t][n]));
            }
            if (!(error > types[i].least * size && error < types[i].most * size))
                fail_msg("%s: error %g of %g", a->tensors[t].name, error, size);
        }
        bench_free(&b);
    }
}

/* Rows without a pair give and get nothing, whatever lies in the rows. */
static void test_empty_rows(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *why = "";
    AuAttn *a = compile(&b, "empty",
                        HEAD "input w: f32[E] grad; out_mod(o, b, h, i, c) = o / o * w[c];"
                             "mask(b, h, i, j) = i == 1 && j < 2; online softmax; }");
    const AuGrads *g = derive(&b, a, "empty");
    Case *c = case_new(&b, a, sizes, 7);
    Check *k = check_new(&b, c, 3);
    c->tensors[1][2 * 4] = NAN; /* key 2 takes part with no query */
    assert_true(attn_interpret_gradients(a, g, &c->call, k->dout, NULL, k->grads, b.arena, &why));
    for (uint32_t t = 0; t < a->tensor_count; t++)
        for (size_t n = 0; n < c->counts[t]; n++) assert_true(isfinite(k->grads[t][n]));
    assert_true(k->grads[0][0] == 0 && k->grads[1][2 * 4] == 0);
    bench_free(&b);
}

/* Reads outside of an input are found where they are chosen. */
static void test_trouble(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *why = "";
    AuAttn *a = compile(&b, "outside",
                        HEAD "input t: f32[3] grad; score_mod(s, b, h, i, j) = s + t[j]; online "
                             "softmax; }");
    const AuGrads *g = derive(&b, a, "outside");
    Case *c = case_new(&b, a, sizes, 7);
    Check *k = check_new(&b, c, 3);
    assert_false(attn_interpret_gradients(a, g, &c->call, k->dout, NULL, k->grads, b.arena, &why));
    assert_non_null(strstr(why, "is not in [0, 3)"));
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples), cmocka_unit_test(test_stop_grad),
        cmocka_unit_test(test_scripts),  cmocka_unit_test(test_derived),
        cmocka_unit_test(test_one_exp),  cmocka_unit_test(test_golden),
        cmocka_unit_test(test_rounded),  cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
