/* linear_laws.h - what can be tried of a recurrence: what a script says, beside what kernels compute of it, in f64 and in
 * f32, however its tokens are cut; and its gradients beside central differences. */
#ifndef AU_DSL_ATTN_LINEAR_LAWS_H
#define AU_DSL_ATTN_LINEAR_LAWS_H

#include "linear.h"

typedef struct AuLaw {
    const char *what;
    const char *broken;  /* with the numbers; NULL: it holds, or was not tried */
    const char *why_not; /* it was not tried */
} AuLaw;

typedef struct AuLaws {
    AuLaw *at;
    uint32_t count, capacity;
} AuLaws;

/* [few], of few elements, one batch: what costs many evaluations; [more], some tens of tokens. Both without outputs. */
AuLaws attn_check_linear(AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                         const AuOracleCall *few, const AuOracleCall *more, AuArena *arena);

#endif
