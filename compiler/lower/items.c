/* items.c - what a run of assignments consists of, and when each part of it is computed.
 *
 * An assignment, and each reduction inside one, is an item with a level: items of one level and one space share a loop; an item that
 * needs a finished reduction, or elements of another space, comes a level later. Items without long axes stand before the loop of their
 * level. Softmax's row maximum and its sum of weights so make two loops, and whatever else the attention computes for a pair rides in them.
 * Method: one pass in program order computes levels from the items that define what an item reads (flow), and from those that read or
 * define what it defines (anti and output dependences), so that arrays need no renaming. */
#include "fuse.h"

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

/* May they stand in one loop? What makes a variable anew from what it was, or what others read before, must not come by once
 * more for each register of an axis that is the other's alone: there it was overwritten. */
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
    for (uint32_t n = 0; item.var && n < run->count; n++)
        item.updates |= run->items[n].looped && reads(&run->items[n], &item);
    set_level(run, &item, run->count);
    AU_PUSH(run->l->arena, run->items, run->count, run->capacity, item);
}

/* The same reduction of what has not changed since, or NULL. A branch knows what is before it; behind it nobody knows what it made. */
static AuTileExpr *known_reduction(const Run *run, const AuTileExpr *e, const AuTileStmt *branch)
{
    for (uint32_t n = run->count; n-- > 0;) {
        const Item *item = &run->items[n];
        if (item->reduction && (!item->branch || item->branch == branch) &&
            (item->reduction == e || (item->reduction->type->count == e->type->count &&
                                      tile_same_expr(item->reduction, e))))
            return item->reduction;
        if (item->var && tile_count_reads(e, item->var)) return NULL;
    }
    return NULL;
}

/* The result of a reduction: the type of its argument less its axes. The verifier has it as the
 * expression's type. */
static void add_reductions(Run *run, AuTileExpr *e, const AuTileStmt *branch)
{
    for (uint32_t n = 0; n < e->args.count; n++) {
        if (!e->args.at[n]) continue;
        AuTileExpr *same =
            is_reduction(e->args.at[n]) ? known_reduction(run, e->args.at[n], branch) : NULL;
        if (same)
            e->args.at[n] = same; /* one node for both, so that both find its value */
        else
            add_reductions(run, e->args.at[n], branch);
    }
    if (!is_reduction(e) || known_reduction(run, e, branch) == e) return;
    const AuTileExpr *x = e->args.at[0];
    add_item(run, (Item){.reduction = e,
                         .expr = x,
                         .spaces = lower_spaces(run->l, x->type),
                         .row_type = *e->type,
                         .branch = branch});
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

bool lower_is_at(const Item *item, uint32_t level, bool looped)
{
    return !item->branch && item->level == level && item->looped == looped;
}

/* Must the item wait for one before it in the level that stands in no loop yet? Two that could share a loop may each share
 * one with a third. */
static bool waits(const Run *run, const Item *item, uint32_t level)
{
    for (const Item *other = run->items; other < item; other++) {
        if (other->loop || !lower_is_at(other, level, true)) continue;
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
        if (first->loop || !lower_is_at(first, first->level, true)) continue;
        loops++;
        for (Item *item = first; item < run->items + run->count; item++) {
            bool shares = !item->loop && lower_is_at(item, first->level, true) &&
                          !waits(run, item, first->level);
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

/* !(reduce_top(x) .. < limit), or of another maximum, that a vote alone asks for: true in all lanes' parts of a row, or in one. */
static bool is_only_asked(const Run *run, const AuTileVar *var, const AuTileExpr *value)
{
    const AuLower *l = run->l;
    bool asked = value->op == TILE_X_NOT && value->args.at[0]->op == TILE_X_LT &&
                 lower_count(l, var)->uses == 1;
    bool found = false;
    for (uint32_t n = 0; n < l->r.run_count && asked && !found; n++) {
        const AuTileStmt *s = l->r.run[n];
        found = tile_asks(s) && s->branch.test->args.at[0]->var == var;
    }
    return found;
}

static void add_assignment(Run *run, const AuTileStmt *s, const AuTileStmt *branch)
{
    AuLower *l = run->l;
    AuTileExpr *value = tile_assigned(s);
    if (!value) return;
    if (lower_held(l, s->var)->in_parts) value = lower_in_parts(l, value);
    if (is_only_asked(run, s->var, value)) value = lower_asked_in_parts(l, value);
    add_reductions(run, value, branch);
    if (define_lightly(l, s->var, value)) return;
    AuSpaces spaces = {.count = 0};
    if (s->var->type->count) spaces = lower_spaces(l, s->var->type);
    add_item(run, (Item){.var = s->var, .expr = value, .spaces = spaces, .branch = branch});
}

/* `if anywhere(x)`: assignments behind its test: its items have one level, and come one after the other. */
static void add_branch(Run *run, const AuTileStmt *s)
{
    const uint32_t first = run->count;
    uint32_t level = 0;
    for (uint32_t n = 0; n < s->branch.then.count; n++)
        add_assignment(run, s->branch.then.at[n], s);
    const uint32_t other = run->count;
    for (uint32_t n = 0; n < s->branch.other.count; n++)
        add_assignment(run, s->branch.other.at[n], s);
    for (uint32_t n = other; n < run->count; n++) run->items[n].otherwise = true;
    for (uint32_t n = first; n < run->count; n++) at_least(&level, run->items[n].level);
    for (uint32_t n = first; n < run->count; n++) run->items[n].level = level;
}

void lower_find_items(Run *run, AuTileStmt *const *statements, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const AuTileStmt *s = statements[n];
        lower_at_statement(run->l, s);
        if (s->kind == TILE_S_IF)
            add_branch(run, s);
        else
            add_assignment(run, s, NULL);
    }
    if (run->l->failed) return;
    share_loops(run);
    decide_stores(run);
}

void lower_find_reductions(Run *run, AuTileExpr *e)
{
    add_reductions(run, e, NULL);
    share_loops(run);
}
