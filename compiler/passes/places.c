/* places.c - how rows of swizzled tiles lie in shared memory.
 *
 * `swizzle` asks that 16-byte vectors of eight rows lie in different banks. Where memory moves in such vectors a row is an odd number of
 * swizzle spans long (or any, where a span is all banks) and its vectors change places within their spans, by the row. A span of one vector
 * costs addresses nothing; but copies from tensors, whose sectors of 32 bytes it cuts, take twice the way from the L2. So the
 * schedule says how long spans may be, `option swizzle_span`; here each memory gets the longest that its rows consist of. */
#include "pass.h"

/* Where units of their own copy and multiply, rows lie as these want them. */
static bool has_units(const AuTileKernel *k)
{
    bool found = k->pipes.count > 0;
    for (uint32_t n = 0; n < k->roles.count; n++) found |= k->roles.at[n]->on == TILE_ON_WARPGROUP;
    return found;
}

void pass_places(Pass *p)
{
    if (has_units(p->kernel)) return;
    for (uint32_t n = 0; n < p->kernel->shared.count; n++) {
        AuTileMemory *m = p->kernel->shared.at[n];
        if (!m->swizzle_bytes || m->swizzle_span || m->type.count < 2) continue;
        const AuTileAxis *last = &m->type.axes[m->type.count - 1];
        const int32_t span = tile_swizzle_span(last->size * tile_elem(m->type.elem)->bytes,
                                               p->module->options.swizzle_span);
        if (!span) continue;
        m->swizzle_span = pass_number(p, span, m->span);
    }
}
