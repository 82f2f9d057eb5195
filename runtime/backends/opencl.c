/* opencl.c - OpenCL devices: code is OpenCL C 1.2, memory is cl_mem, queues are cl_command_queue. */
#include "opencl.h"

#include <stdio.h>

aule_status rt_opencl_fail(AuSink sink, aule_status status, const char *function, cl_int code)
{
    char number[16];
    return rt_fail(sink, status, "opencl: %s: %s", function, rt_opencl_error(code, number));
}

aule_status rt_opencl_check(AuSink sink, const char *function, cl_int code)
{
    if (code == 0) return AULE_OK;
    bool memory = code == -4 || code == -6;
    return rt_opencl_fail(sink, memory ? AULE_ERROR_MEMORY : AULE_ERROR_DRIVER, function, code);
}

/* ---- finding */

static void info_text(const AuOpenCL *cl, cl_device_id device, cl_uint what, AuText *text)
{
    size_t bytes = 0;
    if (cl->clGetDeviceInfo(device, what, 0, NULL, &bytes) != 0 || bytes == 0) return;
    char *value = rt_alloc(text->memory, bytes + 1);
    if (!value) {
        text->failed = true;
        return;
    }
    if (cl->clGetDeviceInfo(device, what, bytes, value, NULL) == 0) rt_text_add(text, "%s", value);
    rt_free(value);
}

static cl_ulong info_number(const AuOpenCL *cl, cl_device_id device, cl_uint what)
{
    cl_ulong value = 0; /* little-endian: shorter answers fill the low bytes */
    return cl->clGetDeviceInfo(device, what, sizeof value, &value, NULL) == 0 ? value : 0;
}

static const char *why_not(const AuOpenCL *cl, cl_device_id device, const char *version)
{
    int major = 0, minor = 0;
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
        return "it is older than OpenCL 1.2";
    if (!info_number(cl, device, CL_DEVICE_AVAILABLE))
        return "the driver says that it is not available";
    if (!info_number(cl, device, CL_DEVICE_COMPILER_AVAILABLE)) return "the driver has no compiler";
    if (!info_number(cl, device, CL_DEVICE_ENDIAN_LITTLE)) return "it is big-endian";
    return NULL;
}

static aule_status found(AuFinder *finder, const AuOpenCL *cl, const char *platform,
                         cl_device_id device, uint32_t index, AuSink sink)
{
    char id[24];
    snprintf(id, sizeof id, "opencl:%u", index);
    AuText name = {.memory = sink.memory}, driver = {.memory = sink.memory};
    AuText features = {.memory = sink.memory}, version = {.memory = sink.memory};
    AuText extensions = {.memory = sink.memory};
    info_text(cl, device, CL_DEVICE_NAME, &name);
    info_text(cl, device, CL_DEVICE_VERSION, &version);
    info_text(cl, device, CL_DEVICE_EXTENSIONS, &extensions);
    rt_text_add(&features, "%s", rt_text_str(&extensions));
    rt_opencl_words(cl, device, rt_text_str(&extensions), &features);
    rt_opencl_il(cl, device, &features);
    rt_text_add(&driver, "%s, %s, ", platform, rt_text_str(&version));
    info_text(cl, device, CL_DRIVER_VERSION, &driver);
    const char *reason = why_not(cl, device, rt_text_str(&version));
    cl_ulong type = info_number(cl, device, CL_DEVICE_TYPE);
    aule_device_info info = {
        .id = id,
        .backend = "opencl",
        .available = reason == NULL,
        .reason = reason,
        .name = rt_text_str(&name),
        .driver = rt_text_str(&driver),
        .features = rt_text_str(&features),
        .kind = type & CL_DEVICE_TYPE_GPU   ? AULE_DEVICE_GPU
                : type & CL_DEVICE_TYPE_CPU ? AULE_DEVICE_CPU
                                            : AULE_DEVICE_OTHER,
        .units = (uint32_t)info_number(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS),
        .memory_bytes = info_number(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE),
        .dl = {kDLOpenCL, (int32_t)index},
    };
    bool failed =
        name.failed || driver.failed || features.failed || version.failed || extensions.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&name);
    rt_text_free(&driver);
    rt_text_free(&features);
    rt_text_free(&version);
    rt_text_free(&extensions);
    return status;
}

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64 };

/* A device and its platform's name, in the order that ids count. */
typedef struct Listed {
    cl_device_id device;
    char platform[128];
} Listed;

static uint32_t list_devices(const AuOpenCL *cl, Listed *listed, cl_int *code)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint platform_count = 0;
    uint32_t count = 0;
    *code = cl->clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    if (*code != 0) return 0;
    if (platform_count > MAX_PLATFORMS) platform_count = MAX_PLATFORMS;
    for (cl_uint i = 0; i < platform_count; i++) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint device_count = 0;
        char name[128] = "";
        cl->clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices,
                               &device_count) != 0)
            continue;
        for (cl_uint j = 0; j < device_count && j < MAX_DEVICES && count < MAX_DEVICES; j++) {
            listed[count].device = devices[j];
            memcpy(listed[count++].platform, name, sizeof name);
        }
    }
    return count;
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    AuOpenCL cl;
    AuOpenCLCode forced;
    AuText why = {.memory = sink.memory};
    aule_status wrong = rt_opencl_code(&forced, sink);
    if (wrong) return wrong;
    const DLDevice none = {kDLOpenCL, 0};
    if (!rt_opencl_api(&cl, &why)) return rt_found_none(finder, "opencl", none, &why, sink);
    Listed listed[MAX_DEVICES];
    cl_int code;
    uint32_t count = list_devices(&cl, listed, &code);
    if (count == 0) {
        const bool no_driver = code == -1001 || code == 0;
        rt_text_add(&why, "%s",
                    no_driver
                        ? "libOpenCL.so.1 is there, but no driver (ICD) with a device is installed"
                        : "clGetPlatformIDs failed");
        return rt_found_none(finder, "opencl", none, &why, sink);
    }
    aule_status status = AULE_OK;
    for (uint32_t i = 0; !status && i < count; i++)
        status = found(finder, &cl, listed[i].platform, listed[i].device, i, sink);
    return status;
}

/* ---- opening */

static aule_status make_context(OpenCL *o, void *given, AuSink sink)
{
    cl_int code = 0;
    if (!given) {
        o->context = o->cl.clCreateContext(NULL, 1, &o->device, NULL, NULL, &code);
        return rt_opencl_check(sink, "clCreateContext", code);
    }
    cl_device_id devices[MAX_DEVICES];
    size_t bytes = 0;
    code = o->cl.clGetContextInfo(given, CL_CONTEXT_DEVICES, sizeof devices, devices, &bytes);
    if (code != 0) return rt_opencl_check(sink, "clGetContextInfo", code);
    bool inside = false;
    for (size_t i = 0; i < bytes / sizeof *devices; i++) inside = inside || devices[i] == o->device;
    if (!inside)
        return rt_fail(sink, AULE_ERROR_DEVICE,
                       "opencl: the device does not belong to the given context");
    code = o->cl.clRetainContext(given);
    if (code == 0) o->context = given;
    return rt_opencl_check(sink, "clRetainContext", code);
}

static void close_opencl(void *state)
{
    OpenCL *o = state;
    if (o->queue) o->cl.clReleaseCommandQueue(o->queue);
    if (o->context) o->cl.clReleaseContext(o->context);
    rt_free(o);
}

static aule_status open_opencl(AuHeap memory, uint32_t index, const aule_device_options *options,
                               void **state, AuSink sink)
{
    Listed listed[MAX_DEVICES];
    AuText why = {.memory = memory};
    cl_int code;
    OpenCL *o = rt_alloc(memory, sizeof *o);
    if (!o) return rt_fail_memory(sink);
    o->memory = memory;
    aule_status status = AULE_OK;
    if (!rt_opencl_api(&o->cl, &why))
        status = rt_fail(sink, AULE_ERROR_DEVICE, "opencl: %s", rt_text_str(&why));
    rt_text_free(&why);
    if (!status && index >= list_devices(&o->cl, listed, &code))
        status = rt_fail(sink, AULE_ERROR_DEVICE, "opencl: the device is gone");
    if (!status) {
        AuText versions = {.memory = memory};
        o->device = listed[index].device;
        o->program_with_il = rt_opencl_il(&o->cl, o->device, &versions);
        if (versions.failed) status = rt_fail_memory(sink);
        rt_text_free(&versions);
    }
    if (!status) { status = make_context(o, options->context, sink); }
    if (!status) {
        o->queue = o->cl.clCreateCommandQueue(o->context, o->device, CL_QUEUE_PROFILING, &code);
        status = rt_opencl_check(sink, "clCreateCommandQueue", code);
    }
    if (status)
        close_opencl(o);
    else
        *state = o;
    return status;
}

/* ---- memory */

static aule_status synchronize(void *state, void *queue, AuSink sink)
{
    OpenCL *o = state;
    return rt_opencl_check(sink, "clFinish", o->cl.clFinish(queue ? queue : o->queue));
}

static aule_status check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                AuSink sink)
{
    OpenCL *o = state;
    size_t size = 0;
    cl_int code = o->cl.clGetMemObjectInfo(data, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (code != 0) {
        char number[16];
        return rt_fail(sink, AULE_ERROR_TENSOR, "%s: its data is not a cl_mem: %s", name,
                       rt_opencl_error(code, number));
    }
    if (bytes <= size) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: its buffer has %zu bytes, its shape and strides reach %llu", name, size,
                   (unsigned long long)bytes);
}

/* What was asked for and what the device has; drivers do not tell how much of it is free. */
static aule_status fail_allocation(OpenCL *o, uint64_t bytes, cl_int code, AuSink sink)
{
    enum {
        INVALID_BUFFER_SIZE = -61,
        ALLOCATION_FAILURE = -4,
        OUT_OF_RESOURCES = -5,
        OUT_OF_HOST_MEMORY = -6
    };
    AuText what = {.memory = o->memory};
    if (code != INVALID_BUFFER_SIZE && code != ALLOCATION_FAILURE && code != OUT_OF_RESOURCES &&
        code != OUT_OF_HOST_MEMORY)
        return rt_opencl_check(sink, "clCreateBuffer", code);
    rt_text_add(&what, "clCreateBuffer, %llu bytes (the device has %llu, %llu at once)",
                (unsigned long long)bytes,
                (unsigned long long)info_number(&o->cl, o->device, CL_DEVICE_GLOBAL_MEM_SIZE),
                (unsigned long long)info_number(&o->cl, o->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    aule_status status = rt_opencl_fail(sink, AULE_ERROR_MEMORY, rt_text_str(&what), code);
    rt_text_free(&what);
    return status;
}

static aule_status buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    OpenCL *o = state;
    cl_int code;
    cl_mem buffer = o->cl.clCreateBuffer(o->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (code == 0) *data = buffer;
    return code ? fail_allocation(o, bytes, code, sink) : AULE_OK;
}

static void buffer_free(void *state, void *data)
{
    OpenCL *o = state;
    o->cl.clReleaseMemObject(data);
}

static aule_status upload(void *state, void *data, uint64_t offset, const void *from,
                          uint64_t bytes, AuSink sink)
{
    OpenCL *o = state;
    return rt_opencl_check(sink, "clEnqueueWriteBuffer",
                           o->cl.clEnqueueWriteBuffer(o->queue, data, 1, (size_t)offset,
                                                      (size_t)bytes, from, 0, NULL, NULL));
}

static aule_status download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink)
{
    OpenCL *o = state;
    return rt_opencl_check(sink, "clEnqueueReadBuffer",
                           o->cl.clEnqueueReadBuffer(o->queue, data, 1, (size_t)offset,
                                                     (size_t)bytes, to, 0, NULL, NULL));
}

/* ---- events: markers in the queue */

typedef struct Point {
    OpenCL *owner;
    cl_event event;
} Point;

static aule_status event_record(void *state, void *queue, void **event, AuSink sink)
{
    OpenCL *o = state;
    Point *point = rt_alloc(o->memory, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    point->owner = o;
    cl_int code =
        o->cl.clEnqueueMarkerWithWaitList(queue ? queue : o->queue, 0, NULL, &point->event);
    if (code == 0)
        *event = point;
    else
        rt_free(point);
    return rt_opencl_check(sink, "clEnqueueMarkerWithWaitList", code);
}

static aule_status event_wait(void *event, AuSink sink)
{
    Point *point = event;
    return rt_opencl_check(sink, "clWaitForEvents",
                           point->owner->cl.clWaitForEvents(1, &point->event));
}

static aule_status event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    cl_ulong times[2];
    Point *points[] = {first, last};
    for (int i = 0; i < 2; i++) {
        aule_status status = event_wait(points[i], sink);
        if (status) return status;
        const AuOpenCL *cl = &points[i]->owner->cl;
        cl_int code = cl->clGetEventProfilingInfo(points[i]->event, CL_PROFILING_COMMAND_END,
                                                  sizeof times[i], &times[i], NULL);
        if (code != 0) return rt_opencl_check(sink, "clGetEventProfilingInfo", code);
    }
    *nanoseconds = (int64_t)(times[1] - times[0]);
    return AULE_OK;
}

static void event_free(void *event)
{
    Point *point = event;
    point->owner->cl.clReleaseEvent(point->event);
    rt_free(point);
}

static aule_status environment(AuSink sink)
{
    AuOpenCLCode code;
    return rt_opencl_code(&code, sink);
}

const AuBackend au_backend_opencl = {
    .api_version = AU_BACKEND_API,
    .name = "opencl",
    .flat = false,
    .dl = {kDLOpenCL},
    .find = find,
    .environment = environment,
    .open = open_opencl,
    .close = close_opencl,
    .rank_arch = rt_opencl_rank_arch,
    .refuses = rt_opencl_refuses,
    .load = rt_opencl_load,
    .unload = rt_opencl_unload,
    .check_memory = check_memory,
    .launch = rt_opencl_launch,
    .zero = rt_opencl_zero,
    .synchronize = synchronize,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .upload = upload,
    .download = download,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_elapsed = event_elapsed,
    .event_free = event_free,
};
