/* matrix_kernel.h - a kernel that multiplies two small matrices with one instruction of atoms.def:
 * asynchronous copies into swizzled shared memory, load_matrix, mma. For the interpreter, and for
 * generators whose results are compared with it. */
#ifndef AU_MATRIX_KERNEL_H
#define AU_MATRIX_KERNEL_H

#include "kernel.h"

/* Arguments: a [m, k], b [n, k] or (by_rows) [k, n], out [m, n] f32, valid: how many bytes of the
 * last 16 of a are read, the rest is 0. out = 0.5 + a b. One executor. */
static inline AuKernel *matrix_kernel(AuArena *arena, AuMatrix which, bool by_rows)
{
    const AuMatrixOp info = kernel_matrix(which);
    const AuMatrixOp *op = &info;
    const AuScalar scalar = (AuScalar)op->types[AU_MATRIX_A].scalar;
    const uint32_t bytes = kernel_scalar_bytes(scalar), chunk = 16 / bytes;
    const uint32_t a_row = (uint32_t)op->atom->k,
                   b_row = by_rows ? (uint32_t)op->atom->n : (uint32_t)op->atom->k;
    AuKernel *k = kernel_new(arena, op->text, 32, 1);
    const AuMem a = kernel_tensor(k, "a", scalar, true, false, 0, 0);
    const AuMem b = kernel_tensor(k, "b", scalar, true, false, 0, 1);
    const AuMem out = kernel_tensor(k, "out", AU_F32, false, true, 0, 2);
    const AuMem A =
        kernel_memory(k, (AuMemory){.name = "A",
                                    .space = AU_SHARED,
                                    .scalar = scalar,
                                    .count = (uint32_t)op->atom->m * (uint32_t)op->atom->k,
                                    .swizzle = a_row * bytes >= 32 ? 32 : 0,
                                    .align = 16});
    const AuMem B =
        kernel_memory(k, (AuMemory){.name = "B",
                                    .space = AU_SHARED,
                                    .scalar = scalar,
                                    .count = (uint32_t)op->atom->n * (uint32_t)op->atom->k,
                                    .swizzle = b_row * bytes >= 32 ? 32 : 0,
                                    .align = 16});
    const AuVal lane = kernel_lane(k), none = {0};
    const AuVal valid = kernel_arg(k, "valid", AU_ARG_I32, 1, 0, 0);
#define I(n)         kernel_i32(k, (int32_t)(n))
#define OP(op, x, y) kernel_op2(k, AU_K_##op, x, y)
    const uint32_t a_chunks = (uint32_t)op->atom->m * (uint32_t)op->atom->k / chunk,
                   b_chunks = (uint32_t)op->atom->n * (uint32_t)op->atom->k / chunk;
    const AuVal at = OP(MUL, lane, I(chunk)), full = I(16);
    const AuVal last = OP(EQ, lane, I(a_chunks - 1));
    kernel_copy_async(k, A, at, a, at, kernel_op3(k, AU_K_SELECT, last, valid, full), 16,
                      a_chunks < 32 ? OP(LT, lane, I(a_chunks)) : none);
    kernel_copy_commit(k);
    kernel_copy_async(k, B, at, b, at, full, 16, OP(LT, lane, I(b_chunks)));
    kernel_copy_commit(k);
    kernel_copy_wait(k, 1);
    kernel_copy_wait(k, 0);
    kernel_barrier(k, 0);
    /* Matrix n of A: rows 8 (n % 2).., columns of 16 bytes n / 2. Of B: 16 bytes n along k. */
    const AuVal r = OP(AND, lane, I(7)), n = OP(SHR, lane, I(3));
    const uint32_t a_count = 2 * (uint32_t)op->atom->k / chunk,
                   b_count = (uint32_t)op->atom->k / chunk;
    const AuVal n_a = OP(AND, n, I(a_count - 1)), n_b = OP(AND, n, I(b_count - 1));
    AuVal row = OP(ADD, r, OP(SHL, OP(AND, n_a, I(1)), I(3)));
    AuVal index = OP(ADD, OP(MUL, row, I(a_row)), OP(MUL, OP(SHR, n_a, I(1)), I(chunk)));
    const AuVal va = kernel_load_matrix(k, A, index, a_count, false);
    index = by_rows ? OP(MUL, OP(ADD, r, OP(MUL, n_b, I(8))), I(b_row))
                    : OP(ADD, OP(MUL, r, I(b_row)), OP(MUL, n_b, I(chunk)));
    const AuVal vb = kernel_load_matrix(k, B, index, b_count, by_rows);
    const AuVal half = kernel_f32(k, 0.5);
    const AuVal c =
        kernel_mma(k, which, kernel_vec(k, (AuVal[]){half, half, half, half}, 4), va, vb);
    /* Columns 2 (lane % 4) and the next, rows lane / 4 and 8 further. */
    const AuVal column = OP(SHL, OP(AND, lane, I(3)), I(1));
    for (uint32_t h = 0; h < 2; h++) {
        row = OP(ADD, OP(SHR, lane, I(2)), I(8 * h));
        index = OP(ADD, OP(MUL, row, I((uint32_t)op->atom->n)), column);
        kernel_store(k, out, index, kernel_slice(k, c, 2 * h, 2), none);
    }
#undef I
#undef OP
    return k;
}

#endif
