/* layouts_test.c - functions of static builds over rows in layouts: keys in pages, with an index that a call may get wrong, and packed
 * rows with their gradients, each sequence against the formula. Standard library alone. */
#include "cache.h"
#include "rows.h"

#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 3, H = 4, HK = 2, S = 3, D = 16, SLOTS = 4, ENTRIES = 6, ROOM = SLOTS * ENTRIES };
enum { PAGES = B * ENTRIES, KINDS = 5, BYTES = 1 << 20 };

static int failures;
static const int32_t lengths[B] = {23, 0, 6};
static unsigned char workspace[BYTES] __attribute__((aligned(64)));

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("failed: %s\n", what);
    failures++;
}

/* ---- keys in pages */

typedef struct Cache {
    float q[B * H * S * D], k[PAGES * HK * SLOTS * D], v[PAGES * HK * SLOTS * D], o[B * H * S * D];
    float slope[H], bias[KINDS];
    int32_t table[B * ENTRIES], kind[B * ROOM];
} Cache;

/* Sequence b has pages in another order than their numbers, and nothing else is read: what lies behind its end is NaN. */
static void fill_cache(Cache *c)
{
    reference_fill(c->q, B * H * S * D, 1);
    reference_fill(c->k, PAGES * HK * SLOTS * D, 2);
    reference_fill(c->v, PAGES * HK * SLOTS * D, 3);
    reference_fill(c->slope, H, 4);
    memset(c->bias, 0, sizeof c->bias);
    for (int n = 0; n < B * ENTRIES; n++) c->table[n] = (n * 7 + 3) % PAGES;
    for (int n = 0; n < B * ROOM; n++) c->kind[n] = n % KINDS;
    for (int b = 0; b < B; b++)
        for (int j = lengths[b]; j < ROOM; j++) {
            const size_t page = (size_t)c->table[b * ENTRIES + j / SLOTS];
            for (int h = 0; h < HK; h++)
                for (int d = 0; d < D; d++)
                    c->k[((page * HK + (size_t)h) * SLOTS + (size_t)(j % SLOTS)) * D + (size_t)d] =
                        NAN;
        }
}

static void gather(const Cache *c, int b, float *k, float *v)
{
    for (int h = 0; h < HK; h++)
        for (int j = 0; j < lengths[b]; j++) {
            const int page = c->table[b * ENTRIES + j / SLOTS];
            const size_t from = (size_t)((page * HK + h) * SLOTS + j % SLOTS) * D;
            memcpy(k + (size_t)(h * lengths[b] + j) * D, c->k + from, D * sizeof *k);
            memcpy(v + (size_t)(h * lengths[b] + j) * D, c->v + from, D * sizeof *v);
        }
}

static cache_forward_args args_of(Cache *c)
{
    cache_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = CACHE_F32;
    a.B = B, a.H = H, a.S = S, a.D = D, a.Hk = HK, a.T = ROOM, a.W = KINDS;
    a.T_pages = PAGES, a.T_slots = SLOTS, a.T_entries = ENTRIES;
    a.q = c->q, a.k = c->k, a.v = c->v, a.o = c->o, a.slope = c->slope, a.bias = c->bias;
    a.kind = c->kind, a.T_table = c->table, a.T_lengths = lengths;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

static void test_pages(void)
{
    static Cache c;
    static float k[HK * ROOM * D], v[HK * ROOM * D];
    fill_cache(&c);
    const cache_forward_args a = args_of(&c);
    expect(cache_forward_workspace(&a) <= BYTES, "a small workspace");
    const int status = cache_forward(&a);
    expect(status == 0, cache_message(status));
    for (int b = 0; b < B; b++) {
        gather(&c, b, k, v);
        const float *o = c.o + b * H * S * D;
        const Reference r = {.H = H,
                             .Hk = HK,
                             .S = S,
                             .T = lengths[b],
                             .D = D,
                             .q = c.q + b * H * S * D,
                             .k = k,
                             .v = v,
                             .slope = c.slope,
                             .window = INT64_MAX};
        if (lengths[b]) expect(reference_error(&r, o, NULL) < 1e-5, "a sequence");
        for (int n = 0; n < H * S * D && !lengths[b]; n++)
            if (o[n] != 0) expect(0, "rows without keys are 0");
    }
}

/* Indices of a sequence's own keys are looked at, and no others. */
static void test_checked(void)
{
    static Cache c;
    fill_cache(&c);
    const cache_forward_args a = args_of(&c);
    c.kind[0 * ROOM + 23] = c.kind[1 * ROOM] = c.kind[2 * ROOM + 6] = KINDS; /* behind the ends */
    expect(cache_forward(&a) == 0, "what lies behind a sequence's end does not count");
    c.kind[2 * ROOM + 5] = KINDS;
    const char *said = cache_message(cache_forward(&a));
    expect(strstr(said, "cache.attn:10:") && strstr(said, "outside of axis 0 of bias"), said);
}

/* ---- packed rows */

enum { TOTAL = 16, HEADS = 2 };
static const int32_t starts[B + 1] = {0, 9, 9, 13}; /* three rows are of no sequence */

typedef struct Rows {
    float q[HEADS * TOTAL * D], k[HEADS * TOTAL * D], v[HEADS * TOTAL * D], o[HEADS * TOTAL * D];
    float lse[HEADS * TOTAL], go[HEADS * TOTAL * D];
    float dq[HEADS * TOTAL * D], dk[HEADS * TOTAL * D], dv[HEADS * TOTAL * D];
} Rows;

/* Rows [first] and on of each head, side by side. */
static void cut(const float *from, int first, int count, float *to)
{
    for (int h = 0; h < HEADS; h++)
        memcpy(to + (size_t)(h * count) * D, from + (size_t)(h * TOTAL + first) * D,
               (size_t)count * D * sizeof *to);
}

static void check_sequence(const Rows *r, int first, int count)
{
    static float q[HEADS * TOTAL * D], k[HEADS * TOTAL * D], v[HEADS * TOTAL * D];
    static float found[HEADS * TOTAL * D], go[HEADS * TOTAL * D];
    static double wq[HEADS * TOTAL * D], wk[HEADS * TOTAL * D], wv[HEADS * TOTAL * D];
    const int all = HEADS * count * D;
    cut(r->q, first, count, q), cut(r->k, first, count, k), cut(r->v, first, count, v);
    cut(r->go, first, count, go), cut(r->o, first, count, found);
    const Reference of = {.H = HEADS,
                          .Hk = HEADS,
                          .S = count,
                          .T = count,
                          .D = D,
                          .q = q,
                          .k = k,
                          .v = v,
                          .window = INT64_MAX};
    expect(reference_error(&of, found, NULL) < 1e-5, "rows of a sequence");
    memset(wq, 0, sizeof wq), memset(wk, 0, sizeof wk), memset(wv, 0, sizeof wv);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < count; i++)
            reference_row_back(&of, h, i, go + (h * count + i) * D, wq, wk, wv);
    cut(r->dq, first, count, found), expect(reference_worst(wq, found, all) < 1e-5, "dq");
    cut(r->dk, first, count, found), expect(reference_worst(wk, found, all) < 1e-5, "dk");
    cut(r->dv, first, count, found), expect(reference_worst(wv, found, all) < 1e-5, "dv");
}

static rows_forward_args forward_of(Rows *r, const int32_t *begins)
{
    rows_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = ROWS_F32;
    a.H = HEADS, a.S = TOTAL, a.T = TOTAL, a.D = D, a.S_ends = B + 1;
    a.q = r->q, a.k = r->k, a.v = r->v, a.o = r->o, a.lse = r->lse;
    a.S_starts = a.T_starts = begins;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    return a;
}

static void test_packed(void)
{
    static Rows r;
    reference_fill(r.q, HEADS * TOTAL * D, 5), reference_fill(r.k, HEADS * TOTAL * D, 6);
    reference_fill(r.v, HEADS * TOTAL * D, 7), reference_fill(r.go, HEADS * TOTAL * D, 8);
    const rows_forward_args a = forward_of(&r, starts);
    int status = rows_forward(&a);
    expect(status == 0, rows_message(status));
    rows_backward_args b;
    memset(&b, 0, sizeof b);
    b.struct_size = sizeof b, b.dtype = ROWS_F32;
    b.H = HEADS, b.S = TOTAL, b.T = TOTAL, b.D = D, b.S_ends = B + 1;
    b.q = r.q, b.k = r.k, b.v = r.v, b.o = r.o, b.lse = r.lse;
    b.do_ = r.go, b.dq = r.dq, b.dk = r.dk, b.dv = r.dv, b.S_starts = b.T_starts = starts;
    b.workspace = workspace, b.workspace_bytes = sizeof workspace;
    status = rows_backward(&b);
    expect(status == 0, rows_message(status));
    for (int n = 0; n < B; n++)
        if (starts[n + 1] > starts[n]) check_sequence(&r, starts[n], starts[n + 1] - starts[n]);
    for (int h = 0; h < HEADS; h++)
        for (int n = starts[B] * D; n < TOTAL * D; n++)
            if (r.o[h * TOTAL * D + n] != 0) expect(0, "rows of no sequence are 0");
}

/* Starts that nobody looks at here make no address outside: the sanitizers, where they watch, say so. */
static void test_wild(void)
{
    static Rows r;
    int32_t wild[B + 1] = {INT32_MIN, INT32_MAX, -7, 99};
    const rows_forward_args a = forward_of(&r, wild);
    expect(rows_forward(&a) == 0, "wild starts are taken as a part of the tensors");
}

/* Not even one for the end. */
static void test_no_starts(void)
{
    static Rows r;
    rows_forward_args a = forward_of(&r, starts);
    a.S_ends = 0;
    expect(strstr(rows_message(rows_forward(&a)),
                  "rows: requires S_starts has 2 elements at least") != NULL,
           rows_message(rows_forward(&a)));
}

int main(void)
{
    test_pages();
    test_checked();
    test_packed();
    test_wild();
    test_no_starts();
    printf("%d failed\n", failures);
    return failures != 0;
}
