/* vulkan_case.c - see vulkan_case.h. */
#include "vulkan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t code[] = {0x07230203, 0x00010500, 0, 1, 0, 3 << 16 | 14, 5348, 3};
static CaseModule sample;
static char folder[] = "/tmp/aule-vulkan-test-XXXXXX";

const aule_module_v1 *vulkan_case_module(void)
{
    if (!sample.module.attentions)
        case_module(&sample, &(aule_variant_v1){.target = "vulkan",
                                                .arch = "vulkan12",
                                                .features = "shared32k",
                                                .code_format = AULE_CODE_SPIRV,
                                                .code = code,
                                                .code_bytes = sizeof code});
    return &sample.module;
}

void expect_nothing_left(void)
{
    assert_int_equal(vulkan_mock.instances, 0);
    assert_int_equal(vulkan_mock.opened, 0);
    assert_int_equal(vulkan_mock.buffers, 0);
    assert_int_equal(vulkan_mock.memories, 0);
    assert_int_equal(vulkan_mock.modules, 0);
    assert_int_equal(vulkan_mock.layouts, 0);
    assert_int_equal(vulkan_mock.pipelines, 0);
    assert_int_equal(vulkan_mock.pools, 0);
    assert_int_equal(vulkan_mock.commands, 0);
    assert_int_equal(vulkan_mock.semaphores, 0);
    assert_int_equal(vulkan_mock.queries, 0);
    assert_int_equal(vulkan_mock.caches, 0);
}

bool vulkan_case_tells(const char *message, const char *function)
{
    return strstr(message, function) ||
           (strcmp(function, "vkEnumerateInstanceVersion") == 0 &&
            strstr(message, "older than Vulkan 1.2")) ||
           (strcmp(function, "vkWaitSemaphores") == 0 && /* while something was given back */
            strstr(message, "an earlier call: VK_ERROR_DEVICE_LOST"));
}

bool vulkan_case_does_without(const char *function, aule_status status)
{
    return strcmp(function, "vkEnumerateDeviceExtensionProperties") == 0 ||
           strstr(function, "CooperativeMatrix") || strstr(function, "PipelineCache") ||
           (strcmp(function, "vkWaitSemaphores") == 0 && !status);
}

int vulkan_case_run(int (*run)(void))
{
    char command[64];
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1)) return 1;
    const int failed = run();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? 1 : failed;
}

const char *vulkan_case_folder(void) { return folder; }
