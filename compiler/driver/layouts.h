/* layouts.h - where keys lie that a call gives in another layout than [B, Hk, T, D] (docs/dev/serving.md): the tensors and sizes that
 * it has beside the script's. */
#ifndef AU_DRIVER_LAYOUTS_H
#define AU_DRIVER_LAYOUTS_H

#include "attn.h"

#include "aule/artifact.h"

/* Adds the inputs `lengths` and, of pages, `table`, with their sizes. false: what the attention has there is not carried, a
 * diagnostic names it. Nothing for dense keys. */
bool driver_add_layout(AuArena *arena, AuDiags *diags, AuAttn *a, AuLayout layout,
                       const char *axis);
/* [B, Hk, T, D] of k or v becomes [pages, Hk, slots, D] where they are paged. */
void driver_place_keys(AuAttn *a, AuExpr *axes);
/* Is it a size that no tensor of a call gives: that of paged keys that no input has? Kernels do not ask for it. */
bool driver_is_unknown(const AuAttn *a, uint32_t size);
/* AULE_TENSOR_LENGTHS, AULE_TENSOR_TABLE or 0. */
uint32_t driver_layout_flags(const AuAttn *a, uint32_t tensor);

#endif
