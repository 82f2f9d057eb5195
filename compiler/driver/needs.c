/* needs.c - axes that must have elements. Kernels clamp an index into its axis, so that a read stays inside whatever the data say; into
 * an axis without elements nothing can be clamped. Only a read along the axis itself (bias[b, h, q_idx, kv_idx]) is never made
 * there. All others are requirements of a call, beside those of the script. */
#include "driver.h"

typedef struct Finder {
    AuAttn *a;
    AuArena *arena;
    AuNeed *needs;
    uint32_t count, capacity;
} Finder;

/* Do indices like this exist only where the axis has elements? */
static bool runs_along(const AuAttn *a, AuExpr index, AuExpr extent)
{
    const AuNode *n = attn_at(a, index);
    const AuTensor *q = &a->tensors[0], *k = &a->tensors[1], *v = &a->tensors[2];
    if (n->op == AU_OP_KV_H)
        return extent.i == q->axes[1].i || extent.i == k->axes[1].i || extent.i == v->axes[1].i;
    if (n->op != AU_OP_INDEX) return false;
    switch ((AuAxisBit)n->integer) {
    case AU_AX_B: return extent.i == q->axes[0].i;
    case AU_AX_H: return extent.i == q->axes[1].i;
    case AU_AX_Q: return extent.i == q->axes[2].i;
    case AU_AX_KV: return extent.i == k->axes[2].i;
    case AU_AX_C:
        return extent.i == q->axes[3].i || extent.i == k->axes[3].i || extent.i == v->axes[3].i;
    case AU_AX_TOK:
    case AU_AX_K:
    case AU_AX_V: break;
    }
    return false;
}

static bool is_constant(const AuAttn *a, AuExpr extent)
{
    const AuNode *n = attn_at(a, extent);
    return (n->op == AU_OP_I32 && n->integer > 0) ||
           (n->op == AU_OP_SIZE && a->sizes[n->integer].fixed > 0);
}

/* It has elements, or there is nothing to compute: no batch, no head, or neither queries nor keys. */
static AuExpr condition(AuAttn *a, AuExpr extent, AuSpan span)
{
    const AuExpr zero = attn_i32(a, 0, span), *q = a->tensors[0].axes, *k = a->tensors[1].axes;
    const AuExpr tokens = attn_op2(a, AU_OP_ADD, q[2], k[2], span),
                 heads = attn_op2(a, AU_OP_MUL, q[0], q[1], span);
    return attn_op2(a, AU_OP_OR, attn_op2(a, AU_OP_LT, zero, extent, span),
                    attn_op2(a, AU_OP_EQ, attn_op2(a, AU_OP_MUL, heads, tokens, span), zero, span),
                    span);
}

/* Indices args[first..] of the read [e] into the leading axes of a tensor. */
static void add(Finder *f, AuExpr e, int32_t tensor, uint32_t first, uint32_t axes)
{
    AuAttn *a = f->a;
    for (uint32_t k = 0; k < axes; k++) {
        const AuExpr written = a->tensors[tensor].axes[k],
                     extent = attn_input_extent(a, (uint32_t)tensor, k);
        const AuInputPlace place = attn_input_place(a, (uint32_t)tensor, k);
        if (place == AU_PLACE_AS_WRITTEN &&
            (runs_along(a, attn_arg(a, e, first + k), written) || is_constant(a, written)))
            continue;
        if (place == AU_PLACE_ONE || place == AU_PLACE_PAGES || place == AU_PLACE_SLOTS ||
            place == AU_PLACE_LINES)
            continue; /* layouts.c asks for those */
        const AuSpan span = attn_at(a, e)->span;
        /* Blocks of packed rows there are where no sequence has one. */
        const AuExpr holds = place == AU_PLACE_AS_WRITTEN
                                 ? condition(a, extent, span)
                                 : attn_op2(a, AU_OP_LT, attn_i32(a, 0, span), extent, span);
        const AuNeed need = {holds, span, a->tensors[tensor].name, k};
        bool known = false;
        for (uint32_t n = 0; n < f->count; n++) known |= f->needs[n].holds.i == need.holds.i;
        if (!known) AU_PUSH(f->arena, f->needs, f->count, f->capacity, need);
    }
}

uint32_t driver_needs(AuAttn *a, AuArena *arena, AuNeed **needs)
{
    Finder f = {.a = a, .arena = arena};
    AuRoot *roots;
    const uint32_t root_count = attn_roots(a, arena, &roots), node_count = a->node_count;
    bool *mark = AU_NEW_ARRAY(arena, bool, node_count);
    for (uint32_t n = 0; n < root_count; n++) attn_mark(a, *roots[n].at, mark);
    for (uint32_t i = 1; i < node_count; i++) {
        const AuNode n = a->nodes[i];
        if (!mark[i]) continue;
        if (n.op == AU_OP_INPUT) add(&f, (AuExpr){i}, n.integer, 0, n.count);
        if (n.op != AU_OP_DOT) continue;
        const uint32_t left = a->tensors[n.integer].rank - 1;
        add(&f, (AuExpr){i}, n.integer, 0, left);
        add(&f, (AuExpr){i}, n.integer2, left, n.count - left);
    }
    *needs = f.needs;
    return f.count;
}
