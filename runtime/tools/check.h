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
    const char *layout; /* as aulec has it; NULL: dense rows alone */
    bool tf32;          /* f32 is multiplied so */
    const char *dtype;  /* of the operands; NULL: all */
    uint64_t seed;
} Script;

/* A case on a device. */
typedef struct Trial {
    Script *script;
    aule_device *device;
    const aulec_case *reference;
    AuArray arrays[CHECK_MOST]; /* by tensor of the case */
    aule_buffer *buffers[CHECK_MOST];
    DLTensor tensors[CHECK_MOST];
    aule_param_arg params[CHECK_MOST];
    size_t count, param_count;
    bool has_gradients;
} Trial;

/* NULL after a message. */
Trial *check_trial(Script *s, aule_device *device, const aulec_case *reference);
void check_free(Trial *trial);
/* Runs its operations; results are in its arrays, then. */
int check_run(Trial *trial, aule_module *module);
/* Runs a case's operations on a device and prints how far their results are off; 0: each inside of its bound. */
int check_case(Script *s, aule_device *device, const aulec_case *reference, aule_module *module);
/* Element n of f32, f16 or bf16. */
double check_element(const AuArray *array, uint64_t n);
/* Nothing between the same infinities and between NaNs; infinity where one alone is NaN. */
double check_apart(double a, double b);
/* Prints how far a result is off at worst, beside the largest value. */
void check_tell(const char *name, double worst, double size, double bound);

/* check.c: a case of the script; [far]: of inputs far below 0. */
int check_reference(Script *s, const aulec_case_options *options, aulec_case **reference);

/* check_layouts.c: the script's rows in the layouts of --layout. Refused as aulec refuses them, before anything takes time. */
int check_layouts_fit(Script *s);
/* [module] has the kernels of dense rows for the device and the type, [whole] is a case of them. */
int check_layouts(Script *s, aule_device *device, const char *dtype, const aulec_case *whole,
                  aule_module *module);
/* What the compiler says against it. */
void check_tell_why(Script *s, const aulec_result *result);
/* check.c: compiles what the device will run, of [layout] or, NULL, dense. Says nothing of errors; EXIT_USAGE: options do not go together. */
int check_compile(Script *s, const aule_device_info *device, const aulec_case *reference,
                  const char *dtype, const char *layout, aulec_result **result);
/* Puts an artifact into a file of its own, whose name has room for CHECK_PATH. Who makes it removes it. */
enum { CHECK_PATH = 4096 };
int check_write(const aulec_result *result, Script *s, char *path);

#endif
