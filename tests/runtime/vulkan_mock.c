/* vulkan_mock.c - see vulkan_mock.h: instances, devices, memory, pipelines. What is submitted is in vulkan_mock_run.c. */
#include "vulkan_mock_inside.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

VulkanMock vulkan_mock;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

void mock_count(int *number, int by)
{
    pthread_mutex_lock(&counting);
    *number += by;
    pthread_mutex_unlock(&counting);
}

void vulkan_mock_reset(void)
{
    vulkan_mock = (VulkanMock){.devices = 1,
                               .loader = VK_VERSION_1_2,
                               .version = VK_VERSION_1_2,
                               .most_blocks = 65535,
                               .shared_bytes = 48 << 10,
                               .memory_bytes = 1 << 30};
}

/* ---- what is exported lies in files, so that whoever has a descriptor shares it */

static struct {
    void *at;
    size_t bytes;
    int fd;
} files[16];

/* NULL: a free one. */
static size_t file_at(const void *at)
{
    size_t n = 0;
    while (n < sizeof files / sizeof *files && files[n].at != at) n++;
    return n;
}

void *mock_file_of(int fd, size_t bytes)
{
    const size_t n = file_at(NULL);
    if (n == sizeof files / sizeof *files) abort();
    files[n].fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    files[n].bytes = bytes;
    files[n].at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (files[n].at == MAP_FAILED) abort();
    return files[n].at;
}

void *mock_file_new(size_t bytes)
{
    const int fd = memfd_create("shared", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) abort();
    void *at = mock_file_of(fd, bytes);
    close(fd);
    return at;
}

int mock_file_fd(const void *at) { return fcntl(files[file_at(at)].fd, F_DUPFD_CLOEXEC, 0); }

bool mock_file_end(void *at)
{
    const size_t n = file_at(at);
    if (n == sizeof files / sizeof *files) return false;
    munmap(at, files[n].bytes);
    close(files[n].fd);
    files[n].at = NULL;
    return true;
}

bool mock_fails(const char *function)
{
    pthread_mutex_lock(&counting);
    const bool now = ++vulkan_mock.calls == vulkan_mock.fail_at ||
                     (vulkan_mock.fail && strcmp(vulkan_mock.fail, function) == 0);
    if (now) vulkan_mock.failed = function;
    pthread_mutex_unlock(&counting);
    return now;
}

static bool has(int feature) { return !(vulkan_mock.lacks >> feature & 1); }

/* ---- instances */

VkResult vkEnumerateInstanceVersion(uint32_t *version)
{
    ENTER();
    *version = vulkan_mock.loader;
    return VK_SUCCESS;
}
VkResult vkEnumerateInstanceLayerProperties(uint32_t *count, VkLayerProperties *layers)
{
    ENTER();
    (void)layers;
    *count = 0;
    return VK_SUCCESS;
}
VkResult vkCreateInstance(const VkInstanceCreateInfo *info, const void *allocator,
                          VkInstance *instance)
{
    ENTER();
    (void)allocator;
    if (info->layer_count) return VK_ERROR_LAYER_NOT_PRESENT;
    *instance = malloc(1);
    vulkan_mock.instances++;
    return VK_SUCCESS;
}
void vkDestroyInstance(VkInstance instance, const void *allocator)
{
    (void)allocator;
    free(instance);
    vulkan_mock.instances--;
}

/* ---- devices: numbers from 1 */

VkResult vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
    ENTER();
    (void)instance;
    if (*count > vulkan_mock.devices) *count = vulkan_mock.devices;
    for (uint32_t n = 0; n < *count; n++) devices[n] = (VkPhysicalDevice)(uintptr_t)(n + 1);
    return VK_SUCCESS;
}
VkResult vkEnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char *layer,
                                              uint32_t *count, VkExtensionProperties *extensions)
{
    ENTER();
    (void)device, (void)layer;
    static const char *const names[] = {
        "VK_NV_shader_sm_builtins",  "VK_EXT_subgroup_size_control",
        "VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",
        "VK_NV_cooperative_matrix2", "VK_KHR_workgroup_memory_explicit_layout"};
    *count = vulkan_mock.newer ? 6 : vulkan_mock.most ? 3 : 1;
    for (uint32_t n = 0; n < *count; n++)
        snprintf(extensions[n].name, sizeof extensions[n].name, "%s", names[n]);
    if (vulkan_mock.sums) {
        snprintf(extensions[*count].name, sizeof extensions->name, "VK_EXT_shader_atomic_float");
        (*count)++;
    }
    if (vulkan_mock.external) {
        snprintf(extensions[*count].name, sizeof extensions->name, "VK_KHR_external_memory_fd");
        (*count)++;
    }
    if (vulkan_mock.signals) {
        snprintf(extensions[*count].name, sizeof extensions->name, "VK_KHR_external_semaphore_fd");
        (*count)++;
    }
    return VK_SUCCESS;
}
void vkGetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *p)
{
    p->api_version = vulkan_mock.version;
    p->driver_version = vulkan_mock.driver;
    p->kind = VK_DEVICE_DISCRETE_GPU;
    snprintf(p->name, sizeof p->name, "mock %d", (int)(uintptr_t)device - 1);
    p->limits.shared_bytes = vulkan_mock.shared_bytes;
    for (int n = 0; n < 3; n++) {
        p->limits.group_count[n] = vulkan_mock.most_blocks;
        p->limits.group_size[n] = 256;
    }
    p->limits.group_threads = 256;
    p->limits.timestamp_period = 1;
    for (VulkanExtra *next = p->next; next; next = next->next) {
        if (next->type == VK_TYPE_PROPERTIES_SM_NV) next->words[0] = 7;
        if (next->type == VK_TYPE_PROPERTIES_12) {
            VkPhysicalDeviceVulkan12Properties *more = (void *)next;
            more->keeps_special = has(MOCK_KEEPS_SPECIAL);
            more->rounds_even = has(MOCK_ROUNDS_EVEN);
            more->rounds_half_even = has(MOCK_ROUNDS_HALF);
        }
        if (next->type == VK_TYPE_PROPERTIES_11) {
            VkPhysicalDeviceVulkan11Properties *more = (void *)next;
            more->subgroup = 32;
            for (uint8_t n = 0; n < 16 && !vulkan_mock.nameless; n++)
                more->device_uuid[n] = (uint8_t)(16 * n + (uintptr_t)device - 1);
            more->subgroup_stages = VK_STAGE_COMPUTE;
            more->subgroup_operations = VK_SUBGROUP_BASIC | VK_SUBGROUP_VOTE |
                                        (has(MOCK_SHUFFLE) ? VK_SUBGROUP_SHUFFLE : 0);
        }
        if (next->type == VK_TYPE_PROPERTIES_MATRIX_2) {
            VkPhysicalDeviceCooperativeMatrix2Properties *more = (void *)next;
            more->most_threads = vulkan_mock.block_threads;
            more->most_extent = vulkan_mock.block_extent;
        }
        if (next->type == VK_TYPE_PROPERTIES_LANES) {
            VkPhysicalDeviceSubgroupSizeControlProperties *more = (void *)next;
            more->least = vulkan_mock.least, more->most = vulkan_mock.most;
            more->stages = VK_STAGE_COMPUTE;
        }
    }
}
void vkGetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *f)
{
    (void)device;
    f->is[VK_HAS_INT64] = has(MOCK_INT64);
    f->is[VK_HAS_INT16] = has(MOCK_INT16);
    for (VulkanExtra *next = f->next; next; next = next->next) {
        if (next->type == VK_TYPE_FEATURES_11)
            ((VkPhysicalDeviceVulkan11Features *)(void *)next)->is[VK_HAS_STORAGE_16] =
                has(MOCK_STORAGE_16);
        if (next->type == VK_TYPE_FEATURES_LANES)
            *(VkPhysicalDeviceSubgroupSizeControlFeatures *)(void *)next =
                (VkPhysicalDeviceSubgroupSizeControlFeatures){.control = 1,
                                                              .full = has(MOCK_FULL_SUBGROUPS)};
        if (next->type == VK_TYPE_FEATURES_MATRIX)
            *(VkPhysicalDeviceCooperativeMatrixFeatures *)(void *)next =
                (VkPhysicalDeviceCooperativeMatrixFeatures){.matrices = has(MOCK_MATRICES)};
        if (next->type == VK_TYPE_FEATURES_BF16)
            *(VkPhysicalDeviceShaderBfloat16Features *)(void *)next =
                (VkPhysicalDeviceShaderBfloat16Features){.numbers = 1, .matrices = has(MOCK_BF16)};
        if (next->type == VK_TYPE_FEATURES_SHARED) {
            VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures *shared = (void *)next;
            shared->layout = shared->bits8 = 1, shared->bits16 = has(MOCK_LAYOUT);
        }
        if (next->type == VK_TYPE_FEATURES_SUMS)
            ((VkPhysicalDeviceShaderAtomicFloatFeatures *)(void *)next)->f32_adds = has(MOCK_SUMS);
        if (next->type == VK_TYPE_FEATURES_MATRIX_2) {
            VkPhysicalDeviceCooperativeMatrix2Features *places = (void *)next;
            places->reduces = has(MOCK_REDUCES), places->converts = has(MOCK_CONVERTS);
            places->by_element = has(MOCK_BY_ELEMENT), places->by_tensors = has(MOCK_BY_TENSORS);
            places->of_groups = has(MOCK_OF_BLOCKS), places->any_extents = has(MOCK_ANY_EXTENTS);
        }
        if (next->type != VK_TYPE_FEATURES_12) continue;
        VkPhysicalDeviceVulkan12Features *f12 = (void *)next;
        f12->is[VK_HAS_FLOAT_16] = has(MOCK_FLOAT_16);
        f12->is[VK_HAS_STORAGE_8] = has(MOCK_STORAGE_8);
        f12->is[VK_HAS_INT8] = has(MOCK_INT8);
        f12->is[VK_HAS_TIMELINE] = has(MOCK_TIMELINE);
        f12->is[VK_HAS_BUFFER_ADDRESS] = has(MOCK_BUFFER_ADDRESS);
        f12->is[VK_HAS_MEMORY_MODEL] = has(MOCK_MEMORY_MODEL);
    }
}
/* Two that kernels use, the second of bf16, one with sums of f16, one of the work-group. */
VkResult vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(VkPhysicalDevice device, uint32_t *count,
                                                           VkCooperativeMatrixProperties *matrices)
{
    enum { OF_WORKGROUP = 2 };
    ENTER();
    (void)device;
    *count = vulkan_mock.twin ? 5 : 4;
    matrices[4].m = matrices[4].n = matrices[4].k = 8;
    matrices[4].c = matrices[4].result = VK_MATRIX_F16;
    matrices[4].scope = VK_SCOPE_SUBGROUP;
    for (uint32_t n = 0; n < 4; n++) {
        matrices[n].m = matrices[n].n = matrices[n].k = 8 << n;
        matrices[n].c = matrices[n].result = n == 1 ? VK_MATRIX_F16 : VK_MATRIX_F32;
        matrices[n].scope = n == 2 ? OF_WORKGROUP : VK_SCOPE_SUBGROUP;
        if (n == 3) matrices[n].a = matrices[n].b = VK_MATRIX_BF16;
    }
    return VK_SUCCESS;
}
/* Of work-groups of 128 with sums of f32 and of f16, of 256 in bf16, of a subgroup. */
VkResult vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV(
    VkPhysicalDevice device, uint32_t *count, VkCooperativeMatrixExtents *extents)
{
    ENTER();
    (void)device;
    *count = 4;
    for (uint32_t n = 0; n < 4; n++) {
        VkCooperativeMatrixExtents *x = &extents[n];
        x->m = 32, x->n = n == 2 ? 32 : 16, x->k = 16;
        x->a = x->b = n == 2 ? VK_MATRIX_BF16 : VK_MATRIX_F16;
        x->c = x->result = n == 1 ? VK_MATRIX_F16 : VK_MATRIX_F32;
        x->scope = n == 3 ? VK_SCOPE_SUBGROUP : VK_SCOPE_WORKGROUP;
        x->threads = n == 3 ? 0 : n == 2 ? 256 : 128;
    }
    return VK_SUCCESS;
}
void vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                         VkPhysicalDeviceMemoryProperties *memory)
{
    enum { SEEN = VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT };
    (void)device;
    *memory = (VkPhysicalDeviceMemoryProperties){.type_count = 2, .heap_count = 1};
    memory->types[0].flags = VK_MEMORY_DEVICE_LOCAL | (vulkan_mock.hidden ? 0 : SEEN);
    memory->types[1].flags = SEEN;
    memory->heaps[0].bytes = vulkan_mock.memory_bytes;
}
void vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *count,
                                              VkQueueFamilyProperties *families)
{
    enum { COPIES = 4 };
    (void)device;
    *count = 2;
    families[0] = (VkQueueFamilyProperties){
        .flags = has(MOCK_QUEUE) ? VK_QUEUE_COMPUTE : 0, .count = 1, .timestamp_bits = 64};
    families[1] = (VkQueueFamilyProperties){.flags = COPIES, .count = 1};
}
VkResult vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                        const void *allocator, VkDevice *device)
{
    ENTER();
    (void)physical, (void)info, (void)allocator;
    *device = malloc(1);
    vulkan_mock.opened++;
    return VK_SUCCESS;
}
void vkDestroyDevice(VkDevice device, const void *allocator)
{
    (void)allocator;
    free(device);
    vulkan_mock.opened--;
}
void vkGetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *queue)
{
    (void)family, (void)index;
    *queue = (VkQueue)(void *)device;
}
VkResult vkDeviceWaitIdle(VkDevice device)
{
    ENTER();
    (void)device;
    vulkan_mock_work();
    return VK_SUCCESS;
}

/* ---- buffers and memory */

VkResult vkCreateBuffer(VkDevice device, const VkBufferCreateInfo *info, const void *allocator,
                        VkBuffer *buffer)
{
    ENTER();
    (void)device, (void)allocator;
    MockBuffer *made = calloc(1, sizeof *made);
    made->bytes = info->bytes;
    *buffer = (uintptr_t)made;
    vulkan_mock.buffers++;
    return VK_SUCCESS;
}
void vkDestroyBuffer(VkDevice device, VkBuffer buffer, const void *allocator)
{
    (void)device, (void)allocator;
    free((void *)(uintptr_t)buffer);
    vulkan_mock.buffers--;
}
void vkGetBufferMemoryRequirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *needs)
{
    (void)device;
    *needs = (VkMemoryRequirements){MOCK(MockBuffer, buffer)->bytes, 64, 3};
}
uint64_t vkGetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
    (void)device;
    return (uintptr_t)MOCK(MockBuffer, info->buffer)->at;
}
void vkGetPhysicalDeviceExternalBufferProperties(VkPhysicalDevice device,
                                                 const VkPhysicalDeviceExternalBufferInfo *info,
                                                 VkExternalBufferProperties *properties)
{
    (void)device, (void)info;
    properties->features = (has(MOCK_EXPORTS) ? (uint32_t)VK_EXTERNAL_EXPORTS : 0) |
                           (has(MOCK_IMPORTS) ? (uint32_t)VK_EXTERNAL_IMPORTS : 0);
}
VkResult vkGetMemoryFdKHR(VkDevice device, const VkMemoryGetFdInfo *info, int *fd)
{
    ENTER();
    (void)device;
    *fd = mock_file_fd(MOCK(void, info->memory));
    return VK_SUCCESS;
}
/* Memory that is exported, or imported: then the mock takes the descriptor, as drivers do. NULL: neither. */
static char *shared_memory(const VkMemoryAllocateInfo *info)
{
    const VkMemoryAllocateFlagsInfo *flags = info->next;
    const VkImportMemoryFdInfo *shared = flags ? flags->next : NULL;
    if (shared && shared->type == VK_TYPE_EXPORT_MEMORY) return mock_file_new(info->bytes);
    if (!shared || shared->type != VK_TYPE_IMPORT_MEMORY_FD) return NULL;
    char *at = mock_file_of(shared->fd, info->bytes);
    close(shared->fd);
    return at;
}
static _Alignas(64) char pool[8 << 20];
VkResult vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info, const void *allocator,
                          VkDeviceMemory *memory)
{
    ENTER();
    (void)device, (void)allocator;
    if (info->bytes > vulkan_mock.memory_bytes) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (vulkan_mock.most_memories && vulkan_mock.memories >= vulkan_mock.most_memories)
        return VK_ERROR_TOO_MANY_OBJECTS;
    const uint64_t bytes = (info->bytes + 63) / 64 * 64;
    if (vulkan_mock.downward && vulkan_mock.taken + bytes > sizeof pool)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (vulkan_mock.downward) vulkan_mock.taken += bytes;
    char *at = shared_memory(info);
    if (!at) {
        at = vulkan_mock.downward ? pool + sizeof pool - vulkan_mock.taken
                                  : aligned_alloc(64, bytes);
        memset(at, 0x55, info->bytes);
    }
    *memory = (uintptr_t)at;
    vulkan_mock.memories++;
    return VK_SUCCESS;
}
void vkFreeMemory(VkDevice device, VkDeviceMemory memory, const void *allocator)
{
    (void)device, (void)allocator;
    char *at = (char *)(uintptr_t)memory;
    mock_expect_no_work();
    if (!mock_file_end(at) && (at < pool || at >= pool + sizeof pool)) free(at);
    vulkan_mock.memories--;
}
VkResult vkBindBufferMemory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                            uint64_t offset)
{
    ENTER();
    (void)device;
    MOCK(MockBuffer, buffer)->at = (char *)(uintptr_t)memory + offset;
    return VK_SUCCESS;
}
VkResult vkMapMemory(VkDevice device, VkDeviceMemory memory, uint64_t offset, uint64_t bytes,
                     uint32_t flags, void **at)
{
    ENTER();
    (void)device, (void)bytes, (void)flags;
    *at = (char *)(uintptr_t)memory + offset;
    vulkan_mock.mapped++;
    return VK_SUCCESS;
}

/* ---- code */

VkResult vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                              const void *allocator, VkShaderModule *module)
{
    ENTER();
    (void)device, (void)info, (void)allocator;
    *module = (VkShaderModule)++vulkan_mock.modules;
    return VK_SUCCESS;
}
void vkDestroyShaderModule(VkDevice device, VkShaderModule module, const void *allocator)
{
    (void)device, (void)module, (void)allocator;
    vulkan_mock.modules--;
}
VkResult vkCreatePipelineLayout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                                const void *allocator, VkPipelineLayout *layout)
{
    ENTER();
    (void)device, (void)info, (void)allocator;
    *layout = (VkPipelineLayout)++vulkan_mock.layouts;
    return VK_SUCCESS;
}
void vkDestroyPipelineLayout(VkDevice device, VkPipelineLayout layout, const void *allocator)
{
    (void)device, (void)layout, (void)allocator;
    vulkan_mock.layouts--;
}
/* The head that the specification asks for, and eight bytes. */
typedef struct Kept {
    uint32_t bytes, version, vendor, device;
    uint8_t uuid[16];
    char made[8];
} Kept;

VkResult vkCreatePipelineCache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                               const void *allocator, VkPipelineCache *cache)
{
    ENTER();
    (void)device, (void)allocator;
    const Kept *kept = info->data;
    if (kept && (info->bytes != sizeof *kept || memcmp(kept->made, "pipeline", 8) != 0)) abort();
    vulkan_mock.cached += kept != NULL;
    *cache = 1;
    vulkan_mock.caches++;
    return VK_SUCCESS;
}
void vkDestroyPipelineCache(VkDevice device, VkPipelineCache cache, const void *allocator)
{
    (void)device, (void)cache, (void)allocator;
    vulkan_mock.caches--;
}
VkResult vkGetPipelineCacheData(VkDevice device, VkPipelineCache cache, size_t *bytes, void *data)
{
    ENTER();
    (void)device, (void)cache;
    const Kept kept = {.bytes = 32, .version = 1, .made = {'p', 'i', 'p', 'e', 'l', 'i', 'n', 'e'}};
    if (data) memcpy(data, &kept, sizeof kept);
    *bytes = sizeof kept;
    return VK_SUCCESS;
}

/* A compiler that takes its time. */
static void meet_others(void)
{
    static int here;
    mock_count(&here, 1);
    for (int n = 0, most = 0; n < 1000 && most < vulkan_mock.together; n++) {
        pthread_mutex_lock(&counting);
        if (here > vulkan_mock.most_together) vulkan_mock.most_together = here;
        most = vulkan_mock.most_together;
        pthread_mutex_unlock(&counting);
        usleep(1000);
    }
    mock_count(&here, -1);
}

VkResult vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                  const VkComputePipelineCreateInfo *infos, const void *allocator,
                                  VkPipeline *pipelines)
{
    ENTER();
    (void)device, (void)cache, (void)count, (void)allocator;
    const MockKernel *kernel = mock_kernel(infos->stage.name);
    if (!kernel) return VK_ERROR_UNKNOWN_KERNEL;
    meet_others();
    *pipelines = (uintptr_t)kernel;
    mock_count(&vulkan_mock.pipelines, 1);
    return VK_SUCCESS;
}
void vkDestroyPipeline(VkDevice device, VkPipeline pipeline, const void *allocator)
{
    (void)device, (void)pipeline, (void)allocator;
    mock_expect_no_work();
    vulkan_mock.pipelines--;
}

/* ---- the loader */

MOCK_API VkFunction vkGetInstanceProcAddr(VkInstance instance, const char *name);
VkFunction vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    (void)instance;
#define VK(result, function, arguments)                                                            \
    if (strcmp(name, #function) == 0) return (VkFunction)function;
#include "../../runtime/backends/vulkan_api.def"
    return NULL;
}
