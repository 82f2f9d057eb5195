/* linear_trial.h - of linear_laws.c: calls of the recurrence's oracle in which everything is given, and comparing what two of them make. */
#ifndef AU_LINEAR_TRIAL_H
#define AU_LINEAR_TRIAL_H

#include "linear_laws.h"

/* An array that is made, by the name that messages give it. */
typedef struct Part {
    const char *name;
    double *at;
    size_t count;
} Part;

typedef struct Made {
    Part o, state, sum, dstate, dsum, *grads;
    double **grad_arrays;
} Made;

typedef struct Laws {
    AuAttn *a;
    const AuNormal *n;
    const AuNormalGrads *g;
    AuArena *arena;
    AuLaws out;
    const char *why; /* the oracle failed */
} Laws;

size_t laws_extent(const Laws *l, const AuOracleCall *c, uint32_t tensor, uint32_t axis);
size_t laws_elements(const Laws *l, const AuOracleCall *c, uint32_t tensor);
/* A call with [states] states, all that is given filled in. */
AuLinearCall laws_call(const Laws *l, const AuOracleCall *c, size_t states);
/* Room for what it makes. */
Made laws_made(const Laws *l, const AuOracleCall *c, size_t states);
/* Forward, or [backward] both. False: the oracle failed, see l->why. */
bool laws_run(Laws *l, AuLinearCall *call, const Made *to, bool backward);
/* NULL: as near as [bound] of the largest number. [plain]: what the other may be off by, times [times]; its arrays too. */
const char *laws_compare_part(Laws *l, const Part *found, const Part *expected, const Part *plain,
                              double bound, double times);
/* The same of all arrays; [plain] NULL: nothing else. */
const char *laws_compare(Laws *l, const Made *found, const Made *expected, const Made *plain,
                         double bound);

#endif
