/* references.c - exponents of rows whose reference is far from 0.
 *
 * exp(x - y) is exp2(x * c + r), r = -y * c rounded (exponents.c), so x = y makes up to half a unit in the last place of r in place
 * of 0. Where |r| <= 2^14 that is 2^-11 at most, less than a weight loses when it is rounded to 16 bits. Beyond it grows without bound:
 * with a bias of -1e9 throughout a row to 64, more than f16 can hold. In such rows the difference is taken first:
 *
 *     x' = x, far = !(abs(r) <= 2^14)             far once a row
 *     if a row of the warp is far {               rare
 *         score = x * f + s                       as the maximum has it: f and s are what x is without
 *         x' = where(far, (score - y) / f, x)
 *         r = where(far, -rest * c, r)            rest: what rounding took from y; 0 where nothing holds it; and a lift (weights.c)
 *     }
 *     exp2(x' * c + r)
 *
 * Where the branch would keep for all pairs what else is made pair by pair (a gradient that reads what the score is made of: soft cap), and
 * where a pair takes many operations anyway (dropout), there is none: each pair takes its difference from y' = where(far, y, 0), and r as
 * above. One operation a pair costs less than what registers would spill. So it is where y is a number of no row (`exp(k - 1.0)` in a slot),
 * which may be known, and the choice with it.
 *
 * A maximum is one of the scores, rounded as they are, so differences are at most 0, 0 at the maximum, and exact near it (Sterbenz).
 * y of a row without a pair yet is -inf, far too, and taken for 0. Rows that are not far keep x and r: what else is in the warp changes no result. */
#include "algebra.h"

#include <math.h>

static const double LIMIT = 0x1p14;

static AlgebraReference *reference_of(Algebra *x, const AuTileExpr *e)
{
    if (e->op != TILE_X_EXP2 || e->args.at[0]->op != TILE_X_ADD) return NULL;
    const AuTileExpr *row = e->args.at[0]->args.at[1];
    for (uint32_t n = 0; n < x->references.count && row->op == TILE_X_NAME; n++)
        if (x->references.at[n].row == row->var) return &x->references.at[n];
    return NULL;
}

/* x * f + s, each operation rounded by itself: a variable each, so that nothing is fused. */
static AuTileExpr *score_of(Algebra *x, AuTileExpr *of, const double factors[2], AuTileExpr *shift)
{
    AuTileExpr *score = of;
    for (int n = 0; n < 2; n++)
        if (factors[n] != 1)
            score = algebra_new_value(
                x, "score",
                algebra_node(x, TILE_X_MUL, of->type, score, algebra_number(x, factors[n]), NULL));
    if (shift)
        score = algebra_new_value(x, "score",
                                  algebra_node(x, TILE_X_ADD, of->type, score, shift, NULL));
    return score;
}

static AuTileExpr *where_far(Algebra *x, AuTileExpr *far, AuTileExpr *then, AuTileExpr *other)
{
    return algebra_node(x, TILE_X_WHERE, other->type, far, then, other);
}

/* y; of a row that has no pair yet, all of whose scores are -inf, 0, so that they stay it. */
static AuTileExpr *reference_value(Algebra *x, const AlgebraReference *r)
{
    if (!r->guarded) return r->y;
    AuTileExpr *none = algebra_node(x, TILE_X_EQ, algebra_bool_type(x, r->y->type), r->y,
                                    algebra_number(x, -(double)INFINITY), NULL);
    return algebra_new_value(
        x, "reference",
        algebra_node(x, TILE_X_WHERE, r->y->type, none, algebra_number(x, 0), r->y));
}

/* Of the row, 0 where it is near. */
static AuTileExpr *only_far(Algebra *x, AuTileExpr *far, AuTileExpr *value)
{
    return algebra_new_value(
        x, "reference",
        algebra_node(x, TILE_X_WHERE, value->type, far, value, algebra_number(x, 0)));
}

/* What a far row's exponents have beside the difference. */
static AuTileExpr *exponent_of_rest(Algebra *x, const AlgebraReference *r, const AuTileExpr *row)
{
    AuTileExpr *lift = algebra_number(x, r->lift);
    if (!r->rest) return lift;
    AuTileExpr *rest =
        algebra_node(x, TILE_X_MUL, row->type, r->rest, algebra_number(x, -ALGEBRA_LOG2E), NULL);
    return r->lift != 0 ? algebra_node(x, TILE_X_ADD, row->type, rest, lift, NULL) : rest;
}

/* At most 0, where that is all that keeps a weight that is lifted in f16's range: nothing says what rounding took from y. */
static AuTileExpr *not_above(Algebra *x, const AlgebraReference *r, AuTileExpr *difference)
{
    if (r->lift == 0 || r->rest) return difference;
    AuTileExpr *value = algebra_new_value(x, "difference", difference);
    AuTileExpr *above = algebra_node(x, TILE_X_GT, algebra_bool_type(x, value->type), value,
                                     algebra_number(x, 0), NULL);
    return algebra_node(x, TILE_X_WHERE, value->type, above, algebra_number(x, 0), value);
}

/* What is computed where it is read cannot be set anew in a branch: each pair chooses. */
static AuTileExpr *without_branch(Algebra *x, const AuTileExpr *e, const AlgebraReference *r,
                                  AuTileExpr *far, const double factors[2])
{
    AuTileExpr *near = e->args.at[0], *of = near->args.at[0]->args.at[0];
    AuTileExpr *y = reference_value(x, r);
    AuTileExpr *score =
        algebra_node(x, TILE_X_MUL, of->type, of, algebra_number(x, factors[0] * factors[1]), NULL);
    if (r->shift) score = algebra_node(x, TILE_X_ADD, of->type, score, r->shift, NULL);
    AuTileExpr *difference = algebra_node(x, TILE_X_SUB, e->type, score, y, NULL);
    if (r->rest) difference = algebra_node(x, TILE_X_SUB, e->type, difference, r->rest, NULL);
    difference =
        algebra_node(x, TILE_X_MUL, e->type, difference, algebra_number(x, ALGEBRA_LOG2E), NULL);
    if (r->lift != 0)
        difference =
            algebra_node(x, TILE_X_ADD, e->type, difference, algebra_number(x, r->lift), NULL);
    return algebra_node(x, TILE_X_EXP2, e->type, where_far(x, far, difference, near), NULL, NULL);
}

/* Each pair takes the difference; in rows that are near from 0, without their shift. */
static AuTileExpr *by_pair(Algebra *x, const AuTileExpr *e, const AlgebraReference *r,
                           AuTileExpr *far, const double factors[2])
{
    const AuTileExpr *sum = e->args.at[0];
    AuTileExpr *row = sum->args.at[1], *of = sum->args.at[0]->args.at[0], *shift = r->shift;
    AuTileExpr *y = only_far(x, far, reference_value(x, r));
    if (shift) shift = only_far(x, far, shift);
    row = algebra_new_value(
        x, "exponent",
        algebra_node(x, TILE_X_WHERE, row->type, far, exponent_of_rest(x, r, row), row));
    AuTileExpr *difference =
        algebra_node(x, TILE_X_SUB, of->type, score_of(x, of, factors, shift), y, NULL);
    AuTileExpr *scaled =
        algebra_node(x, TILE_X_MUL, of->type, difference, algebra_number(x, ALGEBRA_LOG2E), NULL);
    return algebra_node(x, TILE_X_EXP2, e->type,
                        algebra_node(x, TILE_X_ADD, e->type, scaled, row, NULL), NULL, NULL);
}

/* Is a value of pairs that [of] is made of read after statement [at] too? A branch would keep it beside the scores, for all pairs. */
static bool is_kept(Algebra *x, const AuTileStmts *run, uint32_t at, const AuTileExpr *of)
{
    bool *made_of = AU_NEW_ARRAY(x->p->arena, bool, at + 1);
    if (of->op == TILE_X_NAME && pass_count(x->p, of->var)->restarted)
        return false; /* a product, which has its registers for all pairs anyway */
    for (uint32_t n = at; n-- > 0;) {
        const AuTileVar *var = run->at[n]->var;
        made_of[n] = tile_count_reads(of, var) > 0;
        for (uint32_t m = n + 1; m < at && !made_of[n]; m++)
            made_of[n] = made_of[m] && tile_count_reads(tile_assigned(run->at[m]), var);
        if (!made_of[n] || algebra_is_of_row(tile_assigned(run->at[n]), of)) continue;
        for (uint32_t m = at + 1; m < run->count; m++)
            if (tile_count_reads(tile_assigned(run->at[m]), var)) return true;
    }
    return false;
}

/* Of a group of warps the branch makes what it knows of rows again, from a y that it may load again (sink.c): kept, it is a register or a
 * predicate a column. */
static void make_again(Algebra *x, const AuTileStmts *run, const AuTileExpr *y,
                       const AuTileExpr *row, const AuTileExpr *far)
{
    if (x->p->role->on != TILE_ON_WARPGROUP || algebra_defined(run, run->count, y)) return;
    algebra_assign(x, row->var, algebra_defined(run, run->count, row));
    algebra_assign(x, far->var, algebra_defined(run, run->count, far));
}

/* The exponent of [e] with the difference taken first in rows that are far; the statements that see to it before. */
static AuTileExpr *with_difference(Algebra *x, const AuTileStmts *run, uint32_t at,
                                   const AuTileExpr *e, const AlgebraReference *r)
{
    const AuTileExpr *sum = e->args.at[0], *product = sum->args.at[0];
    AuTileExpr *row = sum->args.at[1], *of = product->args.at[0];
    const bool scaled = of->op == TILE_X_NAME && of->var == x->scaled;
    const double factors[2] = {scaled ? x->factor : 1, r->factor};
    AuTileExpr *near = algebra_node(x, TILE_X_LE, algebra_bool_type(x, row->type),
                                    algebra_node(x, TILE_X_ABS, row->type, row, NULL, NULL),
                                    algebra_number(x, LIMIT), NULL);
    AuTileExpr *far =
        algebra_new_value(x, "far", algebra_node(x, TILE_X_NOT, near->type, near, NULL, NULL));
    if (tile_is_homeless(of->type)) return without_branch(x, e, r, far, factors);
    if (!far->type->count || pass_is_heavy(run) || (!r->shift && is_kept(x, run, at, of)))
        return by_pair(x, e, r, far, factors);
    AuTileExpr *own = algebra_new_value(x, "own", of);
    const AuTileStmts outer = x->run; /* from here on the branch is written */
    x->run = (AuTileStmts){0};
    make_again(x, &outer, r->y, row, far);
    AuTileExpr *y = reference_value(x, r);
    AuTileExpr *difference =
        algebra_node(x, TILE_X_SUB, own->type, score_of(x, own, factors, r->shift), y, NULL);
    difference = not_above(x, r, difference);
    if (factors[0] * factors[1] != 1)
        difference = algebra_node(x, TILE_X_MUL, own->type, difference,
                                  algebra_number(x, 1 / (factors[0] * factors[1])), NULL);
    algebra_assign(x, own->var, where_far(x, far, difference, own));
    algebra_assign(x, row->var, where_far(x, far, exponent_of_rest(x, r, row), row));
    AuTileStmt *s = pass_branch(x->p, far, x->p->span);
    s->branch.then = x->run;
    x->run = outer;
    pass_push(x->p, &x->run, s);
    AuTileExpr *scaled_own = algebra_node(x, TILE_X_MUL, own->type, own, product->args.at[1], NULL);
    return algebra_node(x, TILE_X_EXP2, e->type,
                        algebra_node(x, TILE_X_ADD, e->type, scaled_own, row, NULL), NULL, NULL);
}

static AuTileExpr *differences_in(Algebra *x, const AuTileStmts *run, uint32_t at, AuTileExpr *e)
{
    const AlgebraReference *r = reference_of(x, e);
    if (r) return with_difference(x, run, at, e, r);
    bool changed = false;
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++) {
        args[n] = e->args.at[n] ? differences_in(x, run, at, e->args.at[n]) : NULL;
        changed |= args[n] != e->args.at[n];
    }
    return changed ? algebra_with(x, e, args) : e;
}

void algebra_references(Algebra *x, const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        x->p->span = run->at[n]->span;
        algebra_set(x, run->at[n], differences_in(x, run, n, tile_assigned(run->at[n])));
    }
}
