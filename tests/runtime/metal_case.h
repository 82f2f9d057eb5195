/* metal_case.h - the sample's module with MSL. */
#ifndef METAL_CASE_H
#define METAL_CASE_H

#include "case.h"

/* The sample's kernels, written in MSL by hand. */
enum { METAL_CASE_CODE_BYTES = 2283 };
extern const char metal_case_code[METAL_CASE_CODE_BYTES];

/* Makes the module with [code] in place of PTX, in blocks of one simdgroup. */
void metal_case_module(CaseModule *sample, aule_launch_v1 launches[2], const char *code);

/* Of the double nothing is left, and nothing was misused. */
void metal_case_nothing_left(void);

#endif
