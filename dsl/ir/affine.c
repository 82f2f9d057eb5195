/* affine.c - see affine.h. The mask is driven into disjunctive form: && multiplies cases, || joins
 * them, ! is pushed down to the comparisons; min, max, abs and where inside of a comparison split
 * it into cases, a floor division by a constant moves to the other side. What does not fit (data,
 * products of i and j, too many cases) is `unknown`: true of fewer pairs than the rest of its
 * case. */
#include "affine.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 40, MAX_VISITS = 2000 };
#define LARGEST ((int64_t)1 << 30)

typedef struct Splitter {
    AuAttn *a;
    AuArena *arena;
    uint8_t row, col;
    uint32_t depth, visits;
} Splitter;

/* ---- sets of cases */

static AuCases everything(Splitter *s) { return (AuCases){AU_NEW(s->arena, AuCase), 1}; }

static AuCases nothing(void) { return (AuCases){NULL, 0}; }

static AuCases unknown(Splitter *s)
{
    AuCases c = everything(s);
    c.at->unknown = true;
    return c;
}

static AuCases either(Splitter *s, AuCases x, AuCases y)
{
    if (x.count + y.count > AU_MAX_CASES) return unknown(s);
    AuCases both = {AU_NEW_ARRAY(s->arena, AuCase, x.count + y.count), x.count + y.count};
    memcpy(both.at, x.at, x.count * sizeof *x.at);
    memcpy(both.at + x.count, y.at, y.count * sizeof *y.at);
    return both;
}

static AuCase join_case(Splitter *s, const AuCase *x, const AuCase *y)
{
    AuCase c = {.unknown = x->unknown || y->unknown};
    const AuCase *const parts[] = {x, y};
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < parts[p]->count; i++)
            AU_PUSH(s->arena, c.affine, c.count, c.capacity, parts[p]->affine[i]);
        for (uint32_t i = 0; i < parts[p]->when_count; i++)
            AU_PUSH(s->arena, c.when, c.when_count, c.when_capacity, parts[p]->when[i]);
    }
    return c;
}

static AuCases both(Splitter *s, AuCases x, AuCases y)
{
    if ((uint64_t)x.count * y.count > AU_MAX_CASES) { /* keep what bounds one side alone */
        for (uint32_t i = 0; i < x.count; i++) x.at[i].unknown = true;
        return x;
    }
    AuCases product = {AU_NEW_ARRAY(s->arena, AuCase, x.count * y.count), 0};
    for (uint32_t i = 0; i < x.count; i++)
        for (uint32_t k = 0; k < y.count; k++)
            product.at[product.count++] = join_case(s, &x.at[i], &y.at[k]);
    return product;
}

/* ---- how an expression of i moves */

static AuMotion turn(AuMotion m)
{
    return m == AU_MOVES_UP ? AU_MOVES_DOWN : m == AU_MOVES_DOWN ? AU_MOVES_UP : m;
}

static AuMotion together(AuMotion x, AuMotion y)
{
    if (x == AU_MOVES_NO) return y;
    if (y == AU_MOVES_NO) return x;
    return x == y && x != AU_MOVES_ONE_WAY ? x : AU_MOVES_ANY;
}

static AuMotion motion_of(Splitter *s, AuExpr e);

static AuMotion motion_of_scaled(Splitter *s, AuExpr x, AuExpr by)
{
    const AuAttn *a = s->a;
    const AuMotion m = motion_of(s, x);
    if (attn_at(a, by)->op != AU_OP_I32)
        return attn_at(a, by)->axes & (s->row | s->col) || m == AU_MOVES_ANY ? AU_MOVES_ANY
                                                                             : AU_MOVES_ONE_WAY;
    return attn_at(a, by)->integer >= 0 ? m : turn(m);
}

static AuMotion motion_inside(Splitter *s, AuExpr e)
{
    AuAttn *a = s->a;
    const AuNode *n = attn_at(a, e);
    if (n->axes & s->col) return AU_MOVES_ANY;
    if (!(n->axes & s->row)) return AU_MOVES_NO;
    if (n->op == AU_OP_INDEX) return AU_MOVES_UP;
    if (n->type != AU_T_I32 || n->count == 0 || n->op == AU_OP_INPUT) return AU_MOVES_ANY;
    const AuExpr x = attn_arg(a, e, 0), y = attn_arg(a, e, n->count - 1u);
    switch (n->op) {
    case AU_OP_NEG: return turn(motion_of(s, x));
    case AU_OP_ADD:
    case AU_OP_MIN:
    case AU_OP_MAX: return together(motion_of(s, x), motion_of(s, y));
    case AU_OP_SUB: return together(motion_of(s, x), turn(motion_of(s, y)));
    case AU_OP_MUL:
        if (attn_at(a, x)->axes & s->row) return motion_of_scaled(s, x, y);
        return motion_of_scaled(s, y, x);
    case AU_OP_IDIV: return motion_of_scaled(s, x, y);
    case AU_OP_SHL:
    case AU_OP_SHR: return attn_at(a, y)->op == AU_OP_I32 ? motion_of(s, x) : AU_MOVES_ANY;
    case AU_OP_WHERE:
        if (attn_at(a, x)->axes & s->row) return AU_MOVES_ANY;
        return together(motion_of(s, attn_arg(a, e, 1)), motion_of(s, y));
    }
    return AU_MOVES_ANY;
}

static AuMotion motion_of(Splitter *s, AuExpr e)
{
    if (s->depth >= MAX_DEPTH || ++s->visits > MAX_VISITS) return AU_MOVES_ANY;
    s->depth++;
    const AuMotion m = motion_inside(s, e);
    s->depth--;
    return m;
}

/* ---- affine forms */

static void limit(AuAffine *f)
{
    if (llabs(f->row) > LARGEST || llabs(f->col) > LARGEST || llabs(f->constant) > LARGEST)
        f->failed = true;
}

static void add_term(AuAffine *f, AuExpr e, int64_t k, AuMotion motion)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->terms[i].e.i != e.i) continue;
        f->terms[i].k += k;
        if (llabs(f->terms[i].k) > LARGEST) f->failed = true;
        if (f->terms[i].k == 0) f->terms[i] = f->terms[--f->count];
        return;
    }
    if (f->count == AU_AFFINE_TERMS)
        f->failed = true;
    else
        f->terms[f->count++] = (AuAffineTerm){e, k, motion};
}

void attn_affine_add(AuAffine *to, const AuAffine *from, int64_t k)
{
    to->row += k * from->row;
    to->col += k * from->col;
    to->constant += k * from->constant;
    to->failed |= from->failed;
    for (uint32_t i = 0; i < from->count; i++)
        add_term(to, from->terms[i].e, k * from->terms[i].k, from->terms[i].motion);
    for (uint32_t i = 0; i < from->special_count; i++) {
        if (to->special_count == AU_AFFINE_SPECIALS)
            to->failed = true;
        else {
            to->specials[to->special_count] = from->specials[i];
            to->specials[to->special_count++].k *= k;
        }
    }
    limit(to);
}

static bool is_special(uint8_t op)
{
    return op == AU_OP_MIN || op == AU_OP_MAX || op == AU_OP_ABS || op == AU_OP_WHERE ||
           op == AU_OP_IDIV || op == AU_OP_SHR;
}

static void add_expr(Splitter *s, AuAffine *f, AuExpr e, int64_t k);

/* x * y where one of them is a constant. */
static bool add_product(Splitter *s, AuAffine *f, AuExpr e, int64_t k)
{
    const AuAttn *a = s->a;
    const AuExpr x = attn_arg(a, e, 0), y = attn_arg(a, e, 1);
    const AuNode *nx = attn_at(a, x), *ny = attn_at(a, y);
    if (ny->op == AU_OP_I32 && attn_at(a, e)->op == AU_OP_SHL) {
        if (ny->integer < 0 || ny->integer > 20) return false;
        add_expr(s, f, x, k * ((int64_t)1 << ny->integer));
    } else if (ny->op == AU_OP_I32)
        add_expr(s, f, x, k * ny->integer);
    else if (nx->op == AU_OP_I32 && attn_at(a, e)->op == AU_OP_MUL)
        add_expr(s, f, y, k * nx->integer);
    else
        return false;
    return true;
}

static void add_inside(Splitter *s, AuAffine *f, AuExpr e, int64_t k)
{
    const AuAttn *a = s->a;
    const AuNode *n = attn_at(a, e);
    if (n->op == AU_OP_I32)
        f->constant += k * n->integer;
    else if (n->op == AU_OP_INDEX && n->axes == s->row)
        f->row += k;
    else if (n->op == AU_OP_INDEX && n->axes == s->col)
        f->col += k;
    else if (n->op == AU_OP_ADD || n->op == AU_OP_SUB) {
        add_expr(s, f, attn_arg(a, e, 0), k);
        add_expr(s, f, attn_arg(a, e, 1), n->op == AU_OP_ADD ? k : -k);
    } else if (n->op == AU_OP_NEG)
        add_expr(s, f, attn_arg(a, e, 0), -k);
    else if ((n->op == AU_OP_MUL || n->op == AU_OP_SHL) && add_product(s, f, e, k))
        return;
    else {
        const AuMotion m = motion_of(s, e);
        if (m != AU_MOVES_ANY)
            add_term(f, e, k, m);
        else if (is_special(n->op) && f->special_count < AU_AFFINE_SPECIALS)
            f->specials[f->special_count++] = (AuAffineTerm){e, k, m};
        else
            f->failed = true;
    }
}

static void add_expr(Splitter *s, AuAffine *f, AuExpr e, int64_t k)
{
    if (s->depth >= MAX_DEPTH || ++s->visits > MAX_VISITS || llabs(k) > LARGEST) {
        f->failed = true;
        return;
    }
    s->depth++;
    add_inside(s, f, e, k);
    limit(f);
    s->depth--;
}

/* ---- inequalities */

static AuCases at_least_0(Splitter *s, AuAffine f);
static AuCases cases_of(Splitter *s, AuExpr e, bool holds);

static AuCases with_expr(Splitter *s, AuAffine f, AuExpr e, int64_t k)
{
    add_expr(s, &f, e, k);
    return at_least_0(s, f);
}

/* k * floor(x / c) + f >= 0 with k = 1 or -1, c > 0, and no j in f. That is, for k = 1,
 * x + c f >= 0, and for k = -1, c f + c - 1 - x >= 0. */
static AuCases split_quotient(Splitter *s, AuAffine f, AuExpr e, int64_t k)
{
    const AuAttn *a = s->a;
    const AuNode *by = attn_at(a, attn_arg(a, e, 1));
    int64_t c = by->op == AU_OP_I32 ? by->integer : 0;
    if (attn_at(a, e)->op == AU_OP_SHR)
        c = by->op == AU_OP_I32 && c >= 0 && c <= 20 ? (int64_t)1 << c : 0;
    if (c <= 0 || llabs(k) != 1 || f.col || f.special_count) return unknown(s);
    AuAffine scaled = {0};
    attn_affine_add(&scaled, &f, c);
    if (k < 0) scaled.constant += c - 1;
    return with_expr(s, scaled, attn_arg(a, e, 0), k);
}

static AuCases split_special(Splitter *s, AuAffine f)
{
    const AuAffineTerm t = f.specials[--f.special_count];
    const AuAttn *a = s->a;
    const AuNode *n = attn_at(a, t.e);
    if (n->op == AU_OP_IDIV || n->op == AU_OP_SHR) {
        if (!f.special_count) return split_quotient(s, f, t.e, t.k);
        const AuAffineTerm other = f.specials[0]; /* the others first */
        f.specials[0] = t;
        f.specials[f.special_count++] = other;
        const uint8_t op = attn_at(a, other.e)->op;
        return op == AU_OP_IDIV || op == AU_OP_SHR ? unknown(s) : split_special(s, f);
    }
    const AuExpr x = attn_arg(a, t.e, 0);
    if (n->op == AU_OP_WHERE) {
        const AuExpr y = attn_arg(a, t.e, 1), z = attn_arg(a, t.e, 2);
        const AuCases yes = both(s, cases_of(s, x, true), with_expr(s, f, y, t.k));
        return either(s, yes, both(s, cases_of(s, x, false), with_expr(s, f, z, t.k)));
    }
    const bool is_abs = n->op == AU_OP_ABS;
    const AuCases one = with_expr(s, f, x, t.k);
    const AuCases two = with_expr(s, f, is_abs ? x : attn_arg(a, t.e, 1), is_abs ? -t.k : t.k);
    const bool one_is_enough = (n->op != AU_OP_MIN) == (t.k > 0);
    return one_is_enough ? either(s, one, two) : both(s, one, two);
}

static AuCases at_least_0(Splitter *s, AuAffine f)
{
    if (f.failed || s->depth >= MAX_DEPTH || ++s->visits > MAX_VISITS) return unknown(s);
    s->depth++;
    AuCases c;
    if (f.special_count)
        c = split_special(s, f);
    else if (!f.row && !f.col && !f.count)
        c = f.constant >= 0 ? everything(s) : nothing();
    else {
        c = everything(s);
        AU_PUSH(s->arena, c.at->affine, c.at->count, c.at->capacity, f);
    }
    s->depth--;
    return c;
}

/* y - x + more >= 0 */
static AuCases difference(Splitter *s, AuExpr y, AuExpr x, int64_t more)
{
    AuAffine f = {.constant = more};
    add_expr(s, &f, y, 1);
    add_expr(s, &f, x, -1);
    return at_least_0(s, f);
}

static AuCases compare(Splitter *s, AuOp op, AuExpr x, AuExpr y, bool holds)
{
    if (op == AU_OP_LT) return holds ? difference(s, y, x, -1) : difference(s, x, y, 0);
    if (op == AU_OP_LE) return holds ? difference(s, y, x, 0) : difference(s, x, y, -1);
    if ((op == AU_OP_EQ) == holds) return both(s, difference(s, y, x, 0), difference(s, x, y, 0));
    return either(s, difference(s, y, x, -1), difference(s, x, y, -1));
}

static AuCases condition(Splitter *s, AuExpr e, bool holds)
{
    AuCases c = everything(s);
    if (!holds) e = attn_simplify_expr(s->a, attn_op1(s->a, AU_OP_NOT, e, attn_at(s->a, e)->span));
    AU_PUSH(s->arena, c.at->when, c.at->when_count, c.at->when_capacity, e);
    return c;
}

static AuCases cases_inside(Splitter *s, AuExpr e, bool holds)
{
    AuAttn *a = s->a;
    const AuNode n = *attn_at(a, e);
    if (n.op == AU_OP_I32) return (n.integer != 0) == holds ? everything(s) : nothing();
    if (n.op == AU_OP_NOT) return cases_of(s, attn_arg(a, e, 0), !holds);
    if (!(n.axes & (s->row | s->col))) return condition(s, e, holds);
    if (n.count < 2) return unknown(s);
    const AuExpr x = attn_arg(a, e, 0), y = attn_arg(a, e, 1);
    if (n.op == AU_OP_AND || n.op == AU_OP_OR) {
        const AuCases one = cases_of(s, x, holds), two = cases_of(s, y, holds);
        return (n.op == AU_OP_AND) == holds ? both(s, one, two) : either(s, one, two);
    }
    if (n.op == AU_OP_WHERE) {
        const AuCases yes = both(s, cases_of(s, x, true), cases_of(s, y, holds));
        return either(s, yes,
                      both(s, cases_of(s, x, false), cases_of(s, attn_arg(a, e, 2), holds)));
    }
    const bool compares =
        n.op == AU_OP_LT || n.op == AU_OP_LE || n.op == AU_OP_EQ || n.op == AU_OP_NE;
    if (!compares || attn_at(a, x)->type != AU_T_I32) return unknown(s);
    return compare(s, (AuOp)n.op, x, y, holds);
}

static AuCases cases_of(Splitter *s, AuExpr e, bool holds)
{
    if (s->depth >= MAX_DEPTH || ++s->visits > MAX_VISITS) return unknown(s);
    s->depth++;
    const AuCases c = cases_inside(s, e, holds);
    s->depth--;
    return c;
}

AuCases attn_cases(AuAttn *a, AuArena *arena, AuExpr mask, uint8_t row, uint8_t col)
{
    Splitter s = {.a = a, .arena = arena, .row = row, .col = col};
    return cases_of(&s, attn_simplify_expr(a, mask), true);
}
