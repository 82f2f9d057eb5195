/* hook_nodes.c - expressions, assignments and functions of the tiled IR, made one node at a time. */
#include "hook_writer.h"

/* ---- small constructors */

AuTileModule *writer_module(AuHookWriter *w) { return w->hooks->module; }
const char *writer_name(AuHookWriter *w, const char *name)
{
    return au_name(writer_module(w)->names, name);
}

AuTileExpr *writer_node(AuHookWriter *w, AuTileOp op, AuSpan span)
{
    w->hooks->expressions++;
    AuTileExpr *e = AU_NEW(writer_module(w)->arena, AuTileExpr);
    e->op = op;
    e->span = span;
    return e;
}

void writer_add_arg(AuHookWriter *w, AuTileExpr *e, AuTileExpr *arg)
{
    AU_PUSH(writer_module(w)->arena, e->args.at, e->args.count, e->args.capacity, arg);
}

AuTileExpr *writer_op1(AuHookWriter *w, AuTileOp op, AuTileExpr *a)
{
    AuTileExpr *e = writer_node(w, op, a->span);
    writer_add_arg(w, e, a);
    return e;
}
AuTileExpr *writer_op2(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b)
{
    AuTileExpr *e = writer_op1(w, op, a);
    writer_add_arg(w, e, b);
    return e;
}
AuTileExpr *writer_op3(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b, AuTileExpr *c)
{
    AuTileExpr *e = writer_op2(w, op, a, b);
    writer_add_arg(w, e, c);
    return e;
}
AuTileExpr *writer_variable(AuHookWriter *w, const char *name)
{
    AuTileExpr *e = writer_node(w, TILE_X_NAME, (AuSpan){0});
    e->name = writer_name(w, name);
    return e;
}
AuTileExpr *writer_integer(AuHookWriter *w, int64_t value)
{
    AuTileExpr *e = writer_node(w, TILE_X_INT, (AuSpan){0});
    e->integer = value;
    return e;
}
AuTileExpr *writer_number(AuHookWriter *w, double value)
{
    AuTileExpr *e = writer_node(w, TILE_X_FLOAT, (AuSpan){0});
    e->number = value;
    return e;
}

AuTileExpr *writer_assign(AuHookWriter *w, const char *name, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(writer_module(w)->arena, AuTileStmt);
    s->kind = TILE_S_ASSIGN;
    s->span = value->span;
    s->assign.value = value;
    AU_PUSH(writer_module(w)->arena, s->assign.names.at, s->assign.names.count,
            s->assign.names.capacity, writer_name(w, name));
    AU_PUSH(writer_module(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
    return writer_variable(w, name);
}

/* ---- functions */

void writer_count_uses(AuHookWriter *w, AuExpr e)
{
    if (!e.i || w->uses[e.i]++) return;
    const AuNode *node = attn_at(w->attn, e);
    for (uint32_t n = 0; n < node->count; n++) writer_count_uses(w, attn_arg(w->attn, e, n));
    if (node->op == AU_OP_ROPE) w->uses[attn_arg(w->attn, e, 0).i]++; /* turned, and as it is */
}

void writer_begin(AuHookWriter *w, const char *name, const char *const *params, uint32_t count)
{
    AuTileModule *m = writer_module(w);
    AuTileFn *fn = AU_NEW(m->arena, AuTileFn);
    fn->name = writer_name(w, name);
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(m->arena, fn->params.at, fn->params.count, fn->params.capacity,
                writer_name(w, params[n]));
    AU_PUSH(m->arena, m->fns.at, m->fns.count, m->fns.capacity, fn);
    w->fn = fn;
    w->channels.count = 0;
    w->at = NULL;
    w->done = AU_NEW_ARRAY(m->arena, AuTileExpr *, w->attn->node_count);
    w->uses = AU_NEW_ARRAY(m->arena, uint32_t, w->attn->node_count);
}

void writer_finish(AuHookWriter *w, AuTileExpr *const *items, uint32_t count)
{
    AuTileStmt *s = AU_NEW(writer_module(w)->arena, AuTileStmt);
    s->kind = TILE_S_RETURN;
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(writer_module(w)->arena, s->ret.items.at, s->ret.items.count, s->ret.items.capacity,
                items[n]);
    AU_PUSH(writer_module(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
}
