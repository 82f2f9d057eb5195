/* metal_compile.h - MSL as a library of this machine: compiled as C++ with the shim, loaded, run. */
#ifndef AU_TESTS_METAL_COMPILE_H
#define AU_TESTS_METAL_COMPILE_H

#include "include/shim.h"

typedef struct MetalText MetalText;
/* [version]: __METAL_VERSION__, 300 or 310. NULL: the compiler's words are in [why]. */
MetalText *metal_compile(const char *source, unsigned version, char *why, size_t room);
void metal_forget(MetalText *text);
int metal_has(const MetalText *text, const char *kernel);
int metal_run(const MetalText *text, const ShimLaunch *launch, char *why,
              size_t room); /* 0: fine */

#endif
