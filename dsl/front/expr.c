/* expr.c - expressions: names, operators, indices. Functions are in call.c. */
#include "check.h"

#include <string.h>

/* ---- names */

static AuValue query_position(AuCheck *c, AuSpan span)
{
    const AuExpr s = check_axis(c, AU_ROLE_Q, 2), t = check_axis(c, AU_ROLE_K, 2);
    const AuValue i = value_index(c, AU_AX_Q, span);
    if (!s.i || !t.i) return value_none(); /* q or k is missing, which is reported */
    if (s.i == t.i) return i;
    const AuValue ahead = value_binary(c, AU_OP_SUB, value_of(c, t), value_of(c, s), span);
    return value_binary(c, AU_OP_ADD, i, ahead, span);
}

/* One of the names that are always there, where it has a meaning. */
static AuValue index_value(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    if (!(site_bits(c->site) & s->site_bit)) {
        check_error(c, AU_E0209, span, "'%s' is %s, which has no meaning in %s", s->name, s->what,
                    site_text(c->site));
        return value_none();
    }
    switch (s->site_bit) {
    case AU_SITE_B: return value_index(c, AU_AX_B, span);
    case AU_SITE_H: return value_index(c, AU_AX_H, span);
    case AU_SITE_KVH: break;
    case AU_SITE_KV: return value_index(c, AU_AX_KV, span);
    case AU_SITE_TOK: return value_index(c, AU_AX_TOK, span);
    default:
        return strcmp(s->name, "q_pos") == 0 ? query_position(c, span)
                                             : value_index(c, AU_AX_Q, span);
    }
    if (c->site == AU_SITE_V_MOD &&
        check_axis(c, AU_ROLE_K, 1).i != check_axis(c, AU_ROLE_V, 1).i) {
        check_error(c, AU_E0601, span,
                    "'kv_h' in v_mod is not supported where k and v have different heads");
        return value_none();
    }
    return value_of(c, attn_leaf(c->a, AU_OP_KV_H, AU_T_I32, AU_AX_H, 0, 0, span));
}

/* A let beside `linear`, in the slot that uses it. */
static AuValue lazy_value(AuCheck *c, const AuSymbol *s)
{
    AuScope *scope = c->scope;
    AuModule *module = c->module;
    AuFrame *frame = c->frame;
    c->scope = c->outside;
    c->module = &c->user;
    c->frame = NULL;
    const AuValue v = check_expr(c, s->lazy);
    c->scope = scope;
    c->module = module;
    c->frame = frame;
    return v;
}

static AuValue tensor_value(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    const AuTensor *t = &c->a->tensors[s->index];
    if (!(site_bits(c->site) & AU_SITE_READ)) {
        check_error(c, AU_E0313, span, "%s cannot read the tensor '%s'", site_text(c->site),
                    s->name);
        return value_none();
    }
    if (t->role == AU_ROLE_INPUT && t->rank == 0)
        return value_of(c, attn_node(c->a, AU_OP_INPUT, NULL, 0, s->index, 0, span));
    if (site_bits(c->site) & AU_SITE_TENSOR) return check_whole_tensor(c, s->index, span);
    AuDiag *d = check_error(c, AU_E0308, span, "'%s' is a tensor of %u axes: it needs indices here",
                            s->name, t->rank);
    au_add_note(c->diags, d, t->span, "'%s' is declared here", s->name);
    return value_none();
}

/* A row scale or final that has no value in the present clause. */
static AuValue valueless(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    if (c->dry && c->site == AU_SITE_START) return value_none();
    if (c->site == AU_SITE_COMBINE)
        check_error(c, AU_E0209, span,
                    "'%s' has two values in combine, those of the two sides: a.%s and b.%s",
                    s->name, s->name, s->name);
    else if (s->kind == AU_SYM_ROWSCALE)
        check_error(c, AU_E0209, span,
                    "the row scale '%s' is not visible in %s, which sees finals and parameters",
                    s->name, site_text(c->site));
    else
        check_error(c, AU_E0209, span, "the final '%s' has no value in %s", s->name,
                    site_text(c->site));
    return value_none();
}

static AuValue symbol_value(AuCheck *c, AuSymbol *s, AuSpan span)
{
    switch (s->kind) {
    case AU_SYM_VALUE:
    case AU_SYM_SIZE: return s->value;
    case AU_SYM_INDEX: return index_value(c, s, span);
    case AU_SYM_PARAM: {
        const AuType type = attn_type_of(c->a->params[s->index].dtype);
        return value_of(c, attn_leaf(c->a, AU_OP_PARAM, type, 0, s->index, 0, span));
    }
    case AU_SYM_TENSOR: return tensor_value(c, s, span);
    case AU_SYM_LAZY: return lazy_value(c, s);
    case AU_SYM_ROWSCALE:
    case AU_SYM_FINAL: return s->value.e.i || s->assigned ? s->value : valueless(c, s, span);
    case AU_SYM_SIDE:
        check_error(c, AU_E0212, span,
                    "'%s' is one side of combine: name a row scale of it, as in %s.m", s->name,
                    s->name);
        return value_none();
    }
    return value_none();
}

static void unknown_name(AuCheck *c, const char *name, AuSpan span)
{
    if (c->incomplete) return; /* whoever forgot k forgot the names of its axes, too */
    const bool in_function = c->frame && c->frame->fn->kind == AU_ITEM_FN;
    const char *where = in_function                ? "a function"
                        : c->site == AU_SITE_CONST ? "a const"
                                                   : "an online function";
    if (nameset_has(c->module->script->lost, name) || nameset_has(c->user.script->lost, name))
        return;
    if (nameset_get(c->module->fns, name) || builtin_find(name)) {
        check_error(c, AU_E0211, span, "'%s' is a function: call it with arguments", name);
        return;
    }
    const bool theirs = c->outside && c->scope != c->outside && scope_find(c->outside, name);
    if (theirs || scope_is_always_there(name)) {
        AuDiag *d = check_error(c, AU_E0209, span, "'%s' is not visible in %s", name, where);
        au_add_note(c->diags, d, (AuSpan){0},
                    "it sees its parameters and consts: pass '%s' as an argument", name);
        return;
    }
    if (c->site == AU_SITE_MASK && (strcmp(name, "score") == 0 || strcmp(name, "scores") == 0)) {
        refuse_mask_by_score(c, span);
        return;
    }
    AuGuess guess = guess_new(name);
    guess_scope(&guess, c->scope);
    AuDiag *d =
        c->site == AU_SITE_AXIS
            ? check_error(c, AU_E0306, span,
                          "no tensor has an axis '%s' by itself, so its size is not known", name)
            : check_error(c, AU_E0201, span, "unknown name '%s'", name);
    guess_add_note(c, d, &guess);
}

static AuValue name_value(AuCheck *c, const AuAst *e)
{
    AuSymbol *s = scope_find(c->scope, e->name);
    if (s) return symbol_value(c, s, e->span);
    unknown_name(c, e->name, e->span);
    return value_none();
}

/* a.m in combine. */
static AuValue field_value(AuCheck *c, const AuAst *e)
{
    const AuSymbol *side = scope_find(c->scope, e->name);
    const AuSymbol *scale = scope_find(c->scope, e->field);
    if (!side) {
        unknown_name(c, e->name, e->name_span);
    } else if (side->kind != AU_SYM_SIDE) {
        check_error(c, AU_E0212, e->span,
                    "'%s' has no fields; only the sides of combine have, one for each row scale",
                    e->name);
    } else if (!scale || scale->kind != AU_SYM_ROWSCALE) {
        AuGuess guess = guess_new(e->field);
        for (const AuScope *s = c->scope; s; s = s->parent)
            for (uint32_t i = 0; i < s->names->size; i++) {
                const AuSymbol *other = s->names->slots[i].value;
                if (other && other->kind == AU_SYM_ROWSCALE) guess_try(&guess, other->name);
            }
        AuDiag *d = check_error(c, AU_E0212, e->span,
                                "'%s' is not a row scale of this online function", e->field);
        guess_add_note(c, d, &guess);
        if (d->fix) d->fix = au_format(c->arena, "%s.%s", e->name, d->fix);
    } else {
        const AuOp op = side->index ? AU_OP_STATE_B : AU_OP_STATE;
        return value_of(c, attn_leaf(c->a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, scale->index,
                                     0, e->span));
    }
    return value_none();
}

/* ---- indices */

const AuSymbol *check_tensor_symbol(const AuCheck *c, const AuAst *e)
{
    if (e->kind != AU_AST_INDEX && e->kind != AU_AST_NAME) return NULL;
    const AuSymbol *s = scope_find(c->scope, e->name);
    return s && s->kind == AU_SYM_TENSOR ? s : NULL;
}

static const char *size_name(const AuCheck *c, AuExpr size)
{
    const AuNode *n = attn_at(c->a, size);
    return n->op == AU_OP_SIZE ? c->a->sizes[n->integer].name : "?";
}

/* q_idx on an axis T, say: legal, but hardly meant. */
static void warn_foreign_axis(AuCheck *c, AuExpr index, AuExpr axis, AuSpan span)
{
    static const struct {
        uint8_t bit, axis;
        AuTensorRole role;
    } homes[] = {{AU_AX_B, 0, AU_ROLE_Q},
                 {AU_AX_H, 1, AU_ROLE_Q},
                 {AU_AX_Q, 2, AU_ROLE_Q},
                 {AU_AX_KV, 2, AU_ROLE_K}};
    const AuNode *n = attn_at(c->a, index);
    if (n->op != AU_OP_INDEX || attn_at(c->a, axis)->op != AU_OP_SIZE || c->linear) return;
    AuExpr home = {0};
    bool others = false;
    for (uint32_t i = 0; i < 4; i++) {
        const AuExpr size = check_axis(c, homes[i].role, homes[i].axis);
        if (homes[i].bit == n->integer)
            home = size;
        else
            others |= size.i == axis.i;
    }
    if (!home.i || home.i == axis.i || !others) return;
    check_warning(c, AU_W0302, span, "this index runs to %s, the axis has %s elements",
                  size_name(c, home), size_name(c, axis));
}

/* `..` in dot: the leading axes by what they are. */
static AuExpr leading_index(AuCheck *c, const AuTensor *t, uint32_t n, AuSpan span)
{
    const AuExpr axis = t->axes[n];
    const AuNode *node = attn_at(c->a, axis);
    const bool one = (node->op == AU_OP_I32 && node->integer == 1) ||
                     (node->op == AU_OP_SIZE && c->a->sizes[node->integer].fixed == 1);
    if (one) return attn_i32(c->a, 0, span);
    if (n == 0 && axis.i == check_axis(c, AU_ROLE_Q, 0).i) return value_index(c, AU_AX_B, span).e;
    if (axis.i == check_heads(c).i) return value_index(c, AU_AX_H, span).e;
    if (axis.i == check_axis(c, AU_ROLE_K, 1).i)
        return attn_leaf(c->a, AU_OP_KV_H, AU_T_I32, AU_AX_H, 0, 0, span);
    AuDiag *d =
        check_error(c, AU_E0304, span, "'..' stands for batch and head; axis %u of '%s' is neither",
                    n + 1, t->name);
    au_add_note(c->diags, d, t->span, "'%s' is declared here", t->name);
    return (AuExpr){0};
}

static bool check_one_index(AuCheck *c, const AuAst *arg, AuExpr axis, AuExpr *out)
{
    const AuValue v = check_expr(c, arg);
    if (v.type == AU_T_NONE) return false;
    if (v.type != AU_T_I32) {
        AuDiag *d = check_error(c, AU_E0303, arg->span, "an index is an integer, found %s",
                                type_text(v.type));
        if (v.type == AU_T_F32)
            au_add_note(c->diags, d, (AuSpan){0}, "i32(x) rounds toward zero, i32(floor(x)) down");
        return false;
    }
    if (v.flags & AU_V_LOG_INT) {
        AuDiag *d =
            check_remark(c, AU_N0301, arg->span,
                         "this index comes from log, which is not exact at powers of its base");
        au_add_note(c->diags, d, (AuSpan){0},
                    "log2 and exp2 are exact at powers of two, on every device");
    }
    warn_foreign_axis(c, v.e, axis, arg->span);
    *out = v.e;
    return true;
}

bool check_indices(AuCheck *c, const AuAst *e, const AuTensor *tensor, uint32_t wanted, AuExpr *out)
{
    const uint32_t count = e->args.count;
    const bool rest = wanted < tensor->rank && count && e->args.items[0]->kind == AU_AST_REST;
    bool ok = true;
    if (rest ? count - 1 > wanted : count != wanted) {
        AuDiag *d = check_error(c, AU_E0304, e->span,
                                "'%s' has %u axes and wants %u %s here, found %u", tensor->name,
                                tensor->rank, wanted, wanted == 1 ? "index" : "indices", count);
        if (tensor->span.source)
            au_add_note(c->diags, d, tensor->span, "'%s' is declared here", tensor->name);
        return false;
    }
    const uint32_t leading = rest ? wanted - (count - 1) : 0;
    for (uint32_t i = 0; i < leading; i++) {
        out[i] = leading_index(c, tensor, i, e->args.items[0]->span);
        ok &= out[i].i != 0;
    }
    for (uint32_t i = leading; i < wanted; i++)
        ok &= check_one_index(c, e->args.items[i - leading + (rest ? 1 : 0)], tensor->axes[i],
                              &out[i]);
    return ok;
}

/* What is indexed but is no tensor. */
static void index_of_value(AuCheck *c, const AuAst *e, const AuSymbol *s)
{
    const bool score =
        s->kind == AU_SYM_VALUE && s->value.type && attn_at(c->a, s->value.e)->op == AU_OP_SCORE;
    if (score) {
        refuse_mixing(c, e->span);
        return;
    }
    AuDiag *d = check_error(c, AU_E0308, e->name_span,
                            "'%s' is %s, not a tensor: it has no indices", e->name, s->what);
    if (s->span.source) au_add_note(c->diags, d, s->span, "'%s' is declared here", e->name);
}

/* Recurrences see the present token only. */
static bool reads_other_token(AuCheck *c, const AuTensor *t, const AuExpr *index)
{
    const AuExpr length = check_axis(c, AU_ROLE_K, 2);
    for (uint32_t i = 0; i < t->rank; i++) {
        const AuNode *n = attn_at(c->a, index[i]);
        if (t->axes[i].i == length.i && !(n->op == AU_OP_INDEX && n->integer == AU_AX_TOK))
            return true;
    }
    return false;
}

static AuValue index_expr(AuCheck *c, const AuAst *e)
{
    const AuSymbol *s = scope_find(c->scope, e->name);
    AuExpr index[8];
    if (!s)
        unknown_name(c, e->name, e->name_span);
    else if (s->kind != AU_SYM_TENSOR)
        index_of_value(c, e, s);
    if (!s || s->kind != AU_SYM_TENSOR) return value_none();
    const AuTensor tensor = c->a->tensors[s->index];
    if (!(site_bits(c->site) & AU_SITE_READ)) {
        check_error(c, AU_E0313, e->span, "%s cannot read the tensor '%s'", site_text(c->site),
                    s->name);
        return value_none();
    }
    if (!check_indices(c, e, &tensor, tensor.rank, index)) return value_none();
    if (c->site == AU_SITE_LET && tensor.rank) {
        check_error(
            c, AU_E0313, e->span,
            "a let of the attention is one number a launch; of inputs it reads those with [] only");
        return value_none();
    }
    if (c->linear && reads_other_token(c, &tensor, index)) {
        refuse_previous_tokens(c, e->span);
        return value_none();
    }
    if (tensor.role != AU_ROLE_INPUT) {
        AuDiag *d =
            check_error(c, AU_E0308, e->span, "elements of %s are not read by index", s->name);
        au_add_note(c->diags, d, (AuSpan){0},
                    "%s_mod gets each element in turn; dot(x[.., q_idx], y[.., kv_idx]) makes one "
                    "more product",
                    s->name);
        return value_none();
    }
    return value_of(c, attn_node(c->a, AU_OP_INPUT, index, tensor.rank, s->index, 0, e->span));
}

/* ---- operators */

/* The name q_idx in an expression, or NULL. */
static const AuAst *find_query_index(const AuCheck *c, const AuAst *e)
{
    if (e->kind == AU_AST_NAME) {
        const AuSymbol *s = scope_find(c->scope, e->name);
        if (!s) return NULL;
        if (s->kind == AU_SYM_INDEX)
            return s->site_bit == AU_SITE_Q && strcmp(s->name, "q_pos") != 0 ? e : NULL;
        if (s->kind != AU_SYM_VALUE || !s->value.type) return NULL;
        const AuNode *n = attn_at(c->a, s->value.e);
        return n->op == AU_OP_INDEX && n->integer == AU_AX_Q ? e : NULL;
    }
    for (uint32_t i = 0; i < e->args.count; i++) {
        const AuAst *found = find_query_index(c, e->args.items[i]);
        if (found) return found;
    }
    return NULL;
}

static bool is_index(const AuCheck *c, AuExpr e, int32_t axis)
{
    return attn_at(c->a, e)->op == AU_OP_INDEX && attn_at(c->a, e)->integer == axis;
}

/* q_idx - kv_idx, in either order. */
static bool is_distance(const AuCheck *c, AuExpr e)
{
    if (attn_at(c->a, e)->op != AU_OP_SUB) return false;
    const AuExpr x = attn_arg(c->a, e, 0), y = attn_arg(c->a, e, 1);
    return (is_index(c, x, AU_AX_Q) && is_index(c, y, AU_AX_KV)) ||
           (is_index(c, x, AU_AX_KV) && is_index(c, y, AU_AX_Q));
}

/* q_idx compared with kv_idx in a mask: right only where the queries begin where the keys do. */
static void warn_causal(AuCheck *c, const AuAst *e, AuExpr x, AuExpr y)
{
    const bool direct = (is_index(c, x, AU_AX_Q) && is_index(c, y, AU_AX_KV)) ||
                        (is_index(c, x, AU_AX_KV) && is_index(c, y, AU_AX_Q));
    if (c->site != AU_SITE_MASK || check_axis(c, AU_ROLE_Q, 2).i == check_axis(c, AU_ROLE_K, 2).i)
        return;
    if (!direct && !is_distance(c, x) && !is_distance(c, y)) return;
    const AuAst *name = find_query_index(c, e);
    AuDiag *d = check_warning(c, AU_W0401, name ? name->span : e->span,
                              "q_idx counts from the first query given, kv_idx from the first key");
    au_add_note(c->diags, d, (AuSpan){0},
                "q_pos = q_idx + (%s - %s) is the position among the keys when the queries are the "
                "last of them",
                size_name(c, check_axis(c, AU_ROLE_K, 2)),
                size_name(c, check_axis(c, AU_ROLE_Q, 2)));
    if (name) d->fix = "q_pos";
}

static AuValue compare(AuCheck *c, const AuAst *e, AuOp op, bool exchange, AuValue x, AuValue y)
{
    const AuAst *const *args = (const AuAst *const *)e->args.items;
    const bool equality = op == AU_OP_EQ || op == AU_OP_NE;
    if (equality && x.type == AU_T_BOOL && y.type == AU_T_BOOL) {
        const AuValue not_y = value_unary(c, AU_OP_NOT, y, e->span);
        return op == AU_OP_EQ ? value_where(c, x, y, not_y, e->span)
                              : value_where(c, x, not_y, y, e->span);
    }
    if (!equality && x.type == AU_T_BOOL && args[0]->kind == AU_AST_BINARY &&
        args[0]->op >= AU_AST_LT && args[0]->op <= AU_AST_GE) {
        check_error(c, AU_E0301, e->span, "comparisons do not chain: write a < b && b < c");
        return value_none();
    }
    if (!value_promote_pair(c, &x, &y, args[0]->span, args[1]->span, "a comparison"))
        return value_none();
    warn_causal(c, e, x.e, y.e);
    AuValue v = exchange ? value_binary(c, op, y, x, e->span) : value_binary(c, op, x, y, e->span);
    v.flags = 0;
    return v;
}

static AuValue logic(AuCheck *c, const AuAst *e, AuOp op, AuValue x, AuValue y)
{
    const bool first = value_is_bool(c, x, e->args.items[0]->span, ast_op_text(e->op));
    const bool second = value_is_bool(c, y, e->args.items[1]->span, ast_op_text(e->op));
    return first && second ? value_binary(c, op, x, y, e->span) : value_none();
}

static AuValue bits(AuCheck *c, const AuAst *e, AuOp op, AuValue x, AuValue y)
{
    if (x.type == AU_T_NONE || y.type == AU_T_NONE) return value_none();
    if (x.type == AU_T_I32 && y.type == AU_T_I32) return value_binary(c, op, x, y, e->span);
    AuDiag *d =
        check_error(c, AU_E0301, e->span, "'%s' works on the bits of two integers, found %s and %s",
                    ast_op_text(e->op), type_text(x.type), type_text(y.type));
    if (x.type == AU_T_BOOL && y.type == AU_T_BOOL)
        au_add_note(c->diags, d, (AuSpan){0}, "conditions are joined with && and ||");
    return value_none();
}

static AuValue arithmetic(AuCheck *c, const AuAst *e, AuOp op, AuValue x, AuValue y)
{
    const char *what = au_format(c->arena, "'%s'", ast_op_text(e->op));
    if (!value_promote_pair(c, &x, &y, e->args.items[0]->span, e->args.items[1]->span, what))
        return value_none();
    if (op != AU_OP_DIV || x.type != AU_T_I32) return value_binary(c, op, x, y, e->span);
    AuValue v = value_binary(c, AU_OP_IDIV, x, y, e->span);
    v.flags |= AU_V_QUOTIENT;
    v.quotient = e->span;
    return v;
}

static AuValue binary(AuCheck *c, const AuAst *e)
{
    const AuValue x = check_expr(c, e->args.items[0]), y = check_expr(c, e->args.items[1]);
    switch (e->op) {
    case AU_AST_ADD: return arithmetic(c, e, AU_OP_ADD, x, y);
    case AU_AST_SUB: return arithmetic(c, e, AU_OP_SUB, x, y);
    case AU_AST_MUL: return arithmetic(c, e, AU_OP_MUL, x, y);
    case AU_AST_DIV: return arithmetic(c, e, AU_OP_DIV, x, y);
    case AU_AST_MOD: return arithmetic(c, e, AU_OP_MOD, x, y);
    case AU_AST_LT: return compare(c, e, AU_OP_LT, false, x, y);
    case AU_AST_LE: return compare(c, e, AU_OP_LE, false, x, y);
    case AU_AST_GT: return compare(c, e, AU_OP_LT, true, x, y);
    case AU_AST_GE: return compare(c, e, AU_OP_LE, true, x, y);
    case AU_AST_EQ: return compare(c, e, AU_OP_EQ, false, x, y);
    case AU_AST_NE: return compare(c, e, AU_OP_NE, false, x, y);
    case AU_AST_AND: return logic(c, e, AU_OP_AND, x, y);
    case AU_AST_OR: return logic(c, e, AU_OP_OR, x, y);
    case AU_AST_BAND: return bits(c, e, AU_OP_BAND, x, y);
    case AU_AST_BOR: return bits(c, e, AU_OP_BOR, x, y);
    case AU_AST_BXOR: return bits(c, e, AU_OP_BXOR, x, y);
    case AU_AST_SHL: return bits(c, e, AU_OP_SHL, x, y);
    case AU_AST_SHR: return bits(c, e, AU_OP_SHR, x, y);
    case AU_AST_NO_OP:
    case AU_AST_NEG:
    case AU_AST_NOT:
    case AU_AST_BNOT:
    case AU_AST_OP_COUNT: break;
    }
    return value_none();
}

static AuValue unary(AuCheck *c, const AuAst *e)
{
    const AuValue x = check_expr(c, e->args.items[0]);
    if (x.type == AU_T_NONE) return x;
    if (e->op == AU_AST_NOT)
        return value_is_bool(c, x, e->args.items[0]->span, "'!'")
                   ? value_unary(c, AU_OP_NOT, x, e->span)
                   : value_none();
    if (e->op == AU_AST_BNOT) {
        if (x.type == AU_T_I32) return value_unary(c, AU_OP_BNOT, x, e->span);
        check_error(c, AU_E0301, e->span, "'~' works on the bits of an integer, found %s",
                    type_text(x.type));
        return value_none();
    }
    return value_unary(c, AU_OP_NEG, value_number(c, x, e->args.items[0]->span, "'-'"), e->span);
}

/* ---- all of it */

static AuValue evaluate(AuCheck *c, const AuAst *e)
{
    switch (e->kind) {
    case AU_AST_ERROR: return value_none();
    case AU_AST_INT: return value_int(c, (int32_t)e->integer, e->span);
    case AU_AST_FLOAT: return value_float(c, e->number, e->span);
    case AU_AST_BOOL: return value_of(c, attn_bool(c->a, e->integer != 0, e->span));
    case AU_AST_NAME: return name_value(c, e);
    case AU_AST_FIELD: return field_value(c, e);
    case AU_AST_UNARY: return unary(c, e);
    case AU_AST_BINARY: return binary(c, e);
    case AU_AST_CALL: return check_call(c, e);
    case AU_AST_INDEX: return index_expr(c, e);
    case AU_AST_REST:
        check_error(c, AU_E0304, e->span,
                    "'..' stands for leading indices in dot and in v = k[.., first:last] only");
        return value_none();
    case AU_AST_RANGE:
        check_error(c, AU_E0304, e->span, "a range of channels is for v = k[.., first:last] only");
        return value_none();
    }
    return value_none();
}

AuValue check_expr(AuCheck *c, const AuAst *e)
{
    if (c->gave_up) return value_none();
    if (++c->steps > AU_MOST_STEPS) {
        check_error(c, AU_E0112, e->span,
                    "this attention has more than %d operations when its functions are inlined",
                    AU_MOST_STEPS);
        c->gave_up = true;
        return value_none();
    }
    if (c->depth >= AU_MOST_NESTING) {
        check_error(c, AU_E0110, e->span,
                    "expressions are nested deeper than %d levels through functions",
                    AU_MOST_NESTING);
        return value_none();
    }
    c->depth++;
    const AuValue v = evaluate(c, e);
    c->depth--;
    return v;
}
