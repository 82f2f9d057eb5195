/* work.h - the operation `schedule` (docs/dev/operations.md): which launches make lists of work, and the tensor "work" that a call may give in
 * place of the regions of the workspace that they write. */
#ifndef AU_DRIVER_WORK_H
#define AU_DRIVER_WORK_H

#include "driver.h"

/* Of an attention that a call gives rows in layouts: adds the size of "work", with which driver_tensors has the tensor. After all others, so
 * that their numbers are what they were. false: the name is taken, a diagnostic says by what. */
bool work_add(AuDiags *diags, AuAttn *a);
/* Its one axis. */
AuExpr work_axis(AuAttn *a);
/* Does the kernel make lists of work? */
bool work_makes(const AuVariant *v, const AuKernel *k);
/* What AULE_LAUNCH_WORK says of the variant's launches holds: a step that makes them by themselves finds all that they read, and the kernels
 * that read the lists find nobody else's writes there. false: a diagnostic, a fault of the schedule. */
bool work_verify(AuDiags *diags, const AuVariant *v);

#endif
