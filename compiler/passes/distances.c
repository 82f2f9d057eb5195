/* distances.c - distances of positions, f32(i - j), as a number of the row and one of the column.
 *
 *     f32(a + i - j)                     f32(a + i0 - j) + f32(i - i0): no conversion for each pair
 *     x = u + r, r of the rows of exp(x - y) or of reduce_max(x)
 *                                        x = u; maxima take r, and exp(u - (y - r))
 *
 * i0 is where the tile's first axis begins. Both parts are exact where the distance is below 2^24, and rounded like it beyond. The
 * second rule sees through sums, and through products with numbers that all pairs share: slope * f32(i - j) leaves one multiply-add
 * for each pair of softmax, slope * f32(j - i0) in place of the score's plain factor. What goes out is small where it comes from the
 * first axis (less than the tile's rows), and where it comes from the second it goes to a statistic that is as large as the score:
 * neither loses more than the rounding of the score does. Such numbers are products of positions, and so finite: -inf stays -inf. */
#include "algebra.h"

#include <math.h>

/* An expression as a sum; NULL: 0. */
typedef struct Parts {
    AuTileExpr *rest, *row;
} Parts;

/* What is looked for in a statement. */
typedef struct Search {
    Algebra *x;
    const AuTileStmts *run;
    uint32_t at;
    const AuTileType *type; /* of the pairs */
    const char *out;        /* the axis of the parts `row` */
    bool own_stays;         /* does what depends on `self` stay with the first axis? */
} Search;

/* Does it read only what is assigned once, so that it means the same wherever it stands? */
static bool is_fixed(const Search *s, const AuTileExpr *e)
{
    if (e->op == TILE_X_NAME && e->var && e->var->origin == TILE_FROM_BODY &&
        pass_count(s->x->p, e->var)->defs > 1)
        return false;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n] && !is_fixed(s, e->args.at[n])) return false;
    return true;
}

static AuTileExpr *meaning(const Search *s, const AuTileExpr *e)
{
    AuTileExpr *here = algebra_defined(s->run, s->at, e);
    return here || e->op != TILE_X_NAME || !e->var ? here : pass_formula(s->x->p, e->var);
}

static bool has_axis(const AuTileExpr *e, const char *axis)
{
    return e->type && tile_axis(e->type, axis);
}

/* [type] of other elements, less [axis] (NULL: all of them). */
static const AuTileType *less_axis(Search *s, const AuTileType *type, AuTileElem elem,
                                   const char *axis)
{
    AuTileType *out = AU_NEW(s->x->p->arena, AuTileType);
    *out =
        (AuTileType){.elem = elem, .axes = AU_NEW_ARRAY(s->x->p->arena, AuTileAxis, type->count)};
    for (uint32_t n = 0; n < type->count; n++)
        if (type->axes[n].name != axis) out->axes[out->count++] = type->axes[n];
    return out;
}

/* ---- f32 of a sum of indices */

/* The sum of indices with 0 for `iota` along the axis, and how often that is in it: 1 or -1. NULL: it is no
 * such sum. */
static AuTileExpr *at_first(Search *s, AuTileExpr *e, const char *axis, int sign, int *found)
{
    Algebra *x = s->x;
    if (!has_axis(e, axis)) return e;
    const AuTileType *type = less_axis(s, e->type, TILE_I32, axis);
    if (e->op == TILE_X_IOTA && !*found) {
        *found = sign;
        return algebra_node(x, TILE_X_INT, type, NULL, NULL, NULL);
    }
    if (e->op == TILE_X_NAME) {
        AuTileExpr *is = tile_is_virtual(e->type) ? meaning(s, e) : NULL;
        return is ? at_first(s, is, axis, sign, found) : NULL;
    }
    if (e->op != TILE_X_ADD && e->op != TILE_X_SUB) return NULL;
    AuTileExpr *const a = at_first(s, e->args.at[0], axis, sign, found);
    if (!a) return NULL; /* what both share is not looked into twice */
    AuTileExpr *const b =
        at_first(s, e->args.at[1], axis, e->op == TILE_X_SUB ? -sign : sign, found);
    return b ? algebra_node(x, e->op, type, a, b, NULL) : NULL;
}

static bool asks_for_self(const AuTileExpr *e)
{
    if (e->op == TILE_X_NAME) return e->var && e->var->origin == TILE_FROM_SELF;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (asks_for_self(e->args.at[n])) return true;
    return false;
}

/* The sum with 0 for the addend that depends on `self`, which goes to [*own] if it counts as often as [sign] says. */
static AuTileExpr *without_own(Search *s, AuTileExpr *e, int at, int sign, AuTileExpr **own)
{
    if (!asks_for_self(e)) return e;
    if (e->op == TILE_X_ADD || e->op == TILE_X_SUB) {
        AuTileExpr *const a = without_own(s, e->args.at[0], at, sign, own),
                          *b = without_own(s, e->args.at[1], e->op == TILE_X_SUB ? -at : at, sign,
                                           own);
        return algebra_node(s->x, e->op, e->type, a, b, NULL);
    }
    if (*own || at != sign || e->type->count) return e;
    *own = e;
    return algebra_node(s->x, TILE_X_INT, e->type, NULL, NULL, NULL);
}

/* f32(sum of indices of both axes): what does not and what does depend on the place along the first
 * axis. */
static bool distance(Search *s, const AuTileExpr *e, AuTileExpr *parts[2])
{
    Algebra *x = s->x;
    const AuTileAxis *first = &s->type->axes[0];
    if (e->op != TILE_X_TO_F32 || e->args.at[0]->type->elem != TILE_I32 || e->type->count != 2 ||
        !has_axis(e, first->name) || !has_axis(e, s->type->axes[1].name))
        return false;
    int sign = 0;
    AuTileExpr *from = at_first(s, e->args.at[0], first->name, 1, &sign);
    if (!from || !sign) return false;
    const AuTileType *along = less_axis(s, s->type, TILE_F32, s->type->axes[1].name),
                     *across = less_axis(s, s->type, TILE_F32, first->name);
    AuTileExpr *extent = algebra_node(x, TILE_X_INT, NULL, NULL, NULL, NULL);
    extent->integer = first->size;
    AuTileExpr *iota =
        algebra_node(x, TILE_X_IOTA, less_axis(s, along, TILE_I32, NULL), extent, NULL, NULL);
    iota->name = first->name;
    AuTileExpr *own = NULL;
    if (s->own_stays) from = without_own(s, from, 1, sign, &own);
    if (own) iota = algebra_node(x, TILE_X_ADD, iota->type, iota, own, NULL);
    parts[0] = algebra_node(x, TILE_X_TO_F32, across, from, NULL, NULL);
    parts[1] = algebra_node(x, TILE_X_TO_F32, along, iota, NULL, NULL);
    if (sign < 0) parts[1] = algebra_node(x, TILE_X_NEG, along, parts[1], NULL, NULL);
    return true;
}

/* All distances in an expression as sums. */
static AuTileExpr *with_sums(Search *s, AuTileExpr *e)
{
    AuTileExpr *parts[2];
    bool changed = false;
    if (!e) return NULL;
    if (distance(s, e, parts))
        return algebra_node(s->x, TILE_X_ADD, e->type, parts[0], parts[1], NULL);
    AuTileExpr **args = AU_NEW_ARRAY(s->x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++) {
        args[n] = with_sums(s, e->args.at[n]);
        changed |= args[n] != e->args.at[n];
    }
    return changed ? algebra_with(s->x, e, args) : e;
}

/* ---- sums of a part of the row and the rest */

static Parts parts_of(Search *s, AuTileExpr *e);

static AuTileExpr *sum(Search *s, AuTileOp op, const AuTileType *type, AuTileExpr *a, AuTileExpr *b)
{
    if (!b) return a;
    if (a) return algebra_node(s->x, op, type, a, b, NULL);
    return op == TILE_X_SUB ? algebra_node(s->x, TILE_X_NEG, type, b, NULL, NULL) : b;
}

static AuTileExpr *scaled(Search *s, const AuTileExpr *e, const AuTileType *type, AuTileExpr *part,
                          bool second)
{
    AuTileExpr *a = second ? e->args.at[0] : part, *b = second ? part : e->args.at[1];
    return algebra_node(s->x, e->op, type, a, b, NULL);
}

/* u * c, c * u, u / c with a number c that all pairs share. */
static Parts parts_of_product(Search *s, AuTileExpr *e)
{
    const bool second = e->op == TILE_X_MUL && !e->args.at[0]->type->count;
    const AuTileExpr *c = e->args.at[second ? 0 : 1];
    Parts p = {e, NULL};
    if (c->type->count) return p;
    p = parts_of(s, e->args.at[second ? 1 : 0]);
    if (!p.row) return (Parts){e, NULL};
    return (Parts){p.rest ? scaled(s, e, e->type, p.rest, second) : NULL,
                   scaled(s, e, p.row->type, p.row, second)};
}

static Parts parts_of(Search *s, AuTileExpr *e)
{
    AuTileExpr *both[2];
    if (e->op == TILE_X_NAME) {
        AuTileExpr *is = meaning(s, e);
        if (is && is->op == TILE_X_TO_F32 && is_fixed(s, is)) return parts_of(s, is);
    } else if (distance(s, e, both)) {
        const bool first = s->type->axes[0].name == s->out;
        return (Parts){both[first ? 0 : 1], both[first ? 1 : 0]};
    } else if (e->op == TILE_X_MUL || e->op == TILE_X_DIV)
        return parts_of_product(s, e);
    else if (e->op == TILE_X_ADD || e->op == TILE_X_SUB) {
        const Parts a = parts_of(s, e->args.at[0]), b = parts_of(s, e->args.at[1]);
        const AuTileType *type = a.row ? a.row->type : b.row ? b.row->type : NULL;
        if (type)
            return (Parts){sum(s, e->op, e->type, a.rest, b.rest),
                           sum(s, e->op, type, a.row, b.row)};
    }
    return (Parts){e, NULL};
}

/* ---- a part of the row that is left out of a variable */

/* The axis of y in a later exp(x - y), NULL: there is none. */
static const char *axis_of_exponent(const AuTileStmts *run, uint32_t at, const AuTileVar *var)
{
    for (uint32_t n = at + 1; n < run->count; n++) {
        const AuTileExpr *e = tile_assigned(run->at[n]);
        AlgebraExponent of;
        if (algebra_is_exponent(e, &of) && of.x->op == TILE_X_NAME && of.x->var == var &&
            of.y->type->count == 1)
            return of.y->type->axes[0].name;
    }
    return NULL;
}

static bool is_name_of(const AuTileExpr *e, const AuTileVar *var)
{
    return e->op == TILE_X_NAME && e->var == var;
}

/* The expression when the variable holds [row] less. */
static AuTileExpr *with_row(Algebra *x, AuTileExpr *e, const AuTileVar *var, AuTileExpr *row)
{
    if (is_name_of(e, var) || (tile_is_max(e) && is_name_of(e->args.at[0], var)))
        return algebra_node(x, TILE_X_ADD, e->type, e, row, NULL);
    if (!tile_count_reads(e, var)) return e;
    const AuTileExpr *a = e->args.at[0];
    if ((e->op == TILE_X_GT || e->op == TILE_X_NE) &&
        algebra_is_number(e->args.at[1], -(double)INFINITY) &&
        (is_name_of(a, var) || (tile_is_max(a) && is_name_of(a->args.at[0], var))))
        return e;
    if (e->op == TILE_X_SUB && is_name_of(a, var) && algebra_is_of_row(e->args.at[1], a) &&
        tile_axis(e->args.at[1]->type, row->type->axes[0].name)) {
        AuTileExpr *y = e->args.at[1];
        return algebra_node(x, TILE_X_SUB, e->type, e->args.at[0],
                            algebra_node(x, TILE_X_SUB, y->type, y, row, NULL), NULL);
    }
    AuTileExpr **args = AU_NEW_ARRAY(x->p->arena, AuTileExpr *, e->args.count);
    for (uint32_t n = 0; n < e->args.count; n++)
        args[n] = e->args.at[n] ? with_row(x, e->args.at[n], var, row) : NULL;
    return algebra_with(x, e, args);
}

/* The type of the run's fragments of pairs; NULL: it has none. */
static const AuTileType *type_of_pairs(const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        const AuTileType *type = run->at[n]->var->type;
        if (type->count == 2 && type->axes[0].places && type->axes[1].places) return type;
    }
    return NULL;
}

/* A variable in the expression that lies along the axis as rows do. */
static const AuTileVar *var_along(const AuTileExpr *e, const AuTileAxis *row)
{
    const AuTileAxis *axis =
        e->op == TILE_X_NAME && e->var ? tile_axis(e->var->type, row->name) : NULL;
    if (axis && axis->places && row->places && tile_same_places(axis->places, row->places))
        return e->var;
    const AuTileVar *found = NULL;
    for (uint32_t n = 0; n < e->args.count && !found; n++)
        if (e->args.at[n]) found = var_along(e->args.at[n], row);
    return found;
}

/* What may go out of what the statement sets; row NULL: nothing. */
static Parts leaving(Search *s, const AuTileStmt *statement, AuTileExpr *value)
{
    const Parts stays = {value, NULL};
    s->out = axis_of_exponent(s->run, s->at, statement->var);
    if (!s->out || !algebra_can_leave_out(s->x, s->run, s->at)) return stays;
    const Parts p = parts_of(s, value);
    return p.rest && p.row && var_along(p.rest, p.row->type->axes) ? p : stays;
}

/* Of groups of warps whose rows are columns of their tiles, as backward has them: rows are the block's, so what is of the row alone should be the same for
 * all groups; who brings rows can make it then (statistics.c). */
static bool own_stays(const Search *s)
{
    bool found = false;
    if (s->x->p->role->on != TILE_ON_WARPGROUP || !s->type) return false;
    for (uint32_t n = 0; n < s->run->count; n++) {
        const char *out = axis_of_exponent(s->run, n, s->run->at[n]->var);
        found |= out && out != s->type->axes[0].name;
    }
    return found;
}

void algebra_distances(Algebra *x, const AuTileStmts *run)
{
    const AuTileVar *var = NULL; /* it holds [row] less than it did */
    AuTileExpr *row = NULL;
    Search s = {.x = x, .run = run, .type = type_of_pairs(run)};
    s.own_stays = own_stays(&s);
    for (s.at = 0; s.at < run->count; s.at++) {
        AuTileStmt *statement = run->at[s.at];
        AuTileExpr *value = tile_assigned(statement);
        x->p->span = statement->span;
        if (s.type && !var) {
            const Parts p = leaving(&s, statement, value);
            value = p.rest;
            if (p.row) {
                row = algebra_new_fragment(x, "shift", p.row, var_along(p.rest, p.row->type->axes)),
                var = statement->var;
                x->shifted = var, x->shift = row;
            }
        } else if (var && !(statement->var == var && algebra_is_masking(value, var)))
            value = with_row(x, value, var, row);
        algebra_set(x, statement, s.type ? with_sums(&s, value) : value);
    }
}
