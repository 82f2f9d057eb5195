/* matrix.c - the kernel IR's matrix instructions: rows of atoms.def with the types of their operands. */
#include "kernel.h"

#include <string.h>

typedef struct Row {
    const char *text, *atom;
    AuScalar scalar;
    int form;
} Row;

static const Row rows[AU_MATRICES] = {
#define MATRIX(NAME, text, atom, elem, form) {text, #atom, AU_##elem, form},
#include "atoms.def"
};

AuMatrixOp kernel_matrix(AuMatrix which)
{
    const Row *row = &rows[which];
    AuMatrixOp op = {.text = row->text, .atom = tile_atom(row->atom)};
    for (int n = 0; n < 3; n++) {
        const bool turned = n < 2 && ((row->form >> (1 - n)) & 1); /* forms: 1 of B, 2 of A */
        if (!machine_fragment(op.atom, (AuTileUse)n, turned, &op.at[n])) continue;
        op.types[n] = (AuKType){(uint8_t)(n == AU_MATRIX_C ? AU_F32 : row->scalar),
                                (uint8_t)(1 << op.at[n].element_bits)};
    }
    return op;
}

int32_t kernel_matrix_named(const char *text)
{
    for (int32_t n = 0; n < AU_MATRICES; n++)
        if (strcmp(rows[n].text, text) == 0) return n;
    return -1;
}
