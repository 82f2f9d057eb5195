/* text_test.c - the text form: what is printed reads back equal, and broken texts are refused, all
 * errors in one run. */
#include "support.h"

#include <math.h>
#include <string.h>

static const char *const files[] = {"mha.air", "everything.air", "gated_delta_net.air"};

/* A golden text is what its attention prints: the form is stable. */
static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Bench b = bench_new();
        const char *text = bench_file(&b, files[i]);
        bench_expect(&b, files[i], bench_print(&b, bench_read(&b, text)));
        bench_free(&b);
    }
}

/* ---- broken texts: each names the code and a part of the message */

static void expect_error(const char *text, const char *code, const char *message)
{
    Bench b = bench_new();
    const uint32_t source = au_source_add(b.diags, "test.air", text, strlen(text));
    AuAttn *a = attn_read(b.arena, b.names, b.diags, source);
    const char *errors = bench_errors(&b);
    if (a || !strstr(errors, code) || !strstr(errors, message))
        fail_msg("expected %s '%s', found\n%s\nin\n%s", code, message, a ? "nothing" : errors,
                 text);
    bench_free(&b);
}

/* Lines in the middle of a softmax attention. */
static const struct {
    const char *declarations, *lines, *code, *message;
} broken[] = {
    /* syntax */
    {"", "mask = kv_idx <=", "E0901", "expected an expression, found the end of the line"},
    {"", "mask = (kv_idx <= q_idx", "E0901", "expected ')'"},
    {"", "mask = kv_idx <= q_idx q_idx", "E0901", "expected the end of the line"},
    {"", "nonsense = 3", "E0901", "expected a part of an attention"},
    {"", "mask", "E0901", "expected '='"},
    {"", "score_mod = 1.5.2", "E0901", "'1.5.2' is not a number"},
    {"", "score_mod = $score ` 2.0", "E0901", "expected the end of the line"},
    {"input x: f64[B]", "", "E0901", "expected operand"},
    {"size = 3", "", "E0901", "expected a name"},
    /* names */
    {"", "mask = kv_idx <= nobody", "E0902", "unknown name 'nobody'"},
    {"", "score_mod = bias[h]", "E0902", "unknown tensor 'bias'"},
    {"", "score_mod = frobnicate($score)", "E0902", "unknown function 'frobnicate'"},
    {"", "score_mod = $1", "E0902", "$1 is not defined"},
    {"", "score_mod = $banana", "E0902", "after '$'"},
    {"", "score_mod = state.m", "E0902", "unknown row scale 'm'"}, /* online comes later */
    {"", "score_mod = q.m", "E0902", "before '.'"},
    {"", "score_mod = #90", "E0902", "no size #90"},
    {"", "score_mod {\nbanana\n}", "E0902", "expected '$n ='"},
    {"", "weight_mod = dropout($p, 0.1, seed_word(0, nobody), 3)", "E0902", "unknown seed"},
    {"", "score_mod = to_f32(q{b, x})", "E0902", "expected an axis"},
    /* counts */
    {"input bias: f32[H, S, T]", "score_mod = bias[h, q_idx]", "E0903",
     "'bias' has 3 axes, found 2 indices"},
    {"", "score_mod = exp($score, $score)", "E0903", "'exp' takes 1 arguments, found 2"},
    {"", "score_mod = dot(q[b, h], k[b, 0, kv_idx])", "E0903", "'q' has 4 axes"},
    {"input x: f32[1, 1, 1, 1, 1, 1, 1, 1, 1]", "", "E0903", "at most 8 axes"},
    {"param s: i64", "weight_mod = dropout($p, 0.1, seed_word(2, s), 3)", "E0903", "word 0 or 1"},
    /* numbers */
    {"", "mask = kv_idx < 2147483648", "E0905", "does not fit i32"},
    {"size W = -3", "", "E0905", "not negative"},
    {"size W = 99999999999999999999", "", "E0905", "too large"},
    /* twice, out of order */
    {"size B", "", "E0906", "'B' is declared twice"},
    {"param q: f32", "", "E0906", "'q' is declared twice"},
    {"", "mask = true\nmask = false", "E0906", "mask is given twice"},
    {"", "mask {\n$2 = kv_idx\nreturn $2 < 3\n}", "E0906", "expected $1, found $2"},
    {"", "online x {\n}", "E0906", "online is given twice"},
    /* types */
    {"", "mask = kv_idx", "E0910", "mask: expected bool, found i32"},
    {"", "score_mod = kv_idx", "E0910", "score_mod: expected f32, found i32"},
    {"", "score_mod = $score + kv_idx", "E0910", "argument 2 of 'add': expected f32, found i32"},
    {"", "score_mod = exp(kv_idx)", "E0910", "argument 1 of 'exp': expected f32, found i32"},
    {"", "mask = kv_idx && true", "E0910", "argument 1 of 'and': expected bool, found i32"},
    {"", "mask = true < false", "E0910", "argument 1 of 'lt'"},
    {"", "score_mod = where($score, 1.0, 2.0)", "E0910", "argument 1 of 'where': expected bool"},
    {"", "score_mod = where(true, 1.0, 2)", "E0910",
     "argument 3 of 'where': expected f32, found i32"},
    {"", "score_mod = $score / 2", "E0910", "argument 2 of 'div'"},
    {"input bias: f32[S]", "score_mod = bias[$score]", "E0910",
     "argument 1 of 'input': expected i32, found f32"},
    {"param p: i32 = 1.5", "", "E0910", "default: expected i32, found f32"},
    {"", "require = 3", "E0910", "require: expected bool, found i32"},
    {"", "q_mod = rope($x, $x < 3.0, 10000.0, 0, D)", "E0910", "argument 2 of 'rope'"},
    {"", "weight_mod = dropout($p, 1, 2, 3)", "E0910", "argument 2 of 'dropout'"},
    /* axes */
    {"", "q_mod = $x * to_f32(kv_idx)", "E0911", "q_mod cannot depend on kv_idx"},
    {"", "require = 0 < q_idx", "E0911", "require cannot depend on q_idx"},
    {"", "q_mod = rope($x, $c, 10000.0, 0, D)", "E0911",
     "argument 2 of rope depends on the channel"},
    {"", "score_mod = dot(q[b, h, kv_idx], k[b, h, kv_idx])", "E0911",
     "depends on the query first"},
    /* leaves without a meaning */
    {"", "mask = $score < 0.0", "E0912", "'$score' has no meaning in mask"},
    {"", "score_mod = $score + $p", "E0912", "'$p' has no meaning in score_mod"},
    {"", "score_mod = $x", "E0912", "'$x' has no meaning in score_mod"},
    {"", "score_mod = dropout($score, 0.1, 1, 2)", "E0912", "has no meaning in score_mod"},
    {"", "score_mod = rowmax($score)", "E0912", "'rowmax($score)' has no meaning in score_mod"},
    {"", "weight_mod = $p * dot(q[b, h, q_idx], k[b, h, kv_idx])", "E0912",
     "has no meaning in weight_mod"},
    {"", "mask = to_i32($c) < 3", "E0912", "'$c' has no meaning in mask"},
    {"", "k_mod = $x * to_f32(h)", "E0912", "'h' has no meaning in k_mod"},
    /* parts */
    {"input x: f32[B]\nvalue w: f32[B, H, S, D]", "", "E0913",
     "in the order query, key, value, inputs"},
    {"param s: f32", "weight_mod = dropout($p, 0.1, seed_word(0, s), 3)", "E0913",
     "a seed is an i64 parameter"},
    {"input pe: f32[B, H, S, 3]", "score_mod = dot(pe[b, h, q_idx], k[b, h, kv_idx])", "E0913",
     "are not the same"},
    {"", "linear {\n}", "E0913", "expected one of online and linear"},
    /* names that are taken by the text form */
    {"param kv_idx: f32", "", "E0914", "'kv_idx' cannot be a name"},
    {"size inf", "", "E0914", "'inf' cannot be a name"},
};

static void test_broken_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        Bench b = bench_new();
        expect_error(bench_softmax(&b, broken[i].declarations, broken[i].lines), broken[i].code,
                     broken[i].message);
        bench_free(&b);
    }
}

#define HEAD                                                                                       \
    "attention x {\nsize B\nsize S\nsize D\nquery q: f32[B, B, S, D]\nkey k: f32[B, B, S, D]\n"
#define BODY HEAD "value v: f32[B, B, S, D]\n"

static void test_broken_texts(void **state)
{
    (void)state;
    expect_error("", "E0901", "expected 'attention'");
    expect_error("attention", "E0901", "expected a name");
    expect_error("attention x", "E0901", "expected '{'");
    expect_error("attention x {", "E0901", "expected '}' at the end");
    expect_error("attention x {\n}", "E0913", "query, key and value are missing");
    expect_error(HEAD "}", "E0913", "query, key and value are missing");
    expect_error(BODY "}", "E0913", "expected one of online and linear");
    expect_error(HEAD "value v = 4:2: f32[B, B, S, D]\nonline y {\n}\n}", "E0905",
                 "the slice of the keys is empty");
    expect_error(BODY
                 "online y {\nrowscale m = 0.0\nfinal z\nonline_fwd {\nreturn $score, 1.0\n}\n}\n}",
                 "E0913", "the new value of 'm' is missing");
    expect_error(
        BODY
        "online y {\nfinal z\nonline_fwd {\nreturn $score, 1.0\n}\nepilogue {\nreturn $x\n}\n}\n}",
        "E0913", "the value of final 'z' is missing");
    expect_error(BODY "online y {\nonline_fwd {\nreturn $score, 1.0\n}\n}\n}", "E0913",
                 "the epilogue of 'y' is missing");
    expect_error(BODY "online y {\nepilogue {\nreturn $x\n}\n}\n}", "E0913",
                 "the weight of 'y' is missing");
    expect_error(BODY "online y {\nrowscale m = 0.0\nrowscale m = 0.0\n}\n}", "E0906",
                 "row scale 'm' is declared twice");
    expect_error(BODY "online y {\nfinal m\nfinal m\n}\n}", "E0906", "final 'm' is declared twice");
    expect_error(BODY "online y {\nrowscale m = to_f32(kv_idx)\nonline_fwd {\nm = $score\nreturn "
                      "$score, 1.0\n}\nepilogue {\nreturn $x\n}\n}\n}",
                 "E0911", "online_fwd cannot depend on kv_idx");
    expect_error(
        BODY "online y {\nonline_fwd {\nreturn $score, $score\n}\nepilogue {\nreturn $x\n}\n}\n}",
        "E0911", "online_fwd cannot depend on kv_idx");
    expect_error(BODY "linear {\nq = q{b, h, t, k}\nq = q{b, h, t, k}\n}\n}", "E0906",
                 "q is given twice");
    expect_error(BODY "linear {\nq = q{b, t}\n}\n}", "E0913",
                 "'q' does not have just the axes (b, t)");
    expect_error(BODY "linear {\nfoo = 1.0\n}\n}", "E0901", "expected a slot of a recurrence");
    expect_error(BODY "linear {\nq = $p\n}\n}", "E0912", "'$p' has no meaning in q");
    expect_error(BODY "mask = true\nlinear {\n}\n}", "E0913", "takes no modification but out_mod");
    expect_error(BODY "linear {\ndecay = to_f32($t)\nskip = to_f32(q_idx)\n}\n}", "E0911",
                 "skip cannot depend on q_idx");
}

/* ---- broken graphs, which no text can make */

static void break_argument(AuAttn *a)
{
    a->args[a->nodes[a->score_mod.i].first].i = a->score_mod.i;
}
static void break_none(AuAttn *a) { a->args[a->nodes[a->score_mod.i].first].i = 0; }
static void break_op(AuAttn *a) { a->nodes[a->score_mod.i].op = AU_OP_COUNT; }
static void break_arguments(AuAttn *a) { a->nodes[a->score_mod.i].first = a->arg_count; }
static void break_count(AuAttn *a) { a->nodes[a->score_mod.i].count = 1; }
static void break_root(AuAttn *a) { a->mask.i = a->node_count; }
static void break_input(AuAttn *a) { a->nodes[attn_arg(a, a->score_mod, 1).i].integer = 99; }
static void break_role(AuAttn *a) { a->tensors[1].role = AU_ROLE_V; }
static void break_rank(AuAttn *a) { a->tensors[0].rank = 3; }
static void break_next(AuAttn *a) { a->online->scales[1].next.i = 0; }
static void break_combine(AuAttn *a) { a->online->has_combine = true; }
static void break_name(AuAttn *a) { a->online->name = "two words"; }
static void break_both(AuAttn *a) { a->linear = AU_NEW(a->arena, AuLinear); }

static void break_size(AuAttn *a)
{
    a->mask = attn_op2(a, AU_OP_LT, attn_leaf(a, AU_OP_SIZE, AU_T_I32, 0, 50, 0, a->span),
                       attn_i32(a, 3, a->span), a->span);
}

static void break_index(AuAttn *a)
{
    a->mask = attn_op2(a, AU_OP_LT, attn_leaf(a, AU_OP_INDEX, AU_T_I32, 0, AU_AX_Q, 0, a->span),
                       attn_i32(a, 3, a->span), a->span);
}

static void break_state(AuAttn *a)
{
    a->online->rescale =
        attn_leaf(a, AU_OP_STATE, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, 2, 0, a->span);
}

static void break_element(AuAttn *a)
{
    a->out_mod = attn_leaf(a, AU_OP_ELEMENT, AU_T_F32, AU_AX_B | AU_AX_C, 0, 0, a->span);
}

static void test_broken_graphs(void **state)
{
    (void)state;
    const struct {
        void (*breaks)(AuAttn *a);
        const char *message;
    } graphs[] = {{break_argument, "is malformed"},
                  {break_none, "is malformed"},
                  {break_op, "is malformed"},
                  {break_arguments, "is malformed"},
                  {break_count, "'add' takes 2 arguments, found 1"},
                  {break_root, "mask is no node"},
                  {break_input, "'input' of a tensor that does not exist"},
                  {break_role, "tensors come in the order"},
                  {break_rank, "'q' needs 4 axes, found 3"},
                  {break_next, "the new value of 'r' is missing"},
                  {break_combine, "in combine, the value of 'm' is missing"},
                  {break_name, "'two words' cannot be a name"},
                  {break_both, "expected one of online and linear"},
                  {break_size, "'size' 50 does not exist"},
                  {break_index, "an index of no axis"},
                  {break_state, "'state' 2 does not exist"},
                  {break_element, "the element of out_mod has axes (b, channel)"}};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        Bench b = bench_new();
        AuAttn *a =
            bench_read(&b, bench_softmax(&b, "input bias: f32[H]", "score_mod = $score + bias[h]"));
        graphs[i].breaks(a);
        if (attn_verify(a, b.diags) || !strstr(bench_errors(&b), graphs[i].message))
            fail_msg("expected '%s', found\n%s", graphs[i].message, bench_errors(&b));
        bench_free(&b);
    }
}

/* All errors of a text come in one run. */
static void test_all_errors(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text =
        bench_softmax(&b, "size B\nparam p: f31", "mask = kv_idx <= nobody\nscore_mod = $score +");
    const uint32_t source = au_source_add(b.diags, "test.air", text, strlen(text));
    assert_null(attn_read(b.arena, b.names, b.diags, source));
    assert_int_equal(b.diags->errors, 4);
    assert_non_null(strstr(bench_errors(&b), "test.air:13:10: error E0901"));
    bench_free(&b);
}

/* Deep nesting is refused by the reader and cut into lets by the printer. */
static void test_depth(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText open = {.arena = b.arena};
    for (int i = 0; i < 100000; i++) au_text_add(&open, "(");
    expect_error(bench_softmax(&b, "", au_format(b.arena, "score_mod = %s", au_text_str(&open))),
                 "E0904", "deeper than 200");

    AuAttn *a = bench_read(&b, bench_softmax(&b, "", "score_mod = $score"));
    AuExpr e = a->score_mod;
    for (int i = 0; i < 3000; i++) e = attn_op1(a, AU_OP_SIN, e, a->span);
    for (int i = 0; i < 40; i++)
        e = attn_op2(a, AU_OP_ADD, e, e, a->span); /* 2^40 terms, were they written out */
    a->score_mod = e;
    const char *text = bench_print(&b, a);
    assert_string_equal(bench_print(&b, bench_read(&b, text)), text);
    AuText one = {.arena = b.arena};
    attn_print_expr(a, e, &one);
    assert_true(one.length < 1000);
    bench_free(&b);
}

/* Numbers keep their bits, whatever they are. */
static void test_numbers(void **state)
{
    (void)state;
    static const double numbers[] = {
        0.0, -0.0, 1e-45, 3.4028234663852886e38, 0.1, -1.0 / 3, 1e300, 5e-324, 123456789.0};
    Bench b = bench_new();
    AuAttn *a = bench_read(&b, bench_softmax(&b, "", ""));
    a->score_mod =
        attn_leaf(a, AU_OP_SCORE, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0, 0, a->span);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        a->score_mod =
            attn_op2(a, AU_OP_ADD, a->score_mod, attn_f32(a, numbers[i], a->span), a->span);
        a->score_mod = attn_op1(a, AU_OP_NEG, a->score_mod, a->span);
        a->score_mod = attn_op2(a, AU_OP_SUB,
                                attn_op1(a, AU_OP_NEG, attn_f32(a, -numbers[i], a->span), a->span),
                                a->score_mod, a->span);
    }
    const int32_t integers[] = {0, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++)
        a->score_mod = attn_where(a,
                                  attn_op2(a, AU_OP_LT, attn_i32(a, integers[i], a->span),
                                           attn_i32(a, 7, a->span), a->span),
                                  a->score_mod, attn_f32(a, (double)INFINITY, a->span), a->span);
    const char *text = bench_print(&b, a);
    const AuAttn *again = bench_read(&b, text);
    assert_string_equal(bench_print(&b, again), text);
    uint32_t found = 0;
    for (uint32_t i = 1; i < again->node_count; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            found += again->nodes[i].op == AU_OP_F32 &&
                     memcmp(&again->nodes[i].number, &numbers[k], sizeof(double)) == 0;
    assert_int_equal(found, sizeof numbers / sizeof *numbers);
    bench_free(&b);
}

/* Random changes to good texts: the reader says yes or no, and what it accepts reads back equal. */
static void test_mutations(void **state)
{
    (void)state;
    static const char *const pieces[] = {"$",       "{",
                                         "}",       "(",
                                         ")",       "[",
                                         "]",       ",",
                                         "=",       "-",
                                         "%",       "&&",
                                         "||",      "<",
                                         "1",       "0.5",
                                         "\n",      "$x",
                                         "$score",  "state.m",
                                         "online",  "rowscale r = 0.0\n",
                                         "return ", "9999999999",
                                         "rope(",   "dot(q[b, h, q_idx], k[b, h, kv_idx])",
                                         "where(",  "e",
                                         "#1",      "\x01",
                                         "\xff",    "size "};
    Random r = {1};
    uint32_t accepted = 0;
    for (int n = 0; n < 3000; n++) {
        Bench b = bench_new();
        const char *text = bench_file(&b, files[random_below(&r, 3)]);
        for (uint32_t k = 1 + random_below(&r, 3); k > 0; k--) {
            const uint32_t length = (uint32_t)strlen(text), at = random_below(&r, length + 1);
            uint32_t cut = random_below(&r, 4) == 0 ? random_below(&r, 40) : random_below(&r, 3);
            if (at + cut > length) cut = length - at;
            const char *piece =
                random_below(&r, 4) ? pieces[random_below(&r, sizeof pieces / sizeof *pieces)] : "";
            text = au_format(b.arena, "%.*s%s%s", (int)at, text, piece, text + at + cut);
        }
        const uint32_t source = au_source_add(b.diags, "mutant.air", text, strlen(text));
        AuAttn *a = attn_read(b.arena, b.names, b.diags, source);
        assert_true((a != NULL) == (b.diags->errors == 0));
        (void)bench_errors(&b);
        if (a) {
            accepted++;
            const char *once = bench_print(&b, a);
            assert_string_equal(bench_print(&b, bench_read(&b, once)), once);
        }
        bench_free(&b);
    }
    assert_true(accepted > 100);
}

/* The document names every operation and every place. */
static void test_document(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text = bench_file(&b, "../../../docs/dev/attention-ir.md");
    for (AuOp op = AU_NO_OP + 1; op < AU_OP_COUNT; op++)
        if (!strstr(text, au_format(b.arena, "`%s`", attn_op_info(op)->text)))
            fail_msg("docs/dev/attention-ir.md lacks `%s`", attn_op_info(op)->text);
    for (AuPlace place = AU_PLACE_Q_MOD; place <= AU_PLACE_COMBINE_B; place++)
        if (!strstr(text, au_format(b.arena, "`%s`", attn_place_info(place)->text)))
            fail_msg("docs/dev/attention-ir.md lacks `%s`", attn_place_info(place)->text);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_broken_lines),
        cmocka_unit_test(test_broken_texts), cmocka_unit_test(test_broken_graphs),
        cmocka_unit_test(test_all_errors),   cmocka_unit_test(test_depth),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_document)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
