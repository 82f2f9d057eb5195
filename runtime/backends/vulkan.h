/* vulkan.h - what the parts of the Vulkan backend share: vulkan_find.c finds devices, vulkan_given.c knows the caller's, vulkan.c opens
 * them, vulkan_chunks.c shares out memory, vulkan_memory.c copies, vulkan_queue.c has what is put on the queue, vulkan_event.c points in
 * it, vulkan_code.c modules and launches, vulkan_build.c pipelines, vulkan_record.c runs of plans. */
#ifndef AU_RUNTIME_VULKAN_H
#define AU_RUNTIME_VULKAN_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "vulkan_api.h"

/* ---- vulkan_find.c */

/* AULE_VULKAN_VALIDATION and AULE_VULKAN_TIMEOUT are what they may be. */
aule_status rt_vulkan_environment(AuSink sink);
/* An instance with the environment's layers (AULE_VULKAN_VALIDATION), and all functions. false: [why] says why not. */
bool rt_vulkan_begin(AuVulkan *vk, VkInstance *instance, AuText *why);
enum { VULKAN_DEVICES = 64 };
uint32_t rt_vulkan_devices(const AuVulkan *vk, VkInstance instance, VkPhysicalDevice *devices,
                           VkResult *code);

/* M, N and K of a cooperative matrix, or of which they are multiples, of what operands: VK_MATRIX_F16, _BF16, and of so many threads of a work-group; 0: of
 * a subgroup. */
typedef struct VulkanMatrix {
    uint32_t m, n, k, operands, threads;
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
    VulkanMatrix blocks[VULKAN_MATRICES]; /* of work-groups (words coopmat.._block128) */
    uint32_t block_count;
    bool bf16;    /* some of them are */
    bool shares;  /* memory by file descriptor */
    bool signals; /* semaphores, likewise */
    bool sums;    /* of f32 in buffers, by an instruction (word atomic_f32) */
    bool
        positions; /* of f16 there are sums of f16, too, and rounding to nearest (word positions) */
    bool places;   /* functions of their elements, reductions, conversions (word nv2) */
    bool tensors;  /* then: loads straight from tensors, by their bounds (word tensors) */
    bool layout;   /* shared memory in blocks with offsets, 16 and 8 bits too (word layout16) */
    uint32_t family, timestamp_bits; /* of a queue that computes; UINT32_MAX: there is none */
    uint32_t units;                  /* 0: unknown */
} VulkanFacts;
void rt_vulkan_facts(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts);
bool rt_vulkan_has_extension(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device,
                             const char *name);
/* What of docs/dev/vulkan.md, 3, it lacks, behind these words; nothing is added where it has all. */
void rt_vulkan_lacks(const VulkanFacts *facts, const char *words, AuText *why);
/* Of the largest heap of the device's own memory. */
uint64_t rt_vulkan_local_bytes(const VulkanFacts *facts);
aule_status rt_vulkan_found(AuFinder *finder, const VulkanFacts *facts, uint32_t index, AuText *why,
                            AuSink sink);
aule_status rt_vulkan_find(AuFinder *finder, AuSink sink);

/* ---- vulkan_given.c: a device of the caller's (aule_vulkan_device) */

aule_status rt_vulkan_find_given(AuFinder *finder, const aule_device_options *options, AuSink sink);
/* Functions of the caller's instance, and what its device may do. [index]: of the id. */
typedef struct Vulkan Vulkan;
aule_status rt_vulkan_take(Vulkan *v, const aule_device_options *options, AuSink sink);

/* vulkan_drivers.c: adds to [why] which drivers are installed and that the loader found this [wrong] with them, or that there are none. */
void rt_vulkan_drivers(AuHeap heap, const char *wrong, AuText *why);

/* ---- vulkan_lanes.c: subgroups of a size that is asked for, and their matrices */
#define VULKAN_LANES_EXTENSION    "VK_EXT_subgroup_size_control"
#define VULKAN_MATRIX_EXTENSION   "VK_KHR_cooperative_matrix"
#define VULKAN_BF16_EXTENSION     "VK_KHR_shader_bfloat16"
#define VULKAN_PLACES_EXTENSION   "VK_NV_cooperative_matrix2"
#define VULKAN_SUMS_EXTENSION     "VK_EXT_shader_atomic_float"
#define VULKAN_FD_EXTENSION       "VK_KHR_external_memory_fd"
#define VULKAN_TIMELINE_EXTENSION "VK_KHR_external_semaphore_fd"
#define VULKAN_SHARED_EXTENSION   "VK_KHR_workgroup_memory_explicit_layout"
void rt_vulkan_lanes(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts);
/* " lanes8 lanes16 coopmat8x8x8_f16 nv2" */
void rt_vulkan_lanes_words(const VulkanFacts *facts, AuText *words);
/* Of a variant, from its word "lanes8"; 0: it asks for none. */
uint32_t rt_vulkan_asked_lanes(const aule_variant_v1 *variant);

/* ---- a device's state */

/* Memory of the driver's, and a buffer over all of it; shared out to buffers of ours. */
typedef struct VulkanBuffer VulkanBuffer;
typedef struct VulkanChunk {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address, bytes;
    uint64_t memory_bytes; /* of the allocation */
    char *mapped;          /* NULL: the host does not see it */
    bool visible;          /* the host was to see it */
    bool whole;            /* of one buffer alone */
    bool shared;           /* with another driver */
    VulkanBuffer *first;
    struct VulkanChunk *next;
} VulkanChunk;
struct VulkanBuffer {
    VulkanChunk *chunk;
    uint64_t at; /* from its beginning, in bytes */
    uint64_t address, bytes;
    char *mapped;
    VulkanBuffer *next; /* behind this one in the chunk */
};

/* Commands that were put on the queue once, and may be written again when they are done. */
enum { VULKAN_RING = 32, VULKAN_SLOTS = (AULE_MAX_SLOTS + 1) * 8 };
typedef struct VulkanCommands {
    VkCommandBuffer commands;
    uint64_t done;       /* value of the timeline */
    const char *watched; /* the kernel whose block has a word that says that its loops were cut */
    uint32_t word;       /* behind its slots */
} VulkanCommands;

typedef struct VulkanRecording VulkanRecording;
typedef struct VulkanTimeline VulkanTimeline; /* vulkan_timeline.c */

#define VULKAN_PATIENCE "AULE_VULKAN_TIMEOUT"
/* Do components of matrices lie alike? Of those of 16 x 16 and of 8 x 8 (vulkan_positions.c). */
enum { VULKAN_SIDES = 2 };
enum { VULKAN_POSITIONS_UNKNOWN, VULKAN_POSITIONS_EXPECTED, VULKAN_POSITIONS_OTHER };

struct Vulkan {
    AuHeap heap;
    AuVulkan vk;
    uint32_t index; /* of the id, vulkan:N */
    VkInstance instance;
    VkPhysicalDevice physical;
    VulkanFacts facts;
    VkDevice device;
    VkQueue queue;
    aule_vulkan_device given; /* the caller's: struct_size is not 0 */
    VkCommandPool pool;
    VkPipelineLayout layout;
    VkSemaphore timeline;
    uint32_t turn;        /* of the ring */
    uint64_t submitted;   /* the timeline's value when all is done */
    uint64_t reached;     /* it had this one when we looked last */
    pthread_mutex_t lock; /* of the queue, commands, recordings and chunks */
    VulkanCommands ring[VULKAN_RING];
    VulkanBuffer *slots; /* parameter blocks of the ring, seen by the host */
    VulkanBuffer *stage; /* for copies; NULL until one is needed */
    VulkanChunk *chunks;
    VulkanRecording *recordings;
    VulkanTimeline *timelines; /* that other drivers have, too */
    void *clear;               /* the program that writes zeros; NULL until one is needed */
    atomic_int positions[VULKAN_SIDES]; /* of matrices of each side; where they are OTHER: */
    char positions_said[VULKAN_SIDES][128];
    bool fused;       /* Fma rounds once */
    bool cuts_loops;  /* as processors do: kernels say so in a word behind their slots */
    char cut[96];     /* a kernel whose loops the driver ended early; "": none, or it was told */
    atomic_bool lost; /* the driver has said so, or we: */
    atomic_bool hung; /* no work was finished for [patience]; it may still read what it was given */
    uint64_t patience; /* nanoseconds */
};

/* 0 is fine; else the error of the driver's call. */
aule_status rt_vulkan_check(Vulkan *v, AuSink sink, const char *call, VkResult code);
/* Lost, and no longer at work: what it was given may end. */
static inline bool rt_vulkan_gone(const Vulkan *v)
{
    return atomic_load(&v->lost) && !atomic_load(&v->hung);
}
/* Refused where the device was lost. */
aule_status rt_vulkan_alive(Vulkan *v, AuSink sink);

/* ---- vulkan_chunks.c. The lock is held. */
/* [visible]: to the host, whatever it costs the device. */
aule_status rt_vulkan_buffer(Vulkan *v, uint64_t bytes, bool visible, VulkanBuffer **buffer,
                             AuSink sink);
void rt_vulkan_buffer_end(Vulkan *v, VulkanBuffer *buffer);
/* The buffer in which so many bytes from the address on lie; NULL: none of ours. */
VulkanBuffer *rt_vulkan_buffer_of(const Vulkan *v, uint64_t address, uint64_t bytes);
void rt_vulkan_chunks_end(Vulkan *v);
enum {
    VULKAN_BUFFER_USAGE = VK_BUFFER_TRANSFER_SRC | VK_BUFFER_TRANSFER_DST | VK_BUFFER_STORAGE |
                          VK_BUFFER_DEVICE_ADDRESS
};
/* In memory that is another driver's, too: [fd] is what it is imported by, or -1, and it can be exported. */
aule_status rt_vulkan_buffer_shared(Vulkan *v, uint64_t bytes, int fd, VulkanBuffer **buffer,
                                    AuSink sink);

/* ---- vulkan_memory.c */
enum { VULKAN_STAGE = 4 << 20 };
aule_status rt_vulkan_check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                   AuSink sink);
aule_status rt_vulkan_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink);
void rt_vulkan_buffer_free(void *state, void *data);
aule_status rt_vulkan_upload(void *state, void *data, uint64_t offset, const void *from,
                             uint64_t bytes, AuSink sink);
aule_status rt_vulkan_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                               AuSink sink);

/* ---- vulkan_shared.c: memory that other drivers have, too, by file descriptor */
aule_status rt_vulkan_buffer_export(void *state, uint64_t bytes, void **data, int *fd,
                                    uint64_t *fd_bytes, AuSink sink);
aule_status rt_vulkan_buffer_import(void *state, int fd, uint64_t fd_bytes, void **data,
                                    AuSink sink);

/* ---- vulkan_timeline.c: semaphores that other drivers have, too */
aule_status rt_vulkan_timeline_export(void *state, void **timeline, int *fd, AuSink sink);
aule_status rt_vulkan_timeline_put(void *state, void *timeline, void *queue, bool signals,
                                   uint64_t value, AuSink sink);
uint64_t rt_vulkan_timeline_handle(const void *timeline);
void rt_vulkan_timeline_free(void *state, void *timeline);
bool rt_vulkan_is_timeline(Vulkan *v, VkSemaphore semaphore); /* one of these; takes the lock */

/* ---- vulkan_queue.c. The lock is held, but for rt_vulkan_order, _wait and _synchronize. */

/* What commands wait for and signal: the caller's semaphores, behind which there is room for ours. */
typedef struct VulkanOrder {
    uint32_t wait_count, signal_count;
    VkSemaphore waits[AULE_VULKAN_SEMAPHORES], signals[AULE_VULKAN_SEMAPHORES + 1];
    uint64_t wait_values[AULE_VULKAN_SEMAPHORES], signal_values[AULE_VULKAN_SEMAPHORES + 1];
} VulkanOrder;
/* [queue]: an aule_vulkan_queue of the caller's; NULL: nothing is waited for. */
aule_status rt_vulkan_order(Vulkan *v, const void *queue, VulkanOrder *order, AuSink sink);
/* Puts commands on the queue, after all that was put there before. */
aule_status rt_vulkan_put(Vulkan *v, VkCommandBuffer commands, VulkanOrder *order, AuSink sink);
/* Commands of ours begin behind all that others put on the queue, and what comes behind them finds what they wrote. */
aule_status rt_vulkan_begin_commands(Vulkan *v, VkCommandBuffer commands, uint32_t flags,
                                     AuSink sink);
aule_status rt_vulkan_end_commands(Vulkan *v, VkCommandBuffer commands, AuSink sink);

/* What is between the two goes on the queue, by commands of the ring. */
aule_status rt_vulkan_open(Vulkan *v, uint32_t *which, AuSink sink);
aule_status rt_vulkan_submit(Vulkan *v, uint32_t which, VulkanOrder *order, AuSink sink);
/* Which value the timeline has: v->reached. */
aule_status rt_vulkan_look(Vulkan *v, AuSink sink);
/* Until the timeline has this value. */
aule_status rt_vulkan_wait(Vulkan *v, uint64_t value, AuSink sink);
/* Until all on the queue is done, the caller's own work there, too. */
aule_status rt_vulkan_drain(Vulkan *v, AuSink sink);
/* What we put there, before something is given back; whatever comes of it. */
void rt_vulkan_settle(Vulkan *v);
/* What kernels said until the timeline had this value is kept; and told, once. */
void rt_vulkan_listen(Vulkan *v, uint64_t value);
aule_status rt_vulkan_tell(Vulkan *v, uint64_t value, AuSink sink);
aule_status rt_vulkan_wait_and_tell(Vulkan *v, uint64_t value, AuSink sink);
aule_status rt_vulkan_synchronize(void *state, void *queue, AuSink sink);

/* ---- vulkan_event.c */
aule_status rt_vulkan_event_record(void *state, void *queue, void **event, AuSink sink);
aule_status rt_vulkan_event_wait(void *event, AuSink sink);
aule_status rt_vulkan_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink);
void rt_vulkan_event_free(void *event);

/* ---- vulkan_code.c */
typedef struct VulkanProgram {
    const aule_variant_v1 *variant;
    VkPipeline *pipelines; /* one a launch */
} VulkanProgram;
/* What kernels find pushed (docs/artifact.md). */
typedef struct VulkanPushed {
    uint64_t slots;
    uint32_t blocks[3], first[3];
} VulkanPushed;
aule_status rt_vulkan_load(void *state, const aule_variant_v1 *variant, void **program,
                           AuSink sink);
void rt_vulkan_unload(void *state, void *program);
aule_status rt_vulkan_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink);
/* All blocks, in as many dispatches as the device needs. */
void rt_vulkan_dispatch(const Vulkan *v, VkCommandBuffer commands, VkPipeline pipeline,
                        uint64_t slots, const uint32_t grid[3]);

/* vulkan_build.c: the pipelines of a module, beside each other. */
aule_status rt_vulkan_build(Vulkan *v, const VulkanProgram *program, VkShaderModule module,
                            VkPipelineCache cache, AuSink sink);

/* ---- vulkan_record.c */
aule_status rt_vulkan_record(void *state, void *program, const AuRun *planned, void **recording,
                             AuSink sink);
aule_status rt_vulkan_run(void *state, void *recording, void *queue, const AuRun *run, AuSink sink);
void rt_vulkan_forget(void *state, void *recording);
/* Gives back what freed plans left, and the device is done with. */
void rt_vulkan_reap(Vulkan *v);
/* As rt_vulkan_listen. */
void rt_vulkan_listen_runs(Vulkan *v, uint64_t value);

/* vulkan_clear.c: the program, and the block of a launch of it; blocks enough for so many bytes at any address. */
enum { VULKAN_CLEAR_SLOTS = 6 };
aule_status rt_vulkan_clear(Vulkan *v, AuSink sink);
uint32_t rt_vulkan_clear_blocks(uint64_t bytes);
void rt_vulkan_clear_fill(uint64_t address, uint64_t bytes, uint64_t *slots);

/* ---- vulkan_kept.c */
typedef struct VulkanKept {
    const void *code;
    size_t bytes;
    VkPipelineCache cache; /* 0: there is none */
    bool known;            /* it came from the disk */
} VulkanKept;
void rt_vulkan_kept_open(Vulkan *v, VulkanKept *kept);
void rt_vulkan_kept_close(Vulkan *v, VulkanKept *kept, bool good);

/* vulkan_probe.c: does Fma round once? */
aule_status rt_vulkan_probe(Vulkan *v, AuSink sink);
/* vulkan_positions.c: what a variant with the word `positions` relies on is tried, once for a device (AuBackend.confirm). */
aule_status rt_vulkan_confirm(void *state, const aule_variant_v1 *variant, AuSink sink);

#endif
