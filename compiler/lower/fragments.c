/* fragments.c - places of a fragment's elements: registers, lanes, warps (fragments.h). */
#include "fragments.h"

#include "internal.h"

/* ---- an axis */

AuAxisDigits lower_digits(const AuTilePlaces *places)
{
    AuAxisDigits out = {.count = places->digits.count};
    int32_t weight = 1, regs = 1;
    for (uint32_t n = 0; n < out.count; n++) {
        const AuTileDigit *d = &places->digits.at[n];
        const bool in_lane = d->unit == TILE_UNIT_REG;
        out.at[n] = (AuAxisDigit){d->unit, d->size, weight, in_lane ? regs : d->stride};
        weight *= d->size;
        if (in_lane) regs *= d->size;
    }
    return out;
}

int32_t lower_neighbours(const AuTilePlaces *places)
{
    const AuTileDigit *first = &places->digits.at[0];
    return places->digits.count && first->unit == TILE_UNIT_REG ? first->size : 1;
}

bool lower_in_registers_only(const AuTilePlaces *places)
{
    for (uint32_t n = 0; n < places->digits.count; n++)
        if (places->digits.at[n].unit != TILE_UNIT_REG && places->digits.at[n].size != 1)
            return false;
    return true;
}

bool lower_is_of_lane(const AuTileAxis *axis)
{
    return tile_axis_registers(axis->places) == axis->size;
}

int32_t lower_register_on(const AuTilePlaces *places, int32_t index)
{
    int32_t reg = 0;
    while (reg < tile_axis_registers(places) && tile_axis_offset(places, reg) != index) reg++;
    return reg;
}

bool lower_repeats(const AuTilePlaces *places, const AuTilePlaces *piece)
{
    if (!places || places->extent % piece->extent) return false;
    for (int32_t i = 0; i < places->extent; i++)
        if (places->place[i] != piece->place[i % piece->extent]) return false;
    return true;
}

/* What warps and, if asked for, lanes say of an index. */
static AuVal part_of(AuLower *l, const AuTilePlaces *places, bool lanes)
{
    AuKernel *k = l->k;
    const AuAxisDigits digits = lower_digits(places);
    AuVal sum = kernel_i32(k, 0);
    for (uint32_t n = 0; n < digits.count; n++) {
        const AuAxisDigit *d = &digits.at[n];
        const bool lane = d->unit == TILE_UNIT_LANE;
        if (d->unit == TILE_UNIT_REG || d->size == 1 || (lane && !lanes)) continue;
        const int32_t all = (int32_t)(lane ? k->lanes : l->r.plan->warps);
        AuVal digit = lane ? kernel_lane(k) : l->r.warp;
        if (d->apart > 1) digit = kernel_op2(k, AU_K_IDIV, digit, kernel_i32(k, d->apart));
        if (d->apart * d->size < all)
            digit = kernel_op2(k, AU_K_IMOD, digit, kernel_i32(k, d->size));
        sum =
            kernel_op2(k, AU_K_ADD, sum, kernel_op2(k, AU_K_MUL, digit, kernel_i32(k, d->weight)));
    }
    return sum;
}

AuVal lower_lane_part(AuLower *l, const AuTilePlaces *places) { return part_of(l, places, true); }

AuVal lower_warp_part(AuLower *l, const AuTilePlaces *places) { return part_of(l, places, false); }

AuCoord lower_coord(AuLower *l, const AuTileAxis *axis, int32_t reg)
{
    return (AuCoord){.axis = axis->name,
                     .index = kernel_op2(l->k, AU_K_ADD, lower_lane_part(l, axis->places),
                                         kernel_i32(l->k, tile_axis_offset(axis->places, reg))),
                     .reg = kernel_i32(l->k, reg),
                     .within = reg};
}

AuCoord lower_coord_in_groups(AuLower *l, const AuTileAxis *axis, int32_t reg)
{
    AuCoord c = lower_coord(l, axis, reg);
    const int32_t group = l->module->options.product_columns;
    if (lower_is_grouped(l, axis)) c.reg = kernel_i32(l->k, reg / group), c.within = reg % group;
    return c;
}

AuVal lower_find(AuLower *l, const AuTilePlaces *places, AuVal index, AuVal *lane)
{
    AuKernel *k = l->k;
    const AuAxisDigits digits = lower_digits(places);
    AuVal reg = kernel_i32(k, 0);
    for (uint32_t n = 0; n < digits.count; n++) {
        const AuAxisDigit *d = &digits.at[n];
        const AuVal digit =
            kernel_op2(k, AU_K_IMOD, kernel_op2(k, AU_K_IDIV, index, kernel_i32(k, d->weight)),
                       kernel_i32(k, d->size));
        AuVal *sum = d->unit == TILE_UNIT_LANE ? lane : &reg;
        *sum =
            kernel_op2(k, AU_K_ADD, *sum, kernel_op2(k, AU_K_MUL, digit, kernel_i32(k, d->apart)));
    }
    return reg;
}

/* ---- a fragment */

uint32_t lower_registers(const AuTileType *type)
{
    uint32_t count = 1;
    for (uint32_t n = 0; n < type->count; n++)
        count *= (uint32_t)tile_axis_registers(type->axes[n].places);
    return count;
}

static bool begins_in_lanes(const AuTilePlaces *places)
{
    return places->digits.count && places->digits.at[0].unit == TILE_UNIT_LANE && places->lanes > 1;
}

uint32_t lower_register_number(const AuTileType *type, const int32_t *regs)
{
    uint32_t number = 0;
    for (uint32_t n = 0; n < type->count && type->count == 2; n++) {
        const AuTilePlaces *fast = type->axes[n].places, *slow = type->axes[1 - n].places;
        const uint32_t f = (uint32_t)regs[n], s = (uint32_t)regs[1 - n];
        if (lower_in_registers_only(fast) && begins_in_lanes(slow))
            return s * (uint32_t)tile_axis_registers(fast) + f;
        if (lower_neighbours(fast) != 2 || tile_axis_registers(slow) % 2) continue;
        return ((s / 2 * (uint32_t)(tile_axis_registers(fast) / 2) + f / 2) * 2 + s % 2) * 2 +
               f % 2;
    }
    for (uint32_t n = 0; n < type->count; n++)
        number = number * (uint32_t)tile_axis_registers(type->axes[n].places) + (uint32_t)regs[n];
    return number;
}

bool lower_next_register(const AuTileType *type, int32_t *regs, uint32_t fast, int32_t wide)
{
    uint32_t n = type->count;
    while (n-- > 0) {
        regs[n] += n == fast ? wide : 1;
        if (regs[n] < tile_axis_registers(type->axes[n].places)) return true;
        regs[n] = 0;
    }
    return false;
}

bool lower_has_neighbours(const AuTileType *type)
{
    if (type->count != 2) return false;
    for (uint32_t n = 0; n < 2; n++) {
        const int32_t next[2] = {n == 0, n == 1};
        if (lower_neighbours(type->axes[n].places) == 2 && lower_register_number(type, next) == 1)
            return true;
    }
    return false;
}

bool lower_same_registers(const AuTileType *a, const AuTileType *b)
{
    bool same = a->count == b->count && lower_scalar(a->elem) == lower_scalar(b->elem);
    for (uint32_t n = 0; n < a->count && same; n++)
        same = a->axes[n].name == b->axes[n].name &&
               tile_same_places(a->axes[n].places, b->axes[n].places);
    return same;
}

void lower_sharers(const AuTileType *of, const AuTileType *result, uint32_t *lanes, uint32_t *warps)
{
    *lanes = *warps = 0;
    for (uint32_t n = 0; n < of->count; n++) {
        if (!of->axes[n].places || tile_axis(result, of->axes[n].name)) continue;
        *lanes |= tile_lane_bits(of->axes[n].places);
        *warps |= tile_warp_bits(of->axes[n].places);
    }
}

static AuVal lacks(AuLower *l, AuVal number, uint32_t bits)
{
    const AuVal some = kernel_op2(l->k, AU_K_AND, number, kernel_i32(l->k, (int32_t)bits));
    return kernel_op2(l->k, AU_K_EQ, some, kernel_i32(l->k, 0));
}

AuVal lower_holds(AuLower *l, const AuTileType *type)
{
    uint32_t copies = l->k->lanes - 1, warps = l->r.plan->warps - 1;
    for (uint32_t n = 0; n < type->count; n++) {
        if (!type->axes[n].places) continue;
        copies &= ~tile_lane_bits(type->axes[n].places);
        warps &= ~tile_warp_bits(type->axes[n].places);
    }
    AuVal mine = {0};
    if (copies) mine = lacks(l, kernel_lane(l->k), copies);
    return warps ? lower_both(l, mine, lacks(l, l->r.warp, warps)) : mine;
}

/* ---- what an instruction takes */

int32_t lower_piece_elements(const AuPiece *piece) { return piece->free * piece->k; }

bool lower_piece(AuLower *l, const AuTileAtom *atom, AuTileUse use, bool turned, AuPiece *out)
{
    const int free = use == TILE_B ? 1 : 0;
    const AuTilePlaces *sides[2];
    for (int n = 0; n < 2; n++) {
        const int32_t extent = tile_atom_extent(atom, use, n);
        sides[n] = turned ? tile_turned_places(l->arena, atom, use, n, extent)
                          : tile_atom_places(l->arena, atom, use, n, extent);
        if (!sides[n]) return false;
    }
    *out = (AuPiece){.free = tile_axis_registers(sides[free]),
                     .k = tile_axis_registers(sides[1 - free]),
                     .packed = lower_neighbours(sides[1 - free])};
    return true;
}

void lower_in_piece(const AuPiece *piece, int32_t tile, int32_t part, int32_t i, int32_t *free,
                    int32_t *k)
{
    *k = part * piece->k + i / (piece->packed * piece->free) * piece->packed + i % piece->packed;
    *free = tile * piece->free + i / piece->packed % piece->free;
}

/* ---- arrays of a lane */

AuMem lower_array(AuLower *l, const char *name, AuScalar scalar, uint32_t count)
{
    return kernel_memory(
        l->k,
        (AuMemory){
            .name = name, .space = AU_LANE, .scalar = scalar, .count = count, .span = l->span});
}

AuMem lower_var_array(AuLower *l, const AuTileVar *var)
{
    AuHeld *held = lower_held(l, var);
    if (held->as == HELD_ARRAY || held->as == HELD_CELL) return held->mem;
    held->as = var->type->count ? HELD_ARRAY : HELD_CELL;
    const uint32_t count = var->type->count ? lower_registers(var->type) : 1;
    held->mem = lower_count(l, var)->pair_axis
                    ? lower_array(l, var->name, AU_I32, count / 2)
                    : lower_array(l, var->name, lower_scalar(var->type->elem), count);
    return held->mem;
}

AuVal lower_pair(AuLower *l, AuVal low, AuVal high)
{
    AuKernel *k = l->k;
    const AuVal bits = kernel_bitcast(k, lower_as(l, low, AU_F32), AU_I32),
                shift = kernel_i32(k, 16);
    const AuVal first =
        kernel_op2(k, AU_K_AND, kernel_op2(k, AU_K_SHR, bits, shift), kernel_i32(k, 0xffff));
    return kernel_op2(k, AU_K_OR, kernel_bitcast(k, lower_as(l, high, AU_F32), AU_I32), first);
}
