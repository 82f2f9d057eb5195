/* lanes_pairs.c - what both kernels of products of the schedule `lanes` are made of, whichever side their blocks own: the executor's rows
 * are operand B in registers and lie along its lanes, the other side's pass by as tiles in memory, operand A.
 *
 *     own keys       S = Q K'     dP = dO V'       own queries       S' = K Q'    dP' = V dO'
 */
#include "key_layout.h"
#include "lanes_back.h"
#include "rows.h"

#include <string.h>

typedef struct Side {
    const char *name, *other;   /* of operands in registers */
    const char *tile, *second;  /* of tiles that pass, as they are called in memory */
    const char *block, *number; /* of a block, of a tile */
    const char *list, *from; /* what lists of tiles begin with; the mask's range of what passes */
    const char *own, *index; /* axis of the own rows; their numbers */
    const char *passed, *indices; /* the same of what passes */
    const char *gradient;         /* of a further product's tensor */
} Side;

static const Side sides[] = {
    [LANES_QUERIES] = {"query", "dO", "K", "V", "mb", "n", "", "k", "q", "i", "kv", "j", "dquery"},
    [LANES_KEYS] = {"key", "value", "Q", "dO", "nb", "m", "back_", "q", "kv", "j", "q", "i",
                    "dkey"},
};

static const Side *side_of(const Lanes *x) { return &sides[x->own]; }

static LanesSide passing(const Lanes *x)
{
    return x->own == LANES_KEYS ? LANES_QUERIES : LANES_KEYS;
}

static int32_t passing_rows(const Lanes *x)
{
    return x->own == LANES_KEYS ? x->shape->query_tile : x->shape->key_tile;
}

/* ---- the executor's rows */

int32_t lanes_own_count(const Lanes *x)
{
    return x->own == LANES_KEYS ? x->p->caps->lanes * x->shape->key_registers : x->rows;
}

int32_t lanes_block_keys(const Lanes *x)
{
    return x->p->caps->lanes * x->shape->key_registers * x->shape->executors;
}

const char *lanes_own_first(Lanes *x)
{
    if (x->own == LANES_QUERIES) return lanes_first_row(x);
    const char *block = tile_text(x->t, "nb * %d", lanes_block_keys(x));
    return lanes_shares_tiles(x) ? tile_text(x->t, "%s + self * %d", block, lanes_own_count(x))
                                 : block;
}

const char *lanes_own_rows(Lanes *x)
{
    return tile_text(x->t, "%s +: %d", lanes_own_first(x), lanes_own_count(x));
}

static const AuTileAtom *pair_atom(const Lanes *x) { return x->pair_atom ? x->pair_atom : x->atom; }

const char *lanes_own_type(Lanes *x, const char *axis, int32_t width)
{
    return tile_text(x->t, "[%s:%d, %s:%d] @ %s.B", axis, width, side_of(x)->own,
                     lanes_own_count(x), pair_atom(x)->name);
}

const char *lanes_own_raw(Lanes *x, const char *name, const char *elem)
{
    return strcmp(elem, x->held) == 0 ? name : tile_text(x->t, "%s_raw", name);
}

void lanes_declare_own(Lanes *x, AuTileHandle name, const char *elem, const char *axis,
                       int32_t width)
{
    const char *type = lanes_own_type(x, axis, width), *raw = lanes_own_raw(x, name.text, elem);
    if (raw != name.text) tile_frag(x->t, raw, "%s%s", elem, type);
    tile_frag(x->t, name, "%s%s", x->held, type);
}

void lanes_load_own(Lanes *x, const char *name, const char *elem, LanesRows view)
{
    const char *raw = lanes_own_raw(x, name, elem);
    tile_load(
        x->t, raw, "%v pad 0",
        lanes_at(x, view, lanes_view_span(x, x->own, view, lanes_own_rows(x), LANES_TO_SEQUENCE)));
    if (raw != name) tile_set(x->t, name, "%s(%s)", x->held, raw);
}

/* ---- pairs */

const char *lanes_pair_type(Lanes *x)
{
    return tile_text(x->t, "f32[%s:%d, %s:%d] @ %s.C", side_of(x)->passed,
                     lanes_piece(x, passing_rows(x)), side_of(x)->own, lanes_own_count(x),
                     pair_atom(x)->name);
}

const char *lanes_pair_results(Lanes *x)
{
    AuText text = {.arena = x->arena};
    au_text_add(&text, "p, ds");
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++) au_text_add(&text, ", ddot%u", n);
    for (uint32_t n = 0; n < x->p->grads->pairs.count; n++) au_text_add(&text, ", value%u", n);
    return au_text_str(&text);
}

const char *lanes_pair_hook(Lanes *x, const char *hook, bool adjoints, const char *const *rows)
{
    AuText text = {.arena = x->arena};
    au_text_add(&text, "%s(score, dp, b, h, i, j", hook);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) au_text_add(&text, ", dot%u", n);
    for (uint32_t n = 0; n < back_row_count(x, adjoints); n++)
        au_text_add(&text, ", %s", rows ? rows[n] : back_row_variable(x, n));
    au_text_add(&text, ")");
    return au_text_str(&text);
}

const char *lanes_unmasked(Lanes *x)
{
    return tile_text(x->t, "j < %s && i < %s%s", lanes_key_end(x), lanes_query_end(x),
                     x->p->hooks->has_mask ? " && mask(b, h, i, j)" : "");
}

/* Gradients of inputs that queries read are added by blocks of queries where there are such. */
bool lanes_has_value(const Lanes *x, uint32_t n)
{
    return x->own == LANES_KEYS || back_read_axes(x, &x->p->grads->pairs.at[n]) & AU_AX_Q;
}

bool lanes_is_summed(const Lanes *x, uint32_t n)
{
    const uint8_t passed = x->own == LANES_KEYS ? AU_AX_Q : AU_AX_KV;
    return lanes_has_value(x, n) && !(back_read_axes(x, &x->p->grads->pairs.at[n]) & passed);
}

void lanes_mask_pairs(Lanes *x, bool weights, bool ds)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    const AuTileHandle unmasked = tile_set(t, "unmasked", "%s", lanes_unmasked(x));
    if (weights) lanes_mask(x, TILE_NAME("p"), unmasked);
    if (ds) lanes_mask(x, TILE_NAME("ds"), unmasked);
    for (uint32_t n = 0; n < g->dot_count; n++)
        lanes_mask(x, tile_numbered(t, "ddot", n), unmasked);
    for (uint32_t n = 0; n < g->pairs.count; n++)
        if (lanes_has_value(x, n)) lanes_mask(x, tile_numbered(t, "value", n), unmasked);
}

void lanes_row_parts(Lanes *x)
{
    AuText names = {.arena = x->arena};
    for (uint32_t n = 0; n < x->p->grads->pass_count; n++)
        au_text_add(&names, "%spart%u", n ? ", " : "", n);
    tile_set(x->t, au_text_str(&names), "%s", lanes_pair_hook(x, "backward_pass", false, NULL));
}

/* ---- one tile of what passes */

/* Values that are channels of the keys pass with these. */
static bool has_second(const Lanes *x) { return x->own == LANES_KEYS || x->own_v; }

void lanes_passing_memories(Lanes *x)
{
    const Side *s = side_of(x);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        lanes_memory(x, lanes_term_name(x, s->tile, n),
                     tile_text(x->t, "%s[%s:%d, %s:%d]", x->held, s->passed, passing_rows(x),
                               term.axis, term.width));
        if (n == 0 && has_second(x))
            lanes_memory(
                x, TILE_NAME(s->second),
                tile_text(x->t, "%s[%s:%d, e:%d]", x->held, s->passed, passing_rows(x), x->p->e));
    }
}

static void copy(Lanes *x, LanesRows view, AuTileHandle to)
{
    lanes_copy_tile(x, passing(x), view, to);
}

void lanes_copy_passing(Lanes *x)
{
    const Side *s = side_of(x);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        copy(x, lanes_term_rows(x, n, passing(x), ":"), lanes_term_name(x, s->tile, n));
        if (n == 0 && x->own == LANES_KEYS)
            copy(x, lanes_rows(x, back_output_gradient(x), "h", ":"), TILE_NAME(s->second));
        if (n == 0 && x->own == LANES_QUERIES && has_second(x))
            copy(x, lanes_operand_rows(x, 2, ":"), TILE_NAME(s->second));
    }
}

const char *lanes_passing_piece(Lanes *x, const char *tile)
{
    return lanes_piece_of(x, passing_rows(x), tile);
}

static const char *second_of_pairs(Lanes *x)
{
    if (has_second(x)) return lanes_passing_piece(x, side_of(x)->second);
    const char *columns = tile_text(x->t, "%d +: %d", x->p->attn->v_first, x->p->e);
    return tile_text(x->t, "%s as [kv, e]", lanes_columns_of(x, passing_rows(x), "K", columns));
}

void lanes_pair_products(Lanes *x, bool dp)
{
    AuTileBuild *t = x->t;
    const Side *s = side_of(x);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        tile_product(t, lanes_term(x, n).score, pair_atom(x), TILE_START,
                     lanes_passing_piece(x, lanes_term_name(x, s->tile, n).text),
                     lanes_term_name(x, s->name, n));
        if (n == 0 && dp)
            tile_product(t, "dp", pair_atom(x), TILE_START, second_of_pairs(x), s->other);
    }
    const int32_t rows = passing_rows(x), piece = lanes_piece(x, rows);
    tile_set(t, s->indices, "%s * %d%s + iota(%s:%d)", s->number, rows,
             piece < rows ? tile_text(t, " + piece * %d", piece) : "", s->passed, piece);
}

/* ---- tiles that the rows of the block meet */

static int32_t own_block(const Lanes *x)
{
    return x->own == LANES_KEYS ? lanes_block_keys(x) : x->block;
}

/* What passes comes once, and stays until all of a block are done with it. */
static void begin_tile(Lanes *x, const LanesWalk *w)
{
    w->bring(x);
    if (lanes_shares_tiles(x)) tile_sync(x->t, "all");
    lanes_begin_pieces(x, passing_rows(x));
    w->begin(x);
}

static void end_tile(Lanes *x, const LanesWalk *w)
{
    if (w->rest) w->rest(x);
    lanes_end_pieces(x, passing_rows(x));
    if (lanes_shares_tiles(x)) tile_sync(x->t, "all");
}

/* By the mask's range. */
static void walk_range(Lanes *x, const LanesWalk *w)
{
    AuTileBuild *t = x->t;
    const Side *s = side_of(x);
    tile_set(t, tile_text(t, "%s_low, f_low, f_high, %s_high", s->number, s->number),
             "key_tiles(%s_low, %s_high, %s_full_low, %s_full_high, %s, %d)", s->from, s->from,
             s->from, s->from, lanes_passing_end(x, x->own, s->block, own_block(x)),
             passing_rows(x));
    tile_for_range(t, s->number, tile_text(t, "%s_low", s->number),
                   tile_text(t, "%s_high", s->number));
    begin_tile(x, w);
    tile_if(t, "%s >= f_low && %s < f_high%s", s->number, s->number, w->whole ? w->whole : "");
    w->pairs(x, false);
    tile_else(t);
    w->pairs(x, true);
    tile_end(t);
    end_tile(x, w);
    tile_end(t);
}

static void walk_lists(Lanes *x, const LanesWalk *w)
{
    static const char *const lists[] = {"partial", "full"};
    AuTileBuild *t = x->t;
    const Side *s = side_of(x);
    const char *h = lanes_list_by_head(x) ? "h" : "0";
    const char *entry = lanes_is_packed(x, x->own) ? "entry" : "item"; /* which a grid may have */
    for (uint32_t n = 0; n < 2; n++) {
        const char *count = tile_text(t, "%s%s_count[b, %s, %s]", s->list, lists[n], h, s->block);
        if (lanes_is_packed(x, x->own)) /* of which some have no block */
            count = tile_text(t, "where(%s > 0, %s, 0)",
                              lanes_passing_end(x, x->own, s->block, own_block(x)), count);
        tile_set(t, tile_text(t, "%s_many", lists[n]), "%s", count);
        tile_for_range(t, entry, "0", tile_text(t, "%s_many", lists[n]));
        tile_set(t, s->number, "%s%s_index[b, %s, %s, %s]", s->list, lists[n], h, s->block, entry);
        begin_tile(x, w);
        w->pairs(x, n == 0);
        end_tile(x, w);
        tile_end(t);
    }
}

void lanes_walk(Lanes *x, const LanesWalk *w)
{
    if (x->p->hooks->needs_lists)
        walk_lists(x, w);
    else
        walk_range(x, w);
}

/* ---- gradients of what the own rows are, summed over what passes */

static bool wants(const Lanes *x, uint32_t n)
{
    return back_wants(x, lanes_dot_tensor(x->p, back_dot(x, n), x->own == LANES_KEYS));
}

void lanes_declare_dot_gradient(Lanes *x, uint32_t n)
{
    const LanesTerm term = lanes_term(x, 1 + back_dot(x, n));
    if (wants(x, n))
        tile_frag(x->t, tile_numbered(x->t, side_of(x)->gradient, n),
                  "f32[%s:%d, %s:%d] @ %s.C = 0.0", term.axis, term.width, side_of(x)->own,
                  lanes_own_count(x), x->atom->name);
}

void lanes_declare_total(Lanes *x, uint32_t n)
{
    if (lanes_is_summed(x, n))
        tile_frag(x->t, tile_numbered(x->t, "total", n), "f32[%s:%d] like score = 0.0",
                  side_of(x)->own, lanes_own_count(x));
}

void lanes_dot_gradients(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++)
        if (wants(x, n))
            tile_product(x->t, tile_numbered(x->t, side_of(x)->gradient, n), x->atom, TILE_ADD,
                         lanes_passing_piece(
                             x, lanes_term_name(x, side_of(x)->tile, 1 + back_dot(x, n)).text),
                         tile_numbered(x->t, "ddot", n));
}

void lanes_scatter(Lanes *x, bool again)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    const Side *s = side_of(x);
    const bool keys = x->own == LANES_KEYS;
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t dot = back_dot(x, n);
        if (!wants(x, n)) continue;
        const AuTileHandle sum = tile_numbered(t, s->gradient, n);
        const char *name = back_sum(x, lanes_dot_tensor(x->p, dot, keys));
        const LanesRows view = lanes_dot_rows_of(x, name, dot, x->own, ":");
        tile_atomic_add(
            t, "%v -> %v clip", sum,
            lanes_at(x, view,
                     lanes_view_span(x, x->own, view, lanes_own_rows(x), LANES_TO_SEQUENCE)));
        if (again) tile_set(t, sum, "fill(%v, 0.0)", sum);
    }
    for (uint32_t n = 0; n < g->pairs.count; n++) {
        if (!lanes_is_summed(x, n)) continue;
        const AuTileHandle total = tile_numbered(t, "total", n);
        back_scatter(
            x, &g->pairs.at[n], total, s->index, false,
            tile_text(t, "%s < %s", s->index, keys ? lanes_key_end(x) : lanes_query_end(x)));
        if (again) tile_set(t, total, "fill(%v, 0.0)", total);
    }
}
