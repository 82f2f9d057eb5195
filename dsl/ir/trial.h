/* trial.h - random rows on which what was derived is tried before it is believed: a falsifier, not a
 * proof; the seeds are fixed. A row has some pairs, each with a score and a gradient of its weight,
 * and values for every leaf of the graph. Expressions are evaluated in f64, each once a row. */
#ifndef AU_DSL_ATTN_TRIAL_H
#define AU_DSL_ATTN_TRIAL_H

#include "attn.h"

enum { AU_TRIAL_ROWS = 24, AU_TRIAL_PAIRS = 14 };

typedef struct AuTrialRow {
    const AuAttn *a;
    AuArena *arena;
    uint32_t index, count;
    double scores[AU_TRIAL_PAIRS], dweights[AU_TRIAL_PAIRS], weights[AU_TRIAL_PAIRS];
    double element, delement, delta;
    double *states, *finals, *dfinals, *adjoints, *passes; /* of the row, set by whoever tries */
    bool unusable;  /* something is not finite there: scores that the function is not made for */
    double **value; /* one a node, NULL: not yet evaluated */
    uint32_t known;
} AuTrialRow;

typedef struct AuTrials {
    AuTrialRow rows[AU_TRIAL_ROWS];
    uint32_t count;
} AuTrials;

AuTrials *trials_new(const AuAttn *a, AuArena *arena);
/* The values of an expression for the pairs of the row, one each also where they are all the same.
 * Valid as long as the leaves that it stands on are not set again. */
const double *trial_value(AuTrialRow *row, AuExpr e);
/* Evaluates again what may have changed. */
void trial_forget(AuTrialRow *row);
/* Equal but for rounding, if both come from terms of this size. */
bool trial_near(double x, double y, double size);
/* The rows that can be used are too few to conclude anything. */
bool trials_are_few(const AuTrials *t);

#endif
