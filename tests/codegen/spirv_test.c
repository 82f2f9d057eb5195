/* The golden kernels as SPIR-V: their modules' text, which can be read when the emitter changes. With the name of a
 * folder as argument the modules of these and of random kernels are written there, for the validator (spirv_rules.py); two numbers behind it: how many random
 * ones, in each flavour, from which seed on. */
#include <stdlib.h>

#include "emit.h"
#include "random_kernel.h"
#include "target.h"

static const char *const kernels[] = {"attention", "bits", "block", "halves", "loops", "words"};
static const char *folder;
enum { KERNELS = sizeof kernels / sizeof *kernels, RANDOM = 60, FEW = 4, SUBGROUP = 32 };
static uint32_t random_count = RANDOM, few_count = FEW, first_seed = 1;

/* Of flavour Kernel, from a kernel of its own: functions of values become arithmetic, in each flavour others. */
static SpvWords for_opencl(Bench *b, AuKernel *k)
{
    SpvWords words = {0};
    if (spirv_kernels(b->arena, b->diags, &spirv_kernel, &k, 1, &words)) return words;
    AuText shown = {.arena = b->arena};
    au_diags_render(b->diags, &shown);
    fail_msg("%s", au_text_str(&shown));
    return words;
}

static const AuArch *arch(const AuTarget *t, const char *name)
{
    uint32_t n = 0;
    while (strcmp(t->archs[n].name, name) != 0) n++;
    return &t->archs[n];
}

static AuBlob emitted_by(Bench *b, AuKernel *k, AuCodeStage stage, const AuTarget *t,
                         const char *name)
{
    AuBlob blob = {0};
    if (t->emit(b->arena, b->diags, &k, 1, arch(t, name), stage, 2, &blob)) return blob;
    AuText shown = {.arena = b->arena};
    au_diags_render(b->diags, &shown);
    fail_msg("%s", au_text_str(&shown));
    return blob;
}

static AuBlob emitted_for(Bench *b, AuKernel *k, AuCodeStage stage, const char *name)
{
    return emitted_by(b, k, stage, &au_target_vulkan, name);
}

static AuBlob emitted(Bench *b, AuKernel *k, AuCodeStage stage)
{
    return emitted_for(b, k, stage, "vulkan12");
}

static const char *kernel_text(Bench *b, const char *name)
{
    AuText text = {.arena = b->arena};
    file_read(au_format(b->arena, "%s/%s.kir", getenv("AU_KERNELS"), name), &text);
    return au_text_str(&text);
}

static void write_module(Bench *b, const char *name, AuBlob module)
{
    if (!folder) return;
    FILE *file = fopen(au_format(b->arena, "%s/%s.spv", folder, name), "wb");
    if (!file || fwrite(module.bytes, 1, module.length, file) != module.length || fclose(file))
        fail_msg("%s.spv cannot be written", name);
}

static void write_kernel(Bench *b, const char *name, AuKernel *k)
{
    const SpvWords words = for_opencl(b, k);
    write_module(b, au_format(b->arena, "%s-kernel", name),
                 (AuBlob){words.at, (size_t)words.count * sizeof *words.at});
}

static void golden_texts(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, kernel_text(&b, "block"));
    golden_expect(&b, "block.txt", emitted(&b, k, AU_CODE_ASSEMBLY).bytes);
    const SpvWords words = for_opencl(&b, bench_kernel(&b, kernel_text(&b, "block")));
    AuText text = {.arena = b.arena};
    spirv_print(words.at, words.count, &text);
    golden_expect(&b, "block-kernel.txt", au_text_str(&text));
    bench_free(&b);
}

/* Matrices that a work-group holds: their scope, places by LocalInvocationIndex, numbers of rows by reductions to other widths. */
static void tile_of_a_work_group(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    file_read(au_format(b.arena, "%s/tile.kir", getenv("AU_GOLDEN")), &text);
    AuKernel *k = bench_kernel(&b, au_text_str(&text));
    golden_expect(&b, "tile.txt",
                  emitted_for(&b, k, AU_CODE_ASSEMBLY, "vulkan13-coop16-nv2-blocks").bytes);
    bench_free(&b);
}

/* Modules in the runtime are what the emitter makes of these kernels. AU_UPDATE=1 writes them. */
static void expect_embedded(const char *name, const char *of, const uint32_t *embedded,
                            size_t bytes)
{
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    file_read(au_format(b.arena, "%s/%s.kir", getenv("AU_GOLDEN"), name), &text);
    const AuBlob module = emitted_for(&b, bench_kernel(&b, au_text_str(&text)), AU_CODE_FINAL, of);
    const uint32_t *words = module.bytes;
    if (getenv("AU_UPDATE")) {
        AuText made = {.arena = b.arena};
        for (size_t n = 0; n < module.length / 4; n++)
            au_text_add(&made, "0x%08x,%s", words[n],
                        n % 12 == 11 || n + 1 == module.length / 4 ? "\n" : " ");
        golden_expect(&b, au_format(b.arena, "../../../runtime/backends/vulkan_%s.def", name),
                      au_text_str(&made));
    } else {
        assert_int_equal(module.length, bytes);
        assert_memory_equal(words, embedded, bytes);
    }
    bench_free(&b);
}

static void the_runtimes_modules_are_these(void **state)
{
    static const uint32_t probe[] = {
#include "../../runtime/backends/vulkan_probe.def"
    };
    static const uint32_t clear[] = {
#include "../../runtime/backends/vulkan_clear.def"
    };
    static const uint32_t positions16[] = {
#include "../../runtime/backends/vulkan_positions16.def"
    };
    static const uint32_t positions8[] = {
#include "../../runtime/backends/vulkan_positions8.def"
    };
    (void)state;
    expect_embedded("probe", "vulkan12", probe, sizeof probe);
    expect_embedded("clear", "vulkan12", clear, sizeof clear);
    expect_embedded("positions16", "vulkan12-coop16-at", positions16, sizeof positions16);
    expect_embedded("positions8", "vulkan12-coop8-at", positions8, sizeof positions8);
}

/* Every instruction has a form, and the words that forms say are all there are. */
static void texts_are_complete(void **state)
{
    (void)state;
    for (size_t n = 0; n < KERNELS; n++) {
        Bench b = bench_new();
        const AuBlob text =
            emitted(&b, bench_kernel(&b, kernel_text(&b, kernels[n])), AU_CODE_ASSEMBLY);
        uint32_t lines = 0, instructions = 0;
        for (const char *c = text.bytes; *c; c++) lines += *c == '\n';
        const AuBlob module =
            emitted(&b, bench_kernel(&b, kernel_text(&b, kernels[n])), AU_CODE_FINAL);
        const uint32_t *words = module.bytes;
        const size_t count = module.length / 4;
        assert_int_equal(words[0], SPV_MAGIC);
        size_t at = SPV_HEADER;
        for (; at < count; at += words[at] >> 16) {
            assert_int_not_equal(words[at] >> 16, 0);
            instructions++;
        }
        assert_int_equal(at, count);
        assert_int_equal(lines, instructions + 1);
        for (const char *c = strstr(text.bytes, "Op"); c; c = strstr(c + 1, "Op"))
            if (c[2] >= '0' && c[2] <= '9') fail_msg("%s: no form: %.10s", kernels[n], c);
        write_module(&b, kernels[n], module);
        write_kernel(&b, kernels[n], bench_kernel(&b, kernel_text(&b, kernels[n])));
        bench_free(&b);
    }
}

/* Kernels of a subgroup, whose lanes exchange numbers, in each flavour that has that. */
static void random_modules_of_subgroups(void **state)
{
    (void)state;
    static const struct {
        const AuTarget *target;
        const char *arch;
    } of[] = {{&au_target_vulkan, "vulkan12-lanes32"},
              {&au_target_vulkan, "vulkan12-coop16-at"},
              {&au_target_vulkan, "vulkan13-coop16-nv2"},
              {&au_target_opencl_modules, "spirv-lanes32"}};
    for (uint32_t n = 0; n < few_count; n++)
        for (size_t f = 0; f < sizeof of / sizeof *of; f++) {
            Bench b = bench_new();
            AuKernel *k = random_kernel(&b, first_seed + n, SUBGROUP, true);
            assert_true(kernel_verify(k, b.diags));
            write_module(&b, au_format(b.arena, "random%u-%s", first_seed + n, of[f].arch),
                         emitted_by(&b, k, AU_CODE_FINAL, of[f].target, of[f].arch));
            bench_free(&b);
        }
}

static void random_modules(void **state)
{
    (void)state;
    for (uint32_t seed = first_seed; seed < first_seed + random_count; seed++) {
        Bench b = bench_new();
        AuKernel *k = random_kernel(&b, seed, RANDOM_LANES, true);
        assert_true(kernel_verify(k, b.diags));
        write_module(&b, au_format(b.arena, "random%u", seed), emitted(&b, k, AU_CODE_FINAL));
        write_kernel(&b, au_format(b.arena, "random%u", seed),
                     random_kernel(&b, seed, RANDOM_LANES, true));
        bench_free(&b);
    }
}

static const char mathematics[] =
    "kernel mathematics lanes 8 warps 1\nmemory @x: global f32 reads\nmemory @y: global f32 "
    "writes\n"
    "arg x: pointer @x\narg y: pointer @y\n{\n  %1 = lane.i32\n  %2 = load.f32 @x[%1]\n"
    "  %3 = exp.f32 %2\n  %4 = fma.f32 %3, %2, 1.0\n  store @y[%1], %4\n}\n";

/* Sums of expanded functions are of the kind that rounds once; the kernel's own is the device's. */
static void functions_round_once(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text = emitted(&b, bench_kernel(&b, mathematics), AU_CODE_ASSEMBLY).bytes;
    uint32_t calls = 0;
    for (const char *c = text; (c = strstr(c, "OpFunctionCall")); c++) calls++;
    assert_true(calls >= 5);
    assert_non_null(strstr(text, "OpSpecConstantFalse"));
    assert_non_null(strstr(text, "fma_rounds_once"));
    write_module(&b, "mathematics", emitted(&b, bench_kernel(&b, mathematics), AU_CODE_FINAL));
    write_kernel(&b, "mathematics", bench_kernel(&b, mathematics));
    bench_free(&b);
}

/* Memory Semantics of the barrier in a module: AcquireRelease, MakeAvailable, MakeVisible (SequentiallyConsistent for OpenCL), memory of the
 * block, and that of tensors where the kernel reads what it writes. */
static void barriers_order_what_is_shared(void **state)
{
    (void)state;
    static const char *const uses[] = {"writes", "reads writes"};
    static const uint32_t expected[2][2] = {{0x6108, 0x6148}, {0x110, 0x310}};
    const AuTarget *const targets[] = {&au_target_vulkan, &au_target_levelzero};
    for (uint32_t n = 0; n < 4; n++) {
        Bench b = bench_new();
        const char *text = au_format(
            b.arena,
            "kernel meets lanes 8 warps 1\nmemory @s: shared f32[8]\nmemory @y: global f32 %s\n"
            "arg y: pointer @y\n{\n  %%1 = lane.i32\n  store @s[%%1], 1.0\n  barrier #0\n"
            "  %%2 = sub.i32 7, %%1\n  %%3 = load.f32 @s[%%2]\n  store @y[%%1], %%3\n}\n",
            uses[n % 2]);
        AuKernel *k = bench_kernel(&b, text);
        const AuTarget *t = targets[n / 2];
        AuBlob blob;
        assert_true(t->emit(b.arena, b.diags, &k, 1, &t->archs[0], AU_CODE_ASSEMBLY, 2, &blob));
        const char *barrier = strstr(blob.bytes, "OpControlBarrier ");
        assert_non_null(barrier);
        char *id = au_strndup(b.arena, barrier, strcspn(barrier, "\n"));
        const char *constant =
            strstr(blob.bytes, au_format(b.arena, "%s = OpConstant ", strrchr(id, '%')));
        assert_non_null(constant);
        constant = strrchr(au_strndup(b.arena, constant, strcspn(constant, "\n")), ' ');
        assert_int_equal(strtoul(constant, NULL, 0), expected[n / 2][n % 2]);
        bench_free(&b);
    }
}

static void refused_by(const char *name, const char *text, const char *operation)
{
    Bench b = bench_new();
    AuKernel *k = bench_kernel(&b, text);
    AuBlob blob;
    const AuTarget *t = &au_target_vulkan;
    assert_false(t->emit(b.arena, b.diags, &k, 1, arch(t, name), AU_CODE_FINAL, 2, &blob));
    assert_int_equal(b.diags->first->code, AU_E0620);
    assert_non_null(strstr(b.diags->first->message, operation));
    assert_non_null(strstr(b.diags->first->message, "SPIR-V for Vulkan"));
    bench_free(&b);
}

static void refused(const char *text, const char *operation)
{
    refused_by(au_target_vulkan.archs[0].name, text, operation);
}

static void what_it_lacks_is_refused(void **state)
{
    (void)state;
    refused("kernel k lanes 8 warps 1\nmemory @y: global i32 writes\narg y: pointer @y\n{\n"
            "  %1 = lane.i32\n  %2 = shuffle_xor.i32 %1 #1\n  store @y[%1], %2\n}\n",
            "shuffle_xor");
    refused("kernel k lanes 8 warps 1\nmemory @y: global i32 writes\narg y: pointer @y\n{\n"
            "  %1 = lane.i32\n  %2 = lt.i32 %1, 3\n  %3 = any.i1 %2\n  %4 = cvt.i32 %3\n"
            "  store @y[%1], %4\n}\n",
            "any");
    /* a work-group is no subgroup, whose lanes exchange values */
    refused_by("vulkan13-coop16-nv2-blocks",
               "kernel k lanes 128 warps 1\nmemory @y: global i32 writes\narg y: pointer @y\n{\n"
               "  %1 = lane.i32\n  %2 = shuffle_xor.i32 %1 #1\n  store @y[%1], %2\n}\n",
               "shuffle_xor");
}

int main(int argc, char **argv)
{
    if (argc > 1) folder = argv[1];
    if (argc > 3) {
        random_count = few_count = (uint32_t)strtoul(argv[2], NULL, 10);
        first_seed = (uint32_t)strtoul(argv[3], NULL, 10);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_texts),
                                       cmocka_unit_test(tile_of_a_work_group),
                                       cmocka_unit_test(the_runtimes_modules_are_these),
                                       cmocka_unit_test(texts_are_complete),
                                       cmocka_unit_test(random_modules),
                                       cmocka_unit_test(random_modules_of_subgroups),
                                       cmocka_unit_test(functions_round_once),
                                       cmocka_unit_test(barriers_order_what_is_shared),
                                       cmocka_unit_test(what_it_lacks_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
