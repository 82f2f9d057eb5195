/* cuda_launch.c - launches: one parameter, the block of slots; behind it the tensor maps of kernels that have some. */
#include "cuda.h"

/* Limits of grids, CUDA programming guide, "Technical Specifications per Compute Capability"; AMD's are no less but for threads. */
enum { MOST_X = INT32_MAX, MOST_YZ = 65535 };

/* Blocks along x. */
static uint32_t most_x(const Cuda *c, const CudaKernel *kernel)
{
    const uint64_t most = c->kind->most_threads / kernel->block[0];
    return most < MOST_X ? (uint32_t)most : MOST_X;
}

static aule_status fail_grid(Cuda *c, const CudaKernel *kernel, const uint32_t *grid, AuSink sink)
{
    return rt_fail(
        sink, AULE_ERROR_UNSUPPORTED,
        "%s:%u: a grid of %u x %u x %u blocks of %s, at most %u x %d x %d can be launched",
        c->kind->name, c->index, grid[0], grid[1], grid[2], kernel->launch->entry,
        most_x(c, kernel), MOST_YZ, MOST_YZ);
}

/* What the kernel asked for belongs to the message, where it is this kernel that failed. Out of line: launches rarely fail. */
static __attribute__((noinline)) aule_status
fail_launch(Cuda *c, const CudaKernel *kernel, const char *call, CUresult code, AuSink sink)
{
    int registers = 0;
    AuText more = {.memory = c->memory};
    if (rt_cuda_is_loss(c, code)) return rt_cuda_check(c, sink, call, code);
    if (code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
        c->cu.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel->function);
    rt_text_add(&more, "; kernel %s, %u threads a block, %u bytes of dynamic shared memory",
                kernel->launch->entry, kernel->block[0] * kernel->block[1] * kernel->block[2],
                kernel->launch->shared_bytes);
    if (registers > 0) rt_text_add(&more, ", %d registers a thread", registers);
    rt_text_add(&more, "%s", rt_cuda_hint(c, code));
    aule_status status = rt_cuda_fail(c, sink, AULE_ERROR_DRIVER, call, code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

/* Drivers before CUDA 12.3 take no such launch into a graph. */
static bool overlaps(const Cuda *c)
{
    enum { IN_GRAPHS = 12030 };
    return c->cu.cuLaunchKernelEx && c->driver >= IN_GRAPHS;
}

static CUresult launch(const Cuda *c, const CudaKernel *kernel, const uint32_t *grid,
                       CUstream stream, void **params)
{
    return c->cu.cuLaunchKernel(kernel->function, grid[0], grid[1], grid[2], kernel->block[0],
                                kernel->block[1], kernel->block[2], kernel->launch->shared_bytes,
                                stream, params, NULL);
}

/* Begins when every block of the launch before has begun and said so (CUDA programming guide, "Programmatic Dependent Launch"). */
static CUresult launch_early(const Cuda *c, const CudaKernel *kernel, const uint32_t *grid,
                             CUstream stream, void **params)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    early.value.on = 1;
    const CUlaunchConfig config = {.grid = {grid[0], grid[1], grid[2]},
                                   .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
                                   .shared_bytes = kernel->launch->shared_bytes,
                                   .stream = stream,
                                   .attributes = &early,
                                   .attribute_count = 1};
    return c->cu.cuLaunchKernelEx(&config, kernel->function, params, NULL);
}

aule_status rt_cuda_launch(void *state, void *program, void *queue, const AuLaunch *given,
                           AuSink sink)
{
    Cuda *c = state;
    const CudaKernel *kernel = &((CudaProgram *)program)->kernels[given->index];
    const uint32_t *grid = given->grid;
    _Alignas(64) unsigned char maps[AULE_MAX_MAPS][CUDA_MAP_BYTES];
    void *params[2] = {(void *)(uintptr_t)given->slots, maps};
    bool pushed;
    if (grid[0] > most_x(c, kernel) || grid[1] > MOST_YZ || grid[2] > MOST_YZ)
        return fail_grid(c, kernel, grid, sink);
    if (!kernel->launch->slot_count) params[0] = maps;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    if (given->map_count) status = rt_cuda_maps(c, kernel, given, maps, sink);
    if (status) {
        rt_cuda_leave(c, pushed);
        return status;
    }
    const bool early = given->early && overlaps(c);
    const CUstream stream = rt_cuda_stream(c, queue);
    const CUresult code = early ? launch_early(c, kernel, grid, stream, params)
                                : launch(c, kernel, grid, stream, params);
    if (code == 0)
        rt_recent_add(&c->recent, stream, kernel->launch->entry);
    else
        status = fail_launch(c, kernel, early ? "cuLaunchKernelEx" : "cuLaunchKernel", code, sink);
    rt_cuda_leave(c, pushed);
    return status;
}

aule_status rt_cuda_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                         AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    aule_status status = rt_cuda_enter(c, &pushed, sink);
    if (status) return status;
    status = rt_cuda_check(c, sink, "cuMemsetD8Async",
                           c->cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)data + offset, 0,
                                                 (size_t)bytes, rt_cuda_stream(c, queue)));
    rt_cuda_leave(c, pushed);
    return status;
}
