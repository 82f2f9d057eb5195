/* cuda_timeline.c - timeline semaphores that another driver exported, as Vulkan's of vulkan_timeline.c on the same GPU: streams set them and wait
 * for them. */
#include "cuda.h"

#include <fcntl.h>
#include <unistd.h>

static bool has_them(const Cuda *c)
{
    return c->cu.cuImportExternalSemaphore && c->cu.cuSignalExternalSemaphoresAsync &&
           c->cu.cuWaitExternalSemaphoresAsync && c->cu.cuDestroyExternalSemaphore;
}

/* The driver closes what it takes, so it gets a descriptor of its own. */
static aule_status take(Cuda *c, int fd, void **timeline, AuSink sink)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return rt_fail(sink, AULE_ERROR_USAGE, "%s:%u: %d is no open file descriptor",
                       c->kind->name, c->index, fd);
    const CUexternalSemaphoreHandle handle = {.type = CU_EXTERNAL_TIMELINE_FD, .handle.fd = own};
    CUexternalSemaphore made = NULL;
    const CUresult code = c->cu.cuImportExternalSemaphore(&made, &handle);
    if (code != 0) {
        close(own);
        return rt_cuda_check(c, sink, "cuImportExternalSemaphore", code);
    }
    *timeline = made;
    return AULE_OK;
}

aule_status rt_cuda_timeline_import(void *state, int fd, void **timeline, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    if (!has_them(c))
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "%s:%u: the driver has no semaphores by file descriptor", c->kind->name,
                       c->index);
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = take(c, fd, timeline, sink);
    rt_cuda_leave(c, pushed);
    return status;
}

aule_status rt_cuda_timeline_put(void *state, void *timeline, void *queue, bool signals,
                                 uint64_t value, AuSink sink)
{
    Cuda *c = state;
    const CUexternalSemaphore semaphore = timeline;
    const CUexternalSemaphorePut put = {.value = value};
    const CUstream stream = rt_cuda_stream(c, queue);
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    if (signals)
        status = rt_cuda_check(c, sink, "cuSignalExternalSemaphoresAsync",
                               c->cu.cuSignalExternalSemaphoresAsync(&semaphore, &put, 1, stream));
    else
        status = rt_cuda_check(c, sink, "cuWaitExternalSemaphoresAsync",
                               c->cu.cuWaitExternalSemaphoresAsync(&semaphore, &put, 1, stream));
    rt_cuda_leave(c, pushed);
    return status;
}

void rt_cuda_timeline_free(void *state, void *timeline)
{
    Cuda *c = state;
    bool pushed;
    const AuSink quiet = {c->memory, NULL};
    if (rt_cuda_enter(c, &pushed, quiet)) return; /* the context is lost, and that with it */
    c->cu.cuDestroyExternalSemaphore(timeline);
    rt_cuda_leave(c, pushed);
}
