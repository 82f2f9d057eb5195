/* shared_test.c - one GPU by two drivers, on the mocks of both: memory of torch's allocator functions (runtime/torch), which Vulkan's kernels and CUDA's copies
 * read and write where it is, in the order of a timeline. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/torch/aule_torch.h"
#include "cuda_case.h"
#include "vulkan_case.h"

typedef struct Both {
    OnDevice s; /* the sample's call on Vulkan */
    aule_device *cuda;
} Both;

static aule_torch_memory functions_of(const Both *b)
{
    return (aule_torch_memory){
        sizeof(aule_torch_memory), b->s.device,      b->cuda,          aule_buffer_export,
        aule_buffer_import,        aule_buffer_free, aule_buffer_data, aule_device_synchronize,
        aule_error_message,        aule_error_free};
}

/* Each time another number of torch's: what is known of one lasts. */
static int begin(Both *b)
{
    static int number;
    aule_error *error = NULL;
    vulkan_mock_reset();
    vulkan_mock.external = vulkan_mock.signals = true;
    on_device_begin(&b->s, vulkan_case_module(), FORWARD_TENSORS);
    if (on_device_run(&b->s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
    if (aule_device_open("cuda:0", NULL, &b->cuda, &error))
        fail_msg("%s", aule_error_message(error));
    const aule_torch_memory functions = functions_of(b);
    assert_int_equal(aule_torch_use(number, &functions), 0);
    assert_int_equal(aule_torch_use(number, &functions), 0);
    return number++;
}

static void end(Both *b)
{
    on_device_end(&b->s);
    expect_nothing_left();
    aule_device_close(b->cuda);
    assert_int_equal(cuda_mock.externals, 0);
}

static uint64_t allocated(int number, size_t bytes, uint64_t *place)
{
    const uint64_t at = (uintptr_t)aule_torch_allocate((ssize_t)bytes, number, NULL);
    char why[512];
    aule_torch_why(number, why, sizeof why);
    if (!at) fail_msg("%s", why);
    assert_int_equal(aule_torch_places(number, 1, &at, place), 1);
    return at;
}

static int64_t elements(const DLTensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++) count *= t->shape[d];
    return count;
}

/* Words that are no longer what was there before the call: as they should be. */
static int64_t written(const uint32_t *got, const uint32_t *want, uint64_t words)
{
    int64_t count = 0;
    for (uint64_t n = 0; n < words; n++) {
        if (got[n] == UINT32_MAX) continue;
        assert_int_equal(got[n], want[n]);
        count++;
    }
    return count;
}

/* A call on tensors that "torch" has: the host writes by CUDA's address (the mock's memory is the host's), Vulkan's kernels read there, and what they write is
 * there behind the number that CUDA's stream waits for. */
static void test_a_call(void **state)
{
    (void)state;
    Both b;
    const int number = begin(&b), memories = vulkan_mock.memories;
    aule_error *error = NULL;
    aule_timeline *ours = NULL, *theirs = NULL;
    int fd = -1;
    uint64_t at[FORWARD_TENSORS], place[FORWARD_TENSORS], bytes = 0;
    aule_address tensors[FORWARD_TENSORS];
    for (int n = 0; n < FORWARD_TENSORS; n++) {
        const uint64_t size = aule_buffer_bytes(b.s.buffers[n]);
        char *copy = malloc(size);
        at[n] = allocated(number, size, &place[n]);
        assert_true(at[n] != place[n]); /* one memory, mapped twice */
        assert_int_equal(aule_buffer_download(b.s.buffers[n], 0, copy, size, &error), AULE_OK);
        if (n < T_O)
            memcpy((void *)(uintptr_t)at[n], copy, size);
        else
            memset((void *)(uintptr_t)at[n], 0xff, size);
        tensors[n] = (aule_address){(void *)(uintptr_t)place[n], 0};
        free(copy);
        bytes += size;
    }
    assert_int_equal(aule_torch_bytes(number), bytes);
    assert_int_equal(vulkan_mock.memories, memories + FORWARD_TENSORS);
    assert_int_equal(aule_timeline_export(b.s.device, &ours, &fd, &error), AULE_OK);
    assert_int_equal(aule_timeline_import(b.cuda, fd, &theirs, &error), AULE_OK);
    close(fd);
    const aule_vulkan_semaphore before = {aule_timeline_handle(ours), 1},
                                behind = {aule_timeline_handle(ours), 2};
    aule_vulkan_queue queue = {sizeof queue, &before, 1, &behind, 1};
    aule_run run = b.s.c->run;
    run.queue = &queue, run.tensors = tensors;
    const int blocks = vulkan_mock.blocks;
    assert_int_equal(aule_plan_run(b.s.plan, &run, &error), AULE_OK);
    assert_int_equal(vulkan_mock.blocks, blocks); /* not before CUDA's stream */
    assert_int_equal(aule_timeline_signal(theirs, (void *)1, 1, &error), AULE_OK);
    vulkan_mock_work();
    assert_int_equal(aule_timeline_wait(theirs, (void *)1, 2, &error), AULE_OK);
    for (int n = 0; n < FORWARD_TENSORS; n++) {
        const uint64_t size = aule_buffer_bytes(b.s.buffers[n]);
        char *want = malloc(size);
        assert_int_equal(aule_buffer_download(b.s.buffers[n], 0, want, size, &error), AULE_OK);
        if (n < T_O)
            assert_memory_equal((void *)(uintptr_t)at[n], want, size);
        else
            assert_int_equal(written((void *)(uintptr_t)at[n], (void *)want, size / 4),
                             elements(&b.s.c->tensors[n]));
        free(want);
        aule_torch_release((void *)(uintptr_t)at[n], size, number, NULL);
    }
    assert_int_equal(aule_torch_bytes(number), 0);
    aule_timeline_free(theirs);
    aule_timeline_free(ours);
    end(&b);
}

static void test_places(void **state)
{
    (void)state;
    Both b;
    const int number = begin(&b);
    uint64_t place[2], places[4];
    const uint64_t first = allocated(number, 4096, &place[0]),
                   last = allocated(number, 64, &place[1]);
    const uint64_t good[4] = {first + 4095, 0, last, first};
    assert_int_equal(aule_torch_places(number, 4, good, places), 4);
    assert_int_equal(places[0], place[0] + 4095);
    assert_int_equal(places[1], 0);
    assert_int_equal(places[2], place[1]);
    const uint64_t wrong[4] = {first, last + 64, last, first};
    assert_int_equal(aule_torch_places(number, 4, wrong, places), 1);
    assert_int_equal(aule_torch_places(number + 1, 1, &first, places), 0);
    assert_int_equal(aule_torch_places(-1, 1, &first, places), 0);
    assert_int_equal(aule_torch_places(AULE_TORCH_DEVICES, 1, &first, places), 0);
    aule_torch_release((void *)(uintptr_t)(first + 1), 1, number, NULL); /* no block of ours */
    aule_torch_release(NULL, 0, number, NULL);
    assert_int_equal(aule_torch_bytes(number), 4096 + 64);
    aule_torch_release((void *)(uintptr_t)first, 4096, number, (void *)1);
    assert_int_equal(aule_torch_places(number, 1, &first, places), 0);
    aule_torch_release((void *)(uintptr_t)last, 64, number, NULL);
    end(&b);
}

/* Each driver's calls in turn: no memory, its words, and nothing is left. */
static void test_failures(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuImportExternalMemory",
                                            "cuExternalMemoryGetMappedBuffer", "cuCtxPushCurrent"};
    Both b;
    char why[512];
    const int number = begin(&b), memories = vulkan_mock.memories;
    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) {
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", functions[n]);
        cuda_mock.code = 1, cuda_mock.after = 0;
        assert_null(aule_torch_allocate(100, number, NULL));
        cuda_mock.fail[0] = 0;
        aule_torch_why(number, why, sizeof why);
        if (!strstr(why, functions[n])) fail_msg("%s: %s", functions[n], why);
        assert_int_equal(cuda_mock.externals, 0);
        assert_int_equal(vulkan_mock.memories, memories);
    }
    vulkan_mock.memory_bytes = 1024;
    assert_null(aule_torch_allocate(1 << 20, number, NULL));
    aule_torch_why(number, why, sizeof why);
    assert_non_null(strstr(why, "VK_ERROR_OUT_OF_DEVICE_MEMORY"));
    vulkan_mock.memory_bytes = 1 << 30;
    assert_null(aule_torch_allocate(0, number, NULL));
    assert_null(aule_torch_allocate(100, number + 1, NULL));
    aule_torch_memory other = functions_of(&b);
    other.vulkan = NULL;
    assert_int_equal(aule_torch_use(number, &other), -1);
    other.struct_size = 8;
    assert_int_equal(aule_torch_use(number + 1, &other), -1);
    end(&b);
}

typedef struct Other {
    const aule_torch_memory *functions;
    int number, failed;
} Other;

static void *use_again(void *of)
{
    Other *other = of;
    char why[64];
    for (int n = 0; n < 200; n++) {
        other->failed |= aule_torch_use(other->number, other->functions);
        aule_torch_why(other->number, why, sizeof why);
        other->failed |= aule_torch_bytes(other->number) > 4096;
    }
    return NULL;
}

/* One thread allocates, others say again whose memory it is: nothing for the thread sanitizer to tell. */
static void test_threads(void **state)
{
    (void)state;
    Both b;
    const int number = begin(&b);
    const aule_torch_memory functions = functions_of(&b);
    Other other = {&functions, number, 0};
    pthread_t thread;
    uint64_t place;
    assert_int_equal(pthread_create(&thread, NULL, use_again, &other), 0);
    for (int n = 0; n < 50; n++)
        aule_torch_release((void *)(uintptr_t)allocated(number, 4096, &place), 4096, number, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(other.failed, 0);
    end(&b);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_a_call),
        CUDA_TEST(test_places),
        CUDA_TEST(test_failures),
        CUDA_TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return vulkan_case_run(run); }
