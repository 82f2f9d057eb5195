/* source.h - a fuzzer's input, taken off its front a few bytes at a time; behind its end there are zeros. */
#ifndef AU_TEST_FUZZ_SOURCE_H
#define AU_TEST_FUZZ_SOURCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct Source {
    const uint8_t *at;
    size_t size;
} Source;

/* The higher byte first. */
static inline uint64_t take(Source *s, size_t bytes)
{
    uint64_t value = 0;
    for (; bytes > 0 && s->size > 0; bytes--, s->size--) value = value << 8 | *s->at++;
    return value;
}

#endif
