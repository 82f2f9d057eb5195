/* vulkan_code.c - a variant's pipelines, and launches: the slots go into a place of the ring that the host sees, their address is pushed
 * with the extents of the grid. A grid with more blocks than one dispatch may have is several. */
#include "vulkan.h"

#include "../descriptor.h"

typedef struct Program {
    const aule_variant_v1 *variant;
    VkPipeline *pipelines; /* one a launch */
} Program;

/* ---- pipelines */

void rt_vulkan_unload(void *state, void *program)
{
    Vulkan *v = state;
    Program *p = program;
    const AuSink quiet = {.memory = v->heap};
    pthread_mutex_lock(&v->lock);
    if (rt_vulkan_wait(v, v->submitted, quiet) == AULE_OK)
        rt_vulkan_listen(v, v->submitted);
    else
        v->vk.vkDeviceWaitIdle(v->device);
    pthread_mutex_unlock(&v->lock);
    for (uint32_t n = 0; n < p->variant->launch_count; n++)
        if (p->pipelines[n]) v->vk.vkDestroyPipeline(v->device, p->pipelines[n], NULL);
    rt_free(p->pipelines);
    rt_free(p);
}

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

static aule_status build(Vulkan *v, Program *p, VkShaderModule module, VkPipelineCache cache,
                         AuSink sink)
{
    enum { FUSED, CUTS_LOOPS, SPECIAL };
    const uint32_t values[] = {
        [FUSED] = v->fused, [CUTS_LOOPS] = v->facts.of.kind == VK_DEVICE_CPU};
    const VkSpecializationMapEntry entries[] = {
        {.id = FUSED, .offset = FUSED * sizeof *values, .bytes = sizeof *values},
        {.id = CUTS_LOOPS, .offset = CUTS_LOOPS * sizeof *values, .bytes = sizeof *values}};
    const VkSpecializationInfo special = {
        .entry_count = SPECIAL, .entries = entries, .bytes = sizeof values, .data = values};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo lanes = {
        .type = VK_TYPE_REQUIRED_LANES, .lanes = rt_vulkan_asked_lanes(p->variant)};
    if (lanes.lanes && (lanes.lanes < v->facts.lanes_least || lanes.lanes > v->facts.lanes_most))
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: '%s' is for subgroups of %u lanes, the device has %u to %u",
                       v->index, p->variant->schedule, lanes.lanes, v->facts.lanes_least,
                       v->facts.lanes_most);
    for (uint32_t n = 0; n < p->variant->launch_count; n++) {
        const aule_launch_v1 *launch = rt_launch(p->variant, n);
        aule_status status = check_launch(v, launch, sink);
        if (status) return status;
        const VkComputePipelineCreateInfo info = {
            .type = VK_TYPE_COMPUTE_PIPELINE,
            .stage = {.type = VK_TYPE_SHADER_STAGE,
                      .next = lanes.lanes ? &lanes : NULL,
                      .flags = lanes.lanes ? VK_STAGE_FULL_SUBGROUPS : 0,
                      .stage = VK_STAGE_COMPUTE,
                      .module = module,
                      .name = launch->entry,
                      .specialization = &special},
            .layout = v->layout,
            .base_index = -1};
        VkResult code =
            v->vk.vkCreateComputePipelines(v->device, cache, 1, &info, NULL, &p->pipelines[n]);
        if (code == VK_SUCCESS) continue;
        char number[24];
        p->pipelines[n] = 0;
        if (code == VK_ERROR_DEVICE_LOST || code == VK_ERROR_OUT_OF_HOST_MEMORY ||
            code == VK_ERROR_OUT_OF_DEVICE_MEMORY)
            return rt_vulkan_check(v, sink, "vkCreateComputePipelines", code);
        return rt_fail(sink, AULE_ERROR_BUILD,
                       "vulkan:%u: vkCreateComputePipelines of %s ('%s'): %s", v->index,
                       launch->entry, p->variant->schedule, rt_vulkan_error(code, number));
    }
    return AULE_OK;
}

/* A processor's compiler takes long over loops that are written out, and the kernel is no faster: lavapipe built mha's kernels of f32
 * in 70 s so, in 1 s without. */
static void keep_loops(uint32_t *words, size_t count)
{
    enum { HEADER = 5, LOOP_MERGE = 246, CONTROL = 3, DONT_UNROLL = 2 };
    for (size_t at = HEADER, length; at < count; at += length) {
        length = words[at] >> 16;
        if (!length || length > count - at) return;
        if ((words[at] & 0xffff) == LOOP_MERGE && length > CONTROL)
            words[at + CONTROL] = DONT_UNROLL;
    }
}

static aule_status make_module(Vulkan *v, const aule_variant_v1 *variant, VkShaderModule *module,
                               AuSink sink)
{
    const size_t bytes = (size_t)variant->code_bytes;
    uint32_t *words = rt_alloc(v->heap, bytes);
    if (!words) return rt_fail_memory(sink);
    memcpy(words, variant->code, bytes);
    if (v->facts.of.kind == VK_DEVICE_CPU) keep_loops(words, bytes / sizeof *words);
    const VkShaderModuleCreateInfo info = {
        .type = VK_TYPE_SHADER_MODULE, .bytes = bytes, .code = words};
    VkResult code = v->vk.vkCreateShaderModule(v->device, &info, NULL, module);
    rt_free(words);
    return rt_vulkan_check(v, sink, "vkCreateShaderModule", code);
}

static aule_status make(Vulkan *v, Program *p, AuSink sink)
{
    VkShaderModule module = 0;
    aule_status status = make_module(v, p->variant, &module, sink);
    if (status) return status;
    VulkanKept kept = {.code = p->variant->code, .bytes = (size_t)p->variant->code_bytes};
    rt_vulkan_kept_open(v, &kept);
    status = build(v, p, module, kept.cache, sink);
    rt_vulkan_kept_close(v, &kept, status == AULE_OK);
    v->vk.vkDestroyShaderModule(v->device, module, NULL);
    return status;
}

aule_status rt_vulkan_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    Vulkan *v = state;
    if (variant->code_format != AULE_CODE_SPIRV)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "vulkan:%u: code of format %u, expected SPIR-V", v->index,
                       variant->code_format);
    if (!rt_is_spirv(variant))
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "vulkan:%u: the code of '%s' is no SPIR-V module",
                       v->index, variant->schedule);
    Program *p = rt_alloc(v->heap, sizeof *p);
    VkPipeline *pipelines = rt_alloc_array(v->heap, variant->launch_count, sizeof *pipelines);
    if (!p || !pipelines) {
        rt_free(p);
        rt_free(pipelines);
        return rt_fail_memory(sink);
    }
    *p = (Program){variant, pipelines};
    aule_status status = make(v, p, sink);
    if (status)
        rt_vulkan_unload(v, p);
    else
        *program = p;
    return status;
}

/* ---- launches */

static uint32_t part_of(uint32_t all, uint32_t first, uint32_t most)
{
    return all - first < most ? all - first : most;
}

static void dispatch(Vulkan *v, VkCommandBuffer commands, VulkanPushed *pushed)
{
    const uint32_t *most = v->facts.of.limits.group_count, *all = pushed->blocks;
    for (uint32_t z = 0; z < all[2]; z += part_of(all[2], z, most[2]))
        for (uint32_t y = 0; y < all[1]; y += part_of(all[1], y, most[1]))
            for (uint32_t x = 0; x < all[0]; x += part_of(all[0], x, most[0])) {
                pushed->first[0] = x, pushed->first[1] = y, pushed->first[2] = z;
                v->vk.vkCmdPushConstants(commands, v->layout, VK_STAGE_COMPUTE, 0, sizeof *pushed,
                                         pushed);
                v->vk.vkCmdDispatch(commands, part_of(all[0], x, most[0]),
                                    part_of(all[1], y, most[1]), part_of(all[2], z, most[2]));
            }
}

aule_status rt_vulkan_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink)
{
    Vulkan *v = state;
    const Program *p = program;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    uint32_t which;
    aule_status status = rt_vulkan_own_queue(v, queue, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_open(v, &which, sink);
    if (!status) {
        const uint64_t at = (uint64_t)which * VULKAN_SLOTS;
        const VkCommandBuffer commands = v->ring[which].commands;
        VulkanPushed pushed = {.slots = v->slots->address + at};
        memcpy(pushed.blocks, given->grid, sizeof pushed.blocks);
        memcpy(v->slots->mapped + at, given->slots, launch->slot_count * sizeof *given->slots);
        memset(v->slots->mapped + at + launch->slot_count * 8, 0, 8);
        v->ring[which].watched = launch->entry;
        v->ring[which].word = launch->slot_count;
        v->vk.vkCmdBindPipeline(commands, VK_BIND_POINT_COMPUTE, p->pipelines[given->index]);
        dispatch(v, commands, &pushed);
        status = rt_vulkan_submit(v, which, sink);
    }
    pthread_mutex_unlock(&v->lock);
    return status;
}
