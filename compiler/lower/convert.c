/* convert.c - `x = convert y @ L`: a fragment in another layout, by an exchange between the lanes of a warp.
 *
 * Each register of x takes its element from the lane that the digits of y's layout say, and from the register there. Lane and register are
 * computed from the element's index; where the register is another from lane to lane, each that it may be is asked for. */
#include "internal.h"

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
