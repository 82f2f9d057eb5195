/* ast.c - makes the nodes of the syntax tree; see ast.h. */
#include "ast.h"

AuSpan ast_join(AuSpan first, AuSpan last)
{
    return (AuSpan){first.source, first.begin, last.end > first.end ? last.end : first.end};
}

AuAst *ast_leaf(AuAstMaker *m, AuAstKind kind, AuSpan span)
{
    AuAst *e = AU_NEW(m->arena, AuAst);
    *e = (AuAst){.kind = kind, .span = span, .depth = 1};
    return e;
}

/* A node over arguments; what would be too deep to walk becomes an error node. */
static AuAst *node(AuAstMaker *m, AuAst template, AuAstList args)
{
    AuAst *e = AU_NEW(m->arena, AuAst);
    *e = template;
    e->args = args;
    for (uint32_t i = 0; i < args.count; i++)
        if (args.items[i]->depth > e->depth) e->depth = args.items[i]->depth;
    if (++e->depth <= AU_AST_MAX_DEPTH) return e;
    if (!m->too_deep)
        au_error(m->diags, AU_E0110, e->span, "this expression is nested deeper than %d levels",
                 AU_AST_MAX_DEPTH);
    m->too_deep = true;
    return ast_leaf(m, AU_AST_ERROR, e->span);
}

static AuAstList list_of(AuAstMaker *m, AuAst *x, AuAst *y)
{
    AuAst **items = AU_NEW_ARRAY(m->arena, AuAst *, 2);
    items[0] = x;
    items[1] = y;
    return (AuAstList){items, y ? 2 : 1, 2};
}

AuAst *ast_unary(AuAstMaker *m, AuAstOp op, AuAst *x, AuSpan span)
{
    return node(m, (AuAst){.kind = AU_AST_UNARY, .op = op, .span = ast_join(span, x->span)},
                list_of(m, x, NULL));
}

AuAst *ast_binary(AuAstMaker *m, AuAstOp op, AuAst *x, AuAst *y)
{
    return node(m, (AuAst){.kind = AU_AST_BINARY, .op = op, .span = ast_join(x->span, y->span)},
                list_of(m, x, y));
}

AuAst *ast_apply(AuAstMaker *m, AuAstKind kind, AuAstName name, AuAstList args, AuSpan last)
{
    return node(m,
                (AuAst){.kind = kind,
                        .span = ast_join(name.span, last),
                        .name = name.text,
                        .name_span = name.span},
                args);
}

AuAst *ast_range(AuAstMaker *m, AuAst *first, AuAst *last)
{
    return node(m, (AuAst){.kind = AU_AST_RANGE, .span = ast_join(first->span, last->span)},
                list_of(m, first, last));
}

AuAst *ast_grouped(AuAst *x, AuSpan first, AuSpan last)
{
    x->span = ast_join(first, last);
    return x;
}

AuItem *ast_item(AuAstMaker *m, AuItemKind kind, AuAstName name, AuSpan first, AuSpan last)
{
    AuItem *item = AU_NEW(m->arena, AuItem);
    *item = (AuItem){.kind = kind, .span = ast_join(first, last), .name = name};
    return item;
}

AuBody *ast_body(AuAstMaker *m)
{
    AuBody *body = AU_NEW(m->arena, AuBody);
    body->braces = true;
    return body;
}

AuBody *ast_body_of_expr(AuAstMaker *m, AuAst *value, AuSpan span)
{
    AuBody *body = AU_NEW(m->arena, AuBody);
    const AuStmt stmt = {.kind = AU_STMT_RETURN, .span = span, .values = list_of(m, value, NULL)};
    AU_PUSH(m->arena, body->stmts, body->count, body->capacity, stmt);
    body->span = span;
    return body;
}

void ast_loop_end(AuAstMaker *m, AuBody *body, AuSpan span)
{
    body->span = span;
    for (uint32_t i = 0; i < body->count && !body->broken; i++) {
        if (body->stmts[i].kind != AU_STMT_RETURN) continue;
        au_error(m->diags, AU_E0111, body->stmts[i].span,
                 "a 'return' stands at the end of a body, not in a loop");
        body->broken = true;
    }
}

void ast_body_end(AuAstMaker *m, AuBody *body, AuSpan span)
{
    body->span = span;
    for (uint32_t i = 0; i < body->count; i++) {
        if (body->stmts[i].kind != AU_STMT_RETURN) continue;
        if (i + 1 < body->count)
            au_error(m->diags, AU_E0111, body->stmts[i + 1].span,
                     "a body ends with its 'return'; this statement comes after it");
        body->count = i + 1;
        return;
    }
    const AuSpan end = {span.source, span.end - 1, span.end};
    if (!body->broken)
        au_error(m->diags, AU_E0111, end, "expected a 'return' at the end of this body");
    body->broken = true;
}
