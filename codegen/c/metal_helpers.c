/* metal_helpers.c - functions that printed MSL may call, in the order in which they may call each other. */
#include "metal.h"

/* A product of 8 x 8 matrices. Each lane has two neighbours of a row of each, which the row `simdgroup8` of atoms.def places; Apple's
 * headers have thread_elements(), its specification does not, and others rely on it as well. */
#define PRODUCT(type, first, second)                                                               \
    "    simdgroup_matrix<" type ", 8, 8> left, right;\n"                                          \
    "    simdgroup_matrix<float, 8, 8> sum;\n"                                                     \
    "    left.thread_elements()[0] = " first "(b[0]);\n"                                           \
    "    left.thread_elements()[1] = " first "(b[1]);\n"                                           \
    "    right.thread_elements()[0] = " second "(c[0]);\n"                                         \
    "    right.thread_elements()[1] = " second "(c[1]);\n"                                         \
    "    sum.thread_elements()[0] = a[0];\n"                                                       \
    "    sum.thread_elements()[1] = a[1];\n"                                                       \
    "    simdgroup_multiply_accumulate(sum, left, right, sum);\n"                                  \
    "    return float2(sum.thread_elements()[0], sum.thread_elements()[1]);\n"

/* bfloat begins with MSL 3.1; numbers are kept as bits before and after. */
#define BFLOATS "#if __METAL_VERSION__ >= 310\n"

// clang-format off
const AuCHelper metal_helpers[METAL_HELPERS] = {
    /* Like the kernel IR, and unlike fmin: the second operand where one is NaN. */
    {"minimum", "float", {"float", "float"}, "{\n    return a < b ? a : b;\n}\n"},
    {"maximum", "float", {"float", "float"}, "{\n    return a > b ? a : b;\n}\n"},
    {"maximum_or_nan", "float", {"float", "float"}, "{\n    return isnan(a) || a > b ? a : b;\n}\n"},
    {"floor_div", "int", {"int", "int"},
     "{\n    if (b == 0 || b == -1) return a * b;\n    return a / b - int(a % b != 0 && (a < 0) != (b < 0));\n}\n"},
    {"floor_mod", "int", {"int", "int"}, "{\n    return a - floor_div(a, b) * b;\n}\n"},
    {"floor_div_long", "long", {"long", "long"},
     "{\n    if (b == 0 || b == -1) return a * b;\n    return a / b - long(a % b != 0 && (a < 0) != (b < 0));\n}\n"},
    {"floor_mod_long", "long", {"long", "long"}, "{\n    return a - floor_div_long(a, b) * b;\n}\n"},
    /* Nearest to what does not fit, 0 of NaN; the largest integers are no floats. */
    {"float_to_int", "int", {"float"},
     "{\n    if (isnan(a)) return 0;\n    return a >= 2147483648.0f ? 2147483647 : int(max(a, -2147483648.0f));\n}\n"},
    {"float_to_long", "long", {"float"},
     "{\n    if (isnan(a)) return 0;\n"
     "    return a >= 9223372036854775808.0f ? 9223372036854775807L : long(max(a, -9223372036854775808.0f));\n}\n"},
    {"bf16_to_float", "float", {"ushort"}, "{\n    return as_type<float>(uint(a) << 16);\n}\n"},
    /* Rounds to nearest even; a NaN stays one. */
    {"float_to_bf16", "ushort", {"float"},
     "{\n" BFLOATS "    return as_type<ushort>(bfloat(a));\n#else\n    const uint bits = as_type<uint>(a);\n"
     "    return ushort((isnan(a) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);\n#endif\n}\n"},
    {"dot2_half", "float", {"float", "half2", "half2"},
     "{\n    a = fma(float(b[0]), float(c[0]), a);\n    return fma(float(b[1]), float(c[1]), a);\n}\n"},
    {"dot2_bf16", "float", {"float", "ushort2", "ushort2"},
     "{\n    a = fma(bf16_to_float(b[0]), bf16_to_float(c[0]), a);\n"
     "    return fma(bf16_to_float(b[1]), bf16_to_float(c[1]), a);\n}\n"},
    {"multiply_add", "float2", {"float2", "float2", "float2"}, "{\n" PRODUCT("float", "", "") "}\n"},
    {"multiply_add_half", "float2", {"float2", "half2", "half2"}, "{\n" PRODUCT("half", "", "") "}\n"},
    {"multiply_add_bf16", "float2", {"float2", "ushort2", "ushort2"},
     "{\n" BFLOATS PRODUCT("bfloat", "as_type<bfloat>", "as_type<bfloat>") "#else\n"
     PRODUCT("float", "bf16_to_float", "bf16_to_float") "#endif\n}\n"},
    /* Lanes exchange 32 bits. */
    {"shuffle_long", "long", {"long", "ushort"},
     "{\n    const uint2 parts = as_type<uint2>(a);\n"
     "    return as_type<long>(uint2(simd_shuffle(parts[0], b), simd_shuffle(parts[1], b)));\n}\n"},
    {"add_device", "void", {"device float *", "float"},
     "{\n    atomic_fetch_add_explicit((device atomic_float *)a, b, memory_order_relaxed);\n}\n"},
    {"add_device_pair", "void", {"device float *", "float2"},
     "{\n    add_device(a, b[0]);\n    add_device(a + 1, b[1]);\n}\n"},
    {"add_device_four", "void", {"device float *", "float4"},
     "{\n    for (int n = 0; n < 4; n++) add_device(a + n, b[n]);\n}\n"},
    {"add_device_int", "void", {"device int *", "int"},
     "{\n    atomic_fetch_add_explicit((device atomic_int *)a, b, memory_order_relaxed);\n}\n"},
    {"add_shared_int", "void", {"threadgroup int *", "int"},
     "{\n    atomic_fetch_add_explicit((threadgroup atomic_int *)a, b, memory_order_relaxed);\n}\n"},
    /* Sums of f32 are atomic in device memory alone. */
    {"add_shared", "void", {"threadgroup float *", "float"},
     "{\n    threadgroup atomic_uint *place = (threadgroup atomic_uint *)a;\n"
     "    uint seen = atomic_load_explicit(place, memory_order_relaxed);\n"
     "    while (!atomic_compare_exchange_weak_explicit(place, &seen, as_type<uint>(as_type<float>(seen) + b),\n"
     "                                                  memory_order_relaxed, memory_order_relaxed)) {\n    }\n}\n"},
    /* Eight numbers of 16 bits, aligned as one of them: vectors have four elements at most. */
    {"eight_of_device", "uint4", {"device const ushort *"},
     "{\n    return uint4(as_type<uint2>(ushort4(*(device const packed_ushort4 *)a)),\n"
     "                 as_type<uint2>(ushort4(*(device const packed_ushort4 *)(a + 4))));\n}\n"},
    {"eight_to_device", "void", {"device ushort *", "uint4"},
     "{\n    *(device packed_ushort4 *)a = packed_ushort4(as_type<ushort4>(uint2(b[0], b[1])));\n"
     "    *(device packed_ushort4 *)(a + 4) = packed_ushort4(as_type<ushort4>(uint2(b[2], b[3])));\n}\n"},
    {"eight_of_shared", "uint4", {"threadgroup const ushort *"},
     "{\n    return uint4(as_type<uint2>(ushort4(*(threadgroup const packed_ushort4 *)a)),\n"
     "                 as_type<uint2>(ushort4(*(threadgroup const packed_ushort4 *)(a + 4))));\n}\n"},
    {"eight_to_shared", "void", {"threadgroup ushort *", "uint4"},
     "{\n    *(threadgroup packed_ushort4 *)a = packed_ushort4(as_type<ushort4>(uint2(b[0], b[1])));\n"
     "    *(threadgroup packed_ushort4 *)(a + 4) = packed_ushort4(as_type<ushort4>(uint2(b[2], b[3])));\n}\n"},
    {"eight_of_thread", "uint4", {"thread const ushort *"},
     "{\n    return uint4(as_type<uint2>(ushort4(*(thread const packed_ushort4 *)a)),\n"
     "                 as_type<uint2>(ushort4(*(thread const packed_ushort4 *)(a + 4))));\n}\n"},
    {"eight_to_thread", "void", {"thread ushort *", "uint4"},
     "{\n    *(thread packed_ushort4 *)a = packed_ushort4(as_type<ushort4>(uint2(b[0], b[1])));\n"
     "    *(thread packed_ushort4 *)(a + 4) = packed_ushort4(as_type<ushort4>(uint2(b[2], b[3])));\n}\n"},
    /* Orders of the device are told from MSL 3.2 on. */
    {"device_fence", "void", {NULL},
     "{\n#if __METAL_VERSION__ < 320\n#error \"this kernel needs MSL 3.2: it orders memory of the whole device\"\n#endif\n"
     "    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);\n}\n"},
};
// clang-format on
