/* Devices of the caller's, by the mock of Vulkan: made as a program makes them, by vkGetInstanceProcAddr alone. Runs on their queue that wait for
 * and signal semaphores, buffers of the caller's, what a device was made without, what is refused, each call that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan_case.h"

#include "../../runtime/backends/vulkan_api.h"

MOCK_API VkFunction vkGetInstanceProcAddr(VkInstance instance, const char *name);

typedef struct Caller {
    AuVulkan vk;
    VkInstance instance;
    VkPhysicalDevice physical[4];
    VkDevice device;
    VkQueue queue;
    /* what the device enables */
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features features_11;
    VkPhysicalDeviceVulkan12Features features_12;
    VkDeviceCreateInfo created;
    aule_vulkan_device given;
    aule_device_options options;
    int locked, locks;
} Caller;

static void lock(void *user)
{
    Caller *c = user;
    assert_int_equal(c->locked++, 0);
    c->locks++;
}
static void unlock(void *user) { assert_int_equal(--((Caller *)user)->locked, 0); }

static void enable_all(Caller *c)
{
    c->features_12 = (VkPhysicalDeviceVulkan12Features){.type = VK_TYPE_FEATURES_12};
    c->features_11 =
        (VkPhysicalDeviceVulkan11Features){.type = VK_TYPE_FEATURES_11, .next = &c->features_12};
    c->features = (VkPhysicalDeviceFeatures2){.type = VK_TYPE_FEATURES, .next = &c->features_11};
    c->features.is[VK_HAS_INT64] = c->features.is[VK_HAS_INT16] = 1;
    c->features_11.is[VK_HAS_STORAGE_16] = 1;
    static const int of_12[] = {VK_HAS_STORAGE_8, VK_HAS_INT8,           VK_HAS_FLOAT_16,
                                VK_HAS_TIMELINE,  VK_HAS_BUFFER_ADDRESS, VK_HAS_MEMORY_MODEL};
    for (size_t n = 0; n < sizeof of_12 / sizeof *of_12; n++) c->features_12.is[of_12[n]] = 1;
}

static void begin_caller(Caller *c)
{
    const VkApplicationInfo application = {.type = VK_TYPE_APPLICATION,
                                           .api_version = VK_VERSION_1_2};
    const VkInstanceCreateInfo info = {.type = VK_TYPE_INSTANCE, .application = &application};
    uint32_t count = 4;
    *c = (Caller){.vk = {.vkGetInstanceProcAddr = vkGetInstanceProcAddr}};
#define VK(result, name, arguments)                                                                \
    do {                                                                                           \
        VkFunction found = vkGetInstanceProcAddr(NULL, #name);                                     \
        memcpy(&c->vk.name, &found, sizeof found);                                                 \
    } while (0);
#include "../../runtime/backends/vulkan_api.def"
    enable_all(c);
    c->created = (VkDeviceCreateInfo){.type = VK_TYPE_DEVICE, .next = &c->features};
    assert_int_equal(c->vk.vkCreateInstance(&info, NULL, &c->instance), 0);
    assert_int_equal(c->vk.vkEnumeratePhysicalDevices(c->instance, &count, c->physical), 0);
    assert_int_equal(c->vk.vkCreateDevice(c->physical[0], &c->created, NULL, &c->device), 0);
    c->vk.vkGetDeviceQueue(c->device, 0, 0, &c->queue);
    c->given = (aule_vulkan_device){.struct_size = sizeof c->given,
                                    .instance = c->instance,
                                    .physical_device = c->physical[0],
                                    .device = c->device,
                                    .created = &c->created,
                                    .queue = c->queue,
                                    .lock = lock,
                                    .unlock = unlock,
                                    .user = c};
    c->options = (aule_device_options){.struct_size = sizeof c->options, .context = &c->given};
}

/* The device and the instance are still there. */
static void end_caller(Caller *c)
{
    assert_int_equal(vulkan_mock.opened, 1);
    assert_int_equal(vulkan_mock.instances, 1);
    c->vk.vkDestroyDevice(c->device, NULL);
    c->vk.vkDestroyInstance(c->instance, NULL);
    expect_nothing_left();
}

static VkSemaphore new_semaphore(Caller *c)
{
    const VkSemaphoreTypeCreateInfo kind = {.type = VK_TYPE_SEMAPHORE_KIND,
                                            .kind = VK_SEMAPHORE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.type = VK_TYPE_SEMAPHORE, .next = &kind};
    VkSemaphore made = 0;
    assert_int_equal(c->vk.vkCreateSemaphore(c->device, &info, NULL, &made), 0);
    return made;
}

static uint64_t value_of(Caller *c, VkSemaphore semaphore)
{
    uint64_t value = 0;
    assert_int_equal(c->vk.vkGetSemaphoreCounterValue(c->device, semaphore, &value), 0);
    return value;
}

static void open_case(OnDevice *s, Caller *c)
{
    on_device_begin(s, vulkan_case_module(), TENSORS);
    s->options = &c->options;
}

/* A caller's device, and a run on it that went well: what comes behind it finds a plan. */
static void begin_run(OnDevice *s, Caller *c)
{
    aule_error *error = NULL;
    vulkan_mock_reset();
    begin_caller(c);
    open_case(s, c);
    if (on_device_run(s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
}

/* ---- runs */

static void test_result(void **state)
{
    (void)state;
    for (int own_loader = 0; own_loader < 2; own_loader++)
        for (int hidden = 0; hidden < 2; hidden++) {
            Caller c;
            OnDevice s;
            aule_error *error = NULL;
            vulkan_mock_reset();
            vulkan_mock.hidden = hidden;
            begin_caller(&c);
            if (own_loader)
                memcpy(&c.given.get_instance_proc_addr, &c.vk.vkGetInstanceProcAddr,
                       sizeof c.given.get_instance_proc_addr);
            open_case(&s, &c);
            if (on_device_run(&s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
            assert_true(case_is_right(s.c));
            assert_int_equal(vulkan_mock.opened, 1); /* no device of our own */
            assert_int_equal(vulkan_mock.instances, 1);
            assert_int_equal(vulkan_mock.submits, c.locks);
            on_device_end(&s);
            end_caller(&c);
        }
}

/* A run begins when the caller's semaphore is there, and signals another one; what the caller puts on the queue is in order with it. */
static void test_semaphores(void **state)
{
    (void)state;
    Caller c;
    OnDevice s;
    aule_error *error = NULL;
    begin_run(&s, &c);
    const VkSemaphore before = new_semaphore(&c), after = new_semaphore(&c);
    const aule_vulkan_semaphore waits[] = {{before, 3}}, signals[] = {{after, 7}};
    const aule_vulkan_queue queue = {.struct_size = sizeof queue,
                                     .waits = waits,
                                     .wait_count = 1,
                                     .signals = signals,
                                     .signal_count = 1};
    vulkan_mock.lazy = true;
    const int dispatches = vulkan_mock.dispatches;
    s.c->run.queue = (void *)(uintptr_t)&queue;
    case_forget(s.c);
    if (aule_plan_run(s.plan, &s.c->run, &error)) fail_msg("%s", aule_error_message(error));
    vulkan_mock_work();
    assert_int_equal(vulkan_mock.dispatches, dispatches);
    assert_int_equal(value_of(&c, after), 0);
    *(uint64_t *)(uintptr_t)before = 2; /* vkSignalSemaphore, of the mock's */
    vulkan_mock_work();
    assert_int_equal(vulkan_mock.dispatches, dispatches);
    *(uint64_t *)(uintptr_t)before = 3;
    vulkan_mock_work();
    assert_int_equal(value_of(&c, after), 7);
    assert_int_equal(case_fetch(s.c, TENSORS, s.buffers, &error), AULE_OK);
    assert_true(case_is_right(s.c));

    /* The caller's work on the queue is waited for, and so is it when something is freed. */
    const uint64_t value = 9;
    const VkTimelineSemaphoreSubmitInfo values = {
        .type = VK_TYPE_TIMELINE_SUBMIT, .signal_count = 1, .signals = &value};
    const VkSubmitInfo own = {
        .type = VK_TYPE_SUBMIT, .next = &values, .signal_count = 1, .signals = &after};
    assert_int_equal(c.vk.vkQueueSubmit(c.queue, 1, &own, 0), 0);
    assert_int_equal(value_of(&c, after), 7);
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    assert_int_equal(value_of(&c, after), 9);

    /* An event signals, too; to wait for the queue is to wait for it, whatever it signals. */
    aule_event *event = NULL;
    const aule_vulkan_semaphore later[] = {{after, 11}};
    const aule_vulkan_queue second = {
        .struct_size = sizeof second, .signals = later, .signal_count = 1};
    assert_int_equal(aule_event_record(s.device, (void *)(uintptr_t)&second, &event, &error),
                     AULE_OK);
    assert_int_equal(aule_event_wait(event, &error), AULE_OK);
    assert_int_equal(value_of(&c, after), 11);
    assert_int_equal(aule_device_synchronize(s.device, (void *)(uintptr_t)&second, &error),
                     AULE_OK);
    aule_event_free(event);
    on_device_end(&s);
    c.vk.vkDestroySemaphore(c.device, before, NULL);
    c.vk.vkDestroySemaphore(c.device, after, NULL);
    end_caller(&c);
}

/* A call that is made once, and begins after it has returned. */
static void test_a_call_that_waits(void **state)
{
    (void)state;
    Caller c;
    OnDevice s;
    aule_error *error = NULL;
    begin_run(&s, &c);
    const VkSemaphore before = new_semaphore(&c);
    const aule_vulkan_semaphore waits[] = {{before, 1}};
    const aule_vulkan_queue queue = {.struct_size = sizeof queue, .waits = waits, .wait_count = 1};
    s.c->run.queue = (void *)(uintptr_t)&queue;
    case_forget(s.c);
    const int dispatches = vulkan_mock.dispatches;
    if (aule_attention_run(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.c->run,
                           &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(vulkan_mock.dispatches, dispatches);
    *(uint64_t *)(uintptr_t)before = 1;
    assert_int_equal(case_fetch(s.c, TENSORS, s.buffers, &error), AULE_OK);
    assert_true(case_is_right(s.c));
    on_device_end(&s);
    c.vk.vkDestroySemaphore(c.device, before, NULL);
    end_caller(&c);
}

/* A run of nothing waits and signals all the same. */
static void test_semaphores_of_nothing(void **state)
{
    (void)state;
    Caller c;
    OnDevice s;
    aule_plan *plan = NULL;
    aule_error *error = NULL;
    begin_run(&s, &c);
    const VkSemaphore after = new_semaphore(&c);
    const aule_vulkan_semaphore signals[] = {{after, 5}};
    const aule_vulkan_queue queue = {
        .struct_size = sizeof queue, .signals = signals, .signal_count = 1};
    s.c->shapes[T_Q][2] = s.c->shapes[T_O][2] = s.c->shapes[T_LSE][2] = 0;
    if (aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    s.c->run.queue = (void *)(uintptr_t)&queue;
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(value_of(&c, after), 5);
    aule_plan_free(plan);
    on_device_end(&s);
    c.vk.vkDestroySemaphore(c.device, after, NULL);
    end_caller(&c);
}

/* Tensors and the workspace in a buffer of the caller's, by its address. */
static void test_buffers_of_the_caller(void **state)
{
    (void)state;
    enum { PART = 4096 };
    Caller c;
    OnDevice s;
    aule_error *error = NULL;
    VkBuffer buffer;
    VkDeviceMemory memory;
    vulkan_mock_reset();
    begin_caller(&c);
    const VkBufferCreateInfo info = {.type = VK_TYPE_BUFFER, .bytes = (TENSORS + 1) * PART};
    const VkMemoryAllocateInfo all = {.type = VK_TYPE_MEMORY_ALLOCATE, .bytes = info.bytes};
    assert_int_equal(c.vk.vkCreateBuffer(c.device, &info, NULL, &buffer), 0);
    assert_int_equal(c.vk.vkAllocateMemory(c.device, &all, NULL, &memory), 0);
    assert_int_equal(c.vk.vkBindBufferMemory(c.device, buffer, memory, 0), 0);
    const VkBufferDeviceAddressInfo where = {.type = VK_TYPE_BUFFER_ADDRESS, .buffer = buffer};
    char *at = (char *)(uintptr_t)c.vk.vkGetBufferDeviceAddress(c.device, &where);
    open_case(&s, &c);
    if (aule_device_open("vulkan", s.options, &s.device, &error))
        fail_msg("%s", aule_error_message(error));
    for (int n = 0; n < TENSORS; n++) {
        assert_true(s.c->bytes[n] <= PART);
        memcpy(at + n * PART, s.c->storage[n], s.c->bytes[n]);
        s.c->tensors[n].data = at + n * PART;
        s.c->tensors[n].device = (DLDevice){kDLVulkan, 0};
    }
    s.c->run.workspace = at + TENSORS * PART;
    s.c->run.workspace_bytes = PART;
    if (aule_attention_run(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.c->run,
                           &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    memcpy(s.c->storage[T_O], at + T_O * PART, s.c->bytes[T_O]);
    memcpy(s.c->storage[T_LSE], at + T_LSE * PART, s.c->bytes[T_LSE]);
    assert_true(case_is_right(s.c));
    on_device_end(&s);
    c.vk.vkDestroyBuffer(c.device, buffer, NULL);
    c.vk.vkFreeMemory(c.device, memory, NULL);
    end_caller(&c);
}

/* ---- what it was made with */

static void expect_words(Caller *c, const char *words)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    if (aule_device_open("vulkan:0", &c->options, &device, &error))
        fail_msg("%s", aule_error_message(error));
    assert_string_equal(aule_device_get_info(device)->features, words);
    aule_device_close(device);
}

static void expect_refused(Caller *c, const char *id, aule_status status, const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    expect_error(aule_device_open(id, &c->options, &device, &error), &error, status, text);
}

static void test_made_without(void **state)
{
    (void)state;
    Caller c;
    vulkan_mock_reset();
    begin_caller(&c);
    const struct {
        uint32_t *word;
        const char *name;
    } needed[] = {{&c.features.is[VK_HAS_INT64], "shaderInt64"},
                  {&c.features.is[VK_HAS_INT16], "shaderInt16"},
                  {&c.features_11.is[VK_HAS_STORAGE_16], "storageBuffer16BitAccess"},
                  {&c.features_12.is[VK_HAS_STORAGE_8], "storageBuffer8BitAccess"},
                  {&c.features_12.is[VK_HAS_INT8], "shaderInt8"},
                  {&c.features_12.is[VK_HAS_TIMELINE], "timelineSemaphore"},
                  {&c.features_12.is[VK_HAS_BUFFER_ADDRESS], "bufferDeviceAddress"},
                  {&c.features_12.is[VK_HAS_MEMORY_MODEL], "vulkanMemoryModel"}};
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++) {
        char text[128];
        *needed[n].word = 0;
        snprintf(text, sizeof text,
                 "vulkan:0 is not available: the VkDevice given was made without %s",
                 needed[n].name);
        expect_refused(&c, "vulkan:0", AULE_ERROR_DEVICE, text);
        *needed[n].word = 1;
    }
    vulkan_mock.lacks = 1u << MOCK_INT8;
    expect_refused(&c, "vulkan:0", AULE_ERROR_DEVICE, "it lacks shaderInt8");
    vulkan_mock.lacks = 0;
    expect_words(&c, "vulkan1.2 shared16k shared32k shared48k subgroup32");
    end_caller(&c);
}

/* The same, enabled by the structures of single features, and the oldest by VkDeviceCreateInfo itself. */
static void test_made_with_single_structures(void **state)
{
    (void)state;
    typedef struct Single {
        uint32_t type;
        void *next;
        uint32_t words[2];
    } Single;
    Caller c;
    uint32_t old[VK_FEATURES] = {0};
    Single all[] = {{.type = VK_TYPE_FEATURES_STORAGE_16, .words = {1}},
                    {.type = VK_TYPE_FEATURES_STORAGE_8, .words = {1}},
                    {.type = VK_TYPE_FEATURES_FLOAT16_INT8, .words = {0, 1}},
                    {.type = VK_TYPE_FEATURES_TIMELINE, .words = {1}},
                    {.type = VK_TYPE_FEATURES_MEMORY_MODEL, .words = {1}},
                    {.type = VK_TYPE_FEATURES_BUFFER_ADDRESS, .words = {1}}};
    enum { SINGLES = sizeof all / sizeof *all };
    vulkan_mock_reset();
    begin_caller(&c);
    old[VK_HAS_INT64] = old[VK_HAS_INT16] = 1;
    for (int n = 0; n + 1 < SINGLES; n++) all[n].next = &all[n + 1];
    c.created = (VkDeviceCreateInfo){.type = VK_TYPE_DEVICE, .next = all, .features = old};
    expect_words(&c, "vulkan1.2 shared16k shared32k shared48k subgroup32");
    for (int n = 0; n < SINGLES; n++) {
        const Single kept = all[n];
        memset(all[n].words, 0, sizeof all[n].words);
        expect_refused(&c, "vulkan:0", AULE_ERROR_DEVICE, "was made without ");
        all[n] = kept;
    }
    old[VK_HAS_INT64] = 0;
    expect_refused(&c, "vulkan:0", AULE_ERROR_DEVICE, "was made without shaderInt64");
    c.given.created = NULL; /* taken to enable it */
    expect_words(&c, "vulkan1.2 shared16k shared32k shared48k subgroup32");
    end_caller(&c);
}

/* So are sums of f32: feature and extension. */
static void test_made_with_sums(void **state)
{
    (void)state;
#define BASE "vulkan1.2 shared16k shared32k shared48k subgroup32"
    Caller c;
    const char *extension = "VK_EXT_shader_atomic_float";
    VkPhysicalDeviceShaderAtomicFloatFeatures sums = {.type = VK_TYPE_FEATURES_SUMS};
    vulkan_mock_reset();
    vulkan_mock.sums = true;
    begin_caller(&c);
    expect_words(&c, BASE);
    c.features_12.next = &sums;
    c.created.extensions = &extension, c.created.extension_count = 1;
    sums.f32 = 1;
    expect_words(&c, BASE);
    sums.f32_adds = 1;
    expect_words(&c, BASE " atomic_f32");
    c.created.extension_count = 0;
    expect_words(&c, BASE);
    end_caller(&c);
#undef BASE
}

/* Subgroups and matrices are there where they were enabled, feature and extension. */
static void test_made_with_matrices(void **state)
{
    (void)state;
#define BASE    "vulkan1.3 shared16k shared32k shared48k subgroup32"
#define LANES_  BASE " lanes32"
#define OF_F16  LANES_ " coopmat8x8x8_f16"
#define OF_BF16 OF_F16 " coopmat64x64x64_bf16"
    Caller c;
    const char *extensions[] = {"VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",
                                "VK_NV_cooperative_matrix2",
                                "VK_KHR_workgroup_memory_explicit_layout"};
    VkPhysicalDeviceSubgroupSizeControlFeatures lanes = {
        .type = VK_TYPE_FEATURES_LANES, .control = 1, .full = 1};
    VkPhysicalDeviceCooperativeMatrixFeatures matrices = {
        .type = VK_TYPE_FEATURES_MATRIX, .next = &lanes, .matrices = 1};
    VkPhysicalDeviceShaderBfloat16Features bf16 = {
        .type = VK_TYPE_FEATURES_BF16, .next = &matrices, .numbers = 1, .matrices = 1};
    VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeatures shared = {
        .type = VK_TYPE_FEATURES_SHARED, .next = &bf16, .layout = 1, .bits8 = 1, .bits16 = 1};
    VkPhysicalDeviceCooperativeMatrix2Features places = {.type = VK_TYPE_FEATURES_MATRIX_2,
                                                         .next = &shared,
                                                         .reduces = 1,
                                                         .converts = 1,
                                                         .by_element = 1};
    vulkan_mock_reset();
    vulkan_mock.least = vulkan_mock.most = 32, vulkan_mock.newer = true;
    vulkan_mock.version = VK_VERSION_1_3;
    begin_caller(&c);
    expect_words(&c, BASE);
    c.features_12.next = &places;
    expect_words(&c, LANES_); /* no extension */
    c.created.extensions = extensions;
    c.created.extension_count = 1;
    expect_words(&c, OF_F16);
    c.created.extension_count = 2;
    expect_words(&c, OF_BF16);
    c.created.extension_count = 3;
    expect_words(&c, OF_BF16);
    c.created.extension_count = 4;
    expect_words(&c, OF_BF16 " layout16 nv2");
    uint32_t *const needed_by_nv2[] = {&places.reduces, &places.converts, &places.by_element,
                                       &shared.layout,  &shared.bits8,    &shared.bits16};
    for (size_t n = 0; n < sizeof needed_by_nv2 / sizeof *needed_by_nv2; n++) {
        *needed_by_nv2[n] = 0;
        if (n < 3)
            expect_words(&c, OF_BF16 " layout16");
        else
            expect_words(&c, OF_BF16);
        *needed_by_nv2[n] = 1;
    }
    places.by_tensors = 1;
    expect_words(&c, OF_BF16 " layout16 nv2 tensors");
    vulkan_mock.block_threads = 256, vulkan_mock.block_extent = 1024;
    expect_words(&c, OF_BF16 " layout16 nv2 tensors");
    places.of_groups = 1;
    expect_words(&c, OF_BF16 " layout16 nv2 tensors");
    places.any_extents = 1;
    expect_words(
        &c,
        OF_BF16 " layout16 nv2 tensors coopmat32x16x16_f16_block128 coopmat32x32x16_bf16_block256");
    bf16.numbers = 0;
    expect_words(&c, OF_F16 " layout16 nv2 tensors coopmat32x16x16_f16_block128");
    bf16.numbers = 1, places.of_groups = 0;
    expect_words(&c, OF_BF16 " layout16 nv2 tensors");
    places.by_element = 0, places.of_groups = 1;
    expect_words(&c, OF_BF16 " layout16");
    places.any_extents = places.of_groups = 0;
    places.by_tensors = 0, places.by_element = 1;
    bf16.matrices = 0;
    expect_words(&c, OF_F16 " layout16 nv2");
    matrices.matrices = 0;
    expect_words(&c, LANES_ " layout16");
    matrices.matrices = 1;
    c.features_12.is[VK_HAS_FLOAT_16] = 0;
    expect_words(&c, LANES_ " layout16");
    c.features_12.is[VK_HAS_FLOAT_16] = 1;
    lanes.full = 0;
    expect_words(&c, BASE " layout16");
    lanes.full = 1;
    c.given.created = NULL;
    expect_words(&c, BASE);
    end_caller(&c);
}

/* ---- what is refused */

static void test_refusals(void **state)
{
    (void)state;
    Caller c;
    vulkan_mock_reset();
    vulkan_mock.devices = 2;
    begin_caller(&c);
    const struct {
        void **handle;
        const char *name;
    } handles[] = {{&c.given.instance, "aule_vulkan_device.instance is NULL"},
                   {&c.given.physical_device, "aule_vulkan_device.physical_device is NULL"},
                   {&c.given.device, "aule_vulkan_device.device is NULL"},
                   {&c.given.queue, "aule_vulkan_device.queue is NULL"}};
    for (size_t n = 0; n < sizeof handles / sizeof *handles; n++) {
        void *const kept = *handles[n].handle;
        *handles[n].handle = NULL;
        expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE, handles[n].name);
        *handles[n].handle = kept;
    }
    expect_refused(&c, "vulkan:1", AULE_ERROR_USAGE,
                   "vulkan:1: aule_vulkan_device.physical_device is vulkan:0");
    expect_refused(&c, "vulkan:2", AULE_ERROR_DEVICE,
                   "there is no vulkan:2, this machine has vulkan:0 to vulkan:1");
    c.given.physical_device = &c;
    expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE, "is none of the 2 devices of its instance");
    c.given.physical_device = c.physical[0];
    c.given.queue_family = 1;
    expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE,
                   "queues of aule_vulkan_device.queue_family, 1, do not compute");
    c.given.queue_family = 2;
    expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE,
                   "aule_vulkan_device.queue_family is 2, the device has 2");
    c.given.queue_family = 0;
    c.given.unlock = NULL;
    expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE, "expected both or none");
    c.given.unlock = unlock;
    c.given.struct_size = 8;
    expect_refused(&c, "vulkan:0", AULE_ERROR_USAGE, "aule_vulkan_device.struct_size is 8");
    end_caller(&c);
}

static void test_queues_that_are_refused(void **state)
{
    (void)state;
    Caller c;
    OnDevice s;
    aule_error *error = NULL;
    aule_vulkan_semaphore many[AULE_VULKAN_SEMAPHORES + 1] = {{0, 0}};
    aule_vulkan_queue queue = {.struct_size = sizeof queue, .waits = many};
    begin_run(&s, &c);
    s.c->run.queue = &queue;
    queue.wait_count = AULE_VULKAN_SEMAPHORES + 1;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "has 17 semaphores to wait for, at most 16 are taken");
    queue.wait_count = 0, queue.signal_count = 2, queue.signals = many;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "semaphore 0 to signal is NULL");
    queue.signals = NULL;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "semaphore 0 to signal is NULL");
    queue.struct_size = 0;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "aule_vulkan_queue.struct_size is 0");
    on_device_end(&s);
    end_caller(&c);

    /* Nobody else has semaphores of a device of our own. */
    vulkan_mock_reset();
    on_device_begin(&s, vulkan_case_module(), TENSORS);
    if (on_device_run(&s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
    many[0].semaphore = 64;
    queue = (aule_vulkan_queue){.struct_size = sizeof queue, .signals = many, .signal_count = 1};
    s.c->run.queue = &queue;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_UNSUPPORTED,
                 "is no timeline of this device, which is our own");
    on_device_end(&s);
    expect_nothing_left();
}

/* ---- failures */

static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    static const int codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_DEVICE_LOST, -3};
    setenv("AULE_CACHE_MAX", "0", 1); /* each time, pipelines are built */
    for (int hidden = 0; hidden < 2; hidden++)
        for (int n = 1, done = 0; !done; n++) {
            Caller c;
            OnDevice s;
            aule_error *error = NULL;
            vulkan_mock_reset();
            vulkan_mock.hidden = hidden;
            begin_caller(&c);
            open_case(&s, &c);
            const VkSemaphore after = new_semaphore(&c);
            const aule_vulkan_semaphore signals[] = {{after, 1}};
            const aule_vulkan_queue queue = {
                .struct_size = sizeof queue, .signals = signals, .signal_count = 1};
            s.c->run.queue = (void *)(uintptr_t)&queue;
            vulkan_mock.calls = 0;
            vulkan_mock.fail_at = n;
            vulkan_mock.code = codes[n % 3];
            const aule_status status = on_device_run(&s, "vulkan:0", &error);
            const char *failed = vulkan_mock.failed; /* NULL: there are fewer calls */
            done = !failed;
            if (done || vulkan_case_does_without(failed, status))
                assert_true(status == AULE_OK && case_is_right(s.c));
            else if (!status || !vulkan_case_tells(aule_error_message(error), failed))
                fail_msg("call %d, %s: %s", n, failed,
                         status ? aule_error_message(error) : "nothing is told");
            aule_error_free(error);
            vulkan_mock.fail_at = 0;
            on_device_end(&s);
            c.vk.vkDestroySemaphore(c.device, after, NULL);
            end_caller(&c);
        }
    unsetenv("AULE_CACHE_MAX");
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_semaphores),
        cmocka_unit_test(test_a_call_that_waits),
        cmocka_unit_test(test_semaphores_of_nothing),
        cmocka_unit_test(test_buffers_of_the_caller),
        cmocka_unit_test(test_made_without),
        cmocka_unit_test(test_made_with_single_structures),
        cmocka_unit_test(test_made_with_matrices),
        cmocka_unit_test(test_made_with_sums),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_queues_that_are_refused),
        cmocka_unit_test(test_every_call_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return vulkan_case_run(run); }
