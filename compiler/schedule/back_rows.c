/* back_rows.c - backward, kernels over rows: what those before the products (here) and after them (back_results.c) have in common. A lane
 * holds a row, sums over its channels run in registers. */
#include "back_rows.h"
#include "key_layout.h"

#include <string.h>

static RowSpace outputs(const Lanes *x) { return (RowSpace){0, "q", "e", "i", x->p->e}; }

LanesSide back_side(const RowSpace *r) { return r->tensor ? LANES_KEYS : LANES_QUERIES; }

const char *back_place(Lanes *x, const RowSpace *r)
{
    const int32_t rows = lanes_block_rows(x);
    return lanes_place(x, back_side(r), "h", tile_text(x->t, "nb * %d +: %d", rows, rows));
}

uint32_t back_open_rows_times(Lanes *x, const RowSpace *r, const char *times, BackSums sums)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = lanes_block_rows(x);
    const char *blocks = tile_text(t, "cdiv(%s, %d)", lanes_axis(x, r->tensor, 2), lanes);
    const BackAxis axes[3] = {{"nb", blocks, r->index[0] == 'i' ? AU_AX_Q : AU_AX_KV},
                              {"h", lanes_axis(x, r->tensor, 1), AU_AX_H},
                              {"b", lanes_axis(x, r->tensor, 0), AU_AX_B}};
    back_row_grid(x, back_side(r), lanes, axes, sums, times);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    const uint32_t loops = back_loops(x, axes, 3, sums);
    tile_set(t, r->index, "nb * %d + iota(%s:%d)", lanes, r->axis, lanes);
    tile_set(t, "c", "iota(%s:%d)", r->channel, r->width);
    return loops + 2;
}

uint32_t back_open_rows(Lanes *x, const RowSpace *r, BackSums sums)
{
    return back_open_rows_times(x, r, NULL, sums);
}

/* The rows of a tensor as f32. Packed sums have whole tiles of rows: none of a block is outside. */
void back_load_rows(Lanes *x, const RowSpace *r, const char *name, const char *elem,
                    const char *tensor)
{
    const bool whole = back_dq_is_packed(x) && strcmp(tensor, "dq_sum") == 0;
    AuTileBuild *t = x->t;
    const bool as_is = strcmp(elem, "f32") == 0;
    const char *loaded = as_is ? name : tile_text(t, "%s_raw", name);
    tile_frag(t, loaded, "%s[%s:%d, %s:%d] @ %s", elem, r->channel, r->width, r->axis,
              lanes_block_rows(x), lanes_row_layout(x, r->channel));
    const int32_t rows = lanes_block_rows(x);
    const char *place = whole ? back_sum_place(x, "h", tile_text(t, "nb * %d +: %d", rows, rows))
                              : back_place(x, r);
    tile_load(t, loaded, "%s[%s, 0 +: %d]%s", tensor, place, r->width, whole ? "" : " pad 0");
    if (!as_is) tile_set(t, name, "f32(%s)", loaded);
}

static void statistic(Lanes *x, const char *name, const char *tensor)
{
    const RowSpace r = outputs(x);
    tile_load(x->t, name, "%s[%s] like row pad 0", tensor, back_place(x, &r));
}

void back_declare_row(Lanes *x, const RowSpace *r, const char *like)
{
    tile_frag(x->t, "row", "f32[%s:%d] like %s = 0.0", r->axis, lanes_block_rows(x), like);
}

void back_end_kernel(Lanes *x, uint32_t blocks)
{
    while (blocks--) tile_end(x->t);
}

/* ---- gradients of inputs that rows read */

void back_sum_arguments(Lanes *x, const AuInputGrads *inputs)
{
    for (uint32_t n = 0; n < inputs->count; n++) {
        bool before = false;
        for (uint32_t m = 0; m < n; m++) before |= inputs->at[m].tensor == inputs->at[n].tensor;
        if (!before) back_sum_argument(x, inputs->at[n].tensor, TILE_INOUT);
    }
}

/* ", value0, value1": what follows other results. */
const char *back_value_names(Lanes *x, uint32_t count)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < count; n++) au_text_add(&text, ", value%u", n);
    return count ? au_text_str(&text) : "";
}

/* [element]: the variable that the mod was given. */
void back_scatter_rows(Lanes *x, const RowSpace *r, const AuInputGrads *inputs, const char *element)
{
    if (back_reads_by(x, inputs, AU_OP_ELEMENT)) tile_set(x->t, "x", "%s", element);
    const char *end = back_side(r) == LANES_KEYS ? lanes_key_end(x) : lanes_query_end(x);
    const char *inside = tile_text(x->t, "%s < %s", r->index, end);
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
    back_sum_arguments(x, &g->inputs);
    const uint32_t blocks = back_open_rows(x, &r, BACK_SUMS_OUT);
    back_load_rows(x, &r, "kept", x->operand, "o_kept");
    back_load_rows(x, &r, "given", x->operand, "do");
    back_declare_row(x, &r, "kept");
    if (flag) statistic(x, "seen", flag);
    tile_set(t, tile_text(t, "change%s", back_value_names(x, g->inputs.count)),
             "out_back(kept, given, row, b, h, i, 0, c%s)", flag ? ", seen" : "");
    tile_store(t, "%s(change) -> do_changed[%s, :] clip", x->operand, back_place(x, &r));
    back_scatter_rows(x, &r, &g->inputs, "kept");
    back_end_kernel(x, blocks);
    lanes_region(x, "do_changed");
}

void back_before(Lanes *x)
{
    for (uint32_t n = 0; n < 3; n++) lanes_rows_kernel(x, n);
    preprocess_out(x);
}

/* What pairs read is 0 in rows without any, whose adjoint may be anything: they need not ask then. */
static void store_adjoint(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const char *name = x->p->attn->online->finals[n].name;
    const char *adjoint = tile_text(t, "adjoint%u", n);
    if (back_is_paired(x, n)) {
        const char *of = tile_text(t, "reference%u", n);
        statistic(x, of, tile_text(t, "final_%s", name));
        tile_set(t, adjoint, "where(%s == -inf, 0.0, %s)", of, adjoint);
    }
    const RowSpace r = outputs(x);
    tile_store(t, "%s -> adjoint_%s[%s] clip", adjoint, name, back_place(x, &r));
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
        if (g->reads[n].final_by_rows || back_is_paired(x, n))
            back_argument(x, tile_text(t, "final_%s", f->name), TILE_IN);
        if (g->reads[n].given) back_argument(x, tile_text(t, "dfinal_%s", f->name), TILE_IN);
        if (!gradient_has_adjoint(g, n)) continue;
        back_argument(x, tile_text(t, "adjoint_%s", f->name), TILE_OUT);
        lanes_region(x, tile_text(t, "adjoint_%s", f->name));
    }
    for (uint32_t n = 0; n < g->pass_count; n++)
        back_argument(x, tile_text(t, "pass_%u", n), TILE_IN);
    back_sum_arguments(x, &g->rows);
    const uint32_t blocks = back_open_rows(x, &r, BACK_SUMS_ROWS);
    back_load_rows(x, &r, "kept", x->operand, o);
    back_load_rows(x, &r, "given", x->operand, given);
    back_declare_row(x, &r, "kept");
    /* Who sees no key has an output of 0, and what is given for it reaches nobody: sums of rows would have 0 NaN. */
    tile_set(t, "delta", "row + reduce_sum(%s, e)",
             g->rows.count ? "where(kept == 0.0, 0.0, kept * given)" : "kept * given");
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
    tile_set(t, tile_text(t, "%s%s", au_text_str(&names), back_value_names(x, g->rows.count)),
             "backward_row(delta, b, h, i%s)", au_text_str(&statistics));
    for (uint32_t n = 0; n < online->final_count; n++)
        if (gradient_has_adjoint(g, n)) store_adjoint(x, n);
    back_scatter_rows(x, &r, &g->rows, NULL);
    back_end_kernel(x, blocks);
}
