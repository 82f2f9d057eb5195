/* aule/dlpack.h - the tensor of DLPack 1.0, which libaule takes: a layout shared with NumPy, PyTorch, JAX and others.
 * Written from the specification (https://dmlc.github.io/dlpack/latest/c_api.html). A program that uses DLPack's own header includes
 * that one first; then this one declares nothing. */
#ifndef AULE_DLPACK_H
#define AULE_DLPACK_H

#include <stdint.h>

#if !defined(DLPACK_VERSION) && !defined(DLPACK_MAJOR_VERSION) && !defined(DLPACK_DLPACK_H_)

#ifdef __cplusplus
extern "C" {
#endif

/* Where memory lives. Only the values that libaule has a use for; others may occur in [device_type]. */
typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /* pinned host memory */
    kDLOpenCL = 4,   /* [data] is a cl_mem */
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e5m2 = 12
} DLDataTypeCode;

typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes; /* 1 for everything here */
} DLDataType;

typedef struct {
    void *data; /* an address, or the handle of a buffer object */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: compact, last axis fastest */
    uint64_t byte_offset;
} DLTensor;

#ifdef __cplusplus
}
#endif
#endif
#endif
