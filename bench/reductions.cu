/* reductions.cu - how fast a GPU of sm_90 adds to memory by bulk reductions of f32 (cp.reduce.async.bulk), and stores by bulk copies, depending on how
 * large a region all blocks walk through: what limits backward's sums of dQ (docs/dev/hopper.md). The last lines: all blocks at the same place at once.
 *
 *     nvcc -arch=sm_90a -O2 bench/reductions.cu -o reductions && ./reductions */
#include <cstdint>
#include <cstdio>

enum Mode { ADD, STORE, ADD_TOGETHER, MODES };
static const char *const mode_names[MODES] = {"add", "store", "add together"};

/* A block moves [count] tiles of [bytes] from shared memory into [region] bytes, two in flight. */
__global__ void move(char *out, size_t region, int bytes, int count, Mode mode)
{
    extern __shared__ __align__(128) char tiles[];
    const uint32_t from = (uint32_t)__cvta_generic_to_shared(tiles);
    const size_t all = region / bytes;
    size_t at = mode == ADD_TOGETHER ? 0 : (size_t)blockIdx.x * 977 % all; /* apart, by a prime */
    if (threadIdx.x) return;
    for (int n = 0; n < count; n++) {
        char *to = out + at * bytes;
        const uint32_t tile = from + n % 2 * bytes;
        if (mode == STORE)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(tile), "r"(bytes) : "memory");
        else
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(tile), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        if (++at == all) at = 0;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

static double gigabytes_a_second(char *memory, int blocks, size_t region, int bytes, Mode mode)
{
    const int count = blocks > 16 ? 2500 : 20000;
    float ms = 0;
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    move<<<blocks, 128, 2 * bytes>>>(memory, region, bytes, count / 4, mode); /* warm */
    cudaEventRecord(begin);
    move<<<blocks, 128, 2 * bytes>>>(memory, region, bytes, count, mode);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    cudaEventDestroy(begin), cudaEventDestroy(end);
    return (double)blocks * count * bytes / ms * 1e-6;
}

int main()
{
    const size_t most = (size_t)1 << 30;
    char *memory;
    cudaMalloc(&memory, most);
    cudaMemset(memory, 0, most);
    cudaFuncSetAttribute(move, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    for (int mode = 0; mode < MODES; mode++)
        for (int blocks : {1, 16, 66, 132})
            for (int megabytes : {8, 32, 128, 1024})
                for (int bytes : {16 << 10, 32 << 10})
                    printf("%-12s %3d blocks, %4d MB, tiles of %d KB: %.0f GB/s\n", mode_names[mode], blocks, megabytes, bytes >> 10,
                           gigabytes_a_second(memory, blocks, (size_t)megabytes << 20, bytes, (Mode)mode));
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
