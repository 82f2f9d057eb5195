/* combine_test.c - deriving combine, and the laws that find online functions which do not keep
 * them. */
#include "support.h"

#include <string.h>

/* An identity-like attention with this online function. */
static AuAttn *with_online(Bench *b, const char *lines)
{
    return bench_read(
        b,
        au_format(b->arena,
                  "attention test {\nsize B\nsize H\nsize S\nsize D\nsize T\nsize E\nparam c: f32\n"
                  "query q: f32[B, H, S, D]\nkey k: f32[B, H, T, D]\nvalue v: f32[B, H, T, E]\n"
                  "input sink: f32[H]\nonline test {\n%s\n}\n}\n",
                  lines));
}

#define SOFTMAX_STATE "rowscale m = -inf\nrowscale r = 0.0\n"
#define SOFTMAX_TILE                                                                               \
    "$1 = max(state.m, rowmax($score))\n$2 = exp(state.m - $1)\n$3 = exp($score - $1)\n"           \
    "m = $1\nr = state.r * $2 + rowsum($3)\nreturn $3, $2\n"

static const struct {
    const char *name, *lines;
    const char *combine; /* the text that is derived */
} derivable[] = {
    {"softmax", SOFTMAX_STATE "online_fwd {\n" SOFTMAX_TILE "}\nepilogue {\nreturn $x / state.r\n}",
     "        combine derived {\n"
     "            $1 = max(state.m, other.m)\n"
     "            $2 = exp(state.m - $1)\n"
     "            $3 = exp(other.m - $1)\n"
     "            m = $1\n"
     "            r = state.r * $2 + other.r * $3\n"
     "            return $2, $3\n"
     "        }\n"},
    {"softmax in powers of two, sum first",
     SOFTMAX_STATE
     "final lse\nonline_fwd {\n$1 = max(rowmax($score), state.m)\n$2 = exp2((state.m - $1) * 0.5)\n"
     "$3 = exp2(($score - $1) * 0.5)\nr = rowsum($3) + $2 * state.r\nm = $1\nreturn $3, $2\n}\n"
     "epilogue {\nlse = state.m * 0.5 + log2(state.r)\nreturn $x / state.r\n}\n"
     "forward = exp2($score * 0.5 - final.lse)",
     "        combine derived {\n"
     "            $1 = max(state.m, other.m)\n"
     "            $2 = exp2((state.m - $1) * 0.5)\n"
     "            $3 = exp2((other.m - $1) * 0.5)\n"
     "            m = $1\n"
     "            r = $2 * state.r + $3 * other.r\n"
     "            return $2, $3\n"
     "        }\n"},
    {"softmax with a sink",
     SOFTMAX_STATE "final lse\nonline_fwd {\n" SOFTMAX_TILE
                   "}\nepilogue {\n$1 = max(state.m, sink[h])\n"
                   "$2 = state.r * exp(state.m - $1) + exp(sink[h] - $1)\n$3 = exp(state.m - $1)\n"
                   "lse = $1 + log($2)\nreturn $x * $3 / $2\n}\nforward = exp($score - final.lse)",
     "            return $2, $3\n"},
    {"identity", "online_fwd {\nreturn $score, 1.0\n}\nepilogue {\nreturn $x\n}\nforward = $score",
     "        combine derived {\n            return 1.0, 1.0\n        }\n"},
    {"a sum",
     "rowscale r = 0.0\nfinal r\nonline_fwd {\nr = state.r + rowsum(exp($score * 0.1))\nreturn "
     "exp($score * 0.1), 1.0\n}\n"
     "epilogue {\nr = state.r\nreturn $x / state.r\n}\nforward = exp($score * 0.1) / final.r",
     "            r = state.r + other.r\n            return 1.0, 1.0\n"},
    {"retention",
     "rowscale sum = 0.0\nrowscale r = 1.0\nfinal r\nonline_fwd {\n$1 = state.sum + "
     "rowsum(abs($score))\n"
     "$2 = max($1, 1.0)\nsum = $1\nr = $2\nreturn $score / $2, state.r / $2\n}\n"
     "epilogue {\nr = state.r\nreturn $x\n}\nforward = $score / stop_grad(final.r)",
     "        combine derived {\n"
     "            $1 = state.sum + other.sum\n"
     "            $2 = max($1, 1.0)\n"
     "            sum = $1\n"
     "            r = $2\n"
     "            return state.r / $2, other.r / $2\n"
     "        }\n"},
    {"two sums under one maximum",
     SOFTMAX_STATE "rowscale e = 0.0\nfinal e\nonline_fwd {\n$1 = max(state.m, rowmax($score))\n$2 "
                   "= exp(state.m - $1)\n"
                   "$3 = exp($score - $1)\nm = $1\nr = state.r * $2 + rowsum($3)\ne = state.e * $2 "
                   "+ rowsum($3 * $score)\n"
                   "return $3, $2\n}\nepilogue {\ne = state.e / state.r\nreturn $x / state.r\n}",
     "            e = state.e * $2 + other.e * $3\n"},
};

static void test_derivable(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof derivable / sizeof *derivable; i++) {
        Bench b = bench_new();
        AuAttn *a = with_online(&b, derivable[i].lines);
        const char *why = "";
        if (!attn_check_online(a, b.arena, &why)) fail_msg("%s: %s", derivable[i].name, why);
        if (!attn_derive_combine(a)) fail_msg("%s: combine is not derived", derivable[i].name);
        assert_true(a->online->combine_derived);
        if (!attn_verify(a, b.diags)) fail_msg("%s", bench_errors(&b));
        if (!strstr(bench_print(&b, a), derivable[i].combine))
            fail_msg("%s: expected\n%s\nfound\n%s", derivable[i].name, derivable[i].combine,
                     bench_print(&b, a));
        bench_free(&b);
    }
}

/* The derived one is the one that the library writes out, and both are what they should be. */
static void test_given_equals_derived(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *given = bench_read_file(&b, "mha.air"), *derived = bench_read_file(&b, "mha.air");
    derived->online->has_combine = false;
    assert_true(attn_derive_combine(derived));
    derived->online->combine_derived = false;
    attn_simplify(given);
    attn_simplify(derived);
    assert_string_equal(bench_print(&b, given), bench_print(&b, derived));
    bench_free(&b);
}

static const struct {
    const char *name, *lines;
} underivable[] = {
    {"a root of squares", "rowscale r = 0.0\nonline_fwd {\nr = sqrt(state.r * state.r + "
                          "rowsum($score * $score))\nreturn $score, 1.0\n}\n"
                          "epilogue {\nreturn $x / state.r\n}"},
    {"decays with each tile", "rowscale r = 0.0\nonline_fwd {\nr = state.r * 0.5 + "
                              "rowsum($score)\nreturn $score, 1.0\n}\nepilogue {\nreturn $x\n}"},
    {"a product", "rowscale r = 1.0\nonline_fwd {\nr = state.r * exp(rowsum($score))\nreturn "
                  "$score, 1.0\n}\nepilogue {\nreturn $x\n}"},
    {"the mean of tiles",
     "rowscale n = 0.0\nrowscale r = 0.0\nonline_fwd {\n$1 = state.n + rowsum(1.0)\nn = $1\n"
     "r = (state.r * state.n + rowsum($score)) / $1\nreturn $score, 1.0\n}\nepilogue {\nreturn "
     "$x\n}"},
};

static void test_underivable(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof underivable / sizeof *underivable; i++) {
        Bench b = bench_new();
        AuAttn *a = with_online(&b, underivable[i].lines);
        if (attn_derive_combine(a))
            fail_msg("%s: derived\n%s", underivable[i].name, bench_print(&b, a));
        assert_false(a->online->has_combine);
        if (!attn_verify(a, b.diags)) fail_msg("%s", bench_errors(&b));
        bench_free(&b);
    }
}

static const struct {
    const char *name, *lines, *law;
} broken[] = {
    {"a sum that is not rescaled",
     SOFTMAX_STATE "online_fwd {\n$1 = max(state.m, rowmax($score))\n$2 = exp($score - $1)\nm = "
                   "$1\nr = state.r + rowsum($2)\n"
                   "return $2, exp(state.m - $1)\n}\nepilogue {\nreturn $x / state.r\n}",
     "cut in two tiles: row scale 'r'"},
    {"an output that is not rescaled",
     SOFTMAX_STATE
     "online_fwd {\n$1 = max(state.m, rowmax($score))\n$2 = exp($score - $1)\nm = $1\n"
     "r = state.r * exp(state.m - $1) + rowsum($2)\nreturn $2, 1.0\n}\nepilogue {\nreturn $x / "
     "state.r\n}",
     "cut in two tiles: the output"},
    {"a sink that counts once a part",
     "rowscale m = 0.0\nrowscale r = 1.0\nonline_fwd {\n" SOFTMAX_TILE
     "}\nepilogue {\nreturn $x / state.r\n}\n"
     "combine {\n$1 = max(state.m, other.m)\n$2 = exp(state.m - $1)\n$3 = exp(other.m - $1)\nm = "
     "$1\n"
     "r = state.r * $2 + other.r * $3\nreturn $2, $3\n}",
     "joined by combine: row scale 'r'"},
    {"factors of combine exchanged",
     SOFTMAX_STATE "online_fwd {\n" SOFTMAX_TILE "}\nepilogue {\nreturn $x / state.r\n}\n"
                   "combine {\n$1 = max(state.m, other.m)\n$2 = exp(state.m - $1)\n$3 = "
                   "exp(other.m - $1)\nm = $1\n"
                   "r = state.r * $2 + other.r * $3\nreturn $3, $2\n}",
     "joined by combine: the output"},
    {"a closed form of something else",
     SOFTMAX_STATE "final lse\nonline_fwd {\n" SOFTMAX_TILE
                   "}\nepilogue {\nlse = state.m + log(state.r)\nreturn $x / state.r\n}\n"
                   "forward = exp2($score - final.lse)",
     "forward: the weights make"},
    {"never finite",
     "rowscale r = 0.0\nonline_fwd {\nr = state.r + rowsum(log(-abs($score)))\nreturn $score, "
     "1.0\n}\nepilogue {\nreturn $x\n}",
     "finite for too few"},
};

static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        Bench b = bench_new();
        AuAttn *a = with_online(&b, broken[i].lines);
        const char *why = "nothing";
        if (attn_check_online(a, b.arena, &why) || !strstr(why, broken[i].law))
            fail_msg("%s: expected '%s', found '%s'", broken[i].name, broken[i].law, why);
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derivable), cmocka_unit_test(test_given_equals_derived),
        cmocka_unit_test(test_underivable), cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
