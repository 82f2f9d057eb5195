/* mistakes_test.c - mistakes planted in the machine code of kernels, forward and backward, are found: by the emulator, or by wrong numbers.
 * mistakes_test SCRIPTS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "hip_emulated.h"

typedef struct Mistake {
    const char *device, *text;
    unsigned at;
    EmuMistake mistake;
    const char *said; /* NULL: only numbers are wrong */
} Mistake;

#define CDNA  "hip:0/gfx942"
#define CDNA4 "hip:4/gfx950"
#define RDNA3 "hip:1/gfx1100"
#define RDNA4 "hip:5/gfx1200"
static const Mistake mistakes[] = {
    {CDNA, "s_waitcnt lgkmcnt(0)", 0, EMU_REMOVED, "is used before the wait"},
    {CDNA, "s_waitcnt vmcnt(0)", 11, EMU_REMOVED, "is used before the wait"},
    {CDNA, "s_barrier", 0, EMU_REMOVED, "no barrier is between"},
    {CDNA, "v_mfma", 0, EMU_SWAPPED, NULL},
    {CDNA, "v_mfma", 1, EMU_SHIFTED, NULL},
    {CDNA, "ds_bpermute_b32", 0, EMU_REMOVED, NULL},
    {CDNA, "ds_write_b128", 0, EMU_REMOVED, "what nobody wrote"},
    {CDNA, "v_perm_b32", 16, EMU_SWAPPED, NULL}, /* values, turned in registers */
    {CDNA, "ds_write2_b32", 0, EMU_SWAPPED, NULL},
    {CDNA, "ds_write2_b32", 0, EMU_REMOVED, "what nobody wrote"},
    {CDNA4, "ds_read_b64_tr_b16", 0, EMU_REMOVED, NULL},
    {CDNA4, "ds_read_b64_tr_b16", 1, EMU_SHIFTED, NULL},
    {RDNA3, "s_waitcnt lgkmcnt(0)", 0, EMU_REMOVED, "is used before the wait"},
    {RDNA3, "v_wmma", 0, EMU_SWAPPED, NULL},
    {RDNA3, "v_permlanex16", 0, EMU_REMOVED, NULL},
    {RDNA4, "s_wait_dscnt 0x0", 0, EMU_REMOVED, "wait"},
    {RDNA4, "s_wait_kmcnt", 0, EMU_REMOVED, "is used before the wait"},
    {RDNA4, "v_wmma", 0, EMU_SWAPPED, NULL},
};
/* Gradients of pairs. */
static const Mistake pair_mistakes[] = {
    {CDNA, "s_waitcnt vmcnt(0)", 20, EMU_REMOVED, "is used before the wait"},
    {CDNA, "s_waitcnt lgkmcnt(0)", 20, EMU_REMOVED, "is used before the wait"}, /* of LDS */
    {CDNA, "s_barrier", 2, EMU_REMOVED, "no barrier is between"},
    {CDNA, "global_atomic_add_f32", 0, EMU_REMOVED, NULL},
    {CDNA, "v_mfma", 0, EMU_SWAPPED, NULL},
    {CDNA, "ds_write_b16", 0, EMU_REMOVED, "what nobody wrote"},
    {CDNA4, "ds_read_b64_tr_b16", 0, EMU_REMOVED, NULL},
    {RDNA3, "v_permlanex16", 0, EMU_REMOVED, "the halves of the wave hold different"},
    {RDNA4, "s_barrier_wait", 1, EMU_REMOVED, "no barrier is between"},
    {RDNA4, "s_wait_dscnt", 3, EMU_REMOVED, "is used before the wait"},
};
/* What gradients need of rows: sums over lanes, which exchange (DPP). */
static const Mistake row_mistakes[] = {
    {CDNA, "v_add_f32_dpp", 0, EMU_ALONE, NULL},
    {RDNA3, "v_mov_b32_dpp", 0, EMU_ALONE, NULL},
};
/* Of width 256: copies to LDS that no register sees. */
static const Mistake wide_mistakes[] = {
    {CDNA4, "global_load_lds_dwordx4", 8, EMU_REMOVED, NULL},
    {CDNA4, "s_waitcnt vmcnt(0)", 82, EMU_REMOVED, "no wait before the barrier"},
    {CDNA4, "s_waitcnt vmcnt(0)", 88, EMU_REMOVED, "no wait before the barrier"},
    {CDNA4, "s_barrier", 3, EMU_REMOVED, "no barrier is between"},
};
static const ExecCase wide_sample = {"mha.attn", "B=1 H=1 Hk=1 S=97 T=256 D=256 E=256", NULL,
                                     "forward"};
static const ExecCase sample = {"mha.attn", "B=1 H=1 Hk=1 S=97 T=131 D=32 E=32", NULL, "forward"};
static const ExecCase both = {"mha.attn", "B=1 H=1 Hk=1 S=97 T=131 D=32 E=32", NULL, NULL};

#define LIST(mistakes, kernel, of)                                                                 \
    {                                                                                              \
        mistakes, sizeof mistakes / sizeof *mistakes, kernel, of                                   \
    }
static const struct {
    const Mistake *mistakes;
    size_t count;
    const char *kernel; /* the end of its name */
    const ExecCase *of;
} lists[] = {
    LIST(mistakes, "_forward", &sample),
    LIST(pair_mistakes, "_backward_dkdv", &both),
    LIST(row_mistakes, "_backward_preprocess", &both),
    LIST(wide_mistakes, "_forward", &wide_sample),
};

typedef void (*Plant)(const char *kernel, const char *text, unsigned at, EmuMistake mistake);
typedef bool (*Planted)(const char **said);

static bool is_found(const Mistake *m, const char *kernel, const ExecCase *of, const char *scripts,
                     Plant plant, Planted planted)
{
    const char *said;
    ExecSuite *suite = exec_open(m->device, scripts);
    if (!suite) return false;
    plant(kernel, m->text, m->at, m->mistake);
    const bool passed = exec_run(suite, of, "f16");
    const bool there = planted(&said);
    exec_close(suite);
    const bool found = there && !passed && (!m->said || strstr(said, m->said));
    printf("%s %s, %s %u: %s\n", found ? "found: " : "MISSED:", m->device, m->text, m->at,
           !there   ? "there is none"
           : *said  ? said
           : passed ? "right numbers"
                    : "wrong numbers");
    return found;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    void *library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);
    void *symbols[2] = {NULL, NULL};
    if (library) {
        symbols[0] = dlsym(library, "hip_emulated_plant");
        symbols[1] = dlsym(library, "hip_emulated_planted");
    }
    Plant plant;
    Planted planted;
    memcpy(&plant, &symbols[0], sizeof plant);
    memcpy(&planted, &symbols[1], sizeof planted);
    if (!plant || !planted) {
        printf("libamdhip64.so.6 is not the emulated one\n");
        return 1;
    }
    unsigned missed = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t n = 0; n < lists[l].count; n++)
            missed += !is_found(&lists[l].mistakes[n], lists[l].kernel, lists[l].of, argv[1], plant,
                                planted);
    printf("%u missed\n", missed);
    return missed != 0;
}
