/* factors.c - see factors.h. */
#include "factors.h"

enum { LONGEST = 24 };

typedef struct Factors {
    AuExpr at[LONGEST];
    uint32_t count;
} Factors;

typedef struct Chain {
    AuAttn *a;
    uint8_t along;
    const bool *whole; /* one a node below [known] */
    uint32_t known;
    double number;
    Factors above, below, row_above, row_below;
    bool failed; /* too long */
} Chain;

static bool is_whole(const Chain *c, AuExpr e) { return e.i < c->known && c->whole[e.i]; }

static void add_factor(Chain *c, AuExpr e, bool is_below)
{
    const AuNode *n = attn_at(c->a, e);
    Factors *f = n->axes & c->along ? (is_below ? &c->below : &c->above)
                                    : (is_below ? &c->row_below : &c->row_above);
    if (n->op == AU_OP_F32)
        c->number = is_below ? c->number / n->number : c->number * n->number;
    else if (f->count == LONGEST)
        c->failed = true;
    else
        f->at[f->count++] = e;
}

static void take_apart(Chain *c, AuExpr e, bool is_below)
{
    const AuNode n = *attn_at(c->a, e);
    if (c->failed || is_whole(c, e) || !(n.axes & c->along))
        add_factor(c, e, is_below);
    else if (n.op == AU_OP_NEG) {
        c->number = -c->number;
        take_apart(c, attn_arg(c->a, e, 0), is_below);
    } else if (n.op == AU_OP_MUL || n.op == AU_OP_DIV) {
        take_apart(c, attn_arg(c->a, e, 0), is_below);
        take_apart(c, attn_arg(c->a, e, 1), n.op == AU_OP_MUL ? is_below : !is_below);
    } else
        add_factor(c, e, is_below);
}

static AuExpr product(AuAttn *a, const Factors *f, AuSpan span)
{
    AuExpr result = {0};
    for (uint32_t i = 0; i < f->count; i++)
        result = result.i ? attn_op2(a, AU_OP_MUL, result, f->at[i], span) : f->at[i];
    return result;
}

/* above / below; where one of them is empty, it is [one]. */
static AuExpr quotient(AuAttn *a, AuExpr above, AuExpr below, AuExpr one, AuSpan span)
{
    if (!below.i) return above;
    return attn_op2(a, AU_OP_DIV, above.i ? above : one, below, span);
}

static AuExpr put_together(Chain *c, AuSpan span)
{
    AuAttn *a = c->a;
    const bool is_plain = c->number == 1 || c->number == -1;
    const AuExpr number = attn_f32(a, c->number, span), one = attn_f32(a, 1, span);
    AuExpr row = product(a, &c->row_above, span);
    const AuExpr row_below = product(a, &c->row_below, span);
    AuExpr result =
        quotient(a, product(a, &c->above, span), product(a, &c->below, span), one, span);
    if (row_below.i) row = quotient(a, row, row_below, is_plain ? one : number, span);
    if (!is_plain && !(row_below.i && !c->row_above.count))
        row = row.i ? attn_op2(a, AU_OP_MUL, row, number, span) : number;
    if (row.i) result = attn_op2(a, AU_OP_MUL, result, row, span);
    return c->number == -1 ? attn_op1(a, AU_OP_NEG, result, span) : result;
}

typedef struct Order {
    uint8_t along;
    uint32_t known; /* nodes */
    bool *keep;
} Order;

static AuExpr make_ordered(void *user, AuAttn *a, AuExpr node, const AuExpr *args)
{
    const Order *o = user;
    const AuNode n = a->nodes[node.i];
    const AuExpr made = o->keep[node.i] ? node : attn_with_args(a, node, args);
    if (o->keep[node.i] || (n.op != AU_OP_MUL && n.op != AU_OP_DIV)) return made;
    Chain c = {.a = a, .along = o->along, .whole = o->keep, .known = o->known, .number = 1};
    take_apart(&c, made, false);
    return !c.failed && (c.above.count || c.below.count) ? put_together(&c, n.span) : made;
}

AuExpr factors_in_order(AuAttn *a, AuExpr e, uint8_t along, const AuExpr *whole, uint32_t count)
{
    Order o = {along, a->node_count, AU_NEW_ARRAY(a->arena, bool, a->node_count)};
    for (uint32_t i = 0; i < count; i++) attn_mark(a, whole[i], o.keep);
    return attn_simplify_expr(a, attn_remake(a, e, make_ordered, &o));
}
