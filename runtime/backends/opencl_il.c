/* opencl_il.c - devices that take SPIR-V, since OpenCL 2.1 or by cl_khr_il_program, and which of an artifact's codes they are given. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>

aule_status rt_opencl_code(AuOpenCLCode *code, AuSink sink)
{
    const char *text = getenv("AULE_OPENCL_CODE");
    *code = AU_OPENCL_ANY;
    if (!text || !*text) return AULE_OK;
    *code = strcmp(text, "source") == 0 ? AU_OPENCL_SOURCE : AU_OPENCL_SPIRV;
    if (*code == AU_OPENCL_SOURCE || strcmp(text, "spirv") == 0) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_USAGE, "AULE_OPENCL_CODE is '%s', expected source or spirv",
                   text);
}

static cl_ulong number(const AuOpenCL *cl, cl_device_id device, cl_uint what)
{
    cl_ulong value = 0; /* little-endian: shorter answers fill the low bytes */
    return cl->clGetDeviceInfo(device, what, sizeof value, &value, NULL) == 0 ? value : 0;
}

/* Of OpenCL 2.1 or, in older ones, the extension's. */
static AuProgramWithIL function_of(const AuOpenCL *cl, cl_device_id device)
{
    char version[128] = "";
    int major = 0, minor = 0;
    cl->clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) == 2 && 10 * major + minor >= 21 &&
        cl->clCreateProgramWithIL)
        return cl->clCreateProgramWithIL;
    cl_platform_id platform = NULL;
    AuProgramWithIL found = NULL;
    if (!cl->clGetExtensionFunctionAddressForPlatform ||
        cl->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != 0)
        return NULL;
    void *address =
        cl->clGetExtensionFunctionAddressForPlatform(platform, "clCreateProgramWithILKHR");
    memcpy(&found, &address, sizeof found);
    return found;
}

/* Modules have addresses of 64 bits. (CL_FP_FMA is not asked for: Intel's device for processors has the instruction and does not say so.) */
AuProgramWithIL rt_opencl_il(const AuOpenCL *cl, cl_device_id device, AuText *versions)
{
    char text[512] = "";
    if (cl->clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof text - 1, text, NULL) != 0 ||
        !text[0] || number(cl, device, CL_DEVICE_ADDRESS_BITS) != 64)
        return NULL;
    AuProgramWithIL function = function_of(cl, device);
    if (function) rt_text_add(versions, " %s", text);
    return function;
}

static bool is_module(const char *arch) { return strcmp(arch, "spirv") == 0; }

const char *rt_opencl_refuses(const char *arch)
{
    AuOpenCLCode forced;
    if (rt_opencl_code(&forced, (AuSink){.error = NULL})) return NULL; /* told with the devices */
    if (forced == AU_OPENCL_SOURCE && is_module(arch)) return "AULE_OPENCL_CODE is source";
    if (forced == AU_OPENCL_SPIRV && !is_module(arch)) return "AULE_OPENCL_CODE is spirv";
    return NULL;
}

/* Of an artifact that has both: modules are built faster and run as fast (docs/dev/vulkan.md, 7). */
int rt_opencl_rank_arch(const aule_device_info *info, const char *arch)
{
    (void)info;
    if (rt_opencl_refuses(arch)) return -1;
    return is_module(arch) ? 0 : 1;
}
