/* scalars.h - functions that the meanings in scalars.def are written with. */
#ifndef AU_SUPPORT_SCALARS_H
#define AU_SUPPORT_SCALARS_H

#include <math.h>

/* ln(1 + e^x) without overflow. */
static inline double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

#endif
