/* grids.h - kernels of one operation that overlap (grids.c). */
#ifndef AU_GRIDS_H
#define AU_GRIDS_H

#include "kernel.h"

/* Verified kernels, in the order of their launches: each but the first waits by itself for those before it, when it needs them. Some are short, as those
 * that make lists. */
void grids_overlap(AuKernel *const *kernels, const bool *are_short, uint32_t count);
/* May be launched before the one before it has ended. */
bool grids_waits(const AuKernel *k);

#endif
