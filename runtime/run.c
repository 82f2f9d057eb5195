/* run.c - runs of plans: parameter blocks are filled and handed to the backend. Nothing here allocates. See plan.h. */
#include "maps.h"
#include "variant.h"

/* One run: the plan's values, or the caller's new ones. */
typedef struct Run {
    AuRun whole; /* for backends that record: first, so that it leads back here */
    const aule_plan *plan;
    const aule_variant_v1 *variant;
    void *code;
    const AuBound *bound;
    const AuLayout *layout;
    const aule_address *at; /* by index of the signature */
    aule_run given;
} Run;

static uint64_t low_half(int32_t value) { return (uint32_t)value; }

static uint64_t param_slot(const aule_value *value, uint32_t dtype)
{
    uint32_t bits;
    if (dtype == AULE_I64) return (uint64_t)value->i;
    if (dtype != AULE_F32) return low_half((int32_t)value->i);
    float single = (float)value->f;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static uint64_t number_slot(const aule_slot_v1 *slot, int64_t value)
{
    return slot->type == AULE_SLOT_I32 ? low_half((int32_t)value) : (uint64_t)value;
}

/* A region of the workspace: there, or in the lists of work that the call has. */
static aule_address region_of(const Run *run, uint32_t index)
{
    const AuLayout *layout = run->layout;
    if (!(layout->in_work >> index & 1))
        return (aule_address){run->given.workspace, layout->region_at[index]};
    const aule_address *work = &run->at[run->plan->work];
    return (aule_address){work->data, work->byte_offset + layout->region_at[index]};
}

/* The parameter block of one launch. [offsets]: NULL where memory is flat and nobody asks. */
static void fill_slots(const Run *run, const aule_launch_v1 *launch, uint64_t *slots,
                       int64_t *offsets)
{
    const aule_plan *plan = run->plan;
    const AuBackend *backend = plan->device->backend;
    const bool flat = backend->flat, in_bytes = backend->in_bytes,
               looks = flat && backend->check_memory;
    for (uint32_t i = 0; i < launch->slot_count; i++) {
        const aule_slot_v1 *slot = &launch->slots[i];
        const uint32_t index = slot->index;
        uint64_t filled = 0;
        int64_t offset = 0;
        switch ((aule_slot_kind)slot->kind) {
        case AULE_SLOT_TENSOR: {
            const aule_address *at = &run->at[index];
            filled = (uint64_t)(uintptr_t)at->data + (flat ? at->byte_offset : 0);
            if (looks && plan->empty[index]) filled = 0; /* no memory of the device is needed */
            if (!flat && plan->bound.tensors[index])
                offset = (int64_t)(at->byte_offset /
                                   (in_bytes ? 1 : rt_dtype_bytes(plan->bound.dtypes[index])));
            break;
        }
        case AULE_SLOT_STRIDE:
            filled = number_slot(slot, run->bound->strides[index][slot->dim]);
            break;
        case AULE_SLOT_SIZE: filled = number_slot(slot, run->bound->sizes[index]); break;
        case AULE_SLOT_PARAM:
            filled =
                param_slot(&run->bound->params[index], rt_param(plan->attention, index)->dtype);
            break;
        case AULE_SLOT_WORKSPACE: {
            const aule_address at = region_of(run, index);
            filled = (uint64_t)(uintptr_t)at.data + (flat ? at.byte_offset : 0);
            offset = (int64_t)(at.byte_offset / (slot->dim && !in_bytes ? slot->dim : 1));
            /* A region of no bytes may lie at the workspace's end, which is no address of its. */
            if (looks && !run->layout->region_bytes[index]) filled = 0;
            break;
        }
        case AULE_SLOT_PRESENT: filled = plan->bound.tensors[index] != NULL; break;
        }
        slots[i] = filled;
        if (offsets) offsets[i] = offset;
    }
}

/* Maps are views that were laid out and addresses of this run. [first]: of the launch's views. */
static uint32_t fill_maps(const Run *run, const aule_launch_v1 *launch, uint32_t first,
                          AuMapped *maps)
{
    const uint32_t count = rt_map_count(launch);
    for (uint32_t n = 0; n < count; n++) {
        const aule_map_v1 *map = rt_map(launch, n);
        const aule_address at =
            map->kind == AULE_SLOT_TENSOR ? run->at[map->index] : region_of(run, map->index);
        maps[n] = (AuMapped){map, &run->layout->maps[first + n],
                             (uint64_t)(uintptr_t)at.data + at.byte_offset};
    }
    return count;
}

static aule_status check_workspace(const Run *run, AuSink sink)
{
    const AuLayout *layout = run->layout;
    const char *name = run->plan->attention->name;
    if (layout->workspace_bytes == 0) return AULE_OK;
    if (!run->given.workspace)
        return rt_fail(sink, AULE_ERROR_WORKSPACE, "%s: no workspace, expected %llu bytes", name,
                       (unsigned long long)layout->workspace_bytes);
    if (run->given.workspace_bytes < layout->workspace_bytes)
        return rt_fail(sink, AULE_ERROR_WORKSPACE,
                       "%s: the workspace has %llu bytes, expected %llu", name,
                       (unsigned long long)run->given.workspace_bytes,
                       (unsigned long long)layout->workspace_bytes);
    if (run->plan->device->backend->flat &&
        (uintptr_t)run->given.workspace % layout->workspace_align != 0)
        return rt_fail(sink, AULE_ERROR_WORKSPACE, "%s: the workspace is not aligned to %u bytes",
                       name, layout->workspace_align);
    return AULE_OK;
}

/* Lists of work are made, or were made. */
static bool is_left_out(const Run *run, const aule_launch_v1 *launch)
{
    if (run->plan->schedules) return !rt_is_work(launch);
    return run->layout->in_work && rt_is_work(launch);
}

/* What was launched last. Kernels that overlap know of those of their own operation, some of those of append, and of nobody else's. */
typedef enum Behind { NOTHING_KNOWN, BEHIND_APPEND, BEHIND_OWN } Behind;

static bool may_begin(Behind behind, const aule_launch_v1 *launch)
{
    return behind == BEHIND_OWN      ? rt_is_early(launch)
           : behind == BEHIND_APPEND ? rt_is_behind_append(launch)
                                     : false;
}

/* *behind: what was launched before, and then what of this. */
static aule_status launch_all(const Run *run, Behind *behind, AuSink sink)
{
    const aule_plan *plan = run->plan;
    const AuBackend *backend = plan->device->backend;
    void *state = plan->device->state, *queue = run->given.queue;
    for (uint32_t i = 0; !plan->schedules && i < run->variant->workspace_count; i++) {
        if (!run->variant->workspaces[i].zeroed || run->layout->region_bytes[i] == 0) continue;
        aule_status status =
            backend->zero(state, queue, run->given.workspace, run->layout->region_at[i],
                          run->layout->region_bytes[i], sink);
        if (status) return status;
        *behind = NOTHING_KNOWN;
    }
    uint64_t slots[AULE_MAX_SLOTS];
    int64_t offsets[AULE_MAX_SLOTS];
    AuMapped maps[AULE_MAX_MAPS];
    uint32_t first = 0;
    for (uint32_t i = 0; i < run->variant->launch_count; i++) {
        const uint32_t *grid = run->layout->grid[i];
        const aule_launch_v1 *kernel = rt_launch(run->variant, i);
        const uint32_t map_count = fill_maps(run, kernel, first, maps);
        first += map_count;
        if (is_left_out(run, kernel)) {
            /* what comes next knows of this one before it, and not of another of its own */
            if (*behind == BEHIND_OWN) *behind = NOTHING_KNOWN;
            continue;
        }
        if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
            *behind = NOTHING_KNOWN; /* it may be the one that waits for those before it */
            continue;
        }
        fill_slots(run, kernel, slots, offsets);
        AuLaunch launch = {.index = i,
                           .grid = {grid[0], grid[1], grid[2]},
                           .slots = slots,
                           .offsets = offsets,
                           .maps = maps,
                           .map_count = map_count,
                           .early = may_begin(*behind, kernel)};
        aule_status status = backend->launch(state, run->code, queue, &launch, sink);
        if (status) return status;
        *behind = BEHIND_OWN;
    }
    return backend->behind ? backend->behind(state, queue, sink) : AULE_OK;
}

static void fill(const AuRun *whole, uint32_t launch, uint64_t *slots)
{
    const Run *run = (const Run *)(const void *)whole;
    fill_slots(run, rt_launch(whole->variant, launch), slots, NULL);
}

static aule_status run_recorded(const Run *run, AuSink sink)
{
    const aule_plan *plan = run->plan;
    Run now = *run;
    now.whole = rt_whole_run(plan, run->layout);
    now.whole.workspace = run->given.workspace;
    now.whole.fill = fill;
    return plan->device->backend->run(plan->device->state, plan->recording, run->given.queue,
                                      &now.whole, sink);
}

static aule_status report(const Run *run, AuSink sink)
{
    return rt_report(run->plan, run->bound, run->layout, run->given.workspace, run->at, sink);
}

/* As planned; with new parameters all that depends on them again, out of line, for its stack. */
static __attribute__((noinline)) aule_status launch_first_anew(Run *first, Behind *behind,
                                                               AuSink sink)
{
    const aule_plan *plan = first->plan;
    AuLayout layout;
    first->layout = &layout;
    const aule_status status = rt_layout(plan->attention, first->variant, plan->device->info.units,
                                         first->bound, &layout, sink);
    return status ? status : launch_all(first, behind, sink);
}

static aule_status launch_first(const Run *run, Behind *behind, AuSink sink)
{
    const AuFirst *of = run->plan->first;
    Run first = *run;
    if (!of) return AULE_OK;
    first.variant = of->variant;
    first.code = of->code;
    first.layout = &of->layout;
    const aule_status status = run->given.params ? launch_first_anew(&first, behind, sink)
                                                 : launch_all(&first, behind, sink);
    *behind = *behind == BEHIND_OWN ? BEHIND_APPEND : NOTHING_KNOWN;
    return status;
}

/* Where launches are done when they return, so are the checks. */
static aule_status launch_and_report(const Run *run, AuSink sink)
{
    const bool later = run->plan->device->backend->synchronize != NULL;
    aule_status status = later ? AULE_OK : rt_check_sequences(run->plan, run->bound, run->at, sink);
    Behind behind = NOTHING_KNOWN;
    if (!status) status = launch_first(run, &behind, sink);
    if (!status)
        status = run->plan->recording ? run_recorded(run, sink) : launch_all(run, &behind, sink);
    return status || later || !rt_check_count(run->plan->variant) ? status : report(run, sink);
}

typedef aule_status (*Step)(const Run *run, AuSink sink);

/* New parameters: all that depends on them, again. Out of line, for its stack. */
static __attribute__((noinline)) aule_status with_params(const Run *planned, Step step, AuSink sink)
{
    const aule_plan *plan = planned->plan;
    AuBound bound = plan->bound;
    AuLayout layout;
    Run run = *planned;
    run.bound = &bound;
    run.layout = &layout;
    aule_status status = rt_bind_params(plan->attention, plan->param_args, plan->param_arg_count,
                                        run.given.params, &bound, sink);
    if (!status && !rt_meets_condition(plan->attention, plan->variant, &bound))
        status =
            rt_fail(sink, AULE_ERROR_PARAM,
                    "%s: the plan's kernels are not for these parameters, which ask for others "
                    "than those it was made with: make another plan",
                    plan->attention->name);
    if (!status)
        status = rt_layout(plan->attention, plan->variant, plan->device->info.units, &bound,
                           &layout, sink);
    if (!status) status = rt_check_work_room(plan, &layout, sink);
    if (!status) status = check_workspace(&run, sink);
    return status ? status : step(&run, sink);
}

static aule_status as_planned(const Run *run, Step step, AuSink sink)
{
    if (run->given.params) return with_params(run, step, sink);
    aule_status status = check_workspace(run, sink);
    return status ? status : step(run, sink);
}

static aule_status move_tensors(const aule_plan *plan, const aule_address *given, aule_address *at,
                                AuSink sink)
{
    memcpy(at, plan->at, sizeof plan->at);
    for (size_t i = 0; i < plan->tensor_arg_count; i++) {
        aule_status status = rt_check_address(plan, plan->tensor_args[i], &given[i], sink);
        if (status) return status;
        at[plan->tensor_args[i]] = given[i];
    }
    return rt_check_map_addresses(plan, at, sink);
}

static Run as_made(const aule_plan *plan)
{
    return (Run){.plan = plan,
                 .variant = plan->variant,
                 .code = plan->code,
                 .bound = &plan->bound,
                 .layout = &plan->layout,
                 .at = plan->at};
}

aule_status aule_plan_run(const aule_plan *plan, const aule_run *given, aule_error **error)
{
    AuSink sink = {plan ? plan->memory : rt_memory(NULL), error};
    if (!plan) return rt_fail(sink, AULE_ERROR_USAGE, "aule_plan_run: plan must not be NULL");
    aule_address moved[AULE_MAX_TENSORS];
    Run run = as_made(plan);
    aule_status status =
        rt_read_options(&run.given, sizeof run.given, sizeof run.given, given, "aule_run", sink);
    if (!status && run.given.tensors) {
        status = move_tensors(plan, run.given.tensors, moved, sink);
        run.at = moved;
    }
    return status ? status : as_planned(&run, launch_and_report, sink);
}

aule_status aule_plan_report(const aule_plan *plan, const aule_run *given, aule_error **error)
{
    AuSink sink = {plan ? plan->memory : rt_memory(NULL), error};
    if (!plan) return rt_fail(sink, AULE_ERROR_USAGE, "aule_plan_report: plan must not be NULL");
    Run run = as_made(plan);
    aule_status status =
        rt_read_options(&run.given, sizeof run.given, sizeof run.given, given, "aule_run", sink);
    if (status || !rt_check_count(plan->variant)) return status;
    aule_address moved[AULE_MAX_TENSORS];
    if (run.given.tensors) {
        status = move_tensors(plan, run.given.tensors, moved, sink);
        run.at = moved;
    }
    if (status) return status;
    const AuBackend *backend = plan->device->backend;
    if (backend->synchronize)
        status = backend->synchronize(plan->device->state, run.given.queue, sink);
    return status ? status : as_planned(&run, report, sink);
}

aule_status aule_attention_run(aule_attention *attention, aule_device *device,
                               const aule_call *call, const aule_run *run, aule_error **error)
{
    aule_plan *plan;
    aule_status status = aule_plan_new(attention, device, call, &plan, error);
    if (status) return status;
    status = aule_plan_run(plan, run, error);
    aule_plan_free(plan);
    return status;
}
