/* opencl.c - the double of Level Zero's driver compiles and runs modules by an OpenCL device that takes SPIR-V (Intel's for processors). What
 * arguments kernels have is read from the module, so that the driver's rules for them are kept. */
#include "inside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Handle;
/* As much of OpenCL 2.1 and cl_intel_unified_shared_memory as is called. */
typedef struct CL {
#define CL(name, ...)  int (*name)(__VA_ARGS__);
#define CLH(name, ...) Handle (*name)(__VA_ARGS__);
#include "opencl.def"
    int (*set_pointer)(Handle kernel, uint32_t index, const void *value);
    Handle device, context, queue;
} CL;
static CL cl;
static int state; /* 0: not looked at, 1: there is a device, -1: there is none */

enum { DEVICE_IL_VERSION = 0x105B, DEVICE_PLATFORM = 0x1031, ALL_DEVICES = -1, BUILD_LOG = 0x1183 };
enum { KERNEL_LOCAL_BYTES = 0x11B2, KERNEL_BLOCK = 0x11B1 };

struct Program {
    Handle program;
    uint32_t *words;
    size_t count;
};

/* ---- the device */

static bool take(Handle library)
{
    bool fine = true;
#define CL(name, ...)                                                                              \
    {                                                                                              \
        void *found = dlsym(library, #name);                                                       \
        memcpy(&cl.name, &found, sizeof found);                                                    \
        fine = fine && found;                                                                      \
    }
#define CLH CL
#include "opencl.def"
    return fine;
}

static bool take_device(Handle platform, Handle device)
{
    char versions[256] = "";
    int code = 0;
    if (cl.clGetDeviceInfo(device, DEVICE_IL_VERSION, sizeof versions - 1, versions, NULL) != 0 ||
        !strstr(versions, "SPIR-V_1.0"))
        return false;
    void *found =
        cl.clGetExtensionFunctionAddressForPlatform(platform, "clSetKernelArgMemPointerINTEL");
    memcpy(&cl.set_pointer, &found, sizeof found);
    if (!found) return false;
    cl.device = device;
    cl.context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == 0) cl.queue = cl.clCreateCommandQueue(cl.context, device, 0, &code);
    return code == 0;
}

static bool find_device(void)
{
    Handle platforms[16], devices[16];
    uint32_t platform_count = 0, device_count = 0;
    Handle library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library || !take(library) || cl.clGetPlatformIDs(16, platforms, &platform_count) != 0)
        return false;
    for (uint32_t n = 0; n < platform_count && n < 16; n++) {
        if (cl.clGetDeviceIDs(platforms[n], (uint64_t)ALL_DEVICES, 16, devices, &device_count) != 0)
            continue;
        for (uint32_t i = 0; i < device_count && i < 16; i++)
            if (take_device(platforms[n], devices[i])) return true;
    }
    return false;
}

bool run_ready(void)
{
    if (!state) state = find_device() ? 1 : -1;
    if (state < 0) fprintf(stderr, "Level Zero's double: no OpenCL device takes SPIR-V\n");
    return state > 0;
}

/* ---- programs */

Program *run_build(const void *code, size_t bytes, char *log, size_t log_bytes)
{
    int result = 0;
    if (!run_ready()) return NULL;
    Handle program = cl.clCreateProgramWithIL(cl.context, code, bytes, &result);
    if (result != 0) return snprintf(log, log_bytes, "clCreateProgramWithIL: %d", result), NULL;
    if (cl.clBuildProgram(program, 1, &cl.device, "", NULL, NULL) != 0) {
        cl.clGetProgramBuildInfo(program, cl.device, BUILD_LOG, log_bytes, log, NULL);
        cl.clReleaseProgram(program);
        return NULL;
    }
    Program *made = calloc(1, sizeof *made);
    made->program = program;
    made->count = bytes / 4;
    made->words = malloc(bytes);
    memcpy(made->words, code, bytes);
    return made;
}

void run_end(Program *program)
{
    cl.clReleaseProgram(program->program);
    free(program->words);
    free(program);
}

/* ---- what arguments a kernel has */

enum { OP_ENTRY_POINT = 15, OP_INT = 21, OP_FLOAT = 22, OP_POINTER = 32, OP_FUNCTION = 54 };
enum { OP_PARAMETER = 55, OP_LABEL = 248, HEADER = 5 };

/* The instruction from [at] on with this code whose word [place] is [value]; 0: there is none. */
static size_t find(const Program *p, size_t at, uint32_t code, size_t place, uint32_t value)
{
    for (size_t length; at < p->count; at += length) {
        length = p->words[at] >> 16;
        if (!length) return 0;
        if ((p->words[at] & 0xffff) == code && length > place && p->words[at + place] == value)
            return at;
    }
    return 0;
}

static uint32_t function_of(const Program *p, const char *name)
{
    for (size_t at = HEADER, length; at < p->count; at += length) {
        length = p->words[at] >> 16;
        if (!length) return 0;
        if ((p->words[at] & 0xffff) == OP_ENTRY_POINT &&
            strcmp((const char *)&p->words[at + 3], name) == 0)
            return p->words[at + 2];
    }
    return 0;
}

static bool add_parameter(const Program *p, uint32_t type, KernelFacts *facts)
{
    const size_t number = find(p, HEADER, OP_INT, 1, type),
                 real = find(p, HEADER, OP_FLOAT, 1, type);
    const size_t width = number ? number : real;
    const bool pointer = find(p, HEADER, OP_POINTER, 1, type);
    if (facts->arg_count == MOST_ARGS || (!width && !pointer)) return false;
    facts->args[facts->arg_count].pointer = pointer;
    facts->args[facts->arg_count++].bytes = pointer ? 8 : p->words[width + 2] / 8;
    return true;
}

bool run_facts(Program *p, const char *name, KernelFacts *facts)
{
    int code = 0;
    uint64_t local = 0;
    size_t block[3] = {0};
    const uint32_t id = function_of(p, name);
    size_t at = id ? find(p, HEADER, OP_FUNCTION, 2, id) : 0;
    if (!at) return false;
    for (at += p->words[at] >> 16; (p->words[at] & 0xffff) == OP_PARAMETER;
         at += p->words[at] >> 16)
        if (!add_parameter(p, p->words[at + 1], facts)) return false;
    Handle kernel = cl.clCreateKernel(p->program, name, &code);
    if (code != 0) return false;
    cl.clGetKernelWorkGroupInfo(kernel, cl.device, KERNEL_LOCAL_BYTES, sizeof local, &local, NULL);
    cl.clGetKernelWorkGroupInfo(kernel, cl.device, KERNEL_BLOCK, sizeof block, block, NULL);
    cl.clReleaseKernel(kernel);
    facts->local_bytes = (uint32_t)local;
    for (int n = 0; n < 3; n++) facts->block[n] = (uint32_t)block[n];
    return true;
}

/* ---- launches */

bool run_launch(Program *p, const char *name, const KernelFacts *facts, const uint64_t *values,
                const uint32_t *groups, const uint32_t *block)
{
    int code = 0;
    size_t global[3], local[3];
    Handle kernel = cl.clCreateKernel(p->program, name, &code);
    for (uint32_t n = 0; n < facts->arg_count && code == 0; n++)
        code = facts->args[n].pointer
                   ? cl.set_pointer(kernel, n, (const void *)(uintptr_t)values[n])
                   : cl.clSetKernelArg(kernel, n, facts->args[n].bytes, &values[n]);
    for (int n = 0; n < 3; n++) local[n] = block[n], global[n] = (size_t)groups[n] * block[n];
    if (code == 0)
        code = cl.clEnqueueNDRangeKernel(cl.queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (code == 0) code = cl.clFinish(cl.queue);
    if (kernel) cl.clReleaseKernel(kernel);
    if (code != 0) fprintf(stderr, "Level Zero's double: OpenCL's error %d in %s\n", code, name);
    return code == 0;
}
