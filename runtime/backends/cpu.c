/* cpu.c - the host's processor: kernels are functions of the artifact, memory is memory, launches are done when they return. */
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../descriptor.h"
#include "backend.h"
#include "cpu_features.h"
#include "pool.h"

typedef struct Cpu {
    AuHeap memory;
    AuPool *pool;
} Cpu;

/* AULE_CPU_ARCH: how many of the architectures may be used, the least first. */
static aule_status archs_from_environment(size_t *limit, AuSink sink)
{
    const char *text = getenv("AULE_CPU_ARCH"), *name;
    *limit = SIZE_MAX;
    if (!text || !*text) return AULE_OK;
    AuText names = {.memory = sink.memory};
    for (size_t n = 0; (name = rt_cpu_arch(n)); n++) {
        if (strcmp(text, name) == 0) *limit = n + 1;
        rt_text_add(&names, "%s%s", n ? ", " : "", name);
    }
    aule_status status = AULE_OK;
    if (*limit == SIZE_MAX)
        status = rt_fail(sink, AULE_ERROR_USAGE, "AULE_CPU_ARCH is '%s', expected one of: %s", text,
                         rt_text_str(&names));
    rt_text_free(&names);
    return status;
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    size_t limit;
    aule_status status = archs_from_environment(&limit, sink);
    if (status) return status;
    AuText name = {.memory = sink.memory}, features = {.memory = sink.memory},
           driver = {.memory = sink.memory};
    struct utsname system;
    rt_cpu_name(&name);
    rt_cpu_features(limit, &features);
    if (uname(&system) == 0) rt_text_add(&driver, "%s %s", system.sysname, system.machine);
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES),
         page = sysconf(_SC_PAGESIZE);
    aule_device_info info = {
        .id = "cpu",
        .backend = "cpu",
        .available = 1,
        .name = rt_text_str(&name),
        .driver = rt_text_str(&driver),
        .features = rt_text_str(&features),
        .kind = AULE_DEVICE_CPU,
        .units = cores > 0 ? (uint32_t)cores : 1,
        .memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
        .dl = {kDLCPU, 0},
    };
    bool failed = name.failed || features.failed || driver.failed;
    status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&name);
    rt_text_free(&features);
    rt_text_free(&driver);
    return status;
}

static aule_status open_cpu(AuHeap memory, uint32_t index, const aule_device_options *options,
                            void **state, AuSink sink)
{
    (void)index;
    Cpu *cpu = rt_alloc(memory, sizeof *cpu);
    AuPool *pool = cpu ? rt_pool_new(memory, options->threads) : NULL;
    if (!pool) {
        rt_free(cpu);
        return rt_fail_memory(sink);
    }
    *cpu = (Cpu){memory, pool};
    *state = cpu;
    return AULE_OK;
}

static void close_cpu(void *state)
{
    Cpu *cpu = state;
    rt_pool_free(cpu->pool);
    rt_free(cpu);
}

static int rank_arch(const aule_device_info *info, const char *arch)
{
    const char *family = rt_cpu_family(), *wish = rt_cpu_wish(arch);
    if (strncmp(arch, family, strlen(family)) != 0) return -1;
    return *wish && !rt_has_word(info->features, wish, strlen(wish)) ? 1 : 0;
}

/* The program is the variant itself. */
static aule_status load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    Cpu *cpu = state;
    uint32_t stack_bytes = 0;
    for (uint32_t i = 0; i < variant->launch_count; i++) {
        uint32_t needed = rt_launch(variant, i)->private_bytes;
        if (needed > stack_bytes) stack_bytes = needed;
    }
    if (!rt_pool_reserve(cpu->pool, stack_bytes))
        return rt_fail(sink, AULE_ERROR_MEMORY,
                       "cpu: no thread with a stack of %u bytes can be started", stack_bytes);
    *program = (void *)(uintptr_t)variant;
    return AULE_OK;
}

static void unload(void *state, void *program)
{
    (void)state;
    (void)program;
}

static aule_status no_queue(void *queue, AuSink sink)
{
    return queue ? rt_fail(sink, AULE_ERROR_USAGE,
                           "cpu: it has no queues, expected aule_run.queue to be NULL")
                 : AULE_OK;
}

static aule_status launch(void *state, void *program, void *queue, const AuLaunch *given,
                          AuSink sink)
{
    Cpu *cpu = state;
    const aule_launch_v1 *kernel = rt_launch(program, given->index);
    if (queue) return no_queue(queue, sink);
    rt_pool_run(cpu->pool, kernel->host, given->slots, given->grid, kernel->private_bytes);
    return AULE_OK;
}

static aule_status zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                        AuSink sink)
{
    (void)state;
    if (queue) return no_queue(queue, sink);
    memset((char *)data + offset, 0, (size_t)bytes);
    return AULE_OK;
}

/* Buffers begin at a cache line; the block they lie in stands in front. */
enum { LINE = 64 };

static aule_status buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    Cpu *cpu = state;
    char *block = bytes < SIZE_MAX / 2 ? rt_alloc(cpu->memory, (size_t)bytes + 2 * LINE) : NULL;
    if (!block)
        return rt_fail(sink, AULE_ERROR_MEMORY, "cpu: no memory for a buffer of %llu bytes",
                       (unsigned long long)bytes);
    char *line = block + (2 * LINE - (uintptr_t)block % LINE);
    memcpy(line - sizeof block, &block, sizeof block);
    *data = line;
    return AULE_OK;
}

static void buffer_free(void *state, void *data)
{
    (void)state;
    char *block;
    memcpy(&block, (char *)data - sizeof block, sizeof block);
    rt_free(block);
}

static aule_status upload(void *state, void *data, uint64_t offset, const void *from,
                          uint64_t bytes, AuSink sink)
{
    (void)state;
    (void)sink;
    memcpy((char *)data + offset, from, (size_t)bytes);
    return AULE_OK;
}

static aule_status download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink)
{
    (void)state;
    (void)sink;
    memcpy(to, (char *)data + offset, (size_t)bytes);
    return AULE_OK;
}

const AuBackend au_backend_cpu = {
    .api_version = AU_BACKEND_API,
    .name = "cpu",
    .flat = true,
    .dl = {kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged},
    .find = find,
    .open = open_cpu,
    .close = close_cpu,
    .rank_arch = rank_arch,
    .load = load,
    .unload = unload,
    .launch = launch,
    .zero = zero,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .upload = upload,
    .download = download,
};
