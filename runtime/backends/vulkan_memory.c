/* vulkan_memory.c - buffers by their addresses, and copies. Memory is the device's own; where the host does not see it, copies go
 * through a buffer that both see. Each buffer has an allocation of its own, of which drivers allow at least 4096. */
#include "vulkan.h"

/* ---- buffers */

/* A type of memory that has these properties; UINT32_MAX: none. */
static uint32_t memory_type(const Vulkan *v, uint32_t allowed, uint32_t flags)
{
    for (uint32_t n = 0; n < v->facts.memory.type_count && n < 32; n++)
        if (allowed >> n & 1 && (v->facts.memory.types[n].flags & flags) == flags) return n;
    return UINT32_MAX;
}

/* [call] is the last one. */
static VkResult allocate(Vulkan *v, VulkanBuffer *b, bool visible, const char **call)
{
    enum { SEEN = VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT };
    VkMemoryRequirements needs;
    v->vk.vkGetBufferMemoryRequirements(v->device, b->buffer, &needs);
    uint32_t type = memory_type(v, needs.types, VK_MEMORY_DEVICE_LOCAL | (visible ? SEEN : 0));
    if (type == UINT32_MAX) type = memory_type(v, needs.types, visible ? SEEN : 0);
    if (type == UINT32_MAX) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    const VkMemoryAllocateFlagsInfo flags = {.type = VK_TYPE_ALLOCATE_FLAGS,
                                             .flags = VK_ALLOCATE_DEVICE_ADDRESS};
    const VkMemoryAllocateInfo info = {
        .type = VK_TYPE_MEMORY_ALLOCATE, .next = &flags, .bytes = needs.bytes, .memory_type = type};
    VkResult code = v->vk.vkAllocateMemory(v->device, &info, NULL, &b->memory);
    if (code != VK_SUCCESS) {
        b->memory = 0;
        return code;
    }
    *call = "vkBindBufferMemory";
    code = v->vk.vkBindBufferMemory(v->device, b->buffer, b->memory, 0);
    if (code != VK_SUCCESS || (v->facts.memory.types[type].flags & SEEN) != SEEN) return code;
    void *mapped = NULL;
    *call = "vkMapMemory";
    code = v->vk.vkMapMemory(v->device, b->memory, 0, UINT64_MAX, 0, &mapped);
    if (code == VK_SUCCESS) b->mapped = mapped;
    return code;
}

void rt_vulkan_buffer_end(Vulkan *v, VulkanBuffer *buffer)
{
    for (VulkanBuffer **at = &v->buffers; *at; at = &(*at)->next) {
        if (*at != buffer) continue;
        *at = buffer->next;
        break;
    }
    if (buffer->buffer) v->vk.vkDestroyBuffer(v->device, buffer->buffer, NULL);
    if (buffer->memory) v->vk.vkFreeMemory(v->device, buffer->memory, NULL);
    rt_free(buffer);
}

aule_status rt_vulkan_buffer(Vulkan *v, uint64_t bytes, bool visible, VulkanBuffer **buffer,
                             AuSink sink)
{
    VulkanBuffer *b = rt_alloc(v->heap, sizeof *b);
    if (!b) return rt_fail_memory(sink);
    const VkBufferCreateInfo info = {.type = VK_TYPE_BUFFER,
                                     .bytes = (bytes + 63) / 64 * 64,
                                     .usage = VK_BUFFER_TRANSFER_SRC | VK_BUFFER_TRANSFER_DST |
                                              VK_BUFFER_STORAGE | VK_BUFFER_DEVICE_ADDRESS};
    const char *call = "vkCreateBuffer";
    VkResult code = v->vk.vkCreateBuffer(v->device, &info, NULL, &b->buffer);
    if (code != VK_SUCCESS) b->buffer = 0;
    if (code == VK_SUCCESS) {
        call = "vkAllocateMemory";
        code = allocate(v, b, visible, &call);
    }
    if (code != VK_SUCCESS) {
        rt_vulkan_buffer_end(v, b);
        AuText what = {.memory = v->heap};
        rt_text_add(&what, "%s, %llu bytes", call, (unsigned long long)bytes);
        aule_status status = rt_vulkan_check(v, sink, rt_text_str(&what), code);
        rt_text_free(&what);
        return status;
    }
    const VkBufferDeviceAddressInfo where = {.type = VK_TYPE_BUFFER_ADDRESS, .buffer = b->buffer};
    b->address = v->vk.vkGetBufferDeviceAddress(v->device, &where);
    b->bytes = info.bytes;
    b->next = v->buffers;
    v->buffers = b;
    *buffer = b;
    return AULE_OK;
}

VulkanBuffer *rt_vulkan_buffer_of(Vulkan *v, uint64_t address, uint64_t bytes)
{
    for (VulkanBuffer *b = v->buffers; b; b = b->next)
        if (address >= b->address && address - b->address <= b->bytes &&
            bytes <= b->bytes - (address - b->address))
            return b;
    return NULL;
}

aule_status rt_vulkan_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    Vulkan *v = state;
    VulkanBuffer *buffer = NULL;
    pthread_mutex_lock(&v->lock);
    aule_status status = rt_vulkan_buffer(v, bytes ? bytes : 1, false, &buffer, sink);
    pthread_mutex_unlock(&v->lock);
    if (!status) *data = (void *)(uintptr_t)buffer->address;
    return status;
}

void rt_vulkan_buffer_free(void *state, void *data)
{
    Vulkan *v = state;
    const AuSink quiet = {.memory = v->heap};
    pthread_mutex_lock(&v->lock);
    VulkanBuffer *buffer = v->buffers; /* where another one ends, this one may begin */
    while (buffer && buffer->address != (uintptr_t)data) buffer = buffer->next;
    if (rt_vulkan_wait(v, v->submitted, quiet) == AULE_OK || atomic_load(&v->lost))
        if (buffer) rt_vulkan_buffer_end(v, buffer);
    pthread_mutex_unlock(&v->lock);
}

/* ---- copies */

static aule_status find_range(Vulkan *v, const char *what, uint64_t address, uint64_t bytes,
                              VulkanBuffer **buffer, AuSink sink)
{
    *buffer = rt_vulkan_buffer_of(v, address, bytes);
    if (*buffer) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "vulkan:%u: %s: %llu bytes at 0x%llx do not lie in a buffer of libaule",
                   v->index, what, (unsigned long long)bytes, (unsigned long long)address);
}

/* Between the device's memory and the buffer that the host sees, and waits. */
static aule_status stage(Vulkan *v, VulkanBuffer *b, uint64_t at, uint64_t bytes, bool out,
                         AuSink sink)
{
    uint32_t which;
    aule_status status = rt_vulkan_open(v, &which, sink);
    if (status) return status;
    const VkBufferCopy part = {.from = out ? at : 0, .to = out ? 0 : at, .bytes = bytes};
    v->vk.vkCmdCopyBuffer(v->ring[which].commands, out ? b->buffer : v->stage->buffer,
                          out ? v->stage->buffer : b->buffer, 1, &part);
    status = rt_vulkan_submit(v, which, sink);
    return status ? status : rt_vulkan_wait(v, v->submitted, sink);
}

static aule_status copy(Vulkan *v, uint64_t address, const void *from, void *to, uint64_t bytes,
                        AuSink sink)
{
    VulkanBuffer *b;
    aule_status status = find_range(v, from ? "upload" : "download", address, bytes, &b, sink);
    if (!status) status = rt_vulkan_wait(v, v->submitted, sink);
    if (!status) status = rt_vulkan_tell(v, v->submitted, sink);
    if (!status && !b->mapped && !v->stage)
        status = rt_vulkan_buffer(v, VULKAN_STAGE, true, &v->stage, sink);
    for (uint64_t done = 0, part; !status && done < bytes; done += part) {
        const uint64_t at = address - b->address + done;
        part = b->mapped || bytes - done < VULKAN_STAGE ? bytes - done : VULKAN_STAGE;
        char *seen = b->mapped ? b->mapped + at : v->stage->mapped;
        if (from) memcpy(seen, (const char *)from + done, (size_t)part);
        if (!b->mapped) status = stage(v, b, at, part, !from, sink);
        if (to && !status) memcpy((char *)to + done, seen, (size_t)part);
    }
    return status;
}

aule_status rt_vulkan_upload(void *state, void *data, uint64_t offset, const void *from,
                             uint64_t bytes, AuSink sink)
{
    Vulkan *v = state;
    pthread_mutex_lock(&v->lock);
    aule_status status = copy(v, (uintptr_t)data + offset, from, NULL, bytes, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}

aule_status rt_vulkan_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                               AuSink sink)
{
    Vulkan *v = state;
    pthread_mutex_lock(&v->lock);
    aule_status status = copy(v, (uintptr_t)data + offset, NULL, to, bytes, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}
