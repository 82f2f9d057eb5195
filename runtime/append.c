/* append.c - see signature.h and plan.h: what a call of `append` says of where its rows go. Shapes are looked at for all devices; the
 * slots where memory is the host's, as lengths and tables are (sequences.c). Kernels write nothing for what is no slot. */
#include "key_pages.h"

#include <stdlib.h>
#include <string.h>

/* The first tensor with a flag that was passed; -1: none was. */
static int32_t marked(const aule_attention_v1 *a, const AuBound *bound, uint32_t flag)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (bound->tensors[i] && rt_tensor(a, i)->flags & flag) return (int32_t)i;
    return -1;
}

/* Axis [axis] of tensor [index] must have the elements that another tensor's has. */
static aule_status expect(const aule_attention_v1 *a, const AuBound *bound, int32_t index,
                          int32_t axis, int64_t expected, const char *as_in, AuSink sink)
{
    const int64_t found = bound->tensors[index]->shape[axis];
    if (found == expected) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: axis %d has %lld elements, expected %lld%s",
                   a->name, rt_tensor(a, (uint32_t)index)->name, axis, (long long)found,
                   (long long)expected, as_in);
}

/* A scale a sequence, where slots do not say which sequence they are of: k_new has the sequences. */
static aule_status check_scales(const aule_attention_v1 *a, const AuBound *bound, int64_t batch,
                                AuSink sink)
{
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(a, i);
        if (!bound->tensors[i] || !(t->flags & AULE_TENSOR_SPREADS) ||
            t->flags & AULE_TENSOR_APPENDED || bound->tensors[i]->shape[0] == 1)
            continue;
        const aule_status status =
            expect(a, bound, (int32_t)i, 0, batch, " as in k_new, or 1", sink);
        if (status) return status;
    }
    return AULE_OK;
}

/* Kernels count slots in 32 bits. */
static bool beyond_32_bits(const DLTensor *k)
{
    int64_t slots;
    return __builtin_mul_overflow(k->shape[0], k->shape[2], &slots) || slots > INT32_MAX;
}

/* A forward that is given new rows and no slots: the rows are those of the queries, which are the last of their sequences, too. */
static aule_status check_queries(const aule_attention_v1 *a, const AuBound *bound, int32_t rows,
                                 AuSink sink)
{
    const int32_t q = rt_passed_of(a, bound, AULE_ROLE_Q);
    if (!bound->first || q < 0) return AULE_OK;
    const int64_t *of = bound->tensors[q]->shape;
    const aule_status status =
        expect(a, bound, rows, 0, of[0], " as in q: its rows are those of the queries", sink);
    return status ? status
                  : expect(a, bound, rows, 2, of[2], " as in q: its rows are those of the queries",
                           sink);
}

aule_status rt_check_new_rows(const aule_attention_v1 *a, const AuBound *bound, AuSink sink)
{
    const int32_t rows = rt_passed_of(a, bound, AULE_ROLE_NEW),
                  slots = rt_passed_of(a, bound, AULE_ROLE_NEW_SLOTS),
                  cache = rt_passed_of(a, bound, AULE_ROLE_K),
                  lines = marked(a, bound, AULE_TENSOR_ROWS),
                  lengths = marked(a, bound, AULE_TENSOR_LENGTHS),
                  starts = marked(a, bound, AULE_TENSOR_STARTS_Q);
    if (rows < 0 || cache < 0) return AULE_OK;
    const int64_t *shape = bound->tensors[rows]->shape;
    bool apart = false; /* sequences, from the rows of k */
    for (uint32_t i = 0; i < a->tensor_count; i++)
        apart |= (rt_tensor(a, i)->flags & (AULE_TENSOR_TABLE | AULE_TENSOR_ROWS)) != 0;
    if (slots >= 0 && beyond_32_bits(bound->tensors[cache]))
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: k has more slots than 2^31 - 1 can number",
                       a->name);
    if (slots >= 0) {
        const aule_status status = expect(a, bound, slots, 1, shape[2], " as in k_new", sink);
        return status || !apart ? status : check_scales(a, bound, shape[0], sink);
    }
    const aule_status alike = check_queries(a, bound, rows, sink);
    if (alike || starts >= 0)
        return alike ? alike : expect(a, bound, rows, 0, 1, ": rows are packed", sink);
    const int32_t of = lengths >= 0 ? lengths : lines >= 0 ? lines : cache;
    return expect(a, bound, rows, 0, bound->tensors[of]->shape[0], ": a sequence's rows each",
                  sink);
}

/* ---- slots, on the host */

typedef struct Slot {
    int64_t slot;
    uint64_t place; /* in the order of the tensor */
} Slot;

static int by_slot(const void *x, const void *y)
{
    const Slot *a = x, *b = y;
    if (a->slot != b->slot) return (a->slot > b->slot) - (a->slot < b->slot);
    return (a->place > b->place) - (a->place < b->place);
}

/* Rows in any order: two of a slot would be written one over the other. */
static aule_status check_apart(const aule_plan *plan, const char *name, Slot *slots, uint64_t count,
                               int64_t rows, AuSink sink)
{
    qsort(slots, (size_t)count, sizeof *slots, by_slot);
    for (uint64_t n = 1; n < count; n++) {
        const uint64_t a = slots[n - 1].place, b = slots[n].place, each = (uint64_t)rows;
        if (slots[n].slot >= 0 && slots[n].slot == slots[n - 1].slot)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s[%llu, %llu] and %s[%llu, %llu] are both %lld: one slot for two "
                           "rows",
                           plan->attention->name, name, (unsigned long long)(a / each),
                           (unsigned long long)(a % each), name, (unsigned long long)(b / each),
                           (unsigned long long)(b % each), (long long)slots[n].slot);
    }
    return AULE_OK;
}

static aule_status check_slots(const aule_plan *plan, int32_t index, int32_t cache,
                               const aule_address *at, Slot *slots, AuSink sink)
{
    const aule_tensor_v1 *t = rt_tensor(plan->attention, (uint32_t)index);
    const int64_t batch = rt_bound_extent(plan, (uint32_t)index, 0),
                  rows = rt_bound_extent(plan, (uint32_t)index, 1),
                  all = rt_bound_extent(plan, (uint32_t)cache, 0) *
                        rt_bound_extent(plan, (uint32_t)cache, 2),
                  *strides = plan->bound.strides[index];
    const char *first = (const char *)at->data + at->byte_offset;
    for (int64_t n = 0; n < batch * rows; n++) {
        int64_t slot;
        memcpy(&slot,
               first + (n / rows * strides[0] + n % rows * strides[1]) * (int64_t)sizeof slot,
               sizeof slot);
        if (slot < -1 || slot >= all)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s[%lld, %lld] is %lld, there are %lld slots (-1: none)",
                           plan->attention->name, t->name, (long long)(n / rows),
                           (long long)(n % rows), (long long)slot, (long long)all);
        slots[n] = (Slot){slot, (uint64_t)n};
    }
    return check_apart(plan, t->name, slots, (uint64_t)(batch * rows), rows, sink);
}

aule_status rt_check_new_slots(const aule_plan *plan, const aule_address *at, AuSink sink)
{
    const int32_t index = rt_passed_of(plan->attention, &plan->bound, AULE_ROLE_NEW_SLOTS),
                  cache = rt_passed_of(plan->attention, &plan->bound, AULE_ROLE_K);
    if (index < 0 || cache < 0) return AULE_OK;
    const int64_t count =
        rt_bound_extent(plan, (uint32_t)index, 0) * rt_bound_extent(plan, (uint32_t)index, 1);
    if (count <= 0) return AULE_OK;
    Slot *slots = rt_alloc(sink.memory, (uint64_t)count * sizeof *slots);
    if (!slots) return rt_fail_memory(sink);
    const aule_status status = check_slots(plan, index, cache, &at[index], slots, sink);
    rt_free(slots);
    return status;
}

/* ---- the last rows of sequences, on the host */

/* New rows of sequence [b]. */
static int64_t rows_of(const aule_plan *plan, const aule_address *at, int64_t b)
{
    const int32_t starts = marked(plan->attention, &plan->bound, AULE_TENSOR_STARTS_Q),
                  rows = rt_passed_of(plan->attention, &plan->bound, AULE_ROLE_NEW);
    if (starts < 0) return rt_bound_extent(plan, (uint32_t)rows, 2);
    return rt_i32_at(plan, (uint32_t)starts, &at[starts], b + 1, 0) -
           rt_i32_at(plan, (uint32_t)starts, &at[starts], b, 0);
}

/* Where row [row] of a sequence with row [line] of the table, or of k, lies: numbers of slots of all pages, or of rows of k. */
static int64_t place_of(const aule_plan *plan, const AuKeyPages *p, const aule_address *at,
                        int64_t line, int64_t row)
{
    if (p->table < 0) return line * p->slots + row;
    return rt_page_at(plan, p, &at[p->table], line, row / p->slots) * p->slots + row % p->slots;
}

static aule_status fail_place(const aule_plan *plan, const AuKeyPages *p, const Slot *a,
                              const Slot *b, AuSink sink)
{
    const uint32_t list = (uint32_t)(p->table >= 0 ? p->table : p->rows);
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: %s: sequences %llu and %llu both have slot %lld of %s %lld for a new row",
                   plan->attention->name, rt_tensor(plan->attention, list)->name,
                   (unsigned long long)a->place, (unsigned long long)b->place,
                   (long long)(a->slot % p->slots), p->table >= 0 ? "page" : "row",
                   (long long)(a->slot / p->slots));
}

/* Places of all new rows, of which there are [count]; there is room for [room]. */
static aule_status find_places(const aule_plan *plan, const AuKeyPages *p, uint32_t lengths,
                               const aule_address *at, int64_t count, int64_t room, Slot *places,
                               AuSink sink)
{
    int64_t found = 0;
    for (int64_t b = 0; b < count; b++) {
        int64_t line;
        const int64_t end = rt_i32_at(plan, lengths, &at[lengths], b, 0),
                      rows = rows_of(plan, at, b);
        const aule_status status = rt_line_of(plan, p, at, b, &line, sink);
        if (status) return status;
        for (int64_t row = end > rows ? end - rows : 0; row < end && found < room; row++)
            places[found++] = (Slot){place_of(plan, p, at, line, row), (uint64_t)b};
    }
    qsort(places, (size_t)found, sizeof *places, by_slot);
    for (int64_t n = 1; n < found; n++)
        if (places[n].slot == places[n - 1].slot)
            return fail_place(plan, p, &places[n - 1], &places[n], sink);
    return AULE_OK;
}

aule_status rt_check_new_places(const aule_plan *plan, const AuKeyPages *p, uint32_t lengths,
                                const aule_address *at, AuSink sink)
{
    const int32_t rows = rt_passed_of(plan->attention, &plan->bound, AULE_ROLE_NEW);
    if (rows < 0 || p->starts >= 0 || (p->table < 0 && p->rows < 0)) return AULE_OK;
    const int64_t count = rt_bound_extent(plan, lengths, 0),
                  room = rt_bound_extent(plan, (uint32_t)rows, 0) *
                         rt_bound_extent(plan, (uint32_t)rows, 2);
    if (room <= 0) return AULE_OK;
    Slot *places = rt_alloc(sink.memory, (uint64_t)room * sizeof *places);
    if (!places) return rt_fail_memory(sink);
    const aule_status status = find_places(plan, p, lengths, at, count, room, places, sink);
    rt_free(places);
    return status;
}
