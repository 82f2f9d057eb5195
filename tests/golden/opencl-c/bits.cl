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

int floor_div(int a, int b)
{
    if (b == 0 || b == -1) return a * b;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void philox_round(__global int *restrict out, long out_offset,
                  long seed)
{
    out += out_offset;
    const int lane = (int)get_local_id(0);
    const int key = (int)seed;
    const uint x = mul_hi(as_uint(lane), 0xd2511f53u);
    const uint y = as_uint(lane) * 0xd2511f53u;
    const uint z = x ^ as_uint(key) ^ y;
    const uint t1 = z * (as_uint(key) + 0x9e3779b9u);
    const float u = as_float((t1 >> 9u) | 0x3f800000u);
    const uint t2 = u < 1.5f ? t1 : as_uint(floor_div(as_int(t1), 7) + (as_int(t1) >> 5));
    out[lane] = as_int(as_int(t1) < 0 ? as_uint(as_int(abs(as_int(t2)))) : t2);
}
