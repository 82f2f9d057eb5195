/* run_sync.c - stages of pipelines and barriers. A stage is filled when every producer has committed it and the copies into it have
 * landed; it is free again when every consumer has released it. Agents count their own acquires and waits: which stage, and which
 * time around, follows from the count. */
#include "machine.h"

void settle(Ring *ring, uint32_t stage)
{
    if (ring->commits[stage] != ring->producers || ring->landing[stage]) return;
    ring->commits[stage] = 0;
    ring->filled[stage]++;
}

void signal_stage(Machine *m, const Signal *signal, const Clock *clock)
{
    Ring *ring = signal->ring;
    const uint32_t stage = signal->stage;
    if (signal->commits) {
        join(m, &ring->full[stage], clock);
        ring->commits[stage]++;
        settle(ring, stage);
        return;
    }
    join(m, &ring->free[stage], clock);
    if (++ring->releases[stage] < ring->consumers) return;
    ring->releases[stage] = 0;
    ring->freed[stage]++;
}

/* The ring that the statement means. */
static bool find_ring(Agent *a, const AuTileStmt *s, uint32_t *number)
{
    const AuTilePipe *pipe = s->stage.pipe;
    const bool own =
        pipe->each == (s->kind == TILE_S_ACQUIRE ? TILE_EACH_PRODUCER : TILE_EACH_CONSUMER);
    int64_t which = own ? a->index : 0;
    if (s->stage.index && !eval_integer(a, s->stage.index, &which)) return false;
    if (which < 0 || which >= pipe->rings)
        return run_error(a, AU_E0710, NULL, "%s has %d rings, there is no ring %lld", pipe->name,
                         pipe->rings, (long long)which);
    *number = 0;
    while (a->m->rings[*number].pipe != pipe) ++*number;
    *number += (uint32_t)which;
    return true;
}

/* A turn that the program says is the one that has come. Blocks of the grid each count from 0. */
static bool check_turn(Agent *a, const AuTileStmt *s, const uint32_t *had, uint32_t number)
{
    int64_t turn = 0;
    if (!s->stage.turn) return true;
    if (!eval_integer(a, s->stage.turn, &turn)) return false;
    const uint32_t *before = s->kind == TILE_S_ACQUIRE ? a->acquired_before : a->waited_before;
    const int64_t count = (int64_t)(had[number] - before[number]);
    return turn == count || run_error(a, AU_E0706, NULL, "turn %lld of %s, where %lld is the next",
                                      (long long)turn, s->stage.pipe->name, (long long)count);
}

/* Of a role that has stages by `one` instance it is always the same one. */
static bool check_user(Agent *a, const AuTilePipe *pipe, Ring *ring, bool acquires)
{
    const Agent **user = acquires ? &ring->fills : &ring->empties;
    if (!(acquires ? pipe->one_producer : pipe->one_consumer)) return true;
    if (!*user) *user = a;
    return *user == a ||
           run_error(a, AU_E0706, NULL, "stages of %s are those of %s, and of no other %s",
                     pipe->name, (*user)->name, a->role->name);
}

bool run_stage(Agent *a, const AuTileStmt *s)
{
    const bool acquires = s->kind == TILE_S_ACQUIRE;
    if (a->wait.kind == NO_WAIT) {
        uint32_t number = 0, *had = acquires ? a->acquired : a->waited;
        if (!find_ring(a, s, &number) || !check_turn(a, s, had, number)) return false;
        Ring *ring = &a->m->rings[number];
        if (!check_user(a, s->stage.pipe, ring, acquires)) return false;
        const uint32_t count = had[number]++;
        a->wait = (Wait){.kind = acquires ? FOR_FREE : FOR_FULL,
                         .ring = ring,
                         .stage = count % ring->stages,
                         .number = count / ring->stages};
        if (!is_ready(a)) return true;
    }
    Var *var = &a->vars[s->var->slot];
    var->ring = a->wait.ring;
    var->stage = a->wait.stage;
    join(a->m, &a->clock, acquires ? &var->ring->free[var->stage] : &var->ring->full[var->stage]);
    a->wait.kind = NO_WAIT;
    return true;
}

/* Now, or `after` an async product: then the hardware signals, and only what precedes the product is covered. */
bool run_close(Agent *a, const AuTileStmt *s)
{
    AsyncOp *op = NULL;
    if (s->close.after) {
        Var *token = &a->vars[s->close.after_var->slot];
        if (token->flight) token->posted = token->flight;
        token->flight = NULL;
        op = token->posted;
        if (!op) return run_error(a, AU_E0705, NULL, "%s is not in flight", s->close.after);
    }
    for (uint32_t i = 0; i < s->close.names.count; i++) {
        const Var *handle = &a->vars[s->close.vars[i]->slot];
        const Signal signal = {handle->ring, handle->stage, s->kind == TILE_S_COMMIT};
        if (op && !op->done)
            AU_PUSH(a->m->block, op->signals.at, op->signals.count, op->signals.capacity, signal);
        else
            signal_stage(a->m, &signal, op ? &op->clock : &a->clock);
    }
    tick(a);
    return true;
}

static bool find_barrier(Agent *a, const AuTileStmt *s, Barrier **out)
{
    int64_t which = 0;
    const AuTileBarrier *decl = s->barrier.barrier;
    if (s->barrier.index && !eval_integer(a, s->barrier.index, &which)) return false;
    if (which < 0 || which >= decl->many_value)
        return run_error(a, AU_E0710, NULL, "there is no barrier %s[%lld]", decl->name,
                         (long long)which);
    uint32_t n = 0;
    while (a->m->barriers[n].decl != decl) n++;
    *out = &a->m->barriers[n + (uint32_t)which];
    return true;
}

static bool arrive(Agent *a, Barrier *b)
{
    Machine *m = a->m;
    if (b->here[a->number])
        return run_error(a, AU_E0706, NULL, "arrives twice in one phase of %s", b->decl->name);
    b->here[a->number] = true;
    join(m, &b->clock, &a->clock);
    tick(a);
    if (++b->arrived < (uint32_t)b->decl->count_value) return true;
    const Clock released = copy_clock(m, &b->clock);
    AU_PUSH(m->block, b->released.at, b->released.count, b->released.capacity, released);
    b->generation++;
    b->arrived = 0;
    for (uint32_t i = 0; i < m->agent_count; i++) b->here[i] = false;
    return true;
}

bool run_arrive(Agent *a, const AuTileStmt *s)
{
    Barrier *b = NULL;
    return find_barrier(a, s, &b) && arrive(a, b);
}

bool run_sync(Agent *a, const AuTileStmt *s)
{
    if (!s->barrier.barrier) return true; /* an executor is sequential */
    if (a->wait.kind == NO_WAIT) {
        Barrier *b = NULL;
        if (!find_barrier(a, s, &b)) return false;
        a->wait = (Wait){.kind = FOR_BARRIER, .barrier = b, .number = b->generation};
        if (!arrive(a, b)) return false;
        if (!is_ready(a)) return true;
    }
    join(a->m, &a->clock, &a->wait.barrier->released.at[a->wait.number]);
    a->wait.kind = NO_WAIT;
    return true;
}
