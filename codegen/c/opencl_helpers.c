/* opencl_helpers.c - functions that printed OpenCL C may call, in the order in which they may call each other. */
#include "opencl.h"

// clang-format off
const AuCHelper opencl_helpers[OPENCL_HELPERS] = {
    /* The kernel IR rounds once. Compilers that have the instruction, but do not say that it is fast, use it where they may. */
    {"mul_add", "float", {"float", "float", "float"},
     "{\n#if defined(FP_FAST_FMAF) || defined(__FMA__)\n    return fma(a, b, c);\n#else\n"
     "#pragma OPENCL FP_CONTRACT ON\n    return a * b + c;\n#endif\n}\n"},
    /* -a, signed zeros too. Intel's compiler for processors forgets the sign of what lives across a barrier (docs/dev/testing.md). */
    {"negated", "float", {"float"},
     "{\n#ifdef AULE_PROCESSOR\n    return a == 0.0f ? -a : 0.0f - a;\n#else\n    return -a;\n#endif\n}\n"},
    /* Like the kernel IR, and unlike fmin: the second operand where one is NaN. */
    {"minimum", "float", {"float", "float"}, "{\n    return a < b ? a : b;\n}\n"},
    {"maximum", "float", {"float", "float"}, "{\n    return a > b ? a : b;\n}\n"},
    {"maximum_or_nan", "float", {"float", "float"}, "{\n    return isnan(a) || a > b ? a : b;\n}\n"},
    /* Divisors 0 and -1 stop some devices: they are kept from the divider. */
    {"floor_div", "int", {"int", "int"},
     "{\n    if (b == 0 || b == -1) return a * b;\n    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}\n"},
    {"floor_mod", "int", {"int", "int"}, "{\n    return a - floor_div(a, b) * b;\n}\n"},
    {"floor_div_long", "long", {"long", "long"},
     "{\n    if (b == 0 || b == -1) return a * b;\n    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}\n"},
    {"floor_mod_long", "long", {"long", "long"}, "{\n    return a - floor_div_long(a, b) * b;\n}\n"},
    {"bf16_to_float", "float", {"ushort"}, "{\n    return as_float((uint)a << 16);\n}\n"},
    /* Rounds to nearest even; a NaN stays one. */
    {"float_to_bf16", "ushort", {"float"},
     "{\n    const uint bits = as_uint(a);\n"
     "    return (isnan(a) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;\n}\n"},
    {"half_to_float", "float", {"ushort"},
     "{\n    const uint rest = a & 0x7fffu, sign = (uint)(a & 0x8000u) << 16;\n"
     "    if (rest < 0x400u) return as_float(sign | as_uint((float)rest * 0x1p-24f));\n"
     "    if (rest < 0x7c00u) return as_float(sign | ((rest << 13) + 0x38000000u));\n"
     "    return as_float(sign | rest << 13 | 0x7f800000u);\n}\n"},
    /* Rounds to nearest even; below 2^-14 by adding 1/2, whose last bit is worth 2^-24. */
    {"float_to_half", "ushort", {"float"},
     "{\n    const uint bits = as_uint(a), rest = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;\n"
     "    if (rest > 0x7f800000u) return sign | 0x7e00u;\n"
     "    if (rest >= 0x477ff000u) return sign | 0x7c00u;\n"
     "    if (rest < 0x38800000u) return sign | (as_uint(as_float(rest) + 0.5f) - as_uint(0.5f));\n"
     "    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;\n}\n"},
    {"dot2_half", "float", {"float", "ushort2", "ushort2"},
     "{\n    a = mul_add(half_to_float(b.s0), half_to_float(c.s0), a);\n"
     "    return mul_add(half_to_float(b.s1), half_to_float(c.s1), a);\n}\n"},
    {"dot2_bf16", "float", {"float", "ushort2", "ushort2"},
     "{\n    a = mul_add(bf16_to_float(b.s0), bf16_to_float(c.s0), a);\n"
     "    return mul_add(bf16_to_float(b.s1), bf16_to_float(c.s1), a);\n}\n"},
    {"sigmoid", "float", {"float"}, "{\n    return 1.0f / (1.0f + exp(negated(a)));\n}\n"},
    {"softplus", "float", {"float"}, "{\n    return fmax(a, 0.0f) + log1p(exp(negated(fabs(a))));\n}\n"},
    /* The first guess is zero: a plain look at what others add to would be a race. */
    {"add_global", "void", {"volatile __global float *", "float"},
     "{\n    volatile __global int *bits = (volatile __global int *)a;\n"
     "    for (int seen, now = 0;; now = seen) {\n"
     "        seen = atomic_cmpxchg(bits, now, as_int(as_float(now) + b));\n"
     "        if (seen == now) return;\n    }\n}\n"},
    {"add_local", "void", {"volatile __local float *", "float"},
     "{\n    volatile __local int *bits = (volatile __local int *)a;\n"
     "    for (int seen, now = 0;; now = seen) {\n"
     "        seen = atomic_cmpxchg(bits, now, as_int(as_float(now) + b));\n"
     "        if (seen == now) return;\n    }\n}\n"},
};
// clang-format on
