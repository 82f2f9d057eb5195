/* Matrices in registers: fragments lie where the PTX ISA says, products through swizzled shared
 * memory and load_matrix are right, store_matrix puts rows where lanes say, and what copies may not do is found. */
#include "kernel_test.h"
#include "matrix_kernel.h"

#include <stdlib.h>

/* Operands of these come through load_matrix; of the others as lanes hold them. */
static bool is_fed_by_rows(const AuMatrixOp *op) { return strncmp(op->text, "m16n8", 5) == 0; }

/* "Matrix fragments for mma.m16n8k16 with floating point type" and its neighbours, as the ISA
 * writes them. */
static void fragments_lie_as_the_isa_says(void **state)
{
    (void)state;
    for (int32_t n = 0; n < AU_MATRICES; n++) {
        const AuMatrixOp info = kernel_matrix((AuMatrix)n);
        const AuMatrixOp *op = &info;
        if (!is_fed_by_rows(op)) continue;
        const bool single = op->types[AU_MATRIX_A].scalar == AU_F32;
        assert_int_equal(kernel_matrix_named(op->text), n);
        for (uint32_t lane = 0; lane < 32; lane++) {
            const uint32_t group = lane >> 2, inside = lane % 4;
            uint32_t row, column;
            for (uint32_t i = 0; i < op->types[AU_MATRIX_A].width; i++) {
                machine_fragment_at(&op->at[AU_MATRIX_A], lane, i, &row, &column);
                const bool low = single ? i == 0 || i == 2 : i < 2 || (i >= 4 && i < 6);
                assert_int_equal(row, low ? group : group + 8);
                assert_int_equal(column, single ? inside + (i >= 2 ? 4 : 0)
                                                : inside * 2 + (i & 1) + (i >= 4 ? 8 : 0));
            }
            for (uint32_t i = 0; i < op->types[AU_MATRIX_B].width; i++) {
                machine_fragment_at(&op->at[AU_MATRIX_B], lane, i, &row, &column);
                assert_int_equal(row,
                                 single ? inside + 4 * i : inside * 2 + (i & 1) + (i >= 2 ? 8 : 0));
                assert_int_equal(column, group);
            }
            for (uint32_t i = 0; i < op->types[AU_MATRIX_C].width; i++) {
                machine_fragment_at(&op->at[AU_MATRIX_C], lane, i, &row, &column);
                assert_int_equal(row, i < 2 ? group : group + 8);
                assert_int_equal(column, inside * 2 + (i & 1));
            }
        }
    }
    assert_int_equal(kernel_matrix_named("m1n1k1"), -1);
}

/* Row or column i of a quad pair's 8 in the 16 of all. */
static uint32_t of_pair(uint32_t i, uint32_t half) { return i % 4 + 4 * half + 8 * (i / 4); }

/* "Matrix fragments for mma.m8n8k4": what .row and .col say of A and of B, and the sums. */
static void fragments_of_quad_pairs(void **state)
{
    (void)state;
    for (int32_t n = AU_MATRIX_M8N8K4_ROW_COL; n <= AU_MATRIX_M8N8K4_COL_ROW; n++) {
        const AuMatrixOp info = kernel_matrix((AuMatrix)n);
        const AuMatrixOp *op = &info;
        const bool a_col = strstr(op->text, "col_") != NULL,
                   b_row = strstr(op->text, "_row_row") || strstr(op->text, "col_row");
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t i = 0; i < 8; i++) {
                const uint32_t high = lane < 16 ? 0 : 4, down = lane / 4 % 2, right = lane / 8 % 2;
                uint32_t row, column;
                machine_fragment_at(&op->at[AU_MATRIX_C], lane, i, &row, &column);
                assert_int_equal(row, of_pair((lane & 1) + (i & 2) + high, down));
                assert_int_equal(column, of_pair((i & 4) + (lane & 2) + (i & 1), right));
                if (i >= 4) continue;
                machine_fragment_at(&op->at[AU_MATRIX_A], lane, i, &row, &column);
                assert_int_equal(row, of_pair((a_col ? i : lane % 4) + high, down));
                assert_int_equal(column, a_col ? lane % 4 : i);
                machine_fragment_at(&op->at[AU_MATRIX_B], lane, i, &row, &column);
                assert_int_equal(row, b_row ? lane % 4 : i);
                assert_int_equal(column, of_pair((b_row ? i : lane % 4) + high, right));
            }
    }
}

/* The other vendors' documents, written down a second time: the step of each bit of an element's number, then of each bit of a lane's,
 * lowest first. AMD: matrix instruction calculator 1.3.2, CDNA and RDNA ISA documents, turned; Apple: as metal-flash-attention has
 * it; Intel: SPV_INTEL_subgroup_matrix_multiply_accumulate. */
static const struct {
    const char *text, *at[3];
} others[] = {
    {"mfma_32x32x8",
     {"c1 c2 r1 r2 r4 r8 r16 c4", "r1 r2 c1 c2 c4 c8 c16 r4", "c1 c2 c8 c16 r1 r2 r4 r8 r16 c4"}},
    {"mfma_16x16x16",
     {"c1 c2 r1 r2 r4 r8 c4 c8", "r1 r2 c1 c2 c4 c8 r4 r8", "c1 c2 r1 r2 r4 r8 c4 c8"}},
    {"mfma_32x32x4",
     {"c1 r1 r2 r4 r8 r16 c2", "r1 c1 c2 c4 c8 c16 r2", "c1 c2 c8 c16 r1 r2 r4 r8 r16 c4"}},
    {"mfma_16x16x8", {"c1 r1 r2 r4 r8 c2 c4", "r1 c1 c2 c4 c8 r2 r4", "c1 c2 r1 r2 r4 r8 c4 c8"}},
    {"mfma_32x32x16",
     {"c1 c2 c4 r1 r2 r4 r8 r16 c8", "r1 r2 r4 c1 c2 c4 c8 c16 r8",
      "c1 c2 c8 c16 r1 r2 r4 r8 r16 c4"}},
    /* the documents' columns 1 2 4 8 are ours 4 1 2 8 */
    {"wmma11",
     {"c1 c2 c4 c8 r1 r2 r4 r8 r0", "r1 r2 r4 r8 c4 c1 c2 c8 c0", "c1 c2 c8 r1 r2 r4 r8 c4"}},
    {"wmma12", {"c1 c2 c8 r1 r2 r4 r8 c4", "r1 r2 r8 c1 c2 c4 c8 r4", "c1 c2 c4 r1 r2 r4 r8 c8"}},
    {"simdgroup8", {"c1 c2 r1 r2 c4 r4", "c1 c2 r1 r2 c4 r4", "c1 c2 r1 r2 c4 r4"}},
    {"dpas", {"r1 r2 r4 c1 c2 c4 c8", "r1 r2 r4 r8 c1 c2 c4 c8", "r1 r2 r4 c1 c2 c4 c8"}},
#ifdef AU_MORE_ROWS
#define LAYOUT(text, a, b, c) {text, {a, b, c}},
#include AU_MORE_ROWS
#undef LAYOUT
#endif
};

/* Where the steps say that element [bits] of all lanes' lies. */
static void place(const char *steps, uint32_t bits, uint32_t *row, uint32_t *column)
{
    *row = *column = 0;
    for (; *steps; bits >>= 1) {
        uint32_t *moved = *steps++ == 'r' ? row : column;
        char *end;
        const uint32_t step = (uint32_t)strtoul(steps, &end, 10);
        steps = end;
        if (bits & 1) *moved += step;
        steps += *steps == ' ';
    }
}

static uint32_t bits_of(const char *steps)
{
    uint32_t count = 1;
    for (; *steps; steps++) count += *steps == ' ';
    return count;
}

static void fragments_of_other_vendors(void **state)
{
    (void)state;
    uint32_t checked = 0;
    for (size_t o = 0; o < sizeof others / sizeof *others; o++)
        for (int32_t n = 0; n < AU_MATRICES; n++) {
            const AuMatrixOp op = kernel_matrix((AuMatrix)n);
            const size_t length = strlen(others[o].text);
            if (strncmp(op.text, others[o].text, length) != 0 || op.text[length] != '_') continue;
            checked++;
            for (int use = 0; use < 3; use++) {
                const uint32_t width = op.types[use].width;
                assert_int_equal(width * (uint32_t)op.atom->lanes,
                                 1u << bits_of(others[o].at[use]));
                for (uint32_t bits = 0; bits < width * (uint32_t)op.atom->lanes; bits++) {
                    uint32_t row, column, wanted_row, wanted_column;
                    place(others[o].at[use], bits, &wanted_row, &wanted_column);
                    machine_fragment_at(&op.at[use], bits / width, bits % width, &row, &column);
                    assert_int_equal(row, wanted_row);
                    assert_int_equal(column, wanted_column);
                }
            }
        }
    assert_int_equal(checked, AU_MATRICES - 10); /* ten are NVIDIA's */
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
        const AuMatrixOp info = kernel_matrix((AuMatrix)(c / 2));
        const AuMatrixOp *op = &info;
        const AuScalar scalar = (AuScalar)op->types[AU_MATRIX_A].scalar;
        const bool by_rows = c % 2;
        if (!is_fed_by_rows(op)) continue;
        if (by_rows && scalar == AU_F32) continue;
        Bench bench = bench_new();
        AuKernel *k = matrix_kernel(bench.arena, (AuMatrix)(c / 2), by_rows);
        const char *text = bench_print(&bench, k);
        k = bench_kernel(&bench, text);
        assert_string_equal(text, bench_print(&bench, k));
        float a[256], b[256], out[128];
        const uint32_t zeros = scalar == AU_F32 ? 3 : 7; /* 4 or 2 bytes of 16 are read */
        for (uint32_t n = 0; n < (uint32_t)op->atom->m * (uint32_t)op->atom->k; n++)
            put(scalar, a, n, some(n));
        for (uint32_t n = 0; n < (uint32_t)op->atom->n * (uint32_t)op->atom->k; n++)
            put(scalar, b, n, some(n + 1000));
        AuKBuffer buffers[4] = {{a, (uint32_t)op->atom->m * (uint32_t)op->atom->k, true},
                                {b, (uint32_t)op->atom->n * (uint32_t)op->atom->k, true},
                                {out, 128, false}};
        const uint64_t slots[4] = {0, 0, 0, scalar == AU_F32 ? 4 : 2};
        for (uint32_t pass = 0; pass < 2; pass++) {
            const AuKRun run = {
                .slots = slots, .buffers = buffers, .grid = {1, 1, 1}, .check_all_written = true};
            const char *why = NULL;
            if (!kernel_run(k, &run, bench.arena, &why)) fail_msg("%s: %s", op->text, why);
            for (uint32_t i = 0; i < (uint32_t)op->atom->m; i++)
                for (uint32_t j = 0; j < (uint32_t)op->atom->n; j++) {
                    float sum = 0.5f;
                    for (uint32_t x = 0; x < (uint32_t)op->atom->k; x++) {
                        const uint32_t at = i * (uint32_t)op->atom->k + x;
                        const float left =
                            at < (uint32_t)op->atom->m * (uint32_t)op->atom->k - zeros ? some(at)
                                                                                       : 0;
                        sum += left * some(1000 + (by_rows ? x * (uint32_t)op->atom->n + j
                                                           : j * (uint32_t)op->atom->k + x));
                    }
                    assert_true(out[i * (uint32_t)op->atom->n + j] ==
                                sum); /* small multiples of 1/16: exact */
                }
            kernel_simplify(k);
            assert_true(kernel_verify(k, bench.diags));
        }
        bench_free(&bench);
    }
}

/* 0.5 + A B of fragments as lanes hold them. */
static const float *product_of_lanes(Bench *bench, const AuMatrixOp *op, void *a, void *b)
{
    static const char *const names[] = {[AU_F16] = "f16", [AU_BF16] = "bf16", [AU_F32] = "f32"};
    const uint32_t lanes = (uint32_t)op->atom->lanes, wa = op->types[AU_MATRIX_A].width,
                   wb = op->types[AU_MATRIX_B].width, wc = op->types[AU_MATRIX_C].width;
    const char *ab = names[op->types[AU_MATRIX_A].scalar];
    const char *text = au_format(
        bench->arena,
        "kernel k lanes %u warps 1\nmemory @a: global %s reads\nmemory @b: global %s reads\n"
        "memory @out: global f32 writes\narg a: pointer @a\narg b: pointer @b\narg out: pointer "
        "@out\n{\n"
        "%%1 = lane.i32\n%%2 = mul.i32 %%1, %u\n%%3 = load.%sx%u @a[%%2]\n%%4 = mul.i32 %%1, "
        "%u\n%%5 = load.%sx%u @b[%%4]\n"
        "%%6 = const.f32x%u 0.5\n%%7 = mma.f32x%u %%6, %%3, %%5 #%s\n%%8 = mul.i32 %%1, %u\n"
        "store @out[%%8], %%7\n}\n",
        lanes, ab, ab, wa, ab, wa, wb, ab, wb, wc, wc, op->text, wc);
    AuKernel *k = bench_kernel(bench, text);
    float *out = AU_NEW_ARRAY(bench->arena, float, lanes *wc);
    AuKBuffer buffers[3] = {{a, lanes * wa, true}, {b, lanes * wb, true}, {out, lanes * wc, false}};
    const uint64_t slots[3] = {0};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL;
    if (!kernel_run(k, &run, bench->arena, &why)) fail_msg("%s: %s", op->text, why);
    return out;
}

static void products_of_lanes_are_right(void **state)
{
    (void)state;
    for (int32_t n = 0; n < AU_MATRICES; n++) {
        const AuMatrixOp info = kernel_matrix((AuMatrix)n), *op = &info;
        const AuScalar scalar = (AuScalar)op->types[AU_MATRIX_A].scalar;
        const uint32_t lanes = (uint32_t)op->atom->lanes, depth = (uint32_t)op->atom->k;
        Bench bench = bench_new();
        float a[1024], b[1024];
        uint32_t row, column, copy = 0;
        for (uint32_t use = 0; use < 2; use++)
            for (uint32_t i = 0, width = op->types[use].width; i < lanes * width; i++) {
                machine_fragment_at(&op->at[use], i / width, i % width, &row, &column);
                put(scalar, use ? b : a, i,
                    some(use ? 1000 + column * depth + row : row * depth + column));
                if (use == 0 && i && row + column == 0) copy = i;
            }
        const float *out = product_of_lanes(&bench, op, a, b);
        for (uint32_t i = 0, width = op->types[AU_MATRIX_C].width; i < lanes * width; i++) {
            float sum = 0.5f;
            machine_fragment_at(&op->at[AU_MATRIX_C], i / width, i % width, &row, &column);
            for (uint32_t x = 0; x < depth; x++)
                sum += some(row * depth + x) * some(1000 + column * depth + x);
            assert_true(out[i] == sum);
        }
        if (copy) { /* another lane holds the same element: they must agree */
            put(scalar, a, copy, 99);
            out = product_of_lanes(&bench, op, a, b);
            assert_true(out[0] != out[0]);
        }
        bench_free(&bench);
    }
}

/* Row n of [count] matrices, stored where lane n says, at [first] + 40 n of 256, and read from 24 + 40 n. */
static const char *rows_of_lanes(Bench *bench, uint32_t count, bool transposed, int first)
{
    return au_format(
        bench->arena,
        "kernel k lanes 32 warps 1\n"
        "memory @a: global bf16 reads\nmemory @out: global bf16 writes\n"
        "memory @s: shared bf16[256] swizzle 128\narg a: pointer @a\narg out: pointer @out\n{\n"
        "  %%1 = lane.i32\n  %%2 = mul.i32 %%1, %u\n  %%3 = load.bf16x%u @a[%%2]\n"
        "  %%4 = mul.i32 %%1, 40\n  %%5 = add.i32 %%4, %d\n  %%6 = and.i32 %%5, 255\n"
        "  %%7 = add.i32 %%4, 24\n  %%8 = and.i32 %%7, 255\n"
        "  store_matrix @s[%%6], %%3 #%u\n  barrier #1\n"
        "  %%9 = mul.i32 %%1, 8\n  %%10 = lt.i32 %%1, %u\n  %%11 = load.bf16x8 @s[%%8] if %%10\n"
        "  store @out[%%9], %%11\n}\n",
        2 * count, 2 * count, first, count + (transposed ? 8 : 0), 8 * count);
}

/* Does the kernel run, and store what the PTX ISA says of stmatrix: to row r and column c from lane 4 r + c / 2, transposed the others? */
static bool are_rows_stored(Bench *bench, const char *text, uint32_t count, bool transposed)
{
    uint16_t a[256], out[256];
    for (uint32_t n = 0; n < 256; n++) a[n] = kernel_to_bf16((float)n);
    AuKBuffer buffers[2] = {{a, 64 * count, true}, {out, 256, false}};
    const uint64_t slots[2] = {0};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL;
    if (!kernel_run(bench_kernel(bench, text), &run, bench->arena, &why)) return false;
    for (uint32_t row = 0; row < 8 * count; row++)
        for (uint32_t column = 0; column < 8; column++) {
            const uint32_t r = transposed ? column : row % 8, c = transposed ? row % 8 : column;
            const uint32_t lane = 4 * r + c / 2, element = row / 8 * 2 + c % 2;
            if (out[row * 8 + column] != a[lane * 2 * count + element]) return false;
        }
    return true;
}

/* And mistakes are found: rows for columns, a lane that says another row. */
static void rows_are_stored(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 4; count *= 2)
        for (int transposed = 0; transposed < 2; transposed++) {
            Bench b = bench_new();
            const char *text = rows_of_lanes(&b, count, transposed, 24);
            assert_string_equal(bench_print(&b, bench_kernel(&b, text)), text);
            assert_true(are_rows_stored(&b, text, count, transposed));
            assert_false(
                are_rows_stored(&b, rows_of_lanes(&b, count, !transposed, 24), count, transposed));
            assert_false(
                are_rows_stored(&b, rows_of_lanes(&b, count, transposed, 64), count, transposed));
            bench_free(&b);
        }
}

/* Each lane names [n] of 512 elements, those of lane (l ^ other), and all of them turn them. */
static bool are_pieces_turned(Bench *bench, uint32_t n, uint32_t other)
{
    enum { LANES = 64, BLOCK = 64 };
    const char *text = au_format(
        bench->arena,
        "kernel k lanes 64 warps 1\n"
        "memory @a: global bf16 reads\nmemory @out: global bf16 writes\n"
        "memory @s: shared bf16[512] align 16\narg a: pointer @a\narg out: pointer @out\n{\n"
        "  %%1 = lane.i32\n  %%2 = mul.i32 %%1, %u\n  %%3 = load.bf16x%u @a[%%2]\n"
        "  store @s[%%2], %%3\n  barrier #1\n"
        "  %%4 = xor.i32 %%1, %u\n  %%5 = mul.i32 %%4, %u\n"
        "  %%6 = load_matrix.bf16x%u @s[%%5] #%u\n  store @out[%%2], %%6\n}\n",
        n, n, other, n, n, 16 + n);
    uint16_t a[512], out[512];
    for (uint32_t i = 0; i < LANES * n; i++) a[i] = (uint16_t)i;
    AuKBuffer buffers[2] = {{a, LANES * n, true}, {out, LANES * n, false}};
    const uint64_t slots[2] = {0};
    const AuKRun run = {.slots = slots, .buffers = buffers, .grid = {1, 1, 1}};
    const char *why = NULL;
    AuKernel *k = bench_kernel(bench, text);
    assert_string_equal(bench_print(bench, k), text);
    if (!kernel_run(k, &run, bench->arena, &why)) fail_msg("%s", why);
    /* "CDNA4 ISA, LDS transpose loads": 16 lanes bring 4 rows of 16, of which lane c gets column c; RDNA4's, of global memory: 8 rows of 8 */
    const uint32_t columns = BLOCK / n;
    for (uint32_t l = 0; l < LANES; l++)
        for (uint32_t row = 0; row < n; row++)
            if (out[l * n + row] != a[l / columns * BLOCK + row * columns + l % columns])
                return false;
    return true;
}

static void pieces_are_turned(void **state)
{
    (void)state;
    Bench b = bench_new();
    for (uint32_t n = 4; n <= 8; n *= 2) {
        assert_true(are_pieces_turned(&b, n, 0));
        assert_false(are_pieces_turned(&b, n, 1));
        assert_false(are_pieces_turned(&b, n, 16));
    }
    bench_free(&b);
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
        cmocka_unit_test(fragments_of_quad_pairs),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(fragments_of_other_vendors),
        cmocka_unit_test(products_of_lanes_are_right),
        cmocka_unit_test(rows_are_stored),
        cmocka_unit_test(pieces_are_turned),
        cmocka_unit_test(tf32_is_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
