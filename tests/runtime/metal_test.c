/* The Metal backend on the double of Apple's libraries (tests/metal): the sample's kernels, written in MSL by hand, give the formula's numbers,
 * each call that can fail does so in turn, and nothing of Metal's is left. */
#include "metal_case.h"
#include "metal_double.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The sample's module with MSL instead of PTX. */
static CaseModule sample;
static aule_launch_v1 launches[2];

/* The same with a word in its comment that the backend takes for matrices. */
static char with_matrices[sizeof metal_case_code + 32];

static void make_module(void) { metal_case_module(&sample, launches, metal_case_code); }

typedef OnDevice Setup;

static aule_status run_all(Setup *s, aule_error **error)
{
    return on_device_run(s, "metal:0", error);
}

static void open_case(Setup *s) { on_device_begin(s, &sample.module, FORWARD_TENSORS); }
static void close_case(Setup *s) { on_device_end(s); }

/* In memory where there is such a place: hundreds of files are written to the disk, each waited for. */
static char folder[] = "/dev/shm/aule-metal-XXXXXX";

static void in_folder(const char *command)
{
    char text[320];
    snprintf(text, sizeof text, "mkdir -p -m 700 %s/aule && cd %s/aule && %s", folder, folder,
             command);
    assert_int_equal(system(text), 0);
}

/* How many files have the word in their names; they may go. */
static int files_with(const char *word, bool remove)
{
    char path[320];
    int count = 0;
    snprintf(path, sizeof path, "%s/aule", folder);
    DIR *opened = opendir(path);
    for (struct dirent *e; opened && (e = readdir(opened));) {
        if (!strstr(e->d_name, word)) continue;
        count++;
        if (remove) unlinkat(dirfd(opened), e->d_name, 0);
    }
    if (opened) closedir(opened);
    return count;
}

static void test_result(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    assert_true(case_is_right(s.c));
    close_case(&s);
    metal_case_nothing_left();
}

/* ---- threads */

enum { THREADS = 4, OFTEN = 3 };

typedef struct Worker {
    Setup s;
    pthread_t thread;
    bool right;
} Worker;

static void *run_often(void *given)
{
    Worker *w = given;
    w->right = true;
    for (int n = 0; w->right && n < OFTEN; n++) {
        open_case(&w->s);
        w->right = !run_all(&w->s, NULL) && case_is_right(w->s.c);
        close_case(&w->s);
    }
    return NULL;
}

/* Each opens the device, loads, runs and closes; pools are a thread's own. */
static void test_threads(void **state)
{
    (void)state;
    static Worker workers[THREADS];
    for (int n = 0; n < THREADS; n++)
        assert_int_equal(pthread_create(&workers[n].thread, NULL, run_often, &workers[n]), 0);
    for (int n = 0; n < THREADS; n++) pthread_join(workers[n].thread, NULL);
    for (int n = 0; n < THREADS; n++) assert_true(workers[n].right);
    metal_case_nothing_left();
}

/* From the end of one event to the begin of the other: the command buffers between them, a microsecond each of the double's. */
static void test_elapsed(void **state)
{
    (void)state;
    Setup s;
    uint64_t nanoseconds = 1;
    open_case(&s);
    assert_int_equal(run_all(&s, NULL), AULE_OK);
    assert_int_equal(aule_event_elapsed(s.first, s.last, &nanoseconds, NULL), AULE_OK);
    assert_int_equal(nanoseconds, 3000); /* a memset and two launches */
    assert_int_equal(aule_event_elapsed(s.last, s.last, &nanoseconds, NULL), AULE_OK);
    assert_int_equal(nanoseconds, 0);
    close_case(&s);
    metal_case_nothing_left();
}

/* ---- matrices: the device is asked where their elements are */

static void use_code(const char *text)
{
    for (uint32_t n = 0; n < sample.attention.variant_count; n++) {
        aule_variant_v1 *v = &sample.variants[n];
        if (strcmp(v->target, "metal") != 0) continue;
        v->code = text;
        v->code_bytes = strlen(text);
    }
}

static void use_matrices(bool use)
{
    snprintf(with_matrices, sizeof with_matrices, "// thread_elements()\n%s", metal_case_code);
    use_code(use ? with_matrices : metal_case_code);
}

/* What is said of calls that a message does not name. */
static const struct {
    const char *call, *says;
} words[] = {
    {"MTLCopyAllDevices", "Metal has no devices"},
    {"MTLCopyAllDevices", "the device is gone"}, /* between two calls */
    {"newBufferWithLength:options:", "no buffer of "},
    {"contents", "private storage"},
    {"stringWithUTF8String:", "cannot be handed over"},
    {"MTLCompileOptions", "the source cannot be handed over"},
    {"MTLComputePipelineDescriptor", ": no cause given"},
    {"newLibraryWithSource:options:error:", "newLibraryWithSource of 'rows sm_80': told to fail"},
    {"newLibraryWithSource:options:error:", "of 'places of a matrix': told to fail"},
    {"newFunctionWithName:", "the code has no kernel "},
    {"newComputePipelineStateWithDescriptor:options:reflection:error:", ": told to fail"},
    {"commandBuffer", "commandBuffer: gave none"},
    {"commit", "a command buffer failed: the GPU was told to fail"},
};

/* Without an archive, or without one that is kept, pipelines are compiled. */
static bool may_be_silent(const char *call)
{
    static const char *const calls[] = {
        "MTLBinaryArchiveDescriptor",
        "newBinaryArchiveWithDescriptor:error:",
        "addComputePipelineFunctionsWithDescriptor:error:",
        "serializeToURL:error:",
        "fileURLWithPath:",
        "arrayWithObject:",
        "processInfo",
        "operatingSystemVersionString",
        "stringWithUTF8String:", /* of a path */
    };
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        if (strcmp(calls[n], call) == 0) return true;
    return false;
}

static bool tells(const char *message, const char *call)
{
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (strcmp(words[n].call, call) == 0 && strstr(message, words[n].says)) return true;
    return strstr(message, call) != NULL;
}

/* The n-th call that can fail does, for every n there is; with archives that are kept, or without. */
static void fail_in_turn(bool kept)
{
    MetalDouble *m = metal_double();
    int n = 1, silent = 0;
    for (bool done = false; !done; n++) {
        Setup s;
        aule_error *error = NULL;
        open_case(&s);
        if (!kept) files_with("metal-", true);
        m->calls = 0;
        m->failed = NULL;
        m->fail_at = n;
        const aule_status status = run_all(&s, &error);
        done = !m->failed; /* there are fewer calls */
        if (done || (!status && may_be_silent(m->failed))) {
            assert_true(status == AULE_OK && case_is_right(s.c));
            silent += !done;
        } else if (!status || !tells(aule_error_message(error), m->failed)) {
            fail_msg("call %d, %s: %s", n, m->failed,
                     status ? aule_error_message(error) : "nothing is told");
        }
        assert_int_equal(files_with(".part", false), 0);
        aule_error_free(error);
        m->fail_at = 0;
        close_case(&s);
        metal_case_nothing_left();
    }
    /* seven buffers, each with its bytes; a library, two kernels, five command buffers */
    assert_true(n > 30 && silent >= (kept ? 6 : 9));
}

static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    fail_in_turn(false);
    fail_in_turn(true);
}

/* Metal does not say why there is no buffer: the message has what was asked for and what the device has. */
static void test_no_memory(void **state)
{
    (void)state;
    MetalDouble *m = metal_double();
    aule_device *device;
    aule_buffer *buffer;
    aule_error *error = NULL;
    assert_int_equal(aule_device_open("metal:0", NULL, &device, &error), AULE_OK);
    m->calls = 0;
    m->fail_at = 1;
    expect_error(aule_buffer_new(device, 1u << 20, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "no buffer of 1048576 bytes, the device's working set is 8589934592 at most");
    m->fail_at = 0;
    aule_device_close(device);
    metal_case_nothing_left();
}

/* ---- machine code, on disk */

static void expect_found(int built, int found)
{
    MetalDouble *m = metal_double();
    m->built = m->found = 0;
    test_result(NULL);
    assert_int_equal(m->built, built);
    assert_int_equal(m->found, found);
    assert_int_equal(files_with(".part", false), 0);
}

/* Two kernels in one archive, each compiled for it once. */
static void test_archives_are_kept(void **state)
{
    (void)state;
    in_folder("rm -f metal-*");
    expect_found(2, 2);
    in_folder("test $(ls metal-* | wc -l) = 1");
    expect_found(0, 2);
    metal_double()->system = "Version 14.0 of the double"; /* another compiler */
    expect_found(2, 2);
    expect_found(0, 2);
    in_folder("test $(ls metal-* | wc -l) = 2");
    metal_double()->system = NULL;
    expect_found(0, 2);
    in_folder(
        "for f in metal-*; do truncate -s 45 $f; done"); /* cut: the double tells who gives it to Metal */
    expect_found(2, 2);
    expect_found(0, 2);
    in_folder(
        "for f in metal-*; do printf x | dd of=$f bs=1 seek=45 conv=notrunc 2>/dev/null; done");
    expect_found(2, 2);
    expect_found(0, 2);
    in_folder("rm -f metal-*; chmod 500 ."); /* nothing can be written, unless by root */
    test_result(NULL);
    in_folder("chmod 700 .; rm -f metal-*");
    setenv("AULE_CACHE_MAX", "0", 1); /* nothing is kept, nor looked for */
    expect_found(2, 0);
    in_folder("test $(ls | grep -c metal-) = 0");
    unsetenv("AULE_CACHE_MAX");
}

/* Elements where kernels expect them: the device is asked once, whatever is loaded afterwards, and what fails while it is asked is told. */
static void test_matrices(void **state)
{
    (void)state;
    use_matrices(true);
    test_result(state);
    test_every_call_fails_in_turn(state);
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    metal_double()->turned = 1; /* nobody asks again */
    aule_plan *again;
    assert_int_equal(
        aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &again, NULL),
        AULE_OK);
    aule_plan_free(again);
    metal_double()->turned = 0;
    close_case(&s);
    metal_case_nothing_left();
    use_matrices(false);
}

/* ---- memory of the process */

static void expect_host(aule_device *device, void *memory, uint64_t bytes, aule_status status,
                        const char *text)
{
    aule_buffer *buffer = NULL;
    aule_error *error = NULL;
    expect_error(aule_buffer_host(device, memory, bytes, &buffer, &error), &error, status, text);
    assert_null(buffer);
}

/* Whole pages, which the buffer has where they are and leaves to their owner. */
static void test_host_memory(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory;
    uint32_t seen = 0;
    aule_device *device, *cpu;
    aule_buffer *buffer;
    assert_int_equal(posix_memalign((void **)&memory, page, 2 * page), 0);
    assert_int_equal(aule_device_open("metal:0", NULL, &device, NULL), AULE_OK);
    assert_int_equal(aule_buffer_host(device, memory, 2 * page, &buffer, NULL), AULE_OK);
    assert_int_equal(aule_buffer_bytes(buffer), 2 * page);
    memcpy(memory + page, &(uint32_t){0x01020304}, 4);
    assert_int_equal(aule_buffer_download(buffer, page, &seen, 4, NULL), AULE_OK);
    assert_int_equal(seen, 0x01020304);
    assert_int_equal(aule_buffer_upload(buffer, 8, &(uint32_t){5}, 4, NULL), AULE_OK);
    assert_int_equal(memory[8], 5);
    aule_buffer_free(buffer);
    memory[0] = 1; /* still there */
    expect_host(device, memory + 64, page, AULE_ERROR_USAGE, "are no whole pages of ");
    expect_host(device, memory, page + 64, AULE_ERROR_USAGE, "are no whole pages of ");
    expect_host(device, NULL, page, AULE_ERROR_USAGE, "must not be NULL");
    metal_double()->calls = 0;
    metal_double()->fail_at = 1;
    expect_host(device, memory, page, AULE_ERROR_UNSUPPORTED,
                "newBufferWithBytesNoCopy: gave none");
    metal_double()->fail_at = 0;
    aule_device_close(device);
    assert_int_equal(aule_device_open("cpu", NULL, &cpu, NULL), AULE_OK);
    expect_host(cpu, memory, page, AULE_ERROR_UNSUPPORTED, "is no buffer on cpu");
    aule_device_close(cpu);
    free(memory);
    metal_case_nothing_left();
}

static void expect_refused(int *what, int value, aule_status status, const char *text)
{
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    *what = value;
    expect_error(run_all(&s, &error), &error, status, text);
    *what = 0;
    close_case(&s);
    metal_case_nothing_left();
}

/* What the compiler complains of is told with the schedule, the kernel and the script's line, where the text has lines. */
static void test_code_that_is_not_taken(void **state)
{
    (void)state;
    static const struct {
        const char *before, *mistake, *said;
    } cases[] = {
        {"    const float sum = s.",
         "    // sample.attn:7\n    // not one: 8\n    s.missing = 1;\n",
         "metal:0: newLibraryWithSource of 'rows sm_80', in divide, of sample.attn:7: "},
        {"    const float sum = s.", "    s.missing = 1;\n",
         "metal:0: newLibraryWithSource of 'rows sm_80', in divide: "}, /* the line before is weigh's */
        {"    float sum = 0, acc", "    // <std>:13\n    s.missing = 1;\n",
         "metal:0: newLibraryWithSource of 'rows sm_80', in weigh, of <std>:13: "},
        {"#define ARGS", "#error text\n", "metal:0: newLibraryWithSource of 'rows sm_80': "},
    };
    char text[sizeof metal_case_code + 128];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const char *at = strstr(metal_case_code, cases[n].before);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - metal_case_code), metal_case_code,
                 cases[n].mistake, at);
        use_code(text);
        expect_refused(&(int){0}, 0, AULE_ERROR_BUILD, cases[n].said);
    }
    use_code(metal_case_code);
}

/* Elements elsewhere: code with matrices is refused by name, other code runs. */
static void test_matrices_of_other_places(void **state)
{
    MetalDouble *m = metal_double();
    use_matrices(true);
    expect_refused(
        &m->turned, 1, AULE_ERROR_UNSUPPORTED,
        "wants matrices of a simdgroup as M1 to M4 have them: element 1 of thread 0 of a "
        "matrix of float is not at row 0, column 1, but at row 1, column 0");
    use_matrices(false);
    m->turned = 1;
    test_result(state);
    m->turned = 0;
}

/* Each system compiles its own language, which a device tells. */
static void test_languages(void **state)
{
    static const char *const features[] = {"apple7 metal3", "apple7 metal3 msl31",
                                           "apple7 metal3 msl31 msl32"};
    aule_device *device;
    for (int n = 0; n < 4; n++) {
        metal_double()->macos = 13 + n;
        test_result(state);
        assert_int_equal(aule_device_open("metal:0", NULL, &device, NULL), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->features, features[n < 3 ? n : 2]);
        aule_device_close(device);
    }
    metal_double()->macos = 0;
}

/* Newer families run what is compiled for older ones, and tell what they are. */
static void test_families(void **state)
{
    static const char *const features[] = {"apple7 metal3 msl31", "apple7 metal3 msl31",
                                           "apple9 apple7 metal3 msl31"};
    aule_device *device;
    for (int n = 0; n < 4; n++) {
        metal_double()->family = 7 + n;
        test_result(state);
        assert_int_equal(aule_device_open("metal:0", NULL, &device, NULL), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->features, features[n < 2 ? n : 2]);
        aule_device_close(device);
    }
    metal_double()->family = 0;
}

static void test_devices_that_cannot(void **state)
{
    (void)state;
    MetalDouble *m = metal_double();
    expect_refused(&m->family, 6, AULE_ERROR_DEVICE, "its family is older than Apple7 (M1)");
    expect_refused(&m->macos, 12, AULE_ERROR_DEVICE, "it has no Metal 3: macOS 13 is needed");
    expect_refused(&m->width, 16, AULE_ERROR_UNSUPPORTED, "simdgroups of 16 threads");
    expect_refused(&m->most_threads, 16, AULE_ERROR_UNSUPPORTED,
                   "weigh has blocks of 32 x 1 x 1 threads, its registers leave room for 16");
}

/* What Metal would end the process for is refused before an encoder has it. */
static void test_launches_beyond_limits(void **state)
{
    (void)state;
    int *shared = (int *)&launches[0].shared_bytes, *deep = (int *)&launches[1].block[2];
    expect_refused(shared, 32769, AULE_ERROR_UNSUPPORTED,
                   "weigh needs 32784 bytes of threadgroup memory, the device has 32768");
    expect_refused(deep, 33, AULE_ERROR_UNSUPPORTED, "divide has blocks of 32 x 1 x 33 threads");
}

int main(void)
{
    make_module();
    metal_double()->keeps = 1;
    if (access("/dev/shm", W_OK) != 0) strcpy(folder, "/tmp/aule-metal-XXXXXX");
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0 ||
        unsetenv("AULE_CACHE_MAX") != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_elapsed),
        cmocka_unit_test(test_every_call_fails_in_turn),
        cmocka_unit_test(test_archives_are_kept),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_devices_that_cannot),
        cmocka_unit_test(test_launches_beyond_limits),
        cmocka_unit_test(test_languages),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_code_that_is_not_taken),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_matrices_of_other_places),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    in_folder("rm -f metal-*; cd ..; rmdir aule; cd ..; rmdir $OLDPWD");
    return failed;
}
