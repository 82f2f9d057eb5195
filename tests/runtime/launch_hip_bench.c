/* What a warm call costs on a mock of AMD's library that does nothing, as launch_bench.c has it for NVIDIA's: in a program of its own, since both
 * mocks have their state under one name. The last line is the mock's own part: the same memset and launches, called directly. */
#include "launch_case.h"

#include "cuda_mock.h"

#include <string.h>

typedef struct Bare {
    void *module, *kernels[2], *slots;
    uint64_t at;
} Bare;

MOCK_API int hipModuleLoadDataEx(void **module, const void *code, unsigned count, int *options,
                                 void **values);
MOCK_API int hipModuleUnload(void *module);
MOCK_API int hipModuleGetFunction(void **function, void *module, const char *name);
MOCK_API int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, void *stream,
                                   void **params, void **extra);
MOCK_API int hipMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void *stream);

static const char code[] = "cubin sm_90\n.entry weigh()\n.entry divide()\n";

static void launch_bare(void *context)
{
    Bare *b = context;
    assert_int_equal(hipMemsetD8Async(b->at, 0, 160, NULL), 0);
    for (int n = 0; n < 2; n++)
        assert_int_equal(
            hipModuleLaunchKernel(b->kernels[n], 5, 4, 2, 1, 1, 1, 0, NULL, &b->slots, NULL), 0);
}

static void measure_bare(void)
{
    static uint64_t slots[64];
    Bare b = {.slots = slots};
    assert_int_equal(hipModuleLoadDataEx(&b.module, code, 0, NULL, NULL), 0);
    assert_int_equal(hipModuleGetFunction(&b.kernels[0], b.module, "weigh"), 0);
    assert_int_equal(hipModuleGetFunction(&b.kernels[1], b.module, "divide"), 0);
    assert_int_equal(cuMemAlloc_v2(&b.at, 4096), 0);
    launch_measure_any(launch_bare, &b, "hip: the mock's own part");
    assert_int_equal(hipModuleUnload(b.module), 0);
}

static void test_hip(void **state)
{
    static CaseModule sample;
    Case *c = case_new();
    aule_address at[TENSORS];
    aule_buffer *buffers[TENSORS] = {0}, *workspace = NULL;
    MockContext context;
    Fixture f = {0};
    (void)state;
    case_module(&sample, &(aule_variant_v1){.target = "hip",
                                            .arch = "gfx942",
                                            .features = "gfx942",
                                            .operation = "forward",
                                            .code_format = AULE_CODE_HSACO,
                                            .code = code,
                                            .code_bytes = sizeof code});
    assert_int_equal(aule_module_from(&sample.module, NULL, &f.module, NULL), AULE_OK);
    f.attention = aule_module_attention(f.module, 0);
    assert_int_equal(aule_device_open("hip", NULL, &f.device, NULL), AULE_OK);
    assert_int_equal(case_place(c, f.device, TENSORS, buffers, &workspace, NULL), AULE_OK);
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){c->tensors[t].data, 0};
    cuda_mock.idle = 1;
    launch_measure(&f, c, "hip: a memset and two launches, pushed");
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    launch_measure(&f, c, "hip: a memset and two launches");
    c->run.tensors = at;
    launch_measure(&f, c, "hip: the same, new addresses");
    measure_bare();
    cuda_mock.idle = 0;
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(buffers[t]);
    aule_buffer_free(workspace);
    aule_device_close(f.device);
    aule_module_close(f.module);
    case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
