/* warps_parts.c - what the kernels of the schedule `warps` have in common: tiles in shared memory, copies into them. */
#include "interval.h"
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

enum { DIRECT_BYTES = 16 }; /* of a lane, as swizzles place them */

/* Products narrower than the machine's first keep more operands apart: at width 144 LLVM spilled a kilobyte of a lane (MFMA of 16 columns). */
static const AuTileAtom *atom_of(const AuProblem *p)
{
    enum { WIDEST = 128 };
    if (p->form == AU_FEW_NARROW) return tile_narrow_atom(p->caps, p->operand, TILE_ON_WARP);
    if (p->tf32) return tile_rounding_atom(p->caps, TILE_ON_WARP);
    if (p->d > WIDEST || p->e > WIDEST) return tile_best_atom(p->caps, p->operand, TILE_ON_WARP);
    return tile_atom_of_widths(p->caps, p->operand, TILE_ON_WARP, p->d, p->e);
}

const AuTileAtom *warps_atom(const AuProblem *p)
{
    const AuTileAtom *atom = atom_of(p);
    return atom && atom->m > 1 ? atom : NULL;
}

/* Weights that are no parts of a sum (sigmoid, `online identity`) may all be small: divided by the number of keys, say. Of softmax's one is near 1. */
bool warps_weights_get_lost(const AuProblem *p)
{
    enum { MOST = 4 }; /* times the factor, 2^15 */
    const AuAttn *a = p->attn;
    if (!p->caps->halves_lose_denormals || p->operand != TILE_F16 || a->weight_mod.i) return false;
    const bool is_score = attn_at(a, a->online->weight)->op == AU_OP_SCORE;
    const AuExpr weight = is_score ? a->score_mod : a->online->weight;
    if (!weight.i) return false;
    const AuInterval of = attn_interval(a, weight, a->arena);
    return of.low >= -MOST && of.high <= MOST;
}

bool warps_sums_lie_apart(const AuProblem *p)
{
    enum { EXTENT = 32 };                       /* enough to compare layouts by */
    if (p->form == AU_FEW_NARROW) return false; /* warps_as_rows */
    const AuTileAtom *atom = warps_atom(p);
    const AuTilePlaces *columns = tile_atom_places(p->attn->arena, atom, TILE_C, 1, EXTENT);
    return !columns || !tile_contraction_matches(atom, columns, NULL, EXTENT);
}

bool warps_exchanges(const AuProblem *p)
{
    return warps_sums_lie_apart(p) && warps_atom(p)->exchanges;
}

bool warps_via_shared(const AuProblem *p, const AuShape *s)
{
    return warps_sums_lie_apart(p) && (s->via_shared || !warps_exchanges(p));
}

const char *warps_as_rows(Lanes *x, const char *name)
{
    if (x->via_shared || !(x->p->form == AU_FEW_NARROW || warps_exchanges(x->p))) return name;
    const char *rows = tile_text(x->t, "%s_rows", name);
    tile_convert(x->t, rows, name, tile_text(x->t, "@ %s.A", x->atom->name));
    return rows;
}

/* To the depth of a product and, where two warps may share accumulators, to two instructions; of tall ones one is wide enough. */
int32_t warps_padded(const AuTileAtom *atom, int32_t width)
{
    const int32_t columns = atom->n < 32 ? 2 * atom->n : atom->n,
                  unit = atom->k > columns ? atom->k : columns;
    return (width + unit - 1) / unit * unit;
}

const char *warps_columns(Lanes *x, int32_t width)
{
    const int32_t padded = warps_padded(x->atom, width);
    return padded == width ? ":" : tile_text(x->t, "0 +: %d", padded);
}

/* The swizzle under which eight rows of a tile fall on different banks: the largest power of two in
 * the length of a row; its span, where the kernel's is another than the schedule's. */
const char *warps_swizzle(Lanes *x, int32_t bytes)
{
    const int32_t power = bytes & -bytes, span = x->shape->swizzle_span;
    const char *own = "";
    if (power < 32) return "";
    if (span && span != x->out->shape.swizzle_span)
        own = tile_text(x->t, " span %d", tile_swizzle_span(bytes, span));
    return tile_text(x->t, " swizzle %d%s", power > 128 ? 128 : power, own);
}

void warps_tile(Lanes *x, AuTileHandle name, const char *rows, int32_t count, const char *columns,
                int32_t width, int32_t stages)
{
    const char *stage = stages > 1 ? tile_text(x->t, "stage:%d, ", stages) : "";
    tile_shared(x->t, name, "%s[%s%s:%d, %s:%d]%s", x->operand, stage, rows, count, columns, width,
                warps_swizzle(x, width * tile_elem(x->p->operand)->bytes));
}

int32_t warps_row_bytes(const AuProblem *p, int32_t span, int32_t columns)
{
    const int32_t row = columns * tile_elem(p->operand)->bytes;
    return tile_pitch_bytes(row, tile_swizzle_span(row, span));
}

bool warps_copy_ahead(const AuProblem *p) { return (p->caps->copies & TILE_COPIES_LANES) != 0; }

bool warps_copy_direct(const AuProblem *p)
{
    return warps_passes(p) && !warps_turns(p) && (p->caps->copies & TILE_COPIES_DIRECT) &&
           p->caps->direct_bytes >= DIRECT_BYTES;
}

bool warps_are_async(const Lanes *x) { return warps_copy_ahead(x->p) || x->shape->direct; }

void warps_issue(Lanes *x, AuTileHandle token, AuTileHandle from, AuTileHandle to)
{
    if (warps_are_async(x))
        tile_async_copy(x->t, token, "%v -> %v pad 0", from, to);
    else
        tile_copy(x->t, "%v -> %v pad 0", from, to);
}

WarpsShare warps_share(Lanes *x, const char *n, int32_t rows, const char *stage, const char *limits)
{
    const int32_t share = rows / x->shape->executors;
    return (WarpsShare){
        .rows = tile_text(x->t, "%s * %d + self * %d +: %d%s", n, rows, share, share, limits),
        .to = tile_text(x->t, "%sself * %d +: %d", stage, share, share)};
}

void warps_issue_tile(Lanes *x, AuTileHandle token, LanesRows view, const char *n, AuTileHandle to,
                      const char *stage, bool by_weight)
{
    const WarpsShare share = warps_share(x, n, x->shape->key_tile, stage, "");
    const char *span =
        lanes_view_span(x, LANES_KEYS, view, share.rows, by_weight ? LANES_TO_RANGE : LANES_TO_END);
    warps_issue(x, token, lanes_at(x, view, span), tile_part(x->t, "%v[%s, :]", to, share.to));
}

int32_t warps_row_groups(const AuShape *s)
{
    return s->keys_apart ? 1 : s->executors / schedule_row_sharers(s);
}

Lanes warps_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    const AuShape *shape = &out->shape;
    return (Lanes){.t = t,
                   .p = p,
                   .shape = shape,
                   .out = out,
                   .arena = arena,
                   .own_v = !p->attn->v_in_k,
                   .query_in_memory = true,
                   .makes_elements = warps_makes_elements(p),
                   .longest_first = p->attn->mask.i != 0,
                   .rows = shape->rows,
                   .block = shape->rows * warps_row_groups(shape),
                   .operand = tile_elem(p->operand)->name,
                   .held = tile_elem(p->operand)->name,
                   .atom = warps_atom(p),
                   .via_shared = warps_via_shared(p, shape)};
}

const char *warps_stage(const Lanes *x, bool filled)
{
    return x->shape->stages == 1 ? "" : filled ? "1 - at, " : "at, ";
}

void warps_wait(Lanes *x, const char *tokens)
{
    if (warps_are_async(x)) tile_wait(x->t, tokens);
}

enum { VECTOR = 16 }; /* bytes of a lane */

int32_t warps_lanes_across(const AuProblem *p, int32_t width)
{
    const int32_t vectors = width / (VECTOR / tile_elem(p->operand)->bytes),
                  power = vectors & -vectors;
    return power < p->caps->lanes ? power : p->caps->lanes;
}

/* 16 bytes a lane, side by side; what lanes a row leaves over take other rows. */
static void across(Lanes *x, const char *name, int32_t width, bool rows_first)
{
    const int32_t vector = VECTOR / tile_elem(x->p->operand)->bytes, warp = x->p->caps->lanes,
                  lanes = warps_lanes_across(x->p, width);
    const char *columns =
                   lanes > 1 ? tile_text(x->t, "reg:%d lane:%d@1 reg", vector, lanes) : "reg",
               *rows =
                   lanes < warp ? tile_text(x->t, "lane:%d@%d reg", warp / lanes, lanes) : "reg";
    tile_layout(x->t, name, rows_first ? rows : columns, rows_first ? columns : rows);
}

void warps_across(Lanes *x, const char *name, int32_t width) { across(x, name, width, false); }

void warps_layouts(Lanes *x)
{
    tile_layout(x->t, "along_lanes", tile_text(x->t, "lane:%d@1", x->p->caps->lanes), NULL);
    warps_across(x, "across_d", x->p->d);
    warps_across(x, "across_e", x->p->e);
    const int32_t d = warps_padded(x->atom, x->p->d);
    if (lanes_has_codes(x, 1)) across(x, "wide_d", schedule_scale_width(x->p, 1, d), true);
    if (x->own_v && lanes_has_codes(x, 2))
        across(x, "wide_e", schedule_scale_width(x->p, 2, x->p->e), true);
    x->rows_across = x->p->caps->exchange & TILE_EXCHANGE_ANY;
}
