/* by_place_memory.c - what instructions do not do that only say where elements lie (atoms.h, by_place without joins): rows are reduced, and rounded sums
 * become operands, by way of memory of the executor (tile_place_bytes). A matrix is stored, its lanes meet, and what lies there is read again. */
#include "by_place.h"

static AuMem memory_of(AuLower *l, AuMem *made, const char *name, AuScalar scalar, int32_t count)
{
    if (!made->i)
        *made = kernel_memory(l->k, (AuMemory){.name = name,
                                               .space = AU_EXEC,
                                               .scalar = scalar,
                                               .count = (uint32_t)count,
                                               .align = 16,
                                               .reads = true,
                                               .writes = true,
                                               .span = l->span});
    return *made;
}

static AuOpaque at(AuLower *l, AuMem mem, int32_t index)
{
    return (AuOpaque){mem, kernel_i32(l->k, index)};
}

void by_place_reduce(AuLower *l, const AuCut *cut, AuKOp op, AuOpaque x)
{
    AuKernel *k = l->k;
    const int32_t rows = cut->height, columns = cut->width;
    const AuMem mem = memory_of(l, &l->place_sums, "place_sums", AU_F32, rows * columns + rows);
    const AuVal lane = kernel_lane(k);
    kernel_barrier(k, 1);
    kernel_matrix_move(k, AU_K_MATRIX_STORE, at(l, mem, 0), x, kernel_i32(k, columns), false);
    kernel_barrier(k, 1);
    const AuVal are = kernel_op2(k, AU_K_LT, lane, kernel_i32(k, rows));
    const AuVal first = kernel_op2(k, AU_K_MUL, lane, kernel_i32(k, columns));
    AuVal all = {0};
    for (int32_t n = 0; n < columns; n++) {
        const AuVal place = kernel_op2(k, AU_K_ADD, first, kernel_i32(k, n));
        const AuVal v = kernel_load(k, mem, place, 1, are, kernel_f32(k, 0));
        all = n ? kernel_op2(k, op, all, v) : v;
    }
    kernel_store(k, mem, kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, rows * columns)), all, are);
    kernel_barrier(k, 1);
    kernel_matrix_move(k, AU_K_MATRIX_LOAD, x, at(l, mem, rows * columns), kernel_i32(k, 0), true);
}

/* Each element of sums that are rounded to bf16 already. */
static void store_elements(AuLower *l, const AuCut *cut, AuMem to, AuOpaque from)
{
    ByPlace b = {.l = l, .cut = *cut};
    AuKernel *k = l->k;
    by_place_open(&b, from);
    const AuVal none = {0}, v = kernel_matrix_get(k, from);
    const AuVal row = kernel_op2(k, AU_K_MUL, b.row, kernel_i32(k, cut->width));
    kernel_store(k, to, kernel_op2(k, AU_K_ADD, row, b.column), kernel_cvt(k, v, AU_BF16), none);
    kernel_end(k);
}

AuMem lower_operand_matrices(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    const AuMem from = lower_var_matrices(l, var);
    const bool wide = by_place_is_wide(l, var);
    if (k->mems[from.i].use != AU_MATRIX_C) return from;
    const AuCut cut = lower_cut_by_place(l, var->type);
    const AuMem mem = memory_of(l, &l->place_operand, "place_operand",
                                lower_scalar(var->type->elem), cut.height * cut.width);
    const AuMem to = lower_matrices(l, "operand", &cut, TILE_A, var->type->elem);
    for (int32_t n = 0; n < cut.rows * cut.columns && !l->failed; n++) {
        kernel_barrier(k, 1);
        if (wide)
            store_elements(l, &cut, mem, by_place_matrix(l, from, n));
        else
            kernel_matrix_move(k, AU_K_MATRIX_STORE, at(l, mem, 0), by_place_matrix(l, from, n),
                               kernel_i32(k, cut.width), false);
        kernel_barrier(k, 1);
        kernel_matrix_move(k, AU_K_MATRIX_LOAD, by_place_matrix(l, to, n), at(l, mem, 0),
                           kernel_i32(k, cut.width), false);
    }
    return to;
}
