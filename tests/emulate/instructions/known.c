/* known.c - names in the emulator's tables. Memory and matrices are not single numbers: random kernels, scripts and tests/kernel/matrix_test.c try them. */
#include "known.h"

#include "inside.h"

static const Op *known(unsigned n)
{
    static const Op *const tables[] = {scalar_ops, vector_ops, special_ops};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const Op *op = tables[t]; op->name; op++)
            if (n-- == 0) return op;
    return NULL;
}

const char *known_name(unsigned n) { return known(n) ? known(n)->name : NULL; }

bool known_without_meaning(unsigned n)
{
    static const char *const control[] = {"s_branch",       "s_cbranch_",
                                          "s_endpgm",       "s_barrier",
                                          "s_set_gpr_idx_", "s_setpc_b64",
                                          "s_getpc_b64",    "v_movrel",
                                          "v_accvgpr_read" /* tried behind v_accvgpr_write */};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        if (strncmp(known(n)->name, control[i], strlen(control[i])) == 0) return true;
    return false;
}
