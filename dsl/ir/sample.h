/* sample.h - random rows on which what was derived is tried before it is believed: a falsifier, not a
 * proof; the seeds are fixed. A row has some pairs, each with a score and a gradient of its weight,
 * and values for every leaf of the graph. Expressions are evaluated in f64, each once a row. */
#ifndef AU_DSL_ATTN_SAMPLE_H
#define AU_DSL_ATTN_SAMPLE_H

#include "attn.h"

enum { AU_SAMPLE_ROWS = 24, AU_SAMPLE_PAIRS = 14 };

typedef struct AuSample {
    const AuAttn *a;
    AuArena *arena;
    uint32_t index, count;
    double scores[AU_SAMPLE_PAIRS], dweights[AU_SAMPLE_PAIRS], weights[AU_SAMPLE_PAIRS];
    double element, delement, delta;
    double *states, *finals, *dfinals, *adjoints, *passes; /* of the row, set by whoever tries */
    double delta_size, *adjoint_sizes, *pass_sizes;        /* sample_size of the last ones */
    bool unusable; /* something is not finite there: scores that the function is not made for */
    double **value, **size; /* one a node, NULL: not yet evaluated */
    uint32_t known;
} AuSample;

typedef struct AuSamples {
    AuSample rows[AU_SAMPLE_ROWS];
    uint32_t count;
} AuSamples;

AuSamples *samples_new(const AuAttn *a, AuArena *arena);
/* The values of an expression for the pairs of the row, one each also where they are all the same.
 * Valid as long as the leaves that it stands on are not set again. */
const double *sample_value(AuSample *row, AuExpr e);
/* What rounding is measured by: the same expressions with the magnitudes of terms added where those cancel. */
const double *sample_size(AuSample *row, AuExpr e);
/* Evaluates again what may have changed. */
void sample_forget(AuSample *row);
/* Equal but for rounding, if both come from terms of this size. */
bool sample_near(double x, double y, double size);
/* The rows that can be used are too few to conclude anything. */
bool samples_are_few(const AuSamples *t);

#endif
