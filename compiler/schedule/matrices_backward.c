/* matrices_backward.c - backward on matrices of a subgroup whose elements lie nobody knows how (SPIR-V's cooperative matrices of KHR).
 *
 *     keys of a block     S' = K Q'   dP' = V dO'   dV += P' dO   dK += dS' Q      queries pass
 *     queries of a block  S = Q K'    dP = dO V'    dQ += dS K                     keys pass
 *
 * The rows of a subgroup are those of one matrix and stay in matrices, operand A, as its sums do. Scores and their gradients go through the
 * subgroup's rows of shared memory into a layout of ours, in which lanes hold rows, where the script's functions run (matrices_forward.c);
 * weights and dS go back there, rounded, to become operand A. Everything of a subgroup's own comes and goes by way of these rows, some
 * channels after the other (pieces), so that only the tiles that pass have memory of the block.
 *
 * Sums of dQ have a kernel of their own: they would need atomic sums of f32, which are a loop on machines of Vulkan.
 *
 * Kernels: those of warps_backward.c. */
#include "key_layout.h"
#include "lanes_back.h"
#include "matrices.h"

typedef enum Kind { KEYS, QUERIES, ROW_PASS } Kind;

/* What is called how: axes of pairs; tiles that pass, of d and of e channels; operands and sums of the subgroup's rows. */
typedef struct Own {
    const char *rows, *passing, *tiles[2], *operands[2], *sums[2];
} Own;
static const Own owns[] = {
    [KEYS] = {"kv", "q", {"Q", "dO"}, {"own_d", "own_e"}, {"dk_sums", "dv_sums"}},
    [QUERIES] = {"q", "kv", {"K", "V"}, {"own_d", "own_e"}, {"dq_sums", NULL}},
    [ROW_PASS] = {"q", "kv", {"K", "V"}, {"own_d", "own_e"}, {NULL, NULL}},
};

static int32_t tile_rows(const Lanes *x, Kind kind)
{
    return kind == KEYS ? x->shape->query_tile : x->shape->key_tile;
}

static MatrixPieces pieces(const Lanes *x, Kind kind, bool values, const char *name)
{
    return matrices_pieces(x, name, owns[kind].rows, values ? "e" : "d", values ? x->p->e : x->p->d,
                           tile_rows(x, kind));
}

/* ---- what kernels of both kinds have */

static void memories(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const Own *own = &owns[kind];
    const int32_t tile = tile_rows(x, kind);
    warps_tile(x, TILE_NAME(own->tiles[0]), own->passing, tile, "d", warps_padded(x->atom, x->p->d),
               1);
    warps_tile(x, TILE_NAME(own->tiles[1]), own->passing, tile, "e", warps_padded(x->atom, x->p->e),
               1);
    matrices_memories(x, own->rows, own->passing, tile);
    for (uint32_t n = 0; n < back_row_count(x, true) && kind == KEYS; n++)
        tile_shared(t, tile_numbered(t, "row", n), "f32[q:%d]", tile);
    if (kind == KEYS) warps_totals_memory(x);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
}

static void declare(Lanes *x, Kind kind)
{
    static const char *const names[] = {"score", "dp", NULL};
    const Own *own = &owns[kind];
    matrices_declare_pairs(x, own->rows, own->passing, tile_rows(x, kind), names);
    for (int values = 0; values <= 1; values++) {
        const MatrixPieces operands = pieces(x, kind, values, own->operands[values]),
                           sums = pieces(x, kind, values, own->sums[values]);
        matrices_declare_operands(x, &operands);
        if (sums.name) matrices_declare_sums(x, &sums);
    }
}

static LanesRows rows_view(Lanes *x, Kind kind, bool values, const char *columns)
{
    if (kind == KEYS) return lanes_operand_rows(x, values ? 2 : 1, columns);
    return values ? lanes_rows(x, back_output_gradient(x), "h", columns)
                  : lanes_operand_rows(x, 0, columns);
}

/* The subgroup's rows: operand A of S and of dP. */
static void bring_rows(Lanes *x, Kind kind, const char *rows)
{
    for (int values = 0; values <= 1; values++) {
        const MatrixPieces p = pieces(x, kind, values, owns[kind].operands[values]);
        for (int32_t n = 0; n < p.count; n++)
            matrices_bring(
                x, &p, n,
                lanes_at(x, rows_view(x, kind, values, matrices_channels(x, &p, n)), rows));
    }
}

static void multiply(Lanes *x, Kind kind)
{
    const Own *own = &owns[kind];
    for (int values = 0; values <= 1; values++) {
        const MatrixPieces p = pieces(x, kind, values, own->operands[values]);
        matrices_multiply(x, values ? "dp" : "score", &p, TILE_NAME(own->tiles[values]),
                          own->passing, tile_rows(x, kind));
    }
}

/* sums += pairs tile, of pairs that lanes hold. */
static void add(Lanes *x, Kind kind, const char *pairs, bool values)
{
    const Own *own = &owns[kind];
    const MatrixPieces p = pieces(x, kind, values, own->sums[values]);
    const char *left = matrices_take_left(x, pairs, own->rows, own->passing, tile_rows(x, kind));
    for (int32_t n = 0; n < p.count; n++)
        matrices_add(x, &p, n, left,
                     tile_part(x->t, "%s[:, %s]", own->tiles[values], matrices_channels(x, &p, n)));
}

/* ---- blocks of keys */

static void key_step(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_sync(t, "all"); /* nobody reads the tile before any more */
    warps_issue_queries(x, "m", "");
    tile_sync(t, "all");
    multiply(x, KEYS);
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_load(t, back_row_variable(x, n), "row%u[:] like score", n);
    warps_pair_gradients(x, NULL);
    add(x, KEYS, "weight", true);
    add(x, KEYS, "ds_operand", false);
    warps_add_values(x);
}

static void store_key_gradients(Lanes *x)
{
    const AuTileHandle direct = {NULL};
    for (int values = 0; values <= 1; values++) {
        const MatrixPieces p = pieces(x, KEYS, values, owns[KEYS].sums[values]);
        for (int32_t n = 0; n < p.count; n++) {
            matrices_take_piece(x, values ? "dv_acc" : "dk_acc", &p, n);
            if (values) warps_end_weights(x);
            warps_store_gradient(x, values ? 2 : 1, matrices_channels(x, &p, n), direct);
        }
    }
}

static void key_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    /* Its own keys beyond the mask's range give numbers to rows of dK and dV that are masked: none is looked at. */
    const char *rows = warps_share(x, "nb", x->block, "", "").rows;
    warps_back_head(x);
    memories(x, KEYS);
    declare(x, KEYS);
    warps_declare_totals(x);
    tile_set(t, "j", "nb * %d + %s + iota(kv:%d)", x->block, warps_own_keys(x), x->rows);
    bring_rows(x, KEYS, rows);
    warps_open_heads(x);
    tile_for_tiles(t, "m", "queries", NULL);
    key_step(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    store_key_gradients(x);
    tile_end(t);
    tile_end(t);
}

/* ---- blocks of queries: dQ, or sums over a row's keys that adjoints need */

static void issue_keys(Lanes *x)
{
    for (int values = 0; values <= 1; values++)
        warps_issue_tile(
            x, TILE_NAME(values ? "tv" : "tk"),
            lanes_operand_rows(x, values ? 2 : 1, warps_columns(x, values ? x->p->e : x->p->d)),
            "n", TILE_NAME(values ? "V" : "K"), "", !values);
}

static void query_results(Lanes *x, Kind kind)
{
    if (kind == ROW_PASS) {
        warps_add_passes(x);
        return;
    }
    warps_query_pairs(x);
    add(x, kind, "ds_operand", false);
}

static void query_step(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    tile_sync(t, "all");
    issue_keys(x);
    tile_sync(t, "all");
    multiply(x, kind);
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    query_results(x, kind);
}

static void store_query_gradients(Lanes *x)
{
    const MatrixPieces p = pieces(x, QUERIES, false, owns[QUERIES].sums[0]);
    for (int32_t n = 0; n < p.count; n++) {
        const char *place =
            tile_text(x->t, "%s, %s", lanes_query_place(x), matrices_channels(x, &p, n));
        matrices_take_piece(x, "dq_acc", &p, n);
        if (back_has_rows(x, 0))
            tile_store(x->t, "dq_acc -> dq_sum[%s] clip", place);
        else
            tile_store(x->t, "%s(dq_acc) -> dq[%s] clip", x->operand, place);
    }
}

static void query_kernel(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_row_span(
        x, LANES_QUERIES, tile_text(t, "%s +: %d", lanes_first_row(x), x->rows), NULL, NULL);
    warps_queries_head(x, kind == ROW_PASS);
    memories(x, kind);
    declare(x, kind);
    if (kind == ROW_PASS) warps_declare_passes(x);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    bring_rows(x, kind, rows);
    back_load_statistics(x, kind != ROW_PASS);
    tile_for_tiles(t, "n", "keys", NULL);
    query_step(x, kind);
    tile_end(t);
    if (kind == QUERIES)
        store_query_gradients(x);
    else
        warps_store_passes(x);
    tile_end(t);
    tile_end(t);
}

/* ---- shapes */

/* Tiles that pass, and rows of pairs, in both types; beginnings of memories. */
static int32_t shared_bytes(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    enum { MEMORIES = 16, BEGINNING = 64, STATISTICS = 32 };
    const int32_t passing = warps_row_bytes(p, 0, warps_padded(atom, p->d)) +
                            warps_row_bytes(p, 0, warps_padded(atom, p->e)) + STATISTICS;
    const int32_t totals = atom->by_place && p->grads->pairs.count
                               ? s->rows * s->executors * (int32_t)sizeof(float)
                               : 0;
    return totals + s->query_tile * passing +
           s->rows * s->executors * matrices_row_bytes(p, s->query_tile) + MEMORIES * BEGINNING;
}

static const char *refusal_of_problem(AuArena *arena, const AuProblem *p, const AuTileAtom *atom)
{
    const int32_t unit = matrices_unit(atom);
    if (back_layout_refusal(p)) return back_layout_refusal(p);
    if (p->attn->v_in_k) return "values that are channels of the keys";
    if (p->hooks->dot_count) return "further products";
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    if (p->deterministic && (p->grads->pairs.count || warps_heads_apart(p)))
        return "sums in one order";
    if (atom->by_place && (atom->joins ? back_sums_by_query(p) : p->grads->pairs.count > 0))
        return "sums of inputs of elements that lie nobody knows where";
    if (atom->by_place && !atom->joins && p->grads->pass_count)
        return "sums over keys that need a pass of their own";
    return NULL;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = matrices_atom(p);
    if (!atom) return "no matrices of a subgroup for these operands";
    const char *why = refusal_of_problem(arena, p, atom);
    if (why) return why;
    return matrices_block_refusal(
        arena, p,
        &(MatrixBlock){.shape = s,
                       .tile = s->query_tile,
                       .passing = au_format(arena, "tiles of %d", s->query_tile),
                       .held =
                           s->rows * (p->d + p->e) * 3 / 2 / p->caps->lanes, /* in 2 and 4 bytes */
                       .bytes = shared_bytes(p, atom, s)});
}

const char *schedule_matrices_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    s->stages = 1, s->column_parts = 1, s->query_parts = 1, s->split_segments = true;
    s->key_tile = s->query_tile; /* of the other kernel */
    return refusal(arena, p, s);
}

bool schedule_matrices_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                      const char **why)
{
    return matrices_shape(arena, p, schedule_matrices_backward_fit, out, why);
}

AuSchedule *schedule_matrices_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                       const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "matrices_backward", shape, refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.values_joined = true;
    x.heads_apart = warps_heads_apart(p);
    x.item_rows[LANES_QUERIES] = x.block;
    warps_layouts(&x);
    matrices_layout(&x);
    warps_totals_layout(&x);
    back_work_kernels(&x);
    back_before(&x);
    if (p->hooks->needs_lists) lanes_list_kernels(&x);
    if (p->grads->pass_count) query_kernel(&x, ROW_PASS);
    if (p->hooks->needs_lists) lanes_query_lists(&x, shape->query_tile, x.block);
    back_adjoints(&x);
    key_kernel(&x);
    query_kernel(&x, QUERIES);
    back_after(&x);
    return lanes_built(&x, diags);
}
