/* Blocks of surfaces: lanes get what SPV_INTEL_2d_block_io says, zeros outside, and by loads of their own the same of any surface; what the unit does not
 * take is found. */
#include "planted.h"

enum { LANES = 16, ROWS = 40, PITCH = 48, SIZE = ROWS * PITCH };

/* One block of the surface that begins at [first], written to `out` by element, the lanes' side by side. */
typedef struct Block {
    int32_t first, columns, rows, pitch, step, column, row, width, across;
    bool gathers;
} Block;

static const char *text_of(Bench *b, const Block *x)
{
    AuText text = {.arena = b->arena};
    au_text_add(&text,
                "kernel k lanes 16 warps 1\nmemory @in: global f16 reads\n"
                "memory @out: global f16 writes\narg in: pointer @in\narg out: pointer @out\n{\n");
    au_text_add(&text, "  %%1 = lane.i32\n  %%2 = mul.i32 %%1, %d\n", x->width);
    if (x->gathers)
        au_text_add(&text, "  %%3 = block_gather.f16x%d @in[%d], %d, %d, %dl, %dl, %d, %d #%d\n",
                    x->width, x->first, x->columns, x->rows, x->pitch, x->step, x->column, x->row,
                    x->across);
    else
        au_text_add(&text, "  %%3 = block_load.f16x%d @in[%d], %d, %d, %d, %d, %d #%d\n", x->width,
                    x->first, x->columns, x->rows, x->pitch, x->column, x->row, x->across);
    au_text_add(&text, "  store @out[%%2], %%3\n}\n");
    return au_text_str(&text);
}

/* "Mapping Block Data to Invocations": a column a lane, of a transposed block a row; "Out-of-Bounds Behavior": zero. */
static uint16_t wanted(const Block *x, int32_t lane, int32_t element)
{
    const int32_t row = x->row + (x->across ? lane : element),
                  column = x->column + (x->across ? element : lane);
    if (row < 0 || row >= x->rows || column < 0 || column >= x->columns) return 0;
    return (uint16_t)(1 + x->first + row * x->pitch + column * (x->gathers ? x->step : 1));
}

static void expect(const Block *x)
{
    Bench b = bench_new();
    uint16_t in[SIZE], out[LANES * 16];
    for (int32_t n = 0; n < SIZE; n++) in[n] = (uint16_t)(1 + n);
    AuKBuffer buffers[2] = {{in, SIZE, true}, {out, (uint64_t)(LANES * x->width), false}};
    const uint64_t slots[2] = {0};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL, *text = text_of(&b, x);
    AuKernel *k = bench_kernel(&b, text);
    assert_string_equal(bench_print(&b, k), text);
    if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s", why);
    for (int32_t lane = 0; lane < LANES; lane++)
        for (int32_t n = 0; n < x->width; n++)
            assert_int_equal(out[lane * x->width + n], wanted(x, lane, n));
    bench_free(&b);
}

static void blocks_lie_as_the_extension_says(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 3, 17, 30, -5, -16, 36}, columns[] = {0, 16, 32, 22, -6};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            for (int32_t form = 0; form < 6; form++) {
                Block x = {.first = 0,
                           .columns = 40,
                           .rows = 37,
                           .pitch = PITCH,
                           .step = 1,
                           .column = columns[c],
                           .row = rows[r],
                           .width = form % 3 ? 16 : 8,
                           .across = form % 3 == 2,
                           .gathers = form >= 3};
                expect(&x);
                if (!x.gathers) continue;
                x.first = 5, x.columns = 13, x.rows = 9, x.pitch = 101, x.step = 3;
                expect(&x);
            }
}

#define K(memory)                                                                                  \
    "kernel k lanes 16 warps 1\nmemory @in: global f16 " memory                                    \
    "\nmemory @out: global f16 writes\nmemory @f: global f32 reads\n"                              \
    "arg in: pointer @in\narg out: pointer @out\narg f: pointer @f\narg i: i32\n{\n"               \
    "%1 = lane.i32\n%2 = arg.i32 #3\n"
#define LOAD "%3 = block_load.f16x16 "

// clang-format off
static const Mistake mistakes[] = {
    {AU_E0808, "lanes that have no blocks", "kernel k lanes 32 warps 1\nmemory @in: global f16 reads\narg in: pointer @in\n{\n" LOAD "@in[0], 64, 8, 64, 0, 0 #0\n}\n", "needs executors of 16 lanes"},
    {AU_E0806, "a column of each lane", K("reads") LOAD "@in[0], 64, 8, 64, %1, 0 #0\n}\n", "operand 5 must be the same in all lanes"},
    {AU_E0806, "a surface of each lane", K("reads") LOAD "@in[%1], 64, 8, 64, 0, 0 #0\n}\n", "operand 1 must be the same in all lanes"},
    {AU_E0804, "a long pitch of the unit's", K("reads") LOAD "@in[0], 64, 8, 64l, 0, 0 #0\n}\n", "operand 4 must be i32"},
    {AU_E0804, "a short pitch of lanes'", K("reads") "%3 = block_gather.f16x16 @in[0], 64, 8, 64, 1l, 0, 0 #0\n}\n", "operand 4 must be i64"},
    {AU_E0807, "a tensor that is written", K("reads writes") LOAD "@in[0], 64, 8, 64, 0, 0 #0\n}\n", "that is only read"},
    {AU_E0807, "elements of 32 bits", K("reads") "%3 = block_load.f32x16 @f[0], 64, 8, 64, 0, 0 #0\n}\n", "of f16 or bf16"},
    {AU_E0808, "an order that does not exist", K("reads") LOAD "@in[0], 64, 8, 64, 0, 0 #2\n}\n", "#2 is none of 0, 1"},
    {AU_E0804, "eight elements of a row", K("reads") "%3 = block_load.f16x8 @in[0], 64, 8, 64, 0, 0 #1\n}\n", "16 elements of f16, or 8 of a column"},
    {AU_E0804, "another type", K("reads") "%3 = block_load.bf16x16 @in[0], 64, 8, 64, 0, 0 #0\n}\n", "16 elements of f16"},
    {AU_E0808, "nine rows ahead", K("reads") "block_ahead @in[0], 64, 8, 64, 0, 0 #9\n}\n", "#9 is none of 8, 16, 32"},
    {0, "a surface that is not aligned", K("reads") LOAD "@in[8], 40, 8, 48, 0, 0 #0\n}\n", "surface: @in[8] begins at no multiple"},
    {0, "a narrow surface", K("reads") LOAD "@in[0], 24, 8, 48, 0, 0 #0\n}\n", "has rows of another length"},
    {0, "an odd surface", K("reads") LOAD "@in[0], 41, 8, 48, 0, 0 #0\n}\n", "has rows of another length"},
    {0, "rows that overlap", K("reads") LOAD "@in[0], 40, 8, 32, 0, 0 #0\n}\n", "has rows that overlap"},
    {0, "rows that are not aligned", K("reads") LOAD "@in[0], 40, 8, 44, 0, 0 #0\n}\n", "has rows that overlap"},
    {0, "no rows", K("reads") LOAD "@in[0], 40, 0, 48, 0, 0 #0\n}\n", "has no rows"},
    {0, "an odd column", K("reads") LOAD "@in[0], 40, 8, 48, 3, 0 #0\n}\n", "an odd column"},
    {0, "a surface beyond its memory", K("reads") LOAD "@in[0], 40, 64, 48, 0, 40 #0\n}\n", "bounds: @in["},
    {0, "lanes beyond the memory", K("reads") "%3 = block_gather.f16x16 @in[0], 40, 64, 48l, 1l, 0, 40 #0\n}\n", "bounds: @in["},
};
// clang-format on

static void prepare(AuKRun *run)
{
    static uint16_t in[SIZE], out[16];
    static float f[16];
    static AuKBuffer buffers[3] = {{in, SIZE, true}, {out, 16, false}, {f, 16, true}};
    static const uint64_t slots[4] = {0};
    run->buffers = buffers;
    run->slots = slots;
}

static void mistakes_are_found(void **state)
{
    (void)state;
    try_mistakes(mistakes, sizeof mistakes / sizeof *mistakes, 1, prepare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_lie_as_the_extension_says),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
