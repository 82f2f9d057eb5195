// MSL 3.0, generated. A threadgroup is a block; its threads are the lanes.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
#pragma clang fp contract(off)

float maximum(float a, float b)
{
    return a > b ? a : b;
}

int floor_div(int a, int b)
{
    if (b == 0 || b == -1) return a * b;
    return a / b - int(a % b != 0 && (a < 0) != (b < 0));
}

// gemma_local.attn: attention gemma_local, f32, widths 16 and 16, for metal
// schedule: lanes_forward: executors=4 registers=1 keys=32 product_rows=16 product_columns=4
struct gemma_local_f32_16_16_forward_slots {
    alignas(8) int B;
    alignas(8) int H;
    alignas(8) int S;
    alignas(8) int Hk;
    alignas(8) int T;
    alignas(8) int window;
    device const float *q;
    long q_stride_d;
    long q_stride_q;
    long q_stride_h;
    long q_stride_b;
    device const float *k;
    long k_stride_d;
    long k_stride_kv;
    long k_stride_h;
    long k_stride_b;
    device const float *v;
    long v_stride_e;
    long v_stride_kv;
    long v_stride_h;
    long v_stride_b;
    device const float *slope;
    long slope_stride_x0;
    device float *o;
    long o_stride_e;
    long o_stride_q;
    long o_stride_h;
    long o_stride_b;
    device float *final_lse;
    alignas(8) int final_lse_present;
    long final_lse_stride_q;
    long final_lse_stride_h;
    long final_lse_stride_b;
};
[[max_total_threads_per_threadgroup(128)]] kernel void gemma_local_f32_16_16_forward(
    constant gemma_local_f32_16_16_forward_slots &slots [[buffer(0)]],
    threadgroup uchar *shared [[threadgroup(0)]],
    uint3 block_at [[threadgroup_position_in_grid]],
    uint3 grid_blocks [[threadgroups_per_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint thread_in_simdgroup [[thread_index_in_simdgroup]])
{
    const int B = slots.B;
    const int H = slots.H;
    const int S = slots.S;
    const int Hk = slots.Hk;
    const int T = slots.T;
    const int window = slots.window;
    device const float *const q = slots.q;
    const long q_stride_d = slots.q_stride_d;
    const long q_stride_q = slots.q_stride_q;
    const long q_stride_h = slots.q_stride_h;
    const long q_stride_b = slots.q_stride_b;
    device const float *const k = slots.k;
    const long k_stride_d = slots.k_stride_d;
    const long k_stride_kv = slots.k_stride_kv;
    const long k_stride_h = slots.k_stride_h;
    const long k_stride_b = slots.k_stride_b;
    device const float *const v = slots.v;
    const long v_stride_e = slots.v_stride_e;
    const long v_stride_kv = slots.v_stride_kv;
    const long v_stride_h = slots.v_stride_h;
    const long v_stride_b = slots.v_stride_b;
    device const float *const slope = slots.slope;
    const long slope_stride_x0 = slots.slope_stride_x0;
    device float *const o = slots.o;
    const long o_stride_e = slots.o_stride_e;
    const long o_stride_q = slots.o_stride_q;
    const long o_stride_h = slots.o_stride_h;
    const long o_stride_b = slots.o_stride_b;
    device float *const final_lse = slots.final_lse;
    const int final_lse_present = slots.final_lse_present;
    const long final_lse_stride_q = slots.final_lse_stride_q;
    const long final_lse_stride_h = slots.final_lse_stride_h;
    const long final_lse_stride_b = slots.final_lse_stride_b;
    const int block_x = int(block_at[0]);
    const int block_y = int(block_at[1]);
    const int block_z = int(block_at[2]);
    const int lane = int(thread_in_simdgroup);
    const int warp = int(simdgroup);
    threadgroup float *const K = (threadgroup float *)(shared + 0); // 512
    threadgroup float *const V = (threadgroup float *)(shared + 2048); // 512
    // gemma_local.attn:5
    const bool t1 = final_lse_present != 0;
    const int t2 = (((S + 127) >> 7) + -1 - block_y) * 128;
    const int t3 = T + t2;
    const int t4 = min(max(window, -536870912), 536870912);
    const int t5 = min(T, max(t3 - t4 - S + 1, 0));
    const int t6 = T + min(S, t2 + 128);
    const int t7 = max(t5, 1 <= t4 ? min(T, t6 - S) : 0);
    const int t8 = min(t7, max(t6 - t4 - S, 0));
    const int t9 = min(T, max(t5, 0));
    const int t10 = t9 >> 5;
    const int t11 = max(t10, (min(T, max(t7, t9)) + 31) >> 5);
    const int t12 = min(t11, max(t10, (max(t8, 0) + 31) >> 5));
    const int t13 = min(t11, max(t12, min(T, max(t8, min(t7, min(T, t3 - S + 1)))) >> 5));
    thread float acc[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        acc[i] = 0.0f;
    }

    // query = load q[b, h, mb * 128 + self * 32 +: 32, :] pad 0
    const long t14 = long(block_z);
    const long t15 = long(block_x);
    const int t16 = lane + (t2 + warp * 32);
    const bool t17 = t16 < S;
    const long t18 = long(t16);
    const long t19 = q_stride_b * t14 + q_stride_h * t15 + q_stride_q * t18;
    thread float query[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        query[i] = t17 ? q[t19 + q_stride_d * long(i)] : 0.0f;
    }
    float state0 = -INFINITY;
    float state1 = 0.0f;
    float state2 = 0.0f;
    const int t20 = max(t12 - t10, 0);
    const int t21 = t20 + max(t13 - t12, 0);
    const bool t22 = lane < 16;
    const long t23 = long(floor_div(block_x, floor_div(H, Hk)));
    const long t24 = k_stride_b * t14 + k_stride_h * t23;
    const int t25 = min(T, t7);
    const int t26 = warp * 8;
    const long t27 = long(lane);
    const long t28 = k_stride_d * t27;
    const long t29 = v_stride_b * t14 + v_stride_h * t23;
    const long t30 = v_stride_e * t27;
    // gemma_local.attn:14
    const long t31 = slope_stride_x0 * t15;
    const int t32 = t16 + (T - S);
    // gemma_local.attn:5
    #pragma nounroll
    for (int i = 0; i < t21 + max(t11 - t13, 0); i++) {
        const bool t34 = t20 <= i;
        const bool t36 = t21 <= i;

        // copy k[b, hk, n * 32 + self * 8 +: 8 from k_low to k_high, :] -> K[self * 8 +: 8, :] pad 0
        const int t37 = (t36 ? t13 + (i - t21) : t34 ? t12 + (i - t20) : t10 + i) * 32;
        const int t38 = t37 + t26;
        #pragma nounroll
        for (int j = 0; j < 8; j++) {
            const int t39 = j + t38;
            const float k_2 = t22 && (t39 < t25 && t5 <= t39) ? k[t24 + k_stride_kv * long(t39) + t28] : 0.0f;
            if (t22)
                K[lane + (j + t26) * 16] = k_2;
        }

        // copy v[b, hv, n * 32 + self * 8 +: 8 from k_low to k_high, :] -> V[self * 8 +: 8, :] pad 0
        #pragma nounroll
        for (int j = 0; j < 8; j++) {
            const int t39 = t38 + j;
            const float v_2 = t22 && (t39 < t25 && t5 <= t39) ? v[t29 + v_stride_kv * long(t39) + t30] : 0.0f;
            if (t22)
                V[lane + (t26 + j) * 16] = v_2;
        }
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);

        // score = fma32(K[:, :], query)
        thread float score[32];
        #pragma unroll
        for (int j = 0; j < 32; j += 16) {
            float block_0, block_1, block_2_2, block_3, block_4, block_5, block_6, block_7;
            float block_8, block_9, block_10, block_11, block_12, block_13, block_14;
            float block_15;
            block_0 = 0.0f;
            block_1 = 0.0f;
            block_2_2 = 0.0f;
            block_3 = 0.0f;
            block_4 = 0.0f;
            block_5 = 0.0f;
            block_6 = 0.0f;
            block_7 = 0.0f;
            block_8 = 0.0f;
            block_9 = 0.0f;
            block_10 = 0.0f;
            block_11 = 0.0f;
            block_12 = 0.0f;
            block_13 = 0.0f;
            block_14 = 0.0f;
            block_15 = 0.0f;
            const int t39 = j * 16;
            #pragma unroll
            for (int m = 0; m < 16; m++) {
                const float query_2 = query[m];
                const int t40 = m + t39;
                block_0 = fma(K[t40], query_2, block_0);
                block_1 = fma(K[t40 + 16], query_2, block_1);
                block_2_2 = fma(K[t40 + 32], query_2, block_2_2);
                block_3 = fma(K[t40 + 48], query_2, block_3);
                block_4 = fma(K[t40 + 64], query_2, block_4);
                block_5 = fma(K[t40 + 80], query_2, block_5);
                block_6 = fma(K[t40 + 96], query_2, block_6);
                block_7 = fma(K[t40 + 112], query_2, block_7);
                block_8 = fma(K[t40 + 128], query_2, block_8);
                block_9 = fma(K[t40 + 144], query_2, block_9);
                block_10 = fma(K[t40 + 160], query_2, block_10);
                block_11 = fma(K[t40 + 176], query_2, block_11);
                block_12 = fma(K[t40 + 192], query_2, block_12);
                block_13 = fma(K[t40 + 208], query_2, block_13);
                block_14 = fma(K[t40 + 224], query_2, block_14);
                block_15 = fma(K[t40 + 240], query_2, block_15);
            }
            score[j] = block_0;
            score[j + 1] = block_1;
            score[j + 2] = block_2_2;
            score[j + 3] = block_3;
            score[j + 4] = block_4;
            score[j + 5] = block_5;
            score[j + 6] = block_6;
            score[j + 7] = block_7;
            score[j + 8] = block_8;
            score[j + 9] = block_9;
            score[j + 10] = block_10;
            score[j + 11] = block_11;
            score[j + 12] = block_12;
            score[j + 13] = block_13;
            score[j + 14] = block_14;
            score[j + 15] = block_15;
        }
        float t33;
        bool any_2;
        float t35;
        float scale;
        thread float p[32];
        if (t36 || (!t34 && !t36)) {
            float row_max = -INFINITY;
            float row_sum = 0.0f;
            #pragma unroll
            for (int j = 0; j < 32; j++) {
                // gemma_local.attn:13
                const float t39 = score[j] * 0.25f / 5e+01f;
                const float t40 = abs(t39);
                const float t41 = 1e+01f < t40 ? 1e+01f : t40;
                const float t44 = t41 + t41;
                const float t45 = fma(t44, 1.442695f, 12583038.0f);
                const float t46 = t45 - 12583038.0f;
                const float t47 = as_type<float>(as_type<int>(t45) << 23);
                const float t48 = fma(t46, 1.9046542e-09f, fma(t46, -0.6931472f, t44));
                const float t49 = fma(fma(fma(0.0013870657f, t48, 0.008366262f), t48, 0.041667435f), t48, 0.16666546f);
                const float t50 = fma(t47, fma(t48 * t48, fma(t49, t48, 0.49999997f), t48), t47 - 0.5f);
                const float t51 = t50 + t50;
                const float t52 = as_type<float>((as_type<int>(t39) & INT_MIN) | as_type<int>(t51 / (t51 + 2.0f)));
                // gemma_local.attn:14
                const int t53 = t37 + j;
                const int t54 = t32 - t53;
                const float t55 = t52 * 5e+01f - slope[t31] * float(abs(t54));
                // gemma_local.attn:5
                const float t56 = t53 < T && (0 <= t54 && t54 < window) ? t55 : -INFINITY;
                row_max = maximum(t56, row_max);
                row_sum = t56 + row_sum;
                score[j] = t55;
                score[j] = t56;
            }
            t33 = maximum(state0, row_max);
            any_2 = -INFINITY < row_max || row_sum != row_sum;
            // <std>:13
            const float t39 = state0 - t33;
            const float t40 = t39 < -87.4f ? -87.4f : t39;
            const float t41 = 89.0f < t40 ? 89.0f : t40;
            const float t44 = fma(t41, 1.442695f, 12583038.0f);
            const float t45 = t44 - 12583038.0f;
            const float t46 = fma(t45, 1.9046542e-09f, fma(t45, -0.6931472f, t41));
            const float t47 = fma(fma(fma(0.016525315f, t46, 0.08379711f), t46, 0.33336347f), t46, 0.9999829f);
            const float t48 = as_type<float>(as_type<int>(t44) << 23) * fma(fma(t47, t46, 1.9999989f), t46, 2.0f);
            // gemma_local.attn:5
            t35 = t48;
            scale = any_2 ? t35 : 1.0f;
            state0 = any_2 ? t33 : state0;
            state2 = any_2 ? 1.0f : state2;
            float row_sum_2 = 0.0f;
            #pragma unroll
            for (int j = 0; j < 32; j++) {
                // <std>:14
                const float t49 = score[j] - t33;
                const float t50 = t49 < -87.4f ? -87.4f : t49;
                const float t51 = 89.0f < t50 ? 89.0f : t50;
                const float t52 = fma(t51, 1.442695f, 12583038.0f);
                const float t53 = t52 - 12583038.0f;
                const float t54 = fma(t53, 1.9046542e-09f, fma(t53, -0.6931472f, t51));
                const float t55 = fma(fma(fma(0.016525315f, t54, 0.08379711f), t54, 0.33336347f), t54, 0.9999829f);
                const float t56 = as_type<float>(as_type<int>(t52) << 23) * fma(fma(t55, t54, 1.9999989f), t54, 2.0f);
                // gemma_local.attn:5
                row_sum_2 = row_sum_2 + t56;
                p[j] = any_2 ? t56 : 0.0f;
            }
            state1 = any_2 ? state1 * t35 + row_sum_2 : state1;
        } else {
            float row_max_2 = -INFINITY;
            float row_sum_3 = 0.0f;
            #pragma unroll
            for (int j = 0; j < 32; j++) {
                // gemma_local.attn:13
                const float t39 = score[j] * 0.25f / 5e+01f;
                const float t40 = abs(t39);
                const float t41 = 1e+01f < t40 ? 1e+01f : t40;
                const float t44 = t41 + t41;
                const float t45 = fma(t44, 1.442695f, 12583038.0f);
                const float t46 = t45 - 12583038.0f;
                const float t47 = as_type<float>(as_type<int>(t45) << 23);
                const float t48 = fma(t46, 1.9046542e-09f, fma(t46, -0.6931472f, t44));
                const float t49 = fma(fma(fma(0.0013870657f, t48, 0.008366262f), t48, 0.041667435f), t48, 0.16666546f);
                const float t50 = fma(t47, fma(t48 * t48, fma(t49, t48, 0.49999997f), t48), t47 - 0.5f);
                const float t51 = t50 + t50;
                const float t52 = as_type<float>((as_type<int>(t39) & INT_MIN) | as_type<int>(t51 / (t51 + 2.0f)));
                // gemma_local.attn:14
                const float t53 = t52 * 5e+01f - slope[t31] * float(abs(t32 - (t37 + j)));
                // gemma_local.attn:5
                row_max_2 = maximum(t53, row_max_2);
                row_sum_3 = t53 + row_sum_3;
                score[j] = t53;
            }
            t33 = maximum(state0, row_max_2);
            any_2 = -INFINITY < row_max_2 || row_sum_3 != row_sum_3;
            // <std>:13
            const float t39 = state0 - t33;
            const float t40 = t39 < -87.4f ? -87.4f : t39;
            const float t41 = 89.0f < t40 ? 89.0f : t40;
            const float t44 = fma(t41, 1.442695f, 12583038.0f);
            const float t45 = t44 - 12583038.0f;
            const float t46 = fma(t45, 1.9046542e-09f, fma(t45, -0.6931472f, t41));
            const float t47 = fma(fma(fma(0.016525315f, t46, 0.08379711f), t46, 0.33336347f), t46, 0.9999829f);
            const float t48 = as_type<float>(as_type<int>(t44) << 23) * fma(fma(t47, t46, 1.9999989f), t46, 2.0f);
            // gemma_local.attn:5
            t35 = t48;
            scale = any_2 ? t35 : 1.0f;
            state0 = any_2 ? t33 : state0;
            state2 = any_2 ? 1.0f : state2;
            float row_sum_4 = 0.0f;
            #pragma unroll
            for (int j = 0; j < 32; j++) {
                // <std>:14
                const float t49 = score[j] - t33;
                const float t50 = t49 < -87.4f ? -87.4f : t49;
                const float t51 = 89.0f < t50 ? 89.0f : t50;
                const float t52 = fma(t51, 1.442695f, 12583038.0f);
                const float t53 = t52 - 12583038.0f;
                const float t54 = fma(t53, 1.9046542e-09f, fma(t53, -0.6931472f, t51));
                const float t55 = fma(fma(fma(0.016525315f, t54, 0.08379711f), t54, 0.33336347f), t54, 0.9999829f);
                const float t56 = as_type<float>(as_type<int>(t52) << 23) * fma(fma(t55, t54, 1.9999989f), t54, 2.0f);
                // gemma_local.attn:5
                row_sum_4 = row_sum_4 + t56;
                p[j] = any_2 ? t56 : 0.0f;
            }
            state1 = any_2 ? state1 * t35 + row_sum_4 : state1;
        }

        // acc += fma32(V[:, :], p)
        float block_2_0, block_2_1, block_2_2_2, block_2_3, block_2_4, block_2_5;
        float block_2_6, block_2_7, block_2_8, block_2_9, block_2_10, block_2_11;
        float block_2_12, block_2_13, block_2_14, block_2_15;
        block_2_0 = 0.0f;
        block_2_1 = 0.0f;
        block_2_2_2 = 0.0f;
        block_2_3 = 0.0f;
        block_2_4 = 0.0f;
        block_2_5 = 0.0f;
        block_2_6 = 0.0f;
        block_2_7 = 0.0f;
        block_2_8 = 0.0f;
        block_2_9 = 0.0f;
        block_2_10 = 0.0f;
        block_2_11 = 0.0f;
        block_2_12 = 0.0f;
        block_2_13 = 0.0f;
        block_2_14 = 0.0f;
        block_2_15 = 0.0f;
        #pragma unroll
        for (int j = 0; j < 32; j++) {
            const float p_2 = p[j];
            const int t39 = j * 16;
            block_2_0 = fma(V[t39], p_2, block_2_0);
            block_2_1 = fma(V[t39 + 1], p_2, block_2_1);
            block_2_2_2 = fma(V[t39 + 2], p_2, block_2_2_2);
            block_2_3 = fma(V[t39 + 3], p_2, block_2_3);
            block_2_4 = fma(V[t39 + 4], p_2, block_2_4);
            block_2_5 = fma(V[t39 + 5], p_2, block_2_5);
            block_2_6 = fma(V[t39 + 6], p_2, block_2_6);
            block_2_7 = fma(V[t39 + 7], p_2, block_2_7);
            block_2_8 = fma(V[t39 + 8], p_2, block_2_8);
            block_2_9 = fma(V[t39 + 9], p_2, block_2_9);
            block_2_10 = fma(V[t39 + 10], p_2, block_2_10);
            block_2_11 = fma(V[t39 + 11], p_2, block_2_11);
            block_2_12 = fma(V[t39 + 12], p_2, block_2_12);
            block_2_13 = fma(V[t39 + 13], p_2, block_2_13);
            block_2_14 = fma(V[t39 + 14], p_2, block_2_14);
            block_2_15 = fma(V[t39 + 15], p_2, block_2_15);
        }
        acc[0] = block_2_0 + acc[0] * scale;
        acc[1] = block_2_1 + acc[1] * scale;
        acc[2] = block_2_2_2 + acc[2] * scale;
        acc[3] = block_2_3 + acc[3] * scale;
        acc[4] = block_2_4 + acc[4] * scale;
        acc[5] = block_2_5 + acc[5] * scale;
        acc[6] = block_2_6 + acc[6] * scale;
        acc[7] = block_2_7 + acc[7] * scale;
        acc[8] = block_2_8 + acc[8] * scale;
        acc[9] = block_2_9 + acc[9] * scale;
        acc[10] = block_2_10 + acc[10] * scale;
        acc[11] = block_2_11 + acc[11] * scale;
        acc[12] = block_2_12 + acc[12] * scale;
        acc[13] = block_2_13 + acc[13] * scale;
        acc[14] = block_2_14 + acc[14] * scale;
        acc[15] = block_2_15 + acc[15] * scale;
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    // <std>:20
    const float state1_2 = state1;
    const bool t34 = state1_2 < 1.1754944e-38f;
    const int t36 = as_type<int>(t34 ? state1_2 * 8388608.0f : state1_2);
    const int t37 = as_type<int>(as_type<uint>(t36) + 0xc0cafb0du) >> 23;
    const float t38 = as_type<float>(t36 - (t37 << 23)) - 1.0f;
    const float t39 = (t34 ? -23.0f : 0.0f) + float(t37);
    const float t40 = fma(fma(fma(0.08738792f, t38, -0.14307724f), t38, 0.14916356f), t38, -0.16570313f);
    const float t41 = fma(fma(fma(t40, t38, 0.1996224f), t38, -0.25001776f), t38, 0.33333945f);
    const float t44 = fma(t38 * t38, fma(t41, t38, -0.4999999f), t39 * -2.9088971e-05f);
    const float t45 = state1_2 < INFINITY ? fma(t39, 0.69317627f, t38 + t44) : state1_2;
    // <std>:21
    float t42 = 0.0f < state1_2 ? t45 : state1_2 == 0.0f ? -INFINITY : NAN;
    float t43 = state0 + t42;
    float final0 = t43;
    thread float out[16];
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        out[i] = 0.0f < state2 ? acc[i] / state1 : 0.0f;
    }

    // store f32(out) -> o[b, h, mb * 128 + self * 32 +: 32, :] clip
    // gemma_local.attn:5
    const long t46 = o_stride_b * t14 + o_stride_h * t15 + o_stride_q * t18;
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        if (t17)
            o[t46 + o_stride_e * long(i)] = out[i];
    }

    // store final0 -> final_lse[b, h, mb * 128 + self * 32 +: 32] clip
    if (t1) {
        const long t47 = final_lse_stride_b * t14 + final_lse_stride_h * t15 + final_lse_stride_q * t18;
        if (t1 && t17)
            final_lse[t47] = final0;
    }
}

