/* arena.c - chunks of growing size from one allocator; names in an open-addressing table. */
#include "arena.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20, ALIGNMENT = 16 };

typedef struct Chunk {
    _Alignas(ALIGNMENT) struct Chunk *before; /* what is allocated begins behind it, aligned too */
    size_t bytes;                             /* of the whole chunk, header included */
} Chunk;

struct AuArena {
    AuAllocator allocator;
    Chunk *chunk;
    char *at, *end;
    size_t next_chunk;
    jmp_buf *edge;
};

static void *resize_malloc(void *user, void *memory, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes) return realloc(memory, new_bytes);
    free(memory);
    return NULL;
}

AuArena *au_arena_new(const AuAllocator *allocator)
{
    const AuAllocator plain = {resize_malloc, NULL};
    const AuAllocator a = allocator ? *allocator : plain;
    AuArena *arena = a.resize(a.user, NULL, 0, sizeof *arena);
    if (!arena) return NULL;
    *arena = (AuArena){.allocator = a, .next_chunk = FIRST_CHUNK};
    return arena;
}

void au_arena_free(AuArena *arena)
{
    if (!arena) return;
    const AuAllocator a = arena->allocator;
    for (Chunk *c = arena->chunk, *before; c; c = before) {
        before = c->before;
        a.resize(a.user, c, c->bytes, 0);
    }
    a.resize(a.user, arena, sizeof *arena, 0);
}

void au_arena_guard(AuArena *arena, jmp_buf *edge) { arena->edge = edge; }

/* Out of memory. Without an edge there is nowhere to report to. */
static _Noreturn void give_up(AuArena *arena)
{
    if (arena->edge) longjmp(*arena->edge, 1);
    abort();
}

AuArena *au_arena_beside(AuArena *arena)
{
    AuArena *other = au_arena_new(&arena->allocator);
    if (!other) give_up(arena);
    other->edge = arena->edge;
    return other;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

static Chunk *new_chunk(AuArena *arena, size_t bytes)
{
    Chunk *c = arena->allocator.resize(arena->allocator.user, NULL, 0, bytes);
    if (!c) give_up(arena);
    c->bytes = bytes;
    return c;
}

/* What is large has a chunk of its own, behind the one that is being filled: the rest of that is not lost. */
static void *alone(AuArena *arena, size_t bytes)
{
    Chunk *c = new_chunk(arena, sizeof(Chunk) + bytes);
    c->before = arena->chunk->before;
    arena->chunk->before = c;
    return c + 1;
}

static void add_chunk(AuArena *arena, size_t least)
{
    Chunk *c =
        new_chunk(arena, sizeof(Chunk) + (least > arena->next_chunk ? least : arena->next_chunk));
    c->before = arena->chunk;
    arena->chunk = c;
    arena->at = (char *)(c + 1);
    arena->end = (char *)c + c->bytes;
    if (arena->next_chunk < LARGEST_CHUNK) arena->next_chunk *= 2;
}

/* Whose bytes may be anything. */
static void *room(AuArena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) give_up(arena);
    bytes = round_up(bytes ? bytes : 1);
    if ((size_t)(arena->end - arena->at) < bytes) {
        if (arena->chunk && bytes > arena->next_chunk / 4) return alone(arena, bytes);
        add_chunk(arena, bytes);
    }
    void *memory = arena->at;
    arena->at += bytes;
    return memory;
}

void *au_alloc(AuArena *arena, size_t bytes) { return memset(room(arena, bytes), 0, bytes); }

char *au_strndup(AuArena *arena, const char *text, size_t length)
{
    char *copy = au_alloc(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *au_vformat(AuArena *arena, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *text = au_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1);
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *au_format(AuArena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = au_vformat(arena, format, arguments);
    va_end(arguments);
    return text;
}

void *au_grow(AuArena *arena, void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) return items;
    if (*capacity > UINT32_MAX / 2) give_up(arena);
    const uint32_t larger = *capacity ? *capacity * 2 : 8;
    void *moved = room(arena, larger * item_bytes); /* what is not used is not touched, either */
    if (count) memcpy(moved, items, count * item_bytes);
    *capacity = larger;
    return moved;
}

struct AuNames {
    AuArena *arena;
    const char **slots;
    uint32_t count, size; /* size is a power of two */
};

AuNames *au_names_new(AuArena *arena)
{
    AuNames *names = AU_NEW(arena, AuNames);
    *names = (AuNames){arena, AU_NEW_ARRAY(arena, const char *, 64), 0, 64};
    return names;
}

/* FNV-1a. */
static uint32_t hash(const char *text, size_t length)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

/* The slot that holds the name, or the empty one where it belongs. */
static const char **slot_of(const char **slots, uint32_t size, const char *text, size_t length)
{
    for (uint32_t i = hash(text, length);; i++) {
        const char **slot = &slots[i & (size - 1)];
        if (!*slot || (strncmp(*slot, text, length) == 0 && (*slot)[length] == 0)) return slot;
    }
}

static void enlarge(AuNames *names)
{
    const uint32_t size = names->size * 2;
    const char **slots = AU_NEW_ARRAY(names->arena, const char *, size);
    for (uint32_t i = 0; i < names->size; i++) {
        const char *name = names->slots[i];
        if (name) *slot_of(slots, size, name, strlen(name)) = name;
    }
    names->slots = slots;
    names->size = size;
}

const char *au_name_n(AuNames *names, const char *text, size_t length)
{
    assert(memchr(text, 0, length) == NULL);
    if (names->count * 2 >= names->size) enlarge(names);
    const char **slot = slot_of(names->slots, names->size, text, length);
    if (*slot) return *slot;
    names->count++;
    return *slot = au_strndup(names->arena, text, length);
}

const char *au_name(AuNames *names, const char *text)
{
    return au_name_n(names, text, strlen(text));
}
