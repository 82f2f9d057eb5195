/* hip_object.c - a code object before the driver gets it. hipModuleLoadDataEx is told where one begins and not where it ends, so of one that
 * was cut off it would read what lies behind. What is no ELF (bundles) is the driver's to judge. ELF64, little endian: System V ABI, chapter 4. */
#include <string.h>

#include "hip_object.h"

enum { HEAD = 64, AMDGPU = 224, SEGMENT = 56 };

static uint64_t number(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned n = 0; n < bytes; n++) value |= (uint64_t)at[n] << 8 * n;
    return value;
}

/* What [count] entries of [size] bytes from [at] on end at; the largest number there is where that is none. */
static uint64_t end_of(uint64_t at, uint64_t size, uint64_t count)
{
    const uint64_t bytes = size * count; /* both have 16 bits */
    return at > UINT64_MAX - bytes ? UINT64_MAX : at + bytes;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool rt_hip_object_is_whole(const void *code, uint64_t bytes, AuText *why)
{
    const unsigned char *elf = code;
    if (bytes < 4 || memcmp(elf, "\177ELF", 4) != 0) return true;
    if (bytes < HEAD) {
        rt_text_add(why, "it is cut off: %llu bytes are less than an ELF's head",
                    (unsigned long long)bytes);
        return false;
    }
    if (elf[4] != 2 || elf[5] != 1 || number(elf + 18, 2) != AMDGPU) {
        rt_text_add(why, "its ELF is of another machine (%llu), not of an AMD GPU",
                    (unsigned long long)number(elf + 18, 2));
        return false;
    }
    const uint64_t segments = number(elf + 32, 8), sections = number(elf + 40, 8);
    const uint64_t segment_count = number(elf + 56, 2), section_count = number(elf + 60, 2);
    const bool known = number(elf + 54, 2) == SEGMENT || !segment_count;
    uint64_t end = larger(end_of(sections, number(elf + 58, 2), section_count),
                          end_of(segments, number(elf + 54, 2), segment_count));
    for (uint64_t n = 0; known && end <= bytes && n < segment_count; n++) {
        const unsigned char *segment = elf + segments + SEGMENT * n;
        const uint64_t from = number(segment + 8, 8), length = number(segment + 32, 8);
        end = larger(end, from > UINT64_MAX - length ? UINT64_MAX : from + length);
    }
    if (known && end <= bytes) return true;
    rt_text_add(why, "it is cut off: its ELF reaches byte %llu of %llu", (unsigned long long)end,
                (unsigned long long)bytes);
    return false;
}
