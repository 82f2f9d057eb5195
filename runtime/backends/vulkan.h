/* vulkan.h - what the parts of the Vulkan backend share: vulkan_find.c finds devices, vulkan.c opens them, vulkan_memory.c has buffers,
 * vulkan_queue.c what is put on the queue, vulkan_code.c pipelines and launches. */
#ifndef AU_RUNTIME_VULKAN_H
#define AU_RUNTIME_VULKAN_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "vulkan_api.h"

/* ---- vulkan_find.c */

/* An instance with the environment's layers (AULE_VULKAN_VALIDATION), and all functions. false: [why] says why not. */
bool rt_vulkan_begin(AuVulkan *vk, VkInstance *instance, AuText *why);
enum { VULKAN_DEVICES = 64 };
uint32_t rt_vulkan_devices(const AuVulkan *vk, VkInstance instance, VkPhysicalDevice *devices,
                           VkResult *code);

/* M, N and K of a cooperative matrix, and of what operands: VK_MATRIX_F16, _BF16. */
typedef struct VulkanMatrix {
    uint32_t m, n, k, operands;
} VulkanMatrix;
enum { VULKAN_MATRICES = 16 };

/* What a device says of itself. */
typedef struct VulkanFacts {
    VkPhysicalDeviceProperties2 of;
    VkPhysicalDeviceVulkan11Properties of_11;
    VkPhysicalDeviceVulkan12Properties of_12;
    VkPhysicalDeviceFeatures2 has;
    VkPhysicalDeviceVulkan11Features has_11;
    VkPhysicalDeviceVulkan12Features has_12;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t lanes_least,
        lanes_most; /* what a pipeline may ask for, full subgroups; 0: it may not */
    VulkanMatrix matrices[VULKAN_MATRICES]; /* of subgroups, sums of f32 */
    uint32_t matrix_count;
    bool bf16;   /* some of them are */
    bool places; /* functions of their elements, reductions, conversions (word nv2) */
    uint32_t family, timestamp_bits; /* of a queue that computes; UINT32_MAX: there is none */
    uint32_t units;                  /* 0: unknown */
} VulkanFacts;
void rt_vulkan_facts(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts);
bool rt_vulkan_has_extension(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device,
                             const char *name);
/* What of docs/dev/vulkan.md, 3, it lacks; nothing is added where it has all. */
void rt_vulkan_lacks(const VulkanFacts *facts, AuText *why);
aule_status rt_vulkan_find(AuFinder *finder, AuSink sink);

/* vulkan_drivers.c: adds to [why] which drivers are installed and that the loader found this [wrong] with them, or that there are none. */
void rt_vulkan_drivers(AuHeap heap, const char *wrong, AuText *why);

/* ---- vulkan_lanes.c: subgroups of a size that is asked for, and their matrices */
#define VULKAN_LANES_EXTENSION  "VK_EXT_subgroup_size_control"
#define VULKAN_MATRIX_EXTENSION "VK_KHR_cooperative_matrix"
#define VULKAN_BF16_EXTENSION   "VK_KHR_shader_bfloat16"
#define VULKAN_PLACES_EXTENSION "VK_NV_cooperative_matrix2"
#define VULKAN_SHARED_EXTENSION "VK_KHR_workgroup_memory_explicit_layout"
void rt_vulkan_lanes(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts);
/* " lanes8 lanes16 coopmat8x8x8_f16 nv2" */
void rt_vulkan_lanes_words(const VulkanFacts *facts, AuText *words);
/* Of a variant, from its word "lanes8"; 0: it asks for none. */
uint32_t rt_vulkan_asked_lanes(const aule_variant_v1 *variant);

/* ---- a device's state */

typedef struct VulkanBuffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address, bytes;
    char *mapped; /* NULL: the host does not see it */
    struct VulkanBuffer *next;
} VulkanBuffer;

/* Commands that were put on the queue, and may be written again when they are done. */
enum { VULKAN_RING = 32, VULKAN_SLOTS = (AULE_MAX_SLOTS + 1) * 8 };
typedef struct VulkanCommands {
    VkCommandBuffer commands;
    uint64_t done;       /* value of the timeline */
    const char *watched; /* the kernel whose block has a word that says that its loops were cut */
    uint32_t word;       /* behind its slots */
} VulkanCommands;

typedef struct Vulkan {
    AuHeap heap;
    AuVulkan vk;
    uint32_t index; /* of the id, vulkan:N */
    VkInstance instance;
    VkPhysicalDevice physical;
    VulkanFacts facts;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkPipelineLayout layout;
    VkSemaphore timeline;
    uint64_t submitted;   /* the timeline's value when all is done */
    pthread_mutex_t lock; /* of the queue, the commands and the list of buffers */
    VulkanCommands ring[VULKAN_RING];
    VulkanBuffer *slots; /* parameter blocks of the ring, seen by the host */
    VulkanBuffer *stage; /* for copies; NULL until one is needed */
    VulkanBuffer *buffers;
    bool fused;       /* Fma rounds once */
    char cut[96];     /* a kernel whose loops the driver ended early; "": none, or it was told */
    atomic_bool lost; /* the driver has said so */
} Vulkan;

/* 0 is fine; else the error of the driver's call. */
aule_status rt_vulkan_check(Vulkan *v, AuSink sink, const char *call, VkResult code);

/* ---- vulkan_memory.c */
enum { VULKAN_STAGE = 4 << 20 };
/* [visible]: to the host, whatever it costs the device. */
aule_status rt_vulkan_buffer(Vulkan *v, uint64_t bytes, bool visible, VulkanBuffer **buffer,
                             AuSink sink);
void rt_vulkan_buffer_end(Vulkan *v, VulkanBuffer *buffer);
/* The buffer in which so many bytes from the address on lie; NULL: none of ours. */
VulkanBuffer *rt_vulkan_buffer_of(Vulkan *v, uint64_t address, uint64_t bytes);
aule_status rt_vulkan_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink);
void rt_vulkan_buffer_free(void *state, void *data);
aule_status rt_vulkan_upload(void *state, void *data, uint64_t offset, const void *from,
                             uint64_t bytes, AuSink sink);
aule_status rt_vulkan_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                               AuSink sink);

/* ---- vulkan_queue.c: what is between the two goes on the queue, after all that was put there before. The lock is held. */
aule_status rt_vulkan_open(Vulkan *v, uint32_t *which, AuSink sink);
aule_status rt_vulkan_submit(Vulkan *v, uint32_t which, AuSink sink);
/* Until the timeline has this value. */
aule_status rt_vulkan_wait(Vulkan *v, uint64_t value, AuSink sink);
/* What kernels said until the timeline had this value is kept; and told, once. */
void rt_vulkan_listen(Vulkan *v, uint64_t value);
aule_status rt_vulkan_tell(Vulkan *v, uint64_t value, AuSink sink);
/* Queues of the caller's are not taken. */
aule_status rt_vulkan_own_queue(const Vulkan *v, const void *queue, AuSink sink);
aule_status rt_vulkan_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                           AuSink sink);
aule_status rt_vulkan_synchronize(void *state, void *queue, AuSink sink);
aule_status rt_vulkan_event_record(void *state, void *queue, void **event, AuSink sink);
aule_status rt_vulkan_event_wait(void *event, AuSink sink);
aule_status rt_vulkan_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink);
void rt_vulkan_event_free(void *event);

/* ---- vulkan_code.c */
aule_status rt_vulkan_load(void *state, const aule_variant_v1 *variant, void **program,
                           AuSink sink);
void rt_vulkan_unload(void *state, void *program);
aule_status rt_vulkan_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink);

/* ---- vulkan_kept.c */
typedef struct VulkanKept {
    const void *code;
    size_t bytes;
    VkPipelineCache cache; /* 0: there is none */
    bool known;            /* it came from the disk */
} VulkanKept;
void rt_vulkan_kept_open(Vulkan *v, VulkanKept *kept);
void rt_vulkan_kept_close(Vulkan *v, VulkanKept *kept, bool good);

/* What kernels find pushed (docs/artifact.md). */
typedef struct VulkanPushed {
    uint64_t slots;
    uint32_t blocks[3], first[3];
} VulkanPushed;

/* vulkan_probe.c: does Fma round once? */
aule_status rt_vulkan_probe(Vulkan *v, AuSink sink);

#endif
