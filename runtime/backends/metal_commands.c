/* metal_commands.c - command buffers: what is encoded goes into one, which is committed at once unless it is the caller's. Those that were
 * committed are remembered until somebody saw them done, since a kernel's fault is told by its command buffer alone. */
#include "metal.h"

static bool is_recorded(const Metal *d, const void *queue) { return d->recorded && queue; }

static const void *named(const Metal *d, const void *queue) { return queue ? queue : d->queue; }

aule_status rt_metal_check_device(const Metal *d, MetalId object, const char *what,
                                  aule_status status, AuSink sink)
{
    const MetalApi *m = &d->api;
    MetalId other = METAL_GET(m, object, device);
    /* the same GPU may have more than one object */
    if (other == d->device ||
        (other && METAL_GET(m, other, registry) == METAL_GET(m, d->device, registry)))
        return AULE_OK;
    AuText name = {.memory = d->memory};
    rt_text_add(&name, "%s", other ? rt_metal_words(m, METAL_GET(m, other, name)) : "no device");
    status = rt_fail(sink, status, "metal:%u: %s is of '%s', the device is '%s'", d->index, what,
                     rt_text_str(&name), rt_metal_words(m, METAL_GET(m, d->device, name)));
    rt_text_free(&name);
    return status;
}

aule_status rt_metal_commands(Metal *d, void *queue, MetalId *commands, AuSink sink)
{
    const MetalApi *m = &d->api;
    if (queue) {
        const aule_status status = rt_metal_check_device(
            d, queue, d->recorded ? "the given command buffer" : "the given queue",
            AULE_ERROR_USAGE, sink);
        if (status) return status;
    }
    if (!is_recorded(d, queue)) {
        *commands = METAL_GET(m, queue ? (MetalId)queue : d->queue, commands);
        if (*commands) return AULE_OK;
        return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: commandBuffer: gave none", d->index);
    }
    *commands = queue;
    if (METAL_GET(m, *commands, status) < METAL_STATUS_COMMITTED) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_USAGE,
                   "metal:%u: the caller's command buffer is committed, nothing can be added to it",
                   d->index);
}

/* ---- what was sent; all with the lock */

static uint64_t status_of(const Metal *d, uint32_t n)
{
    return METAL_GET(&d->api, d->sent[n].commands, status);
}

static void wait_for_sent(const Metal *d, uint32_t n)
{
    METAL_GET(&d->api, d->sent[n].commands, wait);
}

static MetalSent take(Metal *d, uint32_t n)
{
    const MetalSent taken = d->sent[n];
    memmove(d->sent + n, d->sent + n + 1, (--d->sent_count - n) * sizeof *d->sent);
    return taken;
}

static void forget(Metal *d, uint32_t n) { METAL_GET(&d->api, take(d, n).commands, release); }

/* Of a queue's failures the first is told. */
static bool is_first_failure(const Metal *d, uint32_t n)
{
    if (status_of(d, n) != METAL_STATUS_ERROR) return false;
    for (uint32_t before = 0; before < n; before++)
        if (d->sent[before].queue == d->sent[n].queue && status_of(d, before) == METAL_STATUS_ERROR)
            return false;
    return true;
}

/* Up to the first that is not done. */
static void forget_done(Metal *d)
{
    for (uint32_t n = 0; n < d->sent_count && status_of(d, n) >= METAL_STATUS_COMPLETED;) {
        if (is_first_failure(d, n))
            n++;
        else
            forget(d, n);
    }
}

/* Waits for the device's own alone: what a caller's queue waits for may be a launch that is to come. */
static void make_room(Metal *d)
{
    forget_done(d);
    while (d->sent_count == METAL_SENT) {
        uint32_t n = 0;
        while (n < METAL_SENT && status_of(d, n) == METAL_STATUS_ERROR) n++;
        if (n < METAL_SENT && d->sent[n].queue == d->queue) {
            wait_for_sent(d, n);
            if (is_first_failure(d, n)) continue;
        }
        forget(d, n % METAL_SENT); /* else as many queues have failed, and nobody asks for them */
    }
}

void rt_metal_commit(Metal *d, void *queue, MetalId commands, MetalId encoder, uint64_t launch)
{
    const MetalApi *m = &d->api;
    if (encoder) METAL_GET(m, encoder, end);
    if (is_recorded(d, queue)) return;
    METAL_GET(m, commands, retain);
    pthread_mutex_lock(&d->lock);
    make_room(d);
    METAL_GET(m, commands, commit);
    d->sent[d->sent_count++] = (MetalSent){commands, named(d, queue), launch};
    pthread_mutex_unlock(&d->lock);
}

void rt_metal_forget_all(Metal *d)
{
    while (d->sent_count) {
        if (d->sent[0].queue == d->queue) wait_for_sent(d, 0);
        forget(d, 0);
    }
}

/* ---- waiting */

/* Forgets what a queue has done; its first failure, whose commands are the caller's to release. */
static MetalSent take_failure(Metal *d, const void *queue)
{
    MetalSent failure = {0};
    pthread_mutex_lock(&d->lock);
    for (uint32_t n = 0; n < d->sent_count;) {
        if (d->sent[n].queue != queue) {
            n++;
            continue;
        }
        if (queue == d->queue) wait_for_sent(d, n);
        const uint64_t status = status_of(d, n);
        if (status < METAL_STATUS_COMPLETED)
            n++;
        else if (status == METAL_STATUS_ERROR && !failure.commands)
            failure = take(d, n);
        else
            forget(d, n);
    }
    pthread_mutex_unlock(&d->lock);
    return failure;
}

static aule_status fail_commands(const Metal *d, MetalId commands, AuText *more, AuSink sink)
{
    const MetalApi *m = &d->api;
    aule_status status =
        rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: a command buffer failed: %s%s", d->index,
                rt_metal_error(m, METAL_GET(m, commands, error)), rt_text_str(more));
    rt_text_free(more);
    return status;
}

static aule_status tell_failure(Metal *d, const void *queue, uint64_t launched, AuSink sink)
{
    const MetalSent failure = take_failure(d, queue);
    AuText more = {.memory = d->memory};
    aule_status status = AULE_OK;
    if (failure.commands) {
        if (failure.launch != METAL_NO_LAUNCH) {
            rt_text_add(&more, "; it has the kernel ");
            rt_recent_name(&d->recent, failure.launch, &more);
        }
        status = fail_commands(d, failure.commands, &more, sink);
        METAL_GET(&d->api, failure.commands, release);
    }
    rt_recent_done(&d->recent, queue, launched);
    return status;
}

/* An error is told once: the device stays usable. */
aule_status rt_metal_finish(Metal *d, AuSink sink)
{
    return tell_failure(d, d->queue, rt_recent_count(&d->recent), sink);
}

aule_status rt_metal_wait(Metal *d, const void *queue, MetalId commands, AuSink sink)
{
    const MetalApi *m = &d->api;
    AuText more = {.memory = d->memory};
    METAL_GET(m, commands, wait);
    if (METAL_GET(m, commands, status) != METAL_STATUS_ERROR) return AULE_OK;
    rt_recent_tell_of(&d->recent, named(d, queue), &more);
    return fail_commands(d, commands, &more, sink);
}

aule_status rt_metal_refuse_recorded(const Metal *d, const void *queue, const char *what,
                                     AuSink sink)
{
    if (!is_recorded(d, queue)) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "metal:%u: %s; its owner commits it, waits for it and knows its times", d->index,
                   what);
}

/* Work of a queue so far: an empty command buffer behind it. What failed before it is told rather than that it did. */
static aule_status wait_for(Metal *d, void *queue, AuSink sink)
{
    MetalId commands;
    const uint64_t launched = rt_recent_count(&d->recent);
    aule_status status = rt_metal_refuse_recorded(
        d, queue, "a command buffer of the caller's cannot be waited for here", sink);
    if (!status) status = rt_metal_commands(d, queue, &commands, sink);
    if (status) return status;
    METAL_GET(&d->api, commands, commit);
    METAL_GET(&d->api, commands, wait);
    status = tell_failure(d, queue, launched, sink);
    return status ? status : rt_metal_wait(d, queue, commands, sink);
}

aule_status rt_metal_synchronize(void *state, void *queue, AuSink sink)
{
    Metal *d = state;
    void *pool = d->api.objc_autoreleasePoolPush();
    aule_status status =
        queue && queue != d->queue ? wait_for(d, queue, sink) : rt_metal_finish(d, sink);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}
