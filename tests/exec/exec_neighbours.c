/* exec_neighbours.c - the word `neighbours` of a case: the bits of a sequence's results are the same whatever else is in the call. Its sequences in the other order, each
 * with another one behind it, and the first one alone; what lies where no sequence has a row is NaN in the call that the oracle sees, and numbers in these. */
#include "internal.h"

#include "driver.h"
#include "tensors.h"

#include <math.h>
#include <string.h>

enum { MOST_SEQUENCES = 16 };

/* Which axis counts sequences; its rank: none does. */
static uint32_t batch_axis(const Run *r, const AuTensorRow *of)
{
    uint32_t d = 0;
    while (d < of->rank && of->axes[d].i != r->attn->tensors[0].axes[0].i) d++;
    return d;
}

/* Element [n] of the chosen sequences among those of all. */
static size_t whole_at(const Tensor *some, const Tensor *all, uint32_t axis, const int64_t *which,
                       size_t n)
{
    size_t inner = 1;
    for (uint32_t d = axis + 1; d < some->rank; d++) inner *= (size_t)some->shape[d];
    const size_t count = (size_t)some->shape[axis], b = n / inner % count;
    return (n / inner / count * (size_t)all->shape[axis] + (size_t)which[b]) * inner + n % inner;
}

static Tensor chosen_of(Run *r, const Tensor *all, uint32_t axis, const int64_t *which,
                        int64_t count)
{
    int64_t shape[8];
    memcpy(shape, all->shape, sizeof shape);
    if (axis < all->rank) shape[axis] = count;
    Tensor some = exec_new_tensor(r, all->name, all->dtype, shape, all->rank);
    some.role = all->role, some.output = all->output, some.absent = all->absent;
    for (size_t n = 0; n < some.elements; n++)
        exec_put_at(&some, n,
                    all->output        ? (double)NAN
                    : axis < all->rank ? all->values[whole_at(&some, all, axis, which, n)]
                                       : all->values[n]);
    return some;
}

/* A call of these sequences alone, in this order. */
static Run *chosen(Run *r, const int64_t *which, int64_t count)
{
    Run *out = AU_NEW(r->arena, Run);
    uint32_t rows;
    const AuTensorRow *of = driver_tensors(r->arena, r->attn, r->grads, &rows);
    *out = *r;
    out->has_others = true;
    out->sizes[attn_at(r->attn, r->attn->tensors[0].axes[0])->integer] = count;
    for (uint32_t n = 0; n < r->tensor_count; n++)
        out->tensors[n] = chosen_of(r, &r->tensors[n], batch_axis(r, &of[n]), which, count);
    return out;
}

void exec_be_among_others(Run *laid_out)
{
    static const double others[] = {3, -0.5, 1.75, -4, 0.25, 2, -2.5};
    for (uint32_t n = 0; n < laid_out->tensor_count; n++) {
        Tensor *t = &laid_out->tensors[n];
        if (t->output || t->absent) continue;
        for (size_t i = 0; i < t->elements; i++)
            if (isnan(t->values[i]))
                exec_put_at(t, i, others[i * 5 % (sizeof others / sizeof *others)]);
    }
}

static bool have_same_bits(Run *r, const Run *some, const int64_t *which)
{
    uint32_t rows;
    const AuTensorRow *of = driver_tensors(r->arena, r->attn, r->grads, &rows);
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *to = &r->tensors[n], *from = &some->tensors[n];
        const uint32_t axis = batch_axis(r, &of[n]);
        if (!to->output || to->absent || axis == to->rank) continue;
        const size_t bytes = exec_bytes_of(to->dtype);
        for (size_t i = 0; i < from->elements; i++) {
            const size_t at = whole_at(from, to, axis, which, i);
            if (memcmp(to->bytes + exec_memory_index(to, at) * bytes, from->bytes + i * bytes,
                       bytes) != 0)
                return exec_fail(r, to->name,
                                 au_format(r->arena, "other bits of element %zu among %s", at,
                                           some->tensors[0].shape[0] > 1 ? "others" : "nobody"));
        }
    }
    return true;
}

bool exec_has_own_bits(Run *r, struct AuVariant *v, ExecVariant *run)
{
    const int64_t all = r->tensors[0].shape[0];
    int64_t back[MOST_SEQUENCES];
    if (v->schedule->by_batch) return exec_fail(r, "neighbours", "bits depend on the batch");
    if (all < 2 || all > MOST_SEQUENCES) return exec_fail(r, "neighbours", "how many sequences");
    for (int64_t b = 0; b < all; b++) back[b] = all - 1 - b;
    Run *reversed = chosen(r, back, all), *alone = chosen(r, back + all - 1, 1);
    return run(reversed, v) && have_same_bits(r, reversed, back) && run(alone, v) &&
           have_same_bits(r, alone, back + all - 1);
}
