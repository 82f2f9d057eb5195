/* matrices_test.c - scripts whose forward kernels are of cooperative matrices, on a device: matrices_test DEVICE/ARCHITECTURE SCRIPTS. Widths
 * are small, for a device's compiler that takes long over matrices. */
#include "exec.h"

#include <stddef.h>

// clang-format off
static const ExecCase cases[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=70 T=90 D=16 E=16", NULL, "nan odd forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=7 D=16 E=16", NULL, "poison forward"},
    {"documents_bias_sink.attn", "B=1 H=2 S=70 T=70 D=16 E=16", NULL, "sorted forward"},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=16 E=8 P=8", NULL, "forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=33 T=40 D=16 E=16", NULL, "nan"},
};
// clang-format on

static const char *as_f16(const void *of, unsigned n, unsigned turn)
{
    (void)of, (void)n;
    return turn ? NULL : "f16";
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc < 3) return 2;
    if (!exec_all(&tally, argv[1], argv[2], cases, sizeof cases / sizeof *cases, as_f16, NULL))
        return 77;
    return exec_report(&tally);
}
