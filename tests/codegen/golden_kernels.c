#include "golden_kernels.h"

#include <math.h>

const GoldenKernel golden_kernels[] = {
    {"attention", 3, 2e-6f, {70 * 4, 70 * 4, 70 * 4, 70 * 4, 70, 4, 0x3f000000}, false},
    {"bits", 1, 0, {32, 0x123456789abcdef}, false},
    {"block", 3, 0, {96, 4, 8, 80}, true},
    {"halves", 1, 0, {64, 128, 64, 80, 1, 13}, false},
    {"loops", 1, 0, {64, 8, 3}, false},
    {"words", 1, 0, {8, 8, 5, 0x40000000}, false},
};
const size_t golden_kernel_count = sizeof golden_kernels / sizeof *golden_kernels;

AuKernel *golden_kernel(Bench *b, const char *folder, const GoldenKernel *g)
{
    AuText text = {.arena = b->arena};
    file_read(au_format(b->arena, "%s/%s.kir", folder, g->name), &text);
    return bench_kernel(b, au_text_str(&text));
}

static AuKBuffer *buffers_of(Bench *b, const AuKernel *k, const GoldenKernel *g)
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

AuKRun golden_run(Bench *b, AuKernel *k, const GoldenKernel *g)
{
    const char *why;
    AuKRun run = {.slots = g->counts, .buffers = buffers_of(b, k, g), .grid = {g->blocks, 1, 1}};
    if (!kernel_run(k, &run, b->arena, &why)) fail_msg("%s: interpreter: %s", g->name, why);
    return run;
}

AuKRun golden_run_again(Bench *b, const AuKernel *k, const GoldenKernel *g, const AuKRun *run)
{
    AuKRun again = *run;
    again.buffers = buffers_of(b, k, g);
    return again;
}

void golden_compare(const AuKernel *k, const GoldenKernel *g, const AuKRun *want,
                    const AuKRun *have, const char *device)
{
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        for (uint64_t e = 0; a->kind == AU_ARG_POINTER && e < g->counts[n]; e++)
            if (!test_same(want->buffers[n].data, have->buffers[n].data, k->mems[a->mem.i].scalar,
                           e, 0, g->within > 0 ? g->within : -1))
                fail_msg("%s: %s: element %u of %s differs", device, g->name, (unsigned)e, a->name);
    }
}
