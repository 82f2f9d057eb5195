/* HIP, on a mock of AMD's library under its name (hip_mock.c): the sample's call as kernels of `hip`. */
#include "cuda_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_code[] = "cubin sm_90\n.entry weigh()\n.entry divide()\n";
static const char other_code[] = "cubin sm_80\n.entry weigh()\n.entry divide()\n";

/* The sample with its kernels for sm_90 as code for [arch], which may have more words of features behind it. */
static void open_code(Setup *s, const char *id, const char *arch, const char *code, size_t bytes)
{
    static char machine[32];
    static aule_variant_v1 variant;
    static aule_attention_v1 attention;
    static aule_module_v1 module;
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options};
    module = sample_module;
    attention = module.attentions[0];
    for (uint32_t n = 0; n < attention.variant_count; n++)
        if (!strcmp(attention.variants[n].arch, "sm_90")) variant = attention.variants[n];
    variant.target = "hip";
    snprintf(machine, sizeof machine, "%.*s", (int)strcspn(arch, " "), arch);
    variant.arch = machine;
    variant.features = arch;
    variant.code_format = AULE_CODE_HSACO;
    variant.code = code;
    variant.code_bytes = bytes;
    attention.variants = &variant;
    attention.variant_count = 1;
    module.attentions = &attention;
    memset(s, 0, sizeof *s);
    if (aule_module_from(&module, NULL, &s->module, &error))
        fail_msg("%s", aule_error_message(error));
    s->attention = aule_module_attention(s->module, 0);
    if (aule_device_open(id, &options, &s->device, &error))
        fail_msg("%s", aule_error_message(error));
    s->c = case_new();
    cuda_place(s);
}

static void open_hip(Setup *s, const char *id, const char *arch, const char *code)
{
    open_code(s, id, arch, code, strlen(code) + 1);
}

static void test_devices(void **state)
{
    (void)state;
    aule_device *device;
    assert_int_equal(aule_device_open("hip", NULL, &device, NULL), AULE_OK);
    const aule_device_info *info = aule_device_get_info(device);
    assert_string_equal(info->id, "hip:0");
    assert_string_equal(info->driver, "HIP 6.3, gfx942:sramecc+:xnack-");
    assert_string_equal(info->features, "gfx942 gfx9-4-generic sramecc+ xnack-");
    assert_int_equal(info->units, 304);
    assert_true(info->kind == AULE_DEVICE_GPU && info->dl.device_type == kDLROCM);
    aule_device_close(device);
    assert_int_equal(aule_device_open("hip:1", NULL, &device, NULL), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->features, "gfx1100 gfx11-generic");
    aule_device_close(device);
}

/* As the driver has it, as AMD's tools write it, in other hyphens; a machine without one has no such name. */
static void test_uuid(void **state)
{
    static const char *const names[] = {"hip:30303030-3030-3030-3030-303061626330",
                                        "hip:GPU-000000000000abc0",
                                        "hip:30303030303030303030303061626330"};
    (void)state;
    aule_device *device;
    aule_error *error = NULL;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        assert_int_equal(aule_device_open(names[n], NULL, &device, NULL), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->id, "hip:0");
        assert_string_equal(aule_device_get_info(device)->uuid, names[0] + 4);
        aule_device_close(device);
    }
    assert_int_equal(aule_device_open("hip:1", NULL, &device, NULL), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->uuid, "");
    aule_device_close(device);
    expect_error(aule_device_open("hip:GPU-000000000000abc1", NULL, &device, &error), &error,
                 AULE_ERROR_DEVICE,
                 "there is no hip device with the UUID 30303030303030303030303061626331");
    expect_error(aule_device_open("hip:GPU-000000000000abcg", NULL, &device, &error), &error,
                 AULE_ERROR_DEVICE, "is not a device");
}

/* Addresses of the host, and of another device, do not come to a kernel. */
static void test_foreign_memory(void **state)
{
    static float on_host[4096];
    (void)state;
    Setup s;
    uint64_t on_other;
    MockContext other;
    open_hip(&s, "hip:0", "gfx942", first_code);
    assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), 0);
    assert_int_equal(cuCtxSetCurrent(other), 0);
    assert_int_equal(cuMemAlloc_v2(&on_other, sizeof on_host), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    DLTensor *q = &s.c->tensors[0];
    void *before = q->data;
    q->data = on_host;
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "its data is no memory of hip:0, nor of the host's that HIP knows");
    q->data = (void *)(uintptr_t)on_other;
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "its data is memory of hip:1, expected hip:0");
    q->data = before;
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    assert_int_equal(cuCtxSetCurrent(other), 0);
    assert_int_equal(cuMemFree_v2(on_other), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), 0);
    cuda_close(&s);
}

static void test_no_device(void **state)
{
    (void)state;
    aule_device *device;
    aule_error *error = NULL;
    cuda_mock.devices = 0;
    expect_error(aule_device_open("hip", NULL, &device, &error), &error, AULE_ERROR_DEVICE,
                 "libamdhip64.so is there, but hipInit: hipErrorNoDevice (in the mock's words)");
}

static void test_result(void **state)
{
    (void)state;
    Setup s;
    aule_event *first, *last;
    uint64_t nanoseconds;
    open_hip(&s, "hip:0", "gfx942", first_code);
    assert_int_equal(aule_event_record(s.device, NULL, &first, NULL), AULE_OK);
    cuda_run(&s);
    assert_int_equal(aule_event_record(s.device, NULL, &last, NULL), AULE_OK);
    assert_int_equal(aule_event_elapsed(first, last, &nanoseconds, NULL), AULE_OK);
    aule_event_free(first);
    aule_event_free(last);
    assert_int_equal(aule_device_synchronize(s.device, NULL, NULL), AULE_OK);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    const MockLaunch *launch = &cuda_mock.launches[0];
    assert_string_equal(launch->kernel, "weigh");
    assert_true(launch->grid[0] == 5 && launch->grid[1] == 4 && launch->grid[2] == 2);
    assert_int_equal(cuda_mock.memsets, 1);
    assert_int_equal(cuda_mock.links, 0);
    cuda_close(&s);
}

/* Machine code runs on its own architecture alone. */
static void test_other_architecture(void **state)
{
    (void)state;
    Setup s;
    open_hip(&s, "hip:1", "gfx942", first_code);
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "hip gfx942 f32 D=8 E=4 (needs gfx942, the device is gfx1100)");
    cuda_close(&s);
}

/* Code that is made for xnack or sramecc on, or off, runs where the device says the same. */
static void test_switches(void **state)
{
    static const struct {
        const char *id, *needs, *said; /* NULL: it runs */
    } rows[] = {
        {"hip:0", "gfx942 xnack-", NULL},
        {"hip:0", "gfx942 sramecc+ xnack-", NULL},
        {"hip:0", "gfx942 xnack+",
         "(needs xnack+, the device has xnack-: HSA_XNACK=1 in the environment changes it)"},
        {"hip:0", "gfx942 sramecc-", "(needs sramecc-, the device has sramecc+)"},
        {"hip:1", "gfx1100 xnack+", "(needs xnack+, the device has no xnack)"}};
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        Setup s;
        open_hip(&s, rows[n].id, rows[n].needs, first_code);
        if (rows[n].said) {
            expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED, rows[n].said);
        } else {
            cuda_run(&s);
            cuda_fetch(&s);
            assert_true(case_is_right(s.c));
        }
        cuda_close(&s);
    }
}

/* The driver is not told where a code object ends, so one whose ELF speaks of more bytes than there are does not come to it. */
static void test_cut_off(void **state)
{
    enum { HEAD = 64, SEGMENT = 56, ALL = HEAD + SEGMENT + 100 + 64 };
    static const struct {
        size_t bytes, at;
        unsigned char value; /* 0: the ELF is as it was */
        const char *said;
    } rows[] = {{ALL, 0, 0, "hipModuleLoadDataEx: "}, /* the driver's turn */
                {ALL - 1, 0, 0, "it is cut off: its ELF reaches byte 284 of 283"},
                {HEAD + 10, 0, 0, "it is cut off: its ELF reaches byte 284 of 74"},
                {HEAD - 1, 0, 0, "it is cut off: 63 bytes are less than an ELF's head"},
                {ALL, 18, 62, "its ELF is of another machine (62), not of an AMD GPU"},
                {ALL, 47, 0xff, "it is cut off: its ELF reaches byte"},
                {ALL, 56, 9, "it is cut off: its ELF reaches byte 568 of 284"},
                {ALL, HEAD + 39, 0xff, "it is cut off: its ELF reaches byte"},
                {ALL, HEAD + 32, 200, "it is cut off: its ELF reaches byte 320 of 284"}};
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        Setup s;
        char *code = calloc(1, rows[n].bytes + 1), elf[ALL] = "\177ELF\2\1\1";
        elf[18] = (char)224, elf[32] = HEAD, elf[40] = (char)(ALL - 64);
        elf[54] = SEGMENT, elf[56] = 1, elf[58] = 64, elf[60] = 1;
        elf[HEAD + 8] = HEAD + SEGMENT, elf[HEAD + 32] = 100;
        if (rows[n].value) elf[rows[n].at] = (char)rows[n].value;
        memcpy(code, elf, rows[n].bytes);
        open_code(&s, "hip:0", "gfx942", code, rows[n].bytes);
        expect_plan_error(s.attention, s.device, s.c, n ? AULE_ERROR_ARTIFACT : AULE_ERROR_BUILD,
                          rows[n].said);
        cuda_close(&s);
        free(code);
    }
}

/* Code of a generic ISA runs on every machine that it covers. */
static void test_generic_architecture(void **state)
{
    (void)state;
    Setup s;
    open_hip(&s, "hip:0", "gfx9-4-generic", first_code);
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    cuda_close(&s);
    open_hip(&s, "hip:1", "gfx9-4-generic", first_code);
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "(needs gfx9-4-generic, the device is gfx1100)");
    cuda_close(&s);
}

static void test_code_that_is_refused(void **state)
{
    (void)state;
    Setup s;
    open_hip(&s, "hip:0", "gfx942", other_code);
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_BUILD,
                      "hip:0: hipModuleLoadDataEx: hipErrorNoBinaryForGpu (in the mock's words)");
    cuda_close(&s);
}

/* Each call fails in turn: the message names it as HIP does, and what is left is usable. */
static void test_failures(void **state)
{
    static const struct {
        const char *call, *said;
        aule_status status;
        bool plans; /* or runs */
    } rows[] = {
        {"hipPointerGetAttributes", "hip:0: hipPointerGetAttributes: ", AULE_ERROR_DRIVER, true},
        {"cuModuleLoadDataEx", "hip:0: hipModuleLoadDataEx: ", AULE_ERROR_DRIVER, true},
        {"cuModuleGetFunction", "hip:0: hipModuleGetFunction: ", AULE_ERROR_ARTIFACT, true},
        {"cuFuncGetAttribute", "hip:0: hipFuncGetAttribute: ", AULE_ERROR_DRIVER, true},
        {"cuLaunchKernel", "hip:0: hipModuleLaunchKernel: ", AULE_ERROR_DRIVER, false},
        {"cuMemsetD8Async", "hip:0: hipMemsetD8Async: ", AULE_ERROR_DRIVER, false}};
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        Setup s;
        aule_error *error = NULL;
        open_hip(&s, "hip:0", "gfx942", first_code);
        aule_plan *plan = rows[n].plans ? NULL : cuda_plan(&s);
        strcpy(cuda_mock.fail, rows[n].call);
        cuda_mock.code = 999; /* of an address that it does not know the driver says 1 */
        cuda_mock.after = 0;
        aule_status status = rows[n].plans
                                 ? aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error)
                                 : aule_plan_run(plan, &s.c->run, &error);
        expect_error(status, &error, rows[n].status, rows[n].said);
        cuda_mock.fail[0] = 0;
        cuda_run(&s);
        cuda_fetch(&s);
        assert_true(case_is_right(s.c));
        aule_plan_free(plan);
        cuda_close(&s);
    }
}

/* 1 is the default stream, which HIP's functions call NULL; NULL is the device's own, and others are the caller's. */
static void test_streams(void **state)
{
    (void)state;
    Setup s;
    MockContext context;
    void *mine = NULL;
    open_hip(&s, "hip:0", "gfx942", first_code);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuStreamCreate(&mine, 0), 0);
    void *const queues[] = {NULL, (void *)(uintptr_t)1, mine};
    for (size_t n = 0; n < 3; n++) {
        const int before = atomic_load(&cuda_mock.launch_count);
        s.c->run.queue = queues[n];
        cuda_run(&s);
        const int after = atomic_load(&cuda_mock.launch_count);
        assert_true(after > before && after <= MOCK_LAUNCHES);
        for (int i = before; i < after; i++) {
            const void *stream = cuda_mock.launches[i].stream;
            assert_true(n == 0 ? stream && stream != mine : stream == (n == 1 ? NULL : mine));
        }
        assert_int_equal(aule_device_synchronize(s.device, queues[n], NULL), AULE_OK);
    }
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    assert_int_equal(cuStreamDestroy_v2(mine), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), 0);
    cuda_close(&s);
}

/* What a launch did is told by the wait for it, with the kernels that may have done it. */
static void test_late_loss(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    open_hip(&s, "hip:0", "gfx942", first_code);
    cuda_run(&s);
    strcpy(cuda_mock.fail, "cuStreamSynchronize");
    cuda_mock.code = 700;
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER,
                 "; launched last and not seen done: weigh, divide");
    cuda_close(&s);
    cuda_mock_reset();
}

static void test_loss(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    open_hip(&s, "hip:0", "gfx942", first_code);
    strcpy(cuda_mock.fail, "cuLaunchKernel");
    cuda_mock.code = 719;
    cuda_mock.after = 1; /* the second of the run */
    aule_status status = aule_attention_run(s.attention, s.device, &s.c->call, &s.c->run, &error);
    expect_error(status, &error, AULE_ERROR_DRIVER,
                 "hip:0: hipModuleLaunchKernel: hipErrorLaunchFailure");
    cuda_mock.fail[0] = 0;
    status = aule_attention_run(s.attention, s.device, &s.c->call, &s.c->run, &error);
    expect_error(status, &error, AULE_ERROR_DRIVER,
                 "a kernel that ran before has failed, and the device's context is lost with it: "
                 "nothing runs on this device any more in this process; launched last and not seen "
                 "done: weigh");
    cuda_close(&s);
    cuda_mock_reset(); /* what a lost context held went with it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_devices),
        CUDA_TEST(test_uuid),
        CUDA_TEST(test_foreign_memory),
        CUDA_TEST(test_no_device),
        CUDA_TEST(test_result),
        CUDA_TEST(test_other_architecture),
        CUDA_TEST(test_generic_architecture),
        CUDA_TEST(test_switches),
        CUDA_TEST(test_cut_off),
        CUDA_TEST(test_code_that_is_refused),
        CUDA_TEST(test_failures),
        CUDA_TEST(test_streams),
        CUDA_TEST(test_loss),
        CUDA_TEST(test_late_loss),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
