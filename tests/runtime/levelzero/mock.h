/* mock.h - Level Zero without a device: a loader and driver over host memory (libze_loader.so.1), or a driver alone behind the real loader
 * (driver.c). It keeps the rules of the specification's version 1.0: what arguments may be, what outlives what, what is in use, what an
 * unfinished list may do; the first rule that is broken is remembered and the call refused. Work is done when somebody waits for it, and what
 * no barrier orders in the opposite order. Memory of the device can be touched while kernels run alone.
 *
 * Kernels are those of the sample artifact (sample.c), or modules are compiled and run by an OpenCL device (opencl.c). */
#ifndef LEVELZERO_MOCK_H
#define LEVELZERO_MOCK_H

#include <stdbool.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))

typedef enum MockKind { /* of objects */
                        MOCK_CONTEXT,
                        MOCK_LIST,
                        MOCK_QUEUE,
                        MOCK_POOL,
                        MOCK_EVENT,
                        MOCK_MODULE,
                        MOCK_LOG,
                        MOCK_KERNEL,
                        MOCK_MEMORY,
                        MOCK_KINDS
} MockKind;

typedef struct LevelZeroMock {
    uint32_t drivers, devices, parts; /* devices of each driver, parts of each device */
    uint32_t api, driver;             /* versions: of the interface as 1 << 16 | 3, of the driver */
    uint32_t type, spirv;             /* of devices; the version of SPIR-V as api, 0: none */
    bool computes;                    /* there is a queue that does */
    bool sees_host, relaxed;          /* shared system memory; allocations beyond the limit */
    bool multiplies;                  /* it has matrix units */
    uint32_t spilled; /* bytes of the kernel that a module has first; of others the half */
    uint32_t most_threads, most_x, most_blocks, shared_bytes, time_bits;
    uint64_t memory_bytes; /* of one allocation at most */
    uint32_t local_bytes;  /* of each kernel of the sample */
    uint64_t now;          /* ticks so far: 10 a command */
    int fail_at;           /* this call fails, counted from 1; 0: none */
    const char *fail;      /* or each of this function */
    uint32_t code;         /* with this result */
    bool idle;        /* commands are taken and forgotten: for what a call costs without them */
    bool hangs, slow; /* nothing is done any more; one kernel in each wait */
    /* so far */
    int calls, launches, compiled, taken; /* modules of SPIR-V, of binaries */
    int waits;                            /* that ended before there was what they are for */
    uint64_t patience;                    /* nanoseconds of the last wait */
    int large;                            /* modules for twice as many registers */
    const char *failed;                   /* the function that did */
    const char *broken;                   /* the first rule that was */
    int alive[MOCK_KINDS];
} LevelZeroMock;

extern MOCK_API LevelZeroMock levelzero_mock;
MOCK_API void levelzero_mock_reset(void); /* one GPU that has everything */
MOCK_API void levelzero_mock_work(void);  /* does what is to be done: a device does so by itself */

#endif
