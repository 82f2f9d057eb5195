/* caps.c - the tables of caps.def, and questions about layouts. Places are small integer arrays, compared element by element;
 * no algebra is needed to ask whether two layouts agree. */
#include "caps.h"

#include <stdlib.h>
#include <string.h>

const char *const tile_use_names[3] = {"A", "B", "C"};

const AuTileElemInfo *tile_elem(AuTileElem elem)
{
    enum { IS_FLOAT = 1, MEMORY_ONLY = 2 };
    // clang-format off
    static const AuTileElemInfo elems[] = {
#define ELEM(NAME, text, bytes, flags) {text, bytes, (flags) & IS_FLOAT, ((flags) & MEMORY_ONLY) != 0},
#include "caps.def"
    };
    // clang-format on
    return &elems[elem];
}

const char *tile_executor_name(AuTileExecutor executor)
{
    // clang-format off
    static const char *const names[] = {
#define EXECUTOR(NAME, text, warps) text,
#include "caps.def"
    };
    // clang-format on
    return names[executor];
}

/* ---- layouts */

static bool unit_of(const char **text, AuTileUnit *unit)
{
    static const struct {
        const char *name;
        AuTileUnit unit;
    } units[] = {{"reg", TILE_UNIT_REG}, {"lane", TILE_UNIT_LANE}, {"warp", TILE_UNIT_WARP}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].name);
        if (strncmp(*text, units[i].name, n) != 0) continue;
        *text += n;
        *unit = units[i].unit;
        return true;
    }
    return false;
}

/* The number after `mark`, or `missing` if there is no such mark. */
static int32_t number_after(const char **text, char mark, int32_t missing)
{
    if (**text != mark) return missing;
    char *end;
    const long value = strtol(*text + 1, &end, 10);
    *text = end;
    return value > 0 && value <= TILE_WARP ? (int32_t)value : -1;
}

bool tile_digits(const char *text, AuTileDigits *out)
{
    *out = (AuTileDigits){0};
    while (*text) {
        AuTileDigit d = {0};
        if (out->count == TILE_MAX_DIGITS || !unit_of(&text, &d.unit)) return false;
        d.size = number_after(&text, ':', 0);
        d.stride = number_after(&text, '@', 1);
        if (d.size < 0 || d.stride < 0) return false;
        out->at[out->count++] = d;
        while (*text == ' ') text++;
    }
    return true;
}

/* Cuts the digits to the extent; false if they do not divide it. */
static bool cut_digits(const AuTileDigits *digits, int32_t extent, AuTileDigits *out)
{
    int32_t rest = extent;
    *out = (AuTileDigits){0};
    for (uint32_t i = 0; i < digits->count && rest > 1; i++) {
        AuTileDigit d = digits->at[i];
        if (d.size == 0 || d.size > rest) d.size = rest;
        if (rest % d.size) return false;
        rest /= d.size;
        if (d.size > 1) out->at[out->count++] = d;
    }
    if (rest == 1) return true;
    if (out->count == TILE_MAX_DIGITS) return false;
    out->at[out->count++] = (AuTileDigit){TILE_UNIT_REG, rest, 1};
    return true;
}

static int32_t place_of(const AuTileDigits *digits, int32_t index)
{
    int32_t place = 0;
    for (uint32_t i = 0; i < digits->count; i++) {
        const AuTileDigit d = digits->at[i];
        const int32_t unit = d.unit == TILE_UNIT_WARP ? TILE_WARP : d.unit == TILE_UNIT_LANE;
        place += index % d.size * d.stride * unit;
        index /= d.size;
    }
    return place;
}

const AuTilePlaces *tile_places(AuArena *arena, const AuTileDigits *digits, int32_t extent)
{
    AuTileDigits cut;
    if (extent < 1 || !cut_digits(digits, extent, &cut)) return NULL;
    AuTilePlaces *places = AU_NEW(arena, AuTilePlaces);
    int32_t *place = AU_NEW_ARRAY(arena, int32_t, extent);
    for (int32_t i = 0; i < extent; i++) place[i] = place_of(&cut, i);
    *places = (AuTilePlaces){cut, extent, 1, place};
    for (uint32_t i = 0; i < cut.count; i++)
        if (cut.at[i].unit != TILE_UNIT_REG) places->lanes *= cut.at[i].size;
    return places;
}

bool tile_same_places(const AuTilePlaces *a, const AuTilePlaces *b)
{
    if (a == b) return true;
    if (!a || !b || a->extent != b->extent) return false;
    return memcmp(a->place, b->place, sizeof *a->place * (size_t)a->extent) == 0;
}

int32_t tile_axis_registers(const AuTilePlaces *places) { return places->extent / places->lanes; }

int32_t tile_axis_offset(const AuTilePlaces *places, int32_t reg)
{
    int32_t weight = 1, index = 0;
    for (uint32_t i = 0; i < places->digits.count; i++) {
        const AuTileDigit d = places->digits.at[i];
        if (d.unit == TILE_UNIT_REG) {
            index += reg % d.size * weight;
            reg /= d.size;
        }
        weight *= d.size;
    }
    return index;
}

int32_t tile_axis_base(const AuTilePlaces *places, int32_t lane, int32_t warp)
{
    int32_t weight = 1, index = 0;
    for (uint32_t i = 0; i < places->digits.count; i++) {
        const AuTileDigit d = places->digits.at[i];
        if (d.unit == TILE_UNIT_LANE) index += lane / d.stride % d.size * weight;
        if (d.unit == TILE_UNIT_WARP) index += warp / d.stride % d.size * weight;
        weight *= d.size;
    }
    return index;
}

/* ---- atoms */

// clang-format off
#define SET(NAME) NAME = 1u << TILE_ON_##NAME
enum { SET(THREAD), SET(WARP), SET(WARPGROUP), SET(BLOCK), VECTOR = THREAD | WARP };
#undef SET
enum { A = 1 << TILE_A, B = 1 << TILE_B, C = 1 << TILE_C };
enum { HALF = 1 << TILE_F16, BF = 1 << TILE_BF16, SINGLE = 1 << TILE_F32, HALVES = HALF | BF, ANY = HALVES | SINGLE };
enum { ASYNC = 1, OPAQUE = 2, TENSOR = 4, ROUNDS = 8, TURNS = 16 };

static const AuTileAtom atoms[] = {
#define ATOM(name, lanes, m, n, k, ar, ac, br, bc, cr, cc, on, memory, native, elems, flags, note) \
    {#name, lanes, m, n, k, {ar, br, cr}, {ac, bc, cc}, on, memory, native, elems, \
     ((flags) & ASYNC) != 0, ((flags) & OPAQUE) != 0, ((flags) & TENSOR) != 0, ((flags) & TURNS) != 0, ((flags) & ROUNDS) != 0, note},
#include "caps.def"
};
// clang-format on

const AuTileAtom *tile_atom_at(uint32_t n)
{
    return n < sizeof atoms / sizeof *atoms ? &atoms[n] : NULL;
}

const AuTileAtom *tile_atom(const char *name)
{
    for (uint32_t n = 0; tile_atom_at(n); n++)
        if (strcmp(atoms[n].name, name) == 0) return &atoms[n];
    return NULL;
}

int32_t tile_atom_extent(const AuTileAtom *atom, AuTileUse use, int axis)
{
    if (axis == 0) return use == TILE_B ? atom->k : atom->m;
    return use == TILE_A ? atom->k : atom->n;
}

const AuTilePlaces *tile_atom_places(AuArena *arena, const AuTileAtom *atom, AuTileUse use,
                                     int axis, int32_t extent)
{
    AuTileDigits digits;
    if (!tile_digits(axis == 0 ? atom->rows[use] : atom->cols[use], &digits)) return NULL;
    return tile_places(arena, &digits, extent);
}

const AuTilePlaces *tile_turned_places(AuArena *arena, const AuTileAtom *atom, AuTileUse use,
                                       int axis, int32_t extent)
{
    AuTileDigits own, other;
    if (!tile_digits(axis == 0 ? atom->rows[use] : atom->cols[use], &own) ||
        !tile_digits(axis == 0 ? atom->cols[use] : atom->rows[use], &other) || !own.count ||
        !other.count)
        return NULL;
    own.at[0] = other.at[0];
    return tile_places(arena, &own, extent);
}

static bool cut_text(const char *text, int32_t extent, AuTileDigits *out)
{
    AuTileDigits digits;
    return tile_digits(text, &digits) && cut_digits(&digits, extent, out);
}

/* Are the pairs (a[i], b[i]) and those of the instruction the same, in any order? */
static bool same_pairs(const AuTilePlaces *a, const AuTilePlaces *b, const AuTileDigits *hw_a,
                       const AuTileDigits *hw_b, int32_t extent)
{
    for (int32_t i = 0; i < extent; i++) {
        int32_t excess = 0;
        for (int32_t j = 0; j < extent; j++) {
            excess += a->place[j] == a->place[i] && b->place[j] == b->place[i];
            excess -= place_of(hw_a, j) == a->place[i] && place_of(hw_b, j) == b->place[i];
        }
        if (excess) return false;
    }
    return true;
}

static bool in_order(const AuTilePlaces *places, const AuTileDigits *hw, int32_t extent)
{
    for (int32_t i = 0; i < extent; i++)
        if (places->place[i] != place_of(hw, i)) return false;
    return true;
}

bool tile_contraction_matches(const AuTileAtom *atom, const AuTilePlaces *a, const AuTilePlaces *b,
                              int32_t extent)
{
    AuTileDigits hw_a, hw_b;
    if (!cut_text(atom->cols[TILE_A], extent, &hw_a) ||
        !cut_text(atom->rows[TILE_B], extent, &hw_b))
        return false;
    if (a && b) return same_pairs(a, b, &hw_a, &hw_b, extent);
    const AuTilePlaces *one = a ? a : b;
    if (!one || in_order(one, a ? &hw_a : &hw_b, extent)) return true;
    const bool native = atom->native >> (a ? TILE_B : TILE_A) & 1;
    return !native && same_pairs(one, one, &hw_a, &hw_b, extent);
}

AuTileCost tile_conversion_cost(const AuTilePlaces *const *from, const AuTilePlaces *const *to,
                                uint32_t axes)
{
    AuTileCost cost = TILE_COST_NONE;
    for (uint32_t n = 0; n < axes; n++)
        for (int32_t i = 0; i < from[n]->extent; i++) {
            const int32_t a = from[n]->place[i], b = to[n]->place[i];
            if (a / TILE_WARP != b / TILE_WARP) return TILE_COST_SHARED;
            if (a != b) cost = TILE_COST_SHUFFLE;
        }
    return cost;
}

/* ---- targets */

// clang-format off
enum { CPU = THREAD, GPU = WARP | BLOCK, GROUPS = WARPGROUP };
enum { COPY = TILE_ASYNC_COPY, REDUCE = TILE_ASYNC_REDUCE_ADD, PRODUCT = TILE_ASYNC_PRODUCT };
enum { RINGS = 1, STACK = 2, SUMS = 4 };

static const AuTileCaps targets[] = {
#define TARGET(name, lanes, executors, atoms, async, flags, shared_kb, tensor_kb, threads, registers, source) \
    {#name, lanes, executors, atoms, async, ((flags) & RINGS) != 0, ((flags) & STACK) != 0, ((flags) & SUMS) ? 4 : 1, \
     (shared_kb) << 10, (tensor_kb) << 10, threads, registers, source},
#include "caps.def"
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
        if (strlen(atoms[n].name) == length && memcmp(atoms[n].name, begin, length) == 0)
            return &atoms[n];
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
