/* work.c - the operation `schedule` (docs/dev/operations.md): lists of work that a step makes once, and that forward of all layers reads. See plan.h.
 *
 * It has no kernels of its own. Launches of forward that are marked AULE_LAUNCH_WORK make lists, which lie in regions of the workspace; a call that is
 * given the tensor "work" has these regions there, one behind the other. So `schedule` is those launches, and such a forward all others. */
#include "plan.h"
#include "variant.h"

bool rt_schedules(const AuBound *bound) { return bound->operation == rt_operation("schedule"); }

const char *rt_kernels_of(const char *operation)
{
    return strcmp(operation, "schedule") == 0 ? "forward" : operation;
}

/* Not which device it is for: all that may be the call's have room. */
aule_status rt_work_words(const aule_attention_v1 *a, const aule_call *call, const AuBound *bound,
                          int64_t *words, AuSink sink)
{
    const bool invariant = call->flags & AULE_CALL_INVARIANT;
    const AuEnv env = rt_bound_env(a, bound);
    *words = 0;
    for (uint32_t i = 0; i < a->variant_count; i++) {
        const aule_variant_v1 *v = rt_variant(a, i);
        AuLayout layout;
        if (!rt_work_regions(v) || !rt_is_asked_for(a, v, bound, "forward", call->arch, invariant))
            continue;
        const aule_status status = rt_lay_out_workspace(a, v, &env, true, &layout, sink);
        if (status) return status;
        const int64_t own = (int64_t)((layout.work_bytes + 3) / 4);
        if (own > *words) *words = own;
    }
    return AULE_OK;
}

aule_status rt_check_work(const aule_plan *plan, const aule_call *call, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const AuBackend *backend = plan->device->backend;
    int64_t words;
    if (plan->work < 0) return AULE_OK;
    if (backend->record)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "%s: %s: %s makes lists of work in each call",
                       a->name, rt_tensor(a, (uint32_t)plan->work)->name, backend->name);
    const DLTensor *given = plan->bound.tensors[plan->work];
    const int64_t found = given->shape[0], stride = plan->bound.strides[plan->work][0];
    const aule_status status = rt_work_words(a, call, &plan->bound, &words, sink);
    if (status) return status;
    if (found != words)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: %s has %lld elements, those of this call are %lld: it is of a call of "
                       "other shapes, parameters or flags (aule_attention_shape says how many)",
                       a->name, rt_tensor(a, (uint32_t)plan->work)->name, (long long)found,
                       (long long)words);
    if (found > 1 && stride != 1)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: axis 0 has stride %lld, expected 1",
                       a->name, rt_tensor(a, (uint32_t)plan->work)->name, (long long)stride);
    return AULE_OK;
}

aule_status rt_check_work_room(const aule_plan *plan, const AuLayout *layout, AuSink sink)
{
    if (plan->work < 0) return AULE_OK;
    const int64_t words = rt_bound_extent(plan, (uint32_t)plan->work, 0);
    if (layout->work_bytes <= (uint64_t)words * 4) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_PARAM,
                   "%s: %s has %lld elements, with these parameters there are %llu: make another "
                   "plan",
                   plan->attention->name, rt_tensor(plan->attention, (uint32_t)plan->work)->name,
                   (long long)words, (unsigned long long)(layout->work_bytes + 3) / 4);
}
