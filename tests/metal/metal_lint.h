/* metal_lint.h - what Apple's compiler would refuse in printed MSL and the shim's g++ takes, from the text alone. */
#ifndef AU_TESTS_METAL_LINT_H
#define AU_TESTS_METAL_LINT_H

#include <stddef.h>

/* How much is wrong with [source], of the language's [version] (__METAL_VERSION__: 300, 310); the first of it is written into [why], a line each: "12: what". Text that is not of the language
 * that kernels are printed in (metal_dialect.c) counts as wrong: what is not understood is not checked. */
unsigned metal_lint(const char *source, unsigned version, char *why, size_t room);

#endif
