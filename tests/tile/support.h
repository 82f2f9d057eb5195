/* support.h - what the tests of the tiled IR share: files of tests/tile/examples, modules from texts, errors as text. */
#ifndef TEST_TILE_SUPPORT_H
#define TEST_TILE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tile.h"

/* The examples; NULL at the end. */
enum { EXAMPLE_COUNT = 16 };
extern const char *const example_names[EXAMPLE_COUNT + 1];

/* Text of a file of the examples; fails the test if it is not there. */
const char *example_text(AuArena *arena, const char *name);

typedef struct Session {
    AuArena *arena;
    AuDiags *diags;
} Session;
Session session_begin(void);
void session_end(Session *s);
const char *session_errors(const Session *s); /* rendered */

AuTileModule *read_text(Session *s, const char *name, const char *text);
/* `text` with every `old` (which must occur) replaced. */
const char *replaced(AuArena *arena, const char *text, const char *old, const char *with);

/* Of an extent made of sizes; [size] gives one by its name, -1: there is none, which fails the test. */
int64_t extent_value(const AuTileExpr *e, int64_t (*size)(const void *user, const char *name),
                     const void *user);

#endif
