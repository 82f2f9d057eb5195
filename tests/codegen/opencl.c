/* opencl.c - see opencl.h. */
#include "opencl.h"

#include <math.h>
#include <stdlib.h>

void file_read(const char *path, AuText *text)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(text, part, n);
    fclose(file);
}

const char *golden_read(Bench *b, const char *name)
{
    AuText text = {.arena = b->arena};
    file_read(au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name), &text);
    return au_text_str(&text);
}

void golden_expect(Bench *b, const char *name, const char *text)
{
    if (getenv("AU_UPDATE")) {
        FILE *file = fopen(au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name), "wb");
        if (!file || fputs(text, file) < 0 || fclose(file)) fail_msg("%s cannot be written", name);
    }
    assert_string_equal(text, golden_read(b, name));
}

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
        for (cl_uint n = 0; n < found && count < most; n++) {
            ClDevice *d = &devices[count++];
            cl_int status;
            d->id = ids[n];
            clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof d->name, d->name, NULL);
            d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
            check(status, "clCreateContext");
            d->queue = clCreateCommandQueue(d->context, d->id, 0, &status);
            check(status, "clCreateCommandQueue");
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

static cl_program build(Bench *b, const ClDevice *d, const char *source)
{
    cl_int status;
    const cl_program program = clCreateProgramWithSource(d->context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    if (clBuildProgram(program, 1, &d->id, "-cl-std=CL1.2", NULL, NULL) != CL_SUCCESS) {
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

void cl_run(Bench *b, const ClDevice *d, const AuKernel *k, const char *source, const AuKRun *run)
{
    const cl_program program = build(b, d, source);
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

/* ---- numbers */

uint32_t test_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8 ^ *seed << 13;
}

static int64_t ordered(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

float test_float(const void *data, AuScalar scalar, uint64_t n)
{
    const uint16_t half = scalar == AU_F32 ? 0 : ((const uint16_t *)data)[n];
    return scalar == AU_F32   ? ((const float *)data)[n]
           : scalar == AU_F16 ? kernel_from_f16(half)
                              : kernel_from_bf16(half);
}

bool test_same(const void *a, const void *b, AuScalar scalar, uint64_t n, int ulps, float within)
{
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    if (memcmp((const char *)a + n * bytes, (const char *)b + n * bytes, bytes) == 0) return true;
    if (scalar != AU_F32 && scalar != AU_F16 && scalar != AU_BF16) return false;
    const float x = test_float(a, scalar, n), y = test_float(b, scalar, n);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return (ulps > 0 && llabs(ordered(x) - ordered(y)) <= ulps) || fabsf(x - y) <= within;
}

/* ---- data */

static float special_float(uint32_t n)
{
    static const float values[] = {0.0f,  -0.0f,         1.0f,      -1.0f,  0.5f,
                                   3.0f,  INFINITY,      -INFINITY, NAN,    1e10f,
                                   -3e9f, 65519.0f,      65520.0f,  1e-5f,  5.9e-8f,
                                   1e30f, 2147483648.0f, 88.0f,     -88.0f, 0.99999994f};
    return values[n % (sizeof values / sizeof *values)];
}

static int64_t special_integer(uint32_t n)
{
    static const int64_t values[] = {0,         1,         -1,        7,         -7,      31,   32,
                                     INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 20, -255, 3};
    return values[n % (sizeof values / sizeof *values)];
}

void test_fill(void *data, AuScalar scalar, uint64_t count, uint32_t seed)
{
    for (uint64_t n = 0; n < count; n++) {
        const uint32_t bits = test_random(&seed);
        const bool special = bits % 3 == 0;
        const float number =
            special ? special_float(bits >> 4) : ((float)(bits >> 4 & 0xffff) - 32768.0f) / 4096.0f;
        const int64_t integer =
            special ? special_integer(bits >> 4) : (int64_t)(bits >> 3) - (1 << 20);
        switch (scalar) {
        case AU_F32: ((float *)data)[n] = number; break;
        case AU_F16:
            ((uint16_t *)data)[n] = special ? (uint16_t)bits : kernel_to_f16(number);
            break;
        case AU_BF16:
            ((uint16_t *)data)[n] = special ? (uint16_t)bits : kernel_to_bf16(number);
            break;
        case AU_I32: ((int32_t *)data)[n] = (int32_t)integer; break;
        case AU_I64: ((uint64_t *)data)[n] = (uint64_t)integer << (bits & 64 ? 0 : 20); break;
        case AU_U8: ((uint8_t *)data)[n] = (uint8_t)bits; break;
        case AU_I1:
        case AU_VOID:
        case AU_SCALARS: break;
        }
    }
}
