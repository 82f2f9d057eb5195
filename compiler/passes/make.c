/* make.c - untyped expressions and statements; the verifier gives the types after the pass. Those with types: algebra.c. */
#include "pass.h"

AuTileExpr *pass_expr(Pass *p, AuTileOp op, AuTileExpr *a, AuTileExpr *b, AuSpan span)
{
    AuTileExpr *e = AU_NEW(p->arena, AuTileExpr), *const args[2] = {a, b};
    *e = (AuTileExpr){.op = op, .span = span};
    for (int n = 0; n < 2 && args[n]; n++)
        AU_PUSH(p->arena, e->args.at, e->args.count, e->args.capacity, args[n]);
    return e;
}

AuTileExpr *pass_number(Pass *p, int64_t value, AuSpan span)
{
    AuTileExpr *e = pass_expr(p, TILE_X_INT, NULL, NULL, span);
    e->integer = value;
    return e;
}

AuTileExpr *pass_name(Pass *p, const char *name, AuSpan span)
{
    AuTileExpr *e = pass_expr(p, TILE_X_NAME, NULL, NULL, span);
    e->name = name;
    return e;
}

AuTileExpr *pass_with(Pass *p, const AuTileExpr *e, const AuTileVar *var, AuTileExpr *instead)
{
    if (!e) return NULL;
    if (e->op == TILE_X_NAME && e->var == var) return instead;
    AuTileExpr *copy = AU_NEW(p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(p->arena, copy->args.at, copy->args.count, copy->args.capacity,
                pass_with(p, e->args.at[n], var, instead));
    return copy;
}

AuTileStmt *pass_assignment(Pass *p, const char *name, AuTileExpr *value, AuSpan span)
{
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_ASSIGN, .span = span};
    AU_PUSH(p->arena, s->assign.names.at, s->assign.names.count, s->assign.names.capacity, name);
    s->assign.value = value;
    return s;
}

AuTileStmt *pass_branch(Pass *p, AuTileExpr *asked, AuSpan span)
{
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_IF, .span = span};
    s->branch.test = pass_expr(p, TILE_X_ANYWHERE, asked, NULL, span);
    return s;
}
