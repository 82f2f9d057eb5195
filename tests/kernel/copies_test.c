/* Copies by a unit of their own: boxes and rows of bytes, in all orders of ending, with every wait,
 * fence and arrival taken out once. */
#include "deletions.h"
#include "planted.h"

enum { ROWS = 20, COLS = 12, PITCH = 16 };
static float in[ROWS * PITCH], scale[16], out[ROWS * COLS], sum[ROWS * COLS], last[16];

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[5] = {{in, ROWS * PITCH, true},
                                   {scale, 16, true},
                                   {out, ROWS * COLS, false},
                                   {sum, ROWS * COLS, true},
                                   {last, 16, false}};
    static const AuKMap maps[3] = {
        {{COLS, ROWS}, {1, PITCH}}, {{COLS, ROWS}, {1, COLS}}, {{COLS, ROWS}, {1, COLS}}};
    static const uint64_t slots[5] = {0};
    for (int n = 0; n < ROWS * PITCH; n++) in[n] = (float)(n * 7 % 23);
    for (int n = 0; n < 16; n++) scale[n] = (float)(n + 1);
    for (int n = 0; n < ROWS * COLS; n++) sum[n] = 100, out[n] = 0;
    run->buffers = buffers;
    run->slots = slots;
    run->maps = maps;
}

/* x * scale + 1; what is outside of the tensor was 0, and so is 1 now. */
static bool is_right(const AuKRun *run)
{
    (void)run;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            const float wanted = in[r * PITCH + c] * scale[c] + 1;
            if (out[r * COLS + c] != wanted || sum[r * COLS + c] != 100 + wanted) return false;
        }
    for (int n = 0; n < 16; n++)
        if (last[n] != (n < 4 ? 2 * scale[n] : n < 8 ? scale[n] : 1)) return false;
    return true;
}

/* Executor 0 brings tiles of 8 by 8, executor 1 changes them and sends them off. */
static const char text[] =
    "kernel copies lanes 4 warps 2\n"
    "memory @in: global f32 reads\nmemory @scale: global f32 reads\n"
    "memory @out: global f32 writes\nmemory @sum: global f32 reads writes\n"
    "memory @last: global f32 reads writes\n"
    "memory @tile: shared f32[128] align 256 swizzle 32\nmemory @row: shared f32[16] align 16\n"
    "memory @edge: shared f32[8] align 16\n"
    "memory @full: shared i64[3]\nmemory @empty: shared i64[2]\n"
    "arg in: pointer @in\narg scale: pointer @scale\narg out: pointer @out\narg sum: pointer @sum\n"
    "arg last: pointer @last\n"
    "map \"the input\": @in box 8 8 swizzle 32\nmap O: @out box 8 8 swizzle 32\n"
    "map S: @sum box 8 8 swizzle 32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = elect.i1\n  %4 = eq.i32 %2, 0\n"
    "  if %4 {\n"
    "    mbar_init @full[0], 1 if %3 //! uninitialised\n"
    "    mbar_init @full[1], 1 if %3 //! uninitialised\n"
    "    mbar_init @full[2], 1 if %3 //! uninitialised\n"
    "    mbar_init @empty[0], 1 if %3 //! uninitialised\n"
    "    mbar_init @empty[1], 1 if %3 //! uninitialised\n"
    "    fence_init //! fence\n"
    "  }\n"
    "  barrier #0 //! race|uninitialised\n"
    "  if %4 {\n"
    "    mbar_expect @full[2], 64 if %3 //! deadlock\n"
    "    bulk_load @row[0], @scale[0], @full[2], 64 if %3 //! deadlock\n"
    "    for %5 = 0 to 6 step 1 {\n"
    "      %6 = and.i32 %5, 1\n      %7 = shr.i32 %5, 1\n      %8 = sub.i32 %7, 1\n"
    "      mbar_wait @empty[%6], %8 //! race|in flight|phase\n"
    "      mbar_expect @full[%6], 256 if %3 //! deadlock\n"
    "      %9 = mul.i32 %6, 64\n      %10 = mul.i32 %6, 8\n      %11 = mul.i32 %7, 8\n"
    "      tma_load @tile[%9], @in[%10, %11], @full[%6] if %3 #\"the input\" //! deadlock\n"
    "    }\n"
    "  } else {\n"
    "    mbar_wait @full[2], 0 //! in flight|uninitialised\n"
    "    for %12 = 0 to 6 step 1 {\n"
    "      %13 = and.i32 %12, 1\n      %14 = shr.i32 %12, 1\n"
    "      mbar_wait @full[%13], %14 //! in flight|uninitialised\n"
    "      %15 = mul.i32 %13, 64\n      %16 = add.i32 %15, %1\n      %17 = mul.i32 %13, 8\n"
    "      for %18 = 0 to 64 step 4 {\n"
    "        %19 = add.i32 %16, %18\n        %20 = load.f32 @tile[%19]\n"
    "        %21 = and.i32 %18, 7\n        %22 = add.i32 %21, %1\n        %23 = add.i32 %22, %17\n"
    "        %24 = load.f32 @row[%23]\n        %25 = fma.f32 %20, %24, 1.0\n"
    "        store @tile[%19], %25 //! wrong results\n"
    "      }\n"
    "      fence_proxy //! fence\n"
    "      barrier #1 //! race\n"
    "      %26 = mul.i32 %14, 8\n"
    "      tma_store @out[%17, %26], @tile[%15] if %3 #O //! unwritten\n"
    "      tma_reduce_add @sum[%17, %26], @tile[%15] if %3 #S //! wrong results\n"
    "      bulk_commit //! in flight\n"
    "      bulk_wait #16 //! in flight\n"
    "      mbar_arrive @empty[%13] if %3 //! deadlock\n"
    "    }\n"
    "    for %27 = 0 to 8 step 4 {\n"
    "      %28 = add.i32 %1, %27\n      %29 = add.i32 %28, 120\n      %30 = load.f32 @tile[%29]\n"
    "      store @edge[%28], %30 //! uninitialised\n"
    "    }\n"
    "    fence_proxy //! fence\n"
    "    barrier #1 //! race\n"
    "    bulk_store @last[0], @row[0], 32 if %3 //! unwritten|uninitialised\n"
    "    bulk_store @last[8], @edge[0], 32 if %3 //! unwritten\n"
    "    bulk_commit //! in flight\n"
    "    bulk_wait #0 //! in flight\n"
    "    bulk_reduce_add @last[0], @row[0], 16 if %3 //! wrong results\n"
    "    bulk_commit //! in flight\n"
    "    bulk_wait #16 //! in flight\n"
    "  }\n}\n";

static const Subject subject = {text, prepare, is_right, 12};

static void copies_run_and_need_every_line(void **state)
{
    (void)state;
    assert_int_equal(try_deletions(&subject), 32);
}

static void text_and_passes_keep_them(void **state)
{
    (void)state;
    try_text_and_passes(&subject);
}

/* ---- single mistakes */

#define HEAD                                                                                       \
    "kernel k lanes 4 warps 2\nmemory @x: global f32 reads writes\nmemory @i: global i32 reads "   \
    "writes\nmemory @s: shared f32[128] align 256 swizzle 32\nmemory @p: shared f32[64] align "    \
    "128\nmemory @t: shared i32[64] align 128\nmemory @m: shared i64[1]\narg x: pointer "          \
    "@x\narg i: pointer @i\nmap X: @x box 8 8 swizzle 32\nmap P: @x box 8 4 fill nan\nmap I: @i "  \
    "box 4\nmap Z: @x box 8 4\nmap C: @x box 8 4 cut 1\n"
#define BODY                                                                                       \
    "{\n%1 = lane.i32\n%2 = elect.i1\n%3 = warp.i32\n%4 = eq.i32 %3, 0\n%5 = land.i1 %2, %4\n"     \
    "mbar_init @m[0], 1 if %5\nfence_init\nbarrier #0\n"
#define LOAD "mbar_expect @m[0], 128 if %5\ntma_load @p[0], @x[6, 0], @m[0] if %5 #P\n"

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0807, "rows that are not the swizzle's", HEAD "map W: @x box 4 8 swizzle 32\n" BODY "}\n", "rows that are not those of its swizzle"},
    {AU_E0807, "box of nothing", HEAD "map W: @x box 8 0\n" BODY "}\n", "not 1 to 256 wide"},
    {AU_E0807, "map of shared memory", HEAD "map W: @s box 8\n" BODY "}\n", "is of no tensor"},
    {AU_E0807, "map of another tensor", HEAD BODY "tma_load @t[0], @i[0, 0], @m[0] if %5 #X\n}\n", "map X is of @x"},
    {AU_E0807, "coordinates that are missing", HEAD BODY "tma_load @s[0], @x[0], @m[0] if %5 #X\n}\n", "has 2 coordinates"},
    {AU_E0807, "swizzles that differ", HEAD BODY "tma_load @p[0], @x[0, 0], @m[0] if %5 #X\n}\n", "map X swizzles by 32, @p by 0"},
    {AU_E0807, "memory of other elements", HEAD BODY "tma_load @t[0], @x[0, 0], @m[0] if %5 #X\n}\n", "of the same elements"},
    {AU_E0807, "sums of integers", HEAD BODY "tma_reduce_add @i[0], @t[0] if %5 #I\n}\n", "adds f32, f16 or bf16"},
    {AU_E0808, "map that does not exist", HEAD BODY "tma_store @i[0], @t[0] if %5 #7\n}\n", "#7 is not in 0..4"},
    {AU_E0807, "cut along what it has not", HEAD "map W: @x box 8 4 cut 2\n" BODY "}\n", "is cut along a dimension that it has not"},
    {AU_E0807, "cut with no place for one more", HEAD "map W: @x box 8 4 1 1 1 cut 1\n" BODY "}\n", "no place for one more"},
    {AU_E0807, "an end that is missing", HEAD BODY "tma_load @p[0], @x[0, 0], @m[0] if %5 #C\n}\n", "has 3 coordinates"},
    {0, "nothing of what is cut", HEAD BODY "mbar_expect @m[0], 128 if %5\ntma_load @p[0], @x[0, 10, 6], @m[0] if %5 #C\nmbar_wait @m[0], 0\n}\n", "nothing of a box of map C is inside"},
    {0, "sent off from below 0", HEAD BODY "for %6 = 0 to 32 step 4 {\n%7 = add.i32 %6, %1\nstore @p[%7], 1.0 if %4\n}\nfence_proxy\nbarrier #0\ntma_store @x[0, -1], @p[0] if %5 #P\nbulk_commit\nbulk_wait #0\n}\n", "is stored from below 0 on"},
    {AU_E0807, "bytes into barriers", HEAD BODY "bulk_load @p[0], @x[0], @t[0], 16 if %5\n}\n", "@t must be shared memory of i64"},
    {AU_E0807, "bytes in a swizzle's order", HEAD BODY "bulk_load @s[0], @x[0], @m[0], 16 if %5\n}\n", "@s is swizzled"},
    {AU_E0808, "too many groups", HEAD BODY "bulk_wait #8\n}\n", "none of 0 to 7"},
    {0, "not waited for", HEAD BODY LOAD "}\n", "in flight: nobody waits"},
    {0, "read too early", HEAD BODY "if %4 {\n" LOAD "%6 = load.f32 @p[0]\nmbar_wait @m[0], 0\n}\n}\n", "in flight: @p[0] is written by a copy"},
    {0, "written too early", HEAD BODY LOAD "store @p[0], 1.0 if %5\nmbar_wait @m[0], 0\n}\n", "in flight: @p[0]"},
    {0, "too few bytes expected", HEAD BODY "mbar_expect @m[0], 64 if %5\ntma_load @p[0], @x[0, 0], @m[0] if %5 #P\nmbar_wait @m[0], 0\n}\n", "deadlock"},
    {0, "two copies to one place", HEAD BODY "mbar_expect @m[0], 256 if %5\ntma_load @p[0], @x[0, 0], @m[0] if %5 #P\ntma_load @p[0], @x[0, 0], @m[0] if %5 #P\nmbar_wait @m[0], 0\n}\n", "in flight: @p[0]"},
    {0, "not in its pattern", HEAD BODY "mbar_expect @m[0], 256 if %5\ntma_load @s[32], @x[0, 0], @m[0] if %5 #X\nmbar_wait @m[0], 0\n}\n", "not aligned to 256 bytes"},
    {0, "beyond the memory", HEAD BODY "mbar_expect @m[0], 128 if %5\ntma_load @p[64], @x[0, 0], @m[0] if %5 #P\nmbar_wait @m[0], 0\n}\n", "bounds: @p[64]"},
    {0, "rows of 20 bytes", HEAD BODY "mbar_expect @m[0], 20 if %5\nbulk_load @p[0], @x[0], @m[0], 20 if %5\nmbar_wait @m[0], 0\n}\n", "no multiples of 16"},
    {0, "rows beyond the tensor", HEAD BODY "mbar_expect @m[0], 32 if %5\nbulk_load @p[0], @x[124], @m[0], 32 if %5\nmbar_wait @m[0], 0\n}\n", "touches @x[128]"},
    {0, "sent off before it is written", HEAD BODY "tma_store @x[0, 0], @p[0] if %5 #P\nbulk_commit\nbulk_wait #0\n}\n", "uninitialised: @p[0]"},
    {0, "rows that end inside of 16 bytes", HEAD BODY "for %6 = 0 to 32 step 4 {\n%7 = add.i32 %6, %1\nstore @p[%7], 1.0 if %4\n}\nfence_proxy\nbarrier #0\ntma_store @x[8, 0], @p[0] if %5 #Z\nbulk_commit\nbulk_wait #0\n}\n", "end inside of 16 bytes"},
    {0, "sent off without a fence", HEAD BODY "if %4 {\nfor %6 = 0 to 32 step 4 {\n%7 = add.i32 %6, %1\nstore @p[%7], 1.0\n}\nbarrier #1\ntma_store @x[0, 0], @p[0] if %2 #P\nbulk_commit\nbulk_wait #0\n}\n}\n", "fence: @p[0] was written by executor 0"},
};
/* clang-format on */

static void prepare_mistake(AuKRun *run)
{
    static const AuKMap maps[5] = {{{12, 10}, {1, 12}},
                                   {{12, 10}, {1, 12}},
                                   {{128}, {1}},
                                   {{10, 10}, {1, 12}},
                                   {{12, 10}, {1, 12}}};
    static float x[128];
    static int32_t i[128];
    static AuKBuffer buffers[2] = {{x, 128, true}, {i, 128, true}};
    static const uint64_t slots[2] = {0};
    memset(x, 0, sizeof x), memset(i, 0, sizeof i);
    run->buffers = buffers;
    run->slots = slots;
    run->maps = maps;
}

static void mistakes_are_found(void **state)
{
    (void)state;
    try_mistakes(mistakes, sizeof mistakes / sizeof *mistakes, 9, prepare_mistake);
}

/* Rows 3 to 5 of 10 by a map that is cut, which go on with what is not theirs: brought with zeros, sent off to rows 6 and 7 alone. */
#define CUT                                                                                        \
    "mbar_expect @m[0], 128 if %5\ntma_load @p[0], @x[0, 7, 6], @m[0] if %5 #C\nmbar_wait @m[0], " \
    "0\nfence_proxy\nbarrier #0\ntma_store @x[0, 8, 8], @p[0] if %5 #C\nbulk_commit\nbulk_wait "   \
    "#0\n}\n"

static void cut_boxes_end_early(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKRun run = {.grid = {1, 1, 1}};
    const char *why = NULL;
    AuKernel *k = bench_read(&b, HEAD BODY CUT);
    assert_true(k && kernel_verify(k, b.diags));
    prepare_mistake(&run);
    float *x = run.buffers[0].data;
    for (int n = 0; n < 128; n++) x[n] = (float)n;
    if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s", why);
    for (int row = 0; row < 10; row++)
        for (int c = 0; c < 12; c++) {
            const int from = row >= 6 && row < 8 && c < 8 ? row - 3 : row;
            assert_true(x[row * 12 + c] == (float)(from * 12 + c));
        }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_run_and_need_every_line),
        cmocka_unit_test(text_and_passes_keep_them),
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(cut_boxes_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
