/* by_place.h - fragments whose elements are computed by functions of their place: what by_place.c and by_place_move.c share. */
#ifndef AU_LOWER_BY_PLACE_H
#define AU_LOWER_BY_PLACE_H

#include "internal.h"

/* A reduction that was computed: its matrices hold until something that it reads is set. */
typedef struct Reduced {
    AuTileExpr *e;
    AuMem mem;
    AuCut cut;
    bool in_parts; /* each column has a part of the sum */
} Reduced;

/* Numbers of rows or of columns, of a variable or of a reduction, as a matrix of that size: they hold as long. */
typedef struct Widened {
    const AuTileVar *var;
    const AuTileExpr *reduction;
    int32_t height, width;
    AuMem mem;
} Widened;

typedef struct ByPlace {
    AuLower *l;
    TILE_LIST(Reduced) reduced;
    TILE_LIST(Widened) wide;
    /* Of the expression at hand: */
    TILE_LIST(const AuTileVar *) vars;
    TILE_LIST(AuTileExpr *) reductions;
    AuCut cut; /* its matrices */
    AuVal row, column;
    bool in_parts; /* what is set lies in parts, and so do sums that it gets */
    bool asked;    /* only a vote asks for it, of the largest of rows: that of any part will do */
} ByPlace;

static inline AuOpaque by_place_matrix(AuLower *l, AuMem mem, int32_t n)
{
    return (AuOpaque){mem, kernel_i32(l->k, n)};
}
bool by_place_is_half(const AuTileType *type);
AuTileUse by_place_rounded_use(const AuLower *l); /* that sums have once they are rounded */
/* Sums that are rounded to this stay matrices of f32, and get their type in memory, element by element. */
bool by_place_stays_wide(const AuLower *l, AuTileElem elem);
/* by_place_memory.c: of a matrix that joins those side by side, each row becomes what it is reduced to. */
void by_place_reduce(AuLower *l, const AuCut *cut, AuKOp op, AuOpaque x);
bool by_place_is_wide(AuLower *l, const AuTileVar *var); /* of 16 bits, and held so */
/* An expression that is one reduction stands below none: it gets a root. */
AuTileExpr *by_place_rooted(AuLower *l, AuTileExpr *e);
bool by_place_rounds(const AuTileExpr *e);
/* Computes the reductions in the expression, and notes what else it reads. */
void by_place_begin(ByPlace *b, AuTileExpr *e, const AuTileType *type);
/* Numbers of the block that change are read in front of functions, which see no memory of lanes. */
void by_place_know_cells(ByPlace *b);
/* The function of the matrix begins; at the element of matrix (i, j) all that the expression reads is known. */
void by_place_open(ByPlace *b, AuOpaque of);
typedef void (*AtPoint)(ByPlace *b, const AuPoint *p, void *user);
void by_place_at_element(ByPlace *b, int32_t i, int32_t j, AtPoint what, void *user);
/* All elements of [to], which are sums, or of 16 bits, rounded once. */
void by_place_compute(ByPlace *b, AuMem to, AuTileElem elem, AuTileExpr *e);

/* by_place_wide.c, where a fragment is one matrix: numbers of rows that the expression reads get the width of the matrices at hand, in front of
 * functions; and are found there, as what they are where they are wide enough. */
void by_place_widen(ByPlace *b);
AuMem by_place_wide(const ByPlace *b, const AuTileVar *var, const AuTileExpr *reduction, AuMem mem,
                    const AuCut *cut);
void by_place_forget_wide(ByPlace *b, const AuTileVar *var);

#endif
