/* vulkan_device.h - the first Vulkan device, through libaule's backend alone, for tests that run single kernels on it. Calls that
 * fail leave why in [error]. */
#ifndef AU_TEST_VULKAN_DEVICE_H
#define AU_TEST_VULKAN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct VulkanDevice {
    void *state;
    char error[1024];
} VulkanDevice;

typedef struct VulkanCode {
    const void *module;
    size_t bytes;
    const char *entry;
    uint32_t threads, slots; /* of a block; of the parameter block */
    const char *features;    /* of a variant: "lanes8"; NULL: none */
} VulkanCode;

bool vulkan_open(VulkanDevice *d);
void vulkan_close(VulkanDevice *d);
bool vulkan_has(const VulkanDevice *d, const char *features);              /* all these words */
uint64_t vulkan_buffer(VulkanDevice *d, const void *data, uint64_t bytes); /* 0: failed */
bool vulkan_read(VulkanDevice *d, uint64_t address, void *data, uint64_t bytes);
void vulkan_free(VulkanDevice *d, uint64_t address);
/* By the backend's own kernel. */
bool vulkan_zero(VulkanDevice *d, uint64_t address, uint64_t bytes);
bool vulkan_run(VulkanDevice *d, const VulkanCode *code, const uint64_t *slots,
                const uint32_t grid[3]);

#endif
