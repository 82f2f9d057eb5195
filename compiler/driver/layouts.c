/* layouts.c - see layouts.h. */
#include "layouts.h"

#include "schedule.h"

#include <string.h>

static bool refuse(AuDiags *diags, AuSpan at, const char *axis, const char *why)
{
    au_error(diags, AU_E0811, at, "--layout: axis %s: %s", axis, why);
    return false;
}

static bool is_size(const AuAttn *a, AuExpr axis, const char *name)
{
    const AuNode *n = attn_at(a, axis);
    return n->op == AU_OP_SIZE && strcmp(a->sizes[n->integer].name, name) == 0;
}

/* What is said of the lengths of one sequence cannot be asked of shapes. */
static const AuSpan *asks_for(AuArena *arena, const AuAttn *a, AuExpr size)
{
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    for (uint32_t n = 0; n < a->require_count; n++) {
        memset(mark, 0, a->node_count * sizeof *mark);
        attn_mark(a, a->requires[n], mark);
        if (mark[size.i]) return &a->require_spans[n];
    }
    return NULL;
}

static bool has_dot(const AuAttn *a)
{
    bool found = false;
    for (uint32_t n = 1; n < a->node_count; n++) found |= a->nodes[n].op == AU_OP_DOT;
    return found;
}

static bool is_carried(AuArena *arena, AuDiags *diags, AuAttn *a, const char *axis)
{
    const AuTensor *q = &a->tensors[0], *k = &a->tensors[1], *v = &a->tensors[2];
    if (a->linear)
        return refuse(diags, a->span, axis,
                      "sequences of a recurrence are packed by cu_seqlens, other layouts are of "
                      "attentions with weights");
    if (is_size(a, q->axes[2], axis))
        return refuse(diags, q->span, axis,
                      "it is the length of q; layouts of queries are not carried yet");
    if (!is_size(a, k->axes[2], axis))
        return refuse(diags, a->span, axis,
                      au_format(arena, "the attention '%s' has no such axis of keys", a->name));
    if (v->axes[2].i != k->axes[2].i || v->axes[0].i != k->axes[0].i ||
        k->axes[0].i != q->axes[0].i)
        return refuse(diags, k->span, axis, "q, k and v have different batches or lengths");
    const AuSpan *asked = asks_for(arena, a, k->axes[2]);
    if (asked)
        return refuse(diags, *asked, axis,
                      "a `require` asks for its length, which is each sequence's own");
    if (has_dot(a))
        return refuse(diags, a->span, axis,
                      "further products (`dot`) of keys in a layout are not carried yet");
    return true;
}

static uint32_t add_size(AuAttn *a, const char *axis, const char *what)
{
    return attn_add_size(a, au_format(a->arena, "%s_%s", axis, what), -1, a->span);
}

static AuExpr size_node(AuAttn *a, uint32_t size)
{
    return attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)size, 0, a->span);
}

static uint32_t add_list(AuAttn *a, const char *name, AuExpr second)
{
    AuTensor t = {.name = name,
                  .role = AU_ROLE_INPUT,
                  .dtype = AU_DT_I32,
                  .axes = {a->tensors[0].axes[0], second},
                  .rank = second.i ? 2 : 1,
                  .span = a->span};
    return attn_add_tensor(a, t);
}

bool driver_add_layout(AuArena *arena, AuDiags *diags, AuAttn *a, AuLayout layout, const char *axis)
{
    static const char *const sizes[] = {"pages", "slots", "entries"};
    if (!layout || a->keys.layout) return true;
    if (!is_carried(arena, diags, a, axis)) return false;
    for (uint32_t n = 0; n < 3; n++) {
        const int32_t own = attn_size_of(a, au_format(arena, "%s_%s", axis, sizes[n]));
        if (own < 0) continue;
        au_error(diags, AU_E0607, a->sizes[own].span,
                 "attention '%s' has a size '%s', and so has a tensor that the compiler adds",
                 a->name, a->sizes[own].name);
        return false;
    }
    a->keys.layout = layout;
    if (layout == AU_LAYOUT_PAGED) {
        a->keys.pages = add_size(a, axis, sizes[0]);
        a->keys.slots = add_size(a, axis, sizes[1]);
        a->keys.entries = add_size(a, axis, sizes[2]);
        a->keys.table =
            add_list(a, au_format(a->arena, "%s_table", axis), size_node(a, a->keys.entries));
    }
    a->keys.lengths = add_list(a, au_format(a->arena, "%s_lengths", axis), (AuExpr){0});
    return true;
}

void driver_place_keys(AuAttn *a, AuExpr *axes)
{
    if (a->keys.layout != AU_LAYOUT_PAGED) return;
    axes[0] = size_node(a, a->keys.pages);
    axes[2] = size_node(a, a->keys.slots);
}

bool driver_is_unknown(const AuAttn *a, uint32_t size)
{
    if (a->keys.layout != AU_LAYOUT_PAGED || schedule_inputs_have_keys(a)) return false;
    return (uint32_t)attn_at(a, a->tensors[1].axes[2])->integer == size;
}

uint32_t driver_layout_flags(const AuAttn *a, uint32_t tensor)
{
    if (!a->keys.layout) return 0;
    if (tensor == a->keys.lengths) return AULE_TENSOR_LENGTHS;
    return a->keys.layout == AU_LAYOUT_PAGED && tensor == a->keys.table ? AULE_TENSOR_TABLE : 0;
}
