/* Artifacts: files that are whole, cut at every place, foreign, for other machines, newer; descriptors damaged in every way. */
#include "case.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Paths come from meson: a whole artifact, one of a later version, a library that is none. */
static const char *whole, *newer, *foreign;
static char scratch[] = "/tmp/aule-artifact-XXXXXX";

typedef struct Bytes {
    unsigned char *at;
    size_t length;
} Bytes;

static Bytes read_bytes(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    Bytes bytes = {malloc((size_t)length), (size_t)length};
    assert_int_equal(fread(bytes.at, 1, bytes.length, file), length);
    fclose(file);
    return bytes;
}

static const char *write_bytes(const unsigned char *at, size_t length)
{
    FILE *file = fopen(scratch, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(at, 1, length, file), length);
    fclose(file);
    return scratch;
}

static void expect_open_error(const char *path, aule_status status, const char *text)
{
    aule_module *module = NULL;
    aule_error *error = NULL;
    aule_status found = aule_module_open(path, NULL, &module, &error);
    expect_error(found, &error, status, text);
    assert_null(module);
}

static void test_opens_and_runs(void **state)
{
    (void)state;
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
    aule_plan *plan;
    aule_error *error = NULL;
    Case *c = case_new();
    assert_int_equal(aule_module_open(whole, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_module_count(module), 1);
    assert_ptr_equal(aule_module_attention(module, 0),
                     (aule_module_find(module, "sample", &attention, NULL), attention));
    assert_null(aule_module_attention(module, 1));
    assert_string_equal(aule_module_descriptor(module)->producer, "by hand");
    expect_error(aule_module_find(module, "sampel", &attention, &error), &error, AULE_ERROR_NAME,
                 "there is no attention 'sampel', the artifact has sample");
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, &error), AULE_OK);
    /* The plan keeps both alive. */
    aule_module_close(module);
    aule_device_close(device);
    assert_int_equal(aule_plan_run(plan, &c->run, &error), AULE_OK);
    assert_true(case_is_right(c));
    aule_plan_free(plan);
    case_free(c);
}

static void test_describes(void **state)
{
    (void)state;
    aule_module *module;
    char *text;
    assert_int_equal(aule_module_open(whole, NULL, &module, NULL), AULE_OK);
    assert_int_equal(aule_describe_module(module, &text, NULL), AULE_OK);
    static const char *const lines[] = {
        "artifact of sample.attn by by hand, version 1.8, source hash 0000000000001234\n",
        "attention sample\n",
        "  query  q: operand [B, H, S, D] grad\n",
        "  input  lengths: i32 [B]\n",
        "  final  lse: f32 [B, H, S]\n",
        "  given  do: operand [B, H, S, E]\n",
        "  made   dk: operand [B, Hk, T, D]\n",
        "  param  window: i32\n",
        "  param  flag: bool = 1\n",
        "  require window > 0 (sample.attn:9)\n",
        "  kernel forward: opencl generic f32 D=8 E=4, 'rows generic', 2 launches, ",
        "  kernel backward: opencl generic f32 D=8 E=4, 'back generic', 2 launches, ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("no '%s' in\n%s", lines[i], text);
    aule_text_free(text);
    aule_module_close(module);
}

static void test_replaced_file_is_read_anew(void **state)
{
    (void)state;
    Bytes bytes = read_bytes(whole);
    aule_module *first, *second;
    write_bytes(bytes.at, bytes.length);
    assert_int_equal(aule_module_open(scratch, NULL, &first, NULL), AULE_OK);
    assert_int_equal(unlink(scratch), 0);
    /* Another file of the same name: its producer is spelt differently. */
    for (size_t i = 0; i + 8 < bytes.length; i++)
        if (memcmp(bytes.at + i, "by hand", 8) == 0) bytes.at[i] = 'B';
    write_bytes(bytes.at, bytes.length);
    assert_int_equal(aule_module_open(scratch, NULL, &second, NULL), AULE_OK);
    assert_string_equal(aule_module_descriptor(first)->producer, "by hand");
    assert_string_equal(aule_module_descriptor(second)->producer, "By hand");
    aule_module_close(first);
    aule_module_close(second);
    free(bytes.at);
}

static void test_truncated(void **state)
{
    (void)state;
    Bytes bytes = read_bytes(whole);
    for (size_t length = 0; length < bytes.length; length += length < 70 ? 1 : 509) {
        aule_module *module;
        aule_error *error = NULL;
        write_bytes(bytes.at, length);
        aule_status status = aule_module_open(scratch, NULL, &module, &error);
        if (status != AULE_ERROR_ARTIFACT ||
            !strstr(aule_error_message(error), length < 4 ? "not a shared library" : "truncated"))
            fail_msg("cut at %zu of %zu: %s '%s'", length, bytes.length, aule_status_name(status),
                     aule_error_message(error));
        aule_error_free(error);
    }
    free(bytes.at);
}

/* Any byte of the ELF headers may be wrong: never a crash, whatever the answer. Nothing that is loaded is executed. */
static void test_damaged_headers(void **state)
{
    (void)state;
    Bytes bytes = read_bytes(whole);
    Elf64_Ehdr head;
    memcpy(&head, bytes.at, sizeof head);
    size_t fields[] = {offsetof(Elf64_Ehdr, e_shnum), offsetof(Elf64_Ehdr, e_phentsize),
                       offsetof(Elf64_Ehdr, e_phoff) + 6, offsetof(Elf64_Ehdr, e_shentsize)};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        unsigned char *byte = &bytes.at[fields[i]], saved = *byte;
        *byte = (unsigned char)(saved + 131);
        expect_open_error(write_bytes(bytes.at, bytes.length), AULE_ERROR_ARTIFACT, scratch);
        *byte = saved;
    }
    head.e_machine = EM_386;
    memcpy(bytes.at, &head, sizeof head);
    expect_open_error(write_bytes(bytes.at, bytes.length), AULE_ERROR_ARTIFACT,
                      "for i386 machines");
    head.e_ident[EI_CLASS] = ELFCLASS32;
    memcpy(bytes.at, &head, sizeof head);
    expect_open_error(write_bytes(bytes.at, bytes.length), AULE_ERROR_ARTIFACT,
                      "not 64-bit little-endian ELF");
    free(bytes.at);
}

static void test_foreign(void **state)
{
    (void)state;
    expect_open_error(foreign, AULE_ERROR_ARTIFACT,
                      "not an aule artifact: a shared library without the symbol aule_module_v1");
    expect_open_error("/nonexistent/x.so", AULE_ERROR_FILE,
                      "/nonexistent/x.so: cannot be read: No such file");
    expect_open_error("/tmp", AULE_ERROR_FILE, "not a file");
    expect_open_error("/dev/zero", AULE_ERROR_FILE, "not a file");
    unlink(scratch);
    assert_int_equal(mkfifo(scratch, 0600), 0); /* nobody waits for who writes to it */
    expect_open_error(scratch, AULE_ERROR_FILE, "not a file");
    unlink(scratch);
    expect_open_error(write_bytes((const unsigned char *)"attention mha { }", 17),
                      AULE_ERROR_ARTIFACT, "no ELF magic");
    expect_open_error("/proc/self/exe", AULE_ERROR_ARTIFACT, "not an aule artifact");
}

/* Section headers are of no use to the loader, and a file may do without: what it exports is known all the same, and a foreign file
 * never runs its constructor. */
static void test_without_sections(void **state)
{
    (void)state;
    const char *const paths[] = {whole, foreign};
    for (int i = 0; i < 2; i++) {
        Bytes bytes = read_bytes(paths[i]);
        Elf64_Ehdr head;
        memcpy(&head, bytes.at, sizeof head);
        head.e_shoff = 0;
        head.e_shnum = head.e_shstrndx = 0;
        memcpy(bytes.at, &head, sizeof head);
        write_bytes(bytes.at, bytes.length);
        free(bytes.at);
        if (i) {
            expect_open_error(scratch, AULE_ERROR_ARTIFACT, "without the symbol aule_module_v1");
            continue;
        }
        aule_module *module;
        assert_int_equal(aule_module_open(scratch, NULL, &module, NULL), AULE_OK);
        aule_module_close(module);
    }
}

/* Tables that make no sense: still no artifact, and still refused before it is loaded. */
static void test_foreign_and_damaged(void **state)
{
    (void)state;
    enum { TRIES = 3000, HEAD = 4096 };
    Bytes bytes = read_bytes(foreign), damaged = {malloc(bytes.length), bytes.length};
    uint64_t random = 1;
    for (int n = 0; n < TRIES; n++) {
        memcpy(damaged.at, bytes.at, bytes.length);
        for (int flips = 0; flips < 4; flips++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t room = n % 2 ? bytes.length : HEAD;
            damaged.at[(random >> 20) % (room < bytes.length ? room : bytes.length)] =
                random >> 60 ? (unsigned char)(random >> 52) : 0xff;
        }
        expect_open_error(write_bytes(damaged.at, damaged.length), AULE_ERROR_ARTIFACT, scratch);
    }
    free(bytes.at);
    free(damaged.at);
}

static void test_newer(void **state)
{
    (void)state;
    expect_open_error(
        newer, AULE_ERROR_VERSION,
        "artifact of version 2.8, this libaule reads version 1: a newer libaule is needed");
}

/* ---- descriptors in memory, bent one field at a time */

typedef struct Copy {
    aule_module_v1 module;
    aule_attention_v1 attention;
    aule_tensor_v1 tensors[TENSORS + 1];
    aule_param_v1 params[PARAMS];
    aule_variant_v1 variants[32];
    aule_launch_v1 launches[2];
    aule_slot_v1 slots[64];
    aule_workspace_v1 workspaces[2];
    aule_size_v1 sizes[SIZES];
    aule_check_v1 check;
} Copy;

static void copy_sample(Copy *c)
{
    c->module = sample_module;
    c->attention = sample_module.attentions[0];
    memcpy(c->tensors, c->attention.tensors, TENSORS * sizeof *c->tensors);
    memcpy(c->params, c->attention.params, sizeof c->params);
    memcpy(c->variants, c->attention.variants, c->attention.variant_count * sizeof *c->variants);
    memcpy(c->launches, c->variants[0].launches, sizeof c->launches);
    memcpy(c->slots, c->launches[0].slots, c->launches[0].slot_count * sizeof *c->slots);
    memcpy(c->workspaces, c->variants[0].workspaces, sizeof c->workspaces);
    memcpy(c->sizes, c->attention.sizes, sizeof c->sizes);
    c->check = (aule_check_v1){
        .text = "sample.attn:7:31", .tensor = T_LENGTHS, .axis = 0, .region = 1, .slices = 1};
    c->variants[0].checks = &c->check;
    static const uint32_t always[] = {AULE_E_CONST_INT, 1, 0};
    c->variants[0].condition = (aule_expr){always, 3};
    c->variants[0].check_count = 1;
    c->launches[0].slots = c->slots;
    c->variants[0].launches = c->launches;
    c->variants[0].workspaces = c->workspaces;
    c->attention.variants = c->variants;
    c->attention.tensors = c->tensors;
    c->attention.params = c->params;
    c->attention.sizes = c->sizes;
    c->module.attentions = &c->attention;
}

#define DAMAGES(D)                                                                                 \
    D(c->module.magic[0] = 'A')                                                                    \
    D(c->module.struct_size = 8)                                                                   \
    D(c->module.attention_count = 0)                                                               \
    D(c->module.attention_count = 70000)                                                           \
    D(c->module.attentions = NULL)                                                                 \
    D(c->module.producer = NULL)                                                                   \
    D(c->attention.struct_size = 16)                                                               \
    D(c->attention.name = NULL)                                                                    \
    D(c->attention.size_count = AULE_MAX_SIZES + 1)                                                \
    D(c->attention.sizes = NULL)                                                                   \
    D(c->sizes[1].name = NULL)                                                                     \
    D(c->attention.tensor_count = AULE_MAX_TENSORS + 1)                                            \
    D(c->tensors[0].struct_size = 4)                                                               \
    D(c->tensors[1].name = NULL)                                                                   \
    D(c->tensors[1].rank = AULE_MAX_RANK + 1)                                                      \
    D(c->tensors[1].role = 18)                                                                     \
    D(c->tensors[1].dtype = 8)                                                                     \
    D(c->tensors[1].axes = NULL)                                                                   \
    D(c->attention.size_count = 6)                                                                 \
    D(c->params[0].name = NULL)                                                                    \
    D(c->params[0].dtype = AULE_F16)                                                               \
    D(c->attention.param_count = AULE_MAX_PARAMS + 1)                                              \
    D(c->attention.requires_ = NULL)                                                               \
    D(c->attention.variants = NULL)                                                                \
    D(c->variants[0].arch = NULL)                                                                  \
    D(c->variants[0].features = NULL)                                                              \
    D(c->variants[0].schedule = NULL)                                                              \
    D(c->variants[0].fixed = NULL)                                                                 \
    D(c->variants[3].code = NULL)                                                                  \
    D(c->variants[0].launch_count = AULE_MAX_LAUNCHES + 1)                                         \
    D(c->variants[0].workspace_count = AULE_MAX_REGIONS + 1)                                       \
    D(c->variants[0].workspaces = NULL)                                                            \
    D(c->workspaces[0].align = 3)                                                                  \
    D(c->workspaces[0].bytes.code = NULL)                                                          \
    D(c->launches[0].host = NULL)                                                                  \
    D(c->launches[0].entry = NULL)                                                                 \
    D(c->launches[0].grid[2].length = 0)                                                           \
    D(c->launches[0].slot_count = AULE_MAX_SLOTS + 1)                                              \
    D(c->variants[0].struct_size = offsetof(aule_variant_v1, check_count) - 8)                     \
    D(c->variants[0].checks = NULL)                                                                \
    D(c->variants[0].condition.length = 0)                                                         \
    D(c->check.text = NULL)                                                                        \
    D(c->check.tensor = TENSORS)                                                                   \
    D(c->check.axis = 1)                                                                           \
    D(c->check.rows = T_LENGTHS)                                                                   \
    D(c->check.region = 2)                                                                         \
    D(c->check.slice = 1)                                                                          \
    D(c->slots[0].index = TENSORS)                                                                 \
    D(c->slots[0].index = T_DO)                                                                    \
    D(c->slots[0].kind = 7)                                                                        \
    D(c->slots[7].index = 2)                                                                       \
    D(c->tensors[T_K].flags |= AULE_TENSOR_IN_K)                                                   \
    D(c->slots[8].dim = 4)                                                                         \
    D((c->slots[7].dim = 0, c->variants[0].code_format = AULE_CODE_OPENCL_C,                       \
       c->variants[0].code = "x"))

static void test_damaged_descriptors(void **state)
{
    (void)state;
    Copy *c = malloc(sizeof *c);
    aule_module *module;
    copy_sample(c);
    assert_int_equal(aule_module_from(&c->module, NULL, &module, NULL), AULE_OK);
    aule_module_close(module);
#define DAMAGE(change)                                                                             \
    {                                                                                              \
        aule_error *error = NULL;                                                                  \
        copy_sample(c);                                                                            \
        change;                                                                                    \
        aule_status status = aule_module_from(&c->module, NULL, &module, &error);                  \
        if (status != AULE_ERROR_ARTIFACT) fail_msg("%s: %s", #change, aule_status_name(status));  \
        aule_error_free(error);                                                                    \
    }
    DAMAGES(DAMAGE)
    free(c);
}

/* Structures of a later minor version are longer: arrays step by the size they say. */
static void test_longer_structures(void **state)
{
    (void)state;
    typedef struct Longer {
        aule_tensor_v1 tensor;
        uint64_t news[3];
    } Longer;
    Copy *copy = malloc(sizeof *copy);
    Longer longer[TENSORS];
    copy_sample(copy);
    for (int i = 0; i < TENSORS; i++) {
        longer[i] = (Longer){copy->tensors[i], {~0ull, ~0ull, ~0ull}};
        longer[i].tensor.struct_size = sizeof(Longer);
    }
    copy->attention.tensors = &longer[0].tensor;
    copy->module.version_minor = 9;
    aule_module *module;
    aule_device *device;
    aule_error *error = NULL;
    Case *c = case_new();
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        AULE_OK);
    assert_true(case_is_right(c));
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

/* Kernels of checks: the first variant's two, which are given the region of their codes. */
static void no_trouble(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    (void)slots, (void)x, (void)y, (void)z;
}

static void write_code(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    int32_t *codes = (int32_t *)(uintptr_t)slots[7]; /* [B, H, 1, S] */
    const uint32_t H = (uint32_t)slots[27], S = (uint32_t)slots[35];
    if (z == 1 && y == 2 && x >= 3) codes[(z * H + y) * S + x] = x == 3 ? -5 : 9;
}

static void expect_report(Copy *copy, Case *c, aule_cpu_kernel kernel, const char *message)
{
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_error *error = NULL;
    copy->launches[0].host = kernel;
    copy->launches[1].host = no_trouble;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(
        aule_plan_new(aule_module_attention(module, 0), device, &c->call, &plan, &error), AULE_OK);
    const aule_value window = {.type = AULE_VALUE_INT, .i = 2};
    for (int again = 0; again < 4;
         again++) { /* also reported afterwards, and with new parameters */
        c->run.params = again & 1 ? &window : NULL;
        const aule_status status = again & 2 ? aule_plan_report(plan, &c->run, &error)
                                             : aule_plan_run(plan, &c->run, &error);
        if (message)
            expect_error(status, &error, AULE_ERROR_INDEX, message);
        else
            assert_int_equal(status, AULE_OK);
    }
    c->run.params = NULL;
    aule_plan_free(plan);
    aule_device_close(device);
    aule_module_close(module);
}

static void test_reports(void **state)
{
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    copy_sample(copy);
    copy->variants[0].features = "";
    copy->attention.variant_count = 1;
    expect_report(copy, c, no_trouble, NULL);
    expect_report(copy, c, write_code,
                  "sample.attn:7:31: index -5 on axis 0 of 'lengths' is not in [0, 2) "
                  "(b 1, h 2, q_idx 3)");
    copy->check.tensor = T_SLOPE; /* of 2 H - 1 */
    expect_report(copy, c, write_code, "index -5 on axis 0 of 'slope' is not in [0, 7)");
    copy->check.slices = 2; /* more than the region has */
    aule_module *module;
    aule_device *device;
    aule_error *error = NULL;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    expect_error(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        &error, AULE_ERROR_ARTIFACT, "sample: a region of checks is too small");
    expect_error(aule_plan_report(NULL, NULL, &error), &error, AULE_ERROR_USAGE,
                 "plan must not be NULL");
    copy->variants[0].struct_size = offsetof(aule_variant_v1, check_count); /* of version 1.0 */
    assert_int_equal(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        AULE_OK);
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

static const char *planned(aule_attention *attention, aule_device *device, Case *c,
                           const char *arch)
{
    aule_plan *plan;
    c->call.arch = arch;
    if (aule_plan_new(attention, device, &c->call, &plan, NULL)) return NULL;
    const char *schedule = aule_plan_variant(plan)->schedule;
    aule_plan_free(plan);
    return schedule;
}

/* A variant whose architecture is not worth its place on this processor comes after the plain ones, unless AULE_CPU_ARCH says that
 * it is; asked for by name it runs. */
static void test_slow_architecture(void **state)
{
    (void)state;
#ifdef __x86_64__
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device, *named;
    copy_sample(copy);
    copy->variants[0].features = "";
    copy->variants[0].schedule = "dot";
    copy->variants[0].arch = "x86-64-v4-bf16";
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, NULL), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    setenv("AULE_CPU_ARCH", "x86-64-v4-bf16", 1);
    assert_int_equal(aule_device_open("cpu", NULL, &named, NULL), AULE_OK);
    unsetenv("AULE_CPU_ARCH");
    aule_attention *attention = aule_module_attention(module, 0);
    const bool fast = strstr(aule_device_get_info(device)->features, "fast-bf16-dot"),
               taken = strstr(aule_device_get_info(named)->features, "fast-bf16-dot");
    assert_int_equal(taken, strstr(aule_device_get_info(named)->features, "avx512bf16") != NULL);
    assert_int_equal(strcmp(planned(attention, device, c, NULL), "dot") == 0, fast);
    assert_int_equal(strcmp(planned(attention, named, c, NULL), "dot") == 0, taken);
    assert_string_equal(planned(attention, device, c, "x86-64-v4-bf16"), "dot");
    aule_module_close(module);
    aule_device_close(device);
    aule_device_close(named);
    case_free(c);
    free(copy);
#endif
}

/* A variant for calls that meet its condition; one that cannot be computed is never met. */
static void test_condition(void **state)
{
    enum { S = 5 };
    static const struct {
        uint32_t code[5], length;
        bool met;
    } rows[] = {{{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, S, 0, AULE_E_LE}, 5, true},
                {{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, S, 0, AULE_E_LT}, 5, false},
                {{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, 0, 0, AULE_E_DIV}, 5, false},
                {{AULE_E_CONST_FLOAT, 0, 1072693248}, 3, false}, /* 1.0 */
                {{AULE_E_ADD}, 1, false}};
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device;
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        copy_sample(copy);
        copy->variants[0].features = "";
        copy->variants[0].schedule = "few";
        copy->variants[0].condition = (aule_expr){rows[n].code, rows[n].length};
        assert_int_equal(aule_module_from(&copy->module, NULL, &module, NULL), AULE_OK);
        aule_attention *attention = aule_module_attention(module, 0);
        const char *schedule = planned(attention, device, c, NULL);
        assert_int_equal(strcmp(schedule, "few") == 0, rows[n].met);
        const char *alone = planned(attention, device, c, copy->variants[0].arch);
        assert_int_equal(alone != NULL, rows[n].met);
        aule_module_close(module);
    }
    aule_device_close(device);
    case_free(c);
    free(copy);
}

/* Where forward keeps an output for backward, backward needs that one. */
static void test_kept_output(void **state)
{
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_error *error = NULL;
    float kept[2 * 4 * 5 * SAMPLE_E];
    DLTensor tensor = c->tensors[T_O];
    tensor.data = kept;
    copy_sample(copy);
    copy->tensors[TENSORS] = copy->tensors[T_O];
    copy->tensors[TENSORS].name = "o_kept";
    copy->tensors[TENSORS].role = AULE_ROLE_KEPT;
    copy->tensors[TENSORS].flags = AULE_TENSOR_OPTIONAL;
    copy->attention.tensor_count = TENSORS + 1;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    aule_attention *attention = aule_module_attention(module, 0);
    for (int with = 0; with < 2; with++) { /* forward: as the caller likes */
        c->call.tensor_count = FORWARD_TENSORS + (size_t)with;
        c->args[FORWARD_TENSORS] = (aule_tensor_arg){"o_kept", &tensor};
        assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, &error), AULE_OK);
        aule_plan_free(plan);
    }
    c->args[FORWARD_TENSORS] = (aule_tensor_arg){"do", &c->tensors[T_DO]};
    case_make_backward(c, true);
    expect_plan_error(attention, device, c, AULE_ERROR_NAME,
                      "sample: o_kept is missing, backward needs it");
    c->args[T_O] = (aule_tensor_arg){"o_kept", &tensor};
    assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, &error), AULE_OK);
    aule_plan_free(plan);
    copy->attention.variant_count = 3; /* forward only */
    expect_plan_error(
        attention, device, c, AULE_ERROR_UNSUPPORTED,
        "sample: no operation 'backward', the artifact has forward: the script has no "
        "gradient, or was compiled with --no-grad");
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    whole = arguments[1];
    newer = arguments[2];
    foreign = arguments[3];
    int fd = mkstemp(scratch);
    if (fd < 0) return 2;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_and_runs),
        cmocka_unit_test(test_describes),
        cmocka_unit_test(test_replaced_file_is_read_anew),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_without_sections),
        cmocka_unit_test(test_foreign_and_damaged),
        cmocka_unit_test(test_newer),
        cmocka_unit_test(test_damaged_descriptors),
        cmocka_unit_test(test_longer_structures),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_condition),
        cmocka_unit_test(test_slow_architecture),
        cmocka_unit_test(test_kept_output),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(scratch);
    return failed;
}
