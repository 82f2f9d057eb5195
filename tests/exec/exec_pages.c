/* exec_pages.c - a case with its keys in a layout. Padded: behind the sequence's keys rows of NaN. In pages: the same rows in an order of pages that is not theirs, NaN in slots that no sequence has, and
 * what is no page's number behind the end of each line of the table, which has room for more keys than there are. */
#include "internal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Pages {
    int64_t pages, slots, entries;
} Pages;

static Pages pages_of(const Run *r)
{
    const char *at = strstr(r->c->sizes, "slots=");
    const int64_t slots = at ? atoi(at + 6) : 16, keys = r->tensors[1].shape[2],
                  entries = (keys + slots - 1) / slots + 2;
    return (Pages){
        .pages = r->tensors[1].shape[0] * entries + 1, .slots = slots, .entries = entries};
}

/* The number of a page; the first one of the pool is nobody's. */
static int64_t page_of(const Pages *p, int64_t b, int64_t entry)
{
    return p->pages - 1 - (b * p->entries + entry);
}

static Tensor new_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape,
                         uint32_t rank)
{
    Tensor t = {.name = name, .dtype = dtype, .rank = rank, .elements = 1};
    for (uint32_t d = rank; d-- > 0;) {
        t.shape[d] = shape[d];
        t.strides[d] = (int64_t)t.elements;
        t.elements *= (size_t)shape[d];
    }
    t.span = t.elements;
    t.values = AU_NEW_ARRAY(r->arena, double, t.elements + 1);
    t.bytes = au_alloc(r->arena, (t.elements + 1) * exec_bytes_of(dtype) + 16);
    return t;
}

static void put(Tensor *t, size_t n, double value)
{
    t->values[n] = value;
    exec_put(t->bytes + n * exec_bytes_of(t->dtype), t->dtype, value);
}

static Tensor pool_of(Run *r, const Tensor *dense, const Pages *p)
{
    const int64_t heads = dense->shape[1], keys = dense->shape[2], width = dense->shape[3];
    Tensor pool =
        new_tensor(r, dense->name, dense->dtype, (int64_t[]){p->pages, heads, p->slots, width}, 4);
    for (size_t n = 0; n < pool.elements; n++) put(&pool, n, NAN);
    for (size_t n = 0; n < dense->elements; n++) {
        const int64_t row = (int64_t)n / width, key = row % keys, h = row / keys % heads,
                      page = page_of(p, row / keys / heads, key / p->slots);
        put(&pool,
            (size_t)(((page * heads + h) * p->slots + key % p->slots) * width + (int64_t)n % width),
            dense->values[n]);
    }
    return pool;
}

enum { BEHIND = 37 }; /* rows that no sequence has */

static Tensor padded(Run *r, const Tensor *dense)
{
    const int64_t keys = dense->shape[2], width = dense->shape[3], room = keys + BEHIND;
    Tensor all = new_tensor(r, dense->name, dense->dtype,
                            (int64_t[]){dense->shape[0], dense->shape[1], room, width}, 4);
    for (size_t n = 0; n < all.elements; n++) put(&all, n, NAN);
    for (size_t n = 0; n < dense->elements; n++) {
        const int64_t row = (int64_t)n / width;
        put(&all, (size_t)((row / keys * room + row % keys) * width + (int64_t)n % width),
            dense->values[n]);
    }
    return all;
}

static Tensor lengths_of(Run *r)
{
    const int64_t batch = r->tensors[1].shape[0];
    Tensor lengths = new_tensor(r, "lengths", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++) put(&lengths, (size_t)b, (double)r->tensors[1].shape[2]);
    return lengths;
}

static void add_outputs(const Run *r, Run *out)
{
    const uint32_t more = out->attn->tensor_count - r->attn->tensor_count;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
        out->tensors[n + more] = r->tensors[n];
    out->tensor_count += more;
}

Run *exec_padded(Run *r, AuAttn *attn)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->attn = attn;
    out->sizes[attn_at(attn, attn->tensors[1].axes[2])->integer] += BEHIND;
    for (uint32_t n = 1; n < 3 && !(n == 2 && attn->v_in_k); n++)
        out->tensors[n] = padded(r, &r->tensors[n]);
    out->tensors[attn->keys.lengths] = lengths_of(r);
    add_outputs(r, out);
    return out;
}

Run *exec_paged(Run *r, AuAttn *paged)
{
    const Pages p = pages_of(r);
    const int64_t batch = r->tensors[1].shape[0], keys = r->tensors[1].shape[2];
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->attn = paged;
    out->sizes[paged->keys.pages] = p.pages;
    out->sizes[paged->keys.slots] = p.slots;
    out->sizes[paged->keys.entries] = p.entries;
    for (uint32_t n = 1; n < 3 && !(n == 2 && paged->v_in_k); n++)
        out->tensors[n] = pool_of(r, &r->tensors[n], &p);
    Tensor table = new_tensor(r, "table", AU_DT_I32, (int64_t[]){batch, p.entries}, 2);
    for (int64_t n = 0; n < batch * p.entries; n++) {
        const int64_t b = n / p.entries, e = n % p.entries;
        put(&table, (size_t)n,
            e * p.slots < keys ? (double)page_of(&p, b, e)
            : e % 2            ? INT_MAX
                               : -1);
    }
    out->tensors[paged->keys.table] = table;
    out->tensors[paged->keys.lengths] = lengths_of(r);
    add_outputs(r, out);
    return out;
}
