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

float bf16_to_float(ushort a)
{
    return as_float((uint)a << 16);
}

float4 bf16_to_float_4(ushort4 a)
{
    return (float4)(bf16_to_float(a.s0), bf16_to_float(a.s1), bf16_to_float(a.s2), bf16_to_float(a.s3));
}

ushort float_to_bf16(float a)
{
    const uint bits = as_uint(a);
    return (isnan(a) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

ushort4 float_to_bf16_4(float4 a)
{
    return (ushort4)(float_to_bf16(a.s0), float_to_bf16(a.s1), float_to_bf16(a.s2), float_to_bf16(a.s3));
}

float half_to_float(ushort a)
{
    const uint rest = a & 0x7fffu, sign = (uint)(a & 0x8000u) << 16;
    if (rest < 0x400u) return as_float(sign | as_uint((float)rest * 0x1p-24f));
    if (rest < 0x7c00u) return as_float(sign | ((rest << 13) + 0x38000000u));
    return as_float(sign | rest << 13 | 0x7f800000u);
}

float dot2_half(float a, ushort2 b, ushort2 c)
{
    a = mul_add(half_to_float(b.s0), half_to_float(c.s0), a);
    return mul_add(half_to_float(b.s1), half_to_float(c.s1), a);
}

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void halves(__global const half *restrict x, long x_offset,
            __global half *restrict y, long y_offset,
            __global const ushort *restrict bx, long bx_offset,
            __global ushort *restrict by, long by_offset,
            __global const uchar *restrict flag, long flag_offset,
            int n)
{
    x += x_offset;
    y += y_offset;
    bx += bx_offset;
    by += by_offset;
    flag += flag_offset;
    const int lane = (int)get_local_id(0);
    __local ushort tile[64];
    __local ushort btile[64] __attribute__((aligned(16)));
    const bool inside = lane < n;

    // copies keep the bits
    const int t1 = lane * 4;
    const ushort4 x_2 = inside ? vload4(0, (__global const ushort *)x + t1) : (ushort4)(0x0000);
    vstore4(x_2, 0, tile + t1);
    vstore4(inside ? vload4(0, bx + t1) : (ushort4)(0x0000), 0, btile + t1);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    // conversions
    const float t2 = mul_add(vload_half(lane, (__local const half *)tile), bf16_to_float(btile[lane]), 0.5f);
    if (inside)
        vstore_half_rte(t2, lane, y);
    const float4 t3 = vload_half4(0, (__local const half *)tile + t1) * bf16_to_float_4(vload4(0, btile + t1));
    if (inside)
        vstore4(float_to_bf16_4(t3), 0, by + t1);
    if (inside)
        vstore_half4_rte(t3, 0, y + (t1 + 64));

    // pairs
    const ushort t4 = x_2.s1;
    const float t5 = dot2_half(1.0f, vload2(0, tile), (ushort2)(t4, t4)) + (float)(int)flag[0];
    by[lane + 64] = float_to_bf16(t5);
}
