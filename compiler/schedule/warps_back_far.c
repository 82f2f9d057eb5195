/* warps_back_far.c - backward on the matrix units of warps whose operands come straight from tensors, by the lanes' own loads
 * (docs/dev/blocks.md, 7): no tiles, no memory of the block, no barriers.
 *
 *     keys of a warp     S' = K Q'   dP' = V dO'   dV += P' dO   dK += dS' Q      queries pass
 *     queries of a warp  S = Q K'    dP = dO V'    dQ += dS K                     keys pass
 *
 * dS would have to cross from warp to warp, or be turned, for a kernel of keys to make dQ, and both want memory of the block. So dQ has a kernel of its own,
 * in which its sums stay in registers: seven products of a pair where warps_backward.c makes five, but nothing is added in memory, and
 * gradients are summed in one order.
 *
 * Kernels: those of warps_backward.c. */
#include "key_layout.h"
#include "lanes_back.h"

typedef enum Kind { KEYS, QUERIES, ROW_PASS } Kind;

/* ---- operands */

static LanesSide own_side(Kind kind) { return kind == KEYS ? LANES_KEYS : LANES_QUERIES; }

/* Rows of q or dO, k or v. */
static LanesRows view_of(Lanes *x, LanesSide side, bool values)
{
    const char *columns = warps_columns(x, values ? x->p->e : x->p->d);
    if (side == LANES_KEYS) return lanes_operand_rows(x, values ? 2 : 1, columns);
    return values ? lanes_rows(x, back_output_gradient(x), "h", columns)
                  : lanes_operand_rows(x, 0, columns);
}

/* The tile that passes. [summed]: over its rows, so that those which no row of the block sees must be zeros. */
static const char *passing(Lanes *x, Kind kind, bool values, bool summed)
{
    const LanesSide side = kind == KEYS ? LANES_QUERIES : LANES_KEYS;
    const int32_t tile = kind == KEYS ? x->shape->query_tile : x->shape->key_tile;
    const LanesRows view = view_of(x, side, values);
    const char *rows = tile_text(x->t, "%s * %d +: %d", kind == KEYS ? "m" : "n", tile, tile);
    return lanes_at(x, view,
                    lanes_view_span(x, side, view, rows, summed ? LANES_TO_RANGE : LANES_TO_END))
        .text;
}

/* The warp's rows: what the mask's range leaves out of them gives numbers to gradients that nobody looks at. */
static AuTileHandle own_rows(Lanes *x, Kind kind, bool values)
{
    const LanesSide side = own_side(kind);
    const LanesRows view = view_of(x, side, values);
    const char *first = kind == KEYS ? tile_text(x->t, "nb * %d + %s", x->block, warps_own_keys(x))
                                     : lanes_first_row(x);
    return lanes_at(x, view,
                    lanes_view_span(x, side, view, tile_text(x->t, "%s +: %d", first, x->rows),
                                    LANES_TO_SEQUENCE));
}

static const char *own_operand(Lanes *x, Kind kind, bool values)
{
    if (!x->shape->keys_in_registers) return own_rows(x, kind, values).text;
    return values ? "own_e" : "own_d";
}

static void hold_rows(Lanes *x, Kind kind)
{
    for (int values = 0; values <= 1 && x->shape->keys_in_registers; values++)
        tile_load(x->t, own_operand(x, kind, values), "%v @ %s.A pad 0", own_rows(x, kind, values),
                  x->atom->name);
}

/* Scores and dP of the tile that passes. */
static void multiply(Lanes *x, Kind kind)
{
    for (int values = 0; values <= 1; values++)
        tile_product(x->t, values ? "dp" : "score", x->atom, TILE_START,
                     own_operand(x, kind, values), passing(x, kind, values, false));
}

/* ---- blocks of keys */

static void key_step(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile;
    multiply(x, KEYS);
    tile_set(t, "i", "m * %d + iota(q:%d)", m, m);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        tile_load(t, back_row_variable(x, n), "%s[%s] like score pad 0", back_row_name(x, n),
                  lanes_place(x, LANES_QUERIES, "h", tile_text(t, "m * %d +: %d", m, m)));
    warps_pair_gradients(x, NULL);
    tile_product(t, "dv_acc", x->atom, TILE_ADD, "weight", passing(x, KEYS, true, true));
    tile_product(t, "dk_acc", x->atom, TILE_ADD, "ds_operand", passing(x, KEYS, false, true));
    warps_add_values(x);
}

static void store_gradient(Lanes *x, uint32_t n, int32_t width)
{
    const AuTileHandle direct = {NULL};
    warps_store_gradient(x, n, tile_text(x->t, "0 +: %d", width), direct);
}

static void begin(Lanes *x) { tile_role(x->t, "core", x->shape->executors, TILE_ON_WARP, 0); }

static void key_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t d = warps_keys_width(x), e = warps_values_width(x);
    warps_back_head(x);
    begin(x);
    warps_back_fragments(x, (WarpsBackTiles){.queries = x->shape->query_tile, .d = d, .e = e});
    hold_rows(x, KEYS);
    warps_open_heads(x);
    tile_for_tiles(t, "m", "queries", NULL);
    key_step(x);
    tile_end(t);
    warps_add_totals(x);
    warps_end_heads(x);
    warps_end_weights(x);
    store_gradient(x, 1, d);
    store_gradient(x, 2, e);
    tile_end(t);
    tile_end(t);
}

/* ---- blocks of queries: dQ, or sums over a row's keys that adjoints need */

static void query_step(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    multiply(x, kind);
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    if (kind == ROW_PASS) {
        warps_add_passes(x);
        return;
    }
    warps_query_pairs(x);
    tile_product(t, "dq_acc", x->atom, TILE_ADD, "ds_operand", passing(x, kind, false, true));
}

static void store_rows(Lanes *x, Kind kind)
{
    const char *place = tile_text(x->t, "%s, 0 +: %d", lanes_query_place(x), warps_keys_width(x));
    if (kind == ROW_PASS)
        warps_store_passes(x);
    else if (back_has_rows(x, 0))
        tile_store(x->t, "dq_acc -> dq_sum[%s] clip", place);
    else
        tile_store(x->t, "%s(dq_acc) -> dq[%s] clip", x->operand, place);
}

static void query_kernel(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    warps_queries_head(x, kind == ROW_PASS);
    begin(x);
    warps_query_fragments(x, kind == ROW_PASS);
    hold_rows(x, kind);
    back_load_statistics(x, kind != ROW_PASS);
    tile_for_tiles(t, "n", "keys", NULL);
    query_step(x, kind);
    tile_end(t);
    store_rows(x, kind);
    tile_end(t);
    tile_end(t);
}

/* ---- shapes */

static const char *refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const char *why = warps_refusal_of_problem(arena, p);
    if (!(p->caps->loads & TILE_LOADS_OWN))
        return au_format(arena, "operands straight from tensors, which %s has no loads for",
                         p->caps->name);
    if (!why) why = back_layout_refusal(p);
    if (why) return why;
    if (warps_sums_lie_apart(p) || warps_atom(p)->by_place)
        return "operands that do not lie as sums do";
    if (p->attn->v_in_k) return "values that are channels of the keys";
    if (p->hooks->dot_count) return "further products";
    if (p->queries) return "a few queries";
    return warps_refusal_of_order(p);
}

/* Words of a lane that its fragments take: sums; operands that stay; of pairs scores, dP and what becomes of both while the next is made. The source of kernels
 * of 8 and 16 rows, widths 64 and 128, has 35 to 42 words more than this says (docs/dev/registers-metal.md). */
static int32_t words_of(const AuProblem *p, const AuShape *s, Kind kind)
{
    enum { WORD = 4, PAIR = 6 };
    const int32_t sums = kind == KEYS ? p->d + p->e : p->d,
                  held = s->keys_in_registers ? p->d + p->e : 0,
                  tile = kind == KEYS ? s->query_tile : s->key_tile;
    return s->rows * (sums + held * tile_elem(p->operand)->bytes / WORD + tile * PAIR) /
           p->caps->lanes;
}

/* Elements that lanes read of memory for a pair. */
static double reads_of(const AuProblem *p, const AuShape *s, Kind kind)
{
    const int32_t tile = kind == KEYS ? s->query_tile : s->key_tile,
                  passing = kind == KEYS ? 2 * (p->d + p->e) : 2 * p->d + p->e,
                  own = s->keys_in_registers ? 0 : p->d + p->e;
    return (double)passing / s->rows + (double)own / tile;
}

static const char *refusal_of_kernel(AuArena *arena, const AuProblem *p, const AuShape *s,
                                     Kind kind)
{
    enum { FRAGMENT_SHARE = 44 }; /* 64ths of a lane's registers */
    const AuTileAtom *atom = warps_atom(p);
    const int32_t unit = atom->k > atom->n ? atom->k : atom->n,
                  tile = kind == KEYS ? s->query_tile : s->key_tile,
                  room = tile_share(p->caps, FRAGMENT_SHARE), words = words_of(p, s, kind);
    if (s->rows % atom->m || tile % unit)
        return au_format(arena, "%d rows or a tile of %d do not divide into %s", s->rows, tile,
                         atom->name);
    if (words <= room) return NULL;
    return au_format(arena, "fragments take %d registers of a lane, %d are for them", words, room);
}

/* The shape of a kernel that reads least, and of those the one with the largest tiles. */
static const char *shape_of_kernel(AuArena *arena, const AuProblem *p, Kind kind, AuShape *out)
{
    static const int32_t tiles[] = {64, 32, 16, 8};
    const AuTileAtom *atom = warps_atom(p);
    const char *why = NULL;
    double best = 0;
    for (int32_t n = 0; n < 4 * 2 * 2; n++) {
        const AuShape s = {.executors = p->caps->schedulers,
                           .rows = (2 - n % 2) * atom->m,
                           .query_tile = tiles[n / 4],
                           .key_tile = tiles[n / 4],
                           .stages = 1,
                           .column_parts = 1,
                           .query_parts = 1,
                           .keys_in_registers = n / 2 % 2 == 0};
        const char *refused = refusal_of_kernel(arena, p, &s, kind);
        const double reads = reads_of(p, &s, kind);
        if (refused || (best && reads >= best)) {
            if (!best) why = refused;
            continue;
        }
        best = reads, *out = s;
    }
    return best ? NULL : why;
}

static const char *refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    AuShape of_queries;
    const char *why = refusal_of_problem(arena, p);
    if (!why) why = refusal_of_kernel(arena, p, s, KEYS);
    return why ? why : shape_of_kernel(arena, p, QUERIES, &of_queries);
}

const char *schedule_warps_back_far_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    s->stages = s->column_parts = s->query_parts = 1;
    return refusal(arena, p, s);
}

bool schedule_warps_back_far_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                   const char **why)
{
    *why = refusal_of_problem(arena, p);
    if (!*why) *why = shape_of_kernel(arena, p, KEYS, out);
    if (!*why) *why = refusal(arena, p, out);
    return !*why;
}

AuSchedule *schedule_warps_back_far(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "warps_back_far", shape, refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.values_joined = true;
    x.heads_apart = warps_heads_apart(p);
    warps_layouts(&x);
    tile_set_option(x.t, "late_strides", 1);
    tile_set_option(x.t, "row_steps", 1);
    AuShape of_queries;
    if (shape_of_kernel(arena, p, QUERIES, &of_queries))
        return NULL; /* not of what is not refused */
    Lanes y = warps_back_of_queries(&x, &of_queries);
    back_work_kernels(&x);
    back_before(&x);
    if (p->hooks->needs_lists) lanes_list_kernels(&y);
    if (p->grads->pass_count) query_kernel(&y, ROW_PASS);
    if (p->hooks->needs_lists) lanes_query_lists(&x, shape->query_tile, x.block);
    back_adjoints(&x);
    key_kernel(&x);
    query_kernel(&y, QUERIES);
    back_after(&x);
    x.too_many |= y.too_many;
    return lanes_built(&x, diags);
}
