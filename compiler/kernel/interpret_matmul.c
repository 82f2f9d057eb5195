/* interpret_matmul.c - a product of matrices: all lanes at once, each element checked like those of
 * loads and stores. C and B are memory of lanes: row r of a matrix is the elements r * stride and
 * following, the lanes side by side. Sums run along k in its order, in f32. */
#include "interpret.h"

#include <inttypes.h>
#include <string.h>

typedef struct Matrix {
    uint32_t mem;
    AuStep step; /* as which its accesses are noted */
    int64_t at;
    int32_t stride;
} Matrix;

static Matrix matrix(const AuMachine *m, const AuExecutor *e, const AuStep *s, AuKOp op, AuMem mem,
                     AuVal index, int32_t stride)
{
    Matrix x = {.mem = mem.i, .step = *s, .stride = stride};
    const char *from = e->frame + m->slot[index.i];
    x.step.op = (uint8_t)op;
    x.step.mem = mem.i;
    if (kernel_at(m->k, index)->type.scalar == AU_I64)
        memcpy(&x.at, from, sizeof x.at);
    else {
        int32_t narrow;
        memcpy(&narrow, from, sizeof narrow);
        x.at = narrow;
    }
    return x;
}

/* The index of an element of the executor's copy of the memory; -1: outside, the run has failed. */
static int64_t element(AuMachine *m, AuExecutor *e, const Matrix *x, int32_t row, int32_t column)
{
    const AuMemory *mem = &m->k->mems[x->mem];
    const int64_t index = x->at + (int64_t)row * x->stride + column;
    if (index >= 0 && index < (int64_t)mem->count) return (int64_t)e->index * mem->count + index;
    kernel_fail(m, e, &x->step, 0, "bounds: @%s[%" PRId64 "] of %u elements", mem->name, index,
                mem->count);
    return -1;
}

/* The 32 bits of a lane's element; NULL: the run has failed. */
static char *lane_element(AuMachine *m, AuExecutor *e, const Matrix *x, int32_t row, int32_t column,
                          uint32_t lane)
{
    const AuRunMemory *p = &m->places[x->mem];
    const int64_t at = element(m, e, x, row, column);
    if (at < 0) return NULL;
    const uint64_t place = (uint64_t)at * m->k->lanes + lane;
    if (x->step.op == AU_K_STORE)
        p->written[place] = m->clock.begin;
    else if (p->written[place] != m->clock.begin) {
        kernel_fail(m, e, &x->step, lane,
                    "uninitialised: @%s[%" PRId64 "] is read before it is written",
                    m->k->mems[x->mem].name, x->at + (int64_t)row * x->stride + column);
        return NULL;
    }
    return p->data + place * 4;
}

/* A row of A as f32. Noted once for all lanes: they take it together. */
static bool read_row(AuMachine *m, AuExecutor *e, const Matrix *a, int32_t row, int32_t depth,
                     float *out)
{
    for (int32_t k = 0; k < depth; k++) {
        const int64_t at = element(m, e, a, row, k);
        uint16_t bits;
        if (at < 0) return false;
        if (!kernel_note_access(m, e, &a->step, 0, (uint64_t)at,
                                a->at + (int64_t)row * a->stride + k))
            return false;
        memcpy(&bits, m->places[a->mem].data + (uint64_t)at * 2, sizeof bits);
        out[k] = kernel_from_bf16(bits);
    }
    return true;
}

static bool one_sum(AuMachine *m, AuExecutor *e, const Matrix *b, const float *row, int32_t depth,
                    int32_t column, uint32_t lane, float *sum)
{
    for (int32_t k = 0; k < depth; k += 2) {
        const char *at = lane_element(m, e, b, k / 2, column, lane);
        uint32_t pair;
        if (!at) return false;
        memcpy(&pair, at, sizeof pair);
        *sum += row[k] * kernel_from_bf16((uint16_t)pair);
        *sum += row[k + 1] * kernel_from_bf16((uint16_t)(pair >> 16));
    }
    return true;
}

void kernel_step_matmul(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuInstr *in = &m->k->instrs[s->instr];
    const AuMatmul x = kernel_matmul_of(m->k, in);
    if (m->run->lockstep) e->x++;
    const Matrix a = matrix(m, e, s, AU_K_LOAD, x.a, x.a_at, x.a_stride);
    const Matrix b = matrix(m, e, s, AU_K_LOAD, x.b, x.b_at, x.b_stride);
    const Matrix before = matrix(m, e, s, AU_K_LOAD, x.c, x.c_at, x.c_stride);
    const Matrix after = matrix(m, e, s, AU_K_STORE, x.c, x.c_at, x.c_stride);
    float row[AU_MOST_DEPTH];
    for (int32_t r = 0; r < x.rows; r++) {
        if (!read_row(m, e, &a, r, x.depth, row)) return;
        for (int32_t n = 0; n < x.vectors; n++)
            for (uint32_t l = 0; l < m->k->lanes; l++) {
                const char *from = x.add ? lane_element(m, e, &before, r, n, l) : NULL;
                float sum = 0;
                if (x.add && !from) return;
                if (from) memcpy(&sum, from, sizeof sum);
                if (!one_sum(m, e, &b, row, x.depth, n, l, &sum)) return;
                char *to = lane_element(m, e, &after, r, n, l);
                if (!to) return;
                memcpy(to, &sum, sizeof sum);
            }
    }
}
