/* options.h - what a compilation was asked for, resolved. */
#ifndef AU_DRIVER_OPTIONS_H
#define AU_DRIVER_OPTIONS_H

#include "driver.h"
#include "layouts.h"
#include "storage.h"

#include "aule/aulec.h"

enum { OPTIONS_MOST = 32 };

typedef struct AuWidths {
    const char *name;
    int32_t values[OPTIONS_MOST];
    uint32_t count;
} AuWidths;

typedef struct AuChoice {
    AuArena *arena;
    AuDiags *diags;
    const AuTarget *targets[OPTIONS_MOST];
    uint32_t target_count;
    const char *archs[OPTIONS_MOST]; /* none: each target's default */
    uint32_t arch_count;
    AuTileElem dtypes[OPTIONS_MOST];
    uint32_t dtype_count;
    AuWidths widths[OPTIONS_MOST];
    uint32_t width_count;
    AuAxisLayout layouts[2]; /* of axes of queries and keys, none of them dense but modified ones */
    uint32_t layout_count;
    AuStorage storage[2]; /* of k, v */
    bool tf32;            /* how operands of f32 are multiplied */
    bool modules; /* what is asked for are modules, also of rows that are not compiled by default */
    bool is_static; /* code that is linked, and chooses among its kernels by itself */
} AuChoice;

bool options_choose(AuChoice *choice, const aulec_options *options);
bool options_takes_arch(const AuChoice *choice, const AuArch *arch);
bool options_takes_operand(const AuArch *arch, AuTileElem operand);
bool options_has_tf32(const AuArch *arch);
const AuWidths *options_widths(const AuChoice *choice, const char *name); /* NULL: not given */

#endif
