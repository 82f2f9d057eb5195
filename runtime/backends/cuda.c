/* cuda.c - NVIDIA's devices, and what AMD's (hip.c) have in common with them: contexts, memory, events. Memory has addresses, queues are
 * streams.
 * The caller's current context is nobody's business but the caller's: each function that needs ours makes it current for as long. A
 * kernel that fails (an illegal address) takes its context with it: what comes after gets the same clear error. */
#include "cuda.h"

/* ---- errors */

bool rt_cuda_is_loss(const Cuda *c, CUresult code)
{
    if (code == c->kind->no_stream) return false;
    return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
           code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
           code == CUDA_ERROR_CONTEXT_IS_DESTROYED || code == CUDA_ERROR_ASSERT ||
           (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED);
}

static const char *after_loss(const Cuda *c, CUresult code)
{
    if (code == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return "; somebody ended the device's context: open the device again";
    return c->primary
               ? "; a kernel that ran before has failed, and the device's context is lost with it: "
                 "nothing runs on this device any more in this process"
               : "; a kernel that ran before has failed, and the given context is lost with it: "
                 "open the device with another one";
}

aule_status rt_cuda_fail(Cuda *c, AuSink sink, aule_status status, const char *call, CUresult code,
                         const char *more)
{
    AuText text = {.memory = sink.memory};
    rt_cuda_error(&c->cu, code, &text);
    rt_text_add(&text, "%s%s", *more && *more != ';' ? ": " : "", more);
    if (rt_cuda_is_loss(c, code)) {
        atomic_store_explicit(&c->lost, code, memory_order_relaxed);
        rt_text_add(&text, "%s", after_loss(c, code));
        if (code != CUDA_ERROR_CONTEXT_IS_DESTROYED) rt_recent_tell(&c->recent, &text);
    }
    status = rt_fail(sink, status, "%s:%u: %s: %s", c->kind->name, c->index, c->kind->call(call),
                     rt_text_str(&text));
    rt_text_free(&text);
    return status;
}

const char *rt_cuda_hint(const Cuda *c, CUresult code)
{
    if (code == CUDA_ERROR_NOT_INITIALIZED) return c->kind->forked;
    if (code == c->kind->no_stream ||
        code == CUDA_ERROR_INVALID_HANDLE) /* only streams are a caller's */
        return "; is the given stream one of another device or context, or gone?";
    return "";
}

aule_status rt_cuda_check(Cuda *c, AuSink sink, const char *call, CUresult code)
{
    if (code == 0) return AULE_OK;
    return rt_cuda_fail(c, sink,
                        code == CUDA_ERROR_OUT_OF_MEMORY ? AULE_ERROR_MEMORY : AULE_ERROR_DRIVER,
                        call, code, rt_cuda_hint(c, code));
}

/* ---- contexts */

aule_status rt_cuda_enter(Cuda *c, bool *pushed, AuSink sink)
{
    CUresult lost = atomic_load_explicit(&c->lost, memory_order_relaxed);
    CUcontext current = NULL;
    *pushed = false;
    if (lost) return rt_cuda_fail(c, sink, AULE_ERROR_DRIVER, "an earlier call", lost, "");
    CUresult code = c->cu.cuCtxGetCurrent(&current);
    if (code != 0) return rt_cuda_check(c, sink, "cuCtxGetCurrent", code);
    if (current == c->context) return AULE_OK;
    code = c->cu.cuCtxPushCurrent(c->context);
    *pushed = code == 0;
    return rt_cuda_check(c, sink, "cuCtxPushCurrent", code);
}

void rt_cuda_leave(Cuda *c, bool pushed)
{
    CUcontext popped;
    if (pushed) c->cu.cuCtxPopCurrent(&popped);
}

/* ---- opening */

static aule_status take_context(Cuda *c, void *given, AuSink sink)
{
    CUdevice device = -1;
    CUcontext popped;
    if (!given) {
        c->primary = true;
        CUresult code = c->cu.cuDevicePrimaryCtxRetain(&c->context, c->device);
        if (code != 0) c->context = NULL;
        return rt_cuda_check(c, sink, "cuDevicePrimaryCtxRetain", code);
    }
    CUresult code = c->cu.cuCtxPushCurrent(given);
    if (code != 0)
        return rt_cuda_fail(c, sink, AULE_ERROR_DRIVER, "cuCtxPushCurrent", code,
                            "; the given context cannot be made current");
    code = c->cu.cuCtxGetDevice(&device);
    c->cu.cuCtxPopCurrent(&popped);
    if (code != 0) return rt_cuda_check(c, sink, "cuCtxGetDevice", code);
    if (device != c->device)
        return rt_fail(sink, AULE_ERROR_DEVICE, "%s:%u: the given context is another device's",
                       c->kind->name, c->index);
    c->context = given;
    return AULE_OK;
}

void rt_cuda_close(void *state)
{
    Cuda *c = state;
    bool pushed;
    if (c->stream && rt_cuda_enter(c, &pushed, (AuSink){.memory = c->memory}) == AULE_OK) {
        c->cu.cuStreamDestroy(c->stream);
        rt_cuda_leave(c, pushed);
    }
    if (c->primary && c->context) c->cu.cuDevicePrimaryCtxRelease(c->device);
    pthread_mutex_destroy(&c->lock);
    rt_recent_end(&c->recent);
    rt_free(c);
}

static aule_status fill(Cuda *c, const aule_device_options *options, AuSink sink)
{
    AuText why = {.memory = c->memory};
    int count = 0;
    aule_status status = AULE_OK;
    bool pushed;
    if (!c->kind->begin(&c->cu, &count, &c->driver, &why))
        status = rt_fail(sink, AULE_ERROR_DEVICE, "%s: %s", c->kind->name, rt_text_str(&why));
    rt_text_free(&why);
    if (status) return status;
    const CUresult code = c->cu.cuDeviceGet(&c->device, (int)c->index);
    if (code != 0) /* it was there when devices were listed */
        return rt_cuda_fail(c, sink, AULE_ERROR_DEVICE, "cuDeviceGet", code,
                            "; the device is gone");
    c->kind->describe(c);
    status = take_context(c, options->context, sink);
    if (!status) status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = rt_cuda_check(c, sink, "cuStreamCreate",
                           c->cu.cuStreamCreate(&c->stream, CU_STREAM_DEFAULT));
    rt_cuda_leave(c, pushed);
    return status;
}

aule_status rt_cuda_open(const CudaKind *kind, AuHeap memory, uint32_t index,
                         const aule_device_options *options, void **state, AuSink sink)
{
    Cuda *c = rt_alloc(memory, sizeof *c);
    if (!c) return rt_fail_memory(sink);
    c->memory = memory;
    c->kind = kind;
    pthread_mutex_init(&c->lock, NULL);
    rt_recent_begin(&c->recent);
    c->index = index;
    atomic_init(&c->lost, 0);
    aule_status status = fill(c, options, sink);
    if (status)
        rt_cuda_close(c);
    else
        *state = c;
    return status;
}

/* ---- memory */

CUstream rt_cuda_stream(const Cuda *c, void *queue)
{
    const uintptr_t legacy = 1;
    if (!queue) return c->stream;
    return c->kind->legacy_is_null && (uintptr_t)queue == legacy ? NULL : queue;
}

static aule_status wait_for(Cuda *c, CUstream stream, AuSink sink)
{
    const uint64_t launched = rt_recent_count(&c->recent);
    const CUresult code = c->cu.cuStreamSynchronize(stream);
    if (code == 0) rt_recent_done(&c->recent, stream, launched);
    return rt_cuda_check(c, sink, "cuStreamSynchronize", code);
}

aule_status rt_cuda_synchronize(void *state, void *queue, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = wait_for(c, rt_cuda_stream(c, queue), sink);
    rt_cuda_leave(c, pushed);
    return status;
}

static aule_status fail_allocation(Cuda *c, uint64_t bytes, CUresult code, AuSink sink)
{
    size_t unused = 0, all = 0;
    AuText more = {.memory = c->memory};
    if (code != CUDA_ERROR_OUT_OF_MEMORY) return rt_cuda_check(c, sink, "cuMemAlloc", code);
    c->cu.cuMemGetInfo(&unused, &all);
    rt_text_add(&more, "; %llu bytes were asked for, %zu of %zu are free",
                (unsigned long long)bytes, unused, all);
    aule_status status =
        rt_cuda_fail(c, sink, AULE_ERROR_MEMORY, "cuMemAlloc", code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

aule_status rt_cuda_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    Cuda *c = state;
    CUdeviceptr at = 0;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    CUresult code = c->cu.cuMemAlloc(&at, (size_t)bytes);
    if (code != 0)
        status = fail_allocation(c, bytes, code, sink);
    else
        *data = (void *)(uintptr_t)at;
    rt_cuda_leave(c, pushed);
    return status;
}

void rt_cuda_buffer_free(void *state, void *data)
{
    Cuda *c = state;
    bool pushed;
    if (rt_cuda_enter(c, &pushed, (AuSink){.memory = c->memory}) != AULE_OK) return;
    c->cu.cuMemFree((CUdeviceptr)(uintptr_t)data);
    rt_cuda_shared_end(c, data);
    rt_cuda_leave(c, pushed);
}

/* After the work on our own stream, and done when it returns. */
static aule_status finish_copy(Cuda *c, const char *call, CUresult code, AuSink sink)
{
    if (code != 0) return rt_cuda_check(c, sink, call, code);
    return wait_for(c, c->stream, sink);
}

aule_status rt_cuda_upload(void *state, void *data, uint64_t offset, const void *from,
                           uint64_t bytes, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    CUresult code = c->cu.cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)data + offset, from,
                                            (size_t)bytes, c->stream);
    status = finish_copy(c, "cuMemcpyHtoDAsync", code, sink);
    rt_cuda_leave(c, pushed);
    return status;
}

aule_status rt_cuda_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                             AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    CUresult code = c->cu.cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)data + offset,
                                            (size_t)bytes, c->stream);
    status = finish_copy(c, "cuMemcpyDtoHAsync", code, sink);
    rt_cuda_leave(c, pushed);
    return status;
}

/* ---- events */

typedef struct Point {
    Cuda *owner;
    CUevent event;
    CUstream stream;
    uint64_t launched; /* on the device, before it was recorded */
} Point;

static aule_status record(Cuda *c, void *queue, Point *point, AuSink sink)
{
    CUresult code = c->cu.cuEventCreate(&point->event, CU_EVENT_DEFAULT);
    if (code != 0) return rt_cuda_check(c, sink, "cuEventCreate", code);
    point->stream = rt_cuda_stream(c, queue);
    point->launched = rt_recent_count(&c->recent);
    code = c->cu.cuEventRecord(point->event, point->stream);
    if (code != 0) c->cu.cuEventDestroy(point->event);
    return rt_cuda_check(c, sink, "cuEventRecord", code);
}

aule_status rt_cuda_event_record(void *state, void *queue, void **event, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    Point *point = rt_alloc(c->memory, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    point->owner = c;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (!status) {
        status = record(c, queue, point, sink);
        rt_cuda_leave(c, pushed);
    }
    if (status)
        rt_free(point);
    else
        *event = point;
    return status;
}

aule_status rt_cuda_event_wait(void *event, AuSink sink)
{
    Point *point = event;
    Cuda *c = point->owner;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = rt_cuda_check(c, sink, "cuEventSynchronize", c->cu.cuEventSynchronize(point->event));
    if (!status) rt_recent_done(&c->recent, point->stream, point->launched);
    rt_cuda_leave(c, pushed);
    return status;
}

aule_status rt_cuda_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    Point *from = first, *to = last;
    Cuda *c = from->owner;
    float milliseconds = 0;
    bool pushed;
    aule_status status = rt_cuda_event_wait(first, sink);
    if (!status) status = rt_cuda_event_wait(last, sink);
    if (!status) status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = rt_cuda_check(c, sink, "cuEventElapsedTime",
                           c->cu.cuEventElapsedTime(&milliseconds, from->event, to->event));
    rt_cuda_leave(c, pushed);
    if (!status) *nanoseconds = (int64_t)((double)milliseconds * 1e6);
    return status;
}

void rt_cuda_event_free(void *event)
{
    Point *point = event;
    Cuda *c = point->owner;
    bool pushed;
    if (rt_cuda_enter(c, &pushed, (AuSink){.memory = c->memory}) == AULE_OK) {
        c->cu.cuEventDestroy(point->event);
        rt_cuda_leave(c, pushed);
    }
    rt_free(point);
}

/* ---- NVIDIA's */

static void describe(Cuda *c)
{
    c->capability = rt_cuda_capability(&c->cu, c->device);
    c->shared_most =
        rt_cuda_attribute(&c->cu, c->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
}

static const char *call_name(const char *call) { return call; }

static const CudaKind kind = {
    .name = "cuda",
    .forked = "CUDA does not work in a process that was forked after it began",
    .most_threads = UINT64_MAX,
    .no_stream = CUDA_ERROR_INVALID_HANDLE,
    .format = AULE_CODE_PTX,
    .code = "PTX",
    .begin = rt_cuda_begin,
    .describe = describe,
    .call = call_name,
    .make = rt_cuda_make,
};

static aule_status open_cuda(AuHeap memory, uint32_t index, const aule_device_options *options,
                             void **state, AuSink sink)
{
    return rt_cuda_open(&kind, memory, index, options, state, sink);
}

const AuBackend au_backend_cuda = {
    .name = "cuda",
    .dl = {kDLCUDA, kDLCUDAManaged, kDLCUDAHost},
    .find = rt_cuda_find,
    .open = open_cuda,
    .rank_arch = rt_cuda_rank_arch,
    .explain = rt_cuda_explain,
    .buffer_import = rt_cuda_buffer_import,
    .timeline_import = rt_cuda_timeline_import,
    .timeline_put = rt_cuda_timeline_put,
    .timeline_free = rt_cuda_timeline_free,
    RT_CUDA_SHARED,
};
