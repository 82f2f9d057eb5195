/* sample_kernels.h - the kernels of the sample artifact, as host functions and as OpenCL C; the mock of CUDA's driver runs the host
 * functions too. Backward: one block does everything but the gradient of the slopes, which goes through a zeroed workspace and is moved
 * from there by a second launch. */
#ifndef SAMPLE_KERNELS_H
#define SAMPLE_KERNELS_H

#include "sample.h"

/* The parameter blocks, each for both launches of its operation. */
// clang-format off
enum { L_Q, L_K, L_V, L_LENGTHS, L_SLOPE, L_O, L_LSE, L_SUMS, L_QS, L_KS = L_QS + 4, L_VS = L_KS + 4, L_OS = L_VS + 4,
       L_LSES = L_OS + 4, L_H = L_LSES + 3, L_HK, L_T, L_SCALE, L_WINDOW, L_FLAG, L_SEED, L_PRESENT, L_S, SLOTS };
enum {
    G_Q, G_K, G_V, G_LENGTHS, G_SLOPE, G_O, G_LSE, G_DO, G_DLSE, G_DQ, G_DK, G_DV, G_DSLOPE, G_SUMS,
    G_QS, G_KS = G_QS + 4, G_VS = G_KS + 4, G_OS = G_VS + 4, G_DOS = G_OS + 4, G_DQS = G_DOS + 4, G_DKS = G_DQS + 4,
    G_DVS = G_DKS + 4, G_LSES = G_DVS + 4, G_DLSES = G_LSES + 3, G_DSLOPES = G_DLSES + 3,
    G_B, G_H, G_HK, G_S, G_T, G_SCALE, G_WINDOW, G_PRESENT, BACKWARD_SLOTS
};
// clang-format on

void sample_weigh(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z);
void sample_divide(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z);
/* A list of work: what lengths say, which sample_weigh then reads there (schedule_test.c). */
void sample_list(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z);
void sample_gradients(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z);
void sample_move_sums(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z);

// clang-format off
#define SAMPLE_BACKWARD_CODE                                                                                        \
    "#define F __global float *\n"                                                                                  \
    "#define S4(n) long n##0, long n##1, long n##2, long n##3\n"                                                    \
    "#define S3(n) long n##0, long n##1, long n##2\n"                                                               \
    "#define ARGS F q, long qo, F k, long ko, F v, long vo, __global int *lengths, long lo, F slope, long so, \\\n" \
    " F o, long oo, F lse, long lseo, F dout, long douto, F dlse, long dlseo, F dq, long dqo, F dk, long dko, \\\n" \
    " F dv, long dvo, F dslope, long dslopeo, F sums, long sumso, \\\n"                                             \
    " S4(qs), S4(ks), S4(vs), S4(os), S4(gs), S4(dqs), S4(dks), S4(dvs), S3(ls), S3(dls), long dss, \\\n"           \
    " int B, int H, int Hk, int S, int T, float scale, int window, int present\n"                                   \
    "#define AT(t, b, h, i, c) t##s0 * (b) + t##s1 * (h) + t##s2 * (i) + t##s3 * (c)\n"                             \
    "__kernel void gradients(ARGS) {\n"                                                                             \
    "  if (get_local_id(0) != 0) return;\n"                                                                         \
    "  q += qo; k += ko; v += vo; o += oo; dout += douto; dq += dqo; dk += dko; dv += dvo;\n"                       \
    "  for (int b = 0; b < B; b++) for (int h = 0; h < Hk; h++) for (int j = 0; j < T; j++) {\n"                    \
    "    for (int c = 0; c < 8; c++) dk[AT(dk, b, h, j, c)] = 0;\n"                                                 \
    "    for (int c = 0; c < 4; c++) dv[AT(dv, b, h, j, c)] = 0;\n"                                                 \
    "  }\n"                                                                                                         \
    "  for (int b = 0; b < B; b++) for (int h = 0; h < H; h++) for (int i = 0; i < S; i++) {\n"                     \
    "    int g = h / (H / Hk), keys = min(lengths[lo + b], T);\n"                                                   \
    "    float row = lse[lseo + ls0 * b + ls1 * h + ls2 * i], delta = 0, acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};\n"      \
    "    for (int c = 0; c < 4; c++) delta += dout[AT(g, b, h, i, c)] * o[AT(o, b, h, i, c)];\n"                    \
    "    if (present) delta -= dlse[dlseo + dls0 * b + dls1 * h + dls2 * i];\n"                                     \
    "    for (int j = 0; j < keys; j++) {\n"                                                                        \
    "      if (j - i >= window || i - j >= window) continue;\n"                                                     \
    "      float s = 0, dp = 0;\n"                                                                                  \
    "      for (int c = 0; c < 8; c++) s += q[AT(q, b, h, i, c)] * k[AT(k, b, g, j, c)];\n"                         \
    "      for (int c = 0; c < 4; c++) dp += dout[AT(g, b, h, i, c)] * v[AT(v, b, g, j, c)];\n"                     \
    "      float p = exp(s * scale + slope[so + h] - row), ds = p * (dp - delta);\n"                                \
    "      for (int c = 0; c < 4; c++) dv[AT(dv, b, g, j, c)] += p * dout[AT(g, b, h, i, c)];\n"                    \
    "      for (int c = 0; c < 8; c++) dk[AT(dk, b, g, j, c)] += scale * ds * q[AT(q, b, h, i, c)];\n"              \
    "      for (int c = 0; c < 8; c++) acc[c] += scale * ds * k[AT(k, b, g, j, c)];\n"                              \
    "      sums[sumso + h] += ds;\n"                                                                                \
    "    }\n"                                                                                                       \
    "    for (int c = 0; c < 8; c++) dq[AT(dq, b, h, i, c)] = acc[c];\n"                                            \
    "  }\n"                                                                                                         \
    "}\n"                                                                                                           \
    "__kernel void move_sums(ARGS) {\n"                                                                             \
    "  if (get_local_id(0) == 0)\n"                                                                                 \
    "    dslope[dslopeo + get_group_id(0) * dss] = sums[sumso + get_group_id(0)];\n"                                \
    "}\n"
// clang-format on

#endif
