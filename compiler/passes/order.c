/* order.c - executors whose lanes are threads: what orders memory among the lanes of one executor, and how long to wait for
 * asynchronous copies.
 *
 * The tiled IR's executor is sequential: what it stored it may load. Its lanes are not, so `sync self` goes before a statement that
 * reads what the executor wrote since its last barrier, or writes what it read or wrote. A barrier of the block, which the program
 * has itself, serves as well, so most programs get none.
 *
 * Units that go on by themselves, those of bulk copies and of products of a group, see what lanes wrote behind `fence self` alone.
 * What lanes did with a stage is ordered by its pipeline, for those who get it next.
 *
 * Copies of lanes, bulk copies out of shared memory, and products of a group end each in the order of their issue, each a group.
 * `wait t but 2` allows as many groups of its kind to be still in flight as were issued after the one it waits for; over branches and
 * turns of loops the least of these numbers, which waits for more than asked and never for less. */
#include "pass.h"

#include <string.h>

enum { MOST_FLIGHTS = 7 }; /* that a wait can tell apart */

/* What goes on beside the executor, by who does it: each kind ends in its order. */
typedef enum Kind { NO_FLIGHT, OF_LANES, BULK, PRODUCT } Kind;

/* At a place in the text. */
typedef struct State {
    bool *was_read, *was_written; /* by memory: by lanes of this executor since its last barrier */
    bool *unfenced;               /* ... written since its last fence */
    int32_t
        *age; /* by variable: of what is in flight, how many of its kind were issued since; -1: not
                     in flight */
} State;

typedef struct Order {
    Pass *p;
    uint32_t memories, vars;
    State now;
    AuTileStmt **flights; /* by variable: what is in flight */
} Order;

static State new_state(const Order *o)
{
    State s = {
        AU_NEW_ARRAY(o->p->arena, bool, o->memories), AU_NEW_ARRAY(o->p->arena, bool, o->memories),
        AU_NEW_ARRAY(o->p->arena, bool, o->memories), AU_NEW_ARRAY(o->p->arena, int32_t, o->vars)};
    for (uint32_t n = 0; n < o->vars; n++) s.age[n] = -1;
    return s;
}

/* Of two ways to come to a place. */
static void join(const Order *o, State *into, const State *other)
{
    for (uint32_t n = 0; n < o->memories; n++) {
        into->was_read[n] |= other->was_read[n];
        into->was_written[n] |= other->was_written[n];
        into->unfenced[n] |= other->unfenced[n];
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

/* Arguments, buffers of the block, tiles of pipelines, and all others as one. */
static uint32_t number_of(const Order *o, const AuTileMemory *m)
{
    const AuTileKernel *k = o->p->kernel;
    for (uint32_t n = 0; n < k->args.count; n++)
        if (k->args.at[n] == m) return n;
    for (uint32_t n = 0; n < k->shared.count; n++)
        if (k->shared.at[n] == m) return k->args.count + n;
    uint32_t first = k->args.count + k->shared.count;
    for (uint32_t i = 0; i < k->pipes.count; first += k->pipes.at[i++]->tiles.count)
        for (uint32_t n = 0; n < k->pipes.at[i]->tiles.count; n++)
            if (k->pipes.at[i]->tiles.at[n] == m) return first + n;
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

static void find_unfenced(Order *o, uint32_t memory, bool writes, bool *found)
{
    (void)writes;
    *found |= o->now.unfenced[memory];
}

static void mark(Order *o, uint32_t memory, bool writes, bool *found)
{
    (void)found;
    o->now.was_written[memory] |= writes;
    o->now.was_read[memory] |= !writes;
}

static void mark_unfenced(Order *o, uint32_t memory, bool writes, bool *found)
{
    (void)found;
    o->now.unfenced[memory] |= writes;
}

/* Whose is it that the statement starts? What fills a stage nobody waits for by name. */
static Kind kind_of(const AuTileStmt *s)
{
    if (s->kind == TILE_S_PRODUCT) return s->product.is_async ? PRODUCT : NO_FLIGHT;
    if (s->kind != TILE_S_MOVE || !s->move.is_async) return NO_FLIGHT;
    return s->var && s->move.dest->memory->space != TILE_GLOBAL ? OF_LANES : BULK;
}

/* ---- barriers */

static void meet(Order *o)
{
    memset(o->now.was_read, 0, o->memories);
    memset(o->now.was_written, 0, o->memories);
}

/* Who has a stage has it to himself. */
static void open_stage(Order *o, const AuTilePipe *pipe)
{
    for (uint32_t n = 0; n < pipe->tiles.count; n++) {
        const uint32_t memory = number_of(o, pipe->tiles.at[n]);
        o->now.was_read[memory] = o->now.was_written[memory] = o->now.unfenced[memory] = false;
    }
}

static AuTileStmt *own_barrier(Order *o, const AuTileStmt *before, bool fences)
{
    Pass *p = o->p;
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_SYNC, .span = before->span};
    s->barrier.name = au_name(p->module->names, "self");
    s->barrier.fences = fences;
    meet(o);
    if (fences) memset(o->now.unfenced, 0, o->memories);
    return s;
}

static void order(Order *o, AuTileStmt *s, AuTileStmts *out)
{
    bool conflict = false, fences = false;
    const bool unit = kind_of(s) > OF_LANES;
    if (kind_of(s) == BULK && s->move.dest->memory->space == TILE_GLOBAL)
        touch_expr(o, s->move.source, find_conflict, &conflict);
    else
        touch_stmt(o, s, find_conflict, &conflict);
    if (unit) touch_stmt(o, s, find_unfenced, &fences);
    /* Sums commute; stores into tensors go to places of their own. */
    if (s->kind == TILE_S_MOVE && s->move.dest->memory->space == TILE_GLOBAL &&
        s->move.source->op != TILE_X_REF)
        conflict = false;
    if (conflict || fences) {
        AuTileStmt *last = out->count ? out->at[out->count - 1] : NULL;
        const bool starts = last && tile_starts_product(last, s);
        if (starts) out->count--;
        pass_push(o->p, out, own_barrier(o, s, fences));
        if (starts) pass_push(o->p, out, last);
    }
    touch_stmt(o, s, mark, NULL);
    if (!unit) touch_stmt(o, s, mark_unfenced, NULL);
}

/* ---- what is in flight */

/* Of a statement with two ways: what both may leave. */
static void both_ways(Order *o, AuTileStmt *s, void (*each)(Order *, AuTileStmts *))
{
    const AuTileParts ways = tile_parts(s);
    State before = copied(o);
    each(o, ways.bodies[0]);
    const State end = o->now;
    o->now = before;
    each(o, ways.bodies[1]);
    join(o, &o->now, &end);
}

static void flights(Order *o, AuTileStmts *body);

/* Ages at the head of a loop: from before it, and from the end of any turn. They only fall. */
static void settle_loop(Order *o, AuTileStmts *body)
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

static void issue(Order *o, AuTileStmt *s)
{
    for (uint32_t n = 0; n < o->vars; n++)
        o->now.age[n] += o->now.age[n] >= 0 && kind_of(o->flights[n]) == kind_of(s);
    o->now.age[s->var->slot] = 0;
    o->flights[s->var->slot] = s;
}

static bool is_issue(const AuTileStmt *s) { return kind_of(s) != NO_FLIGHT && s->var; }

static void flights(Order *o, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (is_issue(s)) issue(o, s);
        if (s->kind == TILE_S_WAIT)
            for (uint32_t i = 0; i < s->wait.names.count; i++)
                o->now.age[s->wait.vars[i]->slot] = -1;
        if (s->kind == TILE_S_FOR) settle_loop(o, &s->loop.body);
        if (s->kind == TILE_S_IF || s->kind == TILE_S_ON) both_ways(o, s, flights);
    }
}

/* Units have read and written when somebody knows that they have: until then other lanes may not. */
static void settle(Order *o, const AuTileVar *var)
{
    AuTileStmt *s = o->flights[var->slot];
    o->now.age[var->slot] = -1;
    if (kind_of(s) == OF_LANES)
        touch_memory(o, s->move.dest->memory, true, mark, NULL);
    else
        touch_stmt(o, s, mark, NULL);
}

/* The variables of one kind, or all of those of which nothing is known. */
static void wait_for(Order *o, const AuTileStmt *s, Kind kind, AuTileStmts *out)
{
    int32_t groups = MOST_FLIGHTS;
    AuTileStmt *one = AU_NEW(o->p->arena, AuTileStmt);
    *one = (AuTileStmt){.kind = TILE_S_WAIT, .span = s->span};
    for (uint32_t n = 0; n < s->wait.names.count; n++) {
        const AuTileVar *var = s->wait.vars[n];
        const int32_t age = o->now.age[var->slot];
        if ((age < 0 ? NO_FLIGHT : kind_of(o->flights[var->slot])) != kind) continue;
        AU_PUSH(o->p->arena, one->wait.names.at, one->wait.names.count, one->wait.names.capacity,
                s->wait.names.at[n]);
        if (age < groups) groups = age;
    }
    if (!one->wait.names.count) return;
    if (kind != NO_FLIGHT) one->wait.but = pass_number(o->p, groups, s->span);
    pass_push(o->p, out, one);
}

static void wait(Order *o, const AuTileStmt *s, AuTileStmts *out)
{
    for (Kind kind = NO_FLIGHT; kind <= PRODUCT; kind++) wait_for(o, s, kind, out);
    for (uint32_t n = 0; n < s->wait.names.count; n++)
        if (o->now.age[s->wait.vars[n]->slot] >= 0) settle(o, s->wait.vars[n]);
}

/* ---- the program */

static void walk(Order *o, AuTileStmts *body);

static void walk_turns(Order *o, AuTileStmts *body)
{
    touch_body(o, body, mark, NULL);
    settle_loop(o, body);
    walk(o, body);
}

static void walk_loop(Order *o, AuTileStmt *s)
{
    const State before = copied(o);
    walk_turns(o, &s->loop.body);
    join(o, &o->now, &before);
}

static void walk(Order *o, AuTileStmts *body)
{
    AuTileStmts out = {0};
    const bool others = o->p->kernel->roles.count > 1 || o->p->role->on == TILE_ON_WARPGROUP;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (s->kind == TILE_S_LOAD || s->kind == TILE_S_MOVE || s->kind == TILE_S_PRODUCT)
            order(o, s, &out);
        if (is_issue(s)) issue(o, s);
        if (s->kind == TILE_S_SYNC && (o->p->role->many_value > 1 || others)) meet(o);
        if (s->kind == TILE_S_ACQUIRE || s->kind == TILE_S_WAIT_STAGE) open_stage(o, s->stage.pipe);
        if (s->kind == TILE_S_FOR) walk_loop(o, s);
        if (s->kind == TILE_S_IF || s->kind == TILE_S_ON) both_ways(o, s, walk);
        if (s->kind == TILE_S_WAIT)
            wait(o, s, &out);
        else
            pass_push(o->p, &out, s);
    }
    *body = out;
}

void pass_order(Pass *p)
{
    Order o = {.p = p,
               .memories = p->kernel->args.count + p->kernel->shared.count + 1,
               .vars = p->role->vars.count + 1};
    for (uint32_t n = 0; n < p->kernel->pipes.count; n++)
        o.memories += p->kernel->pipes.at[n]->tiles.count;
    o.flights = AU_NEW_ARRAY(p->arena, AuTileStmt *, o.vars);
    o.now = new_state(&o);
    if (p->module->options.persistent && p->kernel->pipes.count) /* a turn for each block */
        walk_turns(&o, &p->role->body);
    else
        walk(&o, &p->role->body);
}
