/* algebra.c - see algebra.h. Nodes are made again from the leaves up; a sum is taken apart into
 * multiples of terms, a product into powers of factors and one exponential of each base, and both
 * are put together again in one order. What is too long stays as it is. */
#include "algebra.h"

#include <math.h>
#include <stdlib.h>

enum { LONGEST = 24 }; /* terms of a sum, factors of a product, and each factor's power */

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

typedef struct Term {
    double k;
    AuExpr e; /* none: the constant */
} Term;

typedef struct Sum {
    Term at[LONGEST];
    uint32_t count;
    bool failed; /* too long */
} Sum;

typedef struct Factor {
    AuExpr e;
    int power;
} Factor;

typedef struct Product {
    double k;
    Factor at[LONGEST];
    uint32_t count;
    Sum exponent, exponent2; /* of e, of 2 */
    bool failed;
} Product;

static AuExpr number(AuAttn *a, double value) { return attn_f32(a, value, nowhere); }
static AuExpr op1(AuAttn *a, AuOp op, AuExpr x) { return attn_op1(a, op, x, nowhere); }
static AuExpr op2(AuAttn *a, AuOp op, AuExpr x, AuExpr y) { return attn_op2(a, op, x, y, nowhere); }

static bool is_constant(const AuAttn *a, AuExpr e) { return attn_at(a, e)->op == AU_OP_F32; }
static double value_of(const AuAttn *a, AuExpr e) { return attn_at(a, e)->number; }

/* Coefficients that are whole numbers but for rounding. */
static double tidy(double k)
{
    const double whole = nearbyint(k);
    return fabs(k - whole) <= 1e-13 * fabs(whole) ? whole : k;
}

/* ---- sums */

static void add_term(Sum *s, double k, AuExpr e)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->at[i].e.i == e.i) {
            s->at[i].k = tidy(s->at[i].k + k);
            return;
        }
    if (s->count == LONGEST)
        s->failed = true;
    else
        s->at[s->count++] = (Term){k, e};
}

/* s += k e */
static void add_terms(AuAttn *a, Sum *s, double k, AuExpr e)
{
    const AuNode n = *attn_at(a, e);
    if (s->failed) return;
    const AuExpr x = n.count > 0 ? attn_arg(a, e, 0) : none;
    const AuExpr y = n.count > 1 ? attn_arg(a, e, 1) : none;
    if (n.op == AU_OP_F32)
        add_term(s, k * n.number, none);
    else if (n.op == AU_OP_NEG)
        add_terms(a, s, -k, x);
    else if (n.op == AU_OP_ADD || n.op == AU_OP_SUB) {
        add_terms(a, s, k, x);
        add_terms(a, s, n.op == AU_OP_ADD ? k : -k, y);
    } else if (n.op == AU_OP_MUL && is_constant(a, y))
        add_terms(a, s, k * value_of(a, y), x);
    else if (n.op == AU_OP_DIV && is_constant(a, y) && value_of(a, y) != 0)
        add_terms(a, s, k / value_of(a, y), x);
    else
        add_term(s, tidy(k), e);
}

static AuExpr multiple(AuAttn *a, double k, AuExpr e)
{
    if (!e.i) return number(a, k);
    return k == 1 ? e : op2(a, AU_OP_MUL, e, number(a, k));
}

/* Positive terms first, in the order in which they came. */
static AuExpr build_sum(AuAttn *a, const Sum *s)
{
    AuExpr result = none;
    for (uint32_t i = 0; i < s->count; i++)
        if (!s->at[i].e.i && isinf(s->at[i].k)) return number(a, s->at[i].k);
    for (int negative = 0; negative < 2; negative++)
        for (int constant = 0; constant < 2; constant++)
            for (uint32_t i = 0; i < s->count; i++) {
                const Term t = s->at[i];
                if (t.k == 0 || (t.k < 0) != negative || (t.e.i == 0) != constant) continue;
                const AuExpr term = multiple(a, fabs(t.k), t.e);
                if (result.i)
                    result = op2(a, negative ? AU_OP_SUB : AU_OP_ADD, result, term);
                else if (t.k < 0)
                    result = t.e.i ? op1(a, AU_OP_NEG, term) : number(a, t.k);
                else
                    result = term;
            }
    return result.i ? result : number(a, 0);
}

static AuExpr sum(AuAttn *a, AuExpr x, double k, AuExpr y)
{
    Sum s = {.count = 0};
    add_terms(a, &s, 1, x);
    add_terms(a, &s, k, y);
    return s.failed ? op2(a, k > 0 ? AU_OP_ADD : AU_OP_SUB, x, y) : build_sum(a, &s);
}

/* ---- products */

static void multiply_factor(AuAttn *a, Product *p, AuExpr e, int power)
{
    const AuNode n = *attn_at(a, e);
    if (p->failed) return;
    if (n.op == AU_OP_F32)
        p->k *= power > 0 ? n.number : 1 / n.number;
    else if (n.op == AU_OP_NEG) {
        p->k = -p->k;
        multiply_factor(a, p, attn_arg(a, e, 0), power);
    } else if (n.op == AU_OP_MUL || n.op == AU_OP_DIV) {
        multiply_factor(a, p, attn_arg(a, e, 0), power);
        multiply_factor(a, p, attn_arg(a, e, 1), n.op == AU_OP_MUL ? power : -power);
    } else if (n.op == AU_OP_EXP)
        add_terms(a, &p->exponent, power, attn_arg(a, e, 0));
    else if (n.op == AU_OP_EXP2)
        add_terms(a, &p->exponent2, power, attn_arg(a, e, 0));
    else {
        p->failed |= p->exponent.failed || p->exponent2.failed;
        for (uint32_t i = 0; i < p->count; i++)
            if (p->at[i].e.i == e.i) {
                p->at[i].power += power;
                p->failed |= abs(p->at[i].power) > LONGEST;
                return;
            }
        if (p->count == LONGEST)
            p->failed = true;
        else
            p->at[p->count++] = (Factor){e, power};
    }
}

static AuExpr product_of(AuAttn *a, AuExpr x, AuExpr y)
{
    if (!x.i || !y.i) return x.i ? x : y;
    return op2(a, AU_OP_MUL, x, y);
}

static AuExpr exponential(AuAttn *a, AuOp op, const Sum *s)
{
    const AuExpr x = build_sum(a, s);
    if (!is_constant(a, x)) return op1(a, op, x);
    const double value = value_of(a, x);
    return value == 0 ? none : number(a, op == AU_OP_EXP ? exp(value) : exp2(value));
}

static AuExpr build_product(AuAttn *a, const Product *p)
{
    AuExpr above = none, below = none;
    if (p->k == 0) return number(a, 0);
    for (uint32_t i = 0; i < p->count; i++)
        for (int n = 0; n < abs(p->at[i].power); n++)
            if (p->at[i].power > 0)
                above = product_of(a, above, p->at[i].e);
            else
                below = product_of(a, below, p->at[i].e);
    above = product_of(a, exponential(a, AU_OP_EXP, &p->exponent), above);
    above = product_of(a, exponential(a, AU_OP_EXP2, &p->exponent2), above);
    const double k = tidy(p->k);
    const bool one_term = !below.i && above.i;
    if (one_term && (k != 1 || attn_at(a, above)->op == AU_OP_ADD ||
                     attn_at(a, above)->op == AU_OP_SUB)) { /* a multiple of a sum is a sum */
        Sum s = {.count = 0};
        add_terms(a, &s, k, above);
        if (!s.failed) return build_sum(a, &s);
    }
    if (!above.i || is_constant(a, above))
        above = number(a, above.i ? k * value_of(a, above) : k);
    else if (k == -1)
        above = op1(a, AU_OP_NEG, above);
    else
        above = multiple(a, k, above);
    return below.i ? op2(a, AU_OP_DIV, above, below) : above;
}

static AuExpr product(AuAttn *a, AuExpr x, AuExpr y, int power)
{
    Product p = {.k = 1};
    multiply_factor(a, &p, x, 1);
    multiply_factor(a, &p, y, power);
    if (p.failed || p.exponent.failed || p.exponent2.failed)
        return op2(a, power > 0 ? AU_OP_MUL : AU_OP_DIV, x, y);
    return build_product(a, &p);
}

/* ---- functions */

/* base^x; logarithms in the exponent are factors. */
static AuExpr power_of(AuAttn *a, AuOp op, AuOp inverse, AuExpr x)
{
    Sum s = {.count = 0};
    Product p = {.k = 1};
    add_terms(a, &s, 1, x);
    if (s.failed) return op1(a, op, x);
    Sum *exponent = op == AU_OP_EXP ? &p.exponent : &p.exponent2;
    for (uint32_t i = 0; i < s.count; i++) {
        const Term t = s.at[i];
        if (!t.e.i && t.k == -INFINITY) return number(a, 0);
        if (t.e.i && attn_at(a, t.e)->op == inverse && fabs(t.k) == 1)
            multiply_factor(a, &p, attn_arg(a, t.e, 0), (int)t.k);
        else
            add_term(exponent, t.k, t.e);
    }
    if (p.failed || p.exponent.failed || p.exponent2.failed) return op1(a, op, x);
    return build_product(a, &p);
}

/* log of a product with an exponential of the same base: the exponent comes out. */
static AuExpr logarithm(AuAttn *a, AuOp op, AuExpr x)
{
    Product p = {.k = 1};
    if (is_constant(a, x))
        return number(a, op == AU_OP_LOG ? log(value_of(a, x)) : log2(value_of(a, x)));
    multiply_factor(a, &p, x, 1);
    Sum *mine = op == AU_OP_LOG ? &p.exponent : &p.exponent2;
    if (p.failed || p.exponent.failed || p.exponent2.failed || !mine->count) return op1(a, op, x);
    const AuExpr out = build_sum(a, mine);
    mine->count = 0;
    const AuExpr rest = build_product(a, &p);
    if (is_constant(a, rest) && value_of(a, rest) == 1) return out;
    return sum(a, out, 1, op1(a, op, rest));
}

static AuExpr extreme(AuAttn *a, AuOp op, AuExpr x, AuExpr y)
{
    const double neutral = op == AU_OP_MAX ? -INFINITY : INFINITY;
    if (x.i == y.i || (is_constant(a, y) && value_of(a, y) == neutral)) return x;
    if (is_constant(a, x) && value_of(a, x) == neutral) return y;
    if (is_constant(a, x) && is_constant(a, y)) {
        const bool first =
            op == AU_OP_MAX ? value_of(a, x) >= value_of(a, y) : value_of(a, x) <= value_of(a, y);
        return first ? x : y;
    }
    return op2(a, op, x, y);
}

static AuExpr rebuild(AuAttn *a, const AuNode *n, const AuExpr *x)
{
    switch (n->op) {
    case AU_OP_ADD: return sum(a, x[0], 1, x[1]);
    case AU_OP_SUB: return sum(a, x[0], -1, x[1]);
    case AU_OP_NEG: return product(a, number(a, -1), x[0], 1);
    case AU_OP_MUL: return product(a, x[0], x[1], 1);
    case AU_OP_DIV: return product(a, x[0], x[1], -1);
    case AU_OP_EXP: return power_of(a, AU_OP_EXP, AU_OP_LOG, x[0]);
    case AU_OP_EXP2: return power_of(a, AU_OP_EXP2, AU_OP_LOG2, x[0]);
    case AU_OP_LOG:
    case AU_OP_LOG2: return logarithm(a, (AuOp)n->op, x[0]);
    case AU_OP_MIN:
    case AU_OP_MAX: return extreme(a, (AuOp)n->op, x[0], x[1]);
    case AU_OP_ROWSUM: /* what is of the row stays inside, where its derivative is of the pair */
        if (is_constant(a, x[0]) && value_of(a, x[0]) == 0) return x[0];
        break;
    case AU_OP_WHERE:
        if (x[1].i == x[2].i) return x[1];
        break;
    }
    return attn_node(a, (AuOp)n->op, x, n->count, n->integer, n->integer2, n->span);
}

static AuExpr make_normal(void *user, AuAttn *a, AuExpr node, const AuExpr *args)
{
    const AuNode n = a->nodes[node.i];
    (void)user;
    return n.count && (n.type == AU_T_F32 || n.op == AU_OP_WHERE) ? rebuild(a, &n, args)
                                                                  : attn_with_args(a, node, args);
}

AuExpr algebra_normal(AuAttn *a, AuExpr e) { return attn_remake(a, e, make_normal, NULL); }

/* ---- solving */

/* On how many paths the leaf is reached; at most 2. */
static uint8_t *count_paths(const AuAttn *a, AuExpr e, AuExpr leaf)
{
    uint8_t *paths = AU_NEW_ARRAY(a->arena, uint8_t, e.i + 1);
    if (leaf.i <= e.i) paths[leaf.i] = 1;
    for (uint32_t i = 1; i <= e.i; i++) {
        uint32_t sum_of_args = paths[i];
        for (uint32_t k = 0; k < a->nodes[i].count; k++)
            sum_of_args += paths[a->args[a->nodes[i].first + k].i];
        paths[i] = sum_of_args > 2 ? 2 : (uint8_t)sum_of_args;
    }
    return paths;
}

/* x where the operation, with the other argument y, is [value]. */
static AuExpr undo(AuAttn *a, AuOp op, bool second, AuExpr y, AuExpr value)
{
    switch ((int)op) { /* others are not undone */
    case AU_OP_ADD: return sum(a, value, -1, y);
    case AU_OP_SUB: return second ? sum(a, y, -1, value) : sum(a, value, 1, y);
    case AU_OP_MUL: return product(a, value, y, -1);
    case AU_OP_DIV: return second ? product(a, y, value, -1) : product(a, value, y, 1);
    case AU_OP_NEG: return product(a, number(a, -1), value, 1);
    case AU_OP_EXP: return logarithm(a, AU_OP_LOG, value);
    case AU_OP_EXP2: return logarithm(a, AU_OP_LOG2, value);
    case AU_OP_LOG: return power_of(a, AU_OP_EXP, AU_OP_LOG, value);
    case AU_OP_LOG2: return power_of(a, AU_OP_EXP2, AU_OP_LOG2, value);
    }
    return none;
}

AuExpr algebra_solve(AuAttn *a, AuExpr e, AuExpr leaf, AuExpr value)
{
    const uint8_t *paths = count_paths(a, e, leaf);
    if (paths[e.i] != 1) return none;
    while (e.i != leaf.i && value.i) {
        const AuNode n = *attn_at(a, e);
        AuExpr args[2] = {none, none};
        uint32_t which = 0;
        for (uint32_t k = 0; k < n.count; k++)
            if (paths[attn_arg(a, e, k).i]) which = k;
        for (uint32_t k = 0; k < n.count && k < 2; k++) args[k] = attn_arg(a, e, k);
        if (n.count > 2) return none;
        value = undo(a, (AuOp)n.op, which == 1, args[1 - which], value);
        e = args[which];
    }
    return value;
}
