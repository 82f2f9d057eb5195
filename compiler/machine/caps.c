/* caps.c - the table of caps.def, and which of a target's atoms serves. */
#include "caps.h"

#include <string.h>

// clang-format off
enum { CPU = 1 << TILE_ON_THREAD, GPU = 1 << TILE_ON_WARP | 1 << TILE_ON_BLOCK, GROUPS = 1 << TILE_ON_WARPGROUP };
enum { COPY = TILE_ASYNC_COPY, REDUCE = TILE_ASYNC_REDUCE_ADD, PRODUCT = TILE_ASYNC_PRODUCT };
enum { RINGS = 1, STACK = 2, SUMS = 4, LDMATRIX = 8, NANS = 16 };

static const AuTileCaps targets[] = {
#define TARGET(name, lanes, executors, atoms, async, flags, shared_kb, tensor_kb, threads, registers, source) \
    {#name, lanes, executors, atoms, async, ((flags) & RINGS) != 0, ((flags) & STACK) != 0, ((flags) & LDMATRIX) != 0, ((flags) & NANS) != 0, ((flags) & SUMS) ? 4 : 1, \
     (shared_kb) << 10, (tensor_kb) << 10, threads, registers, source},
#include "caps.def"
#undef TARGET
};
// clang-format on

const AuTileCaps *tile_caps_at(uint32_t n)
{
    return n < sizeof targets / sizeof *targets ? &targets[n] : NULL;
}

const AuTileCaps *tile_caps(const char *name)
{
    for (uint32_t n = 0; tile_caps_at(n); n++)
        if (strcmp(targets[n].name, name) == 0) return &targets[n];
    return NULL;
}

/* Calls for each name of the target's list in turn; NULL after the last. */
static const AuTileAtom *next_atom(const char **list)
{
    const char *begin = *list;
    if (!*begin) return NULL;
    const size_t length = strcspn(begin, " ");
    *list = begin + length + (begin[length] == ' ');
    for (uint32_t n = 0; tile_atom_at(n); n++)
        if (strlen(tile_atom_at(n)->name) == length &&
            memcmp(tile_atom_at(n)->name, begin, length) == 0)
            return tile_atom_at(n);
    return NULL;
}

bool tile_has_atom(const AuTileCaps *caps, const AuTileAtom *atom)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a == atom) return true;
    return false;
}

const AuTileAtom *tile_best_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->elems >> operands & 1 && a->on >> on & 1) return a;
    return NULL;
}

const AuTileAtom *tile_rounding_atom(const AuTileCaps *caps, AuTileExecutor on)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->rounds && a->on >> on & 1) return a;
    return NULL;
}
