/* append.h - the operation `append` (docs/dev/operations.md): what an attention has for it beside the script's tensors. */
#ifndef AU_DRIVER_APPEND_H
#define AU_DRIVER_APPEND_H

#include "attn.h"
#include "kernel.h"

#include "aule/artifact.h"

/* NULL, or why an attention has no cache that rows are appended to. After layouts and storage. */
const char *driver_append_refusal(const AuAttn *a);
/* Adds the sizes AuNewSize, with which driver_tensors has the tensors. false: a name is taken, a diagnostic says by what. */
bool driver_add_append(AuDiags *diags, AuAttn *a);
/* May a call say where each row goes? Not of modified rows, whose mods ask for the place in the sequence. */
bool driver_has_slots(const AuAttn *a);
AuExpr driver_new_size(AuAttn *a, AuNewSize which);
/* AULE_TENSOR_CACHED, AULE_TENSOR_APPENDED of an input, or 0. */
uint32_t driver_append_flags(const AuAttn *a, uint32_t tensor);
/* What its kernels do to memory, as a kernel that does nothing else: forward comes behind them. NULL: the attention has none. */
AuKernel *driver_append_writes(AuArena *arena, const AuAttn *a);

#endif
