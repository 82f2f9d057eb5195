/* turns.c - stages of pipelines by number.
 *
 *     x = acquire key             x = acquire key turn key_filled
 *                                 key_filled = key_filled + 1
 *
 * The turn is how many stages of the ring this role has had before, from either of its ends. The place in the ring is its remainder by
 * the number of stages, the phase of the barriers there its quotient. A ring that is chosen by a number which is no constant has no
 * counter of its own: such stages stay as they are, and the lowering refuses them. */
#include "pass.h"

typedef struct Counter {
    const AuTilePipe *pipe;
    bool fills;
    int64_t ring;
    const char *name;
} Counter;

typedef struct Turns {
    Pass *p;
    TILE_LIST(Counter) counters;
} Turns;

static AuTileExpr *expression(Pass *p, AuTileOp op, AuSpan span)
{
    AuTileExpr *e = AU_NEW(p->arena, AuTileExpr);
    *e = (AuTileExpr){.op = op, .span = span};
    return e;
}

static AuTileExpr *number(Pass *p, int64_t value, AuSpan span)
{
    AuTileExpr *e = expression(p, TILE_X_INT, span);
    e->integer = value;
    return e;
}

static AuTileExpr *value_of(Pass *p, const char *name, AuSpan span)
{
    AuTileExpr *e = expression(p, TILE_X_NAME, span);
    e->name = name;
    return e;
}

static AuTileStmt *assignment(Pass *p, const char *name, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_ASSIGN, .span = value->span};
    AU_PUSH(p->arena, s->assign.names.at, s->assign.names.count, s->assign.names.capacity, name);
    s->assign.value = value;
    return s;
}

/* The counter of the ring that the statement means; NULL: which one it is, the program decides later. */
static const char *counter_of(Turns *t, const AuTileStmt *s)
{
    static const AuTileType whole = {.elem = TILE_I32};
    const AuTileExpr *index = s->stage.index;
    if (index && index->op != TILE_X_INT) return NULL;
    const Counter wanted = {s->stage.pipe, s->kind == TILE_S_ACQUIRE, index ? index->integer : 0,
                            NULL};
    for (uint32_t n = 0; n < t->counters.count; n++) {
        const Counter *c = &t->counters.at[n];
        if (c->pipe == wanted.pipe && c->fills == wanted.fills && c->ring == wanted.ring)
            return c->name;
    }
    Counter c = wanted;
    c.name = pass_new_var(
                 t->p, au_format(t->p->arena, "%s_%s", c.pipe->name, c.fills ? "filled" : "taken"),
                 &whole)
                 ->name;
    AU_PUSH(t->p->arena, t->counters.at, t->counters.count, t->counters.capacity, c);
    return c.name;
}

static void walk(Turns *t, AuTileStmts *body)
{
    Pass *p = t->p;
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(t, parts.bodies[i]);
        pass_push(p, &out, s);
        if (s->kind != TILE_S_ACQUIRE && s->kind != TILE_S_WAIT_STAGE) continue;
        const char *counter = counter_of(t, s);
        if (!counter || s->stage.turn) continue;
        s->stage.turn = value_of(p, counter, s->span);
        AuTileExpr *next = expression(p, TILE_X_ADD, s->span), *one = number(p, 1, s->span),
                   *now = value_of(p, counter, s->span);
        AU_PUSH(p->arena, next->args.at, next->args.count, next->args.capacity, now);
        AU_PUSH(p->arena, next->args.at, next->args.count, next->args.capacity, one);
        pass_push(p, &out, assignment(p, counter, next));
    }
    *body = out;
}

void pass_turns(Pass *p)
{
    Turns t = {.p = p};
    AuTileStmts *body = &p->role->body, all = {0};
    walk(&t, body);
    for (uint32_t n = 0; n < t.counters.count; n++)
        pass_push(p, &all, assignment(p, t.counters.at[n].name, number(p, 0, p->role->span)));
    for (uint32_t n = 0; n < body->count; n++) pass_push(p, &all, body->at[n]);
    *body = all;
}
