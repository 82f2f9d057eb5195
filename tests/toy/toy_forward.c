/* toy_forward.c - forward on a machine whose warps share no memory: each warp has query rows of its own, and brings keys and values to
 * registers itself, as operands of its matrix unit.
 *
 *     S = Q K'   O += P V       rows of queries, registers alone; the weights P are operand A where S left them
 *
 * Kernels: q_rows, k_rows, v_rows (rows that the script changes), classes, compact (masks that depend on data), forward. */
#include "warps.h"
#include "shapes.h"

/* ---- operands: a fragment each, loaded from rows of a tensor */

/* Declares operands, [rows, columns] of the matrix that the unit takes: queries are A; keys, whose channels are contracted, and values,
 * whose rows are, B. */
static void declare_query(Lanes *x, const char *name, const char *channels, int32_t width)
{
    tile_frag(x->t, name, "%s[q:%d, %s:%d] @ %s.A", x->operand, x->rows, channels, width,
              x->atom->name);
}

static void declare_key(Lanes *x, const char *name, const char *channels, int32_t width)
{
    tile_frag(x->t, name, "%s[%s:%d, kv:%d] @ %s.B", x->operand, channels, width,
              x->shape->key_tile, x->atom->name);
}

static void load_rows(Lanes *x, const char *name, LanesRows view, const char *rows)
{
    tile_load(x->t, name, "%v pad 0", lanes_at(x, view, rows));
}

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *pair =
        tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, x->shape->key_tile, x->atom->name);
    declare_query(x, "query", "d", x->p->d);
    declare_key(x, "key", "d", x->p->d);
    tile_frag(t, "value", "%s[kv:%d, e:%d] @ %s.B", x->operand, x->shape->key_tile, x->p->e,
              x->atom->name);
    tile_frag(t, "score", "%s", pair);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *axis = tile_text(t, "p%u", n);
        declare_query(x, tile_text(t, "query%u", n), axis, lanes_dot_width(x->p, n));
        declare_key(x, tile_text(t, "key%u", n), axis, lanes_dot_width(x->p, n));
        tile_frag(t, tile_numbered(t, "dot", n), "%s", pair);
    }
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
}

/* ---- the kernel, in the order of its text */

static void load_queries(Lanes *x)
{
    const char *rows = tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows);
    load_rows(x, "query", lanes_operand_rows(x, 0, ":"), rows);
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        load_rows(x, tile_text(x->t, "query%u", n), lanes_dot_rows(x, n, LANES_QUERIES, ":"), rows);
}

/* One tile of keys. Values that no row of the block sees may be anything: zeros stand for them. */
static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    const char *rows = tile_text(t, "n * %d +: %d", keys, keys);
    load_rows(x, "key", lanes_operand_rows(x, 1, ":"), rows);
    tile_product(t, "score", x->atom, TILE_START, "query", "key");
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *key = tile_text(t, "key%u", n);
        load_rows(x, key, lanes_dot_rows(x, n, LANES_KEYS, ":"), rows);
        tile_product(t, tile_numbered(t, "dot", n), x->atom, TILE_START, tile_text(t, "query%u", n),
                     key);
    }
    lanes_scores(x);
    load_rows(x, "value", lanes_operand_rows(x, 2, ":"),
              tile_text(t, "%s%s", rows, lanes_limits(x, "k")));
    tile_product(t, "acc", x->atom, TILE_ADD, lanes_weights(x), "value");
}

static void forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_DOWN);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    fragments(x);
    load_queries(x);
    if (x->p->hooks->state_count)
        tile_set(t, lanes_states(x) + 2, "online_init(row_like, b, h, i)");
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
    AuSchedule *out = AU_NEW(arena, AuSchedule);
    out->shape = *shape;
    out->name = shape_text(arena, "toy_forward", shape);
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    for (uint32_t n = 0; n < 3; n++) lanes_rows_kernel(&x, n);
    if (p->hooks->needs_lists) lanes_list_kernels(&x);
    forward_kernel(&x);
    return lanes_built(&x, diags);
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
    if (warps_via_shared(p)) return "sums that do not lie as the next product's operand";
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
