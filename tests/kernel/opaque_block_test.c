/* Matrices that a whole block holds (atoms.def, OF_BLOCK): each is a tile of any multiples of the instruction's extents, so numbers of rows are matrices of
 * several widths, made of each other by reductions. A row of attention without exponents, without each of its lines. */
#include "deletions.h"
#include "planted.h"

#include <math.h>

enum { ROWS = 64, DEPTH = 16, KEYS = 64, WIDTH = 48 };
static uint16_t q[ROWS * DEPTH], k[KEYS * DEPTH], v[KEYS * WIDTH];
static float o[ROWS * WIDTH], wanted[ROWS * WIDTH];

static float some(uint32_t n) { return (float)((int32_t)(n * 2654435761u >> 27) - 16) / 8; }

static float product(const uint16_t *a, const uint16_t *b, uint32_t step, uint32_t depth)
{
    float sum = 0;
    for (uint32_t n = 0; n < depth; n++)
        sum += kernel_from_f16(a[n]) * kernel_from_f16(b[n * step]);
    return sum;
}

/* relu(s - half of the row's largest + 4) V times this half, less the largest of its column. */
static int plain_formula(void **state)
{
    (void)state;
    static float halves[ROWS];
    for (uint32_t n = 0; n < ROWS * DEPTH; n++) q[n] = kernel_to_f16(some(n));
    for (uint32_t n = 0; n < KEYS * DEPTH; n++) k[n] = kernel_to_f16(some(n + 5000));
    for (uint32_t n = 0; n < KEYS * WIDTH; n++) v[n] = kernel_to_f16(some(n + 9000));
    for (uint32_t i = 0; i < ROWS; i++) {
        float s[KEYS], most = -INFINITY;
        uint16_t weights[KEYS];
        for (uint32_t j = 0; j < KEYS; j++) {
            s[j] = product(q + i * DEPTH, k + j * DEPTH, 1, DEPTH);
            most = s[j] > most ? s[j] : most;
        }
        most /= 2;
        for (uint32_t j = 0; j < KEYS; j++)
            weights[j] = kernel_to_f16(s[j] - most + 4 > 0 ? s[j] - most + 4 : 0);
        halves[i] = most;
        for (uint32_t e = 0; e < WIDTH; e++)
            wanted[i * WIDTH + e] = product(weights, v + e, WIDTH, KEYS);
    }
    for (uint32_t e = 0; e < WIDTH; e++) {
        float most = -INFINITY;
        for (uint32_t i = 0; i < ROWS; i++)
            most = wanted[i * WIDTH + e] > most ? wanted[i * WIDTH + e] : most;
        for (uint32_t i = 0; i < ROWS; i++)
            wanted[i * WIDTH + e] = wanted[i * WIDTH + e] * halves[i] - most;
    }
    return 0;
}

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[4] = {{q, ROWS * DEPTH, true},
                                   {k, KEYS * DEPTH, true},
                                   {v, KEYS * WIDTH, true},
                                   {o, ROWS * WIDTH, false}};
    static const uint64_t slots[4] = {0};
    run->buffers = buffers;
    run->slots = slots;
}

static bool is_right(const AuKRun *run)
{
    (void)run;
    for (uint32_t n = 0; n < ROWS * WIDTH; n++)
        if (fabsf(o[n] - wanted[n]) > 0.02f * (1 + fabsf(wanted[n]))) return false;
    return true;
}

static const char text[] =
    "kernel tile lanes 128 warps 1\n"
    "memory @q: global f16 reads\nmemory @k: global f16 reads\nmemory @v: global f16 reads\n"
    "memory @o: global f32 writes\n"
    "memory @a: matrix f16[1] shape 64 16 a\nmemory @kt: matrix f16[1] shape 16 64 b\n"
    "memory @vt: matrix f16[1] shape 64 48 b\nmemory @p: matrix f16[1] shape 64 64 a\n"
    "memory @s: matrix f32[1] shape 64 64 c\nmemory @r: matrix f32[1] shape 64 16 c\n"
    "memory @rs: matrix f32[1] shape 64 64 c\nmemory @ro: matrix f32[1] shape 64 48 c\n"
    "memory @acc: matrix f32[1] shape 64 48 c\n"
    "memory @cn: matrix f32[1] shape 32 48 c\nmemory @co: matrix f32[1] shape 64 48 c\n"
    "arg q: pointer @q\narg k: pointer @k\narg v: pointer @v\narg o: pointer @o\n{\n"
    "  %1 = add.f32 4.0, 0.0\n"
    "  matrix_block_load @a[0], @q[0], 16, 64, 16, 0, 0 #0 //! uninitialised\n"
    "  matrix_block_load @kt[0], @k[0], 16, 64, 16, 0, 0 #1 //! uninitialised\n"
    "  matrix_block_load @vt[0], @v[0], 48, 64, 48, 0, 0 #0 //! uninitialised\n"
    "  matrix_fill @s[0], 0.0 //! uninitialised\n"
    "  matrix_mul @s[0], @a[0], @kt[0] //! wrong\n"
    "  matrix_reduce @r[0], @s[0] #max //! uninitialised\n"
    "  matrix_each @r[0] {\n"
    "    %2 = matrix_get.f32 @r[0]\n    %3 = mul.f32 %2, 0.5\n"
    "    matrix_put %3 //! wrong\n"
    "  }\n"
    "  matrix_reduce @rs[0], @r[0] #max //! uninitialised\n"
    "  matrix_each @s[0] {\n"
    "    %4 = matrix_get.f32 @s[0]\n    %5 = matrix_get.f32 @rs[0]\n"
    "    %6 = sub.f32 %4, %5\n    %7 = add.f32 %6, %1\n    %8 = max.f32 %7, 0.0\n"
    "    matrix_put %8 //! wrong\n"
    "  }\n"
    "  matrix_cvt @p[0], @s[0] //! uninitialised\n"
    "  matrix_fill @acc[0], 0.0 //! uninitialised\n"
    "  matrix_mul @acc[0], @p[0], @vt[0] //! wrong\n"
    "  matrix_reduce @ro[0], @r[0] #max //! uninitialised\n"
    "  matrix_reduce_columns @cn[0], @acc[0] #max //! uninitialised\n"
    "  matrix_reduce_columns @co[0], @cn[0] #max //! uninitialised\n"
    "  matrix_each @acc[0] {\n"
    "    %10 = matrix_row.i32\n    %11 = matrix_column.i32\n"
    "    %12 = matrix_get.f32 @acc[0]\n    %13 = matrix_get.f32 @ro[0]\n"
    "    %17 = matrix_get.f32 @co[0]\n    %18 = mul.f32 %12, %13\n    %14 = sub.f32 %18, %17\n"
    "    %15 = mul.i32 %10, 48\n    %16 = add.i32 %15, %11\n"
    "    store @o[%16], %14 //! unwritten\n"
    "  }\n"
    "}\n";

static const Subject subject = {text, prepare, is_right, 3};

static void tiles_need_every_line(void **state)
{
    (void)state;
    assert_int_equal(try_deletions(&subject), 16);
}

static void text_and_passes_keep_them(void **state)
{
    (void)state;
    try_text_and_passes(&subject);
}

/* ---- mistakes */

#define MEMORIES                                                                                   \
    "memory @x: global f16 reads\nmemory @r: matrix f32[1] shape 32 16 c\n"                        \
    "memory @c: matrix f32[1] shape 32 64 c\nmemory @d: matrix f32[1] shape 64 64 c\n"             \
    "memory @h: matrix f16[1] shape 32 64 c\narg x: pointer @x\n"
#define BLOCK "kernel k lanes 128 warps 1\n" MEMORIES

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0807, "two executors hold one matrix", "kernel k lanes 128 warps 2\n" MEMORIES "{\n}\n", "matrices of a block, which has several executors"},
    {AU_E0807, "no multiple", BLOCK "memory @e: matrix f32[1] shape 48 16 c\n{\n}\n", "matrices that no instruction has"},
    {AU_E0807, "no multiple in depth", BLOCK "memory @e: matrix f16[1] shape 32 24 a\n{\n}\n", "matrices that no instruction has"},
    {AU_E0807, "multiples of a subgroup's", "kernel k lanes 32 warps 1\n" MEMORIES "{\n}\n", "matrices that no instruction has"},
    {AU_E0804, "numbers of other rows", BLOCK "{\nmatrix_fill @d[0], 0.0\nmatrix_reduce @r[0], @d[0] #max\n}\n", "not of one kind"},
    {AU_E0804, "numbers of other columns", BLOCK "{\nmatrix_fill @c[0], 0.0\nmatrix_reduce_columns @r[0], @c[0] #max\n}\n", "not of one kind"},
    {AU_E0804, "rows of other elements", BLOCK "{\nmatrix_fill @h[0], 0.0\nmatrix_reduce @r[0], @h[0] #max\n}\n", "not of one kind"},
    {AU_E0804, "elements of another width", BLOCK "{\nmatrix_fill @r[0], 0.0\nmatrix_each @c[0] {\n%1 = matrix_get.f32 @r[0]\nmatrix_put %1\n}\n}\n", "not of one kind"},
    {0, "rows of nothing", BLOCK "{\nmatrix_reduce @r[0], @c[0] #max\n}\n", "uninitialised: matrix @c[0]"},
};
/* clang-format on */

static void mistakes_are_found(void **state)
{
    (void)state;
    try_mistakes(mistakes, sizeof mistakes / sizeof *mistakes, 1, prepare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_need_every_line),
        cmocka_unit_test(text_and_passes_keep_them),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, plain_formula, NULL);
}
