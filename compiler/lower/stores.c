/* stores.c - what a run of assignments leaves behind: into which array of a lane a value goes, and how.
 * Operands of matrix units hold two numbers in 32 bits, so these are stored by pairs. */
#include "fuse.h"

const char *lower_pair_axis_of(AuLower *l, const Item *item)
{
    return item->var ? lower_count(l, item->var)->pair_axis : NULL;
}

/* Points come in the same order for the first and for the second elements of pairs. */
static void store_in_pairs(AuLower *l, Item *item, AuVal value, const AuPoint *p, const char *axis)
{
    const AuVal none = {0};
    int32_t which = 0;
    for (uint32_t n = 0; n < p->count; n++)
        if (p->at[n].axis == axis) which = p->at[n].within;
    if (which == 0 && item->first_count < MOST_PENDING)
        item->first[item->first_count++] = value;
    else if (which == 1 && item->taken < item->first_count)
        kernel_store(l->k, lower_var_array(l, item->var),
                     lower_pair_register(l, item->var->type, p, axis),
                     lower_pair(l, item->first[item->taken++], value), none);
    else
        lower_refuse(l, "pairs along axis %s of %s", axis, item->var->name);
}

/* What the value was before it was rounded; none: it was not. */
static AuVal before_rounding(AuLower *l, AuVal value)
{
    const AuInstr *in = kernel_at(l->k, value);
    if (in->op != AU_K_CVT) return (AuVal){0};
    const AuVal from = kernel_operand(l->k, in, 0);
    return kernel_at(l->k, from)->type.scalar == AU_F32 ? from : (AuVal){0};
}

/* Two neighbours of 16 bits share a register: they are rounded together and stored as a vector, so
 * that nobody takes the register apart. The even one comes first. */
static void store_halves(AuLower *l, Item *item, AuVal value, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, at = lower_register(l, item->var->type, p);
    const uint32_t number = (uint32_t)kernel_at(k, at)->imm;
    if (!item->even)
        item->even = AU_NEW_ARRAY(l->arena, AuVal, lower_registers(item->var->type) + 1);
    if (number % 2 == 0) {
        item->even[number] = value;
        return;
    }
    const AuVal first = item->even[number - 1], a = before_rounding(l, first),
                b = before_rounding(l, value);
    const AuVal both = a.i && b.i ? kernel_cvt(k, kernel_vec(k, (AuVal[]){a, b}, 2),
                                               lower_scalar(item->var->type->elem))
                                  : kernel_vec(k, (AuVal[]){first, value}, 2);
    kernel_store(k, lower_var_array(l, item->var), kernel_i32(k, (int32_t)number - 1), both, none);
}

/* Does the loop meet both halves of a register of 32 bits? */
static bool has_halves(const AuLower *l, const AuTileType *type)
{
    return l->r.unit->written_out && tile_elem(type->elem)->bytes == 2 &&
           lower_has_neighbours(type);
}

void lower_store_point(AuLower *l, Item *item, AuVal value, const AuPoint *p)
{
    const AuVal none = {0};
    const char *pairs = lower_pair_axis_of(l, item);
    if (pairs)
        store_in_pairs(l, item, value, p, pairs);
    else if (has_halves(l, item->var->type))
        store_halves(l, item, value, p);
    else
        kernel_store(l->k, lower_var_array(l, item->var), lower_register(l, item->var->type, p),
                     value, none);
}

/* ---- arrays that another variable needs no longer */

static bool is_in_group(const Group *g, const Item *item)
{
    for (uint32_t n = 0; n < g->items.count; n++)
        if (g->items.at[n] == item) return true;
    return false;
}

/* All reads of the variable in the role are in this run and not after this group, and each step of
 * a loop sets it anew before. Groups of one level come in any order. */
static bool dies_here(const Group *g, const AuTileVar *var, uint32_t level)
{
    const Run *run = g->run;
    const AuHeld *held = lower_held(run->l, var);
    const AuTileCount *count = lower_count(run->l, var);
    if (held->as != HELD_ARRAY || !count->restarted ||
        count->uses != lower_reads_in_run(run->l, var))
        return false;
    for (uint32_t n = 0; n < run->count; n++)
        if (run->items[n].level >= level && !is_in_group(g, &run->items[n]) &&
            tile_count_reads(run->items[n].expr, var))
            return false;
    return true;
}

static bool group_reads(const Group *g, const AuTileVar *var)
{
    for (uint32_t n = 0; n < g->items.count; n++)
        if (tile_count_reads(g->items.at[n]->expr, var)) return true;
    return false;
}

/* Weights take the array of the scores they are made of, if these are not read again: half the
 * traffic with the caches. A run that is emitted for several segments decides at the first, which
 * has the statements of the others. */
void lower_reuse_arrays(const Group *g)
{
    AuLower *l = g->run->l;
    for (uint32_t n = 0; n < g->items.count; n++) {
        const Item *item = g->items.at[n];
        if (!item->var || !item->stored || lower_held(l, item->var)->as != HELD_NOT) continue;
        for (uint32_t v = 0; v < l->r.role->vars.count; v++) {
            const AuTileVar *other = l->r.role->vars.at[v];
            AuHeld *held = lower_held(l, other);
            if (held->taken || other->kind != TILE_VALUE || other == item->var ||
                !dies_here(g, other, item->level) ||
                !lower_same_registers(other->type, item->var->type) || !group_reads(g, other))
                continue;
            held->taken = true;
            *lower_held(l, item->var) = (AuHeld){.as = HELD_ARRAY, .mem = held->mem};
            break;
        }
    }
}
