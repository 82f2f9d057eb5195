/* interpret_memory.c - loads, stores and atomics in all lanes, each element checked: bounds,
 * written before, races. */
#include "agents.h"

#include <inttypes.h>
#include <string.h>

/* The common sizes as constants, so that each becomes one move. */
static inline void move(char *to, const char *from, uint32_t bytes)
{
    switch (bytes) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    }
}

static inline bool is_active(const AuStep *s, const char *frame, uint32_t lane)
{
    return !s->c || frame[s->c + lane];
}

static void fill_other(const AuStep *s, char *frame, uint32_t lane, uint32_t lanes)
{
    for (uint32_t e = 0; e < s->width; e++) {
        char *to = frame + s->result + (e * lanes + lane) * s->bytes;
        if (s->other)
            move(to, frame + s->other + (e * lanes + lane) * s->bytes, s->bytes);
        else
            memset(to, 0, s->bytes);
    }
}

static void fail_bounds(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                        int64_t index)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    const uint64_t count = mem->space == AU_GLOBAL ? m->places[s->mem].count : mem->count;
    kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] of %" PRIu64 " elements", mem->name, index,
                count);
}

static void fail_race(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                      int64_t index, const AuShadow *shadow, const AuTrace *other)
{
    const char *who = other->epoch < m->clock.begin || other->other ? "another block"
                      : other->exec == AU_MANY                      ? "several executors"
                      : other->exec != e->index                     ? "another executor"
                                                                    : "another lane";
    kernel_fail(m, e, s, lane, "race: @%s[%" PRId64 "] was %s by %s and nothing orders the two",
                m->k->mems[s->mem].name, index, other == &shadow->write ? "written" : "read", who);
}

bool kernel_note_access(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, uint64_t at,
                        int64_t index)
{
    const AuRunMemory *p = &m->places[s->mem];
    const AuMemory *mem = &m->k->mems[s->mem];
    const AuAccess access = {e->x, (uint16_t)e->index, (uint16_t)lane};
    const AuTrace *other = NULL;
    const uint32_t flags = kernel_op_info(s->op)->flags;
    if (p->flight && p->flight[at]) {
        kernel_fail_flight(m, e, s, lane, index);
        return false;
    }
    if (m->agents) return agents_note(m, e, s, lane, at, index);
    AuShadow *shadow = &p->shadow[at];
    const bool written =
        p->given || (mem->space == AU_GLOBAL ? shadow->write.epoch != 0
                                             : shadow->write.epoch >= m->clock.begin);
    if (flags & AU_KF_READ && !written) {
        kernel_fail(m, e, s, lane, "uninitialised: @%s[%" PRId64 "] is read before it is written",
                    mem->name, index);
        return false;
    }
    if (mem->space != AU_GLOBAL && !written)
        *shadow = (AuShadow){0}; /* of an earlier block: another memory */
    if (s->op == AU_K_ATOMIC_INC) {
        kernel_shadow_increment(&m->clock, shadow, access);
        return true;
    }
    const bool ordered =
        flags & AU_KF_WRITE
            ? kernel_shadow_write(&m->clock, shadow, access, s->op == AU_K_ATOMIC_ADD, &other)
            : kernel_shadow_read(&m->clock, shadow, access, &other);
    if (!ordered) fail_race(m, e, s, lane, index, shadow, other);
    return ordered;
}

static void increment(AuMachine *m, const AuStep *s, char *frame, char *at, uint32_t lane,
                      uint64_t place)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    memcpy(frame + s->result + lane * sizeof value, &value, sizeof value);
    value++;
    memcpy(at, &value, sizeof value);
    if (!m->clock.seen) return;
    /* One executor whose lanes march together has done all that stands before. */
    if (m->k->warps == 1 && (m->run->lockstep || m->k->lanes == 1)) kernel_clock_barrier(&m->clock);
    kernel_clock_increment(&m->clock, (uint64_t)s->mem << 48 | place);
}

static void add(const char *from, char *at, AuScalar scalar)
{
    if (scalar == AU_F32) {
        float value, sum;
        memcpy(&value, from, sizeof value);
        memcpy(&sum, at, sizeof sum);
        sum += value;
        memcpy(at, &sum, sizeof sum);
    } else {
        int32_t value, sum;
        memcpy(&value, from, sizeof value);
        memcpy(&sum, at, sizeof sum);
        sum += value;
        memcpy(at, &sum, sizeof sum);
    }
}

static void transfer(AuMachine *m, const AuStep *s, char *frame, uint32_t lane, uint64_t at)
{
    const uint32_t lanes = m->k->lanes;
    char *data = m->places[s->mem].data + at * s->bytes;
    switch ((int)s->op) {
    case AU_K_LOAD:
        for (uint32_t e = 0; e < s->width; e++)
            move(frame + s->result + (e * lanes + lane) * s->bytes, data + e * s->bytes, s->bytes);
        return;
    case AU_K_STORE:
        for (uint32_t e = 0; e < s->width; e++)
            move(data + e * s->bytes, frame + s->b + (e * lanes + lane) * s->bytes, s->bytes);
        return;
    case AU_K_ATOMIC_ADD:
        for (uint32_t e = 0; e < s->width; e++)
            add(frame + s->b + (e * lanes + lane) * 4, data + e * 4, m->k->mems[s->mem].scalar);
        return;
    case AU_K_ATOMIC_INC: increment(m, s, frame, data, lane, at); return;
    }
}

/* A vector added to must be aligned; one in swizzled memory must lie in one of the parts of 16
 * bytes that the swizzle moves. */
static bool stays_together(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                           int64_t index)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    const int64_t part = mem->swizzle ? 16 / s->bytes : s->op == AU_K_ATOMIC_ADD ? s->width : 0;
    if (s->width == 1 || !part || index / part == (index + s->width - 1) / part) return true;
    kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] begins a vector that lies across %" PRId64,
                mem->name, index, part);
    return false;
}

/* Memory that several lanes see. */
static void shared_step(AuMachine *m, AuExecutor *e, const AuStep *s, uint64_t base, uint64_t count)
{
    const bool traced = kernel_is_traced(&m->places[s->mem]);
    for (uint32_t l = 0; l < m->k->lanes; l++) {
        if (!is_active(s, e->frame, l)) {
            if (s->result) fill_other(s, e->frame, l, m->k->lanes);
            continue;
        }
        const int64_t index = kernel_index_at(s, e->frame, l);
        if (index < 0 || (uint64_t)index + s->width > count) {
            fail_bounds(m, e, s, l, index);
            return;
        }
        if (!stays_together(m, e, s, l, index)) return;
        const uint64_t at = base + (uint64_t)index;
        for (uint32_t n = 0; traced && n < s->width; n++)
            if (!kernel_note_access(m, e, s, l, at + n, index + n)) return;
        transfer(m, s, e->frame, l, at);
    }
}

/* The common case of lane_step: no mask and one index for all, so that frame and memory hold the
 * same block. false: not that, or not right, and lane_step will say what. */
static bool lane_block(const AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    const uint32_t lanes = m->k->lanes, count = m->k->mems[s->mem].count, n = lanes * s->width;
    const AuRunMemory *p = &m->places[s->mem];
    const int64_t index = kernel_index_at(s, e->frame, 0);
    bool good = !p->held && !s->c && index >= 0 && (uint64_t)index + s->width <= count;
    for (uint32_t l = 1; l < lanes && good; l++) good = kernel_index_at(s, e->frame, l) == index;
    if (!good) return false;
    const uint64_t at = ((uint64_t)e->index * count + (uint64_t)index) * lanes;
    uint32_t *written = p->written + at, missing = 0;
    if (s->op == AU_K_STORE) {
        for (uint32_t i = 0; i < n; i++) written[i] = m->clock.begin;
        memcpy(p->data + at * s->bytes, e->frame + s->b, (size_t)n * s->bytes);
        return true;
    }
    for (uint32_t i = 0; i < n; i++) missing |= written[i] ^ m->clock.begin;
    if (missing) return false;
    memcpy(e->frame + s->result, p->data + at * s->bytes, (size_t)n * s->bytes);
    return true;
}

/* Memory of a lane: element i of lane l at [i * lanes + l]. */
static void lane_step(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (lane_block(m, e, s)) return;
    const uint32_t lanes = m->k->lanes, count = m->k->mems[s->mem].count;
    const AuRunMemory *p = &m->places[s->mem];
    const uint64_t base = (uint64_t)e->index * count;
    const bool store = s->op == AU_K_STORE;
    for (uint32_t l = 0; l < lanes; l++) {
        if (!is_active(s, e->frame, l)) {
            if (!store) fill_other(s, e->frame, l, lanes);
            continue;
        }
        const int64_t index = kernel_index_at(s, e->frame, l);
        if (index < 0 || (uint64_t)index + s->width > count) {
            fail_bounds(m, e, s, l, index);
            return;
        }
        for (uint32_t n = 0; n < s->width; n++) {
            if (p->held && !agents_use_register(m, e, s, index + n, store)) return;
            const uint64_t at = (base + (uint64_t)index + n) * lanes + l;
            char *value = e->frame + (store ? s->b : s->result) + (n * lanes + l) * s->bytes;
            char *data = p->data + at * s->bytes;
            if (store) {
                p->written[at] = m->clock.begin;
                move(data, value, s->bytes);
            } else if (p->written[at] == m->clock.begin)
                move(value, data, s->bytes);
            else {
                kernel_fail(m, e, s, l,
                            "uninitialised: @%s[%" PRId64 "] is read before it is written",
                            m->k->mems[s->mem].name, index + n);
                return;
            }
        }
    }
}

void kernel_step_memory(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    if (m->run->lockstep) e->x++;
    switch (mem->space) {
    case AU_LANE: lane_step(m, e, s); return;
    case AU_MATRIX:
    case AU_TENSOR: return; /* has no elements to load */
    case AU_EXEC: shared_step(m, e, s, (uint64_t)e->index * mem->count, mem->count); return;
    case AU_SHARED: shared_step(m, e, s, 0, mem->count); return;
    case AU_GLOBAL: shared_step(m, e, s, 0, m->places[s->mem].count); return;
    }
}
