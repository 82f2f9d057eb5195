/* levelzero.c - Intel's devices by oneAPI Level Zero: code is SPIR-V (flavour Kernel), memory has addresses (USM), work goes on an immediate
 * command list of the device's own, or on the caller's lists or queues (aule_queue_kind). Contexts are the caller's or our own. */
#include "levelzero.h"

/* ---- errors */

static bool is_loss(ze_result_t code)
{
    return code == ZE_RESULT_ERROR_DEVICE_LOST || code == ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET;
}

aule_status rt_ze_fail(LevelZero *z, AuSink sink, aule_status status, const char *call,
                       ze_result_t code, const char *more)
{
    char number[24];
    if (is_loss(code)) atomic_store(&z->lost, code);
    return rt_fail(sink, status, "levelzero:%u: %s: %s%s%s%s", z->index, call,
                   rt_ze_error(code, number), *more ? "; " : "", more,
                   is_loss(code) ? "; a kernel has failed or hung, or the device was reset: what "
                                   "was on it is lost, open it again"
                                 : "");
}

aule_status rt_ze_check(LevelZero *z, AuSink sink, const char *call, ze_result_t code)
{
    if (code == ZE_RESULT_SUCCESS) return AULE_OK;
    const bool memory =
        code == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY || code == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    return rt_ze_fail(z, sink, memory ? AULE_ERROR_MEMORY : AULE_ERROR_DRIVER, call, code, "");
}

aule_status rt_ze_alive(LevelZero *z, AuSink sink)
{
    const ze_result_t lost = atomic_load(&z->lost);
    return lost ? rt_ze_check(z, sink, "an earlier call", lost) : AULE_OK;
}

/* ---- opening */

static aule_status find_again(LevelZero *z, AuSink sink)
{
    ZeListed listed[ZE_DEVICES];
    ze_result_t code;
    AuText why = {.memory = z->heap};
    const uint32_t count = rt_ze_devices(&z->ze, listed, &why);
    aule_status status = AULE_OK;
    if (!count)
        status = rt_fail(sink, AULE_ERROR_DEVICE, "levelzero: %s", rt_text_str(&why));
    else if (z->index >= count)
        status = rt_fail(sink, AULE_ERROR_DEVICE, "levelzero:%u: the device is gone", z->index);
    else {
        z->at = listed[z->index];
        const char *call = rt_ze_facts(&z->ze, &z->at, &z->facts, &code);
        if (call) status = rt_ze_check(z, sink, call, code);
        const char *lacks = call ? NULL : rt_ze_lacks(&z->facts);
        if (lacks) status = rt_fail(sink, AULE_ERROR_DEVICE, "levelzero:%u: %s", z->index, lacks);
    }
    rt_text_free(&why);
    return status;
}

static aule_status take_context(LevelZero *z, void *given, AuSink sink)
{
    const ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    if (given) {
        z->context = given;
        return rt_ze_check(z, sink, "the given context: zeContextGetStatus",
                           z->ze.zeContextGetStatus(given));
    }
    const ze_result_t code = z->ze.zeContextCreate(z->at.driver, &desc, &z->context);
    z->owns_context = code == ZE_RESULT_SUCCESS;
    return rt_ze_check(z, sink, "zeContextCreate", code);
}

static aule_status make_list(LevelZero *z, AuSink sink)
{
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = z->facts.ordinal,
                                          .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    const ze_result_t code =
        z->ze.zeCommandListCreateImmediate(z->context, z->at.device, &desc, &z->own);
    if (code != ZE_RESULT_SUCCESS) z->own = NULL;
    return rt_ze_check(z, sink, "zeCommandListCreateImmediate", code);
}

static aule_status make_mark(LevelZero *z, AuSink sink)
{
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *at = NULL;
    const ze_result_t code =
        z->ze.zeMemAllocHost(z->context, &desc, sizeof *z->at_work, ZE_ALIGN, &at);
    if (code) return rt_ze_check(z, sink, "zeMemAllocHost", code);
    memset(at, 0, sizeof *z->at_work);
    z->at_work = at;
    return AULE_OK;
}

static void close_levelzero(void *state)
{
    LevelZero *z = state;
    if (!rt_ze_idle(z)) return; /* with all that it may still read */
    rt_ze_queue_end(z);
    rt_ze_events_end(z);
    if (z->stage) z->ze.zeMemFree(z->context, z->stage);
    if (z->at_work) z->ze.zeMemFree(z->context, (void *)(uintptr_t)z->at_work);
    if (z->owns_context) z->ze.zeContextDestroy(z->context);
    pthread_mutex_destroy(&z->lock);
    rt_free(z);
}

static aule_status open_levelzero(AuHeap memory, uint32_t index, const aule_device_options *options,
                                  void **state, AuSink sink)
{
    LevelZero *z = rt_alloc(memory, sizeof *z);
    if (!z) return rt_fail_memory(sink);
    z->heap = memory;
    z->index = index;
    z->kind = options->queue_kind;
    atomic_init(&z->awaited, NULL);
    atomic_init(&z->lost, 0);
    atomic_init(&z->hung, false);
    pthread_mutex_init(&z->lock, NULL);
    aule_status status = rt_patience(ZE_PATIENCE, &z->patience, sink);
    if (!status) status = find_again(z, sink);
    if (!status) status = take_context(z, options->context, sink);
    if (!status) status = make_mark(z, sink); /* first: whoever waits for the list looks at it */
    if (!status) status = make_list(z, sink);
    if (status)
        close_levelzero(z);
    else
        *state = z;
    return status;
}

/* ---- the backend */

static void explain(const aule_device_info *info, const char *feature, AuText *text)
{
    (void)feature;
    rt_text_add(text, "; what the device has: %s", info->features);
}

static aule_status environment(AuSink sink)
{
    uint64_t patience;
    return rt_patience(ZE_PATIENCE, &patience, sink);
}

const AuBackend au_backend_levelzero = {
    .api_version = AU_BACKEND_API,
    .name = "levelzero",
    .flat = true,
    .has_uuids = true,
    .queues = {"immediate ze_command_list_handle_t", "ze_command_list_handle_t",
               "ze_command_queue_handle_t"},
    .dl = {kDLOneAPI},
    .find = rt_ze_find,
    .environment = environment,
    .open = open_levelzero,
    .close = close_levelzero,
    .explain = explain,
    .load = rt_ze_load,
    .unload = rt_ze_unload,
    .spilled = rt_ze_spilled,
    .check_memory = rt_ze_check_memory,
    .launch = rt_ze_launch,
    .zero = rt_ze_zero,
    .synchronize = rt_ze_synchronize,
    .behind = rt_ze_behind,
    .buffer_new = rt_ze_buffer_new,
    .buffer_free = rt_ze_buffer_free,
    .upload = rt_ze_upload,
    .download = rt_ze_download,
    .event_record = rt_ze_event_record,
    .event_wait = rt_ze_event_wait,
    .event_elapsed = rt_ze_event_elapsed,
    .event_free = rt_ze_event_free,
};
