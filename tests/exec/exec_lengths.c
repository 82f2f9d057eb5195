/* exec_lengths.c - the word `lengths` of a case whose queries are padded (`ragged`), and maybe its keys (`padded`): each sequence has as many rows as its
 * lengths say, all, none, one and primes among them. What lies behind them is NaN, in given results of forward and gradients of these, too. The oracle is
 * asked for each sequence by itself, as for a call of its rows alone: nothing of theirs is known to it. */
#include "internal.h"

#include "aule/artifact.h"
#include "tensors.h"

#include <math.h>
#include <string.h>

/* Axes of tensors of the script's attention. */
typedef struct Axes {
    AuExpr batch, rows[2]; /* of queries, of keys */
    bool has_lengths[2];
    const AuTensorRow *tensors;
} Axes;

static Axes axes_of(Run *r)
{
    const AuTensor *q = &r->attn->tensors[0], *k = &r->attn->tensors[1];
    uint32_t count;
    Axes x = {.batch = q->axes[0], .rows = {q->axes[2], k->axes[2]}};
    x.has_lengths[0] = exec_has(r, "ragged");
    x.has_lengths[1] = exec_has(r, "padded") || (q->axes[2].i == k->axes[2].i && x.has_lengths[0]);
    x.tensors = driver_tensors(r->arena, r->attn, r->grads, &count);
    return x;
}

/* Rows of sequence b; more than there is room for: all. */
static int64_t length_of(const Run *r, const Axes *x, uint32_t side, int64_t b)
{
    enum { ALL = 1 << 20, MOST = 6 };
    static const int64_t lengths[2][MOST] = {{ALL, 1, 37, 0, 64, 13}, {31, ALL, 0, 5, 1, 67}};
    const int64_t all = r->tensors[side].shape[2];
    const bool is_one = x->rows[0].i == x->rows[1].i;
    const int64_t own = lengths[is_one ? 0 : side][b % MOST];
    return x->has_lengths[side] && own < all ? own : all;
}

/* Has the sequence of the element [at] so many rows? Who has no batch is of no sequence by itself. */
static bool is_there(const Run *r, const Axes *x, const AuTensorRow *of, const int64_t *at)
{
    int64_t b = -1;
    for (uint32_t d = 0; d < of->rank; d++)
        if (of->axes[d].i == x->batch.i) b = at[d];
    for (uint32_t d = 0; d < of->rank && b >= 0; d++)
        for (uint32_t side = 0; side < 2; side++)
            if (of->axes[d].i == x->rows[side].i && at[d] >= length_of(r, x, side, b)) return false;
    return true;
}

static void place(const Tensor *t, size_t n, int64_t *at)
{
    for (uint32_t d = t->rank; d-- > 0; n /= (size_t)t->shape[d])
        at[d] = (int64_t)(n % (size_t)t->shape[d]);
}

static bool is_whole(AuDtype d)
{
    return d == AU_DT_I32 || d == AU_DT_I64 || d == AU_DT_U8 || d == AU_DT_BOOL;
}

static void put_lengths(const Run *r, const Axes *x, uint32_t side, Tensor *list)
{
    for (size_t b = 0; b < list->elements; b++)
        exec_put_at(list, b, (double)length_of(r, x, side, (int64_t)b));
}

/* Who has the row of q; nobody's is NaN, whichever sequence is asked for. */
static int64_t sequence_of(const Run *r, int64_t line)
{
    int64_t b = 0;
    while (b < r->tensors[0].shape[0] && exec_query_line_of(r, b) != line) b++;
    return b;
}

void exec_set_lengths(Run *r, Run *out)
{
    const Axes x = axes_of(r);
    const uint32_t own = r->attn->tensor_count, more = out->attn->tensor_count - own;
    int64_t at[8];
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        Tensor *t = &out->tensors[n < own ? n : n + more];
        if (t->output || t->absent || t->bytes == r->tensors[n].bytes) continue;
        for (size_t i = 0; i < t->elements; i++) {
            place(t, i, at);
            if (n == 0 && exec_has(r, "lines")) at[0] = sequence_of(r, at[0]);
            if (!is_there(r, &x, &x.tensors[n], at))
                exec_put_at(t, i, is_whole(t->dtype) ? 1 : (double)NAN);
        }
    }
    put_lengths(r, &x, 0, &out->tensors[out->attn->queries.lengths]);
    if (out->attn->keys.layout == AU_LAYOUT_PADDED)
        put_lengths(r, &x, 1, &out->tensors[out->attn->keys.lengths]);
}

/* ---- the oracle */

static void set_size(const Run *r, Run *one, AuExpr axis, int64_t size)
{
    one->sizes[attn_at(r->attn, axis)->integer] = size;
}

/* What sequence b has of a tensor: the first elements of each axis, of the batch's the b-th. */
static Tensor part_of(Run *r, Run *one, const AuTensorRow *of, const Tensor *t)
{
    Tensor part = *t;
    part.elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        part.shape[d] = (int64_t)attn_scalar(r->attn, of->axes[d], one->sizes, r->params);
        part.elements *= (size_t)part.shape[d];
    }
    part.values = AU_NEW_ARRAY(r->arena, double, part.elements + 1);
    return part;
}

/* Element n of the part among those of the whole. */
static size_t whole_at(const Axes *x, const AuTensorRow *of, const Tensor *part, const Tensor *t,
                       size_t n, int64_t b)
{
    int64_t at[8];
    size_t out = 0;
    place(part, n, at);
    for (uint32_t d = 0; d < t->rank; d++)
        out = out * (size_t)t->shape[d] + (size_t)(of->axes[d].i == x->batch.i ? b : at[d]);
    return out;
}

/* Finals of rows that are none are not asked about. */
static void begin_results(const Run *r, double *const *results)
{
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        for (size_t i = 0; i < t->elements; i++)
            results[n][i] =
                t->role == AULE_ROLE_FINAL
                    ? exec_get(t->bytes + exec_memory_index(t, i) * exec_bytes_of(t->dtype),
                               t->dtype)
                    : 0;
    }
}

static bool ask_for_one(Run *r, const Axes *x, int64_t b, AuDtype round_to, double *const *results,
                        ExecOracle *ask)
{
    Run *one = AU_NEW(r->arena, Run);
    double *parts[MOST_TENSORS] = {NULL};
    *one = *r;
    set_size(r, one, x->batch, 1);
    for (uint32_t side = 0; side < 2; side++)
        set_size(r, one, x->rows[side], length_of(r, x, side, b));
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        Tensor *part = &one->tensors[n];
        *part = part_of(r, one, &x->tensors[n], t);
        for (size_t i = 0; i < part->elements; i++)
            part->values[i] = t->values[whole_at(x, &x->tensors[n], part, t, i, b)];
        parts[n] = AU_NEW_ARRAY(r->arena, double, part->elements + 1);
    }
    if (!ask(one, round_to, parts)) return false;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
        for (size_t i = 0; i < one->tensors[n].elements; i++) {
            double *to =
                &results[n][whole_at(x, &x->tensors[n], &one->tensors[n], &r->tensors[n], i, b)];
            /* Of an input that all sequences have theirs are added. */
            *to = parts[n][i] + (r->tensors[n].role == AULE_ROLE_GRAD ? *to : 0);
        }
    return true;
}

bool exec_ask_by_sequence(Run *r, AuDtype round_to, double *const *results, ExecOracle *ask)
{
    const Axes x = axes_of(r);
    begin_results(r, results);
    for (int64_t b = 0; b < r->tensors[0].shape[0]; b++)
        if (length_of(r, &x, 0, b) && !ask_for_one(r, &x, b, round_to, results, ask)) return false;
    return true;
}
