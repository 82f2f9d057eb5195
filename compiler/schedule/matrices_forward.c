/* matrices_forward.c - forward on matrices of a subgroup whose elements lie nobody knows how (SPIR-V's cooperative matrices of KHR).
 *
 * S = Q K' and O += P V as in warps_forward.c, with keys and values in shared memory. What lies nobody knows how cannot meet the script's
 * functions, so scores go through the subgroup's rows of shared memory into a layout of ours, in which lanes hold rows, and weights come
 * back the same way, rounded to the operands' type. A row's factor becomes a matrix by a load of which all columns are one (stride 0).
 * Queries and sums stay in matrices, and come and go in pieces (matrices.h); sums that a function of the script takes as whole rows end in
 * shared memory. Two barriers a tile order the copies of keys and values.
 *
 * Kernels: those of warps_forward.c. */
#include "key_layout.h"
#include "matrices.h"

/* Queries of that term, and the sums. */
static MatrixPieces rows_of(Lanes *x, uint32_t term)
{
    const LanesTerm of = lanes_term(x, term);
    return matrices_pieces(x, tile_text(x->t, "own_%s_", of.axis), "q", of.axis, of.width,
                           x->shape->key_tile);
}

static MatrixPieces sums_of(const Lanes *x)
{
    return matrices_pieces(x, "sums", "q", "e", x->p->e, x->shape->key_tile);
}

/* Does a function take a row of the output as a whole? */
static bool ends_whole(const AuProblem *p) { return p->hooks->has_out_mod; }

/* ---- memories */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        warps_tile(x, lanes_term_name(x, "K", n), "kv", keys, term.axis,
                   warps_padded(x->atom, term.width), 1);
    }
    if (x->own_v) warps_tile(x, TILE_NAME("V"), "kv", keys, "e", x->p->e, 1);
    matrices_memories(x, "q", "kv", keys);
    if (x->p->hooks->has_scale) tile_shared(t, TILE_NAME("factor"), "f32[q:%d]", x->block);
    if (ends_whole(x->p)) tile_shared(t, TILE_NAME("result"), "f32[q:%d, e:%d]", x->block, x->p->e);
}

/* ---- a tile of keys */

static void scores(Lanes *x)
{
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const MatrixPieces rows = rows_of(x, n);
        matrices_multiply(x, lanes_term(x, n).score, &rows, lanes_term_name(x, "K", n), "kv",
                          x->shape->key_tile);
    }
    lanes_scores(x);
}

/* All columns of the factors' matrices are one, so those of a piece do for each. */
static void scale_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    const MatrixPieces sums = sums_of(x);
    if (!x->p->hooks->has_scale) return;
    tile_store(t, "scale -> factor[self * %d +: %d]", x->rows, x->rows);
    tile_load(t, "spread", "factor[self * %d +: %d] across e:%d", x->rows, x->rows, sums.width);
    for (int32_t n = 0; n < sums.count; n++)
        tile_set(t, tile_numbered(t, sums.name, (uint32_t)n), "%s%d * spread", sums.name, n);
}

static void add_values(Lanes *x, const char *left)
{
    AuTileBuild *t = x->t;
    const MatrixPieces sums = sums_of(x);
    for (int32_t n = 0; n < sums.count; n++)
        matrices_add(x, &sums, n, left,
                     x->own_v ? tile_part(t, "V[:, %s]", matrices_channels(x, &sums, n))
                              : tile_part(t, "K[:, %d +: %d] as [kv, e]",
                                          x->p->attn->v_first + n * sums.width, sums.width));
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
    const char *left =
        matrices_take_left(x, tile_text(t, "%s(p)", x->operand), "q", "kv", x->shape->key_tile);
    scale_sums(x);
    add_values(x, left);
}

/* ---- the kernel */

static void declare(Lanes *x)
{
    AuTileBuild *t = x->t;
    static const char *const none[] = {NULL};
    const int32_t keys = x->shape->key_tile;
    const MatrixPieces sums = sums_of(x);
    matrices_declare_pairs(x, "q", "kv", keys, none);
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const MatrixPieces rows = rows_of(x, n);
        matrices_declare_operands(x, &rows);
    }
    matrices_declare_sums(x, &sums);
    if (x->p->hooks->has_scale)
        tile_frag(t, "spread", "f32[q:%d, e:%d] @ %s.C", x->rows, sums.width, x->atom->name);
    lanes_declare_scores(x, tile_text(t, "f32[q:%d, kv:%d] @ rows_over_lanes", x->rows, keys));
    lanes_declare_rows(x);
}

static void bring_rows(Lanes *x)
{
    const char *own = lanes_row_span(
        x, LANES_QUERIES, tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows), NULL, NULL);
    for (uint32_t term = 0; term < lanes_term_count(x); term++) {
        const MatrixPieces rows = rows_of(x, term);
        for (int32_t n = 0; n < rows.count; n++)
            matrices_bring(
                x, &rows, n,
                lanes_at(x, lanes_term_rows(x, term, LANES_QUERIES, matrices_channels(x, &rows, n)),
                         own));
    }
}

/* Rows as a whole, for functions that look at them so. */
static void whole_results(Lanes *x)
{
    AuTileBuild *t = x->t;
    const MatrixPieces sums = sums_of(x);
    for (int32_t n = 0; n < sums.count; n++)
        tile_store(t, "%s%d -> result[self * %d +: %d, %s] as [q, e]", sums.name, n, x->rows,
                   x->rows, matrices_channels(x, &sums, n));
    tile_load(t, "acc", "%v @ rows_over_lanes",
              warps_own_rows(x, TILE_NAME("result"), x->p->e, "q, e"));
    lanes_results(x);
    tile_store(t, "%s(out) -> o[%s, :] clip", x->operand, lanes_query_place(x));
}

static void results(Lanes *x)
{
    const MatrixPieces sums = sums_of(x);
    for (int32_t n = 0; n < sums.count && !ends_whole(x->p); n++) {
        matrices_take_piece(x, "acc", &sums, n);
        lanes_results(x);
        tile_store(x->t, "%s(out) -> o[%s, %s] clip", x->operand, lanes_query_place(x),
                   matrices_channels(x, &sums, n));
    }
    if (ends_whole(x->p)) whole_results(x);
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
    declare(x);
    bring_rows(x);
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
    enum { F32_BYTES = 4, MEMORIES = 16, BEGINNING = 64 };
    int32_t key = warps_row_bytes(p, 0, warps_padded(atom, p->d)),
            row = matrices_row_bytes(p, s->key_tile) + F32_BYTES;
    if (!p->attn->v_in_k) key += warps_row_bytes(p, 0, p->e);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        key += warps_row_bytes(p, 0, warps_padded(atom, lanes_dot_width(p, n)));
    if (ends_whole(p)) row += F32_BYTES * p->e;
    return s->rows * s->executors * row + s->key_tile * key + MEMORIES * BEGINNING;
}

/* Of a lane: operands of two bytes, sums of four. */
static int32_t held(const AuProblem *p, const AuShape *s)
{
    int32_t operands = p->d;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) operands += lanes_dot_width(p, n);
    return s->rows * (operands / 2 + p->e) / p->caps->lanes;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = matrices_atom(p);
    if (!atom || atom->by_place) return "no matrices of a subgroup for these operands";
    const int32_t unit = matrices_unit(atom);
    if (schedule_values_apart(p)) return "values that are rows of their own";
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    if (p->attn->v_in_k && p->attn->v_first % 8)
        return au_format(arena, "values begin at channel %d of the keys, no multiple of 8",
                         p->attn->v_first);
    const char *dots = lanes_dot_refusal(arena, p, unit);
    if (dots) return dots;
    return matrices_block_refusal(
        arena, p,
        &(MatrixBlock){.shape = s,
                       .tile = s->key_tile,
                       .passing = au_format(arena, "%d keys", s->key_tile),
                       .held = held(p, s),
                       .bytes = shared_bytes(p, atom, s)});
}

const char *schedule_matrices_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    s->stages = 1, s->split_segments = true, s->query_tile = 0;
    return refusal(arena, p, s);
}

bool schedule_matrices_forward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                     const char **why)
{
    return matrices_shape(arena, p, schedule_matrices_forward_fit, out, why);
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
    matrices_layout(&x);
    return lanes_forward_built(&x, diags, forward_kernel);
}
