/* schedules_test.c - what is asked of every schedule: that its kernels call all hooks that the attention has (mistakes are planted by telling
 * a real schedule that the attention has no such hook), and that its shape can be given as text. */
#include "scripts.h"
#include "shapes.h"

#include <string.h>

static const char *scripts;
static const char *left_out; /* by the planted schedule */

static bool is_left_out(const char *hook) { return strcmp(left_out, hook) == 0; }

static void forget(bool *has, const char *hook) { *has &= !is_left_out(hook); }

static AuSchedule *planted(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuShape *shape)
{
    AuProblem changed = *p;
    AuHooks hooks = *p->hooks;
    AuAttn attn = *p->attn;
    AuGrads grads = p->grads ? *p->grads : (AuGrads){0};
    forget(&hooks.has_q_mod, "q_mod");
    forget(&hooks.has_k_mod, "k_mod");
    forget(&hooks.has_v_mod, "v_mod");
    forget(&hooks.has_out_mod, "out_mod");
    forget(&hooks.has_mask, "mask");
    forget(&hooks.has_weight_mod, "weight_mod");
    if (is_left_out("score_mod")) attn.score_mod.i = 0;
    if (is_left_out("q_back")) grads.q = (AuRowGrad){0};
    if (is_left_out("k_back")) grads.k = (AuRowGrad){0};
    changed.hooks = &hooks, changed.attn = &attn;
    if (!p->grads) return schedule_lanes_forward(arena, diags, &changed, shape);
    changed.grads = &grads;
    return schedule_lanes_backward(arena, diags, &changed, shape);
}

/* With [hook] left out; NULL: with none. */
static void make(const Case *c, AuOperation operation, const char *hook)
{
    Session s = session_begin();
    Run *r = script_begin(&s, c, scripts, TILE_F32, 1);
    const AuTileCaps *caps = tile_caps("avx2");
    AuHooks *hooks = hooks_make(s.arena, s.diags, r->attn, caps, AU_HOOKS_OF_RESULTS);
    if (!hooks) fail_msg("%s", session_errors(&s));
    AuProblem p = script_problem(r, hooks, caps);
    if (operation == AU_BACKWARD) {
        p.grads = attn_gradients(r->attn, s.arena, s.diags);
        if (!p.grads || !hooks_backward(hooks, s.diags, r->attn, p.grads))
            fail_msg("%s", session_errors(&s));
    }
    const AuShape shape =
        operation == AU_FORWARD ? schedule_lanes_shape(&p) : schedule_lanes_back_shape(&p);
    const AuScheduleRow row = {.operation = operation, .build = planted};
    left_out = hook ? hook : "";
    const AuSchedule *made = schedule_make(s.arena, s.diags, &p, &row, &shape);
    const char *said = session_errors(&s);
    if (!hook && !made) fail_msg("%s: %s", c->script, said);
    if (hook && made) fail_msg("%s: nobody misses %s", c->script, hook);
    if (hook && !strstr(said, au_format(s.arena, "leaves out the hook '%s'", hook)))
        fail_msg("%s without %s: %s", c->script, hook, said);
    if (hook) assert_non_null(strstr(said, "schedule 'lanes_"));
    session_end(&s);
}

static void test_hooks(void **state)
{
    static const struct {
        Case script;
        AuOperation operation;
        const char *hooks[6]; /* until NULL */
    } all[] = {
        {{"gemma_local.attn", "B=1 H=2 Hk=2 S=8 T=9 D=16 E=16", "window=20"},
         AU_FORWARD,
         {"score_mod", "mask"}},
        {{"dropout.attn", "B=1 H=1 Hk=1 S=7 T=7 D=16 E=16", "rate=0.25 seed=123456789"},
         AU_FORWARD,
         {"weight_mod"}},
        {{"gated_qknorm.attn", "B=1 H=2 Hk=1 S=8 T=9 D=32", NULL},
         AU_FORWARD,
         {"q_mod", "k_mod", "out_mod"}},
        {{"gated_qknorm.attn", "B=1 H=2 Hk=1 S=8 T=9 D=32", NULL},
         AU_BACKWARD,
         {"q_mod", "k_mod", "q_back", "k_back"}},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        make(&all[n].script, all[n].operation, NULL);
        for (uint32_t h = 0; all[n].hooks[h]; h++)
            make(&all[n].script, all[n].operation, all[n].hooks[h]);
    }
}

/* ---- shapes as text */

/* What schedule_choose makes of an attention with rows of text; tuned or forced NULL: none. */
typedef struct Chosen {
    Session s;
    Run *r;
    AuProblem p;
    const AuSchedule *schedule; /* NULL: refused */
} Chosen;

static void choose(Chosen *c, const char *target, AuTileElem operand, AuOperation operation,
                   const char *tuned, const char *forced)
{
    static const Case mha = {"mha.attn", "B=1 H=2 Hk=1 S=33 T=57 D=64 E=64", NULL};
    c->s = session_begin();
    c->r = script_begin(&c->s, &mha, scripts, operand, 1);
    AuHooks *hooks =
        hooks_make(c->s.arena, c->s.diags, c->r->attn, tile_caps(target), AU_HOOKS_OF_RESULTS);
    AuShapes *shapes = shapes_new(c->s.arena, c->s.diags);
    if (!hooks || !shapes) fail_msg("%s", session_errors(&c->s));
    c->p = script_problem(c->r, hooks, tile_caps(target));
    if (operation == AU_BACKWARD) {
        c->p.grads = attn_gradients(c->r->attn, c->s.arena, c->s.diags);
        if (!c->p.grads || !hooks_backward(hooks, c->s.diags, c->r->attn, c->p.grads))
            fail_msg("%s", session_errors(&c->s));
    }
    c->p.shapes = shapes;
    c->p.boxes = c->p.caps->pipelines;
    c->schedule = NULL;
    if ((!tuned || shapes_read(shapes, c->s.diags, "tuned", tuned, strlen(tuned), SHAPES_TUNED)) &&
        (!forced ||
         shapes_read(shapes, c->s.diags, "given", forced, strlen(forced), SHAPES_FORCED)))
        c->schedule = schedule_choose(c->s.arena, c->s.diags, &c->p, operation);
}

/* Verified, and with the right numbers in the interpreter. */
static void test_forced(void **state)
{
    static const struct {
        const char *target, *row;
        AuTileElem operand;
    } all[] = {
        {"sm_80", "warps_forward: warps=2 rows=16 keys=32 stages=2 held=1 apart=0", TILE_BF16},
        {"sm_90", "warps_forward: warps=4 rows=16 keys=16 stages=1 held=0 apart=0", TILE_F16},
        {"sm_90", "lanes_forward: executors=2 registers=1 keys=16 product_rows=8 product_columns=1",
         TILE_BF16},
        {"avx2", "lanes_forward: executors=1 registers=4 keys=32 product_rows=4 product_columns=2",
         TILE_F32},
        {"sm_90a",
         "group_forward: groups=3 keys=48 stages=3 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         TILE_F16},
        {"sm_90a",
         "group_forward: groups=2 keys=32 stages=2 held=1 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=1 apart=1 stmatrix=1 producer=24 consumer=240",
         TILE_BF16},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Chosen c;
        choose(&c, all[n].target, all[n].operand, AU_FORWARD, NULL, all[n].row);
        if (!c.schedule) fail_msg("%s: %s", all[n].row, session_errors(&c.s));
        assert_string_equal(c.schedule->name, all[n].row);
        script_outputs(c.r, c.schedule);
        script_launch(c.r, c.schedule, all[n].target, n);
        script_check_outputs(c.r, all[n].target);
        session_end(&c.s);
    }
}

/* What a rule chose, forced, is the same program. */
static void test_rules_read_back(void **state)
{
    static const char *const targets[] = {"avx2",  "avx512", "simt32", "sm_75",
                                          "sm_80", "sm_90",  "sm_90a"};
    (void)state;
    for (uint32_t n = 0; n < 2 * sizeof targets / sizeof *targets - 1;
         n++) { /* the last: forward */
        Chosen c, again;
        const AuOperation operation = n % 2 ? AU_BACKWARD : AU_FORWARD;
        choose(&c, targets[n / 2], TILE_F16, operation, NULL, NULL);
        if (!c.schedule) fail_msg("%s: %s", targets[n / 2], session_errors(&c.s));
        choose(&again, targets[n / 2], TILE_F16, operation, NULL, c.schedule->name);
        if (!again.schedule) fail_msg("%s: %s", c.schedule->name, session_errors(&again.s));
        assert_string_equal(again.schedule->name, c.schedule->name);
        assert_true(tile_equal(again.schedule->module, c.schedule->module));
        session_end(&c.s);
        session_end(&again.s);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *row, *said;
    } all[] = {
        {"warps_forward: keys=24", "32 rows or 24 keys for 4 warps do not divide into mma16816"},
        {"warps_forward: keys=1024", "bytes of shared memory of 232448"},
        {"warps_forward: apart=1", "for few queries"},
        {"lanes_forward: executors=3", "tiles do not divide among 3 executors"},
        {"lanes_forward: registers=64", "registers a lane of 8192"},
        {"wraps_forward: keys=16", "given:1:1: error E0601: 'wraps_forward' is no schedule"},
        {"# first\n\n  warps_forward: key=16", "given:3:18: error E0601: 'key' is no key"},
        {"warps_forward: keys=16 keys=16", "given twice"},
        {"warps_forward: keys=0", "keys is 1 to 1024"},
        {"warps_forward: keys=123456", "at most 5 digits"},
        {"warps_forward: keys=-1", "at most 5 digits"},
        {"warps_forward: keys 16", "'=' is due"},
        {"warps_forward keys=16", "':' is due"},
        {"sm_90 bf16 64 64 warps_forward: keys=16", "'sm_90' is no schedule"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Chosen c;
        choose(&c, "sm_90", TILE_BF16, AU_FORWARD, NULL, all[n].row);
        const char *said = session_errors(&c.s);
        if (c.schedule || !strstr(said, all[n].said)) fail_msg("%s: %s", all[n].row, said);
        session_end(&c.s);
    }
}

/* The rule's shapes of groups: docs/dev/hopper.md has the table. */
static void test_groups(void **state)
{
    static const struct {
        const char *script, *sizes, *shape;
        bool short_rows;
    } all[] = {
        {"../../tile/scripts/full.attn", "D=64 E=64",
         "group_forward: groups=3 keys=128 stages=4 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"mha.attn", "D=64 E=64",
         "group_forward: groups=3 keys=128 stages=4 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"../../tile/scripts/full.attn", "D=64 E=64",
         "group_forward: groups=4 keys=64 stages=4 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=112",
         true},
        {"mha.attn", "D=64 E=64",
         "group_forward: groups=4 keys=64 stages=4 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=112",
         true},
        {"../../tile/scripts/full.attn", "D=96 E=96",
         "group_forward: groups=3 keys=112 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"mha.attn", "D=96 E=96",
         "group_forward: groups=3 keys=112 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"../../tile/scripts/full.attn", "D=128 E=128",
         "group_forward: groups=3 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"mha.attn", "D=128 E=128",
         "group_forward: groups=3 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=32 consumer=160",
         false},
        {"../../tile/scripts/full.attn", "D=192 E=128",
         "group_forward: groups=3 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=1 stmatrix=1 producer=32 consumer=160",
         false},
        {"mha.attn", "D=192 E=128",
         "group_forward: groups=3 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=1 stmatrix=1 producer=32 consumer=160",
         false},
        {"../../tile/scripts/full.attn", "D=128 E=256",
         "group_forward: groups=2 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=1 stmatrix=1 producer=24 consumer=240",
         false},
        {"mha.attn", "D=128 E=256",
         "group_forward: groups=2 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=1 stmatrix=1 producer=24 consumer=240",
         false},
        {"../../tile/scripts/full.attn", "D=192 E=192",
         "group_forward: groups=2 keys=112 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=24 consumer=240",
         false},
        {"mha.attn", "D=192 E=192",
         "group_forward: groups=2 keys=112 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=24 consumer=240",
         false},
        {"../../tile/scripts/full.attn", "D=256 E=256",
         "group_forward: groups=2 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=0 "
         "persistent=0 apart=0 stmatrix=1 producer=24 consumer=240",
         false},
        {"mha.attn", "D=256 E=256",
         "group_forward: groups=2 keys=80 stages=2 held=0 ahead=1 grown=1 lag=8 turns=1 passes=1 "
         "persistent=0 apart=0 stmatrix=1 producer=24 consumer=240",
         false},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Session s = session_begin();
        const Case c = {all[n].script, au_format(s.arena, "B=1 H=1 Hk=1 S=1 T=1 %s", all[n].sizes),
                        NULL};
        Run *r = script_begin(&s, &c, scripts, TILE_BF16, 1);
        AuHooks *hooks =
            hooks_make(s.arena, s.diags, r->attn, tile_caps("sm_90a"), AU_HOOKS_OF_RESULTS);
        AuProblem p = script_problem(r, hooks, tile_caps("sm_90a"));
        p.short_rows = all[n].short_rows;
        AuShape shape;
        const char *why;
        if (!schedule_group_forward_shape(s.arena, &p, &shape, &why))
            fail_msg("%s: %s", c.sizes, why);
        assert_string_equal(shape_text(s.arena, "group_forward", &shape), all[n].shape);
        session_end(&s);
    }
}

/* What has no kernels of boxes, and the words that `aule inspect` shows beside the schedule that makes it instead. */
static void test_no_boxes(void **state)
{
    static const struct {
        const char *script, *sizes, *target, *why; /* NULL: there are no boxes to ask for */
        AuTileElem operand;
    } all[] = {
        {"mha.attn", "D=24 E=40", "sm_90a", "widths 24 and 40 are no multiples of 16", TILE_F16},
        {"mha.attn", "D=64 E=320", "sm_90a", "of which one is above 256", TILE_F16},
        {"mha.attn", "D=64 E=64", "sm_90a", "no matrix unit of groups of warps for operands of f32",
         TILE_F32},
        {"../../tile/scripts/latent.attn", "H=1", "sm_90a", "values that are channels of the keys",
         TILE_BF16},
        {"mha.attn", "D=64 E=64", "sm_90", NULL, TILE_BF16},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Session s = session_begin();
        const Case c = {all[n].script, au_format(s.arena, "B=1 H=1 Hk=1 S=1 T=1 %s", all[n].sizes),
                        NULL};
        Run *r = script_begin(&s, &c, scripts, all[n].operand, 1);
        AuHooks *hooks =
            hooks_make(s.arena, s.diags, r->attn, tile_caps(all[n].target), AU_HOOKS_OF_RESULTS);
        const AuProblem p = script_problem(r, hooks, tile_caps(all[n].target));
        const char *why = NULL;
        assert_false(schedule_has_boxes(s.arena, &p, AU_FORWARD, &why));
        assert_int_equal(why != NULL, all[n].why != NULL);
        if (why && !strstr(why, all[n].why)) fail_msg("%s: %s", c.sizes, why);
        session_end(&s);
    }
}

typedef bool ShapeRule(AuArena *arena, const AuProblem *p, AuShape *out, const char **why);

/* What a rule has for a script's gradients on sm_90a: the row of its shape, or why there is none. */
static const char *backward_rule(Session *s, const char *script, const char *widths,
                                 const char *name, ShapeRule *rule, const AuProblem *asked)
{
    const Case c = {script, au_format(s->arena, "B=1 H=1 Hk=1 S=1 T=1 %s", widths), NULL};
    Run *r = script_begin(s, &c, scripts, TILE_BF16, 1);
    AuHooks *hooks =
        hooks_make(s->arena, s->diags, r->attn, tile_caps("sm_90a"), AU_HOOKS_OF_RESULTS);
    AuProblem p = script_problem(r, hooks, tile_caps("sm_90a"));
    p.grads = attn_gradients(r->attn, s->arena, s->diags);
    assert_true(hooks_backward(hooks, s->diags, r->attn, p.grads));
    p.deterministic = asked->deterministic;
    p.short_rows = asked->short_rows;
    AuShape shape;
    const char *why = NULL;
    return rule(s->arena, &p, &shape, &why) ? shape_text(s->arena, name, &shape) : why;
}

/* The rule's shapes of groups, backward, or why there is none. */
static void test_groups_backward(void **state)
{
    static const struct {
        const char *script, *sizes, *said;
        bool deterministic, short_rows;
    } all[] = {
        {"mha.attn", "D=64 E=64",
         "group_backward: groups=2 queries=128 stages=2 exchange=1 results=2 with_dq=1 held=0 "
         "ahead=1 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=40 consumer=232",
         false, false},
        {"../../../attn_scripts/sliding_window.attn", "D=64 E=64", /* whose range begins late */
         "queries=128 stages=2 exchange=1 results=2 with_dq=1 held=0 ahead=1 early=1 stmatrix=1 "
         "turned=1 "
         "boxes=1 sections=0 producer=24 consumer=240",
         false, false},
        {"../../tile/scripts/full.attn", "D=64 E=64",
         "exchange=1 results=2 with_dq=1 held=0 ahead=1 early=1 stmatrix=1 turned=1 boxes=1 ",
         false, false},
        {"../../tile/scripts/full.attn", "D=128 E=128",
         "exchange=1 results=2 with_dq=1 held=64 ahead=0 early=1 stmatrix=1 turned=1 boxes=1 ",
         false, false},
        {"../../tile/scripts/full.attn", "D=128 E=128", /* there is one shape for all lengths */
         "exchange=1 results=2 with_dq=1 held=64 ahead=0 early=1 stmatrix=1 turned=1 boxes=1 ",
         false, true},
        {"../../../attn_scripts/softcap.attn", "D=64 E=64",
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=0 "
         "ahead=1 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=40 consumer=232",
         false, false},
        {"../../../attn_scripts/softcap.attn", "D=128 E=128",
         "queries=64 stages=2 exchange=2 results=2 with_dq=1 held=0 ahead=1 early=1 ", false,
         false},
        {"../../../attn_scripts/sigmoid.attn", "D=128 E=128", /* its rows know nothing */
         "queries=64 stages=2 exchange=2 results=2 with_dq=1 held=0 ahead=0 early=1 ", false,
         false},
        {"mha.attn", "D=96 E=96",
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=32 "
         "ahead=0 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=40 consumer=232",
         false, false},
        {"mha.attn", "D=128 E=128",
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=32 "
         "ahead=0 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=24 consumer=240",
         false, false},
        {"mha.attn", "D=192 E=128", "fragments of 240 registers beside 24 others", false, false},
        {"mha.attn", "D=256 E=256", "where a consumer has 240", false, false},
        {"mha.attn", "D=48 E=48", "queries=128", false, false},
        {"mha.attn", "D=80 E=80", "groups=2 queries=64 stages=2 exchange=1 results=1 with_dq=0 ",
         false, false},
        {"mha.attn", "D=24 E=24", "are no multiples of 16", false, false},
        {"mha.attn", "D=128 E=128", "exchange=1 results=1 with_dq=0 held=32 ahead=0 ", true, false},
        {"../../../attn_scripts/alibi.attn", "D=64 E=64", "sums of inputs in one order", true,
         false},
        {"mha.attn", "D=192 E=128", "where a consumer has 240", true, false},
        {"mla_train.attn", "D=32 E=16 P=16", "further products", false, false},
        {"../../../attn_scripts/documents.attn", "D=64 E=64",
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=0 "
         "ahead=1 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=40 consumer=232",
         false, false},
        {"documents_bias_sink.attn", "D=64 E=64", "inputs that pairs read by their query", false,
         false},
        {"../../tile/scripts/pass.attn", "D=16 E=16", "a pass of their own", false, false},
        {"../../../attn_scripts/alibi.attn", "D=64 E=64",
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=0 "
         "ahead=1 "
         "early=1 stmatrix=1 turned=1 boxes=1 sections=0 producer=24 consumer=240",
         false, false},
        {"../../../attn_scripts/alibi.attn", "D=128 E=128", /* slopes' sums have no room beside */
         "group_backward: groups=2 queries=64 stages=2 exchange=1 results=2 with_dq=1 held=0 ",
         false, false},
        {"../../../attn_scripts/retention_true.attn", "D=128 E=128", "held=0 ahead=0 ", false,
         false},
        {"../../../attn_scripts/relative_bias.attn", "D=64 E=64 W=9",
         "inputs that pairs read by their query", false, false},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Session s = session_begin();
        const AuProblem asked = {.deterministic = all[n].deterministic,
                                 .short_rows = all[n].short_rows};
        const char *said = backward_rule(&s, all[n].script, all[n].sizes, "group_backward",
                                         schedule_group_backward_shape, &asked);
        if (!strstr(said, all[n].said)) fail_msg("%s %s: %s", all[n].script, all[n].sizes, said);
        session_end(&s);
    }
}

/* Of wide heads: parts by registers and shared memory, sections where sums of dQ are what takes longest. */
static void test_groups_back_wide(void **state)
{
    static const struct {
        const char *script, *sizes, *said;
        bool deterministic;
    } all[] = {
        {"mha.attn", "D=256 E=256", "parts=1 stages=2 exchange=1 results=1 with_dq=0 boxes=1 ",
         true},
        {"mha.attn", "D=192 E=128", "parts=1 stages=2 exchange=1 results=1 with_dq=0 boxes=1 ",
         true},
        {"mha.attn", "D=192 E=128",
         "parts=2 stages=2 exchange=2 results=2 with_dq=1 boxes=1 sections=1 ", false},
        {"mha.attn", "D=192 E=192",
         "parts=3 stages=2 exchange=2 results=2 with_dq=1 boxes=1 sections=0 ", false},
        {"mha.attn", "D=224 E=224",
         "parts=1 stages=2 exchange=1 results=1 with_dq=0 boxes=1 sections=0 ", false},
        {"mha.attn", "D=256 E=256",
         "parts=1 stages=2 exchange=1 results=1 with_dq=0 boxes=1 sections=0 ", false},
        {"mha.attn", "D=128 E=256",
         "parts=2 stages=2 exchange=2 results=2 with_dq=1 boxes=1 sections=0 ", false},
        {"../../../attn_scripts/alibi.attn", "D=256 E=256", "where a consumer has", false},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Session s = session_begin();
        const char *said = backward_rule(&s, all[n].script, all[n].sizes, "group_back_wide",
                                         schedule_group_back_wide_shape,
                                         &(AuProblem){.deterministic = all[n].deterministic});
        if (!strstr(said, all[n].said)) fail_msg("%s %s: %s", all[n].script, all[n].sizes, said);
        session_end(&s);
    }
}

/* What backward would compute otherwise, or in another order. */
static void test_refused_backward(void **state)
{
    static const struct {
        const char *target, *row, *said;
    } all[] = {
        {"sm_90", "lanes_backward: with_dq=1", "a kernel of their own"},
        {"avx2", "lanes_backward: with_dq=1 by_gradient=1", "a kernel of their own"},
        {"avx2", "lanes_backward: executors=2", "executors"},
        {"sm_90", "warps_backward: queries=24", "24 queries"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Chosen c;
        choose(&c, all[n].target, TILE_F16, AU_BACKWARD, NULL, all[n].row);
        const char *said = session_errors(&c.s);
        if (c.schedule || !strstr(said, all[n].said)) fail_msg("%s: %s", all[n].row, said);
        session_end(&c.s);
    }
    Chosen c;
    choose(&c, "simt32", TILE_F32, AU_BACKWARD, NULL, NULL);
    c.p.deterministic = true;
    AuShape shape = schedule_lanes_back_shape(&c.p);
    assert_null(schedule_lanes_back_refusal(&c.p, &shape));
    shape.executors = 2;
    assert_non_null(schedule_lanes_back_refusal(&c.p, &shape));
    session_end(&c.s);
}

/* Executors that share no memory cannot share tiles. */
static void test_without_shared_memory(void **state)
{
    static const char *const why = "no memory that the executors of a block share";
    (void)state;
    for (int32_t backward = 0; backward < 2; backward++) {
        Chosen c;
        choose(&c, "simt32", TILE_F32, backward ? AU_BACKWARD : AU_FORWARD, NULL, NULL);
        assert_non_null(c.schedule);
        AuTileCaps caps = *c.p.caps;
        caps.shared_bytes = 0;
        c.p.caps = &caps;
        AuShape shape = c.schedule->shape;
        const char *fit = backward ? schedule_lanes_backward_fit(c.s.arena, &c.p, &shape)
                                   : schedule_lanes_forward_fit(c.s.arena, &c.p, &shape);
        assert_string_equal(fit, why);
        assert_null(
            schedule_choose(c.s.arena, c.s.diags, &c.p, backward ? AU_BACKWARD : AU_FORWARD));
        const char *said = session_errors(&c.s);
        if (!strstr(said, why) || !strstr(said, "E0811")) fail_msg("%s", said);
        session_end(&c.s);
    }
}

static void test_tables(void **state)
{
    static const struct {
        const char *rows, *name;
    } all[] = {
        {NULL, "warps_forward: warps=4 rows=32 keys=96 stages=1 held=0 apart=0"},
        {"sm_90 bf16 64 64 warps_forward: keys=64 # shorter\n",
         "warps_forward: warps=4 rows=32 keys=64 stages=1 held=0 apart=0"},
        {"sm_90 bf16 64 64 warps_forward: keys=64\nsm_90 bf16 64 64 warps_forward: keys=32\n",
         "warps_forward: warps=4 rows=32 keys=32 stages=1 held=0 apart=0"},
        /* of others, or where it does not fit: the compiler's own */
        {"sm_80 bf16 64 64 warps_forward: keys=64\nsm_90 f16 64 64 warps_forward: keys=64\n"
         "sm_90 bf16 64 128 warps_forward: keys=64\nsm_90 bf16 64 64 warps_backward: warps=2\n",
         "warps_forward: warps=4 rows=32 keys=96 stages=1 held=0 apart=0"},
        {"sm_90 bf16 64 64 warps_forward: keys=1000\n",
         "warps_forward: warps=4 rows=32 keys=96 stages=1 held=0 apart=0"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Chosen c;
        choose(&c, "sm_90", TILE_BF16, AU_FORWARD, all[n].rows, NULL);
        if (!c.schedule) fail_msg("%s", session_errors(&c.s));
        assert_string_equal(c.schedule->name, all[n].name);
        session_end(&c.s);
    }
}

/* Texts with bytes changed, left out and cut off are read or refused, with a line. */
static void test_any_text(void **state)
{
    static const char good[] = "# mine\nsm_90 bf16 64 64 warps_forward: warps=4 rows=32\n"
                               "avx2 f32 128 128 lanes_backward: keys=32 with_dq=1 # so\n"
                               "sm_90a f16 64 64 long window group_forward: turns=0\n";
    static const char bytes[] = "\0\n #:=_-019aZ\xff\t\r";
    uint32_t random = 1, refused = 0;
    (void)state;
    for (uint32_t n = 0; n < 3000; n++) {
        Session s = session_begin();
        char text[sizeof good];
        size_t length = sizeof good - 1;
        memcpy(text, good, sizeof good);
        for (uint32_t k = 0; k < 1 + n % 4; k++) {
            random = random * 1664525 + 1013904223;
            text[(random >> 8) % length] = bytes[(random >> 24) % (sizeof bytes - 1)];
        }
        if (n % 5 == 0) length = (random >> 4) % length;
        AuShapes *shapes = shapes_new(s.arena, s.diags);
        const AuShapesAre which = n % 7 ? SHAPES_TUNED : SHAPES_FORCED;
        const bool read = shapes_read(shapes, s.diags, "any", text, length, which);
        assert_int_equal(read, s.diags->errors == 0);
        if (!read) assert_non_null(strstr(session_errors(&s), "any:"));
        refused += !read;
        session_end(&s);
    }
    assert_in_range(refused, 1000, 2999);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hooks),
                                       cmocka_unit_test(test_forced),
                                       cmocka_unit_test(test_rules_read_back),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_refused_backward),
                                       cmocka_unit_test(test_without_shared_memory),
                                       cmocka_unit_test(test_any_text),
                                       cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_no_boxes),
                                       cmocka_unit_test(test_groups_backward),
                                       cmocka_unit_test(test_groups_back_wide)};
    if (argc < 2) return 2;
    scripts = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
