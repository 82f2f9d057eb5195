/* tanh.c - tanh of what is near 0, which scores under a soft cap nearly always are.
 *
 * tanh takes a power of two and a reciprocal, of which a GPU makes an eighth as many as products, beside a dozen other operations. Up to 3/4
 * it is a polynomial of six products. So executors ask whether all arguments of a tile are below that, by the largest of each row:
 *
 *     x = tanh(x * c) * d        wild = !(reduce_max(abs(x), kv) < 0.75 / c)
 *                                if anywhere(wild) { x = tanh(x * c) * d } else { x = x * P(x * x) }
 *
 * where P has c and d in its coefficients if both are known, else x = x * factor * P(x * factor * (x * factor)) * d. NaN is no maximum, and P keeps
 * it. The branch has its two halves so that the tile need not be kept beside the result. A matrix whose elements lie nobody knows where must
 * not be set in one half alone: some drivers set it for all subgroups of a block if one of them does. There the polynomial is computed always, of
 * a copy, and tanh in place of it.
 *
 * The tile holds the result, so one that somebody reads again before it is set keeps what it has, and its tanh.
 *
 * tanh(x) = x (1 + c3 u + .. + c0 u^4), u = x^2, fitted so that the largest relative error on [0, 3/4] is least, 7e-7: 12 ulp, where the targets'
 * tanh has up to 8. So it is for products of 16-bit operands only, whose weights lose 3e-5 by it under a cap of 50. */
#include "pass.h"

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
    const AuTileVar *tile;  /* NULL: it is something else */
    const AuTileExpr *node; /* that names it */
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
    if (e->op == TILE_X_NAME && e->var && is_of_pairs(e->var->type)) s.tile = e->var, s.node = e;
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

/* ---- what is read, by names: what the pass has made has no variables yet */

static bool names(const AuTileExpr *e, const char *tile)
{
    if (!e) return false;
    bool found = e->op == TILE_X_NAME && e->name == tile;
    for (uint32_t n = 0; n < e->args.count && !found; n++) found = names(e->args.at[n], tile);
    return found;
}

static bool sets(const AuTileStmt *s, const char *tile)
{
    if (s->kind != TILE_S_ASSIGN) return s->kind != TILE_S_FOR && s->var && s->var->name == tile;
    bool found = false;
    for (uint32_t n = 0; n < s->assign.names.count; n++) found |= s->assign.names.at[n] == tile;
    return found;
}

typedef enum Use { UNUSED, READ, SET } Use;

/* What statements [from] .. [to] do first with the tile, whatever way they go: a read on one of them is one. */
static Use first_use(const AuTileStmts *body, uint32_t from, uint32_t to, const char *tile)
{
    for (uint32_t n = from; n < to; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        bool read = names(parts.dest, tile) || (parts.adds && sets(s, tile)), set = sets(s, tile);
        for (uint32_t i = 0; i < parts.read_count; i++) read |= names(*parts.reads[i], tile);
        uint32_t ways = 0;
        for (uint32_t i = 0; i < parts.body_count && !read; i++) {
            const Use use = first_use(parts.bodies[i], 0, parts.bodies[i]->count, tile);
            read |= use == READ, ways += use == SET;
        }
        if (read) return READ;
        if (set || (s->kind != TILE_S_FOR && ways == 2)) return SET;
    }
    return UNUSED;
}

/* Where a walk is: behind statement [next] - 1 of a body. */
typedef struct Place {
    const struct Place *outer;
    const AuTileStmts *body;
    uint32_t next;
    bool loops;
} Place;

static bool is_read_behind(const Place *place, const char *tile)
{
    for (; place; place = place->outer) {
        const Use use = first_use(place->body, place->next, place->body->count, tile);
        if (use != UNUSED) return use == READ;
        if (place->loops && first_use(place->body, 0, place->next, tile) == READ) return true;
    }
    return false;
}

/* ---- what it becomes */

static AuTileExpr *number(Pass *p, double value, AuSpan span)
{
    AuTileExpr *e = pass_expr(p, TILE_X_FLOAT, NULL, NULL, span);
    e->number = (double)(float)value;
    return e;
}

/* The expression with [by] for the node [of]. */
static AuTileExpr *with(Pass *p, AuTileExpr *e, const AuTileExpr *of, AuTileExpr *by)
{
    if (e == of) return by;
    AuTileExpr *copy = AU_NEW(p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(p->arena, copy->args.at, copy->args.count, copy->args.capacity,
                e->args.at[n] ? with(p, e->args.at[n], of, by) : NULL);
    return copy;
}

/* x P(x x) */
static AuTileExpr *polynomial(Pass *p, AuTileExpr *x, const double *by)
{
    const AuSpan at = x->span;
    AuTileExpr *u = pass_expr(p, TILE_X_MUL, x, x, at), *sum = number(p, by[0], at);
    for (uint32_t n = 1; n < TERMS; n++)
        sum = pass_expr(p, TILE_X_ADD, pass_expr(p, TILE_X_MUL, sum, u, at), number(p, by[n], at),
                        at);
    return pass_expr(p, TILE_X_MUL, x, sum, at);
}

static const char *scalar(Pass *p, const char *name, AuTileExpr *value, AuTileStmts *out)
{
    AuTileType *type = AU_NEW(p->arena, AuTileType);
    *type = (AuTileType){.elem = TILE_F32};
    name = pass_new_var(p, name, type)->name;
    pass_push(p, out, pass_assignment(p, name, value, value->span));
    return name;
}

/* The product of the factors, and up to where tiles are near 0: numbers, or scalars that are made once. */
static void factor_of(Pass *p, const Scaled *s, AuSpan at, AuTileExpr *out[2], AuTileStmts *before)
{
    AuTileExpr *e = NULL;
    out[0] = number(p, s->product, at), out[1] = number(p, limit / fabs(s->product), at);
    if (isfinite(out[0]->number) && isfinite(out[1]->number)) return;
    for (uint32_t n = s->count; n-- > 0;) {
        AuTileExpr *by = s->factors[n].by;
        if (s->factors[n].divides)
            e = pass_expr(p, TILE_X_DIV, e ? e : number(p, 1, at), by, at);
        else
            e = e ? pass_expr(p, TILE_X_MUL, e, by, at) : by;
    }
    out[0] = pass_name(p, scalar(p, "factor", e, before), at);
    e = pass_expr(p, TILE_X_DIV, number(p, limit, at), pass_expr(p, TILE_X_ABS, out[0], NULL, at),
                  at);
    out[1] = pass_name(p, scalar(p, "limit", e, before), at);
}

/* !(reduce_max(abs(tile), axis) < end), along the second axis */
static AuTileStmt *is_wild(Pass *p, const AuTileVar *tile, AuTileExpr *end, const char **name)
{
    const AuSpan at = end->span;
    const AuTileType *type = tile->type;
    AuTileType *truth = AU_NEW(p->arena, AuTileType);
    *truth = (AuTileType){.elem = TILE_BOOL, .count = 1, .axes = type->axes};
    *name = pass_new_var(p, "wild", truth)->name;
    AuTileExpr *size = pass_expr(p, TILE_X_ABS, pass_name(p, tile->name, at), NULL, at),
               *largest = pass_expr(p, TILE_X_REDUCE_MAX, size, NULL, at);
    AU_PUSH(p->arena, largest->names.at, largest->names.count, largest->names.capacity,
            type->axes[1].name);
    AuTileExpr *below = pass_expr(p, TILE_X_LT, largest, end, at);
    return pass_assignment(p, *name, pass_expr(p, TILE_X_NOT, below, NULL, at), at);
}

typedef struct Found {
    AuTileStmt *s;
    AuTileExpr *value, *tanh;
    Scaled x; /* its argument */
} Found;

static bool find(AuTileStmt *s, Found *f)
{
    uint32_t count = 0;
    *f = (Found){.s = s, .value = tile_assigned(s)};
    if (s->kind != TILE_S_ASSIGN || !s->var || !f->value || !is_of_pairs(s->var->type))
        return false;
    f->tanh = find_tanh(f->value, &count);
    if (count != 1) return false;
    f->x = scaled(f->tanh->args.at[0]);
    return f->x.tile;
}

/* May the tile hold tanh once it has been read? The statement sets it, or nobody reads it any more. */
static bool is_free(const Found *f, const Place *place)
{
    const AuTileVar *tile = f->x.tile;
    return tile_count_reads(f->value, tile) == 1 &&
           (f->s->var == tile || !is_read_behind(place, tile->name));
}

/* The polynomial's coefficients with the factors in them; false: some are no normal numbers, or not known. */
static bool fold(const Found *f, double by[TERMS])
{
    bool good = true;
    for (uint32_t n = 0; n < TERMS; n++) {
        by[n] = terms[n] * pow(f->x.product, 2 * (TERMS - 1 - n) + 1);
        good &= isnormal((float)by[n]) != 0;
    }
    return good;
}

static AuTileStmt *assignment(Pass *p, const Found *f, AuTileExpr *value)
{
    return pass_assignment(p, f->x.tile->name, value, f->s->span);
}

static void replace(Pass *p, const Found *f, bool by_place, AuTileStmts *out)
{
    const AuSpan at = f->s->span;
    const char *tile = f->x.tile->name, *wild;
    AuTileExpr *factor[2], *x = pass_name(p, tile, at);
    double by[TERMS];
    const bool folds = fold(f, by);
    factor_of(p, &f->x, at, factor, out);
    pass_push(p, out, is_wild(p, f->x.tile, factor[1], &wild));
    if (by_place) {
        const char *copy = pass_new_var(p, "argument", f->x.tile->type)->name;
        pass_push(p, out, pass_assignment(p, copy, x, at));
        x = pass_name(p, copy, at);
    }
    /* as it was: the product of its factors may be infinite where they are not */
    AuTileExpr *exact = with(p, f->tanh, f->x.node, x),
               *scaled = pass_expr(p, TILE_X_MUL, x, factor[0], at);
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_IF, .span = at};
    s->branch.test = pass_expr(p, TILE_X_ANYWHERE, pass_name(p, wild, at), NULL, at);
    pass_push(p, &s->branch.then, assignment(p, f, exact));
    pass_push(p, by_place ? out : &s->branch.other,
              assignment(p, f, folds ? polynomial(p, x, by) : polynomial(p, scaled, terms)));
    pass_push(p, out, s);
    AuTileExpr *value = with(p, f->value, f->tanh, pass_name(p, tile, at));
    if (value->op != TILE_X_NAME || f->s->var != f->x.tile)
        pass_push(p, out, pass_assignment(p, f->s->var->name, value, at));
}

static void walk(Pass *p, AuTileStmts *body, const Place *outer, bool loops, bool by_place)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        const Place here = {outer, body, n + 1, loops};
        const bool asks = s->kind == TILE_S_IF && s->branch.test->op == TILE_X_ANYWHERE;
        Found f;
        for (uint32_t i = 0; i < parts.body_count && !asks; i++)
            walk(p, parts.bodies[i], &here, s->kind == TILE_S_FOR, by_place);
        if (find(s, &f) && is_free(&f, &here))
            replace(p, &f, by_place, &out);
        else
            pass_push(p, &out, s);
    }
    *body = out;
}

void pass_tanh(Pass *p)
{
    bool halves = false, reduces = true;
    look_at_products(&p->role->body, &halves, &reduces);
    if (p->module->caps->tanh_near && halves && reduces)
        walk(p, &p->role->body, NULL, false, tile_is_by_place(&p->role->body));
}
