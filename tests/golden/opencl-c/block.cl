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

void add_global(volatile __global float *a, float b)
{
    volatile __global int *bits = (volatile __global int *)a;
    for (int seen, now = 0;; now = seen) {
        seen = atomic_cmpxchg(bits, now, as_int(as_float(now) + b));
        if (seen == now) return;
    }
}

// sums of a block, by executor and then in total; counts the blocks
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void block_sums(__global const float *restrict x, long x_offset,
                __global float *restrict sums, long sums_offset,
                __global int *restrict done, long done_offset,
                int n)
{
    x += x_offset;
    sums += sums_offset;
    done += done_offset;
    const int block_x = (int)get_group_id(0);
    const int lane = (int)get_local_id(0) % 8;
    const int warp = (int)get_local_id(0) / 8;
    __local float part_all[4 * 8];
    __local float *const part = part_all + warp * 8;
    __local float total[4];
    __local int count[1];
    const int t1 = block_x * 32;
    const int i = t1 + warp * 8 + lane;
    part[lane] = i < n ? x[i] : 0.0f;
    const bool first = lane == 0;
    if (i == t1)
        count[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int j = 4; j > 0; j -= 3) {
        const float t2 = part[(lane + j) & 7] + part[lane];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        part[lane] = t2;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    AFTER_BARRIERS;
    if (first)
        total[warp] = part[0];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (warp == 0) {
        if (first)
            add_global(sums, total[0] + total[3]);
        atomic_add(count, 1);
    } else {
        if (first)
            add_global(sums + warp, total[warp]);
    }
    mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const int before = first ? atomic_inc(done) : 0;
    mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (first)
        atomic_add(done + 7, before);
    mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (first)
        atomic_inc(done + 5);
    mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
