/* far.h - rows whose scores lie far below 0, as those of paddings do that are large finite numbers (-1e9) in an input that is added
 * to scores: where one f32 does not hold what a row sums up to, and a formula of that number alone has wrong gradients. */
#ifndef AU_DRIVER_FAR_H
#define AU_DRIVER_FAR_H

#include "gradient.h"
#include "trial.h"

/* The names of the inputs that are added to scores, "bias, slope"; NULL: none is. */
const char *far_inputs(AuArena *arena, const AuAttn *attn);

/* Each of those inputs is 0 or far below 0: -1e4, -1e9, the lowest of its type; in turns all along its last axis, the last third of it,
 * the first, where that axis is one of keys, else a number each. Queries of rows that are far as a whole are next to 0: their scores are
 * those inputs alone, which no rounding changes. */
bool far_set(AuArena *arena, AuDiags *diags, AuTrial *trial, AuDtype operand);

typedef enum FarResult {
    FAR_GOOD,
    FAR_LOSSY, /* f32 does not hold the scores themselves, as where a bias by position is added, too */
    FAR_WRONG, /* outputs are good, gradients are not: *message says which */
    FAR_FAILED /* a diagnostic says why nothing came out */
} FarResult;

/* Are gradients of far rows, by the script's own formula in f32, those that it has in f64? Of a trial AU_TRIAL_FAR in f32. */
FarResult far_try(AuArena *arena, AuDiags *diags, const AuTrial *trial, const AuGrads *grads,
                  const char **message);

/* The largest error of the plain formula; infinite where it has no number and the truth has one. */
double far_error(const double *want, const double *plain, uint64_t count);
/* Is an error this large as good as the result? */
bool far_is_lost(const double *want, uint64_t count, double error);

#endif
