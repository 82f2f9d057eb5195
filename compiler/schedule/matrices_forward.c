/* matrices_forward.c - forward on matrices of a subgroup whose elements lie nobody knows how (SPIR-V's cooperative matrices of KHR).
 *
 * S = Q K' and O += P V as in warps_forward.c, with queries, keys and values in shared memory. What lies nobody knows how cannot meet the
 * script's functions, so scores go through the subgroup's rows of shared memory into a layout of ours, in which lanes hold rows, and
 * weights come back the same way, rounded to the operands' type. A row's factor becomes a matrix by a load of which all columns are one
 * (stride 0), and the sums end in shared memory. Two barriers a tile order the copies of keys and values.
 *
 * Kernels: those of warps_forward.c. */
#include "warps.h"

enum {
    SCORES_SHARE = 8
}; /* of a lane's registers: beside scores are weights, and what functions make of both */

void warps_rows_over_lanes(Lanes *x)
{
    const int32_t rows = x->atom->m, lanes = x->p->caps->lanes / rows;
    tile_layout(x->t, "rows_over_lanes", tile_text(x->t, "lane:%d@1 reg", rows),
                lanes > 1 ? tile_text(x->t, "reg:4 lane:%d@%d reg", lanes, rows) : "reg");
}

/* ---- memories */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    warps_forward_memories(
        x); /* queries, keys, values and weights, as of units whose sums are no operand */
    tile_shared(t, TILE_NAME("scores"), "f32[q:%d, kv:%d]", x->block, keys);
    if (x->p->hooks->has_scale) tile_shared(t, TILE_NAME("factor"), "f32[q:%d]", x->block);
    tile_shared(t, TILE_NAME("result"), "f32[q:%d, e:%d]", x->block, x->p->e);
}

static AuTileHandle own_scores(Lanes *x)
{
    return warps_own_rows(x, TILE_NAME("scores"), x->shape->key_tile, "q, kv");
}

/* ---- a tile of keys */

static void scores(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const AuTileHandle row = warps_forward_row(x, n), key = warps_forward_key(x, n);
        tile_product(t, "raw", x->atom, TILE_START, row, key);
        tile_store(t, "raw -> %v", own_scores(x));
        tile_load(t, lanes_term(x, n).score, "%v", own_scores(x));
    }
    lanes_scores(x);
}

static void scale_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!x->p->hooks->has_scale) return;
    tile_store(t, "scale -> factor[self * %d +: %d]", x->rows, x->rows);
    tile_load(t, "spread", "factor[self * %d +: %d] across e:%d", x->rows, x->rows, x->p->e);
    tile_set(t, "sums", "sums * spread");
}

static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_sync(t, "all"); /* nobody reads keys or values any more */
    warps_forward_issue_keys(x, "n", "");
    warps_forward_issue_values(x, "n", "");
    tile_sync(t, "all");
    scores(x);
    lanes_online(x);
    const AuTileHandle weight = warps_own_rows(x, TILE_NAME("P"), x->shape->key_tile, "q, kv");
    tile_store(t, "%s(p) -> %v", x->operand, weight);
    scale_sums(x);
    const char *values =
        x->own_v ? "V[:, :]"
                 : tile_text(t, "K[:, %d +: %d] as [kv, e]", x->p->attn->v_first, x->p->e);
    tile_product(t, "sums", x->atom, TILE_ADD, weight, values);
}

/* ---- the kernel */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    tile_frag(t, "raw", "f32[q:%d, kv:%d] @ %s.C", x->rows, keys, x->atom->name);
    tile_frag(t, "sums", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, x->atom->name);
    if (x->p->hooks->has_scale)
        tile_frag(t, "spread", "f32[q:%d, e:%d] @ %s.C", x->rows, x->p->e, x->atom->name);
    lanes_declare_scores(x, tile_text(t, "f32[q:%d, kv:%d] @ rows_over_lanes", x->rows, keys));
    lanes_declare_rows(x);
}

static void results(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuTileHandle own = warps_own_rows(x, TILE_NAME("result"), x->p->e, "q, e");
    tile_store(t, "sums -> %v", own);
    tile_load(t, "acc", "%v @ rows_over_lanes", own);
    lanes_results(x);
    tile_store(t, "%s(out) -> o[b, h, %s +: %d, :] clip", x->operand, lanes_first_row(x), x->rows);
    lanes_store_finals(x);
}

static void forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_DOWN);
    memories(x);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    fragments(x);
    warps_forward_issue_rows(x);
    lanes_begin_states(x);
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    results(x);
    tile_end(t);
    tile_end(t);
}

/* ---- shapes */

static int32_t shared_bytes(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    enum { F32_BYTES = 4 };
    const int32_t block = s->rows * s->executors, d = warps_padded(atom, p->d);
    int32_t query = warps_row_bytes(p, 0, d > p->e ? d : p->e), key = warps_row_bytes(p, 0, d);
    if (!p->attn->v_in_k) key += warps_row_bytes(p, 0, p->e);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        const int32_t width = warps_padded(atom, lanes_dot_width(p, n));
        query += warps_row_bytes(p, 0, width), key += warps_row_bytes(p, 0, width);
    }
    query += warps_row_bytes(p, 0, s->key_tile) + F32_BYTES * (s->key_tile + 1 + p->e);
    return block * query + s->key_tile * key;
}

/* Machines without such matrices have other schedules, whose reasons are theirs: NULL is no reason. */
static const AuTileAtom *atom_of(const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    return atom && atom->opaque ? atom : NULL;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = atom_of(p);
    if (!atom) return "no matrices of a subgroup for these operands";
    const int32_t unit = atom->k > atom->n ? atom->k : atom->n;
    if (schedule_values_apart(p)) return "values that are rows of their own";
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    if (p->attn->v_in_k && p->attn->v_first % 8)
        return au_format(arena, "values begin at channel %d of the keys, no multiple of 8",
                         p->attn->v_first);
    const int32_t most = p->caps->registers / SCORES_SHARE;
    const char *dots = lanes_dot_refusal(arena, p, unit);
    if (dots) return dots;
    if (s->rows % atom->m || s->key_tile % unit || s->key_tile % s->executors ||
        s->executors * p->caps->lanes > p->caps->threads)
        return au_format(arena, "%d rows or %d keys for %d subgroups do not divide into %s",
                         s->rows, s->key_tile, s->executors, atom->name);
    if (s->rows * s->key_tile > most * p->caps->lanes)
        return au_format(arena, "%d scores a lane of %d", s->rows * s->key_tile / p->caps->lanes,
                         most);
    const int32_t bytes = shared_bytes(p, atom, s);
    return bytes <= p->caps->shared_bytes
               ? NULL
               : au_format(arena, "%d bytes of shared memory of %d", bytes, p->caps->shared_bytes);
}

/* As many pairs a block as shared memory holds; of as many pairs those with more rows, whose keys are copied less often. */
bool schedule_matrices_forward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                     const char **why)
{
    static const int32_t subgroups[] = {4, 2, 1}, keys[] = {64, 32, 16, 8};
    const AuTileAtom *atom = atom_of(p);
    int32_t best = 0;
    if (!atom) return false;
    for (uint32_t n = 0; n < 3 * 4; n++) {
        const AuShape s = {.executors = subgroups[n / 4],
                           .rows = atom->m,
                           .key_tile = keys[n % 4],
                           .stages = 1,
                           .split_segments = true};
        const char *refused = refusal(arena, p, &s);
        const int32_t pairs = s.executors * s.rows * s.key_tile;
        if (refused && !best) *why = refused;
        if (refused || pairs <= best) continue;
        best = pairs, *out = s, *why = NULL;
    }
    return best > 0;
}

const char *schedule_matrices_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    s->stages = 1, s->split_segments = true;
    return refusal(arena, p, s);
}

AuSchedule *schedule_matrices_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                      const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "matrices_forward", shape, refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.via_shared = true;
    warps_layouts(&x);
    warps_rows_over_lanes(&x);
    return lanes_forward_built(&x, diags, forward_kernel);
}
