/* index.c - indices: input[...] in expressions, and the indices of the two sides of dot. */
#include "check.h"

const char *check_size_name(const AuCheck *c, AuExpr size)
{
    const AuNode *n = attn_at(c->a, size);
    return n->op == AU_OP_SIZE ? c->a->sizes[n->integer].name : "?";
}

const AuSymbol *check_tensor_symbol(const AuCheck *c, const AuAst *e)
{
    if (e->kind != AU_AST_INDEX && e->kind != AU_AST_NAME) return NULL;
    const AuSymbol *s = scope_find(c->scope, e->name);
    return s && s->kind == AU_SYM_TENSOR ? s : NULL;
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
                  check_size_name(c, home), check_size_name(c, axis));
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

/* A number that is no index of the axis, whatever its size. */
static bool is_inside(AuCheck *c, AuValue index, AuExpr axis, AuSpan span)
{
    int64_t at = 0, size = -1;
    if (!value_constant(c, index, &at)) return true;
    const AuNode *n = attn_at(c->a, axis);
    if (n->op == AU_OP_SIZE)
        size = c->a->sizes[n->integer].fixed;
    else
        value_constant(c, value_of(c, axis), &size);
    if (at >= 0 && (size < 0 || at < size)) return true;
    AuDiag *d =
        size < 0
            ? check_error(c, AU_E0319, span, "an index is at least 0, found %lld", (long long)at)
            : check_error(c, AU_E0319, span,
                          "index %lld of an axis of %lld elements, which has 0 to %lld",
                          (long long)at, (long long)size, (long long)size - 1);
    if (at < 0)
        au_add_note(c->diags, d, (AuSpan){0},
                    "indices count from the front: the last element of an axis N is x[N - 1]");
    return false;
}

static bool check_one_index(AuCheck *c, const AuAst *arg, AuExpr axis, AuExpr *out)
{
    const AuValue v = check_expr(c, arg);
    if (v.type == AU_T_NONE) return false;
    if (v.type != AU_T_I32) {
        AuDiag *d = check_error(c, AU_E0303, arg->span, "an index is an integer, found %s",
                                value_type_text(v.type));
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
    return is_inside(c, v, axis, arg->span);
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

/* Recurrences see the present token only, which is the query's in an out_mod. */
static bool reads_other_token(AuCheck *c, const AuTensor *t, const AuExpr *index)
{
    const AuExpr length = check_axis(c, AU_ROLE_K, 2);
    const uint8_t token = c->site == AU_SITE_OUT_MOD ? AU_AX_Q : AU_AX_TOK;
    for (uint32_t i = 0; i < t->rank; i++) {
        const AuNode *n = attn_at(c->a, index[i]);
        if (t->axes[i].i == length.i && !(n->op == AU_OP_INDEX && n->integer == token)) return true;
    }
    return false;
}

AuValue check_index(AuCheck *c, const AuAst *e)
{
    const AuSymbol *s = scope_find(c->scope, e->name);
    AuExpr index[8];
    if (!s)
        check_unknown_name(c, e->name, e->name_span);
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
        if (c->linear)
            au_add_note(c->diags, d, (AuSpan){0},
                        "a slot reads the row as '%s'; out_mod reads inputs: pass the tensor once "
                        "more as an input, and add up both gradients",
                        s->name);
        else
            au_add_note(c->diags, d, (AuSpan){0},
                        "%s_mod gets each element in turn; dot(x[.., q_idx], y[.., kv_idx]) makes "
                        "one more product",
                        s->name);
        return value_none();
    }
    return value_of(c, attn_node(c->a, AU_OP_INPUT, index, tensor.rank, s->index, 0, e->span));
}
