/* random.h - random numbers of a state that the caller keeps: splitmix64 (Steele, Lea and Flood, 2014). */
#ifndef AU_SUPPORT_RANDOM_H
#define AU_SUPPORT_RANDOM_H

#include <stdint.h>

static inline uint64_t au_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* From 0 to below 1. */
static inline double au_uniform(uint64_t *state)
{
    return (double)(au_random(state) >> 11) * 0x1p-53;
}

#endif
