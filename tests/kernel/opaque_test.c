/* Matrices whose elements lie nobody knows how: attention of one tile as the cooperative matrices of
 * Vulkan and the simdgroups of Metal do it, by way of shared memory, without each of its lines. */
#include "deletions.h"
#include "planted.h"

#include <math.h>

enum { N = 16 };
static uint16_t q[N * N], k[N * N], v[N * N];
static float o[N * N], wanted[N * N];

static float some(uint32_t n) { return (float)((int32_t)(n * 2654435761u >> 27) - 16) / 8; }

static int plain_formula(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < N * N; n++) {
        q[n] = kernel_to_f16(some(n));
        k[n] = kernel_to_f16(some(n + 1000));
        v[n] = kernel_to_f16(some(n + 2000));
    }
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t e = 0; e < N; e++) {
            float sum = 0;
            for (uint32_t j = 0; j < N; j++) {
                float s = 0;
                for (uint32_t d = 0; d < N; d++)
                    s += kernel_from_f16(q[i * N + d]) * kernel_from_f16(k[j * N + d]);
                s = s < 0 ? 0 : s; /* a weight without exponents: exact */
                sum += kernel_from_f16(kernel_to_f16(s)) * kernel_from_f16(v[j * N + e]);
            }
            wanted[i * N + e] = (sum + 1 + (float)i) * 0.5f;
        }
    return 0;
}

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[4] = {
        {q, N * N, true}, {k, N * N, true}, {v, N * N, true}, {o, N * N, false}};
    static const uint64_t slots[4] = {0};
    run->buffers = buffers;
    run->slots = slots;
}

static bool is_right(const AuKRun *run)
{
    (void)run;
    for (uint32_t n = 0; n < N * N; n++)
        if (fabsf(o[n] - wanted[n]) > 0.02f) return false;
    return true;
}

/* relu(Q K') V, plus row + 1 by way of a load with stride 0, halved. K' is K by columns. */
static const char text[] =
    "kernel opaque lanes 32 warps 1\n"
    "memory @q: global f16 reads\nmemory @k: global f16 reads\nmemory @v: global f16 reads\n"
    "memory @o: global f32 writes\n"
    "memory @s: shared f32[256]\nmemory @p: shared f16[256]\nmemory @r: shared f32[16]\n"
    "memory @a: matrix f16[1] shape 16 16 a\nmemory @b: matrix f16[2] shape 16 16 b\n"
    "memory @c: matrix f32[2] shape 16 16 c\n"
    "arg q: pointer @q\narg k: pointer @k\narg v: pointer @v\narg o: pointer @o\n{\n"
    "  %1 = lane.i32\n"
    "  matrix_load @a[0], @q[0], 16 #0 //! uninitialised\n"
    "  matrix_load @b[0], @k[0], 16 #1 //! uninitialised\n"
    "  matrix_load @b[1], @v[0], 16 #0 //! uninitialised\n"
    "  matrix_fill @c[0], 0.0 //! uninitialised\n"
    "  matrix_mul @c[0], @a[0], @b[0] //! wrong\n"
    "  matrix_store @s[0], @c[0], 16 #0 //! uninitialised\n"
    "  barrier #1 //! race\n"
    "  for %2 = 0 to 256 step 32 {\n"
    "    %3 = add.i32 %2, %1\n    %4 = load.f32 @s[%3]\n    %5 = max.f32 %4, 0.0\n"
    "    %6 = cvt.f16 %5\n"
    "    store @p[%3], %6 //! uninitialised\n"
    "  }\n"
    "  %7 = lt.i32 %1, 16\n  %8 = cvt.f32 %1\n  %9 = add.f32 %8, 1.0\n"
    "  store @r[%1], %9 if %7 //! uninitialised\n"
    "  barrier #1 //! race\n"
    "  matrix_load @a[0], @p[0], 16 #0 //! wrong\n"
    "  matrix_fill @c[0], 0.0 //! wrong\n"
    "  matrix_mul @c[0], @a[0], @b[1] //! wrong\n"
    "  for %11 = 0 to 16 step 1 {\n"
    "    %12 = load.f32 @r[%11]\n    %13 = mul.i32 %11, 16\n    %14 = add.i32 %13, %1\n"
    "    store @s[%14], %12 if %7 //! wrong\n"
    "  }\n"
    "  barrier #1 //! race\n"
    "  matrix_load @c[1], @s[0], 16 #0 //! uninitialised\n"
    "  matrix_map @c[0], @c[0], @c[1] #add //! wrong\n"
    "  matrix_scale @c[1], @c[0], 0.5 //! wrong\n"
    "  matrix_store @o[0], @c[1], 16 #0 //! unwritten\n"
    "}\n";

static const Subject subject = {text, prepare, is_right, 2};

static void matrices_run_and_need_every_line(void **state)
{
    (void)state;
    assert_int_equal(try_deletions(&subject), 19);
}

static void text_and_passes_keep_them(void **state)
{
    (void)state;
    try_text_and_passes(&subject);
}

/* The same with functions of an element: relu(Q K' - the row's largest + 4) where the column is not beyond the row, weights that become
 * operands as they are, and a result that leaves element by element. */
static const char by_place[] =
    "kernel places lanes 32 warps 1\n"
    "memory @q: global f16 reads\nmemory @k: global f16 reads\nmemory @v: global f16 reads\n"
    "memory @o: global f32 writes\n"
    "memory @a: matrix f16[2] shape 16 16 a\nmemory @b: matrix f16[2] shape 16 16 b\n"
    "memory @c: matrix f32[3] shape 16 16 c\n"
    "arg q: pointer @q\narg k: pointer @k\narg v: pointer @v\narg o: pointer @o\n{\n"
    "  %1 = add.f32 4.0, 0.0\n"
    "  matrix_load @a[0], @q[0], 16 #0 //! uninitialised\n"
    "  matrix_load @b[0], @k[0], 16 #1 //! uninitialised\n"
    "  matrix_load @b[1], @v[0], 16 #0 //! uninitialised\n"
    "  matrix_fill @c[0], 0.0 //! uninitialised\n"
    "  matrix_mul @c[0], @a[0], @b[0] //! wrong\n"
    "  matrix_reduce @c[1], @c[0] #max //! uninitialised\n"
    "  matrix_each @c[0] {\n"
    "    %2 = matrix_row.i32\n    %3 = matrix_column.i32\n"
    "    %4 = matrix_get.f32 @c[0]\n    %5 = matrix_get.f32 @c[1]\n"
    "    %6 = sub.f32 %4, %5\n    %7 = add.f32 %6, %1\n    %8 = max.f32 %7, 0.0\n"
    "    %9 = le.i32 %3, %2\n    %10 = select.f32 %9, %8, 0.0\n"
    "    matrix_put %10 //! wrong\n"
    "  }\n"
    "  matrix_cvt @a[1], @c[0] //! uninitialised\n"
    "  matrix_fill @c[2], 0.0 //! uninitialised\n"
    "  matrix_mul @c[2], @a[1], @b[1] //! wrong\n"
    "  matrix_each @c[2] {\n"
    "    %12 = matrix_row.i32\n    %13 = matrix_column.i32\n    %14 = matrix_get.f32 @c[2]\n"
    "    %15 = mul.i32 %12, 16\n    %16 = add.i32 %15, %13\n"
    "    store @o[%16], %14 //! unwritten\n"
    "  }\n"
    "}\n";

static bool places_are_right(const AuKRun *run)
{
    (void)run;
    for (uint32_t i = 0; i < N; i++) {
        float s[N], most = -INFINITY;
        for (uint32_t j = 0; j < N; j++) {
            s[j] = 0;
            for (uint32_t d = 0; d < N; d++)
                s[j] += kernel_from_f16(q[i * N + d]) * kernel_from_f16(k[j * N + d]);
            most = s[j] > most ? s[j] : most;
        }
        for (uint32_t e = 0; e < N; e++) {
            float sum = 0;
            for (uint32_t j = 0; j <= i; j++) {
                const float w = s[j] - most + 4 > 0 ? s[j] - most + 4 : 0;
                sum += kernel_from_f16(kernel_to_f16(w)) * kernel_from_f16(v[j * N + e]);
            }
            if (fabsf(o[i * N + e] - sum) > 0.02f) return false;
        }
    }
    return true;
}

static const Subject places = {by_place, prepare, places_are_right, 3};

static void functions_of_an_element_need_every_line(void **state)
{
    (void)state;
    assert_int_equal(try_deletions(&places), 11);
    try_text_and_passes(&places);
}

/* f32 of simdgroups, columns, conversion and all element by element operations. */
static void elements_one_by_one(void **state)
{
    (void)state;
    static const char small[] =
        "kernel k lanes 32 warps 1\nmemory @x: global f32 reads\nmemory @o: global f32 writes\n"
        "memory @c: matrix f32[4] shape 8 8 c\nmemory @h: matrix f16[1] shape 8 8 c\n"
        "arg x: pointer @x\narg o: pointer @o\n{\n"
        "matrix_load @c[0], @x[0], 8 #0\nmatrix_load @c[1], @x[0], 0 #1\n"
        "matrix_map @c[2], @c[0], @c[1] #sub\nmatrix_map @c[2], @c[2], @c[0] #mul\n"
        "matrix_map @c[2], @c[2], @c[1] #div\nmatrix_cvt @h[0], @c[2]\nmatrix_cvt @c[3], @h[0]\n"
        "matrix_store @o[0], @c[3], 8 #1\n}\n";
    Bench b = bench_new();
    const AuKernel *kernel = bench_kernel(&b, small);
    float x[64], out[64];
    for (int n = 0; n < 64; n++) x[n] = (float)(n + 1);
    AuKBuffer buffers[2] = {{x, 64, true}, {out, 64, false}};
    const uint64_t slots[2] = {0};
    const AuKRun run = {
        .slots = slots, .buffers = buffers, .grid = {1, 1, 1}, .check_all_written = true};
    const char *why = NULL;
    if (!kernel_run(kernel, &run, b.arena, &why)) fail_msg("%s", why);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) {
            const float a = x[r * 8 + c], y = x[r]; /* all columns are the first 8 */
            assert_true(out[c * 8 + r] == kernel_from_f16(kernel_to_f16((a - y) * a / y)));
        }
    bench_free(&b);
}

/* ---- mistakes */

#define HEAD                                                                                       \
    "kernel k lanes 32 warps 1\nmemory @x: global f16 reads\nmemory @s: shared f32[256]\n"         \
    "memory @t: shared f32[256] swizzle 32\nmemory @a: matrix f16[1] shape 16 16 a\n"              \
    "memory @b: matrix f16[1] shape 16 16 b\nmemory @c: matrix f32[2] shape 16 16 c\n"             \
    "memory @d: matrix f32[1] shape 8 8 c\narg x: pointer @x\n"
#define BODY "{\n%1 = lane.i32\n"

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0807, "matrices that do not exist", HEAD "memory @e: matrix f16[1] shape 16 24 a\n" BODY "}\n", "matrices that no instruction has"},
    {AU_E0807, "matrices of integers", HEAD "memory @e: matrix i32[1] shape 16 16 c\n" BODY "}\n", "elements that no instruction has"},
    {AU_E0807, "element of a matrix", HEAD BODY "%2 = load.f32 @c[0]\n}\n", "elements of @c have no index"},
    {AU_E0807, "store into a matrix", HEAD BODY "store @c[0], 1.0\n}\n", "elements of @c have no index"},
    {AU_E0806, "matrix by lane", HEAD BODY "matrix_fill @c[%1], 0.0\n}\n", "which matrix must be the same"},
    {AU_E0808, "matrix outside", HEAD BODY "matrix_fill @c[2], 0.0\n}\n", "@c has 2 matrices"},
    {AU_E0806, "number by lane", HEAD BODY "%2 = cvt.f32 %1\nmatrix_fill @c[0], %2\n}\n", "the number must be the same"},
    {AU_E0807, "load of other elements", HEAD BODY "matrix_load @c[0], @x[0], 16 #0\n}\n", "@x holds f16, not f32"},
    {AU_E0807, "load from swizzled rows", HEAD BODY "matrix_load @c[0], @t[0], 16 #0\n}\n", "@t is swizzled"},
    {AU_E0807, "store to an input", HEAD "memory @e: matrix f16[1] shape 16 16 c\n" BODY "matrix_fill @e[0], 0.0\nmatrix_store @x[0], @e[0], 16 #0\n}\n", "not declared as written"},
    {AU_E0804, "operands exchanged", HEAD BODY "matrix_mul @c[0], @b[0], @a[0]\n}\n", "no instruction multiplies these"},
    {AU_E0804, "sums of another shape", HEAD BODY "matrix_mul @d[0], @a[0], @b[0]\n}\n", "no instruction multiplies these"},
    {AU_E0804, "element by element of two kinds", HEAD BODY "matrix_map @c[0], @c[0], @d[0] #add\n}\n", "not of one kind"},
    {AU_E0808, "functions of matrices", HEAD BODY "matrix_map @c[0], @c[0], @c[1] #max\n}\n", "none of add, sub, mul, div"},
    {AU_E0804, "sums become the other operand", HEAD BODY "matrix_cvt @b[0], @c[0]\n}\n", "not of one kind"},
    {AU_E0808, "rows by a product", HEAD BODY "matrix_reduce @c[0], @c[1] #mul\n}\n", "none of add, max, maxnan"},
    {AU_E0804, "rows of an operand", HEAD BODY "matrix_reduce @a[0], @a[0] #max\n}\n", "only rows of sums"},
    {AU_E0803, "a row of no element", HEAD BODY "%2 = matrix_row.i32\n}\n", "stands in no function of an element"},
    {AU_E0803, "an element into nothing", HEAD BODY "matrix_put 1.0\n}\n", "stands in no function of an element"},
    {AU_E0803, "a function in a function", HEAD BODY "matrix_each @c[0] {\nmatrix_each @c[1] {\nmatrix_put 1.0\n}\n}\n}\n", "stands in a function of an element"},
    {AU_E0804, "functions of operands", HEAD BODY "matrix_each @a[0] {\nmatrix_put 1.0\n}\n}\n", "elements are f32"},
    {AU_E0804, "elements of another kind", HEAD BODY "matrix_each @c[0] {\n%2 = matrix_get.f32 @d[0]\nmatrix_put %2\n}\n}\n", "not of one kind"},
    {AU_E0806, "what lanes have each", HEAD BODY "%2 = cvt.f32 %1\nmatrix_each @c[0] {\nmatrix_put %2\n}\n}\n", "differs from lane to lane"},
    {AU_E0803, "the lane of an element", HEAD BODY "matrix_each @c[0] {\n%2 = lane.i32\n%3 = cvt.f32 %2\nmatrix_put %3\n}\n}\n", "no part of a function of an element"},
    {AU_E0803, "lanes meet at an element", HEAD BODY "matrix_each @c[0] {\nbarrier #1\nmatrix_put 1.0\n}\n}\n", "no part of a function of an element"},
    {AU_E0807, "registers of an element", HEAD "memory @l: lane f32[1]\n" BODY "matrix_each @c[0] {\n%2 = load.f32 @l[0]\nmatrix_put %2\n}\n}\n", "an element is no lane's"},
    {AU_E0803, "a sum that may come twice", HEAD "memory @y: global f32 reads writes\narg y: pointer @y\n" BODY "matrix_each @c[0] {\natomic_add @y[0], 1.0\n}\n}\n", "may happen twice"},
    {AU_E0803, "an element before its end", HEAD BODY "matrix_each @c[0] {\nmatrix_put 1.0\n%2 = matrix_row.i32\n}\n}\n", "not the last of its function"},
    {0, "functions of nothing", HEAD BODY "matrix_each @c[0] {\n%2 = matrix_get.f32 @c[1]\nmatrix_put %2\n}\n}\n", "uninitialised: matrix @c[1]"},
    {0, "rows of nothing", HEAD BODY "matrix_reduce @c[0], @c[1] #max\n}\n", "uninitialised: matrix @c[1]"},
    {0, "sums of nothing", HEAD BODY "matrix_fill @a[0], 0.0\nmatrix_fill @b[0], 0.0\nmatrix_mul @c[0], @a[0], @b[0]\n}\n", "uninitialised: matrix @c[0]"},
    {0, "rows outside", HEAD BODY "matrix_fill @c[0], 0.0\nmatrix_store @s[1], @c[0], 16 #0\n}\n", "bounds: @s[256] of 256"},
    {0, "loads behind a store", HEAD BODY "matrix_fill @c[0], 0.0\nmatrix_store @s[0], @c[0], 16 #0\nmatrix_load @c[1], @s[0], 16 #0\n}\n", "race: @s[0]"},
    {0, "rows that overlap", HEAD BODY "matrix_fill @c[0], 0.0\nmatrix_store @s[0], @c[0], 8 #0\n}\n", "race: @s[8]"},
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
        cmocka_unit_test(matrices_run_and_need_every_line),
        cmocka_unit_test(text_and_passes_keep_them),
        cmocka_unit_test(elements_one_by_one),
        cmocka_unit_test(functions_of_an_element_need_every_line),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, plain_formula, NULL);
}
