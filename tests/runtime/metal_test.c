/* The Metal backend on the double of Apple's libraries (tests/metal): the sample's kernels, written in MSL by hand, give the formula's numbers,
 * each call that can fail does so in turn, and nothing of Metal's is left. */
#include "metal_case.h"
#include "metal_double.h"

#include "../../runtime/backends/metal.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// clang-format off
static const char code[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "struct sample_slots {\n"
    "    device const float *q;\n    device const float *k;\n    device const float *v;\n    device const int *lengths;\n"
    "    device const float *slope;\n    device float *o;\n    device float *lse;\n    device float *sums;\n"
    "    long qs[4];\n    long ks[4];\n    long vs[4];\n    long os[4];\n    long ls[3];\n"
    "    alignas(8) int H;\n    alignas(8) int Hk;\n    alignas(8) long T;\n    alignas(8) float scale;\n    alignas(8) int window;\n"
    "    alignas(8) int flag;\n    alignas(8) long seed;\n    alignas(8) int present;\n    alignas(8) int S;\n"
    "};\n"
    "#define ARGS constant sample_slots &s [[buffer(0)]], threadgroup uchar *shared [[threadgroup(0)]], \\\n"
    "    uint3 at [[threadgroup_position_in_grid]], uint3 grid_blocks [[threadgroups_per_grid]], \\\n"
    "    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]\n"
    "[[max_total_threads_per_threadgroup(32)]] kernel void weigh(ARGS)\n"
    "{\n"
    "    if (lane != 0) return;\n"
    "    const long x = at[0], y = at[1], z = at[2], head = y / (s.H / s.Hk);\n"
    "    const long keys = s.lengths[z] < s.T ? s.lengths[z] : s.T;\n"
    "    float sum = 0, acc[4] = {0, 0, 0, 0};\n"
    "    for (long j = 0; j < keys; j++) {\n"
    "        if (j - x >= s.window || x - j >= s.window) continue;\n"
    "        float dot = 0;\n"
    "        for (int d = 0; d < 8; d++)\n"
    "            dot += s.q[z * s.qs[0] + y * s.qs[1] + x * s.qs[2] + d * s.qs[3]] *\n"
    "                   s.k[z * s.ks[0] + head * s.ks[1] + j * s.ks[2] + d * s.ks[3]];\n"
    "        const float weight = exp(dot * s.scale + s.slope[y]);\n"
    "        sum += weight;\n"
    "        for (int e = 0; e < 4; e++)\n"
    "            acc[e] += weight * s.v[z * s.vs[0] + head * s.vs[1] + j * s.vs[2] + e * s.vs[3]];\n"
    "    }\n"
    "    s.sums[(z * s.H + y) * s.S + x] += sum;\n"
    "    for (int e = 0; e < 4; e++) s.o[z * s.os[0] + y * s.os[1] + x * s.os[2] + e * s.os[3]] = acc[e];\n"
    "    if (s.present) s.lse[z * s.ls[0] + y * s.ls[1] + x * s.ls[2]] = log(sum);\n"
    "}\n"
    "[[max_total_threads_per_threadgroup(32)]] kernel void divide(ARGS)\n"
    "{\n"
    "    if (lane != 0) return;\n"
    "    const long x = at[0], y = at[1], z = at[2];\n"
    "    const float sum = s.sums[(z * s.H + y) * s.S + x];\n"
    "    for (int e = 0; e < 4; e++) {\n"
    "        device float *o = &s.o[z * s.os[0] + y * s.os[1] + x * s.os[2] + e * s.os[3]];\n"
    "        *o = sum > 0 ? *o / sum : 0;\n"
    "    }\n"
    "}\n";
// clang-format on

/* The sample's module with MSL instead of PTX. */
static CaseModule sample;
static aule_launch_v1 launches[2];

/* The same with a word in its comment that the backend takes for matrices. */
static char with_matrices[sizeof code + 32];

static void make_module(void) { metal_case_module(&sample, launches, code); }

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

static void expect_nothing_left(void)
{
    assert_string_equal(metal_double()->broken, "");
    assert_int_equal(metal_double()->objects, 0);
    assert_int_equal(metal_double()->pools, 0);
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
    expect_nothing_left();
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
    expect_nothing_left();
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
    expect_nothing_left();
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
    snprintf(with_matrices, sizeof with_matrices, "// thread_elements()\n%s", code);
    use_code(use ? with_matrices : code);
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
        expect_nothing_left();
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
    expect_nothing_left();
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
    expect_nothing_left();
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
    expect_nothing_left();
}

/* A device that a plan runs on again after a launch failed on it. */
static void test_a_failed_launch_is_told_once(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    metal_double()->gpu_fails = 1;
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER,
                 "a command buffer failed");
    metal_double()->gpu_fails = 0;
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    close_case(&s);
    expect_nothing_left();
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
    expect_nothing_left();
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
    char text[sizeof code + 128];
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const char *at = strstr(code, cases[n].before);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - code), code, cases[n].mistake, at);
        use_code(text);
        expect_refused(&(int){0}, 0, AULE_ERROR_BUILD, cases[n].said);
    }
    use_code(code);
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

/* ---- queues and command buffers of the caller's */

typedef struct Caller {
    MetalApi m;
    MetalId all, device, queue, commands;
    Setup s;
} Caller;

static void begin_caller(Caller *c, uint32_t kind)
{
    AuText why = {.memory = rt_memory(NULL)};
    open_case(&c->s);
    assert_true(rt_metal_begin(&c->m, &why));
    c->all = c->m.MTLCopyAllDevices();
    c->device = METAL_CALL(&c->m, MetalId, (MetalId, MetalSel, uint64_t), c->all, object_at, 0);
    c->queue = METAL_GET(&c->m, MetalId, c->device, new_queue);
    const aule_device_options options = {
        .struct_size = sizeof options, .queue_kind = kind, .context = c->device};
    assert_int_equal(aule_device_open("metal:0", &options, &c->s.device, NULL), AULE_OK);
    assert_int_equal(
        case_place(c->s.c, c->s.device, FORWARD_TENSORS, c->s.buffers, &c->s.workspace, NULL),
        AULE_OK);
    assert_int_equal(aule_plan_new(aule_module_attention(c->s.module, 0), c->s.device,
                                   &c->s.c->call, &c->s.plan, NULL),
                     AULE_OK);
}

static void end_caller(Caller *c)
{
    METAL_GET(&c->m, void, c->queue, release);
    METAL_GET(&c->m, void, c->all, release);
    close_case(&c->s);
    expect_nothing_left();
}

static void test_queue_of_the_caller(void **state)
{
    Caller c;
    (void)state;
    begin_caller(&c, AULE_QUEUE_DEFAULT);
    c.s.c->run.queue = c.queue;
    assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
    assert_int_equal(aule_device_synchronize(c.s.device, c.queue, NULL), AULE_OK);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    end_caller(&c);
}

/* Two runs and what the caller puts between them are one command buffer, which nobody but the caller commits. */
static void test_commands_of_the_caller(void **state)
{
    Caller c;
    aule_error *error = NULL;
    aule_event *event = NULL;
    (void)state;
    begin_caller(&c, AULE_QUEUE_RECORDED);
    void *pool = c.m.objc_autoreleasePoolPush();
    c.s.c->run.queue = c.commands = METAL_GET(&c.m, MetalId, c.queue, commands);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
        METAL_GET(&c.m, void, METAL_GET(&c.m, MetalId, c.commands, compute), end);
    }
    expect_error(aule_device_synchronize(c.s.device, c.commands, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "a command buffer of the caller's cannot be waited for");
    expect_error(aule_event_record(c.s.device, c.commands, &event, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "no event can be recorded in a command buffer");
    METAL_GET(&c.m, void, c.commands, commit);
    METAL_GET(&c.m, void, c.commands, wait);
    assert_int_equal(METAL_GET(&c.m, uint64_t, c.commands, status), METAL_STATUS_COMPLETED);
    expect_error(aule_plan_run(c.s.plan, &c.s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "the caller's command buffer is committed");
    c.m.objc_autoreleasePoolPop(pool);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    /* copies and what names no queue go on the device's own */
    c.s.c->run.queue = NULL;
    case_forget(c.s.c);
    assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
    assert_int_equal(aule_device_synchronize(c.s.device, NULL, NULL), AULE_OK);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    end_caller(&c);
}

static void test_kinds_of_queues(void **state)
{
    aule_error *error = NULL;
    aule_device *device = NULL;
    const aule_device_options options = {.struct_size = sizeof options,
                                         .queue_kind = AULE_QUEUE_COMMANDS};
    (void)state;
    expect_error(aule_device_open("metal:0", &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "metal has 0 (MTLCommandQueue) and AULE_QUEUE_RECORDED (MTLCommandBuffer)");
    expect_nothing_left();
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
        cmocka_unit_test(test_a_failed_launch_is_told_once),
        cmocka_unit_test(test_devices_that_cannot),
        cmocka_unit_test(test_launches_beyond_limits),
        cmocka_unit_test(test_queue_of_the_caller),
        cmocka_unit_test(test_commands_of_the_caller),
        cmocka_unit_test(test_kinds_of_queues),
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
