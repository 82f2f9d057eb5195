/* matrix.c - the kernel IR's matrix instructions: rows of atoms.def with the types of their operands. */
#include "internal.h"

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

uint32_t kernel_matrix_count(void) { return AU_MATRICES; }

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

static const Row group_rows[AU_GROUP_MATRICES] = {
#define GROUP_MATRIX(NAME, text, atom, elem, form) {text, #atom, AU_##elem, form},
#include "atoms.def"
};

AuGroupOp kernel_group_matrix(AuGroupMatrix which)
{
    const Row *row = &group_rows[which];
    AuGroupOp op = {.text = row->text,
                    .atom = tile_atom(row->atom),
                    .scalar = row->scalar,
                    .a_turned = row->form & 2,
                    .b_turned = row->form & 1};
    machine_group_fragment(op.atom, TILE_A, 0, &op.a);
    return op;
}

static bool names_operation(AuKOp op)
{
    return op == AU_K_MATRIX_MAP || op == AU_K_MATRIX_REDUCE || op == AU_K_MATRIX_REDUCE_COLUMNS;
}

const char *kernel_imm_name(const AuKernel *k, const AuInstr *in)
{
    const uint64_t imm = (uint64_t)in->imm;
    if (in->op == AU_K_MMA) return imm < AU_MATRICES ? rows[imm].text : NULL;
    if (names_operation(in->op))
        return imm > AU_K_NONE && imm < AU_K_COUNT ? kernel_op_info((AuKOp)imm)->text : NULL;
    if (in->op == AU_K_WGMMA || in->op == AU_K_TENSOR_MUL)
        return imm < AU_GROUP_MATRICES ? group_rows[imm].text : NULL;
    if (kernel_op_info(in->op)->flags & AU_KF_COORDS)
        return imm < k->map_count ? k->maps[imm].name : NULL;
    return NULL;
}

int32_t kernel_imm_named(const AuKernel *k, AuKOp op, const char *text)
{
    if (op == AU_K_MMA) return kernel_matrix_named(text);
    const bool product = op == AU_K_WGMMA || op == AU_K_TENSOR_MUL;
    for (int32_t n = 0; n < AU_GROUP_MATRICES && product; n++)
        if (strcmp(group_rows[n].text, text) == 0) return n;
    for (int32_t n = AU_K_NONE + 1; n < AU_K_COUNT && names_operation(op); n++)
        if (strcmp(kernel_op_info((AuKOp)n)->text, text) == 0) return n;
    for (uint32_t n = 0; n < k->map_count && kernel_op_info(op)->flags & AU_KF_COORDS; n++)
        if (strcmp(k->maps[n].name, text) == 0) return (int32_t)n;
    return -1;
}

int32_t kernel_matrix_named(const char *text)
{
    for (int32_t n = 0; n < AU_MATRICES; n++)
        if (strcmp(rows[n].text, text) == 0) return n;
    return -1;
}
