/* gradient.c - see gradient.h. The online function makes the gradient of a score (gradient_online.c);
 * here are the mods around it: weight_mod, through which the gradient of a weight comes, score_mod,
 * through which that of a score goes, and the row mods by themselves. At the end factors are put in
 * order. */
#include "deriver.h"

#include <math.h>

#include "factors.h"
#include "normal_form.h"

static const AuSpan nowhere = {0};

static void replace_in_inputs(AuDeriver *d, AuInputGrads *in, AuOp op, AuExpr by)
{
    for (uint32_t i = 0; i < in->count; i++) {
        in->at[i].read = derive_with(d->a, in->at[i].read, op, by);
        in->at[i].value = derive_with(d->a, in->at[i].value, op, by);
    }
}

static void simplify_inputs(AuDeriver *d, AuInputGrads *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        in->at[i].value = attn_simplify_expr(d->a, in->at[i].value);
}

bool derive_nothing_lost(AuDeriver *d, const AuReverse *r)
{
    if (!r->lost.i) return true;
    au_error(d->diags, AU_E0425, attn_at(d->a, r->lost)->span,
             "no gradient goes through the position or the base of rope; stop_grad says that none "
             "is wanted");
    return false;
}

/* ---- weight_mod */

/* Twice the weight must be twice the changed weight, since it comes before the output is rescaled. */
static bool check_weight_mod(AuDeriver *d)
{
    AuAttn *a = d->a;
    const AuExpr p = closed_pair_leaf(a, AU_OP_WEIGHT);
    const AuExpr twice =
        derive_with(a, a->weight_mod, AU_OP_WEIGHT, derive_product(a, p, derive_number(a, 2)));
    for (uint32_t i = 0; i < d->c->samples->count && !d->c->plain; i++) {
        AuSample *row = &d->c->samples->rows[i];
        const double *once = sample_value(row, a->weight_mod), *other = sample_value(row, twice);
        for (uint32_t n = 0; n < row->count; n++) {
            if (sample_near(other[n], 2 * once[n], 0) || !isfinite(once[n])) continue;
            au_error(d->diags, AU_E0423, attn_at(a, a->weight_mod)->span,
                     "weight_mod must be proportional to the weight, which '%s' rescales later: it "
                     "makes %.9g of %.9g and %.9g of %.9g",
                     a->online->name, once[n], row->weights[n], other[n], 2 * row->weights[n]);
            return false;
        }
    }
    return true;
}

/* The weight as it meets the values, and what its gradient is before weight_mod. */
static bool pass_weight_mod(AuDeriver *d, AuExpr *weight, AuExpr *dweight)
{
    AuAttn *a = d->a;
    const AuExpr f = a->online->forward;
    *weight = f;
    *dweight = closed_pair_leaf(a, AU_OP_DWEIGHT);
    if (!a->weight_mod.i) return true;
    if (!check_weight_mod(d)) return false;
    AuReverse *r = reverse_new(a, d->arena, a->weight_mod, 0, 1u << AU_OP_WEIGHT);
    reverse_run(r, a->weight_mod, (AuGuarded){*dweight, {0}});
    const AuExpr leaf = closed_pair_leaf(a, AU_OP_WEIGHT);
    const AuExpr back = reverse_of(r, leaf);
    *dweight = back.i ? derive_with(a, back, AU_OP_WEIGHT, f) : derive_number(a, 0);
    *weight = derive_with(a, a->weight_mod, AU_OP_WEIGHT, f);
    derive_take_inputs(d, r, false, &d->g->pairs);
    replace_in_inputs(d, &d->g->pairs, AU_OP_WEIGHT, f);
    return true;
}

static bool needs_gradient(const AuAttn *a, const AuNode *dot)
{
    return dot->integer < 3 || dot->integer2 < 3 || a->tensors[dot->integer].grad ||
           a->tensors[dot->integer2].grad;
}

static bool take_dots(AuDeriver *d, const AuReverse *r)
{
    AuGrads *g = d->g;
    for (uint32_t i = 1; i < r->count; i++) {
        const AuNode n = d->a->nodes[i];
        if (n.op != AU_OP_DOT || !r->active[i] || !needs_gradient(d->a, &n)) continue;
        const AuExpr value = reverse_of(r, (AuExpr){i});
        if (!value.i) continue;
        if (g->dot_count == AU_MAX_DOTS) {
            au_error(d->diags, AU_E0425, n.span, "more than %d products with gradients",
                     AU_MAX_DOTS);
            return false;
        }
        g->dots[g->dot_count] = (AuExpr){i};
        g->ddots[g->dot_count++] = value;
    }
    return true;
}

/* Everything of pairs, of the raw product. */
static bool pass_score_mod(AuDeriver *d)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    const AuExpr raw = closed_pair_leaf(a, AU_OP_SCORE);
    AuExpr weight, dweight;
    if (!pass_weight_mod(d, &weight, &dweight)) return false;
    derive_add_inputs(d, &g->pairs, &d->direct, dweight);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        derive_add_inputs(d, &g->pairs, &d->finals[n].along, closed_row_leaf(a, AU_OP_ADJOINT, n));
    g->score = a->score_mod.i ? a->score_mod : raw;
    replace_in_inputs(d, &g->pairs, AU_OP_SCORE, g->score);
    g->weight = attn_simplify_expr(a, derive_with(a, weight, AU_OP_SCORE, g->score));
    for (uint32_t k = 0; k < g->pass_count; k++) {
        const AuExpr pass = derive_with(a, g->pass[k], AU_OP_DWEIGHT, dweight);
        g->pass[k] = attn_simplify_expr(a, derive_with(a, pass, AU_OP_SCORE, g->score));
    }
    AuExpr seed = derive_with(a, d->dscore, AU_OP_DWEIGHT, dweight);
    seed = attn_simplify_expr(a, derive_with(a, seed, AU_OP_SCORE, g->score));
    AuReverse *r = reverse_new(a, d->arena, g->score, 0, 1u << AU_OP_SCORE | 1u << AU_OP_DOT);
    reverse_run(r, g->score, (AuGuarded){seed, {0}});
    const AuExpr dscore = reverse_of(r, raw);
    g->dscore = dscore.i ? dscore : derive_number(a, 0);
    derive_take_inputs(d, r, false, &g->pairs);
    return take_dots(d, r);
}

/* Behind score and weight, which are computed anyway, a pair costs as little as it can. */
static void order_factors(AuDeriver *d)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    const AuExpr whole[] = {g->score, g->weight};
    g->dscore = factors_in_order(a, g->dscore, AU_AX_KV, whole, 2);
    for (uint32_t n = 0; n < g->dot_count; n++)
        g->ddots[n] = factors_in_order(a, g->ddots[n], AU_AX_KV, whole, 2);
    for (uint32_t n = 0; n < g->pass_count; n++)
        g->pass[n] = factors_in_order(a, g->pass[n], AU_AX_KV, whole, 2);
    for (uint32_t i = 0; i < g->pairs.count; i++)
        g->pairs.at[i].value = factors_in_order(a, g->pairs.at[i].value, AU_AX_KV, whole, 2);
}

bool derive_row_mod(AuDeriver *d, AuExpr mod, AuPlace place, AuRowGrad *out)
{
    AuAttn *a = d->a;
    const uint8_t axes = attn_element_axes(place);
    if (!mod.i) return true;
    const AuExpr x = attn_leaf(a, AU_OP_ELEMENT, AU_T_F32, axes, 0, 0, nowhere);
    const AuExpr dx = attn_leaf(a, AU_OP_DELEMENT, AU_T_F32, axes, 0, 0, nowhere);
    AuReverse *r = reverse_new(a, d->arena, mod, AU_AX_C, 1u << AU_OP_ELEMENT);
    reverse_run(r, mod, (AuGuarded){dx, {0}});
    const AuExpr value = reverse_of(r, x);
    out->value = value.i ? factors_in_order(a, value, AU_AX_C, &mod, 1) : derive_number(a, 0);
    derive_take_inputs(d, r, false, &out->inputs);
    for (uint32_t i = 0; i < out->inputs.count; i++)
        out->inputs.at[i].value = factors_in_order(a, out->inputs.at[i].value, AU_AX_C, &mod, 1);
    return derive_nothing_lost(d, r);
}

static bool settle_rows(AuDeriver *d)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    for (uint32_t n = 0; n < a->online->final_count; n++)
        derive_add_inputs(d, &g->rows, &d->finals[n].rows, closed_row_leaf(a, AU_OP_ADJOINT, n));
    simplify_inputs(d, &g->rows);
    g->keeps_output = a->out_mod.i != 0;
    return derive_row_mod(d, a->q_mod, AU_PLACE_Q_MOD, &g->q) &&
           derive_row_mod(d, a->k_mod, AU_PLACE_K_MOD, &g->k) &&
           derive_row_mod(d, a->v_mod, AU_PLACE_V_MOD, &g->v) &&
           derive_row_mod(d, a->out_mod, AU_PLACE_OUT_MOD, &g->out);
}

/* ---- who reads what */

static void mark_inputs(const AuAttn *a, const AuInputGrads *in, bool *mark)
{
    for (uint32_t n = 0; n < in->count; n++) attn_mark(a, in->at[n].value, mark);
}

static void find_reads(AuDeriver *d)
{
    const AuAttn *a = d->a;
    AuGrads *g = d->g;
    bool *pairs = AU_NEW_ARRAY(d->arena, bool, a->node_count),
         *rows = AU_NEW_ARRAY(d->arena, bool, a->node_count);
    attn_mark(a, g->weight, pairs), attn_mark(a, g->dscore, pairs);
    for (uint32_t n = 0; n < g->dot_count; n++) attn_mark(a, g->ddots[n], pairs);
    for (uint32_t n = 0; n < g->pass_count; n++) attn_mark(a, g->pass[n], pairs);
    mark_inputs(a, &g->pairs, pairs);
    mark_inputs(a, &g->rows, rows);
    g->reads = AU_NEW_ARRAY(d->arena, AuGradReads, a->online->final_count + 1);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        g->reads[n].given = !a->online->finals[n].kept && !d->finals[n].is_held;
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        if (n->op != AU_OP_ADJOINT) continue;
        g->reads[n->integer].adjoint_by_pairs |= pairs[i];
        g->reads[n->integer].adjoint_by_rows |= rows[i];
    }
    for (uint32_t n = 0; n < a->online->final_count; n++)
        if (gradient_has_adjoint(g, n)) attn_mark(a, g->adjoint[n], rows);
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        if (n->op != AU_OP_FINAL) continue;
        g->reads[n->integer].final_by_pairs |= pairs[i];
        g->reads[n->integer].final_by_rows |= rows[i];
    }
}

bool gradient_has_adjoint(const AuGrads *g, uint32_t final)
{
    return g->reads[final].adjoint_by_pairs || g->reads[final].adjoint_by_rows;
}

bool gradient_has_rows(const AuAttn *a, const AuGrads *g)
{
    for (uint32_t n = 0; n < a->online->final_count; n++)
        if (gradient_has_adjoint(g, n)) return true;
    return g->rows.count > 0;
}

AuGrads *attn_gradients(AuAttn *a, AuArena *arena, AuDiags *diags)
{
    AuDeriver d = {.a = a, .arena = arena, .diags = diags, .g = AU_NEW(arena, AuGrads)};
    if (a->linear) return attn_recurrence_gradients(a, arena, diags);
    if (!derive_online(&d) || !pass_score_mod(&d) || !settle_rows(&d)) return NULL;
    derive_keep_pairs(&d);
    order_factors(&d);
    find_reads(&d);
    return d.g;
}
