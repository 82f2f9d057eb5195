/* hip_emulated.h - what tests ask of the double of libamdhip64 beside its own functions: mistakes in the machine code of kernels,
 * and what kernels executed. */
#ifndef HIP_EMULATED_H
#define HIP_EMULATED_H

#include "emulate.h"

#include <dlfcn.h>
#include <string.h>

/* From now on kernels whose name ends in [kernel] have this mistake when they are first asked for (emu_plant); NULL for [text]: none. */
__attribute__((visibility("default"))) void hip_emulated_plant(const char *kernel, const char *text,
                                                               unsigned at, EmuMistake mistake);
/* Whether some had the place, and what the emulator said of the last launch that it stopped, "" if none. */
__attribute__((visibility("default"))) bool hip_emulated_planted(const char **said);

/* From now on launches of kernels whose name ends in [kernel] add what they executed to [counts]; NULL: none do. */
__attribute__((visibility("default"))) void hip_emulated_count(const char *kernel,
                                                               EmuCounts *counts);

/* That function of the driver that a program is given; NULL: it is given no emulated one. */
typedef void HipEmulatedCount(const char *kernel, EmuCounts *counts);
static inline HipEmulatedCount *hip_emulated_counter(void)
{
    void *library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "hip_emulated_count") : NULL;
    HipEmulatedCount *count;
    memcpy(&count, &symbol, sizeof count);
    return count;
}

#endif
