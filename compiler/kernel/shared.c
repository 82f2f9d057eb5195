/* shared.c - what a block shares: where its memories lie side by side, where its executors wait for each other. */
#include "kernel.h"

/* Vectors of 16 bytes and rows of load_matrix are aligned in every memory; swizzles are patterns of
 * rows of up to 128 bytes. */
static uint32_t alignment(const AuMemory *m)
{
    const uint32_t least = m->swizzle ? 128 : 16;
    return m->align > least ? m->align : least;
}

/* Those of alignments from [least] to below [most], behind what there is. */
static uint32_t place(const AuKernel *k, uint32_t bytes, uint32_t least, uint32_t most,
                      uint32_t *offsets)
{
    for (uint32_t n = 1; n < k->mem_count; n++) {
        const AuMemory *m = &k->mems[n];
        if (m->space != AU_SHARED && m->space != AU_EXEC) continue;
        const uint32_t copies = m->space == AU_EXEC ? k->warps : 1, align = alignment(m);
        if (align < least || align >= most) continue;
        bytes = (bytes + align - 1) & ~(align - 1);
        if (offsets) offsets[n] = bytes;
        bytes += copies * m->count * kernel_scalar_bytes(m->scalar);
    }
    return bytes;
}

/* Tiles of groups of warps are aligned to 1024 bytes for their swizzle, and as large as memory allows: they come first, and what is small
 * between them leaves no gaps. */
uint32_t kernel_shared_bytes(const AuKernel *k, uint32_t *offsets)
{
    enum { SWIZZLED = 256 };
    if (!k->group) return place(k, 0, 0, UINT32_MAX, offsets);
    return place(k, place(k, 0, SWIZZLED, UINT32_MAX, offsets), 0, SWIZZLED, offsets);
}

bool kernel_has_barrier(const AuKernel *k, uint32_t first)
{
    for (uint32_t i = first; i; i = k->instrs[i].next)
        if (k->instrs[i].op == AU_K_BARRIER || kernel_has_barrier(k, k->instrs[i].body) ||
            kernel_has_barrier(k, k->instrs[i].other))
            return true;
    return false;
}

bool kernel_shares_tensors(const AuKernel *k)
{
    for (uint32_t m = 1; m < k->mem_count; m++)
        if (k->mems[m].space == AU_GLOBAL && k->mems[m].reads && k->mems[m].writes) return true;
    return false;
}
