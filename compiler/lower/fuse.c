/* fuse.c - a run of assignments as few loops as its reductions allow.
 *
 * In:  consecutive ASSIGN statements (and FRAG ones with a start value); each computes all elements of its variable. Out: loops over
 * registers, level by level (items.c). Operands of matrix units are stored in pairs of neighbours: their loop goes by two, and the second
 * of a pair stores both. Stored are only values that someone reads outside of their loop. */
#include "fuse.h"

#include <math.h>

static AuKOp operation_of(const AuTileExpr *reduction)
{
    if (!tile_is_max(reduction)) return AU_K_ADD;
    return reduction->op == TILE_X_REDUCE_MAX || reduction->op == TILE_X_ROWMAX ? AU_K_MAX
                                                                                : AU_K_MAXNAN;
}

/* The larger one of two numbers as integers. */
static AuVal upper_bits(AuKernel *k, AuVal a, AuVal b)
{
    const AuVal bits =
        kernel_op2(k, AU_K_MAX, kernel_bitcast(k, a, AU_I32), kernel_bitcast(k, b, AU_I32));
    return kernel_bitcast(k, bits, AU_F32);
}

static AuVal accumulate(AuLower *l, Item *item, AuVal value, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuMem mem = item->visits++ % 2 ? item->odd : item->mem;
    const AuVal none = {0}, at = lower_register(l, &item->row_type, p);
    const AuVal before = kernel_load(k, mem, at, 1, none, none);
    value = lower_as(l, value, AU_F32);
    /* A sum of products rounds as a product of matrices does, so that what is equal cancels. */
    const AuInstr *in = kernel_at(k, value);
    AuVal after;
    if (item->reduction->op == TILE_X_REDUCE_TOP)
        after = upper_bits(k, before, value);
    else if (!tile_is_max(item->reduction) && in->op == AU_K_MUL) {
        const AuVal a = kernel_operand(k, in, 0), b = kernel_operand(k, in, 1);
        after = kernel_op3(k, AU_K_FMA, a, b, before);
    } else
        after = kernel_op2(k, operation_of(item->reduction), before, value);
    kernel_store(k, mem, at, after, none);
    return after;
}

/* Items of fewer axes come by several times; a sum must count each of their elements once. */
static bool is_repeated(const AuLower *l, const Item *item, const AuPoint *p)
{
    for (uint32_t n = 0; n < p->count; n++) {
        bool own = false;
        for (uint32_t i = 0; i < item->spaces.count; i++)
            own |= item->spaces.at[i].axis->name == p->at[n].axis;
        const AuInstr *reg = kernel_at(l->k, p->at[n].reg);
        if (!own && reg->op == AU_K_CONST && reg->imm != 0) return true;
    }
    return false;
}

static void know(AuLower *l, AuKnown known)
{
    AU_PUSH(l->arena, l->r.known, l->r.known_count, l->r.known_capacity, known);
}

/* All items of one loop at one point. */
static void group_point(AuLower *l, const AuPoint *p, void *user)
{
    Group *g = user;
    const uint32_t known_before = l->r.known_count;
    if (l->failed || (l->failed = !lower_is_small(l->diags, l->k, l->how))) return;
    lower_visit(l, p);
    for (uint32_t n = 0; n < g->items.count; n++) {
        Item *item = g->items.at[n];
        if (!item->var && is_repeated(l, item, p)) continue;
        const AuVal value = lower_eval(l, item->expr, p);
        if (!item->var) {
            accumulate(l, item, value, p);
            continue;
        }
        g->values[n] = lower_as(l, value, lower_scalar(item->var->type->elem));
        know(l, (AuKnown){.var = item->var, .value = g->values[n], .type = item->var->type});
        /* What formulas make of the value before is not what they make of this one. */
        if (lower_count(l, item->var)->defs > 1) lower_visit(l, p);
    }
    lower_leave(l);
    l->r.known_count = known_before;
    /* Stored last, so that a variable may take the array of one that is read here for the last
     * time. */
    for (uint32_t n = 0; n < g->items.count; n++)
        if (g->items.at[n]->var && g->items.at[n]->stored)
            lower_store_point(l, g->items.at[n], g->values[n], p);
}

/* Less than all there is. */
static double start_of(const AuTileExpr *reduction)
{
    return tile_is_max(reduction) && reduction->op != TILE_X_REDUCE_TOP ? -(double)INFINITY : 0;
}

static void start(AuLower *l, const Item *item, AuMem mem, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        kernel_store(l->k, mem, kernel_i32(l->k, (int32_t)r),
                     kernel_f32(l->k, start_of(item->reduction)), (AuVal){0});
}

/* A machine that adds two numbers at once adds up the elements of a row in two sums. */
static bool is_in_halves(const AuLower *l, const Item *item, uint32_t count)
{
    enum { FEWEST = 8 }; /* elements of a row that a lane has */
    return l->module->caps->pairs && !tile_is_max(item->reduction) &&
           lower_registers(item->expr->type) >= FEWEST * count;
}

static void join_halves(AuLower *l, const Item *item)
{
    const AuVal none = {0};
    const uint32_t count = lower_registers(&item->row_type);
    for (uint32_t r = 0; r < count && item->odd.i != item->mem.i; r++) {
        const AuVal at = kernel_i32(l->k, (int32_t)r);
        const AuVal even = kernel_load(l->k, item->mem, at, 1, none, none),
                    odd = kernel_load(l->k, item->odd, at, 1, none, none);
        kernel_store(l->k, item->mem, at, kernel_op2(l->k, AU_K_ADD, even, odd), none);
    }
}

static void start_reductions(AuLower *l, const Group *g)
{
    for (uint32_t n = 0; n < g->items.count; n++) {
        Item *item = g->items.at[n];
        if (item->var) continue;
        const uint32_t count = lower_registers(&item->row_type);
        item->mem =
            lower_array(l, tile_is_max(item->reduction) ? "row_max" : "row_sum", AU_F32, count);
        start(l, item, item->mem, count);
        item->odd = item->mem;
        if (is_in_halves(l, item, count)) {
            item->odd = lower_array(l, "row_sum", AU_F32, count);
            start(l, item, item->odd, count);
        }
        know(l, (AuKnown){
                    .reduction = item->reduction, .mem = item->mem, .type = item->reduction->type});
    }
}

/* The loop of a sum in halves goes by two: a turn has an element of each. */
static void by_halves(const Item *item, AuSpaces *all)
{
    if (item->var || item->odd.i == item->mem.i) return;
    for (uint32_t n = 0; n < all->count; n++) {
        AuSpace1 *s = &all->at[n];
        if (s->looped && s->step == 1 && s->regs % 2 == 0 &&
            !tile_axis(&item->row_type, s->axis->name))
            s->step = 2;
    }
}

/* A group's loops cover the union of its items' axes; an item without one of the unrolled axes is
 * computed once for each of its registers and becomes one value again when common expressions are
 * joined. */
static AuSpaces union_of(const Group *g)
{
    AuSpaces all = g->items.at[0]->spaces;
    for (uint32_t n = 1; n < g->items.count; n++)
        for (uint32_t i = 0; i < g->items.at[n]->spaces.count; i++) {
            const AuSpace1 *s = &g->items.at[n]->spaces.at[i];
            bool there = false;
            for (uint32_t j = 0; j < all.count; j++) there |= all.at[j].axis->name == s->axis->name;
            if (!there) all.at[all.count++] = *s;
        }
    return all;
}

/* The lanes that share a row have each a part of it. */
static void join_lanes(AuLower *l, const Item *item)
{
    uint32_t bits, warps;
    lower_sharers(item->expr->type, item->reduction->type, &bits, &warps);
    if (item->reduction->integer == LOWER_IN_PARTS) return;
    const AuKOp op = operation_of(item->reduction);
    lower_join_lanes(l, item->mem, lower_registers(&item->row_type), bits, op);
    if (warps) lower_join_warps(l, item->mem, lower_registers(&item->row_type), warps, op);
}

static void emit_group(AuLower *l, Group *g)
{
    g->values = AU_NEW_ARRAY(l->arena, AuVal, g->items.count);
    lower_reuse_arrays(g);
    start_reductions(l, g);
    AuSpaces all = union_of(g);
    for (uint32_t n = 0; n < g->items.count; n++) {
        g->items.at[n]->first_count = g->items.at[n]->taken = 0;
        if (lower_pair_axis_of(l, g->items.at[n]))
            lower_by_pairs(&all, lower_pair_axis_of(l, g->items.at[n]));
        by_halves(g->items.at[n], &all);
    }
    lower_each(l, &all, group_point, g);
    for (uint32_t n = 0; n < g->items.count; n++) {
        if (g->items.at[n]->var) continue;
        join_halves(l, g->items.at[n]);
        join_lanes(l, g->items.at[n]);
    }
}

/* A scalar assigned once is a value; any other item without loops is unrolled over the registers of
 * its own axes. */
static void emit_row(AuLower *l, Run *run, Item *item)
{
    if (item->var && !item->var->type->count) {
        const AuPoint nowhere = {.count = 0};
        const AuVal v =
            lower_as(l, lower_eval(l, item->expr, &nowhere), lower_scalar(item->var->type->elem));
        lower_set_scalar(l, item->var, v);
        return;
    }
    Group g = {.run = run};
    AU_PUSH(l->arena, g.items.at, g.items.count, g.items.capacity, item);
    item->stored = true;
    emit_group(l, &g);
}

/* Is it so in a lane, for one of its registers? */
AuVal lower_is_anywhere(AuLower *l, const AuTileVar *test)
{
    AuKernel *k = l->k;
    const AuMem mem = lower_var_array(l, test);
    AuVal some = kernel_i1(k, false);
    for (uint32_t r = 0; r < lower_registers(test->type); r++)
        some =
            kernel_op2(k, AU_K_LOR, some,
                       kernel_load(k, mem, kernel_i32(k, (int32_t)r), 1, (AuVal){0}, (AuVal){0}));
    return kernel_op1(k, AU_K_ANY, some);
}

static void emit_half(AuLower *l, Run *run, const AuTileStmt *branch, bool otherwise)
{
    for (uint32_t n = 0; n < run->count; n++) {
        if (run->items[n].branch != branch || run->items[n].otherwise != otherwise) continue;
        Group g = {.run = run};
        AU_PUSH(l->arena, g.items.at, g.items.count, g.items.capacity, &run->items[n]);
        emit_group(l, &g);
    }
}

/* Loads of a branch, then its items, one after the other. */
static void emit_branch(AuLower *l, Run *run, const AuTileStmt *branch)
{
    const bool before = l->r.in_branch;
    kernel_if(l->k, lower_is_anywhere(l, branch->branch.test->args.at[0]->var));
    l->r.in_branch = true;
    for (uint32_t n = 0; n < branch->branch.then.count; n++)
        if (branch->branch.then.at[n]->kind == TILE_S_LOAD)
            lower_load(l, branch->branch.then.at[n]);
    emit_half(l, run, branch, false);
    if (branch->branch.other.count) {
        kernel_else(l->k);
        emit_half(l, run, branch, true);
    }
    kernel_end(l->k);
    l->r.in_branch = before;
}

static void emit_level(AuLower *l, Run *run, uint32_t level)
{
    for (uint32_t n = 0; n < run->count; n++)
        if (lower_is_at(&run->items[n], level, false)) emit_row(l, run, &run->items[n]);
    for (uint32_t n = 0; n < run->count; n++) {
        const Item *first = &run->items[n];
        if (!lower_is_at(first, level, true) || first->emitted) continue;
        Group g = {.run = run};
        for (uint32_t m = n; m < run->count; m++) {
            Item *item = &run->items[m];
            if (item->loop != first->loop) continue;
            item->emitted = true;
            AU_PUSH(l->arena, g.items.at, g.items.count, g.items.capacity, item);
        }
        emit_group(l, &g);
    }
    for (uint32_t n = 0; n < run->count; n++) {
        const AuTileStmt *branch = run->items[n].branch;
        const bool first = n == 0 || run->items[n - 1].branch != branch;
        if (branch && first && run->items[n].level == level) emit_branch(l, run, branch);
    }
}

static void emit_levels(AuLower *l, Run *run)
{
    uint32_t levels = 0;
    for (uint32_t n = 0; n < run->count; n++)
        if (levels <= run->items[n].level) levels = run->items[n].level + 1;
    for (uint32_t level = 0; level < levels && !l->failed; level++) emit_level(l, run, level);
}

void lower_assignments(AuLower *l, AuTileStmt *const *statements, uint32_t count)
{
    Run run = {.l = l};
    l->r.run = statements, l->r.run_count = count;
    lower_find_items(&run, statements, count);
    if (l->failed) return;
    const uint32_t known_before = l->r.known_count;
    emit_levels(l, &run);
    l->r.known_count = known_before;
}

uint32_t lower_reductions(AuLower *l, AuTileExpr *e)
{
    Run run = {.l = l};
    const uint32_t known_before = l->r.known_count;
    lower_find_reductions(&run, e);
    if (!l->failed) emit_levels(l, &run);
    return known_before;
}
