/* build.c - makes nodes of the attention IR: type, axes, hash-consing; substitution; the op table.
 * Equal expressions become one node, whose arguments have smaller indices. Nothing is folded or
 * reordered here (simplify.c), and nothing is refused: a node whose arguments have wrong types is
 * built with the type that its rule gives, for attn_verify to report with the place. */
#include "attn.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

AuAttn *attn_new(AuArena *arena, const char *name)
{
    AuAttn *a = AU_NEW(arena, AuAttn);
    a->arena = arena;
    a->name = name;
    a->table_size = 64;
    a->table = AU_NEW_ARRAY(arena, uint32_t, a->table_size);
    AU_PUSH(arena, a->nodes, a->node_count, a->node_capacity, (AuNode){0});
    return a;
}

const AuOpInfo *attn_op_info(AuOp op)
{
    // clang-format off
    static const AuOpInfo infos[AU_OP_COUNT] = {
        [AU_NO_OP] = {"none", 0, 0, AU_RULE_LEAF},
#define LEAF(NAME, text) [AU_OP_##NAME] = {text, 0, 0, AU_RULE_LEAF},
        LEAF(F32, "f32")            LEAF(I32, "i32")            LEAF(SIZE, "size")
        LEAF(INDEX, "index")        LEAF(KV_H, "kv_h")          LEAF(PARAM, "param")
        LEAF(INPUT, "input")        LEAF(SCORE, "score")        LEAF(WEIGHT, "weight")
        LEAF(DWEIGHT, "dweight")    LEAF(ELEMENT, "element")    LEAF(STATE, "state")
        LEAF(STATE_B, "state_b")    LEAF(FINAL, "final")        LEAF(TENSOR, "tensor")
        LEAF(ROWMAX, "rowmax")      LEAF(ROWSUM, "rowsum")      LEAF(ROW_SUM_C, "channel_sum")
        LEAF(DOT, "dot")            LEAF(ROPE, "rope")          LEAF(DROPOUT, "dropout")
        LEAF(SEED_WORD, "seed_word")
        LEAF(DELTA, "delta")        LEAF(DFINAL, "dfinal")      LEAF(ADJOINT, "adjoint")
        LEAF(PASS, "pass")          LEAF(DELEMENT, "delement")
#undef LEAF
#define OP(NAME, text, count, rule, flags, meaning)                                                \
        [AU_OP_##NAME] = {text, count, AU_OPFLAG_##flags, AU_RULE_##rule},
#include "ops.def"
#undef OP
    };
    // clang-format on
    return &infos[op];
}

AuType attn_type_of(AuDtype dtype)
{
    switch (dtype) {
    case AU_DT_OPERAND:
    case AU_DT_F32:
    case AU_DT_F16:
    case AU_DT_BF16: return AU_T_F32;
    case AU_DT_I32:
    case AU_DT_I64:
    case AU_DT_U8: return AU_T_I32;
    case AU_DT_BOOL: return AU_T_BOOL;
    }
    return AU_T_NONE;
}

/* ---- hash-consing */

static uint32_t mix(uint32_t h, uint64_t value)
{
    value = (value ^ h) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(value >> 32);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t hash_node(const AuNode *n, const AuExpr *args)
{
    uint32_t h = mix(n->op, (uint64_t)n->type << 8 | n->axes);
    h = mix(h, (uint64_t)(uint32_t)n->integer << 32 | (uint32_t)n->integer2);
    h = mix(h, bits_of(n->number));
    for (uint32_t i = 0; i < n->count; i++) h = mix(h, args[i].i);
    return h;
}

static bool same_node(const AuAttn *a, const AuNode *x, const AuNode *n, const AuExpr *args)
{
    if (x->op != n->op || x->type != n->type || x->axes != n->axes || x->count != n->count)
        return false;
    if (x->integer != n->integer || x->integer2 != n->integer2) return false;
    if (bits_of(x->number) != bits_of(n->number)) return false; /* -0 is not 0 */
    return n->count == 0 || memcmp(&a->args[x->first], args, n->count * sizeof *args) == 0;
}

static void insert(uint32_t *table, uint32_t size, uint32_t h, uint32_t node)
{
    while (table[h & (size - 1)]) h++;
    table[h & (size - 1)] = node;
}

static void enlarge_table(AuAttn *a)
{
    a->table_size *= 2;
    a->table = AU_NEW_ARRAY(a->arena, uint32_t, a->table_size);
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        insert(a->table, a->table_size, hash_node(n, a->args + n->first), i);
    }
}

/* The node equal to [n] with these arguments, none if there is none. */
static AuExpr lookup(const AuAttn *a, const AuNode *n, const AuExpr *args, uint32_t h)
{
    for (uint32_t i = h;; i++) {
        const uint32_t found = a->table[i & (a->table_size - 1)];
        if (!found || same_node(a, &a->nodes[found], n, args)) return (AuExpr){found};
    }
}

/* The same, made if there is none. [args] may point into a->args. */
static AuExpr intern(AuAttn *a, AuNode n, const AuExpr *args)
{
    const uint32_t h = hash_node(&n, args);
    const AuExpr found = lookup(a, &n, args, h);
    if (found.i) return found;
    const AuExpr e = {a->node_count};
    n.first = a->arg_count;
    for (uint32_t i = 0; i < n.count; i++)
        AU_PUSH(a->arena, a->args, a->arg_count, a->arg_capacity, args[i]);
    AU_PUSH(a->arena, a->nodes, a->node_count, a->node_capacity, n);
    if (a->node_count * 2 > a->table_size)
        enlarge_table(a);
    else
        insert(a->table, a->table_size, h, e.i);
    return e;
}

/* ---- types and axes */

static AuType type_of_node(const AuAttn *a, AuOp op, const AuExpr *args, uint32_t count,
                           int32_t integer)
{
    switch ((AuTypeRule)attn_op_info(op)->rule) {
    case AU_RULE_T_F32: return AU_T_F32;
    case AU_RULE_T_I32: return AU_T_I32;
    case AU_RULE_T_BOOL:
    case AU_RULE_T_CMP: return AU_T_BOOL;
    case AU_RULE_T_NUM: return count ? attn_at(a, args[0])->type : AU_T_NONE;
    case AU_RULE_T_WHERE: return count > 1 ? attn_at(a, args[1])->type : AU_T_NONE;
    case AU_RULE_T_CAST: return op == AU_OP_TO_F32 ? AU_T_F32 : AU_T_I32;
    case AU_RULE_LEAF: break;
    }
    if (op != AU_OP_INPUT) return op == AU_OP_SEED_WORD ? AU_T_I32 : AU_T_F32;
    if (integer < 0 || (uint32_t)integer >= a->tensor_count) return AU_T_NONE;
    return attn_type_of(a->tensors[integer].dtype);
}

static uint8_t axes_of_node(const AuAttn *a, AuOp op, const AuExpr *args, uint32_t count)
{
    uint8_t axes = 0;
    for (uint32_t i = 0; i < count; i++) axes |= attn_at(a, args[i])->axes;
    if (op == AU_OP_ROWMAX || op == AU_OP_ROWSUM) axes &= (uint8_t)~AU_AX_KV;
    if (op == AU_OP_ROW_SUM_C) axes &= (uint8_t) ~(AU_AX_C | AU_AX_K | AU_AX_V);
    if (op == AU_OP_ROPE && !(axes & (AU_AX_K | AU_AX_V))) axes |= AU_AX_C; /* not in `linear` */
    if (op == AU_OP_DROPOUT) axes |= AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV;
    return axes;
}

AuExpr attn_f32(AuAttn *a, double value, AuSpan span)
{
    if (value != value) value = NAN; /* one nan, so that equal constants are equal in bits */
    return intern(a, (AuNode){.op = AU_OP_F32, .type = AU_T_F32, .number = value, .span = span},
                  NULL);
}

AuExpr attn_i32(AuAttn *a, int32_t value, AuSpan span)
{
    return attn_leaf(a, AU_OP_I32, AU_T_I32, 0, value, 0, span);
}

AuExpr attn_bool(AuAttn *a, bool value, AuSpan span)
{
    return attn_leaf(a, AU_OP_I32, AU_T_BOOL, 0, value, 0, span);
}

AuExpr attn_leaf(AuAttn *a, AuOp op, AuType type, uint8_t axes, int32_t integer, int32_t integer2,
                 AuSpan span)
{
    const AuNode n = {.op = (uint8_t)op,
                      .type = (uint8_t)type,
                      .axes = axes,
                      .integer = integer,
                      .integer2 = integer2,
                      .span = span};
    return intern(a, n, NULL);
}

static AuNode describe(const AuAttn *a, AuOp op, const AuExpr *args, uint32_t count,
                       int32_t integer, int32_t integer2, AuSpan span)
{
    return (AuNode){.op = (uint8_t)op,
                    .type = (uint8_t)type_of_node(a, op, args, count, integer),
                    .axes = axes_of_node(a, op, args, count),
                    .count = (uint8_t)count,
                    .integer = integer,
                    .integer2 = integer2,
                    .span = span};
}

AuExpr attn_node(AuAttn *a, AuOp op, const AuExpr *args, uint32_t count, int32_t integer,
                 int32_t integer2, AuSpan span)
{
    return intern(a, describe(a, op, args, count, integer, integer2, span), args);
}

AuExpr attn_find(const AuAttn *a, AuOp op, AuExpr x, AuExpr y)
{
    const AuExpr args[] = {x, y};
    const AuNode n = describe(a, op, args, 2, 0, 0, (AuSpan){0});
    return lookup(a, &n, args, hash_node(&n, args));
}

AuExpr attn_op1(AuAttn *a, AuOp op, AuExpr x, AuSpan span)
{
    return attn_node(a, op, &x, 1, 0, 0, span);
}

AuExpr attn_op2(AuAttn *a, AuOp op, AuExpr x, AuExpr y, AuSpan span)
{
    return attn_node(a, op, (AuExpr[]){x, y}, 2, 0, 0, span);
}

AuExpr attn_where(AuAttn *a, AuExpr c, AuExpr x, AuExpr y, AuSpan span)
{
    return attn_node(a, AU_OP_WHERE, (AuExpr[]){c, x, y}, 3, 0, 0, span);
}

/* ---- walking and substitution: arguments come first in index order, so nothing recurses */

void attn_mark(const AuAttn *a, AuExpr e, bool *mark)
{
    if (!e.i) return;
    mark[e.i] = true;
    for (uint32_t i = e.i; i > 0; i--) {
        if (!mark[i]) continue;
        const AuNode *n = &a->nodes[i];
        for (uint32_t k = 0; k < n->count; k++) mark[a->args[n->first + k].i] = true;
    }
}

bool attn_has_marked(const AuAttn *a, const bool *mark, AuOp op)
{
    for (uint32_t i = 1; i < a->node_count; i++)
        if (mark[i] && a->nodes[i].op == op) return true;
    return false;
}

bool attn_has_op(const AuAttn *a, AuExpr e, AuOp op)
{
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    attn_mark(a, e, mark);
    return attn_has_marked(a, mark, op);
}

AuExpr attn_substitute(AuAttn *a, AuExpr e, AuReplace replace, void *user)
{
    if (!e.i) return e;
    AuArena *scratch = a->arena;
    const uint32_t count = e.i + 1;
    bool *mark = AU_NEW_ARRAY(scratch, bool, count);
    AuExpr *copy = AU_NEW_ARRAY(scratch, AuExpr, count);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i < count; i++) {
        if (!mark[i]) continue;
        const AuNode n = a->nodes[i];
        copy[i] = (AuExpr){i};
        if (n.count == 0) {
            const AuExpr other = replace(user, a, copy[i]);
            if (other.i) copy[i] = other;
            continue;
        }
        AuExpr args[UINT8_MAX];
        bool changed = false;
        for (uint32_t k = 0; k < n.count; k++) {
            const AuExpr old = a->args[n.first + k];
            args[k] = copy[old.i];
            changed |= args[k].i != old.i;
        }
        if (changed)
            copy[i] = attn_node(a, (AuOp)n.op, args, n.count, n.integer, n.integer2, n.span);
    }
    return copy[e.i];
}

AuExpr attn_with_args(AuAttn *a, AuExpr node, const AuExpr *args)
{
    const AuNode n = a->nodes[node.i];
    return n.count ? attn_node(a, (AuOp)n.op, args, n.count, n.integer, n.integer2, n.span) : node;
}

AuExpr attn_remake(AuAttn *a, AuExpr e, AuMake make, void *user)
{
    if (!e.i) return e;
    bool *mark = AU_NEW_ARRAY(a->arena, bool, e.i + 1);
    AuExpr *made = AU_NEW_ARRAY(a->arena, AuExpr, e.i + 1);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        AuExpr args[UINT8_MAX];
        if (!mark[i]) continue;
        for (uint32_t k = 0; k < a->nodes[i].count; k++)
            args[k] = made[attn_arg(a, (AuExpr){i}, k).i];
        made[i] = make(user, a, (AuExpr){i}, args);
    }
    return made[e.i];
}

/* ---- declarations */

bool attn_is_name(const char *text)
{
    if (!text || !(isalpha((unsigned char)*text) || *text == '_')) return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return *text == 0;
}

int32_t attn_size_of(const AuAttn *a, const char *name)
{
    for (uint32_t i = 0; i < a->size_count; i++)
        if (a->sizes[i].name && strcmp(a->sizes[i].name, name) == 0) return (int32_t)i;
    return -1;
}

uint32_t attn_add_size(AuAttn *a, const char *name, int64_t fixed, AuSpan span)
{
    const AuSize size = {name, fixed, span};
    AU_PUSH(a->arena, a->sizes, a->size_count, a->size_capacity, size);
    return a->size_count - 1;
}

uint32_t attn_add_tensor(AuAttn *a, AuTensor tensor)
{
    AU_PUSH(a->arena, a->tensors, a->tensor_count, a->tensor_capacity, tensor);
    return a->tensor_count - 1;
}

uint32_t attn_add_param(AuAttn *a, AuParam param)
{
    AU_PUSH(a->arena, a->params, a->param_count, a->param_capacity, param);
    return a->param_count - 1;
}

void attn_add_require(AuAttn *a, AuRequire require)
{
    AU_PUSH(a->arena, a->requires, a->require_count, a->require_capacity, require);
}

AuExpr attn_heads(AuAttn *a)
{
    AuExpr most = a->tensors[0].axes[1];
    for (uint32_t n = 1; a->linear && n < 3; n++) {
        const AuExpr own = a->tensors[n].axes[1];
        if (own.i && own.i != most.i && own.i != a->tensors[0].axes[1].i)
            most = attn_op2(a, AU_OP_MAX, most, own, a->tensors[n].span);
    }
    /* Of numbers it is a number: who shares heads is known then. */
    return a->linear ? attn_simplify_expr(a, most) : most;
}
