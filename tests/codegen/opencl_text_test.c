/* The text of the OpenCL C target: golden files, accepted by clang without a word, and what the target refuses. */
#include <clang-c/Index.h>

#include "opencl.h"

static const char *const goldens[] = {"attention", "bits", "block", "halves", "loops", "words"};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static AuKernel *golden_kernel(Bench *b, const char *name)
{
    return bench_kernel(b, golden_read(b, au_format(b->arena, "%s.kir", name)));
}

static void text_is_as_recorded(void **state)
{
    (void)state;
    for (size_t n = 0; n < GOLDENS; n++) {
        Bench b = bench_new();
        golden_expect(&b, au_format(b.arena, "%s.cl", goldens[n]),
                      opencl_source(&b, golden_kernel(&b, goldens[n])));
        bench_free(&b);
    }
}

/* Parses a text as OpenCL C 1.2 for a device without extensions; gives clang's diagnostics, "" if there are none. */
static const char *clang_says(Bench *b, const char *source)
{
    static const char *const options[] = {"-x",
                                          "cl",
                                          "-cl-std=CL1.2",
                                          "-Wall",
                                          "-target",
                                          "spir64-unknown-unknown",
                                          "-Xclang",
                                          "-finclude-default-header",
                                          "-Xclang",
                                          "-cl-ext=-all"};
    struct CXUnsavedFile file = {"kernel.cl", source, (unsigned long)strlen(source)};
    const CXIndex index = clang_createIndex(0, 0);
    const CXTranslationUnit unit = clang_parseTranslationUnit(
        index, "kernel.cl", options, sizeof options / sizeof *options, &file, 1, 0);
    assert_non_null(unit);
    AuText said = {.arena = b->arena};
    for (unsigned n = 0; n < clang_getNumDiagnostics(unit); n++) {
        const CXDiagnostic diagnostic = clang_getDiagnostic(unit, n);
        const CXString text =
            clang_formatDiagnostic(diagnostic, clang_defaultDiagnosticDisplayOptions());
        au_text_add(&said, "%s\n", clang_getCString(text));
        clang_disposeString(text);
        clang_disposeDiagnostic(diagnostic);
    }
    clang_disposeTranslationUnit(unit);
    clang_disposeIndex(index);
    return au_text_str(&said);
}

static void clang_accepts_it(void **state)
{
    (void)state;
    for (size_t n = 0; n < GOLDENS; n++) {
        Bench b = bench_new();
        assert_string_equal(clang_says(&b, opencl_source(&b, golden_kernel(&b, goldens[n]))), "");
        bench_free(&b);
    }
}

/* The check above must be able to fail. */
static void clang_would_complain(void **state)
{
    (void)state;
    Bench b = bench_new();
    assert_non_null(
        strstr(clang_says(&b, "__kernel void f(__global half *x) { x[0] = 1; }"), "error"));
    assert_non_null(strstr(clang_says(&b, "__kernel void f(int a) { int b; }"), "unused variable"));
    bench_free(&b);
}

/* ---- refusals */

static void expect_refusal(const char *text, AuCode code, const char *part)
{
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, text);
    AuBlob blob = {0};
    assert_false(au_target_opencl.emit(b.arena, b.diags, &k, 1, &au_target_opencl.archs[0],
                                       AU_CODE_FINAL, 2, &blob));
    assert_int_equal(b.diags->first->code, code);
    if (!strstr(b.diags->first->message, part))
        fail_msg("'%s' is not in: %s", part, b.diags->first->message);
    bench_free(&b);
}

static const char *const head = "lanes 8 warps 2\nmemory @x: global f32 reads writes\narg x: "
                                "pointer @x\n{\n  %1 = lane.i32\n  %2 = load.f32 @x[%1]\n";

static void what_the_language_lacks_is_named(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *shuffle = au_format(
        b.arena, "kernel k %s  %%3 = shuffle_xor.f32 %%2 #1\n  store @x[%%1], %%3\n}\n", head);
    expect_refusal(shuffle, AU_E0620, "kernel k uses 'shuffle_xor', which OpenCL C does not have");
    const char *any = au_format(b.arena,
                                "kernel k %s  %%3 = lt.f32 %%2, 0.0\n  %%4 = any.i1 %%3\n  if %%4 "
                                "{\n    store @x[%%1], 1.0\n  }\n}\n",
                                head);
    expect_refusal(any, AU_E0620, "'any'");
    static const char *const lines[][2] = {{"fence_proxy", "'fence_proxy'"},
                                           {"sync 1 #16", "'sync'"},
                                           {"%3 = elect.i1\n  store @x[0], 1.0 if %3", "'elect'"}};
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        expect_refusal(au_format(b.arena, "kernel k %s  %s\n}\n", head, lines[n][0]), AU_E0620,
                       lines[n][1]);
    expect_refusal("kernel k lanes 32 warps 1\nmemory @c: matrix f32[1] shape 16 16 c\n{\n"
                   "  matrix_fill @c[0], 0.0\n}\n",
                   AU_E0620, "'matrix_fill'");
    bench_free(&b);
}

static void executors_cannot_wait_alone(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text = au_format(
        b.arena,
        "kernel k %s  %%3 = warp.i32\n  %%4 = eq.i32 %%3, 0\n  if %%4 {\n    barrier #1\n  }\n}\n",
        head);
    expect_refusal(text, AU_E0621, "a barrier of one executor");
    bench_free(&b);
}

static void names_of_kernels_are_kept_or_refused(void **state)
{
    (void)state;
    Bench b = bench_new();
    expect_refusal(au_format(b.arena, "kernel float4 %s}\n", head), AU_E0622,
                   "'float4' cannot be the name");
    expect_refusal(au_format(b.arena, "kernel \"a b\" %s}\n", head), AU_E0622, "'a b'");
    bench_free(&b);
}

static void other_stages_do_not_exist(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, au_format(b.arena, "kernel k %s}\n", head));
    AuBlob blob = {0};
    assert_false(au_target_opencl.emit(b.arena, b.diags, &k, 1, &au_target_opencl.archs[0],
                                       AU_CODE_IR, 2, &blob));
    assert_int_equal(b.diags->first->code, AU_E0623);
    bench_free(&b);
}

/* A value used twice by the next, a hundred times over: the text must not double each time. */
static void text_grows_with_the_kernel(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    au_text_add(&text, "kernel k %s", head);
    for (int n = 3; n < 103; n++)
        au_text_add(&text, "  %%%d = mul.f32 %%%d, %%%d\n", n, n - 1, n - 1);
    for (int n = 103; n < 203; n++) au_text_add(&text, "  %%%d = sub.f32 1.0, %%%d\n", n, n - 1);
    au_text_add(&text, "  store @x[%%1], %%202\n}\n");
    assert_in_range(strlen(opencl_source(&b, bench_kernel(&b, au_text_str(&text)))), 4000, 8000);
    bench_free(&b);
}

/* `opencl_text_test FILE...`: what aulec printed, one file of OpenCL C a variant, each beginning with the prelude. */
static bool accepts_file(const char *path)
{
    static const char prelude[] = "// OpenCL C 1.2, generated.";
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    file_read(path, &text);
    const char *part = strstr(au_text_str(&text), prelude);
    bool good = part != NULL;
    while (part) {
        const char *next = strstr(part + sizeof prelude, prelude);
        const size_t length = next ? (size_t)(next - part) : strlen(part);
        const char *said = clang_says(&b, au_strndup(b.arena, part, length));
        if (*said) print_error("%s: %s", path, said);
        good = good && !*said;
        part = next;
    }
    bench_free(&b);
    return good;
}

int main(int argc, char **argv)
{
    bool good = true;
    for (int n = 1; n < argc; n++) good = accepts_file(argv[n]) && good;
    if (argc > 1) return !good;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_as_recorded),
        cmocka_unit_test(clang_accepts_it),
        cmocka_unit_test(clang_would_complain),
        cmocka_unit_test(what_the_language_lacks_is_named),
        cmocka_unit_test(executors_cannot_wait_alone),
        cmocka_unit_test(names_of_kernels_are_kept_or_refused),
        cmocka_unit_test(other_stages_do_not_exist),
        cmocka_unit_test(text_grows_with_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
