/* library_test.c - libaulec as a program uses it: what each call gives and refuses, several threads at once, memory that runs out. */
#include "aule/artifact.h"
#include "aule/aulec.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char script[] = "attention small {\n"
                             "    q: [B, H, S, D];\n"
                             "    k: [B, H, T, D];\n"
                             "    v: [B, H, T, D];\n"
                             "    input slope: f32[H];\n"
                             "    param window: i32 = 8;\n"
                             "    score_mod(s, b, h) = s * rsqrt(D) * slope[h];\n"
                             "    mask(b, h, i, j) = j <= q_pos && q_pos - j < window;\n"
                             "    online softmax;\n"
                             "}\n";

/* One variant of each target, so that a compilation is quick. */
static aulec_options small_options(uint32_t emit)
{
    const bool is_data = emit == AULEC_EMIT_OPENCL_C || emit == AULEC_EMIT_C;
    return (aulec_options){.struct_size = sizeof(aulec_options),
                           .archs = is_data ? "generic" : "x86-64-v3,generic",
                           .dtypes = "f32",
                           .widths = "D=16",
                           .optimize = 1,
                           .emit = emit};
}

static aulec_status compile(const aulec_options *options, aulec_result **result)
{
    *result = NULL;
    return aulec_compile("small.attn", script, strlen(script), options, result);
}

/* ---- memory: the linker sends the allocations of this program's own objects here (meson.build) */

/* Allocations until the first that fails, as do all after it; negative: none fails. */
static atomic_long allocations_left = -1;
static atomic_bool has_failed;

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    if (bytes && atomic_load(&allocations_left) >= 0 &&
        atomic_fetch_sub(&allocations_left, 1) <= 0) {
        atomic_store(&allocations_left, 0);
        atomic_store(&has_failed, true);
        return NULL;
    }
    return __real_realloc(memory, bytes);
}

/* Fails every allocation of a compilation in turn. A compilation that lacked memory says so; it does not crash and does not give half a
 * result. Returns how many allocations there are. */
static long starve(uint32_t emit)
{
    const aulec_options options = small_options(emit);
    for (long n = 0;; n++) {
        aulec_result *result;
        atomic_store(&has_failed, false);
        atomic_store(&allocations_left, n);
        const aulec_status status = compile(&options, &result);
        atomic_store(&allocations_left, -1);
        if (!atomic_load(&has_failed)) {
            assert_int_equal(status, AULEC_OK);
            aulec_result_free(result);
            return n;
        }
        assert_int_not_equal(status, AULEC_OK);
        if (status != AULEC_ERROR_MEMORY) {
            assert_null(aulec_result_data(result));
            assert_non_null(strstr(aulec_result_diagnostics(result), "memory"));
        }
        aulec_result_free(result);
    }
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    assert_in_range(starve(AULEC_EMIT_ATTENTION_IR), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_KERNEL_IR), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_OPENCL_C), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_HEADER), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_C), 2, 10000);
}

/* Its own test: LLVM's objects are lost where memory runs out between their making and their end. */
static void test_memory_runs_out_in_llvm(void **state)
{
    (void)state;
    assert_in_range(starve(AULEC_EMIT_ARTIFACT), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_OBJECT), 2, 10000);
    assert_in_range(starve(AULEC_EMIT_ARCHIVE), 2, 10000);
}

/* ---- calls */

static void test_arguments(void **state)
{
    (void)state;
    aulec_result *result = NULL;
    assert_int_equal(aulec_compile(NULL, script, 1, NULL, &result), AULEC_ERROR_USAGE);
    assert_int_equal(aulec_compile("x", NULL, 1, NULL, &result), AULEC_ERROR_USAGE);
    assert_int_equal(aulec_compile("x", script, 1, NULL, NULL), AULEC_ERROR_USAGE);
    assert_int_equal(aulec_compile("x", script, SIZE_MAX, NULL, &result), AULEC_ERROR_USAGE);
    assert_null(result);
    aulec_result_free(NULL);
    assert_null(aulec_result_data(NULL));
    assert_int_equal(aulec_result_length(NULL), 0);
    assert_string_equal(aulec_result_diagnostics(NULL), "");
}

static void expect_refused(aulec_options options, aulec_status wanted, const char *word)
{
    aulec_result *result;
    assert_int_equal(compile(&options, &result), wanted);
    assert_null(aulec_result_data(result));
    assert_int_equal(aulec_result_length(result), 0);
    assert_true(aulec_result_errors(result) > 0);
    if (!strstr(aulec_result_diagnostics(result), word))
        fail_msg("'%s' is not in: %s", word, aulec_result_diagnostics(result));
    aulec_result_free(result);
}

static void test_options(void **state)
{
    (void)state;
    const aulec_options good = small_options(AULEC_EMIT_KERNEL_IR);
    aulec_options bad = good;
    bad.struct_size = 3;
    expect_refused(bad, AULEC_ERROR_USAGE, "struct_size 3");
    bad = good, bad.emit = 99;
    expect_refused(bad, AULEC_ERROR_USAGE, "emit 99");
    bad = good, bad.optimize = 9;
    expect_refused(bad, AULEC_ERROR_USAGE, "at most 4, not 9");
    bad = good, bad.targets = "abacus";
    expect_refused(bad, AULEC_ERROR_USAGE, "abacus");
    bad = good, bad.targets = "";
    expect_refused(bad, AULEC_ERROR_USAGE, "target");
    bad = good, bad.dtypes = ",";
    expect_refused(bad, AULEC_ERROR_USAGE, "type");
    bad = good, bad.widths = "D=16;D";
    expect_refused(bad, AULEC_ERROR_USAGE, "NAME=NUMBER");
    bad = good, bad.attention = "large";
    expect_refused(bad, AULEC_ERROR_USAGE, "large");
}

static void test_script_of_any_bytes(void **state)
{
    (void)state;
    const aulec_options options = small_options(AULEC_EMIT_ATTENTION_IR);
    for (size_t length = 0; length < sizeof script - 1; length++) {
        aulec_result *result = NULL;
        char *copy = malloc(length + 1); /* so that a byte behind the end is a byte outside */
        assert_non_null(copy);
        memcpy(copy, script, length);
        const aulec_status status = aulec_compile("cut", copy, length, &options, &result);
        free(copy);
        /* The last byte is the newline behind the script's end. */
        assert_int_equal(status, length + 1 < sizeof script - 1 ? AULEC_ERROR_SCRIPT : AULEC_OK);
        aulec_result_free(result);
    }
}

/* ---- diagnostics */

/* One mistake of each kind, and a final of each kind that takes no gradient. */
static const char doubtful[] = "online held {\n"
                               "    rowscale m = -inf;\n"
                               "    rowscale r = 0.0;\n"
                               "    final top;\n"
                               "    final total;\n"
                               "    online_fwd(scores) {\n"
                               "        let m_new = max(m, rowmax(scores));\n"
                               "        let scale = exp(m - m_new);\n"
                               "        let p = exp(scores - m_new);\n"
                               "        r = r * scale + rowsum(p);\n"
                               "        m = m_new;\n"
                               "        return p, scale;\n"
                               "    }\n"
                               "    online_fwd_epilogue(o) { top = m; total = r; return o / r; }\n"
                               "    forward(score) = exp(score - top) / total;\n"
                               "}\n"
                               "attention small {\n"
                               "    q: [B, H, S, D];\n"
                               "    k: [B, H, T, D];\n"
                               "    v: [B, H, T, D];\n"
                               "    param n: i32 = 3;\n"
                               "    score_mod(s) = s * (n / 2);\n"
                               "    mask(b, h, i, j) = j <= i;\n"
                               "    online held;\n"
                               "}\n";

/* A compilation looks at the script once a set of widths, and says what it has to say once a place. */
static void test_diagnostics_by_their_parts(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        uint32_t line, column;
    } wanted[] = {{"W0301", 22, 24}, {"W0401", 23, 29}, {"W0402", 4, 11}, {"W0402", 5, 11}};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    aulec_options options = small_options(AULEC_EMIT_KERNEL_IR);
    options.widths = "D=16,32,64";
    aulec_result *result = NULL;
    assert_int_equal(aulec_compile("doubtful.attn", doubtful, strlen(doubtful), &options, &result),
                     AULEC_OK);
    assert_int_equal(aulec_result_diagnostic_count(result), WANTED);
    const char *all = aulec_result_diagnostics(result);
    for (size_t n = 0; n < WANTED; n++) {
        const aulec_diagnostic *d = aulec_result_get_diagnostic(result, n);
        assert_int_equal(d->severity, AULEC_WARNING);
        assert_string_equal(d->code, wanted[n].code);
        assert_string_equal(d->file, "doubtful.attn");
        assert_int_equal(d->line, wanted[n].line);
        assert_int_equal(d->column, wanted[n].column);
        assert_non_null(strstr(d->text, d->message));
        assert_int_equal(strncmp(all, d->text, strlen(d->text)), 0);
        all += strlen(d->text);
    }
    assert_string_equal(all, "");
    assert_null(aulec_result_get_diagnostic(result, WANTED));
    aulec_result_free(result);
    assert_int_equal(aulec_result_diagnostic_count(NULL), 0);
    assert_null(aulec_result_get_diagnostic(NULL, 0));
}

/* ---- reference cases */

/* How far from the expected values an element of the output may be. */
static double bound_of_output(const char *dtype)
{
    const aulec_case_options options = {.struct_size = sizeof options, .dtype = dtype, .seed = 3};
    aulec_case *reference = NULL;
    aulec_result *result = NULL;
    double bound = 0;
    assert_int_equal(
        aulec_case_new("small.attn", script, sizeof script - 1, &options, &reference, &result),
        AULEC_OK);
    for (size_t n = 0; n < aulec_case_tensor_count(reference); n++) {
        const aulec_case_tensor *tensor = aulec_case_get_tensor(reference, n);
        if (strcmp(tensor->name, "o") == 0) bound = tensor->bound;
        if (strcmp(tensor->name, "q") == 0)
            assert_int_equal(tensor->dtype == AULE_F32, strstr(dtype, "f32") != NULL);
    }
    aulec_case_free(reference);
    aulec_result_free(result);
    return bound;
}

/* Bounds follow the types: 24, 11, 8 bits of significand. */
static void test_bounds(void **state)
{
    (void)state;
    const double exact = bound_of_output("f32"), tf32 = bound_of_output("tf32"),
                 bf16 = bound_of_output("bf16");
    assert_true(exact > 0 && tf32 > 100 * exact && bf16 > 2 * tf32);
}

static const char biased[] = "attention biased {\n"
                             "    q: [B, H, S, D];\n"
                             "    k: [B, H, T, D];\n"
                             "    v: [B, H, T, D];\n"
                             "    input tables: f16[2, H, S, T];\n"
                             "    input padding: f32[B, T];\n"
                             "    input slope: f32[H];\n"
                             "    score_mod(s, b, h, i, j) =\n"
                             "        (s + tables[0, h, i, j]) * slope[h] - padding[b, j];\n"
                             "    online softmax;\n"
                             "}\n";

static double element(const aulec_case_tensor *t, uint64_t n)
{
    static const uint16_t lowest = 0xfbff, ten_thousand = 0xf0e2; /* of f16, below 0 */
    if (t->dtype == AULE_F32) return (double)((const float *)t->data)[n];
    const uint16_t bits = ((const uint16_t *)t->data)[n];
    return bits == lowest ? -65504 : bits == ten_thousand ? -1e4 : bits & 0x7fff ? NAN : 0;
}

/* Inputs that are added to scores, some of them behind a factor or a sign, and those alone lie far below 0, in whole rows and at some
 * keys; the queries of such rows are next to 0. */
static void test_far_inputs(void **state)
{
    (void)state;
    aulec_case_options options = {.struct_size = sizeof options, .far_inputs = 1};
    aulec_case *reference = NULL;
    aulec_result *result = NULL;
    assert_int_equal(
        aulec_case_new("b.attn", biased, sizeof biased - 1, &options, &reference, &result),
        AULEC_OK);
    aulec_result_free(result);
    assert_string_equal(aulec_case_far_inputs(reference), "tables, padding");
    uint32_t seen = 0;
    for (size_t n = 0; n < aulec_case_tensor_count(reference); n++) {
        const aulec_case_tensor *t = aulec_case_get_tensor(reference, n);
        double low = 0, high = 0;
        for (uint64_t i = 0; t->data && i < t->elements; i++) {
            assert_true(element(t, i) <= 0 || element(t, i) > 0); /* no NaN */
            low = element(t, i) < low ? element(t, i) : low;
            high = element(t, i) > high ? element(t, i) : high;
        }
        if (strcmp(t->name, "tables") == 0) seen += low == -65504 && high == 0;
        if (strcmp(t->name, "padding") == 0) seen += low == 0 && high >= 1e9;
        if (strcmp(t->name, "slope") == 0) seen += low > -10 && high < 10;
        if (strcmp(t->name, "q") == 0) {
            const int64_t width = t->shape[3];
            uint32_t small = 0;
            for (uint64_t i = 0; i < t->elements; i += (uint64_t)width)
                small += element(t, i) < 1e-5 && element(t, i) > -1e-5;
            seen += small > 8 && small < t->elements / (uint64_t)width;
        }
        if (t->want) assert_true(t->bound > 0);
    }
    assert_int_equal(seen, 4);
    aulec_case_free(reference);
    assert_int_equal(
        aulec_case_new("small.attn", script, sizeof script - 1, &options, &reference, &result),
        AULEC_ERROR_SCRIPT);
    assert_non_null(strstr(aulec_result_diagnostics(result), "no input is added to scores"));
    aulec_result_free(result);
    options.struct_size = offsetof(aulec_case_options, far_inputs); /* of a program before it */
    assert_int_equal(
        aulec_case_new("small.attn", script, sizeof script - 1, &options, &reference, &result),
        AULEC_OK);
    assert_null(aulec_case_far_inputs(reference));
    aulec_case_free(reference);
    aulec_result_free(result);
    options.struct_size = sizeof options + 1;
    assert_int_equal(
        aulec_case_new("small.attn", script, sizeof script - 1, &options, &reference, &result),
        AULEC_ERROR_USAGE);
}

/* ---- threads */

enum { THREADS = 4 };

typedef struct Job {
    aulec_status status;
    aulec_result *result;
} Job;

static void *run_job(void *user)
{
    Job *job = user;
    const aulec_options options = small_options(AULEC_EMIT_ARTIFACT);
    job->status = compile(&options, &job->result);
    return NULL;
}

static void test_threads_compile_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    Job jobs[THREADS], alone;
    run_job(&alone);
    for (int n = 0; n < THREADS; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, run_job, &jobs[n]), 0);
    for (int n = 0; n < THREADS; n++) assert_int_equal(pthread_join(threads[n], NULL), 0);
    const size_t length = aulec_result_length(alone.result);
    assert_true(length > 1000);
    for (int n = 0; n < THREADS; n++) {
        assert_int_equal(jobs[n].status, AULEC_OK);
        assert_int_equal(aulec_result_length(jobs[n].result), length);
        assert_memory_equal(aulec_result_data(jobs[n].result), aulec_result_data(alone.result),
                            length);
        aulec_result_free(jobs[n].result);
    }
    aulec_result_free(alone.result);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_script_of_any_bytes),
        cmocka_unit_test(test_threads_compile_at_once),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_far_inputs),
        cmocka_unit_test(test_diagnostics_by_their_parts),
    };
    const struct CMUnitTest memory[] = {cmocka_unit_test(test_memory_runs_out_in_llvm)};
    if (argc > 1 && strcmp(argv[1], "memory") == 0)
        return cmocka_run_group_tests_name("llvm", memory, NULL, NULL);
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
