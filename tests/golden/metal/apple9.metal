struct mha_f16_16_16_forward_slots {
    alignas(8) int B;
    alignas(8) int H;
    alignas(8) int S;
    alignas(8) int Hk;
    alignas(8) int T;
    device const half *q;
    long q_stride_d;
    long q_stride_q;
    long q_stride_h;
    long q_stride_b;
    long q_address;
    device const half *k;
    long k_stride_d;
    long k_stride_kv;
    long k_stride_h;
    long k_stride_b;
    long k_address;
    device const half *v;
    long v_stride_e;
    long v_stride_kv;
    long v_stride_h;
    long v_stride_b;
    long v_address;
    device half *o;
    long o_stride_e;
    long o_stride_q;
    long o_stride_h;
    long o_stride_b;
    long o_address;
    device float *final_lse;
    alignas(8) int final_lse_present;
    long final_lse_stride_q;
    long final_lse_stride_h;
    long final_lse_stride_b;
    long final_lse_address;
};
[[max_total_threads_per_threadgroup(128)]] kernel void mha_f16_16_16_forward(
    constant mha_f16_16_16_forward_slots &slots [[buffer(0)]],
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
    device const half *const q = slots.q;
    const long q_stride_d = slots.q_stride_d;
    const long q_stride_q = slots.q_stride_q;
    const long q_stride_h = slots.q_stride_h;
    const long q_stride_b = slots.q_stride_b;
    const long q_address = slots.q_address;
    device const half *const k = slots.k;
    const long k_stride_d = slots.k_stride_d;
    const long k_stride_kv = slots.k_stride_kv;
    const long k_stride_h = slots.k_stride_h;
    const long k_stride_b = slots.k_stride_b;
    const long k_address = slots.k_address;
    device const half *const v = slots.v;
    const long v_stride_e = slots.v_stride_e;
    const long v_stride_kv = slots.v_stride_kv;
    const long v_stride_h = slots.v_stride_h;
    const long v_stride_b = slots.v_stride_b;
    const long v_address = slots.v_address;
    device half *const o = slots.o;
    const long o_stride_e = slots.o_stride_e;
    const long o_stride_q = slots.o_stride_q;
    const long o_stride_h = slots.o_stride_h;
    const long o_stride_b = slots.o_stride_b;
    const long o_address = slots.o_address;
    device float *const final_lse = slots.final_lse;
    const int final_lse_present = slots.final_lse_present;
    const long final_lse_stride_q = slots.final_lse_stride_q;
    const long final_lse_stride_h = slots.final_lse_stride_h;
    const long final_lse_stride_b = slots.final_lse_stride_b;
    const long final_lse_address = slots.final_lse_address;
    const int block_x = int(block_at[0]);
    const int block_y = int(block_at[1]);
    const int block_z = int(block_at[2]);
    const int lane = int(thread_in_simdgroup);
    const int warp = int(simdgroup);
    const long t1 = q_address | (q_stride_b * 2L) | (q_stride_h * 2L) | (q_stride_q * 2L);
    const long t2 = k_address | (k_stride_b * 2L) | (k_stride_h * 2L) | (k_stride_kv * 2L);
    const bool t3 = k_stride_d == 1L && (t2 & 15L) == 0L;
    const long t4 = v_address | (v_stride_b * 2L) | (v_stride_h * 2L) | (v_stride_kv * 2L);
    const bool t5 = v_stride_e == 1L && (t4 & 15L) == 0L;
    const long t6 = o_address | (o_stride_b * 2L) | (o_stride_h * 2L) | (o_stride_q * 2L);
    const int t7 = (((S + 31) >> 5) + -1 - block_y) * 32;
    const int t8 = max(min(T, T + min(S, t7 + 32) - S), 0);
    const int t9 = min(T, 0);
    const int t10 = t9 >> 4;
    const int t11 = max(t10, (min(T, max(t8, t9)) + 15) >> 4);
    const int t12 = min(t11, max(t10, 0));
    const int t13 = min(t11, max(t12, min(T, max(min(T, T + t7 - S + 1), 0)) >> 4));
    const int t14 = max(t11 - t13, 0);
    const int t15 = max(t13 - t12, 0);
    const int t16 = (lane & 1) * 2 + ((lane >> 3) & 1) * 4;
    const int t17 = ((lane >> 1) & 3) + (lane >> 4) * 4;
    thread float acc[4];
    acc[0] = 0.0f;
    acc[1] = 0.0f;
    acc[2] = 0.0f;
    acc[3] = 0.0f;

    // query = load q[b, h, mb * 32 + self * 8 +: 8, :] @ simdgroup8.A pad 0
    thread half query[4];
    if (q_stride_d == 1L && (t1 & 15L) == 0L) {
        const long t18 = (q_stride_b >> 1L) * long(block_z) + (q_stride_h >> 1L) * long(block_x);
        const int t19 = t17 + (t7 + warp * 8);
        const bool t20 = t19 < S;
        const long t21 = (t18 + (q_stride_q >> 1L) * long(t19)) * 2L;
        const half2 q_2 = t20 ? half2(*(device const packed_half2 *)(q + (long(t16) + t21))) : half2(half(0.0f));
        query[0] = q_2[0];
        query[1] = q_2[1];
        const half2 q_3 = t20 ? half2(*(device const packed_half2 *)(q + (t21 + long(t16 + 8)))) : half2(half(0.0f));
        query[2] = q_3[0];
        query[3] = q_3[1];
    } else {
        const long t18 = q_stride_d;
        const int t19 = t17 + (t7 + warp * 8);
        const bool t20 = t19 < S;
        const long t21 = q_stride_b * long(block_z) + q_stride_h * long(block_x) + q_stride_q * long(t19);
        query[0] = t20 ? q[t21 + t18 * long(t16)] : half(0.0f);
        query[1] = t20 ? q[t21 + t18 * long(t16 + 1)] : half(0.0f);
        query[2] = t20 ? q[t21 + t18 * long(t16 + 8)] : half(0.0f);
        query[3] = t20 ? q[t21 + t18 * long(t16 + 9)] : half(0.0f);
    }
    float state0 = -INFINITY;
    float state1 = 0.0f;
    float state2 = 0.0f;
    const bool t18 = (lane & 9) == 0;
    state1 = t18 ? state1 : 0.0f;
    const int t19 = t13 + t14;
    const int t20 = t12 + t15;
    const int t21 = min(T, t8);
    const long t23 = long(block_z);
    const long t25 = long(floor_div(block_x, floor_div(H, Hk)));
    const long t27 = long(t16);
    const long t28 = long(t17);
    const long t29 = k_stride_b * t23 + k_stride_h * t25 + k_stride_kv * t27 + t28;
    const float2 t30 = float2(0.0f, 0.0f);
    const long t33 = k_stride_kv * 8L;
    const long t34 = k_stride_kv * 9L;
    const int t35 = t17 + (t7 + warp * 8);
    const int t36 = min(T + -1, t35 + (T - S));
    const long t37 = t27 + (v_stride_b * t23 + v_stride_h * t25 + v_stride_kv * t28);
    const long t38 = v_stride_kv * 8L;
    thread float score[4];
    thread half weight[4];
    #pragma nounroll
    for (int i = 0; i < t14 + t15; i++) {
        const bool t39 = t14 <= i;

        // score = simdgroup8(query, k[b, hk, n * 16 +: 16 from 0 to k_high, :])
        const int t40 = (t39 ? t20 + -1 - (i - t14) : t19 + -1 - i) * 16;
        const bool t41 = t40 + 16 <= t21;
        if (t3 && t41) {
            const long t42 = k_stride_kv * long(t40) + t29;
            const half2 query_2 = half2(*(thread const packed_half2 *)query);
            const long t43 = k_stride_kv + t42;
            const long t44 = t42 + t33;
            const long t45 = t42 + t34;
            const half2 query_3 = half2(*(thread const packed_half2 *)(query + 2));
            const float2 t46 = multiply_add_half(t30, query_2, half2(k[t42], k[t43]));
            const float2 t47 = multiply_add_half(t30, query_2, half2(k[t44], k[t45]));
            const float2 t48 = multiply_add_half(t46, query_3, half2(k[t42 + 8L], k[t43 + 8L]));
            const float2 t49 = multiply_add_half(t47, query_3, half2(k[t44 + 8L], k[t45 + 8L]));
            *(thread packed_float2 *)score = packed_float2(t48);
            *(thread packed_float2 *)(score + 2) = packed_float2(t49);
        } else {
            const long t42 = k_stride_kv;
            const long t43 = k_stride_d;
            const long t44 = t42 * long(t40) + (t23 * k_stride_b + t25 * k_stride_h + t27 * t42 + t28 * t43);
            const int t45 = t16 + t40;
            const half2 query_2 = half2(*(thread const packed_half2 *)query);
            const bool t46 = t45 < t21;
            const bool t47 = t45 + 1 < t21;
            const half2 t48 = half2(t46 ? k[t44] : half(0.0f), t47 ? k[t42 + t44] : half(0.0f));
            const bool t49 = t45 + 8 < t21;
            const long t50 = t42 * 8L;
            const bool t51 = t45 + 9 < t21;
            const long t52 = t42 * 9L;
            const half2 t53 = half2(t49 ? k[t44 + t50] : half(0.0f), t51 ? k[t44 + t52] : half(0.0f));
            const half2 query_3 = half2(*(thread const packed_half2 *)(query + 2));
            const long t54 = t43 * 8L;
            const half2 t55 = half2(t46 ? k[t44 + t54] : half(0.0f), t47 ? k[t44 + (t42 + t54)] : half(0.0f));
            const half2 t56 = half2(t49 ? k[t44 + (t50 + t54)] : half(0.0f), t51 ? k[t44 + (t52 + t54)] : half(0.0f));
            const float2 t57 = multiply_add_half(t30, query_2, t48);
            const float2 t58 = multiply_add_half(t30, query_2, t53);
            const float2 t59 = multiply_add_half(t57, query_3, t55);
            const float2 t60 = multiply_add_half(t58, query_3, t56);
            *(thread packed_float2 *)score = packed_float2(t59);
            *(thread packed_float2 *)(score + 2) = packed_float2(t60);
        }
        float t22;
        bool any_2;
        float t24;
        float scale;
        float t26_0, t26_1, t26_2, t26_3;
        float p_0, p_1, p_2, p_3;
        if (!t39) {
            const int t42 = t16 + t40;
            score[0] = t42 <= t36 ? score[0] : -INFINITY;
            score[1] = t42 + 1 <= t36 ? score[1] : -INFINITY;
            score[2] = t42 + 8 <= t36 ? score[2] : -INFINITY;
            score[3] = t42 + 9 <= t36 ? score[3] : -INFINITY;
            float row_max = -INFINITY;
            row_max = maximum(score[0], row_max);
            row_max = maximum(score[1], row_max);
            row_max = maximum(score[2], row_max);
            row_max = maximum(score[3], row_max);
            const float row_max_3 = row_max;
            const float t43 = simd_shuffle_xor(row_max_3, ushort(1));
            const float t44 = maximum(row_max_3, t43);
            const float t45 = simd_shuffle_xor(t44, ushort(8));
            row_max = maximum(t44, t45);
            float own_0, own_1, own_2_2, own_3;
            own_0 = score[0];
            own_1 = score[1];
            own_2_2 = score[2];
            own_3 = score[3];
            float row_sum = 0.0f;
            row_sum = fma(score[0], 0.25f, row_sum);
            row_sum = fma(score[1], 0.25f, row_sum);
            row_sum = fma(score[2], 0.25f, row_sum);
            row_sum = fma(score[3], 0.25f, row_sum);
            const float row_sum_5 = row_sum;
            const float t46 = simd_shuffle_xor(row_sum_5, ushort(1));
            const float t47 = row_sum_5 + t46;
            const float t48 = simd_shuffle_xor(t47, ushort(8));
            row_sum = t47 + t48;
            t22 = maximum(state0, row_max * 0.25f);
            float exponent = t22 * -1.442695f;
            bool far = !(abs(exponent) <= 16384.0f);
            any_2 = -INFINITY < row_max * 0.25f || row_sum != row_sum;
            const float t49 = state0 - t22;
            const float t50 = t49 < -87.4f ? -87.4f : t49;
            const float t51 = 89.0f < t50 ? 89.0f : t50;
            const float t52 = fma(t51, 1.442695f, 12583038.0f);
            const float t53 = t52 - 12583038.0f;
            const float t54 = fma(t53, 1.9046542e-09f, fma(t53, -0.6931472f, t51));
            const float t55 = fma(fma(fma(0.016525315f, t54, 0.08379711f), t54, 0.33336347f), t54, 0.9999829f);
            const float t56 = as_type<float>(as_type<int>(t52) << 23) * fma(fma(t55, t54, 1.9999989f), t54, 2.0f);
            t24 = t56;
            scale = any_2 ? t24 : 1.0f;
            state0 = any_2 ? t22 : state0;
            state2 = any_2 ? 1.0f : state2;
            acc[0] = acc[0] * scale;
            acc[1] = acc[1] * scale;
            acc[2] = acc[2] * scale;
            acc[3] = acc[3] * scale;
            const bool t57 = simd_any(far);
            if (t57) {
                float reference = t22 == -INFINITY ? 0.0f : t22;
                float score_2_0, score_2_1, score_2_2, score_2_3;
                score_2_0 = own_0 * 0.25f;
                score_2_1 = own_1 * 0.25f;
                score_2_2 = own_2_2 * 0.25f;
                score_2_3 = own_3 * 0.25f;
                own_0 = far ? (score_2_0 - reference) * 4.0f : own_0;
                own_1 = far ? (score_2_1 - reference) * 4.0f : own_1;
                own_2_2 = far ? (score_2_2 - reference) * 4.0f : own_2_2;
                own_3 = far ? (score_2_3 - reference) * 4.0f : own_3;
                exponent = far ? 0.0f : exponent;
            }
            const float t58 = fma(own_0, 0.36067376f, exponent);
            const float t59 = t58 < -127.0f ? -127.0f : t58;
            const float t60 = 128.0f < t59 ? 128.0f : t59;
            const float t61 = floor(t60);
            const float t62 = t60 - t61;
            const float t63 = fma(fma(fma(0.00021565972f, t62, 0.001248229f), t62, 0.009673775f), t62, 0.055486184f);
            const float t64 = fma(fma(fma(t63, t62, 0.24022909f), t62, 0.69314706f), t62, 1.0f);
            t26_0 = t64 * as_type<float>(as_type<int>(t61 + 12583039.0f) << 23);
            const float t65 = fma(own_1, 0.36067376f, exponent);
            const float t66 = t65 < -127.0f ? -127.0f : t65;
            const float t67 = 128.0f < t66 ? 128.0f : t66;
            const float t68 = floor(t67);
            const float t69 = t67 - t68;
            const float t70 = fma(fma(fma(0.00021565972f, t69, 0.001248229f), t69, 0.009673775f), t69, 0.055486184f);
            const float t71 = fma(fma(fma(t70, t69, 0.24022909f), t69, 0.69314706f), t69, 1.0f);
            t26_1 = t71 * as_type<float>(as_type<int>(t68 + 12583039.0f) << 23);
            const float t72 = fma(own_2_2, 0.36067376f, exponent);
            const float t73 = t72 < -127.0f ? -127.0f : t72;
            const float t74 = 128.0f < t73 ? 128.0f : t73;
            const float t75 = floor(t74);
            const float t76 = t74 - t75;
            const float t77 = fma(fma(fma(0.00021565972f, t76, 0.001248229f), t76, 0.009673775f), t76, 0.055486184f);
            const float t78 = fma(fma(fma(t77, t76, 0.24022909f), t76, 0.69314706f), t76, 1.0f);
            t26_2 = t78 * as_type<float>(as_type<int>(t75 + 12583039.0f) << 23);
            const float t79 = fma(own_3, 0.36067376f, exponent);
            const float t80 = t79 < -127.0f ? -127.0f : t79;
            const float t81 = 128.0f < t80 ? 128.0f : t80;
            const float t82 = floor(t81);
            const float t83 = t81 - t82;
            const float t84 = fma(fma(fma(0.00021565972f, t83, 0.001248229f), t83, 0.009673775f), t83, 0.055486184f);
            const float t85 = fma(fma(fma(t84, t83, 0.24022909f), t83, 0.69314706f), t83, 1.0f);
            t26_3 = t85 * as_type<float>(as_type<int>(t82 + 12583039.0f) << 23);
            p_0 = t26_0;
            p_1 = t26_1;
            p_2 = t26_2;
            p_3 = t26_3;
            float row_sum_2 = 0.0f;
            row_sum_2 = t26_0 + row_sum_2;
            row_sum_2 = t26_1 + row_sum_2;
            row_sum_2 = t26_2 + row_sum_2;
            row_sum_2 = t26_3 + row_sum_2;
            *(thread packed_half2 *)weight = packed_half2(half2(float2(p_0, p_1)));
            *(thread packed_half2 *)(weight + 2) = packed_half2(half2(float2(p_2, p_3)));
            state1 = any_2 ? fma(state1, t24, row_sum_2) : state1;
        } else {
            float row_max_2 = -INFINITY;
            row_max_2 = maximum(score[0], row_max_2);
            row_max_2 = maximum(score[1], row_max_2);
            row_max_2 = maximum(score[2], row_max_2);
            row_max_2 = maximum(score[3], row_max_2);
            const float row_max_2_2 = row_max_2;
            const float t42 = simd_shuffle_xor(row_max_2_2, ushort(1));
            const float t43 = maximum(row_max_2_2, t42);
            const float t44 = simd_shuffle_xor(t43, ushort(8));
            row_max_2 = maximum(t43, t44);
            float own_2_0, own_2_1, own_2_2_2, own_2_3;
            own_2_0 = score[0];
            own_2_1 = score[1];
            own_2_2_2 = score[2];
            own_2_3 = score[3];
            float row_sum_3 = 0.0f;
            row_sum_3 = fma(score[0], 0.25f, row_sum_3);
            row_sum_3 = fma(score[1], 0.25f, row_sum_3);
            row_sum_3 = fma(score[2], 0.25f, row_sum_3);
            row_sum_3 = fma(score[3], 0.25f, row_sum_3);
            const float row_sum_3_2 = row_sum_3;
            const float t45 = simd_shuffle_xor(row_sum_3_2, ushort(1));
            const float t46 = row_sum_3_2 + t45;
            const float t47 = simd_shuffle_xor(t46, ushort(8));
            row_sum_3 = t46 + t47;
            t22 = maximum(state0, row_max_2 * 0.25f);
            float exponent_2 = t22 * -1.442695f;
            bool far_2 = !(abs(exponent_2) <= 16384.0f);
            any_2 = -INFINITY < row_max_2 * 0.25f || row_sum_3 != row_sum_3;
            const float t48 = state0 - t22;
            const float t49 = t48 < -87.4f ? -87.4f : t48;
            const float t50 = 89.0f < t49 ? 89.0f : t49;
            const float t51 = fma(t50, 1.442695f, 12583038.0f);
            const float t52 = t51 - 12583038.0f;
            const float t53 = fma(t52, 1.9046542e-09f, fma(t52, -0.6931472f, t50));
            const float t54 = fma(fma(fma(0.016525315f, t53, 0.08379711f), t53, 0.33336347f), t53, 0.9999829f);
            const float t55 = as_type<float>(as_type<int>(t51) << 23) * fma(fma(t54, t53, 1.9999989f), t53, 2.0f);
            t24 = t55;
            scale = any_2 ? t24 : 1.0f;
            state0 = any_2 ? t22 : state0;
            state2 = any_2 ? 1.0f : state2;
            acc[0] = acc[0] * scale;
            acc[1] = acc[1] * scale;
            acc[2] = acc[2] * scale;
            acc[3] = acc[3] * scale;
            const bool t56 = simd_any(far_2);
            if (t56) {
                float reference_2 = t22 == -INFINITY ? 0.0f : t22;
                float score_3_0, score_3_1, score_3_2, score_3_3;
                score_3_0 = own_2_0 * 0.25f;
                score_3_1 = own_2_1 * 0.25f;
                score_3_2 = own_2_2_2 * 0.25f;
                score_3_3 = own_2_3 * 0.25f;
                own_2_0 = far_2 ? (score_3_0 - reference_2) * 4.0f : own_2_0;
                own_2_1 = far_2 ? (score_3_1 - reference_2) * 4.0f : own_2_1;
                own_2_2_2 = far_2 ? (score_3_2 - reference_2) * 4.0f : own_2_2_2;
                own_2_3 = far_2 ? (score_3_3 - reference_2) * 4.0f : own_2_3;
                exponent_2 = far_2 ? 0.0f : exponent_2;
            }
            const float t57 = fma(own_2_0, 0.36067376f, exponent_2);
            const float t58 = t57 < -127.0f ? -127.0f : t57;
            const float t59 = 128.0f < t58 ? 128.0f : t58;
            const float t60 = floor(t59);
            const float t61 = t59 - t60;
            const float t62 = fma(fma(fma(0.00021565972f, t61, 0.001248229f), t61, 0.009673775f), t61, 0.055486184f);
            const float t63 = fma(fma(fma(t62, t61, 0.24022909f), t61, 0.69314706f), t61, 1.0f);
            t26_0 = t63 * as_type<float>(as_type<int>(t60 + 12583039.0f) << 23);
            const float t64 = fma(own_2_1, 0.36067376f, exponent_2);
            const float t65 = t64 < -127.0f ? -127.0f : t64;
            const float t66 = 128.0f < t65 ? 128.0f : t65;
            const float t67 = floor(t66);
            const float t68 = t66 - t67;
            const float t69 = fma(fma(fma(0.00021565972f, t68, 0.001248229f), t68, 0.009673775f), t68, 0.055486184f);
            const float t70 = fma(fma(fma(t69, t68, 0.24022909f), t68, 0.69314706f), t68, 1.0f);
            t26_1 = t70 * as_type<float>(as_type<int>(t67 + 12583039.0f) << 23);
            const float t71 = fma(own_2_2_2, 0.36067376f, exponent_2);
            const float t72 = t71 < -127.0f ? -127.0f : t71;
            const float t73 = 128.0f < t72 ? 128.0f : t72;
            const float t74 = floor(t73);
            const float t75 = t73 - t74;
            const float t76 = fma(fma(fma(0.00021565972f, t75, 0.001248229f), t75, 0.009673775f), t75, 0.055486184f);
            const float t77 = fma(fma(fma(t76, t75, 0.24022909f), t75, 0.69314706f), t75, 1.0f);
            t26_2 = t77 * as_type<float>(as_type<int>(t74 + 12583039.0f) << 23);
            const float t78 = fma(own_2_3, 0.36067376f, exponent_2);
            const float t79 = t78 < -127.0f ? -127.0f : t78;
            const float t80 = 128.0f < t79 ? 128.0f : t79;
            const float t81 = floor(t80);
            const float t82 = t80 - t81;
            const float t83 = fma(fma(fma(0.00021565972f, t82, 0.001248229f), t82, 0.009673775f), t82, 0.055486184f);
            const float t84 = fma(fma(fma(t83, t82, 0.24022909f), t82, 0.69314706f), t82, 1.0f);
            t26_3 = t84 * as_type<float>(as_type<int>(t81 + 12583039.0f) << 23);
            p_0 = t26_0;
            p_1 = t26_1;
            p_2 = t26_2;
            p_3 = t26_3;
            float row_sum_4 = 0.0f;
            row_sum_4 = t26_0 + row_sum_4;
            row_sum_4 = t26_1 + row_sum_4;
            row_sum_4 = t26_2 + row_sum_4;
            row_sum_4 = t26_3 + row_sum_4;
            *(thread packed_half2 *)weight = packed_half2(half2(float2(p_0, p_1)));
            *(thread packed_half2 *)(weight + 2) = packed_half2(half2(float2(p_2, p_3)));
            state1 = any_2 ? fma(state1, t24, row_sum_4) : state1;
        }

        // acc += simdgroup8(weight, v[b, hv, n * 16 +: 16 from k_low to k_high, :])
        if (t5 && t41) {
            const long t42 = v_stride_kv * long(t40) + t37;
            const half2 weight_2 = half2(*(thread const packed_half2 *)weight);
            const half2 weight_3 = half2(*(thread const packed_half2 *)(weight + 2));
            const long t43 = t42 + t38;
            const float2 t44 = multiply_add_half(float2(*(thread const packed_float2 *)acc), weight_2, half2(*(device const packed_half2 *)(v + t42)));
            const float2 t45 = multiply_add_half(float2(*(thread const packed_float2 *)(acc + 2)), weight_2, half2(*(device const packed_half2 *)(v + (t42 + 8L))));
            const float2 t46 = multiply_add_half(t44, weight_3, half2(*(device const packed_half2 *)(v + t43)));
            const float2 t47 = multiply_add_half(t45, weight_3, half2(*(device const packed_half2 *)(v + (t43 + 8L))));
            *(thread packed_float2 *)acc = packed_float2(t46);
            *(thread packed_float2 *)(acc + 2) = packed_float2(t47);
        } else {
            const long t42 = v_stride_kv;
            const long t43 = v_stride_e;
            const long t44 = t42 * long(t40) + (t23 * v_stride_b + t25 * v_stride_h + t28 * t42 + t27 * t43);
            const int t45 = t17 + t40;
            const half2 weight_2 = half2(*(thread const packed_half2 *)weight);
            const bool t46 = t45 < t21;
            const half2 t47 = half2(t46 ? v[t44] : half(0.0f), t46 ? v[t43 + t44] : half(0.0f));
            const long t48 = t43 * 8L;
            const long t49 = t43 * 9L;
            const half2 t50 = half2(t46 ? v[t44 + t48] : half(0.0f), t46 ? v[t44 + t49] : half(0.0f));
            const half2 weight_3 = half2(*(thread const packed_half2 *)(weight + 2));
            const bool t51 = t45 + 8 < t21;
            const long t52 = t42 * 8L;
            const half2 t53 = half2(t51 ? v[t44 + t52] : half(0.0f), t51 ? v[t44 + (t43 + t52)] : half(0.0f));
            const half2 t54 = half2(t51 ? v[t44 + (t48 + t52)] : half(0.0f), t51 ? v[t44 + (t49 + t52)] : half(0.0f));
            const float2 t55 = multiply_add_half(float2(*(thread const packed_float2 *)acc), weight_2, t47);
            const float2 t56 = multiply_add_half(float2(*(thread const packed_float2 *)(acc + 2)), weight_2, t50);
            const float2 t57 = multiply_add_half(t55, weight_3, t53);
            const float2 t58 = multiply_add_half(t56, weight_3, t54);
            *(thread packed_float2 *)acc = packed_float2(t57);
            *(thread packed_float2 *)(acc + 2) = packed_float2(t58);
        }
    }
    const float state1_2 = state1;
    const float t39 = simd_shuffle_xor(state1_2, ushort(1));
    const float t40 = state1_2 + t39;
    const float t41 = simd_shuffle_xor(t40, ushort(8));
    state1 = t40 + t41;
    const float state1_3 = state1;
    const bool t42 = state1_3 < 1.1754944e-38f;
    const int t43 = as_type<int>(t42 ? state1_3 * 8388608.0f : state1_3);
    const int t44 = as_type<int>(as_type<uint>(t43) + 0xc0cafb0du) >> 23;
    const float t45 = as_type<float>(t43 - (t44 << 23)) - 1.0f;
    const float t46 = (t42 ? -23.0f : 0.0f) + float(t44);
    const float t47 = fma(fma(fma(0.08738792f, t45, -0.14307724f), t45, 0.14916356f), t45, -0.16570313f);
    const float t48 = fma(fma(fma(t47, t45, 0.1996224f), t45, -0.25001776f), t45, 0.33333945f);
    const float t49 = fma(t45 * t45, fma(t48, t45, -0.4999999f), t46 * -2.9088971e-05f);
    const float t50 = state1_3 < INFINITY ? fma(t46, 0.69317627f, t45 + t49) : state1_3;
    float t31 = 0.0f < state1_3 ? t50 : state1_3 == 0.0f ? -INFINITY : NAN;
    float t32 = state0 + t31;
    float out_0, out_1, out_2, out_3;
    out_0 = 0.0f < state2 ? acc[0] / state1 : 0.0f;
    out_1 = 0.0f < state2 ? acc[1] / state1 : 0.0f;
    out_2 = 0.0f < state2 ? acc[2] / state1 : 0.0f;
    out_3 = 0.0f < state2 ? acc[3] / state1 : 0.0f;
    float final0 = t32;

    // store f16(out) -> o[b, h, mb * 32 + self * 8 +: 8, :] clip
    if (o_stride_e == 1L && (t6 & 15L) == 0L) {
        const bool t51 = t35 < S;
        const long t52 = t23 * (o_stride_b >> 1L) + (o_stride_h >> 1L) * long(block_x) + (o_stride_q >> 1L) * long(t35);
        const long t53 = t52 * 2L;
        if (t51)
            *(device packed_half2 *)(o + (t27 + t53)) = packed_half2(half2(half(out_0), half(out_1)));
        if (t51)
            *(device packed_half2 *)(o + (t53 + long(t16 + 8))) = packed_half2(half2(half(out_2), half(out_3)));
    } else {
        const long t51 = o_stride_e;
        const bool t52 = t35 < S;
        const long t53 = t23 * o_stride_b + o_stride_h * long(block_x) + o_stride_q * long(t35);
        if (t52)
            o[t53 + t27 * t51] = half(out_0);
        if (t52)
            o[t53 + t51 * long(t16 + 1)] = half(out_1);
        if (t52)
            o[t53 + t51 * long(t16 + 8)] = half(out_2);
        if (t52)
            o[t53 + t51 * long(t16 + 9)] = half(out_3);
    }

    // store final0 -> final_lse[b, h, mb * 32 + self * 8 +: 8] clip
    if (final_lse_present != 0) {
        const long t51 = final_lse_stride_b * t23 + final_lse_stride_h * long(block_x) + final_lse_stride_q * long(t35);
        if (t18 && t35 < S)
            final_lse[t51] = final0;
    }
}

