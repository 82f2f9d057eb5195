/* Memory of the Vulkan backend on the mock: buffers share the few allocations that drivers allow, and lie beside each other in them. */
#include "vulkan_case.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/backends/vulkan_api.h"

enum { MB = 1 << 20 };

static aule_device *open_device(void)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    if (aule_device_open("vulkan:0", NULL, &device, &error))
        fail_msg("%s", aule_error_message(error));
    return device;
}

static aule_buffer *new_buffer(aule_device *device, uint64_t bytes)
{
    aule_buffer *buffer = NULL;
    aule_error *error = NULL;
    if (aule_buffer_new(device, bytes, &buffer, &error)) fail_msg("%s", aule_error_message(error));
    return buffer;
}

static void put(aule_buffer *buffer, uint32_t word)
{
    const uint64_t last = aule_buffer_bytes(buffer) - sizeof word;
    assert_int_equal(aule_buffer_upload(buffer, 0, &word, sizeof word, NULL), AULE_OK);
    assert_int_equal(aule_buffer_upload(buffer, last, &word, sizeof word, NULL), AULE_OK);
}

static void expect(const aule_buffer *buffer, uint32_t word)
{
    uint32_t first = 0, last = 0;
    const uint64_t at = aule_buffer_bytes(buffer) - sizeof word;
    assert_int_equal(aule_buffer_download(buffer, 0, &first, sizeof first, NULL), AULE_OK);
    assert_int_equal(aule_buffer_download(buffer, at, &last, sizeof last, NULL), AULE_OK);
    assert_int_equal(first, word);
    assert_int_equal(last, word);
}

static void test_many_buffers(void **state)
{
    enum { COUNT = 5000 };
    (void)state;
    for (int hidden = 0; hidden < 2; hidden++) {
        aule_buffer *buffers[COUNT];
        vulkan_mock_reset();
        vulkan_mock.hidden = hidden;
        vulkan_mock.most_memories = 12;
        aule_device *device = open_device();
        for (uint32_t n = 0; n < COUNT; n++) {
            buffers[n] = new_buffer(device, 4 + n % 7 * 500);
            assert_int_equal((uintptr_t)aule_buffer_data(buffers[n]) % 64, 0);
            put(buffers[n], n);
        }
        for (uint32_t n = 0; n < COUNT; n += 3) aule_buffer_free(buffers[n]);
        for (uint32_t n = 0; n < COUNT; n += 3) { /* into the holes */
            buffers[n] = new_buffer(device, 4 + n % 5 * 700);
            put(buffers[n], n);
        }
        for (uint32_t n = 0; n < COUNT; n++) expect(buffers[n], n);
        for (uint32_t n = 0; n < COUNT; n++) aule_buffer_free(buffers[n]);
        assert_true(vulkan_mock.memories <= 3); /* one that is empty, the blocks', the stage's */
        aule_device_close(device);
        expect_nothing_left();
    }
}

/* A buffer that is freed is the one that begins there, and not the one that ends there, in another chunk. Each chunk of the mock ends where
 * the one before begins: 1 MB, then 2. */
static void test_neighbours(void **state)
{
    (void)state;
    vulkan_mock_reset();
    vulkan_mock.downward = true;
    aule_device *device = open_device();
    aule_buffer *high = new_buffer(device, MB), *first = new_buffer(device, MB);
    aule_buffer *low = new_buffer(device, MB);
    assert_ptr_equal((char *)aule_buffer_data(first) + MB, aule_buffer_data(low));
    assert_ptr_equal((char *)aule_buffer_data(low) + MB, aule_buffer_data(high));
    put(first, 1), put(low, 2);
    aule_buffer_free(high);
    expect(low, 2);
    aule_buffer_free(low);
    expect(first, 1);
    aule_buffer_free(first);
    aule_device_close(device);
    expect_nothing_left();
}

/* Where there is no memory for a chunk there may be for what was asked for; and what is empty is given back. */
static void test_short_memory(void **state)
{
    (void)state;
    vulkan_mock_reset();
    vulkan_mock.memory_bytes = 3 * MB / 2;
    aule_device *device = open_device();
    aule_buffer *all[6];
    for (uint32_t n = 0; n < 6; n++) all[n] = new_buffer(device, MB); /* chunks would be 2, 4 .. */
    const int memories = vulkan_mock.memories;
    for (uint32_t n = 0; n < 6; n++) aule_buffer_free(all[n]);
    assert_int_equal(vulkan_mock.memories, memories - 5);
    aule_device_close(device);
    expect_nothing_left();
}

/* Large ones have memory of their own, which goes with them. */
static void test_large_buffers(void **state)
{
    (void)state;
    vulkan_mock_reset();
    aule_device *device = open_device();
    const int memories = vulkan_mock.memories;
    aule_buffer *large = new_buffer(device, 40 * MB), *small = new_buffer(device, 4);
    assert_int_equal(vulkan_mock.memories, memories + 2);
    put(large, 7);
    aule_buffer_free(large);
    assert_int_equal(vulkan_mock.memories, memories + 1);
    aule_buffer *none = NULL;
    aule_error *error = NULL;
    expect_error(aule_buffer_new(device, UINT64_MAX - 5, &none, &error), &error, AULE_ERROR_MEMORY,
                 "18446744073709551610 bytes (the device has ");
    aule_buffer_free(small);
    aule_device_close(device);
    expect_nothing_left();
}

/* On a device of our own there is no memory of others'; tensors reach no further than their buffers. */
static void test_foreign_addresses(void **state)
{
    (void)state;
    vulkan_mock_reset();
    OnDevice s;
    aule_error *error = NULL;
    float own[4096] = {0};
    on_device_begin(&s, vulkan_case_module(), TENSORS);
    if (on_device_run(&s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
    void *const there = s.c->tensors[T_K].data;
    s.c->tensors[T_K].data = own;
    expect_plan_error(aule_module_attention(s.module, 0), s.device, s.c, AULE_ERROR_TENSOR,
                      "vulkan:0: k: 896 bytes at 0x");
    s.c->tensors[T_K].data = (char *)there + 1024;
    expect_plan_error(aule_module_attention(s.module, 0), s.device, s.c, AULE_ERROR_TENSOR,
                      "do not lie in a buffer of libaule");
    on_device_end(&s);
    expect_nothing_left();
}

/* Descriptors that the process has. */
static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_shared_memory(void **state)
{
    (void)state;
    const int files = open_files();
    vulkan_mock_reset();
    vulkan_mock.external = true;
    aule_device *device = open_device();
    aule_buffer *exported = NULL, *imported = NULL;
    aule_error *error = NULL;
    int fd = -1;
    uint64_t bytes = 0;
    const int memories = vulkan_mock.memories;
    if (aule_buffer_export(device, 1000, &exported, &fd, &bytes, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(vulkan_mock.memories, memories + 1); /* of its own */
    assert_int_equal(bytes, 1024);
    assert_int_equal(aule_buffer_bytes(exported), 1000);
    put(exported, 3);
    if (aule_buffer_import(device, fd, bytes, &imported, &error))
        fail_msg("%s", aule_error_message(error));
    assert_int_equal(aule_buffer_bytes(imported), 1024);
    uint32_t there = 0;
    assert_int_equal(aule_buffer_download(imported, 996, &there, sizeof there, NULL), AULE_OK);
    assert_int_equal(there, 3); /* what the exported one has at its end */
    put(imported, 4);
    assert_int_equal(aule_buffer_download(exported, 0, &there, sizeof there, NULL), AULE_OK);
    assert_int_equal(there, 4);
    assert_int_equal(close(fd), 0); /* it stayed ours */
    aule_buffer_free(exported);
    aule_buffer_free(imported);
    assert_int_equal(vulkan_mock.memories, memories);
    assert_int_equal(open_files(), files);
    expect_error(aule_buffer_import(device, 250, 1024, &imported, &error), &error,
                 AULE_ERROR_DRIVER,
                 "the file descriptor, 1024 bytes: VK_ERROR_INVALID_EXTERNAL_HANDLE");
    expect_error(aule_buffer_import(device, -1, 1024, &imported, &error), &error, AULE_ERROR_USAGE,
                 "fd -1");
    expect_error(aule_buffer_export(device, 1, NULL, &fd, &bytes, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    vulkan_mock.lacks = 1u << MOCK_EXPORTS;
    expect_error(aule_buffer_export(device, 1, &exported, &fd, &bytes, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "lets no memory of buffers be exported");
    vulkan_mock.lacks = 1u << MOCK_IMPORTS;
    expect_error(aule_buffer_import(device, 0, 1, &imported, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "lets no memory of buffers be imported");
    aule_device_close(device);
    expect_nothing_left();
    vulkan_mock_reset();
    device = open_device();
    expect_error(aule_buffer_export(device, 1, &exported, &fd, &bytes, &error), &error,
                 AULE_ERROR_UNSUPPORTED,
                 "memory cannot be exported: the device lacks VK_KHR_external_memory_fd");
    aule_device_close(device);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    expect_error(aule_buffer_import(device, 0, 1, &imported, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "cpu: memory is not shared by file descriptor on cpu");
    aule_device_close(device);
}

/* Each call in turn; a descriptor that is left open would be told. */
static void test_shared_memory_fails(void **state)
{
    (void)state;
    static const int codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, -3};
    const int files = open_files();
    for (int n = 1, done = 0; !done; n++) {
        aule_buffer *exported = NULL, *imported = NULL;
        aule_error *error = NULL;
        int fd = -1;
        uint64_t bytes = 0;
        vulkan_mock_reset();
        vulkan_mock.external = true;
        aule_device *device = open_device();
        vulkan_mock.calls = 0;
        vulkan_mock.fail_at = n;
        vulkan_mock.code = codes[n % 2];
        aule_status status = aule_buffer_export(device, 5, &exported, &fd, &bytes, &error);
        if (!status) status = aule_buffer_import(device, fd, bytes, &imported, &error);
        done = !vulkan_mock.failed;
        if (done)
            assert_int_equal(status, AULE_OK);
        else if (!status || !strstr(aule_error_message(error), vulkan_mock.failed))
            fail_msg("%s: %s", vulkan_mock.failed, aule_error_message(error));
        aule_error_free(error);
        vulkan_mock.fail_at = 0;
        if (fd >= 0) close(fd);
        aule_buffer_free(exported);
        aule_buffer_free(imported);
        aule_device_close(device);
        assert_int_equal(open_files(), files);
        expect_nothing_left();
    }
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_buffers),        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_short_memory),        cmocka_unit_test(test_large_buffers),
        cmocka_unit_test(test_foreign_addresses),   cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_shared_memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return vulkan_case_run(run); }
