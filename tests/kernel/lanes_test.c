/* What kernel_lanes finds, value by value, and the interpreter's lanes that march together. */
#include "kernel_test.h"

/* The names of the values tell what they must be: u..., a<stride>..., v... */
static const char kernel_text[] =
    "kernel k lanes 8 warps 2\n"
    "memory @g: global f32 reads\nmemory @n: global i32 reads writes\nmemory @s: shared "
    "f32[64]\nmemory @e: exec i32[64]\n"
    "memory @same: lane f32[4]\nmemory @differs: lane f32[4]\nmemory @late: lane f32[1]\n"
    "arg g: pointer @g\narg n: pointer @n\narg i: i32\narg w: i64\n"
    "{\n"
    "  %1.a1 = lane.i32\n"
    "  %2.u = warp.i32\n"
    "  %3.u = arg.i32 #2\n"
    "  %4.u = arg.i64 #3\n"
    "  %5.a1 = add.i32 %1, %3\n"
    "  %6.a4 = mul.i32 %5, 4\n"
    "  %7.a4 = cvt.i64 %6\n"
    "  %8.a4 = add.i64 %7, %4\n"
    "  %9.v = mul.i64 %8, %4\n"
    "  %10.a8 = shl.i32 %6, 1\n"
    "  %11.am8 = sub.i32 %3, %10\n"
    "  %12.u = add.i32 %11, %10\n"
    "  %13.v = idiv.i32 %1, 4\n"
    "  %14.v = lt.i32 %1, %3\n"
    "  %15.u = lt.i32 %2, %3\n"
    "  %16.a4 = select.i32 %15, %6, %6\n"
    "  %17.v = select.i32 %15, %6, %10\n"
    "  %18.v = select.i32 %14, %2, %3\n"
    "  %19.u = load.f32 @g[%3]\n"
    "  %20.v = load.f32 @g[%1]\n"
    "  %21.v = load.f32 @g[%3] if %14\n"
    "  %22.u = load.f32 @s[%2]\n"
    "  %23.u = load.i32 @e[%2]\n"
    "  %24.u = any.i1 %14\n"
    "  %25.u = shuffle.f32 %20, 3\n"
    "  %26.v = shuffle_xor.f32 %20 #1\n"
    "  %27.v = atomic_inc.i32 @n[0]\n"
    "  %28.u = shuffle.i32 %27, 0\n"
    "  store @same[0], %19\n"
    "  store @differs[0], %20\n"
    "  store @late[0], 0.0\n"
    "  %29.u = load.f32 @same[0]\n"
    "  %30.v = load.f32 @same[%1]\n"
    "  %31.v = load.f32 @differs[0]\n"
    "  for %32.u = 0 to %28 step 1 {\n"
    "    %33.v = load.f32 @late[0]\n"
    "    %34.u = neg.i32 %32\n"
    "    store @late[0], %20\n"
    "  }\n"
    "  %35.v = cvt.f32 %1\n"
    "  %36.v = and.i32 %1, 3\n"
    "  %37.am1 = neg.i32 %1\n"
    "  %38.v = both.f32x2 %20 #1\n"
    "  %39.u = both.f32x2 %19 #1\n"
    "}\n";

static void every_value_is_classified(void **state)
{
    (void)state;
    Bench b = bench_new();
    const AuKernel *k = bench_read(&b, kernel_text);
    assert_non_null(k);
    const AuLanes l = kernel_lanes(k, b.arena);
    uint32_t checked = 0;
    for (uint32_t i = 1; i < k->instr_count; i++) {
        const AuInstr *in = &k->instrs[i];
        if (!in->text) continue;
        const char *kind = l.kind[i] == AU_UNIFORM   ? "u"
                           : l.kind[i] == AU_VARYING ? "v"
                           : l.stride[i] < 0         ? au_format(b.arena, "am%d", (int)-l.stride[i])
                                                     : au_format(b.arena, "a%d", (int)l.stride[i]);
        if (strcmp(kind, in->text) != 0)
            fail_msg("%s of %s is %s", kernel_op_info(in->op)->text, in->text, kind);
        checked++;
    }
    assert_int_equal(checked, 39);
    assert_true(l.same[5] && !l.same[6] && !l.same[7]); /* @same, @differs, @late */
    bench_free(&b);
}

/* One lane: everything is the same in all of them. */
static void a_single_lane_is_uniform(void **state)
{
    (void)state;
    Bench b = bench_new();
    const AuKernel *k = bench_kernel(
        &b,
        "kernel k lanes 1 warps 1\n{\n  %1 = lane.i32\n  %2 = lt.i32 %1, 1\n  if %2 {\n  }\n}\n");
    const AuLanes l = kernel_lanes(k, b.arena);
    for (uint32_t i = 1; i < k->instr_count; i++) assert_int_equal(l.kind[i], AU_UNIFORM);
    bench_free(&b);
}

static bool runs(const char *text, bool lockstep, const char **why)
{
    Bench b = bench_new();
    static char kept[400];
    const AuKernel *k = bench_kernel(&b, text);
    const AuKRun run = {.grid = {1, 1, 1}, .lockstep = lockstep};
    const bool good = kernel_run(k, &run, b.arena, why);
    if (!good) {
        snprintf(kept, sizeof kept, "%s", *why);
        *why = kept;
    }
    bench_free(&b);
    return good;
}

/* Lanes of a CPU's vectors need no barrier; within one instruction they are not ordered even there.
 */
static void lockstep_orders_instructions(void **state)
{
    (void)state;
    static const char exchange[] =
        "kernel k lanes 4 warps 1\nmemory @e: exec f32[4]\n{\n  %1 = lane.i32\n  store @e[%1], "
        "1.0\n"
        "  %2 = xor.i32 %1, 1\n  %3 = load.f32 @e[%2]\n  store @e[%1], %3\n}\n";
    static const char collision[] = "kernel k lanes 4 warps 1\nmemory @e: exec f32[4]\n{\n  %1 = "
                                    "lane.i32\n  %2 = and.i32 %1, 1\n"
                                    "  store @e[%2], 1.0\n}\n";
    const char *why = NULL;
    assert_true(runs(exchange, true, &why));
    assert_false(runs(exchange, false, &why));
    assert_non_null(strstr(why, "race"));
    assert_false(runs(collision, true, &why));
    assert_non_null(strstr(why, "race: @e[0] was written by another lane"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_classified),
        cmocka_unit_test(a_single_lane_is_uniform),
        cmocka_unit_test(lockstep_orders_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
