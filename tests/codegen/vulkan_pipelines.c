/* What a Vulkan driver makes of modules, without running them: a program for tests and benches, not a test.
 *
 *   vulkan_pipelines [--lanes N] [--matrices] [--probe PROBE.spv] [MODULE.spv...]
 *
 * prints lines of JSON: the device; with --matrices the products of matrices that it lists; for each entry of each module how long the pipeline
 * took to be made, which is kept nowhere, and what the driver says of it (VK_KHR_pipeline_executable_properties: registers, spills). It
 * stops behind vkCreateComputePipelines, so that drivers will do that have no device (RADV_FORCE_FAMILY). --probe runs a module of one
 * entry `main`, which is pushed the address of 16 KB that hold the numbers 0.0, 1.0, .. in f32, and prints what is there afterwards.
 * Exit status 77: no driver. The device is the first one. Features and extensions are all that our modules may ask for and it has. */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vulkan/vulkan.h>

#define FUNCTIONS(F)                                                                               \
    F(EnumeratePhysicalDevices)                                                                    \
    F(GetPhysicalDeviceProperties)                                                                 \
    F(GetPhysicalDeviceMemoryProperties)                                                           \
    F(GetPhysicalDeviceFeatures2)                                                                  \
    F(EnumerateDeviceExtensionProperties)                                                          \
    F(CreateDevice)                                                                                \
    F(GetDeviceQueue)                                                                              \
    F(CreateShaderModule)                                                                          \
    F(CreatePipelineLayout)                                                                        \
    F(CreateComputePipelines)                                                                      \
    F(CreateBuffer)                                                                                \
    F(GetBufferMemoryRequirements)                                                                 \
    F(AllocateMemory)                                                                              \
    F(BindBufferMemory)                                                                            \
    F(MapMemory)                                                                                   \
    F(GetBufferDeviceAddress)                                                                      \
    F(CreateCommandPool)                                                                           \
    F(AllocateCommandBuffers)                                                                      \
    F(BeginCommandBuffer)                                                                          \
    F(CmdBindPipeline)                                                                             \
    F(CmdPushConstants)                                                                            \
    F(CmdDispatch)                                                                                 \
    F(EndCommandBuffer)                                                                            \
    F(QueueSubmit)                                                                                 \
    F(QueueWaitIdle)

/* Newer than the header of Debian 12: what lists matrices, and features as words. */
typedef struct Features {
    VkStructureType type;
    void *next;
    VkBool32 is[16];
} Features;
typedef struct Matrix {
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result, saturates, scope;
} Matrix;
typedef struct Flexible { /* VkCooperativeMatrixFlexibleDimensionsPropertiesNV */
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result, saturates, scope, threads;
} Flexible;
typedef VkResult (*ListMatrices)(VkPhysicalDevice, uint32_t *, void *);
enum {
    MATRIX = 1000506001,
    FLEXIBLE = 1000593001,
    MOST = 256,
    PROBED = 16384,
    PUSHED = 32
}; /* pushed: the slots' address, the extents of the grid, the first block's place (docs/dev/vulkan.md, 2) */

/* Extensions that modules may ask for, and the structure of their features. */
static const struct Extension {
    const char *name;
    int type;
} extensions[] = {
    {"VK_KHR_pipeline_executable_properties", 1000269000},
    {"VK_KHR_cooperative_matrix", 1000506000},
    {"VK_KHR_workgroup_memory_explicit_layout", 1000336000},
    {"VK_KHR_shader_bfloat16", 1000141000},
    {"VK_EXT_shader_atomic_float", 1000260000},
    {"VK_NV_cooperative_matrix2", 1000593000},
};
enum { STATISTICS, MATRICES, MATRICES_2 = 5, EXTENSIONS = 6 };
_Static_assert(sizeof extensions / sizeof *extensions == EXTENSIONS, "");

typedef struct Driver {
    PFN_vkGetInstanceProcAddr find;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkPipelineLayout layout;
    bool has[EXTENSIONS], statistics;
#define FIELD(name) PFN_vk##name name;
    FUNCTIONS(FIELD)
} Driver;

static void check(VkResult code, const char *call)
{
    if (code == VK_SUCCESS) return;
    fprintf(stderr, "vulkan_pipelines: %s: %d\n", call, code);
    exit(1);
}

static void *function(const Driver *d, const char *name)
{
    void *at = NULL;
    PFN_vkVoidFunction f = d->find(d->instance, name);
    memcpy(&at, &f, sizeof at);
    return at;
}

/* ---- the device */

static void open_driver(Driver *d)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW);
    void *find = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    if (!find) exit(77);
    memcpy(&d->find, &find, sizeof find);
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app};
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)d->find(NULL, "vkCreateInstance");
    if (!create || create(&info, NULL, &d->instance) != VK_SUCCESS) exit(77);
#define FIND(name) d->name = (PFN_vk##name)d->find(d->instance, "vk" #name);
    FUNCTIONS(FIND)
    uint32_t count = 1;
    const VkResult code = d->EnumeratePhysicalDevices(d->instance, &count, &d->physical);
    if (code < 0 || count == 0) exit(77);
    VkPhysicalDeviceProperties of;
    d->GetPhysicalDeviceProperties(d->physical, &of);
    printf("{\"device\": \"%s\", \"driver\": %u, \"api\": \"%u.%u\"}\n", of.deviceName,
           of.driverVersion, VK_API_VERSION_MAJOR(of.apiVersion),
           VK_API_VERSION_MINOR(of.apiVersion));
}

static bool has(const VkExtensionProperties *all, uint32_t count, const char *name)
{
    for (uint32_t n = 0; n < count; n++)
        if (strcmp(all[n].extensionName, name) == 0) return true;
    return false;
}

/* With every feature that it has of those. */
static void open_device(Driver *d)
{
    static Features features[EXTENSIONS];
    const char *names[EXTENSIONS];
    uint32_t named = 0, count = 0;
    VkPhysicalDeviceVulkan13Features of_13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkPhysicalDeviceVulkan12Features of_12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &of_13};
    VkPhysicalDeviceVulkan11Features of_11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &of_12};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &of_11};
    check(d->EnumerateDeviceExtensionProperties(d->physical, NULL, &count, NULL), "extensions");
    VkExtensionProperties *listed = calloc(count + 1, sizeof *listed);
    check(d->EnumerateDeviceExtensionProperties(d->physical, NULL, &count, listed), "extensions");
    void **last = &of_13.pNext;
    for (uint32_t n = 0; n < EXTENSIONS; n++) {
        if (!has(listed, count, extensions[n].name)) continue;
        d->has[n] = true;
        names[named++] = extensions[n].name;
        features[n].type = (VkStructureType)extensions[n].type;
        *last = &features[n];
        last = &features[n].next;
    }
    free(listed);
    d->GetPhysicalDeviceFeatures2(d->physical, &all);
    d->statistics = features[STATISTICS].is[0];
    const float first = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &first};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &all,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = named,
                                     .ppEnabledExtensionNames = names};
    check(d->CreateDevice(d->physical, &info, NULL, &d->device), "vkCreateDevice");
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, PUSHED};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    check(d->CreatePipelineLayout(d->device, &layout, NULL, &d->layout), "vkCreatePipelineLayout");
}

/* ---- matrices */

static const char *element(uint32_t type)
{
    static const char *const names[] = {"f16", "f32", "f64", "i8",  "i16", "i32",
                                        "i64", "u8",  "u16", "u32", "u64"};
    return type < 11 ? names[type] : type == 1000141000 ? "bf16" : "other";
}

static void list_matrices(const Driver *d)
{
    static Matrix all[MOST];
    static Flexible flexible[MOST];
    void *at = function(d, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    ListMatrices list = NULL;
    uint32_t count = MOST;
    memcpy(&list, &at, sizeof list);
    for (uint32_t n = 0; n < MOST; n++) all[n].type = (VkStructureType)MATRIX;
    if (!d->has[MATRICES] || !list || list(d->physical, &count, all) < 0) count = 0;
    for (uint32_t n = 0; n < count; n++)
        printf("{\"matrix\": \"%ux%ux%u\", \"operands\": \"%s\", \"sums\": \"%s\", \"scope\": "
               "\"%s\", \"saturates\": %u}\n",
               all[n].m, all[n].n, all[n].k, element(all[n].a), element(all[n].c),
               all[n].scope == 3 ? "subgroup" : "workgroup", all[n].saturates);
    at = function(d, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV");
    memcpy(&list, &at, sizeof list);
    count = MOST;
    for (uint32_t n = 0; n < MOST; n++) flexible[n].type = (VkStructureType)FLEXIBLE;
    if (!d->has[MATRICES_2] || !list || list(d->physical, &count, flexible) < 0) count = 0;
    for (uint32_t n = 0; n < count; n++)
        printf("{\"multiples\": \"%ux%ux%u\", \"operands\": \"%s\", \"sums\": \"%s\", \"scope\": "
               "\"%s\", \"threads\": %u}\n",
               flexible[n].m, flexible[n].n, flexible[n].k, element(flexible[n].a),
               element(flexible[n].c), flexible[n].scope == 3 ? "subgroup" : "workgroup",
               flexible[n].threads);
}

/* ---- pipelines */

static uint32_t *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) check(VK_ERROR_UNKNOWN, path);
    const long length = ftell(file);
    uint32_t *words = calloc((size_t)length + 4, 1);
    rewind(file);
    *bytes = fread(words, 1, (size_t)length, file);
    fclose(file);
    return words;
}

static void print_statistics(const Driver *d, VkPipeline pipeline)
{
    void *at = function(d, "vkGetPipelineExecutableStatisticsKHR");
    PFN_vkGetPipelineExecutableStatisticsKHR get = NULL;
    VkPipelineExecutableStatisticKHR all[MOST];
    const VkPipelineExecutableInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
    uint32_t count = MOST;
    memcpy(&get, &at, sizeof get);
    for (uint32_t n = 0; n < MOST; n++)
        all[n] = (VkPipelineExecutableStatisticKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    if (!d->statistics || !get || get(d->device, &info, &count, all) < 0) count = 0;
    printf(", \"statistics\": {");
    for (uint32_t n = 0; n < count; n++)
        printf(
            "%s\"%s\": %llu", n ? ", " : "", all[n].name,
            (unsigned long long)(all[n].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR
                                     ? all[n].value.b32
                                     : all[n].value.u64));
    printf("}");
}

static VkPipeline make(const Driver *d, VkShaderModule module, const char *entry, uint32_t lanes)
{
    /* The device's fma rounds once; loops are not cut (docs/dev/vulkan.md, 4 and 6). */
    const uint32_t values[] = {1, 0};
    const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}};
    const VkSpecializationInfo special = {2, entries, sizeof values, values};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = lanes};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = d->statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = lanes ? &size : NULL,
                  .flags = lanes ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = entry,
                  .pSpecializationInfo = &special},
        .layout = d->layout};
    VkPipeline pipeline = VK_NULL_HANDLE;
    check(d->CreateComputePipelines(d->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline), entry);
    return pipeline;
}

static VkShaderModule load(const Driver *d, const uint32_t *words, size_t bytes, const char *path)
{
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = words};
    VkShaderModule module = VK_NULL_HANDLE;
    check(d->CreateShaderModule(d->device, &info, NULL, &module), path);
    return module;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Each OpEntryPoint, whose name begins at its third operand. */
static void build(const Driver *d, const char *path, uint32_t lanes)
{
    enum { HEADER = 5, ENTRY_POINT = 15, NAME = 3 };
    size_t bytes;
    uint32_t *words = read_file(path, &bytes);
    const VkShaderModule module = load(d, words, bytes, path);
    for (size_t at = HEADER; at < bytes / 4 && words[at] >> 16; at += words[at] >> 16) {
        if ((words[at] & 0xffff) != ENTRY_POINT) continue;
        const char *name = (const char *)&words[at + NAME];
        const double begin = now();
        const VkPipeline pipeline = make(d, module, name, lanes);
        printf("{\"module\": \"%s\", \"kernel\": \"%s\", \"ms\": %.2f", path, name, now() - begin);
        print_statistics(d, pipeline);
        printf("}\n");
        fflush(stdout);
    }
    free(words);
}

/* ---- the probe */

static float *memory_for(const Driver *d, VkDeviceAddress *address)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = PROBED,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                              VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    const uint32_t wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkBuffer buffer;
    VkMemoryRequirements needs;
    VkPhysicalDeviceMemoryProperties memory;
    check(d->CreateBuffer(d->device, &info, NULL, &buffer), "vkCreateBuffer");
    d->GetBufferMemoryRequirements(d->device, buffer, &needs);
    d->GetPhysicalDeviceMemoryProperties(d->physical, &memory);
    uint32_t type = 0;
    while (type < memory.memoryTypeCount &&
           (!(needs.memoryTypeBits >> type & 1) ||
            (memory.memoryTypes[type].propertyFlags & wanted) != wanted))
        type++;
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo much = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = type};
    VkDeviceMemory made;
    void *at;
    check(d->AllocateMemory(d->device, &much, NULL, &made), "vkAllocateMemory");
    check(d->BindBufferMemory(d->device, buffer, made, 0), "vkBindBufferMemory");
    check(d->MapMemory(d->device, made, 0, PROBED, 0, &at), "vkMapMemory");
    const VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                             .buffer = buffer};
    *address = d->GetBufferDeviceAddress(d->device, &where);
    return at;
}

static void probe(const Driver *d, const char *path, uint32_t lanes)
{
    size_t bytes;
    uint32_t *words = read_file(path, &bytes);
    const VkPipeline pipeline = make(d, load(d, words, bytes, path), "main", lanes);
    VkDeviceAddress pushed[PUSHED / 8] = {0};
    float *numbers = memory_for(d, pushed);
    for (uint32_t n = 0; n < PROBED / 4; n++) numbers[n] = (float)n;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    const VkCommandPoolCreateInfo of = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    d->GetDeviceQueue(d->device, 0, 0, &queue);
    check(d->CreateCommandPool(d->device, &of, NULL, &pool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo one = {.sType =
                                                 VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                             .commandPool = pool,
                                             .commandBufferCount = 1};
    check(d->AllocateCommandBuffers(d->device, &one, &commands), "vkAllocateCommandBuffers");
    check(d->BeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    d->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    d->CmdPushConstants(commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, PUSHED, pushed);
    d->CmdDispatch(commands, 1, 1, 1);
    check(d->EndCommandBuffer(commands), "vkEndCommandBuffer");
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &commands};
    check(d->QueueSubmit(queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    check(d->QueueWaitIdle(queue), "vkQueueWaitIdle");
    printf("{\"probe\": [");
    for (uint32_t n = 0; n < PROBED / 4; n++) printf("%s%.9g", n ? ", " : "", (double)numbers[n]);
    printf("]}\n");
    free(words);
}

int main(int count, char **arguments)
{
    Driver d = {0};
    uint32_t lanes = 0;
    open_driver(&d);
    open_device(&d);
    for (int n = 1; n < count; n++) {
        if (strcmp(arguments[n], "--matrices") == 0)
            list_matrices(&d);
        else if (strcmp(arguments[n], "--lanes") == 0 && n + 1 < count)
            lanes = (uint32_t)strtoul(arguments[++n], NULL, 10);
        else if (strcmp(arguments[n], "--probe") == 0 && n + 1 < count)
            probe(&d, arguments[++n], lanes);
        else
            build(&d, arguments[n], lanes);
    }
    fflush(stdout);
    _Exit(0); /* drivers without a device fault where things are ended */
}
