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
    SEARCHED = 8,    /* parts that a round of a search leaves one of */
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
    return layout(x)->has_groups && !x->p->invariant && schedule_joins_parts(x->p) &&
           !lanes_changed_type(x, 1) && !lanes_changed_type(x, 2);
}

bool lanes_shares_keys(const Lanes *x) { return x->shared_tile > 0; }

/* ---- which group: lets of a kernel, or, where a role searches, what it sets */

/* Beside sequences of many queries most of the others have one, for samples that a draft made a few: room is for those. */
static const char *most_queries(Lanes *x)
{
    const char *most = lanes_most_queries(x);
    return x->only ? tile_text(x->t, "min(%s, %d)", most, BESIDE_MANY) : most;
}

const char *lanes_group_rows(Lanes *x)
{
    return tile_text(x->t, "(%s * %s)", most_queries(x), lanes_heads_of_group(x));
}

/* So many of them a sequence has items for; what is more the same items have after those. */
static const char *item_rows(Lanes *x)
{
    return lanes_has_turns(x) ? lanes_heads_of_group(x) : lanes_group_rows(x);
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
        lanes_put(x, "leader_start", lanes_query_start_of(x, "leader"));
    lanes_put(x, "share_queries",
              tile_text(t, "clamp(%s, 1, %s)", lanes_queries_of(x, "leader", "leader_start"),
                        most_queries(x)));
    lanes_put(x, "share_rows", tile_text(t, "share_queries * %s", lanes_heads_of_group(x)));
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

/* How many steps on from [found] the last group is that begins no later than [at]: seven are asked at once, whose loads do not wait for each other, which
 * leaves an eighth of the groups. */
static const char *steps_on(Lanes *x, bool of_item, const char *at, const char *found, int32_t step)
{
    AuText before = {.arena = x->arena};
    for (int32_t n = 1; n < SEARCHED; n++)
        au_text_add(&before, "%swhere(%s, %d, 0)", n > 1 ? " + " : "",
                    begins_before(x, of_item, tile_text(x->t, "%s + %d", found, n * step), at),
                    step);
    return au_text_str(&before);
}

/* Names share_at: the last group that begins no later than [at], a sequence or an item. A role leaves out rounds that fewer groups do not need. */
static void let_group(Lanes *x, bool of_item, const char *at)
{
    AuTileBuild *t = x->t;
    const char *found = "0";
    if (x->in_role) tile_set(t, "share_at", "0");
    for (int32_t step = SCHEDULE_MOST_GROUPS / SEARCHED; step; step /= SEARCHED) {
        if (x->in_role) {
            tile_if(t, "%s > %d", shares(x), step);
            tile_set(t, "share_at", "share_at + %s", steps_on(x, of_item, at, "share_at", step));
            tile_end(t);
            continue;
        }
        const char *name = step > 1 ? tile_text(t, "share_in_%d", step) : "share_at";
        tile_let(t, name, "%s + %s", found, steps_on(x, of_item, at, found, step));
        found = name;
    }
    lanes_put(x, "leader",
              tile_text(t, "min(%s, %s - 1)", first_of(x, "share_at"), lanes_axis(x, 0, 0)));
    lanes_put(x, "followers",
              tile_text(t, "clamp(%s[share_at + 1], leader, %s) - leader", groups(x),
                        lanes_axis(x, 0, 0)));
}

/* A line through what each sequence adds lies above all groups. Of each a group has a row of each head at least. */
const char *lanes_may_share(Lanes *x)
{
    AuTileBuild *t = x->t;
    const LanesSharing *of = &x->sharing;
    if (!of->least) return "1";
    const char *rows = has_own_rows(x) ? lanes_heads_of_group(x) : lanes_group_rows(x),
               *all = lanes_axis(x, 0, 0),
               *most =
                   tile_text(t, "max(%d * (%s - 1) - %d * %s * %s / %d, 0)", LANES_SHARING_PARTS,
                             all, of->item_weight, all, rows, of->item_rows);
    return tile_text(t, "min(%s / cdiv(%d, max(%s * %s, 1)), 1)", lanes_key_room(x),
                     of->least_of_heads, most, lanes_groups(x));
}

/* " && .." of a group's number of keys: are they enough? */
static const char *are_enough(Lanes *x)
{
    AuTileBuild *t = x->t;
    const LanesSharing *of = &x->sharing;
    if (!of->least) return "";
    lanes_put(x, "share_gain",
              tile_text(t, "%d * (followers - 1) - %d * cdiv(followers * %s, %d)",
                        LANES_SHARING_PARTS, of->item_weight, rows_of_sequence(x), of->item_rows));
    return tile_text(t, " && share_gain > 0 && said >= cdiv(%d * %s, max(share_gain, 1))",
                     LANES_SHARING_PARTS, of->least);
}

/* Lets shared_end: keys of the group, whole tiles of them; none where its first sequence has not all, or where it takes longer to read them once. */
static void let_shared(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_let_leader_length(x);
    let_rows(x);
    lanes_put(x, "said", tile_text(t, "max(%s[share_at], 0)", lanes_tensor(x, layout(x)->shared)));
    lanes_put(
        x, "shared_end",
        tile_text(t, "where(followers > 1 && said <= shared_length%s, min(said, %d) / %d * %d, 0)",
                  are_enough(x), MOST_KEYS, x->shared_tile, x->shared_tile));
}

/* ---- lists of what the search finds, of each sequence and of each item, on machines whose blocks are many: who reads them asks for one number each
 * instead. Read numbers are clamped, since a call may bring its lists. */

enum { MEMBER_NUMBERS = 3, ITEM_NUMBERS = 7 };

static void members_argument(Lanes *x, AuTileMode mode)
{
    tile_arg(x->t, "members", mode, "i32[what:%d, b:%s]", MEMBER_NUMBERS, lanes_axis(x, 0, 0));
}

static void items_argument(Lanes *x, AuTileMode mode)
{
    tile_arg(x->t, "group_items", mode, "i32[what:%d, item:%s]", ITEM_NUMBERS,
             lanes_group_items(x));
}

void lanes_members_argument(Lanes *x)
{
    if (x->lists_groups) members_argument(x, TILE_IN);
}

void lanes_group_items_argument(Lanes *x)
{
    if (x->lists_groups) items_argument(x, TILE_IN);
}

/* Number [n] of those of sequence or item [of], from [low] to [high]. */
static void let_listed(Lanes *x, const char *name, const char *list, int32_t n, const char *of,
                       const char *low, const char *high)
{
    tile_let(x->t, name, "clamp(%s[%d, %s], %s, %s)", list, n, of, low, high);
}

static void let_listed_rows(Lanes *x, const char *list, int32_t n, const char *of)
{
    if (!has_own_rows(x)) return;
    let_listed(x, "share_queries", list, n, of, "1", most_queries(x));
    tile_let(x->t, "share_rows", "share_queries * %s", lanes_heads_of_group(x));
}

static void let_listed_keys(Lanes *x)
{
    let_listed(x, "own_low", "members", 0, "b", "0", "kv_length");
    if (has_own_rows(x)) let_listed(x, "leader", "members", 1, "b", "0", "b");
    let_listed_rows(x, "members", 2, "b");
}

static void let_searched_keys(Lanes *x);
static void let_searched_item(Lanes *x);

/* Stores numbers of sequence or item [of], where it is one. */
static void list_numbers(Lanes *x, const char *list, const char *const *numbers, int32_t count,
                         const char *of, const char *all)
{
    tile_if(x->t, "turn < %s", all);
    for (int32_t n = 0; n < count; n++)
        tile_store(x->t, "%s -> %s[%d, %s]", numbers[n], list, n, of);
    tile_end(x->t);
}

void lanes_group_lists(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *sequences = lanes_axis(x, 0, 0), *items = lanes_group_items(x),
               *queries = has_own_rows(x) ? "share_queries" : "1",
               *const of_member[MEMBER_NUMBERS] = {"own_low", "leader", queries},
               *const of_item[ITEM_NUMBERS] = {"leader",
                                               "first_row",
                                               "last_row",
                                               "prefix_end",
                                               "said",
                                               queries,
                                               lanes_has_turns(x) ? "turn_rows" : "1"};
    tile_kernel(t, "members");
    lanes_arguments(x);
    members_argument(x, TILE_OUT);
    items_argument(x, TILE_OUT);
    tile_grid(t, "turn: max(%s, %s)", sequences, items);
    tile_let(t, "b", "min(turn, %s - 1)", sequences);
    tile_let(t, "item", "min(turn, %s - 1)", items);
    lanes_let_key_length(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    x->in_role = true;
    let_searched_keys(x);
    list_numbers(x, "members", of_member, MEMBER_NUMBERS, "b", sequences);
    let_searched_item(x);
    list_numbers(x, "group_items", of_item, ITEM_NUMBERS, "item", items);
    x->in_role = x->of_group = false;
    tile_end(t);
    tile_end(t);
    lanes_work_region(x, "members");
    lanes_work_region(x, "group_items");
}

/* ---- what of it is read */

void lanes_let_own_keys(Lanes *x)
{
    if (!lanes_shares_keys(x)) return;
    (x->lists_groups ? let_listed_keys : let_searched_keys)(x);
}

static void let_searched_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    let_group(x, false, "b");
    let_shared(x);
    lanes_put(x, "own_low",
              tile_text(t, "where(%s && b >= leader && b < leader + followers, shared_end, 0)",
                        lanes_takes_part(x)));
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

const char *lanes_group_full_blocks(Lanes *x)
{
    const char *some = tile_text(x->t, "max(%s, 1)", shares(x));
    return tile_text(x->t, "%s * cdiv(%s * %s, %d * %s)", some, lanes_axis(x, 0, 0), item_rows(x),
                     x->block, some);
}

static void let_listed_item(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_group_rows(x),
               *all = tile_text(t, "%s * %s", lanes_axis(x, 0, 0), rows);
    tile_let(t, "listed_end", "group_items[3, item]");
    let_listed(x, "leader", "group_items", 0, "item", "0",
               tile_text(t, "%s - 1", lanes_axis(x, 0, 0)));
    lanes_let_leader_length(x);
    let_listed(x, "first_row", "group_items", 1, "item", tile_text(t, "leader * %s", rows), all);
    let_listed(x, "last_row", "group_items", 2, "item", "0", all);
    tile_let(t, "prefix_end", "clamp(listed_end, 0, shared_length)");
    tile_let(t, "said", "group_items[4, item]");
    let_listed_rows(x, "group_items", 5, "item");
    if (lanes_has_turns(x)) let_listed(x, "turn_rows", "group_items", 6, "item", "1", all);
}

void lanes_let_item(Lanes *x)
{
    (x->lists_groups ? let_listed_item : let_searched_item)(x);
    x->of_group = true;
    if (lanes_has_turns(x)) tile_let(x->t, "turns", "cdiv(last_row - first_row, turn_rows)");
}

const char *lanes_has_item(const Lanes *x)
{
    return x->lists_groups ? "listed_end > 0" : "prefix_end > 0";
}

static void let_searched_item(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_group_rows(x);
    let_group(x, true, "item");
    lanes_put(x, "first_row",
              tile_text(t, "leader * %s + (item - (%s)) * %d", rows, first_item(x, "share_at"),
                        x->block));
    x->of_group = true;
    let_shared(x);
    lanes_put(x, "last_row",
              has_own_rows(x) ? tile_text(t, "leader * %s + followers * share_rows", rows)
                              : tile_text(t, "(leader + followers) * %s", rows));
    /* Items before a list that begins late would have the first group's rows once more. */
    const bool narrow = x->lists_groups && x->atom->m == 1;
    const char *inside =
        narrow ? tile_text(t, "first_row >= leader * %s && first_row < last_row", rows)
               : "first_row < last_row";
    lanes_put(x, "prefix_end", tile_text(t, "where(%s, shared_end, 0)", inside));
    if (!lanes_has_turns(x)) return;
    lanes_put(x, "turn_rows",
              tile_text(t, "(%s - (%s)) * %d", first_item(x, "(share_at + 1)"),
                        first_item(x, "share_at"), x->block));
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
    const char *axes = tile_text(t, "part:%s, h:%s, q:%s * %s", parts, lanes_groups(x),
                                 lanes_axis(x, 0, 0), lanes_group_rows(x));
    tile_arg(t, "shared_acc", mode, "f32[%s, e:%d]", axes, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "shared_state%u", n), mode, "f32[%s]", axes);
}
