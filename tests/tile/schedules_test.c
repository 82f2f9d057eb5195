/* schedules_test.c - what is asked of every schedule: that its kernels call all hooks that the attention has. The mistakes are planted by
 * telling a real schedule that the attention has no such hook. */
#include "scripts.h"

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
    AuHooks *hooks = hooks_make(s.arena, s.diags, r->attn, caps);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hooks)};
    if (argc < 2) return 2;
    scripts = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
