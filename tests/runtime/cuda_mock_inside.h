/* cuda_mock_inside.h - what the halves of the mock share: cuda_mock.c has devices, contexts and code, cuda_mock_run.c memory, streams,
 * launches and graphs. */
#ifndef CUDA_MOCK_INSIDE_H
#define CUDA_MOCK_INSIDE_H

#include "cuda_mock.h"

#include <stdbool.h>

// clang-format off
typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201, NO_BINARY = 209, INVALID_PTX = 218, UNSUPPORTED_PTX = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701, LAUNCH_TIMEOUT = 702, CONTEXT_IS_DESTROYED = 709, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719, CAPTURE = 900
};

typedef struct CUctx_st {
    int device;
    atomic_int lost;
} CUctx;
typedef CUctx *CUcontext;

typedef struct Kernel {
    char name[128];
    void (*host)(const uint64_t *, uint32_t, uint32_t, uint32_t);
    struct CUmod_st *module;
    int shared_allowed;
    int maps; /* bytes of its second parameter */
} Kernel;
typedef struct CUmod_st {
    CUcontext context;
    Kernel kernels[8];
    int count;
} CUmod;
typedef struct Owned { /* streams and events */
    CUcontext context;
    int recorded;
    void *graph; /* of a stream that is being captured */
} Owned;
typedef struct MockHandle { /* CUDA_EXTERNAL_MEMORY_HANDLE_DESC; type 1: a file descriptor */
    int type;
    union {
        int fd;
        void *others[2];
    } handle;
    unsigned long long bytes;
    unsigned flags, reserved[16];
} MockHandle;
typedef struct MockPart { /* CUDA_EXTERNAL_MEMORY_BUFFER_DESC */
    unsigned long long offset, bytes;
    unsigned flags, reserved[16];
} MockPart;
typedef struct Linker {
    char *ptx, *code;
    char *log;
    size_t log_bytes;
} Linker;
// clang-format on

extern _Thread_local CUcontext mock_stack[16];
extern _Thread_local int mock_depth;

/* This call is the one that is to fail (CudaMock.fail). */
bool mock_fails(const char *function);
/* What every function does first; [needs]: a context that is current. */
CUresult mock_enter(const char *function, bool needs);
/* Objects and memory, zeroed, at 256 bytes; what is left when the mock is reset went with a lost context, and is freed then. */
void *mock_new(size_t bytes);
void mock_free(void *object);
/* Where they are, [most] of them. */
typedef struct MockRange {
    uint64_t address, bytes;
    int device; /* -1: an object of the driver */
} MockRange;
void mock_belongs(void *object, int device); /* it is memory of this device */
size_t mock_ranges(MockRange *ranges, size_t most);

void mock_hip_uuid(void *properties, CUdevice device);

#define ENTER(function, needs)                                                                     \
    CUresult entered = mock_enter(function, needs);                                                \
    if (entered != OK) return entered
/* And those that may not be called while a stream is captured. */
#define FORBIDDEN                                                                                  \
    if (cuda_mock.capturing) return atomic_fetch_add(&cuda_mock.forbidden, 1), CAPTURE
#define CURRENT mock_stack[mock_depth - 1]

#endif
