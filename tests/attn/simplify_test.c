/* simplify_test.c - single rules, and random graphs whose value may not change. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "eval.h"

static const struct {
    const char *place, *before, *after;
} rules[] = {
    /* constants */
    {"score_mod", "$score * rsqrt(16.0) + to_f32(3 * 4 - 1)", "$score * 0.25 + 11.0"},
    {"score_mod", "$score * rsqrt(to_f32(W))", "$score * 0.125"}, /* a size that is fixed */
    {"mask", "kv_idx < W - 60 && 1 < 2", "kv_idx < 4"},
    {"mask", "kv_idx / 0 == 3 % 0", "kv_idx / 0 == 3 % 0"}, /* stays an error of whoever runs it */
    /* sums and products */
    {"score_mod", "1.0 * $score + 0.0", NULL},
    {"score_mod", "exp($score) - 0.0", "exp($score)"},
    {"score_mod", "exp($score) + -cos($score)", "exp($score) - cos($score)"},
    {"score_mod", "exp($score) - -cos($score)", "exp($score) + cos($score)"},
    {"score_mod", "$score * -1.0", "-$score"},
    {"score_mod", "-(-exp($score))", "exp($score)"},
    {"score_mod", "abs(-$score)", "abs($score)"},
    {"score_mod", "$score / 4.0", "$score * 0.25"},
    {"score_mod", "$score / 3.0", "$score / 3.0"},
    {"score_mod", "$score * 0.0", "$score * 0.0"}, /* nan and inf have another product */
    {"score_mod", "$score + 1.0 + 2.0", "$score + 1.0 + 2.0"}, /* another rounding */
    {"score_mod", "pow($score, 2.0)", "$score * $score"},
    {"score_mod", "pow($score, 1.0) + pow($score, 0.0)", "$score + 1.0"},
    {"score_mod", "pow($score, -1.0)", "1.0 / $score"},
    {"score_mod", "stop_grad(stop_grad($score))", "stop_grad($score)"},
    /* integers */
    {"mask", "kv_idx * 0 < q_idx - q_idx", "false"},
    {"mask", "kv_idx + 2 + 3 < q_idx * 2 * 3", "kv_idx + 5 < q_idx * 6"},
    {"mask", "kv_idx - 2 - 3 < 0 - q_idx", "kv_idx + -5 < -q_idx"},
    {"mask", "-(kv_idx - q_idx) < 0", "q_idx - kv_idx < 0"},
    {"mask", "kv_idx / 8 == q_idx % 8", "kv_idx >> 3 == (q_idx & 7)"},
    {"mask", "kv_idx / 1 == q_idx % 1", "kv_idx == 0"},
    {"mask", "kv_idx / 7 == q_idx % 7", "kv_idx / 7 == q_idx % 7"},
    {"mask", "max(kv_idx, 0) < min(max(q_idx, 3), 5)", "kv_idx < min(max(q_idx, 3), 5)"},
    /* logic */
    {"mask", "!(kv_idx < q_idx)", "q_idx <= kv_idx"},
    {"mask", "!(to_f32(kv_idx) < p)", "!(to_f32(kv_idx) < p)"}, /* nan */
    {"mask", "!(kv_idx == q_idx)", "kv_idx != q_idx"},
    {"mask", "!!(flag && kv_idx < 3)", "flag && kv_idx < 3"},
    {"mask", "flag && true && flag", "flag"},
    {"mask", "flag && false || kv_idx == kv_idx", NULL},
    {"mask", "where(!flag, kv_idx < 3, true)", "where(flag, true, kv_idx < 3)"},
    {"mask", "where(kv_idx < 3, false, true)", "3 <= kv_idx"},
    {"score_mod", "where(3 < 4, $score * 2.0, 0.0)", "$score * 2.0"},
    {"score_mod", "where(flag, exp($score), exp($score))", "exp($score)"},
    {"mask", "p < p || p != p", "p != p"},
};

/* What score_mod hides from the ranges: before, the mask, the score_mod that is left. */
static const struct {
    const char *before, *mask, *score_mod;
} hidden[] = {
    {"where(kv_idx <= q_idx, $score * 2.0, -inf)", "kv_idx <= q_idx", "$score * 2.0"},
    {"where(kv_idx <= q_idx, -inf, $score)", "q_idx < kv_idx", NULL},
    {"$score + where(kv_idx < 3, 0.0, -inf)", "kv_idx < 3", NULL},
    {"where(flag, -inf, p * 2.0) + exp($score)", "!flag", "exp($score) + p * 2.0"},
    {"where(flag, where(kv_idx < 3, $score, -inf), -inf)", "flag && kv_idx < 3", NULL},
    {"where($score < 1.0, $score, -inf)", NULL, "where($score < 1.0, $score, -inf)"},
    {"where(kv_idx < 3, $score, inf)", NULL, "where(kv_idx < 3, $score, inf)"},
    {"$score * where(kv_idx < 3, 0.0, -inf)", NULL, "$score * where(kv_idx < 3, 0.0, -inf)"},
};

static const char *place_text(Bench *b, const AuAttn *a, const char *place)
{
    const AuExpr e = strcmp(place, "mask") == 0 ? a->mask : a->score_mod;
    AuText text = {.arena = b->arena};
    if (!e.i) return NULL;
    attn_print_expr(a, e, &text);
    return au_text_str(&text);
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        Bench b = bench_new();
        const char *line = au_format(b.arena, "%s = %s", rules[i].place, rules[i].before);
        AuAttn *a = bench_read(
            &b, bench_softmax(&b, "size W = 64\nparam p: f32\nparam flag: bool\ninput x: f32[W]",
                              line));
        attn_simplify(a);
        if (!attn_verify(a, b.diags)) fail_msg("%s: %s", rules[i].before, bench_errors(&b));
        const char *found = place_text(&b, a, rules[i].place);
        const bool same =
            found && rules[i].after ? strcmp(found, rules[i].after) == 0 : found == rules[i].after;
        if (!same) fail_msg("%s: expected %s, found %s", rules[i].before, rules[i].after, found);
        bench_free(&b);
    }
}

static bool same_text(const char *x, const char *y) { return x && y ? strcmp(x, y) == 0 : x == y; }

static void test_hidden_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        Bench b = bench_new();
        const char *text = bench_softmax(&b, "param p: f32 = 0.5\nparam flag: bool = false",
                                         au_format(b.arena, "score_mod = %s", hidden[i].before));
        AuAttn *a = bench_read(&b, text);
        const char *sizes = "B=1 H=1 Hk=1 S=4 T=5 D=2 E=2";
        Case *before = case_new(&b, a, sizes, 1);
        case_run(&b, before);
        attn_simplify(a);
        const char *mask = place_text(&b, a, "mask"), *score_mod = place_text(&b, a, "score_mod");
        if (!same_text(mask, hidden[i].mask) || !same_text(score_mod, hidden[i].score_mod))
            fail_msg("%s: found mask %s, score_mod %s", hidden[i].before, mask, score_mod);
        Case *after = case_new(&b, a, sizes, 1);
        case_run(&b, after);
        for (size_t n = 0; n < 8; n++) expect_near(after->o[n], before->o[n], 0);
        bench_free(&b);
    }
}

/* Equal expressions are one node, x + y and y + x too; what nothing uses is gone. */
static void test_sharing(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = bench_read(
        &b, bench_softmax(
                &b, "", "score_mod = ($score * 2.0 + exp($score)) / (exp($score) + 2.0 * $score)"));
    attn_simplify(a);
    const AuExpr quotient = a->score_mod;
    assert_int_equal(attn_arg(a, quotient, 0).i, attn_arg(a, quotient, 1).i);
    const uint32_t nodes = a->node_count;
    for (int i = 0; i < 50; i++) attn_f32(a, i + 0.123, a->span);
    attn_simplify(a);
    assert_int_equal(a->node_count, nodes);
    bench_free(&b);
}

static void test_requires(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = bench_read(
        &b, bench_softmax(
                &b, "size W = 64\nrequire = W % 8 == 0\nrequire = S <= T\nrequire = W < 3", ""));
    attn_simplify(a);
    assert_int_equal(a->require_count, 2); /* the false one stays */
    bench_free(&b);
}

/* ---- random graphs */

typedef struct Pool {
    AuAttn *a;
    Random *r;
    AuExpr at[3][200]; /* by type: f32, i32, bool */
    uint32_t count[3];
} Pool;

static void put(Pool *p, AuExpr e)
{
    const uint32_t kind = attn_at(p->a, e)->type - AU_T_F32;
    if (p->count[kind] < 200) p->at[kind][p->count[kind]++] = e;
}

static AuExpr take(Pool *p, AuType type)
{
    const uint32_t kind = type - AU_T_F32;
    return p->at[kind][random_below(p->r, p->count[kind])];
}

static AuExpr random_node(Pool *p)
{
    const AuOp op = (AuOp)(AU_OP_ADD + random_below(p->r, AU_OP_COUNT - AU_OP_ADD));
    const AuOpInfo *info = attn_op_info(op);
    const AuType number = random_below(p->r, 2) ? AU_T_F32 : AU_T_I32;
    AuType types[3] = {AU_T_F32, AU_T_F32, AU_T_F32};
    if (info->rule == AU_RULE_T_I32) types[0] = types[1] = AU_T_I32;
    if (info->rule == AU_RULE_T_BOOL) types[0] = types[1] = AU_T_BOOL;
    if (info->rule == AU_RULE_T_NUM || info->rule == AU_RULE_T_CMP) types[0] = types[1] = number;
    if (info->rule == AU_RULE_T_CAST) types[0] = (AuType)(AU_T_F32 + random_below(p->r, 3));
    if (info->rule == AU_RULE_T_WHERE)
        types[0] = AU_T_BOOL, types[1] = types[2] = (AuType)(AU_T_F32 + random_below(p->r, 3));
    AuExpr args[3];
    for (uint32_t i = 0; i < info->count; i++) args[i] = take(p, types[i]);
    return attn_node(p->a, op, args, info->count, 0, 0, p->a->span);
}

static void random_leaves(Pool *p)
{
    static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -4.0, 1e4};
    static const int32_t integers[] = {0, 1, -1, 2, 8, 3, INT32_MAX, INT32_MIN};
    AuAttn *a = p->a;
    const AuSpan s = a->span;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put(p, attn_f32(a, numbers[i], s));
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        put(p, attn_i32(a, integers[i], s));
    put(p, attn_bool(a, true, s));
    put(p, attn_bool(a, false, s));
    for (int copies = 0; copies < 3; copies++) { /* as likely as the constants */
        put(p,
            attn_leaf(a, AU_OP_SCORE, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0, 0, s));
        put(p, attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_Q, AU_AX_Q, 0, s));
        put(p, attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_KV, AU_AX_KV, 0, s));
        put(p, attn_leaf(a, AU_OP_PARAM, AU_T_BOOL, 0, 0, 0, s));
        put(p, attn_leaf(a, AU_OP_SIZE, AU_T_I32, 0, attn_size_of(a, "T"), 0, s));
        put(p, attn_leaf(a, AU_OP_SIZE, AU_T_I32, 0, attn_size_of(a, "W"), 0, s));
    }
}

typedef struct At {
    double score, q_idx, kv_idx, flag;
    const int64_t *sizes;
} At;

static void leaf(void *user, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const At *at = user;
    const AuNode *n = s->node;
    (void)p, (void)count;
    s->value[0] = n->op == AU_OP_SCORE    ? at->score
                  : n->op == AU_OP_PARAM  ? at->flag
                  : n->op == AU_OP_SIZE   ? (double)at->sizes[n->integer]
                  : n->integer == AU_AX_Q ? at->q_idx
                                          : at->kv_idx;
}

/* Bits may differ where a power became a product: then by a rounding. */
static bool agree(double x, double y)
{
    return x == y || (x != x && y != y) || fabs(x - y) <= 1e-9 * (fabs(x) + fabs(y));
}

static void test_random_graphs(void **state)
{
    (void)state;
    Random r = {3};
    uint32_t before = 0, after = 0, compared = 0;
    for (int n = 0; n < 400; n++) {
        Bench b = bench_new();
        AuAttn *a =
            bench_read(&b, bench_softmax(&b, "size W = 16\nparam flag: bool\ninput w: f32[W]", ""));
        Pool p = {.a = a, .r = &r};
        random_leaves(&p);
        for (int i = 0; i < 60; i++) put(&p, random_node(&p));
        AuExpr e = p.at[0][p.count[0] - 1];
        const AuExpr made = attn_simplify_expr(a, e), roots[] = {e, made};
        const int64_t sizes[] = {1, 1, 4, 4, 1, 9, 4, 16};
        At at = {.sizes = sizes};
        AuProgram *program = attn_program_new(b.arena, a, roots, 2, 0, 1, leaf, &at);
        for (int i = 0; i < 20; i++) {
            at.score = i ? random_between(&r, -4, 4) : (double)NAN;
            at.q_idx = random_below(&r, 20), at.kv_idx = random_below(&r, 20),
            at.flag = random_below(&r, 2);
            attn_program_run(program, AU_CHANGED_ALL, 1);
            if (attn_step_trouble(program, program->roots[0], 0))
                continue; /* may have been simplified away */
            assert_null(attn_step_trouble(program, program->roots[1], 0));
            const double x = program->roots[0]->value[0], y = program->roots[1]->value[0];
            compared++;
            if (agree(x, y)) continue;
            AuText text = {.arena = b.arena};
            attn_print_expr(a, e, &text);
            au_text_add(&text, "\nbecame ");
            attn_print_expr(a, made, &text);
            fail_msg("%.17g became %.17g\n%s", x, y, au_text_str(&text));
        }
        a->score_mod = e;
        bool mark[1024] = {false};
        attn_mark(a, e, mark);
        for (uint32_t i = 1; i < a->node_count; i++) before += mark[i];
        memset(mark, 0, sizeof mark);
        attn_mark(a, made, mark);
        for (uint32_t i = 1; i < a->node_count; i++) after += mark[i];
        assert_true(attn_verify(a, b.diags));
        attn_simplify(a);
        if (!attn_verify(a, b.diags)) fail_msg("%s", bench_errors(&b));
        const char *once = bench_print(&b, a);
        assert_string_equal(bench_print(&b, bench_read(&b, once)), once);
        attn_simplify(a);
        assert_string_equal(bench_print(&b, a), once); /* nothing is left to do */
        bench_free(&b);
    }
    assert_true(compared > 4000 && after < before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules), cmocka_unit_test(test_hidden_masks),
        cmocka_unit_test(test_sharing), cmocka_unit_test(test_requires),
        cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
