/* vulkan_memory.c - buffers of the runtime's callers by their addresses, and copies. Memory is the device's own; where the host does not
 * see it, copies go through a buffer that both see. */
#include "vulkan.h"

/* On a device of our own there is no memory but ours; what others made on the caller's nobody tells us. */
aule_status rt_vulkan_check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                   AuSink sink)
{
    Vulkan *v = state;
    if (v->given.struct_size) return AULE_OK;
    pthread_mutex_lock(&v->lock);
    const bool ours = rt_vulkan_buffer_of(v, (uintptr_t)data, bytes);
    pthread_mutex_unlock(&v->lock);
    if (ours) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "vulkan:%u: %s: %llu bytes at 0x%llx do not lie in a buffer of libaule, and the "
                   "device is our own, which nobody else has memory of",
                   v->index, name, (unsigned long long)bytes, (unsigned long long)(uintptr_t)data);
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
    VulkanBuffer *buffer = rt_vulkan_buffer_of(v, (uintptr_t)data, 1);
    if (rt_vulkan_drain(v, quiet) == AULE_OK || rt_vulkan_gone(v))
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
    const VulkanBuffer *from = out ? b : v->stage, *to = out ? v->stage : b;
    const VkBufferCopy part = {
        .from = from->at + (out ? at : 0), .to = to->at + (out ? 0 : at), .bytes = bytes};
    v->vk.vkCmdCopyBuffer(v->ring[which].commands, from->chunk->buffer, to->chunk->buffer, 1,
                          &part);
    status = rt_vulkan_submit(v, which, NULL, sink);
    return status ? status : rt_vulkan_wait(v, v->submitted, sink);
}

static aule_status copy(Vulkan *v, uint64_t address, const void *from, void *to, uint64_t bytes,
                        AuSink sink)
{
    VulkanBuffer *b;
    aule_status status = find_range(v, from ? "upload" : "download", address, bytes, &b, sink);
    if (!status) status = rt_vulkan_drain(v, sink);
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
