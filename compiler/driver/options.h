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
    bool defaults[OPTIONS_MOST]; /* a target of which none was named: its default */
    AuTileElem dtypes[OPTIONS_MOST];
    uint32_t dtype_count;
    AuWidths widths[OPTIONS_MOST];
    uint32_t width_count;
    AuLayouts layouts[LAYOUTS_MOST]; /* those of --layout */
    uint32_t layout_count;
    bool several;         /* the artifact has attentions of several, or of --serve's */
    AuStorage storage[2]; /* of k, v */
    bool tf32;            /* how operands of f32 are multiplied */
    bool modules; /* what is asked for are modules, also of rows that are not compiled by default */
    bool is_static; /* code that is linked, and chooses among its kernels by itself */
} AuChoice;

/* "unknown WHAT 'found'; expected ..": false. */
bool options_wrong(AuChoice *choice, const char *what, const char *found, const char *expected);
/* `--arch help`: those of the targets that were named, else of all. */
bool options_arch_names(AuChoice *choice, const aulec_options *options, AuText *out);
bool options_choose(AuChoice *choice, const aulec_options *options);
bool options_takes_arch(const AuChoice *choice, uint32_t target, const AuArch *arch);
/* The first target that was asked for, by its name or an architecture's, and has no kernels of layouts; NULL: none. Those that nobody asked for
 * and have none are left out of the choice. */
const AuTarget *options_without_layouts(AuChoice *choice, const aulec_options *options);
bool options_takes_operand(const AuArch *arch, AuTileElem operand);
bool options_has_tf32(const AuArch *arch);
const AuWidths *options_widths(const AuChoice *choice, const char *name); /* NULL: not given */

/* serve.c: reads --layout and --serve; and what they are of one attention: LAYOUTS_MOST at most, 1 at least. 0: it has not the axes for it,
 * a diagnostic says so. */
bool layouts_choose(AuChoice *choice, const aulec_options *options);
uint32_t layouts_of(AuChoice *choice, const aulec_options *options, const AuAttn *attn,
                    AuLayouts *list);
/* "mha", or where there are several, "mha@S=packed:most,T=paged". */
const char *layouts_name(AuArena *arena, const AuAttn *attn, const AuLayouts *layouts);

#endif
