/* fuzz_test.c - examples with tokens exchanged: whatever still reads goes through expansion and the verifier, and what these accept
 * is run. Each step says what is wrong or goes on; none crashes or hangs. The argument is the number of programs. */
#include "families.h"

#include <stdio.h>

static int programs = 400;

typedef struct Word {
    const char *at;
    size_t length;
} Word;

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Words and signs of a text; the spaces between them stay where they are. */
static uint32_t split(const char *text, Word *words, uint32_t room)
{
    uint32_t n = 0;
    while (*text && n < room) {
        if (*text == '/' && text[1] == '/')
            while (*text && *text != '\n') text++;
        if (*text == ' ' || *text == '\n' || !*text) {
            text += *text != 0;
            continue;
        }
        const char *begin = text++;
        while (is_word(*begin) && is_word(*text)) text++;
        words[n++] = (Word){begin, (size_t)(text - begin)};
    }
    return n;
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static int kind_of(char c) { return c >= '0' && c <= '9' ? 0 : is_word(c) ? 1 : 2; }

/* A word from nearby, most often of the same kind, so that many mutants still read. */
static Word other_word(const Word *words, uint32_t count, uint32_t n, uint32_t *random)
{
    for (int tries = 0; tries < 20; tries++) {
        const Word w = words[(n + next(random) % 300) % count];
        if (kind_of(*w.at) == kind_of(*words[n].at) || next(random) % 64 == 0) return w;
    }
    return words[n];
}

/* The text with a few words replaced by others of it. */
static const char *mutant(AuArena *arena, const char *text, uint32_t seed)
{
    enum { ROOM = 4000 };
    static Word words[ROOM];
    const uint32_t count = split(text, words, ROOM);
    uint32_t random = seed * 2654435761u, places[3];
    for (int i = 0; i < 3; i++) {
        places[i] = next(&random) % count;
        for (int tries = 0; tries < 5 && kind_of(*words[places[i]].at) == 2; tries++)
            places[i] = next(&random) % count;
    }
    const int changes = 1 + (int)(next(&random) % 3);
    AuText out = {.arena = arena};
    const char *from = text;
    for (uint32_t n = 0; n < count; n++) {
        Word w = words[n];
        au_text_bytes(&out, from, (size_t)(w.at - from));
        from = w.at + w.length;
        for (int i = 0; i < changes; i++)
            if (places[i] == n) w = other_word(words, count, n, &random);
        au_text_bytes(&out, w.at, w.length);
    }
    au_text_add(&out, "%s", from);
    return au_text_str(&out);
}

static void test_mutants(void **state)
{
    (void)state;
    int came[PASSED + 1] = {0};
    for (int n = 0; n < programs; n++) {
        Session s = session_begin();
        const char *file = example_names[n % EXAMPLE_COUNT];
        const Shape shape = {1, 1, 1, 40, 50};
        const Trial t = {.file = file,
                         .text = mutant(s.arena, example_text(s.arena, file), (uint32_t)n),
                         .number = n % 7,
                         .causal_only = true,
                         .shape = is_forward(file) ? &shape : NULL};
        const Outcome out = run_trial(&s, &t);
        if (out.failed < NUMBERS) assert_true(s.diags->errors > 0);
        came[out.failed]++;
        session_end(&s);
    }
    print_message("of %d: %d do not read, %d do not verify, %d do not run, %d compute something "
                  "else, %d are the same\n",
                  programs, came[READ_OR_EXPAND], came[VERIFY], came[RUN], came[NUMBERS],
                  came[PASSED]);
}

int main(int argc, char **argv)
{
    if (argc > 1) programs = atoi(argv[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
