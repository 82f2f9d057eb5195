/* fragment.c - elements of a lane and where they lie in the matrix, from an atom's digits. */
#include "fragment.h"

typedef struct Axis {
    AuTileDigits digits; /* cut to the instruction's extent */
    uint8_t *steps;      /* rows or columns of the fragment */
} Axis;

static bool is_power(int32_t n) { return n > 0 && (n & (n - 1)) == 0; }

/* Bits of the registers' number that the digits [from, to) of an axis say. */
static void put_registers(AuFragment *f, const Axis *axis, uint32_t from, uint32_t to)
{
    int32_t weight = 1;
    for (uint32_t n = 0; n < to; n++) {
        const AuTileDigit *d = &axis->digits.at[n];
        for (int32_t step = 1; n >= from && d->unit == TILE_UNIT_REG && step < d->size; step *= 2)
            axis->steps[f->element_bits++] = (uint8_t)(step * weight);
        weight *= d->size;
    }
}

static void put_unit(const Axis *axis, AuTileUnit unit, uint32_t from)
{
    int32_t weight = 1;
    for (uint32_t n = 0; n < axis->digits.count; n++) {
        const AuTileDigit *d = &axis->digits.at[n];
        for (int32_t step = 1; d->unit == unit && step < d->size; step *= 2)
            axis->steps[from + (uint32_t)__builtin_ctz((unsigned)(step * d->stride))] =
                (uint8_t)(step * weight);
        weight *= d->size;
    }
}

/* Digits of an axis as the form has them, cut to the extent; false if they are none of lanes and registers, and of executors where
 * there is a group. */
static bool digits_of(const AuTileAtom *atom, AuTileUse use, int axis, bool turned, int32_t extent,
                      bool group, AuTileDigits *out)
{
    AuTileDigits own, other;
    if (!tile_digits(axis == 0 ? atom->rows[use] : atom->cols[use], &own) ||
        !tile_digits(axis == 0 ? atom->cols[use] : atom->rows[use], &other) || !own.count ||
        !other.count)
        return false;
    if (turned) own.at[0] = other.at[0];
    if (!tile_cut_digits(&own, extent, out)) return false;
    for (uint32_t n = 0; n < out->count; n++) {
        const AuTileDigit *d = &out->at[n];
        const bool rest = group && n + 1 == out->count && d->unit == TILE_UNIT_REG;
        if ((d->unit == TILE_UNIT_WARP && !group) || (!is_power(d->size) && !rest) ||
            !is_power(d->stride))
            return false;
    }
    return true;
}

static uint32_t executors(const Axis *axis)
{
    int32_t count = 1;
    for (uint32_t n = 0; n < axis->digits.count; n++)
        if (axis->digits.at[n].unit == TILE_UNIT_WARP) count *= axis->digits.at[n].size;
    return (uint32_t)count;
}

static bool fragment(const AuTileAtom *atom, AuTileUse use, bool turned, const int32_t extents[2],
                     bool group, AuFragment *out)
{
    *out = (AuFragment){.lane_bits = (uint8_t)__builtin_ctz((unsigned)atom->lanes)};
    Axis rows = {.steps = out->rows}, columns = {.steps = out->columns};
    if (!digits_of(atom, use, 0, turned, extents[0], group, &rows.digits) ||
        !digits_of(atom, use, 1, turned, extents[1], group, &columns.digits))
        return false;
    const Axis *fast = use == TILE_B ? &rows : &columns, *slow = use == TILE_B ? &columns : &rows;
    put_registers(out, fast, 0, 1);
    put_registers(out, slow, 0, slow->digits.count);
    put_registers(out, fast, 1, fast->digits.count);
    put_unit(&rows, TILE_UNIT_LANE, out->element_bits);
    put_unit(&columns, TILE_UNIT_LANE, out->element_bits);
    put_unit(&rows, TILE_UNIT_WARP, (uint32_t)out->element_bits + out->lane_bits);
    put_unit(&columns, TILE_UNIT_WARP, (uint32_t)out->element_bits + out->lane_bits);
    out->executor_bits = (uint8_t)__builtin_ctz(executors(&rows) * executors(&columns));
    return out->element_bits + out->lane_bits + out->executor_bits <= MACHINE_FRAGMENT_BITS;
}

bool machine_fragment(const AuTileAtom *atom, AuTileUse use, bool turned, AuFragment *out)
{
    const int32_t extents[2] = {tile_atom_extent(atom, use, 0), tile_atom_extent(atom, use, 1)};
    return fragment(atom, use, turned, extents, false, out);
}

bool machine_group_fragment(const AuTileAtom *atom, AuTileUse use, int32_t columns, AuFragment *out)
{
    const int32_t extents[2] = {tile_atom_extent(atom, use, 0), use == TILE_A ? atom->k : columns};
    return fragment(atom, use, false, extents, true, out);
}

void machine_fragment_at(const AuFragment *f, uint32_t lane, uint32_t element, uint32_t *row,
                         uint32_t *column)
{
    *row = *column = 0;
    for (uint32_t n = 0, bits = element | lane << f->element_bits; bits; n++, bits >>= 1)
        if (bits & 1) *row += f->rows[n], *column += f->columns[n];
}
