/* log_decay.c - the logarithm of a decay, by rewriting: decays are multiplied over many tokens, so that they are summed up
 * as logarithms, and a script nearly always has the logarithm somewhere. Where it has not, log of the value.
 * From the root down it is settled of which nodes a logarithm is needed, then they are made, arguments first: each node
 * once, however much is shared. */
#include <math.h>

#include "interval.h"
#include "normal_form.h"

static const AuExpr none = {0};

typedef enum Rule {
    OF_VALUE, /* log(x) */
    OF_CONSTANT,
    OF_EXP,          /* x */
    OF_EXP2,         /* x ln 2 */
    OF_SIGMOID,      /* -softplus(-x) */
    OF_ONE_SIGMOID,  /* 1 - sigmoid(x): -softplus(x) */
    OF_ONE_LESS,     /* 1 - x: log1p(-x) */
    OF_ONE_MORE,     /* 1 + x: log1p(x), softplus(y) of 1 + exp(y) */
    OF_POWER,        /* y log x */
    OF_PRODUCT,      /* log x + log y */
    OF_QUOTIENT,     /* log x - log y */
    OF_ROOT,         /* log(x) / 2 */
    OF_INVERSE_ROOT, /* -log(x) / 2 */
    OF_CHOICE,       /* where, min, max, stop_grad: of what is chosen */
} Rule;

typedef struct Logs {
    AuAttn *a;
    AuArena *scratch;
    bool *needed; /* a node's logarithm */
    AuExpr *made;
} Logs;

static bool is_constant(const AuNode *n) { return n->op == AU_OP_F32 || n->op == AU_OP_I32; }

static bool is_one(const AuNode *n) { return n->op == AU_OP_F32 && n->number == 1; }

/* A product of two that may both be negative has a logarithm where its factors have none. */
static Rule rule_of(const AuAttn *a, AuExpr e, const AuInterval *of)
{
    const AuNode *n = attn_at(a, e);
    const AuExpr x = n->count ? attn_arg(a, e, 0) : none,
                 y = n->count > 1 ? attn_arg(a, e, 1) : none;
    switch (n->op) {
    case AU_OP_F32: return OF_CONSTANT;
    case AU_OP_TO_F32: return is_constant(attn_at(a, x)) ? OF_CONSTANT : OF_VALUE;
    case AU_OP_EXP: return OF_EXP;
    case AU_OP_EXP2: return OF_EXP2;
    case AU_OP_SIGMOID: return OF_SIGMOID;
    case AU_OP_ADD: return is_one(attn_at(a, x)) || is_one(attn_at(a, y)) ? OF_ONE_MORE : OF_VALUE;
    case AU_OP_SUB:
        if (!is_one(attn_at(a, x))) return OF_VALUE;
        return attn_at(a, y)->op == AU_OP_SIGMOID ? OF_ONE_SIGMOID : OF_ONE_LESS;
    case AU_OP_POW: return of[x.i].low >= 0 ? OF_POWER : OF_VALUE;
    case AU_OP_MUL: return of[x.i].low >= 0 || of[y.i].low >= 0 ? OF_PRODUCT : OF_VALUE;
    case AU_OP_DIV: return of[x.i].low >= 0 || of[y.i].low >= 0 ? OF_QUOTIENT : OF_VALUE;
    case AU_OP_SQRT: return OF_ROOT;
    case AU_OP_RSQRT: return OF_INVERSE_ROOT;
    case AU_OP_MIN: return of[x.i].low >= 0 && of[y.i].low >= 0 ? OF_CHOICE : OF_VALUE;
    case AU_OP_MAX:
    case AU_OP_WHERE:
    case AU_OP_STOP_GRAD: return OF_CHOICE;
    default: return OF_VALUE;
    }
}

/* Which arguments' logarithms a rule needs: bits. */
static uint32_t needs(const AuAttn *a, AuExpr e, Rule rule)
{
    switch (rule) {
    case OF_POWER:
    case OF_ROOT:
    case OF_INVERSE_ROOT: return 1;
    case OF_PRODUCT:
    case OF_QUOTIENT: return 3;
    case OF_CHOICE:
        return attn_at(a, e)->op == AU_OP_WHERE ? 6 : attn_at(a, e)->op == AU_OP_STOP_GRAD ? 1 : 3;
    case OF_VALUE:
    case OF_CONSTANT:
    case OF_EXP:
    case OF_EXP2:
    case OF_SIGMOID:
    case OF_ONE_SIGMOID:
    case OF_ONE_LESS:
    case OF_ONE_MORE: break;
    }
    return 0;
}

/* From the root down; rules of all nodes that need one. */
static Rule *settle(Logs *l, AuExpr e)
{
    Rule *rules = AU_NEW_ARRAY(l->scratch, Rule, e.i + 1);
    const AuInterval *of = attn_intervals(l->a, e, l->scratch);
    l->needed = AU_NEW_ARRAY(l->scratch, bool, e.i + 1);
    l->needed[e.i] = true;
    for (uint32_t i = e.i; i > 0; i--) {
        if (!l->needed[i]) continue;
        rules[i] = rule_of(l->a, (AuExpr){i}, of);
        const uint32_t wanted = needs(l->a, (AuExpr){i}, rules[i]);
        for (uint32_t k = 0; k < l->a->nodes[i].count; k++)
            if (wanted >> k & 1) l->needed[attn_arg(l->a, (AuExpr){i}, k).i] = true;
    }
    return rules;
}

/* ---- making them */

static AuExpr number(AuAttn *a, double value, AuSpan s) { return attn_f32(a, value, s); }

static AuExpr one_more(AuAttn *a, AuExpr x, AuSpan s)
{
    if (attn_at(a, x)->op == AU_OP_EXP) return attn_op1(a, AU_OP_SOFTPLUS, attn_arg(a, x, 0), s);
    return attn_op1(a, AU_OP_LOG1P, x, s);
}

/* pow(x, 0) is 1, for any x. */
static AuExpr power(AuAttn *a, AuExpr log_x, AuExpr y, AuSpan s)
{
    const AuExpr product = attn_op2(a, AU_OP_MUL, y, log_x, s), zero = number(a, 0, s);
    const AuNode *n = attn_at(a, y);
    if (n->op == AU_OP_F32 && n->number != 0) return product;
    return attn_where(a, attn_op2(a, AU_OP_EQ, y, zero, s), zero, product, s);
}

static AuExpr choice(AuAttn *a, const AuNode *n, const AuExpr *args, const AuExpr *logs)
{
    AuExpr made[3];
    for (uint32_t k = 0; k < n->count && k < 3; k++) made[k] = logs[k].i ? logs[k] : args[k];
    return attn_node(a, (AuOp)n->op, made, n->count, 0, 0, n->span);
}

static double value_of(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    if (n->op == AU_OP_TO_F32) return attn_at(a, attn_arg(a, e, 0))->integer;
    return n->number;
}

static AuExpr make(Logs *l, AuExpr e, Rule rule)
{
    AuAttn *a = l->a;
    const AuNode n = *attn_at(a, e);
    const AuSpan s = n.span;
    AuExpr x[3] = {none, none, none}, log_x[3] = {none, none, none};
    for (uint32_t k = 0; k < n.count && k < 3; k++) {
        x[k] = attn_arg(a, e, k);
        if (needs(a, e, rule) >> k & 1) log_x[k] = l->made[x[k].i];
    }
    switch (rule) {
    case OF_VALUE: break;
    case OF_CONSTANT: return number(a, log(value_of(a, e)), s);
    case OF_EXP: return x[0];
    case OF_EXP2: return attn_op2(a, AU_OP_MUL, x[0], number(a, 0.69314718055994530942, s), s);
    case OF_SIGMOID:
        return attn_op1(a, AU_OP_NEG,
                        attn_op1(a, AU_OP_SOFTPLUS, attn_op1(a, AU_OP_NEG, x[0], s), s), s);
    case OF_ONE_SIGMOID:
        return attn_op1(a, AU_OP_NEG, attn_op1(a, AU_OP_SOFTPLUS, attn_arg(a, x[1], 0), s), s);
    case OF_ONE_LESS: return attn_op1(a, AU_OP_LOG1P, attn_op1(a, AU_OP_NEG, x[1], s), s);
    case OF_ONE_MORE: return one_more(a, is_one(attn_at(a, x[0])) ? x[1] : x[0], s);
    case OF_POWER: return power(a, log_x[0], x[1], s);
    case OF_PRODUCT: return attn_op2(a, AU_OP_ADD, log_x[0], log_x[1], s);
    case OF_QUOTIENT: return attn_op2(a, AU_OP_SUB, log_x[0], log_x[1], s);
    case OF_ROOT: return attn_op2(a, AU_OP_MUL, log_x[0], number(a, 0.5, s), s);
    case OF_INVERSE_ROOT: return attn_op2(a, AU_OP_MUL, log_x[0], number(a, -0.5, s), s);
    case OF_CHOICE: return choice(a, &n, x, log_x);
    }
    return attn_op1(a, AU_OP_LOG, e, s);
}

AuExpr attn_log(AuAttn *a, AuExpr e, AuArena *scratch)
{
    Logs l = {.a = a, .scratch = scratch};
    const Rule *rules = settle(&l, e);
    l.made = AU_NEW_ARRAY(scratch, AuExpr, e.i + 1);
    for (uint32_t i = 1; i <= e.i; i++)
        if (l.needed[i]) l.made[i] = make(&l, (AuExpr){i}, rules[i]);
    return attn_simplify_expr(a, l.made[e.i]);
}

/* The first one, from the root, of a value that data decide: of constants, sizes, parameters and indices a logarithm
 * is as exact as they are. */
AuExpr attn_log_of_value(const AuAttn *a, AuExpr e, AuArena *scratch)
{
    Logs l = {.a = (AuAttn *)(uintptr_t)a, .scratch = scratch}; /* settle only reads */
    const Rule *rules = settle(&l, e);
    bool *of_data = AU_NEW_ARRAY(scratch, bool, e.i + 1);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &a->nodes[i];
        of_data[i] = n->op == AU_OP_TENSOR || n->op == AU_OP_INPUT;
        for (uint32_t k = 0; k < n->count; k++) of_data[i] |= of_data[a->args[n->first + k].i];
    }
    for (uint32_t i = e.i; i > 0; i--)
        if (l.needed[i] && rules[i] == OF_VALUE && of_data[i]) return (AuExpr){i};
    return none;
}
