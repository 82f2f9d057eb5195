/* verify_group.c - products of a group of executors. */
#include "verify.h"

int64_t verify_constant(const AuVerifier *v, const AuInstr *in, uint32_t n)
{
    const AuInstr *c = kernel_at(v->k, kernel_operand(v->k, in, n));
    return c->op == AU_K_CONST && c->type.scalar == AU_I32 ? c->imm : -1;
}

/* [count] elements of each lane, at a constant index. */
static void check_registers(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem, AuScalar scalar,
                            int64_t count)
{
    const AuMemory *m = &v->k->mems[mem.i];
    const int64_t at = verify_constant(v, &v->k->instrs[i], n);
    if (m->space != AU_LANE || m->scalar != scalar)
        verify_wrong(v, AU_E0807, i, "@%s must be lane memory of %s", m->name,
                     kernel_scalar_name(scalar));
    else if (at < 0)
        verify_wrong(v, AU_E0808, i, "registers of @%s are at a constant i32", m->name);
    else if (at + count > (int64_t)m->count)
        verify_wrong(v, AU_E0808, i, "@%s has %u elements", m->name, m->count);
}

void verify_uniform(AuVerifier *v, uint32_t i, uint32_t n, const char *what)
{
    const bool group = kernel_op_info(v->k->instrs[i].op)->flags & AU_KF_GROUP;
    const AuLanes *lanes = group ? &v->group : &v->lanes;
    if (lanes->kind[kernel_operand(v->k, &v->k->instrs[i], n).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "%s must be the same in all %s", what,
                     group ? "executors of the group" : "lanes");
}

void verify_shared_operand(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem, const AuGroupOp *op,
                           bool turned, int64_t extent, int64_t stride)
{
    const AuMemory *m = &v->k->mems[mem.i];
    const int64_t line = m->swizzle / kernel_scalar_bytes(op->scalar);
    verify_wants(v, i, n, INT, 1, "an index, i32 or i64");
    verify_uniform(v, i, n, "the place of an operand");
    if (m->space != AU_SHARED || m->scalar != op->scalar)
        verify_wrong(v, AU_E0807, i, "@%s must be shared memory of %s", m->name,
                     kernel_scalar_name(op->scalar));
    else if (!m->swizzle || m->align < 8 * m->swizzle)
        verify_wrong(v, AU_E0807, i, "@%s must have a swizzle and be aligned to 8 of its rows",
                     m->name);
    else if (!turned && line < op->atom->k)
        verify_wrong(v, AU_E0807, i, "rows of @%s are shorter than the product is deep", m->name);
    else if (turned && extent > line && (stride < 8 * line || stride % (8 * line)))
        verify_wrong(v, AU_E0808, i, "parts of @%s that lie %lld apart are not aligned", m->name,
                     (long long)stride);
}

void verify_wgmma(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const int64_t columns = verify_constant(v, in, 4);
    AuFragment c;
    verify_range(v, i, 0, AU_GROUP_MATRICES - 1);
    if ((uint64_t)in->imm >= AU_GROUP_MATRICES || !v->k->group) return;
    const AuGroupOp op = kernel_group_matrix((AuGroupMatrix)in->imm);
    if (op.atom->tensor) {
        verify_wrong(v, AU_E0808, i, "%s has its sums in tensor memory", op.text);
        return;
    }
    const int64_t a_stride = verify_constant(v, in, 5), b_stride = verify_constant(v, in, 6);
    if (columns < 1 || columns > 256 || columns % op.atom->n || a_stride < 0 || b_stride < 0 ||
        !machine_group_fragment(op.atom, TILE_C, (int32_t)columns, &c)) {
        verify_wrong(v, AU_E0808, i,
                     "columns are a constant, a multiple of %d up to 256, strides too", op.atom->n);
        return;
    }
    if ((int64_t)v->k->lanes != op.atom->lanes || v->k->group != 1u << c.executor_bits) {
        verify_wrong(v, AU_E0808, i, "needs groups of %u executors of %d lanes",
                     1u << c.executor_bits, op.atom->lanes);
        return;
    }
    const int64_t lanes = (int64_t)v->k->lanes * v->k->group;
    check_registers(v, i, 0, in->mem, AU_F32, op.atom->m * columns / lanes);
    if (v->k->mems[in->also[0].i].space == AU_LANE && op.a_turned)
        verify_wrong(v, AU_E0807, i, "A in registers is always by rows");
    else if (v->k->mems[in->also[0].i].space == AU_LANE)
        check_registers(v, i, 1, in->also[0], op.scalar, op.atom->m * op.atom->k / lanes);
    else
        verify_shared_operand(v, i, 1, in->also[0], &op, op.a_turned, op.atom->m, a_stride);
    verify_shared_operand(v, i, 2, in->also[1], &op, op.b_turned, columns, b_stride);
    if (verify_wants(v, i, 3, I1, 1, "i1")) verify_uniform(v, i, 3, "whether it adds");
}

void verify_wgmma_wait(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMem named[3] = {in->mem, in->also[0], in->also[1]};
    verify_range(v, i, 0, 7);
    for (uint32_t n = 0; n < 3; n++)
        if (named[n].i && v->k->mems[named[n].i].space != AU_LANE)
            verify_wrong(v, AU_E0807, i, "@%s is no memory of lanes", v->k->mems[named[n].i].name);
}
