/* run.c - lists, queues, events of the mock. Commands wait until somebody asks whether they are done; those that no barrier orders are then
 * done from the last to the first. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

enum { BARRIER, COPY, FILL, TIME, LAUNCH };
typedef struct Command {
    int what;
    char *to;
    const char *from;
    size_t bytes;
    char pattern[16];
    size_t pattern_bytes;
    struct ze_kernel *kernel;
    ze_group_count_t groups;
    uint64_t *values; /* arguments, as they were */
    struct ze_event *signal;
} Command;

struct ze_list {
    Object head;
    bool immediate, closed;
    uint32_t waiting; /* executions on a queue that are not done */
    Command *commands;
    size_t count, room;
};
struct ze_queue {
    Object head;
    struct ze_list **lists;
    size_t count, room;
};
/* What may have something to do. */
static struct ze_list *lists[4096];
static struct ze_queue *queues[64];
static size_t list_count, queue_count;

#define DEVICE(handle) RULE(mock_is_device(handle), ZE_RESULT_ERROR_INVALID_NULL_HANDLE)

/* ---- execution */

static void do_one(const Command *c)
{
    levelzero_mock.now += 10;
    if (c->what == COPY) memmove(c->to, c->from, c->bytes);
    for (size_t n = 0; c->what == FILL && n < c->bytes; n++)
        c->to[n] = c->pattern[n % c->pattern_bytes];
    if (c->what == TIME) memcpy(c->to, &levelzero_mock.now, sizeof levelzero_mock.now);
    if (c->what == LAUNCH) {
        const uint32_t groups[3] = {c->groups.groupCountX, c->groups.groupCountY,
                                    c->groups.groupCountZ};
        levelzero_mock.launches++;
        if (!run_launch(c->kernel->module->program, c->kernel->name, &c->kernel->facts, c->values,
                        groups, c->kernel->block))
            mock_broken("execution", "a kernel runs", 0);
    }
    if (!c->signal) return;
    if (c->signal->signalled) mock_broken("execution", "an event is signalled once", 0);
    c->signal->signalled = true;
    c->signal->time = levelzero_mock.now;
}

/* How many of them were done: all, or of a slow device up to a kernel, what no barrier orders with it and the barrier behind. */
static size_t do_all(const Command *commands, size_t count)
{
    const int before = levelzero_mock.launches;
    size_t end = 0;
    for (size_t first = 0; first < count; first = end) {
        if (levelzero_mock.slow && levelzero_mock.launches != before) break;
        while (end < count && commands[end].what != BARRIER) end++;
        for (size_t n = end; n-- > first;) do_one(&commands[n]);
        if (end < count) do_one(&commands[end++]);
    }
    return end;
}

static void forget(struct ze_list *list, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const Command *c = &list->commands[n];
        if (c->kernel) c->kernel->waiting--;
        if (c->signal) c->signal->waiting--;
        free(c->values);
    }
    list->count -= count;
    if (list->count)
        memmove(list->commands, list->commands + count, list->count * sizeof *list->commands);
}

static void work_queue(struct ze_queue *queue)
{
    const int before = levelzero_mock.launches;
    size_t done = 0;
    while (done < queue->count && !(levelzero_mock.slow && levelzero_mock.launches != before)) {
        struct ze_list *list = queue->lists[done++];
        do_all(list->commands, list->count);
        list->waiting--;
    }
    queue->count -= done;
    if (queue->count)
        memmove(queue->lists, queue->lists + done, queue->count * sizeof(struct ze_list *));
}

static void work(void)
{
    if (levelzero_mock.hangs) return;
    mock_open_memory(true);
    for (size_t n = 0; n < list_count; n++)
        if (lists[n]->immediate && lists[n]->count)
            forget(lists[n], do_all(lists[n]->commands, lists[n]->count));
    for (size_t n = 0; n < queue_count; n++) work_queue(queues[n]);
    mock_open_memory(false);
}

void mock_lose(void)
{
    for (size_t n = 0; n < queue_count; n++) queues[n]->count = 0;
    for (size_t n = 0; n < list_count; n++) {
        lists[n]->waiting = 0;
        forget(lists[n], lists[n]->count);
    }
}

void levelzero_mock_work(void)
{
    mock_lock();
    work();
    mock_unlock(0);
}

static bool touches(const Command *c, const Memory *m)
{
    const char *first = m->at, *end = m->at + m->size;
    if ((c->to >= first && c->to < end) || (c->from >= first && c->from < end)) return true;
    for (uint32_t n = 0; c->kernel && n < c->kernel->facts.arg_count; n++) {
        const char *at = (const char *)(uintptr_t)c->values[n];
        if (c->kernel->facts.args[n].pointer && at >= first && at < end) return true;
    }
    return false;
}

/* Lists that nobody executes use nothing. */
bool mock_is_used(const Memory *memory)
{
    for (size_t n = 0; n < list_count; n++)
        for (size_t i = 0; i < lists[n]->count; i++)
            if ((lists[n]->immediate || lists[n]->waiting) &&
                touches(&lists[n]->commands[i], memory))
                return true;
    return false;
}

/* ---- lists */

static struct ze_list *new_list(ze_context_handle_t context, bool immediate)
{
    struct ze_list *made = mock_new(MOCK_LIST, sizeof *made, context);
    made->immediate = immediate;
    lists[list_count++] = made;
    return made;
}

ze_result_t zeCommandListCreate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_list_desc_t *desc, ze_command_list_handle_t *list)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DEVICE(device);
    DESC(desc, COMMAND_LIST_DESC);
    NOT_NULL(list);
    RULE(desc->commandQueueGroupOrdinal == 1, ZE_RESULT_ERROR_INVALID_ARGUMENT); /* it computes */
    *list = new_list(context, false);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device,
                                         const ze_command_queue_desc_t *desc,
                                         ze_command_list_handle_t *list)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DEVICE(device);
    DESC(desc, COMMAND_QUEUE_DESC);
    NOT_NULL(list);
    RULE(desc->ordinal == 1 && desc->index == 0, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE(desc->mode <= ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, ZE_RESULT_ERROR_INVALID_ENUMERATION);
    *list = new_list(context, true);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListDestroy(ze_command_list_handle_t list)
{
    END();
    LIVE(list, MOCK_LIST);
    RULE(!list->waiting && !(list->immediate && list->count), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    forget(list, list->count);
    for (size_t n = 0; n < list_count; n++)
        if (lists[n] == list) lists[n] = lists[--list_count];
    free(list->commands);
    mock_end(list);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListClose(ze_command_list_handle_t list)
{
    ENTER();
    LIVE(list, MOCK_LIST);
    RULE(!list->closed && !list->immediate, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    list->closed = true;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListReset(ze_command_list_handle_t list)
{
    ENTER();
    LIVE(list, MOCK_LIST);
    RULE(!list->immediate, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE(!list->waiting, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    forget(list, list->count);
    list->closed = false;
    LEAVE(ZE_RESULT_SUCCESS);
}

/* ---- appending */

static void append(struct ze_list *list, Command c)
{
    if (levelzero_mock.idle) return;
    if (list->count == list->room) {
        list->room = list->room * 2 + 16;
        list->commands = realloc(list->commands, list->room * sizeof *list->commands);
    }
    if (c.kernel) c.kernel->waiting++;
    if (c.signal) c.signal->waiting++;
    list->commands[list->count++] = c;
}
#define APPENDS(list, signal)                                                                      \
    LIVE(list, MOCK_LIST);                                                                         \
    RULE(!(list)->closed, ZE_RESULT_ERROR_INVALID_ARGUMENT);                                       \
    if (signal) LIVE(signal, MOCK_EVENT);                                                          \
    RULE(wait_count == 0 && !waits, ZE_RESULT_ERROR_INVALID_SIZE) /* nobody needs them so far */

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t signal,
                                       uint32_t wait_count, ze_event_handle_t *waits)
{
    ENTER();
    APPENDS(list, signal);
    append(list, (Command){.what = BARRIER, .signal = signal});
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t list, uint64_t *to,
                                                    ze_event_handle_t signal, uint32_t wait_count,
                                                    ze_event_handle_t *waits)
{
    ENTER();
    APPENDS(list, signal);
    NOT_NULL(to);
    RULE((uintptr_t)to % sizeof *to == 0, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE(mock_memory(to, sizeof *to), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    append(list, (Command){.what = TIME, .to = (char *)to, .signal = signal});
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *to, const void *from,
                                          size_t size, ze_event_handle_t signal,
                                          uint32_t wait_count, ze_event_handle_t *waits)
{
    ENTER();
    APPENDS(list, signal);
    NOT_NULL(to);
    NOT_NULL(from);
    RULE(mock_memory(to, size) && mock_memory(from, size), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    append(list, (Command){.what = COPY, .to = to, .from = from, .bytes = size, .signal = signal});
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void *at,
                                          const void *pattern, size_t pattern_size, size_t size,
                                          ze_event_handle_t signal, uint32_t wait_count,
                                          ze_event_handle_t *waits)
{
    ENTER();
    APPENDS(list, signal);
    NOT_NULL(at);
    NOT_NULL(pattern);
    RULE(pattern_size && pattern_size <= 16 && !(pattern_size & (pattern_size - 1)),
         ZE_RESULT_ERROR_INVALID_SIZE);
    RULE(mock_memory(at, size), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    Command c = {.what = FILL, .to = at, .bytes = size, .signal = signal};
    c.pattern_bytes = pattern_size;
    memcpy(c.pattern, pattern, pattern_size);
    append(list, c);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t list,
                                            ze_kernel_handle_t kernel,
                                            const ze_group_count_t *groups,
                                            ze_event_handle_t signal, uint32_t wait_count,
                                            ze_event_handle_t *waits)
{
    ENTER();
    APPENDS(list, signal);
    LIVE(kernel, MOCK_KERNEL);
    NOT_NULL(groups);
    RULE(kernel->block[0], ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    for (uint32_t n = 0; n < kernel->facts.arg_count; n++)
        RULE(kernel->set[n] || levelzero_mock.idle,
             ZE_RESULT_ERROR_INVALID_ARGUMENT); /* an argument was never set */
    const uint32_t most = levelzero_mock.most_blocks;
    RULE(groups->groupCountX <= most && groups->groupCountY <= most && groups->groupCountZ <= most,
         ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION);
    RULE(kernel->facts.local_bytes <= levelzero_mock.shared_bytes,
         ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    Command c = {.what = LAUNCH, .kernel = kernel, .groups = *groups, .signal = signal};
    c.values = levelzero_mock.idle ? NULL : malloc(sizeof kernel->values);
    if (c.values) memcpy(c.values, kernel->values, sizeof kernel->values);
    append(list, c);
    LEAVE(ZE_RESULT_SUCCESS);
}

/* ---- queues */

static ze_result_t waited(bool there, uint64_t nanoseconds)
{
    levelzero_mock.patience = nanoseconds;
    levelzero_mock.waits += !there;
    return there ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ze_result_t zeCommandQueueCreate(ze_context_handle_t context, ze_device_handle_t device,
                                 const ze_command_queue_desc_t *desc,
                                 ze_command_queue_handle_t *queue)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DEVICE(device);
    DESC(desc, COMMAND_QUEUE_DESC);
    NOT_NULL(queue);
    *queue = queues[queue_count++] = mock_new(MOCK_QUEUE, sizeof **queue, context);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t queue)
{
    END();
    LIVE(queue, MOCK_QUEUE);
    RULE(!queue->count, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    for (size_t n = 0; n < queue_count; n++)
        if (queues[n] == queue) queues[n] = queues[--queue_count];
    free(queue->lists);
    mock_end(queue);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t queue, uint32_t count,
                                              ze_command_list_handle_t *executed,
                                              ze_fence_handle_t fence)
{
    ENTER();
    LIVE(queue, MOCK_QUEUE);
    NOT_NULL(executed);
    RULE(count > 0, ZE_RESULT_ERROR_INVALID_SIZE);
    RULE(!fence, ZE_RESULT_ERROR_INVALID_ARGUMENT); /* nobody needs one so far */
    for (uint32_t n = 0; n < count; n++) {
        LIVE(executed[n], MOCK_LIST);
        RULE(executed[n]->closed && !executed[n]->immediate, ZE_RESULT_ERROR_INVALID_ARGUMENT);
        if (queue->count == queue->room) {
            queue->room = queue->room * 2 + 16;
            queue->lists = realloc(queue->lists, queue->room * sizeof(struct ze_list *));
        }
        queue->lists[queue->count++] = executed[n];
        executed[n]->waiting++;
    }
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeCommandQueueSynchronize(ze_command_queue_handle_t queue, uint64_t nanoseconds)
{
    ENTER();
    LIVE(queue, MOCK_QUEUE);
    work();
    LEAVE(waited(queue->count == 0, nanoseconds));
}

/* ---- events */

ze_result_t zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                              uint32_t device_count, ze_device_handle_t *devices,
                              ze_event_pool_handle_t *pool)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DESC(desc, EVENT_POOL_DESC);
    NOT_NULL(pool);
    RULE(desc->count > 0 && desc->count <= 32, ZE_RESULT_ERROR_INVALID_SIZE);
    for (uint32_t n = 0; n < device_count; n++) DEVICE(devices[n]);
    *pool = mock_new(MOCK_POOL, sizeof **pool, context);
    (*pool)->count = desc->count;
    (*pool)->times = desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t pool)
{
    END();
    LIVE(pool, MOCK_POOL);
    RULE(!mock_has_children(pool, MOCK_EVENT), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    mock_end(pool);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeEventCreate(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                          ze_event_handle_t *event)
{
    ENTER();
    LIVE(pool, MOCK_POOL);
    DESC(desc, EVENT_DESC);
    NOT_NULL(event);
    RULE(desc->index < pool->count && !(pool->taken >> desc->index & 1),
         ZE_RESULT_ERROR_INVALID_ARGUMENT);
    *event = mock_new(MOCK_EVENT, sizeof **event, (ze_context_handle_t)(void *)pool->head.context);
    (*event)->pool = pool;
    (*event)->index = desc->index;
    pool->taken |= 1u << desc->index;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeEventDestroy(ze_event_handle_t event)
{
    END();
    LIVE(event, MOCK_EVENT);
    RULE(!event->waiting, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    event->pool->taken &= ~(1u << event->index);
    mock_end(event);
    LEAVE(ZE_RESULT_SUCCESS);
}
/* One that nobody signals would never come. */
ze_result_t zeEventHostSynchronize(ze_event_handle_t event, uint64_t nanoseconds)
{
    ENTER();
    LIVE(event, MOCK_EVENT);
    if (!event->signalled) work();
    RULE(event->signalled || levelzero_mock.hangs || levelzero_mock.slow,
         ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
    LEAVE(waited(event->signalled, nanoseconds));
}
ze_result_t zeEventHostReset(ze_event_handle_t event)
{
    ENTER();
    LIVE(event, MOCK_EVENT);
    RULE(event->signalled || !event->waiting, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
    event->signalled = false;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t event,
                                        ze_kernel_timestamp_result_t *times)
{
    ENTER();
    LIVE(event, MOCK_EVENT);
    NOT_NULL(times);
    RULE(event->pool->times, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (!event->signalled) LEAVE(ZE_RESULT_NOT_READY);
    const uint32_t bits = levelzero_mock.time_bits;
    times->global.kernelStart = times->global.kernelEnd = event->time & ((1ull << bits) - 1);
    times->context = times->global;
    LEAVE(ZE_RESULT_SUCCESS);
}
