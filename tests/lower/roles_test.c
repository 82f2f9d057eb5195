/* roles_test.c - programs whose executors go different ways, with pipelines, bulk copies and products of groups, lowered, against
 * the interpreter of the tiled IR. planted_test.c has what is found where something is missing. */
#include "lowered.h"

static const char causal[] = "causal_softmax.hooks", common[] = "common.hooks";

typedef struct Shape {
    int32_t heads, key_heads, rows, keys;
} Shape;

/* [text]: the file's, changed; NULL: as it is. */
static void run_text(const char *file, const char *text, const char *hooks, Shape shape,
                     const AuTileOverride *consts, uint32_t const_count)
{
    const Size sizes[] = {{"B", 1},          {"H", shape.heads}, {"Hk", shape.key_heads},
                          {"S", shape.rows}, {"T", shape.keys},  {NULL, 0}};
    for (uint64_t seed = 0; seed < 3; seed++) {
        Session s = session_begin();
        lowered_check(&s, &(Lowered){.file = file,
                                     .text = text,
                                     .hooks = {common, causal, hooks},
                                     .sizes = sizes,
                                     .consts = consts,
                                     .const_count = const_count,
                                     .seed = seed});
        session_end(&s);
    }
}

static void run(const char *file, const char *hooks, Shape shape, const AuTileOverride *consts,
                uint32_t const_count)
{
    run_text(file, NULL, hooks, shape, consts, const_count);
}

static void test_hopper_forward(void **state)
{
    (void)state;
    run("hopper_forward.tile", NULL, (Shape){2, 1, 150, 150}, NULL, 0);
    run("hopper_forward.tile", NULL, (Shape){1, 1, 1, 1}, NULL, 0);
    run("hopper_forward.tile", NULL, (Shape){1, 1, 70, 331}, NULL, 0);
    run("hopper_forward.tile", NULL, (Shape){1, 1, 200, 70}, NULL, 0);
}

/* Products whose sums lie in tensor memory. */
static void test_blackwell_forward(void **state)
{
    (void)state;
    run("blackwell_forward.tile", NULL, (Shape){2, 1, 300, 150}, NULL, 0);
    run("blackwell_forward.tile", NULL, (Shape){1, 1, 1, 1}, NULL, 0);
    run("blackwell_forward.tile", NULL, (Shape){1, 1, 130, 331}, NULL, 0);
    run("blackwell_forward.tile", NULL, (Shape){1, 1, 257, 70}, NULL, 0);
}

static const char slopes[] =
    "fn slope_grad(dp, p, s, delta, b, h, i, j) = -abs(i + (T - S) - j) * p * (dp - delta)\n";

static void test_hopper_backward(void **state)
{
    (void)state;
    run("hopper_backward.tile", slopes, (Shape){2, 1, 70, 150}, NULL, 0);
    run("hopper_backward.tile", slopes, (Shape){1, 1, 1, 1}, NULL, 0);
    run("hopper_backward.tile", slopes, (Shape){2, 2, 130, 40}, NULL, 0);
}

/* Three groups of warps, tiles of other widths, one stage, rows of two parts. */
static void test_hopper_forward_shapes(void **state)
{
    (void)state;
    static const AuTileOverride groups[] = {{"W", 3}}, keys[] = {{"N", 80}},
                                stage[] = {{"N", 176}, {"STAGES", 1}},
                                wide[] = {{"D", 128}, {"E", 128}};
    const Shape shape = {1, 1, 150, 211};
    Session s = session_begin();
    const char *text =
        replaced(s.arena, example_text(s.arena, "hopper_forward.tile"), "regs 240", "regs 160");
    run_text("hopper_forward.tile", text, NULL, shape, groups, 1);
    session_end(&s);
    run("hopper_forward.tile", NULL, shape, keys, 1);
    run("hopper_forward.tile", NULL, shape, stage, 2);
    run("hopper_forward.tile", NULL, shape, wide, 2);
}

/* Fewer blocks than the grid has, so that one has several: barriers, rings and their turns go on. */
static void persistent(const char *file, const char *hooks, Shape shape, uint32_t processors)
{
    Session s = session_begin();
    const Size sizes[] = {{"B", 1},          {"H", shape.heads}, {"Hk", shape.key_heads},
                          {"S", shape.rows}, {"T", shape.keys},  {NULL, 0}};
    lowered_check(&s, &(Lowered){.file = file,
                                 .hooks = {common, causal, hooks},
                                 .sizes = sizes,
                                 .processors = processors,
                                 .seed = processors});
    session_end(&s);
}

static void test_persistent(void **state)
{
    (void)state;
    persistent("hopper_forward.tile", NULL, (Shape){2, 1, 300, 150}, 1);
    persistent("hopper_forward.tile", NULL, (Shape){2, 1, 300, 150}, 4);
    persistent("hopper_forward.tile", NULL, (Shape){3, 1, 150, 1}, 7);
    persistent("hopper_backward.tile", slopes, (Shape){2, 1, 70, 150}, 1);
}

static void refuses(const char *file, const char *old, const char *with, uint32_t which,
                    const char *what)
{
    Session s = session_begin();
    const Size sizes[] = {{"B", 1}, {"H", 1}, {"Hk", 1}, {"S", 1}, {"T", 1}, {NULL, 0}};
    const Lowered t = {.file = file,
                       .text = replaced(s.arena, example_text(s.arena, file), old, with),
                       .hooks = {common, causal, slopes},
                       .sizes = sizes};
    AuTileModule *m = lowered_module(&s, &t);
    assert_null(lowered_try(&s, &t, m, which));
    if (!strstr(session_errors(&s), what)) fail_msg("%s", session_errors(&s));
    session_end(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    refuses("hopper_forward.tile", "W = 2", "W = 3", 0, "registers of 512 lanes' roles");
    refuses("hopper_backward.tile", "swizzle 64", "swizzle 128", 1,
            "inside of a row of its swizzle");
    refuses("hopper_forward.tile", "K: bf16[kv:N, d:D] swizzle 128", "K: bf16[kv:N, d:D]", 0,
            "operand K of wgmma has no swizzle");
    refuses("blackwell_forward.tile", "range(0, 2) {\n            w = wait",
            "range(0, hk * 0 + 2) {\n            w = wait", 0,
            "a stage of weights whose turn is not said");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hopper_forward),    cmocka_unit_test(test_hopper_forward_shapes),
        cmocka_unit_test(test_hopper_backward),   cmocka_unit_test(test_persistent),
        cmocka_unit_test(test_blackwell_forward), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
