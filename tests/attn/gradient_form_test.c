/* gradient_form_test.c - what is derived: stop_grad, the forms of adjoints, their text, rounded modes,
 * rows without pairs. */
#include "gradient_support.h"

#include <math.h>
#include <string.h>

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
            AuAttn *a = compile_script(&b, stops[i].name, text);
            const AuGrads *g = derive_gradients(&b, a, stops[i].name);
            k[n] = check_new(&b, case_new(&b, a, SIZES, 7), 3);
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

/* ---- weights that are at most 1 for certain */

#define OWN(end, forward)                                                                          \
    "online mine { rowscale m = -inf; rowscale r = 0.0; final lse; online_fwd(s) { let n = "       \
    "max(m, "                                                                                      \
    "rowmax(s)); let c = exp(m - n); let p = exp(s - n); r = r * c + rowsum(p); m = n; return p, " \
    "c; "                                                                                          \
    "} online_fwd_epilogue(o) { lse = " end "; return o / r; } forward(s) = " forward "; }" HEAD   \
    "online mine; }"

static const struct {
    const char *name, *text;
    bool parts;
} weights[] = {
    {"softmax", HEAD "online softmax; }", true},
    {"softmax, something added",
     HEAD "input c: f32[H] grad; score_mod(s, b, h) = s + c[h]; online softmax; }", true},
    {"softmax_one", HEAD "online softmax_one; }", true},
    {"softmax_sink", HEAD "input c: f32[H] grad; online softmax_sink(c[h]); }", true},
    {"a softmax of one's own", OWN("m + log(r)", "exp(s - lse)"), true},
    {"with a maximum that cuts off", OWN("min(m + log(r), 1e30)", "exp(s - lse)"), false},
    {"sigmoid", HEAD "score_mod(s) = sigmoid(s); online identity; }", false},
    {"normalised", HEAD "online normalised; }", false},
    {"retention", HEAD CAUSAL "online retention; }", false},
    {"a weight that is changed", HEAD "weight_mod(w) = w * 5.0; online softmax; }", false},
};

static void test_weights_are_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        Bench b = bench_new();
        AuAttn *a = compile_script(&b, weights[i].name, weights[i].text);
        const AuGrads *g = derive_gradients(&b, a, weights[i].name);
        if (g->weights_are_parts != weights[i].parts)
            fail_msg("%s: expected %d", weights[i].name, weights[i].parts);
        bench_free(&b);
    }
}

/* ---- maxima that lie behind */

#define RUNNING(finals, fwd, end)                                                                  \
    "online mine { rowscale m = -inf; rowscale r = 0.0; " finals " online_fwd(s) { let n = "       \
    "max(m, rowmax(s)); let c = exp(m - n); let p = exp(s - n); " fwd " return p, c; } "           \
    "online_fwd_epilogue(o) { " end " } forward(s) = s; }" HEAD "online mine; }"
#define SUMS "r = r * c + rowsum(p); m = n;"

static const struct {
    const char *name, *text;
    bool free;
} references[] = {
    {"softmax", HEAD "online softmax; }", true},
    {"softmax_one", HEAD "online softmax_one; }", true},
    {"softmax_sink", HEAD "input c: f32[H] grad; online softmax_sink(c[h]); }", true},
    {"one's own", RUNNING("final lse;", SUMS, "lse = m + log(r); return o / r;"), true},
    {"the maximum is a result", RUNNING("final top;", SUMS, "top = m; return o / r;"), false},
    {"the sum is a result", RUNNING("final sum;", SUMS, "sum = r; return o / r;"), false},
    {"the sum below a bound",
     RUNNING("final lse;", SUMS, "lse = m + log(r); return o / max(r, 1.0);"), false},
    {"the output unfinished", RUNNING("final lse;", SUMS, "lse = m + log(r); return o;"), false},
    {"a sum that is not scaled",
     RUNNING("final lse;", "r = r + rowsum(p); m = n;", "lse = m + log(r); return o / r;"), false},
    {"a sum of other scores",
     RUNNING("final lse;", "r = r * c + rowsum(exp(s)); m = n;", "lse = log(r); return o / r;"),
     false},
    {"an older maximum", RUNNING("final lse;", "r = r * c + rowsum(p);", "lse = m; return o / r;"),
     false},
    {"weights of another reference",
     "online mine { rowscale m = -inf; rowscale r = 0.0; final lse; online_fwd(s) { let n = max(m, "
     "rowmax(s)); let c = exp(m - n); r = r * c + rowsum(exp(s - n)); let q = m; m = n; return "
     "exp(s - q), c; } online_fwd_epilogue(o) { lse = m + log(r); return o / r; } forward(s) = s; "
     "}" HEAD "online mine; }",
     false},
    {"sigmoid", HEAD "score_mod(s) = sigmoid(s); online identity; }", false},
    {"normalised", HEAD "online normalised; }", false},
    {"retention", HEAD CAUSAL "online retention; }", false},
    {"a weight that is changed", HEAD "weight_mod(w) = w * 5.0; online softmax; }", false},
};

static void test_free_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        Bench b = bench_new();
        AuAttn *a = compile_script(&b, references[i].name, references[i].text);
        if (attn_has_free_reference(a) != references[i].free)
            fail_msg("%s: expected %d", references[i].name, references[i].free);
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
    {"softmax of factors",
     HEAD "input t: f32[H]; score_mod(s, b, h) = 30.0 * tanh(s * t[h] / 30.0); online softmax; }",
     "lse", "dfinal.lse - $delta", 0},
    {"softmax with a bias",
     HEAD "input t: f32[T]; score_mod(s, b, h, i, j) = s + t[j]; online softmax; }", "lse rest",
     "dfinal.lse - $delta", 0},
    {"softmax with a distance", HEAD "score_mod(s, b, h, i, j) = s - (i - j); online softmax; }",
     "lse rest", "dfinal.lse - $delta", 0},
    {"softmax_one", HEAD "online softmax_one; }", "lse", "dfinal.lse - $delta", 0},
    {"softmax_sink", HEAD "input s: f32[H] grad; online softmax_sink(s[h]); }", "lse rest",
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
        AuAttn *a = compile_script(&b, derived[i].name, derived[i].text);
        const AuGrads *g = derive_gradients(&b, a, derived[i].name);
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

/* A second time it finds what the first one added, and derives the same. */
static void test_twice(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = compile_script(&b, "twice", HEAD "online retention_true; }");
    AuText first = {.arena = b.arena}, second = {.arena = b.arena};
    gradient_print(a, derive_gradients(&b, a, "twice"), &first);
    assert_true(a->online->finals[1].kept && !a->online->finals[0].kept);
    gradient_print(a, derive_gradients(&b, a, "twice"), &second);
    assert_string_equal(au_text_str(&first), au_text_str(&second));
    assert_int_equal(b.diags->warnings, 0);
    assert_int_equal(a->online->final_count, 2);
    bench_free(&b);
}

/* The weight of softmax and the factor of its gradient are one node: kernels pay one exp. */
static void test_one_exp(void **state)
{
    (void)state;
    static const char *const uses[] = {"softmax", "softmax_one", "softmax_sink(0.5)"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        Bench b = bench_new();
        AuAttn *a = compile_script(
            &b, uses[i], au_format(b.arena, HEAD "score_mod(s) = s * 0.5; online %s; }", uses[i]));
        const AuGrads *g = derive_gradients(&b, a, uses[i]);
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
        AuAttn *a = compile_script(&b, names[i], bench_file(&b, path));
        AuText text = {.arena = b.arena};
        gradient_print(a, derive_gradients(&b, a, names[i]), &text);
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
        AuAttn *a = compile_script(&b, path, bench_file(&b, path));
        const AuGrads *g = derive_gradients(&b, a, path);
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
    AuAttn *a = compile_script(&b, "empty",
                               HEAD "input w: f32[E] grad; out_mod(o, b, h, i, c) = o / o * w[c];"
                                    "mask(b, h, i, j) = i == 1 && j < 2; online softmax; }");
    const AuGrads *g = derive_gradients(&b, a, "empty");
    Case *c = case_new(&b, a, SIZES, 7);
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
    AuAttn *a =
        compile_script(&b, "outside",
                       HEAD "input t: f32[3] grad; score_mod(s, b, h, i, j) = s + t[j]; online "
                            "softmax; }");
    const AuGrads *g = derive_gradients(&b, a, "outside");
    Case *c = case_new(&b, a, SIZES, 7);
    Check *k = check_new(&b, c, 3);
    assert_false(attn_interpret_gradients(a, g, &c->call, k->dout, NULL, k->grads, b.arena, &why));
    assert_non_null(strstr(why, "is not in [0, 3)"));
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_grad),      cmocka_unit_test(test_weights_are_parts),
        cmocka_unit_test(test_free_reference), cmocka_unit_test(test_derived),
        cmocka_unit_test(test_twice),          cmocka_unit_test(test_one_exp),
        cmocka_unit_test(test_golden),         cmocka_unit_test(test_rounded),
        cmocka_unit_test(test_empty_rows),     cmocka_unit_test(test_trouble)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
