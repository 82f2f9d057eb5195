/* verify_async.c - barriers between executors that go different ways, and what goes on beside them. */
#include "verify.h"

/* A memory that one operation on barriers names holds barriers. */
void verify_find_objects(AuVerifier *v)
{
    v->objects = AU_NEW_ARRAY(v->diags->arena, bool, v->k->mem_count);
    for (uint32_t i = 1; i < v->k->instr_count; i++) {
        const AuInstr *in = &v->k->instrs[i];
        const bool object = in->op == AU_K_MBAR_INIT || in->op == AU_K_MBAR_ARRIVE ||
                            in->op == AU_K_MBAR_EXPECT || in->op == AU_K_MBAR_WAIT;
        if (object && in->mem.i < v->k->mem_count) v->objects[in->mem.i] = true;
    }
}

static void wants_uniform(AuVerifier *v, uint32_t i, uint32_t n, const char *what)
{
    if (v->lanes.kind[kernel_operand(v->k, &v->k->instrs[i], n).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "%s must be the same in all lanes", what);
}

static void check_named(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i], *id = kernel_at(v->k, kernel_operand(v->k, in, 0));
    const int64_t lanes = v->k->lanes;
    if (!verify_wants(v, i, 0, I32, 1, "a barrier, i32")) return;
    wants_uniform(v, i, 0, "the barrier");
    verify_range(v, i, lanes, lanes * v->k->warps);
    if (in->imm % lanes)
        verify_wrong(v, AU_E0808, i, "#%lld is no number of executors of %u lanes",
                     (long long)in->imm, v->k->lanes);
    if (id->op == AU_K_CONST && (id->imm < 1 || id->imm > 15))
        verify_wrong(v, AU_E0808, i, "there are barriers 1 to 15");
}

/* [from]: the first operand that may be left out. */
static void check_object(AuVerifier *v, uint32_t i, uint32_t from)
{
    const AuInstr *in = &v->k->instrs[i], *at = kernel_at(v->k, kernel_operand(v->k, in, 0));
    const AuMemory *m = &v->k->mems[in->mem.i];
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    for (uint32_t n = 1; n < from; n++) verify_wants(v, i, n, I32, 1, "i32");
    if (in->count > from) verify_wants(v, i, from, I1, 1, "a mask, i1");
    if (m->space != AU_SHARED || m->scalar != AU_I64 || m->swizzle)
        verify_wrong(v, AU_E0807, i, "@%s must be shared memory of i64", m->name);
    else if (at->op == AU_K_CONST && (at->imm < 0 || at->imm >= (int64_t)m->count))
        verify_wrong(v, AU_E0808, i, "@%s has %u elements", m->name, m->count);
}

static void check_wait(AuVerifier *v, uint32_t i)
{
    check_object(v, i, 2);
    wants_uniform(v, i, 0, "the barrier");
    wants_uniform(v, i, 1, "the phase");
}

static void check_group(AuVerifier *v, uint32_t i)
{
    if (!v->k->group)
        verify_wrong(v, AU_E0808, i, "is done by a group of executors, and the kernel has none");
    else if (v->differs_in_group)
        verify_wrong(v, AU_E0806, i,
                     "executors of the group do not all come here: what is around it differs "
                     "between them");
}

static void check_registers(AuVerifier *v, uint32_t i)
{
    verify_range(v, i, 24, 256);
    if (v->k->instrs[i].imm % 8)
        verify_wrong(v, AU_E0808, i, "#%lld is no multiple of 8", (long long)v->k->instrs[i].imm);
    if (v->begun) verify_wrong(v, AU_E0803, i, "must be the first of its region");
}

void verify_agent(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (kernel_op_info(in->op)->flags & AU_KF_GROUP) check_group(v, i);
    switch ((int)in->op) {
    case AU_K_SYNC:
    case AU_K_ARRIVE: check_named(v, i); return;
    case AU_K_MBAR_ARRIVE: check_object(v, i, 1); return;
    case AU_K_MBAR_INIT:
    case AU_K_MBAR_EXPECT: check_object(v, i, 2); return;
    case AU_K_MBAR_WAIT: check_wait(v, i); return;
    case AU_K_REGISTERS: check_registers(v, i); return;
    }
}
