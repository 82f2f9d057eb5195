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

enum { SCORES_SHARE = 8 }; /* of a lane's registers: as matrices_forward.c has it */

typedef enum Kind { KEYS, QUERIES, ROW_PASS } Kind;

/* Whose rows blocks own, and what is called how. */
typedef struct Own {
    const char *rows, *passing; /* axes of pairs */
    const char *tile, *second;  /* tiles that pass: of d, of e channels */
} Own;
static Own own_of(Kind kind)
{
    return kind == KEYS ? (Own){"kv", "q", "Q", "dO"} : (Own){"q", "kv", "K", "V"};
}

static int32_t tile_rows(const Lanes *x, Kind kind)
{
    return kind == KEYS ? x->shape->query_tile : x->shape->key_tile;
}

/* Of [width] channels so many go through rows of [columns] at once: all, or an equal part, in whole matrices. */
static int32_t unit_of(const AuTileAtom *atom) { return atom->k > atom->n ? atom->k : atom->n; }

static int32_t piece_width(const AuTileAtom *atom, int32_t width, int32_t columns)
{
    int32_t piece = columns < width ? columns : width;
    while (width % piece) piece -= unit_of(atom);
    return piece;
}

typedef struct Pieces {
    const char *axis, *held; /* of channels; what the subgroup's rows are called there */
    int32_t width, count;
} Pieces;

static Pieces pieces(const Lanes *x, Kind kind, bool values)
{
    const int32_t all = values ? x->p->e : x->p->d,
                  width = piece_width(x->atom, all, tile_rows(x, kind));
    return (Pieces){values ? "e" : "d", values ? "own_e" : "own_d", width, all / width};
}

static const char *channels(Lanes *x, const Pieces *p, int32_t n)
{
    return tile_text(x->t, "%d +: %d", n * p->width, p->width);
}

/* ---- memories */

static AuTileHandle pair_rows(Lanes *x, Kind kind, const char *memory)
{
    const Own own = own_of(kind);
    return warps_own_rows(x, TILE_NAME(memory), tile_rows(x, kind),
                          tile_text(x->t, "%s, %s", own.rows, own.passing));
}

static AuTileHandle piece_rows(Lanes *x, Kind kind, const char *memory, const Pieces *p)
{
    return warps_own_rows(x, TILE_NAME(memory), p->width,
                          tile_text(x->t, "%s, %s", own_of(kind).rows, p->axis));
}

static void memories(Lanes *x, Kind kind)
{
    enum { F32_BYTES = 4 };
    AuTileBuild *t = x->t;
    const Own own = own_of(kind);
    const int32_t tile = tile_rows(x, kind);
    warps_tile(x, TILE_NAME(own.tile), own.passing, tile, "d", warps_padded(x->atom, x->p->d), 1);
    warps_tile(x, TILE_NAME(own.second), own.passing, tile, "e", warps_padded(x->atom, x->p->e), 1);
    warps_tile(x, TILE_NAME("P"), own.rows, x->block, own.passing, tile, 1);
    tile_shared(t, TILE_NAME("scores"), "f32[%s:%d, %s:%d]%s", own.rows, x->block, own.passing,
                tile, warps_swizzle(x, F32_BYTES * tile));
    for (uint32_t n = 0; n < back_row_count(x, true) && kind == KEYS; n++)
        tile_shared(t, tile_numbered(t, "row", n), "f32[q:%d]", tile);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
}

/* ---- the subgroup's rows: operand A of S and of dP, piece after piece by way of P */

static void declare_rows(Lanes *x, Kind kind, bool values)
{
    const Pieces p = pieces(x, kind, values);
    for (int32_t n = 0; n < p.count; n++)
        tile_frag(x->t, tile_numbered(x->t, p.held, (uint32_t)n), "%s[%s:%d, %s:%d] @ %s.A",
                  x->operand, own_of(kind).rows, x->rows, p.axis, p.width, x->atom->name);
}

static LanesRows rows_view(Lanes *x, Kind kind, bool values, const char *columns)
{
    if (kind == KEYS) return lanes_operand_rows(x, values ? 2 : 1, columns);
    return values ? lanes_rows(x, back_output_gradient(x), "h", columns)
                  : lanes_operand_rows(x, 0, columns);
}

static void load_rows(Lanes *x, Kind kind, bool values, const char *rows)
{
    const Pieces p = pieces(x, kind, values);
    for (int32_t n = 0; n < p.count; n++) {
        const AuTileHandle through = piece_rows(x, kind, "P", &p);
        tile_copy(x->t, "%v -> %v pad 0",
                  lanes_at(x, rows_view(x, kind, values, channels(x, &p, n)), rows), through);
        tile_load(x->t, tile_numbered(x->t, p.held, (uint32_t)n), "%v", through);
    }
}

/* ---- pairs */

static void declare_pairs(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const Own own = own_of(kind);
    const char *extent =
        tile_text(t, "[%s:%d, %s:%d]", own.rows, x->rows, own.passing, tile_rows(x, kind));
    tile_frag(t, "raw", "f32%s @ %s.C", extent, x->atom->name);
    tile_frag(t, "score", "f32%s @ rows_over_lanes", extent);
    tile_frag(t, "dp", "f32%s @ rows_over_lanes", extent);
    if (kind != ROW_PASS) tile_frag(t, "left", "%s%s @ %s.A", x->operand, extent, x->atom->name);
}

/* S or dP, with the subgroup's rows as rows. */
static void product(Lanes *x, Kind kind, bool values)
{
    AuTileBuild *t = x->t;
    const Pieces p = pieces(x, kind, values);
    const Own own = own_of(kind);
    const AuTileHandle scores = pair_rows(x, kind, "scores");
    for (int32_t n = 0; n < p.count; n++)
        tile_product(t, "raw", x->atom, n ? TILE_ADD : TILE_START,
                     tile_numbered(t, p.held, (uint32_t)n),
                     tile_text(t, "%s[:, %s]", values ? own.second : own.tile, channels(x, &p, n)));
    tile_store(t, "raw -> %v", scores);
    tile_load(t, values ? "dp" : "score", "%v", scores);
}

/* ---- sums of products with pairs, in pieces */

static void declare_sums(Lanes *x, Kind kind, const char *name, bool values)
{
    const Pieces p = pieces(x, kind, values);
    for (int32_t n = 0; n < p.count; n++)
        tile_frag(x->t, tile_numbered(x->t, name, (uint32_t)n), "f32[%s:%d, %s:%d] @ %s.C = 0.0",
                  own_of(kind).rows, x->rows, p.axis, p.width, x->atom->name);
}

/* sums += pairs tile, of pairs that lanes hold as [pairs]. */
static void add(Lanes *x, Kind kind, const char *sums, const char *operand, bool values)
{
    AuTileBuild *t = x->t;
    const Pieces p = pieces(x, kind, values);
    const Own own = own_of(kind);
    const AuTileHandle through = pair_rows(x, kind, "P");
    tile_store(t, "%s -> %v", operand, through);
    tile_load(t, "left", "%v", through);
    for (int32_t n = 0; n < p.count; n++)
        tile_product(t, tile_numbered(t, sums, (uint32_t)n), x->atom, TILE_ADD, "left",
                     tile_text(t, "%s[:, %s]", values ? own.second : own.tile, channels(x, &p, n)));
}

/* A piece of sums, as lanes hold rows: [as]. */
static void take_piece(Lanes *x, Kind kind, const char *sums, const char *as, const Pieces *p,
                       int32_t n)
{
    const AuTileHandle through = piece_rows(x, kind, "scores", p);
    tile_store(x->t, "%v -> %v", tile_numbered(x->t, sums, (uint32_t)n), through);
    tile_load(x->t, as, "%v @ rows_over_lanes", through);
}

/* ---- blocks of keys */

static void key_step(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_sync(t, "all"); /* nobody reads the tile before any more */
    warps_issue_queries(x, "m", "");
    tile_sync(t, "all");
    product(x, KEYS, false);
    product(x, KEYS, true);
    tile_set(t, "i", "m * %d + iota(q:%d)", x->shape->query_tile, x->shape->query_tile);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_load(t, back_row_variable(x, n), "row%u[:] like score", n);
    warps_pair_gradients(x, NULL);
    add(x, KEYS, "dv_sums", "weight", true);
    add(x, KEYS, "dk_sums", "ds_operand", false);
    warps_add_values(x);
}

static void store_key_gradients(Lanes *x)
{
    const AuTileHandle direct = {NULL};
    for (int values = 0; values <= 1; values++) {
        const Pieces p = pieces(x, KEYS, values);
        for (int32_t n = 0; n < p.count; n++) {
            take_piece(x, KEYS, values ? "dv_sums" : "dk_sums", values ? "dv_acc" : "dk_acc", &p,
                       n);
            if (values) warps_end_weights(x);
            warps_store_gradient(x, values ? 2 : 1, channels(x, &p, n), direct);
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
    declare_pairs(x, KEYS);
    for (int values = 0; values <= 1; values++) {
        declare_rows(x, KEYS, values);
        declare_sums(x, KEYS, values ? "dv_sums" : "dk_sums", values);
    }
    warps_declare_totals(x);
    tile_set(t, "j", "nb * %d + %s + iota(kv:%d)", x->block, warps_own_keys(x), x->rows);
    for (int values = 0; values <= 1; values++) load_rows(x, KEYS, values, rows);
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
    add(x, kind, "dq_sums", "ds_operand", false);
}

static void query_step(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    tile_sync(t, "all");
    issue_keys(x);
    tile_sync(t, "all");
    product(x, kind, false);
    product(x, kind, true);
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    query_results(x, kind);
}

static void store_query_gradients(Lanes *x)
{
    const Pieces p = pieces(x, QUERIES, false);
    for (int32_t n = 0; n < p.count; n++) {
        take_piece(x, QUERIES, "dq_sums", "dq_acc", &p, n);
        if (back_has_rows(x, 0))
            tile_store(x->t, "dq_acc -> dq_sum[%s, %s] clip", lanes_query_place(x),
                       channels(x, &p, n));
        else
            tile_store(x->t, "%s(dq_acc) -> dq[%s, %s] clip", x->operand, lanes_query_place(x),
                       channels(x, &p, n));
    }
}

static void query_kernel(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_row_span(
        x, LANES_QUERIES, tile_text(t, "%s +: %d", lanes_first_row(x), x->rows), NULL, NULL);
    warps_queries_head(x, kind == ROW_PASS);
    memories(x, kind);
    declare_pairs(x, kind);
    for (int values = 0; values <= 1; values++) declare_rows(x, kind, values);
    if (kind == QUERIES) declare_sums(x, kind, "dq_sums", false);
    if (kind == ROW_PASS) warps_declare_passes(x);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    for (int values = 0; values <= 1; values++) load_rows(x, kind, values, rows);
    for (uint32_t n = 0; n < back_row_count(x, kind != ROW_PASS); n++)
        tile_load(t, back_row_variable(x, n), "%s[%s] like score pad 0", back_row_name(x, n),
                  lanes_query_place(x));
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

static const AuTileAtom *atom_of(const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    return atom && atom->opaque ? atom : NULL;
}

/* Tiles that pass, and rows of pairs, in both types; beginnings of memories. */
static int32_t shared_bytes(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    enum { F32_BYTES = 4, MEMORIES = 16, BEGINNING = 64, STATISTICS = 8 };
    const int32_t tile = s->query_tile, f32 = F32_BYTES * tile,
                  passing = warps_row_bytes(p, 0, warps_padded(atom, p->d)) +
                            warps_row_bytes(p, 0, warps_padded(atom, p->e)) +
                            F32_BYTES * STATISTICS,
                  pairs = warps_row_bytes(p, 0, tile) +
                          tile_pitch_bytes(f32, tile_swizzle_span(f32, 0));
    return tile * passing + s->rows * s->executors * pairs + MEMORIES * BEGINNING;
}

static const char *refusal_of_problem(AuArena *arena, const AuProblem *p, const AuTileAtom *atom)
{
    const int32_t unit = unit_of(atom);
    if (back_layout_refusal(p)) return back_layout_refusal(p);
    if (p->attn->v_in_k) return "values that are channels of the keys";
    if (p->hooks->dot_count) return "further products";
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    if (p->deterministic && (p->grads->pairs.count || warps_heads_apart(p)))
        return "sums in one order";
    return NULL;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    enum { LANE_BYTES = 4 };
    const AuTileAtom *atom = atom_of(p);
    if (!atom) return "no matrices of a subgroup for these operands";
    const char *why = refusal_of_problem(arena, p, atom);
    if (why) return why;
    const int32_t tile = s->query_tile, most = p->caps->registers / SCORES_SHARE;
    if (s->rows != atom->m || tile % unit_of(atom) || tile % s->executors ||
        s->executors * p->caps->lanes > p->caps->threads)
        return au_format(arena, "%d rows or tiles of %d for %d subgroups do not divide into %s",
                         s->rows, tile, s->executors, atom->name);
    if (s->rows * tile > most * p->caps->lanes)
        return au_format(arena, "%d scores a lane of %d", s->rows * tile / p->caps->lanes, most);
    /* Operands of two bytes, sums of four. */
    const int32_t held =
        s->rows * (p->d + p->e) * 3 / 2 * LANE_BYTES / (LANE_BYTES * p->caps->lanes);
    if (held > p->caps->registers)
        return au_format(arena, "%d registers of sums and operands of %d", held,
                         p->caps->registers);
    const int32_t bytes = shared_bytes(p, atom, s);
    return bytes <= p->caps->shared_bytes
               ? NULL
               : au_format(arena, "%d bytes of shared memory of %d", bytes, p->caps->shared_bytes);
}

/* As many pairs a block as shared memory holds; of as many pairs those with more rows, for which tiles come less often. */
bool schedule_matrices_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                      const char **why)
{
    static const int32_t subgroups[] = {8, 4, 2, 1}, tiles[] = {64, 32, 16, 8};
    const AuTileAtom *atom = atom_of(p);
    int32_t best = 0;
    if (!atom) return false;
    for (uint32_t n = 0; n < 4 * 4; n++) {
        AuShape s = {.executors = subgroups[n / 4], .rows = atom->m, .query_tile = tiles[n % 4]};
        const char *refused = schedule_matrices_backward_fit(arena, p, &s);
        const int32_t pairs = s.executors * s.rows * s.query_tile;
        if (refused && !best) *why = refused;
        if (refused || pairs <= best) continue;
        best = pairs, *out = s, *why = NULL;
    }
    return best > 0;
}

const char *schedule_matrices_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    s->stages = 1, s->column_parts = 1, s->query_parts = 1, s->split_segments = true;
    s->key_tile = s->query_tile; /* of the other kernel */
    return refusal(arena, p, s);
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
    warps_rows_over_lanes(&x);
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
