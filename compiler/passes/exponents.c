/* exponents.c - exponents of rows and the gradients that are made of them.
 *
 *     exp(x - y), y of a row               exp2(x * log2(e) + r),  r = y * -log2(e) once a row; where r is large: references.c
 *     exp(x - y - rest), both of a row     the same: rest is less than y's rounding, and counts where r is large; with
 *                                          `option parted` y + rest is y
 *     where(test, exp(x - y), 0)           the same, 0 where y and x are -inf (references.c), and no selection, if
 *                                          the test is x != -inf, or that for a row (hooks.c)
 *     t = exp(x - y), where(test, t * (u + z) * c, 0)
 *                                          t * fma(u, c, z c), u a product and z of a row, 0 in rows without a pair: 0 as t is, no selection
 *     g = t * (u + z), where(test, g * c, 0), where(test, -(g * f), 0)
 *                                          the same for g, which several read; f a distance of positions */
#include "algebra.h"

#include <math.h>

/* Of sums, how deep they are looked into: what one adds may be the same sum again and again. */
enum { DEEPEST_SUM = 8 };

/* ---- exponents */

/* x - y, y of a row. */
static bool is_difference(const AuTileExpr *e)
{
    return e->op == TILE_X_SUB && algebra_is_of_row(e->args.at[1], e->args.at[0]);
}

bool algebra_is_exponent(const AuTileExpr *e, AlgebraExponent *of)
{
    if (e->op != TILE_X_EXP || !is_difference(e->args.at[0])) return false;
    const AuTileExpr *whole = e->args.at[0], *first = whole->args.at[0];
    const bool parted = is_difference(first);
    if (of && parted)
        *of = (AlgebraExponent){first->args.at[0], first->args.at[1], whole->args.at[1]};
    else if (of)
        *of = (AlgebraExponent){whole->args.at[0], whole->args.at[1], NULL};
    return true;
}

/* Is the variable as it was, from after statement [from] up to [to]? */
static bool stays(const AuTileStmts *run, const AuTileVar *var, uint32_t from, uint32_t to)
{
    for (uint32_t n = from + 1; n < to; n++)
        if (run->at[n]->var == var) return false;
    return true;
}

/* Where x was made in this run as another variable times a number, that variable is what the exponent is
 * made of: x becomes it, the result is the number. Else 1. */
static double take_factor(const AuTileStmts *run, uint32_t at, AuTileExpr **x)
{
    const AuTileExpr *a = *x;
    uint32_t d = at;
    while (a->op == TILE_X_NAME && d-- > 0) {
        if (run->at[d]->var != a->var) continue;
        const AuTileExpr *e = tile_assigned(run->at[d]);
        for (uint32_t n = 0; n < 2 && e->op == TILE_X_MUL; n++) {
            AuTileExpr *of = e->args.at[n];
            const AuTileExpr *c = e->args.at[1 - n];
            if (of->op == TILE_X_NAME && of->var != a->var && c->op == TILE_X_FLOAT &&
                c->number != 0 && stays(run, of->var, d, at)) {
                *x = of;
                return c->number;
            }
        }
        break;
    }
    return 1;
}

/* By name: a statement may change what an expression reads. */
static AuTileExpr *named(Algebra *x, AuTileExpr *y)
{
    return y->op == TILE_X_NAME ? y : algebra_new_value(x, "reference", y);
}

/* Notes what row = y * -log2(e) stands for; gives y as it is to be read. */
static AuTileExpr *reference(Algebra *x, const AuTileExpr *of, AuTileExpr *y, AlgebraReference *r)
{
    const bool shifted = of->op == TILE_X_NAME && of->var == x->shifted && y->op == TILE_X_SUB &&
                         y->args.at[1] == x->shift;
    if (!shifted) return r->y = named(x, y);
    r->shift = x->shift;
    r->y = named(x, y->args.at[0]);
    return algebra_node(x, TILE_X_SUB, y->type, r->y, r->shift, NULL);
}

/* [guarded]: y may be -inf where x is; then the result is 0. */
static AuTileExpr *by_exp2(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *e,
                           const AlgebraExponent *of, bool guarded)
{
    AuTileExpr *a = of->x;
    AlgebraReference r = {0};
    const bool parted = of->rest && x->p->module->options.parted;
    AuTileExpr *whole =
        parted ? algebra_node(x, TILE_X_ADD, of->y->type, of->y, of->rest, NULL) : of->y;
    AuTileExpr *y = reference(x, a, whole, &r);
    AuTileExpr *row =
        algebra_node(x, TILE_X_MUL, y->type, y, algebra_number(x, -ALGEBRA_LOG2E), NULL);
    r.guarded = guarded;
    r.lift = run->at[at]->var == x->lift.t ? x->lift.k : 0;
    if (r.lift != 0)
        row = algebra_node(x, TILE_X_ADD, y->type, row, algebra_number(x, r.lift), NULL);
    if (of->rest && !parted) r.rest = named(x, of->rest);
    row = algebra_new_value(x, "exponent", row);
    r.row = row->var;
    r.factor = take_factor(run, at, &a);
    AU_PUSH(x->p->arena, x->references.at, x->references.count, x->references.capacity, r);
    AuTileExpr *scaled =
        algebra_node(x, TILE_X_MUL, a->type, a, algebra_number(x, ALGEBRA_LOG2E * r.factor), NULL);
    return algebra_node(x, TILE_X_EXP2, e->type,
                        algebra_node(x, TILE_X_ADD, e->type, scaled, row, NULL), NULL, NULL);
}

/* Is e where(test, .., 0), t = exp(x - y), and the test false only where x is -inf: x != -inf itself, or reduce_max(x) > -inf
 * or a NaN among them? */
static bool is_guarded(const AuTileStmts *run, uint32_t at, const AuTileExpr *t,
                       const AuTileExpr *e)
{
    AlgebraExponent exponent;
    if (e->op != TILE_X_WHERE || !algebra_is_number(e->args.at[2], 0) || !t ||
        !algebra_is_exponent(t, &exponent))
        return false;
    const AuTileExpr *test = algebra_defined(run, at, e->args.at[0]);
    if (test && test->op == TILE_X_OR) test = test->args.at[0]; /* or a sum is NaN */
    if (!test || (test->op != TILE_X_GT && test->op != TILE_X_NE) ||
        !algebra_is_number(test->args.at[1], -(double)INFINITY))
        return false;
    const AuTileExpr *of = test->args.at[0], *x = exponent.x;
    if (tile_is_max(of)) of = of->args.at[0];
    return of->op == TILE_X_NAME && x->op == TILE_X_NAME && of->var == x->var;
}

/* Is statement [t], an exp of [x], read under its guard later in the run? */
static bool is_guarded_later(const AuTileStmts *run, uint32_t t, const AuTileExpr *x)
{
    const AuTileStmt *s = run->at[t];
    for (uint32_t n = t + 1; n < run->count; n++) {
        const AuTileExpr *e = tile_assigned(run->at[n]);
        if (e->op == TILE_X_WHERE && e->args.at[1]->op == TILE_X_NAME &&
            e->args.at[1]->var == s->var && is_guarded(run, n, tile_assigned(s), e))
            return true;
        if (run->at[n]->var == s->var || (x->op == TILE_X_NAME && run->at[n]->var == x->var))
            return false;
    }
    return false;
}

/* ---- gradients */

static void find_factors(AuTileExpr *e, const AuTileStmts *run, uint32_t at, AlgebraGradient *f)
{
    const AuTileExpr *value = e->op == TILE_X_NAME ? algebra_defined(run, at, e) : NULL;
    if (e->op == TILE_X_MUL) {
        find_factors(e->args.at[0], run, at, f);
        find_factors(e->args.at[1], run, at, f);
    } else if (e->op == TILE_X_FLOAT)
        f->number *= e->number;
    else if (value && algebra_is_exponent(value, NULL) && !f->t)
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
           pass_count(x->p, e->var)->restarted && !tile_count_reads(exponent, e->var);
}

/* Is e = t * (u + z) * number, t = exp(..), u a product and z of a row? */
static bool is_gradient(const Algebra *x, const AuTileStmts *run, uint32_t at, AuTileExpr *e,
                        AlgebraGradient *f)
{
    *f = (AlgebraGradient){.number = 1, .good = true};
    if (e->op != TILE_X_MUL) return false;
    find_factors(e, run, at, f);
    if (!f->good || !f->t || !f->sum) return false;
    AlgebraExponent of;
    if (!algebra_is_exponent(algebra_defined(run, at, f->t), &of)) return false;
    const AuTileExpr *from = of.x;
    const AuTileExpr *source = algebra_defined(run, at, from);
    const bool first = algebra_is_of_row(f->sum->args.at[1], e); /* u + z, else z + u */
    const AuTileExpr *u = f->sum->args.at[first ? 0 : 1], *z = f->sum->args.at[first ? 1 : 0];
    return algebra_is_of_row(z, e) && (!source || is_product(x, u, source)) &&
           is_product(x, u, from);
}

/* Does nothing but loads that say so set it? [found]: some do. */
static bool is_paired(const AuTileStmts *body, const AuTileVar *var, bool *found)
{
    bool all = true;
    for (uint32_t n = 0; n < body->count && all; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        if (s->var == var) *found |= all = s->kind == TILE_S_LOAD && s->load.paired;
        for (uint32_t i = 0; i < parts.body_count && all; i++)
            all = is_paired(parts.bodies[i], var, found);
    }
    return all;
}

/* 0 in rows without a pair, whose t is 0 and whose z may be anything. In others an infinity or a NaN stays, and reaches what the row
 * has a part in. */
static AuTileExpr *where_paired(Algebra *x, const AuTileStmts *run, uint32_t at,
                                const AlgebraGradient *f, const AuTileExpr *z, AuTileExpr *row)
{
    AlgebraExponent of;
    bool is_loaded = false;
    if (z->op == TILE_X_NAME && is_paired(&x->p->role->body, z->var, &is_loaded) && is_loaded)
        return row;
    algebra_is_exponent(algebra_defined(run, at, f->t), &of);
    AuTileExpr *y = of.y;
    if (y->op == TILE_X_SUB && x->shift && y->args.at[1] == x->shift) y = y->args.at[0];
    AuTileExpr *none = algebra_node(x, TILE_X_EQ, algebra_bool_type(x, y->type), y,
                                    algebra_number(x, -(double)INFINITY), NULL);
    return algebra_node(x, TILE_X_WHERE, row->type, none, algebra_number(x, 0), row);
}

static AuTileExpr *gradient_of(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *e,
                               const AlgebraGradient *f)
{
    const bool first = algebra_is_of_row(f->sum->args.at[1], e), minus = f->sum->op == TILE_X_SUB;
    AuTileExpr *u = f->sum->args.at[first ? 0 : 1], *z = f->sum->args.at[first ? 1 : 0];
    const double number = f->t->var == x->lift.t ? ldexp(f->number, -(int)x->lift.k) : f->number;
    const double of_z = minus && first ? -number : number,
                 of_u = minus && !first ? -number : number;
    AuTileExpr *row = algebra_node(x, TILE_X_MUL, z->type, z, algebra_number(x, of_z), NULL);
    row = where_paired(x, run, at, f, z, row);
    AuTileExpr *scaled = algebra_node(x, TILE_X_MUL, u->type, u, algebra_number(x, of_u), NULL);
    AuTileExpr *sum =
        algebra_node(x, TILE_X_ADD, u->type, scaled, algebra_new_value(x, "exponent", row), NULL);
    return algebra_node(x, TILE_X_MUL, e->type, f->t, sum, NULL);
}

/* Is what statement [n] sets, a gradient of t, read where t's guard is only? Then it may be 0 there. */
static bool is_guarded_gradient(const Algebra *x, const AuTileStmts *run, uint32_t n,
                                AlgebraGradient *f)
{
    const AuTileVar *var = run->at[n]->var;
    if (!is_gradient(x, run, n, tile_assigned(run->at[n]), f) || !pass_ends_in_run(x->p, var))
        return false;
    const AuTileExpr *t = algebra_defined(run, n, f->t);
    for (uint32_t m = n + 1; m < run->count; m++) {
        const AuTileExpr *e = tile_assigned(run->at[m]);
        if (tile_count_reads(e, var) &&
            (!is_guarded(run, m, t, e) || tile_count_reads(e->args.at[0], var)))
            return false;
    }
    return true;
}

/* ---- where(test, e, 0) that needs no test, since a factor of e is 0 already */

/* A distance of positions, or what is made of it, or a number. */
static bool is_finite(const AuTileStmts *run, uint32_t at, const AuTileExpr *e, uint32_t depth)
{
    if (depth > DEEPEST_SUM) return false;
    if (e->op == TILE_X_NAME) e = algebra_defined(run, at, e);
    if (!e) return false;
    if (e->op == TILE_X_TO_F32) return e->args.at[0]->type->elem == TILE_I32;
    if (e->op == TILE_X_NEG) return is_finite(run, at, e->args.at[0], depth + 1);
    if (e->op == TILE_X_ADD || e->op == TILE_X_SUB)
        return is_finite(run, at, e->args.at[0], depth + 1) &&
               is_finite(run, at, e->args.at[1], depth + 1);
    return e->op == TILE_X_FLOAT;
}

/* Is the variable 0 where the test of [where] is false? */
static bool is_zero(const Algebra *x, const AuTileStmts *run, const AuTileExpr *name, uint32_t at,
                    const AuTileExpr *where)
{
    uint32_t n = at;
    while (n-- > 0 && run->at[n]->var != name->var) {}
    if (n >= at) return false;
    const AuTileExpr *is = tile_assigned(run->at[n]);
    AlgebraGradient f;
    if (is_guarded(run, at, is, where)) return true;
    return is_guarded_gradient(x, run, n, &f) &&
           is_guarded(run, at, algebra_defined(run, n, f.t), where);
}

/* A product of finite numbers and of one that is 0? */
static bool is_zero_product(const Algebra *x, const AuTileStmts *run, uint32_t at,
                            const AuTileExpr *e, const AuTileExpr *where, uint32_t *zeros)
{
    if (e->op == TILE_X_NEG) return is_zero_product(x, run, at, e->args.at[0], where, zeros);
    if (e->op == TILE_X_MUL)
        return is_zero_product(x, run, at, e->args.at[0], where, zeros) &&
               is_zero_product(x, run, at, e->args.at[1], where, zeros);
    if (e->op == TILE_X_NAME && is_zero(x, run, e, at, where)) return ++*zeros == 1;
    return is_finite(run, at, e, 0);
}

/* The product itself, a sign at one of its factors; NULL: the test is needed. */
static AuTileExpr *untested(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *e)
{
    uint32_t zeros = 0;
    if (e->op != TILE_X_WHERE || !algebra_is_number(e->args.at[2], 0)) return NULL;
    AuTileExpr *product = e->args.at[1], *of = product;
    if (!is_zero_product(x, run, at, product, e, &zeros) || !zeros) return NULL;
    if (product->op != TILE_X_NEG || (of = product->args.at[0])->op != TILE_X_MUL) return product;
    AuTileExpr *minus =
        algebra_node(x, TILE_X_NEG, of->args.at[0]->type, of->args.at[0], NULL, NULL);
    return algebra_node(x, TILE_X_MUL, of->type, minus, of->args.at[1], NULL);
}

/* ---- the run */

static AuTileExpr *exponents_in(Algebra *x, const AuTileStmts *run, uint32_t at, AuTileExpr *e)
{
    bool changed = false;
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++) {
        args[n] = e->args.at[n] ? exponents_in(x, run, at, e->args.at[n]) : NULL;
        changed |= args[n] != e->args.at[n];
    }
    if (changed) e = algebra_with(x, e, args);
    AlgebraExponent of;
    return algebra_is_exponent(e, &of) ? by_exp2(x, run, at, e, &of, false) : e;
}

bool algebra_is_gradient(const Algebra *x, const AuTileStmts *run, uint32_t n, AlgebraGradient *f)
{
    const AuTileExpr *value = tile_assigned(run->at[n]);
    if (value->op != TILE_X_WHERE) return is_guarded_gradient(x, run, n, f);
    return is_gradient(x, run, n, value->args.at[1], f) &&
           is_guarded(run, n, algebra_defined(run, n, f->t), value);
}

void algebra_exponents(Algebra *x, const AuTileStmts *run)
{
    x->lift = algebra_lift(x, run);
    for (uint32_t n = 0; n < run->count; n++) {
        const AuTileStmt *s = run->at[n];
        AuTileExpr *value = tile_assigned(s), *better = NULL;
        AlgebraGradient f;
        AlgebraExponent of;
        x->p->span = s->span;
        const bool gradient = algebra_is_gradient(x, run, n, &f);
        AuTileExpr *lowered = x->lift.t && !gradient && tile_count_reads(value, x->lift.t)
                                  ? algebra_lowered(x, value)
                                  : NULL;
        if (lowered) value = lowered;
        if (algebra_is_exponent(value, &of) && is_guarded_later(run, n, of.x))
            better = by_exp2(x, run, n, value, &of, true);
        else if (gradient)
            better = gradient_of(x, run, n, value, &f);
        else if (value->op == TILE_X_WHERE)
            better = untested(x, run, n, value);
        else if (x->lift.t && x->lift.at == n)
            better = x->lift.p;
        algebra_set(x, s, better ? better : exponents_in(x, run, n, value));
    }
}
