/* warps_tiles.c - tiles in shared memory of the kernel of keys on units of warps (warps_backward.c), the warp's part of them, and copies:
 * keys and values once, queries, output gradients and what is known of their rows a tile at a time. */
#include "key_layout.h"
#include "lanes_back.h"

#include <string.h>

/* ---- the warp's part */

bool warps_back_via_shared(const Lanes *x) { return x->via_shared || warps_is_split(x); }

/* Does anybody take dS' from memory as it lies? Where dQ is summed apart, other warps may. */
bool warps_has_ds(const Lanes *x)
{
    return warps_back_via_shared(x) ||
           (!x->shape->far && !x->atom->by_place && !warps_back_turns(x) &&
            (x->with_dq || !warps_back_passes(x)));
}

bool warps_is_split(const Lanes *x) { return x->shape->column_parts > 1 && !x->shape->far; }

bool warps_repeats_pairs(const Lanes *x) { return x->shape->column_parts > 1 && x->shape->far; }

int32_t warps_part_of(const Lanes *x, int32_t whole) { return whole / x->shape->column_parts; }

/* Where the warp's part of that many columns begins. */
const char *warps_part_from(Lanes *x, int32_t whole)
{
    return x->shape->column_parts > 1
               ? tile_text(x->t, "self %% %d * %d", x->shape->column_parts, warps_part_of(x, whole))
               : "0";
}

int32_t warps_keys_width(const Lanes *x) { return warps_padded(x->atom, x->p->d); }

/* Columns of the tile of output gradients. */
int32_t warps_values_width(const Lanes *x)
{
    return x->own_v ? warps_padded(x->atom, x->p->e) : warps_keys_width(x);
}

/* Is there room for both orders whatever the shape: of 64 keys and values with the keys turned, where registers do not hold them, and of 32
 * queries and output gradients? */
static bool both_orders_fit(const Lanes *x)
{
    enum { KEYS = 64, QUERIES = 32 };
    const int32_t row =
        warps_row_bytes(x->p, warps_back_swizzle_span(x->p), warps_keys_width(x)) +
        warps_row_bytes(x->p, warps_back_swizzle_span(x->p), warps_padded(x->atom, x->p->e));
    return x->p->caps->passes_ahead ||
           (3 * KEYS / 2 + 2 * QUERIES) * row + WARPS_ALIGNMENT <= x->p->caps->shared_bytes;
}

/* Bytes of all tiles where both orders are stored, [keys]: of keys, too. */
static int32_t bytes_of_both(const Lanes *x, bool keys)
{
    const AuShape *s = x->shape;
    const int32_t span = warps_back_swizzle_span(x->p), m = s->query_tile, d = warps_keys_width(x),
                  e = warps_padded(x->atom, x->p->e);
    const int32_t row = warps_row_bytes(x->p, span, d) + warps_row_bytes(x->p, span, e),
                  turned = warps_row_bytes(x->p, span, m),
                  pairs = warps_row_bytes(x->p, span, x->block);
    const int32_t of_keys = s->keys_in_registers ? 0 : x->block * row,
                  of_queries = m * row + (d + e) * turned,
                  statistics = (int32_t)sizeof(float) * (int32_t)back_row_count(x, true) * m,
                  shared = warps_back_via_shared(x) ? 2 * x->block * turned : 0,
                  of_dq = x->with_dq ? m * pairs + (keys ? d * pairs : 0) : 0;
    return WARPS_ALIGNMENT + of_keys + of_queries + statistics + shared + of_dq;
}

/* Can a warp hold what it takes of the turned keys: is that the same for every tile, and from where? */
static bool may_hold_turned_keys(const Lanes *x)
{
    const WarpsPieces p = warps_dq_pieces(x, warps_keys_width(x));
    return !both_orders_fit(x) && x->with_dq && !x->shape->keys_in_registers &&
           warps_dq_turns(x, &p) == 1;
}

static bool both_orders_fit_shape(const Lanes *x)
{
    return bytes_of_both(x, !may_hold_turned_keys(x)) <= x->p->caps->shared_bytes;
}

bool warps_back_passes(const Lanes *x)
{
    return !x->shape->far && warps_passes(x->p) && x->own_v && !x->p->hooks->dot_count &&
           (!warps_turns(x->p) || both_orders_fit(x) || both_orders_fit_shape(x));
}

/* Do tiles that products contract along the rows of tensors lie turned (warps_turned.c)? */
bool warps_back_turns(const Lanes *x) { return warps_turns(x->p) && warps_back_passes(x); }

bool warps_is_cramped(const Lanes *x) { return warps_back_turns(x) && !both_orders_fit(x); }

bool warps_turned_keys_are_held(const Lanes *x)
{
    return warps_back_turns(x) && may_hold_turned_keys(x) &&
           bytes_of_both(x, true) > x->p->caps->shared_bytes;
}

int32_t warps_turned_bytes(const Lanes *x)
{
    return bytes_of_both(x, !warps_turned_keys_are_held(x));
}

/* Do keys and values that registers hold come there past shared memory, and their gradients leave so? */
bool warps_keys_are_direct(const Lanes *x)
{
    return x->shape->far || (warps_back_passes(x) && x->shape->keys_in_registers);
}

/* Do keys lie in shared memory as in the tensor: for S', or for dQ where nothing turns them on their way there? */
bool warps_keys_are_shared(const Lanes *x)
{
    return !warps_keys_are_direct(x) || (x->with_dq && !warps_back_turns(x));
}

void warps_back_layouts(Lanes *x)
{
    const int32_t warps = x->shape->executors;
    if (!warps_back_passes(x)) return;
    if (!warps_back_turns(x)) {
        warps_passing_layout(x, "passing_q", x->shape->query_tile / warps, warps_keys_width(x));
        warps_passing_layout(x, "passing_do", x->shape->query_tile / warps, warps_values_width(x));
        return;
    }
    warps_turned_layout(x, "turned_q", x->shape->query_tile / warps, warps_keys_width(x));
    warps_turned_layout(x, "turned_do", x->shape->query_tile / warps, warps_values_width(x));
    warps_turned_layout(x, "turned_k", x->block / warps, warps_keys_width(x));
}

/* ---- tiles of queries */

/* Tiles whose rows are columns of tensors: QT, dOT and KT, and of the gradients of scores dST. */
static void turned_memories(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    warps_tile(x, TILE_NAME("QT"), "d", warps_keys_width(x), "q", m, 1);
    warps_tile(x, TILE_NAME("dOT"), "e", warps_values_width(x), "q", m, 1);
    if (!x->with_dq) return;
    if (!warps_turned_keys_are_held(x))
        warps_tile(x, TILE_NAME("KT"), "d", warps_keys_width(x), "kv", x->block, 1);
    warps_tile(x, TILE_NAME("dST"), "q", m, "kv", x->block, 1);
}

static void tiles_of_block(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile;
    const bool direct = warps_keys_are_direct(x);
    if (warps_keys_are_shared(x))
        warps_tile(x, TILE_NAME("K"), "kv", x->block, "d", warps_keys_width(x), 1);
    if (x->own_v && !direct)
        warps_tile(x, TILE_NAME("V"), "kv", x->block, "e", warps_values_width(x), 1);
    if (warps_back_turns(x)) turned_memories(x);
    warps_tile(x, TILE_NAME("Q"), "q", m, "d", warps_keys_width(x), x->shape->stages);
    warps_tile(x, TILE_NAME("dO"), "q", m, x->own_v ? "e" : "d", warps_values_width(x),
               x->shape->stages);
    if (warps_has_ds(x))
        warps_tile(x, TILE_NAME("dS"), "kv", x->block, "q", m, warps_dq_is_late(x) ? 2 : 1);
    if (warps_back_via_shared(x)) warps_tile(x, TILE_NAME("P"), "kv", x->block, "q", m, 1);
    const char *stages = x->shape->stages > 1 ? tile_text(t, "stage:%d, ", x->shape->stages) : "";
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_shared(t, tile_numbered(t, "row", n), "f32[%sq:%d]", stages, m);
    warps_dot_memories(x);
}

void warps_back_memories(Lanes *x)
{
    if (!x->shape->far) tiles_of_block(x);
    warps_totals_memory(x);
    tile_barrier(x->t, "all", 0, x->shape->executors);
    tile_role(x->t, "core", x->shape->executors, TILE_ON_WARP, 0);
}

/* "tq, to, t0, t1": what a tile of queries consists of. */
const char *warps_query_tokens(Lanes *x)
{
    AuText text = {.arena = x->arena};
    au_text_add(&text, "tq, to");
    for (uint32_t n = 0; n < back_row_count(x, true); n++) au_text_add(&text, ", t%u", n);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) au_text_add(&text, ", tq%u", n);
    return au_text_str(&text);
}

/* Of tiles in their order only the first has rows before the range. */
static LanesLimit limit_of(const Lanes *x, const char *m)
{
    const bool later = strcmp(m, "next(m)") == 0 && !x->p->hooks->needs_lists;
    return later ? LANES_TO_END : LANES_TO_RANGE;
}

/* The warp's rows of tile [m] of queries, as a view of their tensors has them. */
static const char *query_rows(Lanes *x, const char *m)
{
    const bool later = limit_of(x, m) == LANES_TO_END;
    const char *limits = later ? lanes_end_limit(x, "q") : lanes_limits(x, "q"),
               *start = lanes_row_start(x, LANES_QUERIES);
    return tile_text(x->t, "%s%s", start, warps_share(x, m, x->shape->query_tile, "", limits).rows);
}

static AuTileHandle output_gradients(Lanes *x, const char *rows, const char *columns)
{
    return tile_part(x->t, "%s[%s, h, %s, %s] as [q, %s]", back_output_gradient(x),
                     lanes_row_b(x, LANES_QUERIES), rows, columns, x->own_v ? "e" : "d");
}

static const char *output_columns(Lanes *x) { return x->own_v ? warps_columns(x, x->p->e) : ":"; }

static void issue_statistics(Lanes *x, const WarpsShare *share)
{
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        warps_issue(x, tile_numbered(x->t, "t", n),
                    tile_part(x->t, "%s[%s]", back_row_name(x, n),
                              lanes_place(x, LANES_QUERIES, "h", share->rows)),
                    tile_part(x->t, "row%u[%s]", n, share->to));
}

/* The warp's share of tile [m]: rows of queries and output gradients; warp n copies statistic n. */
void warps_issue_queries(Lanes *x, const char *m, const char *stage)
{
    AuTileBuild *t = x->t;
    const WarpsShare any = warps_share(x, m, x->shape->query_tile, stage, "");
    const char *rows = query_rows(x, m), *to = any.to;
    warps_issue(x, TILE_NAME("tq"),
                lanes_at(x, lanes_operand_rows(x, 0, warps_columns(x, x->p->d)), rows),
                tile_part(t, "Q[%s, :]", to));
    const AuAttn *attn = x->p->attn;
    const char *channels = x->own_v ? ":" : tile_text(t, "%d +: %d", attn->v_first, x->p->e);
    warps_issue(x, TILE_NAME("to"), output_gradients(x, rows, output_columns(x)),
                tile_part(t, "dO[%s, %s]", to, channels));
    issue_statistics(x, &any);
    warps_issue_dot_queries(x, any.rows, limit_of(x, m), to);
}

void warps_load_queries(Lanes *x, const char *m)
{
    const char *rows = query_rows(x, m);
    const char *how = warps_back_turns(x) ? "turned" : "passing";
    tile_load(x->t, "q_rows", "%v @ %s_q pad 0",
              lanes_at(x, lanes_operand_rows(x, 0, warps_columns(x, x->p->d)), rows), how);
    tile_load(x->t, "do_rows", "%v @ %s_do pad 0", output_gradients(x, rows, output_columns(x)),
              how);
}

void warps_store_queries(Lanes *x)
{
    const WarpsShare share = warps_share(x, "m", x->shape->query_tile, "", "");
    tile_store(x->t, "q_rows -> Q[%s, :]", share.to);
    tile_store(x->t, "do_rows -> dO[%s, :]", share.to);
    if (warps_back_turns(x)) {
        tile_store(x->t, "q_rows -> QT[:, %s]", share.to);
        tile_store(x->t, "do_rows -> dOT[:, %s]", share.to);
    }
    issue_statistics(x, &share);
}

static AuTileHandle far_rows(Lanes *x, uint32_t n, const char *m, const char *from, int32_t count,
                             const char *columns)
{
    const char *rows = tile_text(x->t, "%s%s * %d + %s +: %d%s", lanes_row_start(x, LANES_QUERIES),
                                 m, x->shape->query_tile, from, count, lanes_limits(x, "q"));
    return n ? output_gradients(x, rows, columns)
             : lanes_at(x, lanes_operand_rows(x, 0, columns), rows);
}

AuTileHandle warps_far_queries(Lanes *x, uint32_t n, const char *from, int32_t count)
{
    return far_rows(x, n, "m", from, count, warps_columns(x, n ? x->p->e : x->p->d));
}

AuTileHandle warps_far_part(Lanes *x, uint32_t n, const char *from, int32_t count)
{
    if (!warps_repeats_pairs(x)) return warps_far_queries(x, n, from, count);
    const int32_t width = n ? warps_values_width(x) : warps_keys_width(x);
    return far_rows(
        x, n, "m", from, count,
        tile_text(x->t, "%s +: %d", warps_part_from(x, width), warps_part_of(x, width)));
}

void warps_ask_for_queries(Lanes *x, const char *m)
{
    const int32_t share = x->shape->query_tile / x->shape->executors;
    const char *from = tile_text(x->t, "self * %d", share);
    for (uint32_t n = 0; n <= 2; n += 2)
        tile_prefetch(x->t, "%v",
                      far_rows(x, n, m, from, share, warps_columns(x, n ? x->p->e : x->p->d)));
}

void warps_issue_next(Lanes *x)
{
    if (x->shape->stages > 1) warps_issue_queries(x, "next(m)", warps_stage(x, true));
}

void warps_issue_keys(Lanes *x)
{
    AuTileBuild *t = x->t;
    const WarpsShare share = warps_share(x, "nb", x->block, "", lanes_limits(x, "k"));
    const char *rows = tile_text(x->t, "%s%s", lanes_row_start(x, LANES_KEYS), share.rows);
    const AuTileHandle keys =
        lanes_at(x, lanes_operand_rows(x, 1, warps_columns(x, x->p->d)), rows);
    const bool direct = warps_keys_are_direct(x);
    if (warps_back_turns(x)) {
        tile_load(t, "k_rows", "%v @ turned_k pad 0", keys);
        if (!direct) tile_store(t, "k_rows -> K[%s, :]", share.to);
        if (x->with_dq && !warps_turned_keys_are_held(x))
            tile_store(t, "k_rows -> KT[:, %s]", share.to);
    } else if (warps_keys_are_shared(x))
        warps_issue(x, TILE_NAME("tk"), keys, tile_part(t, "K[%s, :]", share.to));
    if (x->own_v && !direct)
        warps_issue(x, TILE_NAME("tv"),
                    lanes_at(x, lanes_operand_rows(x, 2, warps_columns(x, x->p->e)), rows),
                    tile_part(t, "V[%s, :]", share.to));
    warps_wait(x, x->own_v ? "tk, tv" : "tk");
}

/* Zeros in the channels from [first] on. A copy from beyond the tensor's last channel pads. */
static void clear_channels(Lanes *x, int32_t first, int32_t count)
{
    const int32_t share = x->shape->query_tile / x->shape->executors;
    for (int32_t stage = 0; stage < x->shape->stages && count; stage++) {
        const char *at = x->shape->stages > 1 ? tile_text(x->t, "%d, ", stage) : "";
        tile_copy(x->t,
                  "%s[%s, 0, 0 +: %d, %d +: %d] as [q, d] -> dO[%sself * %d +: %d, %d +: %d] pad 0",
                  back_output_gradient(x), lanes_row_b(x, LANES_QUERIES), share, x->p->e, count, at,
                  share, share, first, count);
    }
}

void warps_clear_other_channels(Lanes *x)
{
    const int32_t end = x->p->attn->v_first + x->p->e;
    if (x->own_v) return;
    clear_channels(x, 0, x->p->attn->v_first);
    clear_channels(x, end, warps_keys_width(x) - end);
}
