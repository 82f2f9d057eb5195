/* overlap.c - do two strided tensors share a byte? See signature.h.
 * Elements of both are sums of index times stride; they share a byte where a bounded sum of strides equals the distance of
 * their starts. Strides of real tensors are nested (each at least the reach of the smaller ones), so that a search from the
 * largest stride down has one or two candidates a level. A search that takes longer counts as an overlap. */
#include <stdlib.h>

#include "signature.h"

/* value = x * stride, with x in [low, high]; stride > 0. */
typedef struct Term {
    int64_t stride, low, high;
} Term;

enum { MAX_TERMS = 2 * AULE_MAX_RANK + 1, BUDGET = 100000 };

typedef struct Search {
    Term terms[MAX_TERMS];
    int64_t below_low[MAX_TERMS + 1],
        below_high[MAX_TERMS + 1]; /* what terms from here on can sum to */
    uint32_t count, budget;
} Search;

static void add_term(Search *s, int64_t stride, int64_t low, int64_t high)
{
    if (stride < 0) {
        int64_t swap = -low;
        low = -high;
        high = swap;
        stride = -stride;
    }
    if (stride == 0 || (low == 0 && high == 0)) return;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->terms[i].stride == stride) {
            s->terms[i].low += low;
            s->terms[i].high += high;
            return;
        }
    s->terms[s->count++] = (Term){stride, low, high};
}

/* The strides of axes of one element may be anything, and do not count. */
static void add_axes(Search *s, const DLTensor *t, const int64_t *strides, int64_t bytes,
                     int64_t sign)
{
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1) add_term(s, sign * strides[i] * bytes, 0, t->shape[i] - 1);
}

static int by_stride_down(const void *a, const void *b)
{
    int64_t x = ((const Term *)a)->stride, y = ((const Term *)b)->stride;
    return (x < y) - (x > y);
}

static int64_t divide_floor(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

static bool reachable(Search *s, uint32_t level, int64_t rest)
{
    if (rest < s->below_low[level] || rest > s->below_high[level]) return false;
    if (level == s->count) return rest == 0;
    const Term *term = &s->terms[level];
    int64_t low = -divide_floor(s->below_high[level + 1] - rest, term->stride);
    int64_t high = divide_floor(rest - s->below_low[level + 1], term->stride);
    if (low < term->low) low = term->low;
    if (high > term->high) high = term->high;
    for (int64_t x = low; x <= high; x++) {
        if (s->budget == 0) return true;
        s->budget--;
        if (reachable(s, level + 1, rest - x * term->stride)) return true;
    }
    return false;
}

static bool solve(Search *s, int64_t distance)
{
    qsort(s->terms, s->count, sizeof s->terms[0], by_stride_down);
    s->below_low[s->count] = s->below_high[s->count] = 0;
    for (uint32_t i = s->count; i-- > 0;) {
        s->below_low[i] = s->below_low[i + 1] + s->terms[i].low * s->terms[i].stride;
        s->below_high[i] = s->below_high[i + 1] + s->terms[i].high * s->terms[i].stride;
    }
    s->budget = BUDGET;
    return reachable(s, 0, distance);
}

/* Bytes of a bound tensor around its element 0. false: it has none. */
static bool byte_range(const AuBound *bound, uint32_t index, int64_t *low, int64_t *high)
{
    int64_t bytes = rt_dtype_bytes(bound->dtypes[index]);
    rt_extent(bound->tensors[index], bound->strides[index], low, high);
    if (*high < *low) return false;
    *low *= bytes;
    *high = *high * bytes + bytes - 1;
    return true;
}

static uint64_t start_of(const DLTensor *t, bool flat)
{
    return (flat ? (uint64_t)(uintptr_t)t->data : 0) + t->byte_offset;
}

/* Addresses are unsigned and may be any: only distances are signed, and one that leaves 64 bits lies beyond every tensor. */
static bool share_bytes(const AuBound *bound, uint32_t a, uint32_t b, bool flat)
{
    int64_t low_a, high_a, low_b, high_b, first, last;
    const DLTensor *x = bound->tensors[a], *y = bound->tensors[b];
    if (!flat && x->data != y->data) return false;
    if (!byte_range(bound, a, &low_a, &high_a) || !byte_range(bound, b, &low_b, &high_b))
        return false;
    const int64_t distance = (int64_t)(start_of(y, flat) - start_of(x, flat));
    if (__builtin_add_overflow(distance, low_b, &first) ||
        __builtin_add_overflow(distance, high_b, &last) || high_a < first || last < low_a)
        return false;

    Search s = {.count = 0};
    int64_t bytes_a = rt_dtype_bytes(bound->dtypes[a]), bytes_b = rt_dtype_bytes(bound->dtypes[b]);
    add_axes(&s, x, bound->strides[a], bytes_a, 1);
    add_axes(&s, y, bound->strides[b], bytes_b, -1);
    add_term(&s, 1, 1 - bytes_b, bytes_a - 1); /* bytes inside an element */
    return solve(&s, distance);
}

/* Every stride must be longer than all that the smaller ones reach: sufficient, and true of all layouts made by slicing and permuting. */
static bool overlaps_itself(const DLTensor *t, const int64_t *strides, int32_t *axis)
{
    Search s = {.count = 0};
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return false;
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && strides[i] == 0) return *axis = i, true;
    /* One term an axis: merging would hide two axes of the same stride. */
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1)
            s.terms[s.count++] =
                (Term){strides[i] < 0 ? -strides[i] : strides[i], i, t->shape[i] - 1};
    qsort(s.terms, s.count, sizeof s.terms[0], by_stride_down);
    int64_t reach = 0;
    for (uint32_t i = s.count; i-- > 0;) {
        *axis = (int32_t)s.terms[i].low;
        if (s.terms[i].stride <= reach) return true;
        reach += s.terms[i].high * s.terms[i].stride;
    }
    return false;
}

aule_status rt_check_overlaps(const aule_attention_v1 *attention, const AuBound *bound, bool flat,
                              AuSink sink)
{
    for (uint32_t i = 0; i < attention->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(attention, i);
        const DLTensor *given = bound->tensors[i];
        int32_t axis;
        if (!given || rt_bound_part(bound, t) != AU_PART_WRITTEN) continue;
        if (overlaps_itself(given, bound->strides[i], &axis))
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s: it is written and overlaps itself: axis %d has %lld elements "
                           "at stride %lld",
                           attention->name, t->name, axis, (long long)given->shape[axis],
                           (long long)bound->strides[i][axis]);
        for (uint32_t j = 0; j < attention->tensor_count; j++) {
            bool seen = j < i && rt_bound_part(bound, rt_tensor(attention, j)) == AU_PART_WRITTEN;
            if (j != i && !seen && bound->tensors[j] && share_bytes(bound, i, j, flat))
                return rt_fail(sink, AULE_ERROR_TENSOR,
                               "%s: %s: it is written and overlaps %s in memory", attention->name,
                               t->name, rt_tensor(attention, j)->name);
        }
    }
    return AULE_OK;
}
