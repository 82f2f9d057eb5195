/* slots.h - what a launch passes to a kernel, checked against the artifact's tables before it is written: the same rules by
 * which libaule reads them, and what only the compiler knows (element types, who writes what). */
#ifndef AU_DRIVER_SLOTS_H
#define AU_DRIVER_SLOTS_H

#include "driver.h"

/* false: a diagnostic names the argument; a fault of the compiler, unless there are more than an artifact has room for. */
bool slots_verify(AuDiags *diags, const AuVariant *variant, const AuKernel *kernel);

#endif
