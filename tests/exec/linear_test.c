/* linear_test.c - kernels of recurrences: every class of decay, feedback and slot, on the interpreters of both IRs and on
 * devices, beside the oracle. linear_test DEVICE FOLDER [NAME]: scripts whose name has it; `third`: every third case, others at
 * each device; `warps`: all, forward, and some with gradients, in types of 16 bits; `forward`, `backward`:
 * either alone, the latter in both types; `behind`: of the latter what has a norm or an out_mod; `own`: what has feedback of its own; `two`: forward in two kernels; `forward 1`, `forward 2`: every other case. */
#include "exec.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define SCRIPTS "../../../attn_scripts/"
#define EXAMPLES "../../front/examples/"
#define KIMI "../../../attn_scripts/kimi_delta.attn"
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
    {SCRIPTS "linear_attention.attn", "B=1 H=1 Hk=1 T=19 K=13 V=260", NULL, "nan odd forward"}, /* more vectors than a product has columns */
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
    {"delta.attn", "B=1 H=4 Hk=2 T=35 K=16 V=24", NULL, "states repeat"},
    {"normalised.attn", "B=2 H=6 Hq=2 Hk=3 T=19 K=16 V=16", NULL, "repeat"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=4 Hk=2 T=37 K=16 V=16 packed=3", NULL, "states repeat"},
    {"steep.attn", "B=1 H=2 T=97 K=17 V=24", NULL, "states nan odd"},
    {"near_keys.attn", "B=1 H=2 T=65 K=16 V=24", NULL, "states nan"},
    {"near_keys.attn", "B=1 H=1 T=31 K=24 V=7", NULL, "states odd"},
    {"near_keys.attn", "B=1 H=1 T=16 K=16 V=16", NULL, NULL},
    {"erase.attn", "B=1 H=4 Hk=2 T=97 K=17 V=24", NULL, "states nan odd"},
    {"erase.attn", "B=1 H=2 Hk=2 T=67 K=16 V=65 packed=4", NULL, "states nan"},
    {"erase_heads.attn", "B=1 H=3 T=47 K=16 V=16", NULL, "states nan"},
    {"erase_plain_keys.attn", "B=1 H=2 T=53 K=16 V=20", NULL, "states nan"},
    {"steep.attn", "B=1 H=2 T=83 K=16 V=65 packed=3", NULL, "states nan"},
    {"row_sums.attn", "B=1 H=2 T=37 K=13 V=24", NULL, "states nan odd"},
    {"row_sums.attn", "B=1 H=1 T=35 K=16 V=5 packed=3", NULL, "states"},
    {"row_sum_alone.attn", "B=1 H=2 T=33 K=16 V=24", NULL, "states nan"},
    {"strengths.attn", "B=1 H=4 Hk=2 T=35 K=16 V=24", NULL, "states nan"},
    {EXAMPLES "simple_gla.attn", "B=2 H=2 T=1 K=64 V=40 pool=5", NULL, "step nan odd forward"},
    {EXAMPLES "retention_linear.attn", "B=3 H=1 T=16 K=32 V=64 pool=3", NULL, "step forward"},
    {EXAMPLES "gla.attn", "B=2 H=2 T=3 K=20 V=7 pool=2", NULL, "step nan forward"},
    {EXAMPLES "gated_delta_net.attn", "B=2 H=4 Hk=2 T=2 K=128 V=32 pool=4", NULL, "step nan forward"},
    {"bonus.attn", "B=1 H=2 T=5 K=16 V=16 pool=1", NULL, "step odd forward"},
    {"before.attn", "B=2 H=2 T=4 K=17 V=24 pool=2", NULL, "step nan forward"},
    {"lowrank.attn", "B=1 H=2 T=3 K=32 V=32 pool=2", NULL, "step nan odd forward"},
    {"skip.attn", "B=1 H=2 T=3 K=16 V=23 pool=1", NULL, "step nan odd forward"},
    {"normalised.attn", "B=2 H=6 Hq=6 Hk=3 T=2 K=13 V=33 pool=3", NULL, "step nan forward"},
    {"row_sums.attn", "B=1 H=2 T=5 K=16 V=24 pool=1", NULL, "step nan forward"},
    {"keys_as_values.attn", "B=2 H=2 T=3 K=40 pool=2", NULL, "step nan forward"},
    {"bonus.attn", "B=1 H=1 T=3 K=128 V=40 pool=2", NULL, "step nan odd forward"},
    {"before.attn", "B=1 H=2 T=2 K=64 V=33 pool=2", NULL, "step nan forward"},
    {"lowrank.attn", "B=1 H=1 T=16 K=96 V=64 pool=1", NULL, "step odd forward"},
    {"skip_channels.attn", "B=1 H=1 T=3 K=80 V=20 pool=1", NULL, "step nan forward"},
    {"row_sum_alone.attn", "B=1 H=2 T=2 K=64 V=24 pool=3", NULL, "step nan forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=35 K=32 V=150", NULL, "states nan forward"},
    {EXAMPLES "gla.attn", "B=1 H=2 T=35 K=80 V=20", NULL, "states nan odd"},
    {"skip_channels.attn", "B=1 H=2 T=37 K=32 V=20", NULL, "states nan odd"},
    /* on GPUs: key channels shared out among executors */
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=35 K=64 V=40", NULL, "states nan odd forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=37 K=48 V=20 packed=2", NULL, "states nan forward"},
    {EXAMPLES "retention_linear.attn", "B=1 H=2 T=19 K=128 V=64", NULL, "states odd forward"},
    {EXAMPLES "mamba2.attn", "B=1 H=2 G=1 T=33 N=64 P=17", NULL, "nan forward"},
    {"bonus.attn", "B=1 H=1 T=21 K=64 V=32", NULL, "states nan odd forward"},
    {"before.attn", "B=1 H=1 T=40 K=36 V=24", NULL, "states nan forward"},
    {"keys_as_values.attn", "B=1 H=2 T=18 K=64", NULL, "nan forward"},
    {"skip_channels.attn", "B=1 H=1 T=50 K=16 V=16 packed=3", NULL, "states"},
    {"bonus_erase.attn", "B=1 H=2 T=19 K=16 V=16", NULL, "states nan"},
    {"head_rate.attn", "B=2 H=2 T=37 K=24 V=20", NULL, "states repeat"},
    {"head_rate.attn", "B=1 H=2 T=5 K=16 V=16", NULL, NULL},
    {"bonus_strength.attn", "B=1 H=2 T=19 K=16 V=12", NULL, "nan"},
    {"bonus_strength.attn", "B=1 H=1 T=1 K=8 V=16", NULL, NULL},
    {"constant_heads.attn", "B=1 T=37 K=16 V=24", NULL, "states nan odd"},
    {"shifted.attn", "B=1 H=2 T=37 K=16 V=24", "least=0.25", "states nan odd"},
};
/* Of warps: blocks of more of them, slices of columns, chunks that do not begin where they end, two of them and more. */
static const ExecCase wide[] = {
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=129 K=64 V=64", NULL, "states nan forward"},
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=63 K=128 V=128", NULL, "forward"},
    {EXAMPLES "retention_linear.attn", "B=1 H=1 T=65 K=256 V=128", NULL, "states odd forward"},
    {EXAMPLES "mamba2.attn", "B=1 H=4 G=1 T=67 N=128 P=64", NULL, "states nan forward"},
    {EXAMPLES "mamba2.attn", "B=1 H=80 G=1 T=67 N=16 P=16", NULL, "states forward"},
    {EXAMPLES "mamba2.attn", "B=2 H=3 G=1 T=130 N=48 P=40", NULL, "states nan odd forward"},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=131 K=80 V=48 packed=4", NULL, "states odd nan forward"},
    {"before.attn", "B=1 H=1 T=128 K=48 V=96", NULL, "states forward"},
    {"normalised.attn", "B=1 H=2 Hq=1 Hk=2 T=97 K=96 V=80", NULL, "states nan forward"},
    {"skip.attn", "B=1 H=1 T=130 K=64 V=64", NULL, "states odd forward"},
    {"resets.attn", "B=1 H=1 T=191 K=32 V=40", NULL, "states nan forward"},
    {"hard_scalar.attn", "B=1 H=2 T=193 K=64 V=16", NULL, "states forward"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=1 T=131 K=64 V=64", NULL, "states nan forward"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=1 Hk=1 T=65 K=128 V=128", NULL, "states odd forward"},
    {"delta.attn", "B=1 H=4 Hk=2 T=193 K=80 V=48 packed=4", NULL, "states nan odd forward"},
    {"delta.attn", "B=1 H=1 Hk=1 T=63 K=16 V=16", NULL, "forward"},
    {"alike.attn", "B=1 H=2 T=150 K=32 V=32", NULL, "states forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=65 K=128 V=128", NULL, "states nan odd forward"},
    {EXAMPLES "gla.attn", "B=1 H=2 T=131 K=80 V=48 packed=4", NULL, "states nan odd forward"},
    {"hard.attn", "B=1 H=1 T=193 K=64 V=64", NULL, "states forward"},
    {"bonus.attn", "B=1 H=1 T=129 K=48 V=96", NULL, "states nan forward"},
    {"erase_channels.attn", "B=1 H=2 Hk=1 T=70 K=32 V=48", NULL, "states nan odd forward"},
    {"erase_channels.attn", "B=1 H=1 Hk=1 T=99 K=128 V=64 packed=3", NULL, "states forward"},
    {KIMI, "B=1 H=1 T=65 K=128 V=128", NULL, "states nan odd forward"},
    {"erase_steep.attn", "B=1 H=2 Hk=2 T=131 K=80 V=48 packed=4", NULL, "states nan odd forward"},
    {"erase_steep.attn", "B=1 H=4 Hk=2 T=1 K=20 V=7", NULL, "states forward"},
    {"erase_alike.attn", "B=1 H=2 T=150 K=32 V=32", NULL, "states forward"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=1 Hk=1 T=1100 K=16 V=16", NULL, "states forward"},
    /* in segments */
    {EXAMPLES "simple_gla.attn", "B=2 H=1 T=1601 K=16 V=24", NULL, "states nan odd forward"},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=2100 K=24 V=16 packed=4", NULL, "states nan forward"},
    {EXAMPLES "retention_linear.attn", "B=1 H=2 T=1601 K=32 V=40", NULL, "states forward"},
    {EXAMPLES "mamba2.attn", "B=1 H=5 G=1 T=1601 N=16 P=24 packed=3", NULL, "states nan odd forward"},
    {"plain.attn", "B=1 H=1 T=2050 K=20 V=7", NULL, "states nan forward"},
    {"before.attn", "B=1 H=1 T=1601 K=16 V=16", NULL, "states forward"},
    {"strengths.attn", "B=1 H=4 Hk=2 T=1600 K=16 V=24", NULL, "forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=1601 K=16 V=24", NULL, "states nan forward"},
    {EXAMPLES "gla.attn", "B=1 H=2 T=1900 K=24 V=16 packed=3", NULL, "states nan forward"},
    {"bonus.attn", "B=1 H=1 T=1601 K=16 V=16", NULL, "states forward"},
    {"near_keys.attn", "B=1 H=2 T=1601 K=48 V=24", NULL, "states nan odd forward"},
    {"delta.attn", "B=1 H=2 Hk=1 T=1500 K=24 V=40 packed=4", NULL, "states nan forward"},
    {KIMI, "B=1 H=1 T=1601 K=16 V=24", NULL, "states nan forward"},
    {"erase_channels.attn", "B=1 H=2 Hk=1 T=1900 K=24 V=16 packed=3", NULL, "states nan odd forward"},
    {"erase_steep.attn", "B=2 H=1 Hk=1 T=1601 K=16 V=40", NULL, "states forward"},
    {"erase_alike.attn", "B=1 H=1 T=1100 K=32 V=32", NULL, "states forward"},
    {"alike.attn", "B=1 H=1 T=1100 K=32 V=32", NULL, "states forward"},
    /* feedback of its own */
    {"own_channels.attn", "B=1 H=4 Hk=2 T=70 K=16 V=24", NULL, "states nan odd forward"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=1 K=32 V=16", NULL, "states forward"},
    {"own_channels.attn", "B=2 H=1 Hk=1 T=15 K=16 V=16", NULL, "forward"},
    {"own_channels.attn", "B=1 H=2 Hk=1 T=17 K=32 V=40", NULL, "states heads_inside forward"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=129 K=64 V=64", NULL, "states nan forward"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=65 K=128 V=128", NULL, "states nan odd forward"},
    {"own_channels.attn", "B=1 H=2 Hk=2 T=131 K=80 V=48 packed=4", NULL, "states nan odd forward"},
    {"own_before.attn", "B=1 H=2 T=66 K=20 V=7", NULL, "states nan odd forward"},
    {"own_before.attn", "B=1 H=1 T=99 K=64 V=96 packed=3", NULL, "states forward"},
    {"own_scalar.attn", "B=1 H=2 T=97 K=32 V=24", NULL, "states nan odd forward"},
    {"own_scalar.attn", "B=1 H=1 T=131 K=128 V=64 packed=5", NULL, "states nan forward"},
    {"own_rate.attn", "B=2 H=3 T=65 K=16 V=48", NULL, "states nan forward"},
    {"own_rate.attn", "B=1 H=2 T=70 K=64 V=64 packed=3", NULL, "states forward"},
    {"own_plain.attn", "B=1 H=2 T=63 K=48 V=32", NULL, "states nan odd forward"},
    {"own_plain.attn", "B=1 H=1 T=0 K=16 V=16", NULL, "states forward"},
    {"own_hard.attn", "B=1 H=1 T=193 K=64 V=64", NULL, "states nan forward"},
    {"own_hard.attn", "B=1 H=1 T=37 K=16 V=20 packed=2", NULL, "states forward"},
    {"own_alike.attn", "B=1 H=2 T=150 K=32 V=32", NULL, "states forward"},
    {"own_channels.attn", "B=1 H=2 Hk=1 T=1601 K=32 V=24", NULL, "states nan forward"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=1900 K=16 V=40 packed=3", NULL, "states nan odd forward"},
    {"own_before.attn", "B=2 H=1 T=1100 K=20 V=16", NULL, "states forward"},
    {"own_rate.attn", "B=1 H=1 T=1601 K=16 V=16", NULL, "states forward"},
    {"own_hard.attn", "B=1 H=1 T=1100 K=32 V=32", NULL, "states forward"},
};
/* With gradients, by warps too: chunks of all lengths and their borders, shared heads, strengths, padded widths, packed sequences. */
static const ExecCase backward[] = {
    {"plain.attn", "B=2 H=1 T=37 K=20 V=7", NULL, "states nan odd"},
    {"plain.attn", "B=1 H=2 T=1 K=16 V=16", NULL, NULL},
    {"plain.attn", "B=1 H=1 T=0 K=16 V=16", NULL, "states"},
    {"plain.attn", "B=1 H=2 T=131 K=16 V=20 packed=4", NULL, "states nan odd"},
    {EXAMPLES "retention_linear.attn", "B=1 H=2 T=65 K=64 V=128", NULL, "states"},
    {EXAMPLES "retention_linear.attn", "B=2 H=1 T=129 K=16 V=16", NULL, "nan heads_inside"},
    {EXAMPLES "retention_linear.attn", "B=1 H=1 T=70 K=128 V=128", NULL, "states odd"},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=97 K=16 V=24", NULL, "states nan"},
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=150 K=48 V=80", NULL, "states odd"},
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=63 K=128 V=128", NULL, NULL},
    {EXAMPLES "simple_gla.attn", "B=1 H=2 T=133 K=16 V=24 packed=5", NULL, "states nan"},
    {EXAMPLES "mamba2.attn", "B=1 H=4 G=2 T=70 N=24 P=17", NULL, "states nan"},
    {EXAMPLES "mamba2.attn", "B=1 H=2 G=1 T=66 N=128 P=64", NULL, NULL},
    {"strengths.attn", "B=1 H=4 Hk=2 T=69 K=16 V=24", NULL, "states nan odd"},
    {"plain.attn", "B=2 H=2 T=70 K=16 V=16", NULL, "states repeat"},
    {"before.attn", "B=1 H=2 T=66 K=16 V=24", NULL, "states nan"},
    {"resets.attn", "B=2 H=1 T=67 K=16 V=16", NULL, "states nan"},
    {"hard_scalar.attn", "B=1 H=1 T=70 K=16 V=16", NULL, "states"},
    {"keys_as_values.attn", "B=1 H=2 T=70 K=16", NULL, "nan"},
    {"row_sums.attn", "B=1 H=2 T=69 K=16 V=24", NULL, "states nan odd"},
    {"row_sum_alone.attn", "B=1 H=2 T=33 K=16 V=24", NULL, "states nan"},
    {"delta.attn", "B=1 H=1 Hk=1 T=15 K=16 V=16", NULL, NULL},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=1 T=70 K=16 V=24", NULL, "states nan odd"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=1 Hk=1 T=65 K=64 V=64", NULL, "states"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=1 T=53 K=16 V=16 packed=4", NULL, "states odd"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=1 T=35 K=128 V=128", NULL, NULL},
    {EXAMPLES "gated_delta_net.attn", "B=2 H=2 Hk=2 T=67 K=32 V=40", NULL, "states nan odd heads_inside"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=2 T=150 K=16 V=16 packed=7", NULL, "states nan"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=1 Hk=1 T=35 K=80 V=80", NULL, "states"},
    {"erase_heads.attn", "B=1 H=3 T=47 K=16 V=16", NULL, "states nan"},
    {"near_keys.attn", "B=1 H=2 T=65 K=16 V=24", NULL, "states nan"},
    {"alike.attn", "B=1 H=2 T=70 K=32 V=32", NULL, "states"},
    /* decays a channel */
    {EXAMPLES "gla.attn", "B=1 H=2 T=37 K=16 V=16", NULL, "states"},
    {EXAMPLES "gla.attn", "B=2 H=1 T=97 K=20 V=24", NULL, "states nan odd"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=65 K=128 V=64", NULL, "states"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=33 K=160 V=40", NULL, "states nan"},
    {EXAMPLES "gla.attn", "B=1 H=2 T=150 K=48 V=16 packed=6", NULL, "states nan odd"},
    {"before_channels.attn", "B=1 H=2 T=67 K=16 V=80", NULL, "states nan"},
    {"before_channels.attn", "B=1 H=1 T=1 K=16 V=16", NULL, "states"},
    {"steep_channels.attn", "B=2 H=2 Hk=1 T=63 K=32 V=24", NULL, "states nan odd"},
    {"steep_channels.attn", "B=1 H=2 Hk=2 T=70 K=48 V=16 packed=3", NULL, "states"},
    {"skip_channels.attn", "B=1 H=1 T=64 K=16 V=32", NULL, "states"},
    {"skip_channels.attn", "B=1 H=1 T=35 K=128 V=40", NULL, "states nan"},
    {"token_of_rows.attn", "B=1 H=2 T=35 K=128 V=64", NULL, "nan"},
    {"token_of_rows.attn", "B=2 H=1 T=37 K=64 V=128", NULL, "nan"},
    {"token_of_values.attn", "B=1 H=2 T=35 K=16 V=16", NULL, "states"},
    {"token_of_values.attn", "B=1 H=1 T=33 K=48 V=80", NULL, "states nan"},
    {"bonus.attn", "B=2 H=2 T=67 K=24 V=16", NULL, "states nan odd"},
    {"bonus.attn", "B=1 H=1 T=35 K=144 V=16 packed=2", NULL, "states"},
    {"hard.attn", "B=1 H=1 T=67 K=24 V=16", NULL, NULL},
    {"constant_heads.attn", "B=1 T=67 K=16 V=24", NULL, "states"},
    {"shifted.attn", "B=1 H=2 T=67 K=16 V=24", "least=0.25", "states"},
    /* beside feedback */
    {"erase_channels.attn", "B=1 H=1 Hk=1 T=1 K=16 V=16", NULL, "states"},
    {"erase_channels.attn", "B=1 H=2 Hk=1 T=31 K=16 V=24", NULL, "states nan odd"},
    {"erase_channels.attn", "B=2 H=1 Hk=1 T=33 K=32 V=16", NULL, "states"},
    {"erase_channels.attn", "B=1 H=2 Hk=2 T=67 K=48 V=40 packed=3", NULL, "states nan odd"},
    {"erase_channels.attn", "B=1 H=2 Hk=1 T=65 K=64 V=64", NULL, "states heads_inside"},
    {"erase_channels.attn", "B=1 H=1 Hk=1 T=35 K=128 V=80", NULL, "states"},
    {"erase_channels.attn", "B=1 H=1 Hk=1 T=37 K=144 V=144", NULL, "states nan"},
    {"erase_channels.attn", "B=1 H=2 Hk=2 T=0 K=16 V=16", NULL, "states"},
    {KIMI, "B=1 H=2 T=97 K=16 V=128", NULL, "states nan odd"},
    {KIMI, "B=1 H=2 T=150 K=16 V=16 packed=7", NULL, "states"},
    {"erase_steep.attn", "B=1 H=4 Hk=2 T=67 K=24 V=20", NULL, "states nan odd"},
    {"erase_steep.attn", "B=1 H=2 Hk=1 T=70 K=80 V=48 packed=4", NULL, "states"},
    {"erase_alike.attn", "B=1 H=2 T=70 K=32 V=32", NULL, "states"},
    /* feedback of its own */
    {SCRIPTS "rwkv7.attn", "B=1 H=1 T=1 K=16 V=16", NULL, "states"},
    {SCRIPTS "rwkv7.attn", "B=1 H=2 T=70 K=64 V=64", NULL, "states"},
    {SCRIPTS "rwkv7.attn", "B=2 H=1 T=65 K=128 V=80", NULL, "states nan heads_inside"},
    {"own_channels.attn", "B=1 H=4 Hk=2 T=67 K=16 V=24", NULL, "states nan odd"},
    {"own_channels.attn", "B=1 H=2 Hk=1 T=31 K=48 V=40", NULL, "states"},
    {"own_channels.attn", "B=1 H=2 Hk=2 T=150 K=32 V=16 packed=7", NULL, "states nan odd"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=0 K=16 V=16", NULL, "states"},
    {"own_before.attn", "B=1 H=2 T=66 K=20 V=7", NULL, "states nan odd"},
    {"own_before.attn", "B=1 H=1 T=99 K=64 V=96 packed=3", NULL, "states"},
    {"own_scalar.attn", "B=1 H=2 T=97 K=32 V=24", NULL, "states nan odd"},
    {"own_scalar.attn", "B=1 H=1 T=71 K=128 V=64 packed=5", NULL, "states nan"},
    {"own_rate.attn", "B=2 H=3 T=65 K=16 V=48", NULL, "states nan"},
    {"own_plain.attn", "B=1 H=2 T=63 K=48 V=32", NULL, "states nan odd"},
    {"own_hard.attn", "B=1 H=1 T=67 K=32 V=20", NULL, "states"},
    {"own_alike.attn", "B=1 H=2 T=70 K=32 V=32", NULL, "states"},
};
/* The same where something stands between what queries read and the output. */
static const ExecCase behind[] = {
    {"gated_out.attn", "B=1 H=2 Hk=2 T=1 K=16 V=16", NULL, "states"},
    {"gated_out.attn", "B=1 H=2 Hk=2 T=0 K=16 V=16", NULL, "states"},
    {"gated_out.attn", "B=2 H=1 Hk=1 T=63 K=64 V=64", NULL, "nan heads_inside"},
    {"gated_out.attn", "B=1 H=4 Hk=2 T=131 K=48 V=80 packed=4", NULL, "states nan odd"},
    {"gated_out.attn", "B=1 H=1 Hk=1 T=65 K=144 V=112", NULL, "states"},
    {SCRIPTS "retnet.attn", "B=1 H=2 T=65 K=16 V=32", NULL, "states"},
    {SCRIPTS "retnet.attn", "B=2 H=1 T=64 K=80 V=48", NULL, "states nan odd"},
    {SCRIPTS "retnet.attn", "B=1 H=1 T=1 K=16 V=16", NULL, NULL},
    {SCRIPTS "retnet.attn", "B=1 H=2 T=133 K=24 V=16 packed=5", NULL, "states nan"},
    {SCRIPTS "retnet.attn", "B=1 H=1 T=67 K=128 V=128", NULL, "states"},
    {SCRIPTS "linear_attention.attn", "B=1 H=2 Hk=1 T=65 K=16 V=16", NULL, "states"},
    {SCRIPTS "linear_attention.attn", "B=1 H=1 Hk=1 T=129 K=128 V=64", NULL, "states nan"},
    {SCRIPTS "linear_attention.attn", "B=2 H=2 Hk=2 T=37 K=20 V=7", NULL, "states nan odd"},
    {SCRIPTS "linear_attention.attn", "B=1 H=4 Hk=2 T=150 K=16 V=144 packed=6", NULL, "states nan odd"},
    {"normalised.attn", "B=1 H=2 Hq=1 Hk=2 T=97 K=48 V=40", NULL, "states nan"},
    {"normalised.attn", "B=2 H=6 Hq=2 Hk=3 T=71 K=13 V=16", NULL, "states repeat"},
    {"normalised.attn", "B=1 H=2 Hq=2 Hk=2 T=131 K=16 V=20 packed=3", NULL, "states odd"},
    {"behind_all.attn", "B=1 H=2 Hk=1 T=67 K=16 V=16", NULL, "states nan odd"},
    {"behind_all.attn", "B=1 H=2 Hk=2 T=131 K=32 V=48 packed=4", NULL, "states nan heads_inside"},
    {"norm_before.attn", "B=1 H=2 T=67 K=20 V=24", NULL, "states nan odd"},
    {"norm_before.attn", "B=1 H=2 T=133 K=16 V=16 packed=3", NULL, "states"},
    {"norm_alone.attn", "B=1 H=2 Hk=1 T=70 K=16 V=7", NULL, "states nan odd"},
    {"lengths.attn", "B=1 H=2 T=69 K=16 V=16 packed=4", NULL, "states nan"},
    {"delta_out.attn", "B=1 H=2 Hk=1 T=67 K=16 V=16", NULL, "states nan odd"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=33 K=128 V=128", NULL, NULL},
    {"delta_out.attn", "B=1 H=2 Hk=2 T=71 K=48 V=80 packed=3", NULL, "states nan"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=31 K=64 V=16", NULL, NULL},
    {"channels_out.attn", "B=1 H=2 Hk=1 T=67 K=16 V=16", NULL, "states nan odd"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=65 K=64 V=128", NULL, "states"},
    {"channels_out.attn", "B=1 H=2 Hk=2 T=97 K=48 V=16 packed=4", NULL, "states nan"},
};
/* Forward in two kernels, where one has no room for all columns: chunks of all lengths and their borders, packed ones, each class. */
static const ExecCase two[] = {
    {SCRIPTS "retnet.attn", "B=1 H=1 T=1 K=128 V=128", NULL, "states forward"},
    {SCRIPTS "retnet.attn", "B=2 H=2 T=67 K=128 V=128", NULL, "states nan odd forward"},
    {SCRIPTS "retnet.attn", "B=1 H=1 T=128 K=128 V=128", NULL, "states nan forward"},
    {SCRIPTS "retnet.attn", "B=1 H=2 T=197 K=128 V=128 packed=4", NULL, "states nan odd forward"},
    {SCRIPTS "retnet.attn", "B=1 H=1 T=0 K=128 V=128", NULL, "states forward"},
    {"gated_out.attn", "B=1 H=4 Hk=2 T=65 K=112 V=144", NULL, "states nan odd forward"},
    {"gated_out.attn", "B=2 H=1 Hk=1 T=63 K=128 V=128", NULL, "nan heads_inside forward"},
    {"gated_out.attn", "B=1 H=1 Hk=1 T=33 K=256 V=256", NULL, "states forward"},
    {"behind_all.attn", "B=1 H=2 Hk=1 T=65 K=128 V=128", NULL, "states nan odd forward"},
    {"behind_all.attn", "B=1 H=1 Hk=1 T=131 K=128 V=128 packed=3", NULL, "states nan forward"},
    {"behind_all.attn", "B=1 H=1 Hk=1 T=1 K=128 V=128", NULL, "forward"},
    {"delta_out.attn", "B=1 H=2 Hk=1 T=33 K=128 V=128", NULL, "states nan odd forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=97 K=128 V=128 packed=3", NULL, "states nan forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=31 K=128 V=128", NULL, "heads_inside forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=1 K=128 V=128", NULL, "states forward"},
    {"channels_out.attn", "B=1 H=2 Hk=1 T=33 K=128 V=128", NULL, "states nan odd forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=97 K=128 V=128 packed=3", NULL, "states nan forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=31 K=128 V=128", NULL, "forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=65 K=64 V=128", NULL, "states odd forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=64 K=128 V=64", NULL, "states nan forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=64 K=64 V=128", NULL, "states nan forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=65 K=128 V=64", NULL, "states odd forward"},
    {"erase.attn", "B=1 H=2 Hk=1 T=37 K=128 V=128", NULL, "states nan odd forward"},
    {"lengths.attn", "B=1 H=2 T=69 K=128 V=128 packed=4", NULL, "states nan forward"},
    /* in segments */
    {"gated_out.attn", "B=1 H=1 Hk=1 T=1601 K=128 V=128", NULL, "states nan forward"},
    {"gated_out.attn", "B=1 H=2 Hk=1 T=1700 K=128 V=128 packed=3", NULL, "states nan odd forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=801 K=128 V=128", NULL, "states nan odd forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=900 K=128 V=128 packed=2", NULL, "states nan forward"},
};
/* Few and small, of what warps do: linear_mistakes_test.py. */
static const ExecCase small[] = {
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=131 K=16 V=16", NULL, "states forward"},
    {"before.attn", "B=1 H=1 T=66 K=16 V=16", NULL, "states forward"},
    {EXAMPLES "mamba2.attn", "B=1 H=2 G=1 T=131 N=16 P=32", NULL, "states forward"},
    {"near_keys.attn", "B=1 H=2 T=65 K=16 V=24", NULL, "states forward"},
    {"alike.attn", "B=1 H=2 T=150 K=32 V=32", NULL, "states forward"},
    {"near_keys.attn", "B=1 H=1 T=1100 K=16 V=16", NULL, "states forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=99 K=16 V=16", NULL, "states forward"},
    {EXAMPLES "simple_gla.attn", "B=1 H=1 T=2900 K=16 V=16 packed=4", NULL, "states forward"},
    {EXAMPLES "retention_linear.attn", "B=1 H=1 T=1601 K=16 V=16", NULL, "states forward"},
    {EXAMPLES "gla.attn", "B=1 H=1 T=1601 K=16 V=16", NULL, "states forward"},
    {EXAMPLES "gated_delta_net.attn", "B=1 H=2 Hk=2 T=101 K=16 V=16 packed=3", NULL, "states"},
    {"erase_channels.attn", "B=1 H=1 Hk=1 T=70 K=16 V=16", NULL, "states"},
    {"steep_channels.attn", "B=1 H=2 Hk=2 T=71 K=16 V=16", NULL, "states"},
    {"before_channels.attn", "B=1 H=1 T=70 K=16 V=16 packed=2", NULL, "states"},
    {"bonus.attn", "B=1 H=1 T=40 K=16 V=16", NULL, "states"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=67 K=16 V=32", NULL, "states forward"},
    {"own_rate.attn", "B=1 H=1 T=66 K=16 V=16", NULL, "states forward"},
    {"own_channels.attn", "B=1 H=1 Hk=1 T=1537 K=16 V=16", NULL, "states forward"},
    {"own_channels.attn", "B=1 H=2 Hk=1 T=67 K=16 V=16", NULL, "states"},
    {"own_before.attn", "B=1 H=1 T=71 K=16 V=16 packed=2", NULL, "states"},
    {"own_scalar.attn", "B=1 H=1 T=40 K=16 V=16", NULL, "states"},
    {"behind_all.attn", "B=1 H=1 Hk=1 T=131 K=16 V=16", NULL, "states"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=40 K=16 V=16", NULL, "states"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=67 K=16 V=16", NULL, "states"},
    {"behind_all.attn", "B=1 H=1 Hk=1 T=67 K=128 V=128", NULL, "states forward"},
    {"channels_out.attn", "B=1 H=1 Hk=1 T=33 K=128 V=128", NULL, "states forward"},
    {"delta_out.attn", "B=1 H=1 Hk=1 T=33 K=128 V=128", NULL, "states forward"},
};
/* On processors: states of all columns, more numbers than a schedule chooses to have. */
static const ExecCase whole[] = {
    {"normalised.attn", "B=1 H=1 Hq=1 Hk=1 T=19 K=256 V=256", NULL, "states"},
    {"row_sums.attn", "B=1 H=1 T=17 K=256 V=256", NULL, "states"},
};
enum { BACKWARD = sizeof backward / sizeof *backward, BEHIND = sizeof behind / sizeof *behind, TWO = sizeof two / sizeof *two, SMALL = sizeof small / sizeof *small, WHOLE = sizeof whole / sizeof *whole };

// clang-format on

enum { CASES = sizeof cases / sizeof *cases, WIDE = sizeof wide / sizeof *wide };

typedef struct Which {
    const char *only;
    unsigned at;
    bool third;        /* every third case, others at each device */
    unsigned part, of; /* of `forward` and `backward`: a part of so many; 0: all */
    bool brief; /* lavapipe ends long loops: without the cases of few blocks and many turns */
} Which;

/* An operand type a case, another at each device. */
static const char *in_turn(const void *of, unsigned n, unsigned turn)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    const Which *w = of;
    if (turn || (w->only && !w->third && !strstr(cases[n].script, w->only))) return NULL;
    if (w->third && (n + w->at) % 3) return NULL;
    const bool is_long = strstr(cases[n].script, "steep") || strstr(cases[n].sizes, "K=80") ||
                         (cases[n].how && strstr(cases[n].how, "repeat"));
    if (w->brief && is_long) return NULL;
    return dtypes[(w->third ? n / 3 : n + w->at) % 3];
}

static const char *all_types(const void *of, unsigned n, unsigned turn)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", NULL};
    (void)of, (void)n;
    return dtypes[turn];
}

/* What matrix units of warps take. */
static const char *halves(const void *of, unsigned n, unsigned turn)
{
    (void)of, (void)n;
    return turn == 0 ? "f16" : turn == 1 ? "bf16" : NULL;
}

/* The same of a part of the cases. */
static const char *part_of(const void *of, unsigned n, unsigned turn)
{
    const Which *w = of;
    return w->part && n % w->of != w->part - 1 ? NULL : halves(of, n, turn);
}

/* Of those the ones with feedback of its own. */
static const char *of_own(const void *of, unsigned n, unsigned turn)
{
    const char *script = backward[n].script;
    return strstr(script, "own_") || strstr(script, "rwkv7") ? halves(of, n, turn) : NULL;
}

/* One of them a case, another at each device. */
static const char *half_in_turn(const void *of, unsigned n, unsigned turn)
{
    const Which *w = of;
    return turn ? NULL : halves(of, n, (n + w->at) % 2);
}

/* All cases without gradients. */
static bool forward_by_warps(ExecTally *tally, const char *device, const char *folder,
                             const Which *w)
{
    static char words[CASES][64];
    ExecCase forward[CASES];
    for (unsigned n = 0; n < CASES; n++) {
        snprintf(words[n], sizeof words[n], "%s forward", cases[n].how ? cases[n].how : "");
        forward[n] = cases[n];
        forward[n].how = words[n];
    }
    return exec_all(tally, device, folder, forward, CASES, part_of, w) &&
           exec_all(tally, device, folder, wide, WIDE, part_of, w);
}

/* These, and some with gradients. */
static bool by_warps(ExecTally *tally, const char *device, const char *folder, const Which *w)
{
    return forward_by_warps(tally, device, folder, w) &&
           exec_all(tally, device, folder, backward, BACKWARD, half_in_turn, w) &&
           exec_all(tally, device, folder, behind, BEHIND, half_in_turn, w) &&
           exec_all(tally, device, folder, two, TWO, half_in_turn, w);
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 3) return 2;
    Which w = {.only = argc > 3 ? argv[3] : NULL, .brief = strncmp(argv[1], "vulkan", 6) == 0};
    if (argc > 4 && (sscanf(argv[4], "%u/%u", &w.part, &w.of) != 2 || w.part > w.of)) return 2;
    for (const char *c = argv[1]; *c; c++) w.at += (unsigned)*c;
    w.third = w.only && strcmp(w.only, "third") == 0;
    tally.stops = w.only && strcmp(w.only, "planted") == 0; /* one failure finds a mistake */
    const bool good = tally.stops ? exec_all(&tally, argv[1], argv[2], small, SMALL, halves, NULL)
                      : w.only && strcmp(w.only, "backward") == 0
                          ? exec_all(&tally, argv[1], argv[2], backward, BACKWARD, part_of, &w) &&
                                exec_all(&tally, argv[1], argv[2], behind, BEHIND, part_of, &w)
                      : w.only && strcmp(w.only, "own") == 0
                          ? exec_all(&tally, argv[1], argv[2], backward, BACKWARD, of_own, NULL)
                      : w.only && strcmp(w.only, "behind") == 0
                          ? exec_all(&tally, argv[1], argv[2], behind, BEHIND, halves, NULL)
                      : w.only && strcmp(w.only, "two") == 0
                          ? exec_all(&tally, argv[1], argv[2], two, TWO, halves, NULL)
                      : w.only && strcmp(w.only, "forward") == 0
                          ? forward_by_warps(&tally, argv[1], argv[2], &w)
                      : w.only && strcmp(w.only, "warps") == 0
                          ? by_warps(&tally, argv[1], argv[2], &w)
                          : exec_all(&tally, argv[1], argv[2], cases, CASES, in_turn, &w);
    if (good && w.only && !tally.passed && !tally.failed)
        return 77; /* no case of that name: other arguments have it */
    const bool more = good && strcmp(argv[1], "cpu") == 0 && argc == 3;
    if (more) exec_all(&tally, argv[1], argv[2], whole, WHOLE, all_types, NULL);
    if (good) return exec_report(&tally);
    const bool is_device = strchr(argv[1], ':') && !strstr(argv[1], "-ir:");
    return is_device ? 77 : 1; /* meson: skipped, there is none */
}
