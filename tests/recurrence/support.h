/* support.h - rows of a recurrence filled with seeded numbers, results beside results. */
#ifndef AU_TESTS_RECURRENCE_SUPPORT_H
#define AU_TESTS_RECURRENCE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "recurrence.h"

enum { GATES = 9 };
typedef enum Gates { ONE, SOFT, STRONG, TINY, ZERO, RESETS, MIXED, ALTERNATING, GROWING } Gates;
extern const char *const gate_names[GATES];

typedef struct Shape {
    int64_t T, K, V, G; /* G: 0, 1, or K */
    AuFeedback feedback;
    bool before;
    Gates gates;
} Shape;

/* Everything that forward and backward make, and what they are given. */
typedef struct Run {
    AuArena *arena;
    AuRows rows, d;
    double *state, *dout, *dlast; /* given: S_0, gradients of o and of S_T */
    double *o, *last, *dfirst;    /* made: o, S_T, gradient of S_0 */
} Run;

double random_between(uint64_t *random, double low, double high);
Run run_new(AuArena *arena, const Shape *shape, uint64_t seed);
/* A copy with the same rows and givens, and results of its own. */
Run run_like(const Run *run);
void run_make(Run *run, const AuEngine *how);
/* sum of dout o and dlast S_T */
double run_loss(const Run *run);
/* The array of rows [field] of "qkvgexb", and its length; NULL: it is not there. */
double *rows_field(const AuRows *rows, char field, int64_t *count);
/* The largest error beside the largest number; infinite where one alone is no number. */
double relative(const double *found, const double *expected, int64_t count);
/* That of everything the runs made; *where says which array is the worst. */
double run_error(const Run *found, const Run *expected, char *where);

#endif
