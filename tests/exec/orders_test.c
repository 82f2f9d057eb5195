/* orders_test.c - kernels of few queries, the lists of work before them and the joins behind them, in many orders of blocks and threads on the
 * interpreters of both IRs: the same bits in each (exec_orders.c), near the oracle. Sequences have lengths of their own, none too.
 *
 *     orders_test SCRIPTS [RUNG]     all, or that: "kernel-ir:sm_80" */
#include "exec.h"

#include <stdio.h>
#include <string.h>

enum { ORDERS = 50 };

/* On how many of the rungs below a case is, from the first on; those behind have no matrices. */
typedef struct Ordered {
    ExecCase of;
    unsigned rungs;
    const char *dtype;
} Ordered;

// clang-format off
static const char *const rungs[] = {"tiled-ir:sm_80", "kernel-ir:sm_80", "kernel-ir:generic"};
static const Ordered cases[] = {
    {{"mha.attn", "B=2 H=4 Hk=2 S=3 T=150 D=32 E=32 slots=16", NULL, "decode forward paged"}, 3, "bf16"},
    {{"gemma_local.attn", "B=1 H=6 Hk=2 S=2 T=300 D=32 E=32 slots=7", "window=100", "decode forward paged"}, 2, "f16"},
    {{"mha.attn", "B=1 H=3 Hk=1 S=2 T=270 D=32 E=32", NULL, "decode forward padded"}, 3, "f32"},
    {{"mha.attn", "B=3 H=4 Hk=2 S=3 T=40 D=32 E=32 slots=16", NULL, "decode packed most forward paged unequal"}, 2, "f16"},
    {{"mha.attn", "B=4 H=2 Hk=2 S=1 T=300 D=32 E=32 slots=7", NULL, "decode forward paged balanced"}, 2, "bf16"},
    {{"mha.attn", "B=3 H=4 Hk=1 S=2 T=150 D=32 E=32 slots=13", NULL, "decode packed most forward paged balanced"}, 2, "f16"},
    {{"mha.attn", "B=3 H=4 Hk=2 S=1 T=200 D=32 E=32 slots=4 shared=128", NULL, "decode forward paged groups shares"}, 2, "bf16"},
    {{"mha.attn", "B=3 H=2 Hk=1 S=20 T=40 D=32 E=32 slots=16", NULL, "mixed packed most forward paged unequal"}, 2, "f16"},
    {{"../../exec/scripts/parts.attn", "B=1 H=2 Hk=1 S=3 T=70 D=16 E=32 parts=3", NULL, "parts forward"}, 3, "bf16"},
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

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 2) return 2;
    for (unsigned rung = 0; rung < sizeof rungs / sizeof *rungs; rung++) {
        if (argc > 2 && strcmp(argv[2], rungs[rung]) != 0) continue;
        ExecSuite *suite = exec_open(rungs[rung], argv[1]);
        if (!suite) return 1;
        exec_be_ordered(suite, ORDERS);
        for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
            if (rung >= cases[n].rungs || !exec_is_in_part(&tally)) continue;
            *(exec_run(suite, &cases[n].of, cases[n].dtype) ? &tally.passed : &tally.failed) += 1;
        }
        exec_close(suite);
    }
    if (argc == 2) *(is_found(argv[1]) ? &tally.passed : &tally.failed) += 1;
    return exec_report(&tally);
}
