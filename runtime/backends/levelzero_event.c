/* levelzero_event.c - events with time stamps: taken from pools of 32, given back to be used again. A point of aule_event is a barrier that
 * signals one; its time is that of the barrier's end, as zeEventQueryKernelTimestamp has it. */
#include "levelzero.h"

/* ---- pools */

static aule_status make_pool(LevelZero *z, AuSink sink)
{
    const ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                                ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                       .count = ZE_POOL};
    ZePool *made = rt_alloc(z->heap, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    const ze_result_t code =
        z->ze.zeEventPoolCreate(z->context, &desc, 1, &z->at.device, &made->pool);
    if (code != ZE_RESULT_SUCCESS) {
        rt_free(made);
        return rt_ze_check(z, sink, "zeEventPoolCreate", code);
    }
    made->next = z->pools;
    z->pools = made;
    return AULE_OK;
}

aule_status rt_ze_take(LevelZero *z, ze_event_handle_t *event, AuSink sink)
{
    ZePool *pool = z->pools;
    while (pool && pool->taken == UINT32_MAX) pool = pool->next;
    if (!pool) {
        aule_status status = make_pool(z, sink);
        if (status) return status;
        pool = z->pools;
    }
    uint32_t n = 0;
    while (pool->taken >> n & 1) n++;
    if (!pool->events[n]) {
        const ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                      .index = n,
                                      .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                      .wait = ZE_EVENT_SCOPE_FLAG_DEVICE};
        const ze_result_t code = z->ze.zeEventCreate(pool->pool, &desc, &pool->events[n]);
        if (code != ZE_RESULT_SUCCESS) {
            pool->events[n] = NULL;
            return rt_ze_check(z, sink, "zeEventCreate", code);
        }
    }
    pool->taken |= 1u << n;
    *event = pool->events[n];
    return AULE_OK;
}

/* One that cannot be reset is not used again. */
void rt_ze_give(LevelZero *z, ze_event_handle_t event)
{
    for (ZePool *pool = z->pools; pool; pool = pool->next)
        for (uint32_t n = 0; n < ZE_POOL; n++)
            if (pool->events[n] == event) {
                if (z->ze.zeEventHostReset(event) == ZE_RESULT_SUCCESS) pool->taken &= ~(1u << n);
                return;
            }
}

void rt_ze_events_end(LevelZero *z)
{
    while (z->pools) {
        ZePool *pool = z->pools;
        z->pools = pool->next;
        for (uint32_t n = 0; n < ZE_POOL; n++)
            if (pool->events[n]) z->ze.zeEventDestroy(pool->events[n]);
        z->ze.zeEventPoolDestroy(pool->pool);
        rt_free(pool);
    }
}

/* ---- points */

typedef struct Point {
    LevelZero *owner;
    ze_event_handle_t event; /* NULL: it was not put */
    bool
        owners_business; /* the list is executed by its owner, who must have done that before this ends */
} Point;

/* [done]: it is there, or nothing will signal it. */
static void free_point(Point *point, bool done)
{
    LevelZero *z = point->owner;
    pthread_mutex_lock(&z->lock);
    if (point->event && done) rt_ze_give(z, point->event);
    pthread_mutex_unlock(&z->lock);
    rt_free(point);
}

aule_status rt_ze_event_record(void *state, void *queue, void **event, AuSink sink)
{
    LevelZero *z = state;
    ZeWork work;
    if (!z->facts.of.kernelTimestampValidBits)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "levelzero:%u: the device has no time stamps",
                       z->index);
    Point *point = rt_alloc(z->heap, sizeof *point);
    if (!point) return rt_fail_memory(sink);
    point->owner = z;
    point->owners_business = queue && z->kind == AULE_QUEUE_RECORDED;
    aule_status status = rt_ze_open(z, queue, &work, sink);
    if (!status) {
        status = rt_ze_take(z, &point->event, sink);
        if (!status) status = rt_ze_order(z, &work, point->event, sink);
        status = rt_ze_put(z, &work, status, sink);
    }
    if (!status)
        *event = point;
    else
        free_point(point, true);
    return status;
}

aule_status rt_ze_event_wait(void *event, AuSink sink)
{
    const Point *point = event;
    LevelZero *z = point->owner;
    aule_status status = rt_ze_alive(z, sink);
    return status ? status : rt_ze_wait(z, point->event, NULL, sink);
}

static int64_t nanoseconds_of(const ZeFacts *f, uint64_t first, uint64_t last)
{
    const uint32_t bits = f->of.kernelTimestampValidBits,
                   unused = bits < 64 ? 64 - bits : 0; /* counters wrap around */
    const int64_t ticks = (int64_t)((last - first) << unused) >> unused;
    const double each = f->of.stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2
                            ? 1e9 / (double)(f->of.timerResolution ? f->of.timerResolution : 1)
                            : (double)f->of.timerResolution;
    return (int64_t)((double)ticks * each);
}

aule_status rt_ze_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink)
{
    const Point *points[2] = {first, last};
    uint64_t times[2];
    LevelZero *z = points[0]->owner;
    for (uint32_t n = 0; n < 2; n++) {
        ze_kernel_timestamp_result_t time;
        aule_status status = rt_ze_event_wait(n ? last : first, sink);
        if (!status)
            status = rt_ze_check(z, sink, "zeEventQueryKernelTimestamp",
                                 z->ze.zeEventQueryKernelTimestamp(points[n]->event, &time));
        if (status) return status;
        times[n] = time.global.kernelEnd;
    }
    *nanoseconds = nanoseconds_of(&z->facts, times[0], times[1]);
    return AULE_OK;
}

void rt_ze_event_free(void *event)
{
    Point *point = event;
    const AuSink quiet = {.memory = point->owner->heap};
    free_point(point, point->owners_business || rt_ze_event_wait(point, quiet) == AULE_OK);
}
