/* report_lists.c - see report.h. A table of pages or the starts of sequences are a few thousand numbers: all of them are brought, so
 * that what looks at them (sequences.c) is the same for devices as for the host. */
#include "report.h"

static bool is_list(const aule_plan *plan, uint32_t index)
{
    const aule_tensor_v1 *t = rt_tensor(plan->attention, index);
    return plan->bound.tensors[index] &&
           (t->role == AULE_ROLE_SEQUENCES || t->role == AULE_ROLE_SLOTS ||
            t->role == AULE_ROLE_NEW_SLOTS || t->flags & AULE_TENSOR_SEQUENCES);
}

/* All that lies between its first and its last element, as it lies: strides stay what they are. */
static aule_status bring(const aule_plan *plan, uint32_t index, AuHostLists *lists, AuSink sink)
{
    const aule_tensor_v1 *t = rt_tensor(plan->attention, index);
    const int64_t size = rt_dtype_bytes(plan->bound.dtypes[index]);
    aule_address *at = &lists->at[index];
    int64_t low = 0, high = 0;
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        const int64_t count = rt_bound_extent(plan, index, axis);
        if (count <= 0) return AULE_OK; /* nobody reads it */
        const int64_t far = (count - 1) * plan->bound.strides[index][axis] * size;
        *(far < 0 ? &low : &high) += far;
    }
    const uint64_t bytes = (uint64_t)(high - low + size);
    char *copy = lists->copies[index] = rt_alloc(sink.memory, bytes);
    if (!copy) return rt_fail_memory(sink);
    const aule_status status = plan->device->backend->download(
        plan->device->state, at->data, at->byte_offset - (uint64_t)-low, copy, bytes, sink);
    *at = (aule_address){.data = copy, .byte_offset = (uint64_t)-low};
    return status;
}

aule_status rt_host_lists(const aule_plan *plan, const aule_address *at, AuHostLists *lists,
                          AuSink sink)
{
    aule_status status = AULE_OK;
    *lists = (AuHostLists){.count = plan->attention->tensor_count};
    for (uint32_t i = 0; i < lists->count; i++) lists->at[i] = at[i];
    if (!plan->device->backend->synchronize) return AULE_OK;
    for (uint32_t i = 0; i < lists->count && !status; i++)
        if (is_list(plan, i)) status = bring(plan, i, lists, sink);
    return status;
}

void rt_host_lists_free(AuHostLists *lists)
{
    for (uint32_t i = 0; i < lists->count; i++) rt_free(lists->copies[i]);
}
