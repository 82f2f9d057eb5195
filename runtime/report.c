/* report.c - what the kernels of checks found in a run of an artifact that was compiled with --checked: which index of the script
 * left its tensor, and by how much. See aule_check_v1. */
#include "plan.h"

/* Plans are of sizes that can be evaluated. */
static int64_t extent_of(const aule_plan *plan, const AuBound *bound, uint32_t tensor,
                         uint32_t axis)
{
    AuEnv env = rt_bound_env(plan->attention, bound);
    aule_value value = {0};
    const char *wrong = rt_evaluate(&rt_tensor(plan->attention, tensor)->axes[axis], &env, &value);
    return wrong ? 0 : value.i;
}

/* Tells of the first row whose code is not 0. */
static aule_status look(const aule_plan *plan, const AuBound *bound, const aule_check_v1 *check,
                        const int32_t *codes, uint64_t bytes, AuSink sink)
{
    const aule_tensor_v1 *tensor = rt_tensor(plan->attention, check->tensor);
    int64_t n[3];
    for (uint32_t axis = 0; axis < 3; axis++) n[axis] = extent_of(plan, bound, check->rows, axis);
    if (n[0] <= 0 || n[1] <= 0 || n[2] <= 0) return AULE_OK;
    const uint64_t room = bytes / sizeof *codes / (uint64_t)n[0] / (uint64_t)n[1] / (uint64_t)n[2];
    if (room < check->slices)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: a region of checks is too small",
                       plan->attention->name);
    for (int64_t block = 0; block < n[0] * n[1]; block++)
        for (int64_t row = 0; row < n[2]; row++) {
            const int32_t code = codes[(block * check->slices + check->slice) * n[2] + row];
            if (code == 0) continue;
            return rt_fail(
                sink, AULE_ERROR_INDEX,
                "%s: index %d on axis %u of '%s' is not in [0, %lld) (b %lld, h %lld, %s %lld)",
                check->text, code < 0 ? code : code - 1, check->axis, tensor->name,
                (long long)extent_of(plan, bound, check->tensor, check->axis),
                (long long)(block / n[1]), (long long)(block % n[1]),
                check->rows ? "kv_idx" : "q_idx", (long long)row);
        }
    return AULE_OK;
}

/* The region on the host: in place where the device's memory is. */
static aule_status fetch(const aule_plan *plan, const AuLayout *layout, uint32_t region,
                         void *workspace, void **copy, const int32_t **codes, AuSink sink)
{
    const AuBackend *backend = plan->device->backend;
    const uint64_t at = layout->region_at[region], bytes = layout->region_bytes[region];
    *copy = NULL;
    if (!backend->synchronize) {
        *codes = (const int32_t *)(const void *)((const char *)workspace + at);
        return AULE_OK;
    }
    *copy = rt_alloc(sink.memory, bytes + 1);
    if (!*copy) return rt_fail_memory(sink);
    *codes = *copy;
    return bytes ? backend->download(plan->device->state, workspace, at, *copy, bytes, sink)
                 : AULE_OK;
}

aule_status rt_report(const aule_plan *plan, const AuBound *bound, const AuLayout *layout,
                      void *workspace, const aule_address *at, AuSink sink)
{
    for (uint32_t i = 0; i < rt_check_count(plan->variant); i++) {
        const aule_check_v1 *check = &plan->variant->checks[i];
        const int32_t *codes = NULL;
        void *copy;
        aule_status status;
        if (check->slices == 0) { /* where memory is the host's, they were looked at before */
            status = plan->device->backend->synchronize
                         ? rt_check_list(plan, check->tensor, &at[check->tensor], sink)
                         : AULE_OK;
            if (status) return status;
            continue;
        }
        status = fetch(plan, layout, check->region, workspace, &copy, &codes, sink);
        if (!status)
            status = look(plan, bound, check, codes, layout->region_bytes[check->region], sink);
        rt_free(copy);
        if (status) return status;
    }
    return AULE_OK;
}
