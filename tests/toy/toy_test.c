/* toy_test.c - whole scripts on machines that nobody makes (toy.def) against the oracle, on the interpreters of both IRs: a matrix
 * instruction that is a row of a table, and a schedule that is a file (toy_forward.c) and a row. toy_test SCRIPTS */
#include "../exec/exec.h"

#include <stdio.h>

// clang-format off
static const char *const rungs[] = {"tiled-ir:", "passed-ir:", "kernel-ir:"};
/* By toy_forward. */
static const ExecCase alone[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=32", NULL, "forward nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL, "forward"},
    {"softmax_spelled_out.attn", "B=1 H=1 Hk=1 S=37 T=29 D=32 E=48", NULL, "forward big"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=60 T=91 D=16 E=24", "window=20", "forward nan"},
    {"documents_bias_sink.attn", "B=2 H=1 S=90 T=90 D=16 E=16", NULL, "forward sorted"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=20 T=33 D=32", NULL, "forward"},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=32 P=32", NULL, "forward heads_inside"},
    {"retention_decay.attn", "B=1 H=1 S=31 T=31 D=16 E=32", NULL, "forward"},
    {"../../exec/scripts/unseen.attn", "B=1 H=2 Hk=1 S=70 T=130 D=32 E=32 P=16", NULL, "forward unseen"},
};
/* By the schedules of the compiler. */
static const ExecCase shared[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "nan odd dfinals"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=50 T=70 D=32 E=64", "window=20", NULL},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=32 P=32", NULL, NULL},
};
// clang-format on

/* A type a case, the other on the next rung. */
static const char *in_turn(const void *rung, unsigned n, unsigned turn)
{
    const bool first = (n + (unsigned)((const char *const *)rung - rungs)) % 2 == 0;
    return turn ? NULL : first ? "f16" : "bf16";
}

static void run_all(ExecTally *tally, const char *machine, const char *scripts,
                    const ExecCase *cases, unsigned count)
{
    for (unsigned r = 0; r < sizeof rungs / sizeof *rungs; r++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", rungs[r], machine);
        exec_all(tally, name, scripts, cases, count, in_turn, &rungs[r]);
    }
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 2) return 2;
    run_all(&tally, "toy16", argv[1], alone, sizeof alone / sizeof *alone);
    run_all(&tally, "toy64", argv[1], shared, sizeof shared / sizeof *shared);
    return exec_report(&tally) || tally.passed != 36;
}
