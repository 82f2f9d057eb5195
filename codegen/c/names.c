/* names.c - identifiers of a printed kernel: what the script says where C allows it, made unique by a number at the end.
 * The number counts uses of the same word, so that a change of a kernel renames few variables of its text. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

typedef struct Taken {
    const char *name; /* interned; NULL: free entry */
    uint32_t count;   /* how many identifiers were asked for with it */
} Taken;

/* A count as it was, for the end of the region. */
typedef struct Before {
    const char *name;
    uint32_t count;
} Before;

struct AuCNames {
    AuArena *arena;
    AuNames *interned;
    Taken *entries;
    uint32_t used, capacity; /* a power of two */
    uint32_t unnamed;
    Before *log;
    uint32_t logged, log_capacity;
};

static Taken *find(AuCNames *names, const char *name)
{
    const char *key = au_name(names->interned, name);
    uint32_t at = (uint32_t)((uintptr_t)key >> 4) * 2654435761u;
    for (;; at++) {
        Taken *entry = &names->entries[at & (names->capacity - 1)];
        if (entry->name == key) return entry;
        if (!entry->name) {
            entry->name = key;
            names->used++;
            return entry;
        }
    }
}

static void make_room(AuCNames *names)
{
    if (names->used * 2 < names->capacity) return;
    const Taken *old = names->entries;
    const uint32_t old_capacity = names->capacity;
    names->capacity *= 2;
    names->used = 0;
    names->entries = AU_NEW_ARRAY(names->arena, Taken, names->capacity);
    for (uint32_t n = 0; n < old_capacity; n++)
        if (old[n].name) find(names, old[n].name)->count = old[n].count;
}

static uint32_t *count_of(AuCNames *names, const char *name)
{
    make_room(names);
    return &find(names, name)->count;
}

AuCNames *cprint_names_new(AuArena *arena, const AuCDialect *dialect)
{
    AuCNames *names = AU_NEW(arena, AuCNames);
    names->arena = arena;
    names->interned = au_names_new(arena);
    names->capacity = 512;
    names->entries = AU_NEW_ARRAY(arena, Taken, names->capacity);
    for (const char *const *word = dialect->reserved; *word; word++) *count_of(names, *word) = 1;
    for (uint32_t n = 0; n < dialect->helper_count; n++) {
        const char *helper = dialect->helpers[n].name;
        *count_of(names, helper) = 1;
        for (uint32_t width = 2; width <= 16; width *= 2)
            *count_of(names, au_format(arena, "%s_%u", helper, width)) = 1;
    }
    return names;
}

/* float, float4, uchar16: names of types, with or without width. */
static bool is_type_name(const char *name)
{
    static const char *const scalars[] = {"char", "uchar", "short", "ushort", "int",  "uint",
                                          "long", "ulong", "float", "double", "half", "bool"};
    for (uint32_t n = 0; n < sizeof scalars / sizeof *scalars; n++) {
        const size_t length = strlen(scalars[n]);
        if (strncmp(name, scalars[n], length) != 0) continue;
        if (strspn(name + length, "0123456789") == strlen(name + length)) return true;
    }
    return false;
}

static bool is_reserved(const AuCDialect *dialect, const char *name)
{
    for (const char *const *word = dialect->reserved; *word; word++)
        if (strcmp(*word, name) == 0) return true;
    for (uint32_t n = 0; n < dialect->helper_count; n++)
        if (strcmp(dialect->helpers[n].name, name) == 0) return true;
    return is_type_name(name);
}

bool cprint_is_identifier(const AuCDialect *dialect, const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') return false;
    return !is_reserved(dialect, name);
}

/* Letters, digits and single underscores, beginning with a letter. */
static char *spell(AuArena *arena, const char *wanted)
{
    char *name = au_alloc(arena, strlen(wanted) + 2), *to = name;
    if (isdigit((unsigned char)*wanted)) *to++ = 't';
    for (; *wanted; wanted++) {
        const bool fits = isalnum((unsigned char)*wanted);
        if (fits)
            *to++ = *wanted;
        else if (to > name && to[-1] != '_')
            *to++ = '_';
    }
    while (to > name && to[-1] == '_') *--to = 0;
    return name;
}

static void take(AuCNames *names, const char *name, uint32_t count)
{
    const Before before = {name, *count_of(names, name)};
    AU_PUSH(names->arena, names->log, names->logged, names->log_capacity, before);
    *count_of(names, name) = count;
}

const char *cprint_name(AuCPrinter *p, const char *wanted)
{
    AuCNames *names = p->names;
    const char *base = wanted ? spell(p->arena, wanted) : "";
    const char *name = base;
    if (!*base) {
        do name = au_format(p->arena, "t%u", ++names->unnamed);
        while (*count_of(names, name));
        take(names, name, 1);
        return name;
    }
    uint32_t number = *count_of(names, base) + is_type_name(base);
    if (number == 0) {
        take(names, base, 1);
        return base;
    }
    do name = au_format(p->arena, "%s_%u", base, ++number);
    while (*count_of(names, name));
    take(names, base, number);
    take(names, name, 1);
    return name;
}

const char *cprint_counter(AuCPrinter *p)
{
    static const char *const usual[] = {"i", "j", "m", "n"};
    for (size_t n = 0; n < sizeof usual / sizeof *usual; n++)
        if (*count_of(p->names, usual[n]) == 0) return cprint_name(p, usual[n]);
    return cprint_name(p, "i");
}

/* The unnamed count is part of what is opened: the first entry of a region's log. */
uint32_t cprint_names_open(const AuCPrinter *p)
{
    AuCNames *names = p->names;
    AU_PUSH(names->arena, names->log, names->logged, names->log_capacity,
            ((Before){NULL, names->unnamed}));
    return names->logged - 1;
}

void cprint_names_close(AuCPrinter *p, uint32_t opened)
{
    AuCNames *names = p->names;
    while (names->logged > opened) {
        const Before before = names->log[--names->logged];
        if (before.name)
            *count_of(names, before.name) = before.count;
        else
            names->unnamed = before.count;
    }
}
