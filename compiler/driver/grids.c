/* grids.c - kernels of one operation that overlap. Each is launched behind the one before; a kernel that waits by itself (`grid_wait`) may
 * begin while those still run: its launch costs nothing then, and what it does before the wait is done beside them.
 *
 * The wait comes before the first thing, outside of loops and conditions, that touches what kernels before have a part in, or, where there
 * is nothing of that kind, at the end: a grid has ended only when all before it have, so the one after it need not know of those.
 *
 * The next grid begins when all blocks of this one have said that it may (`grid_next`), which they do first of all; but where it needs what grids before
 * this one left, lists say, and nothing of this one, they do so behind their wait: when it begins those have ended, and it waits for nothing. Short
 * kernels do not: to wait for them costs little, and who does may be such a one in its turn.
 *
 * Regions of the workspace are apart, and so are tensors of which one is written: a call refuses others (docs/artifact.md). (CUDA programming guide, "Programmatic Dependent Launch"; PTX ISA, griddepcontrol.) */
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
    return is_region(a) == is_region(b) && a->source_index == b->source_index;
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

/* Behind instruction [last] of the kernel's own region, 0: first; its number. */
static uint32_t insert(AuKernel *k, AuInstr in, const AuVal *operands, uint32_t last)
{
    in.next = last ? k->instrs[last].next : k->body;
    in.first = k->operand_count;
    for (uint32_t n = 0; n < in.count; n++)
        AU_PUSH(k->arena, k->operands, k->operand_count, k->operand_capacity, operands[n]);
    AU_PUSH(k->arena, k->instrs, k->instr_count, k->instr_capacity, in);
    if (last)
        k->instrs[last].next = k->instr_count - 1;
    else
        k->body = k->instr_count - 1;
    return k->instr_count - 1;
}

/* What is in the kernel's own region before the first instruction that touches; 0: the first does, or none, *has is then false. */
static uint32_t before_touch(const AuKernel *k, bool *has)
{
    uint32_t last = 0, i = k->body;
    for (; i && !touches(k, i); i = k->instrs[i].next) last = i;
    *has = i != 0;
    return last;
}

/* What is read in the region that begins with [i], by value. */
static void mark_read(const AuKernel *k, uint32_t i, bool *read)
{
    for (; i; i = k->instrs[i].next) {
        const AuInstr *in = &k->instrs[i];
        for (uint32_t n = 0; n < in->count; n++) read[kernel_operand(k, in, n).i] = true;
        mark_read(k, in->body, read);
        mark_read(k, in->other, read);
    }
}

static bool is_computed_number(const AuInstr *in)
{
    const bool is_number = in->type.scalar == AU_I32 || in->type.scalar == AU_I64;
    return is_number && in->type.width == 1 && in->count;
}

/* [all] and number [of], whose bits are in each other's way: it is there when both are. *last: behind which instruction. */
static AuVal join(AuKernel *k, AuVal all, AuVal of, uint32_t *last)
{
    const AuKType word = {AU_I32, 1};
    if (k->instrs[of.i].type.scalar == AU_I64)
        of.i = *last = insert(k, (AuInstr){.op = AU_K_CVT, .type = word, .count = 1}, &of, *last);
    if (!all.i) return of;
    const AuVal both[] = {all, of};
    *last = insert(k, (AuInstr){.op = AU_K_XOR, .type = word, .count = 2}, both, *last);
    return (AuVal){*last};
}

/* One number that is there when all are that are computed up to *last and read behind it. */
static AuVal computed_before(AuKernel *k, uint32_t *last)
{
    const uint32_t count = k->instr_count, end = *last ? k->instrs[*last].next : k->body;
    bool *read = AU_NEW_ARRAY(k->arena, bool, count),
         *reached = AU_NEW_ARRAY(k->arena, bool, count);
    uint32_t *own = AU_NEW_ARRAY(k->arena, uint32_t, count), own_count = 0;
    for (uint32_t i = k->body; i != end; i = k->instrs[i].next) own[own_count++] = i;
    mark_read(k, end, read);
    AuVal all = {0};
    while (own_count--) { /* from the last one on: what another is computed from is reached by it */
        const uint32_t i = own[own_count];
        const AuInstr in = k->instrs[i];
        const bool is_asked = read[i] && !reached[i] && is_computed_number(&in);
        if (is_asked) all = join(k, all, (AuVal){i}, last);
        for (uint32_t n = 0; n < in.count && (is_asked || reached[i]); n++)
            reached[kernel_operand(k, &in, n).i] = true;
    }
    return all;
}

/* The wait; its place. */
static uint32_t insert_wait(AuKernel *k)
{
    bool has;
    uint32_t last = before_touch(k, &has);
    const AuVal computed = computed_before(k, &last);
    return insert(k, (AuInstr){.op = AU_K_GRID_WAIT, .count = computed.i != 0}, &computed, last);
}

/* The last kernel before number [n] that it may be in the way of; -1: none. */
static int32_t last_met(AuKernel *const *kernels, uint32_t n)
{
    const AuKernel *k = kernels[n];
    for (uint32_t before = n; before-- > 0;)
        for (uint32_t m = 1; m < k->mem_count; m++)
            for (uint32_t other = 1; other < kernels[before]->mem_count; other++)
                if (meets(k, &k->mems[m], kernels[before], &kernels[before]->mems[other]))
                    return (int32_t)before;
    return -1;
}

void grids_overlap(AuKernel *const *kernels, const bool *are_short, uint32_t count)
{
    int32_t ended =
        0; /* kernels that have ended when the one at hand begins: those before this number */
    for (uint32_t n = 0; n < count; n++) {
        AuKernel *k = kernels[n];
        bool has = false;
        uint32_t wait = 0;
        if (n && last_met(kernels, n) >= ended)
            for (uint32_t before = 0; before < n; before++) mark(k, kernels[before]);
        before_touch(k, &has);
        if (n) wait = insert_wait(k);
        if (n + 1 == count) break;
        const int32_t met = last_met(kernels, n + 1);
        const bool passes = has && !are_short[n] && met >= ended && met < (int32_t)n;
        insert(k, (AuInstr){.op = AU_K_GRID_NEXT}, NULL, passes ? wait : 0);
        if (passes) ended = (int32_t)n;
    }
}

void grids_let_next(AuKernel *k) { insert(k, (AuInstr){.op = AU_K_GRID_NEXT}, NULL, 0); }

bool grids_waits_for(const AuKernel *k, const AuKernel *before)
{
    for (uint32_t m = 1; m < k->mem_count; m++)
        for (uint32_t n = 1; n < before->mem_count; n++)
            if (!k->mems[m].earlier && meets(k, &k->mems[m], before, &before->mems[n]))
                return false;
    return grids_waits(k);
}

bool grids_waits(const AuKernel *k)
{
    for (uint32_t i = k->body; i; i = k->instrs[i].next)
        if (k->instrs[i].op == AU_K_GRID_WAIT) return true;
    return false;
}
