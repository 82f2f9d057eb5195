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
        s->stage.turn = pass_name(p, counter, s->span);
        AuTileExpr *next = pass_expr(p, TILE_X_ADD, pass_name(p, counter, s->span),
                                     pass_number(p, 1, s->span), s->span);
        pass_push(p, &out, pass_assignment(p, counter, next, s->span));
    }
    *body = out;
}

void pass_turns(Pass *p)
{
    Turns t = {.p = p};
    AuTileStmts *body = &p->role->body, all = {0};
    walk(&t, body);
    for (uint32_t n = 0; n < t.counters.count; n++)
        pass_push(p, &all,
                  pass_assignment(p, t.counters.at[n].name, pass_number(p, 0, p->role->span),
                                  p->role->span));
    for (uint32_t n = 0; n < body->count; n++) pass_push(p, &all, body->at[n]);
    *body = all;
}
