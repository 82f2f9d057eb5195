/* sums.c - sums of rows: lanes exchange what each has of them; or they lie in parts while a loop runs (`part`, `join`), what they
 * were before being kept by one lane of those that share it. */
#include "internal.h"

enum { MOST_REGISTERS = 64 }; /* of a running sum */

/* A copy whose sums over the lanes are marked as parts. */
AuTileExpr *lower_in_parts(AuLower *l, AuTileExpr *e)
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
                e->args.at[n] ? lower_in_parts(l, e->args.at[n]) : NULL);
    return copy;
}

/* A copy whose maximum, if it is an increasing function of that, is marked as a part. */
AuTileExpr *lower_asked_in_parts(AuLower *l, AuTileExpr *e)
{
    const AuTileExpr *factor = e->op == TILE_X_MUL ? e->args.at[1] : NULL;
    const bool increases = e->op == TILE_X_NOT || e->op == TILE_X_LT || e->op == TILE_X_ADD ||
                           (factor && factor->op == TILE_X_FLOAT && factor->number > 0);
    const bool reduces = e->op == TILE_X_REDUCE_TOP || e->op == TILE_X_REDUCE_MAX;
    if (!reduces && !increases) return e;
    AuTileExpr *copy = AU_NEW(l->arena, AuTileExpr);
    *copy = *e;
    if (reduces) {
        copy->integer = LOWER_IN_PARTS;
        return copy;
    }
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(l->arena, copy->args.at, copy->args.count, copy->args.capacity,
                n ? e->args.at[n] : lower_asked_in_parts(l, e->args.at[n]));
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

/* ---- running sums: digit by digit of the axis, the fastest first. Of each register is known the sum up to it in its block, the indices
 * that the digits so far tell apart, and that of the whole block. */

typedef struct Scan {
    AuVal upto[MOST_REGISTERS], all[MOST_REGISTERS];
    int32_t registers;
} Scan;

/* Blocks side by side in registers, [apart] registers from one to the next. */
static void scan_registers(AuLower *l, Scan *x, int32_t size, int32_t apart)
{
    AuKernel *k = l->k;
    for (int32_t first = 0; first < x->registers; first++) {
        if (first / apart % size) continue;
        AuVal sum = x->all[first];
        for (int32_t d = 1; d < size; d++) {
            const int32_t r = first + d * apart;
            const AuVal all = x->all[r];
            x->upto[r] = kernel_op2(k, AU_K_ADD, sum, x->upto[r]);
            sum = kernel_op2(k, AU_K_ADD, sum, all);
        }
        for (int32_t d = 0; d < size; d++) x->all[first + d * apart] = sum;
    }
}

static AuVal from_lane(AuLower *l, AuVal value, AuVal lane)
{
    const AuInstr shuffle = {.op = AU_K_SHUFFLE, .span = l->span};
    return kernel_emit(l->k, shuffle, (AuVal[]){value, lane}, 2);
}

/* Blocks side by side in lanes: sums over twice as many at each step, then shifted by one. */
static void scan_lanes(AuLower *l, Scan *x, const AuAxisDigit *digit)
{
    AuKernel *k = l->k;
    const AuVal lane = kernel_lane(k), zero = kernel_f32(k, 0),
                stride = kernel_i32(k, digit->apart),
                place = kernel_op2(k, AU_K_IMOD, kernel_op2(k, AU_K_IDIV, lane, stride),
                                   kernel_i32(k, digit->size)),
                last = kernel_i32(k, (digit->size - 1) * digit->apart);
    for (int32_t r = 0; r < x->registers; r++) {
        AuVal sum = x->all[r];
        for (int32_t step = 1; step <= digit->size; step *= 2) {
            const bool shifts = step == digit->size;
            const int32_t far = shifts ? 1 : step;
            const AuVal there = kernel_op2(k, AU_K_SUB, lane, kernel_i32(k, far * digit->apart));
            const AuVal before =
                kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_LE, kernel_i32(k, far), place),
                           from_lane(l, sum, there), zero);
            if (shifts) {
                x->upto[r] = kernel_op2(k, AU_K_ADD, before, x->upto[r]);
                x->all[r] = from_lane(l, sum, kernel_op2(k, AU_K_OR, lane, last));
            } else
                sum = kernel_op2(k, AU_K_ADD, before, sum);
        }
    }
}

/* The axis that the sum runs along, of a value that has another one at most. */
static const AuTileAxis *scanned_axis(const AuTileType *type, const AuTileExpr *sum)
{
    for (uint32_t n = 0; n < type->count && type->count <= 2; n++)
        if (type->axes[n].name == sum->names.at[0]) return &type->axes[n];
    return NULL;
}

static bool can_scan(const AuLower *l, const AuTileType *type, const AuTileAxis *axis)
{
    for (uint32_t n = 0; n < type->count; n++)
        if (!type->axes[n].places || (type->count > 1 && lower_is_grouped(l, &type->axes[n])))
            return false;
    if (!axis || tile_axis_registers(axis->places) > MOST_REGISTERS || tile_warp_bits(axis->places))
        return false;
    const AuAxisDigits digits = lower_digits(axis->places);
    for (uint32_t n = 0; n < digits.count; n++) {
        const AuAxisDigit *d = &digits.at[n];
        const bool power = !(d->size & (d->size - 1)) && !(d->apart & (d->apart - 1));
        if (d->unit == TILE_UNIT_LANE &&
            (!power || !(l->module->caps->exchange & TILE_EXCHANGE_ANY)))
            return false;
    }
    return true;
}

/* Register [r] along the axis, [other] along the other one. */
static AuPoint point_on(AuLower *l, const AuTileType *type, const AuTileAxis *axis, int32_t r,
                        int32_t other)
{
    AuPoint p = {.count = type->count};
    for (uint32_t n = 0; n < type->count; n++)
        p.at[n] = lower_coord_in_groups(l, &type->axes[n], &type->axes[n] == axis ? r : other);
    return p;
}

static void scan(AuLower *l, Scan *x, const AuTileAxis *axis)
{
    const AuAxisDigits digits = lower_digits(axis->places);
    for (uint32_t n = 0; n < digits.count; n++) {
        const AuAxisDigit *d = &digits.at[n];
        if (d->unit == TILE_UNIT_LANE)
            scan_lanes(l, x, d);
        else
            scan_registers(l, x, d->size, d->apart);
    }
}

void lower_running_sum(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    AuTileExpr *of = tile_assigned(s)->args.at[0];
    const AuTileType *type = s->var->type;
    const AuTileAxis *axis = scanned_axis(type, tile_assigned(s));
    const AuVal none = {0};
    Scan x;
    if (!can_scan(l, type, axis)) {
        lower_refuse(l, "a running sum of this layout");
        return;
    }
    int32_t others = 1;
    for (uint32_t n = 0; n < type->count; n++)
        if (&type->axes[n] != axis) others = tile_axis_registers(type->axes[n].places);
    x.registers = tile_axis_registers(axis->places);
    for (int32_t other = 0; other < others; other++) {
        const uint32_t known_before = lower_reductions(l, of);
        for (int32_t r = 0; r < x.registers; r++) {
            const AuPoint p = point_on(l, type, axis, r, other);
            x.upto[r] = x.all[r] = lower_as(l, lower_eval(l, of, &p), AU_F32);
        }
        l->r.known_count = known_before;
        scan(l, &x, axis);
        for (int32_t r = 0; r < x.registers; r++) {
            const AuPoint p = point_on(l, type, axis, r, other);
            kernel_store(k, lower_var_array(l, s->var), lower_register(l, type, &p), x.upto[r],
                         none);
        }
    }
}
