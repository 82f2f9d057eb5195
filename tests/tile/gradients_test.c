/* gradients_test.c - as scripts_test.c, backward: kernels of gradients in the tiled interpreter against the oracle of gradients. */
#include "scripts.h"

#include "group.h"
#include "warps_back.h"

/* Those of this direction, behind script_cases. */
static const Case own_cases[] = {
    {"documents_bias_sink.attn", "B=2 H=1 S=50 T=50 D=16 E=16", NULL},
    {"../../../attn_scripts/retention_true.attn", "B=1 H=2 S=60 T=60 D=16 E=32", NULL},
    {"../../tile/scripts/pass.attn", "B=1 H=4 Hk=2 S=70 T=90 D=16 E=24", NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=200 T=260 D=64 E=64", NULL},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=2 Hk=2 S=300 T=290 D=32 E=32",
     "window=70"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 Hk=2 S=90 T=140 D=32 E=32", NULL},
};

enum { CASES = SCRIPT_CASES + sizeof own_cases / sizeof *own_cases };

static const Case *case_at(uint32_t n)
{
    return n < SCRIPT_CASES ? &script_cases[n] : &own_cases[n - SCRIPT_CASES];
}

static const char *const targets[] = {"avx512", "simt32", "sm_75", "sm_80", "sm_86", "sm_90"};

static const AuShape shapes[] = {
    {.executors = 2,
     .rows = 16,
     .query_tile = 32,
     .stages = 2,
     .column_parts = 1,
     .query_parts = 1},
    {.executors = 2,
     .rows = 32,
     .query_tile = 32,
     .stages = 1,
     .column_parts = 2,
     .query_parts = 1},
    {.executors = 4,
     .rows = 16,
     .query_tile = 64,
     .stages = 2,
     .column_parts = 2,
     .query_parts = 1},
    {.executors = 4,
     .rows = 16,
     .query_tile = 32,
     .stages = 1,
     .column_parts = 1,
     .query_parts = 1},
};

/* For groups of warps. */
static const AuShape group_shapes[] = {
    {.executors = 2,
     .query_tile = 64,
     .stages = 2,
     .exchange_stages = 1,
     .result_stages = 2,
     .with_dq = true},
    {.executors = 2,
     .query_tile = 128,
     .stages = 1,
     .exchange_stages = 2,
     .result_stages = 1,
     .with_dq = true},
    {.executors = 2,
     .query_tile = 128,
     .stages = 1,
     .exchange_stages = 1,
     .result_stages = 1,
     .with_dq = true,
     .exchange_turned = true},
    {.executors = 1,
     .query_tile = 64,
     .stages = 3,
     .exchange_stages = 1,
     .result_stages = 1,
     .with_dq = true},
    {.executors = 3,
     .query_tile = 192,
     .stages = 1,
     .exchange_stages = 1,
     .result_stages = 1,
     .with_dq = true},
    {.executors = 3,
     .query_tile = 64,
     .stages = 2,
     .exchange_stages = 2,
     .result_stages = 1,
     .with_dq = true},
    {.executors = 2, .query_tile = 64, .stages = 2, .exchange_stages = 1, .result_stages = 1},
};

static const char *scripts;
static bool quick;

/* ---- what the forward leaves, and gradients given for it */

typedef struct Backward {
    double *o, *kept, *dout, *finals[MOST], *dfinals[MOST];
    double *want[MOST], *plain[MOST];
    int64_t rows, width;
} Backward;

static AuOracleCall call_of(const Run *r, double *o, double *const *finals)
{
    return (AuOracleCall){.sizes = r->sizes,
                          .tensors = (const double *const *)r->values,
                          .params = r->params,
                          .params_i64 = r->params_i64,
                          .o = o,
                          .finals = finals,
                          .round_to = AU_DT_OPERAND};
}

static void add(Run *r, const char *name, double *values, int64_t last, bool rounds)
{
    AuTileTensor *t = &r->tensors[r->count++];
    const int64_t *q = r->tensors[0].shape;
    const int64_t rows = q[0] * q[1] * q[2], count = rows * (last ? last : 1);
    *t = (AuTileTensor){.name = name,
                        .rank = last ? 4 : 3,
                        .shape = {q[0], q[1], q[2], last},
                        .f32 = AU_NEW_ARRAY(r->s->arena, float, count + 1)};
    for (int64_t n = 0; n < count; n++) {
        t->f32[n] = rounds ? script_rounded(r->operand, (float)values[n]) : (float)values[n];
        values[n] = (double)t->f32[n];
    }
}

static double *normals(Run *r, int64_t count)
{
    double *x = AU_NEW_ARRAY(r->s->arena, double, count + 1);
    for (int64_t n = 0; n < count; n++) x[n] = script_normal(r);
    return x;
}

static void forward(Run *r, Backward *b)
{
    const AuOnline *online = r->attn->online;
    const char *why = NULL;
    AuAttn plain = *r->attn;
    b->rows = 1;
    for (uint32_t d = 0; d < 3; d++) b->rows *= r->tensors[0].shape[d];
    b->width = (int64_t)attn_scalar(r->attn, r->attn->tensors[2].axes[3], r->sizes, r->params);
    b->o = AU_NEW_ARRAY(r->s->arena, double, b->rows * b->width + 1);
    b->kept = AU_NEW_ARRAY(r->s->arena, double, b->rows * b->width + 1);
    for (uint32_t f = 0; f < online->final_count; f++)
        b->finals[f] = AU_NEW_ARRAY(r->s->arena, double, b->rows + 1);
    const AuOracleCall call = call_of(r, b->o, b->finals), kept = call_of(r, b->kept, NULL);
    plain.out_mod = (AuExpr){0};
    if (!attn_interpret(r->attn, &call, r->s->arena, &why) ||
        !attn_interpret(&plain, &kept, r->s->arena, &why))
        fail_msg("oracle: %s", why);
    b->dout = normals(r, b->rows * b->width);
    add(r, "o", b->o, b->width, true);
    add(r, "o_kept", b->kept, b->width, true);
    add(r, "do", b->dout, b->width, true);
    for (uint32_t f = 0; f < online->final_count; f++) {
        const char *name = online->finals[f].name;
        b->dfinals[f] = normals(r, b->rows);
        add(r, au_format(r->s->arena, "final_%s", name), b->finals[f], 0, false);
        add(r, au_format(r->s->arena, "dfinal_%s", name), b->dfinals[f], 0, false);
    }
}

static void want(Run *r, const AuGrads *g, Backward *b)
{
    const AuDtype dtypes[] = {
        [TILE_F32] = AU_DT_F32, [TILE_F16] = AU_DT_F16, [TILE_BF16] = AU_DT_BF16};
    const char *why = NULL;
    for (uint32_t n = 0; n < r->attn->tensor_count; n++) {
        const AuTileTensor *t = &r->tensors[n];
        int64_t count = 1;
        for (uint32_t d = 0; d < t->rank; d++) count *= t->shape[d];
        if (n >= 3 && !r->attn->tensors[n].grad) continue;
        b->want[n] = AU_NEW_ARRAY(r->s->arena, double, count + 1);
        b->plain[n] = AU_NEW_ARRAY(r->s->arena, double, count + 1);
    }
    AuOracleCall call = call_of(r, NULL, NULL);
    for (int plain = 0; plain < 2; plain++) {
        if (plain) call.round_to = dtypes[r->operand];
        if (!attn_interpret_gradients(r->attn, g, &call, b->dout, (const double *const *)b->dfinals,
                                      plain ? b->plain : b->want, r->s->arena, &why))
            fail_msg("oracle: %s", why);
    }
}

/* ---- one case */

/* Workspace that is zeroed before the launch. */
static void zero_regions(Run *r, const AuSchedule *s)
{
    for (uint32_t n = 0; n < s->region_count; n++) {
        AuTileTensor *t = script_tensor(r, s->regions[n]);
        if (t && s->zeroed[n]) t->fresh = false;
    }
}

/* Which schedule: what is chosen, or one in a shape of this test or by rule (NULL). */
typedef enum Maker { CHOSEN, WARPS, GROUPS, WIDE } Maker;

/* NULL: the shape does not fit. */
static const AuSchedule *schedule_of(Session *s, const AuProblem *p, Maker maker,
                                     const AuShape *shape)
{
    AuShape given = shape ? *shape : (AuShape){0};
    const char *why;
    if (maker == CHOSEN) return schedule_choose(s->arena, s->diags, p, AU_BACKWARD);
    if (maker == WARPS) {
        if (!(p->caps->copies & TILE_COPIES_LANES)) given.stages = 1;
        if (schedule_warps_back_refusal(s->arena, p, &given)) return NULL;
        return schedule_warps_backward(s->arena, s->diags, p, &given);
    }
    if (maker == WIDE) {
        group_back_wide_complete(p, &given);
        if (schedule_group_back_wide_refusal(s->arena, p, &given)) return NULL;
        return schedule_group_back_wide(s->arena, s->diags, p, &given);
    }
    if (!shape && !schedule_group_backward_shape(s->arena, p, &given, &why)) return NULL;
    group_back_complete(p, &given);
    if (schedule_group_back_refusal(s->arena, p, &given)) return NULL;
    return schedule_group_backward(s->arena, s->diags, p, &given);
}

/* false: there is no such schedule for it. */
static bool run_case(const Case *c, const char *target, AuTileElem operand, Maker maker,
                     const AuShape *shape, bool deterministic, uint64_t seed)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    Session s = session_begin();
    Run *r = script_begin(&s, c, scripts, operand, seed);
    const AuTileCaps *caps = tile_caps(target);
    AuGrads *g = attn_gradients(r->attn, s.arena, s.diags);
    AuHooks *hooks = g ? hooks_make(s.arena, s.diags, r->attn, caps, AU_HOOKS_OF_RESULTS) : NULL;
    if (!hooks || !hooks_backward(hooks, s.diags, r->attn, g)) fail_msg("%s", session_errors(&s));
    AuProblem p = script_problem(r, hooks, caps);
    p.grads = g;
    p.deterministic = deterministic;
    const AuSchedule *schedule = schedule_of(&s, &p, maker, shape);
    if (s.diags->errors) fail_msg("%s on %s: %s", c->script, target, session_errors(&s));
    if (schedule) {
        Backward b = {0};
        forward(r, &b);
        want(r, g, &b);
        script_outputs(r, schedule);
        zero_regions(r, schedule);
        script_launch(r, schedule, target, seed);
        for (uint32_t n = 0; n < r->attn->tensor_count; n++)
            if (b.want[n] && !(n == 2 && r->attn->v_in_k))
                script_compare(r, target, n < 3 ? names[n] : au_format(s.arena, "grad_%u", n),
                               b.want[n], b.plain[n], 4);
    }
    session_end(&s);
    return schedule != NULL;
}

static void test_target(void **state)
{
    static const AuTileElem operands[] = {TILE_F32, TILE_BF16, TILE_F16};
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t x = 0; x < 3; x++)
            if (!quick || x == n % 3)
                run_case(case_at(n), *state, operands[x], CHOSEN, NULL, false, n + x);
}

/* Where all channels of a row are alike its 16-bit rounding is a single one and does not average out: the plain formula's error, once, says
 * little of it, by chance a fiftieth. Such a script is for the targets above. */
static bool averages_out(const Case *c) { return !strstr(c->script, "rows_alike"); }

/* Gradients of queries by kernels of their own. */
static void test_deterministic(void **state)
{
    for (uint32_t n = 0; n < CASES; n++)
        if (averages_out(case_at(n)) && (!quick || n % 3 == 0))
            run_case(case_at(n), *state, TILE_F16, CHOSEN, NULL, true, n);
}

/* In shapes for the schedule `warps` to fail in. */
static void test_shapes(void **state)
{
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t x = 0; x < sizeof shapes / sizeof *shapes; x++)
            if (averages_out(case_at(n)) && (!quick || x == n % 4))
                run_case(case_at(n), *state, TILE_F16, WARPS, &shapes[x], false, n + x);
}

/* By rule and in shapes for the schedule `group` to fail in. */
static void test_groups(void **state)
{
    enum { SHAPES = 1 + sizeof group_shapes / sizeof *group_shapes, LEAST = 20 };
    uint32_t ran = 0;
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t x = 0; x < SHAPES; x++)
            if (averages_out(case_at(n)) && (!quick || x == n % SHAPES))
                ran += run_case(case_at(n), *state, n % 2 ? TILE_F16 : TILE_BF16, GROUPS,
                                x ? &group_shapes[x - 1] : NULL, false, n + x);
    assert_true(ran >= LEAST / (quick ? SHAPES : 1));
}

/* The same of heads that two groups share: all widths do. */
static void test_wide(void **state)
{
    static const AuShape wide[] = {
        {.query_parts = 1, .stages = 2, .exchange_stages = 2, .result_stages = 1, .with_dq = true},
        {.query_parts = 4, .stages = 1, .exchange_stages = 1, .result_stages = 2, .with_dq = true},
        {.query_parts = 2, .stages = 2, .exchange_stages = 1, .result_stages = 1, .with_dq = true},
        {.query_parts = 1, .stages = 2, .exchange_stages = 1, .result_stages = 1}};
    enum { SHAPES = sizeof wide / sizeof *wide, LEAST = 20 };
    uint32_t ran = 0;
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t x = 0; x < SHAPES; x++)
            if (averages_out(case_at(n)) && (!quick || x == n % SHAPES))
                ran += run_case(case_at(n), *state, n % 2 ? TILE_F16 : TILE_BF16, WIDE, &wide[x],
                                false, n + x);
    assert_true(ran >= LEAST / (quick ? SHAPES : 1));
}

int main(int argc, char **argv)
{
    enum { TARGETS = sizeof targets / sizeof *targets, COUNT = TARGETS + 6 };
    if (argc < 2) return 2;
    scripts = argv[1];
    quick = argc > 2 && *argv[2];
    if (argc > 3) cmocka_set_test_filter(argv[3]);
    struct CMUnitTest tests[COUNT] = {
        [TARGETS] = {"shapes, sm_75", test_shapes, NULL, NULL, (void *)(uintptr_t) "sm_75"},
        {"shapes, sm_90", test_shapes, NULL, NULL, (void *)(uintptr_t) "sm_90"},
        {"deterministic, sm_75", test_deterministic, NULL, NULL, (void *)(uintptr_t) "sm_75"},
        {"deterministic, sm_90", test_deterministic, NULL, NULL, (void *)(uintptr_t) "sm_90"},
        {"groups, sm_90a", test_groups, NULL, NULL, (void *)(uintptr_t) "sm_90a"},
        {"wide, sm_90a", test_wide, NULL, NULL, (void *)(uintptr_t) "sm_90a"}};
    for (size_t i = 0; i < TARGETS; i++)
        tests[i] =
            (struct CMUnitTest){targets[i], test_target, NULL, NULL, (void *)(uintptr_t)targets[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
