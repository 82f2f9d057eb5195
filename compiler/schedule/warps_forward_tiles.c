/* warps_forward_tiles.c - tiles in shared memory of the forward kernel on units of warps (warps_forward.c), what of them is the warp's, and copies:
 * rows of queries once, each warp its own; keys and values a tile at a time. Those of further products lie beside q and k.
 *
 * Warps that share their rows (keys_apart) have keys of their own of each tile, and copy each its queries, also those that others copy too. */
#include "key_layout.h"
#include "warps.h"

/* ---- memories */

void warps_forward_memories(Lanes *x)
{
    const int32_t d = warps_padded(x->atom, x->p->d), n = x->shape->key_tile,
                  stages = x->shape->stages, rows = x->rows * x->shape->executors;
    const bool direct = warps_rows_are_direct(x->p, x->shape);
    if (!direct && !warps_forward_stages_rows(x->p, x->shape))
        warps_tile(x, TILE_NAME("Q"), "q", rows, "w", d > x->p->e ? d : x->p->e, 1);
    if (x->shape->far) {
        if (x->shape->keys_apart) warps_join_memories(x);
        return;
    }
    if (!x->codes_are_operands) warps_tile(x, TILE_NAME("K"), "kv", n, "d", d, stages);
    if (warps_values_are_turned(x->p, x->shape))
        warps_tile(x, TILE_NAME("V"), "e", x->p->e, "kv", n, stages);
    else if (x->own_v && !warps_has_one_tile(x->p, x->shape))
        warps_tile(x, TILE_NAME("V"), "kv", n, "e", x->p->e, stages);
    warps_code_memories(x);
    if (x->via_shared) warps_tile(x, TILE_NAME("P"), "q", rows, "kv", lanes_keys(x), 1);
    for (uint32_t i = 1; i < lanes_term_count(x); i++) {
        const LanesTerm term = lanes_term(x, i);
        const int32_t width = warps_padded(x->atom, term.width);
        if (!direct) warps_tile(x, lanes_term_name(x, "Q", i), "q", rows, term.axis, width, 1);
        warps_tile(x, lanes_term_name(x, "K", i), "kv", n, term.axis, width, stages);
    }
    if (x->shape->keys_apart) warps_join_memories(x);
}

/* ---- tiles of keys and values */

void warps_forward_issue_term(Lanes *x, uint32_t i, const char *n, const char *stage)
{
    const char *columns = i ? warps_columns(x, lanes_term(x, i).width) : warps_key_columns(x);
    warps_issue_tile(x, lanes_term_name(x, "tk", i), lanes_term_rows(x, i, LANES_KEYS, columns), n,
                     i ? lanes_term_name(x, "K", i) : TILE_NAME(warps_brought(x, 1)), stage,
                     i == 0 && !x->own_v);
}

void warps_forward_issue_keys(Lanes *x, const char *n, const char *stage)
{
    if (warps_pages_issue_keys(x, n, stage)) return;
    for (uint32_t i = 0; i < lanes_term_count(x); i++) warps_forward_issue_term(x, i, n, stage);
}

bool warps_values_are_turned(const AuProblem *p, const AuShape *s)
{
    return warps_turns(p) && !s->far && !p->attn->v_in_k && !warps_has_one_tile(p, s);
}

/* ---- where nothing copies by itself tiles pass through registers, loaded under the work on the tile before */

/* Channels of the values that pass at once: all, or where they do not come ahead what takes few registers. */
static int32_t passing_channels(const Lanes *x)
{
    enum { REGISTERS = 16, BYTES = 4, FEWEST = 8 };
    const int32_t rows = x->shape->key_tile / x->shape->executors,
                  most = REGISTERS * BYTES * x->p->caps->lanes / tile_elem(x->p->operand)->bytes;
    int32_t channels = x->p->e;
    if (warps_forward_passes(x->p, x->shape)) return channels;
    while (rows * channels > most && channels % (2 * FEWEST) == 0) channels /= 2;
    return channels;
}

void warps_forward_layouts(Lanes *x)
{
    const int32_t share = x->shape->key_tile / x->shape->executors;
    if (warps_values_are_turned(x->p, x->shape))
        warps_turned_layout(x, "turned_v", share, passing_channels(x));
    if (!warps_forward_passes(x->p, x->shape)) return;
    if (x->own_v && !warps_values_are_turned(x->p, x->shape))
        warps_passing_layout(x, "passing_v", share, x->p->e);
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        warps_passing_layout(x, lanes_term_name(x, "passing_k", n).text, share,
                             warps_padded(x->atom, lanes_term(x, n).width));
}

static void load_rows(Lanes *x, AuTileHandle rows, LanesRows view, const char *n,
                      const char *layout, bool by_weight)
{
    const char *span = warps_share(x, n, x->shape->key_tile, "", "").rows;
    span = lanes_view_span(x, LANES_KEYS, view, span, by_weight ? LANES_TO_RANGE : LANES_TO_END);
    tile_load(x->t, rows, "%v @ %s pad 0", lanes_at(x, view, span), layout);
}

void warps_forward_load_tiles(Lanes *x, const char *n)
{
    for (uint32_t i = 0; i < lanes_term_count(x); i++)
        load_rows(x, lanes_term_name(x, "key_rows", i),
                  lanes_term_rows(x, i, LANES_KEYS, warps_columns(x, lanes_term(x, i).width)), n,
                  lanes_term_name(x, "passing_k", i).text, i == 0 && !x->own_v);
    if (x->own_v)
        load_rows(x, TILE_NAME("value_rows"), lanes_operand_rows(x, 2, ":"), n,
                  warps_values_are_turned(x->p, x->shape) ? "turned_v" : "passing_v", true);
}

void warps_forward_store_tiles(Lanes *x)
{
    const WarpsShare share = warps_share(x, "n", x->shape->key_tile, "", "");
    for (uint32_t i = 0; i < lanes_term_count(x); i++)
        tile_store(x->t, "%v -> %v[%s, :]", lanes_term_name(x, "key_rows", i),
                   lanes_term_name(x, "K", i), share.to);
    if (!x->own_v) return;
    tile_store(x->t,
               warps_values_are_turned(x->p, x->shape) ? "value_rows -> V[:, %s]"
                                                       : "value_rows -> V[%s, :]",
               share.to);
}

/* The values of a tile that does not come ahead, some channels after the other. */
static void turn_values(Lanes *x, const char *n)
{
    const int32_t channels = passing_channels(x);
    for (int32_t first = 0; first < x->p->e; first += channels) {
        load_rows(x, TILE_NAME("value_rows"),
                  lanes_operand_rows(x, 2, tile_text(x->t, "%d +: %d", first, channels)), n,
                  "turned_v", true);
        tile_store(x->t, "value_rows -> V[%d +: %d, %s]", first, channels,
                   warps_share(x, n, x->shape->key_tile, "", "").to);
    }
}

void warps_forward_issue_values(Lanes *x, const char *n, const char *stage)
{
    if (!x->own_v || warps_pages_issue_values(x, n, stage)) return;
    if (warps_values_are_turned(x->p, x->shape)) {
        turn_values(x, n);
        return;
    }
    warps_issue_tile(x, TILE_NAME("tv"), lanes_operand_rows(x, 2, ":"), n,
                     TILE_NAME(warps_brought(x, 2)), stage, true);
}

/* ---- rows by way of the tile of keys, which has room for those of all warps */

bool warps_forward_stages_rows(const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    return atom && atom->by_place && !s->far && s->query_in_registers && !s->keys_apart &&
           s->stages == 1 && !p->hooks->dot_count && !warps_has_any_codes(p) &&
           s->key_tile >= s->rows * s->executors && p->e <= p->d &&
           warps_padded(atom, p->e) == p->e;
}

static AuTileHandle staged(Lanes *x, int32_t width, const char *axes)
{
    return warps_own_rows(x, TILE_NAME("K"), width, axes);
}

void warps_forward_stage_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_row_span(
        x, LANES_QUERIES, tile_text(t, "%s +: %d", lanes_first_row(x), x->rows), NULL, NULL);
    const AuTileHandle place = staged(x, warps_padded(x->atom, x->p->d), "q, d");
    tile_copy(t, "%v -> %v pad 0",
              lanes_at(x, lanes_term_rows(x, 0, LANES_QUERIES, warps_columns(x, x->p->d)), rows),
              place);
    tile_load(t, warps_forward_row(x, 0), "%v @ %s.A", place, x->atom->name);
    tile_sync(t, "all");
}

void warps_forward_stage_output(Lanes *x)
{
    const AuTileHandle place = staged(x, x->p->e, "q, e");
    tile_store(x->t, "%s(out) -> %v", x->operand, place);
    tile_copy(x->t, "%v -> o[%s, :] clip", place, lanes_query_place(x));
}

const char *warps_forward_key_tokens(Lanes *x)
{
    return lanes_keys_are_paged(x) ? warps_pages_key_tokens(x) : lanes_term_names(x, "tk");
}

const char *warps_forward_tokens(Lanes *x)
{
    const char *keys = warps_forward_key_tokens(x);
    return x->own_v ? tile_text(x->t, "%s, %s", keys, warps_pages_value_tokens(x)) : keys;
}

const char *warps_forward_keys(Lanes *x)
{
    const int32_t keys = lanes_keys(x);
    return x->shape->keys_apart ? tile_text(x->t, "self * %d +: %d", keys, keys) : ":";
}

/* ---- operands straight from tensors */

bool warps_begin_far(Lanes *x, LanesSide side, const char *first)
{
    const bool keys = side == LANES_KEYS;
    if (!x->shape->far || !(x->p->caps->loads & TILE_LOADS_BLOCK) ||
        !(keys ? x->p->attn->keys : x->p->attn->queries).layout)
        return false;
    tile_if(x->t, "%s >= 0 && %s < %s", first, first, keys ? lanes_key_end(x) : lanes_query_end(x));
    return true;
}

/* Rows of tile [n], from the first that the warp multiplies or asks for on, of which it, and who has the same rows, has [share]. */
AuTileHandle warps_far_rows(Lanes *x, LanesRows view, const char *n, int32_t share, bool by_weight)
{
    const int32_t sharers = share * x->shape->executors / x->shape->key_tile;
    const char *warp = sharers > 1 ? tile_text(x->t, "self / %d", sharers) : "self",
               *own = share == x->shape->key_tile ? "" : tile_text(x->t, " + %s * %d", warp, share),
               *rows = tile_text(x->t, "%s * %d%s +: %d", n, x->shape->key_tile, own, share);
    return lanes_at(
        x, view,
        lanes_view_span(x, LANES_KEYS, view, rows, by_weight ? LANES_TO_RANGE : LANES_TO_END));
}

static AuTileHandle far_keys(Lanes *x, uint32_t term, const char *n, int32_t share)
{
    const LanesRows keys =
        lanes_term_rows(x, term, LANES_KEYS, warps_columns(x, lanes_term(x, term).width));
    return warps_far_rows(x, keys, n, share, term == 0 && !x->own_v);
}

static AuTileHandle far_values(Lanes *x, const char *n, int32_t share, const char *channels)
{
    return warps_far_rows(x, lanes_operand_rows(x, 2, channels), n, share, true);
}

AuTileHandle warps_forward_far_values(Lanes *x)
{
    return far_values(x, "n", lanes_keys(x), warps_own_channels(x).span);
}

/* The warps of a block share out what they all take. */
void warps_forward_ask_for(Lanes *x, const char *n)
{
    const int32_t share = x->shape->key_tile / x->shape->executors;
    for (uint32_t term = 0; term < lanes_term_count(x); term++)
        tile_prefetch(x->t, "%v", far_keys(x, term, n, share));
    if (x->own_v) tile_prefetch(x->t, "%v", far_values(x, n, share, ":"));
}

AuTileHandle warps_forward_key(Lanes *x, uint32_t n)
{
    if (x->shape->far) return far_keys(x, n, "n", lanes_keys(x));
    if (n == 0 && x->codes_are_operands) return TILE_NAME("keys");
    return tile_part(x->t, "%v[%s%s, :]", lanes_term_name(x, "K", n), warps_stage(x, false),
                     warps_forward_keys(x));
}

/* ---- the warp's rows of queries */

WarpsChannels warps_own_channels(Lanes *x)
{
    const int32_t sharers = schedule_row_sharers(x->shape), count = x->p->e / sharers;
    return (WarpsChannels){
        .count = count,
        .span =
            sharers > 1 ? tile_text(x->t, "self %% %d * %d +: %d", sharers, count, count) : ":"};
}

AuTileHandle warps_own_rows(Lanes *x, AuTileHandle tile, int32_t width, const char *axes)
{
    return tile_part(x->t, "%v[self * %d +: %d, 0 +: %d] as [%s]", tile, x->rows, x->rows, width,
                     axes);
}

static AuTileHandle own_queries(Lanes *x, uint32_t n)
{
    const LanesTerm term = lanes_term(x, n);
    return warps_own_rows(x, lanes_term_name(x, "Q", n), warps_padded(x->atom, term.width),
                          tile_text(x->t, "q, %s", term.axis));
}

AuTileHandle warps_forward_row(Lanes *x, uint32_t n)
{
    return x->shape->query_in_registers ? lanes_term_name(x, "query", n) : own_queries(x, n);
}

/* Where registers hold queries shared memory has better use for their room, of which tiles of keys are as much larger: loads and stores
 * of 8 bytes a lane, once. Beside keys that come straight from tensors nothing needs it. */
bool warps_rows_are_direct(const AuProblem *p, const AuShape *s)
{
    return s->far || (warps_passes(p) && s->query_in_registers && !s->keys_apart);
}

void warps_forward_issue_rows(Lanes *x)
{
    const char *rows = tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesRows view =
            lanes_term_rows(x, n, LANES_QUERIES, warps_columns(x, lanes_term(x, n).width));
        const AuTileHandle from =
            lanes_at(x, view, lanes_view_span(x, LANES_QUERIES, view, rows, LANES_TO_SEQUENCE));
        if (warps_rows_are_direct(x->p, x->shape))
            tile_load(x->t, warps_forward_row(x, n), "%v @ %s.A pad 0", from, x->atom->name);
        else
            warps_issue(x, lanes_term_name(x, "tq", n), from, own_queries(x, n));
    }
}

/* Row r of the heads that share keys is two divisions away, so a lane makes the place of one row, and who brings a part of it asks that lane
 * (lower/gather.c). */
static AuTileHandle rows_by_lanes(Lanes *x, const char *at)
{
    AuTileBuild *t = x->t;
    const char *columns = warps_columns(x, lanes_term(x, 0).width);
    tile_frag(t, "row_head", "i32[q:%d] @ along_lanes = 0", x->rows);
    tile_frag(t, "row_at", "i32[q:%d] @ along_lanes = 0", x->rows);
    tile_set(t, "row_head", "h");
    tile_set(t, "row_at", "%s", at);
    return lanes_at(x, lanes_rows(x, lanes_changed_name(x, 0), "row_head", columns), "row_at");
}

void warps_forward_issue_packed_rows(Lanes *x)
{
    const bool packed = lanes_is_packed(x, LANES_QUERIES), has_rows = x->p->attn->queries.layout;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesRows view =
            lanes_term_rows(x, n, LANES_QUERIES, warps_columns(x, lanes_term(x, n).width));
        const char *at = packed && !view.in_sequence ? "q_start + i" : "i";
        tile_async_copy(x->t, lanes_term_name(x, "tq", n), "%v -> %v pad 0 when %s",
                        n || x->of_group ? lanes_at(x, view, at) : rows_by_lanes(x, at),
                        own_queries(x, n),
                        !x->of_group ? tile_text(x->t, "i < %s", lanes_query_end(x))
                        : has_rows   ? "r < last_row && i < q_length"
                                     : "r < last_row");
    }
}

void warps_forward_load_rows(Lanes *x)
{
    if (warps_rows_are_direct(x->p, x->shape)) return;
    warps_wait(x, lanes_term_names(x, "tq"));
    for (uint32_t n = 0; n < lanes_term_count(x) && x->shape->query_in_registers; n++)
        tile_load(x->t, warps_forward_row(x, n), "%v @ %s", own_queries(x, n),
                  n ? tile_text(x->t, "%s.A", x->atom->name) : warps_query_layout(x));
}
