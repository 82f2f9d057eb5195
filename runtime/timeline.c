/* timeline.c - numbers that two drivers set and wait for (aule_timeline). */
#include "device.h"

struct aule_timeline {
    aule_device *device;
    void *number; /* the backend's */
};

static aule_status fail_shared(const aule_device *device, const char *how, AuSink sink)
{
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "%s: timelines are not %s by file descriptor on %s", device->info.id, how,
                   device->backend->name);
}

static aule_status finish(aule_timeline *made, aule_device *device, aule_timeline **timeline,
                          aule_status status)
{
    if (status) {
        rt_free(made);
        return status;
    }
    made->device = rt_device_keep(device);
    *timeline = made;
    return AULE_OK;
}

aule_status aule_timeline_export(aule_device *device, aule_timeline **timeline, int *fd,
                                 aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !timeline || !fd)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_timeline_export: device, timeline and fd must not be NULL");
    if (!device->backend->timeline_export) return fail_shared(device, "exported", sink);
    aule_timeline *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, timeline,
                  device->backend->timeline_export(device->state, &made->number, fd, sink));
}

aule_status aule_timeline_import(aule_device *device, int fd, aule_timeline **timeline,
                                 aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !timeline || fd < 0)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_timeline_import: device and timeline must not be NULL, fd %d no error",
                       fd);
    if (!device->backend->timeline_import) return fail_shared(device, "imported", sink);
    aule_timeline *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, timeline,
                  device->backend->timeline_import(device->state, fd, &made->number, sink));
}

static aule_status put(aule_timeline *timeline, void *queue, bool signals, uint64_t value,
                       aule_error **error)
{
    AuSink sink = {timeline ? timeline->device->memory : rt_memory(NULL), error};
    if (!timeline)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_timeline_%s: timeline must not be NULL",
                       signals ? "signal" : "wait");
    const aule_device *device = timeline->device;
    return device->backend->timeline_put(device->state, timeline->number, queue, signals, value,
                                         sink);
}

aule_status aule_timeline_signal(aule_timeline *timeline, void *queue, uint64_t value,
                                 aule_error **error)
{
    return put(timeline, queue, true, value, error);
}

aule_status aule_timeline_wait(aule_timeline *timeline, void *queue, uint64_t value,
                               aule_error **error)
{
    return put(timeline, queue, false, value, error);
}

uint64_t aule_timeline_handle(const aule_timeline *timeline)
{
    if (!timeline || !timeline->device->backend->timeline_handle) return 0;
    return timeline->device->backend->timeline_handle(timeline->number);
}

void aule_timeline_free(aule_timeline *timeline)
{
    if (!timeline) return;
    aule_device *device = timeline->device;
    device->backend->timeline_free(device->state, timeline->number);
    rt_free(timeline);
    rt_device_release(device);
}
