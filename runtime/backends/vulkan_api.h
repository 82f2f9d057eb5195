/* vulkan_api.h - as much of Vulkan 1.2 as we call, opened at run time: no SDK is needed to build, no driver to start.
 * Types and numbers from the specification's header (Khronos, vulkan_core.h); of long structures the fields that we look at stand
 * where they are, and the rest is room. tests/runtime/vulkan_layout_test.c compares with that header where it is installed. */
#ifndef AU_RUNTIME_VULKAN_API_H
#define AU_RUNTIME_VULKAN_API_H

#include "../base.h"

typedef int32_t VkResult;
typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkQueue_T *VkQueue;
typedef struct VkCommandBuffer_T *VkCommandBuffer;
typedef uint64_t VkBuffer, VkDeviceMemory, VkShaderModule, VkPipelineLayout, VkPipeline,
    VkCommandPool, VkSemaphore, VkQueryPool, VkPipelineCache; /* handles that are not pointers */

enum {
    VK_SUCCESS = 0,
    VK_TIMEOUT = 2,
    VK_ERROR_OUT_OF_HOST_MEMORY = -1,
    VK_ERROR_OUT_OF_DEVICE_MEMORY = -2,
    VK_ERROR_DEVICE_LOST = -4,
    VK_ERROR_LAYER_NOT_PRESENT = -6,
    VK_ERROR_INCOMPATIBLE_DRIVER = -9,
    VK_ERROR_TOO_MANY_OBJECTS = -10,
    VK_ERROR_INVALID_EXTERNAL_HANDLE = -1000072003
};

/* VkStructureType */
enum {
    VK_TYPE_APPLICATION = 0,
    VK_TYPE_INSTANCE = 1,
    VK_TYPE_DEVICE_QUEUE = 2,
    VK_TYPE_DEVICE = 3,
    VK_TYPE_SUBMIT = 4,
    VK_TYPE_MEMORY_ALLOCATE = 5,
    VK_TYPE_SEMAPHORE = 9,
    VK_TYPE_QUERY_POOL = 11,
    VK_TYPE_BUFFER = 12,
    VK_TYPE_SHADER_MODULE = 16,
    VK_TYPE_PIPELINE_CACHE = 17,
    VK_TYPE_SHADER_STAGE = 18,
    VK_TYPE_COMPUTE_PIPELINE = 29,
    VK_TYPE_PIPELINE_LAYOUT = 30,
    VK_TYPE_COMMAND_POOL = 39,
    VK_TYPE_COMMAND_BUFFERS = 40,
    VK_TYPE_COMMAND_BUFFER_BEGIN = 42,
    VK_TYPE_MEMORY_BARRIER = 46,
    VK_TYPE_FEATURES_11 = 49,
    VK_TYPE_PROPERTIES_11 = 50,
    VK_TYPE_FEATURES_12 = 51,
    VK_TYPE_PROPERTIES_12 = 52,
    VK_TYPE_FEATURES_13 = 53,
    VK_TYPE_FEATURES_FLOAT16_INT8 = 1000082000, /* those of 1.1 and 1.2 one by one */
    VK_TYPE_FEATURES_STORAGE_16 = 1000083000,
    VK_TYPE_FEATURES_STORAGE_8 = 1000177000,
    VK_TYPE_FEATURES_TIMELINE = 1000207000,
    VK_TYPE_FEATURES_MEMORY_MODEL = 1000211000,
    VK_TYPE_FEATURES_BUFFER_ADDRESS = 1000257000,
    VK_TYPE_FEATURES = 1000059000,
    VK_TYPE_PROPERTIES = 1000059001,
    VK_TYPE_PROPERTIES_SM_NV = 1000154001,
    VK_TYPE_PROPERTIES_CORE_AMD = 1000185000,
    VK_TYPE_ALLOCATE_FLAGS = 1000060000,
    VK_TYPE_EXTERNAL_BUFFER_INFO = 1000071002,
    VK_TYPE_EXTERNAL_BUFFER_PROPERTIES = 1000071003,
    VK_TYPE_EXTERNAL_BUFFER = 1000072000,
    VK_TYPE_EXPORT_MEMORY = 1000072002,
    VK_TYPE_IMPORT_MEMORY_FD = 1000074000,
    VK_TYPE_MEMORY_GET_FD = 1000074002,
    VK_TYPE_EXTERNAL_SEMAPHORE_INFO = 1000076000,
    VK_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES = 1000076001,
    VK_TYPE_EXPORT_SEMAPHORE = 1000077000,
    VK_TYPE_SEMAPHORE_GET_FD = 1000079001,
    VK_TYPE_SEMAPHORE_KIND = 1000207002,
    VK_TYPE_TIMELINE_SUBMIT = 1000207003,
    VK_TYPE_SEMAPHORE_WAIT = 1000207004,
    VK_TYPE_BUFFER_ADDRESS = 1000244001,
    VK_TYPE_PROPERTIES_LANES = 1000225000,
    VK_TYPE_REQUIRED_LANES = 1000225001,
    VK_TYPE_FEATURES_LANES = 1000225002,
    VK_TYPE_FEATURES_MATRIX = 1000506000,
    VK_TYPE_MATRIX = 1000506001,
    VK_TYPE_FEATURES_BF16 = 1000141000,
    VK_TYPE_FEATURES_SUMS = 1000260000,
    VK_TYPE_FEATURES_SHARED = 1000336000,
    VK_TYPE_FEATURES_MATRIX_2 = 1000593000,
    VK_TYPE_MATRIX_EXTENTS = 1000593001,
    VK_TYPE_PROPERTIES_MATRIX_2 = 1000593002
};

/* Bits and enumerants. */
enum {
    VK_VERSION_1_2 = 1 << 22 | 2 << 12,
    VK_VERSION_1_3 = 1 << 22 | 3 << 12,
    VK_QUEUE_COMPUTE = 2,
    VK_DEVICE_INTEGRATED_GPU = 1,
    VK_DEVICE_DISCRETE_GPU = 2,
    VK_DEVICE_VIRTUAL_GPU = 3,
    VK_DEVICE_CPU = 4,
    VK_MEMORY_DEVICE_LOCAL = 1,
    VK_MEMORY_HOST_VISIBLE = 2,
    VK_MEMORY_HOST_COHERENT = 4,
    VK_ALLOCATE_DEVICE_ADDRESS = 2,
    VK_EXTERNAL_FD = 1,             /* VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT */
    VK_EXTERNAL_DEDICATED_ONLY = 1, /* VK_EXTERNAL_MEMORY_FEATURE_... */
    VK_EXTERNAL_EXPORTS = 2,
    VK_EXTERNAL_IMPORTS = 4,
    VK_EXTERNAL_SEMAPHORE_EXPORTS = 1, /* VK_EXTERNAL_SEMAPHORE_FEATURE_.. */
    VK_BUFFER_TRANSFER_SRC = 1,
    VK_BUFFER_TRANSFER_DST = 2,
    VK_BUFFER_STORAGE = 0x20,
    VK_BUFFER_DEVICE_ADDRESS = 0x20000,
    VK_STAGE_COMPUTE = 0x20,
    VK_STAGE_FULL_SUBGROUPS =
        2 /* VkPipelineShaderStageCreateFlagBits */, /* VK_SHADER_STAGE_COMPUTE_BIT */
    VK_BIND_POINT_COMPUTE = 1,
    VK_POOL_RESET_COMMAND_BUFFER = 2,
    VK_COMMANDS_ONCE = 1,
    VK_AT_COMPUTE = 0x800, /* VK_PIPELINE_STAGE_... */
    VK_AT_BOTTOM = 0x2000,
    VK_AT_HOST = 0x4000,
    VK_AT_ALL_COMMANDS = 0x10000,
    VK_ACCESS_SHADER_READ = 0x20,
    VK_ACCESS_SHADER_WRITE = 0x40,
    VK_ACCESS_HOST_READ = 0x2000,
    VK_ACCESS_HOST_WRITE = 0x4000,
    VK_ACCESS_MEMORY_READ = 0x8000,
    VK_ACCESS_MEMORY_WRITE = 0x10000,
    VK_SEMAPHORE_TIMELINE = 1,
    VK_QUERY_TIMESTAMP = 2,
    VK_QUERY_64 = 1,
    VK_QUERY_WAIT = 2
};

typedef struct VkApplicationInfo {
    uint32_t type;
    const void *next;
    const char *application;
    uint32_t application_version;
    const char *engine;
    uint32_t engine_version, api_version;
} VkApplicationInfo;
typedef struct VkInstanceCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const VkApplicationInfo *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
} VkInstanceCreateInfo;
typedef struct VkDeviceQueueCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, family, count;
    const float *priorities;
} VkDeviceQueueCreateInfo;
typedef struct VkDeviceCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, queue_count;
    const VkDeviceQueueCreateInfo *queues;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
    const void *features;
} VkDeviceCreateInfo;

/* Words of VkPhysicalDeviceFeatures, and of the structures of 1.1 and 1.2 from the first behind their heads. */
enum { VK_FEATURES = 55, VK_FEATURES_11 = 12, VK_FEATURES_12 = 47 };
typedef struct VkPhysicalDeviceFeatures2 {
    uint32_t type;
    void *next;
    uint32_t is[VK_FEATURES + 1];
} VkPhysicalDeviceFeatures2;
typedef struct VkPhysicalDeviceVulkan11Features {
    uint32_t type;
    void *next;
    uint32_t is[VK_FEATURES_11];
} VkPhysicalDeviceVulkan11Features;
typedef struct VkPhysicalDeviceVulkan12Features {
    uint32_t type;
    void *next;
    uint32_t is[VK_FEATURES_12 + 1];
} VkPhysicalDeviceVulkan12Features;
enum { /* which word */
       VK_HAS_INT64 = 40,
       VK_HAS_INT16 = 41,
       VK_HAS_STORAGE_16 = 0, /* 1.1 */
       VK_HAS_STORAGE_8 = 2,  /* 1.2 */
       VK_HAS_FLOAT_16 = 7,
       VK_HAS_INT8 = 8,
       VK_HAS_TIMELINE = 37,
       VK_HAS_BUFFER_ADDRESS = 38,
       VK_HAS_MEMORY_MODEL = 41
};

typedef struct VkPhysicalDeviceProperties2 {
    uint32_t type;
    void *next;
    uint32_t api_version, driver_version, vendor, device, kind;
    char name[256];
    uint8_t cache_uuid[16];
    struct {
        uint8_t before[216];
        uint32_t shared_bytes, group_count[3], group_threads, group_size[3];
        uint8_t between[172];
        uint32_t timestamps;
        float timestamp_period;
        uint8_t after[76];
    } limits __attribute__((aligned(8)));
    uint8_t sparse[24];
} VkPhysicalDeviceProperties2;
typedef struct VkPhysicalDeviceVulkan11Properties {
    uint32_t type;
    void *next;
    uint8_t device_uuid[16], driver_uuid[16], luid[16];
    uint32_t subgroup, subgroup_stages, subgroup_operations;
    uint8_t rest[36];
} VkPhysicalDeviceVulkan11Properties;
typedef struct VkPhysicalDeviceVulkan12Properties {
    uint32_t type;
    void *next;
    uint32_t driver;
    char driver_name[256], driver_info[256];
    uint8_t before[16];
    uint32_t keeps_special; /* shaderSignedZeroInfNanPreserveFloat32 */
    uint8_t between[28];
    uint32_t rounds_half_even; /* shaderRoundingModeRTEFloat16 */
    uint32_t rounds_even;      /* shaderRoundingModeRTEFloat32 */
    uint8_t rest[148];
} VkPhysicalDeviceVulkan12Properties;

/* VK_EXT_subgroup_size_control: how many lanes a stage may ask for, in which stages. */
typedef struct VkPhysicalDeviceSubgroupSizeControlProperties {
    uint32_t type;
    void *next;
    uint32_t least, most, groups, stages;
} VkPhysicalDeviceSubgroupSizeControlProperties;
typedef struct VkPhysicalDeviceSubgroupSizeControlFeatures {
    uint32_t type;
    void *next;
    uint32_t control, full;
} VkPhysicalDeviceSubgroupSizeControlFeatures;
typedef struct VkPipelineShaderStageRequiredSubgroupSizeCreateInfo {
    uint32_t type;
    void *next;
    uint32_t lanes;
} VkPipelineShaderStageRequiredSubgroupSizeCreateInfo;
/* VK_KHR_cooperative_matrix: VkPhysicalDeviceCooperativeMatrixFeaturesKHR, VkCooperativeMatrixPropertiesKHR. */
typedef struct VkPhysicalDeviceCooperativeMatrixFeatures {
    uint32_t type;
    void *next;
    uint32_t matrices, robust;
} VkPhysicalDeviceCooperativeMatrixFeatures;
typedef struct VkCooperativeMatrixProperties {
    uint32_t type;
    void *next;
    uint32_t m, n, k, a, b, c, result, saturates, scope;
} VkCooperativeMatrixProperties;
/* VK_KHR_shader_bfloat16. */
typedef struct VkPhysicalDeviceShaderBfloat16Features {
    uint32_t type;
    void *next;
    uint32_t numbers, dot_products, matrices;
} VkPhysicalDeviceShaderBfloat16Features;
/* VK_KHR_workgroup_memory_explicit_layout. */
typedef struct VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures {
    uint32_t type;
    void *next;
    uint32_t layout, scalars, bits8, bits16;
} VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures;
/* VK_EXT_shader_atomic_float: VkPhysicalDeviceShaderAtomicFloatFeaturesEXT. f32_adds: shaderBufferFloat32AtomicAdd. */
typedef struct VkPhysicalDeviceShaderAtomicFloatFeatures {
    uint32_t type;
    void *next;
    uint32_t f32, f32_adds, f64, f64_adds, shared[4], images[4];
} VkPhysicalDeviceShaderAtomicFloatFeatures;
/* VK_NV_cooperative_matrix2: VkPhysicalDeviceCooperativeMatrix2FeaturesNV. */
typedef struct VkPhysicalDeviceCooperativeMatrix2Features {
    uint32_t type;
    void *next;
    uint32_t of_groups, any_extents, reduces, converts, by_element, by_tensors, by_blocks;
} VkPhysicalDeviceCooperativeMatrix2Features;
/* VkPhysicalDeviceCooperativeMatrix2PropertiesNV: of matrices of a work-group threads at most, of all that are multiples extents at most, and bytes of
 * shared memory that the driver keeps for itself. VkCooperativeMatrixFlexibleDimensionsPropertiesNV: of which extents they are multiples, and of so
 * many threads of a work-group. */
typedef struct VkPhysicalDeviceCooperativeMatrix2Properties {
    uint32_t type;
    void *next;
    uint32_t most_threads, most_extent, reserved;
} VkPhysicalDeviceCooperativeMatrix2Properties;
typedef struct VkCooperativeMatrixExtents {
    uint32_t type;
    void *next;
    uint32_t m, n, k, a, b, c, result, saturates, scope, threads;
} VkCooperativeMatrixExtents;
enum { /* which type of elements; which scope */
       VK_MATRIX_F16 = 0,
       VK_MATRIX_F32 = 1,
       VK_MATRIX_BF16 = 1000141000,
       VK_SCOPE_WORKGROUP = 2,
       VK_SCOPE_SUBGROUP = 3
};
enum { /* VkSubgroupFeatureFlagBits */
       VK_SUBGROUP_BASIC = 1,
       VK_SUBGROUP_VOTE = 2,
       VK_SUBGROUP_SHUFFLE = 16
};

/* The structure of an extension that tells of processors: its first words. */
typedef struct VulkanExtra {
    uint32_t type;
    void *next;
    uint32_t words[14];
} VulkanExtra;
typedef struct VkExtensionProperties {
    char name[256];
    uint32_t version;
} VkExtensionProperties;

typedef struct VkQueueFamilyProperties {
    uint32_t flags, count, timestamp_bits, granularity[3];
} VkQueueFamilyProperties;
typedef struct VkPhysicalDeviceMemoryProperties {
    uint32_t type_count;
    struct {
        uint32_t flags, heap;
    } types[32];
    uint32_t heap_count;
    struct {
        uint64_t bytes;
        uint32_t flags;
    } heaps[16];
} VkPhysicalDeviceMemoryProperties;
typedef struct VkLayerProperties {
    char name[256];
    uint32_t spec_version, version;
    char description[256];
} VkLayerProperties;
typedef struct VkMemoryRequirements {
    uint64_t bytes, align;
    uint32_t types;
} VkMemoryRequirements;
typedef struct VkMemoryAllocateFlagsInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, devices;
} VkMemoryAllocateFlagsInfo;
typedef struct VkMemoryAllocateInfo {
    uint32_t type;
    const void *next;
    uint64_t bytes;
    uint32_t memory_type;
} VkMemoryAllocateInfo;
typedef struct VkPhysicalDeviceExternalBufferInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, usage, handle;
} VkPhysicalDeviceExternalBufferInfo;
typedef struct VkExternalBufferProperties {
    uint32_t type;
    void *next;
    uint32_t features, from, with;
} VkExternalBufferProperties;
typedef struct VkExternalMemoryBufferCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t handles;
} VkExternalMemoryBufferCreateInfo;
typedef struct VkExportMemoryAllocateInfo {
    uint32_t type;
    const void *next;
    uint32_t handles;
} VkExportMemoryAllocateInfo;
typedef struct VkImportMemoryFdInfo { /* VkImportMemoryFdInfoKHR */
    uint32_t type;
    const void *next;
    uint32_t handle;
    int fd;
} VkImportMemoryFdInfo;
typedef struct VkMemoryGetFdInfo { /* VkMemoryGetFdInfoKHR */
    uint32_t type;
    const void *next;
    VkDeviceMemory memory;
    uint32_t handle;
} VkMemoryGetFdInfo;
typedef struct VkBufferCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    uint64_t bytes;
    uint32_t usage, sharing, family_count;
    const uint32_t *families;
} VkBufferCreateInfo;
typedef struct VkBufferDeviceAddressInfo {
    uint32_t type;
    const void *next;
    VkBuffer buffer;
} VkBufferDeviceAddressInfo;
typedef struct VkBufferCopy {
    uint64_t from, to, bytes;
} VkBufferCopy;
typedef struct VkShaderModuleCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t bytes;
    const void *code;
} VkShaderModuleCreateInfo;
typedef struct VkSpecializationMapEntry {
    uint32_t id, offset;
    size_t bytes;
} VkSpecializationMapEntry;
typedef struct VkSpecializationInfo {
    uint32_t entry_count;
    const VkSpecializationMapEntry *entries;
    size_t bytes;
    const void *data;
} VkSpecializationInfo;
typedef struct VkPipelineShaderStageCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, stage;
    VkShaderModule module;
    const char *name;
    const VkSpecializationInfo *specialization;
} VkPipelineShaderStageCreateInfo;
typedef struct VkComputePipelineCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    VkPipelineShaderStageCreateInfo stage;
    VkPipelineLayout layout;
    VkPipeline base;
    int32_t base_index;
} VkComputePipelineCreateInfo;
typedef struct VkPipelineCacheCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    size_t bytes;
    const void *data;
} VkPipelineCacheCreateInfo;
typedef struct VkPushConstantRange {
    uint32_t stages, offset, bytes;
} VkPushConstantRange;
typedef struct VkPipelineLayoutCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, set_count;
    const uint64_t *sets;
    uint32_t range_count;
    const VkPushConstantRange *ranges;
} VkPipelineLayoutCreateInfo;
typedef struct VkCommandPoolCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, family;
} VkCommandPoolCreateInfo;
typedef struct VkCommandBufferAllocateInfo {
    uint32_t type;
    const void *next;
    VkCommandPool pool;
    uint32_t level, count;
} VkCommandBufferAllocateInfo;
typedef struct VkCommandBufferBeginInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const void *inheritance;
} VkCommandBufferBeginInfo;
typedef struct VkMemoryBarrier {
    uint32_t type;
    const void *next;
    uint32_t before, after;
} VkMemoryBarrier;
typedef struct VkQueryPoolCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, kind, count, statistics;
} VkQueryPoolCreateInfo;
typedef struct VkSemaphoreTypeCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t kind;
    uint64_t value;
} VkSemaphoreTypeCreateInfo;
typedef struct VkSemaphoreCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t flags;
} VkSemaphoreCreateInfo;
typedef struct VkPhysicalDeviceExternalSemaphoreInfo {
    uint32_t type;
    const void *next;
    uint32_t handle;
} VkPhysicalDeviceExternalSemaphoreInfo;
typedef struct VkExternalSemaphoreProperties {
    uint32_t type;
    void *next;
    uint32_t from, with, features;
} VkExternalSemaphoreProperties;
typedef struct VkExportSemaphoreCreateInfo {
    uint32_t type;
    const void *next;
    uint32_t handles;
} VkExportSemaphoreCreateInfo;
typedef struct VkSemaphoreGetFdInfo { /* VkSemaphoreGetFdInfoKHR */
    uint32_t type;
    const void *next;
    VkSemaphore semaphore;
    uint32_t handle;
} VkSemaphoreGetFdInfo;
typedef struct VkTimelineSemaphoreSubmitInfo {
    uint32_t type;
    const void *next;
    uint32_t wait_count;
    const uint64_t *waits;
    uint32_t signal_count;
    const uint64_t *signals;
} VkTimelineSemaphoreSubmitInfo;
typedef struct VkSubmitInfo {
    uint32_t type;
    const void *next;
    uint32_t wait_count;
    const VkSemaphore *waits;
    const uint32_t *wait_stages;
    uint32_t command_count;
    const VkCommandBuffer *commands;
    uint32_t signal_count;
    const VkSemaphore *signals;
} VkSubmitInfo;
typedef struct VkSemaphoreWaitInfo {
    uint32_t type;
    const void *next;
    uint32_t flags, count;
    const VkSemaphore *semaphores;
    const uint64_t *values;
} VkSemaphoreWaitInfo;

typedef void (*VkFunction)(void);
typedef struct AuVulkan {
    VkFunction (*vkGetInstanceProcAddr)(VkInstance instance, const char *name);
#define VK(result, name, arguments) result(*name) arguments;
#include "vulkan_api.def"
} AuVulkan;

/* The loader's functions that need no instance. false: [why] says what is missing; a text with no end. */
bool rt_vulkan_api(AuVulkan *vk, AuText *why);
/* All others; false where the instance lacks one. */
bool rt_vulkan_functions(AuVulkan *vk, VkInstance instance, AuText *why);

/* "VK_ERROR_DEVICE_LOST", or the number. */
const char *rt_vulkan_error(VkResult code, char buffer[24]);

#endif
