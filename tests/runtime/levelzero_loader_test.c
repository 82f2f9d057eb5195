/* The Level Zero backend behind the real loader, with its layer that looks at parameters; the driver is the mock (levelzero/mock.h).
 * levelzero-loader.sh sets what the loader wants to be told. */
#include "levelzero_case.h"

#include <stdlib.h>

static void test_results(void **state)
{
    (void)state;
    callers.reset();
    for (int kind = 0; kind < ON_KINDS; kind++) expect_right((On)kind);
    assert_true(callers.mock->launches == 2 * ON_KINDS);
}

/* Is the layer there? What it refuses never comes to the driver. */
static void test_the_layer_looks(void **state)
{
    (void)state;
    const AuLevelZero *ze = &callers.ze;
    const ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_command_queue_desc_t queue = {
        .stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = 1, .mode = 77};
    uint32_t one = 1;
    ze_driver_handle_t driver;
    ze_device_handle_t device;
    ze_context_handle_t context;
    ze_command_list_handle_t list;
    callers.reset();
    assert_int_equal(ze->zeInit(0) || ze->zeDriverGet(&one, &driver) ||
                         ze->zeDeviceGet(driver, &one, &device) ||
                         ze->zeContextCreate(driver, &desc, &context),
                     0);
    const int calls = callers.mock->calls;
    assert_int_equal(ze->zeContextCreate(NULL, &desc, &context),
                     ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    assert_int_equal(ze->zeCommandListCreateImmediate(context, device, &queue, &list),
                     ZE_RESULT_ERROR_INVALID_ENUMERATION);
    assert_int_equal(callers.mock->calls, calls);
    assert_int_equal(ze->zeContextDestroy(context), 0);
    assert_int_equal(callers.mock->calls, calls + 1);
    expect_nothing_left();
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    make_module(argv[1]);
    setenv("AULE_CACHE_MAX", "0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_the_layer_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
