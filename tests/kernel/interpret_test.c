/* What operations do in all lanes: vectors, element types, masks, exchanges, atomics, loops both
 * ways; equal for every seed. */
#include "kernel_test.h"

#include <math.h>

typedef struct Memory { /* bound to the pointers in their order */
    void *data;
    uint64_t count;
    bool initialised;
} Memory;

static void run(Bench *b, const AuKernel *k, const Memory *memories, uint64_t seed)
{
    AuKBuffer buffers[8];
    uint64_t slots[8] = {0};
    for (uint32_t n = 0, m = 0; n < k->arg_count; n++)
        if (k->args[n].kind == AU_ARG_POINTER) {
            buffers[n] = (AuKBuffer){memories[m].data, memories[m].count, memories[m].initialised};
            m++;
        }
    const AuKRun given = {.slots = slots,
                          .buffers = buffers,
                          .grid = {2, 1, 1},
                          .seed = seed,
                          .check_all_written = true};
    const char *why = NULL;
    if (!kernel_run(k, &given, b->arena, &why)) fail_msg("%s", why);
}

static void vectors_are_their_elements(void **state)
{
    (void)state;
    static const char text[] =
        "kernel k lanes 2 warps 1\nmemory @x: global f32 reads\nmemory @h: global bf16 "
        "reads\nmemory @o: global f32 writes\nmemory @r: lane bf16[4]\n"
        "arg x: pointer @x\narg h: pointer @h\narg o: pointer @o\n{\n"
        "  %1 = block.i32 #0\n  %2 = lane.i32\n  %3 = mul.i32 %1, 2\n  %4 = add.i32 %3, %2\n  %5 = "
        "mul.i32 %4, 4\n"
        "  %6 = load.f32x4 @x[%5]\n  %7 = load.bf16x4 @h[%5]\n  %8 = cvt.f32x4 %7\n  %9 = "
        "const.f32x4 0.5\n  %10 = fma.f32x4 %6, %8, %9\n"
        "  %11 = cvt.bf16x4 %10\n  store @r[0], %11\n  %12 = load.bf16x2 @r[2]\n  %13 = "
        "load.bf16x2 @r[0]\n  %14 = dot2.f32 1.0, %12, %13\n"
        "  %15 = element.f32 %10 #3\n  %16 = exp.f32x4 %9\n  %17 = element.f32 %16 #1\n  %18 = "
        "lt.f32x4 %6, %9\n  %19 = select.f32x4 %18, %6, %9\n"
        "  %20 = element.f32 %19 #2\n  %21 = vec.f32x4 %14, %15, %17, %20\n  store @o[%5], "
        "%21\n}\n";
    float x[16], out[16];
    uint16_t h[16];
    for (int n = 0; n < 16; n++) x[n] = (float)n / 8 - 0.5f, h[n] = kernel_to_bf16(1 + (float)n);
    Bench b = bench_new();
    run(&b, bench_kernel(&b, text), (Memory[]){{x, 16, true}, {h, 16, true}, {out, 16, false}}, 1);
    for (int i = 0; i < 16; i += 4) {
        float p[4], half[4];
        for (int e = 0; e < 4; e++) {
            p[e] = fmaf(x[i + e], kernel_from_bf16(h[i + e]), 0.5f);
            half[e] = kernel_from_bf16(kernel_to_bf16(p[e]));
        }
        assert_true(out[i] == 1 + half[2] * half[0] + half[3] * half[1]);
        assert_true(out[i + 1] == p[3]);
        assert_true(out[i + 2] == (float)exp(0.5));
        assert_true(out[i + 3] == (x[i + 2] < 0.5f ? x[i + 2] : 0.5f));
    }
    bench_free(&b);
}

/* C[r, l] = sum over k of A[r, k] B[k, l], once begun anew and once added to; rows of C lie 2 apart, and what lies between stays. */
static void products_of_matrices(void **state)
{
    (void)state;
    static const char text[] =
        "kernel k lanes 2 warps 1\nmemory @a: exec bf16[640]\nmemory @b: lane i32[16]\n"
        "memory @c: lane f32[32]\nmemory @x: global bf16 reads\nmemory @y: global i32 reads\n"
        "memory @o: global f32 writes\narg x: pointer @x\narg y: pointer @y\narg o: pointer @o\n{\n"
        "  %1 = lane.i32\n"
        "  for %2 = 0 to 640 step 2 {\n    %3 = add.i32 %1, %2\n    %4 = load.bf16 @x[%3]\n"
        "    store @a[%3], %4\n  }\n"
        "  for %5 = 0 to 16 step 1 {\n    %6 = mul.i32 %5, 2\n    %7 = add.i32 %6, %1\n"
        "    %8 = load.i32 @y[%7]\n    store @b[%5], %8\n  }\n"
        "  for %9 = 0 to 32 step 1 {\n    store @c[%9], 7.0\n  }\n"
        "  barrier #1\n"
        "  matmul @c[1], @a[8], @b[0], 16, 1, 32, 2, 40, 1, false\n"
        "  matmul @c[0], @a[8], @b[0], 16, 1, 32, 2, 40, 1, true\n"
        "  %10 = block.i32 #0\n  %11 = mul.i32 %10, 64\n"
        "  for %12 = 0 to 32 step 1 {\n    %13 = mul.i32 %12, 2\n    %14 = add.i32 %13, %1\n"
        "    %15 = add.i32 %11, %14\n    %16 = load.f32 @c[%12]\n    store @o[%15], %16\n  }\n}\n";
    uint16_t x[640], y[16][2][2];
    float out[128];
    for (int n = 0; n < 640; n++) x[n] = kernel_to_bf16((float)(n * 7 % 13 - 6));
    for (int n = 0; n < 64; n++) (&y[0][0][0])[n] = kernel_to_bf16((float)(n * 5 % 11 - 5));
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, text);
    assert_string_equal(bench_print(&b, k), text);
    for (int pass = 0; pass < 2; pass++) {
        run(&b, k, (Memory[]){{x, 640, true}, {y, 32, true}, {out, 128, false}}, 1);
        for (int r = 0; r < 16; r++)
            for (int l = 0; l < 2; l++) {
                float sum = 0;
                for (int n = 0; n < 32; n++)
                    sum +=
                        kernel_from_bf16(x[8 + r * 40 + n]) * kernel_from_bf16(y[n / 2][l][n % 2]);
                assert_true(out[(2 * r + 1) * 2 + l] == sum);
                assert_true(out[2 * r * 2 + l] == 7 + sum);
            }
        kernel_simplify(k); /* keeps what the products read and write */
    }
    bench_free(&b);
}

static void masks_and_exchanges(void **state)
{
    (void)state;
    static const char text[] =
        "kernel k lanes 4 warps 2\nmemory @x: global u8 reads\nmemory @o: global i32 reads "
        "writes\nmemory @w: global i64 writes\n"
        "arg x: pointer @x\narg o: pointer @o\narg w: pointer @w\n{\n"
        "  %1 = block.i32 #0\n  %2 = warp.i32\n  %3 = lane.i32\n  %4 = mul.i32 %1, 2\n  %5 = "
        "add.i32 %4, %2\n  %6 = mul.i32 %5, 4\n  %7 = add.i32 %6, %3\n"
        "  %8 = lt.i32 %3, 3\n  %9 = load.u8 @x[%7] if %8\n  %10 = cvt.i32 %9\n  %11 = "
        "shuffle_xor.i32 %10 #3\n  %12 = shuffle.i32 %10, 1\n"
        "  %13 = eq.i32 %10, 200\n  %14 = any.i1 %13\n  %15 = cvt.i32 %14\n  %16 = mul.i32 %7, 4\n"
        "  store @o[%16], %10\n  %17 = add.i32 %16, 1\n  store @o[%17], %11\n  %18 = add.i32 %16, "
        "2\n  store @o[%18], %12\n  %19 = add.i32 %16, 3\n  store @o[%19], %15\n"
        "  %20 = cvt.i64 %10\n  %21 = mul.i64 %20, 68719476736l\n  store @w[%7], %21\n}\n";
    uint8_t x[16];
    int32_t out[64];
    int64_t wide[16];
    for (int n = 0; n < 16; n++) x[n] = (uint8_t)(n == 5 ? 200 : 128 + n);
    for (uint64_t seed = 0; seed < 5; seed++) {
        Bench b = bench_new();
        run(&b, bench_kernel(&b, text),
            (Memory[]){{x, 16, true}, {out, 64, false}, {wide, 16, false}}, seed);
        for (int n = 0; n < 16; n++) {
            const int first = n / 4 * 4, other = n ^ 3;
            assert_int_equal(out[n * 4], n % 4 < 3 ? x[n] : 0); /* without the mask: 0 */
            assert_int_equal(out[n * 4 + 1], other % 4 < 3 ? x[other] : 0);
            assert_int_equal(out[n * 4 + 2], x[first + 1]);
            assert_int_equal(out[n * 4 + 3], first == 4);
            assert_true(wide[n] == (int64_t)out[n * 4] << 36);
        }
        bench_free(&b);
    }
}

/* Sums of all lanes of all blocks; tickets, each drawn once. */
static void atomics_add_up(void **state)
{
    (void)state;
    static const char text[] =
        "kernel k lanes 4 warps 3\nmemory @sum: global f32 reads writes\nmemory @n: global i32 "
        "reads writes\nmemory @seen: global i32 writes\n"
        "arg sum: pointer @sum\narg n: pointer @n\narg seen: pointer @seen\n{\n"
        "  %1 = lane.i32\n  %2 = cvt.f32 %1\n  atomic_add @sum[0], %2\n  %3 = lt.i32 %1, 2\n  "
        "atomic_add @sum[1], 1.0 if %3\n"
        "  %4 = atomic_inc.i32 @n[0]\n  store @seen[%4], 1\n}\n";
    for (uint64_t seed = 0; seed < 5; seed++) {
        Bench b = bench_new();
        float sum[2] = {0, 100};
        int32_t n = 0, seen[24];
        run(&b, bench_kernel(&b, text),
            (Memory[]){{sum, 2, true}, {&n, 1, true}, {seen, 24, false}}, seed);
        assert_true(sum[0] == 36 && sum[1] == 112 && n == 24);
        bench_free(&b);
    }
}

static void loops_run_both_ways(void **state)
{
    (void)state;
    static const char text[] =
        "kernel k lanes 1 warps 1\nmemory @o: global i32 writes\nmemory @c: lane i32[1]\narg o: "
        "pointer @o\n{\n"
        "  %1 = block.i32 #0\n  %2 = mul.i32 %1, 4\n  store @c[0], 0\n"
        "  for %3 = 0 to 7 step 3 {\n    %4 = load.i32 @c[0]\n    %5 = mul.i32 %4, 10\n    %6 = "
        "add.i32 %5, %3\n    store @c[0], %6\n  }\n"
        "  %7 = load.i32 @c[0]\n  store @o[%2], %7\n"
        "  for %8 = 7 to -1 step -3 {\n    %9 = load.i32 @c[0]\n    %10 = mul.i32 %9, 10\n    %11 "
        "= add.i32 %10, %8\n    store @c[0], %11\n  }\n"
        "  %12 = load.i32 @c[0]\n  %13 = add.i32 %2, 1\n  store @o[%13], %12\n"
        "  for %14 = 3 to %1 step 1 {\n    store @c[0], -1\n  }\n"
        "  for %15 = 2147483646 to 2147483647 step 2 {\n    %16 = load.i32 @c[0]\n    %17 = "
        "neg.i32 %16\n    store @c[0], %17\n  }\n"
        "  %18 = load.i32 @c[0]\n  %19 = add.i32 %2, 2\n  store @o[%19], %18\n"
        "  %20 = eq.i32 %1, 0\n  %21 = add.i32 %2, 3\n  if %20 {\n    store @o[%21], 5\n  } else "
        "{\n    store @o[%21], 6\n  }\n}\n";
    Bench b = bench_new();
    int32_t out[8];
    run(&b, bench_kernel(&b, text), (Memory[]){{out, 8, false}}, 3);
    for (int n = 0; n < 8; n += 4) {
        assert_int_equal(out[n], 36);        /* 0, 3, 6 */
        assert_int_equal(out[n + 1], 36741); /* 7, 4, 1 */
        assert_int_equal(out[n + 2], -36741);
        assert_int_equal(out[n + 3], n ? 6 : 5);
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_their_elements), cmocka_unit_test(products_of_matrices),
        cmocka_unit_test(masks_and_exchanges),        cmocka_unit_test(atomics_add_up),
        cmocka_unit_test(loops_run_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
