/* findings.c - see findings.h. The laws of online functions are tried by laws.c; here is what the right
 * clause would be, and gradients against central differences.
 * What a forgotten rescaling should be: the weight u(s, R) of a pair after a tile is that of a whole
 * row with the new row scales R'. What was added up before has weights u(s, R), so that its factor is
 * u(s, R') / u(s, R), which is of the row where the function is of this kind at all; sums of the row
 * likewise. */
#include "findings.h"

#include <math.h>
#include <string.h>

#include "algebra.h"
#include "closed_form.h"
#include "gradient.h"

static const AuExpr none = {0};

typedef struct Checker {
    AuAttn *a;
    AuArena *arena;
    const AuDiags *sources;
    AuFindings out;
} Checker;

static void find(Checker *c, const char *clause, AuSpan span, const char *message,
                 const char *right)
{
    const AuFinding f = {clause, message, right, span, NAN, NAN};
    AU_PUSH(c->arena, c->out.at, c->out.count, c->out.capacity, f);
}

static const char *text_of(Checker *c, AuExpr e)
{
    AuText text = {.arena = c->arena};
    attn_print_expr(c->a, e, &text);
    return au_text_str(&text);
}

/* ---- what rescaling would be right */

/* after / before in normal form, if it is of the row. */
static AuExpr ratio(AuAttn *a, AuExpr after, AuExpr before, AuSpan span)
{
    const AuExpr r = algebra_normal(a, attn_op2(a, AU_OP_DIV, after, before, span));
    return attn_at(a, r)->axes & AU_AX_KV ? none : r;
}

/* t + rowsum(x): x, and t in *rest. */
static AuExpr summand(const AuAttn *a, AuExpr e, AuExpr *rest)
{
    if (attn_at(a, e)->op != AU_OP_ADD) return none;
    for (uint32_t n = 0; n < 2; n++) {
        const AuExpr sum = attn_arg(a, e, n);
        *rest = attn_arg(a, e, 1 - n);
        if (attn_at(a, sum)->op == AU_OP_ROWSUM) return attn_arg(a, sum, 0);
    }
    return none;
}

/* Of row scale [n], where the sum is rescaled otherwise than its terms; NULL: nothing is wrong with
 * it, or it is not known. */
static const char *right_sum(Checker *c, const AuClosed *closed, uint32_t n)
{
    AuAttn *a = c->a;
    const AuRowScale *s = &a->online->scales[n];
    AuExpr rest;
    const AuExpr now = summand(a, s->next, &rest);
    if (!now.i || attn_at(a, closed->last[n])->op != AU_OP_ROWSUM) return NULL;
    const AuExpr whole = closed_states(closed, attn_arg(a, closed->last[n], 0));
    const AuExpr factor = ratio(a, now, whole, s->span);
    if (!factor.i) return NULL;
    const AuExpr scaled = algebra_normal(
        a, attn_op2(a, AU_OP_MUL, closed_row_leaf(a, AU_OP_STATE, n), factor, s->span));
    if (scaled.i == algebra_normal(a, rest).i) return NULL;
    return au_format(c->arena, "%s = %s * %s + rowsum(..), found %s + rowsum(..)", s->name, s->name,
                     text_of(c, factor), text_of(c, rest));
}

static const char *right_rescale(Checker *c, const AuClosed *closed)
{
    AuAttn *a = c->a;
    const AuOnline *o = a->online;
    const AuExpr factor = ratio(a, o->weight, closed->tile, o->span);
    if (!factor.i || factor.i == algebra_normal(a, o->rescale).i) return NULL;
    return au_format(c->arena, "the factor of the output so far is %s, found %s",
                     text_of(c, factor), text_of(c, o->rescale));
}

static const char *right_combine(Checker *c)
{
    AuAttn *a = c->a;
    AuOnline *o = a->online;
    AuText text = {.arena = c->arena};
    AuOnline given = *o;
    AuRowScale *scales = AU_NEW_ARRAY(c->arena, AuRowScale, o->scale_count);
    if (o->scale_count) memcpy(scales, o->scales, o->scale_count * sizeof *scales);
    o->has_combine = false;
    if (attn_derive_combine(a)) {
        for (uint32_t i = 0; i < o->scale_count; i++)
            au_text_add(&text, "%s = %s; ", o->scales[i].name, text_of(c, o->scales[i].combined));
        au_text_add(&text, "return %s, %s", text_of(c, o->combine_a), text_of(c, o->combine_b));
    }
    if (o->scale_count) memcpy(o->scales, scales, o->scale_count * sizeof *scales);
    *o = given;
    return text.length ? au_text_str(&text) : NULL;
}

/* What would be right, for what the laws have found. */
static void explain_laws(Checker *c)
{
    AuDiags *quiet = au_diags_new(c->arena);
    const AuClosed *closed = closed_form(c->a, c->arena, quiet);
    for (uint32_t i = 0; i < c->out.count; i++) {
        AuFinding *f = &c->out.at[i];
        if (strcmp(f->clause, "combine") == 0) f->right = right_combine(c);
        if (strcmp(f->clause, "online_fwd") != 0 || !closed) continue;
        for (uint32_t n = 0; n < c->a->online->scale_count && !f->right; n++)
            f->right = right_sum(c, closed, n);
        if (!f->right) f->right = right_rescale(c, closed);
    }
}

/* ---- gradients */

/* What attn_gradients says becomes findings: the clause is what the code is about. */
static void take_errors(Checker *c, const AuDiags *diags)
{
    for (const AuDiag *d = diags->first; d; d = d->next) {
        const char *clause = d->code == AU_E0420   ? "online_fwd_epilogue"
                             : d->code == AU_E0421 ? "forward"
                             : d->code == AU_E0422 ? "backward"
                             : d->code == AU_E0423 ? "weight_mod"
                                                   : "online_fwd";
        bool known = false; /* the laws say it, too */
        for (uint32_t i = 0; i < c->out.count; i++) {
            if (strcmp(c->out.at[i].clause, clause) != 0) continue;
            known = true;
            if (!c->out.at[i].right && d->notes) c->out.at[i].right = d->notes->message;
        }
        if (d->severity == AU_ERROR && !known)
            find(c, clause, d->span, d->message, d->notes ? d->notes->message : NULL);
    }
}

static bool has_stop_grad(const AuAttn *a, AuArena *arena)
{
    AuRoot *roots;
    const uint32_t count = attn_roots(a, arena, &roots);
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    for (uint32_t i = 0; i < count; i++) attn_mark(a, *roots[i].at, mark);
    return attn_has_marked(a, mark, AU_OP_STOP_GRAD);
}

typedef struct Differences {
    Checker *c;
    AuOracleCall call;
    double **tensors, *o, *dout, **grads;
    size_t *counts, outs;
    bool failed;
} Differences;

static double loss(void *user)
{
    Differences *d = user;
    const char *why;
    double sum = 0;
    AuArena *scratch = au_arena_new(NULL);
    d->failed |= !scratch || !attn_interpret(d->c->a, &d->call, scratch, &why);
    au_arena_free(scratch);
    for (size_t n = 0; n < d->outs; n++) sum += d->dout[n] * d->o[n];
    return sum;
}

double attn_difference(double *x, double step, double (*value)(void *), void *user)
{
    const double at = *x;
    double f[4];
    for (int n = 0; n < 4; n++) {
        *x = at + step * (n < 2 ? n - 2 : n - 1);
        f[n] = value(user);
    }
    *x = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
}

/* A few elements of one tensor. */
static void compare(Differences *d, uint32_t t)
{
    enum { ELEMENTS = 12 };
    Checker *c = d->c;
    const size_t count = d->counts[t], stride = count / ELEMENTS + 1;
    double size = 0;
    for (size_t n = 0; n < count; n++) size = fmax(size, fabs(d->grads[t][n]));
    for (size_t n = 0; n < count; n += stride) {
        const double found = d->grads[t][n];
        double step = 1e-2, expected;
        do { /* smaller ones where there is a kink near by */
            step *= 0.1;
            expected = attn_difference(&d->tensors[t][n], step, loss, d);
        } while (step > 1e-5 && !(fabs(found - expected) <= 1e-7 * (size + fabs(expected))));
        if (d->failed || fabs(found - expected) <= 1e-6 * (size + fabs(expected)) + 1e-9) continue;
        const char *clause = au_format(c->arena, "d%s", c->a->tensors[t].name);
        find(c, clause, c->a->tensors[t].span,
             au_format(c->arena,
                       "element %zu of the gradient of '%s' is %.9g, central differences give %.9g",
                       n, c->a->tensors[t].name, found, expected),
             NULL);
        c->out.at[c->out.count - 1].found = found;
        c->out.at[c->out.count - 1].expected = expected;
        return;
    }
}

static bool is_all_zero(const Differences *d, uint32_t t)
{
    for (size_t n = 0; n < d->counts[t]; n++)
        if (d->grads[t][n] != 0) return false;
    return true;
}

/* Of the axes [first, end) of a tensor. */
static size_t elements(const AuAttn *a, uint32_t tensor, const AuOracleCall *call, uint32_t first,
                       uint32_t end)
{
    size_t count = 1;
    for (uint32_t n = first; n < end; n++)
        count *= (size_t)attn_scalar(a, a->tensors[tensor].axes[n], call->sizes, call->params);
    return count;
}

static void prepare(Differences *d, const AuOracleCall *call)
{
    const AuAttn *a = d->c->a;
    AuArena *m = d->c->arena;
    d->call = *call;
    d->tensors = AU_NEW_ARRAY(m, double *, a->tensor_count);
    d->grads = AU_NEW_ARRAY(m, double *, a->tensor_count);
    d->counts = AU_NEW_ARRAY(m, size_t, a->tensor_count);
    for (uint32_t t = 0; t < a->tensor_count; t++) {
        if (t == 2 && a->v_in_k) continue;
        d->counts[t] = elements(a, t, call, 0, a->tensors[t].rank);
        d->tensors[t] = AU_NEW_ARRAY(m, double, d->counts[t]);
        d->grads[t] = AU_NEW_ARRAY(m, double, d->counts[t]);
        memcpy(d->tensors[t], call->tensors[t], d->counts[t] * sizeof(double));
    }
    d->outs = elements(a, 0, call, 0, 3) * elements(a, 2, call, 3, 4);
    d->o = AU_NEW_ARRAY(m, double, d->outs);
    d->dout = AU_NEW_ARRAY(m, double, d->outs);
    for (size_t n = 0; n < d->outs; n++) d->dout[n] = sin((double)n + 1); /* any numbers */
    d->call.tensors = (const double *const *)d->tensors;
    d->call.o = d->o;
    d->call.finals = NULL;
    d->call.weights = NULL;
    d->call.round_to = AU_DT_OPERAND;
}

static void compare_all(Checker *c, const AuGrads *g, const AuOracleCall *call)
{
    const AuAttn *a = c->a;
    Differences d = {.c = c};
    const char *why;
    prepare(&d, call);
    if (!attn_interpret_gradients(a, g, &d.call, d.dout, NULL, d.grads, c->arena, &why)) {
        find(c, "gradients", a->span, why, NULL);
        return;
    }
    const uint32_t before = c->out.count;
    for (uint32_t t = 0; t < a->tensor_count; t++) {
        if (!d.tensors[t] || (t >= 3 && !a->tensors[t].grad)) continue;
        compare(&d, t);
        if (is_all_zero(&d, t))
            c->out.all_zero = c->out.all_zero ? au_format(c->arena, "%s, d%s", c->out.all_zero,
                                                          a->tensors[t].name)
                                              : au_format(c->arena, "d%s", a->tensors[t].name);
    }
    c->out.has_differences = c->out.count == before;
    if (!c->out.has_differences) c->out.why_not = "they differ";
}

AuFindings attn_check(AuAttn *a, const AuOracleCall *call, AuArena *arena, const AuDiags *sources)
{
    Checker c = {.a = a, .arena = arena, .sources = sources};
    AuDiags *diags = au_diags_new(arena);
    c.out.why_not = "there are no arguments to try them on";
    if (!a->online) {
        c.out.why_not = "a recurrence";
        return c.out;
    }
    attn_try_laws(a, arena, &c.out);
    explain_laws(&c);
    const AuGrads *g = attn_gradients(a, arena, diags);
    take_errors(&c, diags);
    c.out.grads = g;
    if (!g)
        c.out.why_not = "there are no gradients";
    else if (has_stop_grad(a, arena))
        c.out.why_not = "stop_grad, which differences do not know";
    else if (call)
        compare_all(&c, g, call);
    return c.out;
}
