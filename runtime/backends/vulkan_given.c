/* vulkan_given.c - a device of the caller's (aule_vulkan_device): which of the instance's it is, and what it may do. Vulkan does not tell what
 * a VkDevice was made with, but its owner can: features and extensions that are enabled stand in the VkDeviceCreateInfo, and
 * vulkan_given.def says where. What is not enabled the device is taken not to have. */
#include "vulkan.h"

/* The head of all structures of Vulkan's that lead to others, and words behind it. */
typedef struct Structure {
    uint32_t type;
    const struct Structure *next;
    uint32_t words[];
} Structure;

/* What may be enabled. */
enum {
    INT64,
    INT16,
    STORAGE_16,
    STORAGE_8,
    FLOAT_16,
    INT8,
    TIMELINE,
    BUFFER_ADDRESS,
    MEMORY_MODEL,
    LANES,
    FULL,
    MATRICES,
    BF16,
    BF16_MATRICES,
    SHARED,
    SHARED_8,
    SHARED_16,
    REDUCES,
    CONVERTS,
    BY_ELEMENT,
    BY_TENSORS,
    OF_BLOCKS,
    ANY_EXTENTS,
    SUMS,
    THINGS
};

static const struct {
    uint32_t what, type, word;
} places[] = {
#define ENABLES(what, type, word) {what, type, word},
#include "vulkan_given.def"
};

/* ---- what is enabled */

static void look(const VkDeviceCreateInfo *made, bool on[THINGS])
{
    const uint32_t *old = made->features; /* VkPhysicalDeviceFeatures, without a head */
    for (const Structure *s = made->next; s; s = s->next)
        for (size_t n = 0; n < sizeof places / sizeof *places; n++)
            if (places[n].type == s->type && s->words[places[n].word]) on[places[n].what] = true;
    if (old && old[VK_HAS_INT64]) on[INT64] = true;
    if (old && old[VK_HAS_INT16]) on[INT16] = true;
}

static bool is_extended(const VkDeviceCreateInfo *made, const char *name)
{
    for (uint32_t n = 0; n < made->extension_count; n++)
        if (strcmp(made->extensions[n], name) == 0) return true;
    return false;
}

static uint32_t those_of_f16(VulkanMatrix *matrices, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < count; n++)
        if (matrices[n].operands == VK_MATRIX_F16) matrices[kept++] = matrices[n];
    return kept;
}

static void only_of_f16(VulkanFacts *f)
{
    f->matrix_count = those_of_f16(f->matrices, f->matrix_count);
    f->block_count = those_of_f16(f->blocks, f->block_count);
    f->bf16 = false;
}

/* What kernels all need is there, what some need is not. */
static void limit_to_least(VulkanFacts *f)
{
    f->lanes_least = f->lanes_most = f->matrix_count = f->block_count = 0;
    f->bf16 = f->places = f->tensors = f->positions = f->shares = f->signals = f->sums = f->layout =
        false;
}

static void limit(VulkanFacts *f, const VkDeviceCreateInfo *made)
{
    bool on[THINGS] = {false};
    if (!made) {
        limit_to_least(f);
        return;
    }
    look(made, on);
    f->has.is[VK_HAS_INT64] &= on[INT64];
    f->has.is[VK_HAS_INT16] &= on[INT16];
    f->has_11.is[VK_HAS_STORAGE_16] &= on[STORAGE_16];
    f->has_12.is[VK_HAS_STORAGE_8] &= on[STORAGE_8];
    f->has_12.is[VK_HAS_INT8] &= on[INT8];
    f->has_12.is[VK_HAS_TIMELINE] &= on[TIMELINE];
    f->has_12.is[VK_HAS_BUFFER_ADDRESS] &= on[BUFFER_ADDRESS];
    f->has_12.is[VK_HAS_MEMORY_MODEL] &= on[MEMORY_MODEL];
    const bool matrices =
        on[MATRICES] && on[FLOAT_16] && is_extended(made, VULKAN_MATRIX_EXTENSION);
    const bool layout = f->layout && on[SHARED] && on[SHARED_8] && on[SHARED_16] &&
                        is_extended(made, VULKAN_SHARED_EXTENSION);
    const bool shares = f->shares && is_extended(made, VULKAN_FD_EXTENSION),
               signals = f->signals && is_extended(made, VULKAN_TIMELINE_EXTENSION);
    const bool sums = f->sums && on[SUMS] && is_extended(made, VULKAN_SUMS_EXTENSION);
    if (!on[LANES] || !on[FULL]) limit_to_least(f);
    f->shares = shares, f->signals = signals, f->sums = sums, f->layout = layout;
    if (!matrices) f->matrix_count = 0, f->positions = false;
    if (!on[BF16] || !on[BF16_MATRICES] || !is_extended(made, VULKAN_BF16_EXTENSION))
        only_of_f16(f);
    f->places = f->places && f->matrix_count && layout && on[REDUCES] && on[CONVERTS] &&
                on[BY_ELEMENT] && is_extended(made, VULKAN_PLACES_EXTENSION);
    f->tensors = f->tensors && f->places && on[BY_TENSORS];
    if (!f->places || !on[OF_BLOCKS] || !on[ANY_EXTENTS]) f->block_count = 0;
}

static aule_status take_family(const AuVulkan *vk, const aule_vulkan_device *given, uint32_t index,
                               VulkanFacts *f, AuSink sink)
{
    enum { MOST = 32 };
    VkQueueFamilyProperties families[MOST];
    uint32_t count = MOST;
    const uint32_t n = given->queue_family;
    vk->vkGetPhysicalDeviceQueueFamilyProperties(given->physical_device, &count, families);
    if (n >= count)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "vulkan:%u: aule_vulkan_device.queue_family is %u, the device has %u", index,
                       n, count);
    if (!(families[n].flags & VK_QUEUE_COMPUTE))
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "vulkan:%u: queues of aule_vulkan_device.queue_family, %u, do not compute",
                       index, n);
    f->family = n;
    f->timestamp_bits = families[n].timestamp_bits;
    return AULE_OK;
}

/* Nothing is added to [why] where kernels can run. */
static aule_status facts_of(const AuVulkan *vk, AuHeap heap, const aule_vulkan_device *given,
                            uint32_t index, VulkanFacts *f, AuText *why, AuSink sink)
{
    rt_vulkan_facts(vk, heap, given->physical_device, f);
    aule_status status = take_family(vk, given, index, f, sink);
    rt_vulkan_lacks(f, "it lacks ", why);
    if (status || why->length) return status;
    limit(f, given->created);
    rt_vulkan_lacks(f, "the VkDevice given was made without ", why);
    return AULE_OK;
}

/* ---- which device */

static aule_status read_given(const aule_device_options *options, aule_vulkan_device *given,
                              AuSink sink)
{
    aule_status status = rt_read_options(given, sizeof *given, sizeof *given, options->context,
                                         "aule_vulkan_device", sink);
    if (status) return status;
    const struct {
        const char *name;
        const void *handle;
    } needed[] = {{"instance", given->instance},
                  {"physical_device", given->physical_device},
                  {"device", given->device},
                  {"queue", given->queue}};
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++)
        if (!needed[n].handle)
            return rt_fail(sink, AULE_ERROR_USAGE, "aule_vulkan_device.%s is NULL", needed[n].name);
    if (!given->lock == !given->unlock) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_USAGE,
                   "aule_vulkan_device has one of lock and unlock, expected both or none");
}

/* Functions by the caller's loader, all of the instance's devices, and the number of the one that is given. */
static aule_status find_place(AuVulkan *vk, const aule_vulkan_device *given,
                              VkPhysicalDevice devices[VULKAN_DEVICES], uint32_t *count,
                              uint32_t *place, AuSink sink)
{
    AuText why = {.memory = sink.memory};
    VkResult code = VK_SUCCESS;
    char number[24];
    bool fine = given->get_instance_proc_addr || rt_vulkan_api(vk, &why);
    if (given->get_instance_proc_addr)
        memcpy(&vk->vkGetInstanceProcAddr, &given->get_instance_proc_addr,
               sizeof vk->vkGetInstanceProcAddr);
    fine = fine && rt_vulkan_functions(vk, given->instance, &why);
    *count = fine ? rt_vulkan_devices(vk, given->instance, devices, &code) : 0;
    if (fine && code < 0)
        rt_text_add(&why, "vkEnumeratePhysicalDevices: %s", rt_vulkan_error(code, number));
    aule_status status = AULE_OK;
    if (why.length) status = rt_fail(sink, AULE_ERROR_DEVICE, "vulkan: %s", rt_text_str(&why));
    rt_text_free(&why);
    for (*place = 0; *place < *count; (*place)++)
        if (devices[*place] == given->physical_device) return status;
    return status ? status
                  : rt_fail(sink, AULE_ERROR_USAGE,
                            "vulkan: aule_vulkan_device.physical_device is none of the %u devices "
                            "of its instance",
                            *count);
}

aule_status rt_vulkan_find_given(AuFinder *finder, const aule_device_options *options, AuSink sink)
{
    AuVulkan vk = {0};
    aule_vulkan_device given;
    VkPhysicalDevice devices[VULKAN_DEVICES];
    uint32_t count = 0, place = 0;
    aule_status status = read_given(options, &given, sink);
    if (!status) status = find_place(&vk, &given, devices, &count, &place, sink);
    for (uint32_t n = 0; !status && n < count; n++) {
        VulkanFacts f;
        AuText why = {.memory = sink.memory};
        if (n == place)
            status = facts_of(&vk, sink.memory, &given, n, &f, &why, sink);
        else {
            rt_vulkan_facts(&vk, sink.memory, devices[n], &f);
            rt_vulkan_lacks(&f, "it lacks ", &why);
        }
        if (status)
            rt_text_free(&why);
        else
            status = rt_vulkan_found(finder, &f, n, &why, sink);
    }
    return status;
}

aule_status rt_vulkan_take(Vulkan *v, const aule_device_options *options, AuSink sink)
{
    VkPhysicalDevice devices[VULKAN_DEVICES];
    aule_vulkan_device given;
    uint32_t count = 0, place = 0;
    AuText why = {.memory = v->heap};
    aule_status status = read_given(options, &given, sink);
    if (!status) status = find_place(&v->vk, &given, devices, &count, &place, sink);
    if (!status && place != v->index)
        status =
            rt_fail(sink, AULE_ERROR_USAGE,
                    "vulkan:%u: aule_vulkan_device.physical_device is vulkan:%u", v->index, place);
    if (!status) status = facts_of(&v->vk, v->heap, &given, place, &v->facts, &why, sink);
    if (!status && why.length)
        status = rt_fail(sink, AULE_ERROR_DEVICE, "vulkan:%u: %s", v->index, rt_text_str(&why));
    rt_text_free(&why);
    if (status) return status;
    v->given = given;
    v->given.struct_size = sizeof v->given;
    v->instance = given.instance;
    v->physical = given.physical_device;
    v->device = given.device;
    v->queue = given.queue;
    return AULE_OK;
}
