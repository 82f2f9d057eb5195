/* read_expr.c - expressions, views and types of the text form, by precedence climbing. */
#include "reader.h"

#include <math.h>
#include <string.h>

AuTileExpr *new_expr(Reader *r, AuTileOp op, uint32_t begin)
{
    AuTileExpr *e = AU_NEW(r->arena, AuTileExpr);
    e->op = op;
    e->span = span_from(r, begin);
    return e;
}

static void add_arg(Reader *r, AuTileExpr *e, AuTileExpr *arg)
{
    AU_PUSH(r->arena, e->args.at, e->args.count, e->args.capacity, arg);
}

static AuTileExpr *with_args(Reader *r, AuTileOp op, uint32_t begin, AuTileExpr *a, AuTileExpr *b)
{
    AuTileExpr *e = new_expr(r, op, begin);
    add_arg(r, e, a);
    if (b) add_arg(r, e, b);
    return e;
}

/* ---- leaves and calls */

static AuTileExpr *read_number(Reader *r)
{
    const Token *t = token(r);
    r->at++;
    AuTileExpr *e = new_expr(r, t->kind == TOKEN_INT ? TILE_X_INT : TILE_X_FLOAT, t->begin);
    e->integer = t->integer, e->number = t->number;
    return e;
}

/* Names that are numbers. */
static AuTileExpr *literal(Reader *r, const char *name, uint32_t begin)
{
    const bool is_true = strcmp(name, "true") == 0, is_nan = strcmp(name, "nan") == 0;
    if (is_true || strcmp(name, "false") == 0) {
        AuTileExpr *e = new_expr(r, TILE_X_BOOL, begin);
        e->integer = is_true;
        return e;
    }
    if (!is_nan && strcmp(name, "inf") != 0) return NULL;
    AuTileExpr *e = new_expr(r, TILE_X_FLOAT, begin);
    e->number = is_nan ? (double)NAN : (double)INFINITY;
    return e;
}

static AuTileExpr *read_iota(Reader *r, uint32_t begin)
{
    const AuTileAxis axis = read_axis(r);
    expect(r, ")");
    AuTileExpr *e = with_args(r, TILE_X_IOTA, begin, axis.extent, NULL);
    e->name = axis.name;
    return e;
}

/* first(keys), count(keys), next(n) */
static AuTileExpr *read_list_question(Reader *r, AuTileOp op, uint32_t begin)
{
    const char *name = take_name(r);
    expect(r, ")");
    AuTileExpr *e = new_expr(r, op, begin);
    e->name = name;
    return e;
}

static bool names_axes(AuTileOp op)
{
    return op == TILE_X_REDUCE_MAX || op == TILE_X_REDUCE_MAXNAN || op == TILE_X_REDUCE_TOP ||
           op == TILE_X_REDUCE_SUM || op == TILE_X_CUMSUM;
}

/* The operation of that name, or CALL: a hook. */
static AuTileOp function_named(const char *name)
{
    for (uint32_t op = 0; op < TILE_OP_COUNT; op++) {
        const bool special =
            op == TILE_X_IOTA || op == TILE_X_FIRST || op == TILE_X_COUNT || op == TILE_X_NEXT;
        if ((tile_op((AuTileOp)op)->syntax == TILE_SYNTAX_FN || special) &&
            strcmp(tile_op((AuTileOp)op)->text, name) == 0)
            return (AuTileOp)op;
    }
    return TILE_X_CALL;
}

/* min(a, b, c) is min(a, min(b, c)). */
static AuTileExpr *nested(Reader *r, AuTileOp op, uint32_t begin, const AuTileExprs *args)
{
    AuTileExpr *e = args->at[args->count - 1];
    for (uint32_t i = args->count - 1; i-- > 0;) e = with_args(r, op, begin, args->at[i], e);
    return e;
}

static AuTileExpr *read_call(Reader *r, const char *name, uint32_t begin)
{
    const AuTileOp op = function_named(name);
    if (op == TILE_X_IOTA) return read_iota(r, begin);
    if (tile_op(op)->syntax == TILE_SYNTAX_SPECIAL && op != TILE_X_CALL)
        return read_list_question(r, op, begin);
    AuTileExpr *e = new_expr(r, op, begin);
    while (!is(r, ")") && !r->failed) {
        if (names_axes(op) && e->args.count) {
            const char *axis = take_name(r);
            AU_PUSH(r->arena, e->names.at, e->names.count, e->names.capacity, axis);
        } else {
            add_arg(r, e, read_expr(r));
        }
        if (!accept(r, ",")) break;
    }
    expect(r, ")");
    e->span = span_from(r, begin);
    if (op == TILE_X_CALL) e->name = name;
    if ((op == TILE_X_MIN || op == TILE_X_MAX) && e->args.count > 2)
        return nested(r, op, begin, &e->args);
    const bool lacks_axes = names_axes(op) && !e->names.count;
    const int wanted = tile_op(op)->arguments;
    if (!r->failed && (lacks_axes || (wanted >= 0 && e->args.count != (uint32_t)wanted))) {
        au_error(r->diags, AU_E0703, e->span, "%s takes %d argument%s%s, found %u", name, wanted,
                 wanted == 1 ? "" : "s", names_axes(op) ? " and names of axes" : "", e->args.count);
        r->failed = true;
        r->at = r->count - 1;
    }
    return e;
}

/* ---- views */

static AuTileExpr *read_index(Reader *r)
{
    const uint32_t begin = token(r)->begin;
    if (accept(r, ":")) return new_expr(r, TILE_X_ALL, begin);
    AuTileExpr *low = read_expr(r);
    if (!accept(r, "+:")) return low;
    AuTileExpr *span = with_args(r, TILE_X_SPAN, begin, low, read_expr(r));
    if (accept(r, "from")) {
        add_arg(r, span, read_expr(r));
        expect(r, "to");
        add_arg(r, span, read_expr(r));
        span->span = span_from(r, begin);
    }
    return span;
}

/* After the first name: .field [indices] as [names]. A name alone stays a NAME. */
static AuTileExpr *read_rest_of_ref(Reader *r, const char *name, uint32_t begin)
{
    AuTileExpr *e = new_expr(r, TILE_X_NAME, begin);
    e->name = name;
    if (accept(r, ".")) {
        e->op = TILE_X_REF;
        e->field = take_name(r);
    }
    if (accept(r, "[")) {
        e->op = TILE_X_REF;
        e->has_index = true;
        while (!is(r, "]") && !r->failed) {
            add_arg(r, e, read_index(r));
            if (!accept(r, ",")) break;
        }
        expect(r, "]");
    }
    if (is(r, "as") && is_second(r, "[")) {
        e->op = TILE_X_REF;
        expect(r, "as");
        expect(r, "[");
        do {
            const char *axis = take_name(r);
            AU_PUSH(r->arena, e->names.at, e->names.count, e->names.capacity, axis);
        } while (accept(r, ","));
        expect(r, "]");
    }
    e->span = span_from(r, begin);
    return e;
}

AuTileExpr *read_ref(Reader *r)
{
    const uint32_t begin = token(r)->begin;
    AuTileExpr *e = read_rest_of_ref(r, take_name(r), begin);
    e->op = TILE_X_REF;
    return e;
}

/* ---- operators */

static AuTileExpr *read_parenthesis(Reader *r, uint32_t begin)
{
    AuTileExpr *tuple = new_expr(r, TILE_X_TUPLE, begin);
    do add_arg(r, tuple, read_expr(r));
    while (accept(r, ",") && !r->failed);
    expect(r, ")");
    tuple->span = span_from(r, begin);
    return tuple->args.count == 1 ? tuple->args.at[0] : tuple;
}

/* A minus before a number belongs to the number, so that printing and reading agree on -1. */
static AuTileExpr *prefixed(Reader *r, AuTileOp op, uint32_t begin, AuTileExpr *arg)
{
    if (op != TILE_X_NEG || (arg->op != TILE_X_INT && arg->op != TILE_X_FLOAT))
        return with_args(r, op, begin, arg, NULL);
    arg->integer = -arg->integer;
    arg->number = -arg->number;
    arg->span = span_from(r, begin);
    return arg;
}

static AuTileExpr *read_unary(Reader *r)
{
    const uint32_t begin = token(r)->begin;
    AuTileExpr *e = new_expr(r, TILE_X_INT, begin);
    if (!enter(r)) return e;
    static const AuTileOp prefixes[] = {TILE_X_NEG, TILE_X_NOT, TILE_X_BNOT};
    uint32_t p = 0;
    while (p < 3 && !is(r, tile_op(prefixes[p])->text)) p++;
    if (p < 3) {
        r->at++;
        e = prefixed(r, prefixes[p], begin, read_unary(r));
    } else if (accept(r, "(")) {
        e = read_parenthesis(r, begin);
    } else if (token(r)->kind == TOKEN_INT || token(r)->kind == TOKEN_FLOAT) {
        e = read_number(r);
    } else {
        const char *name = take_name(r);
        AuTileExpr *number = literal(r, name, begin);
        e = number           ? number
            : accept(r, "(") ? read_call(r, name, begin)
                             : read_rest_of_ref(r, name, begin);
    }
    leave(r);
    return e;
}

/* The operator that comes next, TILE_OP_COUNT if none that binds so tightly does. */
static uint32_t infix_named(const Reader *r, uint8_t least)
{
    if (token(r)->kind != TOKEN_SIGN) return TILE_OP_COUNT;
    for (uint32_t op = 0; op < TILE_OP_COUNT; op++)
        if (tile_op((AuTileOp)op)->syntax == TILE_SYNTAX_INFIX &&
            tile_op((AuTileOp)op)->strength >= least && is(r, tile_op((AuTileOp)op)->text))
            return op;
    return TILE_OP_COUNT;
}

/* Operators that bind at least this tightly. All are left-associative. */
static AuTileExpr *read_infix(Reader *r, uint8_t least)
{
    const uint32_t begin = token(r)->begin;
    AuTileExpr *left = read_unary(r);
    for (uint32_t op; (op = infix_named(r, least)) != TILE_OP_COUNT;) {
        r->at++;
        AuTileExpr *right = read_infix(r, (uint8_t)(tile_op((AuTileOp)op)->strength + 1));
        left = with_args(r, (AuTileOp)op, begin, left, right);
    }
    return left;
}

AuTileExpr *read_expr(Reader *r)
{
    if (!enter(r)) return new_expr(r, TILE_X_INT, token(r)->begin);
    AuTileExpr *e = read_infix(r, 1);
    leave(r);
    return e;
}

/* ---- types */

AuTileAxis read_axis(Reader *r)
{
    AuTileAxis axis = {.name = take_name(r)};
    expect(r, ":");
    axis.extent = read_expr(r);
    return axis;
}

AuTileType read_type(Reader *r)
{
    AuTileType type = {0};
    uint32_t capacity = 0;
    uint32_t elem = 0;
    while (elem < TILE_ELEM_COUNT && !is(r, tile_elem((AuTileElem)elem)->name)) elem++;
    if (elem == TILE_ELEM_COUNT) {
        fail(r, "an element type");
        return type;
    }
    type.elem = (AuTileElem)elem;
    r->at++;
    if (!accept(r, "[")) return type;
    while (!is(r, "]") && !r->failed) {
        const AuTileAxis axis = read_axis(r);
        AU_PUSH(r->arena, type.axes, type.count, capacity, axis);
        if (!accept(r, ",")) break;
    }
    expect(r, "]");
    return type;
}
