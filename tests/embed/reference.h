/* reference.h - attention as its formula says, in double: what the embedded kernels are compared with. C and C++. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_MOST = 256 };

/* Heads, lengths and width of compact tensors [1, H, S, D], [1, Hk, T, D]; window: keys a query sees, cap and gain 0: none. */
typedef struct Reference {
    int64_t H, Hk, S, T, D;
    const float *q, *k, *v, *slope;
    int64_t window;
    double cap, gain;
} Reference;

static double reference_score(const Reference *r, int64_t h, int64_t i, int64_t j)
{
    const float *q = r->q + (h * r->S + i) * r->D,
                *k = r->k + (h / (r->H / r->Hk) * r->T + j) * r->D;
    const int64_t at = i + r->T - r->S;
    double s = 0;
    if (j > at || at - j >= r->window) return -INFINITY;
    for (int64_t c = 0; c < r->D; c++) s += (double)q[c] * k[c];
    s /= sqrt((double)r->D);
    if (r->cap > 0) s = r->cap * tanh(s * r->gain / r->cap);
    return s + (r->slope ? r->slope[h] * (double)(j - at) : 0);
}

/* Row (h, i) into out[D]; gives log sum exp. */
static double reference_row(const Reference *r, int64_t h, int64_t i, double *out)
{
    double scores[REFERENCE_MOST], most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < r->T; j++) {
        scores[j] = reference_score(r, h, i, j);
        if (scores[j] > most) most = scores[j];
    }
    for (int64_t c = 0; c < r->D; c++) out[c] = 0;
    for (int64_t j = 0; j < r->T; j++) {
        const double p = scores[j] > -INFINITY ? exp(scores[j] - most) : 0;
        const float *v = r->v + (h / (r->H / r->Hk) * r->T + j) * r->D;
        sum += p;
        for (int64_t c = 0; c < r->D; c++) out[c] += p * v[c];
    }
    for (int64_t c = 0; c < r->D; c++) out[c] /= sum;
    return most + log(sum);
}

/* The largest difference to o (compact) and lse (may be NULL). NaN counts as infinite. */
__attribute__((unused)) static double reference_error(const Reference *r, const float *o,
                                                      const float *lse)
{
    double worst = 0, row[REFERENCE_MOST];
    for (int64_t h = 0; h < r->H; h++)
        for (int64_t i = 0; i < r->S; i++) {
            const double sum = reference_row(r, h, i, row);
            for (int64_t c = 0; c < r->D; c++) {
                const double e = fabs(row[c] - o[(h * r->S + i) * r->D + c]);
                worst = e <= worst ? worst : e < INFINITY ? e : INFINITY;
            }
            const double e = lse ? fabs(sum - lse[h * r->S + i]) : 0;
            worst = e <= worst ? worst : e < INFINITY ? e : INFINITY;
        }
    return worst;
}

/* Adds to dq, dk, dv what row (h, i) of o gives when its gradient is [go] (d of them). */
__attribute__((unused)) static void reference_row_back(const Reference *r, int64_t h, int64_t i,
                                                       const float *go, double *dq, double *dk,
                                                       double *dv)
{
    double out[REFERENCE_MOST], delta = 0;
    const double sum = reference_row(r, h, i, out), scale = 1 / sqrt((double)r->D);
    const float *q = r->q + (h * r->S + i) * r->D;
    for (int64_t c = 0; c < r->D; c++) delta += out[c] * go[c];
    for (int64_t j = 0; j < r->T; j++) {
        const double s = reference_score(r, h, i, j), p = s > -INFINITY ? exp(s - sum) : 0;
        const int64_t at = (h / (r->H / r->Hk) * r->T + j) * r->D;
        double dp = 0;
        for (int64_t c = 0; c < r->D; c++) dp += go[c] * (double)r->v[at + c];
        for (int64_t c = 0; c < r->D; c++) {
            dv[at + c] += p * go[c];
            dk[at + c] += p * (dp - delta) * scale * q[c];
            dq[(h * r->S + i) * r->D + c] += p * (dp - delta) * scale * r->k[at + c];
        }
    }
}

/* The largest difference; NaN counts as infinite. */
__attribute__((unused)) static double reference_worst(const double *want, const float *found,
                                                      int count)
{
    double error = 0;
    for (int n = 0; n < count; n++) {
        const double e = fabs(want[n] - (double)found[n]);
        error = e <= error ? error : e < INFINITY ? e : INFINITY;
    }
    return error;
}

static void reference_fill(float *at, size_t count, unsigned seed)
{
    for (size_t n = 0; n < count; n++) {
        seed = seed * 1664525u + 1013904223u;
        at[n] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

#endif
