/* meaning.h - the words in which the reference meanings of ops.def are written, for int32_t,
 * int64_t and float alike. Included by what computes with them: evaluate.c (one scalar) and
 * interpret_ops.c (all lanes). Integers wrap because this library is compiled with -fwrapv.
 * Functions of the C library are computed in double and rounded once by who uses them. */
#ifndef AU_KERNEL_MEANING_H
#define AU_KERNEL_MEANING_H

#include <stdint.h>

#include "codes.h"
#include "scalars.h"

/* Division by zero gives 0, remainder the dividend: a kernel must not divide by zero, but its
 * interpreter must not die of it. */
static inline int64_t floor_div_i64(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return -a;
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int32_t floor_div_i32(int32_t a, int32_t b) { return (int32_t)floor_div_i64(a, b); }
static inline int64_t floor_mod_i64(int64_t a, int64_t b) { return a - floor_div_i64(a, b) * b; }
static inline int32_t floor_mod_i32(int32_t a, int32_t b) { return a - floor_div_i32(a, b) * b; }

static inline int32_t mul_high_i32(int32_t a, int32_t b)
{
    return (int32_t)((uint64_t)(uint32_t)a * (uint32_t)b >> 32);
}
static inline int64_t mul_high_i64(int64_t a, int64_t b)
{
    const uint64_t al = (uint32_t)a, ah = (uint64_t)a >> 32, bl = (uint32_t)b,
                   bh = (uint64_t)b >> 32;
    const uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (uint32_t)middle;
    return (int64_t)(ah * bh + (middle >> 32) + (other >> 32));
}

static inline int32_t abs_i32(int32_t a) { return a < 0 ? -a : a; }
static inline int64_t abs_i64(int64_t a) { return a < 0 ? -a : a; }
static inline int32_t shl_i32(int32_t a, int32_t n) { return (int32_t)((uint32_t)a << (n & 31)); }
static inline int64_t shl_i64(int64_t a, int64_t n) { return (int64_t)((uint64_t)a << (n & 63)); }
static inline int32_t shr_i32(int32_t a, int32_t n) { return a >> (n & 31); }
static inline int64_t shr_i64(int64_t a, int64_t n) { return a >> (n & 63); }
static inline int32_t ushr_i32(int32_t a, int32_t n) { return (int32_t)((uint32_t)a >> (n & 31)); }
static inline int64_t ushr_i64(int64_t a, int64_t n) { return (int64_t)((uint64_t)a >> (n & 63)); }
/* Toward zero. What does not fit is any value; here the nearest, and 0 for NaN. */
static inline int32_t float_to_i32(float a)
{
    return a >= 0x1p31f ? INT32_MAX : a <= -0x1p31f ? INT32_MIN : a == a ? (int32_t)a : 0;
}
static inline int64_t float_to_i64(float a)
{
    return a >= 0x1p63f ? INT64_MAX : a <= -0x1p63f ? INT64_MIN : a == a ? (int64_t)a : 0;
}

// clang-format off
#define decode(elem, a)            machine_decode(TILE_##elem, a)
#define decode_half(a, half)       machine_decode_half(a, half)
#define encode(elem, a)            machine_encode(TILE_##elem, a)
#define OF_INT(function, a) _Generic((a), int32_t: function##_i32, int64_t: function##_i64)
#define floor_div(a, b)            OF_INT(floor_div, a)(a, b)
#define floor_mod(a, b)            OF_INT(floor_mod, a)(a, b)
#define mul_high_unsigned(a, b)    OF_INT(mul_high, a)(a, b)
#define shift_left(a, b)           OF_INT(shl, a)(a, b)
#define shift_right_signed(a, b)   OF_INT(shr, a)(a, b)
#define shift_right_unsigned(a, b) OF_INT(ushr, a)(a, b)
#define absolute(a)                _Generic((a), float: fabsf, int32_t: abs_i32, int64_t: abs_i64)(a)
#define minimum(a, b)              ((a) < (b) ? (a) : (b))
#define maximum(a, b)              ((a) > (b) ? (a) : (b))
#define maximum_or_nan(a, b)       ((a) != (a) || (a) > (b) ? (a) : (b)) /* NaN where one is: b itself, or a */
// clang-format on

#endif
