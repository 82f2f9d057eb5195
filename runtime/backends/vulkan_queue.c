/* vulkan_queue.c - what is put on the device's queue, in order; a timeline counts what is done. Copies, times and single launches are written
 * into command buffers of a ring, runs of plans have their own (vulkan_record.c). The queue is the device's own or the caller's; runs may
 * wait for the caller's semaphores, and signal some. */
#include "vulkan.h"

#include <stdio.h>

/* ---- waiting */

/* As long as the device gets anywhere within the time that it is given: VK_TIMEOUT where it has not. */
static VkResult wait_while_it_works(const Vulkan *v, const VkSemaphoreWaitInfo *info)
{
    const uint64_t nobody = UINT64_MAX;
    uint64_t before = nobody;
    for (;;) {
        const uint64_t patience = atomic_load(&v->hung) ? 0 : v->patience;
        VkResult code = v->vk.vkWaitSemaphores(v->device, info, patience);
        if (code != VK_TIMEOUT || !patience) return code;
        uint64_t now = 0;
        code = v->vk.vkGetSemaphoreCounterValue(v->device, v->timeline, &now);
        if (code < 0) return code;
        if (now == before) return VK_TIMEOUT;
        before = now;
    }
}

aule_status rt_vulkan_wait(Vulkan *v, uint64_t value, AuSink sink)
{
    const VkSemaphoreWaitInfo info = {
        .type = VK_TYPE_SEMAPHORE_WAIT, .count = 1, .semaphores = &v->timeline, .values = &value};
    if (!value) return AULE_OK;
    const VkResult code = wait_while_it_works(v, &info);
    if (code == VK_SUCCESS) atomic_store(&v->hung, false); /* it came back; lost it stays */
    if (code != VK_TIMEOUT) return rt_vulkan_check(v, sink, "vkWaitSemaphores", code);
    atomic_store(&v->hung, true);
    atomic_store(&v->lost, true);
    return rt_fail_hung(sink, "vulkan", v->index, VULKAN_PATIENCE, v->patience);
}

aule_status rt_vulkan_look(Vulkan *v, AuSink sink)
{
    return rt_vulkan_check(v, sink, "vkGetSemaphoreCounterValue",
                           v->vk.vkGetSemaphoreCounterValue(v->device, v->timeline, &v->reached));
}

/* Commands of ours with nothing in them: behind what others put there, which the host finds as they do. */
static aule_status put_behind_others(Vulkan *v, AuSink sink)
{
    uint32_t which;
    if (!v->given.struct_size) return AULE_OK;
    aule_status status = rt_vulkan_open(v, &which, sink);
    return status ? status : rt_vulkan_submit(v, which, NULL, sink);
}

aule_status rt_vulkan_drain(Vulkan *v, AuSink sink)
{
    aule_status status = put_behind_others(v, sink);
    return status ? status : rt_vulkan_wait(v, v->submitted, sink);
}

/* What could not be waited for, since memory was short, say, may be so the second time. */
void rt_vulkan_settle(Vulkan *v)
{
    const AuSink quiet = {.memory = v->heap};
    aule_status status = AULE_ERROR_DRIVER;
    for (int n = 0; n < 2 && status && !atomic_load(&v->lost); n++)
        status = rt_vulkan_wait(v, v->submitted, quiet);
    if (atomic_load(&v->hung)) return;   /* what it uses stays */
    if (status && !v->given.struct_size) /* nobody else has queues of the device */
        v->vk.vkDeviceWaitIdle(v->device);
    rt_vulkan_listen(v, status ? 0 : v->submitted);
    v->reached = v->submitted; /* or nothing can be known of it any more */
    rt_vulkan_reap(v);
}

void rt_vulkan_listen(Vulkan *v, uint64_t value)
{
    if (!v->cuts_loops) return;
    for (uint32_t n = 0; n < VULKAN_RING; n++) {
        VulkanCommands *c = &v->ring[n];
        uint64_t said = 0;
        if (!c->watched || c->done > value) continue;
        memcpy(&said, v->slots->mapped + (uint64_t)n * VULKAN_SLOTS + c->word * 8, sizeof said);
        if (said) snprintf(v->cut, sizeof v->cut, "%s", c->watched);
        c->watched = NULL;
    }
    rt_vulkan_listen_runs(v, value);
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

aule_status rt_vulkan_wait_and_tell(Vulkan *v, uint64_t value, AuSink sink)
{
    aule_status status = rt_vulkan_wait(v, value, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    if (v->reached < value) v->reached = value;
    status = rt_vulkan_tell(v, value, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}

/* ---- the queue */

static aule_status take_semaphores(Vulkan *v, const char *what, const aule_vulkan_semaphore *given,
                                   size_t count, VkSemaphore *semaphores, uint64_t *values,
                                   AuSink sink)
{
    if (count > AULE_VULKAN_SEMAPHORES)
        return rt_fail(
            sink, AULE_ERROR_USAGE,
            "vulkan:%u: aule_vulkan_queue has %zu semaphores to %s, at most %d are taken", v->index,
            count, what, AULE_VULKAN_SEMAPHORES);
    for (size_t n = 0; n < count; n++) {
        if (!given || !given[n].semaphore)
            return rt_fail(sink, AULE_ERROR_USAGE,
                           "vulkan:%u: aule_vulkan_queue: semaphore %zu to %s is NULL", v->index, n,
                           what);
        if (!v->given.struct_size && !rt_vulkan_is_timeline(v, given[n].semaphore))
            return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                           "vulkan:%u: aule_vulkan_queue: semaphore %zu to %s is no timeline of "
                           "this device, which is our own: others belong to a device of the "
                           "caller's, that is opened with an aule_vulkan_device",
                           v->index, n, what);
        semaphores[n] = given[n].semaphore;
        values[n] = given[n].value;
    }
    return AULE_OK;
}

aule_status rt_vulkan_order(Vulkan *v, const void *queue, VulkanOrder *order, AuSink sink)
{
    aule_vulkan_queue given;
    order->wait_count = order->signal_count = 0;
    if (!queue) return AULE_OK;
    aule_status status =
        rt_read_options(&given, sizeof given, sizeof given, queue, "aule_vulkan_queue", sink);
    if (!status)
        status = take_semaphores(v, "wait for", given.waits, given.wait_count, order->waits,
                                 order->wait_values, sink);
    if (!status)
        status = take_semaphores(v, "signal", given.signals, given.signal_count, order->signals,
                                 order->signal_values, sink);
    if (status) return status;
    order->wait_count = (uint32_t)given.wait_count;
    order->signal_count = (uint32_t)given.signal_count;
    return AULE_OK;
}

aule_status rt_vulkan_put(Vulkan *v, VkCommandBuffer commands, VulkanOrder *order, AuSink sink)
{
    const uint32_t signals = order->signal_count + 1;
    uint32_t stages[AULE_VULKAN_SEMAPHORES];
    order->signals[order->signal_count] = v->timeline;
    order->signal_values[order->signal_count] = v->submitted + 1;
    for (uint32_t n = 0; n < order->wait_count; n++) stages[n] = VK_AT_ALL_COMMANDS;
    const VkTimelineSemaphoreSubmitInfo values = {.type = VK_TYPE_TIMELINE_SUBMIT,
                                                  .wait_count = order->wait_count,
                                                  .waits = order->wait_values,
                                                  .signal_count = signals,
                                                  .signals = order->signal_values};
    const VkSubmitInfo info = {.type = VK_TYPE_SUBMIT,
                               .next = &values,
                               .wait_count = order->wait_count,
                               .waits = order->waits,
                               .wait_stages = stages,
                               .command_count = 1,
                               .commands = &commands,
                               .signal_count = signals,
                               .signals = order->signals};
    if (v->given.lock) v->given.lock(v->given.user);
    const VkResult code = v->vk.vkQueueSubmit(v->queue, 1, &info, 0);
    if (v->given.unlock) v->given.unlock(v->given.user);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkQueueSubmit", code);
    v->submitted++;
    return AULE_OK;
}

/* ---- commands */

aule_status rt_vulkan_begin_commands(Vulkan *v, VkCommandBuffer commands, uint32_t flags,
                                     AuSink sink)
{
    const VkCommandBufferBeginInfo info = {.type = VK_TYPE_COMMAND_BUFFER_BEGIN, .flags = flags};
    const VkMemoryBarrier all = {.type = VK_TYPE_MEMORY_BARRIER,
                                 .before = VK_ACCESS_MEMORY_WRITE,
                                 .after = VK_ACCESS_MEMORY_READ | VK_ACCESS_MEMORY_WRITE};
    aule_status status = rt_vulkan_check(v, sink, "vkBeginCommandBuffer",
                                         v->vk.vkBeginCommandBuffer(commands, &info));
    if (!status && v->given.struct_size) /* what is ours ends with a barrier */
        v->vk.vkCmdPipelineBarrier(commands, VK_AT_ALL_COMMANDS, VK_AT_ALL_COMMANDS, 0, 1, &all, 0,
                                   NULL, 0, NULL);
    return status;
}

aule_status rt_vulkan_end_commands(Vulkan *v, VkCommandBuffer commands, AuSink sink)
{
    const VkMemoryBarrier all = {.type = VK_TYPE_MEMORY_BARRIER,
                                 .before = VK_ACCESS_MEMORY_WRITE,
                                 .after = VK_ACCESS_MEMORY_READ | VK_ACCESS_MEMORY_WRITE |
                                          VK_ACCESS_HOST_READ | VK_ACCESS_HOST_WRITE};
    v->vk.vkCmdPipelineBarrier(commands, VK_AT_ALL_COMMANDS, VK_AT_ALL_COMMANDS | VK_AT_HOST, 0, 1,
                               &all, 0, NULL, 0, NULL);
    return rt_vulkan_check(v, sink, "vkEndCommandBuffer", v->vk.vkEndCommandBuffer(commands));
}

aule_status rt_vulkan_open(Vulkan *v, uint32_t *which, AuSink sink)
{
    aule_status status = rt_vulkan_alive(v, sink);
    if (status) return status;
    *which = v->turn++ % VULKAN_RING;
    VulkanCommands *c = &v->ring[*which];
    status = rt_vulkan_wait(v, c->done, sink);
    if (status) return status;
    rt_vulkan_listen(v, c->done);
    return rt_vulkan_begin_commands(v, c->commands, VK_COMMANDS_ONCE, sink);
}

aule_status rt_vulkan_submit(Vulkan *v, uint32_t which, VulkanOrder *order, AuSink sink)
{
    VulkanCommands *c = &v->ring[which];
    VulkanOrder none;
    aule_status status = order ? AULE_OK : rt_vulkan_order(v, NULL, &none, sink);
    if (!status) status = rt_vulkan_end_commands(v, c->commands, sink);
    if (!status) status = rt_vulkan_put(v, c->commands, order ? order : &none, sink);
    if (!status) c->done = v->submitted;
    return status;
}

/* What [queue] waits for and signals is another matter: the queue is one. */
aule_status rt_vulkan_synchronize(void *state, void *queue, AuSink sink)
{
    Vulkan *v = state;
    VulkanOrder order;
    aule_status status = rt_vulkan_order(v, queue, &order, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = put_behind_others(v, sink);
    const uint64_t value = v->submitted;
    pthread_mutex_unlock(&v->lock);
    return status ? status : rt_vulkan_wait_and_tell(v, value, sink);
}
