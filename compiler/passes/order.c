/* order.c - executors whose lanes are threads: what orders memory among the lanes of one executor, and how long to wait for
 * asynchronous copies.
 *
 * The tiled IR's executor is sequential: what it stored it may load. Its lanes are not, so `sync self` goes before a statement that
 * reads what the executor wrote since its last barrier, or writes what it read or wrote. A barrier of the block, which the program
 * has itself, serves as well, so most programs get none.
 *
 * Copies end in the order of their issue, each a group. `wait t but 2` allows as many groups to be still in flight as were issued
 * after the one it waits for; over branches and turns of loops the least of these numbers, which waits for more than asked and
 * never for less. */
#include "pass.h"

#include <string.h>

enum { MOST_FLIGHTS = 7 }; /* that a wait can tell apart */

/* At a place in the text. */
typedef struct State {
    bool *was_read, *was_written; /* by memory: by lanes of this executor since its last barrier */
    int32_t
        *age; /* by variable: of a copy in flight, how many were issued since; -1: not in flight */
} State;

typedef struct Order {
    Pass *p;
    uint32_t memories, vars;
    State now;
    const AuTileMemory **filled; /* by variable: what the copy writes */
} Order;

static State new_state(const Order *o)
{
    State s = {AU_NEW_ARRAY(o->p->arena, bool, o->memories),
               AU_NEW_ARRAY(o->p->arena, bool, o->memories),
               AU_NEW_ARRAY(o->p->arena, int32_t, o->vars)};
    for (uint32_t n = 0; n < o->vars; n++) s.age[n] = -1;
    return s;
}

/* Of two ways to come to a place. */
static void join(const Order *o, State *into, const State *other)
{
    for (uint32_t n = 0; n < o->memories; n++) {
        into->was_read[n] |= other->was_read[n];
        into->was_written[n] |= other->was_written[n];
    }
    for (uint32_t n = 0; n < o->vars; n++)
        if (into->age[n] < 0 || (other->age[n] >= 0 && other->age[n] < into->age[n]))
            into->age[n] = other->age[n];
}

static State copied(const Order *o)
{
    State copy = new_state(o);
    join(o, &copy, &o->now);
    return copy;
}

/* ---- what is read and written */

typedef void (*TouchFn)(Order *o, uint32_t memory, bool writes, bool *found);

/* Arguments, buffers of the block, and all others as one. */
static uint32_t number_of(const Order *o, const AuTileMemory *m)
{
    const AuTileKernel *k = o->p->kernel;
    for (uint32_t n = 0; n < k->args.count; n++)
        if (k->args.at[n] == m) return n;
    for (uint32_t n = 0; n < k->shared.count; n++)
        if (k->shared.at[n] == m) return k->args.count + n;
    return o->memories - 1;
}

static void touch_memory(Order *o, const AuTileMemory *m, bool writes, TouchFn touch, bool *found)
{
    const bool constant = m->space == TILE_GLOBAL && m->mode == TILE_IN;
    if (!constant) touch(o, number_of(o, m), writes, found);
}

static void touch_expr(Order *o, const AuTileExpr *e, TouchFn touch, bool *found)
{
    if (!e) return;
    if (e->op == TILE_X_REF && e->memory) touch_memory(o, e->memory, false, touch, found);
    for (uint32_t n = 0; n < e->args.count; n++) touch_expr(o, e->args.at[n], touch, found);
}

static void touch_body(Order *o, const AuTileStmts *body, TouchFn touch, bool *found);

static void touch_stmt(Order *o, AuTileStmt *s, TouchFn touch, bool *found)
{
    const AuTileParts parts = tile_parts(s);
    for (uint32_t n = 0; n < parts.read_count; n++) touch_expr(o, *parts.reads[n], touch, found);
    if (parts.dest) touch_memory(o, parts.dest->memory, true, touch, found);
    for (uint32_t n = 0; n < parts.body_count; n++) touch_body(o, parts.bodies[n], touch, found);
}

static void touch_body(Order *o, const AuTileStmts *body, TouchFn touch, bool *found)
{
    for (uint32_t n = 0; n < body->count; n++) touch_stmt(o, body->at[n], touch, found);
}

static void find_conflict(Order *o, uint32_t memory, bool writes, bool *found)
{
    *found |= o->now.was_written[memory] || (writes && o->now.was_read[memory]);
}

static void mark(Order *o, uint32_t memory, bool writes, bool *found)
{
    (void)found;
    o->now.was_written[memory] |= writes;
    o->now.was_read[memory] |= !writes;
}

/* ---- barriers */

static void meet(Order *o)
{
    memset(o->now.was_read, 0, o->memories);
    memset(o->now.was_written, 0, o->memories);
}

static AuTileStmt *own_barrier(Pass *p, const AuTileStmt *before)
{
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_SYNC, .span = before->span};
    s->barrier.name = au_name(p->module->names, "self");
    return s;
}

static void order(Order *o, AuTileStmt *s, AuTileStmts *out)
{
    bool conflict = false;
    touch_stmt(o, s, find_conflict, &conflict);
    /* Sums commute; stores into tensors go to places of their own. */
    if (s->kind == TILE_S_MOVE && s->move.dest->memory->space == TILE_GLOBAL &&
        s->move.source->op != TILE_X_REF)
        conflict = false;
    if (conflict) {
        AuTileStmt *last = out->count ? out->at[out->count - 1] : NULL;
        const bool starts = last && tile_starts_product(last, s);
        if (starts) out->count--;
        pass_push(o->p, out, own_barrier(o->p, s));
        if (starts) pass_push(o->p, out, last);
        meet(o);
    }
    touch_stmt(o, s, mark, NULL);
}

/* ---- copies in flight */

static void flights(Order *o, const AuTileStmts *body);

/* Ages at the head of a loop: from before it, and from the end of any turn. They only fall. */
static void settle_loop(Order *o, const AuTileStmts *body)
{
    for (bool changed = true; changed;) {
        const State head = copied(o);
        State joined = copied(o);
        flights(o, body);
        join(o, &joined, &o->now);
        o->now = joined;
        changed = false;
        for (uint32_t n = 0; n < o->vars; n++) changed |= o->now.age[n] != head.age[n];
    }
}

static void issue(Order *o, const AuTileStmt *s)
{
    for (uint32_t n = 0; n < o->vars; n++) o->now.age[n] += o->now.age[n] >= 0;
    o->now.age[s->var->slot] = 0;
    o->filled[s->var->slot] = s->move.dest->memory;
}

static bool is_issue(const AuTileStmt *s)
{
    return s->kind == TILE_S_MOVE && s->move.is_async && s->var;
}

static void flights(Order *o, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (is_issue(s)) issue(o, s);
        if (s->kind == TILE_S_WAIT)
            for (uint32_t i = 0; i < s->wait.names.count; i++)
                o->now.age[s->wait.vars[i]->slot] = -1;
        if (s->kind == TILE_S_FOR) settle_loop(o, &s->loop.body);
        if (s->kind != TILE_S_IF && s->kind != TILE_S_ON) continue;
        const AuTileParts ways = tile_parts(s);
        State before = copied(o);
        flights(o, ways.bodies[0]);
        const State end = o->now;
        o->now = before;
        flights(o, ways.bodies[1]);
        join(o, &o->now, &end);
    }
}

/* Of what are no copies nothing is said. */
static void wait(Order *o, AuTileStmt *s)
{
    int32_t groups = MOST_FLIGHTS;
    for (uint32_t n = 0; n < s->wait.names.count; n++) {
        const AuTileVar *var = s->wait.vars[n];
        if (var->kind != TILE_TOKEN || !o->filled[var->slot] || o->now.age[var->slot] < 0) return;
        if (o->now.age[var->slot] < groups) groups = o->now.age[var->slot];
    }
    s->wait.but = AU_NEW(o->p->arena, AuTileExpr);
    *s->wait.but = (AuTileExpr){.op = TILE_X_INT, .integer = groups, .span = s->span};
    for (uint32_t n = 0; n < s->wait.names.count; n++) {
        const uint32_t slot = s->wait.vars[n]->slot;
        o->now.age[slot] = -1;
        touch_memory(o, o->filled[slot], true, mark, NULL);
    }
}

/* ---- the program */

static void walk(Order *o, AuTileStmts *body);

static void walk_ways(Order *o, AuTileStmt *s)
{
    const AuTileParts ways = tile_parts(s);
    State before = copied(o);
    walk(o, ways.bodies[0]);
    const State end = o->now;
    o->now = before;
    walk(o, ways.bodies[1]);
    join(o, &o->now, &end);
}

static void walk_loop(Order *o, AuTileStmt *s)
{
    const State before = copied(o);
    touch_body(o, &s->loop.body, mark, NULL);
    settle_loop(o, &s->loop.body);
    walk(o, &s->loop.body);
    join(o, &o->now, &before);
}

static void walk(Order *o, AuTileStmts *body)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (s->kind == TILE_S_LOAD || s->kind == TILE_S_MOVE || s->kind == TILE_S_PRODUCT)
            order(o, s, &out);
        if (is_issue(s)) issue(o, s);
        if (s->kind == TILE_S_WAIT) wait(o, s);
        if (s->kind == TILE_S_SYNC && o->p->role->many_value > 1) meet(o);
        if (s->kind == TILE_S_FOR) walk_loop(o, s);
        if (s->kind == TILE_S_IF || s->kind == TILE_S_ON) walk_ways(o, s);
        pass_push(o->p, &out, s);
    }
    *body = out;
}

void pass_order(Pass *p)
{
    Order o = {.p = p,
               .memories = p->kernel->args.count + p->kernel->shared.count + 1,
               .vars = p->role->vars.count + 1};
    o.filled = AU_NEW_ARRAY(p->arena, const AuTileMemory *, o.vars);
    o.now = new_state(&o);
    walk(&o, &p->role->body);
}
