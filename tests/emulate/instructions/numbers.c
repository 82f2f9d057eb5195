/* numbers.c - arithmetic that meanings are written with. Halves are integers of 2^-24; a sum that is rounded again is rounded to odd first
 * (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008), so that the second rounding sees what the first left out. */
#include "instruction.h"

#include <math.h>

double real_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

uint32_t real_bits(double value)
{
    const float real = (float)value;
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

double half_value(uint32_t half)
{
    const uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    const double sign = half & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, (int)exponent - 25) : ldexp(mantissa, -24));
}

/* The place of a positive half in the order of all of them is its bits. */
static uint32_t rounded_half(double size, bool nearest)
{
    uint32_t low = 0, high = 0x7c00; /* low <= size < high */
    if (isinf(size)) return 0x7c00;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (half_value(middle) <= size)
            low = middle;
        else
            high = middle;
    }
    if (!nearest) return low;
    const double above = high == 0x7c00 ? 65536.0 : half_value(high), over = size - half_value(low),
                 under = above - size;
    return over < under || (over == under && low % 2 == 0) ? low : high;
}

static uint32_t half_from(double value, bool nearest)
{
    if (isnan(value)) return 0x7e00;
    return (signbit(value) ? 0x8000u : 0u) | rounded_half(fabs(value), nearest);
}

uint32_t half_bits(double value) { return half_from(value, true); }
uint32_t half_towards_zero(double value) { return half_from(value, false); }

uint32_t bf16_bits(double value)
{
    if (isnan(value)) return 0x7fc0;
    const uint32_t bits = real_bits(value), low = bits % 65536, up = bits / 65536;
    return up + (low > 32768 || (low == 32768 && up % 2 == 1));
}

double sum_to_odd(double a, double b)
{
    const double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (!isfinite(sum) || rest == 0 || bits % 2 == 1) return sum;
    return nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
}

double greater(double a, double b)
{
    if (isnan(a)) return b;
    if (isnan(b) || a > b) return a;
    if (a == b) return signbit(a) ? b : a;
    return b;
}

double between(double a, double b, double c)
{
    if (isnan(a) || isnan(b) || isnan(c)) return -greater(greater(-a, -b), -c);
    const double most = greater(greater(a, b), c);
    if (most == a) return greater(b, c);
    return most == b ? greater(a, c) : greater(a, b);
}

double inside_of(double a, double least, double most)
{
    return isnan(a) ? 0 : trunc(a) < least ? least : trunc(a) > most ? most : trunc(a);
}

uint32_t turned_bits(uint32_t a)
{
    uint32_t r = 0;
    for (int n = 0; n < 32; n++) r = r * 2 + (a >> n) % 2;
    return r;
}

uint32_t ones(uint32_t a) { return a ? a % 2 + ones(a / 2) : 0; }

uint32_t first_from(uint64_t a, int at, int step)
{
    for (uint32_t n = 0; at >= 0 && at < 64; n++, at += step)
        if (a >> at & 1) return n;
    return 0xffffffff;
}

static uint32_t byte_chosen(uint32_t a, uint32_t b, uint32_t select)
{
    switch (select) {
    case 0:
    case 1:
    case 2:
    case 3: return b >> 8 * select & 255;
    case 4:
    case 5:
    case 6:
    case 7: return a >> 8 * (select - 4) & 255;
    case 8: return b & 0x8000 ? 255 : 0;
    case 9: return b & 0x80000000 ? 255 : 0;
    case 10: return a & 0x8000 ? 255 : 0;
    case 11: return a & 0x80000000 ? 255 : 0;
    case 12: return 0;
    default: return 255;
    }
}

uint32_t chosen_bytes(uint32_t a, uint32_t b, uint32_t select)
{
    return byte_chosen(a, b, select & 255) + byte_chosen(a, b, select >> 8 & 255) * 256 +
           byte_chosen(a, b, select >> 16 & 255) * 65536 +
           byte_chosen(a, b, select >> 24) * 16777216;
}

int64_t signed24(uint32_t a) { return (int64_t)(a % 16777216) - (a & 0x800000 ? 16777216 : 0); }

int64_t sorted3(int64_t a, int64_t b, int64_t c, int which)
{
    int64_t all[3] = {a, b, c};
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < 2; n++)
            if (all[n] > all[n + 1]) {
                const int64_t first = all[n];
                all[n] = all[n + 1];
                all[n + 1] = first;
            }
    return all[which];
}

int32_t high_word(int64_t a) { return (int32_t)(uint32_t)((uint64_t)a / 4294967296u); }

/* An arithmetic shift, then the sign of the field. */
int32_t signed_field(int32_t a, uint32_t from, uint32_t count)
{
    return (int32_t)(uint32_t)signed_field64(a, from, count, 32);
}

uint64_t field_of(uint64_t a, uint64_t from, uint64_t count)
{
    uint64_t r = 0;
    for (uint64_t n = 0; n < count && n + from < 64; n++) r += (a >> (from + n) & 1) << n;
    return r;
}

uint64_t signed_field64(int64_t a, uint64_t from, uint64_t count, unsigned bits)
{
    uint64_t r = 0;
    if (!count) return 0;
    for (uint64_t n = 0; n < 64;
         n++) { /* behind the field its last bit; beyond the source its sign */
        const uint64_t of = from + (n < count ? n : count - 1), at = of < bits ? of : bits - 1u;
        r += ((uint64_t)a >> at & 1) << n;
    }
    return r;
}
