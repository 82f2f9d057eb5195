/* exec_pages.c - a case with its rows in a layout, results and gradients of rows too. Padded: behind the sequence's keys rows of NaN, whose gradients must be 0. Queries alike, `ragged`, whose results behind must be 0. Packed: sequences one behind the other, an empty one before them where keys are packed too, and
 * behind them rows of NaN, of which queries must give 0. In pages: the same rows in an order of pages that is not theirs, NaN in slots that no sequence has, and
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

void exec_place_in_pages(const Run *r, int64_t *b, int64_t *key)
{
    const Pages p = pages_of(r);
    *b = page_of(&p, *b, *key / p.slots);
    *key %= p.slots;
}

Tensor exec_new_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape, uint32_t rank)
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

void exec_put_at(Tensor *t, size_t n, double value)
{
    t->values[n] = value;
    exec_put(t->bytes + n * exec_bytes_of(t->dtype), t->dtype, value);
}

/* What lies where no sequence has a row: codes of 8 bits that are NaN, of i8 the largest number. */
static double nothing(const Tensor *t) { return t->dtype == AU_DT_U8 ? 0x7f : NAN; }

static Tensor pool_of(Run *r, const Tensor *dense, const Pages *p)
{
    const int64_t heads = dense->shape[1], keys = dense->shape[2], width = dense->shape[3];
    Tensor pool = exec_new_tensor(r, dense->name, dense->dtype,
                                  (int64_t[]){p->pages, heads, p->slots, width}, 4);
    for (size_t n = 0; n < pool.elements; n++) exec_put_at(&pool, n, nothing(dense));
    for (size_t n = 0; n < dense->elements; n++) {
        const int64_t row = (int64_t)n / width, key = row % keys, h = row / keys % heads,
                      page = page_of(p, row / keys / heads, key / p->slots);
        exec_put_at(
            &pool,
            (size_t)(((page * heads + h) * p->slots + key % p->slots) * width + (int64_t)n % width),
            dense->values[n]);
    }
    return pool;
}

enum {
    BEHIND = 37, /* rows that no sequence has */
    NOBODYS =
        2 /* rows of tables and of caches that no sequence has, where `rows` says which it has */
};

/* `rows`: those of sequences lie in an order of their own. */
static int64_t lines_of(const Run *r)
{
    return r->tensors[1].shape[0] + (exec_has(r, "rows") ? NOBODYS : 0);
}

int64_t exec_line_of(const Run *r, int64_t b)
{
    return exec_has(r, "rows") ? lines_of(r) - 1 - b : b;
}

typedef enum Side { NO_ROWS, QUERIES, KEYS } Side;

static Side side_of(const Tensor *t)
{
    switch (t->role) {
    case AULE_ROLE_OUTPUT:
    case AULE_ROLE_FINAL:
    case AULE_ROLE_KEPT:
    case AULE_ROLE_KEPT_ROW:
    case AULE_ROLE_DOUT:
    case AULE_ROLE_DFINAL: return QUERIES;
    case AULE_ROLE_GRAD:
        return strcmp(t->name, "dq") == 0                                 ? QUERIES
               : strcmp(t->name, "dk") == 0 || strcmp(t->name, "dv") == 0 ? KEYS
                                                                          : NO_ROWS;
    default: return NO_ROWS;
    }
}

static bool is_of_queries(const Tensor *t)
{
    return side_of(t) == QUERIES || strcmp(t->name, "q") == 0;
}

/* `lines`: q, o and finals have rows in another order than keys have with `rows`, the first and the last of them nobody's. */
static int64_t lines_with(const Run *r, const Tensor *rows)
{
    if (!is_of_queries(rows)) return lines_of(r);
    return rows->shape[0] + (exec_has(r, "lines") ? NOBODYS : 0);
}

int64_t exec_query_line_of(const Run *r, int64_t b)
{
    return exec_has(r, "lines") ? r->tensors[0].shape[0] - b : b;
}

static int64_t line_with(const Run *r, const Tensor *rows, int64_t b)
{
    return is_of_queries(rows) ? exec_query_line_of(r, b) : exec_line_of(r, b);
}

static size_t width_of(const Tensor *t) { return t->rank > 3 ? (size_t)t->shape[3] : 1; }

/* Element n of a dense tensor [B, H, rows, width] among padded ones. */
static size_t padded_at(const Run *r, const Tensor *dense, size_t n)
{
    const size_t keys = (size_t)dense->shape[2], width = width_of(dense),
                 heads = (size_t)dense->shape[1], row = n / width, b = row / keys / heads;
    const size_t all = (size_t)line_with(r, dense, (int64_t)b) * heads + row / keys % heads;
    return (all * (keys + BEHIND) + row % keys) * width + n % width;
}

static Tensor padded(Run *r, const Tensor *dense)
{
    const int64_t room = dense->shape[2] + BEHIND,
                  shape[4] = {lines_with(r, dense), dense->shape[1], room,
                              (int64_t)width_of(dense)};
    Tensor all = exec_new_tensor(r, dense->name, dense->dtype, shape, dense->rank);
    all.role = dense->role, all.output = dense->output, all.absent = dense->absent;
    for (size_t n = 0; n < all.elements; n++) exec_put_at(&all, n, nothing(dense));
    for (size_t n = 0; n < dense->elements && !dense->output; n++)
        exec_put_at(&all, padded_at(r, dense, n), dense->values[n]);
    return all;
}

Tensor exec_lines(Run *r, const Tensor *dense)
{
    int64_t shape[4];
    memcpy(shape, dense->shape, sizeof shape);
    shape[0] = lines_of(r);
    Tensor all = exec_new_tensor(r, dense->name, dense->dtype, shape, 4);
    const size_t each = dense->shape[0] ? dense->elements / (size_t)dense->shape[0] : 0;
    for (size_t n = 0; n < all.elements; n++) exec_put_at(&all, n, nothing(dense));
    for (size_t n = 0; n < dense->elements; n++)
        exec_put_at(&all, (size_t)exec_line_of(r, (int64_t)(n / each)) * each + n % each,
                    dense->values[n]);
    return all;
}

/* Element n of a dense tensor [B, H, rows, ..] among packed ones. */
static size_t packed_at(const Tensor *dense, const Tensor *packed, size_t n)
{
    const size_t width = dense->rank > 3 ? (size_t)dense->shape[3] : 1,
                 rows = (size_t)dense->shape[2], heads = (size_t)dense->shape[1];
    const size_t row = n / width, b = row / rows / heads, h = row / rows % heads;
    return (h * (size_t)packed->shape[2] + b * rows + row % rows) * width + n % width;
}

static Tensor packed_rows(Run *r, const Tensor *dense)
{
    int64_t shape[4] = {1, dense->shape[1], dense->shape[0] * dense->shape[2] + BEHIND, 1};
    if (dense->rank > 3) shape[3] = dense->shape[3];
    Tensor all = exec_new_tensor(r, dense->name, dense->dtype, shape, dense->rank);
    all.role = dense->role, all.output = dense->output, all.absent = dense->absent;
    for (size_t n = 0; n < all.elements; n++) exec_put_at(&all, n, nothing(dense));
    for (size_t n = 0; n < dense->elements && !dense->output; n++)
        exec_put_at(&all, packed_at(dense, &all, n), dense->values[n]);
    return all;
}

Tensor exec_sequences(Run *r, const AuAttn *a, const Tensor *dense)
{
    if (a->keys.layout == AU_LAYOUT_PADDED) return exec_lines(r, dense);
    if (a->keys.layout != AU_LAYOUT_PACKED) return *dense;
    const int64_t shape[4] = {dense->shape[0] + 1, dense->shape[1], dense->shape[2],
                              dense->shape[3]};
    Tensor all = exec_new_tensor(r, dense->name, dense->dtype, shape, 4);
    const size_t before = all.elements - dense->elements; /* of a sequence without rows */
    for (size_t n = 0; n < before; n++) exec_put_at(&all, n, nothing(dense));
    for (size_t n = 0; n < dense->elements; n++) exec_put_at(&all, before + n, dense->values[n]);
    return all;
}

Tensor exec_key_rows(Run *r, const AuAttn *a, const Tensor *dense)
{
    const Pages p = pages_of(r);
    return a->keys.layout == AU_LAYOUT_PAGED    ? pool_of(r, dense, &p)
           : a->keys.layout == AU_LAYOUT_PADDED ? padded(r, dense)
           : a->keys.layout == AU_LAYOUT_PACKED ? packed_rows(r, dense)
                                                : *dense;
}

/* Whose rows a result or a gradient has. */
static Tensor lengths_of(Run *r, const Tensor *rows)
{
    const int64_t batch = rows->shape[0];
    Tensor lengths = exec_new_tensor(r, "lengths", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++) exec_put_at(&lengths, (size_t)b, (double)rows->shape[2]);
    return lengths;
}

/* Rows at odd positions of [B, H, rows, width]. */
static Tensor odd_rows(Run *r, const Tensor *all)
{
    const size_t keys = (size_t)all->shape[2], width = (size_t)all->shape[3], half = keys / 2;
    const int64_t shape[4] = {all->shape[0], all->shape[1], (int64_t)half, all->shape[3]};
    Tensor odd = exec_new_tensor(r, all->name, all->dtype, shape, 4);
    odd.role = all->role;
    for (size_t n = 0; n < odd.elements; n++) {
        const size_t row = n / width, from = row / half * keys + row % half * 2 + 1;
        exec_put_at(&odd, n, all->values[from * width + n % width]);
    }
    return odd;
}

Run *exec_odd_keys(Run *r, const AuAttn *attn)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    for (uint32_t n = 3; n < r->attn->tensor_count; n++)
        if (attn->tensors[n].as_keys) out->tensors[n] = odd_rows(r, &r->tensors[n]);
    for (uint32_t n = 1; n < 3; n++) {
        out->tensors[n] = odd_rows(r, &r->tensors[n]);
        if (!attn->storage[n - 1].as || !attn->storage[n - 1].by_token) continue;
        out->scales[n - 1] = odd_rows(r, &r->scales[n - 1]);
        out->zeros[n - 1] = odd_rows(r, &r->zeros[n - 1]);
    }
    out->sizes[attn_at(r->attn, r->attn->tensors[1].axes[2])->integer] /= 2;
    return out;
}

static void add_positions(const Run *r, Run *out)
{
    const AuRowLayout *keys = &out->attn->keys;
    if (!keys->has_positions) return;
    const int64_t batch = r->tensors[1].shape[0], half = r->tensors[1].shape[2];
    Tensor first = exec_new_tensor(out, "first", AU_DT_I32, &batch, 1),
           whole = exec_new_tensor(out, "whole", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++) {
        exec_put_at(&first, (size_t)b, 1);
        exec_put_at(&whole, (size_t)b, (double)(2 * half));
    }
    out->tensors[keys->first] = first, out->tensors[keys->whole] = whole;
    out->params[keys->every] = 2;
    out->params_i64[keys->every] = 2;
}

static void add_rows(const Run *r, Run *out)
{
    add_positions(r, out);
    const AuRowLayout *keys = &out->attn->keys;
    if (!keys->has_rows) return;
    const int64_t batch = r->tensors[1].shape[0];
    Tensor rows = exec_new_tensor(out, "rows", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++) exec_put_at(&rows, (size_t)b, (double)exec_line_of(r, b));
    out->tensors[keys->rows] = rows;
    if (!keys->is_csr) out->sizes[keys->lines] = lines_of(r);
}

void exec_add_outputs(const Run *r, Run *out)
{
    const uint32_t more = out->attn->tensor_count - r->attn->tensor_count;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
        out->tensors[n + more] = r->tensors[n];
    out->tensor_count += more;
}

static Run *with_padded_keys(Run *r, AuAttn *attn)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->attn = attn;
    out->sizes[attn_at(attn, attn->tensors[1].axes[2])->integer] += BEHIND;
    for (uint32_t n = 1; n < 3 && !(n == 2 && attn->v_in_k); n++)
        out->tensors[n] = padded(r, &r->tensors[n]);
    if (!attn->keys.has_no_lengths)
        out->tensors[attn->keys.lengths] = lengths_of(r, &r->tensors[1]);
    add_rows(r, out);
    exec_add_outputs(r, out);
    for (uint32_t n = attn->tensor_count; n < out->tensor_count; n++)
        if (side_of(&out->tensors[n]) == KEYS) out->tensors[n] = padded(out, &out->tensors[n]);
    return out;
}

Run *exec_padded(Run *r, AuAttn *attn)
{
    Run *out = with_padded_keys(r, attn);
    exec_pack_inputs(r, out);
    return out;
}

static Run *with_paged_keys(Run *r, AuAttn *paged);

static void add_query_rows(Run *r, Run *out)
{
    const AuRowLayout *queries = &out->attn->queries;
    if (!queries->has_rows) return;
    const int64_t batch = r->tensors[0].shape[0];
    Tensor rows = exec_new_tensor(out, "rows", AU_DT_I32, &batch, 1);
    for (int64_t b = 0; b < batch; b++)
        exec_put_at(&rows, (size_t)b, (double)exec_query_line_of(r, b));
    out->tensors[queries->rows] = rows;
    out->sizes[queries->lines] = batch + NOBODYS;
}

/* Queries, and keys as they are, padded or in pages. */
Run *exec_ragged(Run *r, AuAttn *attn)
{
    const AuLayout keys = attn->keys.layout;
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->attn = attn;
    if (keys == AU_LAYOUT_DENSE)
        exec_add_outputs(r, out);
    else
        out = keys == AU_LAYOUT_PAGED ? with_paged_keys(r, attn) : with_padded_keys(r, attn);
    if (attn->tensors[0].axes[2].i != attn->tensors[1].axes[2].i)
        out->sizes[attn_at(attn, attn->tensors[0].axes[2])->integer] += BEHIND;
    out->tensors[0] = padded(r, &r->tensors[0]);
    out->tensors[attn->queries.lengths] = lengths_of(r, &r->tensors[0]);
    add_query_rows(r, out);
    for (uint32_t n = attn->tensor_count; n < out->tensor_count; n++)
        if (side_of(&out->tensors[n]) == QUERIES) out->tensors[n] = padded(r, &out->tensors[n]);
    exec_pack_inputs(r, out);
    return out;
}

/* ---- packed rows */

/* [empty]: sequences without a row before the others. */
static Tensor starts_of(Run *r, const Tensor *dense, int64_t empty)
{
    const int64_t ends = dense->shape[0] + 1 + empty;
    Tensor starts = exec_new_tensor(r, "starts", AU_DT_I32, &ends, 1);
    for (int64_t n = 0; n < ends; n++)
        exec_put_at(&starts, (size_t)n, (double)(dense->shape[2] * (n < empty ? 0 : n - empty)));
    return starts;
}

static void set_size(Run *r, AuExpr axis, int64_t size)
{
    r->sizes[attn_at(r->attn, axis)->integer] = size;
}

static void pack(const Run *dense, Run *out, uint32_t first, uint32_t last, uint32_t starts,
                 int64_t empty)
{
    AuAttn *a = out->attn;
    const AuRowLayout *rows = first ? &a->keys : &a->queries;
    out->sizes[rows->ends] = dense->tensors[first].shape[0] + 1 + empty;
    set_size(out, a->tensors[first].axes[2],
             dense->tensors[first].shape[0] * dense->tensors[first].shape[2] + BEHIND);
    for (uint32_t n = first; n <= last && !(n == 2 && a->v_in_k); n++)
        out->tensors[n] = packed_rows(out, &dense->tensors[n]);
    out->tensors[starts] = starts_of(out, &dense->tensors[first], empty);
}

/* As many rows as a sequence has. */
static void say_most(const Run *dense, Run *out, bool of_keys)
{
    const AuRowLayout *rows = of_keys ? &out->attn->keys : &out->attn->queries;
    if (!rows->says_most || rows->most) return;
    out->params_i64[rows->most_rows] = dense->tensors[of_keys].shape[2];
    out->params[rows->most_rows] = (double)dense->tensors[of_keys].shape[2];
}

Run *exec_packed(Run *r, AuAttn *attn)
{
    const bool keys = attn->keys.layout == AU_LAYOUT_PACKED;
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    out->attn = attn;
    if (keys) {
        pack(r, out, 1, 2, attn->keys.starts, 1);
        out->sizes[attn_at(attn, attn->tensors[0].axes[0])->integer] += 1;
        exec_add_outputs(r, out);
    } else {
        out = attn->keys.layout == AU_LAYOUT_PAGED ? with_paged_keys(r, attn)
                                                   : with_padded_keys(r, attn);
    }
    pack(r, out, 0, 0, attn->queries.starts, keys);
    say_most(r, out, false);
    if (keys) say_most(r, out, true);
    for (uint32_t n = attn->tensor_count; n < out->tensor_count; n++) {
        const Side side = side_of(&out->tensors[n]);
        if (side == QUERIES || (side == KEYS && keys))
            out->tensors[n] = packed_rows(out, &out->tensors[n]);
    }
    exec_pack_inputs(r, out);
    return out;
}

/* Has no sequence the row of q? */
static bool is_nobodys(const Run *r, size_t line)
{
    return line == 0 || line > (size_t)r->tensors[0].shape[0];
}

bool exec_unpack(Run *r, const Run *packed)
{
    const uint32_t more = packed->attn->tensor_count - r->attn->tensor_count;
    const bool of_queries = packed->attn->queries.layout != AU_LAYOUT_DENSE;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *from = &packed->tensors[n + more];
        Tensor *to = &r->tensors[n];
        const size_t bytes = exec_bytes_of(to->dtype);
        const Side side = side_of(to);
        if (to->output && side == NO_ROWS && !exec_unpack_input(r, packed, to, from)) return false;
        if (!to->output || side == NO_ROWS || (side == QUERIES && !of_queries)) continue;
        const AuRowLayout *rows_of = side == KEYS ? &packed->attn->keys : &packed->attn->queries;
        if (rows_of->layout == AU_LAYOUT_DENSE) continue; /* in the memory of [r] */
        const bool pads = rows_of->layout == AU_LAYOUT_PADDED;
        for (size_t i = 0; i < to->elements; i++)
            memcpy(to->bytes + exec_memory_index(to, i) * bytes,
                   from->bytes + (pads ? padded_at(r, to, i) : packed_at(to, from, i)) * bytes,
                   bytes);
        const bool is_0 = to->role == AULE_ROLE_OUTPUT || to->role == AULE_ROLE_GRAD;
        const size_t row = from->rank > 3 ? (size_t)from->shape[3] : 1,
                     rows = (size_t)from->shape[2], line = row * rows * (size_t)from->shape[1];
        for (size_t i = 0; i < from->elements && is_0; i++)
            if ((i / row % rows + BEHIND >= rows ||
                 (rows_of->has_rows && is_of_queries(to) && is_nobodys(r, i / line))) &&
                exec_get(from->bytes + i * bytes, to->dtype) != 0)
                return exec_fail(r, to->name, "rows of no sequence are not 0");
    }
    return true;
}

/* A table as one list: [each] pages of a line, of which there are no more keys than [most] says. */
static void add_csr(Run *r, Run *out, int64_t each)
{
    const AuRowLayout *keys = &out->attn->keys;
    const int64_t ends = lines_of(r) + 1, most = r->tensors[1].shape[2] + 3;
    Tensor starts = exec_new_tensor(r, "starts", AU_DT_I32, &ends, 1);
    for (int64_t n = 0; n < ends; n++) exec_put_at(&starts, (size_t)n, (double)(n * each));
    out->tensors[keys->table_starts] = starts;
    out->sizes[keys->ends] = ends;
    out->params[keys->most_keys] = (double)most;
    out->params_i64[keys->most_keys] = most;
}

static Run *with_paged_keys(Run *r, AuAttn *paged)
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
    /* Entries of a line; of one list no more than there are pages, and behind the last what is no page's number. */
    const bool csr = paged->keys.is_csr;
    const int64_t each = csr ? (keys + p.slots - 1) / p.slots : p.entries,
                  all = csr ? each * lines_of(r) + 1 : lines_of(r);
    Tensor table = exec_new_tensor(r, "table", AU_DT_I32, (int64_t[]){all, each}, csr ? 1 : 2);
    if (csr) out->sizes[paged->keys.entries] = all;
    for (size_t n = 0; n < table.elements; n++) exec_put_at(&table, n, n % 2 ? INT_MAX : -1);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t e = 0; e * p.slots < keys; e++)
            exec_put_at(
                &table, (size_t)(exec_line_of(r, b) * each + e),
                (double)page_of(&p, e * p.slots < exec_shared(r) ? exec_leader(r, b) : b, e));
    if (csr) add_csr(r, out, each);
    out->tensors[paged->keys.table] = table;
    out->tensors[paged->keys.lengths] = lengths_of(r, &r->tensors[1]);
    add_rows(r, out);
    exec_add_groups(r, out);
    exec_add_outputs(r, out);
    return out;
}

Run *exec_paged(Run *r, AuAttn *paged)
{
    Run *out = with_paged_keys(r, paged);
    exec_pack_inputs(r, out);
    return out;
}
