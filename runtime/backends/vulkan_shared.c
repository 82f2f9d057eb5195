/* vulkan_shared.c - memory that other drivers have, too, by a file descriptor (VK_KHR_external_memory_fd): exported by us, or imported. The memory
 * is local to the device, of the first type that is. */
#include "vulkan.h"

static aule_status check(const Vulkan *v, uint32_t needed, AuSink sink)
{
    const VkPhysicalDeviceExternalBufferInfo info = {.type = VK_TYPE_EXTERNAL_BUFFER_INFO,
                                                     .usage = VULKAN_BUFFER_USAGE,
                                                     .handle = VK_EXTERNAL_FD};
    VkExternalBufferProperties can = {.type = VK_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    const char *const what = needed == VK_EXTERNAL_EXPORTS ? "exported" : "imported";
    if (!v->facts.shares || !v->vk.vkGetMemoryFdKHR)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: memory cannot be %s: %s " VULKAN_FD_EXTENSION, v->index, what,
                       v->given.struct_size ? "the VkDevice given was made without"
                                            : "the device lacks");
    v->vk.vkGetPhysicalDeviceExternalBufferProperties(v->physical, &info, &can);
    if (can.features & needed && !(can.features & VK_EXTERNAL_DEDICATED_ONLY)) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "vulkan:%u: the driver lets no memory of buffers be %s by file descriptor",
                   v->index, what);
}

static aule_status get_fd(Vulkan *v, const VulkanChunk *chunk, int *fd, AuSink sink)
{
    const VkMemoryGetFdInfo info = {
        .type = VK_TYPE_MEMORY_GET_FD, .memory = chunk->memory, .handle = VK_EXTERNAL_FD};
    return rt_vulkan_check(v, sink, "vkGetMemoryFdKHR",
                           v->vk.vkGetMemoryFdKHR(v->device, &info, fd));
}

aule_status rt_vulkan_buffer_export(void *state, uint64_t bytes, void **data, int *fd,
                                    uint64_t *fd_bytes, AuSink sink)
{
    Vulkan *v = state;
    VulkanBuffer *buffer = NULL;
    int made = -1;
    aule_status status = check(v, VK_EXTERNAL_EXPORTS, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_buffer_shared(v, bytes, -1, &buffer, sink);
    if (!status) status = get_fd(v, buffer->chunk, &made, sink);
    if (status && buffer) rt_vulkan_buffer_end(v, buffer);
    pthread_mutex_unlock(&v->lock);
    if (status) return status;
    *fd = made;
    *fd_bytes = buffer->chunk->memory_bytes;
    *data = (void *)(uintptr_t)buffer->address;
    return AULE_OK;
}

aule_status rt_vulkan_buffer_import(void *state, int fd, uint64_t fd_bytes, void **data,
                                    AuSink sink)
{
    Vulkan *v = state;
    VulkanBuffer *buffer = NULL;
    aule_status status = check(v, VK_EXTERNAL_IMPORTS, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_buffer_shared(v, fd_bytes, fd, &buffer, sink);
    pthread_mutex_unlock(&v->lock);
    if (!status) *data = (void *)(uintptr_t)buffer->address;
    return status;
}
