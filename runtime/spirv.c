/* spirv.c - see spirv.h. Numbers are those of the SPIR-V specification, 2.3 (the head) and 2.4 (what comes before the memory model). */
#include "spirv.h"

#include <string.h>

enum { MAGIC = 0x07230203, HEAD = 5 };
enum { OP_EXTENSION = 10, OP_IMPORT = 11, OP_MEMORY_MODEL = 14, OP_CAPABILITY = 17 };

typedef struct Words {
    const unsigned char *at;
    uint64_t count;
} Words;

/* Code may lie anywhere. */
static uint32_t word(const Words *words, uint64_t n)
{
    uint32_t value;
    memcpy(&value, words->at + n * sizeof value, sizeof value);
    return value;
}

static bool wrong_head(const Words *words)
{
    enum { MINOR = 0xff00, MAJOR_1 = 0x10000, LAST = 0x600, IDS = 1 << 22 };
    const uint32_t version = word(words, 1), ids = word(words, 3);
    return (version & ~(uint32_t)MINOR) != MAJOR_1 || (version & MINOR) > LAST || !ids ||
           ids > IDS || word(words, 4) != 0;
}

/* The place of the memory model's instruction; 0: there is none where it must be. */
static uint64_t find_model(const Words *words)
{
    enum { LENGTH = 3 };
    for (uint64_t at = HEAD, length; at < words->count; at += length) {
        const uint32_t op = word(words, at) & 0xffff;
        length = word(words, at) >> 16;
        if (!length || length > words->count - at) return 0;
        if (op == OP_MEMORY_MODEL) return length == LENGTH ? at : 0;
        if (op != OP_CAPABILITY && op != OP_EXTENSION && op != OP_IMPORT) return 0;
    }
    return 0;
}

const char *rt_spirv_wrong(const aule_variant_v1 *variant, AuSpirvFlavour flavour)
{
    static const struct {
        uint32_t addressing, model;
        const char *otherwise;
    } of[] = {
        [RT_SPIRV_SHADER] = {5348, 3,
                             "a module of SPIR-V of another flavour, expected one with addresses "
                             "PhysicalStorageBuffer64 and memory model Vulkan"},
        [RT_SPIRV_KERNEL] = {2, 2,
                             "a module of SPIR-V of another flavour, expected one with addresses "
                             "Physical64 and memory model OpenCL"},
    };
    const Words words = {variant->code, variant->code_bytes / sizeof(uint32_t)};
    if (words.count < HEAD || variant->code_bytes % sizeof(uint32_t) || word(&words, 0) != MAGIC)
        return "no SPIR-V module";
    if (wrong_head(&words)) return "a module of SPIR-V with a damaged head";
    const uint64_t model = find_model(&words);
    if (!model) return "a module of SPIR-V without a memory model in its place";
    return word(&words, model + 1) == of[flavour].addressing &&
                   word(&words, model + 2) == of[flavour].model
               ? NULL
               : of[flavour].otherwise;
}
