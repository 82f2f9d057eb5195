/* vulkan_code.c - a variant's module, and launches: the slots go where the host sees them, their address is pushed with the extents of the
 * grid. A grid with more blocks than one dispatch may have is several. */
#include "vulkan.h"

#include "../descriptor.h"
#include "../spirv.h"

/* ---- modules */

static void end(Vulkan *v, VulkanProgram *p)
{
    for (uint32_t n = 0; n < p->variant->launch_count; n++)
        if (p->pipelines[n]) v->vk.vkDestroyPipeline(v->device, p->pipelines[n], NULL);
    rt_free(p->pipelines);
    rt_free(p);
}

void rt_vulkan_unload(void *state, void *program)
{
    Vulkan *v = state;
    pthread_mutex_lock(&v->lock);
    rt_vulkan_settle(v);
    pthread_mutex_unlock(&v->lock);
    if (!atomic_load(&v->hung)) end(v, program);
}

static aule_status make_module(Vulkan *v, const aule_variant_v1 *variant, VkShaderModule *module,
                               AuSink sink)
{
    const size_t bytes = (size_t)variant->code_bytes;
    uint32_t *words = rt_alloc(v->heap, bytes);
    if (!words) return rt_fail_memory(sink);
    memcpy(words, variant->code, bytes);
    /* A processor's compiler takes long over loops that are written out, and the kernel is no faster: lavapipe built mha's kernels of f32
     * in 70 s so, in 1 s without. */
    if (v->cuts_loops)
        rt_spirv_mark_loops(words, bytes / sizeof *words, RT_SPIRV_UNROLL, RT_SPIRV_DONT_UNROLL);
    const VkShaderModuleCreateInfo info = {
        .type = VK_TYPE_SHADER_MODULE, .bytes = bytes, .code = words};
    VkResult code = v->vk.vkCreateShaderModule(v->device, &info, NULL, module);
    rt_free(words);
    return rt_vulkan_check(v, sink, "vkCreateShaderModule", code);
}

static aule_status make(Vulkan *v, VulkanProgram *p, AuSink sink)
{
    VkShaderModule module = 0;
    aule_status status = make_module(v, p->variant, &module, sink);
    if (status) return status;
    VulkanKept kept = {.code = p->variant->code, .bytes = (size_t)p->variant->code_bytes};
    rt_vulkan_kept_open(v, &kept);
    status = rt_vulkan_build(v, p, module, kept.cache, sink);
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
    const char *wrong = rt_spirv_wrong(variant, RT_SPIRV_SHADER);
    if (wrong)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "vulkan:%u: the code of '%s' is %s", v->index,
                       variant->schedule, wrong);
    VulkanProgram *p = rt_alloc(v->heap, sizeof *p);
    VkPipeline *pipelines = rt_alloc_array(v->heap, variant->launch_count, sizeof *pipelines);
    if (!p || !pipelines) {
        rt_free(p);
        rt_free(pipelines);
        return rt_fail_memory(sink);
    }
    *p = (VulkanProgram){variant, pipelines};
    const aule_status status = make(v, p, sink);
    if (status)
        end(v, p);
    else
        *program = p;
    return status;
}

/* ---- launches */

static uint32_t part_of(uint32_t all, uint32_t first, uint32_t most)
{
    return all - first < most ? all - first : most;
}

void rt_vulkan_dispatch(const Vulkan *v, VkCommandBuffer commands, VkPipeline pipeline,
                        uint64_t slots, const uint32_t grid[3])
{
    VulkanPushed pushed = {.slots = slots, .blocks = {grid[0], grid[1], grid[2]}};
    const uint32_t *most = v->facts.of.limits.group_count;
    v->vk.vkCmdBindPipeline(commands, VK_BIND_POINT_COMPUTE, pipeline);
    for (uint32_t z = 0; z < grid[2]; z += part_of(grid[2], z, most[2]))
        for (uint32_t y = 0; y < grid[1]; y += part_of(grid[1], y, most[1]))
            for (uint32_t x = 0; x < grid[0]; x += part_of(grid[0], x, most[0])) {
                pushed.first[0] = x, pushed.first[1] = y, pushed.first[2] = z;
                v->vk.vkCmdPushConstants(commands, v->layout, VK_STAGE_COMPUTE, 0, sizeof pushed,
                                         &pushed);
                v->vk.vkCmdDispatch(commands, part_of(grid[0], x, most[0]),
                                    part_of(grid[1], y, most[1]), part_of(grid[2], z, most[2]));
            }
}

/* One launch by itself, with commands of the ring. */
aule_status rt_vulkan_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink)
{
    Vulkan *v = state;
    const VulkanProgram *p = program;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    uint32_t which;
    VulkanOrder order;
    aule_status status = rt_vulkan_order(v, queue, &order, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = rt_vulkan_open(v, &which, sink);
    if (!status) {
        const uint64_t at = (uint64_t)which * VULKAN_SLOTS;
        memcpy(v->slots->mapped + at, given->slots, launch->slot_count * sizeof *given->slots);
        memset(v->slots->mapped + at + launch->slot_count * 8, 0, 8);
        v->ring[which].watched = launch->entry;
        v->ring[which].word = launch->slot_count;
        rt_vulkan_dispatch(v, v->ring[which].commands, p->pipelines[given->index],
                           v->slots->address + at, given->grid);
        status = rt_vulkan_submit(v, which, &order, sink);
    }
    pthread_mutex_unlock(&v->lock);
    return status;
}
