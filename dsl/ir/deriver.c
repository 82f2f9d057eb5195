/* deriver.c - see deriver.h: sums, products and lists of inputs' gradients. */
#include "deriver.h"

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

AuExpr derive_number(AuAttn *a, double value) { return attn_f32(a, value, nowhere); }

AuExpr derive_product(AuAttn *a, AuExpr x, AuExpr y)
{
    return attn_simplify_expr(a, attn_op2(a, AU_OP_MUL, x, y, nowhere));
}

AuExpr derive_sum(AuAttn *a, AuExpr x, AuExpr y)
{
    if (!x.i || !y.i) return x.i ? x : y;
    return attn_simplify_expr(a, attn_op2(a, AU_OP_ADD, x, y, nowhere));
}

/* ---- leaves replaced */

typedef struct Replacing {
    AuOp op;
    AuExpr by;
} Replacing;

static AuExpr replace(void *user, AuAttn *a, AuExpr leaf)
{
    const Replacing *r = user;
    return attn_at(a, leaf)->op == r->op ? r->by : none;
}

AuExpr derive_with(AuAttn *a, AuExpr e, AuOp op, AuExpr by)
{
    Replacing r = {op, by};
    return by.i ? attn_substitute(a, e, replace, &r) : e;
}

/* ---- gradients of inputs */

void derive_add_input(AuDeriver *d, AuInputGrads *to, AuExpr read, AuExpr value)
{
    if (!value.i) return;
    for (uint32_t i = 0; i < to->count; i++)
        if (to->at[i].read.i == read.i) {
            to->at[i].value = derive_sum(d->a, to->at[i].value, value);
            return;
        }
    const AuInputGrad grad = {(uint32_t)attn_at(d->a, read)->integer, read, value};
    AU_PUSH(d->arena, to->at, to->count, to->capacity, grad);
}

void derive_take_inputs(AuDeriver *d, const AuReverse *r, bool along, AuInputGrads *to)
{
    for (uint32_t i = 1; i < r->count; i++)
        if ((d->a->nodes[i].op == AU_OP_INPUT || d->a->nodes[i].op == AU_OP_TENSOR) && r->active[i])
            derive_add_input(d, to, (AuExpr){i},
                             along ? reverse_along(r, (AuExpr){i}) : reverse_of(r, (AuExpr){i}));
}

void derive_add_inputs(AuDeriver *d, AuInputGrads *to, const AuInputGrads *from, AuExpr factor)
{
    for (uint32_t i = 0; i < from->count; i++)
        derive_add_input(d, to, from->at[i].read, derive_product(d->a, from->at[i].value, factor));
}

bool derive_is_made_by(const AuDeriver *d, AuExpr e, const bool *leaves, const bool *operations)
{
    const AuAttn *a = d->a;
    bool *mark = AU_NEW_ARRAY(d->arena, bool, e.i + 1);
    bool *depends = AU_NEW_ARRAY(d->arena, bool, e.i + 1);
    attn_mark(a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &a->nodes[i];
        depends[i] = leaves[n->op];
        for (uint32_t k = 0; k < n->count; k++) depends[i] |= depends[a->args[n->first + k].i];
        if (mark[i] && depends[i] && !leaves[n->op] && !operations[n->op]) return false;
    }
    return true;
}
