/* build_tensor.c - constructs operations on tensor memory. */
#include "internal.h"

uint32_t kernel_tensor_columns(const AuKernel *k)
{
    enum { COLUMN_BYTES = 4 };
    uint32_t columns = 0;
    for (uint32_t n = 1; n < k->mem_count; n++) {
        const AuMemory *m = &k->mems[n];
        const uint32_t row = m->count / AU_TENSOR_ROWS * kernel_scalar_bytes(m->scalar);
        if (m->space == AU_TENSOR) columns += (row + COLUMN_BYTES - 1) / COLUMN_BYTES;
    }
    return columns;
}

void kernel_tensor_load(AuKernel *k, AuMem lanes, uint32_t reg, AuMem from, AuVal at,
                        uint32_t count)
{
    const AuVal operands[2] = {kernel_i32(k, (int32_t)reg), at};
    kernel_emit(k, (AuInstr){.op = AU_K_TENSOR_LOAD, .mem = lanes, .also = {from}, .imm = count},
                operands, 2);
}

void kernel_tensor_store(AuKernel *k, AuMem to, AuVal at, AuMem lanes, uint32_t reg, uint32_t count)
{
    const AuVal operands[2] = {at, kernel_i32(k, (int32_t)reg)};
    kernel_emit(k, (AuInstr){.op = AU_K_TENSOR_STORE, .mem = to, .also = {lanes}, .imm = count},
                operands, 2);
}

void kernel_tensor_wait(AuKernel *k, AuMem loaded)
{
    kernel_emit(k, (AuInstr){.op = AU_K_TENSOR_WAIT, .mem = loaded, .imm = loaded.i ? 0 : 1}, NULL,
                0);
}

void kernel_tensor_mul(AuKernel *k, AuGroupMatrix row, const AuGroupProduct *x, AuVal mask)
{
    const AuVal operands[8] = {x->c_at,
                               x->a_at,
                               x->b_at,
                               x->add,
                               kernel_i32(k, x->columns),
                               kernel_i32(k, x->a_stride),
                               kernel_i32(k, x->b_stride),
                               mask};
    kernel_emit(k, (AuInstr){.op = AU_K_TENSOR_MUL, .mem = x->c, .also = {x->a, x->b}, .imm = row},
                operands, 8);
}

void kernel_tensor_commit(AuKernel *k, AuMem mem, AuVal index, AuVal mask)
{
    const AuVal operands[2] = {index, mask};
    kernel_emit(k, (AuInstr){.op = AU_K_TENSOR_COMMIT, .mem = mem}, operands, 2);
}

void kernel_tensor_take(AuKernel *k, AuKOp op, uint32_t columns)
{
    kernel_emit(k, (AuInstr){.op = (uint8_t)op, .imm = columns}, NULL, 0);
}
