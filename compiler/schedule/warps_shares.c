/* warps_shares.c - equal shares of the keys of sequences of different lengths, for the kernels of few queries (warps_decode.c, warps_wide.c).
 *
 * Without a list each sequence has as many parts as all others, and the longest one's last as long as the call. The kernel `shares`, a block of one
 * warp a sequence, makes a list instead: of tiles in range it adds up, in f32, what all have, and what those before its own have, so no block
 * waits for another. A part has at most [longest / way] tiles; the way is the one of which the call should end first:
 *
 *     all parts at once on the machine's processors       tiles of a part + start
 *     more than that                                      (all tiles + start * parts) / workers + a quarter of a part, since who works on when
 *                                                         others have ended has their bandwidth, too
 *
 * Parts of a sequence are equal but for one tile. `share_of` has each part's sequence and number, -1 where there is none, `share_at` each sequence's
 * first part and how many it has. Room is for as many as sequences and workers together: known from shapes, whatever lengths are. */
#include "key_layout.h"
#include "warps_decode.h"

enum {
    PART_START = 3,
    WAYS = 32,    /* of a way m + 4 e: longest / (1 + m / 4) / 2^e tiles */
    SUMMED = 128, /* sequences that are added up together */
    TRIED = 32,   /* of all ways */
};

int32_t warps_part_start(const AuProblem *p)
{
    return p->balanced && !p->hooks->range_begins ? PART_START : 0;
}

static const char *batch(Lanes *x) { return lanes_axis(x, 0, 0); }

/* Blocks that have a part: heads of keys, and blocks of rows of each. */
static const char *blocks_of_part(Lanes *x)
{
    return tile_text(x->t, "max(%s * %s, 1)", lanes_axis(x, 1, 1), warps_row_blocks(x));
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

/* Sequences from [first] on, so many along the axis s: sets number, and share_tiles, key tiles that some row sees. As many as kernels of a
 * sequence find, or more. */
static void count_tiles(Lanes *x, const char *first, int32_t count)
{
    AuTileBuild *t = x->t;
    const AuRowLayout *queries = &x->p->attn->queries;
    tile_set(t, "number", "%s + iota(s:%d)", first, count);
    tile_set(t, "b", "min(number, %s - 1)", batch(x));
    lanes_set_key_lengths(x);
    if (lanes_is_packed(x, LANES_QUERIES))
        tile_set(t, "q_start", "%s", lanes_query_start_of(x, "b"));
    if (queries->layout) tile_set(t, "q_length", "%s", lanes_queries_of(x, "b", "q_start"));
    const char *low = "0", *high = "kv_length";
    if (x->p->hooks->range_begins) {
        tile_set(t, "low, high, full_low, full_high", "%s", lanes_range_of_all(x, "0"));
        low = "clamp(low, 0, kv_length)", high = "clamp(high, 0, kv_length)";
    }
    tile_set(
        t, "share_tiles",
        "where(number < %s && kv_length > 0 && %s > 0, f32(max(cdiv(%s, %d) - %s / %d, 1)), 0.0)",
        batch(x), lanes_query_end(x), high, x->shape->key_tile, low, x->shape->key_tile);
}

/* How many parts that is, of 1 / [inverse] tiles each; none where there are none. The hundredth keeps rounding from making one more. */
static const char *parts_of(Lanes *x, const char *inverse)
{
    return tile_text(x->t, "where(share_tiles > 0.0, max(ceil(share_tiles * %s - 0.01), 1.0), 0.0)",
                     inverse);
}

/* Sets longest, of a sequence, and all_tiles, tiles of all. */
static void sum_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_frag(t, "largest", "f32[s:%d] @ along_lanes = 1.0", SUMMED);
    tile_frag(t, "sums", "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", batch(x), SUMMED));
    count_tiles(x, tile_text(t, "some * %d", SUMMED), SUMMED);
    tile_set(t, "largest", "max(largest, share_tiles)");
    tile_set(t, "sums", "sums + share_tiles");
    tile_end(t);
    tile_set(t, "longest", "reduce_max(largest, s)");
    tile_set(t, "all_tiles", "reduce_sum(sums, s)");
}

/* Sets best: 1 over the tiles of a part. */
static void choose_way(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t workers = WARPS_PROCESSORS * x->resident;
    tile_set(t, "way", "iota(way:%d)", WAYS);
    tile_set(t, "inverse", "(1.0 + 0.25 * f32(way %% 4)) * f32(1 << (way / 4)) / longest");
    tile_frag(t, "tried", "f32[s:%d, way:%d] @ by_sequence = 0.0", TRIED, WAYS);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", batch(x), TRIED));
    count_tiles(x, tile_text(t, "some * %d", TRIED), TRIED);
    tile_set(t, "tried", "tried + %s", parts_of(x, "inverse"));
    tile_end(t);
    tile_set(t, "sums_tried", "reduce_sum(tried, s)");
    tile_store(t, "sums_tried -> TRIED[:]");
    tile_sync(t, "self");
    tile_load(t, "parts_tried", "TRIED[:] @ along_lanes"); /* a lane has a way */
    tile_set(t, "part_tiles", "1.0 / inverse");
    tile_set(t, "blocks_tried", "parts_tried * f32(%s)", blocks_of_part(x));
    tile_set(t, "takes",
             "where(blocks_tried <= %d.0, part_tiles + %d.0, "
             "(all_tiles * f32(%s) + %d.0 * blocks_tried) / %d.0 + 0.25 * part_tiles)",
             workers, x->shape->part_start, blocks_of_part(x), x->shape->part_start, workers);
    tile_set(t, "gain", "where(parts_tried <= f32(%s), -takes, -inf)", warps_share_slots(x));
    tile_set(t, "most", "reduce_max(gain, way)");
    tile_set(t, "best", "reduce_max(where(gain >= most, inverse, 0.0), way)");
}

/* Sets first_part and own_parts of the block's sequence, and listed, the parts of all. Should rounding make them more than there is room for, each has one. */
static void count_parts(Lanes *x)
{
    AuTileBuild *t = x->t;
    static const char *const sums[] = {"before", "own", "every"};
    for (uint32_t n = 0; n < 3; n++)
        tile_frag(t, tile_part(t, "%s", sums[n]), "f32[s:%d] @ along_lanes = 0.0", SUMMED);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", batch(x), SUMMED));
    count_tiles(x, tile_text(t, "some * %d", SUMMED), SUMMED);
    tile_set(t, "count", "%s", parts_of(x, "best"));
    tile_set(t, "every", "every + count");
    tile_set(t, "before", "before + where(number < sequence, count, 0.0)");
    tile_set(t, "own", "own + where(number == sequence, count, 0.0)");
    tile_end(t);
    tile_set(t, "sum_of_all", "i32(reduce_sum(every, s))");
    tile_set(t, "fits", "sum_of_all <= %s", warps_share_slots(x));
    tile_set(t, "listed", "where(fits, sum_of_all, %s)", batch(x));
    tile_set(t, "first_part", "where(fits, i32(reduce_sum(before, s)), sequence)");
    tile_set(t, "own_parts", "where(fits, i32(reduce_sum(own, s)), 1)");
}

/* Places [first] and on of the list, where [when]: sequence and number of each part. */
static void write_parts(Lanes *x, const LanesList *list, const char *first, const char *b,
                        const char *number, const char *when)
{
    const char *room = warps_share_slots(x);
    lanes_write_list(x, list, room, first, b, number,
                     tile_text(x->t, "%s && place < %s", when, room));
}

void warps_share_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const LanesList list = {"share_of", "slot", "part_number"};
    tile_layout(t, "by_sequence", tile_text(t, "lane:%d@1", x->p->caps->lanes), "reg");
    tile_kernel(t, "shares");
    lanes_arguments(x);
    warps_share_arguments(x, TILE_OUT);
    tile_grid(t, "sequence: %s", batch(x));
    tile_shared(t, "TRIED", "f32[way:%d]", WAYS);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    lanes_list_fragments(x, &list);
    sum_tiles(x);
    choose_way(x);
    count_parts(x);
    tile_frag(t, "said", "i32[b:1] @ along_lanes = 0");
    tile_set(t, "said", "iota(b:1) * 0 + first_part");
    tile_store(t, "said -> share_at[0, sequence +: 1]");
    tile_set(t, "said", "iota(b:1) * 0 + own_parts");
    tile_store(t, "said -> share_at[1, sequence +: 1]");
    write_parts(x, &list, "first_part", "sequence", "n", "n < own_parts");
    tile_if(t, tile_text(t, "sequence == %s - 1", batch(x)));
    write_parts(x, &list, "0", "0", "-1", "place >= listed");
    tile_end(t);
    tile_end(t);
    tile_end(t);
    lanes_work_region(x, "share_of");
    lanes_work_region(x, "share_at");
}
