/* loops_test.c - what the main loops of kernels for AMD's GPUs execute, by the emulator's counts: loops_test SCRIPTS [WORD...]. A line for each
 * configuration whose words are all of those given ("gfx942", "forward", "mha", "f16", "64"); tests/emulate/loops.py makes a table of them.
 * Those of f32 and of gfx1030, which no matrix unit multiplies, only where a word asks for them; there gradients of queries have a kernel of their own.
 *
 * A kernel runs on three lengths. What it executes is a polynomial of the second degree in the length n of queries and keys, of which the
 * second difference, f(3n) - 2 f(2n) + f(n), is what n x n pairs cost, without masks, borders, what begins and what ends a block. Results
 * are compared with the oracle as everywhere. Numbers are of 32 x 32 pairs, instructions of a wave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "hip_emulated.h"

enum { PAIRS = 32 * 32 };

typedef struct Configuration {
    const char *script, *dtype;
    int width;
} Configuration;

// clang-format off
typedef struct Machine {
    const char *name, *device;
    bool has_no_units;
} Machine;
static const Machine devices[] = {{"gfx908", "hip:2", false}, {"gfx90a", "hip:3", false}, {"gfx942", "hip:0", false}, {"gfx950", "hip:4", false},
                                  {"gfx1100", "hip:1", false}, {"gfx1200", "hip:5", false}, {"gfx1030", "hip:6", true}};
static const char *const kernels[][2] = {{"forward", "_forward"}, {"backward", "_dkdv"}, {"queries", "_dq"}};
static const Configuration all[] = {{"mha", "f16", 32}, {"mha", "f16", 64}, {"mha", "f16", 128}, {"mha", "bf16", 64}, {"mha", "bf16", 128},
                                    {"softcap", "f16", 64}, {"softcap", "f16", 128}, {"mha", "f32", 64}, {"mha", "f32", 128},
                                    {"mha", "f16", 80}, {"mha", "f16", 96}, {"mha", "f16", 160}, {"mha", "f16", 192}, {"mha", "f16", 256}};
// clang-format on

static bool multiplies_matrices(const Machine *m, const Configuration *c)
{
    return !m->has_no_units && strcmp(c->dtype, "f32") != 0;
}

static bool is_wanted(char **words, int count, const char *line)
{
    for (int n = 0; n < count; n++) {
        const char *at = strstr(line, words[n]);
        const size_t length = strlen(words[n]);
        while (at && ((at > line && at[-1] != ' ') || (at[length] && at[length] != ' ')))
            at = strstr(at + 1, words[n]);
        if (!at) return false;
    }
    return true;
}

/* Widths of the table. */
static bool is_usual(int width) { return width == 32 || width == 64 || width == 128; }

/* Kernels to measure of a configuration: of those that the table does not have, where words name the machine, the type or the width. */
static int kernels_of(const Machine *m, const Configuration *c, char **words, int count)
{
    const bool units = multiplies_matrices(m, c);
    bool named = units && is_usual(c->width);
    for (int n = 0; n < count; n++)
        named = named || (units ? atoi(words[n]) == c->width
                                : strcmp(words[n], m->has_no_units ? m->name : c->dtype) == 0);
    return !named ? 0 : units ? 2 : 3;
}

/* Whole tiles of all kernels: forward has some of 96 and of 48 keys, and blocks of 256 rows. */
static int length_of(const Machine *m, const Configuration *c, int kernel)
{
    return kernel || !multiplies_matrices(m, c) ? 256 : 768;
}

/* By how much each count grows more than in step, for [PAIRS]. */
static double grown(int length, uint64_t one, uint64_t two, uint64_t three)
{
    return ((double)three - 2. * (double)two + (double)one) * PAIRS / (length * length);
}

static bool measure(ExecSuite *suite, const Machine *m, const Configuration *c, int kernel,
                    HipEmulatedCount *count, const char *line)
{
    EmuCounts at[3] = {{.lanes = 0}};
    const int step = length_of(m, c, kernel);
    for (int n = 0; n < 3; n++) {
        char script[64], sizes[96];
        const int length = (n + 1) * step;
        snprintf(script, sizeof script, "%s.attn", c->script);
        snprintf(sizes, sizeof sizes, "B=1 H=1 Hk=1 S=%d T=%d D=%d E=%d", length, length, c->width,
                 c->width);
        const ExecCase sample = {script, sizes, NULL, kernel ? NULL : "forward"};
        count(kernels[kernel][1], &at[n]);
        const bool passed = exec_run(suite, &sample, c->dtype);
        count("", NULL);
        if (!passed) return false;
    }
    printf("%s:", line);
    double matrix = 0, other = 0;
    for (int n = 0; n < EMU_CLASSES; n++) {
        printf(" %.1f",
               grown(step, at[0].instructions[n], at[1].instructions[n], at[2].instructions[n]));
        const double cycles = grown(step, at[0].cycles[n], at[1].cycles[n], at[2].cycles[n]);
        *(n == EMU_MATRIX ? &matrix : &other) += cycles;
    }
    printf(" %.1f %.1f %.1f %.1f %.1f\n",
           grown(step, at[0].narrow_reads, at[1].narrow_reads, at[2].narrow_reads), matrix, other,
           grown(step, at[0].bank_cycles, at[1].bank_cycles, at[2].bank_cycles),
           grown(step, at[0].conflicts, at[1].conflicts, at[2].conflicts));
    fflush(stdout);
    return (matrix > 0) == multiplies_matrices(m, c);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    HipEmulatedCount *count = hip_emulated_counter();
    if (!count) {
        printf("libamdhip64.so.6 is not the emulated one\n");
        return 1;
    }
    unsigned failed = 0, measured = 0;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        const Machine *m = &devices[d];
        ExecSuite *suite = NULL;
        for (size_t n = 0; n < sizeof all / sizeof *all; n++)
            for (int kernel = 0; kernel < kernels_of(m, &all[n], argv + 2, argc - 2); kernel++) {
                char line[96];
                snprintf(line, sizeof line, "%s %s %d %s %s", all[n].script, all[n].dtype,
                         all[n].width, kernels[kernel][0], m->name);
                if (!is_wanted(argv + 2, argc - 2, line)) continue;
                if (!suite) suite = exec_open(m->device, argv[1]);
                measured++;
                failed += !suite || !measure(suite, m, &all[n], kernel, count, line);
            }
        if (suite) exec_close(suite);
    }
    if (!measured) printf("no such configuration\n");
    return failed || !measured;
}
