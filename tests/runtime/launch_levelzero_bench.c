/* What a warm call costs on a double of Level Zero's driver that takes commands and forgets them, as launch_bench.c has it for others. The last
 * line is the double's own part: the same fill and launches, with the barriers and times before them, called directly; it looks up each handle
 * and keeps the rules, in which drivers spend less. */
#include "launch_case.h"
#include "levelzero_case.h"

#include <stdlib.h>

typedef struct Bare {
    ze_command_list_handle_t list;
    ze_module_handle_t module;
    ze_kernel_handle_t kernels[2];
    void *at;
} Bare;

static void launch_bare(void *context)
{
    const Bare *b = context;
    const AuLevelZero *ze = &callers.ze;
    const uint8_t nothing = 0;
    const ze_group_count_t groups = {5, 4, 2};
    for (int n = 0; n < 3; n++) {
        ze_result_t code = ze->zeCommandListAppendBarrier(b->list, NULL, 0, NULL);
        code |= ze->zeCommandListAppendWriteGlobalTimestamp(b->list, b->at, NULL, 0, NULL);
        code |=
            n ? ze->zeCommandListAppendLaunchKernel(b->list, b->kernels[n - 1], &groups, NULL, 0,
                                                    NULL)
              : ze->zeCommandListAppendMemoryFill(b->list, b->at, &nothing, 1, 160, NULL, 0, NULL);
        assert_int_equal(code, 0);
    }
}

static void measure_bare(const Setup *s)
{
    static const uint32_t code[] = {0x07230203, 0x00010000, 0, 1, 0};
    static const char *const names[] = {"weigh", "divide"};
    const AuLevelZero *ze = &callers.ze;
    uint32_t one = 1;
    ze_driver_handle_t driver;
    ze_device_handle_t device;
    const ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                                   .format = ZE_MODULE_FORMAT_IL_SPIRV,
                                   .inputSize = sizeof code,
                                   .pInputModule = (const uint8_t *)code};
    Bare b = {.list = s->list, .at = aule_buffer_data(s->workspace)};
    assert_int_equal(ze->zeDriverGet(&one, &driver), 0);
    assert_int_equal(ze->zeDeviceGet(driver, &one, &device), 0);
    assert_int_equal(ze->zeModuleCreate(s->context, device, &desc, &b.module, NULL), 0);
    for (int n = 0; n < 2; n++) {
        const ze_kernel_desc_t of = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
                                     .pKernelName = names[n]};
        assert_int_equal(ze->zeKernelCreate(b.module, &of, &b.kernels[n]), 0);
        assert_int_equal(ze->zeKernelSetGroupSize(b.kernels[n], 1, 1, 1), 0);
    }
    launch_measure_any(launch_bare, &b, "levelzero: the double's own part");
    for (int n = 0; n < 2; n++) ze->zeKernelDestroy(b.kernels[n]);
    ze->zeModuleDestroy(b.module);
}

static void test_levelzero(void **state)
{
    Setup s;
    aule_error *error = NULL;
    aule_address at[TENSORS];
    (void)state;
    callers.reset();
    open_case(&s, ON_IMMEDIATE);
    if (open_device(&s, &error) || place(&s, &error)) fail_msg("%s", aule_error_message(error));
    s.c->run.queue = NULL; /* the device's own list */
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){s.c->tensors[t].data, 0};
    Fixture f = {
        .module = s.module, .attention = aule_module_attention(s.module, 0), .device = s.device};
    callers.mock->idle = true;
    launch_measure(&f, s.c, "levelzero: a fill and two launches");
    s.c->run.tensors = at;
    launch_measure(&f, s.c, "levelzero: the same, new addresses");
    s.c->run.params = &s.c->params[0].value;
    launch_measure(&f, s.c, "levelzero: the same, new parameters too");
    measure_bare(&s);
    callers.mock->idle = false;
    close_case(&s);
    expect_nothing_left();
}

int main(void)
{
    make_module(NULL);
    if (setenv("AULE_CACHE_MAX", "0", 1)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levelzero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
