/* tanh.c - tanh of what is near 0, which scores under a soft cap nearly always are.
 *
 * tanh takes a power of two and a reciprocal, of which a GPU makes an eighth as many as products, beside a dozen other operations. Up to 3/4
 * it is a polynomial of six products. So executors ask whether all arguments of a tile are below that, by the largest of each row:
 *
 *     x = tanh(x * c) * d        wild = !(reduce_max(abs(x), kv) < 0.75 / c)
 *                                if anywhere(wild) { x = tanh(x * c) } else { x = x * P(x * x) }
 *                                x = x * d
 *
 * where P has c in its coefficients if that is known, else it is x * factor * P(x * factor * (x * factor)). NaN is no maximum, and P keeps it. The branch has its two halves so that the tile need not be kept beside the result. A matrix whose elements lie nobody knows where must
 * not be set in one half alone: some drivers set it for all subgroups of a block if one of them does. There the polynomial is computed always, of
 * a copy, and tanh in place of it; d, if it is known, is in the coefficients (on machines with lanes that took more registers than they had). A shorter
 * polynomial up to 0.278 and the longer one in its branch was slower (docs/dev/performance-notes.md).
 *
 * The tile holds the result, so one that somebody reads again before it is set keeps what it has, and its tanh.
 *
 * tanh(x) = x (1 + c3 u + .. + c0 u^4), u = x^2, fitted so that the largest relative error on [0, 3/4] is least, 7e-7: 12 ulp, where the targets'
 * tanh has up to 8. So it is for products of 16-bit operands only, whose weights lose 3e-5 by it under a cap of 50. */
#include "algebra.h"

#include <math.h>

enum { MOST_FACTORS = 4 };

static const double limit = 0.75,
                    terms[] = {0.0131058244, -0.0502779405, 0.132682366, -0.333296676, 1};
enum { TERMS = sizeof terms / sizeof *terms };

/* ---- what is looked for */

static AuTileExpr *find_tanh(AuTileExpr *e, uint32_t *count)
{
    AuTileExpr *found = NULL;
    if (e->op == TILE_X_TANH) ++*count, found = e;
    for (uint32_t n = 0; n < e->args.count && *count < 2; n++) {
        AuTileExpr *inner = e->args.at[n] ? find_tanh(e->args.at[n], count) : NULL;
        found = found ? found : inner;
    }
    return found;
}

/* A fragment whose axes both lie in registers and lanes, or in matrices. */
static bool is_of_pairs(const AuTileType *type)
{
    return type->elem == TILE_F32 && type->count == 2 && type->axes[0].places &&
           type->axes[1].places;
}

/* A tile times numbers that all pairs share. */
typedef struct Scaled {
    AuTileExpr *tile; /* by name; NULL: it is something else */
    struct {
        AuTileExpr *by;
        bool divides;
    } factors[MOST_FACTORS];
    uint32_t count;
    double product; /* of the factors; NaN: not all of them are known */
} Scaled;

static Scaled scaled(AuTileExpr *e)
{
    Scaled s = {.product = 1};
    for (; e->op == TILE_X_MUL || e->op == TILE_X_DIV; s.count++) {
        const bool second = e->op == TILE_X_MUL && !e->args.at[0]->type->count;
        AuTileExpr *by = e->args.at[second ? 0 : 1];
        if (by->type->count || s.count == MOST_FACTORS) return s;
        const double value = by->op == TILE_X_FLOAT ? by->number : (double)NAN;
        s.factors[s.count].by = by, s.factors[s.count].divides = e->op == TILE_X_DIV;
        s.product = e->op == TILE_X_MUL ? s.product * value : s.product / value;
        e = e->args.at[second ? 1 : 0];
    }
    if (e->op == TILE_X_NAME && e->var && is_of_pairs(e->var->type)) s.tile = e;
    if (isinf(s.product) || (!isnan(s.product) && !isnormal((float)s.product))) s.tile = NULL;
    return s;
}

/* Does the role multiply 16-bit operands by matrix units? Rows of matrices whose elements lie nobody knows where must have maxima. */
static void look_at_products(const AuTileStmts *body, bool *halves, bool *reduces)
{
    const uint32_t sixteen = 1u << TILE_F16 | 1u << TILE_BF16;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        const AuTileAtom *atom = s->kind == TILE_S_PRODUCT ? s->product.atom : NULL;
        if (atom) *halves |= atom->elems & sixteen && !(atom->elems & 1u << TILE_F32);
        if (atom && atom->by_place) *reduces &= atom->joins;
        for (uint32_t i = 0; i < parts.body_count; i++)
            look_at_products(parts.bodies[i], halves, reduces);
    }
}

typedef struct Found {
    const AuTileStmt *s;
    AuTileExpr *value, *tanh;
    Scaled x; /* its argument */
} Found;

static bool find(const AuTileStmt *s, Found *f)
{
    uint32_t count = 0;
    *f = (Found){.s = s, .value = tile_assigned(s)};
    if (s->kind != TILE_S_ASSIGN || !is_of_pairs(s->var->type)) return false;
    f->tanh = find_tanh(f->value, &count);
    if (count != 1) return false;
    f->x = scaled(f->tanh->args.at[0]);
    return f->x.tile;
}

/* May the tile of statement [n] hold tanh once that has been read? The statement sets it, or nobody reads it any more. */
static bool is_free(const Pass *p, const AuTileStmts *run, uint32_t n, const Found *f)
{
    const AuTileVar *tile = f->x.tile->var;
    if (tile_count_reads(f->value, tile) != 1) return false;
    if (f->s->var == tile) return true;
    for (n++; n < run->count; n++) {
        if (tile_count_reads(tile_assigned(run->at[n]), tile)) return false;
        if (run->at[n]->var == tile) return true;
    }
    return pass_ends_in_run(p, tile);
}

/* ---- what it becomes */

/* The type of both is that of the one that has axes. */
static AuTileExpr *of_two(Algebra *x, AuTileOp op, AuTileExpr *a, AuTileExpr *b)
{
    return algebra_node(x, op, a->type->count ? a->type : b->type, a, b, NULL);
}

/* The expression with [by] for the node [of]. */
static AuTileExpr *with(Algebra *x, AuTileExpr *e, const AuTileExpr *of, AuTileExpr *by)
{
    if (e == of) return by;
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++)
        args[n] = e->args.at[n] ? with(x, e->args.at[n], of, by) : NULL;
    return algebra_with(x, e, args);
}

/* a P(a a) */
static AuTileExpr *polynomial(Algebra *x, AuTileExpr *a, const double *by)
{
    AuTileExpr *u = of_two(x, TILE_X_MUL, a, a), *sum = algebra_number(x, by[0]);
    for (uint32_t n = 1; n < TERMS; n++)
        sum = of_two(x, TILE_X_ADD, of_two(x, TILE_X_MUL, sum, u), algebra_number(x, by[n]));
    return of_two(x, TILE_X_MUL, a, sum);
}

/* The product of the factors: a number, or a scalar that is made once. */
static AuTileExpr *factor_of(Algebra *x, const Scaled *s)
{
    AuTileExpr *e = NULL;
    if (isfinite(s->product)) return algebra_number(x, s->product);
    for (uint32_t n = s->count; n-- > 0;) {
        AuTileExpr *by = s->factors[n].by;
        if (s->factors[n].divides)
            e = of_two(x, TILE_X_DIV, e ? e : algebra_number(x, 1), by);
        else
            e = e ? of_two(x, TILE_X_MUL, e, by) : by;
    }
    return algebra_new_value(x, "factor", e);
}

/* Up to where tiles are near 0. */
static AuTileExpr *limit_of(Algebra *x, const Scaled *s, AuTileExpr *factor)
{
    if (isfinite(s->product) && isfinite(limit / fabs(s->product)))
        return algebra_number(x, limit / fabs(s->product));
    AuTileExpr *e = algebra_node(x, TILE_X_ABS, factor->type, factor, NULL, NULL);
    return algebra_new_value(x, "limit", of_two(x, TILE_X_DIV, algebra_number(x, limit), e));
}

/* !(reduce_max(abs(tile), axis) < end), along the second axis */
static AuTileExpr *is_wild(Algebra *x, AuTileExpr *tile, AuTileExpr *end)
{
    AuTileType *row = AU_NEW(x->p->arena, AuTileType);
    *row = (AuTileType){.elem = TILE_F32, .count = 1, .axes = tile->type->axes};
    const AuTileType *truth = algebra_bool_type(x, row);
    AuTileExpr *size = algebra_node(x, TILE_X_ABS, tile->type, tile, NULL, NULL),
               *largest = algebra_node(x, TILE_X_REDUCE_MAX, row, size, NULL, NULL);
    AU_PUSH(x->p->arena, largest->names.at, largest->names.count, largest->names.capacity,
            tile->type->axes[1].name);
    AuTileExpr *below = algebra_node(x, TILE_X_LT, truth, largest, end, NULL);
    return algebra_new_value(x, "wild", algebra_node(x, TILE_X_NOT, truth, below, NULL, NULL));
}

/* What is to be done of a statement. */
typedef struct Change {
    const Found *f;
    AuTileExpr *of;     /* the argument less its factors, which stays */
    AuTileExpr *factor; /* of it */
    double by;          /* what the result is multiplied by, in the coefficients */
} Change;

/* The polynomial's coefficients with the factors, and what its result is multiplied by, in them; false: some are no normal numbers, or not known. */
static bool fold(const Change *c, double by[TERMS])
{
    bool good = true;
    for (uint32_t n = 0; n < TERMS; n++) {
        by[n] = terms[n] * c->by * pow(c->f->x.product, 2 * (TERMS - 1 - n) + 1);
        good &= isnormal((float)by[n]) != 0;
    }
    return good;
}

static AuTileExpr *times(Algebra *x, AuTileExpr *e, double by)
{
    return by == 1 ? e : of_two(x, TILE_X_MUL, e, algebra_number(x, by));
}

static AuTileExpr *near_zero(Algebra *x, const Change *c)
{
    double by[TERMS];
    if (fold(c, by)) return polynomial(x, c->of, by);
    return times(x, polynomial(x, of_two(x, TILE_X_MUL, c->of, c->factor), terms), c->by);
}

/* As it was: the product of its factors may be infinite where they are not. */
static AuTileExpr *exactly(Algebra *x, const Change *c)
{
    return times(x, with(x, c->f->tanh, c->f->x.tile, c->of), c->by);
}

/* tanh times a number: the number, else 1. */
static double taken_in(const Found *f, AuTileExpr **value)
{
    AuTileExpr *e = f->value;
    for (uint32_t n = 0; e->op == TILE_X_MUL && n < 2; n++)
        if (e->args.at[n] == f->tanh && e->args.at[1 - n]->op == TILE_X_FLOAT) {
            *value = f->x.tile;
            return e->args.at[1 - n]->number;
        }
    return 1;
}

static void replace(Algebra *x, const Found *f, bool by_place)
{
    AuTileExpr *tile = f->x.tile, *value = with(x, f->value, f->tanh, tile);
    Change c = {.f = f, .of = tile, .by = 1};
    if (by_place) c.by = taken_in(f, &value);
    c.factor = factor_of(x, &f->x);
    AuTileExpr *wild = is_wild(x, tile, limit_of(x, &f->x, c.factor));
    if (by_place) c.of = algebra_new_value(x, "argument", tile);
    AuTileExpr *near = near_zero(x, &c);
    if (by_place) algebra_assign(x, tile->var, near);
    const AuTileStmts outer = x->run; /* from here on the branch is written */
    AuTileStmt *branch = pass_branch(x->p, wild, x->p->span);
    x->run = (AuTileStmts){0};
    algebra_assign(x, tile->var, exactly(x, &c));
    branch->branch.then = x->run;
    x->run = (AuTileStmts){0};
    if (!by_place) algebra_assign(x, tile->var, near);
    branch->branch.other = x->run;
    x->run = outer;
    pass_push(x->p, &x->run, branch);
    if (value != tile || f->s->var != tile->var) algebra_set(x, f->s, value);
}

static void of_run(Pass *p, AuTileStmts *run)
{
    Algebra x = {.p = p};
    Found f;
    for (uint32_t n = 0; n < run->count; n++) {
        p->span = run->at[n]->span;
        if (!p->in_branch && find(run->at[n], &f) && is_free(p, run, n, &f))
            replace(&x, &f, tile_is_by_place(&p->role->body));
        else
            pass_push(p, &x.run, run->at[n]);
    }
    *run = x.run;
}

void pass_tanh(Pass *p)
{
    bool halves = false, reduces = true;
    look_at_products(&p->role->body, &halves, &reduces);
    if (p->module->caps->tanh_near && halves && reduces) pass_each_run(p, of_run);
}
