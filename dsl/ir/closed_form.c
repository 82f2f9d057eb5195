/* closed_form.c - see closed_form.h.
 * Putting row scales in terms of finals: a scale that is a final itself is that final. A running
 * maximum only stabilises, so that it may be any value, and the value that simplifies most is a
 * final: with m := lse, lse = m + log(r) gives r = 1, and exp(s - m) / r is exp(s - lse). The
 * others are solved for. On random rows this must change no expression; where it does, or where
 * nothing can be solved, the row scales become finals themselves. */
#include "closed_form.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

static const AuExpr none = {0};

AuExpr closed_row_leaf(AuAttn *a, AuOp op, uint32_t n)
{
    return attn_leaf(a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, (int32_t)n, 0, (AuSpan){0});
}

AuExpr closed_pair_leaf(AuAttn *a, AuOp op)
{
    return attn_leaf(a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0, 0, (AuSpan){0});
}

/* ---- the whole row */

typedef struct Replacing {
    AuOp op;
    const AuExpr *by; /* by the leaf's number; none: stays */
} Replacing;

static AuExpr replace(void *user, AuAttn *a, AuExpr leaf)
{
    const Replacing *r = user;
    const AuNode *n = attn_at(a, leaf);
    return n->op == r->op ? r->by[n->integer] : none;
}

static AuExpr with(AuAttn *a, AuExpr e, AuOp op, const AuExpr *by)
{
    Replacing r = {op, by};
    return attn_substitute(a, e, replace, &r);
}

static AuExpr factor_of(AuAttn *a)
{
    const AuExpr one = attn_f32(a, 1, (AuSpan){0});
    return algebra_normal(a, with(a, a->online->epilogue, AU_OP_ELEMENT, &one));
}

static bool is_one(const AuAttn *a, AuExpr e)
{
    return attn_at(a, e)->op == AU_OP_F32 && attn_at(a, e)->number == 1;
}

static void run_whole_row(AuClosed *c)
{
    AuAttn *a = c->a;
    const AuOnline *o = a->online;
    AuExpr *starts = AU_NEW_ARRAY(c->arena, AuExpr, o->scale_count);
    c->last = AU_NEW_ARRAY(c->arena, AuExpr, o->scale_count);
    c->finals = AU_NEW_ARRAY(c->arena, AuExpr, o->final_count);
    for (uint32_t i = 0; i < o->scale_count; i++) starts[i] = o->scales[i].start;
    for (uint32_t i = 0; i < o->scale_count; i++)
        c->last[i] = algebra_normal(a, with(a, o->scales[i].next, AU_OP_STATE, starts));
    for (uint32_t i = 0; i < o->final_count; i++) /* the scales stay what they are in it */
        c->finals[i] = with(a, o->finals[i].value, AU_OP_STATE, c->last);
    c->factor = factor_of(a);
    c->tile = closed_states(c, with(a, o->weight, AU_OP_STATE, starts));
    c->weight = algebra_normal(a, attn_op2(a, AU_OP_MUL, c->tile, c->factor, o->span));
    c->plain = is_one(a, c->factor) && is_one(a, algebra_normal(a, o->rescale));
}

/* The first of equal ones stands; not what never changes. */
static AuExpr make_state(void *user, AuAttn *a, AuExpr node, const AuExpr *args)
{
    const AuClosed *c = user;
    for (uint32_t n = 0; n < a->online->scale_count; n++)
        if (c->last[n].i == node.i && closed_first_sum(a, node).i)
            return closed_row_leaf(a, AU_OP_STATE, n);
    return attn_with_args(a, node, args);
}

AuExpr closed_states(const AuClosed *c, AuExpr e)
{
    return algebra_normal(
        c->a, attn_remake(c->a, algebra_normal(c->a, e), make_state, (void *)(uintptr_t)c));
}

AuExpr closed_first_sum(const AuAttn *a, AuExpr e)
{
    bool *mark = AU_NEW_ARRAY(a->arena, bool, e.i + 1);
    if (e.i) attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++)
        if (mark[i] && (a->nodes[i].op == AU_OP_ROWMAX || a->nodes[i].op == AU_OP_ROWSUM))
            return (AuExpr){i};
    return none;
}

/* ---- random rows */

static void try_final(AuClosed *c, uint32_t n)
{
    for (uint32_t i = 0; i < c->samples->count; i++) {
        AuSample *row = &c->samples->rows[i];
        row->finals[n] = sample_value(row, c->finals[n])[0];
        row->unusable |= !isfinite(row->finals[n]);
    }
}

static void fill_samples(AuClosed *c)
{
    const AuOnline *o = c->a->online;
    c->samples = samples_new(c->a, c->arena);
    for (uint32_t i = 0; i < c->samples->count; i++) {
        AuSample *row = &c->samples->rows[i];
        for (uint32_t n = 0; n < o->scale_count; n++) {
            row->states[n] = sample_value(row, c->last[n])[0];
            row->unusable |= !isfinite(row->states[n]);
        }
    }
    for (uint32_t n = 0; n < o->final_count; n++) try_final(c, n);
    for (uint32_t i = 0; i < c->samples->count; i++) {
        AuSample *row = &c->samples->rows[i];
        const double *weight = sample_value(row, c->weight);
        for (uint32_t n = 0; n < row->count; n++) row->unusable |= !isfinite(weight[n]);
    }
}

/* The epilogue must be o times a factor of the row. */
static bool check_epilogue(const AuClosed *c)
{
    const AuExpr epilogue = c->a->online->epilogue;
    const AuSpan span = attn_at(c->a, epilogue)->span;
    for (uint32_t i = 0; i < c->samples->count; i++) {
        AuSample *row = &c->samples->rows[i];
        const double found = sample_value(row, epilogue)[0];
        const double expected = row->element * sample_value(row, c->factor)[0];
        if (row->unusable || sample_near(found, expected, 0)) continue;
        AuDiag *d =
            au_error(c->diags, AU_E0420, span,
                     "online_fwd_epilogue must be the output times a factor of the row: it makes "
                     "%.9g of 1 and %.9g of %.9g",
                     sample_value(row, c->factor)[0], found, row->element);
        au_add_note(c->diags, d, span,
                    "for what else is to happen to the output, there is out_mod");
        return false;
    }
    return true;
}

AuClosed *closed_form(AuAttn *a, AuArena *arena, AuDiags *diags)
{
    AuClosed *c = AU_NEW(arena, AuClosed);
    *c = (AuClosed){.a = a, .arena = arena, .diags = diags};
    run_whole_row(c);
    fill_samples(c);
    if (samples_are_few(c->samples)) {
        au_error(diags, AU_E0425, a->online->span,
                 "the row scales of '%s' are finite for too few random rows, so that its "
                 "derivatives cannot be tried",
                 a->online->name);
        return NULL;
    }
    return check_epilogue(c) ? c : NULL;
}

/* ---- row scales by finals */

typedef struct Saying {
    AuClosed *c;
    AuExpr *by;    /* one a row scale; none: not said yet */
    bool *is_used; /* by what is to be said */
} Saying;

static bool is_maximum(const Saying *s, uint32_t scale)
{
    return attn_at(s->c->a, s->c->last[scale])->op == AU_OP_ROWMAX;
}

/* Scales that are finals themselves. */
static void say_direct(Saying *s)
{
    AuAttn *a = s->c->a;
    const AuOnline *o = a->online;
    for (uint32_t n = o->final_count; n-- > 0;) {
        const AuNode *value = attn_at(a, o->finals[n].value);
        if (value->op == AU_OP_STATE) s->by[value->integer] = closed_row_leaf(a, AU_OP_FINAL, n);
    }
}

static bool all_said(const Saying *s)
{
    for (uint32_t i = 0; i < s->c->a->online->scale_count; i++)
        if (s->is_used[i] && !s->by[i].i) return false;
    return true;
}

/* The one row scale that a final still stands on; -1: none, or several. */
static int32_t only_scale(const Saying *s, AuExpr value)
{
    const AuAttn *a = s->c->a;
    int32_t found = -1;
    bool *mark = AU_NEW_ARRAY(s->c->arena, bool, value.i + 1);
    attn_mark(a, value, mark);
    for (uint32_t i = 1; i <= value.i; i++) {
        if (!mark[i] || a->nodes[i].op != AU_OP_STATE) continue;
        if (found >= 0) return -1;
        found = a->nodes[i].integer;
    }
    return found;
}

/* Solves finals for the scales that are left, one after the other. */
static void solve_finals(Saying *s)
{
    AuAttn *a = s->c->a;
    const AuOnline *o = a->online;
    for (bool progress = true; progress;) {
        progress = false;
        for (uint32_t n = 0; n < o->final_count; n++) {
            const AuExpr value = algebra_normal(a, with(a, o->finals[n].value, AU_OP_STATE, s->by));
            const int32_t scale = only_scale(s, value);
            if (scale < 0 || s->by[scale].i) continue;
            s->by[scale] = algebra_solve(a, value, closed_row_leaf(a, AU_OP_STATE, (uint32_t)scale),
                                         closed_row_leaf(a, AU_OP_FINAL, n));
            progress |= s->by[scale].i != 0;
        }
    }
}

static AuExpr said(const Saying *s, AuExpr e)
{
    AuAttn *a = s->c->a;
    return e.i ? algebra_normal(a, with(a, e, AU_OP_STATE, s->by)) : e;
}

static bool is_unchanged(const Saying *s, AuExpr before, AuExpr after)
{
    AuSamples *t = s->c->samples;
    for (uint32_t i = 0; i < t->count; i++) {
        AuSample *row = &t->rows[i];
        if (row->unusable) continue;
        const double *x = sample_value(row, before), *y = sample_value(row, after);
        for (uint32_t n = 0; n < row->count; n++)
            if (!sample_near(x[n], y[n], 1e-6)) return false;
    }
    return true;
}

/* With every maximum set to final [n], or to nothing where n is the number of finals. */
static bool try_to_say(Saying *s, uint32_t n, const AuExpr *exprs, uint32_t count)
{
    AuAttn *a = s->c->a;
    const AuOnline *o = a->online;
    memset(s->by, 0, o->scale_count * sizeof *s->by);
    say_direct(s);
    for (uint32_t i = 0; i < o->scale_count && n < o->final_count; i++)
        if (is_maximum(s, i) && !s->by[i].i) s->by[i] = closed_row_leaf(a, AU_OP_FINAL, n);
    solve_finals(s);
    if (!all_said(s)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (exprs[i].i && !is_unchanged(s, exprs[i], said(s, exprs[i]))) return false;
    return true;
}

static const char *free_name(const AuClosed *c, const char *name)
{
    const AuOnline *o = c->a->online;
    for (uint32_t i = 0; i < o->final_count; i++)
        if (strcmp(o->finals[i].name, name) == 0)
            return free_name(c, au_format(c->arena, "%s_last", name));
    return name;
}

static void add_final(AuClosed *c, uint32_t scale)
{
    AuAttn *a = c->a;
    AuOnline *o = a->online;
    const uint32_t n = o->final_count;
    AuFinal *finals = AU_NEW_ARRAY(a->arena, AuFinal, n + 1);
    AuExpr *rows = AU_NEW_ARRAY(c->arena, AuExpr, n + 1);
    if (n) memcpy(finals, o->finals, n * sizeof *finals);
    if (n) memcpy(rows, c->finals, n * sizeof *rows);
    finals[n] = (AuFinal){.name = free_name(c, o->scales[scale].name),
                          .value = closed_row_leaf(a, AU_OP_STATE, scale),
                          .kept = true,
                          .span = o->scales[scale].span};
    rows[n] = c->last[scale];
    o->finals = finals;
    c->finals = rows;
    o->final_count++;
    try_final(c, n);
}

static void mark_used(Saying *s, const AuExpr *exprs, uint32_t count)
{
    const AuAttn *a = s->c->a;
    for (uint32_t i = 0; i < count; i++) {
        bool *mark = AU_NEW_ARRAY(s->c->arena, bool, exprs[i].i + 1);
        attn_mark(a, exprs[i], mark);
        for (uint32_t n = 1; n <= exprs[i].i; n++)
            if (mark[n] && a->nodes[n].op == AU_OP_STATE) s->is_used[a->nodes[n].integer] = true;
    }
}

void closed_say(AuClosed *c, AuExpr *exprs, uint32_t count)
{
    AuOnline *o = c->a->online;
    Saying s = {.c = c};
    s.by = AU_NEW_ARRAY(c->arena, AuExpr, o->scale_count);
    s.is_used = AU_NEW_ARRAY(c->arena, bool, o->scale_count);
    mark_used(&s, exprs, count);
    bool done = try_to_say(&s, o->final_count, exprs, count); /* what is there already */
    for (uint32_t n = 0; n < o->final_count && !done; n++) done = try_to_say(&s, n, exprs, count);
    if (!done) { /* the scales themselves */
        memset(s.by, 0, o->scale_count * sizeof *s.by);
        say_direct(&s);
        for (uint32_t i = 0; i < o->scale_count; i++)
            if (s.is_used[i] && !s.by[i].i) add_final(c, i);
        say_direct(&s);
    }
    for (uint32_t i = 0; i < count; i++) exprs[i] = said(&s, exprs[i]);
}
