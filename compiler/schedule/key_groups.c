/* key_groups.c - see key_groups.h.
 *
 * Blocks of a group's rows begin where a whole number of blocks does, as items of packed rows do (work_list.c): of the rows before group
 * g there are at most rows / block + g blocks. Who has a sequence, or an item, finds its group by halves: a kernel that wrote lists of
 * them would take longer than that. */
#include "key_groups.h"

enum {
    MOST_KEYS =
        1
        << 24, /* that are shared: numbers of keys are exact in f32, in which rows' ranges are joined */
};

static const AuRowLayout *layout(const Lanes *x) { return &x->p->attn->keys; }

static const char *groups(Lanes *x) { return lanes_tensor(x, layout(x)->groups); }

static const char *shares(Lanes *x)
{
    return hooks_name(x->arena, x->p->attn->sizes[layout(x)->shares].name);
}

/* Rows that a kernel before them changes are each sequence's. */
bool lanes_may_share_keys(Lanes *x)
{
    return layout(x)->has_groups && !x->p->attn->queries.layout && !x->p->invariant &&
           !lanes_changed_type(x, 1) && !lanes_changed_type(x, 2);
}

bool lanes_shares_keys(const Lanes *x) { return x->shared_tile > 0; }

/* ---- which group */

const char *lanes_group_rows(Lanes *x)
{
    return tile_text(x->t, "(%s * (%s / %s))", lanes_axis(x, 0, 2), lanes_axis(x, 0, 1),
                     lanes_axis(x, 1, 1));
}

/* The first sequence of group [n]. */
static const char *first_of(Lanes *x, const char *n)
{
    return tile_text(x->t, "clamp(%s[%s], 0, %s)", groups(x), n, lanes_axis(x, 0, 0));
}

/* The first item of group [n]. */
static const char *first_item(Lanes *x, const char *n)
{
    return tile_text(x->t, "%s * %s / %d + %s", first_of(x, n), lanes_group_rows(x), x->block, n);
}

/* Lets share_at: the last group that begins no later than [at], a sequence or an item. */
static void let_group(Lanes *x, bool of_item, const char *at)
{
    AuTileBuild *t = x->t;
    const char *found = "0";
    for (int32_t step = SCHEDULE_MOST_GROUPS / 2; step; step /= 2) {
        const char *next = tile_text(t, "min(%s + %d, %s - 1)", found, step, shares(x)),
                   *name = step > 1 ? tile_text(t, "share_in_%d", step) : "share_at";
        tile_let(t, name, "where(%s + %d < %s && %s <= %s, %s + %d, %s)", found, step, shares(x),
                 of_item ? first_item(x, next) : first_of(x, next), at, found, step, found);
        found = name;
    }
    tile_let(t, "leader", "min(%s, %s - 1)", first_of(x, "share_at"), lanes_axis(x, 0, 0));
    tile_let(t, "followers", "clamp(%s[share_at + 1], leader, %s) - leader", groups(x),
             lanes_axis(x, 0, 0));
}

/* Lets shared_end: keys of the group, whole tiles of them; none where its first sequence has not all. */
static void let_shared(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_let_leader_length(x);
    tile_let(t, "said", "max(%s[share_at], 0)", lanes_tensor(x, layout(x)->shared));
    tile_let(t, "shared_end",
             "where(followers > 1 && said <= shared_length, min(said, %d) / %d * %d, 0)", MOST_KEYS,
             x->shared_tile, x->shared_tile);
}

void lanes_let_own_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!lanes_shares_keys(x)) return;
    let_group(x, false, "b");
    let_shared(x);
    tile_let(t, "own_low",
             "where(kv_length >= said && b >= leader && b < leader + followers, shared_end, "
             "0)");
}

const char *lanes_own_low(Lanes *x)
{
    return lanes_shares_keys(x) ? "max(k_low, own_low)" : "k_low";
}

const char *lanes_group_items(Lanes *x)
{
    return tile_text(x->t, "(%s * %s / %d + %s)", lanes_axis(x, 0, 0), lanes_group_rows(x),
                     x->block, shares(x));
}

const char *lanes_group_blocks(Lanes *x)
{
    return tile_text(x->t, "%s * min(%s * %s, 1)", lanes_group_items(x), lanes_group_rows(x),
                     lanes_axis(x, 0, 0));
}

void lanes_let_item(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_group_rows(x);
    let_group(x, true, "item");
    tile_let(t, "first_row", "leader * %s + (item - (%s)) * %d", rows, first_item(x, "share_at"),
             x->block);
    tile_let(t, "last_row", "(leader + followers) * %s", rows);
    x->of_group = true;
    let_shared(x);
    tile_let(t, "prefix_end", "where(first_row < last_row, shared_end, 0)");
}

/* ---- what is left of a prefix */

void lanes_shared_arguments(Lanes *x, AuTileMode mode, const char *parts)
{
    AuTileBuild *t = x->t;
    const char *axes = tile_text(t, "part:%s, h:%s, q:%s * %s", parts, lanes_axis(x, 1, 1),
                                 lanes_axis(x, 0, 0), lanes_group_rows(x));
    tile_arg(t, "shared_acc", mode, "f32[%s, e:%d]", axes, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "shared_state%u", n), mode, "f32[%s]", axes);
}
