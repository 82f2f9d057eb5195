/* interpret_tensor.c - tensor memory: who has allocated it, loads and stores of lanes, products.
 *
 * What an executor knows here is what it knew at its last tensor_fence. A load or store of lanes has a stamp of no time (in flight)
 * until a tensor_wait, and another one (not fenced) until the next tensor_fence, which gives it that of the clock: so nobody else can
 * have learnt of it before. Data of loads and stores move at once, since whoever touches them too early is found; those of products
 * when they end. */
#include "agents.h"

#include <inttypes.h>
#include <string.h>

/* ---- who may use it */

static bool is_allocated(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuActor *actor)
{
    const AuStamp *by = &m->agents->allocated;
    if (by->block != m->agents->block)
        kernel_fail(m, e, s, 0, "uninitialised: tensor memory that nobody has allocated");
    else if (clocks_after(actor, by, true) != AU_NO_CONFLICT)
        kernel_fail(m, e, s, 0,
                    "fence: no barrier and tensor_fence lie between tensor_alloc and this");
    return !m->why;
}

/* A load or store of the executor's own lanes that has not been waited for. */
static bool is_in_flight(const AuMachine *m, const AuExecutor *e, const AuTouch *touch)
{
    const AuMarks *marks = &m->places[touch->mem].marks[touch->at];
    bool found = marks->write.kind == AU_BY_LANES && marks->write.time == AU_IN_FLIGHT &&
                 marks->write.exec == e->index;
    for (const AuReader *r = marks->readers; r && touch->writes; r = r->next)
        found |= r->stamp.kind == AU_BY_LANES && r->stamp.time == AU_IN_FLIGHT &&
                 r->stamp.exec == e->index;
    return found;
}

bool agents_may_use_tensor(AuMachine *m, const AuExecutor *e, const AuStep *s, AuActor *actor,
                           const AuTouch *touch)
{
    AuAgent *a = agents_of(m, e);
    a->ordered.time = a->clocks.time;
    a->ordered.synced = a->clocks.synced;
    actor->by = &a->ordered;
    actor->unit = false;
    if (!is_allocated(m, e, s, actor)) return false;
    if (!is_in_flight(m, e, touch)) return true;
    kernel_fail(m, e, s, 0,
                "in flight: @%s[%" PRId64 "] is used by lanes, and no tensor_wait lies between",
                m->k->mems[touch->mem].name, touch->index);
    return false;
}

static void allocate(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (m->agents->allocated.block == m->agents->block)
        kernel_fail(m, e, s, 0, "phase: tensor memory is allocated twice");
    else
        m->agents->allocated = agents_lane(m, e, AU_LANES_ALL).stamp;
}

/* All that was done there must be known. */
static void release(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuActor actor = agents_lane(m, e, AU_LANES_ALL);
    if (m->agents->allocated.exec != e->index)
        kernel_fail(m, e, s, 0, "phase: executor %u has allocated tensor memory",
                    m->agents->allocated.exec);
    for (uint32_t n = 1; n < m->k->mem_count; n++)
        for (uint64_t at = 0; m->k->mems[n].space == AU_TENSOR && at < m->k->mems[n].count; at++)
            if (m->why ||
                !agents_touch(m, e, s, &actor, (AuTouch){n, at, (int64_t)at, true, false}))
                return;
    m->agents->allocated = (AuStamp){0};
}

/* ---- lanes */

static bool is_own_row(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                       uint32_t mem, int64_t at)
{
    const AuMemory *t = &m->k->mems[mem];
    const int64_t row = 32 * (e->index % 4) + lane;
    if (at < 0 || at + s->imm > t->count || at % t->columns + s->imm > t->columns)
        kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] and %" PRId64 " elements of a row",
                    t->name, at, s->imm);
    else if (at / t->columns % t->rows != row)
        kernel_fail(m, e, s, lane,
                    "bounds: row %" PRId64 " of @%s, and the lane reaches row %" PRId64,
                    at / t->columns % t->rows, t->name, row);
    return !m->why;
}

static bool has_registers(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t mem,
                          int64_t reg, bool load)
{
    AuStep as = *s;
    as.mem = mem;
    for (int64_t n = 0; n < s->imm; n++) {
        if (!agents_use_register(m, e, &as, reg + n, load)) return false;
        for (uint32_t l = 0; !load && l < m->k->lanes; l++)
            if (m->places[mem].written[agents_register(m, e, mem, reg + n, l)] != m->clock.begin) {
                kernel_fail(m, e, s, l,
                            "uninitialised: @%s[%" PRId64 "] is read before it is written",
                            m->k->mems[mem].name, reg + n);
                return false;
            }
    }
    return true;
}

static void move_lanes(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const bool load = s->op == AU_K_TENSOR_LOAD;
    const uint32_t lanes = load ? in->mem.i : in->also[0].i,
                   tensor = load ? in->also[0].i : in->mem.i;
    const int64_t reg = agents_operand(m, e, s, load ? 0 : 1, 0);
    const uint32_t bytes = kernel_scalar_bytes(m->k->mems[tensor].scalar);
    AuAgent *a = agents_of(m, e);
    if (!has_registers(m, e, s, lanes, reg, load)) return;
    for (uint32_t l = 0; l < m->k->lanes; l++) {
        const int64_t at = agents_operand(m, e, s, load ? 1 : 0, l);
        AuActor actor = agents_lane(m, e, l);
        actor.stamp.time = AU_IN_FLIGHT;
        if (!is_own_row(m, e, s, l, tensor, at)) return;
        for (int64_t n = 0; n < s->imm; n++) {
            const uint64_t r = agents_register(m, e, lanes, reg + n, l), t = (uint64_t)(at + n);
            if (!agents_touch(m, e, s, &actor, (AuTouch){tensor, t, at + n, !load, false})) return;
            AU_PUSH(m->arena, a->unsettled, a->unsettled_count, a->unsettled_capacity,
                    ((AuUnsettled){tensor, t, s, false}));
            char *row = m->places[tensor].data + t * bytes,
                 *own = m->places[lanes].data + r * bytes;
            memcpy(load ? own : row, load ? row : own, bytes);
            if (load) m->places[lanes].written[r] = m->clock.begin;
        }
    }
    for (int64_t n = 0; load && n < s->imm; n++)
        agents_held(m, e, lanes, reg + n)->written = AU_BY_TENSOR_LOAD;
}

/* Stamps of this executor's lanes on the element get another time. */
static void stamp(AuMachine *m, const AuExecutor *e, const AuUnsettled *u, uint32_t from,
                  uint32_t to)
{
    AuMarks *marks = &m->places[u->mem].marks[u->at];
    if (marks->write.kind == AU_BY_LANES && marks->write.exec == e->index &&
        marks->write.time == from)
        marks->write.time = to;
    for (AuReader *r = marks->readers; r; r = r->next)
        if (r->stamp.kind == AU_BY_LANES && r->stamp.exec == e->index && r->stamp.time == from)
            r->stamp.time = to;
}

static void wait_for(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const AuMem named[3] = {in->mem, in->also[0], in->also[1]};
    AuAgent *a = agents_of(m, e);
    for (uint32_t n = 0; n < a->unsettled_count; n++) {
        AuUnsettled *u = &a->unsettled[n];
        if (u->done || (u->step->op == AU_K_TENSOR_STORE) != (s->imm == 1)) continue;
        stamp(m, e, u, AU_IN_FLIGHT, AU_NOT_FENCED);
        u->done = true;
    }
    for (uint32_t n = 0; n < 3; n++)
        for (uint32_t i = 0; named[n].i && i < m->k->mems[named[n].i].count; i++) {
            AuHeld *h = agents_held(m, e, named[n].i, i);
            if (h->written == AU_BY_TENSOR_LOAD) h->written = 0;
        }
}

static void fence(AuMachine *m, AuExecutor *e)
{
    AuAgent *a = agents_of(m, e);
    uint32_t left = 0;
    for (uint32_t n = 0; n < a->unsettled_count; n++) {
        const AuUnsettled u = a->unsettled[n];
        if (u.done)
            stamp(m, e, &u, AU_NOT_FENCED, a->clocks.time);
        else
            a->unsettled[left++] = u;
    }
    a->unsettled_count = left;
    clocks_join(m->arena, &a->ordered.known, &a->clocks.known);
}

/* ---- products */

typedef struct Sums {
    uint32_t mem;
    int64_t at, width; /* of a row of the tile */
    int64_t rows, columns, depth;
    AuGroupOp op;
} Sums;

static Sums sums_of(const AuMachine *m, const AuProduct *x)
{
    const AuInstr *in = &m->k->instrs[x->step->instr];
    const AuGroupOp op = kernel_group_matrix((AuGroupMatrix)in->imm);
    return (Sums){.mem = in->mem.i,
                  .at = x->c_at,
                  .width = m->k->mems[in->mem.i].columns,
                  .rows = op.atom->m,
                  .columns = kernel_at(m->k, kernel_operand(m->k, in, 4))->imm,
                  .depth = op.atom->k,
                  .op = op};
}

static bool touch_sums(AuMachine *m, const AuExecutor *e, const AuProduct *x, const Sums *c,
                       const AuActor *actor)
{
    const AuMemory *mem = &m->k->mems[c->mem];
    if (c->at < 0 || c->at / c->width % AU_TENSOR_ROWS ||
        c->at % c->width + c->columns > c->width ||
        c->at + (c->rows - 1) * c->width + c->columns > mem->count) {
        kernel_fail(m, e, x->step, 0, "bounds: no sums of %" PRId64 " columns at @%s[%" PRId64 "]",
                    c->columns, mem->name, c->at);
        return false;
    }
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t n = 0; n < c->columns; n++) {
            const int64_t at = c->at + r * c->width + n;
            const AuTouch reads = {c->mem, (uint64_t)at, at, false, false},
                          writes = {c->mem, (uint64_t)at, at, true, false};
            if ((x->add && !agents_touch(m, e, x->step, actor, reads)) ||
                !agents_touch(m, e, x->step, actor, writes))
                return false;
        }
    return true;
}

static void issue(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane)
{
    AuAgent *a = agents_of(m, e);
    int64_t operands[4];
    for (uint32_t n = 0; n < 4; n++) operands[n] = agents_operand(m, e, s, n, lane);
    const AuProduct x = {s, operands[0], operands[1], operands[2], operands[3] != 0, a->commits};
    const Sums c = sums_of(m, &x);
    const AuOperand left = agents_matrix(m, &x, &c.op, false),
                    right = agents_matrix(m, &x, &c.op, true);
    AuActor actor = agents_lane(m, e, lane);
    actor.stamp.kind = AU_BY_PRODUCT;
    actor.stamp.time = a->product_count;
    actor.unit = true;
    if (!agents_touch_matrix(m, e, s, &left, 0, c.rows, c.depth, &actor) ||
        !agents_touch_matrix(m, e, s, &right, 0, c.columns, c.depth, &actor) ||
        !touch_sums(m, e, &x, &c, &actor))
        return;
    AU_PUSH(m->arena, a->products, a->product_count, a->product_capacity, x);
}

void agents_multiply_tensor(AuMachine *m, const AuProduct *x)
{
    const Sums c = sums_of(m, x);
    const AuOperand left = agents_matrix(m, x, &c.op, false),
                    right = agents_matrix(m, x, &c.op, true);
    float *sums = (float *)(void *)m->places[c.mem].data;
    for (int64_t r = 0; r < c.rows; r++)
        for (int64_t n = 0; n < c.columns; n++) {
            float *sum = &sums[c.at + r * c.width + n], product = 0;
            for (int64_t k = 0; k < c.depth; k++)
                product +=
                    agents_matrix_element(m, &left, r, k) * agents_matrix_element(m, &right, n, k);
            *sum = x->add ? *sum + product : product;
        }
}

/* ---- arrivals */

void agents_signal_products(AuMachine *m, AuExecutor *e)
{
    AuAgent *a = agents_of(m, e);
    for (; a->signalled < a->signal_count && !m->why; a->signalled++) {
        const AuSignal *s = &a->signals[a->signalled];
        if (a->ended < s->products) return;
        if (!s->phases->missing) {
            kernel_fail(m, e, s->step, s->lane, "phase: more than %" PRId32 " arrivals",
                        s->phases->count);
            return;
        }
        if (s->phases->current.products[e->index] < s->products)
            s->phases->current.products[e->index] = s->products;
        clocks_join_copies(m->arena, &s->phases->current, &s->known);
        s->phases->missing--;
        agents_settle(m, s->phases);
    }
}

static void commit(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane)
{
    AuAgent *a = agents_of(m, e);
    AuPhases *b = agents_phases(m, e, s, s->mem, agents_operand(m, e, s, 0, lane), lane);
    if (!b || !agents_units_know(m, e, s, lane, b)) return;
    AuVector known = {0};
    clocks_join_copies(m->arena, &known, &a->clocks.known);
    AU_PUSH(m->arena, a->signals, a->signal_count, a->signal_capacity,
            ((AuSignal){s, lane, a->product_count, b, known}));
    agents_signal_products(m, e);
}

void agents_step_tensor(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const bool product = s->op == AU_K_TENSOR_MUL;
    switch ((int)s->op) {
    case AU_K_TENSOR_ALLOC: allocate(m, e, s); return;
    case AU_K_TENSOR_FREE: release(m, e, s); return;
    case AU_K_TENSOR_LOAD:
    case AU_K_TENSOR_STORE: move_lanes(m, e, s); return;
    case AU_K_TENSOR_WAIT: wait_for(m, e, s); return;
    case AU_K_TENSOR_FENCE: fence(m, e); return;
    }
    for (uint32_t l = 0; l < m->k->lanes && !m->why; l++)
        if (agents_is_active(m, e, s, product ? 7 : 1, l)) (product ? issue : commit)(m, e, s, l);
}

/* ---- blocks */

void agents_begin_tensor(AuMachine *m)
{
    for (uint32_t w = 0; w < m->k->warps; w++) {
        AuAgent *a = &m->agents->of[w];
        clocks_reset(&a->ordered.known);
        a->unsettled_count = a->signal_count = a->signalled = 0;
    }
}

void agents_end_tensor(AuMachine *m)
{
    if (m->agents->allocated.block == m->agents->block) {
        const AuExecutor *e = &m->executors[m->agents->allocated.exec];
        kernel_fail(m, e, NULL, 0, "phase: tensor memory is not freed");
    }
}
