/* interpret_agents.c - executors of a block that go different ways: they take turns of random
 * length until all have ended or all wait. */
#include "agents.h"

#include <inttypes.h>
#include <string.h>

/* ---- accesses */

AuActor agents_lane(AuMachine *m, const AuExecutor *e, uint32_t lane)
{
    const AuClocks *c = &agents_of(m, e)->clocks;
    return (AuActor){.stamp = {.block = m->agents->block,
                               .time = c->time,
                               .exec = (uint16_t)e->index,
                               .lane = (uint16_t)lane,
                               .kind = AU_BY_LANES},
                     .by = c,
                     .exec = e->index,
                     .lane = (uint16_t)lane};
}

static void fail_conflict(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuActor *actor,
                          AuTouch touch, AuConflict conflict, const AuStamp *other, bool written)
{
    const char *name = m->k->mems[touch.mem].name, *did = written ? "written" : "read";
    const uint32_t lane = actor->lane == AU_LANES_ALL ? 0 : actor->lane;
    if (conflict == AU_UNFENCED)
        kernel_fail(m, e, s, lane,
                    "fence: @%s[%" PRId64 "] was written by executor %u, and no fence_proxy lies "
                    "between",
                    name, touch.index, other->exec);
    else if (other->block != actor->stamp.block)
        kernel_fail(m, e, s, lane,
                    "race: @%s[%" PRId64 "] was %s by another block and nothing orders the two",
                    name, touch.index, did);
    else if (other->kind != AU_BY_LANES)
        kernel_fail(m, e, s, lane,
                    "in flight: @%s[%" PRId64 "] is %s by a %s of executor %u, and nothing says "
                    "that it is done",
                    name, touch.index, did, other->kind == AU_BY_COPY ? "copy" : "product",
                    other->exec);
    else
        kernel_fail(m, e, s, lane, "race: @%s[%" PRId64 "] was %s by %s and nothing orders the two",
                    name, touch.index, did,
                    other->exec != actor->exec ? "another executor" : "another lane");
}

bool agents_touch(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuActor *actor,
                  AuTouch touch)
{
    const AuRunMemory *p = &m->places[touch.mem];
    if (!p->marks) return true;
    AuMarks *marks = &p->marks[touch.at];
    const bool global = m->k->mems[touch.mem].space == AU_GLOBAL;
    const bool here =
        marks->write.kind != AU_NOBODY && (global || marks->write.block == m->agents->block);
    AuStamp other;
    if ((!touch.writes || touch.atomic) && !p->given && !here) {
        kernel_fail(m, e, s, actor->lane == AU_LANES_ALL ? 0 : actor->lane,
                    "uninitialised: @%s[%" PRId64 "] is read before it is written",
                    m->k->mems[touch.mem].name, touch.index);
        return false;
    }
    if (!global && !here) *marks = (AuMarks){0}; /* of an earlier block: another memory */
    AuActor with = *actor;
    if (m->k->mems[touch.mem].space == AU_TENSOR && !agents_may_use_tensor(m, e, s, &with, &touch))
        return false;
    actor = &with;
    const AuConflict conflict =
        touch.writes ? clocks_write(&m->agents->readers, marks, actor, touch.atomic, &other)
                     : clocks_read(&m->agents->readers, marks, actor, &other);
    if (conflict == AU_NO_CONFLICT) return true;
    const bool written = memcmp(&other, &marks->write, sizeof other) == 0;
    fail_conflict(m, e, s, actor, touch, conflict, &other, written);
    return false;
}

bool agents_note(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, uint64_t at,
                 int64_t index)
{
    const AuActor actor = agents_lane(m, e, lane);
    const bool writes = kernel_op_info(s->op)->flags & AU_KF_WRITE;
    return agents_touch(m, e, s, &actor,
                        (AuTouch){s->mem, at, index, writes, s->op == AU_K_ATOMIC_ADD});
}

int64_t agents_operand(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                       uint32_t lane)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    if (n >= in->count) return -1;
    const AuVal v = kernel_operand(m->k, in, n);
    const char *at = e->frame + m->slot[v.i];
    switch ((AuScalar)kernel_at(m->k, v)->type.scalar) {
    case AU_I1: return at[lane];
    case AU_I32: return ((const int32_t *)(const void *)at)[lane];
    case AU_I64: return ((const int64_t *)(const void *)at)[lane];
    case AU_VOID:
    case AU_F32:
    case AU_F16:
    case AU_BF16:
    case AU_U8:
    case AU_SCALARS: break;
    }
    return -1;
}

bool agents_is_active(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                      uint32_t lane)
{
    return n >= m->k->instrs[s->instr].count || agents_operand(m, e, s, n, lane);
}

/* ---- groups */

void agents_meet(AuMachine *m, AuExecutor *e, const AuStep *s, const int64_t operands[4])
{
    AuGroup *g = &m->agents->groups[e->index / m->k->group];
    AuAgent *a = agents_of(m, e);
    if (a->met == g->count) {
        AuMeeting meeting = {.instr = s->instr, .first = e->index};
        memcpy(meeting.operands, operands, sizeof meeting.operands);
        AU_PUSH(m->arena, g->meetings, g->count, g->capacity, meeting);
    }
    const AuMeeting *meeting = &g->meetings[a->met++];
    if (meeting->instr != s->instr)
        kernel_fail(m, e, s, 0, "group: executor %u has come to another operation", meeting->first);
    else if (memcmp(meeting->operands, operands, sizeof meeting->operands) != 0)
        kernel_fail(m, e, s, 0, "group: executor %u has come with other operands", meeting->first);
}

static void check_groups(AuMachine *m)
{
    for (uint32_t w = 0; m->k->group && w < m->k->warps && !m->why; w++) {
        const AuGroup *g = &m->agents->groups[w / m->k->group];
        const uint32_t met = m->agents->of[w].met;
        if (met == g->count) continue;
        const AuMeeting *missed = &g->meetings[met];
        const AuStep at = {.instr = missed->instr};
        kernel_fail(m, &m->executors[missed->first], &at, 0,
                    "group: executor %u does not come to this operation", w);
    }
}

/* ---- the schedule */

AuAgents *agents_new(AuMachine *m)
{
    AuAgents *agents = AU_NEW(m->arena, AuAgents);
    if (m->increments)
        kernel_fail(m, NULL, NULL, 0,
                    "limits: atomic_inc in a kernel whose executors go different ways");
    if (m->k->map_count && !m->run->maps)
        kernel_fail(m, NULL, NULL, 0, "limits: nobody says how large the tensors of maps are");
    agents->of = AU_NEW_ARRAY(m->arena, AuAgent, m->k->warps);
    agents->readers.arena = m->arena;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        agents->of[w].clocks.known = clocks_vector(m->arena, m->k->warps);
        agents->of[w].ordered.known = clocks_vector(m->arena, m->k->warps);
        agents->of[w].committed = AU_NEW_ARRAY(m->arena, uint32_t, m->k->lanes);
    }
    agents->laziness = (uint32_t)(m->run->seed % 3);
    for (uint32_t n = 0; n < AU_NAMED_BARRIERS; n++)
        agents->named[n].current = clocks_vector(m->arena, m->k->warps);
    if (m->k->group) agents->groups = AU_NEW_ARRAY(m->arena, AuGroup, m->k->warps / m->k->group);
    return agents;
}

/* Are there operations that use registers while lanes go on, or that ask who does? */
static bool holds_registers(const AuMachine *m)
{
    for (uint32_t i = 1; i < m->k->instr_count; i++) switch ((int)m->k->instrs[i].op) {
        case AU_K_WGMMA:
        case AU_K_TENSOR_LOAD:
        case AU_K_TENSOR_STORE:
        case AU_K_TENSOR_WAIT: return true;
        }
    return false;
}

void agents_prepare(AuMachine *m)
{
    const bool holds = holds_registers(m);
    for (uint32_t n = 1; n < m->k->mem_count && holds; n++)
        if (m->k->mems[n].space == AU_LANE)
            m->places[n].held =
                AU_NEW_ARRAY(m->arena, AuHeld, (size_t)m->k->warps * m->k->mems[n].count);
    for (uint32_t n = 1; n < m->k->mem_count; n++) {
        AuRunMemory *p = &m->places[n];
        if (m->k->mems[n].space != AU_SHARED || m->k->mems[n].scalar != AU_I64) continue;
        p->phases = AU_NEW_ARRAY(m->arena, AuPhases, p->count);
        for (uint64_t i = 0; i < p->count; i++) {
            p->phases[i].current = clocks_vector(m->arena, m->k->warps);
            p->phases[i].done = clocks_vector(m->arena, m->k->warps);
        }
    }
}

void agents_step(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    static const int64_t nothing[4] = {0};
    if (s->op == AU_K_REGISTERS)
        agents_meet(m, e, s, nothing);
    else if (s->op >= AU_K_WGMMA && s->op <= AU_K_WGMMA_WAIT)
        agents_step_product(m, e, s);
    else if (s->op >= AU_K_TENSOR_ALLOC && s->op <= AU_K_TENSOR_COMMIT)
        agents_step_tensor(m, e, s);
    else if (s->op >= AU_K_TMA_LOAD && s->op <= AU_K_BULK_WAIT)
        agents_step_copy(m, e, s);
    else
        agents_step_sync(m, e, s);
}

static void begin_block(AuMachine *m)
{
    AuAgents *agents = m->agents;
    agents->block++;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        AuAgent *a = &agents->of[w];
        clocks_begin(&a->clocks);
        a->wait = AU_WAITS_NOT;
        a->met = 0;
    }
    for (uint32_t g = 0; m->k->group && g < m->k->warps / m->k->group; g++)
        agents->groups[g].count = 0;
    agents_begin_barriers(m);
    agents_begin_products(m);
    agents_begin_tensor(m);
}

/* Nobody can go on: what each waits for. */
static void fail_deadlock(AuMachine *m)
{
    AuText text = {.arena = m->arena};
    const AuExecutor *first = NULL;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        const AuExecutor *e = &m->executors[w];
        const AuAgent *a = &m->agents->of[w];
        if (e->ended) continue;
        au_text_add(&text, "%s executor %u for ", first ? "," : "", w);
        if (!first) first = e;
        if (a->wait == AU_FOR_NAMED)
            au_text_add(&text, "barrier %u (%u of %u lanes are there)", a->named,
                        m->agents->named[a->named].arrived, m->agents->named[a->named].expected);
        else
            au_text_add(
                &text, "phase %" PRId32 " (%" PRId32 " arrivals and %" PRId64 " bytes are missing)",
                a->number, a->phases->missing, a->phases->bytes);
    }
    kernel_fail(m, first, &m->steps[first->pc - 1], 0, "deadlock: there wait%s",
                au_text_str(&text));
}

static void end_block(AuMachine *m)
{
    if (!m->why) check_groups(m);
    if (!m->why) agents_end_products(m);
    if (!m->why) agents_end_tensor(m);
    if (!m->why) agents_end_copies(m);
    if (!m->why) agents_end_barriers(m);
}

/* One of the operations that go on by themselves ends; false: there is none. */
static bool end_one(AuMachine *m)
{
    const uint32_t copies = m->agents->copies_pending, products = agents_products_pending(m);
    if (!copies && !products) return false;
    const uint32_t which = kernel_draw(m, copies + products);
    if (which < copies)
        agents_end_copy(m, which);
    else
        agents_end_product(m, which - copies);
    return true;
}

/* Soon, now and then, or only when all wait. */
static void end_some(AuMachine *m)
{
    if (m->agents->laziness == 2) return;
    while (kernel_draw(m, m->agents->laziness ? 16 : 4) == 0 || !m->agents->laziness)
        if (!end_one(m)) return;
}

void agents_run_block(AuMachine *m)
{
    begin_block(m);
    while (!m->why) {
        uint32_t ready = 0, ended = 0;
        for (uint32_t w = 0; w < m->k->warps; w++) {
            ready += !m->executors[w].waits && !m->executors[w].ended;
            ended += m->executors[w].ended;
        }
        if (ended == m->k->warps) break;
        if (ready)
            end_some(m);
        else if (!end_one(m))
            fail_deadlock(m);
        for (uint32_t w = 0, n = ready ? kernel_draw(m, ready) : 0; ready && w < m->k->warps; w++) {
            if (m->executors[w].waits || m->executors[w].ended || n--) continue;
            kernel_take_turn(m, &m->executors[w]);
            break;
        }
    }
    end_block(m);
}
