/* exec_groups.c - `groups`: neighbouring sequences whose first keys, `shared=N` among the sizes, are the same, on the same pages: three
 * groups, the second without a sequence. Against the oracle, where all sequences have as many keys; and, since a group's sequences have
 * lengths of their own, and rows where these are packed or padded, one with others (as long as what is shared, shorter than that) against the same call without groups.
 * `balanced`, parts by a list of equal ones, likewise against the same kernels without one. */
#include "internal.h"

#include "driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t exec_shared(const Run *r)
{
    const char *at = exec_has(r, "groups") ? strstr(r->c->sizes, "shared=") : NULL;
    return at ? atoi(at + 7) : 0;
}

static int64_t second_group(const Run *r)
{
    const int64_t batch = r->tensors[0].shape[0];
    return batch > 2 ? batch - 2 : 0;
}

int64_t exec_leader(const Run *r, int64_t b)
{
    return exec_has(r, "groups") && b < second_group(r) ? 0
           : exec_has(r, "groups")                      ? second_group(r)
                                                        : b;
}

void exec_share_rows(Run *r, Tensor *t)
{
    const int64_t shared = exec_shared(r), heads = t->shape[1], keys = t->shape[2], d = t->shape[3];
    const size_t bytes = exec_bytes_of(t->dtype);
    for (size_t n = 0; n < t->elements && shared; n++) {
        const int64_t row = (int64_t)n / d, b = row / keys / heads, of = exec_leader(r, b);
        if (row % keys >= shared) continue;
        const size_t from = n - (size_t)((b - of) * heads * keys * d);
        t->values[n] = t->values[from];
        memcpy(t->bytes + exec_memory_index(t, n) * bytes,
               t->bytes + exec_memory_index(t, from) * bytes, bytes);
    }
}

void exec_add_groups(const Run *r, Run *out)
{
    enum { GROUPS = 3 };
    const AuRowLayout *keys = &out->attn->keys;
    const int64_t batch = r->tensors[0].shape[0], second = second_group(r),
                  borders[GROUPS + 1] = {0, second, second, batch},
                  counts[2] = {GROUPS + 1, GROUPS};
    if (!keys->has_groups) return;
    Tensor groups = exec_new_tensor(out, "groups", AU_DT_I32, &counts[0], 1),
           shared = exec_new_tensor(out, "shared", AU_DT_I32, &counts[1], 1);
    for (size_t n = 0; n <= GROUPS; n++) exec_put_at(&groups, n, (double)borders[n]);
    for (size_t n = 0; n < GROUPS; n++) exec_put_at(&shared, n, (double)exec_shared(r));
    out->tensors[keys->groups] = groups, out->tensors[keys->shared] = shared;
    out->sizes[keys->shares] = GROUPS;
}

/* Leaders have all keys. Without groups one in three has, the others few, one, none, and what is no whole tile. */
static int64_t length_of(const Run *r, int64_t b)
{
    const int64_t all = r->tensors[1].shape[2], shared = exec_shared(r),
                  uneven[] = {all, 1, all / 2 + 3, 0, all - 1, all / 9};
    if (!exec_has(r, "groups")) return uneven[b % 6] < all ? uneven[b % 6] : all;
    if (b == exec_leader(r, b)) return all;
    if (b % 4 == 1) return shared > 7 ? shared - 7 : 0;
    return b % 4 == 2 || all - 5 * b < 0 ? shared : all - 5 * b;
}

/* [r] has what is stored. */
static Run *uneven(Run *r, AuAttn *attn)
{
    Run *out = attn->queries.layout == AU_LAYOUT_PACKED   ? exec_packed(r, attn)
               : attn->queries.layout == AU_LAYOUT_PADDED ? exec_ragged(r, attn)
               : attn->keys.layout == AU_LAYOUT_PADDED    ? exec_padded(r, attn)
                                                          : exec_paged(r, attn);
    if (attn->queries.layout) exec_own_rows(r, out);
    if (attn_is_stored(attn)) out = exec_with_scales(r, out, attn);
    Tensor *lengths = &out->tensors[attn->keys.lengths];
    for (size_t b = 0; b < lengths->elements; b++)
        exec_put_at(lengths, b, (double)length_of(r, (int64_t)b));
    return out;
}

/* Twice what rounding weights and results makes of numbers of a size around 1, summed in other parts. */
static double bound_of(const Run *r)
{
    const AuDtype d = exec_dtype_of(r->dtype);
    return d == AU_DT_F32 && !exec_is_tf32(r) ? 1e-5 : d == AU_DT_F16 ? 0x1p-9 : 0x1p-6;
}

bool exec_are_near(Run *r, const Tensor *a, const Tensor *b, const char *how, const char *other)
{
    const size_t bytes = exec_bytes_of(a->dtype);
    for (size_t n = 0; n < a->elements; n++) {
        const double x = exec_get(a->bytes + exec_memory_index(a, n) * bytes, a->dtype),
                     y = exec_get(b->bytes + exec_memory_index(b, n) * bytes, b->dtype);
        if (x != y && !(fabs(x - y) <= bound_of(r) * fmax(1, fabs(y))))
            return exec_fail(
                r, a->name,
                au_format(r->arena, "element %zu is %g %s and %g %s", n, x, how, y, other));
    }
    return true;
}

/* A number that no list should have, more often than not. */
static double odd_number(uint64_t *random)
{
    static const int64_t odd[] = {0, 1, 2, 3, 16, 64, -1, 1 << 30, INT32_MAX, INT32_MIN};
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (double)odd[(*random >> 33) % (sizeof odd / sizeof *odd)];
}

/* Lists that say what is not so: groups that do not begin with 0, decrease, overlap, end elsewhere; more shared than there is. Results are what
 * they may, but no address is outside, and no loop goes on: the interpreters look. Where what is shared is left as it is, borders do not
 * decrease: rows of groups that overlap would be written by blocks of both. */
static bool run_wild(Run *r, const AuVariant *with)
{
    enum { TRIES = 6 };
    uint64_t random = r->random;
    for (int n = 0; n < TRIES; n++) {
        Run *wild = uneven(r, with->attn);
        Tensor *groups = &wild->tensors[with->attn->keys.groups],
               *shared = &wild->tensors[with->attn->keys.shared];
        double border = INT32_MIN;
        for (size_t i = 0; i < groups->elements; i++) {
            const double next = odd_number(&random);
            border = n % 2 ? next : fmax(border, next);
            exec_put_at(groups, i, border);
        }
        for (size_t i = 0; i < shared->elements && n % 2; i++)
            exec_put_at(shared, i, odd_number(&random));
        if (!exec_run_once(wild, with)) return false;
    }
    return true;
}

/* Lengths of no sequence. */
static bool run_wild_lengths(Run *r, const AuVariant *v)
{
    enum { TRIES = 3 };
    uint64_t random = r->random;
    for (int n = 0; n < TRIES; n++) {
        Run *wild = uneven(r, v->attn);
        Tensor *lengths = &wild->tensors[v->attn->keys.lengths];
        for (size_t i = 0; i < lengths->elements; i++) exec_put_at(lengths, i, odd_number(&random));
        if (!exec_run_once(wild, v)) return false;
    }
    return true;
}

bool exec_uneven_groups(Run *r, const AuVariant *with, const AuVariant *without)
{
    Run *stored = attn_is_stored(with->attn) ? exec_stored(r, with->attn) : r,
        *some = uneven(stored, with->attn), *none = uneven(stored, without->attn);
    const uint32_t own = r->attn->tensor_count;
    for (uint32_t n = 0; n < own; n++) none->tensors[n] = some->tensors[n];
    for (uint32_t n = own; n < r->tensor_count; n++) { /* outputs of their own */
        Tensor *t = &none->tensors[n + without->attn->tensor_count - own];
        unsigned char *bytes =
            AU_NEW_ARRAY(r->arena, unsigned char, (t->span + 16) * exec_bytes_of(t->dtype));
        memcpy(bytes, t->bytes, t->span * exec_bytes_of(t->dtype));
        t->bytes = bytes;
    }
    if (!(with->attn->keys.has_groups ? run_wild : run_wild_lengths)(stored, with) ||
        !exec_run_variant(some, with) || !exec_given_work(some, with) ||
        !exec_run_once(none, without))
        return false;
    for (uint32_t n = own; n < r->tensor_count; n++) {
        const Tensor *t = &some->tensors[n + with->attn->tensor_count - own];
        if (t->output && !t->absent &&
            !exec_are_near(r, t, &none->tensors[n + without->attn->tensor_count - own],
                           with->balanced ? "by a list" : "with groups", "without"))
            return false;
    }
    return true;
}
