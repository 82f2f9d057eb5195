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

float negated(float a)
{
#ifdef AULE_PROCESSOR
    return a == 0.0f ? -a : 0.0f - a;
#else
    return -a;
#endif
}

float minimum(float a, float b)
{
    return a < b ? a : b;
}

float maximum(float a, float b)
{
    return a > b ? a : b;
}

int floor_div(int a, int b)
{
    if (b == 0 || b == -1) return a * b;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// names that C or OpenCL keep for themselves  
__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void words(__global const float *restrict exp_2, long exp_2_offset,
           __global float *restrict half4_2, long half4_2_offset,
           int t1,
           float barrier_2)
{
    exp_2 += exp_2_offset;
    half4_2 += half4_2_offset;
    const int lane = (int)get_local_id(0);

    // shadowing */ nothing  
    const float kernel_2 = exp_2[lane];
    const float x_2nd = kernel_2 + 1.0f;
    const float s = x_2nd * x_2nd;
    const float s_2 = negated(s);
    const float float_2 = negated(s_2);
    float acc_0, acc_2;
    acc_0 = exp(float_2);
    acc_2 = barrier_2 - (s_2 - -1.0f) + negated(-2.0f);
    float half4_offset = s_2;
    const float minimum_2_2 = minimum(acc_0, acc_2);
    const float minimum_3 = maximum(minimum_2_2, half4_offset);
    const bool t2 = !((minimum_3 < 0.0f && t1 == INT_MIN) || minimum_2_2 < INFINITY);
    const int t3 = t1 + lane;
    if (t2)
        half4_2[(((t3 - (floor_div(t3, 3) - (t3 & 7))) << 2) & 7) + 0] = t2 ? NAN : 1e-45f;
}
