/* verify.c - what every attention satisfies, whoever made it; the other modules rely on it and
 * check nothing again. Nodes: arguments exist and come before their users, types follow the rules
 * of ops.def, indices of declarations exist. Places: an expression has its place's type, depends
 * on no other axes, and stands on leaves that have a meaning there. Parts: three tensors of rank
 * four lead, one of online and linear is there, an online function is complete. */
#include "attn.h"

#include <string.h>

typedef struct Verifier {
    const AuAttn *a;
    AuDiags *diags;
    AuArena *scratch;
    bool *mark;
} Verifier;

static const char *type_text(uint8_t type)
{
    static const char *const texts[] = {"nothing", "f32", "i32", "bool"};
    return texts[type];
}

static const char *axes_text(const Verifier *v, uint8_t axes)
{
    static const char *const names[] = {"b",       "h", "q_idx",       "kv_idx",
                                        "channel", "t", "key channel", "value channel"};
    AuText text = {.arena = v->diags->arena};
    for (uint32_t i = 0; i < 8; i++)
        if (axes >> i & 1) au_text_add(&text, "%s%s", text.length ? ", " : "", names[i]);
    return au_text_str(&text);
}

/* ---- nodes */

static void wrong_type(Verifier *v, const AuNode *n, uint32_t k, AuType wanted)
{
    const AuNode *x = attn_at(v->a, v->a->args[n->first + k]);
    au_error(v->diags, AU_E0910, n->span, "argument %u of '%s': expected %s, found %s", k + 1,
             attn_op_info((AuOp)n->op)->text, type_text((uint8_t)wanted), type_text(x->type));
}

static void check_arg(Verifier *v, const AuNode *n, uint32_t k, AuType wanted)
{
    if (attn_at(v->a, v->a->args[n->first + k])->type != wanted) wrong_type(v, n, k, wanted);
}

static void check_table_op(Verifier *v, const AuNode *n)
{
    const AuAttn *a = v->a;
    const AuOpInfo *info = attn_op_info((AuOp)n->op);
    if (n->count != info->count) {
        au_error(v->diags, AU_E0903, n->span, "'%s' takes %u arguments, found %u", info->text,
                 info->count, n->count);
        return;
    }
    const uint8_t first = attn_at(a, a->args[n->first])->type;
    const uint8_t last = attn_at(a, a->args[n->first + n->count - 1u])->type;
    switch ((AuTypeRule)info->rule) {
    case AU_RULE_T_F32:
    case AU_RULE_T_I32:
    case AU_RULE_T_BOOL:
        for (uint32_t k = 0; k < n->count; k++) check_arg(v, n, k, (AuType)n->type);
        break;
    case AU_RULE_T_NUM:
    case AU_RULE_T_CMP:
        if (first != AU_T_F32 && first != AU_T_I32 && n->op != AU_OP_STOP_GRAD)
            wrong_type(v, n, 0, AU_T_F32);
        else if (last != first)
            wrong_type(v, n, n->count - 1u, (AuType)first);
        break;
    case AU_RULE_T_WHERE:
        check_arg(v, n, 0, AU_T_BOOL);
        check_arg(v, n, 2, (AuType)n->type);
        break;
    case AU_RULE_T_CAST:
    case AU_RULE_LEAF: break;
    }
}

static bool check_tensor(Verifier *v, const AuNode *n, int32_t tensor)
{
    if (tensor >= 0 && (uint32_t)tensor < v->a->tensor_count) return true;
    au_error(v->diags, AU_E0913, n->span, "'%s' of a tensor that does not exist",
             attn_op_info((AuOp)n->op)->text);
    return false;
}

static void check_indices(Verifier *v, const AuNode *n, uint32_t wanted)
{
    for (uint32_t k = 0; k < n->count; k++) check_arg(v, n, k, AU_T_I32);
    if (n->count != wanted)
        au_error(v->diags, AU_E0903, n->span, "expected %u indices, found %u", wanted, n->count);
}

/* One side reads rows of queries, the other rows of keys, and both are of one width. */
static void check_dot(Verifier *v, const AuNode *n)
{
    const AuAttn *a = v->a;
    if (!check_tensor(v, n, n->integer) || !check_tensor(v, n, n->integer2)) return;
    const AuTensor *x = &a->tensors[n->integer], *y = &a->tensors[n->integer2];
    if (x->rank == 0 || y->rank == 0 || n->count != x->rank + y->rank - 2) {
        au_error(v->diags, AU_E0903, n->span,
                 "dot takes all indices of both tensors but the last ones");
        return;
    }
    check_indices(v, n, n->count);
    uint8_t left = 0, right = 0;
    for (uint32_t k = 0; k < n->count; k++)
        *(k < x->rank - 1 ? &left : &right) |= attn_at(a, a->args[n->first + k])->axes;
    if (left & AU_AX_KV || right & AU_AX_Q)
        au_error(v->diags, AU_E0911, n->span,
                 "dot takes a row that depends on the query first, and one that depends on the key "
                 "second");
    if (x->axes[x->rank - 1].i != y->axes[y->rank - 1].i)
        au_error(v->diags, AU_E0913, n->span,
                 "dot contracts the last axes of '%s' and '%s', which are not the same", x->name,
                 y->name);
}

static void check_rope(Verifier *v, const AuNode *n)
{
    if (n->count != 5) {
        au_error(v->diags, AU_E0903, n->span, "rope takes 5 arguments, found %u", n->count);
        return;
    }
    check_arg(v, n, 0, AU_T_F32);
    if (attn_at(v->a, v->a->args[n->first + 1])->type != AU_T_I32) check_arg(v, n, 1, AU_T_F32);
    check_arg(v, n, 2, AU_T_F32);
    check_arg(v, n, 3, AU_T_I32);
    check_arg(v, n, 4, AU_T_I32);
    for (uint32_t k = 1; k < 5; k++)
        if (attn_at(v->a, v->a->args[n->first + k])->axes & AU_AX_C)
            au_error(v->diags, AU_E0911, n->span, "argument %u of rope depends on the channel",
                     k + 1);
}

static void check_dropout(Verifier *v, const AuNode *n)
{
    if (n->count != 4) {
        au_error(v->diags, AU_E0903, n->span, "dropout takes 4 arguments, found %u", n->count);
        return;
    }
    for (uint32_t k = 0; k < 4; k++) check_arg(v, n, k, k < 2 ? AU_T_F32 : AU_T_I32);
}

static void check_seed_word(Verifier *v, const AuNode *n)
{
    const AuAttn *a = v->a;
    const int32_t i = n->integer2;
    const bool ok = i >= 0 ? (uint32_t)i < a->param_count && a->params[i].dtype == AU_DT_I64
                           : (uint32_t)~i < a->tensor_count && a->tensors[~i].dtype == AU_DT_I64 &&
                                 a->tensors[~i].rank == 0;
    if (!ok || (n->integer & ~1))
        au_error(v->diags, AU_E0913, n->span, "a seed is an i64 parameter or an i64[] input");
}

static void check_below(Verifier *v, const AuNode *n, uint32_t count)
{
    if (n->integer < 0 || (uint32_t)n->integer >= count)
        au_error(v->diags, AU_E0913, n->span, "'%s' %d does not exist",
                 attn_op_info((AuOp)n->op)->text, n->integer);
}

static void check_whole_tensor(Verifier *v, const AuNode *n)
{
    uint8_t bits[8];
    if (!check_tensor(v, n, n->integer) || v->a->tensor_count < 3) return;
    if (!attn_tensor_axes(v->a, n, bits))
        au_error(v->diags, AU_E0913, n->span, "'%s' does not have just the axes (%s)",
                 v->a->tensors[n->integer].name, axes_text(v, n->axes));
}

static void check_sum(Verifier *v, const AuNode *n)
{
    const uint8_t axes = attn_at(v->a, v->a->args[n->first])->axes;
    check_arg(v, n, 0, AU_T_F32);
    if (n->op == AU_OP_ROW_SUM_C && axes & AU_AX_K && axes & AU_AX_V)
        au_error(v->diags, AU_E0911, n->span,
                 "channel_sum goes along one row, of keys or of values");
}

static void check_leaf(Verifier *v, const AuNode *n)
{
    const AuAttn *a = v->a;
    const AuOnline *o = a->online;
    switch ((AuOp)n->op) {
    case AU_OP_F32:
    case AU_OP_I32:
    case AU_OP_KV_H:
    case AU_OP_SCORE:
    case AU_OP_WEIGHT:
    case AU_OP_DWEIGHT:
    case AU_OP_DELTA:
    case AU_OP_PASS:
    case AU_OP_DELEMENT:
    case AU_OP_ELEMENT: break;
    case AU_OP_SIZE: check_below(v, n, a->size_count); break;
    case AU_OP_INDEX:
        if (n->integer != n->axes || !n->axes || n->axes & (n->axes - 1))
            au_error(v->diags, AU_E0913, n->span, "an index of no axis");
        break;
    case AU_OP_PARAM: check_below(v, n, a->param_count); break;
    case AU_OP_STATE:
    case AU_OP_STATE_B: check_below(v, n, o ? o->scale_count : 0); break;
    case AU_OP_FINAL:
    case AU_OP_DFINAL:
    case AU_OP_ADJOINT: check_below(v, n, o ? o->final_count : 0); break;
    case AU_OP_TENSOR: check_whole_tensor(v, n); break;
    case AU_OP_INPUT:
        if (check_tensor(v, n, n->integer)) check_indices(v, n, a->tensors[n->integer].rank);
        break;
    case AU_OP_ROWMAX:
    case AU_OP_ROWSUM:
    case AU_OP_ROW_SUM_C:
        if (n->count == 1)
            check_sum(v, n);
        else
            au_error(v->diags, AU_E0903, n->span, "a sum or maximum takes one argument, found %u",
                     n->count);
        break;
    case AU_OP_DOT: check_dot(v, n); break;
    case AU_OP_ROPE: check_rope(v, n); break;
    case AU_OP_DROPOUT: check_dropout(v, n); break;
    case AU_OP_SEED_WORD: check_seed_word(v, n); break;
    case AU_NO_OP:
    case AU_OP_COUNT: au_error(v->diags, AU_E0913, n->span, "a node without an operation"); break;
#define OP(NAME, text, count, rule, flags, meaning) case AU_OP_##NAME:
#include "ops.def"
#undef OP
        check_table_op(v, n);
        break;
    }
}

/* Every node that a root reaches. False where following arguments would leave the graph. */
static bool check_nodes(Verifier *v, const AuRoot *roots, uint32_t count)
{
    const AuAttn *a = v->a;
    const uint32_t before = v->diags->errors;
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        bool ok =
            n->op < AU_OP_COUNT && n->type <= AU_T_BOOL && n->first + n->count <= a->arg_count;
        for (uint32_t k = 0; ok && k < n->count; k++) {
            const uint32_t x = a->args[n->first + k].i;
            ok = x > 0 && x < i;
        }
        if (ok) continue;
        au_error(v->diags, AU_E0913, n->span, "node %u is malformed", i);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (roots[i].at->i >= a->node_count) {
            au_error(v->diags, AU_E0913, a->span, "%s is no node",
                     attn_place_info(roots[i].place)->text);
            return false;
        }
        attn_mark(a, *roots[i].at, v->mark);
    }
    for (uint32_t i = 1; i < a->node_count; i++)
        if (v->mark[i]) check_leaf(v, &a->nodes[i]);
    return v->diags->errors == before;
}

/* ---- places */

/* One complaint a root: the first node in index order is the innermost. */
static void check_leaves(Verifier *v, AuExpr e, AuPlace place)
{
    const AuAttn *a = v->a;
    const AuPlaceInfo *info = attn_place_info(place);
    memset(v->mark, 0, e.i + 1);
    attn_mark(a, e, v->mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &a->nodes[i];
        if (!v->mark[i]) continue;
        const uint32_t bit = attn_leaf_bit(n);
        const bool key_head =
            info->axes & AU_AX_C && info->axes & AU_AX_KV; /* h is not a key's head */
        if ((bit && !(info->leaves & bit)) ||
            (key_head && n->op == AU_OP_INDEX && n->integer == AU_AX_H)) {
            AuText text = {.arena = v->diags->arena};
            attn_print_expr(a, (AuExpr){i}, &text);
            au_error(v->diags, AU_E0912, n->span, "'%s' has no meaning in %s", au_text_str(&text),
                     info->text);
            return;
        }
        if (n->op == AU_OP_ELEMENT && n->axes != attn_element_axes(place)) {
            au_error(v->diags, AU_E0913, n->span, "the element of %s has axes (%s), expected (%s)",
                     info->text, axes_text(v, n->axes), axes_text(v, attn_element_axes(place)));
            return;
        }
    }
}

static void check_root(Verifier *v, const AuRoot *root)
{
    const AuNode *n = attn_at(v->a, *root->at);
    const AuPlaceInfo *info = attn_place_info(root->place);
    AuType wanted = info->type;
    if (root->place == AU_PLACE_DEFAULT) wanted = attn_type_of(v->a->params[root->item].dtype);
    if (n->type != wanted)
        au_error(v->diags, AU_E0910, n->span, "%s: expected %s, found %s", info->text,
                 type_text((uint8_t)wanted), type_text(n->type));
    check_leaves(v, *root->at, root->place);
    if (n->axes & ~info->axes)
        au_error(v->diags, AU_E0911, n->span, "%s cannot depend on %s", info->text,
                 axes_text(v, (uint8_t)(n->axes & ~info->axes)));
}

/* ---- parts */

static void missing(Verifier *v, AuExpr e, AuSpan span, const char *what, const char *name)
{
    if (!e.i) au_error(v->diags, AU_E0913, span, "%s '%s' is missing", what, name);
}

static void check_online(Verifier *v, const AuOnline *o)
{
    for (uint32_t i = 0; i < o->scale_count; i++) {
        const AuRowScale *s = &o->scales[i];
        missing(v, s->start, s->span, "the start value of", s->name);
        missing(v, s->next, s->span, "in online_fwd, the new value of", s->name);
        if (o->has_combine) missing(v, s->combined, s->span, "in combine, the value of", s->name);
    }
    for (uint32_t i = 0; i < o->final_count; i++)
        missing(v, o->finals[i].value, o->finals[i].span, "the value of final", o->finals[i].name);
    missing(v, o->weight, o->span, "the weight of", o->name);
    missing(v, o->rescale, o->span, "the rescaling factor of", o->name);
    missing(v, o->epilogue, o->span, "the epilogue of", o->name);
    if (!o->has_combine) return;
    missing(v, o->combine_a, o->span, "the first factor of combine in", o->name);
    missing(v, o->combine_b, o->span, "the second factor of combine in", o->name);
}

static void check_parts(Verifier *v)
{
    const AuAttn *a = v->a;
    if (a->tensor_count < 3)
        au_error(v->diags, AU_E0913, a->span, "query, key and value are missing");
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const AuTensor *t = &a->tensors[i];
        const AuTensorRole role = i < 3 ? (AuTensorRole)i : AU_ROLE_INPUT;
        if (t->role != role)
            au_error(v->diags, AU_E0913, t->span,
                     "tensors come in the order query, key, value, inputs");
        if (i < 3 && t->rank != 4)
            au_error(v->diags, AU_E0913, t->span, "'%s' needs 4 axes, found %u", t->name, t->rank);
        if (t->rank > 8)
            au_error(v->diags, AU_E0903, t->span, "'%s' has more than 8 axes", t->name);
    }
    if (!a->online == !a->linear)
        au_error(v->diags, AU_E0913, a->span, "expected one of online and linear");
    if (a->linear &&
        (a->q_mod.i || a->k_mod.i || a->v_mod.i || a->score_mod.i || a->mask.i || a->weight_mod.i))
        au_error(v->diags, AU_E0913, a->span, "a recurrence takes no modification but out_mod");
    if (a->v_in_k && (a->v_first < 0 || a->v_last <= a->v_first))
        au_error(v->diags, AU_E0913, a->span, "the slice %d:%d of the keys is empty", a->v_first,
                 a->v_last);
    if (a->online) check_online(v, a->online);
}

/* ---- names */

static bool is_reserved(const char *name)
{
    static const char *const words[] = {"b",   "h",    "kv_h",  "q_idx", "kv_idx", "inf",
                                        "nan", "true", "false", "state", "other",  "final"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

/* Names stand in the text form and in generated code: identifiers, and no two the same. */
static void check_name(Verifier *v, const char **seen, uint32_t *count, const char *name,
                       AuSpan span)
{
    if (!attn_is_name(name) || is_reserved(name)) {
        au_error(v->diags, AU_E0914, span, "'%s' cannot be a name", name ? name : "");
        return;
    }
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(seen[i], name) == 0)
            au_error(v->diags, AU_E0914, span, "the name '%s' is taken", name);
    seen[(*count)++] = name;
}

static void check_names(Verifier *v)
{
    const AuAttn *a = v->a;
    const char **seen = AU_NEW_ARRAY(v->scratch, const char *,
                                     a->size_count + a->tensor_count + a->param_count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->size_count; i++)
        if (a->sizes[i].fixed < 0 || attn_is_name(a->sizes[i].name))
            check_name(v, seen, &count, a->sizes[i].name, a->sizes[i].span);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        check_name(v, seen, &count, a->tensors[i].name, a->tensors[i].span);
    for (uint32_t i = 0; i < a->param_count; i++)
        check_name(v, seen, &count, a->params[i].name, a->params[i].span);
    count = 0;
    check_name(v, seen, &count, a->name, a->span);
    if (!a->online) return;
    const AuOnline *o = a->online;
    const char **inner =
        AU_NEW_ARRAY(v->scratch, const char *, o->scale_count + o->final_count + 1);
    count = 0;
    for (uint32_t i = 0; i < o->scale_count; i++)
        check_name(v, inner, &count, o->scales[i].name, o->scales[i].span);
    count = 0; /* a final may have the name of a row scale */
    for (uint32_t i = 0; i < o->final_count; i++)
        check_name(v, inner, &count, o->finals[i].name, o->finals[i].span);
    check_name(v, seen, &(uint32_t){0}, o->name, o->span);
}

bool attn_verify(const AuAttn *a, AuDiags *diags)
{
    const uint32_t before = diags->errors;
    AuArena *scratch = diags->arena;
    Verifier v = {a, diags, scratch, AU_NEW_ARRAY(scratch, bool, a->node_count)};
    check_names(&v);
    check_parts(&v);
    AuRoot *roots;
    const uint32_t count = attn_roots(a, scratch, &roots);
    if (!check_nodes(&v, roots, count)) return false;
    if (diags->errors != before) return false; /* texts of places below rely on the parts */
    for (uint32_t i = 0; i < count; i++) check_root(&v, &roots[i]);
    return diags->errors == before;
}
