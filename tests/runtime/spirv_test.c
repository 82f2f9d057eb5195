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

/* Behind the memory model instructions end where the module does, and ids are below the bound, 9. */
static void test_ids(void **state)
{
    (void)state;
    enum { BEHIND = sizeof shader / sizeof *shader };
    static const uint32_t more[] = {
        5 << 16 | 15,  5, 4,  0x6e, 0, /* OpEntryPoint GLCompute %4 "n" */
        4 << 16 | 21,  2, 32, 0,       /* %2 = OpTypeInt 32 0: what is literal may be anything */
        5 << 16 | 128, 2, 3,  8,    8, /* %3 = OpIAdd %2 %8 %8 */
    };
    static const struct {
        uint32_t at, word;
        bool is_damage;
    } changes[] = {{2, 0, true},
                   {2, 9, true},
                   {2, 0xffffffff, true},
                   {1, 77, false},
                   {6, 9, true},
                   {7, 99, false},
                   {11, 9, true},
                   {13, 9, true},
                   {9, 6 << 16 | 128, true},
                   {9, 128, true},
                   {9, 4 << 16 | 128, true},
                   {5, 1 << 16 | 21, true},
                   {5, 4 << 16 | 9999, false}};
    uint32_t words[BEHIND + sizeof more / sizeof *more];
    for (size_t n = 0; n <= sizeof changes / sizeof *changes; n++) {
        memcpy(words, shader, sizeof shader);
        memcpy(words + BEHIND, more, sizeof more);
        const bool changed = n < sizeof changes / sizeof *changes;
        if (changed) words[BEHIND + changes[n].at] = changes[n].word;
        expect(words, sizeof words, RT_SPIRV_SHADER,
               changed && changes[n].is_damage ? "that is damaged" : NULL);
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
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
