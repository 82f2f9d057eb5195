/* deletions.h - kernels whose lines are taken out one by one. A line that ends with `//! a|b` must
 * be there: without it the verifier or the interpreter answers with one of the words, in every
 * schedule. One that ends with `//~ reason` may be missing: the results stay right. */
#ifndef AU_KERNEL_DELETIONS_H
#define AU_KERNEL_DELETIONS_H

#include "kernel_test.h"

typedef struct Subject {
    const char *text;
    /* Fills in what runs, and whether the results are right afterwards. */
    void (*prepare)(AuKRun *run);
    bool (*is_right)(const AuKRun *run);
    uint32_t seeds;
} Subject;

/* NULL: it ran and was right; else why not. */
static inline const char *outcome(Bench *b, const Subject *s, const char *text, uint64_t seed)
{
    AuKernel *k = bench_read(b, text);
    if (!k || !kernel_verify(k, b->diags)) {
        AuText shown = {.arena = b->arena};
        au_diags_render(b->diags, &shown);
        return au_text_str(&shown);
    }
    AuKRun run = {.grid = {1, 1, 1}, .seed = seed, .check_all_written = true};
    const char *why = NULL;
    s->prepare(&run);
    if (!kernel_run(k, &run, b->arena, &why)) return why;
    return s->is_right(&run) ? NULL : "wrong results";
}

static inline bool is_one_of(const char *words, size_t length, const char *text)
{
    char word[64];
    for (size_t at = 0, n = 0; at <= length; at++) {
        if (at < length && words[at] != '|') {
            if (n + 1 < sizeof word) word[n++] = words[at];
            continue;
        }
        word[n] = 0;
        if (strstr(text, word)) return true;
        n = 0;
    }
    return false;
}

static inline bool try_without(const Subject *s, const char *line, const char *mark,
                               const char *end)
{
    for (uint64_t seed = 0; seed < s->seeds; seed++) {
        Bench b = bench_new();
        const char *text =
            au_format(b.arena, "%.*s%s", (int)(line - s->text), s->text, end + (*end == '\n'));
        const char *why = outcome(&b, s, text, seed);
        const bool needed = mark[2] == '!';
        const bool wrong =
            needed ? !why || !is_one_of(mark + 4, (size_t)(end - mark - 4), why) : why != NULL;
        if (wrong)
            print_error("without '%.*s', seed %d: %s\n", (int)(end - line), line, (int)seed,
                        why ? why : "nothing was found");
        bench_free(&b);
        if (wrong) return false;
    }
    return true;
}

/* Gives the number of lines that were taken out. */
static inline uint32_t try_deletions(const Subject *s)
{
    uint32_t count = 0, wrong = 0;
    for (uint64_t seed = 0; seed < s->seeds; seed++) {
        Bench b = bench_new();
        const char *why = outcome(&b, s, s->text, seed);
        if (why) fail_msg("seed %d: %s", (int)seed, why);
        bench_free(&b);
    }
    for (const char *line = s->text; *line;) {
        const char *end = strchr(line, '\n');
        if (!end) end = line + strlen(line);
        for (const char *mark = line; mark + 2 < end; mark++)
            if (mark[0] == '/' && mark[1] == '/' && (mark[2] == '!' || mark[2] == '~')) {
                wrong += !try_without(s, line, mark, end);
                count++;
                break;
            }
        line = end + (*end == '\n');
    }
    if (wrong) fail_msg("%u of %u lines", wrong, count);
    return count;
}

/* Its text is read back, and what it computes stays right after the passes. */
static inline void try_text_and_passes(const Subject *s)
{
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, s->text);
    const char *printed = bench_print(&b, k);
    assert_string_equal(bench_print(&b, bench_kernel(&b, printed)), printed);
    for (uint32_t pass = 0; pass < 2; pass++) {
        AuKRun run = {.grid = {1, 1, 1}, .check_all_written = true};
        const char *why = NULL;
        s->prepare(&run);
        if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s", why);
        assert_true(s->is_right(&run));
        kernel_simplify(k);
        assert_true(kernel_verify(k, b.diags));
    }
    bench_free(&b);
}

#endif
