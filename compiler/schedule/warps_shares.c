/* warps_shares.c - equal shares of the keys of sequences of different lengths, for the kernels of few queries (warps_decode.c, warps_wide.c).
 *
 * Without a list each sequence has as many parts as all others, and the longest one's last as long as the call. The kernel `shares` makes a list
 * instead: of tiles in range each block adds up, in f32, what all sequences have, and what those before its own have, so no block waits for another.
 * Its warps share out the sums, and have each a sequence whose parts they list. A part has at most [longest / way] tiles; the way is the one of which the call should end first:
 *
 *     all parts at once on the machine's processors       tiles of a part + start
 *     more than that                                      (all tiles + start * parts) / workers + a quarter of a part, since who works on when
 *                                                         others have ended has their bandwidth, too
 *
 * Parts of a sequence are equal but for one tile. `share_of` has each part's sequence and number, -1 where there is none, `share_at` each sequence's
 * first part and how many it has. Room is for as many as sequences and workers together: known from shapes, whatever lengths are. */
#include "key_groups.h"
#include "warps_decode.h"

enum {
    PART_START = 3,    /* tiles that are as long as what a part begins and ends with */
    CROWDED_START = 6, /* of blocks that share a processor (docs/dev/performance-notes.md) */
    WAYS = 32,         /* of a way m + 4 e: longest / (1 + m / 4) / 2^e tiles */
    WARPS = 16,   /* of a block, each with a sequence of its own, and a share of all for the sums */
    SUMMED = 64,  /* sequences that a warp adds up together */
    TRIED = 32,   /* together by all ways */
    WRITTEN = 32, /* parts */
    LONGEST = 8192, /* tiles: of longer sequences ways count from here on */
};

int32_t warps_part_start(const AuProblem *p)
{
    if (!p->balanced || p->hooks->range_begins) return 0;
    return p->form == AU_FEW_CROWDED ? CROWDED_START : PART_START;
}

static const char *batch(Lanes *x) { return lanes_axis(x, 0, 0); }

/* Blocks that have a part: heads of keys, and blocks of rows of each. */
static const char *blocks_of_part(Lanes *x)
{
    return tile_text(x->t, "max(%s * %s, 1)", lanes_groups(x), warps_row_blocks(x));
}

/* Parts that are on the machine together. */
static const char *at_once(Lanes *x)
{
    return tile_text(x->t, "max(%d / %s, 1)", WARPS_PROCESSORS * x->resident, blocks_of_part(x));
}

const char *warps_share_slots(Lanes *x)
{
    const char *b = batch(x), *some = at_once(x);
    return tile_text(x->t, "min(%s + %s + min(%s, %s / 2), %s * max(cdiv(%s, %d), 1))", b, some,
                     some, b, b, lanes_key_room(x), x->shape->key_tile);
}

void warps_share_arguments(Lanes *x, AuTileMode mode)
{
    tile_arg(x->t, "share_of", mode, "i32[what:2, slot:%s]", warps_share_slots(x));
    tile_arg(x->t, "share_at", mode, "i32[what:2, b:%s]", batch(x));
}

/* Of sequences [number], one or several along the axis s: sets number, and share_tiles, key tiles that some row sees. As many as kernels of a
 * sequence find, or more. */
static void count_tiles(Lanes *x, const char *number)
{
    AuTileBuild *t = x->t;
    const AuRowLayout *queries = &x->p->attn->queries;
    tile_set(t, "number", "%s", number);
    tile_set(t, "b", "min(number, %s - 1)", batch(x));
    lanes_set_key_lengths(x);
    if (lanes_is_packed(x, LANES_QUERIES))
        tile_set(t, "q_start", "%s", lanes_query_start_of(x, "b"));
    if (queries->layout) tile_set(t, "q_length", "%s", lanes_queries_of(x, "b", "q_start"));
    const char *low = "0", *high = "kv_length";
    if (x->p->hooks->range_begins && !lanes_mask_by_head(x)) { /* else a head might see more */
        tile_set(t, "low, high, full_low, full_high", "%s", lanes_range_of_all(x, "0"));
        low = "clamp(low, 0, kv_length)", high = "clamp(high, 0, kv_length)";
    }
    if (lanes_shares_keys(x)) {
        tile_set(t, "own_begin", "members[0, b]");
        low = tile_text(t, "max(%s, own_begin)", low);
    }
    tile_set(
        t, "share_tiles",
        "where(number < %s && kv_length > 0 && %s > 0, f32(max(cdiv(%s, %d) - %s / %d, 1)), 0.0)",
        batch(x), lanes_query_end(x), high, x->shape->key_tile, low, x->shape->key_tile);
}

/* How many parts [tiles] are, of 1 / [inverse] tiles each: one at least, none where there are none. As many whole parts as there are and one for the rest,
 * where that is more than 1 / LONGEST of a part: so much as a tile is at least, and more than what rounding adds. To the nearest whole number rounds 1.5 * 2^23
 * that is added, since machines have few units for `ceil`. */
static const char *parts_of(Lanes *x, const char *tiles, const char *inverse)
{
    return tile_text(x->t, "%s * %s + (0.5 - 0.75 / %d.0) + 12582912.0 - 12582912.0", tiles,
                     inverse, LONGEST);
}

/* Over the warp's sequences, [SUMMED] by [SUMMED]: those of the block's warps are neighbours. Sets number and counted, the tiles of each. Counted [again]
 * are they only where the warp has had others since. */
static void begin_sequences(Lanes *x, bool again)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "some", "0",
                   tile_text(t, "cdiv(%s - self * %d, %d)", batch(x), SUMMED, WARPS * SUMMED));
    tile_set(t, "first", "(some * %d + self) * %d", WARPS, SUMMED);
    tile_set(t, "number", "first + iota(s:%d)", SUMMED);
    if (again) tile_if(t, "%s > %d", batch(x), WARPS * SUMMED);
    count_tiles(x, "number");
    tile_set(t, "counted", "share_tiles");
    if (again) tile_end(t);
}

/* Of each warp a number, in memory; sets name: all of them, the same in all lanes and so fit to say where loops end. */
static void of_warps(Lanes *x, const char *name, const char *memory)
{
    tile_load(x->t, tile_part(x->t, "%s", name), "%s @ alike", memory);
}

/* Sets longest, of a sequence, and all_tiles, tiles of all. */
static void sum_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_frag(t, "counted", "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    tile_frag(t, "largest", "f32[s:%d] @ along_lanes = 1.0", SUMMED);
    tile_frag(t, "sums", "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    begin_sequences(x, false);
    tile_set(t, "largest", "max(largest, counted)");
    tile_set(t, "sums", "sums + counted");
    tile_end(t);
    tile_set(t, "own_largest", "reduce_max(largest, s)"); /* both before either is stored */
    tile_set(t, "own_sum", "reduce_sum(sums, s)");
    tile_store(t, "own_largest -> LARGEST[self]");
    tile_store(t, "own_sum -> SUMS[self]");
    tile_sync(t, "all");
    of_warps(x, "each_largest", "LARGEST[:] as [w]");
    of_warps(x, "each_sum", "SUMS[:] as [w]");
    tile_set(t, "longest", "min(reduce_max(each_largest, w), %d.0)", LONGEST);
    tile_set(t, "of_longest", "1.0 / longest");
    tile_set(t, "all_tiles", "reduce_sum(each_sum, w)");
}

/* Parts of the longest sequence, of ways along the lanes. */
static void set_way(Lanes *x, const char *name, int32_t count)
{
    AuTileBuild *t = x->t;
    const char *way = tile_text(t, "iota(way:%d)", count);
    tile_set(t, tile_part(t, "%s", name), "(1.0 + 0.25 * f32(%s %% 4)) * f32(1 << (%s / 4))", way,
             way);
}

/* Into the warp's line of TRIED: parts that its sequences have by each way. Half of the lanes have half of the sequences. The later half of the ways,
 * 16 times as many parts for the longest, is for few sequences: where there is no room for as many parts as that makes it is left out. */
static void try_ways(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "tries_all", "all_tiles * 16.0 <= longest * f32(%s) * 1.02", warps_share_slots(x));
    tile_set(t, "earlier", "earlier_way * of_longest");
    tile_set(t, "later", "earlier * 16.0");
    tile_frag(t, "tried", "f32[s:%d, way:%d] @ by_halves = 0.0", TRIED, WAYS / 2);
    tile_frag(t, "tried_later", "f32[s:%d, way:%d] @ by_halves = 0.0", TRIED, WAYS / 2);
    begin_sequences(x, true);
    tile_store(t, "counted -> TILES[self, :]");
    tile_sync(t, "self");
    tile_for_range(t, "few", "0",
                   tile_text(t, "min(cdiv(%s - first, %d), %d)", batch(x), TRIED, SUMMED / TRIED));
    tile_load(t, "their_tiles", "TILES[self, few * %d +: %d] as [s] @ in_halves", TRIED, TRIED);
    tile_set(t, "tried", "tried + %s", parts_of(x, "their_tiles", "earlier"));
    tile_if(t, "tries_all");
    tile_set(t, "tried_later", "tried_later + %s", parts_of(x, "their_tiles", "later"));
    tile_end(t);
    tile_end(t);
    tile_sync(t, "self");
    tile_end(t);
    tile_store(t, "reduce_sum(tried, s) -> TRIED[self, 0 +: %d]", WAYS / 2);
    tile_set(t, "sums_later", "where(tries_all, reduce_sum(tried_later, s), inf)");
    tile_store(t, "sums_later -> TRIED[self, %d +: %d]", WAYS / 2, WAYS / 2);
}

/* Sets best: 1 over the tiles of a part. */
static void choose_way(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t workers = WARPS_PROCESSORS * x->resident;
    tile_set(t, "inverse", "way * of_longest");
    try_ways(x);
    tile_sync(t, "all");
    tile_load(t, "each_tried", "TRIED[:, :] as [w, way] @ by_way"); /* a lane has a way */
    tile_set(t, "parts_tried", "reduce_sum(each_tried, w)");
    tile_set(t, "part_tiles", "longest * of_way");
    tile_set(t, "blocks_tried", "parts_tried * f32(%s)", blocks_of_part(x));
    tile_set(t, "takes",
             "where(blocks_tried <= %d.0, part_tiles + %d.0, "
             "(all_tiles * f32(%s) + %d.0 * blocks_tried) * (1.0 / %d.0) + 0.25 * part_tiles)",
             workers, x->shape->part_start, blocks_of_part(x), x->shape->part_start, workers);
    tile_set(t, "gain", "where(parts_tried <= f32(%s), -takes, -inf)", warps_share_slots(x));
    tile_set(t, "most", "reduce_max(gain, way)");
    tile_set(t, "best", "reduce_max(where(gain >= most, inverse, 0.0), way)");
}

/* Sets first_part and own_parts of the warp's sequence, and listed, the parts of all. Should rounding make them more than there is room for, each has one. */
static void count_parts(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *room = warps_share_slots(x);
    tile_frag(t, "before", "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    tile_frag(t, "every", "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    begin_sequences(x, true);
    tile_set(t, "count", "%s", parts_of(x, "counted", "best"));
    tile_set(t, "every", "every + count");
    tile_set(t, "before", "before + where(number < turn * %d, count, 0.0)", WARPS);
    tile_end(t);
    tile_set(t, "own_before", "reduce_sum(before, s)");
    tile_set(t, "own_every", "reduce_sum(every, s)");
    tile_store(t, "own_before -> BEFORE[self]");
    tile_store(t, "own_every -> EVERY[self]");
    tile_set(t, "sequence", "turn * %d + self", WARPS);
    count_tiles(x, "sequence");
    tile_set(t, "own", "%s", parts_of(x, "share_tiles", "best"));
    tile_store(t, "own -> OWN[self]");
    tile_sync(t, "all");
    of_warps(x, "each_before", "BEFORE[:] as [w]");
    of_warps(x, "each_count", "EVERY[:] as [w]");
    of_warps(x, "each_own", "OWN[:] as [w]");
    tile_set(t, "sum_of_all", "i32(reduce_sum(each_count, w))");
    tile_set(t, "fits", "sum_of_all <= %s", room);
    tile_set(t, "listed", "where(fits, sum_of_all, %s)", batch(x));
    tile_set(t, "first_part",
             "where(fits, i32(reduce_sum(each_before + where(iota(w:%d) < self, each_own, 0.0), "
             "w)), sequence)",
             WARPS);
    tile_load(t, "own_tried", "OWN[self]"); /* of memory, since a loop ends there */
    tile_set(t, "own_parts", "where(fits, i32(own_tried), 1)");
}

/* Places of the list, [WRITTEN] at once, the next of them [step] on: sequence and number of each part. */
static void write_parts(Lanes *x, const char *first, const char *count, int32_t step,
                        const char *whose, const char *number, const char *when)
{
    AuTileBuild *t = x->t;
    const char *room = warps_share_slots(x);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", count, step));
    tile_set(t, "n", "some * %d + iota(slot:%d)", step, WRITTEN);
    tile_set(t, "place", "n + %s", first);
    tile_set(t, "whose", "place * 0 + %s", whose);
    tile_set(t, "part_number", "place * 0 + %s", number);
    tile_store(t, "whose -> share_of[0, place] when %splace < %s", when, room);
    tile_store(t, "part_number -> share_of[1, place] when %splace < %s", when, room);
    tile_end(t);
}

static void memories(Lanes *x)
{
    static const char *const numbers[] = {"LARGEST", "SUMS", "BEFORE", "EVERY", "OWN"};
    AuTileBuild *t = x->t;
    tile_shared(t, "TILES", "f32[w:%d, s:%d]", WARPS, SUMMED);
    tile_shared(t, "TRIED", "f32[w:%d, way:%d]", WARPS, WAYS);
    for (uint32_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        tile_shared(t, tile_part(t, "%s", numbers[n]), "f32[w:%d]", WARPS);
    tile_barrier(t, "all", 0, WARPS);
}

void warps_share_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *room = warps_share_slots(x),
               *halves = tile_text(t, "reg:%d lane:2@%d", TRIED / 2, WAYS / 2);
    tile_layout(t, "alike", "reg", NULL);
    tile_layout(t, "by_way", "reg", tile_text(t, "lane:%d@1", WAYS));
    tile_layout(t, "in_halves", halves, NULL);
    tile_layout(t, "by_halves", halves, tile_text(t, "lane:%d@1", WAYS / 2));
    tile_kernel(t, "shares");
    lanes_arguments(x);
    lanes_members_argument(x);
    warps_share_arguments(x, TILE_OUT);
    tile_grid(t, "turn: cdiv(%s, %d)", batch(x), WARPS);
    memories(x);
    tile_role(t, "core", WARPS, TILE_ON_WARP, 0);
    set_way(x, "way", WAYS); /* while lengths are on their way */
    set_way(x, "earlier_way", WAYS / 2);
    tile_set(t, "of_way", "1.0 / way");
    sum_tiles(x);
    choose_way(x);
    count_parts(x);
    lanes_list_fragments(x, &(LanesList){"share_of", "slot", "part_number"});
    tile_if(t, tile_text(t, "sequence < %s", batch(x)));
    tile_store(t, "first_part -> share_at[0, sequence]");
    tile_store(t, "own_parts -> share_at[1, sequence]");
    write_parts(x, "first_part", "own_parts", WRITTEN, "sequence", "n", "n < own_parts && ");
    tile_end(t);
    tile_if(t, tile_text(t, "turn == cdiv(%s, %d) - 1", batch(x), WARPS));
    tile_set(t, "rest", "listed + self * %d", WRITTEN);
    write_parts(x, "rest", tile_text(t, "%s - rest", room), WARPS * WRITTEN, "0", "-1", "");
    tile_end(t);
    tile_end(t);
    tile_end(t);
    lanes_work_region(x, "share_of");
    lanes_work_region(x, "share_at");
}
