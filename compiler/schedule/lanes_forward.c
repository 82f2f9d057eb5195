/* lanes_forward.c - forward, scores transposed: a lane holds whole query rows, keys pass as
 * broadcast numbers.
 *
 * S' = K Q' and O' = V' P': the accumulators have a key (or a channel of the values) a row in
 * registers and the queries along the lanes. So K and V are read row by row as they lie, nothing is
 * transposed, the weights are the second product's operand where they are, and row statistics are
 * vectors along the lanes that no exchange ever touches. A CPU core is one executor whose lanes are
 * the elements of its vectors, with K and V tiles on its stack (in its caches); on a GPU the
 * executors of a block share them in shared memory.
 *
 * Kernels: `k_rows`, `v_rows` (only if the script changes keys or values), `classes`, `compact`
 * (only for masks that depend on data: lanes_lists.c), `forward`. */
#include "key_layout.h"
#include "key_storage.h"

#include <string.h>

static bool has_value_tile(const Lanes *x) { return x->own_v || x->values_beside; }

/* ---- the kernel's parts, in the order of its text */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *k = tile_text(t, "%s[kv:%d, d:%d]", x->held, x->shape->key_tile, x->p->d);
    const char *v = tile_text(t, x->values_in_rows ? "%s[e:%d, kv:%d]" : "%s[kv:%d, e:%d]", x->held,
                              x->values_in_rows ? x->p->e : x->shape->key_tile,
                              x->values_in_rows ? x->shape->key_tile : x->p->e);
    lanes_memory(x, TILE_NAME("K"), k);
    if (has_value_tile(x)) lanes_memory(x, TILE_NAME("V"), v);
    if (lanes_has_codes(x, 1)) lanes_code_memory(x, 1);
    if (has_value_tile(x) && lanes_has_codes(x, 2)) lanes_code_memory(x, 2);
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        lanes_memory(
            x, lanes_term_name(x, "K", n),
            tile_text(t, "%s[kv:%d, %s:%d]", x->held, x->shape->key_tile, term.axis, term.width));
    }
}

/* The executor's query rows, as operand B of the first product. */
static void load_query(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuHooks *h = x->p->hooks;
    const bool as_is = !h->has_q_mod && strcmp(x->held, x->operand) == 0;
    const char *loaded = as_is ? "query" : "raw";
    tile_frag(t, loaded, "%s[d:%d, q:%d] @ %s.B", x->operand, x->p->d, x->rows, x->atom->name);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    tile_load(t, loaded, "q[%s, :] pad 0", lanes_query_place(x));
    if (as_is) return;
    if (!h->has_q_mod) {
        tile_set(t, "query", "%s(raw)", x->held);
        return;
    }
    tile_set(t, "c", "iota(d:%d)", x->p->d);
    tile_set(t, "query", lanes_modified_query(x, "i"));
}

/* And those of further products, whose scores are declared beside them. */
static void load_other_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *span = tile_text(t, "%s +: %d", lanes_first_row(x), x->rows);
    for (uint32_t n = 1; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        const AuTileHandle raw = lanes_term_name(x, "raw", n);
        tile_frag(t, raw, "%s[%s:%d, q:%d] @ %s.B",
                  lanes_elem(x, lanes_dot_tensor(x->p, n - 1, false)), term.axis, term.width,
                  x->rows, x->atom->name);
        const LanesRows view = lanes_term_rows(x, n, LANES_QUERIES, ":");
        tile_load(
            t, raw, "%v pad 0",
            lanes_at(x, view, lanes_view_span(x, LANES_QUERIES, view, span, LANES_TO_SEQUENCE)));
        tile_set(t, lanes_term_name(x, "query", n), "%s(%v)", x->held, raw);
        tile_frag(t, term.score, "f32[kv:%d, q:%d] @ %s.C", lanes_keys(x), x->rows, x->atom->name);
    }
}

static LanesRows value_rows(Lanes *x)
{
    if (!x->values_in_rows) return lanes_operand_rows(x, 2, ":");
    const char *b = lanes_keys_are_paged(x) ? "b" : lanes_row_b(x, LANES_KEYS);
    return (LanesRows){.before = tile_text(x->t, "v_changed[%s, hv, :, ", b), .after = "]"};
}

static void copy_keys(Lanes *x, uint32_t n)
{
    lanes_copy_tile(x, LANES_KEYS, lanes_term_rows(x, n, LANES_KEYS, ":"),
                    lanes_term_name(x, "K", n));
}

static AuTileHandle key(Lanes *x, uint32_t n)
{
    return TILE_NAME(lanes_piece_of(x, x->shape->key_tile, lanes_term_name(x, "K", n).text));
}

static AuTileHandle query(Lanes *x, uint32_t n) { return lanes_term_name(x, "query", n); }

static const char *values(Lanes *x)
{
    const int32_t keys = x->shape->key_tile;
    if (has_value_tile(x)) return lanes_piece_of(x, keys, "V");
    const char *columns = tile_text(x->t, "%d +: %d", x->p->attn->v_first, x->p->e);
    return tile_text(x->t, "%s as [kv, e]", lanes_columns_of(x, keys, "K", columns));
}

/* One tile of keys. */
static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool key_codes = lanes_has_codes(x, 1),
               value_codes = has_value_tile(x) && lanes_has_codes(x, 2);
    if (key_codes)
        lanes_copy_codes(x, 1);
    else
        copy_keys(x, 0);
    if (value_codes)
        lanes_copy_codes(x, 2);
    else if (has_value_tile(x))
        lanes_copy_tile(x, LANES_KEYS, value_rows(x), TILE_NAME("V"));
    if ((key_codes || value_codes) && lanes_shares_tiles(x)) tile_sync(t, "all");
    if (key_codes) lanes_make_rows(x, 1, "K");
    if (value_codes) lanes_make_rows(x, 2, "V");
    for (uint32_t n = 1; n < lanes_term_count(x); n++) copy_keys(x, n);
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
    lanes_begin_pieces(x, x->shape->key_tile);
    lanes_score_products(x, key, query);
    lanes_scores(x);
    tile_product(t, "acc", x->atom, TILE_ADD, values(x), lanes_weights(x));
    lanes_end_pieces(x, x->shape->key_tile);
    if (lanes_shares_tiles(x)) tile_sync(t, "all");
}

void lanes_forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_RANGE);
    lanes_core(x, memories);
    lanes_begin_listed(x);
    tile_frag(t, "score", "f32[kv:%d, q:%d] @ %s.C", lanes_keys(x), x->rows, x->atom->name);
    tile_frag(t, "acc", "f32[e:%d, q:%d] @ %s.C = 0.0", x->p->e, x->rows, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    load_query(x);
    load_other_queries(x);
    lanes_begin_states(x);
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    lanes_scale_values(x);
    if (x->p->unfinished) {
        lanes_store_part(x, lanes_query_place(x));
    } else {
        lanes_results(x);
        tile_store(t, "%s(out) -> o[%s, :] clip", x->operand, lanes_query_place(x));
        lanes_store_finals(x);
    }
    lanes_end_listed(x);
    tile_end(t);
    tile_end(t);
}

bool lanes_forward_begin(AuArena *arena, AuDiags *diags, const AuProblem *p, AuSchedule *out,
                         Lanes *x)
{
    *x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x->longest_first = !x->on_cpu && p->attn->mask.i != 0;
    x->atom = lanes_forward_atom(p, lanes_executor(x));
    x->held = x->atom && x->atom->k > 1 ? x->operand : "f32";
    x->values_in_rows = x->atom && x->atom->k > 2;
    x->values_beside = x->atom && x->atom->k == 2 && !x->own_v;
    if (!x->atom) {
        au_error(diags, AU_E0811, p->attn->span, "%s has no multiply-add of %s for this schedule",
                 p->caps->name, x->operand);
        return false;
    }
    x->makes_elements = lanes_makes_elements(p);
    if (x->makes_elements)
        tile_layout(x->t, "a_row_along", "reg", tile_text(x->t, "lane:%d@1", p->caps->lanes));
    if (p->hooks->needs_lists || attn_is_packed(p->attn))
        tile_layout(x->t, "along_lanes", tile_text(x->t, "lane:%d@1", p->caps->lanes), NULL);
    return true;
}

AuSchedule *schedule_lanes_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    Lanes x;
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_forward", shape, NULL);
    if (!lanes_forward_begin(arena, diags, p, out, &x)) return NULL;
    out->by_batch = p->queries && p->attn->queries.layout; /* the longest sequence says so */
    return lanes_forward_built(&x, diags, lanes_forward_kernel);
}
