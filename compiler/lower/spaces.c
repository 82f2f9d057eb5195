/* spaces.c - registers of fragments: which register of a lane holds an element, and loops over them.
 * An axis whose indices all lie in registers becomes a loop if it is long; the others, of which a lane holds few, are unrolled. */
#include "internal.h"

enum { LONGEST_UNROLLED = 4 };

static bool in_registers_only(const AuTilePlaces *places)
{
    for (uint32_t n = 0; n < places->digits.count; n++)
        if (places->digits.at[n].unit != TILE_UNIT_REG && places->digits.at[n].size != 1) return false;
    return true;
}

AuSpaces lower_spaces(AuLower *l, const AuTileType *type)
{
    AuSpaces s = {.count = 0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        if (!axis->places) { lower_refuse(l, "axis %s has no layout here", axis->name); continue; }
        const int32_t regs = tile_axis_registers(axis->places);
        s.at[s.count++] = (AuSpace1){axis, regs, in_registers_only(axis->places) && regs > LONGEST_UNROLLED};
    }
    return s;
}

bool lower_same_loops(const AuSpaces *a, const AuSpaces *b)
{
    uint32_t na = 0, nb = 0, equal = 0;
    for (uint32_t i = 0; i < a->count; i++) na += a->at[i].looped;
    for (uint32_t j = 0; j < b->count; j++) nb += b->at[j].looped;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t j = 0; j < b->count; j++)
            equal += a->at[i].looped && b->at[j].looped && a->at[i].axis->name == b->at[j].axis->name && a->at[i].regs == b->at[j].regs;
    return na == nb && equal == na;
}

/* What the lane says about the index: the sum over its digits. */
static AuVal lane_part(AuLower *l, const AuTilePlaces *places)
{
    AuKernel *k = l->k;
    AuVal sum = kernel_i32(k, 0);
    int32_t weight = 1;
    for (uint32_t n = 0; n < places->digits.count; n++) {
        const AuTileDigit *d = &places->digits.at[n];
        const int32_t size = d->size ? d->size : places->extent / weight;
        if (d->unit == TILE_UNIT_WARP) lower_refuse(l, "a layout over several warps");
        if (d->unit == TILE_UNIT_LANE && size > 1) {
            AuVal digit = kernel_lane(k);
            if (d->stride > 1) digit = kernel_op2(k, AU_K_IDIV, digit, kernel_i32(k, d->stride));
            if (d->stride * size < (int32_t)k->lanes) digit = kernel_op2(k, AU_K_IMOD, digit, kernel_i32(k, size));
            sum = kernel_op2(k, AU_K_ADD, sum, kernel_op2(k, AU_K_MUL, digit, kernel_i32(k, weight)));
        }
        weight *= size;
    }
    return sum;
}

typedef struct Walk {
    const AuSpaces *spaces;
    AuPointFn body;
    void *user;
    AuPoint point;
} Walk;

static void walk(AuLower *l, Walk *w, uint32_t depth);

static void visit(AuLower *l, Walk *w, uint32_t depth, const AuSpace1 *s, AuVal reg, AuVal index)
{
    w->point.at[w->point.count++] = (AuCoord){s->axis->name, index, reg};
    walk(l, w, depth + 1);
    w->point.count--;
}

/* Loops first, outermost; then the unrolled axes. depth counts through the looped axes, then through the others. */
static void walk(AuLower *l, Walk *w, uint32_t depth)
{
    AuKernel *k = l->k;
    uint32_t at = 0;
    const AuSpace1 *s = NULL;
    for (int pass = 0; pass < 2 && !s; pass++)
        for (uint32_t n = 0; n < w->spaces->count && !s; n++)
            if (w->spaces->at[n].looped == (pass == 0) && at++ == depth) s = &w->spaces->at[n];
    if (!s) { w->body(l, &w->point, w->user); return; }
    if (s->looped) {
        const AuVal reg = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, s->regs), 1, AU_UNROLL_AUTO);
        visit(l, w, depth, s, reg, reg);
        kernel_end(k);
        return;
    }
    const AuVal base = lane_part(l, s->axis->places);
    for (int32_t r = 0; r < s->regs; r++) {
        const AuVal offset = kernel_i32(k, tile_axis_offset(s->axis->places, r));
        visit(l, w, depth, s, kernel_i32(k, r), kernel_op2(k, AU_K_ADD, base, offset));
    }
}

void lower_each(AuLower *l, const AuSpaces *spaces, AuPointFn body, void *user)
{
    Walk w = {spaces, body, user, {.count = 0}};
    walk(l, &w, 0);
}

AuVal lower_register(AuLower *l, const AuTileType *type, const AuPoint *p)
{
    AuKernel *k = l->k;
    AuVal number = kernel_i32(k, 0);
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        AuVal reg = {0};
        for (uint32_t i = 0; i < p->count; i++)
            if (p->at[i].axis == axis->name) reg = p->at[i].reg;
        if (!reg.i) { lower_refuse(l, "axis %s of a fragment has no register here", axis->name); return number; }
        const AuVal scaled = kernel_op2(k, AU_K_MUL, number, kernel_i32(k, tile_axis_registers(axis->places)));
        number = kernel_op2(k, AU_K_ADD, scaled, reg);
    }
    return number;
}

uint32_t lower_registers(const AuTileType *type)
{
    uint32_t count = 1;
    for (uint32_t n = 0; n < type->count; n++) count *= (uint32_t)tile_axis_registers(type->axes[n].places);
    return count;
}

AuMem lower_array(AuLower *l, const char *name, AuScalar scalar, uint32_t count)
{
    return kernel_memory(l->k, (AuMemory){.name = name, .space = AU_LANE, .scalar = scalar, .count = count, .span = l->span});
}

AuMem lower_var_array(AuLower *l, const AuTileVar *var)
{
    AuHeld *held = lower_held(l, var);
    if (held->as == HELD_ARRAY || held->as == HELD_CELL) return held->mem;
    held->as = var->type->count ? HELD_ARRAY : HELD_CELL;
    held->mem = lower_array(l, var->name, lower_scalar(var->type->elem), var->type->count ? lower_registers(var->type) : 1);
    return held->mem;
}
