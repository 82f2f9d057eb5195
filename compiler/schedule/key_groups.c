/* key_groups.c - see key_groups.h.
 *
 * Blocks of a group's rows begin where a whole number of blocks does, as items of packed rows do (work_list.c): of the rows before group
 * g there are at most rows / block + g blocks. Who has a sequence, or an item, finds its group by eighths: a kernel that wrote lists of
 * them would take longer than that. */
#include "key_groups.h"

enum {
    MOST_KEYS =
        1
        << 24, /* that are shared: numbers of keys are exact in f32, in which rows' ranges are joined */
    BESIDE_MANY = 4, /* queries of a sequence for which there is room beside sequences of many */
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
    return layout(x)->has_groups && !x->p->invariant && !lanes_changed_type(x, 1) &&
           !lanes_changed_type(x, 2);
}

bool lanes_shares_keys(const Lanes *x) { return x->shared_tile > 0; }

/* ---- which group */

static const char *heads_of_group(Lanes *x)
{
    return tile_text(x->t, "(%s / %s)", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
}

/* Beside sequences of many queries most of the others have one, for samples that a draft made a few: room is for those. */
static const char *most_queries(Lanes *x)
{
    const char *most = lanes_most_queries(x);
    return x->only ? tile_text(x->t, "min(%s, %d)", most, BESIDE_MANY) : most;
}

const char *lanes_group_rows(Lanes *x)
{
    return tile_text(x->t, "(%s * %s)", most_queries(x), heads_of_group(x));
}

/* So many of them a sequence has items for; what is more the same items have after those. */
static const char *item_rows(Lanes *x)
{
    return lanes_has_turns(x) ? heads_of_group(x) : lanes_group_rows(x);
}

bool lanes_has_turns(const Lanes *x) { return x->only && !x->on_cpu; }

/* Rows of queries that sequences have of their own: a group's are numbered as if each had as many as the first one, and what has more reads
 * all keys for itself. Room is for as many as a call says. */
static bool has_own_rows(const Lanes *x) { return x->p->attn->queries.layout; }

static const char *rows_of_sequence(Lanes *x)
{
    return has_own_rows(x) ? "share_rows" : lanes_group_rows(x);
}

static void let_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!has_own_rows(x)) return;
    if (lanes_is_packed(x, LANES_QUERIES))
        tile_let(t, "leader_start", "%s", lanes_query_start_of(x, "leader"));
    tile_let(t, "share_queries", "clamp(%s, 1, %s)", lanes_queries_of(x, "leader", "leader_start"),
             most_queries(x));
    tile_let(t, "share_rows", "share_queries * %s", heads_of_group(x));
}

/* The first sequence of group [n]. */
static const char *first_of(Lanes *x, const char *n)
{
    return tile_text(x->t, "clamp(%s[%s], 0, %s)", groups(x), n, lanes_axis(x, 0, 0));
}

/* The first item of group [n]. */
static const char *first_item(Lanes *x, const char *n)
{
    return tile_text(x->t, "%s * %s / %d + %s", first_of(x, n), item_rows(x), x->block, n);
}

/* Does group [n] begin no later than [at]? A number that no group has is asked of the last one, and does not count. */
static const char *begins_before(Lanes *x, bool of_item, const char *n, const char *at)
{
    const char *group = tile_text(x->t, "min(%s, %s - 1)", n, shares(x));
    return tile_text(x->t, "%s < %s && %s <= %s", n, shares(x),
                     of_item ? first_item(x, group) : first_of(x, group), at);
}

/* Lets share_at: the last group that begins no later than [at], a sequence or an item. Each round asks seven groups at once, whose loads do not
 * wait for each other, and leaves an eighth of the groups. */
static void let_group(Lanes *x, bool of_item, const char *at)
{
    enum { WAYS = 8 };
    AuTileBuild *t = x->t;
    const char *found = "0";
    for (int32_t step = SCHEDULE_MOST_GROUPS / WAYS; step; step /= WAYS) {
        AuText before = {.arena = x->arena};
        for (int32_t n = 1; n < WAYS; n++)
            au_text_add(&before, "%swhere(%s, %d, 0)", n > 1 ? " + " : "",
                        begins_before(x, of_item, tile_text(t, "%s + %d", found, n * step), at),
                        step);
        const char *name = step > 1 ? tile_text(t, "share_in_%d", step) : "share_at";
        tile_let(t, name, "%s + %s", found, au_text_str(&before));
        found = name;
    }
    tile_let(t, "leader", "min(%s, %s - 1)", first_of(x, "share_at"), lanes_axis(x, 0, 0));
    tile_let(t, "followers", "clamp(%s[share_at + 1], leader, %s) - leader", groups(x),
             lanes_axis(x, 0, 0));
}

/* Lets shared_end: keys of the group, whole tiles of them; none where its first sequence has not all, or where it takes longer to read them once. */
static void let_shared(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_let_leader_length(x);
    let_rows(x);
    tile_let(t, "said", "max(%s[share_at], 0)", lanes_tensor(x, layout(x)->shared));
    const char *enough =
        x->share_least ? tile_text(t, " && said >= cdiv(%s, max(followers - 1, 1))", x->share_least)
                       : "";
    tile_let(t, "shared_end",
             "where(followers > 1 && said <= shared_length%s, min(said, %d) / %d * %d, 0)", enough,
             MOST_KEYS, x->shared_tile, x->shared_tile);
}

void lanes_let_own_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!lanes_shares_keys(x)) return;
    let_group(x, false, "b");
    let_shared(x);
    tile_let(t, "own_low",
             "where(%s && b >= leader && b < leader + followers, shared_end, "
             "0)",
             lanes_takes_part(x));
}

const char *lanes_takes_part(const Lanes *x)
{
    return has_own_rows(x) ? "kv_length >= said && q_length <= share_queries" : "kv_length >= said";
}

const char *lanes_group_place(Lanes *x, const char *row)
{
    if (!has_own_rows(x)) return tile_text(x->t, "b * %s + %s", lanes_group_rows(x), row);
    return tile_text(x->t, "leader * %s + (b - leader) * share_rows + %s", lanes_group_rows(x),
                     row);
}

const char *lanes_own_low(Lanes *x)
{
    return lanes_shares_keys(x) ? "max(k_low, own_low)" : "k_low";
}

const char *lanes_group_items(Lanes *x)
{
    return tile_text(x->t, "(%s * %s / %d + %s)", lanes_axis(x, 0, 0), item_rows(x), x->block,
                     shares(x));
}

const char *lanes_group_blocks(Lanes *x)
{
    return tile_text(x->t, "%s * min(%s * %s, 1)", lanes_group_items(x),
                     has_own_rows(x) ? lanes_axis(x, 0, 2) : lanes_group_rows(x),
                     lanes_axis(x, 0, 0));
}

void lanes_let_item(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_group_rows(x);
    let_group(x, true, "item");
    tile_let(t, "first_row", "leader * %s + (item - (%s)) * %d", rows, first_item(x, "share_at"),
             x->block);
    x->of_group = true;
    if (has_own_rows(x)) {
        let_shared(x);
        tile_let(t, "last_row", "leader * %s + followers * share_rows", rows);
    } else {
        tile_let(t, "last_row", "(leader + followers) * %s", rows);
        let_shared(x);
    }
    tile_let(t, "prefix_end", "where(first_row < last_row, shared_end, 0)");
    if (!lanes_has_turns(x)) return;
    tile_let(t, "turn_rows", "(%s - (%s)) * %d", first_item(x, "(share_at + 1)"),
             first_item(x, "share_at"), x->block);
    tile_let(t, "turns", "cdiv(last_row - first_row, turn_rows)");
}

/* Behind the group's first. */
static const char *behind_first(Lanes *x, const char *r)
{
    return has_own_rows(x) ? tile_text(x->t, "(%s - leader * %s)", r, lanes_group_rows(x)) : r;
}

const char *lanes_row_in_sequence(Lanes *x, const char *r)
{
    return tile_text(x->t, "%s %% %s", behind_first(x, r), rows_of_sequence(x));
}

void lanes_name_group_rows(Lanes *x, const char *r)
{
    AuTileBuild *t = x->t;
    const char *sequence = tile_text(t, "%s%s / %s", has_own_rows(x) ? "leader + " : "",
                                     behind_first(x, r), rows_of_sequence(x));
    tile_set(t, "b", "min(%s, %s - 1)", sequence, lanes_axis(x, 0, 0));
    tile_set(t, "kv_length", "%s", lanes_length_of(x));
    if (lanes_is_packed(x, LANES_QUERIES))
        tile_set(t, "q_start", "%s", lanes_query_start_of(x, "b"));
    if (has_own_rows(x)) tile_set(t, "q_length", "%s", lanes_queries_of(x, "b", "q_start"));
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
