/* recurrence.h - the normal form of recurrences on numbers: one head of one sequence as arrays, in C order.
 * docs/dev/recurrences.md is its specification.
 *
 *     p_t = e_t k_t' D_t S_{t-1}    feedback `key`     p_t = x_t' S_{t-1}                        feedback `own`
 *     S_t = D_t S_{t-1} + k_t (v_t + p_t)'             S_t = D_t S_{t-1} + k_t v_t' + b_t p_t'   D_t = diag(exp(g_t))
 *     o_t = q_t' S_t, or q_t' S_{t-1} where it is read before
 *
 * It is computed token after token, which is the meaning, or in chunks, as kernels do: all classes of decays and of
 * feedback by the same lines. In f64, or in f32 with what products multiply rounded further. Nothing here knows
 * of scripts or of expressions. */
#ifndef AU_DSL_RECURRENCE_H
#define AU_DSL_RECURRENCE_H

#include "arena.h"

typedef enum AuFeedback { AU_FEEDBACK_NONE, AU_FEEDBACK_KEY, AU_FEEDBACK_OWN } AuFeedback;

/* Rows of T tokens. NULL: not there (g: no decay). As gradients: of the same arrays. */
typedef struct AuRows {
    int64_t T, K, V;
    int64_t G; /* numbers of a log decay: 0 none, 1 a token, K one a channel */
    AuFeedback feedback;
    bool before;   /* q reads the state before its token */
    double *q;     /* [T, K] */
    double *k;     /* [T, K] */
    double *v;     /* [T, V] */
    double *g;     /* [T, G] log decays; below a floor, where exp is 0, they are resets */
    double *e;     /* [T], feedback `key` */
    double *x, *b; /* [T, K], feedback `own` */
} AuRows;

/* How it is computed. Bits are those of mantissas that products multiply, 0: all. */
typedef struct AuEngine {
    int64_t chunk;   /* tokens; 0: token after token */
    bool single;     /* f32 */
    bool plain_sums; /* of log decays: not as sums of two numbers (for operands of 16 bits) */
    int32_t operand; /* of rows, states and gradients */
    int32_t solve;   /* of the inverse, where there is feedback */
    int32_t values;  /* of what is written behind it */
} AuEngine;

/* As kernels that multiply chunks by matrix units do it: products round what they multiply to [bits], but for the inverse and what is
 * written behind it, which are two such numbers each. */
static inline AuEngine recurrence_by_products(int64_t chunk, int32_t bits)
{
    return (AuEngine){.chunk = chunk,
                      .single = true,
                      .plain_sums = true,
                      .operand = bits,
                      .solve = 2 * bits,
                      .values = 2 * bits};
}

/* [state], [K, V]: the one before, then the one after. o: [T, V]. */
void recurrence_forward(const AuRows *rows, const AuEngine *how, double *state, double *o,
                        AuArena *scratch);
/* Gradients of <o, dout> + <S_T, dS_T>: [dstate] is dS_T, then dS_0; those of rows are set in [d], whose arrays are
 * there where those of [rows] are. */
void recurrence_backward(const AuRows *rows, const AuEngine *how, const double *state,
                         const double *dout, double *dstate, AuRows *d, AuArena *scratch);

/* log decays below it are resets: exp of it is 0, and it is far from where differences of totals lose what matters */
static inline double recurrence_floor(bool single) { return single ? -104.0 : -746.0; }

#endif
