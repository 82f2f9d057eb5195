/* exec_turns.c - the word `turns` of a case whose queries are padded or packed: they are dealt out to two ranks by turns, as for calls that share a long sequence. Each rank's
 * call has the rows of its own, whose positions the call says; what both give is beside the oracle's of all rows. */
#include "internal.h"

#include "aule/artifact.h"

#include <string.h>

enum { RANKS = EXEC_RANKS };

static bool is_of_queries(const Run *r, uint32_t n)
{
    return n == 0 ||
           (n >= r->attn->tensor_count && r->tensors[n].output &&
            (r->tensors[n].role == AULE_ROLE_OUTPUT || r->tensors[n].role == AULE_ROLE_FINAL));
}

/* Element [n] of a rank's rows [B, H, rows, ..] among those of all. */
static size_t whole_at(const Tensor *of_rank, const Tensor *all, size_t n, int64_t rank)
{
    const size_t width = all->rank > 3 ? (size_t)all->shape[3] : 1,
                 rows = (size_t)of_rank->shape[2], row = n / width;
    return (row / rows * (size_t)all->shape[2] + row % rows * RANKS + (size_t)rank) * width +
           n % width;
}

Run *exec_turn(Run *r, int64_t rank)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->sizes[attn_at(r->attn, r->attn->tensors[0].axes[2])->integer] =
        (r->tensors[0].shape[2] + RANKS - 1 - rank) / RANKS;
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *all = &r->tensors[n];
        int64_t shape[8];
        if (!is_of_queries(r, n)) continue;
        memcpy(shape, all->shape, sizeof shape);
        shape[2] = (all->shape[2] + RANKS - 1 - rank) / RANKS;
        Tensor own = exec_new_tensor(r, all->name, all->dtype, shape, all->rank);
        own.role = all->role, own.output = all->output, own.absent = all->absent;
        for (size_t i = 0; i < own.elements && !all->output; i++)
            exec_put_at(&own, i, all->values[whole_at(&own, all, i, rank)]);
        out->tensors[n] = own;
    }
    return out;
}

/* Of the call with the rank's rows in their layout: which they are. */
void exec_say_turn(const Run *r, Run *laid_out, int64_t rank)
{
    const AuRowLayout *queries = &laid_out->attn->queries;
    const int64_t empty = queries->layout == AU_LAYOUT_PACKED
                              ? laid_out->sizes[queries->ends] - 1 - r->tensors[0].shape[0]
                              : 0,
                  batch = r->tensors[0].shape[0] + empty;
    Tensor first = exec_new_tensor(laid_out, "first", AU_DT_I32, &batch, 1),
           whole = exec_new_tensor(laid_out, "whole", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++) {
        exec_put_at(&first, (size_t)b, (double)rank);
        exec_put_at(&whole, (size_t)b, (double)r->tensors[0].shape[2]);
    }
    laid_out->tensors[queries->first] = first, laid_out->tensors[queries->whole] = whole;
    laid_out->params[queries->every] = RANKS;
    laid_out->params_i64[queries->every] = RANKS;
}

/* The rank's results among those of all. */
void exec_join_turn(Run *r, const Run *of_rank, int64_t rank)
{
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *from = &of_rank->tensors[n];
        Tensor *to = &r->tensors[n];
        if (!is_of_queries(r, n)) continue;
        const size_t bytes = exec_bytes_of(to->dtype);
        for (size_t i = 0; i < from->elements; i++)
            memcpy(to->bytes + exec_memory_index(to, whole_at(from, to, i, rank)) * bytes,
                   from->bytes + i * bytes, bytes);
    }
}
