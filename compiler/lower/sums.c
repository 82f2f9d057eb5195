/* sums.c - warps: sums of rows that lanes keep in parts while a loop runs.
 *
 *     for .. { .. x = where(any, x * f + reduce_sum(p, kv), x) .. }
 *
 * Where a loop only scales x and adds to it, with factors that all lanes of a row share, the sum of
 * the lanes' parts obeys the same formula: each lane adds up its own elements, and the lanes exchange
 * once, after the loop. What x was before is kept by one lane of those that share it. */
#include "internal.h"

typedef enum Linear {
    FREE,    /* does not depend on x or the sums */
    LINEAR,  /* scales with them */
    NEITHER, /* depends otherwise */
} Linear;

typedef struct Search {
    const AuTileVar *x;
    uint32_t bits; /* of the lane, over which the sums go; 0: none found yet */
    bool good;
} Search;

static uint32_t summed_bits(const AuTileExpr *e)
{
    uint32_t bits = 0;
    const AuTileType *of = e->args.at[0]->type;
    for (uint32_t n = 0; n < of->count; n++)
        if (of->axes[n].places && !tile_axis(e->type, of->axes[n].name))
            bits |= lower_lane_bits(of->axes[n].places);
    return bits;
}

static bool is_zero(const AuTileExpr *e) { return e->op == TILE_X_FLOAT && e->number == 0; }

static bool is_sum(const AuTileExpr *e)
{
    return e->op == TILE_X_REDUCE_SUM || e->op == TILE_X_ROWSUM;
}

static Linear linearity(Search *s, const AuTileExpr *e)
{
    if (e->op == TILE_X_NAME && e->var == s->x) return LINEAR;
    if (is_sum(e)) {
        const uint32_t bits = summed_bits(e);
        s->good &= !lower_count_reads(e, s->x) && (!s->bits || s->bits == bits);
        if (bits) s->bits = bits;
        return bits ? LINEAR : FREE;
    }
    Linear of[3] = {FREE, FREE, FREE};
    bool free = true;
    for (uint32_t n = 0; n < e->args.count; n++) {
        const Linear arg = e->args.at[n] ? linearity(s, e->args.at[n]) : FREE;
        if (n < 3) of[n] = arg;
        free &= arg == FREE;
    }
    if (free) return FREE;
    const bool both = of[0] == LINEAR && of[1] == LINEAR;
    switch ((int)e->op) {
    case TILE_X_ADD:
    case TILE_X_SUB: return both ? LINEAR : NEITHER;
    case TILE_X_MUL:
        return (of[0] == LINEAR && of[1] == FREE) || (of[0] == FREE && of[1] == LINEAR) ? LINEAR
                                                                                        : NEITHER;
    case TILE_X_DIV: return of[0] == LINEAR && of[1] == FREE ? LINEAR : NEITHER;
    case TILE_X_NEG: return of[0];
    case TILE_X_WHERE:
        return of[0] == FREE && (of[1] == LINEAR || is_zero(e->args.at[1])) &&
                       (of[2] == LINEAR || is_zero(e->args.at[2]))
                   ? LINEAR
                   : NEITHER;
    default: return NEITHER;
    }
}

/* ---- is x used in the loop but for this one assignment? */

static uint32_t uses_in(const AuTileStmts *body, const AuTileVar *x);

static uint32_t uses_of(const AuTileStmt *s, const AuTileVar *x)
{
    uint32_t count = s->kind != TILE_S_FOR && s->var == x;
    switch (s->kind) {
    case TILE_S_FRAG: return count + lower_count_reads(s->frag.init, x);
    case TILE_S_ASSIGN: return count + lower_count_reads(s->assign.value, x);
    case TILE_S_LOAD:
        return count + lower_count_reads(s->load.source, x) + lower_count_reads(s->load.when, x);
    case TILE_S_MOVE:
        return count + lower_count_reads(s->move.source, x) + lower_count_reads(s->move.dest, x) +
               lower_count_reads(s->move.when, x);
    case TILE_S_PRODUCT:
        return count + lower_count_reads(s->product.a, x) + lower_count_reads(s->product.b, x);
    case TILE_S_FOR:
        return lower_count_reads(s->loop.low, x) + lower_count_reads(s->loop.high, x) +
               uses_in(&s->loop.body, x);
    case TILE_S_IF:
        return lower_count_reads(s->branch.test, x) + uses_in(&s->branch.then, x) +
               uses_in(&s->branch.other, x);
    case TILE_S_ON: return uses_in(&s->on.body, x);
    case TILE_S_PRIVATE:
    case TILE_S_CONVERT:
    case TILE_S_WAIT:
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE:
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
    case TILE_S_SYNC:
    case TILE_S_ARRIVE:
    case TILE_S_RETURN: break;
    }
    return count;
}

static uint32_t uses_in(const AuTileStmts *body, const AuTileVar *x)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) count += uses_of(body->at[n], x);
    return count;
}

/* ---- the loop's body with sums in parts */

/* A copy whose sums over the lanes are marked as parts. */
static AuTileExpr *in_parts(AuLower *l, const AuTileExpr *e)
{
    AuTileExpr *copy = AU_NEW(l->arena, AuTileExpr);
    *copy = *e;
    if (is_sum(e) && summed_bits(e)) {
        copy->integer = LOWER_IN_PARTS;
        return copy;
    }
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(l->arena, copy->args.at, copy->args.count, copy->args.capacity,
                e->args.at[n] ? in_parts(l, e->args.at[n]) : NULL);
    return copy;
}

static bool can_wait(AuLower *l, const AuTileStmts *body, const AuTileStmt *s, uint32_t *bits)
{
    if (s->kind != TILE_S_ASSIGN || !s->var || s->var->kind != TILE_VALUE ||
        s->var->type->elem != TILE_F32)
        return false;
    const AuHeld *held = lower_held(l, s->var);
    if (held->as != HELD_ARRAY && held->as != HELD_CELL) return false;
    Search search = {.x = s->var, .good = true};
    const bool linear = linearity(&search, s->assign.value) == LINEAR;
    *bits = search.bits;
    return linear && search.good && search.bits &&
           uses_in(body, s->var) == 1 + lower_count_reads(s->assign.value, s->var);
}

/* Of the lanes that share a row the first keeps what x was. */
static void keep_in_one(AuLower *l, const AuPartialSum *sum)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, zero = kernel_i32(k, 0);
    const AuVal mine = kernel_op2(
        k, AU_K_EQ, kernel_op2(k, AU_K_AND, kernel_lane(k), kernel_i32(k, (int32_t)sum->bits)),
        zero);
    for (uint32_t r = 0; r < sum->registers; r++) {
        const AuVal at = kernel_i32(k, (int32_t)r);
        const AuVal v = kernel_load(k, sum->mem, at, 1, none, none);
        kernel_store(k, sum->mem, at, kernel_op3(k, AU_K_SELECT, mine, v, kernel_f32(k, 0)), none);
    }
}

AuTileStmts lower_sums_begin(AuLower *l, const AuTileStmts *body, AuPartialSums *sums)
{
    AuTileStmts out = {0};
    sums->count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        uint32_t bits = 0;
        if (sums->count < LOWER_PARTIAL_SUMS && can_wait(l, body, s, &bits)) {
            AuTileStmt *copy = AU_NEW(l->arena, AuTileStmt);
            *copy = *s;
            copy->assign.value = in_parts(l, s->assign.value);
            AuPartialSum *sum = &sums->at[sums->count++];
            *sum =
                (AuPartialSum){.mem = lower_held(l, s->var)->mem,
                               .registers = s->var->type->count ? lower_registers(s->var->type) : 1,
                               .bits = bits};
            keep_in_one(l, sum);
            s = copy;
        }
        AU_PUSH(l->arena, out.at, out.count, out.capacity, s);
    }
    return out;
}

void lower_join_lanes(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
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

void lower_sums_end(AuLower *l, const AuPartialSums *sums)
{
    for (uint32_t n = 0; n < sums->count; n++)
        lower_join_lanes(l, sums->at[n].mem, sums->at[n].registers, sums->at[n].bits, AU_K_ADD);
}
