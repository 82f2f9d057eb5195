/* The Vulkan backend on a mock of loader and driver (vulkan_mock.h): results with memory that the host sees and that it does not,
 * what devices lack, every call that fails in turn, and that nothing of the driver's is left. */
#include "vulkan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/backends/vulkan_api.h"

typedef OnDevice Setup;

static aule_status run_all(Setup *s, aule_error **error)
{
    return on_device_run(s, "vulkan:0", error);
}

static void open_case(Setup *s) { on_device_begin(s, vulkan_case_module(), TENSORS); }
static void close_case(Setup *s) { on_device_end(s); }

static void expect_right(void)
{
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    assert_true(case_is_right(s.c));
    assert_int_equal(aule_device_get_info(s.device)->units, 7);
    close_case(&s);
    expect_nothing_left();
}

static void expect_wrong(aule_status status, const char *text)
{
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    aule_status found = run_all(&s, &error);
    expect_error(found, &error, status, text);
    close_case(&s);
    expect_nothing_left();
}

/* ---- results */

static void test_result(void **state)
{
    (void)state;
    vulkan_mock_reset();
    expect_right();
}

/* Through the buffer that both see. */
static void test_memory_of_the_device_alone(void **state)
{
    (void)state;
    vulkan_mock_reset();
    vulkan_mock.hidden = true;
    expect_right();
}

/* Forward is two launches of 5 x 4 x 2 blocks, with one of the probe and one that clears the workspace before them. */
static void test_grids_beyond_the_limit(void **state)
{
    (void)state;
    vulkan_mock_reset();
    expect_right();
    assert_int_equal(vulkan_mock.dispatches, 4);
    vulkan_mock_reset();
    vulkan_mock.most_blocks = 2;
    expect_right();
    assert_true(vulkan_mock.dispatches > 4);
}

/* ---- what the driver made, on disk */

static void in_folder(const char *command)
{
    char text[320];
    snprintf(text, sizeof text, "cd %s/aule && %s", vulkan_case_folder(), command);
    assert_int_equal(system(text), 0);
}

static void expect_cached(int count)
{
    vulkan_mock.cached = 0;
    expect_right();
    assert_int_equal(vulkan_mock.cached, count);
}

/* Three modules: the probe's, that of zeros and the sample's. */
static void test_pipelines_are_kept(void **state)
{
    (void)state;
    vulkan_mock_reset();
    expect_right();
    in_folder("rm -f vulkan-*");
    expect_cached(0);
    expect_cached(3);
    in_folder("test $(ls vulkan-* | wc -l) = 3");
    vulkan_mock.driver = 5; /* another one */
    expect_cached(0);
    expect_cached(3);
    vulkan_mock.driver = 0;
    in_folder("for f in vulkan-*; do truncate -s 40 $f; done"); /* cut */
    expect_cached(0);
    expect_cached(3);
    in_folder(
        "for f in vulkan-*; do printf x | dd of=$f bs=1 seek=70 conv=notrunc 2>/dev/null; done");
    expect_cached(0);
    expect_cached(3);
}

/* ---- what there is not */

static void expect_status(const char *id, aule_status expected, const char *text)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    aule_status status = aule_device_open(id, NULL, &device, &error);
    expect_error(status, &error, expected, text);
    expect_nothing_left();
}

static void expect_absent(const char *id, const char *text)
{
    expect_status(id, AULE_ERROR_DEVICE, text);
}

static void expect_usage(const char *id, const char *text)
{
    expect_status(id, AULE_ERROR_USAGE, text);
}

static void test_devices(void **state)
{
    (void)state;
    vulkan_mock_reset();
    expect_absent("vulkan:1", "there is no vulkan:1, this machine has vulkan:0 alone");
    vulkan_mock.devices = 3;
    expect_absent("vulkan:3", "there is no vulkan:3, this machine has vulkan:0 to vulkan:2");
    expect_absent("vulkan:x", "'vulkan:x' is not a device");
    vulkan_mock_reset();
    vulkan_mock.loader = 1 << 22 | 1 << 12;
    expect_absent("vulkan:0", "the loader libvulkan.so.1 is older than Vulkan 1.2");
    vulkan_mock_reset();
    vulkan_mock.version = 1 << 22 | 1 << 12;
    expect_absent("vulkan:0", "it has Vulkan 1.1, 1.2 is needed");
    vulkan_mock_reset();
    setenv("AULE_VULKAN_VALIDATION", "1", 1);
    expect_absent("vulkan:0", "VK_LAYER_KHRONOS_validation, which is not installed");
    setenv("AULE_VULKAN_VALIDATION", "yes", 1);
    expect_usage("vulkan:0", "AULE_VULKAN_VALIDATION is 'yes', expected 1 or nothing");
    setenv("AULE_BACKEND", "vulkan,cpu", 1); /* and nothing falls back to cpu */
    expect_usage(NULL, "AULE_VULKAN_VALIDATION is 'yes', expected 1 or nothing");
    unsetenv("AULE_BACKEND");
    setenv("AULE_VULKAN_VALIDATION", "", 1);
    aule_device *device;
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, NULL), AULE_OK);
    aule_device_close(device);
    unsetenv("AULE_VULKAN_VALIDATION");
}

/* What the loader found is named; one that found drivers and took none says the same as one that found none. */
static void test_drivers(void **state)
{
    (void)state;
    static const char *const places[] = {"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME",
                                         "XDG_DATA_DIRS"};
    char one[96], lost[96], text[200];
    unsetenv("VK_ICD_FILENAMES"); /* all tests run without the machine's drivers */
    unsetenv("VK_ADD_DRIVER_FILES");
    snprintf(one, sizeof one, "%s/aule/one.json", vulkan_case_folder());
    snprintf(lost, sizeof lost, "%s/aule/lost.json", vulkan_case_folder());
    in_folder(
        "mkdir -p vulkan/icd.d && for n in 1 2 3 4 5 6; do echo > vulkan/icd.d/$n.json; done; "
        "echo > one.json; echo > vulkan/icd.d/readme.txt");
    vulkan_mock_reset();
    vulkan_mock.fail = "vkCreateInstance";
    vulkan_mock.code = VK_ERROR_INCOMPATIBLE_DRIVER;
    setenv("VK_DRIVER_FILES", one, 1);
    snprintf(text, sizeof text,
             "libvulkan.so.1 finds %s, but can use none of these drivers; with "
             "VK_LOADER_DEBUG=error it says why",
             one);
    expect_absent("vulkan:0", text);
    vulkan_mock.fail = NULL;
    vulkan_mock.devices = 0;
    snprintf(text, sizeof text, "finds %s, but none of these drivers has a device", one);
    expect_absent("vulkan", text);
    setenv("VK_DRIVER_FILES", lost, 1);
    expect_absent("vulkan", "VK_DRIVER_FILES names no driver's manifest (.json) that can be read");
    unsetenv("VK_DRIVER_FILES");
    /* Folders; what is installed on this machine comes beside them. */
    snprintf(text, sizeof text, "%s/aule", vulkan_case_folder());
    for (uint32_t n = 0; n < 4; n++) {
        setenv(places[n], text, 1);
        expect_absent("vulkan", "aule/vulkan/icd.d/");
        expect_absent("vulkan", " more, but none of these drivers has a device");
        unsetenv(places[n]);
    }
}

static void test_below_the_floor(void **state)
{
    (void)state;
    static const char *const names[MOCK_FEATURES] = {
        [MOCK_BUFFER_ADDRESS] = "bufferDeviceAddress",
        [MOCK_MEMORY_MODEL] = "vulkanMemoryModel",
        [MOCK_TIMELINE] = "timelineSemaphore",
        [MOCK_INT64] = "shaderInt64",
        [MOCK_INT16] = "shaderInt16",
        [MOCK_INT8] = "shaderInt8",
        [MOCK_STORAGE_16] = "storageBuffer16BitAccess",
        [MOCK_STORAGE_8] = "storageBuffer8BitAccess",
        [MOCK_KEEPS_SPECIAL] = "shaderSignedZeroInfNanPreserveFloat32",
        [MOCK_ROUNDS_EVEN] = "shaderRoundingModeRTEFloat32",
        [MOCK_QUEUE] = "a queue that computes"};
    for (uint32_t n = 0; n < MOCK_FEATURES; n++) {
        vulkan_mock_reset();
        vulkan_mock.lacks = 1u << n;
        char text[96] = "vulkan:0 is not available: it lacks ";
        strcat(text, names[n]);
        expect_absent("vulkan:0", text);
    }
    vulkan_mock_reset();
    vulkan_mock.lacks = 1u << MOCK_INT64 | 1u << MOCK_INT8;
    expect_absent("vulkan:0", "it lacks shaderInt64, shaderInt8");
}

/* Whatever its number is: by the UUID, as people and tools write it. */
static void test_uuids(void **state)
{
    (void)state;
    static const char *const names[] = {"vulkan:00102030-4050-6070-8090-a0b0c0d0e0f0",
                                        "vulkan:00102030405060708090A0B0C0D0E0F0",
                                        "vulkan:GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"};
    aule_device *device = NULL;
    aule_error *error = NULL;
    vulkan_mock_reset();
    vulkan_mock.devices = 2;
    for (int n = 0; n < 3; n++) {
        assert_int_equal(aule_device_open(names[n], NULL, &device, &error), AULE_OK);
        assert_string_equal(aule_device_get_info(device)->id, n < 2 ? "vulkan:0" : "vulkan:1");
        aule_device_close(device);
    }
    assert_int_equal(setenv("AULE_BACKEND", names[2], 1), 0);
    assert_int_equal(aule_device_open(NULL, NULL, &device, &error), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->uuid, "01112131-4151-6171-8191-a1b1c1d1e1f1");
    aule_device_close(device);
    unsetenv("AULE_BACKEND");
    expect_absent(
        "vulkan:02122232-4252-6272-8292-a2b2c2d2e2f2",
        "there is no vulkan device with the UUID 02122232425262728292a2b2c2d2e2f2: vulkan:0 is "
        "00102030-4050-6070-8090-a0b0c0d0e0f0, vulkan:1 is 01112131-4151-6171-8191-a1b1c1d1e1f1");
    expect_absent("vulkan:00102030405060708090a0b0c0d0e0f", "is not a device");
    expect_absent("vulkan:00102030405060708090a0b0c0d0e0f0f", "is not a device");
    expect_absent("cpu:00102030405060708090a0b0c0d0e0f0", "there is no cpu device with the UUID");
    vulkan_mock.nameless = true;
    expect_absent(names[0], "00102030405060708090a0b0c0d0e0f0: no device of vulkan here has one");
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, &error), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->uuid, "");
    aule_device_close(device);
    expect_nothing_left();
}

static void expect_words(const char *words)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, &error), AULE_OK);
    assert_string_equal(aule_device_get_info(device)->features, words);
    aule_device_close(device);
    expect_nothing_left();
}

/* Subgroups are promised where a pipeline may ask for their lanes, all of them there, and these can exchange values; matrices where they
 * are a subgroup's and as kernels use them. */
static void test_lanes_and_matrices(void **state)
{
    (void)state;
    vulkan_mock_reset();
    expect_words("vulkan1.2 shared16k shared32k shared48k subgroup32");
    vulkan_mock.least = 8, vulkan_mock.most = 32;
    expect_words("vulkan1.2 shared16k shared32k shared48k subgroup32 lanes8 lanes16 lanes32 "
                 "coopmat8x8x8_f16");
    static const int lanes_need[] = {MOCK_SHUFFLE, MOCK_FULL_SUBGROUPS};
    static const int matrices_need[] = {MOCK_FLOAT_16, MOCK_MATRICES};
    for (uint32_t n = 0; n < 2; n++) {
        vulkan_mock.lacks = 1u << lanes_need[n];
        expect_words("vulkan1.2 shared16k shared32k shared48k subgroup32");
        vulkan_mock.lacks = 1u << matrices_need[n];
        expect_words("vulkan1.2 shared16k shared32k shared48k subgroup32 lanes8 lanes16 lanes32");
    }
}

/* Matrices of bf16 and functions of elements are promised where all that kernels use is there, and the device takes their version. */
static void test_newer_matrices(void **state)
{
    (void)state;
#define OLD "shared16k shared32k shared48k subgroup32 lanes32 coopmat8x8x8_f16"
    vulkan_mock_reset();
    vulkan_mock.least = vulkan_mock.most = 32, vulkan_mock.newer = true;
    expect_words("vulkan1.2 " OLD " coopmat64x64x64_bf16 layout16");
    vulkan_mock.version = VK_VERSION_1_3;
    expect_words("vulkan1.3 " OLD " coopmat64x64x64_bf16 layout16 nv2 tensors");
    vulkan_mock.lacks = 1u << MOCK_BF16;
    expect_words("vulkan1.3 " OLD " layout16 nv2 tensors");
    vulkan_mock.lacks = 1u << MOCK_BY_TENSORS;
    expect_words("vulkan1.3 " OLD " coopmat64x64x64_bf16 layout16 nv2");
    static const int needed[] = {MOCK_REDUCES, MOCK_CONVERTS, MOCK_BY_ELEMENT, MOCK_LAYOUT,
                                 MOCK_ROUNDS_HALF};
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++) {
        vulkan_mock.lacks = 1u << needed[n];
        if (needed[n] == MOCK_LAYOUT)
            expect_words("vulkan1.3 " OLD " coopmat64x64x64_bf16");
        else
            expect_words("vulkan1.3 " OLD " coopmat64x64x64_bf16 layout16");
    }
#undef OLD
}

/* Matrices of work-groups, by extents and threads, where functions of elements are; those of sums of f32 that the limits let. */
static void test_matrices_of_blocks(void **state)
{
    (void)state;
#define OLD                                                                                        \
    "vulkan1.3 shared16k shared32k shared48k subgroup32 lanes32 coopmat8x8x8_f16 "                 \
    "coopmat64x64x64_bf16 layout16"
#define OF_F16  " coopmat32x16x16_f16_block128"
#define OF_BF16 " coopmat32x32x16_bf16_block256"
    vulkan_mock_reset();
    vulkan_mock.least = vulkan_mock.most = 32, vulkan_mock.newer = true;
    vulkan_mock.version = VK_VERSION_1_3;
    vulkan_mock.block_threads = 256, vulkan_mock.block_extent = 1024;
    expect_words(OLD " nv2 tensors" OF_F16 OF_BF16);
    vulkan_mock.block_threads = 128;
    expect_words(OLD " nv2 tensors" OF_F16);
    vulkan_mock.block_threads = 256, vulkan_mock.block_extent = 128;
    expect_words(OLD " nv2 tensors");
    vulkan_mock.block_extent = 256;
    static const int needed[] = {MOCK_OF_BLOCKS, MOCK_ANY_EXTENTS};
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++) {
        vulkan_mock.lacks = 1u << needed[n];
        expect_words(OLD " nv2 tensors");
    }
    vulkan_mock.lacks = 1u << MOCK_CONVERTS;
    expect_words(OLD);
    vulkan_mock.lacks = 0;
    vulkan_mock.fail = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    expect_words(OLD " nv2 tensors");
#undef OLD
#undef OF_F16
#undef OF_BF16
}

static void test_sums(void **state)
{
    (void)state;
#define OLD "vulkan1.2 shared16k shared32k shared48k subgroup32"
    vulkan_mock_reset();
    vulkan_mock.sums = true;
    expect_words(OLD " atomic_f32");
    vulkan_mock.lacks = 1u << MOCK_SUMS;
    expect_words(OLD);
    vulkan_mock.lacks = 0;
    expect_right(); /* a device that was made with it */
#undef OLD
}

/* A word where sums of f16 can be rounded where they lie; that components lie alike is tried before the first variant that relies on it is chosen, once.
 * Where they do not, the artifact's other variant is; where that is not asked for, the error says why. */
static void test_positions(void **state)
{
    (void)state;
#define OLD                                                                                        \
    "vulkan1.2 shared16k shared32k shared48k subgroup32 lanes8 lanes16 lanes32 coopmat8x8x8_f16"
    vulkan_mock_reset();
    vulkan_mock.least = 8, vulkan_mock.most = 32, vulkan_mock.twin = true;
    expect_words(OLD " positions");
    vulkan_mock.lacks = 1u << MOCK_ROUNDS_HALF;
    expect_words(OLD);
    vulkan_mock.lacks = 0;
#undef OLD
    CaseModule m;
    const aule_variant_v1 *usual = vulkan_case_module()->attentions->variants;
    while (strcmp(usual->target, "vulkan") != 0) usual++;
    case_module(&m, &(aule_variant_v1){.target = "vulkan",
                                       .arch = "vulkan12-coop8-at",
                                       .features = "shared32k lanes8 positions",
                                       .code_format = AULE_CODE_SPIRV,
                                       .code = usual->code,
                                       .code_bytes = usual->code_bytes});
    for (uint32_t n = 0; n < m.attention.variant_count; n++) { /* behind it, the usual one */
        aule_variant_v1 *v = &m.variants[n];
        if (strcmp(v->target, "cuda") != 0 || strcmp(v->arch, "sm_90") != 0) continue;
        v->target = usual->target, v->arch = usual->arch, v->features = usual->features;
        v->code_format = usual->code_format, v->code = usual->code;
        v->code_bytes = usual->code_bytes;
    }
    static const char arch[] = "vulkan12-coop8-at";
    for (int scattered = 0; scattered < 2; scattered++)
        for (int by_name = 0; by_name < 2; by_name++) {
            OnDevice s;
            aule_error *error = NULL;
            vulkan_mock.scattered = scattered;
            vulkan_mock.dispatches = 0;
            on_device_begin(&s, &m.module, TENSORS);
            s.c->call.arch = by_name ? arch : NULL;
            const aule_status found = on_device_run(&s, "vulkan:0", &error);
            if (scattered && by_name) {
                expect_error(
                    found, &error, AULE_ERROR_UNSUPPORTED,
                    "vulkan vulkan12-coop8-at f32 D=8 E=4 (vulkan:0: the same component of "
                    "two matrices of 8x8 is not at the same row and column (13 at 5, 1)");
            } else if (found) {
                fail_msg("%s", aule_error_message(error));
            } else {
                const char *taken = aule_plan_variant(s.plan)->arch;
                assert_int_equal(strcmp(taken, arch) != 0, scattered);
                assert_true(case_is_right(s.c));
                assert_int_equal(vulkan_mock.dispatches, 5);
            }
            on_device_end(&s);
            expect_nothing_left();
        }
}

static void test_little_shared_memory(void **state)
{
    (void)state;
    vulkan_mock_reset();
    vulkan_mock.shared_bytes = 16 << 10;
    expect_wrong(AULE_ERROR_UNSUPPORTED,
                 "(needs shared32k; what the device has: vulkan1.2 shared16k subgroup32)");
}

/* ---- failures */

static void test_memory_runs_out(void **state)
{
    (void)state;
    vulkan_mock_reset();
    vulkan_mock.memory_bytes = 1 << 20;
    aule_device *device = NULL;
    aule_buffer *buffer = NULL;
    aule_error *error = NULL;
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, &error), AULE_OK);
    expect_error(aule_buffer_new(device, 1 << 21, &buffer, &error), &error, AULE_ERROR_MEMORY,
                 "vkAllocateMemory, 2097152 bytes (the device has 1048576, of which ");
    assert_int_equal(aule_buffer_new(device, 4096, &buffer, &error), AULE_OK); /* it goes on */
    aule_buffer_free(buffer);
    aule_device_close(device);
    expect_nothing_left();
}

/* A device that does no more of its work is told of, everything after that is refused, and what it may still read stays until it is back; one that
 * does some of it in each wait is waited for. Time passes in the mock as it is asked to. */
static void test_hung(void **state)
{
    (void)state;
    vulkan_mock_reset();
    Setup s;
    aule_error *error = NULL;
    setenv("AULE_VULKAN_TIMEOUT", "7", 1);
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    vulkan_mock.lazy = vulkan_mock.slow = true;
    for (int n = 0; n < 4; n++) assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    assert_int_equal(vulkan_mock.patience, 7000000000);
    vulkan_mock.hangs = true;
    vulkan_mock.waits = 0;
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER,
                 "vulkan:0: no work was finished in 7 s (AULE_VULKAN_TIMEOUT), the device is taken "
                 "for hung");
    assert_int_equal(vulkan_mock.waits, 2);
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                 "vulkan:0: an earlier call: VK_ERROR_DEVICE_LOST");
    aule_plan_free(
        s.plan); /* what the device was given is not freed: the mock would end the program */
    s.plan = NULL;
    vulkan_mock.hangs = vulkan_mock.slow = false;
    close_case(&s);
    expect_nothing_left();
    expect_right();
    unsetenv("AULE_VULKAN_TIMEOUT");
}

/* A module for OpenCL in an artifact that is damaged, or made by hand. */
static void test_a_module_of_another_flavour(void **state)
{
    (void)state;
    static const uint32_t kernel[] = {0x07230203, 0x00010000, 0, 1, 0, 3 << 16 | 14, 2, 2};
    CaseModule m;
    OnDevice s;
    aule_error *error = NULL;
    vulkan_mock_reset();
    case_module(&m, &(aule_variant_v1){.target = "vulkan",
                                       .arch = "vulkan12",
                                       .features = "shared32k",
                                       .code_format = AULE_CODE_SPIRV,
                                       .code = kernel,
                                       .code_bytes = sizeof kernel});
    on_device_begin(&s, &m.module, TENSORS);
    expect_error(on_device_run(&s, "vulkan:0", &error), &error, AULE_ERROR_ARTIFACT,
                 "is a module of SPIR-V of another flavour, expected one with addresses "
                 "PhysicalStorageBuffer64 and memory model Vulkan");
    on_device_end(&s);
    expect_nothing_left();
}

static void test_timeout_is_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0", "-1", "1s", " 5", "1000001", "99999999999999999999"};
    vulkan_mock_reset();
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        char text[100];
        aule_device *device = NULL;
        aule_error *error = NULL;
        setenv("AULE_VULKAN_TIMEOUT", wrong[n], 1);
        snprintf(text, sizeof text, "AULE_VULKAN_TIMEOUT is '%s', expected seconds from 1 to",
                 wrong[n]);
        expect_error(aule_device_open("vulkan:0", NULL, &device, &error), &error, AULE_ERROR_USAGE,
                     text);
    }
    unsetenv("AULE_VULKAN_TIMEOUT");
    expect_nothing_left();
    expect_right();
}

/* Every call after the one that said so says so, too; another device of the process goes on. */
static void test_lost(void **state)
{
    (void)state;
    vulkan_mock_reset();
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    vulkan_mock.fail = "vkQueueSubmit";
    vulkan_mock.code = VK_ERROR_DEVICE_LOST;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                 "vulkan:0: vkQueueSubmit: VK_ERROR_DEVICE_LOST; a kernel has failed");
    vulkan_mock.fail = NULL;
    expect_error(aule_plan_run(s.plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                 "vulkan:0: an earlier call: VK_ERROR_DEVICE_LOST");
    close_case(&s);
    expect_nothing_left();
    expect_right();
}

static void test_a_pipeline_that_is_refused(void **state)
{
    (void)state;
    vulkan_mock_reset();
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    assert_int_equal(aule_device_open("vulkan:0", NULL, &s.device, &error), AULE_OK);
    assert_int_equal(case_place(s.c, s.device, TENSORS, s.buffers, &s.workspace, &error), AULE_OK);
    vulkan_mock.fail = "vkCreateComputePipelines";
    vulkan_mock.code = -13;
    expect_plan_error(aule_module_attention(s.module, 0), s.device, s.c, AULE_ERROR_BUILD,
                      "vulkan:0: vkCreateComputePipelines of weigh ('rows sm_80'): "
                      "VK_ERROR_UNKNOWN");
    close_case(&s);
    expect_nothing_left();
}

/* The n-th call fails, for every n there is, and in both kinds of memory. */
static void test_every_call_fails_in_turn(void **state)
{
    (void)state;
    static const int codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_DEVICE_LOST, -3};
    setenv("AULE_CACHE_MAX", "0", 1); /* each time, pipelines are built */
    for (int hidden = 0; hidden < 2; hidden++)
        for (int n = 1, done = 0; !done; n++) {
            Setup s;
            aule_error *error = NULL;
            vulkan_mock_reset();
            vulkan_mock.hidden = hidden;
            vulkan_mock.least = vulkan_mock.most = 8;
            vulkan_mock.fail_at = n;
            vulkan_mock.code = codes[n % 3];
            open_case(&s);
            aule_status status = run_all(&s, &error);
            const char *failed = vulkan_mock.failed; /* NULL: there are fewer calls */
            done = !failed;
            if (done || vulkan_case_does_without(failed, status))
                assert_true(status == AULE_OK && case_is_right(s.c));
            else if (!status || !vulkan_case_tells(aule_error_message(error), failed))
                fail_msg("call %d, %s: %s", n, failed,
                         status ? aule_error_message(error) : "nothing is told");
            aule_error_free(error);
            vulkan_mock.fail_at = 0;
            close_case(&s);
            expect_nothing_left();
        }
    unsetenv("AULE_CACHE_MAX");
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_memory_of_the_device_alone),
        cmocka_unit_test(test_grids_beyond_the_limit),
        cmocka_unit_test(test_pipelines_are_kept),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_drivers),
        cmocka_unit_test(test_below_the_floor),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_lanes_and_matrices),
        cmocka_unit_test(test_matrices_of_blocks),
        cmocka_unit_test(test_newer_matrices),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_little_shared_memory),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_hung),
        cmocka_unit_test(test_timeout_is_read),
        cmocka_unit_test(test_a_module_of_another_flavour),
        cmocka_unit_test(test_a_pipeline_that_is_refused),
        cmocka_unit_test(test_every_call_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return vulkan_case_run(run); }
