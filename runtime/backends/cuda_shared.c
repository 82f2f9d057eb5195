/* cuda_shared.c - memory that another driver allocated and exported by a file descriptor, as Vulkan's of vulkan_shared.c on the same GPU: CUDA maps
 * all of it as a buffer. */
#include "cuda.h"

#include <fcntl.h>
#include <unistd.h>

struct CudaShared {
    CUexternalMemory memory;
    void *data;
    struct CudaShared *next;
};

static aule_status fail(Cuda *c, const char *call, CUresult code, uint64_t bytes, AuSink sink)
{
    AuText more = {.memory = c->memory};
    rt_text_add(&more, "; the file descriptor, %llu bytes", (unsigned long long)bytes);
    const aule_status status =
        rt_cuda_fail(c, sink, AULE_ERROR_DRIVER, call, code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

/* The driver closes what it takes, so it gets a descriptor of its own. */
static aule_status take(Cuda *c, int fd, uint64_t bytes, CUexternalMemory *memory, AuSink sink)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return rt_fail(sink, AULE_ERROR_USAGE, "%s:%u: %d is no open file descriptor",
                       c->kind->name, c->index, fd);
    const CUexternalMemoryHandle handle = {
        .type = CU_EXTERNAL_MEMORY_FD, .handle.fd = own, .bytes = bytes};
    const CUresult code = c->cu.cuImportExternalMemory(memory, &handle);
    if (code == 0) return AULE_OK;
    close(own);
    return fail(c, "cuImportExternalMemory", code, bytes, sink);
}

static aule_status map(Cuda *c, CUexternalMemory memory, uint64_t bytes, void **data, AuSink sink)
{
    const CUexternalMemoryPart all = {.bytes = bytes};
    CUdeviceptr at = 0;
    const CUresult code = c->cu.cuExternalMemoryGetMappedBuffer(&at, memory, &all);
    if (code != 0) return fail(c, "cuExternalMemoryGetMappedBuffer", code, bytes, sink);
    *data = (void *)(uintptr_t)at;
    return AULE_OK;
}

aule_status rt_cuda_buffer_import(void *state, int fd, uint64_t bytes, void **data, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    if (!c->cu.cuImportExternalMemory || !c->cu.cuExternalMemoryGetMappedBuffer ||
        !c->cu.cuDestroyExternalMemory)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "%s:%u: the driver has no memory by file descriptor", c->kind->name,
                       c->index);
    CudaShared *made = rt_alloc(c->memory, sizeof *made);
    if (!made) return rt_fail_memory(sink);
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) {
        rt_free(made);
        return status;
    }
    status = take(c, fd, bytes, &made->memory, sink);
    if (!status) {
        status = map(c, made->memory, bytes, &made->data, sink);
        if (status) c->cu.cuDestroyExternalMemory(made->memory);
    }
    rt_cuda_leave(c, pushed);
    if (status) {
        rt_free(made);
        return status;
    }
    *data = made->data;
    pthread_mutex_lock(&c->lock);
    made->next = c->shared, c->shared = made;
    pthread_mutex_unlock(&c->lock);
    return AULE_OK;
}

void rt_cuda_shared_end(Cuda *c, const void *data)
{
    CudaShared *found = NULL;
    pthread_mutex_lock(&c->lock);
    for (CudaShared **at = &c->shared; *at; at = &(*at)->next)
        if ((*at)->data == data) {
            found = *at, *at = found->next;
            break;
        }
    pthread_mutex_unlock(&c->lock);
    if (!found) return;
    c->cu.cuDestroyExternalMemory(found->memory);
    rt_free(found);
}
