/* normal_gradient.c - gradients of the slots of a recurrence: the adjoint of normal_form.c. The recurrence itself gives
 * the gradient of each slot's value; here is what goes on from there, slot by slot, by the reverse mode that mods use. */
#include "deriver.h"
#include "normal_form.h"

static const AuExpr none = {0};
static const AuSpan nowhere = {0};

/* What lies below the floor is a reset. Nothing goes through it, whatever the slope is there (of log(x) at 0 infinite); a nan
 * stays one. */
static AuGuarded seed_of(AuAttn *a, const AuNormal *n, AuSlot slot)
{
    const AuExpr value = n->slot[slot];
    const uint8_t axes = AU_AX_B | AU_AX_H | AU_AX_TOK |
                         (attn_at(a, value)->axes & attn_slot_channel(slot)),
                  whole = slot == AU_SLOT_LOG_DECAY ? axes : axes | attn_slot_channel(slot);
    const AuExpr dx = attn_leaf(a, AU_OP_DELEMENT, AU_T_F32, whole, 0, 0, nowhere);
    if (slot != AU_SLOT_LOG_DECAY || n->log_decay.low >= recurrence_floor(true))
        return (AuGuarded){dx, none};
    const AuExpr floor = attn_f32(a, recurrence_floor(true), nowhere);
    const AuExpr below = attn_op2(a, AU_OP_LT, value, floor, nowhere);
    return (AuGuarded){dx, attn_op1(a, AU_OP_NOT, below, nowhere)};
}

static bool derive_slot(AuDeriver *d, const AuNormal *n, AuSlot slot, AuNormalGrads *out)
{
    AuAttn *a = d->a;
    AuInputGrads *in = &out->slot[slot];
    const AuExpr value = n->slot[slot];
    if (!value.i) return true;
    const uint8_t element = attn_element_axes(AU_PLACE_LIN_NORM);
    AuReverse *r = reverse_new(a, d->arena, value, AU_AX_K | AU_AX_V, 1u << AU_OP_ELEMENT);
    reverse_run(r, value, seed_of(a, n, slot));
    derive_take_inputs(d, r, false, in);
    for (uint32_t i = 0; i < in->count; i++)
        in->at[i].value = attn_simplify_expr(a, in->at[i].value);
    if (slot == AU_SLOT_NORM) {
        const AuExpr x = attn_leaf(a, AU_OP_ELEMENT, AU_T_F32, element, 0, 0, nowhere);
        const AuExpr sum = reverse_of(r, x);
        out->sum = sum.i ? attn_simplify_expr(a, sum) : derive_number(a, 0);
    }
    return derive_nothing_lost(d, r);
}

AuGrads *attn_recurrence_gradients(AuAttn *a, AuArena *arena, AuDiags *diags)
{
    const AuNormal n = attn_normal_form(a, arena);
    AuGrads *out = AU_NEW(arena, AuGrads);
    out->has_pair = -1;
    out->normal = attn_normal_gradients(a, &n, arena, diags);
    return out->normal ? out : NULL;
}

AuNormalGrads *attn_normal_gradients(AuAttn *a, const AuNormal *n, AuArena *arena, AuDiags *diags)
{
    AuDeriver d = {.a = a, .arena = arena, .diags = diags};
    AuNormalGrads *out = AU_NEW(arena, AuNormalGrads);
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        if (!derive_slot(&d, n, (AuSlot)s, out)) return NULL;
    return derive_row_mod(&d, a->out_mod, AU_PLACE_OUT_MOD, &out->out) ? out : NULL;
}
