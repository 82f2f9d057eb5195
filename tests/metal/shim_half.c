/* shim_half.c - half, written out: not every compiler has it. */
#include "include/shim.h"

#include <string.h>

float shim_from_half(uint16_t bits)
{
    const uint32_t rest = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t all = sign | ((rest << 13) + 0x38000000u);
    float value;
    if (rest < 0x400) {
        value = (float)rest * 0x1p-24f;
        memcpy(&all, &value, 4);
        all |= sign;
    } else if (rest >= 0x7c00) {
        all = sign | rest << 13 | 0x7f800000u;
    }
    memcpy(&value, &all, 4);
    return value;
}

uint16_t shim_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint32_t rest = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        const float half = 0.5f;
        float sum;
        uint32_t all, base;
        memcpy(&sum, &rest, 4);
        sum += half;
        memcpy(&all, &sum, 4);
        memcpy(&base, &half, 4);
        return (uint16_t)(sign | (all - base));
    }
    return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
