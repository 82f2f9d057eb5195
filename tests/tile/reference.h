/* reference.h - attentions by their formulas in f64 and, for bounds, as a plain computation in f32 and the operand type. */
#ifndef TEST_TILE_REFERENCE_H
#define TEST_TILE_REFERENCE_H

#include "tile.h"

typedef enum Kind { CAUSAL, LOCAL, SIGMOID, RETENTION, BIAS, SLOPE, DOCUMENTS } Kind;

/* Tensors row by row: q [B, H, S, D], k [B, Hk, T, D], v [B, Hk, T, E], grad like the output. */
typedef struct Problem {
    Kind kind;
    int B, H, Hk, S, T, D, E;
    AuTileElem operand;
    const float *q, *k, *v, *grad, *bias, *slope;
    const int32_t *document; /* [B, T] */
} Problem;

void reference_forward(const Problem *p, bool plain, double *o, double *final);
void reference_backward(const Problem *p, bool plain, double *dq, double *dk, double *dv,
                        double *dslope);
void reference_linear(const Problem *p, const float *gate, const float *state_in, bool plain,
                      double *o, double *state_out);

bool is_unmasked(const Problem *p, int b, int i, int j);
float round_to_elem(AuTileElem elem, float x);

/* The largest difference; equal infinities are equal, NaN differs from all. */
double largest_error(const float *x, const double *y, size_t count);
double largest_difference(const double *x, const double *y, size_t count);

#endif
