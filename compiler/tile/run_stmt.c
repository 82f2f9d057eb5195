/* run_stmt.c - one agent: statements in order, blocks on a stack of its own so that it can stop at any wait and go on later. */
#include "machine.h"

#include "codes.h"

#include <string.h>

bool is_ready(const Agent *a)
{
    const Wait *w = &a->wait;
    switch (w->kind) {
    case NO_WAIT: return true;
    case FOR_FLIGHT: return w->op->done;
    case FOR_FREE: return w->ring->freed[w->stage] >= w->number;
    case FOR_FULL: return w->ring->filled[w->stage] > w->number;
    case FOR_BARRIER: return w->barrier->generation > w->number;
    }
    return true;
}

static bool is_operand(const Agent *a, const AuTileExpr *e, const Var *var)
{
    return e->op == TILE_X_NAME && e->var->origin == TILE_FROM_BODY &&
           &a->vars[e->var->slot] == var;
}

/* A product in flight that reads the fragment, or NULL. */
static const AuTileStmt *reader_of(const Agent *a, const Var *var)
{
    for (uint32_t i = 0; i < a->role->vars.count; i++)
        for (const AsyncOp *op = a->vars[i].flight; op; op = op->sums)
            if (op->stmt->kind == TILE_S_PRODUCT && (is_operand(a, op->stmt->product.a, var) ||
                                                     is_operand(a, op->stmt->product.b, var)))
                return op->stmt;
    return NULL;
}

bool set_var(Agent *a, Var *var, const AuTileType *type, const Tile *value)
{
    const AuTileStmt *reader = var->flight ? var->flight->stmt : reader_of(a, var);
    if (reader)
        return run_error(a, AU_E0705, reader, "a fragment is written while %s",
                         var->flight ? "in flight" : "a product in flight still reads it");
    if (!var->tile.type) var->tile = stored_tile(a->m->block, type);
    const bool itself = value->f == var->tile.f && value->i == var->tile.i;
    if (!itself) spread(type, &var->tile, value);
    var->set = true;
    return true;
}

static void set_integer(Agent *a, const AuTileVar *v, int64_t value)
{
    int32_t number = (int32_t)value;
    const Tile tile = {v->type, NULL, &number};
    set_var(a, &a->vars[v->slot], v->type, &tile);
}

static bool run_assign(Agent *a, const AuTileStmt *s, const AuTileExpr *e)
{
    Tile value;
    return eval(a, e, &value) && set_var(a, &a->vars[s->var->slot], s->var->type, &value);
}

static bool run_frag(Agent *a, const AuTileStmt *s)
{
    a->vars[s->var->slot].set = false;
    return !s->frag.init || run_assign(a, s, s->frag.init);
}

static bool run_private(Agent *a, const AuTileStmt *s)
{
    Memory *memory = new_memory(a->m->block, s->memory, 0, NULL);
    for (uint32_t i = 0; i < a->memories.count; i++)
        if (a->memories.at[i]->decl == s->memory) {
            a->memories.at[i] = memory;
            return true;
        }
    AU_PUSH(a->m->block, a->memories.at, a->memories.count, a->memories.capacity, memory);
    return true;
}

/* Numbers of the lower and the upper halves of bytes that were read as i8. */
static Tile halves_of(Agent *a, const Tile *bytes, int64_t count)
{
    AuTileType *type = AU_NEW(a->m->block, AuTileType);
    *type = *bytes->type;
    type->axes = AU_NEW_ARRAY(a->m->block, AuTileAxis, type->count);
    memcpy(type->axes, bytes->type->axes, type->count * sizeof *type->axes);
    type->axes[type->count - 1].size *= 2;
    Tile out = new_tile(a->m, type);
    for (int64_t n = 0; n < 2 * count; n++)
        out.f[n] = machine_decode_half((uint8_t)(int)bytes->f[n / 2], (int)(n % 2));
    return out;
}

static bool run_load(Agent *a, const AuTileStmt *s)
{
    Tile guard, pad = {0};
    if (s->load.when && !eval(a, s->load.when, &guard)) return false;
    if (s->load.pad && !eval(a, s->load.pad, &pad)) return false;
    Region r;
    if (!resolve(a, NULL, s->load.source, s->load.when ? &guard : NULL, s->load.pad != NULL, &r))
        return false;
    Tile data = new_tile(a->m, s->load.source->type);
    const float with = pad.f ? *pad.f : pad.i ? (float)*pad.i : 0;
    if (!touch(a, &r, READ, me(a), s) || !fetch(a, &r, with, s, &data)) return false;
    if (s->load.halves) data = halves_of(a, &data, r.count);
    return set_var(a, &a->vars[s->var->slot], s->var->type, &data);
}

static bool run_wait(Agent *a, const AuTileStmt *s)
{
    for (; a->progress < s->wait.names.count; a->progress++) {
        const AuTileVar *v = s->wait.vars[a->progress];
        Var *var = &a->vars[v->slot];
        if (!var->flight) return run_error(a, AU_E0705, NULL, "%s is not in flight", v->name);
        a->wait = (Wait){.kind = FOR_FLIGHT, .op = var->flight};
        if (!is_ready(a)) return true;
        a->wait.kind = NO_WAIT;
        AsyncOp *op = var->flight;
        var->flight = NULL;
        join(a->m, &a->clock, &op->clock);
        if (v->kind != TILE_VALUE) continue;
        const Tile result = {op->stmt->product.result, op->result, NULL};
        if (!set_var(a, var, v->type, &result)) return false;
    }
    a->progress = 0;
    return true;
}

/* ---- blocks */

static void push(Agent *a, Frame frame)
{
    AU_PUSH(a->m->block, a->frames.at, a->frames.count, a->frames.capacity, frame);
}

/* Sets the loop's variable for the iteration; false when there is none left. */
static bool iterate(Agent *a, Frame *f)
{
    if (f->index >= f->end) return false;
    f->at = 0;
    if (!f->run) {
        set_integer(a, f->loop->var, f->index);
        return true;
    }
    const uint32_t n = (uint32_t)f->index;
    set_integer(a, f->loop->var, f->run->tiles.at[n]);
    a->vars[f->loop->var->slot].next = f->run->tiles.at[n + 1 < f->run->tiles.count ? n + 1 : n];
    AU_PUSH(a->m->block, a->segments.at, a->segments.count, a->segments.capacity,
            f->run->segments.at[n]);
    return true;
}

static bool run_for(Agent *a, const AuTileStmt *s)
{
    Frame f = {.body = &s->loop.body, .loop = s};
    if (s->loop.low && !eval_integer(a, s->loop.low, &f.index)) return false;
    if (s->loop.high && !eval_integer(a, s->loop.high, &f.end)) return false;
    if (s->loop.list) {
        uint32_t n = 0;
        while (a->m->kernel->lists.at[n] != s->loop.list) n++;
        f.run = &a->item->lists[n];
        const uint32_t segment = s->loop.segment ? (uint32_t)s->loop.segment->integer : 0;
        const int64_t end = s->loop.segment ? f.run->ends[segment] : f.run->tiles.count;
        if (!s->loop.high || f.end > end) f.end = end;
        if (segment && f.index < f.run->ends[segment - 1]) f.index = f.run->ends[segment - 1];
    }
    if (iterate(a, &f)) push(a, f);
    return true;
}

static bool run_if(Agent *a, const AuTileStmt *s)
{
    bool truth;
    if (!eval_truth(a, s->branch.test, &truth)) return false;
    push(a, (Frame){.body = truth ? &s->branch.then : &s->branch.other});
    return true;
}

static bool run_on(Agent *a, const AuTileStmt *s)
{
    for (uint32_t i = 0; i < a->segments.count; i++)
        if (a->segments.at[i] == s->on.segment) {
            push(a, (Frame){.body = &s->on.body});
            return true;
        }
    push(a, (Frame){.body = &s->on.other});
    return true;
}

static bool run_stmt(Agent *a, const AuTileStmt *s)
{
    switch (s->kind) {
    case TILE_S_FRAG: return run_frag(a, s);
    case TILE_S_PRIVATE: return run_private(a, s);
    case TILE_S_ASSIGN: return run_assign(a, s, s->assign.value);
    case TILE_S_CONVERT: return run_assign(a, s, s->convert.source);
    case TILE_S_LOAD: return run_load(a, s);
    case TILE_S_MOVE: return run_move(a, s);
    case TILE_S_PREFETCH: return true; /* what is near changes no result */
    case TILE_S_PRODUCT: return run_product(a, s);
    case TILE_S_WAIT: return run_wait(a, s);
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE: return run_stage(a, s);
    case TILE_S_COMMIT:
    case TILE_S_RELEASE: return run_close(a, s);
    case TILE_S_SYNC: return run_sync(a, s);
    case TILE_S_ARRIVE: return run_arrive(a, s);
    case TILE_S_PART: /* a sum is a sum, wherever its parts lie */
    case TILE_S_JOIN: return true;
    case TILE_S_FOR: return run_for(a, s);
    case TILE_S_IF: return run_if(a, s);
    case TILE_S_ON: return run_on(a, s);
    case TILE_S_RETURN: return false;
    }
    return false;
}

/* Leaves the blocks that are at their end, goes round loops, takes the next block of the grid; false when all is done. */
static bool find_statement(Agent *a)
{
    for (;;) {
        if (!a->frames.count) {
            if (a->items_done == a->m->item_count) return false;
            a->item = &a->m->items[a->items_done++];
            for (uint32_t i = 0; i < a->role->vars.count; i++) {
                a->vars[i].set = false;
                a->vars[i].flight = a->vars[i].posted = NULL;
            }
            for (uint32_t i = 0; i < a->m->ring_count; i++) {
                a->acquired_before[i] = a->acquired[i];
                a->waited_before[i] = a->waited[i];
            }
            set_integer(a, a->role->vars.at[0], a->index); /* self */
            push(a, (Frame){.body = &a->role->body});
        }
        Frame *f = &a->frames.at[a->frames.count - 1];
        if (f->at < f->body->count) return true;
        if (f->run) a->segments.count--;
        f->index++;
        if (!f->loop || !iterate(a, f)) a->frames.count--;
    }
}

bool is_finished(const Agent *a)
{
    if (a->items_done < a->m->item_count || a->wait.kind != NO_WAIT) return false;
    for (uint32_t i = 0; i < a->frames.count; i++) {
        const Frame *f = &a->frames.at[i];
        if (f->at < f->body->count || (f->loop && f->index + 1 < f->end)) return false;
    }
    return true;
}

bool step(Agent *a)
{
    a->m->scratch.used = 0;
    if (a->wait.kind == NO_WAIT && !a->progress && !find_statement(a)) return true;
    const uint32_t depth = a->frames.count - 1;
    const AuTileStmt *s = a->frames.at[depth].body->at[a->frames.at[depth].at];
    a->stmt = s;
    if (!run_stmt(a, s)) return false;
    if (a->wait.kind == NO_WAIT) a->frames.at[depth].at++;
    return true;
}
