/* nameset.c - see nameset.h. */
#include "nameset.h"

enum { FIRST_SIZE = 8 };

AuNameSet *nameset_new(AuArena *arena)
{
    AuNameSet *set = AU_NEW(arena, AuNameSet);
    *set = (AuNameSet){arena, AU_NEW_ARRAY(arena, AuNameSlot, FIRST_SIZE), 0, FIRST_SIZE};
    return set;
}

/* The slot of the name, or the free one where it belongs. */
static AuNameSlot *slot_of(AuNameSlot *slots, uint32_t size, const char *name)
{
    const uint64_t mixed = ((uint64_t)(uintptr_t)name >> 4) * 0x9E3779B97F4A7C15u;
    uint32_t i = (uint32_t)(mixed >> 32);
    while (slots[i & (size - 1)].name && slots[i & (size - 1)].name != name) i++;
    return &slots[i & (size - 1)];
}

static void enlarge(AuNameSet *set)
{
    const uint32_t size = set->size * 2;
    AuNameSlot *slots = AU_NEW_ARRAY(set->arena, AuNameSlot, size);
    for (uint32_t i = 0; i < set->size; i++)
        if (set->slots[i].name) *slot_of(slots, size, set->slots[i].name) = set->slots[i];
    set->slots = slots;
    set->size = size;
}

void *nameset_get(const AuNameSet *set, const char *name)
{
    return slot_of(set->slots, set->size, name)->value;
}

bool nameset_has(const AuNameSet *set, const char *name)
{
    return slot_of(set->slots, set->size, name)->name != NULL;
}

void *nameset_put(AuNameSet *set, const char *name, void *value)
{
    if (set->count * 2 >= set->size) enlarge(set);
    AuNameSlot *slot = slot_of(set->slots, set->size, name);
    void *before = slot->value;
    if (!slot->name) set->count++;
    *slot = (AuNameSlot){name, value};
    return before;
}
