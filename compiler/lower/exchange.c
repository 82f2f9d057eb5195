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

/* Of [count] numbers from [first] on, [step] apart, of lanes that [are]; none: all are. */
static AuVal sum_of_row(AuLower *l, AuMem left, AuVal first, int32_t count, int32_t step, AuVal are,
                        AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, zero = kernel_i32(k, 0), nothing = are.i ? kernel_f32(k, 0) : none;
    const AuVal begin = kernel_load(k, left, first, 1, are, nothing);
    if (count == 1) return begin;
    const AuMem total = lower_array(l, "total", AU_F32, 1);
    kernel_store(k, total, zero, begin, none);
    const AuVal n = kernel_for(k, kernel_i32(k, 1), kernel_i32(k, count), 1, AU_UNROLL_NEVER);
    const AuVal at =
        kernel_op2(k, AU_K_ADD, first, kernel_op2(k, AU_K_MUL, n, kernel_i32(k, step)));
    const AuVal v = kernel_load(k, left, at, 1, are, nothing);
    const AuVal sum = kernel_load(k, total, zero, 1, none, none);
    kernel_store(k, total, zero, kernel_op2(k, op, sum, v), none);
    kernel_end(k);
    return kernel_load(k, total, zero, 1, none, none);
}

/* Lanes that share out a row, where there are [count]: each adds up its neighbours, and leaves the sum where the first of them was. */
static int32_t parts_of_row(const AuLower *l, uint32_t count)
{
    int32_t parts = (int32_t)l->k->lanes;
    while (parts > 1 && (uint32_t)parts * count > l->k->lanes) parts /= 2;
    return parts;
}

static void add_up_parts(AuLower *l, AuMem left, uint32_t count, int32_t parts, AuKOp op)
{
    AuKernel *k = l->k;
    const int32_t lanes = (int32_t)k->lanes, each = lanes / parts;
    const AuVal own = kernel_op2(k, AU_K_IDIV, kernel_lane(k), kernel_i32(k, parts)),
                part = kernel_op2(k, AU_K_IMOD, kernel_lane(k), kernel_i32(k, parts)),
                last = kernel_i32(k, (int32_t)count - 1);
    const bool all = parts * (int32_t)count == lanes;
    const AuVal row = all ? own : kernel_op2(k, AU_K_MIN, own, last),
                mine = all ? (AuVal){0} : kernel_op2(k, AU_K_LE, own, last);
    const AuVal at = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, row, kernel_i32(k, lanes + 1)),
                                kernel_op2(k, AU_K_MUL, part, kernel_i32(k, each)));
    kernel_store(k, left, at, sum_of_row(l, left, at, each, 1, mine, op), mine);
    lower_meet_self(l);
}

/* Rows are a number longer than there are lanes, so that neither who leaves a row nor who adds rows up meets others in a bank. Each row is
 * added up by as many lanes as there are for it, and then, what these have left, by all for themselves. */
static void join_some(AuLower *l, AuMem mem, uint32_t first, uint32_t count, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, lane = kernel_lane(k), pitch = kernel_i32(k, (int32_t)k->lanes + 1),
                begin = kernel_i32(k, (int32_t)first);
    const AuMem left = rows_of_lanes(l);
    const int32_t parts = parts_of_row(l, count), lanes = (int32_t)k->lanes;
    lower_meet_self(l); /* everybody has read what was left before */
    for (Each e = each(l, count); next(l, &e);) {
        const AuVal v =
            kernel_load(k, mem, kernel_op2(k, AU_K_ADD, begin, e.number), 1, none, none);
        kernel_store(k, left,
                     kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, e.number, pitch), lane), v,
                     none);
    }
    lower_meet_self(l);
    if (parts < lanes) add_up_parts(l, left, count, parts, op);
    for (Each e = each(l, count); next(l, &e);) {
        const AuVal row = kernel_op2(k, AU_K_MUL, e.number, pitch);
        const AuVal sum = sum_of_row(l, left, row, parts, lanes / parts, none, op);
        kernel_store(k, mem, kernel_op2(k, AU_K_ADD, begin, e.number), sum, none);
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
