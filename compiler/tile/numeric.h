/* numeric.h - what the rows of ops.def mean, on numbers; shared by constant folding and the interpreter. */
#ifndef AU_TILE_NUMERIC_H
#define AU_TILE_NUMERIC_H

#include <string.h>

#include "codes.h"
#include "round.h"
#include "scalars.h"
#include "tile.h"

/* Division rounds down; by zero gives 0, as no program that means something divides so. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t floor_mod(int64_t a, int64_t b) { return b ? a - floor_div(a, b) * b : 0; }
static inline float floor_mod_f(float a, float b) { return a - floorf(a / b) * b; }
/* Of 32 bits; the sign is shifted in from the left. */
static inline int64_t shift_left(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a << (b & 31));
}
static inline int64_t shift_right(int64_t a, int64_t b) { return a >> (b & 31); }
/* High word of the product of two unsigned words. */
static inline int64_t mul_high(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)(uint32_t)a * (uint32_t)b >> 32);
}
static inline int64_t clamp(int64_t a, int64_t low, int64_t high)
{
    a = a > low ? a : low;
    return a < high ? a : high;
}

/* NaN wins. */
static inline float minimum(float a, float b) { return a < b || a != a ? a : b; }
static inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
static inline float logaddexp(float a, float b)
{
    if (a == b) return a + 0.69314718f;
    return maximum(a, b) + log1pf(expf(-fabsf(a - b)));
}

/* To the nearest bf16, ties to even. */
static inline float round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7F800000u) != 0x7F800000u) bits += 0x7FFFu + (bits >> 16 & 1);
    bits &= 0xFFFF0000u;
    if (x != x) bits |= 0x400000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* To the nearest f16, ties to even: above 65504 by half a step to infinity, below 2^-14 in steps of 2^-24. */
static inline float round_f16(float x)
{
    const float size = fabsf(x);
    if (!(size < 65520.0f)) return x != x ? x : copysignf(INFINITY, x);
    return (float)au_round_bits(x, 11, -24);
}

/* To 10 bits of mantissa, ties away from zero, as cvt.rna.tf32.f32 does. */
static inline float round_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7F800000u) == 0x7F800000u) return x;
    bits = (bits + 0x1000u) & ~0x1FFFu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float round_to(AuTileElem elem, float x)
{
    if (tile_elem(elem)->is_code) return machine_decode(elem, machine_encode(elem, x));
    return elem == TILE_BF16 ? round_bf16(x) : elem == TILE_F16 ? round_f16(x) : x;
}

/* Toward zero; what does not fit stays at the ends. */
static inline int32_t to_i32(float x)
{
    if (x != x) return 0;
    return x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (int32_t)x;
}

#endif
