// MSL 3.0, generated. A threadgroup is a block; its threads are the lanes.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
#pragma clang fp contract(off)

float maximum(float a, float b)
{
    return a > b ? a : b;
}

// mha.attn: softmax attention, causal
// schedule: one query a lane, D = 4
struct mha_forward_slots {
    device const float *q;
    device const float *k;
    device const float *v;
    device float *o;
    alignas(8) int S;
    long q_stride;
    alignas(8) float scale;
};
[[max_total_threads_per_threadgroup(32)]] kernel void mha_forward(
    constant mha_forward_slots &slots [[buffer(0)]],
    threadgroup uchar *shared [[threadgroup(0)]],
    uint3 block_at [[threadgroup_position_in_grid]],
    uint3 grid_blocks [[threadgroups_per_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint thread_in_simdgroup [[thread_index_in_simdgroup]])
{
    device const float *const q = slots.q;
    device const float *const k = slots.k;
    device const float *const v = slots.v;
    device float *const o = slots.o;
    const int S = slots.S;
    const long q_stride = slots.q_stride;
    const float scale = slots.scale;
    const int block_x = int(block_at[0]);
    const int lane = int(thread_in_simdgroup);
    threadgroup float *const k_tile = (threadgroup float *)(shared + 0); // 128
    threadgroup float *const v_tile = (threadgroup float *)(shared + 512); // 128

    // load Q
    const int t1 = block_x * 32;
    const int i = t1 + lane;
    const bool inside = i < S;
    const long row = long(i) * q_stride;
    thread float q_row[4];
    thread float acc[4];
    #pragma unroll
    for (int d = 0; d < 4; d++) {
        q_row[d] = inside ? q[row + long(d)] : 0.0f;
        acc[d] = 0.0f;
    }
    float m = -INFINITY;
    float l = 0.0f;
    const int last = min(t1 + 32, S);
    for (int tile = 0; tile < last; tile += 32) {
        // copy K, V
        const int t2 = tile + lane;
        const bool loads = t2 < S;
        const long t3 = long(t2) * q_stride;
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        const float4 k_2 = loads ? float4(*(device const packed_float4 *)(k + t3)) : float4(0.0f);
        const int t4 = lane * 4;
        *(threadgroup packed_float4 *)(k_tile + t4) = packed_float4(k_2);
        const float4 v_2 = loads ? float4(*(device const packed_float4 *)(v + t3)) : float4(0.0f);
        *(threadgroup packed_float4 *)(v_tile + t4) = packed_float4(v_2);
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        for (int j = 0; j < 32; j++) {
            // S = Q K'
            const int t5 = j * 4;
            const float t6 = fma(q_row[2], k_tile[t5 + 2], fma(q_row[1], k_tile[t5 + 1], q_row[0] * k_tile[t5]));
            const float s = tile + j <= i ? fma(q_row[3], k_tile[t5 + 3], t6) * scale : -INFINITY;

            // online softmax
            const float before = m;
            const float now = maximum(before, s);
            m = now;
            const float rescale = exp(before - now);
            const float p = exp(s - now);
            l = fma(l, rescale, p);

            // O += P V
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                acc[e] = fma(p, v_tile[t5 + e], acc[e] * rescale);
            }
        }
    }

    // epilogue
    const float l_2 = l;
    #pragma unroll
    for (int e = 0; e < 4; e++) {
        if (inside)
            o[row + long(e)] = acc[e] / l_2;
    }
}
