/* rank_test.c - which of two shapes a model of cycles takes for the faster where both were measured, what a tile takes of a processor beside what profiles
 * counted, why shapes do not fit, and rows of tables with conditions: on what they hold and on what they do not. */
#include "rank.h"
#include "scripts.h"
#include "shapes.h"

#include <string.h>

static const char *scripts;

static const char full[] = "../../../bench/scripts/full.attn",
                  causal[] = "../../../bench/scripts/causal.attn",
                  window[] = "../../../bench/scripts/window.attn",
                  prefix[] = "../../../bench/scripts/prefix.attn",
                  documents[] = "../../../bench/scripts/documents.attn",
                  biased[] = "../../tile/scripts/window_bias.attn",
                  softcap[] = "../../../bench/scripts/softcap.attn";

typedef struct Asked {
    Session s;
    AuProblem p;
} Asked;

static void ask(Asked *a, const char *script, const char *widths, bool is_short, bool backward)
{
    a->s = session_begin();
    const Case c = {script, au_format(a->s.arena, "B=1 H=1 Hk=1 S=1 T=1 %s", widths),
                    strcmp(script, window) == 0   ? "window=8"
                    : strcmp(script, prefix) == 0 ? "prefix=1"
                                                  : NULL};
    Run *r = script_begin(&a->s, &c, scripts, TILE_BF16, 1);
    AuHooks *hooks =
        hooks_make(a->s.arena, a->s.diags, r->attn, tile_caps("sm_90a"), AU_HOOKS_OF_RESULTS);
    if (!hooks) fail_msg("%s", session_errors(&a->s));
    a->p = script_problem(r, hooks, tile_caps("sm_90a"));
    a->p.boxes = true, a->p.short_rows = is_short;
    if (!backward) return;
    a->p.grads = attn_gradients(r->attn, a->s.arena, a->s.diags);
    assert_true(a->p.grads && hooks_backward(hooks, a->s.diags, r->attn, a->p.grads));
}

static bool rule(Asked *a, const char *schedule, AuShape *out)
{
    const char *why = NULL;
    AuArena *arena = a->s.arena;
    return strcmp(schedule, "group_forward") == 0
               ? schedule_group_forward_shape(arena, &a->p, out, &why)
           : strcmp(schedule, "group_backward") == 0
               ? schedule_group_backward_shape(arena, &a->p, out, &why)
               : schedule_group_back_wide_shape(arena, &a->p, out, &why);
}

static const char *candidate(Asked *a, const char *schedule, AuShape *s)
{
    AuArena *arena = a->s.arena;
    s->producer_registers = s->consumer_registers = 0;
    return strcmp(schedule, "group_forward") == 0    ? group_forward_candidate(arena, &a->p, s)
           : strcmp(schedule, "group_backward") == 0 ? group_backward_candidate(arena, &a->p, s)
                                                     : group_back_wide_candidate(arena, &a->p, s);
}

/* The rule's shape with other keys; why it does not fit, or NULL. */
static const char *changed(Asked *a, const char *row, AuShape *out)
{
    AuShapes *shapes = shapes_new(a->s.arena, a->s.diags);
    const char *schedule = au_strndup(a->s.arena, row, strcspn(row, ":"));
    if (!shapes_read(shapes, a->s.diags, "row", row, strlen(row), SHAPES_FORCED))
        fail_msg("%s", session_errors(&a->s));
    assert_true(rule(a, schedule, out));
    shape_apply(shapes_row(shapes, &a->p, schedule, SHAPES_FORCED), out);
    return candidate(a, schedule, out);
}

static GroupCost cost(Asked *a, const char *row)
{
    AuShape s;
    GroupCost c;
    const char *why = changed(a, row, &s);
    if (why) fail_msg("%s: %s", row, why);
    assert_true(schedule_forecast(&a->p, au_strndup(a->s.arena, row, strcspn(row, ":")), &s, &c));
    return c;
}

/* Pairs of shapes that were measured in one process, where they were more than 4 % apart (docs/dev/performance-notes.md, "Groups of warps"): the first is the
 * faster. */
static void test_order(void **state)
{
    static const struct {
        const char *script, *widths;
        bool is_short, backward;
        const char *faster, *slower;
    } all[] = {
        {full, "D=64 E=64", false, false, "group_forward: groups=3 keys=128 stages=4 held=0",
         "group_forward: groups=4 keys=64 stages=4 held=0"},
        {full, "D=64 E=64", false, false, "group_forward: groups=3 keys=112 stages=4 held=0",
         "group_forward: groups=3 keys=80 stages=4 held=0"},
        {full, "D=64 E=64", false, false, "group_forward: groups=4 keys=64 stages=4 held=0",
         "group_forward: groups=4 keys=48 stages=4 held=0"},
        {full, "D=64 E=64", false, false, "group_forward: groups=4 keys=64 stages=4 held=0",
         "group_forward: groups=2 keys=128 stages=4 held=0"},
        {full, "D=64 E=64", true, false, "group_forward: groups=4 keys=64 stages=4 held=0",
         "group_forward: groups=3 keys=112 stages=4 held=0"},
        {causal, "D=64 E=64", true, false, "group_forward: groups=4 keys=64 stages=4 held=0",
         "group_forward: groups=3 keys=128 stages=4 held=0"},
        {causal, "D=64 E=64", true, false,
         "group_forward: groups=3 keys=128 stages=4 held=0 passes=1",
         "group_forward: groups=3 keys=128 stages=4 held=0 passes=0"},
        {full, "D=64 E=64", false, false,
         "group_forward: groups=3 keys=128 stages=4 ahead=1 turns=0",
         "group_forward: groups=3 keys=128 stages=4 ahead=0 turns=0"},
        {full, "D=128 E=128", false, false, "group_forward: groups=2 keys=128 stages=2 held=1",
         "group_forward: groups=2 keys=128 stages=2 held=0"},
        {full, "D=128 E=128", false, false, "group_forward: groups=3 keys=80 stages=2",
         "group_forward: groups=2 keys=128 stages=2 held=0"},
        {full, "D=128 E=128", false, false, "group_forward: groups=3 keys=80 stages=2 turns=0",
         "group_forward: groups=3 keys=80 stages=2 ahead=0 turns=0"},
        {causal, "D=128 E=128", true, false, "group_forward: groups=3 keys=80 stages=2 passes=1",
         "group_forward: groups=3 keys=80 stages=2 passes=0"},
        {full, "D=64 E=64", false, true, "group_backward: queries=128 exchange=1 results=1",
         "group_backward: queries=64 exchange=2 results=2"},
        {causal, "D=64 E=64", true, true, "group_backward: queries=128 exchange=2 results=1",
         "group_backward: queries=64 exchange=2 results=2"},
        {full, "D=128 E=128", false, true, "group_backward: held=64 exchange=2 results=2",
         "group_backward: held=0 exchange=2 results=2"},
        {full, "D=256 E=256", false, true,
         "group_back_wide: with_dq=1 parts=4 stages=2 exchange=2 results=1",
         "group_back_wide: with_dq=1 parts=4 stages=1 exchange=2 results=1"},
        {full, "D=256 E=256", false, true,
         "group_back_wide: with_dq=1 parts=4 stages=2 exchange=1 results=1",
         "group_back_wide: with_dq=1 parts=8 stages=2 exchange=1 results=1"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        ask(&a, all[n].script, all[n].widths, all[n].is_short, all[n].backward);
        const double first = cost(&a, all[n].faster).pair, second = cost(&a, all[n].slower).pair;
        if (!(first < .99 * second))
            fail_msg("%s %s: %s takes %.1f, %s %.1f", all[n].script, all[n].widths, all[n].faster,
                     first * 1024, all[n].slower, second * 1024);
        session_end(&a.s);
    }
}

/* What the profiler counted of shared memory (3200 and 3328 wavefronts a tile), and what products take at the documents' rate. */
static void test_counts(void **state)
{
    static const struct {
        const char *widths, *row;
        double units, shared, sums;
        const char *limit;
    } all[] = {
        {"D=128 E=128", "group_backward: held=0 exchange=2 results=2", 2560, 3200, 2275.6,
         "shared memory"},
        {"D=128 E=128", "group_backward: held=32 exchange=2 results=2", 2560, 3136, 2275.6,
         "shared memory"},
        {"D=64 E=64", "group_backward: queries=128 held=0 exchange=1 results=2", 2560, 3328, 2275.6,
         "shared memory"},
        {"D=256 E=256", "group_back_wide: with_dq=1 parts=4", 3072, 4352, 4551.1, "sums of dQ"},
        {"D=192 E=128", "group_back_wide: with_dq=1 parts=2", 2048, 3008, 3413.3, "sums of dQ"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        ask(&a, causal, all[n].widths, false, true);
        const GroupCost c = cost(&a, all[n].row);
        if (c.units != all[n].units || c.shared != all[n].shared || c.sums < all[n].sums - .1 ||
            c.sums > all[n].sums + .1 || strcmp(group_limit(&c), all[n].limit) != 0)
            fail_msg("%s %s: %.1f %.1f %.1f %s", all[n].widths, all[n].row, c.units, c.shared,
                     c.sums, group_limit(&c));
        session_end(&a.s);
    }
}

static void test_rejects(void **state)
{
    static const struct {
        const char *script, *widths, *row, *why;
        bool backward;
    } all[] = {
        {full, "D=128 E=128", "group_forward: groups=3 keys=96",
         "fragments of 136 registers beside 24 others, where a consumer has 160", false},
        {full, "D=256 E=256", "group_forward: groups=2 keys=80 stages=3",
         "313344 bytes of shared memory, where a block has 232448", false},
        {full, "D=128 E=128", "group_forward: keys=24", "24 keys a tile are no multiple of 16",
         false},
        {documents, "D=128 E=128", "group_forward: groups=3 keys=80 held=0",
         "registers for what pairs hold, of 35", false},
        {documents, "D=64 E=64", "group_forward: groups=3 keys=64 held=1",
         "queries in registers that pairs need", false},
        {softcap, "D=64 E=64", "group_backward: queries=128",
         "pairs that hold numbers of their own beside more than 64 queries", true},
        {full, "D=128 E=128", "group_backward: queries=128", "fragments of ", true},
        {full, "D=64 E=64", "group_backward: groups=3 queries=128", "do not divide among 3 groups",
         true},
        {full, "D=256 E=256", "group_back_wide: with_dq=1 parts=1", "fragments of ", true},
        {full, "D=256 E=256", "group_back_wide: with_dq=1 parts=4 exchange=2 results=2",
         "bytes of shared memory, where a block has 232448", true},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        AuShape s;
        ask(&a, all[n].script, all[n].widths, false, all[n].backward);
        const char *why = changed(&a, all[n].row, &s);
        if (!why || !strstr(why, all[n].why)) fail_msg("%s: %s", all[n].row, why ? why : "fits");
        session_end(&a.s);
    }
}

/* What is ranked fits, in order, and the rule's shape is among it; each reason stands at the first shape of its row. */
static void test_ranking(void **state)
{
    static const struct {
        const char *widths, *schedule;
        bool backward;
    } all[] = {{"D=64 E=64", "group_forward", false},
               {"D=192 E=128", "group_forward", false},
               {"D=64 E=64", "group_backward", true},
               {"D=192 E=128", "group_back_wide", true}};
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        AuShape like;
        AuRanking r;
        bool found = false;
        ask(&a, causal, all[n].widths, false, all[n].backward);
        assert_true(rule(&a, all[n].schedule, &like));
        assert_true(schedule_rank(a.s.arena, &a.p, all[n].schedule, &like, &r));
        assert_true(r.count > 5 && r.rejected_count > 5 && r.count + r.rejected_count <= r.tried);
        const char *text = shape_text(a.s.arena, all[n].schedule, &like);
        for (uint32_t i = 0; i < r.count; i++) {
            AuShape s = r.at[i].shape;
            assert_null(candidate(&a, all[n].schedule, &s));
            assert_true(!i || r.at[i - 1].cost.pair <= r.at[i].cost.pair);
            found |= strcmp(shape_text(a.s.arena, all[n].schedule, &s), text) == 0;
        }
        if (!found) fail_msg("%s is not ranked", text);
        for (uint32_t i = 0; i < r.rejected_count; i++) assert_true(*r.rejected[i].why);
        session_end(&a.s);
    }
}

/* Where rates are not known nothing is forecast, nor of schedules without a model. */
static void test_none(void **state)
{
    Asked a;
    AuShape like = {0};
    AuRanking r;
    GroupCost c;
    (void)state;
    ask(&a, causal, "D=64 E=64", false, false);
    assert_false(schedule_rank(a.s.arena, &a.p, "warps_forward", &like, &r));
    assert_false(schedule_forecast(&a.p, "lanes_forward", &like, &c));
    a.p.caps = tile_caps("sm_100a");
    assert_false(schedule_rank(a.s.arena, &a.p, "group_forward", &like, &r));
    a.p.caps = tile_caps("sm_90");
    assert_false(group_is_ranked(&a.p));
    session_end(&a.s);
}

/* ---- rows of tables with conditions */

/* Which of three rows is chosen, whose keys say so: 0: none is. */
static void test_conditions(void **state)
{
    static const char table[] = "sm_90a bf16 64 64 short group_forward: keys=16\n"
                                "sm_90a bf16 64 64 window group_forward: keys=32\n"
                                "sm_90a bf16 64 64 long causal group_forward: keys=48\n"
                                "sm_90a bf16 64 64 data short group_forward: keys=64\n"
                                "sm_90a bf16 64 64 full long group_forward: keys=80\n"
                                "sm_90a bf16 64 64 full warps_forward: keys=96\n"
                                "sm_90a bf16 64 64 long warps_forward: keys=112\n";
    static const struct {
        const char *script, *schedule;
        bool is_short, boxes;
        int32_t keys;
    } all[] = {
        {full, "group_forward", true, true, 16},      {full, "group_forward", false, true, 80},
        {causal, "group_forward", true, true, 16},    {causal, "group_forward", false, true, 48},
        {prefix, "group_forward", false, true, 48},   {window, "group_forward", true, true, 32},
        {window, "group_forward", false, true, 32},   {documents, "group_forward", true, true, 64},
        {documents, "group_forward", false, true, 0}, {full, "warps_forward", false, false, 96},
        {causal, "warps_forward", false, false, 0}, /* there are no long rows of their own */
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        AuShape s = {0};
        ask(&a, all[n].script, "D=64 E=64", all[n].is_short, false);
        a.p.boxes = all[n].boxes;
        AuShapes *shapes = shapes_new(a.s.arena, a.s.diags);
        assert_true(shapes_read(shapes, a.s.diags, "table", table, sizeof table - 1, SHAPES_TUNED));
        const AuShapeRow *row = shapes_row(shapes, &a.p, all[n].schedule, SHAPES_TUNED);
        if (row) shape_apply(row, &s);
        if (s.key_tile != all[n].keys)
            fail_msg("%s %s: keys=%d", all[n].script, all[n].schedule, s.key_tile);
        session_end(&a.s);
    }
}

/* The compiler's own rows of windows: of such masks and pairs, and of no others. */
static void test_own_rows(void **state)
{
    static const struct {
        const char *script, *widths;
        int32_t groups, keys;
    } all[] = {
        {window, "D=64 E=64", 4, 64},    {causal, "D=64 E=64", 3, 128},
        {window, "D=128 E=128", 3, 64},  {causal, "D=128 E=128", 3, 80},
        {window, "D=192 E=128", 3, 64},  {causal, "D=192 E=128", 3, 80},
        {window, "D=256 E=256", 2, 64},  {causal, "D=256 E=256", 2, 80},
        {window, "D=128 E=64", 3, 128},  {window, "D=96 E=96", 3, 112},
        {biased, "D=128 E=128", 2, 128},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        ask(&a, all[n].script, all[n].widths, false, false);
        a.p.shapes = shapes_new(a.s.arena, a.s.diags);
        const AuSchedule *made = schedule_choose(a.s.arena, a.s.diags, &a.p, AU_FORWARD);
        if (!made) fail_msg("%s", session_errors(&a.s));
        const char *said =
            au_format(a.s.arena, "group_forward: groups=%d keys=%d ", all[n].groups, all[n].keys);
        if (strncmp(made->name, said, strlen(said)) != 0)
            fail_msg("%s %s: %s", all[n].script, all[n].widths, made->name);
        session_end(&a.s);
    }
}

/* A variant for short rows is made where a table or the rule has another shape for them, and not where both are the same. */
static void test_short_variants(void **state)
{
    static const struct {
        const char *script, *widths, *table;
        bool has;
    } all[] = {
        {causal, "D=64 E=64", "", true},
        {causal, "D=128 E=128", "", false},
        {causal, "D=128 E=128", "sm_90a bf16 128 128 short group_forward: keys=64", true},
        {causal, "D=128 E=128", "sm_90a bf16 128 128 long group_forward: keys=64", true},
        {causal, "D=128 E=128", "sm_90a bf16 128 128 full short group_forward: keys=64", false},
        {causal, "D=128 E=128", "sm_90a bf16 128 128 group_forward: keys=64", false},
        {causal, "D=128 E=128", "sm_90a bf16 128 128 short group_forward: keys=24", false},
        {causal, "D=64 E=64",
         "sm_90a bf16 64 64 short group_forward: groups=3 keys=128 producer=32 consumer=160",
         false},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Asked a;
        ask(&a, all[n].script, all[n].widths, false, false);
        AuShapes *shapes = shapes_new(a.s.arena, a.s.diags);
        assert_true(shapes_read(shapes, a.s.diags, "table", all[n].table, strlen(all[n].table),
                                SHAPES_TUNED));
        a.p.shapes = shapes;
        if (schedule_has_short(a.s.arena, &a.p, AU_FORWARD) != all[n].has)
            fail_msg("%s %s: %s", all[n].script, all[n].widths, all[n].table);
        session_end(&a.s);
    }
}

static void test_wrong_conditions(void **state)
{
    static const struct {
        const char *row, *said;
    } all[] = {
        {"sm_90a bf16 64 64 causal full group_forward: keys=16",
         "table:1:26: error E0601: a row has one mask, and this has 'causal'"},
        {"sm_90a bf16 64 64 short causal short group_forward: keys=16",
         "table:1:32: error E0601: a row has one length, and this has 'short'"},
        {"sm_90a bf16 64 64 casual group_forward: keys=16",
         "table:1:19: error E0601: 'casual' is no schedule; expected warps_forward, "},
        {"sm_90a bf16 64 64 causal", "table:1:25: error E0601: '' is no schedule"},
        {"sm_90a bf16 64 64 tiny group_forward: keys=16",
         "; before it full, causal, window or data, short or long may stand"},
        {"sm_90a bf16 64 causal group_forward: keys=16", "table:1:16: error E0601: a number"},
        {"sm_90a bf16 causal 64 64 group_forward: keys=16", "table:1:13: error E0601: a number"},
    };
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        Session s = session_begin();
        AuShapes *shapes = shapes_new(s.arena, s.diags);
        assert_false(
            shapes_read(shapes, s.diags, "table", all[n].row, strlen(all[n].row), SHAPES_TUNED));
        const char *said = session_errors(&s);
        if (!strstr(said, all[n].said)) fail_msg("%s: %s", all[n].row, said);
        session_end(&s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_ranking),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_own_rows),
        cmocka_unit_test(test_short_variants),
        cmocka_unit_test(test_wrong_conditions),
    };
    if (argc < 2) return 2;
    scripts = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
