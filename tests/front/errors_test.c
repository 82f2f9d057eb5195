/* errors_test.c - every diagnostic of the front end, rendered: NAME.attn of the folder gives exactly NAME.expect.
 * Every code of the front end's ranges in diag.def is in one of the files, or named below with the test that shows it.
 *     errors_test FOLDER [--update] */
#include "harness.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const char *const codes[] = {
#define DIAG(code, what) #code,
#include "diag.def"
#undef DIAG
};
// clang-format on
enum { CODES = sizeof codes / sizeof *codes };

/* The front end's: E01.. to E05.., and those of other ranges that it reports. */
static bool is_ours(const char *code)
{
    static const char *const others[] = {"E0601", "W03", "W04", "N03", "N04"};
    if (code[0] == 'E' && code[1] == '0' && code[2] >= '1' && code[2] <= '5') return true;
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(code, others[i], strlen(others[i])) == 0) return true;
    return false;
}

/* Shown by front_test.c: sources too large for a file. By attn/gradient_laws_test.c: what derivatives find. */
static bool is_shown_elsewhere(const char *code)
{
    return strcmp(code, "E0113") == 0 || strncmp(code, "E042", 4) == 0 ||
           strcmp(code, "W0402") == 0;
}

static bool run(const char *folder, const char *name, bool update, bool *seen)
{
    AuArena *arena = au_arena_new(NULL);
    size_t length = 0;
    const char *stem = au_strndup(arena, name, strlen(name) - strlen(".attn"));
    char *text = read_bytes(arena, au_format(arena, "%s/%s", folder, name), &length);
    Compiled c = compile_text(name, text, length);
    if (!c.diags->errors) front_select(c.diags, c.script, c.attns, c.count, NULL);
    for (const AuDiag *d = c.diags->first; d; d = d->next) seen[d->code] = true;
    bool ok = matches_file(arena, au_format(arena, "%s/%s.expect", folder, stem),
                           diagnostics_of(&c), update);
    /* The name of a file says which code it is about. */
    bool about = strchr("EWN", name[0]) == NULL;
    for (const AuDiag *d = c.diags->first; d; d = d->next)
        about |= strncmp(au_code_name(d->code), name, 5) == 0;
    if (!about) fprintf(stderr, "%s: does not give %.5s\n", name, name);
    au_arena_free(c.arena);
    au_arena_free(arena);
    return ok && about;
}

int main(int count, char **arguments)
{
    const bool update = count > 2 && strcmp(arguments[2], "--update") == 0;
    AuArena *arena = au_arena_new(NULL);
    bool seen[CODES] = {false};
    uint32_t files = 0, failures = 0;
    char **names = count > 1 ? list_files(arena, arguments[1], ".attn", &files) : NULL;
    for (uint32_t i = 0; i < files; i++) failures += !run(arguments[1], names[i], update, seen);
    for (uint32_t i = 0; i < CODES; i++) {
        if (seen[i] || !is_ours(codes[i]) || is_shown_elsewhere(codes[i])) continue;
        fprintf(stderr, "%s: no test shows it\n", codes[i]);
        failures++;
    }
    printf("%u files, %u failures\n", files, failures);
    au_arena_free(arena);
    return failures || files == 0;
}
