/* lanes_packed.c - forward for a few queries by multiply-adds, on machines or of operands without matrix units of warps.
 *
 * A block is one warp. It has a part of the keys of one head, and some query rows of the heads that share it, packed as in
 * warps_decode.c: row r is query r / G of the head's G query heads' number r % G. A lane that held a row, as in lanes_forward.c, would
 * be one of a few that have something to do, so here lanes hold keys, and then channels:
 *
 *     S[q, kv] = Q K'       keys along the lanes; queries pass as broadcast numbers
 *     O[q, e] += P V        channels along the lanes; weights pass as broadcast numbers
 *
 * Rows of both are registers. Keys come by pieces of their channels, lanes along the channels as they lie in memory, and go through a
 * tile from which each lane reads its own keys; values go to registers as they lie. What is brought comes in whole fragments, so that
 * loads are under way together: nothing here copies by itself.
 *
 * Kernels: `k_rows`, `v_rows` (rows that the script changes), `members` (lists, key_groups.c), `prefix` (keys that sequences share: rows of all
 * of a group, more a block, so that fewer blocks bring them; warps_prefix.c), `keys`, and `forward`, which joins a row's parts
 * (warps_decode_parts.c). */
#include "key_groups.h"
#include "key_storage.h"
#include "warps_decode.h"

enum {
    ROWS = 4,        /* of a block at most, */
    SUMS = 16,       /* and registers of a lane for their sums of values, */
    CUT_SUMS = 64,   /* of values that are channels of the keys, */
    CUT = 128,       /* whose sums are made so many channels after the other; */
    GROUP_ROWS = 16, /* the same of rows of a group of sequences */
    GROUP_SUMS = 64,
    CHANNELS = 32,   /* of a piece of keys */
    BROUGHT = 16,    /* keys of which a piece is brought together */
    VALUES = 8,      /* keys at most whose values are brought together, */
    HELD = 32,       /* and registers of a lane for these */
    TILE = 2,        /* keys of a tile, for each lane */
    WIDE_LANE = 192, /* registers */
    BLOCKS = 8,      /* of a processor, that parts are made for */
    PART = 256 /* keys of a part at least: what a block begins and ends with, and a part to join */
};

static int32_t channels(const AuTileCaps *caps)
{
    return caps->lanes > CHANNELS ? caps->lanes : CHANNELS;
}

/* Keys of which a piece is brought together: where a driver compiles, it makes room for all of a tile (an H200, bench/devices.py, B 64, T 8192, f32: 1.33 ms, in
 * pieces 1.75); LLVM and ptxas spill (2.36 ms, in pieces 1.45). */
static int32_t brought(const Lanes *x)
{
    return tile_exchange_words(x->p->caps) ? x->shape->key_tile : BROUGHT;
}

/* Channels of values at a time: all, but where they are many channels of the keys, whose blocks have as many rows as others all the same. */
static int32_t cut(const AuProblem *p) { return p->attn->v_in_k && p->e % CUT == 0 ? CUT : p->e; }

/* Channels of queries that are brought at a time: all, but where they are many, and nothing asks for all of a row, since drivers take long over what is
 * written out for each. */
static int32_t query_width(const AuProblem *p)
{
    const int32_t some = channels(p->caps);
    if (cut(p) == p->e || p->hooks->has_q_mod) return p->d;
    int32_t width = CUT / some * some;
    while (p->d % width) width -= some;
    return width;
}

static bool has_cuts(const Lanes *x) { return cut(x->p) < x->p->e; }

/* Keys whose values are brought together. */
static int32_t values(const Lanes *x)
{
    int32_t keys = VALUES;
    while (keys > 1 && keys * cut(x->p) > HELD * x->p->caps->lanes) keys /= 2;
    return keys;
}

/* Codes are numbers once they are loaded; rows that a kernel wrote are elements. */
static const char *loaded(Lanes *x, uint32_t n)
{
    return lanes_is_stored(x, n) && !lanes_changed_type(x, n) ? "f32" : x->operand;
}

/* Rows of the tile of keys are a number longer than they need, so that lanes, each at a key of its own, do not meet in a bank. Pieces of all products pass through it. */
static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        tile_shared(t, lanes_term_name(x, "Q", n), "f32[q:%d, %s:%d]", x->rows, term.axis,
                    term.width);
    }
    tile_shared(t, TILE_NAME("K"), "f32[kv:%d, d:%d]", x->shape->key_tile,
                channels(x->p->caps) + 1);
    tile_shared(t, TILE_NAME("P"), "f32[q:%d, kv:%d]", x->rows, x->shape->key_tile);
}

/* "acc", or "acc0".. */
static const char *sums_called(Lanes *x, int32_t n)
{
    return has_cuts(x) ? tile_text(x->t, "acc%d", n) : "acc";
}

/* Of a product: its queries, and a piece of its keys as it is brought and as it is multiplied. */
static void fragments_of_term(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const LanesTerm term = lanes_term(x, n);
    const int32_t some = channels(x->p->caps), keys = x->shape->key_tile,
                  width = n ? term.width : query_width(x->p);
    const char *atom = x->atom->name,
               *queries = n ? lanes_elem(x, lanes_dot_tensor(x->p, n - 1, false)) : x->operand,
               *brought_keys =
                   n ? lanes_elem(x, lanes_dot_tensor(x->p, n - 1, true)) : loaded(x, 1);
    tile_frag(t, lanes_term_name(x, "raw", n), "%s[q:%d, %s:%d] @ in_rows", queries, x->rows,
              term.axis, width);
    if (n == 0 && width == x->p->d)
        tile_frag(t, "query", "f32[q:%d, d:%d] @ in_rows", x->rows, width);
    tile_frag(t, lanes_term_name(x, "keys_brought", n), "%s[kv:%d, %s:%d] @ in_rows", brought_keys,
              brought(x), term.axis, some);
    tile_frag(t, lanes_term_name(x, "key", n), "f32[%s:%d, kv:%d] @ %s.B", term.axis, some, keys,
              atom);
}

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    const uint32_t of = x->own_v ? 2 : 1;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C = 0.0", x->rows, x->shape->key_tile, atom));
    for (int32_t n = 0; n < x->p->e / cut(x->p); n++)
        tile_frag(t, sums_called(x, n), "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, cut(x->p), atom);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) fragments_of_term(x, n);
    tile_frag(t, "values_brought", "%s[kv:%d, e:%d] @ %s.B", loaded(x, of), values(x), cut(x->p),
              atom);
}

/* Channels [first] +: [width] of keys (1) or values (2), as they are read: of codes that become elements here (key_elements.c) lanes have each a channel, whose
 * byte may be that of the one beside. */
typedef struct Columns {
    uint32_t n;
    const char *first; /* of values a number, */
    int32_t at, width; /* this one */
} Columns;

static const char *channel_of(Lanes *x, const Columns *of)
{
    const char *name = of->n == 1 ? "channel_of_d" : "channel_of_e";
    tile_set(x->t, name, "%s + iota(%s:%d)", of->first, of->n == 1 ? "d" : "e", of->width);
    return name;
}

static LanesRows rows_of(Lanes *x, const Columns *of)
{
    if (lanes_has_codes(x, of->n) && lanes_stores_halves(x, of->n))
        return lanes_rows_by_index(x, of->n, lanes_stored_index(x, of->n, channel_of(x, of)));
    if (of->n == 2 && !x->own_v) return lanes_values_in_keys(x, of->at, of->width);
    const bool whole = of->n == 2 && !has_cuts(x);
    return lanes_operand_rows(x, of->n,
                              whole ? ":" : tile_text(x->t, "%s +: %d", of->first, of->width));
}

/* Their elements; of rows that no pair has, whose codes and scales may be anything, 0. */
static void make_elements(Lanes *x, const Columns *of, const char *to, const char *first,
                          int32_t count)
{
    AuTileBuild *t = x->t;
    if (!lanes_has_codes(x, of->n)) return;
    const char *channel = channel_of(x, of), *token = of->n == 1 ? "token_of_d" : "token_of_e";
    const LanesPlace at = {.head = of->n == 1 ? "hk" : lanes_value_head(x),
                           .rows = token,
                           .channel = channel,
                           .group = x->p->attn->storage[of->n - 1].channels ? NULL : "0"};
    tile_set(t, token, "n * %d + %s + iota(kv:%d)", x->shape->key_tile, first, count);
    tile_set(t, to, "f32(%s(where(%s, %s, 0.0)))", x->operand, lanes_key_inside(x, token),
             lanes_element_of(x, of->n, lanes_number_of(x, of->n, to, channel), at));
}

/* Rows [first] and on of the tile: those of the sequence, of the mask's range; others are zeros. */
static void bring(Lanes *x, const Columns *of, const char *to, const char *first, int32_t count)
{
    const LanesSome some = lanes_some_of(x, rows_of(x, of), first, count);
    tile_load(x->t, to, "%v pad 0%s", some.rows, some.when);
    make_elements(x, of, to, first, count);
}

/* Of further products, whose tiles are those of K by their own channels' name. */
static const char *as_keys_of(Lanes *x, uint32_t n)
{
    return n ? tile_text(x->t, " as [kv, %s]", lanes_term(x, n).axis) : "";
}

static void load_further_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesRows view = lanes_term_rows(x, n, LANES_QUERIES, ":");
        const bool apart = lanes_is_packed(x, LANES_QUERIES) && !view.in_sequence;
        tile_load(t, lanes_term_name(x, "raw", n), "%v pad 0",
                  lanes_at(x, view, apart ? "q_start + i" : "i"));
        tile_store(t, "f32(%v) -> %v", lanes_term_name(x, "raw", n), lanes_term_name(x, "Q", n));
    }
}

/* Rows behind the last one are zeros or another sequence's, and nobody takes what comes of them. They are read behind the barrier of the first piece of keys. */
static void load_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (x->of_group)
        warps_prefix_name_rows(x);
    else
        warps_name_rows(x, tile_text(t, "mb * %d", x->rows));
    const char *place = lanes_row_place(x, LANES_QUERIES, "h", "i");
    const int32_t some = query_width(x->p);
    if (some < x->p->d) {
        tile_for_range(t, "part_of_query", "0", tile_text(t, "%d", x->p->d / some));
        tile_load(t, "raw", "q[%s, part_of_query * %d +: %d] pad 0", place, some, some);
        tile_store(t, "f32(raw) -> Q[:, part_of_query * %d +: %d]", some, some);
        tile_end(t);
        return;
    }
    tile_load(t, "raw", "q[%s, :] pad 0", place);
    tile_set(t, "c", "iota(d:%d)", x->p->d);
    tile_set(t, "query", x->p->hooks->has_q_mod ? lanes_modified_query(x, "i") : "f32(raw)");
    tile_store(t, "query -> Q");
    load_further_queries(x);
}

/* Keys [first] and on of the tile, so many channels of them, of further products as they lie. */
static void bring_keys(Lanes *x, uint32_t n, const Columns *of, const char *first, int32_t count)
{
    if (n == 0) {
        bring(x, of, "keys_brought", first, count);
        return;
    }
    const char *columns = tile_text(x->t, "%s +: %d", of->first, of->width);
    const LanesSome some =
        lanes_some_of(x, lanes_term_rows(x, n, LANES_KEYS, columns), first, count);
    tile_load(x->t, lanes_term_name(x, "keys_brought", n), "%v pad 0%s", some.rows, some.when);
}

/* Added up one after the other, as backward does: where both have the same scores, errors of these are none of weights. */
static void add_scores(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const LanesTerm term = lanes_term(x, n);
    const int32_t some = channels(x->p->caps), some_keys = brought(x);
    const char *part = tile_text(t, "part_of_row%s", term.number);
    tile_set(t, term.score, "fill(%s, 0.0)", term.score);
    tile_for_range(t, part, "0", tile_text(t, "%d", term.width / some));
    const Columns of_piece = {1, tile_text(t, "%s * %d", part, some), 0, some};
    tile_for_range(t, "slice", "0", tile_text(t, "%d", x->shape->key_tile / some_keys));
    bring_keys(x, n, &of_piece, tile_text(t, "slice * %d", some_keys), some_keys);
    tile_store(t, "f32(%v) -> K[slice * %d +: %d, 0 +: %d]%s",
               lanes_term_name(x, "keys_brought", n), some_keys, some_keys, some, as_keys_of(x, n));
    tile_end(t);
    tile_sync(t, "self");
    tile_load(t, lanes_term_name(x, "key", n), "K[:, 0 +: %d]%s", some, as_keys_of(x, n));
    tile_product(t, term.score, x->atom, TILE_ADD_SERIAL,
                 tile_text(t, "Q%s[:, %s +: %d]", term.number, of_piece.first, some),
                 tile_text(t, "key%s", term.number));
    tile_sync(t, "self"); /* before the next piece comes to where this one was */
    tile_end(t);
}

static void scores(Lanes *x)
{
    for (uint32_t n = 0; n < lanes_term_count(x); n++) add_scores(x, n);
    if (has_cuts(x)) /* pairs of many channels: code for all tiles once */
        lanes_scores_of(x, "n", LANES_MASK_ALWAYS);
    else
        lanes_scores(x);
}

static void add_values(Lanes *x, int32_t n)
{
    AuTileBuild *t = x->t;
    const int32_t keys = values(x);
    tile_for_range(t, "turn_of_keys", "0", tile_text(t, "%d", x->shape->key_tile / keys));
    const Columns of_cut = {2, tile_text(t, "%d", n * cut(x->p)), n * cut(x->p), cut(x->p)};
    bring(x, &of_cut, "values_brought", tile_text(t, "turn_of_keys * %d", keys), keys);
    tile_set(t, "value", "f32(values_brought)");
    tile_product(t, sums_called(x, n), x->atom, TILE_ADD,
                 tile_text(t, "P[:, turn_of_keys * %d +: %d]", keys, keys), "value");
    tile_end(t);
}

static const char *weights(Lanes *x)
{
    if (!has_cuts(x)) return lanes_weights(x);
    lanes_online(x);
    for (int32_t n = 0; x->p->hooks->has_scale && n < x->p->e / cut(x->p); n++)
        tile_set(x->t, sums_called(x, n), "%s * scale", sums_called(x, n));
    return "p";
}

static void sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_store(t, "%s -> P", weights(x));
    tile_sync(t, "self");
    for (int32_t n = 0; n < x->p->e / cut(x->p); n++) add_values(x, n);
}

static void store_part(Lanes *x)
{
    for (int32_t n = 0; n < x->p->e / cut(x->p); n++) lanes_scale_values_of(x, sums_called(x, n));
    if (x->of_group && has_cuts(x))
        warps_prefix_store_cuts(x, cut(x->p));
    else if (x->of_group)
        warps_prefix_store(x);
    else if (has_cuts(x))
        warps_store_cuts(x, cut(x->p));
    else
        warps_store_part(x);
}

static void part(Lanes *x)
{
    AuTileBuild *t = x->t;
    fragments(x);
    load_queries(x);
    lanes_begin_states(x);
    tile_for_tiles(t, "n", "keys", NULL);
    scores(x);
    sums(x);
    tile_end(t);
    store_part(x);
}

static void roles(Lanes *x) { warps_core_role(x, part); }

void lanes_packed_lists(Lanes *x) { warps_prefix_lists(x); }

void lanes_packed_kernels(Lanes *x)
{
    warps_prefix_kernel_of(x, memories, part);
    warps_kernels_behind_lists(x, memories, roles);
}

static void kernels(Lanes *x)
{
    lanes_packed_lists(x);
    lanes_packed_kernels(x);
}

/* Channels of further products. */
static int32_t further_width(const AuProblem *p)
{
    int32_t sum = 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) sum += lanes_dot_width(p, n);
    return sum;
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    return 4 * (s->rows * (p->d + further_width(p) + s->key_tile) +
                s->key_tile * (channels(p->caps) + 1) + tile_exchange_words(p->caps));
}

/* Has a block registers and shared memory for the rows of a group, and keys enough for all lanes? */
static bool has_room(const AuProblem *p, const AuShape *group)
{
    return group->rows * cut(p) <= GROUP_SUMS * p->caps->lanes &&
           shared_bytes(p, group) <= p->caps->shared_bytes &&
           group->key_tile % p->caps->lanes == 0 && group->key_tile % BROUGHT == 0;
}

/* As many as there is room for, if by tiles of half as many keys. No more than of one sequence would save nothing. */
static void share_keys(Lanes *x)
{
    AuShape group = *x->shape;
    for (group.rows = GROUP_ROWS; group.rows > x->rows; group.rows /= 2)
        for (int32_t part = 1; part <= TILE; part++) {
            group.key_tile = x->shape->key_tile / part;
            if (!has_room(x->p, &group)) continue;
            warps_prefix_begin_as(x, &group);
            return;
        }
}

void lanes_packed_begin(Lanes *x)
{
    const AuTileCaps *caps = x->p->caps;
    if (tile_exchange_words(caps)) tile_set_option(x->t, "contiguous", 1); /* OpenCL's */
    x->rows = x->block = x->shape->rows;
    x->atom = tile_best_atom(caps, TILE_F32, TILE_ON_WARP);
    x->held = "f32";
    x->makes_elements = lanes_makes_elements(x->p);
    x->resident = BLOCKS;
    x->part_least = PART;
    x->item_rows[LANES_KEYS] = lanes_block_rows(x);
    share_keys(x);
    tile_layout(x->t, "in_rows", "reg", tile_text(x->t, "lane:%d@1", caps->lanes));
}

AuSchedule *schedule_lanes_packed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_packed", shape, NULL);
    Lanes x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    tile_written(x.t, LANES_PACKED_WRITTEN);
    lanes_packed_begin(&x);
    tile_layout(x.t, "along_lanes", tile_text(x.t, "lane:%d@1", p->caps->lanes), NULL);
    return lanes_forward_built(&x, diags, kernels);
}

/* ---- the shape */

static const char *refusal(const AuProblem *p)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, TILE_ON_WARP),
                     *plain = tile_best_atom(p->caps, TILE_F32, TILE_ON_WARP);
    if (p->queries != AU_DECODE_QUERIES) return "many queries";
    if (p->caps->has_private) return "executors that are no warps";
    if (!plain || plain->m > 1) return "no multiply-add of f32";
    if (p->caps->lanes == 1) return "lanes that are alone";
    if (atom && atom->m > 1) return "matrix units";
    if (p->tf32) return "f32 as it is, where tf32 is asked for";
    const char *why = schedule_shared_dots_refusal(p);
    return why ? why : schedule_rows_refusal(p);
}

/* Are the widths of further products, too, so many channels? */
static bool are_pieces(const AuProblem *p)
{
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        if (lanes_dot_width(p, n) % channels(p->caps)) return false;
    return true;
}

const char *schedule_lanes_packed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const int32_t some = channels(p->caps);
    const int32_t bytes = shared_bytes(p, s);
    const char *why = refusal(p);
    if (why) return why;
    if (p->d % some || p->e % p->caps->lanes || !are_pieces(p))
        return au_format(arena, "widths that are no multiples of %d and %d", some, p->caps->lanes);
    if (s->key_tile % p->caps->lanes || s->key_tile % BROUGHT)
        return au_format(arena, "tiles of %d keys, no multiple of %d", s->key_tile,
                         p->caps->lanes > BROUGHT ? p->caps->lanes : BROUGHT);
    if (bytes > p->caps->shared_bytes) return au_format(arena, "%d bytes of shared memory", bytes);
    s->executors = 1;
    s->product_rows = s->rows;
    s->product_columns = 4;
    return NULL;
}

bool schedule_lanes_packed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    /* A piece of a tile's keys is 32 registers of a lane for each of its keys, of which Apple's have 128. */
    const bool narrow = p->caps->registers < WIDE_LANE && !tile_exchange_words(p->caps);
    *out = (AuShape){.rows = ROWS, .key_tile = (narrow ? 1 : TILE) * p->caps->lanes};
    const int32_t sums = cut(p) < p->e ? CUT_SUMS : SUMS;
    while (out->rows > 1 && out->rows * p->e > sums * p->caps->lanes) out->rows /= 2;
    *why = schedule_lanes_packed_fit(arena, p, out);
    return !*why;
}

int32_t schedule_lanes_packed_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    return schedule_lanes_packed_shape(arena, p, &shape, &why) ? LANES_PACKED_QUERIES : 0;
}
