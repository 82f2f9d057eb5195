/* Random kernels on every OpenCL device here against the interpreter, for what the printer decides: which values become part of an
 * expression, in which order, with which parentheses, in which integer type; where arrays of lanes are declared.
 * `opencl_random_test [SEED [COUNT]]`; a failure names the seed of its kernel. */
#include <stdlib.h>

#include "opencl.h"
#include "random_kernel.h"

enum { DEVICES = 4 };
static ClDevice devices[DEVICES];
static uint32_t device_count, first_seed = 1, kernels = 12;

static void one_kernel(uint32_t seed)
{
    Bench b = bench_new();
    AuKernel *k = random_kernel(&b, seed, RANDOM_LANES, true);
    if (!kernel_verify(k, b.diags)) fail_msg("seed %u: %s", seed, b.diags->first->message);
    const char *source = opencl_source(&b, k), *why;
    AuKRun run = {.buffers = random_buffers(&b, k, seed),
                  .grid = {RANDOM_BLOCKS, 1, 1},
                  .check_all_written = true};
    if (!kernel_run(k, &run, b.arena, &why)) fail_msg("seed %u: interpreter: %s", seed, why);
    for (uint32_t d = 0; d < device_count; d++) {
        AuKRun on_device = run;
        on_device.buffers = random_buffers(&b, k, seed);
        cl_run(&b, &devices[d], k, source, &on_device);
        for (uint32_t n = 0; n < k->arg_count; n++)
            for (uint64_t e = 0; e < run.buffers[n].count; e++)
                if (!test_same(run.buffers[n].data, on_device.buffers[n].data,
                               k->mems[k->args[n].mem.i].scalar, e, 0, -1))
                    fail_msg("seed %u, %s: element %u of argument %u differs\n%s", seed,
                             devices[d].name, (unsigned)e, n, source);
    }
    bench_free(&b);
}

static void random_kernels(void **state)
{
    (void)state;
    device_count = cl_devices(devices, DEVICES);
    if (!device_count) skip();
    for (uint32_t n = 0; n < kernels; n++) one_kernel(first_seed + n);
    cl_close(devices, device_count);
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) kernels = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
