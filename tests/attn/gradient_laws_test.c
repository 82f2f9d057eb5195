/* gradient_laws_test.c - wrong scripts: what attn_gradients refuses, and what attn_check finds, with the
 * clause, the numbers, and what would be right. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "findings.h"
#include "gradient.h"

#define HEAD                                                                                       \
    "attention test {\nsize B\nsize H\nsize S\nsize D\nsize T\nsize E\n"                           \
    "query q: f32[B, H, S, D]\nkey k: f32[B, H, T, D]\nvalue v: f32[B, H, T, E]\n"                 \
    "input w: f32[H] grad\n"
#define STATE "online test {\nrowscale m = -inf\nrowscale r = 0.0\nfinal lse\n"
#define TILE                                                                                       \
    "$1 = max(state.m, rowmax($score))\n$2 = exp(state.m - $1)\n$3 = exp($score - $1)\nm = $1\n"
#define FORWARD_TILE "online_fwd {\n" TILE "r = state.r * $2 + rowsum($3)\nreturn $3, $2\n}\n"
#define EPILOGUE     "epilogue {\nlse = state.m + log(state.r)\nreturn $x / state.r\n}\n"
#define FORWARD      "forward = exp($score - final.lse)\n"
#define END          "}\n}\n"

static const struct {
    const char *name, *text;
    AuCode code;
    const char *message, *note; /* parts of the error and of a note */
} refused[] = {
    {"an epilogue that adds",
     HEAD STATE FORWARD_TILE
     "epilogue {\nlse = state.m + log(state.r)\nreturn $x / state.r + 1.0\n}\n" FORWARD END,
     AU_E0420, "must be the output times a factor of the row", "out_mod"},
    {"an epilogue of the square",
     HEAD STATE FORWARD_TILE
     "epilogue {\nlse = state.m + log(state.r)\nreturn $x * $x / state.r\n}\n" FORWARD END,
     AU_E0420, "must be the output times a factor of the row", "out_mod"},
    {"forward in another base",
     HEAD STATE FORWARD_TILE EPILOGUE "forward = exp2($score - final.lse)\n" END, AU_E0421,
     "forward gives the weight", "exp($score - final.lse)"},
    {"forward without the sum", HEAD STATE FORWARD_TILE EPILOGUE "forward = exp($score)\n" END,
     AU_E0421, "online_fwd and its epilogue give", "exp($score - final.lse)"},
    {"backward without the sum",
     HEAD STATE FORWARD_TILE EPILOGUE FORWARD "backward = $p * $dp\n" END, AU_E0422,
     "the derivative is", "exp($score - final.lse) * ($dp + adjoint.lse)"},
    {"backward of the other sign",
     HEAD STATE FORWARD_TILE EPILOGUE FORWARD "backward = $p * ($dp + rowsum($dp * $p))\n" END,
     AU_E0422, "backward gives", "adjoint.lse = dfinal.lse - $delta"},
    {"backward that cancels where one weight is 1",
     HEAD "online test {\nrowscale r = 0.0\nfinal z\nonline_fwd {\n$1 = exp($score)\n"
          "r = state.r + rowsum($1)\nreturn $1, 1.0\n}\nepilogue {\nz = state.r\n"
          "return $x / state.r\n}\nforward = exp($score) / final.z\n"
          "backward = $p * ($dp - rowsum($dp * $p))\n" END,
     AU_CODE_COUNT, NULL, NULL},
    {"backward that is wrong by a millionth",
     HEAD STATE FORWARD_TILE EPILOGUE FORWARD
     "backward = $p * ($dp - rowsum($dp * $p) * 1.000001)\n" END,
     AU_E0422, "backward gives", NULL},
    {"a sum that no row scale holds",
     HEAD "online test {\nrowscale r = 0.0\nfinal f\nonline_fwd {\n"
          "r = state.r + rowsum(exp($score) * rowsum($score))\nreturn $score, 1.0\n}\n"
          "epilogue {\nf = state.r\nreturn $x\n}\nforward = $score * (1.0 + 0.0 * final.f)\n" END,
     AU_E0425, "the derivative of final 'f' needs a sum over the row", "the sum is rowsum($score)"},
    {"weights squared behind the normaliser",
     HEAD "weight_mod = $p * $p\n" STATE FORWARD_TILE EPILOGUE FORWARD END, AU_E0423,
     "must be proportional to the weight", NULL},
    {"weights that know the maximum",
     HEAD "online test {\nrowscale m = -inf\nfinal m\nonline_fwd {\n" TILE "return $3, $2\n}\n"
          "epilogue {\nm = state.m\nreturn $x\n}\nforward = exp($score - final.m)\n" END,
     AU_E0424, "the weights depend on this maximum", NULL},
    {"a position with a gradient",
     HEAD "q_mod = rope($x, w[h], 10.0, 0, 2)\n" STATE FORWARD_TILE EPILOGUE FORWARD END, AU_E0425,
     "no gradient goes through the position", NULL},
    {"a sum of sums",
     HEAD "online test {\nrowscale r = 0.0\nfinal f\nonline_fwd {\nr = state.r + rowsum($score)\n"
          "return $score, 1.0\n}\nepilogue {\nf = state.r * w[h]\nreturn $x\n}\nforward = "
          "$score * (1.0 + 0.0 * final.f)\n" END,
     AU_CODE_COUNT, NULL, NULL},
    {"never finite",
     HEAD "online test {\nrowscale r = 0.0\nonline_fwd {\nr = state.r + rowsum(log(-abs($score)))\n"
          "return $score, 1.0\n}\nepilogue {\nreturn $x\n}\nforward = $score\n" END,
     AU_E0425, "finite for too few random rows", NULL},
};

static bool has_note(const AuDiag *d, const char *part)
{
    for (const AuNoteText *n = d->notes; n; n = n->next)
        if (strstr(n->message, part)) return true;
    return false;
}

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Bench b = bench_new();
        AuAttn *a = bench_read(&b, refused[i].text);
        attn_simplify(a);
        const AuGrads *g = attn_gradients(a, b.arena, b.diags);
        const AuDiag *d = b.diags->first;
        if (refused[i].code == AU_CODE_COUNT) {
            if (!g) fail_msg("%s: %s", refused[i].name, bench_errors(&b));
        } else if (g || !d || d->code != refused[i].code ||
                   !strstr(d->message, refused[i].message) ||
                   (refused[i].note && !has_note(d, refused[i].note)))
            fail_msg("%s: expected '%s' with '%s', found %s", refused[i].name, refused[i].message,
                     refused[i].note ? refused[i].note : "", bench_errors(&b));
        bench_free(&b);
    }
}

/* What a final that is the maximum itself is worth: a warning, since one score alone moves it. */
static void test_held(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = bench_read(
        &b, HEAD "online test {\nrowscale m = -inf\nrowscale r = 0.0\nfinal m\n"
                 "final r\n" FORWARD_TILE "epilogue {\nm = state.m\nr = state.r\n"
                 "return $x / state.r\n}\nforward = exp($score - final.m) / final.r\n" END);
    attn_simplify(a);
    assert_non_null(attn_gradients(a, b.arena, b.diags));
    assert_int_equal(b.diags->errors, 0);
    assert_int_equal(b.diags->warnings, 2);
    assert_int_equal(b.diags->first->code, AU_W0402);
    assert_non_null(strstr(b.diags->first->message, "one given for it is refused"));
    bench_free(&b);
}

static const struct {
    const char *name, *text;
    const char *clause, *message, *right;
} found[] = {
    {"nothing", HEAD STATE FORWARD_TILE EPILOGUE FORWARD END, NULL, NULL, NULL},
    {"output not rescaled",
     HEAD STATE "online_fwd {\n" TILE
                "r = state.r * $2 + rowsum($3)\nreturn $3, 1.0\n}\n" EPILOGUE FORWARD END,
     "online_fwd", "a row cut in two tiles: the output is",
     "the factor of the output so far is exp(state.m - max(state.m, rowmax($score))), found 1.0"},
    {"sum not rescaled",
     HEAD STATE "online_fwd {\n" TILE
                "r = state.r + rowsum($3)\nreturn $3, $2\n}\n" EPILOGUE FORWARD END,
     "online_fwd", "row scale 'r' is",
     "r = r * exp(state.m - max(state.m, rowmax($score))) + rowsum"},
    {"rescaled by the reciprocal",
     HEAD STATE "online_fwd {\n" TILE
                "r = state.r * $2 + rowsum($3)\nreturn $3, 1.0 / $2\n}\n" EPILOGUE FORWARD END,
     "online_fwd", "the output is", "the factor of the output so far is exp(state.m - "},
    {"combine without rescaling",
     HEAD STATE FORWARD_TILE EPILOGUE FORWARD
     "combine {\n$1 = max(state.m, other.m)\nm = $1\nr = state.r + other.r\nreturn exp(state.m - "
     "$1), exp(other.m - $1)\n}\n" END,
     "combine", "two parts joined by combine: row scale 'r'",
     "r = state.r * exp(state.m - max(state.m, other.m)) + other.r *"},
    {"wrong forward", HEAD STATE FORWARD_TILE EPILOGUE "forward = exp($score)\n" END, "forward",
     "forward: the weights make", "exp($score - final.lse)"},
    {"wrong backward", HEAD STATE FORWARD_TILE EPILOGUE FORWARD "backward = $p * $dp\n" END,
     "backward", "the derivative is", "exp($score - final.lse) * ($dp + adjoint.lse)"},
};

static AuFindings run_check(Bench *b, AuAttn *a)
{
    Case *c = case_new(b, a, "B=1 H=2 S=3 T=4 D=4 E=2", 3);
    return attn_check(a, &c->call, b->arena, b->diags);
}

static void test_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        Bench b = bench_new();
        AuAttn *a = bench_read(&b, found[i].text);
        attn_simplify(a);
        const AuFindings f = run_check(&b, a);
        bool seen = !found[i].clause && f.count == 0 && f.has_differences;
        AuText all = {.arena = b.arena};
        for (uint32_t n = 0; n < f.count; n++) {
            const AuFinding *x = &f.at[n];
            const char *right = x->right ? x->right : "?";
            au_text_add(&all, "\n%s: %s (right: %s)", x->clause, x->message, right);
            seen |= found[i].clause && strcmp(x->clause, found[i].clause) == 0 &&
                    strstr(x->message, found[i].message) &&
                    (!found[i].right || strstr(right, found[i].right));
        }
        if (!seen) fail_msg("%s: found %s", found[i].name, au_text_str(&all));
        bench_free(&b);
    }
}

/* stop_grad is not differentiated, and says so; a changed gradient is found. */
static void test_differences(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = bench_read(
        &b,
        HEAD "score_mod = $score * stop_grad($score)\n" STATE FORWARD_TILE EPILOGUE FORWARD END);
    const AuFindings f = run_check(&b, a);
    assert_int_equal(f.count, 0);
    assert_false(f.has_differences);
    assert_non_null(strstr(f.why_not, "stop_grad"));
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_held),
                                       cmocka_unit_test(test_found),
                                       cmocka_unit_test(test_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
