/* Matrices in registers: fragments lie where the PTX ISA says, products through swizzled shared
 * memory and load_matrix are right, and what copies may not do is found. */
#include "kernel_test.h"
#include "matrix_kernel.h"

/* "Matrix fragments for mma.m16n8k16 with floating point type" and its neighbours, as the ISA
 * writes them. */
static void fragments_lie_as_the_isa_says(void **state)
{
    (void)state;
    for (int32_t n = 0; n < AU_MATRICES; n++) {
        const AuMatrixOp *op = kernel_matrix((AuMatrix)n);
        const bool single = op->types[AU_MATRIX_A].scalar == AU_F32;
        assert_int_equal(kernel_matrix_named(op->text), n);
        for (uint32_t lane = 0; lane < 32; lane++) {
            const uint32_t group = lane >> 2, inside = lane % 4;
            uint32_t row, column;
            for (uint32_t i = 0; i < op->types[AU_MATRIX_A].width; i++) {
                kernel_matrix_place(op, AU_MATRIX_A, lane, i, &row, &column);
                const bool low = single ? i == 0 || i == 2 : i < 2 || (i >= 4 && i < 6);
                assert_int_equal(row, low ? group : group + 8);
                assert_int_equal(column, single ? inside + (i >= 2 ? 4 : 0)
                                                : inside * 2 + (i & 1) + (i >= 4 ? 8 : 0));
            }
            for (uint32_t i = 0; i < op->types[AU_MATRIX_B].width; i++) {
                kernel_matrix_place(op, AU_MATRIX_B, lane, i, &row, &column);
                assert_int_equal(row,
                                 single ? inside + 4 * i : inside * 2 + (i & 1) + (i >= 2 ? 8 : 0));
                assert_int_equal(column, group);
            }
            for (uint32_t i = 0; i < op->types[AU_MATRIX_C].width; i++) {
                kernel_matrix_place(op, AU_MATRIX_C, lane, i, &row, &column);
                assert_int_equal(row, i < 2 ? group : group + 8);
                assert_int_equal(column, inside * 2 + (i & 1));
            }
        }
    }
    assert_null(kernel_matrix(AU_MATRICES));
    assert_int_equal(kernel_matrix_named("m1n1k1"), -1);
}

static void put(AuScalar scalar, void *to, uint32_t at, float value)
{
    if (scalar == AU_F32)
        ((float *)to)[at] = value;
    else
        ((uint16_t *)to)[at] = scalar == AU_F16 ? kernel_to_f16(value) : kernel_to_bf16(value);
}

static float some(uint32_t n) { return (float)((int32_t)(n * 2654435761u >> 27) - 16) / 4; }

static void products_are_right(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 2 * AU_MATRICES; c++) {
        const AuMatrixOp *op = kernel_matrix((AuMatrix)(c / 2));
        const AuScalar scalar = (AuScalar)op->types[AU_MATRIX_A].scalar;
        const bool by_rows = c % 2;
        if (by_rows && scalar == AU_F32) continue;
        Bench bench = bench_new();
        AuKernel *k = matrix_kernel(bench.arena, (AuMatrix)(c / 2), by_rows);
        const char *text = bench_print(&bench, k);
        k = bench_kernel(&bench, text);
        assert_string_equal(text, bench_print(&bench, k));
        float a[256], b[256], out[128];
        const uint32_t zeros = scalar == AU_F32 ? 3 : 7; /* 4 or 2 bytes of 16 are read */
        for (uint32_t n = 0; n < op->m * op->k; n++) put(scalar, a, n, some(n));
        for (uint32_t n = 0; n < op->n * op->k; n++) put(scalar, b, n, some(n + 1000));
        AuKBuffer buffers[4] = {
            {a, op->m * op->k, true}, {b, op->n * op->k, true}, {out, 128, false}};
        const uint64_t slots[4] = {0, 0, 0, scalar == AU_F32 ? 4 : 2};
        for (uint32_t pass = 0; pass < 2; pass++) {
            const AuKRun run = {
                .slots = slots, .buffers = buffers, .grid = {1, 1, 1}, .check_all_written = true};
            const char *why = NULL;
            if (!kernel_run(k, &run, bench.arena, &why)) fail_msg("%s: %s", op->text, why);
            for (uint32_t i = 0; i < op->m; i++)
                for (uint32_t j = 0; j < op->n; j++) {
                    float sum = 0.5f;
                    for (uint32_t x = 0; x < op->k; x++) {
                        const uint32_t at = i * op->k + x;
                        const float left = at < op->m * op->k - zeros ? some(at) : 0;
                        sum += left * some(1000 + (by_rows ? x * op->n + j : j * op->k + x));
                    }
                    assert_true(out[i * op->n + j] == sum); /* small multiples of 1/16: exact */
                }
            kernel_simplify(k);
            assert_true(kernel_verify(k, bench.diags));
        }
        bench_free(&bench);
    }
}

/* 1 + 2^-11 lies between two numbers of tf32 and goes away from zero. */
static void tf32_is_rounded(void **state)
{
    (void)state;
    Bench bench = bench_new();
    AuKernel *k = matrix_kernel(bench.arena, AU_MATRIX_M16N8K8_TF32, false);
    float a[128] = {0}, b[64], out[128];
    for (uint32_t n = 0; n < 64; n++) b[n] = n % 8 == 0;
    a[0] = 1 + 0x1p-11f, a[8] = -1 - 0x1p-11f, a[16] = 1 + 0x1p-12f;
    AuKBuffer buffers[4] = {{a, 128, true}, {b, 64, true}, {out, 128, false}};
    const uint64_t slots[4] = {0, 0, 0, 16};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL;
    if (!kernel_run(k, &run, bench.arena, &why)) fail_msg("%s", why);
    assert_true(out[0] == 1.5f + 0x1p-10f);
    assert_true(out[8] == -0.5f - 0x1p-10f);
    assert_true(out[16] == 1.5f);
    bench_free(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_lie_as_the_isa_says),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(tf32_is_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
