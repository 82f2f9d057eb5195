/* Runs on HIP by the mock of its library: what streams, contexts, graphs and threads of a program ask of the runtime, and kernels that are too
 * much for the device. */
#include "hip_case.h"

#include <stdio.h>

/* On the caller's stream, while it is captured: launches and a memset, nothing that a capture forbids; the graph then does them again. */
static void test_capture(void **state)
{
    CaseModule module;
    Setup s;
    MockContext context;
    void *stream, *graph, *exec;
    (void)state;
    hip_open(&s, &module, "hip:0", NULL);
    aule_plan *plan = cuda_plan(&s);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    s.c->run.queue = stream;
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuCtxSetCurrent(NULL), 0); /* none is current: ours is pushed */
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuda_mock.forbidden, 0);
    assert_int_equal(cuda_mock.launch_count, 0);
    cuda_fetch(&s);
    assert_false(case_is_right(s.c)); /* nothing was done yet */
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(cuGraphLaunch(exec, stream), 0);
        cuda_fetch(&s);
        assert_true(case_is_right(s.c));
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    cuCtxSetCurrent(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    aule_plan_free(plan);
    cuda_close(&s);
}

/* Many threads, one device, one module: its code is loaded once. */
static void test_threads(void **state)
{
    CaseModule module;
    Setup s;
    (void)state;
    hip_open(&s, &module, "hip:0", NULL);
    cuda_work_at_once(&s, 1);
    assert_int_equal(cuda_mock.loads, 1);
    cuda_close(&s);
}

/* A context of the caller's is used if it is given and the device's own; what is current stays so. */
static void test_contexts(void **state)
{
    CaseModule module;
    Setup s;
    MockContext mine, other, now;
    aule_device *device = NULL;
    aule_error *error = NULL;
    (void)state;
    assert_int_equal(cuCtxCreate_v2(&mine, 0, 0), 0);
    assert_int_equal(cuCtxCreate_v2(&other, 0, 1), 0);
    hip_open(&s, &module, "hip:0", mine);
    assert_int_equal(cuda_mock.contexts, 0); /* no primary context */
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    const aule_device_options options = {.struct_size = sizeof options, .context = other};
    expect_error(aule_device_open("hip:0", &options, &device, &error), &error, AULE_ERROR_DEVICE,
                 "hip:0: the given context is another device's");
    cuda_close(&s);
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(cuCtxDestroy_v2(mine), 0);
}

/* A stream of another device's, by each function that takes one: nothing ran, and the device goes on. */
static void test_streams_of_others(void **state)
{
    static const char said[] = "; is the given stream one of another device or context, or gone?";
    CaseModule module;
    Setup s;
    MockContext other;
    void *stream;
    aule_event *event = NULL;
    aule_error *error = NULL;
    (void)state;
    assert_int_equal(cuCtxCreate_v2(&other, 0, 1), 0);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    hip_open(&s, &module, "hip:0", NULL);
    aule_plan *plan = cuda_plan(&s);
    s.c->run.queue = stream;
    expect_error(aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER, said);
    expect_error(aule_device_synchronize(s.device, stream, &error), &error, AULE_ERROR_DRIVER,
                 said);
    expect_error(aule_event_record(s.device, stream, &event, &error), &error, AULE_ERROR_DRIVER,
                 said);
    assert_int_equal(cuda_mock.launch_count, 0);
    s.c->run.queue = NULL;
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    aule_plan_free(plan);
    cuda_close(&s);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
}

/* What HIP says of a stream that was destroyed is no loss of a context, as it is on NVIDIA's. */
static void test_streams_that_are_gone(void **state)
{
    static const char *const calls[] = {"hipMemsetD8Async", "hipModuleLaunchKernel"};
    CaseModule module;
    Setup s;
    (void)state;
    hip_open(&s, &module, "hip:0", NULL);
    aule_plan *plan = cuda_plan(&s);
    for (size_t n = 0; n < 2; n++) {
        aule_error *error = NULL;
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", calls[n]);
        cuda_mock.code = 709; /* hipErrorContextIsDestroyed */
        cuda_mock.after = 0;
        expect_error(aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                     "; is the given stream one of another device or context, or gone?");
        cuda_mock.fail[0] = 0;
        assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    }
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    aule_plan_free(plan);
    cuda_close(&s);
}

/* Kernels declare their LDS; a device that has less is told before a launch. */
static void test_shared_memory(void **state)
{
    CaseModule module;
    Setup s;
    (void)state;
    hip_open(&s, &module, "hip:0", NULL);
    cuda_mock.shared = 64 << 10;
    aule_plan_free(cuda_plan(&s));
    cuda_close(&s);
    hip_open(&s, &module, "hip:0", NULL);
    cuda_mock.shared = 160 << 10; /* of a gfx950 */
    expect_plan_error(
        s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
        "hip:0: kernel weigh needs 163840 bytes of shared memory, a block has 65536 here");
    cuda_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_capture),       CUDA_TEST(test_threads),
        CUDA_TEST(test_contexts),      CUDA_TEST(test_streams_of_others),
        CUDA_TEST(test_shared_memory), CUDA_TEST(test_streams_that_are_gone),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
