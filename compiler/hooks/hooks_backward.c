/* hooks_backward.c - the gradients of an attention (gradient.h) as hooks of the tiled IR. Names are those
 * of the formulas: s the raw product, dp = dO' . v, finalN and adjointN of a row, x and dx an element that a
 * row mod was given and the gradient of what it made of it.
 *
 * A pair that takes no part has the score -inf, by score_mod or because the schedule says so; nothing that is
 * computed for it is used. */
#include "hook_writer.h"

#include <math.h>

/* Each read of an input with a gradient is one more: a hidden layer of 32 units has 96. */
enum { MOST_RESULTS = 160 };

typedef struct Results {
    AuTileExpr *at[MOST_RESULTS];
    uint32_t count;
} Results;

static void add(AuHookWriter *w, Results *r, AuTileExpr *x)
{
    if (r->count < sizeof r->at / sizeof *r->at)
        r->at[r->count++] = x;
    else if (!w->failed) {
        au_error(w->diags, AU_E0811, w->attn->span,
                 "more than %zu reads of inputs with gradients in one mod",
                 sizeof r->at / sizeof *r->at);
        w->failed = true;
    }
}

static const char *numbered_name(AuHookWriter *w, const char *name, uint32_t n)
{
    return au_format(writer_module(w)->arena, "%s%u", name, n);
}

/* "dot0", "dot1", ... after the parameters there are. */
static uint32_t numbered(AuHookWriter *w, const char **params, uint32_t count, const char *name,
                         uint32_t many)
{
    for (uint32_t n = 0; n < many; n++) params[count++] = numbered_name(w, name, n);
    return count;
}

/* The same of finals, those alone that are read. */
typedef enum Statistic { FINAL_OF_PAIRS, ADJOINT_OF_PAIRS, FINAL_OF_ROW, GIVEN_OF_ROW } Statistic;

static bool is_read(const AuGrads *g, Statistic kind, uint32_t n)
{
    switch (kind) {
    case FINAL_OF_PAIRS: return g->reads[n].final_by_pairs;
    case ADJOINT_OF_PAIRS: return g->reads[n].adjoint_by_pairs;
    case FINAL_OF_ROW: return g->reads[n].final_by_rows;
    case GIVEN_OF_ROW: return g->reads[n].given;
    }
    return false;
}

static uint32_t statistics(AuHookWriter *w, const AuGrads *g, const char **params, uint32_t count,
                           Statistic kind)
{
    static const char *const names[] = {"final", "adjoint", "final", "dfinal"};
    for (uint32_t n = 0; n < w->attn->online->final_count; n++)
        if (is_read(g, kind, n)) params[count++] = numbered_name(w, names[kind], n);
    return count;
}

/* What is made of a pair, 0 where the pair takes no part; with the axes and places of pairs, whatever it depends on. */
static AuTileExpr *guarded(AuHookWriter *w, const AuGrads *g, AuExpr e, const char *name)
{
    const bool is_of_pair = writer_is_of_tile(w, e) || writer_is_of_tile(w, g->score);
    AuTileExpr *x = writer_op3(w, TILE_X_WHERE, writer_variable(w, "ok"), writer_expr(w, e),
                               writer_number(w, 0));
    return is_of_pair ? x : writer_spread(w, x, "s", name);
}

static void begin_pairs(AuHookWriter *w, const AuGrads *g, const char *name, bool adjoints)
{
    const char *params[64] = {"s", "dp", "b", "h", "i", "j"};
    uint32_t count = numbered(w, params, 6, "dot", w->hooks->dot_count);
    count = statistics(w, g, params, count, FINAL_OF_PAIRS);
    if (adjoints) count = statistics(w, g, params, count, ADJOINT_OF_PAIRS);
    writer_begin(w, name, params, count);
}

static void write_unmasked(AuHookWriter *w, const AuGrads *g)
{
    writer_assign(
        w, "ok",
        writer_op2(w, TILE_X_NE, writer_expr(w, g->score), writer_number(w, -(double)INFINITY)));
}

static void write_pair(AuHookWriter *w, const AuGrads *g)
{
    Results out = {.count = 0};
    begin_pairs(w, g, "backward_pair", true);
    writer_count_uses(w, g->score), writer_count_uses(w, g->weight),
        writer_count_uses(w, g->dscore);
    for (uint32_t n = 0; n < g->dot_count; n++) writer_count_uses(w, g->ddots[n]);
    for (uint32_t n = 0; n < g->pairs.count; n++) writer_count_uses(w, g->pairs.at[n].value);
    write_unmasked(w, g);
    add(w, &out, guarded(w, g, g->weight, "weight"));
    add(w, &out, guarded(w, g, g->dscore, "dscore"));
    for (uint32_t n = 0; n < g->dot_count; n++)
        add(w, &out, guarded(w, g, g->ddots[n], numbered_name(w, "ddot", n)));
    for (uint32_t n = 0; n < g->pairs.count; n++)
        add(w, &out, guarded(w, g, g->pairs.at[n].value, numbered_name(w, "value", n)));
    writer_finish(w, out.at, out.count);
}

static void write_pass(AuHookWriter *w, const AuGrads *g)
{
    Results out = {.count = 0};
    if (!g->pass_count) return;
    begin_pairs(w, g, "backward_pass", false);
    writer_count_uses(w, g->score);
    for (uint32_t n = 0; n < g->pass_count; n++) writer_count_uses(w, g->pass[n]);
    write_unmasked(w, g);
    for (uint32_t n = 0; n < g->pass_count; n++)
        add(w, &out, guarded(w, g, g->pass[n], numbered_name(w, "pass", n)));
    writer_finish(w, out.at, out.count);
}

static void write_row(AuHookWriter *w, const AuGrads *g)
{
    Results out = {.count = 0};
    const uint32_t finals = w->attn->online->final_count;
    const char *params[64] = {"delta", "b", "h", "i"};
    if (!gradient_has_rows(w->attn, g)) return;
    uint32_t count = statistics(w, g, params, 4, FINAL_OF_ROW);
    count = statistics(w, g, params, count, GIVEN_OF_ROW);
    writer_begin(w, "backward_row", params, numbered(w, params, count, "pass", g->pass_count));
    for (uint32_t n = 0; n < finals; n++)
        if (gradient_has_adjoint(g, n)) writer_count_uses(w, g->adjoint[n]);
    for (uint32_t n = 0; n < g->rows.count; n++) writer_count_uses(w, g->rows.at[n].value);
    for (uint32_t n = 0; n < finals; n++)
        if (gradient_has_adjoint(g, n))
            add(w, &out,
                writer_spread(w, writer_expr(w, g->adjoint[n]), "delta",
                              numbered_name(w, "adjoint", n)));
    for (uint32_t n = 0; n < g->rows.count; n++)
        add(w, &out,
            writer_spread(w, writer_expr(w, g->rows.at[n].value), "delta",
                          numbered_name(w, "value", n)));
    writer_finish(w, out.at, out.count);
}

/* X_back(x, dx, row, b, h, i, j, c [, seen]): the gradient, and those of inputs: of all channels, or once a row. */
static void write_row_mod(AuHookWriter *w, const char *name, const AuRowGrad *g, const char *tensor,
                          const char *gradient, bool of_keys, const char *channel, bool asks)
{
    Results out = {.count = 0};
    if (!g->value.i) return;
    w->channel = channel;
    w->row_tensor = tensor, w->gradient_tensor = gradient;
    w->row_h = "h", w->row_i = of_keys ? "j" : "i";
    w->own_head = of_keys;
    static const char *const params[] = {"x", "dx", "row", "b", "h", "i", "j", "c", "seen"};
    writer_begin(w, name, params, asks ? 9 : 8);
    writer_count_uses(w, g->value);
    for (uint32_t n = 0; n < g->inputs.count; n++) writer_count_uses(w, g->inputs.at[n].value);
    add(w, &out, writer_spread(w, writer_expr(w, g->value), "dx", "change"));
    for (uint32_t n = 0; n < g->inputs.count; n++) {
        const AuInputGrad *in = &g->inputs.at[n];
        const bool by_channel =
            (attn_at(w->attn, in->value)->axes | attn_at(w->attn, in->read)->axes) & AU_AX_C;
        add(w, &out,
            writer_spread(w, writer_expr(w, in->value), by_channel ? "dx" : "row",
                          au_format(writer_module(w)->arena, "value%u", n)));
    }
    for (uint32_t n = 0; n < out.count && asks; n++) out.at[n] = writer_where_seen(w, out.at[n]);
    writer_finish(w, out.at, out.count);
    w->own_head = false;
}

void writer_out_back(AuHookWriter *w, const AuRowGrad *g, bool asks)
{
    write_row_mod(w, "out_back", g, "o_kept", "do", false, "e", asks);
}

/* query_range(b, h, j0, j1) */
static void write_range(AuHookWriter *w)
{
    AuAttn *a = w->attn;
    AuRange range;
    attn_query_range(a, &range);
    const AuExpr all[4] = {range.low, range.high, range.full_low, range.full_high};
    AuTileExpr *items[4];
    const char *const params[] = {"b", "h", "i", "j"};
    writer_begin(w, "query_range", params, 4);
    for (uint32_t n = 0; n < 4; n++) writer_count_uses(w, all[n]);
    for (uint32_t n = 0; n < 4; n++) items[n] = writer_expr(w, all[n]);
    if (a->mask.i) w->hooks->needs_lists |= range.needs_lists;
    writer_finish(w, items, 4);
}

static void list_needed(AuHooks *h, const AuAttn *a, const AuGrads *g)
{
    const struct {
        const char *name;
        bool is_there;
    } all[] = {{"backward_pair", true},          {"backward_pass", g->pass_count > 0},
               {"q_back", g->q.value.i != 0},    {"backward_row", gradient_has_rows(a, g)},
               {"k_back", g->k.value.i != 0},    {"v_back", g->v.value.i != 0},
               {"out_back", g->out.value.i != 0}};
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++)
        if (all[n].is_there)
            AU_PUSH(h->module->arena, h->backward.at, h->backward.count, h->backward.capacity,
                    all[n].name);
}

bool hooks_backward(AuHooks *hooks, AuDiags *diags, AuAttn *attn, const AuGrads *g)
{
    AuHookWriter w = {.hooks = hooks,
                      .attn = attn,
                      .diags = diags,
                      .channel = "d",
                      .of_sequence = attn->linear != NULL};
    if (g->normal) return hooks_linear_back(&w, g->normal);
    for (uint32_t n = 0; n < g->dot_count; n++)
        if (!writer_can_dot(&w, g->dots[n], true)) return false;
    write_range(&w);
    if (hooks->needs_lists) writer_mask_bounds(&w);
    write_pair(&w, g);
    write_pass(&w, g);
    write_row(&w, g);
    write_row_mod(&w, "q_back", &g->q, "q", "dq_sum", false, "d", false);
    write_row_mod(&w, "k_back", &g->k, "k", "dk_sum", true, "d", false);
    write_row_mod(&w, "v_back", &g->v, "v", "dv_sum", true, "e", false);
    writer_out_back(&w, &g->out, g->has_pair >= 0);
    list_needed(hooks, attn, g);
    return !w.failed;
}
