/* sequences.c - see plan.h: what cu_seqlens and slots say of sequences. How many elements there must be is a matter of shapes
 * (signature.c); the values are read where memory is the host's and a run is done when it returns. Kernels on devices
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

/* -1 is none; two sequences of a call must not have one state, which both would write. */
static aule_status check_slots(const aule_plan *plan, uint32_t index, uint32_t pool,
                               const aule_address *at, AuSink sink)
{
    const char *attention = plan->attention->name, *name = rt_tensor(plan->attention, index)->name;
    const int64_t count = extent(plan, index, 0), states = extent(plan, pool, 0);
    for (int64_t n = 0; n < count; n++) {
        const int64_t slot = element(plan, index, at, n);
        if (slot < -1 || slot >= states)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s[%lld] is %lld, there are %lld states (-1: none)", attention,
                           name, (long long)n, (long long)slot, (long long)states);
        for (int64_t m = 0; m < n && slot >= 0; m++)
            if (element(plan, index, at, m) == slot)
                return rt_fail(
                    sink, AULE_ERROR_TENSOR,
                    "%s: %s[%lld] and %s[%lld] are both %lld: one state for two sequences",
                    attention, name, (long long)m, name, (long long)n, (long long)slot);
    }
    return AULE_OK;
}

aule_status rt_check_sequences(const aule_plan *plan, const aule_address *at, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    uint32_t pool = 0;
    aule_status status = AULE_OK;
    for (uint32_t i = 0; i < a->tensor_count && !status; i++) {
        const uint32_t role = rt_tensor(a, i)->role;
        if (!plan->bound.tensors[i]) continue;
        if (role == AULE_ROLE_POOL) pool = i;
        if (role == AULE_ROLE_SEQUENCES) status = check_values(plan, i, &at[i], sink);
        if (role == AULE_ROLE_SLOTS) status = check_slots(plan, i, pool, &at[i], sink);
    }
    return status;
}
