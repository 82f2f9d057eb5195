/* unroll.c - writes out the turns of loops that are marked for it and have constant bounds, for
 * generators whose compilers do not: LANE memories are then indexed by constants and become
 * registers. The kernel is built anew, so that constants fold on the way. */
#include "internal.h"

typedef struct Unroll {
    AuKernel *k;
    AuVal *map; /* of old instructions to new */
    uint64_t most;
} Unroll;

static void region(Unroll *u, uint32_t first);

static uint64_t size_of(const AuKernel *k, uint32_t first)
{
    uint64_t size = 0;
    for (uint32_t i = first; i; i = k->instrs[i].next)
        size += 1 + size_of(k, k->instrs[i].body) + size_of(k, k->instrs[i].other);
    return size;
}

/* Constant bounds, marked, and not too much text. */
static bool is_written_out(const Unroll *u, const AuInstr *in, AuVal low, AuVal high)
{
    const AuInstr *from = kernel_at(u->k, low), *to = kernel_at(u->k, high);
    if (in->op != AU_K_FOR || in->unroll != AU_UNROLL_FULL || from->op != AU_K_CONST ||
        to->op != AU_K_CONST)
        return false;
    const int64_t distance = in->imm > 0 ? to->imm - from->imm : from->imm - to->imm,
                  step = in->imm > 0 ? in->imm : -in->imm;
    if (distance <= 0) return true;
    return (uint64_t)((distance + step - 1) / step) <= u->most / (size_of(u->k, in->body) + 1);
}

static void turns(Unroll *u, uint32_t i, const AuInstr *in, int64_t low, int64_t high)
{
    for (int64_t n = low; in->imm > 0 ? n < high : n > high; n += in->imm) {
        u->map[i] = kernel_i32(u->k, (int32_t)n);
        region(u, in->body);
    }
}

static void structure(Unroll *u, uint32_t i, const AuInstr *in, const AuVal *operands)
{
    AuKernel *k = u->k;
    if (is_written_out(u, in, operands[0], operands[1])) {
        turns(u, i, in, kernel_at(k, operands[0])->imm, kernel_at(k, operands[1])->imm);
        return;
    }
    if (in->op == AU_K_MATRIX_EACH)
        kernel_matrix_each(k, (AuOpaque){in->mem, operands[0]});
    else if (in->op == AU_K_FOR)
        u->map[i] = kernel_for(k, operands[0], operands[1], (int32_t)in->imm, (AuUnroll)in->unroll);
    else
        kernel_if(k, operands[0]);
    const uint32_t owner = k->stack[k->depth].owner;
    k->instrs[owner].text = in->text;
    k->instrs[owner].span = in->span;
    region(u, in->body);
    if (in->other) {
        kernel_else(k);
        region(u, in->other);
    }
    kernel_end(k);
}

static void region(Unroll *u, uint32_t first)
{
    for (uint32_t i = first; i; i = u->k->instrs[i].next) {
        AuInstr in = u->k->instrs[i];
        AuVal operands[16] = {{0}};
        for (uint32_t n = 0; n < in.count; n++)
            operands[n] = u->map[kernel_operand(u->k, &in, n).i];
        if (kernel_op_info(in.op)->flags & AU_KF_REGION)
            structure(u, i, &in, operands);
        else {
            const AuInstr old = in;
            in.next = 0;
            u->map[i] = kernel_emit(u->k, in, operands, old.count);
        }
    }
}

void kernel_unroll(AuKernel *k, uint32_t most)
{
    Unroll u = {k, AU_NEW_ARRAY(k->arena, AuVal, k->instr_count), most};
    const uint32_t first = k->body;
    k->body = 0;
    k->stack[0] = (struct AuBuildPoint){0};
    region(&u, first);
}
