/* trial.h - random arguments for an attention, on the host, as f64 arrays of values that their types
 * hold: what checks and reference cases are made of. */
#ifndef AU_DRIVER_TRIAL_H
#define AU_DRIVER_TRIAL_H

#include "attn.h"

typedef struct AuTrial {
    const AuAttn *attn;
    int64_t *sizes; /* one per AuAttn.sizes */
    double *params; /* one per AuAttn.params, and the same as i64 */
    int64_t *params_i64;
    double **tensors; /* one per AuAttn.tensors, C order */
    uint64_t *elements;
    int64_t (*shapes)[8];
} AuTrial;

typedef enum AuTrialKind {
    AU_TRIAL_USUAL, /* small, none a multiple of another */
    AU_TRIAL_FEW,   /* as few elements as show anything: each will cost evaluations */
    AU_TRIAL_LONG,  /* 512 queries and keys: a mask is drawn */
    AU_TRIAL_FAR    /* as USUAL, with inputs that are added to scores far below 0 (far.h) */
} AuTrialKind;

/* [values]: "S=100,T=7,window=16": sizes and parameters by name; NULL: none. Sizes that it leaves out
 * (of FEW: all) are those of [kind], moved to the nearest for which each `require` of the script
 * holds; parameters their defaults, else some value. [operand]: the type that values of operand type
 * are rounded to. Integers rise along the last axis, as numbers of documents do. False: a diagnostic
 * says what does not fit, a `require` that does not hold say. */
bool trial_make(AuArena *arena, AuDiags *diags, const AuAttn *attn, AuTrialKind kind,
                const char *values, AuDtype operand, uint64_t seed, AuTrial *out);

/* Leaves of the trial sequence [b] by itself, its first [queries] and [keys], and of other tensors the part that goes with them. NULL, or why it cannot
 * be: the script asks for a sequence's number, or a length is none of its own. */
const char *trial_cut(AuArena *arena, AuTrial *trial, int64_t b, int64_t queries, int64_t keys);

/* [elements] normal numbers, rounded to [dtype]. */
double *trial_normal(AuArena *arena, uint64_t elements, AuDtype dtype, uint64_t *random);

/* The arguments as the oracle takes them; outputs are the caller's. */
AuOracleCall trial_call(const AuTrial *trial, const AuDiags *diags);

/* The largest size of those that are finite. */
double trial_largest(const double *values, uint64_t count);

#endif
