/* vulkan_timeline.c - timeline semaphores that other drivers have, too, by a file descriptor (VK_KHR_external_semaphore_fd): what is on their
 * queues and on ours is so in an order for which no thread waits. */
#include "vulkan.h"

struct VulkanTimeline {
    VkSemaphore semaphore;
    VulkanTimeline *next;
};

static aule_status check(const Vulkan *v, AuSink sink)
{
    const VkSemaphoreTypeCreateInfo kind = {.type = VK_TYPE_SEMAPHORE_KIND,
                                            .kind = VK_SEMAPHORE_TIMELINE};
    const VkPhysicalDeviceExternalSemaphoreInfo info = {
        .type = VK_TYPE_EXTERNAL_SEMAPHORE_INFO, .next = &kind, .handle = VK_EXTERNAL_FD};
    VkExternalSemaphoreProperties can = {.type = VK_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    if (!v->facts.signals || !v->vk.vkGetSemaphoreFdKHR)
        return rt_fail(
            sink, AULE_ERROR_UNSUPPORTED,
            "vulkan:%u: timelines cannot be exported: %s " VULKAN_TIMELINE_EXTENSION, v->index,
            v->given.struct_size ? "the VkDevice given was made without" : "the device lacks");
    v->vk.vkGetPhysicalDeviceExternalSemaphoreProperties(v->physical, &info, &can);
    if (can.features & VK_EXTERNAL_SEMAPHORE_EXPORTS) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "vulkan:%u: the driver lets no timelines be exported by file descriptor",
                   v->index);
}

static aule_status make(Vulkan *v, VkSemaphore *semaphore, int *fd, AuSink sink)
{
    const VkExportSemaphoreCreateInfo exports = {.type = VK_TYPE_EXPORT_SEMAPHORE,
                                                 .handles = VK_EXTERNAL_FD};
    const VkSemaphoreTypeCreateInfo kind = {
        .type = VK_TYPE_SEMAPHORE_KIND, .next = &exports, .kind = VK_SEMAPHORE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.type = VK_TYPE_SEMAPHORE, .next = &kind};
    aule_status status = rt_vulkan_check(
        v, sink, "vkCreateSemaphore", v->vk.vkCreateSemaphore(v->device, &info, NULL, semaphore));
    if (status) return status;
    const VkSemaphoreGetFdInfo get = {
        .type = VK_TYPE_SEMAPHORE_GET_FD, .semaphore = *semaphore, .handle = VK_EXTERNAL_FD};
    status = rt_vulkan_check(v, sink, "vkGetSemaphoreFdKHR",
                             v->vk.vkGetSemaphoreFdKHR(v->device, &get, fd));
    if (status) v->vk.vkDestroySemaphore(v->device, *semaphore, NULL);
    return status;
}

aule_status rt_vulkan_timeline_export(void *state, void **timeline, int *fd, AuSink sink)
{
    Vulkan *v = state;
    aule_status status = check(v, sink);
    if (!status) status = rt_vulkan_alive(v, sink);
    if (status) return status;
    VulkanTimeline *made = rt_alloc(v->heap, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    status = make(v, &made->semaphore, fd, sink);
    if (status) {
        rt_free(made);
        return status;
    }
    pthread_mutex_lock(&v->lock);
    made->next = v->timelines, v->timelines = made;
    pthread_mutex_unlock(&v->lock);
    *timeline = made;
    return AULE_OK;
}

/* Commands of which there are none, in the order. */
aule_status rt_vulkan_timeline_put(void *state, void *timeline, void *queue, bool signals,
                                   uint64_t value, AuSink sink)
{
    Vulkan *v = state;
    const VulkanTimeline *of = timeline;
    VulkanOrder order;
    uint32_t which;
    aule_status status = rt_vulkan_order(v, queue, &order, sink);
    uint32_t *count = signals ? &order.signal_count : &order.wait_count;
    if (!status && *count == AULE_VULKAN_SEMAPHORES)
        status =
            rt_fail(sink, AULE_ERROR_USAGE,
                    "vulkan:%u: aule_vulkan_queue has %u semaphores to %s, at most %d are "
                    "taken with that of the timeline",
                    v->index, *count, signals ? "signal" : "wait for", AULE_VULKAN_SEMAPHORES - 1);
    if (status) return status;
    (signals ? order.signals : order.waits)[*count] = of->semaphore;
    (signals ? order.signal_values : order.wait_values)[*count] = value;
    ++*count;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_open(v, &which, sink);
    if (!status) status = rt_vulkan_submit(v, which, &order, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}

uint64_t rt_vulkan_timeline_handle(const void *timeline)
{
    return ((const VulkanTimeline *)timeline)->semaphore;
}

/* Work of ours may still wait for it. */
void rt_vulkan_timeline_free(void *state, void *timeline)
{
    Vulkan *v = state;
    VulkanTimeline *of = timeline;
    pthread_mutex_lock(&v->lock);
    for (VulkanTimeline **at = &v->timelines; *at; at = &(*at)->next)
        if (*at == of) {
            *at = of->next;
            break;
        }
    rt_vulkan_settle(v);
    pthread_mutex_unlock(&v->lock);
    if (atomic_load(&v->hung)) return;
    v->vk.vkDestroySemaphore(v->device, of->semaphore, NULL);
    rt_free(of);
}

bool rt_vulkan_is_timeline(Vulkan *v, VkSemaphore semaphore)
{
    pthread_mutex_lock(&v->lock);
    const VulkanTimeline *at = v->timelines;
    while (at && at->semaphore != semaphore) at = at->next;
    pthread_mutex_unlock(&v->lock);
    return at != NULL;
}
