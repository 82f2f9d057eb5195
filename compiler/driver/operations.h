/* operations.h - what the operations do with an artifact's tensors: the rows of aule/operations.def. */
#ifndef AU_DRIVER_OPERATIONS_H
#define AU_DRIVER_OPERATIONS_H

#include "schedule.h"

/* Is a tensor passed? POSSIBLE: it may be. */
typedef enum AuUse { AU_UNUSED, AU_NEEDED, AU_POSSIBLE } AuUse;

AuOperation operation_named(const char *name); /* as artifacts of this compiler have it */
AuUse operation_use(AuOperation operation, const aule_attention_v1 *attention,
                    const aule_tensor_v1 *tensor);
/* Of tensors by their role (aule_role) and their flags (AULE_TENSOR_*). */
bool operation_takes(AuOperation operation, uint32_t role, uint32_t flags);
bool operation_writes(AuOperation operation, uint32_t role, uint32_t flags);

#endif
