/* ranges.c - mask range analysis: which columns a tile of rows [i0, i1) may need, and which take part for all of its rows.
 * The mask is brought to cases (affine.h). For one case:
 *   columns that take part for some row: i is eliminated from the inequalities (Fourier and Motzkin), which is exact between
 *   integers where one of two coefficients is 1; an inequality with a term that is not affine in i takes the row where it is widest;
 *   columns that take part for all rows: each inequality at the row where it is tightest, which is exact.
 * Several cases: the hull of the first, a connected part of the second; exact where their intervals share an end.
 * The result is exact if both intervals are, and then a tile of keys inside [low, high) has a pair, and one not inside of
 * [full_low, full_high) lacks one. Else it is a bound. Lists are asked for where data decide or where a gap is likely. */
#include "affine.h"

#include <stdlib.h>

typedef struct Ranger {
    AuAttn *a;
    AuArena *arena;
    uint8_t row;
    AuExpr i0, last; /* first and last row of the tile */
    AuExpr extent;   /* number of columns */
} Ranger;

typedef struct Interval {
    AuExpr low, high;
    AuExpr when; /* else it is empty; none: always */
    bool exact;
} Interval;

static const AuSpan nowhere = {0, 0, 0};

/* ---- small expressions */

static AuExpr number(Ranger *r, int64_t value) { return attn_i32(r->a, (int32_t)value, nowhere); }

static AuExpr make(Ranger *r, AuOp op, AuExpr x, AuExpr y)
{
    return attn_simplify_expr(r->a, attn_op2(r->a, op, x, y, nowhere));
}

static AuExpr choose(Ranger *r, AuExpr c, AuExpr x, AuExpr y)
{
    return attn_simplify_expr(r->a, attn_where(r->a, c, x, y, nowhere));
}

typedef struct RowIs {
    uint8_t row;
    AuExpr is;
} RowIs;

static AuExpr replace_row(void *user, AuAttn *a, AuExpr leaf)
{
    const RowIs *r = user;
    const AuNode *n = attn_at(a, leaf);
    return n->op == AU_OP_INDEX && n->axes == r->row ? r->is : (AuExpr){0};
}

/* An expression of i at a row of the tile. */
static AuExpr at_row(Ranger *r, AuExpr e, AuExpr row)
{
    return attn_simplify_expr(r->a, attn_substitute(r->a, e, replace_row, &(RowIs){r->row, row}));
}

static AuExpr scaled(Ranger *r, AuExpr e, int64_t k)
{
    return k == 1 ? e : make(r, AU_OP_MUL, e, number(r, k));
}

/* ---- the variable that is eliminated: i, or t = floor((i + ..) / c) where i occurs in no other way */

static bool moves_by_ones(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    if ((n->op != AU_OP_IDIV && n->op != AU_OP_SHR) ||
        attn_at(a, attn_arg(a, e, 1))->op != AU_OP_I32)
        return false;
    AuExpr x = attn_arg(a, e, 0);
    for (uint32_t depth = 0; depth < 8; depth++) { /* i plus or minus something without i */
        const AuNode *nx = attn_at(a, x);
        if (nx->op == AU_OP_INDEX) return true;
        if (nx->op != AU_OP_ADD && nx->op != AU_OP_SUB) return false;
        const AuExpr y = attn_arg(a, x, 0), z = attn_arg(a, x, 1);
        const bool first = (attn_at(a, y)->axes & (AU_AX_Q | AU_AX_KV)) != 0;
        const bool second = (attn_at(a, z)->axes & (AU_AX_Q | AU_AX_KV)) != 0;
        if (first == second || (second && nx->op == AU_OP_SUB)) return false;
        x = first ? y : z;
    }
    return false;
}

/* A case whose only use of i is one such t: t takes the place of i, and every value between its first and last. */
static void eliminate_quotient(Ranger *r, AuCase *c, AuExpr *first, AuExpr *last)
{
    AuExpr t = {0};
    *first = r->i0;
    *last = r->last;
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        if (f->row) return;
        for (uint32_t k = 0; k < f->count; k++) {
            if (f->terms[k].motion == AU_MOVES_NO) continue;
            if (t.i && t.i != f->terms[k].e.i) return;
            t = f->terms[k].e;
        }
    }
    if (!t.i || !moves_by_ones(r->a, t)) return;
    for (uint32_t n = 0; n < c->count; n++)
        for (uint32_t k = 0; k < c->affine[n].count; k++) {
            AuAffine *f = &c->affine[n];
            if (f->terms[k].e.i != t.i) continue;
            f->row = f->terms[k].k;
            f->terms[k] = f->terms[--f->count];
            break;
        }
    *first = at_row(r, t, r->i0);
    *last = at_row(r, t, r->last);
}

/* ---- one inequality */

static bool has_row_terms(const AuAffine *f)
{
    for (uint32_t k = 0; k < f->count; k++)
        if (f->terms[k].motion != AU_MOVES_NO) return true;
    return false;
}

/* Which way the inequality moves as i grows: up is wider. */
static AuMotion motion_of(const AuAffine *f)
{
    AuMotion m = f->row > 0 ? AU_MOVES_UP : f->row < 0 ? AU_MOVES_DOWN : AU_MOVES_NO;
    for (uint32_t k = 0; k < f->count; k++) {
        AuMotion t = f->terms[k].motion;
        if (t == AU_MOVES_NO) continue;
        if (f->terms[k].k < 0)
            t = t == AU_MOVES_UP ? AU_MOVES_DOWN : t == AU_MOVES_DOWN ? AU_MOVES_UP : t;
        m = m == AU_MOVES_NO ? t : m == t && m != AU_MOVES_ONE_WAY ? m : AU_MOVES_ANY;
    }
    return m;
}

/* k * e at the row where it is largest, or smallest. */
static AuExpr extreme_term(Ranger *r, const AuAffineTerm *t, bool largest)
{
    if (t->motion == AU_MOVES_NO) return scaled(r, t->e, t->k);
    const AuExpr a = scaled(r, at_row(r, t->e, r->i0), t->k),
                 b = scaled(r, at_row(r, t->e, r->last), t->k);
    if (t->motion == AU_MOVES_ONE_WAY) return make(r, largest ? AU_OP_MAX : AU_OP_MIN, a, b);
    return ((t->motion == AU_MOVES_UP) == (t->k > 0)) == largest ? b : a;
}

/* The part without j, at the row where it is largest or smallest. What is added comes before what is taken away. */
static AuExpr part_without_column(Ranger *r, const AuAffine *f, AuExpr first, AuExpr last,
                                  bool largest)
{
    AuExpr sum = {0};
    if (f->row) sum = scaled(r, (f->row > 0) == largest ? last : first, f->row);
    for (int negative = 0; negative < 2; negative++)
        for (uint32_t k = 0; k < f->count; k++) {
            AuAffineTerm t = f->terms[k];
            if ((t.k < 0) != negative) continue;
            if (negative && sum.i) {
                t.k = -t.k;
                sum = make(r, AU_OP_SUB, sum, extreme_term(r, &t, !largest));
            } else {
                const AuExpr e = extreme_term(r, &t, largest);
                sum = sum.i ? make(r, AU_OP_ADD, sum, e) : e;
            }
        }
    const AuExpr c = number(r, f->constant);
    return sum.i ? make(r, AU_OP_ADD, sum, c) : c;
}

static AuExpr and (Ranger * r, AuExpr x, AuExpr y) { return x.i ? make(r, AU_OP_AND, x, y) : y; }

/* col * j + rest >= 0 makes the interval smaller; without j it empties it or not. */
static void restrict_interval(Ranger *r, Interval *v, int64_t col, AuExpr rest)
{
    if (col > 0) { /* j >= ceil(-rest / col) */
        const AuExpr at =
            make(r, AU_OP_SUB, number(r, 0), make(r, AU_OP_IDIV, rest, number(r, col)));
        v->low = make(r, AU_OP_MAX, at, v->low);
    } else if (col < 0) {
        const AuExpr at =
            make(r, AU_OP_ADD, make(r, AU_OP_IDIV, rest, number(r, -col)), number(r, 1));
        v->high = make(r, AU_OP_MIN, at, v->high);
    } else
        v->when = and(r, v->when, make(r, AU_OP_LE, number(r, 0), rest));
}

static Interval whole(Ranger *r)
{
    return (Interval){.low = number(r, 0), .high = r->extent, .exact = true};
}

static Interval nothing(Ranger *r) { return (Interval){.low = number(r, 0), .high = number(r, 0)}; }

static void apply_conditions(Ranger *r, const AuCase *c, Interval *v)
{
    for (uint32_t i = 0; i < c->when_count; i++) v->when = and(r, v->when, c->when[i]);
}

/* ---- one case */

/* Two inequalities that bound i from different sides, together. Exact between integers where a coefficient is 1, or where
 * what is left is a constant that is large enough. */
static void eliminate_pair(Ranger *r, Interval *v, const AuAffine *up, const AuAffine *down)
{
    AuAffine f = {0};
    attn_affine_add(&f, up, -down->row);
    attn_affine_add(&f, down, up->row);
    if (f.failed) {
        v->exact = false;
        return;
    }
    const bool constant = f.col == 0 && f.count == 0;
    const bool one = up->row == 1 || down->row == -1;
    if (!one && !(constant && f.constant >= (up->row - 1) * (-down->row - 1))) v->exact = false;
    if (constant && f.constant >= 0) return;
    restrict_interval(r, v, f.col, part_without_column(r, &f, r->i0, r->last, true));
}

/* All inequalities are loosest at the same end of the tile, so that one row of it decides. */
static bool move_together(const AuCase *c)
{
    AuMotion all = AU_MOVES_NO;
    uint32_t moving = 0;
    for (uint32_t n = 0; n < c->count; n++) {
        const AuMotion m = motion_of(&c->affine[n]);
        if (m == AU_MOVES_NO) continue;
        if (m == AU_MOVES_ANY || (moving++ && (m != all || m == AU_MOVES_ONE_WAY))) return false;
        all = m;
    }
    return true;
}

static Interval some_row(Ranger *r, const AuCase *c, AuExpr first, AuExpr last)
{
    Interval v = whole(r);
    bool affine = true;
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        affine &= !has_row_terms(f);
        restrict_interval(r, &v, f->col, part_without_column(r, f, first, last, true));
    }
    for (uint32_t n = 0; n < c->count; n++)
        for (uint32_t k = 0; k < c->count; k++) {
            const AuAffine *up = &c->affine[n], *down = &c->affine[k];
            if (up->row > 0 && down->row < 0 && !has_row_terms(up) && !has_row_terms(down))
                eliminate_pair(r, &v, up, down);
        }
    apply_conditions(r, c, &v);
    v.exact = !c->unknown && ((affine && v.exact) || move_together(c));
    return v;
}

static Interval all_rows(Ranger *r, const AuCase *c, AuExpr first, AuExpr last)
{
    Interval v = whole(r);
    if (c->unknown) return nothing(r);
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        if (motion_of(f) == AU_MOVES_ANY) v.exact = false;
        restrict_interval(r, &v, f->col, part_without_column(r, f, first, last, false));
    }
    apply_conditions(r, c, &v);
    return v;
}

/* ---- several cases */

static AuExpr is_empty(Ranger *r, const Interval *v) { return make(r, AU_OP_LE, v->high, v->low); }

/* The same with its condition inside of an end, so that it is empty where that fails. */
static Interval closed(Ranger *r, Interval v, bool at_high)
{
    if (v.when.i && at_high) v.high = choose(r, v.when, v.high, number(r, 0));
    if (v.when.i && !at_high) v.low = choose(r, v.when, v.low, r->extent);
    v.when = (AuExpr){0};
    return v;
}

/* Two that share an end: together they are an interval again, if only one or none of them is empty, too. */
static bool join_at_end(Ranger *r, const Interval *x, const Interval *y, Interval *out)
{
    const bool low = x->low.i == y->low.i;
    if (!low && x->high.i != y->high.i) return false;
    const bool same = x->when.i == y->when.i;
    const Interval a = same ? *x : closed(r, *x, low), b = same ? *y : closed(r, *y, low);
    *out = a;
    if (low)
        out->high = make(r, AU_OP_MAX, a.high, b.high);
    else
        out->low = make(r, AU_OP_MIN, a.low, b.low);
    out->exact = x->exact && y->exact;
    return true;
}

/* The least interval that holds both; an empty one adds nothing. */
static Interval hull(Ranger *r, const Interval *x, const Interval *y)
{
    Interval out = {.exact = false};
    if (join_at_end(r, x, y, &out)) return out;
    const Interval a = closed(r, *x, true), b = closed(r, *y, true);
    const AuExpr no_a = is_empty(r, &a), no_b = is_empty(r, &b);
    const AuExpr low = make(r, AU_OP_MIN, a.low, b.low), high = make(r, AU_OP_MAX, a.high, b.high);
    out.low = choose(r, no_a, b.low, choose(r, no_b, a.low, low));
    out.high = choose(r, no_a, b.high, choose(r, no_b, a.high, high));
    return out;
}

/* An interval inside of the union: all of it if the two touch, else the longer one. */
static Interval inside(Ranger *r, const Interval *x, const Interval *y)
{
    Interval out = {.exact = false};
    if (join_at_end(r, x, y, &out)) return out;
    const Interval a = closed(r, *x, true), b = closed(r, *y, true);
    const AuExpr low = make(r, AU_OP_MIN, a.low, b.low), high = make(r, AU_OP_MAX, a.high, b.high);
    const AuExpr touch =
        make(r, AU_OP_LE, make(r, AU_OP_MAX, a.low, b.low), make(r, AU_OP_MIN, a.high, b.high));
    const AuExpr longer =
        make(r, AU_OP_LE, make(r, AU_OP_SUB, b.high, b.low), make(r, AU_OP_SUB, a.high, a.low));
    out.low = choose(r, touch, low, choose(r, longer, a.low, b.low));
    out.high = choose(r, touch, high, choose(r, longer, a.high, b.high));
    return out;
}

/* "For all rows one of the cases" is "one of the cases for all rows" where at most one depends on the row, or where all of them
 * widen in the same direction. */
static bool cases_are_independent(const AuCases *cases)
{
    AuMotion all = AU_MOVES_NO;
    uint32_t moving = 0;
    bool same = true;
    for (uint32_t i = 0; i < cases->count; i++) {
        bool moves = false;
        for (uint32_t n = 0; n < cases->at[i].count; n++) {
            const AuMotion m = motion_of(&cases->at[i].affine[n]);
            if (m == AU_MOVES_NO) continue;
            moves = true;
            same &= (m == AU_MOVES_UP || m == AU_MOVES_DOWN) && (all == AU_MOVES_NO || all == m);
            all = m;
        }
        moving += moves;
    }
    return moving <= 1 || same;
}

static bool is_zero(const Ranger *r, AuExpr e)
{
    const AuNode *n = attn_at(r->a, e);
    return n->op == AU_OP_I32 && n->integer == 0;
}

/* 0 <= low <= full_low <= full_high <= high <= extent. */
static void order_ends(Ranger *r, AuRange *out, const Interval *some, const Interval *all)
{
    out->low = make(r, AU_OP_MIN, some->low, r->extent);
    if (is_zero(r, some->low)) out->low = some->low;
    out->high = make(r, AU_OP_MAX, some->high, out->low);
    out->full_low = out->low;
    out->full_high = make(r, AU_OP_MAX, all->high, out->low);
    if (all->low.i == some->low.i) {
        if (all->high.i == some->high.i) out->full_high = out->high;
        return;
    }
    out->full_low = make(r, AU_OP_MIN, make(r, AU_OP_MAX, all->low, out->low), out->high);
    out->full_high = make(r, AU_OP_MAX, make(r, AU_OP_MIN, all->high, out->high), out->full_low);
}

static void find_range(Ranger *r, AuExpr mask, uint8_t col, AuRange *out)
{
    const bool open = !mask.i;
    AuCases cases = open ? (AuCases){AU_NEW(r->arena, AuCase), 1}
                         : attn_cases(r->a, r->arena, mask, r->row, col);
    Interval some = nothing(r), all = nothing(r);
    some.exact = all.exact = true;
    const bool independent = cases_are_independent(&cases);
    bool any_unknown = false, connected = true;
    for (uint32_t i = 0; i < cases.count; i++) {
        AuExpr first, last;
        eliminate_quotient(r, &cases.at[i], &first, &last);
        const Interval s = some_row(r, &cases.at[i], first, last),
                       f = all_rows(r, &cases.at[i], first, last);
        any_unknown |= cases.at[i].unknown;
        connected &= i == 0 || some.low.i == s.low.i || some.high.i == s.high.i;
        some = i ? hull(r, &some, &s) : s;
        all = i ? inside(r, &all, &f) : f;
    }
    some = closed(r, some, true);
    all = closed(r, all, true);
    order_ends(r, out, &some, &all);
    out->exact = some.exact && all.exact && independent && !any_unknown;
    out->needs_lists = any_unknown || !connected;
}

static void find(AuAttn *a, AuRange *out, uint8_t row, uint8_t col, AuExpr extent)
{
    Ranger r = {.a = a, .arena = a->arena, .row = row};
    r.i0 = attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_Q, AU_AX_Q, 0, nowhere);
    r.last = attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_KV, AU_AX_KV, 0, nowhere);
    r.last = make(&r, AU_OP_ADD, r.last, number(&r, -1));
    r.extent = attn_simplify_expr(a, extent);
    find_range(&r, a->mask, col, out);
}

bool attn_key_range(AuAttn *a, AuRange *out)
{
    find(a, out, AU_AX_Q, AU_AX_KV, a->tensors[1].axes[2]);
    return a->mask.i != 0;
}

bool attn_query_range(AuAttn *a, AuRange *out)
{
    find(a, out, AU_AX_KV, AU_AX_Q, a->tensors[0].axes[2]);
    return a->mask.i != 0;
}
