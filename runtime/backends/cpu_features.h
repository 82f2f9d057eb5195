/* cpu_features.h - what this processor can do, asked of the processor itself. */
#ifndef AU_RUNTIME_CPU_FEATURES_H
#define AU_RUNTIME_CPU_FEATURES_H

#include "../base.h"

/* Architectures that kernels are compiled for, the least first; NULL after the last. */
const char *rt_cpu_arch(size_t place);

/* Space-separated, as in cpu_features.def; what only architectures after the first [limit] have is left out. */
void rt_cpu_features(size_t limit, AuText *words);
/* The word without which kernels for plainer architectures are faster than those for [arch]; "": none. */
const char *rt_cpu_wish(const char *arch);
void rt_cpu_name(AuText *name); /* the maker's words */
const char *
rt_cpu_family(void); /* what architectures of artifacts begin with: "x86-64", "aarch64" */

#endif
