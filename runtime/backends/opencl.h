/* opencl.h - what the two halves of the OpenCL backend share: opencl.c has devices, memory and events, opencl_launch.c code and
 * launches. */
#ifndef AU_RUNTIME_OPENCL_H
#define AU_RUNTIME_OPENCL_H

#include "backend.h"
#include "opencl_api.h"

typedef cl_program (*AuProgramWithIL)(cl_context context, const void *code, size_t length,
                                      cl_int *error);

/* A device's state. */
typedef struct OpenCL {
    AuHeap memory;
    AuOpenCL cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    AuProgramWithIL program_with_il; /* NULL: it takes source alone */
} OpenCL;

/* Errors of a driver's call; check: 0 is fine. */
aule_status rt_opencl_fail(AuSink sink, aule_status status, const char *function, cl_int code);
aule_status rt_opencl_check(AuSink sink, const char *function, cl_int code);

/* ---- opencl_il.c: SPIR-V instead of source */

/* AULE_OPENCL_CODE, which code is taken. */
typedef enum AuOpenCLCode { AU_OPENCL_ANY, AU_OPENCL_SOURCE, AU_OPENCL_SPIRV } AuOpenCLCode;
aule_status rt_opencl_code(AuOpenCLCode *code, AuSink sink);
/* How the device makes programs of modules; NULL: it does not. [versions] then gets words, "SPIR-V_1.0 SPIR-V_1.1". */
AuProgramWithIL rt_opencl_il(const AuOpenCL *cl, cl_device_id device, AuText *versions);
/* Words of what modules may ask for, beside the names of [extensions]: shared memory, subgroups of so many lanes, Intel's matrix units. */
void rt_opencl_words(const AuOpenCL *cl, cl_device_id device, const char *extensions,
                     AuText *words);
const char *rt_opencl_refuses(const char *arch);
int rt_opencl_rank_arch(const aule_device_info *info, const char *arch);

aule_status rt_opencl_load(void *state, const aule_variant_v1 *variant, void **program,
                           AuSink sink);
void rt_opencl_unload(void *state, void *program);
aule_status rt_opencl_launch(void *state, void *program, void *queue, const AuLaunch *given,
                             AuSink sink);
aule_status rt_opencl_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                           AuSink sink);

#endif
