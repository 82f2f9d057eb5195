/* vulkan_event.c - points in the queue's work: a time stamp, and the timeline's value behind it. */
#include "vulkan.h"

typedef struct Point {
    Vulkan *owner;
    VkQueryPool pool;
    uint64_t value;
} Point;

void rt_vulkan_event_free(void *event)
{
    Point *point = event;
    Vulkan *v = point->owner;
    if (point->value) rt_vulkan_wait(v, point->value, (AuSink){.memory = v->heap});
    if (point->pool) v->vk.vkDestroyQueryPool(v->device, point->pool, NULL);
    rt_free(point);
}

static aule_status record(Vulkan *v, Point *point, VulkanOrder *order, AuSink sink)
{
    uint32_t which;
    const VkQueryPoolCreateInfo info = {
        .type = VK_TYPE_QUERY_POOL, .kind = VK_QUERY_TIMESTAMP, .count = 1};
    if (!v->facts.timestamp_bits)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: the device's queue has no time stamps", v->index);
    VkResult code = v->vk.vkCreateQueryPool(v->device, &info, NULL, &point->pool);
    if (code != VK_SUCCESS) {
        point->pool = 0;
        return rt_vulkan_check(v, sink, "vkCreateQueryPool", code);
    }
    aule_status status = rt_vulkan_open(v, &which, sink);
    if (status) return status;
    v->vk.vkCmdResetQueryPool(v->ring[which].commands, point->pool, 0, 1);
    v->vk.vkCmdWriteTimestamp(v->ring[which].commands, VK_AT_BOTTOM, point->pool, 0);
    status = rt_vulkan_submit(v, which, order, sink);
    if (!status) point->value = v->submitted;
    return status;
}

aule_status rt_vulkan_event_record(void *state, void *queue, void **event, AuSink sink)
{
    Vulkan *v = state;
    VulkanOrder order;
    aule_status status = rt_vulkan_order(v, queue, &order, sink);
    if (status) return status;
    Point *point = rt_alloc(v->heap, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    point->owner = v;
    pthread_mutex_lock(&v->lock);
    status = record(v, point, &order, sink);
    pthread_mutex_unlock(&v->lock);
    if (status)
        rt_vulkan_event_free(point);
    else
        *event = point;
    return status;
}

aule_status rt_vulkan_event_wait(void *event, AuSink sink)
{
    Point *point = event;
    return rt_vulkan_wait_and_tell(point->owner, point->value, sink);
}

aule_status rt_vulkan_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    Point *points[2] = {first, last};
    uint64_t times[2];
    /* Both first: a driver may wait for all of the device's work where results are asked for, without a limit (lavapipe does). */
    for (uint32_t n = 0; n < 2; n++) {
        const aule_status status = rt_vulkan_event_wait(points[n], sink);
        if (status) return status;
    }
    for (uint32_t n = 0; n < 2; n++) {
        Vulkan *v = points[n]->owner;
        VkResult code =
            v->vk.vkGetQueryPoolResults(v->device, points[n]->pool, 0, 1, sizeof times[n],
                                        &times[n], 8, VK_QUERY_64 | VK_QUERY_WAIT);
        if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkGetQueryPoolResults", code);
    }
    const uint32_t bits = points[0]->owner->facts.timestamp_bits;
    const uint32_t unused = bits < 64 ? 64 - bits : 0; /* counters wrap around */
    const int64_t ticks = (int64_t)((times[1] - times[0]) << unused) >> unused;
    *nanoseconds =
        (int64_t)((double)ticks * (double)points[0]->owner->facts.of.limits.timestamp_period);
    return AULE_OK;
}
