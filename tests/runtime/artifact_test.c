/* Artifacts: files that are whole, cut at every place, foreign, for other machines, newer. */
#include "case.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Paths come from meson: a whole artifact, one of a later version, a library that is none. */
static const char *whole, *newer, *foreign;
static bool reads; /* as data, where no loader takes them, instead of by the loader */
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
    unlink(
        scratch); /* some file systems bring to the disk what is cut short and written again, at once */
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
    if (reads) { /* which has no kernel for it */
        expect_plan_error(attention, device, c, AULE_ERROR_UNSUPPORTED, "was read as data");
        aule_module_close(module);
        aule_device_close(device);
        case_free(c);
        return;
    }
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
        "artifact of sample.attn by by hand, version 1.24, source hash 0000000000001234\n",
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

/* ---- descriptors that were changed in the file */

/* Where bytes of the loaded artifact are in its file. */
static size_t place_of(const Bytes *file, const void *address)
{
    Dl_info info;
    Elf64_Ehdr head;
    assert_true(dladdr(address, &info));
    memcpy(&head, file->at, sizeof head);
    const uint64_t at = (uint64_t)((const char *)address - (const char *)info.dli_fbase);
    for (unsigned n = 0; n < head.e_phnum; n++) {
        Elf64_Phdr p;
        memcpy(&p, file->at + head.e_phoff + n * sizeof p, sizeof p);
        if (p.p_type == PT_LOAD && at >= p.p_vaddr && at - p.p_vaddr < p.p_filesz)
            return (size_t)(p.p_offset + at - p.p_vaddr);
    }
    fail_msg("nothing of the file is there");
    return 0;
}

typedef struct Descriptor {
    aule_module *module;
    const aule_module_v1 *m;
    const aule_attention_v1 *a;
    const aule_variant_v1 *v;
    const aule_launch_v1 *l;
} Descriptor;

/* By the loader, whose library dladdr knows. */
static Descriptor open_whole(void)
{
    Descriptor d;
    if (reads) unsetenv("AULE_READ_ARTIFACTS");
    assert_int_equal(aule_module_open(whole, NULL, &d.module, NULL), AULE_OK);
    if (reads) setenv("AULE_READ_ARTIFACTS", "1", 1);
    d.m = aule_module_descriptor(d.module);
    d.a = d.m->attentions;
    d.v = d.a->variants;
    d.l = d.v->launches;
    return d;
}

/* Each count and length as large as a reader takes at all: more than the file has. */
static void test_counts_beyond_the_file(void **state)
{
    (void)state;
    const Bytes bytes = read_bytes(whole);
    const Descriptor d = open_whole();
    const struct {
        const void *field;
        uint32_t value;
        const char *what;
    } counts[] = {
        {&d.m->attention_count, 65535, "the table of attentions"},
        {&d.a->struct_size, 1u << 31, "the table of attentions"},
        {&d.a->size_count, AULE_MAX_SIZES, ""},
        {&d.a->tensor_count, AULE_MAX_TENSORS, ""},
        {&d.a->tensors->struct_size, 1u << 20, "the table of tensors"},
        {&d.a->tensors->axes->length, 1u << 30, "an axis without an extent"},
        {&d.a->param_count, AULE_MAX_PARAMS, ""},
        {&d.a->require_count, 65535, "the table of requirements"},
        {&d.a->requires_->condition.length, UINT32_MAX, "a requirement"},
        {&d.a->variant_count, 65535, "the table of variants"},
        {&d.v->struct_size, 1u << 24, "the table of variants"},
        {&d.v->fixed_count, AULE_MAX_SIZES, ""},
        {&d.v->workspace_count, AULE_MAX_REGIONS, ""},
        {&d.v->workspaces->bytes.length, 1u << 28, "a variant's workspace"},
        {&d.v->launch_count, AULE_MAX_LAUNCHES, ""},
        {&d.v->launches->struct_size, 1u << 16, "a variant's launches"},
        {&d.l->slot_count, AULE_MAX_SLOTS, ""},
        {&d.l->grid[1].length, 1u << 30, "a grid"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Bytes bent = {malloc(bytes.length), bytes.length};
        memcpy(bent.at, bytes.at, bytes.length);
        memcpy(bent.at + place_of(&bytes, counts[i].field), &counts[i].value, sizeof(uint32_t));
        write_bytes(bent.at, bent.length);
        expect_open_error(scratch, AULE_ERROR_ARTIFACT, "damaged artifact: ");
        if (*counts[i].what) expect_open_error(scratch, AULE_ERROR_ARTIFACT, counts[i].what);
        free(bent.at);
    }
    aule_module_close(d.module);
    free(bytes.at);
}

/* Any numbers in place of some of the descriptor's: whatever the answer, no crash, and what is opened can be described. */
static void test_bent_descriptors(void **state)
{
    (void)state;
    enum { TRIES = 1000 };
    static const uint32_t odd[] = {0, 1, 2, 7, 64, 65535, 1u << 20, 1u << 31, UINT32_MAX};
    const Bytes bytes = read_bytes(whole);
    const Descriptor d = open_whole();
    const struct {
        const void *at;
        size_t length;
    } tables[] = {{d.m, sizeof *d.m},
                  {d.a, sizeof *d.a},
                  {d.a->tensors, d.a->tensor_count * sizeof *d.a->tensors},
                  {d.a->tensors->axes, 4 * sizeof *d.a->tensors->axes},
                  {d.a->params, d.a->param_count * sizeof *d.a->params},
                  {d.a->requires_, d.a->require_count * sizeof *d.a->requires_},
                  {d.v, d.a->variant_count * sizeof *d.v},
                  {d.l, d.v->launch_count * sizeof *d.l},
                  {d.l->slots, d.l->slot_count * sizeof *d.l->slots},
                  {d.v->workspaces, d.v->workspace_count * sizeof *d.v->workspaces}};
    Bytes bent = {malloc(bytes.length), bytes.length};
    uint64_t random = 3;
    int opened = 0;
    for (int n = 0; n < TRIES; n++) {
        memcpy(bent.at, bytes.at, bytes.length);
        for (int changes = 0; changes < 1 + n % 2; changes++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t table = (random >> 40) % (sizeof tables / sizeof *tables);
            const size_t at = (random >> 20) % (tables[table].length / 4) * 4;
            const uint32_t value = odd[(random >> 50) % (sizeof odd / sizeof *odd)];
            memcpy(bent.at + place_of(&bytes, tables[table].at) + at, &value, sizeof value);
        }
        write_bytes(bent.at, bent.length);
        aule_module *module;
        char *text;
        if (aule_module_open(scratch, NULL, &module, NULL)) continue;
        opened++;
        assert_int_equal(aule_describe_module(module, &text, NULL), AULE_OK);
        aule_text_free(text);
        aule_module_close(module);
    }
    assert_in_range(opened, 1, TRIES - 1);
    aule_module_close(d.module);
    free(bent.at);
    free(bytes.at);
}

static void test_newer(void **state)
{
    (void)state;
    expect_open_error(
        newer, AULE_ERROR_VERSION,
        "artifact of version 2.24, this libaule reads version 1: a newer libaule is needed");
}

int main(int count, char **arguments)
{
    const char *how = getenv("AULE_READ_ARTIFACTS");
    if (count != 4) return 2;
    reads = how && strcmp(how, "1") == 0;
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
        cmocka_unit_test(test_counts_beyond_the_file),
        cmocka_unit_test(test_bent_descriptors),
        cmocka_unit_test(test_newer),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(scratch);
    return failed;
}
