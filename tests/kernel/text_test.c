/* The text form: what is printed is read back, what is wrong is said with its place, nothing
 * crashes the reader. */
#include "kernel_test.h"

#include <stdlib.h>

static const char every_form[] = "kernel \"all forms\" lanes 4 warps 2\n"
                                 "banner \"from \\\"x.attn\\\"\\nline two \\x01\"\n"
                                 "memory @q: global f32 reads\n"
                                 "memory @o.part: global f32 reads writes\n"
                                 "memory @n: global i32 reads writes\n"
                                 "memory @K: shared bf16[64] align 128 swizzle 128\n"
                                 "memory @tmp: exec f32[16]\n"
                                 "memory @acc: lane f32[8]\n"
                                 "arg q: pointer @q from 1 0 0\n"
                                 "arg o: pointer @o.part\n"
                                 "arg n: pointer @n\n"
                                 "arg scale: f32 from 3 1 2\n"
                                 "arg length: i32\n"
                                 "arg stride: i64\n"
                                 "grid 0: 1 2 3\n"
                                 "grid 2: 7\n"
                                 "{\n"
                                 "  note \"load \\\"Q\\\"\"\n"
                                 "  %1 = lane.i32\n"
                                 "  %2 = warp.i32\n"
                                 "  %3 = block.i32 #0\n"
                                 "  %4.scale = arg.f32 #3\n"
                                 "  %5.length = arg.i32 #4\n"
                                 "  %6.stride = arg.i64 #5\n"
                                 "  %7 = cvt.i64 %1\n"
                                 "  %8 = mul.i64 %7, %6.stride\n"
                                 "  %9 = lt.i32 %1, %5.length\n"
                                 "  %10.row = load.f32 @q[%8] if %9 else -inf\n"
                                 "  %11 = load.f32x4 @q[0]\n"
                                 "  %12 = element.f32 %11 #2\n"
                                 "  %13 = vec.f32x2 %12, %10.row\n"
                                 "  %14 = const.f32x2 1e-06\n"
                                 "  %15 = fma.f32x2 %13, %14, %13\n"
                                 "  %16 = const.bf16 1.5\n"
                                 "  store @K[%1], %16\n"
                                 "  store @acc[0], %10.row if %9\n"
                                 "  atomic_add @o.part[3l], %4.scale\n"
                                 "  %17 = atomic_inc.i32 @n[0] if true\n"
                                 "  %18 = shuffle_xor.f32 %12 #1\n"
                                 "  %19 = shuffle.f32 %18, 0\n"
                                 "  %20 = any.i1 %9\n"
                                 "  barrier #0\n"
                                 "  hint #1\n"
                                 "  if %20 {\n"
                                 "    store @tmp[%1], nan\n"
                                 "  } else {\n"
                                 "    barrier #1\n"
                                 "  }\n"
                                 "  for %21.i = 0 to %5.length step 2 unroll full {\n"
                                 "    for %22 = %21.i to -1 step -1 unroll never {\n"
                                 "      %23 = select.f32 %9, %19, -0.0\n"
                                 "    }\n"
                                 "  }\n"
                                 "}\n";

static void printing_and_reading_agree(void **state)
{
    (void)state;
    Bench b = bench_new();
    const AuKernel *k = bench_read(&b, every_form);
    assert_int_equal(b.diags->errors, 0);
    assert_string_equal(bench_print(&b, k), every_form);
    bench_free(&b);
}

static const char *const head = "kernel k lanes 4 warps 1\nmemory @m: exec f32[4]\n";

static void errors_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *body, *message;
        uint32_t line;
    } cases[] = {
        {"{\n  %1 = add.f32 1.0\n}\n", "expected 2 operands, found '}'", 5},
        {"{\n  %1 = add 1.0, 2.0\n}\n",
         "expected the operation with a type, as in add.f32, found 'add'", 4},
        {"{\n  %1 = plus.f32 1.0, 2.0\n}\n", "there is no operation 'plus.f32'", 4},
        {"{\n  %1 = neg.f32 %2\n}\n", "%2 is not defined before", 4},
        {"{\n  %1 = lane.i32\n  %1 = lane.i32\n}\n", "%1 is defined twice", 5},
        {"{\n  store @x[0], 1.0\n}\n", "there is no memory @x", 4},
        {"{\n  barrier\n}\n", "expected '#', found '}'", 5},
        {"{\n  %1 = neg.f33 1.0\n}\n",
         "expected the operation with a type, as in add.f32, found 'neg.f33'", 4},
        {"{\n  lane.i32\n}\n", "expected '%n =' before it, found 'lane.i32'", 4},
        {"{\n  %1 = barrier #0\n}\n", "expected nothing that has a value, found 'barrier'", 4},
        {"{\n  if true {\n", "expected '}', found the end of the text", 5},
        {"{\n  %1 = neg.f32 1.0 2.0\n}\n", "expected the end of the line, found '2.0'", 4},
        {"{\n  %1 = neg.i32 99999999999\n}\n",
         "expected an i32, or an i64 with an l behind it, found '99999999999'", 4},
        {"{\n  note hello\n}\n", "expected a text in quotes, found 'hello'", 4},
        {"{\n  %1 = neg.f32 $\n}\n", "expected a value, found '$'", 4},
        {"memory @m: lane f32[1]\n{\n}\n", "@m is declared twice", 3},
        {"memory @x: stack f32[1]\n{\n}\n",
         "expected global, shared, exec, lane, matrix or tensor, found 'stack'", 3},
        {"arg a: f16\n{\n}\n", "expected pointer, i32, i64 or f32, found 'f16'", 3},
        {"bad\n{\n}\n", "expected memory, arg, grid, map or {, found 'bad'", 3},
        {"{\n}\nmore\n", "expected the end of the text, found 'more'", 5},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Bench b = bench_new();
        assert_null(bench_read(&b, au_format(b.arena, "%s%s", head, cases[n].body)));
        const bool names = strstr(cases[n].message, "defined") ||
                           strstr(cases[n].message, "memory @") ||
                           strstr(cases[n].message, "twice");
        assert_int_equal(b.diags->first->code, names ? AU_E0802 : AU_E0801);
        assert_string_equal(b.diags->first->message, cases[n].message);
        assert_int_equal(au_position(b.diags, b.diags->first->span).line, cases[n].line);
        bench_free(&b);
    }
}

static void one_run_shows_all_errors(void **state)
{
    (void)state;
    Bench b = bench_new();
    assert_null(bench_read(
        &b,
        "kernel k lanes 4 warps 1\n{\n  %1 = bad.f32 1.0\n  %2 = neg.f32 %1\n  %3 = neg.f32 %9\n"
        "  if true {\n    worse\n  }\n  %4 = neg.f32 %3\n}\n"));
    assert_int_equal(b.diags->errors, 3); /* bad, %9, worse: no error follows from another */
    bench_free(&b);
}

static void depth_is_limited(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    au_text_add(&text, "kernel k lanes 1 warps 1\n{\n");
    for (int n = 0; n < 100000; n++) au_text_add(&text, "if true {\n");
    assert_null(bench_read(&b, au_text_str(&text)));
    assert_int_equal(b.diags->first->code, AU_E0803);
    bench_free(&b);
}

/* Mutations of a good text: the reader must answer, and what it accepts must print, read again and
 * verify without a crash. */
static void garbage_is_answered(void **state)
{
    (void)state;
    static const char *const pieces[] = {"{",
                                         "}",
                                         "%1",
                                         "%7",
                                         "@q[",
                                         "]",
                                         ",",
                                         "#3",
                                         "if",
                                         "else",
                                         "for",
                                         "=",
                                         "add.f32",
                                         "load.f32x16",
                                         "\"",
                                         "\n",
                                         "99999999999999999999",
                                         "-",
                                         "%4294967295",
                                         "const.i1",
                                         "nan",
                                         "step 0",
                                         "\\x",
                                         "vec.f32x3"};
    uint32_t random = 1;
    uint32_t accepted = 0;
    for (int n = 0; n < 3000; n++) {
        Bench b = bench_new();
        AuText text = {.arena = b.arena};
        random = random * 1664525 + 1013904223;
        const size_t length = strlen(every_form), at = random % length;
        random = random * 1664525 + 1013904223;
        const size_t cut = at + (random >> 8) % (n % 3 ? 12 : 1);
        au_text_bytes(&text, every_form, at);
        random = random * 1664525 + 1013904223;
        if (n % 5)
            au_text_add(&text, "%s", pieces[(random >> 8) % (sizeof pieces / sizeof *pieces)]);
        else
            au_text_bytes(&text, (char[]){(char)(random >> 16)}, 1);
        if (cut < length) au_text_bytes(&text, every_form + cut, length - cut);
        const AuKernel *k = kernel_read(b.arena, b.names, b.diags,
                                        au_source_add(b.diags, "fuzz", text.at, text.length));
        assert_true((k == NULL) == (b.diags->errors != 0));
        if (k) {
            const char *once = bench_print(&b, k);
            const AuKernel *again = bench_read(&b, once);
            assert_non_null(again);
            assert_string_equal(once, bench_print(&b, again));
            kernel_verify(k, b.diags);
            accepted++;
        }
        bench_free(&b);
    }
    assert_true(accepted > 100 && accepted < 2500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printing_and_reading_agree), cmocka_unit_test(errors_say_where),
        cmocka_unit_test(one_run_shows_all_errors),   cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(garbage_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
