/* expr.c - expressions: operators, and the limits that keep evaluation bounded. Names are in names.c, indices in index.c, calls
 * in call.c. */
#include "check.h"

#include <string.h>

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
                check_size_name(c, check_axis(c, AU_ROLE_K, 2)),
                check_size_name(c, check_axis(c, AU_ROLE_Q, 2)));
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
                    ast_op_text(e->op), value_type_text(x.type), value_type_text(y.type));
    if (x.type == AU_T_BOOL && y.type == AU_T_BOOL)
        au_add_note(c->diags, d, (AuSpan){0}, "conditions are joined with && and ||");
    else if (e->op == AU_AST_BXOR)
        au_add_note(c->diags, d, (AuSpan){0}, "pow(x, y) is the power");
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
                    value_type_text(x.type));
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
    case AU_AST_NAME: return check_name(c, e);
    case AU_AST_FIELD: return check_field(c, e);
    case AU_AST_UNARY: return unary(c, e);
    case AU_AST_BINARY: return binary(c, e);
    case AU_AST_CALL: return check_call(c, e);
    case AU_AST_INDEX: return check_index(c, e);
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

bool check_spend(AuCheck *c, AuSpan span)
{
    if (!c->gave_up && ++c->steps > AU_MOST_STEPS) {
        check_error(c, AU_E0112, span,
                    "this script has more than %d operations when its functions are inlined",
                    AU_MOST_STEPS);
        c->gave_up = true;
    }
    return !c->gave_up;
}

AuValue check_expr(AuCheck *c, const AuAst *e)
{
    if (!check_spend(c, e->span)) return value_none();
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
