/* sums_test.c - how exact are long sums? Many keys, many queries a key, scores that spread far or all lie low, and gradients of
 * few numbers that all pairs add to, by seeds that no kernel was made for. The rule of exec.h holds for each, beside a plain formula
 * whose long sums are exact: who adds 2000 terms one after the other fails.
 *
 *     sums_test DEVICE SCRIPTS [SEEDS] [NAME]     DEVICE: cpu, kernel-ir:sm_80, ..; seeds: how many; NAME: scripts with it
 *
 * A line a run and result: the largest error over its bound. */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Sum {
    ExecCase of;
    bool small; /* enough for the interpreters, which take minutes for the others */
} Sum;

#define SCRIPTS "../../../attn_scripts/"
#define OWN     "../../exec/sums/"
// clang-format off
static const Sum sums[] = {
    /* many keys: the output's sum and the row's */
    {{"mha.attn", "B=1 H=2 Hk=1 S=33 T=2003 D=64 E=64", NULL, NULL}, false},
    {{"mha.attn", "B=1 H=1 Hk=1 S=40 T=2003 D=64 E=64", NULL, "big"}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=16 T=2003 D=32 E=64", NULL, NULL}, true},
    {{OWN "uniform.attn", "B=1 H=1 S=16 T=4099 D=32 E=32", "factor=0.1", NULL}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=16 T=16384 D=16 E=16", NULL, NULL}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=9 T=16384 D=16 E=16", "factor=2.2", NULL}, false},
    {{SCRIPTS "relu.attn", "B=1 H=1 S=16 T=4099 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "sigmoid.attn", "B=1 H=1 S=300 T=2003 D=32 E=32", NULL, NULL}, false},
    /* many queries a key: its gradients */
    {{"mha.attn", "B=1 H=2 Hk=1 S=2003 T=33 D=64 E=64", NULL, NULL}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=2003 T=16 D=32 E=64", "factor=0.2", NULL}, true},
    {{OWN "uniform.attn", "B=1 H=2 S=4099 T=20 D=32 E=32", "factor=0.6", NULL}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=16384 T=7 D=16 E=16", "factor=1.0", NULL}, false},
    {{OWN "uniform.attn", "B=1 H=1 S=300 T=70 D=32 E=32", "factor=1.6", NULL}, true},
    /* weights that are all tiny */
    {{OWN "low.attn", "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-12.0", NULL}, true},
    {{OWN "low.attn", "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-17.0", NULL}, true},
    {{OWN "low.attn", "B=1 H=1 S=300 T=200 D=32 E=32", "offset=-30.0", NULL}, false},
    {{OWN "low_sigmoid.attn", "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-12.0", NULL}, true},
    {{OWN "low_sigmoid.attn", "B=1 H=1 S=300 T=200 D=32 E=32", "offset=-16.0", NULL}, false},
    {{OWN "low_sigmoid.attn", "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-30.0", NULL}, true},
    /* gradients of few numbers */
    {{SCRIPTS "alibi.attn", "B=2 H=3 S=200 T=200 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "alibi.attn", "B=1 H=2 S=70 T=130 D=32 E=32", NULL, NULL}, true},
    {{SCRIPTS "alibi.attn", "B=1 H=2 S=600 T=600 D=16 E=16", NULL, "big"}, false},
    {{OWN "temperature.attn", "B=1 H=2 S=70 T=130 D=32 E=32", NULL, NULL}, true},
    {{OWN "temperature.attn", "B=2 H=2 S=400 T=300 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "scalable_softmax.attn", "B=1 H=2 S=300 T=300 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "relative_bias.attn", "B=2 H=2 S=150 T=200 D=32 E=32 W=33", NULL, NULL}, false},
    {{SCRIPTS "relative_bias.attn", "B=1 H=1 S=700 T=500 D=32 E=32 W=5", NULL, NULL}, false},
    {{SCRIPTS "relative_bias.attn", "B=1 H=2 S=40 T=70 D=32 E=32 W=9", NULL, NULL}, true},
    {{SCRIPTS "kerple.attn", "B=1 H=2 S=150 T=200 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "attention_sink.attn", "B=2 H=2 Hk=1 S=500 T=500 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "qk_norm.attn", "B=1 H=2 Hk=1 S=300 T=300 D=32 E=32", NULL, NULL}, false},
    {{SCRIPTS "sigmoid.attn", "B=1 H=2 S=70 T=90 D=32 E=32", NULL, NULL}, true},
};
// clang-format on

/* Of [times] seeds the largest error over its bound of each result. */
static unsigned run(ExecSuite *suite, const Sum *s, const char *dtype, uint64_t seeds)
{
    double worst[64] = {0};
    char names[64][32] = {{0}};
    unsigned failed = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        exec_be_strict(suite, seed);
        failed += !exec_run(suite, &s->of, dtype);
        const char *name;
        for (uint32_t n = 0; n < 64; n++) {
            const double error = exec_error(suite, n, &name);
            if (!name) break;
            snprintf(names[n], sizeof names[n], "%s", name);
            if (error > worst[n]) worst[n] = error;
        }
    }
    const char *file = strrchr(s->of.script, '/');
    printf("%-22s %-4s %-38s %-12s %-4s", file ? file + 1 : s->of.script, dtype, s->of.sizes,
           s->of.params ? s->of.params : "", s->of.how ? s->of.how : "");
    for (uint32_t n = 0; n < 64 && *names[n]; n++) printf("  %s %.2f", names[n], worst[n]);
    printf("\n");
    fflush(stdout);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    if (argc < 3) return 2;
    const bool turns = argc > 3 && strcmp(argv[3], "turns") == 0; /* of each case one type */
    const uint64_t seeds = argc > 3 && !turns ? strtoull(argv[3], NULL, 10) : 1;
    const char *only = argc > 4 ? argv[4] : "";
    const bool interpreted = strstr(argv[1], "-ir:") != NULL;
    ExecSuite *suite = exec_open(argv[1], argv[2]);
    if (!suite) return 77; /* meson: skipped */
    ExecTally tally = {0};
    for (unsigned n = 0; n < sizeof sums / sizeof *sums; n++)
        for (unsigned d = 0; d < 3; d++) {
            if ((interpreted && !sums[n].small) || !strstr(sums[n].of.script, only)) continue;
            if (interpreted && strstr(argv[1], ":sm_") && d == 0) continue; /* as tf32 only */
            if (turns && d != n % 3) continue;
            if (!exec_is_in_part(&tally)) continue;
            const unsigned wrong = run(suite, &sums[n], dtypes[d], seeds);
            tally.failed += wrong, tally.passed += (unsigned)seeds - wrong;
        }
    exec_close(suite);
    return exec_report(&tally);
}
