/* value.c - operations on values: types, promotion, nodes. Integers promote to f32 with f32; bool never to a number. */
#include "check.h"

#include <math.h>

const char *value_type_text(AuType type)
{
    switch (type) {
    case AU_T_NONE: return "nothing";
    case AU_T_F32: return "f32";
    case AU_T_I32: return "i32";
    case AU_T_BOOL: return "bool";
    }
    return "nothing";
}

AuValue value_of(AuCheck *c, AuExpr e)
{
    return (AuValue){e, (AuType)attn_at(c->a, e)->type, 0, {0}};
}

AuValue value_int(AuCheck *c, int32_t number, AuSpan span)
{
    return value_of(c, attn_i32(c->a, number, span));
}

AuValue value_float(AuCheck *c, double number, AuSpan span)
{
    return value_of(c, attn_f32(c->a, number, span));
}

AuValue value_index(AuCheck *c, uint8_t axis, AuSpan span)
{
    return value_of(c, attn_leaf(c->a, AU_OP_INDEX, AU_T_I32, axis, axis, 0, span));
}

/* Made of numbers alone. */
static bool is_constant(const AuCheck *c, AuExpr e)
{
    bool *mark = AU_NEW_ARRAY(c->arena, bool, c->a->node_count);
    attn_mark(c->a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &c->a->nodes[i];
        if (mark[i] && n->count == 0 && n->op != AU_OP_I32 && n->op != AU_OP_F32) return false;
    }
    return true;
}

bool value_constant(const AuCheck *c, AuValue v, int64_t *number)
{
    double value = 0;
    if (v.type != AU_T_I32 || !value_is_number(c, v, &value)) return false;
    if (!(value >= INT32_MIN && value <= INT32_MAX)) return false;
    *number = (int64_t)value;
    return true;
}

bool value_is_number(const AuCheck *c, AuValue v, double *number)
{
    if (v.type == AU_T_NONE || !is_constant(c, v.e)) return false;
    *number = attn_scalar(c->a, v.e, NULL, NULL);
    return true;
}

bool value_is_of_launch(const AuCheck *c, AuValue v)
{
    static const bool arithmetic[AU_OP_COUNT] = {
        [AU_OP_F32] = true, [AU_OP_I32] = true, [AU_OP_SIZE] = true,  [AU_OP_PARAM] = true,
        [AU_OP_ADD] = true, [AU_OP_SUB] = true, [AU_OP_MUL] = true,   [AU_OP_DIV] = true,
        [AU_OP_NEG] = true, [AU_OP_MIN] = true, [AU_OP_MAX] = true,   [AU_OP_TO_F32] = true,
        [AU_OP_LT] = true,  [AU_OP_LE] = true,  [AU_OP_WHERE] = true,
    };
    bool *mark = AU_NEW_ARRAY(c->arena, bool, c->a->node_count);
    attn_mark(c->a, v.e, mark);
    for (uint32_t i = 1; i <= v.e.i; i++)
        if (mark[i] && !arithmetic[c->a->nodes[i].op]) return false;
    return true;
}

AuValue value_number(AuCheck *c, AuValue v, AuSpan span, const char *what)
{
    if (v.type != AU_T_BOOL) return v;
    AuDiag *d = check_error(c, AU_E0301, span, "%s wants a number, found bool", what);
    au_add_note(c->diags, d, (AuSpan){0}, "where(c, a, b) chooses a number by a condition");
    return value_none();
}

AuValue value_to_f32(AuCheck *c, AuValue v, AuSpan span, const char *what)
{
    v = value_number(c, v, span, what);
    if (v.type != AU_T_I32) return v;
    if (v.flags & AU_V_QUOTIENT) {
        AuDiag *d =
            check_warning(c, AU_W0301, v.quotient,
                          "this quotient of two integers is rounded down before it becomes f32");
        au_add_note(
            c->diags, d, (AuSpan){0},
            "make an operand f32, as in -8.0 / H, or say f32(a / b) if rounding down is meant");
    }
    const AuNode n = *attn_at(c->a, v.e);
    const AuExpr e = n.op == AU_OP_I32 ? attn_f32(c->a, n.integer, n.span)
                                       : attn_op1(c->a, AU_OP_TO_F32, v.e, n.span);
    return (AuValue){e, AU_T_F32, v.flags & (uint8_t)~AU_V_QUOTIENT, {0}};
}

bool value_is_bool(AuCheck *c, AuValue v, AuSpan span, const char *what)
{
    if (v.type == AU_T_BOOL) return true;
    if (v.type == AU_T_NONE) return false;
    AuDiag *d = check_error(c, AU_E0310, span, "%s wants a condition, found %s", what,
                            value_type_text(v.type));
    au_add_note(c->diags, d, (AuSpan){0}, "compare it with something, as in x != 0");
    return false;
}

bool value_promote_pair(AuCheck *c, AuValue *x, AuValue *y, AuSpan span_x, AuSpan span_y,
                        const char *what)
{
    *x = value_number(c, *x, span_x, what);
    *y = value_number(c, *y, span_y, what);
    if (x->type == AU_T_NONE || y->type == AU_T_NONE) return false;
    if (x->type == y->type) return true;
    *x = value_to_f32(c, *x, span_x, what);
    *y = value_to_f32(c, *y, span_y, what);
    return true;
}

static AuValue with_flags(AuValue v, const AuValue *x, const AuValue *y)
{
    v.flags = x->flags | (y ? y->flags : 0);
    if (v.type != AU_T_I32) v.flags &= (uint8_t)~AU_V_QUOTIENT;
    v.quotient = x->flags & AU_V_QUOTIENT || !y ? x->quotient : y->quotient;
    return v;
}

AuValue value_unary(AuCheck *c, AuOp op, AuValue x, AuSpan span)
{
    if (x.type == AU_T_NONE) return x;
    const AuNode n = *attn_at(c->a, x.e);
    if (op == AU_OP_NEG && n.op == AU_OP_F32) return value_float(c, -n.number, span);
    if (op == AU_OP_NEG && n.op == AU_OP_I32 && n.integer != INT32_MIN)
        return value_int(c, -n.integer, span);
    return with_flags(value_of(c, attn_op1(c->a, op, x.e, span)), &x, NULL);
}

AuValue value_binary(AuCheck *c, AuOp op, AuValue x, AuValue y, AuSpan span)
{
    if (x.type == AU_T_NONE || y.type == AU_T_NONE) return value_none();
    return with_flags(value_of(c, attn_op2(c->a, op, x.e, y.e, span)), &x, &y);
}

AuValue value_where(AuCheck *c, AuValue cond, AuValue x, AuValue y, AuSpan span)
{
    if (cond.type == AU_T_NONE || x.type == AU_T_NONE || y.type == AU_T_NONE) return value_none();
    return with_flags(value_of(c, attn_where(c->a, cond.e, x.e, y.e, span)), &x, &y);
}
