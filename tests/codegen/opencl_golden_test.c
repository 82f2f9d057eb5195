/* The golden kernels on every OpenCL device here, compared with the interpreter. Also run under Oclgrind, which looks for races;
 * `opencl_golden_test race` is a kernel that has one, to see that this is found. */
#include <stdlib.h>

#include "golden_kernels.h"
#include "opencl.h"

enum { MOST_DEVICES = 8 };

static void kernels_on_devices(void **state)
{
    (void)state;
    ClDevice devices[MOST_DEVICES];
    const uint32_t device_count = cl_devices(devices, MOST_DEVICES);
    if (!device_count) skip();
    for (size_t i = 0; i < golden_kernel_count; i++) {
        const GoldenKernel *g = &golden_kernels[i];
        Bench b = bench_new();
        AuKernel *k = golden_kernel(&b, getenv("AU_GOLDEN"), g);
        const char *source = opencl_source(&b, k);
        const AuKRun want = golden_run(&b, k, g);
        for (uint32_t d = 0; d < device_count; d++) {
            const AuKRun have = golden_run_again(&b, k, g, &want);
            cl_run(&b, &devices[d], k, source, &have);
            golden_compare(k, g, &want, &have, devices[d].name);
        }
        bench_free(&b);
    }
    cl_close(devices, device_count);
}

static void a_race(void **state)
{
    (void)state;
    ClDevice device;
    if (!cl_devices(&device, 1)) skip();
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, "kernel racy lanes 8 warps 1\nmemory @o: global i32 "
                                   "writes\nmemory @x: shared i32[8]\narg o: pointer @o\n{\n"
                                   "  %1 = lane.i32\n  store @x[%1], %1\n  %2 = sub.i32 7, %1\n  "
                                   "%3 = load.i32 @x[%2]\n  store @o[%1], %3\n}\n");
    int32_t o[8] = {0};
    AuKBuffer buffer = {.data = o, .count = 8};
    const AuKRun run = {.buffers = &buffer, .grid = {1, 1, 1}};
    cl_run(&b, &device, k, opencl_source(&b, k), &run);
    bench_free(&b);
    cl_close(&device, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest golden[] = {cmocka_unit_test(kernels_on_devices)};
    const struct CMUnitTest race[] = {cmocka_unit_test(a_race)};
    const bool racy = argc > 1 && strcmp(argv[1], "race") == 0;
    return racy ? cmocka_run_group_tests(race, NULL, NULL)
                : cmocka_run_group_tests(golden, NULL, NULL);
}
