/* OpenCL, on whatever device is installed (PoCL, say): results, the caller's queue and context, and what must be refused. Without a device
 * the program says so and counts as skipped. */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/backends/opencl_api.h"

typedef struct Setup {
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
    Case *c;
    aule_buffer *buffers[TENSORS], *workspace;
} Setup;

/* The case's tensors in buffers, each 32 bytes into its own. */
static void place(Setup *s)
{
    aule_error *error = NULL;
    DLDevice dl = aule_device_get_info(s->device)->dl;
    for (int t = 0; t < TENSORS; t++) {
        assert_int_equal(aule_buffer_new(s->device, s->c->bytes[t] + 32, &s->buffers[t], &error),
                         AULE_OK);
        assert_int_equal(
            aule_buffer_upload(s->buffers[t], 32, s->c->storage[t], s->c->bytes[t], &error),
            AULE_OK);
        s->c->tensors[t].data = aule_buffer_data(s->buffers[t]);
        s->c->tensors[t].byte_offset = 32;
        s->c->tensors[t].device = dl;
    }
    assert_int_equal(aule_buffer_new(s->device, 224, &s->workspace, &error), AULE_OK);
    s->c->run.workspace = aule_buffer_data(s->workspace);
    s->c->run.workspace_bytes = 224;
}

static void fetch(Setup *s)
{
    for (int t = T_O; t < TENSORS; t++)
        assert_int_equal(
            aule_buffer_download(s->buffers[t], 32, s->c->storage[t], s->c->bytes[t], NULL),
            AULE_OK);
}

static void open_all(Setup *s, void *context)
{
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .context = context};
    memset(s, 0, sizeof *s);
    assert_int_equal(aule_module_from(&sample_module, NULL, &s->module, &error), AULE_OK);
    s->attention = aule_module_attention(s->module, 0);
    if (aule_device_open("opencl", &options, &s->device, &error))
        fail_msg("%s", aule_error_message(error));
    s->c = case_new();
    place(s);
}

static void close_all(Setup *s)
{
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(s->buffers[t]);
    aule_buffer_free(s->workspace);
    aule_device_close(s->device);
    aule_module_close(s->module);
    case_free(s->c);
}

static void test_result(void **state)
{
    (void)state;
    Setup s;
    open_all(&s, NULL);
    aule_error *error = NULL;
    aule_event *first, *last;
    uint64_t nanoseconds = 0;
    aule_plan *plan;
    if (aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(aule_event_record(s.device, NULL, &first, &error), AULE_OK);
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(aule_event_record(s.device, NULL, &last, &error), AULE_OK);
    assert_int_equal(aule_event_elapsed(first, last, &nanoseconds, &error), AULE_OK);
    assert_true(nanoseconds > 0);
    expect_error(aule_event_elapsed(last, first, &nanoseconds, &error), &error, AULE_ERROR_USAGE,
                 "aule_event_elapsed: the first event is ");
    fetch(&s);
    assert_true(case_is_right(s.c));
    aule_event_free(first);
    aule_event_free(last);
    aule_plan_free(plan);
    close_all(&s);
}

/* Arguments that change from run to run, and back. */
static void test_runs_again(void **state)
{
    (void)state;
    Setup s;
    open_all(&s, NULL);
    aule_plan *plan;
    aule_error *error = NULL;
    if (aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    aule_value windows[] = {{.i = 4}, {.i = 1000}, {.i = 4}};
    for (int i = 0; i < 3; i++) {
        s.c->run.params = &windows[i];
        if (aule_plan_run(plan, &s.c->run, &error)) fail_msg("%s", aule_error_message(error));
        fetch(&s);
        assert_int_equal(case_is_right(s.c), i != 1);
    }
    /* q elsewhere: 16 bytes further on. */
    aule_address at[TENSORS];
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){s.c->tensors[t].data, 32};
    at[T_Q].byte_offset = 16;
    s.c->run.tensors = at;
    case_forget(s.c);
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK);
    fetch(&s);
    assert_false(case_is_right(s.c));
    assert_int_equal(
        aule_buffer_upload(s.buffers[T_Q], 16, s.c->storage[T_Q], s.c->bytes[T_Q], &error),
        AULE_OK);
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK);
    fetch(&s);
    assert_true(case_is_right(s.c));
    aule_plan_free(plan);
    close_all(&s);
}

/* A module for Vulkan in an artifact that is damaged, or made by hand. */
static void test_a_module_of_another_flavour(void **state)
{
    (void)state;
    static const uint32_t shader[] = {0x07230203, 0x00010500, 0, 1, 0, 3 << 16 | 14, 5348, 3};
    CaseModule m;
    OnDevice s;
    aule_error *error = NULL;
    case_module(&m, &(aule_variant_v1){.target = "opencl",
                                       .arch = "spirv",
                                       .features = "",
                                       .code_format = AULE_CODE_SPIRV,
                                       .code = shader,
                                       .code_bytes = sizeof shader});
    on_device_begin(&s, &m.module, TENSORS);
    expect_error(
        on_device_run(&s, "opencl", &error), &error, AULE_ERROR_ARTIFACT,
        "is a module of SPIR-V of another flavour, expected one with addresses Physical64");
    on_device_end(&s);
}

static void test_final_left_out(void **state)
{
    (void)state;
    Setup s;
    open_all(&s, NULL);
    s.c->call.tensor_count = T_LSE;
    aule_error *error = NULL;
    if (aule_attention_run(s.attention, s.device, &s.c->call, &s.c->run, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    fetch(&s);
    assert_true(case_is_right(s.c));
    close_all(&s);
}

/* The workspace begins with nan, and is zeroed by the runtime. */
static void test_gradients(void **state)
{
    (void)state;
    Setup s;
    open_all(&s, NULL);
    aule_error *error = NULL;
    for (int i = 0; i < 2; i++) {
        if (i > 0) case_make_backward(s.c, true);
        assert_int_equal(aule_buffer_upload(s.workspace, 0, s.c->workspace, 224, &error), AULE_OK);
        if (aule_attention_run(s.attention, s.device, &s.c->call, &s.c->run, &error))
            fail_msg("%s", aule_error_message(error));
    }
    fetch(&s);
    assert_true(case_has_gradients(s.c));
    close_all(&s);
}

/* A context and an out-of-order queue of the caller's. */
static void test_callers_queue(void **state)
{
    (void)state;
    AuOpenCL cl;
    AuText why = {.memory = rt_memory(NULL)};
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    assert_true(rt_opencl_api(&cl, &why));
    assert_int_equal(cl.clGetPlatformIDs(1, &platform, NULL), 0);
    assert_int_equal(cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), 0);
    cl_context context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    assert_int_equal(code, 0);
    cl_command_queue queue = cl.clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER, &code);
    if (code != 0) queue = cl.clCreateCommandQueue(context, device, 0, &code);
    assert_int_equal(code, 0);
    Setup s;
    open_all(&s, context);
    s.c->run.queue = queue;
    for (int i = 0; i < 5; i++) {
        aule_error *error = NULL;
        if (aule_attention_run(s.attention, s.device, &s.c->call, &s.c->run, &error))
            fail_msg("%s", aule_error_message(error));
    }
    assert_int_equal(aule_device_synchronize(s.device, queue, NULL), AULE_OK);
    fetch(&s);
    assert_true(case_is_right(s.c));
    close_all(&s);
    cl.clReleaseCommandQueue(queue);
    cl.clReleaseContext(context);
}

/* More than the device has: the message has both numbers, and the device goes on. */
static void test_no_memory(void **state)
{
    (void)state;
    Setup s;
    char said[64];
    aule_buffer *buffer;
    aule_error *error = NULL;
    open_all(&s, NULL);
    snprintf(said, sizeof said, "%llu bytes (the device has %llu, ",
             (unsigned long long)UINT64_MAX / 4,
             (unsigned long long)aule_device_get_info(s.device)->memory_bytes);
    expect_error(aule_buffer_new(s.device, UINT64_MAX / 4, &buffer, &error), &error,
                 AULE_ERROR_MEMORY, said);
    assert_int_equal(aule_buffer_new(s.device, 32, &buffer, &error), AULE_OK);
    aule_buffer_free(buffer);
    close_all(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    Setup s;
    open_all(&s, NULL);
    s.c->call.arch = "broken";
    aule_plan *plan;
    aule_error *error = NULL;
    aule_status status = aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error);
    expect_error(status, &error, AULE_ERROR_BUILD,
                 "clBuildProgram of 'rows broken': CL_BUILD_PROGRAM_FAILURE; the driver's log: ");
    s.c->call.arch = NULL;
    s.c->tensors[T_K].byte_offset = 36;
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "k: its buffer has 928 bytes, its shape and strides reach 932");
    s.c->tensors[T_K].byte_offset = 33;
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "k: its address is 1 past a multiple of 4");
    s.c->tensors[T_K].byte_offset = 32;
    s.c->tensors[T_K].device = (DLDevice){kDLCPU, 0};
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_TENSOR,
                      "k: it is on cpu:0 (DLPack type 1), expected opencl:0 (DLPack type 4)");
    close_all(&s);
}

int main(void)
{
    aule_device *device;
    aule_error *error = NULL;
    if (aule_device_open("opencl", NULL, &device, &error)) {
        printf("skipped: %s\n", aule_error_message(error));
        aule_error_free(error);
        return 77;
    }
    aule_device_close(device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_final_left_out),
        cmocka_unit_test(test_callers_queue),
        cmocka_unit_test(test_runs_again),
        cmocka_unit_test(test_a_module_of_another_flavour),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
