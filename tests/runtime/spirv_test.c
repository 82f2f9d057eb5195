/* What begins as a module of SPIR-V that a backend may give its driver (runtime/spirv.h). */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/spirv.h"

enum { MOST = 12 };
static const uint32_t shader[] = {
    0x07230203,   0x00010500, 7, 9, 0, /* head */
    2 << 16 | 17, 1,                   /* OpCapability Shader */
    3 << 16 | 14, 5348,       3,       /* OpMemoryModel PhysicalStorageBuffer64 Vulkan */
};
static const uint32_t kernel[] = {0x07230203, 0x00010000, 7, 9, 0, 3 << 16 | 14, 2, 2};
static const char *const of_shader = "expected one with addresses PhysicalStorageBuffer64",
                         *const of_kernel = "expected one with addresses Physical64";

static void expect(const uint32_t *words, size_t bytes, AuSpirvFlavour flavour, const char *text)
{
    const aule_variant_v1 variant = {.code = words, .code_bytes = bytes};
    const char *wrong = rt_spirv_wrong(&variant, flavour);
    if (!text) assert_null(wrong);
    if (text && (!wrong || !strstr(wrong, text))) fail_msg("%s: %s", text, wrong ? wrong : "taken");
}

static void test_flavours(void **state)
{
    (void)state;
    expect(shader, sizeof shader, RT_SPIRV_SHADER, NULL);
    expect(kernel, sizeof kernel, RT_SPIRV_KERNEL, NULL);
    expect(shader, sizeof shader, RT_SPIRV_KERNEL, of_kernel);
    expect(kernel, sizeof kernel, RT_SPIRV_SHADER, of_shader);
}

/* One word is another: each is looked at. */
static void test_damage(void **state)
{
    (void)state;
    static const struct {
        uint32_t at, word;
        const char *text;
    } damage[] = {
        {0, 0x03022307, "no SPIR-V module"},
        {1, 0x00020000, "a damaged head"},
        {1, 0x00010700, "a damaged head"},
        {1, 0x01010500, "a damaged head"},
        {1, 0x00010501, "a damaged head"},
        {3, 0, "a damaged head"},
        {3, 1 << 23, "a damaged head"},
        {4, 1, "a damaged head"},
        {5, 17, "without a memory model"},           /* no length */
        {5, 7 << 16 | 17, "without a memory model"}, /* beyond the end */
        {5, 2 << 16 | 59, "without a memory model"}, /* OpVariable */
        {7, 3 << 16 | 15, "without a memory model"}, /* OpEntryPoint */
        {7, 2 << 16 | 14, "without a memory model"},
        {8, 2, of_shader},
        {9, 1, of_shader},
    };
    for (size_t n = 0; n < sizeof damage / sizeof *damage; n++) {
        uint32_t words[MOST];
        memcpy(words, shader, sizeof shader);
        words[damage[n].at] = damage[n].word;
        expect(words, sizeof shader, RT_SPIRV_SHADER, damage[n].text);
    }
}

/* Cut anywhere, and at a place where words do not lie. */
static void test_cut(void **state)
{
    (void)state;
    static char moved[sizeof shader + 1];
    memcpy(moved + 1, shader, sizeof shader);
    expect((const uint32_t *)(const void *)(moved + 1), sizeof shader, RT_SPIRV_SHADER, NULL);
    for (size_t bytes = 0; bytes < sizeof shader; bytes++) {
        uint32_t *cut = malloc(bytes + !bytes); /* of just that size: reads beyond are seen */
        memcpy(cut, shader, bytes);
        expect(cut, bytes, RT_SPIRV_SHADER,
               bytes < 20 || bytes % 4 ? "no SPIR-V module" : "without a memory model");
        free(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flavours),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
