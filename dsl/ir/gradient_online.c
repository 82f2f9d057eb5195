/* gradient_online.c - from the online function to the gradient of a score, as if there were no mods:
 *   1. the closed form (closed_form.c); forward is compared with it, or made of it
 *   2. each final differentiated over the whole row: dR/ds, dR/d(input), said by finals. A running
 *      maximum is held still: its own derivative must cancel, which is tried on random rows
 *   3. forward differentiated: f_s, f_R. Where f_R = g f with g of the row, rowsum(dP f_R) is g times
 *      delta, since the weights make the output; else a sum of the extra pass
 *   4. together they make the gradient of a score; a user's backward is compared with it */
#include "deriver.h"

#include <math.h>

#include "algebra.h"

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

/* ---- 1. forward */

static bool settle_forward(AuDeriver *d)
{
    AuOnline *o = d->a->online;
    if (o->forward.i) return derive_check_forward(d);
    o->forward = d->c->weight;
    closed_say(d->c, &o->forward, 1);
    o->forward = attn_simplify_expr(d->a, o->forward);
    return true;
}

/* ---- 2. finals over the whole row */

/* The parts of an adjoint, or the terms within them, sum to 0 on every random row, though they are not 0. */
static bool cancels(void *user, const AuParts *parts)
{
    const AuDeriver *d = user;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        double total = 0, size = 0;
        if (row->unusable) continue;
        for (uint32_t n = 0; n < parts->count; n++) {
            const double part = sample_value(row, parts->at[n])[0];
            total += part;
            size += sample_size(row, parts->at[n])[0];
        }
        if (!(fabs(total) <= 1e-11 * size)) return false;
    }
    return true;
}

static void note_maximum(AuDeriver *d, AuExpr maximum, uint32_t final, AuExpr pull)
{
    uint32_t m = 0;
    while (m < d->maximum_count && d->maxima[m].i != maximum.i) m++;
    if (m == d->maximum_count) d->maxima[d->maximum_count++] = maximum;
    d->pull[m][final] = pull;
    d->finals[final].is_held = true;
}

/* In terms of row scales. Returns the first sum over the row that is left; none: there is none. */
static AuExpr settle_states(AuDeriver *d, AuInputGrads *in)
{
    AuExpr left = none;
    for (uint32_t i = 0; i < in->count; i++) {
        in->at[i].value = closed_states(d->c, in->at[i].value);
        if (!left.i) left = closed_first_sum(d->a, in->at[i].value);
    }
    return left;
}

/* dR/ds and dR/d(input) of one final. Returns the first sum over the row that no row scale holds; none: there is
 * none. [is_along]: what is computed from inputs alone gets its gradient pair by pair. */
static AuExpr differentiate_root(AuDeriver *d, uint32_t n, bool is_along)
{
    AuAttn *a = d->a;
    AuSlopes *f = &d->finals[n];
    const AuExpr root = d->c->finals[n];
    AuReverse *r = reverse_new(a, d->arena, root, AU_AX_KV, 1u << AU_OP_SCORE);
    r->cancels = cancels;
    r->user = d;
    r->is_along = is_along;
    reverse_run(r, root, (AuGuarded){derive_number(a, 1), none});
    for (uint32_t i = 1; i < r->count; i++)
        if (a->nodes[i].op == AU_OP_ROWMAX && r->active[i] && r->adjoint[i].value.i &&
            d->maximum_count < a->online->scale_count + 4)
            note_maximum(d, (AuExpr){i}, n, reverse_of(r, (AuExpr){i}));
    *f = (AuSlopes){.is_held = f->is_held};
    f->slope = closed_states(d->c, reverse_of(r, closed_pair_leaf(a, AU_OP_SCORE)));
    derive_take_inputs(d, r, false, &f->rows);
    derive_take_inputs(d, r, true, &f->along);
    const AuExpr left[] = {closed_first_sum(d->a, f->slope), settle_states(d, &f->rows),
                           settle_states(d, &f->along)};
    return left[0].i ? left[0] : left[1].i ? left[1] : left[2];
}

/* False: a message says what cannot be written down. */
static bool differentiate_final(AuDeriver *d, uint32_t n)
{
    AuExpr left = differentiate_root(d, n, false);
    if (left.i) left = differentiate_root(d, n, true);
    if (!left.i) return true;
    AuText text = {.arena = d->arena};
    attn_print_expr(d->a, left, &text);
    AuDiag *e = au_error(d->diags, AU_E0425, d->a->online->finals[n].span,
                         "the derivative of final '%s' needs a sum over the row that no row scale "
                         "holds",
                         d->a->online->finals[n].name);
    au_add_note(
        d->diags, e, (AuSpan){0},
        "the sum is %s: a row scale that online_fwd adds it up in, declared final, holds it",
        au_text_str(&text));
    return false;
}

bool derive_is_weight(const AuDeriver *d, AuExpr e)
{
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        const double *x = sample_value(row, e), *p = sample_value(row, d->a->online->forward);
        for (uint32_t n = 0; n < row->count; n++)
            if (!sample_near(x[n], p[n], 0)) return false;
    }
    return true;
}

/* F of a weight exp(score - F - R), where exp(score - F) is the weight too: R is what rounding took from F. */
static AuExpr rounded_final(AuDeriver *d)
{
    AuAttn *a = d->a;
    const AuExpr e = a->online->forward, score = closed_pair_leaf(a, AU_OP_SCORE);
    if (attn_at(a, e)->op != AU_OP_EXP) return none;
    const AuExpr whole = attn_arg(a, e, 0);
    if (attn_at(a, whole)->op != AU_OP_SUB) return none;
    const AuExpr first = attn_arg(a, whole, 0);
    if (attn_at(a, first)->op != AU_OP_SUB || attn_arg(a, first, 0).i != score.i) return none;
    const AuExpr final = attn_arg(a, first, 1);
    return attn_at(a, final)->op == AU_OP_FINAL &&
                   derive_is_weight(d, attn_op1(a, AU_OP_EXP, first, nowhere))
               ? final
               : none;
}

/* Is [e] the raw product times factors, or bounded, so that it is far from 0 only where queries and keys are? */
static bool only_scales(const AuDeriver *d, AuExpr e)
{
    static const bool products[AU_OP_COUNT] = {[AU_OP_SCORE] = true};
    static const bool scales[AU_OP_COUNT] = {[AU_OP_MUL] = true,
                                             [AU_OP_DIV] = true,
                                             [AU_OP_NEG] = true,
                                             [AU_OP_ABS] = true,
                                             [AU_OP_TANH] = true};
    return derive_is_made_by(d, e, products, scales);
}

/* Does what the epilogue gives ask an input, as a sink is one? */
static bool online_reads_inputs(const AuDeriver *d)
{
    const AuOnline *online = d->a->online;
    bool *mark = AU_NEW_ARRAY(d->arena, bool, d->a->node_count);
    attn_mark(d->a, online->epilogue, mark);
    for (uint32_t n = 0; n < online->final_count; n++)
        if (online->finals[n].value.i) attn_mark(d->a, online->finals[n].value, mark);
    for (uint32_t n = 0; n < online->scale_count; n++)
        attn_mark(d->a, online->scales[n].start, mark);
    return attn_has_marked(d->a, mark, AU_OP_INPUT) || attn_has_marked(d->a, mark, AU_OP_PARAM);
}

/* R costs a row of memory and registers. Where nothing is added to products, rows far from 0 are those of queries and keys far from 0, whose
 * products round by as much: the weight is exp(score - F) there. */
static void leave_rest_out(AuDeriver *d)
{
    AuAttn *a = d->a;
    const AuExpr final = rounded_final(d);
    if (!final.i || !only_scales(d, a->score_mod) || online_reads_inputs(d)) return;
    const AuExpr rest = attn_arg(a, attn_arg(a, a->online->forward, 0), 1);
    const uint32_t last = a->online->final_count - 1;
    if (attn_at(a, rest)->op != AU_OP_FINAL || attn_at(a, rest)->integer != (int32_t)last ||
        !a->online->finals[last].kept)
        return;
    const AuExpr score = closed_pair_leaf(a, AU_OP_SCORE);
    a->online->final_count = last;
    a->online->forward =
        attn_op1(a, AU_OP_EXP, attn_op2(a, AU_OP_SUB, score, final, nowhere), nowhere);
}

static AuExpr rest_of(void *user, AuAttn *a, AuExpr node, const AuExpr *args)
{
    const AuExpr *final = user;
    const AuNode *of = attn_at(a, node)->op == AU_OP_EXP ? attn_at(a, args[0]) : NULL;
    if (of && of->op == AU_OP_SUB && attn_arg(a, args[0], 1).i == final->i)
        return derive_with(a, a->online->forward, AU_OP_SCORE, attn_arg(a, args[0], 0));
    return attn_with_args(a, node, args);
}

/* [value] with forward at e in place of exp(e - F), so that what weighs beside the keys, as a sink does, has R as well. */
static AuExpr with_rest(AuDeriver *d, AuExpr value, AuExpr F)
{
    return F.i ? attn_remake(d->a, value, rest_of, &F) : value;
}

/* Row scales in the derivatives are said by finals, which may add finals. A slope that is the weight, as lse's is, becomes the
 * script's own expression of it: one exp for both, and as exact where a row is far from 0. */
static void say_final(AuDeriver *d, AuSlopes *f)
{
    AuParts all = {0};
    AU_PUSH(d->arena, all.at, all.count, all.capacity, f->slope);
    for (uint32_t i = 0; i < f->rows.count; i++)
        AU_PUSH(d->arena, all.at, all.count, all.capacity, f->rows.at[i].value);
    for (uint32_t i = 0; i < f->along.count; i++)
        AU_PUSH(d->arena, all.at, all.count, all.capacity, f->along.at[i].value);
    closed_say(d->c, all.at, all.count);
    uint32_t at = 0;
    f->slope = attn_simplify_expr(d->a, all.at[at++]);
    if (f->slope.i && derive_is_weight(d, f->slope)) f->slope = d->a->online->forward;
    const AuExpr rounded = rounded_final(d);
    for (uint32_t i = 0; i < f->rows.count; i++)
        f->rows.at[i].value = with_rest(d, all.at[at++], rounded);
    for (uint32_t i = 0; i < f->along.count; i++)
        f->along.at[i].value = with_rest(d, all.at[at++], rounded);
}

static bool differentiate_finals(AuDeriver *d)
{
    const uint32_t scales = d->a->online->scale_count;
    const uint32_t room = d->a->online->final_count + 2 * scales + 1;
    d->finals = AU_NEW_ARRAY(d->arena, AuSlopes, room);
    d->maxima = AU_NEW_ARRAY(d->arena, AuExpr, scales + 4);
    d->pull = AU_NEW_ARRAY(d->arena, AuExpr *, scales + 4);
    for (uint32_t m = 0; m < scales + 4; m++) d->pull[m] = AU_NEW_ARRAY(d->arena, AuExpr, room);
    for (; d->done < d->a->online->final_count; d->done++) {
        if (!differentiate_final(d, d->done)) return false;
        say_final(d, &d->finals[d->done]);
    }
    return true;
}

/* ---- 3. forward */

static void differentiate_forward(AuDeriver *d)
{
    AuAttn *a = d->a;
    const AuExpr f = a->online->forward;
    AuReverse *r = reverse_new(a, d->arena, f, 0, 1u << AU_OP_SCORE | 1u << AU_OP_FINAL);
    reverse_run(r, f, (AuGuarded){derive_number(a, 1), none});
    d->own = attn_simplify_expr(a, reverse_of(r, closed_pair_leaf(a, AU_OP_SCORE)));
    for (uint32_t n = 0; n < a->online->final_count; n++)
        d->finals[n].share =
            attn_simplify_expr(a, reverse_of(r, closed_row_leaf(a, AU_OP_FINAL, n)));
    derive_take_inputs(d, r, false, &d->direct);
}

/* g of f_R = g f, of the row; none: there is none. */
static AuExpr common_factor(AuDeriver *d, AuExpr share)
{
    AuAttn *a = d->a;
    const AuExpr f = a->online->forward;
    const AuExpr g = algebra_normal(a, attn_op2(a, AU_OP_DIV, share, f, nowhere));
    if (attn_at(a, g)->axes & AU_AX_KV) return none;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        const double *x = sample_value(row, share), *y = sample_value(row, f);
        for (uint32_t n = 0; n < row->count; n++)
            if (!sample_near(x[n], y[n] * sample_value(row, g)[n], 1e-6)) return none;
    }
    return attn_simplify_expr(a, g);
}

/* A final that is a running maximum, or stands on one, moves with one score alone: which one, a kernel
 * that computes scores again cannot say reliably. */
static void warn_held(const AuDeriver *d, uint32_t n)
{
    const AuFinal *f = &d->a->online->finals[n];
    au_warning(d->diags, AU_W0402, f->span,
               "'%s' depends on a running maximum itself: it takes no gradient, one given for it "
               "is refused",
               f->name);
}

/* delta g. A row without a pair has delta 0, and start values for finals, of which g may be infinite:
 * no matter for pairs, of which there are none, but for inputs that the row reads. */
static AuExpr shared_delta(const AuDeriver *d, AuExpr factor, bool reads)
{
    AuAttn *a = d->a;
    const AuExpr delta = closed_row_leaf(a, AU_OP_DELTA, 0), zero = derive_number(a, 0);
    const AuExpr term = derive_product(a, delta, factor);
    if (!reads || attn_at(a, factor)->op == AU_OP_F32) return term;
    return attn_where(a, attn_op2(a, AU_OP_NE, delta, zero, nowhere), term, zero, nowhere);
}

/* The whole gradient of final n. */
static bool settle_adjoint(AuDeriver *d, uint32_t n)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    const AuSlopes *f = &d->finals[n];
    const bool kept = a->online->finals[n].kept;
    AuExpr adjoint = f->is_held || kept ? none : closed_row_leaf(a, AU_OP_DFINAL, n);
    if (f->is_held && !kept) warn_held(d, n);
    const bool is_used = f->slope.i || f->rows.count || f->along.count;
    if (f->share.i && is_used) {
        const AuExpr factor = common_factor(d, f->share);
        if (factor.i)
            adjoint = derive_sum(a, adjoint, shared_delta(d, factor, f->rows.count > 0));
        else if (g->pass_count == AU_MAX_PASSES) {
            au_error(d->diags, AU_E0425, a->online->span,
                     "the gradient needs more than %d sums of an extra pass over the row",
                     AU_MAX_PASSES);
            return false;
        } else {
            g->pass[g->pass_count] =
                derive_product(a, closed_pair_leaf(a, AU_OP_DWEIGHT), f->share);
            adjoint = derive_sum(a, adjoint, closed_row_leaf(a, AU_OP_PASS, g->pass_count++));
        }
    }
    g->adjoint[n] = adjoint.i ? adjoint : derive_number(a, 0);
    return true;
}

/* ---- 4. the gradient of a score: terms with the same factor together, p (dp - delta) */

typedef struct Terms {
    AuExpr *key, *factor, *rest;
    uint32_t count;
} Terms;

static void add_term(AuDeriver *d, Terms *t, AuExpr factor, AuExpr rest)
{
    const AuExpr key = algebra_normal(d->a, factor);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->key[i].i == key.i) {
            t->rest[i] = derive_sum(d->a, t->rest[i], rest);
            return;
        }
    t->key[t->count] = key;
    t->factor[t->count] = factor;
    t->rest[t->count++] = rest;
}

static void gather_dscore(AuDeriver *d)
{
    AuAttn *a = d->a;
    const uint32_t finals = a->online->final_count;
    Terms t = {AU_NEW_ARRAY(d->arena, AuExpr, finals + 1),
               AU_NEW_ARRAY(d->arena, AuExpr, finals + 1),
               AU_NEW_ARRAY(d->arena, AuExpr, finals + 1), 0};
    if (d->own.i) add_term(d, &t, d->own, closed_pair_leaf(a, AU_OP_DWEIGHT));
    for (uint32_t n = 0; n < finals; n++)
        if (d->finals[n].slope.i && attn_at(a, d->g->adjoint[n])->op != AU_OP_F32)
            add_term(d, &t, d->finals[n].slope, closed_row_leaf(a, AU_OP_ADJOINT, n));
    for (uint32_t i = 0; i < t.count; i++)
        d->dscore = derive_sum(a, d->dscore, derive_product(a, t.factor[i], t.rest[i]));
    if (!d->dscore.i) d->dscore = derive_number(a, 0);
}

bool derive_online(AuDeriver *d)
{
    const AuOnline *o = d->a->online;
    d->c = closed_form(d->a, d->arena, d->diags);
    if (!d->c || !settle_forward(d)) return false;
    leave_rest_out(d);
    if (!differentiate_finals(d)) return false;
    differentiate_forward(d);
    if (!derive_check_maxima(d)) return false;
    d->g->adjoint = AU_NEW_ARRAY(d->arena, AuExpr, o->final_count);
    for (uint32_t n = 0; n < o->final_count; n++)
        if (!settle_adjoint(d, n)) return false;
    gather_dscore(d);
    d->g->weights_are_parts = derive_weights_are_parts(d);
    return derive_check_backward(d);
}
