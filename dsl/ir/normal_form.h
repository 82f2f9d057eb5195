/* normal_form.h - the slots of a recurrence as the normal form that everything behind it computes
 * (docs/dev/recurrences.md), as expressions: rows of dsl/recurrence, and what is local to a token around them.
 *
 *     p_t = -erase_t k_t' D_t S_{t-1}, or reads_t' S_{t-1}         D_t = diag(exp(log_decay_t))
 *     S_t = D_t S_{t-1} + k_t (w_t v_t + p_t)', or D_t S_{t-1} + k_t w_t v_t' + writes_t p_t'
 *     o_t = (q_t' S + (q_t . bonus_t k_t) v_t) / norm_t + skip_t, then out_mod */
#ifndef AU_DSL_ATTN_NORMAL_FORM_H
#define AU_DSL_ATTN_NORMAL_FORM_H

#include "attn.h"
#include "gradient.h"
#include "interval.h"
#include "recurrence.h"

typedef enum AuSlot {
    AU_SLOT_Q,
    AU_SLOT_K,
    AU_SLOT_V,
    AU_SLOT_WRITE,     /* w: the strength of the write; none: 1 */
    AU_SLOT_LOG_DECAY, /* none: 0 */
    AU_SLOT_ERASE,     /* feedback `key` */
    AU_SLOT_READS,     /* feedback `own` */
    AU_SLOT_WRITES,
    AU_SLOT_BONUS,
    AU_SLOT_NORM, /* of ELEMENT, the sum: the recurrence over a column of ones, which w weighs, too */
    AU_SLOT_SKIP,
    AU_SLOT_COUNT
} AuSlot;

typedef enum AuDecayClass {
    AU_DECAY_NONE,
    AU_DECAY_CONSTANT, /* of the head at most */
    AU_DECAY_SCALAR,   /* of the token */
    AU_DECAY_VECTOR    /* and of the channel */
} AuDecayClass;

typedef struct AuNormal {
    AuExpr slot[AU_SLOT_COUNT]; /* none: not there; q, k and v always are */
    AuFeedback feedback;
    AuDecayClass decay;
    bool before;          /* q reads the state before its token */
    AuInterval log_decay; /* what is proved of it */
} AuNormal;

/* Of a verified recurrence. Makes expressions that are no roots: attn_simplify must not run between this and their use. */
AuNormal attn_normal_form(AuAttn *a, AuArena *scratch);
const char *attn_slot_name(AuSlot slot);
/* AU_AX_K, AU_AX_V, or 0: one number a token. */
uint8_t attn_slot_channel(AuSlot slot);

/* The logarithm of a decay by rewriting (log_decay.c): of exp, sigmoid, pow, products, 1 - x; else log of the value. */
AuExpr attn_log(AuAttn *a, AuExpr e, AuArena *scratch);
/* The part of it that is log of a value which data decide; none: there is no such. */
AuExpr attn_log_of_value(const AuAttn *a, AuExpr e, AuArena *scratch);

/* ---- gradients: of each slot, for a gradient DELEMENT of its value (with its channel, if it has one), what its tensors
 * and reads of inputs get. `read` is a TENSOR or an INPUT node. Below the floor of log decays, a reset, there is none. */
typedef struct AuNormalGrads {
    AuInputGrads slot[AU_SLOT_COUNT];
    AuExpr sum; /* of norm: the gradient of ELEMENT */
    AuRowGrad out;
} AuNormalGrads;

/* NULL: diagnostics say why there is none. */
AuNormalGrads *attn_normal_gradients(AuAttn *a, const AuNormal *n, AuArena *arena, AuDiags *diags);

/* The same as gradients of any attention: `normal` of what attn_gradients gives. */
AuGrads *attn_recurrence_gradients(AuAttn *a, AuArena *arena, AuDiags *diags);

/* Text of both, block by block as the text form of attentions; [g] may be NULL. */
void attn_print_normal(const AuAttn *a, const AuNormal *n, const AuNormalGrads *g, AuText *out);

#endif
