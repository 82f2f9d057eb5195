/* interpret_steps.c - from the tree of regions to a list of steps with jumps. */
#include "interpret.h"

static uint32_t add_step(AuMachine *m, AuStep s)
{
    AU_PUSH(m->arena, m->steps, m->step_count, m->step_capacity, s);
    return m->step_count - 1;
}

static uint32_t slot_of(const AuMachine *m, const AuInstr *in, uint32_t n)
{
    return n < in->count ? m->slot[kernel_operand(m->k, in, n).i] : 0;
}

/* A vector is put together by one copy for each element. */
static void flatten_vec(AuMachine *m, uint32_t i, AuStep s)
{
    const AuInstr *in = &m->k->instrs[i];
    s.op = AU_K_ELEMENT;
    s.n = m->k->lanes;
    for (uint32_t e = 0; e < in->count; e++) {
        s.a = slot_of(m, in, e);
        add_step(m, s);
        s.result += s.n * s.bytes;
    }
}

static void flatten_memory(AuMachine *m, const AuInstr *in, AuStep s)
{
    const bool loads =
        in->op == AU_K_LOAD || in->op == AU_K_ATOMIC_INC || in->op == AU_K_LOAD_MATRIX;
    const AuKType moved = loads ? in->type : kernel_at(m->k, kernel_operand(m->k, in, 1))->type;
    s.of = kernel_at(m->k, kernel_operand(m->k, in, 0))->type.scalar;
    s.bytes = (uint8_t)kernel_scalar_bytes(moved.scalar);
    s.width = moved.width;
    s.b = loads ? 0 : slot_of(m, in, 1);
    s.c = slot_of(m, in, loads ? 1 : 2);
    s.other = loads ? slot_of(m, in, 2) : 0;
    add_step(m, s);
}

static void flatten_copy(AuMachine *m, const AuInstr *in, AuStep s)
{
    s.of = kernel_at(m->k, kernel_operand(m->k, in, 0))->type.scalar;
    s.to = kernel_at(m->k, kernel_operand(m->k, in, 1))->type.scalar;
    s.bytes = (uint8_t)kernel_scalar_bytes(m->k->mems[in->mem.i].scalar);
    s.imm = kernel_copied(in->imm);
    s.b = slot_of(m, in, 1);
    s.other = slot_of(m, in, 2);
    s.c = slot_of(m, in, 3);
    add_step(m, s);
}

static void flatten_value(AuMachine *m, const AuInstr *in, AuStep s)
{
    const AuKOpInfo *info = kernel_op_info(in->op);
    const AuKType of =
        kernel_at(m->k, kernel_operand(m->k, in, info->rule == AU_R_SELECT ? 1 : 0))->type;
    s.of = of.scalar;
    s.b = in->count > 1 ? slot_of(m, in, 1) : s.a;
    s.c = in->count > 2 ? slot_of(m, in, 2) : s.a;
    if (in->op == AU_K_ELEMENT || in->op == AU_K_SLICE)
        s.a += (uint32_t)in->imm * m->k->lanes * s.bytes;
    if (in->op == AU_K_DOT2) s.of = kernel_at(m->k, kernel_operand(m->k, in, 1))->type.scalar;
    add_step(m, s);
}

static void flatten_for(AuMachine *m, const AuInstr *in, AuStep s)
{
    s.b = slot_of(m, in, 1);
    const uint32_t begin = add_step(m, s);
    kernel_flatten(m, in->body);
    s.op = AU_K_NONE;
    s.jump = begin + 1;
    const uint32_t end = add_step(m, s);
    m->steps[begin].jump = end + 1;
}

static void flatten_each(AuMachine *m, const AuInstr *in, AuStep s)
{
    const uint32_t begin = add_step(m, s);
    m->each = s.instr;
    kernel_flatten(m, in->body);
    s.op = AU_K_NONE;
    s.jump = begin + 1;
    add_step(m, s);
}

static void flatten_if(AuMachine *m, const AuInstr *in, AuStep s)
{
    const uint32_t begin = add_step(m, s);
    kernel_flatten(m, in->body);
    uint32_t end = m->step_count;
    if (in->other) {
        s.op = AU_K_NONE;
        end = add_step(m, s);
    }
    m->steps[begin].jump = m->step_count;
    if (!in->other) return;
    kernel_flatten(m, in->other);
    m->steps[end].jump = m->step_count;
}

void kernel_flatten(AuMachine *m, uint32_t first)
{
    for (uint32_t i = first; i; i = m->k->instrs[i].next) {
        const AuInstr *in = &m->k->instrs[i];
        const uint32_t flags = kernel_op_info(in->op)->flags;
        AuStep s = {.op = in->op,
                    .to = in->type.scalar,
                    .width = in->type.width,
                    .instr = i,
                    .jump = m->each,
                    .mem = in->mem.i,
                    .imm = in->imm};
        s.bytes = (uint8_t)kernel_scalar_bytes(in->type.scalar);
        s.n = m->k->lanes * in->type.width;
        s.result = m->slot[i];
        s.a = slot_of(m, in, 0);
        switch ((int)in->op) { /* what has no operands is filled in beforehand */
        case AU_K_CONST:
        case AU_K_ARG:
        case AU_K_BLOCK:
        case AU_K_BLOCKS:
        case AU_K_WARP:
        case AU_K_LANE:
        case AU_K_ELECT:
        case AU_K_PREFETCH: /* what is near changes no result */
        case AU_K_BLOCK_AHEAD:
        case AU_K_HINT:
        case AU_K_NOTE: continue;
        case AU_K_MATMUL:
        case AU_K_COPY_COMMIT:
        case AU_K_COPY_WAIT:
        case AU_K_GRID_NEXT:
        case AU_K_GRID_WAIT:
        case AU_K_BARRIER: add_step(m, s); continue;
        case AU_K_COPY_ASYNC: flatten_copy(m, in, s); continue;
        case AU_K_BLOCK_GATHER:
        case AU_K_BLOCK_LOAD: /* its operands: kernel_step_block */
            s.of = kernel_at(m->k, kernel_operand(m->k, in, 0))->type.scalar;
            add_step(m, s);
            continue;
        case AU_K_FOR: flatten_for(m, in, s); continue;
        case AU_K_IF: flatten_if(m, in, s); continue;
        case AU_K_MATRIX_EACH: flatten_each(m, in, s); continue;
        case AU_K_VEC: flatten_vec(m, i, s); continue;
        }
        if (flags & (AU_KF_AGENTS | AU_KF_OPAQUE | AU_KF_PLACE))
            add_step(m, s);
        else if (flags & AU_KF_MEM)
            flatten_memory(m, in, s);
        else
            flatten_value(m, in, s);
    }
}
