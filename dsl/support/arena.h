/* arena.h - memory of the compiler: bump allocation, freed as a whole.
 * Everything the compiler builds lives in an arena: one for a compilation (sources, names, types),
 * one for an IR, one for a pass's scratch. Nothing is freed singly. The allocator beneath is the
 * embedder's. Out of memory: au_alloc does not return; it jumps to the point that the API edge set
 * with au_arena_guard. No frame of LLVM or of a driver may lie between the two. Not thread-safe:
 * one arena, one thread. */
#ifndef AU_SUPPORT_ARENA_H
#define AU_SUPPORT_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory from outside. [resize] works like realloc; new_bytes 0 frees. NULL where there is no
 * memory. */
typedef struct AuAllocator {
    void *(*resize)(void *user, void *memory, size_t old_bytes, size_t new_bytes);
    void *user;
} AuAllocator;

typedef struct AuArena AuArena;

/* NULL allocator: malloc's. Returns NULL when out of memory. */
AuArena *au_arena_new(const AuAllocator *allocator);
void au_arena_free(AuArena *arena); /* NULL is fine */
/* Another, with the same allocator and the same edge. Out of memory: as au_alloc. */
AuArena *au_arena_beside(AuArena *arena);

/* Where to go when memory runs out: `jmp_buf edge; if (setjmp(edge)) return OOM;
 * au_arena_guard(arena, &edge);` */
void au_arena_guard(AuArena *arena, jmp_buf *edge);

/* Zeroed, aligned to 16 bytes, never NULL. */
void *au_alloc(AuArena *arena, size_t bytes);
char *au_strndup(AuArena *arena, const char *text, size_t length);
char *au_format(AuArena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *au_vformat(AuArena *arena, const char *format, va_list arguments);

#define AU_NEW(arena, type)              ((type *)au_alloc((arena), sizeof(type)))
#define AU_NEW_ARRAY(arena, type, count) ((type *)au_alloc((arena), sizeof(type) * (size_t)(count)))

/* Room for one more item, not cleared, in a growing array: items = au_grow(arena, items, count, &capacity,
 * sizeof *items). */
void *au_grow(AuArena *arena, void *items, uint32_t count, uint32_t *capacity, size_t item_bytes);

/* Appends to a growing array given as three lvalues. */
#define AU_PUSH(arena, items, count, capacity, item)                                               \
    ((items) = au_grow((arena), (items), (count), &(capacity), sizeof *(items)),                   \
     (items)[(count)++] = (item))

/* Names: equal texts are one pointer, so that names compare with ==. Lives as long as its arena. */
typedef struct AuNames AuNames;
AuNames *au_names_new(AuArena *arena);
const char *au_name(AuNames *names, const char *text);
const char *au_name_n(AuNames *names, const char *text, size_t length);

#endif
