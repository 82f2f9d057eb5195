/* grids.c - kernels of one operation that overlap. Each is launched behind the one before; a kernel that waits by itself (`grid_wait`) may
 * begin while those still run: its launch costs nothing then, and what it does before the wait is done beside them.
 *
 * The wait comes before the first thing, outside of loops and conditions, that touches what kernels before have a part in, or, where there
 * is nothing of that kind, at the end: a grid has ended only when all before it have, so the one after it need not know of those.
 *
 * Regions of the workspace are apart. Tensors of the caller may lie on each other (states in place): a tensor waits if one before wrote any, and
 * what writes one waits always. (CUDA programming guide, "Programmatic Dependent Launch"; PTX ISA, griddepcontrol.) */
#include "grids.h"

#include "aule/artifact.h"

static bool is_region(const AuArg *a) { return a->source == AULE_SLOT_WORKSPACE; }

/* May [m], of a kernel, and [other], of one before it, be in each other's way? */
static bool meets(const AuKernel *k, const AuMemory *m, const AuKernel *before,
                  const AuMemory *other)
{
    if (m->space != AU_GLOBAL || other->space != AU_GLOBAL) return false;
    if (!m->writes && !other->writes) return false;
    const AuArg *a = &k->args[m->arg], *b = &before->args[other->arg];
    if (is_region(a) != is_region(b)) return false;
    return !is_region(a) || a->source_index == b->source_index;
}

static void mark(AuKernel *k, const AuKernel *before)
{
    for (uint32_t m = 1; m < k->mem_count; m++)
        for (uint32_t n = 1; n < before->mem_count; n++)
            k->mems[m].earlier |= meets(k, &k->mems[m], before, &before->mems[n]);
}

static bool touches(const AuKernel *k, uint32_t i)
{
    const AuInstr *in = &k->instrs[i];
    if (k->mems[in->mem.i].earlier || k->mems[in->also[0].i].earlier ||
        k->mems[in->also[1].i].earlier)
        return true;
    for (uint32_t n = in->body; n; n = k->instrs[n].next)
        if (touches(k, n)) return true;
    for (uint32_t n = in->other; n; n = k->instrs[n].next)
        if (touches(k, n)) return true;
    return false;
}

/* Behind instruction [last] of the kernel's own region; 0: first. */
static void insert(AuKernel *k, AuKOp op, uint32_t last)
{
    const AuInstr in = {.op = (uint8_t)op,
                        .next = last ? k->instrs[last].next : k->body,
                        .first = k->operand_count};
    AU_PUSH(k->arena, k->instrs, k->instr_count, k->instr_capacity, in);
    if (last)
        k->instrs[last].next = k->instr_count - 1;
    else
        k->body = k->instr_count - 1;
}

static void insert_wait(AuKernel *k)
{
    uint32_t last = 0;
    for (uint32_t i = k->body; i && !touches(k, i); i = k->instrs[i].next) last = i;
    insert(k, AU_K_GRID_WAIT, last);
}

void grids_overlap(AuKernel *const *kernels, uint32_t count)
{
    for (uint32_t n = 1; n < count; n++) {
        for (uint32_t before = 0; before < n; before++) mark(kernels[n], kernels[before]);
        insert_wait(kernels[n]);
    }
    for (uint32_t n = 0; n + 1 < count; n++) insert(kernels[n], AU_K_GRID_NEXT, 0);
}

bool grids_waits(const AuKernel *k)
{
    for (uint32_t i = k->body; i; i = k->instrs[i].next)
        if (k->instrs[i].op == AU_K_GRID_WAIT) return true;
    return false;
}
