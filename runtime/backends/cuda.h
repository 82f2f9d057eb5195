/* cuda.h - what the parts of the CUDA backend share: cuda_find.c finds devices, cuda.c has contexts, memory and events, cuda_code.c code,
 * cuda_launch.c and
 * cuda_maps.c what a run does, in which nothing is allocated or waited for, so that a stream may be captured meanwhile. */
#ifndef AU_RUNTIME_CUDA_H
#define AU_RUNTIME_CUDA_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "cuda_api.h"
#include "recent.h"

/* The driver, begun, and how many devices it has. false: [why] says why not. */
bool rt_cuda_begin(AuCuda *cu, int *count, int *driver, AuText *why);
int rt_cuda_attribute(const AuCuda *cu, CUdevice device, int which);
uint32_t rt_cuda_capability(const AuCuda *cu, CUdevice device); /* 90: sm_90 */

aule_status rt_cuda_find(AuFinder *finder, AuSink sink);
/* A device of which the driver says nothing but an error is one of the list, not available: others keep their numbers. */
aule_status rt_cuda_found_mute(AuFinder *finder, const AuCuda *cu, const char *id, DLDevice dl,
                               const char *call, CUresult code, AuSink sink);
int rt_cuda_rank_arch(const aule_device_info *info, const char *arch);
void rt_cuda_explain(const aule_device_info *info, const char *feature, AuText *text);

typedef struct Cuda Cuda;
typedef struct CudaProgram CudaProgram;
typedef struct CudaShared CudaShared; /* memory of another driver's (cuda_shared.c) */

/* Whose devices: NVIDIA's, or AMD's, whose driver has functions of the same meanings (hip_api.def). */
typedef struct CudaKind {
    const char *name;      /* of the backend */
    const char *forked;    /* what is said where nothing was begun in this process */
    uint64_t most_threads; /* of a grid along x */
    bool
        legacy_is_null; /* the default stream has no name but NULL, which is ours for a device's own: callers say CU_STREAM_LEGACY */
    CUresult no_stream; /* what is said of a stream that is gone, or another's */
    uint32_t format;    /* of code, and its name */
    const char *code;
    bool (*begin)(AuCuda *cu, int *count, int *driver, AuText *why); /* rt_cuda_begin */
    void (*describe)(Cuda *c);             /* fills in capability and shared_most */
    const char *(*call)(const char *name); /* what the driver calls a function of AuCuda */
    aule_status (*make)(Cuda *c, CudaProgram *p, AuSink sink); /* the module */
} CudaKind;

/* A device's state. */
struct Cuda {
    AuHeap memory;
    const CudaKind *kind;
    AuCuda cu;
    uint32_t index; /* of the id, cuda:N */
    CUdevice device;
    CUcontext context;
    bool primary;    /* the context is the device's, which we hold; else the caller's */
    CUstream stream; /* the device's own */
    int driver, shared_most;
    bool sees_host; /* kernels may read memory that the driver does not know (HIP) */
    uint32_t capability;
    pthread_mutex_t lock; /* of what is shared */
    CudaShared *shared;
    atomic_int lost; /* the result with which the context was lost; 0: it was not */
    AuRecent recent; /* by streams */
};

/* The stream that a caller's queue means. */
CUstream rt_cuda_stream(const Cuda *c, void *queue);

/* Between these the device's context is the thread's current one; what was current before is so again. Refused where the context was
 * lost. */
aule_status rt_cuda_enter(Cuda *c, bool *pushed, AuSink sink);
void rt_cuda_leave(Cuda *c, bool pushed);

/* Is a context of no use any more after such a result? */
bool rt_cuda_is_loss(const Cuda *c, CUresult code);

/* 0 is fine; else the error of the driver's call. A loss is remembered. */
const char *rt_cuda_hint(const Cuda *c, CUresult code); /* what it may be; "": nobody knows */
aule_status rt_cuda_check(Cuda *c, AuSink sink, const char *call, CUresult code);
aule_status rt_cuda_fail(Cuda *c, AuSink sink, aule_status status, const char *call, CUresult code,
                         const char *more); /* [more] follows the driver's words; "": nothing */

/* A variant's code on the device. */
typedef struct CudaKernel {
    CUfunction function;
    const aule_launch_v1 *launch;
    uint32_t block[3];
} CudaKernel;

struct CudaProgram {
    const aule_variant_v1 *variant;
    CUmodule module;
    CudaKernel *kernels; /* of each launch */
};

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

/* cuda_code.c: the module of PTX */
aule_status rt_cuda_make(Cuda *c, CudaProgram *p, AuSink sink);

/* cuda.c: what both have of a backend. */
aule_status rt_cuda_open(const CudaKind *kind, AuHeap memory, uint32_t index,
                         const aule_device_options *options, void **state, AuSink sink);
void rt_cuda_close(void *state);
aule_status rt_cuda_synchronize(void *state, void *queue, AuSink sink);
aule_status rt_cuda_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink);
void rt_cuda_buffer_free(void *state, void *data);
aule_status rt_cuda_upload(void *state, void *data, uint64_t offset, const void *from,
                           uint64_t bytes, AuSink sink);
aule_status rt_cuda_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                             AuSink sink);
aule_status rt_cuda_event_record(void *state, void *queue, void **event, AuSink sink);
aule_status rt_cuda_event_wait(void *event, AuSink sink);
aule_status rt_cuda_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink);
void rt_cuda_event_free(void *event);

/* cuda_shared.c */
aule_status rt_cuda_buffer_import(void *state, int fd, uint64_t bytes, void **data, AuSink sink);
void rt_cuda_shared_end(Cuda *c, const void *data); /* if it is such memory; unmapped already */

/* cuda_timeline.c */
aule_status rt_cuda_timeline_import(void *state, int fd, void **timeline, AuSink sink);
aule_status rt_cuda_timeline_put(void *state, void *timeline, void *queue, bool signals,
                                 uint64_t value, AuSink sink);
void rt_cuda_timeline_free(void *state, void *timeline);

#define RT_CUDA_SHARED                                                                             \
    .api_version = AU_BACKEND_API, .flat = true, .close = rt_cuda_close, .load = rt_cuda_load,     \
    .unload = rt_cuda_unload, .launch = rt_cuda_launch, .zero = rt_cuda_zero,                      \
    .synchronize = rt_cuda_synchronize, .buffer_new = rt_cuda_buffer_new,                          \
    .buffer_free = rt_cuda_buffer_free, .upload = rt_cuda_upload, .download = rt_cuda_download,    \
    .event_record = rt_cuda_event_record, .event_wait = rt_cuda_event_wait,                        \
    .event_elapsed = rt_cuda_event_elapsed, .event_free = rt_cuda_event_free

#endif
