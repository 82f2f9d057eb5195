/* spirv.c - see spirv.h. Numbers are those of the SPIR-V specification, 2.3 (the head), 2.4 (what comes before the memory model) and 3.52 (the
 * instructions). Drivers take an id for an index into what they have allocated by the head's bound, so a damaged one may end the process. */
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

/* Operands of instructions that are ids: words [from] to [to] of opcodes [first] to [last]; 0: to the end. Opcodes ascend. What is not there is
 * literal, optional, or none that our modules have. */
static const struct Ids {
    uint16_t first, last;
    uint8_t from, to;
} id_words[] = {
    {1, 1, 1, 2},     {5, 7, 1, 1},     {8, 8, 1, 1},     {11, 11, 1, 1},   {12, 12, 1, 3},
    {15, 15, 2, 2},   {16, 16, 1, 1},   {19, 22, 1, 1},   {23, 24, 1, 2},   {28, 28, 1, 3},
    {29, 29, 1, 2},   {30, 30, 1, 0},   {32, 32, 3, 3},   {33, 33, 1, 0},   {39, 39, 1, 1},
    {41, 43, 1, 2},   {44, 44, 1, 0},   {46, 46, 1, 2},   {48, 50, 1, 2},   {54, 55, 1, 2},
    {57, 57, 1, 0},   {59, 59, 1, 2},   {61, 61, 1, 3},   {62, 62, 1, 2},   {65, 67, 1, 0},
    {70, 70, 1, 0},   {71, 72, 1, 1},   {77, 78, 1, 0},   {79, 79, 1, 4},   {80, 80, 1, 0},
    {81, 81, 1, 3},   {82, 82, 1, 4},   {83, 83, 1, 0},   {109, 124, 1, 0}, {126, 152, 1, 0},
    {154, 191, 1, 0}, {194, 205, 1, 0}, {224, 225, 1, 0}, {227, 242, 1, 0}, {245, 245, 1, 0},
    {246, 246, 1, 2}, {247, 249, 1, 1}, {250, 250, 1, 3}, {251, 251, 1, 2}, {254, 254, 1, 1},
    {333, 364, 1, 3},
};

static const struct Ids *ids_of(uint32_t op)
{
    size_t low = 0, high = sizeof id_words / sizeof *id_words;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (op > id_words[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < sizeof id_words / sizeof *id_words && op >= id_words[low].first;
    return found ? &id_words[low] : NULL;
}

/* Do instructions end where the module does, and are ids below the head's bound? */
static bool is_whole(const Words *words)
{
    const uint32_t bound = word(words, 3);
    for (uint64_t at = HEAD, length; at < words->count; at += length) {
        const struct Ids *ids = ids_of(word(words, at) & 0xffff);
        length = word(words, at) >> 16;
        if (!length || length > words->count - at) return false;
        if (!ids) continue;
        const uint64_t last = ids->to ? ids->to : length - 1;
        if (last >= length) return false;
        for (uint64_t n = ids->from; n <= last; n++)
            if (word(words, at + n) == 0 || word(words, at + n) >= bound) return false;
    }
    return true;
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
    if (word(&words, model + 1) != of[flavour].addressing ||
        word(&words, model + 2) != of[flavour].model)
        return of[flavour].otherwise;
    return is_whole(&words) ? NULL : "a module of SPIR-V that is damaged";
}

void rt_spirv_mark_loops(uint32_t *words, size_t count, uint32_t less, uint32_t more)
{
    enum { LOOP_MERGE = 246, CONTROL = 3 };
    for (size_t at = HEAD, length; at < count; at += length) {
        length = words[at] >> 16;
        if (!length || length > count - at) return;
        if ((words[at] & 0xffff) == LOOP_MERGE && length > CONTROL)
            words[at + CONTROL] = (words[at + CONTROL] & ~less) | more;
    }
}
