/* exec_inputs.c - inputs, and their gradients, of a case with rows in a layout: where they are packed too, sequences one behind the other and NaN
 * behind them; where they count the rows of a sequence, NaN behind these; where they lie as keys do, in the keys' pages and rows of a cache, NaN elsewhere; where they have an
 * element for each sequence, NaN of those that are not the case's. */
#include "internal.h"

#include "aule/artifact.h"

#include <math.h>
#include <string.h>

enum { BEHIND = 5 }; /* rows that an input has for a sequence beside those it has */

static int64_t size_of(const Run *r, AuExpr axis)
{
    const AuNode *n = attn_at(r->attn, axis);
    return n->op == AU_OP_SIZE && r->attn->sizes[n->integer].fixed < 0 ? r->sizes[n->integer]
           : n->op == AU_OP_SIZE ? r->attn->sizes[n->integer].fixed
                                 : n->integer;
}

static AuInputPlace place_of(const Run *r, uint32_t input, uint32_t axis)
{
    return attn_input_place(r->attn, input, axis);
}

static AuExpr padded_axis(const AuAttn *a, const AuRowLayout *rows, uint32_t tensor)
{
    return rows->layout == AU_LAYOUT_PADDED ? a->tensors[tensor].axes[2] : (AuExpr){0};
}

/* Is the axis of sequences, which are more than those of the case? */
static bool is_of_more(const Run *r, const Run *packed, uint32_t input, uint32_t axis)
{
    const AuAttn *a = packed->attn;
    const AuExpr batch = a->tensors[0].axes[0];
    return a->tensors[input].axes[axis].i == batch.i &&
           place_of(packed, input, axis) == AU_PLACE_AS_WRITTEN &&
           size_of(packed, batch) > size_of(r, batch);
}

/* Packed, or with room for more rows where queries or keys are padded, or for more sequences. */
static bool is_packed(const Run *dense, const Run *r, uint32_t input)
{
    const AuAttn *a = r->attn;
    const AuTensor *t = &a->tensors[input];
    const AuExpr queries = padded_axis(a, &a->queries, 0), keys = padded_axis(a, &a->keys, 1);
    for (uint32_t n = 0; n < t->rank; n++)
        if (place_of(r, input, n) != AU_PLACE_AS_WRITTEN || t->axes[n].i == queries.i ||
            t->axes[n].i == keys.i || is_of_more(dense, r, input, n))
            return true;
    return false;
}

/* Of an input that lies as keys do, [r] has the dense ones. */
static void place_as_keys(const Run *r, const Run *packed, uint32_t input, int64_t *at)
{
    const uint32_t rank = r->attn->tensors[input].rank;
    uint32_t batch = rank, key = rank;
    for (uint32_t d = 0; d < rank; d++) {
        const AuInputPlace place = place_of(packed, input, d);
        if (place == AU_PLACE_PAGES || place == AU_PLACE_LINES) batch = d;
        if (place == AU_PLACE_SLOTS) key = d;
    }
    if (key < rank)
        exec_place_in_pages(r, &at[batch], &at[key]);
    else if (batch < rank)
        at[batch] = exec_line_of(r, at[batch]);
}

/* Element [n] of a dense tensor among those of the packed one. */
static size_t packed_at(const Run *r, const Run *packed, uint32_t input, const Tensor *dense,
                        const Tensor *to, size_t n)
{
    int64_t at[8] = {0}, sequence = 0;
    for (uint32_t d = dense->rank; d-- > 0; n /= (size_t)dense->shape[d])
        at[d] = (int64_t)(n % (size_t)dense->shape[d]);
    place_as_keys(r, packed, input, at);
    for (uint32_t d = 0; d < dense->rank; d++)
        if (place_of(packed, input, d) == AU_PLACE_ONE) sequence = at[d], at[d] = 0;
    size_t out = 0;
    for (uint32_t d = 0; d < dense->rank; d++) {
        const AuInputPlace place = place_of(packed, input, d);
        if (place == AU_PLACE_QUERIES || place == AU_PLACE_KEYS)
            at[d] += sequence * dense->shape[d];
        if (is_of_more(r, packed, input, d)) at[d] += to->shape[d] - dense->shape[d];
        out = out * (size_t)to->shape[d] + (size_t)at[d];
    }
    return out;
}

static Tensor packed_input(const Run *r, Run *out, uint32_t input, const Tensor *dense)
{
    int64_t shape[8];
    for (uint32_t d = 0; d < dense->rank; d++)
        shape[d] = size_of(out, attn_input_extent(out->attn, input, d));
    Tensor all = exec_new_tensor(out, dense->name, dense->dtype, shape, dense->rank);
    all.role = dense->role, all.output = dense->output, all.absent = dense->absent;
    const bool whole = dense->dtype == AU_DT_I32 || dense->dtype == AU_DT_I64 ||
                       dense->dtype == AU_DT_U8 || dense->dtype == AU_DT_BOOL;
    for (size_t n = 0; n < all.elements; n++) exec_put_at(&all, n, whole ? 1 : NAN);
    for (size_t n = 0; n < dense->elements && !dense->output; n++)
        exec_put_at(&all, packed_at(r, out, input, dense, &all, n), dense->values[n]);
    return all;
}

/* Which input the tensor is the gradient of; 0: of none. */
static uint32_t input_of(const Run *r, const Tensor *t)
{
    for (uint32_t n = 3; n < r->attn->tensor_count && t->role == AULE_ROLE_GRAD; n++)
        if (strcmp(t->name + 1, r->attn->tensors[n].name) == 0) return n;
    return 0;
}

void exec_pack_inputs(const Run *r, Run *out)
{
    AuAttn *a = out->attn;
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t most = (side ? &a->keys : &a->queries)->most;
        if (most) out->sizes[most - 1] = r->tensors[side].shape[2] + BEHIND;
    }
    for (uint32_t n = 3; n < r->attn->tensor_count; n++)
        if (is_packed(r, out, n)) out->tensors[n] = packed_input(r, out, n, &r->tensors[n]);
    for (uint32_t n = a->tensor_count; n < out->tensor_count; n++) {
        const uint32_t input = input_of(out, &out->tensors[n]);
        if (input && is_packed(r, out, input))
            out->tensors[n] = packed_input(r, out, input, &out->tensors[n]);
    }
}

bool exec_unpack_input(Run *r, const Run *packed, Tensor *to, const Tensor *from)
{
    const uint32_t input = input_of(r, to);
    const size_t bytes = exec_bytes_of(to->dtype);
    if (!input || !is_packed(r, packed, input)) return true;
    bool *is_own = AU_NEW_ARRAY(r->arena, bool, from->elements + 1);
    for (size_t i = 0; i < to->elements; i++) {
        const size_t at = packed_at(r, packed, input, to, from, i);
        is_own[at] = true;
        memcpy(to->bytes + exec_memory_index(to, i) * bytes, from->bytes + at * bytes, bytes);
    }
    for (size_t i = 0; i < from->elements; i++)
        if (!is_own[i] && exec_get(from->bytes + i * bytes, to->dtype) != 0)
            return exec_fail(r, to->name, "elements of no sequence are not 0");
    return true;
}
