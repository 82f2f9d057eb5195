/* matrices.h - what kernels on matrices have in common whose elements lie nobody knows how (matrices_forward.c, matrices_backward.c).
 *
 * A subgroup owns the rows of one matrix. What is its own and has many channels, operands and sums, stays in matrices and comes and goes in
 * pieces, each through the subgroup's rows of shared memory that its pairs go through: `P` of the operands' type, `scores` of f32, both with
 * [columns] columns. */
#ifndef AU_SCHEDULE_MATRICES_H
#define AU_SCHEDULE_MATRICES_H

#include "warps.h"

/* Equal parts of so many channels. */
typedef struct MatrixPieces {
    const char *name;        /* of the matrices: "own_d" of own_d0, own_d1, .. */
    const char *rows, *axis; /* axes: of the subgroup's rows, of channels */
    int32_t width, count;
} MatrixPieces;
/* As few as go through rows of so many columns in whole matrices. */
MatrixPieces matrices_pieces(const Lanes *x, const char *name, const char *rows, const char *axis,
                             int32_t channels, int32_t columns);
const char *matrices_channels(Lanes *x, const MatrixPieces *p, int32_t n); /* "32 +: 32" */
int32_t matrices_unit(const AuTileAtom *atom);                             /* of widths, of tiles */
/* The one for the operands; NULL: the machine has none. */
const AuTileAtom *matrices_atom(const AuProblem *p);

/* A block, and the tiles that pass it. */
typedef struct MatrixBlock {
    const AuShape *shape;
    int32_t tile;        /* rows of it */
    const char *passing; /* "32 keys", as they are called */
    int32_t held, bytes; /* registers of a lane that operands and sums take; shared memory */
} MatrixBlock;
/* Why it does not do for the machine, whatever the problem is; NULL: it does. */
const char *matrices_block_refusal(AuArena *arena, const AuProblem *p, const MatrixBlock *b);
/* As many pairs a block as shared memory holds; of as many pairs those with more rows, for which tiles come less often. [fit] completes a shape of
 * that query_tile and says why it does not do. */
bool matrices_shape(AuArena *arena, const AuProblem *p,
                    const char *(*fit)(AuArena *arena, const AuProblem *p, AuShape *s),
                    AuShape *out, const char **why);

/* The layout `rows_over_lanes`, in which lanes hold rows. */
void matrices_layout(Lanes *x);
/* P and scores, of pairs [rows, columns]; what a row of both takes. */
void matrices_memories(Lanes *x, const char *rows, const char *passing, int32_t columns);
int32_t matrices_row_bytes(const AuProblem *p, int32_t columns);
/* The fragments raw, left and those of [names] (NULL behind the last), of pairs. */
void matrices_declare_pairs(Lanes *x, const char *rows, const char *passing, int32_t columns,
                            const char *const *names);

void matrices_declare_operands(Lanes *x, const MatrixPieces *p);
void matrices_declare_sums(Lanes *x, const MatrixPieces *p); /* which are 0 */
/* Piece n of rows in memory. */
void matrices_bring(Lanes *x, const MatrixPieces *p, int32_t n, AuTileHandle from);
/* [pairs] = operands times the tile, as lanes hold rows. */
void matrices_multiply(Lanes *x, const char *pairs, const MatrixPieces *p, AuTileHandle tile,
                       const char *passing, int32_t columns);
/* Pairs as operand A: its name; sums += that times piece n of a tile. */
const char *matrices_take_left(Lanes *x, const char *pairs, const char *rows, const char *passing,
                               int32_t columns);
void matrices_add(Lanes *x, const MatrixPieces *p, int32_t n, const char *left, AuTileHandle tile);
/* Piece n of sums, as lanes hold rows. */
void matrices_take_piece(Lanes *x, const char *as, const MatrixPieces *p, int32_t n);

#endif
