/* lanes_lists.c - block lists: for masks that depend on data, which tiles of keys each block of
 * query rows visits, or (backward, names begin with back_) which tiles of queries each block of keys.
 * `classes` tests every pair of the tiles that the mask's range leaves; `compact` writes the lists.
 *
 * Where lanes can exchange, a warp asks for the mask's bounds over whole tiles (hook_bounds.c) and, where these leave it open, tries every pair: one
 * tile, or without bounds four beside each other, row after row, with the keys along its lanes: what the mask reads of the keys stays in registers,
 * what it reads of the row is read once for all of them. It writes one list, 32 tiles at a time. Elsewhere a lane classifies a tile, and writes a list.
 *
 * Cost: one mask a pair and head (or one for all heads, if
 * the mask does not ask for the head), against 2 (D + E) multiply-adds. */
#include "key_layout.h"

/* Of a block that classifies along lanes: warps. */
enum { CLASS_WARPS = 4 };

/* Tiles of rows by keys; lists of either for each of the other. */
typedef struct Lists {
    const char *prefix; /* of names: "", "back_" */
    int32_t rows, keys;
    bool of_queries; /* lists of tiles of queries, for each block of keys */
} Lists;

/* Tiles of keys that a warp classifies beside each other, so that it reads a row once for all of them; of a mask that has bounds few tiles are left, and the
 * block would wait for the one warp that has them. */
static int32_t tiles_of_warp(const Lanes *x) { return x->p->hooks->has_bounds ? 1 : 4; }

bool lanes_list_by_head(const Lanes *x) { return lanes_mask_by_head(x); }

static const char *heads(Lanes *x) { return lanes_list_by_head(x) ? lanes_axis(x, 0, 1) : "1"; }
static const char *row_blocks(Lanes *x, const Lists *l)
{
    return tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), l->rows);
}
static const char *key_blocks(Lanes *x, const Lists *l)
{
    return tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 1, 2), l->keys);
}
/* What has a list, and what is in it. */
static const char *owners(Lanes *x, const Lists *l)
{
    return l->of_queries ? key_blocks(x, l) : row_blocks(x, l);
}
static const char *others(Lanes *x, const Lists *l)
{
    return l->of_queries ? row_blocks(x, l) : key_blocks(x, l);
}

static const char *type_of(Lanes *x, const Lists *l, bool counts)
{
    const char *rest = counts ? "" : tile_text(x->t, ", n:%s", others(x, l));
    return tile_text(x->t, "i32[b:%s, h:%s, m:%s%s]", lanes_axis(x, 0, 0), heads(x), owners(x, l),
                     rest);
}

static Lists forward_lists(const Lanes *x)
{
    return (Lists){.prefix = "", .rows = x->block, .keys = x->shape->key_tile};
}

const char *lanes_list_type(Lanes *x, bool counts)
{
    const Lists l = forward_lists(x);
    return type_of(x, &l, counts);
}

static void begin(Lanes *x, const char *first)
{
    AuTileBuild *t = x->t;
    tile_grid(t, "%s, hb: %s * %s", first, heads(x), lanes_axis(x, 0, 0));
    tile_let(t, "h", "hb %% %s", heads(x));
    tile_let(t, "b", "hb / %s", heads(x));
    lanes_let_key_length(x);
}

static void class_argument(Lanes *x, const Lists *l, AuTileMode mode)
{
    tile_arg(x->t, tile_text(x->t, "%stile_class", l->prefix), mode, "i32[b:%s, h:%s, m:%s, n:%s]",
             lanes_axis(x, 0, 0), heads(x), row_blocks(x, l), key_blocks(x, l));
}

/* Until the role: blocks of [tiles] tiles of keys, whose classes are 0 empty, 1 partial, 2 full. */
static void begin_classes(Lanes *x, const Lists *l, int32_t tiles)
{
    AuTileBuild *t = x->t;
    tile_kernel(t, tile_text(t, "%sclasses", l->prefix));
    lanes_arguments(x);
    class_argument(x, l, TILE_OUT);
    begin(x, tile_text(t, "nb: cdiv(%s, %d), mb: %s", key_blocks(x, l), tiles, row_blocks(x, l)));
    lanes_bounds(x, l->rows, l->keys);
    lanes_region(x, tile_text(t, "%stile_class", l->prefix));
}

static bool is_across(const Lanes *x, const Lists *l)
{
    return x->rows_across && l->keys % x->p->caps->lanes == 0;
}

/* What the mask reads of all rows of the block, and of all keys of each tile, as two ends: of numbers that f32 has exactly, others may be
 * anything. [along]: the axis. */
static void ends_of_read(Lanes *x, const char *name, const char *value, const char *along)
{
    AuTileBuild *t = x->t;
    tile_set(t, tile_text(t, "%s_read", name), "f32(%s)", value);
    for (uint32_t n = 0; n < 2; n++) {
        const char *sign = n ? "" : "-", *end = tile_text(t, "%s_%s", name, n ? "high" : "low");
        tile_set(t, tile_text(t, "%s_end", end), "%sreduce_max(%s%s_read, %s)", sign, sign, name,
                 along);
        tile_set(t, end, "where(abs(%s_end) < 16777216.0, i32(%s_end), %s)", end, end,
                 n ? "2147483647" : "-2147483648");
    }
}

/* `sure`: all pairs of the tile take part. `open`: that is not known, nor that none does. */
static void test_bounds(Lanes *x, const Lists *l, const char *first)
{
    AuTileBuild *t = x->t;
    const AuHooks *h = x->p->hooks;
    const int32_t lanes = x->p->caps->lanes, rows = (l->rows + lanes - 1) / lanes * lanes;
    const char *last = lanes_key_end(x), *side[2] = {"row", "key"}, *ends = "";
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t n = 0; n < h->bound_reads[s]; n++) {
            const char *name = tile_text(t, "%s%u", side[s], n);
            if (s == 0)
                tile_frag(t, tile_text(t, "%s_read", name), "f32[r:%d] @ rows_of_block", rows);
            else
                tile_frag(t, tile_text(t, "%s_read", name), "f32[n:%d, kv:%d] @ %skeys_along_lanes",
                          tiles_of_warp(x), l->keys, l->prefix);
            ends_of_read(x, name,
                         s == 0 ? tile_text(t, "mask_%s(b, h, min(mb * %d + iota(r:%d), end - 1))",
                                            name, l->rows, rows)
                                : tile_text(t, "mask_%s(b, h, min(j, %s - 1))", name, last),
                         s == 0 ? "r" : "kv");
            ends = tile_text(t, "%s, %s_low, %s_high", ends, name, name);
        }
    tile_set(t, "at", "%s", first);
    tile_set(t, "may, must", "mask_bounds(b, h, mb * %d, end - 1, at, min(at + %d, %s) - 1%s)",
             l->rows, l->keys, last, ends);
    const char *whole =
        l->of_queries ? tile_text(t, " && end == mb * %d + %d", l->rows, l->rows) : "";
    tile_set(t, "sure", "where(must && at + %d <= %s%s, 1, 0)", l->keys, last, whole);
    tile_set(t, "open", "may && at < %s && sure == 0", last);
}

/* Where one tile is open two rows at a time, so that what the mask reads of them is on its way together: nothing else is. */
static void count_pairs(Lanes *x, const Lists *l)
{
    AuTileBuild *t = x->t;
    const int32_t rows = x->p->hooks->has_bounds ? 2 : 1;
    const char *first = tile_text(t, "mb * %d", l->rows);
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(end - %s, %d)", first, rows));
    for (int32_t n = 0; n < rows; n++) {
        const char *row = tile_text(t, "row%d", n);
        tile_set(t, row, "%s + some * %d + %d", first, rows, n);
        tile_set(t, "pairs",
                 "pairs + where(%s < end && mask(b, h, min(%s, end - 1), min(j, %s - 1)), 1, 0)",
                 row, row, lanes_key_end(x));
    }
    tile_end(t);
}

/* Unmasked pairs are counted, each lane its own; keys beyond the last count as the last, until the end. Where the mask's bounds say of all
 * tiles of a warp what they are, none is. */
static void classes_across(Lanes *x, const Lists *l)
{
    AuTileBuild *t = x->t;
    const bool bounds = x->p->hooks->has_bounds;
    const int32_t tiles = tiles_of_warp(x);
    const char *s = lanes_query_end(x), *last = lanes_key_end(x);
    /* At least two keys a lane, beside each other; as many lanes as a power of two can be. */
    const int32_t power = l->keys & -l->keys, warp = x->p->caps->lanes;
    const int32_t most = power < warp ? power : warp, lanes = most == l->keys ? most / 2 : most,
                  each = l->keys / lanes;
    tile_layout(t, tile_text(t, "%skeys_along_lanes", l->prefix), "reg",
                tile_text(t, "reg:%d lane:%d@1", each, lanes));
    if (bounds) tile_layout(t, "rows_of_block", tile_text(t, "lane:%d@1 reg", warp), NULL);
    begin_classes(x, l, CLASS_WARPS * tiles);
    tile_role(t, "core", CLASS_WARPS, TILE_ON_WARP, 0);
    tile_set(t, "first", "nb * %d + self * %d", CLASS_WARPS * tiles, tiles);
    const char *key = tile_text(t, "(first + iota(n:%d)) * %d", tiles, l->keys);
    tile_set(t, "j", "%s + iota(kv:%d)", key, l->keys);
    tile_frag(t, "pairs", "i32[n:%d, kv:%d] @ %skeys_along_lanes = 0", tiles, l->keys, l->prefix);
    if (bounds) tile_frag(t, "sure", "i32[n:%d] like pairs = 0", tiles);
    tile_set(t, "end", "min(mb * %d + %d, %s)", l->rows, l->rows, s);
    tile_if(t, "first < n_high && first + %d > n_low", tiles);
    if (bounds) {
        test_bounds(x, l, key);
        tile_if(t, "anywhere(open)");
    }
    count_pairs(x, l);
    if (bounds) tile_end(t);
    tile_end(t);
    tile_set(t, "count", "reduce_sum(where(j < %s, f32(pairs), 0.0), kv)", last);
    /* Of lists of queries, a tile that sticks out of the queries is partial. */
    /* Of padded queries the block behind the last row has no pair, which are not all of its pairs. */
    const char *pairs = tile_text(t, "(end - mb * %d) * %d", l->rows, l->keys),
               *some = lanes_queries_are_padded(x) ? tile_text(t, "max(%s, 1)", pairs) : pairs,
               *all = l->of_queries ? tile_text(t, "%d.0", l->rows * l->keys)
                                    : tile_text(t, "f32(%s)", some);
    tile_store(t,
               "where(%scount == %s, 2, where(count > 0.0, 1, 0)) -> "
               "%stile_class[b, h, mb, first +: %d] clip",
               bounds ? "sure > 0 || " : "", all, l->prefix, tiles);
    tile_end(t);
    tile_end(t);
}

/* A tile a lane. */
static void classes(Lanes *x, const Lists *l)
{
    if (is_across(x, l)) {
        classes_across(x, l);
        return;
    }
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes, n = l->keys;
    const char *s = lanes_query_end(x), *last = lanes_key_end(x);
    begin_classes(x, l, lanes);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "some", "f32[n:%d] @ along_lanes = 0.0", lanes);
    tile_frag(t, "every", "f32[n:%d] @ along_lanes = 1.0", lanes);
    tile_set(t, "tile", "nb * %d + iota(n:%d)", lanes, lanes);
    tile_if(t, "nb * %d < n_high && nb * %d + %d > n_low", lanes, lanes, lanes);
    tile_for_range(t, "row", tile_text(t, "mb * %d", l->rows),
                   tile_text(t, "min(mb * %d + %d, %s)", l->rows, l->rows, s));
    tile_for_range(t, "key", "0", tile_text(t, "%d", n));
    tile_set(t, "j", "tile * %d + key", n);
    tile_set(t, "unmasked", "where(j < %s && mask(b, h, row, j), 1, 0)", last);
    tile_set(t, "some", "max(some, unmasked)");
    tile_set(t, "every", "min(every, unmasked)");
    tile_end(t);
    tile_end(t);
    tile_end(t);
    /* Of lists of queries, a tile that sticks out of the queries is partial. */
    const char *whole =
        l->of_queries ? tile_text(t, " && mb * %d + %d <= %s", l->rows, l->rows, s) : "";
    tile_store(
        t,
        "where(some > 0.0, where(every > 0.0%s, 2, 1), 0) -> %stile_class[b, h, mb, nb * %d +: "
        "%d] clip",
        whole, l->prefix, lanes, lanes);
    tile_end(t);
    tile_end(t);
}

static const char *const names[] = {"partial", "full"}; /* less 1, the classes with lists */

static void begin_compact(Lanes *x, const Lists *l)
{
    AuTileBuild *t = x->t;
    tile_kernel(t, tile_text(t, "%scompact", l->prefix));
    lanes_arguments(x);
    class_argument(x, l, TILE_IN);
    for (uint32_t n = 0; n < 2; n++) {
        const char *count = tile_text(t, "%s%s_count", l->prefix, names[n]),
                   *index = tile_text(t, "%s%s_index", l->prefix, names[n]);
        tile_arg(t, count, TILE_OUT, "%s", type_of(x, l, true));
        tile_arg(t, index, TILE_INOUT, "%s", type_of(x, l, false));
        lanes_region(x, count);
        lanes_region(x, index);
    }
}

/* A list a warp: a tile's place is the number of those before it, which every lane counts for its own. */
static void compact_across(Lanes *x, const Lists *l)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    tile_layout(t, "along_registers", "reg", NULL);
    begin_compact(x, l);
    begin(x, tile_text(t, "m: %s", owners(x, l)));
    tile_role(t, "core", 0, TILE_ON_WARP, 0);
    tile_frag(t, "kind", "i32[n:%d] @ along_lanes", lanes);
    tile_frag(t, "all", "i32[p:%d] @ along_registers", lanes);
    for (uint32_t n = 0; n < 2; n++) tile_set(t, names[n], "0.0");
    tile_for_range(t, "some", "0", tile_text(t, "cdiv(%s, %d)", others(x, l), lanes));
    const char *span = tile_text(t, "some * %d +: %d", lanes, lanes);
    const char *view =
        tile_text(t, "%stile_class[b, h, %s]", l->prefix,
                  l->of_queries ? tile_text(t, "%s, m", span) : tile_text(t, "m, %s", span));
    tile_load(t, "kind", "%s as [n] pad 0", view);
    tile_load(t, "all", "%s as [p] pad 0", view);
    for (uint32_t n = 0; n < 2; n++) {
        tile_set(t, tile_text(t, "%s_place", names[n]),
                 "i32(%s + reduce_sum(where(all == %u && iota(p:%d) < iota(n:%d) + 0 * kind, 1.0, "
                 "0.0), p))",
                 names[n], n + 1, lanes, lanes);
        tile_store(
            t, "some * %d + iota(n:%d) + 0 * kind -> %s%s_index[b, h, m, %s_place] when kind == %u",
            lanes, lanes, l->prefix, names[n], names[n], n + 1);
        tile_set(t, names[n], "%s + reduce_sum(where(all == %u, 1.0, 0.0), p)", names[n], n + 1);
    }
    tile_end(t);
    for (uint32_t n = 0; n < 2; n++)
        tile_store(t, "i32(%s) -> %s%s_count[b, h, m]", names[n], l->prefix, names[n]);
    tile_end(t);
    tile_end(t);
}

/* A list a lane. */
static void compact(Lanes *x, const Lists *l)
{
    if (is_across(x, l)) {
        compact_across(x, l);
        return;
    }
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    begin_compact(x, l);
    begin(x, tile_text(t, "mbb: cdiv(%s, %d)", owners(x, l), lanes));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_set(t, "m", "mbb * %d + iota(m:%d)", lanes, lanes);
    for (uint32_t n = 0; n < 2; n++) tile_frag(t, names[n], "i32[m:%d] @ along_lanes = 0", lanes);
    tile_frag(t, "kind", "i32[m:%d] @ along_lanes", lanes);
    tile_for_range(t, "tile", "0", others(x, l));
    tile_load(t, "kind", "%stile_class[b, h, %s] pad 0 when m < %s", l->prefix,
              l->of_queries ? "tile, m" : "m, tile", owners(x, l));
    for (uint32_t n = 0; n < 2; n++) {
        tile_store(t, "tile + 0 * kind -> %s%s_index[b, h, m, %s] when kind == %u && m < %s",
                   l->prefix, names[n], names[n], n + 1, owners(x, l));
        tile_set(t, names[n], "%s + where(kind == %u, 1, 0)", names[n], n + 1);
    }
    tile_end(t);
    for (uint32_t n = 0; n < 2; n++)
        tile_store(t, "%s -> %s%s_count[b, h, mbb * %d +: %d] clip", names[n], l->prefix, names[n],
                   lanes, lanes);
    tile_end(t);
    tile_end(t);
}

void lanes_list_kernels(Lanes *x)
{
    const Lists l = forward_lists(x);
    classes(x, &l);
    compact(x, &l);
}

void lanes_query_lists(Lanes *x, int32_t queries, int32_t keys)
{
    const Lists l = {"back_", queries, keys, true};
    classes(x, &l);
    compact(x, &l);
}

static void arguments(Lanes *x, const Lists *l)
{
    static const char *const all[] = {"partial_count", "partial_index", "full_count", "full_index"};
    for (uint32_t n = 0; n < 4; n++)
        tile_arg(x->t, tile_text(x->t, "%s%s", l->prefix, all[n]), TILE_IN, "%s",
                 type_of(x, l, n % 2 == 0));
}

void lanes_list_arguments(Lanes *x)
{
    const Lists l = forward_lists(x);
    arguments(x, &l);
}

void lanes_query_list_arguments(Lanes *x, int32_t queries, int32_t keys)
{
    const Lists l = {"back_", queries, keys, true};
    arguments(x, &l);
}

void lanes_list_segments(Lanes *x, const char *list, const char *of, const char *head,
                         const char *block)
{
    AuTileBuild *t = x->t;
    const char *h = lanes_list_by_head(x) ? head : "0";
    const LanesSide own = *of ? LANES_KEYS : LANES_QUERIES;
    const char *given = block, *end = own == LANES_KEYS ? "kv_length" : "q_length";
    const bool items = lanes_is_packed(x, own); /* of which some have no block */
    if (items)
        block = tile_text(t, "clamp(%s, 0, cdiv(%s, %d) - 1)", block,
                          lanes_axis(x, own == LANES_KEYS, 2), x->block);
    tile_list(t, list);
    for (uint32_t n = 0; n < 2; n++) {
        const char *count = tile_text(t, "%s%s_count[b, %s, %s]", of, names[n], h, block);
        tile_segment(t, names[n], TILE_INDEX_LIST,
                     tile_text(t, "%s%s_index[b, %s, %s, :]", of, names[n], h, block),
                     items ? tile_text(t, "where(%s >= 0 && %s * %d < %s, %s, 0)", given, given,
                                       x->block, end, count)
                           : count);
    }
}
