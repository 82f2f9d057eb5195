#include "metal_case.h"

#include <string.h>

#include "metal_double.h"

// clang-format off
const char metal_case_code[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "struct sample_slots {\n"
    "    device const float *q;\n    device const float *k;\n    device const float *v;\n    device const int *lengths;\n"
    "    device const float *slope;\n    device float *o;\n    device float *lse;\n    device float *sums;\n"
    "    long qs[4];\n    long ks[4];\n    long vs[4];\n    long os[4];\n    long ls[3];\n"
    "    alignas(8) int H;\n    alignas(8) int Hk;\n    alignas(8) long T;\n    alignas(8) float scale;\n    alignas(8) int window;\n"
    "    alignas(8) int flag;\n    alignas(8) long seed;\n    alignas(8) int present;\n    alignas(8) int S;\n"
    "};\n"
    "#define ARGS constant sample_slots &s [[buffer(0)]], threadgroup uchar *shared [[threadgroup(0)]], \\\n"
    "    uint3 at [[threadgroup_position_in_grid]], uint3 grid_blocks [[threadgroups_per_grid]], \\\n"
    "    uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]\n"
    "[[max_total_threads_per_threadgroup(32)]] kernel void weigh(ARGS)\n"
    "{\n"
    "    if (lane != 0) return;\n"
    "    const long x = at[0], y = at[1], z = at[2], head = y / (s.H / s.Hk);\n"
    "    const long keys = s.lengths[z] < s.T ? s.lengths[z] : s.T;\n"
    "    float sum = 0, acc[4] = {0, 0, 0, 0};\n"
    "    for (long j = 0; j < keys; j++) {\n"
    "        if (j - x >= s.window || x - j >= s.window) continue;\n"
    "        float dot = 0;\n"
    "        for (int d = 0; d < 8; d++)\n"
    "            dot += s.q[z * s.qs[0] + y * s.qs[1] + x * s.qs[2] + d * s.qs[3]] *\n"
    "                   s.k[z * s.ks[0] + head * s.ks[1] + j * s.ks[2] + d * s.ks[3]];\n"
    "        const float weight = exp(dot * s.scale + s.slope[y]);\n"
    "        sum += weight;\n"
    "        for (int e = 0; e < 4; e++)\n"
    "            acc[e] += weight * s.v[z * s.vs[0] + head * s.vs[1] + j * s.vs[2] + e * s.vs[3]];\n"
    "    }\n"
    "    s.sums[(z * s.H + y) * s.S + x] += sum;\n"
    "    for (int e = 0; e < 4; e++) s.o[z * s.os[0] + y * s.os[1] + x * s.os[2] + e * s.os[3]] = acc[e];\n"
    "    if (s.present) s.lse[z * s.ls[0] + y * s.ls[1] + x * s.ls[2]] = log(sum);\n"
    "}\n"
    "[[max_total_threads_per_threadgroup(32)]] kernel void divide(ARGS)\n"
    "{\n"
    "    if (lane != 0) return;\n"
    "    const long x = at[0], y = at[1], z = at[2];\n"
    "    const float sum = s.sums[(z * s.H + y) * s.S + x];\n"
    "    for (int e = 0; e < 4; e++) {\n"
    "        device float *o = &s.o[z * s.os[0] + y * s.os[1] + x * s.os[2] + e * s.os[3]];\n"
    "        *o = sum > 0 ? *o / sum : 0;\n"
    "    }\n"
    "}\n";
// clang-format on

void metal_case_module(CaseModule *sample, aule_launch_v1 launches[2], const char *code)
{
    case_module(sample, &(aule_variant_v1){.target = "metal",
                                           .arch = "apple7",
                                           .features = "apple7",
                                           .operation = "forward",
                                           .code_format = AULE_CODE_MSL,
                                           .code = code,
                                           .code_bytes = strlen(code)});
    for (uint32_t n = 0; n < sample->attention.variant_count; n++) {
        aule_variant_v1 *v = &sample->variants[n];
        if (strcmp(v->target, "metal") != 0) continue;
        memcpy(launches, v->launches, 2 * sizeof *launches);
        for (int k = 0; k < 2; k++) launches[k].block[0] = 32;
        v->launches = launches;
    }
}

void metal_case_nothing_left(void)
{
    assert_string_equal(metal_double()->broken, "");
    assert_int_equal(metal_double()->objects, 0);
    assert_int_equal(metal_double()->pools, 0);
}
