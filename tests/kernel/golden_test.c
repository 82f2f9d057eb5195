/* Whole kernels before and after passes, as texts to read: tests/golden/kernel. AU_UPDATE=1 writes
 * what comes out now. */
#include "kernel_test.h"

#include <stdlib.h>

static const char *path_of(Bench *b, const char *name)
{
    return au_format(b->arena, "%s/%s", AU_GOLDEN, name);
}

static const char *golden_read(Bench *b, const char *name)
{
    FILE *file = fopen(path_of(b, name), "rb");
    if (!file) fail_msg("%s cannot be read", name);
    AuText text = {.arena = b->arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(&text, part, n);
    fclose(file);
    return au_text_str(&text);
}

static void golden_expect(Bench *b, const char *name, const char *text)
{
    if (getenv("AU_UPDATE")) {
        FILE *file = fopen(path_of(b, name), "wb");
        if (!file || fputs(text, file) < 0 || fclose(file)) fail_msg("%s cannot be written", name);
    }
    assert_string_equal(text, golden_read(b, name));
}

static AuKernel *golden_kernel(Bench *b, const char *name)
{
    const char *text = golden_read(b, name);
    AuKernel *k = bench_kernel(b, text);
    assert_string_equal(bench_print(b, k), text);
    return k;
}

/* Addresses that do not change leave the loop, equal ones are one, divisions become shifts, what
 * nobody reads is gone; x + 0 stays, since -0 + 0 is not -0. */
static void simplify_addresses(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = golden_kernel(&b, "addresses.kernel");
    kernel_simplify(k);
    assert_true(kernel_verify(k, b.diags));
    golden_expect(&b, "addresses.simplified", bench_print(&b, k));
    bench_free(&b);
}

/* What a product reads and writes stays, its places are folded like other indices. */
static void simplify_matrices(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = golden_kernel(&b, "matrices.kernel");
    kernel_simplify(k);
    assert_true(kernel_verify(k, b.diags));
    golden_expect(&b, "matrices.simplified", bench_print(&b, k));
    bench_free(&b);
}

static bool nothing_is_native(AuKOp op)
{
    (void)op;
    return false;
}

static void expand_exponential(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = golden_kernel(&b, "exponential.kernel");
    kernel_legalize_math(k, nothing_is_native);
    kernel_simplify(k);
    golden_expect(&b, "exponential.expanded", bench_print(&b, k));
    bench_free(&b);
}

static void unroll_registers(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = golden_kernel(&b, "registers.kernel");
    kernel_unroll(k, 1000);
    kernel_simplify(k);
    golden_expect(&b, "registers.unrolled", bench_print(&b, k));
    bench_free(&b);
}

static void unrolling_has_a_limit(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = golden_kernel(&b, "registers.kernel");
    const char *before = bench_print(&b, k);
    kernel_unroll(k, 5);
    assert_string_equal(bench_print(&b, k), before);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simplify_addresses),    cmocka_unit_test(simplify_matrices),
        cmocka_unit_test(expand_exponential),    cmocka_unit_test(unroll_registers),
        cmocka_unit_test(unrolling_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
