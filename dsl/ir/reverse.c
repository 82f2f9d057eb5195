/* reverse.c - see reverse.h. The derivatives themselves are rows of derivatives.def. */
#include "reverse.h"

#include <math.h>

static const AuExpr none = {0};

/* ---- what derivatives are written with */

typedef struct Writer {
    AuAttn *a;
    AuSpan span; /* of the operation that is differentiated */
} Writer;

static AuExpr op1(const Writer *w, AuOp op, AuExpr x) { return attn_op1(w->a, op, x, w->span); }

static AuExpr op2(const Writer *w, AuOp op, AuExpr x, AuExpr y)
{
    return attn_op2(w->a, op, x, y, w->span);
}

static AuExpr both(const Writer *w, AuExpr c, AuExpr d)
{
    if (!c.i || !d.i) return c.i ? c : d;
    return c.i == d.i ? c : op2(w, AU_OP_AND, c, d);
}

static AuExpr plain(const Writer *w, AuGuarded g)
{
    if (!g.value.i || !g.guard.i) return g.value;
    return attn_where(w->a, g.guard, g.value, attn_f32(w->a, 0, w->span), w->span);
}

/* The last condition of a guard, and what stands before it. */
static AuExpr last_condition(const AuAttn *a, AuExpr guard, AuExpr *before)
{
    const bool several = attn_at(a, guard)->op == AU_OP_AND;
    *before = several ? attn_arg(a, guard, 0) : none;
    return several ? attn_arg(a, guard, 1) : guard;
}

/* Both sides of one choice are one choice again. */
static AuGuarded join_sides(const Writer *w, AuGuarded x, AuGuarded y)
{
    AuExpr before_x, before_y;
    const AuExpr c = last_condition(w->a, x.guard, &before_x),
                 other = last_condition(w->a, y.guard, &before_y);
    const AuNode *n = attn_at(w->a, other);
    if (before_x.i != before_y.i || n->op != AU_OP_NOT || attn_arg(w->a, other, 0).i != c.i)
        return (AuGuarded){none, none};
    return (AuGuarded){attn_where(w->a, c, x.value, y.value, w->span), before_x};
}

static AuGuarded sum(const Writer *w, AuGuarded x, AuGuarded y)
{
    if (!x.value.i || !y.value.i) return x.value.i ? x : y;
    if (x.guard.i == y.guard.i) return (AuGuarded){op2(w, AU_OP_ADD, x.value, y.value), x.guard};
    const bool guarded = x.guard.i && y.guard.i;
    if (guarded) {
        AuGuarded both_sides = join_sides(w, x, y);
        if (!both_sides.value.i) both_sides = join_sides(w, y, x);
        if (both_sides.value.i) return both_sides;
    }
    const AuExpr value = op2(w, AU_OP_ADD, plain(w, x), plain(w, y));
    return (AuGuarded){value, guarded ? op2(w, AU_OP_OR, x.guard, y.guard) : none};
}

// clang-format off
#define NUMBER(v)  attn_f32(w->a, v, w->span)
#define ADD(x, y)  op2(w, AU_OP_ADD, x, y)
#define SUB(x, y)  op2(w, AU_OP_SUB, x, y)
#define MUL(x, y)  op2(w, AU_OP_MUL, x, y)
#define DIV(x, y)  op2(w, AU_OP_DIV, x, y)
#define POW(x, y)  op2(w, AU_OP_POW, x, y)
#define LE(x, y)   op2(w, AU_OP_LE, x, y)
#define LT(x, y)   op2(w, AU_OP_LT, x, y)
#define NE(x, y)   op2(w, AU_OP_NE, x, y)
#define NOT(x)     op1(w, AU_OP_NOT, x)
#define NEG(x)     op1(w, AU_OP_NEG, x)
#define EXP(x)     op1(w, AU_OP_EXP, x)
#define LOG(x)     op1(w, AU_OP_LOG, x)
#define SIN(x)     op1(w, AU_OP_SIN, x)
#define COS(x)     op1(w, AU_OP_COS, x)
#define SIGN(x)    op1(w, AU_OP_SIGN, x)
#define FLOOR(x)   op1(w, AU_OP_FLOOR, x)
#define SIGMOID(x) op1(w, AU_OP_SIGMOID, x)
#define NOTHING    none
#define ALWAYS     none
// clang-format on

/* What node [z] gives to its first or second argument. */
static AuGuarded derivative(const Writer *w, AuOp op, AuExpr d, AuExpr z, AuExpr x, AuExpr y,
                            bool second)
{
    (void)x, (void)y, (void)z;
    switch ((int)op) {
#define DERIVATIVE(NAME, to_x, when_x, to_y, when_y)                                               \
    case AU_OP_##NAME:                                                                             \
        if (second) return (AuGuarded){to_y, when_y};                                              \
        return (AuGuarded){to_x, when_x};
#include "derivatives.def"
#undef DERIVATIVE
    }
    return (AuGuarded){none, none};
}

/* ---- which nodes matter */

static bool is_wanted(const AuAttn *a, const AuNode *n, uint32_t wanted)
{
    if (n->op == AU_OP_INPUT) return n->type == AU_T_F32 && a->tensors[n->integer].grad;
    if (n->op == AU_OP_TENSOR)
        return n->type == AU_T_F32 && (n->integer < 3 || a->tensors[n->integer].grad);
    return n->op < 32 && wanted >> n->op & 1;
}

AuReverse *reverse_new(AuAttn *a, AuArena *arena, AuExpr root, uint8_t over, uint32_t wanted)
{
    AuReverse *r = AU_NEW(arena, AuReverse);
    *r = (AuReverse){.a = a, .arena = arena, .count = root.i + 1, .over = over};
    r->active = AU_NEW_ARRAY(arena, bool, r->count);
    r->adjoint = AU_NEW_ARRAY(arena, AuGuarded, r->count);
    r->along = AU_NEW_ARRAY(arena, AuGuarded, r->count);
    r->parts = AU_NEW_ARRAY(arena, AuParts, r->count);
    bool *mark = AU_NEW_ARRAY(arena, bool, r->count);
    attn_mark(a, root, mark);
    for (uint32_t i = 1; i < r->count; i++) {
        const AuNode *n = &a->nodes[i];
        if (!mark[i]) continue;
        r->active[i] = is_wanted(a, n, wanted);
        if (n->type != AU_T_F32 || n->op == AU_OP_STOP_GRAD || n->op == AU_OP_INPUT ||
            n->op == AU_OP_DOT)
            continue;
        for (uint32_t k = 0; k < n->count; k++) {
            const uint32_t x = a->args[n->first + k].i;
            r->active[i] |= r->active[x] && a->nodes[x].type == AU_T_F32;
        }
    }
    return r;
}

/* ---- passing adjoints on */

/* What is the same for all channels of a recurrence's row, times their number: by itself it does not say which row. */
static AuExpr times_width(const Writer *w, AuExpr value, uint8_t along)
{
    const AuExpr width = w->a->tensors[along & AU_AX_V ? AU_ROLE_V : AU_ROLE_K].axes[3];
    return MUL(value, op1(w, AU_OP_TO_F32, width));
}

/* Where elements chose, the sum may be of nothing: then what comes after it is not evaluated. */
static AuGuarded sum_over(const AuReverse *r, const Writer *w, AuGuarded g, uint8_t along)
{
    const AuOp op = r->over == AU_AX_KV ? AU_OP_ROWSUM : AU_OP_ROW_SUM_C;
    const bool varies = g.guard.i && attn_at(r->a, g.guard)->axes & r->over;
    if (along & (AU_AX_K | AU_AX_V) && !varies && !(attn_at(r->a, g.value)->axes & r->over))
        return (AuGuarded){times_width(w, g.value, along), g.guard};
    const AuExpr total = op1(w, op, varies ? plain(w, g) : g.value);
    return (AuGuarded){total, varies ? NE(total, NUMBER(0)) : g.guard};
}

/* Are inputs all that is wanted below this node of the row? */
static bool is_of_inputs(const AuReverse *r, AuExpr x)
{
    const AuNode *n = attn_at(r->a, x);
    if (n->op == AU_OP_INPUT) return true;
    bool found = r->is_along && n->op != AU_OP_ROWSUM && n->op != AU_OP_ROWMAX && n->count > 0;
    for (uint32_t k = 0; k < n->count && found; k++)
        found = !r->active[r->a->args[n->first + k].i] || is_of_inputs(r, attn_arg(r->a, x, k));
    return found;
}

/* To node x, from a user that has elements along this axis, 0: along none. */
static void give(AuReverse *r, const Writer *w, AuExpr x, AuGuarded g, uint8_t along)
{
    const AuNode n = *attn_at(r->a, x);
    if (!g.value.i || !r->active[x.i] || n.type != AU_T_F32) return;
    if (along && r->over && !(n.axes & r->over)) {
        if (r->over == AU_AX_KV && is_of_inputs(r, x)) {
            r->along[x.i] = sum(w, r->along[x.i], g);
            return;
        }
        g = sum_over(r, w, g, along);
    }
    r->adjoint[x.i] = sum(w, r->adjoint[x.i], g);
    if (!r->cancels) return;
    AuParts *parts = &r->parts[x.i];
    AU_PUSH(r->arena, parts->at, parts->count, parts->capacity, plain(w, g));
}

/* A row of a recurrence, even where all of its channels are the same. */
static AuExpr spread(const Writer *w, AuExpr value, uint8_t axes)
{
    const uint8_t channel = axes & (AU_AX_K | AU_AX_V);
    if (!channel || attn_at(w->a, value)->axes & channel) return value;
    const AuExpr index = attn_leaf(w->a, AU_OP_INDEX, AU_T_I32, channel, channel, 0, w->span);
    return attn_where(w->a, LE(attn_i32(w->a, 0, w->span), index), value, NUMBER(0), w->span);
}

static void pass_rope(AuReverse *r, const Writer *w, const AuNode *n, const AuExpr *args,
                      AuExpr node, AuGuarded d)
{
    const AuExpr back[] = {spread(w, plain(w, d), n->axes), NEG(args[1]), args[2], args[3],
                           args[4]};
    const AuExpr turned = attn_node(r->a, AU_OP_ROPE, back, 5, n->integer, 0, n->span);
    if (r->active[args[1].i] || r->active[args[2].i]) r->lost = node;
    give(r, w, args[0], (AuGuarded){turned, none}, n->axes & r->over);
}

static void pass_dropout(AuReverse *r, const Writer *w, const AuExpr *args, AuExpr node,
                         AuGuarded d)
{
    const AuExpr back[] = {d.value, args[1], args[2], args[3]};
    const AuExpr kept = attn_node(r->a, AU_OP_DROPOUT, back, 4, 0, 0, w->span);
    const AuExpr rate = DIV(MUL(d.value, node), SUB(NUMBER(1), args[1]));
    give(r, w, args[0], (AuGuarded){kept, d.guard}, r->over);
    if (r->active[args[1].i]) give(r, w, args[1], (AuGuarded){rate, d.guard}, r->over);
}

/* Along what a sum goes: in a recurrence its argument says which channels. */
static uint8_t summed(const AuReverse *r, AuExpr x)
{
    const uint8_t channels = AU_AX_K | AU_AX_V;
    return r->over & channels ? attn_at(r->a, x)->axes & r->over : r->over;
}

/* [elements]: along what d has elements, 0: along nothing. */
static void pass_on(AuReverse *r, AuExpr node, AuGuarded d, uint8_t elements)
{
    const AuNode n = *attn_at(r->a, node);
    const Writer writer = {r->a, n.span}, *w = &writer;
    AuExpr args[5] = {none};
    for (uint32_t k = 0; k < n.count && k < 5; k++) args[k] = attn_arg(r->a, node, k);
    if (n.op == AU_OP_ROWSUM || n.op == AU_OP_ROW_SUM_C)
        give(r, w, args[0], d, summed(r, args[0])); /* d for each element of the argument */
    else if (n.op == AU_OP_ROPE)
        pass_rope(r, w, &n, args, node, d);
    else if (n.op == AU_OP_DROPOUT)
        pass_dropout(r, w, args, node, d);
    else if (n.op == AU_OP_WHERE) {
        give(r, w, args[1], (AuGuarded){d.value, both(w, d.guard, args[0])}, elements);
        give(r, w, args[2], (AuGuarded){d.value, both(w, d.guard, NOT(args[0]))}, elements);
    } else
        for (uint32_t k = 0; k < n.count && k < 2; k++) {
            if (!r->active[args[k].i]) continue; /* no derivative that nobody wants */
            AuGuarded g = derivative(w, (AuOp)n.op, d.value, node, args[0], args[1], k == 1);
            g.guard = both(w, d.guard, g.guard);
            give(r, w, args[k], g, elements);
        }
}

void reverse_run(AuReverse *r, AuExpr root, AuGuarded seed)
{
    AuAttn *a = r->a;
    const Writer w = {a, attn_at(a, root)->span};
    give(r, &w, root, seed, attn_at(a, seed.value)->axes & r->over);
    for (uint32_t i = root.i; i > 0; i--) {
        AuGuarded *d = &r->adjoint[i];
        if (!r->active[i]) continue;
        if (r->along[i].value.i && a->nodes[i].op != AU_OP_INPUT)
            pass_on(r, (AuExpr){i}, r->along[i], r->over);
        if (!d->value.i) continue;
        if (r->cancels && !(a->nodes[i].axes & r->over) && r->cancels(r->user, &r->parts[i]))
            d->value = none;
        if (d->value.i) pass_on(r, (AuExpr){i}, *d, a->nodes[i].axes & r->over);
    }
}

AuExpr reverse_of(const AuReverse *r, AuExpr node)
{
    if (node.i >= r->count) return none;
    const Writer w = {r->a, attn_at(r->a, node)->span};
    return plain(&w, r->adjoint[node.i]);
}

AuExpr reverse_along(const AuReverse *r, AuExpr node)
{
    const Writer w = {r->a, attn_at(r->a, node)->span};
    return plain(&w, r->along[node.i]);
}
