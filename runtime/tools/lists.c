/* lists.c - lists of a layout, which say where rows lie: made where none are given, so that each sequence has as many rows as there is
 * room for, and read to count pairs. */
#include "session.h"

#include <stdio.h>
#include <string.h>

static const AuArray *of_role(const AuSession *s, uint32_t role)
{
    const int32_t index = session_find_role(s, role);
    return index < 0 ? NULL : &s->arrays[index];
}

/* The list of one of these flags; NULL: the layout has none. */
static const AuArray *marked(const AuSession *s, uint32_t flag)
{
    for (uint32_t i = 0; i < s->signature->tensor_count; i++)
        if (session_tensor(s, i)->flags & flag) return &s->arrays[i];
    return NULL;
}

/* Rows of a table, or of a cache. */
static int64_t lines(const AuSession *s)
{
    const AuArray *starts = marked(s, AULE_TENSOR_TABLE_STARTS),
                  *table = marked(s, AULE_TENSOR_TABLE);
    if (starts) return starts->shape[0] - 1;
    return (table ? table : of_role(s, AULE_ROLE_K))->shape[0];
}

/* Keys of a sequence, if it has all that it can have. */
static int64_t room(const AuSession *s)
{
    const AuArray *table = marked(s, AULE_TENSOR_TABLE), *k = of_role(s, AULE_ROLE_K);
    if (!table) return k->shape[2];
    return k->shape[2] * (table->rank == 2 ? table->shape[1] : table->shape[0] / lines(s));
}

static int64_t element(const AuSession *s, uint32_t flags, int64_t i, int64_t last)
{
    const AuArray *q = of_role(s, AULE_ROLE_Q), *k = of_role(s, AULE_ROLE_K);
    if (flags & (AULE_TENSOR_STARTS_Q | AULE_TENSOR_STARTS_K))
        return i * (flags & AULE_TENSOR_STARTS_Q ? q : k)->shape[2] / last;
    if (flags & AULE_TENSOR_TABLE_STARTS) return i * marked(s, AULE_TENSOR_TABLE)->shape[0] / last;
    if (flags & AULE_TENSOR_ROWS_Q) return i % q->shape[0];
    if (flags & (AULE_TENSOR_LENGTHS_Q | AULE_TENSOR_WHOLE_Q)) return q->shape[2];
    if (flags & AULE_TENSOR_GROUPS) return i * q->shape[0] / last; /* which share no key */
    if (flags & (AULE_TENSOR_LENGTHS | AULE_TENSOR_WHOLE)) return room(s);
    if (flags & AULE_TENSOR_TABLE) return i % k->shape[0];
    return flags & AULE_TENSOR_ROWS ? i % lines(s) : 0;
}

void session_fill_list(AuSession *s, uint32_t index)
{
    AuArray *array = &s->arrays[index];
    int32_t *values = array->data;
    const int64_t count = (int64_t)(array->bytes / sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] =
            (int32_t)element(s, session_tensor(s, index)->flags, i, count > 1 ? count - 1 : 1);
}

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

int64_t session_page(int64_t n, int64_t pages)
{
    int64_t step = (int64_t)(0.618 * (double)pages) | 1;
    while (common(step, pages) != 1) step++;
    return n * step % pages;
}

bool session_says_size(const char *shape, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = shape; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && at[length] == '=') return true;
    return false;
}

void session_add_size(const AuSession *s, char *shape, size_t bytes, const char *axis,
                      const char *suffix, int64_t value)
{
    const size_t used = strlen(shape);
    char name[256];
    snprintf(name, sizeof name, "%s%s", axis, suffix);
    for (uint32_t i = 0; i < s->signature->size_count; i++)
        if (strcmp(s->signature->sizes[i].name, name) == 0 && !session_says_size(shape, name))
            snprintf(shape + used, bytes - used, "%s%s=%lld", used ? "," : "", name,
                     (long long)value);
}

/* Operands and weights are rounded in both, sums are in another order. */
double session_dense_bound(const aule_variant_v1 *v)
{
    if (v->dtype == AULE_BF16) return 0x1p-6;
    if (v->dtype == AULE_F16 || strstr(v->launches[0].entry, "_tf32_")) return 0x1p-9;
    return 0x1p-16;
}

/* Rows of sequence b, of [all] where no list says it. */
static double rows_of(const AuArray *starts, const AuArray *lengths, int64_t b, int64_t all)
{
    const int32_t *values = starts ? starts->data : lengths ? lengths->data : NULL;
    if (!values) return (double)all;
    return starts ? (double)values[b + 1] - values[b] : values[b];
}

double session_pairs(const AuSession *s)
{
    const AuArray *q = of_role(s, AULE_ROLE_Q), *k = of_role(s, AULE_ROLE_K),
                  *q_starts = marked(s, AULE_TENSOR_STARTS_Q),
                  *q_lengths = marked(s, AULE_TENSOR_LENGTHS_Q),
                  *k_starts = marked(s, AULE_TENSOR_STARTS_K),
                  *k_lengths = marked(s, AULE_TENSOR_LENGTHS);
    const int64_t sequences = q_starts ? q_starts->shape[0] - 1 : q->shape[0];
    double pairs = 0;
    for (int64_t b = 0; b < sequences; b++)
        pairs += rows_of(q_starts, q_lengths, b, q->shape[2]) *
                 rows_of(k_starts, k_lengths, b, k->shape[2]);
    return pairs * (double)q->shape[1];
}
