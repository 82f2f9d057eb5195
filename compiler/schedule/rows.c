/* rows.c - see rows.h. */
#include "key_layout.h"
#include "key_storage.h"

AuTileHandle lanes_at(Lanes *x, LanesRows view, const char *rows)
{
    return tile_part(x->t, "%s%s%s", view.before, rows, view.after);
}

/* Of packed rows, those of a tensor that counts each sequence's own. Blocks of no sequence may have rows before the first; whether rows are before a number 0
 * nobody asks. */
static const char *own_limits(Lanes *x, LanesSide side, LanesLimit limit)
{
    const bool keys = side == LANES_KEYS;
    const char *end = keys ? lanes_key_end(x) : lanes_query_end(x), *of = keys ? "k" : "q";
    if (limit == LANES_TO_SEQUENCE || !x->p->attn->mask.i)
        return tile_text(x->t, " from min(%s, 0) to %s", end, end);
    return tile_text(x->t, " from %s to min(%s_high, %s)",
                     limit == LANES_TO_RANGE ? tile_text(x->t, "%s_low", of) : "0", of, end);
}

const char *lanes_view_span(Lanes *x, LanesSide side, LanesRows view, const char *rows,
                            LanesLimit limit)
{
    const char *of = side == LANES_KEYS ? "k" : "q";
    if (view.in_sequence) return tile_text(x->t, "%s%s", rows, own_limits(x, side, limit));
    if (limit == LANES_TO_SEQUENCE) return lanes_row_span(x, side, rows, NULL, NULL);
    return tile_text(x->t, "%s%s%s", lanes_row_start(x, side), rows,
                     limit == LANES_TO_RANGE ? lanes_limits(x, of) : lanes_end_limit(x, of));
}

static LanesRows rows_at(Lanes *x, const char *tensor, const char *b, const char *head,
                         const char *columns)
{
    return (LanesRows){.before = tile_text(x->t, "%s[%s, %s, ", tensor, b, head),
                       .after = tile_text(x->t, ", %s]", columns)};
}

LanesRows lanes_rows(Lanes *x, const char *tensor, const char *head, const char *columns)
{
    return rows_at(x, tensor, lanes_row_b(x, LANES_QUERIES), head, columns);
}

LanesRows lanes_values_in_keys(Lanes *x, int32_t first, int32_t width)
{
    const int32_t in_row = x->p->attn->v_first + first;
    if (lanes_changed_type(x, 1)) { /* they are elements there */
        LanesRows view = rows_at(x, lanes_changed_name(x, 1), lanes_row_b(x, LANES_KEYS), "hk",
                                 tile_text(x->t, "%d +: %d", in_row, width));
        view.after = tile_text(x->t, "%s as [kv, e]", view.after);
        return view;
    }
    const bool paged = lanes_keys_are_paged(x);
    const char *values = tile_text(x->t, "%d +: %d] as [kv, e]", lanes_stored_width(x, 1, in_row),
                                   lanes_stored_width(x, 1, width));
    return (LanesRows){.before = paged ? "k[" : tile_text(x->t, "k[%s, hk, ", lanes_key_b(x)),
                       .after = tile_text(x->t, ", %s", values),
                       .head = paged ? ", hk, " : NULL};
}

LanesRows lanes_operand_rows(Lanes *x, uint32_t n, const char *columns)
{
    static const char *const heads[] = {"h", "hk", "hv"};
    const bool as_passed = n > 0 && !lanes_changed_type(x, n),
               paged = as_passed && lanes_keys_are_paged(x);
    const char *b = as_passed ? lanes_key_b(x) : lanes_row_b(x, n ? LANES_KEYS : LANES_QUERIES);
    if (n == 2 && !x->own_v) return lanes_values_in_keys(x, 0, x->p->e);
    if (paged) return lanes_paged_rows(x, n == 1 ? "k" : "v", heads[n], columns);
    return rows_at(x, lanes_changed_name(x, n), b, heads[n], columns);
}

LanesRows lanes_rows_by_index(Lanes *x, uint32_t n, const char *index)
{
    if (n == 1 || x->own_v) return lanes_operand_rows(x, n, index);
    LanesRows view = lanes_keys_are_paged(x) ? lanes_paged_rows(x, "k", "hk", index)
                                             : rows_at(x, "k", lanes_key_b(x), "hk", index);
    view.after = tile_text(x->t, "%s as [kv, e]", view.after);
    return view;
}

/* ---- further products of score_mod: dot(x[.., q_idx], y[.., kv_idx]) */

LanesRows lanes_dot_rows(Lanes *x, uint32_t n, LanesSide side, const char *columns)
{
    const uint32_t tensor = lanes_dot_tensor(x->p, n, side == LANES_KEYS);
    return lanes_dot_rows_of(x, lanes_tensor(x, tensor), n, side, columns);
}

static bool is_packed(const AuRowLayout *rows) { return rows->layout == AU_LAYOUT_PACKED; }

/* Where an axis of q, k or an input lies. */
static AuInputPlace place_of(const AuAttn *a, uint32_t tensor, uint32_t axis)
{
    const bool keys = tensor == 1;
    if (tensor > 2) return attn_input_place(a, tensor, axis);
    if (axis != 0 && axis != 2) return AU_PLACE_AS_WRITTEN;
    if (is_packed(keys ? &a->keys : &a->queries))
        return axis == 0 ? AU_PLACE_ONE : keys ? AU_PLACE_KEYS : AU_PLACE_QUERIES;
    if (keys && a->keys.layout == AU_LAYOUT_PAGED)
        return axis == 0 ? AU_PLACE_PAGES : AU_PLACE_SLOTS;
    return axis == 0 && (keys ? &a->keys : &a->queries)->has_rows ? AU_PLACE_LINES
                                                                  : AU_PLACE_AS_WRITTEN;
}

static AuExpr dot_index_of(const AuProblem *p, uint32_t n, LanesSide side, uint32_t axis)
{
    const bool keys = side == LANES_KEYS;
    const uint32_t from = keys ? p->attn->tensors[lanes_dot_tensor(p, n, false)].rank - 1 : 0;
    return attn_arg(p->attn, p->hooks->dots[n], from + axis);
}

static uint32_t row_axis(const AuProblem *p, uint32_t n, LanesSide side)
{
    const int32_t index = side == LANES_KEYS ? AU_AX_KV : AU_AX_Q;
    for (uint32_t i = 0;; i++) { /* there is one: writer_can_dot */
        const AuNode *at = attn_at(p->attn, dot_index_of(p, n, side, i));
        if (at->op == AU_OP_INDEX && at->integer == index) return i;
    }
}

bool lanes_dot_is_in_sequence(const AuProblem *p, uint32_t n, LanesSide side)
{
    const AuAttn *a = p->attn;
    const AuInputPlace place =
        place_of(a, lanes_dot_tensor(p, n, side == LANES_KEYS), row_axis(p, n, side));
    return is_packed(side == LANES_KEYS ? &a->keys : &a->queries) && place != AU_PLACE_KEYS &&
           place != AU_PLACE_QUERIES;
}

/* Is it the head of the keys: that of the queries, where all have keys of their own, or what scripts call so? */
static bool is_key_head(const AuAttn *a, AuExpr index)
{
    const AuNode *n = attn_at(a, index);
    const bool is_one = a->tensors[0].axes[1].i == a->tensors[1].axes[1].i;
    return n->op == AU_OP_KV_H || (is_one && n->op == AU_OP_INDEX && n->integer == AU_AX_H);
}

bool lanes_dot_has_own_keys(const AuProblem *p, uint32_t n)
{
    const AuTensor *t = &p->attn->tensors[lanes_dot_tensor(p, n, true)];
    for (uint32_t i = 0; i + 1 < t->rank; i++) {
        const AuExpr index = dot_index_of(p, n, LANES_KEYS, i);
        if (attn_at(p->attn, index)->axes & AU_AX_H && !is_key_head(p->attn, index)) return true;
    }
    return false;
}

/* The index of an axis that is not that of the rows. Kernels whose blocks have rows of several heads know the keys' one. */
static const char *dot_index(Lanes *x, AuInputPlace place, AuExpr index, LanesSide side)
{
    AuText text = {.arena = x->arena};
    if (side == LANES_KEYS && schedule_packs_rows(x->p) && is_key_head(x->p->attn, index))
        return "hk";
    if (place == AU_PLACE_ONE) return "0";
    if (place == AU_PLACE_LINES)
        return side == LANES_KEYS ? lanes_key_line(x) : lanes_row_b(x, LANES_QUERIES);
    tile_print_expr(hooks_expr(x->p->hooks, x->p->attn, index), &text);
    return au_text_str(&text);
}

LanesRows lanes_dot_rows_of(Lanes *x, const char *name, uint32_t n, LanesSide side,
                            const char *columns)
{
    AuAttn *a = x->p->attn;
    const bool keys = side == LANES_KEYS;
    const uint32_t tensor = lanes_dot_tensor(x->p, n, keys), rows = row_axis(x->p, n, side);
    AuText before = {.arena = x->arena}, head = {.arena = x->arena}, after = {.arena = x->arena};
    AuText *text = &before;
    LanesRows view = {.in_sequence = lanes_dot_is_in_sequence(x->p, n, side)};
    au_text_add(text, "%s[", name);
    for (uint32_t i = 0; i + 1 < a->tensors[tensor].rank; i++) {
        const AuInputPlace place = place_of(a, tensor, i);
        if (i == rows)
            text = &after;
        else if (place == AU_PLACE_PAGES)
            text = &head;
        else
            au_text_add(text, "%s", dot_index(x, place, dot_index_of(x->p, n, side, i), side));
        au_text_add(text, ", ");
    }
    au_text_add(text, "%s] as [%s, p%u]", columns, keys ? "kv" : "q", n);
    view.before = au_text_str(&before), view.after = au_text_str(&after);
    if (head.length) view.head = au_text_str(&head);
    return view;
}

/* ---- terms */

uint32_t lanes_term_count(const Lanes *x) { return 1 + x->p->hooks->dot_count; }

LanesTerm lanes_term(Lanes *x, uint32_t n)
{
    if (n == 0) return (LanesTerm){"", "score", "d", x->p->d};
    const char *number = tile_text(x->t, "%u", n - 1);
    return (LanesTerm){number, tile_text(x->t, "dot%s", number), tile_text(x->t, "p%s", number),
                       lanes_dot_width(x->p, n - 1)};
}

AuTileHandle lanes_term_name(Lanes *x, const char *name, uint32_t n)
{
    return tile_part(x->t, "%s%s", name, lanes_term(x, n).number);
}

const char *lanes_term_names(Lanes *x, const char *name)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        au_text_add(&text, "%s%s%s", n ? ", " : "", name, lanes_term(x, n).number);
    return au_text_str(&text);
}

const char *lanes_score_names(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        au_text_add(&text, "%s%s", n ? ", " : "", lanes_term(x, n).score);
    return au_text_str(&text);
}

LanesRows lanes_term_rows(Lanes *x, uint32_t n, LanesSide side, const char *columns)
{
    return n == 0 ? lanes_operand_rows(x, side == LANES_KEYS, columns)
                  : lanes_dot_rows(x, n - 1, side, columns);
}

void lanes_declare_scores(Lanes *x, const char *pair)
{
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        tile_frag(x->t, lanes_term(x, n).score, "%s", pair);
}

void lanes_score_products(Lanes *x, LanesOperand *left, LanesOperand *right)
{
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        tile_product(x->t, lanes_term(x, n).score, x->atom, TILE_START, left(x, n), right(x, n));
}

/* ---- tiles */

bool lanes_shares_tiles(const Lanes *x) { return !x->on_cpu; }

AuTileHandle lanes_memory(Lanes *x, AuTileHandle name, const char *type)
{
    return lanes_shares_tiles(x) ? tile_shared(x->t, name, "%s", type)
                                 : tile_private(x->t, name, "%s", type);
}

static const char *when_inside(Lanes *x, const char *at)
{
    return x->p->attn->mask.i ? tile_text(x->t, "%s >= k_low && %s < k_high", at, at)
                              : tile_text(x->t, "%s < %s", at, lanes_key_end(x));
}

/* Rows in pages are gathered, those of the tile that the sequence has and the mask's range. */
static void copy_pages(Lanes *x, LanesRows view, AuTileHandle to)
{
    AuTileBuild *t = x->t;
    const int32_t rows = x->shape->key_tile, share = rows / x->shape->executors;
    const bool shared = lanes_shares_tiles(x);
    const char *own = shared ? tile_text(t, "self * %d", share) : "0";
    tile_set(t, "at", "n * %d + %s + iota(kv:%d)", rows, own, share);
    const AuTileHandle pages = lanes_at_pages(x, view, "at");
    const char *when = when_inside(x, "at");
    if (shared)
        tile_copy(t, "%v -> %v[%s +: %d, :] pad 0 when %s", pages, to, own, share, when);
    else
        tile_copy(t, "%v -> %v pad 0 when %s", pages, to, when);
}

void lanes_copy_tile(Lanes *x, LanesSide side, LanesRows view, AuTileHandle to)
{
    const bool keys = side == LANES_KEYS;
    const int32_t rows = keys ? x->shape->key_tile : x->shape->query_tile;
    const int32_t share = rows / x->shape->executors;
    const bool shared = lanes_shares_tiles(x);
    const char *tile = tile_text(x->t, "%s * %d", keys ? "n" : "m", rows);
    if (view.head) {
        copy_pages(x, view, to);
        return;
    }
    const char *own = shared ? tile_text(x->t, "%s + self * %d +: %d", tile, share, share)
                             : tile_text(x->t, "%s +: %d", tile, rows);
    const char *span = lanes_view_span(x, side, view, own, LANES_TO_RANGE);
    if (!shared) {
        tile_copy(x->t, "%v -> %v pad 0", lanes_at(x, view, span), to);
        return;
    }
    tile_copy(x->t, "%v -> %v[self * %d +: %d, :] pad 0", lanes_at(x, view, span), to, share,
              share);
}

LanesSome lanes_some(Lanes *x, uint32_t n, const char *first, int32_t count, const char *columns)
{
    return lanes_some_of(x, lanes_operand_rows(x, n, columns), first, count);
}

LanesSome lanes_some_of(Lanes *x, LanesRows view, const char *first, int32_t count)
{
    AuTileBuild *t = x->t;
    const char *rows = tile_text(t, "n * %d + %s", x->shape->key_tile, first);
    if (view.head) {
        const char *at = tile_text(t, "at%d", count);
        tile_set(t, at, "%s + iota(kv:%d)", rows, count);
        return (LanesSome){lanes_at_pages(x, view, at),
                           tile_text(t, " when %s", when_inside(x, at))};
    }
    const char *span =
        lanes_view_span(x, LANES_KEYS, view, tile_text(t, "%s +: %d", rows, count), LANES_TO_RANGE);
    return (LanesSome){lanes_at(x, view, span), ""};
}

void lanes_copy_some(Lanes *x, uint32_t n, const char *first, int32_t count, AuTileHandle to)
{
    const LanesSome some = lanes_some(x, n, first, count, ":");
    tile_copy(x->t, "%v -> %v[%s +: %d, :] pad 0%s", some.rows, to, first, count, some.when);
}

void lanes_prefetch(Lanes *x, uint32_t n, const char *tile, const char *first, int32_t count)
{
    AuTileBuild *t = x->t;
    const LanesRows view = lanes_operand_rows(x, n, ":");
    const char *rows = tile_text(t, "%s * %d + %s", tile, x->shape->key_tile, first);
    if (view.head) {
        const char *soon = tile_text(t, "soon%d", count);
        tile_set(t, soon, "%s + iota(kv:%d)", rows, count);
        tile_prefetch(t, "%v", lanes_at_pages(x, view, soon));
        return;
    }
    const char *start = lanes_row_start(x, LANES_KEYS);
    tile_prefetch(t, "%v", lanes_at(x, view, tile_text(t, "%s%s +: %d", start, rows, count)));
}

void lanes_core(Lanes *x, void (*memories)(Lanes *x))
{
    const bool shared = lanes_shares_tiles(x);
    if (shared) {
        memories(x);
        tile_barrier(x->t, "all", 0, x->shape->executors);
    }
    tile_role(x->t, "core", shared ? x->shape->executors : 0, lanes_executor(x), 0);
    if (!shared) memories(x);
}

void lanes_mask(Lanes *x, AuTileHandle value, AuTileHandle condition)
{
    tile_set(x->t, value, "where(%v, %v, 0.0)", condition, value);
}
