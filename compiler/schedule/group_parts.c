/* group_parts.c - what the kernels of groups of warps have in common: copies into tiles in stages, and groups that
 * start their products in turn. */
#include "group.h"

Lanes group_begin(Lanes of_warps)
{
    Lanes x = of_warps;
    x.sum_atom = x.atom;
    x.atom = group_atom(x.p);
    x.via_shared = false;
    warps_layouts(&x);
    return x;
}

const char *group_own_rows(Lanes *x, const char *tile)
{
    return tile_text(x->t, "%s[self * %d +: %d, :]", tile, x->rows, x->rows);
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

/* ---- turns */

/* Who may start the products of a tile: one group after the other. */
void group_take_turn(Lanes *x)
{
    if (x->shape->turns) tile_sync(x->t, "turn[self]");
}

void group_pass_turn(Lanes *x)
{
    if (x->shape->turns) tile_arrive(x->t, "turn[(self + 1) %% %d]", x->shape->executors);
}

/* Group 0 begins, and takes back the turn that is left over. */
void group_first_turn(Lanes *x)
{
    if (!x->shape->turns) return;
    tile_if(x->t, "self == %d", x->shape->executors - 1);
    tile_arrive(x->t, "turn[0]");
    tile_end(x->t);
}

void group_last_turn(Lanes *x)
{
    if (!x->shape->turns) return;
    tile_if(x->t, "self == 0");
    tile_sync(x->t, "turn[0]");
    tile_end(x->t);
}
