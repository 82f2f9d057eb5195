/* call.h - the part of the demo that a program of one's own would have too: a script becomes a module, arrays become tensors of a
 * device, the call runs, its output comes back. */
#ifndef AU_DEMO_CALL_H
#define AU_DEMO_CALL_H

#include "array.h"

enum { CALL_TENSORS = 5 };

/* Compiles a script's forward kernels in the process for [targets] (NULL: those by default), for f32 and the width [width] of the
 * axis D, and loads the result. NULL: the reason is on stderr. [bytes]: the artifact's length. */
aule_module *call_compile(const char *path, int64_t width, const char *targets, size_t *bytes);

/* Is any of the module's code for the device of [info]? false: [why] names both. The runtime says the same when it is asked for a plan,
 * but in the words it has for calls of any type and width. */
bool call_fits(const aule_module *module, const aule_device_info *info, AuWhy *why);

/* The arguments, in the host's memory; the last one is the output. */
typedef struct CallArguments {
    const char *names[CALL_TENSORS];
    AuArray *arrays[CALL_TENSORS];
    size_t count;
} CallArguments;

/* Runs the module's attention on a device: once to build and to fill the output, then as often as fits a fraction of a second.
 * [seconds]: the median of these. [arch]: what the kernel was compiled for, the module's. false: the reason is in [why]. */
bool call_run(aule_module *module, const char *device, const CallArguments *arguments,
              double *seconds, const char **arch, AuWhy *why);

/* Seconds of a clock that only goes forward. */
double call_clock(void);

#endif
