/* exchange.c - sums and maxima among the lanes of an executor: each lane has some registers, and gets for each of them what
 * all lanes that share a row have of it. Lanes that see each other's values shuffle them. Others leave them in
 * memory that they share, a few registers at a time, each a row of it, which one lane adds up for all. */
#include "internal.h"

enum { MOST_LISTED = 4 }; /* registers that are not worth a loop */

AuVal lower_ask_lane(AuLower *l, AuVal value, AuVal lane)
{
    const AuInstr shuffle = {.op = AU_K_SHUFFLE, .span = l->span};
    return kernel_emit(l->k, shuffle, (AuVal[]){value, lane}, 2);
}

static AuVal shuffled(AuLower *l, AuVal v, uint32_t bits, AuKOp op)
{
    AuKernel *k = l->k;
    for (uint32_t bit = 1; bit < k->lanes; bit *= 2) {
        if (!(bits & bit)) continue;
        const AuInstr exchange = {.op = AU_K_SHUFFLE_XOR, .imm = (int64_t)bit, .span = l->span};
        v = kernel_op2(k, op, v, kernel_emit(k, exchange, &v, 1));
    }
    return v;
}

/* The registers one after another: written out, where their numbers have to be constants or they are few. */
typedef struct Each {
    bool loops;
    uint32_t at, count;
    AuVal number;
} Each;

static Each each(const AuLower *l, uint32_t count)
{
    const AuUnit *unit = l->r.unit;
    return (Each){.loops = !unit->written_out && !unit->vectors && count > MOST_LISTED,
                  .count = count};
}

static bool next(AuLower *l, Each *e)
{
    AuKernel *k = l->k;
    if (e->loops && e->at) kernel_end(k);
    if (e->at == (e->loops ? 1 : e->count)) return false;
    e->number = e->loops ? kernel_for(k, kernel_i32(k, 0), kernel_i32(k, (int32_t)e->count), 1,
                                      AU_UNROLL_NEVER)
                         : kernel_i32(k, (int32_t)e->at);
    e->at++;
    return true;
}

/* ---- by way of memory */

/* Of the executor, and of the kernel: there is one. */
static AuMem rows_of_lanes(AuLower *l)
{
    if (!l->left.i)
        l->left =
            kernel_memory(l->k, (AuMemory){.name = "left",
                                           .space = AU_EXEC,
                                           .scalar = AU_F32,
                                           .count = (uint32_t)tile_exchange_words(l->module->caps),
                                           .align = 16,
                                           .reads = true,
                                           .writes = true,
                                           .span = l->span});
    return l->left;
}

static AuVal sum_of_row(AuLower *l, AuMem left, AuVal row, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, zero = kernel_i32(k, 0);
    const AuMem total = lower_array(l, "total", AU_F32, 1);
    kernel_store(k, total, zero, kernel_load(k, left, row, 1, none, none), none);
    const AuVal n =
        kernel_for(k, kernel_i32(k, 1), kernel_i32(k, (int32_t)k->lanes), 1, AU_UNROLL_NEVER);
    const AuVal v = kernel_load(k, left, kernel_op2(k, AU_K_ADD, row, n), 1, none, none);
    const AuVal sum = kernel_load(k, total, zero, 1, none, none);
    kernel_store(k, total, zero, kernel_op2(k, op, sum, v), none);
    kernel_end(k);
    return kernel_load(k, total, zero, 1, none, none);
}

/* Rows are a number longer than there are lanes, so that neither who leaves a row nor who adds rows up meets others in a bank. */
static void join_some(AuLower *l, AuMem mem, uint32_t first, uint32_t count, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, lane = kernel_lane(k), all = kernel_i32(k, (int32_t)k->lanes),
                pitch = kernel_i32(k, (int32_t)k->lanes + 1), begin = kernel_i32(k, (int32_t)first),
                last = kernel_i32(k, (int32_t)count - 1);
    const AuMem left = rows_of_lanes(l);
    lower_meet_self(l); /* everybody has read what was left before */
    for (Each e = each(l, count); next(l, &e);) {
        const AuVal v =
            kernel_load(k, mem, kernel_op2(k, AU_K_ADD, begin, e.number), 1, none, none);
        kernel_store(k, left,
                     kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, e.number, pitch), lane), v,
                     none);
    }
    lower_meet_self(l);
    if (count == 1) { /* each lane by itself: a meeting less */
        kernel_store(k, mem, begin, sum_of_row(l, left, kernel_i32(k, 0), op), none);
        return;
    }
    const AuVal mine =
        count < k->lanes ? kernel_op2(k, AU_K_LE, lane, last) : none; /* rows that there are */
    const AuVal row =
        kernel_op2(k, AU_K_MUL, mine.i ? kernel_op2(k, AU_K_MIN, lane, last) : lane, pitch);
    const AuVal sum = sum_of_row(l, left, row, op);
    kernel_store(k, left, kernel_op2(k, AU_K_ADD, row, all), sum, mine);
    lower_meet_self(l);
    for (Each e = each(l, count); next(l, &e);) {
        const AuVal at = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, e.number, pitch), all);
        kernel_store(k, mem, kernel_op2(k, AU_K_ADD, begin, e.number),
                     kernel_load(k, left, at, 1, none, none), none);
    }
}

static void join_via_memory(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op)
{
    const uint32_t most = (uint32_t)tile_exchange_words(l->module->caps) / (l->k->lanes + 1);
    if (bits != l->k->lanes - 1) {
        lower_refuse(l, "a sum over some of the lanes, which cannot exchange values");
        return;
    }
    for (uint32_t first = 0; first < registers; first += most)
        join_some(l, mem, first, registers - first < most ? registers - first : most, op);
}

void lower_join_lanes(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    if (!bits) return;
    if (!(l->module->caps->exchange & TILE_EXCHANGE_ANY)) {
        join_via_memory(l, mem, registers, bits, op);
        return;
    }
    for (Each e = each(l, registers); next(l, &e);)
        kernel_store(k, mem, e.number,
                     shuffled(l, kernel_load(k, mem, e.number, 1, none, none), bits, op), none);
}
