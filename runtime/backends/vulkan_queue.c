/* vulkan_queue.c - what is put on the device's queue: command buffers of a ring, in order; a timeline counts those that are done. */
#include "vulkan.h"

#include <stdio.h>

/* ---- commands */

aule_status rt_vulkan_wait(Vulkan *v, uint64_t value, AuSink sink)
{
    const VkSemaphoreWaitInfo info = {
        .type = VK_TYPE_SEMAPHORE_WAIT, .count = 1, .semaphores = &v->timeline, .values = &value};
    if (!value) return AULE_OK;
    return rt_vulkan_check(v, sink, "vkWaitSemaphores",
                           v->vk.vkWaitSemaphores(v->device, &info, UINT64_MAX));
}

void rt_vulkan_listen(Vulkan *v, uint64_t value)
{
    for (uint32_t n = 0; n < VULKAN_RING; n++) {
        VulkanCommands *c = &v->ring[n];
        uint64_t said = 0;
        if (!c->watched || c->done > value) continue;
        memcpy(&said, v->slots->mapped + (uint64_t)n * VULKAN_SLOTS + c->word * 8, sizeof said);
        if (said) snprintf(v->cut, sizeof v->cut, "%s", c->watched);
        c->watched = NULL;
    }
}

aule_status rt_vulkan_tell(Vulkan *v, uint64_t value, AuSink sink)
{
    rt_vulkan_listen(v, value);
    if (!v->cut[0]) return AULE_OK;
    aule_status status =
        rt_fail(sink, AULE_ERROR_DRIVER,
                "vulkan:%u: the driver ended loops of kernel %s early, its results are wrong: "
                "Mesa's device for processors takes 65535 turns of a work-item; take the device "
                "cpu, or smaller tensors",
                v->index, v->cut);
    v->cut[0] = 0;
    return status;
}

static void order(Vulkan *v, VkCommandBuffer commands, uint32_t to, uint32_t after)
{
    const VkMemoryBarrier all = {
        .type = VK_TYPE_MEMORY_BARRIER, .before = VK_ACCESS_MEMORY_WRITE, .after = after};
    v->vk.vkCmdPipelineBarrier(commands, VK_AT_ALL_COMMANDS, to, 0, 1, &all, 0, NULL, 0, NULL);
}

aule_status rt_vulkan_open(Vulkan *v, uint32_t *which, AuSink sink)
{
    if (atomic_load(&v->lost))
        return rt_vulkan_check(v, sink, "an earlier call", VK_ERROR_DEVICE_LOST);
    *which = (uint32_t)(v->submitted % VULKAN_RING);
    VulkanCommands *c = &v->ring[*which];
    aule_status status = rt_vulkan_wait(v, c->done, sink);
    if (status) return status;
    rt_vulkan_listen(v, c->done);
    const VkCommandBufferBeginInfo info = {.type = VK_TYPE_COMMAND_BUFFER_BEGIN,
                                           .flags = VK_COMMANDS_ONCE};
    status = rt_vulkan_check(v, sink, "vkBeginCommandBuffer",
                             v->vk.vkBeginCommandBuffer(c->commands, &info));
    if (!status)
        order(v, c->commands, VK_AT_ALL_COMMANDS, VK_ACCESS_MEMORY_READ | VK_ACCESS_MEMORY_WRITE);
    return status;
}

aule_status rt_vulkan_submit(Vulkan *v, uint32_t which, AuSink sink)
{
    VulkanCommands *c = &v->ring[which];
    const uint64_t value = v->submitted + 1;
    order(v, c->commands, VK_AT_HOST, VK_ACCESS_HOST_READ | VK_ACCESS_HOST_WRITE);
    VkResult code = v->vk.vkEndCommandBuffer(c->commands);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkEndCommandBuffer", code);
    const VkTimelineSemaphoreSubmitInfo count = {
        .type = VK_TYPE_TIMELINE_SUBMIT, .signal_count = 1, .signals = &value};
    const VkSubmitInfo info = {.type = VK_TYPE_SUBMIT,
                               .next = &count,
                               .command_count = 1,
                               .commands = &c->commands,
                               .signal_count = 1,
                               .signals = &v->timeline};
    code = v->vk.vkQueueSubmit(v->queue, 1, &info, 0);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkQueueSubmit", code);
    c->done = v->submitted = value;
    return AULE_OK;
}

aule_status rt_vulkan_own_queue(const Vulkan *v, const void *queue, AuSink sink)
{
    if (!queue) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "vulkan:%u: a queue of the caller's cannot be taken; leave it NULL", v->index);
}

static aule_status wait_and_tell(Vulkan *v, uint64_t value, AuSink sink)
{
    aule_status status = rt_vulkan_wait(v, value, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_tell(v, value, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}

aule_status rt_vulkan_synchronize(void *state, void *queue, AuSink sink)
{
    Vulkan *v = state;
    aule_status status = rt_vulkan_own_queue(v, queue, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    const uint64_t value = v->submitted;
    pthread_mutex_unlock(&v->lock);
    return wait_and_tell(v, value, sink);
}

/* ---- zeros */

/* Buffers are filled by words of 4 bytes; what is left at the ends is copied from a filled one. */
static aule_status fill(Vulkan *v, VulkanBuffer *b, uint64_t at, uint64_t bytes, AuSink sink)
{
    uint32_t which;
    const uint64_t end = at + bytes, first = (at + 3) / 4 * 4, last = end / 4 * 4;
    aule_status status = AULE_OK;
    if (!v->stage && (first != at || last != end))
        status = rt_vulkan_buffer(v, VULKAN_STAGE, true, &v->stage, sink);
    if (!status) status = rt_vulkan_open(v, &which, sink);
    if (status) return status;
    const VkCommandBuffer commands = v->ring[which].commands;
    if (first < last) v->vk.vkCmdFillBuffer(commands, b->buffer, first, last - first, 0);
    if (first != at || last != end) {
        const uint64_t head = first < end ? first : end;
        const VkBufferCopy ends[] = {{.to = at, .bytes = head - at},
                                     {.to = last, .bytes = end - last}};
        v->vk.vkCmdFillBuffer(commands, v->stage->buffer, 0, 4, 0);
        order(v, commands, VK_AT_ALL_COMMANDS, VK_ACCESS_MEMORY_READ | VK_ACCESS_MEMORY_WRITE);
        for (uint32_t n = 0; n < 2; n++)
            if (ends[n].bytes && (n == 0 || last >= head))
                v->vk.vkCmdCopyBuffer(commands, v->stage->buffer, b->buffer, 1, &ends[n]);
    }
    return rt_vulkan_submit(v, which, sink);
}

aule_status rt_vulkan_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                           AuSink sink)
{
    Vulkan *v = state;
    const uint64_t address = (uintptr_t)data + offset;
    aule_status status = rt_vulkan_own_queue(v, queue, sink);
    if (status || !bytes) return status;
    pthread_mutex_lock(&v->lock);
    VulkanBuffer *b = rt_vulkan_buffer_of(v, address, bytes);
    status = b ? fill(v, b, address - b->address, bytes, sink)
               : rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                         "vulkan:%u: %llu bytes at 0x%llx, to be zeros, do not lie in a buffer of "
                         "libaule",
                         v->index, (unsigned long long)bytes, (unsigned long long)address);
    pthread_mutex_unlock(&v->lock);
    return status;
}

/* ---- events */

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

static aule_status record(Vulkan *v, Point *point, AuSink sink)
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
    status = rt_vulkan_submit(v, which, sink);
    if (!status) point->value = v->submitted;
    return status;
}

aule_status rt_vulkan_event_record(void *state, void *queue, void **event, AuSink sink)
{
    Vulkan *v = state;
    aule_status status = rt_vulkan_own_queue(v, queue, sink);
    if (status) return status;
    Point *point = rt_alloc(v->heap, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    point->owner = v;
    pthread_mutex_lock(&v->lock);
    status = record(v, point, sink);
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
    return wait_and_tell(point->owner, point->value, sink);
}

aule_status rt_vulkan_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    Point *points[2] = {first, last};
    uint64_t times[2];
    for (uint32_t n = 0; n < 2; n++) {
        Vulkan *v = points[n]->owner;
        aule_status status = rt_vulkan_event_wait(points[n], sink);
        if (status) return status;
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
