/* spaces.c - registers of fragments: which register of a lane holds an element, and loops over
 * them. An axis of which a lane holds many indices becomes a loop over registers; of an axis along
 * the lanes (rows of queries) a few registers at a time, so that independent work fills the
 * pipelines. Axes of few registers are unrolled. Loops over axes along the lanes are outermost: a
 * reduction over the others then runs in registers. */
#include "internal.h"

enum { MOST_UNROLLED = 4 };

static bool in_registers_only(const AuTilePlaces *places)
{
    for (uint32_t n = 0; n < places->digits.count; n++)
        if (places->digits.at[n].unit != TILE_UNIT_REG && places->digits.at[n].size != 1)
            return false;
    return true;
}

/* Are the indices that a lane holds equally far apart? Then a loop over registers can compute them.
 */
static bool is_linear(const AuTilePlaces *places, int32_t regs)
{
    for (int32_t r = 2; r < regs; r++)
        if (tile_axis_offset(places, r) != r * tile_axis_offset(places, 1)) return false;
    return true;
}

bool lower_is_grouped(const AuLower *l, const AuTileAxis *axis)
{
    const int32_t regs = tile_axis_registers(axis->places),
                  group = l->module->options.product_columns;
    return !l->r.unit->written_out && !in_registers_only(axis->places) && regs > group &&
           regs % group == 0 && is_linear(axis->places, regs);
}

AuSpaces lower_spaces(AuLower *l, const AuTileType *type)
{
    AuSpaces s = {.count = 0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        if (!axis->places) {
            lower_refuse(l, "axis %s has no layout here", axis->name);
            continue;
        }
        const int32_t regs = tile_axis_registers(axis->places);
        const bool grouped = lower_is_grouped(l, axis),
                   looped =
                       grouped || ((l->r.unit->written_out || in_registers_only(axis->places)) &&
                                   regs > MOST_UNROLLED);
        s.at[s.count++] = (AuSpace1){.axis = axis,
                                     .regs = regs,
                                     .looped = looped,
                                     .grouped = grouped,
                                     .step = grouped ? l->module->options.product_columns
                                             : looped && !l->r.unit->written_out ? 1
                                                                                 : regs};
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
            equal += a->at[i].looped && b->at[j].looped &&
                     a->at[i].axis->name == b->at[j].axis->name && a->at[i].regs == b->at[j].regs;
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
        if (d->unit != TILE_UNIT_REG && size > 1) {
            const bool lane = d->unit == TILE_UNIT_LANE;
            const int32_t all = (int32_t)(lane ? k->lanes : l->r.plan->warps);
            AuVal digit = lane ? kernel_lane(k) : l->r.warp;
            if (d->stride > 1) digit = kernel_op2(k, AU_K_IDIV, digit, kernel_i32(k, d->stride));
            if (d->stride * size < all)
                digit = kernel_op2(k, AU_K_IMOD, digit, kernel_i32(k, size));
            sum =
                kernel_op2(k, AU_K_ADD, sum, kernel_op2(k, AU_K_MUL, digit, kernel_i32(k, weight)));
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
    AuVal first[6]; /* by axis: the register that its loop is at; none: it has no loop */
} Walk;

/* The registers of each axis that stand side by side. */
static void enumerate(AuLower *l, Walk *w, uint32_t n)
{
    AuKernel *k = l->k;
    if (n == w->spaces->count) {
        w->body(l, &w->point, w->user);
        return;
    }
    const AuSpace1 *s = &w->spaces->at[n];
    const AuVal base = lane_part(l, s->axis->places),
                apart = kernel_i32(k, s->regs > 1 ? tile_axis_offset(s->axis->places, 1) : 0);
    for (int32_t r = 0; r < s->step; r++) {
        AuCoord c = {.axis = s->axis->name, .reg = w->first[n].i ? w->first[n] : kernel_i32(k, r)};
        AuVal offset = kernel_i32(k, tile_axis_offset(s->axis->places, r));
        if (s->grouped) {
            c.within = r;
            offset = kernel_op2(k, AU_K_ADD,
                                kernel_op2(k, AU_K_MUL,
                                           kernel_op2(k, AU_K_MUL, c.reg, kernel_i32(k, s->step)),
                                           apart),
                                offset);
        } else if (s->looped && s->step < s->regs) {
            if (s->step > 1)
                c.reg =
                    kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, c.reg, kernel_i32(k, s->step)),
                               kernel_i32(k, r));
            c.within = r;
            offset = kernel_op2(k, AU_K_MUL, c.reg, apart);
        }
        c.index = kernel_op2(k, AU_K_ADD, base, offset);
        w->point.at[w->point.count++] = c;
        enumerate(l, w, n + 1);
        w->point.count--;
    }
}

/* The longest axis outermost: what depends on a column (is the key inside?) is used up by its few
 * rows at once, and sums over the rows are as many independent chains. */
static AuSpaces longest_first(const AuSpaces *spaces)
{
    AuSpaces sorted = *spaces;
    for (uint32_t n = 1; n < sorted.count; n++)
        for (uint32_t i = n; i > 0 && sorted.at[i].regs > sorted.at[i - 1].regs; i--) {
            const AuSpace1 other = sorted.at[i];
            sorted.at[i] = sorted.at[i - 1];
            sorted.at[i - 1] = other;
        }
    return sorted;
}

void lower_each(AuLower *l, const AuSpaces *spaces, AuPointFn body, void *user)
{
    const AuSpaces order = l->r.unit->written_out ? longest_first(spaces) : *spaces;
    spaces = &order;
    Walk w = {spaces, body, user, {.count = 0}, {{0}}};
    uint32_t open = 0;
    for (int32_t along_registers = 0; along_registers < 2; along_registers++)
        for (uint32_t n = 0; n < spaces->count; n++) {
            const AuSpace1 *s = &spaces->at[n];
            if (s->step == s->regs || in_registers_only(s->axis->places) != along_registers)
                continue;
            w.first[n] = kernel_for(l->k, kernel_i32(l->k, 0), kernel_i32(l->k, s->regs / s->step),
                                    1, AU_UNROLL_NEVER);
            open++;
        }
    enumerate(l, &w, 0);
    while (open--) kernel_end(l->k);
}

AuCoord lower_coord(AuLower *l, const AuTileAxis *axis, int32_t reg)
{
    return (AuCoord){.axis = axis->name,
                     .index = kernel_op2(l->k, AU_K_ADD, lane_part(l, axis->places),
                                         kernel_i32(l->k, tile_axis_offset(axis->places, reg))),
                     .reg = kernel_i32(l->k, reg),
                     .within = reg};
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

static bool begins_in_lanes(const AuTilePlaces *places)
{
    return places->digits.at[0].unit == TILE_UNIT_LANE && places->lanes > 1;
}

/* Neighbours in a register of 32 bits, then the two rows of a lane, then along the axis of the
 * neighbours; where one axis lies in registers alone and the other begins in the lanes, first along
 * the former; else along the last axis: so the elements that an instruction takes lie side by side,
 * be it as C or, blocks of it, as A. */
uint32_t lower_register_number(const AuTileType *type, const int32_t *regs)
{
    uint32_t number = 0;
    for (uint32_t n = 0; n < type->count && type->count == 2; n++) {
        const AuTilePlaces *fast = type->axes[n].places, *slow = type->axes[1 - n].places;
        const AuTileDigit *first = &fast->digits.at[0];
        const uint32_t f = (uint32_t)regs[n], s = (uint32_t)regs[1 - n];
        if (in_registers_only(fast) && begins_in_lanes(slow))
            return s * (uint32_t)tile_axis_registers(fast) + f;
        if (first->unit != TILE_UNIT_REG || first->size != 2 || tile_axis_registers(slow) % 2)
            continue;
        return ((s / 2 * (uint32_t)(tile_axis_registers(fast) / 2) + f / 2) * 2 + s % 2) * 2 +
               f % 2;
    }
    for (uint32_t n = 0; n < type->count; n++)
        number = number * (uint32_t)tile_axis_registers(type->axes[n].places) + (uint32_t)regs[n];
    return number;
}

/* All registers are written out, so their numbers are constants. */
static AuVal constant_register(AuLower *l, const AuTileType *type, const AuPoint *p)
{
    int32_t regs[TILE_MAX_AXES] = {0};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuCoord *c = NULL;
        for (uint32_t i = 0; i < p->count; i++)
            if (p->at[i].axis == type->axes[n].name) c = &p->at[i];
        if (!c || !c->reg.i || kernel_at(l->k, c->reg)->op != AU_K_CONST) {
            lower_refuse(l, "axis %s of a fragment has no register here", type->axes[n].name);
            return kernel_i32(l->k, 0);
        }
        regs[n] = (int32_t)kernel_at(l->k, c->reg)->imm;
    }
    return kernel_i32(l->k, (int32_t)lower_register_number(type, regs));
}

AuVal lower_register(AuLower *l, const AuTileType *type, const AuPoint *p)
{
    if (l->r.unit->written_out) return constant_register(l, type, p);
    return lower_pair_register(l, type, p, NULL);
}

AuVal lower_pair_register(AuLower *l, const AuTileType *type, const AuPoint *p,
                          const char *pair_axis)
{
    AuKernel *k = l->k;
    AuVal outer = kernel_i32(k, 0), inner = kernel_i32(k, 0);
    int32_t others = 1, group = 1, within = 0;
    bool grouped = false;
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        const AuCoord *c = NULL;
        for (uint32_t i = 0; i < p->count; i++)
            if (p->at[i].axis == axis->name) c = &p->at[i];
        if (!c || !c->reg.i) {
            lower_refuse(l, "axis %s of a fragment has no register here", axis->name);
            return outer;
        }
        const bool pairs = axis->name == pair_axis;
        const int32_t regs = tile_axis_registers(axis->places) / (pairs ? 2 : 1);
        if (lower_is_grouped(l, axis)) {
            outer = c->reg;
            group = l->module->options.product_columns;
            grouped = true;
            within = c->within;
            continue;
        }
        inner = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, inner, kernel_i32(k, regs)),
                           pairs ? kernel_op2(k, AU_K_SHR, c->reg, kernel_i32(k, 1)) : c->reg);
        others *= regs;
    }
    if (!grouped) return inner;
    const AuVal row =
        kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, outer, kernel_i32(k, others)), inner);
    return kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, row, kernel_i32(k, group)),
                      kernel_i32(k, within));
}

uint32_t lower_registers(const AuTileType *type)
{
    uint32_t count = 1;
    for (uint32_t n = 0; n < type->count; n++)
        count *= (uint32_t)tile_axis_registers(type->axes[n].places);
    return count;
}

void lower_by_pairs(AuSpaces *spaces, const char *pair_axis)
{
    for (uint32_t n = 0; n < spaces->count; n++)
        if (spaces->at[n].axis->name == pair_axis && spaces->at[n].looped) spaces->at[n].step = 2;
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
