/* opencl.c - see opencl.h. */
#include "opencl.h"

#include "emit.h"

#include <math.h>
#include <stdlib.h>

const char *opencl_source(Bench *b, AuKernel *k)
{
    AuBlob blob = {0};
    const AuTarget *t = &au_target_opencl;
    if (!t->emit(b->arena, b->diags, &k, 1, &t->archs[0], AU_CODE_FINAL, 2, &blob)) {
        AuText shown = {.arena = b->arena};
        au_diags_render(b->diags, &shown);
        fail_msg("%s", au_text_str(&shown));
    }
    assert_int_equal(strlen(blob.bytes), blob.length);
    return blob.bytes;
}

/* ---- devices */

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) fail_msg("%s: OpenCL error %d", what, status);
}

static void open_device(ClDevice *d)
{
    cl_int status;
    const size_t length = strlen(d->name);
    if (d->takes_modules) snprintf(d->name + length, sizeof d->name - length, " (SPIR-V)");
    d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    check(status, "clCreateContext");
    d->queue = clCreateCommandQueue(d->context, d->id, 0, &status);
    check(status, "clCreateCommandQueue");
}

static bool takes_modules(cl_device_id id)
{
    char versions[256] = "";
    return clGetDeviceInfo(id, CL_DEVICE_IL_VERSION, sizeof versions, versions, NULL) ==
               CL_SUCCESS &&
           strstr(versions, "SPIR-V_1.0");
}

uint32_t cl_devices(ClDevice *devices, uint32_t most)
{
    cl_platform_id platforms[8];
    cl_uint platform_count = 0, count = 0;
    if (clGetPlatformIDs(8, platforms, &platform_count) != CL_SUCCESS) return 0;
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id ids[8];
        cl_uint found = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 8, ids, &found) != CL_SUCCESS)
            continue;
        for (cl_uint n = 0; n < 2 * found && count < most; n++) {
            ClDevice *d = &devices[count];
            *d = (ClDevice){.id = ids[n / 2], .takes_modules = n % 2};
            if (d->takes_modules && !takes_modules(d->id)) continue;
            clGetDeviceInfo(d->id, CL_DEVICE_NAME, 128, d->name, NULL);
            open_device(d);
            count++;
        }
    }
    return count;
}

void cl_close(ClDevice *devices, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        clReleaseCommandQueue(devices[n].queue);
        clReleaseContext(devices[n].context);
    }
}

static cl_program with_module(Bench *b, const ClDevice *d, AuKernel *k)
{
    cl_int status;
    SpvWords words = {0};
    if (!spirv_kernels(b->arena, b->diags, &spirv_kernel, &k, 1, &words)) {
        AuText shown = {.arena = b->arena};
        au_diags_render(b->diags, &shown);
        fail_msg("%s", au_text_str(&shown));
    }
    const cl_program program = clCreateProgramWithIL(
        d->context, words.at, (size_t)words.count * sizeof *words.at, &status);
    check(status, "clCreateProgramWithIL");
    return program;
}

static cl_program with_source(const ClDevice *d, const char *source)
{
    cl_int status;
    const cl_program program = clCreateProgramWithSource(d->context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    return program;
}

static cl_program build(Bench *b, const ClDevice *d, AuKernel *k, const char *source)
{
    const cl_program program = d->takes_modules ? with_module(b, d, k) : with_source(d, source);
    const char *options = d->takes_modules ? "" : "-cl-std=CL1.2";
    if (clBuildProgram(program, 1, &d->id, options, NULL, NULL) != CL_SUCCESS) {
        char *log = au_alloc(b->arena, 1 << 16);
        clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 1 << 16, log, NULL);
        fail_msg("%s does not compile it:\n%s\n%s", d->name, log, source);
    }
    return program;
}

/* ---- a run */

enum {
    BORDER = 19
}; /* elements before and behind a buffer's content: odd, so that nothing is aligned by luck */

typedef struct Buffer {
    cl_mem mem;
    unsigned char *bytes; /* with borders */
    size_t border, content;
} Buffer;

static Buffer upload(Bench *b, const ClDevice *d, const AuKBuffer *from, size_t element)
{
    Buffer to = {.border = BORDER * element, .content = (size_t)from->count * element};
    to.bytes = au_alloc(b->arena, to.content + 2 * to.border);
    memset(to.bytes, 0xa5, to.content + 2 * to.border);
    memcpy(to.bytes + to.border, from->data, to.content);
    cl_int status;
    to.mem = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            to.content + 2 * to.border, to.bytes, &status);
    check(status, "clCreateBuffer");
    return to;
}

static void download(const ClDevice *d, const Buffer *from, const AuKBuffer *to, const char *name)
{
    const size_t all = from->content + 2 * from->border;
    check(clEnqueueReadBuffer(d->queue, from->mem, CL_TRUE, 0, all, from->bytes, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    for (size_t n = 0; n < from->border; n++)
        if (from->bytes[n] != 0xa5 || from->bytes[all - 1 - n] != 0xa5)
            fail_msg("%s: written outside of %s", d->name, name);
    memcpy(to->data, from->bytes + from->border, from->content);
    clReleaseMemObject(from->mem);
}

static void set_arguments(const AuKernel *k, cl_kernel kernel, const Buffer *buffers,
                          const AuKRun *run)
{
    cl_uint at = 0;
    const cl_long offset = BORDER;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const bool pointer = k->args[n].kind == AU_ARG_POINTER;
        const size_t bytes = pointer ? sizeof(cl_mem) : k->args[n].kind == AU_ARG_I64 ? 8 : 4;
        const void *value = pointer ? (const void *)&buffers[n].mem : &run->slots[n];
        check(clSetKernelArg(kernel, at++, bytes, value), "clSetKernelArg");
        if (pointer) check(clSetKernelArg(kernel, at++, sizeof offset, &offset), "clSetKernelArg");
    }
}

void cl_run(Bench *b, const ClDevice *d, AuKernel *k, const char *source, const AuKRun *run)
{
    const cl_program program = build(b, d, k, source);
    cl_int status;
    const cl_kernel kernel = clCreateKernel(program, k->name, &status);
    check(status, "clCreateKernel");
    Buffer *buffers = AU_NEW_ARRAY(b->arena, Buffer, k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++)
        if (k->args[n].kind == AU_ARG_POINTER)
            buffers[n] = upload(b, d, &run->buffers[n],
                                kernel_scalar_bytes(k->mems[k->args[n].mem.i].scalar));
    set_arguments(k, kernel, buffers, run);
    const size_t lanes = k->lanes * k->warps, local[] = {lanes, 1, 1};
    const size_t global[] = {run->grid[0] * lanes, run->grid[1], run->grid[2]};
    check(clEnqueueNDRangeKernel(d->queue, kernel, 3, NULL, global, local, 0, NULL, NULL),
          "clEnqueueNDRangeKernel");
    check(clFinish(d->queue), "clFinish");
    for (uint32_t n = 0; n < k->arg_count; n++)
        if (k->args[n].kind == AU_ARG_POINTER)
            download(d, &buffers[n], &run->buffers[n], k->args[n].name);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}
