/* hooks.c - see hooks.h. A node of the attention's graph becomes an expression where it is used; a
 * node that is used more than once becomes an assignment of the hook, so that shared work stays
 * shared. */
#include "hooks.h"

#include <math.h>
#include <string.h>

/* One function being written. */
typedef struct Writer {
    AuHooks *hooks;
    AuAttn *attn;
    AuDiags *diags;
    AuTileFn *fn;
    AuTileExpr **done;   /* by node: the name that holds it */
    uint32_t *uses;      /* by node, in this function */
    bool own_head;       /* k_mod, v_mod: h already is the key head */
    const char *channel; /* axis of the channels in row mods: "d" or "e" */
    const char *row_tensor, *row_h,
        *row_i; /* row mods: the tensor whose element x is, and the names of its head and row */
    bool raw_element;          /* x is read from the tensor at the present channel (the partner of a
                                  rotation) */
    AuTileExpr *channel_index; /* then: which channel; NULL: the element's own */
    bool guard_ok; /* in online_fwd: pairs that take no part must be kept out of sums explicitly */
    bool failed;
} Writer;

/* ---- small constructors */

static AuTileModule *module_of(Writer *w) { return w->hooks->module; }
static const char *intern(Writer *w, const char *name)
{
    return au_name(module_of(w)->names, name);
}

static AuTileExpr *node(Writer *w, AuTileOp op, AuSpan span)
{
    AuTileExpr *e = AU_NEW(module_of(w)->arena, AuTileExpr);
    e->op = op;
    e->span = span;
    return e;
}

static void add_arg(Writer *w, AuTileExpr *e, AuTileExpr *arg)
{
    AU_PUSH(module_of(w)->arena, e->args.at, e->args.count, e->args.capacity, arg);
}

static AuTileExpr *op1(Writer *w, AuTileOp op, AuTileExpr *a)
{
    AuTileExpr *e = node(w, op, a->span);
    add_arg(w, e, a);
    return e;
}
static AuTileExpr *op2(Writer *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b)
{
    AuTileExpr *e = op1(w, op, a);
    add_arg(w, e, b);
    return e;
}
static AuTileExpr *op3(Writer *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b, AuTileExpr *c)
{
    AuTileExpr *e = op2(w, op, a, b);
    add_arg(w, e, c);
    return e;
}
static AuTileExpr *name_of(Writer *w, const char *name)
{
    AuTileExpr *e = node(w, TILE_X_NAME, (AuSpan){0});
    e->name = intern(w, name);
    return e;
}
static AuTileExpr *integer(Writer *w, int64_t value)
{
    AuTileExpr *e = node(w, TILE_X_INT, (AuSpan){0});
    e->integer = value;
    return e;
}
static AuTileExpr *number(Writer *w, double value)
{
    AuTileExpr *e = node(w, TILE_X_FLOAT, (AuSpan){0});
    e->number = value;
    return e;
}

static AuTileExpr *assign(Writer *w, const char *name, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(module_of(w)->arena, AuTileStmt);
    s->kind = TILE_S_ASSIGN;
    s->span = value->span;
    s->assign.value = value;
    AU_PUSH(module_of(w)->arena, s->assign.names.at, s->assign.names.count,
            s->assign.names.capacity, intern(w, name));
    AU_PUSH(module_of(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
    return name_of(w, name);
}

/* ---- from the graph */

static const AuTileOp op_map[AU_OP_COUNT] = {
    // clang-format off
    [AU_OP_ADD] = TILE_X_ADD, [AU_OP_SUB] = TILE_X_SUB, [AU_OP_MUL] = TILE_X_MUL, [AU_OP_DIV] = TILE_X_DIV, [AU_OP_IDIV] = TILE_X_DIV,
    [AU_OP_MOD] = TILE_X_MOD, [AU_OP_NEG] = TILE_X_NEG, [AU_OP_MIN] = TILE_X_MIN, [AU_OP_MAX] = TILE_X_MAX, [AU_OP_ABS] = TILE_X_ABS,
    [AU_OP_SIGN] = TILE_X_SIGN, [AU_OP_FLOOR] = TILE_X_FLOOR, [AU_OP_CEIL] = TILE_X_CEIL, [AU_OP_EXP] = TILE_X_EXP, [AU_OP_EXP2] = TILE_X_EXP2,
    [AU_OP_EXPM1] = TILE_X_EXPM1, [AU_OP_LOG] = TILE_X_LOG, [AU_OP_LOG2] = TILE_X_LOG2, [AU_OP_LOG1P] = TILE_X_LOG1P, [AU_OP_SQRT] = TILE_X_SQRT,
    [AU_OP_RSQRT] = TILE_X_RSQRT, [AU_OP_POW] = TILE_X_POW, [AU_OP_TANH] = TILE_X_TANH, [AU_OP_SIGMOID] = TILE_X_SIGMOID,
    [AU_OP_SOFTPLUS] = TILE_X_SOFTPLUS, [AU_OP_ERF] = TILE_X_ERF, [AU_OP_SIN] = TILE_X_SIN, [AU_OP_COS] = TILE_X_COS,
    [AU_OP_LOGADDEXP] = TILE_X_LOGADDEXP, [AU_OP_BAND] = TILE_X_BAND, [AU_OP_BOR] = TILE_X_BOR, [AU_OP_BXOR] = TILE_X_BXOR,
    [AU_OP_BNOT] = TILE_X_BNOT, [AU_OP_SHL] = TILE_X_SHL, [AU_OP_SHR] = TILE_X_SHR, [AU_OP_LT] = TILE_X_LT, [AU_OP_LE] = TILE_X_LE,
    [AU_OP_EQ] = TILE_X_EQ, [AU_OP_NE] = TILE_X_NE, [AU_OP_AND] = TILE_X_AND, [AU_OP_OR] = TILE_X_OR, [AU_OP_NOT] = TILE_X_NOT,
    [AU_OP_WHERE] = TILE_X_WHERE, [AU_OP_TO_F32] = TILE_X_TO_F32, [AU_OP_TO_I32] = TILE_X_TO_I32,
    // clang-format on
};

static AuTileExpr *write_node(Writer *w, AuExpr e);

static AuTileExpr *size_expr(Writer *w, const AuSize *s)
{
    return s->fixed >= 0 ? integer(w, s->fixed)
                         : name_of(w, hooks_name(module_of(w)->arena, s->name));
}

/* Positions of the hooks' parameters need no clamping: kernels pass them inside the axes or guard
 * what they read. */
static bool is_position(const AuNode *n) { return n->op == AU_OP_INDEX || n->op == AU_OP_KV_H; }

static AuTileExpr *input_ref(Writer *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuTensor *t = &w->attn->tensors[n.integer];
    AuTileExpr *ref = node(w, TILE_X_REF, n.span);
    ref->name = intern(w, hooks_name(module_of(w)->arena, t->name));
    ref->has_index = n.count > 0;
    for (uint32_t i = 0; i < n.count; i++) {
        const AuExpr index = attn_arg(w->attn, e, i);
        AuTileExpr *at = write_node(w, index);
        if (!is_position(attn_at(w->attn, index)) && attn_at(w->attn, index)->op != AU_OP_I32) {
            AuTileExpr *last = op2(w, TILE_X_SUB, write_node(w, t->axes[i]), integer(w, 1));
            at = op3(w, TILE_X_CLAMP, at, integer(w, 0), last);
        }
        add_arg(w, ref, at);
    }
    if (t->dtype == AU_DT_BOOL) return op2(w, TILE_X_NE, ref, integer(w, 0));
    if (t->dtype == AU_DT_I32 || t->dtype == AU_DT_I64 || t->dtype == AU_DT_U8)
        return op1(w, TILE_X_TO_I32, ref);
    return op1(w, TILE_X_TO_F32, ref);
}

/* h / (H / Hk) */
static AuTileExpr *key_head(Writer *w)
{
    const AuAttn *a = w->attn;
    if (w->own_head) return name_of(w, "h");
    return op2(w, TILE_X_DIV, name_of(w, "h"),
               op2(w, TILE_X_DIV, write_node(w, a->tensors[0].axes[1]),
                   write_node(w, a->tensors[1].axes[1])));
}

static AuTileExpr *index_expr(Writer *w, int32_t axis)
{
    switch (axis) {
    case AU_AX_B: return name_of(w, "b");
    case AU_AX_H: return name_of(w, "h");
    case AU_AX_Q: return name_of(w, "i");
    case AU_AX_KV: return name_of(w, "j");
    case AU_AX_C: return w->channel_index ? w->channel_index : name_of(w, "c");
    default: break;
    }
    w->failed = true;
    return integer(w, 0);
}

/* x of a row mod: the hook's argument, or, for the partner channel of a rotation, the tensor's
 * element there. */
static AuTileExpr *element(Writer *w)
{
    if (!w->raw_element) return name_of(w, "x");
    AuTileExpr *ref = node(w, TILE_X_REF, (AuSpan){0});
    ref->name = intern(w, w->row_tensor);
    ref->has_index = true;
    add_arg(w, ref, name_of(w, "b"));
    add_arg(w, ref, name_of(w, w->row_h));
    add_arg(w, ref, name_of(w, w->row_i));
    add_arg(w, ref, w->channel_index);
    return op1(w, TILE_X_TO_F32, ref);
}

/* The expression [e] of the row, at another channel; nothing that was computed for the present one
 * may be reused. */
static AuTileExpr *at_channel(Writer *w, AuExpr e, AuTileExpr *channel)
{
    Writer other = *w;
    other.raw_element = true;
    other.channel_index = channel;
    other.done = AU_NEW_ARRAY(module_of(w)->arena, AuTileExpr *, w->attn->node_count);
    other.uses = AU_NEW_ARRAY(module_of(w)->arena, uint32_t, w->attn->node_count);
    for (uint32_t n = 0; n < w->attn->node_count;
         n++) /* what does not depend on the channel is shared */
        if (w->done[n] && !(w->attn->nodes[n].axes & AU_AX_C)) other.done[n] = w->done[n];
    AuTileExpr *out = write_node(&other, e);
    w->failed |= other.failed;
    return out;
}

/* Pairs (j, j + count / 2), or (2 j, 2 j + 1) interleaved, turned by position * theta^(-2 j /
 * count); channels outside first .. first + count pass. Su et al., RoFormer, 2021, equation 34. */
static AuTileExpr *rope(Writer *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuExpr x = attn_arg(w->attn, e, 0);
    AuTileExpr *position = write_node(w, attn_arg(w->attn, e, 1)),
               *theta = write_node(w, attn_arg(w->attn, e, 2));
    AuTileExpr *first = write_node(w, attn_arg(w->attn, e, 3)),
               *count = write_node(w, attn_arg(w->attn, e, 4));
    AuTileExpr *c = op2(w, TILE_X_SUB, index_expr(w, AU_AX_C), first),
               *half = op2(w, TILE_X_DIV, count, integer(w, 2)), *pair, *low, *partner;
    if (n.integer) {
        pair = op2(w, TILE_X_DIV, c, integer(w, 2));
        low = op2(w, TILE_X_EQ, op2(w, TILE_X_MOD, c, integer(w, 2)), integer(w, 0));
        partner = op3(w, TILE_X_WHERE, low, op2(w, TILE_X_ADD, c, integer(w, 1)),
                      op2(w, TILE_X_SUB, c, integer(w, 1)));
    } else {
        low = op2(w, TILE_X_LT, c, half);
        pair = op3(w, TILE_X_WHERE, low, c, op2(w, TILE_X_SUB, c, half));
        partner =
            op3(w, TILE_X_WHERE, low, op2(w, TILE_X_ADD, c, half), op2(w, TILE_X_SUB, c, half));
    }
    AuTileExpr *exponent =
        op2(w, TILE_X_DIV, op2(w, TILE_X_MUL, number(w, -2), op1(w, TILE_X_TO_F32, pair)),
            op1(w, TILE_X_TO_F32, count));
    AuTileExpr *angle =
        op2(w, TILE_X_MUL, op1(w, TILE_X_TO_F32, position), op2(w, TILE_X_POW, theta, exponent));
    AuTileExpr *own = write_node(w, x),
               *there = at_channel(w, x, op2(w, TILE_X_ADD, partner, first));
    AuTileExpr *sine = op2(w, TILE_X_MUL, there, op1(w, TILE_X_SIN, angle));
    AuTileExpr *turned = op2(w, TILE_X_ADD, op2(w, TILE_X_MUL, own, op1(w, TILE_X_COS, angle)),
                             op3(w, TILE_X_WHERE, low, op1(w, TILE_X_NEG, sine), sine));
    AuTileExpr *inside =
        op2(w, TILE_X_AND, op2(w, TILE_X_GE, c, integer(w, 0)), op2(w, TILE_X_LT, c, count));
    return op3(w, TILE_X_WHERE, inside, turned, own);
}

/* A reduction over the keys of a tile, in which pairs that take no part do not count. */
static AuTileExpr *row_reduction(Writer *w, AuExpr e, bool is_max)
{
    AuTileExpr *x = write_node(w, attn_arg(w->attn, e, 0));
    if (w->guard_ok) {
        AuTileExpr *ok = op2(w, TILE_X_GT, name_of(w, "s"), number(w, -(double)INFINITY));
        x = op3(w, TILE_X_WHERE, ok, x, number(w, is_max ? -(double)INFINITY : 0));
    }
    return op1(w, is_max ? TILE_X_ROWMAX : TILE_X_ROWSUM, x);
}

static AuTileExpr *dot(Writer *w, AuExpr e)
{
    AuHooks *h = w->hooks;
    uint32_t n = 0;
    while (n < h->dot_count && h->dots[n].i != e.i) n++;
    if (n == sizeof h->dots / sizeof *h->dots) {
        au_error(w->diags, AU_E0811, attn_at(w->attn, e)->span,
                 "more than %u products `dot` in one attention", n);
        w->failed = true;
        return number(w, 0);
    }
    if (n == h->dot_count) h->dots[h->dot_count++] = e;
    return name_of(w, au_format(module_of(w)->arena, "dot%u", n));
}

static AuTileExpr *seed_word(Writer *w, const AuNode *n)
{
    const char *base =
        n->integer2 >= 0 ? w->attn->params[n->integer2].name : w->attn->tensors[~n->integer2].name;
    if (n->integer2 >= 0)
        return name_of(w, au_format(module_of(w)->arena, "%s_%s",
                                    hooks_name(module_of(w)->arena, base),
                                    n->integer ? "high" : "low"));
    au_error(w->diags, AU_E0811, n->span,
             "a dropout seed in memory (%s) is not supported by this target's kernels; pass it as "
             "an i64 param",
             base);
    w->failed = true;
    return integer(w, 0);
}

static AuTileExpr *dropout(Writer *w, AuExpr e)
{
    AuTileExpr *a[4];
    for (uint32_t n = 0; n < 4; n++) a[n] = write_node(w, attn_arg(w->attn, e, n));
    AuTileExpr *uniform = node(w, TILE_X_CALL, attn_at(w->attn, e)->span);
    uniform->name = intern(w, "philox_uniform");
    for (uint32_t n = 0; n < 4; n++)
        add_arg(w, uniform, name_of(w, (const char *const[]){"b", "h", "i", "j"}[n]));
    for (uint32_t n = 2; n < 4; n++) add_arg(w, uniform, a[n]);
    AuTileExpr *keep = op2(w, TILE_X_GE, uniform, a[1]);
    return op3(w, TILE_X_WHERE, keep,
               op2(w, TILE_X_DIV, a[0], op2(w, TILE_X_SUB, number(w, 1), a[1])), number(w, 0));
}

static AuTileExpr *leaf_or_special(Writer *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    switch ((int)n.op) {
    case AU_OP_F32: return number(w, n.number);
    case AU_OP_I32: {
        AuTileExpr *x = integer(w, n.integer);
        if (n.type == AU_T_BOOL) x->op = TILE_X_BOOL;
        return x;
    }
    case AU_OP_SIZE: return size_expr(w, &w->attn->sizes[n.integer]);
    case AU_OP_INDEX: return index_expr(w, n.integer);
    case AU_OP_KV_H: return key_head(w);
    case AU_OP_PARAM:
        return name_of(w, hooks_name(module_of(w)->arena, w->attn->params[n.integer].name));
    case AU_OP_INPUT: return input_ref(w, e);
    case AU_OP_SCORE: return name_of(w, "s");
    case AU_OP_WEIGHT: return name_of(w, "p");
    case AU_OP_ELEMENT: return element(w);
    case AU_OP_STATE: return name_of(w, au_format(module_of(w)->arena, "state%d", n.integer));
    case AU_OP_ROWMAX: return row_reduction(w, e, true);
    case AU_OP_ROWSUM: return row_reduction(w, e, false);
    case AU_OP_ROW_SUM_C: {
        AuTileExpr *sum = op1(w, TILE_X_REDUCE_SUM, write_node(w, attn_arg(w->attn, e, 0)));
        AU_PUSH(module_of(w)->arena, sum->names.at, sum->names.count, sum->names.capacity,
                intern(w, w->channel));
        return sum;
    }
    case AU_OP_DOT: return dot(w, e);
    case AU_OP_ROPE: return rope(w, e);
    case AU_OP_DROPOUT: return dropout(w, e);
    case AU_OP_SEED_WORD: return seed_word(w, &n);
    case AU_OP_STOP_GRAD: return write_node(w, attn_arg(w->attn, e, 0));
    default: break;
    }
    AuTileExpr *x = node(w, op_map[n.op], n.span);
    for (uint32_t i = 0; i < n.count; i++) add_arg(w, x, write_node(w, attn_arg(w->attn, e, i)));
    return x;
}

static AuTileExpr *write_node(Writer *w, AuExpr e)
{
    if (w->done[e.i]) return name_of(w, w->done[e.i]->name);
    AuTileExpr *x = leaf_or_special(w, e);
    x->span = attn_at(w->attn, e)->span;
    /* Sums over a row are always named: what is written for a partner channel shares them. */
    if (x->args.count == 0 || (w->uses[e.i] < 2 && attn_at(w->attn, e)->op != AU_OP_ROW_SUM_C))
        return x;
    return w->done[e.i] = assign(w, au_format(module_of(w)->arena, "t%u", e.i), x);
}

/* ---- functions */

static void count_uses(Writer *w, AuExpr e)
{
    if (!e.i || w->uses[e.i]++) return;
    for (uint32_t n = 0; n < attn_at(w->attn, e)->count; n++)
        count_uses(w, attn_arg(w->attn, e, n));
}

static void begin(Writer *w, const char *name, const char *const *params, uint32_t count)
{
    AuTileModule *m = module_of(w);
    AuTileFn *fn = AU_NEW(m->arena, AuTileFn);
    fn->name = intern(w, name);
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(m->arena, fn->params.at, fn->params.count, fn->params.capacity,
                intern(w, params[n]));
    AU_PUSH(m->arena, m->fns.at, m->fns.count, m->fns.capacity, fn);
    w->fn = fn;
    w->done = AU_NEW_ARRAY(m->arena, AuTileExpr *, w->attn->node_count);
    w->uses = AU_NEW_ARRAY(m->arena, uint32_t, w->attn->node_count);
}

static void finish(Writer *w, AuTileExpr *const *items, uint32_t count)
{
    AuTileStmt *s = AU_NEW(module_of(w)->arena, AuTileStmt);
    s->kind = TILE_S_RETURN;
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(module_of(w)->arena, s->ret.items.at, s->ret.items.count, s->ret.items.capacity,
                items[n]);
    AU_PUSH(module_of(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
}

#define PARAMS(...)                                                                                \
    (const char *const[]){__VA_ARGS__},                                                            \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

static void simple_hook(Writer *w, const char *name, const char *const *params, uint32_t count,
                        AuExpr e)
{
    begin(w, name, params, count);
    count_uses(w, e);
    AuTileExpr *x = write_node(w, e);
    finish(w, &x, 1);
}

/* What an expression is when the score is -inf, its row scales being finite: enough to see that
 * softmax needs no test of each pair. */
typedef enum AtMinusInf { IS_UNKNOWN, IS_FINITE, IS_ZERO, IS_MINUS_INF } AtMinusInf;

static AtMinusInf at_minus_inf(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    if (n->op == AU_OP_SCORE) return IS_MINUS_INF;
    if (!(n->axes & AU_AX_KV)) return IS_FINITE;
    const AtMinusInf x = n->count > 0 ? at_minus_inf(a, attn_arg(a, e, 0)) : IS_UNKNOWN;
    const AtMinusInf y = n->count > 1 ? at_minus_inf(a, attn_arg(a, e, 1)) : IS_UNKNOWN;
    switch ((int)n->op) {
    case AU_OP_ADD:
        return (x == IS_MINUS_INF && y == IS_FINITE) || (x == IS_FINITE && y == IS_MINUS_INF)
                   ? IS_MINUS_INF
                   : IS_UNKNOWN;
    case AU_OP_SUB: return x == IS_MINUS_INF && y == IS_FINITE ? IS_MINUS_INF : IS_UNKNOWN;
    case AU_OP_MUL:
        return (x == IS_ZERO && y != IS_UNKNOWN && y != IS_MINUS_INF) ||
                       (y == IS_ZERO && x == IS_FINITE)
                   ? IS_ZERO
                   : IS_UNKNOWN;
    case AU_OP_EXP:
    case AU_OP_EXP2:
    case AU_OP_SIGMOID:
    case AU_OP_SOFTPLUS: return x == IS_MINUS_INF ? IS_ZERO : IS_UNKNOWN;
    default: return IS_UNKNOWN;
    }
}

/* Do the reductions under e leave out pairs of score -inf by themselves? */
static bool reductions_are_neutral(const AuAttn *a, AuExpr e)
{
    if (!e.i) return true;
    const AuNode *n = attn_at(a, e);
    if (n->op == AU_OP_ROWMAX && at_minus_inf(a, attn_arg(a, e, 0)) != IS_MINUS_INF) return false;
    if (n->op == AU_OP_ROWSUM && at_minus_inf(a, attn_arg(a, e, 0)) != IS_ZERO) return false;
    for (uint32_t i = 0; i < n->count; i++)
        if (!reductions_are_neutral(a, attn_arg(a, e, i))) return false;
    return true;
}

static bool is_one(const AuAttn *a, AuExpr e)
{
    return attn_at(a, e)->op == AU_OP_F32 && attn_at(a, e)->number == 1;
}

static const char *state_name(Writer *w, uint32_t n)
{
    return au_format(module_of(w)->arena, "state%u", n);
}

static uint32_t with_states(Writer *w, const char **params, uint32_t count)
{
    for (uint32_t n = 0; n < w->hooks->state_count; n++) params[count++] = state_name(w, n);
    return count;
}

static void write_init(Writer *w)
{
    const AuOnline *online = w->attn->online;
    begin(w, "online_init", PARAMS("row", "b", "h", "i"));
    for (uint32_t n = 0; n < online->scale_count; n++) count_uses(w, online->scales[n].start);
    AuTileExpr *items[32];
    for (uint32_t n = 0; n < online->scale_count; n++) {
        AuTileExpr *start = write_node(w, online->scales[n].start);
        const bool scalar = attn_at(w->attn, online->scales[n].start)->axes == 0;
        items[n] = scalar ? op2(w, TILE_X_FILL, name_of(w, "row"), start)
                          : op2(w, TILE_X_ADD, name_of(w, "row"), start);
    }
    if (w->hooks->state_count > online->scale_count)
        items[online->scale_count] = op2(w, TILE_X_FILL, name_of(w, "row"), number(w, 0));
    finish(w, items, w->hooks->state_count);
}

static void write_forward(Writer *w)
{
    AuAttn *a = w->attn;
    const AuOnline *online = a->online;
    const uint32_t scales = online->scale_count;
    const char *params[40] = {"s", "b", "h", "i"};
    begin(w, "online_fwd", params, with_states(w, params, 4));
    count_uses(w, online->weight);
    if (w->hooks->has_scale) count_uses(w, online->rescale);
    bool neutral =
        reductions_are_neutral(a, online->weight) && reductions_are_neutral(a, online->rescale);
    for (uint32_t n = 0; n < scales; n++) {
        count_uses(w, online->scales[n].next);
        neutral = neutral && reductions_are_neutral(a, online->scales[n].next);
    }
    w->guard_ok = !neutral;
    AuTileExpr *any = NULL, *items[40], *p = write_node(w, online->weight);
    if (w->hooks->state_count > scales)
        any = assign(w, "any",
                     op2(w, TILE_X_GT, op1(w, TILE_X_ROWMAX, name_of(w, "s")),
                         number(w, -(double)INFINITY)));
    if (at_minus_inf(a, online->weight) != IS_ZERO)
        p = op3(w, TILE_X_WHERE, op2(w, TILE_X_GT, name_of(w, "s"), number(w, -(double)INFINITY)),
                p, number(w, 0));
    else if (any)
        p = op3(w, TILE_X_WHERE, any, p, number(w, 0));
    uint32_t count = 0;
    items[count++] = p;
    if (w->hooks->has_scale) {
        AuTileExpr *scale = write_node(w, online->rescale);
        items[count++] = any ? op3(w, TILE_X_WHERE, any, scale, number(w, 1)) : scale;
    }
    for (uint32_t n = 0; n < scales; n++) {
        AuTileExpr *next = write_node(w, online->scales[n].next);
        items[count++] = any ? op3(w, TILE_X_WHERE, any, next, name_of(w, state_name(w, n))) : next;
    }
    if (any)
        items[count++] = op3(w, TILE_X_WHERE, any, number(w, 1), name_of(w, state_name(w, scales)));
    w->guard_ok = false;
    finish(w, items, count);
}

static void write_end(Writer *w)
{
    const AuOnline *online = w->attn->online;
    const char *params[40] = {"x", "b", "h", "i"};
    begin(w, "online_end", params, with_states(w, params, 4));
    count_uses(w, online->epilogue);
    for (uint32_t n = 0; n < online->final_count; n++) count_uses(w, online->finals[n].value);
    AuTileExpr *items[32];
    items[0] = write_node(w, online->epilogue);
    if (w->hooks->state_count > online->scale_count) {
        AuTileExpr *seen =
            op2(w, TILE_X_GT, name_of(w, state_name(w, online->scale_count)), number(w, 0));
        items[0] = op3(w, TILE_X_WHERE, seen, items[0], number(w, 0));
    }
    for (uint32_t n = 0; n < online->final_count; n++)
        items[1 + n] = write_node(w, online->finals[n].value);
    finish(w, items, 1 + online->final_count);
}

static void write_range(Writer *w)
{
    AuRange range;
    begin(w, "key_range",
          PARAMS("b", "h", "i", "j")); /* i, j: the tile's first row and the row after its last */
    AuTileExpr *items[4] = {integer(w, 0), write_node(w, w->attn->tensors[1].axes[2]),
                            integer(w, 0), write_node(w, w->attn->tensors[1].axes[2])};
    if (w->attn->mask.i) {
        attn_key_range(w->attn, &range);
        /* The ranges are new nodes of the graph. */
        w->done = AU_NEW_ARRAY(module_of(w)->arena, AuTileExpr *, w->attn->node_count);
        w->uses = AU_NEW_ARRAY(module_of(w)->arena, uint32_t, w->attn->node_count);
        const AuExpr all[4] = {range.low, range.high, range.full_low, range.full_high};
        for (uint32_t n = 0; n < 4; n++) count_uses(w, all[n]);
        for (uint32_t n = 0; n < 4; n++) items[n] = write_node(w, all[n]);
        w->hooks->needs_lists = range.needs_lists;
    }
    finish(w, items, 4);
}

static void write_row_mod(Writer *w, const char *name, AuExpr mod, const char *tensor,
                          const char *head, const char *row, const char *channel)
{
    w->channel = channel;
    w->row_tensor = tensor, w->row_h = head, w->row_i = row;
    w->own_head = row[0] == 'j';
    simple_hook(w, name, PARAMS("x", "b", "h", "i", "j", "c"), mod);
}

static void write_pairs(Writer *w)
{
    AuAttn *a = w->attn;
    AuHooks *h = w->hooks;
    const char *params[9] = {"s", "b", "h", "i", "j"};
    if (a->score_mod.i) {
        begin(w, "score_mod", params, 5);
        count_uses(w, a->score_mod);
        AuTileExpr *x = write_node(w, a->score_mod);
        finish(w, &x, 1);
        for (uint32_t n = 0; n < h->dot_count; n++) /* known only now */
            AU_PUSH(h->module->arena, w->fn->params.at, w->fn->params.count, w->fn->params.capacity,
                    intern(w, au_format(h->module->arena, "dot%u", n)));
    }
    if ((h->has_mask = a->mask.i != 0)) simple_hook(w, "mask", PARAMS("b", "h", "i", "j"), a->mask);
    if ((h->has_weight_mod = a->weight_mod.i != 0)) {
        begin(w, "weight_mod", PARAMS("p", "s", "b", "h", "i", "j"));
        count_uses(w, a->weight_mod);
        AuTileExpr *ok = op2(w, TILE_X_GT, name_of(w, "s"), number(w, -(double)INFINITY));
        AuTileExpr *x = op3(w, TILE_X_WHERE, ok, write_node(w, a->weight_mod), number(w, 0));
        finish(w, &x, 1);
    }
}

AuHooks *hooks_make(AuArena *arena, AuDiags *diags, AuAttn *attn, const AuTileCaps *caps)
{
    AuHooks *h = AU_NEW(arena, AuHooks);
    h->module = tile_module_new(arena, caps);
    Writer w = {.hooks = h, .attn = attn, .diags = diags, .channel = "d"};
    const AuOnline *online = attn->online;
    if (online->scale_count > 24 || online->final_count > 24) {
        au_error(diags, AU_E0811, online->span,
                 "an online function with more than 24 row scales or finals");
        return NULL;
    }
    h->has_scale = !is_one(attn, online->rescale);
    const bool plain_end = attn_at(attn, online->epilogue)->op == AU_OP_ELEMENT;
    h->state_count = online->scale_count + !(online->scale_count == 0 && plain_end);
    write_pairs(&w);
    write_range(&w);
    write_init(&w);
    write_forward(&w);
    write_end(&w);
    if ((h->has_q_mod = attn->q_mod.i != 0))
        write_row_mod(&w, "q_mod", attn->q_mod, "q", "h", "i", "d");
    if ((h->has_k_mod = attn->k_mod.i != 0))
        write_row_mod(&w, "k_mod", attn->k_mod, "k", "h", "j", "d");
    if ((h->has_v_mod = attn->v_mod.i != 0))
        write_row_mod(&w, "v_mod", attn->v_mod, "v", "h", "j", "e");
    if ((h->has_out_mod = attn->out_mod.i != 0))
        write_row_mod(&w, "out_mod", attn->out_mod, "o", "h", "i", "e");
    return w.failed ? NULL : h;
}

const char *hooks_name(AuArena *arena, const char *name)
{
    static const char *const taken[] = {"b",          "h",
                                        "i",          "j",
                                        "c",          "s",
                                        "p",          "x",
                                        "n",          "q",
                                        "k",          "v",
                                        "o",          "d",
                                        "e",          "kv",
                                        "hk",         "hv",
                                        "mb",         "row",
                                        "acc",        "score",
                                        "query",      "state",
                                        "keys",       "core",
                                        "lanes",      "all",
                                        "self",       "any",
                                        "seen",       "list",
                                        "count",      "tile",
                                        "K",          "V",
                                        "raw",        "scale",
                                        "out",        "weight",
                                        "query",      "core",
                                        "ce",         "hv",
                                        "nb",         "hb",
                                        "mbb",        "m",
                                        "kind",       "some",
                                        "every",      "taken",
                                        "key",        "row_like",
                                        "n_low",      "n_high",
                                        "f_low",      "f_high",
                                        "k_low",      "k_high",
                                        "k_full_low", "k_full_high",
                                        "k_changed",  "v_changed",
                                        "tile_class", "partial",
                                        "full",       "partial_count",
                                        "full_count", "partial_index",
                                        "full_index", "along_lanes",
                                        "iota",       "first",
                                        "next",       "inf",
                                        "nan",        "true",
                                        "false",      NULL};
    for (uint32_t n = 0; taken[n]; n++)
        if (strcmp(name, taken[n]) == 0) return au_format(arena, "%s_", name);
    return name;
}

AuTileExpr *hooks_expr(const AuHooks *hooks, AuAttn *attn, AuExpr e)
{
    AuHooks copy = *hooks;
    Writer w = {.hooks = &copy, .attn = attn};
    w.done = AU_NEW_ARRAY(copy.module->arena, AuTileExpr *, attn->node_count);
    w.uses = AU_NEW_ARRAY(copy.module->arena, uint32_t, attn->node_count);
    return write_node(&w, e);
}
