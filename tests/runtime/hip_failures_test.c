/* Every function of libamdhip64 that we call (hip_api.def) fails, at every time that it is called, once each: the message names it, nothing is
 * left behind, and the process goes on. */
#include "hip_case.h"

#include <stdio.h>
#include <string.h>

enum { UNKNOWN = 999 };

static const char *const functions[] = {
#define HIP(name, symbol) symbol,
#include "../../runtime/backends/hip_api.def"
    "hipGetDevicePropertiesR0600"};

/* Whose failure nobody need be told: a fact for the list of devices is missing then. */
static bool is_detail(const char *call)
{
    return strcmp(call, "hipDeviceGetName") == 0 || strcmp(call, "hipDeviceTotalMem") == 0 ||
           strcmp(call, "hipDeviceGetAttribute") == 0;
}

/* Gives something back, and has done so. */
static bool is_release(const char *call)
{
    static const char *const calls[] = {
        "hipDevicePrimaryCtxRelease", "hipCtxPopCurrent", "hipFree", "hipModuleUnload",
        "hipStreamDestroy",           "hipEventDestroy"};
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        if (strcmp(calls[n], call) == 0) return true;
    return false;
}

/* Called for words about a call that failed. */
static bool is_about_errors(const char *call)
{
    return strcmp(call, "hipDrvGetErrorName") == 0 || strcmp(call, "hipDrvGetErrorString") == 0 ||
           strcmp(call, "hipMemGetInfo") == 0;
}

static void fail_at(const char *call, int code, int turn)
{
    snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", call);
    cuda_mock.code = code;
    cuda_mock.after = turn;
}

/* What cannot be entered cannot be given back either: it goes with the process. */
static bool loses(const char *call)
{
    return strcmp(call, "hipCtxGetCurrent") == 0 || strcmp(call, "hipCtxPushCurrent") == 0;
}

static void expect_nothing_left(const char *call, int turn)
{
    const int left = cuda_mock.modules + cuda_mock.buffers + cuda_mock.streams + cuda_mock.events;
    MockContext now;
    if (left > loses(call) || cuda_mock.contexts)
        fail_msg("call %d of %s leaves %d objects, %d contexts", turn, call, left,
                 cuda_mock.contexts);
    assert_int_equal(cuCtxGetCurrent(&now), 0);
    if (now) fail_msg("call %d of %s leaves a context current", turn, call);
    if (left) cuda_mock_reset();
}

/* True: it was called often enough to fail; [given]: on a context of the caller's. */
static bool fails_in_turn(const char *call, int turn, bool given)
{
    CaseModule module;
    OnDevice s;
    MockContext context = NULL;
    aule_error *error = NULL;
    if (given) assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    const aule_device_options options = {.struct_size = sizeof options, .context = context};
    hip_module(&module);
    on_device_begin(&s, &module.module, FORWARD_TENSORS);
    s.options = &options;
    cuda_mock.devices = 1; /* another's failure is not told */
    fail_at(call, UNKNOWN, turn);
    const aule_status status = on_device_run(&s, "hip:0", &error);
    const bool told =
        cuda_mock.after < 0; /* while something was done, not when all was given back */
    const char *said = status ? aule_error_message(error) : "";
    if (told && !status && !is_detail(call) && !is_release(call))
        fail_msg("call %d of %s fails, and nothing is told", turn, call);
    if (status && (!told || !strstr(said, call))) fail_msg("call %d of %s: %s", turn, call, said);
    if (status && !strstr(said, "hipErrorUnknown (in the mock's words)"))
        fail_msg("call %d of %s does not say why: %s", turn, call, said);
    if (!status) assert_true(case_is_right(s.c));
    aule_error_free(error);
    on_device_end(&s);
    const bool failed = cuda_mock.after < 0;
    cuda_mock.fail[0] = 0;
    expect_nothing_left(call, turn);
    if (given) assert_int_equal(cuCtxDestroy_v2(context), 0);
    return failed;
}

static void expect_right(void)
{
    CaseModule module;
    OnDevice s;
    aule_error *error = NULL;
    hip_module(&module);
    on_device_begin(&s, &module.module, FORWARD_TENSORS);
    if (on_device_run(&s, "hip:0", &error)) fail_msg("%s", aule_error_message(error));
    assert_true(case_is_right(s.c));
    on_device_end(&s);
    expect_nothing_left("nothing", 0);
}

static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) {
        int turns = 0;
        if (is_about_errors(functions[n])) continue;
        for (int given = 0; given < 2; given++)
            for (int turn = 0; fails_in_turn(functions[n], turn, given); turn++) turns++;
        if (turns == 0) fail_msg("%s is not called", functions[n]);
        expect_right();
    }
}

/* A device of which the driver tells nothing keeps its number, and the others theirs. */
static void test_a_device_is_mute(void **state)
{
    static const char *const calls[] = {"hipDeviceGet", "hipGetDevicePropertiesR0600"};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        aule_device *device = NULL;
        aule_error *error = NULL;
        char said[128];
        snprintf(said, sizeof said, "hip:0 is not available: %s: hipErrorUnknown", calls[n]);
        fail_at(calls[n], UNKNOWN, 0);
        expect_error(aule_device_open("hip:0", NULL, &device, &error), &error, AULE_ERROR_DEVICE,
                     said);
        fail_at(calls[n], UNKNOWN, 0);
        assert_int_equal(aule_device_open("hip:1", NULL, &device, NULL), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->id, "hip:1");
        assert_string_equal(aule_device_get_info(device)->features, "gfx1100 gfx11-generic");
        aule_device_close(device);
        cuda_mock.fail[0] = 0;
    }
}

/* Without words of the driver a failure has its number. */
static void test_no_words(void **state)
{
    static const char *const names[] = {"cuGetErrorName", "cuGetErrorString"};
    static const char *const said[] = {"hipInit: error 999", "hipInit: hipErrorUnknown"};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        aule_device *device;
        aule_error *error = NULL;
        cuda_mock.init = UNKNOWN;
        fail_at(n ? "hipDrvGetErrorString" : "hipDrvGetErrorName", 1, 0);
        expect_error(aule_device_open("hip", NULL, &device, &error), &error, AULE_ERROR_DEVICE,
                     said[n]);
        if (cuda_mock.after >= 0) fail_msg("%s was not called", names[n]);
        cuda_mock.fail[0] = 0;
        cuda_mock.init = 0;
    }
}

/* How much was asked for, and how much there is, if the driver tells. */
static void test_no_memory(void **state)
{
    static const uint64_t bytes = 1ull << 40;
    CaseModule module;
    Setup s;
    aule_buffer *buffer = NULL;
    aule_error *error = NULL;
    (void)state;
    hip_open(&s, &module, "hip:0", NULL);
    expect_error(aule_buffer_new(s.device, bytes, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "hip:0: hipMalloc: hipErrorOutOfMemory (in the mock's words); 1099511627776 "
                 "bytes were asked for, 536870912 of 1073741824 are free");
    fail_at("hipMemGetInfo", UNKNOWN, 0);
    expect_error(aule_buffer_new(s.device, bytes, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "hipErrorOutOfMemory (in the mock's words); 1099511627776 bytes were asked for");
    cuda_mock.fail[0] = 0;
    assert_null(buffer);
    assert_int_equal(aule_buffer_new(s.device, 64, &buffer, NULL), AULE_OK);
    aule_buffer_free(buffer);
    cuda_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_every_call_fails_in_turn),
        CUDA_TEST(test_a_device_is_mute),
        CUDA_TEST(test_no_words),
        CUDA_TEST(test_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
