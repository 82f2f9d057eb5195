/* interpret_matrix.c - matrices in the registers of an executor (MATRIX of atoms.def): operands are
 * gathered from the lanes by their places, multiplied, and the sums scattered, so that a wrong
 * layout is a wrong number. load_matrix brings rows of shared memory to the lanes, store_matrix takes
 * them there, block_load blocks of surfaces of global memory. */
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

static const uint16_t *places(AuArena *arena, const AuMatrixOp *op, AuMatrixOperand which,
                              bool *copies)
{
    const uint32_t lanes = (uint32_t)op->atom->lanes, n = op->types[which].width * lanes;
    uint16_t *at = AU_NEW_ARRAY(arena, uint16_t, n);
    bool met[LARGEST * LARGEST] = {false};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row, column;
        machine_fragment_at(&op->at[which], i % lanes, i / lanes, &row, &column);
        at[i] = (uint16_t)(row * LARGEST + column);
        *copies = *copies || met[at[i]];
        met[at[i]] = true;
    }
    return at;
}

const AuMatrixPlaces *kernel_matrix_places(AuArena *arena, AuMatrix which)
{
    AuMatrixPlaces *p = AU_NEW(arena, AuMatrixPlaces);
    p->op = kernel_matrix(which);
    for (int n = 0; n < 3; n++) p->at[n] = places(arena, &p->op, (AuMatrixOperand)n, &p->copies[n]);
    return p;
}

/* Lanes that hold copies must hold the same: else what comes of them is no number. */
static void gather(const AuMatrixPlaces *p, AuMatrixOperand which, const char *from, float *to)
{
    const AuKType t = p->op.types[which];
    const uint16_t *at = p->at[which];
    const uint32_t bytes = kernel_scalar_bytes(t.scalar), n = t.width * (uint32_t)p->op.atom->lanes;
    const bool rounds = p->op.atom->rounds && which != AU_MATRIX_C;
    for (uint32_t i = 0; i < n; i++)
        to[at[i]] = number((AuScalar)t.scalar, rounds, from + i * bytes);
    for (uint32_t i = 0; p->copies[which] && i < n; i++)
        if (to[at[i]] != number((AuScalar)t.scalar, rounds, from + i * bytes)) to[at[i]] = NAN;
}

/* Each sum in the order of k, whatever the order of the loops. */
void kernel_step_mma(const AuMachine *m, const AuStep *s, char *frame)
{
    const AuMatrixPlaces *p = m->matrices[s->imm];
    const int32_t rows = p->op.atom->m, columns = p->op.atom->n, depth = p->op.atom->k;
    float a[LARGEST * LARGEST], b[LARGEST * LARGEST], c[LARGEST * LARGEST];
    gather(p, AU_MATRIX_C, frame + s->a, c);
    gather(p, AU_MATRIX_A, frame + s->b, a);
    gather(p, AU_MATRIX_B, frame + s->c, b);
    for (int32_t row = 0; row < rows; row++) {
        float sums[LARGEST] = {0};
        for (int32_t k = 0; k < depth; k++) {
            const float x = a[row * LARGEST + k], *y = b + k * LARGEST;
            for (int32_t column = 0; column < columns; column++) sums[column] += x * y[column];
        }
        for (int32_t column = 0; column < columns; column++)
            c[row * LARGEST + column] += sums[column];
    }
    float *out = (float *)(void *)(frame + s->result);
    const uint32_t n = s->n;
    for (uint32_t i = 0; i < n; i++) out[i] = c[p->at[AU_MATRIX_C][i]];
}

/* Element [n] of the row at [index], of so many bytes, which [lane] reads or writes. NULL: the run has failed. */
static char *row_element(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, int64_t index,
                         uint32_t bytes, uint32_t n)
{
    const AuMemory *mem = &m->k->mems[s->mem];
    if (index < 0 || (uint64_t)index + bytes / s->bytes > mem->count || index * s->bytes % bytes) {
        kernel_fail(m, e, s, lane, "bounds: a row at @%s[%" PRId64 "] of %u elements", mem->name,
                    index, mem->count);
        return NULL;
    }
    const uint64_t at = (uint64_t)index + n;
    if (!kernel_note_access(m, e, s, lane, at, (int64_t)at)) return NULL;
    return m->places[s->mem].data + at * s->bytes;
}

/* Pieces of [n] elements, which groups of lanes turn. */
static void turn_pieces(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t n)
{
    const uint32_t group = AU_TURNED_ELEMENTS / n;
    for (uint32_t l = 0; l < m->k->lanes; l++)
        for (uint32_t x = 0; x < n; x++) {
            const uint32_t from = l / group * group + x * (group / n) + l % group / n;
            const int64_t index = kernel_index_at(s, e->frame, from);
            const char *element = row_element(m, e, s, l, index, n * s->bytes, l % n);
            if (!element) return;
            memcpy(e->frame + s->result + (x * m->k->lanes + l) * s->bytes, element, s->bytes);
        }
}

/* Between rows of shared memory and lanes, the one way or the other. */
void kernel_step_rows(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    if (s->op == AU_K_LOAD_MATRIX && kernel_turned(s->imm)) {
        turn_pieces(m, e, s, kernel_turned(s->imm));
        return;
    }
    const uint32_t count = (uint32_t)s->imm & 7, part = 4 / s->bytes;
    const bool transposed = s->imm & 8, stores = s->op == AU_K_STORE_MATRIX;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t l = 0; l < AU_LOAD_MATRIX_LANES; l++)
            for (uint32_t x = 0; x < part; x++) {
                const uint32_t row = transposed ? l % 4 * part + x : l / 4;
                const uint32_t column = transposed ? l / 4 : l % 4 * part + x;
                const int64_t index = kernel_index_at(s, e->frame, 8 * n + row);
                char *in_row = row_element(m, e, s, l, index, 16, column),
                     *held = e->frame + (stores ? s->b : s->result) +
                             ((n * part + x) * AU_LOAD_MATRIX_LANES + l) * s->bytes;
                if (!in_row) return;
                memcpy(stores ? in_row : held, stores ? held : in_row, s->bytes);
            }
}

/* ---- blocks of surfaces */

int64_t kernel_number_at(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t operand)
{
    const AuVal v = kernel_operand(m->k, &m->k->instrs[s->instr], operand);
    int32_t narrow;
    int64_t wide;
    if (kernel_at(m->k, v)->type.scalar == AU_I64) {
        memcpy(&wide, e->frame + m->slot[v.i], sizeof wide);
        return wide;
    }
    memcpy(&narrow, e->frame + m->slot[v.i], sizeof narrow);
    return narrow;
}

AuSurfaceAt kernel_surface_at(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                              bool gathers)
{
    return (AuSurfaceAt){.first = kernel_number_at(m, e, s, n),
                         .columns = kernel_number_at(m, e, s, n + 1),
                         .rows = kernel_number_at(m, e, s, n + 2),
                         .pitch = kernel_number_at(m, e, s, n + 3),
                         .step = gathers ? kernel_number_at(m, e, s, n + 4) : 1,
                         .column = kernel_number_at(m, e, s, n + 4 + gathers),
                         .row = kernel_number_at(m, e, s, n + 5 + gathers)};
}

/* What the unit takes; NULL: it takes this one. */
static const char *wrong_surface(const AuSurfaceAt *x, uint32_t bytes)
{
    const int64_t row = x->columns * bytes, pitch = x->pitch * bytes;
    if (x->first * bytes % AU_BLOCK_ALIGN) return "begins at no multiple of 64 bytes";
    if (row < AU_BLOCK_ALIGN || row > AU_BLOCK_MOST || row % 4)
        return "has rows of another length than 64 bytes and more, in words";
    if (x->rows < 1 || x->rows > AU_BLOCK_MOST) return "has no rows, or too many";
    if (pitch < row || pitch > AU_BLOCK_MOST || pitch % AU_BLOCK_PITCH)
        return "has rows that overlap, are too far apart, or by no multiple of 16 bytes";
    return x->column % 2 ? "is read from an odd column on" : NULL;
}

/* Element [n] of a lane; false: the run has failed. */
static bool load_of_block(AuMachine *m, AuExecutor *e, const AuStep *s, const AuSurfaceAt *x,
                          uint32_t lane, uint32_t n)
{
    const AuRunMemory *place = &m->places[s->mem];
    const int64_t row = x->row + (int64_t)(s->imm ? lane : n),
                  column = x->column + (int64_t)(s->imm ? n : lane),
                  index = x->first + row * x->pitch + column * x->step;
    char *to = e->frame + s->result + (n * m->k->lanes + lane) * s->bytes;
    if (row < 0 || row >= x->rows || column < 0 || column >= x->columns) {
        memset(to, 0, s->bytes);
        return true;
    }
    if (index < 0 || (uint64_t)index >= place->count) {
        kernel_fail(m, e, s, lane, "bounds: @%s[%" PRId64 "] of %" PRIu64 " elements",
                    m->k->mems[s->mem].name, index, place->count);
        return false;
    }
    if (kernel_is_traced(place) && !kernel_note_access(m, e, s, lane, (uint64_t)index, index))
        return false;
    memcpy(to, place->data + (uint64_t)index * s->bytes, s->bytes);
    return true;
}

void kernel_step_block(AuMachine *m, AuExecutor *e, const AuStep *s)
{
    const AuSurfaceAt x = kernel_surface_at(m, e, s, 0, s->op == AU_K_BLOCK_GATHER);
    const char *wrong = s->op == AU_K_BLOCK_LOAD ? wrong_surface(&x, s->bytes) : NULL;
    if (wrong) {
        kernel_fail(m, e, s, 0, "surface: @%s[%" PRId64 "] %s", m->k->mems[s->mem].name, x.first,
                    wrong);
        return;
    }
    for (uint32_t l = 0; l < m->k->lanes; l++)
        for (uint32_t n = 0; n < s->width; n++)
            if (!load_of_block(m, e, s, &x, l, n)) return;
}
