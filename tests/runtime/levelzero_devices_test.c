/* Devices and memory of the Level Zero backend, on the mock: drivers, devices and parts of them, what they say and lack, contexts and queues of
 * the caller's, USM of each kind, and tensors whose memory is none. */
#include "levelzero_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices */

static void expect_absent(const char *id, const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    aule_status status = aule_device_open(id, NULL, &device, &error);
    expect_error(status, &error, AULE_ERROR_DEVICE, text);
    expect_nothing_left();
}

static void test_devices(void **state)
{
    (void)state;
    levelzero_mock_reset();
    expect_absent("levelzero:1", "there is no levelzero:1, this machine has levelzero:0 alone");
    expect_absent("levelzero:x", "'levelzero:x' is not a device");
    levelzero_mock.drivers = 2, levelzero_mock.devices = 2, levelzero_mock.parts = 2;
    expect_absent("levelzero:12",
                  "there is no levelzero:12, this machine has levelzero:0 to levelzero:11");
    levelzero_mock_reset();
    levelzero_mock.drivers = 0;
    expect_absent("levelzero", "levelzero is not available: libze_loader.so.1 is there, but no "
                               "driver that works: Intel's is libze_intel_gpu.so.1");
    levelzero_mock_reset();
    levelzero_mock.devices = 0;
    expect_absent("levelzero", "libze_loader.so.1 finds 1 driver, but no device");
    levelzero_mock_reset();
    levelzero_mock.fail = "zeDeviceGet";
    levelzero_mock.code = ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS;
    expect_absent("levelzero", "libze_loader.so.1 is there, but zeDeviceGet: "
                               "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS");
    levelzero_mock.fail = "zeInit";
    levelzero_mock.code = 0x12345;
    expect_absent("levelzero", "libze_loader.so.1 is there, but zeInit: error 0x12345");
}

static void test_what_devices_lack(void **state)
{
    (void)state;
    levelzero_mock_reset();
    levelzero_mock.type = ZE_DEVICE_TYPE_VPU;
    expect_absent("levelzero:0",
                  "levelzero:0 is not available: it is an NPU, which runs no kernels "
                  "of ours");
    levelzero_mock_reset();
    levelzero_mock.spirv = 0;
    expect_absent("levelzero:0", "levelzero:0 is not available: its driver takes no SPIR-V");
    levelzero_mock_reset();
    levelzero_mock.computes = false;
    expect_absent("levelzero:0", "levelzero:0 is not available: it has no queue that computes");
    levelzero_mock_reset();
    levelzero_mock.fail = "zeDeviceGetModuleProperties";
    levelzero_mock.code = ZE_RESULT_ERROR_DEVICE_LOST;
    expect_absent("levelzero:0", "levelzero:0 is not available: zeDeviceGetModuleProperties: "
                                 "ZE_RESULT_ERROR_DEVICE_LOST");
    levelzero_mock_reset();
    expect_absent("levelzero:50505050-5050-5050-5050-505050505000",
                  "there is no levelzero device with the UUID 50505050505050505050505050505000");
}

static void expect_device(const char *id, const char *name, const char *features,
                          const char *driver, const char *uuid)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    char by_uuid[64];
    snprintf(by_uuid, sizeof by_uuid, "levelzero:%s", uuid);
    if (aule_device_open(by_uuid, NULL, &device, &error)) fail_msg("%s", aule_error_message(error));
    const aule_device_info *info = aule_device_get_info(device);
    assert_string_equal(info->id, id);
    assert_string_equal(info->uuid, uuid);
    assert_string_equal(info->name, name);
    assert_string_equal(info->features, features);
    assert_string_equal(info->driver, driver);
    assert_int_equal(info->kind, AULE_DEVICE_GPU);
    assert_int_equal(info->dl.device_type, kDLOneAPI);
    assert_int_equal(info->memory_bytes, 4ull << 30);
    aule_device_close(device);
    expect_nothing_left();
}

/* Parts of devices come after all of them. */
static void test_words(void **state)
{
    (void)state;
    levelzero_mock_reset();
    levelzero_mock.drivers = 2, levelzero_mock.devices = 2, levelzero_mock.parts = 2;
    expect_device("levelzero:2", "double 1.0",
                  "levelzero1.3 SPIR-V_1.0 SPIR-V_1.1 SPIR-V_1.2 SPIR-V_1.3 SPIR-V_1.4 shared16k "
                  "shared32k shared48k shared64k subgroup16 subgroup32 fp16 int64_atomics",
                  "Level Zero 1.3, driver 7, device 8086:0bd5, groups of 1024, 65536 "
                  "bytes of shared memory",
                  "40404040-4040-4040-4040-404040404000");
    levelzero_mock.spirv = 1 << 16;
    levelzero_mock.shared_bytes = 128 << 10;
    levelzero_mock.multiplies = true;
    expect_device(
        "levelzero:7", "double 0.1",
        "levelzero1.3 SPIR-V_1.0 shared16k shared32k shared48k shared64k shared96k "
        "shared128k subgroup16 subgroup32 fp16 int64_atomics dpas16 registers256 tile",
        "Level Zero 1.3, driver 7, device 8086:0bd5, tile 1 of it, groups of 1024, 131072 "
        "bytes of shared memory",
        "10101010-1010-1010-1010-101010101002");
}

static void test_kinds_of_queues(void **state)
{
    (void)state;
    aule_device *device = NULL;
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .queue_kind = 3};
    levelzero_mock_reset();
    expect_error(aule_device_open("levelzero", &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "aule_device_options.queue_kind is 3, expected 0 to 2");
    options.queue_kind = AULE_QUEUE_COMMANDS;
    expect_error(aule_device_open("cpu", &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "aule_device_options.queue_kind is 2, cpu has queues of one kind: 0");
    options = (aule_device_options){.struct_size = sizeof options, .context = &options};
    expect_error(aule_device_open("levelzero", &options, &device, &error), &error,
                 AULE_ERROR_DRIVER,
                 "levelzero:0: the given context: zeContextGetStatus: "
                 "ZE_RESULT_ERROR_INVALID_ARGUMENT");
    assert_string_equal(levelzero_mock.broken,
                        "zeContextGetStatus: mock_lives(context, MOCK_CONTEXT)");
    levelzero_mock.broken = NULL;
    expect_nothing_left();
}

/* ---- memory */

static void test_memory_runs_out(void **state)
{
    (void)state;
    aule_device *device = NULL;
    aule_buffer *buffer = NULL;
    aule_error *error = NULL;
    levelzero_mock_reset();
    levelzero_mock.memory_bytes = 1 << 20;
    assert_int_equal(aule_device_open("levelzero:0", NULL, &device, &error), AULE_OK);
    expect_error(aule_buffer_new(device, 1 << 21, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "levelzero:0: zeMemAllocDevice: ZE_RESULT_ERROR_UNSUPPORTED_SIZE; 2097152 bytes "
                 "were asked for, the device has 4294967296, 1048576 at once");
    assert_int_equal(aule_buffer_new(device, 4096, &buffer, &error), AULE_OK); /* it goes on */
    aule_buffer_free(buffer);
    levelzero_mock.relaxed = true; /* and more at once where the driver can */
    assert_int_equal(aule_buffer_new(device, 1 << 21, &buffer, &error), AULE_OK);
    aule_buffer_free(buffer);
    aule_device_close(device);
    expect_nothing_left();
}

/* More than goes through the host's 4 MB at once. */
static void test_long_copies(void **state)
{
    (void)state;
    enum { BYTES = (9 << 20) + 12345 };
    aule_device *device = NULL;
    aule_buffer *buffer = NULL;
    char *data = malloc(BYTES), *back = calloc(1, BYTES);
    levelzero_mock_reset();
    for (int n = 0; n < BYTES; n++) data[n] = (char)(n * 7 + n / 1000);
    assert_int_equal(aule_device_open("levelzero:0", NULL, &device, NULL), AULE_OK);
    assert_int_equal(aule_buffer_new(device, BYTES + 64, &buffer, NULL), AULE_OK);
    assert_int_equal(aule_buffer_upload(buffer, 64, data, BYTES, NULL), AULE_OK);
    assert_int_equal(aule_buffer_download(buffer, 64, back, BYTES, NULL), AULE_OK);
    assert_memory_equal(data, back, BYTES);
    aule_buffer_free(buffer);
    aule_device_close(device);
    expect_nothing_left();
    free(data), free(back);
}

/* o in memory that host and device share, q in the host's that the device sees. */
static void test_kinds_of_memory(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    void *shared, *host;
    const ze_device_mem_alloc_desc_t device_desc = {.stype =
                                                        ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    const ze_host_mem_alloc_desc_t host_desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    uint32_t one = 1;
    ze_driver_handle_t driver;
    ze_device_handle_t device;
    levelzero_mock_reset();
    open_case(&s, ON_IMMEDIATE);
    if (open_device(&s, &error) || place(&s, &error)) fail_msg("%s", aule_error_message(error));
    assert_int_equal(zeDriverGet(&one, &driver) || zeDeviceGet(driver, &one, &device), 0);
    assert_int_equal(
        zeMemAllocShared(s.context, &device_desc, &host_desc, s.c->bytes[T_O], 64, device, &shared),
        0);
    assert_int_equal(zeMemAllocHost(s.context, &host_desc, s.c->bytes[T_Q], 64, &host), 0);
    memcpy(host, s.c->storage[T_Q], s.c->bytes[T_Q]);
    s.c->tensors[T_O].data = shared;
    s.c->tensors[T_Q].data = host;
    if (aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.plan, &error) ||
        aule_plan_run(s.plan, &s.c->run, &error) ||
        aule_device_synchronize(s.device, s.list, &error) || fetch(&s, &error))
        fail_msg("%s", aule_error_message(error));
    memcpy(s.c->storage[T_O], shared, s.c->bytes[T_O]);
    assert_true(case_is_right(s.c));
    assert_int_equal(zeMemFree(s.context, shared) || zeMemFree(s.context, host), 0);
    close_case(&s);
    expect_nothing_left();
}

static void test_memory_of_others(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    aule_device *other = NULL;
    aule_buffer *buffer = NULL;
    levelzero_mock_reset();
    open_case(&s, ON_OWN);
    assert_int_equal(open_device(&s, &error), AULE_OK);
    assert_int_equal(place(&s, &error), AULE_OK);
    aule_attention *attention = aule_module_attention(s.module, 0);
    void *const q = s.c->tensors[T_Q].data;
    s.c->tensors[T_Q].data = s.c->storage[T_Q];
    expect_plan_error(attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "q: its data is no memory of the device's context (USM)");
    levelzero_mock.sees_host = true; /* as what its device sees is said to be when it is opened */
    expect_plan_error(attention, s.device, s.c, AULE_ERROR_TENSOR, "no memory of the device's");
    assert_int_equal(aule_device_open("levelzero", NULL, &other, NULL), AULE_OK);
    assert_int_equal(aule_buffer_new(other, s.c->bytes[T_Q], &buffer, NULL), AULE_OK);
    s.c->tensors[T_Q].data = aule_buffer_data(buffer);
    expect_plan_error(attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "q: its data is no memory of the device's context (USM); memory of another "
                      "context is opened with aule_device_options.context");
    for (int t = 0; t < TENSORS; t++) s.c->tensors[t].data = s.c->storage[t];
    s.c->run.workspace = s.c->workspace;
    s.c->run.workspace_bytes = sizeof s.c->workspace;
    if (aule_plan_new(attention, other, &s.c->call, &s.plan, &error) ||
        aule_plan_run(s.plan, NULL, NULL) == AULE_OK)
        fail_msg("%s", error ? aule_error_message(error) : "a workspace is needed");
    for (int t = 0; t < TENSORS; t++)
        s.c->tensors[t].data = s.buffers[t] ? aule_buffer_data(s.buffers[t]) : NULL;
    s.c->tensors[T_Q].data = (char *)q + 64;
    expect_plan_error(attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "q: its memory has 1216 bytes from there on, its shape and strides reach "
                      "1280");
    aule_buffer_free(buffer);
    close_case(&s);
    aule_device_close(other);
    expect_nothing_left();
}

int main(void)
{
    make_module(NULL);
    setenv("AULE_CACHE_MAX", "0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),         cmocka_unit_test(test_what_devices_lack),
        cmocka_unit_test(test_words),           cmocka_unit_test(test_kinds_of_queues),
        cmocka_unit_test(test_memory_runs_out), cmocka_unit_test(test_long_copies),
        cmocka_unit_test(test_kinds_of_memory), cmocka_unit_test(test_memory_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
