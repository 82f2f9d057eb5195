/* ranges.c - mask range analysis: which columns a tile of rows [i0, i1) may need, and which take
 * part for all of its rows. The mask is brought to cases (affine.h). For one case:
 *   columns that take part for some row: i is eliminated from the inequalities (Fourier and
 *   Motzkin), which is exact between integers where one of two coefficients is 1; an inequality
 *   with a term that is not affine in i takes the row where it is widest;
 *   columns that take part for all rows: each inequality at the row where it is tightest, which
 *   is exact.
 * Several cases: the hull of the first, a connected part of the second; exact where their
 * intervals share an end. The result is exact if both intervals are, and then a tile of keys
 * inside [low, high) has a pair, and one not inside of [full_low, full_high) lacks one. Else it
 * is a bound. Lists are asked for where data decide or where a gap is likely. */
#include "affine.h"

#include <stdlib.h>

typedef struct Ranger {
    AuAttn *a;
    AuArena *arena;
    uint8_t row;
    AuExpr i0, i1; /* the first row of the tile, and the one after its last */
    AuExpr last;   /* i1 - 1 */
    AuExpr extent; /* number of columns */
    AuGiven given;
} Ranger;

/* First and last value of the variable that is eliminated; [more] is added to the last. */
typedef struct Ends {
    AuExpr first, last;
    int64_t more;
} Ends;

typedef struct Interval {
    AuExpr low, high;
    AuExpr when; /* else it is empty; none: always */
    bool exact;
    bool paired; /* an end comes from two inequalities together */
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

/* ---- the variable that is eliminated: i, or t = floor((i + ..) / c) where i occurs in no other
 * way */

static bool moves_by_ones(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    if (n->op != AU_OP_IDIV && n->op != AU_OP_SHR) return false;
    const AuNode *by = attn_at(a, attn_arg(a, e, 1));
    if (by->op != AU_OP_I32 || by->integer < 0) return false; /* by -4: from last to first */
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

/* A case whose only use of i is one such t: t takes the place of i, and every value between its
 * first and last. */
static Ends eliminate_quotient(Ranger *r, AuCase *c)
{
    const Ends rows = {r->i0, r->i1, -1};
    AuExpr t = {0};
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        if (f->row) return rows;
        for (uint32_t k = 0; k < f->count; k++) {
            if (f->terms[k].motion == AU_MOVES_NO) continue;
            if (t.i && t.i != f->terms[k].e.i) return rows;
            t = f->terms[k].e;
        }
    }
    if (!t.i || !moves_by_ones(r->a, t)) return rows;
    for (uint32_t n = 0; n < c->count; n++)
        for (uint32_t k = 0; k < c->affine[n].count; k++) {
            AuAffine *f = &c->affine[n];
            if (f->terms[k].e.i != t.i) continue;
            f->row = f->terms[k].k;
            f->terms[k] = f->terms[--f->count];
            break;
        }
    return (Ends){at_row(r, t, r->i0), at_row(r, t, r->last), 0};
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

/* A term's expression at the row where it is largest, or smallest. */
static AuExpr extreme(Ranger *r, const AuAffineTerm *t, bool largest)
{
    if (t->motion == AU_MOVES_NO) return t->e;
    const AuExpr first = at_row(r, t->e, r->i0), last = at_row(r, t->e, r->last);
    if (t->motion == AU_MOVES_ONE_WAY) return make(r, largest ? AU_OP_MAX : AU_OP_MIN, first, last);
    return (t->motion == AU_MOVES_UP) == largest ? last : first;
}

static AuExpr plus(Ranger *r, AuExpr sum, AuExpr e, int64_t k)
{
    if (!sum.i) return scaled(r, e, k);
    return k < 0 ? make(r, AU_OP_SUB, sum, scaled(r, e, -k))
                 : make(r, AU_OP_ADD, sum, scaled(r, e, k));
}

/* k times the part without j, at the row where that part is largest or smallest: the sum of the
 * terms, what is added before what is taken away, and the constant. The sum may be none. */
static AuExpr part_without_column(Ranger *r, const AuAffine *inequality, Ends ends, bool largest,
                                  int64_t k, int64_t *constant)
{
    AuAffine f = {0};
    AuExpr sum = {0};
    attn_affine_add(&f, inequality, k);
    attn_bound_given(r->a, &r->given, &f);
    largest = largest == (k > 0);
    const bool at_last = (f.row > 0) == largest;
    *constant = f.constant + (f.row && at_last ? f.row * ends.more : 0);
    for (int sign = 1; sign >= -1; sign -= 2) {
        if (f.row * sign > 0) sum = plus(r, sum, at_last ? ends.last : ends.first, f.row);
        for (uint32_t n = 0; n < f.count; n++)
            if (f.terms[n].k * sign > 0)
                sum = plus(r, sum, extreme(r, &f.terms[n], largest == (sign > 0)), f.terms[n].k);
    }
    return sum;
}

static AuExpr with_constant(Ranger *r, AuExpr sum, int64_t constant)
{
    return sum.i ? make(r, AU_OP_ADD, sum, number(r, constant)) : number(r, constant);
}

static AuExpr also(Ranger *r, AuExpr x, AuExpr y) { return x.i ? make(r, AU_OP_AND, x, y) : y; }

/* The inequality, at its largest or smallest, makes the interval smaller; without j it empties it
 * or not. */
static void restrict_interval(Ranger *r, Interval *v, const AuAffine *f, Ends ends, bool largest)
{
    const int64_t col = f->col;
    int64_t constant;
    const AuExpr sum = part_without_column(r, f, ends, largest, col == 1 ? -1 : 1, &constant);
    if (col == 1) { /* j >= -rest */
        v->low = make(r, AU_OP_MAX, with_constant(r, sum, constant), v->low);
    } else if (col == -1) { /* j <= rest */
        v->high = make(r, AU_OP_MIN, with_constant(r, sum, constant + 1), v->high);
    } else if (col > 0) { /* j >= ceil(-rest / col) */
        const AuExpr floor = make(r, AU_OP_IDIV, with_constant(r, sum, constant), number(r, col));
        v->low = make(r, AU_OP_MAX, make(r, AU_OP_SUB, number(r, 0), floor), v->low);
    } else if (col < 0) {
        const AuExpr floor = make(r, AU_OP_IDIV, with_constant(r, sum, constant), number(r, -col));
        v->high = make(r, AU_OP_MIN, make(r, AU_OP_ADD, floor, number(r, 1)), v->high);
    } else {
        const AuExpr rest = sum.i ? sum : number(r, 0);
        v->when = also(r, v->when, make(r, AU_OP_LE, number(r, -constant), rest));
    }
}

static Interval whole(Ranger *r)
{
    return (Interval){.low = number(r, 0), .high = r->extent, .exact = true};
}

static Interval nothing(Ranger *r) { return (Interval){.low = number(r, 0), .high = number(r, 0)}; }

static void apply_conditions(Ranger *r, const AuCase *c, Interval *v)
{
    for (uint32_t i = 0; i < c->when_count; i++) v->when = also(r, v->when, c->when[i]);
}

/* ---- one case */

/* Two inequalities that bound i from different sides, together. Exact between integers where a
 * coefficient is 1, or where what is left is a constant that is large enough. */
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
    v->paired |= f.col != 0;
    restrict_interval(r, v, &f, (Ends){r->i0, r->i1, -1}, true);
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

/* Of many windows together their pairs say little that the windows do not, and are as many as their square. */
enum { MOST_PAIRS = 16 };

static Interval some_row(Ranger *r, const AuCase *c, Ends ends)
{
    Interval v = whole(r);
    bool affine = true;
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        affine &= !has_row_terms(f);
        restrict_interval(r, &v, f, ends, true);
    }
    uint32_t pairs = 0;
    for (uint32_t n = 0; n < c->count; n++)
        for (uint32_t k = 0; k < c->count; k++) {
            const AuAffine *up = &c->affine[n], *down = &c->affine[k];
            if (up->row <= 0 || down->row >= 0 || has_row_terms(up) || has_row_terms(down))
                continue;
            if (pairs++ < MOST_PAIRS)
                eliminate_pair(r, &v, up, down);
            else
                v.exact = false;
        }
    apply_conditions(r, c, &v);
    v.exact = !c->unknown && ((affine && v.exact) || move_together(c));
    return v;
}

static Interval all_rows(Ranger *r, const AuCase *c, Ends ends)
{
    Interval v = whole(r);
    if (c->unknown) return nothing(r);
    for (uint32_t n = 0; n < c->count; n++) {
        const AuAffine *f = &c->affine[n];
        if (motion_of(f) == AU_MOVES_ANY) v.exact = false;
        restrict_interval(r, &v, f, ends, false);
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

/* Two that share an end: together they are an interval again, if only one or none of them is
 * empty, too. */
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

/* "For all rows one of the cases" is "one of the cases for all rows" where at most one depends on
 * the row, or where all of them widen in the same direction. */
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

/* 0 <= low <= full_low <= full_high <= high <= extent. What is known to be in order is not asked:
 * low <= extent, and of one case without pairs that the full range begins no earlier and ends no
 * later than the range. */
static void order_ends(Ranger *r, AuRange *out, const Interval *some, const Interval *all,
                       bool single)
{
    const bool to_the_end = some->high.i == r->extent.i;
    out->low = is_zero(r, some->low) ? some->low : make(r, AU_OP_MIN, some->low, r->extent);
    out->high = to_the_end ? r->extent : make(r, AU_OP_MAX, some->high, out->low);
    out->full_low = out->full_high = out->low;
    if (is_zero(r, all->high)) return; /* nothing is known to be full */
    if (all->low.i != some->low.i) {
        const AuExpr from = single ? all->low : make(r, AU_OP_MAX, all->low, out->low);
        out->full_low = make(r, AU_OP_MIN, from, out->high);
    }
    const bool same_high = all->high.i == some->high.i, same_low = all->low.i == some->low.i;
    const AuExpr to = same_low && single ? all->high : make(r, AU_OP_MIN, all->high, out->high);
    out->full_high = same_high ? out->high : make(r, AU_OP_MAX, to, out->full_low);
}

static void find_range(Ranger *r, AuExpr mask, uint8_t col, AuRange *out)
{
    AuCases cases = {AU_NEW(r->arena, AuCase), 1}; /* no mask: one case without conditions */
    if (mask.i) cases = attn_cases(r->a, r->arena, mask, r->row, col);
    const bool independent = cases_are_independent(&cases);
    Interval some = nothing(r), all = nothing(r);
    bool any_unknown = false, connected = true;
    some.exact = all.exact = true;
    for (uint32_t i = 0; i < cases.count; i++) {
        const Ends ends = eliminate_quotient(r, &cases.at[i]);
        const Interval s = some_row(r, &cases.at[i], ends), f = all_rows(r, &cases.at[i], ends);
        any_unknown |= cases.at[i].unknown;
        connected &= i == 0 || some.low.i == s.low.i || some.high.i == s.high.i;
        some = i ? hull(r, &some, &s) : s;
        all = i ? inside(r, &all, &f) : f;
    }
    some = closed(r, some, true);
    all = closed(r, all, true);
    order_ends(r, out, &some, &all, cases.count == 1 && !some.paired);
    out->exact = some.exact && all.exact && independent && !any_unknown;
    out->needs_lists = any_unknown || !connected;
}

static void find(AuAttn *a, AuRange *out, uint8_t row, uint8_t col, AuExpr extent)
{
    Ranger r = {.a = a, .arena = a->arena, .row = row};
    r.i0 = attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_Q, AU_AX_Q, 0, nowhere);
    r.i1 = attn_leaf(a, AU_OP_INDEX, AU_T_I32, AU_AX_KV, AU_AX_KV, 0, nowhere);
    r.last = make(&r, AU_OP_ADD, r.i1, number(&r, -1));
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
