/* metal_code.c - libraries of MSL, pipelines, launches. A kernel's parameters are one block of bytes, in which tensors are addresses;
 * their buffers are named to the encoder, so that they are resident and that Metal orders what touches them. */
#include "metal.h"

#include "../cache.h"
#include "../descriptor.h"

typedef struct MetalProgram {
    const aule_variant_v1 *variant;
    MetalId library;
    MetalId *pipelines; /* of each launch */
} MetalProgram;

static aule_status fail_source(const Metal *d, const char *what, MetalId error, AuSink sink)
{
    return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: %s: %s", d->index, what,
                   error ? rt_metal_error(&d->api, error) : "no cause given");
}

/* What the compiler does not take. Its log names lines of the text, which nobody sees: the schedule, the kernel and the script's line come with it. */
static aule_status fail_build(const Metal *d, const MetalProgram *p, const char *text,
                              MetalId error, AuSink sink)
{
    const char *log = error ? rt_metal_error(&d->api, error) : "no cause given";
    AuText where = {.memory = d->memory};
    rt_metal_place(text, log, &where);
    const aule_status status =
        rt_fail(sink, AULE_ERROR_BUILD, "metal:%u: newLibraryWithSource of '%s'%s: %s", d->index,
                p->variant->schedule ? p->variant->schedule : "", rt_text_str(&where), log);
    rt_text_free(&where);
    return status;
}

/* The source, compiled without fast math. */
static aule_status compile(Metal *d, MetalProgram *p, const char *text, AuSink sink)
{
    const MetalApi *m = &d->api;
    MetalId source = rt_metal_string(m, text), error = NULL,
            options = METAL_GET(m, m->objc_getClass("MTLCompileOptions"), new_object);
    if (!source || !options) {
        if (options) METAL_GET(m, options, release);
        return fail_source(d, "the source cannot be handed over", NULL, sink);
    }
    METAL_CALL(m, options, set_fast, 0);
    METAL_CALL(m, options, set_language, (uint64_t)METAL_LANGUAGE_3 + d->language);
    p->library = METAL_CALL(m, d->device, new_library, source, options, &error);
    METAL_GET(m, options, release);
    return p->library ? AULE_OK : fail_build(d, p, text, error, sink);
}

static aule_status make_library(Metal *d, MetalProgram *p, AuSink sink)
{
    const size_t bytes = (size_t)p->variant->code_bytes;
    char *text = rt_alloc(d->memory, bytes + 1); /* the end of the code is not marked */
    if (!text) return rt_fail_memory(sink);
    memcpy(text, p->variant->code, bytes);
    const aule_status status = compile(d, p, text, sink);
    rt_free(text);
    return status;
}

/* NULL: [error] says why, if it does. */
static MetalId new_pipeline(const Metal *d, MetalKept *kept, MetalId function, MetalId *error)
{
    const MetalApi *m = &d->api;
    MetalId descriptor = METAL_GET(m, m->objc_getClass("MTLComputePipelineDescriptor"), new_object);
    if (!descriptor) return NULL;
    METAL_CALL(m, descriptor, set_function, function);
    rt_metal_kept_add(d, kept, descriptor);
    MetalId pipeline = METAL_CALL(m, d->device, new_pipeline, descriptor, 0, NULL, error);
    METAL_GET(m, descriptor, release);
    return pipeline;
}

static MetalSize block_of(const aule_launch_v1 *launch)
{
    return (MetalSize){rt_block(launch, 0), rt_block(launch, 1), rt_block(launch, 2)};
}

/* Metal's bytes of threadgroup memory are a multiple of 16. */
static uint64_t shared_of(const aule_launch_v1 *launch)
{
    return ((uint64_t)launch->shared_bytes + 15) & ~(uint64_t)15;
}

/* What the encoder would end the process for. */
static aule_status check_limits(const Metal *d, const aule_launch_v1 *launch, MetalId pipeline,
                                AuSink sink)
{
    const MetalApi *m = &d->api;
    const uint64_t most = METAL_GET(m, pipeline, most_threads),
                   width = METAL_GET(m, pipeline, width),
                   room = METAL_GET(m, d->device, most_shared);
    const MetalSize block = block_of(launch);
    if (width != 32)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "metal:%u: simdgroups of %llu threads, kernels are made for 32", d->index,
                       (unsigned long long)width);
    if (block.width > most || block.height > most / block.width ||
        block.depth > most / block.width / block.height)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "metal:%u: %s has blocks of %llu x %llu x %llu threads, its registers leave "
                       "room for %llu",
                       d->index, launch->entry, (unsigned long long)block.width,
                       (unsigned long long)block.height, (unsigned long long)block.depth,
                       (unsigned long long)most);
    if (shared_of(launch) <= room) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "metal:%u: %s needs %llu bytes of threadgroup memory, the device has %llu",
                   d->index, launch->entry, (unsigned long long)shared_of(launch),
                   (unsigned long long)room);
}

static aule_status make_pipeline(Metal *d, const MetalProgram *p, MetalKept *kept, uint32_t n,
                                 AuSink sink)
{
    const MetalApi *m = &d->api;
    const aule_launch_v1 *launch = rt_launch(p->variant, n);
    MetalId error = NULL, name = rt_metal_string(m, launch->entry);
    if (!name) /* which newFunctionWithName: does not take */
        return fail_source(d, "a kernel's name cannot be handed over", NULL, sink);
    MetalId function = METAL_CALL(m, p->library, new_function, name);
    if (!function)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "metal:%u: the code has no kernel %s", d->index,
                       launch->entry);
    MetalId pipeline = new_pipeline(d, kept, function, &error);
    METAL_GET(m, function, release);
    if (!pipeline) return fail_source(d, launch->entry, error, sink);
    p->pipelines[n] = pipeline;
    return check_limits(d, launch, pipeline, sink);
}

static aule_status make(Metal *d, MetalProgram *p, AuSink sink)
{
    MetalKept kept;
    uint64_t most;
    aule_status status = rt_cache_limit(&most, sink);
    if (!status) status = make_library(d, p, sink);
    if (status) return status;
    rt_metal_kept_open(d, &kept, p->variant);
    for (uint32_t n = 0; n < p->variant->launch_count && !status; n++)
        status = make_pipeline(d, p, &kept, n, sink);
    rt_metal_kept_close(d, &kept, !status);
    return status;
}

void rt_metal_unload(void *state, void *program)
{
    Metal *d = state;
    MetalProgram *p = program;
    for (uint32_t n = 0; p->pipelines && n < p->variant->launch_count; n++)
        if (p->pipelines[n]) METAL_GET(&d->api, p->pipelines[n], release);
    if (p->library) METAL_GET(&d->api, p->library, release);
    rt_free(p->pipelines);
    rt_free(p);
}

aule_status rt_metal_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    Metal *d = state;
    void *pool = d->api.objc_autoreleasePoolPush();
    const aule_status status = rt_metal_load_any(d, variant, program, sink);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}

aule_status rt_metal_load_any(Metal *d, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    if (variant->code_format != AULE_CODE_MSL)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "metal: code of format %u, expected MSL",
                       variant->code_format);
    MetalProgram *p = rt_alloc(d->memory, sizeof *p);
    if (!p) return rt_fail_memory(sink);
    *p = (MetalProgram){.variant = variant};
    p->pipelines = rt_alloc(d->memory, variant->launch_count * sizeof *p->pipelines);
    if (!p->pipelines) {
        rt_free(p);
        return rt_fail_memory(sink);
    }
    memset(p->pipelines, 0, variant->launch_count * sizeof *p->pipelines);
    aule_status status = make(d, p, sink);
    if (status)
        rt_metal_unload(d, p);
    else
        *program = p;
    return status;
}

/* ---- launches */

/* Addresses take the place of buffers, which are named to the encoder. */
static void place_buffers(const Metal *d, MetalId encoder, const aule_launch_v1 *launch,
                          const AuLaunch *given, uint64_t *slots)
{
    const MetalApi *m = &d->api;
    for (uint32_t n = 0; n < launch->slot_count; n++) {
        const aule_slot_v1 *slot = &launch->slots[n];
        slots[n] = given->slots[n];
        if (slot->kind != AULE_SLOT_TENSOR && slot->kind != AULE_SLOT_WORKSPACE) continue;
        MetalId buffer = (MetalId)(uintptr_t)given->slots[n];
        if (!buffer) continue;
        slots[n] = METAL_GET(m, buffer, address) + (uint64_t)given->offsets[n];
        if (slot->type == AULE_SLOT_PTR)
            METAL_CALL(m, encoder, use, buffer, METAL_USAGE_READ | METAL_USAGE_WRITE);
    }
}

static aule_status encode(Metal *d, const MetalProgram *p, void *queue, const AuLaunch *given,
                          AuSink sink)
{
    const MetalApi *m = &d->api;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    uint64_t slots[AULE_MAX_SLOTS];
    const uint64_t bytes = 8 * (uint64_t)launch->slot_count;
    if (bytes > METAL_MOST_BYTES)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "metal:%u: %s has %u slots, at most %d fit",
                       d->index, launch->entry, launch->slot_count, METAL_MOST_BYTES / 8);
    MetalId commands;
    aule_status status = rt_metal_commands(d, queue, &commands, sink);
    if (status) return status;
    MetalId encoder = METAL_GET(m, commands, compute);
    if (!encoder)
        return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: computeCommandEncoder: gave none",
                       d->index);
    METAL_CALL(m, encoder, set_pipeline, p->pipelines[given->index]);
    place_buffers(d, encoder, launch, given, slots);
    if (bytes) METAL_CALL(m, encoder, set_bytes, slots, bytes, 0);
    if (launch->shared_bytes) METAL_CALL(m, encoder, set_shared, shared_of(launch), 0);
    const MetalSize grid = {given->grid[0], given->grid[1], given->grid[2]},
                    block = block_of(launch);
    METAL_CALL(m, encoder, dispatch, grid, block);
    rt_metal_commit(d, queue, commands, encoder,
                    rt_recent_add(&d->recent, queue ? queue : d->queue, launch->entry));
    return AULE_OK;
}

aule_status rt_metal_launch(void *state, void *program, void *queue, const AuLaunch *given,
                            AuSink sink)
{
    Metal *d = state;
    void *pool = d->api.objc_autoreleasePoolPush();
    aule_status status = encode(d, program, queue, given, sink);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}
