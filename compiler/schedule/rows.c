/* rows.c - see rows.h. */
#include "key_layout.h"
#include "key_storage.h"

AuTileHandle lanes_at(Lanes *x, LanesRows view, const char *rows)
{
    return tile_part(x->t, "%s%s%s", view.before, rows, view.after);
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
    return (LanesRows){.before = paged ? "k" : tile_text(x->t, "k[%s, hk, ", lanes_key_b(x)),
                       .after = tile_text(x->t, ", %s", values),
                       .head = paged ? "hk" : NULL};
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

LanesRows lanes_dot_rows_of(Lanes *x, const char *name, uint32_t n, LanesSide side,
                            const char *columns)
{
    AuAttn *a = x->p->attn;
    const bool keys = side == LANES_KEYS;
    const uint32_t rank = a->tensors[lanes_dot_tensor(x->p, n, keys)].rank;
    const uint32_t from = keys ? a->tensors[lanes_dot_tensor(x->p, n, false)].rank - 1 : 0;
    AuText before = {.arena = x->arena}, after = {.arena = x->arena}, *text = &before;
    au_text_add(text, "%s[", name);
    for (uint32_t i = 0; i + 1 < rank; i++) {
        const AuExpr index = attn_arg(a, x->p->hooks->dots[n], from + i);
        const AuNode *at = attn_at(a, index);
        if (at->op == AU_OP_INDEX && at->integer == (keys ? AU_AX_KV : AU_AX_Q))
            text = &after;
        else
            tile_print_expr(hooks_expr(x->p->hooks, a, index), text);
        au_text_add(text, ", ");
    }
    au_text_add(text, "%s] as [%s, p%u]", columns, keys ? "kv" : "q", n);
    return (LanesRows){.before = au_text_str(&before), .after = au_text_str(&after)};
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
    const char *tile = keys ? "n" : "m", *limits = lanes_limits(x, keys ? "k" : "q");
    const char *start = lanes_row_start(x, side);
    if (view.head) {
        copy_pages(x, view, to);
        return;
    }
    if (!lanes_shares_tiles(x)) {
        const char *span = tile_text(x->t, "%s%s * %d +: %d%s", start, tile, rows, rows, limits);
        tile_copy(x->t, "%v -> %v pad 0", lanes_at(x, view, span), to);
        return;
    }
    const char *span =
        tile_text(x->t, "%s%s * %d + self * %d +: %d%s", start, tile, rows, share, share, limits);
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
    const char *span = tile_text(t, "%s%s +: %d%s", lanes_row_start(x, LANES_KEYS), rows, count,
                                 lanes_limits(x, "k"));
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
