/* What is said of OpenCL devices that are not here: words of subgroups, shared memory and matrix units, by devices that answer as drivers do; and
 * which code of an artifact comes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../runtime/backends/opencl.h"

/* A device is its answers. */
struct _cl_device_id {
    uint64_t shared;
    size_t sizes[8], count;
    cl_int code; /* of the question for sizes */
};

static cl_int answer(cl_device_id device, cl_uint what, size_t bytes, void *value, size_t *needed)
{
    const bool sizes = what == CL_DEVICE_SUB_GROUP_SIZES_INTEL;
    const void *from = sizes ? (const void *)device->sizes : (const void *)&device->shared;
    const size_t length = sizes ? device->count * sizeof(size_t) : sizeof device->shared;
    if (sizes && device->code) return device->code;
    if (!sizes && what != CL_DEVICE_LOCAL_MEM_SIZE) return -30;
    if (value && bytes < length) return -30;
    if (value) memcpy(value, from, length);
    if (needed) *needed = length;
    return 0;
}

#define SUBGROUPS "cl_intel_required_subgroup_size cl_intel_spirv_subgroups"
#define UNITS     " cl_intel_subgroup_matrix_multiply_accumulate"

static void expect(struct _cl_device_id device, const char *extensions, const char *words)
{
    const AuOpenCL cl = {.clGetDeviceInfo = answer};
    AuText text = {.memory = rt_memory(NULL)};
    rt_opencl_words(&cl, &device, extensions, &text);
    assert_false(text.failed);
    assert_string_equal(rt_text_str(&text), words);
    rt_text_free(&text);
}

static void test_words(void **state)
{
    (void)state;
    const struct _cl_device_id small = {.shared = 32767, .sizes = {8, 16, 32}, .count = 3},
                               arc = {.shared = 65536, .sizes = {8, 16, 32}, .count = 3},
                               xe2 = {.shared = 131072, .sizes = {16, 32}, .count = 2},
                               none = {.shared = 65536},
                               fails = {.shared = 16384, .sizes = {16}, .count = 1, .code = -30};
    expect(small, "cl_khr_fp64", " shared16k");
    expect(small, SUBGROUPS, " shared16k subgroup8 subgroup16 subgroup32");
    expect(small, "cl_intel_required_subgroup_size", " shared16k");
    expect(small, "cl_intel_spirv_subgroups", " shared16k");
    /* units of 8 lanes are not ours */
    expect(arc, SUBGROUPS UNITS,
           " shared16k shared32k shared48k shared64k subgroup8 subgroup16 subgroup32");
    expect(xe2, SUBGROUPS UNITS,
           " shared16k shared32k shared48k shared64k shared96k shared128k subgroup16 subgroup32 "
           "dpas16 registers256");
    expect(xe2, SUBGROUPS UNITS " cl_intel_subgroup_2d_block_io",
           " shared16k shared32k shared48k shared64k shared96k shared128k subgroup16 subgroup32 "
           "dpas16 registers256 blocks2d");
    expect(xe2, SUBGROUPS " cl_intel_subgroup_2d_block_io",
           " shared16k shared32k shared48k shared64k shared96k shared128k subgroup16 subgroup32");
    expect(xe2, SUBGROUPS,
           " shared16k shared32k shared48k shared64k shared96k shared128k subgroup16 subgroup32");
    expect(none, SUBGROUPS UNITS, " shared16k shared32k shared48k shared64k");
    expect(fails, SUBGROUPS UNITS, " shared16k");
}

static void test_order(void **state)
{
    (void)state;
    static const char *const order[] = {"spirv-dpas", "spirv", "generic", "spirv-lanes16",
                                        "spirv-dpas-bodies"};
    const aule_device_info info = {.id = "opencl:0"};
    for (size_t n = 1; n < sizeof order / sizeof *order; n++)
        assert_true(rt_opencl_rank_arch(&info, order[n - 1]) <
                    rt_opencl_rank_arch(&info, order[n]));
    assert_int_equal(setenv("AULE_OPENCL_CODE", "source", 1), 0);
    assert_int_equal(rt_opencl_rank_arch(&info, "spirv-dpas"), -1);
    assert_int_equal(rt_opencl_rank_arch(&info, "spirv-lanes8"), -1);
    assert_true(rt_opencl_rank_arch(&info, "generic") >= 0);
    assert_int_equal(setenv("AULE_OPENCL_CODE", "spirv", 1), 0);
    assert_int_equal(rt_opencl_rank_arch(&info, "generic"), -1);
    assert_true(rt_opencl_rank_arch(&info, "spirv-lanes8") >= 0);
    assert_int_equal(unsetenv("AULE_OPENCL_CODE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
