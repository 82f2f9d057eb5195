/* vulkan_find.c - Vulkan's devices, and what those below the floor lack. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char validation[] = "VK_LAYER_KHRONOS_validation";

/* ---- instances */

/* Set to nothing it counts as not set. */
static bool read_validation(bool *wanted, AuText *why)
{
    const char *value = getenv("AULE_VULKAN_VALIDATION");
    *wanted = value && strcmp(value, "1") == 0;
    if (!value || !*value || *wanted) return true;
    rt_text_add(why, "AULE_VULKAN_VALIDATION is '%s', expected 1 or nothing", value);
    return false;
}

aule_status rt_vulkan_environment(AuSink sink)
{
    AuText why = {.memory = sink.memory};
    uint64_t patience;
    bool validates;
    aule_status status = rt_patience(VULKAN_PATIENCE, &patience, sink);
    if (!status && !read_validation(&validates, &why))
        status = rt_fail(sink, AULE_ERROR_USAGE, "%s", rt_text_str(&why));
    rt_text_free(&why);
    return status;
}

bool rt_vulkan_begin(AuVulkan *vk, VkInstance *instance, AuText *why)
{
    const char *layers[] = {validation};
    uint32_t version = 0;
    char number[24];
    bool validates;
    if (!read_validation(&validates, why) || !rt_vulkan_api(vk, why)) return false;
    if (vk->vkEnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_VERSION_1_2) {
        rt_text_add(why, "the loader libvulkan.so.1 is older than Vulkan 1.2");
        return false;
    }
    const VkApplicationInfo application = {
        .type = VK_TYPE_APPLICATION, .engine = "aule", .api_version = VK_VERSION_1_3};
    const VkInstanceCreateInfo info = {.type = VK_TYPE_INSTANCE,
                                       .application = &application,
                                       .layer_count = validates,
                                       .layers = layers};
    VkResult code = vk->vkCreateInstance(&info, NULL, instance);
    if (code == VK_ERROR_LAYER_NOT_PRESENT) {
        rt_text_add(why, "AULE_VULKAN_VALIDATION asks for the layer %s, which is not installed",
                    validation);
        return false;
    }
    if (code == VK_ERROR_INCOMPATIBLE_DRIVER)
        rt_vulkan_drivers(why->memory, "can use none of these drivers", why);
    else if (code != VK_SUCCESS)
        rt_text_add(why, "vkCreateInstance: %s", rt_vulkan_error(code, number));
    if (code != VK_SUCCESS) return false;
    if (rt_vulkan_functions(vk, *instance, why)) return true;
    if (vk->vkDestroyInstance) vk->vkDestroyInstance(*instance, NULL);
    return false;
}

uint32_t rt_vulkan_devices(const AuVulkan *vk, VkInstance instance, VkPhysicalDevice *devices,
                           VkResult *code)
{
    uint32_t count = VULKAN_DEVICES;
    *code = vk->vkEnumeratePhysicalDevices(instance, &count, devices);
    return *code < 0 ? 0 : count; /* VK_INCOMPLETE: there are more */
}

/* ---- facts */

static void find_queue(const AuVulkan *vk, VkPhysicalDevice device, VulkanFacts *facts)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vk->vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    facts->family = UINT32_MAX;
    for (uint32_t n = count; n-- > 0;) {
        if (!(families[n].flags & VK_QUEUE_COMPUTE) || !families[n].count) continue;
        facts->family = n;
        facts->timestamp_bits = families[n].timestamp_bits;
    }
}

bool rt_vulkan_has_extension(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device,
                             const char *name)
{
    enum { MOST = 512 };
    uint32_t count = MOST;
    bool has = false;
    VkExtensionProperties *list = rt_alloc_array(heap, MOST, sizeof *list);
    if (!list) return false;
    if (vk->vkEnumerateDeviceExtensionProperties(device, NULL, &count, list) < 0) count = 0;
    for (uint32_t n = 0; n < count && !has; n++) has = strcmp(list[n].name, name) == 0;
    rt_free(list);
    return has;
}

/* What the device says under this type, if it has the extension, in the words of a structure of it. */
static bool extra(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, const char *extension,
                  VulkanExtra *words)
{
    VkPhysicalDeviceProperties2 of = {.type = VK_TYPE_PROPERTIES, .next = words};
    const bool has = rt_vulkan_has_extension(vk, heap, device, extension);
    if (has) vk->vkGetPhysicalDeviceProperties2(device, &of);
    return has;
}

/* Vulkan has no word for the number of processors; 0: nobody says. */
static uint32_t units_of(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device,
                         const VulkanFacts *facts)
{
    VulkanExtra nvidia = {.type = VK_TYPE_PROPERTIES_SM_NV};
    VulkanExtra amd = {.type = VK_TYPE_PROPERTIES_CORE_AMD};
    const long cores = facts->of.kind == VK_DEVICE_CPU ? sysconf(_SC_NPROCESSORS_ONLN) : 0;
    if (cores > 0) return (uint32_t)cores;
    if (extra(vk, heap, device, "VK_NV_shader_sm_builtins", &nvidia)) return nvidia.words[0];
    if (extra(vk, heap, device, "VK_AMD_shader_core_properties", &amd))
        return amd.words[0] * amd.words[1] * amd.words[2]; /* engines, arrays, units */
    return 0;
}

void rt_vulkan_facts(const AuVulkan *vk, AuHeap heap, VkPhysicalDevice device, VulkanFacts *facts)
{
    memset(facts, 0, sizeof *facts);
    facts->of.type = VK_TYPE_PROPERTIES;
    vk->vkGetPhysicalDeviceProperties2(device, &facts->of);
    find_queue(vk, device, facts);
    vk->vkGetPhysicalDeviceMemoryProperties(device, &facts->memory);
    if (facts->of.api_version < VK_VERSION_1_2) return; /* it does not know these structures */
    facts->of_12.type = VK_TYPE_PROPERTIES_12;
    facts->of_11.type = VK_TYPE_PROPERTIES_11;
    facts->of_11.next = &facts->of_12;
    facts->of.next = &facts->of_11;
    vk->vkGetPhysicalDeviceProperties2(device, &facts->of);
    facts->has_12.type = VK_TYPE_FEATURES_12;
    facts->has_11.type = VK_TYPE_FEATURES_11;
    facts->has_11.next = &facts->has_12;
    facts->has.type = VK_TYPE_FEATURES;
    facts->has.next = &facts->has_11;
    vk->vkGetPhysicalDeviceFeatures2(device, &facts->has);
    facts->units = units_of(vk, heap, device, facts);
    facts->shares = rt_vulkan_has_extension(vk, heap, device, VULKAN_FD_EXTENSION);
    facts->signals = rt_vulkan_has_extension(vk, heap, device, VULKAN_TIMELINE_EXTENSION);
    rt_vulkan_lanes(vk, heap, device, facts);
}

static void lack(AuText *why, const char *words, bool has, const char *what)
{
    if (!has) rt_text_add(why, "%s%s", why->length ? ", " : words, what);
}

void rt_vulkan_lacks(const VulkanFacts *f, const char *words, AuText *why)
{
    const uint32_t version = f->of.api_version;
    if (version < VK_VERSION_1_2) {
        rt_text_add(why, "it has Vulkan %u.%u, 1.2 is needed", version >> 22 & 127,
                    version >> 12 & 1023);
        return;
    }
    lack(why, words, f->has_12.is[VK_HAS_BUFFER_ADDRESS], "bufferDeviceAddress");
    lack(why, words, f->has_12.is[VK_HAS_MEMORY_MODEL], "vulkanMemoryModel");
    lack(why, words, f->has_12.is[VK_HAS_TIMELINE], "timelineSemaphore");
    lack(why, words, f->has.is[VK_HAS_INT64], "shaderInt64");
    lack(why, words, f->has.is[VK_HAS_INT16], "shaderInt16");
    lack(why, words, f->has_12.is[VK_HAS_INT8], "shaderInt8");
    lack(why, words, f->has_11.is[VK_HAS_STORAGE_16], "storageBuffer16BitAccess");
    lack(why, words, f->has_12.is[VK_HAS_STORAGE_8], "storageBuffer8BitAccess");
    lack(why, words, f->of_12.keeps_special, "shaderSignedZeroInfNanPreserveFloat32");
    lack(why, words, f->of_12.rounds_even, "shaderRoundingModeRTEFloat32");
    lack(why, words, f->family != UINT32_MAX, "a queue that computes");
}

/* ---- the list */

static aule_device_kind kind_of(uint32_t kind)
{
    switch (kind) {
    case VK_DEVICE_INTEGRATED_GPU:
    case VK_DEVICE_DISCRETE_GPU:
    case VK_DEVICE_VIRTUAL_GPU: return AULE_DEVICE_GPU;
    case VK_DEVICE_CPU: return AULE_DEVICE_CPU;
    }
    return AULE_DEVICE_OTHER;
}

uint64_t rt_vulkan_local_bytes(const VulkanFacts *f)
{
    uint64_t most = 0;
    for (uint32_t n = 0; n < f->memory.type_count && n < 32; n++) {
        const uint32_t heap = f->memory.types[n].heap;
        if (f->memory.types[n].flags & VK_MEMORY_DEVICE_LOCAL && heap < 16 &&
            f->memory.heaps[heap].bytes > most)
            most = f->memory.heaps[heap].bytes;
    }
    return most;
}

static void add_features(const VulkanFacts *f, AuText *words)
{
    const uint32_t version = f->of.api_version, shared = f->of.limits.shared_bytes;
    rt_text_add(words, "vulkan%u.%u", version >> 22 & 127, version >> 12 & 1023);
    for (uint32_t kilobytes = 16; kilobytes <= 48; kilobytes += 16)
        if (shared >= kilobytes * 1024) rt_text_add(words, " shared%uk", kilobytes);
    if (f->of_11.subgroup) rt_text_add(words, " subgroup%u", f->of_11.subgroup);
    rt_vulkan_lanes_words(f, words);
}

static void add_uuid(const VulkanFacts *f, AuText *text)
{
    const uint8_t *uuid = f->of_11.device_uuid;
    uint32_t any = 0;
    for (uint32_t n = 0; n < sizeof f->of_11.device_uuid; n++) any |= uuid[n];
    if (any) rt_add_uuid(uuid, text);
}

aule_status rt_vulkan_found(AuFinder *finder, const VulkanFacts *f, uint32_t index, AuText *why,
                            AuSink sink)
{
    char id[24];
    AuText driver = {.memory = sink.memory}, words = {.memory = sink.memory},
           uuid = {.memory = sink.memory};
    add_features(f, &words);
    add_uuid(f, &uuid);
    rt_text_add(&driver, "%s %s, Vulkan %u.%u.%u", f->of_12.driver_name, f->of_12.driver_info,
                f->of.api_version >> 22 & 127, f->of.api_version >> 12 & 1023,
                f->of.api_version & 4095);
    snprintf(id, sizeof id, "vulkan:%u", index);
    const aule_device_info info = {.id = id,
                                   .backend = "vulkan",
                                   .available = !why->length,
                                   .reason = why->length ? rt_text_str(why) : NULL,
                                   .name = f->of.name,
                                   .driver = rt_text_str(&driver),
                                   .features = rt_text_str(&words),
                                   .kind = kind_of(f->of.kind),
                                   .units = f->units,
                                   .memory_bytes = rt_vulkan_local_bytes(f),
                                   .dl = {kDLVulkan, (int32_t)index},
                                   .uuid = rt_text_str(&uuid)};
    const bool failed = why->failed || driver.failed || words.failed || uuid.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(why);
    rt_text_free(&driver);
    rt_text_free(&words);
    rt_text_free(&uuid);
    return status;
}

static aule_status found(AuFinder *finder, const AuVulkan *vk, VkPhysicalDevice device,
                         uint32_t index, AuSink sink)
{
    VulkanFacts f;
    AuText why = {.memory = sink.memory};
    rt_vulkan_facts(vk, sink.memory, device, &f);
    rt_vulkan_lacks(&f, "it lacks ", &why);
    return rt_vulkan_found(finder, &f, index, &why, sink);
}

aule_status rt_vulkan_find(AuFinder *finder, AuSink sink)
{
    AuVulkan vk = {0};
    VkInstance instance = NULL;
    VkPhysicalDevice devices[VULKAN_DEVICES];
    VkResult code;
    char number[24];
    AuText why = {.memory = sink.memory};
    const DLDevice none = {kDLVulkan, 0};
    if (!rt_vulkan_begin(&vk, &instance, &why))
        return rt_found_none(finder, "vulkan", none, &why, sink);
    const uint32_t count = rt_vulkan_devices(&vk, instance, devices, &code);
    aule_status status = AULE_OK;
    if (!count) {
        if (code < 0)
            rt_text_add(&why, "vkEnumeratePhysicalDevices: %s", rt_vulkan_error(code, number));
        else
            rt_vulkan_drivers(sink.memory, "none of these drivers has a device", &why);
        status = rt_found_none(finder, "vulkan", none, &why, sink);
    }
    for (uint32_t n = 0; !status && n < count; n++)
        status = found(finder, &vk, devices[n], n, sink);
    vk.vkDestroyInstance(instance, NULL);
    return status;
}
