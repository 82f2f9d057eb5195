#include "sample_backward.h"

#include <math.h>
#include <string.h>

/* ---- expressions */

#define SIZE(i)  (AULE_E_SIZE | (uint32_t)(i) << 8)
#define PARAM(i) (AULE_E_PARAM | (uint32_t)(i) << 8)
#define INT(i)   AULE_E_CONST_INT, (uint32_t)(i), 0
#define EXPR(...)                                                                                  \
    {                                                                                              \
        (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4               \
    }

static const aule_size_v1 sizes[SIZES] = {{"B"}, {"H"}, {"Hk"}, {"S"}, {"T"}, {"D"}, {"E"}};

// clang-format off
static const aule_expr q_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_S)), EXPR(SIZE(Z_D))};
static const aule_expr k_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_HK)), EXPR(SIZE(Z_T)), EXPR(SIZE(Z_D))};
static const aule_expr v_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_HK)), EXPR(SIZE(Z_T)), EXPR(SIZE(Z_E))};
static const aule_expr o_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_S)), EXPR(SIZE(Z_E))};
static const aule_expr lse_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_S))};
static const aule_expr lengths_axes[] = {EXPR(SIZE(Z_B))};
static const aule_expr slope_axes[] = {EXPR(INT(2), SIZE(Z_H), AULE_E_MUL, INT(1), AULE_E_SUB)};

#define TENSOR(name, role, dtype, rank, flags, axes) {sizeof(aule_tensor_v1), name, role, dtype, rank, flags, axes}
static const aule_tensor_v1 tensors[TENSORS] = {
    [T_Q]       = TENSOR("q", AULE_ROLE_Q, AULE_OPERAND, 4, AULE_TENSOR_GRAD, q_axes),
    [T_K]       = TENSOR("k", AULE_ROLE_K, AULE_OPERAND, 4, AULE_TENSOR_GRAD, k_axes),
    [T_V]       = TENSOR("v", AULE_ROLE_V, AULE_OPERAND, 4, AULE_TENSOR_GRAD, v_axes),
    [T_LENGTHS] = TENSOR("lengths", AULE_ROLE_INPUT, AULE_I32, 1, 0, lengths_axes),
    [T_SLOPE]   = TENSOR("slope", AULE_ROLE_INPUT, AULE_F32, 1, AULE_TENSOR_GRAD, slope_axes),
    [T_O]       = TENSOR("o", AULE_ROLE_OUTPUT, AULE_OPERAND, 4, 0, o_axes),
    [T_LSE]     = TENSOR("lse", AULE_ROLE_FINAL, AULE_F32, 3, AULE_TENSOR_OPTIONAL, lse_axes),
    [T_DO]      = TENSOR("do", AULE_ROLE_DOUT, AULE_OPERAND, 4, 0, o_axes),
    [T_DLSE]    = TENSOR("dlse", AULE_ROLE_DFINAL, AULE_F32, 3, AULE_TENSOR_OPTIONAL, lse_axes),
    [T_DQ]      = TENSOR("dq", AULE_ROLE_GRAD, AULE_OPERAND, 4, 0, q_axes),
    [T_DK]      = TENSOR("dk", AULE_ROLE_GRAD, AULE_OPERAND, 4, 0, k_axes),
    [T_DV]      = TENSOR("dv", AULE_ROLE_GRAD, AULE_OPERAND, 4, 0, v_axes),
    [T_DSLOPE]  = TENSOR("dslope", AULE_ROLE_GRAD, AULE_F32, 1, 0, slope_axes),
};
static const aule_param_v1 params[PARAMS] = {
    [P_SCALE]  = {sizeof(aule_param_v1), "scale", AULE_F32, EXPR(SIZE(Z_D), AULE_E_TO_FLOAT, AULE_E_RSQRT)},
    [P_WINDOW] = {sizeof(aule_param_v1), "window", AULE_I32, {NULL, 0}},
    [P_FLAG]   = {sizeof(aule_param_v1), "flag", AULE_BOOL, EXPR(INT(1))},
    [P_SEED]   = {sizeof(aule_param_v1), "seed", AULE_I64, EXPR(INT(7))},
};
static const aule_require_v1 requires_[] = {
    {EXPR(INT(0), PARAM(P_WINDOW), AULE_E_LT), "window > 0 (sample.attn:9)"},
    {EXPR(SIZE(Z_H), SIZE(Z_HK), AULE_E_MOD, INT(0), AULE_E_EQ), "H % Hk == 0 (sample.attn:3)"},
};

/* ---- the parameter blocks, each for both launches of its operation */

#define STRIDES(t) {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 0}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 1}, \
                   {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 2}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 3}
#define POINTER(t) {AULE_SLOT_TENSOR, AULE_SLOT_PTR, t, 0}
enum { L_Q, L_K, L_V, L_LENGTHS, L_SLOPE, L_O, L_LSE, L_SUMS, L_QS, L_KS = L_QS + 4, L_VS = L_KS + 4, L_OS = L_VS + 4,
       L_LSES = L_OS + 4, L_H = L_LSES + 3, L_HK, L_T, L_SCALE, L_WINDOW, L_FLAG, L_SEED, L_PRESENT, L_S, SLOTS };
static const aule_slot_v1 slots[SLOTS] = {
    POINTER(T_Q), POINTER(T_K), POINTER(T_V), POINTER(T_LENGTHS), POINTER(T_SLOPE), POINTER(T_O), POINTER(T_LSE),
    {AULE_SLOT_WORKSPACE, AULE_SLOT_PTR, 1, 4},
    STRIDES(T_Q), STRIDES(T_K), STRIDES(T_V), STRIDES(T_O),
    {AULE_SLOT_STRIDE, AULE_SLOT_I64, T_LSE, 0}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, T_LSE, 1}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, T_LSE, 2},
    {AULE_SLOT_SIZE, AULE_SLOT_I32, Z_H, 0}, {AULE_SLOT_SIZE, AULE_SLOT_I32, Z_HK, 0}, {AULE_SLOT_SIZE, AULE_SLOT_I64, Z_T, 0},
    {AULE_SLOT_PARAM, AULE_SLOT_F32, P_SCALE, 0}, {AULE_SLOT_PARAM, AULE_SLOT_I32, P_WINDOW, 0},
    {AULE_SLOT_PARAM, AULE_SLOT_I32, P_FLAG, 0}, {AULE_SLOT_PARAM, AULE_SLOT_I64, P_SEED, 0},
    {AULE_SLOT_PRESENT, AULE_SLOT_I32, T_LSE, 0}, {AULE_SLOT_SIZE, AULE_SLOT_I32, Z_S, 0},
};
#define STRIDES3(t) {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 0}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 1}, {AULE_SLOT_STRIDE, AULE_SLOT_I64, t, 2}
#define EXTENT(z) {AULE_SLOT_SIZE, AULE_SLOT_I32, z, 0}
static const aule_slot_v1 backward_slots[BACKWARD_SLOTS] = {
    POINTER(T_Q), POINTER(T_K), POINTER(T_V), POINTER(T_LENGTHS), POINTER(T_SLOPE), POINTER(T_O), POINTER(T_LSE),
    POINTER(T_DO), POINTER(T_DLSE), POINTER(T_DQ), POINTER(T_DK), POINTER(T_DV), POINTER(T_DSLOPE),
    {AULE_SLOT_WORKSPACE, AULE_SLOT_PTR, 0, 4},
    STRIDES(T_Q), STRIDES(T_K), STRIDES(T_V), STRIDES(T_O), STRIDES(T_DO), STRIDES(T_DQ), STRIDES(T_DK), STRIDES(T_DV),
    STRIDES3(T_LSE), STRIDES3(T_DLSE), {AULE_SLOT_STRIDE, AULE_SLOT_I64, T_DSLOPE, 0},
    EXTENT(Z_B), EXTENT(Z_H), EXTENT(Z_HK), EXTENT(Z_S), EXTENT(Z_T),
    {AULE_SLOT_PARAM, AULE_SLOT_F32, P_SCALE, 0}, {AULE_SLOT_PARAM, AULE_SLOT_I32, P_WINDOW, 0},
    {AULE_SLOT_PRESENT, AULE_SLOT_I32, T_DLSE, 0},
};
// clang-format on

static float float_slot(uint64_t slot)
{
    uint32_t low = (uint32_t)slot;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* ---- host kernels: one query row a block; the sums of weights go through the workspace, to the second launch */

static float *row_sum(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    int64_t heads = (int32_t)p[L_H], rows = (int32_t)p[L_S];
    return (float *)(uintptr_t)p[L_SUMS] + ((int64_t)z * heads + y) * rows + x;
}

static void weigh(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    const float *q = (const float *)(uintptr_t)p[L_Q], *k = (const float *)(uintptr_t)p[L_K],
                *v = (const float *)(uintptr_t)p[L_V];
    const int64_t *qs = (const int64_t *)&p[L_QS], *ks = (const int64_t *)&p[L_KS],
                  *vs = (const int64_t *)&p[L_VS], *os = (const int64_t *)&p[L_OS];
    float *o = (float *)(uintptr_t)p[L_O] + z * os[0] + y * os[1] + x * os[2];
    int64_t head = (int32_t)y / ((int32_t)p[L_H] / (int32_t)p[L_HK]), window = (int32_t)p[L_WINDOW];
    int64_t keys = ((const int32_t *)(uintptr_t)p[L_LENGTHS])[z];
    if (keys > (int64_t)p[L_T]) keys = (int64_t)p[L_T];
    q += z * qs[0] + y * qs[1] + x * qs[2];
    k += z * ks[0] + head * ks[1];
    v += z * vs[0] + head * vs[1];
    float top = -INFINITY, sum = 0, acc[SAMPLE_E] = {0};
    for (int64_t j = 0; j < keys; j++) {
        if (j - (int64_t)x >= window || (int64_t)x - j >= window) continue;
        float s = 0;
        for (int d = 0; d < SAMPLE_D; d++) s += q[d * qs[3]] * k[j * ks[2] + d * ks[3]];
        s = s * float_slot(p[L_SCALE]) + ((const float *)(uintptr_t)p[L_SLOPE])[y];
        float new_top = s > top ? s : top, rescale = expf(top - new_top),
              weight = expf(s - new_top);
        sum = sum * rescale + weight;
        for (int e = 0; e < SAMPLE_E; e++)
            acc[e] = acc[e] * rescale + weight * v[j * vs[2] + e * vs[3]];
        top = new_top;
    }
    *row_sum(p, x, y, z) += sum; /* the workspace is zeroed */
    for (int e = 0; e < SAMPLE_E; e++) o[e * os[3]] = acc[e];
    const int64_t *ls = (const int64_t *)&p[L_LSES];
    if ((int32_t)p[L_PRESENT])
        ((float *)(uintptr_t)p[L_LSE])[z * ls[0] + y * ls[1] + x * ls[2]] = top + logf(sum);
}

static void divide(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    const int64_t *os = (const int64_t *)&p[L_OS];
    float *o = (float *)(uintptr_t)p[L_O] + z * os[0] + y * os[1] + x * os[2],
          sum = *row_sum(p, x, y, z);
    for (int e = 0; e < SAMPLE_E; e++) o[e * os[3]] = sum > 0 ? o[e * os[3]] / sum : 0;
}

/* ---- the same as OpenCL C */

static const char opencl_code[] =
    "#define ARGS __global float *q, long q0, __global float *k, long k0, __global float *v, long "
    "v0, \\\n"
    " __global int *lengths, long lengths0, __global float *slope, long slope0, __global float *o, "
    "long o0, \\\n"
    " __global float *lse, long lse0, __global float *sums, long sums0, \\\n"
    " long qs0, long qs1, long qs2, long qs3, long ks0, long ks1, long ks2, long ks3, \\\n"
    " long vs0, long vs1, long vs2, long vs3, long os0, long os1, long os2, long os3, long ls0, "
    "long ls1, long ls2, \\\n"
    " int H, int Hk, long T, float scale, int window, int flag, long seed, int present, int S\n"
    "__kernel void weigh(ARGS) {\n"
    "  long x = get_group_id(0), y = get_group_id(1), z = get_group_id(2);\n"
    "  if (get_local_id(0) != 0) return;\n"
    "  q += q0 + z * qs0 + y * qs1 + x * qs2; k += k0 + z * ks0 + (y / (H / Hk)) * ks1; v += v0 + "
    "z * vs0 + (y / (H / Hk)) * vs1;\n"
    "  o += o0 + z * os0 + y * os1 + x * os2;\n"
    "  long keys = min((long)lengths[lengths0 + z], T);\n"
    "  float top = -INFINITY, sum = 0, acc[4] = {0, 0, 0, 0};\n"
    "  for (long j = 0; j < keys; j++) {\n"
    "    if (j - x >= window || x - j >= window) continue;\n"
    "    float s = 0;\n"
    "    for (int d = 0; d < 8; d++) s += q[d * qs3] * k[j * ks2 + d * ks3];\n"
    "    s = s * scale + slope[slope0 + y];\n"
    "    float new_top = fmax(s, top), rescale = exp(top - new_top), weight = exp(s - new_top);\n"
    "    sum = sum * rescale + weight;\n"
    "    for (int e = 0; e < 4; e++) acc[e] = acc[e] * rescale + weight * v[j * vs2 + e * vs3];\n"
    "    top = new_top;\n"
    "  }\n"
    "  sums[sums0 + (z * H + y) * S + x] += sum;\n"
    "  for (int e = 0; e < 4; e++) o[e * os3] = acc[e];\n"
    "  if (present) lse[lse0 + z * ls0 + y * ls1 + x * ls2] = top + log(sum);\n"
    "}\n"
    "__kernel void divide(ARGS) {\n"
    "  long x = get_group_id(0), y = get_group_id(1), z = get_group_id(2);\n"
    "  if (get_local_id(0) != 0) return;\n"
    "  float sum = sums[sums0 + (z * H + y) * S + x];\n"
    "  o += o0 + z * os0 + y * os1 + x * os2;\n"
    "  for (int e = 0; e < 4; e++) o[e * os3] = sum > 0 ? o[e * os3] / sum : 0;\n"
    "}\n";
static const char broken_code[] = "__kernel void weigh(int x) { this is not OpenCL C }";

/* ---- variants */

// clang-format off
#define ROWS {EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))}
static const aule_launch_v1 host_launches[] = {
    {sizeof(aule_launch_v1), "weigh", weigh, ROWS, {1, 1, 1}, 0, 4096, SLOTS, slots},
    {sizeof(aule_launch_v1), "divide", divide, ROWS, {1, 1, 1}, 0, 0, SLOTS, slots},
};
/* The same, with so much stack that no caller's thread may run it. */
static const aule_launch_v1 deep_launches[] = {
    {sizeof(aule_launch_v1), "weigh", weigh, ROWS, {1, 1, 1}, 0, 1 << 20, SLOTS, slots},
    {sizeof(aule_launch_v1), "divide", divide, ROWS, {1, 1, 1}, 0, 1 << 20, SLOTS, slots},
};
static const aule_launch_v1 device_launches[] = {
    {sizeof(aule_launch_v1), "weigh", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots},
    {sizeof(aule_launch_v1), "divide", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots},
};
#define ONE   {EXPR(INT(1)), EXPR(INT(1)), EXPR(INT(1))}
#define SLOPE {EXPR(INT(2), SIZE(Z_H), AULE_E_MUL, INT(1), AULE_E_SUB), EXPR(INT(1)), EXPR(INT(1))}
static const aule_launch_v1 host_backward[] = {
    {sizeof(aule_launch_v1), "gradients", sample_gradients, ONE, {1, 1, 1}, 0, 4096, BACKWARD_SLOTS, backward_slots},
    {sizeof(aule_launch_v1), "move_sums", sample_move_sums, SLOPE, {1, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots},
};
static const aule_launch_v1 device_backward[] = {
    {sizeof(aule_launch_v1), "gradients", NULL, ONE, {2, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots},
    {sizeof(aule_launch_v1), "move_sums", NULL, SLOPE, {2, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots},
};
static const aule_workspace_v1 backward_workspaces[] = {
    {EXPR(INT(2), SIZE(Z_H), AULE_E_MUL, INT(1), AULE_E_SUB, INT(4), AULE_E_MUL), 64, 1},
};
static const aule_workspace_v1 workspaces[] = {
    {EXPR(INT(5)), 1, 0},
    {EXPR(SIZE(Z_B), SIZE(Z_H), AULE_E_MUL, SIZE(Z_S), AULE_E_MUL, INT(4), AULE_E_MUL), 64, 1},
};
static const aule_fixed_v1 fixed[] = {{Z_D, SAMPLE_D}, {Z_E, SAMPLE_E}};

#if defined(__aarch64__)
#define FAMILY "aarch64"
#else
#define FAMILY "x86-64"
#endif
#define VARIANT(target, arch, features, dtype, format, code, launches) \
    {sizeof(aule_variant_v1), "forward", target, arch, features, dtype, 2, fixed, "rows " arch, format, sizeof(code), code, \
     2, workspaces, 2, launches}
#define BACKWARD(target, arch, features, format, code, launches) \
    {sizeof(aule_variant_v1), "backward", target, arch, features, AULE_F32, 2, fixed, "back " arch, format, sizeof(code), code, \
     1, backward_workspaces, 2, launches}
static const aule_variant_v1 variants[] = {
    VARIANT("cpu", FAMILY "-future", "avx4096", AULE_F32, AULE_CODE_HOST, "", host_launches),
    VARIANT("cpu", FAMILY, "", AULE_F32, AULE_CODE_HOST, "", host_launches),
    VARIANT("cpu", FAMILY "-deep", "", AULE_F32, AULE_CODE_HOST, "", deep_launches),
    VARIANT("opencl", "generic", "", AULE_F32, AULE_CODE_OPENCL_C, opencl_code, device_launches),
    VARIANT("opencl", "broken", "", AULE_F32, AULE_CODE_OPENCL_C, broken_code, device_launches),
    VARIANT("mock", "any", "beta", AULE_F32, AULE_CODE_OPENCL_C, "code", device_launches),
    BACKWARD("cpu", FAMILY, "", AULE_CODE_HOST, "", host_backward),
    BACKWARD("opencl", "generic", "", AULE_CODE_OPENCL_C, SAMPLE_BACKWARD_CODE, device_backward),
    BACKWARD("mock", "any", "beta", AULE_CODE_OPENCL_C, "code", device_backward),
};
// clang-format on

static const aule_attention_v1 attentions[] = {{
    .struct_size = sizeof(aule_attention_v1),
    .name = "sample",
    .formula = "o = softmax(scale q k + slope) v",
    .size_count = SIZES,
    .sizes = sizes,
    .tensor_count = TENSORS,
    .tensors = tensors,
    .param_count = PARAMS,
    .params = params,
    .require_count = 2,
    .requires_ = requires_,
    .variant_count = sizeof variants / sizeof *variants,
    .variants = variants,
}};

#ifndef SAMPLE_MAJOR
#define SAMPLE_MAJOR AULE_VERSION_MAJOR
#endif

__attribute__((visibility("default"))) const aule_module_v1 sample_module = {
    .magic = AULE_MAGIC,
    .version_major = SAMPLE_MAJOR,
    .version_minor = AULE_VERSION_MINOR,
    .struct_size = sizeof(aule_module_v1),
    .attention_count = 1,
    .attentions = attentions,
    .producer = "by hand",
    .source_name = "sample.attn",
    .source_hash = 0x1234,
};
