/* layout.c - where elements of inputs lie in a call with packed rows (docs/dev/serving.md). An input of the batch that has a packed axis
 * lies as q or k does: its batch is 1, the first packed axis that of all rows. What it has of a second one, and what an input that is the
 * same for all sequences has of any, counts the rows of a sequence: no sequence has more. */
#include "attn.h"

static bool is_packed(const AuRowLayout *rows) { return rows->layout == AU_LAYOUT_PACKED; }

static bool is_batch(const AuAttn *a, AuExpr axis)
{
    return axis.i == a->tensors[0].axes[0].i && attn_at(a, axis)->op == AU_OP_SIZE;
}

/* Whose packed rows an axis is that of; NULL: it is none. */
static const AuRowLayout *rows_of(const AuAttn *a, AuExpr axis)
{
    if (is_packed(&a->queries) && axis.i == a->tensors[0].axes[2].i) return &a->queries;
    if (is_packed(&a->keys) && axis.i == a->tensors[1].axes[2].i) return &a->keys;
    return NULL;
}

static bool has_batch(const AuAttn *a, const AuTensor *t)
{
    for (uint32_t n = 0; n < t->rank; n++)
        if (is_batch(a, t->axes[n])) return true;
    return false;
}

/* The axis of its rows; as many as it has: there is none. */
static uint32_t first_packed(const AuAttn *a, const AuTensor *t)
{
    uint32_t n = 0;
    while (n < t->rank && !rows_of(a, t->axes[n])) n++;
    return n;
}

AuInputPlace attn_input_place(const AuAttn *a, uint32_t tensor, uint32_t axis)
{
    const AuTensor *t = &a->tensors[tensor];
    const AuRowLayout *rows = rows_of(a, t->axes[axis]);
    const uint32_t first = first_packed(a, t);
    if (first == t->rank) return AU_PLACE_AS_WRITTEN;
    if (is_batch(a, t->axes[axis])) return AU_PLACE_ONE;
    if (!rows) return AU_PLACE_AS_WRITTEN;
    if (!has_batch(a, t) || axis != first)
        return rows == &a->queries ? AU_PLACE_MOST_QUERIES : AU_PLACE_MOST_KEYS;
    return rows == &a->queries ? AU_PLACE_QUERIES : AU_PLACE_KEYS;
}

AuExpr attn_input_extent(AuAttn *a, uint32_t tensor, uint32_t axis)
{
    const AuInputPlace place = attn_input_place(a, tensor, axis);
    const uint32_t most = place == AU_PLACE_MOST_QUERIES ? a->queries.most
                          : place == AU_PLACE_MOST_KEYS  ? a->keys.most
                                                         : 0;
    if (place == AU_PLACE_ONE) return attn_i32(a, 1, a->span);
    if (!most) return a->tensors[tensor].axes[axis];
    return attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)most - 1, 0, a->span);
}
