/* device.h - devices, their choice, and the handles that count their users. */
#ifndef AU_RUNTIME_DEVICE_H
#define AU_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "backends/backend.h"

/* Threads of one device: what options and the environment may ask for. */
enum { AU_MOST_THREADS = 1024 };

struct aule_device {
    AuHeap memory;
    const AuBackend *backend;
    void *state;
    aule_device_info info; /* owns its texts */
    atomic_uint users;
};

aule_device *rt_device_keep(aule_device *device);
void rt_device_release(aule_device *device);

/* Opens a device of a backend that need not be in backends.def (tests). */
aule_status rt_device_open(const AuBackend *backend, uint32_t index,
                           const aule_device_options *options, aule_device **device, AuSink sink);

/* Is it a name that a device of this build could have? */
aule_status rt_check_id(const char *id, size_t length, AuSink sink);
aule_status rt_open_named(const char *id, size_t length, const aule_device_options *options,
                          aule_device **device, AuSink sink);

/* The device that AULE_BACKEND and AULE_DEVICE name; [is_named] false: they name none, and nothing is opened. */
aule_status rt_open_from_environment(const aule_device_options *options, aule_device **device,
                                     bool *is_named, AuSink sink);

#endif
