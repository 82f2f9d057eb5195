/* lanes_decode.c - forward for a few queries on processors, at the speed of memory: channels lie along the lanes, so that K and V are
 * read where they are, each once.
 *
 * A block has a part of the keys of one head, and the query rows of all heads that share it, one after the other for each tile of
 * keys, which is then in the first cache. It leaves sums and row states in the workspace; a second kernel joins the parts of a row,
 * in their order, so results do not depend on which was first. Parts have as many keys whatever the number of threads.
 *
 *     scores   s[j] = sum over channels q . k[j]     a few keys at a time; a sum over the lanes each
 *     weights  as in other schedules, keys along the lanes
 *     output   o += p[j] v[j]
 *
 * Values that are channels of the keys are those of the keys' tile: one copy brings both. Such keys are often shared by more heads than a block has
 * rows, so a part has as many blocks there as its rows fill. */
#include "decode_rows.h"
#include "key_groups.h"
#include "key_storage.h"

enum {
    ROWS = SCHEDULE_DECODE_ROWS,
    PART = 1024,     /* keys of a block */
    COPIED = 4,      /* that are copied together */
    NEAR = 16 * 1024 /* bytes of a tile: half of the first cache; the next one takes the rest */
};

/* Of an online function whose parts nobody can join one part has all. */
static const char *parts_of(Lanes *x, const char *keys)
{
    if (!schedule_joins_parts(x->p)) return "1";
    return tile_text(x->t, "max(cdiv(%s, %d), 1)", keys, PART);
}

/* As many as a sequence has at most; of keys in a layout it has fewer, and the blocks of the others leave. */
static const char *parts(Lanes *x) { return parts_of(x, lanes_key_room(x)); }

/* What a block leaves of each row. */
static void part_arguments(Lanes *x, AuTileMode mode)
{
    AuTileBuild *t = x->t;
    const char *axes = tile_text(t, "n:%s, b:%s, h:%s, q:%s", parts(x), lanes_axis(x, 0, 0),
                                 lanes_axis(x, 0, 1), lanes_most_queries(x));
    tile_arg(t, "part_acc", mode, "f32[%s, e:%d]", axes, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "part_state%u", n), mode, "f32[%s]", axes);
}

/* ---- a part of the keys */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    tile_private(t, "Q", "f32[q:%d, d:%d]", ROWS, x->p->d);
    tile_private(t, "ACC", "f32[q:%d, e:%d]", ROWS, x->p->e);
    tile_private(t, "K", "%s[kv:%d, d:%d]", decode_tile_elem(x, 1), keys, x->p->d);
    if (x->own_v) tile_private(t, "V", "%s[kv:%d, e:%d]", decode_tile_elem(x, 2), keys, x->p->e);
    tile_private(t, "S", "f32[q:%d, kv:%d]", ROWS, keys);
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        tile_private(t, lanes_term_name(x, "Q", n).text, "f32[q:%d, %s:%d]", ROWS, term.axis,
                     term.width);
        tile_private(t, lanes_term_name(x, "K", n).text, "%s[kv:%d, %s:%d]", decode_term_elem(x, n),
                     keys, term.axis, term.width);
        tile_private(t, lanes_term_name(x, "S", n).text, "f32[q:%d, kv:%d]", ROWS, keys);
    }
    if (x->p->hooks->has_scale) tile_private(t, "SCALE", "f32[q:%d]", ROWS);
    for (uint32_t n = 1; n < (x->own_v ? 3u : 2u); n++)
        if (lanes_has_codes(x, n)) lanes_code_memory(x, n);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_private(t, tile_text(t, "STATE%u", n), "f32[q:%d]", ROWS);
}

/* A few rows at a time, and with them the first ones of what is copied next are brought. */
static void copy_rows(Lanes *x, uint32_t n, const char *to)
{
    AuTileBuild *t = x->t;
    const bool codes = lanes_has_codes(x, n);
    const int32_t keys = x->shape->key_tile, some = decode_brought(x) / (keys / COPIED);
    tile_for_range(t, "slice", "0", tile_text(t, "%d", keys / COPIED));
    const DecodeNext next = decode_next(x, n);
    if (some) lanes_prefetch(x, next.of, next.tile, tile_text(t, "slice * %d", some), some);
    lanes_copy_some(x, n, tile_text(t, "slice * %d", COPIED), COPIED,
                    TILE_NAME(codes ? lanes_codes_of(n) : to));
    tile_end(t);
    if (codes) lanes_make_rows(x, n, to);
}

/* And of further products. */
static void copy_further_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        tile_for_range(t, "slice", "0", tile_text(t, "%d", x->shape->key_tile / COPIED));
        const char *first = tile_text(t, "slice * %d", COPIED);
        const LanesSome some =
            lanes_some_of(x, lanes_term_rows(x, n, LANES_KEYS, ":"), first, COPIED);
        tile_copy(t, "%v -> %v[%s +: %d, :] pad 0%s", some.rows, lanes_term_name(x, "K", n), first,
                  COPIED, some.when);
        tile_end(t);
    }
}

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        tile_frag(t, lanes_term_name(x, "raw", n), "%s[q:1, %s:%d] @ a_row_along",
                  lanes_elem(x, lanes_dot_tensor(x->p, n - 1, false)), term.axis, term.width);
        tile_frag(t, term.score, "f32[q:1, kv:%d] @ a_row_along", x->shape->key_tile);
    }
    tile_frag(t, "raw", "%s[d:%d] @ along_lanes", x->operand, x->p->d);
    tile_frag(t, "query", "f32[d:%d] @ along_lanes", x->p->d);
    tile_frag(t, "score", "f32[q:1, kv:%d] @ a_row_along", x->shape->key_tile);
    if (schedule_asks_data(x->p))
        tile_frag(t, "seen", "f32[q:1, kv:%d] like score = 0.0", x->shape->key_tile);
    tile_frag(t, "acc", "f32[q:1, e:%d] @ a_row_along = 0.0", x->p->e);
    tile_frag(t, "row_like", "f32[q:1] like score = 0.0");
    const DecodeBundle all = decode_bundle(x, DECODE_TOGETHER), one = decode_bundle(x, 1);
    decode_declare(x, &all);
    decode_declare(x, &one);
}

/* Row `row` of a group's: its sequence, its head, its query. One that its sequence has not, fewer than its group's first, is another's: what
 * comes of it is nobody's. */
static void set_row_of_group(Lanes *x, const char *row)
{
    AuTileBuild *t = x->t;
    const char *group = lanes_heads_of_group(x);
    lanes_name_group_rows(x, tile_text(t, "(first_row + %s)", row));
    tile_set(t, "of", "%s", lanes_row_in_sequence(x, tile_text(t, "(first_row + %s)", row)));
    tile_set(t, "h", "%s * %s + of %% %s", lanes_group_name(x), group, group);
    tile_set(t, "mb", "of / %s", group);
    if (!x->p->attn->queries.layout) return;
    tile_set(t, "mb", "min(mb, max(q_length - 1, 0))");
    if (lanes_is_packed(x, LANES_QUERIES))
        tile_set(t, "q_start", "min(q_start, %s - 1)", lanes_axis(x, 0, 2));
}

/* Are a sequence's rows shared out among blocks? Those of a group are items of as many (key_groups.h). */
static bool has_blocks(const Lanes *x) { return x->p->attn->v_in_k && !x->of_group; }

static const char *blocks_of_rows(Lanes *x)
{
    return tile_text(x->t, "cdiv(%s * %s, %d)", lanes_most_queries(x), lanes_heads_of_group(x),
                     ROWS);
}

/* Row [row] of the block: of a group's its sequence; its head, its query, where its values are. */
static void name_row(Lanes *x, const char *row)
{
    AuTileBuild *t = x->t;
    const char *s = lanes_query_end(x);
    if (x->of_group)
        set_row_of_group(x, row);
    else {
        if (has_blocks(x)) row = tile_text(t, "(block * %d + %s)", ROWS, row);
        tile_set(t, "h", "%s * %s + %s / %s", lanes_group_name(x), lanes_heads_of_group(x), row, s);
        tile_set(t, "mb", "%s %% %s", row, s);
    }
    tile_set(t, "i", "mb + iota(q:1)");
}

static void begin_rows(Lanes *x)
{
    tile_for_range(x->t, "row", "0", tile_text(x->t, "min(rows, %d)", ROWS));
    name_row(x, "row");
}

static void put_states(Lanes *x, const char *to)
{
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(x->t, "state%u -> %s", n, tile_text(x->t, to, n));
}

static void get_states(Lanes *x, const char *states, const char *from)
{
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_load(x->t, tile_text(x->t, "%s%u", states, n), "%s like row_like",
                  tile_text(x->t, from, n));
}

static void load_further_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesRows view = lanes_term_rows(x, n, LANES_QUERIES, ":");
        const AuTileHandle raw = lanes_term_name(x, "raw", n);
        tile_load(t, raw, "%v pad 0",
                  lanes_at(x, view,
                           lanes_view_span(x, LANES_QUERIES, view, "mb +: 1", LANES_TO_SEQUENCE)));
        tile_store(t, "f32(%v) -> %v[place +: 1, :]", raw, lanes_term_name(x, "Q", n));
    }
}

/* Bundles are whole: behind the last row they have it again, for nobody. */
static void begin_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "bundled", "(rows + %d) / %d * %d", DECODE_TOGETHER - 2, DECODE_TOGETHER,
             DECODE_TOGETHER);
    tile_for_range(t, "place", "0", tile_text(t, "min(max(rows, bundled), %d)", ROWS));
    name_row(x, "min(place, rows - 1)");
    tile_load(t, "raw", "q[%s, :]", lanes_row_place(x, LANES_QUERIES, "h", "mb"));
    tile_set(t, "c", "iota(d:%d)", x->p->d);
    tile_set(t, "query", x->p->hooks->has_q_mod ? lanes_modified_query(x, "mb") : "f32(raw)");
    tile_store(t, "query -> Q[place, :]");
    load_further_queries(x);
    lanes_begin_states(x);
    put_states(x, "STATE%u[place +: 1]");
    if (x->p->hooks->has_scale) {
        tile_set(t, "row_like", "fill(row_like, 1.0)");
        tile_store(t, "row_like -> SCALE[place +: 1]");
    }
    tile_set(t, "acc", "fill(acc, 0.0)");
    tile_store(t, "acc -> ACC[place +: 1, :]");
    tile_end(t);
}

typedef void Product(Lanes *x, const DecodeBundle *of, const char *first);

/* Rows in bundles; one that is left over goes alone. Ends are numbers, so that no row is asked whether it is inside. */
static void of_all_rows(Lanes *x, Product *product)
{
    AuTileBuild *t = x->t;
    const DecodeBundle all = decode_bundle(x, DECODE_TOGETHER), one = decode_bundle(x, 1);
    tile_for_range(t, "bundle", "0",
                   tile_text(t, "min(bundled / %d, %d)", DECODE_TOGETHER, ROWS / DECODE_TOGETHER));
    product(x, &all, tile_text(t, "bundle * %d", DECODE_TOGETHER));
    tile_end(t);
    tile_for_range(t, "row", "bundled", tile_text(t, "min(rows, %d)", ROWS));
    product(x, &one, "row");
    tile_end(t);
}

static void weigh_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t some = decode_brought(x);
    const DecodeNext next = decode_next(x, 1);
    if (some)
        lanes_prefetch(x, next.of, next.tile, tile_text(t, "%d", x->shape->key_tile - some), some);
    begin_rows(x);
    get_states(x, "state", "STATE%u[row +: 1]");
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        tile_load(t, lanes_term(x, n).score, "%v[row +: 1, :]", lanes_term_name(x, "S", n));
    lanes_scores_of(x, "n", LANES_MASK_ALWAYS);
    lanes_online(x);
    put_states(x, "STATE%u[row +: 1]");
    tile_store(t, "p -> S[row +: 1, :]");
    if (x->p->hooks->has_scale) tile_store(t, "scale -> SCALE[row +: 1]");
    tile_end(t);
}

/* Of masks of data, but those that leave few queries nearly all keys, kernels for more queries have lists of tiles with pairs. Here a tile is asked before it is
 * brought: that reads what the mask does. */
static void begin_seen_tile(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!schedule_asks_data(x->p)) return;
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    tile_set(t, "seen", "fill(seen, 0.0)");
    begin_rows(x);
    tile_set(t, "seen", "where(j < %s && mask(b, h, i, j), 1.0, seen)", lanes_key_end(x));
    tile_end(t);
    tile_set(t, "has_pairs", "seen > 0.0");
    tile_if(t, "anywhere(has_pairs)");
}

/* Tiles first .. last of keys, for the block's rows. */
static void walk_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    begin_queries(x);
    tile_for_range(t, "n", "first", "last");
    begin_seen_tile(x);
    copy_rows(x, 1, "K");
    copy_further_rows(x);
    of_all_rows(x, decode_scores);
    weigh_rows(x);
    if (x->own_v) copy_rows(x, 2, "V");
    of_all_rows(x, decode_sums);
    if (schedule_asks_data(x->p)) tile_end(t);
    tile_end(t);
}

/* What they come to, to [name]_acc and [name]_state0.. at [at]. */
static void store_rows(Lanes *x, const char *name, const char *at)
{
    AuTileBuild *t = x->t;
    begin_rows(x);
    tile_load(t, "acc", "ACC[row +: 1, :]");
    lanes_scale_values(x);
    tile_store(t, "acc -> %s_acc[%s, :]", name, at);
    get_states(x, "state", "STATE%u[row +: 1]");
    put_states(x, tile_text(t, "%s_state%%u[%s]", name, at));
    tile_end(t);
}

/* Of keys in a layout, a part behind the sequence's last key, or before those that are its own, has no rows. */
static const char *rows_of_part(Lanes *x, const char *own)
{
    AuTileBuild *t = x->t;
    if (!x->p->attn->keys.layout) return own;
    const char *shared = lanes_shares_keys(x) ? tile_text(t, " && part >= own_low / %d", PART) : "";
    return tile_text(t, "where(part < %s%s, %s, 0)", parts_of(x, lanes_key_end(x)), shared, own);
}

static void keys_grid(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *heads = lanes_groups(x), *sequences = lanes_axis(x, 0, 0);
    if (!has_blocks(x)) {
        tile_grid(t, "part: %s, %s: %s, b: %s", parts(x), lanes_group_name(x), heads, sequences);
        return;
    }
    tile_grid(t, "span: %s * %s, %s: %s, b: %s", parts(x), blocks_of_rows(x), lanes_group_name(x),
              heads, sequences);
    tile_let(t, "block", "span %% %s", blocks_of_rows(x)); /* neighbours read the same keys */
    tile_let(t, "part", "span / %s", blocks_of_rows(x));
}

/* Names what it walks: in the role, where that finds the range. */
static void put_tiles_of_part(Lanes *x, const char *all)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    const bool one = !schedule_joins_parts(x->p);
    const char *low = lanes_own_low(x), *high = tile_text(t, "min(k_high, %s)", all),
               *first = one ? tile_text(t, "max(%s, 0) / %d", low, keys)
                            : tile_text(t, "max(%s, part * %d) / %d", low, PART, keys),
               *last =
                   one ? tile_text(t, "cdiv(%s, %d)", high, keys)
                       : tile_text(t, "cdiv(min(%s, part * %d + %d), %d)", high, PART, PART, keys);
    x->in_role = lanes_mask_by_head(x);
    lanes_put(x, "first", first);
    lanes_put(x, "last", last);
    x->in_role = false;
}

static void set_range_of_heads(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "k_low", "%s", lanes_key_end(x));
    tile_set(t, "k_high", "0");
    begin_rows(x);
    tile_set(t, "low, high, full_low, full_high", "%s", lanes_range_of_all(x, "h"));
    tile_set(t, "k_low", "min(k_low, max(low, 0))");
    tile_set(t, "k_high", "max(k_high, high)");
    tile_end(t);
}

static void keys_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *s = lanes_query_end(x), *all = lanes_key_end(x);
    if (x->p->attn->queries.layout) all = tile_text(t, "where(q_length > 0, %s, 0)", all);
    const char *own = tile_text(t, "%s * %s", s, lanes_heads_of_group(x));
    if (has_blocks(x)) {
        own = tile_text(t, "%s - block * %d", own, ROWS);
        all = tile_text(t, "where(%s > 0, %s, 0)", own, all);
    }
    tile_kernel(t, "keys");
    lanes_arguments(x);
    lanes_changed_arguments(x, 1);
    part_arguments(x, TILE_OUT);
    keys_grid(x);
    lanes_let_key_length(x);
    lanes_let_own_keys(x);
    lanes_let_heads_of_keys(x);
    if (!lanes_mask_by_head(x)) {
        tile_let(t, "k_low, k_high, k_full_low, k_full_high", "%s", lanes_range_of_all(x, "0"));
        put_tiles_of_part(x, all);
    }
    tile_role(t, "core", 0, lanes_executor(x), 0);
    memories(x);
    fragments(x);
    const char *rows = rows_of_part(x, own);
    tile_set(t, "rows", "%s", has_blocks(x) ? tile_text(t, "clamp(%s, 0, %d)", rows, ROWS) : rows);
    if (lanes_mask_by_head(x)) {
        set_range_of_heads(x);
        put_tiles_of_part(x, all);
    }
    walk_keys(x);
    store_rows(x, "part", "part, b, h, mb +: 1");
    tile_end(t);
    tile_end(t);
}

/* ---- what sequences of a group share, for items of their rows */

/* Keys that a row of the item sees, of sequences that have all of them. */
static void set_range_of_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "k_low", x->p->attn->mask.i ? "prefix_end" : "0");
    tile_set(t, "k_high", x->p->attn->mask.i ? "0" : "prefix_end");
    if (!x->p->attn->mask.i) return;
    begin_rows(x);
    tile_set(t, "low, high, full_low, full_high", "%s",
             lanes_range_of_all(x, lanes_mask_by_head(x) ? "h" : "0"));
    tile_set(t, "k_low", "where(%s, min(k_low, max(low, 0)), k_low)", lanes_takes_part(x));
    tile_set(t, "k_high", "where(%s, max(k_high, min(high, prefix_end)), k_high)",
             lanes_takes_part(x));
    tile_end(t);
}

static void prefix_kernel(const Lanes *given)
{
    Lanes group = *given, *x = &group;
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    x->block = ROWS;
    tile_kernel(t, "prefix");
    lanes_arguments(x);
    lanes_shared_arguments(x, TILE_OUT, parts(x));
    tile_grid(t, "part: %s, %s: %s, item: %s", parts(x), lanes_group_name(x), lanes_groups(x),
              lanes_group_blocks(x));
    lanes_let_item(x);
    lanes_let_heads_of_keys(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    memories(x);
    fragments(x);
    tile_set(t, "rows", "where(part * %d < prefix_end, min(last_row - first_row, %d), 0)", PART,
             ROWS);
    set_range_of_rows(x);
    tile_set(t, "first", "max(k_low, part * %d) / %d", PART, keys);
    tile_set(t, "last", "cdiv(min(k_high, part * %d + %d), %d)", PART, PART, keys);
    walk_keys(x);
    store_rows(x, "shared", tile_text(t, "part, %s, first_row + row +: 1", lanes_group_name(x)));
    tile_end(t);
    tile_end(t);
}

/* ---- the parts of a row */

/* The parts of what the sequence shares come first. */
static void join_shared(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *group = lanes_heads_of_group(x),
               *row = tile_text(t, "mb * %s + h %% %s", group, group);
    lanes_begin_states(x);
    tile_set(t, lanes_group_name(x), "h / %s", group);
    tile_set(t, "place", "%s", lanes_group_place(x, row));
    tile_for_range(t, "part", "0", tile_text(t, "cdiv(own_low, %d)", PART));
    lanes_join_part(x, "shared_acc", "shared_state%u",
                    tile_text(t, "part, %s, place +: 1", lanes_group_name(x)));
    tile_end(t);
}

static void join_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool shares = lanes_shares_keys(x);
    tile_kernel(t, x->only ? "few" : "forward");
    lanes_arguments(x);
    part_arguments(x, TILE_IN);
    if (shares) lanes_shared_arguments(x, TILE_IN, parts(x));
    lanes_result_arguments(x);
    tile_grid(t, "mb: %s, h: %s, b: %s", lanes_most_queries(x), lanes_axis(x, 0, 1),
              lanes_axis(x, 0, 0));
    lanes_let_key_length(x);
    lanes_let_own_keys(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    const bool begins = shares || x->p->attn->queries.layout; /* else with the first part */
    tile_frag(t, "acc", "f32[q:1, e:%d] @ a_row_along%s", x->p->e, begins ? " = 0.0" : "");
    if (schedule_joins_parts(x->p))
        tile_frag(t, "further", "f32[q:1, e:%d] @ a_row_along", x->p->e);
    tile_frag(t, "row_like", "f32[q:1] like acc = 0.0");
    tile_set(t, "i", "mb + iota(q:1)");
    lanes_begin_own_row(x);
    if (shares)
        join_shared(x);
    else {
        tile_load(t, "acc", "part_acc[0, b, h, mb +: 1, :]");
        get_states(x, "state", "part_state%u[0, b, h, mb +: 1]");
    }
    if (schedule_joins_parts(x->p)) {
        tile_for_range(t, "part", shares ? tile_text(t, "own_low / %d", PART) : "1",
                       parts_of(x, lanes_key_end(x)));
        lanes_join_part(x, "part_acc", "part_state%u", lanes_part_place(x));
        tile_end(t);
    }
    lanes_results(x);
    tile_store(t, "%s(out) -> o[%s, :]", x->operand,
               lanes_row_place(x, LANES_QUERIES, "h", "mb +: 1"));
    lanes_store_finals(x);
    lanes_end_own_row(x, ":", NULL);
    tile_end(t);
    tile_end(t);
}

void lanes_decode_kernels(Lanes *x)
{
    if (lanes_shares_keys(x)) prefix_kernel(x);
    keys_kernel(x);
    join_kernel(x);
    if (lanes_shares_keys(x)) lanes_part_regions(x, "shared");
    lanes_part_regions(x, "part");
}

void lanes_decode_begin(Lanes *x)
{
    x->rows = x->block = 1;
    x->item_rows[LANES_KEYS] = lanes_block_rows(x);
    x->held = "f32";
    x->makes_elements = lanes_makes_elements(x->p);
}

void lanes_decode_share_keys(Lanes *x)
{
    if (lanes_may_share_keys(x)) x->shared_tile = x->shape->key_tile;
    x->out->shares_keys = lanes_shares_keys(x);
}

AuSchedule *schedule_lanes_decode(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_decode", shape, NULL);
    Lanes x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    lanes_decode_begin(&x);
    lanes_decode_share_keys(&x);
    /* Whether few are all that there are is nothing that a sequence says of itself. */
    out->by_batch = !p->invariant && (out->shares_keys || p->attn->queries.layout);
    const char *lanes = tile_text(x.t, "lane:%d@1", p->caps->lanes);
    tile_layout(x.t, "along_lanes", lanes, NULL);
    tile_layout(x.t, "a_row_along", "reg", lanes);
    return lanes_forward_built(&x, diags, lanes_decode_kernels);
}

/* ---- shapes */

/* Of all further products; one that is no whole vectors: 1. */
static int32_t further_width(const AuProblem *p)
{
    int32_t sum = 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        if (lanes_dot_width(p, n) % p->caps->lanes) return 1;
        sum += lanes_dot_width(p, n);
    }
    return sum;
}

static const char *refusal(const AuProblem *p)
{
    if (p->queries != AU_DECODE_QUERIES) return "many queries";
    if (!p->caps->has_private) return "machines whose executors have no memory of their own";
    const char *why = schedule_shared_dots_refusal(p);
    if (why) return why;
    if (p->d % p->caps->lanes || p->e % p->caps->lanes || further_width(p) % p->caps->lanes)
        return "widths that are no whole vectors";
    if (schedule_rows_refusal(p)) return schedule_rows_refusal(p);
    if (p->attn->keys.layout == AU_LAYOUT_PACKED && !p->attn->keys.says_most)
        return "packed keys, of which no call says how many a sequence has";
    return NULL;
}

const char *schedule_lanes_decode_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    if (s->key_tile % p->caps->lanes) return "tiles of keys that are no whole vectors";
    return refusal(p);
}

bool schedule_lanes_decode_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    (void)arena;
    const bool codes = p->attn->storage[0].as || p->attn->storage[1].as;
    const bool in_keys = p->attn->v_in_k && !schedule_values_apart(p);
    const int32_t width = p->d + (in_keys ? 0 : p->e) + further_width(p),
                  bytes = tile_elem(codes ? TILE_F32 : p->operand)->bytes * width;
    *out = (AuShape){.executors = 1, .key_tile = 32, .product_columns = p->caps->registers / 2};
    while (out->key_tile > p->caps->lanes && out->key_tile * bytes > NEAR) out->key_tile /= 2;
    *why = refusal(p);
    return !*why;
}

int32_t schedule_lanes_decode_rows(const AuProblem *p)
{
    return p->attn->v_in_k ? LANES_PACKED_ROWS : ROWS;
}

int32_t schedule_decode_limit(const AuProblem *p)
{
    return refusal(p) ? 0 : SCHEDULE_DECODE_QUERIES;
}
