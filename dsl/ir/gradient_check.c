/* gradient_check.c - what gradient_online.c derives, tried on random rows: is a user's forward or backward the derived one, and
 * do maxima only stabilise? */
#include "deriver.h"

#include <math.h>

/* How large the terms are that a user's expression and the right one add up, which may cancel: where p is 1,
 * dp - rowsum(dp * p) is rounding alone. Of the user's terms only what rounding in f64 can leave. */
static const double *rounding_sizes(AuSample *row, AuExpr given, AuExpr right)
{
    const double *x = sample_size(row, given), *y = sample_size(row, right);
    double *sizes = AU_NEW_ARRAY(row->arena, double, row->count);
    for (uint32_t n = 0; n < row->count; n++) {
        const double size = y[n] + 1e-3 * x[n];
        sizes[n] = isfinite(size) ? size : 0;
    }
    return sizes;
}

/* The first pair for which the user's expression is not the right one; the row's count: there is none. */
static uint32_t first_difference(AuSample *row, AuExpr given, AuExpr right)
{
    const double *found = sample_value(row, given), *wanted = sample_value(row, right);
    const double *sizes = rounding_sizes(row, given, right);
    double size = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->count; i++) size += fabs(wanted[i]);
    while (n < row->count && sample_near(found[n], wanted[n], size + sizes[n])) n++;
    return n;
}

bool derive_check_forward(AuDeriver *d)
{
    AuAttn *a = d->a;
    const AuExpr forward = a->online->forward;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        const uint32_t n = first_difference(row, forward, d->c->weight);
        if (n == row->count) continue;
        AuDiag *e = au_error(d->diags, AU_E0421, attn_at(a, forward)->span,
                             "forward gives the weight %.9g for a score of %.9g, online_fwd "
                             "and its epilogue give %.9g",
                             sample_value(row, forward)[n], row->scores[n],
                             sample_value(row, d->c->weight)[n]);
        AuExpr right = d->c->weight;
        closed_say(d->c, &right, 1);
        AuText text = {.arena = d->arena};
        attn_print_expr(a, right, &text);
        au_add_note(d->diags, e, a->online->span, "by the row scales it is %s", au_text_str(&text));
        return false;
    }
    return true;
}

/* A maximum is held still: what reaches it through all finals together must cancel, for every pair. */
bool derive_check_maxima(AuDeriver *d)
{
    const AuOnline *o = d->a->online;
    for (uint32_t m = 0; m < d->maximum_count; m++)
        for (uint32_t i = 0; i < d->c->samples->count; i++) {
            AuSample *row = &d->c->samples->rows[i];
            for (uint32_t pair = 0; pair < row->count && !row->unusable; pair++) {
                double total = 0, size = 0;
                for (uint32_t n = 0; n < o->final_count; n++) {
                    if (!d->pull[m][n].i || !d->finals[n].share.i) continue;
                    total += sample_value(row, d->finals[n].share)[pair] *
                             sample_value(row, d->pull[m][n])[pair];
                    size += sample_size(row, d->finals[n].share)[pair] *
                            sample_size(row, d->pull[m][n])[pair];
                }
                if (fabs(total) <= 1e-9 * size) continue;
                au_error(d->diags, AU_E0424, attn_at(d->a, d->maxima[m])->span,
                         "the weights depend on this maximum itself: its derivative is %.6g for a "
                         "score of %.6g, where a maximum that only stabilises has 0",
                         total, row->scores[pair]);
                return false;
            }
        }
    return true;
}

/* The adjoints of a random row, without gradients from outside. */
static void fill_adjoints(AuDeriver *d, AuSample *row)
{
    const double *f = sample_value(row, d->a->online->forward);
    row->delta = row->delta_size = 0;
    for (uint32_t n = 0; n < row->count; n++) {
        row->weights[n] = f[n];
        row->delta += f[n] * row->dweights[n];
        row->delta_size += fabs(f[n] * row->dweights[n]);
    }
    sample_forget(row);
    for (uint32_t k = 0; k < d->g->pass_count; k++) {
        const double *x = sample_value(row, d->g->pass[k]), *s = sample_size(row, d->g->pass[k]);
        row->passes[k] = row->pass_sizes[k] = 0;
        for (uint32_t n = 0; n < row->count; n++)
            row->passes[k] += x[n], row->pass_sizes[k] += s[n];
    }
    for (uint32_t n = 0; n < d->a->online->final_count; n++) {
        row->adjoints[n] = sample_value(row, d->g->adjoint[n])[0];
        row->adjoint_sizes[n] = sample_size(row, d->g->adjoint[n])[0];
    }
}

static void explain_backward(AuDeriver *d, AuDiag *e)
{
    AuAttn *a = d->a;
    AuText text = {.arena = d->arena};
    attn_print_expr(a, d->dscore, &text);
    au_add_note(d->diags, e, a->online->span, "the derivative of forward and the row scales is %s",
                au_text_str(&text));
    for (uint32_t n = 0; n < a->online->final_count; n++) {
        AuText adjoint = {.arena = d->arena};
        attn_print_expr(a, d->g->adjoint[n], &adjoint);
        au_add_note(d->diags, e, a->online->finals[n].span,
                    "with adjoint.%s = %s, where $delta is rowsum(dp * p)",
                    a->online->finals[n].name, au_text_str(&adjoint));
    }
}

bool derive_check_backward(AuDeriver *d)
{
    const AuExpr backward = d->a->online->backward;
    if (!backward.i) return true;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        fill_adjoints(d, row);
        const uint32_t n = first_difference(row, backward, d->dscore);
        if (n == row->count) continue;
        AuDiag *e = au_error(d->diags, AU_E0422, attn_at(d->a, backward)->span,
                             "backward gives %.9g for a pair with dp = %.9g and p = %.9g, the "
                             "derivative is %.9g",
                             sample_value(row, backward)[n], row->dweights[n], row->weights[n],
                             sample_value(row, d->dscore)[n]);
        explain_backward(d, e);
        return false;
    }
    return true;
}
