/* algebra.c - the same run of assignments with fewer instructions for each pair.
 *
 * In:  a run as it is in one segment. Out: one that computes the same up to a rounding of the
 * exponent as large as the rounding of the score itself; operands of matrix units have 16 bits.
 *
 *     distances of positions               distances.c
 *     exponents of rows, gradients         exponents.c
 *     j < a && j <= b                      j <= min(a - 1, b)
 *     x = x * c, c > 0                     left out; maxima of x and what else reads x take the factor
 *     exp2(x * c + r), r large              x less its reference first (references.c)
 *
 * A pair of softmax is then a maximum, a multiply-add, an exp2, a sum and half a conversion. */
#include "algebra.h"

#include <math.h>

/* ---- expressions */

AuTileExpr *algebra_node(Algebra *x, AuTileOp op, const AuTileType *type, AuTileExpr *a,
                         AuTileExpr *b, AuTileExpr *c)
{
    AuTileExpr *e = AU_NEW(x->p->arena, AuTileExpr);
    AuTileExpr *const args[3] = {a, b, c};
    *e = (AuTileExpr){.op = op, .type = type, .span = x->p->span};
    for (int n = 0; n < 3 && args[n]; n++)
        AU_PUSH(x->p->arena, e->args.at, e->args.count, e->args.capacity, args[n]);
    return e;
}

AuTileExpr *algebra_with(Algebra *x, const AuTileExpr *e, AuTileExpr *const *args)
{
    AuTileExpr *copy = AU_NEW(x->p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(x->p->arena, copy->args.at, copy->args.count, copy->args.capacity, args[n]);
    return copy;
}

AuTileExpr *algebra_number(Algebra *x, double value)
{
    static const AuTileType f32 = {.elem = TILE_F32};
    AuTileExpr *e = algebra_node(x, TILE_X_FLOAT, &f32, NULL, NULL, NULL);
    e->number = (double)(float)value;
    return e;
}

const AuTileType *algebra_bool_type(Algebra *x, const AuTileType *type)
{
    AuTileType *out = AU_NEW(x->p->arena, AuTileType);
    *out = *type;
    out->elem = TILE_BOOL;
    return out;
}

AuTileExpr *algebra_name(Algebra *x, AuTileVar *var)
{
    AuTileExpr *e = algebra_node(x, TILE_X_NAME, var->type, NULL, NULL, NULL);
    e->name = var->name;
    e->var = var;
    return e;
}

bool algebra_is_number(const AuTileExpr *e, double value)
{
    if (e->op == TILE_X_NEG) return algebra_is_number(e->args.at[0], -value);
    return (e->op == TILE_X_FLOAT && e->number == value) ||
           (e->op == TILE_X_INT && (double)e->integer == value);
}

/* Has [row] fewer axes than [all], each of them with a place? */
bool algebra_is_of_row(const AuTileExpr *row, const AuTileExpr *all)
{
    if (!row->type || !all->type || row->type->count >= all->type->count) return false;
    for (uint32_t n = 0; n < row->type->count; n++)
        if (!row->type->axes[n].places || !tile_axis(all->type, row->type->axes[n].name))
            return false;
    return row->type->elem == TILE_F32;
}

/* ---- statements */

static void append(Algebra *x, AuTileStmt *s) { pass_push(x->p, &x->run, s); }

void algebra_assign(Algebra *x, AuTileVar *var, AuTileExpr *value)
{
    AuTileStmt *s = pass_assignment(x->p, var->name, value, x->p->span);
    s->var = var;
    append(x, s);
}

void algebra_set(Algebra *x, const AuTileStmt *s, AuTileExpr *value)
{
    AuTileStmt *copy = AU_NEW(x->p->arena, AuTileStmt);
    *copy = *s;
    *(s->kind == TILE_S_FRAG ? &copy->frag.init : &copy->assign.value) = value;
    append(x, copy);
}

/* The last assignment of the variable among the first [count] statements. */
AuTileExpr *algebra_defined(const AuTileStmts *run, uint32_t count, const AuTileExpr *name)
{
    for (uint32_t n = count; n-- > 0 && name->op == TILE_X_NAME;)
        if (run->at[n]->var == name->var) return tile_assigned(run->at[n]);
    return NULL;
}

AuTileExpr *algebra_new_value(Algebra *x, const char *name, AuTileExpr *value)
{
    AuTileVar *var = pass_new_var(x->p, name, value->type);
    algebra_assign(x, var, value);
    return algebra_name(x, var);
}

AuTileExpr *algebra_new_fragment(Algebra *x, const char *name, AuTileExpr *value,
                                 const AuTileVar *like)
{
    AuTileVar *var = pass_new_var(x->p, name, value->type);
    AuTileStmt *s = AU_NEW(x->p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_FRAG, .span = x->p->span, .var = var};
    s->frag.name = var->name;
    s->frag.type = pass_written_type(x->p, value->type);
    s->frag.layout = (AuTileLayoutRef){.kind = TILE_LIKE, .name = like->name};
    s->frag.init = value;
    append(x, s);
    return algebra_name(x, var);
}

/* ---- bounds of one index: j < a && j <= b is j <= min(a - 1, b), a comparison for each pair less */

/* The bound of `j <= bound`, j a tile of indices or a number of it; NULL: it is none. */
static AuTileExpr *upper_bound(Algebra *x, const AuTileExpr *e, const AuTileVar **of)
{
    if ((e->op != TILE_X_LT && e->op != TILE_X_LE) || e->args.at[0]->op != TILE_X_NAME) return NULL;
    AuTileExpr *bound = e->args.at[1];
    *of = e->args.at[0]->var;
    if (!*of || !(*of)->type->count || bound->type->elem != TILE_I32 ||
        (*of)->type->elem != TILE_I32 || !tile_is_virtual((*of)->type))
        return NULL;
    if (e->op == TILE_X_LE) return bound;
    AuTileExpr *one = algebra_node(x, TILE_X_INT, bound->type, NULL, NULL, NULL);
    one->integer = 1;
    return algebra_node(x, TILE_X_SUB, bound->type, bound, one, NULL);
}

static AuTileExpr *joined_bounds(Algebra *x, AuTileExpr *e)
{
    const AuTileVar *of[2] = {NULL, NULL};
    AuTileExpr *bound[2];
    if (e->op != TILE_X_AND) return e;
    for (int n = 0; n < 2; n++)
        if (!(bound[n] = upper_bound(x, e->args.at[n], &of[n]))) return e;
    if (of[0] != of[1]) return e;
    const AuTileType *type = bound[0]->type->count ? bound[0]->type : bound[1]->type;
    return algebra_node(x, TILE_X_LE, e->type, e->args.at[0]->args.at[0],
                        algebra_node(x, TILE_X_MIN, type, bound[0], bound[1], NULL), NULL);
}

static AuTileExpr *bounds_in(Algebra *x, AuTileExpr *e)
{
    bool changed = false;
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++) {
        args[n] = e->args.at[n] ? bounds_in(x, e->args.at[n]) : NULL;
        changed |= args[n] != e->args.at[n];
    }
    return joined_bounds(x, changed ? algebra_with(x, e, args) : e);
}

static void bounds(Algebra *x, const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        x->p->span = run->at[n]->span;
        algebra_set(x, run->at[n], bounds_in(x, tile_assigned(run->at[n])));
    }
}

/* ---- reduce_max(x) > -inf || reduce_sum(x) != reduce_sum(x): a maximum that is NaN where a value is tells as much */

static bool is_sum_of(const AuTileExpr *e, const AuTileVar *var)
{
    return e->op == TILE_X_REDUCE_SUM && e->args.at[0]->op == TILE_X_NAME &&
           e->args.at[0]->var == var;
}

/* The variable x; NULL: it is no such test. */
static const AuTileVar *tested(const AuTileExpr *e)
{
    if (e->op != TILE_X_OR || e->args.at[0]->op != TILE_X_GT || e->args.at[1]->op != TILE_X_NE)
        return NULL;
    const AuTileExpr *most = e->args.at[0]->args.at[0];
    if (!tile_is_max(most)) return NULL;
    const AuTileExpr *x = most->args.at[0];
    const bool same = x->op == TILE_X_NAME && is_sum_of(e->args.at[1]->args.at[0], x->var) &&
                      is_sum_of(e->args.at[1]->args.at[1], x->var);
    return same ? x->var : NULL;
}

static AuTileExpr *with_nan(Algebra *x, AuTileExpr *e, const AuTileVar *var)
{
    if (!tile_count_reads(e, var)) return e;
    if (tested(e) == var)
        return algebra_node(x, TILE_X_NE, e->type, with_nan(x, e->args.at[0]->args.at[0], var),
                            e->args.at[0]->args.at[1], NULL);
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++)
        args[n] = e->args.at[n] ? with_nan(x, e->args.at[n], var) : NULL;
    AuTileExpr *copy = algebra_with(x, e, args);
    if (tile_is_max(e) && args[0]->op == TILE_X_NAME) copy->op = TILE_X_REDUCE_MAXNAN;
    return copy;
}

static void maxima(Algebra *x, const AuTileStmts *run)
{
    const AuTileVar *var = NULL;
    for (uint32_t n = 0; n < run->count && !var && x->p->module->caps->max_with_nan; n++)
        var = tested(tile_assigned(run->at[n]));
    for (uint32_t n = 0; n < run->count; n++) {
        AuTileExpr *value = tile_assigned(run->at[n]);
        x->p->span = run->at[n]->span;
        algebra_set(x, run->at[n], var ? with_nan(x, value, var) : value);
    }
}

/* ---- a positive factor */

/* x * c with a number c > 0; 0: it is not. */
static double factor_of(const AuTileExpr *e, const AuTileVar *var)
{
    for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
        AuTileExpr *a = e->args.at[n];
        const AuTileExpr *c = e->args.at[1 - n];
        if (a->op == TILE_X_NAME && a->var == var && c->op == TILE_X_FLOAT && c->number > 0)
            return c->number;
    }
    return 0;
}

/* where(c, x, -inf): scaled as x is. */
bool algebra_is_masking(const AuTileExpr *e, const AuTileVar *var)
{
    return e->op == TILE_X_WHERE && !tile_count_reads(e->args.at[0], var) &&
           e->args.at[1]->op == TILE_X_NAME && e->args.at[1]->var == var &&
           algebra_is_number(e->args.at[2], -(double)INFINITY);
}

/* Is the factor left out of all that the variable holds from statement [at] on? */
bool algebra_can_leave_out(const Algebra *x, const AuTileStmts *run, uint32_t at)
{
    const AuTileVar *var = run->at[at]->var;
    if (!pass_ends_in_run(x->p, var)) return false;
    for (uint32_t n = at + 1; n < run->count; n++)
        if (run->at[n]->var == var && !algebra_is_masking(tile_assigned(run->at[n]), var))
            return false;
    return true;
}

static AuTileExpr *with_factor(Algebra *x, AuTileExpr *e)
{
    const bool whole = e->op == TILE_X_NAME && e->var == x->scaled,
               maximum = tile_is_max(e) && e->args.at[0]->op == TILE_X_NAME &&
                         e->args.at[0]->var == x->scaled;
    if (whole || maximum)
        return algebra_node(x, TILE_X_MUL, e->type, e, algebra_number(x, x->factor), NULL);
    /* x * number: one number */
    for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
        AuTileExpr *a = e->args.at[n];
        const AuTileExpr *c = e->args.at[1 - n];
        if (a->op == TILE_X_NAME && a->var == x->scaled && c->op == TILE_X_FLOAT)
            return algebra_node(x, TILE_X_MUL, e->type, a, algebra_number(x, c->number * x->factor),
                                NULL);
    }
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++)
        args[n] = e->args.at[n] ? with_factor(x, e->args.at[n]) : NULL;
    return algebra_with(x, e, args);
}

static void leave_out_factor(Algebra *x, const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        AuTileStmt *s = run->at[n];
        AuTileExpr *value = tile_assigned(s);
        const double factor = x->scaled ? 0 : factor_of(value, s->var);
        x->p->span = s->span;
        if (factor > 0 && algebra_can_leave_out(x, run, n))
            x->scaled = s->var, x->factor = factor;
        else if (!x->scaled || algebra_is_masking(value, x->scaled) ||
                 !tile_count_reads(value, x->scaled))
            append(x, s);
        else
            algebra_set(x, s, with_factor(x, value));
    }
}

/* ---- the passes */

static void one(Pass *p, AuTileStmts *run, void (*step)(Algebra *, const AuTileStmts *))
{
    Algebra x = {.p = p};
    step(&x, run);
    *run = x.run;
}

static void bounds_of_run(Pass *p, AuTileStmts *run) { one(p, run, bounds); }
static void maxima_of_run(Pass *p, AuTileStmts *run) { one(p, run, maxima); }

static void exponents_of_run(Pass *p, AuTileStmts *run)
{
    static void (*const steps[])(Algebra *, const AuTileStmts *) = {
        algebra_distances, algebra_exponents, leave_out_factor, algebra_references, algebra_seldom};
    Algebra x = {.p = p};
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        x.run = (AuTileStmts){0};
        steps[n](&x, run);
        *run = x.run;
    }
}

void pass_bounds(Pass *p) { pass_each_run(p, bounds_of_run); }
void pass_maxima(Pass *p) { pass_each_run(p, maxima_of_run); }
/* Not where a block holds matrices: whether an exponent is far there is a question to all rows of the block, through shared memory, in each tile; without
 * it forward took 0.93 of the time at width 128 and 0.85 at 64 (an H200, docs/dev/blocks.md, 8). */
void pass_exponents(Pass *p)
{
    const AuTileAtom *atom = tile_best_atom(p->module->caps, TILE_F16, TILE_ON_WARP);
    if (!atom || !atom->of_block) pass_each_run(p, exponents_of_run);
}
