/* matrices_test.c - scripts whose kernels are of cooperative matrices:
 *
 *     matrices_test DEVICE/ARCHITECTURE|RUNG SCRIPTS [backward|wide|one [CASE]] on a device, or that case alone; widths are small, for a compiler that takes long over matrices
 *     matrices_test interpreters SCRIPTS [quick]               results and gradients by matrices_forward and matrices_backward on each rung */
#include "exec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const ExecCase cases[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=70 T=90 D=16 E=16", NULL, "nan odd forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=7 D=16 E=16", NULL, "poison forward"},
    {"documents_bias_sink.attn", "B=1 H=2 S=70 T=70 D=16 E=16", NULL, "sorted forward"},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=16 E=8 P=8", NULL, "forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=16", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=1 S=35 T=70 D=32 E=32", NULL, "nan forward"}, /* rows that are surfaces, on machines that load blocks */
};
#define ALIBI     "../../../attn_scripts/alibi.attn"
#define PAIR_BIAS "../../../attn_scripts/pair_bias.attn"
#define EMPTY     "../../exec/scripts/empty_rows.attn"
#define BY_ONE    "../../../bench/scripts/off_by_one.attn"
/* Backward: several pieces, masks of data, sums into memory of a head's own keys, of a slope, by pairs; rows without a pair; a sum that begins at 1. */
static const ExecCase backward[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=70 T=90 D=32 E=16", NULL, "nan odd dfinals"},
    {"mha.attn", "B=1 H=2 Hk=1 S=41 T=53 D=32 E=32", NULL, "nan odd"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=16", "cap=1.0", NULL},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=16", "cap=4.0", NULL}, /* tiles of the polynomial, and others (passes/tanh.c) */
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=16", "cap=50.0", NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=8 E=8", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=7 D=16 E=16", NULL, "poison"},
    {"documents_bias_sink.attn", "B=1 H=2 S=70 T=70 D=16 E=16", NULL, "sorted dfinals"},
    {"groups.attn", "B=1 H=4 Hk=2 Hv=1 S=40 T=50 D=16 E=16", NULL, "sorted"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=13 T=40 D=16", NULL, "odd"},
    {ALIBI, "B=1 H=3 S=40 T=70 D=16 E=16", NULL, "odd"},
    {PAIR_BIAS, "B=1 H=2 S=37 D=16 E=16", NULL, NULL},
    {EMPTY, "B=2 H=1 S=40 T=37 D=16 E=16", NULL, "unseen"},
    {BY_ONE, "B=1 H=2 Hk=1 S=21 T=53 D=16 E=16", NULL, NULL},
};
/* Values so wide that warps share rows, each with a part of the channels; few queries, whose warps have keys of their own, too. */
static const ExecCase wide[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=35 T=70 D=32 E=192", NULL, "nan dfinals forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=70 D=32 E=256", NULL, "forward"},
};
/* And on interpreters: widths in one piece and in several, one row, few of many; grouped heads and heads of their own, masks of data, changed
 * rows, gradients of inputs by key, by query and by pair, rows without a pair, NaN, small weights, sums in one order. */
static const char *const rungs[] = {"kernel-ir:vulkan8", "kernel-ir:vulkan", "tiled-ir:vulkan8", "passed-ir:vulkan", "tiled-ir:vulkan",
                                    "kernel-ir:vulkan8_at", "kernel-ir:vulkan_at", "tiled-ir:vulkan_at",
                                    "kernel-ir:vulkan_16x8x16", "kernel-ir:vulkan_8x16x16", "kernel-ir:vulkan_8x8x16", "tiled-ir:vulkan_16x8x16"};
static const ExecCase interpreted[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=32 E=48", NULL, "opaque nan odd dfinals"},
    {"mha.attn", "B=2 H=4 Hk=2 S=33 T=71 D=48 E=32", NULL, "opaque dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL, "opaque"},
    {"mha.attn", "B=1 H=1 Hk=1 S=131 T=7 D=16 E=64", NULL, "opaque unseen"},
    {"mha.attn", "B=1 H=2 Hk=1 S=21 T=37 D=16 E=16", NULL, "opaque poison"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=90 T=150 D=32 E=48", "window=20", "opaque"},
    {"mha.attn", "B=2 H=2 Hk=1 S=70 T=70 D=16 E=16", NULL, "opaque repeat"},
    {"documents_bias_sink.attn", "B=1 H=2 S=140 T=140 D=32 E=32", NULL, "opaque sorted dfinals"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=19 T=43 D=16 E=16", "rate=0.25 seed=987654321", "opaque"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=13 T=70 D=32", NULL, "opaque odd"},
    {"sigmoid.attn", "B=1 H=1 S=13 T=41 D=16 E=16", NULL, "opaque"},
    {"relu.attn", "B=1 H=1 S=10 T=70 D=16 E=16", NULL, "opaque"},
    {"retention_decay.attn", "B=1 H=2 S=31 T=31 D=16 E=48", NULL, "opaque dfinals"},
    {ALIBI, "B=1 H=3 S=40 T=70 D=16 E=16", NULL, "opaque odd"},
    {"hidden_units.attn", "B=1 H=2 S=21 T=37 D=16 E=16", NULL, "opaque"},
    {PAIR_BIAS, "B=1 H=2 S=70 D=16 E=16", NULL, "opaque far_all flat dfinals"},
    {"groups.attn", "B=1 H=4 Hk=2 Hv=1 S=70 T=150 D=16 E=32", NULL, "opaque sorted"},
    {EMPTY, "B=2 H=1 S=70 T=37 D=16 E=16", NULL, "opaque unseen"},
    {"../../exec/sums/low.attn", "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-14.0", "opaque scaled"},
    {"../../../attn_scripts/relative_bias.attn", "B=1 H=2 S=52 T=70 D=16 E=16 W=21", NULL, "opaque"},
    /* results: further products, values that are channels of the keys, rows that a function takes whole, sums in several pieces */
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=16 P=48", NULL, "opaque_forward forward"},
    {"../../exec/scripts/matrix_values.attn", "B=1 H=4 Hk=1 S=37 T=70 D=64", NULL, "opaque_forward forward"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=33 T=70 D=64", NULL, "opaque_forward forward odd"},
    {"mha.attn", "B=1 H=4 Hk=2 S=70 T=131 D=48 E=80", NULL, "opaque_forward forward nan odd"},
    {"documents_bias_sink.attn", "B=1 H=2 S=140 T=140 D=32 E=64", NULL, "opaque_forward forward sorted far_head"},
};
// clang-format on
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *as_f16(const void *of, unsigned n, unsigned turn)
{
    (void)of, (void)n;
    return turn ? NULL : "f16";
}

typedef struct Rung {
    unsigned number, of_each; /* cases: each so many-th */
} Rung;

/* Units of 8 lanes have f16 alone. */
static const char *on_rung(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (n + r->number) % r->of_each) return NULL;
    const bool halves = strstr(rungs[r->number], "vulkan8");
    return halves || n / 2 % 2 ? "f16" : "bf16";
}

static int on_interpreters(const char *scripts, bool quick)
{
    enum { SQUARE = 8, FEW = 3 }; /* of matrices that are no squares, a case in three */
    ExecTally tally = {0};
    for (Rung r = {0}; r.number < COUNT(rungs); r.number++) {
        r.of_each = quick ? COUNT(rungs) : r.number < SQUARE ? 1 : FEW;
        if (!exec_all(&tally, rungs[r.number], scripts, interpreted, COUNT(interpreted), on_rung,
                      &r))
            return 1;
    }
    return exec_report(&tally);
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 3) return 2;
    const char *more = argc > 3 ? argv[3] : "";
    if (strcmp(argv[1], "interpreters") == 0)
        return on_interpreters(argv[2], strcmp(more, "quick") == 0);
    const bool gradients = strcmp(more, "backward") == 0, one = strcmp(more, "one") == 0,
               of_wide = strcmp(more, "wide") == 0;
    const ExecCase *all = gradients ? backward : of_wide ? wide : cases;
    size_t count = gradients ? COUNT(backward) : of_wide ? COUNT(wide) : one ? 1 : COUNT(cases);
    const size_t alone = argc > 4 ? (size_t)strtoul(argv[4], NULL, 10) : count;
    if (alone < count) all += alone, count = 1;
    if (!exec_all(&tally, argv[1], argv[2], all, (unsigned)count, as_f16, NULL)) return 77;
    return exec_report(&tally);
}
