/* interval.c - see interval.h. Interval arithmetic over the graph, in topological order. */
#include "interval.h"

#include <math.h>

static const AuInterval everything = {-INFINITY, INFINITY};

/* Hull of four products; 0 * inf counts as 0, the product of a bound that is reached and one that is not. */
static AuInterval multiply(AuInterval x, AuInterval y)
{
    const double p[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
    AuInterval out = {INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        const double v = isnan(p[i]) ? 0 : p[i];
        out.low = fmin(out.low, v);
        out.high = fmax(out.high, v);
    }
    return out;
}

static AuInterval divide(AuInterval x, AuInterval y)
{
    if (y.low <= 0 && y.high >= 0) return everything;
    return multiply(x, (AuInterval){1 / y.high, 1 / y.low});
}

static AuInterval magnitude(AuInterval x)
{
    if (x.low >= 0) return x;
    if (x.high <= 0) return (AuInterval){-x.high, -x.low};
    return (AuInterval){0, fmax(-x.low, x.high)};
}

/* x^y for a base that is not negative: monotone in each argument on either side of base 1 and exponent 0. */
static AuInterval power(AuInterval x, AuInterval y)
{
    const double p[] = {pow(x.low, y.low), pow(x.low, y.high), pow(x.high, y.low),
                        pow(x.high, y.high)};
    AuInterval out = {INFINITY, 0};
    if (x.low < 0) return everything;
    for (int i = 0; i < 4; i++) {
        out.low = fmin(out.low, p[i]);
        out.high = fmax(out.high, p[i]);
    }
    if (x.low <= 1 && x.high >= 1) out = (AuInterval){fmin(out.low, 1), fmax(out.high, 1)};
    if (y.low <= 0 && y.high >= 0) out = (AuInterval){fmin(out.low, 1), fmax(out.high, 1)};
    return out;
}

static double log_of(double x) { return x <= 0 ? -INFINITY : log(x); }
static double log1p_of(double x) { return x <= -1 ? -INFINITY : log1p(x); }
static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double softplus_of(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

/* An increasing function. */
static AuInterval increasing(double (*f)(double), AuInterval x)
{
    return (AuInterval){f(x.low), f(x.high)};
}

static AuInterval leaf(const AuAttn *a, const AuNode *n)
{
    if (n->op == AU_OP_F32)
        return isnan(n->number) ? everything : (AuInterval){n->number, n->number};
    if (n->op == AU_OP_I32) return (AuInterval){n->integer, n->integer};
    if (n->op == AU_OP_INDEX || n->op == AU_OP_KV_H) return (AuInterval){0, INFINITY};
    if (n->op != AU_OP_SIZE) return everything;
    const int64_t fixed = a->sizes[n->integer].fixed;
    return fixed >= 0 ? (AuInterval){(double)fixed, (double)fixed} : (AuInterval){1, INFINITY};
}

static AuInterval of_node(const AuAttn *a, const AuNode *n, AuInterval x, AuInterval y,
                          AuInterval z)
{
    switch (n->op) {
    case AU_OP_ADD: return (AuInterval){x.low + y.low, x.high + y.high};
    case AU_OP_SUB: return (AuInterval){x.low - y.high, x.high - y.low};
    case AU_OP_MUL: return multiply(x, y);
    case AU_OP_DIV: return divide(x, y);
    case AU_OP_NEG: return (AuInterval){-x.high, -x.low};
    case AU_OP_MIN: return (AuInterval){fmin(x.low, y.low), fmin(x.high, y.high)};
    case AU_OP_MAX: return (AuInterval){fmax(x.low, y.low), fmax(x.high, y.high)};
    case AU_OP_ABS: return magnitude(x);
    case AU_OP_EXP: return increasing(exp, x);
    case AU_OP_EXP2: return increasing(exp2, x);
    case AU_OP_EXPM1: return increasing(expm1, x);
    case AU_OP_LOG: return increasing(log_of, x);
    case AU_OP_LOG1P: return increasing(log1p_of, x);
    case AU_OP_SQRT: return (AuInterval){sqrt(fmax(x.low, 0)), sqrt(fmax(x.high, 0))};
    case AU_OP_RSQRT: return (AuInterval){1 / sqrt(fmax(x.high, 0)), 1 / sqrt(fmax(x.low, 0))};
    case AU_OP_POW: return power(x, y);
    case AU_OP_TANH: return increasing(tanh, x);
    case AU_OP_ERF: return increasing(erf, x);
    case AU_OP_SIGMOID: return increasing(sigmoid_of, x);
    case AU_OP_SOFTPLUS: return increasing(softplus_of, x);
    case AU_OP_SIN:
    case AU_OP_COS:
    case AU_OP_SIGN: return (AuInterval){-1, 1};
    case AU_OP_FLOOR: return increasing(floor, x);
    case AU_OP_CEIL: return increasing(ceil, x);
    case AU_OP_WHERE: return (AuInterval){fmin(y.low, z.low), fmax(y.high, z.high)};
    case AU_OP_TO_F32:
    case AU_OP_STOP_GRAD: return x;
    default: return n->count ? everything : leaf(a, n);
    }
}

AuInterval *attn_intervals(const AuAttn *a, AuExpr e, AuArena *scratch)
{
    AuInterval *of = AU_NEW_ARRAY(scratch, AuInterval, e.i + 1);
    bool *mark = AU_NEW_ARRAY(scratch, bool, a->node_count);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &a->nodes[i];
        AuInterval arg[3] = {everything, everything, everything};
        if (!mark[i]) continue;
        for (uint32_t k = 0; k < n->count && k < 3; k++) arg[k] = of[a->args[n->first + k].i];
        of[i] = of_node(a, n, arg[0], arg[1], arg[2]);
        if (isnan(of[i].low) || isnan(of[i].high)) of[i] = everything;
    }
    return of;
}

AuInterval attn_interval(const AuAttn *a, AuExpr e, AuArena *scratch)
{
    return attn_intervals(a, e, scratch)[e.i];
}
