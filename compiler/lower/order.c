/* order.c - executors whose lanes are threads: what orders memory among the lanes of one executor,
 * and how long to wait for asynchronous copies.
 *
 * The tiled IR's executor is sequential: what it stored it may load. Its lanes are not, so a barrier
 * of the executor goes before a statement that reads what the executor wrote since its last barrier,
 * or writes what it read or wrote. A barrier of the block, which the program has itself, serves as
 * well, so most programs get none.
 *
 * Copies end in the order of their issue, each a group. A wait allows as many groups to be still in
 * flight as were issued after the one it waits for; over branches and turns of loops the least of
 * these numbers, which waits for more than asked and never for less. */
#include "internal.h"

enum { MOST_FLIGHTS = 7 }; /* that a wait can tell apart */

void lower_barrier(AuLower *l, uint32_t scope)
{
    kernel_barrier(l->k, scope);
    for (uint32_t n = 0; n < l->place_count; n++)
        l->places[n].was_read = l->places[n].was_written = false;
}

/* ---- barriers */

typedef void (*TouchFn)(AuLower *l, const AuTileMemory *memory, bool writes, void *user);

static void touched_by_expr(AuLower *l, const AuTileExpr *e, TouchFn touch, void *user)
{
    if (!e) return;
    if (e->op == TILE_X_REF && e->memory) touch(l, e->memory, false, user);
    for (uint32_t n = 0; n < e->args.count; n++) touched_by_expr(l, e->args.at[n], touch, user);
}

static void touched(AuLower *l, const AuTileStmts *body, TouchFn touch, void *user);

static void touched_by(AuLower *l, AuTileStmt *s, TouchFn touch, void *user)
{
    const AuTileParts parts = tile_parts(s);
    for (uint32_t n = 0; n < parts.read_count; n++)
        touched_by_expr(l, *parts.reads[n], touch, user);
    if (parts.dest) touch(l, parts.dest->memory, true, user);
    for (uint32_t n = 0; n < parts.body_count; n++) touched(l, parts.bodies[n], touch, user);
}

static void touched(AuLower *l, const AuTileStmts *body, TouchFn touch, void *user)
{
    for (uint32_t n = 0; n < body->count; n++) touched_by(l, body->at[n], touch, user);
}

static bool is_constant(const AuTileMemory *m)
{
    return m->space == TILE_GLOBAL && m->mode == TILE_IN;
}

static void find_conflict(AuLower *l, const AuTileMemory *memory, bool writes, void *user)
{
    bool *found = user;
    if (is_constant(memory)) return;
    const AuPlace *p = lower_place(l, memory);
    *found |= p->was_written || (writes && p->was_read);
}

static void mark(AuLower *l, const AuTileMemory *memory, bool writes, void *user)
{
    (void)user;
    if (is_constant(memory)) return;
    AuPlace *p = lower_place(l, memory);
    p->was_written |= writes;
    p->was_read |= !writes;
}

void lower_order(AuLower *l, AuTileStmt *s)
{
    if (s->kind != TILE_S_LOAD && s->kind != TILE_S_MOVE && s->kind != TILE_S_PRODUCT) return;
    bool conflict = false;
    touched_by(l, s, find_conflict, &conflict);
    /* Sums commute; stores into tensors go to places of their own. */
    if (s->kind == TILE_S_MOVE && s->move.dest->memory->space == TILE_GLOBAL &&
        s->move.source->op != TILE_X_REF)
        conflict = false;
    if (conflict) lower_barrier(l, 1);
    touched_by(l, s, mark, NULL);
}

/* ---- copies in flight */

static void flights(AuLower *l, const AuTileStmts *body, int32_t *age);

/* Of two ways to come to a place. */
static void least(const AuLower *l, int32_t *age, const int32_t *other)
{
    for (uint32_t n = 0; n < l->role->vars.count; n++)
        if (age[n] < 0 || (other[n] >= 0 && other[n] < age[n])) age[n] = other[n];
}

static int32_t *copied(const AuLower *l, const int32_t *age)
{
    int32_t *copy = AU_NEW_ARRAY(l->arena, int32_t, l->role->vars.count + 1);
    for (uint32_t n = 0; n < l->role->vars.count; n++) copy[n] = age[n];
    return copy;
}

/* Ages at the head of a loop: from before it, and from the end of any turn. They only fall. */
static void settle_loop(AuLower *l, const AuTileStmts *body, int32_t *age)
{
    for (bool changed = true; changed;) {
        int32_t *end = copied(l, age), *before = copied(l, age);
        flights(l, body, end);
        least(l, age, end);
        changed = false;
        for (uint32_t n = 0; n < l->role->vars.count; n++) changed |= age[n] != before[n];
    }
}

static void issue(const AuLower *l, int32_t *age, const AuTileVar *token)
{
    for (uint32_t n = 0; n < l->role->vars.count; n++) age[n] += age[n] >= 0;
    age[token->slot] = 0;
}

static void flights(AuLower *l, const AuTileStmts *body, int32_t *age)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if (s->kind == TILE_S_MOVE && s->move.is_async && s->var) issue(l, age, s->var);
        if (s->kind == TILE_S_WAIT)
            for (uint32_t i = 0; i < s->wait.names.count; i++) age[s->wait.vars[i]->slot] = -1;
        if (s->kind == TILE_S_FOR) settle_loop(l, &s->loop.body, age);
        if (s->kind == TILE_S_IF || s->kind == TILE_S_ON) {
            const AuTileParts ways = tile_parts(body->at[n]);
            int32_t *other = copied(l, age);
            flights(l, ways.bodies[0], age);
            flights(l, ways.bodies[1], other);
            least(l, age, other);
        }
    }
}

/* ---- where ways part and meet */

enum { READ = 1, WRITTEN = 2 };

AuMarks lower_marks(const AuLower *l)
{
    AuMarks m = {AU_NEW_ARRAY(l->arena, uint8_t, l->place_count + 1),
                 l->in_warps ? copied(l, l->age) : NULL};
    for (uint32_t n = 0; n < l->place_count; n++)
        m.places[n] = (uint8_t)((l->places[n].was_read ? READ : 0) |
                                (l->places[n].was_written ? WRITTEN : 0));
    return m;
}

void lower_join_marks(AuLower *l, const AuMarks *m)
{
    for (uint32_t n = 0; n < l->place_count; n++) {
        l->places[n].was_read |= (m->places[n] & READ) != 0;
        l->places[n].was_written |= (m->places[n] & WRITTEN) != 0;
    }
    if (l->in_warps) least(l, l->age, m->age);
}

void lower_set_marks(AuLower *l, const AuMarks *m)
{
    for (uint32_t n = 0; n < l->place_count; n++)
        l->places[n].was_read = l->places[n].was_written = false;
    for (uint32_t n = 0; l->in_warps && n < l->role->vars.count; n++) l->age[n] = -1;
    lower_join_marks(l, m);
}

void lower_order_loop(AuLower *l, const AuTileStmt *s)
{
    touched(l, &s->loop.body, mark, NULL);
    settle_loop(l, &s->loop.body, l->age);
}

void lower_issue(AuLower *l, const AuTileStmt *s)
{
    kernel_copy_commit(l->k);
    if (!s->var) {
        lower_refuse(l, "a copy into a pipeline's stage");
        return;
    }
    issue(l, l->age, s->var);
    l->filled[s->var->slot] = s->move.dest->memory;
}

void lower_wait(AuLower *l, const AuTileStmt *s)
{
    int32_t groups = -1;
    for (uint32_t i = 0; i < s->wait.names.count; i++) {
        const AuTileVar *var = s->wait.vars[i];
        if (!l->in_warps || var->kind != TILE_TOKEN || !l->filled[var->slot] ||
            l->age[var->slot] < 0) {
            lower_refuse(l, "a wait for %s, which is no copy", var->name);
            return;
        }
        if (groups < 0 || l->age[var->slot] < groups) groups = l->age[var->slot];
    }
    kernel_copy_wait(l->k, groups < MOST_FLIGHTS ? (uint32_t)groups : MOST_FLIGHTS);
    for (uint32_t i = 0; i < s->wait.names.count; i++) {
        const uint32_t slot = s->wait.vars[i]->slot;
        l->age[slot] = -1;
        mark(l, l->filled[slot], true, NULL);
    }
}
