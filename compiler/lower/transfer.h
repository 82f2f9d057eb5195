/* transfer.h - what the files of copies between memories share (transfer.c, gather.c). */
#ifndef AU_LOWER_TRANSFER_H
#define AU_LOWER_TRANSFER_H

#include "internal.h"

typedef struct Transfer {
    const AuTileStmt *s;
    const AuTileExpr *from, *to;
    const AuTileType *type; /* of the source's view */
    int32_t unit;           /* elements a lane moves at once */
    int32_t units;          /* of them along the last axis */
    int32_t total;
    int32_t
        column; /* of a copy by rows, where it begins: wide rows are several, one beside the other */
    bool is_row; /* a few words, asynchronously */
} Transfer;

/* ---- gather.c: rows at places that lanes hold */
bool lower_gathers(const AuTileExpr *ref);
/* What the view's indices are at a row that any lane asks for is known until the caller sets r.known_count back to what this returns. */
uint32_t lower_gather_indices(AuLower *l, const AuTileExpr *ref, const AuPoint *p);

/* Where each row begins, as the lanes hold it. */
typedef struct Gathered {
    AuVal at[2];  /* low and high half of an address, one lane a row */
    bool tested;  /* rows that are outside, or that the statement leaves out, are marked */
    AuVal beside; /* whether what the lane brings of a row is inside; none: it is */
    AuVal rest,
        row; /* what the address has beside, in elements; the lane's row in the first turn */
} Gathered;
bool lower_may_gather(const Transfer *x);
Gathered lower_gathered(AuLower *l, const Transfer *x, const AuPoint *p);
/* The lane's address in the turn that begins at row [first]; *inside: none, or whether there is such a row. */
AuVal lower_gathered_address(AuLower *l, const Gathered *g, int32_t first, AuVal *inside);

#endif
