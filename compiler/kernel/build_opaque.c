/* build_opaque.c - constructs operations on matrices whose elements lie nobody knows how. */
#include "internal.h"

static void emit(AuKernel *k, AuInstr in, const AuVal *operands, uint32_t count)
{
    kernel_emit(k, in, operands, count);
}

void kernel_matrix_fill(AuKernel *k, AuOpaque to, AuVal value)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_FILL, .mem = to.mem}, (AuVal[]){to.at, value}, 2);
}

void kernel_matrix_move(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque from, AuVal stride,
                        bool columns)
{
    emit(k, (AuInstr){.op = (uint8_t)op, .mem = to.mem, .also = {from.mem}, .imm = columns},
         (AuVal[]){to.at, from.at, stride}, 3);
}

void kernel_matrix_block(AuKernel *k, AuOpaque to, const AuSurface *of, AuVal column, AuVal row,
                         bool columns)
{
    const AuInstr in = {.op = of->step.i ? AU_K_MATRIX_BLOCK_GATHER : AU_K_MATRIX_BLOCK_LOAD,
                        .mem = to.mem,
                        .also = {of->mem},
                        .imm = columns};
    AuVal operands[8] = {to.at, of->first, of->columns, of->rows, of->pitch};
    uint32_t count = 5;
    if (of->step.i) operands[count++] = of->step;
    operands[count++] = column;
    operands[count++] = row;
    emit(k, in, operands, count);
}

void kernel_matrix_mul(AuKernel *k, AuOpaque c, AuOpaque a, AuOpaque b)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_MUL, .mem = c.mem, .also = {a.mem, b.mem}},
         (AuVal[]){c.at, a.at, b.at}, 3);
}

void kernel_matrix_map(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque x, AuOpaque y)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_MAP, .mem = to.mem, .also = {x.mem, y.mem}, .imm = op},
         (AuVal[]){to.at, x.at, y.at}, 3);
}

void kernel_matrix_scale(AuKernel *k, AuOpaque to, AuOpaque x, AuVal factor)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_SCALE, .mem = to.mem, .also = {x.mem}},
         (AuVal[]){to.at, x.at, factor}, 3);
}

void kernel_matrix_cvt(AuKernel *k, AuOpaque to, AuOpaque x)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_CVT, .mem = to.mem, .also = {x.mem}},
         (AuVal[]){to.at, x.at}, 2);
}

void kernel_matrix_reduce(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque x, bool columns)
{
    const AuKOp how = columns ? AU_K_MATRIX_REDUCE_COLUMNS : AU_K_MATRIX_REDUCE;
    emit(k, (AuInstr){.op = (uint8_t)how, .mem = to.mem, .also = {x.mem}, .imm = op},
         (AuVal[]){to.at, x.at}, 2);
}

AuVal kernel_matrix_any(AuKernel *k, AuOpaque x)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_MATRIX_ANY, .mem = x.mem, .type = {AU_I1, 1}}, &x.at,
                       1);
}

void kernel_matrix_each(AuKernel *k, AuOpaque of)
{
    kernel_open(k, kernel_append(k, (AuInstr){.op = AU_K_MATRIX_EACH, .mem = of.mem}, &of.at, 1));
}

AuVal kernel_matrix_place(AuKernel *k, AuKOp op)
{
    return kernel_emit(k, (AuInstr){.op = (uint8_t)op, .type = {AU_I32, 1}}, NULL, 0);
}

AuVal kernel_matrix_get(AuKernel *k, AuOpaque x)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_MATRIX_GET, .mem = x.mem, .type = {AU_F32, 1}},
                       &x.at, 1);
}

void kernel_matrix_put(AuKernel *k, AuVal value)
{
    emit(k, (AuInstr){.op = AU_K_MATRIX_PUT}, &value, 1);
}

/* Has an instruction with that extent matrices with this one? 0: any. */
static bool extends(const AuTileAtom *atom, int32_t own, uint32_t extent)
{
    return atom->multiples ? extent % (uint32_t)own == 0 : !extent || extent == (uint32_t)own;
}

bool kernel_has_matrix(AuMatrixShape s)
{
    const uint32_t elems = s.operands == AU_F16    ? 1u << TILE_F16
                           : s.operands == AU_BF16 ? 1u << TILE_BF16
                           : s.operands == AU_F32  ? 1u << TILE_F32
                                                   : UINT32_MAX;
    const AuTileAtom *atom;
    for (uint32_t n = 0; (atom = tile_atom_at(n)); n++)
        if (atom->on == 1u << TILE_ON_WARP && !atom->is_async && (uint32_t)atom->lanes == s.lanes &&
            extends(atom, atom->m, s.m) && extends(atom, atom->n, s.n) &&
            extends(atom, atom->k, s.k) && atom->elems & elems)
            return true;
    return false;
}

bool kernel_has_matrices_of_block(const AuKernel *k)
{
    const AuTileAtom *atom;
    for (uint32_t n = 0; (atom = tile_atom_at(n)); n++)
        if (atom->of_block && (uint32_t)atom->lanes == k->lanes) return true;
    return false;
}
