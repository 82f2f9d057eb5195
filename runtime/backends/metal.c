/* metal.c - Apple's GPUs: tensors are MTLBuffers with offsets, memory is shared with the processor, every launch is a command buffer of
 * its own, or is added to one of the caller's. Nothing of it ran on macOS: tests run it against a double of Apple's libraries (docs/dev/metal.md). */
#include "metal.h"

/* ---- devices */

static bool is_of(const MetalApi *m, MetalId device, int64_t family)
{
    return METAL_CALL(m, device, family, family);
}

/* Families that code is compiled for, the newest first, and languages. */
static const char *features_of(bool is_apple9, uint32_t language)
{
    static const char *const features[2][METAL_NEWEST + 1] = {
        {"apple7 metal3", "apple7 metal3 msl31", "apple7 metal3 msl31 msl32"},
        {"apple9 apple7 metal3", "apple9 apple7 metal3 msl31", "apple9 apple7 metal3 msl31 msl32"}};
    return features[is_apple9][language];
}

static aule_status found(AuFinder *finder, const MetalApi *m, MetalId device, uint32_t index,
                         uint32_t language, AuSink sink)
{
    char id[24];
    const bool apple7 = is_of(m, device, METAL_FAMILY_APPLE7),
               metal3 = is_of(m, device, METAL_FAMILY_METAL3);
    snprintf(id, sizeof id, "metal:%u", index);
    aule_device_info info = {
        .id = id,
        .backend = "metal",
        .available = apple7 && metal3,
        .reason = apple7 && metal3 ? ""
                  : metal3         ? "its family is older than Apple7 (M1)"
                                   : "it has no Metal 3: macOS 13 is needed",
        .name = rt_metal_words(m, METAL_GET(m, device, name)),
        .driver = "Metal",
        .features =
            apple7 && metal3 ? features_of(is_of(m, device, METAL_FAMILY_APPLE9), language) : "",
        .kind = AULE_DEVICE_GPU,
        .memory_bytes = METAL_GET(m, device, working_set),
        .dl = {kDLMetal, (int32_t)index}};
    return rt_found(finder, &info, sink);
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    MetalApi m;
    AuText why = {.memory = sink.memory};
    aule_status status = AULE_OK;
    if (rt_metal_begin(&m, &why)) {
        void *pool = m.objc_autoreleasePoolPush();
        MetalId all = m.MTLCopyAllDevices();
        const uint32_t language = rt_metal_language(&m);
        const uint64_t count = all ? METAL_GET(&m, all, count) : 0;
        for (uint64_t n = 0; n < count && !status; n++)
            status =
                found(finder, &m, METAL_CALL(&m, all, object_at, n), (uint32_t)n, language, sink);
        if (all) METAL_GET(&m, all, release);
        m.objc_autoreleasePoolPop(pool);
        if (count) return status;
        rt_text_add(&why, "Metal has no devices");
    }
    return rt_found_none(finder, "metal", (DLDevice){0}, &why, sink);
}

static MetalId device_at(const MetalApi *m, uint32_t index)
{
    MetalId all = m->MTLCopyAllDevices(), device = NULL;
    if (all && index < METAL_GET(m, all, count)) device = METAL_CALL(m, all, object_at, index);
    if (device) METAL_GET(m, device, retain);
    if (all) METAL_GET(m, all, release);
    return device;
}

static void release(const MetalApi *m, MetalId object)
{
    if (object) METAL_GET(m, object, release);
}

static void close_metal(void *state)
{
    Metal *d = state;
    if (d->api.objc_msgSend) {
        void *pool = d->api.objc_autoreleasePoolPush();
        rt_metal_forget_all(d);
        release(&d->api, d->queue);
        release(&d->api, d->device);
        d->api.objc_autoreleasePoolPop(pool);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->probing);
    rt_recent_end(&d->recent);
    rt_free(d);
}

static aule_status fill(Metal *d, const aule_device_options *options, AuSink sink)
{
    AuText why = {.memory = d->memory};
    const bool begun = rt_metal_begin(&d->api, &why);
    aule_status status = AULE_OK;
    if (!begun) {
        d->api.objc_msgSend = NULL;
        status = rt_fail(sink, AULE_ERROR_DEVICE, "metal: %s", rt_text_str(&why));
    }
    rt_text_free(&why);
    if (!begun) return status;
    void *pool = d->api.objc_autoreleasePoolPush();
    if (options->context) /* the caller's MTLDevice */
        d->device = METAL_GET(&d->api, (MetalId)options->context, retain);
    else
        d->device = device_at(&d->api, d->index);
    d->language = rt_metal_language(&d->api);
    if (d->device) d->queue = METAL_GET(&d->api, d->device, new_queue);
    d->api.objc_autoreleasePoolPop(pool);
    if (!d->device)
        return rt_fail(sink, AULE_ERROR_DEVICE, "metal:%u: the device is gone", d->index);
    if (!d->queue)
        return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: newCommandQueue: gave none", d->index);
    return AULE_OK;
}

static aule_status open_metal(AuHeap memory, uint32_t index, const aule_device_options *options,
                              void **state, AuSink sink)
{
    Metal *d = rt_alloc(memory, sizeof *d);
    if (!d) return rt_fail_memory(sink);
    *d = (Metal){
        .memory = memory, .index = index, .recorded = options->queue_kind == AULE_QUEUE_RECORDED};
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->probing, NULL);
    rt_recent_begin(&d->recent);
    aule_status status = fill(d, options, sink);
    if (status)
        close_metal(d);
    else
        *state = d;
    return status;
}

/* ---- memory */

static aule_status fill_zero(Metal *d, void *queue, MetalId buffer, MetalRange range, AuSink sink)
{
    const MetalApi *m = &d->api;
    MetalId commands;
    aule_status status = rt_metal_commands(d, queue, &commands, sink);
    if (status) return status;
    MetalId encoder = METAL_GET(m, commands, blit);
    if (!encoder)
        return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: blitCommandEncoder: gave none",
                       d->index);
    METAL_CALL(m, encoder, fill, buffer, range, 0);
    rt_metal_commit(d, queue, commands, encoder, METAL_NO_LAUNCH);
    return AULE_OK;
}

static aule_status zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                        AuSink sink)
{
    Metal *d = state;
    void *pool = d->api.objc_autoreleasePoolPush();
    aule_status status = fill_zero(d, queue, data, (MetalRange){offset, bytes}, sink);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}

static aule_status check_owner(const Metal *d, const char *name, MetalId buffer, AuSink sink)
{
    char what[128];
    snprintf(what, sizeof what, "%s: its buffer", name);
    void *pool = d->api.objc_autoreleasePoolPush();
    const aule_status status = rt_metal_check_device(d, buffer, what, AULE_ERROR_TENSOR, sink);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}

static aule_status check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                AuSink sink)
{
    const Metal *d = state;
    /* Objects are allocated one by one, what buffers hold is not: a message to it would end the process. */
    if (data && d->api.malloc_size && !d->api.malloc_size(data))
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: its data is no Metal buffer: expected an id<MTLBuffer>, with its "
                       "offset in byte_offset",
                       name);
    if (data) {
        const aule_status status = check_owner(d, name, data, sink);
        if (status) return status;
    }
    const uint64_t length = METAL_GET(&d->api, (MetalId)data, length);
    if (bytes <= length) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: its buffer has %llu bytes, its shape and strides reach %llu", name,
                   (unsigned long long)length, (unsigned long long)bytes);
}

static aule_status buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    const Metal *d = state;
    MetalId buffer = METAL_CALL(&d->api, d->device, new_buffer, bytes ? bytes : 1, 0);
    if (!buffer)
        return rt_fail(
            sink, AULE_ERROR_MEMORY,
            "metal:%u: no buffer of %llu bytes, the device's working set is %llu at most", d->index,
            (unsigned long long)bytes,
            (unsigned long long)METAL_GET(&d->api, d->device, working_set));
    *data = buffer;
    return AULE_OK;
}

/* Freed without a word to anybody (deallocator: nil). */
static aule_status buffer_host(void *state, void *memory, uint64_t bytes, void **data, AuSink sink)
{
    const Metal *d = state;
    MetalId buffer = METAL_CALL(&d->api, d->device, host_buffer, memory, bytes, 0, NULL);
    if (!buffer)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "metal:%u: newBufferWithBytesNoCopy: gave none for %llu bytes at %p: copy "
                       "them into a buffer",
                       d->index, (unsigned long long)bytes, memory);
    *data = buffer;
    return AULE_OK;
}

static void buffer_free(void *state, void *data) { release(&((Metal *)state)->api, data); }

/* Where the processor sees a buffer, after the work on our own queue. */
static aule_status look(Metal *d, void *data, unsigned char **at, AuSink sink)
{
    void *pool = d->api.objc_autoreleasePoolPush();
    aule_status status = rt_metal_finish(d, sink);
    *at = METAL_GET(&d->api, (MetalId)data, contents);
    d->api.objc_autoreleasePoolPop(pool);
    if (!status && !*at)
        status = rt_fail(sink, AULE_ERROR_TENSOR,
                         "metal:%u: a buffer of private storage, which the processor cannot see",
                         d->index);
    return status;
}

static aule_status upload(void *state, void *data, uint64_t offset, const void *from,
                          uint64_t bytes, AuSink sink)
{
    unsigned char *at;
    aule_status status = look(state, data, &at, sink);
    if (!status) memcpy(at + offset, from, (size_t)bytes);
    return status;
}

static aule_status download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink)
{
    unsigned char *at;
    aule_status status = look(state, data, &at, sink);
    if (!status) memcpy(to, at + offset, (size_t)bytes);
    return status;
}

/* ---- events: empty command buffers, whose end is the point */

typedef struct Point {
    Metal *owner;
    MetalId commands;
    const void *queue;
} Point;

static aule_status event_record(void *state, void *queue, void **event, AuSink sink)
{
    Metal *d = state;
    aule_status status = rt_metal_refuse_recorded(
        d, queue, "no event can be recorded in a command buffer of the caller's", sink);
    if (status) return status;
    Point *point = rt_alloc(d->memory, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    void *pool = d->api.objc_autoreleasePoolPush();
    MetalId commands;
    status = rt_metal_commands(d, queue, &commands, sink);
    if (!status) {
        *point = (Point){d, METAL_GET(&d->api, commands, retain), queue};
        rt_metal_commit(d, queue, commands, NULL, METAL_NO_LAUNCH);
        *event = point;
    }
    d->api.objc_autoreleasePoolPop(pool);
    if (status) rt_free(point);
    return status;
}

static aule_status event_wait(void *event, AuSink sink)
{
    const Point *point = event;
    void *pool = point->owner->api.objc_autoreleasePoolPush();
    aule_status status = rt_metal_wait(point->owner, point->queue, point->commands, sink);
    point->owner->api.objc_autoreleasePoolPop(pool);
    return status;
}

/* What lies between the end of the first and the begin of the last, which may overlap where nothing does. */
static aule_status event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    const Point *points[] = {first, last};
    double ends[2] = {0};
    for (int n = 0; n < 2; n++) {
        aule_status status = event_wait((void *)(uintptr_t)points[n], sink);
        if (status) return status;
        ends[n] = METAL_GET(&points[n]->owner->api, points[n]->commands, end_time);
    }
    const double begin = METAL_GET(&points[1]->owner->api, points[1]->commands, start_time);
    const double seconds = begin > ends[0]     ? begin - ends[0]
                           : ends[1] < ends[0] ? ends[1] - ends[0]
                                               : 0;
    *nanoseconds = (int64_t)(seconds * 1e9 + (seconds < 0 ? -.5 : .5));
    return AULE_OK;
}

static void event_free(void *event)
{
    Point *point = event;
    release(&point->owner->api, point->commands);
    rt_free(point);
}

const AuBackend au_backend_metal = {
    .api_version = AU_BACKEND_API,
    .name = "metal",
    .flat = false,
    .in_bytes = true,
    .queues = {"MTLCommandQueue", "MTLCommandBuffer"},
    .dl = {kDLMetal},
    .find = find,
    .open = open_metal,
    .close = close_metal,
    .confirm = rt_metal_confirm,
    .load = rt_metal_load,
    .unload = rt_metal_unload,
    .check_memory = check_memory,
    .launch = rt_metal_launch,
    .zero = zero,
    .synchronize = rt_metal_synchronize,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .buffer_host = buffer_host,
    .upload = upload,
    .download = download,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_elapsed = event_elapsed,
    .event_free = event_free,
};
