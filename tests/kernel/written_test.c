/* Which loops over arrays of lanes a device's generator writes out: those that index the arrays that are used most, within the limit. */
#include "kernel_test.h"

/* `hot` is used in a loop whose turns are not known; `cold` before it; `far` is indexed by that loop itself, so it never becomes
 * registers; `wide` has more words than a lane has registers. */
#define BODY                                                                                       \
    "memory @g: global f32 reads writes\n"                                                         \
    "memory @hot: lane f32[32]\nmemory @cold: lane f32[32]\n"                                      \
    "memory @far: lane f32[64]\nmemory @wide: lane f32[512]\n"                                     \
    "arg g: pointer @g\narg n: i32\n"                                                              \
    "{\n"                                                                                          \
    "  %1.n = arg.i32 #1\n"                                                                        \
    "  for %2.cold = 0 to 32 step 1 unroll never {\n"                                              \
    "    store @cold[%2], 0.0\n"                                                                   \
    "  }\n"                                                                                        \
    "  for %3.wide = 0 to 512 step 1 unroll never {\n"                                             \
    "    store @wide[%3], 0.0\n"                                                                   \
    "  }\n"                                                                                        \
    "  for %4.turns = 0 to %1 step 1 {\n"                                                          \
    "    store @far[%4], 0.0\n"                                                                    \
    "    for %5.hot = 0 to 32 step 1 unroll never {\n"                                             \
    "      %6 = mul.i32 %5, 1\n"                                                                   \
    "      store @hot[%6], 1.0\n"                                                                  \
    "    }\n"                                                                                      \
    "    for %7.far = 0 to 64 step 1 unroll never {\n"                                             \
    "      %8 = load.f32 @far[%7]\n"                                                               \
    "      store @g[%7], %8\n"                                                                     \
    "    }\n"                                                                                      \
    "    for %9.other = 0 to 32 step 1 {\n"                                                        \
    "      store @g[%9], 1.0\n"                                                                    \
    "    }\n"                                                                                      \
    "  }\n"                                                                                        \
    "}\n"

/* The names of the loops that are written out, in the order of the text. */
static void expect_loops(const char *limit, const char *expected)
{
    Bench b = bench_new();
    const AuKernel *k =
        bench_kernel(&b, au_format(b.arena, "kernel k lanes 32 warps 1%s\n%s", limit, BODY));
    const bool *loops = kernel_written(k, b.arena, KERNEL_LANE_WORDS);
    AuText found = {.arena = b.arena};
    for (uint32_t i = 1; loops && i < k->instr_count; i++)
        if (loops[i]) au_text_add(&found, "%s ", k->instrs[i].text);
    assert_string_equal(loops ? (found.length ? au_text_str(&found) : "") : "all or none",
                        expected);
    bench_free(&b);
}

static void what_is_used_most_comes_first(void **state)
{
    (void)state;
    expect_loops("", "all or none");
    expect_loops(" written 1000", "cold hot ");
    expect_loops(" written 180", "hot ");
    expect_loops(" written 20", "");
}

static void the_limit_is_read_and_printed(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    kernel_print(
        bench_kernel(&b, "kernel k lanes 32 warps 1 written 95 paced 4 resident 2\n{\n}\n"), &text);
    assert_non_null(
        strstr(au_text_str(&text), "kernel k lanes 32 warps 1 written 95 paced 4 resident 2\n"));
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_used_most_comes_first),
                                       cmocka_unit_test(the_limit_is_read_and_printed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
