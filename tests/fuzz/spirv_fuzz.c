/* spirv_fuzz.c - bytes as changes of a module of SPIR-V, those that the runtime brings itself, as either flavour: words and bits that are others,
 * words left out, put in or twice, ends. Refused in words, or taken as one flavour, whole, and with loops that can be marked: what is taken is looked
 * at again here, by its lengths alone. What drivers say of it is not asked. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/spirv.h"

static const uint32_t probe[] = {
#include "../../runtime/backends/vulkan_probe.def"
};
static const uint32_t clear[] = {
#include "../../runtime/backends/vulkan_clear.def"
};
static const uint32_t positions16[] = {
#include "../../runtime/backends/vulkan_positions16.def"
};
static const uint32_t positions8[] = {
#include "../../runtime/backends/vulkan_positions8.def"
};
static const struct {
    const uint32_t *words;
    size_t count;
} modules[] = {{probe, sizeof probe / 4},
               {clear, sizeof clear / 4},
               {positions16, sizeof positions16 / 4},
               {positions8, sizeof positions8 / 4}};
enum { MODULES = 4, MOST = 2048, HEAD = 5, OP_MEMORY_MODEL = 14, OP_LOOP_MERGE = 246, CONTROL = 3 };

/* ---- changes */

typedef struct Source {
    const uint8_t *at;
    size_t left;
} Source;

static uint32_t take(Source *s, size_t bytes)
{
    uint32_t value = 0;
    for (size_t n = 0; n < bytes && s->left; n++, s->left--) value |= (uint32_t)*s->at++ << 8 * n;
    return value;
}

static size_t start(Source *s, uint32_t *words)
{
    const uint32_t which = take(s, 1);
    const size_t count = modules[which % MODULES].count;
    memcpy(words, modules[which % MODULES].words, count * sizeof *words);
    for (size_t at = HEAD; which / MODULES % 2 && at < count; at += words[at] >> 16)
        if ((words[at] & 0xffff) == OP_MEMORY_MODEL) words[at + 1] = words[at + 2] = 2;
    return count;
}

/* Of what kind, where, and a number. */
static size_t change(Source *s, uint32_t *words, size_t count)
{
    const uint32_t kind = take(s, 1) % 8, place = take(s, 2), value = take(s, 4);
    const size_t at = count ? place % count : 0, left = count - at;
    switch (kind) {
    case 0: words[at] = value; return count;
    case 1: words[at] ^= 1u << value % 32; return count;
    case 2: words[at] = (words[at] & 0xffff) | value % 16 << 16; return count; /* a length */
    case 3: words[at] = value % 512; return count;                             /* an id */
    case 4:                                                                    /* left out */
        if (!count) return 0;
        memmove(words + at, words + at + 1, (left - 1) * sizeof *words);
        return count - 1;
    case 5: /* twice, or put in */
        if (count == MOST) return count;
        memmove(words + at + 1, words + at, left * sizeof *words);
        if (value) words[at] = value;
        return count + 1;
    case 6: words[at] = words[value % (count ? count : 1)]; return count;
    default: return value % 4 ? count : at; /* the end */
    }
}

/* ---- what the runtime says */

static bool is_taken(const void *code, size_t bytes, AuSpirvFlavour flavour)
{
    const aule_variant_v1 variant = {.code = code, .code_bytes = bytes};
    const char *wrong = rt_spirv_wrong(&variant, flavour);
    if (wrong && (!*wrong || strchr(wrong, '\n'))) abort(); /* what is wrong is always said */
    return !wrong;
}

/* Instructions end where the module does; of loops none has a bit of [without], nor lacks one of [with]. */
static void expect_whole(const uint32_t *words, size_t count, uint32_t without, uint32_t with)
{
    size_t at = HEAD;
    if (count < HEAD || !words[3]) abort();
    for (size_t length; at < count; at += length) {
        length = words[at] >> 16;
        if (!length || length > count - at) abort();
        if ((words[at] & 0xffff) != OP_LOOP_MERGE || length <= CONTROL) continue;
        if (words[at + CONTROL] & without || (words[at + CONTROL] & with) != with) abort();
    }
}

/* Of just its length, and at an odd address: a read beyond it is seen, and code may lie anywhere. */
static void look(const uint32_t *words, size_t bytes, bool *shader, bool *kernel)
{
    uint8_t *all = malloc(bytes + 1);
    if (!all) abort();
    memcpy(all + 1, words, bytes);
    *shader = is_taken(all + 1, bytes, RT_SPIRV_SHADER);
    *kernel = is_taken(all + 1, bytes, RT_SPIRV_KERNEL);
    if (*shader && *kernel) abort();
    free(all);
}

/* Marks are no reason to refuse a module, and damaged ones are marked no further than they reach. */
static void mark(const uint32_t *words, size_t count, bool shader, bool kernel)
{
    uint32_t *own = malloc(count * sizeof *own + 1);
    bool still_shader, still_kernel;
    if (!own) abort();
    memcpy(own, words, count * sizeof *own);
    rt_spirv_mark_loops(own, count, RT_SPIRV_UNROLL, RT_SPIRV_DONT_UNROLL);
    look(own, count * sizeof *own, &still_shader, &still_kernel);
    if (still_shader != shader || still_kernel != kernel) abort();
    if (shader || kernel) expect_whole(own, count, RT_SPIRV_UNROLL, RT_SPIRV_DONT_UNROLL);
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CHANGES = 8 };
    Source s = {data, size};
    uint32_t words[MOST + 1];
    bool shader, kernel;
    size_t count = start(&s, words);
    for (int n = 0; n < CHANGES && s.left; n++) count = change(&s, words, count);
    const size_t odd = take(&s, 1) == 1 && count; /* bytes that are no whole word */
    look(words, count * sizeof *words - odd, &shader, &kernel);
    if (size <= 1 && !shader && !kernel) abort(); /* the modules themselves */
    if (!odd) mark(words, count, shader, kernel);
    return 0;
}
