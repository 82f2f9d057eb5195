/* Devices: what is there and why not, how one is chosen, buffers and events; and the contract with backends, on the mock. */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/backends/mock.h"
#include "../../runtime/device.h"

static void test_list(void **state)
{
    (void)state;
    aule_device_list *list;
    bool cpu = false, opencl = false, vulkan = false;
    assert_int_equal(aule_device_list_new(NULL, &list, NULL), AULE_OK);
    for (size_t i = 0; i < aule_device_list_count(list); i++) {
        const aule_device_info *info = aule_device_list_get(list, i);
        assert_int_equal(info->struct_size, sizeof *info);
        assert_true(info->available || info->reason[0]);
        cpu = cpu || strcmp(info->id, "cpu") == 0;
        opencl = opencl || strcmp(info->backend, "opencl") == 0;
        vulkan = vulkan || strcmp(info->backend, "vulkan") == 0;
    }
    assert_true(cpu && opencl && vulkan);
    assert_null(aule_device_list_get(list, aule_device_list_count(list)));
    aule_device_list_free(list);

    char *text;
    assert_int_equal(aule_describe_devices(NULL, &text, NULL), AULE_OK);
    assert_non_null(strstr(text, "cpu "));
    assert_non_null(strstr(text, "opencl"));
    aule_text_free(text);
}

static void expect_open_error(const char *id, aule_status status, const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    aule_status found = aule_device_open(id, NULL, &device, &error);
    expect_error(found, &error, status, text);
    assert_null(device);
}

static void test_choice(void **state)
{
    (void)state;
    aule_device *device;
    unsetenv("AULE_BACKEND");
    unsetenv("AULE_DEVICE");
    expect_open_error("rocket", AULE_ERROR_DEVICE,
                      "there is no backend 'rocket', this build has cuda, hip, levelzero, opencl, "
                      "metal, vulkan, cpu");
    expect_open_error("", AULE_ERROR_DEVICE, "there is no backend ''");
    expect_open_error("cpu:1", AULE_ERROR_DEVICE,
                      "there is no cpu:1, this machine has cpu:0 alone");
    expect_open_error("cpu:", AULE_ERROR_DEVICE, "'cpu:' is not a device");
    expect_open_error("cpu:x", AULE_ERROR_DEVICE, "'cpu:x' is not a device");
    static const char *const no_uuids[] = {"vulkan:zzz", "vulkan:0123-4567",
                                           "vulkan:", "hip:GPU-1"};
    for (size_t i = 0; i < sizeof no_uuids / sizeof *no_uuids; i++)
        expect_open_error(no_uuids[i], AULE_ERROR_DEVICE,
                          ":UUID, the 32 hexadecimal digits that `aule devices` shows");
    expect_open_error("opencl:99999", AULE_ERROR_DEVICE, "opencl");
    expect_open_error("vulkan:99999", AULE_ERROR_DEVICE, "vulkan");
    assert_int_equal(aule_device_open("cpu:0", NULL, &device, NULL), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->id, "cpu");
    assert_int_equal(aule_device_synchronize(device, NULL, NULL), AULE_OK);
    aule_device_close(device);
    assert_int_equal(aule_device_open(NULL, NULL, &device, NULL), AULE_OK);
    aule_device_close(device);
}

static void test_environment(void **state)
{
    (void)state;
    aule_device *device;
    setenv("AULE_BACKEND", "nothing, none", 1);
    expect_open_error(NULL, AULE_ERROR_DEVICE,
                      "AULE_BACKEND: there is no backend 'nothing', this build has cuda, hip, "
                      "levelzero, opencl, metal, vulkan, cpu");
    /* What there could not be is a mistake, wherever it stands; what there could be is passed over. */
    static const char *const mistaken[] = {"nothing,cpu", "cpu,nothing", "cpu,",
                                           ",cpu",        "cpu,cpu:x",   "cpu,cuda: 0"};
    for (size_t i = 0; i < sizeof mistaken / sizeof *mistaken; i++) {
        setenv("AULE_BACKEND", mistaken[i], 1);
        expect_open_error(NULL, AULE_ERROR_DEVICE, "AULE_BACKEND: ");
    }
    setenv("AULE_BACKEND", "cuda:99999,cpu:7", 1);
    expect_open_error(NULL, AULE_ERROR_DEVICE, "; there is no cpu:7, this machine has cpu:0 alone");
    setenv("AULE_BACKEND", "cuda:99999,cpu", 1);
    assert_int_equal(aule_device_open(NULL, NULL, &device, NULL), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->id, "cpu");
    aule_device_close(device);
    /* What the argument says comes before the environment. */
    setenv("AULE_BACKEND", "nothing", 1);
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    aule_device_close(device);
    expect_open_error(NULL, AULE_ERROR_DEVICE, "AULE_BACKEND: there is no backend 'nothing'");
    unsetenv("AULE_BACKEND");
}

/* AULE_DEVICE: a whole id comes before AULE_BACKEND, a number is that device of the one backend that it names. */
static void test_device_environment(void **state)
{
    (void)state;
    aule_device *device;
    static const struct {
        const char *backend, *device, *why; /* why NULL: it is the processor */
    } cases[] = {
        {"nothing", "cpu", NULL},
        {"cpu", "0", NULL},
        {"cpu", "", NULL},
        {"", "cuda:99999, cpu", NULL},
        {"cpu", "1",
         "AULE_BACKEND and AULE_DEVICE: there is no cpu:1, this machine has cpu:0 alone"},
        {"nothing", "1", "AULE_BACKEND and AULE_DEVICE: there is no backend 'nothing:1'"},
        {"cpu", "99999999999", "AULE_BACKEND and AULE_DEVICE: 'cpu:99999999999' is not a device"},
        {"", "1",
         "AULE_DEVICE is '1', a number: AULE_BACKEND must name the one backend whose device it is, "
         "it is ''"},
        {"cpu:0", "0", "AULE_BACKEND must name the one backend whose device it is, it is 'cpu:0'"},
        {"cpu,cuda", "0", "must name the one backend whose device it is, it is 'cpu,cuda'"},
        {"cpu", "nothing:3", "AULE_DEVICE: there is no backend 'nothing:3'"},
        {"cpu", "cpu:3", "AULE_DEVICE: there is no cpu:3"},
        {"cpu", "cpu:x", "AULE_DEVICE: 'cpu:x' is not a device"},
        {"cpu", "+1", "AULE_DEVICE: there is no backend '+1'"},
        {"cpu", "-1", "AULE_DEVICE: there is no backend '-1'"},
        {"cpu", ":0", "AULE_DEVICE: there is no backend ':0'"},
        {"cpu", " ", "AULE_DEVICE: there is no backend ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("AULE_BACKEND", cases[i].backend, 1);
        setenv("AULE_DEVICE", cases[i].device, 1);
        if (cases[i].why) {
            expect_open_error(NULL, AULE_ERROR_DEVICE, cases[i].why);
            continue;
        }
        assert_int_equal(aule_device_open(NULL, NULL, &device, NULL), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->id, "cpu");
        aule_device_close(device);
    }
    unsetenv("AULE_BACKEND");
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK); /* not looked at */
    aule_device_close(device);
    unsetenv("AULE_DEVICE");
}

static void test_threads_environment(void **state)
{
    (void)state;
    aule_device *device;
    static const char *const wrong[] = {"0",  "-1", "many", "4x",  "5000",
                                        " 4", "+4", "0x4",  "4.0", "18446744073709551617"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("AULE_NUM_THREADS", wrong[i], 1);
        expect_open_error("cpu", AULE_ERROR_USAGE, "expected 1 to 1024");
        expect_open_error(NULL, AULE_ERROR_USAGE, "AULE_NUM_THREADS is '"); /* no other device */
        expect_open_error("opencl", AULE_ERROR_USAGE, "AULE_NUM_THREADS is '");
    }
    unsetenv("AULE_NUM_THREADS");
    aule_device_options options = {.struct_size = sizeof options, .threads = 1025};
    aule_error *error = NULL;
    expect_error(aule_device_open("cpu", &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "aule_device_options.threads is 1025, expected at most 1024");
    options = (aule_device_options){.struct_size = sizeof options, .context = &options};
    expect_error(aule_device_open(NULL, &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "context is one backend's: the device needs a name");
}

/* Whatever this processor is, it looks no better than what AULE_CPU_ARCH says. */
static void test_limited_processor(void **state)
{
    (void)state;
#ifdef __x86_64__
    static const struct {
        const char *arch, *without;
    } limits[] = {{"x86-64-v3", "avx512f"},
                  {"x86-64-v4", "avx512bf16"},
                  {"x86-64-v4-bf16", "amx-tile"},
                  {"x86-64-v4-amx", NULL},
                  {"", NULL}};
    const bool is_amd = __builtin_cpu_is("amd");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        aule_device *whole, *limited;
        assert_int_equal(aule_device_open("cpu", NULL, &whole, NULL), AULE_OK);
        setenv("AULE_CPU_ARCH", limits[i].arch, 1);
        assert_int_equal(aule_device_open("cpu", NULL, &limited, NULL), AULE_OK);
        unsetenv("AULE_CPU_ARCH");
        const char *all = aule_device_get_info(whole)->features,
                   *left = aule_device_get_info(limited)->features;
        const bool named = strcmp(limits[i].arch, "x86-64-v4-bf16") == 0, plainer = i < 2,
                   has = strstr(left, "avx512bf16") != NULL;
        assert_int_equal(strstr(left, "fast-bf16-dot") != NULL,
                         has && !plainer && (named || is_amd));
        if (limits[i].without)
            assert_null(strstr(left, limits[i].without));
        else
            assert_string_equal(left, all);
        assert_int_equal(!strstr(left, "avx2"), !strstr(all, "avx2"));
        aule_device_close(limited);
        aule_device_close(whole);
    }
#endif
    static const char *const wrong[] = {"x86-64", "avx512", "x86-64-v4 ", "none"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("AULE_CPU_ARCH", wrong[i], 1);
        expect_open_error("cpu", AULE_ERROR_USAGE, "expected one of: ");
        expect_open_error(NULL, AULE_ERROR_USAGE, "AULE_CPU_ARCH is '");
    }
    unsetenv("AULE_CPU_ARCH");
}

static void test_wrong_opencl_code(void **state)
{
    (void)state;
    static const char *const wrong[] = {"il", "Source", "spirv ", "1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("AULE_OPENCL_CODE", wrong[i], 1);
        expect_open_error("opencl", AULE_ERROR_USAGE, "AULE_OPENCL_CODE is '");
        expect_open_error("opencl:1", AULE_ERROR_USAGE, "expected source or spirv");
    }
    unsetenv("AULE_OPENCL_CODE");
}

static void test_buffers_and_events(void **state)
{
    (void)state;
    aule_device *device;
    aule_buffer *buffer;
    aule_error *error = NULL;
    aule_event *first, *last;
    uint64_t nanoseconds = 12345;
    char text[16] = "0123456789abcde", back[16] = "";
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(aule_event_record(device, NULL, &first, &error), AULE_OK);
    assert_int_equal(aule_buffer_new(device, 100, &buffer, &error), AULE_OK);
    assert_int_equal((uintptr_t)aule_buffer_data(buffer) % 64, 0);
    assert_int_equal(aule_buffer_bytes(buffer), 100);
    assert_int_equal(aule_buffer_upload(buffer, 84, text, 16, &error), AULE_OK);
    assert_int_equal(aule_buffer_download(buffer, 84, back, 16, &error), AULE_OK);
    assert_string_equal(back, text);
    expect_error(aule_buffer_upload(buffer, 85, text, 16, &error), &error, AULE_ERROR_USAGE,
                 "a copy of 16 bytes at 85 does not fit a buffer of 100");
    expect_error(aule_buffer_download(buffer, UINT64_MAX, back, 2, &error), &error,
                 AULE_ERROR_USAGE, "does not fit");
    expect_error(aule_buffer_new(device, UINT64_MAX, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "no memory for a buffer of 18446744073709551615 bytes");
    assert_int_equal(aule_event_record(device, NULL, &last, &error), AULE_OK);
    assert_int_equal(aule_event_wait(last, &error), AULE_OK);
    assert_int_equal(aule_event_elapsed(first, last, &nanoseconds, &error), AULE_OK);
    assert_true(nanoseconds > 0 && nanoseconds < 1000000000);
    const uint64_t before = nanoseconds;
    expect_error(aule_event_elapsed(last, first, &nanoseconds, &error), &error, AULE_ERROR_USAGE,
                 "aule_event_elapsed: the first event is ");
    assert_int_equal(nanoseconds, before);
    assert_int_equal(aule_event_elapsed(first, first, &nanoseconds, &error), AULE_OK);
    assert_int_equal(nanoseconds, 0);
    aule_event_free(first);
    aule_event_free(last);
    aule_device_close(device); /* the buffer keeps it */
    aule_buffer_free(buffer);
}

/* ---- the mock */

typedef struct Mocked {
    AuMock mock;
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
    Case *c;
} Mocked;

static aule_status open_mock(Mocked *m, aule_error **error)
{
    aule_device_options options = {.struct_size = sizeof options, .context = &m->mock};
    return rt_device_open(&au_backend_mock, 0, &options, &m->device,
                          (AuSink){rt_memory(NULL), error});
}

static Mocked *mock_new(void)
{
    Mocked *m = calloc(1, sizeof *m);
    assert_int_equal(aule_module_from(&sample_module, NULL, &m->module, NULL), AULE_OK);
    m->attention = aule_module_attention(m->module, 0);
    assert_int_equal(open_mock(m, NULL), AULE_OK);
    m->c = case_new();
    for (int t = 0; t < TENSORS; t++) {
        m->c->tensors[t].device = (DLDevice){(DLDeviceType)AU_MOCK_DL, 0};
        m->c->tensors[t].data = (void *)(uintptr_t)(0x100 * (t + 1));
        m->c->tensors[t].byte_offset = 16;
    }
    return m;
}

static void mock_free(Mocked *m)
{
    aule_device_close(m->device);
    aule_module_close(m->module);
    assert_int_equal(m->mock.programs, 0);
    assert_int_equal(m->mock.buffers, 0);
    case_free(m->c);
    free(m);
}

static void test_what_a_backend_gets(void **state)
{
    (void)state;
    Mocked *m = mock_new();
    aule_error *error = NULL;
    m->c->call.tensor_count = T_LSE;
    m->c->run.workspace = (void *)(uintptr_t)0x7000;
    m->c->run.queue = (void *)(uintptr_t)0x9000;
    if (aule_attention_run(m->attention, m->device, &m->c->call, &m->c->run, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(m->mock.launch_count, 2);
    assert_int_equal(m->mock.zeroed, 160);
    for (uint32_t i = 0; i < 2; i++) {
        const AuMockLaunch *launch = &m->mock.launches[i];
        assert_int_equal(launch->index, i);
        assert_ptr_equal(launch->queue, (void *)(uintptr_t)0x9000);
        assert_true(launch->grid[0] == 5 && launch->grid[1] == 4 && launch->grid[2] == 2);
        assert_int_equal(launch->slots[0],
                         0x100); /* q: its handle and, in elements, where it begins */
        assert_int_equal(launch->offsets[0], 4);
        assert_int_equal(launch->slots[6], 0); /* lse was not passed */
        assert_int_equal(launch->slots[7], 0x7000);
        assert_int_equal(launch->offsets[7], 64 / 4);  /* the second region of the workspace */
        assert_int_equal(launch->slots[8], 4 * 5 * 8); /* q's first stride */
        assert_int_equal(launch->slots[launch->slot_count - 2], 0); /* lse is not present */
        float scale = 0.35355339f;
        uint32_t bits;
        memcpy(&bits, &scale, sizeof bits);
        assert_int_equal(launch->slots[launch->slot_count - 6], bits);
        assert_int_equal(launch->slots[launch->slot_count - 5], 4);
    }
    mock_free(m);
}

static void test_handles(void **state)
{
    (void)state;
    Mocked *m = mock_new();
    m->c->tensors[T_K].byte_offset = AU_MOCK_BUFFER_BYTES - 8;
    expect_plan_error(m->attention, m->device, m->c, AULE_ERROR_TENSOR,
                      "k: its buffer has 1048576 bytes, its shape and strides reach 1049464");
    m->c->tensors[T_K].byte_offset = 16;
    m->c->strides[T_K][3] = -1;
    expect_plan_error(m->attention, m->device, m->c, AULE_ERROR_TENSOR,
                      "sample: k: its strides reach before its buffer");
    m->c->strides[T_K][3] = 1;
    m->c->tensors[T_K].device.device_id = 1;
    expect_plan_error(m->attention, m->device, m->c, AULE_ERROR_TENSOR,
                      "it is on device:1 (DLPack type 12), expected device:0 (DLPack type 12)");
    m->c->tensors[T_K].device.device_id = 0;
    /* One buffer for two tensors, side by side: fine; on top of each other: not. */
    m->c->tensors[T_O].data = m->c->tensors[T_Q].data;
    expect_plan_error(m->attention, m->device, m->c, AULE_ERROR_TENSOR,
                      "sample: o: it is written and overlaps q in memory");
    m->c->tensors[T_O].byte_offset = 4096;
    aule_plan *plan;
    assert_int_equal(aule_plan_new(m->attention, m->device, &m->c->call, &plan, NULL), AULE_OK);
    aule_plan_free(plan);
    mock_free(m);
}

/* Each call of the backend fails once: the error comes through, nothing is left behind, and the next try works. */
static void test_backend_fails(void **state)
{
    (void)state;
    Mocked *m = mock_new();
    m->c->run.workspace = (void *)(uintptr_t)0x7000;
    uint32_t at = 1, failures = 0;
    for (bool failed = true; failed; at++) {
        aule_error *error = NULL;
        m->mock.calls = 0;
        m->mock.fail_at = at;
        m->mock.fail_with = AULE_ERROR_DRIVER;
        aule_status status =
            aule_attention_run(m->attention, m->device, &m->c->call, &m->c->run, &error);
        failed = status != AULE_OK;
        if (failed) expect_error(status, &error, AULE_ERROR_DRIVER, "told to fail");
        failures += failed;
        m->mock.fail_at = 0;
        assert_int_equal(
            aule_attention_run(m->attention, m->device, &m->c->call, &m->c->run, &error), AULE_OK);
    }
    assert_true(failures >= 8); /* check_memory of seven tensors, zero, two launches */
    aule_device_close(m->device);
    m->device = NULL;
    aule_error *error = NULL;
    m->mock.calls = 0;
    m->mock.fail_at = 1;
    expect_error(open_mock(m, &error), &error, AULE_ERROR_DRIVER, "mock: open: told to fail");
    mock_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_device_environment),
        cmocka_unit_test(test_threads_environment),
        cmocka_unit_test(test_limited_processor),
        cmocka_unit_test(test_wrong_opencl_code),
        cmocka_unit_test(test_buffers_and_events),
        cmocka_unit_test(test_what_a_backend_gets),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_backend_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
