/* Spaces, words and numbers of text forms (dsl/support/scan.h), which all readers of IRs take apart alike. */
#include "scan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static AuScan of(const char *text) { return (AuScan){text, 0, (uint32_t)strlen(text)}; }

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
        uint32_t end;
    } rows[] = {{"0", 0, 1},
                {"007", 7, 3},
                {"-12x", -12, 3},
                {"12l", 12, 2},
                {"9223372036854775807", INT64_MAX, 19},
                {"-9223372036854775808", INT64_MIN, 20},
                {"3-4", 3, 1}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        AuScan s = of(rows[n].text);
        const AuNumber x = au_scan_number(&s);
        assert_true(x.is_good && !x.is_real);
        assert_int_equal(x.integer, rows[n].value);
        assert_int_equal(s.at, rows[n].end);
    }
}

static void reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
        uint32_t end;
    } rows[] = {{"1.", 1, 2},
                {"-0.0", -0.0, 4},
                {"1e5", 1e5, 3},
                {"1E+5,", 1e5, 4},
                {"2.5e-324 ", 2.5e-324, 8},
                {"1e-320", 1e-320, 6},
                {"1e400", HUGE_VAL, 5},
                {"0.1", 0.1, 3}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        AuScan s = of(rows[n].text);
        const AuNumber x = au_scan_number(&s);
        assert_true(x.is_good && x.is_real);
        assert_true(x.real == rows[n].value);
        assert_int_equal(signbit(x.real) != 0, *rows[n].text == '-');
        assert_int_equal(s.at, rows[n].end);
    }
}

/* What looks like one number is one that is wrong, all of it, not two that are right. */
static void no_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"1.2.3",
                                        "1e",
                                        "1e+",
                                        "1e5e5",
                                        "-",
                                        "-.5",
                                        "1..",
                                        "9223372036854775808",
                                        "-9223372036854775809"};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        AuScan s = of(texts[n]);
        assert_false(au_scan_number(&s).is_good);
        assert_true(s.at > 0);
        assert_true(au_scan_peek(&s, 0) == 0 || au_scan_peek(&s, 0) == '+');
    }
    char digits[300];
    memset(digits, '1', sizeof digits);
    digits[1] = '.';
    AuScan s = {digits, 0, sizeof digits};
    assert_false(au_scan_number(&s).is_good); /* too long */
    assert_int_equal(s.at, sizeof digits);
}

/* A text ends where it is said to, not at a NUL: what is behind is never looked at. */
static void ends(void **state)
{
    (void)state;
    const char text[] = {'1', '2', '3', 'e', '5', '.', 'x'};
    for (uint32_t end = 0; end <= sizeof text; end++) {
        AuScan s = {text, 0, end};
        const AuNumber x = au_scan_number(&s);
        assert_true(s.at <= end);
        assert_int_equal(au_scan_peek(&s, end), 0);
        if (end >= 1 && end <= 3) assert_int_equal(x.integer, end == 1 ? 1 : end == 2 ? 12 : 123);
        if (end == 5) assert_true(x.real == 123e5);
    }
}

static void words_and_spaces(void **state)
{
    (void)state;
    AuScan s = of(" \t// a comment / here\r\n\n  a_1$.b");
    assert_false(au_scan_space(&s, false));
    assert_int_equal(au_scan_peek(&s, 0), '\n'); /* which ends the comment */
    assert_true(au_scan_space(&s, true));
    assert_int_equal(au_scan_word(&s, ""), 3);
    assert_int_equal(au_scan_word(&s, ""), 0);
    assert_int_equal(au_scan_word(&s, "$."), 3);
    assert_int_equal(s.at, s.end);
    s = of("/ /x");
    assert_false(au_scan_space(&s, true));
    assert_int_equal(s.at, 0);
    const char nul[] = {'a', 0, 'b'};
    s = (AuScan){nul, 0, sizeof nul};
    assert_int_equal(au_scan_word(&s, "$"), 1); /* a NUL is no letter of any word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),         cmocka_unit_test(reals),
        cmocka_unit_test(no_numbers),       cmocka_unit_test(ends),
        cmocka_unit_test(words_and_spaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
