/* levelzero_api.h - as much of Level Zero as we call, opened at run time: no header of Intel's is needed to build.
 * Types, fields and numbers have the names of the oneAPI Level Zero Specification, version 1.0, sections "Core API"; what is newer
 * says so. tests/runtime/levelzero_layout.def compares them with the specification's header. */
#ifndef AU_RUNTIME_LEVELZERO_API_H
#define AU_RUNTIME_LEVELZERO_API_H

#include "../base.h"

typedef uint32_t ze_result_t;
typedef struct ze_driver *ze_driver_handle_t;
typedef struct ze_device *ze_device_handle_t;
typedef struct ze_context *ze_context_handle_t;
typedef struct ze_queue *ze_command_queue_handle_t;
typedef struct ze_list *ze_command_list_handle_t;
typedef struct ze_fence *ze_fence_handle_t;
typedef struct ze_pool *ze_event_pool_handle_t;
typedef struct ze_event *ze_event_handle_t;
typedef struct ze_module *ze_module_handle_t;
typedef struct ze_log *ze_module_build_log_handle_t;
typedef struct ze_kernel *ze_kernel_handle_t;

enum {
    ZE_RESULT_SUCCESS = 0,
#define RESULT(name, value) name = value,
#include "levelzero_result.def"
};

enum { /* ze_structure_type_t */
       ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES = 1,
       ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES = 3,
       ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES = 4,
       ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES = 5,
       ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES = 6,
       ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES = 7,
       ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES = 8,
       ZE_STRUCTURE_TYPE_CONTEXT_DESC = 0xd,
       ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC = 0xe,
       ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC = 0xf,
       ZE_STRUCTURE_TYPE_EVENT_POOL_DESC = 0x10,
       ZE_STRUCTURE_TYPE_EVENT_DESC = 0x11,
       ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC = 0x15,
       ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC = 0x16,
       ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES = 0x17,
       ZE_STRUCTURE_TYPE_MODULE_DESC = 0x1b,
       ZE_STRUCTURE_TYPE_KERNEL_DESC = 0x1d,
       ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES = 0x1e,
       ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC = 0x20001, /* 1.1 */
       ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2 = 0x20006               /* 1.2 */
};

enum { /* of the enumerations that are named */
       ZE_DEVICE_TYPE_GPU = 1,
       ZE_DEVICE_TYPE_CPU = 2,
       ZE_DEVICE_TYPE_VPU = 5,
       ZE_DEVICE_PROPERTY_FLAG_INTEGRATED = 1,
       ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE = 2,
       ZE_DEVICE_MODULE_FLAG_FP16 = 1,
       ZE_DEVICE_MODULE_FLAG_FP64 = 2,
       ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS = 4,
       ZE_DEVICE_MODULE_FLAG_DP4A = 8,
       ZE_MEMORY_ACCESS_CAP_FLAG_RW = 1,
       ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE = 1,
       ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS = 2,
       ZE_EVENT_POOL_FLAG_HOST_VISIBLE = 1,
       ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP = 4,
       ZE_EVENT_SCOPE_FLAG_DEVICE = 2,
       ZE_EVENT_SCOPE_FLAG_HOST = 4,
       ZE_MEMORY_TYPE_UNKNOWN = 0,
       ZE_MEMORY_TYPE_HOST = 1,
       ZE_MEMORY_TYPE_DEVICE = 2,
       ZE_MEMORY_TYPE_SHARED = 3,
       ZE_MODULE_FORMAT_IL_SPIRV = 0,
       ZE_MODULE_FORMAT_NATIVE = 1,
       ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE = 1,
       ZE_SUBGROUPSIZE_COUNT = 8
};
enum { ZE_API_1_2 = 1 << 16 | 2 };

typedef struct ze_driver_properties_t {
    uint32_t stype;
    void *pNext;
    uint8_t uuid[16];
    uint32_t driverVersion;
} ze_driver_properties_t;

typedef struct ze_device_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t type, vendorId, deviceId, flags, subdeviceId, coreClockRate;
    uint64_t maxMemAllocSize;
    uint32_t maxHardwareContexts, maxCommandQueuePriority, numThreadsPerEU, physicalEUSimdWidth;
    uint32_t numEUsPerSubslice, numSubslicesPerSlice, numSlices;
    uint64_t timerResolution; /* ns a tick; with the type of 1.2 ticks a second */
    uint32_t timestampValidBits, kernelTimestampValidBits;
    uint8_t uuid[16];
    char name[256];
} ze_device_properties_t;

typedef struct ze_device_compute_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t maxTotalGroupSize, maxGroupSizeX, maxGroupSizeY, maxGroupSizeZ;
    uint32_t maxGroupCountX, maxGroupCountY, maxGroupCountZ;
    uint32_t maxSharedLocalMemory, numSubGroupSizes, subGroupSizes[ZE_SUBGROUPSIZE_COUNT];
} ze_device_compute_properties_t;

typedef struct ze_device_module_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t spirvVersionSupported, flags, fp16flags, fp32flags, fp64flags;
    uint32_t maxArgumentsSize, printfBufferSize;
    uint8_t nativeKernelSupported[16];
} ze_device_module_properties_t;

/* Intel's own (ze_intel_gpu.h), behind the properties of modules; drivers before 24.05 pass over it. */
enum { ZE_INTEL_DEVICE_MODULE_DP_EXP_PROPERTIES = 0x00030013, ZE_INTEL_DEVICE_MODULE_DPAS = 2 };
typedef struct ze_intel_device_module_dp_exp_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t flags;
} ze_intel_device_module_dp_exp_properties_t;

typedef struct ze_device_memory_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t flags, maxClockRate, maxBusWidth;
    uint64_t totalSize;
    char name[256];
} ze_device_memory_properties_t;

typedef struct ze_device_memory_access_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t hostAllocCapabilities, deviceAllocCapabilities;
    uint32_t sharedSingleDeviceAllocCapabilities, sharedCrossDeviceAllocCapabilities;
    uint32_t sharedSystemAllocCapabilities;
} ze_device_memory_access_properties_t;

typedef struct ze_command_queue_group_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t flags;
    size_t maxMemoryFillPatternSize;
    uint32_t numQueues;
} ze_command_queue_group_properties_t;

typedef struct ze_context_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags;
} ze_context_desc_t;

typedef struct ze_command_queue_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t ordinal, index, flags, mode, priority;
} ze_command_queue_desc_t;

typedef struct ze_command_list_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t commandQueueGroupOrdinal, flags;
} ze_command_list_desc_t;

typedef struct ze_event_pool_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags, count;
} ze_event_pool_desc_t;

typedef struct ze_event_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t index, signal, wait;
} ze_event_desc_t;

typedef struct ze_kernel_timestamp_data_t {
    uint64_t kernelStart, kernelEnd;
} ze_kernel_timestamp_data_t;
typedef struct ze_kernel_timestamp_result_t {
    ze_kernel_timestamp_data_t global, context;
} ze_kernel_timestamp_result_t;

typedef struct ze_device_mem_alloc_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags, ordinal;
} ze_device_mem_alloc_desc_t;
typedef struct ze_host_mem_alloc_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags;
} ze_host_mem_alloc_desc_t;
typedef struct ze_relaxed_allocation_limits_exp_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags;
} ze_relaxed_allocation_limits_exp_desc_t;

typedef struct ze_memory_allocation_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t type;
    uint64_t id, pageSize;
} ze_memory_allocation_properties_t;

typedef struct ze_module_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t format;
    size_t inputSize;
    const uint8_t *pInputModule;
    const char *pBuildFlags;
    const void *pConstants;
} ze_module_desc_t;

typedef struct ze_kernel_desc_t {
    uint32_t stype;
    const void *pNext;
    uint32_t flags;
    const char *pKernelName;
} ze_kernel_desc_t;

typedef struct ze_kernel_properties_t {
    uint32_t stype;
    void *pNext;
    uint32_t numKernelArgs, requiredGroupSizeX, requiredGroupSizeY, requiredGroupSizeZ;
    uint32_t requiredNumSubGroups, requiredSubgroupSize, maxSubgroupSize, maxNumSubgroups;
    uint32_t localMemSize, privateMemSize, spillMemSize;
    uint8_t uuid[32];
} ze_kernel_properties_t;

typedef struct ze_group_count_t {
    uint32_t groupCountX, groupCountY, groupCountZ;
} ze_group_count_t;

typedef struct AuLevelZero {
#define ZE(name, arguments) ze_result_t(*name) arguments;
#include "levelzero_api.def"
} AuLevelZero;

/* Opens the loader. false: it is not there, or too old; [why] says which. */
bool rt_ze_api(AuLevelZero *ze, AuText *why);

/* "ZE_RESULT_ERROR_DEVICE_LOST"; what has no name as a number, in [buffer]. */
const char *rt_ze_error(ze_result_t code, char buffer[24]);

#endif
