/* statistics_far.c - exponents of rows that are far from 0 (references.c), where they are made with the rows (statistics.c). A branch that is hardly
 * ever taken gives such a row's pairs another difference, and its exponent a constant. So the exponent comes in as that constant:
 *
 *     exponent = row0 * c                         exponent_all = where(!(abs(row0_all * c) <= 16384.0), 0.0, .. row0_all * c)
 *     far = !(abs(exponent) <= 16384.0)           far_asked = exponent_asked == 0.0
 *     if anywhere(far) {                          if anywhere(far_asked) {
 *         exponent = row0 * c                         exponent_near = row0 * c
 *         far = !(abs(exponent) <= 16384.0)           far = !(abs(exponent_near) <= 16384.0)
 *         own = where(far, .., own)                   own = where(far, .., own)
 *         exponent = where(far, 0.0, exponent)    }
 *     }
 *
 * and the branch sets nothing but the pairs' own numbers: no exponent of a column passes through it. A row whose exponent happens to be the constant
 * comes in with the number beside it, which differs by less than a rounding: rows of padding, whose finals are 0, ask for no branch. */
#include "statistics.h"

#include <float.h>
#include <math.h>

static bool is_name(const AuTileExpr *e, const AuTileVar *var)
{
    return e->op == TILE_X_NAME && e->var == var;
}

static bool uses(AuTileStmt *s, const AuTileVar *var)
{
    const AuTileStmts one = {.at = &s, .count = 1};
    return tile_count_uses(&one, var) > 0;
}

/* The first of the body's statements from [n] on that uses the variable; NULL: none does. */
static AuTileStmt *next_use(const AuTileStmts *body, uint32_t n, const AuTileVar *var)
{
    for (; n < body->count; n++)
        if (uses(body->at[n], var)) return body->at[n];
    return NULL;
}

static AuTileStmt *last_use(const AuTileStmts *body, const AuTileVar *var)
{
    for (uint32_t n = body->count; n-- > 0;)
        if (uses(body->at[n], var)) return body->at[n];
    return NULL;
}

/* Does the statement assign to the variable what another does? */
static bool sets_again(const AuTileStmt *s, const AuTileStmt *of)
{
    return s && s->kind == TILE_S_ASSIGN && s->var == of->var &&
           tile_same_expr(tile_assigned(s), tile_assigned(of));
}

/* var = where(far, constant, var) */
static bool gives_constant(const AuTileStmt *s, const AuTileVar *var, const AuTileVar *far)
{
    const AuTileExpr *e = s && s->kind == TILE_S_ASSIGN && s->var == var ? tile_assigned(s) : NULL;
    return e && e->op == TILE_X_WHERE && is_name(e->args.at[0], far) &&
           e->args.at[1]->op == TILE_X_FLOAT && is_name(e->args.at[2], var);
}

AuTileStmt *stats_only_branch(const Stats *x, const AuTileStmts *body, uint32_t n,
                              const AuTileVar *var)
{
    AuTileStmt *s = next_use(body, n + 1, var);
    if (!s || !tile_asks(s) || s->branch.other.count || !is_name(s->branch.test->args.at[0], var))
        return NULL;
    const AuTileStmts one = {.at = &s, .count = 1};
    const uint32_t here = tile_count_uses(&one, var);
    return tile_count_uses(&x->p->role->body, var) == here + 1 ? s : NULL;
}

bool stats_find_far(const Stats *x, StatsFar *out)
{
    const AuTileStmts *body = x->body;
    AuTileStmt *s = body->at[x->at], *test = next_use(body, x->at + 1, s->var);
    if (!test || test->kind != TILE_S_ASSIGN || !test->var || test->var == s->var ||
        test->var->type->elem != TILE_BOOL)
        return false;
    uint32_t at = x->at;
    while (body->at[at] != test) at++;
    AuTileStmt *branch = stats_only_branch(x, body, at, test->var);
    if (!branch || next_use(body, at + 1, s->var) != branch) return false;
    const AuTileStmts *then = &branch->branch.then;
    AuTileStmt *last = last_use(then, s->var);
    if (!sets_again(next_use(then, 0, s->var), s) ||
        !sets_again(next_use(then, 0, test->var), test) || !gives_constant(last, s->var, test->var))
        return false;
    *out = (StatsFar){test, tile_assigned(last)->args.at[1]};
    return true;
}

static AuTileExpr *where(Pass *p, AuTileExpr *test, AuTileExpr *then, AuTileExpr *other)
{
    AuTileExpr *e = pass_expr(p, TILE_X_WHERE, test, then, other->span);
    AU_PUSH(p->arena, e->args.at, e->args.count, e->args.capacity, other);
    e->type = other->type;
    return e;
}

/* The next number; of 0 the smallest that no unit takes for 0. */
static AuTileExpr *beside(Pass *p, const AuTileExpr *constant)
{
    AuTileExpr *e = AU_NEW(p->arena, AuTileExpr);
    *e = *constant;
    e->number = e->number == 0 ? FLT_MIN : nextafterf((float)e->number, INFINITY);
    return e;
}

AuTileStmt *stats_near(Stats *x, AuTileStmt *s, const StatsFar *far)
{
    Pass *p = x->p;
    AuTileExpr *value = tile_assigned(s),
               *test = pass_with(p, tile_assigned(far->test), s->var, value),
               *same = pass_expr(p, TILE_X_EQ, value, far->constant, s->span);
    AuTileStmt *near = AU_NEW(p->arena, AuTileStmt);
    *near = *s;
    near->assign.value =
        where(p, test, far->constant, where(p, same, beside(p, far->constant), value));
    return near;
}

void stats_leave_branch(Stats *x, const AuTileVar *var, AuTileStmt *branch)
{
    Pass *p = x->p;
    AuTileStmts *then = &branch->branch.then, out = {0};
    const AuTileStmt *last = last_use(then, var); /* gives the constant */
    const char *name = stats_new_name(x, var->name, "near");
    AuTileExpr *read = pass_name(p, name, branch->span);
    read->type = var->type;
    for (uint32_t n = 0; n < then->count; n++) {
        AuTileStmt *s = then->at[n];
        const AuTileParts parts = tile_parts(s);
        if (s == last) continue;
        for (uint32_t i = 0; i < parts.read_count; i++)
            *parts.reads[i] = pass_with(p, *parts.reads[i], var, read);
        if (s->kind == TILE_S_ASSIGN && s->var == var)
            s = pass_assignment(p, name, tile_assigned(s), s->span);
        pass_push(p, &out, s);
    }
    *then = out;
}

AuTileExpr *stats_ask_far(Stats *x, const char *asked, AuTileExpr *constant)
{
    const AuSpan span = constant->span;
    return pass_expr(x->p, TILE_X_EQ, pass_name(x->p, asked, span), constant, span);
}
