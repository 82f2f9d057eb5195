/* reference.c - see reference.h. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

#include "numeric.h"

float round_to_elem(AuTileElem elem, float x) { return round_to(elem, x); }

bool is_unmasked(const Problem *p, int b, int i, int j)
{
    const int distance = i + p->T - p->S - j;
    if (p->kind == LOCAL) return distance >= 0 && distance < 40;
    if (p->kind == DOCUMENTS)
        return j <= i && p->document[b * p->T + i] == p->document[b * p->T + j];
    return distance >= 0;
}

// clang-format off
#define REAL double
#define NAME(function) function##_f64
#define REAL_FN(function) function
#include "reference_body.h"
#undef REAL
#undef NAME
#undef REAL_FN
#define REAL float
#define NAME(function) function##_f32
#define REAL_FN(function) function##f
#include "reference_body.h"
// clang-format on

void reference_forward(const Problem *p, bool plain, double *o, double *final)
{
    if (plain)
        forward_f32(p, true, o, final);
    else
        forward_f64(p, false, o, final);
}

static void round_all(AuTileElem elem, double *x, size_t count)
{
    for (size_t n = 0; n < count; n++) x[n] = (double)round_to(elem, (float)x[n]);
}

void reference_backward(const Problem *p, bool plain, double *dq, double *dk, double *dv,
                        double *dslope)
{
    if (!plain) {
        backward_f64(p, false, dq, dk, dv, dslope);
        return;
    }
    backward_f32(p, true, dq, dk, dv, dslope);
    const size_t queries = (size_t)(p->B * p->H * p->S * p->D),
                 keys = (size_t)(p->B * p->Hk * p->T * p->D);
    round_all(p->operand, dq, queries);
    round_all(p->operand, dk, keys);
    round_all(p->operand, dv, keys);
}

void reference_linear(const Problem *p, const float *gate, const float *state_in, bool plain,
                      double *o, double *state_out)
{
    if (plain)
        linear_f32(p, gate, state_in, true, o, state_out);
    else
        linear_f64(p, gate, state_in, false, o, state_out);
}

double largest_difference(const double *x, const double *y, size_t count)
{
    double largest = 0;
    for (size_t n = 0; n < count; n++) {
        const double d = x[n] == y[n] ? 0 : fabs(x[n] - y[n]);
        if (!(d <= largest)) largest = isnan(d) ? INFINITY : d;
    }
    return largest;
}

double largest_error(const float *x, const double *y, size_t count)
{
    double largest = 0;
    for (size_t n = 0; n < count; n++) {
        const double d = (double)x[n] == y[n] ? 0 : fabs((double)x[n] - y[n]);
        if (!(d <= largest)) largest = isnan(d) ? INFINITY : d;
    }
    return largest;
}
