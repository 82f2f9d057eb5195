/* indices.c - tiles of indices that are set several times.
 *
 *     j = first(keys) * 64 + iota(kv:64)      j_first = first(keys) * 64
 *     .. j < T ..                             .. j_first + iota(kv:64) < T ..
 *     j = j + 256                             j_first = j_first + 256
 *
 * A tile without a layout is computed where it is read, from what it was set to, so that must be one thing. Where all that a tile
 * of indices is set to is a number and an iota, it is the number that changes. Others stay, and the lowering refuses them. */
#include "pass.h"

typedef struct Index {
    Pass *p;
    const AuTileVar *var;
    const AuTileAxis *axis;
    const char *first; /* the number's name */
    uint32_t defs;
    bool good;
} Index;

static AuTileExpr *expression(Index *x, AuTileOp op, AuSpan span)
{
    AuTileExpr *e = AU_NEW(x->p->arena, AuTileExpr);
    *e = (AuTileExpr){.op = op, .span = span};
    return e;
}

static AuTileExpr *with(Index *x, AuTileExpr *e, AuTileExpr *arg)
{
    AU_PUSH(x->p->arena, e->args.at, e->args.count, e->args.capacity, arg);
    return e;
}

static AuTileExpr *number(Index *x, int64_t value, AuSpan span)
{
    AuTileExpr *e = expression(x, TILE_X_INT, span);
    e->integer = value;
    return e;
}

static AuTileExpr *first_of(Index *x, AuSpan span)
{
    AuTileExpr *e = expression(x, TILE_X_NAME, span);
    e->name = x->first;
    return e;
}

static bool is_scalar(const AuTileExpr *e) { return e->type && !e->type->count; }

/* The number that is added to the iota; NULL: it is made otherwise. */
static AuTileExpr *added(Index *x, AuTileExpr *e)
{
    if (e->op == TILE_X_IOTA) return e->name == x->axis->name ? number(x, 0, e->span) : NULL;
    if (e->op == TILE_X_NAME && e->var == x->var) return first_of(x, e->span);
    if (e->op != TILE_X_ADD && e->op != TILE_X_SUB) return NULL;
    AuTileExpr *const a = e->args.at[0], *const b = e->args.at[1];
    const bool swapped = e->op == TILE_X_ADD && is_scalar(a);
    if (!swapped && !is_scalar(b)) return NULL;
    AuTileExpr *inner = added(x, swapped ? b : a);
    return inner ? with(x, with(x, expression(x, e->op, e->span), inner), swapped ? a : b) : NULL;
}

static void check(Index *x, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) check(x, parts.bodies[i]);
        if (s->var != x->var) continue;
        x->defs++;
        x->good &= s->kind == TILE_S_ASSIGN && added(x, s->assign.value);
    }
}

static void replace(Index *x, AuTileExpr **e)
{
    if (!*e) return;
    if ((*e)->op != TILE_X_NAME || (*e)->var != x->var) {
        for (uint32_t n = 0; n < (*e)->args.count; n++) replace(x, &(*e)->args.at[n]);
        return;
    }
    AuTileExpr *iota = expression(x, TILE_X_IOTA, (*e)->span);
    iota->name = x->axis->name;
    with(x, iota, number(x, x->axis->size, (*e)->span));
    *e = with(x, with(x, expression(x, TILE_X_ADD, (*e)->span), first_of(x, (*e)->span)), iota);
}

static void change(Index *x, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) change(x, parts.bodies[i]);
        if (s->kind == TILE_S_ASSIGN && s->var == x->var) {
            s->assign.value = added(x, s->assign.value);
            s->assign.names.at[0] = x->first;
            continue;
        }
        for (uint32_t i = 0; i < parts.read_count; i++) replace(x, parts.reads[i]);
        if (parts.dest) replace(x, &parts.dest);
    }
}

void pass_indices(Pass *p)
{
    static const AuTileType whole = {.elem = TILE_I32};
    AuTileStmts *body = &p->role->body;
    for (uint32_t n = 0; n < p->role->vars.count; n++) {
        const AuTileVar *var = p->role->vars.at[n];
        if (var->kind != TILE_VALUE || var->origin != TILE_FROM_BODY || var->type->count != 1 ||
            var->type->elem != TILE_I32 || !tile_is_virtual(var->type))
            continue;
        Index x = {.p = p, .var = var, .axis = &var->type->axes[0], .first = "", .good = true};
        check(&x, body);
        if (!x.good || x.defs < 2) continue;
        x.first = pass_new_var(p, au_format(p->arena, "%s_first", var->name), &whole)->name;
        change(&x, body);
    }
}
