/* opencl.h - what the tests of the OpenCL C target share: kernels from golden files, OpenCL devices, and running a kernel on
 * one of them exactly as kernel_run runs it. */
#ifndef AU_TEST_OPENCL_H
#define AU_TEST_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "kernel_test.h"
#include "target.h"

void file_read(const char *path, AuText *text);
/* The content of tests/golden/opencl-c/[name]. */
const char *golden_read(Bench *b, const char *name);
/* Compares with a golden file; AU_UPDATE=1 in the environment writes it instead. */
void golden_expect(Bench *b, const char *name, const char *text);

/* The target's source text of a verified kernel; a diagnostic fails the test. */
const char *opencl_source(Bench *b, AuKernel *k);

typedef struct ClDevice {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    char name[128];
} ClDevice;

/* Every OpenCL device here. */
uint32_t cl_devices(ClDevice *devices, uint32_t most);
void cl_close(ClDevice *devices, uint32_t count);

/* Runs the kernel on the device: buffers that the kernel writes are brought back. Every buffer lies at an odd offset between
 * borders, whose change fails the test, and so does any error of the device. */
void cl_run(Bench *b, const ClDevice *device, const AuKernel *k, const char *source,
            const AuKRun *run);

/* ---- numbers */

uint32_t test_random(uint32_t *seed);
/* Random numbers of a type, a third of them special: zeros, infinities, NaN, the ends of the range. */
void test_fill(void *data, AuScalar scalar, uint64_t count, uint32_t seed);
/* An f32, f16 or bf16. */
float test_float(const void *data, AuScalar scalar, uint64_t n);
/* Equal bits, both NaN, at most so many floats apart (0: no), or so close (negative: no). */
bool test_same(const void *a, const void *b, AuScalar scalar, uint64_t n, int ulps, float within);

#endif
