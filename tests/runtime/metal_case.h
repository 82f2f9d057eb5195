/* metal_case.h - the sample's module with MSL. */
#ifndef METAL_CASE_H
#define METAL_CASE_H

#include "case.h"

/* Makes the module with [code] in place of PTX, in blocks of one simdgroup. */
void metal_case_module(CaseModule *sample, aule_launch_v1 launches[2], const char *code);

#endif
