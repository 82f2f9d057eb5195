/* levelzero_queue.c - where work goes: on the device's own immediate list, on a list of the caller's (immediate, or one that its owner
 * executes), or by a list of our ring on a queue of the caller's. Commands of a list may run in any order but for barriers, so each of ours
 * has one before it, and a run on a list of the caller's one behind it. */
#include "levelzero.h"

/* ---- lists that are executed on queues */

static aule_status make_list(LevelZero *z, ZeCommands *c, AuSink sink)
{
    const ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = z->facts.ordinal};
    aule_status status = c->done ? AULE_OK : rt_ze_take(z, &c->done, sink);
    if (status || c->list) return status;
    const ze_result_t code = z->ze.zeCommandListCreate(z->context, z->at.device, &desc, &c->list);
    if (code != ZE_RESULT_SUCCESS) c->list = NULL;
    return rt_ze_check(z, sink, "zeCommandListCreate", code);
}

/* Waits for what it was used for, and empties it. */
static aule_status use_again(LevelZero *z, ZeCommands *c, AuSink sink)
{
    if (!c->put) return AULE_OK;
    aule_status status = rt_ze_wait(z, c->done, NULL, sink);
    if (status) return status;
    ze_result_t code = z->ze.zeCommandListReset(c->list);
    if (code) return rt_ze_check(z, sink, "zeCommandListReset", code);
    code = z->ze.zeEventHostReset(c->done); /* last: until then all of this can be done again */
    c->put = code != ZE_RESULT_SUCCESS;
    return rt_ze_check(z, sink, "zeEventHostReset", code);
}

static aule_status execute(LevelZero *z, ZeWork *work, AuSink sink)
{
    aule_status status = rt_ze_order(z, work, work->commands->done, sink);
    if (status) return status;
    ze_result_t code = z->ze.zeCommandListClose(work->list);
    if (code) return rt_ze_check(z, sink, "zeCommandListClose", code);
    code = z->ze.zeCommandQueueExecuteCommandLists(work->queue, 1, &work->list, NULL);
    work->commands->put = code == ZE_RESULT_SUCCESS;
    return rt_ze_check(z, sink, "zeCommandQueueExecuteCommandLists", code);
}

void rt_ze_queue_end(LevelZero *z)
{
    for (uint32_t n = 0; n < ZE_RING; n++) {
        const ZeCommands *c = &z->ring[n];
        if (c->list) z->ze.zeCommandListDestroy(c->list);
        if (c->done) rt_ze_give(z, c->done);
    }
    if (z->own) z->ze.zeCommandListDestroy(z->own);
}

/* ---- work */

aule_status rt_ze_open(LevelZero *z, void *queue, ZeWork *work, AuSink sink)
{
    aule_status status = rt_ze_alive(z, sink);
    if (status) return status;
    *work = (ZeWork){.list = queue ? queue : z->own,
                     .by_owner = queue && z->kind == AULE_QUEUE_RECORDED};
    pthread_mutex_lock(&z->lock);
    if (!queue || z->kind != AULE_QUEUE_COMMANDS) return AULE_OK;
    ZeCommands *c = &z->ring[z->turn++ % ZE_RING];
    status = use_again(z, c, sink);
    if (!status) status = make_list(z, c, sink);
    *work = (ZeWork){.list = c->list, .queue = queue, .commands = c};
    if (status) pthread_mutex_unlock(&z->lock);
    return status;
}

/* What begins writes the time for those who wait. Not on lists that their owner executes: nobody waits for these here. */
static aule_status mark(LevelZero *z, const ZeWork *work, AuSink sink)
{
    if (work->by_owner) return AULE_OK;
    return rt_ze_check(z, sink, "zeCommandListAppendWriteGlobalTimestamp",
                       z->ze.zeCommandListAppendWriteGlobalTimestamp(
                           work->list, (uint64_t *)(uintptr_t)z->at_work, NULL, 0, NULL));
}

aule_status rt_ze_order(LevelZero *z, const ZeWork *work, ze_event_handle_t signal, AuSink sink)
{
    aule_status status = rt_ze_check(z, sink, "zeCommandListAppendBarrier",
                                     z->ze.zeCommandListAppendBarrier(work->list, signal, 0, NULL));
    return status || signal ? status : mark(z, work, sink);
}

aule_status rt_ze_put(LevelZero *z, ZeWork *work, aule_status status, AuSink sink)
{
    if (work->queue && !status) status = execute(z, work, sink);
    if (work->queue && status) z->ze.zeCommandListReset(work->list);
    pthread_mutex_unlock(&z->lock);
    return status;
}

/* On a queue lists of the ring end so by themselves. */
aule_status rt_ze_behind(void *state, void *queue, AuSink sink)
{
    LevelZero *z = state;
    ZeWork work;
    if (!queue || z->kind == AULE_QUEUE_COMMANDS) return AULE_OK;
    aule_status status = rt_ze_open(z, queue, &work, sink);
    if (status) return status;
    status = rt_ze_check(z, sink, "zeCommandListAppendBarrier",
                         z->ze.zeCommandListAppendBarrier(work.list, NULL, 0, NULL));
    return rt_ze_put(z, &work, status, sink);
}

/* ---- waiting */

static ze_result_t wait_once(const LevelZero *z, ze_event_handle_t event,
                             ze_command_queue_handle_t queue, uint64_t nanoseconds)
{
    return event ? z->ze.zeEventHostSynchronize(event, nanoseconds)
                 : z->ze.zeCommandQueueSynchronize(queue, nanoseconds);
}

aule_status rt_ze_wait(LevelZero *z, ze_event_handle_t event, ze_command_queue_handle_t queue,
                       AuSink sink)
{
    ze_result_t code;
    for (uint64_t before = 0, known = 0;; known = 1) {
        const uint64_t patience = atomic_load(&z->hung) ? 0 : z->patience;
        code = wait_once(z, event, queue, patience);
        const uint64_t now = *z->at_work;
        if (code != ZE_RESULT_NOT_READY || !patience || (known && now == before)) break;
        before = now;
    }
    if (code != ZE_RESULT_NOT_READY)
        return rt_ze_check(z, sink, event ? "zeEventHostSynchronize" : "zeCommandQueueSynchronize",
                           code);
    ze_event_handle_t none = NULL;
    if (!atomic_load(&z->hung)) atomic_compare_exchange_strong(&z->awaited, &none, event);
    atomic_store(&z->hung, true);
    atomic_store(&z->lost, ZE_RESULT_ERROR_DEVICE_LOST);
    return rt_fail_hung(sink, "levelzero", z->index, ZE_PATIENCE, z->patience);
}

/* An event behind all that is on a list which executes by itself. The lock is held, but not while it is waited for. */
static aule_status wait_list(LevelZero *z, const ZeWork *work, bool hold, AuSink sink)
{
    ze_event_handle_t done;
    aule_status status = rt_ze_take(z, &done, sink);
    if (status) return status;
    status = rt_ze_order(z, work, done, sink);
    if (status) {
        rt_ze_give(z, done);
        return status;
    }
    if (!hold) pthread_mutex_unlock(&z->lock);
    status = rt_ze_wait(z, done, NULL, sink);
    if (!hold) pthread_mutex_lock(&z->lock);
    if (!status) rt_ze_give(z, done); /* else it may still come, and is not used again */
    return status;
}

aule_status rt_ze_wait_own(LevelZero *z, const ZeWork *work, AuSink sink)
{
    return wait_list(z, work, true, sink);
}

aule_status rt_ze_synchronize(void *state, void *queue, AuSink sink)
{
    LevelZero *z = state;
    ZeWork work;
    if (queue && z->kind == AULE_QUEUE_RECORDED)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "levelzero:%u: a command list that its owner executes cannot be waited for "
                       "here; wait for the queue on which it was put",
                       z->index);
    if (queue && z->kind == AULE_QUEUE_COMMANDS) {
        aule_status status = rt_ze_alive(z, sink);
        return status ? status : rt_ze_wait(z, NULL, queue, sink);
    }
    aule_status status = rt_ze_open(z, queue, &work, sink);
    if (status) return status;
    status = wait_list(z, &work, false, sink);
    return rt_ze_put(z, &work, status, sink);
}

static aule_status wait_ring(LevelZero *z, AuSink sink)
{
    aule_status status = AULE_OK;
    pthread_mutex_lock(&z->lock);
    for (uint32_t n = 0; n < ZE_RING && !status; n++) status = use_again(z, &z->ring[n], sink);
    pthread_mutex_unlock(&z->lock);
    return status;
}

/* Has a device that was taken for hung done what it was given after all? */
static bool came_back(LevelZero *z)
{
    const AuSink quiet = {.memory = z->heap};
    const ze_event_handle_t awaited = atomic_load(&z->awaited);
    pthread_mutex_lock(&z->lock);
    bool back = !awaited || z->ze.zeEventHostSynchronize(awaited, 0) == ZE_RESULT_SUCCESS;
    if (back) atomic_store(&z->awaited, NULL);
    if (back && !z->behind && !rt_ze_take(z, &z->behind, quiet) &&
        rt_ze_order(z, &(ZeWork){.list = z->own}, z->behind, quiet)) {
        rt_ze_give(z, z->behind);
        z->behind = NULL;
    }
    back = back && z->behind &&
           z->ze.zeEventHostSynchronize(z->behind, z->patience) == ZE_RESULT_SUCCESS;
    for (uint32_t n = 0; n < ZE_RING && back; n++) back = !use_again(z, &z->ring[n], quiet);
    pthread_mutex_unlock(&z->lock);
    if (back) atomic_store(&z->hung, false); /* lost it stays */
    return back;
}

/* What could not be waited for, since memory was short, say, may be so the second time. */
bool rt_ze_idle(LevelZero *z)
{
    const AuSink quiet = {.memory = z->heap};
    aule_status status = AULE_ERROR_DRIVER;
    for (int n = 0; n < 2 && status && z->own && !atomic_load(&z->lost); n++) {
        status = rt_ze_synchronize(z, NULL, quiet);
        if (!status) status = wait_ring(z, quiet);
    }
    return !atomic_load(&z->hung) || came_back(z);
}

aule_status rt_ze_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                       AuSink sink)
{
    LevelZero *z = state;
    const uint8_t nothing = 0;
    ZeWork work;
    aule_status status = bytes ? rt_ze_open(z, queue, &work, sink) : AULE_OK;
    if (status || !bytes) return status;
    status = rt_ze_order(z, &work, NULL, sink);
    if (!status)
        status = rt_ze_check(z, sink, "zeCommandListAppendMemoryFill",
                             z->ze.zeCommandListAppendMemoryFill(work.list, (char *)data + offset,
                                                                 &nothing, sizeof nothing,
                                                                 (size_t)bytes, NULL, 0, NULL));
    return rt_ze_put(z, &work, status, sink);
}
