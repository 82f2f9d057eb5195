/* meaning.h - the functions that the meanings in ops.def are written with, and the meaning of one
 * operation on numbers. Values are f64; integers and booleans are exact in them. Whoever includes
 * this file defines nothing of the kind itself. */
#ifndef AU_DSL_ATTN_MEANING_H
#define AU_DSL_ATTN_MEANING_H

#include "attn.h"
#include "scalars.h"

/* Of the two that are numbers, if one is nan; the first of two equal ones. */
static inline double minimum(double a, double b) { return a <= b || b != b ? a : b; }
static inline double maximum(double a, double b) { return a >= b || b != b ? a : b; }

/* The remainder has the divisor's sign: -1 mod 4 is 3. */
static inline double floor_mod(double a, double b)
{
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline double floor_div(double a, double b)
{
    return floor(a / b); /* exact: quotients of i32 */
}

static inline double logaddexp(double a, double b)
{
    const double high = maximum(a, b), low = minimum(a, b);
    return high == low ? high + log(2.0) : high + log1p(exp(low - high));
}

/* The low 32 bits; 0 of what is no integer of 64. */
static inline int32_t as_i32(double x)
{
    return fabs(x) < 0x1p63 ? (int32_t)(uint32_t)(int64_t)x : 0;
}

/* As processors do: the shift counts modulo 32; right shifts keep the sign. */
static inline double shift_left(double a, double b)
{
    return as_i32((double)((uint32_t)as_i32(a) << (as_i32(b) & 31)));
}

static inline double shift_right(double a, double b) { return as_i32(a) >> (as_i32(b) & 31); }

/* A number cut toward zero to i32; the nearest i32 if it does not fit, 0 for nan. */
static inline double to_i32(double x)
{
    if (x != x) return 0;
    return trunc(x < -2147483648.0 ? -2147483648.0 : x > 2147483647.0 ? 2147483647.0 : x);
}

/* i32 arithmetic wraps around; products of i32 are not exact in f64 and are taken in integers. */
static inline double wrap_product(double a, double b)
{
    return (double)(int32_t)((uint32_t)as_i32(a) * (uint32_t)as_i32(b));
}

/* The meaning of an operation of ops.def; type is the result's. */
double attn_eval_op(AuOp op, AuType type, double a, double b, double c);

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 4 random
 * words of a counter and a key. */
void attn_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* The number in [0, 1) that decides on a pair; it is kept if the number is at least the rate. */
double attn_dropout_uniform(const uint32_t seed[2], uint32_t b, uint32_t h, uint32_t q_idx,
                            uint32_t kv_idx);

/* To the nearest value of an element type, ties to even. */
double attn_round(double x, AuDtype dtype);
/* To tf32, in which some matrix units take operands of f32: 10 bits of mantissa. */
double attn_round_tf32(double x);

#endif
