/* Artifacts read as data, as systems whose loader takes no ELF have them: what they say is what the loader's copy says, nothing of them can be
 * written or run, and kernels for processors are refused by name. */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../runtime/descriptor.h"
#include "../../runtime/elf_image.h"
#include "../../runtime/module.h"
#include "../../runtime/variant.h"

/* A library with kernels for this processor; without, as codegen/elf.c writes it; one for another machine. */
static const char *with_code, *of_data, *of_another;

static aule_module *open_as(const char *path, bool read)
{
    aule_module *module;
    aule_error *error = NULL;
    if (read)
        setenv("AULE_READ_ARTIFACTS", "1", 1);
    else
        unsetenv("AULE_READ_ARTIFACTS");
    if (aule_module_open(path, NULL, &module, &error))
        fail_msg("%s: %s", path, aule_error_message(error));
    assert_int_equal(module->library.image.memory != NULL, read);
    assert_int_equal(module->library.loaded == NULL, read);
    return module;
}

static char *text_of(aule_module *module)
{
    char *text;
    assert_int_equal(aule_describe_module(module, &text, NULL), AULE_OK);
    return text;
}

static void expect_same_code(const aule_attention_v1 *a, const aule_attention_v1 *b)
{
    for (uint32_t n = 0; n < a->variant_count; n++) {
        const aule_variant_v1 *x = rt_variant(a, n), *y = rt_variant(b, n);
        assert_int_equal(x->code_bytes, y->code_bytes);
        if (x->code_bytes) assert_memory_equal(x->code, y->code, x->code_bytes);
        for (uint32_t i = 0; i < x->launch_count; i++) {
            assert_string_equal(rt_launch(x, i)->entry, rt_launch(y, i)->entry);
            assert_int_equal(rt_launch(x, i)->host != NULL, x->code_format == AULE_CODE_HOST);
            assert_null(rt_launch(y, i)->host);
        }
    }
}

static void test_the_same(void **state)
{
    (void)state;
    const char *const paths[] = {with_code, of_data};
    for (int n = 0; n < 2; n++) {
        aule_module *loaded = open_as(paths[n], false), *read = open_as(paths[n], true);
        char *a = text_of(loaded), *b = text_of(read);
        assert_string_equal(a, b);
        assert_int_equal(loaded->descriptor->source_hash, read->descriptor->source_hash);
        expect_same_code(rt_attention(loaded->descriptor, 0), rt_attention(read->descriptor, 0));
        aule_text_free(a);
        aule_text_free(b);
        aule_module_close(loaded);
        aule_module_close(read);
    }
}

/* How the kernel has it: "7f.. r--p". */
static void expect_read_only(const void *at)
{
    char line[512], how[8];
    unsigned long long begin, end;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%llx-%llx %4s", &begin, &end, how) == 3 && (uintptr_t)at >= begin &&
                (uintptr_t)at < end;
    fclose(maps);
    assert_true(found);
    assert_string_equal(how, "r--p");
}

static void test_nothing_to_write_or_run(void **state)
{
    (void)state;
    aule_module *module = open_as(with_code, true);
    const AuElfImage *image = &module->library.image;
    bool has_code = false;
    for (uint32_t n = 0; n < image->segments.count; n++) {
        expect_read_only((const void *)image->segments.of[n].begin);
        has_code |= image->segments.of[n].runs;
    }
    assert_true(has_code);
    expect_read_only(image->memory);
    expect_read_only(image->memory + image->bytes - 1);
    aule_module_close(module);
}

static void test_code_is_refused(void **state)
{
    (void)state;
    Case *c = case_new();
    aule_device *device;
    aule_module *module = open_as(with_code, true);
    const aule_device_info *info;
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    expect_plan_error(aule_module_attention(module, 0), device, c, AULE_ERROR_UNSUPPORTED,
                      "no forward kernel for device cpu");
    expect_plan_error(aule_module_attention(module, 0), device, c, AULE_ERROR_UNSUPPORTED,
                      "E=4 (functions for a loader of Linux on such a processor; here the "
                      "artifact was read as data)");
    info = aule_device_get_info(device);
    assert_false(rt_any_variant_fits(aule_module_attention(module, 0), info));
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
}

/* The loader here does not take it; libaule reads it without being asked. */
static void test_another_machine(void **state)
{
    (void)state;
    aule_module *module;
    unsetenv("AULE_READ_ARTIFACTS");
    assert_int_equal(aule_module_open(of_another, NULL, &module, NULL), AULE_OK);
    assert_non_null(module->library.image.memory);
    assert_string_equal(rt_attention(module->descriptor, 0)->name, "mha");
    aule_module_close(module);
}

/* Writes and pointers stay inside of the image, whatever relocations and segments say: a table that was changed after the file was looked at. */
static void test_changed_since(void **state)
{
    (void)state;
    enum { TRIES = 20000, MOST = 1 << 24 };
    unsigned char *bytes = malloc(MOST), *bent = malloc(MOST);
    FILE *file = fopen(with_code, "rb");
    assert_non_null(file);
    const size_t length = fread(bytes, 1, MOST, file);
    fclose(file);
    AuElfFile whole = {.path = "whole", .bytes = bytes, .length = length},
              changed = {.path = "changed", .bytes = bent, .length = length};
    AuElfLibrary library;
    AuElfImage image;
    uint64_t random = 7, read = 0;
    const AuSink sink = {rt_memory(NULL), NULL};
    assert_int_equal(rt_check_library(&whole, "aule_module_v1", &library, sink), AULE_OK);
    for (int n = 0; n < TRIES; n++) {
        memcpy(bent, bytes, length);
        for (int flips = 0; flips < 6; flips++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t room = n % 2 ? length : 8192 < length ? 8192 : length;
            bent[(random >> 20) % room] = random >> 62 ? (unsigned char)(random >> 52) : 0xff;
        }
        if (rt_read_image(&changed, &library, &image, sink)) continue;
        read++;
        assert_true(rt_seal_image(&image));
        rt_free_image(&image);
    }
    assert_in_range(read, 1, TRIES - 1);
    free(bytes);
    free(bent);
}

int main(int count, char **arguments)
{
    if (count != 4) return 2;
    with_code = arguments[1];
    of_data = arguments[2];
    of_another = arguments[3];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same),        cmocka_unit_test(test_nothing_to_write_or_run),
        cmocka_unit_test(test_code_is_refused), cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_changed_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
