/* seldom.c - what is hardly ever asked is computed in a branch, with `option passing`.
 *
 * Whether a row has a pair, or a NaN, which maxima leave out, is
 *
 *     any = reduce_max(x) > -inf || reduce_sum(x) != reduce_sum(x)
 *
 * where no maximum keeps NaN. The sum costs an operation a pair and is asked for only where all pairs are -inf or NaN:
 *
 *     any = reduce_max(x) > -inf
 *     none = !any
 *     if anywhere(none) { any = any || reduce_sum(x) != reduce_sum(x) }
 *
 * Where the run makes a copy of x anyway, which another branch changes (references.c), the sum is that of the copy, made before: so x is read
 * for the last time by the copy, which takes its registers.
 *
 * Last of the steps of exponents, since a branch is none of the assignments that they look at. */
#include "algebra.h"

static bool has_sum(const AuTileExpr *e)
{
    if (e->op == TILE_X_REDUCE_SUM) return true;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n] && has_sum(e->args.at[n])) return true;
    return false;
}

/* a > b || c != c, c with a sum over pairs */
static bool is_seldom_asked(const AuTileStmt *s)
{
    if (s->kind != TILE_S_ASSIGN) return false;
    const AuTileExpr *e = tile_assigned(s);
    return e->op == TILE_X_OR && e->type->count && e->args.at[0]->op == TILE_X_GT &&
           e->args.at[1]->op == TILE_X_NE && !has_sum(e->args.at[0]) && has_sum(e->args.at[1]);
}

/* Where the run makes a copy of the variable, own = x; its length: nowhere. */
static uint32_t copy_of(const AuTileStmts *run, const AuTileVar *var)
{
    uint32_t n = 0;
    for (; var && n < run->count; n++) {
        const AuTileStmt *s = run->at[n];
        const AuTileExpr *e = s->kind == TILE_S_ASSIGN ? tile_assigned(s) : NULL;
        if (e && e->op == TILE_X_NAME && e->var == var) break;
    }
    return var ? n : run->count;
}

/* May statement [at], which reads [of] alone, stand in front of those from [first] on? */
static bool moves_to(const AuTileStmts *run, uint32_t first, uint32_t at, const AuTileVar *of)
{
    const AuTileVar *var = run->at[at]->var;
    for (uint32_t n = first; n < at; n++) {
        const AuTileStmts one = {.at = run->at + n, .count = 1};
        if (run->at[n]->var == of || tile_count_uses(&one, var)) return false;
    }
    return true;
}

/* The variable that is summed; NULL: what is summed has several. */
static const AuTileVar *summed(const AuTileExpr *e)
{
    const AuTileVar *found = NULL;
    if (e->op == TILE_X_NAME) return e->var;
    for (uint32_t n = 0; n < e->args.count; n++) {
        const AuTileVar *var = e->args.at[n] ? summed(e->args.at[n]) : NULL;
        if (var && found && var != found) return NULL;
        if (var) found = var;
    }
    return found;
}

static void push(Algebra *x, AuTileStmt *s)
{
    AU_PUSH(x->p->arena, x->run.at, x->run.count, x->run.capacity, s);
}

/* [copy]: of what is summed, stands before; NULL: there is none. */
static void in_branch(Algebra *x, AuTileStmt *s, const AuTileVar *var, AuTileStmt *copy)
{
    AuTileExpr *e = tile_assigned(s), *any = algebra_name(x, s->var), *sum = e->args.at[1];
    x->p->span = s->span;
    algebra_set(x, s, e->args.at[0]);
    if (copy) sum = pass_with(x->p, sum, var, algebra_name(x, copy->var));
    AuTileExpr *none =
        algebra_new_value(x, "none", algebra_node(x, TILE_X_NOT, e->type, any, NULL, NULL));
    const AuTileStmts outer = x->run;
    x->run = (AuTileStmts){0};
    algebra_assign(x, s->var, algebra_node(x, TILE_X_OR, e->type, any, sum, NULL));
    AuTileStmt *branch = pass_branch(x->p, none, x->p->span);
    branch->branch.then = x->run;
    x->run = outer;
    push(x, branch);
}

void algebra_seldom(Algebra *x, const AuTileStmts *run)
{
    uint32_t at = 0;
    while (at < run->count && !(x->p->module->options.passing && is_seldom_asked(run->at[at])))
        at++;
    const AuTileVar *var = at < run->count ? summed(tile_assigned(run->at[at])->args.at[1]) : NULL;
    uint32_t copy = copy_of(run, var);
    if (copy >= at || !moves_to(run, copy, at, var)) copy = run->count;
    for (uint32_t n = 0; n < run->count; n++) {
        if (n == copy) {
            push(x, run->at[n]);
            in_branch(x, run->at[at], var, run->at[copy]);
        } else if (n != at)
            push(x, run->at[n]);
        else if (copy == run->count)
            in_branch(x, run->at[at], var, NULL);
    }
}
