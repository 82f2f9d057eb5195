/* deriver.h - what the halves of attn_gradients share: gradient_online.c (from the online function to the
 * gradient of a score) and gradient.c (the mods around it). */
#ifndef AU_DSL_ATTN_DERIVER_H
#define AU_DSL_ATTN_DERIVER_H

#include "closed_form.h"
#include "gradient.h"
#include "reverse.h"

/* What is known of a final. */
typedef struct AuSlopes {
    AuExpr slope;       /* dR/ds: of SCORE and FINAL; none: 0 */
    AuExpr share;       /* f_R */
    bool is_held;       /* stands on a running maximum itself, and takes no gradient from outside */
    AuInputGrads rows;  /* dR/d(input), of the row */
    AuInputGrads along; /* the same for each pair */
} AuSlopes;

typedef struct AuDeriver {
    AuAttn *a;
    AuArena *arena;
    AuDiags *diags;
    AuClosed *c;
    AuGrads *g;
    AuSlopes *finals;       /* room for every row scale to become one */
    uint32_t done;          /* finals that are differentiated */
    AuExpr *maxima, **pull; /* ROWMAX nodes, and d(final)/d(maximum) of each */
    uint32_t maximum_count;
    AuExpr own;          /* f_s */
    AuExpr dscore;       /* gradient of a score, as if there were no weight_mod */
    AuInputGrads direct; /* df/d(input) */
} AuDeriver;

/* ---- small things (deriver.c) */
AuExpr derive_number(AuAttn *a, double value);
AuExpr derive_product(AuAttn *a, AuExpr x, AuExpr y); /* simplified */
AuExpr derive_sum(AuAttn *a, AuExpr x, AuExpr y);     /* none is 0 */
/* [e] with another expression in place of every leaf of this kind; by none: as it is. */
AuExpr derive_with(AuAttn *a, AuExpr e, AuOp op, AuExpr by);
void derive_add_input(AuDeriver *d, AuInputGrads *to, AuExpr read, AuExpr value);
/* to += factor * from */
void derive_add_inputs(AuDeriver *d, AuInputGrads *to, const AuInputGrads *from, AuExpr factor);
/* A row mod: of ELEMENT and DELEMENT. */
bool derive_row_mod(AuDeriver *d, AuExpr mod, AuPlace place, AuRowGrad *out);
/* False, with a diagnostic: no derivative is known through a node. */
bool derive_nothing_lost(AuDeriver *d, const AuReverse *r);
/* All reads with an adjoint, TENSOR nodes too; [along]: those for each pair of a row. */
void derive_take_inputs(AuDeriver *d, const AuReverse *r, bool along, AuInputGrads *to);

/* ---- the online function (gradient_online.c): closed form, slopes of finals, adjoints, dscore */
bool derive_online(AuDeriver *d);
/* Does all of [e] that depends on such leaves come from them by these operations alone? Both by AuOp. */
bool derive_is_made_by(const AuDeriver *d, AuExpr e, const bool *leaves, const bool *operations);
/* Is it the weight, on random rows? */
bool derive_is_weight(const AuDeriver *d, AuExpr e);

/* ---- gradient_check.c: on random rows; false: a diagnostic says where they differ */
bool derive_check_forward(AuDeriver *d);
bool derive_check_maxima(AuDeriver *d);
bool derive_check_backward(AuDeriver *d);

/* ---- empty_rows.c: where out_mod asks whether a row has a pair, the row keeps it (AuGrads.has_pair). */
void derive_keep_pairs(AuDeriver *d);

/* ---- parts.c: is no weight more than 1, whatever the scores are? Of derived finals. */
bool derive_weights_are_parts(const AuDeriver *d);

#endif
