/* known.h - names of the emulator's instructions, for the question whether each has a meaning. */
#ifndef INSTRUCTION_KNOWN_H
#define INSTRUCTION_KNOWN_H

#include <stdbool.h>

const char *known_name(unsigned n); /* NULL behind the last */
/* Control, what changes how registers are numbered, matrices, memory: tried by kernels (random_test.c, mistakes_test.c). */
bool known_without_meaning(unsigned n);

#endif
