/* sequences.c - see plan.h: what cu_seqlens says of packed sequences. That there are two elements at least and one batch is a
 * matter of shapes; the values are read where memory is the host's and a run is done when it returns. Kernels on devices
 * take what they find as a part of the tensors, so that no value makes a wild address. */
#include "plan.h"

#include <string.h>

/* Of a tensor that was passed, as it was bound. */
static int64_t extent(const aule_plan *plan, uint32_t index, uint32_t axis)
{
    const AuEnv env = rt_bound_env(plan->attention, &plan->bound);
    aule_value value = {0};
    rt_evaluate(&rt_tensor(plan->attention, index)->axes[axis], &env, &value);
    return value.i;
}

static int64_t tokens_of(const aule_plan *plan)
{
    for (uint32_t i = 0; i < plan->attention->tensor_count; i++)
        if (rt_tensor(plan->attention, i)->role == AULE_ROLE_Q) return extent(plan, i, 2);
    return 0;
}

static int64_t element(const aule_plan *plan, uint32_t index, const aule_address *at, int64_t n)
{
    const char *data = (const char *)at->data + at->byte_offset;
    int32_t value;
    memcpy(&value, data + n * plan->bound.strides[index][0] * (int64_t)sizeof value, sizeof value);
    return value;
}

static aule_status check_values(const aule_plan *plan, uint32_t index, const aule_address *at,
                                AuSink sink)
{
    const char *attention = plan->attention->name, *name = rt_tensor(plan->attention, index)->name;
    const int64_t count = extent(plan, index, 0), tokens = tokens_of(plan);
    int64_t before = element(plan, index, at, 0);
    if (before != 0)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s begins with %lld, expected 0", attention,
                       name, (long long)before);
    for (int64_t n = 1; n < count; n++) {
        const int64_t next = element(plan, index, at, n);
        if (next < before)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s decreases at %lld: %lld after %lld",
                           attention, name, (long long)n, (long long)next, (long long)before);
        before = next;
    }
    if (before == tokens) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s ends with %lld, there are %lld tokens",
                   attention, name, (long long)before, (long long)tokens);
}

aule_status rt_check_sequences(const aule_plan *plan, const aule_address *at, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (rt_tensor(a, i)->role == AULE_ROLE_SEQUENCES && plan->bound.tensors[i])
            return check_values(plan, i, &at[i], sink);
    return AULE_OK;
}
