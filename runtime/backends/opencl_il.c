/* opencl_il.c - devices that take SPIR-V, since OpenCL 2.1 or by cl_khr_il_program, and which of an artifact's codes they are given. */
#include "opencl.h"

#include "../descriptor.h"

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

static bool has(const char *extensions, const char *name)
{
    return rt_has_word(extensions, name, strlen(name));
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

/* Subgroups of which a kernel may ask for the lanes, and whose lanes exchange values by the instructions that modules have for it
 * (SPV_INTEL_subgroups). Products of a subgroup of 16 lanes are there where subgroups have at least 16, as in levelzero_find.c;
 * whoever has them has 256 registers a lane, too. Blocks of matrices by the instructions of SPV_INTEL_2d_block_io are promised where functions of
 * OpenCL C for them are listed. */
static void add_subgroups(const AuOpenCL *cl, cl_device_id device, const char *extensions,
                          AuText *words)
{
    enum { SIZES = 8 };
    size_t sizes[SIZES] = {0}, bytes = 0;
    if (!has(extensions, "cl_intel_required_subgroup_size") ||
        !has(extensions, "cl_intel_spirv_subgroups") ||
        cl->clGetDeviceInfo(device, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes))
        return;
    bool of_16 = bytes > 0 && has(extensions, "cl_intel_subgroup_matrix_multiply_accumulate");
    for (size_t n = 0; n < bytes / sizeof *sizes && n < SIZES; n++) {
        rt_text_add(words, " subgroup%zu", sizes[n]);
        of_16 &= sizes[n] >= 16;
    }
    if (!of_16) return;
    rt_text_add(words, " dpas16 registers256");
    if (has(extensions, "cl_intel_subgroup_2d_block_io")) rt_text_add(words, " blocks2d");
}

void rt_opencl_words(const AuOpenCL *cl, cl_device_id device, const char *extensions, AuText *words)
{
    static const uint32_t kilobytes[] = {16, 32, 48, 64, 96, 128};
    const cl_ulong shared = number(cl, device, CL_DEVICE_LOCAL_MEM_SIZE);
    for (size_t n = 0; n < sizeof kilobytes / sizeof *kilobytes; n++)
        if (shared >= kilobytes[n] * 1024) rt_text_add(words, " shared%uk", kilobytes[n]);
    add_subgroups(cl, device, extensions, words);
}

static bool is_module(const char *arch) { return strncmp(arch, "spirv", 5) == 0; }

const char *rt_opencl_refuses(const char *arch)
{
    AuOpenCLCode forced;
    if (rt_opencl_code(&forced, (AuSink){.error = NULL})) return NULL; /* told with the devices */
    if (forced == AU_OPENCL_SOURCE && is_module(arch)) return "AULE_OPENCL_CODE is source";
    if (forced == AU_OPENCL_SPIRV && !is_module(arch)) return "AULE_OPENCL_CODE is spirv";
    return NULL;
}

/* Of an artifact that has several: what has the device's matrix units; modules, which are built faster than source and run as fast; source; and
 * last modules of subgroups, which on the one device that ran them take longer (docs/dev/vulkan.md, 7). */
int rt_opencl_rank_arch(const aule_device_info *info, const char *arch)
{
    static const char *const order[] = {"spirv-dpas", "spirv", "generic"};
    enum { ORDERED = sizeof order / sizeof *order };
    (void)info;
    if (rt_opencl_refuses(arch)) return -1;
    int rank = 0;
    while (rank < ORDERED && strcmp(arch, order[rank]) != 0) rank++;
    return strcmp(arch, "spirv-dpas-bodies") == 0 ? ORDERED + 1 : rank;
}
