/* work_list.c - the lists of work of packed rows: see key_layout.h.
 *
 * A grid of the blocks of the longest sequence there can be, by sequences, would be empty for the most part. Blocks of a sequence
 * begin where a whole number of blocks does, so their numbers ask for no sums over sequences: of starts[b] rows before the sequence
 * there are at most starts[b] / block + b blocks. What numbers that leaves over, at most one a sequence, have no rows.
 *
 * Where most sequences are other kernels' (warps_mixed.c) that would be a block and head for each of them that has nothing to do. Sequences of
 * many rows then have a list of their own, `many`, in which they lie one behind the other: a block of its kernel adds up what those before its
 * sequence have. Behind them are as many items without rows as shapes leave room for, which end as soon as they have read that. */
#include "key_layout.h"

static const AuRowLayout *rows_of(const Lanes *x, LanesSide side)
{
    return side == LANES_KEYS ? &x->p->attn->keys : &x->p->attn->queries;
}

static const char *ends(Lanes *x, LanesSide side)
{
    return hooks_name(x->arena, x->p->attn->sizes[rows_of(x, side)->ends].name);
}

/* Sequences of a load in the sums over them; items that are written together. */
enum { AT_ONCE = 128, WRITTEN = 32 };

bool lanes_lists_many(const Lanes *x) { return x->only == LANES_MANY && x->lists_many; }

void lanes_begin_listed(Lanes *x)
{
    if (lanes_lists_many(x)) tile_if(x->t, "turn >= 0");
}

void lanes_end_listed(Lanes *x)
{
    if (lanes_lists_many(x)) tile_end(x->t);
}

static const char *name(LanesSide side) { return side == LANES_KEYS ? "key_work" : "work"; }
static const char *start(LanesSide side) { return side == LANES_KEYS ? "kv_start" : "q_start"; }

int32_t lanes_item_rows(const Lanes *x, LanesSide side)
{
    return x->item_rows[side] ? x->item_rows[side] : x->block;
}

/* A sequence of many has more rows than few, and no more items than its rows have blocks and one. */
static const char *items_of_many(Lanes *x)
{
    return tile_text(x->t, "(%s / %d + min(%s - 1, %s / (%s + 1)))", lanes_axis(x, 0, 2), x->block,
                     ends(x, LANES_QUERIES), lanes_axis(x, 0, 2), lanes_few_queries(x));
}

const char *lanes_work_items(Lanes *x, LanesSide side)
{
    if (lanes_lists_many(x)) return items_of_many(x);
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
    if (lanes_lists_many(x)) {
        tile_arg(x->t, "many", TILE_IN, "i32[what:2, item:%s]", items_of_many(x));
        return;
    }
    tile_arg(x->t, name(side), TILE_IN, "i32[item:%s]", lanes_work_items(x, side));
}

void lanes_let_work(Lanes *x, LanesSide side)
{
    AuTileBuild *t = x->t;
    if (lanes_lists_many(x)) {
        tile_let(t, "b", "clamp(many[0, item], 0, %s - 2)", ends(x, side));
        lanes_let_key_length(x);
        tile_let(t, "turn", "clamp(many[1, item], -1, q_length / %d)", x->block);
        return;
    }
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
    lanes_work_region(x, name(side));
}

/* ---- sequences of many rows beside others */

/* Sets first, the items of many sequences before `b`, and listed, those of all. */
static void count_items(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *count = tile_text(t, "%s - 1", ends(x, LANES_QUERIES));
    tile_frag(t, "before", "f32[s:%d] @ along_lanes = 0.0", AT_ONCE);
    tile_frag(t, "of_all", "f32[s:%d] @ along_lanes = 0.0", AT_ONCE);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", count, AT_ONCE));
    tile_set(t, "number", "some * %d + iota(s:%d)", AT_ONCE, AT_ONCE);
    tile_set(t, "other", "min(number, %s - 1)", count);
    tile_set(t, "other_start", "%s", lanes_query_start_of(x, "other"));
    tile_set(t, "other_rows", "%s", lanes_queries_of(x, "other", "other_start"));
    tile_set(t, "items", "where(number < %s && other_rows > %s, f32(cdiv(other_rows, %d)), 0.0)",
             count, lanes_few_queries(x), x->block);
    tile_set(t, "of_all", "of_all + items");
    tile_set(t, "before", "before + where(number < b, items, 0.0)");
    tile_end(t);
    tile_set(t, "first", "i32(reduce_sum(before, s))");
    tile_set(t, "listed", "i32(reduce_sum(of_all, s))");
}

void lanes_list_fragments(Lanes *x, const LanesList *list)
{
    const char *const names[] = {"place", "whose", list->number};
    for (uint32_t n = 0; n < sizeof names / sizeof *names; n++)
        tile_frag(x->t, tile_part(x->t, "%s", names[n]), "i32[%s:%d] @ along_lanes = 0", list->axis,
                  WRITTEN);
}

void lanes_write_list(Lanes *x, const LanesList *list, const char *count, const char *first,
                      const char *b, const char *number, const char *when)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", count, WRITTEN));
    tile_set(t, "n", "some * %d + iota(%s:%d)", WRITTEN, list->axis, WRITTEN);
    tile_set(t, "place", "n + %s", first);
    tile_set(t, "whose", "place * 0 + %s", b);
    tile_set(t, list->number, "place * 0 + %s", number);
    tile_store(t, "whose -> %s[0, place] when %s", list->name, when);
    tile_store(t, "%s -> %s[1, place] when %s", list->number, list->name, when);
    tile_end(t);
}

void lanes_many_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const LanesList list = {"many", "item", "turn"};
    const char *count = tile_text(t, "cdiv(q_length, %d)", x->block), *room = items_of_many(x);
    tile_kernel(t, "many");
    lanes_arguments(x);
    tile_arg(t, "many", TILE_OUT, "i32[what:2, item:%s]", room);
    tile_grid(t, "b: %s - 1", ends(x, LANES_QUERIES));
    lanes_let_key_length(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    lanes_list_fragments(x, &list);
    count_items(x);
    lanes_write_list(x, &list, count, "first", "b", "n",
                     tile_text(t, "n < %s && place < %s", count, room));
    tile_if(t, tile_text(t, "b == %s - 2", ends(x, LANES_QUERIES)));
    lanes_write_list(x, &list, room, "0", "0", "-1",
                     tile_text(t, "place >= listed && place < %s", room));
    tile_end(t);
    tile_end(t);
    tile_end(t);
    lanes_work_region(x, "many");
}

void lanes_work_kernels(Lanes *x)
{
    const bool changed = lanes_changed_type(x, 0);
    if (lanes_is_packed(x, LANES_QUERIES) &&
        (changed || !(schedule_packs_rows(x->p) || x->lists_many)))
        lanes_work_kernel(x, LANES_QUERIES);
    if (lanes_is_packed(x, LANES_KEYS) && (lanes_changed_type(x, 1) || lanes_changed_type(x, 2)))
        lanes_work_kernel(x, LANES_KEYS);
}
