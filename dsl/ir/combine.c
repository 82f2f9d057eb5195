/* combine.c - derives how the row scales of two disjoint sets of keys join, from what online_fwd
 * does to them in a tile:
 *   m' = max(m, rowmax(..))        a running maximum:       max(a, b)
 *   r' = r + rowsum(..)            a sum:                   a + b
 *   r' = t(r, m, m') + rowsum(..)  a sum rescaled by them:  t(a) + t(b), with the joined m for m'
 *   x' = f(m', r', ..)             a function of others:    the same of the joined ones
 * and the factors of the outputs from the rescaling of a tile in the same way. The argument: to
 * add a tile to a state is to join the tile's own state to it. What was derived is tried on random
 * rows before it is believed. */
#include "attn.h"

typedef struct Deriver {
    AuAttn *a;
    AuExpr *joined; /* of each scale: the expression after joining; none: not yet derived */
} Deriver;

static bool is_state(const Deriver *d, AuExpr e, uint32_t scale)
{
    const AuNode *n = attn_at(d->a, e);
    return n->op == AU_OP_STATE && n->integer == (int32_t)scale;
}

/* [e], in which the new value of a derived scale becomes its joined value, and states are side
 * a's, or side b's if [b]. None: something of the tile is left. */
static AuExpr join(Deriver *d, AuExpr e, bool b)
{
    AuAttn *a = d->a;
    bool *mark = AU_NEW_ARRAY(a->arena, bool, e.i + 1);
    AuExpr *made = AU_NEW_ARRAY(a->arena, AuExpr, e.i + 1);
    for (uint32_t s = 0; s < a->online->scale_count; s++) {
        const AuExpr next = a->online->scales[s].next;
        const bool constant = attn_at(a, next)->count ==
                              0; /* a scale that never changes is a state or a number itself */
        if (d->joined[s].i && next.i <= e.i && !constant) made[next.i] = d->joined[s];
    }
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode n = a->nodes[i];
        AuExpr args[UINT8_MAX];
        bool ok = n.op != AU_OP_SCORE && n.op != AU_OP_ROWMAX && n.op != AU_OP_ROWSUM;
        if (!mark[i] || made[i].i) continue;
        for (uint32_t k = 0; k < n.count; k++) {
            args[k] = made[a->args[n.first + k].i];
            ok &= args[k].i != 0;
        }
        if (!ok) continue; /* made of the tile: stays none */
        if (n.op == AU_OP_STATE && b)
            made[i] = attn_leaf(a, AU_OP_STATE_B, AU_T_F32, n.axes, n.integer, 0, n.span);
        else if (n.count)
            made[i] = attn_node(a, (AuOp)n.op, args, n.count, n.integer, n.integer2, n.span);
        else
            made[i] = (AuExpr){i};
    }
    return made[e.i];
}

static AuExpr state_leaf(Deriver *d, AuOp op, uint32_t scale)
{
    return attn_leaf(d->a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, (int32_t)scale, 0,
                     d->a->online->scales[scale].span);
}

/* rest + rowsum(..), in either order; the rest, or none. */
static AuExpr beside_rowsum(const AuAttn *a, AuExpr e)
{
    if (attn_at(a, e)->op != AU_OP_ADD) return (AuExpr){0};
    const AuExpr x = attn_arg(a, e, 0), y = attn_arg(a, e, 1);
    if (attn_at(a, y)->op == AU_OP_ROWSUM) return x;
    if (attn_at(a, x)->op == AU_OP_ROWSUM) return y;
    return (AuExpr){0};
}

static bool is_running_max(const Deriver *d, AuExpr e, uint32_t scale)
{
    const AuAttn *a = d->a;
    if (attn_at(a, e)->op != AU_OP_MAX) return false;
    AuExpr x = attn_arg(a, e, 0), y = attn_arg(a, e, 1);
    if (!is_state(d, x, scale)) {
        const AuExpr swap = x;
        x = y;
        y = swap;
    }
    return is_state(d, x, scale) && attn_at(a, y)->op == AU_OP_ROWMAX &&
           !attn_has_op(a, y, AU_OP_STATE);
}

static AuExpr derive_scale(Deriver *d, uint32_t scale)
{
    AuAttn *a = d->a;
    const AuRowScale *s = &a->online->scales[scale];
    if (is_state(d, s->next, scale)) return state_leaf(d, AU_OP_STATE, scale);
    if (is_running_max(d, s->next, scale))
        return attn_op2(a, AU_OP_MAX, state_leaf(d, AU_OP_STATE, scale),
                        state_leaf(d, AU_OP_STATE_B, scale), s->span);
    const AuExpr rest = beside_rowsum(a, s->next);
    if (rest.i) {
        const AuExpr x = join(d, rest, false), y = join(d, rest, true);
        return x.i && y.i ? attn_op2(a, AU_OP_ADD, x, y, s->span) : (AuExpr){0};
    }
    if (attn_has_op(a, s->next, AU_OP_STATE)) { /* only through the new values of others */
        const AuExpr x = join(d, s->next, false), y = join(d, s->next, true);
        return x.i == y.i ? x : (AuExpr){0};
    }
    return join(d, s->next, false);
}

bool attn_derive_combine(AuAttn *a)
{
    AuOnline *o = a->online;
    if (!o || o->has_combine) return o != NULL;
    Deriver d = {.a = a, .joined = AU_NEW_ARRAY(a->arena, AuExpr, o->scale_count)};
    uint32_t left = o->scale_count;
    for (uint32_t round = 0; round < o->scale_count && left; round++)
        for (uint32_t i = 0; i < o->scale_count; i++) {
            if (d.joined[i].i) continue;
            d.joined[i] = derive_scale(&d, i);
            left -= d.joined[i].i != 0;
        }
    if (left) return false;
    const AuExpr fa = join(&d, o->rescale, false), fb = join(&d, o->rescale, true);
    if (!fa.i || !fb.i) return false;
    for (uint32_t i = 0; i < o->scale_count; i++)
        o->scales[i].combined = attn_simplify_expr(a, d.joined[i]);
    o->combine_a = attn_simplify_expr(a, fa);
    o->combine_b = attn_simplify_expr(a, fb);
    o->has_combine = o->combine_derived = true;
    const char *why;
    if (attn_check_online(a, a->arena, &why)) return true;
    for (uint32_t i = 0; i < o->scale_count; i++) o->scales[i].combined = (AuExpr){0};
    o->combine_a = o->combine_b = (AuExpr){0};
    o->has_combine = o->combine_derived = false;
    return false;
}
