/* reverse.h - reverse mode over the graph of an attention. Nodes are visited from the root down to its
 * leaves, users before arguments, so that the adjoint of a node is the sum over all of its users
 * before it is passed on, whatever the sharing.
 *
 * An adjoint has a guard, a condition outside of which it is 0: what `where`, min and max do not
 * choose gets no adjoint, and the factors along the way are evaluated inside of the choice.
 *
 * [over] is the axis along which the root has elements: AU_AX_KV for a row of pairs (sums are ROWSUM),
 * AU_AX_C for a row of channels (ROW_SUM_C), AU_AX_K | AU_AX_V for one of a recurrence, along whichever it has, 0 for
 * single pairs. A node without the axis that is used by one with it gets the sum along the axis. */
#ifndef AU_DSL_ATTN_REVERSE_H
#define AU_DSL_ATTN_REVERSE_H

#include "attn.h"

typedef struct AuGuarded {
    AuExpr value, guard; /* no value: 0; no guard: everywhere */
} AuGuarded;

typedef struct AuParts {
    AuExpr *at;
    uint32_t count, capacity;
} AuParts;

typedef struct AuReverse {
    AuAttn *a;
    AuArena *arena;
    uint32_t count; /* nodes up to the root, [0] included */
    uint8_t over;
    bool *active;       /* a wanted leaf is below, and not only under stop_grad */
    AuGuarded *adjoint; /* one a node */
    /* Along KV: reads of inputs without the axis by users with it, not summed. Their gradients are
     * added pair by pair anyway. */
    AuGuarded *along;
    /* Asked of each node without the axis [over] once its adjoint is complete: whether the sum of the
     * parts is always 0. NULL: not asked. */
    bool (*cancels)(void *user, const AuParts *parts);
    /* Also values that are computed from inputs alone pass on what they get pair by pair, not summed: sums of a
     * row that holds no scores times them are then asked for by nobody. */
    bool is_along;
    void *user;
    AuParts *parts; /* one a node, where cancels is asked */
    AuExpr lost;    /* a node through which no derivative is known, none: there is none */
} AuReverse;

/* Leaves that derivatives are wanted of: bits 1 << AuOp. Reads of inputs are wanted where the input
 * has `grad`, whatever the bits, and so are TENSOR nodes of q, k, v and such inputs. */
AuReverse *reverse_new(AuAttn *a, AuArena *arena, AuExpr root, uint8_t over, uint32_t wanted);
/* seed is the root's adjoint, with a guard or none. */
void reverse_run(AuReverse *r, AuExpr root, AuGuarded seed);
/* The adjoint of a node as an expression, none: 0. */
AuExpr reverse_of(const AuReverse *r, AuExpr node);
AuExpr reverse_along(const AuReverse *r, AuExpr node);

#endif
