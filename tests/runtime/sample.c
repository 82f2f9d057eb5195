#include "sample_kernels.h"

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

/* ---- code */

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
/* As much of PTX as the mock of the driver looks at. */
#define PTX(version, target)                                                                       \
    ".version " version "\n.target " target                                                        \
    "\n.visible .entry weigh(.param .align 8 .b8 s[232])\n"                                        \
    ".visible .entry divide(.param .align 8 .b8 s[232])\n"
#define BACKWARD_PTX                                                                               \
    ".version 7.0\n.target sm_80\n.visible .entry gradients()\n.visible .entry move_sums()\n"

static const char broken_code[] = "__kernel void weigh(int x) { this is not OpenCL C }";

/* ---- variants */

// clang-format off
/* What kernels do with the memory of their slots (of which addresses come first). */
enum { READ = AULE_TOUCH_READ, WRITE = AULE_TOUCH_WRITE, BOTH = READ | WRITE };
#define TOUCH(slot, what) ((uint32_t)(what) << 2 * (slot))
#define READS(from, to)   (((1u << 2 * (to)) - (1u << 2 * (from))) / 3) /* slots [from, to) */
static const uint32_t weigh_touches[(SLOTS + 15) / 16] = {
    READS(L_Q, L_O) | TOUCH(L_O, WRITE) | TOUCH(L_LSE, WRITE) | TOUCH(L_SUMS, BOTH)};
static const uint32_t divide_touches[(SLOTS + 15) / 16] = {TOUCH(L_O, BOTH) | TOUCH(L_SUMS, READ)};
static const uint32_t gradients_touches[(BACKWARD_SLOTS + 15) / 16] = {
    READS(G_Q, G_DQ) | TOUCH(G_DQ, WRITE) | TOUCH(G_DK, BOTH) | TOUCH(G_DV, BOTH) | TOUCH(G_SUMS, BOTH)};
static const uint32_t move_sums_touches[(BACKWARD_SLOTS + 15) / 16] = {TOUCH(G_DSLOPE, WRITE) | TOUCH(G_SUMS, READ)};
#define TOUCHES(name) sizeof name##_touches / sizeof *name##_touches, name##_touches
#define UNKNOWN       0, NULL

#define ROWS {EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))}
static const aule_launch_v1 host_launches[] = {
    {sizeof(aule_launch_v1), "weigh", sample_weigh, ROWS, {1, 1, 1}, 0, 4096, SLOTS, slots, 0, NULL, 0, UNKNOWN},
    {sizeof(aule_launch_v1), "divide", sample_divide, ROWS, {1, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, 0, UNKNOWN},
};
/* The same, with so much stack that no caller's thread may run it. */
static const aule_launch_v1 deep_launches[] = {
    {sizeof(aule_launch_v1), "weigh", sample_weigh, ROWS, {1, 1, 1}, 0, 1 << 20, SLOTS, slots, 0, NULL, 0, UNKNOWN},
    {sizeof(aule_launch_v1), "divide", sample_divide, ROWS, {1, 1, 1}, 0, 1 << 20, SLOTS, slots, 0, NULL, 0, UNKNOWN},
};
static const aule_launch_v1 device_launches[] = {
    {sizeof(aule_launch_v1), "weigh", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, 0, TOUCHES(weigh)},
    {sizeof(aule_launch_v1), "divide", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, AULE_LAUNCH_EARLY, TOUCHES(divide)},
};
/* Shared memory beyond what a kernel has without being asked, and a kernel that reads wild memory. */
static const aule_launch_v1 shared_launches[] = {
    {sizeof(aule_launch_v1), "weigh", NULL, ROWS, {2, 1, 1}, 150 << 10, 0, SLOTS, slots, 0, NULL, 0, UNKNOWN},
    {sizeof(aule_launch_v1), "divide", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, 0, UNKNOWN},
};
static const aule_launch_v1 fault_launches[] = {
    {sizeof(aule_launch_v1), "fault", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, 0, UNKNOWN},
    {sizeof(aule_launch_v1), "divide", NULL, ROWS, {2, 1, 1}, 0, 0, SLOTS, slots, 0, NULL, 0, UNKNOWN},
};
#define ONE   {EXPR(INT(1)), EXPR(INT(1)), EXPR(INT(1))}
#define SLOPE {EXPR(INT(2), SIZE(Z_H), AULE_E_MUL, INT(1), AULE_E_SUB), EXPR(INT(1)), EXPR(INT(1))}
static const aule_launch_v1 host_backward[] = {
    {sizeof(aule_launch_v1), "gradients", sample_gradients, ONE, {1, 1, 1}, 0, 4096, BACKWARD_SLOTS, backward_slots, 0, NULL, 0, UNKNOWN},
    {sizeof(aule_launch_v1), "move_sums", sample_move_sums, SLOPE, {1, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots, 0, NULL, 0, UNKNOWN},
};
static const aule_launch_v1 device_backward[] = {
    {sizeof(aule_launch_v1), "gradients", NULL, ONE, {2, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots, 0, NULL, 0, TOUCHES(gradients)},
    {sizeof(aule_launch_v1), "move_sums", NULL, SLOPE, {2, 1, 1}, 0, 0, BACKWARD_SLOTS, backward_slots, 0, NULL, 0, TOUCHES(move_sums)},
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
     2, workspaces, 2, launches, 0, NULL, {0}, 0}
#define BACKWARD(target, arch, features, format, code, launches) \
    {sizeof(aule_variant_v1), "backward", target, arch, features, AULE_F32, 2, fixed, "back " arch, format, sizeof(code), code, \
     1, backward_workspaces, 2, launches, 0, NULL, {0}, 0}
static const aule_variant_v1 variants[] = {
    VARIANT("cpu", FAMILY "-future", "avx4096", AULE_F32, AULE_CODE_HOST, "", host_launches),
    VARIANT("cpu", FAMILY, "", AULE_F32, AULE_CODE_HOST, "", host_launches),
    VARIANT("cpu", FAMILY "-deep", "", AULE_F32, AULE_CODE_HOST, "", deep_launches),
    VARIANT("opencl", "generic", "", AULE_F32, AULE_CODE_OPENCL_C, opencl_code, device_launches),
    VARIANT("opencl", "broken", "", AULE_F32, AULE_CODE_OPENCL_C, broken_code, device_launches),
    VARIANT("mock", "any", "beta", AULE_F32, AULE_CODE_OPENCL_C, "code", device_launches),
    VARIANT("cuda", "sm_70", "sm_70 ptx63", AULE_F32, AULE_CODE_PTX, PTX("6.3", "sm_70"), device_launches),
    VARIANT("cuda", "sm_72", "sm_72", AULE_F32, AULE_CODE_PTX, ".version 7.0\nthis is not PTX\n", device_launches),
    VARIANT("cuda", "sm_75", "sm_75", AULE_F32, AULE_CODE_PTX, PTX("9.9", "sm_75"), device_launches),
    VARIANT("cuda", "sm_80", "sm_80 ptx70", AULE_F32, AULE_CODE_PTX, PTX("7.0", "sm_80"), device_launches),
    VARIANT("cuda", "sm_86", "sm_86 ptx71", AULE_F32, AULE_CODE_PTX, PTX("7.1", "sm_86"), shared_launches),
    VARIANT("cuda", "sm_87", "sm_87", AULE_F32, AULE_CODE_PTX, ".version 7.0\n.target sm_87\n.entry fault()\n.entry divide()\n", fault_launches),
    VARIANT("cuda", "sm_90", "sm_90 ptx81", AULE_F32, AULE_CODE_PTX, PTX("8.1", "sm_90"), device_launches),
    VARIANT("cuda", "sm_120", "sm_120 ptx87", AULE_F32, AULE_CODE_PTX, PTX("8.7", "sm_120"), device_launches),
    BACKWARD("cpu", FAMILY, "", AULE_CODE_HOST, "", host_backward),
    BACKWARD("opencl", "generic", "", AULE_CODE_OPENCL_C, SAMPLE_BACKWARD_CODE, device_backward),
    BACKWARD("cuda", "sm_80", "sm_80 ptx70", AULE_CODE_PTX, BACKWARD_PTX, device_backward),
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
