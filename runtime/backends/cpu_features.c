#include "cpu_features.h"

#include "../descriptor.h"
#include "../platform/platform.h"

#if defined(__x86_64__)

#include <cpuid.h>

enum { A, B, C, D, TILES = 0x60000 /* of XCR0 */ };

enum {
#define X86_ARCH(id, name) id,
#include "cpu_features.def"
};

static const char *const archs[] = {
#define X86_ARCH(id, name) name,
#include "cpu_features.def"
};

static uint64_t saved_state(void) /* XCR0 */
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low | (uint64_t)high << 32;
}

static bool has(uint32_t leaf, uint32_t subleaf, int where, uint32_t bit, uint64_t state)
{
    unsigned registers[4];
    if (!__get_cpuid_count(leaf, subleaf, &registers[A], &registers[B], &registers[C],
                           &registers[D]))
        return false;
    if (!(registers[where] >> bit & 1) || (saved_state() & state) != state) return false;
    return !(state & TILES) || rt_may_use_tiles();
}

/* CPUID: the maker's name is in three registers of leaf 0, the family in eax of leaf 1. */
static bool is_made_by(const char *maker, uint32_t family)
{
    unsigned a, b, c, d, name[3];
    if (!__get_cpuid(0, &a, &name[0], &name[2], &name[1])) return false;
    if (memcmp(name, maker, sizeof name) != 0 || !__get_cpuid(1, &a, &b, &c, &d)) return false;
    const uint32_t base = a >> 8 & 15;
    return (base == 15 ? base + (a >> 20 & 255) : base) >= family;
}

/* Who names the very architecture as the limit has it taken for fast. */
static bool is_fast(const AuText *words, size_t limit, const char *feature, const char *maker,
                    uint32_t family, size_t arch)
{
    return words->at && rt_has_word(words->at, feature, strlen(feature)) &&
           (limit == arch + 1 || (limit > arch && is_made_by(maker, family)));
}

void rt_cpu_features(size_t limit, AuText *words)
{
#define X86(name, leaf, subleaf, where, bit, state, arch)                                          \
    if (arch < limit && has(leaf, subleaf, where, bit, state))                                     \
        rt_text_add(words, "%s" name, words->length ? " " : "");
#include "cpu_features.def"
#define X86_FAST(word, feature, maker, family, arch)                                               \
    if (is_fast(words, limit, feature, maker, family, arch)) rt_text_add(words, " " word);
#include "cpu_features.def"
}

const char *rt_cpu_wish(const char *arch)
{
#define X86_FAST(word, feature, maker, family, id)                                                 \
    if (strcmp(archs[id], arch) == 0) return word;
#include "cpu_features.def"
    return "";
}

void rt_cpu_name(AuText *name)
{
    unsigned words[13] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3]))
            return;
    const char *text = (const char *)words;
    while (*text == ' ') text++;
    rt_text_add(name, "%s", text);
}

const char *rt_cpu_family(void) { return "x86-64"; }

#elif defined(__aarch64__)

static const char *const archs[] = {
#define ARM_ARCH(id, name) name,
#include "cpu_features.def"
};

void rt_cpu_features(size_t limit, AuText *words)
{
    (void)limit;
#define ARM(name, word, bit, apple)                                                                \
    if (rt_arm_has(word, bit, apple)) rt_text_add(words, "%s" name, words->length ? " " : "");
#include "cpu_features.def"
}

void rt_cpu_name(AuText *name)
{
    char text[128];
    rt_arm_name(text, sizeof text);
    rt_text_add(name, "%s", text);
}

const char *rt_cpu_family(void) { return "aarch64"; }

#else

static const char *const archs[] = {"unknown"};

void rt_cpu_features(size_t limit, AuText *words)
{
    (void)limit;
    (void)words;
}

void rt_cpu_name(AuText *name) { rt_text_add(name, "unknown"); }
const char *rt_cpu_family(void) { return "unknown"; }

#endif

#if !defined(__x86_64__)
const char *rt_cpu_wish(const char *arch)
{
    (void)arch;
    return "";
}
#endif

const char *rt_cpu_arch(size_t place)
{
    return place < sizeof archs / sizeof *archs ? archs[place] : NULL;
}
