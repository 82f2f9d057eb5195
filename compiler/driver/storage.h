/* storage.h - keys and values that a call gives in 8 bits, with scales (docs/dev/serving.md): the tensors that it has beside the
 * script's. */
#ifndef AU_DRIVER_STORAGE_H
#define AU_DRIVER_STORAGE_H

#include "attn.h"

#include "aule/artifact.h"

/* Reads "e4m3", "k=e4m3,v=i8:token" into the storage of k and of v; gives what is wrong with it, NULL: nothing. */
const char *driver_read_storage(AuArena *arena, const char *text, AuStorage storage[2]);
/* Adds the inputs k_scale and v_scale. After layouts. false: what the attention does with them is not carried, a diagnostic names it. */
bool driver_add_storage(AuArena *arena, AuDiags *diags, AuAttn *a, const AuStorage storage[2]);
/* Why rows of the widths that are fixed cannot be stored so; NULL: they can. */
const char *driver_storage_refusal(AuArena *arena, const AuAttn *a);
/* What a size must be a multiple of for that. */
int32_t driver_width_unit(const AuAttn *a, uint32_t size);
/* AULE_TENSOR_SPREADS of a scale, or 0. */
uint32_t driver_storage_flags(const AuAttn *a, uint32_t tensor);
/* aule_dtype of k (1), v (2) as it is stored; AULE_OPERAND: as the operands. */
uint32_t driver_stored_dtype(const AuAttn *a, uint32_t tensor);
/* The axes of k (1), v (2) as they lie: two codes of 4 bits are one element. */
void driver_place_codes(AuAttn *a, uint32_t tensor, AuExpr *axes);

#endif
