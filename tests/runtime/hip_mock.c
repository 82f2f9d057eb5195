/* hip_mock.c - a libamdhip64.so.6 without a GPU. HIP's functions have the meanings of NVIDIA's driver, so they are those of its mock
 * (cuda_mock.h), which is part of this library; what HIP has differently is here: names of errors, attributes, properties of devices. Device 0 is
 * a gfx942, device 1 a gfx1100. Code is "cubin sm_90" for the first, "cubin sm_80" for the second, with the names of kernels.
 *
 * With HIP_EMULATED code objects are executed, and there is a device of each machine: tests/emulate/hip_emulated.c has what differs. */
#include "cuda_mock_inside.h"

#include <stdio.h>
#include <string.h>

/* Each fails by its own name (CudaMock.fail), or by NVIDIA's, which its mock asks for. */
#define FORWARD(hip, cuda, arguments, passed)                                                      \
    MOCK_API CUresult cuda arguments;                                                              \
    MOCK_API CUresult hip arguments;                                                               \
    CUresult hip arguments { return mock_fails(#hip) ? cuda_mock.code : cuda passed; }
/* What gives something back has done so when it fails: of such functions drivers return what went wrong before. */
#define RELEASE(hip, cuda, arguments, passed)                                                      \
    MOCK_API CUresult cuda arguments;                                                              \
    MOCK_API CUresult hip arguments;                                                               \
    CUresult hip arguments                                                                         \
    {                                                                                              \
        const CUresult done = cuda passed;                                                         \
        return mock_fails(#hip) ? cuda_mock.code : done;                                           \
    }

// clang-format off
FORWARD(hipInit, cuInit, (unsigned flags), (flags))
FORWARD(hipGetDeviceCount, cuDeviceGetCount, (int *count), (count))
FORWARD(hipDeviceGet, cuDeviceGet, (CUdevice *device, int index), (device, index))
FORWARD(hipDeviceGetName, cuDeviceGetName, (char *name, int bytes, CUdevice device), (name, bytes, device))
FORWARD(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), (bytes, device))
FORWARD(hipDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), (context, device))
RELEASE(hipDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))
FORWARD(hipCtxGetCurrent, cuCtxGetCurrent, (CUcontext *context), (context))
FORWARD(hipCtxGetDevice, cuCtxGetDevice, (CUdevice *device), (device))
FORWARD(hipCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context), (context))
RELEASE(hipCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext *context), (context))
FORWARD(hipFuncGetAttribute, cuFuncGetAttribute, (int *value, int attribute, Kernel *function), (value, attribute, function))
FORWARD(hipMemsetD8Async, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t bytes, void *stream), (at, value, bytes, stream))
FORWARD(hipMemGetInfo, cuMemGetInfo_v2, (size_t *unused, size_t *bytes), (unused, bytes))
FORWARD(hipMalloc, cuMemAlloc_v2, (CUdeviceptr *at, size_t bytes), (at, bytes))
RELEASE(hipFree, cuMemFree_v2, (CUdeviceptr at), (at))
FORWARD(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, void *stream), (to, from, bytes, stream))
FORWARD(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, void *stream), (to, from, bytes, stream))
FORWARD(hipStreamCreateWithFlags, cuStreamCreate, (void **stream, unsigned flags), (stream, flags))
RELEASE(hipStreamDestroy, cuStreamDestroy_v2, (void *stream), (stream))
FORWARD(hipStreamSynchronize, cuStreamSynchronize, (void *stream), (stream))
FORWARD(hipEventCreateWithFlags, cuEventCreate, (void **event, unsigned flags), (event, flags))
FORWARD(hipEventRecord, cuEventRecord, (Owned *event, void *stream), (event, stream))
FORWARD(hipEventSynchronize, cuEventSynchronize, (Owned *event), (event))
FORWARD(hipEventElapsedTime, cuEventElapsedTime, (float *milliseconds, Owned *first, Owned *last), (milliseconds, first, last))
RELEASE(hipEventDestroy, cuEventDestroy_v2, (Owned *event), (event))
#ifndef HIP_EMULATED
FORWARD(hipModuleLoadDataEx, cuModuleLoadDataEx, (CUmod **module, const void *code, unsigned count, int *options, void **values),
        (module, code, count, options, values))
RELEASE(hipModuleUnload, cuModuleUnload, (CUmod *module), (module))
FORWARD(hipModuleGetFunction, cuModuleGetFunction, (Kernel **function, CUmod *module, const char *name), (function, module, name))
FORWARD(hipModuleLaunchKernel, cuLaunchKernel, (Kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, void *stream, void **params, void **extra), (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
#endif
// clang-format on

MOCK_API CUresult hipDriverGetVersion(int *version)
{
    if (mock_fails("hipDriverGetVersion")) return cuda_mock.code;
    *version = 60342134; /* ROCm 6.3.42134 */
    return OK;
}

MOCK_API CUresult hipDrvGetErrorName(CUresult code, const char **name)
{
    if (mock_fails("hipDrvGetErrorName")) return cuda_mock.code;
    *name = code == OUT_OF_MEMORY   ? "hipErrorOutOfMemory"
            : code == NO_DEVICE     ? "hipErrorNoDevice"
            : code == NO_BINARY     ? "hipErrorNoBinaryForGpu"
            : code == LAUNCH_FAILED ? "hipErrorLaunchFailure"
                                    : "hipErrorUnknown";
    return OK;
}

MOCK_API CUresult hipDrvGetErrorString(CUresult code, const char **text)
{
    if (mock_fails("hipDrvGetErrorString")) return cuda_mock.code;
    (void)code;
    *text = "in the mock's words";
    return OK;
}

/* hipPointerAttribute_t begins with a type, 2 for a device's memory, and the device. */
MOCK_API CUresult hipPointerGetAttributes(int *attributes, const void *at)
{
    enum { MOST = 1024 };
    ENTER("hipPointerGetAttributes", false);
    MockRange ranges[MOST];
    const size_t count = mock_ranges(ranges, MOST);
    memset(attributes, 0, 32);
    for (size_t n = 0; n < count; n++) {
        const MockRange *r = &ranges[n];
        if (r->device < 0 || (uintptr_t)at - r->address >= r->bytes) continue;
        attributes[0] = 2, attributes[1] = r->device;
    }
    return OK;
}

void mock_hip_uuid(void *properties, CUdevice device)
{
    char uuid[17];
    snprintf(uuid, sizeof uuid, "%016x", 0xabc0u + (unsigned)device);
    memcpy((char *)properties + 256, uuid, 16);
}

#ifndef HIP_EMULATED
MOCK_API CUresult hipDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    if (mock_fails("hipDeviceGetAttribute")) return cuda_mock.code;
    (void)device;
    *value = attribute == 63 ? 304 : attribute == 74 ? 64 << 10 : 0;
    return *value ? OK : INVALID_VALUE;
}

/* hipDeviceProp_t as it is from ROCm 6 on. */
MOCK_API CUresult hipGetDevicePropertiesR0600(void *properties, CUdevice device)
{
    if (mock_fails("hipGetDevicePropertiesR0600")) return cuda_mock.code;
    memset(properties, 0, 1472);
    strcpy((char *)properties + 1160, device ? "gfx1100" : "gfx942:sramecc+:xnack-");
    if (!device)
        mock_hip_uuid(properties, device);
    else
        strcpy((char *)properties + 256, "XX"); /* of machines that have none */
    return OK;
}
#endif
