/* template.h - texts with holes, of which the tiled programs of schedules consist.
 *
 *     tile_set(t, p, "where(%v, %v, 0.0)", unmasked, p)
 *     tile_shared(t, "K", "%s[kv:%d, d:%d]", dtype, keys, width)
 *
 * %v takes a handle (what a declaration gave, or a part made by tile_part), %s a text, %d and %u a number, %c a character. What an
 * argument is comes with it, and the template is compared with it where the call stands. A call takes at most twelve arguments, the
 * template among them. */
#ifndef AU_TILE_TEMPLATE_H
#define AU_TILE_TEMPLATE_H

#include "text.h"

#include <stdint.h>

/* Something of a program: a name that was declared, or a view or expression made of some. */
typedef struct AuTileHandle {
    const char *text;
} AuTileHandle;
/* Of what is declared elsewhere, by its name. */
#define TILE_NAME(name) ((AuTileHandle){name})

typedef enum AuTileArgKind { TILE_ARG_HANDLE, TILE_ARG_TEXT, TILE_ARG_NUMBER } AuTileArgKind;
typedef struct AuTileArg {
    AuTileArgKind kind;
    const char *text;
    int64_t number;
} AuTileArg;

typedef struct AuTileTemplate {
    const AuTileArg *at; /* [0] is the text with the holes */
    uint32_t count;
} AuTileTemplate;

/* Where in a schedule's own code a call stands. */
typedef struct AuTileWhere {
    const char *file;
    uint32_t line;
} AuTileWhere;
#define TILE_WHERE ((AuTileWhere){__FILE__, __LINE__})

static inline AuTileArg tile_arg_of_handle(AuTileHandle handle)
{
    return (AuTileArg){.kind = TILE_ARG_HANDLE, .text = handle.text};
}

static inline AuTileArg tile_arg_of_text(const char *text)
{
    return (AuTileArg){.kind = TILE_ARG_TEXT, .text = text};
}

static inline AuTileArg tile_arg_of_number(int64_t number)
{
    return (AuTileArg){.kind = TILE_ARG_NUMBER, .number = number};
}

static inline const char *tile_word_of_handle(AuTileHandle handle) { return handle.text; }
static inline const char *tile_word_of_text(const char *text) { return text; }

// clang-format off
#define TILE_ARG(x) _Generic((x), AuTileHandle: tile_arg_of_handle, char *: tile_arg_of_text, \
                             const char *: tile_arg_of_text, default: tile_arg_of_number)(x)
/* A handle or a text where one name, view or expression is wanted. */
#define TILE_WORD(x) _Generic((x), AuTileHandle: tile_word_of_handle, default: tile_word_of_text)(x)

#define TILE_EACH_1(x) TILE_ARG(x)
#define TILE_EACH_2(x, ...) TILE_ARG(x), TILE_EACH_1(__VA_ARGS__)
#define TILE_EACH_3(x, ...) TILE_ARG(x), TILE_EACH_2(__VA_ARGS__)
#define TILE_EACH_4(x, ...) TILE_ARG(x), TILE_EACH_3(__VA_ARGS__)
#define TILE_EACH_5(x, ...) TILE_ARG(x), TILE_EACH_4(__VA_ARGS__)
#define TILE_EACH_6(x, ...) TILE_ARG(x), TILE_EACH_5(__VA_ARGS__)
#define TILE_EACH_7(x, ...) TILE_ARG(x), TILE_EACH_6(__VA_ARGS__)
#define TILE_EACH_8(x, ...) TILE_ARG(x), TILE_EACH_7(__VA_ARGS__)
#define TILE_EACH_9(x, ...) TILE_ARG(x), TILE_EACH_8(__VA_ARGS__)
#define TILE_EACH_10(x, ...) TILE_ARG(x), TILE_EACH_9(__VA_ARGS__)
#define TILE_EACH_11(x, ...) TILE_ARG(x), TILE_EACH_10(__VA_ARGS__)
#define TILE_EACH_12(x, ...) TILE_ARG(x), TILE_EACH_11(__VA_ARGS__)
#define TILE_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, count, ...) count
#define TILE_COUNT(...) TILE_COUNT_(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TILE_PASTE_(a, b) a##b
#define TILE_PASTE(a, b) TILE_PASTE_(a, b)
#define TILE_EACH(...) TILE_PASTE(TILE_EACH_, TILE_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define TILE_TEMPLATE(...) ((AuTileTemplate){(const AuTileArg[]){TILE_EACH(__VA_ARGS__)}, TILE_COUNT(__VA_ARGS__)})
// clang-format on

/* The text; NULL: a hole and its argument do not agree, or are not as many. */
const char *tile_fill(AuArena *arena, AuTileTemplate template);

#endif
