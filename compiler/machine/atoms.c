/* atoms.c - the tables of atoms.def, and which operands an instruction takes as they lie. */
#include "atoms.h"

#include <string.h>

const char *const tile_use_names[3] = {"A", "B", "C"};

const AuTileElemInfo *tile_elem(AuTileElem elem)
{
    enum { IS_FLOAT = 1, MEMORY_ONLY = 2, STORED = 7 };
    // clang-format off
    static const AuTileElemInfo elems[] = {
#define ELEM(NAME, text, bytes, flags) {text, bytes, (flags) & IS_FLOAT, ((flags) & MEMORY_ONLY) != 0, (flags) == STORED},
#include "atoms.def"
    };
    // clang-format on
    return &elems[elem];
}

const char *tile_executor_name(AuTileExecutor executor)
{
    // clang-format off
    static const char *const names[] = {
#define EXECUTOR(NAME, text, warps) text,
#include "atoms.def"
    };
    // clang-format on
    return names[executor];
}

/* ---- atoms */

// clang-format off
#define SET(NAME) NAME = 1u << TILE_ON_##NAME
enum { SET(THREAD), SET(WARP), SET(WARPGROUP), SET(BLOCK), VECTOR = THREAD | WARP };
#undef SET
enum { A = 1 << TILE_A, B = 1 << TILE_B, C = 1 << TILE_C };
enum { HALF = 1 << TILE_F16, BF = 1 << TILE_BF16, SINGLE = 1 << TILE_F32, HALVES = HALF | BF, ANY = HALVES | SINGLE };
enum { ASYNC = 1, OPAQUE = 2, TENSOR = 4, ROUNDS = 8, TURNS = 16, BY_PLACE = 32, JOINS = 64, EXCHANGES = 128, MULTIPLES = 256, OF_BLOCK = 512 };

static const AuTileAtom atoms[] = {
#define ATOM(name, lanes, m, n, k, ar, ac, br, bc, cr, cc, on, memory, native, elems, flags, note) \
    {#name, lanes, m, n, k, {ar, br, cr}, {ac, bc, cc}, on, memory, native, elems, \
     ((flags) & ASYNC) != 0, ((flags) & OPAQUE) != 0, ((flags) & BY_PLACE) != 0, ((flags) & JOINS) != 0, ((flags) & MULTIPLES) != 0, ((flags) & OF_BLOCK) != 0, ((flags) & TENSOR) != 0, ((flags) & TURNS) != 0, ((flags) & ROUNDS) != 0, ((flags) & EXCHANGES) != 0, note},
#include "atoms.def"
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

bool tile_same_instruction(const AuTileAtom *a, const AuTileAtom *b)
{
    bool same = a->lanes == b->lanes && a->m == b->m && a->n == b->n && a->k == b->k &&
                a->rounds == b->rounds;
    for (int use = 0; use < 3; use++)
        same = same && strcmp(a->rows[use], b->rows[use]) == 0 &&
               strcmp(a->cols[use], b->cols[use]) == 0;
    return same;
}

int32_t tile_atom_extent(const AuTileAtom *atom, AuTileUse use, int axis)
{
    if (axis == 0) return use == TILE_B ? atom->k : atom->m;
    return use == TILE_A ? atom->k : atom->n;
}

int32_t tile_place_bytes(const AuTileAtom *atom)
{
    if (!atom->by_place || atom->joins) return 0;
    return (atom->m * atom->n + atom->m) * 4 + atom->m * atom->k * 2;
}

const AuTilePlaces *tile_atom_places(AuArena *arena, const AuTileAtom *atom, AuTileUse use,
                                     int axis, int32_t extent)
{
    AuTileDigits digits;
    if (!tile_digits(axis == 0 ? atom->rows[use] : atom->cols[use], &digits)) return NULL;
    const AuTilePlaces *places = tile_places(arena, &digits, extent);
    if (!places || !atom->by_place) return places;
    AuTilePlaces *marked = AU_NEW(arena, AuTilePlaces);
    *marked = *places;
    marked->by_place = axis == 0 ? tile_atom_extent(atom, use, 0) : -tile_atom_extent(atom, use, 1);
    return marked;
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
    return tile_digits(text, &digits) && tile_cut_digits(&digits, extent, out);
}

/* Are the pairs (a[i], b[i]) and those of the instruction the same, in any order? */
static bool same_pairs(const AuTilePlaces *a, const AuTilePlaces *b, const AuTileDigits *hw_a,
                       const AuTileDigits *hw_b, int32_t extent)
{
    for (int32_t i = 0; i < extent; i++) {
        int32_t excess = 0;
        for (int32_t j = 0; j < extent; j++) {
            excess += a->place[j] == a->place[i] && b->place[j] == b->place[i];
            excess -=
                tile_place_of(hw_a, j) == a->place[i] && tile_place_of(hw_b, j) == b->place[i];
        }
        if (excess) return false;
    }
    return true;
}

static bool in_order(const AuTilePlaces *places, const AuTileDigits *hw, int32_t extent)
{
    for (int32_t i = 0; i < extent; i++)
        if (places->place[i] != tile_place_of(hw, i)) return false;
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

bool tile_free_matches(const AuTileAtom *atom, AuTileUse use, const AuTilePlaces *operand,
                       const AuTilePlaces *sums, int32_t extent)
{
    const bool rows = use == TILE_A;
    AuTileDigits of_operand, of_sums;
    return cut_text(rows ? atom->rows[TILE_A] : atom->cols[TILE_B], extent, &of_operand) &&
           cut_text(rows ? atom->rows[TILE_C] : atom->cols[TILE_C], extent, &of_sums) &&
           same_pairs(operand, sums, &of_operand, &of_sums, extent);
}
