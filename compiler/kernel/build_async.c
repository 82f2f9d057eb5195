/* build_async.c - constructs operations of kernels whose executors go different ways, and what goes
 * on beside them. */
#include "internal.h"

static void emit(AuKernel *k, AuKOp op, AuMem mem, int64_t imm, const AuVal *operands,
                 uint32_t count, AuVal mask)
{
    AuVal all[16];
    for (uint32_t n = 0; n < count; n++) all[n] = operands[n];
    all[count] = mask;
    kernel_emit(k, (AuInstr){.op = (uint8_t)op, .mem = mem, .imm = imm}, all,
                count + (mask.i ? 1 : 0));
}

static const AuMem no_memory = {0};
static const AuVal no_mask = {0};

AuVal kernel_elect(AuKernel *k) { return kernel_emit(k, (AuInstr){.op = AU_K_ELECT}, NULL, 0); }

void kernel_sync(AuKernel *k, AuVal barrier, uint32_t lanes)
{
    emit(k, AU_K_SYNC, no_memory, lanes, &barrier, 1, no_mask);
}

void kernel_arrive(AuKernel *k, AuVal barrier, uint32_t lanes)
{
    emit(k, AU_K_ARRIVE, no_memory, lanes, &barrier, 1, no_mask);
}

void kernel_mbar_init(AuKernel *k, AuMem mem, AuVal index, uint32_t count, AuVal mask)
{
    emit(k, AU_K_MBAR_INIT, mem, 0, (AuVal[]){index, kernel_i32(k, (int32_t)count)}, 2, mask);
}

void kernel_mbar_arrive(AuKernel *k, AuMem mem, AuVal index, AuVal mask)
{
    emit(k, AU_K_MBAR_ARRIVE, mem, 0, &index, 1, mask);
}

void kernel_mbar_expect(AuKernel *k, AuMem mem, AuVal index, AuVal bytes, AuVal mask)
{
    emit(k, AU_K_MBAR_EXPECT, mem, 0, (AuVal[]){index, bytes}, 2, mask);
}

void kernel_mbar_wait(AuKernel *k, AuMem mem, AuVal index, AuVal phase)
{
    emit(k, AU_K_MBAR_WAIT, mem, 0, (AuVal[]){index, phase}, 2, no_mask);
}

void kernel_fence(AuKernel *k, AuKOp fence) { emit(k, fence, no_memory, 0, NULL, 0, no_mask); }

void kernel_registers(AuKernel *k, uint32_t count)
{
    emit(k, AU_K_REGISTERS, no_memory, count, NULL, 0, no_mask);
}
