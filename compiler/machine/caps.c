/* caps.c - the table of caps.def, and which of a target's atoms serves. */
#include "caps.h"

#include <string.h>

// clang-format off
enum { CPU = 1 << TILE_ON_THREAD, GPU = 1 << TILE_ON_WARP | 1 << TILE_ON_BLOCK, GROUPS = 1 << TILE_ON_WARPGROUP };
enum { SMALL = 1 << TILE_E4M3 | 1 << TILE_E5M2 };
enum { MATRIX = TILE_LOADS_MATRIX, TURNED = TILE_LOADS_TURNED, TURNED_FAR = TILE_LOADS_TURNED_FAR, BLOCK = TILE_LOADS_BLOCK, OWN = TILE_LOADS_OWN, TENSOR_LOADS = TILE_LOADS_TENSOR };
enum { LANES = TILE_COPIES_LANES, BULK = TILE_COPIES_BULK, TENSOR = TILE_COPIES_TENSOR, DIRECT = TILE_COPIES_DIRECT };
enum { ANY = TILE_EXCHANGE_ANY, VOTE = TILE_EXCHANGE_VOTE };
#define KB(n) ((n) << 10)

static const AuTileCaps targets[] = {
#define TARGET(name_, source_, ...) {.name = #name_, .source = source_, __VA_ARGS__},
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

int32_t tile_most_words(const AuTileCaps *caps)
{
    return caps->most_words ? caps->most_words : caps->private_words;
}

int32_t tile_share(const AuTileCaps *caps, int32_t part)
{
    return (caps->registers + 1) / 64 * part;
}

int32_t tile_exchange_words(const AuTileCaps *caps)
{
    enum { MOST = 1024 };
    const int32_t rows = caps->lanes < MOST / caps->lanes ? caps->lanes : MOST / caps->lanes;
    if (caps->exchange & TILE_EXCHANGE_ANY || caps->lanes == 1) return 0;
    return rows * (caps->lanes + 1);
}

bool tile_takes_tensors(const AuTileCaps *caps)
{
    return caps->loads & (TILE_LOADS_BLOCK | TILE_LOADS_OWN | TILE_LOADS_TENSOR);
}

bool tile_takes_surfaces(const AuTileCaps *caps)
{
    return caps->loads & (TILE_LOADS_BLOCK | TILE_LOADS_TENSOR);
}

const AuTileCaps *tile_rates(const AuTileCaps *caps)
{
    return caps->weighed_as ? tile_caps(caps->weighed_as) : caps;
}

bool tile_has_atom(const AuTileCaps *caps, const AuTileAtom *atom)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a == atom) return true;
    return false;
}

bool tile_has_products(const AuTileCaps *caps, AuTileElem operands)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->elems >> operands & 1 && a->k > 1 && !a->rounds) return true;
    return false;
}

const AuTileAtom *tile_best_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->elems >> operands & 1 && a->on >> on & 1) return a;
    return NULL;
}

const AuTileAtom *tile_atom_of_widths(const AuTileCaps *caps, AuTileElem operands,
                                      AuTileExecutor on, int32_t d, int32_t e)
{
    const AuTileAtom *best = tile_best_atom(caps, operands, on);
    const char *list = caps->atoms;
    if (!best || best->k == 1) return best; /* what is exact stays so */
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->elems >> operands & 1 && a->on >> on & 1 && a->rounds == best->rounds && a->m > 1 &&
            d % a->n == 0 && e % a->n == 0)
            return a;
    return best;
}

const AuTileAtom *tile_narrow_atom(const AuTileCaps *caps, AuTileElem operands, AuTileExecutor on)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->elems >> operands & 1 && a->on >> on & 1 && a->m > 1 && a->m < a->n && !a->opaque)
            return a;
    return NULL;
}

const AuTileAtom *tile_rounding_atom(const AuTileCaps *caps, AuTileExecutor on)
{
    const char *list = caps->atoms;
    for (const AuTileAtom *a; (a = next_atom(&list));)
        if (a->rounds && a->on >> on & 1) return a;
    return NULL;
}
