/* decay.c - is the decay of a recurrence at most 1? Interval arithmetic over the graph, in topological order.
 * Proved above 1: an error, the state would grow without bound. Not proved either way: a note; the compiler then takes the chunked
 * form that needs no bound. NaN is not considered: a bound holds for what is a number. */
#include "check.h"

#include <math.h>

typedef struct Interval {
    double low, high;
} Interval;

static const Interval everything = {-INFINITY, INFINITY};

/* Hull of four products; 0 * inf counts as 0, the product of a bound that is reached and one that is not. */
static Interval multiply(Interval x, Interval y)
{
    const double p[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
    Interval out = {INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        const double v = isnan(p[i]) ? 0 : p[i];
        out.low = fmin(out.low, v);
        out.high = fmax(out.high, v);
    }
    return out;
}

static Interval divide(Interval x, Interval y)
{
    if (y.low <= 0 && y.high >= 0) return everything;
    return multiply(x, (Interval){1 / y.high, 1 / y.low});
}

static Interval magnitude(Interval x)
{
    if (x.low >= 0) return x;
    if (x.high <= 0) return (Interval){-x.high, -x.low};
    return (Interval){0, fmax(-x.low, x.high)};
}

/* x^y for a base that is not negative: monotone in each argument on either side of base 1 and exponent 0. */
static Interval power(Interval x, Interval y)
{
    const double p[] = {pow(x.low, y.low), pow(x.low, y.high), pow(x.high, y.low),
                        pow(x.high, y.high)};
    Interval out = {INFINITY, 0};
    if (x.low < 0) return everything;
    for (int i = 0; i < 4; i++) {
        out.low = fmin(out.low, p[i]);
        out.high = fmax(out.high, p[i]);
    }
    if (x.low <= 1 && x.high >= 1) out = (Interval){fmin(out.low, 1), fmax(out.high, 1)};
    if (y.low <= 0 && y.high >= 0) out = (Interval){fmin(out.low, 1), fmax(out.high, 1)};
    return out;
}

static double log_of(double x) { return x <= 0 ? -INFINITY : log(x); }
static double log1p_of(double x) { return x <= -1 ? -INFINITY : log1p(x); }
static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double softplus_of(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

/* An increasing function. */
static Interval increasing(double (*f)(double), Interval x)
{
    return (Interval){f(x.low), f(x.high)};
}

static Interval leaf(const AuCheck *c, const AuNode *n)
{
    if (n->op == AU_OP_F32) return isnan(n->number) ? everything : (Interval){n->number, n->number};
    if (n->op == AU_OP_I32) return (Interval){n->integer, n->integer};
    if (n->op == AU_OP_INDEX || n->op == AU_OP_KV_H) return (Interval){0, INFINITY};
    if (n->op != AU_OP_SIZE) return everything;
    const int64_t fixed = c->a->sizes[n->integer].fixed;
    return fixed >= 0 ? (Interval){(double)fixed, (double)fixed} : (Interval){1, INFINITY};
}

static Interval of_node(const AuCheck *c, const AuNode *n, Interval x, Interval y, Interval z)
{
    switch (n->op) {
    case AU_OP_ADD: return (Interval){x.low + y.low, x.high + y.high};
    case AU_OP_SUB: return (Interval){x.low - y.high, x.high - y.low};
    case AU_OP_MUL: return multiply(x, y);
    case AU_OP_DIV: return divide(x, y);
    case AU_OP_NEG: return (Interval){-x.high, -x.low};
    case AU_OP_MIN: return (Interval){fmin(x.low, y.low), fmin(x.high, y.high)};
    case AU_OP_MAX: return (Interval){fmax(x.low, y.low), fmax(x.high, y.high)};
    case AU_OP_ABS: return magnitude(x);
    case AU_OP_EXP: return increasing(exp, x);
    case AU_OP_EXP2: return increasing(exp2, x);
    case AU_OP_EXPM1: return increasing(expm1, x);
    case AU_OP_LOG: return increasing(log_of, x);
    case AU_OP_LOG1P: return increasing(log1p_of, x);
    case AU_OP_SQRT: return (Interval){sqrt(fmax(x.low, 0)), sqrt(fmax(x.high, 0))};
    case AU_OP_RSQRT: return (Interval){1 / sqrt(fmax(x.high, 0)), 1 / sqrt(fmax(x.low, 0))};
    case AU_OP_POW: return power(x, y);
    case AU_OP_TANH: return increasing(tanh, x);
    case AU_OP_ERF: return increasing(erf, x);
    case AU_OP_SIGMOID: return increasing(sigmoid_of, x);
    case AU_OP_SOFTPLUS: return increasing(softplus_of, x);
    case AU_OP_SIN:
    case AU_OP_COS:
    case AU_OP_SIGN: return (Interval){-1, 1};
    case AU_OP_FLOOR: return increasing(floor, x);
    case AU_OP_CEIL: return increasing(ceil, x);
    case AU_OP_WHERE: return (Interval){fmin(y.low, z.low), fmax(y.high, z.high)};
    case AU_OP_TO_F32:
    case AU_OP_STOP_GRAD: return x;
    default: return n->count ? everything : leaf(c, n);
    }
}

static Interval range_of(const AuCheck *c, AuExpr e)
{
    Interval *of = AU_NEW_ARRAY(c->arena, Interval, e.i + 1);
    bool *mark = AU_NEW_ARRAY(c->arena, bool, c->a->node_count);
    attn_mark(c->a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &c->a->nodes[i];
        Interval arg[3] = {everything, everything, everything};
        if (!mark[i]) continue;
        for (uint32_t k = 0; k < n->count && k < 3; k++) arg[k] = of[c->a->args[n->first + k].i];
        of[i] = of_node(c, n, arg[0], arg[1], arg[2]);
        if (isnan(of[i].low) || isnan(of[i].high)) of[i] = everything;
    }
    return of[e.i];
}

void check_decay(AuCheck *c, AuExpr decay, AuSpan span)
{
    const Interval range = range_of(c, decay);
    if (range.low > 1 || range.high < 0) {
        check_error(c, AU_E0410, span,
                    range.high < 0 ? "a decay is a factor between 0 and 1, this is always negative"
                                   : "a decay is a factor between 0 and 1, this is always above 1");
    } else if (range.high > 1) {
        AuDiag *d = check_remark(
            c, AU_N0401, span,
            "this decay is not proved to be at most 1; the form that needs no bound is chosen");
        au_add_note(
            c->diags, d, (AuSpan){0},
            "sigmoid(x), exp(-exp(a) * softplus(x)), and products and powers of such are proved");
    }
}
