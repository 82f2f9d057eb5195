/* nameset.h - maps of interned names: what a scope declares, and sets of names.
 * Open addressing over pointers; a map never forgets, but an entry can be taken back in reverse order of adding (scopes). */
#ifndef AU_FRONT_NAMESET_H
#define AU_FRONT_NAMESET_H

#include "arena.h"

typedef struct AuNameSlot {
    const char *name; /* interned; NULL: free */
    void *value;      /* NULL: taken back, or a plain set */
} AuNameSlot;

typedef struct AuNameSet {
    AuArena *arena;
    AuNameSlot *slots;
    uint32_t count, size; /* size is a power of two */
} AuNameSet;

AuNameSet *nameset_new(AuArena *arena);
/* The value of a name, or NULL. */
void *nameset_get(const AuNameSet *set, const char *name);
bool nameset_has(const AuNameSet *set, const char *name); /* was ever added */
/* Sets the value of a name and returns the one it had. */
void *nameset_put(AuNameSet *set, const char *name, void *value);

#endif
