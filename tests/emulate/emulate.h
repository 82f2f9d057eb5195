/* emulate.h - executes code objects of AMD's GPUs on the host, an instruction at a time, from the ISA documents; docs/dev/hip.md says what it
 * models and what it watches. */
#ifndef EMULATE_H
#define EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Emulator Emulator;

/* What a launch executed, a wave's instruction one; issue cycles by the documents' rates. */
typedef enum EmuClass {
    EMU_SCALAR,
    EMU_VECTOR,
    EMU_MATRIX,
    EMU_LDS,
    EMU_MEMORY,
    EMU_WAIT,
    EMU_CLASSES
} EmuClass;
typedef struct EmuCounts {
    uint64_t instructions[EMU_CLASSES], cycles[EMU_CLASSES];
    uint64_t lanes;        /* instructions times lanes that were on */
    uint64_t narrow_reads; /* of LDS, a lane 16 bits at a time */
    uint64_t bank_cycles,
        conflicts; /* of the banks of LDS; those of them that are more than one a group of lanes (banks.c) */
    double seconds; /* of this processor, in emu_run */
} EmuCounts;

typedef struct EmuLaunch {
    const char *kernel;
    uint32_t grid[3], block[3];
    const void *arguments; /* of as many bytes as the kernel's descriptor says */
    uint64_t seed;         /* of the turns that waves take */
    /* Of errors of v_exp_f32, v_log_f32, v_rcp_f32, v_rsq_f32 and v_sqrt_f32: -1, 0 or 1 of the last place, which is what documents
     * promise, the same for the same number. 0: none, the host's functions. */
    uint64_t errors;
    /* Whether all of these bytes are inside one buffer that was handed over. */
    bool (*inside)(void *context, uint64_t address, size_t bytes);
    void *context;
} EmuLaunch;

/* NULL, and why in [why], if it is no code object that can be run. [code] is copied. */
Emulator *emu_new(const void *code, char *why, size_t why_bytes);
void emu_free(Emulator *e);

/* Whether the code runs on "gfx942", or "gfx942:xnack-". */
bool emu_runs_on(const Emulator *e, const char *machine);
bool emu_has(const Emulator *e, const char *kernel);
size_t emu_code_bytes(const void *code); /* of the ELF that begins here; 0 if it is none */

/* False: emu_error says what was wrong, in which kernel, at which instruction. */
bool emu_run(Emulator *e, const EmuLaunch *launch);
const char *emu_error(const Emulator *e);
const EmuCounts *emu_counts(const Emulator *e); /* of all launches so far */

/* Mistakes to be planted, for tests: in the instruction number [at] of those of the kernel whose text begins with [text]. False: there is none. */
typedef enum EmuMistake {
    EMU_REMOVED,
    EMU_SWAPPED, /* its first two sources */
    EMU_SHIFTED, /* its result goes to the next register */
    EMU_ALONE    /* it does not exchange with other lanes (DPP) */
} EmuMistake;
bool emu_plant(Emulator *e, const char *kernel, const char *text, unsigned at, EmuMistake mistake);

#endif
