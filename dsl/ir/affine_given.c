/* affine_given.c - inequalities with numbers that callers give (affine.h). */
#include "affine.h"

#include <stdlib.h>

static const AuSpan nowhere = {0, 0, 0};

static bool is_given(AuAttn *a, AuGiven *given, const AuAffineTerm *t)
{
    while (given->count <= t->e.i) { /* arguments come first */
        const AuExpr e = {given->count};
        const AuNode *n = attn_at(a, e);
        bool is = n->op == AU_OP_PARAM || n->op == AU_OP_INPUT;
        for (uint32_t k = 0; k < n->count; k++) is |= given->at[attn_arg(a, e, k).i];
        AU_PUSH(a->arena, given->at, given->count, given->capacity, is);
    }
    return t->motion == AU_MOVES_NO && given->at[t->e.i];
}

static AuExpr make(AuAttn *a, AuOp op, AuExpr x, AuExpr y)
{
    return attn_simplify_expr(a, attn_op2(a, op, x, y, nowhere));
}

static void join_differences(AuAttn *a, AuGiven *given, AuAffine *f)
{
    for (uint32_t n = 0; n < f->count; n++)
        for (uint32_t m = 0; m < f->count; m++) {
            AuAffineTerm *x = &f->terms[n], *y = &f->terms[m];
            if (x->k != 1 || y->k != -1 || !is_given(a, given, x) || !is_given(a, given, y))
                continue;
            x->e = make(a, AU_OP_SUB, x->e, y->e);
            *y = f->terms[--f->count];
            break;
        }
}

void attn_bound_given(AuAttn *a, AuGiven *given, AuAffine *f)
{
    enum { MOST = 1 << 29 };
    int64_t all = 0;
    join_differences(a, given, f);
    for (uint32_t n = 0; n < f->count; n++)
        if (is_given(a, given, &f->terms[n])) all += llabs(f->terms[n].k);
    for (uint32_t n = 0; n < f->count && all <= MOST; n++) {
        AuAffineTerm *t = &f->terms[n];
        if (!is_given(a, given, t)) continue;
        const int32_t most = (int32_t)(MOST / all);
        const AuExpr low = make(a, AU_OP_MAX, t->e, attn_i32(a, -most, nowhere));
        t->e = make(a, AU_OP_MIN, low, attn_i32(a, most, nowhere));
    }
}
