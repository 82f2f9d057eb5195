/* buffer.c - memory of devices, waiting, and events. */
#include <time.h>
#include <unistd.h>

#include "device.h"

struct aule_buffer {
    aule_device *device;
    void *data;
    uint64_t bytes;
};

/* Of [made], which is given back where [status] says that there is no memory. */
static aule_status finish(aule_buffer *made, aule_device *device, uint64_t bytes,
                          aule_buffer **buffer, aule_status status)
{
    if (status) {
        rt_free(made);
        return status;
    }
    made->device = rt_device_keep(device);
    made->bytes = bytes;
    *buffer = made;
    return AULE_OK;
}

aule_status aule_buffer_new(aule_device *device, uint64_t bytes, aule_buffer **buffer,
                            aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !buffer)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_buffer_new: device and buffer must not be NULL");
    aule_buffer *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, bytes, buffer,
                  device->backend->buffer_new(device->state, bytes ? bytes : 1, &made->data, sink));
}

static aule_status fail_shared(const aule_device *device, AuSink sink)
{
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "%s: memory is not shared by file descriptor on %s", device->info.id,
                   device->backend->name);
}

aule_status aule_buffer_export(aule_device *device, uint64_t bytes, aule_buffer **buffer, int *fd,
                               uint64_t *fd_bytes, aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !buffer || !fd || !fd_bytes)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_buffer_export: device, buffer, fd and fd_bytes must not be NULL");
    if (!device->backend->buffer_export) return fail_shared(device, sink);
    aule_buffer *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, bytes, buffer,
                  device->backend->buffer_export(device->state, bytes ? bytes : 1, &made->data, fd,
                                                 fd_bytes, sink));
}

aule_status aule_buffer_import(aule_device *device, int fd, uint64_t fd_bytes, aule_buffer **buffer,
                               aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !buffer || fd < 0 || !fd_bytes)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_buffer_import: device and buffer must not be NULL, fd %d no error and "
                       "fd_bytes %llu not 0",
                       fd, (unsigned long long)fd_bytes);
    if (!device->backend->buffer_import) return fail_shared(device, sink);
    aule_buffer *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, fd_bytes, buffer,
                  device->backend->buffer_import(device->state, fd, fd_bytes, &made->data, sink));
}

aule_status aule_buffer_host(aule_device *device, void *memory, uint64_t bytes,
                             aule_buffer **buffer, aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!device || !buffer || !memory || !bytes)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_buffer_host: device, memory, bytes and buffer must not be NULL or 0");
    if ((uintptr_t)memory % page || bytes % page || bytes > UINTPTR_MAX - (uintptr_t)memory)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_buffer_host: %llu bytes at %p are no whole pages of %llu",
                       (unsigned long long)bytes, memory, (unsigned long long)page);
    if (!device->backend->buffer_host)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "%s: memory of the process is no buffer on %s: copy it into one",
                       device->info.id, device->backend->name);
    aule_buffer *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    return finish(made, device, bytes, buffer,
                  device->backend->buffer_host(device->state, memory, bytes, &made->data, sink));
}

void aule_buffer_free(aule_buffer *buffer)
{
    if (!buffer) return;
    aule_device *device = buffer->device;
    device->backend->buffer_free(device->state, buffer->data);
    rt_free(buffer);
    rt_device_release(device);
}

void *aule_buffer_data(const aule_buffer *buffer) { return buffer ? buffer->data : NULL; }
uint64_t aule_buffer_bytes(const aule_buffer *buffer) { return buffer ? buffer->bytes : 0; }

static aule_status check_copy(const aule_buffer *buffer, const void *host, uint64_t offset,
                              uint64_t bytes, AuSink sink)
{
    if (!buffer || !host)
        return rt_fail(sink, AULE_ERROR_USAGE, "a copy's buffer and memory must not be NULL");
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return AULE_OK;
    return rt_fail(
        sink, AULE_ERROR_USAGE, "a copy of %llu bytes at %llu does not fit a buffer of %llu",
        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
}

aule_status aule_buffer_upload(aule_buffer *buffer, uint64_t offset, const void *from,
                               uint64_t bytes, aule_error **error)
{
    AuSink sink = {buffer ? buffer->device->memory : rt_memory(NULL), error};
    aule_status status = check_copy(buffer, from, offset, bytes, sink);
    if (status || bytes == 0) return status;
    return buffer->device->backend->upload(buffer->device->state, buffer->data, offset, from, bytes,
                                           sink);
}

aule_status aule_buffer_download(const aule_buffer *buffer, uint64_t offset, void *to,
                                 uint64_t bytes, aule_error **error)
{
    AuSink sink = {buffer ? buffer->device->memory : rt_memory(NULL), error};
    aule_status status = check_copy(buffer, to, offset, bytes, sink);
    if (status || bytes == 0) return status;
    return buffer->device->backend->download(buffer->device->state, buffer->data, offset, to, bytes,
                                             sink);
}

aule_status aule_device_synchronize(aule_device *device, void *queue, aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_device_synchronize: device must not be NULL");
    return device->backend->synchronize ? device->backend->synchronize(device->state, queue, sink)
                                        : AULE_OK;
}

/* ---- events */

struct aule_event {
    aule_device *device;
    void *point; /* the backend's */
    uint64_t
        nanoseconds; /* the host's clock, for backends whose work is done when a launch returns */
};

static uint64_t host_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

aule_status aule_event_record(aule_device *device, void *queue, aule_event **event,
                              aule_error **error)
{
    AuSink sink = {device ? device->memory : rt_memory(NULL), error};
    if (!device || !event)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_event_record: device and event must not be NULL");
    aule_event *made = rt_alloc(sink.memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    const AuBackend *backend = device->backend;
    aule_status status = backend->event_record
                             ? backend->event_record(device->state, queue, &made->point, sink)
                             : AULE_OK;
    if (status) {
        rt_free(made);
        return status;
    }
    made->nanoseconds = host_clock();
    made->device = rt_device_keep(device);
    *event = made;
    return AULE_OK;
}

aule_status aule_event_wait(aule_event *event, aule_error **error)
{
    AuSink sink = {event ? event->device->memory : rt_memory(NULL), error};
    if (!event) return rt_fail(sink, AULE_ERROR_USAGE, "aule_event_wait: event must not be NULL");
    return event->point ? event->device->backend->event_wait(event->point, sink) : AULE_OK;
}

aule_status aule_event_elapsed(aule_event *first, aule_event *last, uint64_t *nanoseconds,
                               aule_error **error)
{
    AuSink sink = {first ? first->device->memory : rt_memory(NULL), error};
    if (!first || !last || !nanoseconds || first->device != last->device)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_event_elapsed: expected two events of one device");
    int64_t elapsed = (int64_t)(last->nanoseconds - first->nanoseconds);
    aule_status status = AULE_OK;
    if (first->point)
        status = first->device->backend->event_elapsed(first->point, last->point, &elapsed, sink);
    if (!status && elapsed < 0)
        status = rt_fail(sink, AULE_ERROR_USAGE,
                         "aule_event_elapsed: the first event is %lld ns after the last",
                         -(long long)elapsed);
    if (!status) *nanoseconds = (uint64_t)elapsed;
    return status;
}

void aule_event_free(aule_event *event)
{
    if (!event) return;
    aule_device *device = event->device;
    if (event->point) device->backend->event_free(event->point);
    rt_free(event);
    rt_device_release(device);
}
