/* verify_grids.c - a kernel that may begin before those before it have ended: it waits for them once, all of it, and before that touches
 * nothing that they have a part in. */
#include "verify.h"

static bool is_earlier(const AuKernel *k, AuMem mem)
{
    return k->mems[mem.i].space == AU_GLOBAL && k->mems[mem.i].earlier;
}

static void check_touch(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMem all[3] = {in->mem, in->also[0], in->also[1]};
    for (uint32_t n = 0; n < 3; n++)
        if (is_earlier(v->k, all[n]) && !v->grid_wait)
            verify_wrong(v, AU_E0807, i,
                         "@%s belongs to kernels before this one, for which nobody has waited",
                         v->k->mems[all[n].i].name);
}

static void check_number(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (!in->count) return;
    const AuKType of = v->k->instrs[kernel_operand(v->k, in, 0).i].type;
    if (of.scalar != AU_I32 || of.width != 1)
        verify_wrong(v, AU_E0804, i, "what is there before the wait is an i32");
}

void verify_grids(AuVerifier *v, uint32_t i)
{
    const AuKOp op = (AuKOp)v->k->instrs[i].op;
    check_touch(v, i);
    if (op != AU_K_GRID_NEXT && op != AU_K_GRID_WAIT) return;
    check_number(v, i);
    bool *met = op == AU_K_GRID_WAIT ? &v->grid_wait : &v->grid_next;
    if (v->depth) verify_wrong(v, AU_E0803, i, "stands outside of loops and conditions");
    if (*met) verify_wrong(v, AU_E0803, i, "stands once in a kernel");
    *met = true;
}
