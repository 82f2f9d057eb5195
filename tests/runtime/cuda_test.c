/* CUDA, on a mock of the driver (cuda_mock.h), whose name is the driver's, so that the runtime finds it where it looks for one. */
#include "case.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_mock.h"

/* ---- a case on a device */

typedef struct Setup {
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
    Case *c;
    aule_buffer *buffers[TENSORS], *workspace;
} Setup;

static void place(Setup *s)
{
    for (int t = 0; t < TENSORS; t++) {
        assert_int_equal(aule_buffer_new(s->device, s->c->bytes[t], &s->buffers[t], NULL), AULE_OK);
        assert_int_equal(
            aule_buffer_upload(s->buffers[t], 0, s->c->storage[t], s->c->bytes[t], NULL), AULE_OK);
        s->c->tensors[t].data = aule_buffer_data(s->buffers[t]);
        s->c->tensors[t].device = aule_device_get_info(s->device)->dl;
    }
    assert_int_equal(aule_buffer_new(s->device, 4096, &s->workspace, NULL), AULE_OK);
    assert_int_equal(aule_buffer_upload(s->workspace, 0, s->c->workspace, 4096, NULL), AULE_OK);
    s->c->run.workspace = aule_buffer_data(s->workspace);
    s->c->run.workspace_bytes = 4096;
}

static void fetch(Setup *s)
{
    for (int t = T_O; t < TENSORS; t++)
        assert_int_equal(
            aule_buffer_download(s->buffers[t], 0, s->c->storage[t], s->c->bytes[t], NULL),
            AULE_OK);
}

static void open_on(Setup *s, const char *id, void *context)
{
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .context = context};
    memset(s, 0, sizeof *s);
    assert_int_equal(aule_module_from(&sample_module, NULL, &s->module, &error), AULE_OK);
    s->attention = aule_module_attention(s->module, 0);
    if (aule_device_open(id, &options, &s->device, &error))
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

static void run_case(Setup *s)
{
    aule_error *error = NULL;
    if (aule_attention_run(s->attention, s->device, &s->c->call, &s->c->run, &error))
        fail_msg("%s", aule_error_message(error));
}

static aule_plan *plan_case(Setup *s)
{
    aule_plan *plan = NULL;
    aule_error *error = NULL;
    if (aule_plan_new(s->attention, s->device, &s->c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    return plan;
}

/* Nothing of the driver's is left. */
static void expect_nothing_left(void)
{
    assert_int_equal(cuda_mock.modules, 0);
    assert_int_equal(cuda_mock.buffers, 0);
    assert_int_equal(cuda_mock.streams, 0);
    assert_int_equal(cuda_mock.events, 0);
    assert_int_equal(cuda_mock.contexts, 0);
}

/* ---- the cache: every test has one of its own */

static char cache[64];

static void remove_cache(void)
{
    char command[128];
    if (!cache[0]) return;
    snprintf(command, sizeof command, "rm -rf %s", cache);
    assert_int_equal(system(command), 0);
}

static int begin(void **state)
{
    (void)state;
    remove_cache();
    snprintf(cache, sizeof cache, "/tmp/aule-cuda-test-XXXXXX");
    assert_non_null(mkdtemp(cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    cuda_mock_reset();
    return 0;
}

static int end(void **state)
{
    (void)state;
    expect_nothing_left();
    return 0;
}

/* The only file of the cache. */
static void kept_file(char path[512])
{
    char folder[80];
    snprintf(folder, sizeof folder, "%s/aule", cache);
    DIR *at = opendir(folder);
    assert_non_null(at);
    int count = 0;
    for (struct dirent *entry = readdir(at); entry; entry = readdir(at)) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, 512, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(at);
    assert_int_equal(count, 1);
}

/* ---- tests */

static void test_devices(void **state)
{
    (void)state;
    aule_device *device;
    assert_int_equal(aule_device_open("cuda:1", NULL, &device, NULL), AULE_OK);
    const aule_device_info *info = aule_device_get_info(device);
    assert_string_equal(info->id, "cuda:1");
    assert_string_equal(info->name, "Mock 1");
    assert_string_equal(info->driver, "CUDA 12.8, PTX up to 8.7, compute capability 8.0");
    assert_int_equal(info->units, 132);
    assert_int_equal(info->memory_bytes, 1 << 30);
    assert_true(info->kind == AULE_DEVICE_GPU && info->dl.device_type == kDLCUDA &&
                info->dl.device_id == 1);
    assert_ptr_equal(strstr(info->features, "sm_80 sm_75 sm_72 sm_70 ptx87 ptx86 ptx85 "),
                     info->features);
    aule_device_close(device);
    assert_int_equal(aule_device_open("cuda", NULL, &device, NULL), AULE_OK);
    info = aule_device_get_info(device);
    assert_ptr_equal(strstr(info->features, "sm_90a sm_90 sm_89 "), info->features);
    assert_null(strstr(info->features, "sm_100"));
    assert_null(strstr(info->features, "ptx88"));
    aule_device_close(device);
}

static void test_result(void **state)
{
    (void)state;
    Setup s;
    aule_event *first, *last;
    uint64_t nanoseconds;
    open_on(&s, "cuda:0", NULL);
    assert_int_equal(aule_event_record(s.device, NULL, &first, NULL), AULE_OK);
    run_case(&s);
    assert_int_equal(aule_event_record(s.device, NULL, &last, NULL), AULE_OK);
    assert_int_equal(aule_event_elapsed(first, last, &nanoseconds, NULL), AULE_OK);
    assert_int_equal(nanoseconds, 1500000);
    aule_event_free(first);
    aule_event_free(last);
    assert_int_equal(aule_device_synchronize(s.device, NULL, NULL), AULE_OK);
    fetch(&s);
    assert_true(case_is_right(s.c));
    const MockLaunch *launch = &cuda_mock.launches[0];
    assert_string_equal(launch->kernel, "weigh");
    assert_true(launch->grid[0] == 5 && launch->grid[1] == 4 && launch->grid[2] == 2);
    assert_true(launch->block[0] == 2 && launch->block[1] == 1 && launch->block[2] == 1);
    assert_string_equal(cuda_mock.launches[1].kernel, "divide");
    assert_int_equal(cuda_mock.memsets, 1);

    case_make_backward(s.c, true);
    assert_int_equal(aule_buffer_upload(s.workspace, 0, s.c->workspace, 4096, NULL), AULE_OK);
    run_case(&s);
    fetch(&s);
    assert_true(case_has_gradients(s.c));
    close_all(&s);
}

/* The device's own architecture, else the highest that came before it, whatever the order in the artifact. */
static void test_choice(void **state)
{
    (void)state;
    static const struct {
        int capability;
        const char *arch;
    } rows[] = {{90, "sm_90"}, {89, "sm_87"}, {86, "153600 bytes"},  {80, "sm_80"},  {75, "sm_75"},
                {72, "sm_72"}, {70, "sm_70"}, {100, "sm_90"}, {121, "sm_120"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Setup s;
        cuda_mock.capability[0] = rows[i].capability;
        open_on(&s, "cuda:0", NULL);
        aule_plan *plan = NULL;
        aule_error *error = NULL;
        aule_status status = aule_plan_new(s.attention, s.device, &s.c->call, &plan, &error);
        if (status == AULE_OK)
            assert_string_equal(aule_plan_variant(plan)->arch, rows[i].arch);
        else /* codes that are meant to fail: they were chosen */
            assert_non_null(strstr(aule_error_message(error), rows[i].arch));
        aule_error_free(error);
        aule_plan_free(plan);
        close_all(&s);
    }
    Setup s;
    cuda_mock.capability[0] = 90;
    cuda_mock.driver = 11000;
    open_on(&s, "cuda:0", NULL);
    s.c->call.arch = "sm_90";
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "cuda sm_90 f32 D=8 E=4 (needs ptx81, the driver takes up to ptx70)");
    s.c->call.arch = "sm_120";
    expect_plan_error(
        s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
        "sample: no forward kernel for device cuda:0, dtype f32, D=8, E=4, architecture "
        "sm_120; the artifact has: cuda sm_70 f32 D=8 E=4, ");
    expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
                      "cuda sm_120 f32 D=8 E=4 (needs sm_120, the device is sm_90");
    close_all(&s);
}

/* On the caller's stream, while it is captured: launches and a memset, nothing that a capture forbids. */
static void test_capture(void **state)
{
    (void)state;
    Setup s;
    MockContext context, now;
    void *stream;
    open_on(&s, "cuda:0", NULL);
    aule_plan *plan = plan_case(&s);
    assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0); /* another one, current: stays so */
    s.c->run.queue = (void *)(uintptr_t)1;               /* the legacy stream */
    cuda_mock.capturing = 1;
    int calls = cuda_mock.calls;
    for (int i = 0; i < 3; i++) assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuda_mock.forbidden, 0);
    assert_int_equal(cuda_mock.calls - calls, 3 * 3 * 3); /* asked, pushed, called: thrice a run */
    cuda_mock.capturing = 0;
    assert_int_equal(cuCtxGetCurrent(&now), 0);
    assert_ptr_equal(now, context);
    assert_ptr_equal(cuda_mock.launches[5].stream, s.c->run.queue);
    assert_int_equal(cuda_mock.launch_count, 6);
    assert_int_equal(cuCtxDestroy_v2(context), 0);
    fetch(&s);
    assert_true(case_is_right(s.c));
    (void)stream;
    aule_plan_free(plan);
    close_all(&s);
}

/* Whatever is called, the caller's current context is what it was; and a context of the caller's is used if it is given. */
static void test_contexts(void **state)
{
    (void)state;
    Setup s;
    MockContext mine, other, now;
    void *stream;
    aule_device *device = NULL;
    aule_error *error = NULL;
    assert_int_equal(cuCtxCreate_v2(&mine, 0, 1), 0);
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), 0);
    open_on(&s, "cuda:1", mine);
    assert_int_equal(cuda_mock.contexts, 0); /* no primary context */
    s.c->run.queue = stream;
    run_case(&s);
    assert_int_equal(aule_device_synchronize(s.device, stream, NULL), AULE_OK);
    fetch(&s);
    assert_true(case_is_right(s.c));
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    aule_device_options options = {.struct_size = sizeof options, .context = other};
    expect_error(aule_device_open("cuda:1", &options, &device, &error), &error, AULE_ERROR_DEVICE,
                 "cuda:1: the given context is another device's");
    close_all(&s);
    cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    assert_int_equal(cuCtxDestroy_v2(other), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxDestroy_v2(mine), 0);
    cuCtxGetCurrent(&now);
    assert_null(now);
}

static void test_several_devices(void **state)
{
    (void)state;
    Setup a, b;
    open_on(&a, "cuda:0", NULL);
    open_on(&b, "cuda:1", NULL);
    run_case(&b);
    run_case(&a);
    fetch(&a);
    fetch(&b);
    assert_true(case_is_right(a.c) && case_is_right(b.c));
    a.c->tensors[T_V].device.device_id = 1;
    expect_plan_error(a.attention, a.device, a.c, AULE_ERROR_TENSOR,
                      "v: it is on cuda:1 (DLPack type 2), expected cuda:0 (DLPack type 2)");
    a.c->tensors[T_V].device = (DLDevice){kDLCUDAManaged, 0}; /* wherever it is: readable */
    aule_plan_free(plan_case(&a));
    close_all(&a);
    close_all(&b);
}

/* ---- errors */

static void expect_open_error(const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    expect_error(aule_device_open("cuda", NULL, &device, &error), &error, AULE_ERROR_DEVICE, text);
    assert_null(device);
}

static void test_no_device(void **state)
{
    (void)state;
    cuda_mock.devices = 0;
    expect_open_error(
        "cuda is not available: libcuda.so.1 is there, but cuInit: CUDA_ERROR_NO_DEVICE "
        "(no CUDA-capable device is detected)");
    cuda_mock.devices = 2;
    cuda_mock.init = 3;
    expect_open_error("CUDA_ERROR_NOT_INITIALIZED (initialization error): CUDA does not work in a "
                      "process that was forked after it began");
    cuda_mock.init = 999;
    expect_open_error("libcuda.so.1 is there, but cuInit: error 999");
    cuda_mock.init = 0;
    cuda_mock.mode[0] = 2;
    expect_open_error("its compute mode is 'prohibited'");
    cuda_mock.mode[0] = 0;
    cuda_mock.capability[0] = 61;
    expect_open_error("it is older than compute capability 7.0");
    cuda_mock.capability[0] = 70;
    cuda_mock.driver = 9020;
    expect_open_error("its driver is older than CUDA 10.0");
}

static void test_build_errors(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *text;
        aule_status status;
    } rows[] = {
        {"sm_75",
         "cuda:0: the code of 'rows sm_75' is PTX 9.9, the driver (CUDA 12.8) takes PTX up to 8.7: "
         "a newer driver is needed",
         AULE_ERROR_BUILD},
        {"sm_72",
         "cuda:0: cuLinkAddData: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed); 'rows "
         "sm_72', PTX 7.0 on sm_90, CUDA 12.8; "
         "the driver's log: ptxas application ptx input, line 2; fatal   : Parsing error near 'is'",
         AULE_ERROR_BUILD},
    };
    Setup s;
    open_on(&s, "cuda", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.c->call.arch = rows[i].arch;
        expect_plan_error(s.attention, s.device, s.c, rows[i].status, rows[i].text);
    }
    s.c->call.arch = "sm_86"; /* 150 KB of shared memory: here it is, on sm_86 it is not */
    aule_plan *plan = plan_case(&s);
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    assert_int_equal(cuda_mock.launches[0].shared_bytes, 150 << 10);
    aule_plan_free(plan);
    close_all(&s);
    cuda_mock.capability[0] = 86;
    open_on(&s, "cuda", NULL);
    expect_plan_error(
        s.attention, s.device, s.c, AULE_ERROR_UNSUPPORTED,
        "cuda:0: kernel weigh needs 153600 bytes of shared memory, a block has 101376 here");
    close_all(&s);
}

static void test_run_errors(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer;
    open_on(&s, "cuda", NULL);
    expect_error(
        aule_buffer_new(s.device, 1ull << 40, &buffer, &error), &error, AULE_ERROR_MEMORY,
        "cuda:0: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory); 1099511627776 bytes "
        "were asked for, 536870912 of 1073741824 are free");
    aule_plan *plan = plan_case(&s);
    snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "cuLaunchKernel");
    cuda_mock.code = 701;
    expect_error(
        aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
        "cuda:0: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources "
        "requested for launch); kernel weigh, 2 threads a block, 0 bytes of dynamic shared "
        "memory, 77 registers a thread");
    assert_int_equal(aule_plan_run(plan, &s.c->run, &error), AULE_OK); /* nothing was lost */
    s.c->shapes[T_Q][1] = s.c->shapes[T_O][1] = s.c->shapes[T_LSE][1] = 70000;
    aule_plan_free(plan);
    close_all(&s);
}

/* A kernel that reads wild memory takes the context with it: the same error from then on, and closing still works. */
static void test_illegal_address(void **state)
{
    (void)state;
    static const char lost[] =
        "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); a kernel that ran "
        "before has failed, and the device's context is lost with it: nothing runs on this device "
        "any "
        "more in this process";
    Setup s;
    aule_error *error = NULL;
    aule_buffer *buffer;
    open_on(&s, "cuda", NULL);
    s.c->call.arch = "sm_87";
    aule_plan *plan = plan_case(&s);
    aule_status status = aule_plan_run(plan, &s.c->run, &error);
    expect_error(status, &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER, lost);
    expect_error(aule_buffer_new(s.device, 16, &buffer, &error), &error, AULE_ERROR_DRIVER, lost);
    aule_plan_free(plan);
    close_all(&s);
    cuda_mock.modules = cuda_mock.buffers = cuda_mock.streams = 0; /* they went with the context */
    assert_int_equal(cuda_mock.contexts, 0);
}

/* Each of the driver's functions fails once: the error comes through, nothing is left behind, and the next try works. */
static void test_each_function_fails(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuInit",
                                            "cuDevicePrimaryCtxRetain",
                                            "cuStreamCreate",
                                            "cuLinkCreate",
                                            "cuLinkAddData",
                                            "cuLinkComplete",
                                            "cuModuleLoadDataEx",
                                            "cuModuleGetFunction",
                                            "cuFuncGetAttribute",
                                            "cuMemsetD8Async",
                                            "cuLaunchKernel",
                                            "cuCtxPushCurrent",
                                            "cuStreamSynchronize"};
    Setup s;
    open_on(&s, "cuda", NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        aule_error *error = NULL;
        aule_device *device = NULL;
        aule_module *module = NULL;
        bool failed = false;
        snprintf(cuda_mock.fail, sizeof cuda_mock.fail, "%s", functions[i]);
        cuda_mock.code = 1;
        cuda_mock.after = 0;
        for (int try = 0; try < 2; try++) {
            aule_status status = aule_device_open("cuda", NULL, &device, &error);
            if (!status) status = aule_module_from(&sample_module, NULL, &module, &error);
            if (!status)
                status = aule_attention_run(aule_module_attention(module, 0), device, &s.c->call,
                                            &s.c->run, &error);
            if (!status) status = aule_device_synchronize(device, NULL, &error);
            if (try == 1 && status) fail_msg("%s: %s", functions[i], aule_error_message(error));
            if (status) {
                failed = true;
                assert_non_null(strstr(aule_error_message(error), functions[i]));
                assert_non_null(strstr(aule_error_message(error), "CUDA_ERROR_INVALID_VALUE"));
            }
            aule_error_free(error);
            aule_device_close(device);
            aule_module_close(module);
            error = NULL;
            device = NULL;
            module = NULL;
        }
        if (!failed) fail_msg("%s was not called", functions[i]);
        begin(NULL);                                /* no code is kept */
        cuda_mock.contexts = cuda_mock.streams = 1; /* those of s */
        cuda_mock.buffers = TENSORS + 1;
    }
    close_all(&s);
    cuda_mock.contexts = 0;
}

/* ---- code on disk */

static void load_once(int links)
{
    Setup s;
    int before = cuda_mock.links;
    open_on(&s, "cuda", NULL);
    run_case(&s);
    fetch(&s);
    assert_true(case_is_right(s.c));
    close_all(&s);
    assert_int_equal(cuda_mock.links - before, links);
}

static void change_byte(const char *path, off_t at)
{
    char byte;
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void test_code_is_kept(void **state)
{
    (void)state;
    char path[512], folder[80];
    struct stat facts;
    load_once(1);
    load_once(0);
    kept_file(path);
    snprintf(folder, sizeof folder, "%s/aule", cache);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    off_t whole = facts.st_size;
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    static const off_t lengths[] = {0, 5, 31, 32, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) { /* cut */
        assert_int_equal(truncate(path, lengths[i]), 0);
        load_once(1);
        load_once(0);
        kept_file(path);
    }
    for (off_t at = 0; at < whole; at += 11) { /* damaged */
        change_byte(path, at);
        load_once(1);
    }
    load_once(0);
    assert_int_equal(truncate(path, whole + 1), 0);
    load_once(1);
    load_once(0);
}

static void test_code_is_kept_apart(void **state)
{
    (void)state;
    load_once(1);
    cuda_mock.driver = 12090; /* another driver makes other code */
    load_once(1);
    cuda_mock.driver = 12080;
    load_once(0);
    cuda_mock.capability[0] = 100;
    load_once(1);
}

/* A folder that others can write, a file in its place, no folder at all: nothing is kept, and all works. */
static void test_no_cache(void **state)
{
    (void)state;
    char folder[80];
    snprintf(folder, sizeof folder, "%s/aule", cache);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    load_once(1);
    load_once(1);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    load_once(1);
    load_once(1);
    assert_int_equal(unlink(folder), 0);
    close(open(folder, O_WRONLY | O_CREAT, 0600));
    load_once(1);
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    load_once(1);
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("XDG_CACHE_HOME", "relative", 1); /* the base directory specification: to be ignored */
    unsetenv("HOME");
    load_once(1);
    setenv("HOME", cache, 1);
    assert_int_equal(unlink(folder), 0);
    load_once(1);
    load_once(0); /* in ~/.cache/aule */
    if (home) setenv("HOME", home, 1);
    free(home);
}

/* ---- threads */

enum { THREADS = 6 };

typedef struct Worker {
    pthread_t thread;
    Setup *s;
    Case *c;
    bool right;
} Worker;

static void *work(void *given)
{
    Worker *w = given;
    Setup own = *w->s;
    own.c = w->c;
    memset(own.buffers, 0, sizeof own.buffers);
    place(&own);
    w->right = true;
    for (int i = 0; i < 20; i++) {
        aule_error *error = NULL;
        w->right = w->right && aule_attention_run(own.attention, own.device, &own.c->call,
                                                  &own.c->run, &error) == AULE_OK;
        aule_error_free(error);
    }
    fetch(&own);
    w->right = w->right && case_is_right(own.c);
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(own.buffers[t]);
    aule_buffer_free(own.workspace);
    return NULL;
}

/* Many threads, two devices, one module: code is loaded once for each device. */
static void test_threads(void **state)
{
    (void)state;
    Setup s[2];
    Worker workers[THREADS];
    open_on(&s[0], "cuda:0", NULL);
    open_on(&s[1], "cuda:1", NULL);
    aule_module_close(s[1].module);
    s[1].module = NULL;
    s[1].attention = s[0].attention;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (Worker){.s = &s[i % 2], .c = case_new()};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_true(workers[i].right);
        case_free(workers[i].c);
    }
    assert_int_equal(cuda_mock.loads, 2);
    close_all(&s[0]);
    close_all(&s[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_devices),
        TEST(test_result),
        TEST(test_choice),
        TEST(test_capture),
        TEST(test_contexts),
        TEST(test_several_devices),
        TEST(test_no_device),
        TEST(test_build_errors),
        TEST(test_run_errors),
        TEST(test_illegal_address),
        TEST(test_each_function_fails),
        TEST(test_code_is_kept),
        TEST(test_code_is_kept_apart),
        TEST(test_no_cache),
        TEST(test_threads),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_cache();
    return failed;
}
