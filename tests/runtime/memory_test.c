/* Out of memory: the allocator fails at its first request, its second, ... until everything works. Each failure is AULE_ERROR_MEMORY with
 * a message, and leaves nothing behind. */
#include "cuda_case.h"

#include <stdlib.h>
#include <string.h>

typedef struct Meter {
    size_t requests, fail_at;
    size_t alive; /* bytes */
} Meter;

static void *resize(void *user, void *memory, size_t old_bytes, size_t new_bytes)
{
    Meter *meter = user;
    if (new_bytes == 0) {
        meter->alive -= old_bytes;
        free(memory);
        return NULL;
    }
    if (++meter->requests == meter->fail_at) return NULL;
    /* Always elsewhere, so that stale pointers show. */
    void *moved = malloc(new_bytes);
    if (memory) {
        memcpy(moved, memory, old_bytes < new_bytes ? old_bytes : new_bytes);
        free(memory);
    }
    meter->alive += new_bytes - old_bytes;
    return moved;
}

typedef aule_status Story(const aule_allocator *allocator, aule_error **error);

static aule_status list_devices(const aule_allocator *allocator, aule_error **error)
{
    aule_options options = {sizeof options, allocator};
    char *text;
    aule_status status = aule_describe_devices(&options, &text, error);
    if (!status) aule_text_free(text);
    return status;
}

static aule_status describe(const aule_allocator *allocator, aule_error **error)
{
    aule_options options = {sizeof options, allocator};
    aule_module *module;
    char *text;
    aule_status status = aule_module_from(&sample_module, &options, &module, error);
    if (status) return status;
    status = aule_describe_module(module, &text, error);
    if (!status) aule_text_free(text);
    aule_module_close(module);
    return status;
}

static aule_status use_device(aule_module *module, aule_device *device, aule_error **error)
{
    Case *c = case_new(); /* the mock of CUDA's driver has the host's memory */
    for (int t = 0; t < TENSORS; t++) c->tensors[t].device = aule_device_get_info(device)->dl;
    aule_buffer *buffer = NULL;
    aule_event *event = NULL;
    aule_plan *plan = NULL;
    aule_status status =
        aule_plan_new(aule_module_attention(module, 0), device, &c->call, &plan, error);
    if (!status) status = aule_plan_run(plan, &c->run, error);
    if (!status) assert_true(case_is_right(c));
    if (!status) status = aule_buffer_new(device, 1000, &buffer, error);
    if (!status) status = aule_event_record(device, NULL, &event, error);
    aule_event_free(event);
    aule_buffer_free(buffer);
    aule_plan_free(plan);
    case_free(c);
    return status;
}

static aule_status run_on(const char *id, const aule_allocator *allocator, aule_error **error)
{
    aule_options options = {sizeof options, allocator};
    aule_device_options device_options = {
        .struct_size = sizeof device_options, .allocator = allocator, .threads = 2};
    aule_module *module;
    aule_device *device;
    aule_status status = aule_module_from(&sample_module, &options, &module, error);
    if (status) return status;
    status = aule_device_open(id, &device_options, &device, error);
    if (!status) {
        status = use_device(module, device, error);
        aule_device_close(device);
    }
    aule_module_close(module);
    return status;
}

static aule_status run_on_cpu(const aule_allocator *allocator, aule_error **error)
{
    return run_on("cpu", allocator, error);
}

static aule_status run_on_cuda(const aule_allocator *allocator, aule_error **error)
{
    return run_on("cuda", allocator, error);
}

/* Failures of which the message, too, needs memory. */
static aule_status refuse(const aule_allocator *allocator, aule_error **error)
{
    aule_options options = {sizeof options, allocator};
    aule_module *module;
    aule_device *device;
    aule_status status = aule_module_from(&sample_module, &options, &module, error);
    if (status) return status;
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    Case *c = case_new();
    aule_plan *plan;
    c->shapes[T_V][3] = c->shapes[T_O][3] = 2;
    aule_error *inner = NULL;
    status = aule_plan_new(aule_module_attention(module, 0), device, &c->call, &plan, &inner);
    assert_true(status == AULE_ERROR_UNSUPPORTED || status == AULE_ERROR_MEMORY);
    if (status == AULE_ERROR_UNSUPPORTED && aule_error_status(inner) == AULE_ERROR_UNSUPPORTED)
        status = AULE_OK;
    else if (status == AULE_ERROR_UNSUPPORTED)
        status = aule_error_status(inner);
    if (status)
        *error = inner;
    else
        aule_error_free(inner);
    case_free(c);
    aule_device_close(device);
    aule_module_close(module);
    return status;
}

static void fail_at_each(Story *story)
{
    size_t failures = 0;
    for (size_t at = 1;; at++) {
        Meter meter = {.fail_at = at};
        aule_allocator allocator = {sizeof allocator, resize, &meter};
        aule_error *error = NULL;
        aule_status status = story(&allocator, &error);
        if (status) {
            assert_int_equal(status, AULE_ERROR_MEMORY);
            assert_int_equal(aule_error_status(error), AULE_ERROR_MEMORY);
            assert_non_null(strstr(aule_error_message(error), "memory"));
            failures++;
        }
        aule_error_free(error);
        assert_int_equal(meter.alive, 0);
        if (!status && meter.requests < at) break;
    }
    assert_true(failures > 0);
}

static void test_list(void **state)
{
    (void)state;
    fail_at_each(list_devices);
}
static void test_describe(void **state)
{
    (void)state;
    fail_at_each(describe);
}
static void test_run(void **state)
{
    (void)state;
    fail_at_each(run_on_cpu);
}
/* At first there is no code on disk, then there is. */
static void test_run_on_cuda(void **state)
{
    (void)state;
    fail_at_each(run_on_cuda);
    fail_at_each(run_on_cuda);
}
static void test_refuse(void **state)
{
    (void)state;
    fail_at_each(refuse);
}

/* An allocator that cannot be one is told, and not passed over. */
static void test_allocators(void **state)
{
    const aule_allocator wrong[] = {{0, resize, NULL}, {sizeof *wrong, NULL, NULL}};
    const char *const words[] = {"aule_allocator.struct_size is 0", "resize must not be NULL"};
    (void)state;
    for (int n = 0; n < 2; n++) {
        const aule_options options = {sizeof options, &wrong[n]};
        const aule_device_options of_device = {.struct_size = sizeof of_device,
                                               .allocator = &wrong[n]};
        aule_error *error = NULL;
        aule_module *module;
        aule_device *device;
        assert_int_equal(aule_module_from(&sample_module, &options, &module, &error),
                         AULE_ERROR_USAGE);
        assert_non_null(strstr(aule_error_message(error), words[n]));
        aule_error_free(error);
        error = NULL;
        assert_int_equal(aule_device_open("cpu", &of_device, &device, &error), AULE_ERROR_USAGE);
        assert_non_null(strstr(aule_error_message(error), words[n]));
        aule_error_free(error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocators), cmocka_unit_test(test_list),
        cmocka_unit_test(test_describe),   cmocka_unit_test(test_run),
        CUDA_TEST(test_run_on_cuda),       cmocka_unit_test(test_refuse),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
