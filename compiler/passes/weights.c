/* weights.c - a power of two in the exponent of a weight.
 *
 * Where a weight t = exp(x - y) of at most 1 is rounded to f16 times 2^k, so that small weights keep their bits (warps_backward.c):
 *
 *     exp2(x * c + r)           exp2(x * c + (r + k)),  r + k once a row
 *     f16(t * 2^k)              f16(t)
 *     t * fma(u, c, z c)        t * fma(u, c 2^-k, z c 2^-k)
 *     t * u * c                 t * u * (c 2^-k), c the same for all pairs
 *
 * if nothing else reads t. All of it is exact but r + k, rounded once a row. */
#include "algebra.h"

#include <math.h>

/* f16(p * 2^k); 0: it is not. */
static double rounded_power(const AuTileExpr *e, AuTileExpr **p)
{
    if (e->op != TILE_X_TO_F16 || e->args.at[0]->op != TILE_X_MUL) return 0;
    AuTileExpr *of = e->args.at[0]->args.at[0], *number = e->args.at[0]->args.at[1];
    int k;
    if (of->op != TILE_X_NAME || number->op != TILE_X_FLOAT || frexp(number->number, &k) != 0.5)
        return 0;
    *p = of;
    return k - 1;
}

/* The exponent that variable p is, 0 where tests say so, before statement [at]; which statements pass it on. NULL: none. */
static const AuTileVar *weight_of(const AuTileStmts *run, uint32_t at, const AuTileVar *p,
                                  bool *passes)
{
    for (uint32_t n = at; n-- > 0;) {
        if (run->at[n]->var != p) continue;
        const AuTileExpr *e = tile_assigned(run->at[n]);
        if (algebra_is_exponent(e, NULL)) return p;
        passes[n] = true;
        if (e->op == TILE_X_WHERE && algebra_is_number(e->args.at[2], 0)) e = e->args.at[1];
        if (e->op != TILE_X_NAME) return NULL;
        p = e->var;
    }
    return NULL;
}

/* Is what this run makes of the variable read in this run only? The other arm of a branch by segments may read what it makes itself. */
static bool is_local(const Pass *pass, const AuTileVar *var)
{
    const AuTileStmts *beside = pass->beside;
    uint32_t reads = tile_count_reads_in(pass->run.at, pass->run.count, var), n = 0;
    if (beside) {
        while (n < beside->count && beside->at[n]->var != var) n++;
        const uint32_t before = tile_count_reads_in(beside->at, n, var);
        if (before || (n < beside->count && tile_count_reads_in(beside->at + n, 1, var)))
            return false;
        reads += tile_count_reads_in(beside->at, beside->count, var);
    }
    return pass_count(pass, var)->uses == reads;
}

/* How often t is a factor of the product; 2 where it is read otherwise. */
static uint32_t times(const AuTileExpr *e, const AuTileVar *t)
{
    if (e->op == TILE_X_MUL) {
        const uint32_t sum = times(e->args.at[0], t) + times(e->args.at[1], t);
        return sum > 2 ? 2 : sum;
    }
    if (e->op == TILE_X_NAME) return e->var == t;
    return tile_count_reads(e, t) ? 2 : 0;
}

/* The product times 2^-k, by a factor that all pairs share; NULL: it has none. */
static AuTileExpr *lowered_product(Algebra *x, AuTileExpr *e)
{
    if (e->op != TILE_X_MUL) return NULL;
    AuTileExpr *args[2] = {e->args.at[0], e->args.at[1]};
    for (int n = 1; n >= 0; n--) {
        AuTileExpr *of = args[n];
        if (of->type->count == 0 && !tile_count_reads(of, x->lift.t))
            args[n] = algebra_node(x, TILE_X_MUL, of->type, of,
                                   algebra_number(x, ldexp(1, -(int)x->lift.k)), NULL);
        else if (!(args[n] = lowered_product(x, of))) {
            args[n] = of;
            continue;
        }
        return algebra_node(x, TILE_X_MUL, e->type, args[0], args[1], NULL);
    }
    return NULL;
}

/* The product itself, or that where a test holds. */
AuTileExpr *algebra_lowered(Algebra *x, AuTileExpr *e)
{
    const bool tested = e->op == TILE_X_WHERE && algebra_is_number(e->args.at[2], 0) &&
                        !tile_count_reads(e->args.at[0], x->lift.t);
    AuTileExpr *product = tested ? e->args.at[1] : e;
    if (times(product, x->lift.t) != 1 || !(product = lowered_product(x, product))) return NULL;
    return tested ? algebra_node(x, TILE_X_WHERE, e->type, e->args.at[0], product, e->args.at[2])
                  : product;
}

/* Is each read of t and p one that is rewritten? */
static bool all_agree(const Algebra *x, const AuTileStmts *run, const AlgebraLift *lift,
                      const bool *passes)
{
    Algebra with = *x;
    uint32_t sets = 0;
    with.lift = *lift;
    if (!pass_ends_in_run(x->p, lift->t)) return false;
    for (uint32_t n = 0; n < run->count; n++) {
        AuTileExpr *e = tile_assigned(run->at[n]);
        AlgebraGradient f;
        sets += run->at[n]->var == lift->t;
        if (passes[n] || n == lift->at) continue;
        for (uint32_t m = 0; m < run->count; m++)
            if (passes[m] && tile_count_reads(e, run->at[m]->var)) return false;
        const bool gradient = algebra_is_gradient(x, run, n, &f) && f.t->var == lift->t;
        if (tile_count_reads(e, lift->t) && !gradient && !algebra_lowered(&with, e)) return false;
    }
    return sets == 1;
}

AlgebraLift algebra_lift(Algebra *x, const AuTileStmts *run)
{
    bool *passes = AU_NEW_ARRAY(x->p->arena, bool, run->count + 1);
    for (uint32_t n = 0; n < run->count; n++) {
        AuTileExpr *e = tile_assigned(run->at[n]), *p = NULL;
        AlgebraLift lift = {.k = rounded_power(e, &p), .at = n};
        if (lift.k <= 0 || !(lift.t = weight_of(run, n, p->var, passes))) continue;
        AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, 1);
        args[0] = p;
        lift.p = algebra_with(x, e, args);
        if (all_agree(x, run, &lift, passes) && is_local(x->p, p->var)) return lift;
        break;
    }
    return (AlgebraLift){0};
}
