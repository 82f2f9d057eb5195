/* exec_unseen.c - NaN and infinities where the mask lets nobody look.
 *
 * `unseen`: in keys and values that no query of the head sees, in queries and gradients of outputs and finals of rows that see no key, in rows
 * of further products (q_pe, k_pe) alike. Nothing of them may be in any result.
 * `hidden`: in gradients of finals of rows 3, 10, 17, .., whose scores the script makes -inf, so that no mask keeps them out.
 * `later`: in the first value that no query before row FIRST sees, and in the output gradient of the last row that no key from the
 * first such one on is seen by. Blocks of queries and of keys have at most FIRST rows and begin at multiples of their size, so
 * rows before FIRST, and gradients of values from FIRST on, are as without. */
#include "internal.h"

#include <math.h>
#include <string.h>

enum { FIRST = 256 };

typedef struct Seen {
    Run *r;
    int64_t rows, keys;
    uint8_t *pairs; /* [B, H, rows, keys] */
    const Tensor *q;
} Seen;

static bool look(Seen *s)
{
    Run *r = s->r;
    const double *tensors[MOST_TENSORS];
    const char *why = NULL;
    for (uint32_t n = 0; n < r->attn->tensor_count; n++) tensors[n] = r->tensors[n].values;
    const AuOracleCall call = {
        .sizes = r->sizes, .tensors = tensors, .params = r->params, .params_i64 = r->params_i64};
    s->q = &r->tensors[0];
    s->rows = s->q->shape[2], s->keys = r->tensors[1].shape[2];
    const size_t heads = (size_t)(s->q->shape[0] * s->q->shape[1]),
                 map = (size_t)(s->rows * s->keys);
    s->pairs = AU_NEW_ARRAY(r->arena, uint8_t, heads * map + 1);
    for (size_t n = 0; n < heads; n++)
        if (!attn_mask_map(r->attn, &call, (int64_t)n / s->q->shape[1], (int64_t)n % s->q->shape[1],
                           s->pairs + n * map, r->arena, &why))
            return exec_fail(r, "mask", why ? why : "");
    return true;
}

static bool sees(const Seen *s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return s->pairs[((b * s->q->shape[1] + h) * s->rows + i) * s->keys + j];
}

static bool sees_any(const Seen *s, int64_t b, int64_t h, int64_t i)
{
    for (int64_t j = 0; j < s->keys; j++)
        if (sees(s, b, h, i, j)) return true;
    return false;
}

/* Before row [until], by a query head of key head [hk] among [heads]. */
static bool is_seen(const Seen *s, int64_t b, int64_t hk, int64_t heads, int64_t j, int64_t until)
{
    const int64_t group = s->q->shape[1] / heads;
    for (int64_t h = hk * group; h < (hk + 1) * group; h++)
        for (int64_t i = 0; i < until; i++)
            if (sees(s, b, h, i, j)) return true;
    return false;
}

static void plant(Tensor *t, int64_t b, int64_t h, int64_t row)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    const size_t width = t->rank > 3 ? (size_t)t->shape[3] : 1,
                 first = (size_t)((b * t->shape[1] + h) * t->shape[2] + row) * width;
    for (size_t n = first; n < first + width; n++) {
        unsigned char *at = t->bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype);
        exec_put(at, t->dtype, values[row % 3]);
        t->values[n] = exec_get(at, t->dtype);
    }
}

static void plant_unseen(const Seen *s, Tensor *t, bool of_keys, uint32_t *count)
{
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t row = 0; row < t->shape[2]; row++) {
                if (of_keys ? is_seen(s, b, h, t->shape[1], row, s->rows) : sees_any(s, b, h, row))
                    continue;
                plant(t, b, h, row), ++*count;
            }
}

static void plant_later(const Seen *s, Tensor *values, Tensor *slopes, uint32_t *count)
{
    int64_t key = 0, row = s->rows - 1;
    while (key < s->keys && is_seen(s, 0, 0, values->shape[1], key, FIRST)) key++;
    for (int64_t j = FIRST; j < s->keys && row >= 0;)
        if (sees(s, 0, 0, row, j))
            row--, j = FIRST;
        else
            j++;
    if (key == s->keys || row < 0) return;
    plant(values, 0, 0, key), ++*count;
    if (slopes) plant(slopes, 0, 0, row), ++*count; /* forward alone has none */
}

static bool upload(Tensor *t)
{
    return !t->buffer ||
           !aule_buffer_upload(t->buffer, 0, t->bytes, t->span * exec_bytes_of(t->dtype), NULL);
}

/* Gradients of finals of rows that have no pair though the mask lets them see all. */
static bool plant_hidden(Run *r)
{
    bool good = true;
    enum { EVERY = 7, HIDDEN = 3 };
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        Tensor *t = &r->tensors[n];
        if (t->absent || t->role != AULE_ROLE_DFINAL) continue;
        for (int64_t b = 0; b < t->shape[0]; b++)
            for (int64_t h = 0; h < t->shape[1]; h++)
                for (int64_t row = HIDDEN; row < t->shape[2]; row += EVERY) plant(t, b, h, row);
        good &= upload(t);
    }
    return good;
}

bool exec_plant(Run *r)
{
    Seen s = {.r = r};
    Tensor *slopes = NULL;
    uint32_t count = 0;
    if (exec_has(r, "hidden") && !plant_hidden(r)) return exec_fail(r, "upload", "hidden rows");
    if (!exec_has(r, "unseen") && !exec_has(r, "later")) return true;
    if (!look(&s)) return false;
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (r->tensors[n].role == AULE_ROLE_DOUT) slopes = &r->tensors[n];
    if (exec_has(r, "later")) plant_later(&s, &r->tensors[2], slopes, &count);
    for (uint32_t n = 0; n < r->attn->tensor_count && exec_has(r, "unseen"); n++) {
        Tensor *t = &r->tensors[n];
        const bool product = strcmp(t->name, "q_pe") == 0 || strcmp(t->name, "k_pe") == 0;
        if (n < 2 || (n == 2 && !r->attn->v_in_k) || product)
            plant_unseen(&s, t, *t->name != 'q', &count);
    }
    if (slopes && exec_has(r, "unseen")) plant_unseen(&s, slopes, false, &count);
    for (uint32_t n = 0; n < r->tensor_count && exec_has(r, "unseen"); n++)
        if (r->tensors[n].role == AULE_ROLE_DFINAL && !r->tensors[n].absent)
            plant_unseen(&s, &r->tensors[n], false, &count);
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (!upload(&r->tensors[n])) return exec_fail(r, "upload", r->tensors[n].name);
    return count || exec_fail(r, "unseen", "the case has no such row");
}

bool exec_may_be_later(const Run *r, const Tensor *t, size_t n, double got)
{
    if (!exec_has(r, "later") || t->rank != 4) return false;
    const int64_t row = (int64_t)n / t->shape[3] % t->shape[2];
    return (strcmp(t->name, "o") == 0 && row >= FIRST && isnan(got)) ||
           (strcmp(t->name, "dv") == 0 && row < FIRST && isnan(got));
}
