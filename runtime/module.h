/* module.h - open artifacts, and the code of their variants that devices have loaded.
 * A module keeps the devices on which its code is loaded; a plan keeps its module. */
#ifndef AU_RUNTIME_MODULE_H
#define AU_RUNTIME_MODULE_H

#include <pthread.h>

#include "device.h"
#include "library.h"

/* One variant's code on one device. */
typedef struct AuProgram {
    aule_device *device;
    const aule_variant_v1 *variant;
    void *code; /* the backend's */
    struct AuProgram *next;
} AuProgram;

struct aule_attention {
    aule_module *module;
    const aule_attention_v1 *descriptor;
};

struct aule_module {
    AuHeap memory;
    atomic_uint users;
    const aule_module_v1 *descriptor;
    AuLibrary library; /* nothing where the descriptor is the caller's */
    aule_attention *attentions;
    pthread_mutex_t lock; /* of programs */
    AuProgram *programs;
};

aule_module *rt_module_keep(aule_module *module);
void rt_module_release(aule_module *module);

/* Loads the code once for each device. Lives as long as the module. */
aule_status rt_module_program(aule_module *module, aule_device *device,
                              const aule_variant_v1 *variant, void **code, AuSink sink);

#endif
