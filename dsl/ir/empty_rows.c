/* empty_rows.c - an out_mod of which rows without a pair must be kept out.
 *
 * Such a row has output 0 and no gradient whatever out_mod makes of 0. Where it makes 0 of it, and so 0 of every input that
 * it reads beside, nobody has to ask. Where that cannot be proved (`o + bias`, `o / sum(o)`) forward selects by a flag of the row, and for
 * the backward the row keeps it: a row scale that is 0 at the start and 1 after a pair. */
#include <string.h>

#include "deriver.h"

/* What is known of a value where the output is 0, inputs and parameters being finite. */
typedef enum AtZero { IS_ANY, IS_FINITE, IS_POSITIVE, IS_ZERO } AtZero;

static AtZero of_constant(double x)
{
    return x == 0 ? IS_ZERO : x > 0 && x < 1e30 ? IS_POSITIVE : x - x == 0 ? IS_FINITE : IS_ANY;
}

static AtZero sum_of(AtZero x, AtZero y)
{
    if (x == IS_ZERO) return y;
    if (y == IS_ZERO) return x;
    if (x == IS_POSITIVE && y == IS_POSITIVE) return IS_POSITIVE;
    return x && y ? IS_FINITE : IS_ANY;
}

static AtZero product_of(AtZero x, AtZero y)
{
    if (!x || !y) return IS_ANY; /* 0 times an infinity is nan */
    if (x == IS_ZERO || y == IS_ZERO) return IS_ZERO;
    return IS_FINITE; /* of two small ones nothing may be left */
}

static AtZero larger_of(AtZero x, AtZero y)
{
    if (!x || !y) return IS_ANY;
    if (x == IS_POSITIVE || y == IS_POSITIVE) return IS_POSITIVE;
    return x == y ? x : IS_FINITE;
}

static AtZero smaller_of(AtZero x, AtZero y)
{
    if (!x || !y || x == IS_FINITE || y == IS_FINITE) return x && y ? IS_FINITE : IS_ANY;
    return x == IS_ZERO || y == IS_ZERO ? IS_ZERO : IS_POSITIVE;
}

/* Of those that are no length of keys none is 0 where there is a row with channels. */
static AtZero of_size(const AuAttn *a, AuExpr size)
{
    for (uint32_t axis = 0; axis < 4; axis++)
        if (a->tensors[0].axes[axis].i == size.i) return IS_POSITIVE;
    return a->tensors[2].axes[3].i == size.i ? IS_POSITIVE : IS_FINITE;
}

/* [x], [y], [z]: of the arguments. */
static AtZero of_node(const AuAttn *a, AuExpr e, AtZero x, AtZero y, AtZero z)
{
    const AuNode *n = attn_at(a, e);
    switch ((int)n->op) {
    case AU_OP_ELEMENT: return IS_ZERO;
    case AU_OP_F32: return of_constant(n->number);
    case AU_OP_I32: return of_constant(n->integer);
    case AU_OP_SIZE: return of_size(a, e);
    case AU_OP_ADD: return sum_of(x, y);
    case AU_OP_SUB: return y == IS_ZERO ? x : x && y ? IS_FINITE : IS_ANY;
    case AU_OP_MUL: return product_of(x, y);
    case AU_OP_DIV: return y == IS_POSITIVE ? product_of(x, y) : IS_ANY;
    case AU_OP_MAX: return larger_of(x, y);
    case AU_OP_MIN: return smaller_of(x, y);
    case AU_OP_WHERE: return y == z ? y : y && z ? IS_FINITE : IS_ANY;
    case AU_OP_NEG:
    case AU_OP_SIGN: return x == IS_POSITIVE ? IS_FINITE : x;
    case AU_OP_ABS: return x;
    case AU_OP_SQRT: /* at 0 its derivative is infinite */
    case AU_OP_RSQRT: return x == IS_POSITIVE ? x : IS_ANY;
    case AU_OP_TANH:
    case AU_OP_ERF:
    case AU_OP_SIN:
    case AU_OP_FLOOR:
    case AU_OP_CEIL: return x == IS_ZERO ? x : x ? IS_FINITE : IS_ANY;
    case AU_OP_EXPM1:
    case AU_OP_LOG1P: return x == IS_ZERO ? x : IS_ANY;
    case AU_OP_SIGMOID:
    case AU_OP_SOFTPLUS:
    case AU_OP_COS: return x ? IS_FINITE : IS_ANY;
    case AU_OP_TO_F32:
    case AU_OP_STOP_GRAD:
    case AU_OP_ROW_SUM_C: return x;
    case AU_OP_INPUT:
    case AU_OP_PARAM:
    case AU_OP_INDEX:
    case AU_OP_KV_H: return IS_FINITE;
    default: return n->type == AU_T_F32 ? IS_ANY : IS_FINITE;
    }
}

bool attn_asks_for_pairs(const AuAttn *a)
{
    if (!a->out_mod.i || a->linear) return false;
    AtZero *at = AU_NEW_ARRAY(a->arena, AtZero, a->out_mod.i + 1);
    for (uint32_t i = 1; i <= a->out_mod.i; i++) {
        const AuNode *n = &a->nodes[i];
        AtZero x[3] = {IS_ANY, IS_ANY, IS_ANY};
        for (uint32_t k = 0; k < n->count && k < 3; k++) x[k] = at[a->args[n->first + k].i];
        at[i] = of_node(a, (AuExpr){i}, x[0], x[1], x[2]);
    }
    return at[a->out_mod.i] != IS_ZERO;
}

static const char *free_name(const AuOnline *o, AuArena *arena, const char *name)
{
    for (uint32_t n = 0; n < o->final_count; n++)
        if (strcmp(o->finals[n].name, name) == 0)
            return free_name(o, arena, au_format(arena, "%s_", name));
    for (uint32_t n = 0; n < o->scale_count; n++)
        if (strcmp(o->scales[n].name, name) == 0)
            return free_name(o, arena, au_format(arena, "%s_", name));
    return name;
}

/* Behind all that was derived of the online function: nothing else asks for the flag. */
void derive_keep_pairs(AuDeriver *d)
{
    AuAttn *a = d->a;
    AuOnline *o = a->online;
    const uint32_t scale = o->scale_count, final = o->final_count;
    d->g->has_pair = -1;
    if (!attn_asks_for_pairs(a)) return;
    AuRowScale *scales = AU_NEW_ARRAY(a->arena, AuRowScale, scale + 1);
    AuFinal *finals = AU_NEW_ARRAY(a->arena, AuFinal, final + 1);
    AuExpr *adjoints = AU_NEW_ARRAY(d->arena, AuExpr, final + 1);
    if (scale) memcpy(scales, o->scales, scale * sizeof *scales);
    if (final) memcpy(finals, o->finals, final * sizeof *finals);
    if (final) memcpy(adjoints, d->g->adjoint, final * sizeof *adjoints);
    const char *name = free_name(o, a->arena, "has_pair");
    const AuExpr one = derive_number(a, 1), zero = derive_number(a, 0);
    scales[scale] =
        (AuRowScale){.name = name, .start = zero, .next = one, .combined = one, .span = a->span};
    finals[final] = (AuFinal){.name = name,
                              .value = closed_row_leaf(a, AU_OP_STATE, scale),
                              .kept = true,
                              .span = a->span};
    adjoints[final] = zero;
    o->scales = scales, o->finals = finals, d->g->adjoint = adjoints;
    o->scale_count++, o->final_count++;
    d->g->has_pair = (int32_t) final;
}
