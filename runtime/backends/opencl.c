/* opencl.c - OpenCL devices: code is OpenCL C 1.2, memory is cl_mem, queues are cl_command_queue.
 * A pointer slot of a parameter block becomes two kernel arguments, the buffer and a `long` with the offset of element 0 in elements;
 * an optional tensor that was not passed becomes a null buffer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../descriptor.h"
#include "backend.h"
#include "opencl_api.h"

typedef struct OpenCL {
    AuMemory memory;
    AuOpenCL cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} OpenCL;

/* Arguments are state of the kernel object: setting them and enqueueing must not be interleaved. */
typedef struct Program {
    const aule_variant_v1 *variant;
    pthread_mutex_t lock;
    cl_program program;
    cl_kernel *kernels; /* one a launch */
} Program;

static aule_status fail(AuSink sink, aule_status status, const char *function, cl_int code)
{
    char number[16];
    return rt_fail(sink, status, "opencl: %s: %s", function, rt_opencl_error(code, number));
}

static aule_status check(AuSink sink, const char *function, cl_int code)
{
    if (code == 0) return AULE_OK;
    bool memory = code == -4 || code == -6;
    return fail(sink, memory ? AULE_ERROR_MEMORY : AULE_ERROR_DRIVER, function, code);
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
    info_text(cl, device, CL_DEVICE_NAME, &name);
    info_text(cl, device, CL_DEVICE_VERSION, &version);
    info_text(cl, device, CL_DEVICE_EXTENSIONS, &features);
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
    bool failed = name.failed || driver.failed || features.failed || version.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&name);
    rt_text_free(&driver);
    rt_text_free(&features);
    rt_text_free(&version);
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

static aule_status not_found(AuFinder *finder, const char *reason, AuSink sink)
{
    aule_device_info info = {
        .id = "opencl", .backend = "opencl", .reason = reason, .dl = {kDLOpenCL, 0}};
    return rt_found(finder, &info, sink);
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    AuOpenCL cl;
    AuText why = {.memory = sink.memory};
    if (!rt_opencl_load(&cl, &why)) {
        aule_status status = not_found(finder, rt_text_str(&why), sink);
        rt_text_free(&why);
        return status;
    }
    Listed listed[MAX_DEVICES];
    cl_int code;
    uint32_t count = list_devices(&cl, listed, &code);
    if (count == 0)
        return not_found(
            finder,
            code == -1001 || code == 0
                ? "libOpenCL.so.1 is there, but no driver (ICD) with a device is installed"
                : "clGetPlatformIDs failed",
            sink);
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
        return check(sink, "clCreateContext", code);
    }
    cl_device_id devices[MAX_DEVICES];
    size_t bytes = 0;
    code = o->cl.clGetContextInfo(given, CL_CONTEXT_DEVICES, sizeof devices, devices, &bytes);
    if (code != 0) return check(sink, "clGetContextInfo", code);
    bool inside = false;
    for (size_t i = 0; i < bytes / sizeof *devices; i++) inside = inside || devices[i] == o->device;
    if (!inside)
        return rt_fail(sink, AULE_ERROR_DEVICE,
                       "opencl: the device does not belong to the given context");
    code = o->cl.clRetainContext(given);
    if (code == 0) o->context = given;
    return check(sink, "clRetainContext", code);
}

static void close_opencl(void *state)
{
    OpenCL *o = state;
    if (o->queue) o->cl.clReleaseCommandQueue(o->queue);
    if (o->context) o->cl.clReleaseContext(o->context);
    rt_free(o);
}

static aule_status open_opencl(AuMemory memory, uint32_t index, const aule_device_options *options,
                               void **state, AuSink sink)
{
    Listed listed[MAX_DEVICES];
    AuText why = {.memory = memory};
    cl_int code;
    OpenCL *o = rt_alloc(memory, sizeof *o);
    if (!o) return rt_fail_memory(sink);
    o->memory = memory;
    aule_status status = AULE_OK;
    if (!rt_opencl_load(&o->cl, &why))
        status = rt_fail(sink, AULE_ERROR_DEVICE, "opencl: %s", rt_text_str(&why));
    rt_text_free(&why);
    if (!status && index >= list_devices(&o->cl, listed, &code))
        status = rt_fail(sink, AULE_ERROR_DEVICE, "opencl: the device is gone");
    if (!status) {
        o->device = listed[index].device;
        status = make_context(o, options->context, sink);
    }
    if (!status) {
        o->queue = o->cl.clCreateCommandQueue(o->context, o->device, CL_QUEUE_PROFILING, &code);
        status = check(sink, "clCreateCommandQueue", code);
    }
    if (status)
        close_opencl(o);
    else
        *state = o;
    return status;
}

/* ---- code */

static void unload(void *state, void *program)
{
    OpenCL *o = state;
    Program *p = program;
    for (uint32_t i = 0; p->kernels && i < p->variant->launch_count; i++)
        if (p->kernels[i]) o->cl.clReleaseKernel(p->kernels[i]);
    if (p->program) o->cl.clReleaseProgram(p->program);
    pthread_mutex_destroy(&p->lock);
    rt_free(p->kernels);
    rt_free(p);
}

static aule_status fail_build(OpenCL *o, const Program *p, cl_int code, AuSink sink)
{
    enum { SHOWN = 4000 };
    char number[16];
    size_t bytes = 0;
    o->cl.clGetProgramBuildInfo(p->program, o->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    char *log = rt_alloc(o->memory, bytes + 1);
    if (log && bytes)
        o->cl.clGetProgramBuildInfo(p->program, o->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    aule_status status =
        rt_fail(sink, AULE_ERROR_BUILD,
                "opencl: clBuildProgram of '%s': %s; the driver's log: %.*s", p->variant->schedule,
                rt_opencl_error(code, number), (int)SHOWN, log && *log ? log : "empty");
    rt_free(log);
    return status;
}

static uint32_t arg_count(const aule_launch_v1 *launch)
{
    uint32_t count = launch->slot_count;
    for (uint32_t i = 0; i < launch->slot_count; i++)
        count += launch->slots[i].type == AULE_SLOT_PTR;
    return count;
}

/* What clEnqueueNDRangeKernel would refuse at each launch, once and with numbers. */
static aule_status check_kernel(OpenCL *o, cl_kernel kernel, const aule_launch_v1 *launch,
                                AuSink sink)
{
    cl_uint args = 0;
    size_t threads = (size_t)launch->block[0] * launch->block[1] * launch->block[2], most = 0;
    cl_int code = o->cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof args, &args, NULL);
    if (code != 0) return check(sink, "clGetKernelInfo", code);
    if (args != arg_count(launch))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "opencl: kernel %s takes %u arguments, its parameter block makes %u",
                       launch->entry, args, arg_count(launch));
    code = o->cl.clGetKernelWorkGroupInfo(kernel, o->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                          &most, NULL);
    if (code != 0) return check(sink, "clGetKernelWorkGroupInfo", code);
    if (threads > most)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "opencl: kernel %s needs %zu threads a block, the device takes %zu",
                       launch->entry, threads, most);
    if (launch->shared_bytes > 0)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "opencl: kernel %s asks for %u bytes of dynamic shared memory",
                       launch->entry, launch->shared_bytes);
    return AULE_OK;
}

static aule_status build(OpenCL *o, Program *p, AuSink sink)
{
    const char *text = p->variant->code;
    size_t length = (size_t)p->variant->code_bytes;
    cl_int code;
    p->program = o->cl.clCreateProgramWithSource(o->context, 1, &text, &length, &code);
    if (code != 0) return check(sink, "clCreateProgramWithSource", code);
    code = o->cl.clBuildProgram(p->program, 1, &o->device, "-cl-std=CL1.2", NULL, NULL);
    if (code != 0) return fail_build(o, p, code, sink);
    for (uint32_t i = 0; i < p->variant->launch_count; i++) {
        const aule_launch_v1 *launch = rt_launch(p->variant, i);
        p->kernels[i] = o->cl.clCreateKernel(p->program, launch->entry, &code);
        if (code != 0) return check(sink, "clCreateKernel", code);
        aule_status status = check_kernel(o, p->kernels[i], launch, sink);
        if (status) return status;
    }
    return AULE_OK;
}

static aule_status load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    OpenCL *o = state;
    if (variant->code_format != AULE_CODE_OPENCL_C)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "opencl: code of format %u, expected OpenCL C",
                       variant->code_format);
    Program *p = rt_alloc(o->memory, sizeof *p);
    cl_kernel *kernels = rt_alloc_array(o->memory, variant->launch_count, sizeof *kernels);
    if (!p || !kernels) {
        rt_free(p);
        rt_free(kernels);
        return rt_fail_memory(sink);
    }
    p->variant = variant;
    p->kernels = kernels;
    pthread_mutex_init(&p->lock, NULL);
    aule_status status = build(o, p, sink);
    if (status)
        unload(o, p);
    else
        *program = p;
    return status;
}

/* ---- launching */

static aule_status set_args(OpenCL *o, cl_kernel kernel, const aule_launch_v1 *launch,
                            const AuLaunch *given, AuSink sink)
{
    cl_uint at = 0;
    for (uint32_t i = 0; i < launch->slot_count; i++) {
        uint64_t value = given->slots[i];
        cl_int code = 0;
        switch ((aule_slot_type)launch->slots[i].type) {
        case AULE_SLOT_PTR:
            code = o->cl.clSetKernelArg(kernel, at++, sizeof(cl_mem), value ? &value : NULL);
            if (code == 0)
                code = o->cl.clSetKernelArg(kernel, at++, sizeof(int64_t), &given->offsets[i]);
            break;
        case AULE_SLOT_I32:
        case AULE_SLOT_F32:
            code = o->cl.clSetKernelArg(kernel, at++, 4, &value);
            break; /* the low half: little-endian */
        case AULE_SLOT_I64: code = o->cl.clSetKernelArg(kernel, at++, 8, &value); break;
        }
        if (code != 0) {
            char number[16];
            return rt_fail(sink, AULE_ERROR_DRIVER, "opencl: clSetKernelArg %u of %s: %s", at - 1,
                           launch->entry, rt_opencl_error(code, number));
        }
    }
    return AULE_OK;
}

/* Launches come one after the other; a queue of the caller's may run out of order. */
static cl_int order(OpenCL *o, cl_command_queue queue)
{
    cl_ulong properties = 0;
    if (queue == o->queue) return 0;
    cl_int code = o->cl.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties,
                                              &properties, NULL);
    if (code != 0 || !(properties & CL_QUEUE_OUT_OF_ORDER)) return code;
    return o->cl.clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL);
}

static aule_status launch(void *state, void *program, void *queue, const AuLaunch *given,
                          AuSink sink)
{
    OpenCL *o = state;
    Program *p = program;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    cl_command_queue on = queue ? queue : o->queue;
    size_t global[3], local[3];
    for (int axis = 0; axis < 3; axis++) {
        local[axis] = launch->block[axis] ? launch->block[axis] : 1;
        global[axis] = (size_t)given->grid[axis] * local[axis];
    }
    aule_status status = check(sink, "the caller's queue", order(o, on));
    if (status) return status;
    pthread_mutex_lock(&p->lock);
    status = set_args(o, p->kernels[given->index], launch, given, sink);
    if (!status)
        status = check(sink, "clEnqueueNDRangeKernel",
                       o->cl.clEnqueueNDRangeKernel(on, p->kernels[given->index], 3, NULL, global,
                                                    local, 0, NULL, NULL));
    pthread_mutex_unlock(&p->lock);
    return status;
}

static aule_status zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                        AuSink sink)
{
    OpenCL *o = state;
    cl_command_queue on = queue ? queue : o->queue;
    unsigned char nothing = 0;
    aule_status status = check(sink, "the caller's queue", order(o, on));
    if (status) return status;
    return check(sink, "clEnqueueFillBuffer",
                 o->cl.clEnqueueFillBuffer(on, data, &nothing, 1, (size_t)offset, (size_t)bytes, 0,
                                           NULL, NULL));
}

static aule_status synchronize(void *state, void *queue, AuSink sink)
{
    OpenCL *o = state;
    return check(sink, "clFinish", o->cl.clFinish(queue ? queue : o->queue));
}

/* ---- memory */

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

static aule_status buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    OpenCL *o = state;
    cl_int code;
    cl_mem buffer = o->cl.clCreateBuffer(o->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (code == 0) *data = buffer;
    if (code == -61) return fail(sink, AULE_ERROR_MEMORY, "clCreateBuffer", code);
    return check(sink, "clCreateBuffer", code);
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
    return check(sink, "clEnqueueWriteBuffer",
                 o->cl.clEnqueueWriteBuffer(o->queue, data, 1, (size_t)offset, (size_t)bytes, from,
                                            0, NULL, NULL));
}

static aule_status download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink)
{
    OpenCL *o = state;
    return check(sink, "clEnqueueReadBuffer",
                 o->cl.clEnqueueReadBuffer(o->queue, data, 1, (size_t)offset, (size_t)bytes, to, 0,
                                           NULL, NULL));
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
    return check(sink, "clEnqueueMarkerWithWaitList", code);
}

static aule_status event_wait(void *event, AuSink sink)
{
    Point *point = event;
    return check(sink, "clWaitForEvents", point->owner->cl.clWaitForEvents(1, &point->event));
}

static aule_status event_elapsed(void *first, void *last, uint64_t *nanoseconds, AuSink sink)
{
    cl_ulong times[2];
    Point *points[] = {first, last};
    for (int i = 0; i < 2; i++) {
        aule_status status = event_wait(points[i], sink);
        if (status) return status;
        const AuOpenCL *cl = &points[i]->owner->cl;
        cl_int code = cl->clGetEventProfilingInfo(points[i]->event, CL_PROFILING_COMMAND_END,
                                                  sizeof times[i], &times[i], NULL);
        if (code != 0) return check(sink, "clGetEventProfilingInfo", code);
    }
    *nanoseconds = times[1] - times[0];
    return AULE_OK;
}

static void event_free(void *event)
{
    Point *point = event;
    point->owner->cl.clReleaseEvent(point->event);
    rt_free(point);
}

const AuBackend au_backend_opencl = {
    .api_version = AU_BACKEND_API,
    .name = "opencl",
    .flat = false,
    .dl = {kDLOpenCL},
    .find = find,
    .open = open_opencl,
    .close = close_opencl,
    .load = load,
    .unload = unload,
    .check_memory = check_memory,
    .launch = launch,
    .zero = zero,
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
