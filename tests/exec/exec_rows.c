/* exec_rows.c - kernels for few queries that are packed or padded, beside the oracle, where all sequences have as many rows: against kernels for any
 * number, where each has its own, none too; and with lists that say what is not so, of which no address may come that is outside. */
#include "internal.h"

#include "driver.h"

#include <math.h>
#include <string.h>

static bool is_packed(const AuAttn *a) { return a->queries.layout == AU_LAYOUT_PACKED; }

static Tensor *list_of(Run *r)
{
    const AuRowLayout *rows = &r->attn->queries;
    return &r->tensors[is_packed(r->attn) ? rows->starts : rows->lengths];
}

/* All rows, one less, .., none, all again. Of batches of few and many: all, one, as many as are few, none, one more, two. */
static int64_t rows_of(const Run *r, size_t b)
{
    const bool of_lanes = strstr(r->suite->name, ":generic"),
               on_cpu = !of_lanes && !strstr(r->suite->name, ":sm_");
    const int64_t most = r->tensors[0].shape[2],
                  limit = of_lanes ? 48
                          : on_cpu ? 8
                                   : 32,
                  rows_of_group =
                      (on_cpu ? 16 : 64) * r->tensors[1].shape[1] / r->tensors[0].shape[1],
                  few = rows_of_group < limit ? rows_of_group : limit,
                  mixed[] = {most, 1, few, 0, few + 1, 2};
    if (!exec_has(r, "mixed")) return most - (int64_t)b % (most + 1);
    const int64_t rows = mixed[b % (sizeof mixed / sizeof *mixed)];
    return rows < most ? rows : most;
}

static Run *laid_out(Run *r, AuAttn *attn)
{
    return is_packed(attn) ? exec_packed(r, attn) : exec_ragged(r, attn);
}

void exec_own_rows(const Run *r, Run *out)
{
    Tensor *list = list_of(out);
    double start = 0;
    for (size_t n = 0; n < list->elements; n++) {
        exec_put_at(list, n, is_packed(out->attn) ? start : (double)rows_of(r, n));
        start += (double)rows_of(r, n);
    }
}

static Run *uneven(Run *r, AuAttn *attn)
{
    Run *out = laid_out(r, attn);
    exec_own_rows(r, out);
    return out;
}

/* Numbers that no list should have; starts that do not decrease, since rows of two sequences would be written by blocks of both, and begin with 0 or
 * before it, since rows before the first sequence are not written. */
static bool run_wild(Run *r, const AuVariant *few)
{
    const double most = (double)r->tensors[0].shape[2],
                 large = is_packed(few->attn) ? INT32_MAX : most;
    const double odd[] = {-1, INT32_MIN, 3, 1, large - 2, large, 0};
    enum { TRIES = 3, ODD = sizeof odd / sizeof *odd };
    for (size_t n = 0; n < TRIES; n++) {
        Run *wild = laid_out(r, few->attn);
        Tensor *list = list_of(wild);
        double before = INT32_MIN;
        for (size_t i = 0; i < list->elements; i++) {
            const bool first = i == 0 && is_packed(few->attn);
            const double next = odd[first ? n % 2 : (i * 3 + n * 2) % ODD];
            before = is_packed(few->attn) ? fmax(before, next) : next;
            exec_put_at(list, i, before);
        }
        if (!exec_run_once(wild, few)) return false;
    }
    return true;
}

bool exec_uneven_rows(Run *r, const AuVariant *few, const AuVariant *any)
{
    Run *some = uneven(r, few->attn), *all = uneven(r, any->attn);
    const uint32_t own = r->attn->tensor_count;
    for (uint32_t n = own; n < r->tensor_count; n++) { /* outputs of their own */
        Tensor *t = &all->tensors[n + any->attn->tensor_count - own];
        unsigned char *bytes =
            AU_NEW_ARRAY(r->arena, unsigned char, (t->span + 16) * exec_bytes_of(t->dtype));
        memcpy(bytes, t->bytes, t->span * exec_bytes_of(t->dtype));
        t->bytes = bytes;
    }
    if (!run_wild(r, few) || !exec_run_variant(some, few) || !exec_given_work(some, few) ||
        !exec_run_once(all, any))
        return false;
    for (uint32_t n = own; n < r->tensor_count; n++) {
        const Tensor *t = &some->tensors[n + few->attn->tensor_count - own];
        if (t->output && !t->absent &&
            !exec_are_near(r, t, &all->tensors[n + any->attn->tensor_count - own], "as few rows",
                           "as any number"))
            return false;
    }
    return true;
}
