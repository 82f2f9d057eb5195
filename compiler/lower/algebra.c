/* algebra.c - warps: the same run of assignments with fewer instructions for each pair.
 *
 * In:  a run as it is in one segment. Out: one that computes the same up to a rounding of the
 * exponent as large as the rounding of the score itself; operands of matrix units have 16 bits.
 *
 *     x = x * c, c > 0                     left out; maxima of x and what else reads x take the factor
 *     exp(x - y), y of a row               exp2(x * log2(e) + r),  r = y * -log2(e) once a row
 *     where(test, exp(x - y), 0)           the same, r = min(r, the largest number), and no selection, if
 *                                          the test is x > -inf or reduce_max(x) > -inf
 *     where(test, exp(x - y) * (u + z) * c, 0)   likewise, u a product and z of a row: two
 *                                          multiply-adds and a product
 *
 * A pair of softmax is then a maximum, a multiply-add, an exp2, a sum and half a conversion. */
#include "internal.h"

#include <float.h>
#include <math.h>

static const double LOG2E = 1.4426950408889634074;

typedef struct Algebra {
    AuLower *l;
    AuTileStmts run; /* the new one */
    /* The factor that is left out. */
    const AuTileVar *scaled;
    double factor;
} Algebra;

/* ---- expressions */

static AuTileExpr *node(Algebra *x, AuTileOp op, const AuTileType *type, AuTileExpr *a,
                        AuTileExpr *b, AuTileExpr *c)
{
    AuTileExpr *e = AU_NEW(x->l->arena, AuTileExpr);
    AuTileExpr *const args[3] = {a, b, c};
    *e = (AuTileExpr){.op = op, .type = type, .span = x->l->span};
    for (int n = 0; n < 3 && args[n]; n++)
        AU_PUSH(x->l->arena, e->args.at, e->args.count, e->args.capacity, args[n]);
    return e;
}

static AuTileExpr *number(Algebra *x, double value)
{
    static const AuTileType f32 = {.elem = TILE_F32};
    AuTileExpr *e = node(x, TILE_X_FLOAT, &f32, NULL, NULL, NULL);
    e->number = (double)(float)value;
    return e;
}

static AuTileExpr *name_of(Algebra *x, const AuTileVar *var)
{
    AuTileExpr *e = node(x, TILE_X_NAME, var->type, NULL, NULL, NULL);
    e->name = var->name;
    e->var = (AuTileVar *)var;
    return e;
}

static bool is_number(const AuTileExpr *e, double value)
{
    if (e->op == TILE_X_NEG) return is_number(e->args.at[0], -value);
    return (e->op == TILE_X_FLOAT && e->number == value) ||
           (e->op == TILE_X_INT && (double)e->integer == value);
}

/* Has [row] fewer axes than [all], each of them with a place? */
static bool is_of_row(const AuTileExpr *row, const AuTileExpr *all)
{
    if (!row->type || !all->type || row->type->count >= all->type->count) return false;
    for (uint32_t n = 0; n < row->type->count; n++)
        if (!row->type->axes[n].places || !tile_axis(all->type, row->type->axes[n].name))
            return false;
    return row->type->elem == TILE_F32;
}

/* ---- statements */

static AuTileStmt *assign(Algebra *x, const AuTileVar *var, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(x->l->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_ASSIGN, .span = x->l->span, .var = (AuTileVar *)var};
    s->assign.value = value;
    AU_PUSH(x->l->arena, x->run.at, x->run.count, x->run.capacity, s);
    return s;
}

static const AuTileExpr *value_of(const AuTileStmt *s)
{
    return s->kind == TILE_S_FRAG ? s->frag.init : s->assign.value;
}

/* The last assignment of the variable among the first [count] statements. */
static const AuTileExpr *defined(const AuTileStmts *run, uint32_t count, const AuTileExpr *name)
{
    for (uint32_t n = count; n-- > 0 && name->op == TILE_X_NAME;)
        if (run->at[n]->var == name->var) return value_of(run->at[n]);
    return NULL;
}

/* A value of a row of its own; expressions take it by name. */
static AuTileExpr *row_value(Algebra *x, AuTileExpr *value)
{
    AuTileVar *var = lower_new_var(x->l, "exponent", value->type);
    if (!var) return value;
    assign(x, var, value);
    return name_of(x, var);
}

/* ---- exponents */

static bool is_exponent(const AuTileExpr *e)
{
    return e->op == TILE_X_EXP && e->args.at[0]->op == TILE_X_SUB &&
           is_of_row(e->args.at[0]->args.at[1], e->args.at[0]->args.at[0]);
}

/* Is the variable as it was, from after statement [from] up to [to]? */
static bool stays(const AuTileStmts *run, const AuTileVar *var, uint32_t from, uint32_t to)
{
    for (uint32_t n = from + 1; n < to; n++)
        if (run->at[n]->var == var) return false;
    return true;
}

/* Where x was made in this run as another variable times a number, that is what the exponent is made
 * of: a * number. */
static AuTileExpr *times(Algebra *x, const AuTileStmts *run, uint32_t at, AuTileExpr *a, double by)
{
    uint32_t d = at;
    while (a->op == TILE_X_NAME && d-- > 0) {
        if (run->at[d]->var != a->var) continue;
        const AuTileExpr *e = value_of(run->at[d]);
        for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
            AuTileExpr *of = e->args.at[n];
            const AuTileExpr *c = e->args.at[1 - n];
            if (of->op == TILE_X_NAME && of->var != a->var && c->op == TILE_X_FLOAT &&
                stays(run, of->var, d, at))
                return node(x, TILE_X_MUL, a->type, of, number(x, by * c->number), NULL);
        }
        break;
    }
    return node(x, TILE_X_MUL, a->type, a, number(x, by), NULL);
}

/* [guarded]: y may be -inf where x is; then the result is 0, as -inf and any finite r make it. */
static AuTileExpr *by_exp2(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *e,
                           bool guarded)
{
    AuTileExpr *a = e->args.at[0]->args.at[0], *y = e->args.at[0]->args.at[1];
    AuTileExpr *row = node(x, TILE_X_MUL, y->type, y, number(x, -LOG2E), NULL);
    if (guarded) row = node(x, TILE_X_MIN, y->type, row, number(x, (double)FLT_MAX), NULL);
    return node(x, TILE_X_EXP2, e->type,
                node(x, TILE_X_ADD, e->type, times(x, run, at, a, LOG2E), row_value(x, row), NULL),
                NULL, NULL);
}

/* Is e where(test, .., 0), t = exp(x - y), and the test false only where x is -inf: x > -inf itself, or
 * reduce_max(x) > -inf? */
static bool is_guarded(const AuTileStmts *run, uint32_t at, const AuTileExpr *t,
                       const AuTileExpr *e)
{
    if (e->op != TILE_X_WHERE || !is_number(e->args.at[2], 0) || !t || !is_exponent(t))
        return false;
    const AuTileExpr *test = defined(run, at, e->args.at[0]);
    if (!test || test->op != TILE_X_GT || !is_number(test->args.at[1], -(double)INFINITY))
        return false;
    const AuTileExpr *of = test->args.at[0], *x = t->args.at[0]->args.at[0];
    if (lower_is_max(of)) of = of->args.at[0];
    return of->op == TILE_X_NAME && x->op == TILE_X_NAME && of->var == x->var;
}

/* Is statement [t], an exp, read under its guard later in the run? */
static bool is_guarded_later(const AuTileStmts *run, uint32_t t)
{
    const AuTileStmt *s = run->at[t];
    const AuTileExpr *x = value_of(s)->args.at[0]->args.at[0];
    for (uint32_t n = t + 1; n < run->count; n++) {
        const AuTileExpr *e = value_of(run->at[n]);
        if (e->op == TILE_X_WHERE && e->args.at[1]->op == TILE_X_NAME &&
            e->args.at[1]->var == s->var && is_guarded(run, n, value_of(s), e))
            return true;
        if (run->at[n]->var == s->var || (x->op == TILE_X_NAME && run->at[n]->var == x->var))
            return false;
    }
    return false;
}

/* ---- gradients: where(x > -inf, t * (u + z) * c, 0) is t * (u * c + r), r = z * c made finite */

typedef struct Factors {
    AuTileExpr *t, *sum;
    double number;
    bool good;
} Factors;

static void find_factors(AuTileExpr *e, const AuTileStmts *run, uint32_t at, Factors *f)
{
    const AuTileExpr *value = e->op == TILE_X_NAME ? defined(run, at, e) : NULL;
    if (e->op == TILE_X_MUL) {
        find_factors(e->args.at[0], run, at, f);
        find_factors(e->args.at[1], run, at, f);
    } else if (e->op == TILE_X_FLOAT)
        f->number *= e->number;
    else if (value && is_exponent(value) && !f->t)
        f->t = e;
    else if ((e->op == TILE_X_ADD || e->op == TILE_X_SUB) && !f->sum)
        f->sum = e;
    else
        f->good = false;
}

/* A product that the loop sets anew, and so a finite number: not the exponent itself. */
static bool is_product(const Algebra *x, const AuTileExpr *e, const AuTileExpr *exponent)
{
    return e->op == TILE_X_NAME && e->var->origin == TILE_FROM_BODY &&
           lower_held(x->l, e->var)->restarted && !lower_count_reads(exponent, e->var);
}

static AuTileExpr *gradient(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *e)
{
    Factors f = {.number = 1, .good = true};
    if (e->op != TILE_X_WHERE) return NULL;
    find_factors(e->args.at[1], run, at, &f);
    if (!f.good || !f.t || !f.sum) return NULL;
    const AuTileExpr *t = defined(run, at, f.t);
    const bool first = is_of_row(f.sum->args.at[1], e); /* u + z, else z + u */
    AuTileExpr *u = f.sum->args.at[first ? 0 : 1], *z = f.sum->args.at[first ? 1 : 0];
    const AuTileExpr *source = defined(run, at, t->args.at[0]->args.at[0]);
    if (!is_guarded(run, at, t, e) || !is_of_row(z, e) || (source && !is_product(x, u, source)) ||
        !is_product(x, u, t->args.at[0]->args.at[0]))
        return NULL;
    const bool minus = f.sum->op == TILE_X_SUB;
    AuTileExpr *row =
        node(x, TILE_X_MUL, z->type, z, number(x, minus && first ? -f.number : f.number), NULL);
    row = node(x, TILE_X_MIN, z->type, row, number(x, (double)FLT_MAX), NULL);
    row = node(x, TILE_X_MAX, z->type, row, number(x, -(double)FLT_MAX), NULL);
    AuTileExpr *scaled =
        node(x, TILE_X_MUL, u->type, u, number(x, minus && !first ? -f.number : f.number), NULL);
    return node(x, TILE_X_MUL, e->type, f.t,
                node(x, TILE_X_ADD, u->type, scaled, row_value(x, row), NULL), NULL);
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
    AuTileExpr *one = node(x, TILE_X_INT, bound->type, NULL, NULL, NULL);
    one->integer = 1;
    return node(x, TILE_X_SUB, bound->type, bound, one, NULL);
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
    return node(x, TILE_X_LE, e->type, e->args.at[0]->args.at[0],
                node(x, TILE_X_MIN, type, bound[0], bound[1], NULL), NULL);
}

static AuTileExpr *exponents_in(Algebra *x, const AuTileStmts *run, uint32_t at, AuTileExpr *e)
{
    bool changed = false;
    AuTileExpr copy = *e;
    copy.args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++) {
        AuTileExpr *arg = e->args.at[n] ? exponents_in(x, run, at, e->args.at[n]) : NULL;
        changed |= arg != e->args.at[n];
        AU_PUSH(x->l->arena, copy.args.at, copy.args.count, copy.args.capacity, arg);
    }
    if (changed) {
        e = AU_NEW(x->l->arena, AuTileExpr);
        *e = copy;
    }
    return is_exponent(e) ? by_exp2(x, run, at, e, false) : joined_bounds(x, e);
}

static void exponents(Algebra *x, const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        const AuTileStmt *s = run->at[n];
        x->l->span = s->span;
        AuTileExpr *value = (AuTileExpr *)value_of(s), *better = gradient(x, run, n, value);
        if (is_exponent(value) && is_guarded_later(run, n))
            better = by_exp2(x, run, n, value, true);
        else if (value->op == TILE_X_WHERE &&
                 is_guarded(run, n, defined(run, n, value->args.at[1]), value))
            better = value->args.at[1];
        assign(x, s->var, better ? better : exponents_in(x, run, n, value));
    }
}

/* ---- a positive factor */

/* x * c with a number c > 0; 0: it is not. */
static double factor_of(const AuTileExpr *e, const AuTileVar *var)
{
    for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
        const AuTileExpr *a = e->args.at[n], *c = e->args.at[1 - n];
        if (a->op == TILE_X_NAME && a->var == var && c->op == TILE_X_FLOAT && c->number > 0)
            return c->number;
    }
    return 0;
}

/* where(c, x, -inf): scaled as x is. */
static bool is_masking(const AuTileExpr *e, const AuTileVar *var)
{
    return e->op == TILE_X_WHERE && !lower_count_reads(e->args.at[0], var) &&
           e->args.at[1]->op == TILE_X_NAME && e->args.at[1]->var == var &&
           is_number(e->args.at[2], -(double)INFINITY);
}

/* Is the factor left out of all that the variable holds from statement [at] on? */
static bool can_leave_out(const Algebra *x, const AuTileStmts *run, uint32_t at)
{
    const AuTileVar *var = run->at[at]->var;
    if (!lower_ends_in_run(x->l, var)) return false;
    for (uint32_t n = at + 1; n < run->count; n++)
        if (run->at[n]->var == var && !is_masking(value_of(run->at[n]), var)) return false;
    return true;
}

static AuTileExpr *with_factor(Algebra *x, AuTileExpr *e)
{
    const bool whole = e->op == TILE_X_NAME && e->var == x->scaled,
               maximum = lower_is_max(e) && e->args.at[0]->op == TILE_X_NAME &&
                         e->args.at[0]->var == x->scaled;
    if (whole || maximum) return node(x, TILE_X_MUL, e->type, e, number(x, x->factor), NULL);
    /* x * number: one number */
    for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
        const AuTileExpr *a = e->args.at[n], *c = e->args.at[1 - n];
        if (a->op == TILE_X_NAME && a->var == x->scaled && c->op == TILE_X_FLOAT)
            return node(x, TILE_X_MUL, e->type, (AuTileExpr *)a, number(x, c->number * x->factor),
                        NULL);
    }
    AuTileExpr *copy = AU_NEW(x->l->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(x->l->arena, copy->args.at, copy->args.count, copy->args.capacity,
                e->args.at[n] ? with_factor(x, e->args.at[n]) : NULL);
    return copy;
}

static void leave_out_factor(Algebra *x)
{
    const AuTileStmts run = x->run;
    x->run = (AuTileStmts){0};
    for (uint32_t n = 0; n < run.count; n++) {
        AuTileStmt *s = run.at[n];
        AuTileExpr *value = (AuTileExpr *)value_of(s);
        const double factor = x->scaled ? 0 : factor_of(value, s->var);
        x->l->span = s->span;
        if (factor > 0 && can_leave_out(x, &run, n))
            x->scaled = s->var, x->factor = factor;
        else if (!x->scaled || is_masking(value, x->scaled) || !lower_count_reads(value, x->scaled))
            AU_PUSH(x->l->arena, x->run.at, x->run.count, x->run.capacity, s);
        else
            assign(x, s->var, with_factor(x, value));
    }
}

void lower_improve(AuLower *l, AuTileStmts *run)
{
    Algebra x = {.l = l};
    exponents(&x, run);
    leave_out_factor(&x);
    *run = x.run;
}
