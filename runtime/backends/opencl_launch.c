/* opencl_launch.c - code and launches of the OpenCL backend.
 * A pointer slot of a parameter block becomes two kernel arguments, the buffer and a `long` with the offset of element 0 in elements;
 * an optional tensor that was not passed becomes a null buffer. */
#include "opencl.h"

#include <pthread.h>

#include "../descriptor.h"
#include "../spirv.h"

/* What a kernel's argument was last set to. Numbers mostly stay from run to run, and setting one costs as much as a launch expression. */
typedef struct Held {
    uint64_t number; /* of a pointer: the offset */
    bool known;
} Held;

typedef struct Kernel {
    cl_kernel object;
    Held *held; /* one a slot */
} Kernel;

/* Arguments are state of the kernel object: setting them and enqueueing must not be interleaved. */
typedef struct Program {
    const aule_variant_v1 *variant;
    pthread_mutex_t lock;
    cl_program program;
    Kernel *kernels; /* one a launch */
} Program;

/* ---- code */

void rt_opencl_unload(void *state, void *program)
{
    OpenCL *o = state;
    Program *p = program;
    for (uint32_t i = 0; p->kernels && i < p->variant->launch_count; i++) {
        if (p->kernels[i].object) o->cl.clReleaseKernel(p->kernels[i].object);
        rt_free(p->kernels[i].held);
    }
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
    if (code != 0) return rt_opencl_check(sink, "clGetKernelInfo", code);
    if (args != arg_count(launch))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "opencl: kernel %s takes %u arguments, its parameter block makes %u",
                       launch->entry, args, arg_count(launch));
    code = o->cl.clGetKernelWorkGroupInfo(kernel, o->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                          &most, NULL);
    if (code != 0) return rt_opencl_check(sink, "clGetKernelWorkGroupInfo", code);
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

/* Modules for matrix units are for Intel's GPUs, and have half as many threads with twice the registers. Addresses are of 64 bits. */
static const char *module_options(const aule_variant_v1 *variant)
{
    static const char word[] = "registers256";
    return rt_has_word(variant->features, word, sizeof word - 1)
               ? "-cl-intel-256-GRF-per-thread -cl-intel-greater-than-4GB-buffer-required"
               : "";
}

static bool is_processor(OpenCL *o)
{
    cl_ulong type = 0;
    o->cl.clGetDeviceInfo(o->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_CPU;
}

/* Intel's compiler for processors leaves out stores behind loops that must not be unrolled, where it computes several work-items at once: rows of
 * no sequence kept what was there. */
static aule_status create_of_module(OpenCL *o, Program *p, AuSink sink)
{
    const size_t bytes = (size_t)p->variant->code_bytes;
    uint32_t *words = rt_alloc(o->memory, bytes);
    cl_int code;
    if (!words) return rt_fail_memory(sink);
    memcpy(words, p->variant->code, bytes);
    if (is_processor(o)) rt_spirv_mark_loops(words, bytes / sizeof *words, RT_SPIRV_DONT_UNROLL, 0);
    p->program = o->program_with_il(o->context, words, bytes, &code);
    rt_free(words);
    return rt_opencl_check(sink, "clCreateProgramWithIL", code);
}

/* The program, and the options that its code is built with. */
static aule_status create(OpenCL *o, Program *p, const char **options, AuSink sink)
{
    const char *text = p->variant->code;
    size_t length = (size_t)p->variant->code_bytes;
    cl_int code;
    *options = module_options(p->variant);
    if (p->variant->code_format == AULE_CODE_SPIRV) return create_of_module(o, p, sink);
    p->program = o->cl.clCreateProgramWithSource(o->context, 1, &text, &length, &code);
    /* Generated code asks whether it runs on a processor: how far loops are unrolled depends on it. */
    *options = is_processor(o) ? "-cl-std=CL1.2 -D AULE_PROCESSOR" : "-cl-std=CL1.2";
    return rt_opencl_check(sink, "clCreateProgramWithSource", code);
}

static aule_status build(OpenCL *o, Program *p, AuSink sink)
{
    const char *options;
    aule_status status = create(o, p, &options, sink);
    if (status) return status;
    cl_int code = o->cl.clBuildProgram(p->program, 1, &o->device, options, NULL, NULL);
    if (code != 0) return fail_build(o, p, code, sink);
    for (uint32_t i = 0; i < p->variant->launch_count; i++) {
        const aule_launch_v1 *launch = rt_launch(p->variant, i);
        p->kernels[i].held = rt_alloc_array(o->memory, launch->slot_count, sizeof(Held));
        if (!p->kernels[i].held) return rt_fail_memory(sink);
        p->kernels[i].object = o->cl.clCreateKernel(p->program, launch->entry, &code);
        if (code != 0) return rt_opencl_check(sink, "clCreateKernel", code);
        status = check_kernel(o, p->kernels[i].object, launch, sink);
        if (status) return status;
    }
    return AULE_OK;
}

aule_status rt_opencl_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    OpenCL *o = state;
    if (variant->code_format != AULE_CODE_OPENCL_C && variant->code_format != AULE_CODE_SPIRV)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "opencl: code of format %u, expected OpenCL C or SPIR-V",
                       variant->code_format);
    const char *wrong =
        variant->code_format == AULE_CODE_SPIRV ? rt_spirv_wrong(variant, RT_SPIRV_KERNEL) : NULL;
    if (wrong)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "opencl: the code of '%s' is %s",
                       variant->schedule, wrong);
    if (variant->code_format == AULE_CODE_SPIRV && !o->program_with_il)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "opencl: the device takes no SPIR-V");
    Program *p = rt_alloc(o->memory, sizeof *p);
    Kernel *kernels = rt_alloc_array(o->memory, variant->launch_count, sizeof *kernels);
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
        rt_opencl_unload(o, p);
    else
        *program = p;
    return status;
}

/* ---- launching */

/* A number, where it is another than last time. */
static cl_int set_number(OpenCL *o, const Kernel *kernel, Held *held, cl_uint at, size_t bytes,
                         uint64_t number)
{
    if (held->known && held->number == number) return 0;
    cl_int code =
        o->cl.clSetKernelArg(kernel->object, at, bytes, &number); /* little-endian: the low bytes */
    *held = (Held){number, code == 0};
    return code;
}

static aule_status set_args(OpenCL *o, const Kernel *kernel, const aule_launch_v1 *launch,
                            const AuLaunch *given, AuSink sink)
{
    cl_uint at = 0;
    for (uint32_t i = 0; i < launch->slot_count; i++) {
        uint64_t value = given->slots[i];
        Held *held = &kernel->held[i];
        cl_int code = 0;
        switch ((aule_slot_type)launch->slots[i].type) {
        case AULE_SLOT_PTR: /* always: a handle may be another buffer's by now */
            code =
                o->cl.clSetKernelArg(kernel->object, at++, sizeof(cl_mem), value ? &value : NULL);
            if (code == 0) code = set_number(o, kernel, held, at++, 8, (uint64_t)given->offsets[i]);
            break;
        case AULE_SLOT_I32:
        case AULE_SLOT_F32: code = set_number(o, kernel, held, at++, 4, value); break;
        case AULE_SLOT_I64: code = set_number(o, kernel, held, at++, 8, value); break;
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

aule_status rt_opencl_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink)
{
    OpenCL *o = state;
    Program *p = program;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    cl_command_queue on = queue ? queue : o->queue;
    size_t global[3], local[3];
    for (int axis = 0; axis < 3; axis++) {
        local[axis] = rt_block(launch, axis);
        global[axis] = (size_t)given->grid[axis] * local[axis];
    }
    aule_status status = rt_opencl_check(sink, "the caller's queue", order(o, on));
    if (status) return status;
    pthread_mutex_lock(&p->lock);
    status = set_args(o, &p->kernels[given->index], launch, given, sink);
    if (!status)
        status =
            rt_opencl_check(sink, "clEnqueueNDRangeKernel",
                            o->cl.clEnqueueNDRangeKernel(on, p->kernels[given->index].object, 3,
                                                         NULL, global, local, 0, NULL, NULL));
    pthread_mutex_unlock(&p->lock);
    return status;
}

aule_status rt_opencl_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                           AuSink sink)
{
    OpenCL *o = state;
    cl_command_queue on = queue ? queue : o->queue;
    unsigned char nothing = 0;
    aule_status status = rt_opencl_check(sink, "the caller's queue", order(o, on));
    if (status) return status;
    return rt_opencl_check(sink, "clEnqueueFillBuffer",
                           o->cl.clEnqueueFillBuffer(on, data, &nothing, 1, (size_t)offset,
                                                     (size_t)bytes, 0, NULL, NULL));
}
