/* hip_case.h - the sample with kernels for the devices of the mock of AMD's library, device 0 a gfx942, device 1 a gfx1100. */
#ifndef HIP_CASE_H
#define HIP_CASE_H

#include "cuda_case.h"

/* The sample's variants for sm_80 as code for gfx942, which the mock takes on device 0. */
void hip_module(CaseModule *m);
/* The same as a setup; [context]: the caller's, or NULL. */
void hip_open(Setup *s, CaseModule *m, const char *id, void *context);

#endif
