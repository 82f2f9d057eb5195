/* CUDA, on a mock of the driver (cuda_mock.h), whose name is the driver's, so that the runtime finds it where it looks for one. */
#include "cuda_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_devices(void **state)
{
    (void)state;
    aule_device *device;
    assert_int_equal(aule_device_open("cuda:1", NULL, &device, NULL), AULE_OK);
    const aule_device_info *info = aule_device_get_info(device);
    assert_string_equal(info->id, "cuda:1");
    assert_string_equal(info->name, "Mock 1");
    assert_string_equal(info->driver, "CUDA 12.8, PTX up to 8.7, compute capability 8.0");
    assert_int_equal(info->units, 132);
    assert_int_equal(info->memory_bytes, 1 << 30);
    assert_true(info->kind == AULE_DEVICE_GPU && info->dl.device_type == kDLCUDA &&
                info->dl.device_id == 1);
    assert_ptr_equal(strstr(info->features, "sm_80 sm_75 sm_72 sm_70 ptx87 ptx86 ptx85 "),
                     info->features);
    aule_device_close(device);
    assert_int_equal(aule_device_open("cuda", NULL, &device, NULL), AULE_OK);
    info = aule_device_get_info(device);
    assert_ptr_equal(strstr(info->features, "sm_90a sm_90 sm_89 "), info->features);
    assert_null(strstr(info->features, "sm_100"));
    assert_null(strstr(info->features, "ptx88"));
    aule_device_close(device);
}

static void test_result(void **state)
{
    (void)state;
    Setup s;
    aule_event *first, *last;
    uint64_t nanoseconds;
    cuda_open(&s, "cuda:0", NULL);
    assert_int_equal(aule_event_record(s.device, NULL, &first, NULL), AULE_OK);
    cuda_run(&s);
    assert_int_equal(aule_event_record(s.device, NULL, &last, NULL), AULE_OK);
    assert_int_equal(aule_event_elapsed(first, last, &nanoseconds, NULL), AULE_OK);
    assert_int_equal(nanoseconds, 1500000);
    aule_error *error = NULL;
    expect_error(aule_event_elapsed(last, first, &nanoseconds, &error), &error, AULE_ERROR_USAGE,
                 "aule_event_elapsed: the first event is 1500000 ns after the last");
    aule_event_free(first);
    aule_event_free(last);
    assert_int_equal(aule_device_synchronize(s.device, NULL, NULL), AULE_OK);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    const MockLaunch *launch = &cuda_mock.launches[0];
    assert_string_equal(launch->kernel, "weigh");
    assert_true(launch->grid[0] == 5 && launch->grid[1] == 4 && launch->grid[2] == 2);
    assert_true(launch->block[0] == 2 && launch->block[1] == 1 && launch->block[2] == 1);
    assert_string_equal(cuda_mock.launches[1].kernel, "divide");
    assert_int_equal(cuda_mock.memsets, 1);

    case_make_backward(s.c, true);
    assert_int_equal(aule_buffer_upload(s.workspace, 0, s.c->workspace, 4096, NULL), AULE_OK);
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_has_gradients(s.c));
    cuda_close(&s);
}

/* The device's own architecture, else the highest that came before it, whatever the order in the artifact. */
static void test_choice(void **state)
{
    (void)state;
    static const struct {
        int capability;
        const char *arch;
    } rows[] = {{90, "sm_90"}, {89, "sm_87"}, {86, "153600 bytes"}, {80, "sm_80"},  {75, "sm_75"},
                {72, "sm_72"}, {70, "sm_70"}, {100, "sm_90"},       {121, "sm_120"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Setup s;
        cuda_mock.capability[0] = rows[i].capability;
        cuda_open(&s, "cuda:0", NULL);
        aule_plan *plan = NULL;
        aule_error *error = NULL;
        aule_status status = aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error);
        if (status == AULE_OK)
            assert_string_equal(aule_plan_variant(plan)->arch, rows[i].arch);
        else /* codes that are meant to fail: they were chosen */
            assert_non_null(strstr(aule_error_message(error), rows[i].arch));
        aule_error_free(error);
        aule_plan_free(plan);
        cuda_close(&s);
    }
    Setup s;
    cuda_mock.capability[0] = 90;
    cuda_mock.driver = 11000;
    cuda_open(&s, "cuda:0", NULL);
    s.c->call.arch = "sm_90";
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "cuda sm_90 f32 D=8 E=4 (needs ptx81, the driver takes up to ptx70)");
    s.c->call.arch = "sm_120";
    expect_plan_error(
        s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
        "sample: no forward kernel for device cuda:0, dtype f32, D=8, E=4, architecture "
        "sm_120; the artifact has: cuda sm_70 f32 D=8 E=4, ");
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "cuda sm_120 f32 D=8 E=4 (needs sm_120 and ptx87, the device is sm_90");
    cuda_close(&s);
}

/* On the caller's stream, while it is captured: launches and a memset, nothing that a capture forbids; the graph then does them again. */
static void test_capture(void **state)
{
    (void)state;
    Setup s;
    MockContext context, now;
    void *stream, *graph, *exec;
    cuda_open(&s, "cuda:0", NULL);
    aule_plan *plan = cuda_plan(&s);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    s.c->run.queue = stream;
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    int calls = cuda_mock.calls;
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuda_mock.calls - calls, 3 * 2); /* which context, and the call: thrice */
    assert_int_equal(cuCtxCreate_v2(&now, 0, 0), 0);  /* another one is current: stays so */
    calls = cuda_mock.calls;
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuda_mock.calls - calls, 3 * 3); /* pushed, too */
    assert_int_equal(cuCtxDestroy_v2(now), 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuda_mock.forbidden, 0);
    assert_int_equal(cuda_mock.launch_count, 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, context);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    cuCtxSetCurrent(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    aule_plan_free(plan);
    cuda_close(&s);
}

/* Whatever is called, the caller's current context is what it was; and a context of the caller's is used if it is given. */
static void test_contexts(void **state)
{
    (void)state;
    Setup s;
    MockContext mine, other, now;
    void *stream;
    aule_device *device = NULL;
    aule_error *error = NULL;
    assert_int_equal(cuCtxCreate_v2(&mine, 0, 1), 0);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), 0);
    cuda_open(&s, "cuda:1", mine);
    assert_int_equal(cuda_mock.contexts, 0); /* no primary context */
    s.c->run.queue = stream;
    cuda_run(&s);
    assert_int_equal(aule_device_synchronize(s.device, stream, NULL), AULE_OK);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    aule_device_options options = {.struct_size = sizeof options, .context = other};
    expect_error(aule_device_open("cuda:1", &options, &device, &error), &error, AULE_ERROR_DEVICE,
                 "cuda:1: the given context is another device's");
    cuda_close(&s);
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxDestroy_v2(mine), 0);
    cuCtxGetCurrent(&now);
    assert_null(now);
}

static void test_several_devices(void **state)
{
    (void)state;
    Setup a, b;
    cuda_open(&a, "cuda:0", NULL);
    cuda_open(&b, "cuda:1", NULL);
    cuda_run(&b);
    cuda_run(&a);
    cuda_fetch(&a);
    cuda_fetch(&b);
    assert_true(case_is_right(a.c) && case_is_right(b.c));
    a.c->tensors[T_V].device.device_id = 1;
    expect_plan_error(a.attention, a.device, a.c, AULE_ERROR_TENSOR,
                      "v: it is on cuda:1 (DLPack type 2), expected cuda:0 (DLPack type 2)");
    a.c->tensors[T_V].device = (DLDevice){kDLCUDAManaged, 0}; /* wherever it is: readable */
    aule_plan_free(cuda_plan(&a));
    cuda_close(&a);
    cuda_close(&b);
}

/* A device of which the driver tells nothing keeps its number, and the others theirs. */
static void test_a_device_is_mute(void **state)
{
    (void)state;
    aule_device *device = NULL;
    aule_error *error = NULL;
    for (int turn = 0; turn < 2; turn++) {
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "cuDeviceGet");
        cuda_mock.code = 999, cuda_mock.after = 0;
        if (turn == 0)
            expect_error(aule_device_open("cuda:0", NULL, &device, &error), &error,
                         AULE_ERROR_DEVICE, "cuda:0 is not available: cuDeviceGet: error 999");
    }
    assert_int_equal(aule_device_open("cuda:1", NULL, &device, NULL), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->id, "cuda:1");
    aule_device_close(device);
}

/* ---- errors */

static void expect_open_error(const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    expect_error(aule_device_open("cuda", NULL, &device, &error), &error, AULE_ERROR_DEVICE, text);
    assert_null(device);
}

static void test_no_device(void **state)
{
    (void)state;
    cuda_mock.devices = 0;
    expect_open_error(
        "cuda is not available: libcuda.so.1 is there, but cuInit: CUDA_ERROR_NO_DEVICE "
        "(no CUDA-capable device is detected)");
    cuda_mock.devices = 2;
    cuda_mock.init = 3;
    expect_open_error("CUDA_ERROR_NOT_INITIALIZED (initialization error): CUDA does not work in a "
                      "process that was forked after it began");
    cuda_mock.init = 999;
    expect_open_error("libcuda.so.1 is there, but cuInit: error 999");
    cuda_mock.init = 0;
    cuda_mock.mode[0] = 2;
    expect_open_error("its compute mode is 'prohibited'");
    cuda_mock.mode[0] = 0;
    cuda_mock.capability[0] = 61;
    expect_open_error("it is older than compute capability 7.0");
    cuda_mock.capability[0] = 70;
    cuda_mock.driver = 9020;
    expect_open_error("its driver is older than CUDA 10.0");
}

static void test_build_errors(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *text;
        aule_status status;
    } rows[] = {
        {"sm_75",
         "cuda:0: the code of 'rows sm_75' is PTX 9.9, the driver (CUDA 12.8) takes PTX up to 8.7: "
         "a newer driver is needed",
         AULE_ERROR_BUILD},
        {"sm_72",
         "cuda:0: cuLinkAddData: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed); 'rows "
         "sm_72', PTX 7.0 on sm_90, CUDA 12.8; "
         "the driver's log: ptxas application ptx input, line 2; fatal   : Parsing error near 'is'",
         AULE_ERROR_BUILD},
    };
    Setup s;
    cuda_open(&s, "cuda", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.c->call.arch = rows[i].arch;
        expect_plan_error(s.attention, s.device, s.c, rows[i].status, rows[i].text);
    }
    s.c->call.arch = "sm_86"; /* 150 KB of shared memory: here it is, on sm_86 it is not */
    aule_plan *plan = cuda_plan(&s);
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuda_mock.launches[0].shared_bytes, 150 << 10);
    aule_plan_free(plan);
    cuda_close(&s);
    cuda_mock.capability[0] = 86;
    cuda_open(&s, "cuda", NULL);
    expect_plan_error(
        s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
        "cuda:0: kernel weigh needs 153600 bytes of shared memory, a block has 101376 here");
    cuda_close(&s);
}

/* A kernel that waits by itself is launched so that it may begin early, where the driver knows that, behind one of the same run alone. */
static void test_early_launches(void **state)
{
    static const struct {
        int driver, early;
    } drivers[] = {{12080, 1}, {12030, 1}, {12020, 0}, {12080, 1}};
    (void)state;
    for (size_t n = 0; n < sizeof drivers / sizeof *drivers; n++) {
        Setup s;
        aule_error *error = NULL;
        cuda_mock.driver = drivers[n].driver;
        cuda_open(&s, "cuda", NULL);
        aule_plan *plan = cuda_plan(&s);
        cuda_mock.launch_count = 0;
        for (int turn = 0; turn < 2; turn++)
            assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK);
        assert_int_equal(cuda_mock.launch_count, 4);
        for (int l = 0; l < 4; l++)
            assert_int_equal(cuda_mock.launches[l].early, l % 2 ? drivers[n].early : 0);
        aule_plan_free(plan);
        cuda_close(&s);
    }
}

/* Memory that another driver exported: what is written here is there, the descriptor stays the caller's, and a failure leaves nothing. */
static void test_memory_of_others(void **state)
{
    (void)state;
    enum { BYTES = 4096 };
    static const char *const functions[] = {"cuImportExternalMemory",
                                            "cuExternalMemoryGetMappedBuffer", "cuCtxPushCurrent"};
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer = NULL;
    uint64_t bytes = 0;
    char wrote[16] = "of cuda", found[16] = "";
    int other = -1;
    const int fd = memfd_create("memory", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    cuda_open(&s, "cuda", NULL);
    const int next = dup(fd); /* the lowest that is free */
    close(next);
    if (aule_buffer_import(s.device, fd, BYTES, &buffer, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(aule_buffer_bytes(buffer), BYTES);
    assert_int_equal(cuda_mock.externals, 1);
    assert_int_equal(aule_buffer_upload(buffer, 100, wrote, sizeof wrote, &error), AULE_OK);
    assert_int_equal(pread(fd, found, sizeof found, 100), sizeof found);
    assert_string_equal(found, wrote);
    aule_buffer_free(buffer);
    assert_int_equal(cuda_mock.externals, 0);
    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) {
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", functions[n]);
        cuda_mock.code = 1, cuda_mock.after = 0;
        expect_error(aule_buffer_import(s.device, fd, BYTES, &buffer, &error), &error,
                     AULE_ERROR_DRIVER, functions[n]);
        cuda_mock.fail[0] = 0;
        assert_int_equal(cuda_mock.externals, 0);
    }
    expect_error(aule_buffer_import(s.device, fd, 2 * BYTES, &buffer, &error), &error,
                 AULE_ERROR_DRIVER, "the file descriptor, 8192 bytes");
    expect_error(aule_buffer_import(s.device, 250, BYTES, &buffer, &error), &error,
                 AULE_ERROR_USAGE, "cuda:0: 250 is no open file descriptor");
    expect_error(aule_buffer_export(s.device, 1, &buffer, &other, &bytes, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "cuda");
    const int again = dup(fd);
    assert_int_equal(again, next); /* none is left open */
    close(again);
    assert_int_equal(close(fd), 0);
    cuda_close(&s);
}

/* A number that another driver exported: set and waited for on streams; a failure leaves nothing. */
static void test_timelines_of_others(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuImportExternalSemaphore", "cuCtxPushCurrent"};
    Setup s;
    aule_error *error = NULL;
    aule_timeline *timeline = NULL;
    uint64_t value = 0;
    int other = -1;
    const int fd = memfd_create("timeline", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, sizeof value), 0);
    cuda_open(&s, "cuda", NULL);
    const int next = dup(fd); /* the lowest that is free */
    close(next);
    if (aule_timeline_import(s.device, fd, &timeline, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(cuda_mock.externals, 1);
    assert_int_equal(aule_timeline_handle(timeline), 0);
    assert_int_equal(aule_timeline_signal(timeline, NULL, 7, &error), AULE_OK);
    assert_int_equal(pread(fd, &value, sizeof value, 0), sizeof value);
    assert_int_equal(value, 7);
    assert_int_equal(aule_timeline_wait(timeline, (void *)1, 7, &error), AULE_OK);
    expect_error(aule_timeline_wait(timeline, NULL, 8, &error), &error, AULE_ERROR_DRIVER,
                 "cuWaitExternalSemaphoresAsync");
    expect_error(aule_timeline_signal(timeline, NULL, 7, &error), &error, AULE_ERROR_DRIVER,
                 "cuSignalExternalSemaphoresAsync");
    aule_timeline_free(timeline);
    assert_int_equal(cuda_mock.externals, 0);
    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) {
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", functions[n]);
        cuda_mock.code = 1, cuda_mock.after = 0;
        expect_error(aule_timeline_import(s.device, fd, &timeline, &error), &error,
                     AULE_ERROR_DRIVER, functions[n]);
        cuda_mock.fail[0] = 0;
        assert_int_equal(cuda_mock.externals, 0);
    }
    expect_error(aule_timeline_import(s.device, 250, &timeline, &error), &error, AULE_ERROR_USAGE,
                 "cuda:0: 250 is no open file descriptor");
    expect_error(aule_timeline_export(s.device, &timeline, &other, &error), &error,
                 AULE_ERROR_UNSUPPORTED,
                 "cuda:0: timelines are not exported by file descriptor on cuda");
    const int again = dup(fd);
    assert_int_equal(again, next); /* none is left open */
    close(again);
    assert_int_equal(close(fd), 0);
    cuda_close(&s);
}

static void test_run_errors(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer;
    cuda_open(&s, "cuda", NULL);
    expect_error(
        aule_buffer_new(s.device, 1ull << 40, &buffer, &error), &error, AULE_ERROR_MEMORY,
        "cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory); 1099511627776 bytes "
        "were asked for, 536870912 of 1073741824 are free");
    aule_plan *plan = cuda_plan(&s);
    snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "cuLaunchKernel");
    cuda_mock.code = 701;
    expect_error(
        aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
        "cuda:0: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources "
        "requested for launch); kernel weigh, 2 threads a block, 0 bytes of dynamic shared "
        "memory, 77 registers a thread");
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK); /* nothing was lost */
    aule_plan_free(plan);
    for (int t = 0; t < T_DO; t++) {
        s.c->shapes[t][0] = 1;
        s.c->tensors[t].data =
            (void *)(uintptr_t)((uint64_t)(t + 1) << 32); /* far from each other */
    }
    s.c->shapes[T_Q][1] = s.c->shapes[T_O][1] = s.c->shapes[T_LSE][1] = 70000;
    s.c->shapes[T_SLOPE][0] = 139999;
    plan = cuda_plan(&s);
    s.c->run.workspace_bytes = 1 << 21;
    cuda_mock.idle = 1; /* it is not cleared: it is not there */
    expect_error(
        aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_UNSUPPORTED,
        "cuda:0: a grid of 5 x 70000 x 1 blocks of weigh, at most 2147483647 x 65535 x 65535 "
        "can be launched");
    aule_plan_free(plan);
    cuda_close(&s);
}

/* A kernel that reads wild memory takes the context with it: the same error from then on, and closing still works. */
static void test_illegal_address(void **state)
{
    (void)state;
    static const char lost[] =
        "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); a kernel that ran "
        "before has failed, and the device's context is lost with it: nothing runs on this device "
        "any "
        "more in this process; launched last and not seen done: fault";
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer;
    cuda_open(&s, "cuda", NULL);
    s.c->call.arch = "sm_87";
    aule_plan *plan = cuda_plan(&s);
    aule_status status = aule_plan_run(plan, &s.c->run, &error);
    expect_error(status, &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_buffer_new(s.device, 16, &buffer, &error), &error, AULE_ERROR_DRIVER, lost);
    aule_plan_free(plan);
    cuda_close(&s);
    cuda_mock.modules = cuda_mock.buffers = cuda_mock.streams = 0; /* they went with the context */
    assert_int_equal(cuda_mock.contexts, 0);
}

/* Other failures that end a context say so, too. */
static void test_launch_failures(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *name;
    } rows[] = {{702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
                {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                {719, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Setup s;
        aule_error *error = NULL;
        cuda_open(&s, "cuda", NULL);
        cuda_run(&s);
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "cuStreamSynchronize");
        cuda_mock.code = rows[i].code;
        aule_status status = aule_device_synchronize(s.device, NULL, &error);
        expect_error(status, &error, AULE_ERROR_DRIVER, rows[i].name);
        cuda_mock.fail[0] = 0;
        status = aule_device_synchronize(s.device, NULL, &error); /* it stays lost */
        expect_error(status, &error, AULE_ERROR_DRIVER,
                     "this device any more in this process; launched last and not seen done: "
                     "weigh, divide");
        cuda_close(&s);
        cuda_mock.modules = cuda_mock.buffers = cuda_mock.streams = 0; /* went with the context */
        assert_int_equal(cuda_mock.contexts, 0);
        cuda_mock_reset();
    }
}

/* A failure that is told late names what was launched and not seen done, whatever stream it is told on; the artifact may be closed by then. */
static void test_what_ran_before_a_failure(void **state)
{
    (void)state;
    enum { NOTHING, ON_MINE, WAITED };
    static const char lost[] = "context is lost with it: nothing runs on this device any more in "
                               "this process";
    for (int what = NOTHING; what <= WAITED; what++) {
        Setup s;
        MockContext context;
        void *mine;
        aule_event *event;
        aule_error *error = NULL;
        cuda_open(&s, "cuda", NULL);
        assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
        assert_int_equal(cuCtxSetCurrent(context), 0);
        assert_int_equal(cuStreamCreate(&mine, 0), 0);
        cuda_run(&s); /* on the device's own, which is waited for */
        assert_int_equal(aule_device_synchronize(s.device, NULL, NULL), AULE_OK);
        s.c->run.queue = mine;
        if (what != NOTHING) cuda_run(&s);
        assert_int_equal(aule_event_record(s.device, mine, &event, NULL), AULE_OK);
        if (what == WAITED) assert_int_equal(aule_event_wait(event, NULL), AULE_OK);
        if (what == ON_MINE)
            assert_int_equal(aule_device_synchronize(s.device, NULL, NULL), AULE_OK);
        aule_module_close(s.module);
        s.module = NULL;
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "cuStreamSynchronize");
        cuda_mock.code = 716;
        const aule_status status = aule_device_synchronize(s.device, NULL, &error);
        assert_int_equal(status, AULE_ERROR_DRIVER);
        const char *said = strstr(aule_error_message(error), lost);
        assert_non_null(said);
        assert_string_equal(said + strlen(lost),
                            what == ON_MINE ? "; launched last and not seen done: weigh, divide"
                                            : "");
        aule_error_free(error);
        aule_event_free(event);
        cuda_close(&s);
        cuCtxSetCurrent(NULL);
        cuda_mock_reset();
        cuda_mock.modules = cuda_mock.buffers = cuda_mock.streams = cuda_mock.events =
            cuda_mock.contexts = 0; /* went with the context */
    }
}

/* Each of the driver's functions fails once: the error comes through, nothing is left behind, and the next try works. */
static void test_each_function_fails(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuInit",
                                            "cuDevicePrimaryCtxRetain",
                                            "cuStreamCreate",
                                            "cuLinkCreate",
                                            "cuLinkAddData",
                                            "cuLinkComplete",
                                            "cuModuleLoadDataEx",
                                            "cuModuleGetFunction",
                                            "cuFuncGetAttribute",
                                            "cuMemsetD8Async",
                                            "cuLaunchKernel",
                                            "cuLaunchKernelEx",
                                            "cuCtxPushCurrent",
                                            "cuStreamSynchronize"};
    Setup s;
    cuda_open(&s, "cuda", NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        aule_error *error = NULL;
        aule_device *device = NULL;
        aule_module *module = NULL;
        bool failed = false;
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", functions[i]);
        cuda_mock.code = 1;
        cuda_mock.after = 0;
        for (int try = 0; try < 2; try++) {
            aule_status status = aule_device_open("cuda", NULL, &device, &error);
            if (!status) status = aule_module_from(&sample_module, NULL, &module, &error);
            if (!status)
                status = aule_attention_run(aule_module_attention(module, 0), device, &s.c->call,
                                            &s.c->run, &error);
            if (!status) status = aule_device_synchronize(device, NULL, &error);
            if (try == 1 && status) fail_msg("%s: %s", functions[i], aule_error_message(error));
            if (status) {
                failed = true;
                assert_non_null(strstr(aule_error_message(error), functions[i]));
                assert_non_null(strstr(aule_error_message(error), "CUDA_ERROR_INVALID_VALUE"));
            }
            aule_error_free(error);
            aule_device_close(device);
            aule_module_close(module);
            error = NULL;
            device = NULL;
            module = NULL;
        }
        if (!failed) fail_msg("%s was not called", functions[i]);
        cuda_mock.fail[0] = 0;
        cuda_new_cache(); /* no code is kept */
    }
    cuda_close(&s);
}

/* ---- threads */

/* Many threads, two devices, one module: code is loaded once for each device. */
static void test_threads(void **state)
{
    (void)state;
    Setup s[2];
    cuda_open(&s[0], "cuda:0", NULL);
    cuda_open(&s[1], "cuda:1", NULL);
    aule_module_close(s[1].module);
    s[1].module = NULL;
    s[1].attention = s[0].attention;
    cuda_work_at_once(s, 2);
    assert_int_equal(cuda_mock.loads, 2);
    cuda_close(&s[0]);
    cuda_close(&s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_devices),
        CUDA_TEST(test_result),
        CUDA_TEST(test_choice),
        CUDA_TEST(test_capture),
        CUDA_TEST(test_contexts),
        CUDA_TEST(test_several_devices),
        CUDA_TEST(test_no_device),
        CUDA_TEST(test_build_errors),
        CUDA_TEST(test_early_launches),
        CUDA_TEST(test_memory_of_others),
        CUDA_TEST(test_timelines_of_others),
        CUDA_TEST(test_run_errors),
        CUDA_TEST(test_illegal_address),
        CUDA_TEST(test_launch_failures),
        CUDA_TEST(test_what_ran_before_a_failure),
        CUDA_TEST(test_each_function_fails),
        CUDA_TEST(test_threads),
        CUDA_TEST(test_a_device_is_mute),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
