/* warps_prefix.c - keys that sequences of a group share, for the rows of all of them: the kernel `prefix` before those of each sequence's own
 * keys (warps_decode.c, key_groups.h).
 *
 * Rows are packed, those of all query heads that share a head of keys, sequence after sequence. They are many, so warps own rows and share
 * tiles of keys, as in forward kernels for many queries: a tile is brought once for all of a block. Which sequence a row is of is a tile
 * `b` along the rows, and `kv_length` another: hooks see each row's own. A block's keys are a part of what some row of it sees. */
#include <math.h>

#include "key_groups.h"
#include "key_storage.h"
#include "warps_decode.h"

enum {
    HALF = 2, /* bytes of elements that the rate of matrix units is of */
    MUCH =
        10000000, /* rows times keys, of all heads, from which on a part more is worth what joining it takes: measured (docs/dev/performance-notes.md) */
};

/* ---- the shape: the largest tiles that fit, of which a sequence's own tiles are whole ones */

static bool shape_of(AuArena *arena, const AuProblem *p, const AuShape *own, AuShape *out)
{
    static const int32_t warps[] = {4, 2}, keys[] = {64, 32}, stages[] = {2, 1};
    for (uint32_t n = 0; n < 2 * 2 * 2 * 2; n++) {
        AuShape s = {.executors = warps[n / 8],
                     .rows = warps_atom(p)->m,
                     .key_tile = keys[n / 4 % 2],
                     .stages = stages[n / 2 % 2],
                     .query_in_registers = n % 2 == 0};
        warps_complete(p, &s);
        s.swizzle_span = own->swizzle_span;
        if (own->key_tile % s.key_tile || schedule_warps_refusal(arena, p, &s)) continue;
        *out = s;
        return true;
    }
    return false;
}

static bool has_ranges(const Lanes *x)
{
    return x->p->hooks->range_begins || x->p->hooks->needs_lists;
}

/* What builds its kernel. Of multiply-adds (lanes_packed.c) blocks are one warp, with more rows than others have. */
static Lanes of_group(const Lanes *x)
{
    Lanes group = *x;
    group.shape = x->group_shape;
    group.rows = group.shape->rows;
    group.block = group.rows * group.shape->executors;
    if (x->atom->m == 1) return group;
    group.resident = warps_decode_resident(x->p, group.shape);
    group.codes_are_operands = warps_codes_are_operands(x->p, group.shape);
    return group;
}

/* 1 where rows and keys are many, else 0: known from shapes. */
static const char *is_much(Lanes *x)
{
    const char *rows = tile_text(x->t, "max(%s * %s * %s, 1)", lanes_axis(x, 0, 0), lanes_groups(x),
                                 lanes_group_rows(x));
    return tile_text(x->t, "min(%s / cdiv(%d, %s), 1)", lanes_key_room(x), MUCH, rows);
}

/* For all items; on matrix units, of much, for those that have rows. Of a range, a window's, shapes do not say how much it is. */
static const char *parts(Lanes *x)
{
    const char *blocks = lanes_group_blocks(x);
    if (x->atom->m > 1 && !has_ranges(x))
        blocks = tile_text(x->t, "(%s) - ((%s) - %s) * %s", blocks, blocks,
                           lanes_group_full_blocks(x), is_much(x));
    return warps_parts_for(x, tile_text(x->t, "%s * (%s)", lanes_groups(x), blocks));
}

static int32_t bytes_of_key(const Lanes *x)
{
    const AuAttn *a = x->p->attn;
    int32_t bytes = 0;
    for (uint32_t n = 1; n < (a->v_in_k ? 2u : 3u); n++) {
        const int32_t each = lanes_is_stored(x, n) ? 1 : tile_elem(x->p->operand)->bytes;
        bytes += lanes_stored_width(x, n, n == 1 ? x->p->d : x->p->e) * each;
    }
    return bytes;
}

/* What an item takes of a processor for one key, in parts of what it takes to bring that key from the far cache: its products, and the operands that each
 * warp reads for them from shared memory. Measured it is their sum. */
static int32_t item_weight(const Lanes *x)
{
    const AuTileCaps *rates = tile_rates(x->p->caps);
    const double elem = tile_elem(x->p->operand)->bytes, width = x->p->d + x->p->e,
                 rate = x->atom->m > 1 ? rates->matrix * HALF / elem : rates->fma,
                 products = x->block * width / rate,
                 operands = x->block / x->atom->m * width * elem / rates->shared,
                 far = bytes_of_key(x) / rates->far;
    return (int32_t)ceil(LANES_SHARING_PARTS * (products + operands) / far);
}

/* Sequences that read their keys each for itself are brought them by the far cache, since neighbours do so at nearly the same time; what they share costs
 * trips to memory instead, those of the kernel (Shape.sharing) and two for each round of its parts that a row joins. So many keys of a head as
 * come from that cache in as long: a group whose sequences would read fewer again does not share. Nothing where no machine has told its rates. */
static LanesSharing sharing(Lanes *x)
{
    const AuTileCaps *rates = tile_rates(x->p->caps);
    Lanes group = of_group(x);
    const int32_t trips = x->shape->sharing;
    if (!trips || rates->far <= 0) return (LanesSharing){0};
    const int32_t a_trip =
        (int32_t)(rates->latency * rates->far * WARPS_PROCESSORS / bytes_of_key(x));
    return (LanesSharing){
        .least = tile_text(x->t, "cdiv(%d * (%d + 2 * %s), max(%s, 1))", a_trip, trips,
                           warps_rounds_of(x, parts(&group)), lanes_groups(x)),
        .least_of_heads = LANES_SHARING_PARTS * a_trip * (trips + 2),
        .item_weight = item_weight(&group),
        .item_rows = group.block,
    };
}

void warps_prefix_begin(Lanes *x)
{
    AuShape shape;
    if (lanes_may_share_keys(x) && shape_of(x->arena, x->p, x->shape, &shape))
        warps_prefix_begin_as(x, &shape);
}

void warps_prefix_begin_as(Lanes *x, const AuShape *shape)
{
    if (!lanes_may_share_keys(x) || (x->only && has_ranges(x))) return;
    AuShape *kept = AU_NEW(x->arena, AuShape);
    *kept = *shape;
    x->group_shape = kept;
    x->shared_tile = x->shape->key_tile;
    x->sharing = sharing(x);
    x->lists_groups = true;
    x->out->shares_keys = true;
}

void warps_prefix_lists(const Lanes *given)
{
    if (!given->group_shape) return;
    Lanes group = of_group(given);
    lanes_group_lists(&group);
}

/* ---- rows */

/* The first row of the block's. */
static const char *first_row(const Lanes *x)
{
    return lanes_has_turns(x) ? "first_row + turn_of_rows * turn_rows" : "first_row";
}

/* So many rows from [first] on, along an axis: of each the sequence and its length, as tiles. */
static void name_sequences(Lanes *x, const char *first, const char *axis, int32_t count)
{
    AuTileBuild *t = x->t;
    tile_set(t, "r", "%s + iota(%s:%d)", first, axis, count);
    lanes_name_group_rows(x, "r");
}

static void set_heads(Lanes *x)
{
    tile_set(x->t, "h", "%s * group + %s %% group", lanes_group_name(x),
             lanes_row_in_sequence(x, "r"));
}

void warps_prefix_name_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    name_sequences(x, tile_text(t, "%s + self * %d", first_row(x), x->rows), "q", x->rows);
    set_heads(x);
    tile_set(t, "i", "%s / group", lanes_row_in_sequence(x, "r"));
}

/* ---- where windows begin: before it a kernel writes what some row of each item sees, since loops of a block whose warps meet in them go by
 * what the whole block knows */

static void range_argument(Lanes *x, AuTileMode mode)
{
    if (!has_ranges(x)) return;
    const char *heads = lanes_mask_by_head(x) ? tile_text(x->t, ", h:%s", lanes_groups(x)) : "";
    tile_arg(x->t, "item_range", mode, "i32[item:%s%s, end:4, copy:%d]", lanes_group_items(x),
             heads, x->p->caps->lanes);
}

/* Whose it is: of masks by head that of an item's rows of the heads that share one of keys. */
static const char *range_place(const Lanes *x)
{
    return lanes_mask_by_head(x) ? tile_text(x->t, "item, %s", lanes_group_name(x)) : "item";
}

/* An item's rows along the lanes, of which a block may have fewer than there are lanes. */
static int32_t rows_along_lanes(const Lanes *x)
{
    return x->block > x->p->caps->lanes ? x->block : x->p->caps->lanes;
}

static const char *last_of_item(Lanes *x)
{
    if (rows_along_lanes(x) == x->block) return "last_row";
    return tile_text(x->t, "min(last_row, first_row + %d)", x->block);
}

/* End [n] of an item's range: the largest of [value] in rows that take part, else [nothing]; [of] it, "-" or "", is the end. */
static void store_end(Lanes *x, int32_t n, const char *of, const char *value, const char *nothing)
{
    AuTileBuild *t = x->t;
    const char *all = tile_text(t, "all_%d", n), *end = tile_text(t, "end_%d", n);
    tile_frag(t, tile_part(t, "%s", all), "f32[row:%d] @ along_lanes", rows_along_lanes(x));
    tile_set(t, tile_part(t, "%s", all), "where(takes_part, f32(%s%s), f32(%s%s))", of, value, of,
             nothing);
    tile_set(t, tile_part(t, "%s", end), "%si32(reduce_max(%s, row))", of, all);
    tile_set(t, "number", "iota(copy:%d) * 0 + %s", x->p->caps->lanes, end);
    tile_store(t, "number -> item_range[%s, %d, :]", range_place(x), n);
}

/* A factor of blocks. */
static const char *may_pay(Lanes *x)
{
    return x->sharing.least ? tile_text(x->t, " * %s", lanes_may_share(x)) : "";
}

static void ranges_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool by_head = lanes_mask_by_head(x);
    if (!has_ranges(x)) return;
    tile_kernel(t, "ranges");
    lanes_arguments(x);
    lanes_group_items_argument(x);
    range_argument(x, TILE_OUT);
    if (by_head) {
        tile_grid(t, "item: %s%s, %s: %s", lanes_group_blocks(x), may_pay(x), lanes_group_name(x),
                  lanes_groups(x));
        tile_let(t, "group", "%s / %s", lanes_axis(x, 0, 1), lanes_groups(x));
    } else
        tile_grid(t, "item: %s%s", lanes_group_blocks(x), may_pay(x));
    lanes_let_item(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "number", "i32[copy:%d] @ along_lanes = 0", x->p->caps->lanes);
    name_sequences(x, "first_row", "row", rows_along_lanes(x));
    if (by_head) set_heads(x);
    tile_set(t, "low, high, full_low, full_high", "%s", lanes_range_of_all(x, by_head ? "h" : "0"));
    tile_set(t, "takes_part", "r < %s && %s", last_of_item(x), lanes_takes_part(x));
    store_end(x, 0, "-", "clamp(low, 0, prefix_end)", "prefix_end");
    store_end(x, 1, "", "clamp(high, 0, prefix_end)", "0");
    store_end(x, 2, "", "clamp(full_low, 0, prefix_end)", "0");
    store_end(x, 3, "-", "clamp(full_high, 0, prefix_end)", "prefix_end");
    tile_end(t);
    tile_end(t);
    lanes_work_region(x, "item_range");
}

/* Lets an end of the item's range: what all rows make of it, or, where no kernel knows that, [whole]. */
static void let_end(Lanes *x, const char *name, int32_t n, const char *whole)
{
    if (has_ranges(x))
        tile_let(x->t, name, "clamp(item_range[%s, %d, 0], 0, prefix_end)", range_place(x), n);
    else
        tile_let(x->t, name, "%s", whole);
}

/* The part's run of tiles. Without a kernel of ranges any may be cut by a mask: rows say (ask_rows). */
static void let_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    const bool masked = x->p->attn->mask.i != 0;
    let_end(x, "k_low", 0, "0");
    let_end(x, "k_high", 1, "prefix_end");
    let_end(x, "k_full_low", 2, masked ? "prefix_end" : "0");
    let_end(x, "k_full_high", 3, "prefix_end");
    tile_let(t, "n_low", "k_low / %d", keys);
    tile_let(t, "n_high", "max(cdiv(k_high, %d), n_low)", keys);
    warps_let_share(x, parts(x));
    tile_let(t, "part_end", "min(k_high, last_tile * %d)", keys);
    tile_let(t, "full_tile", "clamp(cdiv(k_full_low, %d), first_tile, last_tile)", keys);
    tile_let(t, "rest_tile", "clamp(k_full_high / %d, full_tile, last_tile)", keys);
    /* Without a kernel of ranges all tiles may be cut, or, where there is no mask, none; a list has a segment of those that are, though. */
    const bool ranges = has_ranges(x);
    warps_part_tiles(x, &(WarpsSegments){.before = ranges || masked,
                                         .full = ranges || !masked,
                                         .behind = ranges || !masked});
}

static const char *stored_rows(Lanes *x)
{
    return tile_text(x->t, "[span, %s, %s + self * %d +: %d from 0 to last_row",
                     lanes_group_name(x), first_row(x), x->rows, x->rows);
}

static void store_states(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(x->t, "state%u -> shared_state%u%s] clip", n, n, stored_rows(x));
}

void warps_prefix_store(Lanes *x)
{
    tile_store(x->t, "acc -> shared_acc%s, :] clip", stored_rows(x));
    store_states(x);
}

void warps_prefix_store_cuts(Lanes *x, int32_t width)
{
    for (int32_t n = 0; n < x->p->e / width; n++)
        tile_store(x->t, "acc%d -> shared_acc%s, %d +: %d] clip", n, stored_rows(x), n * width,
                   width);
    store_states(x);
}

/* ---- the kernel */

/* Of a mask that has no kernel of ranges each row asks for its own: most tiles of a causal one are seen by all. */
static void ask_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!x->p->attn->mask.i || has_ranges(x)) return;
    tile_set(t, "low, high, full_low, full_high", "key_range(b, h, i, i + 1)");
    tile_frag(t, "uncut_low", "i32[q:%d] like score = 0", x->rows);
    tile_frag(t, "uncut_high", "i32[q:%d] like score = 0", x->rows);
    tile_set(t, "uncut_low", "full_low");
    tile_set(t, "uncut_high", "min(full_high, prefix_end)");
    x->rows_know_cuts = true;
}

static void walk(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, x->shape->key_tile, x->atom->name));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_prefix_name_rows(x);
    warps_forward_issue_packed_rows(x);
    lanes_begin_states(x);
    warps_pages_begin(x);
    ask_rows(x);
    warps_forward_loop(x);
    lanes_scale_values(x);
    warps_prefix_store(x);
}

void warps_prefix_kernel(const Lanes *given)
{
    warps_prefix_kernel_of(given, warps_forward_memories, walk);
}

void warps_prefix_kernel_of(const Lanes *given, void (*memories)(Lanes *x), void (*part)(Lanes *x))
{
    if (!given->group_shape) return;
    Lanes group = of_group(given), *x = &group;
    AuTileBuild *t = x->t;
    ranges_kernel(x);
    tile_kernel(t, "prefix");
    lanes_arguments(x);
    lanes_group_items_argument(x);
    range_argument(x, TILE_IN);
    lanes_changed_arguments(x, 0);
    lanes_shared_arguments(x, TILE_OUT, parts(x));
    const char *blocks = lanes_group_blocks(x);
    tile_grid(t, "turn: (%s) * (%s)%s, %s: %s", parts(x), blocks, may_pay(x), lanes_group_name(x),
              lanes_groups(x));
    tile_let(t, "item", "turn %% (%s)", blocks); /* neighbours read the same keys */
    tile_let(t, "span", "turn / (%s)", blocks);
    tile_let(t, "group", "%s / %s", lanes_axis(x, 0, 1), lanes_groups(x));
    lanes_let_item(x);
    lanes_let_heads_of_keys(x);
    let_tiles(x);
    memories(x);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    if (x->is_exact) tile_role_exact(t);
    tile_if(t, lanes_has_item(x));
    if (!has_ranges(x)) tile_if(t, "first_tile < last_tile"); /* as warps_prefix_parts */
    if (lanes_has_turns(x)) tile_for_range(t, "turn_of_rows", "0", "turns");
    part(x);
    if (lanes_has_turns(x)) tile_end(t);
    if (!has_ranges(x)) tile_end(t);
    tile_end(t);
    tile_end(t);
    tile_end(t);
}

void warps_prefix_arguments(const Lanes *x, AuTileMode mode)
{
    if (!x->group_shape) return;
    Lanes group = of_group(x);
    lanes_shared_arguments(&group, mode, parts(&group));
}

/* Those that have tiles; where a kernel of ranges says which these are, any may. */
const char *warps_prefix_parts(const Lanes *x)
{
    Lanes group = of_group(x);
    const char *all = parts(&group);
    if (has_ranges(x)) return tile_text(x->t, "where(own_low > 0, %s, 0)", all);
    const char *tiles = tile_text(x->t, "own_low / %d", group.shape->key_tile);
    return tile_text(x->t, "cdiv(%s, max(cdiv(%s, %s), 1))", tiles, tiles, all);
}
