/* A shared library that is no artifact. Loading it would end the process: the check must come first. */
#include <stdlib.h>

int foreign_answer(void);

static __attribute__((constructor)) void explode(void) { abort(); }

int foreign_answer(void) { return 42; }
