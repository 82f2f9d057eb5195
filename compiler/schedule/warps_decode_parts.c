/* warps_decode_parts.c - what kernels for a few queries have in common, whose blocks have each a part of the keys of one head and of all query
 * heads that share it (warps_decode.c, warps_wide.c): grids and parts, which another kernel joins (warps_row_parts.c). */
#include "key_groups.h"
#include "warps_decode.h"

enum {
    WIDE_PART =
        256, /* keys of a part of values that no warp holds at least: a row's parts are joined in turns */
    OWN_PART = 1024,       /* keys of a part that does not depend on the batch, to whole tiles */
    MOST_OPERATIONS = 512, /* of the script, and what its gradients add to them */
    MOST_PARTS =
        1 << 16, /* of a sequence, more than a list has: what one says that a call brought */
};

/* Rows of the query heads of a group. */
static const char *packed_rows(Lanes *x)
{
    return tile_text(x->t, "%s * %s", lanes_most_queries(x), lanes_heads_of_group(x));
}

const char *warps_part_place(const Lanes *x)
{
    return tile_text(x->t, "%s, %s", x->p->balanced ? "slot" : "span, b", lanes_group_name(x));
}

/* Beside many most sequences have one query: of matrix units a block has all rows of its sequence, a tile after the other. Of multiply-adds there are blocks for
 * the rows of one query, which take those of others in turns. */
static bool has_all_rows(const Lanes *x) { return x->only && x->atom->m > 1; }

const char *warps_row_blocks(Lanes *x)
{
    if (has_all_rows(x)) return "1";
    if (x->only) return tile_text(x->t, "cdiv(%s, %d)", lanes_heads_of_group(x), x->block);
    return tile_text(x->t, "cdiv(%s, %d)", packed_rows(x), x->block);
}

/* Keys of a part at least. */
static int32_t least_part(const Lanes *x)
{
    const int32_t tile = x->shape->key_tile;
    if (x->part_least) return x->part_least;
    return x->p->e > WARPS_WIDE && tile < WIDE_PART ? WIDE_PART : tile;
}

const char *warps_parts_for(Lanes *x, const char *blocks)
{
    return tile_text(x->t, "min(max(%d / max(%s, 1), 1), max(cdiv(%s, %d), 1))",
                     WARPS_PROCESSORS * x->resident, blocks, lanes_key_room(x), least_part(x));
}

/* Tiles of a part that does not depend on the batch. */
static int32_t own_tiles(const Lanes *x) { return OWN_PART / x->shape->key_tile; }

/* How many such parts so many keys have. */
const char *warps_own_parts(Lanes *x, const char *keys)
{
    return tile_text(x->t, "max(cdiv(%s, %d), 1)", keys, own_tiles(x) * x->shape->key_tile);
}

/* The same of kernels for few rows, of whose blocks more are on the processors at once than sequences and heads often are a multiple of: where there
 * are more than that, parts enough for them to fill the processors four times. */
static const char *parts_of_turns(Lanes *x, const char *blocks)
{
    enum { TURNS = 4 };
    AuTileBuild *t = x->t;
    const int32_t at_once = WARPS_PROCESSORS * x->resident;
    const char *some = tile_text(t, "max(%s, 1)", blocks),
               *turns = tile_text(t, "min(%d / %s, (%s - 1) / %d * %d)", at_once * TURNS, some,
                                  some, at_once, TURNS);
    return tile_text(t, "min(max(max(%d / %s, %s), 1), max(cdiv(%s, %d), 1))", at_once, some, turns,
                     lanes_key_room(x), least_part(x));
}

/* Of so many those that have a tile, where all sequences have all keys: parts are equal, so the last of 49 of 64 tiles would have none, and a row would
 * join them all the same. */
static const char *parts_with_tiles(Lanes *x, const char *most)
{
    const char *tiles =
        tile_text(x->t, "max(cdiv(%s, %d), 1)", lanes_key_room(x), x->shape->key_tile);
    return tile_text(x->t, "cdiv(%s, cdiv(%s, %s))", tiles, tiles, most);
}

/* As many as are joined while a block has the tiles of one: a round of eight parts takes as long as a tile of the keys of groups of warps. */
static const char *parts_of_rounds(Lanes *x, const char *blocks)
{
    enum { SOME = 32, TILES = 8 };
    return tile_text(x->t, "min(%s, max(cdiv(%s, %d), %d))", warps_parts_for(x, blocks),
                     lanes_key_room(x), TILES * x->shape->key_tile, SOME);
}

const char *warps_parts(Lanes *x)
{
    if (!schedule_joins_parts(x->p)) return "1";
    if (x->p->invariant) return warps_own_parts(x, lanes_key_room(x));
    const char *blocks =
        tile_text(x->t, "%s * %s * %s", lanes_axis(x, 0, 0), lanes_groups(x), warps_row_blocks(x));
    if (x->p->queries == AU_CHUNK_QUERIES) return parts_of_rounds(x, blocks);
    if (x->p->form != AU_FEW_NARROW || x->p->balanced) return warps_parts_for(x, blocks);
    const char *most = parts_of_turns(x, blocks);
    return x->p->attn->keys.layout || x->p->hooks->range_begins ? most : parts_with_tiles(x, most);
}

/* Of a list, or of keys that neighbours may share, lengths say it; else shapes do. */
const char *warps_is_whole_part(Lanes *x)
{
    const char *one = tile_text(x->t, "%s == 1", x->p->balanced ? "parts" : warps_parts(x));
    return lanes_shares_keys(x) ? tile_text(x->t, "%s && own_low == 0", one) : one;
}

/* Rows of one part, whatever the call is, that its block ends: nothing is left to join. */
bool warps_ends_all_rows(const Lanes *x) { return x->ends_rows && !schedule_joins_parts(x->p); }

bool warps_ends_by_data(const Lanes *x)
{
    return x->ends_rows && (x->p->balanced || lanes_shares_keys(x));
}

/* What a block leaves of each row. */
void warps_part_arguments(Lanes *x, AuTileMode mode)
{
    AuTileBuild *t = x->t;
    const char *places = x->p->balanced
                             ? tile_text(t, "slot:%s", warps_share_slots(x))
                             : tile_text(t, "part:%s, b:%s", warps_parts(x), lanes_axis(x, 0, 0));
    const char *axes = tile_text(t, "%s, h:%s, q:%s", places, lanes_groups(x), packed_rows(x));
    tile_arg(t, "part_acc", mode, "f32[%s, e:%d]", axes, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "part_state%u", n), mode, "f32[%s]", axes);
}

/* ---- a part of the keys */

/* Of multiply-adds, which OpenCL's compilers get: Intel's for processors makes of a complement among minima an instruction that no processor has (vpcmpeqd to
 * a tenth mask), and n_high - n_low - 1 is one. */
void warps_let_share(Lanes *x, const char *parts)
{
    AuTileBuild *t = x->t;
    const char *tiles = x->atom->m == 1 ? "max(n_high - n_low, 0)" : "n_high - n_low";
    tile_let(t, "share", "cdiv(%s, %s)", tiles, parts);
    tile_let(t, "first_tile", "min(n_low + span * share, n_high)");
    tile_let(t, "last_tile", "min(first_tile + share, n_high)");
}

/* Of a segment of the list there is a loop of its own, so those that never have a tile are left out: before the first full one where those that
 * all rows see begin with the first key. */
void warps_part_tiles(Lanes *x, const WarpsSegments *has)
{
    AuTileBuild *t = x->t;
    tile_list(t, "keys");
    if (has->before) tile_segment(t, "partial", TILE_RANGE, "first_tile", "full_tile");
    if (has->full) tile_segment(t, "full", TILE_RANGE, "full_tile", "rest_tile");
    if (has->behind) tile_segment(t, "partial", TILE_RANGE, "rest_tile", "last_tile");
}

/* As groups of warps take them (group_forward.c): from the last on, which is always masked, so that without a mask there is one loop. */
static void tiles_down(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_list(t, "keys");
    if (!x->p->attn->mask.i) {
        tile_segment(t, "full", TILE_DOWN, "last_tile", "first_tile");
        return;
    }
    tile_segment(t, "partial", TILE_DOWN, "last_tile", "rest_tile");
    tile_segment(t, "full", TILE_DOWN, "rest_tile", "full_tile");
    tile_segment(t, "partial", TILE_DOWN, "full_tile", "first_tile");
}

/* Of rows that are no longer few those of a block see less than all. */
static void let_range(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (x->p->queries != AU_CHUNK_QUERIES) {
        lanes_let_range_of_block(x);
        return;
    }
    tile_let(t, "k_low, k_high, k_full_low, k_full_high",
             "key_range(b, 0, mb * %d / max(group, 1), min((mb * %d + %d) / max(group, 1) + 1, "
             "%s))",
             x->block, x->block, x->block - 1, lanes_query_end(x));
}

/* The part's run of tiles, in the segments of the mask's range. */
static void key_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    let_range(x);
    tile_let(t, "n_low, f_low, f_high, n_high",
             "key_tiles(%s, k_high, k_full_low, k_full_high, %s, %d)", lanes_own_low(x),
             lanes_key_end(x), x->shape->key_tile);
    if (x->p->invariant && schedule_joins_parts(x->p)) {
        const int32_t share = own_tiles(x);
        tile_let(t, "first_tile", "clamp(span * %d, n_low, n_high)", share);
        tile_let(t, "last_tile", "clamp(span * %d + %d, n_low, n_high)", share, share);
    } else
        warps_let_share(x, x->p->balanced ? "parts" : warps_parts(x));
    tile_let(t, "part_end", "min(%s, last_tile * %d)",
             x->p->attn->mask.i ? "k_high" : lanes_key_end(x), x->shape->key_tile);
    tile_let(t, "full_tile", "clamp(f_low, first_tile, last_tile)");
    tile_let(t, "rest_tile", "clamp(f_high, full_tile, last_tile)");
    if (x->p->queries == AU_CHUNK_QUERIES) {
        tiles_down(x);
        return;
    }
    warps_part_tiles(
        x, &(WarpsSegments){.before = x->p->hooks->full_begins || x->p->hooks->needs_lists,
                            .full = true,
                            .behind = true});
}

/* Blocks of all heads that have a part are neighbours, since their keys are. */
static void grid_of_list(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_grid(t, "%s: %s, turn: %s * %s", lanes_group_name(x), lanes_groups(x),
              warps_share_slots(x), warps_row_blocks(x));
    if (!x->only) tile_let(t, "mb", "turn %% %s", warps_row_blocks(x));
    tile_let(t, "slot", "turn / %s", warps_row_blocks(x));
    tile_let(t, "span", "share_of[1, slot]");
    tile_let(t, "b", "clamp(share_of[0, slot], 0, %s - 1)", lanes_axis(x, 0, 0));
    tile_let(t, "parts", "clamp(share_at[1, b], 1, %d)", MOST_PARTS);
}

static void keys_head(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_kernel(t, "keys");
    if (x->p->form == AU_FEW_NARROW) tile_resident(t, x->resident);
    lanes_arguments(x);
    lanes_changed_arguments(x, 0);
    lanes_members_argument(x);
    if (x->p->balanced) warps_share_arguments(x, TILE_IN);
    if (!warps_ends_all_rows(x)) warps_part_arguments(x, TILE_OUT);
    if (x->ends_rows) lanes_result_arguments(x);
    if (x->p->balanced) {
        grid_of_list(x);
    } else if (has_all_rows(x)) {
        tile_grid(t, "span: %s, %s: %s, b: %s", warps_parts(x), lanes_group_name(x),
                  lanes_groups(x), lanes_axis(x, 0, 0));
    } else {
        tile_grid(t, "turn: (%s) * %s, %s: %s, b: %s", warps_parts(x), warps_row_blocks(x),
                  lanes_group_name(x), lanes_groups(x), lanes_axis(x, 0, 0));
        tile_let(t, x->only ? "first_block" : "mb", "turn %% %s",
                 warps_row_blocks(x)); /* neighbours read the same keys */
        tile_let(t, "span", "turn / %s", warps_row_blocks(x));
    }
    tile_let(t, "group", "%s", lanes_heads_of_group(x));
    lanes_let_key_length(x);
    lanes_let_own_keys(x);
    lanes_let_heads_of_keys(x);
    key_tiles(x);
}

/* Of a sequence that has no row in the block nothing is done. Where most have few a block has all tiles of rows, one after the other: blocks that
 * leave at once take as long to begin as others. */
static void begin_own_rows(Lanes *x)
{
    if (!x->p->attn->queries.layout) return;
    AuTileBuild *t = x->t;
    const char *rows = tile_text(x->t, "%s * group", lanes_query_end(x));
    if (!x->only) {
        tile_if(t, "mb * %d < %s", x->block, rows);
    } else if (has_all_rows(x)) {
        tile_for_range(t, "mb", "0", tile_text(t, "cdiv(%s, %d)", rows, x->block));
    } else {
        const char *blocks = warps_row_blocks(x);
        tile_for_range(
            t, "turn_of_block", "0",
            tile_text(t, "cdiv(cdiv(%s, %d) - first_block, max(%s, 1))", rows, x->block, blocks));
        tile_set(t, "mb", "first_block + turn_of_block * %s", blocks);
    }
}

static void end_own_rows(Lanes *x)
{
    if (!x->p->attn->queries.layout) return;
    if (x->only) tile_sync(x->t, "all"); /* before other rows come to where these were joined */
    tile_end(x->t);
}

void warps_begin_part(Lanes *x)
{
    if (warps_is_whole(x)) {
        tile_if(x->t, "%s", warps_whole_condition(x));
        return;
    }
    if (x->p->balanced) tile_if(x->t, "span >= 0 && span < parts");
    begin_own_rows(x);
}

void warps_end_part(Lanes *x)
{
    if (!warps_is_whole(x)) end_own_rows(x);
    if (x->p->balanced || warps_is_whole(x)) tile_end(x->t);
}

void warps_wide_kernels(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x))
{
    if (warps_is_whole(x)) {
        warps_whole_kernel(x, memories, roles);
        return;
    }
    if (x->p->balanced) warps_share_kernel(x);
    warps_kernels_behind_lists(x, memories, roles);
}

/* Does how many parts a row has depend on the batch, or, where it is one, whether these kernels are taken: beside many (are_mixed), of more rows
 * (has_few_rows)? */
static bool depends_on_batch(const Lanes *x)
{
    return schedule_joins_parts(x->p) || x->only || schedule_takes_more_rows(x->arena, x->p);
}

void warps_kernels_behind_lists(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x))
{
    x->out->by_batch = !x->p->invariant && depends_on_batch(x);
    keys_head(x);
    memories(x);
    roles(x);
    tile_end(x->t);
    if (warps_ends_all_rows(x)) return;
    warps_join_kernel(x);
    if (lanes_shares_keys(x)) lanes_part_regions(x, "shared");
    lanes_part_regions(x, "part");
}

void warps_core_role(Lanes *x, void (*part)(Lanes *x))
{
    AuTileBuild *t = x->t;
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    if (x->is_exact) tile_role_exact(t);
    warps_begin_part(x);
    part(x);
    warps_end_part(x);
    tile_end(t);
}

void warps_name_rows_as(Lanes *x, const char *prefix, const char *first, int32_t count)
{
    AuTileBuild *t = x->t;
    const char *r = tile_text(t, "%sr", prefix);
    tile_set(t, r, "%s + iota(q:%d)", first, count);
    tile_set(t, tile_text(t, "%sh", prefix), "%s * group + %s %% group", lanes_group_name(x), r);
    tile_set(t, tile_text(t, "%si", prefix), "%s%s / group", warps_first_query(x), r);
}

void warps_name_rows(Lanes *x, const char *first) { warps_name_rows_as(x, "", first, x->rows); }

const char *warps_grouped_refusal(AuArena *arena, const AuProblem *p)
{
    if (p->attn->node_count > MOST_OPERATIONS)
        return "functions so large that kernels of them once more take too much memory to make";
    if (p->caps->has_private || !warps_copy_ahead(p))
        return "machines without asynchronous copies of lanes";
    if (schedule_values_apart(p)) return "values that are rows of their own";
    const char *why = schedule_shared_dots_refusal(p);
    if (!why) why = schedule_lists_refusal(p);
    return why ? why : warps_refusal_of_problem(arena, p);
}

const char *warps_packed_refusal(AuArena *arena, const AuProblem *p)
{
    const char *why = schedule_rows_refusal(p);
    return why ? why : warps_grouped_refusal(arena, p);
}
