/* vulkan_lanes.c - subgroups: how many lanes a pipeline may ask for, and matrices that a subgroup multiplies. Variants ask for them by words:
 * `lanes8` is a subgroup of 8 whose lanes exchange values, all of them there; `coopmat8x8x8_f16` a matrix of f16 with sums of f32, `_bf16` of bf16;
 * `atomic_f32` is an instruction that adds to f32 in buffers; `positions` are components reached one by one, whose sums are rounded to f16 where they lie (vulkan_positions.c);
 * `layout16` is shared memory whose blocks say where they lie, so that it is read in several widths;
 * `nv2` are functions of the elements of matrices, which know their row and column, reductions of rows, and sums that become operands; `tensors` beside them are
 * matrices straight from tensors, by their bounds; `coopmat32x16x16_f16_block128` matrices of multiples of these extents that a work-group of 128 holds. */
#include "vulkan.h"

#include <stdlib.h>

static void find_lanes(const AuVulkan *vk, VkPhysicalDevice device, VulkanFacts *facts)
{
    enum { NEEDED = VK_SUBGROUP_BASIC | VK_SUBGROUP_VOTE | VK_SUBGROUP_SHUFFLE };
    VkPhysicalDeviceSubgroupSizeControlProperties size = {.type = VK_TYPE_PROPERTIES_LANES};
    VkPhysicalDeviceSubgroupSizeControlFeatures has = {.type = VK_TYPE_FEATURES_LANES};
    VkPhysicalDeviceProperties2 of = {.type = VK_TYPE_PROPERTIES, .next = &size};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    vk->vkGetPhysicalDeviceProperties2(device, &of);
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    const bool asks = has.control && has.full && size.stages & VK_STAGE_COMPUTE;
    const bool exchanges = facts->of_11.subgroup_stages & VK_STAGE_COMPUTE &&
                           (facts->of_11.subgroup_operations & NEEDED) == NEEDED;
    if (!asks || !exchanges || size.least > size.most) return;
    facts->lanes_least = size.least;
    facts->lanes_most = size.most;
}

/* Of f16, or of bf16 where there is that, with sums of f32. */
static bool is_product(uint32_t a, uint32_t b, uint32_t c, uint32_t result, uint32_t saturates,
                       bool bf16)
{
    return a == b && (a == VK_MATRIX_F16 || (a == VK_MATRIX_BF16 && bf16)) && c == VK_MATRIX_F32 &&
           result == VK_MATRIX_F32 && !saturates;
}

static bool is_ours(const VkCooperativeMatrixProperties *x, bool bf16)
{
    return x->scope == VK_SCOPE_SUBGROUP &&
           is_product(x->a, x->b, x->c, x->result, x->saturates, bf16);
}

/* Of f16 with sums of f16, where sums are rounded before they are stored. */
static bool is_all_half(const VkCooperativeMatrixProperties *x)
{
    return x->scope == VK_SCOPE_SUBGROUP && x->a == VK_MATRIX_F16 && x->b == VK_MATRIX_F16 &&
           x->c == VK_MATRIX_F16 && x->result == VK_MATRIX_F16 && !x->saturates;
}

/* Has one of the listed kind a twin of sums of f16? Each that our kernels take has, or none counts. */
static bool has_positions(const VkCooperativeMatrixProperties *all, uint32_t count)
{
    bool found = false;
    for (uint32_t n = 0; n < count; n++) {
        if (!is_ours(&all[n], false) || all[n].m != all[n].n || all[n].m != all[n].k) continue;
        bool twin = false;
        for (uint32_t i = 0; i < count && !twin; i++)
            twin = is_all_half(&all[i]) && all[i].m == all[n].m && all[i].n == all[n].n &&
                   all[i].k == all[n].k;
        if (!twin) return false;
        found = true;
    }
    return found;
}

static bool has_bf16(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device)
{
    VkPhysicalDeviceShaderBfloat16Features has = {.type = VK_TYPE_FEATURES_BF16};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    if (!rt_vulkan_has_extension(vk, heap, device, VULKAN_BF16_EXTENSION)) return false;
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    return has.numbers && has.matrices;
}

static void find_matrices(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device,
                          VulkanFacts *facts)
{
    enum { MOST = 64 };
    VkPhysicalDeviceCooperativeMatrixFeatures has = {.type = VK_TYPE_FEATURES_MATRIX};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    VkCooperativeMatrixProperties all[MOST] = {{0}};
    uint32_t count = MOST;
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    if (!has.matrices || !facts->has_12.is[VK_HAS_FLOAT_16] ||
        !vk->vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        return;
    for (uint32_t n = 0; n < MOST; n++) all[n].type = VK_TYPE_MATRIX;
    if (vk->vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device, &count, all) < 0) return;
    if (count > MOST) count = MOST; /* whatever a driver says */
    const bool bf16 = has_bf16(vk, heap, device);
    facts->positions = facts->of_12.rounds_half_even && has_positions(all, count);
    for (uint32_t n = 0; n < count && facts->matrix_count < VULKAN_MATRICES; n++) {
        if (!is_ours(&all[n], bf16)) continue;
        facts->matrices[facts->matrix_count++] =
            (VulkanMatrix){all[n].m, all[n].n, all[n].k, all[n].a, 0};
        facts->bf16 = facts->bf16 || all[n].a == VK_MATRIX_BF16;
    }
}

/* Kernels' matrices of a work-group have no more rows or columns than this, and are in work-groups without shared memory of their own. */
enum { BLOCK_EXTENT = 256 };

static void find_blocks(const AuVulkan *vk, VkPhysicalDevice device, VulkanFacts *facts)
{
    enum { MOST = 128 };
    VkCooperativeMatrixExtents all[MOST] = {{0}};
    VkPhysicalDeviceCooperativeMatrix2Properties limits = {.type = VK_TYPE_PROPERTIES_MATRIX_2};
    VkPhysicalDeviceProperties2 of = {.type = VK_TYPE_PROPERTIES, .next = &limits};
    uint32_t count = MOST;
    vk->vkGetPhysicalDeviceProperties2(device, &of);
    if (!vk->vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV ||
        limits.most_extent < BLOCK_EXTENT)
        return;
    for (uint32_t n = 0; n < MOST; n++) all[n].type = VK_TYPE_MATRIX_EXTENTS;
    if (vk->vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV(device, &count,
                                                                               all) < 0)
        return;
    if (count > MOST) count = MOST; /* whatever a driver says */
    for (uint32_t n = 0; n < count && facts->block_count < VULKAN_MATRICES; n++) {
        const VkCooperativeMatrixExtents *x = &all[n];
        if (x->scope == VK_SCOPE_WORKGROUP && x->threads <= limits.most_threads &&
            is_product(x->a, x->b, x->c, x->result, x->saturates, facts->bf16))
            facts->blocks[facts->block_count++] =
                (VulkanMatrix){x->m, x->n, x->k, x->a, x->threads};
    }
}

/* Modules with them are of version 1.6, which Vulkan 1.3 takes, and round sums that become operands to nearest. */
static void find_places(const AuVulkan *vk, VkPhysicalDevice device, VulkanFacts *facts)
{
    VkPhysicalDeviceCooperativeMatrix2Features has = {.type = VK_TYPE_FEATURES_MATRIX_2};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    facts->places = facts->layout && has.reduces && has.converts && has.by_element &&
                    facts->of_12.rounds_half_even && facts->of.api_version >= VK_VERSION_1_3;
    facts->tensors = facts->places && has.by_tensors;
    if (facts->places && has.of_groups && has.any_extents) find_blocks(vk, device, facts);
}

static bool has_layout(const AuVulkan *vk, VkPhysicalDevice device)
{
    VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures has = {.type = VK_TYPE_FEATURES_SHARED};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    return has.layout && has.bits8 && has.bits16;
}

static bool has_sums(const AuVulkan *vk, VkPhysicalDevice device)
{
    VkPhysicalDeviceShaderAtomicFloatFeatures has = {.type = VK_TYPE_FEATURES_SUMS};
    VkPhysicalDeviceFeatures2 features = {.type = VK_TYPE_FEATURES, .next = &has};
    vk->vkGetPhysicalDeviceFeatures2(device, &features);
    return has.f32_adds;
}

void rt_vulkan_lanes(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts)
{
    facts->sums =
        rt_vulkan_has_extension(vk, heap, device, VULKAN_SUMS_EXTENSION) && has_sums(vk, device);
    facts->layout = rt_vulkan_has_extension(vk, heap, device, VULKAN_SHARED_EXTENSION) &&
                    has_layout(vk, device);
    if (rt_vulkan_has_extension(vk, heap, device, VULKAN_LANES_EXTENSION))
        find_lanes(vk, device, facts);
    if (facts->lanes_most && rt_vulkan_has_extension(vk, heap, device, VULKAN_MATRIX_EXTENSION))
        find_matrices(vk, heap, device, facts);
    if (facts->matrix_count && rt_vulkan_has_extension(vk, heap, device, VULKAN_PLACES_EXTENSION))
        find_places(vk, device, facts);
}

static void add_matrix(AuText *words, const VulkanMatrix *x)
{
    rt_text_add(words, " coopmat%ux%ux%u_%s", x->m, x->n, x->k,
                x->operands == VK_MATRIX_BF16 ? "bf16" : "f16");
    if (x->threads) rt_text_add(words, "_block%u", x->threads);
}

void rt_vulkan_lanes_words(const VulkanFacts *facts, AuText *words)
{
    if (facts->sums) rt_text_add(words, " atomic_f32");
    for (uint32_t lanes = facts->lanes_least; lanes && lanes <= facts->lanes_most; lanes *= 2)
        rt_text_add(words, " lanes%u", lanes);
    for (uint32_t n = 0; n < facts->matrix_count; n++) add_matrix(words, &facts->matrices[n]);
    if (facts->positions) rt_text_add(words, " positions");
    if (facts->layout) rt_text_add(words, " layout16");
    if (facts->places) rt_text_add(words, " nv2");
    if (facts->tensors) rt_text_add(words, " tensors");
    for (uint32_t n = 0; n < facts->block_count; n++) add_matrix(words, &facts->blocks[n]);
}

uint32_t rt_vulkan_asked_lanes(const aule_variant_v1 *variant)
{
    static const char word[] = "lanes";
    for (const char *at = variant->features; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, word, sizeof word - 1) == 0)
            return (uint32_t)strtoul(at + sizeof word - 1, NULL, 10);
    return 0;
}
