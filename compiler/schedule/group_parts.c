/* group_parts.c - what the kernels of groups of warps have in common: tiles in stages, and the warp that copies tensors into them by
 * boxes. */
#include "group.h"

/* "K: bf16[kv:64, d:128] swizzle 128" */
const char *group_tile(Lanes *x, const char *name, const char *rows, int32_t count,
                       const char *columns, int32_t width)
{
    return tile_text(x->t, "%s: %s[%s:%d, %s:%d] swizzle %d", name, x->operand, rows, count,
                     columns, width, group_swizzle(x->p, width));
}

void group_issue(Lanes *x, AuTileHandle from, AuTileHandle to)
{
    tile_async_copy(x->t, NULL, "%v -> %v pad 0", from, to);
}

/* Is there more before the range of the mask, or behind it and before the tensor's end? */
static void if_cut(Lanes *x, const GroupTile *tile)
{
    tile_if(x->t, "%s * %d < %s_low || (%s * %d + %d > %s_high && %s_high < %s)", tile->number,
            tile->rows, tile->of, tile->number, tile->rows, tile->rows, tile->of, tile->of,
            tile->all);
}

void group_issue_within(Lanes *x, const GroupTile *tile, GroupIssue *issue)
{
    const bool masked = x->p->attn->mask.i != 0;
    if (masked) {
        if_cut(x, tile);
        issue(x, lanes_limits(x, tile->of));
        tile_else(x->t);
    }
    issue(x, "");
    if (masked) tile_end(x->t);
}

void group_issue_of_list(Lanes *x, const GroupTile *tile, GroupIssue *issue)
{
    const bool masked = x->p->attn->mask.i != 0;
    if (masked) {
        tile_on_segment(x->t, "partial");
        group_issue_within(x, tile, issue);
        tile_else(x->t);
    }
    issue(x, "");
    if (masked) tile_end(x->t);
}
