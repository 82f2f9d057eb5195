/* tensors.h - what an attention's kernels are given: the tensors of the artifact's descriptor in their order, with
 * the names that kernels have for them. */
#ifndef AU_DRIVER_TENSORS_H
#define AU_DRIVER_TENSORS_H

#include "gradient.h"

typedef struct AuTensorRow {
    const char *name;   /* in the descriptor: "lse", "dbias" */
    const char *kernel; /* in tiled kernels: "final_lse", "grad_3" */
    uint32_t role;      /* aule_role */
    AuDtype dtype;
    uint32_t stored;      /* aule_dtype of keys and values in 8 bits; AULE_OPERAND: as operands */
    uint32_t rank, flags; /* AULE_TENSOR_* */
    AuExpr axes[8];
    AuSpan span; /* what it comes from */
} AuTensorRow;

/* q, k, v, inputs, o, finals; of a recurrence state_in, [sum_in], state_out, [sum_out]; with gradients also [o_kept], NAME_kept, do, those of finals, dq, dk, [dv], those of inputs. */
/* Of a recurrence: the size that cu_seqlens has, which no script names. Of every attention that kernels are made of. */
void driver_add_sizes(AuAttn *a);
/* The size that counts what combine joins; with it driver_tensors has the tensors of unfinished and combine. */
void driver_add_parts(AuAttn *a);
/* Why there are none of an attention, simplified and without fixed widths; NULL: there are. */
const char *driver_parts_refusal(AuArena *arena, AuAttn *a);
AuTensorRow *driver_tensors(AuArena *arena, AuAttn *a, const AuGrads *grads, uint32_t *count);
/* No two have one name; false: a diagnostic with both places. */
bool driver_names_differ(AuArena *arena, AuDiags *diags, AuAttn *a, const AuGrads *grads);
/* That none of the first [sizes] sizes and no parameter of the script is called like a size that the compiler adds; false: a diagnostic. */
bool driver_is_free(AuDiags *diags, const AuAttn *a, uint32_t sizes, const char *name);
/* Whether an artifact has room for the attention; false: a diagnostic where it has more (artifact.h says how many). */
bool driver_fits(AuArena *arena, AuDiags *diags, AuAttn *a, const AuGrads *grads);
/* Sizes that must be known when compiling, by size: the last axes of q, k and v, and the axes that
 * further products contract. Sets those of [is_width] that are and are not fixed yet. */
void driver_find_widths(const AuAttn *a, bool *is_width);

#endif
