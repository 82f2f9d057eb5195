/* data.c - see data.h. */
#include "data.h"

#include <math.h>
#include <stdlib.h>

void file_read(const char *path, AuText *text)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(text, part, n);
    fclose(file);
}

const char *golden_read(Bench *b, const char *name)
{
    AuText text = {.arena = b->arena};
    file_read(au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name), &text);
    return au_text_str(&text);
}

void golden_expect(Bench *b, const char *name, const char *text)
{
    if (getenv("AU_UPDATE")) {
        FILE *file = fopen(au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name), "wb");
        if (!file || fputs(text, file) < 0 || fclose(file)) fail_msg("%s cannot be written", name);
    }
    assert_string_equal(text, golden_read(b, name));
}

/* ---- numbers */

uint32_t test_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8 ^ *seed << 13;
}

static int64_t ordered(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

float test_float(const void *data, AuScalar scalar, uint64_t n)
{
    const uint16_t half = scalar == AU_F32 ? 0 : ((const uint16_t *)data)[n];
    return scalar == AU_F32   ? ((const float *)data)[n]
           : scalar == AU_F16 ? kernel_from_f16(half)
                              : kernel_from_bf16(half);
}

bool test_same(const void *a, const void *b, AuScalar scalar, uint64_t n, int ulps, float within)
{
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    if (memcmp((const char *)a + n * bytes, (const char *)b + n * bytes, bytes) == 0) return true;
    if (scalar != AU_F32 && scalar != AU_F16 && scalar != AU_BF16) return false;
    const float x = test_float(a, scalar, n), y = test_float(b, scalar, n);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return (ulps > 0 && llabs(ordered(x) - ordered(y)) <= ulps) || fabsf(x - y) <= within;
}

/* ---- data */

static float special_float(uint32_t n)
{
    static const float values[] = {0.0f,  -0.0f,         1.0f,      -1.0f,  0.5f,
                                   3.0f,  INFINITY,      -INFINITY, NAN,    1e10f,
                                   -3e9f, 65519.0f,      65520.0f,  1e-5f,  5.9e-8f,
                                   1e30f, 2147483648.0f, 88.0f,     -88.0f, 0.99999994f};
    return values[n % (sizeof values / sizeof *values)];
}

static int64_t special_integer(uint32_t n)
{
    static const int64_t values[] = {0,         1,         -1,        7,         -7,      31,   32,
                                     INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 20, -255, 3};
    return values[n % (sizeof values / sizeof *values)];
}

void test_fill(void *data, AuScalar scalar, uint64_t count, uint32_t seed)
{
    for (uint64_t n = 0; n < count; n++) {
        const uint32_t bits = test_random(&seed);
        const bool special = bits % 3 == 0;
        const float number =
            special ? special_float(bits >> 4) : ((float)(bits >> 4 & 0xffff) - 32768.0f) / 4096.0f;
        const int64_t integer =
            special ? special_integer(bits >> 4) : (int64_t)(bits >> 3) - (1 << 20);
        switch (scalar) {
        case AU_F32: ((float *)data)[n] = number; break;
        case AU_F16:
            ((uint16_t *)data)[n] = special ? (uint16_t)bits : kernel_to_f16(number);
            break;
        case AU_BF16:
            ((uint16_t *)data)[n] = special ? (uint16_t)bits : kernel_to_bf16(number);
            break;
        case AU_I32: ((int32_t *)data)[n] = (int32_t)integer; break;
        case AU_I64: ((uint64_t *)data)[n] = (uint64_t)integer << (bits & 64 ? 0 : 20); break;
        case AU_U8: ((uint8_t *)data)[n] = (uint8_t)bits; break;
        case AU_I1:
        case AU_VOID:
        case AU_SCALARS: break;
        }
    }
}
