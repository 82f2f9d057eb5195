/* Products of a group of executors: operands stored along and across the contracted axis, in three
 * swizzles, and in registers; sums where the PTX ISA says; and what such products need. */
#include "deletions.h"
#include "group_kernel.h"
#include "planted.h"

static void check_case(const GroupCase *c)
{
    static uint16_t x[GROUP_MOST], y[GROUP_MOST];
    static float out[64 * 256];
    uint32_t sizes[2], steps[2], strides[2];
    for (uint64_t seed = 0; seed < 3; seed++) {
        Bench b = bench_new();
        sizes[0] = group_lay_out(c, false, x, &steps[0], &strides[0]);
        sizes[1] = group_lay_out(c, true, y, &steps[1], &strides[1]);
        if (c->in_lanes) group_lay_out_lanes(kernel_group_matrix(c->row).scalar, x);
        const char *text = group_text(b.arena, c, sizes, steps, strides);
        AuKernel *k = bench_kernel(&b, text);
        const char *printed = bench_print(&b, k);
        assert_string_equal(bench_print(&b, bench_kernel(&b, printed)), printed);
        AuKBuffer buffers[3] = {
            {x, GROUP_MOST, true}, {y, GROUP_MOST, true}, {out, 64 * (uint32_t)c->columns, false}};
        const uint64_t slots[3] = {0};
        const AuKRun run = {.slots = slots,
                            .buffers = buffers,
                            .grid = {1, 1, 1},
                            .seed = seed,
                            .check_all_written = true};
        const char *why = NULL;
        if (seed == 2) kernel_simplify(k);
        if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s\n%s", why, text);
        for (uint32_t t = 0; t < 128; t++)
            for (uint32_t i = 0; i < (uint32_t)c->columns / 2; i++) {
                const uint32_t row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2),
                               column = 8 * (i / 4) + 2 * (t % 4) + i % 2;
                float sum = 0;
                for (uint32_t d = 0; d < GROUP_DEPTH; d++)
                    sum += group_value(0, row, d) * group_value(1, column, d);
                assert_true(out[t * (uint32_t)c->columns / 2 + i] == sum); /* quarters: exact */
            }
        bench_free(&b);
    }
}

/* Sums in tensor memory: tensor_test.c. */
static void products_are_right(void **state)
{
    (void)state;
    static const int32_t columns[] = {8, 40, 128, 256};
    for (uint32_t row = 0; row < AU_GROUP_MATRICES; row++)
        for (uint32_t n = 0; n < 4 && !kernel_group_matrix((AuGroupMatrix)row).atom->tensor; n++)
            for (int32_t swizzle = 32; swizzle <= 128; swizzle *= 2) {
                GroupCase c = {(AuGroupMatrix)row, columns[n], swizzle, false};
                check_case(&c);
                c.in_lanes = !kernel_group_matrix(c.row).a_turned;
                if (c.in_lanes) check_case(&c);
            }
}

/* ---- mistakes */

static uint16_t ones[1024];
static float sums[64 * 16];

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[2] = {{ones, 1024, true}, {sums, 64 * 16, false}};
    static const uint64_t slots[2] = {0};
    for (int n = 0; n < 1024; n++) ones[n] = kernel_to_bf16(1);
    run->buffers = buffers;
    run->slots = slots;
}

static bool is_right(const AuKRun *run)
{
    (void)run;
    for (int n = 0; n < 64 * 16; n++)
        if (sums[n] != 48) return false;
    return true;
}

#define HEAD                                                                                       \
    "kernel k lanes 32 warps 4 group 4\nmemory @x: global bf16 reads\n"                            \
    "memory @out: global f32 writes\nmemory @a: shared bf16[1024] align 256 swizzle 32\n"          \
    "memory @b: shared bf16[256] align 256 swizzle 32\nmemory @p: shared bf16[256]\n"              \
    "memory @c: lane f32[16]\nmemory @w: lane bf16[8]\n"                                           \
    "arg x: pointer @x\narg out: pointer @out\n{\n"                                                \
    "%1 = lane.i32\n%2 = warp.i32\n%3 = mul.i32 %2, 32\n%4 = add.i32 %3, %1\n"                     \
    "%5 = const.bf16 1.0\n%6 = const.bf16x8 1.0\n"
#define FILL                                                                                       \
    "for %7 = 0 to 1024 step 128 {\n%8 = add.i32 %4, %7\n%9 = load.bf16 @x[%8]\n"                  \
    "store @a[%8], %9 //! uninitialised\n}\n"                                                      \
    "for %10 = 0 to 256 step 128 {\n%11 = add.i32 %4, %10\n"                                       \
    "store @b[%11], %5 //! uninitialised\n}\nstore @w[0], %6 //! uninitialised\n"                  \
    "fence_proxy //! fence\nbarrier #0 //! race|uninitialised\n"
#define SS  "wgmma @c[0], @a[0], @b[0], false, 16, 0, 0 #wgmma_bf16_row_col"
#define RS  "wgmma @c[0], @w[0], @b[0], true, 16, 0, 0 #wgmma_bf16_row_col"
#define ALL HEAD FILL "wgmma_fence\n" SS "\n" RS "\nwgmma_commit\n"

static const char good[] =
    HEAD FILL "wgmma_fence //! fence\n" SS " //! uninitialised|wrong\n" RS " //! wrong\n"
              "wgmma_commit //! in flight\n"
              "wgmma_wait @c, @w #0 //! in flight\n"
              "store @w[0], %6 //~ it holds ones already\n"
              "wgmma_fence //! fence\n" RS " //! wrong\n"
              "wgmma_commit //! in flight\n"
              "wgmma_wait @c #0 //! in flight\n"
              "%12 = mul.i32 %4, 8\nfor %13 = 0 to 8 step 1 {\n%14 = add.i32 %12, %13\n"
              "%15 = load.f32 @c[%13]\nstore @out[%14], %15\n}\n}\n";

static void every_line_is_needed(void **state)
{
    (void)state;
    const Subject subject = {good, prepare, is_right, 9};
    assert_int_equal(try_deletions(&subject), 15);
}

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0808, "twelve columns", HEAD "wgmma @c[0], @a[0], @b[0], false, 12, 0, 0 #wgmma_bf16_row_col\n}\n", "a multiple of 8 up to 256"},
    {AU_E0808, "more sums than there are", HEAD "wgmma @c[9], @a[0], @b[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "@c has 16 elements"},
    {AU_E0807, "operands of another type", HEAD "wgmma @c[0], @a[0], @b[0], false, 16, 0, 0 #wgmma_f16_row_col\n}\n", "@a must be shared memory of f16"},
    {AU_E0807, "no swizzle", HEAD "wgmma @c[0], @a[0], @p[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "@p must have a swizzle"},
    {AU_E0807, "registers by columns", HEAD "wgmma @c[0], @w[0], @b[0], false, 16, 0, 0 #wgmma_bf16_col_col\n}\n", "A in registers is always by rows"},
    {AU_E0806, "place by executor", HEAD "wgmma @c[0], @a[%2], @b[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "the same in all executors of the group"},
    {AU_E0806, "by one executor", HEAD "%7 = eq.i32 %2, 0\nif %7 {\nwgmma_fence\n}\n}\n", "executors of the group do not all come here"},
    {AU_E0808, "groups of two", "kernel k lanes 32 warps 4 group 2\nmemory @c: lane f32[8]\nmemory @a: shared bf16[1024] align 256 swizzle 32\n{\nwgmma @c[0], @a[0], @a[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "needs groups of 4"},
    {AU_E0808, "no groups", "kernel k lanes 32 warps 4\n{\nwgmma_fence\n}\n", "the kernel has none"},
    {AU_E0807, "wait for shared memory", HEAD "wgmma_wait @a #0\n}\n", "@a is no memory of lanes"},
    {0, "sums read before the wait", ALL "%12 = load.f32 @c[3]\nwgmma_wait @c, @w #0\n}\n", "in flight: @c[3] is written by a product"},
    {0, "sums that the wait does not name", ALL "wgmma_wait @w #0\n%12 = load.f32 @c[3]\n}\n", "no wgmma_wait has named it"},
    {0, "operand changed before the wait", ALL "store @w[0], %6\nwgmma_wait @c, @w #0\n}\n", "in flight: @w[0] is read by a product"},
    {0, "operand in memory changed before the wait", ALL "store @b[%4], %5\nwgmma_wait @c, @w #0\n}\n", "is read by a product of executor"},
    {0, "wait for all but one", ALL "wgmma_wait @c, @w #1\n%12 = load.f32 @c[3]\n}\n", "in flight: @c[3]"},
    {0, "sums of another shape", ALL "wgmma @c[0], @a[0], @b[0], true, 8, 0, 0 #wgmma_bf16_row_col\nwgmma_commit\nwgmma_wait @c, @w #0\n}\n", "is written by another product"},
    {0, "sums changed without a fence", ALL "wgmma_wait @c, @w #0\nstore @c[1], 0.0\n" SS "\nwgmma_commit\nwgmma_wait @c #0\n}\n", "fence: lanes have used @c[1]"},
    {0, "added to nothing", HEAD FILL "wgmma_fence\n" RS "\nwgmma_commit\nwgmma_wait @c, @w #0\n}\n", "uninitialised: @c[0]"},
    {0, "nobody waits", ALL "}\n", "in flight: nobody waits for a product"},
    {0, "half a row on", HEAD FILL "wgmma_fence\nwgmma @c[0], @a[8], @b[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "no operand begins at @a[8]"},
    {0, "one row on", HEAD FILL "wgmma_fence\nwgmma @c[0], @a[16], @b[0], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "no operand begins at @a[16]"},
    {0, "beyond the memory", HEAD FILL "wgmma_fence\nwgmma @c[0], @a[0], @b[128], false, 16, 0, 0 #wgmma_bf16_row_col\n}\n", "the operand ends beyond @b"},
};
/* clang-format on */

static void mistakes_are_found(void **state)
{
    (void)state;
    try_mistakes(mistakes, sizeof mistakes / sizeof *mistakes, 6, prepare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(every_line_is_needed),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
