/* cuda.h - what the parts of the CUDA backend share: cuda_find.c finds devices, cuda.c has contexts, memory and events, cuda_code.c code,
 * cuda_launch.c and
 * cuda_maps.c what a run does, in which nothing is allocated or waited for, so that a stream may be captured meanwhile. */
#ifndef AU_RUNTIME_CUDA_H
#define AU_RUNTIME_CUDA_H

#include <stdatomic.h>

#include "backend.h"
#include "cuda_api.h"

/* The driver, begun, and how many devices it has. false: [why] says why not. */
bool rt_cuda_begin(AuCuda *cu, int *count, int *driver, AuText *why);
int rt_cuda_attribute(const AuCuda *cu, CUdevice device, int which);
uint32_t rt_cuda_capability(const AuCuda *cu, CUdevice device); /* 90: sm_90 */

aule_status rt_cuda_find(AuFinder *finder, AuSink sink);
int rt_cuda_rank_arch(const aule_device_info *info, const char *arch);
void rt_cuda_explain(const aule_device_info *info, const char *feature, AuText *text);

/* A device's state. */
typedef struct Cuda {
    AuHeap memory;
    AuCuda cu;
    uint32_t index; /* of the id, cuda:N */
    CUdevice device;
    CUcontext context;
    bool primary;    /* the context is the device's, which we hold; else the caller's */
    CUstream stream; /* the device's own */
    int driver, shared_most;
    uint32_t capability;
    atomic_int lost; /* the result with which the context was lost; 0: it was not */
} Cuda;

/* Between these the device's context is the thread's current one; what was current before is so again. Refused where the context was
 * lost. */
aule_status rt_cuda_enter(Cuda *c, bool *pushed, AuSink sink);
void rt_cuda_leave(Cuda *c, bool pushed);

/* Is a context of no use any more after such a result? */
bool rt_cuda_is_loss(CUresult code);

/* 0 is fine; else the error of the driver's call. A loss is remembered. */
aule_status rt_cuda_check(Cuda *c, AuSink sink, const char *call, CUresult code);
aule_status rt_cuda_fail(Cuda *c, AuSink sink, aule_status status, const char *call, CUresult code,
                         const char *more); /* [more] follows the driver's words; "": nothing */

/* A variant's code on the device. */
typedef struct CudaKernel {
    CUfunction function;
    const aule_launch_v1 *launch;
    uint32_t block[3];
} CudaKernel;

typedef struct CudaProgram {
    const aule_variant_v1 *variant;
    CUmodule module;
    CudaKernel *kernels; /* of each launch */
} CudaProgram;

aule_status rt_cuda_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink);
void rt_cuda_unload(void *state, void *program);
aule_status rt_cuda_launch(void *state, void *program, void *queue, const AuLaunch *given,
                           AuSink sink);
/* A launch's maps, CUDA_MAP_BYTES each, aligned to 64. */
enum { CUDA_MAP_BYTES = 128 };
aule_status rt_cuda_maps(Cuda *c, const CudaKernel *kernel, const AuLaunch *given, void *maps,
                         AuSink sink);
aule_status rt_cuda_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                         AuSink sink);

#endif
