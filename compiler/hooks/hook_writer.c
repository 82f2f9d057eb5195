/* hook_writer.c - a node of the attention's graph becomes an expression where it is used; a node
 * that is used more than once becomes an assignment of the hook, so that shared work stays shared.
 */
#include "hook_writer.h"

#include <math.h>
#include <string.h>

/* ---- small constructors */

AuTileModule *writer_module(AuHookWriter *w) { return w->hooks->module; }
const char *writer_name(AuHookWriter *w, const char *name)
{
    return au_name(writer_module(w)->names, name);
}

enum { MOST_EXPRESSIONS = 20000 }; /* of all hooks: some thirty times those of long scripts */

static AuTileExpr *node(AuHookWriter *w, AuTileOp op, AuSpan span)
{
    w->hooks->expressions++;
    AuTileExpr *e = AU_NEW(writer_module(w)->arena, AuTileExpr);
    e->op = op;
    e->span = span;
    return e;
}

static void add_arg(AuHookWriter *w, AuTileExpr *e, AuTileExpr *arg)
{
    AU_PUSH(writer_module(w)->arena, e->args.at, e->args.count, e->args.capacity, arg);
}

AuTileExpr *writer_op1(AuHookWriter *w, AuTileOp op, AuTileExpr *a)
{
    AuTileExpr *e = node(w, op, a->span);
    add_arg(w, e, a);
    return e;
}
AuTileExpr *writer_op2(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b)
{
    AuTileExpr *e = writer_op1(w, op, a);
    add_arg(w, e, b);
    return e;
}
AuTileExpr *writer_op3(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b, AuTileExpr *c)
{
    AuTileExpr *e = writer_op2(w, op, a, b);
    add_arg(w, e, c);
    return e;
}
AuTileExpr *writer_variable(AuHookWriter *w, const char *name)
{
    AuTileExpr *e = node(w, TILE_X_NAME, (AuSpan){0});
    e->name = writer_name(w, name);
    return e;
}
AuTileExpr *writer_integer(AuHookWriter *w, int64_t value)
{
    AuTileExpr *e = node(w, TILE_X_INT, (AuSpan){0});
    e->integer = value;
    return e;
}
AuTileExpr *writer_number(AuHookWriter *w, double value)
{
    AuTileExpr *e = node(w, TILE_X_FLOAT, (AuSpan){0});
    e->number = value;
    return e;
}

AuTileExpr *writer_assign(AuHookWriter *w, const char *name, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(writer_module(w)->arena, AuTileStmt);
    s->kind = TILE_S_ASSIGN;
    s->span = value->span;
    s->assign.value = value;
    AU_PUSH(writer_module(w)->arena, s->assign.names.at, s->assign.names.count,
            s->assign.names.capacity, writer_name(w, name));
    AU_PUSH(writer_module(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
    return writer_variable(w, name);
}

/* ---- functions */

void writer_count_uses(AuHookWriter *w, AuExpr e)
{
    if (!e.i || w->uses[e.i]++) return;
    const AuNode *node = attn_at(w->attn, e);
    for (uint32_t n = 0; n < node->count; n++) writer_count_uses(w, attn_arg(w->attn, e, n));
    if (node->op == AU_OP_ROPE) w->uses[attn_arg(w->attn, e, 0).i]++; /* turned, and as it is */
}

void writer_begin(AuHookWriter *w, const char *name, const char *const *params, uint32_t count)
{
    AuTileModule *m = writer_module(w);
    AuTileFn *fn = AU_NEW(m->arena, AuTileFn);
    fn->name = writer_name(w, name);
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(m->arena, fn->params.at, fn->params.count, fn->params.capacity,
                writer_name(w, params[n]));
    AU_PUSH(m->arena, m->fns.at, m->fns.count, m->fns.capacity, fn);
    w->fn = fn;
    w->channels.count = 0;
    w->at = NULL;
    w->done = AU_NEW_ARRAY(m->arena, AuTileExpr *, w->attn->node_count);
    w->uses = AU_NEW_ARRAY(m->arena, uint32_t, w->attn->node_count);
}

void writer_finish(AuHookWriter *w, AuTileExpr *const *items, uint32_t count)
{
    AuTileStmt *s = AU_NEW(writer_module(w)->arena, AuTileStmt);
    s->kind = TILE_S_RETURN;
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(writer_module(w)->arena, s->ret.items.at, s->ret.items.count, s->ret.items.capacity,
                items[n]);
    AU_PUSH(writer_module(w)->arena, w->fn->body.at, w->fn->body.count, w->fn->body.capacity, s);
}

/* ---- from the graph */

static const AuTileOp op_map[AU_OP_COUNT] = {
    // clang-format off
    [AU_OP_ADD] = TILE_X_ADD, [AU_OP_SUB] = TILE_X_SUB, [AU_OP_MUL] = TILE_X_MUL, [AU_OP_DIV] = TILE_X_DIV, [AU_OP_IDIV] = TILE_X_DIV,
    [AU_OP_MOD] = TILE_X_MOD, [AU_OP_NEG] = TILE_X_NEG, [AU_OP_MIN] = TILE_X_MIN, [AU_OP_MAX] = TILE_X_MAX, [AU_OP_ABS] = TILE_X_ABS,
    [AU_OP_SIGN] = TILE_X_SIGN, [AU_OP_FLOOR] = TILE_X_FLOOR, [AU_OP_CEIL] = TILE_X_CEIL,
    [AU_OP_LOGADDEXP] = TILE_X_LOGADDEXP, [AU_OP_BAND] = TILE_X_BAND, [AU_OP_BOR] = TILE_X_BOR, [AU_OP_BXOR] = TILE_X_BXOR,
    [AU_OP_BNOT] = TILE_X_BNOT, [AU_OP_SHL] = TILE_X_SHL, [AU_OP_SHR] = TILE_X_SHR, [AU_OP_LT] = TILE_X_LT, [AU_OP_LE] = TILE_X_LE,
    [AU_OP_EQ] = TILE_X_EQ, [AU_OP_NE] = TILE_X_NE, [AU_OP_AND] = TILE_X_AND, [AU_OP_OR] = TILE_X_OR, [AU_OP_NOT] = TILE_X_NOT,
    [AU_OP_WHERE] = TILE_X_WHERE, [AU_OP_TO_F32] = TILE_X_TO_F32, [AU_OP_TO_I32] = TILE_X_TO_I32,
#define SCALAR(NAME, ...) [AU_OP_##NAME] = TILE_X_##NAME,
#include "scalars.def"
    // clang-format on
};

AuTileExpr *writer_expr(AuHookWriter *w, AuExpr e);

static AuTileExpr *size_expr(AuHookWriter *w, const AuSize *s)
{
    return s->fixed >= 0 ? writer_integer(w, s->fixed)
                         : writer_variable(w, hooks_name(writer_module(w)->arena, s->name));
}

/* Of a recurrence: the length of a sequence is not that of the tensors where several are packed. */
static bool is_length(const AuHookWriter *w, const AuNode *n)
{
    const AuNode *length = attn_at(w->attn, w->attn->tensors[0].axes[2]);
    return w->of_sequence && length->op == AU_OP_SIZE && n->integer == length->integer;
}

static AuTileExpr *index_expr(AuHookWriter *w, int32_t axis);

/* The token's position in its sequence; hooks are given that in the tensors. */
static AuTileExpr *position(AuHookWriter *w, int32_t axis)
{
    AuTileExpr *at = index_expr(w, axis);
    const bool is_token = axis == AU_AX_TOK || axis == AU_AX_Q;
    return w->of_sequence && is_token ? writer_op2(w, TILE_X_SUB, at, writer_variable(w, "start"))
                                      : at;
}

/* Is the axis the length of the sequences, so that what is read is the token's own (E0505)? */
static bool is_own_token(const AuHookWriter *w, AuExpr axis)
{
    return w->of_sequence && axis.i == w->attn->tensors[0].axes[2].i;
}

/* Positions of the hooks' parameters need no clamping: kernels pass them inside the axes or guard
 * what they read. */
static bool is_position(const AuNode *n) { return n->op == AU_OP_INDEX || n->op == AU_OP_KV_H; }

/* An element in memory as arithmetic takes it. */
static AuTileExpr *read_as(AuHookWriter *w, AuTileExpr *ref, AuDtype dtype)
{
    if (dtype == AU_DT_BOOL) return writer_op2(w, TILE_X_NE, ref, writer_integer(w, 0));
    const bool whole = dtype == AU_DT_I32 || dtype == AU_DT_I64 || dtype == AU_DT_U8;
    return writer_op1(w, whole ? TILE_X_TO_I32 : TILE_X_TO_F32, ref);
}

static AuTileExpr *input_ref(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuTensor *t = &w->attn->tensors[n.integer];
    AuTileExpr *ref = node(w, TILE_X_REF, n.span);
    ref->name = writer_name(w, hooks_name(writer_module(w)->arena, t->name));
    ref->has_index = n.count > 0;
    for (uint32_t i = 0; i < n.count; i++) {
        const AuExpr index = attn_arg(w->attn, e, i);
        AuTileExpr *at = is_own_token(w, t->axes[i])
                             ? index_expr(w, attn_at(w->attn, index)->integer)
                             : writer_expr(w, index);
        if (!is_position(attn_at(w->attn, index)) && attn_at(w->attn, index)->op != AU_OP_I32) {
            AuTileExpr *last =
                writer_op2(w, TILE_X_SUB, writer_expr(w, t->axes[i]), writer_integer(w, 1));
            at = writer_op3(w, TILE_X_CLAMP, at, writer_integer(w, 0), last);
        }
        add_arg(w, ref, at);
    }
    return read_as(w, ref, t->dtype);
}

/* h / (H / Hk) */
static AuTileExpr *key_head(AuHookWriter *w)
{
    const AuAttn *a = w->attn;
    if (w->own_head) return writer_variable(w, "h");
    return writer_op2(w, TILE_X_DIV, writer_variable(w, "h"),
                      writer_op2(w, TILE_X_DIV, writer_expr(w, a->tensors[0].axes[1]),
                                 writer_expr(w, a->tensors[1].axes[1])));
}

static AuTileExpr *index_expr(AuHookWriter *w, int32_t axis)
{
    switch (axis) {
    case AU_AX_B: return writer_variable(w, "b");
    case AU_AX_H: return writer_variable(w, "h");
    case AU_AX_Q: return writer_variable(w, "i");
    case AU_AX_KV: return writer_variable(w, "j");
    case AU_AX_C: return w->at ? w->at->index : writer_variable(w, "c");
    case AU_AX_TOK: return writer_variable(w, "t");
    default: break;
    }
    w->failed = true;
    return writer_integer(w, 0);
}

/* Fewer heads are shared in groups. */
static AuTileExpr *group_of(AuHookWriter *w, AuExpr extent)
{
    const AuExpr all = attn_heads(w->attn);
    if (all.i == extent.i) return writer_variable(w, "h");
    return writer_op2(w, TILE_X_DIV, writer_variable(w, "h"),
                      writer_op2(w, TILE_X_DIV, writer_expr(w, all), writer_expr(w, extent)));
}

/* A tensor of a recurrence where it stands: the hook's argument, or read at the token. */
static AuTileExpr *whole_tensor(AuHookWriter *w, AuExpr e)
{
    if (e.i == w->whole.i) return writer_variable(w, "x");
    static const char *const roles[] = {"q", "k", "v"};
    const AuNode n = *attn_at(w->attn, e);
    const bool in_k = n.integer == 2 && w->attn->v_in_k;
    const AuTensor *t = &w->attn->tensors[n.integer];
    uint8_t bits[8];
    AuTileExpr *ref = node(w, TILE_X_REF, n.span);
    ref->name = writer_name(w, n.integer < 3 ? roles[in_k ? 1 : n.integer]
                                             : hooks_name(writer_module(w)->arena, t->name));
    ref->has_index = t->rank > 0;
    attn_tensor_axes(w->attn, &n, bits);
    for (uint32_t i = 0; i < t->rank; i++) {
        AuTileExpr *at = writer_integer(w, 0);
        if (bits[i] == AU_AX_B || bits[i] == AU_AX_TOK)
            at = index_expr(w, bits[i]);
        else if (bits[i] == AU_AX_H)
            at = group_of(w, t->axes[i]);
        else if (bits[i])
            at = in_k ? writer_op2(w, TILE_X_ADD, writer_variable(w, "c"),
                                   writer_integer(w, w->attn->v_first))
                      : writer_variable(w, "c");
        add_arg(w, ref, at);
    }
    return read_as(w, ref, t->dtype);
}

/* x or dx of a row mod: the hook's argument, or, for the partner channel of a rotation, the tensor's
 * element there. */
static AuTileExpr *element(AuHookWriter *w, const char *argument, const char *tensor)
{
    if (!w->at) return writer_variable(w, argument);
    AuTileExpr *ref = node(w, TILE_X_REF, (AuSpan){0});
    ref->name = writer_name(w, tensor);
    ref->has_index = true;
    add_arg(w, ref, writer_variable(w, "b"));
    add_arg(w, ref, writer_variable(w, w->row_h));
    add_arg(w, ref, writer_variable(w, w->row_i));
    add_arg(w, ref, w->at->index);
    return writer_op1(w, TILE_X_TO_F32, ref);
}

/* Does the rotation [e] make the channel of the one it is the partner of? */
static bool is_made_by(const AuHookWriter *w, const AuChannel *channel, AuExpr e)
{
    return channel->first.i == attn_arg(w->attn, e, 3).i &&
           channel->count.i == attn_arg(w->attn, e, 4).i &&
           channel->interleaved == attn_at(w->attn, e)->integer;
}

/* The partner of the present channel in the rotation [e], at [index]; NULL: the hook's own channel. A channel is the partner of its
 * partner, so that rotations of one kind need two channels, however many there are. */
static AuChannel *partner_in(AuHookWriter *w, AuExpr e, AuTileExpr *index)
{
    AuArena *arena = writer_module(w)->arena;
    if (w->at && is_made_by(w, w->at, e)) return w->at->of;
    for (uint32_t n = 0; n < w->channels.count; n++)
        if (w->channels.at[n]->of == w->at && is_made_by(w, w->channels.at[n], e))
            return w->channels.at[n];
    AuChannel *channel = AU_NEW(arena, AuChannel);
    *channel = (AuChannel){.of = w->at,
                           .first = attn_arg(w->attn, e, 3),
                           .count = attn_arg(w->attn, e, 4),
                           .interleaved = attn_at(w->attn, e)->integer,
                           .number = w->channels.count + 1,
                           .done = AU_NEW_ARRAY(arena, AuTileExpr *, w->attn->node_count)};
    channel->index = writer_assign(w, au_format(arena, "partner%u", channel->number), index);
    AU_PUSH(arena, w->channels.at, w->channels.count, w->channels.capacity, channel);
    return channel;
}

/* The expression [x] of the row at the partner of the present channel. */
static AuTileExpr *at_partner(AuHookWriter *w, AuExpr x, AuExpr e, AuTileExpr *index)
{
    AuChannel *const before = w->at;
    w->at = partner_in(w, e, index);
    AuTileExpr *out = writer_expr(w, x);
    w->at = before;
    return out;
}

/* Pairs (j, j + count / 2), or (2 j, 2 j + 1) interleaved, turned by position * theta^(-2 j /
 * count); channels outside first .. first + count pass. Su et al., RoFormer, 2021, equation 34. */
static AuTileExpr *rope(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuExpr x = attn_arg(w->attn, e, 0);
    if (strcmp(w->row_tensor, "o") == 0 && !w->failed) {
        au_error(w->diags, AU_E0811, n.span,
                 "a rotation of the output, of which no kernel has the partner of a channel: turn "
                 "it after the call");
        w->failed = true;
    }
    AuTileExpr *position = writer_expr(w, attn_arg(w->attn, e, 1)),
               *theta = writer_expr(w, attn_arg(w->attn, e, 2));
    AuTileExpr *first = writer_expr(w, attn_arg(w->attn, e, 3)),
               *count = writer_expr(w, attn_arg(w->attn, e, 4));
    AuTileExpr *c = writer_op2(w, TILE_X_SUB, index_expr(w, AU_AX_C), first),
               *half = writer_op2(w, TILE_X_DIV, count, writer_integer(w, 2)), *pair, *low,
               *partner;
    if (n.integer) {
        pair = writer_op2(w, TILE_X_DIV, c, writer_integer(w, 2));
        low = writer_op2(w, TILE_X_EQ, writer_op2(w, TILE_X_MOD, c, writer_integer(w, 2)),
                         writer_integer(w, 0));
        partner =
            writer_op3(w, TILE_X_WHERE, low, writer_op2(w, TILE_X_ADD, c, writer_integer(w, 1)),
                       writer_op2(w, TILE_X_SUB, c, writer_integer(w, 1)));
    } else {
        low = writer_op2(w, TILE_X_LT, c, half);
        pair = writer_op3(w, TILE_X_WHERE, low, c, writer_op2(w, TILE_X_SUB, c, half));
        partner = writer_op3(w, TILE_X_WHERE, low, writer_op2(w, TILE_X_ADD, c, half),
                             writer_op2(w, TILE_X_SUB, c, half));
    }
    AuTileExpr *exponent = writer_op2(
        w, TILE_X_DIV,
        writer_op2(w, TILE_X_MUL, writer_number(w, -2), writer_op1(w, TILE_X_TO_F32, pair)),
        writer_op1(w, TILE_X_TO_F32, count));
    AuTileExpr *angle = writer_op2(w, TILE_X_MUL, writer_op1(w, TILE_X_TO_F32, position),
                                   writer_op2(w, TILE_X_POW, theta, exponent));
    AuTileExpr *own = writer_expr(w, x),
               *there = at_partner(w, x, e, writer_op2(w, TILE_X_ADD, partner, first));
    AuTileExpr *sine = writer_op2(w, TILE_X_MUL, there, writer_op1(w, TILE_X_SIN, angle));
    AuTileExpr *turned =
        writer_op2(w, TILE_X_ADD, writer_op2(w, TILE_X_MUL, own, writer_op1(w, TILE_X_COS, angle)),
                   writer_op3(w, TILE_X_WHERE, low, writer_op1(w, TILE_X_NEG, sine), sine));
    AuTileExpr *inside =
        writer_op2(w, TILE_X_AND, writer_op2(w, TILE_X_GE, c, writer_integer(w, 0)),
                   writer_op2(w, TILE_X_LT, c, count));
    return writer_op3(w, TILE_X_WHERE, inside, turned, own);
}

/* A reduction over the keys of a tile, in which pairs that take no part do not count. */
static AuTileExpr *row_reduction(AuHookWriter *w, AuExpr e, bool is_max)
{
    AuTileExpr *x = writer_expr(w, attn_arg(w->attn, e, 0));
    if (w->guard_ok) {
        AuTileExpr *ok =
            writer_op2(w, TILE_X_NE, writer_variable(w, "s"), writer_number(w, -(double)INFINITY));
        x = writer_op3(w, TILE_X_WHERE, ok, x, writer_number(w, is_max ? -(double)INFINITY : 0));
    }
    return writer_op1(w, is_max ? TILE_X_ROWMAX : TILE_X_ROWSUM, x);
}

/* The indices of one side of a product: is one of them the axis of its rows [itself], or at least made of it? */
static bool side_is(const AuAttn *a, AuExpr dot, bool of_keys, bool itself)
{
    const AuNode *n = attn_at(a, dot);
    const uint32_t queries = a->tensors[n->integer].rank - 1;
    const uint32_t from = of_keys ? queries : 0, end = of_keys ? n->count : queries;
    const uint8_t axis = of_keys ? AU_AX_KV : AU_AX_Q;
    uint32_t made = 0, same = 0;
    for (uint32_t i = from; i < end; i++) {
        const AuNode *index = attn_at(a, attn_arg(a, dot, i));
        made += (index->axes & axis) != 0;
        same += index->op == AU_OP_INDEX && index->integer == axis;
    }
    return itself ? made == 1 && same == 1 : made > 0;
}

bool writer_can_dot(AuHookWriter *w, AuExpr dot, bool backward)
{
    if (side_is(w->attn, dot, false, backward) && side_is(w->attn, dot, true, true)) return true;
    if (!w->failed)
        au_error(w->diags, AU_E0811, attn_at(w->attn, dot)->span,
                 "kernels multiply the rows at q_idx and kv_idx themselves: gather the rows that "
                 "an index chooses before the call, pass the product with a fixed row as an input");
    w->failed = true;
    return false;
}

static AuTileExpr *dot(AuHookWriter *w, AuExpr e)
{
    AuHooks *h = w->hooks;
    if (!writer_can_dot(w, e, false)) return writer_number(w, 0);
    uint32_t n = 0;
    while (n < h->dot_count && h->dots[n].i != e.i) n++;
    if (n == sizeof h->dots / sizeof *h->dots) {
        au_error(w->diags, AU_E0811, attn_at(w->attn, e)->span,
                 "more than %u products `dot` in one attention", n);
        w->failed = true;
        return writer_number(w, 0);
    }
    if (n == h->dot_count) h->dots[h->dot_count++] = e;
    return writer_variable(w, au_format(writer_module(w)->arena, "dot%u", n));
}

static AuTileExpr *seed_word(AuHookWriter *w, const AuNode *n)
{
    const char *base =
        n->integer2 >= 0 ? w->attn->params[n->integer2].name : w->attn->tensors[~n->integer2].name;
    if (n->integer2 >= 0)
        return writer_variable(w, au_format(writer_module(w)->arena, "%s_%s",
                                            hooks_name(writer_module(w)->arena, base),
                                            n->integer ? "high" : "low"));
    au_error(w->diags, AU_E0811, n->span,
             "a dropout seed in memory (%s) is not supported by this target's kernels; pass it as "
             "an i64 param",
             base);
    w->failed = true;
    return writer_integer(w, 0);
}

/* Both sides are the value, so that a NaN in [like] does no harm. */
AuTileExpr *writer_spread(AuHookWriter *w, AuTileExpr *value, const char *like, const char *name)
{
    AuTileExpr *x = writer_assign(w, name, value);
    return writer_op3(w, TILE_X_WHERE,
                      writer_op2(w, TILE_X_GT, writer_variable(w, like), writer_number(w, 0)), x,
                      writer_variable(w, x->name));
}

AuTileExpr *writer_where_seen(AuHookWriter *w, AuTileExpr *value)
{
    AuTileExpr *seen = writer_op2(w, TILE_X_GT, writer_variable(w, "seen"), writer_number(w, 0));
    return writer_op3(w, TILE_X_WHERE, seen, value, writer_number(w, 0));
}

bool writer_is_of_tile(AuHookWriter *w, AuExpr e)
{
    bool *is = AU_NEW_ARRAY(writer_module(w)->arena, bool, e.i + 1);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &w->attn->nodes[i];
        is[i] = n->op == AU_OP_ELEMENT || n->op == AU_OP_DELEMENT || n->op == AU_OP_SCORE ||
                n->op == AU_OP_DWEIGHT || (w->whole.i && i == w->whole.i);
        const bool elementwise = n->op != AU_OP_ROW_SUM_C && n->op != AU_OP_INPUT;
        for (uint32_t k = 0; k < n->count && elementwise; k++)
            is[i] |= is[attn_arg(w->attn, (AuExpr){i}, k).i];
    }
    return is[e.i];
}

AuTileExpr *writer_row_value(AuHookWriter *w, AuExpr e, const char *name)
{
    AuTileExpr *value = writer_expr(w, e);
    return writer_is_of_tile(w, e) ? value : writer_spread(w, value, "x", name);
}

static AuTileExpr *dropout(AuHookWriter *w, AuExpr e)
{
    AuTileExpr *a[4];
    for (uint32_t n = 0; n < 4; n++) a[n] = writer_expr(w, attn_arg(w->attn, e, n));
    AuTileExpr *uniform = node(w, TILE_X_CALL, attn_at(w->attn, e)->span);
    uniform->name = writer_name(w, "philox_uniform");
    for (uint32_t n = 0; n < 4; n++)
        add_arg(w, uniform, writer_variable(w, (const char *const[]){"b", "h", "i", "j"}[n]));
    for (uint32_t n = 2; n < 4; n++) add_arg(w, uniform, a[n]);
    AuTileExpr *keep = writer_op2(w, TILE_X_GE, uniform, a[1]);
    return writer_op3(
        w, TILE_X_WHERE, keep,
        writer_op2(w, TILE_X_DIV, a[0], writer_op2(w, TILE_X_SUB, writer_number(w, 1), a[1])),
        writer_number(w, 0));
}

static AuTileExpr *numbered(AuHookWriter *w, const char *name, int32_t n)
{
    return writer_variable(w, au_format(writer_module(w)->arena, "%s%d", name, n));
}

/* One of 64 bits comes in two words, of which an expression reads the low one. */
static AuTileExpr *param(AuHookWriter *w, const AuParam *p)
{
    const char *name = hooks_name(writer_module(w)->arena, p->name);
    return writer_variable(
        w, p->dtype == AU_DT_I64 ? au_format(writer_module(w)->arena, "%s_low", name) : name);
}

static AuTileExpr *leaf_or_special(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    switch ((int)n.op) {
    case AU_OP_F32: return writer_number(w, n.number);
    case AU_OP_I32: {
        AuTileExpr *x = writer_integer(w, n.integer);
        if (n.type == AU_T_BOOL) x->op = TILE_X_BOOL;
        return x;
    }
    case AU_OP_SIZE:
        return is_length(w, &n) ? writer_variable(w, "length")
                                : size_expr(w, &w->attn->sizes[n.integer]);
    case AU_OP_INDEX: return position(w, n.integer);
    case AU_OP_KV_H: return key_head(w);
    case AU_OP_PARAM: return param(w, &w->attn->params[n.integer]);
    case AU_OP_INPUT: return input_ref(w, e);
    case AU_OP_TENSOR: return whole_tensor(w, e);
    case AU_OP_SCORE: return writer_variable(w, "s");
    case AU_OP_WEIGHT: return writer_variable(w, "p");
    case AU_OP_ELEMENT: return element(w, "x", w->row_tensor);
    case AU_OP_DELEMENT: return element(w, "dx", w->gradient_tensor);
    case AU_OP_DWEIGHT: return writer_variable(w, "dp");
    case AU_OP_DELTA: return writer_variable(w, "delta");
    case AU_OP_STATE: return numbered(w, "state", n.integer);
    case AU_OP_STATE_B: return numbered(w, "other", n.integer);
    case AU_OP_FINAL: return numbered(w, "final", n.integer);
    case AU_OP_DFINAL: return numbered(w, "dfinal", n.integer);
    case AU_OP_ADJOINT: return numbered(w, "adjoint", n.integer);
    case AU_OP_PASS: return numbered(w, "pass", n.integer);
    case AU_OP_ROWMAX: return row_reduction(w, e, true);
    case AU_OP_ROWSUM: return row_reduction(w, e, false);
    case AU_OP_ROW_SUM_C: {
        AuTileExpr *sum =
            writer_op1(w, TILE_X_REDUCE_SUM, writer_row_value(w, attn_arg(w->attn, e, 0), "each"));
        AU_PUSH(writer_module(w)->arena, sum->names.at, sum->names.count, sum->names.capacity,
                writer_name(w, w->channel));
        return sum;
    }
    case AU_OP_DOT: return dot(w, e);
    case AU_OP_ROPE: return rope(w, e);
    case AU_OP_DROPOUT: return dropout(w, e);
    case AU_OP_SEED_WORD: return seed_word(w, &n);
    case AU_OP_STOP_GRAD: return writer_expr(w, attn_arg(w->attn, e, 0));
    default: break;
    }
    AuTileExpr *x = node(w, op_map[n.op], n.span);
    for (uint32_t i = 0; i < n.count; i++) add_arg(w, x, writer_expr(w, attn_arg(w->attn, e, i)));
    return x;
}

/* Rotations of several kinds in each other ask for a row at twice as many channels with each. */
static bool is_too_much(AuHookWriter *w, AuExpr e)
{
    if (w->hooks->expressions <= MOST_EXPRESSIONS) return false;
    if (!w->failed && w->diags)
        au_error(w->diags, AU_E0813, attn_at(w->attn, e)->span,
                 "this makes functions of more than %d operations in kernels", MOST_EXPRESSIONS);
    w->failed = true;
    return true;
}

AuTileExpr *writer_expr(AuHookWriter *w, AuExpr e)
{
    AuChannel *const at = attn_at(w->attn, e)->axes & AU_AX_C ? w->at : NULL;
    AuTileExpr **done = at ? &at->done[e.i] : &w->done[e.i];
    if (*done) return *done;
    if (is_too_much(w, e)) return writer_number(w, 0);
    AuTileExpr *x = leaf_or_special(w, e);
    x->span = attn_at(w->attn, e)->span;
    /* Sums over a row are always named: what is written for a partner channel shares them. */
    if (x->args.count == 0 || (w->uses[e.i] < 2 && attn_at(w->attn, e)->op != AU_OP_ROW_SUM_C))
        return x;
    const char *name = at ? au_format(writer_module(w)->arena, "t%u_%u", e.i, at->number)
                          : au_format(writer_module(w)->arena, "t%u", e.i);
    return *done = writer_assign(w, name, x);
}
