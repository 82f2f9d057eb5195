/* Kernels as SPIR-V on the first Vulkan device against the interpreter: golden ones, random ones, functions of values by their bounds.
 * `vulkan_test [SEED [COUNT]]`; a failure names the seed of its kernel. Without a device the tests are skipped. */
#include <math.h>
#include <stdlib.h>

#include "emit.h"
#include "golden_kernels.h"
#include "random_kernel.h"
#include "vulkan_device.h"

static VulkanDevice device;
static bool is_open;
static uint32_t first_seed = 1, kernels = 25;

static SpvWords module_of(Bench *b, AuKernel *k)
{
    SpvWords words = {0};
    if (spirv_kernels(b->arena, b->diags, &spirv_shader, &k, 1, &words)) return words;
    AuText shown = {.arena = b->arena};
    au_diags_render(b->diags, &shown);
    fail_msg("%s", au_text_str(&shown));
    return words;
}

static void run_on_device(Bench *b, AuKernel *k, const AuKRun *run)
{
    const SpvWords words = module_of(b, k);
    const VulkanCode code = {
        words.at, (size_t)words.count * 4, k->name, k->lanes * k->warps, k->arg_count, NULL};
    uint64_t *slots = AU_NEW_ARRAY(b->arena, uint64_t, k->arg_count + 1);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuKBuffer *buffer = run->buffers ? &run->buffers[n] : NULL;
        if (k->args[n].kind != AU_ARG_POINTER) {
            slots[n] = run->slots[n];
            continue;
        }
        const uint64_t bytes =
            buffer->count * kernel_scalar_bytes(k->mems[k->args[n].mem.i].scalar);
        slots[n] = vulkan_buffer(&device, buffer->data, bytes);
        if (!slots[n]) fail_msg("%s", device.error);
    }
    if (!vulkan_run(&device, &code, slots, run->grid)) fail_msg("%s: %s", k->name, device.error);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        const uint64_t bytes = run->buffers[n].count * kernel_scalar_bytes(m->scalar);
        if (m->writes && !vulkan_read(&device, slots[n], run->buffers[n].data, bytes))
            fail_msg("%s", device.error);
        vulkan_free(&device, slots[n]);
    }
}

static void need_device(void)
{
    if (!is_open) {
        print_message("no Vulkan device: %s\n", device.error);
        skip();
    }
}

/* ---- random kernels: the same bits */

static void one_kernel(uint32_t seed)
{
    Bench b = bench_new();
    AuKernel *k = random_kernel(&b, seed, RANDOM_LANES, false);
    if (!kernel_verify(k, b.diags)) fail_msg("seed %u: %s", seed, b.diags->first->message);
    const char *why;
    AuKRun run = {.buffers = random_buffers(&b, k, seed),
                  .grid = {RANDOM_BLOCKS, 1, 1},
                  .check_all_written = true};
    if (!kernel_run(k, &run, b.arena, &why)) fail_msg("seed %u: interpreter: %s", seed, why);
    AuKRun on_device = run;
    on_device.buffers = random_buffers(&b, k, seed);
    run_on_device(&b, k, &on_device);
    for (uint32_t n = 0; n < k->arg_count; n++)
        for (uint64_t e = 0; e < run.buffers[n].count; e++)
            if (!test_same(run.buffers[n].data, on_device.buffers[n].data,
                           k->mems[k->args[n].mem.i].scalar, e, 0, -1))
                fail_msg("seed %u: element %u of argument %u differs\n%s", seed, (unsigned)e, n,
                         bench_print(&b, k));
    bench_free(&b);
}

static void random_kernels(void **state)
{
    (void)state;
    need_device();
    for (uint32_t n = 0; n < kernels; n++) one_kernel(first_seed + n);
}

/* ---- golden kernels */

static void kernels_on_device(void **state)
{
    (void)state;
    need_device();
    for (size_t i = 0; i < golden_kernel_count; i++) {
        const GoldenKernel *g = &golden_kernels[i];
        Bench b = bench_new();
        AuKernel *k = golden_kernel(&b, getenv("AU_KERNELS"), g);
        const AuKRun want = golden_run(&b, k, g), have = golden_run_again(&b, k, g, &want);
        run_on_device(&b, k, &have);
        golden_compare(k, g, &want, &have, "vulkan");
        bench_free(&b);
    }
}

/* ---- functions */

typedef struct Function {
    const char *name;
    double (*in_double)(double);
    float low, high;
    int ulps; /* docs/dev/kernel-ir.md, 7 */
} Function;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static const Function functions[] = {
    {"exp", exp, -80, 88, 2},       {"exp2", exp2, -120, 127, 2},
    {"log", log, 1e-30f, 1e30f, 2}, {"log2", log2, 1e-30f, 1e30f, 2},
    {"tanh", tanh, -10, 10, 4},     {"sigmoid", sigmoid, -20, 20, 4},
    {"erf", erf, -4, 4, 4},         {"sin", sin, -1000, 1000, 4},
    {"cos", cos, -1000, 1000, 4},   {"expm1", expm1, -20, 80, 4},
    {"log1p", log1p, -0.9f, 3, 4},  {"log1p", log1p, 1e-20f, 1e20f, 4},
};
enum { POINTS = 4096 };

static void one_function(const Function *f)
{
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b, au_format(
                b.arena,
                "kernel function lanes 64 warps 1\nmemory @x: global f32 reads\nmemory @y: "
                "global f32 writes\narg x: pointer @x\narg y: pointer @y\n{\n  %%1 = block.i32 "
                "#0\n  %%2 = mul.i32 %%1, 64\n  %%3 = lane.i32\n  %%4 = add.i32 %%2, %%3\n  %%5 = "
                "load.f32 @x[%%4]\n  %%6 = %s.f32 %%5\n  store @y[%%4], %%6\n}\n",
                f->name));
    float x[POINTS], y[POINTS];
    for (uint32_t n = 0; n < POINTS; n++) {
        const float t = (float)n / (POINTS - 1);
        const bool steps = f->low > 0 && f->high > 1e10f; /* as many of each size */
        x[n] = steps ? (float)(f->low * pow((double)f->high / f->low, t))
                     : f->low + (f->high - f->low) * t;
    }
    AuKBuffer buffers[2] = {{.data = x, .count = POINTS, .initialised = true},
                            {.data = y, .count = POINTS}};
    const AuKRun run = {.buffers = buffers, .grid = {POINTS / 64, 1, 1}};
    run_on_device(&b, k, &run);
    double worst = 0;
    for (uint32_t n = 0; n < POINTS; n++) {
        const double want = f->in_double((double)x[n]);
        const float near = (float)want;
        const double ulp = (double)(nextafterf(fabsf(near), INFINITY) - fabsf(near));
        const double off = fabs((double)y[n] - want) / ulp;
        if (off > worst) worst = off;
        if (!(off <= f->ulps))
            fail_msg("%s(%a) is %a, %.1f ulp off", f->name, (double)x[n], (double)y[n], off);
    }
    print_message("%s: %.2f ulp\n", f->name, worst);
    bench_free(&b);
}

static void functions_keep_their_bounds(void **state)
{
    (void)state;
    need_device();
    for (size_t n = 0; n < sizeof functions / sizeof *functions; n++) one_function(&functions[n]);
}

/* More blocks along x than a dispatch of most devices may have (65535). */
static void large_grids_are_folded(void **state)
{
    (void)state;
    need_device();
    enum { BLOCKS = 65535 * 2 + 7 };
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b,
        "kernel many lanes 1 warps 1\nmemory @y: global i32 writes\narg y: pointer @y\n{\n  %1 = "
        "block.i32 #0\n  %2 = blocks.i32 #0\n  %3 = add.i32 %1, %2\n  store @y[%1], %3\n}\n");
    int32_t *y = AU_NEW_ARRAY(b.arena, int32_t, BLOCKS);
    AuKBuffer buffer = {.data = y, .count = BLOCKS};
    const AuKRun run = {.buffers = &buffer, .grid = {BLOCKS, 1, 1}};
    run_on_device(&b, k, &run);
    for (int32_t n = 0; n < BLOCKS; n++) assert_int_equal(y[n], n + BLOCKS);
    bench_free(&b);
}

/* More turns than Mesa's devices for processors make: the sum is right, or the backend says that it is not; a short kernel after it is
 * right. */
static void long_loops_are_right_or_told(void **state)
{
    (void)state;
    need_device();
    static const int32_t turns[] = {70000, 1000};
    for (uint32_t n = 0; n < 2; n++) {
        Bench b = bench_new();
        AuKernel *k = bench_kernel(
            &b, "kernel turns lanes 1 warps 1\nmemory @y: global i32 reads writes\narg y: pointer "
                "@y\narg n: i32\n{\n  %1 = arg.i32 #1\n  for %2 = 0 to %1 step 1 unroll never {\n"
                "    %3 = load.i32 @y[0]\n    %4 = add.i32 %3, 1\n    store @y[0], %4\n  }\n}\n");
        const SpvWords words = module_of(&b, k);
        const VulkanCode code = {words.at, (size_t)words.count * 4, k->name, 1, k->arg_count, NULL};
        int32_t y = 0;
        const uint64_t at = vulkan_buffer(&device, &y, sizeof y);
        const uint64_t slots[] = {at, (uint64_t)turns[n]};
        const uint32_t grid[] = {1, 1, 1};
        const bool good = vulkan_run(&device, &code, slots, grid);
        if (!vulkan_read(&device, at, &y, sizeof y)) fail_msg("%s", device.error);
        vulkan_free(&device, at);
        if (good)
            assert_int_equal(y, turns[n]);
        else {
            assert_int_equal(n, 0);
            assert_non_null(strstr(device.error, "ended loops of kernel turns early"));
        }
        bench_free(&b);
    }
}

/* From any address on, and no byte more. */
static void zeros_reach_no_further(void **state)
{
    enum { BYTES = 20000 };
    static const uint32_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 1021, 4095, 4096, 4097, 12289, 19990};
    static unsigned char data[BYTES], expected[BYTES];
    (void)state;
    if (!is_open) skip();
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (uint32_t first = 0; first < 6; first++) {
            memset(data, 0xa5, sizeof data);
            memcpy(expected, data, sizeof data);
            memset(expected + first, 0, counts[n]);
            const uint64_t at = vulkan_buffer(&device, data, sizeof data);
            if (!at || !vulkan_zero(&device, at + first, counts[n]) ||
                !vulkan_read(&device, at, data, sizeof data))
                fail_msg("%s", device.error);
            assert_memory_equal(data, expected, sizeof data);
            vulkan_free(&device, at);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) kernels = (uint32_t)strtoul(argv[2], NULL, 10);
    is_open = vulkan_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_on_device),
                                       cmocka_unit_test(random_kernels),
                                       cmocka_unit_test(functions_keep_their_bounds),
                                       cmocka_unit_test(large_grids_are_folded),
                                       cmocka_unit_test(long_loops_are_right_or_told),
                                       cmocka_unit_test(zeros_reach_no_further)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (is_open) vulkan_close(&device);
    return failed;
}
