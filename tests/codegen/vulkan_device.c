/* vulkan_device.c - see vulkan_device.h. */
#include "vulkan_device.h"

#include <stdio.h>

#include "backends/vulkan.h"
#include "descriptor.h"

static bool good(VulkanDevice *d, aule_status status, aule_error *error)
{
    if (status) snprintf(d->error, sizeof d->error, "%s", aule_error_message(error));
    aule_error_free(error);
    return status == AULE_OK;
}

bool vulkan_open(VulkanDevice *d)
{
    const aule_device_options options = {.struct_size = sizeof options};
    aule_error *error = NULL;
    const AuSink sink = {rt_memory(NULL), &error};
    aule_status status = au_backend_vulkan.open(sink.memory, 0, &options, &d->state, sink);
    return good(d, status, error);
}

bool vulkan_has(const VulkanDevice *d, const char *features)
{
    const Vulkan *v = d->state;
    AuText words = {.memory = rt_memory(NULL)};
    bool has = true;
    rt_vulkan_lanes_words(&v->facts, &words);
    for (const char *at = features; *at && has; at += strcspn(at, " "), at += *at == ' ')
        has = rt_has_word(rt_text_str(&words), at, strcspn(at, " "));
    rt_text_free(&words);
    return has;
}

void vulkan_close(VulkanDevice *d) { au_backend_vulkan.close(d->state); }

uint64_t vulkan_buffer(VulkanDevice *d, const void *data, uint64_t bytes)
{
    void *at = NULL;
    aule_error *error = NULL;
    const AuSink sink = {rt_memory(NULL), &error};
    aule_status status = au_backend_vulkan.buffer_new(d->state, bytes, &at, sink);
    if (!status) status = au_backend_vulkan.upload(d->state, at, 0, data, bytes, sink);
    return good(d, status, error) ? (uintptr_t)at : 0;
}

bool vulkan_read(VulkanDevice *d, uint64_t address, void *data, uint64_t bytes)
{
    aule_error *error = NULL;
    const AuSink sink = {rt_memory(NULL), &error};
    void *at = (void *)(uintptr_t)address;
    aule_status status = au_backend_vulkan.download(d->state, at, 0, data, bytes, sink);
    return good(d, status, error);
}

void vulkan_free(VulkanDevice *d, uint64_t address)
{
    au_backend_vulkan.buffer_free(d->state, (void *)(uintptr_t)address);
}

bool vulkan_zero(VulkanDevice *d, uint64_t address, uint64_t bytes)
{
    Vulkan *v = d->state;
    uint64_t slots[VULKAN_CLEAR_SLOTS];
    aule_error *error = NULL;
    const AuSink sink = {rt_memory(NULL), &error};
    const AuLaunch given = {.grid = {rt_vulkan_clear_blocks(bytes), 1, 1}, .slots = slots};
    rt_vulkan_clear_fill(address, bytes, slots);
    aule_status status = rt_vulkan_clear(v, sink);
    if (!status) status = au_backend_vulkan.launch(v, v->clear, NULL, &given, sink);
    return good(d, status, error);
}

bool vulkan_run(VulkanDevice *d, const VulkanCode *code, const uint64_t *slots,
                const uint32_t grid[3])
{
    aule_error *error = NULL;
    const AuSink sink = {rt_memory(NULL), &error};
    const aule_launch_v1 launch = {.struct_size = sizeof launch,
                                   .entry = code->entry,
                                   .block = {code->threads, 1, 1},
                                   .slot_count = code->slots};
    const aule_variant_v1 variant = {.struct_size = sizeof variant,
                                     .schedule = "a test",
                                     .code_format = AULE_CODE_SPIRV,
                                     .features = code->features,
                                     .code = code->module,
                                     .code_bytes = code->bytes,
                                     .launch_count = 1,
                                     .launches = &launch};
    const AuLaunch given = {.grid = {grid[0], grid[1], grid[2]}, .slots = slots};
    void *program = NULL;
    aule_status status = au_backend_vulkan.load(d->state, &variant, &program, sink);
    if (!status) status = au_backend_vulkan.launch(d->state, program, NULL, &given, sink);
    if (!status) status = au_backend_vulkan.synchronize(d->state, NULL, sink);
    if (program) au_backend_vulkan.unload(d->state, program);
    return good(d, status, error);
}
