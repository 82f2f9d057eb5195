/* hip_arrive.c - what a loop holds has arrived when it begins.
 *
 * Operands that stay for a whole loop (queries in forward, keys and values in backward) are loaded before it. LLVM counts loads under way
 * (vmcnt), which end in order, by block: where a loop begins, it takes what its first turn and all others may have under way together. So
 * products of each turn waited for operands that only the first one could have to wait for, and with them for all that was loaded since: the next
 * tile, which was to come meanwhile. A text of assembly that is empty and takes what is held, in front of the loop, has the wait there. */
#include "hip.h"

enum { WORD = 4, MOST = 32 }; /* bytes: of a register, of an operand of a product */

/* Of a region: the width of its loads from each memory, 0 where there is none. */
typedef struct Held {
    const AuKernel *k;
    uint8_t *widths; /* by memory */
    bool *written;
    bool loads; /* from far memory, too */
} Held;

static void look(Held *h, uint32_t first)
{
    for (uint32_t i = first; i; i = h->k->instrs[i].next) {
        const AuInstr *in = &h->k->instrs[i];
        const uint32_t flags = kernel_op_info((AuKOp)in->op)->flags;
        if (flags & AU_KF_WRITE) h->written[in->mem.i] = true;
        if (in->op == AU_K_LOAD && h->k->mems[in->mem.i].space == AU_GLOBAL) h->loads = true;
        if (in->op == AU_K_LOAD && h->k->mems[in->mem.i].space == AU_LANE)
            h->widths[in->mem.i] = in->type.width;
        look(h, in->body);
        look(h, in->other);
    }
}

static void arrive(AuEmit *e, uint32_t mem, uint32_t width)
{
    LLVMBuilderRef b = e->builder;
    const AuMemory *m = &e->k->mems[mem];
    const uint32_t bytes = width * kernel_scalar_bytes(m->scalar);
    LLVMTypeRef type = emit_stored(e, m->scalar, width), one = emit_stored(e, m->scalar, 1),
                words = e->element[AU_I32];
    if (bytes > WORD) words = LLVMVectorType(words, bytes / WORD);
    for (uint32_t n = 0; n + width <= m->count; n += width) {
        LLVMValueRef at = emit_step(e, one, e->places[mem].base, gpu_i32(e, n)),
                     held = LLVMBuildLoad2(b, type, at, "");
        LLVMSetAlignment(held, bytes);
        held = hip_same(b, LLVMBuildBitCast(b, held, words, ""), false);
        LLVMSetAlignment(LLVMBuildStore(b, LLVMBuildBitCast(b, held, type, ""), at), bytes);
    }
}

/* Kernels of multiply-adds hold more than there are registers for. */
void hip_arrive(AuEmit *e, const AuInstr *loop)
{
    if (!e->gpu->coarse) return;
    const uint32_t count = e->k->mem_count;
    Held h = {.k = e->k,
              .widths = AU_NEW_ARRAY(e->arena, uint8_t, count + 1),
              .written = AU_NEW_ARRAY(e->arena, bool, count + 1)};
    look(&h, loop->body);
    for (uint32_t n = 1; h.loads && n < count; n++) {
        const uint32_t bytes = h.widths[n] * kernel_scalar_bytes(e->k->mems[n].scalar);
        if (!h.written[n] && h.widths[n] > 1 && bytes % WORD == 0 && bytes <= MOST)
            arrive(e, n, h.widths[n]);
    }
}
