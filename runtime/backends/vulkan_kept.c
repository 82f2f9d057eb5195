/* vulkan_kept.c - what the driver made of modules, kept on disk (cache.h): one file for a module, a device and a driver. The driver's data
 * begins with a head that says whose it is, which is compared before the driver gets it; what does not fit is made again. Nothing here
 * fails: without a cache pipelines are built. */
#include "../cache.h"
#include "vulkan.h"

enum { HEAD = 32, HEAD_VERSION = 1, UUID = 16 };

static bool is_ours(const Vulkan *v, const void *data, size_t bytes)
{
    struct {
        uint32_t bytes, version, vendor, device;
        uint8_t uuid[UUID];
    } head;
    if (bytes <= HEAD) return false;
    memcpy(&head, data, sizeof head);
    return head.bytes == HEAD && head.version == HEAD_VERSION &&
           head.vendor == v->facts.of.vendor && head.device == v->facts.of.device &&
           memcmp(head.uuid, v->facts.of.cache_uuid, UUID) == 0;
}

static void add_uuid(AuText *text, const uint8_t *uuid)
{
    for (uint32_t n = 0; n < UUID; n++) rt_text_add(text, "%02x", uuid[n]);
}

static void name_of(const Vulkan *v, const VulkanKept *kept, AuText *name)
{
    AuText how = {.memory = v->heap};
    add_uuid(&how, v->facts.of_11.device_uuid);
    add_uuid(&how, v->facts.of_11.driver_uuid);
    add_uuid(&how, v->facts.of.cache_uuid);
    rt_text_add(&how, " %x %x %x %d", v->facts.of.vendor, v->facts.of.device,
                v->facts.of.driver_version, v->fused);
    if (!how.failed) rt_cache_name(name, CACHE_VULKAN, kept->code, kept->bytes, rt_text_str(&how));
    name->failed |= how.failed;
    rt_text_free(&how);
}

void rt_vulkan_kept_open(Vulkan *v, VulkanKept *kept)
{
    AuText name = {.memory = v->heap};
    VkPipelineCacheCreateInfo info = {.type = VK_TYPE_PIPELINE_CACHE};
    size_t bytes = 0;
    name_of(v, kept, &name);
    void *data = name.failed ? NULL : rt_cache_read(v->heap, rt_text_str(&name), &bytes);
    if (data && is_ours(v, data, bytes)) {
        info.bytes = bytes;
        info.data = data;
    }
    kept->known = info.bytes > 0;
    VkResult code = v->vk.vkCreatePipelineCache(v->device, &info, NULL, &kept->cache);
    if (code != VK_SUCCESS) kept->cache = 0;
    rt_free(data);
    rt_text_free(&name);
}

static void keep(Vulkan *v, const VulkanKept *kept)
{
    AuText name = {.memory = v->heap};
    size_t bytes = 0;
    if (v->vk.vkGetPipelineCacheData(v->device, kept->cache, &bytes, NULL) != VK_SUCCESS) return;
    void *data = bytes > HEAD ? rt_alloc(v->heap, bytes) : NULL;
    if (!data) return;
    name_of(v, kept, &name);
    if (!name.failed &&
        v->vk.vkGetPipelineCacheData(v->device, kept->cache, &bytes, data) == VK_SUCCESS &&
        is_ours(v, data, bytes))
        rt_cache_write(v->heap, rt_text_str(&name), data, bytes);
    rt_free(data);
    rt_text_free(&name);
}

void rt_vulkan_kept_close(Vulkan *v, VulkanKept *kept, bool good)
{
    if (!kept->cache) return;
    if (good && !kept->known) keep(v, kept);
    v->vk.vkDestroyPipelineCache(v->device, kept->cache, NULL);
}
