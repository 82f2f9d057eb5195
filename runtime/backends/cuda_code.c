/* cuda_code.c - code for CUDA devices: the driver turns PTX into machine code, which is kept on disk. */
#include <stdio.h>

#include "../cache.h"
#include "../descriptor.h"
#include "cuda.h"

enum { LOG_BYTES = 4096, SHARED_ALWAYS = 48 * 1024 };

/* ---- what cannot be built */

/* ".version 8.7" at the head of PTX: 87; 0: not there. */
static uint32_t ptx_version(const char *ptx)
{
    unsigned major, minor;
    const char *at = strstr(ptx, ".version");
    return at && sscanf(at, ".version %u.%u", &major, &minor) == 2 ? major * 10 + minor : 0;
}

static aule_status fail_version(Cuda *c, const aule_variant_v1 *variant, const char *ptx,
                                AuSink sink)
{
    uint32_t has = ptx_version(ptx), takes = rt_cuda_ptx(c->driver);
    return rt_fail(
        sink, AULE_ERROR_BUILD,
        "cuda:%u: the code of '%s' is PTX %u.%u, the driver (CUDA %d.%d) takes PTX up to "
        "%u.%u: a newer driver is needed",
        c->index, variant->schedule, has / 10, has % 10, c->driver / 1000, c->driver % 1000 / 10,
        takes / 10, takes % 10);
}

static aule_status fail_build(Cuda *c, const aule_variant_v1 *variant, const char *ptx,
                              const char *call, CUresult code, const char *log, AuSink sink)
{
    AuText more = {.memory = c->memory};
    if (code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) return fail_version(c, variant, ptx, sink);
    bool ours = code == CUDA_ERROR_INVALID_PTX || code == CUDA_ERROR_NO_BINARY_FOR_GPU ||
                code == CUDA_ERROR_INVALID_IMAGE || code == CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    rt_text_add(&more, "; '%s', PTX %u.%u on sm_%u, CUDA %d.%d", variant->schedule,
                ptx_version(ptx) / 10, ptx_version(ptx) % 10, c->capability, c->driver / 1000,
                c->driver % 1000 / 10);
    if (code == CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
        rt_text_add(&more, "; the driver's library libnvidia-ptxjitcompiler.so.1 is missing");
    else
        rt_text_add(&more, "; the driver's log: %s", *log ? log : "empty");
    aule_status status = rt_cuda_fail(c, sink, ours ? AULE_ERROR_BUILD : AULE_ERROR_DRIVER, call,
                                      code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

/* ---- machine code */

/* The driver's linker, for it gives out what it makes. [kept]: the name under which to keep it. */
static aule_status link_code(Cuda *c, CudaProgram *p, const char *ptx, size_t bytes,
                             const char *kept, AuSink sink)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUlinkState linker = NULL;
    void *code = NULL;
    size_t code_bytes = 0;
    const char *call = "cuLinkCreate";
    CUresult result = c->cu.cuLinkCreate(2, options, values, &linker);
    if (result == 0) {
        call = "cuLinkAddData";
        result = c->cu.cuLinkAddData(linker, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx, bytes,
                                     p->variant->schedule, 0, NULL, NULL);
    }
    if (result == 0) {
        call = "cuLinkComplete";
        result = c->cu.cuLinkComplete(linker, &code, &code_bytes);
    }
    if (result == 0) {
        call = "cuModuleLoadDataEx";
        result = c->cu.cuModuleLoadDataEx(&p->module, code, 0, NULL, NULL);
    }
    if (result == 0) rt_cache_write(c->memory, kept, code, code_bytes); /* the linker's own */
    if (linker) c->cu.cuLinkDestroy(linker);
    return result == 0 ? AULE_OK : fail_build(c, p->variant, ptx, call, result, log, sink);
}

/* The linker compiles for code that other files may call. There ptxas ignores `setmaxnreg`, and products of groups of warps, which need
 * the registers that it hands over, run one by one. Such code must be whole; the driver keeps what it makes of it in a cache of its own. */
static bool is_whole(const char *ptx) { return strstr(ptx, "setmaxnreg") != NULL; }

static aule_status load_whole(Cuda *c, CudaProgram *p, const char *ptx, AuSink sink)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUresult result = c->cu.cuModuleLoadDataEx(&p->module, ptx, 2, options, values);
    return result == 0 ? AULE_OK
                       : fail_build(c, p->variant, ptx, "cuModuleLoadDataEx", result, log, sink);
}

/* A file that the driver does not take is made again. */
static bool load_kept(Cuda *c, CudaProgram *p, const char *kept)
{
    size_t bytes;
    void *code = rt_cache_read(c->memory, kept, &bytes);
    if (!code) return false;
    CUresult result = c->cu.cuModuleLoadDataEx(&p->module, code, 0, NULL, NULL);
    rt_free(code);
    if (result != 0) p->module = NULL;
    return result == 0;
}

aule_status rt_cuda_make(Cuda *c, CudaProgram *p, AuSink sink)
{
    size_t bytes = (size_t)p->variant->code_bytes;
    char how[64];
    AuText name = {.memory = c->memory};
    char *ptx = rt_alloc(c->memory, bytes + 1); /* the driver reads to a NUL */
    if (!ptx) return rt_fail_memory(sink);
    memcpy(ptx, p->variant->code, bytes);
    snprintf(how, sizeof how, "sm_%u driver %d", c->capability, c->driver);
    rt_cache_name(&name, CACHE_CUDA, ptx, strlen(ptx), how);
    uint64_t most;
    aule_status status = rt_cache_limit(&most, sink);
    if (!status && is_whole(ptx))
        status = load_whole(c, p, ptx, sink);
    else if (!status && name.failed)
        status = rt_fail_memory(sink);
    else if (!status && !load_kept(c, p, rt_text_str(&name)))
        status = link_code(c, p, ptx, strlen(ptx) + 1, rt_text_str(&name), sink);
    rt_text_free(&name);
    rt_free(ptx);
    return status;
}

/* ---- kernels */

/* What cuLaunchKernel would refuse at each launch, once and with numbers. Asking also makes the driver load a kernel that it loads
 * lazily, which it may not do while a stream is captured. */
static aule_status check_kernel(Cuda *c, const CudaKernel *kernel, AuSink sink)
{
    const aule_launch_v1 *launch = kernel->launch;
    uint64_t threads = (uint64_t)kernel->block[0] * kernel->block[1] * kernel->block[2];
    int most = 0, fixed = 0;
    CUresult code =
        c->cu.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel->function);
    if (code == 0)
        code =
            c->cu.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function);
    if (code != 0) return rt_cuda_check(c, sink, "cuFuncGetAttribute", code);
    if (threads > (uint64_t)most)
        return rt_fail(
            sink, AULE_ERROR_UNSUPPORTED,
            "%s:%u: kernel %s needs %llu threads a block, with its registers the device takes %d",
            c->kind->name, c->index, launch->entry, (unsigned long long)threads, most);
    uint64_t shared = (uint64_t)fixed + launch->shared_bytes;
    if (shared > (uint64_t)c->shared_most)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "%s:%u: kernel %s needs %llu bytes of shared memory, a block has %d here",
                       c->kind->name, c->index, launch->entry, (unsigned long long)shared,
                       c->shared_most);
    if (shared <= SHARED_ALWAYS || !c->cu.cuFuncSetAttribute) return AULE_OK;
    return rt_cuda_check(c, sink, "cuFuncSetAttribute",
                         c->cu.cuFuncSetAttribute(kernel->function,
                                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                  (int)launch->shared_bytes));
}

static aule_status find_kernels(Cuda *c, CudaProgram *p, AuSink sink)
{
    for (uint32_t i = 0; i < p->variant->launch_count; i++) {
        CudaKernel *kernel = &p->kernels[i];
        kernel->launch = rt_launch(p->variant, i);
        for (int axis = 0; axis < 3; axis++) kernel->block[axis] = rt_block(kernel->launch, axis);
        CUresult code =
            c->cu.cuModuleGetFunction(&kernel->function, p->module, kernel->launch->entry);
        aule_status status = code ? rt_cuda_fail(c, sink, AULE_ERROR_ARTIFACT,
                                                 "cuModuleGetFunction", code, kernel->launch->entry)
                                  : check_kernel(c, kernel, sink);
        if (status) return status;
    }
    return AULE_OK;
}

aule_status rt_cuda_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    Cuda *c = state;
    bool pushed;
    if (variant->code_format != c->kind->format)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "%s:%u: code of format %u, expected %s",
                       c->kind->name, c->index, variant->code_format, c->kind->code);
    CudaProgram *p = rt_alloc(c->memory, sizeof *p);
    CudaKernel *kernels = rt_alloc_array(c->memory, variant->launch_count, sizeof *kernels);
    aule_status status = p && kernels ? rt_cuda_enter(c, &pushed, sink) : rt_fail_memory(sink);
    if (status) {
        rt_free(p);
        rt_free(kernels);
        return status;
    }
    *p = (CudaProgram){.variant = variant, .kernels = kernels};
    status = c->kind->make(c, p, sink);
    if (!status) status = find_kernels(c, p, sink);
    rt_cuda_leave(c, pushed);
    if (status)
        rt_cuda_unload(c, p);
    else
        *program = p;
    return status;
}

void rt_cuda_unload(void *state, void *program)
{
    Cuda *c = state;
    CudaProgram *p = program;
    bool pushed;
    if (p->module && rt_cuda_enter(c, &pushed, (AuSink){.memory = c->memory}) == AULE_OK) {
        c->cu.cuModuleUnload(p->module);
        rt_cuda_leave(c, pushed);
    }
    rt_free(p->kernels);
    rt_free(p);
}
