/* rewrite.c - the frame of passes that replace single instructions: takes the tree apart and builds
 * it again in the same order. */
#include "internal.h"

typedef struct Rewrite {
    AuKernel *k;
    AuVal (*visit)(AuKernel *k, AuVal v, void *user);
    void *user;
    AuVal *map; /* of the instructions that were there before */
} Rewrite;

static void region(Rewrite *r, uint32_t first, uint32_t owner, bool other);

static void instruction(Rewrite *r, uint32_t i)
{
    AuKernel *k = r->k;
    const AuInstr in = k->instrs[i];
    for (uint32_t n = 0; n < in.count; n++)
        k->operands[in.first + n] = r->map[k->operands[in.first + n].i];
    r->map[i] = r->visit(k, (AuVal){i}, r->user);
    if (r->map[i].i != i) return;
    kernel_link(k, i);
    if (in.body) region(r, in.body, i, false);
    if (in.other) region(r, in.other, i, true);
}

static void region(Rewrite *r, uint32_t first, uint32_t owner, bool other)
{
    AuKernel *k = r->k;
    if (owner) k->depth++;
    k->stack[k->depth] = (struct AuBuildPoint){.owner = owner, .other = other};
    for (uint32_t i = first, next; i; i = next) {
        next = k->instrs[i].next;
        instruction(r, i);
    }
    if (!k->stack[k->depth].last) { /* nothing is left */
        if (!owner)
            k->body = 0;
        else if (other)
            k->instrs[owner].other = 0;
        else
            k->instrs[owner].body = 0;
    }
    if (owner) k->depth--;
}

void kernel_rewrite(AuKernel *k, AuVal (*visit)(AuKernel *k, AuVal v, void *user), void *user)
{
    Rewrite r = {k, visit, user, AU_NEW_ARRAY(k->arena, AuVal, k->instr_count)};
    for (uint32_t i = 0; i < k->instr_count; i++) r.map[i] = (AuVal){i};
    region(&r, k->body, 0, false);
}
