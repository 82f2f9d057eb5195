#include "plan.h"

#include <stdio.h>

#include "maps.h"
#include "variant.h"

/* ---- layout: workspace regions and grids */

static aule_status fail_layout(const aule_attention_v1 *a, const aule_variant_v1 *v,
                               const char *what, const char *wrong, AuSink sink)
{
    return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: %s of the kernels '%s' %s", a->name, what,
                   v->schedule, wrong);
}

/* With the sizes that make it. */
static aule_status fail_grid(const aule_attention_v1 *a, const aule_variant_v1 *v,
                             const aule_expr *grid, const AuEnv *env, const char *wrong,
                             AuSink sink)
{
    AuText names = {.memory = sink.memory};
    rt_expr_names(&names, grid, a, env);
    aule_status status =
        rt_fail(sink, AULE_ERROR_TENSOR, "%s: a grid of the kernels '%s' %s%s%s", a->name,
                v->schedule, wrong, names.length ? ", with " : "", rt_text_str(&names));
    rt_text_free(&names);
    return status;
}

/* A count that an expression gives: 0 or more, at most [limit]. */
static const char *count_of(const aule_expr *expr, const AuEnv *env, uint64_t limit,
                            uint64_t *count)
{
    aule_value value;
    const char *wrong = rt_evaluate(expr, env, &value);
    if (wrong) return wrong;
    if (value.type != AULE_VALUE_INT || value.i < 0) return "is not a count";
    if ((uint64_t)value.i > limit) return "is too large";
    *count = (uint64_t)value.i;
    return NULL;
}

enum { MOST_BLOCKS = INT32_MAX };

/* A 32-bit slot must hold its size. */
static aule_status check_narrow(const aule_attention_v1 *a, const aule_launch_v1 *launch,
                                const AuBound *bound, AuSink sink)
{
    for (uint32_t i = 0; i < launch->slot_count; i++) {
        const aule_slot_v1 *slot = &launch->slots[i];
        if (slot->type != AULE_SLOT_I32) continue;
        bool size = slot->kind == AULE_SLOT_SIZE, stride = slot->kind == AULE_SLOT_STRIDE;
        int64_t value = size     ? bound->sizes[slot->index]
                        : stride ? bound->strides[slot->index][slot->dim]
                                 : 0;
        const int64_t most = size ? AULE_LARGEST_SIZE : INT32_MAX;
        if (value < INT32_MIN || value > most)
            return rt_fail(sink, AULE_ERROR_TENSOR,
                           "%s: %s%s is %lld, the kernel takes at most %lld", a->name,
                           size ? "the size " : "a stride of ",
                           size ? rt_size_name(a, slot->index) : rt_tensor(a, slot->index)->name,
                           (long long)value, (long long)most);
    }
    return AULE_OK;
}

aule_status rt_lay_out_workspace(const aule_attention_v1 *a, const aule_variant_v1 *v,
                                 const AuEnv *env, bool with_work, AuLayout *layout, AuSink sink)
{
    layout->workspace_align = 1;
    layout->workspace_bytes = layout->work_bytes = 0;
    layout->in_work = with_work ? rt_work_regions(v) : 0;
    for (uint32_t i = 0; i < v->workspace_count; i++) {
        uint32_t align = v->workspaces[i].align ? v->workspaces[i].align : 1;
        const char *wrong =
            count_of(&v->workspaces[i].bytes, env, 1ull << 48, &layout->region_bytes[i]);
        if (wrong) return fail_layout(a, v, "a workspace", wrong, sink);
        const bool in_work = layout->in_work >> i & 1;
        uint64_t *end = in_work ? &layout->work_bytes : &layout->workspace_bytes;
        layout->region_at[i] = (*end + align - 1) / align * align;
        *end = layout->region_at[i] + layout->region_bytes[i];
        if (!in_work && align > layout->workspace_align) layout->workspace_align = align;
    }
    return AULE_OK;
}

aule_status rt_layout(const aule_attention_v1 *a, const aule_variant_v1 *v, uint32_t processors,
                      const AuBound *bound, AuLayout *layout, AuSink sink)
{
    AuEnv env = rt_bound_env(a, bound);
    const bool with_work = rt_passed_of(a, bound, AULE_ROLE_WORK) >= 0;
    aule_status status = rt_lay_out_workspace(a, v, &env, with_work, layout, sink);
    if (rt_schedules(bound)) layout->workspace_bytes = 0; /* lists lie in "work" */
    env.processors = processors ? processors : INT32_MAX; /* not known: blocks do not stay */
    for (uint32_t i = 0; !status && i < v->launch_count; i++) {
        const aule_launch_v1 *launch = rt_launch(v, i);
        for (int axis = 0; !status && axis < 3; axis++) {
            uint64_t blocks = 0;
            const char *wrong = count_of(&launch->grid[axis], &env, MOST_BLOCKS, &blocks);
            if (wrong) status = fail_grid(a, v, &launch->grid[axis], &env, wrong, sink);
            layout->grid[i][axis] = (uint32_t)blocks;
        }
        const uint32_t *grid = layout->grid[i];
        if (!status && (uint64_t)grid[0] * grid[1] > (1ull << 48) / (grid[2] ? grid[2] : 1))
            status = fail_layout(a, v, "a grid", "is too large", sink);
        if (!status) status = check_narrow(a, launch, bound, sink);
    }
    return status ? status : rt_lay_out_maps(a, v, bound, layout->maps, sink);
}

/* ---- making plans */

/* "cuda:1 (DLPack type 2)" */
static void device_text(char out[64], DLDevice device)
{
    static const char *const names[] = {
        [kDLCPU] = "cpu",       [kDLCUDA] = "cuda",          [kDLCUDAHost] = "cuda host",
        [kDLOpenCL] = "opencl", [kDLVulkan] = "vulkan",      [kDLMetal] = "metal",
        [kDLROCM] = "rocm",     [kDLROCMHost] = "rocm host", [kDLCUDAManaged] = "cuda managed",
        [kDLOneAPI] = "oneapi"};
    size_t type = (size_t)device.device_type;
    const char *name = type < sizeof names / sizeof *names ? names[type] : NULL;
    snprintf(out, 64, "%s:%d (DLPack type %d)", name ? name : "device", device.device_id,
             (int)device.device_type);
}

static aule_status check_device(const aule_plan *plan, uint32_t index, const DLTensor *given,
                                AuSink sink)
{
    const AuBackend *backend = plan->device->backend;
    const aule_device_info *info = &plan->device->info;
    bool kind = false;
    for (size_t i = 0; i < sizeof backend->dl / sizeof *backend->dl; i++)
        if (backend->dl[i] != 0 && given->device.device_type == backend->dl[i]) kind = true;
    bool same = given->device.device_type != info->dl.device_type ||
                given->device.device_id == info->dl.device_id;
    if (kind && same) return AULE_OK;
    char found[64], expected[64];
    device_text(found, given->device);
    device_text(expected, info->dl);
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: it is on %s, expected %s",
                   plan->attention->name, rt_tensor(plan->attention, index)->name, found, expected);
}

aule_status rt_check_address(const aule_plan *plan, uint32_t index, const aule_address *at,
                             AuSink sink)
{
    const char *attention = plan->attention->name, *name = rt_tensor(plan->attention, index)->name;
    if (plan->empty[index]) return AULE_OK;
    if (!at->data)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: its data is NULL", attention, name);
    const bool is_work = (int32_t)index == plan->work;
    uint64_t bytes = is_work ? AU_WORK_ALIGN : rt_dtype_bytes(plan->bound.dtypes[index]);
    uint64_t address =
        (plan->device->backend->flat ? (uint64_t)(uintptr_t)at->data : 0) + at->byte_offset;
    if ((address & (bytes - 1)) == 0) return AULE_OK; /* a power of two */
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: %s: its address is %llu past a multiple of %llu, %s%s", attention, name,
                   (unsigned long long)(address % bytes), (unsigned long long)bytes,
                   is_work ? "where lists of work begin" : "the bytes of ",
                   is_work ? "" : rt_dtype_name(plan->bound.dtypes[index]));
}

/* Offsets are those of memory that there could be; handles have an end, and a beginning. */
static aule_status check_inside(const aule_plan *plan, uint32_t index, const DLTensor *given,
                                AuSink sink)
{
    const AuBackend *backend = plan->device->backend;
    int64_t low, high, bytes = rt_dtype_bytes(plan->bound.dtypes[index]);
    rt_extent(given, plan->bound.strides[index], &low, &high);
    if (high < low) return AULE_OK;
    const char *name = rt_tensor(plan->attention, index)->name;
    if (given->byte_offset > INT64_MAX / 4)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: %s: its byte_offset is %llu, beyond all memory", plan->attention->name,
                       name, (unsigned long long)given->byte_offset);
    if (backend->flat && backend->check_memory)
        return backend->check_memory(plan->device->state, name,
                                     (char *)given->data +
                                         ((int64_t)given->byte_offset + low * bytes),
                                     (uint64_t)((high + 1 - low) * bytes), sink);
    if (backend->flat) return AULE_OK;
    if ((int64_t)given->byte_offset + low * bytes < 0)
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: its strides reach before its buffer",
                       plan->attention->name, name);
    if (!backend->check_memory) return AULE_OK;
    return backend->check_memory(plan->device->state, name, given->data,
                                 given->byte_offset + (uint64_t)((high + 1) * bytes), sink);
}

static aule_status take_tensors(aule_plan *plan, const aule_call *call, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const DLTensor *given = plan->bound.tensors[i];
        if (!given) continue;
        int64_t low, high;
        rt_extent(given, plan->bound.strides[i], &low, &high);
        plan->empty[i] = high < low;
        plan->at[i] = (aule_address){given->data, given->byte_offset};
        aule_status status = check_device(plan, i, given, sink);
        if (!status) status = rt_check_address(plan, i, &plan->at[i], sink);
        if (!status) status = check_inside(plan, i, given, sink);
        if (status) return status;
    }
    plan->tensor_arg_count = call->tensor_count;
    for (size_t i = 0; i < call->tensor_count; i++)
        plan->tensor_args[i] = (uint32_t)rt_find_tensor(a, call->tensors[i].name);
    plan->param_arg_count = call->param_count;
    for (size_t i = 0; i < call->param_count; i++) {
        plan->param_args[i].name =
            rt_param(a, (uint32_t)rt_find_param(a, call->params[i].name))->name;
        plan->param_args[i].value = call->params[i].value;
    }
    return rt_check_overlaps(a, &plan->bound, plan->device->backend->flat, sink);
}

/* Is it made of launches of another? */
static bool has_schedule(const aule_attention_v1 *a)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (rt_tensor(a, i)->role == AULE_ROLE_WORK) return true;
    return false;
}

static aule_status check_operation(const aule_attention_v1 *a, const char *operation, AuSink sink)
{
    AuText names = {.memory = sink.memory};
    if (strcmp(operation, "schedule") == 0 && has_schedule(a)) return AULE_OK;
    for (uint32_t i = 0; i < a->variant_count; i++) {
        const char *name = rt_variant(a, i)->operation;
        if (strcmp(name, operation) == 0) return rt_text_free(&names), AULE_OK;
        if (!names.at || !strstr(names.at, name))
            rt_text_add(&names, "%s%s", names.at ? ", " : "", name);
    }
    aule_status status = rt_fail(
        sink, AULE_ERROR_UNSUPPORTED, "%s: no operation '%s', the artifact has %s%s", a->name,
        operation, names.at ? rt_text_str(&names) : "none",
        strcmp(operation, "backward") == 0 ? ": the script has no gradient, or was compiled with "
                                             "--no-grad or in a layout that has none"
        : strcmp(operation, "schedule") == 0
            ? ": lists of work are of rows in layouts (aulec --layout), from version 1.19 on"
            : "");
    rt_text_free(&names);
    return status;
}

AuRun rt_whole_run(const aule_plan *plan, const AuLayout *layout)
{
    return (AuRun){.attention = plan->attention,
                   .variant = plan->variant,
                   .grid = layout->grid,
                   .region_at = layout->region_at,
                   .region_bytes = layout->region_bytes};
}

static aule_status record_plan(aule_plan *plan, AuSink sink)
{
    const AuBackend *backend = plan->device->backend;
    const AuRun whole = rt_whole_run(plan, &plan->layout);
    return backend->record
               ? backend->record(plan->device->state, plan->code, &whole, &plan->recording, sink)
               : AULE_OK;
}

/* Kernels of append, and where they are put on the queue one by one, as those behind them. */
static aule_status add_first(aule_plan *plan, const aule_call *call, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const AuBackend *backend = plan->device->backend;
    const int32_t rows = rt_passed_of(a, &plan->bound, AULE_ROLE_NEW);
    AuFirst *first = rt_alloc(sink.memory, sizeof *first);
    if (!first) return rt_fail_memory(sink);
    plan->first = first;
    if (backend->record)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "%s: %s: %s appends rows by calls of append alone", a->name,
                       rt_tensor(a, (uint32_t)rows)->name, backend->name);
    aule_status status = check_operation(a, "append", sink);
    if (!status)
        status = rt_choose_variant(a, plan->device, &plan->bound, "append", call->arch, false,
                                   &first->variant, sink);
    if (!status && first->variant->workspace_count)
        status = fail_layout(a, first->variant, "the workspace", "is not the plan's", sink);
    if (!status)
        status = rt_layout(a, first->variant, plan->device->info.units, &plan->bound,
                           &first->layout, sink);
    if (!status)
        status = rt_module_program(plan->module, plan->device, first->variant, &first->code, sink);
    return status;
}

static aule_status fill_plan(aule_plan *plan, const aule_call *call, AuSink sink)
{
    const aule_attention_v1 *a = plan->attention;
    const char *operation = call->operation ? call->operation : "forward";
    aule_status status = check_operation(a, operation, sink);
    if (!status) status = rt_bind_tensors(a, call, true, &plan->bound, sink);
    if (!status)
        status = rt_bind_params(a, call->params, call->param_count, NULL, &plan->bound, sink);
    plan->work = rt_passed_of(a, &plan->bound, AULE_ROLE_WORK);
    plan->schedules = rt_schedules(&plan->bound);
    if (!status) status = take_tensors(plan, call, sink);
    if (!status)
        status =
            rt_choose_variant(a, plan->device, &plan->bound, rt_kernels_of(operation), call->arch,
                              call->flags & AULE_CALL_INVARIANT, &plan->variant, sink);
    if (!status) status = rt_check_work(plan, call, sink);
    if (!status) status = rt_check_room(plan, sink);
    if (!status)
        status = rt_layout(a, plan->variant, plan->device->info.units, &plan->bound, &plan->layout,
                           sink);
    if (!status)
        status = rt_module_program(plan->module, plan->device, plan->variant, &plan->code, sink);
    if (!status && plan->bound.first) status = add_first(plan, call, sink);
    return status ? status : record_plan(plan, sink);
}

aule_status aule_plan_new(aule_attention *attention, aule_device *device, const aule_call *call,
                          aule_plan **plan, aule_error **error)
{
    AuSink sink = {attention ? attention->module->memory : rt_memory(NULL), error};
    if (!attention || !device || !call || !plan)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_plan_new: attention, device, call and plan must not be NULL");
    aule_call read;
    aule_status status =
        rt_read_options(&read, sizeof read, offsetof(aule_call, flags), call, "aule_call", sink);
    if (status) return status;
    if (read.flags & ~AULE_CALL_INVARIANT)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_call: flags %u, of which none is known but %u",
                       read.flags, AULE_CALL_INVARIANT);
    aule_plan *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    made->memory = sink.memory;
    made->module = rt_module_keep(attention->module);
    made->device = rt_device_keep(device);
    made->attention = attention->descriptor;
    status = fill_plan(made, &read, sink);
    if (status)
        aule_plan_free(made);
    else
        *plan = made;
    return status;
}

void aule_plan_free(aule_plan *plan)
{
    if (!plan) return;
    aule_module *module = plan->module;
    aule_device *device = plan->device;
    if (plan->recording) device->backend->forget(device->state, plan->recording);
    rt_free(plan->first);
    rt_free(plan);
    rt_module_release(module);
    rt_device_release(device);
}

const aule_variant_v1 *aule_plan_variant(const aule_plan *plan)
{
    return plan ? plan->variant : NULL;
}

uint64_t aule_plan_spilled(const aule_plan *plan)
{
    return plan && plan->device->backend->spilled ? plan->device->backend->spilled(plan->code) : 0;
}

uint64_t aule_plan_workspace(const aule_plan *plan, uint32_t *align)
{
    if (align) *align = plan ? plan->layout.workspace_align : 1;
    return plan ? plan->layout.workspace_bytes : 0;
}

/* ---- shapes */

aule_status aule_attention_shape(const aule_attention *attention, const aule_call *call,
                                 const char *name, int32_t *rank, int64_t shape[8],
                                 DLDataType *dtype, aule_error **error)
{
    AuSink sink = {attention ? attention->module->memory : rt_memory(NULL), error};
    if (!attention || !call || !name || !rank || !shape || !dtype)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_attention_shape: no argument may be NULL");
    const aule_attention_v1 *a = attention->descriptor;
    AuBound bound;
    aule_call read;
    aule_status status =
        rt_read_options(&read, sizeof read, offsetof(aule_call, flags), call, "aule_call", sink);
    if (!status) status = rt_bind_tensors(a, &read, false, &bound, sink);
    if (status) return status;
    int32_t index = rt_find_tensor(a, name);
    if (index < 0) return rt_fail(sink, AULE_ERROR_NAME, "%s: no tensor '%s'", a->name, name);
    const aule_tensor_v1 *t = rt_tensor(a, (uint32_t)index);
    if (t->role == AULE_ROLE_WORK) {
        *rank = 1;
        *dtype = rt_dtype_dl(t->dtype);
        status = rt_bind_params(a, read.params, read.param_count, NULL, &bound, sink);
        return status ? status : rt_work_words(a, &read, &bound, &shape[0], sink);
    }
    AuEnv env = {bound.sizes, NULL, a->size_count, 0, 0};
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        aule_value extent;
        const char *wrong = rt_evaluate(&t->axes[axis], &env, &extent);
        if (!wrong && (extent.type != AULE_VALUE_INT || extent.i < 0))
            wrong = "is not given by the inputs";
        if (wrong)
            return rt_fail(sink, AULE_ERROR_TENSOR, "%s: %s: the extent of axis %u %s", a->name,
                           name, axis, wrong);
        shape[axis] = extent.i;
    }
    *rank = (int32_t)t->rank;
    *dtype = rt_dtype_dl(t->dtype == AULE_OPERAND ? bound.operand : t->dtype);
    return AULE_OK;
}
