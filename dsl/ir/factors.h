/* factors.h - the factors of derived products put in order. A chain of multiplications and divisions
 * along a derivative mixes what varies with each pair and what does not: p * dp * 50 * (1 - t t) / 50 *
 * rsqrt(D). What varies comes first, what does not becomes one factor behind it, which is computed
 * once a row, its divisions with it. This rounds otherwise, so it is for what is derived, not for what
 * a script says. */
#ifndef AU_DSL_ATTN_FACTORS_H
#define AU_DSL_ATTN_FACTORS_H

#include "attn.h"

/* [along]: the axis of what varies, AU_AX_KV or AU_AX_C. Nodes that the [count] expressions [whole] are
 * made of stay as they are, for they are computed anyway. The result is simplified. */
AuExpr factors_in_order(AuAttn *a, AuExpr e, uint8_t along, const AuExpr *whole, uint32_t count);

#endif
