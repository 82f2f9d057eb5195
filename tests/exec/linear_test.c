/* linear_test.c - kernels of recurrences: every class of decay, feedback and slot, on the interpreters of both IRs and on
 * devices, beside the oracle. linear_test DEVICE FOLDER [NAME]: scripts whose name has it. */
#include "exec.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define EXAMPLES "../../front/examples/"
static const ExecCase cases[] = {
    {"plain.attn", "B=1 H=2 T=1 K=16 V=16", NULL, NULL},
    {"plain.attn", "B=2 H=1 T=37 K=20 V=7", NULL, "states nan odd"},
    {EXAMPLES "retention_linear.attn", "B=1 H=3 T=65 K=16 V=48", NULL, "states heads_inside"},
    {EXAMPLES "retention_linear.attn", "B=1 H=1 T=31 K=1 V=1", NULL, "nan odd"},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=97 K=16 V=24", NULL, "states nan"},
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=33 K=32 V=80", NULL, "states odd"},
    {EXAMPLES "mamba2.attn", "B=1 H=4 G=2 T=35 N=24 P=17", NULL, "nan"},
    {EXAMPLES "gla.attn", "B=1 H=2 T=33 K=16 V=20", NULL, "states nan odd"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=4 Hk=2 T=37 K=16 V=24", NULL, "states nan"},
    {"normalised.attn", "B=1 H=6 Hq=6 Hk=3 T=34 K=13 V=33", NULL, "nan"},
    {"bonus.attn", "B=1 H=2 T=31 K=16 V=16", NULL, "states odd"},
    {"before.attn", "B=1 H=2 T=66 K=16 V=24", NULL, "states nan"},
    {"lowrank.attn", "B=1 H=2 T=33 K=16 V=24", NULL, "nan"},
    {"skip.attn", "B=1 H=2 T=37 K=16 V=23", NULL, "states nan odd"},
    {"resets.attn", "B=2 H=1 T=67 K=16 V=16", NULL, "states nan"},
    {"hard.attn", "B=1 H=1 T=37 K=24 V=16", NULL, NULL},
    {"hard_scalar.attn", "B=1 H=1 T=70 K=16 V=16", NULL, "states"},
    {"delta.attn", "B=1 H=4 Hk=1 T=35 K=17 V=24", NULL, "states nan odd"},
    {"keys_as_values.attn", "B=1 H=2 T=40 K=16", NULL, "nan"},
    {"plain.attn", "B=1 H=1 T=0 K=16 V=16", NULL, "states"},
    {"plain.attn", "B=1 H=2 T=67 K=16 V=20 packed=4", NULL, "states nan odd"},
    {EXAMPLES "retention_linear.attn", "B=1 H=2 T=70 K=16 V=16 packed=3", NULL, "nan"},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=133 K=16 V=24 packed=5", NULL, "states nan"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=1 T=53 K=16 V=16 packed=4", NULL, "states odd"},
    {"normalised.attn", "B=1 H=6 Hq=6 Hk=3 T=71 K=13 V=16 packed=4", NULL, "states nan"},
    {"skip.attn", "B=1 H=2 T=70 K=16 V=23 packed=3", NULL, "states nan odd"},
    {"bonus.attn", "B=1 H=2 T=37 K=16 V=16 packed=2", NULL, "states"},
    {"lengths.attn", "B=1 H=2 T=69 K=16 V=16 packed=4", NULL, "states nan"},
    {"lengths.attn", "B=2 H=1 T=35 K=16 V=16", NULL, "states"},
    {"normalised.attn", "B=1 H=6 Hq=2 Hk=3 T=35 K=16 V=16", NULL, "states"},
    {"delta.attn", "B=1 H=2 Hk=4 T=19 K=16 V=16", NULL, "states"},
    {"norm_by_tokens.attn", "B=2 H=2 T=19 K=8 V=5", NULL, "states"},
    {"norm_by_tokens.attn", "B=1 H=2 T=37 K=16 V=24 packed=3", NULL, "states nan odd"},
    {"plain.attn", "B=1 H=1 T=0 K=16 V=16 packed=2", NULL, "states"},
    {"plain.attn", "B=1 H=1 T=40 K=16 V=16 packed=1", NULL, "states"},
    {"steep.attn", "B=1 H=2 T=97 K=17 V=24", NULL, "states nan odd"},
    {"steep.attn", "B=1 H=2 T=83 K=16 V=65 packed=3", NULL, "states nan"},
};
// clang-format on

typedef struct Which {
    const char *only;
    unsigned at;
} Which;

/* An operand type a case, another at each device. */
static const char *in_turn(const void *of, unsigned n, unsigned turn)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    const Which *w = of;
    if (turn || (w->only && !strstr(cases[n].script, w->only))) return NULL;
    return dtypes[(n + w->at) % 3];
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 3) return 2;
    Which w = {.only = argc > 3 ? argv[3] : NULL};
    for (const char *c = argv[1]; *c; c++) w.at += (unsigned)*c;
    if (!exec_all(&tally, argv[1], argv[2], cases, sizeof cases / sizeof *cases, in_turn, &w))
        return 1;
    return exec_report(&tally);
}
