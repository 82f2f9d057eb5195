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

static bool is_scalar(const AuTileExpr *e) { return e->type && !e->type->count; }

/* The number that is added to the iota; NULL: it is made otherwise. */
static AuTileExpr *added(Index *x, AuTileExpr *e)
{
    if (e->op == TILE_X_IOTA)
        return e->name == x->axis->name ? pass_number(x->p, 0, e->span) : NULL;
    if (e->op == TILE_X_NAME && e->var == x->var) return pass_name(x->p, x->first, e->span);
    if (e->op != TILE_X_ADD && e->op != TILE_X_SUB) return NULL;
    AuTileExpr *const a = e->args.at[0], *const b = e->args.at[1];
    const bool swapped = e->op == TILE_X_ADD && is_scalar(a);
    if (!swapped && !is_scalar(b)) return NULL;
    AuTileExpr *inner = added(x, swapped ? b : a);
    return inner ? pass_expr(x->p, e->op, inner, swapped ? a : b, e->span) : NULL;
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
    const AuSpan span = (*e)->span;
    AuTileExpr *iota =
        pass_expr(x->p, TILE_X_IOTA, pass_number(x->p, x->axis->size, span), NULL, span);
    iota->name = x->axis->name;
    *e = pass_expr(x->p, TILE_X_ADD, pass_name(x->p, x->first, span), iota, span);
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
