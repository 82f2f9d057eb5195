/* interpret_copy.c - asynchronous copies into shared memory. A copy happens as late as it may: in
 * the wait that covers it. Until then its elements are in flight, and touching one is an error, so
 * nothing can depend on when a device would have done it. As an access it is noted when it is
 * issued, against those who still use the memory, and again when it is done, against those who
 * read it without a barrier behind the wait. */
#include "interpret.h"

#include <inttypes.h>
#include <string.h>

void kernel_fail_flight(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                        int64_t index)
{
    kernel_fail(m, e, s, lane, "in flight: @%s[%" PRId64 "] is still being copied to",
                m->k->mems[s->mem].name, index);
}

/* The step as which one side of the copy is noted. */
static AuStep side(const AuStep *s, AuKOp op, uint32_t mem)
{
    AuStep access = *s;
    access.op = (uint8_t)op;
    access.mem = mem;
    return access;
}

static bool note(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, int64_t first,
                 uint32_t count)
{
    for (uint32_t n = 0; kernel_is_traced(&m->places[s->mem]) && n < count; n++)
        if (!kernel_note_access(m, e, s, lane, (uint64_t)first + n, first + n)) return false;
    return true;
}

static bool is_inside(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, int64_t index,
                      uint32_t count)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    const uint64_t size = mem->space == AU_GLOBAL ? m->places[s->mem].count : mem->count;
    if (index * s->bytes % s->imm) {
        kernel_fail(m, e, s, lane,
                    "bounds: @%s[%" PRId64 "] is not aligned to the %" PRId64 " bytes of the copy",
                    mem->name, index, s->imm);
        return false;
    }
    if (count == 0 || (index >= 0 && (uint64_t)index + count <= size)) return true;
    kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] of %" PRIu64 " elements", mem->name, index,
                size);
    return false;
}

static void issue(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    AuStep write = side(s, AU_K_STORE, in->mem.i), read = side(s, AU_K_LOAD, in->also[0].i);
    read.a = s->b;
    read.of = s->to;
    const uint32_t count = (uint32_t)s->imm / s->bytes;
    const int64_t behind = kernel_is_direct(in->imm) ? (int64_t)lane * count : 0,
                  to = kernel_index_at(&write, e->frame, lane) + behind,
                  from = kernel_index_at(&read, e->frame, lane);
    int32_t valid;
    memcpy(&valid, e->frame + s->other + lane * sizeof valid, sizeof valid);
    if (valid < 0 || valid > s->imm || valid % s->bytes) {
        kernel_fail(m, e, s, lane, "bounds: %" PRId32 " bytes of %" PRId64, valid, s->imm);
        return;
    }
    const uint32_t good = (uint32_t)valid / s->bytes;
    if (!is_inside(m, e, &write, lane, to, count) || !is_inside(m, e, &read, lane, from, good) ||
        !note(m, e, &read, lane, from, good) || !note(m, e, &write, lane, to, count))
        return;
    memset(m->places[write.mem].flight + to, 1, count);
    AU_PUSH(m->arena, e->flights, e->flight_count, e->flight_capacity,
            ((AuFlight){s, to, from, lane, good, e->committed}));
}

static void arrive(AuMachine *m, AuExecutor *e, const AuFlight *f)
{
    const AuStep *s = f->step;
    const AuInstr *in = &m->k->instrs[s->instr];
    const AuStep write = side(s, AU_K_STORE, in->mem.i);
    const uint32_t count = (uint32_t)s->imm / s->bytes;
    char *to = m->places[write.mem].data + (uint64_t)f->to * s->bytes;
    memset(m->places[write.mem].flight + f->to, 0, count);
    if (!note(m, e, &write, f->lane, f->to, count)) return;
    memset(to, 0, (size_t)s->imm);
    if (f->good)
        memcpy(to, m->places[in->also[0].i].data + (uint64_t)f->from * s->bytes,
               (size_t)f->good * s->bytes);
}

void kernel_step_copy(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (s->op == AU_K_COPY_COMMIT) {
        e->committed++;
        return;
    }
    if (s->op == AU_K_COPY_ASYNC) {
        for (uint32_t l = 0; l < m->k->lanes && !m->why; l++)
            if (!s->c || e->frame[s->c + l]) issue(m, e, s, l);
        return;
    }
    uint32_t left = 0;
    for (uint32_t n = 0; n < e->flight_count && !m->why; n++) {
        const AuFlight f = e->flights[n];
        if (f.group + s->imm < e->committed)
            arrive(m, e, &f);
        else
            e->flights[left++] = f;
    }
    e->flight_count = left;
}
