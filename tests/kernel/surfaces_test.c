/* Matrices straight from tensors: elements are where the slice of a tensor layout has them (SPV_NV_cooperative_matrix2, "matrixCoordToTensorElement", with a
 * view that exchanges rows and columns), zeros outside, and element by element the same of any surface; what units do not take is found. */
#include "planted.h"

enum { N = 16, PITCH = 48, SIZE = 40 * PITCH };

typedef struct Block {
    int32_t first, columns, rows, pitch, step, column, row, turned;
    bool gathers;
} Block;

static const char *text_of(Bench *b, const Block *x)
{
    AuText text = {.arena = b->arena};
    au_text_add(&text, "kernel k lanes 32 warps 1\nmemory @in: global f16 reads\n"
                       "memory @out: global f16 writes\nmemory @m: matrix f16[1] shape 16 16 b\n"
                       "arg in: pointer @in\narg out: pointer @out\n{\n");
    if (x->gathers)
        au_text_add(&text, "  matrix_block_gather @m[0], @in[%d], %d, %d, %dl, %dl, %d, %d #%d\n",
                    x->first, x->columns, x->rows, x->pitch, x->step, x->column, x->row, x->turned);
    else
        au_text_add(&text, "  matrix_block_load @m[0], @in[%d], %d, %d, %d, %d, %d #%d\n", x->first,
                    x->columns, x->rows, x->pitch, x->column, x->row, x->turned);
    au_text_add(&text, "  matrix_store @out[0], @m[0], 16 #0\n}\n");
    return au_text_str(&text);
}

/* By the extension: the element's number in the view, which with permutation 1, 0 counts along the tensor's rows first; coordinates in the slice;
 * the constant outside. */
static uint16_t wanted(const Block *x, int32_t row, int32_t column)
{
    const int32_t index = x->turned ? column * N + row : row * N + column;
    const int32_t at_row = index / N + x->row, at_column = index % N + x->column;
    if (at_row < 0 || at_row >= x->rows || at_column < 0 || at_column >= x->columns) return 0;
    return (uint16_t)(1 + x->first + at_row * x->pitch + at_column * x->step);
}

static void expect(const Block *x)
{
    Bench b = bench_new();
    uint16_t in[SIZE], out[N * N];
    for (int32_t n = 0; n < SIZE; n++) in[n] = (uint16_t)(1 + n);
    AuKBuffer buffers[2] = {{in, SIZE, true}, {out, N * N, false}};
    const uint64_t slots[2] = {0};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL, *text = text_of(&b, x);
    AuKernel *k = bench_kernel(&b, text);
    assert_string_equal(bench_print(&b, k), text);
    if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s", why);
    for (int32_t row = 0; row < N; row++)
        for (int32_t column = 0; column < N; column++)
            assert_int_equal(out[row * N + column], wanted(x, row, column));
    bench_free(&b);
}

static void matrices_lie_as_the_extension_says(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 3, 17, 30, -5, -16, 36}, columns[] = {0, 16, 29, 33, -6};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            for (int32_t form = 0; form < 4; form++) {
                Block x = {.first = 8,
                           .columns = 40,
                           .rows = 37,
                           .pitch = PITCH,
                           .step = 1,
                           .column = columns[c],
                           .row = rows[r],
                           .turned = form % 2,
                           .gathers = form >= 2};
                expect(&x);
                x.columns = x.pitch = 41; /* one row behind the other, which begin anywhere */
                expect(&x);
                x.rows = 0;
                expect(&x);
                if (!x.gathers) continue;
                x.first = 5, x.columns = 13, x.rows = 9, x.pitch = 101, x.step = 3;
                expect(&x);
                x.pitch = 0; /* all rows are one */
                expect(&x);
            }
}

#define K(memory)                                                                                  \
    "kernel k lanes 32 warps 1\nmemory @in: global f16 " memory                                    \
    "\nmemory @s: shared f16[256]\nmemory @w: global bf16 reads\n"                                 \
    "memory @m: matrix f16[1] shape 16 16 a\n"                                                     \
    "arg in: pointer @in\narg w: pointer @w\narg i: i32\n{\n%1 = lane.i32\n"
#define LOAD   "matrix_block_load @m[0], "
#define GATHER "matrix_block_gather @m[0], "

// clang-format off
static const Mistake mistakes[] = {
    {AU_E0806, "a column of each lane", K("reads") LOAD "@in[0], 64, 8, 64, %1, 0 #0\n}\n", "operand 6 must be the same in all lanes"},
    {AU_E0806, "a surface of each lane", K("reads") LOAD "@in[%1], 64, 8, 64, 0, 0 #0\n}\n", "operand 2 must be the same in all lanes"},
    {AU_E0806, "a matrix of each lane", K("reads") "matrix_block_load @m[%1], @in[0], 64, 8, 64, 0, 0 #0\n}\n", "which matrix must be the same"},
    {AU_E0804, "a long pitch of the unit's", K("reads") LOAD "@in[0], 64, 8, 64l, 0, 0 #0\n}\n", "operand 5 must be i32"},
    {AU_E0804, "a short pitch of elements'", K("reads") GATHER "@in[0], 64, 8, 64, 1l, 0, 0 #0\n}\n", "operand 5 must be i64"},
    {AU_E0804, "a short step of elements'", K("reads") GATHER "@in[0], 64, 8, 64l, 1, 0, 0 #0\n}\n", "operand 6 must be i64"},
    {AU_E0807, "a tensor that is written", K("reads writes") LOAD "@in[0], 64, 8, 64, 0, 0 #0\n}\n", "that is only read"},
    {AU_E0807, "shared memory", K("reads") LOAD "@s[0], 16, 8, 16, 0, 0 #0\n}\n", "must be global memory"},
    {AU_E0807, "elements of another type", K("reads") LOAD "@w[0], 64, 8, 64, 0, 0 #0\n}\n", "@w holds bf16, not f16"},
    {AU_E0807, "not into matrices", K("reads") "matrix_block_load @s[0], @in[0], 64, 8, 64, 0, 0 #0\n}\n", "@s holds no matrices"},
    {AU_E0808, "an order that does not exist", K("reads") LOAD "@in[0], 64, 8, 64, 0, 0 #2\n}\n", "#2 is none of 0, 1"},
    {0, "a surface that is not aligned", K("reads") LOAD "@in[4], 40, 8, 48, 0, 0 #0\n}\n", "surface: @in[4] begins at no multiple of 16 bytes"},
    {0, "rows that overlap", K("reads") LOAD "@in[0], 40, 8, 32, 0, 0 #0\n}\n", "has rows that overlap"},
    {0, "less than no rows", K("reads") LOAD "@in[0], 40, -1, 48, 0, 0 #0\n}\n", "less than no rows"},
    {0, "more than units count", K("reads") LOAD "@in[0], 40, 1048576, 1025, 0, 0 #0\n}\n", "larger than units count"},
    {0, "a surface beyond its memory", K("reads") LOAD "@in[0], 40, 64, 48, 0, 40 #0\n}\n", "bounds: @in["},
    {0, "elements beyond the memory", K("reads") GATHER "@in[0], 40, 64, 48l, 1l, 0, 40 #0\n}\n", "bounds: @in["},
};
// clang-format on

static void prepare(AuKRun *run)
{
    static uint16_t in[SIZE], w[N];
    static AuKBuffer buffers[2] = {{in, SIZE, true}, {w, N, true}};
    static const uint64_t slots[3] = {0};
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
        cmocka_unit_test(matrices_lie_as_the_extension_says),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
