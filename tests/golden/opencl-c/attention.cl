// OpenCL C 1.2, generated. A work-group is a block; its work-items are the lanes.
#pragma OPENCL FP_CONTRACT OFF

// Before loops over arrays of a work-item: a GPU's registers have no indices, so none may be left;
// a processor's compiler takes long over what is written out, and the kernel is no faster.
#ifdef AULE_PROCESSOR
#define UNROLL _Pragma("unroll 1")
#else
#define UNROLL _Pragma("unroll")
#endif

// After loops with barriers: PoCL takes some values that leave them for the same in all work-items.
#ifdef AULE_PROCESSOR
#define AFTER_BARRIERS barrier(CLK_LOCAL_MEM_FENCE)
#else
#define AFTER_BARRIERS
#endif

float mul_add(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__FMA__)
    return fma(a, b, c);
#else
#pragma OPENCL FP_CONTRACT ON
    return a * b + c;
#endif
}

float maximum(float a, float b)
{
    return a > b ? a : b;
}

// mha.attn: softmax attention, causal
// schedule: one query a lane, D = 4
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void mha_forward(__global const float *restrict q, long q_offset,
                 __global const float *restrict k, long k_offset,
                 __global const float *restrict v, long v_offset,
                 __global float *restrict o, long o_offset,
                 int S,
                 long q_stride,
                 float scale)
{
    q += q_offset;
    k += k_offset;
    v += v_offset;
    o += o_offset;
    const int block_x = (int)get_group_id(0);
    const int lane = (int)get_local_id(0);
    __local float k_tile[128] __attribute__((aligned(16)));
    __local float v_tile[128] __attribute__((aligned(16)));

    // load Q
    const int t1 = block_x * 32;
    const int i = t1 + lane;
    const bool inside = i < S;
    const long row = (long)i * q_stride;
    float q_row[4];
    float acc[4];
    UNROLL
    for (int d = 0; d < 4; d++) {
        q_row[d] = inside ? q[row + (long)d] : 0.0f;
        acc[d] = 0.0f;
    }
    float m = -INFINITY;
    float l = 0.0f;
    const int last = min(t1 + 32, S);
    for (int tile = 0; tile < last; tile += 32) {
        // copy K, V
        const int t2 = tile + lane;
        const bool loads = t2 < S;
        const long t3 = (long)t2 * q_stride;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const int t4 = lane * 4;
        vstore4(loads ? vload4(0, k + t3) : (float4)(0.0f), 0, k_tile + t4);
        vstore4(loads ? vload4(0, v + t3) : (float4)(0.0f), 0, v_tile + t4);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (int j = 0; j < 32; j++) {
            // S = Q K'
            const int t5 = j * 4;
            const float t6 = mul_add(q_row[2], k_tile[t5 + 2], mul_add(q_row[1], k_tile[t5 + 1], q_row[0] * k_tile[t5]));
            const float s = tile + j <= i ? mul_add(q_row[3], k_tile[t5 + 3], t6) * scale : -INFINITY;

            // online softmax
            const float before = m;
            const float now = maximum(before, s);
            m = now;
            const float rescale = exp(before - now);
            const float p = exp(s - now);
            l = mul_add(l, rescale, p);

            // O += P V
            UNROLL
            for (int e = 0; e < 4; e++) {
                acc[e] = mul_add(p, v_tile[t5 + e], acc[e] * rescale);
            }
        }
    }
    AFTER_BARRIERS;

    // epilogue
    const float l_2 = l;
    UNROLL
    for (int e = 0; e < 4; e++) {
        if (inside)
            o[row + (long)e] = acc[e] / l_2;
    }
}
