/* random_test.c - random kernels as MSL, checked by the linter, compiled with the shim and run by it, against the interpreter bit by bit: which
 * values the printer joins, in which order and integer type, arrays of lanes, masks, exchanges between the lanes of a simdgroup.
 * `metal_random_test [SEED [COUNT]]`; a failure names the seed of its kernel. */
#include <stdlib.h>

#include "data.h"
#include "metal_compile.h"
#include "metal_lint.h"
#include "random_kernel.h"
#include "target.h"

enum { SIMDGROUP = 32, AT_ONCE = 16 /* kernels of one text */ };
static uint32_t first_seed = 1, kernels = 12;

static const char *msl(Bench *b, AuKernel **all, uint32_t count)
{
    AuText shown = {.arena = b->arena};
    AuBlob blob = {0};
    const AuTarget *t = &au_target_metal;
    if (t->emit(b->arena, b->diags, all, count, &t->archs[0], AU_CODE_FINAL, 2, &blob))
        return blob.bytes;
    au_diags_render(b->diags, &shown);
    fail_msg("%s", au_text_str(&shown));
    return NULL;
}

static void run_shim(const MetalText *compiled, const AuKernel *k, const AuKBuffer *buffers,
                     uint32_t seed)
{
    uint64_t slots[16];
    ShimBuffer ranges[16];
    char why[1024] = "";
    assert_in_range(k->arg_count, 1, 16);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        slots[n] = (uintptr_t)buffers[n].data;
        ranges[n] = (ShimBuffer){slots[n], buffers[n].count * kernel_scalar_bytes(m->scalar)};
    }
    const ShimLaunch launch = {.kernel = k->name,
                               .slots = slots,
                               .slot_bytes = 8 * (uint64_t)k->arg_count,
                               .shared_bytes = au_target_metal.dynamic_shared(k),
                               .grid = {RANDOM_BLOCKS, 1, 1},
                               .threads = k->lanes,
                               .buffers = ranges,
                               .buffer_count = k->arg_count};
    if (metal_run(compiled, &launch, why, sizeof why)) fail_msg("seed %u: %s", seed, why);
}

static void compare(Bench *b, const MetalText *compiled, AuKernel *k, uint32_t seed)
{
    const char *why;
    AuKRun run = {.buffers = random_buffers(b, k, seed),
                  .grid = {RANDOM_BLOCKS, 1, 1},
                  .check_all_written = true};
    if (!kernel_run(k, &run, b->arena, &why)) fail_msg("seed %u: interpreter: %s", seed, why);
    AuKBuffer *made = random_buffers(b, k, seed);
    run_shim(compiled, k, made, seed);
    for (uint32_t n = 0; n < k->arg_count; n++)
        for (uint64_t i = 0; i < run.buffers[n].count; i++)
            if (!test_same(run.buffers[n].data, made[n].data, k->mems[k->args[n].mem.i].scalar, i,
                           0, -1))
                fail_msg("seed %u: element %u of argument %u differs", seed, (unsigned)i, n);
}

/* One text of several kernels: most of the time is the compiler's. */
static void some(uint32_t seed, uint32_t count)
{
    Bench b = bench_new();
    const unsigned version = seed / AT_ONCE % 2 ? 300 : 310;
    char why[4096] = "";
    AuKernel *all[AT_ONCE], *printed[AT_ONCE];
    for (uint32_t n = 0; n < count; n++) {
        all[n] = random_kernel(&b, seed + n, SIMDGROUP, true);
        all[n]->name = au_format(b.arena, "random%u", seed + n);
        if (!kernel_verify(all[n], b.diags))
            fail_msg("seed %u: %s", seed + n, b.diags->first->message);
        printed[n] = random_kernel(&b, seed + n, SIMDGROUP, true);
        printed[n]->name = all[n]->name;
        kernel_gather_offsets(printed[n]); /* as the driver does; not what is interpreted */
        if (!kernel_verify(printed[n], b.diags))
            fail_msg("seed %u, gathered: %s", seed + n, b.diags->first->message);
    }
    const char *source = msl(&b, printed, count);
    if (metal_lint(source, version, why, sizeof why))
        fail_msg("seeds from %u: linter: %s", seed, why);
    MetalText *compiled = metal_compile(source, version, why, sizeof why);
    if (!compiled) fail_msg("seeds from %u: %s", seed, why);
    for (uint32_t n = 0; n < count; n++) compare(&b, compiled, all[n], seed + n);
    metal_forget(compiled);
    bench_free(&b);
}

static void random_kernels(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < kernels; n += AT_ONCE)
        some(first_seed + n, kernels - n < AT_ONCE ? kernels - n : AT_ONCE);
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) kernels = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
