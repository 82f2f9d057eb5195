#include "cuda_mock_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample_kernels.h"

/* ---- streams */

static CUresult check_stream(const Owned *stream)
{
    bool named = (uintptr_t)stream <= 2; /* the legacy stream, the thread's */
    return named || stream->context == CURRENT ? OK : INVALID_HANDLE;
}

/* ---- graphs: what a captured stream was asked to do, to be done when the graph is launched */

typedef struct Node {
    Kernel *kernel; /* NULL: a memset */
    unsigned grid[3];
    uint64_t slots[128];
    CUdeviceptr at;
    size_t bytes;
    unsigned char value;
} Node;
typedef struct Graph {
    Node nodes[16];
    int count;
} Graph;

static Graph *graph_of(const Owned *stream)
{
    return (uintptr_t)stream <= 2 ? NULL : stream->graph;
}

static Node *new_node(const Owned *stream)
{
    Graph *graph = graph_of(stream);
    return graph->count < 16 ? &graph->nodes[graph->count++] : NULL;
}

static void run_kernel(const Kernel *kernel, const unsigned *grid, const uint64_t *slots)
{
    for (unsigned z = 0; kernel->host && z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) kernel->host(slots, x, y, z);
}

static CUresult capture_launch(const Owned *stream, Kernel *kernel, const unsigned *grid,
                               const uint64_t *slots)
{
    Node *node = new_node(stream);
    bool backward = kernel->host == sample_gradients || kernel->host == sample_move_sums;
    if (!node) return OUT_OF_MEMORY;
    node->kernel = kernel;
    memcpy(node->grid, grid, sizeof node->grid);
    memcpy(node->slots, slots, (backward ? (int)BACKWARD_SLOTS : (int)SLOTS) * sizeof *slots);
    return OK;
}

static CUresult capture_memset(const Owned *stream, CUdeviceptr at, unsigned char value,
                               size_t bytes)
{
    Node *node = new_node(stream);
    if (!node) return OUT_OF_MEMORY;
    *node = (Node){.at = at, .value = value, .bytes = bytes};
    return OK;
}

MOCK_API CUresult cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)mode;
    ENTER("cuStreamBeginCapture", true);
    if ((uintptr_t)stream <= 2) return CAPTURE; /* the legacy stream is nobody's */
    ((Owned *)stream)->graph = calloc(1, sizeof(Graph));
    cuda_mock.capturing = 1;
    return OK;
}

MOCK_API CUresult cuStreamEndCapture(void *stream, void **graph)
{
    ENTER("cuStreamEndCapture", true);
    *graph = ((Owned *)stream)->graph;
    ((Owned *)stream)->graph = NULL;
    cuda_mock.capturing = 0;
    return OK;
}

MOCK_API CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    *exec = calloc(1, sizeof(Graph));
    memcpy(*exec, graph, sizeof(Graph));
    return OK;
}

MOCK_API CUresult cuGraphLaunch(void *exec, void *stream)
{
    const Graph *graph = exec;
    ENTER("cuGraphLaunch", true);
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        if (node->kernel)
            run_kernel(node->kernel, node->grid, node->slots);
        else
            memset((void *)(uintptr_t)node->at, node->value, node->bytes);
    }
    return check_stream(stream);
}

MOCK_API CUresult cuGraphDestroy(void *graph)
{
    free(graph);
    return OK;
}

MOCK_API CUresult cuGraphExecDestroy(void *exec)
{
    free(exec);
    return OK;
}

/* ---- tensor maps: the driver's rules, CUDA Driver API, "Tensor Map Object Management" */

static bool encodable(uint32_t rank, const void *address, const uint64_t *sizes,
                      const uint64_t *strides, const uint32_t *box, const uint32_t *steps)
{
    bool fine = rank >= 1 && rank <= 5 && address && (uintptr_t)address % 16 == 0;
    for (uint32_t n = 0; fine && n < rank; n++) {
        fine = sizes[n] >= 1 && sizes[n] <= 1ull << 32 && box[n] >= 1 && box[n] <= 256 &&
               steps[n] == 1;
        if (n) fine = fine && strides[n - 1] % 16 == 0 && strides[n - 1] < 1ull << 40;
    }
    return fine;
}

MOCK_API CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
                                         const uint64_t *sizes, const uint64_t *strides,
                                         const uint32_t *box, const uint32_t *steps, int interleave,
                                         int swizzle, int promotion, int fill)
{
    static_assert(sizeof(MockMap) == 128, "as long as the driver's");
    ENTER("cuTensorMapEncodeTiled", true);
    if ((uintptr_t)map % 64 || interleave || !encodable(rank, address, sizes, strides, box, steps))
        return INVALID_VALUE;
    MockMap made = {.address = (uintptr_t)address,
                    .type = (uint8_t)type,
                    .rank = (uint8_t)rank,
                    .swizzle = (uint8_t)swizzle,
                    .promotion = (uint8_t)promotion,
                    .fill = (uint8_t)fill};
    for (uint32_t n = 0; n < rank; n++) {
        made.sizes[n] = sizes[n], made.box[n] = (uint16_t)box[n];
        if (n) made.strides[n - 1] = strides[n - 1];
    }
    memcpy(map, &made, sizeof made);
    return OK;
}

/* ---- launches */

typedef struct Launched {
    Kernel *kernel;
    unsigned grid[3], block[3], shared;
    void *stream, **params;
    int early;
} Launched;

static CUresult launched(const Launched *x)
{
    Kernel *f = x->kernel;
    if (f->module->context != CURRENT || check_stream(x->stream)) return INVALID_HANDLE;
    if ((uint64_t)x->block[0] * x->block[1] * x->block[2] > 1024 ||
        (int)x->shared > f->shared_allowed || x->grid[1] > 65535 || x->grid[2] > 65535)
        return INVALID_VALUE;
    if (graph_of(x->stream)) return capture_launch(x->stream, f, x->grid, x->params[0]);
    int at = atomic_fetch_add(&cuda_mock.launch_count, 1);
    if (at < MOCK_LAUNCHES) {
        MockLaunch *seen = &cuda_mock.launches[at];
        *seen = (MockLaunch){.shared_bytes = x->shared, .stream = x->stream, .early = x->early};
        memcpy(seen->grid, x->grid, sizeof seen->grid);
        memcpy(seen->block, x->block, sizeof seen->block);
        memcpy(seen->kernel, f->name, sizeof f->name);
        if (f->maps) memcpy(seen->maps, x->params[1], (size_t)f->maps);
    }
    run_kernel(f, x->grid, x->params[0]);
    return OK;
}

MOCK_API CUresult cuLaunchKernel(Kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void *stream,
                                 void **params, void **extra)
{
    (void)extra;
    if (cuda_mock.idle) return OK;
    ENTER("cuLaunchKernel", true);
    return launched(&(Launched){f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, 0});
}

/* CUlaunchConfig and CUlaunchAttribute of the driver's manual, written down a second time. */
typedef struct MockAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int allowed;
    } value;
} MockAttribute;
typedef struct MockConfig {
    unsigned gx, gy, gz, bx, by, bz, shared;
    void *stream;
    MockAttribute *attrs;
    unsigned attr_count;
} MockConfig;

MOCK_API CUresult cuLaunchKernelEx(const MockConfig *c, Kernel *f, void **params, void **extra)
{
    enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6, TAKEN_INTO_GRAPHS = 12030 };
    (void)extra;
    if (cuda_mock.idle) return OK;
    ENTER("cuLaunchKernelEx", true);
    if (c->attr_count != 1 || c->attrs[0].id != PROGRAMMATIC_STREAM_SERIALIZATION ||
        cuda_mock.driver < TAKEN_INTO_GRAPHS)
        return INVALID_VALUE;
    return launched(&(Launched){f,
                                {c->gx, c->gy, c->gz},
                                {c->bx, c->by, c->bz},
                                c->shared,
                                c->stream,
                                params,
                                c->attrs[0].value.allowed});
}

MOCK_API CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, void *stream)
{
    if (cuda_mock.idle) return OK;
    ENTER("cuMemsetD8Async", true);
    if (check_stream(stream)) return INVALID_HANDLE;
    if (graph_of(stream)) return capture_memset(stream, at, value, bytes);
    atomic_fetch_add(&cuda_mock.memsets, 1);
    memset((void *)(uintptr_t)at, value, bytes);
    return OK;
}

MOCK_API CUresult cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    ENTER("cuStreamCreate", true);
    FORBIDDEN;
    Owned *made = mock_new(sizeof *made);
    made->context = CURRENT;
    atomic_fetch_add(&cuda_mock.streams, 1);
    *stream = made;
    return OK;
}

MOCK_API CUresult cuStreamDestroy_v2(void *stream)
{
    ENTER("cuStreamDestroy", true);
    atomic_fetch_sub(&cuda_mock.streams, 1);
    mock_free(stream);
    return OK;
}

MOCK_API CUresult cuStreamSynchronize(void *stream)
{
    ENTER("cuStreamSynchronize", true);
    FORBIDDEN;
    return check_stream(stream);
}

MOCK_API CUresult cuEventCreate(void **event, unsigned flags)
{
    CUresult code = cuStreamCreate(event, flags);
    if (code != OK) return code;
    atomic_fetch_sub(&cuda_mock.streams, 1);
    atomic_fetch_add(&cuda_mock.events, 1);
    return OK;
}

MOCK_API CUresult cuEventRecord(Owned *event, void *stream)
{
    ENTER("cuEventRecord", true);
    event->recorded = atomic_fetch_add(&cuda_mock.recordings, 1) + 1;
    return check_stream(stream);
}

MOCK_API CUresult cuEventSynchronize(Owned *event)
{
    ENTER("cuEventSynchronize", true);
    FORBIDDEN;
    return event->context == CURRENT ? OK : INVALID_CONTEXT;
}

MOCK_API CUresult cuEventElapsedTime(float *milliseconds, Owned *first, Owned *last)
{
    ENTER("cuEventElapsedTime", true);
    *milliseconds = last->recorded < first->recorded ? -1.5f : 1.5f;
    return first->recorded && last->recorded ? OK : INVALID_HANDLE;
}

MOCK_API CUresult cuEventDestroy_v2(Owned *event)
{
    ENTER("cuEventDestroy", true);
    atomic_fetch_sub(&cuda_mock.events, 1);
    mock_free(event);
    return OK;
}

/* ---- memory */

MOCK_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *bytes)
{
    *unused = cuda_mock.memory_bytes / 2;
    *bytes = cuda_mock.memory_bytes;
    return OK;
}

MOCK_API CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    ENTER("cuMemAlloc", true);
    FORBIDDEN;
    if (bytes > cuda_mock.memory_bytes) return OUT_OF_MEMORY;
    *at = (CUdeviceptr)(uintptr_t)mock_new(bytes);
    mock_belongs((void *)(uintptr_t)*at, CURRENT->device);
    atomic_fetch_add(&cuda_mock.buffers, 1);
    return OK;
}

/* ---- memory of others, by file descriptor: it is mapped, and so really shared */

typedef struct External {
    int fd;
    size_t bytes;
    char *mapped, *at; /* NULL: not mapped */
} External;
static External externals[256];

/* Where the exporter's memory begins in the file: Mesa's device for processors has words of its own before it. */
static size_t external_offset(void)
{
    const char *said = getenv("MOCK_CUDA_OFFSET");
    return said ? (size_t)strtoul(said, NULL, 10) : 0;
}

static External *external_at(const void *at)
{
    for (size_t n = 0; n < sizeof externals / sizeof *externals; n++)
        if (externals[n].bytes && externals[n].at == at) return &externals[n];
    return NULL;
}

MOCK_API CUresult cuImportExternalMemory(External **memory, const MockHandle *handle)
{
    ENTER("cuImportExternalMemory", true);
    External *x = NULL;
    for (size_t n = 0; n < sizeof externals / sizeof *externals && !x; n++)
        if (!externals[n].bytes) x = &externals[n];
    if (!x || x->bytes || handle->type != 1 || handle->flags ||
        lseek(handle->handle.fd, 0, SEEK_END) < (long)handle->bytes)
        return INVALID_VALUE;
    *x = (External){.fd = handle->handle.fd, .bytes = handle->bytes};
    *memory = x;
    atomic_fetch_add(&cuda_mock.externals, 1);
    return OK;
}

MOCK_API CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *at, External *memory,
                                                  const MockPart *part)
{
    ENTER("cuExternalMemoryGetMappedBuffer", true);
    if (part->offset || part->bytes > memory->bytes) return INVALID_VALUE;
    const size_t first = external_offset();
    memory->mapped =
        mmap(NULL, first + memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (memory->mapped == MAP_FAILED) return OUT_OF_MEMORY;
    memory->at = memory->mapped + first;
    *at = (CUdeviceptr)(uintptr_t)memory->at;
    atomic_fetch_add(&cuda_mock.buffers, 1);
    return OK;
}

/* ---- timelines of others: the number lies in the file */

typedef struct Semaphore {
    int type; /* of the handle, which has no size */
    union {
        int fd;
        void *others[2];
    } handle;
    unsigned flags, reserved[16];
} Semaphore;
typedef struct SemaphorePut {
    unsigned long long value, others[8];
    unsigned flags, reserved[16];
} SemaphorePut;

MOCK_API CUresult cuImportExternalSemaphore(uint64_t **number, const Semaphore *handle)
{
    ENTER("cuImportExternalSemaphore", true);
    if (handle->type != 9 || handle->flags ||
        lseek(handle->handle.fd, 0, SEEK_END) != sizeof **number)
        return INVALID_VALUE;
    void *at =
        mmap(NULL, sizeof **number, PROT_READ | PROT_WRITE, MAP_SHARED, handle->handle.fd, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    close(handle->handle.fd);
    *number = at;
    atomic_fetch_add(&cuda_mock.externals, 1);
    return OK;
}

MOCK_API CUresult cuSignalExternalSemaphoresAsync(uint64_t *const *numbers,
                                                  const SemaphorePut *puts, unsigned count,
                                                  void *stream)
{
    ENTER("cuSignalExternalSemaphoresAsync", true);
    FORBIDDEN;
    (void)stream;
    if (count != 1 || puts->flags || puts->value <= **numbers) return INVALID_VALUE;
    **numbers = puts->value;
    return OK;
}

/* The mock's streams have done all that is on them, so what they wait for must be there. */
MOCK_API CUresult cuWaitExternalSemaphoresAsync(uint64_t *const *numbers, const SemaphorePut *puts,
                                                unsigned count, void *stream)
{
    ENTER("cuWaitExternalSemaphoresAsync", true);
    FORBIDDEN;
    (void)stream;
    return count != 1 || puts->flags || puts->value > **numbers ? INVALID_VALUE : OK;
}

MOCK_API CUresult cuDestroyExternalSemaphore(uint64_t *number)
{
    ENTER("cuDestroyExternalSemaphore", true);
    munmap(number, sizeof *number);
    atomic_fetch_sub(&cuda_mock.externals, 1);
    return OK;
}

/* Only what is mapped no longer. */
MOCK_API CUresult cuDestroyExternalMemory(External *memory)
{
    ENTER("cuDestroyExternalMemory", true);
    if (memory->at) return INVALID_VALUE;
    close(memory->fd);
    *memory = (External){0};
    atomic_fetch_sub(&cuda_mock.externals, 1);
    return OK;
}

MOCK_API CUresult cuMemFree_v2(CUdeviceptr at)
{
    ENTER("cuMemFree", true);
    FORBIDDEN;
    External *x = at ? external_at((void *)(uintptr_t)at) : NULL;
    if (x) {
        munmap(x->mapped, (size_t)(x->at - x->mapped) + x->bytes);
        x->at = NULL;
        atomic_fetch_sub(&cuda_mock.buffers, 1);
        return OK;
    }
    atomic_fetch_sub(&cuda_mock.buffers, 1);
    mock_free((void *)(uintptr_t)at);
    return OK;
}

MOCK_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyHtoDAsync", true);
    memcpy((void *)(uintptr_t)to, from, bytes);
    return check_stream(stream);
}

MOCK_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyDtoHAsync", true);
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return check_stream(stream);
}
