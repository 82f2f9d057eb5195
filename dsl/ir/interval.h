/* interval.h - between which numbers an expression lies, whatever tensors hold. NaN is not considered: a bound holds
 * for what is a number. */
#ifndef AU_DSL_ATTN_INTERVAL_H
#define AU_DSL_ATTN_INTERVAL_H

#include "attn.h"

typedef struct AuInterval {
    double low, high;
} AuInterval;

/* Of all nodes that [e] is made of, by index. */
AuInterval *attn_intervals(const AuAttn *a, AuExpr e, AuArena *scratch);
AuInterval attn_interval(const AuAttn *a, AuExpr e, AuArena *scratch);

#endif
