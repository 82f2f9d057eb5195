/* docs/dev/kernel-ir.md tells the truth: its tables are those of core.def and ops.def, its kernels
 * read, verify, print alike and run. */
#include "kernel_test.h"

static const char *document(Bench *b)
{
    FILE *file = fopen(AU_DOCS "/kernel-ir.md", "rb");
    if (!file) fail_msg("the document cannot be read");
    AuText text = {.arena = b->arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(&text, part, n);
    fclose(file);
    return au_text_str(&text);
}

/* | ends a cell of a table even inside of code. */
static const char *escaped(Bench *b, const char *meaning)
{
    AuText text = {.arena = b->arena};
    for (; *meaning; meaning++) au_text_add(&text, *meaning == '|' ? "\\|" : "%c", *meaning);
    return au_text_str(&text);
}

static void expect_row(const char *text, const char *row)
{
    if (!strstr(text, row)) fail_msg("this row is missing:\n%s", row);
}

static void tables_are_those_of_the_compiler(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text = document(&b);
    /* clang-format off */
    static const struct { const char *text; uint32_t least, most; const char *what; } core[] = {
#define CORE(NAME, text, least, most, flags, what) {text, least, most, what},
#include "core.def"
#undef CORE
    };
    enum { COMM = AU_KF_COMM, MATH = AU_KF_MATH, CODE = AU_KF_CODE };
    static const struct { const char *text; uint32_t count; const char *rule; uint32_t flags; const char *meaning; } ops[] = {
#define OP(NAME, text, count, rule, flags, meaning, opencl) {text, count, #rule, flags, #meaning},
#include "ops.def"
#undef OP
    };
    static const struct { const char *name, *word; } rules[] = {
        {"R_SAME", "same"}, {"R_FLOAT", "float"}, {"R_INT", "int"}, {"R_LOGIC", "logic"}, {"R_CMP", "compare"}, {"R_SELECT", "select"},
        {"R_CVT", "convert"}, {"R_DECODE", "decode"}, {"R_ENCODE", "encode"},
    };
    /* clang-format on */
    for (size_t n = 0; n < sizeof core / sizeof *core; n++) {
        const char *counts = core[n].least == core[n].most
                                 ? au_format(b.arena, "%u", core[n].least)
                                 : au_format(b.arena, "%u..%u", core[n].least, core[n].most);
        expect_row(
            text, au_format(b.arena, "\n| `%s` | %s | %s |\n", core[n].text, counts, core[n].what));
    }
    for (size_t n = 0; n < sizeof ops / sizeof *ops; n++) {
        const char *rule = NULL, *mark = ops[n].flags & AU_KF_COMM   ? " C"
                                         : ops[n].flags & AU_KF_MATH ? " M"
                                                                     : "";
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
            if (strcmp(rules[r].name, ops[n].rule) == 0) rule = rules[r].word;
        expect_row(text, au_format(b.arena, "\n| `%s` | %u | %s | `%s` |%s |\n", ops[n].text,
                                   ops[n].count, rule, escaped(&b, ops[n].meaning), mark));
    }
    bench_free(&b);
}

static void kernels_are_kernels(void **state)
{
    (void)state;
    Bench b = bench_new();
    uint32_t count = 0;
    for (const char *at = document(&b); (at = strstr(at, "```kernel\n")); count++) {
        at += strlen("```kernel\n");
        const char *end = strstr(at, "```");
        const char *text = au_strndup(b.arena, at, (size_t)(end - at));
        const AuKernel *k = bench_kernel(&b, text);
        assert_string_equal(bench_print(&b, k), text);
        float data[3][128] = {{0}};
        AuKBuffer buffers[4] = {{data[0], 128, true}, {data[1], 128, true}, {data[2], 128, true}};
        const uint64_t slots[4] = {0, 0, 0, 100};
        const AuKRun run = {
            .slots = slots, .buffers = buffers, .grid = {1, 1, 1}, .lockstep = k->warps == 1};
        const char *why = NULL;
        if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s", why);
        at = end;
    }
    assert_int_equal(count, 2);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_those_of_the_compiler),
        cmocka_unit_test(kernels_are_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
