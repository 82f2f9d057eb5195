/* emulate_test.c - whole scripts through the backend hip on emulated machines (hip_emulated.c), against the oracle: emulate_test SCRIPTS WHICH.
 * WHICH: quick, generic (ISAs of several machines), widths (the widest and the narrowest, a machine each), adds (what no product is for), narrow (products of 16 columns), or the number of a device, which takes all cases. */
#include "exec.h"
#include "hip_emulated.h"

#include <stdio.h>
#include <string.h>

// clang-format off
enum { GFX942 = 0, GFX908 = 2, GFX90A = 3, GFX950 = 4, GFX1030 = 6 }; /* of these */
static const char *const devices[] = {"hip:0/gfx942", "hip:1/gfx1100", "hip:2/gfx908", "hip:3/gfx90a", "hip:4/gfx950", "hip:5/gfx1200", "hip:6/gfx1030",
                                      "hip:0/gfx9-4-generic", "hip:4/gfx9-4-generic", "hip:6/gfx10-3-generic", "hip:1/gfx11-generic", "hip:5/gfx12-generic"};
enum { DEVICES = sizeof devices / sizeof *devices, MACHINES = 7, DIRECT = 4 };

static const ExecCase quick[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=57 D=32 E=32", NULL, "nan odd"},
};
static const ExecCase all[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=33 T=57 D=64 E=64", NULL, "nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=64 E=64", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=2 S=70 T=23 D=128 E=64", NULL, "nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=37 T=97 D=40 E=72", NULL, "big"},
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=130 D=64 E=64", NULL, "nan"},
    {"gemma_local.attn", "B=1 H=2 Hk=2 S=60 T=140 D=64 E=64", "window=50", "big"},
    {"documents_bias_sink.attn", "B=1 H=2 S=90 T=90 D=64 E=64", NULL, "sorted"},
    {"grouped_documents.attn", "B=1 heads=4 parts=2 S=50 T=50 D=64 E=64", NULL, "sorted"},
    {"dropout.attn", "B=2 H=2 Hk=1 S=67 T=67 D=64 E=64", "rate=0.25 seed=1234567", NULL},
    {"gated_qknorm.attn", "B=1 H=4 Hk=2 S=50 T=83 D=64", NULL, NULL},
    {"mla_train.attn", "B=1 H=2 S=60 T=75 D=64 E=64 P=32", NULL, NULL},
    {"sigmoid.attn", "B=1 H=1 S=43 T=41 D=64 E=16", NULL, "big"},
    {"relu.attn", "B=1 H=2 S=50 T=70 D=64 E=64", NULL, "odd"},
    {"softmax_spelled_out.attn", "B=1 H=1 Hk=1 S=37 T=47 D=64 E=64", NULL, NULL},
    {"hidden_units.attn", "B=1 H=1 S=40 T=50 D=64 E=64", NULL, NULL},
    {"../../exec/scripts/empty_rows.attn", "B=1 H=2 S=30 T=50 D=64 E=64", NULL, "repeat"},
    {"mha.attn", "B=1 H=2 Hk=1 S=64 T=64 D=64 E=64", NULL, "poison"},
    {"mha.attn", "B=1 H=2 Hk=1 S=19 T=67 D=256 E=256", NULL, "nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=41 T=37 D=256 E=16", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=2 S=43 T=35 D=16 E=16", NULL, "nan odd"},
    {"mha.attn", "B=1 H=2 Hk=1 S=45 T=70 D=128 E=128", NULL, "nan odd"},
};
/* Products of 16 columns, where 32 do not divide the widths. */
static const ExecCase narrow[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=45 T=70 D=48 E=80", NULL, "nan odd"},
    {"mha.attn", "B=1 H=2 Hk=1 S=37 T=41 D=16 E=16", NULL, "huge"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 S=50 T=50 D=112 E=48", NULL, "odd"},
    {"../../../attn_scripts/documents.attn", "B=1 H=1 S=90 D=80 E=80", NULL, "sorted"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=37 T=67 D=16 E=48", "rate=0.25 seed=1234567", NULL},
};
static const ExecCase widths[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=37 D=256 E=256", NULL, "nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=17 T=35 D=16 E=40", NULL, "nan odd"},
};
/* What no product of matrices is for: a width of 512, of which a lane's arrays are in scratch memory, and gfx1030, bf16 by multiply-adds, f16 by
 * products of pairs. */
static const ExecCase adds[] = {
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=19 D=512 E=512", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=1 S=9 T=35 D=64 E=64", NULL, "nan odd"},
    {"mha.attn", "B=1 H=2 Hk=1 S=9 T=35 D=64 E=64", NULL, "nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=37 T=41 D=16 E=40", NULL, "big"},
};
/* Of gfx1030: products of pairs of channels and of keys; rows that mods change, weights that are no parts of a sum, masks. */
static const ExecCase pairs[] = {
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=37 T=43 D=32", NULL, NULL},
    {"sigmoid.attn", "B=1 H=1 S=43 T=41 D=32 E=16", NULL, "big"},
    {"documents_bias_sink.attn", "B=1 H=2 S=50 T=50 D=32 E=32", NULL, "sorted"},
    {"../../exec/scripts/empty_rows.attn", "B=1 H=2 S=30 T=50 D=32 E=32", NULL, "repeat"},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=32 P=32", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=32 E=32", NULL, NULL},
};
/* Of gfx950: tiles that no register sees, and the borders of such. */
static const ExecCase direct[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=290 D=128 E=128", NULL, "nan forward"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=2 Hk=2 S=150 T=300 D=96 E=144", "window=140", "forward"},
    {"../../../attn_scripts/documents.attn", "B=1 H=1 S=300 D=128 E=128", NULL, "sorted forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=200 D=192 E=128", NULL, "odd forward"},
};
// clang-format on

/* Operand types in turns: a device's second case is of another than its first. */
static const char *choose(const void *of, unsigned n, unsigned turn)
{
    static const char *const types[] = {"f16", "bf16", "f32"};
    const unsigned first = *(const unsigned *)of;
    return turn ? NULL : types[(first + n) % 3];
}

static int run_types(ExecTally *tally, unsigned device, const char *scripts, const ExecCase *cases,
                     unsigned count, unsigned first)
{
    printf("%s\n", devices[device]);
    if (exec_all(tally, devices[device], scripts, cases, count, choose, &first)) return 0;
    printf("there is no device %s\n", devices[device]);
    return 1;
}

static int run(ExecTally *tally, unsigned device, const char *scripts, const ExecCase *cases,
               unsigned count)
{
    return run_types(tally, device, scripts, cases, count, device);
}

static int run_adds(ExecTally *tally, const char *scripts)
{
    enum { F16, BF16 };
    return run_types(tally, GFX942, scripts, &adds[0], 1, BF16) |
           run_types(tally, GFX1030, scripts, &adds[1], 1, BF16) |
           run_types(tally, GFX1030, scripts, &adds[2], 1, F16) |
           run_types(tally, GFX1030, scripts, &adds[3], 1, F16);
}

/* Every case in f16. */
static int run_pairs(ExecTally *tally, const char *scripts)
{
    int missing = 0;
    for (unsigned n = 0; n < sizeof pairs / sizeof *pairs; n++)
        missing |= run_types(tally, GFX1030, scripts, &pairs[n], 1, 0);
    return missing;
}

/* CDNA 1 to 3, and gfx950. */
static int run_narrow(ExecTally *tally, const char *scripts)
{
    static const unsigned on[] = {GFX942, GFX90A, GFX950, GFX908};
    int missing = 0;
    for (unsigned n = 0; n < sizeof on / sizeof *on; n++)
        missing |= run_types(tally, on[n], scripts, narrow, sizeof narrow / sizeof *narrow, n);
    return missing;
}

/* What the emulator executes in a second of a processor, of all launches. */
static void print_speed(const EmuCounts *counts)
{
    if (counts->seconds > 0)
        printf("%.0f million lane-instructions in %.1f s of a processor: %.1f million a second\n",
               (double)counts->lanes / 1e6, counts->seconds,
               (double)counts->lanes / 1e6 / counts->seconds);
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    EmuCounts counts = {.lanes = 0};
    HipEmulatedCount *count = hip_emulated_counter();
    if (count) count("", &counts);
    int missing = 0;
    unsigned device = 0;
    if (argc < 3) return 2;
    const bool generic = strcmp(argv[2], "generic") == 0;
    if (strcmp(argv[2], "widths") == 0)
        for (unsigned n = 0; n < 2; n++) missing |= run(&tally, n, argv[1], &widths[n], 1);
    else if (strcmp(argv[2], "pairs") == 0)
        missing = run_pairs(&tally, argv[1]);
    else if (strcmp(argv[2], "adds") == 0)
        missing = run_adds(&tally, argv[1]);
    else if (strcmp(argv[2], "narrow") == 0)
        missing = run_narrow(&tally, argv[1]);
    else if (strcmp(argv[2], "direct") == 0)
        missing = run(&tally, DIRECT, argv[1], direct, sizeof direct / sizeof *direct);
    else if (sscanf(argv[2], "%u", &device) == 1 && device < DEVICES)
        missing = run(&tally, device, argv[1], all, sizeof all / sizeof *all);
    else
        for (unsigned n = generic ? MACHINES : 0; n < (generic ? DEVICES : MACHINES); n++)
            missing |= run(&tally, n, argv[1], quick, sizeof quick / sizeof *quick);
    const int status = exec_report(&tally);
    print_speed(&counts);
    return missing ? 1 : status;
}
