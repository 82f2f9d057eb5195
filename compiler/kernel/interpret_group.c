/* interpret_group.c - products of a group of executors, which go on by themselves. Each executor has
 * the rows of the sums that the instruction gives it; it reads operands and writes sums when its
 * part ends, which is at any moment up to the wait that covers it, in the order of issue. */
#include "agents.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_COLUMNS = 256, MOST_DEPTH = 32 };

typedef struct Shape { /* of a product, for one executor */
    AuGroupOp op;
    AuFragment c;
    uint32_t first, rows, columns, depth, width; /* width: sums of a lane */
} Shape;

static Shape shape_of(const AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    Shape x = {.op = kernel_group_matrix((AuGroupMatrix)s->imm)};
    uint32_t column;
    x.columns = (uint32_t)kernel_at(m->k, kernel_operand(m->k, in, 4))->imm;
    machine_group_fragment(x.op.atom, TILE_C, (int32_t)x.columns, &x.c);
    machine_fragment_at(&x.c, e->index % m->k->group << x.c.lane_bits, 0, &x.first, &column);
    x.rows = (uint32_t)x.op.atom->m / m->k->group;
    x.depth = (uint32_t)x.op.atom->k;
    x.width = x.rows * x.columns / m->k->lanes;
    return x;
}

/* ---- operands in shared and tensor memory */

static float number(const AuMachine *m, uint32_t mem, uint64_t at)
{
    uint16_t bits;
    memcpy(&bits, m->places[mem].data + at * sizeof bits, sizeof bits);
    return m->k->mems[mem].scalar == AU_F16 ? kernel_from_f16(bits) : kernel_from_bf16(bits);
}

AuOperand agents_matrix(const AuMachine *m, const AuProduct *x, const AuGroupOp *op, bool b)
{
    const AuInstr *in = &m->k->instrs[x->step->instr];
    const AuMemory *mem = &m->k->mems[in->also[b].i];
    return (AuOperand){.mem = in->also[b].i,
                       .at = b ? x->b_at : x->a_at,
                       .stride = kernel_at(m->k, kernel_operand(m->k, in, b ? 6 : 5))->imm,
                       .line = mem->space == AU_TENSOR
                                   ? mem->columns
                                   : mem->swizzle / kernel_scalar_bytes(mem->scalar),
                       .turned = b ? op->b_turned : op->a_turned};
}

static int64_t element_at(const AuOperand *o, int64_t r, int64_t k)
{
    return o->turned ? o->at + r / o->line * o->stride + k * o->line + r % o->line
                     : o->at + r * o->line + k;
}

float agents_matrix_element(const AuMachine *m, const AuOperand *o, int64_t r, int64_t k)
{
    return number(m, o->mem, (uint64_t)element_at(o, r, k));
}

bool agents_touch_matrix(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuOperand *o,
                         int64_t first, int64_t count, int64_t depth, const AuActor *actor)
{
    const AuMemory *mem = &m->k->mems[o->mem];
    const int64_t inside = o->at % o->line;
    const int64_t rows = mem->space == AU_TENSOR ? AU_TENSOR_ROWS : 8;
    if (o->at < 0 || o->at / o->line % rows ||
        (o->turned ? inside != 0 : inside + depth > o->line)) {
        kernel_fail(m, e, s, 0, "bounds: no operand begins at @%s[%" PRId64 "]", mem->name, o->at);
        return false;
    }
    for (int64_t r = first; r < first + count; r++)
        for (int64_t k = 0; k < depth; k++) {
            const int64_t at = element_at(o, r, k);
            if (at >= (int64_t)mem->count) {
                kernel_fail(m, e, s, 0, "bounds: the operand ends beyond @%s of %u elements",
                            mem->name, mem->count);
                return false;
            }
            if (!agents_touch(m, e, s, actor, (AuTouch){o->mem, (uint64_t)at, at, false, false}))
                return false;
        }
    return true;
}

/* ---- registers */

bool agents_use_register(AuMachine *m, const AuExecutor *e, const AuStep *s, int64_t index,
                         bool store)
{
    AuHeld *h = agents_held(m, e, s->mem, index);
    if (h->written || (store && h->read)) {
        const bool loaded = h->written == AU_BY_TENSOR_LOAD;
        kernel_fail(m, e, s, 0,
                    "in flight: @%s[%" PRId64 "] is %s by a %s, and no %s "
                    "has named it since",
                    m->k->mems[s->mem].name, index, h->written ? "written" : "read",
                    loaded ? "load" : "product", loaded ? "tensor_wait" : "wgmma_wait");
        return false;
    }
    h->touched = true;
    return true;
}

/* Registers that a product takes as operand A or as sums. */
static bool take_registers(AuMachine *m, const AuExecutor *e, const AuProduct *x, uint32_t mem,
                           int64_t at, uint32_t count, bool sums)
{
    for (uint32_t n = 0; n < count; n++) {
        const AuHeld *h = agents_held(m, e, mem, at + n);
        const char *name = m->k->mems[mem].name;
        const bool chained = sums && h->written && h->base == at && h->count == count;
        if ((h->written && !chained) || (sums && h->read))
            kernel_fail(m, e, x->step, 0, "in flight: @%s[%" PRId64 "] is %s by another product",
                        name, at + n, h->written ? "written" : "read");
        else if (h->touched)
            kernel_fail(m, e, x->step, 0,
                        "fence: lanes have used @%s[%" PRId64 "], and no wgmma_fence lies between",
                        name, at + n);
        for (uint32_t l = 0; !m->why && !(sums && !x->add) && l < m->k->lanes; l++)
            if (m->places[mem].written[agents_register(m, e, mem, at + n, l)] != m->clock.begin)
                kernel_fail(m, e, x->step, l,
                            "uninitialised: @%s[%" PRId64 "] is read before it is written", name,
                            at + n);
        if (m->why) return false;
    }
    return true;
}

static void hold(AuMachine *m, const AuExecutor *e, uint32_t mem, int64_t at, uint32_t count,
                 uint32_t number, bool sums)
{
    for (uint32_t n = 0; n < count; n++) {
        AuHeld *h = agents_held(m, e, mem, at + n);
        if (!sums) {
            h->read = number;
            continue;
        }
        *h = (AuHeld){.written = number, .base = at, .count = count};
        for (uint32_t l = 0; l < m->k->lanes; l++)
            m->places[mem].written[agents_register(m, e, mem, at + n, l)] = m->clock.begin;
    }
}

/* ---- issue */

static bool touch_all(AuMachine *m, AuExecutor *e, const AuProduct *x, const Shape *shape)
{
    const AuInstr *in = &m->k->instrs[x->step->instr];
    const AuAgent *a = agents_of(m, e);
    AuActor actor = agents_lane(m, e, AU_LANES_ALL);
    actor.stamp.kind = AU_BY_PRODUCT;
    actor.stamp.time = a->product_count;
    actor.unit = true;
    const AuOperand left = agents_matrix(m, x, &shape->op, false),
                    right = agents_matrix(m, x, &shape->op, true);
    const bool in_lanes = m->k->mems[left.mem].space == AU_LANE;
    const uint32_t part = shape->rows * shape->depth / m->k->lanes;
    if (!take_registers(m, e, x, in->mem.i, x->c_at, shape->width, true) ||
        (in_lanes ? !take_registers(m, e, x, left.mem, x->a_at, part, false)
                  : !agents_touch_matrix(m, e, x->step, &left, shape->first, shape->rows,
                                         shape->depth, &actor)) ||
        !agents_touch_matrix(m, e, x->step, &right, 0, shape->columns, shape->depth, &actor))
        return false;
    hold(m, e, in->mem.i, x->c_at, shape->width, a->product_count + 1, true);
    if (in_lanes) hold(m, e, left.mem, x->a_at, part, a->product_count + 1, false);
    return true;
}

static void issue(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    AuAgent *a = agents_of(m, e);
    int64_t operands[4];
    for (uint32_t n = 0; n < 4; n++) operands[n] = agents_operand(m, e, s, n, 0);
    const Shape shape = shape_of(m, e, s);
    const AuProduct x = {s, operands[0], operands[1], operands[2], operands[3] != 0, a->commits};
    agents_meet(m, e, s, operands);
    if (!m->why && !a->fenced)
        kernel_fail(m, e, s, 0, "fence: no wgmma_fence before the first product");
    if (m->why || !touch_all(m, e, &x, &shape)) return;
    AU_PUSH(m->arena, a->products, a->product_count, a->product_capacity, x);
}

/* ---- the end */

static void read_operands(const AuMachine *m, const AuExecutor *e, const AuProduct *x,
                          const Shape *shape, float (*a)[MOST_DEPTH], float (*b)[MOST_COLUMNS])
{
    const AuOperand left = agents_matrix(m, x, &shape->op, false),
                    right = agents_matrix(m, x, &shape->op, true);
    const uint32_t executor = e->index % m->k->group << shape->op.a.lane_bits;
    for (uint32_t k = 0; k < shape->depth; k++)
        for (uint32_t n = 0; n < shape->columns; n++)
            b[k][n] = number(m, right.mem, (uint64_t)element_at(&right, n, k));
    if (m->k->mems[left.mem].space != AU_LANE) {
        for (uint32_t r = 0; r < shape->rows; r++)
            for (uint32_t k = 0; k < shape->depth; k++)
                a[r][k] = number(m, left.mem, (uint64_t)element_at(&left, shape->first + r, k));
        return;
    }
    for (uint32_t l = 0; l < m->k->lanes; l++)
        for (uint32_t n = 0; n < shape->rows * shape->depth / m->k->lanes; n++) {
            uint32_t row, k;
            machine_fragment_at(&shape->op.a, l | executor, n, &row, &k);
            a[row - shape->first][k] =
                number(m, left.mem, agents_register(m, e, left.mem, left.at + n, l));
        }
}

static void multiply(AuMachine *m, const AuExecutor *e, const AuProduct *x)
{
    const Shape shape = shape_of(m, e, x->step);
    const uint32_t mem = m->k->instrs[x->step->instr].mem.i,
                   executor = e->index % m->k->group << shape.c.lane_bits;
    float a[MOST_COLUMNS][MOST_DEPTH], b[MOST_DEPTH][MOST_COLUMNS];
    float *sums = (float *)(void *)m->places[mem].data;
    read_operands(m, e, x, &shape, a, b);
    for (uint32_t l = 0; l < m->k->lanes; l++)
        for (uint32_t n = 0; n < shape.width; n++) {
            float *sum = &sums[agents_register(m, e, mem, x->c_at + n, l)], product = 0;
            uint32_t row, column;
            machine_fragment_at(&shape.c, l | executor, n, &row, &column);
            for (uint32_t k = 0; k < shape.depth; k++)
                product += a[row - shape.first][k] * b[k][column];
            *sum = x->add ? *sum + product : product;
        }
}

uint32_t agents_products_pending(const AuMachine *m)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < m->k->warps; w++)
        count += m->agents->of[w].ended < m->agents->of[w].product_count;
    return count;
}

void agents_end_product(AuMachine *m, uint32_t which)
{
    uint32_t w = 0;
    while (m->agents->of[w].ended == m->agents->of[w].product_count || which--) w++;
    AuAgent *a = &m->agents->of[w];
    const AuProduct *x = &a->products[a->ended++];
    if (x->step->op == AU_K_TENSOR_MUL)
        agents_multiply_tensor(m, x);
    else
        multiply(m, &m->executors[w], x);
    agents_signal_products(m, &m->executors[w]);
    if (a->wait == AU_FOR_PRODUCTS) m->executors[w].waits = false; /* looks again */
}

/* ---- fences and waits */

static void fence(AuMachine *m, AuExecutor *e)
{
    agents_of(m, e)->fenced = true;
    for (uint32_t mem = 1; mem < m->k->mem_count; mem++)
        for (uint32_t n = 0; m->places[mem].held && n < m->k->mems[mem].count; n++)
            agents_held(m, e, mem, n)->touched = false;
}

static void settle(AuMachine *m, AuExecutor *e, uint32_t mem, uint32_t done)
{
    for (uint32_t n = 0; mem && n < m->k->mems[mem].count; n++) {
        AuHeld *h = agents_held(m, e, mem, n);
        if (h->written <= done) h->written = 0;
        if (h->read <= done) h->read = 0;
    }
}

static void wait_for(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    AuAgent *a = agents_of(m, e);
    uint32_t done = 0;
    while (done < a->product_count && a->products[done].group + s->imm < a->commits) done++;
    if (a->ended < done) {
        a->wait = AU_FOR_PRODUCTS;
        e->waits = true;
        e->pc--; /* once more when one has ended */
        return;
    }
    a->wait = AU_WAITS_NOT;
    if (a->clocks.known.products[e->index] < done) a->clocks.known.products[e->index] = done;
    settle(m, e, in->mem.i, done);
    settle(m, e, in->also[0].i, done);
    settle(m, e, in->also[1].i, done);
}

void agents_step_product(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    static const int64_t nothing[4] = {0};
    AuAgent *a = agents_of(m, e);
    if (s->op == AU_K_WGMMA) {
        issue(m, e, s);
        return;
    }
    if (a->wait != AU_FOR_PRODUCTS) agents_meet(m, e, s, nothing);
    if (m->why) return;
    if (s->op == AU_K_WGMMA_FENCE)
        fence(m, e);
    else if (s->op == AU_K_WGMMA_COMMIT)
        a->commits++;
    else
        wait_for(m, e, s);
}

/* ---- blocks */

void agents_begin_products(AuMachine *m)
{
    for (uint32_t w = 0; w < m->k->warps; w++) {
        AuAgent *a = &m->agents->of[w];
        a->product_count = a->ended = a->commits = 0;
        a->fenced = false;
    }
    for (uint32_t n = 1; n < m->k->mem_count; n++)
        if (m->places[n].held)
            memset(m->places[n].held, 0,
                   (size_t)m->k->warps * m->k->mems[n].count * sizeof *m->places[n].held);
}

void agents_end_products(AuMachine *m)
{
    for (uint32_t w = 0; w < m->k->warps && !m->why; w++) {
        const AuAgent *a = &m->agents->of[w];
        uint32_t known = 0; /* products into tensor memory: by anybody */
        for (uint32_t n = 0; n < m->k->warps; n++)
            if (m->agents->of[n].clocks.known.products[w] > known)
                known = m->agents->of[n].clocks.known.products[w];
        if (known < a->product_count)
            kernel_fail(m, &m->executors[w], a->products[known].step, 0,
                        "in flight: nobody waits for a product");
    }
}
