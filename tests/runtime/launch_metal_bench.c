/* What a warm call costs on the double of Apple's libraries while its messages do nothing, as launch_bench.c has it for other drivers: a memset
 * and two launches, each a command buffer. The kernels are two that do nothing, since the double compiles what it is given. */
#include "launch_case.h"
#include "metal_case.h"
#include "metal_double.h"

#include <string.h>

// clang-format off
static const char code[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "struct slots {\n    long any;\n};\n"
    "#define ARGS constant slots &s [[buffer(0)]], threadgroup uchar *shared [[threadgroup(0)]], \\\n"
    "    uint3 at [[threadgroup_position_in_grid]], uint3 grid_blocks [[threadgroups_per_grid]], \\\n"
    "    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]\n"
    "kernel void weigh(ARGS) {}\n"
    "kernel void divide(ARGS) {}\n";
// clang-format on

static const aule_module_v1 *make_module(void)
{
    static CaseModule sample;
    static aule_launch_v1 launches[2];
    metal_case_module(&sample, launches, code);
    return &sample.module;
}

/* Of the time that the double is idle nothing is kept: commands are seen done before it ends. */
static void measure_idle(Fixture *f, Case *c, const char *what)
{
    aule_plan *plan;
    aule_error *error = NULL;
    if (aule_plan_new(f->attention, f->device, &c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    metal_double()->idle = 1;
    launch_measure_plan(plan, &c->run, what);
    assert_int_equal(aule_device_synchronize(f->device, NULL, NULL), AULE_OK);
    metal_double()->idle = 0;
    aule_plan_free(plan);
}

static void test_metal(void **state)
{
    Case *c = case_new();
    Fixture f = {0};
    aule_buffer *buffers[TENSORS], *workspace;
    aule_address at[TENSORS];
    (void)state;
    assert_int_equal(aule_module_from(make_module(), NULL, &f.module, NULL), AULE_OK);
    f.attention = aule_module_attention(f.module, 0);
    assert_int_equal(aule_device_open("metal", NULL, &f.device, NULL), AULE_OK);
    assert_int_equal(case_place(c, f.device, TENSORS, buffers, &workspace, NULL), AULE_OK);
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){aule_buffer_data(buffers[t]), 0};
    measure_idle(&f, c, "metal: a memset and two launches");
    c->run.tensors = at;
    measure_idle(&f, c, "metal: the same, new addresses");
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(buffers[t]);
    aule_buffer_free(workspace);
    aule_device_close(f.device);
    aule_module_close(f.module);
    case_free(c);
    assert_string_equal(metal_double()->broken, "");
    assert_int_equal(metal_double()->objects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_metal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
