/* simplify.c - rewrites an attention into an equal one that costs less.
 * Every rule keeps the value of each expression in f32 arithmetic bit for bit, with two
 * exceptions: a zero may change its sign, and constants are folded in f64, which is what they
 * mean. Nothing is reassociated in f32, no quotient becomes a product unless the divisor is a
 * power of two. Derivatives stay, too: min and max keep the order of their arguments, because at
 * ties the derivative is the first one's.
 * Method: nodes are made again in order by constructors that look at their arguments, then what no
 * root reaches is dropped. */
#include <math.h>
#include <string.h>

#include "meaning.h"

static AuExpr make(AuAttn *a, const AuNode *n, const AuExpr *args);

/* ---- looking at arguments */

static bool is_op(const AuAttn *a, AuExpr e, AuOp op) { return attn_at(a, e)->op == op; }

static bool is_constant(const AuAttn *a, AuExpr e)
{
    return is_op(a, e, AU_OP_F32) || is_op(a, e, AU_OP_I32);
}

static double value_of(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    return n->op == AU_OP_F32 ? n->number : n->integer;
}

static bool is_number(const AuAttn *a, AuExpr e, double number)
{
    return is_constant(a, e) && value_of(a, e) == number;
}

static AuExpr constant(AuAttn *a, AuType type, double value, AuSpan span)
{
    if (type == AU_T_F32) return attn_f32(a, value, span);
    if (type == AU_T_BOOL) return attn_bool(a, value != 0, span);
    return attn_i32(a, (int32_t)value, span);
}

static AuExpr make1(AuAttn *a, AuOp op, AuExpr x, const AuNode *like)
{
    const AuNode n = {.op = (uint8_t)op, .count = 1, .type = like->type, .span = like->span};
    return make(a, &n, &x);
}

static AuExpr make2(AuAttn *a, AuOp op, AuExpr x, AuExpr y, const AuNode *like)
{
    const AuNode n = {.op = (uint8_t)op, .count = 2, .type = like->type, .span = like->span};
    return make(a, &n, (AuExpr[]){x, y});
}

/* k of a power of two 2^k that f32 holds without being denormal; INT32_MIN: it is none. */
static int32_t exponent_of(double x)
{
    int e;
    if (!isfinite(x) || x <= 0 || frexp(x, &e) != 0.5) return INT32_MIN;
    return e - 1 >= -126 && e - 1 <= 126 ? e - 1 : INT32_MIN;
}

/* ---- rules; each returns none if it has nothing to say. x and y are the arguments, n the node as
 * it would be. */

static const AuExpr none = {0};

static AuExpr fold(AuAttn *a, const AuNode *n, const AuExpr *args)
{
    double x[3] = {0};
    if (n->count == 0 || attn_op_info((AuOp)n->op)->rule == AU_RULE_LEAF) return none;
    for (uint32_t k = 0; k < n->count; k++) {
        if (!is_constant(a, args[k])) return none;
        x[k] = value_of(a, args[k]);
    }
    if ((n->op == AU_OP_IDIV || n->op == AU_OP_MOD) && n->type == AU_T_I32 && x[1] == 0)
        return none;
    return constant(a, (AuType)n->type,
                    attn_eval_op((AuOp)n->op, (AuType)n->type, x[0], x[1], x[2]), n->span);
}

/* (x op c) op d is x op (c op d) in wrapping integers. */
static AuExpr join_constants(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (n->type != AU_T_I32 || !is_op(a, x, (AuOp)n->op) || !is_constant(a, y)) return none;
    const AuExpr inner = attn_arg(a, x, 1);
    if (!is_constant(a, inner)) return none;
    return make2(a, (AuOp)n->op, attn_arg(a, x, 0), make2(a, (AuOp)n->op, inner, y, n), n);
}

static AuExpr simplify_add(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (is_number(a, y, 0)) return x;
    if (is_op(a, y, AU_OP_NEG)) return make2(a, AU_OP_SUB, x, attn_arg(a, y, 0), n);
    return join_constants(a, n, x, y);
}

static AuExpr simplify_sub(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (is_number(a, y, 0)) return x;
    if (is_op(a, y, AU_OP_NEG)) return make2(a, AU_OP_ADD, x, attn_arg(a, y, 0), n);
    if (n->type != AU_T_I32) return none;
    if (x.i == y.i) return attn_i32(a, 0, n->span);
    if (is_number(a, x, 0)) return make1(a, AU_OP_NEG, y, n);
    if (is_constant(a, y) && attn_at(a, y)->integer != INT32_MIN)
        return make2(a, AU_OP_ADD, x, attn_i32(a, -attn_at(a, y)->integer, n->span), n);
    return none;
}

static AuExpr simplify_mul(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (is_number(a, y, 1)) return x;
    if (is_number(a, y, -1)) return make1(a, AU_OP_NEG, x, n);
    if (n->type == AU_T_I32 && is_number(a, y, 0)) return y;
    return join_constants(a, n, x, y);
}

static AuExpr simplify_div(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (is_number(a, y, 1)) return x;
    if (!is_constant(a, y)) return none;
    const double divisor = value_of(a, y);
    if (exponent_of(fabs(divisor)) == INT32_MIN) return none;
    return make2(a, AU_OP_MUL, x, attn_f32(a, 1 / divisor, n->span), n);
}

/* Floor division and remainder by powers of two are shifts and bits. */
static AuExpr simplify_integer_div(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (n->type != AU_T_I32 || !is_constant(a, y)) return none;
    const int32_t divisor = attn_at(a, y)->integer, k = exponent_of(divisor);
    if (divisor == 1) return n->op == AU_OP_MOD ? attn_i32(a, 0, n->span) : x;
    if (k == INT32_MIN) return none;
    if (n->op == AU_OP_MOD) return make2(a, AU_OP_BAND, x, attn_i32(a, divisor - 1, n->span), n);
    return make2(a, AU_OP_SHR, x, attn_i32(a, k, n->span), n);
}

static AuExpr simplify_sign(AuAttn *a, const AuNode *n, AuExpr x)
{
    if (n->op == AU_OP_NEG && is_op(a, x, AU_OP_NEG)) return attn_arg(a, x, 0);
    if (n->op == AU_OP_ABS && is_op(a, x, AU_OP_NEG))
        return make1(a, AU_OP_ABS, attn_arg(a, x, 0), n);
    if (n->op == AU_OP_ABS && is_op(a, x, AU_OP_ABS)) return x;
    if (n->op == AU_OP_NEG && n->type == AU_T_I32 && is_op(a, x, AU_OP_SUB))
        return make2(a, AU_OP_SUB, attn_arg(a, x, 1), attn_arg(a, x, 0), n);
    return none;
}

static AuExpr simplify_pow(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (is_number(a, y, 0)) return attn_f32(a, 1, n->span);
    if (is_number(a, y, 1)) return x;
    if (is_number(a, y, 2)) return make2(a, AU_OP_MUL, x, x, n);
    if (is_number(a, y, -1)) return make2(a, AU_OP_DIV, attn_f32(a, 1, n->span), x, n);
    return none;
}

static AuExpr simplify_comparison(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    if (x.i != y.i) return none;
    if (n->op == AU_OP_LT) return attn_bool(a, false, n->span);
    if (attn_at(a, x)->type != AU_T_I32) return none; /* nan is not equal to itself */
    return attn_bool(a, n->op != AU_OP_NE, n->span);
}

static AuExpr simplify_not(AuAttn *a, const AuNode *n, AuExpr x)
{
    const AuNode c = *attn_at(a, x);
    if (c.op == AU_OP_NOT) return attn_arg(a, x, 0);
    if (c.count != 2) return none;
    const AuExpr left = attn_arg(a, x, 0), right = attn_arg(a, x, 1);
    if (c.op == AU_OP_EQ) return make2(a, AU_OP_NE, left, right, n);
    if (c.op == AU_OP_NE) return make2(a, AU_OP_EQ, left, right, n);
    if (attn_at(a, left)->type != AU_T_I32) return none; /* nan is neither below nor not below */
    if (c.op == AU_OP_LT) return make2(a, AU_OP_LE, right, left, n);
    if (c.op == AU_OP_LE) return make2(a, AU_OP_LT, right, left, n);
    return none;
}

/* && where [unit] is true, || where it is false. */
static AuExpr simplify_logic(AuAttn *a, AuExpr x, AuExpr y, bool unit)
{
    if (x.i == y.i) return x;
    if (is_constant(a, x)) return value_of(a, x) == unit ? y : x;
    if (is_constant(a, y)) return value_of(a, y) == unit ? x : y;
    return none;
}

static AuExpr simplify_where(AuAttn *a, const AuNode *n, const AuExpr *args)
{
    const AuExpr c = args[0], x = args[1], y = args[2];
    if (is_constant(a, c)) return value_of(a, c) != 0 ? x : y;
    if (x.i == y.i) return x;
    if (is_op(a, c, AU_OP_NOT)) {
        const AuNode same = {.op = AU_OP_WHERE, .count = 3, .type = n->type, .span = n->span};
        return make(a, &same, (AuExpr[]){attn_arg(a, c, 0), y, x});
    }
    if (n->type == AU_T_BOOL && is_number(a, x, 1) && is_number(a, y, 0)) return c;
    if (n->type == AU_T_BOOL && is_number(a, x, 0) && is_number(a, y, 1))
        return make1(a, AU_OP_NOT, c, n);
    return none;
}

static AuExpr simplify_extreme(AuAttn *a, const AuNode *n, AuExpr x, AuExpr y)
{
    const bool natural = is_op(a, x, AU_OP_INDEX) || is_op(a, x, AU_OP_SIZE); /* never below 0 */
    if (natural && is_constant(a, y) && value_of(a, y) <= 0) return n->op == AU_OP_MAX ? x : y;
    return x.i == y.i ? x : join_constants(a, n, x, y);
}

/* In a recurrence, a sum whose argument lost its channel no longer says along which row it goes: as many times as that one has
 * channels. */
static AuExpr simplify_channel_sum(AuAttn *a, const AuNode *n, AuExpr x)
{
    const uint8_t channels = AU_AX_K | AU_AX_V,
                  was = attn_at(a, a->args[n->first])->axes & channels;
    if (!was || attn_at(a, x)->axes & channels || a->tensor_count < 3) return none;
    const AuExpr width = a->tensors[was & AU_AX_V ? AU_ROLE_V : AU_ROLE_K].axes[3];
    return make2(a, AU_OP_MUL, x, make1(a, AU_OP_TO_F32, width, n), n);
}

static AuExpr apply_rules(AuAttn *a, const AuNode *n, const AuExpr *args)
{
    switch (n->op) {
    case AU_OP_ADD: return simplify_add(a, n, args[0], args[1]);
    case AU_OP_SUB: return simplify_sub(a, n, args[0], args[1]);
    case AU_OP_MUL: return simplify_mul(a, n, args[0], args[1]);
    case AU_OP_DIV: return simplify_div(a, n, args[0], args[1]);
    case AU_OP_IDIV:
    case AU_OP_MOD: return simplify_integer_div(a, n, args[0], args[1]);
    case AU_OP_NEG:
    case AU_OP_ABS: return simplify_sign(a, n, args[0]);
    case AU_OP_MIN:
    case AU_OP_MAX: return simplify_extreme(a, n, args[0], args[1]);
    case AU_OP_POW: return simplify_pow(a, n, args[0], args[1]);
    case AU_OP_LT:
    case AU_OP_LE:
    case AU_OP_EQ:
    case AU_OP_NE: return simplify_comparison(a, n, args[0], args[1]);
    case AU_OP_NOT: return simplify_not(a, n, args[0]);
    case AU_OP_AND: return simplify_logic(a, args[0], args[1], true);
    case AU_OP_OR: return simplify_logic(a, args[0], args[1], false);
    case AU_OP_WHERE: return simplify_where(a, n, args);
    case AU_OP_STOP_GRAD: return is_op(a, args[0], AU_OP_STOP_GRAD) ? args[0] : none;
    case AU_OP_ROW_SUM_C: return simplify_channel_sum(a, n, args[0]);
    }
    return none;
}

/* A constant comes second; x + y becomes the y + x that is there already. */
static void order_arguments(const AuAttn *a, const AuNode *n, AuExpr *args)
{
    if (!(attn_op_info((AuOp)n->op)->flags & AU_OPFLAG_COMM)) return;
    if ((n->op == AU_OP_MIN || n->op == AU_OP_MAX) && n->type == AU_T_F32) return;
    const AuExpr x = args[0], y = args[1];
    const bool first = is_constant(a, x), second = is_constant(a, y);
    if (first == second) {
        if (attn_find(a, (AuOp)n->op, x, y).i || !attn_find(a, (AuOp)n->op, y, x).i) return;
    } else if (second)
        return;
    args[0] = y;
    args[1] = x;
}

/* The node [n] with these arguments, or something simpler. */
static AuExpr make(AuAttn *a, const AuNode *n, const AuExpr *args)
{
    AuExpr own[UINT8_MAX];
    if (n->count) memcpy(own, args, n->count * sizeof *own);
    AuExpr e = fold(a, n, own);
    if (e.i) return e;
    order_arguments(a, n, own);
    e = apply_rules(a, n, own);
    return e.i ? e : attn_node(a, (AuOp)n->op, own, n->count, n->integer, n->integer2, n->span);
}

/* ---- graphs */

static AuExpr make_simple(void *user, AuAttn *a, AuExpr node, const AuExpr *args)
{
    const AuNode n = a->nodes[node.i];
    (void)user;
    if (n.count && n.type != AU_T_NONE) return make(a, &n, args);
    const int64_t fixed = n.op == AU_OP_SIZE ? a->sizes[n.integer].fixed : -1;
    return fixed >= 0 && fixed <= INT32_MAX ? attn_i32(a, (int32_t)fixed, n.span) : node;
}

AuExpr attn_simplify_expr(AuAttn *a, AuExpr e) { return attn_remake(a, e, make_simple, NULL); }

/* Makes the graph again of what the roots reach, and of nothing else. */
static void drop_dead_nodes(AuAttn *a, const AuRoot *roots, uint32_t count)
{
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    AuExpr *moved = AU_NEW_ARRAY(a->arena, AuExpr, a->node_count);
    for (uint32_t i = 0; i < count; i++) attn_mark(a, *roots[i].at, mark);
    const AuAttn old = *a;
    AuAttn *fresh = attn_new(a->arena, a->name);
    fresh->tensors = a->tensors; /* types of inputs */
    fresh->tensor_count = a->tensor_count;
    for (uint32_t i = 1; i < old.node_count; i++) {
        const AuNode *n = &old.nodes[i];
        AuExpr args[UINT8_MAX];
        if (!mark[i]) continue;
        for (uint32_t k = 0; k < n->count; k++) args[k] = moved[old.args[n->first + k].i];
        if (n->count)
            moved[i] =
                attn_node(fresh, (AuOp)n->op, args, n->count, n->integer, n->integer2, n->span);
        else if (n->op == AU_OP_F32)
            moved[i] = attn_f32(fresh, n->number, n->span);
        else
            moved[i] = attn_leaf(fresh, (AuOp)n->op, (AuType)n->type, n->axes, n->integer,
                                 n->integer2, n->span);
    }
    for (uint32_t i = 0; i < count; i++) *roots[i].at = moved[roots[i].at->i];
    a->nodes = fresh->nodes, a->node_count = fresh->node_count,
    a->node_capacity = fresh->node_capacity;
    a->args = fresh->args, a->arg_count = fresh->arg_count, a->arg_capacity = fresh->arg_capacity;
    a->table = fresh->table, a->table_size = fresh->table_size;
}

/* Conditions that were proved are asked no more. */
static void drop_true_requires(AuAttn *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->require_count; i++)
        if (!is_number(a, a->requires[i].holds, 1)) a->requires[kept++] = a->requires[i];
    a->require_count = kept;
}

/* Only of what a mask may be made of. */
static bool may_mask(AuAttn *a, AuExpr e)
{
    bool *mark = AU_NEW_ARRAY(a->arena, bool, e.i + 1);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++)
        if (mark[i] && attn_leaf_bit(&a->nodes[i]) & ~attn_place_info(AU_PLACE_MASK)->leaves)
            return false;
    return true;
}

/* where(c, x, -inf): the pairs without c take no part, so c belongs to the mask. Returns x, and
 * none if [e] is something else. */
static AuExpr take_mask(AuAttn *a, AuExpr e)
{
    if (!is_op(a, e, AU_OP_WHERE)) return none;
    const AuNode bool_like = {.type = AU_T_BOOL, .span = attn_at(a, e)->span};
    AuExpr c = attn_arg(a, e, 0);
    const AuExpr x = attn_arg(a, e, 1), y = attn_arg(a, e, 2);
    const bool yes = is_number(a, y, -INFINITY);
    if ((!yes && !is_number(a, x, -INFINITY)) || !may_mask(a, c)) return none;
    if (!yes) c = make1(a, AU_OP_NOT, c, &bool_like);
    a->mask = a->mask.i ? make2(a, AU_OP_AND, a->mask, c, &bool_like) : c;
    return yes ? x : y;
}

/* Masks that score_mod carries, as a choice of -inf or as a term that is -inf, become the mask,
 * which ranges are made of. */
static void move_masks(AuAttn *a)
{
    for (AuExpr e = a->score_mod, x; e.i; e = x) {
        x = take_mask(a, e);
        if (!x.i && is_op(a, e, AU_OP_ADD)) { /* x + -inf is -inf or nan, and neither takes part */
            const AuExpr left = attn_arg(a, e, 0), right = attn_arg(a, e, 1);
            AuExpr rest = take_mask(a, right), other = left;
            if (!rest.i) rest = take_mask(a, left), other = right;
            if (rest.i) x = make2(a, AU_OP_ADD, other, rest, attn_at(a, e));
        }
        if (x.i) a->score_mod = x;
    }
}

/* A part that changes nothing goes away. */
static void drop_identity(AuAttn *a, AuExpr *part, AuOp leaf)
{
    if (is_op(a, *part, leaf)) *part = none;
}

static void drop_identities(AuAttn *a)
{
    if (is_number(a, a->mask, 1)) a->mask = none;
    drop_identity(a, &a->score_mod, AU_OP_SCORE);
    drop_identity(a, &a->weight_mod, AU_OP_WEIGHT);
    drop_identity(a, &a->q_mod, AU_OP_ELEMENT);
    drop_identity(a, &a->k_mod, AU_OP_ELEMENT);
    drop_identity(a, &a->v_mod, AU_OP_ELEMENT);
    drop_identity(a, &a->out_mod, AU_OP_ELEMENT);
}

void attn_simplify(AuAttn *a)
{
    AuRoot *roots;
    uint32_t count = attn_roots(a, a->arena, &roots);
    for (uint32_t i = 0; i < count; i++) /* axes stay names, which the tensors bind */
        if (roots[i].place != AU_PLACE_SIZE_AXIS)
            *roots[i].at = attn_simplify_expr(a, *roots[i].at);
    move_masks(a);
    drop_true_requires(a);
    drop_identities(a);
    count = attn_roots(a, a->arena, &roots);
    drop_dead_nodes(a, roots, count);
}
