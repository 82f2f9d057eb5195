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

// which loops are unrolled, and where arrays begin to live
__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void loops(__global const float *restrict x, long x_offset,
           __global float *restrict y, long y_offset,
           int n)
{
    x += x_offset;
    y += y_offset;
    const int lane = (int)get_local_id(0);
    __local float tile[64];
    #pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const int t1 = i * 8 + lane;
        tile[t1] = x[t1];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    float last = 0.0f;
    for (int pass = 0; pass < n; pass++) {
        float sums[4];
        UNROLL
        for (int i = 0; i < 4; i += 2) {
            float block_0, block_1;
            block_0 = 0.0f;
            block_1 = 1.0f;
            for (int j = 0; j < 16; j++) {
                const float tile_2 = tile[j * 2 + i];
                block_0 = mul_add(tile_2, 0.5f, block_0);
                block_1 = block_1 - tile_2;
            }
            sums[i] = block_0;
            sums[i + 1] = block_1;
        }
        UNROLL
        for (int i = 0; i < 4; i++) {
            last = last + sums[i];
        }
    }
    y[lane] = last;
}
