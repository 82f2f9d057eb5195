/* matrix.c - the table of matrix instructions (matrix.def), and where the elements of a fragment
 * lie. */
#include "kernel.h"

#include <string.h>

const AuMatrixOp *kernel_matrix(AuMatrix which)
{
    // clang-format off
    static const AuMatrixOp rows[AU_MATRICES] = {
#define MATRIX(NAME, text, m, n, k, ab, a, b, c_scalar, c, at_a, at_b, at_c) \
        {text, m, n, k, {{AU_##ab, a}, {AU_##ab, b}, {AU_##c_scalar, c}}, {at_a, at_b, at_c}},
#include "matrix.def"
#undef MATRIX
    };
    // clang-format on
    return (uint32_t)which < AU_MATRICES ? &rows[which] : NULL;
}

int32_t kernel_matrix_named(const char *text)
{
    for (int32_t n = 0; n < AU_MATRICES; n++)
        if (strcmp(kernel_matrix((AuMatrix)n)->text, text) == 0) return n;
    return -1;
}

void kernel_matrix_place(const AuMatrixOp *op, AuMatrixOperand which, uint32_t lane,
                         uint32_t element, uint32_t *row, uint32_t *column)
{
    const uint32_t of_element = (uint32_t)__builtin_ctz(op->types[which].width);
    uint32_t bits = element | lane << of_element;
    *row = *column = 0;
    for (const char *at = op->places[which]; *at && bits; bits >>= 1) {
        uint32_t *moved = *at++ == 'r' ? row : column, step = 0;
        for (; *at >= '0' && *at <= '9'; at++) step = step * 10 + (uint32_t)(*at - '0');
        if (bits & 1) *moved += step;
        at += *at == ' ';
    }
}
