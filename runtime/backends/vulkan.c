/* vulkan.c - Vulkan devices: code is SPIR-V, memory has addresses, all work goes on one queue, the device's own or the
 * caller's, in order. */
#include "vulkan.h"

aule_status rt_vulkan_check(Vulkan *v, AuSink sink, const char *call, VkResult code)
{
    char number[24];
    if (code >= 0 && code != VK_TIMEOUT) return AULE_OK;
    if (code == VK_ERROR_DEVICE_LOST) atomic_store(&v->lost, true);
    const bool memory = code == VK_ERROR_OUT_OF_HOST_MEMORY ||
                        code == VK_ERROR_OUT_OF_DEVICE_MEMORY || code == VK_ERROR_TOO_MANY_OBJECTS;
    return rt_fail(sink, memory ? AULE_ERROR_MEMORY : AULE_ERROR_DRIVER, "vulkan:%u: %s: %s%s",
                   v->index, call, rt_vulkan_error(code, number),
                   code == VK_ERROR_DEVICE_LOST
                       ? "; a kernel has failed or ran too long: open the device again"
                       : "");
}

aule_status rt_vulkan_alive(Vulkan *v, AuSink sink)
{
    return atomic_load(&v->lost) ? rt_vulkan_check(v, sink, "an earlier call", VK_ERROR_DEVICE_LOST)
                                 : AULE_OK;
}

/* ---- opening */

static aule_status make_device(Vulkan *v, AuSink sink)
{
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.type = VK_TYPE_DEVICE_QUEUE,
                                           .family = v->facts.family,
                                           .count = 1,
                                           .priorities = &priority};
    const bool lanes = v->facts.lanes_most, matrices = v->facts.matrix_count;
    const bool places = v->facts.places, bf16 = v->facts.bf16;
    const char *extensions[8];
    uint32_t extension_count = 0;
    if (v->facts.shares) extensions[extension_count++] = VULKAN_FD_EXTENSION;
    if (v->facts.signals) extensions[extension_count++] = VULKAN_TIMELINE_EXTENSION;
    if (v->facts.sums) extensions[extension_count++] = VULKAN_SUMS_EXTENSION;
    if (lanes) extensions[extension_count++] = VULKAN_LANES_EXTENSION;
    if (matrices) extensions[extension_count++] = VULKAN_MATRIX_EXTENSION;
    if (bf16) extensions[extension_count++] = VULKAN_BF16_EXTENSION;
    if (places) extensions[extension_count++] = VULKAN_PLACES_EXTENSION;
    if (v->facts.layout) extensions[extension_count++] = VULKAN_SHARED_EXTENSION;
    const bool blocks = v->facts.block_count;
    VkPhysicalDeviceCooperativeMatrix2Features has_places = {.type = VK_TYPE_FEATURES_MATRIX_2,
                                                             .of_groups = blocks,
                                                             .any_extents = blocks,
                                                             .reduces = 1,
                                                             .converts = 1,
                                                             .by_element = 1,
                                                             .by_tensors = v->facts.tensors};
    void *const after_bf16 = places ? &has_places : NULL;
    VkPhysicalDeviceShaderBfloat16Features has_bf16 = {
        .type = VK_TYPE_FEATURES_BF16, .next = after_bf16, .numbers = 1, .matrices = 1};
    VkPhysicalDeviceCooperativeMatrixFeatures has_matrix = {
        .type = VK_TYPE_FEATURES_MATRIX, .next = bf16 ? &has_bf16 : after_bf16, .matrices = 1};
    VkPhysicalDeviceSubgroupSizeControlFeatures has_lanes = {.type = VK_TYPE_FEATURES_LANES,
                                                             .next = matrices ? &has_matrix : NULL,
                                                             .control = 1,
                                                             .full = 1};
    void *const after_sums = lanes ? &has_lanes : NULL;
    VkPhysicalDeviceShaderAtomicFloatFeatures has_sums = {
        .type = VK_TYPE_FEATURES_SUMS, .next = after_sums, .f32_adds = 1};
    void *const after_shared = v->facts.sums ? (void *)&has_sums : after_sums;
    VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures has_shared = {.type =
                                                                            VK_TYPE_FEATURES_SHARED,
                                                                        .next = after_shared,
                                                                        .layout = 1,
                                                                        .bits8 = 1,
                                                                        .bits16 = 1};
    VkPhysicalDeviceVulkan12Features has_12 = {
        .type = VK_TYPE_FEATURES_12, .next = v->facts.layout ? (void *)&has_shared : after_shared};
    VkPhysicalDeviceVulkan11Features has_11 = {.type = VK_TYPE_FEATURES_11, .next = &has_12};
    VkPhysicalDeviceFeatures2 has = {.type = VK_TYPE_FEATURES, .next = &has_11};
    has.is[VK_HAS_INT64] = has.is[VK_HAS_INT16] = 1;
    has_11.is[VK_HAS_STORAGE_16] = 1;
    has_12.is[VK_HAS_STORAGE_8] = has_12.is[VK_HAS_INT8] = has_12.is[VK_HAS_TIMELINE] = 1;
    has_12.is[VK_HAS_BUFFER_ADDRESS] = has_12.is[VK_HAS_MEMORY_MODEL] = 1;
    has_12.is[VK_HAS_FLOAT_16] = matrices;
    const VkDeviceCreateInfo info = {.type = VK_TYPE_DEVICE,
                                     .next = &has,
                                     .queue_count = 1,
                                     .queues = &queue,
                                     .extension_count = extension_count,
                                     .extensions = extensions};
    VkResult code = v->vk.vkCreateDevice(v->physical, &info, NULL, &v->device);
    if (code != VK_SUCCESS) {
        v->device = NULL;
        return rt_vulkan_check(v, sink, "vkCreateDevice", code);
    }
    v->vk.vkGetDeviceQueue(v->device, v->facts.family, 0, &v->queue);
    return AULE_OK;
}

static aule_status make_commands(Vulkan *v, AuSink sink)
{
    VkCommandBuffer commands[VULKAN_RING];
    const VkCommandPoolCreateInfo pool = {.type = VK_TYPE_COMMAND_POOL,
                                          .flags = VK_POOL_RESET_COMMAND_BUFFER,
                                          .family = v->facts.family};
    VkResult code = v->vk.vkCreateCommandPool(v->device, &pool, NULL, &v->pool);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkCreateCommandPool", code);
    const VkCommandBufferAllocateInfo all = {
        .type = VK_TYPE_COMMAND_BUFFERS, .pool = v->pool, .count = VULKAN_RING};
    code = v->vk.vkAllocateCommandBuffers(v->device, &all, commands);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkAllocateCommandBuffers", code);
    for (uint32_t n = 0; n < VULKAN_RING; n++) v->ring[n].commands = commands[n];
    const VkSemaphoreTypeCreateInfo kind = {.type = VK_TYPE_SEMAPHORE_KIND,
                                            .kind = VK_SEMAPHORE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore = {.type = VK_TYPE_SEMAPHORE, .next = &kind};
    code = v->vk.vkCreateSemaphore(v->device, &semaphore, NULL, &v->timeline);
    return rt_vulkan_check(v, sink, "vkCreateSemaphore", code);
}

static aule_status make_layout(Vulkan *v, AuSink sink)
{
    const VkPushConstantRange range = {.stages = VK_STAGE_COMPUTE, .bytes = sizeof(VulkanPushed)};
    const VkPipelineLayoutCreateInfo info = {
        .type = VK_TYPE_PIPELINE_LAYOUT, .range_count = 1, .ranges = &range};
    VkResult code = v->vk.vkCreatePipelineLayout(v->device, &info, NULL, &v->layout);
    return rt_vulkan_check(v, sink, "vkCreatePipelineLayout", code);
}

static aule_status find_again(Vulkan *v, AuSink sink)
{
    VkPhysicalDevice devices[VULKAN_DEVICES];
    VkResult code = VK_SUCCESS;
    AuText why = {.memory = v->heap};
    const bool begun = rt_vulkan_begin(&v->vk, &v->instance, &why);
    const uint32_t count = begun ? rt_vulkan_devices(&v->vk, v->instance, devices, &code) : 0;
    aule_status status = AULE_OK;
    if (!begun) {
        v->instance = NULL;
        status = rt_fail(sink, AULE_ERROR_DEVICE, "vulkan: %s", rt_text_str(&why));
    } else if (code < 0)
        status = rt_vulkan_check(v, sink, "vkEnumeratePhysicalDevices", code);
    else if (v->index >= count)
        status = rt_fail(sink, AULE_ERROR_DEVICE, "vulkan:%u: the device is gone", v->index);
    else {
        v->physical = devices[v->index];
        rt_vulkan_facts(&v->vk, v->heap, v->physical, &v->facts);
        rt_vulkan_lacks(&v->facts, "it lacks ", &why);
        if (why.length)
            status = rt_fail(sink, AULE_ERROR_DEVICE, "vulkan:%u: %s", v->index, rt_text_str(&why));
    }
    rt_text_free(&why);
    return status;
}

/* Of the caller's device and instance nothing ends but what we made. */
static void close_vulkan(void *state)
{
    Vulkan *v = state;
    const bool owned = !v->given.struct_size;
    if (v->device) {
        if (v->timeline) rt_vulkan_settle(v);
        if (atomic_load(&v->hung)) return; /* with all that it may still read */
        if (owned) v->vk.vkDeviceWaitIdle(v->device);
        if (v->clear) rt_vulkan_unload(v, v->clear);
        rt_vulkan_chunks_end(v);
        if (v->timeline) v->vk.vkDestroySemaphore(v->device, v->timeline, NULL);
        if (v->layout) v->vk.vkDestroyPipelineLayout(v->device, v->layout, NULL);
        if (v->pool) v->vk.vkDestroyCommandPool(v->device, v->pool, NULL);
        if (owned) v->vk.vkDestroyDevice(v->device, NULL);
    }
    if (v->instance && owned) v->vk.vkDestroyInstance(v->instance, NULL);
    pthread_mutex_destroy(&v->lock);
    rt_free(v);
}

static aule_status open_vulkan(AuHeap memory, uint32_t index, const aule_device_options *options,
                               void **state, AuSink sink)
{
    Vulkan *v = rt_alloc(memory, sizeof *v);
    if (!v) return rt_fail_memory(sink);
    v->heap = memory;
    v->index = index;
    atomic_init(&v->lost, false);
    atomic_init(&v->hung, false);
    for (int n = 0; n < VULKAN_SIDES; n++) atomic_init(&v->positions[n], VULKAN_POSITIONS_UNKNOWN);
    pthread_mutex_init(&v->lock, NULL);
    aule_status status = rt_patience(VULKAN_PATIENCE, &v->patience, sink);
    if (!status) status = options->context ? rt_vulkan_take(v, options, sink) : find_again(v, sink);
    if (!status && !v->device) status = make_device(v, sink);
    if (!status) status = make_commands(v, sink);
    if (!status) status = make_layout(v, sink);
    v->cuts_loops = v->facts.of.kind == VK_DEVICE_CPU;
    if (!status)
        status = rt_vulkan_buffer(v, (uint64_t)VULKAN_RING * VULKAN_SLOTS, true, &v->slots, sink);
    if (!status) status = rt_vulkan_probe(v, sink);
    if (status)
        close_vulkan(v);
    else
        *state = v;
    return status;
}

/* Where a word of shared memory is missing, what there is. */
static void explain(const aule_device_info *info, const char *feature, AuText *text)
{
    if (strncmp(feature, "shared", 6) == 0)
        rt_text_add(text, "; what the device has: %s", info->features);
}

const AuBackend au_backend_vulkan = {
    .api_version = AU_BACKEND_API,
    .name = "vulkan",
    .flat = true,
    .has_uuids = true,
    .dl = {kDLVulkan},
    .find = rt_vulkan_find,
    .find_given = rt_vulkan_find_given,
    .environment = rt_vulkan_environment,
    .open = open_vulkan,
    .close = close_vulkan,
    .explain = explain,
    .confirm = rt_vulkan_confirm,
    .load = rt_vulkan_load,
    .unload = rt_vulkan_unload,
    .check_memory = rt_vulkan_check_memory,
    .launch = rt_vulkan_launch,
    .record = rt_vulkan_record,
    .run = rt_vulkan_run,
    .forget = rt_vulkan_forget,
    .synchronize = rt_vulkan_synchronize,
    .buffer_new = rt_vulkan_buffer_new,
    .buffer_free = rt_vulkan_buffer_free,
    .buffer_export = rt_vulkan_buffer_export,
    .buffer_import = rt_vulkan_buffer_import,
    .timeline_export = rt_vulkan_timeline_export,
    .timeline_put = rt_vulkan_timeline_put,
    .timeline_handle = rt_vulkan_timeline_handle,
    .timeline_free = rt_vulkan_timeline_free,
    .upload = rt_vulkan_upload,
    .download = rt_vulkan_download,
    .event_record = rt_vulkan_event_record,
    .event_wait = rt_vulkan_event_wait,
    .event_elapsed = rt_vulkan_event_elapsed,
    .event_free = rt_vulkan_event_free,
};
