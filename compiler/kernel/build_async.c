/* build_async.c - constructs operations of kernels whose executors go different ways, and what goes
 * on beside them. */
#include "internal.h"

#include <string.h>

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

/* ---- products of a group */

void kernel_wgmma(AuKernel *k, AuGroupMatrix row, const AuGroupProduct *x)
{
    const AuVal operands[7] = {x->c_at,
                               x->a_at,
                               x->b_at,
                               x->add,
                               kernel_i32(k, x->columns),
                               kernel_i32(k, x->a_stride),
                               kernel_i32(k, x->b_stride)};
    kernel_emit(k, (AuInstr){.op = AU_K_WGMMA, .mem = x->c, .also = {x->a, x->b}, .imm = row},
                operands, 7);
}

void kernel_wgmma_fence(AuKernel *k) { emit(k, AU_K_WGMMA_FENCE, no_memory, 0, NULL, 0, no_mask); }

void kernel_wgmma_commit(AuKernel *k)
{
    emit(k, AU_K_WGMMA_COMMIT, no_memory, 0, NULL, 0, no_mask);
}

void kernel_wgmma_wait(AuKernel *k, const AuMem *mems, uint32_t count, uint32_t groups)
{
    AuInstr in = {.op = AU_K_WGMMA_WAIT, .imm = groups};
    if (count > 0) in.mem = mems[0];
    for (uint32_t n = 1; n < count && n < 3; n++) in.also[n - 1] = mems[n];
    kernel_emit(k, in, NULL, 0);
}

/* ---- copies by a unit of its own */

uint32_t kernel_map(AuKernel *k, AuMap map)
{
    const char *wanted = map.name;
    for (uint32_t n = 0, copy = 2; n < k->map_count; n++)
        if (strcmp(k->maps[n].name, map.name) == 0) {
            map.name = au_format(k->arena, "%s.%u", wanted, copy++);
            n = UINT32_MAX;
        }
    AU_PUSH(k->arena, k->maps, k->map_count, k->map_capacity, map);
    return k->map_count - 1;
}

uint32_t kernel_coordinates(const AuMap *map) { return map->rank + (map->cut != 0); }

void kernel_box_load(AuKernel *k, uint32_t map, const AuCopyEnds *ends, AuMem barrier,
                     AuVal barrier_at, AuVal mask)
{
    const uint32_t rank = kernel_coordinates(&k->maps[map]);
    AuVal operands[3 + AU_MAP_RANK] = {ends->shared_at};
    for (uint32_t d = 0; d < rank; d++) operands[1 + d] = ends->at[d];
    operands[1 + rank] = barrier_at;
    operands[2 + rank] = mask;
    kernel_emit(
        k,
        (AuInstr){
            .op = AU_K_TMA_LOAD, .mem = ends->shared, .also = {ends->global, barrier}, .imm = map},
        operands, 3 + rank);
}

void kernel_box_store(AuKernel *k, AuKOp op, uint32_t map, const AuCopyEnds *ends, AuVal mask)
{
    const uint32_t rank = kernel_coordinates(&k->maps[map]);
    AuVal operands[2 + AU_MAP_RANK] = {{0}};
    for (uint32_t d = 0; d < rank; d++) operands[d] = ends->at[d];
    operands[rank] = ends->shared_at;
    operands[1 + rank] = mask;
    kernel_emit(
        k, (AuInstr){.op = (uint8_t)op, .mem = ends->global, .also = {ends->shared}, .imm = map},
        operands, 2 + rank);
}

void kernel_bulk_load(AuKernel *k, const AuCopyEnds *ends, AuMem barrier, AuVal barrier_at,
                      AuVal bytes, AuVal mask)
{
    kernel_emit(
        k, (AuInstr){.op = AU_K_BULK_LOAD, .mem = ends->shared, .also = {ends->global, barrier}},
        (AuVal[]){ends->shared_at, ends->at[0], barrier_at, bytes, mask}, mask.i ? 5 : 4);
}

void kernel_bulk_store(AuKernel *k, AuKOp op, const AuCopyEnds *ends, AuVal bytes, AuVal mask)
{
    kernel_emit(k, (AuInstr){.op = (uint8_t)op, .mem = ends->global, .also = {ends->shared}},
                (AuVal[]){ends->at[0], ends->shared_at, bytes, mask}, mask.i ? 4 : 3);
}

void kernel_bulk_commit(AuKernel *k) { emit(k, AU_K_BULK_COMMIT, no_memory, 0, NULL, 0, no_mask); }

void kernel_bulk_wait(AuKernel *k, uint32_t groups, bool only_read)
{
    emit(k, AU_K_BULK_WAIT, no_memory, groups + (only_read ? 16 : 0), NULL, 0, no_mask);
}

void kernel_registers(AuKernel *k, uint32_t count)
{
    emit(k, AU_K_REGISTERS, no_memory, count, NULL, 0, no_mask);
}
