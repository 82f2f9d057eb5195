/* interpret.c - runs a kernel: every block, executor and lane, in an order drawn from the seed.
 * In:  a kernel that kernel_verify accepts, one slot and buffer per argument.
 * Out: the buffers as the kernel leaves them, or the first thing that a device would do silently
 * wrong, with its place. Blocks run one after another in random order; the executors of a block
 * take turns of random length between barriers. Races do not depend on that order, since what is
 * checked is whether something orders two accesses (shadow.h). */
#include "agents.h"

#include <string.h>

uint32_t kernel_draw(AuMachine *m, uint32_t below)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((m->random >> 32) * below >> 32);
}

void kernel_fail(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                 const char *format, ...)
{
    if (m->why) return;
    AuText text = {.arena = m->arena};
    va_list arguments;
    va_start(arguments, format);
    au_text_vadd(&text, format, arguments);
    va_end(arguments);
    if (s) {
        au_text_add(&text, "; in '");
        kernel_print_instr(m->k, (AuVal){s->instr}, &text);
        au_text_add(&text, "', lane %u of executor %u, block (%u, %u, %u)",
                    lane == AU_MANY ? 0 : lane, e->index, m->block[0], m->block[1], m->block[2]);
    }
    m->why = au_text_str(&text);
}

/* ---- preparing */

/* A slot for each value of the tree, in its order. */
static uint64_t place_region(AuMachine *m, uint32_t first, uint64_t at, bool *agents)
{
    for (uint32_t i = first; i; i = m->k->instrs[i].next) {
        const AuInstr *in = &m->k->instrs[i];
        if (in->type.scalar != AU_VOID) {
            m->slot[i] = (uint32_t)at;
            at += ((uint64_t)m->k->lanes * in->type.width * kernel_scalar_bytes(in->type.scalar) +
                   63) &
                  ~(uint64_t)63;
            const bool of_place = kernel_op_info(in->op)->flags & AU_KF_PLACE;
            if (!in->count && !of_place && at <= UINT32_MAX)
                AU_PUSH(m->arena, m->given, m->given_count, m->given_capacity, i);
        }
        if (in->op == AU_K_MMA && !m->matrices[in->imm])
            m->matrices[in->imm] = kernel_matrix_places(m->arena, (AuMatrix)in->imm);
        m->increments = m->increments || in->op == AU_K_ATOMIC_INC;
        m->copies = m->copies || in->op == AU_K_COPY_ASYNC;
        *agents = *agents || kernel_op_info(in->op)->flags & AU_KF_AGENTS;
        at = place_region(m, in->other, place_region(m, in->body, at, agents), agents);
    }
    return at;
}

static void place_values(AuMachine *m)
{
    m->matrices = AU_NEW_ARRAY(m->arena, const AuMatrixPlaces *, kernel_matrix_count());
    m->slot = AU_NEW_ARRAY(m->arena, uint32_t, m->k->instr_count);
    bool agents = false;
    const uint64_t bytes = place_region(m, m->k->body, 64, &agents); /* 0 means none */
    m->frame_bytes = (uint32_t)bytes;
    if (bytes > UINT32_MAX)
        kernel_fail(m, NULL, NULL, 0, "limits: the values of an executor need more than 4 GiB");
    if (agents) m->agents = agents_new(m);
}

static void trace(const AuMachine *m, AuRunMemory *p)
{
    if (m->agents)
        p->marks = AU_NEW_ARRAY(m->arena, AuMarks, p->count);
    else
        p->shadow = AU_NEW_ARRAY(m->arena, AuShadow, p->count);
}

static void place_memory(AuMachine *m, uint32_t n)
{
    const AuMemory *mem = &m->k->mems[n];
    AuRunMemory *p = &m->places[n];
    if (mem->space == AU_GLOBAL) {
        const AuKBuffer *b = &m->run->buffers[mem->arg];
        *p = (AuRunMemory){.data = b->data, .count = b->count, .given = b->initialised};
        if ((mem->writes || !b->initialised) && !m->run->bounds_alone) trace(m, p);
        return;
    }
    if (mem->space == AU_MATRIX) {
        p->count = (uint64_t)mem->count * m->k->warps;
        p->data = au_alloc(m->arena,
                           p->count * mem->rows * mem->columns * kernel_scalar_bytes(mem->scalar));
        p->written = AU_NEW_ARRAY(m->arena, uint32_t, p->count);
        return;
    }
    const uint64_t copies = mem->space == AU_SHARED || mem->space == AU_TENSOR ? 1
                            : mem->space == AU_EXEC                            ? m->k->warps
                                                    : m->k->warps * m->k->lanes;
    p->count = mem->count * copies;
    p->data = au_alloc(m->arena, p->count * kernel_scalar_bytes(mem->scalar));
    if (mem->space == AU_LANE)
        p->written = AU_NEW_ARRAY(m->arena, uint32_t, p->count);
    else
        trace(m, p);
    if (mem->space == AU_SHARED && m->copies) p->flight = AU_NEW_ARRAY(m->arena, uint8_t, p->count);
}

static void fill(const AuMachine *m, char *frame, uint32_t i, uint64_t bits)
{
    const AuKType t = m->k->instrs[i].type;
    const uint32_t bytes = kernel_scalar_bytes(t.scalar);
    for (uint32_t n = 0; n < m->k->lanes * t.width; n++)
        memcpy(frame + m->slot[i] + n * bytes, &bits, bytes);
}

/* Values that no step computes. Those of blocks are filled again for each block. */
static void fill_given(const AuMachine *m, const AuExecutor *e, bool first)
{
    for (uint32_t n = 0; n < m->given_count; n++) {
        const uint32_t i = m->given[n];
        const AuInstr *in = &m->k->instrs[i];
        if (in->op == AU_K_BLOCK) fill(m, e->frame, i, m->block[in->imm]);
        if (!first) continue;
        if (in->op == AU_K_CONST) fill(m, e->frame, i, kernel_const_bits(in));
        if (in->op == AU_K_ARG) fill(m, e->frame, i, m->run->slots[in->imm]);
        if (in->op == AU_K_BLOCKS) fill(m, e->frame, i, m->run->grid[in->imm]);
        if (in->op == AU_K_WARP) fill(m, e->frame, i, e->index);
        if (in->op == AU_K_ELECT) {
            memset(e->frame + m->slot[i], 0, m->k->lanes);
            e->frame[m->slot[i] + e->elected] = 1;
        }
        if (in->op == AU_K_LANE)
            for (uint32_t l = 0; l < m->k->lanes; l++) memcpy(e->frame + m->slot[i] + l * 4, &l, 4);
    }
}

/* ---- running */

static int32_t lane_of(const AuExecutor *e, uint32_t slot, uint32_t lane)
{
    return ((const int32_t *)(const void *)(e->frame + slot))[lane];
}

static bool is_uniform(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t slot,
                       uint32_t bytes)
{
    for (uint32_t l = 1; l < m->k->lanes; l++)
        if (memcmp(e->frame + slot, e->frame + slot + l * bytes, bytes) != 0) {
            kernel_fail(m, e, s, l, "divergence: lanes of one executor disagree on the way to go");
            return false;
        }
    return true;
}

static void begin_loop(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (!is_uniform(m, e, s, s->a, 4) || !is_uniform(m, e, s, s->b, 4)) return;
    const int32_t low = lane_of(e, s->a, 0), high = lane_of(e, s->b, 0);
    if (s->imm > 0 ? low < high : low > high)
        memcpy(e->frame + s->result, e->frame + s->a, m->k->lanes * 4);
    else
        e->pc = s->jump;
}

/* A jump, or the end of a loop's body. */
static void end_body(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (m->k->instrs[s->instr].op == AU_K_IF) {
        e->pc = s->jump;
        return;
    }
    if (m->k->instrs[s->instr].op == AU_K_MATRIX_EACH) {
        kernel_end_each(m, e, s);
        return;
    }
    const int64_t next = lane_of(e, s->result, 0) + s->imm, high = lane_of(e, s->b, 0);
    if (s->imm > 0 ? next >= high : next <= high) return;
    int32_t *variable = (int32_t *)(void *)(e->frame + s->result);
    for (uint32_t l = 0; l < m->k->lanes; l++) variable[l] = (int32_t)next;
    e->pc = s->jump;
}

static void barrier(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (m->agents)
        agents_barrier(m, e, s);
    else if (s->imm != 0)
        e->x++;
    else if (m->k->warps > 1)
        e->waits = true;
    else
        kernel_clock_barrier(&m->clock);
}

static void step(AuMachine *m, AuExecutor *e)
{
    const AuStep *s = &m->steps[e->pc++];
    switch ((int)s->op) {
    case AU_K_NONE: end_body(m, e, s); return;
    case AU_K_FOR: begin_loop(m, e, s); return;
    case AU_K_IF:
        if (is_uniform(m, e, s, s->a, 1) && !e->frame[s->a]) e->pc = s->jump;
        return;
    case AU_K_BARRIER: barrier(m, e, s); return;
    case AU_K_GRID_NEXT:
    case AU_K_GRID_WAIT: return; /* the kernels before have ended */
    case AU_K_PREFETCH: return;
    case AU_K_LOAD:
    case AU_K_STORE:
    case AU_K_ATOMIC_ADD:
    case AU_K_ATOMIC_INC: kernel_step_memory(m, e, s); return;
    case AU_K_MATMUL: kernel_step_matmul(m, e, s); return;
    case AU_K_MMA: kernel_step_mma(m, s, e->frame); return;
    case AU_K_LOAD_MATRIX:
    case AU_K_STORE_MATRIX: kernel_step_rows(m, e, s); return;
    case AU_K_BLOCK_GATHER:
    case AU_K_BLOCK_LOAD: kernel_step_block(m, e, s); return;
    case AU_K_COPY_ASYNC:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: kernel_step_copy(m, e, s); return;
    case AU_K_MATRIX_FILL:
    case AU_K_MATRIX_LOAD:
    case AU_K_MATRIX_STORE:
    case AU_K_MATRIX_BLOCK_LOAD:
    case AU_K_MATRIX_BLOCK_GATHER:
    case AU_K_MATRIX_MUL:
    case AU_K_MATRIX_MAP:
    case AU_K_MATRIX_SCALE:
    case AU_K_MATRIX_ANY:
    case AU_K_MATRIX_REDUCE:
    case AU_K_MATRIX_REDUCE_COLUMNS:
    case AU_K_MATRIX_CVT: kernel_step_opaque(m, e, s); return;
    case AU_K_MATRIX_EACH: kernel_begin_each(m, e, s); return;
    case AU_K_MATRIX_ROW:
    case AU_K_MATRIX_COLUMN:
    case AU_K_MATRIX_GET:
    case AU_K_MATRIX_PUT: kernel_step_place(m, e, s); return;
    case AU_K_SHUFFLE:
    case AU_K_SHUFFLE_XOR:
    case AU_K_BOTH:
    case AU_K_ANY: kernel_step_lanes(m, s, e->frame); return;
    }
    if (m->agents && kernel_op_info(s->op)->flags & AU_KF_AGENTS)
        agents_step(m, e, s);
    else
        kernel_step_value(s, e->frame);
}

/* Everybody waits: at one barrier, or nobody will ever go on. */
static void pass_barrier(AuMachine *m)
{
    AuExecutor *first = NULL;
    for (uint32_t w = 0; w < m->k->warps; w++) {
        AuExecutor *e = &m->executors[w];
        if (!first) first = e;
        if (e->ended != first->ended || e->pc != first->pc) {
            const AuExecutor *waits = e->ended ? first : e;
            kernel_fail(m, waits, &m->steps[waits->pc - 1], 0,
                        "divergence: executor %u does not come to this barrier",
                        waits == e ? first->index : e->index);
            return;
        }
    }
    for (uint32_t w = 0; w < m->k->warps; w++) m->executors[w].waits = false;
    kernel_clock_barrier(&m->clock);
}

/* One executor, for a while: a few steps or very many, so that all kinds of overtaking occur. */
void kernel_take_turn(AuMachine *m, AuExecutor *e)
{
    uint32_t turns =
        m->k->warps == 1 ? UINT32_MAX : 1 + kernel_draw(m, kernel_draw(m, 4) ? 64 : 4096);
    while (turns-- && !e->waits && !m->why) {
        if (e->pc == m->step_count) {
            e->ended = true;
            if (e->flight_count)
                kernel_fail(m, e, e->flights[0].step, e->flights[0].lane,
                            "in flight: nobody waits for a copy");
            return;
        }
        step(m, e);
    }
}

static void run_block(AuMachine *m, bool first)
{
    const uint32_t warps = m->k->warps;
    kernel_clock_block(&m->clock);
    for (uint32_t w = 0; w < warps; w++) {
        AuExecutor *e = &m->executors[w];
        e->pc = e->x = 0;
        e->flight_count = e->committed = 0;
        e->ended = e->waits = false;
        fill_given(m, e, first);
    }
    if (m->agents) {
        agents_run_block(m);
        return;
    }
    while (!m->why) {
        uint32_t ready = 0, ended = 0;
        for (uint32_t w = 0; w < warps; w++) {
            ready += !m->executors[w].waits && !m->executors[w].ended;
            ended += m->executors[w].ended;
        }
        if (ended == warps) return;
        if (!ready) pass_barrier(m);
        for (uint32_t w = 0, n = ready ? kernel_draw(m, ready) : 0; ready && w < warps; w++) {
            if (m->executors[w].waits || m->executors[w].ended || n--) continue;
            kernel_take_turn(m, &m->executors[w]);
            break;
        }
    }
}

static void check_written(AuMachine *m)
{
    for (uint32_t n = 1; n < m->k->mem_count && !m->why; n++) {
        const AuRunMemory *p = &m->places[n];
        if (m->k->mems[n].space != AU_GLOBAL || p->given || !m->k->mems[n].writes) continue;
        for (uint64_t i = 0; i < p->count && !m->why; i++)
            if (p->marks ? !p->marks[i].write.kind : !p->shadow[i].write.epoch)
                kernel_fail(m, NULL, NULL, 0, "unwritten: @%s[%llu] of %llu is never written",
                            m->k->mems[n].name, (unsigned long long)i,
                            (unsigned long long)p->count);
    }
}

static void prepare(AuMachine *m, uint32_t blocks)
{
    place_values(m);
    if (m->why) return;
    m->places = AU_NEW_ARRAY(m->arena, AuRunMemory, m->k->mem_count);
    for (uint32_t n = 1; n < m->k->mem_count; n++) place_memory(m, n);
    m->executors = AU_NEW_ARRAY(m->arena, AuExecutor, m->k->warps);
    for (uint32_t w = 0; w < m->k->warps; w++)
        m->executors[w] = (AuExecutor){.frame = au_alloc(m->arena, m->frame_bytes),
                                       .index = w,
                                       .elected = (uint32_t)(m->run->seed + w) % m->k->lanes};
    if (m->agents) agents_prepare(m);
    kernel_flatten(m, m->k->body);
    m->clock = kernel_clock(m->arena, blocks, m->increments);
}

bool kernel_run(const AuKernel *k, const AuKRun *run, AuArena *scratch, const char **why)
{
    AuMachine m = {.k = k, .run = run, .arena = scratch, .random = run->seed * 2 + 1};
    const uint64_t blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2];
    if (blocks > 1u << 28)
        kernel_fail(&m, NULL, NULL, 0, "limits: %llu blocks", (unsigned long long)blocks);
    else
        prepare(&m, (uint32_t)blocks);
    uint32_t *order = m.why ? NULL : AU_NEW_ARRAY(scratch, uint32_t, blocks);
    for (uint32_t n = 0; !m.why && n < blocks; n++) { /* a shuffle from the inside out */
        const uint32_t other = kernel_draw(&m, n + 1);
        order[n] = order[other];
        order[other] = n;
    }
    for (uint32_t n = 0; !m.why && n < blocks; n++) {
        m.block[0] = order[n] % run->grid[0];
        m.block[1] = order[n] / run->grid[0] % run->grid[1];
        m.block[2] = order[n] / run->grid[0] / run->grid[1];
        run_block(&m, n == 0);
    }
    if (!m.why && run->check_all_written) check_written(&m);
    *why = m.why;
    return m.why == NULL;
}
