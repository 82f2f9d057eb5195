/* evaluate.c - the tables of operations, and the value of one operation on scalars given as bits.
 * This is the meaning of ops.def: the folder and the interpreter compute from the same expressions.
 */
#include "kernel.h"

#include <string.h>

#include "meaning.h"

// clang-format off
enum { /* the words of ops.def and core.def */
    COMM = AU_KF_COMM, MATH = AU_KF_MATH, RESULT = AU_KF_RESULT, IMM = AU_KF_IMM, MEM = AU_KF_MEM, TEXT = AU_KF_TEXT,
    REGION = AU_KF_REGION, READ = AU_KF_READ, WRITE = AU_KF_WRITE, ORDER = AU_KF_ORDER, LANES = AU_KF_LANES, ALSO = AU_KF_ALSO,
    FROM = AU_KF_FROM, NAMES = AU_KF_NAMES, COORDS = AU_KF_COORDS, GROUP = AU_KF_GROUP, AGENTS = AU_KF_AGENTS, OPAQUE = AU_KF_OPAQUE, PLACE = AU_KF_PLACE,
    R_SAME = AU_R_SAME, R_FLOAT = AU_R_FLOAT, R_INT = AU_R_INT, R_LOGIC = AU_R_LOGIC, R_CMP = AU_R_CMP,
    R_SELECT = AU_R_SELECT, R_CVT = AU_R_CVT, R_DECODE = AU_R_DECODE, R_ENCODE = AU_R_ENCODE, CODE = AU_KF_CODE
};

const AuKOpInfo *kernel_op_info(AuKOp op)
{
    static const AuKOpInfo infos[AU_K_COUNT] = {
        [AU_K_NONE] = {.text = "none"},
#define CORE(NAME, text, least, most, flags, what) [AU_K_##NAME] = {text, least, most, AU_R_CORE, flags, 0},
#include "core.def"
#undef CORE
#define OP(NAME, text, count, rule, flags, meaning, opencl) [AU_K_##NAME] = {text, count, count, rule, RESULT | flags, opencl},
#include "ops.def"
#undef OP
    };
    return &infos[op];
}

static const struct { const char *name; uint8_t bytes; } scalars[AU_SCALARS] = {
    [AU_VOID] = {"void", 0}, [AU_I1] = {"i1", 1}, [AU_I32] = {"i32", 4}, [AU_I64] = {"i64", 8}, [AU_F32] = {"f32", 4},
    [AU_F16] = {"f16", 2}, [AU_BF16] = {"bf16", 2}, [AU_U8] = {"u8", 1},
};
// clang-format on

uint32_t kernel_scalar_bytes(AuScalar scalar) { return scalars[scalar].bytes; }
const char *kernel_scalar_name(AuScalar scalar) { return scalars[scalar].name; }

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float kernel_from_bf16(uint16_t bits) { return float_of((uint32_t)bits << 16); }

uint16_t kernel_to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float kernel_from_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    /* The exponent is moved by a product, which makes denormals right too: 2^(127 - 15). */
    const float magnitude = float_of(rest << 13) * 0x1p112f;
    return float_of(sign | bits_of(magnitude));
}

uint16_t kernel_to_f16(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more round to infinity */
    if (rest <
        0x38800000) { /* below 2^-14: adding 1/2 leaves the denormal, rounded, in the low bits */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    }
    return (uint16_t)(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

// clang-format off
/* Rows whose rule does not fit a type vanish. */
#define ROW(NAME, result) case AU_K_##NAME: return result;
#define NO_ROW(NAME, result)

#define OP(NAME, text, count, rule, flags, meaning, opencl) IN_##rule(NAME, meaning)
#define IN_R_LOGIC NO_ROW
#define IN_R_SELECT NO_ROW
#define IN_R_CVT NO_ROW
#define IN_R_DECODE NO_ROW
#define IN_R_ENCODE NO_ROW

#define OF_TYPE(function, type, bits)                                       \
static uint64_t function(AuKOp op, type a, type b, type c)                  \
{                                                                           \
    (void)c;                                                                \
    switch ((int)op) {

#define IN_R_SAME(NAME, meaning)  ROW(NAME, (uint32_t)(int32_t)(meaning))
#define IN_R_INT(NAME, meaning)   ROW(NAME, (uint32_t)(int32_t)(meaning))
#define IN_R_CMP(NAME, meaning)   ROW(NAME, meaning)
#define IN_R_FLOAT NO_ROW
OF_TYPE(of_i32, int32_t, int32_t)
#include "ops.def"
    }
    return 0;
}
#undef IN_R_SAME
#undef IN_R_INT
#define IN_R_SAME(NAME, meaning)  ROW(NAME, (uint64_t)(int64_t)(meaning))
#define IN_R_INT(NAME, meaning)   ROW(NAME, (uint64_t)(int64_t)(meaning))
OF_TYPE(of_i64, int64_t, int64_t)
#include "ops.def"
    }
    return 0;
}
#undef IN_R_SAME
#undef IN_R_INT
#undef IN_R_FLOAT
#define IN_R_SAME(NAME, meaning)  ROW(NAME, bits_of((float)(meaning)))
#define IN_R_FLOAT(NAME, meaning) ROW(NAME, bits_of((float)(meaning)))
#define IN_R_INT NO_ROW
OF_TYPE(of_f32, float, uint32_t)
#include "ops.def"
    }
    return 0;
}
#undef IN_R_SAME
#undef IN_R_FLOAT
#undef IN_R_CMP
#undef IN_R_LOGIC
#define IN_R_SAME NO_ROW
#define IN_R_FLOAT NO_ROW
#define IN_R_CMP NO_ROW
#define IN_R_LOGIC(NAME, meaning) ROW(NAME, meaning)
static uint64_t of_i1(AuKOp op, bool a, bool b)
{
    switch ((int)op) {
#include "ops.def"
    case AU_K_EQ: return a == b;
    case AU_K_NE: return a != b;
    }
    return 0;
}
#undef IN_R_LOGIC
#undef IN_R_DECODE
#define IN_R_LOGIC NO_ROW
#define IN_R_DECODE(NAME, meaning) ROW(NAME, bits_of(meaning))
static uint64_t of_code(AuKOp op, uint8_t a)
{
    switch ((int)op) {
#include "ops.def"
    }
    return 0;
}
#undef IN_R_DECODE
#undef IN_R_ENCODE
#define IN_R_DECODE NO_ROW
#define IN_R_ENCODE(NAME, meaning) ROW(NAME, meaning)
static uint64_t to_code(AuKOp op, float a)
{
    switch ((int)op) {
#include "ops.def"
    }
    return 0;
}
#undef OP
// clang-format on

static uint64_t from_float(AuScalar to, float value)
{
    switch (to) {
    case AU_F32: return bits_of(value);
    case AU_F16: return kernel_to_f16(value);
    case AU_BF16: return kernel_to_bf16(value);
    case AU_I32: return (uint32_t)float_to_i32(value);
    case AU_I64: return (uint64_t)float_to_i64(value);
    case AU_I1: return value != 0;
    case AU_U8: return (uint8_t)float_to_i32(value);
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return 0;
}

static uint64_t from_integer(AuScalar to, int64_t value)
{
    switch (to) {
    case AU_F32:
    case AU_F16:
    case AU_BF16: return from_float(to, (float)value);
    case AU_I32: return (uint32_t)value;
    case AU_I64: return (uint64_t)value;
    case AU_I1: return value != 0;
    case AU_U8: return (uint8_t)value;
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return 0;
}

static uint64_t convert(AuScalar of, AuScalar to, uint64_t a)
{
    switch (of) {
    case AU_F32: return from_float(to, float_of((uint32_t)a));
    case AU_F16: return from_float(to, kernel_from_f16((uint16_t)a));
    case AU_BF16: return from_float(to, kernel_from_bf16((uint16_t)a));
    case AU_I32: return from_integer(to, (int32_t)a);
    case AU_I64: return from_integer(to, (int64_t)a);
    case AU_I1:
    case AU_U8: return from_integer(to, (uint8_t)a);
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return 0;
}

uint64_t kernel_evaluate(AuKOp op, AuScalar of, AuScalar to, uint64_t a, uint64_t b, uint64_t c)
{
    if (op == AU_K_CVT) return convert(of, to, a);
    if (op == AU_K_BITCAST) return a;
    if (op == AU_K_SELECT) return a & 1 ? b : c;
    if (kernel_op_info(op)->rule == AU_R_DECODE) return of_code(op, (uint8_t)a);
    if (kernel_op_info(op)->rule == AU_R_ENCODE) return to_code(op, float_of((uint32_t)a));
    switch (of) {
    case AU_I1: return of_i1(op, a & 1, b & 1);
    case AU_I32: return of_i32(op, (int32_t)a, (int32_t)b, (int32_t)c);
    case AU_I64: return of_i64(op, (int64_t)a, (int64_t)b, (int64_t)c);
    case AU_F32:
        return of_f32(op, float_of((uint32_t)a), float_of((uint32_t)b), float_of((uint32_t)c));
    case AU_VOID:
    case AU_F16:
    case AU_BF16:
    case AU_U8:
    case AU_SCALARS: break;
    }
    return 0;
}
