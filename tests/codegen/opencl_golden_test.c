/* The golden kernels on every OpenCL device here, compared with the interpreter. Also run under Oclgrind, which looks for races;
 * `opencl_golden_test race` is a kernel that has one, to see that this is found. */
#include <math.h>

#include "opencl.h"

enum { MOST_DEVICES = 8 };

/* ---- the golden kernels */

typedef struct Golden {
    const char *name;
    uint32_t blocks;
    float within;       /* absolute: a sum of weights that are 3 units off each; 0: exact */
    uint64_t counts[8]; /* elements of pointers, bits of scalars, in the order of the arguments */
    bool whole;         /* floats without fraction: their sums are exact in any order */
} Golden;

static const Golden goldens[] = {
    {"attention", 3, 2e-6f, {70 * 4, 70 * 4, 70 * 4, 70 * 4, 70, 4, 0x3f000000}, false},
    {"bits", 1, 0, {32, 0x123456789abcdef}, false},
    {"block", 3, 0, {96, 4, 8, 80}, true},
    {"halves", 1, 0, {64, 128, 64, 80, 1, 13}, false},
    {"loops", 1, 0, {64, 8, 3}, false},
    {"words", 1, 0, {8, 8, 5, 0x40000000}, false},
};

static AuKBuffer *golden_buffers(Bench *b, const AuKernel *k, const Golden *g)
{
    AuKBuffer *buffers = AU_NEW_ARRAY(b->arena, AuKBuffer, k->arg_count);
    uint32_t seed = 11;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        void *data = au_alloc(b->arena, g->counts[n] * kernel_scalar_bytes(m->scalar));
        for (uint64_t e = 0; e < g->counts[n] && m->reads && !m->writes; e++) {
            const float number = (float)(test_random(&seed) % 4001) / 1000.0f - 2.0f;
            if (m->scalar == AU_F32) ((float *)data)[e] = g->whole ? floorf(number * 8) : number;
            if (m->scalar == AU_F16) ((uint16_t *)data)[e] = kernel_to_f16(number);
            if (m->scalar == AU_BF16) ((uint16_t *)data)[e] = kernel_to_bf16(number);
            if (m->scalar == AU_U8) ((uint8_t *)data)[e] = (uint8_t)test_random(&seed);
        }
        buffers[n] = (AuKBuffer){.data = data, .count = g->counts[n], .initialised = true};
    }
    return buffers;
}

static void expect_equal(const AuKernel *k, const Golden *g, const AuKBuffer *want,
                         const AuKBuffer *have, const ClDevice *d)
{
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        for (uint64_t e = 0; a->kind == AU_ARG_POINTER && e < g->counts[n]; e++)
            if (!test_same(want[n].data, have[n].data, k->mems[a->mem.i].scalar, e, 0,
                           g->within > 0 ? g->within : -1))
                fail_msg("%s: %s: element %u of %s differs", d->name, g->name, (unsigned)e,
                         a->name);
    }
}

static void golden_kernels(void **state)
{
    (void)state;
    ClDevice devices[MOST_DEVICES];
    const uint32_t device_count = cl_devices(devices, MOST_DEVICES);
    if (!device_count) skip();
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const Golden *g = &goldens[i];
        Bench b = bench_new();
        AuKernel *k = bench_kernel(&b, golden_read(&b, au_format(b.arena, "%s.kir", g->name)));
        const char *source = opencl_source(&b, k), *why;
        AuKRun run = {
            .slots = g->counts, .buffers = golden_buffers(&b, k, g), .grid = {g->blocks, 1, 1}};
        if (!kernel_run(k, &run, b.arena, &why)) fail_msg("%s: interpreter: %s", g->name, why);
        for (uint32_t d = 0; d < device_count; d++) {
            AuKRun on_device = run;
            on_device.buffers = golden_buffers(&b, k, g);
            cl_run(&b, &devices[d], k, source, &on_device);
            expect_equal(k, g, run.buffers, on_device.buffers, &devices[d]);
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
    const struct CMUnitTest golden[] = {cmocka_unit_test(golden_kernels)};
    const struct CMUnitTest race[] = {cmocka_unit_test(a_race)};
    const bool racy = argc > 1 && strcmp(argv[1], "race") == 0;
    return racy ? cmocka_run_group_tests(race, NULL, NULL)
                : cmocka_run_group_tests(golden, NULL, NULL);
}
