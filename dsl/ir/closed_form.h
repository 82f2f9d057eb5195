/* closed_form.h - an online function run once over a whole row from its start values: what its row
 * scales end with, and each weight as it meets the values. What is known of a row afterwards are its
 * finals; closed_say puts row scales in terms of them. */
#ifndef AU_DSL_ATTN_CLOSED_FORM_H
#define AU_DSL_ATTN_CLOSED_FORM_H

#include "sample.h"

typedef struct AuClosed {
    AuAttn *a;
    AuArena *arena;
    AuDiags *diags;
    AuExpr *last;       /* one a row scale: of SCORE under ROWMAX and ROWSUM */
    AuExpr *finals;     /* one a final: of the same */
    AuExpr factor;      /* the output is o times this: of STATE at the end */
    AuExpr tile;        /* the weight of a pair as online_fwd returns it: of SCORE and STATE */
    AuExpr weight;      /* of a pair, factor included: of SCORE and STATE */
    bool plain;         /* neither factor nor rescaling: weights are sums' terms as they come */
    AuSamples *samples; /* with states and finals of random rows */
} AuClosed;

/* NULL: an error says why there is no closed form. */
AuClosed *closed_form(AuAttn *a, AuArena *arena, AuDiags *diags);

/* The leaf of a row scale at the end, of a final, and so on: [row] or [pair] leaves of one number. */
AuExpr closed_row_leaf(AuAttn *a, AuOp op, uint32_t n);
AuExpr closed_pair_leaf(AuAttn *a, AuOp op);

/* [e] in normal form, with row scales where it has what they end with. */
AuExpr closed_states(const AuClosed *c, AuExpr e);
/* The first sum or maximum of the row that is left; none: there is none. */
AuExpr closed_first_sum(const AuAttn *a, AuExpr e);

/* Puts the row scales in these expressions (entries may be none) in terms of finals, adding finals
 * where the present ones do not say enough. */
void closed_say(AuClosed *c, AuExpr *exprs, uint32_t count);

#endif
