#include "levelzero_case.h"

#include <dlfcn.h>
#include <string.h>

Callers callers;

/* The sample's module with modules for Level Zero instead of PTX. The mock knows kernels by their names, so that no code is needed. */
static const uint32_t code[] = {0x07230203, 0x00010000, 0, 1, 0, 3 << 16 | 14, 2, 2};
static CaseModule sample;

static void take(void *loader, const char *name, void *function)
{
    void *found = dlsym(loader, name);
    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

void set_code(const uint32_t *words, size_t bytes)
{
    case_module(&sample, &(aule_variant_v1){.target = "levelzero",
                                            .arch = "levelzero10",
                                            .features = "SPIR-V_1.0 shared32k",
                                            .code_format = AULE_CODE_SPIRV,
                                            .code = words ? words : code,
                                            .code_bytes = words ? bytes : sizeof code});
}

void set_features(const char *features)
{
    case_module(&sample, &(aule_variant_v1){.target = "levelzero",
                                            .arch = "levelzero10",
                                            .features = features,
                                            .code_format = AULE_CODE_SPIRV,
                                            .code = code,
                                            .code_bytes = sizeof code});
}

void make_module(const char *driver)
{
    AuText why = {.memory = rt_memory(NULL)};
    void *loader = dlopen("libze_loader.so.1", RTLD_NOW);
    if (!loader || !rt_ze_api(&callers.ze, &why)) fail_msg("%s", rt_text_str(&why));
    void *mock = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : loader;
    if (!mock) fail_msg("%s", dlerror());
    take(mock, "levelzero_mock", (void *)&callers.mock);
    take(mock, "levelzero_mock_reset", (void *)&callers.reset);
    take(mock, "levelzero_mock_work", (void *)&callers.work);
    take(loader, "zeCommandQueueCreate", (void *)&callers.queue_create);
    take(loader, "zeCommandQueueDestroy", (void *)&callers.queue_destroy);
    set_features("SPIR-V_1.0 shared32k");
}

void open_case(Setup *s, On on)
{
    memset(s, 0, sizeof *s);
    s->on = on;
    s->c = case_new();
}

/* ---- what is the caller's */

static bool make_callers(Setup *s)
{
    uint32_t one = 1;
    ze_driver_handle_t driver;
    ze_device_handle_t device;
    const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                           .ordinal = 1,
                                           .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    const ze_command_list_desc_t list = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = 1};
    const AuLevelZero *ze = &callers.ze;
    if (ze->zeInit(0) || ze->zeDriverGet(&one, &driver) || ze->zeDeviceGet(driver, &one, &device))
        return false;
    if (ze->zeContextCreate(driver, &context, &s->context)) return s->context = NULL, false;
    if (s->on != ON_IMMEDIATE && callers.queue_create(s->context, device, &queue, &s->queue))
        return s->queue = NULL, false;
    if (s->on == ON_RECORDED && ze->zeCommandListCreate(s->context, device, &list, &s->list))
        return s->list = NULL, false;
    if (s->on == ON_IMMEDIATE &&
        ze->zeCommandListCreateImmediate(s->context, device, &queue, &s->list))
        return s->list = NULL, false;
    return true;
}

static void *queue_of(const Setup *s)
{
    return s->on == ON_OWN ? NULL : s->on == ON_COMMANDS ? (void *)s->queue : (void *)s->list;
}

aule_status open_device(Setup *s, aule_error **error)
{
    static const uint32_t kinds[] = {
        [ON_RECORDED] = AULE_QUEUE_RECORDED, [ON_COMMANDS] = AULE_QUEUE_COMMANDS};
    s->by_caller = s->on != ON_OWN && !make_callers(s);
    const aule_options module_options = {sizeof module_options, s->allocator};
    const aule_device_options options = {.struct_size = sizeof options,
                                         .allocator = s->allocator,
                                         .context = s->context,
                                         .queue_kind = kinds[s->on]};
    aule_status status = aule_module_from(&sample.module, &module_options, &s->module, error);
    if (status) return status;
    return s->by_caller ? AULE_ERROR_DRIVER
                        : aule_device_open("levelzero:0", &options, &s->device, error);
}

/* A recorded list is executed by its owner; the others are waited for as they are. */
static aule_status finish(Setup *s, aule_error **error)
{
    if (s->on != ON_RECORDED) return aule_device_synchronize(s->device, queue_of(s), error);
    s->by_caller = callers.ze.zeCommandListClose(s->list) ||
                   callers.ze.zeCommandQueueExecuteCommandLists(s->queue, 1, &s->list, NULL) ||
                   callers.ze.zeCommandQueueSynchronize(s->queue, UINT64_MAX);
    return s->by_caller ? AULE_ERROR_DRIVER : AULE_OK;
}

/* ---- runs */

aule_status place(Setup *s, aule_error **error)
{
    s->c->run.queue = queue_of(s);
    return case_place(s->c, s->device, TENSORS, s->buffers, &s->workspace, error);
}

aule_status fetch(Setup *s, aule_error **error)
{
    aule_status status = AULE_OK;
    if (s->on != ON_OWN && s->on != ON_RECORDED)
        status = aule_device_synchronize(s->device, queue_of(s), error);
    return status ? status : case_fetch(s->c, TENSORS, s->buffers, error);
}

aule_status run_all(Setup *s, aule_error **error)
{
    uint64_t nanoseconds;
    aule_status status = open_device(s, error);
    if (!status) status = place(s, error);
    if (!status)
        status = aule_plan_new(aule_module_attention(s->module, 0), s->device, &s->c->call,
                               &s->plan, error);
    if (!status) status = aule_event_record(s->device, queue_of(s), &s->first, error);
    if (!status) status = aule_plan_run(s->plan, &s->c->run, error);
    if (!status) status = aule_event_record(s->device, queue_of(s), &s->last, error);
    if (!status) status = finish(s, error);
    if (!status) status = aule_event_elapsed(s->first, s->last, &nanoseconds, error);
    return status ? status : fetch(s, error);
}

void close_case(Setup *s)
{
    callers.mock->fail = NULL;
    if (s->on == ON_IMMEDIATE || s->on == ON_RECORDED) callers.work(); /* as its owner would wait */
    if (s->on == ON_RECORDED && s->list) callers.ze.zeCommandListReset(s->list);
    aule_event_free(s->first);
    aule_event_free(s->last);
    aule_plan_free(s->plan);
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(s->buffers[t]);
    aule_buffer_free(s->workspace);
    aule_module_close(s->module);
    aule_device_close(s->device);
    if (s->list) callers.ze.zeCommandListDestroy(s->list);
    if (s->queue) callers.queue_destroy(s->queue);
    if (s->context) callers.ze.zeContextDestroy(s->context);
    case_free(s->c);
}

/* ---- expectations */

void expect_nothing_left(void)
{
    if (callers.mock->broken) fail_msg("%s", callers.mock->broken);
    for (int n = 0; n < MOCK_KINDS; n++)
        if (callers.mock->alive[n])
            fail_msg("%d objects of kind %d are left", callers.mock->alive[n], n);
}

void expect_right(On on)
{
    Setup s;
    aule_error *error = NULL;
    open_case(&s, on);
    if (run_all(&s, &error)) fail_msg("on %d: %s", on, error ? aule_error_message(error) : "");
    assert_true(case_is_right(s.c));
    assert_int_equal(aule_device_get_info(s.device)->units, 14);
    close_case(&s);
    expect_nothing_left();
}

void expect_wrong(On on, aule_status status, const char *text)
{
    Setup s;
    aule_error *error = NULL;
    open_case(&s, on);
    aule_status found = run_all(&s, &error);
    expect_error(found, &error, status, text);
    close_case(&s);
    expect_nothing_left();
}
