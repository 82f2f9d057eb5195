/* The Level Zero backend on a mock of loader and driver (levelzero/mock.h), which keeps the specification's rules: results on the device's own
 * list and on each kind of the caller's, what devices say and lack, what is kept on disk, every call that fails in turn, and that nothing of
 * the driver's is left. */
#include "levelzero_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- results */

static void test_results(void **state)
{
    (void)state;
    levelzero_mock_reset();
    for (int kind = 0; kind < ON_KINDS; kind++) {
        expect_right((On)kind);
        assert_int_equal(levelzero_mock.launches, 2 * (kind + 1));
    }
}

enum { THREADS = 4, OFTEN = 50 };

/* As aule.h says: each thread's workspace and outputs are its own. */
typedef struct Worker {
    Setup s; /* the common plan on tensors of this thread's */
    aule_address at[TENSORS];
    pthread_t thread;
    bool right;
} Worker;

static void *run_often(void *given)
{
    Worker *w = given;
    w->right = !place(&w->s, NULL);
    for (int t = 0; t < TENSORS; t++) w->at[t] = (aule_address){w->s.c->tensors[t].data, 0};
    w->s.c->run.tensors = w->at;
    for (int n = 0; n < OFTEN && w->right; n++)
        w->right = !aule_plan_run(w->s.plan, &w->s.c->run, NULL);
    w->right = w->right && !fetch(&w->s, NULL) && case_is_right(w->s.c);
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(w->s.buffers[t]);
    aule_buffer_free(w->s.workspace);
    return NULL;
}

/* One plan by several threads on one list. */
static void test_threads(void **state)
{
    (void)state;
    for (int kind = 0; kind < ON_KINDS; kind++) {
        Setup s;
        aule_error *error = NULL;
        Worker workers[THREADS] = {0};
        if (kind == ON_RECORDED) continue; /* it is recorded by one */
        levelzero_mock_reset();
        open_case(&s, (On)kind);
        if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
        for (int n = 0; n < THREADS; n++) {
            Worker *w = &workers[n];
            w->s = s;
            w->s.c = case_new();
            w->s.workspace = NULL;
            memset(w->s.buffers, 0, sizeof w->s.buffers);
            assert_int_equal(pthread_create(&w->thread, NULL, run_often, w), 0);
        }
        for (int n = 0; n < THREADS; n++) {
            pthread_join(workers[n].thread, NULL);
            case_free(workers[n].s.c);
        }
        for (int n = 0; n < THREADS; n++) assert_true(workers[n].right);
        assert_int_equal(levelzero_mock.launches, 2 + 2 * OFTEN * THREADS);
        close_case(&s);
        expect_nothing_left();
    }
}

/* A list of the caller's can be executed again, with the addresses of the call. */
static void test_recorded_again(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    levelzero_mock_reset();
    open_case(&s, ON_RECORDED);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    assert_true(case_is_right(s.c));
    case_forget(s.c);
    for (int t = T_O; t < TENSORS; t++)
        assert_int_equal(aule_buffer_upload(s.buffers[t], 0, s.c->storage[t], s.c->bytes[t], NULL),
                         AULE_OK);
    aule_event_free(s.first), aule_event_free(s.last); /* the list signals them once */
    s.first = s.last = NULL;
    ze_command_list_handle_t plain = s.list;
    assert_int_equal(zeCommandListReset(plain), 0);
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(zeCommandListClose(plain), 0);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(zeCommandQueueExecuteCommandLists(s.queue, 1, &plain, NULL), 0);
        assert_int_equal(zeCommandQueueSynchronize(s.queue, UINT64_MAX), 0);
    }
    assert_int_equal(fetch(&s, NULL), AULE_OK);
    assert_true(case_is_right(s.c));
    expect_error(aule_device_synchronize(s.device, s.list, &error), &error, AULE_ERROR_UNSUPPORTED,
                 "levelzero:0: a command list that its owner executes cannot be waited for here");
    close_case(&s);
    expect_nothing_left();
}

/* What the caller puts on its list behind a run comes after it: here a copy of the output, without a barrier. The mock does first what no barrier
 * orders. */
static void test_behind(void **state)
{
    (void)state;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    for (int kind = ON_IMMEDIATE; kind <= ON_RECORDED; kind++) {
        Setup s;
        void *copy = NULL;
        levelzero_mock_reset();
        open_case(&s, (On)kind);
        const size_t bytes = s.c->bytes[T_O];
        if (open_device(&s, NULL) || place(&s, NULL)) fail_msg("on %d", kind);
        assert_int_equal(
            aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.plan, NULL),
            AULE_OK);
        assert_int_equal(zeMemAllocHost(s.context, &desc, bytes, 64, &copy), 0);
        assert_int_equal(aule_plan_run(s.plan, &s.c->run, NULL), AULE_OK);
        assert_int_equal(zeCommandListAppendMemoryCopy(
                             s.list, copy, aule_buffer_data(s.buffers[T_O]), bytes, NULL, 0, NULL),
                         0);
        if (kind == ON_RECORDED) {
            assert_int_equal(zeCommandListClose(s.list), 0);
            assert_int_equal(zeCommandQueueExecuteCommandLists(s.queue, 1, &s.list, NULL), 0);
        }
        levelzero_mock_work();
        assert_int_equal(fetch(&s, NULL), AULE_OK);
        assert_true(case_is_right(s.c));
        assert_memory_equal(copy, s.c->storage[T_O], bytes);
        assert_int_equal(zeMemFree(s.context, copy), 0);
        close_case(&s);
        expect_nothing_left();
    }
}

/* Numbers that change from run to run, and do not. */
static void test_other_parameters(void **state)
{
    (void)state;
    Setup s, narrow;
    aule_error *error = NULL;
    levelzero_mock_reset();
    open_case(&s, ON_OWN);
    open_case(&narrow, ON_OWN);
    narrow.c->params[0].value.i = 1;
    if (run_all(&s, &error) || run_all(&narrow, &error)) fail_msg("%s", aule_error_message(error));
    const size_t bytes = s.c->bytes[T_O];
    float *wide = malloc(bytes);
    memcpy(wide, s.c->storage[T_O], bytes);
    assert_true(memcmp(wide, narrow.c->storage[T_O], bytes) != 0);
    for (int n = 0; n < 4; n++) {
        const aule_value value = n % 2 ? s.c->params[0].value : narrow.c->params[0].value;
        s.c->run.params = &value;
        if (aule_plan_run(s.plan, &s.c->run, &error) || fetch(&s, &error))
            fail_msg("%s", aule_error_message(error));
        assert_memory_equal(s.c->storage[T_O], n % 2 ? (void *)wide : narrow.c->storage[T_O],
                            bytes);
    }
    s.c->run.params = NULL;
    free(wide);
    close_case(&narrow);
    close_case(&s);
    expect_nothing_left();
}

/* Code that is given back while its kernels have not run waits for them. */
static void test_code_ends_first(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    for (int kind = 0; kind < ON_KINDS; kind++) {
        if (kind != ON_OWN && kind != ON_COMMANDS) continue; /* of the others their owner knows */
        levelzero_mock_reset();
        open_case(&s, (On)kind);
        if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
        case_forget(s.c);
        assert_int_equal(aule_plan_run(s.plan, &s.c->run, NULL), AULE_OK);
        aule_plan_free(s.plan);
        aule_module_close(s.module);
        s.plan = NULL, s.module = NULL;
        assert_int_equal(levelzero_mock.alive[MOCK_KERNEL], 0);
        assert_int_equal(fetch(&s, NULL), AULE_OK);
        assert_true(case_is_right(s.c));
        close_case(&s);
        expect_nothing_left();
    }
}

/* ---- times */

static void test_times(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    uint64_t nanoseconds = 0;
    for (int old = 0; old < 2; old++) {
        levelzero_mock_reset();
        levelzero_mock.api = 1 << 16 | (old ? 1 : 3);
        open_case(&s, ON_OWN);
        if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
        /* Between the events: a fill, two launches, before each a barrier and the time that is written, and the barrier of the second; 10 ticks of 100 ns each. */
        assert_int_equal(aule_event_elapsed(s.first, s.last, &nanoseconds, &error), AULE_OK);
        assert_int_equal(nanoseconds, 10 * 10 * 100);
        expect_error(aule_event_elapsed(s.last, s.first, &nanoseconds, &error), &error,
                     AULE_ERROR_USAGE, "");
        aule_event_free(s.last), aule_event_free(s.first);
        levelzero_mock.now = (1ull << 32) - 25; /* the counter of 32 bits wraps around between */
        assert_int_equal(aule_event_record(s.device, NULL, &s.first, NULL), AULE_OK);
        assert_int_equal(aule_plan_run(s.plan, &s.c->run, NULL), AULE_OK);
        assert_int_equal(aule_event_record(s.device, NULL, &s.last, NULL), AULE_OK);
        assert_int_equal(aule_event_elapsed(s.first, s.last, &nanoseconds, &error), AULE_OK);
        assert_int_equal(nanoseconds, 10 * 10 * 100);
        close_case(&s);
        expect_nothing_left();
    }
    levelzero_mock_reset();
    levelzero_mock.time_bits = 0;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED, "levelzero:0: the device has no time stamps");
}

/* ---- what the driver made, on disk */

static char folder[] = "/tmp/aule-levelzero-test-XXXXXX";

static void in_folder(const char *command)
{
    char text[320];
    snprintf(text, sizeof text, "cd %s/aule && %s", folder, command);
    assert_int_equal(system(text), 0);
}

static void expect_made(int compiled, int taken)
{
    levelzero_mock.compiled = levelzero_mock.taken = 0;
    expect_right(ON_OWN);
    assert_int_equal(levelzero_mock.compiled, compiled);
    assert_int_equal(levelzero_mock.taken, taken);
}

static void test_binaries_are_kept(void **state)
{
    (void)state;
    levelzero_mock_reset();
    expect_right(ON_OWN);
    in_folder("rm -f levelzero-*");
    expect_made(1, 0);
    expect_made(0, 1);
    levelzero_mock.driver = 8; /* another one has a file of its own */
    expect_made(1, 0);
    expect_made(0, 1);
    in_folder("test $(ls levelzero-* | wc -l) = 2");
    in_folder("for f in levelzero-*; do truncate -s 40 $f; done"); /* cut */
    expect_made(1, 0);
    expect_made(0, 1);
    in_folder("for f in levelzero-*; do printf x | dd of=$f bs=1 seek=50 conv=notrunc 2>/dev/null; "
              "done");
    expect_made(1, 0);
    /* One that is whole, of which the driver says no. */
    in_folder("test $(ls levelzero-* | wc -l) = 2 && set -- levelzero-* && cp $1 other && cp $2 $1 "
              "&& cp other $2 && rm other");
    expect_made(1, 0);
    expect_made(0, 1);
    setenv("AULE_CACHE_MAX", "0", 1);
    expect_made(1, 0);
    setenv("AULE_CACHE_MAX", "x", 1);
    expect_wrong(ON_OWN, AULE_ERROR_USAGE, "AULE_CACHE_MAX");
    unsetenv("AULE_CACHE_MAX");
}

/* Modules for twice as many registers are built so, when they are kept, too, and not taken for others. */
static void test_many_registers(void **state)
{
    (void)state;
    levelzero_mock_reset();
    in_folder("rm -f levelzero-*");
    expect_made(1, 0);
    assert_int_equal(levelzero_mock.large, 0);
    set_features("SPIR-V_1.0 dpas16 registers256");
    levelzero_mock.multiplies = true;
    expect_made(1, 0);
    expect_made(0, 1);
    assert_int_equal(levelzero_mock.large, 2);
    levelzero_mock.multiplies = false;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED, "dpas16");
    set_features("SPIR-V_1.0 shared32k");
}

static void test_a_module_that_is_refused(void **state)
{
    (void)state;
    levelzero_mock_reset();
    in_folder("rm -f levelzero-*");
    levelzero_mock.fail = "zeModuleCreate";
    levelzero_mock.code = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    expect_wrong(ON_OWN, AULE_ERROR_BUILD,
                 "levelzero:0: zeModuleCreate of 'rows sm_80': "
                 "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE; the driver's log: mock: it fails as it was "
                 "told to");
    levelzero_mock_reset();
    levelzero_mock.fail = "zeKernelCreate";
    levelzero_mock.code = ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    expect_wrong(ON_OWN, AULE_ERROR_ARTIFACT,
                 "levelzero:0: zeKernelCreate: ZE_RESULT_ERROR_INVALID_KERNEL_NAME; weigh");
}

/* What a driver would take for something else: a module for Vulkan in an artifact that is damaged, or made by hand. */
static void test_a_module_of_another_flavour(void **state)
{
    (void)state;
    static const uint32_t shader[] = {0x07230203,     0x00010500,   0,    1, 0, 2 << 16 | 17,
                                      1 /* Shader */, 3 << 16 | 14, 5348, 3};
    levelzero_mock_reset();
    set_code(shader, sizeof shader);
    expect_wrong(ON_OWN, AULE_ERROR_ARTIFACT,
                 "levelzero:0: the code of 'rows sm_80' is a module of SPIR-V of another flavour, "
                 "expected one with addresses Physical64 and memory model OpenCL");
    assert_int_equal(levelzero_mock.compiled + levelzero_mock.taken, 0);
    set_code(shader, 16);
    expect_wrong(ON_OWN, AULE_ERROR_ARTIFACT, "is no SPIR-V module");
    set_code(NULL, 0);
}

/* ---- what does not fit */

static void test_limits(void **state)
{
    (void)state;
    levelzero_mock_reset();
    levelzero_mock.most_blocks = 4;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED,
                 "levelzero:0: a grid of 5 x 4 x 2 blocks of weigh, at most 4 x 4 x 4 can be "
                 "launched");
    levelzero_mock_reset();
    levelzero_mock.local_bytes = 65 << 10;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED,
                 "levelzero:0: kernel weigh needs 66560 bytes of shared memory, the device has "
                 "65536");
    levelzero_mock_reset();
    levelzero_mock.most_threads = 1;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED,
                 "levelzero:0: kernel weigh needs 2 threads a block, the device takes 1");
    levelzero_mock_reset();
    levelzero_mock.most_x = 1;
    expect_wrong(
        ON_OWN, AULE_ERROR_UNSUPPORTED,
        "levelzero:0: kernel weigh needs blocks of 2 x 1 x 1 threads, the device takes 1 x "
        "1024 x 1024");
    levelzero_mock_reset();
    levelzero_mock.shared_bytes = 16 << 10;
    expect_wrong(ON_OWN, AULE_ERROR_UNSUPPORTED,
                 "(needs shared32k; what the device has: "
                 "levelzero1.3 SPIR-V_1.0");
}

/* What the driver's compiler says of registers that were too few: of two kernels the one that has most. */
static void test_spills_are_told(void **state)
{
    (void)state;
    for (uint32_t bytes = 0; bytes <= 6848; bytes += 6848) {
        Setup s;
        aule_error *error = NULL;
        levelzero_mock_reset();
        levelzero_mock.spilled = bytes;
        open_case(&s, ON_OWN);
        if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
        assert_int_equal(aule_plan_spilled(s.plan), bytes);
        close_case(&s);
        expect_nothing_left();
    }
    assert_int_equal(aule_plan_spilled(NULL), 0);
}

/* ---- failures */

/* Every call after the one that said so says so, too; the device is opened again. */
static void test_lost(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer = NULL;
    uint64_t nanoseconds;
    const char *told = "levelzero:0: an earlier call: ZE_RESULT_ERROR_DEVICE_LOST; a kernel has";
    levelzero_mock_reset();
    open_case(&s, ON_OWN);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    levelzero_mock.fail = "zeCommandListAppendLaunchKernel";
    levelzero_mock.code = ZE_RESULT_ERROR_DEVICE_LOST;
    expect_error(
        aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
        "levelzero:0: zeCommandListAppendLaunchKernel: ZE_RESULT_ERROR_DEVICE_LOST; weigh; "
        "a kernel has failed or hung");
    levelzero_mock.fail = NULL;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER, told);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER, told);
    expect_error(aule_event_elapsed(s.first, s.last, &nanoseconds, &error), &error,
                 AULE_ERROR_DRIVER, told);
    expect_error(aule_buffer_new(s.device, 64, &buffer, &error), &error, AULE_ERROR_DRIVER, told);
    expect_error(fetch(&s, &error), &error, AULE_ERROR_DRIVER, told);
    close_case(&s);
    expect_nothing_left();
    expect_right(ON_OWN);
}

/* A device that does no more of its work is told of, on each kind of list that is waited for; everything after that is refused, and what it may
 * still read stays until it is back. One that does a kernel in each wait is waited for. Time passes in the mock as it is asked to. */
static void test_hung(void **state)
{
    (void)state;
    setenv("AULE_LEVELZERO_TIMEOUT", "7", 1);
    for (int kind = 0; kind < ON_KINDS; kind++) {
        Setup s;
        aule_error *error = NULL;
        if (kind == ON_RECORDED) continue; /* its owner waits */
        levelzero_mock_reset();
        open_case(&s, (On)kind);
        if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
        void *queue = s.c->run.queue;
        levelzero_mock.slow = true;
        for (int n = 0; n < 4; n++)
            assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
        assert_int_equal(aule_device_synchronize(s.device, queue, &error), AULE_OK);
        assert_int_equal(levelzero_mock.patience, 7000000000);
        assert_true(levelzero_mock.waits >= 3);
        levelzero_mock.hangs = true;
        levelzero_mock.waits = 0;
        assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
        expect_error(aule_device_synchronize(s.device, queue, &error), &error, AULE_ERROR_DRIVER,
                     "levelzero:0: no work was finished in 7 s (AULE_LEVELZERO_TIMEOUT), the "
                     "device is taken for hung");
        assert_int_equal(levelzero_mock.waits, 2);
        expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                     "levelzero:0: an earlier call: ZE_RESULT_ERROR_DEVICE_LOST");
        aule_plan_free(s.plan);
        s.plan = NULL;
        void *kept = kind == ON_IMMEDIATE ? aule_buffer_data(s.buffers[T_Q]) : NULL;
        const int memories = levelzero_mock.alive[MOCK_MEMORY];
        if (kept) {
            aule_buffer_free(s.buffers[T_Q]); /* it stays: the device may still read it */
            s.buffers[T_Q] = NULL;
        }
        assert_int_equal(levelzero_mock.alive[MOCK_MEMORY], memories);
        assert_null(levelzero_mock.broken);
        levelzero_mock.hangs = levelzero_mock.slow = false;
        levelzero_mock_work();
        if (kept) assert_int_equal(zeMemFree(s.context, kept), 0);
        close_case(&s);
        expect_nothing_left();
    }
    unsetenv("AULE_LEVELZERO_TIMEOUT");
}

static void test_timeout_is_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", "-1", "1s", " 5", "1000001", "99999999999999999999"};
    levelzero_mock_reset();
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        char text[100];
        setenv("AULE_LEVELZERO_TIMEOUT", wrong[n], 1);
        snprintf(text, sizeof text, "AULE_LEVELZERO_TIMEOUT is '%s', expected seconds from 1 to",
                 wrong[n]);
        expect_wrong(ON_OWN, AULE_ERROR_USAGE, text);
    }
    unsetenv("AULE_LEVELZERO_TIMEOUT");
    expect_right(ON_OWN);
}

/* Does a message say which call it was? */
static bool tells(const char *message, const char *function)
{
    return strstr(message, function) || strstr(message, "no driver that works") /* zeInit */ ||
           strstr(message, "an earlier call: ZE_RESULT_ERROR_DEVICE_LOST");
}

/* The n-th call fails, for every n there is, on each kind of queue. */
static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    static const uint32_t codes[] = {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                                     ZE_RESULT_ERROR_DEVICE_LOST, ZE_RESULT_ERROR_UNINITIALIZED,
                                     ZE_RESULT_ERROR_UNKNOWN};
    setenv("AULE_CACHE_MAX", "0", 1); /* each time modules are compiled */
    for (int kind = 0; kind < ON_KINDS; kind++)
        for (int n = 1, done = 0; !done; n++) {
            Setup s;
            aule_error *error = NULL;
            levelzero_mock_reset();
            open_case(&s, (On)kind);
            levelzero_mock.calls = 0;
            levelzero_mock.fail_at = n;
            levelzero_mock.code = codes[n % 4];
            aule_status status = run_all(&s, &error);
            const char *failed = levelzero_mock.failed; /* NULL: there are fewer calls */
            done = !failed && !levelzero_mock.broken && levelzero_mock.calls < n;
            /* Without these it works all the same: parts of devices, binaries to keep, events to use again. */
            const bool is_needless = failed && !status &&
                                     (strcmp(failed, "zeDeviceGetSubDevices") == 0 ||
                                      strcmp(failed, "zeModuleGetNativeBinary") == 0 ||
                                      strcmp(failed, "zeEventHostReset") == 0);
            if (!failed || is_needless)
                assert_true(status == AULE_OK && case_is_right(s.c));
            else if (!s.by_caller && (!status || !tells(aule_error_message(error), failed)))
                fail_msg("kind %d, call %d, %s: %s", kind, n, failed,
                         status ? aule_error_message(error) : "nothing is told");
            aule_error_free(error);
            levelzero_mock.fail_at = 0;
            close_case(&s);
            expect_nothing_left();
        }
    unsetenv("AULE_CACHE_MAX");
}

typedef struct Meter {
    size_t requests, fail_at, alive;
} Meter;

static void *resize(void *user, void *memory, size_t old_bytes, size_t new_bytes)
{
    Meter *meter = user;
    if (new_bytes && ++meter->requests == meter->fail_at) return NULL;
    meter->alive += new_bytes - old_bytes;
    if (new_bytes) return realloc(memory, new_bytes);
    free(memory);
    return NULL;
}

/* The host's memory runs out at each request in turn. What is not kept for that is made again. */
static void test_no_memory(void **state)
{
    (void)state;
    setenv("AULE_CACHE_MAX", "0", 1);
    for (int kind = 0; kind < ON_KINDS; kind++)
        for (size_t n = 1, done = 0; !done; n++) {
            Setup s;
            aule_error *error = NULL;
            Meter meter = {.fail_at = n};
            const aule_allocator allocator = {sizeof allocator, resize, &meter};
            levelzero_mock_reset();
            open_case(&s, (On)kind);
            s.allocator = &allocator;
            aule_status status = run_all(&s, &error);
            done = meter.requests < n;
            if (status != AULE_OK && status != AULE_ERROR_MEMORY)
                fail_msg("request %zu: %s", n, aule_error_message(error));
            assert_true(status || case_is_right(s.c));
            assert_true(!done || !status);
            aule_error_free(error);
            close_case(&s);
            assert_int_equal(meter.alive, 0);
            expect_nothing_left();
        }
    unsetenv("AULE_CACHE_MAX");
}

int main(void)
{
    make_module(NULL);
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_spills_are_told),
        cmocka_unit_test(test_recorded_again),
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_other_parameters),
        cmocka_unit_test(test_code_ends_first),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_binaries_are_kept),
        cmocka_unit_test(test_many_registers),
        cmocka_unit_test(test_a_module_that_is_refused),
        cmocka_unit_test(test_a_module_of_another_flavour),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_hung),
        cmocka_unit_test(test_timeout_is_read),
        cmocka_unit_test(test_every_call_fails_in_turn),
        cmocka_unit_test(test_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? 1 : failed;
}
