/* interpret_opaque.c - matrices whose elements lie nobody knows how. Here they lie row after row, which
 * no kernel can see. All lanes together move one: its accesses are those of no lane in particular,
 * so that what lanes did before needs a barrier. */
#include "interpret.h"

#include <inttypes.h>
#include <string.h>

static float number(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n)
{
    const AuVal v = kernel_operand(m->k, &m->k->instrs[s->instr], n);
    float value;
    memcpy(&value, e->frame + m->slot[v.i], sizeof value);
    return value;
}

static float get(AuScalar scalar, const char *at)
{
    uint16_t half;
    float value;
    if (scalar == AU_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return scalar == AU_F16 ? kernel_from_f16(half) : kernel_from_bf16(half);
}

static void put(AuScalar scalar, char *at, float value)
{
    const uint16_t half = scalar == AU_F16 ? kernel_to_f16(value) : kernel_to_bf16(value);
    if (scalar == AU_F32)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

typedef struct Matrix {
    const AuMemory *mem;
    char *data;
    uint32_t bytes, count; /* of an element, elements */
    uint32_t *written;
} Matrix;

/* Operand [n] of the memory; false: the run has failed. */
static bool matrix(AuMachine *m, const AuExecutor *e, const AuStep *s, AuMem mem, uint32_t n,
                   bool reads, Matrix *out)
{
    const AuMemory *memory = &m->k->mems[mem.i];
    const int64_t index = kernel_number_at(m, e, s, n);
    if (index < 0 || index >= (int64_t)memory->count) {
        kernel_fail(m, e, s, 0, "bounds: @%s[%" PRId64 "] of %u matrices", memory->name, index,
                    memory->count);
        return false;
    }
    const AuRunMemory *p = &m->places[mem.i];
    const uint64_t at = (uint64_t)e->index * memory->count + (uint64_t)index;
    *out = (Matrix){.mem = memory,
                    .bytes = kernel_scalar_bytes(memory->scalar),
                    .count = memory->rows * memory->columns,
                    .written = &p->written[at]};
    out->data = p->data + at * out->count * out->bytes;
    if (!reads || *out->written == m->clock.begin) return true;
    kernel_fail(m, e, s, 0, "uninitialised: matrix @%s[%" PRId64 "] is read before it is written",
                memory->name, index);
    return false;
}

static float element(const Matrix *x, uint32_t n)
{
    return get(x->mem->scalar, x->data + (size_t)n * x->bytes);
}

static void set(const AuMachine *m, const Matrix *x, uint32_t n, float value)
{
    put(x->mem->scalar, x->data + (size_t)n * x->bytes, value);
    *x->written = m->clock.begin;
}

/* ---- moves */

/* Element [at] of a memory that all lanes see, noted; NULL: the run has failed. */
static char *seen_by_all(AuMachine *m, AuExecutor *e, const AuStep *s, AuMem mem, int64_t at,
                         bool store)
{
    const AuMemory *memory = &m->k->mems[mem.i];
    const AuRunMemory *p = &m->places[mem.i];
    const uint64_t count = memory->space == AU_GLOBAL ? p->count : memory->count,
                   base = memory->space == AU_EXEC ? (uint64_t)e->index * count : 0;
    AuStep access = *s;
    access.op = store ? AU_K_STORE : AU_K_LOAD;
    access.mem = mem.i;
    if (at < 0 || (uint64_t)at >= count) {
        kernel_fail(m, e, s, 0, "bounds: @%s[%" PRId64 "] of %" PRIu64 " elements", memory->name,
                    at, count);
        return NULL;
    }
    const uint64_t place = base + (uint64_t)at;
    if (kernel_is_traced(p) && !kernel_note_access(m, e, &access, AU_MANY, place, at)) return NULL;
    return p->data + place * kernel_scalar_bytes(memory->scalar);
}

static void move(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const bool store = s->op == AU_K_MATRIX_STORE;
    const AuMem other = store ? in->mem : in->also[0];
    const int64_t from = kernel_number_at(m, e, s, store ? 0 : 1),
                  stride = kernel_number_at(m, e, s, 2);
    Matrix x;
    if (!matrix(m, e, s, store ? in->also[0] : in->mem, store ? 1 : 0, store, &x)) return;
    for (uint32_t n = 0; n < x.count; n++) {
        const int64_t row = n / x.mem->columns, column = n % x.mem->columns;
        const int64_t at = from + (s->imm ? column * stride + row : row * stride + column);
        char *there = seen_by_all(m, e, s, other, at, store);
        if (!there) return;
        if (store)
            memcpy(there, x.data + (size_t)n * x.bytes, x.bytes);
        else
            set(m, &x, n, get(x.mem->scalar, there));
    }
}

/* ---- blocks of surfaces: what is outside of them is 0, and no access */

/* What the unit takes; NULL: it takes this one. */
static const char *wrong_surface(const AuSurfaceAt *x, uint32_t bytes)
{
    if (x->first * bytes % AU_TENSOR_ALIGN) return "begins at no multiple of 16 bytes";
    if (x->rows < 0 || x->columns < 0) return "has less than no rows, or columns";
    if (x->pitch < x->columns) return "has rows that overlap";
    if (x->rows * x->pitch > AU_TENSOR_MOST) return "is larger than units count";
    return NULL;
}

static void take_block(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const AuMem from = in->also[0];
    const AuSurfaceAt of = kernel_surface_at(m, e, s, 1, s->op == AU_K_MATRIX_BLOCK_GATHER);
    const char *wrong = s->op == AU_K_MATRIX_BLOCK_LOAD
                            ? wrong_surface(&of, kernel_scalar_bytes(m->k->mems[from.i].scalar))
                            : NULL;
    Matrix x;
    if (wrong) {
        kernel_fail(m, e, s, 0, "surface: @%s[%" PRId64 "] %s", m->k->mems[from.i].name, of.first,
                    wrong);
        return;
    }
    if (!matrix(m, e, s, in->mem, 0, false, &x)) return;
    for (uint32_t n = 0; n < x.count; n++) {
        const int64_t r = n / x.mem->columns, c = n % x.mem->columns,
                      row = of.row + (s->imm ? c : r), column = of.column + (s->imm ? r : c);
        const bool inside = row >= 0 && row < of.rows && column >= 0 && column < of.columns;
        const int64_t at = of.first + row * of.pitch + column * of.step;
        const char *there = inside ? seen_by_all(m, e, s, from, at, false) : NULL;
        if (inside && !there) return;
        set(m, &x, n, inside ? get(x.mem->scalar, there) : 0);
    }
}

/* ---- values */

static void multiply(AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    Matrix c, a, b;
    if (!matrix(m, e, s, in->mem, 0, true, &c) || !matrix(m, e, s, in->also[0], 1, true, &a) ||
        !matrix(m, e, s, in->also[1], 2, true, &b))
        return;
    const uint32_t columns = c.mem->columns, depth = a.mem->columns;
    for (uint32_t n = 0; n < c.count; n++) {
        float sum = 0;
        for (uint32_t k = 0; k < depth; k++)
            sum += element(&a, n / columns * depth + k) * element(&b, k * columns + n % columns);
        set(m, &c, n, element(&c, n) + sum);
    }
}

static float of(AuKOp op, float x, float y)
{
    return op == AU_K_ADD ? x + y : op == AU_K_SUB ? x - y : op == AU_K_MUL ? x * y : x / y;
}

static void each(AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const bool map = s->op == AU_K_MATRIX_MAP, scale = s->op == AU_K_MATRIX_SCALE;
    Matrix to, x, y;
    if (!matrix(m, e, s, in->mem, 0, false, &to) || !matrix(m, e, s, in->also[0], 1, true, &x) ||
        (map && !matrix(m, e, s, in->also[1], 2, true, &y)))
        return;
    const float factor = scale ? number(m, e, s, 2) : 1;
    for (uint32_t n = 0; n < to.count; n++)
        set(m, &to, n,
            map ? of((AuKOp)s->imm, element(&x, n), element(&y, n)) : element(&x, n) * factor);
}

static AuStep reduction(const AuStep *s)
{
    AuStep op = *s;
    op.op = (uint8_t)s->imm;
    op.of = op.to = AU_F32;
    return op;
}

static float combined(const AuStep *s, float x, float y)
{
    uint32_t a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    a = (uint32_t)kernel_evaluate((AuKOp)s->op, AU_F32, AU_F32, a, b, 0);
    memcpy(&x, &a, sizeof x);
    return x;
}

/* Each row, or column, from an element on that the seed says. */
static void reduce(AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const AuStep op = reduction(s);
    const bool columns = s->op == AU_K_MATRIX_REDUCE_COLUMNS;
    Matrix to, x;
    if (!matrix(m, e, s, in->mem, 0, false, &to) || !matrix(m, e, s, in->also[0], 1, true, &x))
        return;
    const uint32_t lines = columns ? x.mem->columns : x.mem->rows,
                   length = columns ? x.mem->rows : x.mem->columns, first = e->elected % length,
                   line = columns ? 1 : x.mem->columns, step = columns ? x.mem->columns : 1,
                   to_line = columns ? 1 : to.mem->columns, to_step = columns ? to.mem->columns : 1;
    for (uint32_t r = 0; r < lines; r++) {
        float all = element(&x, r * line + first * step);
        for (uint32_t c = 1; c < length; c++)
            all = combined(&op, all, element(&x, r * line + (first + c) % length * step));
        for (uint32_t c = 0; c < to.count / lines; c++) set(m, &to, r * to_line + c * to_step, all);
    }
}

static void ask(AuMachine *m, const AuExecutor *e, const AuStep *s)
{
    Matrix x;
    bool any = false;
    if (!matrix(m, e, s, m->k->instrs[s->instr].mem, 0, true, &x)) return;
    for (uint32_t n = 0; n < x.count; n++) any |= element(&x, n) > 0;
    memset(e->frame + s->result, any, m->k->lanes);
}

/* ---- functions of an element: lanes take elements side by side, beginning with one that the seed says */

static uint32_t element_of(const AuMachine *m, const AuExecutor *e, uint32_t lane)
{
    return e->element + (lane + e->elected) % m->k->lanes;
}

void kernel_begin_each(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    Matrix x;
    e->element = 0;
    matrix(m, e, s, m->k->instrs[s->instr].mem, 0, false, &x); /* is there one? */
}

void kernel_end_each(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuMemory *memory = &m->k->mems[s->mem];
    e->element += m->k->lanes;
    if (e->element < memory->rows * memory->columns) e->pc = s->jump;
}

void kernel_step_place(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr], *each = &m->k->instrs[s->jump];
    Matrix x;
    AuStep target = *s;
    if (s->op == AU_K_MATRIX_PUT) target.instr = s->jump;
    const AuMem mem = s->op == AU_K_MATRIX_GET ? in->mem : each->mem;
    const uint32_t columns = m->k->mems[mem.i].columns;
    if (s->op == AU_K_MATRIX_GET
            ? !matrix(m, e, s, mem, 0, true, &x)
            : s->op == AU_K_MATRIX_PUT && !matrix(m, e, &target, mem, 0, false, &x))
        return;
    for (uint32_t l = 0; l < m->k->lanes; l++) {
        const uint32_t at = element_of(m, e, l);
        const uint32_t place = s->op == AU_K_MATRIX_ROW ? at / columns : at % columns;
        float value;
        if (s->op == AU_K_MATRIX_PUT) {
            memcpy(&value, e->frame + s->a + l * sizeof value, sizeof value);
            set(m, &x, at, value);
        } else if (s->op == AU_K_MATRIX_GET) {
            value = element(&x, at);
            memcpy(e->frame + s->result + l * sizeof value, &value, sizeof value);
        } else
            memcpy(e->frame + s->result + l * sizeof place, &place, sizeof place);
    }
}

void kernel_step_opaque(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    Matrix x;
    if (m->run->lockstep) e->x++;
    switch ((int)s->op) {
    case AU_K_MATRIX_LOAD:
    case AU_K_MATRIX_STORE: move(m, e, s); return;
    case AU_K_MATRIX_BLOCK_LOAD:
    case AU_K_MATRIX_BLOCK_GATHER: take_block(m, e, s); return;
    case AU_K_MATRIX_MUL: multiply(m, e, s); return;
    case AU_K_MATRIX_REDUCE:
    case AU_K_MATRIX_REDUCE_COLUMNS: reduce(m, e, s); return;
    case AU_K_MATRIX_ANY: ask(m, e, s); return;
    case AU_K_MATRIX_FILL:
        if (!matrix(m, e, s, m->k->instrs[s->instr].mem, 0, false, &x)) return;
        for (uint32_t n = 0; n < x.count; n++) set(m, &x, n, number(m, e, s, 1));
        return;
    }
    each(m, e, s);
}
