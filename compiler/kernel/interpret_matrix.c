/* interpret_matrix.c - matrices in the registers of an executor (MATRIX of atoms.def): operands are
 * gathered from the lanes by their places, multiplied, and the sums scattered, so that a wrong
 * layout is a wrong number. load_matrix brings rows of shared memory to the lanes. */
#include "interpret.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LARGEST = MACHINE_LARGEST };

static uint32_t bits_at(const char *at, uint32_t bytes)
{
    uint32_t bits = 0;
    memcpy(&bits, at, bytes); /* little endian, as all our hosts */
    return bits;
}

/* To 10 bits of mantissa, ties away from zero. */
static float to_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value - value != 0) return value;
    bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float number(AuScalar scalar, bool rounds, const char *at)
{
    if (scalar == AU_F16) return kernel_from_f16((uint16_t)bits_at(at, 2));
    if (scalar == AU_BF16) return kernel_from_bf16((uint16_t)bits_at(at, 2));
    float value;
    memcpy(&value, at, sizeof value);
    return rounds ? to_tf32(value) : value;
}

/* Lanes that hold copies must hold the same: else what comes of them is no number. */
static void gather(const AuMatrixOp *op, AuMatrixOperand which, const char *from,
                   float to[LARGEST][LARGEST])
{
    const AuKType t = op->types[which];
    const uint32_t bytes = kernel_scalar_bytes(t.scalar), lanes = (uint32_t)op->atom->lanes;
    const bool rounds = op->atom->rounds && which != AU_MATRIX_C;
    bool held[LARGEST][LARGEST] = {{false}};
    for (uint32_t l = 0; l < lanes; l++)
        for (uint32_t e = 0; e < t.width; e++) {
            uint32_t row, column;
            machine_fragment_at(&op->at[which], l, e, &row, &column);
            const float value = number((AuScalar)t.scalar, rounds, from + (e * lanes + l) * bytes);
            const bool differs = held[row][column] && to[row][column] != value;
            to[row][column] = differs ? NAN : value;
            held[row][column] = true;
        }
}

void kernel_step_mma(const AuStep *s, char *frame)
{
    const AuMatrixOp op = kernel_matrix((AuMatrix)s->imm);
    const uint32_t lanes = (uint32_t)op.atom->lanes;
    float a[LARGEST][LARGEST], b[LARGEST][LARGEST], c[LARGEST][LARGEST];
    gather(&op, AU_MATRIX_C, frame + s->a, c);
    gather(&op, AU_MATRIX_A, frame + s->b, a);
    gather(&op, AU_MATRIX_B, frame + s->c, b);
    for (int32_t row = 0; row < op.atom->m; row++)
        for (int32_t column = 0; column < op.atom->n; column++) {
            float sum = 0;
            for (int32_t k = 0; k < op.atom->k; k++) sum += a[row][k] * b[k][column];
            c[row][column] += sum;
        }
    float *out = (float *)(void *)(frame + s->result);
    for (uint32_t l = 0; l < lanes; l++)
        for (uint32_t e = 0; e < op.types[AU_MATRIX_C].width; e++) {
            uint32_t row, column;
            machine_fragment_at(&op.at[AU_MATRIX_C], l, e, &row, &column);
            out[e * lanes + l] = c[row][column];
        }
}

/* Element [n] of the row at [index], read by [lane]. NULL: the run has failed. */
static const char *row_element(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane,
                               int64_t index, uint32_t n)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    if (index < 0 || (uint64_t)index + 16 / s->bytes > mem->count || index * s->bytes % 16) {
        kernel_fail(m, e, s, lane, "bounds: a row at @%s[%" PRId64 "] of %u elements", mem->name,
                    index, mem->count);
        return NULL;
    }
    const uint64_t at = (uint64_t)index + n;
    if (!kernel_note_access(m, e, s, lane, at, (int64_t)at)) return NULL;
    return m->places[s->mem].data + at * s->bytes;
}

void kernel_step_load_matrix(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const uint32_t count = (uint32_t)s->imm & 7, part = 4 / s->bytes;
    const bool transposed = s->imm & 8;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t l = 0; l < AU_LOAD_MATRIX_LANES; l++)
            for (uint32_t x = 0; x < part; x++) {
                const uint32_t row = transposed ? l % 4 * part + x : l / 4;
                const uint32_t column = transposed ? l / 4 : l % 4 * part + x;
                const int64_t index = kernel_index_at(s, e->frame, 8 * n + row);
                const char *from = row_element(m, e, s, l, index, column);
                if (!from) return;
                memcpy(e->frame + s->result +
                           ((n * part + x) * AU_LOAD_MATRIX_LANES + l) * s->bytes,
                       from, s->bytes);
            }
}
