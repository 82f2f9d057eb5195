/* robust_test.c - the front end with scripts that nobody writes: deep, long, cut off, with many errors, in other locales, without memory. */
#include "harness.h"

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; "

static Compiled compile(const char *text) { return compile_text("test.attn", text, strlen(text)); }

/* Compiles an attention with these items; prints the diagnostics if there is an error. */
static Compiled compile_good(const char *text)
{
    Compiled c = compile(text);
    if (c.diags->errors) print_error("%s\n%s", text, diagnostics_of(&c));
    assert_int_equal(c.diags->errors, 0);
    for (uint32_t i = 0; i < c.count; i++) {
        if (!attn_verify(c.attns[i], c.diags)) print_error("%s\n%s", text, diagnostics_of(&c));
        assert_int_equal(c.diags->errors, 0);
    }
    return c;
}

static bool has_error(const Compiled *c, AuCode code)
{
    for (const AuDiag *d = c->diags->first; d; d = d->next)
        if (d->code == code) return true;
    return false;
}

/* [count] times [unit] between two texts. */
static Compiled repeat(const char *before, const char *unit, uint32_t count, const char *after)
{
    AuArena *arena = au_arena_new(NULL);
    AuText text = {.arena = arena};
    au_text_add(&text, "%s", before);
    for (uint32_t i = 0; i < count; i++) au_text_add(&text, "%s", unit);
    au_text_add(&text, "%s", after);
    Compiled c = compile_text("deep.attn", text.at, text.length);
    au_arena_free(arena);
    return c;
}

static void deep_nesting(void **state)
{
    (void)state;
    static const char *const units[] = {"(",   "-", "!",      "f(",    "s[",
                                        "1+(", "~", "where(", "s*s-(", "1 < "};
    for (uint32_t i = 0; i < sizeof units / sizeof *units; i++) {
        Compiled c = repeat("attention a { " HEAD "score_mod(s) = ", units[i], 100000,
                            "s; online identity; }");
        assert_true(c.diags->errors > 0);
        au_arena_free(c.arena);
    }
    Compiled sum =
        repeat("attention a { " HEAD "score_mod(s) = s", " + s", 100000, "; online identity; }");
    assert_true(has_error(&sum, AU_E0110));
    au_arena_free(sum.arena);
    Compiled braces = repeat("", "attention a { linear { online b { f(x) { ", 20000, "");
    assert_true(braces.diags->errors > 0);
    au_arena_free(braces.arena);
}

static void nesting_within_the_limit(void **state)
{
    (void)state;
    Compiled c =
        repeat("attention a { " HEAD "score_mod(s) = s", " + s", 300, "; online identity; }");
    assert_int_equal(c.diags->errors, 0);
    au_arena_free(c.arena);
}

/* Long scripts take time in proportion to their length. */
static void long_scripts(void **state)
{
    (void)state;
    Compiled errors = repeat("attention a { ", "let x = y; zzz(x) = @ 3; ", 50000, "}");
    assert_true(errors.diags->errors > 1000);
    au_arena_free(errors.arena);
    Compiled items = repeat("attention a { " HEAD, "require H > 1; ", 20000, "online identity; }");
    assert_int_equal(items.diags->errors, 0);
    au_arena_free(items.arena);
    Compiled lines = repeat("attention a { linear { ", "decay = 1.0\n", 200000, "} }");
    assert_true(has_error(&lines, AU_E0108));
    au_arena_free(lines.arena);
    Compiled same = repeat("attention a { linear { ", "dekay = zzz; ", 100000, "} }");
    assert_true(has_error(&same, AU_E0214));
    au_arena_free(same.arena);
    Compiled huge = repeat(
        "", "// a comment that says nothing, over and over and over and over again\n", 80000, "");
    assert_true(has_error(&huge, AU_E0113));
    au_arena_free(huge.arena);
}

/* Names that are nearly right, each compared with all others: guesses are bounded. */
static void many_guesses(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    AuText text = {.arena = arena};
    au_text_add(&text, "attention a { " HEAD "score_mod(s) { ");
    for (int i = 0; i < 20000; i++)
        au_text_add(&text, "let a_name_that_is_long_enough_to_take_time%d = s; ", i);
    for (int i = 0; i < 20000; i++)
        au_text_add(&text, "let b%d = a_name_that_is_long_enough_to_take_tyme%d; ", i, i);
    au_text_add(&text, "return s; } online softmax; }");
    Compiled c = compile(text.at);
    assert_int_equal(c.diags->errors, 20000);
    au_arena_free(c.arena);
    au_arena_free(arena);
}

/* Functions that double what they are given, used by many attentions: the whole script has one limit. */
static void many_expansions(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    AuText text = {.arena = arena};
    au_text_add(&text, "fn f0(x) = x + 1.0; ");
    for (int i = 1; i < 30; i++)
        au_text_add(&text, "fn f%d(x) = f%d(x) * f%d(x + 1.0); ", i, i - 1, i - 1);
    for (int i = 0; i < 1000; i++)
        au_text_add(&text, "attention a%d { " HEAD "score_mod(s) = f29(s); online softmax; } ", i);
    Compiled c = compile(text.at);
    assert_int_equal(c.diags->errors, 1);
    assert_int_equal(c.count, 0);
    au_arena_free(c.arena);
    au_arena_free(arena);
}

/* What is wrong in a function is said once, and every attention that uses it is left out. */
static void wrong_for_all(void **state)
{
    (void)state;
    static const char *const functions[] = {"fn f(x) = x + nothing;",
                                            "fn f(x) = x + ; const nothing = ;"};
    for (uint32_t i = 0; i < 2; i++) {
        AuArena *arena = au_arena_new(NULL);
        Compiled c = compile(au_format(
            arena,
            "%s attention a { " HEAD "score_mod(s) = f(s); online softmax; } attention c { " HEAD
            "score_mod(s) = f(s); online softmax; } attention d { " HEAD "online softmax; }",
            functions[i]));
        assert_int_equal(c.diags->errors, 1 + i);
        assert_int_equal(c.count, 1);
        au_arena_free(c.arena);
        au_arena_free(arena);
    }
}

/* However many warnings there are, an error is kept. */
static void many_warnings(void **state)
{
    (void)state;
    Compiled c = repeat("attention a { " HEAD "score_mod(s) { let x = s", "; let xx = s * (1 / H) ",
                        1, "; return s; } online softmax; }");
    assert_int_equal(c.diags->warnings, 1);
    au_arena_free(c.arena);
    AuArena *arena = au_arena_new(NULL);
    AuText text = {.arena = arena};
    au_text_add(&text, "attention a { " HEAD "score_mod(s) { ");
    for (int i = 0; i < 3000; i++) au_text_add(&text, "let x%d = s * (1 / H); ", i);
    au_text_add(&text, "return s * nothing; } online softmax; }");
    c = compile(text.at);
    assert_int_equal(c.diags->errors, 1);
    assert_int_equal(c.count, 0);
    au_arena_free(c.arena);
    au_arena_free(arena);
}

static void byte_order_mark(void **state)
{
    (void)state;
    Compiled c = compile_good(
        "\xEF\xBB\xBF// a mark before, lines of another system\r\nattention a {\r\n" HEAD
        "\r\nonline softmax;\r\n}\r\n");
    assert_int_equal(c.count, 1);
    au_arena_free(c.arena);
}

/* Every prefix of a script is parsed without a crash, and is wrong. */
static void prefixes(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    size_t length;
    const char *text = read_bytes(arena, AU_EXAMPLES "/documents_bias_sink.attn", &length);
    for (size_t n = 0; n + 2 < length; n++) {
        Compiled c = compile_text("prefix.attn", text, n);
        assert_true(c.diags->errors > 0);
        au_arena_free(c.arena);
    }
    au_arena_free(arena);
}

/* Numbers do not depend on the locale of the process. */
static void locales(void **state)
{
    (void)state;
    const bool comma = setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "de_DE") ||
                       setlocale(LC_NUMERIC, "fr_FR.UTF-8");
    Compiled c = compile_good("attention a { " HEAD "score_mod(s) = s * 0.5; online identity; }");
    assert_true(attn_at(c.attns[0], attn_arg(c.attns[0], c.attns[0]->score_mod, 1))->number == 0.5);
    au_arena_free(c.arena);
    setlocale(LC_NUMERIC, "C");
    if (!comma) print_message("no locale with a decimal comma is installed here\n");
}

/* ---- memory runs out at every possible place; the arena takes the way out that was set */

typedef struct Purse {
    uint32_t left, held;
} Purse;

static void *spend(void *user, void *memory, size_t old_bytes, size_t new_bytes)
{
    Purse *purse = user;
    (void)old_bytes;
    if (!new_bytes) {
        purse->held--;
        free(memory);
        return NULL;
    }
    if (!purse->left) return NULL;
    purse->left--;
    purse->held++;
    return malloc(new_bytes);
}

/* True if the compilation came to its end with [chunks] allocations. */
static bool compile_with(uint32_t chunks, Purse *purse)
{
    *purse = (Purse){chunks, 0};
    AuArena *volatile arena = au_arena_new(&(AuAllocator){spend, purse});
    volatile bool complete = false;
    jmp_buf edge;
    if (arena && setjmp(edge) == 0) {
        uint32_t count;
        const char *text = "attention a { " HEAD "score_mod(s) = s * 0.5; online softmax; }";
        au_arena_guard(arena, &edge);
        AuNames *names = au_names_new(arena);
        AuDiags *diags = au_diags_new(arena);
        AuScript *script =
            front_parse(arena, names, diags, au_source_add(diags, "a", text, strlen(text)));
        front_check(arena, names, diags, script, &count);
        complete = diags->errors == 0 && count == 1;
    }
    au_arena_free(arena);
    return complete;
}

static void out_of_memory(void **state)
{
    (void)state;
    Purse purse;
    uint32_t chunks = 0;
    while (!compile_with(chunks, &purse)) {
        assert_int_equal(purse.held, 0);
        assert_true(++chunks < 1000);
    }
    assert_true(chunks > 2);
    assert_int_equal(purse.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_nesting),    cmocka_unit_test(nesting_within_the_limit),
        cmocka_unit_test(long_scripts),    cmocka_unit_test(prefixes),
        cmocka_unit_test(locales),         cmocka_unit_test(out_of_memory),
        cmocka_unit_test(many_guesses),    cmocka_unit_test(many_expansions),
        cmocka_unit_test(wrong_for_all),   cmocka_unit_test(many_warnings),
        cmocka_unit_test(byte_order_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
