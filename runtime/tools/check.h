/* check.h - what the parts of `aule check` share. */
#ifndef AULE_TOOL_CHECK_H
#define AULE_TOOL_CHECK_H

#include "array.h"
#include "command.h"
#include "compiler.h"

enum { CHECK_MOST = 96 }; /* tensors and parameters of a case */

typedef struct Script {
    AuCompiler compiler;
    AuFile file;
    const char *path, *attention, *values;
    bool tf32;         /* f32 is multiplied so */
    const char *dtype; /* of the operands; NULL: all */
    uint64_t seed;
} Script;

/* Runs a case's operations on a device and prints how far their results are off; 0: each inside of its bound. */
int check_case(Script *s, aule_device *device, const aulec_case *reference, aule_module *module);

#endif
