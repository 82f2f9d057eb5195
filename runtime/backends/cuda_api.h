/* cuda_api.h - as much of NVIDIA's driver interface as we call, opened at run time: no toolkit is needed to build or to run.
 * Types and numbers from the CUDA Driver API reference manual. */
#ifndef AU_RUNTIME_CUDA_API_H
#define AU_RUNTIME_CUDA_API_H

#include "../base.h"

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlinkState_st *CUlinkState;

/* CUlaunchConfig and CUlaunchAttribute; the attribute's value is a union, of which we have a number. */
typedef struct CUlaunchAttribute {
    int id;
    union {
        char bytes[64];
        int on;
    } value __attribute__((aligned(8)));
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_MEMORY_BUFFER_DESC. */
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
enum { CU_EXTERNAL_MEMORY_FD = 1 };
typedef struct CUexternalMemoryHandle {
    int type;
    union {
        int fd;
        void *others[2];
    } handle;
    unsigned long long bytes;
    unsigned flags, reserved[16];
} CUexternalMemoryHandle;
typedef struct CUexternalMemoryPart {
    unsigned long long offset, bytes;
    unsigned flags, reserved[16];
} CUexternalMemoryPart;
_Static_assert(sizeof(CUexternalMemoryHandle) == 104 && sizeof(CUexternalMemoryPart) == 88,
               "as the driver has them");
/* Of a timeline semaphore: what it is imported by, and the value that is set or waited for. */
enum { CU_EXTERNAL_TIMELINE_FD = 9 };
typedef struct CUexternalSemaphoreHandle {
    int type;
    union {
        int fd;
        void *others[2];
    } handle;
    unsigned flags, reserved[16];
} CUexternalSemaphoreHandle;
typedef struct CUexternalSemaphorePut {
    unsigned long long value, others[8];
    unsigned flags, reserved[16];
} CUexternalSemaphorePut;
_Static_assert(sizeof(CUexternalSemaphoreHandle) == 96 && sizeof(CUexternalSemaphorePut) == 144,
               "as the driver has them");
enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

/* Results that are more to us than a failure. */
enum {
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
};

enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_COMPUTEMODE_PROHIBITED = 2,
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    CU_JIT_INPUT_PTX = 1,

    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
    CU_STREAM_DEFAULT = 0, /* ordered with the legacy default stream */
    CU_EVENT_DEFAULT = 0
};

typedef struct AuCuda {
#define CU(name, symbol, arguments) CUresult(*name) arguments;
#include "cuda_api.def"
    CUresult (*hipPointerGetAttributes)(void *attributes, const void *at); /* HIP's alone */
} AuCuda;

/* Opens the driver. false: it is not there, or too old; [why] says which. */
bool rt_cuda_api(AuCuda *cuda, AuText *why);

/* Adds "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)". */
void rt_cuda_error(const AuCuda *cuda, CUresult code, AuText *text);

/* Versions, by the number that cuDriverGetVersion gives: 12040 is CUDA 12.4. */
uint32_t rt_cuda_ptx(int driver); /* the newest PTX it takes: 84 is PTX 8.4; 0: none of ours */
void rt_cuda_features(
    int driver, uint32_t capability,
    AuText *text); /* "sm_90a sm_90 sm_89 .. ptx84 ptx83 .. tensor_maps cut_maps" */

#endif
