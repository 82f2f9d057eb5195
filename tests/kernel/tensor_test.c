/* Tensor memory: products of operands stored along and across the contracted axis, A in shared memory and in tensor memory; each line
 * that orders them is needed; and what such operations refuse. */
#include "deletions.h"
#include "group_kernel.h"
#include "planted.h"

/* ---- products */

/* A into tensor memory, a lane a row. */
static const char *move_rows(AuArena *arena, const char *type)
{
    return au_format(arena,
                     "%%20 = mul.i32 %%4, 32\n"
                     "for %%21 = 0 to 32 step 1 {\n%%22 = add.i32 %%20, %%21\n"
                     "%%23 = load.%s @x[%%22]\nstore @w[%%21], %%23\n}\n"
                     "tensor_store @A[%%20], @w[0] #32\ntensor_wait #1\ntensor_fence\n",
                     type);
}

/* Two products, the second adding to the first, by one lane; then every lane takes its row of the sums. */
static const char *kernel_text(AuArena *arena, const GroupCase *c, const uint32_t sizes[2],
                               const uint32_t steps[2], const uint32_t strides[2])
{
    const AuGroupOp op = kernel_group_matrix(c->row);
    const char *t = kernel_scalar_name(op.scalar);
    const int32_t n = c->columns;
    AuText text = {.arena = arena};
    au_text_add(
        &text,
        "kernel k lanes 32 warps 4\nmemory @x: global %s reads\nmemory @y: global %s reads\n"
        "memory @out: global f32 writes\n"
        "memory @a: shared %s[%u] align 1024 swizzle %d\n"
        "memory @b: shared %s[%u] align 1024 swizzle %d\n"
        "memory @S: tensor f32[%d] shape 128 %d\nmemory @A: tensor %s[4096] shape 128 32\n"
        "memory @done: shared i64[1]\nmemory @c: lane f32[%d]\nmemory @w: lane %s[32]\n"
        "arg x: pointer @x\narg y: pointer @y\narg out: pointer @out\n{\n"
        "%%1 = lane.i32\n%%2 = warp.i32\n%%3 = mul.i32 %%2, 32\n%%4 = add.i32 %%3, %%1\n"
        "%%5 = elect.i1\n%%6 = eq.i32 %%2, 0\n",
        t, t, t, sizes[0], c->swizzle, t, sizes[1], c->swizzle, 128 * n, n, t, n, t);
    au_text_add(&text, "if %%6 {\ntensor_alloc #512\nmbar_init @done[0], 1 if %%5\nfence_init\n}\n"
                       "barrier #0\ntensor_fence\n");
    if (c->in_lanes)
        au_text_add(&text, "%s", move_rows(arena, t));
    else
        au_text_add(&text,
                    "for %%7 = 0 to %u step 128 {\n%%8 = add.i32 %%4, %%7\n%%9 = load.%s @x[%%8]\n"
                    "store @a[%%8], %%9\n}\n",
                    sizes[0], t);
    au_text_add(&text,
                "for %%10 = 0 to %u step 128 {\n%%11 = add.i32 %%4, %%10\n%%12 = load.%s @y[%%11]\n"
                "store @b[%%11], %%12\n}\nfence_proxy\nbarrier #0\ntensor_fence\nif %%6 {\n",
                sizes[1], t);
    for (uint32_t step = 0; step < 2; step++)
        au_text_add(&text, "tensor_mul @S[0], @%s[%u], @b[%u], %s, %d, %u, %u, %%5 #%s\n",
                    c->in_lanes ? "A" : "a", step * (c->in_lanes ? 16 : steps[0]), step * steps[1],
                    step ? "true" : "false", n, c->in_lanes ? 0 : strides[0], strides[1], op.text);
    au_text_add(&text,
                "tensor_commit @done[0], %%5\n}\nmbar_wait @done[0], 0\ntensor_fence\n"
                "%%13 = mul.i32 %%4, %d\nfor %%14 = 0 to %d step 8 {\n%%15 = add.i32 %%13, %%14\n"
                "tensor_load @c[0], @S[%%15] #8\ntensor_wait @c #0\n"
                "for %%16 = 0 to 8 step 1 {\n%%17 = add.i32 %%15, %%16\n%%18 = load.f32 @c[%%16]\n"
                "store @out[%%17], %%18\n}\n}\n"
                "tensor_fence\nbarrier #0\ntensor_fence\nif %%6 {\ntensor_free #512\n}\n}\n",
                n, n);
    return au_text_str(&text);
}

static void check_case(const GroupCase *c)
{
    static uint16_t x[GROUP_MOST], y[GROUP_MOST];
    static float out[128 * 256];
    const uint64_t slots[3] = {0};
    uint32_t sizes[2], steps[2], strides[2];
    for (uint64_t seed = 0; seed < 3; seed++) {
        Bench b = bench_new();
        sizes[0] = group_lay_out(c, false, x, &steps[0], &strides[0]);
        sizes[1] = group_lay_out(c, true, y, &steps[1], &strides[1]);
        for (uint32_t at = 0; c->in_lanes && at < 128 * GROUP_DEPTH; at++)
            x[at] = group_half(kernel_group_matrix(c->row).scalar,
                               group_value(0, at / GROUP_DEPTH, at % GROUP_DEPTH));
        const char *text = kernel_text(b.arena, c, sizes, steps, strides);
        AuKernel *k = bench_kernel(&b, text);
        const char *printed = bench_print(&b, k);
        assert_string_equal(bench_print(&b, bench_kernel(&b, printed)), printed);
        AuKBuffer buffers[3] = {
            {x, GROUP_MOST, true}, {y, GROUP_MOST, true}, {out, 128 * (uint32_t)c->columns, false}};
        const AuKRun run = {.slots = slots,
                            .buffers = buffers,
                            .grid = {1, 1, 1},
                            .seed = seed,
                            .check_all_written = true};
        const char *why = NULL;
        if (seed == 2) kernel_simplify(k);
        if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s\n%s", why, text);
        for (uint32_t row = 0; row < 128; row++)
            for (uint32_t column = 0; column < (uint32_t)c->columns; column++) {
                float sum = 0;
                for (uint32_t d = 0; d < GROUP_DEPTH; d++)
                    sum += group_value(0, row, d) * group_value(1, column, d);
                assert_true(out[row * (uint32_t)c->columns + column] == sum); /* quarters: exact */
            }
        bench_free(&b);
    }
}

static void products_are_right(void **state)
{
    (void)state;
    static const int32_t columns[] = {8, 40, 256};
    uint32_t rows = 0;
    for (uint32_t row = 0; row < AU_GROUP_MATRICES; row++) {
        if (!kernel_group_matrix((AuGroupMatrix)row).atom->tensor) continue;
        rows++;
        for (uint32_t n = 0; n < 3; n++)
            for (int32_t swizzle = 32; swizzle <= 128; swizzle *= 2) {
                GroupCase c = {(AuGroupMatrix)row, columns[n], swizzle, false};
                check_case(&c);
                c.in_lanes = !kernel_group_matrix(c.row).a_turned;
                if (c.in_lanes && swizzle == 64) check_case(&c);
            }
    }
    assert_int_equal(rows, 8);
}

/* ---- mistakes */

static uint16_t ones[128 * 16];
static float sums[128 * 8];

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[2] = {{ones, 128 * 16, true}, {sums, 128 * 8, false}};
    static const uint64_t slots[2] = {0};
    for (int n = 0; n < 128 * 16; n++) ones[n] = kernel_to_bf16(1);
    for (int n = 0; n < 128 * 8; n++) sums[n] = 0;
    run->buffers = buffers;
    run->slots = slots;
}

/* A B, and P B with P the same numbers. */
static bool is_right(const AuKRun *run)
{
    (void)run;
    for (int n = 0; n < 128 * 8; n++)
        if (sums[n] != 32) return false;
    return true;
}

#define HEAD                                                                                       \
    "kernel k lanes 32 warps 4\nmemory @x: global bf16 reads\nmemory @out: global f32 writes\n"    \
    "memory @a: shared bf16[2048] align 256 swizzle 32\n"                                          \
    "memory @b: shared bf16[128] align 256 swizzle 32\n"                                           \
    "memory @S: tensor f32[1024] shape 128 8\nmemory @P: tensor bf16[2048] shape 128 16\n"         \
    "memory @done: shared i64[1]\nmemory @c: lane f32[8]\nmemory @w: lane bf16[16]\n"              \
    "arg x: pointer @x\narg out: pointer @out\n{\n"                                                \
    "%1 = lane.i32\n%2 = warp.i32\n%3 = mul.i32 %2, 32\n%4 = add.i32 %3, %1\n"                     \
    "%5 = elect.i1\n%6 = eq.i32 %2, 0\n%7 = mul.i32 %4, 8\n%8 = mul.i32 %4, 16\n"                  \
    "%9 = const.bf16 1.0\n"
#define TAKE  "if %6 {\ntensor_alloc #32\n}\n"
#define READY "if %6 {\nmbar_init @done[0], 1 if %5\nfence_init\n}\n"
#define FILL                                                                                       \
    "for %10 = 0 to 2048 step 128 {\n%11 = add.i32 %4, %10\nstore @a[%11], %9\n}\n"                \
    "store @b[%4], %9\nfor %12 = 0 to 16 step 1 {\nstore @w[%12], %9\n}\n"
#define MEET "fence_proxy\nbarrier #0\ntensor_fence\n"
#define SS   "tensor_mul @S[0], @a[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n"
#define TS   "tensor_mul @S[0], @P[0], @b[0], true, 8, 0, 0, %5 #tcgen05_bf16_row_col\n"
#define DONE "tensor_commit @done[0], %5\n"
#define SAVE "tensor_store @P[%8], @w[0] #16\n"
#define LOAD "tensor_load @c[0], @S[%7] #8\n"
#define GIVE "tensor_fence\nbarrier #0\ntensor_fence\nif %6 {\ntensor_free #32\n}\n}\n"
#define WRITE                                                                                      \
    "for %13 = 0 to 8 step 1 {\n%14 = add.i32 %7, %13\n%15 = load.f32 @c[%13]\n"                   \
    "store @out[%14], %15\n}\n"
#define BEGIN    HEAD TAKE READY FILL MEET
#define MULTIPLY "if %6 {\n" SS DONE "}\n"

/* What may not be left out. */
static const char good[] = HEAD
    "if %6 {\n"
    "tensor_alloc #32 //! uninitialised\n"
    "mbar_init @done[0], 1 if %5 //! uninitialised\n"
    "fence_init //! fence\n"
    "}\n" FILL "fence_proxy //! fence\n"
    "barrier #0 //! race|uninitialised|fence\n"
    "tensor_fence //! fence\n"
    "tensor_store @P[%8], @w[0] #16 //! uninitialised\n"
    "tensor_wait #1 //! in flight\n"
    "tensor_fence //! fence|in flight|race\n"
    "barrier #0 //! race|fence|uninitialised|in flight\n"
    "tensor_fence //! fence|race\n"
    "if %6 {\n"
    "tensor_mul @S[0], @a[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col //! uninitialised\n"
    "tensor_mul @S[0], @P[0], @b[0], true, 8, 0, 0, %5 #tcgen05_bf16_row_col //! wrong\n"
    "tensor_commit @done[0], %5 //! deadlock\n"
    "}\n"
    "mbar_wait @done[0], 0 //! in flight|race|uninitialised\n"
    "tensor_fence //! fence|race|in flight\n"
    "tensor_load @c[0], @S[%7] #8 //! uninitialised\n"
    "tensor_wait @c #0 //! in flight\n" WRITE "tensor_fence //! race|fence\n"
    "barrier #0 //! race|fence\n"
    "tensor_fence //! race|fence\n"
    "if %6 {\n"
    "tensor_free #32 //! not freed\n"
    "}\n}\n";

static void every_line_is_needed(void **state)
{
    (void)state;
    const Subject subject = {good, prepare, is_right, 6};
    try_text_and_passes(&subject);
    assert_int_equal(try_deletions(&subject), 22);
}

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0807, "tiles of 64 rows", "kernel k lanes 32 warps 4\nmemory @S: tensor f32[512] shape 64 8\n{\n}\n", "tiles of other than 128 rows"},
    {AU_E0807, "part of a tile", "kernel k lanes 32 warps 4\nmemory @S: tensor f32[1000] shape 128 8\n{\n}\n", "no whole number of tiles"},
    {AU_E0807, "16 lanes", "kernel k lanes 16 warps 4\nmemory @S: tensor f32[1024] shape 128 8\n{\n}\n", "machines with 32 lanes"},
    {AU_E0808, "48 columns", HEAD "tensor_alloc #48\n}\n", "#48 is none of 32"},
    {AU_E0808, "wider than what is taken", "kernel k lanes 32 warps 4\nmemory @S: tensor f32[8192] shape 128 64\n{\ntensor_alloc #32\n}\n", "64 columns wide"},
    {AU_E0807, "move to shared memory", HEAD "tensor_load @a[0], @P[%8] #16\n}\n", "between tensor memory and memory of lanes"},
    {AU_E0808, "three registers", HEAD "tensor_load @c[0], @S[%7] #3\n}\n", "#3 are not 1, 2, 4"},
    {AU_E0808, "more registers than there are", HEAD "tensor_load @c[4], @S[%7] #8\n}\n", "there are 8"},
    {AU_E0807, "wait for shared memory", HEAD "tensor_wait @a #0\n}\n", "@a is no memory of lanes"},
    {AU_E0808, "twelve columns", HEAD "tensor_mul @S[0], @a[0], @b[0], false, 12, 0, 0, %5 #tcgen05_bf16_row_col\n}\n", "a multiple of 8 up to 256"},
    {AU_E0808, "sums of lanes", HEAD "tensor_mul @S[0], @a[0], @b[0], false, 8, 0, 0, %5 #wgmma_bf16_row_col\n}\n", "has its sums in memory of lanes"},
    {AU_E0807, "sums in shared memory", HEAD "tensor_mul @a[0], @a[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n}\n", "@a must be tensor memory of f32"},
    {AU_E0807, "operand A of another type", HEAD "tensor_mul @S[0], @S[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n}\n", "@S must be tensor memory of bf16"},
    {AU_E0807, "operand A by columns", HEAD "tensor_mul @S[0], @P[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_col_col\n}\n", "A in tensor memory is always by rows"},
    {AU_E0807, "operand B in tensor memory", HEAD "tensor_mul @S[0], @a[0], @P[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n}\n", "@P must be shared memory"},
    {AU_E0806, "place of sums by lane", HEAD "tensor_mul @S[%7], @a[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n}\n", "the place of an operand"},
    {0, "nobody has taken it", HEAD FILL SAVE "tensor_wait #1\n}\n", "tensor memory that nobody has allocated"},
    {0, "taken twice", HEAD TAKE TAKE "}\n", "allocated twice"},
    {0, "given by another executor", HEAD TAKE "barrier #0\ntensor_fence\n%16 = eq.i32 %2, 1\nif %16 {\ntensor_free #32\n}\n}\n", "executor 0 has allocated"},
    {0, "never given", HEAD TAKE "}\n", "is not freed"},
    {0, "used before the fence", HEAD TAKE FILL "barrier #0\n" SAVE "tensor_wait #1\n" GIVE, "no barrier and tensor_fence lie between"},
    {0, "a row of another executor", BEGIN "%16 = add.i32 %8, 512\n" "%17 = land.i1 %6, %6\nif %17 {\ntensor_store @P[%16], @w[0] #16\ntensor_wait #1\n}\n" GIVE, "the lane reaches row"},
    {0, "the next lane's row", BEGIN "%16 = xor.i32 %4, 1\n%17 = mul.i32 %16, 16\ntensor_store @P[%17], @w[0] #16\ntensor_wait #1\n" GIVE, "the lane reaches row"},
    {0, "beyond the row", BEGIN "%16 = add.i32 %8, 8\ntensor_store @P[%16], @w[0] #16\ntensor_wait #1\n" GIVE, "16 elements of a row"},
    {0, "sums that nobody made", BEGIN LOAD "tensor_wait @c #0\n" GIVE, "uninitialised: @S["},
    {0, "added to nothing", BEGIN SAVE "tensor_wait #1\ntensor_fence\nbarrier #0\ntensor_fence\nif %6 {\n" TS DONE "}\nmbar_wait @done[0], 0\n" GIVE, "uninitialised: @S["},
    {0, "registers read before the wait", BEGIN MULTIPLY "mbar_wait @done[0], 0\ntensor_fence\n" LOAD "%16 = load.f32 @c[3]\ntensor_wait @c #0\n" GIVE, "in flight: @c[3]"},
    {0, "a wait that does not name the registers", BEGIN MULTIPLY "mbar_wait @done[0], 0\ntensor_fence\n" LOAD "tensor_wait #0\n%16 = load.f32 @c[3]\n" GIVE, "in flight: @c[3]"},
    {0, "sums read before the products have arrived", BEGIN MULTIPLY LOAD "tensor_wait @c #0\nmbar_wait @done[0], 0\n" GIVE, "@S["},
    {0, "operand changed before the products have arrived", BEGIN MULTIPLY "store @b[%4], %9\nmbar_wait @done[0], 0\n" GIVE, "@b["},
    {0, "products without a fence behind the barrier", BEGIN SAVE "tensor_wait #1\ntensor_fence\nbarrier #0\nif %6 {\n" SS TS DONE "}\nmbar_wait @done[0], 0\n" GIVE, "@P["},
    {0, "a barrier that units do not know", HEAD TAKE "if %6 {\nmbar_init @done[0], 1 if %5\n}\n" FILL MEET MULTIPLY "mbar_wait @done[0], 0\n" GIVE, "fence: no fence_init lies between mbar_init and products"},
    {0, "stores of lanes that were not fenced", BEGIN SAVE "tensor_wait #1\nbarrier #0\ntensor_fence\nif %6 {\n" SS TS DONE "}\nmbar_wait @done[0], 0\n" GIVE, "@P["},
    {0, "sums beyond the tile", BEGIN "if %6 {\ntensor_mul @S[4], @a[0], @b[0], false, 8, 0, 0, %5 #tcgen05_bf16_row_col\n" DONE "}\nmbar_wait @done[0], 0\n" GIVE, "bounds"},
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
