/* plan.h - prepared calls. All that depends on arguments but not on addresses is worked out once; a run fills parameter blocks and
 * launches. */
#ifndef AU_RUNTIME_PLAN_H
#define AU_RUNTIME_PLAN_H

#include "backends/backend.h"
#include "module.h"
#include "signature.h"

/* What sizes and parameters decide of a variant. */
typedef struct AuLayout {
    uint64_t region_at[AULE_MAX_REGIONS]; /* bytes from the workspace's start */
    uint64_t region_bytes[AULE_MAX_REGIONS];
    uint64_t workspace_bytes;
    uint64_t
        in_work; /* regions, bit n number n, that lie in the tensor "work", from whose start region_at then counts */
    uint64_t work_bytes; /* that they take */
    uint32_t workspace_align;
    uint32_t grid[AULE_MAX_LAUNCHES][3];
    AuMapView maps[AULE_MAX_MAPS]; /* one launch behind the other */
} AuLayout;

aule_status rt_layout(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                      uint32_t processors, const AuBound *bound, AuLayout *layout, AuSink sink);

/* Regions alone. [with_work]: the call is given "work". */
aule_status rt_lay_out_workspace(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                                 const AuEnv *env, bool with_work, AuLayout *layout, AuSink sink);

/* What runs before the plan's variant: the rows that a forward is given are appended by kernels of their own operation, of the same arguments. */
typedef struct AuFirst {
    const aule_variant_v1 *variant;
    void *code;
    AuLayout layout;
} AuFirst;

struct aule_plan {
    AuHeap memory;
    aule_module *module;
    aule_device *device;
    const aule_attention_v1 *attention;
    const aule_variant_v1 *variant;
    void *code;
    void *recording; /* of backends that record runs, else NULL */
    AuFirst *first;  /* NULL: nothing */
    int32_t work;    /* the tensor of lists that the call is given, or makes; -1: none */
    bool schedules;  /* launches of lists alone; else, where there is such a tensor, all others */
    AuBound bound;   /* tensors are NULL or not, and not to be followed: they were the caller's */
    bool empty[AULE_MAX_TENSORS];
    aule_address at[AULE_MAX_TENSORS];
    uint32_t
        tensor_args[AULE_MAX_TENSORS]; /* of each tensor of the call: its index in the signature */
    size_t tensor_arg_count;
    aule_param_arg param_args[AULE_MAX_PARAMS]; /* names are the descriptor's */
    size_t param_arg_count;
    AuLayout layout;
};

/* With no workspace, and nobody who fills parameter blocks. */
AuRun rt_whole_run(const aule_plan *plan, const AuLayout *layout);

/* What the kernels of checks left in the workspace of a run that is done: AULE_ERROR_INDEX, or nothing to tell. */
aule_status rt_report(const aule_plan *plan, const AuBound *bound, const AuLayout *layout,
                      void *workspace, const aule_address *at, AuSink sink);

/* sequences.c: of a tensor that was passed, as it was bound. */
int64_t rt_bound_extent(const aule_plan *plan, uint32_t index, uint32_t axis);
/* Of packed sequences, read at once: for host memory. */
aule_status rt_check_sequences(const aule_plan *plan, const AuBound *bound, const aule_address *at,
                               AuSink sink);

/* append.c: slots of a call, likewise: each there is in the cache, and none twice. */
aule_status rt_check_new_slots(const aule_plan *plan, const aule_address *at, AuSink sink);

/* work.c: does the call make lists of work? The operation whose kernels those of an operation are. */
bool rt_schedules(const AuBound *bound);
const char *rt_kernels_of(const char *operation);
/* Elements that "work" has of such a call, whose sizes and parameters are bound, on any device. */
aule_status rt_work_words(const aule_attention_v1 *attention, const aule_call *call,
                          const AuBound *bound, int64_t *words, AuSink sink);
/* That of the plan, where there is one: as many, side by side. And that it has room where parameters are others than planned. */
aule_status rt_check_work(const aule_plan *plan, const aule_call *call, AuSink sink);
aule_status rt_check_work_room(const aule_plan *plan, const AuLayout *layout, AuSink sink);
/* sequences.c: is what a table has room for a number of keys that kernels count? */
aule_status rt_check_room(const aule_plan *plan, AuSink sink);

/* Of a tensor's data: there, and aligned to its elements. */
aule_status rt_check_address(const aule_plan *plan, uint32_t index, const aule_address *at,
                             AuSink sink);

#endif
