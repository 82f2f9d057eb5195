/* vulkan_mock_run.c - command buffers of the mock: what is recorded is done when it is submitted, or when it is waited for. */
#include "vulkan_mock_inside.h"

#include <math.h>
#include <pthread.h>
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

/* Of matrices of 8x8. */
static void positions(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    float *told = (float *)(uintptr_t)slots[0];
    (void)x, (void)y, (void)z;
    for (uint32_t n = 0; n < 64; n++)
        told[n] = (float)(vulkan_mock.scattered && n > 40 ? n / 8 + n % 8 * 8 : n);
}

static void clear(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    enum { WORDS = 1024 };
    (void)y, (void)z;
    for (uint64_t n = (uint64_t)x * WORDS; n < slots[3] && n < ((uint64_t)x + 1) * WORDS; n++)
        ((uint32_t *)(uintptr_t)slots[0])[n] = 0;
    memset((void *)(uintptr_t)slots[1], 0, slots[4]);
    memset((void *)(uintptr_t)slots[2], 0, slots[5]);
}

static const MockKernel kernels[] = {
    {"probe", probe},
    {"positions", positions},
    {"clear", clear},
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

typedef enum Kind { KERNEL, COPY, BARRIER } Kind;
typedef struct Command {
    Kind kind;
    const MockKernel *kernel;
    Pushed pushed;
    uint32_t groups[3];
    char *to;
    const char *from;
    uint64_t bytes;
    bool seen; /* a barrier of memory, too */
} Command;

enum { COMMANDS = 64 };
struct VkCommandBuffer_T {
    const MockKernel *bound;
    Pushed pushed;
    Command list[COMMANDS];
    uint32_t count;
    int pending; /* times on the queue */
};

static void add(VkCommandBuffer c, const Command *command)
{
    if (c->count == COMMANDS) abort(); /* the mock takes no more */
    c->list[c->count++] = *command;
}

typedef struct Pool {
    VkCommandBuffer all[512];
    uint32_t count;
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
static void end_commands(VkCommandBuffer *c)
{
    if (!*c) return;
    if ((*c)->pending) abort();
    free(*c);
    *c = NULL;
    vulkan_mock.commands--;
}
void vkDestroyCommandPool(VkDevice device, VkCommandPool pool, const void *allocator)
{
    Pool *p = MOCK(Pool, pool);
    (void)device, (void)allocator;
    for (uint32_t n = 0; n < p->count; n++) end_commands(&p->all[n]);
    free(p);
    vulkan_mock.pools--;
}
VkResult vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                  VkCommandBuffer *commands)
{
    ENTER();
    (void)device;
    Pool *p = MOCK(Pool, info->pool);
    for (uint32_t n = 0; n < info->count; n++) {
        uint32_t at = 0;
        while (at < p->count && p->all[at]) at++;
        if (at == sizeof p->all / sizeof *p->all) abort();
        if (at == p->count) p->count++;
        p->all[at] = commands[n] = calloc(1, sizeof **commands);
        vulkan_mock.commands++;
    }
    return VK_SUCCESS;
}
void vkFreeCommandBuffers(VkDevice device, VkCommandPool pool, uint32_t count,
                          const VkCommandBuffer *commands)
{
    Pool *p = MOCK(Pool, pool);
    (void)device;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t at = 0; at < p->count; at++)
            if (p->all[at] == commands[n]) end_commands(&p->all[at]);
}
VkResult vkBeginCommandBuffer(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
    ENTER();
    (void)info;
    if (c->pending) abort(); /* the device is reading it */
    c->count = 0;
    vulkan_mock.begun++;
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
    add(c,
        &(Command){.kind = KERNEL, .kernel = c->bound, .pushed = c->pushed, .groups = {x, y, z}});
}
void vkCmdCopyBuffer(VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t count,
                     const VkBufferCopy *parts)
{
    for (uint32_t n = 0; n < count; n++)
        add(c, &(Command){.kind = COPY,
                          .to = MOCK(MockBuffer, to)->at + parts[n].to,
                          .from = MOCK(MockBuffer, from)->at + parts[n].from,
                          .bytes = parts[n].bytes});
}
void vkCmdPipelineBarrier(VkCommandBuffer c, uint32_t before, uint32_t after, uint32_t flags,
                          uint32_t memory_count, const VkMemoryBarrier *memory,
                          uint32_t buffer_count, const void *buffers, uint32_t image_count,
                          const void *images)
{
    (void)flags, (void)buffer_count, (void)buffers, (void)image_count, (void)images;
    if (before != VK_AT_COMPUTE || after != VK_AT_COMPUTE) return;
    const bool seen = memory_count == 1;
    if (seen && (memory->before != VK_ACCESS_SHADER_WRITE ||
                 memory->after != (VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE)))
        abort();
    add(c, &(Command){.kind = BARRIER, .seen = seen});
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

enum { SEMAPHORES = 17, PENDING = 256 };
typedef struct Submission {
    VkCommandBuffer commands; /* NULL: none */
    uint32_t wait_count, signal_count;
    uint64_t *waits[SEMAPHORES], wait_values[SEMAPHORES];
    uint64_t *signals[SEMAPHORES], signal_values[SEMAPHORES];
} Submission;
static Submission pending[PENDING];
static uint32_t pending_count;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER; /* of these, and of semaphores */

static void do_command(const Command *c)
{
    if (c->kind == BARRIER) vulkan_mock.barriers++, vulkan_mock.seen += c->seen;
    if (c->kind == KERNEL) vulkan_mock.blocks += (int)(c->groups[0] * c->groups[1] * c->groups[2]);
    if (c->kind == COPY) memcpy(c->to, c->from, c->bytes);
    if (c->kind == KERNEL &&
        (!vulkan_mock.idle || c->kernel->run == probe || c->kernel->run == positions))
        dispatch(c);
}

/* From [first] on, of kernels as many as no barrier orders: as a device may, the last one first. Where that ends. */
static uint32_t do_some(const VkCommandBuffer commands, uint32_t first)
{
    const Command *list = commands->list;
    uint32_t end = first + 1;
    while (vulkan_mock.unordered && list[first].kind == KERNEL && end < commands->count &&
           list[end].kind == KERNEL)
        end++;
    for (uint32_t n = end; n-- > first;) do_command(&list[n]);
    return end;
}

static void perform(const Submission *s)
{
    for (uint32_t n = 0; s->commands && n < s->commands->count;) n = do_some(s->commands, n);
    if (s->commands) s->commands->pending--;
    for (uint32_t n = 0; n < s->signal_count; n++) *s->signals[n] = s->signal_values[n];
}

static bool may_begin(const Submission *s)
{
    for (uint32_t n = 0; n < s->wait_count; n++)
        if (*s->waits[n] < s->wait_values[n]) return false;
    return true;
}

/* [most] of them. */
static void work_some(uint32_t most)
{
    uint32_t done = 0;
    while (done < most && done < pending_count && may_begin(&pending[done]))
        perform(&pending[done++]);
    pending_count -= done;
    memmove(pending, pending + done, pending_count * sizeof *pending);
}

static void work(void) { work_some(PENDING); }

void vulkan_mock_work(void)
{
    pthread_mutex_lock(&queue_lock);
    work();
    pthread_mutex_unlock(&queue_lock);
}

void mock_expect_no_work(void)
{
    if (pending_count) abort();
}

VkResult vkQueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, uint64_t fence)
{
    ENTER();
    (void)queue, (void)count, (void)fence;
    const VkTimelineSemaphoreSubmitInfo *values = submits->next;
    pthread_mutex_lock(&queue_lock);
    if (pending_count == PENDING || submits->wait_count > SEMAPHORES ||
        submits->signal_count > SEMAPHORES)
        abort();
    Submission *s = &pending[pending_count++];
    *s = (Submission){.commands = submits->command_count ? submits->commands[0] : NULL,
                      .wait_count = submits->wait_count,
                      .signal_count = submits->signal_count};
    for (uint32_t n = 0; n < s->wait_count; n++) {
        s->waits[n] = MOCK(uint64_t, submits->waits[n]);
        s->wait_values[n] = values->waits[n];
    }
    for (uint32_t n = 0; n < s->signal_count; n++) {
        s->signals[n] = MOCK(uint64_t, submits->signals[n]);
        s->signal_values[n] = values->signals[n];
    }
    if (s->commands && s->commands->pending++) abort(); /* it may be there once at a time */
    vulkan_mock.submits++;
    if (!vulkan_mock.lazy) work();
    pthread_mutex_unlock(&queue_lock);
    return VK_SUCCESS;
}
VkResult vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                           const void *allocator, VkSemaphore *semaphore)
{
    ENTER();
    (void)device, (void)allocator;
    const VkSemaphoreTypeCreateInfo *kind = info->next;
    const VkExportSemaphoreCreateInfo *exports = kind->next;
    *semaphore = (uintptr_t)(exports && exports->type == VK_TYPE_EXPORT_SEMAPHORE
                                 ? mock_file_new(sizeof(uint64_t))
                                 : calloc(1, sizeof(uint64_t)));
    vulkan_mock.semaphores++;
    return VK_SUCCESS;
}
void vkDestroySemaphore(VkDevice device, VkSemaphore semaphore, const void *allocator)
{
    (void)device, (void)allocator;
    if (!mock_file_end(MOCK(void, semaphore))) free(MOCK(uint64_t, semaphore));
    vulkan_mock.semaphores--;
}
void vkGetPhysicalDeviceExternalSemaphoreProperties(
    VkPhysicalDevice device, const VkPhysicalDeviceExternalSemaphoreInfo *info,
    VkExternalSemaphoreProperties *properties)
{
    (void)device;
    const VkSemaphoreTypeCreateInfo *kind = info->next;
    const bool timeline = kind && kind->kind == VK_SEMAPHORE_TIMELINE;
    properties->features =
        timeline && !(vulkan_mock.lacks >> MOCK_TIMELINES & 1) ? VK_EXTERNAL_SEMAPHORE_EXPORTS : 0;
}
VkResult vkGetSemaphoreFdKHR(VkDevice device, const VkSemaphoreGetFdInfo *info, int *fd)
{
    ENTER();
    (void)device;
    *fd = mock_file_fd(MOCK(void, info->semaphore));
    return VK_SUCCESS;
}
VkResult vkGetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    ENTER();
    (void)device;
    pthread_mutex_lock(&queue_lock);
    *value = *MOCK(uint64_t, semaphore);
    pthread_mutex_unlock(&queue_lock);
    return VK_SUCCESS;
}
VkResult vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t nanoseconds)
{
    ENTER();
    (void)device;
    pthread_mutex_lock(&queue_lock);
    vulkan_mock.waits++;
    if (*MOCK(uint64_t, info->semaphores[0]) < info->values[0])
        work_some(vulkan_mock.hangs ? 0 : vulkan_mock.slow ? 1 : PENDING);
    vulkan_mock.patience = nanoseconds;
    const bool there = *MOCK(uint64_t, info->semaphores[0]) >= info->values[0];
    pthread_mutex_unlock(&queue_lock);
    return there ? VK_SUCCESS : VK_TIMEOUT;
}
