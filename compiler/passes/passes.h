/* passes.h - what rewrites tiled programs between schedules and the lowering (docs/dev/lowering.md, Passes).
 *
 * A pass takes a verified kernel and gives one that verifies, has a text form that reads back, and runs in the interpreter of the
 * tiled IR. passes.def is the table of them, in their order. */
#ifndef AU_PASSES_H
#define AU_PASSES_H

#include "tile.h"

typedef struct AuPass {
    const char *name;
    bool same_bits; /* of results, as the interpreter has them */
    const char *what;
} AuPass;
const AuPass *passes_all(uint32_t *count);

/* The module after all passes, or after those up to [last]; names are those of the module. NULL after an error. */
AuTileModule *passes_run(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                         const char *last);

#endif
