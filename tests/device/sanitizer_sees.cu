/* sanitizer_sees.cu - what compute-sanitizer takes for faults: sanitizer_sees elected|every|places|unaligned
 *
 * Two warps in one block, right by PTX's memory model ("Causality order" of the PTX ISA: an arrival at an mbarrier orders what came
 * before it in its thread, a barrier of the warp what came before that in the other lanes):
 *   elected    a warp stores, meets, and one lane arrives for all; the other waits, reads, and gives back alike. racecheck reports
 *              the stores of the 31 other lanes, since ptxas leaves the meeting out.
 *   every      the same with 32 arrivals: racecheck reports nothing.
 *   places     two warps meet at one named barrier, each with an instruction of its own. synccheck reports it.
 *   unaligned  the same by `barrier.sync`: synccheck reports nothing.
 * for_sanitizer.py makes `every` and `unaligned` of our kernels.
 * run.py asks whether this is so, that we notice when a version sees more. */
#include <cstdint>
#include <cstdio>
#include <cstring>

enum { LANES = 32, TURNS = 4 };

static __device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void begin(uint64_t *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(barrier)), "r"(count) : "memory");
}

static __device__ void arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(barrier)) : "memory");
}

static __device__ void wait(uint64_t *barrier, int parity)
{
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }" ::"r"(shared(barrier)),
                 "r"(parity)
                 : "memory");
}

template <bool every> __global__ void hand_over(float *out)
{
    __shared__ uint64_t full, empty;
    __shared__ float x[LANES];
    const int lane = threadIdx.x % LANES;
    if (threadIdx.x == 0) {
        begin(&full, every ? LANES : 1);
        begin(&empty, every ? LANES : 1);
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < TURNS; i++) {
        if (threadIdx.x < LANES) {
            if (i) wait(&empty, (i - 1) & 1);
            x[lane] = (float)(i * 100 + lane);
        } else {
            wait(&full, i & 1);
            sum += x[lane ^ 1];
        }
        __syncwarp();
        if (every || lane == 0) arrive(threadIdx.x < LANES ? &full : &empty);
    }
    out[threadIdx.x] = sum;
}

template <bool aligned> static __device__ void meet()
{
    if (aligned)
        asm volatile("bar.sync 1, 64;" ::: "memory");
    else
        asm volatile("barrier.sync 1, 64;" ::: "memory");
}

template <bool aligned> __global__ void places(float *out)
{
    __shared__ float x[2 * LANES];
    x[threadIdx.x] = (float)threadIdx.x;
    if (threadIdx.x < LANES) {
        meet<aligned>();
        out[threadIdx.x] = x[threadIdx.x + LANES];
    } else {
        x[threadIdx.x] += 1;
        meet<aligned>();
        out[threadIdx.x] = x[threadIdx.x - LANES] * 2;
    }
}

int main(int count, char **words)
{
    const char *which = count == 2 ? words[1] : "";
    float *out, host[2 * LANES];
    if (cudaMalloc(&out, sizeof host) || cudaMemset(out, 0, sizeof host)) return 77;
    if (!strcmp(which, "elected")) hand_over<false><<<1, 2 * LANES>>>(out);
    else if (!strcmp(which, "every")) hand_over<true><<<1, 2 * LANES>>>(out);
    else if (!strcmp(which, "places")) places<true><<<1, 2 * LANES>>>(out);
    else if (!strcmp(which, "unaligned")) places<false><<<1, 2 * LANES>>>(out);
    else return 2;
    cudaError_t status = cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s: %s, %g\n", which, cudaGetErrorString(status), host[2 * LANES - 1]);
    return status != cudaSuccess;
}
