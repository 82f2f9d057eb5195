/* hooks_linear.c - a recurrence as hooks: a function for each slot of its normal form. Slots are expressions of whole
 * tensors; the one whose channels a slot runs along is the hook's argument, all others are read where they stand. */
#include "hook_writer.h"

#include <string.h>

enum { WIDTHS = AU_AX_K | AU_AX_V };

static const char *slot_hook(AuHookWriter *w, AuSlot slot)
{
    return au_format(writer_module(w)->arena, "slot_%s", attn_slot_name(slot));
}

static uint8_t channel_of(const AuAttn *a, AuExpr e) { return attn_at(a, e)->axes & WIDTHS; }

/* Sums within the marked nodes run over these channels. */
static uint8_t summed(const AuAttn *a, const bool *mark, uint32_t count)
{
    uint8_t axes = 0;
    for (uint32_t i = 1; i < count; i++)
        if (mark[i] && a->nodes[i].op == AU_OP_ROW_SUM_C)
            axes |= channel_of(a, a->args[a->nodes[i].first]);
    return axes;
}

/* The marked tensor that has those channels at every token; none: there is no such. */
static AuExpr tensor_along(const AuAttn *a, const bool *mark, uint32_t count, uint8_t channel)
{
    for (uint32_t i = 1; i < count; i++) {
        const AuNode *n = &a->nodes[i];
        if (mark[i] && n->op == AU_OP_TENSOR && n->axes & channel && n->axes & AU_AX_TOK)
            return (AuExpr){i};
    }
    return (AuExpr){0};
}

static bool refuse(AuHookWriter *w, AuSlot slot, AuExpr value, const char *why)
{
    au_error(w->diags, AU_E0603, attn_at(w->attn, value)->span, "'%s' of a recurrence %s",
             slot == AU_SLOT_LOG_DECAY ? "decay" : attn_slot_name(slot), why);
    w->failed = true;
    return false;
}

/* What the hook's argument is: its channels, and the tensor. */
static bool look_at(AuHookWriter *w, AuSlot slot, AuHookSlot *s)
{
    const AuAttn *a = w->attn;
    const AuExpr value = s->value;
    bool *mark = AU_NEW_ARRAY(writer_module(w)->arena, bool, a->node_count);
    attn_mark(a, value, mark);
    const uint8_t sums = summed(a, mark, a->node_count);
    s->has_sums = sums != 0;
    s->channel = (uint8_t)(attn_slot_channel(slot) | sums);
    if (slot == AU_SLOT_LOG_DECAY && !(attn_at(a, value)->axes & AU_AX_K)) s->channel = sums;
    if (s->channel == WIDTHS)
        return refuse(
            w, slot, value,
            "has channels of keys and of values, or sums over them; kernels have slots of "
            "one kind of channel each: compute the sum before the call, and pass it as an input");
    if (slot == AU_SLOT_NORM && sums)
        return refuse(w, slot, value, "has a sum over channels, which kernels have in other slots");
    if (slot == AU_SLOT_LOG_DECAY && w->hooks->normal->decay == AU_DECAY_CONSTANT && sums)
        return refuse(w, slot, value,
                      "is a sum over channels that is no token's own: pass the sum as an input");
    s->held = tensor_along(a, mark, a->node_count, s->channel);
    s->is_plain = s->held.i && s->held.i == value.i;
    s->is_scalar = !(attn_at(a, value)->axes & (AU_AX_B | AU_AX_TOK | WIDTHS)) && !sums;
    return true;
}

static void write_slot(AuHookWriter *w, AuSlot slot, AuHookSlot *s)
{
    static const char *const params[] = {"x", "b", "h", "t", "c"};
    w->channel = s->channel == AU_AX_V ? "e" : "d";
    w->whole = s->held;
    writer_begin(w, slot_hook(w, slot), params, 5);
    writer_count_uses(w, s->value);
    AuTileExpr *x = channel_of(w->attn, s->value) || !s->has_sums
                        ? writer_row_value(w, s->value, attn_slot_name(slot))
                        : writer_expr(w, s->value); /* a row's sum is a number a token already */
    writer_finish(w, &x, 1);
    w->whole = (AuExpr){0};
}

/* A number of the head at most: nothing that has the places of a tile. */
static void write_scalar(AuHookWriter *w, AuSlot slot, const AuHookSlot *s)
{
    static const char *const params[] = {"b", "h"};
    writer_begin(w, slot_hook(w, slot), params, 2);
    writer_count_uses(w, s->value);
    AuTileExpr *x = writer_expr(w, s->value);
    writer_finish(w, &x, 1);
}

static bool make_slot(AuHookWriter *w, AuSlot slot)
{
    AuHooks *h = w->hooks;
    AuHookSlot *s = &h->slots[slot];
    s->value = h->normal->slot[slot];
    if (!s->value.i) return true;
    if (!look_at(w, slot, s)) return false;
    if (s->is_plain) return true;
    s->name = slot_hook(w, slot);
    if (s->is_scalar && slot == AU_SLOT_LOG_DECAY)
        write_scalar(w, slot, s);
    else
        write_slot(w, slot, s);
    AU_PUSH(h->module->arena, h->forward.at, h->forward.count, h->forward.capacity, s->name);
    return true;
}

bool hooks_linear(AuHookWriter *w)
{
    AuHooks *h = w->hooks;
    AuNormal *normal = AU_NEW(h->module->arena, AuNormal);
    *normal = attn_normal_form(w->attn, h->module->arena);
    h->normal = normal;
    w->row_tensor = NULL; /* slots are no row mods */
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        if (!make_slot(w, (AuSlot)s)) return false;
    return !w->failed;
}

/* ---- gradients */

/* dx itself, of one number a token where the slot's value is: nothing to be called. */
static bool is_gradient(const AuAttn *a, const AuHookSlot *s, const AuInputGrads *in)
{
    return in->count == 1 && attn_at(a, in->at[0].value)->op == AU_OP_DELEMENT &&
           (channel_of(a, s->value) || !channel_of(a, in->at[0].read));
}

/* With the channels of the tensor that gets it; [of_token]: dx has none, so that only x says where they lie. */
static AuTileExpr *gradient_value(AuHookWriter *w, const AuInputGrad *g, uint32_t n, bool of_token)
{
    const bool wants = channel_of(w->attn, g->read), has = channel_of(w->attn, g->value);
    AuTileExpr *value = writer_expr(w, g->value);
    const char *name = au_format(writer_module(w)->arena, "value%u", n);
    const bool lies = has && !of_token && writer_is_of_tile(w, g->value);
    return wants && !lies ? writer_spread(w, value, "x", name) : value;
}

static void write_slot_back(AuHookWriter *w, AuSlot slot, AuHookSlot *s, const AuNormalGrads *g)
{
    static const char *const params[] = {"x", "dx", "b", "h", "t", "c"};
    AuArena *arena = writer_module(w)->arena;
    const AuInputGrads *in = &g->slot[slot];
    const uint32_t sum = slot == AU_SLOT_NORM;
    if (!s->value.i || (!sum && (!in->count || is_gradient(w->attn, s, in)))) return;
    AuTileExpr **items = AU_NEW_ARRAY(arena, AuTileExpr *, in->count + 1);
    s->back = au_format(arena, "%s_back", slot_hook(w, slot));
    w->channel = s->channel == AU_AX_V ? "e" : "d";
    w->whole = s->held;
    writer_begin(w, s->back, params, 6);
    if (sum) writer_count_uses(w, g->sum);
    for (uint32_t n = 0; n < in->count; n++) writer_count_uses(w, in->at[n].value);
    if (sum) items[0] = writer_spread(w, writer_expr(w, g->sum), "dx", "dsum");
    for (uint32_t n = 0; n < in->count; n++)
        items[sum + n] = gradient_value(w, &in->at[n], n, !channel_of(w->attn, s->value));
    writer_finish(w, items, in->count + sum);
    w->whole = (AuExpr){0};
    AU_PUSH(arena, w->hooks->backward.at, w->hooks->backward.count, w->hooks->backward.capacity,
            s->back);
}

bool hooks_linear_back(AuHookWriter *w, const AuNormalGrads *g)
{
    AuHooks *h = w->hooks;
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++) write_slot_back(w, (AuSlot)s, &h->slots[s], g);
    writer_out_back(w, &g->out, false);
    if (g->out.value.i)
        AU_PUSH(h->module->arena, h->backward.at, h->backward.count, h->backward.capacity,
                "out_back");
    return !w->failed;
}
