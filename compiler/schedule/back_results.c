/* back_results.c - backward, kernels after the products: sums of parts joined, gradients of rows by their mods, rounded to the operand
 * type, and gradients of inputs from their sums. */
#include "back_rows.h"
#include "key_layout.h"

#include <string.h>

static RowSpace rows_of(const Lanes *x, uint32_t n)
{
    switch (n) {
    case 0: return (RowSpace){0, "q", "d", "i", x->p->d};
    case 1: return (RowSpace){1, "kv", "d", "j", x->p->d};
    default: return (RowSpace){2, "kv", "e", "j", x->p->e};
    }
}

/* ---- after: gradients of rows */

static const AuRowGrad *mod_of(const Lanes *x, uint32_t n)
{
    return n == 0 ? &x->p->grads->q : n == 1 ? &x->p->grads->k : &x->p->grads->v;
}

/* Values that are channels of the keys give their gradient to those. */
static bool takes_values(const Lanes *x, uint32_t n)
{
    return n == 1 && x->p->attn->v_in_k && !x->values_joined;
}

/* A gradient from its parts, in their order. Where there is one part of dK and dV, its block stored the gradient. */
static void join_parts(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const RowSpace r = rows_of(x, n);
    const char *parts = lanes_parts(x, n), *name = lanes_parts_name(n);
    /* Nothing asks for all channels of a row: they may lie along the lanes, as in memory. */
    const bool along = x->matrix && r.width % x->p->caps->lanes == 0;
    const char *row = tile_text(t, "%s:%d", r.axis, lanes_block_rows(x)),
               *channel = tile_text(t, "%s:%d", r.channel, r.width);
    const char *type = tile_text(t, "f32[%s, %s] @ %s", along ? row : channel,
                                 along ? channel : row, lanes_row_layout(x, r.channel));
    if (!lanes_in_parts(x, n)) return;
    tile_kernel(t, tile_text(t, "%s_joined", back_gradient_names[n]));
    lanes_arguments(x);
    tile_arg(t, name, TILE_IN, "%s", lanes_parts_type(x, n));
    back_argument(x, back_gradient(x, n), TILE_OUT);
    const char *times = n ? tile_text(t, "min(%s - 1, 1)", parts) : NULL;
    const uint32_t nested = back_open_rows_times(x, &r, times, BACK_SUMS_NOTHING);
    tile_frag(t, "sum", "%s = 0.0", type);
    tile_frag(t, "piece", "%s", type);
    tile_for_range(t, "part", "0", parts);
    const char *place = back_place(x, &r);
    tile_load(t, "piece", "%s[part, %s, 0 +: %d] pad 0", name, place, r.width);
    tile_set(t, "sum", "sum + piece");
    tile_end(t);
    if (back_has_rows(x, n))
        tile_store(t, "sum -> %s[%s, :] clip", back_sum_names[n], place);
    else
        tile_store(t, "%s(sum) -> %s[%s, :] clip", x->operand, back_gradient_names[n], place);
    back_end_kernel(x, nested);
    lanes_region(x, name);
}

/* Packed sums that nothing changes any more: a warp takes a row of pieces as they lie. */
static bool only_rounds(const Lanes *x, uint32_t n)
{
    return n == 0 && back_dq_is_packed(x) && !mod_of(x, n)->value.i && !back_has_dots(x, n);
}

/* Sums in pieces are loaded whole: of blocks that have rows. True: there is a block to be ended. */
static bool begin_sums(Lanes *x, uint32_t n, int32_t rows)
{
    if (n || !back_dq_is_packed(x) || !x->p->attn->queries.layout) return false;
    tile_if(x->t, "nb >= 0 && nb * %d < q_length", rows);
    return true;
}

static void round_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuTileAtom *atom = back_sum_atom(x);
    const int32_t rows = atom->m;
    const char *span = tile_text(t, "nb * %d +: %d", rows, rows);
    tile_kernel(t, "convert_dq");
    lanes_arguments(x);
    back_argument(x, "dq_sum", TILE_IN);
    back_argument(x, "dq", TILE_OUT);
    const BackAxis axes[3] = {
        {"nb", tile_text(t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), rows), AU_AX_Q},
        {"h", lanes_axis(x, 0, 1), AU_AX_H},
        {"b", lanes_axis(x, 0, 0), AU_AX_B}};
    back_row_grid(x, LANES_QUERIES, rows, axes, BACK_SUMS_NOTHING, NULL);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    const bool guarded = begin_sums(x, 0, rows);
    tile_frag(t, "sum", "f32[q:%d, d:%d] @ %s.C", rows, x->p->d, atom->name);
    tile_load(t, "sum", "dq_sum[%s, 0 +: %d]", back_sum_place(x, "h", span), x->p->d);
    tile_store(t, "%s(sum) -> dq[%s, :] clip", x->operand,
               lanes_place(x, LANES_QUERIES, "h", span));
    back_end_kernel(x, 2 + guarded);
    lanes_zeroed_region(x, "dq_sum");
}

static void gradient_of_rows(Lanes *x, uint32_t n)
{
    static const char *const tensors[3] = {"q", "k", "v"};
    AuTileBuild *t = x->t;
    const AuRowGrad *g = mod_of(x, n);
    const RowSpace r = rows_of(x, n);
    const char *sum = back_sum_names[n];
    if (n < 2 || !x->p->attn->v_in_k) join_parts(x, n);
    if (!back_has_rows(x, n) || (n == 2 && x->p->attn->v_in_k)) return;
    if (only_rounds(x, n)) {
        round_sums(x);
        return;
    }
    tile_kernel(t, tile_text(t, "convert_%s", back_gradient_names[n]));
    lanes_arguments(x);
    back_argument(x, sum, TILE_IN);
    if (takes_values(x, n)) back_argument(x, "dv_sum", TILE_IN);
    back_argument(x, back_gradient_names[n], TILE_OUT);
    back_sum_arguments(x, &g->inputs);
    if (back_has_dots(x, n)) back_sum_argument(x, n, TILE_IN);
    uint32_t blocks = back_open_rows(x, &r, BACK_SUMS_DQ + n);
    if (n == 0 && lanes_is_packed(x, LANES_QUERIES)) /* the hook may ask for it */
        tile_set(t, "dq_start", "%s", back_sum_start(x));
    blocks += begin_sums(x, n, lanes_block_rows(x));
    back_load_rows(x, &r, "given", "f32", sum);
    tile_set(t, "change", "given");
    if (g->value.i) {
        back_load_rows(x, &r, "raw", x->operand, tensors[n]);
        back_declare_row(x, &r, "given");
        tile_set(t, tile_text(t, "change%s", back_value_names(x, g->inputs.count)),
                 "%s_back(raw, given, row, b, h, i, j, c)", tensors[n]);
        if (n && x->p->attn->keys.layout == AU_LAYOUT_PADDED) /* whose rows may be anything */
            tile_set(t, "change", "where(j < kv_length, change, 0.0)");
    }
    if (back_has_dots(x, n)) {
        back_load_rows(x, &r, "further", "f32", back_sum(x, n));
        tile_set(t, "change", "change + further");
    }
    if (takes_values(x, n)) {
        const int32_t first = x->p->attn->v_first;
        tile_set(t, "change",
                 "change + where(c >= %d && c < %d, dv_sum[%s, clamp(c - %d, 0, %d)], 0.0)", first,
                 first + x->p->e, lanes_row_place(x, LANES_KEYS, "h", "j"), first, x->p->e - 1);
    }
    tile_store(t, "%s(change) -> %s[%s, :] clip", x->operand, back_gradient_names[n],
               back_place(x, &r));
    back_scatter_rows(x, &r, &g->inputs, "raw");
    back_end_kernel(x, blocks);
    const bool added = n == 0 ? x->with_dq && !lanes_in_parts(x, 0) : x->heads_apart;
    (added ? lanes_zeroed_region : lanes_region)(x, sum);
}

/* A piece of the sum of input [n], of all its parts. */
static void load_sum(Lanes *x, uint32_t n, const char *at, bool times)
{
    AuTileBuild *t = x->t;
    const int32_t parts = back_sum_parts(x, n);
    tile_load(t, "piece", "sum_%u[%s%s] as [n] pad 0", n, parts > 1 || times ? "0, " : "", at);
    if (parts == 1) return;
    tile_frag(t, "total", "f32[n:%d] @ along_lanes", x->p->caps->lanes);
    tile_for_range(t, "turn", "1", tile_text(t, "%d", parts));
    tile_load(t, "total", "sum_%u[turn, %s] as [n] pad 0", n, at);
    tile_set(t, "piece", "piece + total");
    tile_end(t);
}

/* The sum of a number, of all its parts, as an expression. */
static const char *whole_sum(Lanes *x, uint32_t n)
{
    const int32_t parts = back_sum_parts(x, n);
    AuText all = {.arena = x->arena};
    if (parts == 1) return tile_text(x->t, "sum_%u[0]", n);
    for (int32_t part = 0; part < parts; part++)
        au_text_add(&all, "%ssum_%u[%d, 0]", part ? " + " : "", n, part);
    return au_text_str(&all);
}

/* Where the tensor has row [row] of its last axis, once for all of it: "at_0, at_1, ". */
static const char *place_of_row(Lanes *x, uint32_t n)
{
    const AuTensor *tensor = &x->p->attn->tensors[n];
    AuText place = {.arena = x->arena};
    for (uint32_t a = 0; a + 1 < tensor->rank; a++) { /* row / (the extents after it) % its own */
        AuText at = {.arena = x->arena};
        au_text_add(&at, "row");
        for (uint32_t i = a + 1; i + 1 < tensor->rank; i++)
            au_text_add(&at, " / (%s)", lanes_axis(x, n, i));
        tile_set(x->t, tile_text(x->t, "at_%u", a), "%s %% (%s)", au_text_str(&at),
                 lanes_axis(x, n, a));
        au_text_add(&place, "at_%u, ", a);
    }
    return au_text_str(&place);
}

void back_sum_kernel(Lanes *x, uint32_t n, const char *name, const char *times)
{
    AuTileBuild *t = x->t;
    const AuTensor *tensor = &x->p->attn->tensors[n];
    const int32_t lanes = x->p->caps->lanes;
    const char *elem = lanes_elem(x, n);
    AuText rows = {.arena = x->arena};
    au_text_add(&rows, "%s", times);
    for (uint32_t a = 0; a + 1 < tensor->rank; a++)
        au_text_add(&rows, " * (%s)", lanes_axis(x, n, a));
    tile_kernel(t, tile_text(t, "sums_%u", n));
    lanes_arguments(x);
    back_sum_argument_of(x, n, TILE_IN, times);
    tile_arg(t, name, TILE_OUT, "%s", lanes_type(x, elem, n));
    tile_grid(t, "row: %s", au_text_str(&rows));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    if (tensor->rank == 0)
        tile_store(t, "%s(%s) -> %s", elem, whole_sum(x, n), name);
    else {
        const char *prefix = place_of_row(x, n);
        tile_for_range(t, "part", "0",
                       tile_text(t, "cdiv(%s, %d)", lanes_axis(x, n, tensor->rank - 1), lanes));
        tile_frag(t, "piece", "f32[n:%d] @ along_lanes", lanes);
        load_sum(x, n, tile_text(t, "%spart * %d +: %d", prefix, lanes, lanes),
                 strcmp(times, "1") != 0);
        tile_store(t, "%s(piece) -> %s[%spart * %d +: %d] as [n] clip", elem, name, prefix, lanes,
                   lanes);
        tile_end(t);
    }
    back_end_kernel(x, 2);
}

static void gradient_of_input(Lanes *x, uint32_t n)
{
    if (n < 3 && !back_has_dots(x, n)) return;
    lanes_zeroed_region(x, back_sum(x, n));
    if (n >= 3) back_sum_kernel(x, n, tile_text(x->t, "grad_%u", n), "1");
}

/* Of packed rows those of no sequence, behind the last one. */
static void rest_of_packed(Lanes *x, uint32_t n, const char *blocks)
{
    tile_grid(x->t, "nb: %s, h: %s", blocks, lanes_axis(x, n, 1));
    tile_let(x->t, "b", "%s - 1", lanes_axis(x, n, 0));
    lanes_let_key_length(x);
}

/* Rows of no sequence, whose gradient is 0: of padded queries those behind each. Padded keys are in blocks of keys, which have 0 there. */
static void rest_of_rows(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const RowSpace r = rows_of(x, n);
    const LanesSide side = back_side(&r);
    const int32_t rows = lanes_block_rows(x);
    const bool padded = n == 0 && lanes_queries_are_padded(x);
    const char *all = lanes_axis(x, n, 2), *name = back_gradient_names[n],
               *blocks = tile_text(t, "cdiv(%s, %d)", all, rows);
    if (!(lanes_is_packed(x, side) || padded) || (n == 2 && x->p->attn->v_in_k)) return;
    tile_kernel(t, tile_text(t, "rest_%s", name));
    lanes_arguments(x);
    back_argument(x, name, TILE_OUT);
    if (padded) {
        tile_grid(t, "nb: %s, h: %s, b: %s", blocks, lanes_axis(x, n, 1), lanes_axis(x, n, 0));
        lanes_let_key_length(x);
    } else
        rest_of_packed(x, n, blocks);
    const char *end = side == LANES_KEYS ? "kv_end" : padded ? "q_length" : "q_end";
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_if(t, "nb * %d + %d > %s", rows, rows, end);
    tile_frag(t, "nothing", "f32[%s:%d, %s:%d] @ %s = 0.0", r.channel, r.width, r.axis, rows,
              lanes_row_layout(x, r.channel));
    tile_store(t, "%s(nothing) -> %s[%s, h, nb * %d +: %d from %s to %s, :] clip", x->operand, name,
               lanes_row_b(x, side), rows, rows, end, all);
    back_end_kernel(x, 3);
}

/* Of keys where there are kernels of their rows, or blocks of them beside each other. */
void back_work_kernels(Lanes *x)
{
    const bool of_rows = lanes_changed_type(x, 1) || lanes_changed_type(x, 2) ||
                         back_has_rows(x, 1) || back_has_rows(x, 2) || lanes_in_parts(x, 1);
    const bool by_parts = x->with_dq && x->on_cpu;
    if (lanes_is_packed(x, LANES_QUERIES)) lanes_work_kernel(x, LANES_QUERIES);
    if (lanes_is_packed(x, LANES_KEYS) && (of_rows || !by_parts)) lanes_work_kernel(x, LANES_KEYS);
}

/* Axes of the grid of a list are no loops, which sums of inputs in one order ask for. */
const char *back_layout_refusal(const AuProblem *p)
{
    const AuAttn *a = p->attn;
    bool inputs = false;
    for (uint32_t n = 3; n < a->tensor_count; n++) inputs |= a->tensors[n].grad;
    if (!attn_has_layout(a)) return NULL;
    if (a->keys.layout == AU_LAYOUT_PAGED) return "gradients of keys in pages";
    return p->deterministic && inputs ? "gradients of inputs in one order, of rows in a layout "
                                        "(without --deterministic they are summed in any)"
                                      : NULL;
}

void back_after(Lanes *x)
{
    if (x->p->attn->v_in_k) join_parts(x, 2); /* before keys take it */
    for (uint32_t n = 0; n < 3; n++) gradient_of_rows(x, n);
    for (uint32_t n = 0; n < 3; n++) rest_of_rows(x, n);
    if (x->p->attn->v_in_k && !x->values_joined) lanes_region(x, "dv_sum");
    for (uint32_t n = 0; n < x->p->attn->tensor_count; n++)
        if (back_wants(x, n)) gradient_of_input(x, n);
    for (uint32_t n = 0; n < x->p->grads->pass_count; n++)
        lanes_region(x, tile_text(x->t, "pass_%u", n));
}
