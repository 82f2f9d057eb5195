/* tensors.c - q, k, v and the inputs: element types, axes, sizes, heads.
 * A name in an axis binds a size; names used twice are one size. Axes of q, k, v are always AuSizes, also those written as
 * numbers or expressions (an expression becomes a condition of the launch), because every later stage asks for them. */
#include "check.h"

#include <string.h>

enum { MOST_AXES = 8 };

static const char *const axis_names[] = {"batch", "heads", "length", "width"};

AuDtype check_dtype(AuCheck *c, AuAstName name, bool *ok)
{
    static const struct {
        const char *text;
        AuDtype dtype;
    } types[] = {{"f32", AU_DT_F32}, {"f16", AU_DT_F16}, {"bf16", AU_DT_BF16}, {"i32", AU_DT_I32},
                 {"i64", AU_DT_I64}, {"u8", AU_DT_U8},   {"bool", AU_DT_BOOL}};
    *ok = true;
    if (!name.text) return AU_DT_OPERAND;
    AuGuess guess = guess_new(c, name.text);
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].text, name.text) == 0) return types[i].dtype;
        guess_try(&guess, types[i].text);
    }
    *ok = false;
    AuDiag *d = check_error(
        c, AU_E0210, name.span,
        "unknown element type '%s', expected f32, f16, bf16, i32, i64, u8 or bool", name.text);
    guess_add_note(c, d, &guess);
    return AU_DT_F32;
}

AuExpr check_axis(const AuCheck *c, AuTensorRole role, uint32_t n)
{
    if ((uint32_t)role >= c->a->tensor_count) return (AuExpr){0};
    return c->a->tensors[role].axes[n];
}

/* Of the softmax family: q's. Of recurrences, where q and k may be shared by several values: the larger number. */
AuExpr check_heads(const AuCheck *c)
{
    const AuExpr q = check_axis(c, AU_ROLE_Q, 1), k = check_axis(c, AU_ROLE_K, 1),
                 v = check_axis(c, AU_ROLE_V, 1);
    return c->linear && q.i == k.i ? v : q;
}

/* ---- sizes */

static AuExpr size_node(AuCheck *c, int32_t size, AuSpan span)
{
    return attn_leaf(c->a, AU_OP_SIZE, AU_T_I32, 0, size, 0, span);
}

static AuExpr fixed_size(AuCheck *c, int64_t value, AuSpan span)
{
    const char *name = au_name(c->names, au_format(c->arena, "%lld", (long long)value));
    const int32_t found = attn_size_of(c->a, name);
    return size_node(c, found >= 0 ? found : (int32_t)attn_add_size(c->a, name, value, span), span);
}

static AuExpr named_size(AuCheck *c, const AuAst *axis)
{
    const AuSymbol *s = scope_find(c->scope, axis->name);
    if (s && s->kind == AU_SYM_SIZE) return s->value.e;
    AuSymbol *new =
        scope_declare(c, c->scope, AU_SYM_SIZE, (AuAstName){axis->name, axis->span}, "an axis");
    const AuExpr e =
        size_node(c, (int32_t)attn_add_size(c->a, axis->name, -1, axis->span), axis->span);
    new->value = value_of(c, e);
    return e;
}

/* A constant axis; reports what is no positive number, or larger than constants of kernels are. */
static bool positive(AuCheck *c, int64_t value, AuSpan span)
{
    enum { LARGEST = 1 << 20 };
    if (value > 0 && value <= LARGEST) return true;
    if (value <= 0) {
        check_error(c, AU_E0316, span, "an axis has at least one element, found %lld",
                    (long long)value);
        return false;
    }
    AuDiag *d =
        check_error(c, AU_E0316, span, "a constant axis has at most %d elements, found %lld",
                    LARGEST, (long long)value);
    au_add_note(c->diags, d, (AuSpan){0},
                "give it a name of its own: its size is then taken from the tensor at launch");
    return false;
}

/* Every name in the expression is that of a const. */
static bool names_are_consts(const AuCheck *c, const AuAst *e)
{
    const AuSymbol *s = e->kind == AU_AST_NAME ? scope_find(c->scope, e->name) : NULL;
    if (e->kind == AU_AST_NAME && !(s && s->kind == AU_SYM_VALUE)) return false;
    for (uint32_t i = 0; i < e->args.count; i++)
        if (!names_are_consts(c, e->args.items[i])) return false;
    return true;
}

/* Axes that can be told before all names are known: plain names and constants. None: an expression, later; or wrong. */
static AuExpr simple_axis(AuCheck *c, const AuAst *axis, bool of_input)
{
    int64_t value = 0;
    if (!names_are_consts(c, axis))
        return axis->kind == AU_AST_NAME ? named_size(c, axis) : (AuExpr){0};
    c->site = AU_SITE_AXIS;
    const AuValue v = check_expr(c, axis);
    if (v.type && v.type != AU_T_I32)
        check_error(c, AU_E0316, axis->span, "an axis is an integer, found %s",
                    value_type_text(v.type));
    if (!value_constant(c, v, &value) || !positive(c, value, axis->span)) return (AuExpr){0};
    const char *digits = au_format(c->arena, "%lld", (long long)value);
    if (of_input && attn_size_of(c->a, digits) < 0)
        return attn_i32(c->a, (int32_t)value, axis->span);
    return fixed_size(c, value,
                      axis->span); /* one size with the axes of q, k and v that are as large */
}

/* An axis of q, k or v that is an expression: a size with a name of ours, one for each text, and a condition that binds it. */
static AuExpr size_of_expression(AuCheck *c, const AuAst *axis, const char *tensor, uint32_t n)
{
    AuText text = {.arena = c->arena};
    ast_print_expr(axis, &text);
    const char *key = au_name(c->names, text.at);
    const char *name = nameset_get(c->expressions, key);
    if (name) return size_node(c, attn_size_of(c->a, name), axis->span);
    name = au_format(c->arena, "%s_%s", tensor, n < 4 ? axis_names[n] : "axis");
    AuAstName declared = {au_name(c->names, name), axis->span};
    while (scope_find(c->scope, declared.text))
        declared.text = au_name(c->names, au_format(c->arena, "%s_", declared.text));
    const AuExpr e =
        size_node(c, (int32_t)attn_add_size(c->a, declared.text, -1, axis->span), axis->span);
    scope_shadow(c, c->scope, AU_SYM_SIZE, declared, "an axis")->value = value_of(c, e);
    nameset_put(c->expressions, key, au_strndup(c->arena, declared.text, strlen(declared.text)));
    return e;
}

/* ---- declarations */

static AuDtype element_type(AuCheck *c, const AuItem *item, AuTensorRole role)
{
    bool ok;
    const AuDtype dtype = check_dtype(c, item->dtype, &ok);
    if (role != AU_ROLE_INPUT && ok && attn_type_of(dtype) != AU_T_F32)
        check_error(c, AU_E0210, item->dtype.span, "%s is f32, f16 or bf16, found %s",
                    item->name.text, item->dtype.text);
    return dtype;
}

static bool wants_gradient(AuCheck *c, const AuItem *item, AuDtype dtype)
{
    if (!item->tail.text) return false;
    if (strcmp(item->tail.text, "grad") != 0) {
        check_error(c, AU_E0204, item->tail.span, "unknown word '%s', expected 'grad' or ';'",
                    item->tail.text);
        return false;
    }
    if (attn_type_of(dtype) == AU_T_F32) return true;
    check_error(c, AU_E0301, item->tail.span, "'%s' has elements without a gradient (%s)",
                item->name.text, item->dtype.text);
    return false;
}

static void declare_tensor(AuCheck *c, const AuItem *item, AuTensorRole role)
{
    const bool of_input = role == AU_ROLE_INPUT;
    AuTensor t = {
        .name = item->name.text, .role = role, .rank = item->list.count, .span = item->name.span};
    bool wrong = false;
    t.dtype = element_type(c, item, role);
    t.grad = wants_gradient(c, item, t.dtype) || !of_input;
    if (of_input ? t.rank > MOST_AXES : t.rank != 4) {
        wrong = true;
        t.rank = of_input ? MOST_AXES : 4;
        check_error(c, AU_E0304, item->span,
                    of_input ? "'%s' has more than 8 axes"
                             : "%s has 4 axes: batch, heads, length, width",
                    t.name);
    }
    AuSymbol *s = of_input ? scope_declare(c, c->scope, AU_SYM_TENSOR, item->name, "an input")
                           : scope_shadow(c, c->scope, AU_SYM_TENSOR, item->name,
                                          "a tensor of the attention");
    for (uint32_t n = 0; n < item->list.count; n++) {
        AuExpr axis = simple_axis(c, item->list.items[n], of_input);
        if (!axis.i && !of_input && !names_are_consts(c, item->list.items[n]))
            axis = size_of_expression(c, item->list.items[n], t.name, n);
        if (n < t.rank && !wrong) t.axes[n] = axis;
    }
    s->index = (int32_t)attn_add_tensor(c->a, t);
}

/* The place of a tensor that is missing or wrong: others may go on naming it. */
static void declare_missing(AuCheck *c, const char *name, AuTensorRole role)
{
    const AuAstName as = {au_name(c->names, name), c->attention->name.span};
    const AuTensor t = {.name = as.text, .role = role, .rank = 4};
    scope_shadow(c, c->scope, AU_SYM_TENSOR, as, "a tensor of the attention")->index =
        (int32_t)attn_add_tensor(c->a, t);
    c->incomplete = true;
}

static const AuItem *find_tensor_item(const AuCheck *c, const char *name)
{
    const AuItemList *items = &c->attention->items;
    for (uint32_t i = 0; i < items->count; i++) {
        const AuItem *item = items->items[i];
        if ((item->kind == AU_ITEM_TENSOR || item->kind == AU_ITEM_SLICE) &&
            strcmp(item->name.text, name) == 0)
            return item;
    }
    return NULL;
}

/* v = k[.., first:last] */
static void declare_slice(AuCheck *c, const AuItem *item)
{
    const AuAst *e = item->value,
                *range = e->kind == AU_AST_INDEX && e->args.count == 2 ? e->args.items[1] : NULL;
    AuTensor t = c->a->tensors[AU_ROLE_K];
    int64_t first = 0, last = 0;
    const bool shape = range && strcmp(e->name, "k") == 0 &&
                       e->args.items[0]->kind == AU_AST_REST && range->kind == AU_AST_RANGE;
    t.name = item->name.text;
    t.role = AU_ROLE_V;
    t.span = item->name.span;
    if (!shape) {
        check_error(c, AU_E0315, e->span,
                    "values that are part of the keys are written v = k[.., first:last]");
    } else {
        c->site = AU_SITE_AXIS;
        const AuValue x = check_expr(c, range->args.items[0]),
                      y = check_expr(c, range->args.items[1]);
        const AuNode *width = attn_at(c->a, t.axes[3]);
        const int64_t fixed = width->op == AU_OP_SIZE ? c->a->sizes[width->integer].fixed : -1;
        const bool known = x.type && y.type;
        if (known && (!value_constant(c, x, &first) || !value_constant(c, y, &last)))
            check_error(c, AU_E0315, range->span, "the channels of a slice are constant integers");
        else if (known && (first < 0 || last <= first))
            check_error(c, AU_E0315, range->span,
                        "channels %lld to %lld are no slice: expected 0 <= first < last",
                        (long long)first, (long long)last);
        else if (known && fixed >= 0 && last > fixed)
            check_error(c, AU_E0315, range->span,
                        "channel %lld is outside of k, whose width is %lld", (long long)last,
                        (long long)fixed);
        else if (known && fixed < 0 && t.axes[3].i)
            attn_add_require(
                c->a, (AuRequire){.holds = attn_op2(c->a, AU_OP_LE, y.e, t.axes[3], range->span),
                                  .span = range->span});
    }
    if (last <= first) last = first + 1; /* was reported */
    c->a->v_in_k = true;
    c->a->v_first = (int32_t)first;
    c->a->v_last = (int32_t)last;
    t.axes[3] = fixed_size(c, last - first, item->span);
    AuSymbol *s = scope_shadow(c, c->scope, AU_SYM_TENSOR, item->name, "a tensor of the attention");
    s->index = (int32_t)attn_add_tensor(c->a, t);
}

/* ---- how q, k and v fit together */

/* Where axis n of q, k or v is written. */
static AuSpan axis_span(const AuCheck *c, AuTensorRole role, uint32_t n)
{
    const AuTensor *t = &c->a->tensors[role];
    const AuItem *item = find_tensor_item(c, t->name);
    return item && item->kind == AU_ITEM_TENSOR && n < item->list.count ? item->list.items[n]->span
                                                                        : t->span;
}

static void same_axis(AuCheck *c, AuTensorRole x, AuTensorRole y, uint32_t n)
{
    const AuExpr p = check_axis(c, x, n), q = check_axis(c, y, n);
    if (!p.i || !q.i || p.i == q.i) return;
    const AuTensor *tx = &c->a->tensors[x], *ty = &c->a->tensors[y];
    AuDiag *d = check_error(c, AU_E0305, axis_span(c, y, n),
                            "the %s of %s is '%s', that of %s is '%s': they are the same axis",
                            axis_names[n], ty->name, c->a->sizes[attn_at(c->a, q)->integer].name,
                            tx->name, c->a->sizes[attn_at(c->a, p)->integer].name);
    au_add_note(c->diags, d, axis_span(c, x, n), "%s is declared here", tx->name);
}

static void require_division(AuCheck *c, AuExpr all, AuExpr own, AuSpan span)
{
    const AuExpr rest = attn_op2(c->a, AU_OP_MOD, all, own, span);
    const AuExpr whole = attn_op2(c->a, AU_OP_EQ, rest, attn_i32(c->a, 0, span), span);
    for (uint32_t i = 0; i < c->a->require_count; i++)
        if (c->a->requires[i].holds.i == whole.i) return; /* k and v have the same heads */
    attn_add_require(c->a, (AuRequire){.holds = whole, .span = span});
}

static int64_t fixed_of(const AuCheck *c, AuExpr axis)
{
    const AuNode *n = attn_at(c->a, axis);
    return n->op == AU_OP_SIZE ? c->a->sizes[n->integer].fixed : -1;
}

/* What the heads of each tensor divide: q's; of a recurrence the largest number, known now or at launch (attn_heads). */
static AuExpr all_heads(AuCheck *c)
{
    const AuExpr q = check_axis(c, AU_ROLE_Q, 1);
    AuExpr most = q;
    for (uint32_t role = AU_ROLE_K; c->linear && most.i && role <= AU_ROLE_V; role++) {
        const AuExpr own = check_axis(c, (AuTensorRole)role, 1);
        if (!own.i || own.i == most.i || own.i == q.i) continue;
        if (fixed_of(c, own) >= 0 && fixed_of(c, most) >= 0)
            most = fixed_of(c, own) > fixed_of(c, most) ? own : most;
        else
            most = attn_op2(c->a, AU_OP_MAX, most, own, c->a->tensors[role].span);
    }
    return most;
}

/* Heads of a tensor divide H: now if both are numbers, else at launch. */
static void heads_divide(AuCheck *c, AuTensorRole role)
{
    const AuExpr all = all_heads(c), own = check_axis(c, role, 1);
    if (!all.i || !own.i || all.i == own.i) return;
    if (attn_at(c->a, all)->op != AU_OP_SIZE) {
        require_division(c, all, own, c->a->tensors[role].span);
        return;
    }
    const AuSize *h = &c->a->sizes[attn_at(c->a, all)->integer],
                 *k = &c->a->sizes[attn_at(c->a, own)->integer];
    const AuTensor *t = &c->a->tensors[role];
    if (k->fixed == 1) return;
    if (h->fixed >= 0 && k->fixed >= 0) {
        if (h->fixed % k->fixed)
            check_error(c, AU_E0307, t->span,
                        "the heads of %s divide those of the attention: %lld does not divide %lld",
                        t->name, (long long)k->fixed, (long long)h->fixed);
        return;
    }
    require_division(c, all, own, t->span);
}

static void check_fit(AuCheck *c)
{
    same_axis(c, AU_ROLE_Q, AU_ROLE_K, 0);
    same_axis(c, AU_ROLE_Q, AU_ROLE_V, 0);
    same_axis(c, AU_ROLE_Q, AU_ROLE_K, 3);
    same_axis(c, AU_ROLE_K, AU_ROLE_V, 2);
    for (AuTensorRole role = AU_ROLE_Q; role <= AU_ROLE_V; role++) heads_divide(c, role);
    const AuExpr s = check_axis(c, AU_ROLE_Q, 2), t = check_axis(c, AU_ROLE_K, 2);
    if (c->linear && s.i != t.i)
        refuse_noncausal(c, c->linear->span,
                         "queries and keys of a recurrence are the same tokens: q and k have the "
                         "same length axis");
}

void check_tensors(AuCheck *c)
{
    static const char *const names[] = {"q", "k", "v"};
    AuText missing = {.arena = c->arena};
    for (int role = 0; role < 3; role++) {
        const AuItem *item = find_tensor_item(c, names[role]);
        if (!item) au_text_add(&missing, "%s%s", missing.length ? ", " : "", names[role]);
        if (item && item->kind == AU_ITEM_TENSOR)
            declare_tensor(c, item, (AuTensorRole)role);
        else if (item && role == AU_ROLE_V)
            declare_slice(c, item);
        else
            declare_missing(c, names[role], (AuTensorRole)role);
        if (item && item->kind == AU_ITEM_SLICE && role != AU_ROLE_V)
            check_error(c, AU_E0315, item->span,
                        "only v can be part of another tensor, as in v = k[.., first:last]");
    }
    if (missing.length && !c->attention->broken && !c->user.script->truncated) {
        AuDiag *d = check_error(c, AU_E0213, c->attention->name.span, "attention '%s' lacks %s",
                                c->attention->name.text, missing.at);
        au_add_note(c->diags, d, (AuSpan){0},
                    "q, k and v are declared with their axes, as in 'k: [B, H, T, D];'");
    }
    if (!c->incomplete) check_fit(c);
    const AuItemList *items = &c->attention->items;
    for (uint32_t i = 0; i < items->count; i++)
        if (items->items[i]->kind == AU_ITEM_INPUT)
            declare_tensor(c, items->items[i], AU_ROLE_INPUT);
}

/* ---- axes that are expressions, when all names are known */

static AuExpr axis_value(AuCheck *c, const AuAst *axis)
{
    int64_t value;
    c->site = AU_SITE_AXIS;
    const AuValue v = check_expr(c, axis);
    if (v.type == AU_T_NONE) return (AuExpr){0};
    if (v.type != AU_T_I32) {
        check_error(c, AU_E0316, axis->span, "an axis is an integer, found %s",
                    value_type_text(v.type));
        return (AuExpr){0};
    }
    if (value_constant(c, v, &value) && !positive(c, value, axis->span)) return (AuExpr){0};
    return v.e;
}

void check_axis_expressions(AuCheck *c)
{
    const AuItemList *items = &c->attention->items;
    for (uint32_t i = 0; i < items->count; i++) {
        const AuItem *item = items->items[i];
        const AuSymbol *s =
            item->name.text ? nameset_get(c->outside->names, item->name.text) : NULL;
        if ((item->kind != AU_ITEM_TENSOR && item->kind != AU_ITEM_INPUT) || !s ||
            s->kind != AU_SYM_TENSOR)
            continue;
        for (uint32_t n = 0; n < item->list.count && n < MOST_AXES; n++) {
            const AuAst *axis = item->list.items[n];
            if (axis->kind == AU_AST_NAME || names_are_consts(c, axis)) continue;
            const AuExpr e = axis_value(c, axis);
            AuTensor *t = &c->a->tensors[s->index];
            if (!e.i || n >= t->rank) continue;
            if (t->role == AU_ROLE_INPUT)
                t->axes[n] = e;
            else
                attn_add_require(
                    c->a, (AuRequire){.holds = attn_op2(c->a, AU_OP_EQ, t->axes[n], e, axis->span),
                                      .span = axis->span});
        }
    }
}
