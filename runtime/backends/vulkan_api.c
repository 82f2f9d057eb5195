/* vulkan_api.c - the loader and its functions; names of errors. */
#include "vulkan_api.h"

#include <dlfcn.h>
#include <stdio.h>

static bool take(const AuVulkan *vk, VkInstance instance, const char *name, void *function,
                 AuText *why)
{
    VkFunction found = vk->vkGetInstanceProcAddr(instance, name);
    memcpy(function, &found, sizeof found);
    if (!found && !why->length)
        rt_text_add(why, "Vulkan's loader has no %s: Vulkan 1.2 is needed", name);
    return found != NULL;
}

bool rt_vulkan_api(AuVulkan *vk, AuText *why)
{
    /* Drivers start threads and do not survive being unloaded. */
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *cause = dlerror();
        rt_text_add(why, "libvulkan.so.1, Vulkan's loader, cannot be loaded: %s",
                    cause ? cause : "no cause given");
        return false;
    }
    void *found = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&vk->vkGetInstanceProcAddr, &found, sizeof found);
    bool fine = found != NULL;
    if (!fine) rt_text_add(why, "libvulkan.so.1 has no vkGetInstanceProcAddr");
#define VK(result, name, arguments)
#define EARLY(result, name, arguments) fine = fine && take(vk, NULL, #name, (void *)&vk->name, why);
#include "vulkan_api.def"
    dlclose(library);
    return fine;
}

bool rt_vulkan_functions(AuVulkan *vk, VkInstance instance, AuText *why)
{
    bool fine = true;
    AuText ignored = {.memory = why->memory};
#define VK(result, name, arguments)                                                                \
    fine = take(vk, instance, #name, (void *)&vk->name, why) && fine;
#define EARLY(result, name, arguments)
#define OPTIONAL(result, name, arguments) take(vk, instance, #name, (void *)&vk->name, &ignored);
#include "vulkan_api.def"
    rt_text_free(&ignored);
    return fine;
}

const char *rt_vulkan_error(VkResult code, char buffer[24])
{
    switch (code) {
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case -3: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case -5: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case -7: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case -8: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case -13: return "VK_ERROR_UNKNOWN";
    case VK_ERROR_INVALID_EXTERNAL_HANDLE: return "VK_ERROR_INVALID_EXTERNAL_HANDLE";
    }
    snprintf(buffer, 24, "error %d", code);
    return buffer;
}
