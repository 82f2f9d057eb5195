/* sums.c - sums of rows: lanes exchange what each has of them; or they lie in parts while a loop runs (`part`, `join`), what they
 * were before being kept by one lane of those that share it. */
#include "internal.h"

/* A copy whose sums over the lanes are marked as parts. */
const AuTileExpr *lower_in_parts(AuLower *l, const AuTileExpr *e)
{
    AuTileExpr *copy = AU_NEW(l->arena, AuTileExpr);
    *copy = *e;
    if (tile_is_sum(e) && tile_summed_lanes(e)) {
        copy->integer = LOWER_IN_PARTS;
        return copy;
    }
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(l->arena, copy->args.at, copy->args.count, copy->args.capacity,
                e->args.at[n] ? (AuTileExpr *)lower_in_parts(l, e->args.at[n]) : NULL);
    return copy;
}

/* The registers of the variable, which has an array. */
static uint32_t registers_of(AuLower *l, const AuTileStmt *s)
{
    const AuHeld *held = lower_held(l, s->var);
    if (held->as != HELD_ARRAY && held->as != HELD_CELL)
        lower_refuse(l, "%s, which is in no registers", s->var->name);
    return s->var->type->count ? lower_registers(s->var->type) : 1;
}

void lower_part(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    AuHeld *held = lower_held(l, s->var);
    const uint32_t registers = registers_of(l, s);
    const AuVal none = {0}, zero = kernel_i32(k, 0);
    const AuVal mine = kernel_op2(
        k, AU_K_EQ, kernel_op2(k, AU_K_AND, kernel_lane(k), kernel_i32(k, s->part.bits)), zero);
    held->in_parts = true;
    for (uint32_t r = 0; r < registers && !l->failed; r++) {
        const AuVal at = kernel_i32(k, (int32_t)r);
        const AuVal v = kernel_load(k, held->mem, at, 1, none, none);
        kernel_store(k, held->mem, at, kernel_op3(k, AU_K_SELECT, mine, v, kernel_f32(k, 0)), none);
    }
}

void lower_join(AuLower *l, const AuTileStmt *s)
{
    AuHeld *held = lower_held(l, s->var);
    held->in_parts = false;
    lower_join_lanes(l, held->mem, registers_of(l, s), (uint32_t)s->part.bits, AU_K_ADD);
}

void lower_join_lanes(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    if (bits && !(l->module->caps->exchange & TILE_EXCHANGE_ANY))
        lower_refuse(l, "a sum over lanes, which cannot exchange values");
    for (uint32_t r = 0; bits && r < registers; r++) {
        const AuVal at = kernel_i32(k, (int32_t)r);
        AuVal v = kernel_load(k, mem, at, 1, none, none);
        for (uint32_t bit = 1; bit < k->lanes; bit *= 2) {
            if (!(bits & bit)) continue;
            const AuInstr exchange = {.op = AU_K_SHUFFLE_XOR, .imm = (int64_t)bit, .span = l->span};
            v = kernel_op2(k, op, v, kernel_emit(k, exchange, &v, 1));
        }
        kernel_store(k, mem, at, v, none);
    }
}

/* Each lane leaves what it has and adds up what the same lanes of the other warps have left. */
void lower_join_warps(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    const AuRolePlan *plan = l->r.plan;
    const uint32_t all = k->lanes * registers, warps = plan->warps;
    const AuMem left = kernel_memory(k, (AuMemory){.name = "left",
                                                   .space = AU_SHARED,
                                                   .scalar = AU_F32,
                                                   .count = all * warps * plan->many,
                                                   .align = 16,
                                                   .reads = true,
                                                   .writes = true,
                                                   .span = l->span});
    const AuVal own = kernel_op2(k, AU_K_MUL, l->r.self, kernel_i32(k, (int32_t)(all * warps))),
                lane = kernel_op2(k, AU_K_ADD, own, kernel_lane(k)),
                mine = kernel_op2(k, AU_K_ADD, lane,
                                  kernel_op2(k, AU_K_MUL, l->r.warp, kernel_i32(k, (int32_t)all)));
    lower_meet_self(l); /* everybody has read what was left before */
    for (uint32_t r = 0; r < registers; r++)
        kernel_store(k, left, kernel_op2(k, AU_K_ADD, mine, kernel_i32(k, (int32_t)(r * k->lanes))),
                     kernel_load(k, mem, kernel_i32(k, (int32_t)r), 1, none, none), none);
    lower_meet_self(l);
    for (uint32_t r = 0; r < registers; r++) {
        AuVal sum = {0};
        for (uint32_t w = 0; w < warps; w++) {
            if (w & ~bits) continue;
            /* the warps that differ from this one in these bits: all of them, in one order */
            const AuVal which = kernel_op2(
                k, AU_K_OR, kernel_op2(k, AU_K_AND, l->r.warp, kernel_i32(k, (int32_t)~bits)),
                kernel_i32(k, (int32_t)w));
            const AuVal at =
                kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, which, kernel_i32(k, (int32_t)all)),
                           kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, (int32_t)(r * k->lanes))));
            const AuVal v = kernel_load(k, left, at, 1, none, none);
            sum = sum.i ? kernel_op2(k, op, sum, v) : v;
        }
        kernel_store(k, mem, kernel_i32(k, (int32_t)r), sum, none);
    }
}
