/* harness.c - see harness.h. */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Compiled compile_text(const char *name, const char *text, size_t length)
{
    Compiled c = {.arena = au_arena_new(NULL)};
    AuNames *names = au_names_new(c.arena);
    c.diags = au_diags_new(c.arena);
    c.script = front_parse(c.arena, names, c.diags, au_source_add(c.diags, name, text, length));
    c.attns = front_check(c.arena, names, c.diags, c.script, &c.count);
    return c;
}

const char *diagnostics_of(const Compiled *c)
{
    AuText out = {.arena = c->arena};
    au_diags_render(c->diags, &out);
    return au_text_str(&out);
}

const char *ir_of(const Compiled *c)
{
    AuText out = {.arena = c->arena};
    for (uint32_t i = 0; i < c->count; i++) attn_print(c->attns[i], &out);
    return au_text_str(&out);
}

const char *ast_of(const Compiled *c)
{
    AuText out = {.arena = c->arena};
    front_print_ast(c->script, &out);
    return au_text_str(&out);
}

char *read_bytes(AuArena *arena, const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char chunk[4096];
    AuText text = {.arena = arena};
    size_t n;
    if (!file) return NULL;
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0) au_text_bytes(&text, chunk, n);
    fclose(file);
    *length = text.length;
    return text.at ? text.at : au_strndup(arena, "", 0);
}

static int compare_names(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

char **list_files(AuArena *arena, const char *folder, const char *suffix, uint32_t *count)
{
    char **names = NULL;
    uint32_t capacity = 0;
    DIR *dir = opendir(folder);
    *count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (length < tail || strcmp(entry->d_name + length - tail, suffix) != 0) continue;
        char *name = au_strndup(arena, entry->d_name, length);
        AU_PUSH(arena, names, *count, capacity, name);
    }
    if (dir) closedir(dir);
    if (*count) qsort(names, *count, sizeof *names, compare_names);
    return names;
}

static size_t line_length(const char *s) { return strcspn(s, "\n"); }

bool matches_file(AuArena *arena, const char *path, const char *text, bool update)
{
    size_t length = 0;
    const char *expected = read_bytes(arena, path, &length), *actual = text;
    if (expected && length == strlen(text) && memcmp(expected, text, length) == 0) return true;
    if (update) {
        FILE *file = fopen(path, "wb");
        const bool ok = file && fwrite(text, 1, strlen(text), file) == strlen(text);
        if (file && fclose(file) == 0 && ok) return true;
        fprintf(stderr, "%s: cannot be written\n", path);
        return false;
    }
    if (!expected) {
        fprintf(stderr, "%s: is not there; run with --update and look at it\n", path);
        return false;
    }
    for (int line = 1;; line++) {
        const size_t m = line_length(expected), n = line_length(actual);
        if (m != n || memcmp(expected, actual, m) != 0) {
            fprintf(stderr, "%s:%d: expected: %.*s\n%s:%d: found:    %.*s\n", path, line, (int)m,
                    expected, path, line, (int)n, actual);
            return false;
        }
        expected += m + (expected[m] != 0);
        actual += n + (actual[n] != 0);
    }
}
