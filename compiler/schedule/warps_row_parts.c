/* warps_row_parts.c - kernels for a few queries: the one that joins the parts of a row (warps_decode_parts.c), channels along the lanes of a warp.
 *
 * Loads of so many parts are under way together, a round; rounds are joined as pairs, pairs of pairs and so on. Rows of a few sequences, which have parts for all
 * processors, are joined by several warps, each with every so many-th round. */
#include "key_groups.h"
#include "warps_decode.h"

enum {
    HALF = 2,              /* bytes */
    MOST_SIDE_BY_SIDE = 4, /* channels: 16 bytes of f32 */
    AT_ONCE = 8,       /* parts of a row whose loads are under way together; of wide rows half */
    CUT = 128,         /* channels of wide rows that a warp has */
    JOINING = 8,       /* warps that share rounds, of rows that one warp holds; of others half */
    MANY_WARPS = 1024, /* that join rows: rounds are not shared where there are more */
    ROWS_BESIDE =
        4, /* of a sequence that is one of few rows beside others: as many blocks join its rows */
};

/* Channels of the warp. An out_mod may look at all. */
static int32_t columns(const Lanes *x)
{
    const bool cut = x->p->e > WARPS_WIDE && x->p->e % CUT == 0 && !x->p->hooks->has_out_mod;
    return cut ? CUT : x->p->e;
}

static int32_t at_once(const Lanes *x) { return columns(x) > WARPS_WIDE ? AT_ONCE / 2 : AT_ONCE; }

const char *warps_rounds_of(Lanes *x, const char *parts)
{
    return tile_text(x->t, "cdiv(%s, %d)", parts, at_once(x));
}

/* Warps that have some of a row's channels each. */
static int32_t cuts(const Lanes *x) { return x->p->e / columns(x); }

/* Warps of a block that join parts, a part of them each: as many of a row as it has rounds, a power of two, and as many rows as that leaves. A few sequences have many
 * parts, whose rounds of loads are what a short call waits for; of lists rows differ, and most have one or two. One round after the other are joined rows that
 * pass in turns or are of a layout, those of keys that are shared, and those that must have the bits of such kernels. */
static int32_t joining(const Lanes *x)
{
    const bool one_by_one = x->p->balanced || x->only || x->p->invariant || lanes_shares_keys(x) ||
                            x->p->attn->queries.layout || !schedule_joins_parts(x->p);
    if (one_by_one || x->atom->m == 1) return 1;
    return cuts(x) > 1 ? JOINING / 2 : JOINING;
}

/* Of kernels whose warps share rounds: the number of such a warp, all of whose cuts have it; which of those of its row it is. */
static const char *sharer(Lanes *x)
{
    return cuts(x) > 1 ? tile_text(x->t, "self / %d", cuts(x)) : "self";
}

/* Which of the cuts the warp has. */
static const char *own_cut(Lanes *x)
{
    return joining(x) > 1 ? tile_text(x->t, "self %% %d", cuts(x)) : "self";
}

static const char *own_columns(Lanes *x)
{
    const int32_t own = columns(x);
    return own == x->p->e ? ":" : tile_text(x->t, "%s * %d +: %d", own_cut(x), own, own);
}

/* Parts of a row: tensors `NAME_acc`, `NAME_state0`.., where the row is behind the part, and the name of their number. */
typedef struct Parts {
    const char *name, *at, *count, *before; /* the number of the first one: "first + ", or "" */
} Parts;

/* Of part round * at_once(x) + n; of none behind the last. */
static void load_part(Lanes *x, const Parts *of, int32_t n)
{
    AuTileBuild *t = x->t;
    const char *at = tile_text(t, "%smin(round * %d + %d, %s - 1), %s", of->before, at_once(x), n,
                               of->count, of->at);
    tile_load(t, tile_numbered(t, "further", (uint32_t)n), "%s_acc[%s, %s] @ row_by_lanes",
              of->name, at, own_columns(x));
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++)
        tile_load(t, tile_text(t, "other%u_%d", s, n), "%s_state%u[%s] like row_like", of->name, s,
                  at);
}

/* Part [n], or what the row has so far, is joined with part [other]. */
static void join_pair(Lanes *x, const char *acc, const char *states, int32_t n, int32_t other)
{
    AuTileBuild *t = x->t;
    AuText all = {.arena = x->arena}, others = {.arena = x->arena};
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++) {
        au_text_add(&others, ", other%u_%d", s, other);
        if (!states) au_text_add(&all, ", other%u_%d", s, n);
    }
    if (!states) states = au_text_str(&all), acc = tile_text(t, "further%d", n);
    tile_set(t, tile_text(t, "before, behind%s", states), "online_join(b, h, i%s%s)", states,
             au_text_str(&others));
    tile_set(t, acc, "%s * before + further%d * behind", acc, other);
}

/* The first [count] parts of a round, of which [sure] are there: neighbours, then pairs of these, so that what one waits for is a few joins and not all. */
static void join_round(Lanes *x, const Parts *of, int32_t count, int32_t sure)
{
    AuTileBuild *t = x->t;
    for (int32_t apart = 1; apart < count; apart *= 2)
        for (int32_t n = 0; n + apart < count; n += 2 * apart) {
            const bool may_be_none = n + apart >= sure;
            if (may_be_none) tile_if(t, "round * %d + %d < %s", at_once(x), n + apart, of->count);
            join_pair(x, NULL, NULL, n, n + apart);
            if (may_be_none) tile_end(t);
        }
    join_pair(x, "acc", lanes_states(x), 0, 0);
}

/* All loads of a round stand before what is made of them. Most rows have a few parts: loads of parts that are none would be most of what the kernel takes. */
static void join_this_round(Lanes *x, const Parts *of)
{
    AuTileBuild *t = x->t;
    const int32_t all = at_once(x), some = all / 2;
    tile_if(t, "round * %d + %d < %s", all, some, of->count);
    for (int32_t n = 0; n < all; n++) load_part(x, of, n);
    join_round(x, of, all, some + 1);
    tile_else(t);
    for (int32_t n = 0; n < some; n++) load_part(x, of, n);
    join_round(x, of, some, 1);
    tile_end(t);
}

static void join_parts(Lanes *x, const Parts *of)
{
    tile_for_range(x->t, "round", "0", warps_rounds_of(x, of->count));
    join_this_round(x, of);
    tile_end(x->t);
}

/* ---- rounds that warps share: a warp joins every so many-th of its row, and the row's first one what these have made of theirs, in shared memory */

/* How many warps a row has: 1, and as many again where there are more rounds, by operations that a launch has. Many rows have warps enough for all
 * processors. */
static const char *ways_of(Lanes *x, const char *parts)
{
    AuTileBuild *t = x->t;
    const char *rounds = warps_rounds_of(x, parts), *ways = "1",
               *rows = tile_text(t, "%s * %s * %s", lanes_axis(x, 0, 0), lanes_most_queries(x),
                                 lanes_axis(x, 0, 1)),
               *few = tile_text(t, "min(%d / max(%s, 1), 1)", MANY_WARPS / cuts(x), rows);
    for (int32_t n = 1; n < joining(x); n *= 2)
        ways = tile_text(t, "%s + %d * min(max(%s - %d, 0), %s)", ways, n, rounds, n, few);
    return ways;
}

static void shared_memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t warps = joining(x);
    if (warps == 1) return;
    tile_shared(t, "JOINED_acc", "f32[part:%d, q:1, e:%d]", warps, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_shared(t, tile_text(t, "JOINED_state%u", n), "f32[part:%d, q:1]", warps);
    tile_barrier(t, "all", 0, warps * cuts(x));
}

/* The head of the warp's row, of which there may be none, and the row. */
static void name_own_row(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "own_head", "turn * (%d / ways) + %s / ways", joining(x), sharer(x));
    tile_set(t, "h", "min(own_head, %s - 1)", lanes_axis(x, 0, 1));
    tile_set(t, lanes_group_name(x), "h / group");
    tile_set(t, "row", "mb * group + h %% group");
    tile_set(t, "way", "%s %% ways", sharer(x));
}

static void share_rounds(Lanes *x, const Parts *of)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "turn_of_round", "0",
                   tile_text(t, "cdiv(%s - way, ways)", warps_rounds_of(x, of->count)));
    tile_set(t, "round", "turn_of_round * ways + way");
    join_this_round(x, of);
    tile_end(t);
    tile_if(t, "ways > 1");
    tile_store(t, "acc -> JOINED_acc[%s +: 1, 0, %s] as [q, e]", sharer(x), own_columns(x));
    if (cuts(x) > 1) tile_if(t, "%s == 0", own_cut(x));
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> JOINED_state%u[%s +: 1, 0] as [q]", n, n, sharer(x));
    if (cuts(x) > 1) tile_end(t);
    tile_sync(t, "all");
    tile_if(t, "way == 0");
    tile_set(t, "acc", "fill(acc, 0.0)");
    lanes_begin_states(x);
    tile_set(t, "round", "0");
    join_this_round(x, &(Parts){"JOINED", "0 +: 1",
                                tile_text(t, "min(%s, ways)", warps_rounds_of(x, of->count)),
                                tile_text(t, "%s + ", sharer(x))});
    tile_end(t);
    tile_end(t);
}

/* The one part of a row of which nobody could join two. */
static void take_part(Lanes *x, const char *at)
{
    tile_load(x->t, "acc", "part_acc[0, %s, %s]", at, own_columns(x));
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_load(x->t, tile_text(x->t, "state%u", n), "part_state%u[0, %s] like row_like", n, at);
}

/* Lets how many parts a row has, and of what its sequence shares. Of a list, which a call may have brought, those that there is room for. */
static void let_parts(Lanes *x)
{
    if (x->p->balanced) {
        const char *slots = warps_share_slots(x);
        tile_let(x->t, "parts", "clamp(share_at[1, b], 0, %s)", slots);
        tile_let(x->t, "first_part", "clamp(share_at[0, b], 0, %s - parts)", slots);
    } else
        tile_let(x->t, "parts", "%s",
                 x->p->invariant ? warps_own_parts(x, lanes_key_end(x)) : warps_parts(x));
    lanes_let_own_keys(x);
    if (lanes_shares_keys(x)) tile_let(x->t, "shared_parts", "%s", warps_prefix_parts(x));
}

/* Beside sequences of many rows most have one, and blocks that leave at once take as long to begin as others, so a sequence has some blocks,
 * with all of its rows in turns. */
static void begin_turns(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "turn_of_row", "0",
                   tile_text(t, "cdiv(q_length - first_row, %d)", ROWS_BESIDE));
    tile_set(t, "mb", "first_row + turn_of_row * %d", ROWS_BESIDE);
    tile_set(t, "row", "mb * group + h %% group");
    if (lanes_shares_keys(x)) tile_set(t, "place", "%s", lanes_group_place(x, "row"));
}

static void row_grid(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_most_queries(x), *name = x->only ? "first_row" : "mb";
    if (x->only) rows = tile_text(t, "min(%s, %d)", rows, ROWS_BESIDE);
    if (x->ends_rows && !warps_ends_by_data(x)) /* none, where no row has two parts */
        rows = tile_text(t, "%s * min(%s - 1, 1)", rows, warps_parts(x));
    if (joining(x) > 1)
        tile_grid(t, "%s: %s, turn: cdiv(%s * (%s), %d), b: %s", name, rows, lanes_axis(x, 0, 1),
                  ways_of(x, warps_parts(x)), joining(x), lanes_axis(x, 0, 0));
    else
        tile_grid(t, "%s: %s, h: %s, b: %s", name, rows, lanes_axis(x, 0, 1), lanes_axis(x, 0, 0));
}

/* The row's channels: neighbours of a lane in one access, where lanes of such roles have accesses of several numbers. */
static void row_layout(Lanes *x)
{
    const int32_t lanes = x->p->caps->lanes;
    int32_t side_by_side = x->atom->m > 1 ? MOST_SIDE_BY_SIDE : 1;
    while (side_by_side > 1 && columns(x) % (side_by_side * lanes)) side_by_side /= 2;
    tile_layout(x->t, "row_by_lanes", "reg",
                side_by_side == 1 ? tile_text(x->t, "lane:%d@1", lanes)
                                  : tile_text(x->t, "reg:%d lane:%d@1", side_by_side, lanes));
}

/* All parts of the block's row, first those of keys that its sequence shares. */
static void join_row(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *group = lanes_group_name(x), *row = tile_text(t, "%s, row +: 1", group),
               *own = tile_text(t, "b, %s", row);
    if (!schedule_joins_parts(x->p)) {
        take_part(x, own);
        return;
    }
    if (lanes_shares_keys(x))
        join_parts(x,
                   &(Parts){"shared", tile_text(t, "%s, place +: 1", group), "shared_parts", ""});
    const Parts listed = {"part", row, "parts", "first_part + "}, all = {"part", own, "parts", ""};
    if (joining(x) > 1)
        share_rounds(x, &all);
    else
        join_parts(x, x->p->balanced ? &listed : &all);
}

static void store_row(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *place = lanes_row_place(x, LANES_QUERIES, "h", "mb +: 1");
    lanes_results(x);
    tile_store(t, "%s(out) -> o[%s, %s]", x->operand, place, own_columns(x));
    if (cuts(x) > 1) tile_if(t, "%s == 0", own_cut(x));
    if (joining(x) > 1) /* warps are not what says which row of the block it is */
        lanes_store_finals_at(x, place);
    else
        lanes_store_finals(x);
    if (cuts(x) > 1) tile_end(t);
}

void warps_join_kernel(Lanes *given)
{
    AuTileBuild *t = given->t;
    Lanes one = *given, *x = &one;
    row_layout(x);
    tile_kernel(t, x->only ? "few" : "forward");
    if (tile_elem(x->p->operand)->bytes == HALF && x->atom->m > 1)
        tile_coarse(t); /* as beside it */
    lanes_arguments(x);
    lanes_members_argument(x);
    if (x->p->balanced) warps_share_arguments(x, TILE_IN);
    warps_part_arguments(x, TILE_IN);
    warps_prefix_arguments(x, TILE_IN);
    lanes_result_arguments(x);
    const int32_t warps = joining(x) * cuts(x);
    const bool shares = joining(x) > 1;
    row_grid(x);
    tile_let(t, "group", "%s", lanes_heads_of_group(x));
    if (!shares) tile_let(t, lanes_group_name(x), "h / group");
    lanes_let_key_length(x);
    if (!shares && !x->only) tile_let(t, "row", "mb * group + h %% group");
    let_parts(x);
    if (shares) tile_let(t, "ways", "%s", ways_of(x, "parts"));
    if (!x->only && lanes_shares_keys(x)) tile_let(t, "place", "%s", lanes_group_place(x, "row"));
    shared_memories(x);
    tile_role(t, "core", warps > 1 ? warps : 0, TILE_ON_WARP, 0);
    if (x->is_exact) tile_role_exact(t);
    x->rows = x->block = 1;
    if (warps_ends_by_data(x))
        tile_if(t, "parts != 1%s", lanes_shares_keys(x) ? " || own_low > 0" : "");
    if (x->only) begin_turns(x);
    tile_frag(t, "acc", "f32[q:1, e:%d] @ row_by_lanes = 0.0", columns(x));
    tile_frag(t, "row_like", "f32[q:1] like acc = 0.0");
    if (shares) name_own_row(x);
    tile_set(t, "i", "mb + iota(q:1)");
    if (!x->only) lanes_begin_own_row(x);
    lanes_begin_states(x);
    join_row(x);
    if (shares) tile_if(t, "way == 0 && own_head < %s", lanes_axis(x, 0, 1));
    store_row(x);
    if (shares) tile_end(t);
    lanes_end_own_row(x, own_columns(x), cuts(x) > 1 ? "self == 0" : NULL);
    if (warps_ends_by_data(x)) tile_end(t);
    tile_end(t);
    tile_end(t);
}
