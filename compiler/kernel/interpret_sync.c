/* interpret_sync.c - barriers between executors that go different ways: named ones, which count
 * lanes, and those in memory, which count arrivals and bytes. Who waits learns what those had done
 * that came, at the moment when the phase is complete. */
#include "agents.h"

#include <inttypes.h>

static void wake(AuMachine *m, AuExecutor *e, const AuVector *learns)
{
    AuAgent *a = agents_of(m, e);
    clocks_join(m->arena, &a->clocks.known, learns);
    a->wait = AU_WAITS_NOT;
    e->waits = false;
}

/* ---- named barriers */

static void come(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t id, uint32_t lanes)
{
    AuNamed *b = &m->agents->named[id];
    if (!b->arrived) b->expected = lanes;
    if (b->expected != lanes)
        kernel_fail(m, e, s, 0, "phase: barrier %u is of %u lanes for those who came before", id,
                    b->expected);
    else if (b->here >> e->index & 1)
        kernel_fail(m, e, s, 0, "phase: comes to barrier %u twice in one phase", id);
    else if (b->arrived + m->k->lanes > lanes)
        kernel_fail(m, e, s, 0, "phase: more than %u lanes come to barrier %u", lanes, id);
    if (m->why) return;
    b->here |= (uint64_t)1 << e->index;
    b->arrived += m->k->lanes;
    clocks_release(m->arena, &agents_of(m, e)->clocks, e->index, AU_LANES_ALL, &b->current);
    if (b->arrived < lanes) return;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        AuAgent *a = &m->agents->of[w];
        if (a->wait != AU_FOR_NAMED || a->named != id) continue;
        wake(m, &m->executors[w], &b->current);
        clocks_lanes_meet(m->arena, &a->clocks);
    }
    b->arrived = 0;
    b->here = 0;
    clocks_reset(&b->current);
}

static void meet_at(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t id, uint32_t lanes)
{
    AuAgent *a = agents_of(m, e);
    a->wait = AU_FOR_NAMED;
    a->named = id;
    e->waits = true;
    come(m, e, s, id, lanes);
}

void agents_barrier(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (s->imm)
        clocks_lanes_meet(m->arena, &agents_of(m, e)->clocks);
    else
        meet_at(m, e, s, 0, m->k->lanes * m->k->warps);
}

static void step_named(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const int64_t id = agents_operand(m, e, s, 0, 0);
    if (id < 1 || id >= AU_NAMED_BARRIERS)
        kernel_fail(m, e, s, 0, "bounds: there is no barrier %" PRId64, id);
    else if (s->op == AU_K_SYNC)
        meet_at(m, e, s, (uint32_t)id, (uint32_t)s->imm);
    else
        come(m, e, s, (uint32_t)id, (uint32_t)s->imm);
}

/* ---- barriers in memory */

void agents_settle(AuMachine *m, AuPhases *b)
{
    if (b->missing || b->bytes) return;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        const AuAgent *a = &m->agents->of[w];
        if (a->wait == AU_FOR_PHASE && a->phases == b) wake(m, &m->executors[w], &b->current);
    }
    clocks_reset(&b->done);
    clocks_join(m->arena, &b->done, &b->current);
    clocks_reset(&b->current);
    b->complete++;
    b->missing = b->count;
}

/* The barrier that a lane means; NULL: the run has failed. */
AuPhases *agents_phases(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t mem,
                        int64_t index, uint32_t lane)
{
    const AuMemory *memory = &m->k->mems[mem];
    if (index < 0 || index >= (int64_t)memory->count) {
        kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] of %u elements", memory->name, index,
                    memory->count);
        return NULL;
    }
    AuPhases *b = &m->places[mem].phases[index];
    if (s->op == AU_K_MBAR_INIT) return b;
    const AuActor actor = agents_lane(m, e, lane);
    if (b->init.block != m->agents->block)
        kernel_fail(m, e, s, lane, "uninitialised: @%s[%" PRId64 "] is used before mbar_init",
                    memory->name, index);
    else if (clocks_after(&actor, &b->init, true) != AU_NO_CONFLICT)
        kernel_fail(m, e, s, lane,
                    "race: @%s[%" PRId64 "] was initialised by %s and nothing orders the two",
                    memory->name, index,
                    b->init.exec == e->index ? "another lane" : "another executor");
    return m->why ? NULL : b;
}

static void init(AuMachine *m, AuExecutor *e, const AuStep *s, AuPhases *b, uint32_t lane)
{
    const int64_t count = agents_operand(m, e, s, 1, lane);
    if (count < 1)
        kernel_fail(m, e, s, lane, "phase: %" PRId64 " arrivals", count);
    else if (b->init.block == m->agents->block)
        kernel_fail(m, e, s, lane, "phase: initialised twice");
    if (m->why) return;
    b->init = agents_lane(m, e, lane).stamp;
    b->fence = (AuStamp){0};
    b->count = b->missing = (int32_t)count;
    b->bytes = b->complete = 0;
    clocks_reset(&b->current);
    clocks_reset(&b->done);
}

static void arrive(AuMachine *m, AuExecutor *e, const AuStep *s, AuPhases *b, uint32_t lane)
{
    if (!b->missing) {
        kernel_fail(m, e, s, lane, "phase: more than %" PRId32 " arrivals", b->count);
        return;
    }
    if (s->op == AU_K_MBAR_EXPECT) b->bytes += agents_operand(m, e, s, 1, lane);
    b->missing--;
    clocks_release(m->arena, &agents_of(m, e)->clocks, e->index, (uint16_t)lane, &b->current);
    agents_settle(m, b);
}

static void wait_for(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    AuAgent *a = agents_of(m, e);
    const int64_t number = agents_operand(m, e, s, 1, 0);
    AuPhases *b = NULL;
    for (uint32_t l = 0; l < m->k->lanes && !m->why; l++)
        b = agents_phases(m, e, s, s->mem, agents_operand(m, e, s, 0, l), l);
    if (m->why) return;
    if (number == b->complete) {
        a->wait = AU_FOR_PHASE;
        a->phases = b;
        a->number = (int32_t)number;
        e->waits = true;
    } else if (number == b->complete - 1)
        clocks_join(m->arena, &a->clocks.known, &b->done);
    else
        kernel_fail(m, e, s, 0, "phase: waits for %" PRId64 " where %" PRId32 " is the present one",
                    number, b->complete);
}

static void fence_init(AuMachine *m, AuExecutor *e)
{
    AuClocks *c = &agents_of(m, e)->clocks;
    AuStamp now = agents_lane(m, e, AU_LANES_ALL).stamp;
    for (uint32_t n = 1; n < m->k->mem_count; n++) {
        AuPhases *phases = m->places[n].phases;
        for (uint64_t i = 0; phases && i < m->places[n].count; i++)
            if (phases[i].init.block == m->agents->block && phases[i].init.exec == e->index &&
                phases[i].fence.block != m->agents->block)
                phases[i].fence = now;
    }
    c->time++;
}

void agents_step_sync(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const uint32_t mask = s->op == AU_K_MBAR_ARRIVE ? 1 : 2;
    switch ((int)s->op) {
    case AU_K_SYNC:
    case AU_K_ARRIVE: step_named(m, e, s); return;
    case AU_K_MBAR_WAIT: wait_for(m, e, s); return;
    case AU_K_FENCE_INIT: fence_init(m, e); return;
    case AU_K_FENCE_PROXY: clocks_fence(&agents_of(m, e)->clocks, e->index); return;
    }
    for (uint32_t l = 0; l < m->k->lanes && !m->why; l++) {
        if (!agents_is_active(m, e, s, mask, l)) continue;
        AuPhases *b = agents_phases(m, e, s, s->mem, agents_operand(m, e, s, 0, l), l);
        if (b && s->op == AU_K_MBAR_INIT)
            init(m, e, s, b, l);
        else if (b)
            arrive(m, e, s, b, l);
    }
}

/* ---- blocks */

void agents_begin_barriers(AuMachine *m)
{
    for (uint32_t n = 0; n < AU_NAMED_BARRIERS; n++) {
        AuNamed *b = &m->agents->named[n];
        b->arrived = 0;
        b->here = 0;
        clocks_reset(&b->current);
    }
}

void agents_end_barriers(AuMachine *m)
{
    for (uint32_t n = 1; n < m->k->mem_count; n++)
        for (uint64_t i = 0; m->places[n].phases && i < m->places[n].count; i++) {
            const AuPhases *b = &m->places[n].phases[i];
            if (b->init.block == m->agents->block && b->bytes)
                kernel_fail(m, NULL, NULL, 0,
                            "phase: %" PRId64 " bytes of @%s[%" PRIu64 "] are left over", b->bytes,
                            m->k->mems[n].name, i);
        }
    for (uint32_t n = 1; n < AU_NAMED_BARRIERS; n++)
        if (m->agents->named[n].arrived)
            kernel_fail(m, NULL, NULL, 0, "phase: %u lanes are left over at barrier %u",
                        m->agents->named[n].arrived, n);
}
