/* vulkan_app.h - a program's own Vulkan: instance, device, queue, memory that the host sees, semaphores that count. Made with the specification's
 * header and loader. */
#ifndef VULKAN_APP_H
#define VULKAN_APP_H

#include <aule/aule.h>
#include <stdbool.h>
#include <vulkan/vulkan.h>

typedef struct App {
    VkInstance instance;
    VkPhysicalDevice physical;
    uint32_t place, family;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    bool shares; /* memory by file descriptor */
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features features_11;
    VkPhysicalDeviceVulkan12Features features_12;
    VkDeviceCreateInfo created;
} App;

/* Ends the program with the call's name where it fails. */
#define VK_CHECK(call) app_check(call, #call)
void app_check(VkResult code, const char *call);

/* The first device with all that kernels of libaule need. false: there is none. */
bool app_begin(App *app);
void app_end(App *app);
/* For aule_device_options.context. */
aule_vulkan_device app_given(const App *app);

typedef struct Memory {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address, bytes;
    float *seen;
} Memory;
Memory app_memory(const App *app, uint64_t bytes);
void app_memory_end(const App *app, Memory *memory);

/* Local to the device, and another driver's, too: [fd] is what it is imported by, or -1: it is made, and the host does not see it. */
Memory app_shared_memory(const App *app, uint64_t bytes, int fd);
/* For another driver; [bytes] of the allocation. */
int app_fd(const App *app, const Memory *memory, uint64_t *bytes);

VkSemaphore app_timeline(const App *app);
uint64_t app_value(const App *app, VkSemaphore timeline);
void app_signal(const App *app, VkSemaphore timeline, uint64_t value);
void app_wait(const App *app, VkSemaphore timeline, uint64_t value);

/* Commands that copy all of one buffer to another, once. */
VkCommandBuffer app_copy(const App *app, const Memory *from, const Memory *to, uint64_t bytes);
/* Waits for and signals one timeline each; value 0: none. */
void app_submit(const App *app, VkCommandBuffer commands, VkSemaphore before, uint64_t before_value,
                VkSemaphore after, uint64_t after_value);

#endif
