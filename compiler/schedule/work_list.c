/* work_list.c - the list of work of packed rows: see key_layout.h.
 *
 * A grid of the blocks of the longest sequence there can be, by sequences, would be empty for the most part. Blocks of a sequence
 * begin where a whole number of blocks does, so their numbers ask for no sums over sequences: of starts[b] rows before the sequence
 * there are at most starts[b] / block + b blocks. What numbers that leaves over, at most one a sequence, have no rows. */
#include "key_layout.h"

static const AuRowLayout *rows_of(const Lanes *x, LanesSide side)
{
    return side == LANES_KEYS ? &x->p->attn->keys : &x->p->attn->queries;
}

static const char *ends(Lanes *x, LanesSide side)
{
    return hooks_name(x->arena, x->p->attn->sizes[rows_of(x, side)->ends].name);
}

static const char *name(LanesSide side) { return side == LANES_KEYS ? "key_work" : "work"; }
static const char *start(LanesSide side) { return side == LANES_KEYS ? "kv_start" : "q_start"; }

int32_t lanes_item_rows(const Lanes *x, LanesSide side)
{
    return x->item_rows[side] ? x->item_rows[side] : x->block;
}

const char *lanes_work_items(Lanes *x, LanesSide side)
{
    return tile_text(x->t, "(%s / %d + %s - 1)", lanes_axis(x, side == LANES_KEYS, 2),
                     lanes_item_rows(x, side), ends(x, side));
}

const char *lanes_work_blocks(Lanes *x, LanesSide side)
{
    return tile_text(x->t, "%s * min(%s, 1)", lanes_work_items(x, side),
                     lanes_axis(x, side == LANES_KEYS, 2));
}

void lanes_work_argument(Lanes *x, LanesSide side)
{
    tile_arg(x->t, name(side), TILE_IN, "i32[item:%s]", lanes_work_items(x, side));
}

void lanes_let_work(Lanes *x, LanesSide side)
{
    AuTileBuild *t = x->t;
    /* Clamped, since of starts that decrease some items have no sequence. */
    tile_let(t, "b", "clamp(%s[item], 0, %s - 2)", name(side), ends(x, side));
    lanes_let_key_length(x);
    tile_let(t, "turn", "item - %s / %d - b", start(side), lanes_item_rows(x, side));
}

/* A block a sequence writes its number to its items, the last one to all that are left. */
void lanes_work_kernel(Lanes *x, LanesSide side)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    const char *end = side == LANES_KEYS ? "kv_end" : "q_end";
    tile_kernel(t, name(side));
    lanes_arguments(x);
    tile_arg(t, name(side), TILE_OUT, "i32[item:%s]", lanes_work_items(x, side));
    tile_grid(t, "b: %s - 1", ends(x, side));
    lanes_let_key_length(x);
    tile_let(t, "first", "%s / %d + b", start(side), lanes_item_rows(x, side));
    tile_let(t, "last", "where(b == %s - 2, %s, %s / %d + b + 1)", ends(x, side),
             lanes_work_items(x, side), end, lanes_item_rows(x, side));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "number", "i32[item:%d] @ along_lanes = 0", lanes);
    tile_set(t, "number", "number + b");
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(last - first, %d)", lanes));
    tile_store(t, "number -> %s[first + some * %d +: %d from first to last] clip", name(side),
               lanes, lanes);
    tile_end(t);
    tile_end(t);
    tile_end(t);
    lanes_region(x, name(side));
}

void lanes_work_kernels(Lanes *x)
{
    if (lanes_is_packed(x, LANES_QUERIES) &&
        (!schedule_packs_rows(x->p) || lanes_changed_type(x, 0)))
        lanes_work_kernel(x, LANES_QUERIES);
    if (lanes_is_packed(x, LANES_KEYS) && (lanes_changed_type(x, 1) || lanes_changed_type(x, 2)))
        lanes_work_kernel(x, LANES_KEYS);
}
