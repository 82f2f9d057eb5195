/* work.c - see work.h. */
#include "work.h"

#include "tensors.h"

#include "aule/artifact.h"

static const char name[] = "work_words";

bool work_add(AuDiags *diags, AuAttn *a)
{
    if (!attn_has_layout(a) || !a->online || a->work_size) return true;
    if (!driver_is_free(diags, a, a->size_count, name)) return false;
    a->work_size = 1 + a->size_count;
    attn_add_size(a, name, -1, a->span);
    return true;
}

AuExpr work_axis(AuAttn *a)
{
    return attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->work_size - 1, 0, a->span);
}

static bool is_work(const AuVariant *v, const AuArg *arg)
{
    return arg->source == AULE_SLOT_WORKSPACE && v->schedule->work[arg->source_index];
}

bool work_makes(const AuVariant *v, const AuKernel *k)
{
    for (uint32_t n = 1; n < k->mem_count; n++) {
        const AuMemory *m = &k->mems[n];
        if (m->space == AU_GLOBAL && m->writes && is_work(v, &k->args[m->arg])) return true;
    }
    return false;
}

/* Kernels have all tensors for arguments, whatever they do. */
static bool is_used(const AuKernel *k, uint32_t mem)
{
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        if (in->mem.i == mem || in->also[0].i == mem || in->also[1].i == mem) return true;
    }
    return false;
}

/* May a kernel that makes lists do this with the memory? It reads what there is before any other kernel has run. */
static bool is_right(const AuVariant *v, const AuMemory *m, const AuArg *arg)
{
    if (arg->source == AULE_SLOT_WORKSPACE) return is_work(v, arg);
    return !m->writes && v->tensors[arg->source_index].role == AULE_ROLE_INPUT;
}

bool work_verify(AuDiags *diags, const AuVariant *v)
{
    for (uint32_t i = 0; i < v->kernel_count; i++) {
        const AuKernel *k = v->kernels[i];
        for (uint32_t n = 1; work_makes(v, k) && n < k->mem_count; n++) {
            const AuMemory *m = &k->mems[n];
            if (m->space != AU_GLOBAL || !is_used(k, n)) continue;
            const AuArg *arg = &k->args[m->arg];
            if (is_right(v, m, arg)) continue;
            au_error(diags, AU_E0811, v->attn->span,
                     "a mistake in the schedule '%s': %s makes lists of work, and has a part in "
                     "'%s', which is no input and no list",
                     v->schedule->name, k->name, m->name);
            return false;
        }
    }
    return true;
}
