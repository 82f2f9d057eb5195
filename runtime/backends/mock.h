/* mock.h - a device that does nothing but remember what it was asked to do, for tests: what the core hands to a backend can be looked at,
 * and every call of the backend can be made to fail. Memory is of handles, as with OpenCL. Not part of libaule. */
#ifndef AU_RUNTIME_MOCK_H
#define AU_RUNTIME_MOCK_H

#include "backend.h"

enum { AU_MOCK_LAUNCHES = 64, AU_MOCK_SLOTS = 64 };

typedef struct AuMockLaunch {
    uint32_t index, grid[3], slot_count;
    uint64_t slots[AU_MOCK_SLOTS];
    int64_t offsets[AU_MOCK_SLOTS];
    void *queue;
} AuMockLaunch;

/* The test's, passed as aule_device_options.context. */
typedef struct AuMock {
    uint32_t calls;   /* of the backend so far */
    uint32_t fail_at; /* this call fails, counted from 1; 0: none */
    aule_status fail_with;
    uint32_t programs, buffers; /* alive */
    uint64_t zeroed;            /* bytes */
    uint32_t launch_count;
    AuMockLaunch launches[AU_MOCK_LAUNCHES];
} AuMock;

enum { AU_MOCK_DL = 12 };                /* DLPack's kDLExtDev */
enum { AU_MOCK_BUFFER_BYTES = 1 << 20 }; /* what check_memory says that every handle has */

extern const AuBackend au_backend_mock;

#endif
