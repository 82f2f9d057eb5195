/* mistakes_test.c - planted mistakes (mistakes.def) are found, where and as they should be; and every line that orders anything is
 * missed by somebody when it is deleted. The argument is the number of schedules for each; "all" after it adds the deletions. */
#include "families.h"

#include <stdio.h>

enum { VERIFIER, RUNNING, UNVERIFIED };

typedef struct Mistake {
    const char *what, *file, *text, *replacement;
    int where;
    const char *codes, *words;
} Mistake;

#define MISTAKE(what, file, text, replacement, where, codes, words)                                \
    {what, file, text, replacement, where, codes, words},
static const Mistake mistakes[] = {
#include "mistakes.def"
};

static int schedules = 2;

/* The first trial that fails: a forward example has one trial a seed, of the others each shape gets its chance. */
static Outcome first_failure(Session *s, const char *file, const char *text, AuTileRules rules,
                             int seed)
{
    static const Shape shapes[] = {{1, 2, 1, 150, 200}, {1, 1, 1, 200, 230}};
    const bool forward = is_forward(file);
    Outcome out = {.failed = PASSED};
    for (int n = 0; n < (forward ? 1 : 5) && out.failed == PASSED; n++) {
        const Trial t = {.file = file,
                         .text = text,
                         .rules = rules,
                         .number = forward ? seed : n + 20 * seed,
                         .causal_only = true,
                         .shape = forward ? &shapes[seed % 2] : NULL,
                         .items = forward ? 2 : 0};
        out = run_trial(s, &t);
    }
    return out;
}

static void test_mistake(void **state)
{
    const Mistake *m = *state;
    for (int seed = 0; seed < schedules; seed++) {
        Session s = session_begin();
        const char *text =
            replaced(s.arena, example_text(s.arena, m->file), m->text, m->replacement);
        const Outcome out = first_failure(
            &s, m->file, text, m->where == UNVERIFIED ? TILE_TYPES_ONLY : TILE_ALL_RULES, seed);
        const char *code = out.failed == NUMBERS ? "NUMBERS" : au_code_name(out.code);
        if (out.failed == PASSED)
            fail_msg("%s (%s, seed %d) was not found", m->what, m->file, seed);
        const bool right_stage = m->where == VERIFIER ? out.failed == VERIFY
                                                      : out.failed == RUN || out.failed == NUMBERS;
        if (!right_stage || !strstr(m->codes, code) || !strstr(out.message, m->words))
            fail_msg("%s (%s, seed %d): expected %s with `%s`, got %s: %s", m->what, m->file, seed,
                     m->codes, m->words, code, out.message);
        session_end(&s);
        if (m->where == VERIFIER) break; /* the same for every schedule */
    }
}

/* ---- deleted lines */

static bool begins_with(const char *line, const char *word)
{
    while (*line == ' ') line++;
    return strncmp(line, word, strlen(word)) == 0;
}

/* A statement that orders something: it waits, hands over, or meets others. */
static bool orders(const char *line, size_t length)
{
    static const char *const words[] = {"wait ", "commit ", "release ", "sync ", "arrive "};
    static const char *const inside[] = {"{ arrive ", "{ sync ", " = wait ", " = acquire "};
    char copy[512];
    if (length >= sizeof copy) return false;
    memcpy(copy, line, length);
    copy[length] = 0;
    if (strncmp(copy, "//", 2) == 0) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (begins_with(copy, words[i])) return true;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (strstr(copy, inside[i])) return true;
    return false;
}

static void test_deletions(void **state)
{
    const char *file = *state;
    Session outer = session_begin();
    const char *text = example_text(outer.arena, file);
    int lines = 0;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        const size_t length = end ? (size_t)(end - line) : strlen(line);
        if (orders(line, length)) {
            AuText mutant = {.arena = outer.arena};
            au_text_bytes(&mutant, text, (size_t)(line - text));
            au_text_add(&mutant, "%s", line + length + 1);
            bool found = false;
            lines++;
            for (int seed = 0; seed < 4 && !found; seed++) {
                Session s = session_begin();
                found =
                    first_failure(&s, file, au_text_str(&mutant), TILE_ALL_RULES, seed).failed !=
                    PASSED;
                session_end(&s);
            }
            if (!found) fail_msg("%s: nobody misses `%.*s`", file, (int)length, line);
        }
        line += length + 1;
    }
    if (lines) print_message("%-26s %3d lines, each is missed\n", file, lines);
    session_end(&outer);
}

int main(int argc, char **argv)
{
    enum { COUNT = sizeof mistakes / sizeof *mistakes };
    struct CMUnitTest tests[COUNT] = {{0}}, deletions[EXAMPLE_COUNT] = {{0}};
    if (argc > 1) schedules = atoi(argv[1]);
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){mistakes[i].what, test_mistake, NULL, NULL,
                                       (void *)(uintptr_t)&mistakes[i]};
    for (size_t i = 0; i < EXAMPLE_COUNT; i++)
        deletions[i] = (struct CMUnitTest){example_names[i], test_deletions, NULL, NULL,
                                           (void *)(uintptr_t)example_names[i]};
    const int failed = cmocka_run_group_tests_name("planted mistakes", tests, NULL, NULL);
    if (argc < 3) return failed;
    return failed + cmocka_run_group_tests_name("deleted lines", deletions, NULL, NULL);
}
