/* gradient_test.c - derived gradients against central differences of the oracle, in f64, for every
 * online function of the library, every example script, and scripts made to be hard. */
#include "gradient_support.h"

#include <string.h>

static void check_script(const char *name, const char *text, const char *shape)
{
    Bench b = bench_new();
    AuAttn *a = compile_script(&b, name, text);
    if (strncmp(name, "no ", 3) == 0) a->online->forward = (AuExpr){0}; /* as if it lacked it */
    if (!a->linear) {
        const AuGrads *g = derive_gradients(&b, a, name);
        Case *c = case_new(&b, a, shape, 7);
        for (uint32_t i = 3; i < a->tensor_count; i++) /* integers: some small ones */
            for (size_t n = 0; n < c->counts[i] && a->tensors[i].dtype >= AU_DT_I32; n++)
                c->tensors[i][n] = (double)(n % 2);
        Check *k = check_new(&b, c, 11);
        check_differences(k, g, name);
        check_give_finals(k, g, a->online->final_count, 5);
        check_differences(k, g, name);
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
    {"a mean that rescales with the maximum",
     "online mean { rowscale m = -inf; rowscale r = 0.0; rowscale w = 0.0; final lse; final mean; "
     "online_fwd(s) { let n = max(m, rowmax(s)); let c = exp(m - n); let p = exp(s - n); "
     "r = r * c + rowsum(p); w = w * c + rowsum(p * s); m = n; return p, c; } "
     "online_fwd_epilogue(o) { lse = m + log(r); mean = w / r; return o / r; } "
     "forward(s) = exp(s - lse); backward(dp, p) = p * (dp - rowsum(dp * p)); }" HEAD CAUSAL
     "online mean; }"},
    {"parameters computed from inputs",
     "online power(t, u) { rowscale r = 0.0; final z; "
     "online_fwd(s) { let p = exp(s * t) + u; r = r + rowsum(p); return p, 1.0; } "
     "online_fwd_epilogue(o) { z = r * t; return o / r; } "
     "forward(s) = (exp(s * t) + u) * t / z; }" HEAD
     "input tau: f32[H] grad; input mu: f32[B, S] grad;" CAUSAL
     "online power(softplus(tau[h]), exp(mu[b, q_idx]) * tau[h]); }"},
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
        check_script(scripts[i].name, scripts[i].text, SIZES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_scripts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
