/* normal_form.c - see normal_form.h. Classes are recognised by which slots there are and by the axes of the simplified
 * log decay, never by names; expressions are hash-consed, so that equal ones are one node. */
#include "normal_form.h"

#include <math.h>

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

const char *attn_slot_name(AuSlot slot)
{
    static const char *const names[] = {"q",     "k",      "v",     "write", "log_decay", "erase",
                                        "reads", "writes", "bonus", "norm",  "skip"};
    return names[slot];
}

uint8_t attn_slot_channel(AuSlot slot)
{
    switch (slot) {
    case AU_SLOT_Q:
    case AU_SLOT_K:
    case AU_SLOT_LOG_DECAY:
    case AU_SLOT_READS:
    case AU_SLOT_WRITES:
    case AU_SLOT_BONUS: return AU_AX_K;
    case AU_SLOT_V:
    case AU_SLOT_SKIP: return AU_AX_V;
    case AU_SLOT_WRITE:
    case AU_SLOT_ERASE:
    case AU_SLOT_NORM:
    case AU_SLOT_COUNT: break;
    }
    return 0;
}

static AuExpr given_or_tensor(AuAttn *a, AuExpr given, uint32_t tensor)
{
    const uint8_t channel = tensor == 2 ? AU_AX_V : AU_AX_K;
    if (given.i) return given;
    return attn_leaf(a, AU_OP_TENSOR, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_TOK | channel,
                     (int32_t)tensor, 0, nowhere);
}

static AuDecayClass class_of(const AuAttn *a, AuExpr log_decay)
{
    if (!log_decay.i) return AU_DECAY_NONE;
    const uint8_t axes = attn_at(a, log_decay)->axes;
    if (axes & AU_AX_K) return AU_DECAY_VECTOR;
    return axes & (AU_AX_TOK | AU_AX_B) ? AU_DECAY_SCALAR : AU_DECAY_CONSTANT;
}

/* x y in either order, if [e] is a product of y: x. */
static AuExpr other_factor(const AuAttn *a, AuExpr e, AuExpr y)
{
    if (attn_at(a, e)->op != AU_OP_MUL) return none;
    if (attn_arg(a, e, 1).i == y.i) return attn_arg(a, e, 0);
    return attn_arg(a, e, 0).i == y.i ? attn_arg(a, e, 1) : none;
}

static bool is_negated(const AuAttn *a, AuExpr e, AuExpr x)
{
    return e.i && x.i && attn_at(a, e)->op == AU_OP_NEG && attn_arg(a, e, 0).i == x.i;
}

/* Whether [e] is -decay k, however it is bracketed. */
static bool is_decayed_key(const AuAttn *a, AuExpr e, AuExpr decay, AuExpr k)
{
    if (!decay.i) return is_negated(a, e, k);
    if (is_negated(a, other_factor(a, e, k), decay) || is_negated(a, other_factor(a, e, decay), k))
        return true;
    return attn_at(a, e)->op == AU_OP_NEG && other_factor(a, attn_arg(a, e, 0), k).i == decay.i;
}

/* lowrank = (-decay k, s k) is erase = s, which costs less. */
static AuExpr strength_of(const AuAttn *a, const AuLinear *l, AuExpr k)
{
    if (!l->lowrank_a.i || !is_decayed_key(a, l->lowrank_a, l->decay, k)) return none;
    const AuExpr s = other_factor(a, l->lowrank_b, k);
    return s.i && !(attn_at(a, s)->axes & (AU_AX_K | AU_AX_V)) ? s : none;
}

/* A number a token at most, and of no row: sums over channels stay where the row is. */
static bool is_number(const AuAttn *a, AuExpr e, AuArena *scratch)
{
    if (attn_at(a, e)->axes & (AU_AX_K | AU_AX_V)) return false;
    bool *mark = AU_NEW_ARRAY(scratch, bool, a->node_count);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i < a->node_count; i++)
        if (mark[i] && a->nodes[i].op == AU_OP_ROW_SUM_C) return false;
    return true;
}

/* Takes the numbers among the factors of [v] out of it. What is left is often the tensor as it stands. */
static AuExpr take_strength(AuAttn *a, AuExpr *v, AuArena *scratch)
{
    AuExpr strength = none;
    while (attn_at(a, *v)->op == AU_OP_MUL) {
        const AuExpr x = attn_arg(a, *v, 0), y = attn_arg(a, *v, 1);
        const bool first = !(attn_at(a, x)->axes & AU_AX_V);
        const AuExpr factor = first ? x : y, rest = first ? y : x;
        if (!(attn_at(a, rest)->axes & AU_AX_V) || !is_number(a, factor, scratch)) break;
        strength = strength.i ? attn_op2(a, AU_OP_MUL, strength, factor, nowhere) : factor;
        *v = rest;
    }
    return strength;
}

/* A norm and a bonus are of the value as a whole; with feedback strengths meet it as f32 already. */
static void split_value(AuAttn *a, AuNormal *n, AuArena *scratch)
{
    const bool alone = !n->slot[AU_SLOT_NORM].i && !n->slot[AU_SLOT_BONUS].i;
    if (!alone || n->feedback != AU_FEEDBACK_NONE || n->slot[AU_SLOT_WRITE].i) return;
    n->slot[AU_SLOT_WRITE] = take_strength(a, &n->slot[AU_SLOT_V], scratch);
}

AuNormal attn_normal_form(AuAttn *a, AuArena *scratch)
{
    const AuLinear *l = a->linear;
    AuNormal n = {.before = l->read_before};
    n.slot[AU_SLOT_Q] = given_or_tensor(a, l->q, 0);
    n.slot[AU_SLOT_K] = given_or_tensor(a, l->k, 1);
    n.slot[AU_SLOT_V] = given_or_tensor(a, l->v, 2);
    const AuExpr strength = strength_of(a, l, n.slot[AU_SLOT_K]);
    n.slot[AU_SLOT_ERASE] = strength.i ? strength : l->erase;
    n.slot[AU_SLOT_WRITE] = l->write.i ? l->write : l->erase;
    if (!strength.i) {
        n.slot[AU_SLOT_READS] = l->lowrank_a;
        n.slot[AU_SLOT_WRITES] = l->lowrank_b;
    }
    n.slot[AU_SLOT_BONUS] = l->bonus;
    n.slot[AU_SLOT_NORM] = l->norm;
    n.slot[AU_SLOT_SKIP] = l->skip;
    if (l->decay.i) n.slot[AU_SLOT_LOG_DECAY] = attn_log(a, l->decay, scratch);
    const AuExpr g = n.slot[AU_SLOT_LOG_DECAY];
    n.decay = class_of(a, g);
    if (g.i) n.log_decay = attn_interval(a, g, scratch);
    n.feedback = n.slot[AU_SLOT_ERASE].i   ? AU_FEEDBACK_KEY
                 : n.slot[AU_SLOT_READS].i ? AU_FEEDBACK_OWN
                                           : AU_FEEDBACK_NONE;
    split_value(a, &n, scratch);
    return n;
}

/* ---- text */

static void print_bound(AuText *out, double x)
{
    if (x > -INFINITY && x < INFINITY)
        au_text_add(out, "%.9g", x + 0.0); /* no -0 */
    else
        au_text_add(out, x < 0 ? "-inf" : "inf");
}

static void print_inputs(const AuAttn *a, const char *what, const AuInputGrads *in, AuText *out)
{
    for (uint32_t i = 0; i < in->count; i++) {
        AuText read = {.arena = out->arena};
        attn_print_expr(a, in->at[i].read, &read);
        attn_print_value(a, au_format(out->arena, "%s d(%s)", what, au_text_str(&read)),
                         &in->at[i].value, 1, out);
    }
}

void attn_print_normal(const AuAttn *a, const AuNormal *n, const AuNormalGrads *g, AuText *out)
{
    static const char *const feedbacks[] = {"none", "key", "own"}, *const classes[] = {
                                                                       "none", "constant", "scalar",
                                                                       "vector"};
    au_text_add(out, "%s %s {\n    feedback %s\n    decay %s", g ? "gradients" : "normal form",
                a->name, feedbacks[n->feedback], classes[n->decay]);
    if (n->decay != AU_DECAY_NONE) {
        au_text_add(out, ", log in [");
        print_bound(out, n->log_decay.low);
        au_text_add(out, ", ");
        print_bound(out, n->log_decay.high);
        au_text_add(out, "]");
    }
    au_text_add(out, "\n    read %s", n->before ? "before" : "after");
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        if (n->slot[s].i) attn_print_value(a, attn_slot_name((AuSlot)s), &n->slot[s], 1, out);
    for (uint32_t s = 0; g && s < AU_SLOT_COUNT; s++)
        print_inputs(a, attn_slot_name((AuSlot)s), &g->slot[s], out);
    if (g && g->sum.i) attn_print_value(a, "norm d($x)", &g->sum, 1, out);
    if (g && g->out.value.i) attn_print_value(a, "out_mod_back", &g->out.value, 1, out);
    if (g) print_inputs(a, "out_mod", &g->out.inputs, out);
    au_text_add(out, "\n}\n");
}
