/* vulkan_mock_run.c - command buffers of the mock: what is recorded is done when it is submitted. */
#include "vulkan_mock_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample_kernels.h"

/* ---- kernels */

static void probe(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    float *f = (float *)(uintptr_t)slots[0];
    (void)x, (void)y, (void)z;
    f[3] = fmaf(f[0], f[1], f[2]);
}

static const MockKernel kernels[] = {
    {"probe", probe},
    {"weigh", sample_weigh},
    {"divide", sample_divide},
    {"gradients", sample_gradients},
    {"move_sums", sample_move_sums},
};

const MockKernel *mock_kernel(const char *name)
{
    for (size_t n = 0; n < sizeof kernels / sizeof *kernels; n++)
        if (strcmp(kernels[n].name, name) == 0) return &kernels[n];
    return NULL;
}

/* ---- recording */

typedef struct Pushed { /* docs/artifact.md */
    uint64_t slots;
    uint32_t blocks[3], first[3];
} Pushed;

typedef struct Command {
    const MockKernel *kernel; /* NULL: bytes are copied or filled, or a time is written */
    Pushed pushed;
    uint32_t groups[3];
    char *to;
    const char *from; /* NULL: zeros */
    uint64_t bytes;
} Command;

struct VkCommandBuffer_T {
    const MockKernel *bound;
    Pushed pushed;
    Command list[64];
    uint32_t count;
};

static Command *add(VkCommandBuffer c)
{
    Command *made = &c->list[c->count < 63 ? c->count++ : 63];
    *made = (Command){0};
    return made;
}

typedef struct Pool {
    VkCommandBuffer all;
} Pool;

VkResult vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                             const void *allocator, VkCommandPool *pool)
{
    ENTER();
    (void)device, (void)info, (void)allocator;
    *pool = (uintptr_t)calloc(1, sizeof(Pool));
    vulkan_mock.pools++;
    return VK_SUCCESS;
}
void vkDestroyCommandPool(VkDevice device, VkCommandPool pool, const void *allocator)
{
    (void)device, (void)allocator;
    free(MOCK(Pool, pool)->all);
    free(MOCK(Pool, pool));
    vulkan_mock.pools--;
}
VkResult vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                  VkCommandBuffer *commands)
{
    ENTER();
    (void)device;
    Pool *pool = MOCK(Pool, info->pool);
    pool->all = calloc(info->count, sizeof *pool->all);
    for (uint32_t n = 0; n < info->count; n++) commands[n] = &pool->all[n];
    return VK_SUCCESS;
}
VkResult vkBeginCommandBuffer(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
    ENTER();
    (void)info;
    c->count = 0;
    return VK_SUCCESS;
}
VkResult vkEndCommandBuffer(VkCommandBuffer c)
{
    ENTER();
    (void)c;
    return VK_SUCCESS;
}
void vkCmdBindPipeline(VkCommandBuffer c, uint32_t point, VkPipeline pipeline)
{
    (void)point;
    c->bound = MOCK(const MockKernel, pipeline);
}
void vkCmdPushConstants(VkCommandBuffer c, VkPipelineLayout layout, uint32_t stages,
                        uint32_t offset, uint32_t bytes, const void *values)
{
    (void)layout, (void)stages, (void)offset;
    memcpy(&c->pushed, values, bytes);
}
void vkCmdDispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z)
{
    Command *made = add(c);
    *made = (Command){.kernel = c->bound, .pushed = c->pushed, .groups = {x, y, z}};
}
void vkCmdFillBuffer(VkCommandBuffer c, VkBuffer buffer, uint64_t offset, uint64_t bytes,
                     uint32_t word)
{
    (void)word; /* only zeros are asked for */
    *add(c) = (Command){.to = MOCK(MockBuffer, buffer)->at + offset, .bytes = bytes};
}
void vkCmdCopyBuffer(VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t count,
                     const VkBufferCopy *parts)
{
    for (uint32_t n = 0; n < count; n++)
        *add(c) = (Command){.to = MOCK(MockBuffer, to)->at + parts[n].to,
                            .from = MOCK(MockBuffer, from)->at + parts[n].from,
                            .bytes = parts[n].bytes};
}
void vkCmdPipelineBarrier(VkCommandBuffer c, uint32_t before, uint32_t after, uint32_t flags,
                          uint32_t memory_count, const VkMemoryBarrier *memory,
                          uint32_t buffer_count, const void *buffers, uint32_t image_count,
                          const void *images)
{
    (void)c, (void)before, (void)after, (void)flags, (void)memory_count, (void)memory;
    (void)buffer_count, (void)buffers, (void)image_count, (void)images;
}

/* ---- times: the number of the query */

VkResult vkCreateQueryPool(VkDevice device, const VkQueryPoolCreateInfo *info,
                           const void *allocator, VkQueryPool *pool)
{
    ENTER();
    (void)device, (void)info, (void)allocator;
    static uint64_t made;
    *pool = ++made;
    vulkan_mock.queries++;
    return VK_SUCCESS;
}
void vkDestroyQueryPool(VkDevice device, VkQueryPool pool, const void *allocator)
{
    (void)device, (void)pool, (void)allocator;
    vulkan_mock.queries--;
}
void vkCmdResetQueryPool(VkCommandBuffer c, VkQueryPool pool, uint32_t first, uint32_t count)
{
    (void)c, (void)pool, (void)first, (void)count;
}
void vkCmdWriteTimestamp(VkCommandBuffer c, uint32_t stage, VkQueryPool pool, uint32_t query)
{
    (void)c, (void)stage, (void)pool, (void)query;
}
VkResult vkGetQueryPoolResults(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                               size_t bytes, void *results, uint64_t stride, uint32_t flags)
{
    ENTER();
    (void)device, (void)first, (void)count, (void)stride, (void)flags;
    const uint64_t time = pool * 1000;
    memcpy(results, &time, bytes);
    return VK_SUCCESS;
}

/* ---- the queue */

static void dispatch(const Command *d)
{
    const uint64_t *slots = (const uint64_t *)(uintptr_t)d->pushed.slots;
    const uint32_t *first = d->pushed.first;
    vulkan_mock.dispatches++;
    for (uint32_t z = 0; z < d->groups[2]; z++)
        for (uint32_t y = 0; y < d->groups[1]; y++)
            for (uint32_t x = 0; x < d->groups[0]; x++)
                d->kernel->run(slots, first[0] + x, first[1] + y, first[2] + z);
}

VkResult vkQueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, uint64_t fence)
{
    ENTER();
    (void)queue, (void)count, (void)fence;
    const VkTimelineSemaphoreSubmitInfo *values = submits->next;
    for (uint32_t n = 0; n < submits->commands[0]->count; n++) {
        const Command *c = &submits->commands[0]->list[n];
        if (c->kernel)
            dispatch(c);
        else if (c->from)
            memcpy(c->to, c->from, c->bytes);
        else
            memset(c->to, 0, c->bytes);
    }
    *MOCK(uint64_t, submits->signals[0]) = values->signals[0];
    return VK_SUCCESS;
}
VkResult vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                           const void *allocator, VkSemaphore *semaphore)
{
    ENTER();
    (void)device, (void)info, (void)allocator;
    *semaphore = (uintptr_t)calloc(1, sizeof(uint64_t));
    vulkan_mock.semaphores++;
    return VK_SUCCESS;
}
void vkDestroySemaphore(VkDevice device, VkSemaphore semaphore, const void *allocator)
{
    (void)device, (void)allocator;
    free(MOCK(uint64_t, semaphore));
    vulkan_mock.semaphores--;
}
VkResult vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t nanoseconds)
{
    ENTER();
    (void)device, (void)nanoseconds;
    return *MOCK(uint64_t, info->semaphores[0]) >= info->values[0] ? VK_SUCCESS : VK_TIMEOUT;
}
