/* lag.c - running maxima that lie behind.
 *
 * Any number does as the reference of exp(x - m) that is not so small that the exponential overflows, or so large that it vanishes, as long as
 * all that is made of it is divided by it in the end (dsl/ir/reference.c, which a schedule asks before it sets `option lag`). So a row's
 * reference may stay as it is while no score passes it by more than [lag] powers of two, and the exact maximum, with the lanes' exchange and
 * factors other than 1, is looked for only in warps where one does:
 *
 *     t = max(m, reduce_maxnan(x) * c)                top = m
 *     .. reduce_maxnan(x) * c ..                      near = !(reduce_top(x) * c < m + lag log(2))
 *                                                     if anywhere(near) { top = reduce_maxnan(x) * c }
 *                                                     t = max(m, top)
 *                                                     .. top ..
 *
 * A row that has no pair yet has the reference -inf, which no score is below: it asks for the exact one. So does NaN, as far as reduce_top
 * sees it; where it does not, the row's sums become NaN all the same.
 *
 * Of loops over tiles only: what comes before them begins with exact maxima. */
#include "pass.h"

#include <math.h>

/* ln(2) */
#define LOG_2 0.69314718055994530942

/* ---- maxima of a row */

/* The maximum of a tile that the expression is an increasing function of, of numbers and of one other row; NULL: it is none. */
static AuTileExpr *maximum_in(AuTileExpr *e)
{
    if (tile_is_max(e)) return e->args.at[0]->op == TILE_X_NAME ? e : NULL;
    for (uint32_t n = 0; n < 2 && (e->op == TILE_X_MUL || e->op == TILE_X_ADD); n++) {
        const AuTileExpr *other = e->args.at[1 - n];
        AuTileExpr *found = maximum_in(e->args.at[n]);
        if (found && (other->op == TILE_X_FLOAT ? e->op == TILE_X_ADD || other->number > 0
                                                : e->op == TILE_X_ADD && other->op == TILE_X_NAME))
            return found;
    }
    return NULL;
}

/* t = max(m, maximum), m of what the steps of the loop before have left. */
static AuTileExpr *running_maximum(const AuTileStmt *s, AuTileExpr **m)
{
    const AuTileExpr *e = s->kind == TILE_S_ASSIGN ? s->assign.value : NULL;
    if (!e || e->op != TILE_X_MAX) return NULL;
    for (uint32_t n = 0; n < 2; n++) {
        *m = e->args.at[n];
        if ((*m)->op == TILE_X_NAME && (*m)->var != s->var && maximum_in(e->args.at[1 - n]))
            return e->args.at[1 - n];
    }
    return NULL;
}

/* ---- in its place */

typedef struct Exchange {
    Pass *p;
    AuTileExpr *of; /* what is replaced, */
    const char *by; /* by a name; NULL: the reduction in it by reduce_top */
    uint32_t left;  /* other reads of the same maximum */
} Exchange;

static bool is_least(const AuTileExpr *e)
{
    return e->op == TILE_X_NEG ? isinf(e->args.at[0]->number) != 0
                               : e->op == TILE_X_FLOAT && e->number < 0 && isinf(e->number);
}

/* Is there a pair? What is increasing in the maximum is -inf where that is. */
static bool asks_for_pairs(const Exchange *x, const AuTileExpr *e)
{
    return x->by && (e->op == TILE_X_NE || e->op == TILE_X_GT) && is_least(e->args.at[1]) &&
           tile_same_expr(e->args.at[0], maximum_in(x->of));
}

static AuTileExpr *exchanged(Exchange *x, AuTileExpr *e)
{
    if (x->by && tile_same_expr(e, x->of)) return pass_name(x->p, x->by, e->span);
    if (asks_for_pairs(x, e))
        return pass_expr(x->p, e->op, pass_name(x->p, x->by, e->span), e->args.at[1], e->span);
    if (tile_is_max(e) && tile_same_expr(e, maximum_in(x->of))) x->left++;
    AuTileExpr *copy = AU_NEW(x->p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    if (!x->by && tile_is_max(e)) copy->op = TILE_X_REDUCE_TOP;
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(x->p->arena, copy->args.at, copy->args.count, copy->args.capacity,
                e->args.at[n] ? exchanged(x, e->args.at[n]) : NULL);
    return copy;
}

static AuTileExpr *number(Pass *p, double value, AuSpan span)
{
    AuTileExpr *e = pass_expr(p, TILE_X_FLOAT, NULL, NULL, span);
    e->number = (double)(float)value;
    return e;
}

/* !(reduce_top(x) * c < m + lag log(2)) */
static AuTileExpr *is_near(Pass *p, AuTileExpr *maximum, const AuTileExpr *m)
{
    Exchange x = {.p = p, .of = maximum};
    AuTileExpr *top = exchanged(&x, maximum);
    AuTileExpr *limit = pass_expr(p, TILE_X_ADD, pass_name(p, m->name, m->span),
                                  number(p, p->module->options.lag * LOG_2, m->span), m->span);
    return pass_expr(p, TILE_X_NOT, pass_expr(p, TILE_X_LT, top, limit, m->span), NULL, m->span);
}

/* What stands before t: the reference as it is, and the exact maximum where a score may have passed it. */
static void look(Pass *p, AuTileExpr *maximum, const AuTileExpr *m, const char *top,
                 AuTileStmts *out)
{
    const AuSpan span = maximum->span;
    AuTileType *truth = AU_NEW(p->arena, AuTileType);
    *truth = *maximum->type;
    truth->elem = TILE_BOOL;
    const char *near = pass_new_var(p, "near", truth)->name;
    pass_push(p, out, pass_assignment(p, top, pass_name(p, m->name, span), span));
    pass_push(p, out, pass_assignment(p, near, is_near(p, maximum, m), span));
    AuTileStmt *s = pass_branch(p, pass_name(p, near, span), span);
    pass_push(p, &s->branch.then, pass_assignment(p, top, maximum, span));
    pass_push(p, out, s);
}

/* The statements from [n] on, until the tile is set anew, with `top` for the maximum. false: some of them ask for it in another form, or in a
 * body of their own, and nothing has changed. */
static bool replace(Pass *p, AuTileStmts *body, uint32_t from, AuTileExpr *maximum, const char *top)
{
    const AuTileVar *tile = maximum_in(maximum)->args.at[0]->var;
    Exchange x = {.p = p, .of = maximum, .by = top};
    uint32_t end = from;
    AuTileExpr **values = AU_NEW_ARRAY(p->arena, AuTileExpr *, body->count);
    for (; end < body->count && (end == from || body->at[end]->var != tile); end++) {
        const AuTileStmt *s = body->at[end];
        if (s->kind == TILE_S_ASSIGN)
            values[end] = exchanged(&x, s->assign.value);
        else if (s->kind == TILE_S_FRAG && s->frag.init)
            values[end] = exchanged(&x, s->frag.init);
    }
    if (x.left) return false;
    for (uint32_t n = from; n < end; n++)
        if (values[n])
            *(body->at[n]->kind == TILE_S_FRAG ? &body->at[n]->frag.init
                                               : &body->at[n]->assign.value) = values[n];
    return true;
}

static void tiles(Pass *p, AuTileStmts *body)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileExpr *m = NULL, *maximum = running_maximum(body->at[n], &m);
        const char *top = maximum ? pass_new_var(p, "top", maximum->type)->name : NULL;
        if (maximum && replace(p, body, n, maximum, top)) look(p, maximum, m, top, &out);
        pass_push(p, &out, body->at[n]);
    }
    *body = out;
}

static void walk(Pass *p, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
        if (pass_is_list_loop(body->at[n])) tiles(p, &body->at[n]->loop.body);
    }
}

void pass_lag(Pass *p)
{
    if (p->module->options.lag && !p->role->is_exact) walk(p, &p->role->body);
}
