/* matrix.h - a product by the matrix instructions of a warp (matrix.c), and in what order lanes take its operands (matrix_order.c). */
#ifndef AU_LOWER_MATRIX_H
#define AU_LOWER_MATRIX_H

#include "internal.h"

enum {
    MATRIX_VECTOR = 16,
    MATRIX_ROWS = 8
}; /* bytes of a row of a matrix that load_matrix reads; its rows */

/* An operand in a tensor: along its free axis, and along the other; or a row of numbers, along its one. */
typedef struct MatrixView {
    int32_t sides;
    uint32_t dimension[2]; /* of the memory */
    AuVal first, at[2];    /* of the element that the lane's first register has: where it lies */
    bool tested;
} MatrixView;

typedef struct MatrixOperand {
    const AuTileExpr *e;
    AuTileUse use;
    const char *free_name, *k_name;
    int32_t free_extent, depth;
    AuTileAxis free_axis, k_axis; /* as the instruction has them, over the whole tile */
    AuPiece piece;                /* of a lane, for one instruction */
    int32_t step;                 /* elements along k that are read at once */
    bool by_ldmatrix, transposed;
    bool turned; /* as the other form of the instruction has it */
    bool
        crossed; /* of four registers along k the second and the third change places, as in the other operand */
    bool by_blocks; /* of a surface of a tensor (blocks.c) */
    bool by_lanes;  /* of a tensor, by loads of the lanes' own (own_loads.c) */
    MatrixView view;
    int32_t beside; /* so many elements of what a lane takes at once lie side by side in memory */
    int32_t pieces; /* elements of a load that lanes turn; 0: none does */
    AuTileAxis named_free, named_k; /* of what a lane names of such a load */
} MatrixOperand;

typedef struct Matrix {
    const AuTileAtom *atom;
    AuMatrix row;
    MatrixOperand a, b;
    int32_t tiles_m, tiles_n, depth, step, parts; /* parts: instructions along k of a step */
    AuPiece c;                                    /* of a lane, for one instruction */
    const int32_t *rows,
        *columns; /* registers of C along its axes, in the instruction's order; NULL: it is theirs */
} Matrix;

static inline int32_t matrix_elements(const MatrixOperand *x)
{
    return lower_piece_elements(&x->piece);
}

/* ---- blocks.c */

/* Is what a lane takes at once of the operand, which is in a tensor, a block of a surface? */
bool lower_takes_blocks(AuLower *l, const MatrixOperand *x);
AuVal lower_block(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part);

/* ---- own_loads.c */

/* Does the operand come from a tensor by the lanes' own loads? Then its view is found. */
bool lower_is_view(AuLower *l, MatrixOperand *x);
/* Is all of the view inside of the tensor, in rows that are vectors? One answer for the warp: i1. */
AuVal lower_is_whole_view(AuLower *l, const MatrixOperand *x);
/* Before a product whose elements all are inside, or may be outside. */
void lower_begin_view(AuLower *l, MatrixOperand *x, bool tested);
AuVal lower_own_elements(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part);

/* ---- matrix_order.c */

/* How many of the elements that a lane takes at once follow each other along the last axis of the memory, in whole vectors? */
int32_t matrix_beside(AuLower *l, const MatrixOperand *x, const AuTilePlaces *k);
/* Of prepared operands and the sums' axes. False: an operand in registers does not lie as the product takes it. */
bool matrix_choose_orders(AuLower *l, Matrix *x, const AuTileAxis *rows, const AuTileAxis *columns);

#endif
