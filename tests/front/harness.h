/* harness.h - what the tests of the front end share: files, expected texts, a script compiled to text. */
#ifndef AU_TEST_FRONT_HARNESS_H
#define AU_TEST_FRONT_HARNESS_H

#include "front.h"

typedef struct Compiled {
    AuArena *arena;
    AuDiags *diags;
    AuScript *script;
    AuAttn **attns;
    uint32_t count;
} Compiled;

/* Parses and checks; free with au_arena_free(c.arena). */
Compiled compile_text(const char *name, const char *text, size_t length);
const char *diagnostics_of(const Compiled *c);
const char *ir_of(const Compiled *c);
const char *ast_of(const Compiled *c);

/* The bytes of a file, in the arena; NULL: there is none. */
char *read_bytes(AuArena *arena, const char *path, size_t *length);
/* Names of the files in a folder that end so, sorted. */
char **list_files(AuArena *arena, const char *folder, const char *suffix, uint32_t *count);
/* True if the file holds exactly the text. Prints the first line that differs; with update, writes the file instead. */
bool matches_file(AuArena *arena, const char *path, const char *text, bool update);

#endif
