/* vulkan_clear.c - zeros. Memory is known by its address alone, which commands that fill buffers do not take, so a kernel writes them:
 * words, and the bytes at both ends that are none. The module is what the emitter makes of tests/golden/spirv/clear.kir; `spirv text` of the
 * tests compares the two. */
#include "vulkan.h"

static const uint32_t module[] = {
#include "vulkan_clear.def"
};

enum { THREADS = 256, WORDS = 4 }; /* of a block; of a thread */

static const aule_launch_v1 launch = {.struct_size = sizeof launch,
                                      .entry = "clear",
                                      .block = {THREADS, 1, 1},
                                      .slot_count = VULKAN_CLEAR_SLOTS};
static const aule_variant_v1 variant = {.struct_size = sizeof variant,
                                        .schedule = "zeros",
                                        .code_format = AULE_CODE_SPIRV,
                                        .code = module,
                                        .code_bytes = sizeof module,
                                        .launch_count = 1,
                                        .launches = &launch};

aule_status rt_vulkan_clear(Vulkan *v, AuSink sink)
{
    return v->clear ? AULE_OK : rt_vulkan_load(v, &variant, &v->clear, sink);
}

uint32_t rt_vulkan_clear_blocks(uint64_t bytes)
{
    return (uint32_t)(bytes / (4 * THREADS * WORDS) + 1);
}

void rt_vulkan_clear_fill(uint64_t address, uint64_t bytes, uint64_t *slots)
{
    const uint64_t end = address + bytes, up = (address + 3) / 4 * 4, first = up < end ? up : end;
    const uint64_t last = end / 4 * 4 > first ? end / 4 * 4 : first;
    slots[0] = first;
    slots[1] = address;
    slots[2] = last;
    slots[3] = (last - first) / 4;
    slots[4] = first - address;
    slots[5] = end - last;
}
