/* opencl.h - what the tests of the OpenCL target share: OpenCL devices, and running a kernel on one of them exactly as
 * kernel_run runs it. */
#ifndef AU_TEST_OPENCL_H
#define AU_TEST_OPENCL_H

#define CL_TARGET_OPENCL_VERSION          210
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: devices of 1.2 have no other */
#include <CL/cl.h>

#include "data.h"
#include "kernel_run.h"
#include "target.h"

/* The target's source text of a verified kernel; a diagnostic fails the test. */
const char *opencl_source(Bench *b, AuKernel *k);

typedef struct ClDevice {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    char name[160];
    bool takes_modules; /* code is SPIR-V of flavour Kernel, and not the source */
} ClDevice;

/* Every OpenCL device here; one that takes modules comes twice, the second time to be given these. */
uint32_t cl_devices(ClDevice *devices, uint32_t most);
void cl_close(ClDevice *devices, uint32_t count);

/* Runs the kernel on the device: buffers that the kernel writes are brought back. Every buffer lies at an odd offset between
 * borders, whose change fails the test, and so does any error of the device. [source]: for devices that are given it. */
void cl_run(Bench *b, const ClDevice *device, AuKernel *k, const char *source, const AuKRun *run);

#endif
