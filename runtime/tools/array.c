#include "array.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool array_wrong(AuWhy *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    for (char *at = why->text; *at; at++) /* names in files may hold anything */
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    return false;
}

/* ---- element types */

typedef struct Kind {
    const char *name;
    uint32_t bytes;
    DLDataType dl;
} Kind;

// clang-format off
static const Kind kinds[] = {
    [AULE_OPERAND] = {"none", 0, {0, 0, 0}},
    [AULE_F32]  = {"f32", 4, {kDLFloat, 32, 1}},  [AULE_F16] = {"f16", 2, {kDLFloat, 16, 1}},
    [AULE_BF16] = {"bf16", 2, {kDLBfloat, 16, 1}}, [AULE_I32] = {"i32", 4, {kDLInt, 32, 1}},
    [AULE_I64]  = {"i64", 8, {kDLInt, 64, 1}},    [AULE_U8]  = {"u8", 1, {kDLUInt, 8, 1}},
    [AULE_E4M3] = {"e4m3", 1, {kDLFloat8_e4m3fn, 8, 1}}, [AULE_E5M2] = {"e5m2", 1, {kDLFloat8_e5m2, 8, 1}},
    [AULE_I8]   = {"i8", 1, {kDLInt, 8, 1}},
    [AULE_BOOL] = {"bool", 1, {kDLBool, 8, 1}},   [ARRAY_F64] = {"f64", 8, {kDLFloat, 64, 1}},
};
// clang-format on
enum { KINDS = sizeof kinds / sizeof *kinds };

uint32_t array_dtype_bytes(uint32_t dtype) { return dtype < KINDS ? kinds[dtype].bytes : 0; }
const char *array_dtype_name(uint32_t dtype) { return dtype < KINDS ? kinds[dtype].name : "none"; }
DLDataType array_dl_type(uint32_t dtype) { return kinds[dtype < KINDS ? dtype : 0].dl; }

uint32_t array_dtype_named(const char *name)
{
    for (uint32_t i = AULE_F32; i <= AULE_I8; i++)
        if (strcmp(kinds[i].name, name) == 0) return i;
    return AULE_OPERAND;
}

/* ---- arrays */

/* Elements; false: more than memory has, also where an axis without elements makes none of many: strides count the others. */
static bool count_elements(const AuArray *array, size_t *count)
{
    int64_t reach = 1;
    *count = 1;
    for (int32_t i = 0; i < array->rank; i++) {
        if (array->shape[i] < 0 ||
            __builtin_mul_overflow(reach, array->shape[i] ? array->shape[i] : 1, &reach))
            return false;
        *count *= (size_t)array->shape[i];
    }
    return reach < INT64_MAX / 16;
}

static void set_strides(AuArray *array, bool fortran)
{
    int64_t stride = 1;
    for (int32_t i = 0; i < array->rank; i++) {
        int32_t axis = fortran ? i : array->rank - 1 - i;
        array->strides[axis] = stride;
        stride *= array->shape[axis];
    }
}

bool array_new(AuArray *array, uint32_t dtype, int32_t rank, const int64_t *shape, AuWhy *why)
{
    size_t count;
    *array = (AuArray){.dtype = dtype, .rank = rank};
    if (rank < 0 || rank > ARRAY_RANK)
        return array_wrong(why, "an array of %d axes, expected at most %d", rank, ARRAY_RANK);
    if (rank > 0) memcpy(array->shape, shape, (size_t)rank * sizeof *shape);
    if (!count_elements(array, &count)) return array_wrong(why, "an array too large for memory");
    array->bytes = count * array_dtype_bytes(dtype);
    set_strides(array, false);
    array->data = aligned_alloc(64, (array->bytes + 64) / 64 * 64);
    if (!array->data) return array_wrong(why, "no memory for an array of %zu bytes", array->bytes);
    memset(array->data, 0, array->bytes);
    return true;
}

void array_free(AuArray *array)
{
    free(array->data);
    *array = (AuArray){0};
}

bool array_take(AuArray *array, bool fortran, const void *data, size_t available, const char *path,
                AuWhy *why)
{
    size_t count;
    if (!count_elements(array, &count))
        return array_wrong(why, "%s: its shape is too large for memory", path);
    size_t bytes = count * array_dtype_bytes(array->dtype);
    if (bytes > available)
        return array_wrong(why, "%s: truncated: it has %zu bytes of data, its shape needs %zu",
                           path, available, bytes);
    if (bytes < available)
        return array_wrong(why, "%s: it has %zu bytes of data, its shape needs only %zu", path,
                           available, bytes);
    AuArray made;
    if (!array_new(&made, array->dtype, array->rank, array->shape, why)) return false;
    if (bytes > 0) memcpy(made.data, data, bytes);
    set_strides(&made, fortran);
    *array = made;
    return true;
}

/* ---- reading */

static bool ends_with(const char *text, size_t length, const char *end)
{
    size_t end_length = strlen(end);
    return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

bool array_read(AuArray *array, const char *spec, const char *name, AuWhy *why)
{
    static const char mark[] = ".safetensors:";
    const char *colon = strstr(spec, mark);
    size_t length = colon ? (size_t)(colon - spec) + sizeof mark - 2 : strlen(spec);
    char path[4096];
    AuFile file;
    *array = (AuArray){0};
    if (length >= sizeof path) return array_wrong(why, "%s: the path is too long", spec);
    memcpy(path, spec, length);
    path[length] = 0;
    if (!file_read(&file, path, why)) return false;
    bool fine = ends_with(path, length, ".safetensors")
                    ? safetensors_parse(array, &file, path, colon ? spec + length + 1 : name, why)
                    : npy_parse(array, &file, path, why);
    file_free(&file);
    return fine;
}

/* ---- conversions */

float array_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u,
             fraction = half & 0x3ffu, bits;
    if (exponent == 31)
        bits = sign | 0x7f800000u | fraction << 13;
    else if (exponent > 0)
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        float tiny = (float)fraction * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t array_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u - 0x1000u)
        return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more */
    if (magnitude < 0x38800000u) {         /* below 2^-14: a multiple of 2^-24 */
        float absolute;
        memcpy(&absolute, &magnitude, sizeof absolute);
        float shifted = absolute + 0.5f; /* rounds to 2^-24 */
        uint32_t rounded;
        memcpy(&rounded, &shifted, sizeof rounded);
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

uint16_t array_to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float load_float(const AuArray *array, size_t at)
{
    uint16_t half;
    uint32_t bits;
    float value;
    if (array->dtype == AULE_F32) {
        memcpy(&value, (const char *)array->data + 4 * at, sizeof value);
        return value;
    }
    memcpy(&half, (const char *)array->data + 2 * at, sizeof half);
    if (array->dtype == AULE_F16) return array_from_half(half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* [value] as f32 to be rounded on to 16 bits: toward zero, and odd where that is not exact, so that the second rounding goes where a
 * single one would (Boldo and Melquiond, 2008). */
static float to_odd(double value)
{
    float near = (float)value;
    uint32_t bits;
    if (isnan(value) || (double)near == value) return near;
    if (fabs((double)near) > fabs(value)) near = nextafterf(near, 0);
    memcpy(&bits, &near, sizeof bits);
    bits |= 1u;
    memcpy(&near, &bits, sizeof near);
    return near;
}

/* An element as f32 from which [dtype] is rounded. */
static float load_for(const AuArray *array, size_t at, uint32_t dtype)
{
    double value;
    if (array->dtype != ARRAY_F64) return load_float(array, at);
    memcpy(&value, (const char *)array->data + 8 * at, sizeof value);
    return dtype == AULE_F32 ? (float)value : to_odd(value);
}

static bool is_float(uint32_t dtype)
{
    return dtype == AULE_F32 || dtype == AULE_F16 || dtype == AULE_BF16;
}

bool array_convert(AuArray *array, uint32_t dtype, AuWhy *why)
{
    AuArray made;
    if (array->dtype == dtype) return true;
    if (!(is_float(array->dtype) || array->dtype == ARRAY_F64) || !is_float(dtype))
        return array_wrong(why, "%s cannot be converted to %s", array_dtype_name(array->dtype),
                           array_dtype_name(dtype));
    if (!array_new(&made, dtype, array->rank, array->shape, why)) return false;
    memcpy(made.strides, array->strides, sizeof made.strides);
    size_t count = array->bytes / array_dtype_bytes(array->dtype);
    for (size_t i = 0; i < count; i++) {
        float value = load_for(array, i, dtype);
        uint16_t half = dtype == AULE_F16 ? array_to_half(value) : array_to_bfloat(value);
        if (dtype == AULE_F32)
            memcpy((char *)made.data + 4 * i, &value, sizeof value);
        else
            memcpy((char *)made.data + 2 * i, &half, sizeof half);
    }
    array_free(array);
    *array = made;
    return true;
}
