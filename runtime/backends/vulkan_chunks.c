/* vulkan_chunks.c - memory of the device, by the chunk: drivers allow as few as 4096 allocations, so that buffers of ours share them. A
 * chunk is an allocation with one VkBuffer over all of it; a buffer is a part of it, found first where it fits. Chunks grow with what is
 * asked for, large buffers have their own, and of those that are empty one of a kind is kept. */
#include <fcntl.h>
#include <unistd.h>

#include "vulkan.h"

enum { ALIGN = 256 }; /* of buffers, more than any kernel asks for */
#define LEAST_CHUNK ((uint64_t)1 << 20)
#define MOST_CHUNK  ((uint64_t)64 << 20)
#define LARGE       ((uint64_t)16 << 20)

/* A type of memory that has these properties; UINT32_MAX: none. */
static uint32_t memory_type(const Vulkan *v, uint32_t allowed, uint32_t flags)
{
    for (uint32_t n = 0; n < v->facts.memory.type_count && n < 32; n++)
        if (allowed >> n & 1 && (v->facts.memory.types[n].flags & flags) == flags) return n;
    return UINT32_MAX;
}

/* ---- chunks */

/* Of what a chunk is made. */
typedef struct Wanted {
    uint64_t bytes;
    bool visible, shared;
    int fd; /* shared: of the memory that there is; -1: none yet */
} Wanted;

/* The driver takes a descriptor where it succeeds, and the caller's stays the caller's. */
static VkResult take_memory(Vulkan *v, VulkanChunk *c, const Wanted *wanted, uint32_t type,
                            const char **call)
{
    const int fd = wanted->fd < 0 ? -1 : fcntl(wanted->fd, F_DUPFD_CLOEXEC, 0);
    *call = "the file descriptor";
    if (wanted->fd >= 0 && fd < 0) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    const VkExportMemoryAllocateInfo exported = {.type = VK_TYPE_EXPORT_MEMORY,
                                                 .handles = VK_EXTERNAL_FD};
    const VkImportMemoryFdInfo imported = {
        .type = VK_TYPE_IMPORT_MEMORY_FD, .handle = VK_EXTERNAL_FD, .fd = fd};
    const void *const of_fd = fd < 0 ? (const void *)&exported : &imported;
    const VkMemoryAllocateFlagsInfo flags = {.type = VK_TYPE_ALLOCATE_FLAGS,
                                             .next = wanted->shared ? of_fd : NULL,
                                             .flags = VK_ALLOCATE_DEVICE_ADDRESS};
    const VkMemoryAllocateInfo info = {.type = VK_TYPE_MEMORY_ALLOCATE,
                                       .next = &flags,
                                       .bytes = c->memory_bytes,
                                       .memory_type = type};
    *call = "vkAllocateMemory";
    const VkResult code = v->vk.vkAllocateMemory(v->device, &info, NULL, &c->memory);
    if (code == VK_SUCCESS) return code;
    if (fd >= 0) close(fd);
    c->memory = 0;
    return code;
}

/* [call] is the last one. */
static VkResult allocate(Vulkan *v, VulkanChunk *c, const Wanted *wanted, const char **call)
{
    enum { SEEN = VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT };
    VkMemoryRequirements needs;
    void *mapped = NULL;
    *call = "vkAllocateMemory";
    v->vk.vkGetBufferMemoryRequirements(v->device, c->buffer, &needs);
    uint32_t type = memory_type(v, needs.types, VK_MEMORY_DEVICE_LOCAL | (c->visible ? SEEN : 0));
    if (type == UINT32_MAX) type = memory_type(v, needs.types, c->visible ? SEEN : 0);
    if (type == UINT32_MAX) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    c->memory_bytes = wanted->fd < 0 ? needs.bytes : wanted->bytes;
    if (c->memory_bytes < needs.bytes) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    VkResult code = take_memory(v, c, wanted, type, call);
    if (code != VK_SUCCESS) return code;
    *call = "vkBindBufferMemory";
    code = v->vk.vkBindBufferMemory(v->device, c->buffer, c->memory, 0);
    if (code != VK_SUCCESS || (v->facts.memory.types[type].flags & SEEN) != SEEN) return code;
    *call = "vkMapMemory";
    code = v->vk.vkMapMemory(v->device, c->memory, 0, UINT64_MAX, 0, &mapped);
    if (code == VK_SUCCESS) c->mapped = mapped;
    return code;
}

static void free_chunk(Vulkan *v, VulkanChunk *c)
{
    if (c->buffer) v->vk.vkDestroyBuffer(v->device, c->buffer, NULL);
    if (c->memory) v->vk.vkFreeMemory(v->device, c->memory, NULL);
    rt_free(c);
}

static VkResult make_chunk(Vulkan *v, const Wanted *wanted, VulkanChunk **chunk, const char **call)
{
    VulkanChunk *c = rt_alloc(v->heap, sizeof *c);
    *call = "the host's memory";
    if (!c) return VK_ERROR_OUT_OF_HOST_MEMORY;
    const VkExternalMemoryBufferCreateInfo external = {.type = VK_TYPE_EXTERNAL_BUFFER,
                                                       .handles = VK_EXTERNAL_FD};
    const VkBufferCreateInfo info = {.type = VK_TYPE_BUFFER,
                                     .next = wanted->shared ? &external : NULL,
                                     .bytes = wanted->bytes,
                                     .usage = VULKAN_BUFFER_USAGE};
    c->bytes = wanted->bytes;
    c->visible = wanted->visible;
    c->whole = c->shared = wanted->shared;
    *call = "vkCreateBuffer";
    VkResult code = v->vk.vkCreateBuffer(v->device, &info, NULL, &c->buffer);
    if (code != VK_SUCCESS) c->buffer = 0;
    if (code == VK_SUCCESS) code = allocate(v, c, wanted, call);
    if (code != VK_SUCCESS) {
        free_chunk(v, c);
        return code;
    }
    const VkBufferDeviceAddressInfo where = {.type = VK_TYPE_BUFFER_ADDRESS, .buffer = c->buffer};
    c->address = v->vk.vkGetBufferDeviceAddress(v->device, &where);
    c->next = v->chunks;
    v->chunks = c;
    *chunk = c;
    return code;
}

/* As much as all of its kind have, so that there are few. */
static uint64_t next_chunk(const Vulkan *v, bool visible)
{
    uint64_t all = LEAST_CHUNK;
    for (const VulkanChunk *c = v->chunks; c; c = c->next)
        if (c->visible == visible && !c->whole) all += c->bytes;
    return all < MOST_CHUNK ? all : MOST_CHUNK;
}

/* One with room, or that is made for it. Where memory is short it is as large as it must be. */
static VkResult add_chunk(Vulkan *v, uint64_t bytes, bool visible, VulkanChunk **chunk,
                          const char **call)
{
    const bool whole = bytes >= LARGE;
    const uint64_t most = whole ? 0 : next_chunk(v, visible);
    Wanted wanted = {.bytes = most > bytes ? most : bytes, .visible = visible, .fd = -1};
    VkResult code = make_chunk(v, &wanted, chunk, call);
    if (code == VK_ERROR_OUT_OF_DEVICE_MEMORY && most > bytes) {
        wanted.bytes = bytes;
        code = make_chunk(v, &wanted, chunk, call);
    }
    if (code == VK_SUCCESS) (*chunk)->whole = whole;
    return code;
}

void rt_vulkan_chunks_end(Vulkan *v)
{
    while (v->chunks) {
        VulkanChunk *c = v->chunks;
        v->chunks = c->next;
        while (c->first) {
            VulkanBuffer *b = c->first;
            c->first = b->next;
            rt_free(b);
        }
        free_chunk(v, c);
    }
}

/* ---- buffers */

/* Behind which buffer there is room, as the link to what comes next; NULL: there is none. */
static VulkanBuffer **room_in(VulkanChunk *c, uint64_t bytes, uint64_t *at)
{
    *at = 0;
    VulkanBuffer **link = &c->first;
    for (; *link; link = &(*link)->next) {
        if ((*link)->at - *at >= bytes) return link;
        *at = (*link)->at + (*link)->bytes;
    }
    return c->bytes - *at >= bytes ? link : NULL;
}

static VulkanBuffer **find_room(Vulkan *v, uint64_t bytes, bool visible, VulkanChunk **chunk,
                                uint64_t *at)
{
    for (VulkanChunk *c = v->chunks; c && bytes < LARGE; c = c->next) {
        VulkanBuffer **link = c->visible == visible && !c->whole ? room_in(c, bytes, at) : NULL;
        *chunk = c;
        if (link) return link;
    }
    return NULL;
}

static aule_status fail_memory(Vulkan *v, const char *call, uint64_t bytes, VkResult code,
                               AuSink sink)
{
    AuText what = {.memory = v->heap};
    uint64_t ours = 0;
    for (const VulkanChunk *c = v->chunks; c; c = c->next) ours += c->memory_bytes;
    rt_text_add(&what, "%s, %llu bytes", call, (unsigned long long)bytes);
    if (code == VK_ERROR_OUT_OF_DEVICE_MEMORY || code == VK_ERROR_OUT_OF_HOST_MEMORY)
        rt_text_add(&what, " (the device has %llu, of which %llu are in use here)",
                    (unsigned long long)rt_vulkan_local_bytes(&v->facts), (unsigned long long)ours);
    aule_status status = rt_vulkan_check(v, sink, rt_text_str(&what), code);
    rt_text_free(&what);
    return status;
}

static void place(VulkanBuffer *b, VulkanChunk *chunk, uint64_t at, uint64_t bytes,
                  VulkanBuffer **link)
{
    *b = (VulkanBuffer){.chunk = chunk,
                        .at = at,
                        .address = chunk->address + at,
                        .bytes = bytes,
                        .mapped = chunk->mapped ? chunk->mapped + at : NULL,
                        .next = *link};
    *link = b;
}

aule_status rt_vulkan_buffer(Vulkan *v, uint64_t bytes, bool visible, VulkanBuffer **buffer,
                             AuSink sink)
{
    const uint64_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t at = 0;
    VulkanChunk *chunk = NULL;
    const char *call = NULL;
    if (rounded < bytes) return fail_memory(v, "aule_buffer_new", bytes, -2, sink);
    VulkanBuffer *b = rt_alloc(v->heap, sizeof *b);
    if (!b) return rt_fail_memory(sink);
    VulkanBuffer **link = find_room(v, rounded, visible, &chunk, &at);
    if (!link) {
        const VkResult code = add_chunk(v, rounded, visible, &chunk, &call);
        if (code != VK_SUCCESS) {
            rt_free(b);
            return fail_memory(v, call, bytes, code, sink);
        }
        link = &chunk->first;
        at = 0;
    }
    place(b, chunk, at, rounded, link);
    *buffer = b;
    return AULE_OK;
}

aule_status rt_vulkan_buffer_shared(Vulkan *v, uint64_t bytes, int fd, VulkanBuffer **buffer,
                                    AuSink sink)
{
    const Wanted wanted = {
        .bytes = fd < 0 ? (bytes + ALIGN - 1) / ALIGN * ALIGN : bytes, .shared = true, .fd = fd};
    VulkanChunk *chunk = NULL;
    const char *call = NULL;
    if (wanted.bytes < bytes) return fail_memory(v, "aule_buffer_export", bytes, -2, sink);
    VulkanBuffer *b = rt_alloc(v->heap, sizeof *b);
    if (!b) return rt_fail_memory(sink);
    const VkResult code = make_chunk(v, &wanted, &chunk, &call);
    if (code != VK_SUCCESS) {
        rt_free(b);
        return fail_memory(v, call, bytes, code, sink);
    }
    place(b, chunk, 0, chunk->bytes, &chunk->first);
    *buffer = b;
    return AULE_OK;
}

/* Another one of the kind that is empty is kept; else this one is. */
static bool is_spare(const Vulkan *v, const VulkanChunk *chunk)
{
    for (const VulkanChunk *c = v->chunks; c; c = c->next)
        if (c != chunk && c->visible == chunk->visible && !c->whole && !c->first) return true;
    return chunk->whole;
}

void rt_vulkan_buffer_end(Vulkan *v, VulkanBuffer *buffer)
{
    VulkanChunk *chunk = buffer->chunk;
    VulkanBuffer **link = &chunk->first;
    while (*link != buffer) link = &(*link)->next;
    *link = buffer->next;
    rt_free(buffer);
    if (chunk->first || !is_spare(v, chunk)) return;
    VulkanChunk **at = &v->chunks;
    while (*at != chunk) at = &(*at)->next;
    *at = chunk->next;
    free_chunk(v, chunk);
}

VulkanBuffer *rt_vulkan_buffer_of(const Vulkan *v, uint64_t address, uint64_t bytes)
{
    for (const VulkanChunk *c = v->chunks; c; c = c->next) {
        if (address < c->address || address - c->address >= c->bytes) continue;
        for (VulkanBuffer *b = c->first; b; b = b->next)
            if (address >= b->address && address - b->address <= b->bytes &&
                bytes <= b->bytes - (address - b->address))
                return b;
    }
    return NULL;
}
