/* read_expr.c - expressions of the text form: precedence climbing over infix.def.
 * Nesting is limited, so that no text overflows the stack. Types and axes are not checked here but
 * by attn_verify; only what would make a node that cannot exist (an unknown name, a wrong number
 * of arguments) is an error. */
#include "read.h"

#include "scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_ARGS = 16 };

/* ---- leaves */

static AuSpan span_from(const AuReader *r, uint32_t begin)
{
    return (AuSpan){r->source, begin, r->at};
}

static AuExpr read_number(AuReader *r, bool negative, uint32_t begin)
{
    attn_read_peek(r);
    AuScan s = {r->text, r->at, r->length};
    const AuNumber n = au_scan_number(&s);
    const char *digits = au_strndup(r->diags->arena, r->text + r->at, s.at - r->at);
    r->at = s.at;
    if (n.is_real) {
        if (!n.is_good) attn_read_error(r, AU_E0901, begin, "'%s' is not a number", digits);
        return attn_f32(r->a, negative ? -n.real : n.real, span_from(r, begin));
    }
    if (!n.is_good || n.integer > (negative ? 2147483648LL : 2147483647LL))
        attn_read_error(r, AU_E0905, begin, "the integer '%s' does not fit i32", digits);
    return attn_i32(r->a,
                    (int32_t)(r->failed  ? 0
                              : negative ? -n.integer
                                         : n.integer),
                    span_from(r, begin));
}

/* After `$`: a let, or what the place stands on. */
static AuExpr read_dollar(AuReader *r, uint32_t begin)
{
    static const struct {
        const char *word;
        AuOp op;
        AuType type;
        uint8_t axes;
        int32_t integer;
    } leaves[] = {
        {"score", AU_OP_SCORE, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0},
        {"p", AU_OP_WEIGHT, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0},
        {"dp", AU_OP_DWEIGHT, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0},
        {"c", AU_OP_INDEX, AU_T_I32, AU_AX_C, AU_AX_C},
        {"t", AU_OP_INDEX, AU_T_I32, AU_AX_TOK, AU_AX_TOK},
    };
    if (au_is_digit(attn_read_at(r, 0))) {
        int64_t n;
        if (!attn_read_int(r, &n)) return (AuExpr){0};
        if (n >= 1 && n <= r->let_count) return r->lets[n - 1];
        attn_read_error(r, AU_E0902, begin, "$%lld is not defined here", (long long)n);
        return (AuExpr){0};
    }
    if (attn_read_accept_word(r, "x"))
        return attn_leaf(r->a, AU_OP_ELEMENT, AU_T_F32, attn_element_axes(r->place), 0, 0,
                         span_from(r, begin));
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (attn_read_accept_word(r, leaves[i].word))
            return attn_leaf(r->a, leaves[i].op, leaves[i].type, leaves[i].axes, leaves[i].integer,
                             0, span_from(r, begin));
    attn_read_error(r, AU_E0902, begin,
                    "expected a number or one of score, p, dp, x, c, t after '$'");
    return (AuExpr){0};
}

static int32_t find_tensor(const AuReader *r, const char *name)
{
    for (uint32_t i = 0; i < r->a->tensor_count; i++)
        if (r->a->tensors[i].name == name) return (int32_t)i;
    return -1;
}

static int32_t find_param(const AuReader *r, const char *name)
{
    for (uint32_t i = 0; i < r->a->param_count; i++)
        if (r->a->params[i].name == name) return (int32_t)i;
    return -1;
}

/* `state.m`, `other.m`, `final.lse`. */
static AuExpr read_member(AuReader *r, const char *kind, uint32_t begin)
{
    const AuOnline *o = r->a->online;
    const char *name = attn_read_name(r);
    const bool is_final = strcmp(kind, "final") == 0;
    const AuOp op = is_final                     ? AU_OP_FINAL
                    : strcmp(kind, "state") == 0 ? AU_OP_STATE
                                                 : AU_OP_STATE_B;
    const uint32_t count = !o ? 0 : is_final ? o->final_count : o->scale_count;
    if (!name) return (AuExpr){0};
    for (uint32_t i = 0; i < count; i++)
        if ((is_final ? o->finals[i].name : o->scales[i].name) == name)
            return attn_leaf(r->a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, (int32_t)i, 0,
                             span_from(r, begin));
    attn_read_error(r, AU_E0902, begin, "unknown %s '%s'", is_final ? "final" : "row scale", name);
    return (AuExpr){0};
}

static AuExpr read_plain_name(AuReader *r, const char *name, uint32_t begin)
{
    static const struct {
        const char *word;
        uint8_t axis;
    } indices[] = {{"b", AU_AX_B}, {"h", AU_AX_H}, {"q_idx", AU_AX_Q}, {"kv_idx", AU_AX_KV}};
    AuAttn *a = r->a;
    const AuSpan span = span_from(r, begin);
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        if (strcmp(name, indices[i].word) == 0)
            return attn_leaf(a, AU_OP_INDEX, AU_T_I32, indices[i].axis, indices[i].axis, 0, span);
    if (strcmp(name, "kv_h") == 0) return attn_leaf(a, AU_OP_KV_H, AU_T_I32, AU_AX_H, 0, 0, span);
    if (strcmp(name, "true") == 0) return attn_bool(a, true, span);
    if (strcmp(name, "false") == 0) return attn_bool(a, false, span);
    if (strcmp(name, "inf") == 0) return attn_f32(a, INFINITY, span);
    if (strcmp(name, "nan") == 0) return attn_f32(a, NAN, span);
    const int32_t size = attn_size_of(a, name), param = find_param(r, name);
    if (size >= 0) return attn_leaf(a, AU_OP_SIZE, AU_T_I32, 0, size, 0, span);
    if (param >= 0)
        return attn_leaf(a, AU_OP_PARAM, attn_type_of(a->params[param].dtype), 0, param, 0, span);
    attn_read_error(r, AU_E0902, begin, "unknown name '%s'", name);
    return (AuExpr){0};
}

/* ---- calls and reads */

/* Arguments up to [close], at most MAX_ARGS in all with the [count] there are. */
static uint32_t read_args(AuReader *r, const char *close, AuExpr *args, uint32_t count)
{
    if (attn_read_accept(r, close)) return count;
    do {
        const uint32_t begin = r->at;
        const AuExpr e = attn_read_expr(r);
        if (r->failed) return count;
        if (count == MAX_ARGS) {
            attn_read_error(r, AU_E0903, begin, "more than %d arguments", MAX_ARGS);
            return count;
        }
        args[count++] = e;
    } while (attn_read_accept(r, ","));
    attn_read_expect(r, close);
    return count;
}

/* `name[indices]` of a dot product: appends its indices, which leave the last axis out. */
static int32_t read_dot_side(AuReader *r, AuExpr *args, uint32_t *count)
{
    const char *name = attn_read_name(r);
    const uint32_t begin = r->at;
    const int32_t tensor = name ? find_tensor(r, name) : -1;
    if (tensor < 0) {
        if (name) attn_read_error(r, AU_E0902, begin, "unknown tensor '%s'", name);
        return -1;
    }
    if (!attn_read_expect(r, "[")) return -1;
    const uint32_t before = *count;
    *count = read_args(r, "]", args, before);
    if (*count - before + 1 != r->a->tensors[tensor].rank)
        attn_read_error(r, AU_E0903, begin,
                        "'%s' has %u axes, of which dot takes all but the last, found %u", name,
                        r->a->tensors[tensor].rank, *count - before);
    return tensor;
}

static AuExpr read_dot(AuReader *r, uint32_t begin)
{
    AuExpr args[MAX_ARGS];
    uint32_t count = 0;
    const int32_t x = read_dot_side(r, args, &count);
    if (r->failed || !attn_read_expect(r, ",")) return (AuExpr){0};
    const int32_t y = read_dot_side(r, args, &count);
    if (r->failed || !attn_read_expect(r, ")")) return (AuExpr){0};
    return attn_node(r->a, AU_OP_DOT, args, count, x, y, span_from(r, begin));
}

static AuExpr read_seed_word(AuReader *r, uint32_t begin)
{
    int64_t word;
    if (!attn_read_int(r, &word) || !attn_read_expect(r, ",")) return (AuExpr){0};
    const char *name = attn_read_name(r);
    if (!name) return (AuExpr){0};
    const bool is_tensor = attn_read_accept(r, "[");
    const int32_t index = is_tensor ? find_tensor(r, name) : find_param(r, name);
    if (is_tensor) attn_read_expect(r, "]");
    attn_read_expect(r, ")");
    if (index < 0) attn_read_error(r, AU_E0902, begin, "unknown seed '%s'", name);
    if (word != 0 && word != 1)
        attn_read_error(r, AU_E0903, begin, "expected word 0 or 1 of the seed");
    if (r->failed) return (AuExpr){0};
    return attn_leaf(r->a, AU_OP_SEED_WORD, AU_T_I32, 0, (int32_t)word, is_tensor ? ~index : index,
                     span_from(r, begin));
}

/* Ops that are written as calls, the table's among them. */
static AuOp find_function(const char *name, uint32_t *count)
{
    static const struct {
        const char *name;
        AuOp op;
        uint32_t count;
    } leaves[] = {{"rowmax", AU_OP_ROWMAX, 1},         {"rowsum", AU_OP_ROWSUM, 1},
                  {"channel_sum", AU_OP_ROW_SUM_C, 1}, {"rope", AU_OP_ROPE, 5},
                  {"rope_interleaved", AU_OP_ROPE, 5}, {"dropout", AU_OP_DROPOUT, 4}};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        if (strcmp(leaves[i].name, name) != 0) continue;
        *count = leaves[i].count;
        return leaves[i].op;
    }
    for (AuOp op = AU_NO_OP + 1; op < AU_OP_COUNT; op++) {
        const AuOpInfo *info = attn_op_info(op);
        if (info->rule == AU_RULE_LEAF || strcmp(info->text, name) != 0) continue;
        *count = info->count;
        return op;
    }
    return AU_NO_OP;
}

static AuExpr read_call(AuReader *r, const char *name, uint32_t begin)
{
    if (strcmp(name, "dot") == 0) return read_dot(r, begin);
    if (strcmp(name, "seed_word") == 0) return read_seed_word(r, begin);
    AuExpr args[MAX_ARGS];
    uint32_t wanted = 0;
    const AuOp op = find_function(name, &wanted);
    if (op == AU_NO_OP) attn_read_error(r, AU_E0902, begin, "unknown function '%s'", name);
    if (r->failed) return (AuExpr){0};
    const uint32_t count = read_args(r, ")", args, 0);
    if (!r->failed && count != wanted)
        attn_read_error(r, AU_E0903, begin, "'%s' takes %u arguments, found %u", name, wanted,
                        count);
    if (r->failed) return (AuExpr){0};
    return attn_node(r->a, op, args, count, strcmp(name, "rope_interleaved") == 0, 0,
                     span_from(r, begin));
}

static AuExpr read_input(AuReader *r, const char *name, uint32_t begin)
{
    AuExpr args[MAX_ARGS];
    const int32_t tensor = find_tensor(r, name);
    if (tensor < 0) attn_read_error(r, AU_E0902, begin, "unknown tensor '%s'", name);
    if (r->failed) return (AuExpr){0};
    const uint32_t count = read_args(r, "]", args, 0), rank = r->a->tensors[tensor].rank;
    if (!r->failed && count != rank)
        attn_read_error(r, AU_E0903, begin, "'%s' has %u axes, found %u indices", name, rank,
                        count);
    if (r->failed) return (AuExpr){0};
    return attn_node(r->a, AU_OP_INPUT, args, count, tensor, 0, span_from(r, begin));
}

/* `gate{b, h, t}` of a recurrence. */
static AuExpr read_tensor(AuReader *r, const char *name, uint32_t begin)
{
    static const struct {
        const char *word;
        uint8_t axis;
    } letters[] = {
        {"b", AU_AX_B}, {"h", AU_AX_H}, {"t", AU_AX_TOK}, {"k", AU_AX_K}, {"v", AU_AX_V}};
    const int32_t tensor = find_tensor(r, name);
    uint8_t axes = 0;
    if (tensor < 0) attn_read_error(r, AU_E0902, begin, "unknown tensor '%s'", name);
    while (!r->failed && !attn_read_accept(r, "}")) {
        const uint8_t before = axes;
        for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
            if (attn_read_accept_word(r, letters[i].word)) axes |= letters[i].axis;
        if (axes == before)
            attn_read_error(r, AU_E0902, r->at, "expected an axis: b, h, t, k or v, once each");
        else
            attn_read_accept(r, ",");
    }
    if (r->failed) return (AuExpr){0};
    return attn_leaf(r->a, AU_OP_TENSOR, attn_type_of(r->a->tensors[tensor].dtype), axes, tensor, 0,
                     span_from(r, begin));
}

/* ---- operators */

static AuExpr read_word(AuReader *r, uint32_t begin)
{
    const char *name = attn_read_name(r);
    if (!name) return (AuExpr){0};
    if (attn_read_accept(r, "(")) return read_call(r, name, begin);
    if (attn_read_accept(r, "[")) return read_input(r, name, begin);
    if (attn_read_accept(r, "{")) return read_tensor(r, name, begin);
    if (attn_read_accept(r, ".")) {
        if (strcmp(name, "state") == 0 || strcmp(name, "other") == 0 || strcmp(name, "final") == 0)
            return read_member(r, name, begin);
        attn_read_error(r, AU_E0902, begin, "expected state, other or final before '.', found '%s'",
                        name);
        return (AuExpr){0};
    }
    return read_plain_name(r, name, begin);
}

static AuExpr read_size_number(AuReader *r, uint32_t begin)
{
    int64_t n;
    if (!attn_read_int(r, &n)) return (AuExpr){0};
    if (n < 0 || n >= r->a->size_count)
        attn_read_error(r, AU_E0902, begin, "there is no size #%lld", (long long)n);
    if (r->failed) return (AuExpr){0};
    return attn_leaf(r->a, AU_OP_SIZE, AU_T_I32, 0, (int32_t)n, 0, span_from(r, begin));
}

static AuExpr read_binary(AuReader *r, int least);

/* `-` makes a negative number of a number, else it is an operation. */
static AuExpr read_minus(AuReader *r, uint32_t begin)
{
    if (au_is_digit(attn_read_peek(r))) return read_number(r, true, begin);
    if (attn_read_accept_word(r, "inf")) return attn_f32(r->a, -INFINITY, span_from(r, begin));
    const AuExpr x = read_binary(r, 11);
    return r->failed ? x : attn_op1(r->a, AU_OP_NEG, x, span_from(r, begin));
}

static AuExpr read_prefix(AuReader *r)
{
    const char c = attn_read_peek(r);
    const uint32_t begin = r->at;
    if (au_is_digit(c)) return read_number(r, false, begin);
    if (au_is_letter(c)) return read_word(r, begin);
    if (attn_read_accept(r, "$")) return read_dollar(r, begin);
    if (attn_read_accept(r, "#")) return read_size_number(r, begin);
    if (attn_read_accept(r, "-")) return read_minus(r, begin);
    if (attn_read_accept(r, "(")) {
        const AuExpr e = read_binary(r, 1);
        attn_read_expect(r, ")");
        return e;
    }
    const AuOp op = attn_read_accept(r, "!")   ? AU_OP_NOT
                    : attn_read_accept(r, "~") ? AU_OP_BNOT
                                               : AU_NO_OP;
    if (op == AU_NO_OP) {
        attn_read_error(r, AU_E0901, begin, "expected an expression, found %s", attn_read_found(r));
        return (AuExpr){0};
    }
    const AuExpr x = read_binary(r, 11);
    return r->failed ? x : attn_op1(r->a, op, x, span_from(r, begin));
}

/* The operator that comes next, if it binds at least so tightly. The first symbol that fits is the
 * longest. */
static AuOp accept_infix(AuReader *r, int least, AuType left, int *precedence)
{
    const uint32_t begin = r->at;
    AuOp op = AU_NO_OP;
#define INFIX(NAME, symbol, level)                                                                 \
    if (op == AU_NO_OP && (AU_OP_##NAME != AU_OP_DIV || left != AU_T_I32) &&                       \
        attn_read_accept(r, symbol)) {                                                             \
        op = AU_OP_##NAME;                                                                         \
        *precedence = level;                                                                       \
    }
#include "infix.def"
#undef INFIX
    if (op == AU_NO_OP || *precedence >= least) return op;
    r->at = begin;
    return AU_NO_OP;
}

static AuExpr read_binary(AuReader *r, int least)
{
    if (r->depth >= MAX_DEPTH) {
        attn_read_error(r, AU_E0904, r->at, "expressions are nested deeper than %d", MAX_DEPTH);
        return (AuExpr){0};
    }
    r->depth++;
    const uint32_t begin = r->at;
    AuExpr x = read_prefix(r);
    while (!r->failed) {
        int precedence = 0;
        const AuOp op = accept_infix(r, least, (AuType)attn_at(r->a, x)->type, &precedence);
        if (op == AU_NO_OP) break;
        const AuExpr y = read_binary(r, precedence + 1);
        if (!r->failed) x = attn_op2(r->a, op, x, y, span_from(r, begin));
    }
    r->depth--;
    return r->failed ? (AuExpr){0} : x;
}

AuExpr attn_read_expr(AuReader *r) { return read_binary(r, 1); }
