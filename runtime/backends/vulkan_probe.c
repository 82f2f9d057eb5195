/* vulkan_probe.c - does the device's Fma round once? (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, or 0 where the product is rounded.
 * The module is what the emitter makes of tests/golden/spirv/probe.kir; `spirv text` of the tests compares the two. */
#include "vulkan.h"

static const uint32_t module[] = {
#include "vulkan_probe.def"
};

enum { NUMBERS = 4 }; /* a, b, c, a b + c */

static aule_status run(Vulkan *v, VulkanBuffer *numbers, AuSink sink)
{
    const aule_launch_v1 launch = {
        .struct_size = sizeof launch, .entry = "probe", .block = {1, 1, 1}, .slot_count = 1};
    const aule_variant_v1 variant = {.struct_size = sizeof variant,
                                     .schedule = "probe",
                                     .code_format = AULE_CODE_SPIRV,
                                     .code = module,
                                     .code_bytes = sizeof module,
                                     .launch_count = 1,
                                     .launches = &launch};
    const AuLaunch given = {.grid = {1, 1, 1}, .slots = &numbers->address};
    void *program = NULL;
    aule_status status = rt_vulkan_load(v, &variant, &program, sink);
    if (status) return status;
    status = rt_vulkan_launch(v, program, NULL, &given, sink);
    rt_vulkan_unload(v, program);
    return status;
}

aule_status rt_vulkan_probe(Vulkan *v, AuSink sink)
{
    const float given[NUMBERS] = {0x1.001p0f, 0x1.001p0f, -0x1.002p0f, -1};
    float result = 0;
    VulkanBuffer *numbers = NULL;
    aule_status status = rt_vulkan_buffer(v, sizeof given, true, &numbers, sink);
    if (status) return status;
    memcpy(numbers->mapped, given, sizeof given);
    status = run(v, numbers, sink);
    if (!status) status = rt_vulkan_wait(v, v->submitted, sink);
    if (!status) memcpy(&result, numbers->mapped + 3 * sizeof result, sizeof result);
    rt_vulkan_buffer_end(v, numbers);
    if (!status && result != 0 && result != 0x1p-24f)
        return rt_fail(sink, AULE_ERROR_DRIVER,
                       "vulkan:%u: the device computes (1 + 2^-12)^2 - (1 + 2^-11) as %g", v->index,
                       (double)result);
    v->fused = result != 0;
    return status;
}
