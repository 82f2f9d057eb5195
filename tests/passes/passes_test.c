/* passes_test.c - every pass over the programs of several scripts: what it gives has a text that reads back as the same program, and
 * runs in the interpreter; results are those from before it, bit for bit where the table says so. */
#include "passes.h"
#include "scripts.h"

#include <math.h>
#include <string.h>

static const Case cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=130 D=32 E=32", NULL},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 Hk=1 S=70 T=130 D=32 E=32", NULL},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=70 T=130 D=32 E=32", "cap=3"},
    {"../../exec/scripts/two_caps.attn", "B=1 H=2 Hk=1 S=40 T=70 D=32 E=32",
     "first=1e20 second=1e20"},
    {"../../exec/scripts/capped_alone.attn", "B=1 H=2 Hk=1 S=40 T=70 D=32 E=32", NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=60 T=150 D=16 E=16", "window=20"},
    {"documents_bias_sink.attn", "B=2 H=1 S=90 T=90 D=16 E=16", NULL},
    {"dropout.attn", "B=1 H=1 Hk=1 S=37 T=77 D=16 E=16", "rate=0.25 seed=123456789"},
    {"sigmoid.attn", "B=1 H=1 S=40 T=90 D=16 E=16", NULL},
    {"retention.attn", "B=1 H=2 S=50 T=50 D=16 E=16", NULL},
};
static const char *const targets[] = {"avx512", "simt32", "sm_75", "sm_90", "sm_90a"};

static const char *scripts;

static const AuSchedule *schedule_for(Run *r, const char *target, AuOperation operation)
{
    const AuTileCaps *caps = tile_caps(target);
    AuHooks *hooks = hooks_make(r->s->arena, r->s->diags, r->attn, caps, AU_HOOKS_OF_RESULTS);
    if (!hooks) fail_msg("%s", session_errors(r->s));
    AuProblem *problem = AU_NEW(r->s->arena, AuProblem);
    *problem = script_problem(r, hooks, caps);
    if (operation == AU_BACKWARD) {
        problem->grads = attn_gradients(r->attn, r->s->arena, r->s->diags);
        if (!problem->grads || !hooks_backward(hooks, r->s->diags, r->attn, problem->grads))
            fail_msg("%s", session_errors(r->s));
    }
    problem->boxes = caps->pipelines; /* kernels of groups of warps, where there are such */
    const AuSchedule *out = schedule_choose(r->s->arena, r->s->diags, problem, operation);
    if (!out) fail_msg("%s", session_errors(r->s));
    return out;
}

static const AuSchedule *schedule_of(Run *r, const char *target)
{
    return schedule_for(r, target, AU_FORWARD);
}

/* The text is the program: read again it is equal, and determines options too. */
static void check_text(Session *s, const AuTileModule *m, const char *pass)
{
    AuText text = {.arena = s->arena};
    tile_print(m, &text);
    AuTileModule *again = read_text(s, pass, au_text_str(&text));
    if (again) again = tile_expand(s->arena, s->diags, again, NULL);
    if (!again || !tile_verify(s->diags, again, TILE_ALL_RULES))
        fail_msg("after %s: %s", pass, session_errors(s));
    AuText second = {.arena = s->arena};
    tile_print(again, &second);
    assert_string_equal(au_text_str(&text), au_text_str(&second));
    assert_memory_equal(&m->options, &again->options, sizeof m->options);
}

/* The outputs after the passes up to [pass]; NULL: before all. */
static AuTileTensor *outputs(Session *s, const Case *c, const char *target, const char *pass)
{
    Run *r = script_begin(s, c, scripts, TILE_F16, 3);
    AuSchedule schedule = *schedule_of(r, target);
    if (pass) {
        schedule.module = passes_run(s->arena, s->diags, schedule.module, pass);
        if (!schedule.module) fail_msg("%s", session_errors(s));
        check_text(s, schedule.module, pass);
    }
    script_outputs(r, &schedule);
    script_launch(r, &schedule, target, 5);
    return script_tensor(r, "o");
}

static size_t elements(const AuTileTensor *t)
{
    size_t count = 1;
    for (uint32_t d = 0; d < t->rank; d++) count *= (size_t)t->shape[d];
    return count;
}

static void compare(const AuTileTensor *before, const AuTileTensor *after, const AuPass *pass,
                    const Case *c, const char *target)
{
    const double bound = pass->same_bits ? 0 : 0x1p-9;
    double largest = 0;
    for (size_t n = 0; n < elements(before); n++)
        largest = fmax(largest, fabs((double)before->f32[n]));
    for (size_t n = 0; n < elements(before); n++)
        if (!(fabs((double)before->f32[n] - (double)after->f32[n]) <= bound * largest))
            fail_msg("%s on %s, after %s: o[%zu] is %g, not %g", c->script, target, pass->name, n,
                     (double)after->f32[n], (double)before->f32[n]);
}

static void test_target(void **state)
{
    uint32_t count;
    const AuPass *passes = passes_all(&count);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Session s = session_begin();
        const AuTileTensor *before = outputs(&s, &cases[n], *state, NULL);
        for (uint32_t i = 0; i < count; i++) {
            const AuTileTensor *after = outputs(&s, &cases[n], *state, passes[i].name);
            compare(before, after, &passes[i], &cases[n], *state);
            before = after;
        }
        session_end(&s);
    }
}

/* ---- lag: maxima that lie behind */

/* Keys whose scores grow tile by tile, from the last to the first, which is how tiles come: by as much as [step] in all. */
static void grow(Run *r, double step)
{
    AuTileTensor *k = script_tensor(r, "k"), *q = script_tensor(r, "q");
    const size_t d = (size_t)k->shape[3], t = (size_t)k->shape[2];
    for (size_t n = 0; n < elements(q); n++)
        if (n % d == 0) q->f32[n] = 4;
    for (size_t n = 0; n < elements(k); n++) {
        const double place = 1 - (double)(n / d % t) / (double)t;
        if (n % d == 0) k->f32[n] = (float)(step * place * sqrt((double)d) / 4);
    }
}

/* The first branch of `near` below, NULL: there is none. */
static AuTileStmt *look_in(const AuTileStmts *body)
{
    AuTileStmt *found = NULL;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count && !found; i++) found = look_in(parts.bodies[i]);
        if (s->kind == TILE_S_IF && s->branch.test->op == TILE_X_ANYWHERE &&
            strncmp(s->branch.test->args.at[0]->name, "near", 4) == 0)
            found = s;
    }
    return found;
}

/* The outputs where scores grow. [last]: the last pass; [blind]: nobody looks for maxima. */
static AuTileTensor *grown_outputs(Session *s, const Case *c, double step, const char *last,
                                   bool blind)
{
    Run *r = script_begin(s, c, scripts, TILE_BF16, 3);
    AuSchedule schedule = *schedule_of(r, "sm_90a");
    grow(r, step);
    schedule.module = passes_run(s->arena, s->diags, schedule.module, last);
    if (!schedule.module) fail_msg("%s", session_errors(s));
    for (uint32_t k = 0; k < schedule.module->kernels.count && blind; k++) {
        const AuTileKernel *kernel = schedule.module->kernels.at[k];
        AuTileStmt *look = look_in(&kernel->roles.at[kernel->roles.count - 1]->body);
        assert_non_null(look);
        look->branch.then.count = 0;
    }
    script_outputs(r, &schedule);
    script_launch(r, &schedule, "sm_90a", 5);
    return script_tensor(r, "o");
}

static double largest_difference(const AuTileTensor *a, const AuTileTensor *b)
{
    double largest = 0;
    for (size_t n = 0; n < elements(a); n++) {
        const double apart = fabs((double)a->f32[n] - (double)b->f32[n]);
        largest = apart <= largest ? largest : apart <= 1e30 ? apart : INFINITY;
    }
    return largest;
}

/* Little growth: references lie behind, and weights are rounded elsewhere. Much: without the branch that looks for the maximum weights are
 * infinite. */
static void test_lag(void **state)
{
    static const Case c = {"../../../bench/scripts/full.attn", "B=1 H=1 Hk=1 S=40 T=600 D=64 E=64",
                           NULL};
    (void)state;
    for (int much = 0; much < 2; much++) {
        Session s = session_begin();
        const double step = much ? 400 : 4;
        const AuTileTensor *exact = grown_outputs(&s, &c, step, "exponents", false),
                           *lagging = grown_outputs(&s, &c, step, "lag", false),
                           *blind = grown_outputs(&s, &c, step, "lag", true);
        const double apart = largest_difference(exact, lagging);
        if (!(apart <= 0x1p-6) || (!much && !(apart > 0)))
            fail_msg("growth of %g: outputs are %g apart", step, apart);
        const double unseen = largest_difference(exact, blind);
        if (much ? !(unseen > 1) : !(unseen <= 0x1p-6))
            fail_msg("growth of %g, not looked for: outputs are %g apart", step, unseen);
        session_end(&s);
    }
}

/* ---- statistics: what is made of rows */

static const char *backward_text(Session *s, const char *target, AuTileElem elem, const char *last)
{
    static const Case c = {"mha.attn", "B=1 H=1 Hk=1 S=64 T=128 D=64 E=64", NULL};
    Run *r = script_begin(s, &c, scripts, elem, 3);
    const AuTileModule *m = schedule_for(r, target, AU_BACKWARD)->module;
    AuText text = {.arena = s->arena};
    m = passes_run(s->arena, s->diags, m, last);
    if (!m) fail_msg("%s", session_errors(s));
    tile_print(m, &text);
    return au_text_str(&text);
}

/* Where tiles pass through registers the exponent of a row is made by a lane a row, as is the vote whether a row is far from 0. Elsewhere
 * nothing changes. */
static void test_statistics(void **state)
{
    static const char *const there[] = {
        "store exponent_all -> exponent_rows[", "exponent = load exponent_rows[0 +: 32] like score",
        "exponent_asked = load exponent_rows[0 +: 32] @ along_lanes", "if anywhere(far_asked) {",
        " = exponent\n"};
    (void)state;
    Session s = session_begin();
    const char *before = backward_text(&s, "gfx942", TILE_F16, "exponents"),
               *after = backward_text(&s, "gfx942", TILE_F16, "statistics");
    for (size_t n = 0; n < sizeof there / sizeof *there; n++) {
        assert_null(strstr(before, there[n]));
        if (!strstr(after, there[n])) fail_msg("no '%s' in\n%s", there[n], after);
    }
    /* In parts of a tile, too, all of whose rows come at once. */
    after = backward_text(&s, "gfx950", TILE_F16, "statistics");
    assert_non_null(strstr(after, "shared exponent_rows: f32[q:64]"));
    assert_non_null(strstr(after, "store exponent_all -> exponent_rows["));
    assert_non_null(strstr(after, "exponent = load exponent_rows[part * 32 +: 32] like score"));
    assert_null(strstr(after, "copy final_lse"));
    assert_string_equal(backward_text(&s, "sm_90", TILE_F16, "exponents"),
                        backward_text(&s, "sm_90", TILE_F16, "statistics"));
    session_end(&s);
}

/* Where a pipeline's producer brings rows through its lanes it makes their exponents, in a tile of the stages. The vote is asked before the
 * products start. */
static void test_statistics_of_stages(void **state)
{
    static const char *const there[] = {"row0: f32[q:128], exponent_rows: f32[q:128] }",
                                        "store row0_all -> y.row0[:]\n",
                                        "exponent_all = where(!(abs(row0_all * ",
                                        "store exponent_all -> y.exponent_rows[:]\n",
                                        "exponent = load y.exponent_rows[:] like score\n",
                                        "z = wait grad\n                exponent_asked = load "
                                        "y.exponent_rows[:] @ rows_along_lanes\n",
                                        "far_asked = exponent_asked == 0.0\n",
                                        "if anywhere(far_asked) {\n                    "
                                        "exponent_near = final0 * "};
    (void)state;
    Session s = session_begin();
    const char *before = backward_text(&s, "sm_90a", TILE_BF16, "exponents"),
               *after = backward_text(&s, "sm_90a", TILE_BF16, "statistics");
    for (size_t n = 0; n < sizeof there / sizeof *there; n++)
        if (!strstr(after, there[n])) fail_msg("no '%s' in\n%s", there[n], after);
    assert_null(strstr(before, "exponent_rows"));
    assert_non_null(strstr(before, "exponent = where(far, 0.0, exponent)"));
    assert_null(strstr(after, "exponent = where(far, 0.0, exponent)"));
    session_end(&s);
}

int main(int argc, char **argv)
{
    enum { COUNT = sizeof targets / sizeof *targets };
    if (argc < 2) return 2;
    scripts = argv[1];
    struct CMUnitTest tests[COUNT + 3] = {{0}};
    for (size_t i = 0; i < COUNT; i++)
        tests[i] =
            (struct CMUnitTest){targets[i], test_target, NULL, NULL, (void *)(uintptr_t)targets[i]};
    tests[COUNT] = (struct CMUnitTest){"lag", test_lag, NULL, NULL, NULL};
    tests[COUNT + 1] = (struct CMUnitTest){"statistics", test_statistics, NULL, NULL, NULL};
    tests[COUNT + 2] =
        (struct CMUnitTest){"statistics of stages", test_statistics_of_stages, NULL, NULL, NULL};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
