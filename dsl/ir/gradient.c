/* gradient.c - see gradient.h. The order of things:
 *   1. the closed form of the online function (closed_form.c); forward is compared with it, or made
 *      of it
 *   2. each final differentiated over the whole row: dR/ds, dR/d(input), said by finals. A running
 *      maximum is held still: its own derivative must cancel, which is tried on random rows
 *   3. forward differentiated: f_s, f_R. Where f_R = g f with g of the row, rowsum(dP f_R) is g times
 *      delta, since the weights make the output; else a sum of the extra pass
 *   4. together they make the gradient of a score; a user's backward is compared with it
 *   5. weight_mod before it, score_mod behind it, and the row mods by themselves */
#include "gradient.h"

#include <math.h>

#include "algebra.h"
#include "closed_form.h"
#include "factors.h"
#include "reverse.h"

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

/* What is known of a final. */
typedef struct Final {
    AuExpr slope;       /* dR/ds: of SCORE and FINAL; none: 0 */
    AuExpr share;       /* f_R */
    bool is_held;       /* stands on a running maximum itself, and takes no gradient from outside */
    AuInputGrads rows;  /* dR/d(input), of the row */
    AuInputGrads along; /* the same for each pair */
} Final;

typedef struct Deriver {
    AuAttn *a;
    AuArena *arena;
    AuDiags *diags;
    AuClosed *c;
    AuGrads *g;
    Final *finals;          /* room for every row scale to become one */
    uint32_t done;          /* finals that are differentiated */
    AuExpr *maxima, **pull; /* ROWMAX nodes, and d(final)/d(maximum) of each */
    uint32_t maximum_count;
    AuExpr own;          /* f_s */
    AuExpr dscore;       /* gradient of a score, as if there were no weight_mod */
    AuInputGrads direct; /* df/d(input) */
} Deriver;

static AuExpr number(AuAttn *a, double value) { return attn_f32(a, value, nowhere); }

static AuExpr product(AuAttn *a, AuExpr x, AuExpr y)
{
    return attn_simplify_expr(a, attn_op2(a, AU_OP_MUL, x, y, nowhere));
}

static AuExpr sum(AuAttn *a, AuExpr x, AuExpr y)
{
    if (!x.i || !y.i) return x.i ? x : y;
    return attn_simplify_expr(a, attn_op2(a, AU_OP_ADD, x, y, nowhere));
}

/* ---- leaves replaced */

typedef struct Replacing {
    AuOp op;
    AuExpr by;
} Replacing;

static AuExpr replace(void *user, AuAttn *a, AuExpr leaf)
{
    const Replacing *r = user;
    return attn_at(a, leaf)->op == r->op ? r->by : none;
}

static AuExpr with(AuAttn *a, AuExpr e, AuOp op, AuExpr by)
{
    Replacing r = {op, by};
    return by.i ? attn_substitute(a, e, replace, &r) : e;
}

/* ---- gradients of inputs */

static void add_input(Deriver *d, AuInputGrads *to, AuExpr read, AuExpr value)
{
    if (!value.i) return;
    for (uint32_t i = 0; i < to->count; i++)
        if (to->at[i].read.i == read.i) {
            to->at[i].value = sum(d->a, to->at[i].value, value);
            return;
        }
    const AuInputGrad grad = {(uint32_t)attn_at(d->a, read)->integer, read, value};
    AU_PUSH(d->arena, to->at, to->count, to->capacity, grad);
}

/* All reads with an adjoint; [along]: those for each pair of a row. */
static void take_inputs(Deriver *d, const AuReverse *r, bool along, AuInputGrads *to)
{
    for (uint32_t i = 1; i < r->count; i++)
        if (d->a->nodes[i].op == AU_OP_INPUT && r->active[i])
            add_input(d, to, (AuExpr){i},
                      along ? reverse_along(r, (AuExpr){i}) : reverse_of(r, (AuExpr){i}));
}

/* to += factor * from */
static void add_inputs(Deriver *d, AuInputGrads *to, const AuInputGrads *from, AuExpr factor)
{
    for (uint32_t i = 0; i < from->count; i++)
        add_input(d, to, from->at[i].read, product(d->a, from->at[i].value, factor));
}

static void replace_in_inputs(Deriver *d, AuInputGrads *in, AuOp op, AuExpr by)
{
    for (uint32_t i = 0; i < in->count; i++) {
        in->at[i].read = with(d->a, in->at[i].read, op, by);
        in->at[i].value = with(d->a, in->at[i].value, op, by);
    }
}

static void simplify_inputs(Deriver *d, AuInputGrads *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        in->at[i].value = attn_simplify_expr(d->a, in->at[i].value);
}

static bool nothing_lost(Deriver *d, const AuReverse *r)
{
    if (!r->lost.i) return true;
    au_error(d->diags, AU_E0425, attn_at(d->a, r->lost)->span,
             "no gradient goes through the position or the base of rope; stop_grad says that none "
             "is wanted");
    return false;
}

/* ---- 1. forward */

static bool check_forward(Deriver *d)
{
    AuAttn *a = d->a;
    const AuExpr forward = a->online->forward;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        const double *found = sample_value(row, forward), *wanted = sample_value(row, d->c->weight);
        double size = 0;
        for (uint32_t n = 0; n < row->count; n++) size += fabs(wanted[n]);
        for (uint32_t n = 0; n < row->count; n++) {
            if (sample_near(found[n], wanted[n], size)) continue;
            AuDiag *e = au_error(d->diags, AU_E0421, attn_at(a, forward)->span,
                                 "forward gives the weight %.9g for a score of %.9g, online_fwd "
                                 "and its epilogue give %.9g",
                                 found[n], row->scores[n], wanted[n]);
            AuExpr right = d->c->weight;
            closed_say(d->c, &right, 1);
            AuText text = {.arena = d->arena};
            attn_print_expr(a, right, &text);
            au_add_note(d->diags, e, a->online->span, "by the row scales it is %s",
                        au_text_str(&text));
            return false;
        }
    }
    return true;
}

static bool settle_forward(Deriver *d)
{
    AuOnline *o = d->a->online;
    if (o->forward.i) return check_forward(d);
    o->forward = d->c->weight;
    closed_say(d->c, &o->forward, 1);
    o->forward = attn_simplify_expr(d->a, o->forward);
    return true;
}

/* ---- 2. finals over the whole row */

/* The parts of an adjoint sum to 0 on every random row, though they are not 0. */
static bool cancels(void *user, const AuParts *parts)
{
    const Deriver *d = user;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        double total = 0, size = 0;
        if (row->unusable) continue;
        for (uint32_t n = 0; n < parts->count; n++) {
            const double part = sample_value(row, parts->at[n])[0];
            total += part;
            size += fabs(part);
        }
        if (!(fabs(total) <= 1e-9 * size)) return false;
    }
    return true;
}

static void note_maximum(Deriver *d, AuExpr maximum, uint32_t final, AuExpr pull)
{
    uint32_t m = 0;
    while (m < d->maximum_count && d->maxima[m].i != maximum.i) m++;
    if (m == d->maximum_count) d->maxima[d->maximum_count++] = maximum;
    d->pull[m][final] = pull;
    d->finals[final].is_held = true;
}

/* dR/ds and dR/d(input) of one final. False: a message says what cannot be written down. */
static bool differentiate_final(Deriver *d, uint32_t n)
{
    AuAttn *a = d->a;
    Final *f = &d->finals[n];
    const AuExpr root = d->c->finals[n];
    AuReverse *r = reverse_new(a, d->arena, root, AU_AX_KV, 1u << AU_OP_SCORE | 1u << AU_OP_ROWMAX);
    r->cancels = cancels;
    r->user = d;
    reverse_run(r, root, number(a, 1));
    for (uint32_t i = 1; i < r->count; i++)
        if (a->nodes[i].op == AU_OP_ROWMAX && r->active[i] && r->adjoint[i].value.i &&
            d->maximum_count < a->online->scale_count + 4)
            note_maximum(d, (AuExpr){i}, n, reverse_of(r, (AuExpr){i}));
    f->slope = closed_states(d->c, reverse_of(r, closed_pair_leaf(a, AU_OP_SCORE)));
    take_inputs(d, r, false, &f->rows);
    take_inputs(d, r, true, &f->along);
    bool has_sums = closed_has_sums(a, f->slope);
    for (uint32_t i = 0; i < f->rows.count; i++) {
        f->rows.at[i].value = closed_states(d->c, f->rows.at[i].value);
        has_sums |= closed_has_sums(a, f->rows.at[i].value);
    }
    for (uint32_t i = 0; i < f->along.count; i++) {
        f->along.at[i].value = closed_states(d->c, f->along.at[i].value);
        has_sums |= closed_has_sums(a, f->along.at[i].value);
    }
    if (has_sums)
        au_error(d->diags, AU_E0425, a->online->finals[n].span,
                 "the derivative of final '%s' needs a sum over the row that no row scale holds",
                 a->online->finals[n].name);
    return !has_sums;
}

/* Row scales in the derivatives are said by finals, which may add finals. */
static void say_final(Deriver *d, Final *f)
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
    for (uint32_t i = 0; i < f->rows.count; i++) f->rows.at[i].value = all.at[at++];
    for (uint32_t i = 0; i < f->along.count; i++) f->along.at[i].value = all.at[at++];
}

static bool differentiate_finals(Deriver *d)
{
    const uint32_t scales = d->a->online->scale_count;
    const uint32_t room = d->a->online->final_count + 2 * scales + 1;
    d->finals = AU_NEW_ARRAY(d->arena, Final, room);
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

static void differentiate_forward(Deriver *d)
{
    AuAttn *a = d->a;
    const AuExpr f = a->online->forward;
    AuReverse *r = reverse_new(a, d->arena, f, 0, 1u << AU_OP_SCORE | 1u << AU_OP_FINAL);
    reverse_run(r, f, number(a, 1));
    d->own = attn_simplify_expr(a, reverse_of(r, closed_pair_leaf(a, AU_OP_SCORE)));
    for (uint32_t n = 0; n < a->online->final_count; n++)
        d->finals[n].share =
            attn_simplify_expr(a, reverse_of(r, closed_row_leaf(a, AU_OP_FINAL, n)));
    take_inputs(d, r, false, &d->direct);
}

/* A maximum is held still: what reaches it through all finals together must cancel, for every pair. */
static bool check_maxima(Deriver *d)
{
    const AuOnline *o = d->a->online;
    for (uint32_t m = 0; m < d->maximum_count; m++)
        for (uint32_t i = 0; i < d->c->samples->count; i++) {
            AuSample *row = &d->c->samples->rows[i];
            for (uint32_t pair = 0; pair < row->count && !row->unusable; pair++) {
                double total = 0, size = 0;
                for (uint32_t n = 0; n < o->final_count; n++) {
                    if (!d->pull[m][n].i || !d->finals[n].share.i) continue;
                    const double part = sample_value(row, d->finals[n].share)[pair] *
                                        sample_value(row, d->pull[m][n])[pair];
                    total += part;
                    size += fabs(part);
                }
                if (fabs(total) <= 1e-8 * size) continue;
                au_error(d->diags, AU_E0424, attn_at(d->a, d->maxima[m])->span,
                         "the weights depend on this maximum itself: its derivative is %.6g for a "
                         "score of %.6g, where a maximum that only stabilises has 0",
                         total, row->scores[pair]);
                return false;
            }
        }
    return true;
}

/* g of f_R = g f, of the row; none: there is none. */
static AuExpr common_factor(Deriver *d, AuExpr share)
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

/* The whole gradient of final n. */
static bool settle_adjoint(Deriver *d, uint32_t n)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    const Final *f = &d->finals[n];
    AuExpr adjoint = f->is_held ? none : closed_row_leaf(a, AU_OP_DFINAL, n);
    const bool is_used = f->slope.i || f->rows.count || f->along.count;
    if (f->share.i && is_used) {
        const AuExpr factor = common_factor(d, f->share);
        if (factor.i)
            adjoint = sum(a, adjoint, product(a, closed_row_leaf(a, AU_OP_DELTA, 0), factor));
        else if (g->pass_count == AU_MAX_PASSES) {
            au_error(d->diags, AU_E0425, a->online->span,
                     "the gradient needs more than %d sums of an extra pass over the row",
                     AU_MAX_PASSES);
            return false;
        } else {
            g->pass[g->pass_count] = product(a, closed_pair_leaf(a, AU_OP_DWEIGHT), f->share);
            adjoint = sum(a, adjoint, closed_row_leaf(a, AU_OP_PASS, g->pass_count++));
        }
    }
    g->adjoint[n] = adjoint.i ? adjoint : number(a, 0);
    return true;
}

/* ---- 4. the gradient of a score: terms with the same factor together, p (dp - delta) */

typedef struct Terms {
    AuExpr *key, *factor, *rest;
    uint32_t count;
} Terms;

static void add_term(Deriver *d, Terms *t, AuExpr factor, AuExpr rest)
{
    const AuExpr key = algebra_normal(d->a, factor);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->key[i].i == key.i) {
            t->rest[i] = sum(d->a, t->rest[i], rest);
            return;
        }
    t->key[t->count] = key;
    t->factor[t->count] = factor;
    t->rest[t->count++] = rest;
}

static void gather_dscore(Deriver *d)
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
        d->dscore = sum(a, d->dscore, product(a, t.factor[i], t.rest[i]));
    if (!d->dscore.i) d->dscore = number(a, 0);
}

/* The adjoints of a random row, without gradients from outside. */
static void fill_adjoints(Deriver *d, AuSample *row)
{
    const double *f = sample_value(row, d->a->online->forward);
    row->delta = 0;
    for (uint32_t n = 0; n < row->count; n++) {
        row->weights[n] = f[n];
        row->delta += f[n] * row->dweights[n];
    }
    sample_forget(row);
    for (uint32_t k = 0; k < d->g->pass_count; k++) {
        const double *x = sample_value(row, d->g->pass[k]);
        row->passes[k] = 0;
        for (uint32_t n = 0; n < row->count; n++) row->passes[k] += x[n];
    }
    for (uint32_t n = 0; n < d->a->online->final_count; n++)
        row->adjoints[n] = sample_value(row, d->g->adjoint[n])[0];
}

static void explain_backward(Deriver *d, AuDiag *e)
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

static bool check_backward(Deriver *d)
{
    const AuExpr backward = d->a->online->backward;
    if (!backward.i) return true;
    for (uint32_t i = 0; i < d->c->samples->count; i++) {
        AuSample *row = &d->c->samples->rows[i];
        if (row->unusable) continue;
        fill_adjoints(d, row);
        const double *found = sample_value(row, backward), *wanted = sample_value(row, d->dscore);
        double size = 0;
        for (uint32_t n = 0; n < row->count; n++) size += fabs(wanted[n]);
        for (uint32_t n = 0; n < row->count; n++) {
            if (sample_near(found[n], wanted[n], size)) continue;
            AuDiag *e = au_error(d->diags, AU_E0422, attn_at(d->a, backward)->span,
                                 "backward gives %.9g for a pair with dp = %.9g and p = %.9g, the "
                                 "derivative is %.9g",
                                 found[n], row->dweights[n], row->weights[n], wanted[n]);
            explain_backward(d, e);
            return false;
        }
    }
    return true;
}

/* ---- 5. mods */

/* Twice the weight must be twice the changed weight, since it comes before the output is rescaled. */
static bool check_weight_mod(Deriver *d)
{
    AuAttn *a = d->a;
    const AuExpr p = closed_pair_leaf(a, AU_OP_WEIGHT);
    const AuExpr twice = with(a, a->weight_mod, AU_OP_WEIGHT, product(a, p, number(a, 2)));
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
static bool pass_weight_mod(Deriver *d, AuExpr *weight, AuExpr *dweight)
{
    AuAttn *a = d->a;
    const AuExpr f = a->online->forward;
    *weight = f;
    *dweight = closed_pair_leaf(a, AU_OP_DWEIGHT);
    if (!a->weight_mod.i) return true;
    if (!check_weight_mod(d)) return false;
    AuReverse *r = reverse_new(a, d->arena, a->weight_mod, 0, 1u << AU_OP_WEIGHT);
    reverse_run(r, a->weight_mod, *dweight);
    const AuExpr leaf = closed_pair_leaf(a, AU_OP_WEIGHT);
    const AuExpr back = reverse_of(r, leaf);
    *dweight = back.i ? with(a, back, AU_OP_WEIGHT, f) : number(a, 0);
    *weight = with(a, a->weight_mod, AU_OP_WEIGHT, f);
    take_inputs(d, r, false, &d->g->pairs);
    replace_in_inputs(d, &d->g->pairs, AU_OP_WEIGHT, f);
    return true;
}

static bool needs_gradient(const AuAttn *a, const AuNode *dot)
{
    return dot->integer < 3 || dot->integer2 < 3 || a->tensors[dot->integer].grad ||
           a->tensors[dot->integer2].grad;
}

static bool take_dots(Deriver *d, const AuReverse *r)
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
static bool pass_score_mod(Deriver *d)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    const AuExpr raw = closed_pair_leaf(a, AU_OP_SCORE);
    AuExpr weight, dweight;
    if (!pass_weight_mod(d, &weight, &dweight)) return false;
    add_inputs(d, &g->pairs, &d->direct, dweight);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        add_inputs(d, &g->pairs, &d->finals[n].along, closed_row_leaf(a, AU_OP_ADJOINT, n));
    g->score = a->score_mod.i ? a->score_mod : raw;
    replace_in_inputs(d, &g->pairs, AU_OP_SCORE, g->score);
    g->weight = attn_simplify_expr(a, with(a, weight, AU_OP_SCORE, g->score));
    for (uint32_t k = 0; k < g->pass_count; k++) {
        const AuExpr pass = with(a, g->pass[k], AU_OP_DWEIGHT, dweight);
        g->pass[k] = attn_simplify_expr(a, with(a, pass, AU_OP_SCORE, g->score));
    }
    AuExpr seed = with(a, d->dscore, AU_OP_DWEIGHT, dweight);
    seed = attn_simplify_expr(a, with(a, seed, AU_OP_SCORE, g->score));
    AuReverse *r = reverse_new(a, d->arena, g->score, 0, 1u << AU_OP_SCORE | 1u << AU_OP_DOT);
    reverse_run(r, g->score, seed);
    const AuExpr dscore = reverse_of(r, raw);
    g->dscore = dscore.i ? dscore : number(a, 0);
    take_inputs(d, r, false, &g->pairs);
    return take_dots(d, r);
}

/* Behind score and weight, which are computed anyway, a pair costs as little as it can. */
static void order_factors(Deriver *d)
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

static bool pass_row_mod(Deriver *d, AuExpr mod, AuPlace place, AuRowGrad *out)
{
    AuAttn *a = d->a;
    const uint8_t axes = attn_element_axes(place);
    if (!mod.i) return true;
    const AuExpr x = attn_leaf(a, AU_OP_ELEMENT, AU_T_F32, axes, 0, 0, nowhere);
    const AuExpr dx = attn_leaf(a, AU_OP_DELEMENT, AU_T_F32, axes, 0, 0, nowhere);
    AuReverse *r = reverse_new(a, d->arena, mod, AU_AX_C, 1u << AU_OP_ELEMENT);
    reverse_run(r, mod, dx);
    const AuExpr value = reverse_of(r, x);
    out->value = value.i ? factors_in_order(a, value, AU_AX_C, &mod, 1) : number(a, 0);
    take_inputs(d, r, false, &out->inputs);
    for (uint32_t i = 0; i < out->inputs.count; i++)
        out->inputs.at[i].value = factors_in_order(a, out->inputs.at[i].value, AU_AX_C, &mod, 1);
    return nothing_lost(d, r);
}

static bool settle_rows(Deriver *d)
{
    AuAttn *a = d->a;
    AuGrads *g = d->g;
    for (uint32_t n = 0; n < a->online->final_count; n++)
        add_inputs(d, &g->rows, &d->finals[n].rows, closed_row_leaf(a, AU_OP_ADJOINT, n));
    simplify_inputs(d, &g->rows);
    g->keeps_output = a->out_mod.i != 0;
    return pass_row_mod(d, a->q_mod, AU_PLACE_Q_MOD, &g->q) &&
           pass_row_mod(d, a->k_mod, AU_PLACE_K_MOD, &g->k) &&
           pass_row_mod(d, a->v_mod, AU_PLACE_V_MOD, &g->v) &&
           pass_row_mod(d, a->out_mod, AU_PLACE_OUT_MOD, &g->out);
}

AuGrads *attn_gradients(AuAttn *a, AuArena *arena, AuDiags *diags)
{
    Deriver d = {.a = a, .arena = arena, .diags = diags, .g = AU_NEW(arena, AuGrads)};
    if (!a->online) {
        au_error(diags, AU_E0425, a->span, "gradients of a recurrence are not derived");
        return NULL;
    }
    d.c = closed_form(a, arena, diags);
    if (!d.c || !settle_forward(&d) || !differentiate_finals(&d)) return NULL;
    differentiate_forward(&d);
    if (!check_maxima(&d)) return NULL;
    d.g->adjoint = AU_NEW_ARRAY(arena, AuExpr, a->online->final_count);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        if (!settle_adjoint(&d, n)) return NULL;
    gather_dscore(&d);
    if (!check_backward(&d) || !pass_score_mod(&d) || !settle_rows(&d)) return NULL;
    order_factors(&d);
    return d.g;
}
