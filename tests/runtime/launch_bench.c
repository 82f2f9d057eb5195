/* What a warm call costs beyond its kernels, in nanoseconds: the sample attention with no rows (no launch), with one row (two launches of one
 * block each, on the caller's thread), the same with new addresses, with new parameters, and a grid for the whole pool; then the two
 * launches and a memset on a mock of CUDA's driver that does nothing, which leaves what is ours, with the device's context current and not;
 * and on one of Vulkan's, where a run is one submission.
 * Run by `meson test --benchmark`, as are those of other drivers (launch_*_bench.c). */
#include "launch_case.h"

#include "cuda_mock.h"
#include "vulkan_case.h"

static void test_overhead(void **state)
{
    Case *c = case_new();
    aule_address at[TENSORS];
    int64_t rows = 0;
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){c->storage[t], 0};
    for (int pass = 0; pass < 2; pass++, rows = 1) {
        c->shapes[T_Q][0] = c->shapes[T_K][0] = c->shapes[T_V][0] = c->shapes[T_O][0] =
            c->shapes[T_LSE][0] = c->shapes[T_LENGTHS][0] = 1;
        c->shapes[T_Q][1] = c->shapes[T_K][1] = c->shapes[T_V][1] = c->shapes[T_O][1] =
            c->shapes[T_LSE][1] = c->shapes[T_SLOPE][0] = 1;
        c->shapes[T_Q][2] = c->shapes[T_O][2] = c->shapes[T_LSE][2] = rows;
        c->shapes[T_K][2] = c->shapes[T_V][2] = 1;
        launch_measure(*state, c, rows ? "two launches of one block" : "no launch");
    }
    c->run.tensors = at;
    launch_measure(*state, c, "two launches of one block, new addresses");
    c->run.params = &c->params[0].value;
    launch_measure(*state, c, "two launches of one block, new parameters too");
    case_free(c);
    c = case_new();
    launch_measure(*state, c, "two launches of 40 blocks, 3 threads");
    case_free(c);
}

static void test_cuda(void **state)
{
    Fixture f = *(Fixture *)*state;
    Case *c = case_new();
    aule_address at[TENSORS];
    MockContext context;
    assert_int_equal(aule_device_open("cuda", NULL, &f.device, NULL), AULE_OK);
    for (int t = 0; t < TENSORS; t++) {
        c->tensors[t].device = (DLDevice){kDLCUDA, 0};
        at[t] = (aule_address){c->storage[t], 0};
    }
    cuda_mock.idle = 1;
    launch_measure(&f, c, "cuda: a memset and two launches, pushed");
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    launch_measure(&f, c, "cuda: a memset and two launches");
    c->run.tensors = at;
    launch_measure(&f, c, "cuda: the same, new addresses");
    cuda_mock.idle = 0;
    aule_device_close(f.device);
    case_free(c);
}

static void test_vulkan(void **state)
{
    Case *c = case_new();
    Fixture f = {0};
    aule_buffer *buffers[TENSORS], *workspace;
    aule_address at[TENSORS];
    (void)state;
    vulkan_mock_reset();
    assert_int_equal(aule_module_from(vulkan_case_module(), NULL, &f.module, NULL), AULE_OK);
    f.attention = aule_module_attention(f.module, 0);
    assert_int_equal(aule_device_open("vulkan", NULL, &f.device, NULL), AULE_OK);
    assert_int_equal(case_place(c, f.device, TENSORS, buffers, &workspace, NULL), AULE_OK);
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){aule_buffer_data(buffers[t]), 0};
    vulkan_mock.idle = true;
    launch_measure(&f, c, "vulkan: a run of three kernels");
    c->run.tensors = at;
    launch_measure(&f, c, "vulkan: the same, new addresses");
    c->run.params = &c->params[0].value;
    launch_measure(&f, c, "vulkan: the same, new parameters too");
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(buffers[t]);
    aule_buffer_free(workspace);
    aule_device_close(f.device);
    aule_module_close(f.module);
    case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_overhead), cmocka_unit_test(test_cuda),
                                       cmocka_unit_test(test_vulkan)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
