/* scripts_test.c - every softmax-family script of the examples, over the hard shapes, in every
 * operand type, on one device. scripts_test DEVICE SCRIPTS [turns|quick|more|rest] [NAME]      DEVICE: cpu, opencl:0, ...
 * turns: of each case one type, another at each; quick: every other of those; more: the others of those, and of each case another
 * type; rest: all that are not quick.
 * NAME: of scripts, or one of the words of the case. `planted` alone: mistakes that the cases must find.
 */
#include "exec.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define PAIR_BIAS "../../../attn_scripts/pair_bias.attn"
#define SOFTCAP   "../../../attn_scripts/softcap.attn"
#define SEED      "../../exec/scripts/dropout_input.attn"
#define UNSEEN    "../../exec/scripts/unseen.attn"
#define CROSS     "../../../attn_scripts/cross.attn"
#define LOW       "../../exec/sums/low.attn"
#define SIMPLE    "../../exec/scripts/simplified.attn"
#define CHOSEN    "../../exec/scripts/chosen.attn"
#define CONSTANT  "../../exec/scripts/constant_end.attn"
#define NO_SCALES "../../exec/scripts/no_scales.attn"
#define EMPTY     "../../exec/scripts/empty_rows.attn"
#define EMPTY_OF_PLAIN "../../exec/scripts/empty_plain_rows.attn"
#define MANY      "../../exec/scripts/many_units.attn"
#define NEGATED   "../../exec/scripts/negated_statistic.attn"
#define FAR_SINK  "../../exec/scripts/far_sink.attn"
#define LEFT      "../../exec/scripts/window_of_left.attn"
#define BAND      "../../exec/scripts/band.attn"
static const ExecCase cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=64 T=64 D=64 E=64", NULL, NULL},
    {"mha.attn", "B=2 H=4 Hk=2 S=33 T=57 D=64 E=64", NULL, "nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=64 E=64", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=2 S=70 T=23 D=64 E=64", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=1 S=131 T=257 D=64 E=32", NULL, "heads_inside"},
    {"mha.attn", "B=1 H=1 Hk=1 S=97 T=97 D=40 E=72", NULL, "big"},
    {"mha.attn", "B=1 H=1 Hk=1 S=65 T=129 D=8 E=8", NULL, "huge"},
    {"mha.attn", "B=1 H=1 Hk=1 S=40 T=40 D=256 E=256", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=200 T=200 D=192 E=128", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=0 T=5 D=16 E=16", NULL, NULL}, /* nothing to do */
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=4 T=0 D=16", NULL, NULL}, /* no keys */
    {"mha.attn", "B=0 H=2 Hk=1 S=4 T=7 D=16 E=16", NULL, NULL},
    {"softmax_spelled_out.attn", "B=1 H=2 Hk=1 S=77 T=77 D=64 E=64", NULL, NULL},
    {"gemma_local.attn", "B=1 H=4 Hk=2 S=150 T=150 D=64 E=64", "window=40", NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=200 T=70 D=64 E=64", "window=1", NULL},
    {BAND, "B=1 H=2 Hk=1 S=200 T=230 D=64 E=64", "window=2147483647 left=2147483000 right=2147483020 fall=2000000000", NULL},
    {BAND, "B=1 H=2 Hk=1 S=230 T=200 D=64 E=64", "window=1073741824 left=50 right=70 fall=150", "nan"},
    {LEFT, "B=1 H=1 Hk=1 Hv=1 S=1 T=37 D=16 E=16", "left=5", NULL},
    {LEFT, "B=2 H=4 Hk=2 Hv=1 S=200 T=200 D=32 E=16", "left=5", NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=60 T=260 D=64 E=64", "window=100", "big"},
    /* tanh of what is near 0 in some tiles and not in others (passes/tanh.c); of what is always far, and never */
    {SOFTCAP, "B=1 H=2 Hk=1 S=150 T=190 D=64 E=64", "cap=3.0", "odd"},
    {SOFTCAP, "B=1 H=2 Hk=2 S=70 T=97 D=128 E=64", "cap=0.125", "big"},
    {SOFTCAP, "B=1 H=2 Hk=1 S=40 T=33 D=64 E=64", "cap=30000.0", "poison"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=64 E=64", NULL, "sorted"},
    {"documents_bias_sink.attn", "B=1 H=1 S=1 T=1 D=64 E=64", NULL, "sorted"},
    {"documents_bias_sink.attn", "B=1 H=2 S=200 T=200 D=32 E=64", NULL, "sorted odd"},
    {"grouped_documents.attn", "B=2 heads=4 parts=2 S=150 T=150 D=64 E=64", NULL, "sorted"},
    {"dropout.attn", "B=2 H=2 Hk=1 S=67 T=67 D=64 E=64", "rate=0.25 seed=1234567", NULL},
    {"dropout.attn", "B=1 H=1 Hk=1 S=20 T=30 D=64 E=64", "rate=0.0 seed=-5", NULL},
    {"gated_qknorm.attn", "B=1 H=4 Hk=2 S=50 T=83 D=64", NULL, NULL},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=33 T=33 D=128", "theta=10000.0", "odd"},
    {"mla_train.attn", "B=1 H=2 S=60 T=75 D=64 E=64 P=32", NULL, NULL},
    {"mla_train.attn", "B=2 H=3 S=17 T=17 D=128 E=64 P=64", NULL, "nan"},
    {"mla_decode.attn", "B=2 H=4 S=3 T=130", NULL, NULL},
    {"mla_decode.attn", "B=1 H=1 S=1 T=1", NULL, NULL},
    {"sigmoid.attn", "B=1 H=2 S=100 T=100 D=64 E=64", NULL, NULL},
    {"sigmoid.attn", "B=1 H=1 S=13 T=41 D=64 E=16", NULL, "big"},
    {"relu.attn", "B=1 H=2 S=100 T=130 D=64 E=64", NULL, "odd"},
    {"relu.attn", "B=1 H=1 S=1 T=200 D=64 E=64", NULL, NULL},
    {"retention.attn", "B=1 H=2 S=90 T=90 D=64 E=64", NULL, NULL},
    {"retention.attn", "B=1 H=2 S=50 T=75 D=64 E=64", NULL, NULL},
    {"retention_decay.attn", "B=1 H=3 S=140 T=140 D=64 E=128", NULL, NULL},
    {"hidden_units.attn", "B=1 H=2 S=40 T=70 D=64 E=64", NULL, NULL},
    {MANY, "B=1 H=2 S=40 T=70 D=64 E=64", NULL, NULL},
    /* rows, and parts of rows, far below 0 */
    {PAIR_BIAS, "B=1 H=2 S=170 D=64 E=64", NULL, "far_back"},
    {PAIR_BIAS, "B=1 H=2 S=150 D=64 E=64", NULL, "far_front dfinals"},
    {PAIR_BIAS, "B=1 H=2 S=130 D=64 E=64", NULL, "far_head"},
    {PAIR_BIAS, "B=1 H=2 S=130 D=64 E=64", NULL, "far_all flat dfinals"},
    {PAIR_BIAS, "B=1 H=1 S=70 D=128 E=128", NULL, "far_all"},
    {"documents_bias_sink.attn", "B=1 H=2 S=90 T=90 D=64 E=64", NULL, "sorted far_head"},
    {FAR_SINK, "B=1 H=2 S=130 D=64 E=64", NULL, "far_head flat"},
    {FAR_SINK, "B=1 H=2 S=90 D=64 E=64", NULL, "far_all dfinals"},
    /* weights of 2^-20, 2^-26 */
    {LOW, "B=1 H=2 S=130 T=190 D=64 E=64", "offset=-14.0", "scaled"},
    {LOW, "B=1 H=2 S=130 T=70 D=128 E=128", "offset=-18.0", "scaled"},
    /* simplified, fewer numbers need be kept than it seems */
    {SIMPLE, "B=1 H=2 S=50 T=60 D=64", NULL, NULL},
    {SIMPLE, "B=1 H=1 S=20 T=30 D=32", NULL, NULL},
    {CHOSEN, "B=1 H=2 S=40 D=64 E=64", NULL, NULL},
    {CONSTANT, "B=1 H=2 S=40 T=50 D=64 E=64", "p=2.5 reach=37", "forward"},
    {NO_SCALES, "B=1 H=2 S=40 T=50 D=64 E=64", "reach=30", NULL},
    {NO_SCALES, "B=1 H=2 S=3 T=150 D=64 E=64", "reach=30", NULL},
    /* rows without a pair */
    {EMPTY, "B=2 H=2 S=90 T=70 D=64 E=64", NULL, "long unseen"},
    {EMPTY, "B=1 H=2 S=30 T=50 D=64 E=64", NULL, "repeat"},
    {EMPTY_OF_PLAIN, "B=1 H=2 S=3 T=0 D=64 E=64", NULL, NULL},
    {EMPTY_OF_PLAIN, "B=1 H=2 S=90 T=40 D=64 E=64", NULL, "driver"},
    /* what compilers of drivers got wrong */
    {NEGATED, "B=1 H=2 S=50 T=60 D=64 E=64", NULL, "driver"},
    /* NaN reaches its row, and no other */
    {"mha.attn", "B=1 H=2 Hk=1 S=64 T=64 D=64 E=64", NULL, "poison"},
    {PAIR_BIAS, "B=1 H=2 S=97 D=64 E=64", NULL, "poison"},
    /* and where no query looks, nobody */
    {"mha.attn", "B=1 H=2 Hk=1 S=300 T=305 D=64 E=64", NULL, "later"},
    {"mha.attn", "B=1 H=2 Hk=1 S=300 T=293 D=64 E=128", NULL, "later odd"},
    {"mha.attn", "B=2 H=2 Hk=1 S=170 T=37 D=64 E=64", NULL, "unseen"},
    {"gemma_local.attn", "B=1 H=4 Hk=2 S=150 T=330 D=64 E=64", "window=70", "unseen"},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=90 T=190 D=64 E=64", "window=33", "unseen repeat"},
    {CROSS, "B=2 H=2 S=90 T=150 D=64 E=64", NULL, "unseen long"},
    {UNSEEN, "B=1 H=4 Hk=2 S=200 T=190 D=64 E=64 P=16", NULL, "unseen"},
    {"gemma_local.attn", "B=3 H=4 Hk=2 S=200 T=200 D=64 E=64", "window=70", "repeat"},
    {"documents_bias_sink.attn", "B=3 H=3 S=150 T=150 D=32 E=32", NULL, "repeat sorted"},
    {"gated_qknorm.attn", "B=2 H=4 Hk=2 S=150 T=150 D=64", NULL, "repeat"},
    {"mla_train.attn", "B=2 H=3 S=150 T=150 D=32 E=32 P=32", NULL, "repeat"},
    /* kernels for few queries */
    {"mha.attn", "B=1 H=4 Hk=2 S=1 T=300 D=64 E=64", NULL, "odd"},
    {"mha.attn", "B=2 H=2 Hk=1 S=3 T=1000 D=64 E=64", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=1 S=16 T=257 D=64 E=32", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=17 T=130 D=128 E=128", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=2 S=1 T=2000 D=128 E=128", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=16 T=40 D=256 E=256", NULL, NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=32 T=400 D=64 E=64", "window=50", NULL},
    {"documents_bias_sink.attn", "B=2 H=2 S=17 T=17 D=64 E=64", NULL, "sorted far_head"},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=3 T=170 D=64", NULL, NULL},
    {"mla_decode.attn", "B=2 H=4 S=1 T=300", NULL, NULL},
    {"dropout.attn", "B=1 H=2 Hk=1 S=16 T=150 D=64 E=64", "rate=0.25 seed=7", NULL},
    {"sigmoid.attn", "B=1 H=1 S=3 T=300 D=64 E=64", NULL, NULL},
    {PAIR_BIAS, "B=1 H=2 S=31 D=64 E=64", NULL, "far_front"},
    {PAIR_BIAS, "B=1 H=2 S=31 D=64 E=64", NULL, "poison"},
    {SEED, "B=2 H=2 Hk=1 S=67 T=83 D=64 E=64", "rate=0.25", "repeat"},
};
/* Whose gradients are to be found wrong. */
#define LSE_ALONE "../../exec/scripts/lse_alone.attn"
static const ExecCase planted[] = {
    {LSE_ALONE, "B=1 H=2 S=130 D=64 E=64", NULL, "far_all flat"},
    {LSE_ALONE, "B=1 H=2 S=130 D=64 E=64", NULL, "far_all flat dfinals"},
    {LSE_ALONE, "B=1 H=2 S=130 D=64 E=64", NULL, "far_head flat"},
};
// clang-format on

static bool is_named(const ExecCase *c, const char *name)
{
    return strstr(c->script, name) || (c->how && strstr(c->how, name));
}

/* Drivers take seconds to build backward kernels: the quick round takes gradients of each twelfth case, and of those
 * that are there for an OpenCL device's compiler; `slow` has all. */
static ExecCase lighter(const ExecCase *c, const char *device, unsigned n, char how[64])
{
    ExecCase light = *c;
    snprintf(how, 64, "%s forward", c->how ? c->how : "");
    const bool slow = strncmp(device, "opencl", 6) == 0 || strncmp(device, "vulkan", 6) == 0 ||
                      strncmp(device, "levelzero", 9) == 0;
    if (slow && n % 12 && !is_named(c, "driver")) light.how = how;
    return light;
}

/* f32 multiplied as tf32: where there are units for it; not so wide heads, nor sums of inputs in one order, nor products of
 * whose gradients the backward has no kernels there (E0811). */
static bool takes_tf32(const ExecCase *c, const char *device)
{
    return strncmp(device, "cuda", 4) == 0 && strcmp(c->script, "mla_decode.attn") != 0 &&
           strcmp(c->script, UNSEEN) != 0 && !(c->how && strstr(c->how, "repeat"));
}

/* Kernels of GPUs write out their loops over pairs, and so many gradients make too long ones (E0813). */
static bool is_short_enough(const ExecCase *c, const char *device)
{
    return strcmp(c->script, MANY) != 0 || strcmp(device, "cpu") == 0;
}

/* Is each planted case found wrong, and right near 0? */
static bool finds_planted(ExecSuite *suite)
{
    bool good = true;
    for (unsigned n = 0; n < sizeof planted / sizeof *planted; n++) {
        ExecCase near = planted[n];
        near.how = NULL;
        good &= exec_run(suite, &near, "f32");
        const bool right = exec_run(suite, &planted[n], "f32");
        if (right) fprintf(stderr, "%s: nothing is found wrong\n", planted[n].how);
        good &= !right;
    }
    return good;
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", "tf32"};
    if (argc < 3) return 2;
    int at = 3;
    const bool turns = argc > at && strcmp(argv[at], "turns") == 0 && ++at,
               quick = argc > at && strcmp(argv[at], "quick") == 0 && ++at,
               more = argc > at && strcmp(argv[at], "more") == 0 && ++at,
               rest = argc > at && strcmp(argv[at], "rest") == 0 && ++at;
    const char *only = argc > at ? argv[at] : NULL; /* scripts whose name has this */
    ExecSuite *suite = exec_open(argv[1], argv[2]);
    if (!suite) return 77; /* meson: skipped */
    ExecTally tally = {0};
    if (only && strcmp(only, "planted") == 0) {
        const bool found = finds_planted(suite);
        exec_close(suite);
        return !found;
    }
    for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++)
        for (unsigned d = 0; d < 4; d++) {
            const bool in_turn = d == n % 3, for_driver = is_named(&cases[n], "driver"),
                       is_quick = in_turn && (n % 2 == 0 || for_driver);
            if ((turns && !in_turn) || (quick && !is_quick) || (rest && is_quick)) continue;
            if (more && (is_quick || d == (n + 2) % 3)) continue;
            if (only && !is_named(&cases[n], only)) continue;
            if (d == 3 && !takes_tf32(&cases[n], argv[1])) continue;
            if (!is_short_enough(&cases[n], argv[1])) continue;
            char how[64];
            const ExecCase light = lighter(&cases[n], argv[1], n, how);
            if (!exec_is_in_part(&tally)) continue;
            const bool right = exec_run(suite, quick || turns ? &light : &cases[n], dtypes[d]);
            *(right ? &tally.passed : &tally.failed) += 1;
        }
    exec_close(suite);
    return exec_report(&tally);
}
