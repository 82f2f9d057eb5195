/* fuse.c - a run of assignments as few loops as its reductions allow.
 *
 * In:  consecutive ASSIGN statements (and FRAG ones with a start value); each computes all elements
 * of its variable. Out: loops over registers. An assignment, and each reduction inside one, is an
 * item with a level: items of one level and one space share a loop; an item that needs a finished
 * reduction, or elements of another space, comes a level later. Items without long axes stand
 * before the loop of their level. Softmax's row maximum and its sum of weights so make two loops,
 * and whatever else the attention computes for a pair rides in them. Operands of matrix units are
 * stored in pairs of neighbours: their loop goes by two, and the second of a pair stores both.
 * Stored are only values that someone reads outside of their loop.
 * Method: one pass in program order computes levels from the items that define what an item reads
 * (flow), and from those that read or define what it defines (anti and output dependences), so that
 * arrays need no renaming. */
#include "fuse.h"

#include <math.h>
#include <string.h>

static bool is_reduction(const AuTileExpr *e) { return tile_is_max(e) || tile_is_sum(e); }
static void add_reads(AuLower *l, Reads *r, const AuTileExpr *e)
{
    if (is_reduction(e)) {
        AU_PUSH(l->arena, r->reductions.at, r->reductions.count, r->reductions.capacity, e);
        return;
    }
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n]) add_reads(l, r, e->args.at[n]);
    if (e->op != TILE_X_NAME || !e->var) return;
    AuHeld *held = lower_held(l, e->var);
    if (held->met == l->r.walks) return;
    held->met = l->r.walks;
    AU_PUSH(l->arena, r->vars.at, r->vars.count, r->vars.capacity, e->var);
    if (held->as == HELD_FORMULA) add_reads(l, r, held->formula);
}

/* Does the item read what the other one makes? */
static bool reads(const Item *item, const Item *other)
{
    if (other->var)
        for (uint32_t n = 0; n < item->reads.vars.count; n++)
            if (item->reads.vars.at[n] == other->var) return true;
    if (other->reduction)
        for (uint32_t n = 0; n < item->reads.reductions.count; n++)
            if (item->reads.reductions.at[n] == other->reduction) return true;
    return false;
}

static void at_least(uint32_t *level, uint32_t least) { *level = *level < least ? least : *level; }

static bool has_all_axes(const AuSpaces *of, const AuSpaces *in)
{
    for (uint32_t n = 0; n < of->count; n++) {
        bool there = false;
        for (uint32_t i = 0; i < in->count; i++)
            there |= in->at[i].axis->name == of->at[n].axis->name;
        if (!there) return false;
    }
    return true;
}

/* May they stand in one loop? What makes a variable anew from what it was must not come by once more for each register of
 * an axis that is the other's alone. */
static bool can_share(const Item *a, const Item *b)
{
    return lower_same_loops(&a->spaces, &b->spaces) &&
           (!a->updates || has_all_axes(&b->spaces, &a->spaces)) &&
           (!b->updates || has_all_axes(&a->spaces, &b->spaces));
}

/* Which level an item has at least that comes after another. Rows of a level stand before its loops: a looped
 * item may read them, they may not read it. Branches stand behind the loops, their items in order. */
static uint32_t level_after(const Item *item, const Item *other)
{
    const bool together =
        item->looped == other->looped && (!item->looped || can_share(item, other));
    if (item->branch && item->branch == other->branch) return other->level;
    if (item->branch || other->branch) return other->level + (other->branch != NULL);
    return other->looped && !together ? other->level + 1 : other->level;
}

/* The level of the last item from those before it. */
static void set_level(Run *run, Item *item, uint32_t before)
{
    for (uint32_t n = before; n-- > 0;) {
        const Item *other = &run->items[n];
        const uint32_t after = level_after(item, other);
        if (reads(item, other)) at_least(&item->level, other->reduction ? other->level + 1 : after);
        if (item->var && (other->var == item->var || reads(other, item)))
            at_least(&item->level, after);
    }
}

static void add_item(Run *run, Item item)
{
    for (uint32_t n = 0; n < item.spaces.count; n++) item.looped |= item.spaces.at[n].looped;
    run->l->r.walks++;
    add_reads(run->l, &item.reads, item.expr);
    if (item.branch) add_reads(run->l, &item.reads, item.branch->branch.test->args.at[0]);
    item.updates = reads(&item, &item);
    set_level(run, &item, run->count);
    AU_PUSH(run->l->arena, run->items, run->count, run->capacity, item);
}

static bool same_expr(const AuTileExpr *a, const AuTileExpr *b)
{
    bool same = a->op == b->op && a->var == b->var && a->memory == b->memory &&
                a->integer == b->integer && a->name == b->name &&
                memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
                a->args.count == b->args.count && a->op != TILE_X_REF;
    for (uint32_t n = 0; n < a->args.count && same; n++)
        same = same_expr(a->args.at[n], b->args.at[n]);
    return same;
}

/* The same reduction of what has not changed since, or NULL. */
static AuTileExpr *known_reduction(const Run *run, const AuTileExpr *e)
{
    for (uint32_t n = run->count; n-- > 0;) {
        const Item *item = &run->items[n];
        if (item->reduction &&
            (item->reduction == e ||
             (item->reduction->type->count == e->type->count && same_expr(item->reduction, e))))
            return item->reduction;
        if (item->var && tile_count_reads(e, item->var)) return NULL;
    }
    return NULL;
}

/* The result of a reduction: the type of its argument less its axes. The verifier has it as the
 * expression's type. */
static void add_reductions(Run *run, AuTileExpr *e)
{
    for (uint32_t n = 0; n < e->args.count; n++) {
        if (!e->args.at[n]) continue;
        AuTileExpr *same = is_reduction(e->args.at[n]) ? known_reduction(run, e->args.at[n]) : NULL;
        if (same)
            e->args.at[n] = same; /* one node for both, so that both find its value */
        else
            add_reductions(run, e->args.at[n]);
    }
    if (!is_reduction(e) || known_reduction(run, e) == e) return;
    const AuTileExpr *x = e->args.at[0];
    add_item(run, (Item){.reduction = e,
                         .expr = x,
                         .spaces = lower_spaces(run->l, x->type),
                         .row_type = *e->type});
}

/* A tile of which an axis has no layout costs nothing until it is used, where it takes the layout
 * of what it meets. */
static bool define_lightly(AuLower *l, const AuTileVar *var, const AuTileExpr *value)
{
    AuHeld *held = lower_held(l, var);
    if (!tile_is_homeless(var->type)) return false;
    if (lower_count(l, var)->defs != 1)
        lower_refuse(l, "index tile %s is assigned more than once", var->name);
    *held = (AuHeld){.as = HELD_FORMULA, .formula = value};
    return true;
}

/* In the run and in the other half of a branch. */
uint32_t lower_reads_in_run(const AuLower *l, const AuTileVar *var)
{
    const uint32_t count = tile_count_reads_in(l->r.run, l->r.run_count, var);
    return l->r.beside ? count + tile_count_reads_in(l->r.beside->at, l->r.beside->count, var)
                       : count;
}

static bool is_at(const Item *item, uint32_t level, bool looped)
{
    return !item->branch && item->level == level && item->looped == looped;
}

/* Must the item wait for one before it in the level that stands in no loop yet? Two that could share a loop may each share
 * one with a third. */
static bool waits(const Run *run, const Item *item, uint32_t level)
{
    for (const Item *other = run->items; other < item; other++) {
        if (other->loop || !is_at(other, level, true)) continue;
        if (reads(item, other) || (item->var && (other->var == item->var || reads(other, item))))
            return true;
    }
    return false;
}

/* Which loop of its level each looped item stands in, in the order of the loops: with the first that waits for nothing,
 * all that may share a loop with every other there. */
static void share_loops(Run *run)
{
    uint32_t loops = 0;
    for (uint32_t n = 0; n < run->count; n++) {
        Item *first = &run->items[n];
        if (first->loop || !is_at(first, first->level, true)) continue;
        loops++;
        for (Item *item = first; item < run->items + run->count; item++) {
            bool shares =
                !item->loop && is_at(item, first->level, true) && !waits(run, item, first->level);
            for (const Item *other = first; other < item && shares; other++)
                shares = other->loop != loops || can_share(item, other);
            if (shares) item->loop = loops;
        }
    }
}

static void decide_stores(Run *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        Item *item = &run->items[n];
        if (!item->var) continue;
        const AuTileCount *count = lower_count(run->l, item->var);
        item->stored = count->pair_axis || item->branch || count->defs > 1 ||
                       count->uses > lower_reads_in_run(run->l, item->var);
        for (uint32_t m = 0; m < run->count && !item->stored; m++) {
            const Item *reader = &run->items[m];
            const bool same_loop = !reader->branch && reader->level == item->level &&
                                   reader->looped == item->looped && reader->loop == item->loop;
            item->stored = !same_loop && reads(reader, item);
        }
    }
}

static AuKOp operation_of(const AuTileExpr *reduction)
{
    if (!tile_is_max(reduction)) return AU_K_ADD;
    return reduction->op == TILE_X_REDUCE_MAXNAN ? AU_K_MAXNAN : AU_K_MAX;
}

static AuVal accumulate(AuLower *l, const Item *item, AuVal value, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, at = lower_register(l, &item->row_type, p);
    const AuVal before = kernel_load(k, item->mem, at, 1, none, none);
    value = lower_as(l, value, AU_F32);
    /* A sum of products rounds as a product of matrices does, so that what is equal cancels. */
    const AuInstr *in = kernel_at(k, value);
    AuVal after;
    if (!tile_is_max(item->reduction) && in->op == AU_K_MUL) {
        const AuVal a = kernel_operand(k, in, 0), b = kernel_operand(k, in, 1);
        after = kernel_op3(k, AU_K_FMA, a, b, before);
    } else
        after = kernel_op2(k, operation_of(item->reduction), before, value);
    kernel_store(k, item->mem, at, after, none);
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

static void start_reductions(AuLower *l, const Group *g)
{
    const AuVal none = {0};
    for (uint32_t n = 0; n < g->items.count; n++) {
        Item *item = g->items.at[n];
        if (item->var) continue;
        const uint32_t count = lower_registers(&item->row_type);
        item->mem =
            lower_array(l, tile_is_max(item->reduction) ? "row_max" : "row_sum", AU_F32, count);
        for (uint32_t r = 0; r < count; r++)
            kernel_store(l->k, item->mem, kernel_i32(l->k, (int32_t)r),
                         kernel_f32(l->k, tile_is_max(item->reduction) ? -(double)INFINITY : 0),
                         none);
        know(l, (AuKnown){
                    .reduction = item->reduction, .mem = item->mem, .type = item->reduction->type});
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
    }
    lower_each(l, &all, group_point, g);
    for (uint32_t n = 0; n < g->items.count; n++)
        if (!g->items.at[n]->var) join_lanes(l, g->items.at[n]);
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
static AuVal is_anywhere(AuLower *l, const AuTileVar *test)
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

/* Loads of a branch, then its items, one after the other. */
static void emit_branch(AuLower *l, Run *run, const AuTileStmt *branch)
{
    const bool before = l->r.in_branch;
    kernel_if(l->k, is_anywhere(l, branch->branch.test->args.at[0]->var));
    l->r.in_branch = true;
    for (uint32_t n = 0; n < branch->branch.then.count; n++)
        if (branch->branch.then.at[n]->kind == TILE_S_LOAD)
            lower_load(l, branch->branch.then.at[n]);
    for (uint32_t n = 0; n < run->count; n++) {
        if (run->items[n].branch != branch) continue;
        Group g = {.run = run};
        AU_PUSH(l->arena, g.items.at, g.items.count, g.items.capacity, &run->items[n]);
        emit_group(l, &g);
    }
    kernel_end(l->k);
    l->r.in_branch = before;
}

static void emit_level(AuLower *l, Run *run, uint32_t level)
{
    for (uint32_t n = 0; n < run->count; n++)
        if (is_at(&run->items[n], level, false)) emit_row(l, run, &run->items[n]);
    for (uint32_t n = 0; n < run->count; n++) {
        const Item *first = &run->items[n];
        if (!is_at(first, level, true) || first->emitted) continue;
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
    for (uint32_t n = 0; n < run->count; n++) at_least(&levels, run->items[n].level + 1);
    for (uint32_t level = 0; level < levels && !l->failed; level++) emit_level(l, run, level);
}

static void add_assignment(Run *run, const AuTileStmt *s, const AuTileStmt *branch)
{
    AuLower *l = run->l;
    AuTileExpr *value = tile_assigned(s);
    if (!value) return;
    if (lower_held(l, s->var)->in_parts) value = lower_in_parts(l, value);
    add_reductions(run, value);
    if (define_lightly(l, s->var, value)) return;
    AuSpaces spaces = {.count = 0};
    if (s->var->type->count) spaces = lower_spaces(l, s->var->type);
    add_item(run, (Item){.var = s->var, .expr = value, .spaces = spaces, .branch = branch});
}

/* `if anywhere(x)`: assignments without reductions, behind its test: its items have one level. */
static void add_branch(Run *run, const AuTileStmt *s)
{
    const uint32_t first = run->count;
    uint32_t level = 0;
    for (uint32_t n = 0; n < s->branch.then.count; n++)
        add_assignment(run, s->branch.then.at[n], s);
    for (uint32_t n = first; n < run->count; n++) at_least(&level, run->items[n].level);
    for (uint32_t n = first; n < run->count; n++) run->items[n].level = level;
}

void lower_assignments(AuLower *l, AuTileStmt *const *statements, uint32_t count)
{
    Run run = {.l = l};
    l->r.run = statements, l->r.run_count = count;
    for (uint32_t n = 0; n < count; n++) {
        const AuTileStmt *s = statements[n];
        lower_at_statement(l, s);
        if (s->kind == TILE_S_IF)
            add_branch(&run, s);
        else
            add_assignment(&run, s, NULL);
    }
    if (l->failed) return;
    share_loops(&run);
    decide_stores(&run);
    const uint32_t known_before = l->r.known_count;
    emit_levels(l, &run);
    l->r.known_count = known_before;
}

uint32_t lower_reductions(AuLower *l, AuTileExpr *e)
{
    Run run = {.l = l};
    const uint32_t known_before = l->r.known_count;
    add_reductions(&run, e);
    share_loops(&run);
    if (!l->failed) emit_levels(l, &run);
    return known_before;
}
