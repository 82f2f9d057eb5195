/* launch_case.h - what a warm call costs, for the programs that print it (launch_bench.c and those of single drivers). */
#ifndef LAUNCH_CASE_H
#define LAUNCH_CASE_H

#include "case.h"

/* Prints [what] and the least nanoseconds a run of a plan took, of ten times 20000. */
void launch_measure(Fixture *f, Case *c, const char *what);
/* The same of a plan that is there, and of any function. */
void launch_measure_plan(const aule_plan *plan, const aule_run *run, const char *what);
void launch_measure_any(void (*function)(void *context), void *context, const char *what);

#endif
