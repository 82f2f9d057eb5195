/* codes.c - see codes.h. Written out as definitions are, for interpreters, folding and tests; kernels compute otherwise
 * (compiler/kernel/codes.c). */
#include "codes.h"

#include <math.h>

typedef struct Format {
    int mantissa, bias;
    uint8_t largest; /* code of the largest number */
} Format;

static Format format_of(AuTileElem elem)
{
    return elem == TILE_E4M3 ? (Format){3, 7, 0x7e} : (Format){2, 15, 0x7b};
}

static float magnitude(Format f, uint8_t code)
{
    const int exponent = code >> f.mantissa, one = 1 << f.mantissa, rest = code & (one - 1);
    if (code > f.largest) /* E5M2 alone has an infinity there */
        return f.mantissa == 2 && rest == 0 ? INFINITY : NAN;
    return exponent ? ldexpf((float)(one | rest), exponent - f.bias - f.mantissa)
                    : ldexpf((float)rest, 1 - f.bias - f.mantissa);
}

float machine_decode(AuTileElem elem, uint8_t code)
{
    if (elem == TILE_I8) return (float)(code < 128 ? code : code - 256);
    const float value = magnitude(format_of(elem), code & 0x7f);
    return code & 0x80 ? -value : value;
}

float machine_decode_half(uint8_t byte, int half)
{
    const int code = byte >> 4 * half & 15;
    return (float)(code < 8 ? code : code - 16);
}

uint8_t machine_encode(AuTileElem elem, float value)
{
    if (elem == TILE_I8) {
        if (isnan(value)) return 0;
        return (uint8_t)(int)(value <= -128 ? -128 : value >= 127 ? 127 : rintf(value));
    }
    if (isnan(value)) return 0x7f;
    const Format f = format_of(elem);
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    const float size = fabsf(value);
    if (size >= magnitude(f, f.largest)) return sign | f.largest;
    int exponent = size > 0 ? ilogbf(size) : 0;
    if (size == 0 || exponent < 1 - f.bias) exponent = 1 - f.bias;
    const int steps = (int)rintf(ldexpf(size, f.mantissa - exponent));
    return (uint8_t)(sign | (((exponent + f.bias - 1) << f.mantissa) + steps));
}
