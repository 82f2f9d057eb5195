/* cpu_features.h - what this processor can do, asked of the processor itself. */
#ifndef AU_RUNTIME_CPU_FEATURES_H
#define AU_RUNTIME_CPU_FEATURES_H

#include "../base.h"

void rt_cpu_features(AuText *words); /* space-separated, as in cpu_features.def */
void rt_cpu_name(AuText *name);      /* the maker's words */
const char *
rt_cpu_family(void); /* what architectures of artifacts begin with: "x86-64", "aarch64" */

#endif
