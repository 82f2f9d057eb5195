/* vulkan_app.c - see vulkan_app.h. */
#include "vulkan_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void app_check(VkResult code, const char *call)
{
    if (code >= 0) return;
    printf("failed: %s: %d\n", call, code);
    exit(1);
}

/* ---- the device */

static bool has_all(VkPhysicalDevice device, uint32_t *family)
{
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &f11};
    VkPhysicalDeviceProperties of;
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vkGetPhysicalDeviceProperties(device, &of);
    if (of.apiVersion < VK_API_VERSION_1_2) return false;
    vkGetPhysicalDeviceFeatures2(device, &f);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (*family = 0; *family < count; (*family)++)
        if (families[*family].queueFlags & VK_QUEUE_COMPUTE_BIT)
            return f.features.shaderInt64 && f12.bufferDeviceAddress && f12.timelineSemaphore &&
                   f12.vulkanMemoryModel;
    return false;
}

static void enable(App *app)
{
    app->features_12 = (VkPhysicalDeviceVulkan12Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .storageBuffer8BitAccess = VK_TRUE,
        .shaderInt8 = VK_TRUE,
        .timelineSemaphore = VK_TRUE,
        .bufferDeviceAddress = VK_TRUE,
        .vulkanMemoryModel = VK_TRUE};
    app->features_11 = (VkPhysicalDeviceVulkan11Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &app->features_12,
        .storageBuffer16BitAccess = VK_TRUE};
    app->features = (VkPhysicalDeviceFeatures2){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &app->features_11};
    app->features.features.shaderInt64 = app->features.features.shaderInt16 = VK_TRUE;
}

static bool has_extension(const App *app, const char *name)
{
    static VkExtensionProperties list[512];
    uint32_t count = 512;
    if (vkEnumerateDeviceExtensionProperties(app->physical, NULL, &count, list) < 0) return false;
    for (uint32_t n = 0; n < count; n++)
        if (strcmp(list[n].extensionName, name) == 0) return true;
    return false;
}

static void make_device(App *app)
{
    static const char *const extensions[] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = app->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    enable(app);
    app->shares = has_extension(app, extensions[0]);
    app->created = (VkDeviceCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                        .pNext = &app->features,
                                        .queueCreateInfoCount = 1,
                                        .pQueueCreateInfos = &queue,
                                        .enabledExtensionCount = app->shares,
                                        .ppEnabledExtensionNames = extensions};
    VK_CHECK(vkCreateDevice(app->physical, &app->created, NULL, &app->device));
    app->created.pQueueCreateInfos = NULL; /* not kept */
    app->created.queueCreateInfoCount = 0;
    vkGetDeviceQueue(app->device, app->family, 0, &app->queue);
    vkGetPhysicalDeviceMemoryProperties(app->physical, &app->memory);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = app->family};
    VK_CHECK(vkCreateCommandPool(app->device, &pool, NULL, &app->pool));
}

bool app_begin(App *app)
{
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    const char *validation = getenv("AULE_VULKAN_VALIDATION");
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application,
                                       .enabledLayerCount = validation && *validation == '1',
                                       .ppEnabledLayerNames = layers};
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    memset(app, 0, sizeof *app);
    if (vkCreateInstance(&info, NULL, &app->instance) != VK_SUCCESS) return false;
    if (vkEnumeratePhysicalDevices(app->instance, &count, devices) < 0) count = 0;
    for (app->place = 0; app->place < count; app->place++) {
        app->physical = devices[app->place];
        if (!has_all(app->physical, &app->family)) continue;
        make_device(app);
        return true;
    }
    vkDestroyInstance(app->instance, NULL);
    return false;
}

void app_end(App *app)
{
    vkDeviceWaitIdle(app->device);
    vkDestroyCommandPool(app->device, app->pool, NULL);
    vkDestroyDevice(app->device, NULL);
    vkDestroyInstance(app->instance, NULL);
}

aule_vulkan_device app_given(const App *app)
{
    return (aule_vulkan_device){.struct_size = sizeof(aule_vulkan_device),
                                .instance = app->instance,
                                .physical_device = app->physical,
                                .device = app->device,
                                .created = &app->created,
                                .queue = app->queue,
                                .queue_family = app->family};
}

/* ---- memory */

Memory app_memory(const App *app, uint64_t bytes)
{
    const VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo all = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags};
    VkMemoryRequirements needs;
    Memory m = {.bytes = bytes};
    void *at = NULL;
    VK_CHECK(vkCreateBuffer(app->device, &info, NULL, &m.buffer));
    vkGetBufferMemoryRequirements(app->device, m.buffer, &needs);
    while (!(needs.memoryTypeBits >> all.memoryTypeIndex & 1) ||
           (app->memory.memoryTypes[all.memoryTypeIndex].propertyFlags & seen) != seen)
        all.memoryTypeIndex++;
    all.allocationSize = needs.size;
    VK_CHECK(vkAllocateMemory(app->device, &all, NULL, &m.memory));
    VK_CHECK(vkBindBufferMemory(app->device, m.buffer, m.memory, 0));
    VK_CHECK(vkMapMemory(app->device, m.memory, 0, VK_WHOLE_SIZE, 0, &at));
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = m.buffer};
    m.address = vkGetBufferDeviceAddress(app->device, &where);
    m.seen = at;
    memset(at, 0xff, bytes);
    return m;
}

Memory app_shared_memory(const App *app, uint64_t bytes, int fd)
{
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .pNext = &external,
                                     .size = bytes,
                                     .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    const VkExportMemoryAllocateInfo exported = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    const VkImportMemoryFdInfoKHR imported = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                              .handleType =
                                                  VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                              .fd = fd};
    const void *const of_fd = fd < 0 ? (const void *)&exported : &imported;
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .pNext = of_fd,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT}; /* as libaule's */
    VkMemoryAllocateInfo all = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags};
    VkMemoryRequirements needs;
    Memory m = {0};
    VK_CHECK(vkCreateBuffer(app->device, &info, NULL, &m.buffer));
    vkGetBufferMemoryRequirements(app->device, m.buffer, &needs);
    while (!(needs.memoryTypeBits >> all.memoryTypeIndex & 1) ||
           !(app->memory.memoryTypes[all.memoryTypeIndex].propertyFlags &
             VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
        all.memoryTypeIndex++;
    all.allocationSize = m.bytes = needs.size;
    VK_CHECK(vkAllocateMemory(app->device, &all, NULL, &m.memory));
    VK_CHECK(vkBindBufferMemory(app->device, m.buffer, m.memory, 0));
    return m;
}

int app_fd(const App *app, const Memory *memory, uint64_t *bytes)
{
    const VkMemoryGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                       .memory = memory->memory,
                                       .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    PFN_vkGetMemoryFdKHR get =
        (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(app->device, "vkGetMemoryFdKHR");
    int fd = -1;
    VK_CHECK(get(app->device, &info, &fd));
    *bytes = memory->bytes;
    return fd;
}

void app_memory_end(const App *app, Memory *memory)
{
    vkDestroyBuffer(app->device, memory->buffer, NULL);
    vkFreeMemory(app->device, memory->memory, NULL);
}

/* ---- order */

VkSemaphore app_timeline(const App *app)
{
    const VkSemaphoreTypeCreateInfo kind = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                        .pNext = &kind};
    VkSemaphore made;
    VK_CHECK(vkCreateSemaphore(app->device, &info, NULL, &made));
    return made;
}

uint64_t app_value(const App *app, VkSemaphore timeline)
{
    uint64_t value = 0;
    VK_CHECK(vkGetSemaphoreCounterValue(app->device, timeline, &value));
    return value;
}

void app_signal(const App *app, VkSemaphore timeline, uint64_t value)
{
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = timeline, .value = value};
    VK_CHECK(vkSignalSemaphore(app->device, &info));
}

void app_wait(const App *app, VkSemaphore timeline, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &timeline,
                                      .pValues = &value};
    VK_CHECK(vkWaitSemaphores(app->device, &info, UINT64_MAX));
}

VkCommandBuffer app_copy(const App *app, const Memory *from, const Memory *to, uint64_t bytes)
{
    const VkCommandBufferAllocateInfo all = {.sType =
                                                 VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = app->pool,
                                             .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkBufferCopy part = {.size = bytes};
    const VkMemoryBarrier copied = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                    .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT};
    VkCommandBuffer commands;
    VK_CHECK(vkAllocateCommandBuffers(app->device, &all, &commands));
    VK_CHECK(vkBeginCommandBuffer(commands, &begin));
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         0, 1, &copied, 0, NULL, 0, NULL); /* behind copies to the same memory */
    vkCmdCopyBuffer(commands, from->buffer, to->buffer, 1, &part);
    VK_CHECK(vkEndCommandBuffer(commands));
    return commands;
}

void app_submit(const App *app, VkCommandBuffer commands, VkSemaphore before, uint64_t before_value,
                VkSemaphore after, uint64_t after_value)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = before_value != 0,
        .pWaitSemaphoreValues = &before_value,
        .signalSemaphoreValueCount = after_value != 0,
        .pSignalSemaphoreValues = &after_value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &values,
                               .waitSemaphoreCount = before_value != 0,
                               .pWaitSemaphores = &before,
                               .pWaitDstStageMask = &all,
                               .commandBufferCount = commands != NULL,
                               .pCommandBuffers = &commands,
                               .signalSemaphoreCount = after_value != 0,
                               .pSignalSemaphores = &after};
    VK_CHECK(vkQueueSubmit(app->queue, 1, &info, VK_NULL_HANDLE));
}
