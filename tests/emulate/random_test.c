/* random_test.c - random kernels as AMD's machine code, executed by the emulator, against the interpreter, on three machines: what LLVM makes of
 * values of every type, masks, arrays of lanes, regions and exchanges between lanes; hard numbers as bf16; hints. `emulate_random_test [SEED [COUNT]]`; a failure names
 * machine and seed. Lanes read each other by every distance on four. One kernel with a product of matrices each of MFMA and WMMA is compared with the assembly of tests/golden/hip. */
#include <stdlib.h>

#include "data.h"
#include "emulate.h"
#include "random_kernel.h"
#include "target.h"

static uint32_t first_seed = 1, kernels = 16;

static const AuArch *arch_of(const char *name)
{
    for (uint32_t n = 0; n < au_target_hip.arch_count; n++)
        if (strcmp(au_target_hip.archs[n].name, name) == 0) return &au_target_hip.archs[n];
    fail_msg("no architecture %s", name);
    return NULL;
}

static AuBlob code_of(Bench *b, AuKernel **all, uint32_t count, const char *arch, AuCodeStage stage)
{
    AuBlob code = {0};
    AuText shown = {.arena = b->arena};
    if (au_target_hip.emit(b->arena, b->diags, all, count, arch_of(arch), stage, 2, &code))
        return code;
    au_diags_render(b->diags, &shown);
    fail_msg("%s: %s", arch, au_text_str(&shown));
    return code;
}

/* ---- random kernels */

typedef struct Buffers {
    const AuKernel *k;
    const AuKBuffer *at;
} Buffers;

static uint64_t bytes_of(const Buffers *b, uint32_t n)
{
    return b->at[n].count * kernel_scalar_bytes(b->k->mems[b->k->args[n].mem.i].scalar);
}

static bool inside(void *context, uint64_t address, size_t bytes)
{
    const Buffers *b = context;
    for (uint32_t n = 0; n < b->k->arg_count; n++) {
        const uint64_t first = (uintptr_t)b->at[n].data;
        if (address >= first && address + bytes <= first + bytes_of(b, n)) return true;
    }
    return false;
}

static void compare(Bench *b, Emulator *e, AuKernel *k, uint32_t seed, const char *arch)
{
    const char *why;
    AuKRun run = {.buffers = random_buffers(b, k, seed),
                  .grid = {RANDOM_BLOCKS, 1, 1},
                  .check_all_written = true};
    if (!kernel_run(k, &run, b->arena, &why)) fail_msg("seed %u: interpreter: %s", seed, why);
    Buffers made = {k, random_buffers(b, k, seed)};
    uint64_t *slots = AU_NEW_ARRAY(b->arena, uint64_t, k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++) slots[n] = (uintptr_t)made.at[n].data;
    const EmuLaunch launch = {.kernel = k->name,
                              .grid = {RANDOM_BLOCKS, 1, 1},
                              .block = {k->lanes, 1, 1},
                              .arguments = slots,
                              .seed = seed,
                              .inside = inside,
                              .context = &made};
    if (!emu_run(e, &launch)) fail_msg("%s, seed %u: %s", arch, seed, emu_error(e));
    for (uint32_t n = 0; n < k->arg_count; n++)
        for (uint64_t i = 0; i < run.buffers[n].count; i++)
            if (!test_same(run.buffers[n].data, made.at[n].data, k->mems[k->args[n].mem.i].scalar,
                           i, 0, 0)) /* -0 may be 0: hip_halves.c */
                fail_msg("%s, seed %u: element %u of argument %u differs", arch, seed, (unsigned)i,
                         n);
}

static void on_machine(const char *arch, uint32_t lanes)
{
    Bench b = bench_new();
    char why[256] = "";
    AuKernel **all = AU_NEW_ARRAY(b.arena, AuKernel *, kernels);
    for (uint32_t n = 0; n < kernels; n++) {
        all[n] = random_kernel(&b, first_seed + n, lanes, true);
        all[n]->name = au_format(b.arena, "random%u", first_seed + n);
        if (!kernel_verify(all[n], b.diags))
            fail_msg("seed %u: %s", first_seed + n, b.diags->first->message);
    }
    const AuBlob code = code_of(&b, all, kernels, arch, AU_CODE_FINAL);
    Emulator *e = emu_new(code.bytes, why, sizeof why);
    if (!e) fail_msg("%s: %s", arch, why);
    for (uint32_t n = 0; n < kernels; n++) compare(&b, e, all[n], first_seed + n, arch);
    emu_free(e);
    bench_free(&b);
}

static void test_gfx908(void **state) { (void)state, on_machine("gfx908", 64); }
static void test_gfx942(void **state) { (void)state, on_machine("gfx942", 64); }
static void test_gfx1100(void **state) { (void)state, on_machine("gfx1100", 32); }

/* ---- exchange by every distance; what two lanes have, by every bit */

typedef struct Exchanged {
    const char *arch;
    uint32_t lanes, rows; /* of results, a number of each lane */
    int32_t *out;
} Exchanged;

/* [body] stores rows of @o; %1 is the lane. */
static void run_exchanges(Bench *b, Exchanged *x, const char *body)
{
    char why[256] = "";
    AuKernel *k = bench_kernel(
        b, au_format(b->arena,
                     "kernel exchange lanes %u warps 1\nmemory @o: global i32 align 16 writes\n"
                     "arg o: pointer @o\n{\n%%1 = lane.i32\n%s}\n",
                     x->lanes, body));
    const AuBlob code = code_of(b, &k, 1, x->arch, AU_CODE_FINAL);
    x->out = AU_NEW_ARRAY(b->arena, int32_t, x->rows * x->lanes);
    const AuKBuffer at = {.data = x->out, .count = x->rows * x->lanes};
    Buffers made = {k, &at};
    const uint64_t slot = (uintptr_t)x->out;
    Emulator *e = emu_new(code.bytes, why, sizeof why);
    if (!e) fail_msg("%s: %s", x->arch, why);
    const EmuLaunch launch = {.kernel = k->name,
                              .grid = {1, 1, 1},
                              .block = {x->lanes, 1, 1},
                              .arguments = &slot,
                              .seed = 1,
                              .inside = inside,
                              .context = &made};
    if (!emu_run(e, &launch)) fail_msg("%s: %s", x->arch, emu_error(e));
    emu_free(e);
}

static void exchanges(const char *arch, uint32_t lanes)
{
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    Exchanged x = {arch, lanes, lanes, NULL};
    for (uint32_t d = 1; d < lanes; d++)
        au_text_add(&text,
                    "%%%u = shuffle_xor.i32 %%1 #%u\n%%%u = add.i32 %%1, %u\n"
                    "store @o[%%%u], %%%u\n",
                    2 * d, d, 2 * d + 1, d * lanes, 2 * d + 1, 2 * d);
    run_exchanges(&b, &x, au_text_str(&text));
    for (uint32_t d = 1; d < lanes; d++)
        for (uint32_t l = 0; l < lanes; l++)
            if (x.out[d * lanes + l] != (int32_t)(l ^ d))
                fail_msg("%s: distance %u: lane %u got lane %d", arch, d, l, x.out[d * lanes + l]);
    bench_free(&b);
}

/* Of two words, the lane's number and that times 100, what both lanes have. */
static void boths(const char *arch, uint32_t lanes)
{
    enum { WORDS = 4 };
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    Exchanged x = {arch, lanes, 0, NULL};
    uint32_t v = 4;
    au_text_add(&text, "%%2 = mul.i32 %%1, 100\n%%3 = vec.i32x2 %%1, %%2\n");
    for (uint32_t bit = 1; bit < lanes; bit *= 2, x.rows += WORDS) {
        const uint32_t all = v++;
        au_text_add(&text, "%%%u = both.i32x4 %%3 #%u\n", all, bit);
        for (uint32_t n = 0; n < WORDS; n++, v += 2)
            au_text_add(&text,
                        "%%%u = element.i32 %%%u #%u\n%%%u = add.i32 %%1, %u\n"
                        "store @o[%%%u], %%%u\n",
                        v, all, n, v + 1, (x.rows + n) * lanes, v + 1, v);
    }
    run_exchanges(&b, &x, au_text_str(&text));
    for (uint32_t row = 0; row < x.rows; row++)
        for (uint32_t l = 0; l < lanes; l++) {
            const uint32_t bit = 1u << row / WORDS, from = row % WORDS < 2 ? l & ~bit : l | bit;
            if (x.out[row * lanes + l] != (int32_t)(from * (row % 2 ? 100 : 1)))
                fail_msg("%s: both by %u, word %u: lane %u got %d", arch, bit, row % WORDS, l,
                         x.out[row * lanes + l]);
        }
    bench_free(&b);
}

static void test_exchanges(void **state)
{
    (void)state;
    exchanges("gfx942", 64), exchanges("gfx950", 64);
    exchanges("gfx1100", 32), exchanges("gfx1200", 32);
}

static void test_boths(void **state)
{
    (void)state;
    boths("gfx942", 64), boths("gfx950", 64);
    boths("gfx1100", 32), boths("gfx1200", 32);
}

/* ---- rounding to bf16 by integers: of any number, and of a power of two, which is known not to be negative */

enum { NUMBERS = 64 };
static uint32_t hard_bits(uint32_t n)
{
    static const uint32_t hard[] = {0,          0x80000000, 1,          0x80000001, 0x00008000,
                                    0x00007fff, 0x00018000, 0x3f808000, 0x3f818000, 0x3f808001,
                                    0xbf808000, 0xbf7fffff, 0x7f7fffff, 0xff7fffff, 0x7f7f7fff,
                                    0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fffffff,
                                    0xffffffff, 0x7fff8000, 0xffff8000, 0x7fc08000};
    enum { HARD = sizeof hard / sizeof *hard };
    return n < HARD ? hard[n]
                    : (n * 2654435761u) % 0x83000000u; /* the rest is not too large for powers */
}

static bool is_nan_of(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

static void expect_rounded(const char *arch, uint32_t of, uint16_t got)
{
    const uint32_t nearest = (of + 0x7fff + (of >> 16 & 1)) >> 16;
    if (is_nan_of(of) ? !is_nan_of((uint32_t)got << 16) : got != nearest)
        fail_msg("%s: bf16 of %08x is %04x", arch, of, got);
}

static void roundings(const char *arch, uint32_t lanes)
{
    static uint32_t x[NUMBERS], powers[NUMBERS];
    static uint16_t rounded[NUMBERS], rounded_powers[NUMBERS];
    char why[256] = "";
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b,
        au_format(b.arena,
                  "kernel rounding lanes %u warps 1\nmemory @x: global f32 align 16 reads\n"
                  "memory @o: global f32 align 16 writes\nmemory @p: global bf16 align 16 writes\n"
                  "memory @r: global bf16 align 16 writes\narg x: pointer @x\narg o: pointer @o\n"
                  "arg p: pointer @p\narg r: pointer @r\n{\n%%1 = lane.i32\n"
                  "%%2 = block.i32 #0\n%%3 = mul.i32 %%2, %u\n%%4 = add.i32 %%1, %%3\n"
                  "%%5 = load.f32 @x[%%4]\n%%6 = exp2.f32 %%5\nstore @o[%%4], %%6\n"
                  "%%7 = cvt.bf16 %%6\nstore @p[%%4], %%7\n%%8 = cvt.bf16 %%5\n"
                  "store @r[%%4], %%8\n}\n",
                  lanes, lanes));
    const AuBlob code = code_of(&b, &k, 1, arch, AU_CODE_FINAL);
    const AuKBuffer at[] = {{.data = x, .count = NUMBERS},
                            {.data = powers, .count = NUMBERS},
                            {.data = rounded_powers, .count = NUMBERS},
                            {.data = rounded, .count = NUMBERS}};
    Buffers made = {k, at};
    uint64_t slots[4];
    for (uint32_t n = 0; n < 4; n++) slots[n] = (uintptr_t)at[n].data;
    for (uint32_t n = 0; n < NUMBERS; n++) x[n] = hard_bits(n);
    Emulator *e = emu_new(code.bytes, why, sizeof why);
    if (!e) fail_msg("%s: %s", arch, why);
    const EmuLaunch launch = {.kernel = k->name,
                              .grid = {NUMBERS / lanes, 1, 1},
                              .block = {lanes, 1, 1},
                              .arguments = slots,
                              .seed = 1,
                              .inside = inside,
                              .context = &made};
    if (!emu_run(e, &launch)) fail_msg("%s: %s", arch, emu_error(e));
    for (uint32_t n = 0; n < NUMBERS; n++) {
        expect_rounded(arch, x[n], rounded[n]);
        expect_rounded(arch, powers[n], rounded_powers[n]);
        assert_int_equal(is_nan_of(powers[n]), is_nan_of(x[n]));
    }
    emu_free(e);
    bench_free(&b);
}

static void test_roundings(void **state)
{
    (void)state;
    roundings("gfx908", 64), roundings("gfx942", 64), roundings("gfx950", 64);
    roundings("gfx1100", 32), roundings("gfx1200", 32);
}

/* ---- hints: AMD's spellings; the same numbers */

static void test_hints(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b,
        "kernel hints lanes 64 warps 1\nmemory @o: global i32 align 16 writes\narg o: pointer @o\n"
        "{\nhint #1\n%1 = lane.i32\nhint #2\nstore @o[%1], %1\nhint #0\n}\n");
    const AuBlob text = code_of(&b, &k, 1, "gfx942", AU_CODE_ASSEMBLY);
    const char *all = au_format(b.arena, "%.*s", (int)text.length, (const char *)text.bytes);
    const char *first = strstr(all, "s_setprio 1"), *last = strstr(all, "s_setprio 0"),
               *border = strstr(all, "sched_barrier mask(0x00000000)");
    assert_true(first && border && last && first < border && border < last);
    bench_free(&b);
}

/* ---- golden assembly */

/* o = a b + c, operands as lanes have them: [count] numbers, sums [sums]. */
static void golden(const char *arch, const char *product, uint32_t lanes, uint32_t count,
                   uint32_t sums)
{
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b, au_format(b.arena,
                      "kernel product lanes %u warps 1\nmemory @a: global f16 align 16 reads\n"
                      "memory @b: global f16 align 16 reads\n"
                      "memory @c: global f32 align 16 reads\n"
                      "memory @o: global f32 align 16 writes\narg a: pointer @a\n"
                      "arg b: pointer @b\narg c: pointer @c\narg o: pointer @o\n{\n%%1 = lane.i32\n"
                      "%%2 = mul.i32 %%1, %u\n%%3 = load.f16x%u @a[%%2]\n"
                      "%%4 = load.f16x%u @b[%%2]\n%%7 = mul.i32 %%1, %u\n"
                      "%%5 = load.f32x%u @c[%%7]\n"
                      "%%6 = mma.f32x%u %%5, %%3, %%4 #%s\n"
                      "store @o[%%7], %%6\n}\n",
                      lanes, count, count, count, sums, sums, sums, product));
    const AuBlob text = code_of(&b, &k, 1, arch, AU_CODE_ASSEMBLY);
    golden_expect(&b, au_format(b.arena, "%s-%s.s", product, arch),
                  au_format(b.arena, "%.*s", (int)text.length, (const char *)text.bytes));
    bench_free(&b);
}

static void test_mfma(void **state)
{
    (void)state, golden("gfx942", "mfma_32x32x8_f16", 64, 4, 16);
}
static void test_wmma(void **state) { (void)state, golden("gfx1100", "wmma11_f16", 32, 16, 8); }

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) kernels = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gfx908),  cmocka_unit_test(test_gfx942),
        cmocka_unit_test(test_gfx1100), cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_boths),   cmocka_unit_test(test_mfma),
        cmocka_unit_test(test_wmma),    cmocka_unit_test(test_roundings),
        cmocka_unit_test(test_hints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
