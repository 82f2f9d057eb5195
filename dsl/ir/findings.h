/* findings.h - what can be tried of a softmax family beyond what the verifier knows: that online_fwd does not
 * depend on how keys are cut into tiles, that combine, forward and backward agree with it, that
 * derived gradients are those of the oracle. What does not hold is a finding that names the clause,
 * the numbers, and what the right one would be where that can be derived. */
#ifndef AU_DSL_ATTN_FINDINGS_H
#define AU_DSL_ATTN_FINDINGS_H

#include "attn.h"

typedef struct AuFinding {
    const char *clause;  /* "online_fwd", "forward", "dq" ... */
    const char *message; /* with the numbers */
    const char *right;   /* what it should be, NULL: not known */
    AuSpan span;
    double found, expected; /* nan where there are no two numbers */
} AuFinding;

typedef struct AuFindings {
    AuFinding *at;
    uint32_t count, capacity;
    /* Gradients are those of central differences; else why not (stop_grad, no gradients, others). */
    bool has_differences;
    const char *why_not;
    const char
        *all_zero; /* gradients of nothing but zeros, which say little: "dq, dk"; NULL: none */
    const struct AuGrads *grads; /* which they are; NULL: there are none */
} AuFindings;

/* Tries everything. [call]: sizes, tensors and parameters for the gradients, of few elements, outputs
 * not needed; NULL: they are not compared with differences. Completes [a] as attn_gradients does, so
 * give a copy, or what is compiled with gradients anyway. */
AuFindings attn_check(AuAttn *a, const AuOracleCall *call, AuArena *arena, const AuDiags *sources);

/* The derivative of [value] by *x from four values around it: its error is of fourth order in the step. */
double attn_difference(double *x, double step, double (*value)(void *), void *user);

/* The laws of online functions alone (laws.c), each found broken once. */
void attn_try_laws(const AuAttn *a, AuArena *arena, AuFindings *out);

#endif
