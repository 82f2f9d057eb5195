/* layout.c - where elements of inputs lie in a call with layouts (docs/dev/serving.md). An input of the batch that has a packed axis
 * lies as q or k does: its batch is 1, the first packed axis that of all rows. What it has of a second one, and what an input that is the
 * same for all sequences has of any, counts the rows of a sequence: no sequence has more. Rows of keys that further products read are keys: they lie
 * in pages, and in rows of a cache, as k does. */
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

/* Of rows that lie as k does, keys that are not packed. */
static AuInputPlace place_of_key_rows(const AuAttn *a, AuExpr axis)
{
    const bool paged = a->keys.layout == AU_LAYOUT_PAGED;
    if (is_batch(a, axis) && (paged || a->keys.has_rows))
        return paged ? AU_PLACE_PAGES : AU_PLACE_LINES;
    return paged && axis.i == a->tensors[1].axes[2].i ? AU_PLACE_SLOTS : AU_PLACE_AS_WRITTEN;
}

AuInputPlace attn_input_place(const AuAttn *a, uint32_t tensor, uint32_t axis)
{
    const AuTensor *t = &a->tensors[tensor];
    const AuRowLayout *rows = rows_of(a, t->axes[axis]);
    const uint32_t first = first_packed(a, t);
    if (t->as_keys && !is_packed(&a->keys)) return place_of_key_rows(a, t->axes[axis]);
    if (first == t->rank) return AU_PLACE_AS_WRITTEN;
    if (is_batch(a, t->axes[axis])) return AU_PLACE_ONE;
    if (!rows) return AU_PLACE_AS_WRITTEN;
    if (!has_batch(a, t) || axis != first)
        return rows == &a->queries ? AU_PLACE_MOST_QUERIES : AU_PLACE_MOST_KEYS;
    return rows == &a->queries ? AU_PLACE_QUERIES : AU_PLACE_KEYS;
}

/* The size of the extent in memory; 0, or 1 more than its number. */
static uint32_t size_of(const AuAttn *a, AuInputPlace place)
{
    switch (place) {
    case AU_PLACE_PAGES: return 1 + a->keys.pages;
    case AU_PLACE_SLOTS: return 1 + a->keys.slots;
    case AU_PLACE_LINES: return 1 + a->keys.lines;
    case AU_PLACE_MOST_QUERIES: return a->queries.most;
    case AU_PLACE_MOST_KEYS: return a->keys.most;
    case AU_PLACE_AS_WRITTEN:
    case AU_PLACE_ONE:
    case AU_PLACE_QUERIES:
    case AU_PLACE_KEYS: break;
    }
    return 0;
}

AuExpr attn_input_extent(AuAttn *a, uint32_t tensor, uint32_t axis)
{
    const AuInputPlace place = attn_input_place(a, tensor, axis);
    const uint32_t size = size_of(a, place);
    if (place == AU_PLACE_ONE) return attn_i32(a, 1, a->span);
    if (!size) return a->tensors[tensor].axes[axis];
    return attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)size - 1, 0, a->span);
}
