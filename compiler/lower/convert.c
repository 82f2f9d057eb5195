/* convert.c - `x = convert y @ L`: a fragment in another layout, by an exchange between the lanes of a warp.
 *
 * Each register of x takes its element from the lane that the digits of y's layout say, and from the register there. Lane and register are
 * computed from the element's index; where the register is another from lane to lane, each that it may be is asked for. Where each lane gets what two
 * have whose numbers differ in one bit, words pass between these two, several numbers of 16 bits at once (`both`). */
#include "internal.h"

#include <string.h>

enum { MOST_ASKED = 16 };

typedef struct Source {
    AuVal lane;
    AuVal regs[TILE_MAX_AXES]; /* along each axis */
} Source;

/* Whether it is this register that is wanted: none if that is so for all lanes; false: for no lane. */
static bool may_be(AuLower *l, const Source *x, const AuTileType *type, const int32_t *regs,
                   AuVal *when)
{
    AuKernel *k = l->k;
    *when = (AuVal){0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuVal same = kernel_op2(k, AU_K_EQ, x->regs[n], kernel_i32(k, regs[n]));
        if (lower_is_known(l, same, false)) return false;
        if (!lower_is_known(l, same, true)) *when = lower_both(l, *when, same);
    }
    return true;
}

static AuVal ask(AuLower *l, const AuTileVar *y, const Source *x)
{
    AuKernel *k = l->k;
    const AuTileType *type = y->type;
    int32_t regs[TILE_MAX_AXES] = {0}, asked = 0;
    AuVal value = {0}, none = {0};
    do {
        AuVal when;
        if (!may_be(l, x, type, regs, &when)) continue;
        const AuVal at = kernel_i32(k, (int32_t)lower_register_number(type, regs)),
                    v = lower_as(l, kernel_load(k, lower_var_array(l, y), at, 1, none, none),
                                 AU_F32);
        const AuVal there = lower_ask_lane(l, v, x->lane);
        value = value.i && when.i ? kernel_op3(k, AU_K_SELECT, when, there, value) : there;
        if (++asked > MOST_ASKED) lower_refuse(l, "a conversion that asks for too many registers");
    } while (lower_next_register(type, regs, TILE_MAX_AXES, 1) && !l->failed);
    return value;
}

/* ---- lanes that differ in one bit of their numbers give each other what they hold */

enum { MOST_WORDS = 4 };

/* The axis along which it is so, all others lying as they did, and the bit; false: it is another conversion. */
static bool is_spread(const AuTileType *from, const AuTileType *to, uint32_t *axis, int32_t *bit)
{
    uint32_t found = 0;
    for (uint32_t n = 0; n < from->count; n++) {
        const AuTilePlaces *a = from->axes[n].places, *b = to->axes[n].places;
        if (tile_same_places(a, b)) continue;
        *axis = n, *bit = tile_spread_bit(a, b);
        if (!*bit) return false;
        found++;
    }
    return found == 1;
}

/* Where the register is in the array of x that has what this one of y's has in lanes without the bit, or with it. */
static uint32_t number_of(const AuTileType *from, const AuTileType *to, const int32_t *regs,
                          uint32_t axis, int32_t bit)
{
    int32_t of[TILE_MAX_AXES];
    memcpy(of, regs, sizeof of);
    const AuTilePlaces *a = from->axes[axis].places;
    of[axis] = tile_axis_register(to->axes[axis].places,
                                  tile_axis_offset(a, regs[axis]) + tile_axis_base(a, bit, 0));
    return lower_register_number(to, of);
}

/* Registers of y in the order of its array, [wide] of them at once: words that lie side by side in both arrays. False: so many do not. */
static bool spread(AuLower *l, const AuTileStmt *s, uint32_t axis, int32_t bit, uint32_t wide,
                   bool emit)
{
    AuKernel *k = l->k;
    const AuTileVar *y = s->convert.source->var, *x = s->var;
    const uint32_t count = lower_registers(y->type);
    int32_t regs[TILE_MAX_AXES] = {0};
    uint32_t *const at[2] = {AU_NEW_ARRAY(l->arena, uint32_t, (size_t)count + 1),
                             AU_NEW_ARRAY(l->arena, uint32_t, (size_t)count + 1)};
    const AuVal none = {0};
    do {
        const uint32_t number = lower_register_number(y->type, regs);
        for (int32_t n = 0; n < 2; n++)
            at[n][number] = number_of(y->type, x->type, regs, axis, n * bit);
    } while (lower_next_register(y->type, regs, TILE_MAX_AXES, 1));
    for (uint32_t r = 0; r < count && !emit; r++)
        for (uint32_t n = 0; n < 2; n++)
            if (count % wide || at[n][r] != at[n][r - r % wide] + r % wide ||
                at[n][r - r % wide] % wide)
                return false;
    for (uint32_t r = 0; r < count && emit; r += wide) {
        const AuVal all = kernel_both(
            k, kernel_load(k, lower_var_array(l, y), kernel_i32(k, (int32_t)r), wide, none, none),
            (uint32_t)bit);
        for (uint32_t n = 0; n < 2; n++)
            kernel_store(
                k, lower_var_array(l, x), kernel_i32(k, (int32_t)at[n][r]),
                wide > 1 ? kernel_slice(k, all, n * wide, wide) : kernel_element(k, all, n), none);
    }
    return true;
}

static bool lower_spread(AuLower *l, const AuTileStmt *s)
{
    const AuTileType *from = s->convert.source->var->type, *to = s->var->type;
    const uint32_t word = 4u / tile_elem(from->elem)->bytes; /* numbers of a word */
    uint32_t axis = 0;
    int32_t bit = 0;
    if (from->elem != to->elem || word < 1 || !is_spread(from, to, &axis, &bit)) return false;
    for (uint32_t wide = MOST_WORDS * word; wide >= word; wide /= 2) {
        if (!spread(l, s, axis, bit, wide, false)) continue;
        return spread(l, s, axis, bit, wide, true);
    }
    return false;
}

static bool can_convert(const AuLower *l, const AuTileVar *from, const AuTileVar *to)
{
    bool good = l->r.unit->written_out && tile_elem(from->type->elem)->is_float &&
                (l->module->caps->exchange & TILE_EXCHANGE_ANY);
    for (uint32_t n = 0; n < from->type->count && good; n++) {
        const AuTilePlaces *a = from->type->axes[n].places, *b = to->type->axes[n].places;
        good = a && b && !tile_warp_bits(a) && !tile_warp_bits(b);
    }
    return good;
}

void lower_convert(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileVar *from = s->convert.source->var, *to = s->var;
    const AuTileType *type = to->type;
    int32_t regs[TILE_MAX_AXES] = {0};
    const AuVal none = {0};
    if (!can_convert(l, from, to) || lower_held(l, from)->as != HELD_ARRAY) {
        lower_refuse(l, "a conversion between these layouts");
        return;
    }
    if (lower_spread(l, s)) return;
    do {
        Source x = {.lane = kernel_i32(k, 0)};
        for (uint32_t n = 0; n < type->count; n++)
            x.regs[n] = lower_find(l, from->type->axes[n].places,
                                   lower_coord(l, &type->axes[n], regs[n]).index, &x.lane);
        const AuVal value = ask(l, from, &x);
        if (l->failed) return;
        kernel_store(k, lower_var_array(l, to),
                     kernel_i32(k, (int32_t)lower_register_number(type, regs)),
                     lower_as(l, value, lower_scalar(type->elem)), none);
    } while (lower_next_register(type, regs, TILE_MAX_AXES, 1));
}
