/* toy_forward.c - forward on a machine whose warps share no memory: each warp has query rows of its own, and brings keys and values to
 * registers itself, as operands of its matrix unit.
 *
 *     S = Q K'   O += P V       rows of queries, registers alone; the weights P are operand A where S left them
 *
 * Kernels: q_rows, k_rows, v_rows (rows that the script changes), classes, compact (masks that depend on data), forward. */
#include "warps.h"

/* ---- operands: a fragment each, [rows, columns] of the matrix that the unit takes; its terms: q k' and further products */

static AuTileHandle query(Lanes *x, uint32_t n) { return lanes_term_name(x, "query", n); }

static AuTileHandle key(Lanes *x, uint32_t n) { return lanes_term_name(x, "key", n); }

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    const char *atom = x->atom->name;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        tile_frag(t, query(x, n), "%s[q:%d, %s:%d] @ %s.A", x->operand, x->rows, term.axis,
                  term.width, atom);
        tile_frag(t, key(x, n), "%s[%s:%d, kv:%d] @ %s.B", x->operand, term.axis, term.width, keys,
                  atom);
    }
    tile_frag(t, "value", "%s[kv:%d, e:%d] @ %s.B", x->operand, keys, x->p->e, atom);
    lanes_declare_scores(x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, keys, atom));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, atom);
    lanes_declare_rows(x);
}

static void load(Lanes *x, AuTileHandle operand, LanesRows view, const char *rows)
{
    tile_load(x->t, operand, "%v pad 0", lanes_at(x, view, rows));
}

/* ---- the kernel, in the order of its text */

static void load_queries(Lanes *x)
{
    const char *rows = tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows);
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        load(x, query(x, n), lanes_term_rows(x, n, LANES_QUERIES, ":"), rows);
}

/* One tile of keys. Values that no row of the block sees may be anything: zeros stand for them. */
static void step(Lanes *x)
{
    const int32_t keys = x->shape->key_tile;
    const char *rows = tile_text(x->t, "n * %d +: %d", keys, keys);
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        load(x, key(x, n), lanes_term_rows(x, n, LANES_KEYS, ":"), rows);
    lanes_score_products(x, query, key);
    lanes_scores(x);
    load(x, TILE_NAME("value"), lanes_operand_rows(x, 2, ":"),
         tile_text(x->t, "%s%s", rows, lanes_limits(x, "k")));
    tile_product(x->t, "acc", x->atom, TILE_ADD, lanes_weights(x), "value");
}

static void forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_DOWN);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    fragments(x);
    load_queries(x);
    lanes_begin_states(x);
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    lanes_results(x);
    tile_store(t, "%s(out) -> o[b, h, %s +: %d, :] clip", x->operand, lanes_first_row(x), x->rows);
    lanes_store_finals(x);
    tile_end(t);
    tile_end(t);
}

/* NULL after an error. */
AuSchedule *schedule_toy_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "toy_forward", shape, NULL);
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    return lanes_forward_built(&x, diags, forward_kernel);
}

/* ---- its shape */

/* What shape does for the problem; NULL, or why none of this schedule does. */
const char *schedule_toy_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    if (p->caps->shared_bytes) return "a machine with shared memory, for which others are better";
    const char *why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    if (schedule_values_apart(p)) return "values that are rows of their own";
    if (warps_sums_lie_apart(p)) return "sums that do not lie as the next product's operand";
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        if (lanes_dot_width(p, n) % atom->k) return "a further product of another width";
    if (p->d % atom->k || s->key_tile % atom->k || s->key_tile % atom->n)
        return au_format(arena, "width %d or %d keys do not divide into %s", p->d, s->key_tile,
                         atom->name);
    s->rows = atom->m;
    return NULL;
}

bool schedule_toy_forward_shape(AuArena *arena, const AuProblem *p, AuShape *s, const char **why)
{
    *s = (AuShape){.executors = 4, .key_tile = 32};
    *why = schedule_toy_forward_fit(arena, p, s);
    return !*why;
}
