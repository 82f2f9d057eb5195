/* vulkan_build.c - the pipelines of a module. Each is made by itself, so threads make them beside each other: compilers of drivers take from
 * milliseconds to seconds for one. */
#include <signal.h>

#include "../descriptor.h"
#include "../platform/platform.h"
#include "vulkan.h"

enum { MOST_THREADS = 8 };

typedef struct Build {
    const Vulkan *v;
    const VulkanProgram *program;
    VkShaderModule module;
    VkPipelineCache cache;
    uint32_t lanes; /* 0: as the device likes */
    atomic_uint next;
    VkResult codes[AULE_MAX_LAUNCHES];
} Build;

/* What the driver would refuse without a word, once and with numbers. */
static aule_status check_launch(const Vulkan *v, const aule_launch_v1 *launch, AuSink sink)
{
    const uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    const uint32_t most = v->facts.of.limits.group_threads;
    if (threads > most || launch->block[0] > v->facts.of.limits.group_size[0])
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: kernel %s needs %u threads a block, the device takes %u",
                       v->index, launch->entry, threads, most);
    if (launch->shared_bytes)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: kernel %s asks for %u bytes of dynamic shared memory", v->index,
                       launch->entry, launch->shared_bytes);
    if (launch->map_count)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED, "vulkan:%u: kernel %s asks for tensor maps",
                       v->index, launch->entry);
    return AULE_OK;
}

static VkResult make_pipeline(const Build *b, const char *entry, VkPipeline *pipeline)
{
    enum { FUSED, CUTS_LOOPS, SPECIAL };
    const uint32_t values[] = {[FUSED] = b->v->fused, [CUTS_LOOPS] = b->v->cuts_loops};
    const VkSpecializationMapEntry entries[] = {
        {.id = FUSED, .offset = FUSED * sizeof *values, .bytes = sizeof *values},
        {.id = CUTS_LOOPS, .offset = CUTS_LOOPS * sizeof *values, .bytes = sizeof *values}};
    const VkSpecializationInfo special = {
        .entry_count = SPECIAL, .entries = entries, .bytes = sizeof values, .data = values};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo lanes = {
        .type = VK_TYPE_REQUIRED_LANES, .lanes = b->lanes};
    const VkComputePipelineCreateInfo info = {
        .type = VK_TYPE_COMPUTE_PIPELINE,
        .stage = {.type = VK_TYPE_SHADER_STAGE,
                  .next = b->lanes ? &lanes : NULL,
                  .flags = b->lanes ? VK_STAGE_FULL_SUBGROUPS : 0,
                  .stage = VK_STAGE_COMPUTE,
                  .module = b->module,
                  .name = entry,
                  .specialization = &special},
        .layout = b->v->layout,
        .base_index = -1};
    VkPipeline made = 0;
    const VkResult code =
        b->v->vk.vkCreateComputePipelines(b->v->device, b->cache, 1, &info, NULL, &made);
    *pipeline = code == VK_SUCCESS ? made : 0;
    return code;
}

static void *work(void *build)
{
    Build *b = build;
    const aule_variant_v1 *variant = b->program->variant;
    for (uint32_t n; (n = atomic_fetch_add(&b->next, 1)) < variant->launch_count;)
        b->codes[n] = make_pipeline(b, rt_launch(variant, n)->entry, &b->program->pipelines[n]);
    return NULL;
}

/* The caller's thread works, too, and alone where none can be started. Signals are for the threads of the program, not for ours. */
static void work_together(Build *b, uint32_t count)
{
    pthread_t threads[MOST_THREADS];
    sigset_t all, before;
    uint32_t helpers = rt_usable_cores() - 1, started = 0;
    if (helpers > count - 1) helpers = count - 1;
    if (helpers > MOST_THREADS) helpers = MOST_THREADS;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < helpers && pthread_create(&threads[started], NULL, work, b) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(b);
    while (started > 0) pthread_join(threads[--started], NULL);
}

aule_status rt_vulkan_build(Vulkan *v, const VulkanProgram *program, VkShaderModule module,
                            VkPipelineCache cache, AuSink sink)
{
    const aule_variant_v1 *variant = program->variant;
    Build b = {.v = v,
               .program = program,
               .module = module,
               .cache = cache,
               .lanes = rt_vulkan_asked_lanes(variant)};
    if (b.lanes && (b.lanes < v->facts.lanes_least || b.lanes > v->facts.lanes_most))
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: '%s' is for subgroups of %u lanes, the device has %u to %u",
                       v->index, variant->schedule, b.lanes, v->facts.lanes_least,
                       v->facts.lanes_most);
    for (uint32_t n = 0; n < variant->launch_count; n++) {
        aule_status status = check_launch(v, rt_launch(variant, n), sink);
        if (status) return status;
    }
    if (variant->launch_count) work_together(&b, variant->launch_count);
    for (uint32_t n = 0; n < variant->launch_count; n++) {
        const VkResult code = b.codes[n];
        char number[24];
        if (code == VK_SUCCESS) continue;
        if (code == VK_ERROR_DEVICE_LOST || code == VK_ERROR_OUT_OF_HOST_MEMORY ||
            code == VK_ERROR_OUT_OF_DEVICE_MEMORY)
            return rt_vulkan_check(v, sink, "vkCreateComputePipelines", code);
        return rt_fail(sink, AULE_ERROR_BUILD,
                       "vulkan:%u: vkCreateComputePipelines of %s ('%s'): %s", v->index,
                       rt_launch(variant, n)->entry, variant->schedule,
                       rt_vulkan_error(code, number));
    }
    return AULE_OK;
}
