/* round.h - rounding to numbers of fewer bits, to the nearest, ties to even. */
#ifndef AU_ROUND_H
#define AU_ROUND_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2^n, for the exponents of normal numbers. */
static inline double au_power_of_two(int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A significand of [bits] bits, at most 50, the leading one included, and no finer step than 2^[least]. */
static inline double au_round_bits(double x, int bits, int least)
{
    if (x == 0 || !isfinite(x)) return x;
    uint64_t of_x;
    memcpy(&of_x, &x, sizeof of_x);
    int e = (int)(of_x >> 52 & 0x7ff) - 1022; /* |x| in [2^(e - 1), 2^e) */
    if (e == -1022) frexp(x, &e);
    const int n = e - bits > least ? e - bits : least;
    if (n + 53 > 1023 || n + 52 < -1022) return ldexp(nearbyint(ldexp(x, -n)), n);
    /* Numbers as large as [large] are multiples of 2^n: the sum is rounded to one, and the difference is exact. */
    const double large = 1.5 * au_power_of_two(n + 52);
    return copysign((fabs(x) + large) - large, x);
}

#endif
