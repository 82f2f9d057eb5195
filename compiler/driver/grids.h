/* grids.h - kernels of one operation that overlap (grids.c). */
#ifndef AU_GRIDS_H
#define AU_GRIDS_H

#include "kernel.h"

/* Verified kernels, in the order of their launches: each but the first waits by itself for those before it, when it needs them. Some are short, as those
 * that make lists. */
void grids_overlap(AuKernel *const *kernels, const bool *are_short, uint32_t count);
/* The next grid, of whatever call, may begin while this one runs. */
void grids_let_next(AuKernel *k);
/* May be launched before the one before it has ended. */
bool grids_waits(const AuKernel *k);
/* ... and waits before it touches anything that [before] has a part in. */
bool grids_waits_for(const AuKernel *k, const AuKernel *before);

#endif
