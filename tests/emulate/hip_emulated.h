/* hip_emulated.h - what tests ask of the double of libamdhip64 beside its own functions: mistakes in the machine code of kernels,
 * and what kernels executed. */
#ifndef HIP_EMULATED_H
#define HIP_EMULATED_H

#include "emulate.h"

/* From now on kernels whose name ends in [kernel] have this mistake when they are first asked for (emu_plant); NULL for [text]: none. */
__attribute__((visibility("default"))) void hip_emulated_plant(const char *kernel, const char *text,
                                                               unsigned at, EmuMistake mistake);
/* Whether some had the place, and what the emulator said of the last launch that it stopped, "" if none. */
__attribute__((visibility("default"))) bool hip_emulated_planted(const char **said);

/* From now on launches of kernels whose name ends in [kernel] add what they executed to [counts]; NULL: none do. */
__attribute__((visibility("default"))) void hip_emulated_count(const char *kernel,
                                                               EmuCounts *counts);

#endif
