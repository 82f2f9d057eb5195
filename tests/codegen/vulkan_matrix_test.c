/* Kernels whose lanes are a subgroup, and cooperative matrices: the tiled example of KHR's matrices, lowered, as SPIR-V, on the first Vulkan device
 * against the interpreter of the kernel IR. Skipped where the device cannot promise subgroups of 8 lanes and 8x8x8 matrices (Mesa's device
 * for processors from 26.1 on has them, tests/tools/vulkan-device.sh). With the name of a folder as argument the modules are written
 * there, for the validator. */
#include <string.h>

#include "data.h"
#include "emit.h"
#include "lowered.h"
#include "vulkan_device.h"

static VulkanDevice device;
static bool is_open;
static const char *folder;

/* The example is for subgroups of 32 lanes and matrices of 16; here a row lies in two lanes, too. */
static const char *text_of_8(AuArena *arena, const char *text)
{
    static const char *const words[][2] = {
        {"target vulkan", "target vulkan8"},
        {"M = 64, N = 32, D = 64, E = 64", "M = 32, N = 16, D = 24, E = 16"},
        {"rows(lane:16@1) cols(reg:16 lane:2@16)", "rows(reg:2 lane:4@1) cols(reg:8 lane:2@4)"},
        {"self * 8 +: 8", "self * 4 +: 4"},
        {"self * 16", "self * 8"},
        {"+: 16", "+: 8"},
        {"q:16", "q:8"},
        {"coop16", "coop8"},
    };
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        text = replaced(arena, text, words[n][0], words[n][1]);
    return text;
}

typedef struct Trial {
    const char *name, *features;
    bool runs;
} Trial;

static SpvWords module_of(Session *s, const AuKernel *k)
{
    SpvWords words = {0};
    AuText text = {.arena = s->arena};
    kernel_print(k, &text); /* the emitter changes what it gets */
    const uint32_t source = au_source_add(s->diags, "kernel", au_text_str(&text), text.length);
    AuKernel *own = kernel_read(s->arena, au_names_new(s->arena), s->diags, source);
    if (!own || !spirv_kernels(s->arena, s->diags, &spirv_shader_subgroups, &own, 1, &words))
        fail_msg("%s", session_errors(s));
    return words;
}

static void write_module(Session *s, const Trial *t, const AuKernel *k, SpvWords words)
{
    if (!folder) return;
    FILE *file = fopen(au_format(s->arena, "%s/%s-%s.spv", folder, t->name, k->name), "wb");
    if (!file || fwrite(words.at, 4, words.count, file) != words.count || fclose(file))
        fail_msg("a module cannot be written to %s", folder);
}

/* Sums of matrices may be in any order, and weights are rounded to f16 between two products. */
static void compare(const AuKernel *k, const AuMemory *m, const void *want, const void *have,
                    uint64_t count)
{
    const float within = m->scalar == AU_F16 ? 0x1p-9f : 0x1p-12f;
    for (uint64_t n = 0; n < count; n++)
        if (!test_same(want, have, m->scalar, n, 0, within))
            fail_msg("%s: element %u of %s is %g, expected %g", k->name, (unsigned)n, m->name,
                     (double)test_float(have, m->scalar, n),
                     (double)test_float(want, m->scalar, n));
}

static void on_device(Session *s, const Trial *t, const AuKernel *k, const AuKRun *run)
{
    const SpvWords words = module_of(s, k);
    const VulkanCode code = {.module = words.at,
                             .bytes = (size_t)words.count * 4,
                             .entry = k->name,
                             .threads = k->lanes * k->warps,
                             .slots = k->arg_count,
                             .features = t->features};
    uint64_t *slots = AU_NEW_ARRAY(s->arena, uint64_t, k->arg_count + 1);
    void **before = AU_NEW_ARRAY(s->arena, void *, k->arg_count + 1);
    uint64_t *bytes = AU_NEW_ARRAY(s->arena, uint64_t, k->arg_count + 1);
    const char *why;
    write_module(s, t, k, words);
    if (!t->runs) return;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        slots[n] = run->slots[n];
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        bytes[n] = run->buffers[n].count * kernel_scalar_bytes(k->mems[k->args[n].mem.i].scalar);
        before[n] = au_alloc(s->arena, bytes[n]);
        memcpy(before[n], run->buffers[n].data, bytes[n]);
        slots[n] = vulkan_buffer(&device, before[n], bytes[n]);
        if (!slots[n]) fail_msg("%s", device.error);
    }
    if (!kernel_run(k, run, s->arena, &why)) fail_msg("%s: interpreter: %s", k->name, why);
    if (!vulkan_run(&device, &code, slots, run->grid)) fail_msg("%s: %s", k->name, device.error);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        if (!vulkan_read(&device, slots[n], before[n], bytes[n])) fail_msg("%s", device.error);
        if (m->writes) compare(k, m, run->buffers[n].data, before[n], run->buffers[n].count);
        vulkan_free(&device, slots[n]);
    }
}

typedef struct Visit {
    Session *s;
    const Trial *t;
} Visit;

static void visit(const AuKernel *k, const AuKRun *run, void *user)
{
    const Visit *v = user;
    on_device(v->s, v->t, k, run);
}

static void forward(const Trial *t, bool of_8, int32_t heads, int32_t rows, int32_t keys)
{
    static const char file[] = "coopmat_forward.tile";
    const Size sizes[] = {{"B", 1}, {"H", heads}, {"Hk", 1}, {"S", rows}, {"T", keys}, {NULL, 0}};
    Session s = session_begin();
    const char *text = example_text(s.arena, file);
    const Lowered lowered = {.file = file,
                             .text = of_8 ? text_of_8(s.arena, text) : text,
                             .hooks = {"common.hooks", "causal_softmax.hooks"},
                             .sizes = sizes};
    Visit v = {&s, t};
    lowered_visit(&s, &lowered, visit, &v);
    session_end(&s);
}

static void matrices_of_8(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16";
    const bool runs = is_open && vulkan_has(&device, needs);
    forward(&(Trial){"coop8", needs, runs}, true, 2, 70, 101);
    if (runs) {
        forward(&(Trial){"coop8", needs, runs}, true, 1, 1, 1);
        forward(&(Trial){"coop8", needs, runs}, true, 1, 33, 7);
    } else {
        print_message("no Vulkan device with %s: %s\n", needs, device.error);
        skip();
    }
}

/* As devices have them; here they are emitted, for the validator. */
static void matrices_of_16(void **state)
{
    (void)state;
    forward(&(Trial){"coop16", "lanes32 coopmat16x16x16_f16", false}, false, 1, 70, 37);
}

int main(int argc, char **argv)
{
    if (argc > 1) folder = argv[1];
    is_open = vulkan_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_of_8),
                                       cmocka_unit_test(matrices_of_16)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (is_open) vulkan_close(&device);
    return failed;
}
