/* interpret_bulk.c - copies of boxes and of rows of bytes between shared and global memory, which go
 * on by themselves. The accesses are noted when a copy is issued, as those of an actor of its own;
 * data move when it ends, which is at any moment up to the wait that covers it. */
#include "agents.h"

#include <inttypes.h>
#include <string.h>

static bool is_load(const AuStep *s) { return s->op == AU_K_TMA_LOAD || s->op == AU_K_BULK_LOAD; }
static bool is_sum(const AuStep *s)
{
    return s->op == AU_K_TMA_REDUCE_ADD || s->op == AU_K_BULK_REDUCE_ADD;
}
static bool is_box(const AuStep *s) { return kernel_op_info(s->op)->flags & AU_KF_COORDS; }

/* ---- the elements of a copy */

static uint64_t elements(const AuBox *b)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < b->rank; d++) n *= b->count[d];
    return n;
}

/* Element [n] of the box in the tensor; false: outside. */
static bool place_of(const AuBox *b, uint64_t n, int64_t *at)
{
    *at = b->base;
    for (uint32_t d = 0; d < b->rank; n /= b->count[d++]) {
        const int64_t c = b->start[d] + (int64_t)(n % b->count[d]);
        if (c < 0 || c >= b->size[d]) return false;
        *at += c * b->stride[d];
    }
    return true;
}

static bool touch_all(AuMachine *m, const AuCopy *c, const AuActor *shared, const AuActor *global)
{
    const bool load = is_load(c->step);
    for (uint64_t n = 0; n < elements(&c->box); n++) {
        const int64_t here = c->shared_at + (int64_t)n;
        int64_t there;
        const bool inside = place_of(&c->box, n, &there);
        if (inside && (there < 0 || (uint64_t)there >= m->places[c->global].count)) {
            kernel_fail(m, c->e, c->step, c->lane,
                        "bounds: the copy touches @%s[%" PRId64 "] of %" PRIu64 " elements",
                        m->k->mems[c->global].name, there, m->places[c->global].count);
            return false;
        }
        if ((load || inside) &&
            !agents_touch(m, c->e, c->step, shared,
                          (AuTouch){c->shared, (uint64_t)here, here, load, false}))
            return false;
        if (inside &&
            !agents_touch(m, c->e, c->step, global,
                          (AuTouch){c->global, (uint64_t)there, there, !load, is_sum(c->step)}))
            return false;
    }
    return true;
}

/* ---- issue */

static AuBox box_of(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                    uint32_t first)
{
    const AuMap *map = &m->k->maps[s->imm];
    const AuKMap *given = &m->run->maps[s->imm];
    AuBox b = {.rank = kernel_coordinates(map)};
    for (uint32_t d = 0; d < map->rank; d++) {
        b.start[d] = agents_operand(m, e, s, first + d, lane);
        b.count[d] = map->box[d];
        b.size[d] = given->size[d];
        b.stride[d] = d ? given->stride[d] : 1;
    }
    if (map->cut) { /* once more, one longer, from as far before the tensor as that has rows */
        const int64_t rows = b.size[map->cut], stride = b.stride[map->cut];
        b.start[map->rank] = agents_operand(m, e, s, first + map->rank, lane);
        b.count[map->rank] = 1;
        b.size[map->rank] = rows + 1;
        b.stride[map->rank] = stride;
        b.base = -rows * stride;
    }
    return b;
}

static AuBox row_of(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                    uint32_t place, uint32_t bytes, uint32_t global)
{
    const uint32_t width = kernel_scalar_bytes(m->k->mems[global].scalar);
    const int64_t at = agents_operand(m, e, s, place, lane),
                  size = agents_operand(m, e, s, bytes, lane);
    if (size <= 0 || size % 16 || at * width % 16)
        kernel_fail(m, e, s, lane,
                    "bounds: %" PRId64 " bytes at @%s[%" PRId64 "] are no multiples of 16", size,
                    m->k->mems[global].name, at);
    return (AuBox){.rank = 1,
                   .start = {at},
                   .count = {(uint32_t)(size > 0 ? size : 0) / width},
                   .size = {INT64_MAX},
                   .stride = {1}};
}

/* Operands: of loads shared, global, barrier, [bytes]; of stores global, shared, [bytes]; then the
 * mask. */
static AuCopy copy_of(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const bool load = is_load(s), box = is_box(s);
    const uint32_t rank = box ? kernel_coordinates(&m->k->maps[s->imm]) : 1,
                   global_first = load ? 1 : 0, shared_first = load ? 0 : rank, after = 1 + rank;
    AuCopy c = {.step = s,
                .e = e,
                .lane = lane,
                .shared = load ? in->mem.i : in->also[0].i,
                .global = load ? in->also[0].i : in->mem.i,
                .shared_at = agents_operand(m, e, s, shared_first, lane)};
    c.box = box ? box_of(m, e, s, lane, global_first)
                : row_of(m, e, s, lane, global_first, after + (load ? 1 : 0), c.global);
    c.bytes = (int64_t)elements(&c.box) * kernel_scalar_bytes(m->k->mems[c.global].scalar);
    if (load && !m->why)
        c.signals =
            agents_phases(m, e, s, in->also[1].i, agents_operand(m, e, s, after, lane), lane);
    return c;
}

/* The unit leaves out what is outside of a tensor by vectors of 16 bytes: rows that end inside of one are written beyond their end. */
static bool cuts_vectors(const AuMachine *m, const AuCopy *c)
{
    const AuBox *b = &c->box;
    const int64_t bytes = b->size[0] * kernel_scalar_bytes(m->k->mems[c->global].scalar);
    return is_box(c->step) && !is_load(c->step) && bytes % 16 &&
           b->start[0] + b->count[0] > b->size[0];
}

/* What is cut begins before its tensor, and a box of which nothing is inside was seen to be read from there (H100: an illegal address). */
static bool is_outside_of_cut(const AuMachine *m, const AuCopy *c)
{
    const uint32_t cut = is_box(c->step) ? m->k->maps[c->step->imm].cut : 0;
    return cut && (c->box.start[cut] >= c->box.size[cut] ||
                   c->box.start[cut] + (int64_t)c->box.count[cut] <= 0);
}

/* The unit takes a store that begins before a tensor for an illegal instruction (seen on an H100); loads have what the map fills in. */
static bool begins_before(const AuCopy *c)
{
    bool before = false;
    for (uint32_t d = 0; d < c->box.rank; d++) before |= c->box.start[d] < 0;
    return before && is_box(c->step) && !is_load(c->step);
}

static bool is_inside(AuMachine *m, const AuCopy *c)
{
    const AuMemory *mem = &m->k->mems[c->shared];
    const int64_t line = mem->swizzle      ? 8 * (int64_t)mem->swizzle
                         : is_box(c->step) ? 128
                                           : 16,
                  count = (int64_t)elements(&c->box);
    if (c->shared_at < 0 || c->shared_at + count > (int64_t)mem->count)
        kernel_fail(m, c->e, c->step, c->lane,
                    "bounds: @%s[%" PRId64 "] and %" PRId64 " elements of %u", mem->name,
                    c->shared_at, count, mem->count);
    else if (c->shared_at * kernel_scalar_bytes(mem->scalar) % line)
        kernel_fail(m, c->e, c->step, c->lane,
                    "bounds: @%s[%" PRId64 "] is not aligned to %" PRId64 " bytes", mem->name,
                    c->shared_at, line);
    else if (is_outside_of_cut(m, c))
        kernel_fail(m, c->e, c->step, c->lane,
                    "bounds: nothing of a box of map %s is inside, which is cut",
                    m->k->maps[c->step->imm].name);
    else if (begins_before(c))
        kernel_fail(m, c->e, c->step, c->lane, "bounds: a box of map %s is stored from below 0 on",
                    m->k->maps[c->step->imm].name);
    else if (cuts_vectors(m, c))
        kernel_fail(m, c->e, c->step, c->lane,
                    "bounds: rows of map %s end inside of 16 bytes, which are written whole",
                    m->k->maps[c->step->imm].name);
    return !m->why;
}

bool agents_units_know(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                       const AuPhases *b)
{
    const AuActor actor = agents_lane(m, e, lane);
    if (b->fence.block == m->agents->block &&
        (b->fence.exec == e->index || clocks_after(&actor, &b->fence, true) == AU_NO_CONFLICT))
        return true;
    kernel_fail(m, e, s, lane, "fence: no fence_init lies between mbar_init and %s to the barrier",
                s->op == AU_K_TENSOR_COMMIT ? "products that report" : "a copy that reports");
    return false;
}

static void issue(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane)
{
    AuAgents *agents = m->agents;
    AuCopy c = copy_of(m, e, s, lane);
    if (m->why || !is_inside(m, &c) || (c.signals && !agents_units_know(m, e, s, lane, c.signals)))
        return;
    AuActor shared = agents_lane(m, e, lane), global;
    shared.stamp.kind = AU_BY_COPY;
    shared.unit = true;
    global = shared;
    c.shared_number = shared.stamp.time = agents->copy_number++;
    c.global_number = global.stamp.time = agents->copy_number++;
    c.group = agents_of(m, e)->committed[lane];
    if (!touch_all(m, &c, &shared, &global)) return;
    AU_PUSH(m->arena, agents->copies, agents->copy_count, agents->copy_capacity, c);
    agents->copies_pending++;
}

/* ---- the end */

static void add(AuScalar scalar, char *to, const char *from)
{
    uint16_t x, y;
    if (scalar == AU_F32) {
        float a, b;
        memcpy(&a, to, sizeof a);
        memcpy(&b, from, sizeof b);
        a += b;
        memcpy(to, &a, sizeof a);
        return;
    }
    memcpy(&x, to, sizeof x);
    memcpy(&y, from, sizeof y);
    x = scalar == AU_F16 ? kernel_to_f16(kernel_from_f16(x) + kernel_from_f16(y))
                         : kernel_to_bf16(kernel_from_bf16(x) + kernel_from_bf16(y));
    memcpy(to, &x, sizeof x);
}

/* What a load brings for elements outside of the tensor. */
static void fill(const AuMachine *m, const AuCopy *c, char *to, uint32_t bytes)
{
    const AuScalar scalar = m->k->mems[c->global].scalar;
    const bool nan = is_box(c->step) && m->k->maps[c->step->imm].nan;
    const uint32_t bits = !nan                ? 0
                          : scalar == AU_F32  ? 0x7fffffff
                          : scalar == AU_BF16 ? 0x7fff
                                              : 0x7e00;
    memcpy(to, &bits, bytes);
}

static void move(AuMachine *m, const AuCopy *c)
{
    const AuScalar scalar = m->k->mems[c->global].scalar;
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    for (uint64_t n = 0; n < elements(&c->box); n++) {
        int64_t at;
        const bool inside = place_of(&c->box, n, &at);
        char *here = m->places[c->shared].data + (uint64_t)(c->shared_at + (int64_t)n) * bytes,
             *there = inside ? m->places[c->global].data + (uint64_t)at * bytes : NULL;
        if (is_load(c->step) && !there)
            fill(m, c, here, bytes);
        else if (is_load(c->step))
            memcpy(here, there, bytes);
        else if (there && is_sum(c->step))
            add(scalar, there, here);
        else if (there)
            memcpy(there, here, bytes);
    }
}

void agents_end_copy(AuMachine *m, uint32_t which)
{
    AuAgents *agents = m->agents;
    uint32_t n = 0;
    while (agents->copies[n].done || which--) n++;
    AuCopy *c = &agents->copies[n];
    move(m, c);
    c->done = true;
    agents->copies_pending--;
    if (c->signals) {
        c->signals->bytes -= c->bytes;
        clocks_add_copy(m->arena, &c->signals->current, c->shared_number);
        clocks_add_copy(m->arena, &c->signals->current, c->global_number);
        agents_settle(m, c->signals);
    }
    for (uint32_t w = 0; w < m->k->warps; w++)
        if (agents->of[w].wait == AU_FOR_COPIES) m->executors[w].waits = false; /* looks again */
}

/* Of all groups but the latest [left] of each lane. */
static void wait_for(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    AuAgents *agents = m->agents;
    AuAgent *a = agents_of(m, e);
    const int64_t left = s->imm & 15;
    const bool only_read = s->imm & 16;
    for (uint32_t n = 0; n < agents->copy_count; n++) {
        const AuCopy *c = &agents->copies[n];
        if (c->e != e || c->signals || c->done || c->group + left >= a->committed[c->lane])
            continue;
        a->wait = AU_FOR_COPIES;
        e->waits = true;
        e->pc--; /* once more when one is done */
        return;
    }
    a->wait = AU_WAITS_NOT;
    for (uint32_t n = 0; n < agents->copy_count; n++) {
        AuCopy *c = &agents->copies[n];
        if (c->e != e || c->signals || c->group + left >= a->committed[c->lane]) continue;
        if (!c->read_known) clocks_learn(m->arena, &a->clocks, c->shared_number, (uint16_t)c->lane);
        c->read_known = true;
        if (only_read || c->known) continue;
        clocks_learn(m->arena, &a->clocks, c->global_number, (uint16_t)c->lane);
        c->known = true;
    }
}

void agents_step_copy(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const uint32_t count = m->k->instrs[s->instr].count, mask = is_box(s)    ? count - 1
                                                                : is_load(s) ? 4
                                                                             : 3;
    if (s->op == AU_K_BULK_WAIT) {
        wait_for(m, e, s);
        return;
    }
    for (uint32_t l = 0; l < m->k->lanes && !m->why; l++) {
        if (s->op == AU_K_BULK_COMMIT)
            agents_of(m, e)->committed[l]++;
        else if (agents_is_active(m, e, s, mask, l))
            issue(m, e, s, l);
    }
}

/* ---- blocks */

static bool is_known(const AuMachine *m, const AuCopy *c)
{
    if (!c->signals) return c->read_known;
    for (uint32_t w = 0; w < m->k->warps; w++)
        if (clocks_has_copy(&m->agents->of[w].clocks.known, c->shared_number)) return true;
    return false;
}

void agents_end_copies(AuMachine *m)
{
    AuAgents *agents = m->agents;
    for (uint32_t n = 0; n < agents->copy_count && !m->why; n++)
        if (!is_known(m, &agents->copies[n]))
            kernel_fail(m, agents->copies[n].e, agents->copies[n].step, agents->copies[n].lane,
                        "in flight: nobody waits for a copy");
    while (agents->copies_pending && !m->why) agents_end_copy(m, 0); /* written after the end */
    agents->copy_count = agents->copy_number = 0;
    for (uint32_t w = 0; w < m->k->warps; w++)
        memset(agents->of[w].committed, 0, m->k->lanes * sizeof *agents->of[w].committed);
}
