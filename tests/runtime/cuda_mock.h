/* cuda_mock.h - a libcuda.so.1 without a GPU: the driver's functions over host memory. It runs the kernels of the sample artifact as host
 * functions, keeps the driver's rules (a context must be current and be the object's own, large shared memory must be asked for, PTX may
 * not be newer than the driver), records calls, and fails where it is told to.
 * Programs that load it by its name set MOCK_CUDA, as in "devices=1 driver=12020 capability=80 fail=cuLaunchKernel code=700". */
#ifndef CUDA_MOCK_H
#define CUDA_MOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))

enum { MOCK_DEVICES = 8, MOCK_LAUNCHES = 64 };

/* What the mock's driver makes of a tensor: 128 bytes, as the real one. */
typedef struct MockMap {
    uint64_t address, sizes[5], strides[4];
    uint16_t box[5];
    uint8_t type, rank, swizzle, promotion, fill;
    uint8_t unused[33];
} MockMap;

enum { MOCK_MAPS = 4 };
typedef struct MockLaunch {
    char kernel[128];
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    int early;               /* may begin before the launch before it has ended */
    MockMap maps[MOCK_MAPS]; /* of a kernel with a second parameter */
} MockLaunch;

typedef struct CudaMock {
    int devices, driver, capability[MOCK_DEVICES], mode[MOCK_DEVICES], init;
    uint64_t memory_bytes;
    char fail[64];   /* this function fails */
    int code, after; /* with this result, once it has been called so often */
    int shared;      /* bytes of shared memory that each kernel declares */
    int idle;        /* launches and memsets do nothing: what is left is the caller's own time */
    int capturing; /* a stream is being captured: what a capture does not allow fails, and is counted */
    atomic_int forbidden, links, loads, launch_count, memsets, calls;
    atomic_int modules, buffers, streams, events, contexts, externals; /* alive */
    atomic_int recordings;                                             /* of events, so far */
    MockLaunch launches[MOCK_LAUNCHES];
} CudaMock;

extern MOCK_API CudaMock cuda_mock;

MOCK_API void
cuda_mock_reset(void); /* two devices, sm_90 and sm_80, CUDA 12.8; lost contexts are whole again */

/* Contexts of a caller, as the driver has them. */
typedef struct CUctx_st *MockContext;
MOCK_API int cuCtxCreate_v2(MockContext *context, unsigned flags, int device);
MOCK_API int cuCtxDestroy_v2(MockContext context);
MOCK_API int cuCtxGetCurrent(MockContext *context);
MOCK_API int cuDevicePrimaryCtxRetain(MockContext *context, int device);
MOCK_API int cuDevicePrimaryCtxRelease_v2(int device);
MOCK_API int cuCtxSetCurrent(MockContext context);
MOCK_API int cuMemAlloc_v2(uint64_t *at, size_t bytes);
MOCK_API int cuMemFree_v2(uint64_t at);
MOCK_API int cuStreamCreate(void **stream, unsigned flags);
MOCK_API int cuStreamDestroy_v2(void *stream);
MOCK_API int cuStreamBeginCapture_v2(void *stream, int mode);
MOCK_API int cuStreamEndCapture(void *stream, void **graph);
MOCK_API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
MOCK_API int cuGraphLaunch(void *exec, void *stream);
MOCK_API int cuGraphDestroy(void *graph);
MOCK_API int cuGraphExecDestroy(void *exec);

#endif
