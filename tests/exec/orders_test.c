/* orders_test.c - kernels of few queries, the lists of work before them and the joins behind them, in many orders of blocks and threads on the
 * interpreters of both IRs: the same bits in each (exec_orders.c), near the oracle. Sequences have lengths of their own, none too.
 *
 *     orders_test SCRIPTS [RUNG|slow]     all, or that: "kernel-ir:sm_80"; slow: 50 orders everywhere, else 50 of the first cases and rungs */
#include "exec.h"

#include <stdio.h>
#include <string.h>

enum { ORDERS = 50, SOME_ORDERS = 4 };

/* ORDER rungs */
enum {
    TILED = 1 << 0,
    SM_80 = 1 << 1,
    GENERIC = 1 << 2, /* no matrices */
    SM_90 = 1 << 3,   /* kernels begin beside those before */
    SM_90A = 1 << 4,
    TILED_90A = 1 << 5,
    PROCESSOR = 1 << 6,
    OFTEN = TILED | SM_80 | GENERIC /* in all orders whatever is asked for */
};

typedef struct Ordered {
    ExecCase of;
    unsigned rungs;
    const char *dtype;
} Ordered;

// clang-format off
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LATENT "../../exec/scripts/latent.attn"
static const char *const rungs[] = {"tiled-ir:sm_80", "kernel-ir:sm_80", "kernel-ir:generic", "kernel-ir:sm_90", "kernel-ir:sm_90a", "tiled-ir:sm_90a", "kernel-ir:x86-64-v3"};
static const Ordered cases[] = {
    {{"mha.attn", "B=2 H=4 Hk=2 S=3 T=150 D=32 E=32 slots=16", NULL, "decode forward paged"}, OFTEN | SM_90, "bf16"},
    {{"gemma_local.attn", "B=1 H=6 Hk=2 S=2 T=300 D=32 E=32 slots=7", "window=100", "decode forward paged"}, TILED | SM_80 | SM_90, "f16"},
    {{"mha.attn", "B=1 H=3 Hk=1 S=2 T=270 D=32 E=32", NULL, "decode forward padded"}, OFTEN, "f32"},
    {{"mha.attn", "B=3 H=4 Hk=2 S=3 T=40 D=32 E=32 slots=16", NULL, "decode packed most forward paged unequal"}, TILED | SM_80 | SM_90, "f16"},
    {{"mha.attn", "B=4 H=2 Hk=2 S=1 T=300 D=32 E=32 slots=7", NULL, "decode forward paged balanced"}, TILED | SM_80 | SM_90, "bf16"},
    {{"mha.attn", "B=3 H=4 Hk=1 S=2 T=150 D=32 E=32 slots=13", NULL, "decode packed most forward paged balanced"}, TILED | SM_80 | SM_90, "f16"},
    {{"mha.attn", "B=3 H=4 Hk=2 S=1 T=200 D=32 E=32 slots=4 shared=128", NULL, "decode forward paged groups shares"}, TILED | SM_80 | SM_90, "bf16"},
    {{"mha.attn", "B=3 H=2 Hk=1 S=20 T=40 D=32 E=32 slots=16", NULL, "mixed packed most forward paged unequal"}, TILED | SM_80 | SM_90, "f16"},
    {{"../../exec/scripts/parts.attn", "B=1 H=2 Hk=1 S=3 T=70 D=16 E=32 parts=3", NULL, "parts forward"}, OFTEN | SM_90, "bf16"},
    /* both of lanes: warps without matrices, and processors, whose blocks are threads of their own */
    {{"mha.attn", "B=3 H=2 Hk=1 S=20 T=40 D=32 E=32 slots=16", NULL, "mixed packed most forward paged unequal"}, GENERIC | PROCESSOR, "f32"},
    {{"mha.attn", "B=2 H=4 Hk=2 S=3 T=150 D=32 E=32 slots=16", NULL, "decode forward paged"}, PROCESSOR, "f32"},
};
/* Values that no warp holds, whose kernels take longer: by warps (warps_wide), and from sm_90a on by groups of warps (group_wide). */
static const Ordered wide_cases[] = {
    {{LATENT, "B=1 H=3 S=3 T=530 D=400 slots=16", NULL, "decode forward paged"}, TILED | SM_80 | SM_90, "bf16"},
    {{"mha.attn", "B=9 H=1 Hk=1 S=35 T=290 D=16 E=384 slots=32", NULL, "some forward latent paged balanced"}, SM_80, "f16"},
    {{"mha.attn", "B=1 H=2 Hk=2 S=35 T=590 D=16 E=384", NULL, "some forward latent"}, SM_90A | TILED_90A, "bf16"},
};
/* Gradients of queries by atomic sums, which are in the order of blocks. */
static const ExecCase any_order = {"mha.attn", "B=1 H=1 Hk=1 S=40 T=700 D=32 E=32", NULL, NULL};
// clang-format on

/* Are other bits in another order found? */
static bool is_found(const char *scripts)
{
    ExecSuite *suite = exec_open("kernel-ir:sm_80", scripts);
    if (!suite) return false;
    exec_be_ordered(suite, ORDERS);
    exec_be_quiet(suite);
    const bool found = !exec_run(suite, &any_order, "tf32") &&
                       strstr(exec_trouble(suite), "dq: other bits in order ");
    if (!found) fprintf(stderr, "sums in any order pass: %s\n", exec_trouble(suite));
    exec_close(suite);
    return found;
}

/* Of one rung. */
static bool run_all(ExecTally *tally, const char *scripts, unsigned rung, const Ordered *of,
                    unsigned count, unsigned orders)
{
    ExecSuite *suite = exec_open(rungs[rung], scripts);
    if (!suite) return false;
    exec_be_ordered(suite, orders);
    for (unsigned n = 0; n < count; n++) {
        if (!(of[n].rungs >> rung & 1) || !exec_is_in_part(tally)) continue;
        *(exec_run(suite, &of[n].of, of[n].dtype) ? &tally->passed : &tally->failed) += 1;
    }
    exec_close(suite);
    return true;
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 2) return 2;
    const bool slow = argc > 2 && strcmp(argv[2], "slow") == 0;
    for (unsigned rung = 0; rung < COUNT(rungs); rung++) {
        if (argc > 2 && !slow && strcmp(argv[2], rungs[rung]) != 0) continue;
        const bool often = slow || OFTEN >> rung & 1;
        if (!run_all(&tally, argv[1], rung, cases, COUNT(cases), often ? ORDERS : SOME_ORDERS) ||
            !run_all(&tally, argv[1], rung, wide_cases, COUNT(wide_cases),
                     slow ? ORDERS : SOME_ORDERS))
            return 1;
    }
    if (argc == 2 || slow) *(is_found(argv[1]) ? &tally.passed : &tally.failed) += 1;
    return exec_report(&tally);
}
