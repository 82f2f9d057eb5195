/* scripts_test.c - scripts through the front end, the schedules and the tiled interpreter, against the f64 oracle of the attention
 * IR: the rung of the ladder between the two. It needs no device, and finds races of schedules for devices that are not here. */
#include "scripts.h"

#include "group.h"

/* Those of this direction, behind script_cases. */
static const Case own_cases[] = {
    {"documents_bias_sink.attn", "B=2 H=1 S=90 T=90 D=16 E=16", NULL},
    {"../../tile/scripts/full.attn", "B=1 H=2 Hk=1 S=20 T=96 D=64 E=64", NULL},
};

enum { CASES = SCRIPT_CASES + sizeof own_cases / sizeof *own_cases };

static const Case *case_at(uint32_t n)
{
    return n < SCRIPT_CASES ? &script_cases[n] : &own_cases[n - SCRIPT_CASES];
}

static const char *const targets[] = {"avx2",   "avx512", "avx512bf16", "avx512amx", "neon",
                                      "simt64", "simt32", "simt16",     "simt8",     "simt1"};

/* Targets whose warps have matrix units: every script again, in the shape of the table and in shapes for it to fail in. */
static const char *const warp_targets[] = {"sm_75", "sm_80", "sm_86", "sm_90"};

static const AuShape warp_shapes[] = {
    {.executors = 2, .rows = 16, .key_tile = 32, .stages = 1},
    {.executors = 2, .rows = 32, .key_tile = 16, .stages = 2, .query_in_registers = true},
    {.executors = 4, .rows = 16, .key_tile = 64, .stages = 2},
    {.executors = 1, .rows = 16, .key_tile = 16, .stages = 1, .query_in_registers = true},
};

/* Groups of warps: scripts of widths that they take, by rule and in shapes for it to fail in. */
static const char *const group_targets[] = {"sm_90a"};

static const AuShape group_shapes[] = {
    {.executors = 2,
     .key_tile = 32,
     .stages = 2,
     .scores_ahead = true,
     .turns = true,
     .grown = true},
    {.executors = 1, .key_tile = 16, .stages = 1, .scores_ahead = true, .query_in_registers = true},
    {.executors = 3, .key_tile = 48, .stages = 3, .scores_ahead = true},
    {.executors = 2, .key_tile = 64, .stages = 1, .grown = true, .output_apart = true},
    {.executors = 2,
     .key_tile = 32,
     .stages = 2,
     .scores_ahead = true,
     .query_in_registers = true,
     .persistent = true,
     .output_apart = true},
    {.executors = 3, .key_tile = 16, .stages = 2, .scores_ahead = true, .turns = true},
};

static const char *scripts;
static bool quick;

static const AuSchedule *schedule_of(Run *r, const AuProblem *p, const AuShape *shape)
{
    const AuSchedule *out =
        shape ? schedule_warps_forward(r->s->arena, r->s->diags, p, shape) : NULL;
    if (!shape) {
        const AuShape lanes = schedule_lanes_shape(p);
        out = schedule_lanes_forward(r->s->arena, r->s->diags, p, &lanes);
    }
    if (!out) fail_msg("%s on %s: %s", r->c->script, p->caps->name, session_errors(r->s));
    return out;
}

/* Any shape of the test, or by rule. NULL: it does not fit. */
static const AuSchedule *group_schedule(Run *r, const AuProblem *p, uint32_t n)
{
    AuShape shape;
    const char *why = NULL;
    if (n == 0 && !schedule_group_forward_shape(r->s->arena, p, &shape, &why)) {
        const AuShape least = group_shapes[1];
        shape = least;
        group_complete(p, &shape);
        why = schedule_group_refusal(r->s->arena, p, &shape);
        if (!why) fail_msg("%s: no shape by rule, but one fits", r->c->script);
        return NULL;
    }
    if (n > 0) {
        shape = group_shapes[n - 1];
        group_complete(p, &shape);
        if (schedule_group_refusal(r->s->arena, p, &shape)) return NULL;
    }
    const AuSchedule *out = schedule_group_forward(r->s->arena, r->s->diags, p, &shape);
    if (!out) fail_msg("%s: %s", r->c->script, session_errors(r->s));
    return out;
}

static bool run_groups(const Case *c, const char *target, AuTileElem operand, uint32_t shape,
                       uint64_t seed)
{
    Session s = session_begin();
    Run *r = script_begin(&s, c, scripts, operand, seed);
    AuHooks *hooks = hooks_make(s.arena, s.diags, r->attn, tile_caps(target), AU_HOOKS_OF_RESULTS);
    if (!hooks) fail_msg("%s", session_errors(&s));
    const AuProblem problem = script_problem(r, hooks, tile_caps(target));
    const AuSchedule *schedule = group_schedule(r, &problem, shape);
    if (schedule) {
        script_outputs(r, schedule);
        script_launch(r, schedule, target, seed);
        script_check_outputs(r, target);
    }
    session_end(&s);
    return schedule != NULL;
}

/* [shape] 0: schedule lanes; 1: warps in the shape of the table; 2..: warps in shapes of this test. */
static void run_case(const Case *c, const char *target, AuTileElem operand, uint32_t shape,
                     uint64_t seed)
{
    AuShape of_table;
    const char *why = NULL;
    Session s = session_begin();
    Run *r = script_begin(&s, c, scripts, operand, seed);
    const AuTileCaps *caps = tile_caps(target);
    AuHooks *hooks = hooks_make(s.arena, s.diags, r->attn, caps, AU_HOOKS_OF_RESULTS);
    if (!hooks) fail_msg("%s", session_errors(&s));
    const AuProblem problem = script_problem(r, hooks, caps);
    if (shape == 1 && !schedule_warps_shape(s.arena, &problem, &of_table, &why))
        fail_msg("%s on %s: no shape, %s", c->script, target, why);
    if (shape > 1) of_table = warp_shapes[shape - 2];
    if (!(caps->copies & TILE_COPIES_LANES)) of_table.stages = 1;
    if (shape > 1 && schedule_warps_refusal(s.arena, &problem, &of_table)) {
        session_end(&s); /* wide heads do not fit all of them */
        return;
    }
    const AuSchedule *schedule = schedule_of(r, &problem, shape ? &of_table : NULL);
    script_outputs(r, schedule);
    script_launch(r, schedule, target, seed);
    script_check_outputs(r, target);
    session_end(&s);
}

static void test_target(void **state)
{
    static const AuTileElem operands[] = {TILE_F32, TILE_BF16, TILE_F16};
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t x = 0; x < 3; x++)
            if (!quick || x == n % 3) run_case(case_at(n), *state, operands[x], 0, n + x);
}

static void test_warps(void **state)
{
    const char *target = *state;
    const bool only_f16 = strcmp(target, "sm_75") == 0;
    const uint32_t shapes = 1 + sizeof warp_shapes / sizeof *warp_shapes;
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t shape = 1; shape <= shapes; shape++)
            if (!quick || shape == 1 + n % shapes)
                run_case(case_at(n), target, only_f16 || n % 2 ? TILE_F16 : TILE_BF16, shape,
                         n + shape);
}

static void test_groups(void **state)
{
    enum { SHAPES = 1 + sizeof group_shapes / sizeof *group_shapes, LEAST = 40 };
    uint32_t ran = 0;
    for (uint32_t n = 0; n < CASES; n++)
        for (uint32_t shape = 0; shape < SHAPES; shape++)
            if (!quick || shape == n % SHAPES)
                ran +=
                    run_groups(case_at(n), *state, n % 2 ? TILE_F16 : TILE_BF16, shape, n + shape);
    assert_true(ran >= LEAST / (quick ? SHAPES : 1));
}

int main(int argc, char **argv)
{
    enum {
        LANES = sizeof targets / sizeof *targets,
        WARPS = LANES + sizeof warp_targets / sizeof *warp_targets,
        COUNT = WARPS + sizeof group_targets / sizeof *group_targets
    };
    if (argc < 2) return 2;
    scripts = argv[1];
    quick = argc > 2;
    struct CMUnitTest tests[COUNT] = {{0}};
    for (size_t i = 0; i < COUNT; i++) {
        const char *target = i < LANES   ? targets[i]
                             : i < WARPS ? warp_targets[i - LANES]
                                         : group_targets[i - WARPS];
        tests[i] = (struct CMUnitTest){target,
                                       i < LANES   ? test_target
                                       : i < WARPS ? test_warps
                                                   : test_groups,
                                       NULL, NULL, (void *)(uintptr_t)target};
    }
    if (argc > 3) cmocka_set_test_filter(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
