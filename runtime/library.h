/* library.h - an artifact's file, open: loaded by the system, or read as data where that takes no such file. */
#ifndef AU_RUNTIME_LIBRARY_H
#define AU_RUNTIME_LIBRARY_H

#include "elf_image.h"

typedef struct AuLibrary {
    void *loaded;     /* the loader's; NULL: it is read, or the descriptor is the caller's */
    AuElfImage image; /* as it was read */
    int file;         /* -1: none */
} AuLibrary;

/* Checks the file, then takes it into memory, with the descriptor in it. AULE_ERROR_FILE, AULE_ERROR_ARTIFACT. */
aule_status rt_library_open(const char *path, const char *symbol, AuLibrary *library,
                            const aule_module_v1 **descriptor, AuSegments *segments, AuSink sink);
/* Of what was only read, host kernels are taken out, since they cannot be called, and nobody writes to it any more. The descriptor is then to be
 * checked as it is, by the [segments] as they are. */
aule_status rt_library_seal(AuLibrary *library, const char *path, const aule_module_v1 *descriptor,
                            AuSegments *segments, AuSink sink);
void rt_library_close(AuLibrary *library);

#endif
