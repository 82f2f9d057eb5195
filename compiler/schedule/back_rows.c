/* back_rows.c - backward, kernels before and after the products: a lane holds a row, sums over its channels run in
 * registers. */
#include "lanes_back.h"

#include <string.h>

/* A kernel over rows of q (0), k (1), v (2). */
typedef struct RowSpace {
    uint32_t tensor;
    const char *axis, *channel, *index; /* "q", "d", "i" */
    int32_t width;
} RowSpace;

static RowSpace rows_of(const Lanes *x, uint32_t n)
{
    switch (n) {
    case 0: return (RowSpace){0, "q", "d", "i", x->p->d};
    case 1: return (RowSpace){1, "kv", "d", "j", x->p->d};
    default: return (RowSpace){2, "kv", "e", "j", x->p->e};
    }
}

static RowSpace outputs(const Lanes *x) { return (RowSpace){0, "q", "e", "i", x->p->e}; }

static const char *span(Lanes *x)
{
    return tile_text(x->t, "nb * %d +: %d", lanes_block_rows(x), lanes_block_rows(x));
}

/* As many blocks as the rows take, or [blocks]. Gives the nested ones to be ended. */
static uint32_t open_blocks(Lanes *x, const RowSpace *r, const char *blocks, BackSums sums)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = lanes_block_rows(x);
    const BackAxis axes[3] = {{"nb", blocks, r->index[0] == 'i' ? AU_AX_Q : AU_AX_KV},
                              {"h", lanes_axis(x, r->tensor, 1), AU_AX_H},
                              {"b", lanes_axis(x, r->tensor, 0), AU_AX_B}};
    back_grid(x, axes, 3, sums);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    const uint32_t loops = back_loops(x, axes, 3, sums);
    tile_set(t, r->index, "nb * %d + iota(%s:%d)", lanes, r->axis, lanes);
    tile_set(t, "c", "iota(%s:%d)", r->channel, r->width);
    return loops + 2;
}

static const char *row_blocks(Lanes *x, const RowSpace *r)
{
    return tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, r->tensor, 2), lanes_block_rows(x));
}

static uint32_t open(Lanes *x, const RowSpace *r, BackSums sums)
{
    return open_blocks(x, r, row_blocks(x, r), sums);
}

/* The rows of a tensor as f32. Packed sums have whole tiles of rows: none of a block is outside. */
static void load_f32(Lanes *x, const RowSpace *r, const char *name, const char *elem,
                     const char *tensor)
{
    const bool whole = back_dq_is_packed(x) && strcmp(tensor, "dq_sum") == 0;
    AuTileBuild *t = x->t;
    const bool as_is = strcmp(elem, "f32") == 0;
    const char *loaded = as_is ? name : tile_text(t, "%s_raw", name);
    tile_frag(t, loaded, "%s[%s:%d, %s:%d] @ %s", elem, r->channel, r->width, r->axis,
              lanes_block_rows(x), lanes_row_layout(x, r->channel));
    tile_load(t, loaded, "%s[b, h, %s, 0 +: %d]%s", tensor, span(x), r->width,
              whole ? "" : " pad 0");
    if (!as_is) tile_set(t, name, "f32(%s)", loaded);
}

static void statistic(Lanes *x, const char *name, const char *tensor)
{
    tile_load(x->t, name, "%s[b, h, %s] like row pad 0", tensor, span(x));
}

static void declare_row(Lanes *x, const RowSpace *r, const char *like)
{
    tile_frag(x->t, "row", "f32[%s:%d] like %s = 0.0", r->axis, lanes_block_rows(x), like);
}

static void end_kernel(Lanes *x, uint32_t blocks)
{
    while (blocks--) tile_end(x->t);
}

/* ---- gradients of inputs that rows read */

static void sum_arguments(Lanes *x, const AuInputGrads *inputs)
{
    for (uint32_t n = 0; n < inputs->count; n++) {
        bool before = false;
        for (uint32_t m = 0; m < n; m++) before |= inputs->at[m].tensor == inputs->at[n].tensor;
        if (!before) back_sum_argument(x, inputs->at[n].tensor, TILE_INOUT);
    }
}

/* ", value0, value1": what follows other results. */
static const char *value_names(Lanes *x, uint32_t count)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < count; n++) au_text_add(&text, ", value%u", n);
    return count ? au_text_str(&text) : "";
}

/* [element]: the variable that the mod was given. */
static void scatter(Lanes *x, const RowSpace *r, const AuInputGrads *inputs, const char *element)
{
    if (back_reads_by(x, inputs, AU_OP_ELEMENT)) tile_set(x->t, "x", "%s", element);
    const char *inside = tile_text(x->t, "%s < %s", r->index, lanes_axis(x, r->tensor, 2));
    for (uint32_t n = 0; n < inputs->count; n++) {
        const bool by_channel = attn_at(x->p->attn, inputs->at[n].value)->axes & AU_AX_C ||
                                back_read_axes(x, &inputs->at[n]) & AU_AX_C;
        back_scatter(x, &inputs->at[n], tile_numbered(x->t, "value", n),
                     tile_text(x->t, "%s%s", r->index, by_channel ? "c" : ""), r->index[0] == 'j',
                     inside);
    }
}

/* ---- before: dO' and statistics */

static void preprocess_out(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuRowGrad *g = &x->p->grads->out;
    const RowSpace r = outputs(x);
    if (!x->p->hooks->has_out_mod) return;
    tile_kernel(t, "preprocess_out");
    lanes_arguments(x);
    back_argument(x, "o_kept", TILE_IN);
    back_argument(x, "do", TILE_IN);
    back_argument(x, "do_changed", TILE_OUT);
    const char *flag = NULL;
    if (x->p->grads->has_pair >= 0)
        flag = tile_text(t, "final_%s", x->p->attn->online->finals[x->p->grads->has_pair].name);
    if (flag) back_argument(x, flag, TILE_IN);
    sum_arguments(x, &g->inputs);
    const uint32_t blocks = open(x, &r, BACK_SUMS_OUT);
    load_f32(x, &r, "kept", x->operand, "o_kept");
    load_f32(x, &r, "given", x->operand, "do");
    declare_row(x, &r, "kept");
    if (flag) statistic(x, "seen", flag);
    tile_set(t, tile_text(t, "change%s", value_names(x, g->inputs.count)),
             "out_back(kept, given, row, b, h, i, 0, c%s)", flag ? ", seen" : "");
    tile_store(t, "%s(change) -> do_changed[b, h, %s, :] clip", x->operand, span(x));
    scatter(x, &r, &g->inputs, "kept");
    end_kernel(x, blocks);
    lanes_region(x, "do_changed");
}

void back_before(Lanes *x)
{
    for (uint32_t n = 0; n < 3; n++) lanes_rows_kernel(x, n);
    preprocess_out(x);
}

void back_adjoints(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuGrads *g = x->p->grads;
    const AuOnline *online = x->p->attn->online;
    const RowSpace r = outputs(x);
    const char *o = g->keeps_output ? "o_kept" : "o", *given = back_output_gradient(x);
    AuText names = {.arena = x->arena}, statistics = {.arena = x->arena};
    if (!gradient_has_rows(x->p->attn, g)) return;
    tile_kernel(t, "preprocess");
    lanes_arguments(x);
    back_argument(x, o, TILE_IN);
    back_argument(x, given, TILE_IN);
    for (uint32_t n = 0; n < online->final_count; n++) {
        const AuFinal *f = &online->finals[n];
        if (g->reads[n].final_by_rows) back_argument(x, tile_text(t, "final_%s", f->name), TILE_IN);
        if (g->reads[n].given) back_argument(x, tile_text(t, "dfinal_%s", f->name), TILE_IN);
        if (!gradient_has_adjoint(g, n)) continue;
        back_argument(x, tile_text(t, "adjoint_%s", f->name), TILE_OUT);
        lanes_region(x, tile_text(t, "adjoint_%s", f->name));
    }
    for (uint32_t n = 0; n < g->pass_count; n++)
        back_argument(x, tile_text(t, "pass_%u", n), TILE_IN);
    sum_arguments(x, &g->rows);
    const uint32_t blocks = open(x, &r, BACK_SUMS_ROWS);
    load_f32(x, &r, "kept", x->operand, o);
    load_f32(x, &r, "given", x->operand, given);
    declare_row(x, &r, "kept");
    tile_set(t, "delta", "row + reduce_sum(kept * given, e)");
    for (uint32_t n = 0; n < online->final_count; n++) {
        const char *name = online->finals[n].name;
        if (gradient_has_adjoint(g, n))
            au_text_add(&names, "%sadjoint%u", names.length ? ", " : "", n);
        if (!g->reads[n].final_by_rows) continue;
        statistic(x, tile_text(t, "final%u", n), tile_text(t, "final_%s", name));
        au_text_add(&statistics, ", final%u", n);
    }
    for (uint32_t n = 0; n < online->final_count; n++) {
        if (!g->reads[n].given) continue;
        statistic(x, tile_text(t, "dfinal%u", n),
                  tile_text(t, "dfinal_%s", online->finals[n].name));
        au_text_add(&statistics, ", dfinal%u", n);
    }
    for (uint32_t n = 0; n < g->pass_count; n++) {
        statistic(x, tile_text(t, "pass%u", n), tile_text(t, "pass_%u", n));
        au_text_add(&statistics, ", pass%u", n);
    }
    tile_set(t, tile_text(t, "%s%s", au_text_str(&names), value_names(x, g->rows.count)),
             "backward_row(delta, b, h, i%s)", au_text_str(&statistics));
    for (uint32_t n = 0; n < online->final_count; n++)
        if (gradient_has_adjoint(g, n))
            tile_store(t, "adjoint%u -> adjoint_%s[b, h, %s] clip", n, online->finals[n].name,
                       span(x));
    scatter(x, &r, &g->rows, NULL);
    end_kernel(x, blocks);
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
    const char *parts = lanes_parts(x, n), *name = lanes_parts_name(n), *blocks = row_blocks(x, &r);
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
    if (n) blocks = tile_text(t, "%s * min(%s - 1, 1)", blocks, parts);
    const uint32_t nested = open_blocks(x, &r, blocks, BACK_SUMS_NOTHING);
    tile_frag(t, "sum", "%s = 0.0", type);
    tile_frag(t, "piece", "%s", type);
    tile_for_range(t, "part", "0", parts);
    tile_load(t, "piece", "%s[part, b, h, %s, 0 +: %d] pad 0", name, span(x), r.width);
    tile_set(t, "sum", "sum + piece");
    tile_end(t);
    if (back_has_rows(x, n))
        tile_store(t, "sum -> %s[b, h, %s, :] clip", back_sum_names[n], span(x));
    else
        tile_store(t, "%s(sum) -> %s[b, h, %s, :] clip", x->operand, back_gradient_names[n],
                   span(x));
    end_kernel(x, nested);
    lanes_region(x, name);
}

/* Packed sums that nothing changes any more: a warp takes a row of pieces as they lie. */
static bool only_rounds(const Lanes *x, uint32_t n)
{
    return n == 0 && back_dq_is_packed(x) && !mod_of(x, n)->value.i && !back_has_dots(x, n);
}

static void round_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t rows = x->atom->m;
    const char *span = tile_text(t, "nb * %d +: %d", rows, rows);
    tile_kernel(t, "convert_dq");
    lanes_arguments(x);
    back_argument(x, "dq_sum", TILE_IN);
    back_argument(x, "dq", TILE_OUT);
    tile_grid(t, "nb: cdiv(%s, %d), h: %s, b: %s", lanes_axis(x, 0, 2), rows, lanes_axis(x, 0, 1),
              lanes_axis(x, 0, 0));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "sum", "f32[q:%d, d:%d] @ %s.C", rows, x->p->d, x->atom->name);
    tile_load(t, "sum", "dq_sum[b, h, %s, 0 +: %d]", span, x->p->d);
    tile_store(t, "%s(sum) -> dq[b, h, %s, :] clip", x->operand, span);
    end_kernel(x, 2);
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
    sum_arguments(x, &g->inputs);
    if (back_has_dots(x, n)) back_sum_argument(x, n, TILE_IN);
    const uint32_t blocks = open(x, &r, BACK_SUMS_DQ + n);
    load_f32(x, &r, "given", "f32", sum);
    tile_set(t, "change", "given");
    if (g->value.i) {
        load_f32(x, &r, "raw", x->operand, tensors[n]);
        declare_row(x, &r, "given");
        tile_set(t, tile_text(t, "change%s", value_names(x, g->inputs.count)),
                 "%s_back(raw, given, row, b, h, i, j, c)", tensors[n]);
    }
    if (back_has_dots(x, n)) {
        load_f32(x, &r, "further", "f32", back_sum(x, n));
        tile_set(t, "change", "change + further");
    }
    if (takes_values(x, n)) {
        const int32_t first = x->p->attn->v_first;
        tile_set(t, "change",
                 "change + where(c >= %d && c < %d, dv_sum[b, h, j, clamp(c - %d, 0, %d)], 0.0)",
                 first, first + x->p->e, first, x->p->e - 1);
    }
    tile_store(t, "%s(change) -> %s[b, h, %s, :] clip", x->operand, back_gradient_names[n],
               span(x));
    scatter(x, &r, &g->inputs, "raw");
    end_kernel(x, blocks);
    const bool added = n == 0 ? x->with_dq && !lanes_in_parts(x, 0) : x->heads_apart;
    (added ? lanes_zeroed_region : lanes_region)(x, sum);
}

/* A piece of the sum of input [n], of all its parts. */
static void load_sum(Lanes *x, uint32_t n, const char *at)
{
    AuTileBuild *t = x->t;
    const int32_t parts = back_sum_parts(x, n);
    tile_load(t, "piece", "sum_%u[%s%s] as [n] pad 0", n, parts > 1 ? "0, " : "", at);
    if (parts == 1) return;
    tile_frag(t, "total", "f32[n:%d] @ along_lanes", x->p->caps->lanes);
    tile_for_range(t, "turn", "1", tile_text(t, "%d", parts));
    tile_load(t, "total", "sum_%u[turn, %s] as [n] pad 0", n, at);
    tile_set(t, "piece", "piece + total");
    tile_end(t);
}

void back_sum_kernel(Lanes *x, uint32_t n, const char *name)
{
    AuTileBuild *t = x->t;
    const AuTensor *tensor = &x->p->attn->tensors[n];
    const int32_t lanes = x->p->caps->lanes;
    const char *elem = lanes_elem(x, n);
    AuText rows = {.arena = x->arena}, at = {.arena = x->arena}, rest = {.arena = x->arena};
    au_text_add(&rows, "1");
    for (uint32_t a = 0; a + 1 < tensor->rank; a++)
        au_text_add(&rows, " * (%s)", lanes_axis(x, n, a));
    au_text_add(&rest, "row");
    for (uint32_t a = 0; a + 1 < tensor->rank; a++) { /* row / (the extents after it) % its own */
        au_text_add(&at, "row");
        for (uint32_t i = a + 1; i + 1 < tensor->rank; i++)
            au_text_add(&at, " / (%s)", lanes_axis(x, n, i));
        au_text_add(&at, " %% (%s), ", lanes_axis(x, n, a));
    }
    tile_kernel(t, tile_text(t, "sums_%u", n));
    lanes_arguments(x);
    back_sum_argument(x, n, TILE_IN);
    tile_arg(t, name, TILE_OUT, "%s", lanes_type(x, elem, n));
    tile_grid(t, "row: %s", au_text_str(&rows));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    if (tensor->rank == 0)
        tile_store(t, "%s(sum_%u[0]) -> %s", elem, n, name);
    else {
        const char *prefix = tensor->rank > 1 ? au_text_str(&at) : "";
        tile_for_range(t, "part", "0",
                       tile_text(t, "cdiv(%s, %d)", lanes_axis(x, n, tensor->rank - 1), lanes));
        tile_frag(t, "piece", "f32[n:%d] @ along_lanes", lanes);
        load_sum(x, n, tile_text(t, "%spart * %d +: %d", prefix, lanes, lanes));
        tile_store(t, "%s(piece) -> %s[%spart * %d +: %d] as [n] clip", elem, name, prefix, lanes,
                   lanes);
        tile_end(t);
    }
    end_kernel(x, 2);
}

static void gradient_of_input(Lanes *x, uint32_t n)
{
    if (n < 3 && !back_has_dots(x, n)) return;
    lanes_zeroed_region(x, back_sum(x, n));
    if (n >= 3) back_sum_kernel(x, n, tile_text(x->t, "grad_%u", n));
}

void back_after(Lanes *x)
{
    if (x->p->attn->v_in_k) join_parts(x, 2); /* before keys take it */
    for (uint32_t n = 0; n < 3; n++) gradient_of_rows(x, n);
    if (x->p->attn->v_in_k && !x->values_joined) lanes_region(x, "dv_sum");
    for (uint32_t n = 0; n < x->p->attn->tensor_count; n++)
        if (back_wants(x, n)) gradient_of_input(x, n);
}
